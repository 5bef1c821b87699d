"""Statistics held as the Gram matrix: exact, additive, and independent of the number of samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dst2r.cp import Array, CPCoefficient, contract_all_but_one
from dst2r.statistics.base import Entries, Statistics, is_lazy, largest_entries

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

BLOCK_ENTRIES = 1 << 19  # float64 entries that are held at a time: 4 MiB, which stay in the cache


@dataclass(frozen=True, slots=True, eq=False)
class GramStatistics(Statistics):
    """``G``, ``C``, the mean squares of Y, means and n; a commutative monoid under ``+``.

    ``GramStatistics.from_arrays(A) + GramStatistics.from_arrays(B)`` equals the statistics of A and B
    together. Chunks, streams, sites and cross-validation all rest on that law.

    Attributes
    ----------
    gram : ndarray of shape (P, P)
    cross : ndarray of shape (P, Q)
    y_square, y_mean : ndarray of shape (Q,)
    x_mean : ndarray of shape (P,)
    n_samples : float
    x_shape, y_shape : tuple of int
    ridge : float
    """

    gram: Array
    cross: Array
    y_square: Array
    x_mean: Array
    y_mean: Array
    n_samples: float
    x_shape: tuple[int, ...]
    y_shape: tuple[int, ...]
    ridge: float = 0.0

    @classmethod
    def from_arrays(
        cls, X: Any, Y: Any, sample_weight: ArrayLike | None = None, *, center: bool = True
    ) -> GramStatistics:
        """Accumulate over blocks of rows, in float64, with extra memory for one block.

        Parameters
        ----------
        X : array-like of shape (n, *x_shape)
            Anything whose rows can be sliced; it is never copied whole. With a Dask array as X or Y, the statistics of
            all chunks are computed by Dask, each read once, and added.
        Y : array-like of shape (n, *y_shape)
        sample_weight : array-like of shape (n,), optional
            A weight of k counts as k repetitions.
        center : bool, default=True
            Whether the mean is taken out; without it the model has no intercept.
        """
        if any(map(is_lazy, (X, Y, sample_weight))):
            from dst2r.statistics.dask import gram_statistics  # which adds up what this method makes of the chunks

            return gram_statistics(X, Y, sample_weight, center=center)
        X, Y, weight = checked(X, Y, sample_weight)
        n, x_shape, y_shape = X.shape[0], tuple(X.shape[1:]), tuple(Y.shape[1:])
        P, Q, total = math.prod(x_shape), math.prod(y_shape), float(weight.sum())

        # Sums about the centre of the first block: sums about zero would cancel when means are large.
        # NumPy's products, unlike SciPy's BLAS, let other threads work on other chunks meanwhile.
        gram, cross = np.zeros((P, P)), np.zeros((P, Q))
        x_sum, y_sum, y_square = np.zeros(P), np.zeros(Q), np.zeros(Q)
        x_shift, y_shift, started = np.zeros(P), np.zeros(Q), not center
        for rows in _blocks(n, P + Q):
            w = weight[rows]
            x, y = _block(X, rows, w, P, "X"), _block(Y, rows, w, Q, "Y")
            w = w[w > 0, None]
            if not started and len(w):
                x_shift, y_shift, started = centre(x, w), centre(y, w), True
            x -= x_shift
            y -= y_shift
            if sample_weight is None:
                x_sum += x.sum(axis=0)
                y_sum += y.sum(axis=0)
            else:
                x_sum += (w * x).sum(axis=0)
                y_sum += (w * y).sum(axis=0)
                x *= np.sqrt(w)
                y *= np.sqrt(w)
            with np.errstate(over="ignore", invalid="ignore"):  # told of below
                y_square += np.einsum("nq,nq->q", y, y)
                gram += x.T @ x
                cross += x.T @ y
        require_squares(gram.diagonal(), "X")
        require_squares(y_square, "Y")

        dx, dy = x_sum / total, y_sum / total
        if center:  # sums about the shift become sums about the mean
            root = np.sqrt(total)
            gram -= np.outer(root * dx, root * dx)
            cross -= np.outer(total * dx, dy)
            y_square = np.maximum(y_square - total * dy * dy, 0.0)
        gram /= total
        cross /= total
        y_square /= total
        x_mean, y_mean = (x_shift + dx, y_shift + dy) if center else (np.zeros(P), np.zeros(Q))
        return cls(gram, cross, y_square, x_mean, y_mean, total, x_shape, y_shape)

    def __add__(self, other: GramStatistics) -> GramStatistics:
        """Statistics of two samples together: exact, associative and commutative up to rounding."""
        if not isinstance(other, GramStatistics):
            return NotImplemented
        if (self.x_shape, self.y_shape) != (other.x_shape, other.y_shape):
            raise ValueError(
                f"Statistics of shapes {self.x_shape} -> {self.y_shape} and {other.x_shape} -> {other.y_shape} "
                "cannot be added: all parts must describe the same predictors and responses."
            )
        n = self.n_samples + other.n_samples
        a, b = self.n_samples / n, other.n_samples / n
        dx, dy = other.x_mean - self.x_mean, other.y_mean - self.y_mean
        gram = a * self.gram
        gram += b * other.gram
        gram += np.outer(a * b * dx, dx)
        cross = a * self.cross + b * other.cross + np.outer(a * b * dx, dy)
        y_square = a * self.y_square + b * other.y_square + a * b * dy * dy
        x_mean, y_mean = self.x_mean + b * dx, self.y_mean + b * dy
        return GramStatistics(gram, cross, y_square, x_mean, y_mean, n, self.x_shape, self.y_shape)

    def gram_dot(self, U: Array) -> Array:
        return self.gram @ U

    def cross_dot(self, V: Array) -> Array:
        return self.cross @ V

    def cross_t_dot(self, U: Array) -> Array:
        return self.cross.T @ U

    def moments(self, U: Array, ranks: Sequence[int]) -> list[tuple[Array, Array]]:
        ends = np.cumsum(ranks)[:-1]
        parts = (np.split(A, ends, axis=1) for A in (U, self.gram @ U, self.cross.T @ U))
        return [(u.T @ gram_u, cross_u.T) for u, gram_u, cross_u in zip(*parts, strict=True)]

    def x_square(self) -> Array:
        return self.gram.diagonal().copy()

    def largest(self, count: int) -> Entries:
        return largest_entries(self.cross, count)

    def tangent(self, coef: CPCoefficient) -> tuple[Array, Array]:
        gram_t = contract_all_but_one(self.gram, coef.x_factors)  # T'G, shape (N, P)
        return (
            contract_all_but_one(np.ascontiguousarray(gram_t.T), coef.x_factors),
            contract_all_but_one(self.cross, coef.x_factors),
        )

    def residual(self, coef: CPCoefficient) -> GramStatistics:
        U, V = coef.x_side(), coef.y_side()
        GU = self.gram @ U
        fit, link = (V @ (U.T @ GU)) * V, (self.cross.T @ U) * V
        y_square = self.y_square + fit.sum(axis=1) - 2.0 * link.sum(axis=1)
        cross, y_mean = self.cross - GU @ V.T, self.intercept(coef)
        return replace(self, cross=cross, y_square=np.maximum(y_square, 0.0), y_mean=y_mean)

    def ridged(self, l2: float) -> GramStatistics:
        if l2 == 0.0:
            return self
        gram = self.gram.copy()
        gram.flat[:: self.n_x + 1] += l2
        return replace(self, gram=gram, ridge=self.ridge + l2)

    def reshaped(self, x_shape: tuple[int, ...], y_shape: tuple[int, ...]) -> GramStatistics:
        return replace(self, x_shape=x_shape, y_shape=y_shape)

    def scaled(self, x_scale: Array) -> GramStatistics:
        return replace(
            self,
            gram=self.gram / np.outer(x_scale, x_scale),
            cross=self.cross / x_scale[:, None],
            x_mean=self.x_mean / x_scale,
        )

    def restricted(self, slices: Sequence[NDArray[np.intp]]) -> GramStatistics:
        cut = np.ravel_multi_index(np.ix_(*slices), self.x_shape).ravel()
        return replace(
            self,
            gram=self.gram[np.ix_(cut, cut)],
            cross=self.cross[cut],
            x_mean=self.x_mean[cut],
            x_shape=tuple(len(s) for s in slices),
        )

    def as_gram(self) -> GramStatistics:
        return self

    def describe(self) -> str:
        megabytes = (self.n_x**2 + self.n_x * self.n_y) * 8 / 2**20
        return (
            f"GramStatistics: {self.n_samples:g} samples as second moments of "
            f"{self.n_x} predictor and {self.n_y} response entries, {megabytes:.1f} MiB"
        )


def _blocks(n: int, width: int) -> Iterator[slice]:
    step = max(width // 8, BLOCK_ENTRIES // max(1, width), 1)  # enough rows to be worth a pass over the sums
    return (slice(start, min(n, start + step)) for start in range(0, n, step))


def _block(array: Any, rows: slice, weight: Array, width: int, name: str) -> Array:
    """Copy of the rows that count, as a float64 matrix."""
    block = np.array(array[rows], dtype=np.float64).reshape(-1, width)
    require_finite(block, name)
    return block if (weight > 0).all() else block[weight > 0]


def require_finite(array: Array, name: str) -> None:
    """Raise if a number of X or Y, or a sum of them, is none."""
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinity: remove or impute those samples first.")


def require_squares(squares: Array, name: str) -> None:
    """Raise if the sum of squares of an entry of X or Y is beyond what a number can hold."""
    if not np.isfinite(squares).all():
        raise ValueError(
            f"{name} holds numbers so large that their squares overflow: if they mark missing values, remove or "
            "impute those samples first; else divide by a constant."
        )


def centre(block: Array, weight: Array) -> Array:
    """Mean of every column; exactly its value where a column is constant, so that nothing is left of it."""
    mean: Array = weight[:, 0] @ block / weight.sum()
    return np.where((block == block[0]).all(axis=0), block[0], mean)


def checked(X: Any, Y: Any, sample_weight: ArrayLike | None) -> tuple[Any, Any, Array]:
    """X and Y as arrays whose rows can be sliced, and the weight of every sample; raise where they do not fit."""
    X, Y = _sliceable(X), _sliceable(Y)
    n = X.shape[0]
    if Y.shape[0] != n:
        raise ValueError(f"X has {n} samples, Y has {Y.shape[0]}: both need one row per sample.")
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n,) or not (np.isfinite(weight).all() and (weight >= 0).all()):
        raise ValueError(f"sample_weight must hold {n} weights, one per sample, finite and not negative.")
    if weight.sum() == 0:
        raise ValueError("The sample weights sum to 0: at least one sample must count.")
    return X, Y, weight


def _sliceable(array: Any) -> Any:
    return array if hasattr(array, "shape") and hasattr(array, "__getitem__") else np.asarray(array)
