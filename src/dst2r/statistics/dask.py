"""Dask arrays: every chunk is reduced to its statistics by one task, and a tree adds them up (docs/maths.md, eq. 3).

Nothing is read before the one reduction; what must be known of the numbers (are they finite?) is checked by the task
that reads them. Dask is imported by the functions that need it: the module itself loads without.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from dst2r.cp import Array, CPCoefficient
from dst2r.statistics.gram import GramStatistics
from dst2r.statistics.rows import OfBlock, RowStatistics

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from dask.delayed import Delayed

CHUNK_BYTES = 1 << 24  # smaller neighbouring chunks are read by one task
LOCAL_BYTES = 1 << 30  # a sub-tensor that takes no more is read once and kept here, in float64
FAN_IN = 4  # statistics that are added at a time; few are in memory at once

Rows = slice | NDArray[np.intp]
Parts = list[GramStatistics | None]


def training_arrays(X: Any, Y: Any, sample_weight: Any = None, *, least: int = 1) -> tuple[Any, Any, Any]:
    """Check shapes and types, and give all arrays the same chunks of whole samples. Nothing is computed.

    Parameters
    ----------
    X, Y, sample_weight : Dask array or array-like
        At least one of them a Dask array. Chunks follow X if it is one, else Y, else the weights.
    least : int
        Number of samples that there must be.

    Raises
    ------
    ValueError
        If shapes do not fit together or sizes of chunks are not known.
    """
    arrays = {"X": X, "y": Y} | ({} if sample_weight is None else {"sample_weight": sample_weight})
    arrays = {name: _checked(name, array) for name, array in arrays.items()}
    n = arrays["X"].shape[0] if arrays["X"].ndim else 0
    if arrays["X"].ndim < 2:
        raise ValueError(f"X has shape {arrays['X'].shape}; expected samples first, then at least one mode.")
    if n < least:
        raise ValueError(f"X has {n} sample(s); at least {least} are needed.")
    for name, array in arrays.items():
        if array.ndim == 0 or array.shape[0] != n:
            raise ValueError(
                f"X has {n} samples, {name} has shape {array.shape}: "
                "both need one entry per sample along their first axis."
            )
        if array.size == 0:
            raise ValueError(f"{name} of shape {array.shape} holds no entry: every mode needs at least one.")
    if sample_weight is not None and arrays["sample_weight"].ndim != 1:
        raise ValueError(f"sample_weight has shape {arrays['sample_weight'].shape}; expected one weight per sample.")
    leader = next(array for array in arrays.values() if hasattr(array, "chunks"))
    chunks = _whole_samples("X", leader).chunks[0]
    X, Y, *weight = (_with_chunks(name, array, chunks) for name, array in arrays.items())
    return X, Y, (weight[0] if weight else None)


def gram_statistics(X: Any, Y: Any, sample_weight: Any = None, *, center: bool) -> GramStatistics:
    """Statistics of all samples; every chunk is read once."""
    X, Y, weight = training_arrays(X, Y, sample_weight)
    return _required(gram_tree(X, Y, weight, None, center=center).compute())[0]


def subset_statistics(
    X: Any, Y: Any, subsets: Sequence[Rows], sample_weight: Any = None, *, center: bool
) -> list[GramStatistics]:
    """Statistics of several subsets of the samples; every chunk is read once for all of them."""
    X, Y, weight = training_arrays(X, Y, sample_weight)
    n = X.shape[0]
    counts = [np.bincount(np.arange(n)[rows], minlength=n) for rows in subsets]
    members = np.column_stack([c.astype(np.min_scalar_type(c.max())) for c in counts])
    return _required(gram_tree(X, Y, weight, members, center=center).compute())


def gram_tree(
    X: DaskArray, Y: DaskArray, weight: DaskArray | None, members: NDArray[Any] | None, *, center: bool
) -> Delayed:
    """Lazy list of the statistics of every subset: one task a chunk, then sums of a few at a time.

    Parameters
    ----------
    X, Y, weight : Dask array
        As :func:`training_arrays` returns them.
    members : ndarray of int of shape (n, k), optional
        How often every sample counts in each of k subsets; without it there is one, of all samples.
    """
    import dask.array as da

    n, P = X.shape[0], math.prod(X.shape[1:])
    # A task adds up P x P numbers whatever its number of samples: P of them are worth it, and no larger than G.
    chunks = joined(X.chunks[0], max(P, CHUNK_BYTES // ((X.nbytes + Y.nbytes) // n)))
    arrays = [da.arange(n, chunks=(chunks,), dtype=np.int64), X, Y, weight]
    if members is not None:
        arrays.append(da.from_array(members, chunks=(chunks, -1), name=False))
    # No index is summed over and every block is a sample chunk, so that Dask fuses the task with what reads its chunk.
    operands: list[Any] = []
    axis = 1
    for array in arrays:
        modes = 0 if array is None else array.ndim - 1
        index = None if array is None else (0, *range(axis, axis + modes))
        operands += [array if array is None else array.rechunk({0: chunks}), index]
        axis += modes
    blocks = da.blockwise(
        _chunk_statistics,
        tuple(range(axis)),
        *operands,
        center=center,
        dtype=object,
        meta=np.empty((0,) * axis, dtype=object),
        align_arrays=False,
    )
    return _tree(list(blocks.to_delayed().ravel()), _total)


def map_samples(X: Any, function: Callable[[NDArray[Any]], NDArray[Any]], shape: Sequence[int]) -> DaskArray:
    """Dask array of shape ``(n, *shape)`` from a function of matrices (m, P) of samples. Nothing is computed.

    Parameters
    ----------
    X : Dask array, samples first
        The number of samples may be unknown.
    function : callable
        To (m, size of ``shape``), of the dtype of its argument.
    """
    import dask.array as da

    X = _whole_samples("X", _checked("X", X, known=False))
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    last = X.ndim + len(shape)
    return da.blockwise(
        _mapped,
        (0, *range(X.ndim, last)),
        X,
        tuple(range(X.ndim)),
        function=function,
        shape=tuple(shape),
        new_axes=dict(zip(range(X.ndim, last), shape, strict=True)),
        dtype=dtype,
        meta=np.empty((0,) * (1 + len(shape)), dtype=dtype),
    )


def r2_score(Y: Any, prediction: Any, sample_weight: Any = None) -> float:
    """:func:`dst2r.metrics.r2_score` of lazy predictions, in one pass over the samples."""
    error, variance = errors(Y, prediction, sample_weight)
    # Where responses do not vary: 1 if predicted exactly, else 0.
    share = np.divide(error, variance, out=(error > 0).astype(float), where=variance > 0)
    return float(np.mean(1.0 - share))


def errors(Y: Any, prediction: Any, sample_weight: Any = None) -> tuple[Array, Array]:
    """Mean squared error and variance of every response entry, shape (Q,), in one pass over the samples."""
    import dask.array as da

    _checked("X", prediction)
    one = da.ones((prediction.shape[0], 1), chunks=(prediction.chunks[0], 1))
    _, Y, weight = training_arrays(one, Y, sample_weight)
    if Y.shape != prediction.shape:
        raise ValueError(f"y has shape {Y.shape}, predictions have {prediction.shape}.")
    pairs = da.stack([Y.astype(np.float64), Y - prediction], axis=1).rechunk({1: 2})
    stats = gram_statistics(one, pairs, weight, center=True)
    variance, noise = stats.y_square.reshape(2, -1)
    return noise + stats.y_mean.reshape(2, -1)[1] ** 2, variance


@dataclass(frozen=True, eq=False)
class DaskStatistics(RowStatistics):
    """``RowStatistics`` of a Dask array: every product is a pass of tasks over its chunks, added up by a tree.

    The predictors stay where they are, but for parts of at most ``LOCAL_BYTES``. Responses and weights are held here,
    and their chunks go along with the tasks.

    Attributes
    ----------
    X : Dask array of shape (n, *x_shape)
        In chunks of whole samples.
    passes : list of one int
        Passes over X until now, of these statistics and of all that were derived from them.
    """

    passes: list[int] = field(default_factory=lambda: [0])

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        Y: Any,
        sample_weight: Any = None,
        *,
        center: bool = True,
        rows: NDArray[np.intp] | None = None,
    ) -> Self:
        from dask.base import compute

        X, Y, weight = training_arrays(X, Y, sample_weight)
        n, width = X.shape[0], X.nbytes // X.shape[0]
        Y, weight = compute(Y, np.ones(n) if weight is None else weight)
        if rows is not None or (weight == 0).any():
            rows = np.arange(n) if rows is None else rows
            rows = rows[weight[rows] != 0]
            X, Y, weight = X[rows], Y[rows], weight[rows]
        X = X.rechunk({0: joined(X.chunks[0], max(1, CHUNK_BYTES // width))})
        return super().from_arrays(X, Y, weight, center=center)

    def reduce(self, of_block: OfBlock, n_rows: int | None = None) -> tuple[Array, ...]:
        total: tuple[Array, ...] = _tree(self._tasks(_reduced_part, of_block, n_rows), _added).compute()
        return total

    def scores(self, U: Array) -> Array:
        from dask.base import compute

        return np.concatenate(compute(*self._tasks(_scores_of_part, U)))

    def restricted(self, slices: Sequence[NDArray[np.intp]]) -> RowStatistics:
        cut = np.ravel_multi_index(np.ix_(*slices), self.x_shape).ravel()
        prior = self.prior
        if prior is not None:
            x_factors = [f[s] for f, s in zip(prior.x_factors, slices, strict=True)]
            prior = CPCoefficient((*x_factors, *prior.y_factors), len(slices))
        part = replace(
            self,
            X=self.X.reshape(len(self.Y), -1)[:, cut],
            x_mean=self.x_mean[cut],
            x_shape=tuple(len(s) for s in slices),
            x_scale=None if self.x_scale is None else self.x_scale[cut],
            prior=prior,
        )
        if 8 * cut.size * len(self.Y) > LOCAL_BYTES:
            return part
        self.passes[0] += 1
        known = {f.name: getattr(part, f.name) for f in fields(RowStatistics)}
        return RowStatistics(**known | {"X": part.X.astype(np.float64).compute()})

    def describe(self) -> str:
        return (
            f"{super().describe()}; {self.passes[0]} passes over {self.X.numblocks[0]} chunks of a Dask array "
            f"of {self.X.nbytes / 1e9:.3g} GB"
        )

    def _tasks(self, function: Callable[..., Any], *args: Any) -> list[Delayed]:
        """One pass: a task for each chunk, which calls a function of that chunk's ``RowStatistics``."""
        from dask.delayed import delayed

        self.passes[0] += 1
        known = {f.name: getattr(self, f.name) for f in fields(RowStatistics)}
        frame = RowStatistics(**known | {"X": None, "Y": self.Y[:0], "weight": self.weight[:0], "prior": None})
        # Delayed, they are sent to each worker once and not with each task.
        frame, *rest = (delayed(value, pure=False) for value in (frame, *args))
        task, ends = delayed(_of_part, pure=False), np.cumsum(self.X.chunks[0])
        chunks = self.X.to_delayed().ravel()
        return [
            task(function, chunk, self.Y[end - size : end], self.weight[end - size : end], frame, *rest)
            for chunk, size, end in zip(chunks, self.X.chunks[0], ends, strict=True)
            if size
        ]


def joined(chunks: Sequence[int], most: int) -> tuple[int, ...]:
    """Chunks with neighbours joined as long as they hold at most ``most`` samples together."""
    sizes: list[int] = []
    for size in chunks:
        if sizes and sizes[-1] + size <= most:
            sizes[-1] += size
        else:
            sizes.append(size)
    return tuple(sizes)


def _chunk_statistics(
    rows: NDArray[np.int64],
    X: NDArray[Any],
    Y: NDArray[Any],
    weight: Array | None,
    members: NDArray[Any] | None = None,
    *,
    center: bool,
) -> Parts:
    """Statistics of every subset's share of a chunk; None where nothing counts."""
    parts: Parts = []
    subsets = [None] if members is None else members.T
    for counts in subsets:
        x, y, w = X, Y, weight
        if counts is not None:
            kept = np.flatnonzero(counts)
            x, y, w = X[kept], Y[kept], None if weight is None else weight[kept]
            if (counts > 1).any():
                w = counts[kept] * (1.0 if w is None else w)
        if len(x) == 0 or (w is not None and not np.any(w)):
            parts.append(None)
            continue
        try:
            parts.append(GramStatistics.from_arrays(x, y, w, center=center))
        except ValueError as error:
            raise ValueError(f"{error} This was found among samples {rows[0]} to {rows[-1]}.") from None
    return parts


def _of_part(function: Callable[..., Any], X: Any, Y: Array, weight: Array, frame: RowStatistics, *args: Any) -> Any:
    with np.errstate(invalid="ignore"):  # what is not finite is told by its sum
        return function(replace(frame, X=X, Y=Y, weight=weight), *args)


def _reduced_part(stats: RowStatistics, of_block: OfBlock, n_rows: int | None) -> tuple[Array, ...]:
    return RowStatistics.reduce(stats, of_block, n_rows)


def _scores_of_part(stats: RowStatistics, U: Array) -> Array:
    return RowStatistics.scores(stats, U)


def _added(parts: Sequence[tuple[Array, ...]]) -> tuple[Array, ...]:
    return tuple(sum(same[1:], start=same[0]) for same in zip(*parts, strict=True))


def _tree(parts: list[Delayed], total: Callable[[list[Any]], Any]) -> Delayed:
    """Lazy sum, a few at a time, so that few of them wait in memory."""
    from dask.delayed import delayed

    total = delayed(total, pure=False)
    while len(parts) > 1:
        parts = [total(parts[k : k + FAN_IN]) for k in range(0, len(parts), FAN_IN)]
    return parts[0]


def _total(parts: Sequence[Parts]) -> Parts:
    """Sums over chunks, subset by subset."""
    some = [[part for part in same if part is not None] for same in zip(*parts, strict=True)]
    return [reduce(add, same) if same else None for same in some]


def _required(parts: Parts) -> list[GramStatistics]:
    found = [part for part in parts if part is not None]
    if len(found) < len(parts):
        raise ValueError("The sample weights sum to 0: at least one sample must count in every subset.")
    return found


def _mapped(X: Any, *, function: Callable[[NDArray[Any]], NDArray[Any]], shape: tuple[int, ...]) -> NDArray[Any]:
    while isinstance(X, list):  # Dask hands over a list of the one block along every mode
        (X,) = X
    rows = X.reshape(len(X), -1)
    rows = rows if rows.dtype == np.float32 else rows.astype(np.float64, copy=False)
    if not np.isfinite(rows).all():
        raise ValueError("X holds NaN or infinity: remove or impute those samples first.")
    return function(rows).reshape(len(rows), *shape)


def _checked(name: str, array: Any, *, known: bool = True) -> Any:
    """A Dask array of numbers, or a NumPy array."""
    if not type(array).__module__.startswith("dask."):
        array = np.asarray(array)
    elif not hasattr(array, "rechunk"):
        raise ValueError(
            f"{name} is a Dask {type(array).__name__}; expected an array: call {name}.to_dask_array(lengths=True)."
        )
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} has dtype {array.dtype}; expected real numbers.")
    lengths = [size for sizes in getattr(array, "chunks", ())[0 if known else 1 :] for size in sizes]
    if any(math.isnan(size) for size in lengths):
        raise ValueError(
            f"{name} has chunks of unknown sizes (shape {array.shape}), so samples cannot be counted or matched: "
            f"call {name}.compute_chunk_sizes() first, or to_dask_array(lengths=True) where it comes from a dataframe."
        )
    return array


def _whole_samples(name: str, array: Any) -> DaskArray:
    """Rechunk an array that is chunked along its modes, and say so."""
    if all(blocks == 1 for blocks in array.numblocks[1:]):
        return array
    warnings.warn(
        f"{name} is chunked along its modes (chunks of {array.chunksize}, of {array.shape}): it is rechunked to whole "
        "samples, which moves data between chunks in every pass. Store it chunked along samples only.",
        UserWarning,
        stacklevel=4,
    )
    sizes = dict.fromkeys(range(1, array.ndim), -1)
    return array.rechunk(sizes if math.isnan(array.shape[0]) else {0: "auto", **sizes})


def _with_chunks(name: str, array: Any, chunks: tuple[int, ...]) -> DaskArray:
    """Dask array with these chunks of whole samples."""
    import dask.array as da

    if hasattr(array, "chunks"):
        return _whole_samples(name, array).rechunk({0: chunks})
    # Without a name Dask would read the whole array to make one.
    return da.from_array(array, chunks=(chunks, *array.shape[1:]), name=False)
