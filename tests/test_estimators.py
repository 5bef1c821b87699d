"""The estimators as users meet them: scikit-learn's surface, invariances, recovery, bad input."""

import io
import re
import warnings
from itertools import pairwise

import joblib
import numpy as np
import pytest
import scipy.sparse
import tensorly
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import Lasso, LinearRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

from dst2r import DST2R, DST2RCV, GramStatistics

BOTH = [DST2R(rank=2), DST2RCV(ranks=(1, 2), n_l1=6)]
SHAPES = [((6,), ()), ((6,), (4,)), ((4, 3), ()), ((5, 4), (3,)), ((4, 3), (3, 2)), ((3, 2, 2), (2, 3))]


@parametrize_with_checks([DST2R(), DST2RCV()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def strong(n=200, x_shape=(5, 4), y_shape=(3,), seed=0, noise=0.3):
    """Two components without common entries, all of them well above the noise, and means that are not zero."""
    rng = np.random.default_rng(seed)
    shape = (*x_shape, *y_shape)
    truth = np.zeros(shape)
    truth[tuple(slice(0, max(1, d // 2)) for d in shape)] = 2.0
    if len(shape) > 1:
        truth[
            tuple(slice(max(1, d // 2), max(1, d // 2) + 1) for d in x_shape) + tuple(slice(d // 2, d) for d in y_shape)
        ] = -3.0
    X = rng.normal(size=(n, *x_shape)) + rng.normal(size=x_shape)
    Y = np.tensordot(X, truth, len(x_shape)) + noise * rng.normal(size=(n, *y_shape)) + rng.normal(size=y_shape)
    return X, Y, truth


def explained(model, X, Y):
    """Share of all responses' variation that predictions explain."""
    return 1 - np.sum((Y - model.predict(X)) ** 2) / np.sum((Y - Y.mean(axis=0)) ** 2)


def centred(*arrays):
    return [a - a.mean(axis=0) for a in arrays]


def assert_same_model(one, other, rtol=1e-5):
    """The same coefficient, the same zeros and the same intercept up to rounding."""
    assert_array_equal(one.coef_ == 0, other.coef_ == 0)
    assert_allclose(one.coef_, other.coef_, rtol=rtol, atol=rtol * np.abs(one.coef_).max())
    assert_allclose(one.intercept_, other.intercept_, rtol=rtol, atol=rtol * (1 + np.abs(one.intercept_).max()))


# --- scikit-learn's tools with n-dimensional X and Y ------------------------------------------------------------------


@pytest.mark.parametrize("estimator", BOTH)
def test_pipeline(estimator):
    X, Y, _ = strong()
    pipe = make_pipeline(FunctionTransformer(lambda a: 2.0 * a), clone(estimator)).fit(X, Y)
    assert_allclose(pipe.predict(X), clone(estimator).fit(2.0 * X, Y).predict(2.0 * X))
    assert pipe.score(X, Y) > 0.9


def test_pipeline_ends_in_scores_too():
    X, Y, _ = strong()
    scores = make_pipeline(DST2R(rank=2), FunctionTransformer(np.abs)).fit(X, Y).transform(X)
    assert_allclose(scores, np.abs(DST2R(rank=2).fit(X, Y).transform(X)))
    assert_allclose(DST2R(rank=2).fit_transform(X, Y), DST2R(rank=2).fit(X, Y).transform(X))


def test_grid_search_over_rank_finds_the_rank():
    X, Y, _ = strong()
    search = GridSearchCV(DST2R(), {"rank": [1, 2]}, cv=3).fit(X, Y)
    assert search.best_params_ == {"rank": 2}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert_allclose(search.predict(X), DST2R(2).fit(X, Y).predict(X))


@pytest.mark.parametrize("estimator", BOTH)
def test_cross_val_score_and_predict_equal_loops(estimator):
    X, Y, _ = strong(n=90)
    splits = list(KFold(3).split(X))
    scores, predictions = cross_val_score(estimator, X, Y, cv=splits), cross_val_predict(estimator, X, Y, cv=splits)
    assert predictions.shape == Y.shape
    for score, (train, test) in zip(scores, splits, strict=True):
        model = clone(estimator).fit(X[train], Y[train])
        assert_allclose(predictions[test], model.predict(X[test]))
        assert_allclose(score, model.score(X[test], Y[test]))
        assert score > 0.9


@pytest.mark.parametrize("estimator", BOTH)
def test_joblib_round_trip(estimator):
    X, Y, _ = strong()
    model, buffer = clone(estimator).fit(X, Y), io.BytesIO()
    joblib.dump(model, buffer)
    buffer.seek(0)
    again = joblib.load(buffer)
    assert again.get_params() == model.get_params()
    assert_array_equal(again.predict(X), model.predict(X))
    assert_array_equal(again.transform(X), model.transform(X))


@pytest.mark.parametrize("estimator", BOTH)
def test_clone_and_set_params(estimator):
    X, Y, _ = strong()
    model = clone(estimator).set_params(l2=0.5, relax=False, correction="final")
    assert (model.l2, model.relax, model.correction) == (0.5, False, "final")
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model.fit(X, Y)), "coef_")
    with pytest.raises(ValueError, match="Invalid parameter 'ranc'"):
        model.set_params(ranc=3)


@pytest.mark.parametrize("estimator", BOTH)
def test_unfitted_models_say_so(estimator):
    fresh = clone(estimator)
    for method in (fresh.predict, fresh.transform):
        with pytest.raises(NotFittedError, match="fit"):
            method(np.zeros((2, 5, 4)))


# --- what predict, score and transform mean ---------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(50, 3), (50, 2, 5), (50, 3, 5, 1), (50, 15)])
def test_predictors_of_another_shape_are_told_with_both_shapes(shape):
    X = np.random.default_rng(0).normal(size=(50, 3, 5))
    model = DST2R().fit(X, X[:, 0, 0])
    said = rf"samples of shape {re.escape(str(shape[1:]))}, but DST2R was fitted on \(3, 5\): give the same modes"
    with pytest.raises(ValueError, match=said):
        model.predict(np.zeros(shape))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_predict_score_and_transform_by_their_definitions(shape, standardize, fit_intercept):
    X, Y, _ = strong(150, *shape)
    rank = 1 if len(shape[0] + shape[1]) == 1 else 2
    model = DST2R(rank, standardize=standardize, fit_intercept=fit_intercept).fit(X, Y)
    new = X[:7] + 1.0
    p, q = len(shape[0]), len(shape[1])
    assert model.coef_.shape == shape[0] + shape[1]
    assert model.intercept_.shape == shape[1]
    predicted = model.predict(new)
    assert_allclose(predicted, model.intercept_ + np.tensordot(new, model.coef_, p))

    flat = Y.reshape(len(Y), -1)
    assert_allclose(model.score(X, Y), r2_score(flat, model.predict(X).reshape(len(Y), -1)))
    weight = np.arange(len(Y))
    weighted = r2_score(flat, model.predict(X).reshape(len(Y), -1), sample_weight=weight)
    assert_allclose(model.score(X, Y, sample_weight=weight), weighted)

    weights, factors = model.cp_
    assert [f.shape for f in factors] == [(d, model.rank_) for d in shape[0] + shape[1]]
    assert_allclose([np.linalg.norm(f, axis=0) for f in factors], 1.0)
    assert (np.diff(weights) <= 0).all()
    assert (weights > 0).all()
    x_scale = X.std(axis=0) if standardize else np.ones(shape[0])
    if standardize and not fit_intercept:
        x_scale = np.sqrt((X**2).mean(axis=0))
    x_mean, y_mean = (X.mean(axis=0), Y.mean(axis=0)) if fit_intercept else (0.0, np.zeros(shape[1]))
    dense = tensorly.cp_to_tensor(model.cp_).reshape(shape[0] + shape[1])
    scale = x_scale.reshape(shape[0] + (1,) * q)
    assert_allclose(model.coef_, dense / scale, rtol=1e-8, atol=1e-12)

    scores = model.transform(new)
    assert scores.shape == (7, model.rank_)
    for r in range(model.rank_):
        direction = np.ones(())
        for f in factors[:p]:
            direction = np.multiply.outer(direction, f[:, r])
        assert_allclose(scores[:, r], np.tensordot((new - x_mean) / x_scale, direction, p), atol=1e-9)
    total = np.zeros((7, *shape[1])) + y_mean
    for r in range(model.rank_):
        response = weights[r]
        for f in factors[p:]:
            response = np.multiply.outer(response, f[:, r])
        total += np.multiply.outer(scores[:, r], response)
    assert_allclose(total, predicted, rtol=1e-8, atol=1e-8)


def test_number_of_free_numbers_is_that_of_the_factors():
    X, Y, _ = strong()
    model = DST2R(2).fit(X, Y)
    nonzero = sum(np.count_nonzero(f) for f in model.cp_.factors)
    assert model.n_parameters_ == nonzero - 2 * model.rank_
    assert model.n_iter_ >= 1
    assert "200 samples" in model.statistics_
    assert len(model.search_paths_) == 2


def test_without_intercept_the_fit_goes_through_the_origin():
    X, Y, _ = strong(150, (6,), ())
    model = DST2R(l1=0.0, fit_intercept=False, tol=1e-9).fit(X, Y)
    assert_allclose(model.coef_, LinearRegression(fit_intercept=False).fit(X, Y).coef_, rtol=1e-6)
    assert_array_equal(model.intercept_, 0.0)
    assert_array_equal(model.predict(np.zeros((1, 6))), 0.0)


# --- the classical special cases, and every option's definition -------------------------------------------------------


@pytest.mark.parametrize("l2", [0.0, 0.5])
@pytest.mark.parametrize(("x_shape", "y_shape", "rank"), [((6,), (), 1), ((2, 3), (), 2), ((3, 2), (2,), 4)])
@pytest.mark.parametrize("correction", ["full", "final"])
def test_full_rank_without_sparsity_is_ordinary_least_squares_or_ridge(x_shape, y_shape, rank, l2, correction):
    X, Y, _ = strong(150, x_shape, y_shape, noise=1.0)
    model = DST2R(rank, l1=0.0, l2=l2, correction=correction, tol=1e-8, max_iter=2000).fit(X, Y)
    flat, n = X.reshape(len(X), -1), len(X)
    ridge = Ridge(alpha=n * l2, tol=1e-12).fit(flat, Y)
    assert_allclose(model.predict(X), ridge.predict(flat), atol=1e-3 * Y.std())
    assert_allclose(model.coef_.reshape(flat.shape[1], -1), ridge.coef_.reshape(-1, flat.shape[1]).T, atol=1e-3)


def test_numeric_l1_is_the_lasso_for_a_vector_and_relax_is_least_squares_on_its_support():
    X, Y, _ = strong(80, (12,), (), noise=8.0)
    for share in (0.05, 0.4):
        l1 = share * np.abs(centred(X)[0].T @ centred(Y)[0]).max() / len(X)
        lasso = Lasso(alpha=l1, tol=1e-12).fit(X, Y)
        model = DST2R(l1=l1, relax=False, tol=1e-8).fit(X, Y)
        assert_allclose(model.coef_, lasso.coef_, atol=1e-5 * np.abs(lasso.coef_).max())
        assert_allclose(model.intercept_, lasso.intercept_, rtol=1e-5)
        assert model.l1_ == l1
        support = lasso.coef_ != 0
        assert 0 < support.sum() < 12
        relaxed = DST2R(l1=l1, relax=True, tol=1e-8).fit(X, Y)
        assert_allclose(relaxed.coef_[support], LinearRegression().fit(X[:, support], Y).coef_, rtol=1e-5)
        assert_array_equal(relaxed.coef_[~support], 0)


def test_standardized_l1_is_the_lasso_in_units_of_the_spread():
    X, Y, _ = strong(80, (12,), (), noise=8.0)
    X = X * np.geomspace(1e-2, 1e2, 12)
    scale = X.std(axis=0)
    l1 = 0.2 * np.abs((centred(X)[0] / scale).T @ centred(Y)[0]).max() / len(X)
    lasso = Lasso(alpha=l1, tol=1e-12).fit(X / scale, Y).coef_ / scale
    model = DST2R(l1=l1, relax=False, tol=1e-8, standardize=True).fit(X, Y)
    assert_allclose(model.coef_ * scale, lasso * scale, atol=1e-5 * np.abs(lasso * scale).max())


def objective(X, Y, l1, factors, l2=0.0):
    """F of the paper by rows, from TensorLy's dense tensor."""
    coef = tensorly.cp_to_tensor((np.ones(factors[0].shape[1]), factors))
    X, Y = centred(X, Y)
    residual = Y - np.tensordot(X, coef, X.ndim - 1)
    norms = np.prod([np.abs(f).sum(axis=0) for f in factors], axis=0)
    return np.sum(residual**2) / (2 * len(X)) + l2 / 2 * np.sum(coef**2) + l1 * norms.sum()


@pytest.mark.parametrize("l2", [0.0, 0.3])
@pytest.mark.parametrize("shape", SHAPES[1:])
def test_without_relaxation_no_entry_can_lower_the_objective(shape, l2):
    X, Y, _ = strong(150, *shape, noise=1.0)
    l1 = 0.1 * np.abs(np.tensordot(*centred(X, Y), (0, 0))).max() / len(X)
    model = DST2R(2, l1=l1, l2=l2, relax=False, tol=1e-7, max_iter=1000).fit(X, Y)
    weights, factors = model.cp_
    factors = [f * weights ** (1 / len(factors)) for f in factors]
    here = objective(X, Y, l1, factors, l2)
    h = 1e-4
    for k, f in enumerate(factors):
        for index in np.ndindex(f.shape):
            for sign in (-h, h):
                moved = [g.copy() for g in factors]
                moved[k][index] += sign
                assert objective(X, Y, l1, moved, l2) >= here - 1e-9 * here, (k, index, sign)


@pytest.mark.parametrize("correction", ["none", "final", "full"])
@pytest.mark.parametrize("l1", ["bic", "aic", "ebic", 0.0, 0.05])
@pytest.mark.parametrize("relax", [True, False])
def test_every_option_fits(correction, l1, relax):
    X, Y, truth = strong()
    model = DST2R(2, l1=l1, correction=correction, relax=relax).fit(X, Y)
    assert model.rank_ <= 2
    assert explained(model, X, Y) > 0.9
    assert np.linalg.norm(model.coef_ - truth) < 0.25 * np.linalg.norm(truth)
    assert (model.path_ is None) == (correction == "none")
    if isinstance(l1, float):
        assert model.l1_ == l1
    else:
        assert model.l1_ >= 0
    if model.path_ is not None and not isinstance(l1, float):
        assert model.l1_ == model.path_.l1[np.argmin(model.path_.criterion)]


def training_loss(model, X, Y):
    return np.sum((Y - model.predict(X)) ** 2) / (2 * len(X))


def test_corrections_by_their_definitions():
    X, Y, _ = strong(noise=1.5)
    fits = {c: DST2R(2, l1=0.0, correction=c, relax=False).fit(X, Y) for c in ("none", "final", "full")}
    # the paper: the end of each component's path, summed
    paths = fits["none"].search_paths_
    total = sum(path.coefficient(len(path) - 1).to_tensor() for path in paths)
    assert_allclose(fits["none"].coef_, total, atol=1e-12)
    left = Y - np.tensordot(X, paths[0].coefficient(len(paths[0]) - 1).to_tensor(), 2)
    assert paths[1].l1[0] <= np.abs(np.tensordot(*centred(X, left), (0, 0))).max() / len(X)
    # corrected: at least as good on the rows, and at a stationary point
    assert training_loss(fits["final"], X, Y) < training_loss(fits["none"], X, Y)
    assert training_loss(fits["full"], X, Y) < training_loss(fits["none"], X, Y)
    for name in ("final", "full"):
        weights, factors = fits[name].cp_
        here = objective(X, Y, 0.0, [factors[0] * weights, *factors[1:]])
        assert_allclose(here, training_loss(fits[name], X, Y), rtol=1e-10)
        for k, f in enumerate(factors):
            for index in np.ndindex(f.shape):
                for sign in (-1e-4, 1e-4):
                    moved = [factors[0] * weights, *(g.copy() for g in factors[1:])]
                    moved[k] = moved[k].copy()
                    moved[k][index] += sign
                    assert objective(X, Y, 0.0, moved) >= here * (1 - 1e-8)


def test_numeric_l1_without_correction_stops_every_component_there():
    X, Y, _ = strong(noise=1.5)
    l1 = 0.3 * np.abs(np.tensordot(*centred(X, Y), (0, 0))).max() / len(X)
    model = DST2R(2, l1=l1, correction="none", relax=False).fit(X, Y)
    parts = [path.coefficient(np.flatnonzero(path.l1 >= l1).max(initial=0)).to_tensor() for path in model.search_paths_]
    assert_allclose(model.coef_, sum(parts), atol=1e-12)


def test_relaxation_keeps_the_support_and_lowers_the_loss():
    X, Y, _ = strong(noise=1.5)
    l1 = 0.1 * np.abs(np.tensordot(*centred(X, Y), (0, 0))).max() / len(X)
    shrunk, relaxed = (DST2R(2, l1=l1, relax=relax).fit(X, Y) for relax in (False, True))
    assert training_loss(relaxed, X, Y) < training_loss(shrunk, X, Y)
    assert_array_equal(relaxed.coef_ != 0, shrunk.coef_ != 0)
    # least squares along every free factor entry: no gradient is left on the support
    weights, factors = relaxed.cp_
    residual = centred(Y - relaxed.predict(X))[0]
    gradient = np.tensordot(centred(X)[0], residual, (0, 0)) / len(X)
    for k in range(3):
        others = [f for m, f in enumerate(factors) if m != k]
        slope = np.einsum("dij,ir,jr->dr", np.moveaxis(gradient, k, 0), *others) * weights
        assert_allclose(slope[factors[k] != 0], 0, atol=1e-4)


def test_stricter_criteria_keep_fewer_numbers():
    X, Y, _ = strong(n=60, noise=6.0)
    sizes = {name: DST2R(2, l1=name).fit(X, Y).n_parameters_ for name in ("aic", "bic", "ebic")}
    assert sizes["aic"] >= sizes["bic"] >= sizes["ebic"]
    assert sizes["aic"] > sizes["ebic"]


def test_smaller_steps_end_at_the_same_corrected_model():
    X, Y, _ = strong()
    assert_same_model(DST2R(2).fit(X, Y), DST2R(2, step_size=0.02).fit(X, Y), rtol=1e-4)


def test_restarts_are_seeded_and_never_worse():
    X, Y, _ = strong(noise=1.0)
    plain = DST2R(2, l1=0.0).fit(X, Y)
    fits = [DST2R(2, l1=0.0, n_restarts=2, random_state=seed).fit(X, Y) for seed in (0, 0, np.random.RandomState(0))]
    assert_array_equal(fits[0].coef_, fits[1].coef_)
    for fit in fits:
        assert training_loss(fit, X, Y) <= training_loss(plain, X, Y) * (1 + 1e-8)


def test_fit_from_added_statistics_is_the_fit_from_arrays():
    X, Y, _ = strong()
    parts = [GramStatistics.from_arrays(X[rows], Y[rows]) for rows in (slice(0, 50), slice(50, 60), slice(60, 200))]
    assert_same_model(DST2R(2).fit_statistics(parts[0] + parts[1] + parts[2]), DST2R(2).fit(X, Y))


@pytest.mark.parametrize("estimator", BOTH)
def test_refit_on_another_shape_forgets_the_first(estimator):
    X, Y, _ = strong()
    model = clone(estimator).fit(X, Y)
    other = strong(120, (7,), (2,))
    model.fit(other[0], other[1])
    assert model.n_features_in_ == 7
    assert_allclose(model.predict(other[0]), clone(estimator).fit(other[0], other[1]).predict(other[0]))
    parts = [GramStatistics.from_arrays(X[rows], Y[rows]) for rows in (slice(0, 100), slice(100, 200))]
    model.fit_statistics(parts if isinstance(model, DST2RCV) else parts[0] + parts[1])
    assert model.predict(X).shape == Y.shape


# --- invariances ------------------------------------------------------------------------------------------------------

VARIANTS = [
    {"tol": 1e-7},
    {"tol": 1e-7, "l1": 0.05},
    {"tol": 1e-7, "l1": 0.05, "relax": False},
    {"tol": 1e-7, "correction": "final", "l1": "aic"},
    {"tol": 1e-7, "standardize": True},
    {"correction": "none"},
    {"correction": "none", "l1": 0.05, "relax": False},
]


@pytest.mark.parametrize("options", VARIANTS)
@pytest.mark.parametrize("seed", range(3))
def test_order_of_samples_does_not_matter(options, seed):
    X, Y, _ = strong(noise=1.0, seed=seed)
    order = np.random.default_rng(1).permutation(len(X))
    assert_same_model(DST2R(2, **options).fit(X, Y), DST2R(2, **options).fit(X[order], Y[order]))


@pytest.mark.parametrize("options", VARIANTS)
@pytest.mark.parametrize("shape", SHAPES[2:])
def test_order_of_modes_does_not_matter(options, shape):
    X, Y, _ = strong(150, *shape, noise=1.0)
    p, q = len(shape[0]), len(shape[1])
    turned_x, turned_y = X.transpose(0, *range(p, 0, -1)), Y.transpose(0, *range(q, 0, -1))
    one, other = DST2R(2, **options).fit(X, Y), DST2R(2, **options).fit(turned_x, turned_y)
    back = other.coef_.transpose(*range(p - 1, -1, -1), *range(p + q - 1, p - 1, -1))
    other.coef_, other.intercept_ = back, other.intercept_.T
    assert_same_model(one, other)


@pytest.mark.parametrize("options", VARIANTS)
def test_order_within_a_mode_does_not_matter(options):
    X, Y, _ = strong(noise=1.0)
    rows, columns, responses = (np.random.default_rng(d).permutation(d) for d in (5, 4, 3))
    one = DST2R(2, **options).fit(X, Y)
    other = DST2R(2, **options).fit(X[:, rows][:, :, columns], Y[:, responses])
    one.coef_, one.intercept_ = one.coef_[np.ix_(rows, columns, responses)], one.intercept_[responses]
    assert_same_model(one, other)


@pytest.mark.parametrize("options", VARIANTS[:5])
def test_modes_of_size_one_change_nothing(options):
    """But for the paper's search, which may take steps in them, too."""
    X, Y, _ = strong(noise=1.0)
    one = DST2R(2, **options).fit(X, Y)
    other = DST2R(2, **options).fit(X[:, None, :, None], Y[..., None])
    assert other.coef_.shape == (1, 5, 1, 4, 3, 1)
    other.coef_, other.intercept_ = other.coef_.reshape(5, 4, 3), other.intercept_[..., 0]
    assert_same_model(one, other)


@pytest.mark.parametrize("noise", [0.3, 3.0, 30.0])
@pytest.mark.parametrize("l1", ["bic", "aic", "ebic"])
def test_one_response_as_column_or_vector_is_the_same(noise, l1):
    """Also where nothing is worth its price, and a small sample."""
    for seed in range(5):
        X, Y, _ = strong(30, (3,), (), noise=noise, seed=seed)
        one, other = DST2R(l1=l1).fit(X, Y), DST2R(l1=l1).fit(X, Y[:, None])
        other.coef_, other.intercept_ = other.coef_[:, 0], other.intercept_[0]
        assert_same_model(one, other)


@pytest.mark.parametrize("options", VARIANTS)
def test_duplication_of_the_sample_changes_nothing_at_fixed_l1(options):
    X, Y, _ = strong(noise=1.0)
    options = {**options, "l1": 0.05}
    one = DST2R(2, **options).fit(X, Y)
    assert_same_model(one, DST2R(2, **options).fit(np.tile(X, (3, 1, 1)), np.tile(Y, (3, 1))))
    assert_same_model(one, DST2R(2, **options).fit(X, Y, sample_weight=np.full(len(X), 3.0)))


@pytest.mark.parametrize("options", VARIANTS)
def test_weights_are_repetitions(options):
    X, Y, _ = strong(noise=1.0)
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    one = DST2R(2, **options).fit(X, Y, sample_weight=weight)
    assert_same_model(one, DST2R(2, **options).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight, axis=0)))


@pytest.mark.parametrize("options", VARIANTS)
def test_shifts_change_the_intercept_alone(options):
    X, Y, _ = strong(noise=1.0)
    rng = np.random.default_rng(0)
    dx, dy = 100.0 * rng.normal(size=(5, 4)), 1000.0 * rng.normal(size=3)
    one, other = DST2R(2, **options).fit(X, Y), DST2R(2, **options).fit(X + dx, Y + dy)
    assert_array_equal(one.coef_ == 0, other.coef_ == 0)
    assert_allclose(one.coef_, other.coef_, atol=1e-6 * np.abs(one.coef_).max())
    assert_allclose(other.intercept_, one.intercept_ + dy - np.tensordot(dx, one.coef_, 2), rtol=1e-5)
    assert_allclose(other.transform(X + dx), one.transform(X), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("options", VARIANTS)
@pytest.mark.parametrize(("x_unit", "y_unit"), [(1e6, 1.0), (1e-6, 1.0), (1.0, 1e6), (1.0, 1e-6), (1e-6, 1e6)])
def test_units_scale_the_coefficients_and_nothing_else(options, x_unit, y_unit):
    X, Y, _ = strong(noise=1.0)
    one = DST2R(2, **options).fit(X, Y)
    if "l1" in options and not isinstance(options["l1"], str):
        options = {**options, "l1": options["l1"] * x_unit * y_unit}
    other = DST2R(2, **options).fit(x_unit * X, y_unit * Y)
    other.coef_, other.intercept_ = other.coef_ * x_unit / y_unit, other.intercept_ / y_unit
    assert_same_model(one, other)


def test_standardized_fits_do_not_see_the_units_of_single_predictors():
    X, Y, _ = strong(noise=1.0)
    units = np.random.default_rng(0).choice([1e-3, 1.0, 1e4], size=(5, 4))
    one, other = (DST2R(2, standardize=True).fit(A, Y) for A in (X, X * units))
    assert_array_equal(one.coef_ == 0, other.coef_ == 0)
    assert_allclose(other.coef_ * units[..., None], one.coef_, rtol=1e-6, atol=1e-9)
    assert_allclose(other.predict(X * units), one.predict(X), rtol=1e-6)


@pytest.mark.parametrize("estimator", BOTH)
def test_single_precision_gives_the_same_model_and_single_precision_predictions(estimator):
    X, Y, _ = strong()
    double, single = clone(estimator).fit(X, Y), clone(estimator).fit(X.astype(np.float32), Y.astype(np.float32))
    assert_same_model(double, single, rtol=1e-4)
    assert single.predict(X.astype(np.float32)).dtype == np.float32
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    assert double.predict(X).dtype == double.transform(X).dtype == np.float64
    assert_allclose(single.predict(X.astype(np.float32)), double.predict(X), rtol=1e-3, atol=1e-3)
    assert double.predict(np.ones((2, 5, 4), dtype=int)).dtype == np.float64


def layouts(A):
    readonly = A.copy()
    readonly.flags.writeable = False
    wide = np.full((*A.shape[:-1], 2 * A.shape[-1]), np.nan)
    wide[..., ::2] = A
    return {
        "fortran": np.asfortranarray(A),
        "read-only": readonly,
        "strided": wide[..., ::2],
        "reversed": A[::-1].copy()[::-1],
        "list": A.tolist(),
    }


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("layout", ["fortran", "read-only", "strided", "reversed", "list"])
def test_memory_layout_does_not_matter(estimator, layout):
    X, Y, _ = strong()
    one = clone(estimator).fit(X, Y)
    other = clone(estimator).fit(layouts(X)[layout], layouts(Y)[layout])
    assert_same_model(one, other)
    assert_allclose(other.predict(layouts(X)[layout]), one.predict(X), rtol=1e-9)


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("options", [{}, {"standardize": True, "l2": 0.1}, {"fit_intercept": False}])
def test_inputs_are_left_as_they_are(estimator, options):
    X, Y, _ = strong()
    weight = np.linspace(0.5, 2.0, len(X))
    before = [A.copy() for A in (X, Y, weight)]
    model = clone(estimator).set_params(**options).fit(X, Y, sample_weight=weight)
    model.predict(X)
    model.transform(X)
    model.score(X, Y, sample_weight=weight)
    for A, B in zip((X, Y, weight), before, strict=True):
        assert_array_equal(A, B)


def test_statistics_are_left_as_they_are():
    X, Y, _ = strong()
    parts = [GramStatistics.from_arrays(X[rows], Y[rows]) for rows in (slice(0, 100), slice(100, 200))]
    before = [(s.gram.copy(), s.cross.copy(), s.x_mean.copy(), s.y_square.copy()) for s in parts]
    DST2R(2, l2=0.3, standardize=True).fit_statistics(parts[0])
    DST2RCV((1, 2), l2=0.3, standardize=True).fit_statistics(parts)
    for s, saved in zip(parts, before, strict=True):
        for A, B in zip((s.gram, s.cross, s.x_mean, s.y_square), saved, strict=True):
            assert_array_equal(A, B)


@pytest.mark.parametrize("estimator", BOTH)
def test_number_of_threads_does_not_matter(estimator):
    X, Y, _ = strong(noise=1.0)
    fits = []
    for limit in (1, 2):
        with threadpool_limits(limits=limit):
            fits.append(clone(estimator).fit(X, Y))
    assert_same_model(*fits)


@pytest.mark.parametrize("estimator", BOTH)
def test_progress_goes_to_the_standard_error_stream_only_when_asked(estimator, capsys):
    X, Y, _ = strong()
    clone(estimator).fit(X, Y)
    quiet = capsys.readouterr()
    assert (quiet.out, quiet.err) == ("", "")
    clone(estimator).set_params(verbose=1).fit(X, Y)
    loud = capsys.readouterr()
    assert loud.out == ""
    assert "component 2 of 2" in loud.err
    assert ("fold 5 of 5" in loud.err) == isinstance(estimator, DST2RCV)


# --- cross-validation -------------------------------------------------------------------------------------------------


def test_results_of_cross_validation_have_their_shapes():
    X, Y, _ = strong(n=100)
    model = DST2RCV(ranks=[3, 1, 2, 2], cv=4, n_l1=7).fit(X, Y)
    results = model.cv_results_
    assert_array_equal(results["ranks"], [1, 2, 3])
    assert results["l1"].shape == (7,)
    assert results["l1"][0] == 0
    assert (np.diff(results["l1"]) > 0).all()
    assert results["test_loss"].shape == results["n_parameters"].shape == (4, 3, 7)
    assert_allclose(results["mean_test_loss"], results["test_loss"].mean(axis=0))
    row, column = np.unravel_index(results["mean_test_loss"].argmin(), (3, 7))
    assert model.best_rank_ == results["ranks"][row]
    assert model.l1_ == results["l1"][column]
    assert model.rank_ <= model.best_rank_


def test_the_fold_losses_are_held_out_errors():
    """At l1 = 0 a rank's model on a fold is least squares: for a vector, OLS on the training rows."""
    X, Y, _ = strong(60, (5,), (), noise=2.0)
    splits = list(KFold(4).split(X))
    model = DST2RCV((1,), cv=splits, n_l1=5).fit(X, Y)
    for fold, (train, test) in enumerate(splits):
        error = Y[test] - LinearRegression().fit(X[train], Y[train]).predict(X[test])
        assert_allclose(model.cv_results_["test_loss"][fold, 0, 0], np.mean(error**2) / 2, rtol=1e-6)
        mean = Y[test] - Y[train].mean()
        l1_max = np.abs(centred(X[train])[0].T @ centred(Y[train])[0]).max() / len(train)
        if model.cv_results_["l1"][-1] > 1.001 * l1_max:
            assert_allclose(model.cv_results_["test_loss"][fold, 0, -1], np.mean(mean**2) / 2, rtol=1e-6)


def test_ridge_in_cross_validation_is_not_counted_as_test_loss():
    X, Y, _ = strong(60, (5,), (), noise=2.0)
    splits = list(KFold(4).split(X))
    model = DST2RCV((1,), cv=splits, n_l1=5, l2=0.7).fit(X, Y)
    for fold, (train, test) in enumerate(splits):
        error = Y[test] - Ridge(alpha=0.7 * len(train), tol=1e-12).fit(X[train], Y[train]).predict(X[test])
        assert_allclose(model.cv_results_["test_loss"][fold, 0, 0], np.mean(error**2) / 2, rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"relax": False}, {"standardize": True}])
def test_a_list_of_ridges_is_a_loop_over_them(options):
    X, Y, _ = strong(40, (8,), (3,), noise=6.0)
    ridges = [0.0, 0.3, 30.0]
    models = [DST2RCV((1, 2), n_l1=6, l2=l2, **options).fit(X, Y) for l2 in ridges]
    chosen = DST2RCV((1, 2), n_l1=6, l2=ridges, **options).fit(X, Y)
    least = [model.cv_results_["mean_test_loss"].min() for model in models]
    assert_array_equal(chosen.cv_results_["l2"], ridges)
    assert_allclose(chosen.cv_results_["l2_test_loss"], least)
    best = int(np.argmin(least))
    assert chosen.l2_ == ridges[best]
    assert_allclose(chosen.cv_results_["test_loss"], models[best].cv_results_["test_loss"])
    assert_array_equal(chosen.coef_, models[best].coef_)
    assert best > 0  # the data can tell


def test_one_point_is_no_penalty():
    X, Y, _ = strong(100, (6,), (4,), noise=1.0)
    model = DST2RCV((1, 2), n_l1=1, tol=1e-8).fit(X, Y)
    assert model.l1_ == 0.0
    assert model.cv_results_["test_loss"].shape == (5, 2, 1)
    assert_same_model(model, DST2R(model.best_rank_, l1=0.0, tol=1e-8).fit(X, Y))


@pytest.mark.parametrize("splitter", [KFold(4, shuffle=True, random_state=1), ShuffleSplit(3, random_state=0), 3])
def test_any_splitter_is_a_list_of_its_splits(splitter):
    X, Y, _ = strong(n=100, noise=1.0)
    splits = list((KFold(3) if splitter == 3 else splitter).split(X))
    one, other = (DST2RCV((1, 2), cv=cv, n_l1=6).fit(X, Y) for cv in (splitter, splits))
    assert_array_equal(one.cv_results_["test_loss"], other.cv_results_["test_loss"])
    assert_array_equal(one.coef_, other.coef_)


def test_partitions_read_once_give_what_separate_accumulation_gives():
    """One more split, of the same kind, takes the other route: the first folds must not change."""
    X, Y, _ = strong(n=100, noise=1.0)
    splits = list(KFold(4).split(X))
    weight = np.random.default_rng(0).uniform(0.5, 2, 100)
    once = DST2RCV((1, 2), cv=splits, n_l1=6).fit(X, Y, sample_weight=weight)
    apart = DST2RCV((1, 2), cv=[*splits, splits[0]], n_l1=6).fit(X, Y, sample_weight=weight)
    assert_allclose(once.cv_results_["test_loss"], apart.cv_results_["test_loss"][:4], rtol=1e-4)


@pytest.mark.parametrize("short", [True, False])
def test_the_path_begins_above_zero_if_one_fold_cannot_carry_a_fit_without_penalty(short):
    """Twelve predictors need 24 samples."""
    X, Y, _ = strong(40, (12,), (4,), noise=2.0)
    ends = (0, 5, 10, 40 if short else 20)  # the last fold trains on 10 samples, or on 30
    tests = [np.arange(start, end) for start, end in pairwise(ends)]
    splits = [(np.setdiff1d(np.arange(40), test), test) for test in tests]
    model = DST2RCV((1,), cv=splits, n_l1=5).fit(X, Y)
    assert (model.cv_results_["l1"][0] > 0) == short


def test_leave_one_out():
    X, Y, _ = strong(30, (4,), (), noise=0.5)
    model = DST2RCV((1,), cv=LeaveOneOut(), n_l1=4).fit(X, Y)
    assert model.cv_results_["test_loss"].shape == (30, 1, 4)
    errors = [Y[i] - LinearRegression().fit(np.delete(X, i, 0), np.delete(Y, i)).predict(X[[i]])[0] for i in range(30)]
    assert_allclose(model.cv_results_["test_loss"][:, 0, 0], np.square(errors) / 2, rtol=1e-5, atol=1e-9)


def test_groups_stay_together():
    X, Y, _ = strong(n=100, noise=1.0)
    groups = np.random.default_rng(0).integers(0, 6, 100)
    one = DST2RCV((1, 2), cv=GroupKFold(3), n_l1=6).fit(X, Y, groups=groups)
    other = DST2RCV((1, 2), cv=list(GroupKFold(3).split(X, Y, groups)), n_l1=6).fit(X, Y)
    assert_array_equal(one.cv_results_["test_loss"], other.cv_results_["test_loss"])
    with pytest.raises(ValueError, match="groups"):
        DST2RCV((1, 2), cv=GroupKFold(3)).fit(X, Y)


def test_number_of_jobs_does_not_matter():
    X, Y, _ = strong(noise=1.0)
    one, two = (DST2RCV((1, 2, 3), n_l1=8, n_jobs=jobs).fit(X, Y) for jobs in (1, 2))
    assert_array_equal(one.cv_results_["test_loss"], two.cv_results_["test_loss"])
    assert_array_equal(one.coef_, two.coef_)


@pytest.mark.parametrize("options", [{}, {"rule": "1se"}, {"standardize": True}, {"correction": "none"}])
@pytest.mark.parametrize(("x_unit", "y_unit"), [(1.0, 1.0), (1e6, 1.0), (1.0, 1e-6), (1e-6, 1e6)])
def test_units_and_shifts_do_not_change_what_cross_validation_chooses(options, x_unit, y_unit):
    X, Y, _ = strong(n=100, noise=1.0)
    rng = np.random.default_rng(0)
    dx, dy = 100.0 * rng.normal(size=(5, 4)), 1000.0 * rng.normal(size=3)
    options = {"ranks": (1, 2), "n_l1": 6, "tol": 1e-7, **options}
    one, other = (DST2RCV(**options).fit(*data) for data in ((X, Y), (x_unit * (X + dx), y_unit * (Y + dy))))
    assert_allclose(other.cv_results_["test_loss"], y_unit**2 * one.cv_results_["test_loss"], rtol=1e-4)
    assert other.best_rank_ == one.best_rank_
    other.coef_ = other.coef_ * x_unit / y_unit
    other.intercept_ = other.intercept_ / y_unit - dy + np.tensordot(dx, other.coef_, 2)
    assert_same_model(one, other)


@pytest.mark.parametrize("options", [{}, {"rule": "1se"}, {"standardize": True}, {"l2": (0.1, 1.0)}])
def test_weights_are_repetitions_in_cross_validation(options):
    X, Y, _ = strong(n=100, noise=1.0)
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    repeated = np.repeat(np.arange(len(X)), weight)
    splits = list(KFold(4).split(X))
    same = [tuple(np.flatnonzero(np.isin(repeated, rows)) for rows in split) for split in splits]
    one = DST2RCV((1, 2), cv=splits, n_l1=6, **options).fit(X, Y, sample_weight=weight)
    other = DST2RCV((1, 2), cv=same, n_l1=6, **options).fit(X[repeated], Y[repeated])
    assert_allclose(one.cv_results_["test_loss"], other.cv_results_["test_loss"], rtol=1e-6)
    assert one.best_rank_ == other.best_rank_
    assert_same_model(one, other)


@pytest.mark.parametrize("seed", range(4))
def test_one_standard_error_is_no_larger(seed):
    X, Y, _ = strong(n=60, noise=4.0, seed=seed)
    models = {rule: DST2RCV((1, 2, 3), rule=rule).fit(X, Y) for rule in ("min", "1se")}
    assert_array_equal(models["min"].cv_results_["test_loss"], models["1se"].cv_results_["test_loss"])
    sizes = {}
    for rule, model in models.items():
        results = model.cv_results_
        row, column = list(results["ranks"]).index(model.best_rank_), list(results["l1"]).index(model.l1_)
        sizes[rule] = results["n_parameters"].mean(axis=0)[row, column]
    assert sizes["1se"] <= sizes["min"]
    assert models["1se"].n_parameters_ <= models["min"].n_parameters_


@pytest.mark.parametrize("options", [{}, {"standardize": True}, {"l2": 0.2}, {"relax": False}, {"correction": "none"}])
def test_statistics_of_parts_are_the_fit_with_those_folds(options):
    X, Y, _ = strong(n=120, noise=1.0)
    splits = list(KFold(4).split(X))
    parts = [GramStatistics.from_arrays(X[test], Y[test]) for _, test in splits]
    one = DST2RCV((1, 2), n_l1=6, **options).fit_statistics(parts)
    other = DST2RCV((1, 2), cv=splits, n_l1=6, **options).fit(X, Y)
    assert_allclose(one.cv_results_["test_loss"], other.cv_results_["test_loss"], rtol=1e-8)
    assert one.best_rank_ == other.best_rank_
    assert_same_model(one, other)


@pytest.mark.parametrize("rule", ["min", "1se"])
def test_the_final_model_keeps_what_the_folds_promise(rule):
    """The chosen model's error on new data, noise and the coefficient's own, is about what the mean over folds says."""
    for seed in range(6):
        X, Y, truth = strong(400, seed=seed, noise=0.3)
        model = DST2RCV((1, 2, 3), rule=rule, n_l1=12).fit(X, Y)
        error = 3 * 0.3**2 / 2 + np.sum((model.coef_ - truth) ** 2) / 2  # predictors have unit variance
        assert error < 1.3 * model.cv_results_["mean_test_loss"].min(), seed
        assert (model.coef_[truth != 0] != 0).all(), seed


@pytest.mark.parametrize("options", [*VARIANTS[2:], {"tol": 1e-7, "l2": 1.0}])
def test_the_final_model_is_the_fit_at_the_chosen_rank_and_penalty(options):
    options = {k: v for k, v in options.items() if k != "l1"}
    X, Y, _ = strong(n=120, noise=1.0)
    chosen = DST2RCV((1, 2, 3), n_l1=8, **options).fit(X, Y)
    assert_same_model(chosen, DST2R(chosen.best_rank_, l1=chosen.l1_, **options).fit(X, Y))


# --- recovery ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("estimator", "exact"), [(DST2R(2), 1), (DST2R(2, l1="ebic"), 2), (DST2RCV((1, 2, 3), rule="1se", n_l1=12), 1)]
)
def test_strong_signals_are_found(estimator, exact, shape):
    """Rank and every true entry always; in most samples nothing else, as a criterion admits noise now and then."""
    matches = 0
    for seed in range(4):
        X, Y, truth = strong(400, *shape, seed=seed)
        model, rank = clone(estimator), 2
        if shape == ((6,), ()):
            rank = 1
            model.set_params(**({"rank": 1} if isinstance(model, DST2R) else {"ranks": (1,)}))
        model.fit(X, Y)
        assert model.rank_ == rank
        assert getattr(model, "best_rank_", rank) == rank
        assert (model.coef_[truth != 0] != 0).all()
        assert_allclose(model.coef_, truth, atol=0.15)
        matches += np.array_equal(model.coef_ != 0, truth != 0)
    assert matches >= exact


def test_superfluous_components_are_given_up():
    for seed in range(3):
        X, Y, truth = strong(400, seed=seed)
        model = DST2R(5).fit(X, Y)
        assert model.rank_ == 2
        assert np.count_nonzero(model.coef_[truth == 0]) < 6


# --- more predictors than samples -------------------------------------------------------------------------------------


def sparse_and_strong(n, x_shape, y_shape, n_entries, seed):
    """A rank-one truth that uses few entries of every mode."""
    rng = np.random.default_rng(seed)
    truth = np.ones(())
    for d in x_shape + y_shape:
        factor = np.zeros(d)
        chosen = rng.choice(d, min(d, n_entries), replace=False)
        factor[chosen] = rng.choice([-1.0, 1.0], chosen.size) * rng.uniform(1, 2, chosen.size)
        truth = np.multiply.outer(truth, factor)
    X = rng.normal(size=(2 * n, *x_shape))
    signal = np.tensordot(X, truth, len(x_shape))
    Y = signal + signal.std() / 4 * rng.normal(size=signal.shape) + 10.0
    return X[:n], Y[:n], X[n:], Y[n:]


WIDE = [(30, (100,), (), 3), (20, (6, 6, 6), (3,), 2), (40, (6, 6, 6), (3,), 2), (25, (60,), (4,), 2)]


@pytest.mark.parametrize(
    ("estimator", "n", "x_shape", "y_shape", "n_entries"),
    [(model, *case) for model in (DST2R(), DST2R(2), DST2R(l1="ebic")) for case in WIDE]
    # of 20 samples a fold would leave 15: the mean is a fair choice
    + [(DST2RCV((1, 2), cv=4, n_l1=12), *case) for case in WIDE if case[0] > 20],
)
def test_more_predictors_than_samples(estimator, n, x_shape, y_shape, n_entries):
    """Better than the mean on new data, and no interpolation; one sample in four may mislead the search."""
    gains = []
    for seed in range(4):
        X, Y, new_x, new_y = sparse_and_strong(n, x_shape, y_shape, n_entries, seed)
        model = clone(estimator)
        if not y_shape and len(x_shape) == 1:  # a vector has rank one
            model.set_params(**({"rank": 1} if isinstance(model, DST2R) else {"ranks": (1,)}))
        model.fit(X, Y)
        error, zero = np.sum((new_y - model.predict(new_x)) ** 2), np.sum((new_y - Y.mean(axis=0)) ** 2)
        gains.append(float(1 - error / zero))
        assert explained(model, X, Y) < 1 - 1e-4
        assert 2 * model.n_parameters_ <= Y.size
    assert np.median(gains) > 0.6, gains
    assert sorted(gains)[1] > 0.2, gains


def test_cross_validation_does_not_end_in_interpolation():
    """What is scored on the folds is what is fitted in the end: no refit that the data cannot carry."""
    X, Y, *_ = sparse_and_strong(30, (100,), (), 3, 5)
    model = DST2RCV((1,), cv=4).fit(X, Y)
    assert explained(model, X, Y) < 1 - 1e-4
    assert model.n_parameters_ <= 15


def test_pure_noise_in_many_predictors_is_left_alone():
    rng = np.random.default_rng(0)
    sizes = [DST2R(l1="ebic").fit(rng.normal(size=(30, 80)), rng.normal(size=30)).n_parameters_ for _ in range(5)]
    assert np.median(sizes) <= 2


@pytest.mark.parametrize("seed", range(5))
def test_the_zero_model_can_be_chosen(seed):
    """Pure noise: a path that knows nothing but models with components would have to choose one."""
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(100, 4, 3)), rng.normal(size=(100, 3))
    model = DST2R(2, relax=False).fit(X, Y)
    assert_allclose(model.path_.criterion[-1], 300 * np.log(model.null_loss_))
    assert model.path_.criterion.argmin() == 19
    assert model.rank_ == 0
    splits = list(KFold(5).split(X))
    chosen = DST2RCV((1, 2), cv=splits, n_l1=8).fit(X, Y)
    mean = [np.sum((Y[test] - Y[train].mean(axis=0)) ** 2) / (2 * len(test)) for train, test in splits]
    for row in (0, 1):
        assert_allclose(chosen.cv_results_["test_loss"][:, row, -1], mean)
    assert chosen.cv_results_["mean_test_loss"].min() <= np.mean(mean)


# --- data at the border -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", BOTH)
def test_an_all_zero_response_gives_the_zero_model(estimator):
    X, Y, _ = strong()
    for constant in (0.0, 5.0):
        model = clone(estimator).fit(X, np.full_like(Y, constant))
        assert_array_equal(model.coef_, 0)
        assert_array_equal(model.intercept_, constant)
        assert (model.rank_, model.n_parameters_) == (0, 0)
        assert_array_equal(model.predict(X), constant)
        assert model.transform(X).shape == (len(X), 0)


@pytest.mark.parametrize("estimator", [*BOTH, DST2R(2, correction="none"), DST2R(2, l1=0.01), DST2R(2, l1=0.0)])
@pytest.mark.parametrize("standardize", [False, True])
def test_constant_columns_are_left_out(estimator, standardize):
    X, Y, _ = strong()
    X[:, 0, 0], X[:, 3, 2] = 7.0, 0.0
    Y[:, 1] = 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = clone(estimator).set_params(standardize=standardize).fit(X, Y)
    assert np.isfinite(model.coef_).all()
    assert model.score(X[:, :, :], Y) > 0.5
    assert_allclose(model.predict(X)[:, 1], 2.0, atol=1e-6)


@pytest.mark.parametrize("estimator", BOTH)
def test_constant_predictors_give_the_mean(estimator):
    _, Y, _ = strong()
    model = clone(estimator).fit(np.full((len(Y), 5, 4), 3.0), Y)
    assert_array_equal(model.coef_, 0)
    assert_allclose(model.predict(np.full((1, 5, 4), 3.0))[0], Y.mean(axis=0))


@pytest.mark.parametrize("shape", [((1,), ()), ((1,), (1,)), ((1, 1), (1,)), ((4, 1), (3,)), ((1, 4), (1, 3))])
@pytest.mark.parametrize("correction", ["none", "full"])
def test_modes_of_size_one_fit(shape, correction):
    X, Y, truth = strong(100, *shape)
    model = DST2R(1, correction=correction).fit(X, Y)
    assert model.coef_.shape == truth.shape
    if min(shape[0] + shape[1]) == max(shape[0] + shape[1]):
        flat = X.reshape(100, 1), Y.reshape(100)
        ends = LinearRegression().fit(*flat).coef_[0]
        assert_allclose(model.coef_.ravel(), ends, rtol=0.03 if correction == "none" else 1e-6)


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("shape", [((5,), (4,)), ((5, 4), (3,))])
def test_a_perfect_fit_is_taken(estimator, shape):
    """No noise at all, and duplicated predictors."""
    X, _, truth = strong(100, *shape)
    Y = np.tensordot(X, truth, len(shape[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = clone(estimator).fit(X, Y)
        assert_allclose(model.predict(X), Y, atol=1e-3 * Y.std())
        X = X.copy()
        X[:, 1] = X[:, 0]
        model = clone(estimator).fit(X, Y)
    assert np.isfinite(model.coef_).all()


def test_two_samples_fit():
    model = DST2R().fit(np.array([[0.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0]))
    assert np.isfinite(model.predict([[2.0, 2.0]])).all()


# --- bad input --------------------------------------------------------------------------------------------------------

X0, Y0, _ = strong(20)


def changed(A, value):
    A = A.astype(object if isinstance(value, str) else np.result_type(A, type(value)))
    A.flat[3] = value
    return A


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize(
    ("X", "Y", "error", "remedy"),
    [
        (changed(X0, np.nan), Y0, ValueError, "contains NaN"),
        (X0, changed(Y0, np.nan), ValueError, "contains NaN"),
        (changed(X0, np.inf), Y0, ValueError, "contains infinity"),
        (X0, changed(Y0, -np.inf), ValueError, "contains infinity"),
        (changed(X0, 1j), Y0, ValueError, "[Cc]omplex"),
        (X0, changed(Y0, 1j), ValueError, "[Cc]omplex"),
        (changed(X0, "a"), Y0, ValueError, "convert"),
        (X0, changed(Y0, "a"), ValueError, "convert"),
        (scipy.sparse.csr_array(X0[:, 0]), Y0, TypeError, "toarray"),
        (X0[:, 0], scipy.sparse.csr_array(Y0), TypeError, "toarray"),
        (X0[:0], Y0[:0], ValueError, "minimum of 2 is required"),
        (X0[:1], Y0[:1], ValueError, "minimum of 2 is required"),
        (X0, Y0[:-1], ValueError, "samples"),
        (X0, 3.0, (ValueError, TypeError), "one entry per sample|at least 1 dimension"),
        (X0, None, ValueError, "y"),
        (X0, Y0[:, :0], ValueError, "at least one"),
        (X0[:, :, :0], Y0, ValueError, "at least one|minimum of 1"),
        (X0[:, 0, 0], Y0, ValueError, "Reshape your data"),
    ],
    ids=range(18),
)
def test_bad_training_data_is_named(estimator, X, Y, error, remedy):
    with pytest.raises(error, match=remedy):
        clone(estimator).fit(X, Y)


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize(
    ("weight", "remedy"),
    [
        (np.full(20, -1.0), "[Nn]egative"),
        (np.zeros(20), "at least one sample must count|zero"),
        (np.ones(19), "sample_weight"),
        (np.full(20, np.nan), "NaN"),
    ],
    ids=range(4),
)
def test_bad_weights_are_named(estimator, weight, remedy):
    with pytest.raises(ValueError, match=remedy):
        clone(estimator).fit(X0, Y0, sample_weight=weight)


@pytest.mark.parametrize("method", ["predict", "transform"])
@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize(
    ("new", "remedy"),
    [
        (np.zeros((3, 4, 5)), "(same modes in the same order|features)"),
        (np.zeros((3, 5, 3)), "same modes in the same order"),
        (np.zeros((3, 5)), "same modes in the same order"),
        (np.zeros((3, 5, 4, 1)), "same modes in the same order"),
        (np.zeros((5, 4)), "(same modes in the same order|features)"),
        (np.full((3, 5, 4), np.nan), "contains NaN"),
        (np.zeros((0, 5, 4)), "minimum of 1 is required"),
    ],
    ids=range(7),
)
def test_bad_new_data_are_named(estimator, method, new, remedy):
    model = clone(estimator).fit(X0, Y0)
    with pytest.raises(ValueError, match=remedy):
        getattr(model, method)(new)


@pytest.mark.parametrize(
    ("estimator", "remedy"),
    [
        (DST2R(rank=0), "rank is 0; expected an integer at least 1"),
        (DST2R(rank=-2), "at least 1"),
        (DST2R(rank=1.5), "an integer"),
        (DST2R(rank=True), "an integer"),
        (DST2R(rank="2"), "an integer"),
        (DST2R(rank=13), "choose at most 12"),
        (DST2R(l1=-0.1), "l1 is -0.1; expected a number at least 0"),
        (DST2R(l1=np.nan), "expected a number"),
        (DST2R(l1=np.inf), "expected a number"),
        (DST2R(l1="bis"), "'bic', 'aic', 'ebic'"),
        (DST2R(l1=None), "l1 is None"),
        (DST2R(l2=-1.0), "l2 is -1.0; expected a number at least 0"),
        (DST2R(l2="1"), "l2 is '1'"),
        (DST2R(correction="half"), "'full', 'final', 'none'"),
        (DST2R(correction=None), "'full', 'final', 'none'"),
        (DST2R(step_size=0.0), "greater than 0"),
        (DST2R(step_size=-1.0), "greater than 0"),
        (DST2R(step_size="small"), "step_size is 'small'.*auto"),
        (DST2R(tol=0.0), "tol is 0.0; expected a number greater than 0"),
        (DST2R(max_iter=0), "max_iter is 0; expected an integer at least 1"),
        (DST2R(n_restarts=-1), "n_restarts"),
        (DST2R(n_restarts=1, correction="none"), "set correction='full' or n_restarts=0"),
        (DST2RCV(ranks=()), "one or more|at least one"),
        (DST2RCV(ranks=(0, 1)), "at least 1"),
        (DST2RCV(ranks=(13, 14)), "choose at most 12"),
        (DST2RCV(ranks=(1, 2.5)), "an integer"),
        (DST2RCV(ranks=2), "ranks is 2"),
        (DST2RCV(rule="2se"), "'min', '1se'"),
        (DST2RCV(ranks=(1,), n_l1=0), "n_l1 is 0; expected an integer at least 1"),
        (DST2RCV(cv=1), "at least one train/test split|n_splits"),
        (DST2RCV(cv=21, ranks=(1,)), "n_splits=21"),
        (DST2RCV(ranks=(1,), l2=-1.0), "l2 is -1.0"),
        (DST2RCV(ranks=(1,), l2=(0.1, -1.0)), "l2 is -1.0"),
        (DST2RCV(ranks=(1,), l2=()), "l2"),
        (DST2RCV(ranks=(1,), l2=np.inf), "l2 is inf"),
    ],
    ids=lambda value: str(value).replace("\n", "") if isinstance(value, DST2R | DST2RCV) else "",
)
def test_bad_parameters_are_named(estimator, remedy):
    with pytest.raises(ValueError, match=remedy):
        estimator.fit(X0, Y0)


def test_bad_parts_are_named():
    part = GramStatistics.from_arrays(X0, Y0)
    with pytest.raises(ValueError, match="at least two"):
        DST2RCV((1,)).fit_statistics([part])
    with pytest.raises(ValueError, match="same predictors and responses"):
        DST2RCV((1,)).fit_statistics([part, GramStatistics.from_arrays(X0[:, :3], Y0)])
    for model in (DST2R(), DST2RCV((1,))):
        with pytest.raises(TypeError, match=r"got a ndarray; expected statistics"):
            model.fit_statistics(X0)


def test_the_whole_shape_of_predictors_is_told():
    model = DST2R().fit(np.ones((20, 4, 3)), np.arange(20.0))
    for method in (model.predict, model.transform):
        with pytest.raises(ValueError, match=r"samples of shape \(3, 4\), but DST2R was fitted on \(4, 3\)"):
            method(np.ones((20, 3, 4)))


def test_default_ranks_suit_a_shape_that_carries_only_one():
    X, Y, _ = strong(60, (6,), ())
    assert DST2RCV(n_l1=5).fit(X, Y).best_rank_ == 1


def test_correction_that_has_not_converged_warns_with_a_remedy():
    X, Y, _ = strong(noise=5.0)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model = DST2R(3, l1=0.0, max_iter=1, tol=1e-10).fit(X, Y)
    assert not model.converged_
    assert DST2R(rank=2).fit(*strong()[:2]).converged_


@pytest.mark.parametrize("model", [DST2R(rank=2), DST2R(rank=1, correction="none"), DST2RCV(ranks=(1, 2), n_l1=4)])
def test_losses_are_those_of_the_predictions(model):
    X, Y, _ = strong(n=80)
    weight = np.arange(80) % 3
    model.fit(X, Y, weight)
    rows = np.repeat(np.arange(80), weight)
    square = np.sum((Y[rows] - model.predict(X[rows])) ** 2) / (2 * len(rows))
    spread = np.sum((Y[rows] - Y[rows].mean(axis=0)) ** 2) / (2 * len(rows))
    assert_allclose([model.loss_, model.null_loss_], [square, spread], rtol=1e-8)
    assert model.n_samples_ == len(rows)


def test_loss_counts_the_ridge():
    X, Y, _ = strong(n=80)
    model = DST2R(rank=2, l2=0.3).fit(X, Y)
    square = np.sum((Y - model.predict(X)) ** 2) / 160
    assert_allclose(model.loss_, square + 0.15 * np.sum(model.coef_**2), rtol=1e-8)
