"""``dst2r demo``: a fit to real or simulated data, told in words, tables and one figure."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dst2r import DST2RCV, GramStatistics, make_tensor_regression
from dst2r._files import written_whole
from dst2r.cli.output import progress
from dst2r.correction import least_squares
from dst2r.cp import Array, CPCoefficient
from dst2r.metrics import estimation_error, pooled_r2, relative_error, selection_rates
from dst2r.simulation import TensorRegression

N_ISOTYPES = 6
# TensorLy gives no patient ids, and 438 samples come from 231 patients. These folds were made from the original table
# (Zohar et al. 2020) so that all samples of a patient share one; with random rows R² would be 0.012 too high.
PATIENT_FOLDS = (
    "0004343140121041304321322401433000244021334313143333143231403202333420232100002412213004121314240203"
    "2202401304232222210201224224241020403021314210404300044114204202022222043420211211231022224240242123"
    "2443002123140244241023033042142133102104100231400310123002211321433042203330430444213021040142113124"
    "3240113400210322132314401024412004211013013312230413000112121022221121302211323022102321311121132102"
    "14321142101133411113411204131121444344"
)
# The antibody signals are strongly correlated, hence a ridge (0.1 and 0.3 do as well). The short path saves seconds.
SEROLOGY: dict[str, Any] = {"ranks": range(1, 9), "n_l1": 8, "l2": 0.2, "standardize": True}
SIMULATED: dict[str, Any] = {"ranks": range(1, 6)}


Step = Callable[[str], None]  # says what comes next


@dataclass(frozen=True)
class Scores:
    """A method's test R² on every fold, and the count of the numbers that it needed."""

    name: str
    r2: list[float]
    n_numbers: float


@dataclass(frozen=True)
class Story:
    """A fitted model, what is needed to tell of it, and the method's own part of the tale."""

    model: DST2RCV
    title: str
    intro: str
    folds: str
    call: str
    mode_names: list[str]
    labels: list[list[str]]
    empty_loss: float
    scores: list[Scores]
    tell: Callable[[Console, Story], None]


def run(*, simulated: bool, path: Path, seed: int, quiet: bool) -> None:
    """Fit, tell and draw.

    Parameters
    ----------
    simulated : bool
        Simulated data instead of the serology that TensorLy ships.
    path : Path
        Of the figure.
    seed : int
        Of the simulation.
    quiet : bool
        Whether to print nothing but the path.
    """
    from dst2r.plotting import plot_summary

    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught, progress("Compiling (first run only)", quiet=quiet) as step:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ConvergenceWarning)
        tiny = make_tensor_regression(40, (3, 2), (2,), random_state=0)
        DST2RCV(ranks=(1, 2), cv=2, n_l1=3).fit(tiny.X, tiny.Y)
        caught.clear()
        story = simulation(step, seed) if simulated else serology(step)
        step("Drawing")
        figure = plot_summary(story.model, labels=story.labels, mode_names=story.mode_names, title=story.title)
        with written_whole(path, overwrite=True) as temporary:
            figure.savefig(temporary, dpi=150)
    if quiet:
        print(path)
        return
    console = Console(highlight=False)
    console.print(f"\n[bold]{story.title}[/]\n{story.intro}\n")
    tell_choice(console, story)
    story.tell(console, story)
    tell_scores(console, story.scores)
    if caught:
        console.print(
            f"[dim]{len(caught)} fits stopped before their last digit (ConvergenceWarning); they are usable.[/]"
        )
    console.print(f"[dim]In Python:[/] {story.call}", soft_wrap=True)
    seconds = time.perf_counter() - start
    console.print(f"Figure: [bold]{path}[/]   [dim]({seconds:.0f} s in all)[/]", soft_wrap=True)
    console.print("[dim]Your own data:[/] dst2r fit X.npy Y.npy -o model.dst2r")


def load_serology() -> tuple[Array, Array, list[list[str]]]:
    """Antibody signals X (438, 6 antigens, 6 isotypes), receptor binding Y (438, 6 antigens, 5 receptors), labels."""
    from tensorly.datasets.data_imports import load_covid19_serology

    data = load_covid19_serology()
    tensor = np.asarray(data["tensor"], dtype=float)
    antigens, columns = (list(names) for names in data["ticks"][1:])
    labels = [antigens, columns[:N_ISOTYPES], antigens, columns[N_ISOTYPES:]]
    return tensor[:, :, :N_ISOTYPES], tensor[:, :, N_ISOTYPES:], labels


def serology(step: Step) -> Story:
    """Fit the serology, and test it on every patient fold with all that was chosen on the other folds."""
    X, Y, labels = load_serology()
    fold = np.array([int(digit) for digit in PATIENT_FOLDS])
    ours, ridges, sizes = [], [], []
    for k in range(5):
        step(f"Testing on patient fold {k + 1} of 5")
        train, test = fold != k, fold == k
        mean, spread = Y[train].mean(axis=0), Y[train].std(axis=0)
        Z, target = (Y[train] - mean) / spread, (Y[test] - mean) / spread
        model = DST2RCV(**SEROLOGY, cv=LeaveOneGroupOut()).fit(X[train], Z, groups=fold[train])
        ours.append(pooled_r2(target, model.predict(X[test]), center=np.zeros_like(mean)))
        ridges.append(pooled_r2(target, ridge(X[train], Z, X[test]), center=np.zeros_like(mean)))
        sizes.append(model.n_parameters_)
    step("Fitting all samples")
    Z = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    model = DST2RCV(**SEROLOGY, cv=LeaveOneGroupOut()).fit(X, Z, groups=fold)
    return Story(
        model,
        "Which antibodies bind which Fc receptors?",
        f"  X  {X.shape[0]} blood samples × {X.shape[1]} antigens × {X.shape[2]} antibody isotypes\n"
        f"  Y  {Y.shape[0]} blood samples × {Y.shape[1]} antigens × {Y.shape[2]} Fc receptors\n"
        "[dim]COVID-19 serology (Zohar et al. 2020) as TensorLy ships it; every entry of Y in\n"
        "units of its spread. All samples of a patient, of 231, are in one of five folds.[/]",
        "5 folds of patients",
        f"DST2RCV({_options(SEROLOGY)},\n                   cv=LeaveOneGroupOut()).fit(X, Y, groups=fold)",
        ["X antigen", "X isotype", "Y antigen", "Y receptor"],
        labels,
        0.5 * Z[0].size,
        [Scores("dst2r", ours, float(np.mean(sizes))), Scores("ridge", ridges, X[0].size * Y[0].size)],
        tell_components,
    )


def simulation(step: Step, seed: int) -> Story:
    """Fit simulated data, and compare with the truth and with the oracle that knows which entries are zero."""
    n = 1000
    data = make_tensor_regression(2 * n, rank=3, sparsity=0.5, normalize=True, noise=0.2, random_state=seed)
    X, Y, X_test, Y_test = data.X[:n], data.Y[:n], data.X[n:], data.Y[n:]
    step("Fitting with ranks 1 to 5")
    model = DST2RCV(**SIMULATED).fit(X, Y)
    step("Fitting ridge and oracle")
    truth = CPCoefficient(data.factors, X.ndim - 1)
    stats = GramStatistics.from_arrays(X, Y)
    oracle = least_squares(stats, truth, support=truth.ravel() != 0.0)
    center = Y.mean(axis=0)
    scores = [
        Scores(name, [pooled_r2(Y_test, prediction, center=center)], n_numbers)
        for name, prediction, n_numbers in (
            ("dst2r", model.predict(X_test), model.n_parameters_),
            ("ridge", ridge(X, Y, X_test), data.coef.size),
            ("the truth", np.tensordot(X_test, data.coef, X.ndim - 1), truth.n_parameters()),
        )
    ]
    names = [f"X{k + 1}" for k in range(X.ndim - 1)] + [f"Y{k + 1}" for k in range(Y.ndim - 1)]
    return Story(
        model,
        "Simulated data with a known answer",
        f"  X  {n} samples × 8 × 8 × 8\n"
        f"  Y  {n} samples × 4 × 4 × 4\n"
        f"[dim]Three components, half of whose entries are zero, and noise; seed {seed}.[/]",
        "5 folds",
        f"DST2RCV({_options(SIMULATED)}).fit(X, Y)",
        names,
        [[str(i) for i in range(d)] for d in data.coef.shape],
        0.5 * float(Y.var(axis=0).sum()),
        scores,
        partial(tell_truth, data=data, oracle=oracle.coef.to_tensor()),
    )


def ridge(X: Array, Y: Array, X_test: Array) -> Array:
    """Predictions of a ridge on flattened arrays, its penalty tuned by leave-one-out."""
    model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 6, 33)))
    model.fit(X.reshape(len(X), -1), Y.reshape(len(Y), -1))
    prediction: Array = model.predict(X_test.reshape(len(X_test), -1)).reshape(-1, *Y.shape[1:])
    return prediction


def tell_choice(console: Console, story: Story) -> None:
    """Show the chosen rank and penalty beside their neighbours."""
    model, found = story.model, story.model.cv_results_
    mean = found["mean_test_loss"]
    row = int(np.flatnonzero(found["ranks"] == model.best_rank_)[0])
    column = int(np.abs(found["l1"] - model.l1_).argmin())
    console.print(
        f"[bold]Rank and sparsity[/], chosen by cross-validation ({story.folds})\n"
        f"[dim]Test loss: half the squared error of a sample; {story.empty_loss:.4g} without a model.\n"
        "Above the least: ± the standard error of the difference, over folds.[/]"
    )
    ranks = [(f"{rank}", k, int(mean[k].argmin())) for k, rank in enumerate(found["ranks"])]
    console.print(_points("rank", ranks, found, (row, column)))
    near = sorted({0, *range(max(column - 2, 0), min(column + 3, found["l1"].size))})
    console.print(f"The penalty at rank {model.best_rank_}: from none (l1 = 0) upwards, entries become zero.")
    console.print(_points("l1", [(f"{found['l1'][t]:.2g}", row, t) for t in near], found, (row, column)))


def _points(
    name: str, points: Sequence[tuple[str, int, int]], found: dict[str, Array], chosen: tuple[int, int]
) -> Table:
    """A line for each of some points (label, row, column) of the cross-validation surface."""
    table = _table(name, "test loss", "above the least", "numbers", "")
    loss, mean = found["test_loss"], found["mean_test_loss"]
    best_row, best_column = np.unravel_index(mean.argmin(), mean.shape)
    least = loss[:, best_row, best_column]
    for label, row, column in points:
        if not np.isfinite(mean[row, column]):  # a model of another rank, or one that no fold could vouch for
            table.add_row(label, "no candidate", "", "", "")
            continue
        above = loss[:, row, column] - least
        error = above.std(ddof=1) / np.sqrt(above.size)
        cells = (
            f"{mean[row, column]:#.4g}",
            f"{above.mean():#.2g} ± {error:#.2g}" if above.any() else "-",
            f"{found['n_parameters'][:, row, column].mean():.0f}",
        )
        if (row, column) == chosen:
            table.add_row(label, *cells, "<- chosen", style="bold")
        else:
            table.add_row(label, *cells)
    return table


def tell_components(console: Console, story: Story) -> None:
    """Show what every component uses: names and signed entries of its unit vectors, largest first."""
    weights, factors = story.model.cp_
    console.print("[bold]Components[/] of the fit to all samples [dim](unit vectors; what is not named is zero)[/]\n")
    for r, weight in enumerate(weights):
        console.print(f"  [bold]{r + 1}[/]  weight {weight:#.3g}")
        modes = Table.grid(padding=(0, 2, 0, 0))
        for name, labels, factor in zip(story.mode_names, story.labels, factors, strict=True):
            order = [i for i in np.argsort(-np.abs(factor[:, r])) if factor[i, r] != 0.0]
            entries = "  ".join(f"{labels[i]} {_short(factor[i, r])}" for i in order)
            modes.add_row(f"     [dim]{name}[/]", entries)
        console.print(modes)
    console.print()


def tell_scores(console: Console, scores: Sequence[Scores]) -> None:
    """Show test R² of the methods, and the numbers they need."""
    ours, theirs = scores[:2]
    several = len(ours.r2) > 1
    console.print("[bold]On samples that were held out[/] [dim](R² pooled over samples and response entries)[/]")
    if several:
        console.print("[dim]In each fold both methods chose everything on the other four.[/]")
    folds = [f"fold {k + 1}" for k in range(len(ours.r2))] if several else []
    table = _table("", *folds, "R²" if not several else "mean R²", "numbers")
    for s in scores:
        parts = [f"{value:.3f}" for value in s.r2] if several else []
        table.add_row(s.name, *parts, f"[bold]{np.mean(s.r2):.3f}[/]", f"{s.n_numbers:,.0f}")
    console.print(table)
    gain = np.mean(ours.r2) - np.mean(theirs.r2)
    console.print(
        f"{abs(gain):.3f} {'above' if gain > 0 else 'below'} the ridge, "
        f"with {theirs.n_numbers / max(ours.n_numbers, 1):.0f} times fewer numbers [dim](without intercepts)[/].\n"
    )


def tell_truth(console: Console, story: Story, data: TensorRegression, oracle: Array) -> None:
    """How far the estimate is from the truth, and which entries it found."""
    model = story.model
    error, least = estimation_error(model.coef_, data.coef), estimation_error(oracle, data.coef)
    rates = selection_rates(model.cp_, data.factors)
    console.print(
        "[bold]Against the truth[/]\n\n"
        f"  rank              {model.rank_}, in truth {data.factors[0].shape[1]}\n"
        f"  error             {error:.3g}, {relative_error(model.coef_, data.coef):.1%} of the truth's norm\n"
        f"  error / oracle's  {error / least:.2f}   (the oracle knows which entries are zero)\n"
        f"  found (TPR)       {rates.tpr:.1%} of the non-zero entries\n"
        f"  false (FPR)       {rates.fpr:.1%} of the zero entries"
    )
    if rates.missed.size:
        sizes = ", ".join(_short(size).removeprefix("+") for size in rates.missed[:5])
        more = ", ..." if rates.missed.size > 5 else ""
        console.print(f"  missed            {rates.missed.size}, relative to their vector's largest: {sizes}{more}")
    console.print("\n  [dim]● found   ○ missed   × false   · zero, and left out[/]\n")
    for line in support_lines(story.mode_names, data.factors, model.cp_.factors):
        console.print(line)
    console.print()


def support_lines(names: Sequence[str], truth: Sequence[Array], found: Sequence[Array]) -> list[str]:
    """A line for each true component, with a mark for every entry of every mode."""
    cosines = np.prod([np.abs(_unit(t).T @ _unit(f)) for t, f in zip(truth, found, strict=True)], axis=0)
    partner = dict(zip(*linear_sum_assignment(cosines, maximize=True), strict=True))
    lines = ["     " + "  ".join(f"{name:{len(t)}}" for name, t in zip(names, truth, strict=True))]
    for r in range(truth[0].shape[1]):
        marks = []
        for t, f in zip(truth, found, strict=True):
            estimate = f[:, partner[r]] if r in partner else np.zeros(len(t))
            pairs = zip(t[:, r] != 0.0, estimate != 0.0, strict=True)
            marks.append("".join("·×○●"[2 * bool(true) + bool(seen)] for true, seen in pairs))
        lines.append(f"{r + 1:3}  " + "  ".join(marks))
    return lines


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name in (first, *others):
        table.add_column(name, justify="right")
    return table


def _options(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())


def _short(value: float) -> str:
    """Signed, with two decimals (small ones with one digit), without the leading zero."""
    text = f"{value:+.2f}" if abs(value) >= 0.01 else f"{value:+.1g}"
    return text.replace("0.", ".", 1)


def _unit(factor: Array) -> Array:
    unit: Array = factor / np.maximum(np.linalg.norm(factor, axis=0), 1e-300)
    return unit
