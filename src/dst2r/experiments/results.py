"""Means and standard errors, the CSV files, and what the numbers say in words."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dst2r.experiments.methods import METHODS
from dst2r.experiments.runner import Row
from dst2r.experiments.settings import Design, printed
from dst2r.search import MAX_STEPS

KINDS = {"factors": "factors", "response": "response factors", "coef": "support of B"}  # what is scored
RATES = tuple(f"{rate}_{kind}" for kind in KINDS for rate in ("tpr", "fpr"))
MEASURES = ("error", "relative_error", *RATES, "ideal_tpr")
DESIGN_FIELDS = tuple(field.name for field in fields(Design))


@dataclass(frozen=True)
class Summary:
    """Means over the repeats of a method in a setting, and their standard errors; nan where nothing applies."""

    design: Design
    method: str
    n: int
    mean: dict[str, float]
    se: dict[str, float]

    @property
    def scored(self) -> str:
        """What TPR and FPR are of: all factors, else those that the method has, else the support of B."""
        return next(kind for kind in KINDS if not math.isnan(self.mean[f"tpr_{kind}"]))

    def rates(self, kind: str | None = None) -> tuple[float, float]:
        """TPR and FPR."""
        kind = kind or self.scored
        return self.mean[f"tpr_{kind}"], self.mean[f"fpr_{kind}"]


@dataclass(frozen=True)
class Verdict:
    """A statement, and whether the numbers bear it out."""

    holds: bool
    text: str


class Results:
    """All cells of an experiment.

    Attributes
    ----------
    rows : list of dict
    designs : list of Design
    methods : list of str
    table : dict
        :class:`Summary` by (design, method).
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = list(rows)
        self.groups: dict[tuple[Design, str], list[Row]] = {}
        for row in rows:
            design = Design(**{name: row[name] for name in DESIGN_FIELDS})
            self.groups.setdefault((design, row["method"]), []).append(row)
        self.designs = list(dict.fromkeys(design for design, _ in self.groups))
        self.methods = list(dict.fromkeys(method for _, method in self.groups))
        self.table = {key: _summary(*key, group) for key, group in self.groups.items()}

    def values(self, design: Design, method: str, measure: str = "error") -> np.ndarray:
        """One number for each repeat, in the order of the repeats."""
        return np.array([row[measure] for row in self.groups[design, method]], dtype=float)

    def mean(self, design: Design, method: str, measure: str = "error") -> float:
        """Mean over the repeats."""
        return self.table[design, method].mean[measure]

    def competitors(self, *but: str) -> list[str]:
        """Methods that compete, without some."""
        return [method for method in self.methods if METHODS[method].competes and method not in but]

    def over_oracle(self, design: Design, method: str) -> tuple[float, float]:
        """Geometric mean of the errors over the oracle's, and the standard error of its logarithm."""
        return self.ratio(design, method, "oracle")

    def ratio(self, design: Design, method: str, other: str) -> tuple[float, float]:
        """Geometric mean of one method's errors over another's on the same data; standard error of its logarithm."""
        logs = np.log(self.values(design, method) / self.values(design, other))
        return float(np.exp(logs.mean())), _standard_error(logs)


def _summary(design: Design, method: str, rows: list[Row]) -> Summary:
    columns = {name: np.array([row[name] for row in rows], dtype=float) for name in (*MEASURES, "seconds")}
    kept = {name: column[np.isfinite(column)] for name, column in columns.items()}
    return Summary(
        design,
        method,
        len(rows),
        {name: float(column.mean()) if column.size else math.nan for name, column in kept.items()},
        {name: _standard_error(column) for name, column in kept.items()},
    )


def _standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / math.sqrt(values.size)) if values.size > 1 else math.nan


# CSV ------------------------------------------------------------------------------------------------------------------


def cells_csv(results: Results) -> str:
    """Every data set and method, without times: the same seed gives the same file, byte for byte."""
    extra = ("repeat", "data_seed", "sigma", "method")
    names = (*DESIGN_FIELDS, *extra, *MEASURES, "rank_found", "cut_short", "not_converged")
    return _csv(names, ([row[name] for name in names] for row in results.rows))


def summary_csv(results: Results) -> str:
    """Means and standard errors beside the paper's figures, without times."""
    ours = [f"{name}{part}" for name in MEASURES for part in ("", "_se")]
    theirs = ("paper_error", "paper_error_se", "paper_tpr", "paper_fpr")
    lines = []
    for (design, method), s in results.table.items():
        paper = printed(design, method)
        numbers = [part[name] for name in MEASURES for part in (s.mean, s.se)]
        known = ["", "", "", ""] if paper is None else [paper.error, paper.se, paper.tpr, paper.fpr]
        lines.append([*(getattr(design, name) for name in DESIGN_FIELDS), method, s.n, *numbers, *known])
    return _csv((*DESIGN_FIELDS, "method", "repeats", *ours, *theirs), lines)


def times_csv(results: Results) -> str:
    """Seconds of every fit, tuning included."""
    names = (*DESIGN_FIELDS, "repeat", "method", "seconds")
    return _csv(names, ([row[name] for name in names] for row in results.rows))


def _csv(names: Iterable[str], lines: Iterable[Sequence[Any]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_csv_cell(value) for value in line] for line in lines)
    return file.getvalue()


def _csv_cell(value: Any) -> str:
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.10g}"
    return "" if value is None else str(value)


# Words ----------------------------------------------------------------------------------------------------------------


def table_verdicts(results: Results) -> list[Verdict]:
    """What should hold in the paper's tables; every setting where it does not is named."""
    return [
        _below_printed_method(results),
        _best_of_all(results),
        _below_paper(results),
        _finds_the_zeros(results),
        _dominated(results),
    ]


def _verdict(claim: str, designs: Sequence[Design], failures: Sequence[str]) -> Verdict:
    if not failures:
        return Verdict(True, f"{claim}: in all {len(designs)} settings.")
    return Verdict(False, f"{claim}: not in {'; '.join(failures)}.")


def _below_printed_method(results: Results) -> Verdict:
    ours = {d: (results.mean(d, "dst2r"), results.mean(d, "printed")) for d in results.designs}
    failures = [f"{d.label} ({a:.3g} against {b:.3g})" for d, (a, b) in ours.items() if not a < b]
    return _verdict("DST2R's error is below that of DST2R as printed", results.designs, failures)


def _best_of_all(results: Results) -> Verdict:
    failures = []
    for design in results.designs:
        best = min(results.competitors("dst2r"), key=lambda method: results.mean(design, method))
        if not results.mean(design, "dst2r") < results.mean(design, best):
            told = f"{results.mean(design, best):.3g} against {results.mean(design, 'dst2r'):.3g}"
            failures.append(f"{design.label} ({METHODS[best].label} is better, {told})")
    return _verdict("DST2R's error is the least of all methods", results.designs, failures)


def _below_paper(results: Results) -> Verdict:
    failures, compared = [], []
    for design in results.designs:
        if (paper := printed(design, "dst2r")) is not None:
            compared.append(design)
            if not results.mean(design, "dst2r") < paper.error:
                failures.append(f"{design.label} ({results.mean(design, 'dst2r'):.3g}, printed {paper.error:.3g})")
    return _verdict("DST2R's error is below the paper's own figure for DST2R", compared, failures)


def _finds_the_zeros(results: Results) -> Verdict:
    rates = {d: results.table[d, "dst2r"].rates() for d in results.designs}
    failures = [
        f"{d.label} ({t:.3f}, {f:.3f}; an ideal test at FPR 0.02 finds {results.mean(d, 'oracle', 'ideal_tpr'):.3f})"
        for d, (t, f) in rates.items()
        if not (t >= 0.94 and f <= 0.02)
    ]
    return _verdict("DST2R's TPR is at least 0.94 and its FPR at most 0.02", results.designs, failures)


def _dominated(results: Results) -> Verdict:
    """Compare like with like: all factors, response factors, supports of B."""
    failures = []
    for design in results.designs:
        for kind, told in KINDS.items():
            tpr, fpr = results.table[design, "dst2r"].rates(kind)
            for method in results.competitors("dst2r"):
                other = results.table[design, method].rates(kind)
                if other[0] > tpr and other[1] < fpr:
                    failures.append(f"{design.label} ({METHODS[method].label} on the {told})")
    return _verdict("No method has both a higher TPR and a lower FPR than DST2R", results.designs, failures)


def landscape_words(results: Results) -> list[str]:
    """Where each method wins, and where DST2R loses."""
    winners: dict[str, list[Design]] = {}
    losses = []
    for design in results.designs:
        best = min(results.competitors(), key=lambda method: results.over_oracle(design, method)[0])
        winners.setdefault(best, []).append(design)
        if best != "dst2r":
            ratio, se = results.ratio(design, "dst2r", best)
            clear = math.log(ratio) > 2 * se
            doubt = "" if clear else ", within two standard errors of a draw"
            place = f"Loses at {design.level}, {design.label}"
            losses.append(f"{place}: {ratio:.2f} times the error of {METHODS[best].label}{doubt}")
    lines = [
        f"{METHODS[method].label} has the least error in {len(designs)} of {len(results.designs)} settings."
        for method, designs in sorted(winners.items(), key=lambda item: -len(item[1]))
    ]
    never = [METHODS[method].label for method in results.competitors() if method not in winners]
    if never:
        lines.append(f"Never the best: {', '.join(never)}.")
    lines.append(
        "DST2R loses nowhere." if not losses else f"DST2R loses in {len(losses)} setting{'s' * (len(losses) > 1)}."
    )
    return lines + [f"{loss}." for loss in losses]


def sweep_words(results: Results) -> list[str]:
    """Whether each printed error can be had at some σ, and whether one σ serves all."""
    lines, wanted = [], []
    for design in _one_per_problem(results):
        for method in results.methods:
            paper = printed(design, method)
            if paper is None:
                continue
            sigma, least, most = implied_sigma(results, design, method)
            name = f"{_where(design)}, {METHODS[method].label}"
            if math.isnan(sigma):
                side = "above" if paper.error > most else "below"
                told = f"printed {paper.error:.3g} is {side} all our errors, {least:.3g} to {most:.3g}"
                lines.append(f"{name}: {told}; no σ reaches it.")
            else:
                wanted.append(sigma)
    if wanted:
        between = f"σ from {min(wanted):.2g} to {max(wanted):.2g} (median {np.median(wanted):.2g})"
        one = "no single σ gives them" if max(wanted) > 1.5 * min(wanted) else "they nearly agree"
        lines.append(f"The other {len(wanted)} printed errors ask for {between}: {one}.")
    return lines


def implied_sigma(results: Results, design: Design, method: str) -> tuple[float, float, float]:
    """Find the σ at which our mean error is the printed one, and our least and largest mean errors.

    By interpolation on logarithmic scales between the first neighbours that enclose the printed error; nan if none do.
    """
    paper = printed(design, method)
    same = sorted((d for d in results.designs if d.problem == design.problem), key=lambda d: d.noise or 0.0)
    errors = np.array([results.mean(d, method) for d in same])
    target = math.nan if paper is None else paper.error
    for k in range(len(same) - 1):
        low, high = errors[k], errors[k + 1]
        if min(low, high) <= target <= max(low, high):
            share = math.log(target / low) / math.log(high / low) if high != low else 0.0
            first, second = (d.noise or 0.0 for d in same[k : k + 2])
            return first * (second / first) ** share, float(errors.min()), float(errors.max())
    return math.nan, float(errors.min()), float(errors.max())


def _one_per_problem(results: Results) -> list[Design]:
    return list({design.problem: design for design in results.designs}.values())


def _where(design: Design) -> str:
    return f"{'Table 1' if len(design.y_shape) == 3 else 'Table 2'}, {design.label}"


def step_size_words(results: Results) -> list[str]:
    """Whether error and sparsity coverage rise or fall with ε."""
    (design,) = results.designs
    lines = []
    for stage in ("printed", "dst2r"):
        for measure, told in (("error", "error"), ("coverage", "sparsity coverage")):
            epsilon, values = step_size_curve(results, design, stage, measure)
            order = np.corrcoef(np.argsort(np.argsort(epsilon)), np.argsort(np.argsort(values)))[0, 1]
            trend = "rises" if order > 0.5 else "falls" if order < -0.5 else "neither rises nor falls"
            spread = f"from {values[0]:.3g} at ε = {epsilon[0]:g} to {values[-1]:.3g} at ε = {epsilon[-1]:g}"
            if np.ptp(values) <= 0.05 * np.abs(values).max():
                trend = "stays within 5 %"
            lines.append(f"{METHODS[stage].label}: {told} {trend} with ε, {spread}.")
    return lines + [_cut_short(results, method) for method in results.methods if _n_cut(results, method)]


def _n_cut(results: Results, method: str) -> int:
    return sum(row["cut_short"] for row in results.rows if row["method"] == method)


def _cut_short(results: Results, method: str) -> str:
    components = sum(row["rank"] for row in results.rows if row["method"] == method)
    cut = f"the search's limit of {MAX_STEPS:,} steps cut {_n_cut(results, method)} of {components} components short"
    return f"{METHODS[method].label}: {cut}."


def step_size_curve(results: Results, design: Design, stage: str, measure: str) -> tuple[np.ndarray, np.ndarray]:
    """Values against ε; coverage is the share of the zero factor entries that are found, 1 - FPR."""
    epsilon = np.array([float(m.rpartition("_")[2]) for m in results.methods if m.startswith(stage)])
    methods = [f"{stage}_eps_{value:g}" for value in epsilon]
    if measure == "coverage":
        return epsilon, np.array([1.0 - results.mean(design, method, "fpr_factors") for method in methods])
    return epsilon, np.array([results.mean(design, method, measure) for method in methods])
