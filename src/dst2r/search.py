"""The paper's search for one component: contract and generate in turn (docs/maths.md, section 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dst2r._kernels import Component, Problem, Scratch, stagewise, start_component
from dst2r.cp import Array, CPCoefficient
from dst2r.statistics.gram import GramStatistics

AUTO_STEP = 0.05  # step relative to the component's weight: finer steps cost time and end at the same optimum
MAX_STEPS = 20_000


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

    def n_parameters(self) -> NDArray[np.intp]:
        """Free numbers at every point: non-zero entries less the scales that the modes share."""
        return np.count_nonzero(self.factors, axis=1) - (len(self.x_shape) + len(self.y_shape) - 1)


def search(
    stats: GramStatistics,
    *,
    step_size: float | str = "auto",
    tol: float = 1e-5,
    l1_end: float = 0.0,
    max_steps: int = MAX_STEPS,
) -> SearchPath:
    """Follow one component from zero until no step lowers the loss.

    Parameters
    ----------
    stats : GramStatistics
        Of the residual that the component is to explain.
    step_size : float or "auto"
        The paper's epsilon, in units of ``||B||_1``; "auto" keeps it at 2.5 to 5 % of the weight, so that units of
        X and Y do not matter.
    tol : float
        A move back must lower the penalised loss by more than ``tol`` times the penalty of a step (the paper's gamma).
    l1_end : float
        Where to stop.
    """
    l1_max, x_entry, y_entry = stats.kkt_start()
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
        np.zeros(n_a),
        np.zeros(n_b),
        np.zeros(4),
        np.zeros(P),
        np.zeros(P),
        np.zeros(Q),
        np.zeros(Q),
        np.zeros(n_a),
    )
    scratch = Scratch(
        np.zeros(widest, np.int64),
        np.zeros(widest),
        np.zeros(widest, np.int64),
        np.zeros(widest),
        np.zeros(P),
        np.zeros(Q),
    )
    relative = step_size == "auto"
    rules = np.array([AUTO_STEP if relative else float(step_size), float(relative), tol, l1_end])
    path, factors = np.empty((max_steps, 3)), np.empty((max_steps, n_a + n_b))
    start_component(problem, x_entry, y_entry, part)
    n = stagewise(problem, part, scratch, rules, path, factors)
    l1, weight, change = path[:n].T.copy()
    return SearchPath(l1, weight, 0.5 * stats.y_scale + change, factors[:n].copy(), stats.x_shape, stats.y_shape)


def _layout(shape: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each mode's factor starts in the side's vector, and how far apart its entries lie in the raveled side."""
    offset = np.concatenate([[0], np.cumsum(shape)]).astype(np.int64)
    stride = np.array([int(np.prod(shape[k + 1 :])) for k in range(len(shape))], dtype=np.int64)
    return offset, stride
