"""Sparse OLS: least squares with a lasso and a row-group penalty (remMap)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dst2r._kernels import lasso_quadratic
from dst2r.baselines._common import (
    check_auto_or_number,
    dense,
    is_auto,
    mean_squares,
    need_samples,
    on_few_threads,
    with_folds,
)
from dst2r.cp import Array
from dst2r.regressor import TensorRegressor, check_number
from dst2r.statistics import Statistics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dst2r.baselines._common import Fold

PATIENCE = 12  # values of l1 without improvement that end a path: a factor of 6 on the default grid


class SparseOLS(TensorRegressor):
    r"""Sparse ordinary least squares on the vectorised predictors.

    .. math:: \min_B \frac{1}{2n} \|Y - XB\|_F^2
              + \lambda_1 \sum_{jk} |b_{jk}| + \lambda_2 \sum_j \|b_{j\cdot}\|_2

    for the (P, Q) matricised coefficient: with :math:`\lambda_2 = 0` one lasso per response entry, all with
    the same penalty; with :math:`\lambda_1 = 0` the multi-task lasso.

    Parameters
    ----------
    l1 : float or "auto", default="auto"
        Lasso penalty, on scikit-learn's scale (remMap's, divided by n).
    l2_group : float or "auto", default=0.0
        Penalty on the Euclidean norms of the rows of B, one row for each predictor entry.
    cv : None, int, splitter or iterable of splits, default=None
        How "auto" is settled: None by BIC, otherwise by the squared error of cross-validation.
    n_values : int, default=60
        Number of values on the grid of a penalty that is "auto".
    min_ratio : float, default=1e-4
        Smallest value of the grid of `l1` relative to the largest.
    fit_intercept : bool, default=True
        Whether the data are centred.
    tol : float, default=1e-5
        The descent stops when no step of a whole sweep changes the root mean square of the predictions by
        more than this, relative to that of the responses.
    max_iter : int, default=5000
        Largest number of sweeps for one pair of penalties.

    Attributes
    ----------
    coef_ : ndarray of shape (*x_shape, *y_shape)
    intercept_ : ndarray of shape y_shape
    l1_, l2_group_ : float
        Penalties used.
    n_parameters_ : int
        Number of non-zeros.
    path_ : dict of ndarray of shape (n_candidates,)
        The candidates "l1" and "l2_group" and their "criterion"; only if one of them is "auto".
    n_iter_ : int
        Sweeps at the penalties used, after a warm start.

    Notes
    -----
    The grid of `l1` falls geometrically from :math:`\lambda_{max} = \max |X^T Y| / n`, where B vanishes, with
    warm starts, until the criterion has not improved for 12 values; that of `l2_group` is 0 and values that
    fall from the largest row norm of :math:`X^T Y / n`. In the comparisons of Sun and Li (2017) the grid is fixed
    and ends at :math:`n \lambda = e^3`, far below :math:`\lambda_{max}` on data with large units.

    BIC is that of remMap, :math:`n \sum_k \log RSS_k + \log(n)\, df`, except that df counts the true
    non-zeros of the fit, where remMap uses a formula for orthogonal predictors which its manual says
    overestimates otherwise. Where P >= n, BIC falls without bound as the fit becomes exact: there, fits that
    spend more than n/2 non-zeros on a response entry are not considered.

    A sweep costs O(PQ) and O(P) for every entry that moves.

    References
    ----------
    .. [1] J. Peng, J. Zhu, A. Bergamaschi, W. Han, D.-Y. Noh, J. R. Pollack and P. Wang (2010). Regularized
       multivariate regression for identifying master predictors with application to integrative genomics
       study of breast cancer. Annals of Applied Statistics 4(1), 53-77.

    Examples
    --------
    >>> from dst2r import make_tensor_regression
    >>> from dst2r.baselines import SparseOLS
    >>> data = make_tensor_regression(200, (5, 4), (3,), rank=1, sparsity=0.5, snr=5, random_state=0)
    >>> model = SparseOLS().fit(data.X, data.Y)
    >>> model.coef_.shape
    (5, 4, 3)
    """

    def __init__(
        self,
        l1: float | str = "auto",
        l2_group: float | str = 0.0,
        *,
        cv: Any = None,
        n_values: int = 60,
        min_ratio: float = 1e-4,
        fit_intercept: bool = True,
        tol: float = 1e-5,
        max_iter: int = 5000,
    ) -> None:
        self.l1 = l1
        self.l2_group = l2_group
        self.cv = cv
        self.n_values = n_values
        self.min_ratio = min_ratio
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter

    def _fit_samples(self, X: NDArray[Any], Y: NDArray[Any], weight: Array | None) -> Self:
        cv = self.cv if self._cross_validated() else None
        return self._fit(*with_folds(X, Y, weight, cv, center=self.fit_intercept))

    def fit_statistics(self, stats: Statistics) -> Self:
        """Fit from statistics, however they were accumulated; "auto" needs ``cv=None`` here.

        Parameters
        ----------
        stats : Statistics
        """
        self._check_parameters()
        if self._cross_validated():
            raise need_samples(self, "l1 and l2_group")
        return self._fit(stats, [])

    @on_few_threads
    def _fit(self, stats: Statistics, folds: list[Fold]) -> Self:
        cross = dense(stats)[1]
        fall = np.geomspace(1.0, self.min_ratio, self.n_values)
        l1s = np.abs(cross).max() * fall if is_auto(self.l1) else np.array([float(self.l1)])
        groups = np.array([0.0 if is_auto(self.l2_group) else float(self.l2_group)])
        if is_auto(self.l2_group):
            largest = np.linalg.norm(cross, axis=1).max()
            groups = np.append(largest * np.geomspace(1.0, 1e-2, min(self.n_values, 10)), 0.0)
        if len(l1s) * len(groups) > 1:
            tried = [entry for group in groups for entry in self._criteria(stats, folds, l1s, group)]
            best = min(tried, key=lambda entry: entry[2])
            self.path_ = dict(zip(("l1", "l2_group", "criterion"), np.array(tried).T, strict=True))
        else:
            best = (l1s[0], groups[0], 0.0)

        # Again by the warm starts that led to the best fit: keeping all fits would take their memory.
        self.l1_, self.l2_group_ = float(best[0]), float(best[1])
        *_, (coef, sweeps) = self._path(stats, l1s[l1s >= self.l1_], self.l2_group_)
        if sweeps > self.max_iter:
            warnings.warn(
                f"SparseOLS stopped after max_iter={self.max_iter} sweeps before it converged to "
                f"tol={self.tol:g}: raise max_iter or tol, or use a larger penalty.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.n_iter_ = min(sweeps, self.max_iter)
        self.n_parameters_ = int(np.count_nonzero(coef))
        self._set_coefficient(coef, stats.y_mean - stats.x_mean @ coef, stats)
        return self

    def _criteria(
        self, stats: Statistics, folds: list[Fold], l1s: Array, group: float
    ) -> Iterator[tuple[float, float, float]]:
        """``(l1, group, criterion)`` along the path, until the criterion has not improved for a while."""
        samples: list[Statistics] = [fold.train for fold in folds] if folds else [stats]
        paths = zip(*(self._path(sample, l1s, group) for sample in samples), strict=True)
        best, since = np.inf, 0
        for l1, fits in zip(l1s, paths, strict=False):
            if folds:
                errors = [mean_squares(fold.test, coef).sum() for fold, (coef, _) in zip(folds, fits, strict=True)]
                value = float(np.dot([fold.test.n_samples for fold in folds], errors))
            else:
                value = bic(stats, fits[0][0])
            yield float(l1), group, value
            best, since = (value, 0) if value < best else (best, since + 1)
            if since == PATIENCE:
                return

    def _path(self, stats: Statistics, l1s: Array, group: float) -> Iterator[tuple[Array, int]]:
        """The (P, Q) coefficient and the number of sweeps for falling l1, warmly started."""
        gram, cross = dense(stats)
        tol = self.tol**2 * stats.y_square
        coef, gradient = np.zeros(cross.shape), cross.copy()
        for l1 in l1s:
            if group > 0:
                sweeps = descend(gram, gradient, coef, (l1, group), tol.sum(), self.max_iter)
            else:
                sweeps = self._lassos(gram, gradient, coef, l1, tol)
            yield coef.copy(), sweeps

    def _lassos(self, gram: Array, gradient: Array, coef: Array, l1: float, tol: Array) -> int:
        """Without groups the responses do not meet: each is done as soon as it has converged itself."""
        penalty, most = np.full(len(coef), float(l1)), 0
        for k in range(coef.shape[1]):
            column, slope = coef[:, k].copy(), -gradient[:, k]
            sweeps = lasso_quadratic(gram, slope, column, penalty, tol[k], self.max_iter)
            coef[:, k], gradient[:, k] = column, -slope
            most = max(most, sweeps if sweeps > 0 else self.max_iter + 1)
        return most

    def _cross_validated(self) -> bool:
        return self.cv is not None and (is_auto(self.l1) or is_auto(self.l2_group))

    def _check_parameters(self) -> None:
        check_auto_or_number("l1", self.l1)
        check_auto_or_number("l2_group", self.l2_group)
        check_number("n_values", self.n_values, low=2, integer=True)
        check_number("min_ratio", self.min_ratio, strict=True)
        if self.min_ratio >= 1:
            raise ValueError(f"min_ratio is {self.min_ratio!r}; expected a number between 0 and 1.")
        check_number("tol", self.tol, strict=True)
        check_number("max_iter", self.max_iter, low=1, integer=True)


def descend(
    gram: Array, gradient: Array, coef: Array, penalties: tuple[float, float], tol: float, max_sweeps: int
) -> int:
    """Block coordinate descent over rows, in place: the active rows until they rest, then all of them.

    Invariant: ``gradient == cross - gram @ coef``. Returns the sweeps made, ``max_sweeps + 1`` if too many.
    """
    l1, group = penalties
    everything = True
    for sweep in range(1, max_sweeps + 1):
        worst = 0.0
        for j in np.flatnonzero((gram.diagonal() > 0) & (everything | coef.any(axis=1))):
            curvature = gram[j, j]
            z = gradient[j] + curvature * coef[j]
            z = np.sign(z) * np.maximum(np.abs(z) - l1, 0.0)
            norm = np.linalg.norm(z)
            new = z * (max(0.0, 1.0 - group / norm) / curvature if norm > 0 else 0.0)
            move = new - coef[j]
            if move.any():
                coef[j] = new
                gradient -= np.outer(gram[j], move)
                worst = max(worst, curvature * float(move @ move))
        if worst <= tol and everything:
            return sweep
        everything = worst <= tol
    return max_sweeps + 1


def bic(stats: Statistics, coef: Array) -> float:
    """Criterion of remMap with the true number of non-zeros."""
    n, used = stats.n_samples, np.count_nonzero(coef, axis=0)
    if stats.n_x >= n and used.max() > n / 2:
        return np.inf
    # An exact fit would have a logarithm of rounding errors; a constant response has nothing to explain.
    floor = 100 * np.finfo(float).eps * stats.y_square
    squares = np.maximum(mean_squares(stats, coef), floor)[stats.y_square > 0]
    return float(n * np.log(squares).sum() + np.log(n) * used.sum())
