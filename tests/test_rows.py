"""Fits from the rows are those from second moments; the choice between them; what a fit may cost in memory."""

import dask
import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from dst2r import DST2R, DST2RCV, GramStatistics, make_tensor_regression, search
from dst2r.cp import CPCoefficient, max_rank
from dst2r.search import search as search_component
from dst2r.statistics import DaskStatistics, RowStatistics, choice, choose, gather, gather_folds
from dst2r.statistics import dask as dask_module
from dst2r.statistics import rows as row_module

SHAPES = [
    ((9,), ()),
    ((6,), (3,)),
    ((5, 4), ()),
    ((5, 4), (3,)),
    ((6,), (3, 2)),
    ((4, 3, 3), (2, 2)),
    ((3, 4), (2, 2, 3)),
]


def regression(x_shape, y_shape, n=150, seed=0, rank=2, **kwargs):
    data = make_tensor_regression(
        n, x_shape, y_shape, rank=rank, sparsity=0.3, snr=3.0, x_distribution="normal", random_state=seed, **kwargs
    )
    return data.X + 2.0, data.Y - 1.0, data


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of few rows, chunks that are not joined, no sub-tensor of a Dask array kept."""
    monkeypatch.setattr(row_module, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(dask_module, "LOCAL_BYTES", 1)
    monkeypatch.setattr(dask_module, "CHUNK_BYTES", 1)
    with dask.config.set(scheduler="synchronous"):
        yield


def in_chunks(X, Y, *args, **options):
    """On a Dask array of ragged chunks, one of which is empty."""
    chunks = ((1, 40, 0, len(X) - 41), *X.shape[1:])
    return DaskStatistics.from_arrays(da.from_array(X, chunks=chunks), Y, *args, **options)


on_rows_and_chunks = pytest.mark.parametrize("gathered", [RowStatistics.from_arrays, in_chunks], ids=["rows", "chunks"])


def assert_same_fit(one, other, rtol=1e-6):
    assert one.rank_ == other.rank_
    assert one.n_parameters_ == other.n_parameters_
    size = np.abs(other.coef_).max(initial=0)
    assert_allclose(one.coef_, other.coef_, rtol=rtol, atol=rtol * size)
    assert_allclose(one.intercept_, other.intercept_, rtol=rtol, atol=rtol * np.abs(other.intercept_).max())
    assert_allclose(one.loss_, other.loss_, rtol=1e-6)


@pytest.mark.usefixtures("small_blocks")
@on_rows_and_chunks
@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES)
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"l2": 0.1},
        {"standardize": True, "l2": 0.05},
        {"fit_intercept": False, "l1": 0.02},
        {"l1": "ebic", "relax": False},
    ],
    ids=str,
)
def test_rows_chunks_and_second_moments_give_one_fit(gathered, x_shape, y_shape, parameters):
    X, Y, _ = regression(x_shape, y_shape)
    weight = np.random.default_rng(1).integers(0, 3, len(X)).astype(float)
    center = parameters.get("fit_intercept", True)
    rank = min(2, max_rank(x_shape + y_shape))
    for w in (None, weight):
        expected = DST2R(rank, **parameters).fit_statistics(GramStatistics.from_arrays(X, Y, w, center=center))
        assert_same_fit(DST2R(rank, **parameters).fit_statistics(gathered(X, Y, w, center=center)), expected)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("correction", ["none", "final"])
@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES[3:6])
def test_other_corrections(correction, x_shape, y_shape):
    X, Y, _ = regression(x_shape, y_shape)
    fits = [
        DST2R(2, correction=correction).fit_statistics(kind.from_arrays(X, Y))
        for kind in (RowStatistics, GramStatistics)
    ]
    assert_same_fit(*fits)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("x_shape", "y_shape"), [((12, 10), (3,)), ((6, 5, 5), ()), ((5, 6, 4), (2, 2))])
def test_fewer_samples_than_predictors(x_shape, y_shape):
    X, Y, _ = regression(x_shape, y_shape, n=60)
    for l2 in (0.0, 0.5):
        fits = [DST2R(2, l2=l2).fit_statistics(kind.from_arrays(X, Y)) for kind in (RowStatistics, GramStatistics)]
        assert_same_fit(*fits)


@pytest.mark.parametrize("seed", range(4))
def test_search_on_a_working_set_leads_to_the_same_fit(monkeypatch, seed):
    X, Y, _ = regression((10, 9, 8), (4,), n=500, seed=seed, normalize=True)
    expected = DST2R(2).fit_statistics(GramStatistics.from_arrays(X, Y))
    monkeypatch.setattr(search, "WORKING_SET", 150)
    assert_same_fit(DST2R(2).fit_statistics(RowStatistics.from_arrays(X, Y)), expected)


def test_a_working_set_that_holds_the_support_gives_the_path_of_all(monkeypatch):
    """Up to the point where slices are tested the path is that of the whole tensor, if noise is small."""
    data = make_tensor_regression(400, (12, 12), (3,), rank=1, sparsity=0.7, noise=1e-3, normalize=True, random_state=0)
    whole = search_component(GramStatistics.from_arrays(data.X, data.Y))
    monkeypatch.setattr(search, "WORKING_SET", 60)
    part = search_component(RowStatistics.from_arrays(data.X, data.Y))
    assert part.x_shape == whole.x_shape
    t = int(np.count_nonzero(whole.l1 > search.CHECK_AT * whole.l1[0]))
    assert t > 10
    for name in ("l1", "weight", "loss", "factors"):
        assert_allclose(getattr(part, name)[:t], getattr(whole, name)[:t], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_a_working_set_takes_in_what_the_path_asks_for(monkeypatch, unit):
    """A slice without covariance of its own, because another one hides it: only the gradient along the path tells."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 20, 5))
    X[:, 1] = 0.8 * X[:, 0] + 0.6 * X[:, 1]
    X[:, 2:10] = 0.5 * X[:, [0]] + X[:, 2:10]  # more of them than the set has room for, and none needed
    Y = (X[:, 0] - 0.8 * X[:, 1]).sum(axis=1)[:, None] * [1.0, 2.0] + rng.normal(size=(1000, 2))
    monkeypatch.setattr(search, "WORKING_SET", 30)
    stats = RowStatistics.from_arrays(unit * X, Y)
    assert 1 not in search._promising(stats)[0]
    path = search_component(stats)
    assert path.factors[-1, 1] != 0
    assert np.count_nonzero(path.factors[:, :20].any(axis=0)) <= 6


def test_the_working_set_begins_where_the_component_lies(monkeypatch):
    data = make_tensor_regression(400, (12, 12), (3,), rank=1, sparsity=0.7, noise=0.1, normalize=True, random_state=0)
    monkeypatch.setattr(search, "WORKING_SET", 60)
    slices = search._promising(RowStatistics.from_arrays(data.X, data.Y))
    for held, factor in zip(slices, data.factors, strict=False):
        sizes = np.abs(factor[:, 0])
        assert set(np.flatnonzero(sizes > 0.25 * sizes.max())) <= set(held)
        assert len(held) < 12


def test_a_working_set_that_misses_the_component_is_revised(monkeypatch):
    data = make_tensor_regression(400, (12, 12), (3,), rank=1, sparsity=0.7, noise=0.1, normalize=True, random_state=0)
    whole = search_component(GramStatistics.from_arrays(data.X, data.Y))
    monkeypatch.setattr(search, "WORKING_SET", 60)
    missed = [np.sort(np.argsort(np.abs(f[:, 0]), kind="stable")[::-1][1:8]) for f in data.factors[:2]]
    monkeypatch.setattr(search, "_promising", lambda _: missed)  # without the largest entry of either mode
    part = search_component(RowStatistics.from_arrays(data.X, data.Y))
    assert part.loss[-1] < 1.05 * whole.loss[-1]  # 7.6 without a second round


@pytest.mark.parametrize(("mean", "shifted"), [(0.0, False), (1.0, False), (3.0, True)])
@pytest.mark.parametrize("gathered", [RowStatistics.from_arrays, in_chunks], ids=["rows", "chunks"])
def test_small_means_are_left_in_the_rows(gathered, mean, shifted):
    rng = np.random.default_rng(0)
    X, Y, U = rng.normal(size=(80, 4, 3)) + mean, rng.normal(size=(80, 2)) + 5, rng.normal(size=(12, 3))
    weight = rng.uniform(size=80)
    stats, gram = gathered(X, Y, weight), GramStatistics.from_arrays(X, Y, weight)
    assert stats.shifted is shifted
    assert_allclose(stats.gram_dot(U), gram.gram @ U, atol=1e-12)
    assert_allclose(stats.cross_dot(np.eye(2)), gram.cross, atol=1e-12)
    assert_allclose(stats.x_square(), gram.gram.diagonal(), atol=1e-12)
    assert_allclose(stats.as_gram().gram, gram.gram, atol=1e-12)


def test_a_constant_predictor_leaves_nothing_however_small_the_other_means():
    X = np.random.default_rng(0).normal(size=(80, 4))
    X[:, 2] = 0.1
    stats = RowStatistics.from_arrays(X, X[:, 0])
    assert stats.shifted
    assert stats.cross_dot(np.ones((1, 1)))[2] == 0.0


class Slices:
    """Rows that can only be sliced; keeps account of what is read at a time."""

    def __init__(self, array):
        self.array, self.shape, self.dtype, self.read = array, array.shape, array.dtype, []

    def __getitem__(self, key):
        self.read.append(len(self.array[key]))
        return self.array[key]

    def __array__(self, *_, **__):
        raise AssertionError("X was copied whole")


def test_predictors_are_read_in_blocks_and_never_whole(monkeypatch):
    monkeypatch.setattr(row_module, "BLOCK_BYTES", 2000)  # 12 rows
    X, Y, data = regression((5, 4), (3,))
    coef = CPCoefficient(tuple(data.factors), 2)
    lazily = Slices(X)
    stats = RowStatistics.from_arrays(lazily, Y)
    stats.residual(coef).tangent(coef)
    stats.x_square()
    stats.moments(coef.x_side(), [2])
    stats.restricted([np.array([0, 3]), np.array([1])])
    lazily.read.clear()
    stats.gram_dot(coef.x_side())
    assert lazily.read == [12] * 12 + [6]


@pytest.mark.parametrize("lazily", [False, True])
def test_fits_of_any_layout(tmp_path, monkeypatch, lazily):
    monkeypatch.setattr(choice, "GRAM_WIDTH", 1)
    X, Y, _ = regression((5, 4), (3,))
    np.save(tmp_path / "X.npy", X)
    expected = DST2R(2).fit_statistics(GramStatistics.from_arrays(X, Y))
    frozen, mapped = X.copy(), np.load(tmp_path / "X.npy", mmap_mode="r")
    frozen.setflags(write=False)
    for other in (frozen, mapped, np.asfortranarray(X), np.repeat(X, 2, axis=2)[:, :, ::2], X[::-1].copy()[::-1]):
        model = DST2R(2).fit(da.from_array(other, chunks=(60, -1, -1)) if lazily else other, Y)
        assert ("Dask" if lazily else "Row") in model.statistics_
        assert_same_fit(model, expected)


def test_nothing_to_find():
    rng = np.random.default_rng(0)
    X = np.ones((30, 50, 50))
    model = DST2R(1).fit_statistics(RowStatistics.from_arrays(X, rng.normal(size=(30, 2))))
    assert model.rank_ == 0
    model = DST2R(1).fit_statistics(RowStatistics.from_arrays(rng.normal(size=(30, 50, 50)), np.ones((30, 2))))
    assert model.rank_ == 0
    assert_allclose(model.intercept_, 1.0)


def test_float32_rows_give_the_fit_of_their_values_up_to_their_precision():
    X, Y, _ = regression((8, 7, 6), (3,), n=400)
    X = X.astype(np.float32)
    fits = [DST2R(2).fit_statistics(kind.from_arrays(X, Y)) for kind in (RowStatistics, GramStatistics)]
    assert_same_fit(*fits, rtol=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.usefixtures("small_blocks")
@on_rows_and_chunks
@pytest.mark.parametrize(
    "parameters",
    [{}, {"l2": (0.02, 0.3), "standardize": True, "n_l1": 3}, {"fit_intercept": False, "rule": "1se", "n_l1": 3}],
    ids=str,
)
def test_cross_validation(gathered, parameters, weighted):
    X, Y, _ = regression((6, 5), (3,), n=90)
    center = parameters.get("fit_intercept", True)
    weight = np.random.default_rng(1).uniform(0.2, 2, 90) if weighted else None
    splits = [(np.setdiff1d(np.arange(90), fold), fold) for fold in np.arange(90).reshape(3, 30)]
    model = DST2RCV((1, 2), cv=splits, **parameters)
    total = gathered(X, Y, weight, center=center)
    folds = [[gathered(X, Y, weight, center=center, rows=rows) for rows in split] for split in splits]
    on_rows = clone(model)._fit_folds(total, folds)
    model.fit(X, Y, weight)
    assert_allclose(on_rows.cv_results_["test_loss"], model.cv_results_["test_loss"], rtol=1e-6)
    assert_same_fit(on_rows, model)


def test_rows_of_a_fold_are_any_rows():
    X, Y, _ = regression((4, 3), (2,), n=40)
    for rows in (np.array([3, 1, 1, 7, 20, 21, 22]), np.arange(5, 30), np.arange(40)[::-1].copy()):
        one, other = (
            RowStatistics.from_arrays(X, Y, rows=rows).as_gram(),
            GramStatistics.from_arrays(X[rows], Y[rows]),
        )
        for name in ("gram", "cross", "x_mean", "y_mean", "y_square", "n_samples"):
            assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-11, atol=1e-12)


# --- the choice ---


def test_narrow_data_become_second_moments_and_wide_ones_stay_rows():
    assert choose(1000, 512, 64, 8, np.inf) is GramStatistics
    assert choose(10**9, 512, 64, 8, 1e8) is GramStatistics
    assert choose(2000, 32**3, 64, 4, 1e10) is RowStatistics
    assert choose(500, 64 * 64 * 32, 16, 4, 4e9) is RowStatistics
    with pytest.raises(MemoryError, match=r"2000 samples of 32768 predictor and 64 response .* GB"):
        choose(2000, 32**3, 64, 4, 1e6)


def fits(n, n_x, n_y, itemsize, memory, n_folds=0):
    """What is chosen, or None; X is taken to be at hand."""
    try:
        return choose(n, n_x, n_y, itemsize, memory, n_folds)
    except MemoryError:
        return None


def test_the_choice_at_its_edges(monkeypatch):
    """Where one byte, one predictor entry or one fold more makes the difference; by hand from what each holds."""
    monkeypatch.setattr(choice, "free_memory", lambda: pytest.fail("memory was looked up"))
    assert fits(100, 2048, 1, 8, np.inf) is GramStatistics
    assert fits(100, 2049, 1, 8, np.inf) is RowStatistics
    # Second moments: three matrices of P x P and four of P x Q, and three more of each per fold.
    gram = 8 * (3 * 2048**2 + 4 * 2048)
    assert [fits(10, 2048, 1, 8, gram - k) for k in (0, 1)] == [GramStatistics, RowStatistics]
    assert fits(10, 2048, 1, 8, gram, n_folds=1) is RowStatistics
    folds = 8 * (18 * 2048**2 + 19 * 2048)
    assert [fits(10, 2048, 1, 8, folds - k, n_folds=5) for k in (0, 1)] == [GramStatistics, RowStatistics]
    # Rows: three matrices of P x Q, a quarter of X, four blocks of 8 MiB, four copies of Y and two more per fold.
    rows = 8 * 3 * 32**3 * 64 + 32**3 * 2000 * 4 // 4 + 4 * 2**23 + 8 * 4 * 2000 * 64
    assert [fits(2000, 32**3, 64, 4, rows - k) for k in (0, 1)] == [RowStatistics, None]
    assert fits(2000, 32**3, 64, 4, rows, n_folds=1) is None
    rows += 8 * 2 * 5 * 2000 * 64
    assert [fits(2000, 32**3, 64, 4, rows - k, n_folds=5) for k in (0, 1)] == [RowStatistics, None]
    with pytest.raises(
        MemoryError, match=rf"{8 * (3 * 2.0**30 + 2**23) / 1e9:.3g} GB .*or 0\.154 GB .*and 0\.1 GB are"
    ):
        choose(2000, 32**3, 64, 4, 1e8)


def test_so_many_samples_that_only_second_moments_fit():
    assert choose(10**9, 3000, 64, 4, 1e9, lazy=True) is GramStatistics
    assert choose(10**9, 3000, 64, 4, 1e9) is GramStatistics


def test_the_estimators_say_what_was_chosen():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 50, 60)).astype(np.float32), rng.normal(size=(60, 2))
    model = DST2R(1).fit(X, Y)
    assert "RowStatistics: 60 samples of 3000" in model.statistics_
    assert "0.072 GB" in model.statistics_
    assert "GramStatistics" in DST2R(1).fit(X[:, :5], Y).statistics_
    splits = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    assert "RowStatistics" in DST2RCV((1,), cv=splits).fit(X, Y).statistics_
    assert isinstance(gather(X, Y), RowStatistics)
    total, folds = gather_folds(X, Y, splits)
    assert isinstance(total, RowStatistics)
    assert [s.n_samples for pair in folds for s in pair] == [30] * 4
    with pytest.raises(MemoryError):
        gather(X, Y, memory=100.0)
    narrow, enough = X.reshape(60, -1)[:, :2000], 1.3e8  # 96 MB, and twice as much more for two folds
    assert isinstance(gather(narrow, Y, memory=enough), GramStatistics)
    assert isinstance(gather_folds(narrow, Y, splits, memory=enough)[0], RowStatistics)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("where", [0, 1])
@pytest.mark.parametrize("row", [0, 13])
def test_values_that_are_not_finite_are_refused(value, where, row):
    data = [A.copy() for A in regression((4, 3), (2,), n=20)[:2]]
    data[where][row, 1] = value
    with pytest.raises(ValueError, match=f"{'XY'[where]} holds NaN or infinity"):
        RowStatistics.from_arrays(*data)


def test_any_layout_and_type(tmp_path, monkeypatch):
    monkeypatch.setattr(row_module, "BLOCK_BYTES", 500)
    X, Y, _ = regression((4, 3), (2,), n=30)
    X = np.round(10 * X)
    np.save(tmp_path / "X.npy", X)
    expected = GramStatistics.from_arrays(X, Y)
    kinds = [np.asfortranarray(X), X.astype(np.int16), X.astype(np.float32), X.tolist(), X[::-1].copy()[::-1]]
    for other in (*kinds, np.load(tmp_path / "X.npy", mmap_mode="r")):
        stats = RowStatistics.from_arrays(other, Y)
        assert_allclose(stats.as_gram().gram, expected.gram, rtol=1e-5)
        assert_allclose(stats.x_mean, expected.x_mean, rtol=1e-6)
