"""Labels: kept by fits, compared at predict, and given back with every result."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dst2r import DST2R, DST2RCV
from dst2r.baselines import CPRidge, KernelHOLRR, SparseOLS
from dst2r.labels import Labels, Mode, labelled_coef, labelled_factors, selected_entries

pd = pytest.importorskip("pandas")
xr = pytest.importorskip("xarray")

LABELS = Labels(
    x=(Mode("gene", ("ABC", "DEF")), Mode("day", ("2020-01-01",), "datetime64[ns]"), Mode("voxel", None)),
    y=(Mode("dose", (0.1, 3)),),
    sample="patient",
)


def planted(n=60, x_shape=(4, 3), y_shape=(5, 3), seed=0):
    """Plain arrays with one strong component."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=x_shape), rng.normal(size=y_shape)
    X = rng.normal(size=(n, *x_shape))
    scores = np.tensordot(X, np.outer(a[:, 0], a[0]), 2)
    signal = np.multiply.outer(scores, np.outer(b[:, 0], b[0]) if y_shape else 1.0)
    return X, signal + 0.1 * rng.normal(size=(n, *y_shape))


@pytest.fixture(scope="module")
def plain():
    return planted()


@pytest.fixture(scope="module")
def named(plain):
    """The same arrays as DataArrays; X and Y share the name of a mode (time), with labels of their own."""
    X, Y = plain
    subject = [f"s{k:02d}" for k in range(len(X))]
    X = xr.DataArray(
        X,
        dims=("subject", "region", "time"),
        coords={
            "subject": subject,
            "region": ["V1", "V2", "MT", "IT"],
            "time": pd.date_range("2024-03-01", periods=3, freq="6h"),
            "age": ("subject", np.arange(len(X))),
            "noise": (("subject", "region"), np.zeros((len(X), 4))),
        },
    )
    Y = xr.DataArray(
        Y,
        dims=("subject", "voxel", "time"),
        coords={"subject": subject, "time": pd.to_timedelta([0, 12, 36], unit="h")},
    )
    return X, Y


@pytest.fixture(scope="module")
def model(named):
    return DST2R().fit(*named)


def test_json_round_trip():
    assert Labels.from_json(json.loads(json.dumps(LABELS.to_json()))) == LABELS


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ([], "dictionary with 'sample'"),
        ({"sample": "n", "x": []}, "dictionary with 'sample'"),
        ({"sample": "n", "x": [], "y": "abc"}, "modes of y"),
        ({"sample": 3, "x": [], "y": []}, "named 3"),
        ({"sample": "n", "x": ["gene"], "y": []}, "dictionary with 'name'"),
        ({"sample": "n", "x": [{"name": 1, "labels": None}], "y": []}, "two strings"),
        ({"sample": "n", "x": [{"name": "a", "labels": "bc"}], "y": []}, "list or null"),
        ({"sample": "n", "x": [{"name": "a", "labels": [[1]]}], "y": []}, "string or a number"),
    ],
)
def test_foreign_json_is_refused(entry, message):
    with pytest.raises(ValueError, match=message):
        Labels.from_json(entry)


@pytest.mark.parametrize(
    "values",
    [
        np.array(["a", "bc"]),
        np.array([3, 1], dtype=np.int16),
        np.array([0.1, 0.25], dtype=np.float32),
        np.array([True, False]),
        np.array(["2020-01-01", "2021-06-01T12:30"], dtype="datetime64[ns]"),
        np.array(["2020-01", "1850-02"], dtype="datetime64[s]"),
        np.array([1, 36 * 3600 * 10**9], dtype="timedelta64[ns]"),
    ],
    ids=lambda values: str(values.dtype),
)
def test_coordinates_survive_json(values):
    mode = Mode.of("m", values)
    again = Mode.from_json(json.loads(json.dumps(mode.to_json(), allow_nan=False)))
    assert again == mode
    np.testing.assert_array_equal(again.coordinate(), values)
    assert again.coordinate().dtype == values.dtype


def test_labels_that_are_neither_text_nor_number_become_text():
    mode = Mode.of("m", np.asarray(pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])))
    assert mode.labels == ("('a', 1)", "('b', 2)")
    mixed = Mode.of("m", np.array(["a", np.int64(3)], dtype=object))
    assert mixed.labels == ("a", 3)
    assert mixed.coordinate().tolist() == ["a", 3]


@pytest.mark.parametrize("values", [[1.0, np.nan], np.array(["2020-01-01", "NaT"], dtype="datetime64[ns]")])
def test_missing_labels_are_refused(values):
    with pytest.raises(ValueError, match="label of entry 1 of 'dose' is missing"):
        Mode.of("dose", np.asarray(values))


def test_plain_arrays_leave_no_labels(plain, model):
    fitted = DST2R().fit(*plain)
    assert fitted.labels_ is None
    assert isinstance(fitted.predict(plain[0]), np.ndarray)
    np.testing.assert_array_equal(fitted.coef_, model.coef_)


def test_the_fit_remembers_names_and_labels(model):
    assert model.labels_ == Labels(
        x=(
            Mode("region", ("V1", "V2", "MT", "IT")),
            Mode("time", ("2024-03-01", "2024-03-01T06:00", "2024-03-01T12:00"), model.labels_.x[1].dtype),
        ),
        y=(Mode("voxel", None), Mode("time", model.labels_.y[1].labels, model.labels_.y[1].dtype)),
        sample="subject",
    )


def test_a_later_fit_from_statistics_knows_no_labels(named):
    from dst2r.statistics import GramStatistics

    X, Y = named
    fitted = DST2R().fit(X, Y)
    assert fitted.fit_statistics(GramStatistics.from_arrays(X.to_numpy(), Y.to_numpy())).labels_ is None


def test_predictions_and_scores_are_labelled(model, named, plain):
    X, Y = named
    predicted = model.predict(X)
    np.testing.assert_array_equal(predicted, model.predict(plain[0]))
    assert predicted.dims == ("subject", "voxel", "time")
    assert set(predicted.coords) == {"subject", "age", "time"}, "what belongs to samples and responses, and no more"
    xr.testing.assert_equal(predicted.subject, X.subject)
    np.testing.assert_array_equal(predicted.time, Y.time)
    assert predicted.time.dtype == Y.time.dtype
    scores = model.transform(X)
    np.testing.assert_array_equal(scores, model.transform(plain[0]))
    assert scores.dims == ("subject", "component")
    np.testing.assert_array_equal(scores.component, [1])
    assert model.score(X, Y) == model.score(*plain)


def test_order_of_dimensions_and_of_labels_does_not_matter(model, named, plain):
    X, Y = named
    turned = X.transpose("time", "subject", "region").isel(region=[2, 0, 3, 1], time=[2, 1, 0])
    np.testing.assert_array_equal(model.predict(turned), model.predict(plain[0]))
    assert model.predict(turned).dims[0] == "subject"
    assert model.score(turned, Y.transpose("time", "voxel", "subject").isel(time=[1, 0, 2])) == model.score(X, Y)
    again = DST2R().fit(X.transpose("subject", "time", "region"), Y)
    np.testing.assert_allclose(labelled_coef(again).transpose(*labelled_coef(model).dims), model.coef_, atol=1e-9)


def test_the_sample_is_found_by_its_name(named, model):
    X, Y = named
    Y = Y.rename(time="lag")
    turned = X.transpose("region", "subject", "time")
    np.testing.assert_array_equal(DST2R().fit(turned, Y).coef_, model.coef_)
    with pytest.raises(ValueError, match="which is the sample"):
        DST2R().fit(turned, Y.rename(lag="time"))
    with pytest.raises(ValueError, match="which is the sample"):
        DST2R().fit(X, Y.rename(subject="patient"))


def test_new_samples_may_have_another_name(model, named, plain):
    predicted = model.predict(named[0].rename(subject="patient"))
    assert predicted.dims == ("patient", "voxel", "time")
    np.testing.assert_array_equal(predicted, model.predict(plain[0]))
    with pytest.raises(ValueError, match="calls its samples 'voxel'"):
        model.predict(named[0].rename(subject="voxel"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X.rename(region="area"), "'region' is missing"),
        (lambda X: X.isel(subject=0), "the sample is missing"),
        (lambda X: X.expand_dims(run=2), r"\['run', 'subject'\] cannot all be the sample"),
        (lambda X: X.isel(region=[0, 1, 2]), "along 'region': it has 3 labels, the fit had 4"),
        (lambda X: X.drop_vars("region").isel(region=[0, 1, 2]), "3 entries along 'region', the fit had 4"),
        (
            lambda X: X.assign_coords(region=["V1", "V2", "MST", "IT"]),
            "along 'region': entry 2 is 'MST', the fit had 'MT'",
        ),
        (lambda X: X.assign_coords(region=["V1", "V1", "MT", "IT"]), "entry 1 is 'V1', the fit had 'V2'"),
        (
            lambda X: X.reindex(region=["V0", "V1", "V2", "MT", "IT"], fill_value=0.0),
            r"entry 0 is 'V0'.*more: select them with X.sel\(region=...\)",
        ),
        (
            lambda X: X.assign_coords(time=X.time + np.timedelta64(1, "D")),
            "'time': entry 0 is '2024-03-02', the fit had '2024-03-01'",
        ),
        (lambda X: X.assign_coords(region=[1, 2, 3, 4]), "entry 0 is 1, the fit had 'V1'"),
        (lambda X: X.isel(region=[0, 1, 2], drop=True).drop_vars("region"), "'region'"),
        (lambda X: X.to_dataset(name="bold"), r"Dataset: give one variable, as in X\['bold'\]"),
    ],
)
def test_what_does_not_match_is_refused_by_name(model, named, change, message):
    with pytest.raises(ValueError, match=message):
        model.predict(change(named[0]))


def test_numbers_that_files_rounded_are_the_same_labels():
    X, Y = planted(30, (3, 2), ())
    latitude = np.array([-89.95, 0.1, 0.2])
    X = xr.DataArray(X, dims=("n", "lat", "k"), coords={"lat": latitude})
    model = DST2R().fit(X, Y)
    assert model.labels_.x[0].labels == (-89.95, 0.1, 0.2)
    np.testing.assert_array_equal(model.predict(X.assign_coords(lat=latitude.astype(np.float32))), model.predict(X))
    turned = X.assign_coords(lat=latitude.astype(np.float32)).isel(lat=[2, 0, 1])
    np.testing.assert_array_equal(model.predict(turned), model.predict(X))
    with pytest.raises(ValueError, match=r"entry 2 is 0.201, the fit had 0.2"):
        model.predict(X.assign_coords(lat=[-89.95, 0.1, 0.201]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda Y: Y.isel(subject=slice(None, None, -1)), "the same labels in another order"),
        (
            lambda Y: Y.assign_coords(subject=[f"s{k:02d}" for k in range(3, 63)]),
            r"sample 0 is 's00' in X and 's03' in y.*xarray.align\(X, y, join=\"inner\", exclude=\['time'\]\)",
        ),
        (lambda Y: Y.isel(subject=slice(50)), "X has 60 samples, y has 50"),
    ],
)
def test_samples_that_differ_are_not_aligned_silently(named, model, change, message):
    X, Y = named
    with pytest.raises(ValueError, match=message):
        DST2R().fit(X, change(Y))
    with pytest.raises(ValueError, match="label their samples differently"):
        model.score(X, change(Y).transpose("time", "subject", "voxel"))


def test_the_named_remedy_works(named, model):
    X, Y = named
    X, Y = xr.align(X, Y.isel(subject=slice(None, None, -1)), join="inner", exclude=["time"])
    np.testing.assert_allclose(DST2R().fit(X, Y).coef_, model.coef_, atol=1e-9)


def test_one_labelled_side_is_enough(named, plain):
    X, Y = named
    left = DST2R().fit(X, plain[1])
    assert [mode.name for mode in left.labels_.y] == ["y1", "y2"]
    assert left.predict(X).dims == ("subject", "y1", "y2")
    right = DST2R().fit(plain[0], Y)
    assert (right.labels_.sample, right.labels_.x[0]) == ("subject", Mode("x1", None))
    np.testing.assert_array_equal(right.predict(X), right.predict(plain[0]))
    assert right.predict(X).dims == ("subject", "voxel", "time")
    assert isinstance(right.predict(plain[0]), np.ndarray)


def test_a_model_of_plain_arrays_labels_what_it_can(named, plain):
    fitted = DST2R().fit(*plain)
    assert fitted.predict(named[0]).dims == ("subject", "y1", "y2")
    assert fitted.score(*named) == fitted.score(*plain)
    with pytest.raises(ValueError, match="x1"):
        fitted.predict(named[0].isel(time=0))


def test_a_multi_index_of_samples_comes_back(plain):
    index = pd.MultiIndex.from_product([["a", "b"], range(30)], names=["group", "visit"])
    X, Y = plain
    X = xr.DataArray(X, dims=("n", "u", "v"), coords=xr.Coordinates.from_pandas_multiindex(index, "n"))
    predicted = DST2R().fit(X, Y).predict(X)
    assert predicted.indexes["n"].equals(index)
    assert predicted.sel(group="b").shape == (30, 5, 3)


def test_a_scalar_response(plain):
    X = xr.DataArray(plain[0], dims=("n", "u", "v"))
    y = xr.DataArray(plain[1][:, 0, 0], dims="n")
    fitted = DST2R().fit(X, y)
    assert fitted.predict(X).dims == ("n",)
    assert fitted.labels_.y == ()
    assert fitted.score(X, y) == fitted.score(plain[0], y.to_numpy())


def test_lazy_data_are_not_computed_by_the_names(plain):
    dask_array = pytest.importorskip("dask.array")
    from dst2r.labels import as_fitted, bare, take_labels

    def explode(block):
        raise AssertionError("computed")

    lazy = dask_array.from_array(plain[0], chunks=20).map_blocks(explode, meta=np.empty((0, 0, 0)))
    X = xr.DataArray(lazy, dims=("n", "u", "v"), coords={"u": list("abcd")})
    stripped, _, labels = take_labels(X, plain[1])
    assert isinstance(stripped, dask_array.Array)
    turned = bare(as_fitted("X", X.isel(u=[1, 0, 2, 3]).transpose("u", "v", "n"), labels.x))
    assert isinstance(turned, dask_array.Array)
    assert turned.shape == plain[0].shape


@pytest.mark.parametrize(
    "estimator", [DST2RCV((1, 2), n_l1=3), SparseOLS(), CPRidge(random_state=0), KernelHOLRR()], ids=str
)
def test_every_estimator_keeps_labels(estimator, named, plain):
    fitted = clone(estimator).fit(*named)
    assert [mode.name for mode in fitted.labels_.x] == ["region", "time"]
    assert fitted.predict(named[0]).dims == ("subject", "voxel", "time")
    np.testing.assert_array_equal(fitted.predict(named[0]), clone(estimator).fit(*plain).predict(plain[0]))
    assert fitted.score(*named) == fitted.score(*plain)
    assert not hasattr(clone(fitted), "labels_")
    with pytest.raises(ValueError, match="'region' is missing"):
        fitted.predict(named[0].rename(region="area"))


def test_scikit_learn_tools_take_labelled_arrays(named, plain):
    grid = {"rank": [1, 2]}
    by_name, by_position = (GridSearchCV(DST2R(), grid, cv=3).fit(*data) for data in (named, plain))
    np.testing.assert_array_equal(by_name.cv_results_["mean_test_score"], by_position.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(cross_val_predict(DST2R(), *named), cross_val_predict(DST2R(), *plain))
    np.testing.assert_array_equal(cross_val_score(DST2R(), *named), cross_val_score(DST2R(), *plain))


@pytest.fixture(scope="module")
def frames():
    X, Y = planted(60, (4, 1), (2, 1))
    ids = pd.Index([f"p{k}" for k in range(60)], name="patient")
    return pd.DataFrame(X[:, :, 0], ids, list("abcd")), pd.DataFrame(Y[:, :, 0], ids, ["u", "v"])


def test_data_frames(frames):
    X, Y = frames
    model = DST2R().fit(X, Y)
    assert model.labels_ == Labels((Mode("feature", tuple("abcd")),), (Mode("response", ("u", "v")),), "patient")
    np.testing.assert_array_equal(model.feature_names_in_, list("abcd"))
    predicted = model.predict(X)
    assert type(predicted) is np.ndarray, "as every estimator of scikit-learn"
    assert model.score(X, Y) == model.score(X, Y.to_numpy())
    assert model.score(X, Y[["v", "u"]]) == model.score(X, Y)
    with pytest.raises(ValueError, match="entry 1 is 'w', the fit had 'v'"):
        model.score(X, Y.rename(columns={"v": "w"}))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[list("badc")])
    array = xr.DataArray(X.to_numpy(), dims=("patient", "feature"), coords={"feature": list("abcd")})
    np.testing.assert_array_equal(model.predict(array[:, ::-1]), predicted)
    frame = model.set_output(transform="pandas").transform(X)
    assert list(frame.columns) == ["dst2r0"]
    assert frame.index.equals(X.index)


def test_data_frames_meet_data_arrays(frames):
    X, Y = frames
    model = DST2R().fit(xr.DataArray(X, dims=("patient", "feature")), xr.DataArray(Y, dims=("patient", "response")))
    np.testing.assert_array_equal(model.predict(X[list("dbca")]), model.predict(X))
    with pytest.raises(ValueError, match="entry 3 is 'e', the fit had 'd'"):
        model.predict(X.rename(columns={"d": "e"}))


def test_series_and_row_labels(frames):
    X, Y = frames
    y = Y["u"]
    model = DST2R().fit(X, y)
    assert model.labels_.y == ()
    assert model.score(X, y) == model.score(X, y.to_numpy())
    with pytest.raises(ValueError, match=r"another order.*X, y = X.align\(y, join=\"inner\", axis=0\)"):
        DST2R().fit(X, y[::-1])
    DST2R().fit(X, y[::-1].reset_index(drop=True))  # a counting index names nobody
    search = GridSearchCV(make_pipeline(StandardScaler(), DST2R()), {"dst2r__rank": [1]}, cv=3).fit(X, Y)
    assert search.best_estimator_[-1].labels_.y == (Mode("response", ("u", "v")),)
    assert cross_val_predict(DST2R(), X, y).shape == (60,)


def test_labelled_coefficient(model, named):
    coef = labelled_coef(model)
    assert coef.dims == ("region", "time", "voxel", "time_y")
    np.testing.assert_array_equal(coef, model.coef_)
    np.testing.assert_array_equal(coef.time, named[0].time)
    np.testing.assert_array_equal(coef.time_y, named[1].time)
    # Prediction by names alone, with xarray's own arithmetic.
    predicted = (named[0] * coef).sum(["region", "time"]).rename(time_y="time")
    intercept = xr.DataArray(model.intercept_, dims=("voxel", "time"))
    np.testing.assert_allclose(predicted + intercept, model.predict(named[0]), atol=1e-10)


def test_labelled_factors_make_up_the_coefficient(model):
    product = 1.0
    for factor in labelled_factors(model):
        assert factor.dims[1] == "component"
        product = product * factor
    total = (product * product.weight).sum("component").transpose(*labelled_coef(model).dims)
    np.testing.assert_allclose(total, model.coef_, atol=1e-10)


def test_selected_entries(model):
    entries = selected_entries(model)
    names, modes = model.labels_.names(), model.labels_.x + model.labels_.y
    rebuilt = {name: np.zeros((d, model.rank_)) for name, d in zip(names, model.coef_.shape, strict=True)}
    labels = {name: mode.labels for name, mode in zip(names, modes, strict=True)}
    for component, weight, mode, label, value in entries:
        assert value != 0
        assert weight == model.cp_.weights[component - 1]
        rebuilt[mode][label if labels[mode] is None else labels[mode].index(label), component - 1] = value
    for found, factor in zip(rebuilt.values(), model.cp_.factors, strict=True):
        np.testing.assert_array_equal(found, factor)
    sizes = [abs(entry.value) for entry in entries if entry.mode == "region"]
    assert sizes == sorted(sizes, reverse=True)
    assert [entry.component for entry in entries] == sorted(entry.component for entry in entries)


def test_the_table_prints_and_exports(model, tmp_path):
    entries = selected_entries(model)
    lines = str(entries).splitlines()
    assert len(lines) == 1 + len(entries)
    assert lines[0].split() == ["component", "weight", "mode", "label", "value"]
    assert len({line.index(entry.mode, 10) for line, entry in zip(lines[1:], entries, strict=True)}) == 1, "aligned"
    (tmp_path / "entries.csv").write_text(entries.to_csv())
    frame = entries.to_frame()
    assert list(frame["label"]) == [entry.label for entry in entries]
    again = pd.read_csv(tmp_path / "entries.csv")
    np.testing.assert_array_equal(again["value"], frame["value"])
    assert len(entries[:2]) == 2
    assert str(entries[:0]).split() == lines[0].split()
    assert repr(entries) == str(entries)
    many = type(entries)(entries.rows * 100)
    assert len(many) > 100
    assert len(repr(many).splitlines()) < 100
    assert repr(many).endswith(f"... and {len(many) - len(repr(many).splitlines()) + 2} more entries")
    assert len(str(many).splitlines()) == 1 + len(many)


def test_results_of_plain_arrays_go_by_position(plain):
    fitted = DST2R().fit(*plain)
    assert labelled_coef(fitted).dims == ("x1", "x2", "y1", "y2")
    assert {entry.mode for entry in selected_entries(fitted)} <= {"x1", "x2", "y1", "y2"}
    assert all(isinstance(entry.label, int) for entry in selected_entries(fitted))
    with pytest.raises(ValueError, match="SparseOLS has no components"):
        selected_entries(SparseOLS().fit(*plain))


def test_plain_arrays_load_neither_library():
    code = (
        "import numpy as np, sys\n"
        "from dst2r import DST2R\n"
        "from dst2r.labels import selected_entries\n"
        "X = np.random.default_rng(0).normal(size=(30, 3)); model = DST2R().fit(X, X)\n"
        "model.score(X, X); model.transform(X); str(selected_entries(model))\n"
        "sys.exit('xarray' in sys.modules)"
    )
    source = str(Path(__file__).parents[1] / "src")
    environment = os.environ | {"PYTHONPATH": source}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
