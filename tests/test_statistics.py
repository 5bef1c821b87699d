"""Statistics against formulas on the rows in extended precision, and the law that they add up."""

import math
from functools import partial, reduce
from operator import add

import dask
import dask.array as da
import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)

from dst2r.cp import CPCoefficient
from dst2r.statistics import DaskStatistics, GramStatistics, RowStatistics, fold_statistics, gram, leave_one_out
from dst2r.statistics import dask as dask_module
from dst2r.statistics import rows as row_module

SHAPES = [((4,), ()), ((3,), (2,)), ((3, 2), (2, 2)), ((2, 2, 2), (3,)), ((1, 3), (1,)), ((1,), ())]
SHAPE = ((3, 2), (2, 2))


def rows(n, x_shape, y_shape, seed=0):
    """Correlated predictors and responses that depend on them, with means."""
    rng = np.random.default_rng(seed)
    P, Q = math.prod(x_shape), math.prod(y_shape)
    X = rng.normal(size=(n, P)) @ rng.normal(size=(P, P)) + rng.normal(size=P)
    Y = X @ rng.normal(size=(P, Q)) + rng.normal(size=(n, Q)) + rng.normal(size=Q)
    return X.reshape(n, *x_shape), Y.reshape(n, *y_shape)


def coefficient(x_shape, y_shape, rank=2, seed=1):
    rng = np.random.default_rng(seed)
    return CPCoefficient(tuple(rng.normal(size=(d, rank)) for d in x_shape + y_shape), len(x_shape))


def assert_statistics(stats, X, Y, weight=None, *, center=True, tol=1e-12):
    """Compare with two passes in extended precision; ``tol`` is relative to the entries' standard deviations."""
    n = len(X)
    x, y = (np.asarray(A).astype(np.longdouble).reshape(n, -1) for A in (X, Y))
    w = np.ones(n, np.longdouble) if weight is None else np.asarray(weight).astype(np.longdouble)
    x_mean, y_mean = w @ x / w.sum(), w @ y / w.sum()
    assert (stats.x_shape, stats.y_shape) == (np.shape(X)[1:], np.shape(Y)[1:])
    assert (stats.n_x, stats.n_y) == (x.shape[1], y.shape[1])
    assert_allclose(stats.n_samples, float(w.sum()), rtol=1e-14)
    if center:
        x, y = x - x_mean, y - y_mean
        assert_allclose(stats.x_mean, x_mean.astype(float), rtol=1e-12, atol=1e-14)
        assert_allclose(stats.y_mean, y_mean.astype(float), rtol=1e-12, atol=1e-14)
    else:
        assert not stats.x_mean.any()
        assert not stats.y_mean.any()
    G, C, y_square = (x.T * w) @ x / w.sum(), (x.T * w) @ y / w.sum(), w @ y**2 / w.sum()
    x_size = np.sqrt(np.diag(G)).astype(float) + 1e-300
    y_size = np.sqrt(y_square).astype(float) + 1e-300
    stats = stats.as_gram()
    assert stats.gram.dtype == stats.cross.dtype == stats.y_square.dtype == np.float64
    assert_allclose(stats.gram, stats.gram.T, rtol=1e-14, atol=1e-16 * x_size.max() ** 2)
    assert_allclose(stats.gram / np.outer(x_size, x_size), (G / np.outer(x_size, x_size)).astype(float), atol=tol)
    assert_allclose(stats.cross / np.outer(x_size, y_size), (C / np.outer(x_size, y_size)).astype(float), atol=tol)
    assert_allclose(stats.y_square, y_square.astype(float), rtol=tol)


def assert_same(one, other, rtol=1e-12):
    """Two statistics agree up to rounding."""
    assert (one.x_shape, one.y_shape) == (other.x_shape, other.y_shape)
    assert_allclose(one.n_samples, other.n_samples, rtol=1e-14)
    for name in ("gram", "cross", "y_square", "x_mean", "y_mean"):
        a, b = getattr(one, name), getattr(other, name)
        assert_allclose(a, b, rtol=rtol, atol=rtol * np.abs(b).max(initial=0), err_msg=name)


# --- from rows ---


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES)
@pytest.mark.parametrize("n", [1, 2, 50])
@pytest.mark.parametrize("center", [True, False])
def test_moments(x_shape, y_shape, n, center):
    X, Y = rows(n, x_shape, y_shape)
    stats = GramStatistics.from_arrays(X, Y, center=center)
    if n == 1 and center:
        assert not stats.gram.any()
        assert not stats.cross.any()
        assert_array_equal(stats.x_mean, X.ravel())
    else:
        assert_statistics(stats, X, Y, center=center)


@pytest.mark.parametrize("block", [1, 7, 49])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_blocks_do_not_matter(monkeypatch, block, center, weighted):
    X, Y = rows(50, *SHAPE)
    X[:20] += 100.0  # the blocks have other means
    weight = np.random.default_rng(2).uniform(0, 3, 50) if weighted else None
    whole = GramStatistics.from_arrays(X, Y, weight, center=center)
    monkeypatch.setattr(gram, "BLOCK_ENTRIES", block * (whole.n_x + whole.n_y))
    parts = GramStatistics.from_arrays(X, Y, weight, center=center)
    assert_same(parts, whole)
    assert_statistics(parts, X, Y, weight, center=center)


class Rows:
    """Rows that can only be sliced: an array on disk, say. Keeps account of what is read."""

    def __init__(self, array):
        self.array, self.shape, self.read, self.largest = array, array.shape, 0, 0

    def __getitem__(self, key):
        part = self.array[key]
        self.read += len(part)
        self.largest = max(self.largest, len(part))
        return part


def test_rows_are_read_once_in_blocks(monkeypatch):
    X, Y = rows(50, *SHAPE)
    monkeypatch.setattr(gram, "BLOCK_ENTRIES", 60)
    lazy = Rows(X), Rows(Y)
    assert_statistics(GramStatistics.from_arrays(*lazy), X, Y)
    for array in lazy:
        assert array.read <= 51  # one more row tells where the data lie
        assert array.largest <= 6


@pytest.mark.parametrize("offset", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("weighted", [True, False])
def test_large_means_cost_no_accuracy(monkeypatch, offset, weighted):
    X, Y = rows(200, *SHAPE)
    X, Y = X + offset, Y - 3 * offset
    weight = np.random.default_rng(2).uniform(0, 3, 200) if weighted else None
    assert_statistics(GramStatistics.from_arrays(X, Y, weight), X, Y, weight)
    monkeypatch.setattr(gram, "BLOCK_ENTRIES", 100)
    assert_statistics(GramStatistics.from_arrays(X, Y, weight), X, Y, weight)


def test_shifting_the_data_moves_the_means_only():
    X, Y = rows(60, *SHAPE)
    one, other = GramStatistics.from_arrays(X, Y), GramStatistics.from_arrays(X + 64.0, Y - 32.0)
    assert_allclose(other.x_mean, one.x_mean + 64, rtol=1e-13)
    assert_allclose(other.y_mean, one.y_mean - 32, rtol=1e-13)
    for name in ("gram", "cross", "y_square"):
        assert_allclose(getattr(other, name), getattr(one, name), rtol=1e-11, atol=1e-12)


def test_order_of_samples_does_not_matter():
    X, Y = rows(60, *SHAPE)
    order = np.random.default_rng(3).permutation(60)
    assert_same(GramStatistics.from_arrays(X[order], Y[order]), GramStatistics.from_arrays(X, Y))


@pytest.mark.parametrize("center", [True, False])
def test_weights_are_repetitions(center):
    X, Y = rows(30, *SHAPE)
    times = np.random.default_rng(4).integers(0, 4, 30)
    weighted = GramStatistics.from_arrays(X, Y, times, center=center)
    assert_same(weighted, GramStatistics.from_arrays(X.repeat(times, 0), Y.repeat(times, 0), center=center))
    assert weighted.n_samples == times.sum()
    doubled = GramStatistics.from_arrays(X, Y, 2 * times, center=center)
    assert_same(doubled, GramStatistics.from_arrays(X.repeat(2 * times, 0), Y.repeat(2 * times, 0), center=center))
    assert_allclose(doubled.gram, weighted.gram, rtol=1e-14)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("outlier", [1.0, 1e9])
@pytest.mark.parametrize("blocks", [1, 5, 20])
def test_samples_of_zero_weight_are_absent(monkeypatch, center, outlier, blocks):
    X, Y = rows(40, *SHAPE)
    weight = np.random.default_rng(5).uniform(0.5, 2, 40)
    weight[[0, 1, 7, 8, 9]] = 0.0
    X[weight == 0] *= outlier
    Y[weight == 0] *= outlier
    kept = weight > 0
    monkeypatch.setattr(gram, "BLOCK_ENTRIES", 40 // blocks * 10)
    stats = GramStatistics.from_arrays(X, Y, weight, center=center)
    assert_statistics(stats, X[kept], Y[kept], weight[kept], center=center)


@pytest.mark.parametrize("value", [0.1, 1 / 3, -1e5 / 7, 3e-4])
@pytest.mark.parametrize("weighted", [True, False])
def test_constants_are_exactly_so(monkeypatch, value, weighted):
    """What is left of a constant by rounding must not be taken for data: the search divides by it."""
    X, Y = rows(53, *SHAPE)
    weight = np.random.default_rng(6).uniform(0, 1, 53) if weighted else None
    X[:, 1, 0], Y[:, 0, 1] = value, -value
    for block in (53, 5):
        monkeypatch.setattr(gram, "BLOCK_ENTRIES", block * 10)
        stats = GramStatistics.from_arrays(X, Y, weight)
        cuts = [slice(0, 7), slice(7, 53)]
        parts = [GramStatistics.from_arrays(X[c], Y[c], None if weight is None else weight[c]) for c in cuts]
        for s in (stats, parts[0] + parts[1]):
            assert not s.gram[2].any()
            assert not s.cross[2].any()
            assert not s.cross[:, 1].any()
            assert s.y_square[1] == 0
            assert s.x_mean[2] == -s.y_mean[1] == value


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.int8, np.uint8, bool])
def test_any_numbers_are_taken_as_float64(dtype):
    X, Y = ((5 * np.abs(A) + 100 * (dtype != np.float16)).astype(dtype) for A in rows(50, *SHAPE))
    if dtype is bool:
        X[::2] = False
        Y[::3] = False
    one, other = GramStatistics.from_arrays(X, Y), GramStatistics.from_arrays(X.astype(float), Y.astype(float))
    for name in ("gram", "cross", "y_square", "x_mean", "y_mean"):
        assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.gram.any()


def test_layout_of_the_input_does_not_matter(tmp_path):
    X, Y = rows(50, *SHAPE)
    expected = GramStatistics.from_arrays(X, Y)
    strided = [np.repeat(A, 2, axis=0)[::2] for A in (X, Y)]
    reverse = [A[::-1] for A in (X[::-1].copy(), Y[::-1].copy())]
    transposed = [np.moveaxis(np.moveaxis(A, 0, -1).copy(), -1, 0) for A in (X, Y)]
    frozen = [X.copy(), Y.copy()]
    mapped = []
    for A, name in ((X, "X"), (Y, "Y")):
        np.save(tmp_path / f"{name}.npy", A)
        mapped.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    for A in frozen:
        A.setflags(write=False)
    fortran = [np.asfortranarray(A) for A in (X, Y)]
    for pair in (strided, reverse, transposed, frozen, fortran, mapped, [X.tolist(), Y.tolist()]):
        assert_same(GramStatistics.from_arrays(*pair), expected, rtol=1e-14)


@pytest.mark.parametrize("center", [True, False])
def test_input_is_not_modified(center):
    X, Y = rows(20, *SHAPE)
    weight = np.linspace(0, 1, 20)
    copies = X.copy(), Y.copy(), weight.copy()
    GramStatistics.from_arrays(X, Y, weight, center=center)
    GramStatistics.from_arrays(X, Y, center=center)
    for A, copy in zip((X, Y, weight), copies, strict=True):
        assert_array_equal(A, copy)


def test_bad_input_is_refused():
    X, Y = rows(20, *SHAPE)
    with pytest.raises(ValueError, match="X has 20 samples, Y has 19"):
        GramStatistics.from_arrays(X, Y[:-1])
    with pytest.raises(ValueError, match="at least one sample must count"):
        GramStatistics.from_arrays(X, Y, np.zeros(20))
    with pytest.raises(ValueError, match="at least one sample"):
        GramStatistics.from_arrays(X[:0], Y[:0])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", [0, 1])
@pytest.mark.parametrize("row", [0, 13])
@pytest.mark.parametrize("weighted", [True, False])
def test_values_that_are_not_finite_are_refused(value, where, row, weighted):
    data = rows(20, *SHAPE)
    data[where][row, 1, 0] = value
    with pytest.raises(ValueError, match="NaN or infinity"):
        GramStatistics.from_arrays(*data, np.ones(20) if weighted else None)


@pytest.mark.parametrize("weight", [np.ones(21), np.ones(19), np.ones((20, 1)), np.r_[-1.0, np.ones(19)]])
def test_bad_weights_are_refused(weight):
    with pytest.raises(ValueError, match="weight"):
        GramStatistics.from_arrays(*rows(20, *SHAPE), weight)


# --- they add up ---


def wild_parts(center, shapes=SHAPE):
    """Samples of very different means, spreads and sizes."""
    parts = []
    for seed, (n, mean, spread) in enumerate([(1, 5.0, 1.0), (3, -1e6, 1e-3), (200, 0.0, 1.0), (40, 1e4, 1e3)]):
        X, Y = rows(n, *shapes, seed=seed)
        parts.append((spread * X + mean, spread * Y - 2 * mean))
    X, Y = (np.concatenate([part[k] for part in parts]) for k in range(2))
    return X, Y, [GramStatistics.from_arrays(*part, center=center) for part in parts]


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES)
@pytest.mark.parametrize("center", [True, False])
def test_the_law_of_addition(x_shape, y_shape, center):
    X, Y, (a, b, c, d) = wild_parts(center, (x_shape, y_shape))
    for total in (((a + b) + c) + d, a + (b + (c + d)), (a + b) + (c + d), d + c + b + a, (c + a) + (d + b)):
        assert_statistics(total, X, Y, center=center)
        assert_same(total, a + b + c + d)
    assert_same(a + b, b + a, rtol=1e-15)


def test_addition_leaves_the_parts_alone():
    _, _, (a, b, *_) = wild_parts(True)
    before = [getattr(a, name).copy() for name in ("gram", "cross", "y_square", "x_mean", "y_mean")]
    total = a + b
    for array in (total.gram, total.cross, total.y_square, total.x_mean, total.y_mean):
        array[...] = 7.0
    after = [getattr(a, name) for name in ("gram", "cross", "y_square", "x_mean", "y_mean")]
    for x, y in zip(before, after, strict=True):
        assert_array_equal(x, y)


@given(
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(1, 29), max_size=6, unique=True),
    mean=st.sampled_from([0.0, 1.0, 1e5]),
    weighted=st.booleans(),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_any_partition_adds_up(seed, cuts, mean, weighted):
    X, Y = rows(30, *SHAPE, seed=seed)
    X += mean * np.arange(30)[:, None, None]
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.01, 5, 30) if weighted else None
    parts = [
        GramStatistics.from_arrays(X[i], Y[i], None if weight is None else weight[i])
        for i in np.split(rng.permutation(30), sorted(cuts))
    ]
    assert_statistics(reduce(add, parts), X, Y, weight)


def test_statistics_of_other_shapes_do_not_add():
    one = GramStatistics.from_arrays(*rows(9, (4,), (2,)))
    for x_shape, y_shape in (((2, 2), (2,)), ((4,), (1, 2)), ((5,), (2,))):
        with pytest.raises(ValueError, match="cannot be added"):
            one + GramStatistics.from_arrays(*rows(9, x_shape, y_shape))
    with pytest.raises(TypeError, match="unsupported operand"):
        one + np.ones(4)


@pytest.mark.parametrize("name", ["X", "Y"])
def test_squares_that_overflow_are_told(name):
    X, Y = rows(9, (4,), (2,))
    (X if name == "X" else Y)[3, 1] = 1e200
    with pytest.raises(ValueError, match=f"{name} holds numbers so large"):
        GramStatistics.from_arrays(X, Y)


# --- what a solver asks, of whatever holds the data ---


def in_chunks(X, Y, *args, **options):
    """On a Dask array of ragged chunks, one of which is empty."""
    cuts = (1, len(X) // 3, 0, len(X) - 1 - len(X) // 3)
    return DaskStatistics.from_arrays(da.from_array(X, chunks=(cuts, *X.shape[1:])), Y, *args, **options)


IMPLEMENTATIONS = {"gram": GramStatistics.from_arrays, "rows": RowStatistics.from_arrays, "dask": in_chunks}


@pytest.fixture(params=[*IMPLEMENTATIONS, "rows without C"])
def gathered(request, monkeypatch):
    """Each implementation's constructor, with blocks of few rows."""
    monkeypatch.setattr(row_module, "BLOCK_BYTES", 400)
    monkeypatch.setattr(row_module, "CROSS_SHARE", 0.0 if request.param == "rows without C" else 100.0)
    monkeypatch.setattr(dask_module, "CHUNK_BYTES", 1)
    with dask.config.set(scheduler="synchronous"):
        yield IMPLEMENTATIONS[request.param.removesuffix(" without C")]


def centre_all(X, Y, weight, center):
    """Flat rows, centred if asked, and the weights as shares."""
    w = np.ones(len(X)) if weight is None else weight
    x, y = ((naive.centred(A, w) if center else A).reshape(len(A), -1) for A in (X, Y))
    return x, y, w / w.sum()


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES)
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_products(gathered, x_shape, y_shape, center, weighted):
    X, Y = rows(50, x_shape, y_shape)
    weight = np.random.default_rng(2).integers(0, 3, 50) * 0.7 if weighted else None
    stats = gathered(X, Y, weight, center=center)
    x, y, w = centre_all(X, Y, weight, center)
    rng = np.random.default_rng(7)
    U, V = rng.normal(size=(x.shape[1], 3)), rng.normal(size=(y.shape[1], 3))
    wx = x * w[:, None]
    close = partial(assert_allclose, atol=1e-11, rtol=1e-11)
    close(stats.gram_dot(U), wx.T @ (x @ U))
    close(stats.ridged(0.4).gram_dot(U), wx.T @ (x @ U) + 0.4 * U)
    close(stats.cross_dot(V), wx.T @ (y @ V))
    close(stats.cross_t_dot(U), (wx.T @ y).T @ U)
    close(stats.x_square(), (w[:, None] * x**2).sum(axis=0))
    close(stats.ridged(0.4).x_square(), (w[:, None] * x**2).sum(axis=0) + 0.4)
    close(stats.y_scale, (w[:, None] * y**2).sum())
    close(stats.as_gram().gram, wx.T @ x)
    close(stats.as_gram().cross, wx.T @ y)
    close(stats.ridged(0.4).as_gram().gram, wx.T @ x + 0.4 * np.eye(x.shape[1]))
    assert_allclose(stats.n_samples, 50 if weight is None else weight.sum(), rtol=1e-14)
    for u, (u_gram_u, u_cross) in zip((U[:, :1], U[:, 1:]), stats.moments(U, [1, 2]), strict=True):
        close(u_gram_u, u.T @ (wx.T @ (x @ u)))
        close(u_cross, u.T @ (wx.T @ y))


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES)
def test_kkt_start_is_the_largest_covariance(gathered, x_shape, y_shape):
    X, Y = rows(50, x_shape, y_shape)
    x, y = (naive.centred(A).reshape(50, -1) for A in (X, Y))
    size, i, j = max((abs(x[:, i] @ y[:, j]) / 50, i, j) for i in range(x.shape[1]) for j in range(y.shape[1]))
    found = gathered(X, Y).kkt_start()
    assert_allclose(found[0], size, rtol=1e-12)
    assert found[1:] == (i, j)


def test_restricted_to_slices(gathered):
    X, Y = rows(50, (4, 3, 2), (2,))
    slices = [np.array([0, 3]), np.array([1]), np.array([0, 1])]
    stats = gathered(X, Y).restricted(slices)
    assert stats.x_shape == (2, 1, 2)
    assert_statistics(stats, X[:, [0, 3]][:, :, [1]], Y)
    coef = coefficient((4, 3, 2), (2,))
    rest = gathered(X, Y).ridged(0.7).residual(coef)
    cut = np.ravel_multi_index(np.ix_(*slices), (4, 3, 2)).ravel()
    assert_allclose(rest.restricted(slices).as_gram().cross, rest.as_gram().cross[cut], atol=1e-10)
    whole = gathered(X, Y).restricted([np.arange(d) for d in (4, 3, 2)])
    assert_statistics(whole, X, Y)


@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_products_with_large_means(gathered, offset):
    X, Y = rows(60, *SHAPE)
    x, y, _ = centre_all(X, Y, None, True)
    X, Y = X + offset * x.std(), Y - 3 * offset
    U = np.random.default_rng(7).normal(size=(x.shape[1], 2))
    stats = gathered(X, Y)
    size = np.abs(x.T @ (x @ U)).max() / 60
    assert_allclose(stats.gram_dot(U), x.T @ (x @ U) / 60, atol=1e-9 * size)
    assert_allclose(stats.cross_t_dot(U), y.T @ (x @ U) / 60, atol=1e-8 * np.abs(y.T @ (x @ U)).max() / 60)
    assert_allclose(stats.x_square(), (x**2).mean(axis=0), rtol=1e-8)


def test_float32_with_means_beyond_its_precision(gathered):
    """Rows stay float32, in which a mean of 2**23 and a half has no place: what is left of it is taken into account."""
    rng = np.random.default_rng(0)
    X, Y = (2**23 + rng.integers(-8, 8, (60, 3, 2))).astype(np.float32), rng.normal(size=(60, 2))
    x, y, _ = centre_all(X.astype(float), Y, None, True)
    stats, coef = gathered(X, Y), coefficient((3, 2), (2,))
    U, V = coef.x_side(), coef.y_side()
    exact = GramStatistics.from_arrays(X, Y)
    for found, known in (
        (stats.as_gram().gram, x.T @ x / 60),
        (stats.gram_dot(U), x.T @ (x @ U) / 60),
        (stats.x_square(), (x**2).mean(axis=0)),
        (stats.moments(U, [2])[0][0], U.T @ x.T @ x @ U / 60),
        (stats.residual(coef).cross_dot(V), x.T @ (y - x @ U @ V.T) @ V / 60),
        *zip(stats.tangent(coef), exact.tangent(coef), strict=True),
    ):
        assert_allclose(found, known, rtol=1e-5, atol=1e-5 * np.abs(known).max())


@pytest.mark.parametrize("value", [0.1, 1 / 3, -1e5 / 7])
def test_a_constant_predictor_has_no_moments(gathered, value):
    X, Y = rows(53, *SHAPE)
    X[:, 1, 0] = value
    stats = gathered(X, Y, np.random.default_rng(6).uniform(0, 1, 53))
    assert stats.x_square()[2] == 0
    assert stats.x_mean[2] == value
    assert not stats.as_gram().cross[2].any()


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES)
@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("center", [True, False])
class TestCoefficientOnRows:
    @pytest.fixture
    def data(self, gathered, x_shape, y_shape, rank, center):
        X, Y = rows(40, x_shape, y_shape)
        return X, Y, coefficient(x_shape, y_shape, rank), gathered(X, Y, center=center)

    def test_loss(self, data, x_shape, y_shape, center):
        X, Y, coef, stats = data
        x, y = (naive.centred(X), naive.centred(Y)) if center else (X, Y)
        assert_allclose(stats.loss(coef), naive.objective(x, y, coef.factors), rtol=1e-11)
        nothing = CPCoefficient.empty(x_shape, y_shape)
        assert_allclose(stats.loss(nothing), np.sum(y**2) / 80, rtol=1e-11)

    def test_loss_with_ridge(self, data, center):
        X, Y, coef, stats = data
        x, y = (naive.centred(X), naive.centred(Y)) if center else (X, Y)
        before = stats.as_gram().gram.copy()
        assert_allclose(stats.ridged(0.7).loss(coef), naive.objective(x, y, coef.factors, l2=0.7), rtol=1e-11)
        assert_allclose(stats.ridged(0.7).as_gram().gram, before + 0.7 * np.eye(stats.n_x), rtol=1e-14)
        assert_array_equal(stats.ridged(0.0).as_gram().gram, before)
        assert_array_equal(stats.as_gram().gram, before)

    def test_residual(self, data, center):
        X, Y, coef, stats = data
        before = stats.as_gram().cross.copy(), stats.y_square.copy()
        assert_statistics(
            stats.residual(coef), X, Y - naive.predicted(X, naive.dense(coef.factors)), center=center, tol=1e-10
        )
        assert_array_equal(stats.as_gram().cross, before[0])
        assert_array_equal(stats.y_square, before[1])

    def test_residual_with_ridge(self, data, x_shape, y_shape, center):
        """The ridge shrinks what was taken out together with what is added: the gradient is that of the sum."""
        X, Y, coef, stats = data
        x, y, _ = centre_all(X, Y, None, center)
        B = coef.x_side() @ coef.y_side().T
        slope = x.T @ (y - x @ B) / 40 - 0.7 * B
        rest = stats.ridged(0.7).residual(coef)
        V = np.random.default_rng(3).normal(size=(y.shape[1], 2))
        assert_allclose(rest.cross_dot(V), slope @ V, atol=1e-10)
        assert_allclose(rest.cross_t_dot(B), slope.T @ B, atol=1e-9)
        assert_allclose(rest.as_gram().cross, slope, atol=1e-10)
        assert_allclose(rest.kkt_start()[0], np.abs(slope).max(), rtol=1e-10)
        more = coefficient(x_shape, y_shape, 2, seed=9)
        both = coef.append(more)
        assert_allclose(rest.loss(more), stats.ridged(0.7).loss(both), rtol=1e-10)
        twice = rest.residual(more)
        assert_allclose(twice.as_gram().cross, stats.ridged(0.7).residual(both).as_gram().cross, atol=1e-9)
        assert_allclose(twice.y_scale, stats.ridged(0.7).residual(both).y_scale, rtol=1e-9)
        assert_allclose(rest.tangent(more)[1], stats.as_gram().ridged(0.7).residual(coef).tangent(more)[1], atol=1e-9)
        assert_allclose(rest.tangent(more)[0], stats.as_gram().ridged(0.7).tangent(more)[0], atol=1e-9)

    def test_intercept_predicts_the_mean(self, data, center):
        X, Y, coef, stats = data
        B = naive.dense(coef.factors)
        expected = (Y - naive.predicted(X, B)).mean(axis=0).ravel() if center else np.zeros(stats.n_y)
        assert stats.intercept(coef).shape == (stats.n_y,)
        assert_allclose(stats.intercept(coef), expected, rtol=1e-11, atol=1e-11)

    def test_prediction_loss(self, data, gathered, x_shape, y_shape, center):
        X, Y, coef, stats = data
        train = gathered(*rows(25, x_shape, y_shape, seed=11), center=center)
        others = [coefficient(x_shape, y_shape, 2, seed=12), CPCoefficient.empty(x_shape, y_shape), coef]
        losses = stats.prediction_losses(others, train.x_mean, train.y_mean)
        assert losses.shape == (3,)
        for loss, c in zip(losses, others, strict=True):
            fitted = naive.predicted(X - train.x_mean.reshape(x_shape), naive.dense(c.factors))
            error = Y - (train.y_mean.reshape(y_shape) + fitted)
            assert_allclose(loss, np.sum(error**2) / 80, rtol=1e-10)

    def test_scaled(self, data, x_shape, center):
        X, Y, _, stats = data
        scale = np.random.default_rng(13).uniform(0.1, 10, stats.n_x)
        assert_statistics(stats.scaled(scale), X / scale.reshape(x_shape), Y, center=center)
        assert_statistics(stats, X, Y, center=center)

    def test_tangent(self, data, x_shape, rank, center):
        X, Y, coef, stats = data
        x, y = (naive.centred(A).reshape(40, -1) if center else A.reshape(40, -1) for A in (X, Y))
        columns = []
        for k, d in enumerate(x_shape):
            for i in range(d):
                for r in range(rank):
                    vectors = [f[:, r] for f in coef.factors[: len(x_shape)]]
                    vectors[k] = np.eye(d)[i]
                    columns.append(naive.outer(vectors).ravel())
        T = np.array(columns).T
        gram_t, cross_t = stats.tangent(coef)
        assert_allclose(gram_t, (x @ T).T @ (x @ T) / 40, rtol=1e-10, atol=1e-10)
        assert_allclose(cross_t, (x @ T).T @ y / 40, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES)
def test_residuals_add_up_like_samples(x_shape, y_shape):
    coef = coefficient(x_shape, y_shape)
    one = GramStatistics.from_arrays(*rows(40, x_shape, y_shape))
    X, Y = rows(30, x_shape, y_shape, seed=8)
    other = GramStatistics.from_arrays(X + 10, Y)
    assert_same((one + other).residual(coef), one.residual(coef) + other.residual(coef), rtol=1e-10)


@pytest.mark.parametrize(
    ("x_shape", "y_shape", "small"),
    [
        ((1, 3), (1,), ((3,), ())),
        ((1, 1), (2, 1), ((1,), (2,))),
        ((2, 1, 3), (), ((2, 3), ())),
        ((4,), (2,), ((4,), (2,))),
    ],
)
def test_squeezed_statistics_are_those_of_squeezed_rows(gathered, x_shape, y_shape, small):
    X, Y = rows(30, x_shape, y_shape)
    squeezed = gathered(X, Y).squeezed()
    assert_statistics(squeezed, X.reshape(30, *small[0]), Y.reshape(30, *small[1]))


# --- cross-validation ---


@pytest.mark.parametrize("k", [2, 3, 6])
def test_leave_one_out_is_the_sum_of_the_others(k):
    parts = [GramStatistics.from_arrays(*rows(10 + i, *SHAPE, seed=i)) for i in range(k)]
    for i, left in enumerate(leave_one_out(parts)):
        pairs = [rows(10 + j, *SHAPE, seed=j) for j in range(k) if j != i]
        X, Y = (np.concatenate([pair[m] for pair in pairs]) for m in range(2))
        assert_statistics(left, X, Y)


@pytest.mark.parametrize("wild", range(5))
def test_a_wild_fold_does_not_touch_the_training_set_without_it(wild):
    data = [rows(20, *SHAPE, seed=i) for i in range(5)]
    data[wild] = (1e9 * data[wild][0], 1e9 * data[wild][1])
    left = leave_one_out([GramStatistics.from_arrays(*part) for part in data])[wild]
    X, Y = (np.concatenate([part[m] for i, part in enumerate(data) if i != wild]) for m in range(2))
    assert_statistics(left, X, Y)


GROUPS = np.random.default_rng(14).integers(0, 7, 42)
SPLITTERS = {
    "KFold": KFold(5),
    "shuffled KFold": KFold(4, shuffle=True, random_state=0),
    "two folds": KFold(2),
    "LeaveOneOut": LeaveOneOut(),
    "GroupKFold": GroupKFold(3),
    "ShuffleSplit": ShuffleSplit(4, test_size=0.3, random_state=0),
    "one ShuffleSplit": ShuffleSplit(1, test_size=0.3, random_state=0),
    "RepeatedKFold": RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
    "TimeSeriesSplit": TimeSeriesSplit(4),
    "PredefinedSplit": PredefinedSplit(np.arange(42) % 4 - 1),
}
CUSTOM = {
    "trained on its own test set": [(np.arange(21), np.arange(21)), (np.arange(21, 42), np.arange(21, 42))],
    "training set with repetitions": [
        (np.r_[np.arange(20), 0], np.arange(21, 42)),
        (np.r_[np.arange(22, 42), 22], np.arange(21)),
    ],
    "a sample tested twice": [(np.arange(21), np.arange(21, 42)), (np.arange(1, 22), np.r_[0, np.arange(22, 42)])],
    "a sample never tested": [(np.r_[0, np.arange(21, 42)], np.arange(1, 21)), (np.arange(21), np.arange(21, 42))],
    "training set with gaps": [(np.arange(25, 42), np.arange(21)), (np.arange(17), np.arange(21, 42))],
}


@pytest.mark.parametrize("name", [*SPLITTERS, *CUSTOM])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("center", [True, False])
def test_folds_are_those_of_the_splitter(name, weighted, center):
    X, Y = rows(42, *SHAPE)
    X += np.arange(42)[:, None, None]  # the folds have other means
    weight = np.random.default_rng(15).uniform(0.1, 2, 42) if weighted else None
    groups = GROUPS if name == "GroupKFold" else None
    splits = CUSTOM[name] if name in CUSTOM else list(SPLITTERS[name].split(X, Y, groups))
    total, folds = fold_statistics(X, Y, splits, weight, center=center)
    assert_statistics(total, X, Y, weight, center=center)
    assert len(folds) == len(splits)
    for pair, split in zip(folds, splits, strict=True):
        for stats, index in zip(pair, split, strict=True):
            part = None if weight is None else weight[index]
            direct = GramStatistics.from_arrays(X[index], Y[index], part, center=center)
            assert_same(stats, direct, rtol=1e-11)
            if len(index) > 2:
                assert_statistics(stats, X[index], Y[index], part, center=center)


def test_a_single_split_needs_a_training_set():
    X, Y = rows(10, *SHAPE)
    with pytest.raises(ValueError, match="at least one sample"):
        fold_statistics(X, Y, [(np.arange(0), np.arange(10))], None, center=True)


def test_a_partition_is_read_once():
    X, Y = rows(42, *SHAPE)
    lazy = Rows(X), Rows(Y)
    fold_statistics(*lazy, list(KFold(6).split(X)), None, center=True)
    assert [array.read for array in lazy] == [42, 42]
