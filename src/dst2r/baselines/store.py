"""STORE: sparse low-rank tensor response regression (Sun and Li 2017), in its least-squares form."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from dst2r.baselines._common import (
    check_ranks,
    dense,
    fallback_ridge,
    grown_start,
    is_auto,
    on_few_threads,
    response_shape,
    whitening,
)
from dst2r.cp import Array, CPCoefficient, khatri_rao
from dst2r.regressor import TensorRegressor, check_number
from dst2r.statistics import GramStatistics, Statistics

if TYPE_CHECKING:
    from typing import Self

SHARES_OF_ZEROS = np.linspace(0.9, 0.0, 10)  # the grid of the original: 0.1 to 1.0 non-zero


class STORE(TensorRegressor):
    r"""Low-rank regression with sparse response factors and dense predictor factors.

    .. math:: \min \frac{1}{2n} \sum_i \Big\| Y_i - \sum_{k=1}^{K} (b_k^T x_i)\,
              \beta_{k,1} \circ \dots \circ \beta_{k,M} \Big\|_F^2, \qquad
              \|\beta_{k,j}\|_2 = 1, \quad \|\beta_{k,j}\|_0 \le s_j,

    with x the vectorised predictor.

    Parameters
    ----------
    rank : int or sequence of int, default=1
        Number K of components, or candidates.
    sparsity : float, tuple of float or "auto", default="auto"
        Share of *zeros* in the factor vectors of every response mode, as in
        :func:`dst2r.make_tensor_regression`; the paper's :math:`s_0` is one minus it. A tuple
        gives every response mode its own. ``round(d_j * sparsity)`` entries are zero; one at least is not.
    n_restarts : int, default=3
        Pairs of starts from random numbers; the best objective wins.
    fit_intercept : bool, default=True
        Whether the data are centred.
    tol : float, default=1e-6
        A start is finished when the coefficient changes by less than this in one sweep, relative to its norm.
    max_iter : int, default=500
        Largest number of sweeps for one start.
    random_state : int, RandomState or None, default=None
        Source of the random starts.

    Attributes
    ----------
    coef_ : ndarray of shape (*x_shape, *y_shape)
    intercept_ : ndarray of shape y_shape
    cp_ : CPTensor
        The components: predictor factors of shape (P, K) for the *vectorised* predictor, then the response
        modes.
    rank_ : int
    n_parameters_ : int
        Free numbers of the factors: non-zero entries less the scales that modes share.
    sparsity_ : tuple of float
        Share of zeros used in every response mode.
    path_ : list of tuple
        ``(rank, numbers of non-zeros, criterion)`` of every candidate.
    n_iter_ : int
        Sweeps of the start that won.

    Notes
    -----
    A sweep updates each component's response factors in turn, every one the exact minimiser given all else
    (normalise and keep the :math:`s_j` largest entries), and then all predictor factors together by least
    squares. The objective never rises. After whitening with the Gram matrix, this is a decomposition of one
    tensor with min(P, Q) × Q entries: a sweep depends on neither n nor P. A start is a least-squares fit
    without zeros, grown by one component after the other, each from random numbers, and truncated; its twin is
    disturbed before it is truncated.

    It differs from the authors' program, which (a) scales the weights by the number of samples instead of
    the squares of the predictor scores, which is right for its own 0/1 predictor only, (b) does not scale
    them again after the last update of the predictor factors, (c) updates the response factors from their old
    values, and anew from the same random vectors in every sweep, so that the objective may rise, (d) knows
    random starts only, which miss the least objective almost always from ten components on.

    "auto" minimises the published criterion :math:`\log(SSE) + df \log(nQ)/(nQ)` over ten shares of zeros,
    the same in every mode, where df counts the non-zero entries of the response factors. Ours also counts the
    P entries of every predictor factor, which matters only between candidate ranks: there, the published one
    gives them away.

    Where P >= n - 1, the Gram matrix is singular: a ridge of trace(G)/n is added, with a warning.

    References
    ----------
    .. [1] W. W. Sun and L. Li (2017). STORE: sparse tensor response regression and neuroimaging analysis.
       Journal of Machine Learning Research 18(135), 1-37.

    Examples
    --------
    >>> from dst2r import make_tensor_regression
    >>> from dst2r.baselines import STORE
    >>> data = make_tensor_regression(200, (3,), (5, 4), rank=1, sparsity=0.5, snr=5, random_state=0)
    >>> model = STORE(random_state=0).fit(data.X, data.Y)
    >>> model.sparsity_
    (0.4, 0.5)
    """

    def __init__(
        self,
        rank: int | Sequence[int] = 1,
        sparsity: float | tuple[float, ...] | str = "auto",
        *,
        n_restarts: int = 3,
        fit_intercept: bool = True,
        tol: float = 1e-6,
        max_iter: int = 500,
        random_state: Any = None,
    ) -> None:
        self.rank = rank
        self.sparsity = sparsity
        self.n_restarts = n_restarts
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    @on_few_threads
    def fit_statistics(self, stats: Statistics) -> Self:
        """Fit from statistics, however they were accumulated.

        Parameters
        ----------
        stats : Statistics
        """
        self._check_parameters()
        shape = response_shape(stats)
        candidates = self._candidates(shape)
        rng = check_random_state(self.random_state)

        gram, cross = dense(stats)
        whiten = whitening(gram, fallback_ridge(stats, "STORE"))
        left, sizes, right = np.linalg.svd(whiten.T @ cross, full_matrices=False)
        target = Target(sizes[:, None] * right, shape)
        unexplained = max(stats.y_scale - float(sizes @ sizes), 0.0)

        def criterion(solution: Solution) -> float:
            entries = stats.n_samples * stats.n_y
            df = sum(np.count_nonzero(f) for f in solution.responses) + solution.scores.shape[1] * stats.n_x
            floor = 100 * np.finfo(float).eps * stats.y_scale or 1.0
            return float(np.log(max(unexplained + solution.distance, floor)) + np.log(entries) / entries * df)

        self.path_: list[tuple[int, tuple[int, ...], float]] = []
        best: Solution | None = None
        for rank in check_ranks("rank", self.rank):
            starts = [start for _ in range(self.n_restarts) for start in two_starts(target, rank, rng)]
            for counts in candidates:
                solutions = (descend(target, start, counts, self.tol, self.max_iter) for start in starts)
                solution = min(solutions, key=lambda solution: solution.distance)
                value = criterion(solution)
                if best is None or value < min(entry[2] for entry in self.path_):
                    best, best_counts = solution, counts
                self.path_.append((rank, counts, value))
        assert best is not None  # there is one candidate at least
        self.sparsity_ = tuple(1 - s / d for s, d in zip(best_counts, shape, strict=True))
        if not best.converged:
            warnings.warn(
                f"STORE stopped after max_iter={self.max_iter} sweeps with its coefficient still changing by "
                f"more than tol={self.tol:g}: raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.n_iter_, self.rank_ = best.n_sweeps, best.scores.shape[1]
        components = CPCoefficient((whiten @ left @ best.scores, *best.responses), 1)
        self.cp_, self.n_parameters_ = components.normal_form(), components.n_parameters()
        coef = components.to_tensor().reshape(stats.n_x, stats.n_y)
        self._set_coefficient(coef, stats.y_mean - stats.x_mean @ coef, stats)
        return self

    def _candidates(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Numbers of non-zeros in every response mode, the sparsest candidate first."""
        if is_auto(self.sparsity):
            every = (self._counts((float(share),) * len(shape), shape) for share in SHARES_OF_ZEROS)
            return list(dict.fromkeys(every))
        shares = self.sparsity if isinstance(self.sparsity, Sequence) else (self.sparsity,) * len(shape)
        if isinstance(shares, str) or len(shares) != len(shape):
            raise ValueError(
                f'sparsity is {self.sparsity!r}; expected "auto", a share of zeros, or a tuple with one share '
                f"for each of the {len(shape)} response modes."
            )
        for share in shares:
            check_number("sparsity", share)
            if share > 1:
                raise ValueError(f"sparsity is {self.sparsity!r}; expected shares of zeros between 0 and 1.")
        return [self._counts(tuple(map(float, shares)), shape)]

    @staticmethod
    def _counts(shares: tuple[float, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(max(1, d - round(d * share)) for share, d in zip(shares, shape, strict=True))

    def _check_parameters(self) -> None:
        check_ranks("rank", self.rank)
        check_number("n_restarts", self.n_restarts, low=1, integer=True)
        check_number("tol", self.tol, strict=True)
        check_number("max_iter", self.max_iter, low=1, integer=True)


@dataclass(frozen=True, slots=True)
class Target:
    """The whitened cross moments, (r, Q), whose sparse decomposition is the regression."""

    matrix: Array
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Solution:
    """Components ``scores[:, k] o responses[0][:, k] o ...`` and their squared distance from the target."""

    scores: Array
    responses: tuple[Array, ...]
    distance: float
    n_sweeps: int
    converged: bool


def two_starts(target: Target, rank: int, rng: Any) -> Iterator[tuple[Array, ...]]:
    """Response factors of a fit without zeros, and the same disturbed, so that other entries may survive."""
    factors = dense_start(target, rank, rng)
    yield factors
    yield tuple(f / norm(f) + 0.5 * (noise := rng.standard_normal(f.shape)) / norm(noise) for f in factors)


def dense_start(target: Target, rank: int, rng: Any) -> tuple[Array, ...]:
    """Least squares on twice as many leading predictor directions as components."""
    if target.matrix.shape[1] == 1:  # nothing to decompose
        return tuple(np.ones((1, rank)) for _ in target.shape)
    matrix = target.matrix[: 2 * rank]
    r, Q = matrix.shape
    whitened = GramStatistics(
        gram=np.eye(r),
        cross=matrix,
        y_square=np.sum(matrix**2, axis=0),
        x_mean=np.zeros(r),
        y_mean=np.zeros(Q),
        n_samples=1.0,
        x_shape=(r,),
        y_shape=target.shape,
    )
    return grown_start(whitened, rank, rng).y_factors


def descend(
    target: Target, responses: tuple[Array, ...], counts: tuple[int, ...], tol: float, max_iter: int
) -> Solution:
    """Block coordinate descent: response factors one vector at a time, then all the scores together."""
    factors = [np.apply_along_axis(truncated, 0, f, count) for f, count in zip(responses, counts, strict=True)]
    rank = factors[0].shape[1]
    patterns = khatri_rao(factors, rank)  # (Q, K)
    scores = scores_given(target, patterns)
    fit = scores @ patterns.T
    n_sweeps, moving = 0, True
    while moving and n_sweeps < max_iter:
        n_sweeps += 1
        before = fit
        for k in range(rank):
            others = fit - np.outer(scores[:, k], patterns[:, k])
            partial = scores[:, k] @ (target.matrix - others)
            for mode, count in enumerate(counts):
                vector = contract_others(partial, [f[:, k] for f in factors], mode)
                if vector.any():  # otherwise every vector is as good as the old one
                    factors[mode][:, k] = truncated(vector, count)
            patterns[:, k] = khatri_rao([f[:, k : k + 1] for f in factors], 1)[:, 0]
            # The best weight for the new pattern: the scale that the original gets wrong.
            square = scores[:, k] @ scores[:, k]
            weight = float(partial @ patterns[:, k]) / square if square > 0 else 0.0
            scores[:, k] *= weight
            fit = others + np.outer(scores[:, k], patterns[:, k])
        scores = scores_given(target, patterns)
        fit = scores @ patterns.T
        moving = bool(np.linalg.norm(fit - before) > tol * np.linalg.norm(fit))
    return Solution(scores, tuple(factors), float(np.sum((target.matrix - fit) ** 2)), n_sweeps, not moving)


def scores_given(target: Target, patterns: Array) -> Array:
    """Least-squares scores of all components, the shortest ones where patterns coincide."""
    return np.asarray(np.linalg.lstsq(patterns, target.matrix.T, rcond=None)[0].T)


def norm(vectors: Array) -> Array:
    """Euclidean norms of the columns; 1 for a zero column."""
    norms = np.linalg.norm(vectors, axis=0)
    return np.where(norms == 0, 1.0, norms)


def contract_others(tensor: Array, vectors: Sequence[Array], mode: int) -> Array:
    """Contract a raveled tensor with the vectors of all modes but one."""
    for vector in reversed(vectors[mode + 1 :]):
        tensor = tensor.reshape(-1, len(vector)) @ vector
    for vector in vectors[:mode]:
        tensor = vector @ tensor.reshape(len(vector), -1)
    return tensor


def truncated(vector: Array, count: int) -> Array:
    """Unit vector of the ``count`` largest entries; ties go to the first."""
    largest = np.argsort(-np.abs(vector), kind="stable")[:count]
    kept = np.zeros_like(vector)
    kept[largest] = vector[largest]
    if not vector[largest].any():  # a dead component: any unit vector
        kept[0] = 1.0
    return kept / np.sqrt(kept @ kept)
