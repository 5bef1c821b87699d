"""Correction against finite differences of an objective on rows, certificates and closed-form solutions."""

from functools import reduce

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Lasso, Ridge

from dst2r.correction import (
    Correction,
    Recipe,
    grow,
    least_squares,
    local_model,
    penalised,
    penalty_weights,
    restart,
)
from dst2r.cp import CPCoefficient, max_rank
from dst2r.simulation import make_tensor_regression
from dst2r.statistics import GramStatistics

SHAPES = [
    ((5,), ()),
    ((5,), (4,)),
    ((4, 3), ()),
    ((3, 4), (3,)),
    ((3, 2), (2, 3)),
    ((3, 2, 2), (2, 3)),
    ((4, 1), (1, 3)),
]


# --- the objective once more, sample by sample, from its definition ---------------------------------------------------


def dense(factors):
    """Sum over components of outer products."""
    rank = factors[0].shape[1]
    shape = tuple(len(f) for f in factors)
    return sum((reduce(np.multiply.outer, [f[:, r] for f in factors]) for r in range(rank)), np.zeros(shape))


def residuals(X, Y, factors, n_x_modes, intercept=True):
    """``Y - <<X, B>>``, both centred, shape (n, *y_shape)."""
    if intercept:
        X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    return Y - np.tensordot(X, dense(factors), n_x_modes)


def penalty(factors):
    return sum(np.prod([np.abs(f[:, r]).sum() for f in factors]) for r in range(factors[0].shape[1]))


class Rows:
    """F of equation (1) as a function of the vector of all factor entries."""

    def __init__(self, X, Y, coef, l1=0.0, l2=0.0):
        self.X, self.Y, self.l1, self.l2 = X, Y, l1, l2
        self.sizes, self.n_x_modes = [f.shape for f in coef.factors], coef.n_x_modes

    def factors(self, entries):
        parts = np.split(entries, np.cumsum([r * c for r, c in self.sizes])[:-1])
        return [part.reshape(size) for part, size in zip(parts, self.sizes, strict=True)]

    def residuals(self, entries):
        return residuals(self.X, self.Y, self.factors(entries), self.n_x_modes).ravel()

    def loss(self, entries):
        ridge = np.sum(dense(self.factors(entries)) ** 2)
        return np.sum(self.residuals(entries) ** 2) / (2 * len(self.X)) + self.l2 / 2 * ridge

    def __call__(self, entries):
        return self.loss(entries) + self.l1 * penalty(self.factors(entries))

    def jacobian(self, entries, h=1e-2):
        """Of the residuals over sqrt(n); they are linear in every single entry, so that differences are exact."""
        columns = []
        for j in range(entries.size):
            step = h * np.eye(entries.size)[j]
            columns.append((self.residuals(entries + step) - self.residuals(entries - step)) / (2 * h))
        return np.array(columns).T / np.sqrt(len(self.X))

    def gradient(self, entries, h=1e-3):
        return np.array(
            [(self.loss(entries + h * e) - self.loss(entries - h * e)) / (2 * h) for e in np.eye(entries.size)]
        )

    def slopes(self, entries, h=1e-3):
        """One-sided slopes of F, down and up: differences over ``h`` without the part of the curvature.

        On either side of zero F is a quadratic in a single entry, so that three values give its slope exactly.
        """
        here, out = self(entries), []
        for j, e in enumerate(np.eye(entries.size)):
            both = []
            for sign in (-1.0, 1.0):
                size = min(h, abs(entries[j]) / 4) if sign * entries[j] < 0 else h
                near, far = self(entries + sign * size * e), self(entries + 2 * sign * size * e)
                both.append((4 * near - far - 3 * here) / (2 * size))
            out.append(both)
        return np.array(out).T

    def best_single_moves(self, entries):
        """F after the best move of each single entry: its minimiser is a soft threshold."""
        out = []
        for e in np.eye(entries.size):
            rest = entries * (1 - e)
            low, mid, high = (self.loss(rest + t * e) for t in (-1.0, 0.0, 1.0))
            slope, curvature = (high - low) / 2, low + high - 2 * mid
            threshold = self.l1 * (penalty(self.factors(rest + e)) - penalty(self.factors(rest)))
            best = -np.sign(slope) * max(abs(slope) - threshold, 0.0) / curvature if curvature > 0 else 0.0
            out.append(min(self(rest + best * e), self(rest)))
        return np.array(out)


def assert_stationary(rows, coef, tol, free=None):
    """The certificate: hardly any slope in any entry, and no entry or component whose best move lowers F by much.

    A correction ends when F can fall by ``tol**2`` of itself to first order; a hundred times that is left to it.
    """
    entries, value = coef.ravel(), rows(coef.ravel())
    free = np.ones(entries.size, bool) if free is None else free
    scale = np.sqrt((rows.jacobian(entries) ** 2).sum(axis=0).max() * value)
    assert rows.slopes(entries)[:, free].min() >= -20 * tol * scale - 1e-9 * value
    allowed = 100 * tol**2 * value + 1e-12 * value
    assert (value - rows.best_single_moves(entries))[free].max() <= allowed
    for r in range(coef.rank):
        without = [f * (np.arange(coef.rank) != r) for f in coef.factors]
        assert value - rows(np.concatenate([f.ravel() for f in without])) <= allowed


def planted(x_shape, y_shape, rank=2, n=120, noise=0.5, seed=0):
    """Components of one size: a much smaller one would be below the noise, and the optimum without it degenerate."""
    design = {"sparsity": 0.3, "normalize": True, "x_distribution": "normal"}
    return make_tensor_regression(n, x_shape, y_shape, rank=rank, snr=1 / noise**2, random_state=seed, **design)


def some_coef(x_shape, y_shape, rank, seed=1, zeros=0.0):
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(d, rank)) * rng.uniform(0.5, 2) for d in x_shape + y_shape]
    for f in factors:
        f[rng.random(f.shape) < zeros] = 0.0
        f[0] = np.where((f == 0).all(axis=0), 1.0, f[0])
    return CPCoefficient(tuple(factors), len(x_shape))


def ols(X, Y, l2=0.0):
    """Coefficient (P, Q) and half the mean squared residual of ridge regression on centred rows."""
    n = len(X)
    X, Y = (A.reshape(n, -1) - A.reshape(n, -1).mean(axis=0) for A in (X, Y))
    coef = np.linalg.solve(X.T @ X / n + l2 * np.eye(X.shape[1]), X.T @ Y / n)
    return coef, np.sum((Y - X @ coef) ** 2) / (2 * n)


# --- the local model --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rank", [1, 3])
def test_local_model_has_the_loss_and_gradient_of_the_rows(shape, rank):
    data = planted(*shape)
    coef = some_coef(*shape, rank, zeros=0.2)
    model = local_model(GramStatistics.from_arrays(data.X, data.Y), coef)
    rows = Rows(data.X, data.Y, coef)
    assert_allclose(model.coef.to_tensor(), dense(coef.factors), rtol=1e-12, atol=1e-12)
    assert_allclose(model.loss, rows.loss(coef.ravel()), rtol=1e-11)
    gradient = rows.gradient(model.coef.ravel())
    assert_allclose(model.gradient, gradient, rtol=1e-6, atol=1e-7 * np.abs(gradient).max())


def exchanges(coef):
    """Directions that move scale from the first mode of a component to another one, as columns."""
    out = []
    for r in range(coef.rank):
        for k in range(1, len(coef.factors)):
            parts = [np.zeros_like(f) for f in coef.factors]
            parts[0][:, r], parts[k][:, r] = coef.factors[0][:, r], -coef.factors[k][:, r]
            out.append(np.concatenate([p.ravel() for p in parts]))
    return np.array(out).T.reshape(coef.ravel().size, len(out))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rank", [1, 3])
def test_hessian_is_gauss_newton_plus_curvature_along_scale_exchanges(shape, rank):
    data = planted(*shape)
    model = local_model(GramStatistics.from_arrays(data.X, data.Y), some_coef(*shape, rank))
    J = Rows(data.X, data.Y, model.coef).jacobian(model.coef.ravel())
    gauge = model.hessian - J.T @ J
    size = np.abs(model.hessian).max()
    assert_allclose(model.hessian, model.hessian.T, atol=1e-12 * size)

    Z = exchanges(model.coef)
    assert_allclose(J @ Z, 0, atol=1e-9 * np.abs(J).max())  # scale exchanges do not move the prediction
    assert_allclose(model.gradient @ Z, 0, atol=1e-9 * np.abs(model.gradient).max())
    basis = np.linalg.qr(Z)[0]
    across = gauge - basis @ (basis.T @ gauge)
    assert_allclose(across, 0, atol=1e-9 * size)  # the rest acts on exchanges only
    if Z.size:
        assert np.linalg.eigvalsh(basis.T @ gauge @ basis).min() > 1e-3 * model.hessian.diagonal().mean()


def test_local_model_of_a_ridged_sample_contains_the_ridge():
    shape = ((3, 4), (3,))
    data, coef = planted(*shape), some_coef(*shape, 2)
    model = local_model(GramStatistics.from_arrays(data.X, data.Y).ridged(0.7), coef)
    rows = Rows(data.X, data.Y, coef, l2=0.7)
    assert_allclose(model.loss, rows.loss(coef.ravel()), rtol=1e-11)
    gradient = rows.gradient(model.coef.ravel())
    assert_allclose(model.gradient, gradient, rtol=1e-6, atol=1e-7 * np.abs(gradient).max())


def test_local_model_without_components_is_the_zero_tensor():
    data = planted((3, 4), (3,))
    model = local_model(GramStatistics.from_arrays(data.X, data.Y), CPCoefficient.empty((3, 4), (3,)))
    assert_allclose(model.loss, np.sum((data.Y - data.Y.mean(axis=0)) ** 2) / (2 * len(data.Y)))
    assert model.gradient.size == model.hessian.size == 0


@pytest.mark.parametrize("shape", SHAPES)
def test_penalty_weights_are_the_one_sided_slopes_of_the_penalty(shape):
    coef = some_coef(*shape, min(2, max_rank(shape[0] + shape[1])), zeros=0.3)
    entries, weights = coef.ravel(), penalty_weights(coef)
    for j, e in enumerate(np.eye(entries.size)):
        direction = e if entries[j] >= 0 else -e
        up = penalty(coef.with_entries(entries + 0.1 * direction).factors)
        assert_allclose((up - penalty(coef.factors)) / 0.1, weights[j], rtol=1e-9)


# --- least squares ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("l1", [0.0, 0.05])
@pytest.mark.parametrize("shape", SHAPES[1:6])
def test_objective_never_rises_from_step_to_step(shape, l1):
    data, start = planted(*shape, seed=3), some_coef(*shape, 3, seed=4)
    stats, rows = GramStatistics.from_arrays(data.X, data.Y), Rows(data.X, data.Y, start, l1)
    values = [rows(start.ravel())]
    for steps in range(1, 16):
        if l1 == 0.0:
            fit = least_squares(stats, start, max_iter=steps, tol=1e-12)
        else:
            fit = penalised(stats, start, l1, max_iter=steps, tol=1e-12)
        values.append(rows(fit.coef.ravel()))
        assert_allclose(fit.model.loss, rows.loss(fit.coef.ravel()), rtol=1e-9)  # the model is that of the coefficient
    assert (np.diff(values) <= 1e-12 * values[0]).all()
    assert values[-1] < 0.9 * values[0]


@pytest.mark.parametrize("l1", [0.0, 0.05])
@pytest.mark.parametrize("scale", [1e-2, 1.0, 5.0])
@pytest.mark.parametrize("seed", range(4))
def test_objective_never_rises_from_poor_starts(seed, scale, l1):
    """Far too large, far too small, nearly the same component twice: full steps would overshoot."""
    shape = ((4, 3), (3,))
    data, start = planted(*shape, seed=seed), some_coef(*shape, 1, seed=seed)
    twice = start.append(start.with_entries(start.ravel() * 1.01)).append(some_coef(*shape, 1, seed=seed + 9))
    start = CPCoefficient(tuple(scale * f for f in twice.factors), 2)
    stats, rows = GramStatistics.from_arrays(data.X, data.Y), Rows(data.X, data.Y, start, l1)
    values = [rows(start.ravel())]
    for steps in range(1, 25):
        fit = penalised(stats, start, l1, max_iter=steps, tol=1e-12)
        values.append(rows(fit.coef.ravel()))
    assert (np.diff(values) <= 1e-9 * np.array(values[:-1])).all()


def near_truth(data, seed, size=0.3):
    """The true factors, disturbed where they are not zero."""
    rng = np.random.default_rng(seed)
    factors = tuple(f * (1 + size * rng.uniform(-1, 1, f.shape)) for f in data.factors)
    return CPCoefficient(factors, data.X.ndim - 1)


@pytest.mark.parametrize("tol", [1e-3, 1e-7])
@pytest.mark.parametrize("shape", SHAPES)
def test_least_squares_ends_where_no_entry_can_lower_the_loss(shape, tol):
    data = planted(*shape, rank=2, seed=5)
    stats = GramStatistics.from_arrays(data.X, data.Y)
    fit = least_squares(stats, near_truth(data, 6), tol=tol, max_iter=500)
    assert fit.converged
    rows = Rows(data.X, data.Y, fit.coef)
    assert_stationary(rows, fit.coef, tol)
    # and all entries together: the fall that Gauss-Newton on the rows promises is about tol^2 of the loss
    entries = fit.coef.ravel()
    J, residual = rows.jacobian(entries), rows.residuals(entries) / np.sqrt(len(data.X))
    fall = np.sum((J @ np.linalg.lstsq(J, residual, rcond=1e-9)[0]) ** 2) / 2
    assert fall <= 10 * tol**2 * rows(entries) + 1e-13 * stats.y_scale


@pytest.mark.parametrize("shape", SHAPES[1:6])
def test_least_squares_on_a_support_leaves_the_rest_at_zero(shape):
    data = planted(*shape, seed=8)
    start = near_truth(data, 8)
    support = start.ravel() != 0
    assert not support.all()
    fit = least_squares(GramStatistics.from_arrays(data.X, data.Y), start, support=support, tol=1e-7, max_iter=500)
    assert fit.converged
    assert_array_equal(fit.coef.ravel()[~support], 0.0)
    assert_stationary(Rows(data.X, data.Y, start), fit.coef, 1e-7, free=support)


def test_support_may_be_wider_than_the_start():
    data = planted((5,), (), rank=1)
    start = CPCoefficient((np.array([[1.0], [0], [0], [0], [0]]),), 1)
    support = np.array([True, True, False, True, False])
    fit = least_squares(GramStatistics.from_arrays(data.X, data.Y), start, support=support, tol=1e-10)
    assert_allclose(fit.coef.to_tensor()[support], ols(data.X[:, support], data.Y)[0][:, 0], rtol=1e-8)
    assert_array_equal(fit.coef.to_tensor()[~support], 0)


def test_vector_predictor_and_scalar_response_is_ordinary_least_squares():
    data = planted((6,), (), rank=1)
    fit = least_squares(GramStatistics.from_arrays(data.X, data.Y), some_coef((6,), (), 1))
    assert fit.converged
    coef, loss = ols(data.X, data.Y)
    assert_allclose(fit.coef.to_tensor(), coef[:, 0], rtol=1e-8)
    assert_allclose(fit.model.loss, loss, rtol=1e-10)


def reduced_rank(X, Y, rank):
    """Best (P, Q) coefficient of a rank: OLS projected on the leading right singular vectors of its fit."""
    full = ols(X, Y)[0]
    right = np.linalg.svd((X - X.mean(axis=0)) @ full, full_matrices=False)[2][:rank]
    return full @ right.T @ right


def grown(stats, rank, correction="full", tol=1e-8):
    """What the estimators do without sparsity: grow, then correct to the end."""
    fit = grow(stats, rank, Recipe(correction=correction)).fits[-1]
    return least_squares(stats, fit.coef, tol=tol, max_iter=1000)


@pytest.mark.parametrize("rank", [1, 2, 3, 5])
@pytest.mark.parametrize("correction", ["full", "final"])
def test_matrix_coefficient_without_penalty_is_reduced_rank_regression(rank, correction):
    data = planted((7,), (5,), rank=3, noise=0.7, seed=9)
    fit = grown(GramStatistics.from_arrays(data.X, data.Y), rank, correction)
    assert fit.converged
    expected = reduced_rank(data.X, data.Y, rank)
    assert_allclose(fit.coef.to_tensor(), expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("shape", [((6, 5), ()), ((6, 5), (4,)), ((4, 4, 3), (3, 2))])
@pytest.mark.parametrize("seed", range(4))
def test_the_search_leads_to_the_optimum_that_the_truth_leads_to(shape, seed):
    """Without penalty there are many local minima; least squares from the truth ends in the best that is known."""
    data = planted(*shape, rank=3, n=400, noise=0.5, seed=seed)
    stats = GramStatistics.from_arrays(data.X, data.Y)
    truth = least_squares(stats, CPCoefficient(data.factors, len(shape[0])), tol=1e-8, max_iter=1000)
    assert grown(stats, 3).model.loss <= truth.model.loss * (1 + 1e-6)


@pytest.mark.parametrize("l2", [0.0, 0.3])
@pytest.mark.parametrize("shape", [((2, 3), ()), ((3, 2), (2,)), ((2, 2), (2, 2))])
def test_full_rank_without_sparsity_is_ordinary_least_squares_or_ridge(shape, l2):
    data = planted(*shape, rank=2, seed=10)
    fit = grown(GramStatistics.from_arrays(data.X, data.Y).ridged(l2), max_rank(shape[0] + shape[1]))
    n = len(data.X)
    ridge = Ridge(alpha=n * l2, tol=1e-12).fit(data.X.reshape(n, -1), data.Y.reshape(n, -1))
    expected = ridge.coef_.T.reshape(data.coef.shape)
    rows = Rows(data.X, data.Y, fit.coef, l2=l2)
    best = np.sum((data.Y - ridge.predict(data.X.reshape(n, -1)).reshape(data.Y.shape)) ** 2) / (2 * n)
    assert_allclose(rows(fit.coef.ravel()), best + l2 / 2 * np.sum(expected**2), rtol=1e-8)
    assert_allclose(fit.coef.to_tensor(), expected, atol=1e-3 * np.abs(expected).max())


def test_max_iter_is_respected_and_told():
    data = planted((3, 4), (3,), seed=11)
    fit = least_squares(GramStatistics.from_arrays(data.X, data.Y), some_coef((3, 4), (3,), 2), max_iter=2)
    assert not fit.converged
    assert fit.n_iter == 2


def test_start_is_not_modified():
    data, start = planted((3, 4), (3,)), some_coef((3, 4), (3,), 2)
    before = start.ravel().copy()
    stats = GramStatistics.from_arrays(data.X, data.Y)
    gram, cross = stats.gram.copy(), stats.cross.copy()
    least_squares(stats, start)
    penalised(stats, start, 0.1)
    local_model(stats, start)
    assert_array_equal(start.ravel(), before)
    assert_array_equal(stats.gram, gram)
    assert_array_equal(stats.cross, cross)


# --- penalised --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("shape", SHAPES)
def test_penalised_ends_where_no_entry_can_lower_the_objective(shape, share):
    data = planted(*shape, rank=2, seed=12)
    stats = GramStatistics.from_arrays(data.X, data.Y)
    l1 = share * stats.kkt_start()[0]
    rank = min(2, max_rank(shape[0] + shape[1]))
    start = grow(stats, rank, Recipe()).fits[-1].coef
    fit = penalised(stats, start, l1, tol=1e-6, max_iter=1000)
    assert fit.converged
    assert (fit.coef.l1_norms() > 0).any()
    assert_stationary(Rows(data.X, data.Y, fit.coef, l1), fit.coef, 1e-6)


@pytest.mark.parametrize("shape", [((3, 2), (2, 3)), ((3, 2, 2), (2, 3))])
def test_a_component_that_does_not_pay_goes_to_zero(shape):
    """A component that only shrinks and shrinks has not converged: dropping it would lower the objective at once."""
    data = make_tensor_regression(120, *shape, rank=2, sparsity=0.3, snr=4, x_distribution="normal", random_state=12)
    stats = GramStatistics.from_arrays(data.X, data.Y)
    l1 = 0.1 * stats.kkt_start()[0]
    start = grow(stats, 2, Recipe()).fits[-1].coef
    fit = penalised(stats, start, l1, tol=1e-6, max_iter=1000)
    assert fit.converged
    assert np.count_nonzero(fit.coef.l1_norms()) == 1
    assert_stationary(Rows(data.X, data.Y, fit.coef, l1), fit.coef, 1e-6)


def test_the_certificate_can_tell():
    """On the same problem an entry that is a little off is found, whether it was zero or not."""
    shape = ((3, 4), (3,))
    data = planted(*shape, rank=2, seed=12)
    stats = GramStatistics.from_arrays(data.X, data.Y)
    l1 = 0.3 * stats.kkt_start()[0]
    coef = penalised(stats, grow(stats, 2, Recipe()).fits[-1].coef, l1, tol=1e-6, max_iter=1000).coef
    entries = coef.ravel()
    assert (entries == 0).any()
    for j in (np.abs(entries).argmax(), np.flatnonzero(entries == 0)[0]):
        off = entries.copy()
        off[j] += 1e-3
        with pytest.raises(AssertionError):
            assert_stationary(Rows(data.X, data.Y, coef, l1), coef.with_entries(off), 1e-6)


@pytest.mark.parametrize("share", [0.001, 0.03, 0.2, 0.6, 0.95])
def test_vector_case_is_the_lasso(share):
    data = make_tensor_regression(60, (12,), (), rank=1, sparsity=0.5, snr=2.0, x_distribution="normal", random_state=2)
    stats = GramStatistics.from_arrays(data.X, data.Y)
    l1 = share * np.abs((data.X - data.X.mean(axis=0)).T @ (data.Y - data.Y.mean())).max() / 60
    lasso = Lasso(alpha=l1, tol=1e-12, max_iter=100_000).fit(data.X, data.Y).coef_
    for seed in (0, 1):
        fit = penalised(stats, some_coef((12,), (), 1, seed=seed), l1, tol=1e-9, max_iter=1000)
        assert fit.converged
        assert_allclose(fit.coef.to_tensor(), lasso, atol=1e-6 * np.abs(lasso).max())
        assert_array_equal(fit.coef.to_tensor() == 0, lasso == 0)


@pytest.mark.parametrize("shape", SHAPES)
def test_from_the_largest_covariance_on_only_zero_is_left(shape):
    data = planted(*shape, seed=13)
    stats = GramStatistics.from_arrays(data.X, data.Y)
    n = len(data.X)
    centred = [A.reshape(n, -1) - A.reshape(n, -1).mean(axis=0) for A in (data.X, data.Y)]
    l1_max = np.abs(centred[0].T @ centred[1]).max() / n
    fit = penalised(stats, some_coef(*shape, 1), 1.01 * l1_max, max_iter=1000)
    assert fit.converged
    assert_array_equal(fit.coef.to_tensor(), 0.0)


def test_just_below_the_largest_covariance_the_vector_case_is_not_zero():
    data = planted((6,), (), rank=1)
    stats = GramStatistics.from_arrays(data.X, data.Y)
    l1_max = np.abs((data.X - data.X.mean(axis=0)).T @ (data.Y - data.Y.mean())).max() / len(data.X)
    for share, nonzero in ((1.0, 0), (0.99, 1)):
        fit = penalised(stats, some_coef((6,), (), 1), share * l1_max, tol=1e-8, max_iter=1000)
        assert np.count_nonzero(fit.coef.to_tensor()) == nonzero


# --- growing and restarting -------------------------------------------------------------------------------------------


def test_growth_keeps_every_rank_and_tells_about_it():
    data = planted((4, 3), (3,), rank=3, seed=14)
    stats, told = GramStatistics.from_arrays(data.X, data.Y), []
    growth = grow(stats, 3, Recipe(), wanted=(1, 2), on_component=lambda r, loss: told.append((r, loss)))
    assert [fit.coef.rank for fit in growth.fits] == [1, 2, 3]
    assert told == [(r, growth.fits[r - 1].model.loss) for r in (1, 2, 3)]
    assert len(growth.paths) == 3
    losses = [fit.model.loss for fit in growth.fits]
    assert losses == sorted(losses, reverse=True)
    for fit in growth.fits:  # nested models are corrected ones, not steps on the way
        assert fit.converged
        polished = least_squares(stats, fit.coef, tol=1e-8, max_iter=500)
        assert fit.model.loss <= polished.model.loss * (1 + 1e-3)


def test_growth_keeps_what_is_wanted_and_the_last_that_there_is():
    data = planted((4, 3), (3,), rank=2, seed=14)
    stats = GramStatistics.from_arrays(data.X, data.Y)
    growth = grow(stats, 4, Recipe(), wanted=(2,))
    assert growth.ranks == [2, 4]
    assert [growth.up_to(rank) for rank in (2, 3, 4, 5)] == [0, 0, 1, 1]
    assert_allclose(growth.fits[0].model.loss, grow(stats, 2, Recipe()).fits[-1].model.loss, rtol=1e-3)
    exhausted = GramStatistics.from_arrays(data.X[:, :, :1], data.X[:, 0, :1])  # one entry of X explains all of Y
    growth = grow(exhausted, 5, Recipe(), wanted=(4,))
    assert len(growth.fits) == 1
    assert growth.ranks == [len(growth.paths)] < [4]
    assert growth.up_to(4) == 0


@pytest.mark.parametrize("seed", range(6))
def test_no_stage_ends_above_its_search(seed):
    """Collinear predictors and much noise: a single step, trusted blindly, would raise the loss."""
    data = planted((5,), (4,), rank=3, n=40, noise=2.0, seed=seed)
    rng = np.random.default_rng(seed)
    X = data.X @ (0.1 * np.eye(5) + rng.normal(size=(5, 5)))
    growth = grow(GramStatistics.from_arrays(X, data.Y), 4, Recipe())
    for (coef, loss), path in zip(growth.stages, growth.paths, strict=True):
        assert loss <= path.loss[-1] * (1 + 1e-12)
        assert_allclose(loss, Rows(X, data.Y, coef).loss(coef.ravel()), rtol=1e-9)


def test_without_correction_components_are_search_results_of_the_residual():
    data = planted((4, 3), (3,), rank=2, seed=14)
    stats = GramStatistics.from_arrays(data.X, data.Y)
    growth = grow(stats, 2, Recipe(correction="none"))
    total = growth.fits[-1].coef.to_tensor()
    first, second = (path.coefficient(len(path) - 1).to_tensor() for path in growth.paths)
    assert_allclose(total, first + second, atol=1e-12)
    left = data.Y - np.tensordot(data.X, first, 2)
    alone = grow(GramStatistics.from_arrays(data.X, left), 1, Recipe(correction="none")).fits[0]
    assert_allclose(alone.coef.to_tensor(), second, atol=1e-8 * np.abs(second).max())


def test_final_correction_starts_from_the_uncorrected_components():
    data = planted((4, 3), (3,), rank=2, seed=14)
    stats = GramStatistics.from_arrays(data.X, data.Y)
    greedy = grow(stats, 2, Recipe(correction="none"))
    final = grow(stats, 2, Recipe(correction="final"))
    for one, other in zip(greedy.paths, final.paths, strict=True):
        assert_allclose(one.loss[-1], other.loss[-1], rtol=1e-10)
    assert final.fits[-1].model.loss < greedy.fits[-1].model.loss
    ends = [least_squares(stats, run.fits[-1].coef, tol=1e-8).coef.to_tensor() for run in (greedy, final)]
    assert_allclose(ends[0], ends[1], atol=1e-5 * np.abs(data.coef).max())


def test_final_correction_of_nested_models_leaves_the_search_alone():
    """Every rank is corrected on its own; the next search goes on from the uncorrected components."""
    data = planted((4, 3), (3,), rank=3, seed=14)
    stats = GramStatistics.from_arrays(data.X, data.Y)
    nested = grow(stats, 3, Recipe(correction="final"), wanted=(1, 2, 3))
    for rank, fit in enumerate(nested.fits, start=1):
        alone = grow(stats, rank, Recipe(correction="final")).fits[-1]
        assert_allclose(fit.coef.to_tensor(), alone.coef.to_tensor(), atol=1e-8)


def test_correction_without_deflation_bias_beats_the_search():
    """Overlapping components: greedy search leaves error that the joint correction takes out."""
    data = make_tensor_regression(500, (6, 5), (4,), rank=3, sparsity=0.2, snr=25, random_state=1)
    stats = GramStatistics.from_arrays(data.X, data.Y)
    errors = {}
    for correction in ("none", "full"):
        fit = grow(stats, 3, Recipe(correction=correction)).fits[-1]
        errors[correction] = np.linalg.norm(fit.coef.to_tensor() - data.coef)
    assert errors["full"] < 0.5 * errors["none"]


def test_a_residual_without_covariance_ends_the_growth():
    rng = np.random.default_rng(0)
    stats = GramStatistics.from_arrays(rng.normal(size=(50, 3, 2)), np.zeros((50, 2)))
    growth = grow(stats, 2, Recipe())
    assert growth.fits == growth.paths == []


def test_pick_sets_the_penalty_of_the_correction():
    data = planted((6,), (), rank=1, seed=15)
    stats = GramStatistics.from_arrays(data.X, data.Y)
    growth = grow(stats, 1, Recipe(tol=1e-8), pick=lambda path: len(path) // 3)
    l1 = growth.paths[0].l1[len(growth.paths[0]) // 3]
    lasso = Lasso(alpha=l1, tol=1e-12).fit(data.X, data.Y).coef_
    assert_allclose(growth.fits[0].coef.to_tensor(), lasso, atol=1e-5 * np.abs(lasso).max())


def test_the_penalty_never_rises_from_component_to_component():
    """A later path, stopped early, would ask for more: what the first components gave up they cannot take back."""
    data = planted((4, 3), (3,), rank=2, seed=15)
    stats, points = GramStatistics.from_arrays(data.X, data.Y), iter([True, False])
    growth = grow(stats, 2, Recipe(), pick=lambda path: len(path) - 1 if next(points) else 0, wanted=(1,))
    first, second = growth.paths
    assert second.l1[0] > first.l1[-1]
    assert_allclose(growth.l1, first.l1[-1])


@pytest.mark.parametrize("seed", range(3))
def test_restart_never_worsens_and_leaves_a_poor_point(seed):
    data = planted((4, 3), (3,), rank=2, seed=16)
    stats = GramStatistics.from_arrays(data.X, data.Y)
    good = least_squares(stats, CPCoefficient(data.factors, 2))
    again = restart(stats, good, 3, np.random.default_rng(seed), Recipe())
    assert again.model.loss <= good.model.loss
    poor = Correction(local_model(stats, some_coef((4, 3), (3,), 2)), 0, True)
    better = restart(stats, poor, 3, np.random.default_rng(seed), Recipe())
    assert better.model.loss < 0.5 * poor.model.loss
    assert_stationary(Rows(data.X, data.Y, better.coef), better.coef, 1e-5)


def test_random_starts_do_not_see_units():
    """They are drawn around one and brought to the size of the coefficients: as many steps, whatever that is."""
    data, fits = planted((4, 3), (3,), rank=2, seed=16), []
    for unit in (1e-6, 1.0, 1e6):
        stats = GramStatistics.from_arrays(data.X, unit * data.Y)
        zero = CPCoefficient(tuple(np.zeros((d, 2)) for d in (4, 3, 3)), 2)
        poor = Correction(local_model(stats, zero), 0, True)
        fits.append(restart(stats, poor, 1, np.random.default_rng(0), Recipe()))
        assert_allclose(fits[-1].model.loss, fits[0].model.loss * (unit / 1e-6) ** 2, rtol=1e-8)
    assert len({fit.n_iter for fit in fits}) == 1


def test_no_restarts_is_the_same_fit():
    data = planted((4, 3), (3,))
    fit = least_squares(GramStatistics.from_arrays(data.X, data.Y), some_coef((4, 3), (3,), 2))
    stats = GramStatistics.from_arrays(data.X, data.Y)
    assert restart(stats, fit, 0, np.random.default_rng(0), Recipe()) is fit
