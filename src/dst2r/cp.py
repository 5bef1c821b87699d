"""The model: a coefficient tensor that is a sum of rank-one tensors. No data, no optimiser.

Notation of ``docs/maths.md``: a coefficient has ``p`` predictor modes followed by ``q`` response modes;
``P`` and ``Q`` are the numbers of predictor and response entries, ``R`` the number of components.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tensorly.cp_tensor import CPTensor

Array = NDArray[np.float64]


def khatri_rao(matrices: Iterable[Array], rank: int) -> Array:
    """Column-wise Kronecker product in C order, shape ``(prod d_k, rank)``; a row of ones if there is no matrix."""
    product = None
    for matrix in matrices:
        product = matrix if product is None else (product[:, None] * matrix).reshape(len(product) * len(matrix), rank)
    return np.ones((1, rank)) if product is None else product


@dataclass(frozen=True, slots=True, eq=False)
class CPCoefficient:
    """``B = sum_r a_1r o ... o a_pr o b_1r o ... o b_qr``, weights absorbed in the factors.

    Parameters
    ----------
    factors : tuple of ndarray of shape (d_k, R)
        Predictor modes first, then response modes.
    n_x_modes : int
        The number p of predictor modes.
    """

    factors: tuple[Array, ...]
    n_x_modes: int

    @classmethod
    def empty(cls, x_shape: Sequence[int], y_shape: Sequence[int]) -> CPCoefficient:
        """Coefficient without components: the zero tensor."""
        return cls(tuple(np.zeros((d, 0)) for d in (*x_shape, *y_shape)), len(x_shape))

    @property
    def rank(self) -> int:
        """Number R of components."""
        return self.factors[0].shape[1]

    @property
    def x_factors(self) -> tuple[Array, ...]:
        """Factors of the predictor modes."""
        return self.factors[: self.n_x_modes]

    @property
    def y_factors(self) -> tuple[Array, ...]:
        """Factors of the response modes."""
        return self.factors[self.n_x_modes :]

    def x_side(self) -> Array:
        """``U``, shape (P, R): every component's predictor part as a vector."""
        return khatri_rao(self.x_factors, self.rank)

    def y_side(self) -> Array:
        """``V``, shape (Q, R); ones of shape (1, R) for a scalar response."""
        return khatri_rao(self.y_factors, self.rank)

    def to_tensor(self) -> Array:
        """Dense coefficient, ``x_shape + y_shape``; the only method that costs O(PQ)."""
        shape = tuple(f.shape[0] for f in self.factors)
        return (self.x_side() @ self.y_side().T).reshape(shape)

    def norms(self) -> Array:
        """Frobenius norm of every component, shape (R,)."""
        return np.prod([np.linalg.norm(f, axis=0) for f in self.factors], axis=0)

    def l1_norms(self) -> Array:
        """Sum of absolute entries of every component, shape (R,)."""
        return np.prod([np.abs(f).sum(axis=0) for f in self.factors], axis=0)

    def counts(self, entries: Array | None = None) -> NDArray[np.intp]:
        """Non-zero entries of every factor vector, or of those of other ``entries``, shape (p + q, R)."""
        rows = np.concatenate(self.factors) if entries is None else entries.reshape(-1, self.rank)
        starts = [0, *accumulate(len(f) for f in self.factors[:-1])]
        return np.add.reduceat(rows != 0.0, starts, axis=0, dtype=np.intp)

    def living(self) -> NDArray[np.bool_]:
        """Which components are not zero, shape (R,)."""
        return np.logical_and.reduce(self.counts() > 0)

    def n_parameters(self) -> int:
        """Free numbers: non-zero entries less the scales that modes of a component share."""
        return free_numbers(self.counts())

    def ravel(self) -> Array:
        """All factor entries in one vector: mode by mode, then entry, then component."""
        return np.concatenate([f.ravel() for f in self.factors])

    def with_entries(self, entries: Array) -> CPCoefficient:
        """Coefficient of the same shape from a vector laid out as :meth:`ravel`."""
        entries, ends = entries.copy(), accumulate(f.size for f in self.factors)
        factors = tuple(entries[end - f.size : end].reshape(f.shape) for f, end in zip(self.factors, ends, strict=True))
        return CPCoefficient(factors, self.n_x_modes)

    def take(self, components: Sequence[int] | NDArray[np.integer[Any]]) -> CPCoefficient:
        """Coefficient of some of the components, in the order given."""
        return CPCoefficient(tuple(f[:, components] for f in self.factors), self.n_x_modes)

    def with_modes(self, x_shape: Sequence[int], y_shape: Sequence[int]) -> CPCoefficient:
        """The same coefficient with modes of size one put in where these shapes have them."""

        def fill(factors: Sequence[Array], shape: Sequence[int]) -> list[Array]:
            rest = iter(f for f in factors if len(f) > 1)
            return [next(rest) if d > 1 else np.ones((1, self.rank)) for d in shape]

        x_factors, y_factors = fill(self.x_factors, x_shape), fill(self.y_factors, y_shape)
        scale = np.prod([f[0] for f in self.factors if len(f) == 1], axis=0, initial=1.0)
        return CPCoefficient((x_factors[0] * scale, *x_factors[1:], *y_factors), len(x_shape))

    def append(self, other: CPCoefficient) -> CPCoefficient:
        """Sum of two coefficients: the components of both."""
        pairs = zip(self.factors, other.factors, strict=True)
        return CPCoefficient(tuple(np.hstack(pair) for pair in pairs), self.n_x_modes)

    def alive(self) -> CPCoefficient:
        """Without the components that are zero."""
        return self.take(np.flatnonzero(self.living()))

    def balanced(self) -> CPCoefficient:
        """Give all modes of a component the same norm; the tensor is unchanged."""
        norms = np.array([np.linalg.norm(f, axis=0) for f in self.factors])
        zero = norms.min(axis=0) == 0
        norms[:, zero] = 1.0
        target = np.exp(np.log(norms).mean(axis=0)) * ~zero
        scaled = tuple(f * (target / n) for f, n in zip(self.factors, norms, strict=True))
        return CPCoefficient(scaled, self.n_x_modes)

    def normal_form(self) -> CPTensor:
        """TensorLy's convention: weights and unit-norm columns, largest first.

        The largest entry of every column is positive, except in the last mode, which carries the sign.
        """
        from tensorly.cp_tensor import CPTensor  # heavy, and needed for finished models only

        order = np.argsort(-self.norms(), kind="stable")
        weights, factors = np.ones(self.rank), []
        for f in self.take(order).factors:
            norm = np.linalg.norm(f, axis=0)
            peak = f[np.abs(f).argmax(axis=0), np.arange(self.rank)] if self.rank else norm
            scale = np.where(peak < 0, -norm, norm)
            factors.append(np.divide(f, scale, out=np.zeros_like(f), where=norm > 0))
            weights = weights * scale
        factors[-1] = factors[-1] * np.where(weights < 0, -1.0, 1.0)
        factors = [f + 0.0 for f in factors]  # no negative zeros
        return CPTensor((np.abs(weights), factors))


def free_numbers(counts: NDArray[np.intp]) -> int:
    """Free numbers of components that have so many non-zero entries in every factor vector, shape (p + q, R)."""
    return int(((counts.sum(axis=0) - len(counts) + 1) * counts.all(axis=0)).sum())


def contract_all_but_one(A: Array, factors: Sequence[Array]) -> Array:
    """``T'A``: contract the rows of A with all factors but one, for each mode in turn (docs/maths.md, eq. 9).

    Parameters
    ----------
    A : ndarray of shape (prod d_k, m)
    factors : sequence of ndarray of shape (d_k, R)

    Returns
    -------
    ndarray of shape (R * sum d_k, m)
        Rows ordered by mode, then entry, then component. Costs O(R m prod d_k) a mode, most of it in BLAS.
    """
    dims, rank, m = [f.shape[0] for f in factors], factors[0].shape[1], A.shape[1]
    out = np.empty((sum(dims), rank, m))
    start = first = dims[0]
    np.matmul(khatri_rao(factors[1:], rank).T, A.reshape(first, -1, m), out=out[:first])
    if len(dims) > 1:
        # the other modes share the product with the first factor, after which every component is on its own
        parts = factors[0].T @ A.reshape(first, -1)  # (R, prod of the other d_k times m)
    for k, d in enumerate(dims[1:], start=1):
        block = parts
        if k > 1:  # sum over the modes before k ...
            left = np.ascontiguousarray(khatri_rao(factors[1:k], rank).T)
            block = left[:, None] @ parts.reshape(rank, left.shape[1], -1)
        if k < len(dims) - 1:  # ... and over those after it
            right = np.ascontiguousarray(khatri_rao(factors[k + 1 :], rank).T)
            block = right[:, None, None] @ block.reshape(rank, d, right.shape[1], m)
        out[start : start + d] = block.reshape(rank, d, m).swapaxes(0, 1)
        start += d
    return out.reshape(-1, m)


def contract_rows_all_but_one(A: NDArray[Any], factors: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """``A T``: :func:`contract_all_but_one` for predictors that lie along the rows of A, without a transposed copy.

    Parameters
    ----------
    A : ndarray of shape (m, prod d_k)
    factors : sequence of ndarray of shape (d_k, R)
        Of A's type.

    Returns
    -------
    ndarray of shape (m, R * sum d_k)
        Columns ordered by mode, then entry, then component.
    """
    dims, rank, m = [f.shape[0] for f in factors], factors[0].shape[1], A.shape[0]
    out = np.empty((m, sum(dims), rank), A.dtype)
    first = dims[0]
    out[:, :first] = (A.reshape(m * first, -1) @ khatri_rao(factors[1:], rank).astype(A.dtype)).reshape(m, first, rank)
    if len(dims) > 1:
        parts = np.ascontiguousarray(factors[0].T) @ A.reshape(m, first, -1)  # (m, R, prod of the other d_k)
        start = first
        for k, d in enumerate(dims[1:], start=1):
            left, right = khatri_rao(factors[1:k], rank), khatri_rao(factors[k + 1 :], rank)
            for r in range(rank):
                part = (left[:, r].astype(A.dtype) @ parts[:, r].reshape(m, len(left), -1)).reshape(m, d, -1)
                out[:, start : start + d, r] = part @ right[:, r].astype(A.dtype)
            start += d
    return out.reshape(m, -1)


def tangent_gram(factors: Sequence[Array]) -> Array:
    """``T'T``, ordered as :func:`contract_all_but_one`, from products of factors alone."""
    dims, rank = [f.shape[0] for f in factors], factors[0].shape[1]
    products = [f.T @ f for f in factors]
    blocks = []
    for k, (f, d) in enumerate(zip(factors, dims, strict=True)):
        row = []
        for m, (g, e) in enumerate(zip(factors, dims, strict=True)):
            rest = np.prod([p for i, p in enumerate(products) if i not in (k, m)], axis=0, initial=1.0)
            # column (k, i, r) meets column (m, j, s): mode k gives f[i, s], mode m gives g[j, r]
            same = np.eye(d)[:, None, :, None] if k == m else f[:, None, None, :] * g.T[None, :, :, None]
            row.append((same * np.broadcast_to(rest, (rank, rank))[None, :, None, :]).reshape(d * rank, e * rank))
        blocks.append(row)
    return np.block(blocks)


def max_rank(shape: Sequence[int]) -> int:
    """Smallest number of components that certainly carries every tensor of this shape."""
    return max(1, math.prod(shape) // max(shape, default=1))
