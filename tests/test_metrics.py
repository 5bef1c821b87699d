"""Metrics against definitions written out by loops, and against scikit-learn."""

from functools import reduce
from itertools import permutations

import numpy as np
import pytest
import sklearn.metrics
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV
from tensorly.cp_tensor import CPTensor

from dst2r import DST2R
from dst2r.metrics import (
    estimation_error,
    explained_variance_score,
    mean_squared_error,
    permutation_importance,
    pooled_r2,
    r2_score,
    relative_error,
    selection_rates,
    support_rates,
)

SIZES = (6, 5, 4)


def sparse_factors(rng, rank, zeros=0.5):
    """Factor matrices with a zero and a non-zero entry in every vector."""
    factors = [rng.standard_normal((d, rank)) * (rng.random((d, rank)) >= zeros) for d in SIZES]
    for f in factors:
        f[-1] = 0
        f[0] = np.where((f == 0).all(axis=0), 1.0, f[0])
    return factors


def perturbed(rng, factors):
    """An estimate: some zeros filled, some entries dropped, noise, components shuffled."""
    noisy = [f + 0.3 * rng.standard_normal(f.shape) * (rng.random(f.shape) < 0.5) for f in factors]
    for f in noisy:
        f[1:][rng.random((len(f) - 1, f.shape[1])) < 0.2] = 0
        f[0] = np.where((f == 0).all(axis=0), 1.0, f[0])
    order = rng.permutation(factors[0].shape[1])
    return [f[:, order] for f in noisy]


def rank_one(factors, r):
    return reduce(np.multiply.outer, [f[:, r] for f in factors])


def brute_force_rates(estimate, truth):
    """Rates by mode under the best of all pairings, scored by cosines of dense rank-one tensors."""
    n_found, n_true = estimate[0].shape[1], truth[0].shape[1]

    def cosine(t, f):
        a, b = rank_one(truth, t), rank_one(estimate, f)
        return abs((a * b).sum()) / np.linalg.norm(a) / np.linalg.norm(b)

    # None stands for "no partner", so that every injective pairing is among the permutations.
    candidates = [*range(n_found), *[None] * max(0, n_true - n_found)]
    best = max(
        permutations(candidates, n_true),
        key=lambda p: sum(cosine(t, f) for t, f in enumerate(p) if f is not None),
    )
    tpr, fpr, missed = [], [], []
    for true, found in zip(truth, estimate, strict=True):
        counts = {True: [0, 0], False: [0, 0]}
        for t, f in enumerate(best):
            for i in range(len(true)):
                hit = f is not None and bool(found[i, f] != 0)
                counts[bool(true[i, t] != 0)][hit] += 1
                if true[i, t] != 0 and not hit:
                    missed.append(abs(true[i, t]) / max(abs(true[:, t])))
        tpr.append(counts[True][1] / sum(counts[True]))
        fpr.append(counts[False][1] / sum(counts[False]))
    return tpr, fpr, sorted(missed, reverse=True)


def assert_same_rates(a, b):
    assert_allclose([a.tpr, a.fpr], [b.tpr, b.fpr])
    assert_allclose(a.tpr_per_mode, b.tpr_per_mode)
    assert_allclose(a.fpr_per_mode, b.fpr_per_mode)
    assert_allclose(a.missed, b.missed)
    assert a.n_extra == b.n_extra


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("n_true", "n_found"), [(1, 1), (4, 4), (4, 2), (2, 4)])
def test_rates_are_those_of_the_best_pairing(seed, n_true, n_found):
    rng = np.random.default_rng(seed)
    components = sparse_factors(rng, max(n_true, n_found))
    truth = [f[:, :n_true] for f in components]
    estimate = perturbed(rng, [f[:, :n_found] for f in components])
    rates = selection_rates(estimate, truth)
    tpr, fpr, missed = brute_force_rates(estimate, truth)
    assert_allclose(rates.tpr_per_mode, tpr)
    assert_allclose(rates.fpr_per_mode, fpr)
    assert_allclose(rates.missed, missed)
    assert_allclose([rates.tpr, rates.fpr], [np.mean(tpr), np.mean(fpr)])
    assert rates.n_extra == max(0, n_found - n_true)


@pytest.mark.parametrize("seed", range(5))
def test_order_signs_and_scales_change_nothing(seed):
    rng = np.random.default_rng(seed)
    truth = sparse_factors(rng, 4)
    estimate = perturbed(rng, truth)
    reference = selection_rates(estimate, truth, tol=0.1)
    assert 0 < reference.fpr < 1
    assert 0 < reference.tpr < 1
    for side in ("estimate", "truth"):
        changed = {"estimate": estimate, "truth": truth}
        scales = [rng.choice([-1, 1], 4) * 10.0 ** rng.integers(-150, 150, 4) for _ in SIZES]
        order = rng.permutation(4)
        changed[side] = [(f * s)[:, order] for f, s in zip(changed[side], scales, strict=True)]
        assert_same_rates(selection_rates(**changed, tol=0.1), reference)
    # Transposing modes permutes the rates by mode.
    turned = selection_rates(estimate[::-1], truth[::-1], tol=0.1)
    assert_allclose(turned.tpr_per_mode, reference.tpr_per_mode[::-1])
    assert_allclose(turned.tpr, reference.tpr)


def test_forms_of_a_cp_tensor_agree():
    rng = np.random.default_rng(0)
    truth = sparse_factors(rng, 2)
    estimate = perturbed(rng, truth)
    reference = selection_rates(estimate, truth)
    weights = np.array([2.0, -3.0])
    for form in (
        CPTensor((weights, estimate)),
        (weights, estimate),
        (None, tuple(estimate)),
        tuple(estimate),
    ):
        assert_same_rates(selection_rates(form, truth), reference)
    # A sequence of two matrices is not taken for (weights, factors).
    assert_allclose(selection_rates(truth[:2], truth[:2]).tpr, 1)


def test_perfect_and_empty_estimates():
    truth = sparse_factors(np.random.default_rng(1), 3)
    perfect = selection_rates(truth, truth)
    assert (perfect.tpr, perfect.fpr, perfect.n_extra, perfect.missed.size) == (1, 0, 0, 0)
    empty = selection_rates([f[:, :0] for f in truth], truth)
    assert (empty.tpr, empty.fpr, empty.n_extra) == (0, 0, 0)
    assert empty.missed.size == sum(np.count_nonzero(f) for f in truth)


@pytest.mark.parametrize("kill", ["weight", "factor"])
def test_zero_components_count_as_absent(kill):
    rng = np.random.default_rng(2)
    truth = sparse_factors(rng, 3)
    estimate = perturbed(rng, truth)
    weights = np.ones(3)
    without = selection_rates([f[:, [0, 2]] for f in estimate], truth)
    if kill == "weight":
        weights[1] = 0
    else:
        estimate[2][:, 1] = 0
    assert_same_rates(selection_rates((weights, estimate), truth), without)


def test_missed_entries_are_relative_to_the_largest_of_their_vector():
    truth = [np.array([[10.0], [-5.0], [0.0]]), np.array([[1.0], [0.25]])]
    estimate = [np.array([[1.0], [0.0], [0.0]]), np.array([[1.0], [0.0]])]
    assert_array_equal(selection_rates(estimate, truth).missed, [0.5, 0.25])


def test_tolerance_is_relative_to_the_vector():
    truth = [np.array([[1.0], [0.0]]), np.array([[1.0], [1.0]])]
    estimate = [np.array([[100.0], [1.0]]), np.array([[1.0], [1.0]])]
    assert selection_rates(estimate, truth).fpr == 1
    assert selection_rates(estimate, truth, tol=0.02).fpr == 0
    assert selection_rates(estimate, truth, tol=0.02).tpr == 1


def test_rates_without_cases_are_nan_and_left_out_of_the_mean():
    dense = [np.ones((3, 1)), np.ones((2, 1))]
    rates = selection_rates(dense, dense)
    assert_array_equal(rates.fpr_per_mode, [np.nan, np.nan])
    assert np.isnan(rates.fpr)
    rates = selection_rates(dense, [np.array([[1.0], [0.0], [0.0]]), np.ones((2, 1))])
    assert_array_equal(rates.fpr_per_mode, [1, np.nan])
    assert (rates.tpr, rates.fpr) == (1, 1)


@pytest.mark.parametrize(
    ("estimate", "message"),
    [
        ([np.ones((3, 1)), np.ones((4, 1))], r"modes of the same sizes, got \[3, 4\] and \[3, 2\]"),
        ([np.ones((3, 1))], "modes of the same sizes"),
        ([np.ones((3, 1)), np.ones((2, 2))], "estimate must hold factor matrices of shape"),
        ([], "estimate must hold factor matrices"),
        ((np.ones(3), [np.ones((3, 2)), np.ones((2, 2))]), "one weight for each component"),
        ([np.full((3, 1), np.nan), np.ones((2, 1))], "estimate, mode 0, has NaN"),
    ],
)
def test_selection_rates_of_bad_input(estimate, message):
    with pytest.raises(ValueError, match=message):
        selection_rates(estimate, [np.ones((3, 1)), np.ones((2, 1))])


def test_support_rates():
    rng = np.random.default_rng(3)
    truth, coef = (rng.standard_normal((4, 3, 2)) * (rng.random((4, 3, 2)) < 0.5) for _ in range(2))
    matrix = sklearn.metrics.confusion_matrix(truth.ravel() != 0, coef.ravel() != 0)
    assert_allclose(support_rates(coef, truth), (matrix[1, 1] / matrix[1].sum(), matrix[0, 1] / matrix[0].sum()))
    assert support_rates(np.zeros((4, 3, 2)), truth) == (0, 0)
    assert_allclose(support_rates(coef, np.ones((4, 3, 2))), ((coef != 0).mean(), np.nan))
    assert support_rates(truth + 1e-9, truth, tol=1e-6) == (1, 0)
    assert support_rates(1e-12 * truth, truth, tol=1e-6) == support_rates(truth, truth, tol=1e-6)


@pytest.mark.parametrize("tol", [-0.1, 1.0, float("nan")])
def test_bad_tolerance(tol):
    factors = [np.ones((3, 1))]
    with pytest.raises(ValueError, match="tol is relative to the largest entry"):
        selection_rates(factors, factors, tol=tol)
    with pytest.raises(ValueError, match="tol is relative to the largest entry"):
        support_rates(np.ones(3), np.ones(3), tol=tol)


def test_errors():
    coef, truth = np.full((2, 2, 2), 3.0), np.ones((2, 2, 2))
    assert_allclose(estimation_error(coef, truth), np.sqrt(8 * 4))
    assert_allclose(relative_error(coef, truth), 2)
    assert estimation_error(truth, truth) == relative_error(truth, truth) == 0
    with pytest.raises(ValueError, match="use estimation_error"):
        relative_error(coef, 0 * truth)
    with pytest.raises(ValueError, match=r"one shape, got \(2, 2\) and \(2, 2, 2\)"):
        estimation_error(coef[0], truth)
    with pytest.raises(ValueError, match="coef has NaN or infinite"):
        support_rates(coef * np.nan, truth)


@pytest.mark.parametrize("y_shape", [(), (3,), (3, 2)])
@pytest.mark.parametrize("weighted", [False, True])
def test_r2_is_scikit_learns(y_shape, weighted):
    rng = np.random.default_rng(4)
    Y = rng.standard_normal((20, *y_shape))
    P = Y + rng.standard_normal((20, *y_shape))
    weight = rng.random(20) if weighted else None
    flat = Y.reshape(20, -1), P.reshape(20, -1)
    assert_allclose(r2_score(Y, P, sample_weight=weight), sklearn.metrics.r2_score(*flat, sample_weight=weight))
    per_entry = r2_score(Y, P, per_entry=True, sample_weight=weight)
    assert per_entry.shape == y_shape
    w = np.ones(20) if weight is None else weight
    for index in np.ndindex(y_shape):
        y, p = Y[(slice(None), *index)], P[(slice(None), *index)]
        sst = w @ (y - np.average(y, weights=w)) ** 2
        assert_allclose(per_entry[index], 1 - w @ (y - p) ** 2 / sst)


def test_pooled_r2():
    rng = np.random.default_rng(5)
    Y = rng.standard_normal((30, 3, 2)) * [1, 100]
    P = Y + rng.standard_normal((30, 3, 2)) * [1, 50]
    flat = Y.reshape(30, -1), P.reshape(30, -1)
    assert_allclose(pooled_r2(Y, P), sklearn.metrics.r2_score(*flat, multioutput="variance_weighted"))
    # About the constant known beforehand, that constant itself scores zero.
    center = rng.standard_normal((3, 2))
    assert_allclose(pooled_r2(Y, np.broadcast_to(center, Y.shape), center=center), 0, atol=1e-12)
    constant = np.ones((4, 2))
    assert pooled_r2(constant, constant) == 1
    assert pooled_r2(constant, constant + 1) == 0
    for mode in (0, 1, -1):
        by_entry = pooled_r2(Y, P, mode=mode)
        assert by_entry.shape == (Y.shape[1:][mode],)
        for k, found in enumerate(by_entry):
            y, p = (np.take(values, k, axis=mode + 1 if mode >= 0 else mode) for values in (Y, P))
            assert_allclose(found, pooled_r2(y, p))
    assert_array_equal(pooled_r2(constant, constant + np.array([0, 1]), mode=0), [1, 0])
    with pytest.raises(ValueError, match="mode is 2; the response has 2 modes"):
        pooled_r2(Y, P, mode=2)


def test_errors_and_explained_variance_by_their_definitions():
    rng = np.random.default_rng(6)
    Y = rng.standard_normal((20, 3, 2))
    P, w = Y + rng.standard_normal((20, 3, 2)) + 5, rng.random(20)
    squares = np.einsum("n,nij->ij", w / w.sum(), (Y - P) ** 2)
    assert_allclose(mean_squared_error(Y, P, per_entry=True, sample_weight=w), squares)
    assert_allclose(mean_squared_error(Y, P, sample_weight=w), squares.mean())
    assert_allclose(mean_squared_error(Y, P), ((Y - P) ** 2).mean())
    explained = 1 - (Y - P).var(axis=0) / Y.var(axis=0)
    assert_allclose(explained_variance_score(Y, P, per_entry=True), explained)
    assert_allclose(explained_variance_score(Y, P), explained.mean())
    assert r2_score(Y, P) < 0 < explained_variance_score(Y, Y + 5)


@pytest.mark.parametrize("metric", [r2_score, pooled_r2, explained_variance_score, mean_squared_error])
def test_metrics_are_scorers_of_searches(metric):
    rng = np.random.default_rng(8)
    X, Y = rng.standard_normal((60, 4, 3)), 0.1 * rng.standard_normal((60, 3, 2))
    Y[:, 0, 0] += X[:, 1, 2]
    Y[:, 2, 1] += X[:, 3, 0]
    sign = -1 if metric is mean_squared_error else 1
    scorer = sklearn.metrics.make_scorer(metric, greater_is_better=sign > 0)
    search = GridSearchCV(DST2R(), {"rank": [1, 2]}, scoring=scorer, cv=3).fit(X, Y)
    assert search.best_params_ == {"rank": 2}
    assert_allclose(scorer(search, X, Y), sign * metric(Y, search.predict(X)))


class Sum:
    """Predicts the sum of some predictors; its score is R²."""

    def __init__(self, used):
        self.used = used

    def score(self, X, Y):
        return r2_score(Y, X[:, self.used].sum(axis=1))


def test_permutation_importance():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((2000, 4, 3))
    used = np.zeros((4, 3), dtype=bool)
    used[1, 2] = used[1, 0] = used[3, 2] = True
    Y = X[:, used].sum(axis=1)
    before = X.copy()
    found = permutation_importance(Sum(used), X, Y, mode=0, n_repeats=8, random_state=0)
    # A shuffled entry adds twice its own variance to the error: two thirds of R² for each predictor of three.
    assert_allclose(found.mean(axis=1), 2 * used.sum(axis=1) / 3, atol=0.1)
    assert (found[~used.any(axis=1)] == 0).all()
    assert_allclose(
        permutation_importance(Sum(used), X, Y, mode=-1, random_state=0).mean(axis=1), [2 / 3, 0, 4 / 3], atol=0.1
    )
    assert found.shape == (4, 8)
    assert len(set(found[1])) == 8, "every repeat shuffles anew"
    assert_array_equal(X, before)
    assert_array_equal(found, permutation_importance(Sum(used), X, Y, mode=0, n_repeats=8, random_state=0))
    with pytest.raises(ValueError, match="mode is 2; the predictor has 2 modes"):
        permutation_importance(Sum(used), X, Y, mode=2)


@pytest.mark.parametrize("score", [r2_score, pooled_r2, explained_variance_score, mean_squared_error])
def test_scores_of_bad_input(score):
    with pytest.raises(ValueError, match=r"Y and Y_pred must have one shape, got \(5, 2\) and \(5,\)"):
        score(np.ones((5, 2)), np.ones(5))
    with pytest.raises(ValueError, match="at least one sample"):
        score(np.ones((0, 2)), np.ones((0, 2)))
    with pytest.raises(ValueError, match="Y_pred has NaN"):
        score(np.ones(5), np.full(5, np.nan))
