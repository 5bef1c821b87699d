"""Batches: the model of ``partial_fit`` is that of all samples at once."""

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from dst2r import DST2R, DST2RCV, GramStatistics

X_SHAPE, Y_SHAPE = (4, 3), (3, 2)


def problem(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, *X_SHAPE)) + 5.0
    B = np.einsum("ar,br,cr,dr->abcd", *(rng.normal(size=(d, 2)) for d in X_SHAPE + Y_SHAPE))
    Y = np.einsum("nab,abcd->ncd", X, B) + 0.3 * rng.normal(size=(n, *Y_SHAPE)) - 2.0
    return X, Y


def assert_same_fit(one, other, rtol=1e-8):
    assert_allclose(one.coef_, other.coef_, rtol=0, atol=rtol * np.abs(other.coef_).max())
    assert_allclose(one.intercept_, other.intercept_, rtol=0, atol=rtol * np.abs(other.intercept_).max())


@pytest.mark.parametrize("ends", [(150,), (1, 2, 60), (299,)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_batches_are_as_good_as_all_samples(ends, weighted, fit_intercept):
    X, Y = problem()
    weight = np.random.default_rng(1).uniform(0.1, 2, len(X)) if weighted else np.ones(len(X))
    model = DST2R(2, fit_intercept=fit_intercept)
    for x, y, w in zip(*(np.split(a, ends) for a in (X, Y, weight)), strict=True):
        assert model.partial_fit(x, y, w if weighted else None) is model
    assert_same_fit(model, clone(model).fit(X, Y, weight))
    assert model.accumulated_.n_samples == pytest.approx(weight.sum())


def test_every_call_leaves_a_whole_model():
    X, Y = problem()
    model = DST2R(2)
    for end in (100, 200, 300):
        model.partial_fit(X[end - 100 : end], Y[end - 100 : end])
        assert_same_fit(model, DST2R(2).fit(X[:end], Y[:end]))


def test_batches_of_dask_arrays():
    X, Y = problem()
    model = DST2R(2).partial_fit(X[:100], Y[:100])
    model.partial_fit(da.from_array(X[100:], chunks=(70, 4, 3)), da.from_array(Y[100:], chunks=(70, 3, 2)))
    assert_same_fit(model, DST2R(2).fit(X, Y))


def test_one_sample_says_nothing_but_where_it_lies():
    X, Y = problem()
    model = DST2R(2).partial_fit(X[:1], Y[:1])
    assert not model.coef_.any()
    assert_allclose(model.predict(X[5:7]), np.repeat(Y[:1], 2, axis=0))


def test_the_cost_does_not_grow():
    X, Y = problem()
    model = DST2R(2)
    sizes = set()
    for _ in range(3):
        model.partial_fit(X, Y)
        sizes.add(model.accumulated_.gram.nbytes)
    assert sizes == {12 * 12 * 8}
    assert model.accumulated_.n_samples == 900


def test_a_fit_begins_anew():
    X, Y = problem()
    model = DST2R(2).partial_fit(X, Y).fit(X[:100], Y[:100])
    assert not hasattr(model, "accumulated_")
    with pytest.warns(UserWarning, match=r"fitted to other samples.*begins anew"):
        model.partial_fit(X[100:], Y[100:])
    assert_same_fit(model, DST2R(2).fit(X[100:], Y[100:]))


@pytest.mark.parametrize(
    ("x_shape", "y_shape", "complaint"),
    [((4, 2), (3, 2), "cannot be added"), ((4, 3), (3,), "cannot be added"), ((5, 3), (3, 2), "5 features")],
)
def test_batches_of_other_shapes(x_shape, y_shape, complaint):
    X, Y = problem()
    model = DST2R(2).partial_fit(X, Y)
    with pytest.raises(ValueError, match=complaint):
        model.partial_fit(np.ones((10, *x_shape)), np.ones((10, *y_shape)))
    model.partial_fit(X, Y)
    assert_same_fit(model, DST2R(2).fit(X, Y, np.full(len(X), 2.0)))


def test_a_bad_batch_changes_nothing():
    X, Y = problem()
    model = DST2R(2).partial_fit(X[:200], Y[:200])
    spoilt = X[200:].copy()
    spoilt[3] = np.nan
    before = dict(vars(model))
    for bad in (spoilt, da.from_array(spoilt, chunks=(50, 4, 3))):
        with pytest.raises(ValueError, match="NaN"):
            model.partial_fit(bad, Y[200:])
        assert vars(model) == before
    with pytest.raises(ValueError, match="rank"):
        model.set_params(rank=0).partial_fit(X[200:], Y[200:])
    model.set_params(rank=2).partial_fit(X[200:], Y[200:])
    assert_same_fit(model, DST2R(2).fit(X, Y))


def test_too_wide_to_add_up():
    X = da.zeros((10, 1_000_000), chunks=(5, 1_000_000))
    with pytest.raises(MemoryError, match=r"1000000 predictor and 1 response entries.*3.2e\+04 GB.*call fit"):
        DST2R().partial_fit(X, np.zeros(10))


def test_sites_that_share_statistics_only():
    X, Y = problem()
    sites = [GramStatistics.from_arrays(x, y) for x, y in zip(np.split(X, 3), np.split(Y, 3), strict=True)]
    assert_same_fit(DST2R(2).fit_statistics(sites[0] + sites[1] + sites[2]), DST2R(2).fit(X, Y))
    rows = np.split(np.arange(300), 3)
    splits = [(np.setdiff1d(np.arange(300), test), test) for test in rows]
    expected = DST2RCV((1, 2, 3), n_l1=5, cv=splits).fit(X, Y)
    assert_same_fit(DST2RCV((1, 2, 3), n_l1=5).fit_statistics(sites), expected)
