"""DST2R and DST2RCV: validation and names around search, correction and selection. No mathematics."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from dst2r.correction import Correction, Growth, Recipe, grow, least_squares, restart
from dst2r.cp import Array, CPCoefficient, max_rank
from dst2r.labels import Mode
from dst2r.regressor import TensorRegressor, blas_threads, check_choice, check_number, check_numbers
from dst2r.search import SearchPath
from dst2r.selection import (
    CRITERIA,
    N_L1,
    Criterion,
    CVSurface,
    L1Path,
    fold_surface,
    l1_grid,
    pick_at,
    pick_by,
    select,
    well_posed,
)
from dst2r.statistics import GramStatistics, Statistics, gather_folds, leave_one_out, require_room

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from tensorly.cp_tensor import CPTensor


Folds = Sequence[tuple[Statistics, Statistics]]
AnyStatistics = TypeVar("AnyStatistics", bound=Statistics)


class _DST2RBase(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TensorRegressor):
    """Parameters and steps that both estimators share."""

    correction: str
    relax: bool
    step_size: float | str
    tol: float
    max_iter: int
    n_restarts: int
    fit_intercept: bool
    standardize: bool
    random_state: int | np.random.Generator | np.random.RandomState | None
    verbose: int

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Component scores ``<<X - mean, a_1r o ... o a_pr>>``, shape (n, R); labelled, or lazy, as X is."""
        check_is_fitted(self)
        _, factors = self.cp_
        U = CPCoefficient(tuple(factors), len(factors) - self.intercept_.ndim).x_side()
        scores = partial(component_scores, mean=self.x_mean_, scale=self.x_scale_, U=U)
        component = Mode("component", tuple(range(1, self.rank_ + 1)))
        return self._map_samples(X, scores, (self.rank_,), [component])

    @property
    def _n_features_out(self) -> int:
        return self.rank_

    def _check_parameters(self) -> None:
        check_choice("correction", self.correction, ("full", "final", "none"))
        if self.step_size != "auto":
            check_number("step_size", self.step_size, strict=True, otherwise="'auto'")
        check_number("tol", self.tol, strict=True)
        check_number("max_iter", self.max_iter, low=1, integer=True)
        check_number("n_restarts", self.n_restarts, integer=True)
        if self.n_restarts and self.correction == "none":
            raise ValueError("n_restarts needs a correction: set correction='full' or n_restarts=0.")

    @property
    def _recipe(self) -> Recipe:
        return Recipe(self.correction, self.step_size, self.tol, self.max_iter)

    def _scale(self, stats: AnyStatistics) -> tuple[AnyStatistics, Array]:
        """Statistics with predictors in units of their spread, if asked, and what they were divided by."""
        scale = np.ones(stats.n_x)
        if self.standardize:
            spread = np.sqrt(stats.x_square())
            scale = np.where(spread > 0, spread, 1.0)
            stats = stats.scaled(scale)
        return stats, scale

    def _say(self, text: str) -> None:
        if self.verbose:
            sys.stderr.write(f"[dst2r] {text}\n")

    def _grow(self, stats: Statistics, rank: int, pick: Callable[[SearchPath], int] | None) -> Growth:
        def tell(r: int, loss: float) -> None:
            self._say(f"component {r} of {rank}: loss {loss:.6g}")

        return grow(stats, rank, self._recipe, pick=pick, relax=self.relax, on_component=tell)

    def _finish(self, stats: Statistics, growth: Growth, l1: float | None, criterion: Criterion) -> Correction:
        """Restart, select and relax the last fit of a growth; set the attributes that tell the way there."""
        self.search_paths_: list[SearchPath] = growth.paths
        self.path_: L1Path | None = None
        self.l1_ = 0.0 if l1 is None else float(l1)
        self.n_iter_ = growth.n_iter
        if not growth.fits:  # the responses do not vary with the predictors at all
            return least_squares(stats, CPCoefficient.empty(stats.x_shape, stats.y_shape))
        fit = growth.fits[-1]
        if self.correction == "none":
            if l1 is None:
                self.l1_ = float(growth.paths[-1].l1[pick_by(criterion)(growth.paths[-1])])
            return fit
        if self.n_restarts:
            fit = restart(stats, fit, self.n_restarts, as_generator(self.random_state), self._recipe)
        selection = select(
            stats,
            fit,
            l1,
            criterion,
            relax=self.relax,
            start=growth.l1[-1],
            recipe=self._recipe,
            stages=growth.stages if self.correction == "full" else (),
        )
        self.path_, self.l1_ = selection.path, selection.l1
        self.n_iter_ += selection.fit.n_iter
        if not selection.fit.converged:
            warnings.warn(
                f"The correction stopped after max_iter={self.max_iter} steps above tol={self.tol:g}: "
                "raise max_iter or tol, lower the rank, or add a ridge (l2) if predictors are collinear.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return selection.fit

    def _store(self, fit: Correction, stats: Statistics, x_scale: Array) -> None:
        """Set the fitted attributes from a fit in the units of ``stats``."""
        coef = fit.coef.alive().with_modes(stats.x_shape, stats.y_shape)
        dense = coef.x_side() @ coef.y_side().T
        self.__dict__.pop("accumulated_", None)  # of batches that this fit has not seen
        self._set_coefficient(dense / x_scale[:, None], stats.intercept(coef), stats)
        self.cp_: CPTensor = coef.normal_form()
        self.rank_ = coef.rank
        self.n_parameters_ = coef.n_parameters()
        self.n_samples_, self.converged_ = stats.n_samples, fit.converged
        self.loss_, self.null_loss_ = fit.model.loss, 0.5 * stats.y_scale
        self.x_scale_, self.x_mean_ = x_scale, stats.x_mean * x_scale
        self.statistics_ = stats.describe()


class DST2R(_DST2RBase):
    r"""Sparse low-rank tensor-on-tensor regression.

    Fits ``Y = intercept + <<X, B>>`` with ``B`` a sum of ``rank`` sparse rank-one tensors, by minimising
    (docs/maths.md, eq. 1)

    .. math:: \frac1{2n}\|Y-\langle\langle X,B\rangle\rangle\|_F^2+\frac{l_2}2\|B\|_F^2+l_1\sum_r\|B_r\|_1 .

    Components are found by the paper's stagewise search, corrected jointly after each new one, and thinned out
    along a path in ``l1``.

    Parameters
    ----------
    rank : int, default=1
        Number R of components; fewer are kept where the data do not support so many (see ``rank_``).
    l1 : float or {"bic", "aic", "ebic"}, default="bic"
        Penalty, or the criterion that chooses it along the path.
    l2 : float, default=0.0
        Ridge penalty on the coefficient tensor.
    correction : {"full", "final", "none"}, default="full"
        Whether all components are corrected jointly after each new one, once at the end, or never (the paper).
    relax : bool, default=True
        Refit without penalty on the selected support. With a criterion as ``l1`` single entries and components may
        then still leave or enter, if that lowers the criterion, and entries that it only just keeps are shrunk by the
        probability that they belong (docs/maths.md, eq. 14).
    step_size : float or "auto", default="auto"
        The paper's epsilon, in units of ``||B_r||_1``; "auto" is relative to the weight that a component has reached.
    tol : float, default=1e-5
        Relative accuracy: a correction ends when the loss can fall by at most ``tol**2`` of itself.
    max_iter : int, default=100
        Most correction steps at a time.
    n_restarts : int, default=0
        Random starts of the correction beside the searched one; the least loss wins.
    fit_intercept : bool, default=True
    standardize : bool, default=False
        Divide every predictor entry by its standard deviation. ``cp_`` is then in these units, ``coef_`` in X's own.
    random_state : int, Generator, RandomState or None, default=None
        Of the restarts; nothing else is random.
    verbose : int, default=0
        Progress on the standard error stream.

    Attributes
    ----------
    coef_ : ndarray of shape x_shape + y_shape
    cp_ : tensorly CPTensor
        Weights and factors of unit norm, largest component first, predictor modes first.
    intercept_ : ndarray of shape y_shape
    rank_ : int
        Number of components that were kept.
    n_parameters_ : int
        Free numbers of the coefficient.
    l1_ : float
        Penalty that was given or chosen; with ``correction="none"`` the last component's.
    path_ : L1Path
        The joint path with the criterion at each point; None with ``correction="none"``.
    search_paths_ : list of SearchPath
        The paper's path of every component.
    n_iter_ : int
        Correction steps in all.
    converged_ : bool
        Whether the last correction reached ``tol``.
    n_samples_ : float
        Number of samples, or the sum of their weights.
    loss_, null_loss_ : float
        Loss on the training data, ridge included, of the fit and of a model without components.
    statistics_ : str
        How the data were held.
    labels_ : Labels or None
        Names of modes and entries of labelled arrays (:mod:`dst2r.labels`).
    accumulated_ : GramStatistics
        Of all batches, after :meth:`partial_fit` only.

    Examples
    --------
    >>> from dst2r import DST2R, make_tensor_regression
    >>> data = make_tensor_regression(200, (6, 5), (4,), rank=2, noise=0.1, random_state=0)
    >>> model = DST2R(rank=2).fit(data.X, data.Y)
    >>> model.coef_.shape, model.rank_
    ((6, 5, 4), 2)
    """

    def __init__(
        self,
        rank: int = 1,
        *,
        l1: float | str = "bic",
        l2: float = 0.0,
        correction: str = "full",
        relax: bool = True,
        step_size: float | str = "auto",
        tol: float = 1e-5,
        max_iter: int = 100,
        n_restarts: int = 0,
        fit_intercept: bool = True,
        standardize: bool = False,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.rank = rank
        self.l1 = l1
        self.l2 = l2
        self.correction = correction
        self.relax = relax
        self.step_size = step_size
        self.tol = tol
        self.max_iter = max_iter
        self.n_restarts = n_restarts
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("rank", self.rank, low=1, integer=True)
        check_number("l2", self.l2)
        if isinstance(self.l1, str):
            check_choice("l1", self.l1, CRITERIA)
        else:
            check_number("l1", self.l1)

    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add a batch of samples to those of earlier calls, and fit all of them.

        The statistics of batches add up exactly: the model is that of one fit to all samples. Beyond reading the batch,
        a call costs the same however many samples there have been. To fit once after many batches, add their
        statistics instead, which may also have been written by sites that share no samples:

        >>> import numpy as np
        >>> from dst2r import DST2R, GramStatistics
        >>> rng = np.random.default_rng(0)
        >>> batches = [(X, X[:, 0] - X[:, 3]) for X in rng.normal(size=(3, 20, 4))]
        >>> stats = GramStatistics.from_arrays(*batches[0])
        >>> for X, y in batches[1:]:
        ...     stats = stats + GramStatistics.from_arrays(X, y)
        >>> DST2R().fit_statistics(stats).coef_.round(6)
        array([ 1.,  0.,  0., -1.])

        Parameters
        ----------
        X : array-like or Dask array of shape (n, d_1, ..., d_p)
            Of the same shape in every call, but for the number of samples.
        y : array-like or Dask array of shape (n, d_{p+1}, ..., d_{p+q})
        sample_weight : array-like of shape (n,), optional

        Warns
        -----
        UserWarning
            After :meth:`fit` or :meth:`fit_statistics`, which keep nothing that a batch could be added to: the model
            begins anew.
        """
        self._check_parameters()
        before = getattr(self, "accumulated_", None)
        if before is None and hasattr(self, "coef_"):
            warnings.warn(
                f"This {type(self).__name__} was fitted to other samples, of which it kept nothing: it begins anew "
                "with this batch. Call partial_fit from the first batch on, or add GramStatistics for fit_statistics.",
                UserWarning,
                stacklevel=2,
            )
        with self._all_or_nothing():
            X, Y, weight = self._validate_training(X, y, sample_weight, reset=before is None, least=1)
            require_room(math.prod(X.shape[1:]), math.prod(Y.shape[1:]))
            stats = GramStatistics.from_arrays(X, Y, weight, center=self.fit_intercept)
            if before is not None:
                stats = before + stats
            self.fit_statistics(stats)
            self.accumulated_ = stats
            return self

    def fit_statistics(self, stats: Statistics) -> Self:
        """Fit from statistics, however they were accumulated.

        Parameters
        ----------
        stats : Statistics
            For instance ``GramStatistics.from_arrays(X, Y)``, or a sum of such parts.
        """
        check_statistics([stats])
        self._check_parameters()
        check_rank("rank", self.rank, stats)
        shapes, stats = (stats.x_shape, stats.y_shape), stats.squeezed()
        l1 = None if isinstance(self.l1, str) else self.l1
        name = self.l1 if isinstance(self.l1, str) else "bic"
        stats, x_scale = self._scale(stats)
        stats = stats.ridged(self.l2)
        criterion = Criterion.named(name, stats)
        pick = None
        if self.correction == "none" or not well_posed(stats, self.rank):
            pick = pick_by(criterion) if l1 is None else pick_at(l1)
        with blas_threads(stats):
            growth = self._grow(stats, self.rank, pick)
            fit = self._finish(stats, growth, l1, criterion)
        self._store(fit, stats.reshaped(*shapes), x_scale)
        return self


class DST2RCV(_DST2RBase):
    """:class:`DST2R` with rank and penalty chosen by cross-validation.

    Every sample is read once: training statistics of a fold are sums of the other folds' statistics, and the models
    of all ranks come from one corrected run per fold.

    Parameters
    ----------
    ranks : sequence of int, default=(1, 2, 3, 4, 5)
        Candidates; those that exceed what the coefficient's shape can carry are left out.
    cv : int, splitter or iterable of splits, default=5
        As scikit-learn's; groups are given to :meth:`fit`.
    rule : {"min", "1se"}, default="min"
        The model with the least mean test loss, or the smallest one within a standard error of it.
    n_l1 : int, default=20
        Points of the path in ``l1``; the first is 0, so that 1 leaves only rank and ridge to choose.
    n_jobs : int or None, default=None
        Folds at a time, by joblib's threads.
    l2 : float or sequence of float, default=0.0
        Ridge penalty, or those to choose from.
    correction, relax, step_size, tol, max_iter, n_restarts, fit_intercept, standardize, random_state, verbose
        As for :class:`DST2R`.

    Attributes
    ----------
    best_rank_, l2_ : int, float
        The rank, less the components that the chosen penalty removed, and the ridge penalty that were chosen.
    cv_results_ : dict
        ``ranks`` (n_ranks,), ``l1`` (n_l1,), ``test_loss`` and ``n_parameters`` (n_folds, n_ranks, n_l1): half the
        mean squared error of a response and the numbers that the model needed; ``mean_test_loss`` (n_ranks, n_l1).
        All at the chosen ridge; ``l2`` and ``l2_test_loss`` hold the candidates and the least mean loss of each.
    coef_, cp_, intercept_, rank_, n_parameters_, l1_, path_, search_paths_, n_iter_, statistics_, labels_
        As for :class:`DST2R`, of the fit to all samples.
    converged_, n_samples_, loss_, null_loss_
        As for :class:`DST2R`, of the fit to all samples.

    Examples
    --------
    >>> from dst2r import DST2RCV, make_tensor_regression
    >>> data = make_tensor_regression(200, (6, 5), (4,), rank=2, noise=0.1, random_state=0)
    >>> DST2RCV(ranks=(1, 2, 3)).fit(data.X, data.Y).best_rank_
    2
    """

    def __init__(
        self,
        ranks: Sequence[int] = (1, 2, 3, 4, 5),
        *,
        cv: Any = 5,
        rule: str = "min",
        n_l1: int = N_L1,
        n_jobs: int | None = None,
        l2: float | Sequence[float] = 0.0,
        correction: str = "full",
        relax: bool = True,
        step_size: float | str = "auto",
        tol: float = 1e-5,
        max_iter: int = 100,
        n_restarts: int = 0,
        fit_intercept: bool = True,
        standardize: bool = False,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.ranks = ranks
        self.cv = cv
        self.rule = rule
        self.n_l1 = n_l1
        self.n_jobs = n_jobs
        self.l2 = l2
        self.correction = correction
        self.relax = relax
        self.step_size = step_size
        self.tol = tol
        self.max_iter = max_iter
        self.n_restarts = n_restarts
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit from arrays whose first axis is the sample.

        Parameters
        ----------
        X : array-like or Dask array of shape (n, d_1, ..., d_p)
        y : array-like or Dask array of shape (n, d_{p+1}, ..., d_{p+q})
        sample_weight : array-like of shape (n,), optional
        groups : array-like of shape (n,), optional
            For splitters that keep groups together.
        """
        self._check_parameters()
        with self._all_or_nothing():
            X, Y, weight = self._validate_training(X, y, sample_weight)
            splits = list(check_cv(self.cv).split(X, Y, groups))
            total, folds = gather_folds(X, Y, splits, weight, center=self.fit_intercept)
            return self._fit_folds(total, folds)

    def fit_statistics(self, parts: Sequence[GramStatistics]) -> Self:  # type: ignore[override]
        """Fit from the statistics of two or more parts of the data, each of which is a test fold once.

        Parameters
        ----------
        parts : sequence of GramStatistics
            For instance one per site, batch or subject group.
        """
        self._check_parameters()
        parts = list(parts)
        check_statistics(parts)
        if len(parts) < 2:
            raise ValueError(f"parts holds {len(parts)} statistics; cross-validation needs at least two.")
        folds = list(zip(leave_one_out(parts), parts, strict=True))
        return self._fit_folds(folds[0][0] + folds[0][1], folds)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_numbers("l2", np.atleast_1d(self.l2).tolist())
        check_choice("rule", self.rule, ("min", "1se"))
        check_number("n_l1", self.n_l1, low=1, integer=True)
        check_numbers("ranks", self.ranks, low=1, integer=True)

    def _fit_folds(self, total: Statistics, folds: Folds) -> Self:
        check_rank("the least of ranks", min(self.ranks), total)
        limit = max_rank(total.x_shape + total.y_shape)
        shapes, total = (total.x_shape, total.y_shape), total.squeezed()
        folds = [(train.squeezed(), test.squeezed()) for train, test in folds]
        scaled, x_scale = self._scale(total)
        if self.standardize:
            folds = [(train.scaled(x_scale), test.scaled(x_scale)) for train, test in folds]
        ranks = tuple(sorted({int(rank) for rank in self.ranks if rank <= limit}))
        ridges = [float(l2) for l2 in np.atleast_1d(self.l2)]
        from_zero = all(well_posed(train.ridged(min(ridges)), max(ranks)) for train, _ in folds)
        l1_max = max(stats.kkt_start()[0] for stats in (scaled, *(train for train, _ in folds)))
        grid = l1_grid(l1_max, self.n_l1, from_zero=from_zero)
        with blas_threads(scaled):
            surfaces = [self._surface(folds, ranks, grid, l2) for l2 in ridges]
        least = [surface.loss.mean(axis=0).min() for surface in surfaces]
        best = int(np.argmin(least))
        row, column = surfaces[best].choose(self.rule)
        rank, self.l2_, l1 = ranks[row], ridges[best], float(grid[column])
        self.cv_results_ = {
            "ranks": np.array(ranks),
            "l1": grid,
            "l2": np.array(ridges),
            "test_loss": surfaces[best].loss,
            "mean_test_loss": surfaces[best].loss.mean(axis=0),
            "n_parameters": surfaces[best].n_parameters,
            "l2_test_loss": np.array(least),
        }
        stats = scaled.ridged(self.l2_)
        criterion, pick = Criterion.named("bic", stats), None
        if self.correction == "none":
            pick = pick_at(l1)
        elif not well_posed(stats, rank):
            pick = pick_by(criterion)
        with blas_threads(stats):
            growth = self._grow(stats, rank, pick)
            fit = self._finish(stats, growth, l1, criterion)
        self._store(fit, stats.reshaped(*shapes), x_scale)
        self.best_rank_ = min(rank, self.rank_)
        return self

    def _surface(self, folds: Folds, ranks: tuple[int, ...], grid: Array, l2: float) -> CVSurface:
        """Test losses of all folds over ranks and grid."""

        def of_fold(k: int, train: Statistics, test: Statistics) -> CVSurface:
            found = fold_surface(train.ridged(l2), test, ranks, grid, relax=self.relax, recipe=self._recipe)
            self._say(f"l2 = {l2:g}, fold {k + 1} of {len(folds)}: least test loss {found.loss.min():.6g}")
            return found

        jobs = (delayed(of_fold)(k, *fold) for k, fold in enumerate(folds))
        parts = Parallel(n_jobs=self.n_jobs, prefer="threads")(jobs)
        loss, size = ([getattr(part, name) for part in parts] for name in ("loss", "n_parameters"))
        return CVSurface(ranks, grid, np.concatenate(loss), np.concatenate(size))


def component_scores(rows: NDArray[Any], *, mean: Array, scale: Array, U: Array) -> NDArray[Any]:
    """``(rows - mean) / scale @ U`` in the precision of the rows."""
    centred = (rows - mean.astype(rows.dtype)) / scale.astype(rows.dtype)
    return centred @ U.astype(rows.dtype)


def check_statistics(parts: Sequence[Any]) -> None:
    """Raise if something that should be statistics is something else, such as an array."""
    for part in parts:
        if not isinstance(part, Statistics):
            raise TypeError(
                f"fit_statistics got a {type(part).__name__}; expected statistics, as of "
                "GramStatistics.from_arrays(X, Y). Arrays are for fit."
            )


def check_rank(name: str, rank: Any, stats: Statistics) -> None:
    """Raise unless a rank is at least 1 and no larger than any tensor of the coefficient's shape needs."""
    check_number(name, rank, low=1, integer=True)
    shape = stats.x_shape + stats.y_shape
    if rank > max_rank(shape):
        raise ValueError(
            f"{name} is {rank}, but every coefficient of shape {shape} is a sum of {max_rank(shape)} "
            f"rank-one tensors: choose at most {max_rank(shape)}."
        )


def as_generator(
    random_state: int | np.random.Generator | np.random.RandomState | None,
) -> np.random.Generator:
    """Generator from any of the forms in which scikit-learn users give a seed."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)
