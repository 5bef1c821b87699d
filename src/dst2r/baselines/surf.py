"""SURF: one sparse rank-one component after the other, for a scalar response (He et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils import column_or_1d

from dst2r.baselines._common import (
    Fold,
    check_auto_or_number,
    is_auto,
    need_samples,
    on_few_threads,
    with_folds,
)
from dst2r.cp import Array, CPCoefficient
from dst2r.regressor import TensorRegressor, check_number
from dst2r.search import SearchPath, search
from dst2r.statistics import Statistics

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.utils import Tags

POINTS_AT_ONCE = 512  # of a path, whose coefficients are held densely


class SURF(TensorRegressor):
    r"""Sparse rank-one components for a scalar response, each fitted to what the ones before it left.

    .. math:: \min_{W_r} \frac{1}{2n} \sum_m \Bigl(y_m - \Bigl\langle X_m, \sum_{s<r} W_s\Bigr\rangle
              - \langle X_m, W_r \rangle\Bigr)^2 + l_1 \|W_r\|_1 + \frac{l_2}{2} \|W_r\|_F^2,
              \qquad W_r \text{ of rank one}.

    Parameters
    ----------
    rank : int, default=50
        Largest number of components.
    l1 : float or "auto", default="auto"
        Penalty at which the path of every component is stopped (half of the paper's :math:`\lambda`); "auto"
        tunes each by the published rule.
    l2 : float, default=0.0
        Ridge penalty on the components. The original fixes the paper's :math:`\alpha = l_2` to 1 for standardised
        predictors, which halves the coefficient of predictors that are not correlated.
    cv : int, splitter or iterable of splits, default=5
        Folds for "auto".
    step_size : float or "auto", default="auto"
        The paper's :math:`\epsilon`, in units of :math:`\|W\|_1`; "auto" begins with 5 % of the
        best weight of the first entry, and keeps it at 2.5 to 5 % of the weight later on.
    fit_intercept : bool, default=True
        Whether the data are centred. The original has no intercept.
    tol : float, default=1e-4
        A component that lowers the standard deviation of the residual by less than this part of that of the
        response is left out, and is the last to be tried.

    Attributes
    ----------
    coef_ : ndarray of shape x_shape
    intercept_ : ndarray of shape ()
    cp_ : CPTensor
        The components, largest first.
    rank_ : int
        Number of components.
    n_parameters_ : int
        Free numbers of the factors: non-zero entries less the scales that modes share.
    l1_ : ndarray of shape (R,)
        Penalty of every component, in the order in which they were found.
    search_paths_ : list of SearchPath
        Path of every component tried on all the data, in that order.
    path_ : list of dict
        What tuning saw of each of these: "l1" of shape (T,), falling, and "error" of shape (T,), the root mean
        squared test error averaged over the folds. Empty if `l1` is a number.

    Notes
    -----
    The tuning is that of the authors' program. Every fold follows the path of its training samples. The root
    mean squared error on its test samples is interpolated linearly in the penalty; the mean over the folds is
    least at some penalty. There, the mean of the folds' :math:`\|W\|_1` says where the path of all the data stops.

    Corrected here: (a) From the second component on, the original draws its folds from the residual of a fit to
    *all* samples, so that the test samples have been seen. Here every fold deflates by its own components,
    at the chosen penalty, and a test sample is new to all that predicts it. (b) The original goes on while the
    training residual changes by an absolute amount, or the entries of W do not add up to zero, and in practice
    to its limit of 50 components. Here a component whose test error is least at zero is no component, changes
    count relative to the response, and W is zero when all its entries are. (c) A fixed step of 0.1 reaches no
    further than the number of steps times 0.1; "auto" has no units.

    This is the search of :class:`dst2r.DST2R` for q = 0 with deflation alone, which is biased, as components
    are not orthogonal: ``DST2R`` corrects all of them together. For vector predictors, a path is that of the
    lasso as the step shrinks.

    References
    ----------
    .. [1] L. He, K. Chen, W. Xu, J. Zhou and F. Wang (2018). Boosted sparse and low-rank tensor regression.
       Advances in Neural Information Processing Systems 31.

    Examples
    --------
    >>> from dst2r import make_tensor_regression
    >>> from dst2r.baselines import SURF
    >>> data = make_tensor_regression(200, (6, 5), (), rank=1, sparsity=0.5, snr=5, random_state=0)
    >>> model = SURF().fit(data.X, data.Y)
    >>> [factor.shape[0] for factor in model.cp_.factors]
    [6, 5]
    """

    def __init__(
        self,
        rank: int = 50,
        l1: float | str = "auto",
        *,
        l2: float = 0.0,
        cv: Any = 5,
        step_size: float | str = "auto",
        fit_intercept: bool = True,
        tol: float = 1e-4,
    ) -> None:
        self.rank = rank
        self.l1 = l1
        self.l2 = l2
        self.cv = cv
        self.step_size = step_size
        self.fit_intercept = fit_intercept
        self.tol = tol

    def _fit_samples(self, X: NDArray[Any], Y: NDArray[Any], weight: Array | None) -> Self:
        self._check_scalar(Y.shape[1:], Y.ndim > 2)
        if Y.ndim == 2:
            Y = column_or_1d(Y, warn=True)
            self._labels_seen = self._labels_seen and replace(self._labels_seen, y=())
        cv = self.cv if is_auto(self.l1) else None
        return self._fit(*with_folds(X, Y, weight, cv, center=self.fit_intercept))

    def fit_statistics(self, stats: Statistics) -> Self:
        """Fit from statistics, however they were accumulated; `l1` must be a number here.

        Parameters
        ----------
        stats : Statistics
            Of a scalar response.
        """
        self._check_parameters()
        if is_auto(self.l1):
            raise need_samples(self, "l1", bic=False)
        self._check_scalar(stats.y_shape)
        return self._fit(stats, [])

    @on_few_threads
    def _fit(self, stats: Statistics, folds: list[Fold]) -> Self:
        shape = stats.x_shape
        residual, coef = stats.reshaped(shape, ()), CPCoefficient.empty(shape, ())
        self.search_paths_: list[SearchPath] = []
        self.path_: list[dict[str, Array]] = []
        l1s: list[float] = []
        while coef.rank < self.rank:
            path = self._search(residual)
            self.search_paths_.append(path)
            if folds:
                l1, point, points = self._tune(path, folds)
            else:
                l1 = float(self.l1)
                point, points = last_at(path, l1), []
            if point < 0:
                break
            part = path.coefficient(point)
            after = residual.residual(part)
            if np.sqrt(residual.y_scale) - np.sqrt(after.y_scale) < self.tol * np.sqrt(stats.y_scale):
                break
            coef, residual = coef.append(part), after
            folds = [Fold(f.train.residual(w), f.test.residual(w)) for f, w in zip(folds, points, strict=True)]
            l1s.append(l1)
        self.l1_, self.rank_, self.n_parameters_ = np.array(l1s), coef.rank, coef.n_parameters()
        self._set_coefficient(coef.x_side() @ coef.y_side().T, residual.y_mean, stats)
        self.cp_ = coef.with_modes(shape, stats.y_shape).normal_form()
        return self

    def _search(self, residual: Statistics) -> SearchPath:
        l1_end = 0.0 if is_auto(self.l1) else float(self.l1)
        return search(residual.ridged(self.l2), step_size=self.step_size, l1_end=l1_end)

    def _tune(self, path: SearchPath, folds: list[Fold]) -> tuple[float, int, list[CPCoefficient]]:
        """Penalty of one component, its point on the path of all data (or -1), and the folds' own components."""
        curves = [Curve.of(self._search(fold.train), fold) for fold in folds]
        knots = np.unique(np.concatenate([curve.l1 for curve in curves]))[::-1]
        error = np.mean([np.interp(knots, curve.l1, curve.error) for curve in curves], axis=0)
        self.path_.append({"l1": knots, "error": error})
        l1 = float(knots[np.argmin(error)])  # of equal ones the sparsest
        weight = float(np.mean([np.interp(l1, curve.l1, curve.weight) for curve in curves]))
        beyond = np.flatnonzero(path.weight > weight * (1.0 + 1e-9))
        return l1, int(beyond[0] if beyond.size else len(path)) - 1, [curve.component(l1) for curve in curves]

    def _check_parameters(self) -> None:
        check_number("rank", self.rank, low=1, integer=True)
        check_auto_or_number("l1", self.l1)
        check_number("l2", self.l2)
        if not is_auto(self.step_size):
            check_number("step_size", self.step_size, strict=True, otherwise='"auto"')
        check_number("tol", self.tol)
        if self.cv is None:
            raise ValueError("cv is None, but SURF has no rule without folds: expected folds, or a number as l1.")

    def _check_scalar(self, y_shape: tuple[int, ...], several: bool = False) -> None:
        if several or any(size > 1 for size in y_shape):
            raise ValueError(
                f"SURF takes a scalar response, y of shape (n,), but a response here has shape {y_shape}: use DST2R, "
                "or fit every entry on its own by sklearn.multioutput.MultiOutputRegressor(SURF())."
            )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A fold's path as functions of the penalty, from zero on; ``l1`` rises."""

    path: SearchPath
    l1: Array
    weight: Array
    error: Array

    @classmethod
    def of(cls, path: SearchPath, fold: Fold) -> Curve:
        """Weights of a training path and root mean squared errors on the test samples."""
        # Steps back and forth at one penalty lead to its solution: the last of them.
        last = np.flatnonzero(np.append(np.diff(path.l1) < 0, True)[: len(path)])
        error = root_mean_squares(path, last, fold.test)
        start = fold.train.kkt_start()[0]
        l1, weight = np.append(start, path.l1[last]), np.append(0.0, path.weight[last])
        return cls(path, l1[::-1], weight[::-1], np.append(np.sqrt(fold.test.y_scale), error)[::-1])

    def component(self, l1: float) -> CPCoefficient:
        """The fold's component at a penalty."""
        point = last_at(self.path, l1)
        return self.path.coefficient(point) if point >= 0 else CPCoefficient.empty(self.path.x_shape, ())


def last_at(path: SearchPath, l1: float) -> int:
    """The last point of a path whose penalty is at least ``l1``; -1 if it begins below."""
    return int(np.count_nonzero(path.l1 >= l1)) - 1


def root_mean_squares(path: SearchPath, points: NDArray[np.intp], test: Statistics) -> Array:
    """Root mean squared error on a test fold of points of a path."""
    link, errors = test.cross_dot(np.ones((1, 1))), [np.zeros(0)]
    for start in range(0, points.size, POINTS_AT_ONCE):
        some = points[start : start + POINTS_AT_ONCE]
        # all points at once, as if they were components of one coefficient
        factors = np.split(path.factors[some].T, np.cumsum(path.x_shape)[:-1])
        U = CPCoefficient(tuple(factors), len(factors)).x_side() * path.weight[some]
        errors.append(test.y_scale + np.sum(U * (test.gram_dot(U) - 2.0 * link), axis=0))
    return np.sqrt(np.maximum(np.concatenate(errors), 0.0))
