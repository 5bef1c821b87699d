"""Error against the oracle that knows the support, by design, by stage and by criterion.

    python benchmarks/accuracy.py [--seeds 8] [--jobs 2] [--only paper|others|rank]

The oracle is least squares on the true support, started at the truth. Two references know the truth of everything but
the entry at hand, and no rule without that knowledge can be expected to do better at this noise. "Ideal TPR" is the
power of a test of each entry, at the price of BIC or a false positive rate of 0.015. "Bayes error" is that of posterior
means under the prior that the entries were drawn from, over the oracle's.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed
from scipy import special
from scipy.stats import norm

from dst2r import DST2R, DST2RCV, GramStatistics, make_tensor_regression
from dst2r.correction import least_squares, local_model
from dst2r.cp import CPCoefficient
from dst2r.metrics import estimation_error, selection_rates
from dst2r.simulation import TensorRegression


@dataclass(frozen=True)
class Design:
    """One simulated setting; unit-norm factors go with sigma = 0.2, raw ones with sigma = 1."""

    x_shape: tuple[int, ...]
    y_shape: tuple[int, ...]
    rank: int
    zeros: float
    unit: bool
    seed: int
    n: int = 1000

    def draw(self) -> TensorRegression:
        return make_tensor_regression(
            self.n,
            self.x_shape,
            self.y_shape,
            rank=self.rank,
            sparsity=self.zeros,
            noise=0.2 if self.unit else 1.0,
            normalize=self.unit,
            random_state=self.seed,
        )

    @property
    def cell(self) -> str:
        shape = "x".join(map(str, self.x_shape)) + " -> " + ("x".join(map(str, self.y_shape)) or "1")
        return f"{shape}  R={self.rank:<2d} zeros={self.zeros} {'unit' if self.unit else 'raw '}"


PAPER = [((8, 8, 8), (4, 4, 4), rank) for rank in (2, 5, 10, 15)]
OTHERS = [
    ((16, 16), (8,), 3),  # matrix -> vector
    ((32,), (6, 6), 3),  # vector -> matrix
    ((16, 16), (4, 4), 3),  # matrix -> matrix
    ((8, 8, 8), (), 3),  # tensor -> scalar
]
STAGES: dict[str, Callable[[int], DST2R | DST2RCV]] = {
    "search alone": lambda r: DST2R(r, l1=0.0, correction="none", relax=False),
    "+ final correction": lambda r: DST2R(r, l1=0.0, correction="final"),
    "+ full correction": lambda r: DST2R(r, l1=0.0),
    "+ selection (default, BIC)": DST2R,
    "  EBIC": lambda r: DST2R(r, l1="ebic"),
    "  AIC": lambda r: DST2R(r, l1="aic"),
    "  BIC, final correction": lambda r: DST2R(r, correction="final"),
    "  CV min": lambda r: DST2RCV((r,)),
    "  CV 1-SE": lambda r: DST2RCV((r,), rule="1se"),
    "as printed (BIC)": lambda r: DST2R(r, correction="none", relax=False),
}


def designs(shapes: Iterable[tuple[tuple[int, ...], tuple[int, ...], int]], seeds: int) -> list[Design]:
    """All zeros and noise levels of some shapes."""
    return [
        Design(x, y, rank, zeros, unit, seed)
        for x, y, rank in shapes
        for unit in (True, False)
        for zeros in (0.2, 0.5)
        for seed in range(seeds)
    ]


def references(data: TensorRegression, stats: GramStatistics) -> dict[str, float]:
    """Errors of the oracle and of least squares from the truth, its loss, and the ideal test's TPR."""
    truth = CPCoefficient(data.factors, len(stats.x_shape))
    support = truth.ravel() != 0.0
    oracle = least_squares(stats, truth, support=support, max_iter=1000)
    free = least_squares(stats, truth, max_iter=1000)
    sizes = standardised(data, stats, truth)
    return {
        "oracle": estimation_error(oracle.coef.to_tensor(), data.coef),
        "free": estimation_error(free.coef.to_tensor(), data.coef),
        "free loss": free.model.loss,
        "ideal": power(sizes, float(np.sqrt(np.log(stats.n_samples)))),
        "ideal at 0.015": power(sizes, float(norm.isf(0.015 / 2))),
        "bayes": bayes_error(np.concatenate(sizes), support.size, truth.rank * (len(truth.factors) - 1)),
    }


def standardised(data: TensorRegression, stats: GramStatistics, truth: CPCoefficient) -> list[np.ndarray]:
    """Absolute values of the true non-zero entries over their standard errors, mode by mode."""
    model, alive = local_model(stats, truth), np.flatnonzero(truth.ravel())
    variance = np.linalg.inv(model.hessian[np.ix_(alive, alive)]).diagonal() * data.noise**2 / stats.n_samples
    sizes = np.abs(model.coef.ravel()[alive]) / np.sqrt(variance)
    return np.split(sizes, np.cumsum([np.count_nonzero(f) for f in truth.factors])[:-1])


def power(sizes: list[np.ndarray], cut: float) -> float:
    """Share of the entries that a test finds, averaged over modes as TPR is."""
    return float(np.mean([(norm.sf(cut - z) + norm.cdf(-cut - z)).mean() for z in sizes]))


def bayes_error(sizes: np.ndarray, n_entries: int, n_scales: int) -> float:
    """Error of posterior means over least squares on the support; scales that modes share do not count."""
    theta = np.zeros(n_entries)
    theta[: sizes.size] = sizes
    seen = theta[:, None] + np.random.default_rng(0).normal(size=(n_entries, 200))
    share, slab = sizes.size / n_entries, float(np.mean(sizes**2))
    shrink = slab / (1.0 + slab)
    odds = np.log(share / (1.0 - share)) - 0.5 * np.log1p(slab) + 0.5 * seen**2 * shrink
    risk = ((special.expit(odds) * shrink * seen - theta[:, None]) ** 2).sum(axis=0).mean() - n_scales
    return float(np.sqrt(risk / (sizes.size - n_scales)))


def run(design: Design, stages: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """Error ratio, TPR, FPR and rank of every stage on one data set; and whether the optimum was missed."""
    data = design.draw()
    stats = GramStatistics.from_arrays(data.X, data.Y)
    known = references(data, stats)
    found = {name: (known[name],) for name in ("ideal", "ideal at 0.015", "bayes")}
    for name in stages:
        model = STAGES[name](design.rank).fit(data.X, data.Y)
        ratio = estimation_error(model.coef_, data.coef) / known["oracle"]
        rates = selection_rates(model.cp_, data.cp)
        found[name] = (ratio, rates.tpr, rates.fpr, model.rank_)
        if name == "+ full correction":
            weights, factors = model.cp_
            fit = CPCoefficient((factors[0] * weights, *factors[1:]), len(design.x_shape))
            worse = ratio * known["oracle"] / known["free"]
            found["optimum"] = (worse, stats.loss(fit) / known["free loss"] - 1.0)
    return found


def geometric_mean(values: Iterable[float]) -> float:
    return float(np.exp(np.mean(np.log(np.fromiter(values, float)))))


def report(cases: list[Design], results: list[dict[str, tuple[float, ...]]]) -> None:
    """Tables by stage and by cell, and the count of missed optima."""
    print(f"\n{'stage':30s} {'error / oracle':>15s} {'R = 15':>8s} {'TPR':>7s} {'FPR':>7s}   (R <= 10)")
    small = [r for d, r in zip(cases, results, strict=True) if d.rank <= 10]
    large = [r for d, r in zip(cases, results, strict=True) if d.rank > 10]
    for name in STAGES:
        row = f"{name:30s} {geometric_mean(r[name][0] for r in small):15.3f}"
        row += f" {geometric_mean(r[name][0] for r in large):8.3f}" if large else f" {'':8s}"
        print(row + f" {np.nanmean([r[name][1] for r in small]):7.3f} {np.nanmean([r[name][2] for r in small]):7.4f}")
    ideal, loose = (np.mean([r[name][0] for r in small]) for name in ("ideal", "ideal at 0.015"))
    print(f"ideal TPR at this noise: {ideal:.3f}; at a false positive rate of 0.015: {loose:.3f}")
    print(f"Bayes error / oracle: {geometric_mean(r['bayes'][0] for r in small):.3f}")
    missed = [r["optimum"] for r in results if r["optimum"][0] > 1.05]
    real = sum(loss > 1e-6 for _, loss in missed)
    print(
        f"least-squares optimum from the truth missed by > 5 % in error: {len(missed)} of {len(results)} fits; "
        f"with a larger loss, too: {real}"
    )
    cells = defaultdict(list)
    for design, result in zip(cases, results, strict=True):
        cells[design.cell].append(result)
    default = "+ selection (default, BIC)"
    print(f"\n{'default, by cell':44s} {'ratio':>7s} {'worst':>7s} {'TPR':>7s} {'ideal':>7s} {'FPR':>7s}  ranks kept")
    for cell, rows in cells.items():
        ratios = [r[default][0] for r in rows]
        tpr, fpr = (np.nanmean([r[default][k] for r in rows]) for k in (1, 2))
        ideal = np.mean([r["ideal"][0] for r in rows])
        kept = " ".join(str(int(r[default][3])) for r in rows)
        print(f"{cell:44s} {geometric_mean(ratios):7.3f} {max(ratios):7.3f} {tpr:7.3f} {ideal:7.3f} {fpr:7.4f}  {kept}")


def run_rank(design: Design) -> tuple[bool, float]:
    """Whether cross-validation finds the rank, and its error against that with the rank known."""
    data = design.draw()
    model = DST2RCV(range(1, design.rank + 4)).fit(data.X, data.Y)
    known = DST2R(design.rank).fit(data.X, data.Y)
    errors = [estimation_error(m.coef_, data.coef) for m in (model, known)]
    return model.best_rank_ == design.rank, errors[0] / errors[1]


def main() -> None:
    """Run and print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", choices=("paper", "others", "rank"))
    args = parser.parse_args()
    parallel = Parallel(n_jobs=args.jobs)
    for name, shapes in (("paper", PAPER), ("others", OTHERS)):
        if args.only in (None, name):
            cases = designs(shapes, args.seeds)
            print(f"\n== {name}: {len(cases)} data sets, n = 1000")
            report(cases, parallel(delayed(run)(case, STAGES) for case in cases))
    if args.only in (None, "rank"):
        cases = [d for d in designs(PAPER, args.seeds) if d.unit and d.rank <= 10]
        found = parallel(delayed(run_rank)(case) for case in cases)
        hits = np.mean([hit for hit, _ in found])
        print(f"\n== rank unknown: {len(cases)} data sets, unit-norm factors")
        print(f"rank found: {hits:.1%}; error / error with the rank known: {geometric_mean(r for _, r in found):.3f}")


if __name__ == "__main__":
    main()
