"""Accuracy and parsimony beside a tuned ridge on real data.

    python benchmarks/real.py --data FOLDER      (or set DST2R_DATA)

The folder holds ``covid_serology.npz`` and ``beijing_air.npz``. Both methods see responses in units of their training
spread; the ridge also gets z-scored predictors, and its penalty by leave-one-out. R² is pooled over all test entries.
"""

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import LeaveOneGroupOut, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dst2r import DST2RCV
from dst2r.metrics import pooled_r2

Split = tuple[str, np.ndarray, np.ndarray, np.ndarray | None]  # name, training rows, test rows, groups of the rows


def serology(folder: Path) -> tuple[np.ndarray, np.ndarray, list[Split]]:
    """Antibody -> receptor-binding tensors; patients stay together in the outer and the inner folds."""
    with np.load(folder / "covid_serology.npz") as data:
        X, Y, fold = data["X"].astype(float), data["Y"].astype(float), data["fold"]
    rows = np.arange(len(X))
    return X, Y, [(f"patient fold {k}", rows[fold != k], rows[fold == k], fold) for k in range(5)]


def beijing(folder: Path) -> tuple[np.ndarray, np.ndarray, list[Split]]:
    """Weather -> pollution of the day, chronological split; then with random subsets of the training days."""
    with np.load(folder / "beijing_air.npz") as data:
        X, Y, train = data["X"].astype(float), np.log1p(data["Y"].astype(float)), data["train"]
    rows = np.arange(len(X))
    splits: list[Split] = [("all training days", rows[train], rows[~train], None)]
    rng = np.random.default_rng(0)
    for k in range(3):
        days = np.sort(rng.choice(rows[train], 200, replace=False))
        splits.append((f"200 training days, draw {k}", days, rows[~train], None))
    return X, Y, splits


def ridge(X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> tuple[np.ndarray, int]:
    """Predictions of a tuned ridge on flattened arrays, and the count of its numbers."""
    model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 6, 33)))
    model.fit(X.reshape(len(X), -1), Y.reshape(len(Y), -1))
    return model.predict(X_test.reshape(len(X_test), -1)).reshape(-1, *Y.shape[1:]), X[0].size * Y[0].size


def compare(name: str, X: np.ndarray, Y: np.ndarray, splits: list[Split], **options: object) -> Iterator[list[float]]:
    """Print and yield R² and numbers of both methods, split by split."""
    print(
        f"\n{name}\n{'split':30s} {'ridge':>7s} {'DST2RCV':>8s} {'rank':>5s} {'l2':>5s} {'numbers':>8s}   fewer      s"
    )
    for label, train, test, groups in splits:
        mean, spread = Y[train].mean(axis=0), Y[train].std(axis=0)
        Z = (Y[train] - mean) / spread
        target = (Y[test] - mean) / spread
        theirs, n_theirs = ridge(X[train], Z, X[test])
        start = time.perf_counter()
        cv = TimeSeriesSplit(5) if groups is None else LeaveOneGroupOut()  # tested as used: later days, other patients
        model = DST2RCV(cv=cv, **options).fit(X[train], Z, groups=None if groups is None else groups[train])
        seconds = time.perf_counter() - start
        scores = [pooled_r2(target, p, center=np.zeros(Y.shape[1:])) for p in (theirs, model.predict(X[test]))]
        fewer = n_theirs / max(model.n_parameters_, 1)
        row = f"{label:30s} {scores[0]:7.3f} {scores[1]:8.3f} {model.best_rank_:5d} {model.l2_:5.2g}"
        print(f"{row} {model.n_parameters_:8d} {fewer:6.0f}x {seconds:6.1f}", flush=True)
        yield [*scores, fewer]


def main() -> None:
    """Run both comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("DST2R_DATA"), help="folder of the two files")
    parser.add_argument("--only", choices=("serology", "beijing"), help="one of the two")
    args = parser.parse_args()
    if args.data is None or not Path(args.data).is_dir():
        parser.error("name the folder that holds the two .npz files with --data or DST2R_DATA")
    cases = {
        "serology": (serology, {"ranks": range(1, 13), "l2": (0.05, 0.2, 0.8), "standardize": True}),
        "beijing": (beijing, {"ranks": (8, 16, 24), "l2": (0.3, 1.0, 3.0, 10.0), "n_l1": 1, "standardize": True}),
    }
    for name, (load, options) in cases.items():
        if args.only in (None, name):
            rows = np.array(list(compare(name, *load(Path(args.data)), **options)))
            means = rows.mean(axis=0)
            print(f"{'mean':30s} {means[0]:7.3f} {means[1]:8.3f}   at least {rows[:, 2].min():.0f}x fewer numbers")


if __name__ == "__main__":
    main()
