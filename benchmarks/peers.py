"""Other programs for the same models, side by side: error next to CPU time, one thread, every fit in its own process.

    python -m pip install gtotr
    python benchmarks/peers.py [--design NAME ...] [--seeds 3] [--limit 600]

Rank and data are the same for all; methods that fit no intercept get centred data; those that start at random get five
starts, of which the one with the least training error counts, and the time of all five. TensorLy's CP_PLSR chooses its
number of components on a fifth of the samples. Data, imports and the compilation of kernels are not timed. The oracle
knows which entries are zero. "Unfinished" is a process that the limit of CPU time ended.
"""

import argparse
import copy
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dst2r import DST2R, DST2RCV, make_tensor_regression
from dst2r.correction import least_squares
from dst2r.cp import CPCoefficient
from dst2r.metrics import estimation_error
from dst2r.simulation import TensorRegression
from dst2r.statistics import gather

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
STARTS = 5
COMPONENTS = (1, 2, 3, 5, 8, 12, 16, 20)  # that CP_PLSR may choose from


@dataclass(frozen=True)
class Design:
    """A simulated problem and the methods that are tried on it."""

    n: int
    x_shape: tuple[int, ...]
    y_shape: tuple[int, ...]
    rank: int
    zeros: float
    unit: bool  # factors of unit norm at a signal-to-noise ratio of 1, or raw ones with sigma = 1
    dtype: str
    methods: tuple[str, ...]

    def draw(self, seed: int) -> TensorRegression:
        level: dict[str, Any] = {"normalize": True, "snr": 1.0} if self.unit else {"noise": 1.0}
        return make_tensor_regression(
            self.n, self.x_shape, self.y_shape, rank=self.rank, sparsity=self.zeros, random_state=seed, **level
        )


SCALAR = ("DST2R", "DST2RCV", "CPRegressor", "TuckerRegressor", "CP_PLSR", "LassoCV")
TENSOR = ("DST2R", "DST2RCV", "CPRegressor", "gtotr", "gtotr, tolerance 1e-8", "CP_PLSR", "MultiTaskLassoCV", "RidgeCV")
WIDE = ("DST2R", "gtotr", "CP_PLSR", "CPRegressor")
DESIGNS = {
    "scalar, raw": Design(1000, (16, 16, 16), (), 3, 0.5, False, "float64", SCALAR),
    "scalar, SNR 1": Design(1000, (16, 16, 16), (), 3, 0.5, True, "float64", SCALAR),
    "tensor, R=2": Design(1000, (8, 8, 8), (4, 4, 4), 2, 0.5, False, "float64", TENSOR),
    "tensor, R=10": Design(1000, (8, 8, 8), (4, 4, 4), 10, 0.5, False, "float64", TENSOR),
    "wide": Design(2000, (32, 32, 32), (8, 8), 3, 0.8, True, "float32", WIDE),
}

Fit = Callable[[], np.ndarray | Callable[[], np.ndarray]]  # returns the coefficient, or what makes it of the model


def oracle(data: TensorRegression, X: np.ndarray, Y: np.ndarray) -> Fit:
    """Least squares on the true support, from the truth."""
    truth = CPCoefficient(data.factors, X.ndim - 1)
    support = truth.ravel() != 0.0

    def fit() -> np.ndarray:
        return least_squares(gather(X, Y), truth, support=support, max_iter=1000).coef.to_tensor()

    return fit


def ours(estimator: DST2R | DST2RCV, X: np.ndarray, Y: np.ndarray) -> Fit:
    rng = np.random.default_rng(0)
    X_small = rng.normal(size=(50, *(2 for _ in X.shape[1:])))
    copy.copy(estimator).set_params(**({"ranks": (1,)} if isinstance(estimator, DST2RCV) else {"rank": 1})).fit(
        X_small, rng.normal(size=(50, *(2 for _ in Y.shape[1:])))
    )  # compiles the kernels
    return lambda: estimator.fit(X, Y).coef_


def best_of(fit: Callable[[int], tuple[float, np.ndarray]]) -> np.ndarray:
    """Coefficient with the least training error of several starts."""
    return min((fit(seed) for seed in range(STARTS)), key=lambda found: found[0])[1]


def tensorly(name: str, rank: Any, X: np.ndarray, Y: np.ndarray) -> Fit:
    import tensorly.regression as programs

    def start(seed: int) -> tuple[float, np.ndarray]:
        model = getattr(programs, name)(rank, random_state=seed, verbose=0).fit(X, Y)
        return float(np.sum((Y - model.predict(X).reshape(Y.shape)) ** 2)), model.weight_tensor_

    return lambda: best_of(start)


def cp_plsr(X: np.ndarray, Y: np.ndarray) -> Fit:
    from tensorly.regression import CP_PLSR

    flat = Y.reshape(len(Y), -1)

    def truncated(model: CP_PLSR, k: int) -> CP_PLSR:
        part = copy.copy(model)
        part.n_components, part.coef_ = k, model.coef_[:k, :k]
        part.X_factors, part.Y_factors = ([f[:, :k] for f in fs] for fs in (model.X_factors, model.Y_factors))
        return part

    def fit() -> CP_PLSR:
        cut = len(X) * 4 // 5
        found = CP_PLSR(max(COMPONENTS)).fit(X[:cut], flat[:cut])
        errors = [np.sum((truncated(found, k).predict(X[cut:]) - flat[cut:]) ** 2) for k in COMPONENTS]
        return CP_PLSR(COMPONENTS[int(np.nanargmin(errors))]).fit(X, flat)

    return lambda: partial(linear_map, fit(), X, Y)


def linear_map(model: Any, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Coefficient of a model that predicts linearly, from its predictions of unit vectors."""
    P, shape = int(np.prod(X.shape[1:])), X.shape[1:]
    zero = model.predict(np.zeros((1, *shape), X.dtype))
    rows = []
    for start in range(0, P, 1024):
        unit = np.eye(min(1024, P - start), P, start, dtype=X.dtype)
        rows.append(model.predict(unit.reshape(-1, *shape)) - zero)
    return np.concatenate(rows).reshape(*shape, *Y.shape[1:])


def gtotr(rank: int, tolerance: float, X: np.ndarray, Y: np.ndarray) -> Fit:
    import pyttb
    from gtotr import gtotr_cp

    X_last, Y_last = (pyttb.tensor(np.asfortranarray(np.moveaxis(a, 0, -1))) for a in (X, Y))
    model = gtotr_cp(responses=Y_last, covariates=X_last, family="gaussian", link="identity")

    def start(seed: int) -> tuple[float, np.ndarray]:
        found = model.fit(rank=rank, seed=seed, tolerance=tolerance)
        return -found.llf, np.asarray(found.coef_.full().data)

    return lambda: best_of(start)


def vectorised(estimator: Any, X: np.ndarray, Y: np.ndarray) -> Fit:
    flat = X.reshape(len(X), -1), Y.reshape(len(Y), -1) if Y.ndim > 1 else Y
    return lambda: estimator.fit(*flat).coef_.T.reshape(*X.shape[1:], *Y.shape[1:])


def prepare(method: str, design: Design, X: np.ndarray, Y: np.ndarray) -> Fit:
    """What is to be timed."""
    from sklearn.linear_model import LassoCV, MultiTaskLassoCV, RidgeCV

    ranks = tuple(range(1, design.rank + 3))
    centred = [a - a.mean(axis=0) for a in (X, Y)]
    return {
        "DST2R": lambda: ours(DST2R(design.rank), X, Y),
        "DST2RCV": lambda: ours(DST2RCV(ranks), X, Y),
        "CPRegressor": lambda: tensorly("CPRegressor", design.rank, *centred),
        "TuckerRegressor": lambda: tensorly("TuckerRegressor", [design.rank] * len(design.x_shape), *centred),
        "CP_PLSR": lambda: cp_plsr(X, Y),
        "gtotr": lambda: gtotr(design.rank, 1e-4, *centred),
        "gtotr, tolerance 1e-8": lambda: gtotr(design.rank, 1e-8, *centred),
        "LassoCV": lambda: vectorised(LassoCV(), X, Y),
        "MultiTaskLassoCV": lambda: vectorised(MultiTaskLassoCV(), X, Y),
        "RidgeCV": lambda: vectorised(RidgeCV(np.geomspace(1e-3, 1e5, 25)), X, Y),
    }[method]()


def cell(name: str, method: str, seed: int) -> dict[str, float]:
    """Relative error and CPU seconds of one fit, in this process."""
    design = DESIGNS[name]
    data = design.draw(seed)
    X, Y = (a.astype(design.dtype) for a in (data.X, data.Y))
    fit = oracle(data, X, Y) if method == "oracle" else prepare(method, design, X, Y)
    start = time.process_time()
    found = fit()
    seconds = time.process_time() - start
    coef = found() if callable(found) else found
    return {"error": estimation_error(coef, data.coef) / float(np.linalg.norm(data.coef)), "seconds": seconds}


def run(name: str, method: str, seed: int, limit: int) -> dict[str, float] | str:
    """The same in a process of its own, with one thread; or how it ended."""

    def shorten() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))

    command = [sys.executable, __file__, "--cell", json.dumps([name, method, seed])]
    env = os.environ | dict.fromkeys(THREADS, "1")
    done = subprocess.run(command, env=env, capture_output=True, text=True, preexec_fn=shorten, check=False)
    if done.returncode == -signal.SIGXCPU:
        return f"unfinished at {limit:g} s"
    if done.returncode:
        return f"failed: {(done.stderr.strip().splitlines() or [f'exit code {done.returncode}'])[-1]}"
    return json.loads(done.stdout.splitlines()[-1])


def table(name: str, seeds: int, limit: int) -> None:
    """A Markdown table of means over the seeds."""
    design = DESIGNS[name]
    shape = "x".join(map(str, design.x_shape)) + " -> " + ("x".join(map(str, design.y_shape)) or "scalar")
    noise = "unit-norm factors, SNR 1" if design.unit else "raw factors, sigma = 1"
    print(
        f"\n### {name}: {shape}, n = {design.n}, R = {design.rank}, {design.zeros:.0%} zeros, {noise}, {design.dtype}, "
        f"{seeds} data sets\n\n"
        "| method | relative error | error / oracle | CPU seconds | CPU / ours |\n|---|---|---|---|---|",
        flush=True,
    )
    ideal, mine = np.full(seeds, np.nan), np.nan
    for method in ("oracle", *design.methods):
        found = []
        for seed in range(seeds):
            found.append(run(name, method, seed, limit))
            if isinstance(found[-1], str):
                break
        if isinstance(end := found[-1], str):
            print(f"| {method} | {end} | | | |", flush=True)
            continue
        errors, times = (np.array([f[key] for f in found]) for key in ("error", "seconds"))
        if method == "oracle":
            ideal = errors
            print(f"| {method} | {errors.mean():.3g} | 1 | | |", flush=True)
            continue
        if method == "DST2R":
            mine = times.mean()
        ratio = np.exp(np.mean(np.log(errors / ideal)))
        starts = method in ("CPRegressor", "TuckerRegressor") or method.startswith("gtotr")
        label = f"{method}, best of {STARTS}" if starts else method
        print(
            f"| {label} | {errors.mean():.3g} | {ratio:.2f} | {times.mean():.3g} | {times.mean() / mine:.3g} |",
            flush=True,
        )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--design", nargs="+", choices=DESIGNS, default=list(DESIGNS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=600, help="CPU seconds that a process may take")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.cell:
        print(json.dumps(cell(*json.loads(args.cell))))
        return
    for name in args.design:
        table(name, args.seeds, args.limit)


if __name__ == "__main__":
    main()
