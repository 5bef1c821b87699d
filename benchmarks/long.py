"""Data on disk as chunked Zarr, fitted by Dask.

    python benchmarks/long.py FOLDER [--samples 2000000] [--workers 2] [--repeats 2] [--keep]
    python benchmarks/long.py FOLDER --wide [--samples 2000]

Many samples: 8x8x8 -> 4x4x4, against the bare products X'X and X'Y. Wide ones: 64x64x32 -> 16, fitted in passes.

Writes float32, uncompressed (4.6 GB for 2,000,000 samples, 1 GB for 2,000 wide ones), in a new folder inside FOLDER,
and deletes it at the end. Every measurement is a process of its own with so many Dask threads and one BLAS thread; the
best of the repeats counts, so that files are in the page cache where there is room. "Bare" is what one would write in
Dask without this package: ``x.T @ x`` and ``x.T @ y``, in the precision of the files or in float64, which is that of
the fit.
"""

import argparse
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from dst2r import DST2R, make_tensor_regression

LONG = {"x_shape": (8, 8, 8), "y_shape": (4, 4, 4), "rank": 10, "sparsity": 0.5}
WIDE = {"x_shape": (64, 64, 32), "y_shape": (16,), "rank": 3, "sparsity": 0.8}
SUBSET = 20_000  # samples that are fitted in memory, too
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


Design = dict[str, Any]


def truth(design: Design) -> np.ndarray:
    return make_tensor_regression(2, **design, normalize=True, random_state=0).coef


def write(folder: Path, design: Design, n: int, chunk: int) -> None:
    """Standard normal predictors and noise, chunk by chunk."""
    import zarr

    x_shape, y_shape = design["x_shape"], design["y_shape"]
    X, Y = (
        zarr.create_array(store=folder / name, shape=(n, *shape), chunks=(chunk, *shape), dtype="f4", compressors=None)
        for name, shape in (("X.zarr", x_shape), ("Y.zarr", y_shape))
    )
    coef = truth(design).astype(np.float32).reshape(math.prod(x_shape), -1)
    for k, start in enumerate(range(0, n, chunk)):
        rng, m = np.random.default_rng([1, k]), min(chunk, n - start)
        x = rng.standard_normal((m, len(coef)), dtype=np.float32)
        y = x @ coef + rng.standard_normal((m, coef.shape[1]), dtype=np.float32) + 1
        X[start : start + m], Y[start : start + m] = x.reshape(m, *x_shape), y.reshape(m, *y_shape)


def measure(folder: str, what: str, n: int, workers: int) -> dict[str, object]:
    """Seconds and peak memory of one task, in this process."""
    import dask
    import dask.array as da

    dask.config.set(scheduler="threads", num_workers=workers)
    X, Y = (da.from_zarr(str(Path(folder) / name))[:n] for name in ("X.zarr", "Y.zarr"))
    found: dict[str, object] = {}
    design = LONG if X.shape[1:] == LONG["x_shape"] else WIDE
    DST2R().fit(np.arange(20.0).reshape(10, 2), np.arange(10.0))  # loads compiled kernels
    begin, cpu = time.perf_counter(), time.process_time()
    if what == "read":
        da.compute(X.sum(), Y.sum())
    elif what.startswith("bare"):
        x, y = X.reshape(n, -1).astype(what.split()[1]), Y.reshape(n, -1).astype(what.split()[1])
        da.compute(x.T @ x, x.T @ y)
    elif what == "fit":
        model = DST2R(design["rank"]).fit(X, Y)
        found = {"error": float(np.linalg.norm(model.coef_ - truth(design))), "statistics": model.statistics_}
    else:
        lazily, eagerly = DST2R(design["rank"]).fit(X, Y), DST2R(design["rank"]).fit(X.compute(), Y.compute())
        difference = np.abs(lazily.coef_ - eagerly.coef_).max() / np.abs(eagerly.coef_).max()
        found = {"difference": float(difference)}
    times = {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - cpu}
    return times | {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024} | found


def best(folder: Path, what: str, n: int, args: argparse.Namespace) -> dict[str, object]:
    """The quickest of some processes."""
    command = [sys.executable, __file__, str(folder), "--cell", json.dumps([what, n, args.workers])]
    env = os.environ | dict.fromkeys(THREADS, "1")
    runs = [
        json.loads(subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout)
        for _ in range(args.repeats)
    ]
    return min(runs, key=lambda run: run["seconds"])


def report(folder: Path, args: argparse.Namespace) -> None:
    """Write, measure and print."""
    design, n, chunk = (WIDE, args.samples or 2000, 50) if args.wide else (LONG, args.samples or 2_000_000, 20_000)
    begin = time.perf_counter()
    write(folder, design, n, chunk)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{n} samples, {size / 1e9:.2f} GB, written in {time.perf_counter() - begin:.0f} s; {args.workers} workers\n")
    print("| what | seconds | CPU seconds | peak MB |\n|---|---|---|---|")
    found = {}
    for what in ("read", "fit") if args.wide else ("read", "bare float32", "bare float64", "fit"):
        found[what] = run = best(folder, what, n, args)
        print(f"| {what} | {run['seconds']:.2f} | {run['cpu']:.2f} | {run['peak']:.0f} |", flush=True)
    for what in [what for what in found if what != "fit"]:
        ratios = [found["fit"][unit] / found[what][unit] for unit in ("seconds", "cpu")]
        print(f"\nfit / {what}: {ratios[0]:.2f} in seconds, {ratios[1]:.2f} in CPU seconds", end="")
    print(f"\nerror of the coefficient: {found['fit']['error']:.4g}\n{found['fit']['statistics']}")
    if args.wide:
        return
    subset = best(folder, "compare", min(n, SUBSET), args)
    print(
        f"coefficients of {min(n, SUBSET)} samples, lazy and in memory, differ by {subset['difference']:.1e} (relative)"
    )
    print("\n| samples | seconds | exponent |\n|---|---|---|")
    before = None
    for part in (n // 64, n // 16, n // 4, n):
        seconds = (found["fit"] if part == n else best(folder, "fit", part, args))["seconds"]
        exponent = "" if before is None else f"{np.log(seconds / before) / np.log(4):.2f}"
        print(f"| {part} | {seconds:.2f} | {exponent} |", flush=True)
        before = seconds


def main() -> None:
    """Measure in a new folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--samples",
        type=int,
    )
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--workers", type=int, default=2, help="Dask threads")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="leave the files")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.cell:
        print(json.dumps(measure(str(args.folder), *json.loads(args.cell))))
        return
    folder = Path(tempfile.mkdtemp(prefix="dst2r-long-", dir=args.folder))
    try:
        report(folder, args)
    finally:
        if args.keep:
            print(f"kept {folder}")
        else:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
