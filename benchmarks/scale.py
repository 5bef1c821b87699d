"""Wide predictors, long data, and how time grows with n and P.

    python benchmarks/scale.py wide             # in memory, float32: 2000 x 32x32x32 -> 8x8 and 500 x 64x64x32 -> 16
    python benchmarks/scale.py curves           # seconds against n and against P
    python benchmarks/scale.py long FOLDER      # 2,000,000 x 8x8x8 -> 4x4x4 as Zarr on disk, through Dask
    python benchmarks/scale.py disk FOLDER      # 2000 x 64x64x32 -> 16 as Zarr on disk, in counted passes

Every measurement is a process of its own. "A pass" is one product of X with a (P, R) matrix in X's precision, on as
many threads as the fit has. Extra memory is the peak of the process less what it held when X and Y had been loaded.

On disk: float32, uncompressed (4.6 GB and 1 GB), in a new folder inside FOLDER, deleted at the end; so many Dask
threads with one BLAS thread each; the best of the repeats counts, so that files are in the page cache where there is
room. "Bare" is what one would write in Dask without this package: ``x.T @ x`` and ``x.T @ y``, in the precision of the
files or in float64, which is that of the fit.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dst2r import DST2R, make_tensor_regression
from dst2r.correction import least_squares
from dst2r.cp import CPCoefficient
from dst2r.metrics import estimation_error
from dst2r.statistics import gather

Found = dict[str, Any]
Design = dict[str, Any]

IN_MEMORY: dict[str, Design] = {
    "wide": {"n_samples": 2000, "x_shape": (32, 32, 32), "y_shape": (8, 8), "rank": 3, "sparsity": 0.8},
    "wider": {"n_samples": 500, "x_shape": (64, 64, 32), "y_shape": (16,), "rank": 3, "sparsity": 0.8},
}
ON_DISK: dict[str, Design] = {
    "long": {"n_samples": 2_000_000, "x_shape": (8, 8, 8), "y_shape": (4, 4, 4), "rank": 10, "sparsity": 0.5},
    "disk": {"n_samples": 2000, "x_shape": (64, 64, 32), "y_shape": (16,), "rank": 3, "sparsity": 0.8},
}
CHUNKS = {"long": 20_000, "disk": 50}
SUBSET = 20_000  # samples of long data that are fitted in memory, too
SIZES = (1000, 4000, 16_000, 64_000)  # n of the curve at P = 512
WIDTHS = (8, 12, 16, 24, 32, 40)  # edges of cubes of predictors of the curve at n = 1000
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def compile_kernels() -> None:
    """Load what the first fit of a process would compile or load."""
    DST2R().fit(np.arange(20.0).reshape(10, 2), np.arange(10.0))


def clocked(call: Callable[[], object]) -> tuple[float, Any]:
    """Seconds of a call, and what it returns."""
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found


def resident(what: str = "VmRSS") -> float:
    """Megabytes that the process holds now; most that it ever held, as VmHWM (ru_maxrss counts the parent's, too)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{what}:")) / 1e6


# --- in memory ---


def write_arrays(folder: Path, design: Design, seed: int) -> None:
    """Simulate, and keep float32 arrays and what the oracle knows."""
    data = make_tensor_regression(**design, normalize=True, snr=1.0, random_state=seed)
    np.save(folder / "X.npy", data.X.astype(np.float32))
    np.save(folder / "Y.npy", data.Y.astype(np.float32))
    np.savez(folder / "truth.npz", *data.factors, coef=data.coef)


def fit_in_memory(folder: str, rank: int) -> Found:
    """Seconds, passes, extra memory and error of one fit, and the error of the oracle."""
    compile_kernels()
    X, Y = np.load(Path(folder) / "X.npy"), np.load(Path(folder) / "Y.npy")
    before = resident()
    seconds, model = clocked(lambda: DST2R(rank).fit(X, Y))
    extra = resident("VmHWM") - before
    rows, columns = X.reshape(len(X), -1), np.ones((X[0].size, rank), np.float32)
    one_pass = min(clocked(lambda: rows @ columns)[0] for _ in range(7))
    with np.load(Path(folder) / "truth.npz") as kept:
        coef = kept["coef"]
        truth = CPCoefficient(tuple(kept[f"arr_{k}"] for k in range(coef.ndim)), X.ndim - 1)
    oracle = least_squares(gather(X, Y), truth, support=truth.ravel() != 0.0, max_iter=1000)
    ratio = estimation_error(model.coef_, coef) / estimation_error(oracle.coef.to_tensor(), coef)
    found = {"seconds": seconds, "passes": seconds / one_pass, "extra": extra, "x": X.nbytes / 1e6, "ratio": ratio}
    return found | {"statistics": model.statistics_}


def report_in_memory(seeds: int, threads: int | None) -> None:
    """Markdown table of both designs."""
    print("| design | data set | seconds | passes | extra MB | X, MB | error / oracle |\n|---|---|---|---|---|---|---|")
    for name, design in IN_MEMORY.items():
        for seed in range(seeds):
            with tempfile.TemporaryDirectory() as folder:
                write_arrays(Path(folder), design, seed)
                found = in_process("fit_in_memory", folder, design["rank"], threads=threads)
            print(
                f"| {name} | {seed} | {found['seconds']:.2f} | {found['passes']:.0f} | {found['extra']:.0f} "
                f"| {found['x']:.0f} | {found['ratio']:.3f} |",
                flush=True,
            )
        print(f"\n{name}: {found['statistics']}\n" if name == "wider" else "", end="")


def time_of_fit(n: int, edge: int, repeats: int) -> Found:
    """Least seconds of some fits of ``edge**3`` predictor entries."""
    data = make_tensor_regression(n, (edge,) * 3, (4, 4), rank=3, sparsity=0.5, normalize=True, snr=1.0, random_state=0)
    X, Y = data.X.astype(np.float32), data.Y.astype(np.float32)
    compile_kernels()
    runs = [clocked(lambda: DST2R(3).fit(X, Y)) for _ in range(repeats)]
    return {"seconds": min(seconds for seconds, _ in runs), "statistics": runs[0][1].statistics_.split(":")[0]}


def report_curves(repeats: int) -> None:
    """Markdown tables with the local exponent between neighbours."""
    cases = {
        "n, at P = 512": [(n, n, 8) for n in SIZES],
        "P, at n = 1000": [(edge**3, 1000, edge) for edge in WIDTHS],
    }
    for title, points in cases.items():
        rows = []
        for size, n, edge in points:
            found = in_process("time_of_fit", n, edge, repeats)
            rows.append((size, found["seconds"], found["statistics"]))
        print(f"\n| {title} | held as | seconds | exponent |\n|---|---|---|---|")
        print_exponents(rows)


def print_exponents(rows: Iterable[tuple[int, float, str]]) -> None:
    """Rows of size, what holds the data, seconds, and the exponent since the row before."""
    before: tuple[int, float] | None = None
    for size, seconds, held in rows:
        exponent = "" if before is None else f"{math.log(seconds / before[1]) / math.log(size / before[0]):.2f}"
        print(f"| {size} | {held} | {seconds:.3f} | {exponent} |", flush=True)
        before = size, seconds


# --- on disk ---


def true_coefficient(design: Design) -> np.ndarray:
    return make_tensor_regression(**design | {"n_samples": 2}, normalize=True, random_state=0).coef


def write_zarr(folder: Path, design: Design, n: int, chunk: int) -> None:
    """Standard normal predictors and noise, chunk by chunk."""
    import zarr

    x_shape, y_shape = design["x_shape"], design["y_shape"]
    X, Y = (
        zarr.create_array(store=folder / name, shape=(n, *shape), chunks=(chunk, *shape), dtype="f4", compressors=None)
        for name, shape in (("X.zarr", x_shape), ("Y.zarr", y_shape))
    )
    coef = true_coefficient(design).astype(np.float32).reshape(math.prod(x_shape), -1)
    for k, start in enumerate(range(0, n, chunk)):
        rng, m = np.random.default_rng([1, k]), min(chunk, n - start)
        x = rng.standard_normal((m, len(coef)), dtype=np.float32)
        y = x @ coef + rng.standard_normal((m, coef.shape[1]), dtype=np.float32) + 1
        X[start : start + m], Y[start : start + m] = x.reshape(m, *x_shape), y.reshape(m, *y_shape)


def on_disk(folder: str, name: str, what: str, n: int, workers: int) -> Found:
    """Seconds and peak memory of reading, of bare products, of a fit, or a comparison with a fit in memory."""
    import dask
    import dask.array as da

    dask.config.set(scheduler="threads", num_workers=workers)
    X, Y = (da.from_zarr(str(Path(folder) / array))[:n] for array in ("X.zarr", "Y.zarr"))
    design, found = ON_DISK[name], {}
    compile_kernels()
    begin, cpu = time.perf_counter(), time.process_time()
    if what == "read":
        da.compute(X.sum(), Y.sum())
    elif what.startswith("bare"):
        x, y = X.reshape(n, -1).astype(what.split()[1]), Y.reshape(n, -1).astype(what.split()[1])
        da.compute(x.T @ x, x.T @ y)
    elif what == "fit":
        model = DST2R(design["rank"]).fit(X, Y)
        error = float(np.linalg.norm(model.coef_ - true_coefficient(design)))
        found = {"error": error, "statistics": model.statistics_}
    else:
        lazily, eagerly = DST2R(design["rank"]).fit(X, Y), DST2R(design["rank"]).fit(X.compute(), Y.compute())
        difference = np.abs(lazily.coef_ - eagerly.coef_).max() / np.abs(eagerly.coef_).max()
        found = {"difference": float(difference)}
    times = {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - cpu}
    return times | {"peak": resident("VmHWM")} | found


def report_on_disk(name: str, parent: Path, n: int, workers: int, repeats: int) -> None:
    """Write, measure, print and clean up."""
    folder = Path(tempfile.mkdtemp(prefix="dst2r-scale-", dir=parent))

    def best(what: str, n: int) -> Found:
        runs = [in_process("on_disk", str(folder), name, what, n, workers, threads=1) for _ in range(repeats)]
        return min(runs, key=lambda run: run["seconds"])

    try:
        seconds, _ = clocked(lambda: write_zarr(folder, ON_DISK[name], n, CHUNKS[name]))
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        print(f"{n} samples, {size / 1e9:.2f} GB, written in {seconds:.0f} s; {workers} workers\n")
        print("| what | seconds | CPU seconds | peak MB |\n|---|---|---|---|")
        found = {}
        for what in ("read", "bare float32", "bare float64", "fit") if name == "long" else ("read", "fit"):
            found[what] = run = best(what, n)
            print(f"| {what} | {run['seconds']:.2f} | {run['cpu']:.2f} | {run['peak']:.0f} |", flush=True)
        print()
        for what in [what for what in found if what != "fit"]:
            ratios = [found["fit"][unit] / found[what][unit] for unit in ("seconds", "cpu")]
            print(f"- fit / {what}: {ratios[0]:.2f} in seconds, {ratios[1]:.2f} in CPU seconds")
        print(f"- error of the coefficient: {found['fit']['error']:.4g}\n- {found['fit']['statistics']}")
        if name == "disk":
            return
        difference = best("compare", min(n, SUBSET))["difference"]
        print(f"- coefficients of {min(n, SUBSET)} samples, lazy and in memory, differ by {difference:.1e} (relative)")
        print("\n| n, at P = 512, on disk | held as | seconds | exponent |\n|---|---|---|---|")
        parts = [(part, found["fit"] if part == n else best("fit", part)) for part in (n // 64, n // 16, n // 4, n)]
        print_exponents((part, run["seconds"], run["statistics"].split(":")[0]) for part, run in parts)
    finally:
        shutil.rmtree(folder)


def in_process(function: str, *args: Any, threads: int | None = None) -> Found:
    """What a function of this file returns in a process of its own."""
    command = [sys.executable, __file__, "cell", json.dumps([function, *args])]
    env = os.environ | (dict.fromkeys(THREADS, str(threads)) if threads else {})
    done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Print what was asked for."""
    if sys.argv[1:2] == ["cell"]:
        function, *args = json.loads(sys.argv[2])
        print(json.dumps(globals()[function](*args)))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("wide", "curves", *ON_DISK))
    parser.add_argument("folder", type=Path, nargs="?", help="where there is room for the data on disk")
    parser.add_argument("--samples", type=int, help="on disk")
    parser.add_argument("--seeds", type=int, default=3, help="data sets in memory")
    parser.add_argument("--threads", type=int, help="of BLAS in memory; default: all")
    parser.add_argument("--workers", type=int, default=2, help="Dask threads")
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    if args.what == "wide":
        report_in_memory(args.seeds, args.threads)
    elif args.what == "curves":
        report_curves(args.repeats)
    elif args.folder is None:
        parser.error(f"{args.what} needs a folder with room for the data")
    else:
        n = args.samples or ON_DISK[args.what]["n_samples"]
        report_on_disk(args.what, args.folder, n, args.workers, args.repeats)


if __name__ == "__main__":
    main()
