"""The competing methods against scikit-learn, TensorLy, SciPy and formulations on rows that share no code with them."""

import pickle
from itertools import combinations, product

import naive
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg
from scipy import stats as distributions
from scipy.stats import linregress
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Lasso, LassoCV, LinearRegression, MultiTaskLasso, Ridge, lasso_path
from sklearn.model_selection import KFold
from sklearn.multioutput import MultiOutputRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks
from tensorly.cp_tensor import cp_to_tensor
from tensorly.decomposition import parafac
from tensorly.regression import CPRegressor

from dst2r.baselines import HOLRR, STORE, SURF, CPRidge, KernelHOLRR, SparseOLS, TensorEnvelope
from dst2r.cp import khatri_rao
from dst2r.metrics import selection_rates
from dst2r.simulation import make_tensor_regression
from dst2r.statistics import GramStatistics

DEFAULTS = [
    SparseOLS(),
    STORE(random_state=0),
    TensorEnvelope(),
    HOLRR(),
    KernelHOLRR(),
    CPRidge(random_state=0),
    SURF(),
]
LINEAR = [model for model in DEFAULTS if not isinstance(model, KernelHOLRR)]
VARIANTS = [SparseOLS(cv=3), SparseOLS("auto", "auto", n_values=5), HOLRR(cv=None), CPRidge(cv=None), SURF(2, l1=0.01)]
# Everything is chosen without folds, so that statistics are enough.
FROM_STATISTICS = [
    SparseOLS(),
    STORE((1, 2), random_state=0),
    TensorEnvelope(),
    HOLRR(cv=None),
    CPRidge(2, cv=None, random_state=0),
    SURF(2, l1=0.01),
]


def name(model):
    return repr(model)


def for_model(model, Y):
    """The responses, or the first of them for the method that takes one."""
    return Y.reshape(len(Y), -1)[:, 0] if isinstance(model, SURF) else Y


def without_folds(model):
    """The same method, whose choices then do not depend on the order or the number of samples."""
    if isinstance(model, SURF):
        return clone(model).set_params(l1=0.01)
    return clone(model).set_params(cv=None) if "cv" in model.get_params() else clone(model)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def data():
    return make_tensor_regression(60, (3, 2), (2, 3), rank=1, sparsity=0.3, snr=2, normalize=True, random_state=1)


@pytest.fixture(scope="module")
def paper():
    """The first experiment of the DST2R paper: the scale that every method must bear."""
    return make_tensor_regression(rank=2, sparsity=0.5, normalize=True, snr=1, random_state=0)


def second_moments(Y):
    Y = Y.reshape(len(Y), -1)
    Y = Y - Y.mean(axis=0)
    return Y.T @ Y / len(Y)


def rows(X, Y):
    """Centred matrices."""
    X, Y = X.reshape(len(X), -1), Y.reshape(len(Y), -1)
    return X - X.mean(axis=0), Y - Y.mean(axis=0)


def matrix(model, X):
    return model.coef_.reshape(X[0].size, -1)


def half_mean_square(X, Y, coef):
    X, Y = rows(X, Y)
    return np.sum((Y - X @ coef.reshape(X.shape[1], -1)) ** 2) / (2 * len(X))


def projector(basis):
    Q = np.linalg.qr(basis)[0]
    return Q @ Q.T


# --- what all have in common ------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*ridge fallback:UserWarning")  # checks with more features than samples
@parametrize_with_checks([*DEFAULTS, *VARIANTS])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("model", "y_shape"),
    [(m, s) for m in DEFAULTS for s in ((), (4,), (2, 3), (2, 1, 2)) if s == () or not isinstance(m, SURF)],
    ids=repr,
)
@pytest.mark.parametrize("x_shape", [(3,), (2, 3)])
def test_shapes(model, x_shape, y_shape, rng):
    X = rng.standard_normal((40, *x_shape))
    Y = 3 + np.multiply.outer(X.reshape(40, -1)[:, 0], np.ones(y_shape)) + 0.1 * rng.standard_normal((40, *y_shape))
    model = clone(model).fit(X, Y)
    assert model.intercept_.shape == y_shape
    assert model.predict(X).shape == Y.shape
    assert model.predict(X.astype(np.float32)).dtype == np.float32
    assert model.score(X, Y) > 0.8
    if not isinstance(model, KernelHOLRR):
        assert model.coef_.shape == x_shape + y_shape
        assert_allclose(model.predict(X), np.tensordot(X, model.coef_, len(x_shape)) + model.intercept_, atol=1e-12)
        assert_allclose(model.predict(X).mean(axis=0), Y.mean(axis=0), atol=1e-10)


@pytest.mark.parametrize("model", FROM_STATISTICS, ids=name)
def test_statistics_are_enough(model, data):
    Y = for_model(model, data.Y)
    stats = GramStatistics.from_arrays(data.X[:20], Y[:20]) + GramStatistics.from_arrays(data.X[20:], Y[20:])
    extra = (second_moments(data.Y),) if isinstance(model, TensorEnvelope | HOLRR) else ()
    from_parts = clone(model).fit_statistics(stats, *extra)
    at_once = clone(model).fit(data.X, Y)
    assert_allclose(from_parts.coef_, at_once.coef_, atol=1e-7)
    assert_allclose(from_parts.intercept_, at_once.intercept_, atol=1e-7)
    assert_allclose(from_parts.predict(data.X), at_once.predict(data.X), atol=1e-6)


@pytest.mark.parametrize("model", LINEAR, ids=name)
def test_shifts_and_units(model, data):
    """Shifts go into the intercept, and factors of Y into the coefficient: all tuning is free of units."""
    Y = for_model(model, data.Y)
    reference = clone(model).fit(data.X, Y)
    shifted = clone(model).fit(data.X + 100.0, Y - 50.0)
    assert_allclose(shifted.coef_, reference.coef_, atol=1e-6)
    assert_allclose(shifted.predict(data.X + 100.0), reference.predict(data.X) - 50.0, atol=1e-6)
    for scale in (1e-6, 1e6):
        scaled = clone(model).fit(data.X, scale * Y)
        assert_allclose(scaled.coef_ / scale, reference.coef_, atol=1e-6)
        scaled = clone(model).fit(scale * data.X, Y)
        assert_allclose(scaled.coef_ * scale, reference.coef_, atol=1e-6)


@pytest.mark.parametrize("model", LINEAR, ids=name)
def test_without_intercept(model, data):
    """Without an intercept, samples and their negatives together change nothing, as their means are zero."""
    y = for_model(model, data.Y)
    X, Y = np.concatenate([data.X, -data.X]), np.concatenate([y, -y])
    model = without_folds(model).set_params(fit_intercept=False).fit(X, Y)
    assert not model.intercept_.any()
    assert_allclose(model.predict(np.zeros_like(X[:1])), np.zeros_like(Y[:1]), atol=0)
    centred = clone(model).set_params(fit_intercept=True).fit(X, Y)
    assert_allclose(model.coef_, centred.coef_, atol=2e-3 if isinstance(model, TensorEnvelope) else 1e-6)
    uncentred = clone(model).fit(data.X + 1.0, y + 10.0)
    assert np.abs(uncentred.coef_ - model.coef_).max() > 1e-2


@pytest.mark.parametrize("model", DEFAULTS, ids=name)
def test_weight_zero_removes_a_sample(model, data):
    weight = np.ones(60)
    weight[::3] = 0.0
    model, Y = without_folds(model), for_model(model, data.Y)
    wild = np.where(weight.reshape(-1, *[1] * (Y.ndim - 1)) == 0, 1e3, Y)
    weighted = clone(model).fit(data.X, wild, weight)
    removed = clone(model).fit(data.X[weight > 0], Y[weight > 0])
    assert_allclose(weighted.predict(data.X), removed.predict(data.X), atol=1e-6)


@pytest.mark.parametrize("model", [m for m in LINEAR if not isinstance(m, CPRidge | SURF)], ids=name)
def test_predictors_are_vectorised(model, data):
    flat = clone(model).fit(data.X.reshape(60, -1), data.Y)
    assert_allclose(clone(model).fit(data.X, data.Y).coef_.ravel(), flat.coef_.ravel(), atol=1e-10)


@pytest.mark.parametrize("model", LINEAR, ids=name)
@pytest.mark.parametrize("level", [0.0, 7.1])
def test_responses_that_do_not_vary(model, level, rng):
    X = rng.standard_normal((40, 3, 2))
    model = clone(model).fit(X, for_model(model, np.full((40, 2, 3), level)))
    assert_allclose(model.coef_, 0.0, atol=1e-12)
    assert_allclose(model.intercept_, level, rtol=1e-12)


@pytest.mark.parametrize("model", LINEAR, ids=name)
def test_predictors_that_do_not_vary(model, data, rng):
    """A constant, which rounding leaves with a variance of 1e-34, has no effect, be it alone or not."""
    constant = np.full((60, 1, 2), 0.1)
    model, Y = without_folds(model), for_model(model, data.Y)
    with_constant = clone(model).fit(np.concatenate([data.X, constant], axis=1), Y)
    assert_allclose(with_constant.coef_[3], 0.0, atol=1e-8)
    if not isinstance(model, CPRidge | HOLRR):  # their penalties are relative to the mean variance of a predictor
        assert_allclose(with_constant.coef_[:3], clone(model).fit(data.X, Y).coef_, atol=2e-2)
    assert not clone(model).fit(constant, Y).coef_.any()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SparseOLS(l1=-1.0), "l1 is -1.0; expected a number of at least 0|l1 is -1.0; expected a number at least 0"),
        (SparseOLS(l1="bic"), "l1 is 'bic'; expected \"auto\""),
        (SparseOLS(l2_group=None), "l2_group is None"),
        (SparseOLS(n_values=1), "n_values is 1"),
        (SparseOLS(min_ratio=1.0), "min_ratio is 1.0"),
        (SparseOLS(tol=0.0), "tol is 0.0"),
        (SparseOLS(max_iter=0), "max_iter is 0"),
        (STORE(0), "rank is 0; expected an integer"),
        (STORE(()), r"rank is \(\); expected a positive integer or a sequence"),
        (STORE("auto"), "rank is 'auto'"),
        (STORE(sparsity=1.5), "sparsity is 1.5; expected shares of zeros between 0 and 1"),
        (STORE(sparsity=(0.5,)), r"sparsity is \(0.5,\); expected .* each of the 2 response modes"),
        (STORE(sparsity="some"), "sparsity is 'some'"),
        (STORE(n_restarts=0), "n_restarts is 0"),
        (TensorEnvelope(dims=(3, 1)), r"dims is \(3, 1\); expected .* at most \(2, 3\)"),
        (TensorEnvelope(dims=2), "dims is 2; expected .* 2 integers"),
        (TensorEnvelope(dims=(1.0, 2.0)), "dims is"),
        (TensorEnvelope(bic_constant=-1), "bic_constant is -1"),
        (TensorEnvelope(max_dim=0), "max_dim is 0"),
        (TensorEnvelope(p_threshold=2.0), "p_threshold is 2.0"),
        (HOLRR(ranks=(1, 1)), r"ranks is \(1, 1\); expected .* 3 integers"),
        (HOLRR(ranks=(7, 1, 1)), r"at most \(6, 2, 3\)"),
        (HOLRR(gamma="bic"), "gamma is 'bic'"),
        (HOLRR(cv=1), "n_splits=1"),
        (KernelHOLRR(kernel="cubic"), "kernel is 'cubic'; expected one of"),
        (CPRidge(1.5), "rank is 1.5"),
        (CPRidge(l2=np.inf), "l2 is inf"),
        (CPRidge(n_restarts=True), "n_restarts is True"),
        (SURF(0), "rank is 0; expected an integer"),
        (SURF(l1="bic"), "l1 is 'bic'"),
        (SURF(l2=-1), "l2 is -1"),
        (SURF(cv=None), "cv is None, but SURF has no rule without folds"),
        (SURF(cv=1), "n_splits=1"),
        (SURF(step_size=0.0), 'step_size is 0.0; expected a number greater than 0, or "auto"'),
        (SURF(step_size="small"), "step_size is 'small'"),
        (SURF(tol=-1), "tol is -1"),
    ],
    ids=repr,
)
def test_bad_parameters(model, message, data):
    with pytest.raises(ValueError, match=message):
        model.fit(data.X, for_model(model, data.Y))


@pytest.mark.parametrize("model", DEFAULTS, ids=name)
def test_bad_data(model, data):
    Y = for_model(model, data.Y)
    with pytest.raises(ValueError, match="60 samples, y has 59"):
        clone(model).fit(data.X, Y[:59])
    with pytest.raises(ValueError, match="NaN"):
        clone(model).fit(np.where(data.X > 0, np.nan, data.X), Y)
    with pytest.raises(ValueError, match="NaN"):
        clone(model).fit(data.X, np.where(Y.flat[0] == Y, np.nan, Y))
    with pytest.raises(ValueError, match=r"samples of shape \(2, 3\), but .* was fitted on \(3, 2\)|is expecting 3"):
        clone(model).fit(data.X, Y).predict(data.X.transpose(0, 2, 1))


@pytest.mark.parametrize("model", [SparseOLS(cv=3), HOLRR(), CPRidge(), CPRidge((1, 2), l2=0.0), SURF()], ids=name)
def test_folds_need_samples(model, data):
    with pytest.raises(ValueError, match="by cross-validation, which needs the samples"):
        model.fit_statistics(GramStatistics.from_arrays(data.X, data.Y))


def test_kernels_need_samples(data):
    with pytest.raises(TypeError, match="samples themselves"):
        KernelHOLRR().fit_statistics(GramStatistics.from_arrays(data.X, data.Y))


@pytest.mark.parametrize("model", [TensorEnvelope(), HOLRR(cv=None)], ids=name)
def test_response_moments(model, data):
    stats = GramStatistics.from_arrays(data.X, data.Y)
    with pytest.raises(ValueError, match="needs all second moments of the responses"):
        model.fit_statistics(stats)
    with pytest.raises(ValueError, match=r"y_gram has shape \(5, 5\); expected finite numbers of shape \(6, 6\)"):
        model.fit_statistics(stats, np.eye(5))
    scalar = GramStatistics.from_arrays(data.X, data.Y[:, 0, 0])
    assert_allclose(model.fit_statistics(scalar).coef_, clone(model).fit(data.X, data.Y[:, 0, 0]).coef_)


@pytest.mark.parametrize("model", [STORE(), TensorEnvelope(), HOLRR((1, 1, 1), 0.0)], ids=name)
def test_ridge_fallback(model, data):
    few = slice(0, 7)
    with pytest.warns(UserWarning, match=r"6 predictor entries, .* 7 samples: a ridge fallback of trace"):
        model.fit(data.X[few], data.Y[few])


def test_ridge_fallback_is_that_ridge(data):
    X, Y = rows(data.X[:5], data.Y[:5])
    ridge = Ridge(alpha=np.sum(X**2) / 5).fit(X, Y)  # n times trace(G)/n
    for model in (STORE(6, 0.0, random_state=0), TensorEnvelope((2, 3)), HOLRR((6, 2, 3), 0.0)):
        with pytest.warns(UserWarning, match="ridge fallback"):
            model.fit(data.X[:5], data.Y[:5])
        assert_allclose(matrix(model, data.X), ridge.coef_.T, atol=1e-5)
    assert np.isnan(TensorEnvelope((2, 3)).fit(data.X, data.Y).p_values_).sum() == 0
    with pytest.raises(ValueError, match="needs more samples"), pytest.warns(match="ridge"):
        TensorEnvelope(p_threshold=0.05).fit(data.X[:5], data.Y[:5])


def test_cross_validation_sees_every_split(data):
    """Splits that are no partition, and the same folds as arrays, go through other code than KFold."""
    splits = list(KFold(3).split(data.X))
    for model in (SparseOLS(), HOLRR(), CPRidge(random_state=0), SURF()):
        Y = for_model(model, data.Y)
        one = clone(model).set_params(cv=3).fit(data.X, Y)
        two = clone(model).set_params(cv=splits).fit(data.X, Y)
        assert_allclose(one.coef_, two.coef_, atol=1e-9)
        overlapping = clone(model).set_params(cv=[splits[0], splits[0], splits[1]]).fit(data.X, Y)
        assert np.isfinite(overlapping.coef_).all()


@pytest.mark.parametrize("model", LINEAR, ids=name)
def test_an_interrupted_fit_changes_nothing(model, data, monkeypatch):
    Y = for_model(model, data.Y)
    fitted = clone(model).fit(data.X, Y)
    before = dict(vars(fitted))

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(fitted, "_set_coefficient", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(data.X[:, :2], 2 * Y)
    monkeypatch.undo()
    assert vars(fitted) == before


@pytest.mark.parametrize("model", DEFAULTS, ids=name)
def test_pickles_and_clones(model, data):
    Y = for_model(model, data.Y)
    fitted = clone(model).fit(data.X, Y)
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict(data.X), fitted.predict(data.X))
    assert clone(fitted).get_params() == fitted.get_params()
    assert not hasattr(clone(fitted), "intercept_")
    assert 0 < fitted.n_parameters_ == again.n_parameters_
    assert isinstance(fitted.n_parameters_, int)


@pytest.mark.parametrize("model", [STORE(2, random_state=0), CPRidge(2, random_state=0), SURF()], ids=name)
def test_components_can_be_scored(model):
    y_shape = () if isinstance(model, SURF) else (3, 4)
    data = make_tensor_regression(400, (5, 4, 3), y_shape, rank=2, sparsity=0.5, snr=10, normalize=True, random_state=0)
    truth = list(data.factors)
    if isinstance(model, STORE):  # it has one predictor mode
        truth[:3] = [khatri_rao(truth[:3], 2)]
    model = clone(model).fit(data.X, data.Y)
    assert_allclose(cp_to_tensor(model.cp_).ravel(), model.coef_.ravel(), atol=1e-10)
    weights, factors = model.cp_
    assert (np.diff(weights) <= 0).all()
    for factor in factors:
        assert_allclose(np.linalg.norm(factor, axis=0), 1.0)
    entries = sum(np.count_nonzero(factor) for factor in factors)
    assert model.n_parameters_ == entries - model.rank_ * (len(factors) - 1)
    rates = selection_rates(model.cp_, truth)
    assert rates.tpr > 0.9
    assert len(rates.tpr_per_mode) == len(factors)


def dimension(build, sizes, rng):
    """Number of directions in which a coefficient can move, by differences about a random point."""
    point = rng.standard_normal(sum(sizes))

    def at(values):
        return build(*np.split(values, np.cumsum(sizes)[:-1])).ravel()

    moves = np.array([(at(point + e) - at(point - e)) / 2e-4 for e in 1e-4 * np.eye(len(point))])
    return np.linalg.matrix_rank(moves, tol=1e-5 * np.linalg.norm(moves, 2))


def test_numbers_of_parameters_are_dimensions(data, rng):
    """The rank of the derivative of the coefficient, (3, 2) -> (2, 3), in all that describes it."""
    for x_rank, u, v in [(1, 1, 1), (2, 1, 2), (3, 2, 2), (6, 1, 3), (6, 2, 1), (6, 2, 3)]:

        def build(left, core, first, second, x_rank=x_rank, u=u, v=v):
            left, core = left.reshape(6, x_rank), core.reshape(x_rank, u, v)
            return np.einsum("pr,rij,ai,bj->pab", left, core, first.reshape(2, u), second.reshape(3, v))

        free = dimension(build, (6 * x_rank, x_rank * u * v, 2 * u, 3 * v), rng)
        assert HOLRR((x_rank, u, v), 0.1).fit(data.X, data.Y).n_parameters_ == free
        if x_rank == 6:
            assert TensorEnvelope((u, v)).fit(data.X, data.Y).n_parameters_ == free
    sparse = SparseOLS(0.02).fit(data.X, data.Y)
    assert sparse.n_parameters_ == np.count_nonzero(sparse.coef_)


# --- Sparse OLS -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("l1", [0.01, 0.05, 0.2])
def test_sparse_ols_is_the_lasso(l1, data):
    model = SparseOLS(l1, tol=1e-9).fit(data.X, data.Y)
    X, Y = data.X.reshape(60, -1), data.Y.reshape(60, -1)
    for k in range(6):
        lasso = Lasso(alpha=l1, tol=1e-12, max_iter=100_000).fit(X, Y[:, k])
        assert_allclose(matrix(model, data.X)[:, k], lasso.coef_, atol=1e-7)
        assert_allclose(model.intercept_.ravel()[k], lasso.intercept_, atol=1e-7)


@pytest.mark.parametrize("group", [0.01, 0.05, 0.2])
def test_sparse_ols_is_the_multitask_lasso(group, data):
    model = SparseOLS(0.0, group, tol=1e-9).fit(data.X, data.Y)
    oracle = MultiTaskLasso(alpha=group, tol=1e-12, max_iter=100_000)
    oracle.fit(data.X.reshape(60, -1), data.Y.reshape(60, -1))
    assert_allclose(matrix(model, data.X), oracle.coef_.T, atol=1e-7)
    assert model.coef_.any()


def test_sparse_ols_with_both_penalties_is_optimal(rng):
    """No coordinate and no whole row can move either way and lower the objective, written out naively."""
    X, B = rng.standard_normal((80, 7)), rng.standard_normal((7, 4)) * (rng.random((7, 4)) < 0.5)
    B[4:] = 0.0
    Y = X @ B + rng.standard_normal((80, 4))
    l1, group = 0.1, 0.15
    model = SparseOLS(l1, group, tol=1e-9).fit(X, Y)

    def objective(coef):
        return half_mean_square(X, Y, coef) + l1 * np.abs(coef).sum() + group * np.linalg.norm(coef, axis=1).sum()

    best = objective(model.coef_)
    for step, (j, k) in product((1e-4, -1e-4), np.ndindex(7, 4)):
        moved = model.coef_.copy()
        moved[j, k] += step
        assert objective(moved) > best
    for step, j in product((1e-4, -1e-4), range(7)):
        moved = model.coef_.copy()
        moved[j] *= 1 + step
        assert objective(moved) >= best
    zeros = np.count_nonzero(model.coef_ == 0)
    dead_rows = np.count_nonzero(~model.coef_.any(axis=1))
    assert 0 < 4 * dead_rows < zeros < 28, "the data must show zeros of both kinds"


def test_sparse_ols_path_starts_where_the_coefficient_vanishes(data):
    X, Y = rows(data.X, data.Y)
    largest = np.abs(X.T @ Y).max() / 60
    assert_allclose(SparseOLS().fit(data.X, data.Y).path_["l1"][0], largest)
    assert not SparseOLS(largest * (1 + 1e-9)).fit(data.X, data.Y).coef_.any()
    assert SparseOLS(0.99 * largest).fit(data.X, data.Y).coef_.any()


def test_sparse_ols_bic(data):
    """The criterion of remMap, with the lassos of scikit-learn and true non-zeros."""
    model = SparseOLS(n_values=30, min_ratio=1e-3).fit(data.X, data.Y)
    X, Y = data.X.reshape(60, -1), data.Y.reshape(60, -1)
    criterion = []
    for l1 in model.path_["l1"]:
        lassos = [Lasso(alpha=l1 * (1 + 1e-12), tol=1e-10, max_iter=100_000).fit(X, y) for y in Y.T]
        rss = [np.sum((y - lasso.predict(X)) ** 2) for lasso, y in zip(lassos, Y.T, strict=True)]
        criterion.append(60 * np.sum(np.log(rss)) + np.log(60) * sum(np.count_nonzero(m.coef_) for m in lassos))
    assert_allclose(np.diff(model.path_["criterion"]), np.diff(criterion), rtol=1e-3, atol=2e-2)
    assert 0 < np.argmin(criterion) < len(criterion) - 1
    assert_allclose(model.l1_, model.path_["l1"][np.argmin(criterion)])
    # twelve values without improvement end the path
    long = SparseOLS().fit(data.X, data.Y).path_["criterion"]
    assert len(long) == np.argmin(long) + 13 < 60


def test_sparse_ols_cross_validation(data):
    model = SparseOLS(cv=4, n_values=20, min_ratio=1e-2, tol=1e-8).fit(data.X, data.Y)
    X, Y = data.X.reshape(60, -1), data.Y.reshape(60, -1)
    errors = [
        sum(
            np.sum(
                (Y[test] - Lasso(alpha=l1, tol=1e-10, max_iter=10_000).fit(X[train], Y[train]).predict(X[test])) ** 2
            )
            for train, test in KFold(4).split(X)
        )
        for l1 in model.path_["l1"]
    ]
    assert_allclose(model.path_["criterion"], errors, rtol=1e-6)
    assert_allclose(model.l1_, model.path_["l1"][np.argmin(errors)])
    assert_allclose(matrix(model, X), Lasso(alpha=model.l1_, tol=1e-10).fit(X, Y).coef_.T, atol=1e-6)


def test_sparse_ols_tunes_groups(rng):
    X = rng.standard_normal((100, 20))
    B = np.zeros((20, 6))
    B[:3] = rng.standard_normal((3, 6))
    Y = X @ B + rng.standard_normal((100, 6))
    model = SparseOLS("auto", "auto", cv=5, n_values=20).fit(X, Y)
    assert model.l2_group_ > 0
    assert np.linalg.norm(model.coef_ - B) < np.linalg.norm(SparseOLS(cv=5).fit(X, Y).coef_ - B)


def test_sparse_ols_with_more_predictors_than_samples(rng):
    """BIC falls without bound towards the exact fit, which must not be chosen."""
    X = rng.standard_normal((30, 80))
    Y = 3 * X[:, :2] + rng.standard_normal((30, 2))
    model = SparseOLS(min_ratio=1e-6).fit(X, Y)
    assert np.count_nonzero(model.coef_, axis=0).max() <= 15
    assert model.coef_[0, 0] > 1
    assert model.coef_[1, 1] > 1


def test_sparse_ols_says_when_it_has_not_converged(data):
    with pytest.warns(ConvergenceWarning, match="max_iter=1 sweeps"):
        SparseOLS(0.01, max_iter=1).fit(data.X, data.Y)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 sweeps"):
        SparseOLS(0.01, 0.01, max_iter=1).fit(data.X, data.Y)


# --- STORE ------------------------------------------------------------------------------------------------------------


def best_sparse_rank_one(matrix, counts):
    """Over all supports, the leading singular triplet."""
    best = np.zeros_like(matrix)
    for i, j in product(*(combinations(range(d), s) for d, s in zip(matrix.shape, counts, strict=True))):
        left, sizes, right = np.linalg.svd(matrix[np.ix_(i, j)])
        candidate = np.zeros_like(matrix)
        candidate[np.ix_(i, j)] = sizes[0] * np.outer(left[:, 0], right[0])
        if np.linalg.norm(matrix - candidate) < np.linalg.norm(matrix - best):
            best = candidate
    return best


@pytest.mark.parametrize("seed", range(5))
def test_store_with_a_constant_predictor_is_the_best_sparse_rank_one_approximation(seed):
    Y = np.random.default_rng(seed).standard_normal((20, 4, 5)) + 0.3
    model = STORE(1, (0.5, 0.4), fit_intercept=False, n_restarts=10, random_state=0).fit(np.full((20, 1), 2.0), Y)
    assert_allclose(2.0 * model.coef_[0], best_sparse_rank_one(Y.mean(axis=0), (2, 3)), atol=1e-6)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_store_without_zeros_on_one_response_mode_is_reduced_rank_regression(rank, rng):
    """Predictor scores must be scaled by their squares: this is where the original goes wrong."""
    X = rng.standard_normal((50, 4)) * [1, 5, 0.2, 1] + 3
    Y = X @ rng.standard_normal((4, 3)) + rng.standard_normal((50, 3))
    model = STORE(rank, 0.0, tol=1e-10, max_iter=5000, random_state=0).fit(X, Y)
    assert_allclose(model.coef_, reduced_rank_ridge(X, Y, rank, 0.0), atol=1e-5)


def test_store_recovers_a_planted_model(rng):
    X = rng.standard_normal((300, 4))
    factors = [
        np.array(f, dtype=float) for f in ([[2, 0], [1, 0], [0, 1], [0, -2], [0, 0]], [[1, 0], [0, 0], [0, 2], [-1, 1]])
    ]
    scores = rng.standard_normal((4, 2))
    B = np.einsum("pk,ak,bk->pab", scores, *factors)
    Y = np.tensordot(X, B, 1) + 0.1 * rng.standard_normal((300, 5, 4))
    model = STORE(2, random_state=0).fit(X, Y)
    assert model.sparsity_ == (0.6, 0.5)
    assert_array_equal(model.coef_ != 0, B != 0)
    assert np.linalg.norm(model.coef_ - B) < 0.03 * np.linalg.norm(B)
    assert_allclose(np.einsum("k,pk,ak,bk->pab", model.cp_.weights, *model.cp_.factors), model.coef_, atol=1e-10)
    # no worse than the best scores for the true response factors, hence than the truth
    patterns = np.einsum("ak,bk->abk", *factors).reshape(20, 2)
    Xc, Yc = rows(X, Y)
    oracle = np.linalg.lstsq(Xc, Yc, rcond=None)[0] @ np.linalg.pinv(patterns).T @ patterns.T
    assert half_mean_square(X, Y, model.coef_) <= half_mean_square(X, Y, oracle)
    assert STORE((1, 2, 3), random_state=0).fit(X, Y).rank_ == 2


def test_store_with_three_response_modes(rng):
    """Without zeros and with a constant predictor, TensorLy's best rank-one approximation from 10 starts."""
    Y = rng.standard_normal((20, 2, 3, 5))
    model = STORE(1, 0.0, fit_intercept=False, tol=1e-10, n_restarts=10, random_state=0).fit(np.ones((20, 1)), Y)
    starts = (parafac(Y.mean(axis=0), 1, init="random", tol=1e-12, n_iter_max=1000, random_state=k) for k in range(10))
    approximations = [cp_to_tensor(start) for start in starts]
    best = min(approximations, key=lambda fit: np.linalg.norm(Y.mean(axis=0) - fit))
    assert_allclose(model.coef_[0], best, atol=1e-5)


def test_store_keeps_the_numbers_of_zeros(data):
    for shares, counts in (((0.5, 0.34), (1, 2)), ((0.0, 0.6), (2, 1)), ((1.0, 0.1), (1, 3))):
        model = STORE(2, shares, random_state=0).fit(data.X, data.Y)
        for factor, count in zip(model.cp_.factors[1:], counts, strict=True):
            assert_array_equal(np.count_nonzero(factor, axis=0), count)
        assert_allclose(model.sparsity_, (1 - counts[0] / 2, 1 - counts[1] / 3))


def test_store_criterion(data):
    model = STORE((1, 2), random_state=0).fit(data.X, data.Y)
    for rank, counts, value in model.path_:
        shares = tuple(1 - s / d for s, d in zip(counts, (2, 3), strict=True))
        fit = STORE(rank, shares, random_state=0, n_restarts=20).fit(data.X, data.Y)
        sse = 2 * 60 * half_mean_square(data.X, data.Y, fit.coef_)
        df = rank * (sum(counts) + 6)
        # log SSE, here of the mean over samples
        assert_allclose(value, np.log(sse / 60) + np.log(360) / 360 * df, atol=1e-5)
    assert [entry[:2] for entry in model.path_] == [(k, c) for k in (1, 2) for c in ((1, 1), (1, 2), (2, 2), (2, 3))]
    chosen = min(model.path_, key=lambda entry: entry[2])
    assert (chosen[0], tuple(1 - s / d for s, d in zip(chosen[1], (2, 3), strict=True))) == (
        model.rank_,
        model.sparsity_,
    )


@pytest.mark.filterwarnings("ignore:STORE stopped:sklearn.exceptions.ConvergenceWarning")  # on purpose, after few steps
@pytest.mark.parametrize("seed", range(4))
def test_store_never_goes_up(seed):
    """Every update is the best one, given all else."""
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((30, 3)), rng.standard_normal((30, 4, 5))
    losses = [
        half_mean_square(X, Y, STORE(3, 0.5, n_restarts=1, max_iter=k, random_state=seed).fit(X, Y).coef_)
        for k in range(1, 9)
    ]
    assert np.diff(losses).max() <= 1e-12
    assert losses[-1] < losses[0]


def test_store_says_when_it_has_not_converged(rng):
    with pytest.warns(ConvergenceWarning, match="max_iter=1 sweeps"):
        STORE(3, 0.5, max_iter=1, random_state=0).fit(rng.standard_normal((50, 3)), rng.standard_normal((50, 5, 5)))


# --- the envelope -----------------------------------------------------------------------------------------------------


def planted_envelope(rng, n=150):
    """Predictors move two directions of mode 1 and one of mode 2; the noise is large elsewhere."""
    bases = [np.linalg.qr(rng.standard_normal((q, q)))[0] for q in (5, 4)]
    dims = (2, 1)
    roots = [
        basis @ np.diag([0.4] * u + [3.0] * (len(basis) - u)) @ basis.T for basis, u in zip(bases, dims, strict=True)
    ]
    B = np.einsum("pij,ai,bj->pab", rng.standard_normal((3, *dims)), bases[0][:, :2], bases[1][:, :1])
    X = rng.standard_normal((n, 3))
    noise = np.einsum("nij,ai,bj->nab", rng.standard_normal((n, 5, 4)), *roots)
    return X, 5 + np.tensordot(X, B, 1) + noise, B, [b[:, :u] for b, u in zip(bases, dims, strict=True)], roots


def test_envelope_with_full_dimensions_is_least_squares(data):
    model = TensorEnvelope((2, 3)).fit(data.X, data.Y)
    ols = LinearRegression().fit(data.X.reshape(60, -1), data.Y.reshape(60, -1))
    assert_allclose(matrix(model, data.X), ols.coef_.T, atol=1e-9)
    assert_allclose(model.intercept_.ravel(), ols.intercept_, atol=1e-9)


def test_envelope_recovers_a_planted_one(rng):
    X, Y, B, bases, _ = planted_envelope(rng)
    model = TensorEnvelope().fit(X, Y)
    assert model.dims_ == (2, 1)
    for found, true in zip(model.basis_, bases, strict=True):
        assert_allclose(found.T @ found, np.eye(found.shape[1]), atol=1e-10)
        assert np.linalg.norm(projector(found) - projector(true)) < 0.1
    ols = LinearRegression().fit(X, Y.reshape(len(Y), -1)).coef_.T.reshape(B.shape)
    assert np.linalg.norm(model.coef_ - B) < 0.3 * np.linalg.norm(ols - B)
    assert_allclose(model.predict(X).mean(axis=0), Y.mean(axis=0))


def test_envelope_turns_with_the_responses(rng):
    """An orthogonal change of basis of a response mode changes the estimate in the same way."""
    X, Y, *_ = planted_envelope(rng)
    turn = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    model = TensorEnvelope((2, 2)).fit(X, Y)
    turned = TensorEnvelope((2, 2)).fit(X, np.einsum("ca,nab->ncb", turn, Y))
    assert_allclose(turned.coef_, np.einsum("ca,pab->pcb", turn, model.coef_), atol=1e-5)


def test_envelope_covariance(rng):
    """The likelihood equations of a separable covariance, sample by sample, with divisor n - P - 1."""
    X, Y, *_, roots = planted_envelope(rng, n=400)
    model = TensorEnvelope().fit(X, Y)
    residual = Y - LinearRegression().fit(X, Y.reshape(400, -1)).predict(X).reshape(Y.shape)
    first, second = model.covariances_
    assert_allclose(
        first, np.einsum("nab,bc,ndc->ad", residual, np.linalg.inv(second), residual) / (396 * 4), rtol=1e-5, atol=1e-6
    )
    expected = np.einsum("nab,ad,ndc->bc", residual, np.linalg.inv(first), residual) / (396 * 5)
    assert_allclose(second, expected, rtol=1e-5, atol=1e-6)
    assert_allclose(np.linalg.norm(second), 1.0)
    true = np.kron(*(root @ root for root in roots))
    assert np.linalg.norm(np.kron(first, second) - true) < 0.1 * np.linalg.norm(true)


def test_envelope_covariance_with_a_ridge(rng):
    """Degrees of freedom are the trace of the hat matrix."""
    X, Y = rows(rng.standard_normal((20, 30)), rng.standard_normal((20, 4)))
    with pytest.warns(match="ridge fallback"):
        model = TensorEnvelope().fit(X, Y)
    hat = X @ np.linalg.solve(X.T @ X + np.sum(X**2) / 20 * np.eye(30), X.T)
    residual = Y - hat @ Y
    assert_allclose(model.covariances_[0], residual.T @ residual / (19 - np.trace(hat)), rtol=1e-6, atol=1e-8)


def test_envelope_direction_is_the_best_one(rng):
    """On one response mode of two entries, the 1D objective over all angles, from rows."""
    for _ in range(5):
        X = rng.standard_normal((60, 2))
        Y = X @ rng.standard_normal((2, 2)) + rng.standard_normal((60, 2)) @ rng.standard_normal((2, 2))
        model = TensorEnvelope((1,)).fit(X, Y)
        _, Yc = rows(X, Y)
        residual = Y - LinearRegression().fit(X, Y).predict(X)
        M, N = residual.T @ residual / 57, Yc.T @ Yc / 60

        def objective(w, M=M, N=N):
            return np.log(w @ M @ w) + np.log(w @ np.linalg.inv(N) @ w)

        angles = np.linspace(0, np.pi, 2001)
        best = min(objective(np.array([np.cos(a), np.sin(a)])) for a in angles)
        assert objective(model.basis_[0][:, 0]) < best + 1e-6


@pytest.mark.parametrize(("predictors", "other_mode"), [(2, ()), (30, ()), (2, (5,)), (2, (12,))])
def test_envelope_criterion(predictors, other_mode, rng):
    """The cost of the second of two directions, found where it no longer pays; deviations of noise by simulation."""
    n = 100
    X = rng.standard_normal((n, predictors))
    Y = X[:, :2] @ rng.standard_normal((2, 2)) + rng.standard_normal((n, 2)) @ rng.standard_normal((2, 2))
    if other_mode:  # only one of its entries moves, the others are noise of the same covariance
        Y = np.stack([Y, *(rng.standard_normal((other_mode[0] - 1, n, 2)) @ np.cov(Y.T))], axis=2)

    def dimension(constant):
        return TensorEnvelope(bic_constant=constant).fit(X, Y).dims_[0]

    # The last direction's objective is a ratio of variances: of the residuals, and of the responses.
    first = TensorEnvelope((1, *other_mode)).fit(X, Y).basis_[0][:, 0]
    last = np.array([-first[1], first[0]])
    residual = Y - LinearRegression().fit(X, Y.reshape(n, -1)).predict(X).reshape(Y.shape)
    free, size = n - predictors - 1, Y[0, 0].size
    other = TensorEnvelope((2, *other_mode)).fit(X, Y).covariances_[1] if other_mode else np.eye(1)

    def spread(values, divisor):
        along = np.tensordot(values - values.mean(axis=0), last, (1, 0)).reshape(n, -1)
        return np.einsum("ia,ab,ib->", along, np.linalg.inv(other), along) / (divisor * size)

    gain = -np.log(spread(residual, free) / spread(Y, n))
    noise = rng.chisquare(free * size, 400_000)
    all_noise = (noise + rng.chisquare((n - free) * size, 400_000)) / n
    cost = max(1.0, np.std(n * np.log(noise / free / all_noise))) * np.log(n) / n
    assert gain > 0
    assert [dimension(factor * gain / cost) for factor in (0.93, 1.07)] == [2, 1]


@pytest.mark.parametrize("seed", range(3))
def test_envelope_is_not_fooled_by_many_predictors(seed):
    """Where P is near n, the original criterion takes noise for signal in every direction."""
    data = make_tensor_regression(250, (8, 8), (4, 4), rank=1, sparsity=0.0, snr=1, normalize=True, random_state=seed)
    assert TensorEnvelope().fit(data.X, data.Y).dims_ == (1, 1)
    free = TensorEnvelope(max_dim=3, bic_constant=0.0).fit(data.X, data.Y).dims_
    assert 2 < sum(free) <= 6


def test_envelope_p_values(rng):
    x = rng.standard_normal(30)
    y = 0.3 * x + rng.standard_normal(30)
    model = TensorEnvelope().fit(x[:, None], y)
    assert_allclose(model.p_values_, [linregress(x, y).pvalue], rtol=1e-6)

    X, Y, B, *_ = planted_envelope(rng)
    free = TensorEnvelope().fit(X, Y)
    cut = TensorEnvelope(p_threshold=0.05).fit(X, Y)
    assert_array_equal(cut.coef_, np.where(free.p_values_ <= 0.05, free.coef_, 0.0))
    assert 0 < np.count_nonzero(cut.coef_) < B.size == np.count_nonzero(free.coef_)


@pytest.mark.parametrize("intercept", [True, False])
def test_envelope_p_values_are_the_t_tests_of_least_squares(intercept, rng):
    """One response mode of full dimension; a regression of each entry, by the textbook."""
    X = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 3)) + 1
    Y = 0.2 * X @ rng.standard_normal((3, 4)) + rng.standard_normal((40, 4)) * [0.1, 1, 3, 10] + 2
    design = np.hstack([X, np.ones((40, 1))]) if intercept else X
    coef = np.linalg.lstsq(design, Y, rcond=None)[0]
    freedom = 40 - design.shape[1]
    variance = np.sum((Y - design @ coef) ** 2, axis=0) / freedom
    error = np.sqrt(np.outer(np.linalg.inv(design.T @ design).diagonal(), variance))
    expected = 2 * distributions.t.sf(np.abs(coef / error), freedom)[:3]
    model = TensorEnvelope((4,), fit_intercept=intercept).fit(X, Y)
    assert_allclose(model.p_values_, expected, rtol=1e-6)
    assert 0 < np.count_nonzero(expected < 0.05) < 12
    assert_allclose(
        TensorEnvelope((4,), fit_intercept=intercept).fit(X[:, :, None], Y).p_values_[:, 0], expected, rtol=1e-6
    )


def test_envelope_p_values_are_uniform_where_nothing_is_to_be_found(rng):
    """On responses whose variance differs by entry and mode: each has its own standard error."""
    first, second = np.array([0.1, 1.0, 10.0]), np.array([1.0, 30.0, 0.2])
    X, Y = rng.standard_normal((600, 8, 10)), rng.standard_normal((600, 3, 3)) * first[:, None] * second
    p_values = TensorEnvelope((3, 3)).fit(X, Y).p_values_.reshape(80, 3, 3)
    for share in (0.05, 0.5):
        found = np.mean(p_values <= share, axis=0)
        assert_allclose(found, share, atol=4 * np.sqrt(share * (1 - share) / 80))
    assert abs(np.mean(p_values <= 0.05) - 0.05) < 0.03


def test_envelope_says_when_it_has_not_converged(rng):
    X, Y, *_ = planted_envelope(rng)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 before"):
        TensorEnvelope(max_iter=1).fit(X, Y)


# --- HOLRR ------------------------------------------------------------------------------------------------------------


def reduced_rank_ridge(X, Y, rank, gamma):
    """Ridge as least squares on more rows; then the best low-rank approximation of its fit."""
    X, Y = rows(X, Y)
    more = np.vstack([X, np.sqrt(len(X) * gamma) * np.eye(X.shape[1])])
    coef = np.linalg.lstsq(more, np.vstack([Y, np.zeros((X.shape[1], Y.shape[1]))]), rcond=None)[0]
    right = np.linalg.svd(more @ coef, full_matrices=False)[2][:rank]
    return coef @ right.T @ right


@pytest.mark.parametrize("gamma", [1e-8, 0.1, 2.0])
def test_holrr_with_full_ranks_is_ridge(gamma, data):
    model = HOLRR((6, 2, 3), gamma).fit(data.X, data.Y)
    ridge = Ridge(alpha=60 * gamma).fit(data.X.reshape(60, -1), data.Y.reshape(60, -1))
    assert_allclose(matrix(model, data.X), ridge.coef_.T, atol=1e-6)
    assert_allclose(model.intercept_.ravel(), ridge.intercept_, atol=1e-6)


@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("gamma", [1e-8, 0.5])
def test_holrr_with_one_response_mode_is_reduced_rank_ridge(rank, gamma, data):
    Y = data.Y.reshape(60, -1)
    model = HOLRR((rank, 6), gamma).fit(data.X, Y)
    assert_allclose(matrix(model, data.X), reduced_rank_ridge(data.X, Y, rank, gamma), atol=1e-6)


@pytest.mark.parametrize("ranks", [(1, 1, 1), (2, 1, 2), (3, 2, 2)])
def test_holrr_on_rows(ranks, rng):
    """The paper's steps on the unfoldings, with a general eigensolver for the unsymmetric eigenproblem."""
    X, Y = rng.standard_normal((40, 5)), rng.standard_normal((40, 3, 4))
    gamma = 0.2
    Xc, Yc = X - X.mean(axis=0), Y - Y.mean(axis=0)
    flat = Yc.reshape(40, -1)
    ridge = Xc.T @ Xc + 40 * gamma * np.eye(5)
    values, vectors = linalg.eig(np.linalg.solve(ridge, Xc.T @ flat @ flat.T @ Xc))
    U = vectors[:, np.argsort(-values.real)[: ranks[0]]].real
    projectors = []
    for mode in (1, 2):
        unfolded = np.moveaxis(Yc, mode, 0).reshape(Y.shape[mode], -1)
        leading = np.linalg.svd(unfolded, full_matrices=False)[0][:, : ranks[mode]]
        projectors.append(leading @ leading.T)
    core = np.linalg.solve(U.T @ ridge @ U, U.T @ Xc.T @ flat).reshape(-1, 3, 4)
    W = np.einsum("pr,rab,ac,bd->pcd", U, core, *projectors)
    model = HOLRR(ranks, gamma).fit(X, Y)
    assert_allclose(model.coef_, W, atol=1e-8)
    for mode in range(3):
        unfolded = np.moveaxis(model.coef_, mode, 0).reshape(model.coef_.shape[mode], -1)
        assert np.linalg.matrix_rank(unfolded, tol=1e-8) <= ranks[mode]


def test_holrr_cross_validation(rng):
    """Every candidate refitted on the samples of every fold."""
    X = rng.standard_normal((45, 4)) + 2
    B = np.einsum("p,a,b->pab", *(rng.standard_normal(d) for d in (4, 2, 3)))
    Y = np.tensordot(X, B, 1) + rng.standard_normal((45, 2, 3))
    model = HOLRR(cv=3).fit(X, Y)
    path = model.path_
    assert path["criterion"].shape == (8, 3, 4)
    assert path["response_ranks"] == [(1, 1), (2, 2), (2, 3)]
    for g, r, k in [(0, 0, 0), (3, 1, 1), (5, 2, 3), (7, 0, 2)]:
        candidate = HOLRR((k + 1, *path["response_ranks"][r]), path["gamma"][g])
        error = sum(
            np.sum((Y[test] - clone(candidate).fit(X[train], Y[train]).predict(X[test])) ** 2)
            for train, test in KFold(3).split(X)
        )
        assert_allclose(path["criterion"][g, r, k], error, rtol=1e-9)
    g, r, k = np.unravel_index(np.argmin(path["criterion"]), path["criterion"].shape)
    assert model.gamma_ == path["gamma"][g]
    assert model.ranks_ == (k + 1, *path["response_ranks"][r])
    # one of the two may be given
    some = HOLRR((2, 1, 1), cv=3).fit(X, Y)
    assert some.ranks_ == (2, 1, 1)
    assert some.gamma_ == path["gamma"][np.argmin(path["criterion"][:, 0, 1])]
    assert HOLRR(gamma=path["gamma"][2], cv=3).fit(X, Y).gamma_ == path["gamma"][2]


def test_holrr_bic(rng):
    X = rng.standard_normal((80, 5))
    B = np.einsum("pij,ai,bj->pab", rng.standard_normal((5, 2, 2)), *(rng.standard_normal((d, 2)) for d in (4, 3)))
    Y = np.tensordot(X, B, 1) + 0.1 * rng.standard_normal((80, 4, 3))
    model = HOLRR(cv=None).fit(X, Y)
    path = model.path_
    eigenvalues = np.linalg.eigvalsh(np.cov(X.T, bias=True))
    for g, r, k in [(0, 0, 0), (3, 0, 2), (4, 1, 2), (6, 2, 3)]:
        ranks = path["response_ranks"][r]
        fit = HOLRR((k + 1, *ranks), path["gamma"][g]).fit(X, Y)
        effective = np.sum(eigenvalues / (eigenvalues + path["gamma"][g]))
        x_rank = min(k + 1, ranks[0] * ranks[1])
        df = x_rank * max(effective - x_rank, 0) + x_rank * ranks[0] * ranks[1]
        df += ranks[0] * (4 - ranks[0]) + ranks[1] * (3 - ranks[1])
        expected = 960 * np.log(2 * half_mean_square(X, Y, fit.coef_)) + np.log(960) * df
        assert_allclose(path["criterion"][g, r, k], expected, rtol=1e-9)
    assert model.ranks_[1:] == (2, 2)
    assert np.linalg.matrix_rank(model.coef_.reshape(5, -1)) == 4 <= model.ranks_[0]


def test_holrr_with_a_linear_kernel_is_holrr(data, rng):
    new = rng.standard_normal((5, 3, 2))
    for cv in (3, None):
        linear, kernel = HOLRR(cv=cv).fit(data.X, data.Y), KernelHOLRR(kernel="linear", cv=cv).fit(data.X, data.Y)
        # the grid is relative to the mean variance of a feature, whose number differs by rounding only
        assert_allclose(kernel.gamma_, linear.gamma_, rtol=1e-9)
        assert kernel.ranks_ == linear.ranks_
        assert_allclose(kernel.predict(new), linear.predict(new), atol=1e-7)


def test_holrr_with_a_kernel_and_full_ranks_is_kernel_ridge(data, rng):
    new, parameters = rng.standard_normal((5, 3, 2)), {"gamma": 0.3}
    model = KernelHOLRR((60, 2, 3), 0.05, kernel_params=parameters, fit_intercept=False).fit(data.X, data.Y)
    oracle = KernelRidge(alpha=60 * 0.05, kernel="rbf", **parameters).fit(
        data.X.reshape(60, -1), data.Y.reshape(60, -1)
    )
    assert_allclose(model.predict(new).reshape(5, -1), oracle.predict(new.reshape(5, -1)), atol=1e-8)
    by_hand = KernelHOLRR(
        (60, 2, 3), 0.05, kernel=lambda a, b: np.exp(-0.3 * np.sum((a - b) ** 2)), fit_intercept=False
    )
    assert_allclose(by_hand.fit(data.X, data.Y).predict(new), model.predict(new), atol=1e-10)


def test_kernel_holrr_bends(rng):
    X = rng.uniform(-1, 1, (80, 2))
    Y = np.stack([np.cos(3 * X[:, 0]), np.sin(3 * X[:, 1] ** 2)], axis=1)[:, :, None] * np.array([1.0, -2.0])
    linear, bent = HOLRR(), KernelHOLRR(kernel_params={"gamma": 2.0})
    assert bent.fit(X[:60], Y[:60]).score(X[60:], Y[60:]) > 0.95
    assert linear.fit(X[:60], Y[:60]).score(X[60:], Y[60:]) < 0.5


# --- CPRidge ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 2, 6])
@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_cp_ridge_of_matrices_is_reduced_rank_ridge(rank, l2, data):
    Y = data.Y.reshape(60, -1)
    model = CPRidge(rank, l2, tol=1e-8, max_iter=2000, random_state=0).fit(data.X.reshape(60, -1), Y)
    assert_allclose(model.coef_, reduced_rank_ridge(data.X, Y, rank, l2), atol=1e-5)
    expected = half_mean_square(data.X, Y, model.coef_) + l2 / 2 * np.sum(model.coef_**2)
    assert_allclose(model.objective_, expected, rtol=1e-9)
    assert_allclose(model.predict(data.X.reshape(60, -1)).mean(axis=0), Y.mean(axis=0))


@pytest.mark.parametrize("seed", range(3))
def test_cp_ridge_is_no_worse_than_tensorly(seed):
    """Objectives without a ridge; TensorLy has 8 starts and time to converge."""
    data = make_tensor_regression(80, (4, 3), (3, 2), rank=3, sparsity=0.0, noise=0.3, random_state=seed)
    X, Y = data.X - data.X.mean(axis=0), data.Y - data.Y.mean(axis=0)
    theirs = []
    for start in range(8):
        other = CPRegressor(weight_rank=3, tol=1e-9, reg_W=0, n_iter_max=300, random_state=start, verbose=0).fit(X, Y)
        theirs.append(half_mean_square(X, Y, other.weight_tensor_))
    model = CPRidge(3, 0.0, random_state=0).fit(data.X, data.Y)
    assert model.objective_ <= min(theirs) * (1 + 1e-9)
    assert_allclose(model.objective_, half_mean_square(X, Y, model.coef_), rtol=1e-9)
    assert model.objective_ <= half_mean_square(X, Y, data.coef)


def test_cp_ridge_is_stationary(data, rng):
    """Central differences of the naive objective along random changes of the factors."""
    l2 = 0.1
    model = CPRidge(2, l2, tol=1e-9, max_iter=2000, random_state=0).fit(data.X, data.Y)
    weights, factors = model.cp_

    def objective(factors):
        coef = np.einsum("k,ak,bk,ck,dk->abcd", weights, *factors)
        return half_mean_square(data.X, data.Y, coef) + l2 / 2 * np.sum(coef**2)

    assert_allclose(objective(factors), model.objective_, rtol=1e-9)
    for _ in range(20):
        change = [1e-5 * rng.standard_normal(f.shape) for f in factors]
        ahead = objective([f + c for f, c in zip(factors, change, strict=True)])
        behind = objective([f - c for f, c in zip(factors, change, strict=True)])
        assert abs(ahead - behind) < 1e-9


def test_cp_ridge_chooses_rank_and_penalty():
    data = make_tensor_regression(150, (4, 4), (4, 3), rank=2, sparsity=0.0, snr=2, normalize=True, random_state=3)
    for cv in (5, None):
        model = CPRidge((1, 2, 3), cv=cv, random_state=0).fit(data.X, data.Y)
        assert model.rank_ == 2
        assert len(model.path_) == 15
        assert min(model.path_, key=lambda entry: entry[2])[:2] == (model.rank_, model.l2_)
    assert CPRidge(2, 0.5).fit(data.X, data.Y).path_ == []


def test_cp_ridge_cross_validation(data):
    model = CPRidge(1, cv=3, random_state=0).fit(data.X, data.Y)
    for _, l2, criterion in model.path_:
        error = sum(
            np.sum(
                (data.Y[test] - CPRidge(1, l2, random_state=0).fit(data.X[train], data.Y[train]).predict(data.X[test]))
                ** 2
            )
            for train, test in KFold(3).split(data.X)
        )
        assert_allclose(criterion, error / 2, rtol=1e-3)


def test_cp_ridge_bic(data):
    """From rows; degrees of freedom shrink like the coefficient of a ridge does on the principal axes of X."""
    model = CPRidge((1, 2), cv=None, random_state=0).fit(data.X, data.Y)
    eigenvalues = np.linalg.eigvalsh(np.cov(data.X.reshape(60, -1).T, bias=True))
    expected = []
    for rank, l2, _ in model.path_:
        fit = CPRidge(rank, l2, random_state=0).fit(data.X, data.Y)
        free = rank * (3 + 2 + 2 + 3 - 3) * np.mean(eigenvalues / (eigenvalues + l2))
        expected.append(360 * np.log(half_mean_square(data.X, data.Y, fit.coef_)) + np.log(360) * free)
    assert_allclose(np.diff([value for *_, value in model.path_]), np.diff(expected), rtol=1e-3, atol=0.05)


def test_cp_ridge_helps_where_samples_are_few():
    data = make_tensor_regression(25, (5, 5), (3, 3), rank=2, sparsity=0.0, snr=0.5, normalize=True, random_state=0)
    tuned, plain = (CPRidge(2, l2, random_state=0).fit(data.X, data.Y) for l2 in ("auto", 0.0))
    assert tuned.l2_ > 0
    assert np.linalg.norm(tuned.coef_ - data.coef) < np.linalg.norm(plain.coef_ - data.coef)


def test_cp_ridge_without_a_minimum_says_so():
    """On these data, components grow and cancel without end: the objective has an infimum only."""
    data = make_tensor_regression(80, (4, 3), (3, 2), rank=3, sparsity=0.0, noise=1.0, random_state=2)
    with pytest.warns(ConvergenceWarning, match="components may grow and cancel"):
        model = CPRidge(3, 0.0, random_state=0).fit(data.X, data.Y)
    assert model.cp_.weights.min() > 100
    assert CPRidge(2, 0.0, random_state=0).fit(data.X, data.Y).cp_.weights.max() < 100


def test_cp_ridge_says_when_it_has_not_converged(data):
    with pytest.warns(ConvergenceWarning, match="max_iter=1 steps"):
        CPRidge(3, 0.0, n_restarts=1, max_iter=1, tol=1e-12, random_state=0).fit(data.X, data.Y)


# --- SURF -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_surf_of_vectors_tends_to_the_lasso(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((100, 8)) @ (np.eye(8) + rng.standard_normal((8, 8)) / 3)
    y = X @ (rng.standard_normal(8) * (rng.random(8) < 0.6)) + rng.standard_normal(100)
    largest = np.abs(rows(X, y)[0].T @ (y - y.mean())).max() / 100
    l1s = largest * np.array([0.5, 0.2, 0.05, 0.02])
    lassos = lasso_path(X - X.mean(axis=0), y - y.mean(), alphas=l1s, tol=1e-12)[1].T
    distances = []
    for step in (0.1, 0.02, 0.004):
        fits = [SURF(1, l1, step_size=step).fit(X, y) for l1 in l1s]
        distances.append(max(np.abs(m.coef_ - w).max() for m, w in zip(fits, lassos, strict=True)))
        assert [m.l1_.tolist() for m in fits] == [[l1] for l1 in l1s]
    assert distances[1] < 0.5 * distances[0]
    assert distances[2] < 0.5 * distances[1]
    assert distances[2] < 0.01 * np.abs(lassos).max()


def surf_on_rows(X, y, splits, rank):
    """Components with the published tuning, sample by sample: no fold's components have seen its test samples."""

    def parts(path):
        shapes = np.cumsum(X.shape[1:])[:-1]
        return [w * naive.outer(np.split(f, shapes)) for w, f in zip(path.weight, path.factors, strict=True)]

    def searched(X, y):
        path = naive.stagewise_rows(X, y, 0.05)
        start = np.abs(np.tensordot(X, y, (0, 0))).max() / len(X)
        l1 = np.append(start, path.l1)
        return path, np.minimum.accumulate(l1), [np.zeros(X.shape[1:]), *parts(path)]

    folds = []
    for train, test in splits:
        x_mean, y_mean = X[train].mean(axis=0), y[train].mean()
        folds.append([X[train] - x_mean, y[train] - y_mean, X[test] - x_mean, y[test] - y_mean])
    X, y = X - X.mean(axis=0), y - y.mean()
    coef, chosen = np.zeros(X.shape[1:]), []
    for _ in range(rank):
        paths, curves = [], []
        for X_train, y_train, X_test, y_test in folds:
            _, l1, points = searched(X_train, y_train)
            errors = [np.sqrt(np.mean((y_test - naive.predicted(X_test, W)) ** 2)) for W in points]
            curves.append({k: (e, np.abs(W).sum()) for k, e, W in zip(l1, errors, points, strict=True)})  # the last
            paths.append((l1, points))
        knots = np.unique(np.concatenate([list(curve) for curve in curves]))[::-1]
        known = [(sorted(curve), np.array([curve[k] for k in sorted(curve)])) for curve in curves]
        error = np.mean([np.interp(knots, k, values[:, 0]) for k, values in known], axis=0)
        best = knots[error.argmin()]
        weight = np.mean([np.interp(best, k, values[:, 1]) for k, values in known])
        path, _, points = searched(X, y)
        beyond = [t for t in range(len(path.weight)) if path.weight[t] > weight * (1 + 1e-9)]
        part = points[beyond[0] if beyond else -1]
        chosen.append((best, knots, error))
        coef, y = coef + part, y - naive.predicted(X, part)
        for fold, (l1, points) in zip(folds, paths, strict=True):
            own = points[np.flatnonzero(l1 >= best)[-1]] if l1[0] >= best else np.zeros_like(coef)
            fold[1], fold[3] = fold[1] - naive.predicted(fold[0], own), fold[3] - naive.predicted(fold[2], own)
    return coef, chosen


@pytest.mark.parametrize("seed", range(4))
def test_surf_tunes_by_the_published_rule_on_samples_it_has_not_seen(seed):
    data = make_tensor_regression(60, (4, 3), (), rank=2, sparsity=0.3, snr=2, normalize=True, random_state=seed)
    splits = list(KFold(3).split(data.X))
    model = SURF(3, cv=3, tol=0.0).fit(data.X, data.Y)
    assert model.rank_ >= 2
    coef, chosen = surf_on_rows(data.X, data.Y, splits, model.rank_)
    for l1, seen, (best, knots, error) in zip(model.l1_, model.path_, chosen, strict=False):
        assert_allclose(l1, best, rtol=1e-8)
        assert_allclose(seen["l1"], knots, rtol=1e-7, atol=1e-10 * knots[0])
        assert_allclose(seen["error"], error, rtol=1e-8)
    assert_allclose(model.coef_, coef, atol=1e-9)
    assert_allclose(model.intercept_, data.Y.mean() - np.sum(data.X.mean(axis=0) * coef))


def test_surf_goes_on_from_the_error_it_has_reached():
    """The test error of a component at zero is that of the components before it, not that of a fit to all samples."""
    data = make_tensor_regression(100, (6, 5), (), rank=3, sparsity=0.3, snr=2, normalize=True, random_state=0)
    model = SURF(4, step_size=0.002).fit(data.X, data.Y)
    assert len(model.path_) >= 3
    reached = [seen["error"].min() for seen in model.path_]
    assert_allclose([seen["error"][0] for seen in model.path_[1:]], reached[:-1], rtol=2e-3)


def test_surf_finds_no_component_in_noise():
    """Where test samples leak, there is always another one."""
    ranks = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        model = SURF().fit(rng.standard_normal((60, 5, 5)), rng.standard_normal(60))
        ranks.append(model.rank_)
        assert model.rank_ == np.shape(model.l1_)[0] == model.cp_.weights.size
        assert (model.rank_ == 0) == (not model.coef_.any())
    assert np.mean(ranks) < 1
    assert ranks.count(0) >= 10


@pytest.mark.parametrize("rank", [1, 2])
def test_surf_recovers_planted_components_better_than_the_lasso(rank):
    ratios = []
    for seed in range(4):
        data = make_tensor_regression(
            300, (6, 6, 6), (), rank=rank, sparsity=0.5, snr=3, normalize=True, random_state=seed
        )
        model = SURF().fit(data.X, data.Y)
        lasso = LassoCV(cv=5).fit(data.X.reshape(300, -1), data.Y)
        error = np.linalg.norm(model.coef_ - data.coef)
        ratios.append(error / np.linalg.norm(lasso.coef_ - data.coef.ravel()))
        assert error < 0.35 * np.linalg.norm(data.coef)
        assert model.rank_ >= rank
    assert max(ratios) < 1
    assert np.mean(ratios) < 0.8


def test_surf_leaves_out_what_explains_too_little():
    data = make_tensor_regression(60, (4, 4), (), rank=4, sparsity=0.3, snr=2, normalize=True, random_state=1)
    spreads = [data.Y.std()]
    for rank in range(1, 6):
        model = SURF(rank, 0.005, tol=0.0).fit(data.X, data.Y)
        assert model.rank_ == rank
        spreads.append(np.std(data.Y - model.predict(data.X)))
    falls = -np.diff(spreads) / spreads[0]
    assert (np.diff(falls) < 0).all()
    for rank in range(1, 5):
        between = float(np.sqrt(falls[rank - 1] * falls[rank]))
        assert SURF(50, 0.005, tol=between).fit(data.X, data.Y).rank_ == rank


def test_surf_shrinks_by_a_ridge(data):
    """The ridge is that of one component: for a single predictor it divides by 1 + l2 / variance."""
    x, y = data.X[:, :1, 0], data.Y[:, 0, 0]
    plain, ridge = (SURF(1, 0.0, l2=l2).fit(x, y).coef_[0] for l2 in (0.0, 0.5))
    step = 0.05 * abs(plain)
    assert_allclose(ridge, plain / (1 + 0.5 / x.var()), atol=step)
    assert abs(ridge - plain) > 3 * step


@pytest.mark.parametrize("shape", [(2,), (1, 2), (1, 1)])
def test_surf_takes_one_response(shape, data):
    X, Y = data.X, np.repeat(data.Y[:, 0, 0], np.prod(shape)).reshape(60, *shape)
    with pytest.raises(ValueError, match=r"scalar response, .* has shape \(.*: use DST2R, .*MultiOutputRegressor"):
        SURF().fit(X, Y)
    if shape != (1, 1):
        with pytest.raises(ValueError, match="scalar response"):
            SURF(l1=0.1).fit_statistics(GramStatistics.from_arrays(X, Y))


def test_surf_does_what_its_message_promises(data):
    Y = data.Y.reshape(60, -1)[:, :2]
    both = MultiOutputRegressor(SURF()).fit(data.X, Y).predict(data.X)
    assert_allclose(both, np.stack([SURF().fit(data.X, y).predict(data.X) for y in Y.T], axis=1))
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        assert SURF().fit(data.X, Y[:, :1]).predict(data.X).shape == (60,)
    xarray = pytest.importorskip("xarray")
    named = xarray.DataArray(data.X, dims=("sample", "a", "b"))
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        model = SURF().fit(named, xarray.DataArray(Y[:, :1], dims=("sample", "only")))
    assert model.predict(named).dims == ("sample",)
    column = SURF(l1=0.01).fit_statistics(GramStatistics.from_arrays(data.X, Y[:, :1]))
    assert column.coef_.shape == (3, 2, 1)
    assert column.coef_.any()
    assert_allclose(cp_to_tensor(column.cp_), column.coef_, atol=1e-12)


# --- the paper's size -------------------------------------------------------------------------------------------------


def test_the_papers_design(paper):
    """512 predictors, 64 responses, 1000 samples, tuning included: every method works, and in the known order."""
    models = {
        "lasso": SparseOLS(),
        "store": STORE(2, n_restarts=2, random_state=0),
        "envelope": TensorEnvelope(),
        "holrr": HOLRR(),
        "cp": CPRidge(2, 0.0, n_restarts=2, random_state=0),
    }
    size = np.linalg.norm(paper.coef)
    error = {key: np.linalg.norm(m.fit(paper.X, paper.Y).coef_ - paper.coef) / size for key, m in models.items()}
    assert error["cp"] < 0.05
    assert error["cp"] < error["holrr"] < error["envelope"] < 0.6
    assert error["cp"] < error["store"] < error["envelope"]
    assert error["lasso"] < 0.6
