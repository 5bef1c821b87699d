"""CPRidge: low-rank tensor-on-tensor regression with a ridge penalty and no sparsity (Lock 2018)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from dst2r.baselines._common import (
    check_auto_or_number,
    check_ranks,
    dense,
    grown_start,
    is_auto,
    need_samples,
    on_few_threads,
    random_start,
    spectrum,
    typical_variance,
    with_folds,
)
from dst2r.correction import Correction, least_squares
from dst2r.cp import Array, CPCoefficient
from dst2r.regressor import TensorRegressor, check_number
from dst2r.statistics import Statistics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dst2r.baselines._common import Fold

ROUGH_TOL = 1e-3  # tells starts and penalties apart; the last digits are for the chosen fit
RELATIVE_L2 = (0.0, 1e-3, 1e-2, 1e-1, 1.0)  # in units of `typical_variance`


class CPRidge(TensorRegressor):
    r"""The model of DST2R without sparsity: a coefficient of CP rank R with a ridge penalty.

    .. math:: \min_B \frac{1}{2n} \|Y - \langle\langle X, B \rangle\rangle\|_F^2 + \frac{\alpha}{2} \|B\|_F^2
              \quad \text{with } B \text{ of CP rank at most } R.

    Parameters
    ----------
    rank : int or sequence of int, default=1
        Number R of components, or candidates.
    l2 : float or "auto", default="auto"
        The penalty :math:`\alpha` on the coefficient itself (Lock's, divided by n); TensorLy's
        ``CPRegressor`` penalises the factors, which is another model. "auto" tries 0 and 1e-3 to 1
        times the mean eigenvalue of the predictors' covariance, weighted by the eigenvalues.
    n_restarts : int, default=3
        Pairs of starts from random numbers; the best objective wins.
    cv : None, int, splitter or iterable of splits, default=5
        How `l2` and `rank` are settled: by the squared error of cross-validation as published, or None for
        BIC.
    fit_intercept : bool, default=True
        Whether the data are centred. The original has no intercept.
    tol : float, default=1e-5
        The fit is finished when the local model promises to lower the objective by at most ``tol**2`` of it.
        Starts and folds are content with 1e-3.
    max_iter : int, default=200
        Largest number of Gauss-Newton steps of one start.
    random_state : int, RandomState or None, default=None
        Source of the random starts.

    Attributes
    ----------
    coef_ : ndarray of shape (*x_shape, *y_shape)
    intercept_ : ndarray of shape y_shape
    cp_ : CPTensor
        The components, largest first.
    rank_ : int
    l2_ : float
    n_parameters_ : int
        Free numbers of the factors: entries less the scales that modes share.
    objective_ : float
        The minimised objective.
    path_ : list of tuple
        ``(rank, l2, criterion)`` of all candidates; empty if there was no choice.
    n_iter_ : int
        Steps that finished the final fit, from the best start or a warm one.

    Notes
    -----
    The objective has local minima: alternating least squares, the original's method, ends well above the
    least from one random start in three. We descend by damped Gauss-Newton steps on all factors together. Of a
    pair of starts, one is random altogether, and one adds components one by one, each from random numbers.

    The starts are made for the smallest penalty; larger ones start from the solution of the one before, on all
    the data as in every fold, and the folds at first from that of all the data. BIC is
    :math:`nQ \log(RSS/nQ) + \log(nQ)\, df` with df the free numbers of the factors times the mean shrinkage
    :math:`e_i/(e_i + \alpha)` over the eigenvalues of G.

    References
    ----------
    .. [1] E. F. Lock (2018). Tensor-on-tensor regression. Journal of Computational and Graphical Statistics
       27(3), 638-647.

    Examples
    --------
    >>> from dst2r import make_tensor_regression
    >>> from dst2r.baselines import CPRidge
    >>> data = make_tensor_regression(200, (5, 4), (3,), rank=2, snr=10, random_state=0)
    >>> model = CPRidge(rank=2, random_state=0).fit(data.X, data.Y)
    >>> [f.shape for f in model.cp_.factors]
    [(5, 2), (4, 2), (3, 2)]
    """

    def __init__(
        self,
        rank: int | Sequence[int] = 1,
        l2: float | str = "auto",
        *,
        n_restarts: int = 3,
        cv: Any = 5,
        fit_intercept: bool = True,
        tol: float = 1e-5,
        max_iter: int = 200,
        random_state: Any = None,
    ) -> None:
        self.rank = rank
        self.l2 = l2
        self.n_restarts = n_restarts
        self.cv = cv
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _fit_samples(self, X: NDArray[Any], Y: NDArray[Any], weight: Array | None) -> Self:
        cv = self.cv if self._cross_validated() else None
        return self._fit(*with_folds(X, Y, weight, cv, center=self.fit_intercept))

    def fit_statistics(self, stats: Statistics) -> Self:
        """Fit from statistics, however they were accumulated; a choice needs ``cv=None`` here.

        Parameters
        ----------
        stats : Statistics
        """
        self._check_parameters()
        if self._cross_validated():
            raise need_samples(self, "rank and l2")
        return self._fit(stats, [])

    @on_few_threads
    def _fit(self, stats: Statistics, folds: list[Fold]) -> Self:
        ranks = check_ranks("rank", self.rank)
        rng = check_random_state(self.random_state)
        gram = dense(stats)[0]
        scale = typical_variance(gram)
        penalties = [ratio * scale for ratio in RELATIVE_L2] if is_auto(self.l2) else [float(self.l2)]
        choice = len(penalties) * len(ranks) > 1
        eigenvalues = spectrum(gram)[0] if choice and not folds else None
        self.path_, best = [], None
        for rank in ranks:
            ridged = stats.ridged(penalties[0])
            starts = [start(ridged, rank, rng) for _ in range(self.n_restarts) for start in (grown_start, random_start)]
            of_folds: list[CPCoefficient] = []
            for l2 in penalties:
                fits = [self._descend(stats, l2, start, ROUGH_TOL) for start in starts]
                rough = min(fits, key=lambda fit: fit.model.loss).coef
                starts, criterion = [rough], 0.0
                if choice and eigenvalues is None:
                    criterion, of_folds = self._fold_error(folds, l2, of_folds or [rough] * len(folds))
                elif choice and eigenvalues is not None:
                    criterion = bic(stats, rough, float(np.mean(eigenvalues / (eigenvalues + l2))))
                if choice:
                    self.path_.append((rank, l2, criterion))
                if best is None or criterion < best[0]:
                    best = criterion, rank, l2, rough
        assert best is not None  # there is one candidate at least
        _, self.rank_, self.l2_, rough = best
        fit = self._descend(stats, self.l2_, rough, self.tol)
        if not fit.converged:
            warnings.warn(
                f"CPRidge stopped after max_iter={self.max_iter} steps before it converged to tol={self.tol:g}: "
                "raise max_iter, or lower the rank: if it is too high, components may grow and cancel without end.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.objective_, self.n_iter_, self.cp_ = fit.model.loss, fit.n_iter, fit.coef.normal_form()
        self.n_parameters_ = fit.coef.n_parameters()
        coef = fit.coef.x_side() @ fit.coef.y_side().T
        self._set_coefficient(coef, stats.intercept(fit.coef), stats)
        return self

    def _descend(self, stats: Statistics, l2: float, start: CPCoefficient, tol: float) -> Correction:
        return least_squares(stats.ridged(l2), start, tol=max(tol, self.tol), max_iter=self.max_iter)

    def _fold_error(
        self, folds: list[Fold], l2: float, starts: list[CPCoefficient]
    ) -> tuple[float, list[CPCoefficient]]:
        """Test error of all folds, and their coefficients."""
        pairs = zip(folds, starts, strict=True)
        coefs = [self._descend(fold.train, l2, start, ROUGH_TOL).coef for fold, start in pairs]
        return sum(f.test.n_samples * f.test.loss(coef) for f, coef in zip(folds, coefs, strict=True)), coefs

    def _cross_validated(self) -> bool:
        return self.cv is not None and (is_auto(self.l2) or len(check_ranks("rank", self.rank)) > 1)

    def _check_parameters(self) -> None:
        check_ranks("rank", self.rank)
        check_auto_or_number("l2", self.l2)
        check_number("n_restarts", self.n_restarts, low=1, integer=True)
        check_number("tol", self.tol, strict=True)
        check_number("max_iter", self.max_iter, low=1, integer=True)


def bic(stats: Statistics, coef: CPCoefficient, shrinkage: float) -> float:
    """BIC over all response entries, the free numbers of the factors shrunk like the predictors."""
    entries = stats.n_samples * stats.n_y
    floor = 100 * np.finfo(float).eps * stats.y_scale or 1.0
    square = max(2.0 * stats.loss(coef), floor)
    return float(entries * np.log(square) + np.log(entries) * shrinkage * coef.n_parameters())
