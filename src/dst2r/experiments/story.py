"""What is told of each experiment: statements, tables and figures, all made from its results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from dst2r.experiments.figures import (
    as_picture,
    draw_errors,
    draw_growth,
    draw_landscape,
    draw_step_sizes,
    draw_sweep,
)
from dst2r.experiments.methods import IDEAL_FPR, METHODS
from dst2r.experiments.pages import Entry, Grid, Section
from dst2r.experiments.results import (
    Results,
    Summary,
    Verdict,
    implied_sigma,
    landscape_words,
    step_size_curve,
    step_size_words,
    sweep_words,
    table_verdicts,
)
from dst2r.experiments.settings import Design, Experiment, Printed, printed

NOTHING = "–"
MARKS = {"factors": "", "response": " *", "coef": " (B)"}


def tell(experiment: Experiment, results: Results) -> Section:
    """Tell an experiment."""
    return TELLERS[experiment.name](experiment, results)


def tell_table(experiment: Experiment, results: Results) -> Section:
    """Tables 1 and 2, in the paper's form: our figure with the paper's beside it."""
    n = min(s.n for s in results.table.values())
    return Section(
        experiment.title,
        text=[
            f"n = {results.designs[0].n_samples}, entries of X 0 or 1 with equal probability, "
            f"{'unit-norm' if results.designs[0].normalize else 'raw normal'} factors, {results.designs[0].level}. "
            f"Mean (standard error) of {_data_sets(n)}; “paper” is what the paper prints. "
            "The oracle knows which entries are zero. † is a test of each entry that knows all others, at a false "
            f"positive rate of {IDEAL_FPR:g}: no selection can be expected to find more at this noise."
        ],
        verdicts=[(verdict.holds, verdict.text) for verdict in _verdicts(results)],
        pictures=[
            as_picture(experiment.name, "Estimation error by method: ours, and the paper's.", draw_errors(results))
        ],
        grids=[
            _grid("Error, ‖estimate − truth‖", results, _error, best=lambda s: s.mean["error"]),
            _grid(
                "TPR / FPR of the factors; * of the response factors alone, (B) of the support of B", results, _rates
            ),
            _grid("TPR / FPR of the response factors", results, partial(_rates_of, "response")),
            _grid("TPR / FPR of the support of B", results, partial(_rates_of, "coef")),
            _grid(
                "Relative error",
                results,
                lambda s, _: _number(s, "relative_error"),
                best=lambda s: s.mean["relative_error"],
            ),
            _grid("Seconds, tuning included", results, lambda s, _: Entry(f"{s.mean['seconds']:.2f}")),
        ],
    )


def _data_sets(n: int) -> str:
    return f"{n} data set{'s' * (n > 1)}"


def _verdicts(results: Results) -> list[Verdict]:
    return table_verdicts(results) if {"dst2r", "printed"} <= set(results.methods) else []


def tell_step_sizes(experiment: Experiment, results: Results) -> Section:
    """Figure 2."""
    (design,) = results.designs
    rows = []
    for stage in ("printed", "dst2r"):
        for measure, told in (("error", "error"), ("coverage", "zeros found")):
            _, values = step_size_curve(results, design, stage, measure)
            rows.append((f"{METHODS[stage].label}, {told}", [Entry(f"{value:.3f}") for value in values]))
    epsilon, _ = step_size_curve(results, design, "printed", "error")
    n = min(s.n for s in results.table.values())
    return Section(
        experiment.title,
        text=[
            f"{design.label}, {design.level}, {'unit-norm' if design.normalize else 'raw normal'} factors, "
            f"mean of {_data_sets(n)}. Sparsity coverage is the share of the zero entries of the factors that are "
            "found. The paper does not tell its rank; 2 is ours. Its numbers are lost with its figure; its text says "
            "that the error rises with ε and that the coverage rises, its caption that both fall."
        ],
        points=step_size_words(results),
        pictures=[as_picture(experiment.name, "Error and sparsity coverage against ε.", draw_step_sizes(results))],
        grids=[Grid("Figures", ["", *(f"ε = {value:g}" for value in epsilon)], rows)],
    )


def tell_landscape(experiment: Experiment, results: Results) -> Section:
    """Heat maps, who wins where, and where DST2R loses."""
    n = min(s.n for s in results.table.values())
    return Section(
        experiment.title,
        text=[
            f"Unit-norm factors, 8×8×8 predictors, 4×4×4 responses, n = {results.designs[0].n_samples}; geometric "
            f"means of {_data_sets(n)}. Rows: rank and zeros. 1 is the error of the oracle, least squares that knows "
            "which entries are zero."
        ],
        points=landscape_words(results),
        pictures=[as_picture(experiment.name, "Error over that of the oracle.", draw_landscape(results))],
    )


def tell_growth(experiment: Experiment, results: Results) -> Section:
    """Greedy against corrected."""
    rows = [
        (
            METHODS[method].label,
            [Entry(f"{results.over_oracle(design, method)[0]:.2f}") for design in results.designs],
        )
        for method in results.competitors()
    ]
    first, last = results.designs[0], results.designs[-1]
    greedy, ours = ([results.over_oracle(d, m)[0] for d in (first, last)] for m in ("printed", "dst2r"))
    return Section(
        experiment.title,
        text=[
            f"{first.level}, {first.zeros:.0%} zeros, unit-norm factors. From R = {first.rank} to {last.rank} the "
            f"error of greedy deflation goes from {greedy[0]:.2f} to {greedy[1]:.2f} times the oracle's, that of DST2R "
            f"from {ours[0]:.2f} to {ours[1]:.2f} times."
        ],
        pictures=[
            as_picture(experiment.name, "Error over that of the oracle as the rank grows.", draw_growth(results))
        ],
        grids=[Grid("Error over the oracle's", ["", *(f"R = {d.rank}" for d in results.designs)], rows)],
    )


def tell_sweep(experiment: Experiment, results: Results) -> Section:
    """Which σ would give the printed errors."""
    last = list({design.problem: design for design in results.designs}.values())
    rows = []
    for method in results.methods:
        entries = []
        for design in last:
            sigma, least, most = implied_sigma(results, design, method)
            paper = printed(design, method)
            shown = "none" if math.isnan(sigma) else f"{sigma:.2g}"
            note = "" if paper is None else f"printed {paper.error:.3g}; ours {least:.2g} to {most:.2g}"
            entries.append(Entry(shown, note))
        rows.append((METHODS[method].label, entries))
    levels = ", ".join(f"{noise:g}" for noise in dict.fromkeys(d.noise for d in results.designs if d.noise is not None))
    return Section(
        experiment.title,
        text=[
            "The paper never states σ. Each method was run at σ = "
            f"{levels} on the same raw data; the table shows the σ, interpolated, at which its mean error is the "
            "printed one, and “none” where no σ is."
        ],
        points=sweep_words(results),
        pictures=[
            as_picture(experiment.name, "Mean error against σ; dashed: the printed errors.", draw_sweep(results))
        ],
        grids=[Grid("σ that gives the printed error", ["", *(_short(design) for design in last)], rows)],
    )


def _short(design: Design) -> str:
    return f"{'×'.join(map(str, design.y_shape))}, {design.label}"


TELLERS: dict[str, Callable[[Experiment, Results], Section]] = {
    "table1": tell_table,
    "table2": tell_table,
    "figure2": tell_step_sizes,
    "landscape": tell_landscape,
    "growth": tell_growth,
    "sweep": tell_sweep,
}


def tell_run(experiments: Sequence[Experiment], facts: Sequence[tuple[str, str]]) -> Section:
    """How the numbers came about."""
    methods = dict.fromkeys(
        method for experiment in experiments for method in experiment.methods if "_eps_" not in method
    )
    given = [(METHODS[method].label, METHODS[method].given) for method in methods]
    return Section("How this was made", facts=[*facts, *given])


def _grid(
    title: str,
    results: Results,
    entry: Callable[[Summary, Printed | None], Entry],
    best: Callable[[Summary], float] | None = None,
) -> Grid:
    """Methods as rows, settings as columns: narrow enough for a phone."""
    winners = {}
    if best is not None:
        for design in results.designs:
            winners[design] = min(results.competitors(), key=lambda method: best(results.table[design, method]))
    rows = []
    for method in results.methods:
        entries = []
        for design in results.designs:
            shown = entry(results.table[design, method], printed(design, method))
            entries.append(Entry(shown.text, shown.note, winners.get(design) == method))
        if any(shown.text != NOTHING for shown in entries):
            rows.append((METHODS[method].label, entries))
    return Grid(title, ["", *(design.label for design in results.designs)], rows)


def _number(s: Summary, name: str) -> Entry:
    se = "" if math.isnan(s.se[name]) else f" ({s.se[name]:.2g})"
    return Entry(f"{s.mean[name]:#.3g}{se}")


def _error(s: Summary, paper: Printed | None) -> Entry:
    return Entry(_number(s, "error").text, "" if paper is None else f"paper {paper.error:.2f} ({paper.se:.2f})")


def _rates(s: Summary, paper: Printed | None) -> Entry:
    if s.method == "oracle":
        return Entry(f"{s.mean['ideal_tpr']:.3f} / {IDEAL_FPR:.3f} †")
    tpr, fpr = s.rates()
    note = "" if paper is None else f"paper {_rate(paper.tpr)} / {_rate(paper.fpr)}"
    return Entry(f"{tpr:.3f} / {fpr:.3f}{MARKS[s.scored]}", note)


def _rate(rate: float) -> str:
    return max(f"{rate:.2f}", f"{rate:g}", key=len)


def _rates_of(kind: str, s: Summary, paper: Printed | None) -> Entry:
    tpr, fpr = s.rates(kind)
    return Entry(NOTHING if math.isnan(tpr) else f"{tpr:.3f} / {fpr:.3f}")
