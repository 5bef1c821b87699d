"""What a solver may ask of the data. Nothing else of the package touches ``X`` and ``Y``."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from dst2r.cp import Array, CPCoefficient

if TYPE_CHECKING:
    from dst2r.statistics.gram import GramStatistics


def is_lazy(array: Any) -> bool:
    """Whether something is Dask's: an array, or what should be made one. Does not import Dask."""
    return type(array).__module__.startswith("dask.")


Entries = tuple[Array, NDArray[np.intp], NDArray[np.intp]]  # of a matrix: absolute values, rows, columns


class Statistics(ABC):
    """Second-order view of a centred sample: ``G = X'X/n``, ``C = X'Y/n`` and the mean squares of Y.

    Least squares sees the data through these alone (docs/maths.md, eq. 3), so solvers are written
    once, whatever holds the data. ``P`` and ``Q`` count the predictor and the response entries.

    Attributes
    ----------
    n_samples : float
        Number of samples, or the sum of their weights.
    x_shape, y_shape : tuple of int
        Shapes of one predictor and one response; ``y_shape`` is empty for a scalar response.
    x_mean, y_mean : ndarray of shape (P,), (Q,)
        What the data were centred by.
    y_square : ndarray of shape (Q,)
        Mean square of every centred response entry.
    ridge : float
        What :meth:`ridged` added.
    """

    n_samples: float
    x_shape: tuple[int, ...]
    y_shape: tuple[int, ...]
    x_mean: Array
    y_mean: Array
    y_square: Array
    ridge: float

    @property
    def rounding(self) -> float:
        """Relative accuracy of losses; gradients are more accurate."""
        return 1e-14

    @property
    def n_x(self) -> int:
        """Number P of predictor entries."""
        return math.prod(self.x_shape)

    @property
    def n_y(self) -> int:
        """Number Q of response entries."""
        return math.prod(self.y_shape)

    @property
    def y_scale(self) -> float:
        """``||Y||^2 / n``: twice the loss of the zero coefficient."""
        return float(self.y_square.sum())

    @abstractmethod
    def gram_dot(self, U: Array) -> Array:
        """``G @ U``, shape (P, k)."""

    @abstractmethod
    def cross_dot(self, V: Array) -> Array:
        """``C @ V``, shape (P, k)."""

    @abstractmethod
    def cross_t_dot(self, U: Array) -> Array:
        """``C.T @ U``, shape (Q, k)."""

    @abstractmethod
    def moments(self, U: Array, ranks: Sequence[int]) -> list[tuple[Array, Array]]:
        """``U'GU`` (r, r) and ``U'C`` (r, Q) of each group of r columns of U, whose sizes are ``ranks``; one pass."""

    @abstractmethod
    def x_square(self) -> Array:
        """Mean square of every centred predictor entry, shape (P,)."""

    @abstractmethod
    def largest(self, count: int) -> Entries:
        """The ``count`` entries of C with the largest absolute values, or all if there are fewer, largest first."""

    @abstractmethod
    def tangent(self, coef: CPCoefficient) -> tuple[Array, Array]:
        """``T'GT`` and ``T'C`` for the directions in which the predictor factors can move (eq. 9).

        Column (k, i, r) of ``T`` is component r's predictor part with factor k replaced by the i-th unit
        vector; columns are ordered mode by mode, then entry, then component.
        """

    @abstractmethod
    def residual(self, coef: CPCoefficient) -> Self:
        """Statistics of the same predictors with the responses ``Y - <<X, B>>``."""

    @abstractmethod
    def ridged(self, l2: float) -> Self:
        """Statistics whose Gram matrix is ``G + l2 I``: least squares on them is ridge regression."""

    @abstractmethod
    def scaled(self, x_scale: Array) -> Self:
        """Statistics of the predictors ``X / x_scale``."""

    @abstractmethod
    def reshaped(self, x_shape: tuple[int, ...], y_shape: tuple[int, ...]) -> Self:
        """The same numbers for predictors and responses of other shapes with as many entries."""

    @abstractmethod
    def restricted(self, slices: Sequence[NDArray[np.intp]]) -> Statistics:
        """Statistics of the sub-tensor that these slices of the predictor modes make, as ``np.ix_`` cuts it."""

    @abstractmethod
    def as_gram(self) -> GramStatistics:
        """The same with the Gram matrix at hand, P x P."""

    @abstractmethod
    def describe(self) -> str:
        """How the data are held and why, in one sentence with the numbers."""

    def kkt_start(self) -> tuple[float, int, int]:
        """``max |C|``, the least l1 with zero as its solution (eq. 4), and the entry of C that attains it."""
        (size,), (x_entry,), (y_entry,) = self.largest(1)
        return float(size), int(x_entry), int(y_entry)

    def squeezed(self) -> Self:
        """Without modes of size one, which hold no choice; at least one predictor mode stays."""
        x_shape = tuple(d for d in self.x_shape if d > 1) or (1,)
        return self.reshaped(x_shape, tuple(d for d in self.y_shape if d > 1))

    def loss(self, coef: CPCoefficient) -> float:
        """``||Y - <<X, B>>||^2 / 2n``, eq. (3)."""
        return float(self.prediction_losses([coef], self.x_mean, self.y_mean)[0])

    def intercept(self, coef: CPCoefficient) -> Array:
        """What makes the mean prediction the mean response, shape (Q,) (eq. 15)."""
        return self.y_mean - (self.x_mean @ coef.x_side()) @ coef.y_side().T

    def prediction_losses(self, coefs: Sequence[CPCoefficient], x_mean: Array, y_mean: Array) -> Array:
        """Losses on these samples of models fitted on data with other means, shape (k,); one pass for all."""
        every, dx, dy = joined(coefs), self.x_mean - x_mean, self.y_mean - y_mean
        U, V, ranks = every.x_side(), every.y_side(), [c.rank for c in coefs]
        shifts, values, stop = dx @ U, np.empty(len(coefs)), 0
        for k, (rank, (u_gram_u, u_cross)) in enumerate(zip(ranks, self.moments(U, ranks), strict=True)):
            part = slice(stop, stop := stop + rank)
            v = V[:, part]
            fit, link = np.vdot(u_gram_u, v.T @ v), np.vdot(u_cross, v.T)
            shift = dy - v @ shifts[part]
            values[k] = 0.5 * (self.y_scale + fit + shift @ shift) - link
        return values


def largest_entries(A: Array, count: int) -> Entries:
    """Absolute values, rows and columns of the largest entries of a matrix; of equal ones the first."""
    sizes = np.abs(A).ravel()
    if count == 1:
        places = np.array([sizes.argmax()])
    else:
        places = np.argpartition(sizes, max(sizes.size - count, 0))[-count:]
        places = places[np.lexsort((places, -sizes[places]))]
    return sizes[places], *np.divmod(places, A.shape[1])


def joined(coefs: Sequence[CPCoefficient]) -> CPCoefficient:
    """All components of some coefficients, one coefficient after the other."""
    factors = tuple(map(np.hstack, zip(*(c.factors for c in coefs), strict=True)))
    return CPCoefficient(factors, coefs[0].n_x_modes)
