"""Seconds of a whole fit, default tuning included, of every competing method, and of DST2R beside them.

    python benchmarks/baselines.py [--rank 2] [--n 1000] [--only STORE HOLRR] [--profile]

The paper's design: 8x8x8 -> 4x4x4, hence P = 512 and Q = 64, on one thread of BLAS. STORE, CPRidge and DST2R are told
the true rank. SURF takes one response and is given the one with the largest coefficient. Every method is fitted to a
small sample first, so that compilation is not counted.
"""

import argparse
import cProfile
import pstats
import time
import warnings

import numpy as np
from threadpoolctl import threadpool_limits

from dst2r import DST2R, make_tensor_regression
from dst2r.baselines import HOLRR, STORE, SURF, CPRidge, KernelHOLRR, SparseOLS, TensorEnvelope


def methods(rank: int) -> dict[str, object]:
    """The estimators by name."""
    return {
        "SparseOLS": SparseOLS(),
        "STORE": STORE(rank, random_state=0),
        "TensorEnvelope": TensorEnvelope(),
        "HOLRR": HOLRR(),
        "KernelHOLRR": KernelHOLRR(),
        "CPRidge": CPRidge(rank, random_state=0),
        "SURF": SURF(),
        "DST2R": DST2R(rank),
    }


def problem(name: str, data: object) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictors, the responses that the method takes, and their coefficient."""
    if name != "SURF":
        return data.X, data.Y, data.coef
    sizes = np.linalg.norm(data.coef.reshape(data.X[0].size, -1), axis=0)
    entry = np.unravel_index(sizes.argmax(), data.Y.shape[1:])
    return data.X, data.Y[:, *entry], data.coef[..., *entry]


def report(name: str, model: object, data: object, profiled: bool) -> None:
    """Fit once and print seconds and error."""
    X, Y, truth = problem(name, data)
    profile = cProfile.Profile()
    start = time.perf_counter()
    if profiled:
        profile.enable()
    model.fit(X, Y)
    profile.disable()
    seconds = time.perf_counter() - start
    error = "-"
    if hasattr(model, "coef_"):
        error = f"{np.linalg.norm(model.coef_ - truth) / np.linalg.norm(truth):.3f}"
    print(f"{name:16s} {seconds:8.2f} {error:>15s}", flush=True)
    if profiled:
        pstats.Stats(profile).sort_stats("tottime").print_stats(10)


def main() -> None:
    """Print one line for every method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rank", type=int, default=2)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--sparsity", type=float, default=0.5)
    parser.add_argument("--snr", type=float, default=1.0)
    parser.add_argument("--only", nargs="*", choices=methods(1), metavar="METHOD", help=", ".join(methods(1)))
    parser.add_argument("--profile", action="store_true", help="also print the ten costliest functions")
    args = parser.parse_args()
    design = {"sparsity": args.sparsity, "snr": args.snr, "normalize": True, "rank": args.rank}
    data = make_tensor_regression(args.n, **design, random_state=0)
    small = make_tensor_regression(200, (4, 4), (4, 4), **design, random_state=1)
    print(f"P = {data.X[0].size}, Q = {data.Y[0].size}, n = {args.n}, R = {args.rank}")
    print(f"{'method':16s} {'seconds':>8s} {'relative error':>15s}")
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, model in methods(args.rank).items():
            if not args.only or name in args.only:
                model.fit(*problem(name, small)[:2])
                report(name, model, data, args.profile)


if __name__ == "__main__":
    main()
