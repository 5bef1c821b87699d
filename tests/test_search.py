"""The search against its transcription on rows, against the Lasso, and against what the paper's theory says."""

import math
import os
import subprocess
import sys
from pathlib import Path

import naive
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import lasso_path

import dst2r
from dst2r.search import AUTO_STEP, MAX_STEPS, search
from dst2r.simulation import make_tensor_regression
from dst2r.statistics import GramStatistics

SHAPES = [
    ((6,), ()),
    ((5,), (4,)),
    ((4, 3, 2), (3, 2)),
    ((4, 3), ()),
    ((3,), (2, 2)),
    ((1, 5), (1,)),
    ((4, 3), (1, 3, 1)),
    ((1,), (1,)),
    ((1,), ()),
]
STEPS = {  # step_size in units of the first entry's best weight (None is "auto"), tol
    "auto": (None, 1e-5),
    "auto, great slack": (None, 0.3),
    "fixed": (0.07, 1e-5),
    "fixed, great slack": (0.02, 0.3),
    "coarse": (0.37, 1e-5),
    "beyond the first minimum": (3.0, 1e-5),
}


def problem(x_shape, y_shape, seed=0, n=60):
    """Centred rows; correlated predictors, so that the search has something to take back."""
    rng = np.random.default_rng(seed)
    P = math.prod(x_shape)
    X = (rng.normal(size=(n, P)) @ (np.eye(P) + rng.normal(size=(P, P)) / np.sqrt(P))).reshape(n, *x_shape)
    factors = [rng.normal(size=(d, 2)) * (rng.random((d, 2)) < 0.7) for d in x_shape + y_shape]
    Y = naive.predicted(X, naive.dense(factors))
    Y = Y + (Y.std() + 0.1) * rng.normal(size=Y.shape)
    return naive.centred(X), naive.centred(Y)


def run(X, Y, step="auto", tol=1e-5, **options):
    """Search path; a numeric step is in units of the first entry's best weight."""
    if step != "auto":
        step = step * naive.kkt_start(X, Y).best_weight
    return search(GramStatistics.from_arrays(X, Y, center=False), step_size=step, tol=tol, **options)


def transcription(X, Y, step="auto", tol=1e-5, **options):
    if step == "auto":
        return naive.stagewise_rows(X, Y, AUTO_STEP, True, tol, **options)
    return naive.stagewise_rows(X, Y, step * naive.kkt_start(X, Y).best_weight, False, tol, **options)


def assert_same_path(path, expected):
    """Point by point, zeros included."""
    assert len(path) == len(expected.l1)
    assert_allclose(path.l1, expected.l1, rtol=1e-8, atol=1e-10 * expected.l1[0])
    assert_allclose(path.weight, expected.weight, rtol=1e-9)
    assert_allclose(path.loss, expected.loss, rtol=1e-9)
    assert_allclose(path.factors, expected.factors, atol=1e-9)
    assert_array_equal(path.factors == 0, expected.factors == 0)


def vectors(path, t):
    return np.split(path.factors[t], np.cumsum(path.x_shape + path.y_shape)[:-1])


def objective(X, Y, path, t, l1):
    """F at a point of the path, at the penalty ``l1``."""
    first, *rest = vectors(path, t)
    return naive.objective(X, Y, [path.weight[t] * first[:, None], *(f[:, None] for f in rest)], l1)


# --- equal to the transcription of the printed algorithms ---


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES)
@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("seed", range(4))
def test_search_is_the_papers_algorithm(x_shape, y_shape, kind, seed):
    X, Y = problem(x_shape, y_shape, seed)
    step, tol = STEPS[kind]
    step = "auto" if step is None else step
    assert_same_path(run(X, Y, step, tol), transcription(X, Y, step, tol))


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES[:5])
def test_a_long_path_does_not_drift(x_shape, y_shape):
    X, Y = problem(x_shape, y_shape, seed=1)
    path = run(X, Y, 0.004)
    assert len(path) > 500
    assert_same_path(path, transcription(X, Y, 0.004))


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES[:5])
def test_many_moves_keep_the_loss_exact(x_shape, y_shape):
    X, Y = problem(x_shape, y_shape, seed=0)
    path = run(X, Y, 0.0005)
    assert len(path) > 6000
    for t in [*range(0, len(path), 1000), len(path) - 1]:
        assert_allclose(path.loss[t], objective(X, Y, path, t, 0.0), rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_stops_where_it_is_told(seed):
    X, Y = problem((4, 3), (3,), seed)
    whole = transcription(X, Y, 0.05)
    for n in (1, 2, 7):
        assert_same_path(run(X, Y, 0.05, max_steps=n), naive.RowsPath(*(field[:n] for field in whole)))
    for share in (0.9, 0.3, 0.01):
        end = share * whole.l1[0]
        path = run(X, Y, 0.05, l1_end=end)
        assert_same_path(path, transcription(X, Y, 0.05, l1_end=end))
        assert path.l1[-1] <= end < path.l1[-2]
    for end in (1.0, 2.0):
        assert len(run(X, Y, 0.05, l1_end=end * naive.kkt_start(X, Y).l1)) == 0


@pytest.mark.parametrize("l2", [0.1, 3.0])
@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES[:4])
def test_ridged_statistics_are_rows_added(x_shape, y_shape, l2):
    X, Y = problem(x_shape, y_shape, seed=2)
    n, P = len(X), math.prod(x_shape)
    # ||Y - <<X, B>>||^2 / 2n + l2 ||B||^2 / 2 is the loss of n + P rows, scaled here for their number
    rows = np.concatenate([X, np.sqrt(n * l2) * np.eye(P).reshape(P, *x_shape)]) * np.sqrt((n + P) / n)
    responses = np.concatenate([Y, np.zeros((P, *y_shape))]) * np.sqrt((n + P) / n)
    step = 0.05 * naive.kkt_start(rows, responses).best_weight
    path = search(GramStatistics.from_arrays(X, Y).ridged(l2), step_size=step)
    assert_same_path(path, naive.stagewise_rows(rows, responses, step, relative=False))


def test_the_problems_make_the_search_do_everything():
    """Otherwise the comparison above would show little."""
    back = zeroed = doubled = idle = 0
    for x_shape, y_shape in SHAPES[:5]:
        for seed in range(4):
            path = run(*problem(x_shape, y_shape, seed))
            moves = [moved(path, t) for t in range(len(path) - 1)]
            back += int((np.diff(path.weight) < 0).sum())
            zeroed += int(((path.factors[:-1] != 0) & (path.factors[1:] == 0)).sum())
            doubled += max(abs(move) for *_, move in moves) > 3 * path.weight[0]
            left, right = np.split(np.abs(np.diff(path.factors, axis=0)) > 1e-12, [sum(x_shape)], axis=1)
            for side in (left.any(axis=1), right.any(axis=1)):  # it moves twice in a row: the other one had no move
                idle += int((side[1:] & side[:-1]).sum()) if y_shape else 0
    counts = {"back": back, "zeroed": zeroed, "doubled": doubled, "idle": idle}
    assert back > 100, counts
    assert zeroed > 3, counts
    assert doubled > 5, counts
    assert idle > 3, counts


# --- every move ---


def moved(path, t):
    """Mode, entry, value before and signed size of the one move between two points, found from the factors."""
    before, after = vectors(path, t), vectors(path, t + 1)
    changed = [k for k, (a, b) in enumerate(zip(before, after, strict=True)) if np.abs(b - a).max() > 1e-12]
    assert len(changed) <= 1
    # A mode with one entry keeps its factor, and the weight alone tells the move.
    mode = changed[0] if changed else [np.count_nonzero(f) for f in before].index(1)
    difference = path.weight[t + 1] * after[mode] - path.weight[t] * before[mode]
    entry = int(np.abs(difference).argmax())
    others = np.delete(difference, entry)
    assert np.abs(others).max(initial=0) <= 1e-12 * path.weight[t]
    return mode, entry, path.weight[t] * before[mode][entry], difference[entry]


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES)
@pytest.mark.parametrize("seed", range(2))
def test_a_move_is_one_step_of_one_entry(x_shape, y_shape, seed):
    X, Y = problem(x_shape, y_shape, seed)
    path = run(X, Y, 0.05)
    step = path.weight[0]
    for t in range(len(path) - 1):
        *_, before, move = moved(path, t)
        to_zero = abs(before + move) <= 1e-12 * path.weight[t]
        assert abs(move) <= step * (1 + 1e-9)
        assert to_zero or abs(move) >= step * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("step", ["auto", 0.05, 0.1])
def test_an_entry_that_reaches_zero_is_zero(seed, step):
    """Entries are sums of steps: of n forward and n backward ones, rounding may leave something."""
    factors = run(*problem((6,), (), seed), step).factors
    assert not ((factors != 0) & (np.abs(factors) < 1e-9)).any()


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES[:5])
@pytest.mark.parametrize("tol", [0.0, 1e-14])
@pytest.mark.parametrize("seed", range(4))
def test_a_slack_below_rounding_does_not_go_round_in_circles(x_shape, y_shape, tol, seed):
    """A step and its reversal change the penalised loss by nothing but the slack."""
    X, Y = problem(x_shape, y_shape, seed)
    path, expected = run(X, Y, 0.05, tol), run(X, Y, 0.05, 1e-8)
    assert np.isfinite(path.factors).all()
    assert len(path) < 1.5 * len(expected) + 50


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES)
@pytest.mark.parametrize("step", ["auto", 0.05])
def test_points_are_what_they_say(x_shape, y_shape, step):
    X, Y = problem(x_shape, y_shape, seed=3)
    path = run(X, Y, step)
    for t in range(0, len(path), 7):
        coef = path.coefficient(t)
        B = path.weight[t] * naive.outer(vectors(path, t))
        assert_allclose(coef.to_tensor(), B, rtol=1e-12, atol=1e-14)
        assert_allclose(np.abs(B).sum(), path.weight[t], rtol=1e-12)
        assert_allclose([np.abs(f).sum() for f in vectors(path, t)], 1, rtol=1e-13)
        assert_allclose(path.loss[t], objective(X, Y, path, t, 0.0), rtol=1e-10)
        assert path.n_parameters()[t] == coef.n_parameters()
        assert (coef.rank, coef.n_x_modes) == (1, len(x_shape))
    assert path.l1.shape == path.weight.shape == path.loss.shape == (len(path),)
    assert len(path) < MAX_STEPS


# --- the theory ---


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_starts_at_the_kkt_point(x_shape, y_shape, seed):
    X, Y = problem(x_shape, y_shape, seed)
    cross = np.tensordot(X, Y, axes=(0, 0)) / len(X)
    l1_max = np.abs(cross).max()
    # Zero is the solution from l1_max on, and not below it.
    zero, weight = np.sum(Y**2) / (2 * len(X)), 1e-4 * l1_max / np.mean(X**2)

    def best_single_entry(l1):
        """Least F over coefficients with one small entry."""
        values = []
        for entry in np.ndindex(cross.shape):
            units = [np.eye(d)[:, [i]] for d, i in zip(cross.shape, entry, strict=True)]
            units[0] = units[0] * weight * np.sign(cross[entry])
            values.append(naive.objective(X, Y, units, l1))
        return min(values)

    assert best_single_entry(l1_max) >= zero
    assert best_single_entry(0.99 * l1_max) < zero
    # The path leaves zero by the entry that attains it, with its sign.
    paths = [run(X, Y, step) for step in (0.1, 0.01, 0.001)]
    for path in paths:
        B = path.coefficient(0).to_tensor()
        assert np.count_nonzero(B) == 1
        assert np.unravel_index(np.abs(B).argmax(), B.shape) == np.unravel_index(np.abs(cross).argmax(), B.shape)
        assert np.sum(B * cross) > 0
    # Over a step of finite size the loss falls by l1[0] per unit of weight, and that tends to l1_max.
    gaps = [1 - path.l1[0] / l1_max for path in paths]
    assert_allclose(gaps, [0.05, 0.005, 0.0005], rtol=1e-6)


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES)
def test_first_step_goes_at_most_to_the_minimum_along_its_entry(x_shape, y_shape):
    X, Y = problem(x_shape, y_shape, seed=4)
    best = naive.kkt_start(X, Y).best_weight
    for step, weight in [("auto", AUTO_STEP), (0.3, 0.3), (1.0, 1.0), (5.0, 1.0), (1e9, 1.0)]:
        assert_allclose(run(X, Y, step).weight[0], weight * best, rtol=1e-12)


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES[:5])
@pytest.mark.parametrize(("step", "tol"), [(0.05, 1e-5), (0.02, 0.2), (0.01, 1e-3)])
@pytest.mark.parametrize("seed", range(2))
def test_lemmas(x_shape, y_shape, step, tol, seed):
    """Lemma 2 and the definition of l1, on the objective of the rows."""
    X, Y = problem(x_shape, y_shape, seed)
    path = run(X, Y, step, tol)
    size = path.weight[0]
    assert (np.diff(path.l1) <= 0).all()
    assert path.l1[-2] > 0
    back = 0
    for t in range(len(path) - 1):
        l1, slack = path.l1[t], tol * path.l1[t] * size
        grown = path.weight[t + 1] - path.weight[t]
        fall = objective(X, Y, path, t, l1) - objective(X, Y, path, t + 1, l1)
        rounding = 1e-12 * path.loss[0]
        if path.l1[t + 1] < l1:
            # a forward step that did not pay at the old penalty; the new one is where it just does
            assert fall < slack + rounding
            new_fall = objective(X, Y, path, t, path.l1[t + 1]) - objective(X, Y, path, t + 1, path.l1[t + 1])
            assert_allclose(new_fall, slack, atol=rounding)
            assert grown > 0
        else:
            assert fall > slack - rounding
            back += grown < 0
    assert back >= (2 if tol < 0.1 else 0)


def test_backward_steps_are_many():
    back = sum(
        int((np.diff(run(*problem(x_shape, y_shape, seed), 0.05).weight) < 0).sum())
        for x_shape, y_shape in SHAPES[:5]
        for seed in range(2)
    )
    assert back > 100


def violation(X, Y, path, t):
    """Largest coordinate-wise violation of the KKT conditions of F, by the gradient on rows, relative to l1[0]."""
    factors, l1, p = vectors(path, t), path.l1[t], X.ndim - 1
    error = naive.residual(X, Y, path.weight[t], factors)
    slope = -np.tensordot(X, error, axes=(0, 0)) / len(X)  # of the loss in B
    worst = 0.0
    for k, f in enumerate(factors):
        g = naive.contracted(slope[None], factors, skip=k)[0]
        worst = max(worst, np.where(f != 0, np.abs(g + l1 * np.sign(f)), np.abs(g) - l1).max())
    assert len(factors) >= p
    return worst / path.l1[0]


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES[:5])
@pytest.mark.parametrize("seed", range(3))
def test_kkt_violation_shrinks_with_the_step(x_shape, y_shape, seed):
    X, Y = problem(x_shape, y_shape, seed)
    typical, largest = [], []
    for step in (0.08, 0.02, 0.005):
        path = run(X, Y, step, tol=1e-6)
        values = [violation(X, Y, path, t) for t in range(0, len(path), max(1, len(path) // 60))]
        typical.append(np.median(values))
        largest.append(np.max(values))
    assert typical[1] < 0.45 * typical[0]
    assert typical[2] < 0.45 * typical[1]
    assert typical[2] < 0.006
    if len(x_shape + y_shape) == 1:  # convex: the path makes no jumps, and every point of it has to agree
        assert largest[1] < 0.45 * largest[0]
        assert largest[2] < 0.45 * largest[1]


@pytest.mark.parametrize("seed", range(4))
def test_vector_case_tends_to_the_lasso(seed):
    X, Y = problem((8,), (), seed, n=100)
    distances = []
    for step in (0.1, 0.025, 0.00625):
        path = run(X, Y, step, tol=1e-6)
        at = np.linspace(0, len(path) - 1, 40).astype(int)
        at = at[path.l1[at] > 0.01 * path.l1[0]]
        assert at.size > 10
        _, coefs, _ = lasso_path(X, Y, alphas=path.l1[at], tol=1e-12)
        ours = np.array([path.coefficient(t).to_tensor() for t in at]).T
        distances.append(np.abs(ours - coefs).max() / np.abs(coefs).max())
    assert distances[1] < 0.5 * distances[0]
    assert distances[2] < 0.5 * distances[1]
    assert distances[2] < 0.02


# --- invariances ---


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES[:6])
@pytest.mark.parametrize("x_unit", [1e-6, 1, 1e6])
@pytest.mark.parametrize("y_unit", [1e-6, 1, 1e6])
@pytest.mark.parametrize("seed", range(6))
def test_units_do_not_matter(x_shape, y_shape, x_unit, y_unit, seed):
    """Weights lie on a grid, and the bound at which the step doubles lies on it, too: rounding must not decide."""
    X, Y = problem(x_shape, y_shape, seed)
    path, other = run(X, Y), run(x_unit * X, y_unit * Y)
    assert len(path) == len(other)
    assert_allclose(other.l1, path.l1 * x_unit * y_unit, rtol=1e-8, atol=1e-10 * other.l1[0])
    assert_allclose(other.weight, path.weight * y_unit / x_unit, rtol=1e-9)
    assert_allclose(other.loss, path.loss * y_unit**2, rtol=1e-9)
    assert_allclose(other.factors, path.factors, atol=1e-9)


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES[:6])
@pytest.mark.parametrize("seed", range(4))
def test_order_of_samples_does_not_matter(x_shape, y_shape, seed):
    X, Y = problem(x_shape, y_shape, seed)
    order = np.random.default_rng(seed).permutation(len(X))
    assert_same_path(run(X[order], Y[order]), run(X, Y))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("step", ["auto", 0.05])
def test_order_of_modes_does_not_matter(seed, step):
    X, Y = problem((4, 3, 2), (3, 2), seed)
    one, other = run(X, Y, step), run(X.transpose(0, 3, 1, 2), Y.transpose(0, 2, 1), step)
    assert len(one) == len(other)
    assert_allclose(one.l1, other.l1, rtol=1e-8, atol=1e-10 * one.l1[0])
    for t in range(0, len(one), 5):
        assert_allclose(
            one.coefficient(t).to_tensor().transpose(2, 0, 1, 4, 3), other.coefficient(t).to_tensor(), atol=1e-9
        )


@pytest.mark.parametrize("sign", [(-1, 1), (1, -1), (-1, -1)])
def test_signs_of_the_data_do_not_matter(sign):
    X, Y = problem((4, 3), (3,), seed=1)
    one, other = run(X, Y), run(sign[0] * X, sign[1] * Y)
    assert_allclose(one.l1, other.l1, rtol=1e-12)
    for t in range(0, len(one), 5):
        expected = sign[0] * sign[1] * one.coefficient(t).to_tensor()
        assert_allclose(other.coefficient(t).to_tensor(), expected, atol=1e-12)


def test_statistics_are_not_modified():
    X, Y = problem((4, 3), (3,))
    stats = GramStatistics.from_arrays(X, Y)
    before = [array.copy() for array in (stats.gram, stats.cross, stats.y_square)]
    first, second = search(stats), search(stats)
    for array, copy in zip((stats.gram, stats.cross, stats.y_square), before, strict=True):
        assert_array_equal(array, copy)
    assert_array_equal(first.factors, second.factors)
    assert_array_equal(first.l1, second.l1)


# --- nothing to find ---


def assert_empty(stats, step_size="auto"):
    path = search(stats, step_size=step_size)
    assert len(path) == 0
    assert path.factors.shape == (0, sum(stats.x_shape + stats.y_shape))
    assert path.n_parameters().shape == (0,)


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES)
@pytest.mark.parametrize("weighted", [True, False])
def test_constant_data_give_an_empty_path(x_shape, y_shape, weighted):
    X, Y = (A + 0.3 for A in problem(x_shape, y_shape, n=51))
    weight = np.random.default_rng(1).uniform(0, 1, 51) if weighted else None
    constants = (
        (X, np.zeros_like(Y)),
        (np.zeros_like(X), Y),
        (X, np.broadcast_to(Y[0], Y.shape)),
        (np.broadcast_to(X[0], X.shape), Y),
    )
    for pair in constants:
        stats = GramStatistics.from_arrays(*pair, weight)
        assert stats.kkt_start()[0] == 0  # exactly: what rounding leaves must not be searched
        assert_empty(stats)


def test_one_sample_gives_an_empty_path():
    X, Y = problem((4,), (2,))
    assert_empty(GramStatistics.from_arrays(X[:1], Y[:1]))


def test_a_variance_that_rounding_made_negative_ends_the_search():
    """As may happen to a predictor that hardly varies; the search would divide by it."""
    X, Y = problem((2,), ())
    stats = GramStatistics.from_arrays(X, Y)
    entry = stats.kkt_start()[1]
    stats.gram[entry, entry] = -1e-30
    assert_empty(stats, step_size=0.1)  # the doubling of steps would never end


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES)
def test_exact_fit_and_constant_columns(x_shape, y_shape):
    """A response without noise, and predictors that do not move: the path ends, at the solution."""
    rng = np.random.default_rng(5)
    X, _ = problem(x_shape, y_shape)
    truth = naive.outer([rng.normal(size=d) for d in x_shape + y_shape])
    Y = naive.predicted(X, truth)
    path = run(X, Y, 0.02)
    assert path.loss[-1] < 0.02 * path.loss[0]
    assert len(path) < MAX_STEPS
    if x_shape[-1] > 1:
        flat = X.copy()
        flat[..., 0] = 0.0
        path = run(flat, Y)
        for f in path.factors:
            assert f[sum(x_shape) - x_shape[-1]] == 0


def test_other_starts_of_a_weak_component_never_raise_the_loss():
    """Noise has many local minima; the paper's start finds one, others often a better one, none is made worse."""
    better = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        stats = GramStatistics.from_arrays(rng.normal(size=(200, 4, 4)), rng.normal(size=(200, 3, 3)))
        one, many = search(stats), search(stats, n_starts=8)
        assert many.loss[-1] <= one.loss[-1]
        better += many.loss[-1] < one.loss[-1] * (1 - 1e-6)
    assert better >= 3


def test_a_strong_component_is_searched_from_the_paper_s_start_alone():
    data = make_tensor_regression(300, (5, 4), (3,), rank=1, normalize=True, snr=5, random_state=0)
    stats = GramStatistics.from_arrays(data.X, data.Y)
    assert_array_equal(search(stats, n_starts=8).factors, search(stats).factors)


def test_starts_are_as_many_as_there_are():
    """One predictor and one response: there is no other place to start from, and none is needed."""
    rng = np.random.default_rng(0)
    stats = GramStatistics.from_arrays(rng.normal(size=(50, 1)), rng.normal(size=50))
    assert_array_equal(search(stats, n_starts=8).factors, search(stats).factors)


def test_kernels_compile_where_nothing_can_be_kept_on_disk():
    """As in a read-only container without a home."""
    code = (
        "import numpy as np\n"
        "from numba.core.caching import CompileResultCacheImpl\n"
        "CompileResultCacheImpl._locator_classes = []\n"
        "from dst2r._kernels import add_scaled\n"
        "out = np.ones(2)\n"
        "add_scaled(out, 2.0, np.array([1.0, 3.0]))\n"
        "print(out.tolist(), len(add_scaled.stats.cache_path or ''))"
    )
    env = os.environ | {"PYTHONPATH": str(Path(dst2r.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "[3.0, 7.0] 0\n", done.stderr
