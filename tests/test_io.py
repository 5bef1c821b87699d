"""Arrays from and to files: what was written comes back, lazily; what is wrong is named."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dst2r
from dst2r.io import contents, open_array, split_spec, write_array
from dst2r.io.reading import natural_order

da = pytest.importorskip("dask.array")
h5py = pytest.importorskip("h5py")
pd = pytest.importorskip("pandas")
xr = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")
scipy_io = pytest.importorskip("scipy.io")

RNG = np.random.default_rng(0)
CUBE = RNG.standard_normal((6, 3, 2))
MATRIX = RNG.standard_normal((5, 3))
NAMED = xr.DataArray(
    CUBE,
    dims=("patient", "tissue", "day"),
    coords={"patient": list("abcdef"), "tissue": ["liver", "lung", "brain"], "day": [1.5, 2.5]},
    name="expression",
)
ALL = (".npy", ".npz", ".zarr", ".nc", ".h5", ".hdf5", ".mat", ".csv", ".tsv", ".parquet")
NAMING = (".nc", ".h5", ".zarr")


def same(a, b):
    """Bit for bit."""
    a, b = np.asarray(a), np.asarray(b)
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    assert np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


def refused(spec, kind=ValueError):
    """The message with which a specification is refused: one line."""
    with pytest.raises(kind) as caught:
        open_array(spec)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


# Round trips


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("suffix", ALL)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
def test_plain_arrays_come_back(suffix, dtype, lazy, tmp_path):
    array, path = (10 * MATRIX).astype(dtype), tmp_path / f"it{suffix}"
    write_array(path, array)
    back = np.asarray(open_array(path, lazy=lazy))
    if suffix in (".csv", ".tsv"):  # text knows numbers, not their width
        np.testing.assert_array_equal(back.astype(dtype), array)
        return
    same(back, array)


@pytest.mark.parametrize("suffix", ALL)
def test_cubes_come_back(suffix, tmp_path):
    write_array(tmp_path / f"it{suffix}", CUBE)
    key = "[sample,axis1,axis2:value]" if suffix in (".csv", ".tsv", ".parquet") else ""
    same(open_array(f"{tmp_path / f'it{suffix}'}{key}"), CUBE)


@pytest.mark.parametrize("suffix", ALL)
def test_vectors_come_back(suffix, tmp_path):
    write_array(tmp_path / f"it{suffix}", MATRIX[:, 0])
    same(np.asarray(open_array(tmp_path / f"it{suffix}")).ravel(), MATRIX[:, 0])


@pytest.mark.parametrize("suffix", [*NAMING, ".csv", ".parquet"])
@pytest.mark.parametrize("lazy", [True, False])
def test_names_come_back(suffix, lazy, tmp_path):
    write_array(tmp_path / f"it{suffix}", NAMED)
    key = "[patient,tissue,day:expression]" if suffix in (".csv", ".parquet") else ""
    back = open_array(f"{tmp_path / f'it{suffix}'}{key}", lazy=lazy)
    xr.testing.assert_identical(back.compute(), NAMED)
    same(back, CUBE)
    assert (back.chunks is not None) == (lazy and suffix in NAMING)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".mat"])
def test_formats_without_names_take_the_numbers(suffix, tmp_path):
    write_array(tmp_path / f"it{suffix}", NAMED)
    same(open_array(tmp_path / f"it{suffix}"), CUBE)


@pytest.mark.parametrize("suffix", [*NAMING, ".csv", ".parquet"])
def test_tables_with_names_come_back(suffix, tmp_path):
    frame = pd.DataFrame(MATRIX, index=pd.Index(list("vwxyz"), name="patient"), columns=["a", "b", "c"])
    write_array(tmp_path / f"it{suffix}", frame)
    back = open_array(tmp_path / f"it{suffix}")
    same(back, MATRIX)
    first, second = ("dims", "coords") if suffix in NAMING else ("index", "columns")
    assert hasattr(back, first)
    assert hasattr(back, second)
    assert list(np.asarray(back.coords["patient"] if suffix in NAMING else back.index)) == list("vwxyz")
    write_array(tmp_path / f"one{suffix}", frame["b"])
    back = open_array(tmp_path / f"one{suffix}")
    same(np.asarray(back).ravel(), MATRIX[:, 1])


@pytest.mark.parametrize("suffix", ALL)
def test_dask_arrays_are_written(suffix, tmp_path):
    array = da.from_array(MATRIX, chunks=(2, 3))
    write_array(tmp_path / f"it{suffix}", array)
    same(np.asarray(open_array(tmp_path / f"it{suffix}")), MATRIX)


def test_xarray_opens_what_is_written_to_zarr(tmp_path, recwarn):
    write_array(tmp_path / "it.zarr", NAMED)
    xr.testing.assert_identical(xr.open_zarr(tmp_path / "it.zarr")[NAMED.name].compute(), NAMED)
    assert not recwarn.list


def test_every_suffix_that_is_written_is_read():
    from dst2r.io.reading import READERS
    from dst2r.io.writing import WRITERS

    assert list(READERS) == list(WRITERS) == list(ALL)


# Sources as other programs write them


def test_npy_is_mapped_not_read(tmp_path):
    np.save(tmp_path / "it.npy", CUBE)
    assert isinstance(open_array(tmp_path / "it.npy"), np.memmap)
    assert not isinstance(open_array(tmp_path / "it.npy", lazy=False), np.memmap)


def test_keys(tmp_path):
    np.savez(tmp_path / "it.npz", X=CUBE, Y=MATRIX)
    same(open_array(f"{tmp_path}/it.npz[X]"), CUBE)
    same(open_array(f"{tmp_path}/it.npz[Y]"), MATRIX)
    assert "holds several arrays: write 'it.npz[NAME]' with one of X, Y" in refused(tmp_path / "it.npz")
    assert "holds no 'Z': write 'it.npz[NAME]' with one of X, Y" in refused(f"{tmp_path}/it.npz[Z]")
    np.save(tmp_path / "it.npy", CUBE)
    assert "leave out [X]" in refused(f"{tmp_path}/it.npy[X]")


def test_a_name_with_brackets_is_a_name(tmp_path):
    np.save(tmp_path / "it[1].npy", CUBE)
    same(open_array(tmp_path / "it[1].npy"), CUBE)
    assert split_spec("a[1].npz[b]") == (Path("a[1].npz"), "b")
    assert split_spec("a.npz") == (Path("a.npz"), None)


def test_zarr_groups(tmp_path):
    group = zarr.open_group(tmp_path / "it.zarr", mode="w")
    group.create_array("site/X", data=CUBE)
    group.create_array("Y", data=MATRIX)
    same(open_array(f"{tmp_path}/it.zarr[site/X]"), CUBE)
    assert isinstance(open_array(f"{tmp_path}/it.zarr[Y]"), da.Array)
    assert "Y, site/X" in refused(tmp_path / "it.zarr") or "site/X, Y" in refused(tmp_path / "it.zarr")


@pytest.mark.filterwarnings("ignore:The data type:Warning")
@pytest.mark.parametrize("version", [2, 3])
def test_zarr_of_both_versions(version, tmp_path):
    NAMED.to_dataset().to_zarr(tmp_path / "it.zarr", zarr_format=version, consolidated=False)
    xr.testing.assert_identical(open_array(tmp_path / "it.zarr").compute(), NAMED)


def test_hdf5_groups_without_names(tmp_path):
    with h5py.File(tmp_path / "it.h5", "w") as file:
        file["site/X"] = CUBE
        file["Y"] = MATRIX
        file["date"] = 20240101
    same(open_array(f"{tmp_path}/it.h5[site/X]"), CUBE)
    same(open_array(f"{tmp_path}/it.h5[/site/X]"), CUBE)
    assert isinstance(open_array(f"{tmp_path}/it.h5[Y]"), da.Array)
    assert "one of Y, site/X" in refused(f"{tmp_path}/it.h5[date]")


def test_netcdf_of_all_versions(tmp_path):
    dataset = NAMED.to_dataset()
    dataset.to_netcdf(tmp_path / "three.nc", engine="scipy")
    xr.testing.assert_equal(open_array(tmp_path / "three.nc").compute(), NAMED)
    dataset.to_netcdf(tmp_path / "four.nc", engine="h5netcdf", group="site")
    xr.testing.assert_identical(open_array(f"{tmp_path}/four.nc[site/expression]").compute(), NAMED)


def test_matlab_5(tmp_path):
    scipy_io.savemat(tmp_path / "it.mat", {"X": CUBE, "s": "text", "c": np.array([[1, "a"]], dtype=object)})
    same(open_array(tmp_path / "it.mat"), CUBE)
    assert open_array(tmp_path / "it.mat").flags.c_contiguous
    assert "holds no 's': write 'it.mat[NAME]' with one of X" in refused(f"{tmp_path}/it.mat[s]")


@pytest.mark.parametrize("lazy", [True, False])
def test_matlab_73_has_its_axes_in_matlabs_order(lazy, tmp_path):
    # MATLAB stores column-major, so that its X(i,j,k) is at [k, j, i] of the HDF5 dataset
    with h5py.File(tmp_path / "it.mat", "w", userblock_size=512) as file:
        for name, array, kind in (("X", CUBE, "double"), ("text", np.zeros((1, 2), np.uint16), "char")):
            dataset = file.create_dataset(name, shape=array.shape[::-1], dtype=array.dtype)
            for place in np.ndindex(array.shape):
                dataset[place[::-1]] = array[place]
            dataset.attrs["MATLAB_class"] = np.bytes_(kind)
    same(open_array(tmp_path / "it.mat", lazy=lazy), CUBE)
    assert list(contents(tmp_path / "it.mat")) == ["X"]


def test_folders_and_patterns_are_lazy_stacks(tmp_path):
    for k in range(12):
        np.save(tmp_path / f"s{k}.npy", CUBE[0] + k)
    (tmp_path / "notes.txt").touch()
    array = open_array(tmp_path)
    assert isinstance(array, da.Array)
    same(array, CUBE[0] + np.arange(12)[:, None, None])
    same(open_array(f"{tmp_path}/s1*.npy", lazy=False), CUBE[0] + np.array([1, 10, 11])[:, None, None])
    np.save(tmp_path / "s5.npy", CUBE[0, :2])
    assert "s5.npy holds float64 of shape (2, 2), but s0.npy float64 of shape (3, 2)" in refused(tmp_path)
    (tmp_path / "s3.nii").touch()
    assert "mixes .nii and .npy files" in refused(tmp_path)


def test_a_stack_reads_nothing_before_it_is_computed(tmp_path, monkeypatch):
    for k in range(3):
        np.save(tmp_path / f"s{k}.npy", CUBE[0])
    array = open_array(tmp_path)
    reads = []
    monkeypatch.setattr("dst2r.io.reading._load_stack", reads.append)
    assert array.sum().shape == ()
    assert reads == []
    (tmp_path / "s1.npy").unlink()
    with pytest.raises(FileNotFoundError):
        array.compute()


def test_numbers_in_names_are_sorted_as_numbers():
    names = [Path(name) for name in ("s10", "s9", "a", "s9b", "s1", "10", "9")]
    assert [str(name) for name in sorted(names, key=natural_order)] == ["9", "10", "a", "s1", "s9", "s9b", "s10"]


# Tables


@pytest.fixture
def table(tmp_path):
    """Wide: a row for each sample."""
    path = tmp_path / "it.csv"
    path.write_text("patient,age,weight,site\np1,30,70.5,A\np2,40,80.25,B\np3,50,60.125,A\n")
    return path


def test_columns_of_a_table(table):
    ages = open_array(f"{table}[age]")
    assert (ages.shape, ages.tolist()) == ((3,), [30, 40, 50])
    both = open_array(f"{table}[weight, age]")
    assert both.columns.tolist() == ["weight", "age"]
    assert both.to_numpy().tolist() == [[70.5, 30], [80.25, 40], [60.125, 50]]
    named = open_array(f"{table}[patient:age]")
    assert named.index.tolist() == ["p1", "p2", "p3"]
    assert open_array(f"{table}[patient:age,weight]").index.name == "patient"
    assert open_array(f"{table}[age:weight]").index.tolist() == [30, 40, 50]


def test_what_a_table_lacks_is_named(table):
    assert "column 'site' holds text, as in 'A'" in refused(table)
    assert "column 'site' holds text" in refused(f"{table}[patient:]")
    assert "has no column 'height': it has patient, age, weight, site" in refused(f"{table}[height]")
    table.write_text("patient,age,weight\np1,30,70.5\np2,40,80.25\n")
    assert open_array(table).index.tolist() == ["p1", "p2"]
    assert open_array(f"{table}[patient:]").columns.tolist() == ["age", "weight"]


def test_a_table_without_a_header(tmp_path):
    np.savetxt(tmp_path / "it.csv", MATRIX, delimiter=",", fmt="%.17g")
    back = open_array(tmp_path / "it.csv")
    assert isinstance(back, np.ndarray)
    same(back, MATRIX)


@pytest.fixture
def long(tmp_path):
    """Long: a row for each entry, in any order."""
    path = tmp_path / "it.tsv"
    rows = [
        (p, g, t, 10 * i + 3 * j + k)
        for i, p in enumerate("ba")
        for j, g in enumerate("yx")
        for k, t in enumerate("no")
    ]
    pd.DataFrame(rows, columns=["patient", "gene", "tissue", "v"]).iloc[[0, *range(7, 0, -1)]].to_csv(
        path, sep="\t", index=False
    )
    return path


def test_a_long_table_becomes_a_cube(long):
    cube = open_array(f"{long}[patient,gene,tissue:v]")
    assert cube.dims == ("patient", "gene", "tissue")
    for (p, i), (g, j), (t, k) in [(("b", 0), ("x", 1), ("o", 1)), (("a", 1), ("y", 0), ("n", 0))]:
        assert cube.sel(patient=p, gene=g, tissue=t) == 10 * i + 3 * j + k
    assert cube.coords["patient"].values.tolist()[0] == "b"  # in the order of the rows
    same(open_array(f"{long}[gene,patient,tissue:v]"), cube.transpose("gene", "patient", "tissue"))


def test_a_long_table_with_holes_or_repetitions(long):
    whole = f"{long}[patient,gene,tissue:v]"
    lines = long.read_text().splitlines()
    long.write_text("\n".join(line for line in lines if not line.startswith("a\tx\tn")))
    assert "has no row for patient=a, gene=x, tissue=n" in refused(whole)
    long.write_text("\n".join([*lines, "b\ty\tn\t5"]))
    assert "has 2 rows for patient=b, gene=y, tissue=n" in refused(whole)
    assert "one column of values, not tissue, v" in refused(f"{long}[patient,gene:]")
    pd.DataFrame({"a": range(999), "b": range(999), "c": range(999), "v": 0.0}).to_csv(long, sep="\t", index=False)
    assert "999 rows for 999 × 999 × 999 combinations" in refused(f"{long}[a,b,c:v]")


def test_floats_survive_text(tmp_path):
    array = np.array([[0.1, 1 / 3, 1e-300], [1.7976931348623157e308, 5e-324, -0.0]])
    write_array(tmp_path / "it.csv", array)
    same(open_array(tmp_path / "it.csv"), array)


# What goes wrong


def test_missing_files_and_unknown_suffixes(tmp_path):
    for name in ("it.npy", "it.csv", "it.nc[X]", "it.zarr", "no*.npy", "it.nii.gz", "it"):
        assert "There " in refused(tmp_path / name, FileNotFoundError)
    (tmp_path / "it.xlsx").touch()
    assert "it.xlsx has the suffix .xlsx; arrays are read from .npy, .npz" in refused(tmp_path / "it.xlsx")
    with pytest.raises(ValueError, match=r"has no suffix; arrays are written to \.npy"):
        write_array(tmp_path / "it", CUBE)
    (tmp_path / "empty").mkdir()
    assert "There are no .npy, .nii or .nii.gz files" in refused(tmp_path / "empty", FileNotFoundError)


@pytest.mark.filterwarnings("ignore:Reading `.npy`", "ignore:.*unclosed:ResourceWarning")
@pytest.mark.parametrize("suffix", [*ALL[:2], *ALL[3:7], ".parquet"])
@pytest.mark.parametrize("keep", [0.0, 0.1, 0.5, 0.95])
def test_truncated_files(suffix, keep, tmp_path):
    path = tmp_path / f"it{suffix}"
    write_array(path, np.repeat(CUBE, 50, axis=1))
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data))])
    assert str(path) in refused(path)


@pytest.mark.parametrize("suffix", [suffix for suffix in ALL if suffix not in (".zarr", ".csv", ".tsv")])
def test_foreign_files(suffix, tmp_path):
    path = tmp_path / f"it{suffix}"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" * 100)
    assert "is damaged, or not what its suffix says" in refused(path)


class Bomb:
    """Leaves a trace if it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("exploded",)


def test_nothing_is_unpickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("it.npy", np.array([Bomb()]), allow_pickle=True)
    np.savez("it.npz", np.array([Bomb()]))
    for name in ("it.npy", "it.npz"):
        assert "cannot be read" in refused(name)
    assert sorted(os.listdir()) == ["it.npy", "it.npz"]


@pytest.mark.parametrize(
    ("array", "fault"),
    [(np.ones(3, complex), "complex128"), (np.array(["a"]), "<U1"), (np.array("2024", "M8[D]"), "datetime64[D]")],
)
def test_entries_that_are_no_real_numbers(array, fault, tmp_path):
    np.save(tmp_path / "it.npy", array)
    assert f"holds {fault} entries; expected real numbers" in refused(tmp_path / "it.npy")


def test_a_single_number_is_no_array(tmp_path):
    np.save(tmp_path / "it.npy", 3.0)
    assert "is a single number" in refused(tmp_path / "it.npy")


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("it.zarr", "zarr", "dask"),
        ("it.nc", "h5py", "xarray"),
        ("it.csv", "pandas", "tables"),
        ("it.parquet", "pyarrow", "tables"),
    ],
)
def test_missing_libraries_are_named(name, module, extra, tmp_path, monkeypatch):
    write_array(tmp_path / name, MATRIX)
    monkeypatch.setitem(sys.modules, module, None)
    assert f'needs {module}: python -m pip install "dst2r[{extra}]"' in refused(tmp_path / name, ImportError)
    with pytest.raises(ImportError, match=module):
        write_array(tmp_path / f"new-{name}", MATRIX)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_contents(tmp_path):
    np.savez(tmp_path / "it.npz", X=CUBE, name=np.array("text"))
    found = contents(tmp_path / "it.npz")
    assert found["X"].shape == CUBE.shape
    assert "expected real numbers" in found["name"]
    np.save(tmp_path / "it.npy", CUBE)
    assert list(contents(tmp_path / "it.npy")) == [""]
    NAMED.to_dataset().to_netcdf(tmp_path / "it.nc", engine="h5netcdf")
    assert {name: array.dims for name, array in contents(tmp_path / "it.nc").items()} == {"expression": NAMED.dims}


def test_existing_files_are_kept(tmp_path):
    for suffix in ALL:
        path = tmp_path / f"it{suffix}"
        write_array(path, MATRIX)
        with pytest.raises(FileExistsError, match="exists"):
            write_array(path, 2 * MATRIX)
        same(np.asarray(open_array(path, lazy=False)), MATRIX)
        write_array(path, 2 * MATRIX, overwrite=True)
        same(np.asarray(open_array(path, lazy=False)), 2 * MATRIX)
    assert len(list(tmp_path.iterdir())) == len(ALL)


@pytest.mark.parametrize("suffix", ALL)
def test_a_disk_that_is_full_leaves_what_was_there(suffix, tmp_path):
    resource = pytest.importorskip("resource")
    assert resource
    path = tmp_path / f"it{suffix}"
    code = f"""
import resource, numpy as np
from dst2r.io import write_array
write_array({str(path)!r}, np.ones((2, 2)))
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))  # from here on, files end there
try:
    write_array({str(path)!r}, np.random.default_rng(0).random((200, 200)), overwrite=True)
except OSError as error:
    print("REFUSED", error)
"""
    env = os.environ | {"PYTHONPATH": str(Path(dst2r.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert "cannot be written (" in done.stdout, done.stderr
    assert str(path) in done.stdout
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    same(np.asarray(open_array(path, lazy=False)), np.ones((2, 2)))


@pytest.mark.parametrize("suffix", [".npy", ".h5", ".zarr"])
def test_a_disk_that_fills_up_between_blocks(suffix, tmp_path):
    """A disk of 1 MB in a name space of its own. Writing into a mapping there would end the process (SIGBUS)."""
    own = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec"]
    mounted = ["mount -t tmpfs -o size=1m none $0", str(tmp_path)]
    if shutil.which("unshare") is None or subprocess.run([*own, *mounted], capture_output=True, check=False).returncode:
        pytest.skip("needs name spaces")
    code = f"""
import dask.array as da, os
from dst2r.io import write_array
array = da.random.default_rng(0).random((20_000, 20), chunks=(1000, 20))
try:
    write_array("it{suffix}", array)
except OSError as error:
    print("REFUSED", error)
print(os.listdir())
"""
    mounted[0] += ' && cd $0 && exec "$@"'
    env = os.environ | {"PYTHONPATH": str(Path(dst2r.__file__).parents[1])}
    done = subprocess.run(
        [*own, *mounted, sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    told, left = done.stdout.splitlines()  # HDF5 has words of its own
    assert re.fullmatch(rf"REFUSED \[Errno \d+\] cannot be written \(.+\): 'it\{suffix}'", told), done.stderr
    assert "No space left on device" in told or suffix == ".h5"
    assert left == "[]"


def test_blocks_of_dask_arrays_may_lie_anyhow(tmp_path):
    for chunks in ((2, 1, 2), (6, 3, 2), (1, 2, 1)):
        for dtype in (">f4", "<f8", "i2"):
            array = (10 * CUBE).astype(dtype)
            write_array(tmp_path / "it.npy", da.from_array(array, chunks=chunks), overwrite=True)
            same(np.load(tmp_path / "it.npy"), array)
