"""Choose what stays: joint path in l1, criteria, relaxed and stepwise refits (docs/maths.md, section 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv
from scipy.special import expit

from dst2r._kernels import eliminate, lasso_quadratic
from dst2r.correction import (
    WANTED_TOL,
    Correction,
    LocalModel,
    Mask,
    Recipe,
    grow,
    inverse,
    least_squares,
    local_model,
    penalised,
    penalty_weights,
)
from dst2r.cp import Array, CPCoefficient, free_numbers
from dst2r.search import SearchPath
from dst2r.statistics.base import Statistics

CRITERIA = ("bic", "aic", "ebic")
N_L1 = 20  # points of a path
PATH_STEPS = 4  # correction steps at a point of an exact path, which starts next to its minimum
RIDGE_CARRIES = 1e-2  # a ridge of this part of the predictors' mean variance keeps any fit bounded
L1_RANGE = 1e-4  # the path covers this fraction of the largest useful l1 up to 1


@dataclass(frozen=True, slots=True)
class Criterion:
    """``n Q log(loss) + price * free numbers + component_price * components`` (eq. 13).

    Attributes
    ----------
    n_values : float
        n Q, the number of observed response entries.
    price : float
        Of one free number.
    component_price : float
        Of the choice of a component's first entry among all P Q.
    floor : float
        Losses below it are rounding: models that interpolate are compared by their size alone.
    """

    n_values: float
    price: float
    component_price: float
    floor: float = 1e-300

    @classmethod
    def named(cls, name: str, stats: Statistics) -> Criterion:
        """The criterion "bic", "aic" or "ebic" for data of this size."""
        shape = stats.x_shape + stats.y_shape
        n, n_entries = stats.n_samples, sum(shape) - len(shape) + 1
        where = 2.0 * math.log(stats.n_x * stats.n_y)
        prices = {
            "bic": (math.log(n), where),
            "aic": (2.0, 0.0),
            "ebic": (math.log(n) + math.log(n_entries), where),
        }
        return cls(n * stats.n_y, *prices[name], max(10.0 * stats.rounding * stats.y_scale, 1e-300))

    def __call__(self, loss: float, n_parameters: int, rank: int) -> float:
        """Value for a model; infinite for one that spends more than half of the data on its numbers."""
        if not self.affords(n_parameters):
            return math.inf
        fit = self.n_values * math.log(max(loss, self.floor))
        return fit + self.price * n_parameters + self.component_price * rank

    def worth(self, loss: float) -> float:
        """By how much the loss has to fall to pay for one free number."""
        return max(loss, self.floor) * math.expm1(self.price / self.n_values)

    def affords(self, n_parameters: int) -> bool:
        """Whether the data are at least twice as many as the numbers."""
        return 2 * n_parameters <= self.n_values

    def of(self, fit: Correction) -> float:
        """Value for a corrected coefficient."""
        return self(fit.model.loss, fit.coef.n_parameters(), int(fit.coef.living().sum()))


@dataclass(frozen=True, slots=True, eq=False)
class L1Path:
    """Joint path of all components, from l1 = 0 upwards.

    Attributes
    ----------
    l1 : ndarray of shape (T,)
    loss : ndarray of shape (T,)
        After the refit without penalty on the point's support.
    n_parameters : ndarray of shape (T,)
    criterion : ndarray of shape (T,)
    coefs, relaxed : list of CPCoefficient
        Penalised, and refitted.
    chosen : int
        Where the criterion is least.
    """

    l1: Array
    loss: Array
    n_parameters: Array
    criterion: Array
    coefs: list[CPCoefficient]
    relaxed: list[CPCoefficient]

    @property
    def chosen(self) -> int:
        """Index of the point with the least criterion."""
        return int(np.argmin(self.criterion))


def l1_grid(l1_max: float, n_points: int, *, from_zero: bool = True) -> Array:
    """Geometric grid up to the l1 from which zero is the only solution; its first point is 0 if that can be fitted."""
    if from_zero:
        return np.concatenate([[0.0], l1_max * np.geomspace(L1_RANGE, 1.0, n_points - 1)])
    return l1_max * np.geomspace(L1_RANGE if n_points > 1 else 0.1, 1.0, n_points)


def local_path(model: LocalModel, grid: Array, criterion: Criterion) -> L1Path:
    """Path of the local quadratic model: the lasso path itself for one vector, first-order exact otherwise.

    One expansion serves all points, so a path costs about as much as one correction step.
    """
    entries, weights = model.coef.ravel(), penalty_weights(model.coef)
    tol = 1e-6 * max(float(entries @ model.hessian @ entries), 1e-300) / max(1, entries.size)
    refits = LocalRefits(model, np.arange(entries.size), inverse(model.hessian))
    moved = refits.on(np.ones(entries.size, dtype=bool))[0]
    slope = model.gradient + model.hessian @ (moved - entries)
    coefs, relaxed, losses, counts = [], [], [], []
    support = np.zeros(0, dtype=bool)
    for l1 in grid:
        if l1 > 0.0:
            lasso_quadratic(model.hessian, slope, moved, l1 * weights, tol, 200)
        before, count = support, model.coef.counts(moved)
        living = count.all(axis=0)  # once a factor of a component is zero, all are
        point = moved if living.all() else (moved.reshape(-1, living.size) * living).ravel()
        support = point != 0.0
        if not np.array_equal(before, support):
            refitted, loss = refits.on(support)
            refit = model.coef.with_entries(refitted)
        coefs.append(model.coef.with_entries(point))
        relaxed.append(refit)
        losses.append(loss)
        counts.append(count)
    return _path(grid, np.array(losses), coefs, relaxed, counts, criterion)


def exact_path(
    stats: Statistics,
    coef: CPCoefficient,
    start: float,
    grid: Array,
    criterion: Criterion,
    *,
    tol: float = WANTED_TOL,
    max_iter: int = PATH_STEPS,
) -> L1Path:
    """Path of the objective itself, each point from its neighbour, up and down from the l1 that ``coef`` fits."""
    coefs, relaxed, losses = [coef] * grid.size, [coef] * grid.size, np.empty(grid.size)
    upwards, downwards = np.flatnonzero(grid >= start), np.flatnonzero(grid < start)[::-1]
    for order in (upwards, downwards):
        point = coef
        support: Mask | None = None
        for t in order:
            point = penalised(stats, point, float(grid[t]), tol=tol, max_iter=max_iter).coef.alive()
            before, support = support, point.ravel() != 0.0
            if before is None or not np.array_equal(before, support):
                refit, loss = point, stats.loss(point)
                if criterion.affords(point.n_parameters()):
                    fit = least_squares(stats, point, support=support, tol=tol, max_iter=max_iter)
                    refit, loss = fit.coef, fit.model.loss
            coefs[t], relaxed[t], losses[t] = point, refit, loss
    return _path(grid, losses, coefs, relaxed, [c.counts() for c in coefs], criterion)


def joint_path(
    stats: Statistics, fit: Correction, start: float, grid: Array, criterion: Criterion, *, tested: bool = False
) -> L1Path:
    """Path by the local model where that can be trusted, else exact.

    A point can be trusted if its true loss is not worse than the model's by more than the price of one number; others
    get an infinite criterion. From max|C| on zero is the only solution (eq. 4), which a model around another fit does
    not know. If the point that the model would choose is among the others, or there was no fit without penalty to
    expand around, the path is exact. Where all points will be ``tested`` on other data, which finds the bad ones, too,
    that point alone is looked at.
    """
    if start == 0.0:
        path = _ending_at_zero(stats, local_path(fit.model, grid, criterion), criterion)
        if tested:
            true, supposed = stats.loss(path.relaxed[path.chosen]), float(path.loss[path.chosen])
            if supposed * math.exp(criterion.price / criterion.n_values) >= true:
                return path
        truth = losses_of(stats, path.relaxed, stats.x_mean, stats.y_mean)
        if truth[0] > fit.model.loss:  # the step from the fit to the model's minimum went astray
            path.coefs[0] = path.relaxed[0] = fit.coef
            truth[0] = path.loss[0] = fit.model.loss
        zero = path.n_parameters == 0  # of which the truth is known beforehand
        path.loss[zero] = truth[zero]
        floor = criterion.floor
        off = np.log(np.maximum(truth, floor) / np.maximum(path.loss, floor)) * criterion.n_values > criterion.price
        if not off[path.chosen]:
            return replace(path, loss=truth, criterion=np.where(off, math.inf, path.criterion))
    steps = PATH_STEPS if start == 0.0 else 10 * PATH_STEPS
    return exact_path(stats, fit.coef, start, grid, criterion, max_iter=steps)


def _ending_at_zero(stats: Statistics, path: L1Path, criterion: Criterion) -> L1Path:
    """With zero from ``max|C|`` on (eq. 4)."""
    loss = 0.5 * stats.y_scale
    for t in np.flatnonzero(path.l1 >= (1.0 - 1e-9) * stats.kkt_start()[0]):
        path.coefs[t] = path.relaxed[t] = CPCoefficient.empty(stats.x_shape, stats.y_shape)
        path.loss[t], path.n_parameters[t], path.criterion[t] = loss, 0, criterion(loss, 0, 0)
    return path


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The fit that was selected, at which l1, and the path that it was selected from."""

    fit: Correction
    l1: float
    path: L1Path


def select(
    stats: Statistics,
    fit: Correction,
    l1: float | None,
    criterion: Criterion,
    *,
    relax: bool,
    start: float,
    recipe: Recipe,
    stages: Sequence[tuple[CPCoefficient, float]] = (),
) -> Selection:
    """Thin out a fit that was corrected at ``start``: to a given l1, or (None) where the criterion is least.

    With the ``stages`` of its growth, fewer components are tried, too, if the criterion of the stages is least there:
    with too many, a true one may be in pieces, none of which can be spared.
    """
    tol, steps = recipe.tol, recipe.max_iter
    grid = l1_grid(stats.kkt_start()[0], N_L1, from_zero=start == 0.0)
    if l1 is not None:  # a point of its own, so that a picture of the path can show it
        grid = np.union1d(grid, [l1])
    path = joint_path(stats, fit, start, grid, criterion)
    if l1 is not None:
        fit = penalised(stats, fit.coef, l1, tol=tol, max_iter=steps)
        if relax and l1 > 0.0 and criterion.affords(fit.coef.n_parameters()):
            fit = refit_support(stats, fit.coef, fit.coef.ravel() != 0.0, tol=tol, max_iter=steps)
        return Selection(fit, l1, path)
    chosen = path.chosen
    if relax and (path.n_parameters > 0).any():  # nothing could be admitted to the zero model, but all may be dropped
        chosen = int(np.where(path.n_parameters > 0, path.criterion, math.inf).argmin())
    l1, coef, refit = float(path.l1[chosen]), path.coefs[chosen], path.relaxed[chosen]
    if not relax:
        return Selection(penalised(stats, coef, l1, tol=tol, max_iter=steps), l1, path)
    fit = refit_support(stats, refit, coef.ravel() != 0.0, tol=WANTED_TOL, max_iter=steps)
    fit = stepwise(stats, fit, criterion, tol=WANTED_TOL, max_iter=steps)
    fit = least_squares(stats, fit.model, support=fit.coef.ravel() != 0.0, tol=tol, max_iter=steps)
    selection = Selection(averaged(stats, fit, criterion), l1, path)
    values = [criterion(loss, stage.n_parameters(), stage.rank) for stage, loss in stages]
    if start > 0.0 or not values or (least := int(np.argmin(values))) == len(values) - 1:
        return selection
    smaller = least_squares(stats, stages[least][0], tol=WANTED_TOL, max_iter=steps)
    rival = select(stats, smaller, None, criterion, relax=relax, start=start, recipe=recipe)
    return min(selection, rival, key=lambda found: criterion.of(found.fit))


def averaged(stats: Statistics, fit: Correction, criterion: Criterion) -> Correction:
    """Average a refit with the models that lack one of its entries, weighted by the criterion (eq. 14).

    An entry whose absence the criterion hardly minds is shrunk towards zero, all others keep their values: where the
    support is in doubt, that has less error than to trust it or not to.
    """
    model, entries = fit.model, fit.coef.ravel()
    alive = np.flatnonzero(entries)
    if alive.size == 0:
        return fit
    covariance = model.covariance
    variance = covariance.diagonal()
    loss_rise = entries[alive] ** 2 / (2.0 * variance)
    rise = criterion.n_values * np.log1p(loss_rise / max(model.loss, criterion.floor)) - criterion.price
    absent = expit(-0.5 * rise)
    entries[alive] -= covariance @ (absent * entries[alive] / variance)
    return replace(fit, model=local_model(stats, fit.coef.with_entries(entries)))


def stepwise(
    stats: Statistics, fit: Correction, criterion: Criterion, *, tol: float, max_iter: int, rounds: int = 10
) -> Correction:
    """Drop and admit entries and components while that lowers the criterion; every step is a full refit.

    The local model proposes, the criterion of the refit decides. Proposals that turn out worse than the model promised
    by more than the price of one number are halved, and the best of those tried is taken if it pays at all.
    """
    fit = _compact(stats, fit)
    value = criterion.of(fit)
    for _ in range(rounds):
        before = value
        for propose in (_prune, _drop_component, _admit):
            best, least = fit, value
            for coef, support, promise in propose(stats, fit, criterion):
                trial = refit_support(stats, coef, support, tol=tol, max_iter=max_iter)
                trial_value = criterion.of(trial)
                if trial_value < least:
                    best, least = trial, trial_value
                    if trial_value <= promise + criterion.price:
                        break
            fit, value = best, least
        if value == before:
            break
    return fit


@dataclass(frozen=True, slots=True, eq=False)
class CVSurface:
    """Test losses over folds, rank and l1.

    Attributes
    ----------
    ranks : tuple of int
    l1 : ndarray of shape (T,)
    loss : ndarray of shape (n_folds, n_ranks, T)
        Half the mean squared error of a response, summed over its entries.
    n_parameters : ndarray of shape (n_folds, n_ranks, T)
    """

    ranks: tuple[int, ...]
    l1: Array
    loss: Array
    n_parameters: Array

    def least(self) -> tuple[int, int]:
        """Row and column of the least mean loss."""
        mean = self.loss.mean(axis=0)
        row, column = divmod(int(np.argmin(mean)), mean.shape[1])
        return row, column

    def standard_error(self) -> Array:
        """Of every model's excess over the least mean loss, shape (n_ranks, T); NaN with one fold.

        It is that of the difference to the best model over folds, since folds differ in difficulty for all models
        alike, but at most that of the best model's own loss: one fold on which a model fails would make its difference
        look uncertain, not large.
        """
        best, usable = self.loss[:, *self.least()], np.isfinite(self.loss.mean(axis=0))
        error = np.full(usable.shape, math.nan)
        if best.size > 1:
            spread = (self.loss[:, usable] - best[:, None]).std(axis=0, ddof=1)
            error[usable] = np.minimum(spread, best.std(ddof=1)) / math.sqrt(best.size)
        return error

    def choose(self, rule: str) -> tuple[int, int]:
        """Row and column of the least mean loss, or of the smallest model within one standard error of it."""
        row, column = self.least()
        if rule == "1se" and self.loss.shape[0] > 1:
            mean = self.loss.mean(axis=0)
            # A difference that one fold alone makes is as large as its error, and no evidence: it must not be a tie.
            close = mean - mean[row, column] <= 1.05 * self.standard_error()
            size = np.where(close, self.n_parameters.mean(axis=0), math.inf)
            row, column = divmod(int(np.argmin(size)), size.shape[1])
        return row, column


def fold_surface(
    train: Statistics,
    test: Statistics,
    ranks: tuple[int, ...],
    grid: Array,
    *,
    relax: bool,
    recipe: Recipe,
) -> CVSurface:
    """Losses on one test fold of the models that the training statistics give, all ranks from one run."""
    loss, size = np.empty((1, len(ranks), grid.size)), np.empty((1, len(ranks), grid.size))
    by_rank = _paths_by_l1 if recipe.correction == "none" else _paths_by_rank
    for row, (coefs, sizes, usable) in enumerate(by_rank(train, ranks, grid, relax, recipe)):
        loss[0, row] = np.where(usable, losses_of(test, coefs, train.x_mean, train.y_mean), math.inf)
        size[0, row] = sizes
    return CVSurface(ranks, grid, loss, size)


def losses_of(stats: Statistics, coefs: Sequence[CPCoefficient], x_mean: Array, y_mean: Array) -> Array:
    """:meth:`Statistics.prediction_losses` of coefficients of which neighbours may be one and the same."""
    different = {id(coef): coef for coef in coefs}
    losses = dict(zip(different, stats.prediction_losses(list(different.values()), x_mean, y_mean), strict=True))
    return np.array([losses[id(coef)] for coef in coefs])


Candidates = tuple[list[CPCoefficient], Array, Mask]  # along the path in l1, their numbers, and which may be chosen


def _paths_by_rank(
    stats: Statistics, ranks: tuple[int, ...], grid: Array, relax: bool, recipe: Recipe
) -> Iterator[Candidates]:
    """Joint path of each rank's corrected model."""
    criterion = Criterion.named("bic", stats)
    pick = None if well_posed(stats, max(ranks)) else pick_by(criterion)
    growth = grow(stats, max(ranks), recipe, pick=pick, wanted=ranks)
    for rank in ranks:
        if not growth.fits:
            zero = CPCoefficient.empty(stats.x_shape, stats.y_shape)
            yield [zero] * grid.size, np.zeros(grid.size), np.ones(grid.size, dtype=bool)
            continue
        last = growth.up_to(rank)
        path = joint_path(stats, growth.fits[last], growth.l1[last], grid, criterion, tested=True)
        yield (path.relaxed if relax else path.coefs), path.n_parameters, np.isfinite(path.criterion)


def _paths_by_l1(
    stats: Statistics, ranks: tuple[int, ...], grid: Array, relax: bool, recipe: Recipe
) -> Iterator[Candidates]:
    """The paper's components, all stopped at one l1, for each l1 in turn."""
    zero = CPCoefficient.empty(stats.x_shape, stats.y_shape)
    runs = [grow(stats, max(ranks), recipe, pick=pick_at(l1), relax=relax, wanted=ranks) for l1 in grid]
    for rank in ranks:
        coefs = [run.fits[run.up_to(rank)].coef if run.fits else zero for run in runs]
        yield coefs, np.array([float(c.n_parameters()) for c in coefs]), np.ones(grid.size, dtype=bool)


def pick_at(l1: float) -> Callable[[SearchPath], int]:
    """Picker of the last point of a search path whose penalty is at least ``l1``."""
    return lambda path: max(int(np.count_nonzero(path.l1 >= l1)) - 1, 0)


def pick_by(criterion: Criterion) -> Callable[[SearchPath], int]:
    """Picker of the point of a search path where the criterion is least."""

    def pick(path: SearchPath) -> int:
        sizes = path.n_parameters()
        return int(np.argmin([criterion(loss, int(k), 1) for loss, k in zip(path.loss, sizes, strict=True)]))

    return pick


def well_posed(stats: Statistics, rank: int) -> bool:
    """Whether the data can carry a fit without l1.

    By a ridge, or if samples are twice the numbers in the widest mode and response entries four times those in all.
    """
    if stats.ridge > RIDGE_CARRIES * float(stats.x_square().mean()):
        return True
    widest = max(stats.x_shape) * rank
    n_numbers = rank * (sum(stats.x_shape) + sum(stats.y_shape))
    return stats.n_samples >= 2 * widest and stats.n_samples * stats.n_y >= 4 * n_numbers


Proposal = tuple[CPCoefficient, Mask, float]  # where to start, what may differ from zero, the criterion to expect


def _prune(stats: Statistics, fit: Correction, criterion: Criterion) -> Iterator[Proposal]:
    """Zero the entries that the local model would sell at the criterion's price; then half as many, and so on."""
    del stats
    model, entries = fit.model, fit.coef.ravel()
    alive = np.flatnonzero(entries)
    if alive.size == 0:
        return
    refits = LocalRefits(model, alive, model.covariance)
    minimum = entries[alive] - model.covariance @ model.gradient[alive]
    order = eliminate(model.covariance.copy(), minimum, 2.0 * criterion.worth(model.loss))
    while order.size:
        support = entries != 0.0
        support[alive[order]] = False
        mask = fit.coef.with_entries(support.astype(float))
        loss = refits.on(support)[1]
        yield fit.coef, support, criterion(loss, mask.n_parameters(), int(mask.living().sum()))
        order = order[: order.size // 2]


def _admit(stats: Statistics, fit: Correction, criterion: Criterion) -> Iterator[Proposal]:
    """Free the zero entries whose score is worth the criterion's price."""
    del stats
    model, entries = fit.model, fit.coef.ravel()
    alive, dead = np.flatnonzero(entries), np.flatnonzero(entries == 0.0)
    if alive.size == 0 or dead.size == 0:
        return
    across = model.hessian[np.ix_(alive, dead)]
    curvature = model.hessian[dead, dead] - np.einsum("ad,ad->d", across, model.covariance @ across)
    gain = model.gradient[dead] ** 2 / np.maximum(curvature, 1e-9 * model.hessian[dead, dead].max())
    worth = dead[gain > 2.0 * criterion.worth(model.loss)]
    worth = worth[np.argsort(-gain[np.isin(dead, worth)])]
    while worth.size:
        support = entries != 0.0
        support[worth] = True
        yield fit.coef, support, math.inf
        worth = worth[: worth.size // 2]


def _drop_component(stats: Statistics, fit: Correction, criterion: Criterion) -> Iterator[Proposal]:
    """Leave out the component whose loss weighs least against its price."""
    coef = fit.coef
    if coef.rank == 0:
        return
    U, V = coef.x_side(), coef.y_side()
    u_gram_u = stats.moments(U, [coef.rank])[0][0]
    rise = 0.5 * u_gram_u.diagonal() * np.einsum("qr,qr->r", V, V)
    sizes = np.array([coef.take([r]).n_parameters() for r in range(coef.rank)])
    price = criterion.price * sizes + criterion.component_price
    balance = criterion.n_values * np.log1p(rise / max(fit.model.loss, criterion.floor)) - price
    weakest = int(balance.argmin())
    if balance[weakest] < 0.0:
        rest = coef.take([r for r in range(coef.rank) if r != weakest])
        yield rest, rest.ravel() != 0.0, math.inf


def refit_support(stats: Statistics, coef: CPCoefficient, support: Mask, *, tol: float, max_iter: int) -> Correction:
    """Least squares on a support; components with an empty factor disappear."""
    start = coef.with_entries(np.where(support, coef.ravel(), 0.0))
    mask = coef.with_entries(support.astype(float))
    living = np.flatnonzero(mask.living())
    start, free = start.take(living), mask.take(living).ravel() > 0
    return least_squares(stats, start, support=free, tol=tol, max_iter=max_iter)


def _compact(stats: Statistics, fit: Correction) -> Correction:
    """Without zero components, so that every component has a direction to move in."""
    if fit.coef.living().all():
        return fit
    return least_squares(stats, fit.coef.alive(), support=fit.coef.alive().ravel() != 0.0)


class LocalRefits:
    """Minima of a local model over supports that shrink: each is made of the one before.

    Entries D leave at the cost of ``θ_D' (Σ_DD)^-1 θ_D / 2``, and the others take over what they can; Σ is the inverse
    Gauss-Newton matrix of the entries that are left.
    """

    def __init__(self, model: LocalModel, alive: NDArray[np.intp], covariance: Array) -> None:
        entries, slope = model.coef.ravel(), model.gradient[alive]
        move = covariance @ slope
        self._size = entries.size
        self._all = alive, covariance, entries[alive] - move, model.loss - 0.5 * float(slope @ move)
        self._now = self._all

    def on(self, support: Mask) -> tuple[Array, float]:
        """Entries of the minimum over a support, and its loss."""
        if np.count_nonzero(support[self._now[0]]) < np.count_nonzero(support):
            self._now = self._all  # an entry came back
        alive, covariance, theta, loss = self._now
        stay, leave = np.flatnonzero(support[alive]), np.flatnonzero(~support[alive])
        if leave.size:
            rows = covariance.take(leave, axis=0)
            link = rows.take(stay, axis=1)
            taken = _solve(rows[:, leave], np.column_stack([link, theta[leave]]))
            loss += 0.5 * float(theta[leave] @ taken[:, -1])
            theta = theta[stay] - link.T @ taken[:, -1]
            covariance = covariance.take(stay, axis=0).take(stay, axis=1)
            covariance -= link.T @ taken[:, :-1]
            self._now = alive[stay], covariance, theta, loss
        refit = np.zeros(self._size)
        refit[support] = theta
        return refit, loss


def _path(
    grid: Array,
    losses: Array,
    coefs: list[CPCoefficient],
    relaxed: list[CPCoefficient],
    counts: list[NDArray[np.intp]],
    criterion: Criterion,
) -> L1Path:
    sizes, ranks = [free_numbers(c) for c in counts], [int(c.all(axis=0).sum()) for c in counts]
    values = [criterion(loss, k, r) for loss, k, r in zip(losses, sizes, ranks, strict=True)]
    return L1Path(np.asarray(grid), losses, np.array(sizes, dtype=float), np.array(values), coefs, relaxed)


def _solve(hessian: Array, right: Array) -> Array:
    _, solution, failed = dposv(hessian.T, right)  # transposed: LAPACK wants columns, and the matrix is symmetric
    return np.asarray(np.linalg.lstsq(hessian, right)[0]) if failed else np.asarray(solution)
