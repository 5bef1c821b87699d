"""``dst2r cv``: what cross-validation says of every rank and penalty."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from dst2r import DST2RCV
from dst2r.cli.facts import model_facts
from dst2r.cli.fit import Plan, fitted
from dst2r.cli.output import Voice, progress
from dst2r.cli.predict import load_model
from dst2r.io import write_table
from dst2r.persistence import save
from dst2r.report.evidence import Choice

CELL = 11  # characters of a rank's column


def run(
    data: list[str],
    plan: Plan,
    *,
    statistics: bool,
    mask: Path | None,
    out: Path | None,
    table: Path | None,
    voice: Voice,
) -> None:
    """Cross-validate, or take what a model's file tells of it, and show the surface.

    Parameters
    ----------
    data : list of str
        Specifications of X and Y, paths of statistics, or the path of one model.
    plan : Plan
    statistics : bool
        Whether ``data`` names statistics.
    mask : Path, optional
        Of predictors that are images.
    out, table : Path, optional
        For the fitted model, and for the whole surface; free to be written.
    voice : Voice
    """
    if len(data) == 1 and not statistics:
        with progress("Reading", quiet=voice.quiet):
            model = load_model(Path(data[0]))
        if not isinstance(model, DST2RCV):
            raise ValueError(
                f"{data[0]} holds a {type(model).__name__} that was not chosen by cross-validation: "
                "give X and Y, or a model of dst2r fit with several ranks."
            )
    else:
        model = fitted(data, plan, voice, statistics=statistics, mask=mask)
    choice = Choice.of(model)
    columns = surface(choice)
    facts = {
        "rule": model.rule,
        "n_folds": len(choice.surface.loss),
        "l2": model.l2_,
        "l2_candidates": model.cv_results_["l2"],
        "l2_test_loss": model.cv_results_["l2_test_loss"],
        "surface": columns,
    }
    for name in ("least", "within", "chosen"):
        row, column = point = getattr(choice, name)
        facts[name] = {
            "rank": choice.rank(point),
            "l1": choice.l1(point),
            "test_loss": float(choice.mean[row, column]),
            "n_parameters": choice.numbers(point),
        }
    if out is not None:
        save(model, out, overwrite=True)
        facts["model"] = model_facts(model)
    if table is not None:
        write_table(table, columns, overwrite=True)
    if not voice.quiet and not voice.json:
        show(Console(highlight=False), choice, facts)
    voice.result(out or table, facts)


def surface(choice: Choice) -> dict[str, Any]:
    """The surface as columns, a row for every rank and penalty."""
    found = choice.surface
    rows, columns = (axis.ravel() for axis in np.indices(choice.mean.shape))
    kind = {choice.least: "min", choice.within: "1se"}
    both = choice.least == choice.within
    marks = [kind.get((int(i), int(j)), "") for i, j in zip(rows, columns, strict=True)]
    return {
        "rank": [int(found.ranks[i]) for i in rows],
        "l1": [float(found.l1[j]) for j in columns],
        "test_loss": choice.mean.ravel(),
        "error_of_difference": choice.error.ravel(),
        "n_parameters": found.n_parameters.mean(axis=0).ravel(),
        **{f"fold{k + 1}": loss.ravel() for k, loss in enumerate(found.loss)},
        "mark": ["min+1se" if both and mark else mark for mark in marks],
    }


def show(console: Console, choice: Choice, facts: dict[str, Any]) -> None:
    """Print the mean test losses: a row for each penalty, a column for each rank, in as many parts as are needed."""
    ranks = choice.surface.ranks
    most = max(1, (console.width - 12) // CELL)
    console.print(f"Mean test loss over {facts['n_folds']} folds, by penalty and rank [dim](half the squared error)[/]")
    for start in range(0, len(ranks), most):
        table = Table(box=box.SIMPLE_HEAD)
        table.add_column("l1", justify="right")
        for rank in ranks[start : start + most]:
            table.add_column(f"rank {rank}", justify="right")
        for j, l1 in enumerate(choice.surface.l1):
            cells = [cell(choice, i, j) for i in range(start, min(start + most, len(ranks)))]
            table.add_row(f"{l1:.3g}", *cells)
        console.print(table)
    for mark, name, words in (("<", "least", "least loss"), ("*", "within", "smallest within one standard error")):
        point = facts[name]
        taken = "  [bold]chosen[/]" if point == facts["chosen"] else ""
        console.print(
            f"{mark} {words}: rank {point['rank']}, l1 {point['l1']:.3g}, loss {point['test_loss']:.4g}, "
            f"{point['n_parameters']:.0f} numbers (mean over folds){taken}",
            soft_wrap=True,
        )
    if len(facts["l2_candidates"]) > 1:
        console.print(f"l2 {facts['l2']:g} of {', '.join(f'{value:g}' for value in facts['l2_candidates'])}")


def cell(choice: Choice, i: int, j: int) -> str:
    """A loss with its marks; a dash where a model was no candidate."""
    if not np.isfinite(choice.mean[i, j]):
        return "[dim]-[/]  "
    marks = ("<" if (i, j) == choice.least else "") + ("*" if (i, j) == choice.within else "")
    text = f"{choice.mean[i, j]:#.4g}"
    return f"[bold]{text}[/]{marks:2}" if marks else f"{text}  "
