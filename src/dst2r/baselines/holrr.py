"""HOLRR: higher-order low-rank regression (Rabusseau and Kadri 2016), linear and with kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels
from sklearn.utils.validation import check_is_fitted

from dst2r.baselines._common import (
    check_auto_or_number,
    check_response_gram,
    check_sizes,
    dense,
    fallback_ridge,
    is_auto,
    make_folds,
    make_splits,
    mode_gram,
    need_samples,
    on_few_threads,
    response_gram,
    response_shape,
    spectrum,
    typical_variance,
)
from dst2r.cp import Array
from dst2r.regressor import TensorRegressor, check_choice
from dst2r.statistics import GramStatistics, Statistics, is_lazy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

RELATIVE_GAMMAS = np.geomspace(1e-6, 10.0, 8)  # in units of `typical_variance`


class HOLRR(TensorRegressor):
    r"""Regression with a coefficient of low multilinear rank, in closed form.

    .. math:: \min_W \frac{1}{2n} \|W \times_1 X - Y\|_F^2 + \frac{\gamma}{2} \|W\|_F^2
              \quad \text{with } W \text{ of multilinear rank at most } (R_0, R_1, \dots, R_M),

    approximately: W is P × q_1 × ... × q_M for the vectorised predictors, and its objective is within a
    factor M + 1 of the least one.

    Parameters
    ----------
    ranks : tuple of int or "auto", default="auto"
        :math:`(R_0, R_1, \dots, R_M)`, the predictor's rank first. "auto" tries all :math:`R_0` and one
        common :math:`R` for the response modes, ``min(R, q_m)`` in each.
    gamma : float or "auto", default="auto"
        Ridge penalty per sample (the paper's divided by n). "auto" tries 8 values from 1e-6 to 10 times the
        mean eigenvalue of the predictors' covariance, weighted by the eigenvalues.
    cv : None, int, splitter or iterable of splits, default=3
        How "auto" is settled: by the squared error of cross-validation as published, or None for BIC.
    fit_intercept : bool, default=True
        Whether the data are centred. The original has no intercept.

    Attributes
    ----------
    coef_ : ndarray of shape (*x_shape, *y_shape)
    intercept_ : ndarray of shape y_shape
    ranks_ : tuple of int
    gamma_ : float
    n_parameters_ : int
        Dimension of the set of coefficients of these ranks; `gamma` is not counted as a constraint.
    path_ : dict
        What was tried: "gamma", "response_ranks" and "criterion" of shape (gammas, response ranks, R_0's).

    Notes
    -----
    With :math:`G = X^T X/n` and :math:`C = X^T Y/n`, :math:`U_0` holds the leading eigenvectors of
    :math:`(G + \gamma I)^{-1} C C^T`, :math:`U_m` those of the m-th unfolding of Y, and W is the ridge
    coefficient projected on them. The eigenproblem is not symmetric: one port takes the singular vectors of
    that matrix instead, whose objective is up to 15 % worse, and the authors' solver can return complex
    vectors. Here it is solved by whitening, exactly.

    The paper's BIC does not exist; ours is :math:`nQ \log(RSS/nQ) + \log(nQ)\, df`, where df is the dimension
    of the set of such tensors with P replaced by the effective :math:`\sum_i e_i/(e_i + \gamma)`, e the
    eigenvalues of G.

    Where P >= n - 1, a ``gamma`` of 0 becomes trace(G)/n, with a warning.

    References
    ----------
    .. [1] G. Rabusseau and H. Kadri (2016). Low-rank regression with tensor responses. Advances in Neural
       Information Processing Systems 29.

    Examples
    --------
    >>> from dst2r import make_tensor_regression
    >>> from dst2r.baselines import HOLRR
    >>> data = make_tensor_regression(200, (5,), (4, 3), rank=1, sparsity=0, snr=5, random_state=0)
    >>> HOLRR().fit(data.X, data.Y).ranks_
    (1, 1, 1)
    """

    def __init__(
        self,
        ranks: tuple[int, ...] | str = "auto",
        gamma: float | str = "auto",
        *,
        cv: Any = 3,
        fit_intercept: bool = True,
    ) -> None:
        self.ranks = ranks
        self.gamma = gamma
        self.cv = cv
        self.fit_intercept = fit_intercept

    def _fit_samples(self, X: NDArray[Any], Y: NDArray[Any], weight: Array | None) -> Self:
        stats = GramStatistics.from_arrays(X, Y, weight, center=self.fit_intercept)
        coef = self._solve_samples(stats, X, Y, weight)
        self._set_coefficient(coef, stats.y_mean - stats.x_mean @ coef, stats)
        return self

    def fit_statistics(self, stats: Statistics, y_gram: ArrayLike | None = None) -> Self:
        """Fit from statistics, however they were accumulated; "auto" needs ``cv=None`` here.

        Parameters
        ----------
        stats : Statistics
        y_gram : array-like of shape (Q, Q), optional
            ``Y'Y/n`` of the centred, flattened responses; needed unless there is only one response entry.
        """
        self._check_parameters()
        if self._cross_validated():
            raise need_samples(self, "ranks and gamma")
        coef = self._solve(stats, check_response_gram(stats, y_gram, type(self).__name__), [])
        self._set_coefficient(coef, stats.y_mean - stats.x_mean @ coef, stats)
        return self

    def _solve_samples(self, stats: GramStatistics, X: NDArray[Any], Y: NDArray[Any], weight: Array | None) -> Array:
        folds: list[tuple[Statistics, Array, Statistics]] = []
        if self._cross_validated():
            splits, center = make_splits(self.cv, len(X)), self.fit_intercept
            # The responses' second moments are the Gram matrix of a regression of anything on them.
            flat = Y.reshape(len(Y), -1)
            folds = [
                (fold.train, responses.train.gram, fold.test)
                for fold, responses in zip(
                    make_folds(X, Y, weight, splits, center=center)[1],
                    make_folds(flat, flat[:, 0], weight, splits, center=center)[1],
                    strict=True,
                )
            ]
        return self._solve(stats, response_gram(Y, weight, center=self.fit_intercept), folds)

    @on_few_threads
    def _solve(self, stats: Statistics, y_gram: Array, folds: Sequence[tuple[Statistics, Array, Statistics]]) -> Array:
        """Choose what is "auto", set the fitted choices and return the (P, Q) coefficient."""
        shape = response_shape(stats)
        gammas, response_ranks = self._gammas(stats), self._response_ranks(stats, shape)
        x_rank = None if is_auto(self.ranks) else int(self.ranks[0])
        family = Family(stats, y_gram, shape)
        g, r = 0, 0
        if len(gammas) > 1 or x_rank is None:
            if folds:
                terms = [
                    test.n_samples * Family(train, gram, shape).errors(gammas, response_ranks, test)
                    for train, gram, test in folds
                ]
                depth = min(term.shape[2] for term in terms)
                criterion = np.sum([term[:, :, :depth] for term in terms], axis=0)
            else:
                criterion = family.bic(gammas, response_ranks)
            self.path_ = {"gamma": gammas, "response_ranks": response_ranks, "criterion": criterion}
            if x_rank is not None:  # ranks beyond the last one computed add nothing
                criterion = criterion[:, :, [min(x_rank, criterion.shape[2]) - 1]]
            g, r, k = (int(i) for i in np.unravel_index(np.argmin(criterion), criterion.shape))
            x_rank = x_rank or k + 1
        self.gamma_, self.ranks_ = float(gammas[g]), (x_rank, *response_ranks[r])
        self.n_parameters_ = int(family.dimension(len(family.values), x_rank, response_ranks[r]))
        return family.coefficient(self.gamma_, x_rank, response_ranks[r])

    def _gammas(self, stats: Statistics) -> Array:
        if is_auto(self.gamma):
            return typical_variance(dense(stats)[0]) * RELATIVE_GAMMAS
        gamma = float(self.gamma)
        return np.array([gamma if gamma > 0 else fallback_ridge(stats, type(self).__name__)])

    def _response_ranks(self, stats: Statistics, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        if not is_auto(self.ranks):
            meaning = "the predictor's rank, then one for each response mode"
            return [check_sizes("ranks", self.ranks, (self._x_size(stats), *shape), meaning)[1:]]
        common = np.unique(np.geomspace(1, max(shape), 10).round().astype(int)) if max(shape) > 10 else None
        return [tuple(min(int(R), q) for q in shape) for R in (range(1, max(shape) + 1) if common is None else common)]

    def _x_size(self, stats: Statistics) -> int:
        return stats.n_x

    def _check_parameters(self) -> None:
        check_auto_or_number("gamma", self.gamma)

    def _cross_validated(self) -> bool:
        return self.cv is not None and (is_auto(self.ranks) or is_auto(self.gamma))


class KernelHOLRR(HOLRR):
    r"""HOLRR on the features of a kernel; the only method here that needs the samples themselves.

    Parameters
    ----------
    ranks : tuple of int or "auto", default="auto"
        As for :class:`HOLRR`, except that :math:`R_0` may be as large as the number of samples.
    gamma : float or "auto", default="auto"
        Ridge penalty per sample; not the width of a kernel, which goes into `kernel_params`.
    kernel : str or callable, default="rbf"
        A kernel of :func:`sklearn.metrics.pairwise.pairwise_kernels`, of the vectorised predictors.
    kernel_params : dict, optional
        Parameters of the kernel.
    cv : None, int, splitter or iterable of splits, default=3
        As for :class:`HOLRR`.
    fit_intercept : bool, default=True
        Whether responses and features are centred.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n, *y_shape)
        Predictions are ``kernel(X, X_fit_) @ dual_coef_ + intercept_``.
    X_fit_ : ndarray of shape (n, P)
        The samples seen by fit.
    intercept_ : ndarray of shape y_shape
    ranks_ : tuple of int
    gamma_ : float
    n_parameters_ : int
        As for :class:`HOLRR`, with the number of features in place of P.
    path_ : dict
        As for :class:`HOLRR`.

    Notes
    -----
    The solution lies in the span of the samples' features. In an orthonormal basis of it, the eigenvectors of
    the kernel matrix, the n samples have at most n coordinates each; the kernel form is HOLRR on these. It
    costs O(n³) for each fold.

    Examples
    --------
    >>> import numpy as np
    >>> from dst2r.baselines import KernelHOLRR
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> Y = np.concatenate([np.cos(3 * X), np.cos(3 * X)], axis=1)
    >>> KernelHOLRR(kernel_params={"gamma": 5.0}).fit(X, Y).score(X, Y) > 0.99
    True
    """

    def __init__(
        self,
        ranks: tuple[int, ...] | str = "auto",
        gamma: float | str = "auto",
        *,
        kernel: str | Callable[[Array, Array], float] = "rbf",
        kernel_params: Mapping[str, Any] | None = None,
        cv: Any = 3,
        fit_intercept: bool = True,
    ) -> None:
        super().__init__(ranks, gamma, cv=cv, fit_intercept=fit_intercept)
        self.kernel = kernel
        self.kernel_params = kernel_params

    def _fit_samples(self, X: NDArray[Any], Y: NDArray[Any], weight: Array | None) -> Self:
        if is_lazy(X) or is_lazy(Y):
            raise TypeError("KernelHOLRR holds all samples in memory: call X.compute() and y.compute() if they fit.")
        self._sample_shape = X.shape[1:]
        self.X_fit_ = X.reshape(len(X), -1).astype(np.float64)
        values, vectors = spectrum(self._kernel(self.X_fit_))
        features = vectors * np.sqrt(values)
        stats = GramStatistics.from_arrays(features, Y, weight, center=self.fit_intercept)
        coef = self._solve_samples(stats, features, Y, weight)
        self.dual_coef_ = (vectors / np.sqrt(values) @ coef).reshape(-1, *stats.y_shape)
        self.intercept_ = (stats.y_mean - stats.x_mean @ coef).reshape(stats.y_shape)
        self.labels_ = self.__dict__.pop("_labels_seen")
        return self

    def fit_statistics(self, stats: Statistics, y_gram: ArrayLike | None = None) -> Self:
        """Raise: a kernel needs the samples."""
        raise TypeError("KernelHOLRR needs the samples themselves, not their statistics: call fit(X, y).")

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predicted responses, shape ``(n, *y_shape)``; float32 for float32 input, a DataArray for a DataArray."""
        check_is_fitted(self)
        return self._map_samples(X, self._predictions, self.intercept_.shape, self._names.y)

    def _predictions(self, rows: NDArray[Any]) -> NDArray[Any]:
        kernel = self._kernel(rows.astype(np.float64))
        Y = kernel @ self.dual_coef_.reshape(len(self.X_fit_), -1) + self.intercept_.ravel()
        return np.asarray(Y, dtype=rows.dtype)

    @property
    def _x_shape(self) -> tuple[int, ...]:
        return self._sample_shape

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not callable(self.kernel):
            check_choice("kernel", self.kernel, tuple(PAIRWISE_KERNEL_FUNCTIONS))

    def _x_size(self, stats: Statistics) -> int:
        return len(self.X_fit_)  # there may be fewer features, if samples are alike

    def _kernel(self, X: Array) -> Array:
        return np.asarray(pairwise_kernels(X, self.X_fit_, metric=self.kernel, **(self.kernel_params or {})))


@dataclass(frozen=True, slots=True)
class Reduced:
    """Ridge coefficient ``basis @ rows``; its first k terms are the best of rank k on the predictor side."""

    basis: Array  # (P, r), orthonormal with respect to G + gamma I
    rows: Array  # (r, Q)


class Family:
    """All HOLRR coefficients of one sample: the eigenproblems are solved once."""

    def __init__(self, stats: Statistics, y_gram: Array, shape: tuple[int, ...]) -> None:
        gram, self.cross = dense(stats)
        self.stats, self.shape = stats, shape
        self.values, self.vectors = spectrum(gram)
        # eigh ascends: the leading vectors are the last columns
        self.modes = [np.linalg.eigh(mode_gram(y_gram, shape, m))[1][:, ::-1] for m in range(len(shape))]

    def coefficient(self, gamma: float, x_rank: int, response_ranks: tuple[int, ...]) -> Array:
        """The (P, Q) coefficient."""
        reduced = self.reduced(gamma)
        return reduced.basis[:, :x_rank] @ self.project(reduced.rows[:x_rank], response_ranks)

    def reduced(self, gamma: float) -> Reduced:
        """``U_0`` for all ranks at once: whiten ``G + gamma I``, then decompose what C becomes."""
        whiten = self.vectors / np.sqrt(self.values + gamma)
        left, sizes, right = np.linalg.svd(whiten.T @ self.cross, full_matrices=False)
        return Reduced(whiten @ left, sizes[:, None] * right)

    def project(self, rows: Array, response_ranks: tuple[int, ...]) -> Array:
        """Project rows of length Q on the leading subspaces of the response modes."""
        tensor = rows.reshape(-1, *self.shape)
        for m, (vectors, rank) in enumerate(zip(self.modes, response_ranks, strict=True)):
            if rank < self.shape[m]:
                projector = vectors[:, :rank] @ vectors[:, :rank].T
                tensor = np.moveaxis(np.tensordot(tensor, projector, (m + 1, 0)), -1, m + 1)
        return tensor.reshape(len(rows), -1)

    def errors(self, gammas: Array, response_ranks: Sequence[tuple[int, ...]], on: Statistics) -> Array:
        """Mean squares of the residuals on other statistics, for all R_0; shape (gammas, ranks, R_0's)."""
        return np.array([self._errors(self.reduced(gamma), response_ranks, on) for gamma in gammas])

    def _errors(self, reduced: Reduced, response_ranks: Sequence[tuple[int, ...]], on: Statistics) -> list[Array]:
        quadratic = reduced.basis.T @ on.gram_dot(reduced.basis)
        link = reduced.basis.T @ dense(on)[1]
        errors = []
        for ranks in response_ranks:
            rows = self.project(reduced.rows, ranks)
            # The error with the first k rows is a sum over the leading k × k block.
            blocks = np.cumsum(np.cumsum(quadratic * (rows @ rows.T), axis=0), axis=1).diagonal()
            errors.append(np.maximum(on.y_scale + blocks - 2.0 * np.cumsum((rows * link).sum(axis=1)), 0.0))
        return errors

    def bic(self, gammas: Array, response_ranks: Sequence[tuple[int, ...]]) -> Array:
        """BIC of all candidates, shape (gammas, ranks, R_0's)."""
        entries = self.stats.n_samples * self.stats.n_y
        floor = 100 * np.finfo(float).eps * self.stats.y_scale or 1.0
        fit = entries * np.log(np.maximum(self.errors(gammas, response_ranks, self.stats), floor))
        effective = [float(np.sum(self.values / (self.values + gamma))) for gamma in gammas]
        df = np.array(
            [
                [[self.dimension(p, k + 1, ranks) for k in range(fit.shape[2])] for ranks in response_ranks]
                for p in effective
            ]
        )
        return np.asarray(fit + np.log(entries) * df)

    def dimension(self, predictors: float, x_rank: int, response_ranks: tuple[int, ...]) -> float:
        """Free numbers of a tensor of this multilinear rank."""
        x_rank = min(x_rank, math.prod(response_ranks))
        sides = sum(r * (q - r) for r, q in zip(response_ranks, self.shape, strict=True))
        return x_rank * max(predictors - x_rank, 0.0) + sides + x_rank * math.prod(response_ranks)
