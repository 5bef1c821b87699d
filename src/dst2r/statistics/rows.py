"""Statistics that keep the rows, for predictors so wide that their Gram matrix is out of reach."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from dst2r.cp import Array, CPCoefficient, contract_all_but_one, contract_rows_all_but_one, tangent_gram
from dst2r.statistics.base import Entries, Statistics, largest_entries
from dst2r.statistics.gram import GramStatistics, centre, checked, require_finite

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

BLOCK_BYTES = 1 << 23  # of X that are worked on at a time: they stay in the cache from one product to the next
CROSS_SHARE = 1 / 8  # C is kept if it takes no more than this part of the memory of X

SMALL_MEAN = 2.0  # in spreads: sums that are corrected for such means lose no more than a digit

OfBlock = Callable[[NDArray[Any], Array, Array], tuple[Array, ...]]


@dataclass(frozen=True, eq=False)
class RowStatistics(Statistics):
    """``X`` as it came, the centred responses and weights; every product is a pass over blocks of rows.

    A pass costs O(n P) and needs the memory of one block. Nothing of size P x P is ever formed, and of size P x Q only
    what is small beside X. Products of a block are in X's precision, sums over blocks in float64.

    Attributes
    ----------
    X : array of shape (n_all, *x_shape)
        Anything whose rows can be sliced; read, never copied whole.
    rows : ndarray of shape (n,) or None
        Which rows of X are meant; None for all of them.
    Y : ndarray of shape (n, Q)
        Centred responses, less what :meth:`residual` took out.
    weight : ndarray of shape (n,)
        Of each sample, with the sum 1.
    x_scale : ndarray of shape (P,) or None
        What the predictors are divided by.
    prior : CPCoefficient or None
        What :meth:`residual` took out: the ridge shrinks it together with what will be added.
    shifted : bool
        Whether the means are taken from every block. Where they are small beside the spread, sums are corrected for
        them instead, and blocks are not copied.
    x_mean, y_mean, y_square, n_samples, x_shape, y_shape, ridge
        As of every :class:`Statistics`.
    """

    X: Any
    rows: NDArray[np.intp] | None
    Y: Array
    weight: Array
    x_mean: Array
    y_mean: Array
    y_square: Array
    n_samples: float
    x_shape: tuple[int, ...]
    y_shape: tuple[int, ...]
    x_scale: Array | None = None
    ridge: float = 0.0
    prior: CPCoefficient | None = None
    shifted: bool = True

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        Y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        center: bool = True,
        rows: NDArray[np.intp] | None = None,
    ) -> Self:
        """Means and checks in one pass over the rows.

        Parameters
        ----------
        X : array-like of shape (n, *x_shape)
            Anything whose rows can be sliced; it is never copied whole.
        Y : array-like of shape (n, *y_shape)
        sample_weight : array-like of shape (n,), optional
            A weight of k counts as k repetitions.
        center : bool, default=True
            Whether the mean is taken out; without it the model has no intercept.
        rows : ndarray of int, optional
            The samples that count, where not all do: those of a fold.
        """
        X, Y, weight = checked(X, Y, sample_weight)
        x_shape, y_shape = tuple(X.shape[1:]), tuple(Y.shape[1:])
        if rows is not None or (weight == 0).any():
            rows = np.arange(len(weight)) if rows is None else rows
            rows = rows[weight[rows] > 0]
            weight, Y = weight[rows], Y[rows]
        total = float(weight.sum())
        if total == 0:
            raise ValueError("The sample weights sum to 0: at least one sample must count.")
        weight = weight / total
        Y = np.array(Y, dtype=np.float64).reshape(len(weight), -1)
        require_finite(Y, "Y")
        P, y_mean = math.prod(x_shape), np.zeros(Y.shape[1])
        if center:
            y_mean = centre(Y, weight[:, None])
            Y -= y_mean
            rest = weight @ Y  # what rounding of a large mean left
            Y -= rest
            y_mean = y_mean + rest
        stats = cls(X, rows, Y, weight, np.zeros(P), y_mean, weight @ Y**2, total, x_shape, y_shape)
        first = next(stats.blocks(1))[0][0]  # sums about a row: sums about zero would cancel when means are large
        with np.errstate(invalid="ignore", over="ignore"):
            x_sum, square = replace(stats, x_mean=first).reduce(_moments_of_block)
        require_finite(x_sum, "X")
        if not center:
            return stats
        x_mean = first + x_sum
        small = x_mean**2 <= SMALL_MEAN**2 * (square - x_sum**2)
        return replace(stats, x_mean=x_mean, shifted=not small.all())

    # --- the rows: all that a class which keeps them elsewhere has to replace ---

    def reduce(self, of_block: OfBlock, n_rows: int | None = None) -> tuple[Array, ...]:
        """Sum ``of_block(x, y, w)`` over blocks of rows, in float64.

        Parameters
        ----------
        of_block : callable
            Takes predictors (b, P), float32 or float64, which are centred up to ``offset``, responses (b, Q) and
            weights (b,) of a block; returns arrays. May be sent elsewhere: it must not refer to ``self``.
        n_rows : int, optional
            Rows of a block, where what ``of_block`` returns is larger than a block of the usual size.
        """
        totals: tuple[Array, ...] = ()
        for block, part in self.blocks(n_rows):
            found = of_block(block, self.Y[part], self.weight[part])
            if not totals:
                totals = tuple(np.array(f, dtype=np.float64) for f in found)
            else:
                for total, f in zip(totals, found, strict=True):
                    np.add(total, f, out=total)
        return totals

    def scores(self, U: Array) -> Array:
        """Centred predictors times U, shape (n, k)."""
        offset = self.offset @ U
        scores = np.empty((len(self.Y), U.shape[1]))
        for x, part in self.blocks():
            scores[part] = x @ U.astype(x.dtype) - offset
        return scores

    def restricted(self, slices: Sequence[NDArray[np.intp]]) -> RowStatistics:
        cut = np.ravel_multi_index(np.ix_(*slices), self.x_shape).ravel()
        X, done = np.empty((len(self.Y), cut.size), self.dtype), 0
        for block in self._raw_blocks(self._block_rows()):
            np.take(block, cut, axis=1, out=X[done : done + len(block)], mode="clip")  # "raise" would copy once more
            done += len(block)
        prior = None
        if self.prior is not None:
            x_factors = [f[s] for f, s in zip(self.prior.x_factors, slices, strict=True)]
            prior = CPCoefficient((*x_factors, *self.prior.y_factors), len(slices))
        return RowStatistics(
            X,
            None,
            self.Y,
            self.weight,
            self.x_mean[cut],
            self.y_mean,
            self.y_square,
            self.n_samples,
            tuple(len(s) for s in slices),
            self.y_shape,
            None if self.x_scale is None else self.x_scale[cut],
            self.ridge,
            prior,
            self.shifted,
        )

    def blocks(self, n_rows: int | None = None) -> Iterator[tuple[NDArray[Any], slice]]:
        """Blocks of rows, centred up to ``offset`` and scaled, and their places in Y; valid until the next one."""
        n_rows = min(n_rows or self._block_rows(), len(self.Y))
        shift = self._shift if self._shift.any() else None
        factor = None if self.x_scale is None else (1.0 / self.x_scale).astype(self.dtype)
        buffer, stop = np.empty((n_rows, self.n_x), self.dtype), 0
        for block in self._raw_blocks(n_rows):
            start, stop = stop, stop + len(block)
            x = block
            if shift is not None:
                x = np.subtract(block, shift, out=buffer[: len(block)])
            elif factor is not None or x.dtype != self.dtype:
                x = buffer[: len(block)]
                x[...] = block
            if factor is not None:
                x *= factor
            yield x, slice(start, stop)

    def _raw_blocks(self, n_rows: int) -> Iterator[NDArray[Any]]:
        for start in range(0, len(self.Y), n_rows):
            part: slice | NDArray[np.intp] = slice(start, min(start + n_rows, len(self.Y)))
            if self.rows is not None:
                part = self.rows[part]
                if (np.diff(part) == 1).all():
                    part = slice(part[0], part[-1] + 1)  # a view
            block = np.asarray(self.X[part])
            yield block.reshape(len(block), -1)

    def _block_rows(self) -> int:
        return max(1, BLOCK_BYTES // (self.n_x * self.dtype.itemsize))

    # --- everything else asks the rows through these ---

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the products of a block."""
        return np.dtype(np.float32 if self.X.dtype == np.float32 else np.float64)

    @property
    def rounding(self) -> float:
        return 1e-8 if self.dtype == np.float32 else 1e-14

    @cached_property
    def _shift(self) -> NDArray[Any]:
        """What is taken from the raw predictors, in their own precision."""
        if not self.shifted:
            return np.zeros(self.n_x, self.dtype)
        return (self.x_mean if self.x_scale is None else self.x_mean * self.x_scale).astype(self.dtype)

    @cached_property
    def offset(self) -> Array:
        """What is left of the mean in a block: all of it, or what its finite precision leaves; shape (P,)."""
        return self.x_mean - (self._shift if self.x_scale is None else self._shift / self.x_scale)

    @cached_property
    def cross(self) -> Array | None:
        """C, shape (P, Q), if that is small beside the rows."""
        memory = self.n_x * self.n_y * 8
        if memory > CROSS_SHARE * len(self.Y) * self.n_x * self.dtype.itemsize:
            return None
        return self._cross_dot(np.eye(self.n_y))

    def _cross_dot(self, V: Array) -> Array:
        (product,) = self.reduce(
            lambda x, y, w: (x.T @ (w[:, None] * (y @ V)).astype(x.dtype),), max(self._block_rows(), 4 * V.shape[1])
        )
        return product - self._pull(V)

    def _pull(self, V: Array) -> Array:
        """What the ridge takes from ``C V`` for what :meth:`residual` took out; shape (P, k) or 0."""
        if self.prior is None or self.ridge == 0.0:
            return np.zeros(())
        return self.ridge * self.prior.x_side() @ (self.prior.y_side().T @ V)

    def gram_dot(self, U: Array) -> Array:
        offset, columns = self.offset @ U, U.astype(self.dtype)
        (product,) = self.reduce(lambda x, y, w: (x.T @ (w[:, None] * (x @ columns - offset)).astype(x.dtype),))
        return product + self.ridge * U

    def cross_dot(self, V: Array) -> Array:
        return self._cross_dot(V) if self.cross is None else self.cross @ V

    def cross_t_dot(self, U: Array) -> Array:
        return self.moments(U, [U.shape[1]])[0][1].T if self.cross is None else self.cross.T @ U

    def moments(self, U: Array, ranks: Sequence[int]) -> list[tuple[Array, Array]]:
        scores, ends = self.scores(U), np.cumsum([0, *ranks])
        weighted = self.weight[:, None] * scores
        pull = np.zeros((self.n_y, U.shape[1]))
        if self.prior is not None:
            pull = self.ridge * self.prior.y_side() @ (self.prior.x_side().T @ U)
        parts = [slice(start, stop) for start, stop in pairwise(ends)]
        return [
            (
                scores[:, k].T @ weighted[:, k] + self.ridge * U[:, k].T @ U[:, k],
                weighted[:, k].T @ self.Y - pull[:, k].T,
            )
            for k in parts
        ]

    def x_square(self) -> Array:
        (square,) = self.reduce(lambda x, y, w: (np.einsum("np,np->p", w.astype(x.dtype)[:, None] * x, x),))
        return np.maximum(square - self.offset**2, 0.0) + self.ridge

    def largest(self, count: int) -> Entries:
        if self.cross is not None:
            return largest_entries(self.cross, count)
        Q, width = self.n_y, max(1, int(CROSS_SHARE * len(self.Y)) // 2)
        found: list[Entries] = []
        for start in range(0, Q, width):
            sizes, x, y = largest_entries(self._cross_dot(np.eye(Q, min(width, Q - start), -start)), count)
            found.append((sizes, x, y + start))
        sizes, x, y = map(np.concatenate, zip(*found, strict=True))
        order = np.lexsort((y, x, -sizes))[:count]
        return sizes[order], x[order], y[order]

    def tangent(self, coef: CPCoefficient) -> tuple[Array, Array]:
        factors = coef.x_factors
        offset = contract_all_but_one(self.offset[:, None], factors)[:, 0]
        rounded = [f.astype(self.dtype) for f in factors]

        def of_block(x: NDArray[Any], y: Array, w: Array) -> tuple[Array, Array]:
            rows = contract_rows_all_but_one(x, rounded) - offset
            weighted = (w[:, None] * rows).T
            return weighted @ rows, weighted @ y

        gram, cross = self.reduce(of_block)
        if self.ridge > 0.0:
            gram += self.ridge * tangent_gram(factors)
        if self.prior is not None:
            pulled = contract_all_but_one(self.prior.x_side(), factors)
            cross -= self.ridge * pulled @ self.prior.y_side().T
        return gram, cross

    def residual(self, coef: CPCoefficient) -> Self:
        U, V = coef.x_side(), coef.y_side()
        scores = self.scores(U)
        Y = self.Y - scores @ V.T
        prior = coef if self.prior is None else self.prior.append(coef)
        squares = self.weight @ Y**2
        if self.ridge > 0.0:
            left, right = prior.x_side(), prior.y_side()
            squares += self.ridge * np.einsum("qr,rs,qs->q", right, left.T @ left, right)
        rest = replace(self, Y=Y, y_square=squares, y_mean=self.intercept(coef), prior=prior)
        if self.cross is not None:  # C of the residual is cheaper from that of the responses than from the rows
            at_scores = replace(self, Y=self.weight[:, None] * scores)
            (fitted,) = at_scores.reduce(lambda x, s, w: (x.T @ s.astype(x.dtype),))
            if self.ridge > 0.0:
                fitted += self.ridge * U
            taken = fitted @ V.T
            rest.__dict__["cross"] = np.subtract(self.cross, taken, out=taken)
        return rest

    def ridged(self, l2: float) -> Self:
        return replace(self, ridge=self.ridge + l2) if l2 else self

    def scaled(self, x_scale: Array) -> Self:
        if self.ridge:
            raise ValueError("Scale the predictors before a ridge is added: it would be scaled with them.")
        whole = x_scale if self.x_scale is None else self.x_scale * x_scale
        return replace(self, x_mean=self.x_mean / x_scale, x_scale=whole)

    def reshaped(self, x_shape: tuple[int, ...], y_shape: tuple[int, ...]) -> Self:
        other = replace(self, x_shape=x_shape, y_shape=y_shape)
        other.__dict__.update({k: v for k, v in self.__dict__.items() if k in ("cross", "offset", "_shift")})
        return other

    def as_gram(self) -> GramStatistics:
        offset = self.offset

        def of_block(x: NDArray[Any], y: Array, w: Array) -> tuple[Array, Array]:
            rows = (x - offset) * np.sqrt(w)[:, None]
            return rows.T @ rows, rows.T @ (np.sqrt(w)[:, None] * y)

        gram, cross = self.reduce(of_block, max(self._block_rows(), 4 * self.n_x))
        gram.flat[:: self.n_x + 1] += self.ridge
        cross = cross - self._pull(np.eye(self.n_y))
        return GramStatistics(
            gram,
            cross,
            self.y_square,
            self.x_mean,
            self.y_mean,
            self.n_samples,
            self.x_shape,
            self.y_shape,
            self.ridge,
        )

    def describe(self) -> str:
        gigabytes = 8 * self.n_x**2 / 1e9
        return (
            f"{type(self).__name__}: {self.n_samples:g} samples of {self.n_x} predictor and {self.n_y} response "
            f"entries, read in passes, because the Gram matrix of so many predictors would take {gigabytes:.3g} GB"
        )


def _moments_of_block(x: NDArray[Any], y: Array, w: Array) -> tuple[Array, ...]:
    """Weighted sums of the predictors and of their squares."""
    del y
    weighted = w.astype(x.dtype)[:, None] * x
    return weighted.sum(axis=0), np.einsum("np,np->p", weighted, x)
