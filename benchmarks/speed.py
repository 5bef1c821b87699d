"""Time and memory as ratios within one run, on the paper's design: 8x8x8 -> 4x4x4, n = 1000, R = 10.

    python benchmarks/speed.py [--threads 1]

The unit is what BLAS needs for ``X'X`` and ``X'Y`` of the same data, on as many threads.
"""

import argparse
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import naive

from dst2r import DST2R, DST2RCV, GramStatistics, make_tensor_regression
from dst2r.search import search


def best(call: Callable[[], object], repeats: int) -> float:
    """Least wall time of some calls, after one to warm up."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def line(what: str, value: str, target: str = "") -> None:
    print(f"{what:58s} {value:>16s}   {target}", flush=True)


def fits() -> None:
    """Whole fits against BLAS, at two sample sizes, and cross-validation against one fit."""
    ratios = {}
    for n in (1000, 100_000):
        data = make_tensor_regression(
            n, (8, 8, 8), (4, 4, 4), rank=10, sparsity=0.2, noise=0.2, normalize=True, random_state=0
        )
        X, Y = (a.reshape(n, -1) - a.reshape(n, -1).mean(axis=0) for a in (data.X, data.Y))
        blas = best(lambda X=X, Y=Y: (X.T @ X, X.T @ Y), 10 if n == 1000 else 2)
        fit = best(lambda d=data: DST2R(10).fit(d.X, d.Y), 10 if n == 1000 else 2)
        ratios[n] = fit / blas
        line(f"BLAS for G and C, n = {n}", f"{1e3 * blas:.1f} ms")
        line(f"DST2R(10).fit, n = {n}", f"{1e3 * fit:.1f} ms")
        line("  ratio", f"{ratios[n]:.1f}", "<= 25, aim 10" if n == 1000 else "<= 2")
        if n == 1000:
            cv = best(lambda d=data: DST2RCV(range(1, 11)).fit(d.X, d.Y), 3)
            line("DST2RCV(1..10), 5 folds / DST2R(10)", f"{cv / fit:.1f}", "<= 8")


def search_against_rows() -> None:
    """The compiled search against the plain transcription of the algorithm on the rows."""
    data = make_tensor_regression(
        1000, (8, 8, 8), (4, 4, 4), rank=10, sparsity=0.2, noise=0.2, normalize=True, random_state=0
    )
    stats = GramStatistics.from_arrays(data.X, data.Y)
    path = search(stats)
    pair = 2 * best(lambda: search(stats), 20) / len(path)
    steps = 40
    start = time.perf_counter()
    naive.stagewise_rows(data.X, data.Y, 0.05, max_steps=steps)
    slow = 2 * (time.perf_counter() - start) / steps
    line("one contract + generate pair", f"{1e6 * pair:.1f} us", "<= 10 us")
    line("  the same in NumPy on the rows", f"{1e3 * slow:.1f} ms")
    line("  ratio", f"{slow / pair:.0f}", ">= 200")


def memory() -> None:
    """Peak Python memory of a fit beyond its input, in units of P² + PQ doubles."""
    for n in (1000, 50_000):
        data = make_tensor_regression(n, (8, 8, 8), (4, 4, 4), rank=5, random_state=0)
        model = DST2R(5)
        tracemalloc.start()
        model.fit(data.X, data.Y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        line(f"memory of a fit / (P² + PQ), n = {n}", f"{peak / (8 * (512**2 + 512 * 64)):.1f}")


def seconds(code: str) -> float:
    """What a fresh interpreter prints."""
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def start_up() -> None:
    """Import and first fit in fresh processes."""
    clock = "import time, numpy; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
    line("import dst2r, beyond NumPy", f"{seconds(clock.format('import dst2r')):.3f} s", "<= 0.3 s")
    help_page = (
        "import contextlib, io, sys, time, numpy; sys.argv = ['dst2r', '--help']; t = time.perf_counter()\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "    from dst2r.cli import main; main()\n"
        "print(time.perf_counter() - t)"
    )
    line("dst2r --help, beyond NumPy", f"{seconds(help_page):.3f} s", "<= 0.5 s")
    first = (
        "import time, numpy as np; rng = np.random.default_rng(0); X = rng.random((1000, 8, 8, 8));"
        "Y = rng.random((1000, 4, 4, 4)); t = time.perf_counter(); from dst2r import DST2R;"
        "DST2R(2).fit(X, Y); print(time.perf_counter() - t)"
    )
    seconds(first)
    line("import and first fit, warm cache", f"{seconds(first):.2f} s", "<= 2 s")
    cold = f"import os, tempfile; os.environ['NUMBA_CACHE_DIR'] = tempfile.mkdtemp(); {first}"
    line("import and first fit, cold cache", f"{seconds(cold):.2f} s", "compilation <= 15 s")


def main() -> None:
    """Print all ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=None, help="of BLAS; default: all")
    args = parser.parse_args()
    with threadpool_limits(args.threads):
        fits()
        search_against_rows()
        memory()
    start_up()


if __name__ == "__main__":
    main()
