"""Selection against scikit-learn's lasso path, least squares on supports, brute force and loops over folds."""

import math

import naive
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LinearRegression, lasso_path

from dst2r import DST2R, GramStatistics, make_tensor_regression
from dst2r.correction import Correction, Recipe, grow, least_squares, local_model, penalised
from dst2r.cp import CPCoefficient
from dst2r.search import SearchPath, search
from dst2r.selection import (
    Criterion,
    CVSurface,
    averaged,
    exact_path,
    fold_surface,
    joint_path,
    l1_grid,
    local_path,
    pick_at,
    pick_by,
    refit_support,
    stepwise,
    well_posed,
)


def vector_data(n=80, d=8, seed=0, snr=3.0):
    data = make_tensor_regression(
        n, (d,), (), rank=1, sparsity=0.5, snr=snr, x_distribution="normal", random_state=seed
    )
    mix = np.eye(d) + 0.4 * np.eye(d, k=1)  # neighbours are correlated
    return data.X @ mix + 1.0, data.Y + 2.0


def ols(X, Y, support):
    """Coefficients of least squares with intercept on some columns (zero elsewhere) and half the mean square left."""
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    coef = np.zeros((X.shape[1], *Y.shape[1:]))
    if support.any():
        coef[support] = np.linalg.lstsq(X[:, support], Y, rcond=None)[0]
    return coef, np.sum((Y - X @ coef) ** 2) / (2 * len(X))


def vector_fit(X, Y):
    stats = GramStatistics.from_arrays(X, Y)
    return stats, least_squares(stats, CPCoefficient((np.ones((X.shape[1], 1)),), 1), tol=1e-10)


def bic_by_hand(loss, n_parameters, n, entries, rank):
    """For a vector and a scalar response: price log(n) of a number, 2 log(P) of a component."""
    return n * math.log(loss) + math.log(n) * n_parameters + 2 * math.log(entries) * rank


# --- criteria ---------------------------------------------------------------------------------------------------------


def test_criteria_by_hand():
    rng = np.random.default_rng(0)
    stats = GramStatistics.from_arrays(rng.normal(size=(50, 4, 3)), rng.normal(size=(50, 5)))
    n, Q, P, entries = 50, 5, 12, 4 + 3 + 5 - 2  # free numbers of one full component: two scales are shared
    loss, k, R = 0.8, 7, 2
    fit, where = n * Q * math.log(loss), 2 * math.log(P * Q)
    expected = {
        "bic": fit + math.log(n) * k + where * R,
        "aic": fit + 2 * k,
        "ebic": fit + (math.log(n) + math.log(entries)) * k + where * R,
    }
    for name, value in expected.items():
        assert_allclose(Criterion.named(name, stats)(loss, k, R), value)


def test_criterion_refuses_models_that_spend_more_than_half_of_the_data():
    criterion = Criterion(40.0, 2.0, 0.0)
    assert math.isfinite(criterion(1.0, 20, 1))
    assert criterion(1.0, 21, 1) == math.inf
    assert criterion(0.0, 3, 1) < criterion(1e-9, 3, 1)  # a perfect fit is finite and best


def test_criterion_of_a_fit_counts_its_numbers_and_living_components():
    data = make_tensor_regression(60, (4, 3), (5,), rank=2, sparsity=0.4, random_state=0)
    stats = GramStatistics.from_arrays(data.X, data.Y)
    dead = CPCoefficient(tuple(np.zeros((d, 1)) for d in (4, 3, 5)), 2)
    coef = CPCoefficient(data.factors, 2).append(dead)
    # two scales of a component of three modes are shared
    numbers = sum(np.count_nonzero(f) for f in data.factors) - 2 * 2
    X, Y = (A - A.mean(axis=0) for A in (data.X, data.Y))
    loss = np.sum((Y - np.tensordot(X, data.coef, 2)) ** 2) / 120
    expected = 60 * 5 * math.log(loss) + math.log(60) * numbers + 2 * math.log(60) * 2
    fit = Correction(local_model(stats, coef), 0, True)
    assert_allclose(Criterion.named("bic", stats).of(fit), expected)


# --- paths ------------------------------------------------------------------------------------------------------------


def test_grid_is_zero_and_then_geometric_up_to_the_largest_useful_l1():
    grid = l1_grid(3.0, 11)
    assert grid.shape == (11,)
    assert grid[0] == 0
    assert_allclose(grid[-1], 3.0)
    ratios = grid[2:] / grid[1:-1]
    assert_allclose(ratios, ratios[0])
    assert ratios[0] > 1


@pytest.mark.parametrize("path_of", ["local", "exact", "exact from the middle"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_path_of_a_vector_is_the_lasso_path_with_refits(path_of, seed):
    X, Y = vector_data(seed=seed)
    n, d = X.shape
    stats, fit = vector_fit(X, Y)
    grid = l1_grid(1.001 * np.abs((X - X.mean(axis=0)).T @ (Y - Y.mean())).max() / n, 15)
    criterion = Criterion.named("bic", stats)
    if path_of == "local":
        path = local_path(fit.model, grid, criterion)
    elif path_of == "exact":
        path = exact_path(stats, fit.coef, 0.0, grid, criterion, max_iter=100)
    else:
        middle = penalised(stats, fit.coef, grid[9], tol=1e-8, max_iter=1000).coef
        path = exact_path(stats, middle, grid[9], grid, criterion, max_iter=100)

    lasso = lasso_path(X - X.mean(axis=0), Y - Y.mean(), alphas=grid[:0:-1], tol=1e-12, max_iter=100_000)[1].T[::-1]
    expected = np.vstack([ols(X, Y, np.ones(d, bool))[0], lasso])
    found = np.array([c.to_tensor() for c in path.coefs])
    assert_allclose(path.l1, grid)
    assert_allclose(found, expected, atol=(2e-3 if path_of == "local" else 1e-2) * np.abs(expected).max())
    # where the lasso's own entries are not within rounding of zero, supports agree exactly
    clear = ((np.abs(expected) > 1e-2 * np.abs(expected).max()) | (expected == 0)).all(axis=1)
    assert clear.sum() >= 5
    assert_array_equal(found[clear] != 0, expected[clear] != 0)
    assert_array_equal(found[-1], 0)

    for t in range(grid.size):
        coef, loss = ols(X, Y, found[t] != 0)
        size = np.count_nonzero(found[t])
        if path.relaxed[t].rank:
            assert_allclose(path.relaxed[t].to_tensor(), coef, atol=1e-5 * np.abs(expected).max())
        assert_allclose(path.loss[t], loss, rtol=1e-6)
        assert path.n_parameters[t] == size
        assert_allclose(path.criterion[t], bic_by_hand(loss, size, n, d, size > 0), rtol=1e-6)
    assert path.chosen == path.criterion.argmin()


@pytest.mark.parametrize("seed", [4, 5, 7])
def test_local_path_is_exact_to_first_order_for_tensors(seed):
    """Against the penalised optimum itself: a quarter of the penalty, about a sixteenth of the difference."""
    design = {"sparsity": 0.0, "normalize": True, "snr": 100}
    data = make_tensor_regression(300, (4, 3), (3,), rank=1, random_state=seed, **design)
    stats = GramStatistics.from_arrays(data.X, data.Y)
    start = least_squares(stats, grow(stats, 1, Recipe()).fits[-1].coef, tol=1e-10)
    grid = np.array([0.02, 0.08]) * stats.kkt_start()[0]
    path = local_path(start.model, grid, Criterion.named("bic", stats))
    exact = [penalised(stats, start.coef, l1, tol=1e-10, max_iter=1000).coef.to_tensor() for l1 in grid]
    differences = [np.linalg.norm(c.to_tensor() - e) for c, e in zip(path.coefs, exact, strict=True)]
    moves = [np.linalg.norm(e - start.coef.to_tensor()) for e in exact]
    assert differences[1] < 0.1 * moves[1]
    assert differences[0] < differences[1] / 7


@pytest.mark.parametrize("shape", [((4, 3), (3,)), ((5,), (4,)), ((3, 2), (2, 2))])
def test_local_path_predicts_the_loss_of_its_refits(shape):
    """Entries that hardly matter are dropped first, where the local model is near the loss on the rows."""
    data = make_tensor_regression(400, *shape, rank=1, sparsity=0.3, snr=5, normalize=True, random_state=4)
    stats = GramStatistics.from_arrays(data.X, data.Y)
    start = least_squares(stats, grow(stats, 1, Recipe()).fits[-1].coef, tol=1e-8)
    path = local_path(start.model, l1_grid(stats.kkt_start()[0], 20)[:12], Criterion.named("bic", stats))
    X, Y = (A - A.mean(axis=0) for A in (data.X, data.Y))
    for coef, relaxed, loss in zip(path.coefs, path.relaxed, path.loss, strict=True):
        assert_array_equal(relaxed.ravel()[coef.ravel() == 0], 0)
        rows = np.sum((Y - np.tensordot(X, relaxed.to_tensor(), len(shape[0]))) ** 2) / 800
        assert_allclose(loss, rows, rtol=1e-3)
    assert path.n_parameters[0] == sum(shape[0] + shape[1]) - (len(shape[0] + shape[1]) - 1)
    assert (np.diff(path.n_parameters) <= 0).all()
    assert path.n_parameters[-1] < path.n_parameters[0]


@pytest.mark.parametrize("seed", range(3))
def test_a_component_leaves_a_local_path_whole(seed):
    """Where one factor of it is zero, all of it is, and nothing of the others."""
    rng = np.random.default_rng(seed)
    strong, weak = (naive.outer([rng.normal(size=d) for d in (5, 4, 3)]) for _ in range(2))
    X = rng.normal(size=(400, 5, 4))
    Y = np.tensordot(X, strong + 0.1 * weak, 2) + 0.1 * rng.normal(size=(400, 3))
    stats = GramStatistics.from_arrays(X, Y)
    start = least_squares(stats, grow(stats, 2, Recipe()).fits[-1].coef, tol=1e-8)
    path = local_path(start.model, l1_grid(stats.kkt_start()[0], 40), Criterion.named("bic", stats))
    living = np.array([coef.living() for coef in path.coefs])
    assert (living.sum(axis=1) == 1).any()
    for coef, relaxed, n_parameters in zip(path.coefs, path.relaxed, path.n_parameters, strict=True):
        for c in (coef, relaxed):
            some = np.array([(f != 0).any(axis=0) for f in c.factors])
            assert_array_equal(some.any(axis=0), some.all(axis=0))
            assert c.n_parameters() == n_parameters


def test_a_path_does_not_begin_worse_than_the_fit_that_it_expands():
    """From fits that were corrected badly or not at all the step to the local model's minimum may go astray."""
    astray = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        stats = GramStatistics.from_arrays(rng.normal(size=(100, 4, 3)), rng.normal(size=(100, 3)))
        coef = CPCoefficient(tuple(0.3 * rng.normal(size=(d, 2)) for d in (4, 3, 3)), 2)
        fit = Correction(local_model(stats, coef), 0, False)
        criterion, grid = Criterion.named("bic", stats), l1_grid(stats.kkt_start()[0], 8)
        astray += stats.loss(local_path(fit.model, grid, criterion).relaxed[0]) > fit.model.loss
        path = joint_path(stats, fit, 0.0, grid, criterion)
        assert stats.loss(path.relaxed[0]) <= fit.model.loss * (1 + 1e-12)
        assert_allclose(path.loss[0], stats.loss(path.relaxed[0]), rtol=1e-10)
    assert astray > 3


@pytest.mark.parametrize("seed", range(3))
def test_exact_path_of_a_tensor_minimises_the_objective_at_every_point(seed):
    """Up and down from where it starts, without steps to spare: each point begins at its neighbour."""
    design = {"sparsity": 0.3, "normalize": True, "snr": 4}
    data = make_tensor_regression(200, (5, 4), (3,), rank=2, random_state=seed, **design)
    stats = GramStatistics.from_arrays(data.X, data.Y)
    grid = l1_grid(stats.kkt_start()[0], 16)
    start = penalised(stats, grow(stats, 2, Recipe()).fits[-1].coef, grid[12], tol=1e-6, max_iter=500).coef
    path = exact_path(stats, start, grid[12], grid, Criterion.named("bic", stats), max_iter=1)
    X, Y = (A - A.mean(axis=0) for A in (data.X, data.Y))

    def objective(coef, l1):
        loss = np.sum((Y - np.tensordot(X, coef.to_tensor(), 2)) ** 2) / (2 * len(X))
        return loss + l1 * sum(np.prod([np.abs(f[:, r]).sum() for f in coef.factors]) for r in range(coef.rank))

    for t, (l1, coef) in enumerate(zip(grid, path.coefs, strict=True)):
        polished = penalised(stats, coef, l1, tol=1e-6, max_iter=500).coef if coef.rank else coef
        assert objective(coef, l1) <= objective(polished, l1) * (1 + (5e-3 if t < 12 else 3e-2))
        assert objective(coef, l1) <= objective(start, l1) * (1 + 1e-9)


# --- stepwise ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bic", "aic", "ebic"])
@pytest.mark.parametrize("n", [15, 30, 120])
@pytest.mark.parametrize("start", ["all", "one", "wrong"])
def test_no_single_entry_improves_on_the_stepwise_support(name, n, start):
    """By brute force: the criterion of least squares on every support that differs by one entry."""
    for seed in range(4):
        X, Y = vector_data(n=n, d=6, seed=seed, snr=1.0)
        stats, full = vector_fit(X, Y)
        criterion = Criterion.named(name, stats)
        truth = np.abs(full.coef.to_tensor()) > 0.5 * np.abs(full.coef.to_tensor()).max()
        begin = {"all": np.ones(6, bool), "one": np.arange(6) == 2, "wrong": ~truth}[start]
        fit = refit_support(stats, CPCoefficient((begin[:, None].astype(float),), 1), begin, tol=1e-8, max_iter=100)
        found = stepwise(stats, fit, criterion, tol=1e-8, max_iter=100)
        support = found.coef.to_tensor() != 0 if found.coef.rank else np.zeros(6, bool)

        def value(support, X=X, Y=Y, criterion=criterion):
            return criterion(ols(X, Y, support)[1], support.sum(), int(support.any()))

        assert_allclose(criterion.of(found), value(support), rtol=1e-8)
        assert value(support) <= value(begin) + 1e-9
        for j in range(6):
            neighbour = support ^ (np.arange(6) == j)
            if support.any():  # from the empty model there is no entry to start from
                assert value(support) <= value(neighbour) + 1e-9, (seed, support, j)


def test_stepwise_leaves_the_zero_model_alone():
    X, Y = vector_data()
    stats = GramStatistics.from_arrays(X, Y)
    zero = least_squares(stats, CPCoefficient.empty((8,), ()))
    assert stepwise(stats, zero, Criterion.named("bic", stats), tol=1e-5, max_iter=100).coef.rank == 0


def test_stepwise_drops_noise_and_finds_the_support_of_a_tensor():
    """All true entries are well above the noise."""
    rng = np.random.default_rng(5)
    a = np.array([[1, 0], [-1, 0], [0, 1], [0, 1], [0, 0.0]])
    b = np.array([[0, 1], [1, 0], [1, 0], [0, -1.0]])
    c = np.array([[1, 0], [0, 1], [-1, 0.0]])
    truth = np.einsum("ir,jr,kr->ijk", a, b, c)
    X = rng.normal(size=(500, 5, 4)) + 3.0
    Y = np.tensordot(X, truth, 2) + rng.normal(size=(500, 3))
    stats = GramStatistics.from_arrays(X, Y)
    criterion = Criterion.named("bic", stats)
    dense = least_squares(stats, grow(stats, 2, Recipe()).fits[-1].coef, tol=1e-6)
    assert (dense.coef.to_tensor() != 0).all()
    found = stepwise(stats, dense, criterion, tol=1e-6, max_iter=100)
    assert criterion.of(found) < criterion.of(dense)
    assert_array_equal(found.coef.to_tensor() != 0, truth != 0)


def single_removals(stats, fit):
    """Refits without each of the entries in turn."""
    support = fit.coef.ravel() != 0
    for j in np.flatnonzero(support):
        rest = support & (np.arange(support.size) != j)
        yield refit_support(stats, fit.coef, rest, tol=1e-6, max_iter=100)


def tensor_problem(shape, seed, name):
    """Few, noisy samples; least squares on all entries is degenerate in some of them."""
    data = make_tensor_regression(100, *shape, rank=2, sparsity=0.4, normalize=True, snr=1, random_state=seed)
    stats = GramStatistics.from_arrays(data.X, data.Y)
    return data, stats, Criterion.named(name, stats)


def value_of(model, data, criterion):
    loss = np.sum((data.Y - model.predict(data.X)) ** 2) / (2 * len(data.X))
    return criterion(loss, model.n_parameters_, model.rank_)


@pytest.mark.parametrize("name", ["bic", "aic"])
@pytest.mark.parametrize("shape", [((4, 3), (3,)), ((3, 2), (2, 2))])
@pytest.mark.parametrize("seed", range(8))
def test_no_single_removal_improves_much_on_a_fitted_tensor(name, shape, seed):
    """By brute force, with a refit for every entry; the local model that proposes is not exact."""
    data, stats, criterion = tensor_problem(shape, seed, name)
    model = DST2R(2, l1=name).fit(data.X, data.Y)
    weights, factors = model.cp_
    coef = CPCoefficient((factors[0] * weights, *factors[1:]), 2)
    fit = refit_support(stats, coef, coef.ravel() != 0, tol=1e-6, max_iter=100)
    for without in single_removals(stats, fit):
        assert criterion.of(fit) <= criterion.of(without) + 0.25 * criterion.price


@pytest.mark.parametrize("shape", [((4, 3), (3,)), ((3, 2), (2, 2))])
@pytest.mark.parametrize("seed", range(6))
def test_default_fit_is_no_worse_than_removing_one_entry_at_a_time(shape, seed):
    data, stats, criterion = tensor_problem(shape, seed, "bic")
    greedy = least_squares(stats, grow(stats, 2, Recipe()).fits[-1].coef, tol=1e-6)
    while True:
        best = min(single_removals(stats, greedy), key=criterion.of)
        if criterion.of(best) >= criterion.of(greedy):
            break
        greedy = best
    model = DST2R(2).fit(data.X, data.Y)
    assert value_of(model, data, criterion) <= criterion.of(greedy) + 2 * criterion.price


@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_entries_in_doubt_are_averaged_with_models_without_them(correlation):
    """From the definition: least squares without each entry in turn, weighted by exp(-BIC / 2)."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(80, 6)) + correlation * rng.normal(size=(80, 1))
        y = X @ [2.0, 0.3, 0.25, -0.3, 0.2, -2.0] + rng.normal(size=80)
        stats = GramStatistics.from_arrays(X, y)
        criterion = Criterion.named("bic", stats)
        fit = least_squares(stats, CPCoefficient((np.ones((6, 1)),), 1))

        def fitted(used, X=X, y=y):
            coef = np.zeros(6)
            coef[used] = LinearRegression().fit(X[:, used], y).coef_
            centred = X - X.mean(axis=0), y - y.mean()
            return coef, 80 * np.log(np.mean((centred[1] - centred[0] @ coef) ** 2) / 2) + np.log(80) * len(used)

        full, bic = fitted(np.arange(6))
        expected = full.copy()
        for j in range(6):
            without, worse = fitted(np.delete(np.arange(6), j))
            odds = np.exp((bic - worse) / 2)
            expected += odds / (1 + odds) * (without - full)
        found = averaged(stats, fit, criterion)
        assert_allclose(found.coef.to_tensor(), expected, rtol=1e-6, atol=1e-9)
        assert_allclose(found.model.loss, stats.loss(found.coef), rtol=1e-10)


def test_averaging_has_less_error_than_trusting_the_support():
    """Half of the entries zero, the others from far below to far above the noise."""
    gain = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        truth = rng.normal(size=30) * (rng.random(30) < 0.5)
        X = rng.normal(size=(200, 30))
        y = X @ truth + 0.3 * rng.normal(size=200)
        average = DST2R().fit(X, y).coef_
        kept, refit = average != 0, np.zeros(30)
        refit[kept] = LinearRegression().fit(X[:, kept], y).coef_
        gain.append(np.log(np.linalg.norm(refit - truth) / np.linalg.norm(average - truth)))
    assert np.mean(gain) > max(0.02, 2 * np.std(gain) / np.sqrt(len(gain)))  # 0.02: without averaging rounding remains


@pytest.mark.parametrize("n", [40, 400])
def test_stepwise_drops_a_component_that_does_not_pay(n):
    """A second component fitted to noise goes, even where no single entry of it would go alone."""
    for seed in range(5):
        data = make_tensor_regression(n, (6,), (4,), rank=1, sparsity=0.3, normalize=True, snr=5, random_state=seed)
        stats = GramStatistics.from_arrays(data.X, data.Y)
        criterion = Criterion.named("bic", stats)
        two = least_squares(stats, grow(stats, 2, Recipe()).fits[-1].coef, tol=1e-6)
        found = stepwise(stats, two, criterion, tol=1e-6, max_iter=100)
        for r in range(found.coef.rank):
            rest = found.coef.take([s for s in range(found.coef.rank) if s != r])
            without = least_squares(stats, rest, support=rest.ravel() != 0, tol=1e-6)
            assert criterion.of(found) <= criterion.of(without) + 1e-6


@pytest.mark.parametrize("extra", [1, 3, 5])
def test_a_rank_that_is_too_large_leaves_no_component_in_pieces(extra):
    """With three components too many a true one used to be left in three, of which none could be spared."""
    data = make_tensor_regression(400, (10, 8), (6,), rank=3, sparsity=0.5, normalize=True, noise=0.3, random_state=0)
    known, more = (DST2R(rank).fit(data.X, data.Y) for rank in (3, 3 + extra))
    assert more.rank_ == 3
    assert_allclose(more.coef_, known.coef_, atol=1e-4)


def test_refit_on_a_support_removes_components_without_a_living_factor():
    data = make_tensor_regression(200, (4, 3), (3,), rank=2, sparsity=0.0, random_state=6)
    stats, coef = GramStatistics.from_arrays(data.X, data.Y), CPCoefficient(data.factors, 2)
    masks = [np.ones((d, 2)) for d in (4, 3, 3)]
    masks[1][:, 0] = 0.0
    support = np.concatenate([m.ravel() for m in masks]) > 0
    fit = refit_support(stats, coef, support, tol=1e-8, max_iter=200)
    assert fit.converged
    assert fit.coef.rank == 1
    alone = least_squares(stats, coef.take([1]), tol=1e-8, max_iter=200)
    assert_allclose(fit.coef.to_tensor(), alone.coef.to_tensor(), atol=1e-6)


# --- cross-validation -------------------------------------------------------------------------------------------------


def surface(loss, size):
    loss, size = np.array(loss, float), np.array(size, float)
    if loss.ndim == 2:
        loss, size = loss[:, None], np.broadcast_to(size, loss.shape)[:, None]
    return CVSurface(tuple(range(1, loss.shape[1] + 1)), np.arange(loss.shape[2], dtype=float), loss, size)


def test_min_rule_takes_the_least_mean_over_folds():
    loss = [[[3, 2], [5, 1.5]], [[3, 2.2], [1, 1.6]]]  # least: rank 2, second point
    size = np.ones((2, 2, 2))
    assert surface(loss, size).choose("min") == (1, 1)
    loss[0][1][1] = 9.0
    assert surface(loss, size).choose("min") == (0, 1)


@pytest.mark.parametrize(
    ("excess", "expected"),
    [
        # excess of the smaller model over the best one, fold by fold: mean 0.1, standard error 0.2 / sqrt(4) = 0.1
        ([0.1 + 0.174, 0.1 - 0.174, 0.1 + 0.174, 0.1 - 0.174], 1),  # just within one standard error
        ([0.2, 0.2, 0.2, 0.2], 0),  # the same in every fold: no chance, however small
        ([0.1 + 0.15, 0.1 - 0.15, 0.1 + 0.15, 0.1 - 0.15], 0),  # standard error 0.087
        ([0.1 + 0.18, 0.1 - 0.18, 0.1 + 0.18, 0.1 - 0.18], 1),  # standard error 0.104
    ],
)
def test_one_standard_error_is_that_of_the_difference(excess, expected):
    """Folds of very different difficulty: their spread is common to both models and does not count."""
    base = np.array([1.0, 100.0, 10.0, 5.0])
    loss = np.stack([base, base + excess], axis=1)
    assert surface(loss, [10, 4]).choose("1se") == (0, expected)
    assert surface(loss, [10, 4]).choose("min") == (0, 0)


def test_one_standard_error_takes_the_smallest_of_all_that_qualify():
    excess = np.array([[0, 0.3, 0.3, 2.0], [0, -0.2, -0.1, 2.1]])
    loss = np.array([[1.0], [3.0]]) + excess
    assert surface(loss, [10, 6, 4, 1]).choose("1se") == (0, 2)
    assert surface(loss, [10, 6, 7, 1]).choose("1se") == (0, 1)
    assert surface(loss, [3, 6, 7, 4]).choose("1se") == (0, 0)


@pytest.mark.parametrize("failure", [0.3, 1.0, np.pi, 1e6])
def test_a_model_that_fails_on_one_fold_is_not_within_one_standard_error(failure):
    """Its mean excess and the standard error of that are one and the same number; rounding must not decide."""
    excess = np.zeros((5, 2))
    excess[3, 1] = failure
    loss = np.array([1.0, 1.1, 0.9, 1.05, 0.95])[:, None] + excess
    assert surface(loss, [10, 4]).choose("1se") == (0, 0)


@pytest.mark.parametrize("n_folds", [3, 5, 10])
@pytest.mark.parametrize("excess", [1e-3, 0.1, 0.3, 0.7, np.pi])
def test_a_difference_that_one_fold_alone_makes_is_no_evidence(excess, n_folds):
    """It is as large as its standard error: the smaller model is close, and rounding must not decide."""
    base = np.linspace(1.0, 100.0, n_folds)
    for fold in range(n_folds):
        loss = np.stack([base, base + excess * (np.arange(n_folds) == fold)], axis=1)
        assert surface(loss, [10, 4]).choose("1se") == (0, 1)


@pytest.mark.parametrize("rule", ["min", "1se"])
def test_a_model_that_a_fold_cannot_vouch_for_is_never_chosen(rule):
    loss = [[[np.inf, 1.0], [2.0, 3.0]], [[0.1, 1.1], [2.1, np.inf]]]
    assert surface(loss, [[[1, 5], [2, 1]]] * 2).choose(rule) == (0, 1)


def test_one_fold_has_no_standard_error():
    assert surface([[2.0, 1.0]], [1, 5]).choose("1se") == (0, 1)


def held_out(X, Y, coef, x_mean, y_mean):
    """Half the mean squared error of predictions ``y_mean + <X - x_mean, B>`` summed over response entries."""
    error = Y - y_mean - np.tensordot(X - x_mean, coef, X.ndim - 1)
    return np.sum(error**2) / (2 * len(X))


@pytest.mark.parametrize("relax", [True, False])
def test_fold_surface_of_a_vector_is_the_lasso_on_the_training_rows(relax):
    X, Y = vector_data(n=90, d=6, seed=2)
    train, test = np.arange(60), np.arange(60, 90)
    stats = [GramStatistics.from_arrays(X[rows], Y[rows]) for rows in (train, test)]
    grid = l1_grid(np.abs((X - X.mean(axis=0)).T @ (Y - Y.mean())).max() / len(X), 10)
    found = fold_surface(*stats, (1,), grid, relax=relax, recipe=Recipe())
    assert found.loss.shape == found.n_parameters.shape == (1, 1, 10)
    assert found.ranks == (1,)

    Xt, Yt = X[train], Y[train]
    centred = Xt - Xt.mean(axis=0), Yt - Yt.mean()
    lasso = lasso_path(*centred, alphas=grid[:0:-1], tol=1e-12, max_iter=100_000)[1].T[::-1]
    penalised_coefs = np.vstack([ols(Xt, Yt, np.ones(6, bool))[0], lasso])
    for t, coef in enumerate(penalised_coefs):
        used = ols(Xt, Yt, coef != 0)[0] if relax else coef
        expected = held_out(X[test], Y[test], used, Xt.mean(axis=0), Yt.mean())
        assert_allclose(found.loss[0, 0, t], expected, rtol=5e-3)
        assert found.n_parameters[0, 0, t] == np.count_nonzero(coef)


def test_fold_surface_of_a_matrix_is_reduced_rank_regression_on_the_training_rows():
    """Without penalty, for every rank at once; and nothing of the test rows enters but through the score."""
    data = make_tensor_regression(150, (6,), (4,), rank=3, sparsity=0.3, snr=2, normalize=True, random_state=7)
    X, Y = data.X, data.Y + 5.0
    test, train = np.arange(50), np.arange(50, 150)
    stats = [GramStatistics.from_arrays(X[rows], Y[rows]) for rows in (train, test)]
    ranks = (1, 2, 4)
    found = fold_surface(*stats, ranks, np.array([0.0, 1e-9]), relax=True, recipe=Recipe())
    means = X[train].mean(axis=0), Y[train].mean(axis=0)
    full = ols(X[train], Y[train], np.ones(6, bool))[0]
    right = np.linalg.svd((X[train] - means[0]) @ full, full_matrices=False)[2]
    for row, rank in enumerate(ranks):
        expected = held_out(X[test], Y[test], full @ right[:rank].T @ right[:rank], *means)
        assert_allclose(found.loss[0, row], expected, rtol=1e-2)
        assert_array_equal(found.n_parameters[0, row], rank * (6 + 4 - 1))


@pytest.mark.parametrize("relax", [True, False])
@pytest.mark.parametrize("n", [120, 24])  # well posed, and too few samples for an unpenalised fit
def test_fold_surface_of_a_tensor_thins_out_and_predicts(relax, n):
    data = make_tensor_regression(n, (4, 3), (2,), rank=2, sparsity=0.3, snr=4, normalize=True, random_state=7)
    X, Y = data.X, data.Y + 5.0
    test, train = np.arange(n // 3), np.arange(n // 3, n)
    stats = GramStatistics.from_arrays(X[train], Y[train])
    assert well_posed(stats, 3) == (n == 120)
    scored = GramStatistics.from_arrays(X[test], Y[test])
    grid = l1_grid(stats.kkt_start()[0], 8)
    found = fold_surface(stats, scored, (1, 3), grid, relax=relax, recipe=Recipe())
    assert found.loss.shape == found.n_parameters.shape == (1, 2, 8)
    sizes = found.n_parameters[0]
    assert (sizes[:, 0] > sizes[:, -1]).all()
    assert (sizes[:, 0] <= [7, 21]).all()
    zero = held_out(X[test], Y[test], np.zeros((4, 3, 2)), X[train].mean(axis=0), Y[train].mean(axis=0))
    assert found.loss.min() < 0.6 * zero
    noise = np.sum((Y[test] - 5.0 - np.tensordot(X[test], data.coef, 2)) ** 2) / (2 * len(test))
    assert found.loss.min() > 0.8 * noise
    one = fold_surface(stats, scored, (3,), grid, relax=relax, recipe=Recipe())
    both = np.isfinite(one.loss[:, 0]) & np.isfinite(found.loss[:, 1])
    assert both.any()
    assert_allclose(one.loss[:, 0][both], found.loss[:, 1][both], rtol=1e-8)  # lower ranks beside it change nothing


@pytest.mark.parametrize("relax", [True, False])
def test_fold_surface_without_correction_is_a_fit_and_a_prediction_for_each_point(relax):
    data = make_tensor_regression(90, (4, 3), (2,), rank=2, sparsity=0.3, snr=4, normalize=True, random_state=8)
    X, Y = data.X, data.Y + 5.0
    test, train = np.arange(30), np.arange(30, 90)
    stats = GramStatistics.from_arrays(X[train], Y[train])
    grid = l1_grid(stats.kkt_start()[0], 4)
    found = fold_surface(
        stats,
        GramStatistics.from_arrays(X[test], Y[test]),
        (1, 2),
        grid,
        relax=relax,
        recipe=Recipe(correction="none"),
    )
    for row, rank in enumerate((1, 2)):
        for t, l1 in enumerate(grid):
            model = DST2R(rank, l1=l1, correction="none", relax=relax).fit(X[train], Y[train])
            error = np.sum((Y[test] - model.predict(X[test])) ** 2) / (2 * len(test))
            assert_allclose(found.loss[0, row, t], error, rtol=1e-6)
            assert found.n_parameters[0, row, t] == model.n_parameters_


@pytest.mark.parametrize("relax", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_fold_surface_scores_what_the_estimator_fits_at_that_rank_and_penalty(relax, seed):
    """An explicit loop of fits to the training rows: what is scored must be what will be fitted to all data."""
    design = {"sparsity": 0.4, "normalize": True, "snr": 10}
    data = make_tensor_regression(240, (5, 4), (3,), rank=2, random_state=seed, **design)
    X, Y = data.X, data.Y + 5.0
    test, train = np.arange(80), np.arange(80, 240)
    stats = [GramStatistics.from_arrays(X[rows], Y[rows]) for rows in (train, test)]
    grid = l1_grid(stats[0].kkt_start()[0], 10)
    found = fold_surface(*stats, (1, 2), grid, relax=relax, recipe=Recipe()).loss[0]
    for row, rank in enumerate((1, 2)):
        worth_choosing = np.flatnonzero(found[row] <= 1.02 * found[row].min())
        for t in (worth_choosing[0], worth_choosing[-1]):
            model = DST2R(rank, l1=grid[t], relax=relax).fit(X[train], Y[train])
            error = np.sum((Y[test] - model.predict(X[test])) ** 2) / (2 * len(test))
            assert_allclose(found[row, t], error, rtol=0.1)


def test_fold_surface_of_constant_responses_is_that_of_the_mean():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 3, 2)), np.full((60, 2), 3.0)
    train, test = GramStatistics.from_arrays(X[:40], Y[:40]), GramStatistics.from_arrays(X[40:], Y[40:] + 1.0)
    found = fold_surface(train, test, (1, 2), np.array([0.0, 0.1]), relax=True, recipe=Recipe())
    assert_allclose(found.loss, 2 * 0.5)
    assert_array_equal(found.n_parameters, 0)


# --- small rules ------------------------------------------------------------------------------------------------------


def search_path(l1, loss, factors):
    l1, loss = np.array(l1, float), np.array(loss, float)
    return SearchPath(l1, np.ones(l1.size), loss, np.array(factors, float), (2,), (2,))


def test_pick_at_takes_the_last_point_that_is_not_below():
    path = search_path([5, 3, 3, 1], [4, 3, 2, 1], np.ones((4, 4)))
    assert [pick_at(l1)(path) for l1 in (5, 4, 3, 2, 1, 0)] == [0, 0, 2, 2, 3, 3]
    assert pick_at(9)(path) == 0  # the path begins below: its first point is all there is


def test_pick_by_takes_the_point_with_the_least_criterion():
    factors = [[1, 0, 1, 0], [1, 1, 1, 0], [1, 1, 1, 1]]  # 1, 2 and 3 free numbers
    path = search_path([3, 2, 1], [1.0, 0.5, 0.49], factors)
    criterion = Criterion(100.0, 5.0, 3.0)
    values = [100 * math.log(loss) + 5 * k for loss, k in zip([1.0, 0.5, 0.49], [1, 2, 3], strict=True)]
    assert pick_by(criterion)(path) == int(np.argmin(values)) == 1
    assert pick_by(Criterion(100.0, 100.0, 3.0))(path) == 0
    assert pick_by(Criterion(100.0, 0.1, 3.0))(path) == 2


def test_pick_by_on_a_real_path_balances_fit_and_size():
    X, Y = vector_data(n=200, seed=1)
    stats = GramStatistics.from_arrays(X, Y)
    path = search(stats)
    t = pick_by(Criterion.named("bic", stats))(path)
    values = [
        bic_by_hand(loss, np.count_nonzero(f), 200, 8, 1) for loss, f in zip(path.loss, path.factors, strict=True)
    ]
    assert t == int(np.argmin(values))


@pytest.mark.parametrize(
    ("n", "x_shape", "y_shape", "rank", "expected"),
    [
        (20, (10,), (), 1, False),  # 40 needed for 10 numbers
        (40, (10,), (), 1, True),
        (39, (10,), (), 1, False),
        (40, (10,), (10,), 2, True),  # 40 = 2 x 20 in the widest block; 400 responses for 40 numbers
        (39, (10,), (10,), 2, False),
        (48, (2, 2), (2,), 4, True),  # 96 = 4 x 24 response entries
        (47, (2, 2), (2,), 4, False),
    ],
)
def test_well_posed_asks_for_twice_the_widest_block_and_four_times_the_numbers(n, x_shape, y_shape, rank, expected):
    rng = np.random.default_rng(0)
    stats = GramStatistics.from_arrays(rng.normal(size=(n, *x_shape)), rng.normal(size=(n, *y_shape)))
    assert well_posed(stats, rank) == expected


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_a_ridge_carries_what_samples_do_not(unit):
    """From a hundredth of the predictors' mean variance on, whatever their units."""
    rng = np.random.default_rng(0)
    stats = GramStatistics.from_arrays(unit * rng.normal(size=(20, 30)), rng.normal(size=20))
    assert [well_posed(stats.ridged(share * unit**2), 1) for share in (0.0, 1e-3, 0.1)] == [False, False, True]
