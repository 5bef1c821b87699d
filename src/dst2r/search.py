"""The paper's search for one component: contract and generate in turn (docs/maths.md, section 3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dst2r._kernels import Component, Problem, Scratch, stagewise, start_component
from dst2r.cp import Array, CPCoefficient, contract_all_but_one, khatri_rao
from dst2r.statistics import GramStatistics, Statistics

AUTO_STEP = 0.05  # step relative to the component's weight: finer steps cost time and end at the same optimum
MAX_STEPS = 20_000
WORKING_SET = 1024  # predictor entries among which a search goes on where G is out of reach
ROUNDS = 3  # searches of a component at most, each with a better working set
WIDE_STARTS = 16  # entries of C from which a working set is looked for
START_SWEEPS = 3
WEAK = 4.0  # gains beyond BIC's price of so many times all entries leave no doubt where a component lies
CANDIDATES = 512  # entries of C among which other starts are looked for
CHECK_AT = 0.1  # of the largest l1: where slices outside of the working set are tested


@dataclass(frozen=True, slots=True, eq=False)
class SearchPath:
    """One component along its path, from its first entry to the end.

    Attributes
    ----------
    l1 : ndarray of shape (T,)
        The penalty of every point; never rises.
    weight : ndarray of shape (T,)
        ``||B||_1``.
    loss : ndarray of shape (T,)
    factors : ndarray of shape (T, sum d_k)
        Factors of unit l1 norm, one mode after the other.
    x_shape, y_shape : tuple of int
    """

    l1: Array
    weight: Array
    loss: Array
    factors: Array
    x_shape: tuple[int, ...]
    y_shape: tuple[int, ...]

    def __len__(self) -> int:
        return self.l1.size

    def coefficient(self, t: int) -> CPCoefficient:
        """The component at point ``t``."""
        shape = self.x_shape + self.y_shape
        columns = np.split(self.factors[t], np.cumsum(shape)[:-1])
        scale = self.weight[t] ** (1 / len(shape))
        return CPCoefficient(tuple(scale * c[:, None] for c in columns), len(self.x_shape))

    def embedded(self, slices: Sequence[NDArray[np.intp]], x_shape: tuple[int, ...]) -> SearchPath:
        """The same path among all slices of the predictor modes, of which it has seen some."""
        ends = np.cumsum([0, *x_shape])
        places = np.concatenate([start + s for start, s in zip(ends, slices, strict=False)])
        factors = np.zeros((len(self), ends[-1] + sum(self.y_shape)))
        factors[:, places] = self.factors[:, : places.size]
        factors[:, ends[-1] :] = self.factors[:, places.size :]
        return replace(self, factors=factors, x_shape=x_shape)

    def n_parameters(self) -> NDArray[np.intp]:
        """Free numbers at every point: non-zero entries less the scales that the modes share."""
        return np.count_nonzero(self.factors, axis=1) - (len(self.x_shape) + len(self.y_shape) - 1)


def search(
    stats: Statistics,
    *,
    step_size: float | str = "auto",
    tol: float = 1e-5,
    l1_end: float = 0.0,
    max_steps: int = MAX_STEPS,
    n_starts: int = 1,
) -> SearchPath:
    """Follow one component from zero until no step lowers the loss.

    Where the Gram matrix is out of reach, on a working set: slices of the predictor modes outside of it are never
    entered (docs/maths.md, section 3).

    Parameters
    ----------
    stats : Statistics
        Of the residual that the component is to explain.
    step_size : float or "auto"
        The paper's epsilon, in units of ``||B||_1``; "auto" keeps it at 2.5 to 5 % of the weight, so that units of
        X and Y do not matter.
    tol : float
        A move back must lower the penalised loss by more than ``tol`` times the penalty of a step (the paper's gamma).
    l1_end : float
        Where to stop.
    n_starts : int
        Where a component gains hardly more than noise would, its first entry is in doubt, too: so many of the largest
        entries of C, in different places, are tried, and the path with the least loss at its end is returned.
    """
    follow = partial(_follow, step_size=step_size, tol=tol, l1_end=l1_end, max_steps=max_steps)
    if isinstance(stats, GramStatistics):
        return _from_best_start(stats, follow, n_starts)
    if stats.n_x <= WORKING_SET:
        return _from_best_start(stats.as_gram(), follow, n_starts)
    slices = _promising(stats)
    for _ in range(ROUNDS):
        path = _from_best_start(stats.restricted(slices).as_gram(), follow, n_starts)
        path = path.embedded(slices, stats.x_shape)
        if len(path) == 0:
            break
        better = _revised(stats, path, slices)
        if better is None:
            break
        slices = better
    return path


Start = tuple[float, int, int]  # an entry of C: its size and place


def _from_best_start(stats: GramStatistics, follow: Callable[..., SearchPath], n_starts: int) -> SearchPath:
    """Path from the largest entry of C or, if noise could have led that one, the best from several."""
    path = follow(stats, stats.kkt_start())
    if n_starts == 1 or len(path) == 0 or not _weak(stats, path):
        return path
    paths = [path, *(follow(stats, start) for start in _starts(stats, n_starts)[1:])]
    return min((found for found in paths if len(found)), key=lambda found: found.loss[-1])


def _weak(stats: GramStatistics, path: SearchPath) -> bool:
    """Whether a component gains so little that noise could have led it."""
    gain = stats.n_samples * stats.n_y * math.log(max(0.5 * stats.y_scale, 1e-300) / max(float(path.loss[-1]), 1e-300))
    return gain < WEAK * math.log(max(stats.n_samples, 2.0)) * sum(stats.x_shape + stats.y_shape)


def _starts(stats: Statistics, count: int) -> list[Start]:
    """The largest entries of C that share fewer than half of their places with each other."""
    shape = stats.x_shape + stats.y_shape
    sizes, rows, columns = stats.largest(CANDIDATES)
    places = np.stack(np.unravel_index(rows * stats.n_y + columns, shape), axis=1)
    starts: list[Start] = []
    taken: list[NDArray[np.intp]] = []
    for *start, place in zip(sizes.tolist(), rows.tolist(), columns.tolist(), places, strict=True):
        if len(starts) == count:
            break
        if start[0] > 0.0 and all(2 * np.count_nonzero(place == other) < len(shape) for other in taken):
            taken.append(place)
            starts.append((start[0], start[1], start[2]))
    return starts


def _follow(
    stats: GramStatistics, start: Start, *, step_size: float | str, tol: float, l1_end: float, max_steps: int
) -> SearchPath:
    """Path from one entry of C: what the compiled loop is given, and what it gives back."""
    l1_max, x_entry, y_entry = start
    x_offset, x_stride = _layout(stats.x_shape)
    y_offset, y_stride = _layout(stats.y_shape)
    n_a, n_b, P, Q = int(x_offset[-1]), int(y_offset[-1]), stats.n_x, stats.n_y
    if l1_max == 0.0 or stats.gram[x_entry, x_entry] <= 0.0 or l1_max <= l1_end:
        nothing = np.zeros((0, n_a + n_b))
        return SearchPath(np.zeros(0), np.zeros(0), np.zeros(0), nothing, stats.x_shape, stats.y_shape)
    cross = np.ascontiguousarray(stats.cross)
    problem = Problem(stats.gram, cross, np.ascontiguousarray(cross.T), x_offset, x_stride, y_offset, y_stride)
    widest = max(P, Q)
    part = Component(
        a=np.zeros(n_a),
        b=np.zeros(n_b),
        numbers=np.zeros(4),
        gram_u=np.zeros(P),
        cross_v=np.zeros(P),
        cross_u=np.zeros(Q),
        v=np.zeros(Q),
        curvature=np.zeros(n_a),
    )
    scratch = Scratch(
        place=np.zeros(widest, np.int64),
        value=np.zeros(widest),
        place2=np.zeros(widest, np.int64),
        value2=np.zeros(widest),
        add_x=np.zeros(P),
        add_y=np.zeros(Q),
    )
    relative = step_size == "auto"
    rules = np.array([AUTO_STEP if relative else float(step_size), float(relative), tol, l1_end])
    path, factors = np.empty((max_steps, 3)), np.empty((max_steps, n_a + n_b))
    start_component(problem, x_entry, y_entry, part)
    n = stagewise(problem, part, scratch, rules, path, factors)
    l1, weight, change = path[:n].T.copy()
    return SearchPath(l1, weight, 0.5 * stats.y_scale + change, factors[:n].copy(), stats.x_shape, stats.y_shape)


Slices = list[NDArray[np.intp]]


def _promising(stats: Statistics) -> Slices:
    """Slices that hold the largest entries of the best sparse rank-one approximation of C that is found.

    From several of the largest entries of C: among so many, the largest may well be noise.
    """
    width, y_shape = _width(stats.x_shape), stats.y_shape or (1,)
    starts = _starts(stats, WIDE_STARTS)
    if not starts:
        return [np.arange(min(d, width)) for d in stats.x_shape]
    left = [_unit_factors(x_entry, stats.x_shape) for _, x_entry, _ in starts]
    right = [_unit_factors(y_entry, y_shape) for *_, y_entry in starts]
    for _ in range(START_SWEEPS):
        fields = stats.cross_dot(np.column_stack([_outer(b) for b in right]))  # all starts in one pass
        left = [_rank_one(fields[:, [k]], a, width) for k, a in enumerate(left)]
        fields = stats.cross_t_dot(np.column_stack([_outer(a) for a in left]))
        right = [_rank_one(fields[:, [k]], b, max(y_shape)) for k, b in enumerate(right)]
    sizes = [abs(float(fields[:, k] @ _outer(b))) for k, b in enumerate(right)]
    return [_largest(np.abs(v), width) for v in left[int(np.argmax(sizes))]]


def _revised(stats: Statistics, path: SearchPath, slices: Slices) -> Slices | None:
    """Working set with the slices that the search would have entered; None if there are none or no room for them.

    They are told where l1 has fallen to a tenth: entries beyond those that the working set holds should not have been
    worth a step up to there (the KKT conditions of the path).
    """
    t = max(int(np.count_nonzero(path.l1 >= CHECK_AT * path.l1[0])) - 1, 0)
    coef = path.coefficient(t)
    U, V = coef.x_side(), coef.y_side()
    slope = stats.gram_dot(U) * float(V[:, 0] @ V[:, 0]) - stats.cross_dot(V)
    sizes = [np.abs(f[:, 0]).sum() for f in coef.factors]
    weight, width, revised = float(np.prod(sizes)), _width(stats.x_shape), []
    gradients = np.split(np.abs(contract_all_but_one(slope, coef.x_factors)[:, 0]), np.cumsum(stats.x_shape)[:-1])
    for slopes, factor, size, held in zip(gradients, coef.x_factors, sizes, slices, strict=False):
        gradient = slopes * size / weight  # per unit of ||B||_1, as l1
        outside = np.setdiff1d(np.flatnonzero(gradient > path.l1[t]), held)
        urgency = np.where(factor[:, 0] != 0.0, np.inf, 0.0)
        urgency[outside] = gradient[outside]
        urgency[held] = np.maximum(urgency[held], 1e-300)  # idle ones make room
        revised.append(_largest(urgency, max(width, len(held))))
    same = all(np.array_equal(new, old) for new, old in zip(revised, slices, strict=True))
    return None if same else revised


def _rank_one(A: Array, factors: list[Array], width: int) -> list[Array]:
    """One sweep of alternating least squares for a rank-one tensor, keeping the ``width`` largest entries a mode."""
    factors = list(factors)
    for k in range(len(factors)):
        columns = [f[:, None] for f in factors]
        start = sum(len(f) for f in factors[:k])
        found = contract_all_but_one(A, columns)[start : start + len(factors[k]), 0]
        kept = np.zeros_like(found)
        largest = _largest(np.abs(found), width)
        kept[largest] = found[largest]
        factors[k] = kept / (np.linalg.norm(kept) or 1.0)
    return factors


def _unit_factors(entry: int, shape: tuple[int, ...]) -> list[Array]:
    """Unit vectors whose outer product is one entry of a raveled tensor."""
    return [np.eye(d)[i] for d, i in zip(shape, np.unravel_index(entry, shape), strict=True)]


def _outer(factors: list[Array]) -> Array:
    return khatri_rao([f[:, None] for f in factors], 1)[:, 0]


def _largest(sizes: Array, count: int) -> NDArray[np.intp]:
    """Places of the largest sizes, in order of place."""
    return np.sort(np.argsort(-sizes, kind="stable")[:count])


def _width(shape: tuple[int, ...]) -> int:
    """Slices of each mode that a working set holds."""
    width = 1
    while math.prod(min(d, width + 1) for d in shape) <= WORKING_SET and width < max(shape):
        width += 1
    return width


def _layout(shape: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each mode's factor starts in the side's vector, and how far apart its entries lie in the raveled side."""
    offset = np.concatenate([[0], np.cumsum(shape)]).astype(np.int64)
    stride = np.array([int(np.prod(shape[k + 1 :])) for k in range(len(shape))], dtype=np.int64)
    return offset, stride
