"""Correct all components together: damped Gauss-Newton on all factor entries (docs/maths.md, section 4).

Block coordinate descent over modes, the textbook alternative, needs many sweeps where components overlap and can
stall ("swamps"); Gauss-Newton sees how modes and components trade off and needs a handful of steps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv, dpotrf, dpotri

from dst2r._kernels import lasso_quadratic
from dst2r.cp import Array, CPCoefficient, contract_all_but_one
from dst2r.search import SearchPath, search
from dst2r.statistics.base import Statistics

STAGE_TOL, STAGE_STEPS = 1e-2, 10  # between components only the residual matters, not its last digit
WEAK_STARTS = 8  # of a component that noise could have led
WANTED_TOL = 1e-2  # models to compare or to select from; what is selected is corrected to the end

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LocalModel:
    """Loss of a coefficient with its gradient and Gauss-Newton matrix in all factor entries (eqs. 9-11).

    Attributes
    ----------
    coef : CPCoefficient
        Balanced: all modes of a component have one norm.
    loss : float
    gradient : ndarray of shape (N,)
        Laid out as ``coef.ravel()``.
    hessian : ndarray of shape (N, N)
        Positive semidefinite; curved, too, along exchanges of scale between modes, which leave the loss alone.
    """

    coef: CPCoefficient
    loss: float
    gradient: Array
    hessian: Array

    @cached_property
    def covariance(self) -> Array:
        """Inverse of the Gauss-Newton matrix over the entries that are not zero."""
        alive = np.flatnonzero(self.coef.ravel())
        return inverse(self.hessian[np.ix_(alive, alive)])


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """Where a correction ended: the model there, the steps taken and whether it is certified stationary."""

    model: LocalModel
    n_iter: int
    converged: bool

    @property
    def coef(self) -> CPCoefficient:
        """The corrected coefficient."""
        return self.model.coef


@dataclass(frozen=True, slots=True)
class Recipe:
    """How components are found and corrected.

    Attributes
    ----------
    correction : {"full", "final", "none"}
        Correct all components after each new one, once at the end, or never (the paper).
    step_size : float or "auto"
        Of the search.
    tol : float
        Relative accuracy of search and correction.
    max_iter : int
        Most correction steps at a time.
    """

    correction: str = "full"
    step_size: float | str = "auto"
    tol: float = 1e-5
    max_iter: int = 100


@dataclass(slots=True, eq=False)
class Growth:
    """Models of several ranks from one run.

    Attributes
    ----------
    fits : list of Correction
        Of the ranks that are wanted, and of the last.
    ranks : list of int
        Number of components that had been searched for each of the fits.
    l1 : list of float
        That each of the fits was corrected at.
    paths : list of SearchPath
        Of all components.
    stages : list of (CPCoefficient, float)
        The coefficient and its loss after each component, as far as it was corrected then.
    n_iter : int
        Correction steps in all.
    """

    fits: list[Correction]
    ranks: list[int]
    l1: list[float]
    paths: list[SearchPath]
    stages: list[tuple[CPCoefficient, float]]
    n_iter: int

    def add(self, stats: Statistics, coef: CPCoefficient, l1: float, recipe: Recipe) -> Correction:
        """Correct a coefficient, unless the paper is to be followed to the letter, and keep it."""
        if recipe.correction == "none":
            fit = Correction(local_model(stats, coef), 0, True)
        else:
            # Without penalty, the last step is the first of the path that comes next (selection.local_path).
            fit = penalised(stats, coef, l1, tol=WANTED_TOL, max_iter=recipe.max_iter, last_step=l1 > 0.0)
        self.fits.append(fit)
        self.ranks.append(len(self.paths))
        self.l1.append(l1)
        self.n_iter += fit.n_iter
        return fit

    def up_to(self, rank: int) -> int:
        """Place of the fit with the most components up to a rank that is wanted."""
        return bisect_right(self.ranks, rank) - 1


def grow(
    stats: Statistics,
    rank: int,
    recipe: Recipe,
    *,
    pick: Callable[[SearchPath], int] | None = None,
    relax: bool = False,
    wanted: Collection[int] = (),
    on_component: Callable[[int, float], None] | None = None,
) -> Growth:
    """Add components one by one: search the residual, take a point of the path, correct.

    Parameters
    ----------
    stats : Statistics
    rank : int
        Fewer components come back when the residual is exhausted.
    recipe : Recipe
    pick : callable, optional
        Chooses the point of a search path; the components are then corrected at that point's penalty. Without it
        the end of the path is taken and corrected without penalty.
    relax : bool
        With ``correction="none"``: refit each component without penalty on its support before the next search.
    wanted : collection of int
        Lower ranks whose models are wanted, too; the others are only steps on the way.
    on_component : callable, optional
        Told the number of components and the loss after each one.
    """
    growth = Growth([], [], [], [], [], 0)
    n_starts = 1 if recipe.correction == "none" else WEAK_STARTS  # the paper knows one
    coef, l1, loss = CPCoefficient.empty(stats.x_shape, stats.y_shape), np.inf, 0.5 * stats.y_scale
    for r in range(1, rank + 1):
        residual = stats.residual(coef) if r > 1 else stats
        if residual.y_scale <= stats.rounding * stats.y_scale:  # nothing else is left
            break
        path = search(residual, step_size=recipe.step_size, tol=recipe.tol, n_starts=n_starts)
        if len(path) == 0:
            break
        point = len(path) - 1 if pick is None else pick(path)
        part = path.coefficient(point)
        l1 = 0.0 if pick is None else min(l1, max(float(path.l1[point]), 0.0))
        if recipe.correction == "none" and relax:
            part = least_squares(
                residual, part, support=part.ravel() != 0.0, tol=recipe.tol, max_iter=recipe.max_iter
            ).coef
        coef, loss = coef.append(part), float(path.loss[point])
        growth.paths.append(path)
        if r in wanted or r == rank:
            fit = growth.add(stats, coef, l1, recipe)
            loss = fit.model.loss
            if recipe.correction == "full":
                coef = fit.coef.alive()
        elif recipe.correction == "full":
            coef, loss = _settled(stats, coef, l1, growth)
            coef = coef.alive()
        growth.stages.append((coef, loss))
        if on_component is not None:
            on_component(r, loss)
    if growth.paths and len(growth.paths) not in growth.ranks:  # exhausted before the rank that was asked for
        growth.add(stats, coef, l1, recipe)
    return growth


def _settled(stats: Statistics, coef: CPCoefficient, l1: float, growth: Growth) -> tuple[CPCoefficient, float]:
    """Corrected as far as the next search needs: by one step, if that lowers the loss about as much as it promised."""
    model = local_model(stats, coef)
    if l1 == 0.0:
        step, promise = _newton_step(
            _with_longer_diagonal(model.hessian, 1e-3 * model.hessian.diagonal()), model.gradient
        )
        trial = model.coef.with_entries(model.coef.ravel() + step)
        loss = stats.loss(trial)
        if model.loss - loss >= 0.5 * promise:
            growth.n_iter += 1
            return trial, loss
    fit = penalised(stats, model, l1, tol=STAGE_TOL, max_iter=STAGE_STEPS)
    growth.n_iter += fit.n_iter
    return fit.coef, fit.model.loss


def restart(
    stats: Statistics, best: Correction, n_restarts: int, rng: np.random.Generator, recipe: Recipe
) -> Correction:
    """Correct from random coefficients, too, and keep the fit with the least loss."""
    shapes = [f.shape for f in best.coef.factors]
    for _ in range(n_restarts):
        start = CPCoefficient(tuple(rng.normal(size=shape) for shape in shapes), best.coef.n_x_modes)
        U, V = start.x_side(), start.y_side()
        ((u_gram_u, u_cross),) = stats.moments(U, [start.rank])
        fit = float(np.sum(u_gram_u * (V.T @ V)))
        scale = float(np.sum(u_cross * V.T)) / fit if fit > 0 else 1.0  # the best multiple of the start
        start = CPCoefficient((scale * start.factors[0], *start.factors[1:]), start.n_x_modes)
        trial = least_squares(stats, start, tol=recipe.tol, max_iter=recipe.max_iter)
        if trial.model.loss < best.model.loss:
            best = trial
    return best


def local_model(stats: Statistics, coef: CPCoefficient) -> LocalModel:
    """Expand the loss around a coefficient; the only thing that correction asks of the data."""
    if coef.rank == 0:
        return LocalModel(coef, 0.5 * stats.y_scale, np.zeros(0), np.zeros((0, 0)))
    coef = coef.balanced()
    R, V = coef.rank, coef.y_side()
    x_gram, x_cross = stats.tangent(coef)  # T'GT and T'C, rows (mode, entry, component)
    y_tangent = _response_tangent(coef)  # (N_y, Q)
    n_x, n_y, first = x_gram.shape[0], y_tangent.shape[0], coef.factors[0]
    head = first.size
    # u_r = sum_i first[i, r] t_(1,i,r): contract the first mode's columns to reach u itself
    x_gram_u = np.einsum("nir,ir->nr", x_gram[:, :head].reshape(n_x, -1, R), first)  # T'GU
    u_gram_u = np.einsum("irs,ir->rs", x_gram_u[:head].reshape(-1, R, R), first)  # U'GU
    u_cross = np.einsum("irq,ir->rq", x_cross[:head].reshape(-1, R, stats.n_y), first)  # U'C
    v_v = V.T @ V
    loss = 0.5 * (stats.y_scale + float(np.sum(u_gram_u * v_v))) - float(np.sum(u_cross * V.T))

    x_part, y_part = np.arange(n_x) % R, np.arange(n_y) % R  # the component of every row
    gradient = np.concatenate(
        [
            np.einsum("ns,ns->n", x_gram_u, v_v[x_part]) - np.einsum("nq,nq->n", x_cross, V.T[x_part]),
            np.einsum("nq,nq->n", (u_gram_u @ V.T - u_cross)[y_part], y_tangent),
        ]
    )
    hessian = np.empty((n_x + n_y, n_x + n_y))  # eq. 11, block by block
    hessian[:n_x, :n_x] = x_gram
    hessian[:n_x, :n_x].reshape(-1, R, n_x // R, R)[...] *= v_v[:, None, :]  # in place: the reshaped block is a view
    if n_y:
        hessian[:n_x, n_x:] = x_gram_u[:, y_part] * (V.T @ y_tangent.T)[x_part]
        hessian[n_x:, :n_x] = hessian[:n_x, n_x:].T
        hessian[n_x:, n_x:] = np.tile(u_gram_u, (n_y // R, n_y // R)) * (y_tangent @ y_tangent.T)
    _curve_scale_exchanges(hessian, coef)
    return LocalModel(coef, loss, gradient, hessian)


def least_squares(
    stats: Statistics,
    start: CPCoefficient | LocalModel,
    *,
    support: Mask | None = None,
    tol: float = 1e-5,
    max_iter: int = 100,
) -> Correction:
    """Minimise the loss over all factor entries, or over those of a support, from a coefficient or what is known of it.

    Levenberg-Marquardt. Certified when the fall that the local model promises is at most ``tol**2`` of the loss.

    Parameters
    ----------
    support : ndarray of bool of shape (N,), optional
        Entries that may differ from zero, laid out as ``coef.ravel()``.
    """
    return _descend(stats, start, 0.0, support, tol, max_iter, True)


def penalised(
    stats: Statistics,
    start: CPCoefficient | LocalModel,
    l1: float,
    *,
    tol: float = 1e-5,
    max_iter: int = 100,
    last_step: bool = True,
) -> Correction:
    """Minimise ``loss + l1 sum_r ||B_r||_1`` (eq. 1) by proximal Gauss-Newton steps.

    Without the ``last_step`` it ends where one is known to gain no more than ``tol`` allows, and does not make it.
    """
    return _descend(stats, start, l1, None, tol, max_iter, last_step)


def penalty_weights(coef: CPCoefficient) -> Array:
    """What an entry of absolute value one adds to ``sum_r ||B_r||_1``, laid out as ``coef.ravel()`` (eq. 12)."""
    norms = [np.abs(f).sum(axis=0) for f in coef.factors]
    others = [np.prod(norms[:k] + norms[k + 1 :], axis=0, initial=1.0) for k in range(len(norms))]
    return np.concatenate([np.tile(o, f.shape[0]) for o, f in zip(others, coef.factors, strict=True)])


def _descend(
    stats: Statistics,
    start: CPCoefficient | LocalModel,
    l1: float,
    support: Mask | None,
    tol: float,
    max_iter: int,
    last_step: bool,
) -> Correction:
    """Damped steps on local models; the objective never rises."""
    model = start if isinstance(start, LocalModel) else local_model(stats, start)
    if model.coef.rank == 0:
        return Correction(model, 0, True)
    free = slice(None) if support is None else np.flatnonzero(support)
    value = model.loss + l1 * float(model.coef.l1_norms().sum())
    damping, raise_by = 1e-3, 2.0  # mu of the page, and by what a failure multiplies it (Nielsen's rule)
    for n_iter in range(1, max_iter + 1):
        entries = model.coef.ravel()
        gradient = model.gradient[free]
        hessian = model.hessian[free][:, free]
        diagonal = hessian.diagonal()
        damped = _with_longer_diagonal(hessian, damping * np.maximum(diagonal, 1e-12 * diagonal.max(initial=1e-300)))
        if l1 == 0.0:
            step, promise = _newton_step(damped, gradient)
        else:
            weights = l1 * penalty_weights(model.coef)[free]
            accuracy = tol * tol * max(model.loss, 1e-14 * stats.y_scale) / gradient.size
            step, promise = _lasso_step(damped, gradient, entries[free], weights, accuracy)
        light = damping <= 1e-2  # where damping is heavy, small promises are its work
        certified = light and promise <= tol * tol * model.loss
        if certified and not last_step:
            return Correction(_without_idle(stats, model, l1), n_iter, True)
        trial_entries = entries.copy()
        trial_entries[free] += step
        trial = local_model(stats, model.coef.with_entries(trial_entries))
        trial_value = trial.loss + l1 * float(trial.coef.l1_norms().sum())
        fall = value - trial_value
        # There rounding hides falls, and the last, quadratically convergent step is taken on trust.
        below_rounding = light and promise <= stats.rounding * stats.y_scale
        if fall >= 0.0 or below_rounding:
            ratio = min(fall / max(promise, 1e-300), 2.0)
            damping = max(damping * max(0.1, 1.0 - (2.0 * ratio - 1.0) ** 3), 1e-12)
            raise_by = 2.0
            model, value = trial, trial_value
        else:
            damping, raise_by = damping * raise_by, raise_by * 2.0
        if certified or below_rounding:
            return Correction(_without_idle(stats, model, l1), n_iter, True)
    return Correction(_without_idle(stats, model, l1), max_iter, False)


def _without_idle(stats: Statistics, model: LocalModel, l1: float) -> LocalModel:
    """Set vanishing components to zero if the objective is no better with them: shrinking alone never ends there."""
    sizes = model.coef.l1_norms()
    busy = sizes > 1e-3 * sizes.sum()
    if l1 == 0.0 or busy.all():
        return model
    rest = local_model(stats, CPCoefficient(tuple(f * busy for f in model.coef.factors), model.coef.n_x_modes))
    return rest if rest.loss + l1 * sizes[busy].sum() <= model.loss + l1 * sizes.sum() else model


def _with_longer_diagonal(hessian: Array, added: Array) -> Array:
    longer = hessian.copy()
    longer.flat[:: len(longer) + 1] += added
    return longer


def _newton_step(hessian: Array, gradient: Array) -> tuple[Array, float]:
    """Minimise a quadratic model; return the step and the fall that it promises."""
    _, step, failed = dposv(hessian.T, -gradient)  # transposed: LAPACK wants columns, and the matrix is symmetric
    if failed:  # semidefinite up to rounding: a longer diagonal is always enough
        step = np.linalg.solve(hessian + 1e-8 * hessian.diagonal().max() * np.eye(gradient.size), -gradient)
    return step, -0.5 * float(gradient @ step)


def _lasso_step(
    hessian: Array, gradient: Array, entries: Array, weights: Array, accuracy: float
) -> tuple[Array, float]:
    """Minimise a quadratic model plus ``weights @ |entries|``; return the step and the fall that it promises."""
    moved, slope = entries.copy(), gradient.copy()
    lasso_quadratic(hessian, slope, moved, weights, accuracy, 1000)
    step = moved - entries
    quadratic = 0.5 * float((gradient + slope) @ step)
    return step, -quadratic - float(weights @ (np.abs(moved) - np.abs(entries)))


def inverse(hessian: Array) -> Array:
    """Inverse of a positive semidefinite matrix, with a short ridge where it is singular."""
    ridged = hessian.copy()
    ridged.flat[:: len(ridged) + 1] += 1e-10 * float(hessian.diagonal().max())
    root, failed = dpotrf(ridged.T, lower=1, overwrite_a=1)  # transposed: LAPACK wants columns
    if failed:
        return np.asarray(np.linalg.pinv(hessian, hermitian=True))
    inverse, _ = dpotri(root, lower=1, overwrite_c=1)
    return np.asarray(np.tril(inverse) + np.tril(inverse, -1).T)


def _response_tangent(coef: CPCoefficient) -> Array:
    """Rows (mode, entry, component): the component's response part with one factor replaced by a unit vector."""
    if not coef.y_factors:
        return np.zeros((0, 1))
    n_y = int(np.prod([f.shape[0] for f in coef.y_factors]))
    return contract_all_but_one(np.eye(n_y), coef.y_factors)


def _curve_scale_exchanges(hessian: Array, coef: CPCoefficient) -> None:
    """Add curvature along directions that move scale from one mode of a component to another, in place.

    The loss does not change along them, so neither do minimisers; without it no entry's variance would exist.
    """
    sizes, R = [f.shape[0] for f in coef.factors], coef.rank
    # Directions sum_k c_k u_k with sum c = 0, u_k of unit norm, are spanned by all modes alike: their projector.
    pattern = np.eye(len(sizes)) - 1.0 / len(sizes)
    signs = np.repeat(np.repeat(pattern, sizes, axis=0), sizes, axis=1)
    norms = [np.sqrt(np.einsum("ir,ir->r", f, f)) for f in coef.factors]
    units = np.concatenate([f / np.where(n > 0, n, 1.0) for f, n in zip(coef.factors, norms, strict=True)])
    # Stiffer, coordinate descent would crawl; softer, exchanges would add to the variance of every entry.
    strength = 20.0 * float(hessian.diagonal().mean())
    blocks = hessian.reshape(sum(sizes), R, sum(sizes), R)
    for r in range(R):
        blocks[:, r, :, r] += strength * signs * np.outer(units[:, r], units[:, r])
