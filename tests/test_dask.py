"""Dask arrays: the same fits as from memory, every chunk read once and only when asked, and clear ends of bad runs."""

import os
import signal
import threading
import time

import dask
import dask.array as da
import numpy as np
import pytest
from dask.distributed import Client, LocalCluster
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, ShuffleSplit

import dst2r.statistics.dask as lazy
from dst2r import DST2R, DST2RCV, GramStatistics, make_tensor_regression
from dst2r.baselines import HOLRR, STORE, CPRidge, KernelHOLRR, SparseOLS, TensorEnvelope
from dst2r.cp import CPCoefficient
from dst2r.statistics import DaskStatistics, choose, fold_statistics

N, X_SHAPE, Y_SHAPE = 240, (4, 3), (3, 2)
RAGGED = [(240,), (1, 39, 100, 100), (60,) * 4, (7, 0, 33, 199, 1)]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks as small as these would be joined, and nothing would be left to add up."""
    monkeypatch.setattr(lazy, "CHUNK_BYTES", 1)


def problem(n=N, seed=0):
    """Predictors with means, two components, some noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, *X_SHAPE)) + rng.normal(size=X_SHAPE)
    factors = [rng.normal(size=(d, 2)) for d in X_SHAPE + Y_SHAPE]
    B = np.einsum("ar,br,cr,dr->abcd", *factors)
    Y = np.einsum("nab,abcd->ncd", X, B) + 0.3 * rng.normal(size=(n, *Y_SHAPE)) + 1.0
    return X, Y


def chunked(array, chunks):
    return da.from_array(array, chunks=(chunks, *array.shape[1:]))


class Source:
    """An array on disk, as it were: counts what is read, and can raise or act when it is."""

    def __init__(self, array, on_read=lambda: None):
        self.array, self.on_read = array, on_read
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim
        self.rows, self.lock = [], threading.Lock()

    def __getitem__(self, key):
        with self.lock:
            self.rows.append(np.arange(self.shape[0])[key[0]])
        self.on_read()
        return self.array[key]

    def lazy(self, chunks):
        return da.from_array(self, chunks=(chunks, *self.shape[1:]), name=False, meta=np.empty((0,) * self.ndim))


def explode():
    raise AssertionError("something was read")


def assert_same_fit(one, other, rtol=1e-10):
    assert_allclose(one.coef_, other.coef_, rtol=0, atol=rtol * np.abs(other.coef_).max())
    assert_allclose(one.intercept_, other.intercept_, rtol=0, atol=rtol * np.abs(other.intercept_).max())


# --- the same fit -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", RAGGED)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("estimator", [DST2R(2), DST2RCV((1, 2), n_l1=5)])
def test_chunks_do_not_matter(estimator, chunks, weighted):
    X, Y = problem()
    weight = np.random.default_rng(1).uniform(0, 2, N) * (np.arange(N) >= 40) if weighted else None
    expected = clone(estimator).fit(X, Y, weight)
    assert np.abs(expected.coef_).max() > 0
    lazily = None if weight is None else da.from_array(weight, chunks=100)
    assert_same_fit(clone(estimator).fit(chunked(X, chunks), chunked(Y, (100, 140)), lazily), expected)
    assert_same_fit(clone(estimator).fit(X, chunked(Y, chunks), weight), expected)
    assert_same_fit(clone(estimator).fit(chunked(X, chunks), Y, weight), expected)


@pytest.mark.parametrize(
    "estimator",
    [SparseOLS(n_values=5), STORE(1, random_state=0), TensorEnvelope(), HOLRR(), CPRidge(1, random_state=0)],
)
def test_baselines(estimator):
    X, Y = problem()
    lazily = clone(estimator).fit(chunked(X, (100, 33, 107)), chunked(Y, (240,)))
    assert_same_fit(lazily, clone(estimator).fit(X, Y), 1e-7)


def test_a_kernel_needs_the_samples():
    X, Y = problem()
    with pytest.raises(TypeError, match="compute"):
        KernelHOLRR().fit(chunked(X, (240,)), chunked(Y, (240,)))


@pytest.mark.parametrize("center", [True, False])
def test_statistics_against_rows_in_one_product(center):
    X, Y = problem()
    X = X + 1e4  # chunks must not be added up about zero
    stats = GramStatistics.from_arrays(chunked(X, (1, 39, 200)), chunked(Y, (240,)), center=center)
    x, y = X.reshape(N, -1).astype(np.longdouble), Y.reshape(N, -1).astype(np.longdouble)
    if center:
        x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    assert_allclose(stats.gram, (x.T @ x / N).astype(float), rtol=1e-9)
    assert_allclose(stats.cross, (x.T @ y / N).astype(float), rtol=1e-9, atol=1e-9)
    assert stats.n_samples == N


@pytest.mark.parametrize("dtype", [np.float32, np.int16, bool])
def test_types(dtype):
    X, Y = problem()
    X = (5 * X).astype(dtype)
    model = DST2R(2).fit(chunked(X, (100, 140)), chunked(Y, (240,)))
    assert_same_fit(model, DST2R(2).fit(X, Y))
    predicted = model.predict(chunked(X, (100, 140)))
    assert predicted.dtype == predicted.compute().dtype == (np.float32 if dtype == np.float32 else np.float64)


SPLITTERS = {
    "partition": KFold(3),
    "shuffled": KFold(4, shuffle=True, random_state=0),
    "drawn": ShuffleSplit(3, test_size=0.3, train_size=0.4, random_state=0),
    "repeated": RepeatedKFold(n_splits=2, n_repeats=2, random_state=0),
    "bootstrap": [(np.r_[0:100, 0:50, 7, 7], np.arange(100, 240)), (np.arange(200), np.arange(200, 240))],
}


@pytest.mark.parametrize("name", SPLITTERS)
@pytest.mark.parametrize("weighted", [False, True])
def test_folds(name, weighted):
    X, Y = problem()
    cv = SPLITTERS[name]
    splits = cv if isinstance(cv, list) else list(cv.split(X))
    weight = np.random.default_rng(1).uniform(0.5, 2, N) if weighted else None
    sources = Source(X), Source(Y)
    arrays = [source.lazy((100, 33, 107)) for source in sources]
    total, folds = fold_statistics(*arrays, splits, weight, center=True)
    for source in sources:
        assert_array_equal(np.sort(np.concatenate(source.rows)), np.arange(N))
    ones = np.ones(N) if weight is None else weight
    sets = [np.arange(N)] + [rows for split in splits for rows in split]
    for stats, rows in zip([total] + [part for fold in folds for part in fold], sets, strict=True):
        x, y, w = X[rows].reshape(len(rows), -1), Y[rows].reshape(len(rows), -1), ones[rows]
        assert_allclose(stats.gram, np.cov(x.T, aweights=w, ddof=0), rtol=1e-10, atol=1e-12)
        assert_allclose(stats.x_mean, np.average(x, axis=0, weights=w), rtol=1e-10)
        assert_allclose(stats.y_square, np.diag(np.cov(y.T, aweights=w, ddof=0)), rtol=1e-10)
        assert_allclose(stats.n_samples, w.sum())


def test_groups():
    X, Y = problem()
    groups = np.arange(N) % 7
    model = DST2RCV((1, 2), cv=GroupKFold(3), n_l1=5)
    expected = clone(model).fit(X, Y, groups=groups)
    assert_same_fit(model.fit(chunked(X, (100, 140)), chunked(Y, (240,)), groups=groups), expected)


def test_scalar_response():
    X, Y = problem()
    model = DST2R(1).fit(chunked(X, (100, 140)), chunked(Y[:, 0, 0], (240,)))
    assert_same_fit(model, DST2R(1).fit(X, Y[:, 0, 0]))
    assert model.predict(chunked(X, (100, 140))).chunks == ((100, 140),)


# --- predictors too wide for their Gram matrix ------------------------------------------------------------------------


def wide(n=150, x_shape=(13, 13, 13), y_shape=(3, 2), seed=0):
    """More predictor entries than a Gram matrix is made for, two sparse components."""
    data = make_tensor_regression(n, x_shape, y_shape, rank=2, sparsity=0.7, snr=3, normalize=True, random_state=seed)
    return data.X + 2.0, data.Y


@pytest.mark.parametrize("local", [1, 1 << 30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_wide(monkeypatch, local, dtype):
    monkeypatch.setattr(lazy, "LOCAL_BYTES", local)
    X, Y = wide()
    X = X.astype(dtype)
    model = DST2R(2).fit(chunked(X, (1, 49, 0, 100)), chunked(Y, (70, 80)))
    expected = DST2R(2).fit(X, Y)
    assert np.abs(expected.coef_).max() > 0
    assert_same_fit(model, expected, 1e-10 if dtype == np.float64 else 1e-4)
    assert "DaskStatistics: 150 samples of 2197" in model.statistics_


def test_wide_cross_validation():
    X, Y = wide()
    model = DST2RCV((1, 2), n_l1=3, cv=2)
    expected = clone(model).fit(X, Y)
    assert_same_fit(model.fit(chunked(X, (70, 80)), chunked(Y, (150,))), expected)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("local", [1, 1 << 30])
def test_products_of_chunks_are_those_of_the_gram_matrix(monkeypatch, center, local):
    monkeypatch.setattr(lazy, "LOCAL_BYTES", local)
    X, Y = problem()
    rng = np.random.default_rng(0)
    weight = rng.uniform(0, 2, N) * (rng.random(N) > 0.2)
    chunks = chunked(X, (1, 39, 100, 100)), chunked(Y, (240,))
    rows = np.r_[3:100, 150:240]
    x_scale = rng.uniform(1, 2, 12)
    coef = CPCoefficient(tuple(rng.normal(size=(d, 2)) for d in X_SHAPE + Y_SHAPE), 2)
    ours = DaskStatistics.from_arrays(*chunks, weight, center=center, rows=rows).scaled(x_scale).ridged(0.1)
    gram = GramStatistics.from_arrays(X[rows], Y[rows], weight[rows], center=center).scaled(x_scale).ridged(0.1)
    for a, b in ((ours, gram), (ours.residual(coef), gram.residual(coef))):
        U, V = rng.normal(size=(12, 3)), rng.normal(size=(6, 3))
        slices = [np.array([0, 2, 3]), np.array([1, 2])]
        cut = np.ravel_multi_index(np.ix_(*slices), X_SHAPE).ravel()
        part = a.restricted(slices)
        assert isinstance(part, DaskStatistics) == (local == 1)
        for found, known in (
            (a.gram_dot(U), b.gram @ U),
            (a.cross_dot(V), b.cross @ V),
            (a.cross_t_dot(U), b.cross.T @ U),
            (a.x_square(), np.diag(b.gram)),
            (a.y_square, b.y_square),
            (a.as_gram().gram, b.gram),
            (part.as_gram().gram, b.gram[np.ix_(cut, cut)]),
            (part.as_gram().cross, b.cross[cut]),
            *zip(a.tangent(coef), b.tangent(coef), strict=True),
        ):
            assert_allclose(found, known, rtol=1e-9, atol=1e-9 * np.abs(known).max())
        assert_allclose(a.kkt_start()[0], b.kkt_start()[0])


def test_passes_are_counted():
    X, Y = wide()
    sources = Source(X), Source(Y)
    stats = DaskStatistics.from_arrays(*(source.lazy((50, 100)) for source in sources))
    stats.residual(CPCoefficient.empty(stats.x_shape, stats.y_shape)).gram_dot(np.ones((2197, 1)))
    model = DST2R(2).fit_statistics(stats)
    assert f"{stats.passes[0]} passes over 2 chunks" in model.statistics_
    assert len(sources[1].rows) == 2
    # One more look at the first chunk tells where the data lie.
    assert len(sources[0].rows) == 2 * stats.passes[0] + 1


def test_wide_with_nan():
    for name in "Xy":
        X, Y = wide()
        (X if name == "X" else Y)[120, 0, 1] = np.nan
        with pytest.raises(ValueError, match=f"{name.upper()} holds NaN or infinity"):
            DST2R().fit(chunked(X, (70, 80)), chunked(Y, (150,)))


def test_what_is_lazy_needs_no_memory():
    assert choose(10**8, 4096, 4, 4, memory=1e11, lazy=True) is DaskStatistics
    assert choose(10**9, 512, 64, 4, memory=1e9, lazy=True) is GramStatistics
    with pytest.raises(MemoryError):
        choose(10**8, 4096, 4, 4, memory=1e11)


# --- laziness ---------------------------------------------------------------------------------------------------------


def test_building_the_graph_reads_nothing():
    X, Y = problem()
    X, Y = (Source(a, explode).lazy((100, 140)) for a in (X, Y))
    lazy.gram_tree(*lazy.training_arrays(X, Y), None, center=True)
    model = DST2R(2).fit(*problem())
    model.predict(X)
    model.transform(X)
    with pytest.raises(AssertionError, match="something was read"):
        DST2R(2).fit(X, Y)


@pytest.mark.parametrize("chunks", [(100, 140), (1,) * 40 + (200,)])
def test_every_sample_is_read_once(chunks):
    sources = [Source(a) for a in problem()]
    DST2R(2).fit(*(source.lazy(chunks) for source in sources))
    for source in sources:
        assert_array_equal(np.sort(np.concatenate(source.rows)), np.arange(N))


def test_neighbouring_chunks_are_joined():
    assert lazy.joined((1, 1, 1, 5, 2, 0, 3, 9), 5) == (3, 5, 5, 9)
    assert lazy.joined((0, 4), 5) == (4,)


def test_few_statistics_wait_to_be_added(monkeypatch):
    """Of 125 chunks: what two workers make, and up to three on each of four levels of the tree; twice that at most."""
    chunk_statistics, total, lock = lazy._chunk_statistics, lazy._total, threading.Lock()
    waiting, most = 0, 0

    def change(by):
        nonlocal waiting, most
        with lock:
            waiting += by
            most = max(most, waiting)

    def counted_chunk(*args, **kwargs):
        change(1)
        return chunk_statistics(*args, **kwargs)

    def counted_total(parts):
        change(1 - len(parts))
        return total(parts)

    monkeypatch.setattr(lazy, "_chunk_statistics", counted_chunk)
    monkeypatch.setattr(lazy, "_total", counted_total)
    X, Y = problem(2000)
    with dask.config.set(num_workers=2):
        DST2R(2).fit(chunked(X, (16,) * 125), chunked(Y, (16,) * 125))
    assert waiting == 1
    assert most <= 2 * (2 + 3 * 4)


def test_predictions_are_lazy_and_chunked_as_the_predictors():
    X, Y = problem()
    model = DST2R(2).fit(X, Y)
    lazily = chunked(X, (100, 33, 107))
    predicted, scores = model.predict(lazily), model.transform(lazily)
    assert predicted.chunks == ((100, 33, 107), (3,), (2,))
    assert scores.chunks == ((100, 33, 107), (2,))
    assert_allclose(predicted.compute(), model.predict(X), rtol=1e-12)
    assert_allclose(scores.compute(), model.transform(X), rtol=1e-12)
    weight = np.random.default_rng(1).uniform(0, 2, N)
    assert_allclose(model.score(lazily, Y), model.score(X, Y), rtol=1e-10)
    assert_allclose(model.score(lazily, chunked(Y, (240,)), weight), model.score(X, Y, weight), rtol=1e-10)


def test_predictions_of_an_unknown_number_of_samples():
    X, Y = problem()
    model = DST2R(2).fit(X, Y)
    lazily = chunked(X, (100, 140))
    some = lazily[lazily[:, 0, 0] > 0]
    assert_allclose(model.predict(some).compute(), model.predict(X[X[:, 0, 0] > 0]), rtol=1e-12)


def test_score_where_responses_do_not_vary():
    X, Y = problem()
    Y[:, 0] = 3.0
    model = DST2R(2).fit(X, Y)
    assert_allclose(model.score(chunked(X, (100, 140)), Y), model.score(X, Y), rtol=1e-8)


def test_labels_stay_lazy():
    xarray = pytest.importorskip("xarray")
    X, Y = problem()
    x = xarray.DataArray(chunked(X, (100, 140)), dims=("scan", "a", "b"), coords={"a": list("pqrs")})
    y = xarray.DataArray(chunked(Y, (240,)), dims=("scan", "c", "d"))
    model = DST2R(2).fit(x, y)
    assert_same_fit(model, DST2R(2).fit(X, Y))
    predicted = model.predict(x.transpose("b", "a", "scan"))
    assert isinstance(predicted.data, da.Array)
    assert predicted.dims == ("scan", "c", "d")
    assert_allclose(predicted.values, model.predict(X), rtol=1e-12)
    assert_allclose(model.score(x, y), model.score(X, Y), rtol=1e-10)


# --- clear ends -------------------------------------------------------------------------------------------------------


def test_chunked_modes_are_rechunked_with_a_warning():
    X, Y = problem()
    split = da.from_array(X, chunks=(100, 2, 2))
    with pytest.warns(UserWarning, match="X is chunked along its modes"):
        model = DST2R(2).fit(split, chunked(Y, (240,)))
    assert_same_fit(model, DST2R(2).fit(X, Y))
    with pytest.warns(UserWarning, match="X is chunked along its modes"):
        predicted = model.predict(split)
    assert_allclose(predicted.compute(), model.predict(X), rtol=1e-12)
    with pytest.warns(UserWarning, match="y is chunked along its modes"):
        model.fit(chunked(X, (240,)), da.from_array(Y, chunks=(100, 1, 2)))


@pytest.mark.parametrize("name", ["X", "y"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("estimator", [DST2R(), DST2RCV((1,)), SparseOLS(l1=0.1, l2_group=0.0)])
def test_chunks_with_nan(estimator, name, bad):
    X, Y = problem()
    (X if name == "X" else Y)[150, 0, 1] = bad
    with pytest.raises(ValueError, match=f"{name.upper()} holds NaN or infinity.*samples 100 to 239"):
        clone(estimator).fit(chunked(X, (100, 140)), chunked(Y, (240,)))


def test_predictions_from_nan():
    X, Y = problem()
    model = DST2R().fit(X, Y)
    X[150] = np.nan
    lazily = model.predict(chunked(X, (100, 140)))
    assert np.isfinite(lazily[:100].compute()).all()
    with pytest.raises(ValueError, match="X holds NaN"):
        lazily.compute()


def unread(*shape, dtype=float):
    return da.from_array(
        Source(np.empty(shape, dtype), explode), chunks=(5, *shape[1:]), name=False, meta=np.empty(0, dtype)
    )


@pytest.mark.parametrize(
    ("X", "y", "weight", "complaint"),
    [
        (unread(20, 3), unread(19, 2), None, r"X has 20 samples, y has shape \(19, 2\)"),
        (unread(20), unread(20), None, "samples first, then at least one mode"),
        (unread(1, 3), unread(1), None, r"1 sample\(s\); at least 2"),
        (unread(20, 3), unread(20, 0), None, "y of shape .* holds no entry"),
        (unread(20, 3), unread(20, dtype=complex), None, "y has dtype complex128"),
        (unread(20, 3), unread(20), np.ones(19), "sample_weight has shape"),
        (unread(20, 3), unread(20), np.ones((20, 2)), "one weight per sample"),
        (unread(20, 3)[unread(20) > 0], unread(20), None, r"X has chunks of unknown sizes.*compute_chunk_sizes\(\)"),
    ],
)
def test_bad_shapes_are_told_before_anything_is_read(X, y, weight, complaint):
    with pytest.raises(ValueError, match=complaint):
        DST2R().fit(X, y, weight)


@pytest.mark.parametrize("bad", [-1.0, np.nan])
def test_bad_weights(bad):
    X, Y = problem()
    weight = np.ones(N)
    weight[3] = bad
    with pytest.raises(ValueError, match="sample_weight must"):
        DST2R().fit(chunked(X, (100, 140)), Y, weight)
    with pytest.raises(ValueError, match="weights sum to 0"):
        DST2R().fit(chunked(X, (100, 140)), Y, np.zeros(N))


def test_predicting_with_another_shape():
    model = DST2R().fit(*problem())
    with pytest.raises(ValueError, match=r"samples of shape \(4, 4\), but DST2R was fitted on \(4, 3\)"):
        model.predict(da.zeros((10, 4, 4)))
    with pytest.raises(NotFittedError):
        DST2R().predict(da.zeros((10, 4, 3)))


@pytest.mark.parametrize("estimator", [DST2R(2), DST2RCV((1, 2), n_l1=3)])
def test_interrupt_leaves_the_model_as_it_was(estimator):
    X, Y = problem()
    model = clone(estimator).fit(X, Y)
    before = dict(vars(model))

    for each in (model, fresh := clone(estimator)):
        once = threading.Lock()  # chunks are read by several threads, and a second signal would end the tests

        def interrupt(once=once):
            if once.acquire(blocking=False):
                os.kill(os.getpid(), signal.SIGINT)  # Ctrl-C, while a chunk is read
            time.sleep(0.2)

        with pytest.raises(KeyboardInterrupt):
            each.fit(Source(X[:, :, :2], interrupt).lazy((100, 140)), Y)
    assert vars(model) == before
    with pytest.raises(NotFittedError):
        fresh.predict(X)


# --- processes --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


def test_wide_on_processes(client):
    X, Y = wide()
    model = DST2R(2).fit(chunked(X, (70, 80)), chunked(Y, (150,)))
    assert_same_fit(model, DST2R(2).fit(X, Y))


@pytest.mark.parametrize("estimator", [DST2R(2), DST2RCV((1, 2), n_l1=5)])
def test_processes(client, estimator):
    X, Y = problem()
    model = clone(estimator).fit(chunked(X, (1, 39, 100, 100)), chunked(Y, (120, 120)))
    assert_same_fit(model, clone(estimator).fit(X, Y))
    lazily = chunked(X, (100, 140))
    assert_allclose(client.compute(model.predict(lazily)).result(), model.predict(X), rtol=1e-12)
    X[150] = np.nan
    with pytest.raises(ValueError, match=r"X holds NaN or infinity.*samples 100 to 239"):
        clone(estimator).fit(chunked(X, (100, 140)), chunked(Y, (120, 120)))


def die_once(block, flag, block_id):
    """The worker that gets the 11th chunk first is killed, with what it has computed and not yet handed on."""
    if block_id[0] == 10 and not os.path.exists(flag):
        open(flag, "x").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return block


def test_a_killed_worker_does_not_change_the_result(client, tmp_path):
    X, Y = problem()
    flag, before = tmp_path / "killed", set(client.run(os.getpid).values())
    deadly = chunked(X, (10,) * 24).map_blocks(die_once, flag=str(flag), dtype=float)
    model = DST2R(2).fit(deadly, chunked(Y, (10,) * 24))
    assert flag.exists()
    assert_same_fit(model, DST2R(2).fit(X, Y))
    client.wait_for_workers(2, timeout=30)
    assert set(client.run(os.getpid).values()) != before
