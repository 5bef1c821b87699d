"""Write a report: fill the template with what the other modules prepare."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dst2r._files import written_whole
from dst2r.cp import Array
from dst2r.report.cards import card, reading
from dst2r.report.evidence import (
    MOST_CELLS,
    MOST_ROWS,
    Axis,
    Choice,
    Position,
    Quality,
    axes_of,
    combinations,
    components,
    positions_of,
    reported,
    rows_and_columns,
)
from dst2r.report.markup import bullets, chart, definitions, figure, paragraphs, table, wide_table
from dst2r.report.words import (
    USELESS,
    Remark,
    count,
    decimals,
    explains,
    fit_sentence,
    glossary,
    how_chosen,
    percent,
    remarks,
    short,
    summary,
    title,
)

LIBRARIES = ("dst2r", "numpy", "scipy", "scikit-learn", "numba", "tensorly")
MOST_COLUMNS = 16  # of a table of R²; more are drawn
MOST_LISTED = 10  # response entries that are listed in full


def write_report(model: Any, path: str | os.PathLike[str], X: Any = None, Y: Any = None) -> Path:
    """Write one HTML file that tells what was fitted, how it was chosen, what was found and how well it fits.

    The file holds all that it shows (a slider along the path, too), asks no network for anything and stays below 5 MB.

    Parameters
    ----------
    model : DST2R or DST2RCV
        Fitted.
    path : path-like
        Of the file; an older one is replaced as a whole.
    X, Y : array-like, optional
        Samples on which the quality of the fit is shown: those of the fit or, better, others.

    Returns
    -------
    Path
        Where the report was written.

    Examples
    --------
    >>> from dst2r.report import write_report
    >>> write_report(model, "report.html", X, Y)  # doctest: +SKIP
    """
    text = report_html(model, X, Y)
    with written_whole(path, overwrite=True) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return Path(path)


def report_html(model: Any, X: Any = None, Y: Any = None) -> str:
    """The report as a text; see :func:`write_report`."""
    _check(model, X, Y)
    axes = axes_of(model)
    positions = positions_of(model)
    own = positions[reported(positions)]
    on_path = len(positions) - (own.on_path is None)
    left_out = 0 if model.path_ is None else len(model.path_.l1) - on_path
    choice = Choice.of(model) if hasattr(model, "cv_results_") else None
    quality = None if X is None else Quality.of(model, X, Y)
    parts = components(positions, axes)
    for part in parts:
        part["readings"] = [reading(part, axes, t) for t in range(len(positions))]
    evidence = {
        "path": _path(model, positions),
        "components": parts,
        "choice": None if choice is None else choice.to_json(),
        "criterion": _criterion(model),
        "quality": None if quality is None else quality.to_json([axis for axis in axes if axis.side == "Y"]),
    }
    folder = files("dst2r.report")
    style, script = ((folder / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    now = datetime.now(UTC)
    return Template((folder / "template.html").read_text(encoding="utf-8")).substitute(
        policy=_policy(style, script),
        version=version("dst2r"),
        title=escape(title(axes)),
        style=style,
        meta=f"Written on {now:%-d %B %Y} with dst2r {version('dst2r')}.",
        summary=paragraphs(summary(model, axes, own, quality)),
        tiles=_tiles(model, own, quality),
        remarks=_remarks(remarks(model, axes, positions, choice, quality)),
        data=_data(model, axes),
        choice=_choice(model, choice, left_out),
        components=_components(model, axes, positions, parts, left_out),
        quality=_quality(axes, own, quality),
        again=_again(model, quality, now),
        glossary=definitions(glossary(model, choice)),
        evidence=_json(evidence),
        script=script,
    )


def _check(model: Any, X: Any, Y: Any) -> None:
    check_is_fitted(model)
    if not hasattr(model, "null_loss_"):
        raise ValueError(f"a report needs a fitted DST2R or DST2RCV, not {type(model).__name__}.")
    if (X is None) != (Y is None):
        raise ValueError(
            f"{'Y' if X is None else 'X'} was given without {'X' if X is None else 'Y'}: give both or none."
        )


def _policy(style: str, script: str) -> str:
    """Content security policy: nothing but this file's own style and script, and no connection."""
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    return (
        f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _json(value: Any) -> str:
    """JSON that no label can end before its time: '<' and '&' never appear in it."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _path(model: Any, positions: Sequence[Position]) -> dict[str, Any]:
    return {
        "l1": [position.l1 for position in positions],
        "loss": [float(f"{position.loss:.5g}") for position in positions],
        "explained": [None if math.isnan(position.explained) else position.explained for position in positions],
        "numbers": [position.n_parameters for position in positions],
        "criterion": [position.criterion if np.isfinite(position.criterion) else None for position in positions],
        "reported": reported(positions),
        "texts": [_position(position, _criterion(model)) for position in positions],
    }


def _position(position: Position, name: str | None) -> str:
    """What a slider's point is, in words; also read aloud."""
    share = "" if math.isnan(position.explained) else f", {percent(position.explained)} explained"
    score = (
        f", {name} {position.criterion:,.0f}".replace("-", "−") if name and math.isfinite(position.criterion) else ""
    )
    own = " (the reported model)" if position.reported else ""
    return f"l1 = {short(position.l1)}: {count(position.n_parameters, 'number')}{share}{score}{own}"


def _criterion(model: Any) -> str | None:
    """Name of the criterion that made the choice, if one did."""
    name = getattr(model, "l1", None)
    return name.upper() if isinstance(name, str) else None


def _tiles(model: Any, own: Position, quality: Quality | None) -> str:
    tiles = [
        ("samples", count(model.n_samples_)),
        ("component" if model.rank_ == 1 else "components", f"{model.rank_}"),
        (f"numbers, for {count(model.coef_.size)} weights", count(model.n_parameters_)),
    ]
    if not math.isnan(own.explained):
        tiles.append(("of Y explained on the data of the fit", percent(own.explained)))
    if quality is not None and not quality.training:
        tiles.append(("of Y explained on other data", percent(quality.pooled)))
    return definitions(tiles)


def _remarks(found: Sequence[Remark]) -> str:
    if not found:
        fine = "Nothing in this fit calls for a warning: it settled, and its choices lie inside what was tried."
        return f'<p class="fine">{fine}</p>'
    items = "".join(
        f'<div class="remark"><h4>{escape(remark.title)}</h4><p>{escape(remark.text)}</p>'
        f"<p><strong>What to do:</strong> {escape(remark.remedy)}</p></div>"
        for remark in found
    )
    return f"<h3>Know before you use it</h3>{items}"


def _data(model: Any, axes: Sequence[Axis]) -> str:
    rows = []
    for axis in axes:
        role = "X, predictor" if axis.side == "X" else "Y, response"
        some = ", ".join(axis.labels[:4]) + (f", … {axis.labels[-1]}" if len(axis) > 4 else "")
        some = some if axis.named else "no labels; numbered from 0"
        rows.append([escape(axis.name), role, count(len(axis)), escape(some)])
    if axes[-1].side == "X":
        rows.append(["one number", "Y, response", "1", ""])
    along = "" if model.labels_ is None else f" (along “{model.labels_.sample}”)"
    l2 = getattr(model, "l2_", model.l2)
    facts = [
        f"{count(model.n_samples_)} samples{along}.",
        f"{'A' if model.fit_intercept else 'No'} constant is fitted for every response entry.",
        "Every predictor entry was divided by its standard deviation; components are in these units."
        if model.standardize
        else "Predictors and responses are in their own units.",
        f"A ridge of l2 = {short(l2)} steadies the fit." if l2 else "No ridge was used (l2 = 0).",
        f"How the data were held: {model.statistics_}.",
    ]
    modes = table("The modes of predictor and response", ["Mode", "Role", "Entries", "Labels"], rows, "text")
    return modes + bullets(facts)


def _choice(model: Any, choice: Choice | None, left_out: int) -> str:
    words = paragraphs(how_chosen(model, choice))
    name = _criterion(model)
    if choice is not None:
        caption = (
            "Mean test loss of every rank and penalty that were tried: the stronger the colour, the lower. ● lowest, "
            "◆ smallest model within one standard error; the frame marks the choice. Empty cells are no candidates."
        )
        return words + chart("surface", caption) + _best_of_ranks(choice)
    if name is None or model.path_ is None:
        return words
    return words + chart("criterion", f"{name} along the path. The ring marks the chosen penalty.{_missing(left_out)}")


def _missing(left_out: int) -> str:
    if not left_out:
        return ""
    points = "1 point is" if left_out == 1 else f"{left_out} points are"
    return f" {points} left out, where the path needs too many numbers for these data or is only a rough approximation."


def _best_of_ranks(choice: Choice) -> str:
    marks = (
        (choice.least, "●"),
        (choice.within, "◆"),
        (choice.chosen, "chosen"),
    )
    best = {(row, int(np.argmin(means))) for row, means in enumerate(choice.mean) if np.isfinite(means).any()}
    rows = []
    for point in sorted(best | {point for point, _ in marks}):
        above, error = choice.mean[point] - choice.mean[choice.least], choice.error[point]
        spread = f" ± {error:.2g}" if np.isfinite(error) else ""
        rows.append(
            [
                str(choice.rank(point)),
                short(choice.l1(point)),
                f"{choice.mean[point]:.4g}",
                "–" if point == choice.least else f"{above:.2g}{spread}",
                count(choice.numbers(point)),
                " ".join(text for at, text in marks if at == point),
            ]
        )
    head = ["Rank", "Penalty l1", "Mean test loss", "Above the lowest", "Numbers", "Mark"]
    return table("The best penalty of each rank, and the marked points", head, rows, "marked")


def _components(
    model: Any, axes: Sequence[Axis], positions: Sequence[Position], parts: Sequence[dict[str, Any]], left_out: int
) -> str:
    if not parts:
        return paragraphs(["The model has no component, so there is nothing to show: it predicts the mean of Y."])
    words = [
        "Each card is one component: a list of values for every mode. Bars to the right are positive, bars to the left "
        "negative, each list to the scale of its largest value; a hollow dot is an exact zero. It says that samples "
        "with the predictor's pattern, high where bars point right and low where they point left, have the response's "
        "pattern, in the same sense."
    ]
    start = reported(positions)
    if len(positions) > 1:
        words.append(
            "The slider moves along the path, from the smallest penalty, on the left, to ever simpler models. It "
            "starts at the reported model."
        )
        along = _slider(model, positions, start, left_out)
    else:
        along = paragraphs(["There is no path to slide along: this is the only model."])
    heaviest = max(weight for part in parts for weight in part["weights"])
    return paragraphs(words) + along + "".join(card(r, part, axes, start, heaviest) for r, part in enumerate(parts))


def _slider(model: Any, positions: Sequence[Position], start: int, left_out: int) -> str:
    own = positions[start]
    refined = ""
    if own.on_path not in (None, own.n_parameters):
        before = count(own.on_path or 0, "number")
        refined = f" (the path itself has {before} there; single entries were then dropped or admitted)"
    caption = (
        "Variation of Y that is explained on the data of the fit (line), and numbers that the model needs (steps), "
        f"along the path. The ring is the reported model{refined}; the dashed line is where the slider stands."
        f"{_missing(left_out)}"
    )
    return (
        '<div class="slider" role="group" aria-label="Slider along the path">'
        '<label for="along">Penalty l1: the larger, the simpler</label><div class="row">'
        f'<input type="range" id="along" min="0" max="{len(positions) - 1}" step="1" value="{start}">'
        '<button type="button" id="home">Reported model</button></div>'
        f'<output id="shown" for="along">{escape(_position(own, _criterion(model)))}</output></div>'
        f"{chart('path', caption)}"
    )


def _quality(axes: Sequence[Axis], own: Position, quality: Quality | None) -> str:
    if quality is None:
        return paragraphs(
            [
                f"No data came with this report, so single response entries cannot be judged. {fit_sentence(own)}",
                "With data, this section shows R² of every response entry and predicted against observed values: "
                "dst2r report MODEL --data X Y, or write_report(model, path, X, Y) in Python.",
            ]
        )
    responses = [axis for axis in axes if axis.side == "Y"]
    return _quality_words(quality) + _r2(responses, quality) + _scatter(quality)


def _quality_words(quality: Quality) -> str:
    which = "the data of the fit" if quality.training else "other data than those of the fit"
    samples, known = count(quality.n, "sample"), quality.r2[np.isfinite(quality.r2)]
    text = f"Predictions of Y for {samples} of {which} {explains(quality.pooled)}."
    if known.size > 1:
        low, middle, high = (decimals(value) for value in np.quantile(known, [0, 0.5, 1]))
        text += f" Entry by entry R² runs from {low} to {high}, with a median of {middle}."
    if known.size < quality.r2.size:
        constant = count(quality.r2.size - known.size, "response entry", "response entries")
        text += f" No R² exists for {constant} that did not vary in these data."
    return paragraphs([text])


def _r2(axes: Sequence[Axis], quality: Quality) -> str:
    """R² of every entry: as a table of shaded cells, drawn where that is too wide, or only counted."""
    size = quality.r2.size
    if size == 1:
        return ""
    rows = [[escape(name), decimals(value)] for name, value in quality.extremes(axes, MOST_LISTED // 2)]
    caption = "The worst and the best predicted response entries"
    if size <= MOST_LISTED:
        caption = "R² of every response entry, worst first"
    lists = table(caption, ["Response entry", "R²"], rows)
    if len(axes) == 1 and size <= MOST_LISTED:
        return lists
    counts = chart("histogram", "How many response entries have which R²; those below −0.1 are counted at −0.1.")
    if size > MOST_CELLS:
        return counts + lists
    down, _ = rows_and_columns(axes)
    cells = quality.r2.reshape(math.prod(map(len, down)), -1)
    if cells.shape[1] <= MOST_COLUMNS and len(cells) <= MOST_ROWS:
        return _r2_table(axes, cells) + (lists if size > MOST_LISTED else "")
    return _r2_picture(axes, cells) + counts + lists


def _r2_table(axes: Sequence[Axis], cells: Array) -> str:
    def cell(value: float) -> str:
        return f'<td class="{_shade(value)}">{decimals(value) if np.isfinite(value) else "–"}</td>'

    down, across = map(combinations, rows_and_columns(axes))
    rows = "".join(
        f'<tr><th scope="row">{escape(label)}</th>{"".join(map(cell, row))}</tr>'
        for label, row in zip(down, cells, strict=True)
    )
    head = "".join(f'<th scope="col">{escape(name or "R²")}</th>' for name in across)
    return wide_table(_r2_caption(axes), f"<thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody>", "heat")


def _r2_picture(axes: Sequence[Axis], cells: Array) -> str:
    rows, names = map(combinations, rows_and_columns(axes))
    if len(axes) == 1:  # a single mode lies down
        cells, kind, run = cells.T, "cells row", f"From left to right: {rows[0]} to {rows[-1]}"
    else:
        across = f", columns from {names[0]} to {names[-1]}" if len(names) > 1 else ""
        kind, run = "cells", f"Rows run from {rows[0]} to {rows[-1]}{across}"
    drawn = "".join(
        f'<rect class="{_shade(value)}" x="{j}" y="{i}" width="1" height="1"/>'
        for i, row in enumerate(cells)
        for j, value in enumerate(row)
    )
    caption = f"{_r2_caption(axes)}: the stronger the colour, the better; orange is worse than the mean. {run}."
    svg = (
        f'<svg class="{kind}" viewBox="0 0 {cells.shape[1]} {len(cells)}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(caption)} The list below holds the extremes.">{drawn}</svg>'
    )
    return figure(svg, caption)


def _r2_caption(axes: Sequence[Axis]) -> str:
    if len(axes) == 1:
        return f"R² by {axes[0].name}"
    down, across = (" · ".join(axis.name for axis in some) for some in rows_and_columns(axes))
    return f"R² by {down} (rows) and {across} (columns)"


def _shade(value: float) -> str:
    """Class of a cell's colour."""
    if not np.isfinite(value):
        return "unknown"
    return "below" if value < USELESS else f"q{min(max(int(10 * value), 0), 9)}"


def _scatter(quality: Quality) -> str:
    caption, choice = "Every dot is a sample; on the line, prediction and observation agree.", ""
    if quality.r2.size > 1:
        choice = '<p><label for="entry">Response entry</label> <select id="entry"></select></p>'
        caption += " With all entries together, it is an entry of a sample, in units of its standard deviation."
    return f"<h3>Predicted against observed</h3>{choice}{chart('scatter', caption, square=True)}"


def _again(model: Any, quality: Quality | None, now: datetime) -> str:
    data = "" if quality is None else ", X, Y" if quality.training else ", other_X, other_Y"
    call = (
        f"from dst2r import {type(model).__name__}\nfrom dst2r.report import write_report\n\n"
        f"model = {model.__repr__(N_CHAR_MAX=10**6)}\nmodel.fit(X, Y)\n"
        f'write_report(model, "report.html"{data})'
    )
    rows = [["Python", platform.python_version()], *([name, version(name)] for name in LIBRARIES)]
    words = [
        f"In Python, with the same X and Y{' and the same other data' if 'other' in data else ''}, this gives the same "
        "model and this report. Where the fit had sample weights or groups, give them to fit, too."
    ]
    return (
        paragraphs(words)
        + f'<pre tabindex="0" aria-label="Python code"><code>{escape(call)}</code></pre>'
        + table(f"Versions on {now:%Y-%m-%d, %H:%M} UTC, when this was written", ["Library", "Version"], rows, "text")
    )


__all__ = ["report_html", "write_report"]
