"""Choose how data are held: a pure function of their size and of the memory that is left."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dst2r.cp import Array
from dst2r.statistics.base import Statistics, is_lazy
from dst2r.statistics.dask import LOCAL_BYTES, DaskStatistics
from dst2r.statistics.folds import Split, fold_statistics
from dst2r.statistics.gram import GramStatistics
from dst2r.statistics.rows import BLOCK_BYTES, RowStatistics

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

GRAM_WIDTH = 2048  # predictor entries from which a fit by passes over the rows is quicker than G, whatever n
CUT_SHARE = 1 / 4  # of the entries of X: what the sub-tensor that a search copies out of the rows may hold


def choose(
    n: int, n_x: int, n_y: int, itemsize: int, memory: float, n_folds: int = 0, *, lazy: bool = False
) -> type[Statistics]:
    """Gram matrix or rows, for n samples of so many entries; raise MemoryError if neither fits into ``memory`` bytes.

    Parameters
    ----------
    n, n_x, n_y : int
        Samples, predictor entries P and response entries Q.
    itemsize : int
        Bytes of an entry of X, which is there already and not counted.
    memory : float
        Bytes that may be used; infinity if unknown.
    n_folds : int
        Of a cross-validation.
    lazy : bool
        Whether X is not in memory, but a Dask array.
    """
    # G and what is made of it by a ridge or a contraction; prefix and suffix sums of folds. C and its residual.
    gram = 8 * ((3 + 3 * n_folds) * n_x**2 + (4 + 3 * n_folds) * n_x * n_y)
    # C of the residual if it is small, the dense coefficient; a sub-tensor, a few blocks and the responses.
    cut = CUT_SHARE * n * n_x * itemsize
    rows = (
        8 * 3 * n_x * n_y + (min(cut, LOCAL_BYTES) if lazy else cut) + 4 * BLOCK_BYTES + 8 * (4 + 2 * n_folds) * n * n_y
    )
    if n_x <= GRAM_WIDTH and gram <= memory:
        return GramStatistics
    if rows <= memory:
        return DaskStatistics if lazy else RowStatistics
    if gram <= memory:  # slower than rows would be, but they are too many
        return GramStatistics
    raise MemoryError(
        f"A fit of {n} samples of {n_x} predictor and {n_y} response entries needs about {gram / 1e9:.3g} GB as second "
        f"moments or {rows / 1e9:.3g} GB as rows beyond X itself, and {memory / 1e9:.3g} GB are free: give fewer or "
        "coarser predictor entries or fewer responses at a time, or give X as a Dask array and use a cluster."
    )


def require_room(n_x: int, n_y: int) -> None:
    """Raise MemoryError unless two Gram matrices and what is made of them fit: statistics that are to be added up."""
    needed, free = 8 * 4 * (n_x**2 + n_x * n_y), free_memory()
    if needed > free:
        raise MemoryError(
            f"Statistics of {n_x} predictor and {n_y} response entries add up as Gram matrices, which takes about "
            f"{needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free: call fit, which can do without, on all samples "
            "(a Dask array, if they do not fit into memory), or give coarser predictors."
        )


def gather(
    X: Any, Y: Any, sample_weight: ArrayLike | None = None, *, center: bool = True, memory: float | None = None
) -> Statistics:
    """Statistics of some samples, held as suits their size.

    Parameters
    ----------
    X : array-like or Dask array of shape (n, *x_shape)
        Anything whose rows can be sliced; it is never copied whole.
    Y : array-like of shape (n, *y_shape)
    sample_weight : array-like of shape (n,), optional
        A weight of k counts as k repetitions.
    center : bool, default=True
        Whether the mean is taken out; without it the model has no intercept.
    memory : float, optional
        Bytes that may be used; what is free, if not given.
    """
    return _kind(X, Y, memory).from_arrays(X, Y, sample_weight, center=center)


def gather_folds(
    X: Any,
    Y: Any,
    splits: Sequence[Split],
    sample_weight: Array | None = None,
    *,
    center: bool = True,
    memory: float | None = None,
) -> tuple[Statistics, Sequence[tuple[Statistics, Statistics]]]:
    """Statistics of all samples, and of the training and test set of every split, held as suits their size."""
    kind = _kind(X, Y, memory, len(splits))
    if kind is GramStatistics:
        return fold_statistics(X, Y, splits, sample_weight, center=center)

    def of(rows: Any) -> Statistics:
        return kind.from_arrays(X, Y, sample_weight, center=center, rows=rows)

    return of(None), [(of(train), of(test)) for train, test in splits]


def free_memory() -> float:
    """Bytes that this process may still use; infinity if the system does not tell."""
    free = math.inf
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
        group = Path("/sys/fs/cgroup")  # a container's limit
        limit = (group / "memory.max").read_text(encoding="ascii").strip()
        if limit != "max":
            free = min(free, float(limit) - float((group / "memory.current").read_text(encoding="ascii")))
    except (OSError, StopIteration, ValueError):
        if math.isinf(free) and hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
            free = float(os.sysconf("SC_AVPHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    return free


def _kind(X: Any, Y: Any, memory: float | None, n_folds: int = 0) -> Any:
    x_shape, y_shape = np.shape(X), np.shape(Y)
    itemsize = 4 if getattr(X, "dtype", None) == np.float32 else 8
    memory = free_memory() if memory is None else memory
    return choose(
        x_shape[0], math.prod(x_shape[1:]), math.prod(y_shape[1:]), itemsize, memory, n_folds, lazy=is_lazy(X)
    )
