"""What several baselines need: whitening, squared errors, folds as statistics, starts, checks of parameters."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv

from dst2r.correction import least_squares
from dst2r.cp import Array, CPCoefficient
from dst2r.regressor import blas_threads, check_number
from dst2r.statistics import GramStatistics, Statistics, fold_statistics

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Splits = Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]]
Solve = TypeVar("Solve", bound=Callable[..., Any])


def on_few_threads(solve: Solve) -> Solve:
    """Method of an estimator that solves from statistics, with one BLAS thread where these are small."""

    @wraps(solve)
    def limited(self: Any, stats: Statistics, *args: Any, **kwargs: Any) -> Any:
        with blas_threads(stats):
            return solve(self, stats, *args, **kwargs)

    return cast(Solve, limited)


def dense(stats: Statistics) -> tuple[Array, Array]:
    """``G`` of shape (P, P) and ``C`` of shape (P, Q); exact zeros for predictors that do not vary."""
    if isinstance(stats, GramStatistics):
        gram, cross = stats.gram, stats.cross
    else:
        gram, cross = stats.gram_dot(np.eye(stats.n_x)), stats.cross_dot(np.eye(stats.n_y))
    # What rounding of the mean leaves of a constant must not be divided by itself.
    constant = gram.diagonal() <= (64 * np.finfo(float).eps * stats.x_mean) ** 2
    if constant.any():
        gram = np.where(constant | constant[:, None], 0.0, gram)
        cross = np.where(constant[:, None], 0.0, cross)
    return gram, cross


def response_shape(stats: Statistics) -> tuple[int, ...]:
    """Response modes; a scalar response is one mode of one entry."""
    return stats.y_shape or (1,)


def mean_squares(stats: Statistics, coef: Array) -> Array:
    """Mean squared residual of every response entry, shape (Q,), for a dense coefficient (P, Q)."""
    fit, link = stats.gram_dot(coef), dense(stats)[1]
    squares: Array = stats.y_square + np.einsum("pq,pq->q", coef, fit - 2.0 * link)
    return np.maximum(squares, 0.0)


def spectrum(gram: Array) -> tuple[Array, Array]:
    """Positive eigenvalues (r,) of a Gram matrix and their eigenvectors (P, r), ascending; for zero, some r = 1."""
    values, vectors = np.linalg.eigh(gram)
    if values[-1] <= 0.0:
        return np.ones(1), vectors[:, -1:]
    # Rounding leaves the null space at about machine precision of the largest eigenvalue.
    kept = values > 10 * len(values) * np.finfo(float).eps * values[-1]
    return values[kept], np.ascontiguousarray(vectors[:, kept])


def typical_variance(gram: Array) -> float:
    """Mean eigenvalue of G weighted by the eigenvalues: the scale of ridges, whatever the number of predictors.

    Predictors that do not vary, or copies in a larger space, leave it alone; 1 if there is no variance at all.
    """
    trace = float(np.trace(gram))
    return float(np.sum(gram * gram)) / trace if trace > 0 else 1.0


def whitening(gram: Array, ridge: float) -> Array:
    """``K`` of shape (P, r) that spans the range of G with ``K'(G + ridge I)K = I``.

    ``K K'C`` is then the ridge coefficient, or the shortest least-squares one without a ridge.
    """
    values, vectors = spectrum(gram)
    whiten: Array = vectors / np.sqrt(values + ridge)
    return whiten


def response_gram(Y: NDArray[Any], weight: Array | None, *, center: bool) -> Array:
    """``Y'Y/n`` of shape (Q, Q), about the means if ``center``: the predictors' accumulation, on Y."""
    Y = Y.reshape(len(Y), -1)
    return GramStatistics.from_arrays(Y, Y[:, 0], weight, center=center).gram


def check_response_gram(stats: Statistics, y_gram: ArrayLike | None, method: str) -> Array:
    """The matrix that ``fit_statistics`` was given; one response entry needs none."""
    if y_gram is None:
        if stats.n_y == 1:
            return stats.y_square[:, None]
        raise ValueError(
            f"{method} needs all second moments of the responses, of which stats hold the diagonal only: "
            "pass y_gram, the matrix Y'Y/n of the centred responses, or call fit(X, y)."
        )
    gram = np.asarray(y_gram, dtype=np.float64)
    if gram.shape != (stats.n_y, stats.n_y) or not np.isfinite(gram).all():
        raise ValueError(
            f"y_gram has shape {gram.shape}; expected finite numbers of shape {(stats.n_y, stats.n_y)}, "
            "the matrix Y'Y/n of the centred and flattened responses."
        )
    return gram


def mode_gram(matrix: Array, shape: Sequence[int], mode: int) -> Array:
    """Partial trace of a (Q, Q) matrix over all response modes but one, shape (d, d)."""
    before, d = math.prod(shape[:mode]), shape[mode]
    after = matrix.shape[0] // (before * d)
    gram: Array = np.einsum("iajibj->ab", matrix.reshape(before, d, after, before, d, after))
    return gram


def fallback_ridge(stats: Statistics, method: str) -> float:
    """Ridge for a method that inverts the Gram matrix: none, or ``trace(G)/n`` where P >= n - 1, with a warning.

    ``trace(G)/n`` is the best ridge for a coefficient without structure and a signal-to-noise ratio of one.
    """
    if stats.n_x < stats.n_samples - 1:
        return 0.0
    ridge = float(np.trace(dense(stats)[0])) / stats.n_samples
    warnings.warn(
        f"{method} inverts the Gram matrix of {stats.n_x} predictor entries, which takes more than "
        f"{stats.n_samples:g} samples: a ridge fallback of trace(G)/n = {ridge:.3g} replaces least squares.",
        UserWarning,
        stacklevel=2,
    )
    return ridge


@dataclass(frozen=True, slots=True)
class Fold:
    """Statistics of the training samples, and of the held-out ones about the *training* means.

    Errors on ``test`` are therefore those of predictions with the training intercept.
    """

    train: GramStatistics
    test: GramStatistics


def make_splits(cv: Any, n: int) -> Splits:
    """Training and test rows, drawn once so that all candidates see the same ones."""
    return list(check_cv(cv).split(np.zeros((n, 1))))


def make_folds(
    X: NDArray[Any], Y: NDArray[Any], weight: Array | None, splits: Splits, *, center: bool
) -> tuple[GramStatistics, list[Fold]]:
    """Statistics of all samples and of every fold."""
    total, folds = fold_statistics(X, Y, splits, weight, center=center)
    return total, [Fold(train, _about(test, train)) for train, test in folds]


def with_folds(
    X: NDArray[Any], Y: NDArray[Any], weight: Array | None, cv: Any, *, center: bool
) -> tuple[GramStatistics, list[Fold]]:
    """Statistics of all samples, and of the folds of ``cv``; no folds if that is None."""
    if cv is None:
        return GramStatistics.from_arrays(X, Y, weight, center=center), []
    return make_folds(X, Y, weight, make_splits(cv, len(X)), center=center)


def _about(test: GramStatistics, train: GramStatistics) -> GramStatistics:
    dx, dy = test.x_mean - train.x_mean, test.y_mean - train.y_mean
    return replace(
        test,
        gram=test.gram + np.outer(dx, dx),
        cross=test.cross + np.outer(dx, dy),
        y_square=test.y_square + dy * dy,
        x_mean=train.x_mean,
        y_mean=train.y_mean,
    )


def random_start(stats: Statistics, rank: int, rng: Any) -> CPCoefficient:
    """Normal factors, scaled as a whole to fit the data best."""
    factors = [rng.standard_normal((d, rank)) for d in stats.x_shape + stats.y_shape]
    coef = CPCoefficient(tuple(factors), len(stats.x_shape))
    U, V = coef.x_side(), coef.y_side()
    link, square = np.sum(U * stats.cross_dot(V)), np.sum((U.T @ stats.gram_dot(U)) * (V.T @ V))
    return CPCoefficient((factors[0] * (link / square if square > 0 else 0.0), *factors[1:]), len(stats.x_shape))


def grown_start(stats: Statistics, rank: int, rng: Any) -> CPCoefficient:
    """A rough least-squares coefficient: fit a component to the residual from a random start, then all together.

    Where components are many, this ends in fewer local minima than starting all of them at random together.
    """
    coef, residual = CPCoefficient.empty(stats.x_shape, stats.y_shape), stats
    for r in range(rank):
        component = least_squares(residual, random_start(residual, 1, rng), tol=1e-2, max_iter=30).coef
        coef = coef.append(component)
        if r > 0:
            coef = least_squares(stats, coef, tol=1e-2, max_iter=100).coef
        residual = stats.residual(coef)
    return coef


def is_auto(value: Any) -> bool:
    """Whether a parameter asks to be tuned."""
    return isinstance(value, str) and value == "auto"


def check_auto_or_number(name: str, value: Any) -> None:
    """Raise unless ``value`` is "auto" or a number of at least 0."""
    if isinstance(value, str):
        if value != "auto":
            raise ValueError(f'{name} is {value!r}; expected "auto" or a number of at least 0.')
    else:
        check_number(name, value)


def check_ranks(name: str, value: Any) -> tuple[int, ...]:
    """Candidate ranks: one positive integer or several."""
    candidates = (value,) if isinstance(value, Integral) else value
    if isinstance(candidates, str) or not isinstance(candidates, Iterable) or not (ranks := tuple(candidates)):
        raise ValueError(f"{name} is {value!r}; expected a positive integer or a sequence of them to choose from.")
    for rank in ranks:
        check_number(name, rank, low=1, integer=True)
    return ranks


def check_sizes(name: str, value: Any, largest: Sequence[int], meaning: str) -> tuple[int, ...]:
    """Integers, one for each entry of ``largest``, from 1 to it."""
    wanted = f'expected "auto" or {len(largest)} integers ({meaning}), each from 1 to at most {tuple(largest)}'
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"{name} is {value!r}; {wanted}.")
    sizes = tuple(value)
    if len(sizes) != len(largest) or not all(
        isinstance(size, Integral) and not isinstance(size, bool) and 1 <= int(size) <= top
        for size, top in zip(sizes, largest, strict=True)
    ):
        raise ValueError(f"{name} is {value!r}; {wanted}.")
    return tuple(int(size) for size in sizes)


def need_samples(estimator: object, tuned: str, *, bic: bool = True) -> ValueError:
    """Error for a fit from statistics that asks for cross-validation; ``bic`` says whether there is another choice."""
    return ValueError(
        f"{type(estimator).__name__} chooses {tuned} by cross-validation, which needs the samples: "
        f"call fit(X, y), {'set cv=None to choose by BIC, ' if bic else ''}or give {tuned} in numbers."
    )
