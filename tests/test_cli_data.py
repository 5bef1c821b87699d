"""Data through the command line: names survive, every way gives the same numbers, large sources stay on disk."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import r2_score

import dst2r
from dst2r.labels import labelled_coef, selected_entries

typer_testing = pytest.importorskip("typer.testing")
da = pytest.importorskip("dask.array")
h5py = pytest.importorskip("h5py")
pd = pytest.importorskip("pandas")
xr = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")
pytest.importorskip("h5netcdf")
pytest.importorskip("pyarrow")

from dst2r.cli import app as app_module  # noqa: E402
from dst2r.io import open_array, reading, writing  # noqa: E402

N = 60
DATA = dst2r.make_tensor_regression(N, (4, 3), (3, 2), rank=2, sparsity=0.2, noise=0.3, random_state=0)
PATIENTS = [f"p{k}" for k in range(N)]
X = xr.DataArray(
    DATA.X,
    dims=("patient", "gene", "tissue"),
    coords={"patient": PATIENTS, "gene": list("abcd"), "tissue": ["liver", "lung", "brain"]},
    name="X",
)
Y = xr.DataArray(
    DATA.Y,
    dims=("patient", "day", "arm"),
    coords={"patient": PATIENTS, "day": [1.5, 2.5, 4.0], "arm": ["left", "right"]},
    name="Y",
)


def run(*args):
    return typer_testing.CliRunner().invoke(app_module.app, [str(arg) for arg in args])


def done(*args):
    """Standard output of a command that must succeed."""
    result = run(*args)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*args):
    """The one line with which a command fails."""
    result = run(*args)
    assert result.exit_code == 1, result.output
    (line,) = result.output.splitlines()
    return line


def columns_of(path):
    """Columns of a table, as text."""
    with Path(path).open() as file:
        head, *rows = csv.reader(file)
    return dict(zip(head, map(list, zip(*rows, strict=True)), strict=True))


def save_zarr(path, array, chunks):
    """An array without names."""
    zarr.create_array(path, shape=array.shape, chunks=chunks, dtype=array.dtype)[...] = array


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Specifications of the same X and Y in every format, in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    found = {}
    for name, array in (("X", X), ("Y", Y)):
        np.save(f"{name}.npy", array)
        array.to_netcdf(f"{name}.nc", engine="h5netcdf")
        array.to_dataset().to_zarr(f"{name}.zarr", zarr_format=2, consolidated=False)
        save_zarr(f"{name}-plain.zarr", array.to_numpy(), (7, *array.shape[1:]))
        frame = array.to_dataframe(name="value").reset_index()
        frame.to_csv(f"{name}.csv", index=False)
        frame.to_parquet(f"{name}.parquet", index=False)
        Path(name).mkdir()
        for k, sample in enumerate(array.to_numpy()):
            np.save(f"{name}/s{k}.npy", sample)
        with h5py.File(f"{name}.mat", "w", userblock_size=512) as file:  # as MATLAB 7.3 writes it
            file.create_dataset(name, data=array.to_numpy().T).attrs["MATLAB_class"] = np.bytes_("double")
        dims = ",".join(array.dims)
        found[name] = {
            "npy": f"{name}.npy",
            "npz": f"both.npz[{name}]",
            "nc": f"{name}.nc",
            "zarr": f"{name}.zarr[{name}]",
            "plain zarr": f"{name}-plain.zarr",
            "h5": f"both.h5[site/{name}]",
            "mat": f"both.mat[{name}]",
            "mat 7.3": f"{name}.mat",
            "csv": f"{name}.csv[{dims}:value]",
            "parquet": f"{name}.parquet[{dims}:value]",
            "folder": name,
        }
    np.savez("both.npz", X=DATA.X, Y=DATA.Y)
    pytest.importorskip("scipy.io").savemat("both.mat", {"X": DATA.X, "Y": DATA.Y})
    with h5py.File("both.h5", "w") as file:
        file["site/X"], file["site/Y"] = DATA.X, DATA.Y
    return found


FORMATS = ("npy", "npz", "nc", "zarr", "plain zarr", "h5", "mat", "mat 7.3", "csv", "parquet", "folder")
NAMED = {"nc", "zarr", "csv", "parquet"}
PLAIN = dst2r.DST2R(rank=2).fit(DATA.X, DATA.Y)
LABELLED = dst2r.DST2R(rank=2).fit(X, Y)


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_the_same_fit_and_predictions(kind, files):
    done("fit", files["X"][kind], files["Y"][kind], "--rank", 2, "-o", "m.dst2r")
    model = dst2r.load("m.dst2r")
    assert model.coef_.tobytes() == PLAIN.coef_.tobytes()
    assert model.labels_ == (LABELLED.labels_ if kind in NAMED else None)
    done("predict", "m.dst2r", files["X"][kind], "-o", "P.npy")
    assert np.load("P.npy").tobytes() == PLAIN.predict(DATA.X).tobytes()


def test_numpy_xarray_model_file_and_command_line_agree(files):
    """From one to the next and back: the same bits, the same names."""
    LABELLED.save("python.dst2r")
    done("fit", files["X"]["nc"], files["Y"]["zarr"], "--rank", 2, "-o", "shell.dst2r")
    assert Path("python.dst2r").read_bytes() == Path("shell.dst2r").read_bytes()
    expected = LABELLED.predict(X)
    for out in ("P.nc", "P.zarr", "P.csv", "P.parquet"):
        done("predict", "shell.dst2r", files["X"]["nc"], "-o", out)
        key = "[patient,day,arm:prediction]" if out[1:] in (".csv", ".parquet") else ""
        back = open_array(out + key, lazy=False)
        xr.testing.assert_identical(back, expected.rename("prediction"))
    done("predict", "python.dst2r", files["X"]["npy"], "-o", "P.npy")
    assert np.load("P.npy").tobytes() == expected.to_numpy().tobytes()
    model = dst2r.load("shell.dst2r")
    xr.testing.assert_identical(labelled_coef(model), labelled_coef(LABELLED))
    assert selected_entries(model) == selected_entries(LABELLED)


def test_tables_of_plain_predictions_name_modes_that_count(files):
    PLAIN.save("m.dst2r")
    done("predict", "m.dst2r", files["X"]["npy"], "-o", "P.csv")
    back = open_array("P.csv[sample,y1,y2:prediction]")
    np.testing.assert_array_equal(back, PLAIN.predict(DATA.X))


def test_plain_predictors_of_a_labelled_model_get_the_names_of_its_responses(files):
    LABELLED.save("m.dst2r")
    done("predict", "m.dst2r", files["X"]["npy"], "-o", "P.nc")
    back = open_array("P.nc", lazy=False)
    assert back.dims == ("patient", "day", "arm")
    assert "patient" not in back.coords
    assert back.coords["arm"].values.tolist() == ["left", "right"]
    done("predict", "m.dst2r", files["X"]["nc"], "--components", "-o", "S.nc")
    scores = open_array("S.nc", lazy=False)
    xr.testing.assert_identical(scores, LABELLED.transform(X).rename("score"))


def test_labels_in_another_order_are_put_in_order(files):
    LABELLED.save("m.dst2r")
    X.isel(gene=[2, 0, 3, 1]).transpose("tissue", "patient", "gene").to_netcdf("other.nc", engine="h5netcdf")
    done("predict", "m.dst2r", "other.nc", "-o", "P.npy")
    np.testing.assert_allclose(np.load("P.npy"), LABELLED.predict(X), rtol=1e-12)
    assert json.loads(done("score", "m.dst2r", "other.nc", files["Y"]["csv"], "--json"))["r2"] == pytest.approx(
        LABELLED.score(X, Y), abs=1e-12
    )


def test_what_does_not_match_at_predict_is_named(files):
    LABELLED.save("m.dst2r")
    X.assign_coords(gene=["a", "b", "c", "z"]).to_netcdf("renamed.nc", engine="h5netcdf")
    line = refused("predict", "m.dst2r", "renamed.nc", "-o", "P.nc")
    assert "differs from the fit along 'gene'" in line
    assert "'z'" in line
    X.rename(tissue="organ").to_netcdf("organ.nc", engine="h5netcdf")
    assert "'tissue' is missing" in refused("predict", "m.dst2r", "organ.nc", "-o", "P.nc")
    Y.assign_coords(arm=["left", "up"]).to_netcdf("up.nc", engine="h5netcdf")
    assert "along 'arm'" in refused("score", "m.dst2r", files["X"]["nc"], "up.nc")
    Y.isel(patient=slice(None, None, -1)).to_netcdf("turned.nc", engine="h5netcdf")
    assert "label their samples differently" in refused("score", "m.dst2r", files["X"]["nc"], "turned.nc")
    assert not list(Path().glob("P*"))


# Tables with a row for each sample


@pytest.fixture
def table(files):
    """Columns a, b, c, d are predictors; age is the response; patient and site are text."""
    frame = pd.DataFrame(DATA.X[:, :, 0], columns=list("abcd"), index=pd.Index(PATIENTS, name="patient"))
    frame["age"] = DATA.Y[:, 0, 0]
    frame["site"] = np.array(list("ABC"))[np.arange(N) % 3]
    frame.to_csv("wide.csv")
    return frame


def test_columns_keep_their_names_and_samples_theirs(table):
    done("fit", "wide.csv[patient:a,b,c,d]", "wide.csv[patient:age]", "--rank", 1, "-o", "m.dst2r")
    model = dst2r.load("m.dst2r")
    assert model.labels_.x[0].labels == ("a", "b", "c", "d")
    assert model.coef_.tobytes() == dst2r.DST2R().fit(DATA.X[:, :, 0], DATA.Y[:, 0, 0]).coef_.tobytes()
    expected = model.predict(table[list("abcd")])
    for columns in ("a,b,c,d", "d,age,c,b,a"):  # in another order, and with one more
        done("predict", "m.dst2r", f"wide.csv[patient:{columns}]", "-o", "P.csv", "--force")
        back = columns_of("P.csv")
        assert list(back) == ["patient", "prediction"]
        assert back["patient"] == PATIENTS
        np.testing.assert_array_equal(np.array(back["prediction"], dtype=float), expected)
    assert refused("predict", "m.dst2r", "wide.csv[a,b,c]", "-o", "Q.csv").endswith(
        "lacks columns that the fit had: d."
    )


def test_groups_may_be_text(table):
    args = ("fit", "wide.csv[patient:a,b,c,d]", "wide.csv[patient:age]", "--rank", 1, "--cv", 3)
    done(*args, "--groups", "wide.csv[site]", "-o", "m.dst2r")
    from sklearn.model_selection import GroupKFold

    expected = dst2r.DST2RCV((1,), cv=GroupKFold(3)).fit(
        table[list("abcd")], table["age"], groups=table["site"].to_numpy()
    )
    np.save("site.npy", table["site"].to_numpy(dtype=str))
    done(*args, "--groups", "site.npy", "-o", "n.dst2r")
    for path in ("m.dst2r", "n.dst2r"):
        np.testing.assert_array_equal(dst2r.load(path).cv_results_["test_loss"], expected.cv_results_["test_loss"])
    args = (*args, "--force")
    np.save("short.npy", np.ones(3))
    assert "--groups has shape (3,)" in refused(*args, "--groups", "short.npy", "-o", "n.dst2r")
    assert "--weights has shape (3,)" in refused(*args, "--weights", "short.npy", "-o", "n.dst2r")


# Images


@pytest.fixture
def images(tmp_path, monkeypatch):
    """A file for each sample, and a mask; the array that they make."""
    nibabel = pytest.importorskip("nibabel")
    monkeypatch.chdir(tmp_path)
    Path("scans").mkdir()
    rng = np.random.default_rng(0)
    volumes = rng.standard_normal((24, 5, 4, 3)).astype(np.float32)
    for k, volume in enumerate(volumes):
        nibabel.Nifti1Image(volume, np.eye(4)).to_filename(f"scans/s{k}.nii.gz")
    mask = np.zeros((5, 4, 3), dtype=np.uint8)
    mask[1:4, 1:3, :] = 1
    nibabel.Nifti1Image(mask, np.eye(4)).to_filename("mask.nii")
    y = volumes[:, 2, 1, 1] - volumes[:, 1, 2, 0] + 0.1 * rng.standard_normal(24)
    np.save("y.npy", y)
    return volumes[:, 1:4, 1:3, :], y


@pytest.mark.parametrize("spec", ["scans", "scans/*.nii.gz"])
def test_images(images, spec):
    box, y = images
    done("fit", spec, "y.npy", "--mask", "mask.nii", "--rank", 1, "-o", "m.dst2r")
    assert dst2r.load("m.dst2r").coef_.tobytes() == dst2r.DST2R().fit(box, y).coef_.tobytes()
    done("predict", "m.dst2r", spec, "--mask", "mask.nii", "-o", "P.npy")
    assert np.load("P.npy").shape == (24,)
    line = refused("predict", "m.dst2r", spec, "-o", "Q.npy")
    assert "samples of shape (5, 4, 3)" in line
    assert "--mask" in line
    assert "y.npy holds no images" in refused("fit", "y.npy", "y.npy", "--mask", "mask.nii", "-o", "n.dst2r")
    assert "no.nii" in refused("fit", spec, "y.npy", "--mask", "no.nii", "-o", "n.dst2r")


def test_patterns_that_the_shell_read_are_explained(images):
    assert images
    result = run("fit", *Path("scans").iterdir(), "y.npy", "-o", "m.dst2r")
    assert result.exit_code == 2
    assert "Quote patterns" in result.output


# Sources that are large beside the memory that is free


@pytest.fixture
def no_room(monkeypatch):
    """Every source that can stay on disk does; tells which arrays fits saw."""
    monkeypatch.setattr(reading, "SHARE", 0.0)
    seen = []
    from dst2r.cli import fit, predict, score, stats

    def noting(spec, **options):
        seen.append(reading.fetch(spec, **options))
        return seen[-1]

    for module in (fit, predict, score, stats):
        monkeypatch.setattr(module, "fetch", noting)
    return seen


LAZY = ("npy", "nc", "zarr", "plain zarr", "h5", "mat 7.3", "folder")


@pytest.mark.parametrize("kind", LAZY)
def test_large_sources_stay_on_disk_and_give_the_same(kind, files, no_room):
    x, y = files["X"][kind], files["Y"][kind]
    done("fit", x, y, "--rank", 2, "-o", "m.dst2r")
    model = dst2r.load("m.dst2r")
    np.testing.assert_allclose(model.coef_, PLAIN.coef_, rtol=1e-9, atol=1e-12)
    assert model.labels_ == (LABELLED.labels_ if kind in NAMED else None)
    for out in ("P.npy", "P.zarr", "P.h5", "P.csv"):
        done("predict", "m.dst2r", x, "-o", out)
    np.testing.assert_allclose(np.load("P.npy"), PLAIN.predict(DATA.X), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(open_array("P.zarr", lazy=False), np.load("P.npy"))
    np.testing.assert_array_equal(open_array("P.h5", lazy=False), np.load("P.npy"))
    found = json.loads(done("score", "m.dst2r", x, y, "--json"))
    expected = r2_score(DATA.Y.reshape(N, -1), PLAIN.predict(DATA.X).reshape(N, -1), multioutput="raw_values")
    np.testing.assert_allclose(found["entries"]["r2"], expected, rtol=1e-9)
    done("stats", x, y, "-o", "s.dst2r")
    np.testing.assert_allclose(
        dst2r.load("s.dst2r").gram, dst2r.GramStatistics.from_arrays(DATA.X, DATA.Y).gram, rtol=1e-12
    )
    assert len(no_room) == 10
    assert all(hasattr(getattr(array, "data", array), "dask") for array in no_room)
    assert not [path for path in Path().iterdir() if path.name.startswith(".")]


def test_large_sources_are_cross_validated_in_memory_and_on_disk_alike(files, no_room):
    surfaces = []
    for name in ("lazy", "eager"):
        args = ("--rank", "1:3", "--n-l1", 4, "--folds", 3, "--json")
        surfaces.append(json.loads(done("cv", files["X"]["nc"], files["Y"]["nc"], *args))["surface"])
        if name == "lazy":
            assert no_room
            reading.SHARE = 0.25  # undone by the fixture
    np.testing.assert_allclose(surfaces[0]["test_loss"], surfaces[1]["test_loss"], rtol=1e-9)


def test_predictions_are_written_as_they_are_made(files, no_room, monkeypatch):
    """No more than a few chunks are alive: the whole result never is."""
    assert no_room == []
    PLAIN.save("m.dst2r")
    monkeypatch.setattr("dst2r.io.lazy.CHUNK_BYTES", 5 * 12 * 8)  # five samples
    sizes, write = [], writing.Rows.__setitem__

    def noting(rows, key, block):
        sizes.append(len(block))
        write(rows, key, block)

    monkeypatch.setattr(writing.Rows, "__setitem__", noting)
    done("predict", "m.dst2r", "X.npy", "-o", "P.npy")
    assert sizes == [5] * 12
    np.testing.assert_allclose(np.load("P.npy"), PLAIN.predict(DATA.X), rtol=1e-12)


def test_memory_decides(tmp_path, monkeypatch):
    np.save(tmp_path / "X.npy", DATA.X)
    for free, lazy in ((4 * DATA.X.nbytes, False), (4 * DATA.X.nbytes - 1, True)):
        monkeypatch.setattr(reading, "free_memory", lambda free=free: free)
        found = reading.fetch(tmp_path / "X.npy")
        assert isinstance(found, da.Array) == lazy
        assert type(found) is (da.Array if lazy else np.ndarray)
        np.testing.assert_array_equal(found, DATA.X)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i2"])
def test_rows_of_npy_files(tmp_path, monkeypatch, order, dtype):
    monkeypatch.setattr(reading, "SHARE", 0.0)
    monkeypatch.setattr("dst2r.io.lazy.CHUNK_BYTES", 100)
    array = np.asarray(10 * DATA.X, dtype=dtype, order=order)
    np.save(tmp_path / "it.npy", array)
    found = reading.fetch(tmp_path / "it.npy")
    assert found.numblocks[0] > 5
    np.testing.assert_array_equal(found, array)
    places = np.array([50, 3, 3, 7])
    np.testing.assert_array_equal(found[places], array[places])
    np.testing.assert_array_equal(found[5:50:7, 1:, 2], array[5:50:7, 1:, 2])
    os.truncate(tmp_path / "it.npy", (tmp_path / "it.npy").stat().st_size - 1)
    if order == "C":
        with pytest.raises(ValueError, match=r"it\.npy cannot be read to its end \(it ends within sample 59\)"):
            found.compute()


def test_chunks_along_modes(tmp_path):
    """Whole samples are read if that is no more than a chunk can be; else the file's chunks are kept."""
    save_zarr(tmp_path / "a.zarr", DATA.X, (10, 2, 1))
    assert reading.open_array(tmp_path / "a.zarr").chunksize == (10, 4, 3)
    wide = zarr.create_array(tmp_path / "b.zarr", shape=(4096, 4096, 8), chunks=(4096, 64, 8), dtype="f8")
    assert reading.open_array(tmp_path / "b.zarr").chunksize == wide.chunks


def test_chunks_that_turn_out_to_be_damaged(files, no_room):
    assert no_room == []
    chunk = next(path for path in Path("X-plain.zarr").rglob("*") if path.is_file() and path.parent.name == "0")
    chunk.write_bytes(chunk.read_bytes()[:20])
    line = refused("fit", "X-plain.zarr", "Y.npy", "-o", "m.dst2r")
    assert "X-plain.zarr cannot be read to its end" in line
    Path("X/s7.npy").write_bytes(Path("X/s7.npy").read_bytes()[:150])
    assert "s7.npy" in refused("fit", "X", "Y.npy", "-o", "m.dst2r")


def test_a_chunk_with_nan_leaves_no_predictions(files, no_room):
    assert no_room == []
    PLAIN.save("m.dst2r")
    bad = DATA.X.copy()
    bad[-1, 0, 0] = np.nan
    save_zarr("bad.zarr", bad, (7, 4, 3))
    for out in ("P.npy", "P.zarr", "P.nc", "P.h5"):
        assert "holds NaN or infinity" in refused("predict", "m.dst2r", "bad.zarr", "-o", out)
    assert not [path for path in Path().iterdir() if path.name.startswith((".", "P"))]
    for command in (("fit",), ("stats",)):
        assert "holds NaN or infinity" in refused(*command, "bad.zarr", "Y.npy", "-o", "n.dst2r")


# Statistics


def test_sites_that_share_statistics(files):
    for k, rows in enumerate((slice(0, 25), slice(25, N))):
        X[rows].to_netcdf(f"X{k}.nc", engine="h5netcdf")
        Y[rows].to_netcdf(f"Y{k}.nc", engine="h5netcdf")
        found = json.loads(done("stats", f"X{k}.nc", f"Y{k}.nc", "-o", f"site{k}.dst2r", "--json"))
        assert found["n_samples"] == (25, 35)[k]
        assert found["modes"][0] == {"side": "X", "name": "gene", "size": 4, "labels": list("abcd")}
    done("fit", "--stats", "site0.dst2r", "site1.dst2r", "--rank", 2, "-o", "m.dst2r")
    model = dst2r.load("m.dst2r")
    np.testing.assert_allclose(model.coef_, PLAIN.coef_, rtol=1e-9, atol=1e-12)
    assert model.labels_.x == LABELLED.labels_.x
    assert model.labels_.y == LABELLED.labels_.y
    done("fit", "--stats", "site0.dst2r", "site1.dst2r", "--rank", "1:2", "-o", "cv.dst2r")
    splits = [(np.arange(25, N), np.arange(25)), (np.arange(25), np.arange(25, N))]
    expected = dst2r.DST2RCV((1, 2), cv=splits).fit(DATA.X, DATA.Y)
    assert dst2r.load("cv.dst2r").cv_results_["mean_test_loss"] == pytest.approx(
        expected.cv_results_["mean_test_loss"], rel=1e-9
    )
    found = json.loads(done("cv", "--stats", "site0.dst2r", "site1.dst2r", "--rank", 2, "--n-l1", 3, "--json"))
    assert found["n_folds"] == 2
    assert len(found["surface"]["rank"]) == 3
    assert "two or more files" in refused("fit", "--stats", "site0.dst2r", "-o", "n.dst2r")
    assert files


def test_weights_count_as_repetitions(files):
    weights = np.arange(N) % 3
    np.save("w.npy", weights)
    done("stats", "X.npy", "Y.npy", "--weights", "w.npy", "-o", "s.dst2r")
    done("fit", "X.npy", "Y.npy", "--weights", "w.npy", "--rank", 1, "-o", "m.dst2r")
    rows = np.repeat(np.arange(N), weights)
    expected = dst2r.GramStatistics.from_arrays(DATA.X[rows], DATA.Y[rows])
    np.testing.assert_allclose(dst2r.load("s.dst2r").cross, expected.cross, atol=1e-12)
    np.testing.assert_allclose(
        dst2r.load("m.dst2r").coef_, dst2r.DST2R().fit(DATA.X[rows], DATA.Y[rows]).coef_, atol=1e-8
    )
    PLAIN.save("p.dst2r")
    found = json.loads(done("score", "p.dst2r", "X.npy", "Y.npy", "--weights", "w.npy", "--json"))
    assert found["r2"] == pytest.approx(PLAIN.score(DATA.X[rows], DATA.Y[rows]), abs=1e-12)
    assert files


def test_sites_that_differ_are_named(files):
    done("stats", "X.nc", "Y.nc", "-o", "a.dst2r")
    done("stats", "X.npy", "Y.npy", "-o", "plain.dst2r")
    X.isel(gene=[1, 0, 2, 3]).to_netcdf("order.nc", engine="h5netcdf")
    done("stats", "order.nc", "Y.nc", "-o", "order.dst2r")
    done("stats", "Y.npy", "X.npy", "-o", "turned.dst2r")
    PLAIN.save("m.dst2r")
    for other, message in (
        ("order.dst2r", "differs from a.dst2r along 'gene': entry 0 is 'b', not 'a'"),
        ("plain.dst2r", "has labels and the other has none"),
        ("turned.dst2r", "is about (3, 2) -> (4, 3)"),
        ("m.dst2r", "m.dst2r holds a DST2R; expected statistics"),
        ("X.npy", "is not a dst2r file"),
    ):
        assert message in refused("fit", "--stats", "a.dst2r", other, "--rank", 1, "-o", "n.dst2r")
    for option in ("--weights", "--groups"):
        assert run("fit", "--stats", "a.dst2r", "--rank", "1:2", option, "X.npy", "-o", "n.dst2r").exit_code == 2
    assert not Path("n.dst2r").exists()
    assert "predicts nothing" in refused("predict", "a.dst2r", "X.npy", "-o", "P.npy")
    assert files


def test_statistics_that_have_no_room_are_refused_before_any_work(files, monkeypatch):
    monkeypatch.setattr("dst2r.statistics.choice.free_memory", lambda: 1000.0)
    line = refused("stats", "X.npy", "Y.npy", "-o", "s.dst2r")
    assert "not enough memory" in line
    assert "Gram matrices" in line
    assert not Path("s.dst2r").exists()
    assert files


# What is told


def test_score_is_that_of_scikit_learn(files):
    LABELLED.save("m.dst2r")
    text = done("score", "m.dst2r", "X.nc", "Y.nc", "--csv", "r2.csv")
    expected = r2_score(DATA.Y.reshape(N, -1), PLAIN.predict(DATA.X).reshape(N, -1), multioutput="raw_values")
    assert text.startswith(f"R² {expected.mean():.4f}")
    table = columns_of("r2.csv")
    assert table["day"][:3] == ["1.5", "1.5", "2.5"]
    assert table["arm"][:3] == ["left", "right", "left"]
    np.testing.assert_allclose(np.array(table["r2"], dtype=float), expected, rtol=1e-12)
    residual = DATA.Y - PLAIN.predict(DATA.X)
    np.testing.assert_allclose(np.array(table["rmse"], dtype=float), np.sqrt((residual**2).mean(axis=0)).ravel())
    assert files


def test_score_where_responses_do_not_vary(files):
    y = np.c_[DATA.Y[:, 0], np.ones(N)]
    y[:, 1] = 3.0
    np.save("c.npy", y)
    done("fit", "X.npy", "c.npy", "--rank", 1, "-o", "m.dst2r")
    found = json.loads(done("score", "m.dst2r", "X.npy", "c.npy", "--json"))
    expected = dst2r.load("m.dst2r").score(DATA.X, y)
    assert found["r2"] == pytest.approx(expected, abs=1e-9)
    assert files


def test_the_surface_is_that_of_the_estimator(files):
    text = done("cv", "X.nc", "Y.nc", "--rank", "1:3", "--n-l1", 5, "--csv", "s.csv", "-o", "m.dst2r")
    model = dst2r.DST2RCV((1, 2, 3), n_l1=5).fit(X, Y)
    loss = model.cv_results_["test_loss"]
    table = pd.DataFrame({k: v if k == "mark" else np.array(v, dtype=float) for k, v in columns_of("s.csv").items()})
    np.testing.assert_array_equal(table["test_loss"].to_numpy().reshape(3, 5), loss.mean(axis=0))
    np.testing.assert_array_equal(table[[f"fold{k}" for k in range(1, 6)]].to_numpy().T.reshape(5, 3, 5), loss)
    least = table["test_loss"].idxmin()
    assert "min" in table["mark"][least]
    assert f"rank {table['rank'][least]:.0f}, l1 {table['l1'][least]:.3g}" in text
    assert text.count("<") == 2  # in the table and below it
    close = table["test_loss"] - table["test_loss"][least] <= table["error_of_difference"]
    marked = table.index[table["mark"].str.contains("1se")]
    assert len(marked) == 1
    assert close[marked[0]] or marked[0] == least
    assert dst2r.load("m.dst2r").coef_.tobytes() == model.coef_.tobytes()
    again = done("cv", "m.dst2r")
    assert again == text.replace("m.dst2r\n", "")
    found = json.loads(done("cv", "m.dst2r", "--json"))
    assert found["chosen"] == found["least"]
    told = [np.inf if value is None else value for value in found["surface"]["test_loss"]]
    np.testing.assert_array_equal(told, table["test_loss"])
    PLAIN.save("p.dst2r")
    assert "not chosen by cross-validation" in refused("cv", "p.dst2r")
    assert files


def test_many_ranks_are_shown_in_parts(files, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    text = done("cv", "X.npy", "Y.npy", "--rank", "1:6", "--n-l1", 2, "--folds", 2)
    assert all(f"rank {k}" in text for k in range(1, 7))
    assert max(map(len, text.splitlines()[1:-2])) <= 60
    assert files


def test_inspect_tells_what_models_hold(files):
    LABELLED.save("m.dst2r")
    text = done("inspect", "m.dst2r", "--table", "e.csv")
    for part in ("predictors 4 × 3 -> responses 3 × 2", "liver, lung, brain", "1.5, 2.5, 4", "schema 1", "component"):
        assert part in text
    assert Path("e.csv").read_text() == selected_entries(LABELLED).to_csv()
    found = json.loads(done("inspect", "m.dst2r", "--json"))
    assert found["parameters"]["rank"] == 2
    assert len(found["entries"]) == len(selected_entries(LABELLED))
    assert found["statistics"] == LABELLED.statistics_
    empty = dst2r.DST2R(l1=1e9).fit(DATA.X, DATA.Y)
    empty.save("empty.dst2r")
    done("inspect", "empty.dst2r", "--table", "none.csv")
    assert Path("none.csv").read_text() == "component,weight,mode,label,value\n"
    dst2r.GramStatistics.from_arrays(DATA.X, DATA.Y)
    done("stats", "X.nc", "Y.nc", "-o", "s.dst2r")
    assert "Statistics of 60 samples" in done("inspect", "s.dst2r")
    assert "--table is for" in refused("inspect", "s.dst2r", "--table", "f.csv")
    assert files


@pytest.mark.parametrize("kind", FORMATS)
def test_inspect_tells_what_data_hold(kind, files):
    (fact,) = json.loads(done("inspect", files["X"][kind], "--json"))["arrays"]
    assert fact["shape"] == [N, 4, 3]
    assert fact["dtype"] == "float64"
    assert fact["not_finite"] == 0
    if kind in NAMED:
        assert [dim["name"] for dim in fact["dims"]] == ["patient", "gene", "tissue"]
        assert fact["dims"][2]["labels"] == ["liver", "lung", "brain"]


def test_inspect_of_containers_and_holes(files):
    with_hole = DATA.X.copy()
    with_hole[0, 0, 0] = np.nan
    np.savez("hole.npz", X=with_hole, text=np.array(["a"]))
    text = done("inspect", "hole.npz")
    assert "hole.npz[X]: 60 × 4 × 3, float64, 5.76 kB, 1 NaN or infinite" in text
    assert "\nhole.npz[text] holds <U1 entries" in text
    text = done("inspect", "X.csv")
    assert "numbers  value" in text
    assert "'X.csv[patient,gene,tissue:value]'" in text
    assert "There is no file no.npy" in refused("inspect", "no.npy")
    assert files


def test_simulations_are_those_of_python(tmp_path):
    out = tmp_path / "sim"
    args = ("--samples", 30, "--test", 10, "--x-shape", "4x3", "--y-shape", "2,2", "--rank", 2, "--seed", 5)
    done("simulate", "-o", out, *args, "--snr", 2)
    data = dst2r.make_tensor_regression(40, (4, 3), (2, 2), rank=2, snr=2, random_state=5)
    np.testing.assert_array_equal(np.concatenate([np.load(out / "X.npy"), np.load(out / "X_test.npy")]), data.X)
    np.testing.assert_array_equal(np.concatenate([np.load(out / "Y.npy"), np.load(out / "Y_test.npy")]), data.Y)
    with np.load(out / "factors.npz") as factors:
        np.testing.assert_array_equal(
            np.einsum("ar,br,cr,dr->abcd", *(factors[f"arr_{k}"] for k in range(4))), np.load(out / "coef.npy")
        )
    story = json.loads((out / "simulation.json").read_text())
    assert story["make_tensor_regression"]["random_state"] == 5
    assert "exists" in refused("simulate", "-o", out)
    done("simulate", "-o", out, "--samples", 5, "--y-shape", "scalar", "--force")
    assert np.load(out / "Y.npy").shape == (5,)
    assert not (out / "X_test.npy").exists()
    (tmp_path / "mine").mkdir()
    assert "is not replaced" in refused("simulate", "-o", tmp_path / "mine", "--force")
    for option in (("--x-shape", "a"), ("--y-shape", "0"), ("--rank", 0)):
        assert run("simulate", "-o", tmp_path / "other", *option).exit_code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "sim"]


def test_json_is_json(files):
    """Of every command that has it: one object, with what is not a number as null."""
    outputs = [
        done("fit", "X.npy", "Y.npy", "--rank", 1, "-o", "m.dst2r", "--json"),
        done("predict", "m.dst2r", "X.npy", "-o", "P.npy", "--json"),
        done("score", "m.dst2r", "X.npy", "Y.npy", "--json"),
        done("cv", "X.npy", "Y.npy", "--rank", "1:2", "--n-l1", 2, "--json"),
        done("inspect", "m.dst2r", "--json"),
        done("inspect", "X.npy", "--json"),
        done("stats", "X.npy", "Y.npy", "-o", "s.dst2r", "--json"),
        done("simulate", "-o", "sim", "--samples", 5, "--json"),
        done("report", "m.dst2r", "--json"),
    ]

    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    for text in outputs:
        assert len(text.splitlines()) == 1
        assert isinstance(json.loads(text, parse_constant=refuse), dict)
    assert files


def test_quiet_prints_paths_only(files):
    assert done("fit", "X.npy", "Y.npy", "--rank", 1, "-q", "-o", "m.dst2r") == "m.dst2r\n"
    assert done("predict", "m.dst2r", "X.npy", "-q", "-o", "P.npy") == "P.npy\n"
    assert done("score", "m.dst2r", "X.npy", "Y.npy", "-q", "--csv", "r.csv") == "r.csv\n"
    assert done("stats", "X.npy", "Y.npy", "-q", "-o", "s.dst2r") == "s.dst2r\n"
    assert done("inspect", "m.dst2r", "-q") == ""
    assert files


def test_verbose_tells_of_every_component(files):
    result = run("fit", "X.npy", "Y.npy", "--rank", 2, "-v", "-o", "m.dst2r")
    assert "component 2 of 2" in result.stderr
    assert dst2r.load("m.dst2r").verbose == 0
    assert files


def test_the_terminal_shows_progress(files):
    """On a terminal there are the steps, on standard error; elsewhere nothing."""
    pty = pytest.importorskip("pty")
    env = os.environ | {"PYTHONPATH": str(Path(dst2r.__file__).parents[1]), "TERM": "xterm", "COLUMNS": "100"}
    lead, follow = pty.openpty()
    code = "from dst2r.cli import main; from dst2r.io import reading; reading.SHARE = 0; main()"
    args = [sys.executable, "-c", code, "fit", "X-plain.zarr", "Y.npy", "-o", "m.dst2r", "--rank", "1:2"]
    with subprocess.Popen(args, env=env, stdout=subprocess.PIPE, stderr=follow) as process:
        os.close(follow)
        shown = b""
        while True:
            try:
                part = os.read(lead, 4096)
            except OSError:  # the terminal is gone
                break
            shown += part
            if not part:
                break
        out = process.communicate()[0]
    os.close(lead)
    assert process.returncode == 0
    assert b"Fitting" in shown
    assert b"left" in shown
    assert b"fold" in shown
    assert b"\x1b" not in out
    assert files
