"""Arrays from files: one reader for each suffix."""

from __future__ import annotations

import glob
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dst2r.images import open_images
from dst2r.io.common import FileError, need
from dst2r.io.lazy import Rows, lazy_array, on_disk
from dst2r.io.tables import SEPARATORS, read_column, read_table, table_columns, table_contents
from dst2r.statistics.choice import free_memory

SPEC = re.compile(r"(?P<path>.+?)(\[(?P<key>[^\[\]]*)\])?")
HDF5_MAGIC, NETCDF3_MAGIC = b"\x89HDF\r\n\x1a\n", b"CDF"
TABLES = {*SEPARATORS, ".parquet"}
MAT_CLASSES = {"double", "single", "logical", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}
SHARE = 0.25  # of the free memory that an array may take


def fetch(spec: str | os.PathLike[str], *, mask: str | os.PathLike[str] | None = None) -> Any:
    """Read an array into memory, or open it lazily, as a Dask array, if it is large beside the memory that is free.

    Parameters are those of :func:`open_array`.
    """
    array = open_array(spec, mask=mask)
    if not on_disk(array):
        return array
    if array.nbytes <= SHARE * free_memory():
        return open_array(spec, lazy=False, mask=mask)
    if isinstance(array, np.memmap):
        path = split_spec(spec)[0]
        return lazy_array(path, Rows(path, array))
    return array


def open_array(spec: str | os.PathLike[str], *, lazy: bool = True, mask: str | os.PathLike[str] | None = None) -> Any:
    """Open the array that a specification names.

    Parameters
    ----------
    spec : str or path-like
        ``X.npy``; ``data.npz[X]``, ``data.zarr[X]``, ``data.nc[X]``, ``data.h5[group/X]`` and ``data.mat[X]``, without
        a name if there is only one; a folder or a pattern such as ``scans/*.npy`` with a file for each sample, ``.npy``
        or ``.nii(.gz)``.

        Tables (``.csv``, ``.tsv``, ``.parquet``) with a row for each sample: ``data.csv`` is all columns,
        ``data.csv[age,weight]`` these, and in ``data.csv[patient:age,weight]`` the samples are named by ``patient``.
        With a row for each entry: in ``data.csv[patient,tissue,gene:value]`` the columns before the colon become modes.
    lazy : bool, default=True
        Leave the numbers on disk until they are used, where the format allows it.
    mask : path-like, optional
        Of images: voxels that are 0 there are left out (:mod:`dst2r.images`).

    Returns
    -------
    ndarray, memmap, Dask array, DataArray or DataFrame
        The first axis is the sample, except that MATLAB's axes are kept in their order. What has names (NetCDF, named
        Zarr, tables) comes as xarray or pandas objects.

    Raises
    ------
    FileNotFoundError, ValueError, ImportError
        If there is no such file, it is damaged or holds no such array of real numbers, or a library is missing.
    """
    return _open(spec, lazy, mask, "biuf")


def _open(spec: str | os.PathLike[str], lazy: bool, mask: str | os.PathLike[str] | None, kinds: str) -> Any:
    """What :func:`open_array` says, of other kinds of entries, too."""
    path, key = split_spec(spec)

    def read(path: Path) -> Any:
        return _reader(path).read(path, key, lazy) if mask is None else _read_masked(path, key, lazy, mask)

    array = _opened(path, read)
    found = {dtype.kind for dtype in ([array.dtype] if hasattr(array, "dtype") else array.dtypes)}
    if not found <= set(kinds):
        raise FileError(f"{os.fspath(spec)} holds {getattr(array, 'dtype', 'other')} entries; expected real numbers.")
    if array.ndim == 0:
        raise FileError(
            f"{os.fspath(spec)} is a single number; expected an array with the samples along its first axis."
        )
    return array


def _opened(path: Path, read: Callable[[Path], Any]) -> Any:
    """What ``read`` makes of a file, or one line on why it cannot."""
    try:
        return read(path)
    except (FileError, FileNotFoundError, PermissionError, ImportError, MemoryError):
        raise
    except Exception as error:  # what the libraries raise on damaged files is anyone's guess
        detail = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise FileError(f"{path} cannot be read ({detail}): it is damaged, or not what its suffix says.") from error


def open_column(spec: str | os.PathLike[str]) -> Any:
    """One number or text for each sample: an array of one axis, or a column of a table."""
    path, key = split_spec(spec)
    if path.exists() and path.suffix.lower() in TABLES:
        return _opened(path, lambda path: read_column(path, key))
    array = np.asarray(_open(spec, False, None, "biufU"))
    if array.ndim != 1 and array.size == len(array):
        return array.ravel()  # MATLAB has no vectors
    return array


def contents(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The arrays that a file holds, opened lazily, by name; "" is the name of the only one of its kind.

    What cannot be opened as an array of numbers is given as the message that says so.
    """
    path = Path(path)
    found: dict[str, Any] = {}
    if path.suffix.lower() in TABLES and path.exists():
        return _opened(path, table_contents)
    for key in _opened(path, _reader(path).keys):
        try:
            found[key] = open_array(f"{path}[{key}]" if key else path)
        except (ValueError, ImportError) as error:
            found[key] = str(error)
    return found


def split_spec(spec: str | os.PathLike[str]) -> tuple[Path, str | None]:
    """Path and key of ``path[key]``; what exists under the whole name is taken by it."""
    text = os.fspath(spec)
    if not text:
        raise FileError("The name of a file is empty: is a variable of the shell not set?")
    match = SPEC.fullmatch(text)
    if match is None or Path(text).exists():
        return Path(text), None
    return Path(match["path"]), match["key"]


class Reader(NamedTuple):
    """How to read one format, and how to list what a file of it holds."""

    read: Callable[[Path, str | None, bool], Any]
    keys: Callable[[Path], Iterable[str]]


def _reader(path: Path) -> Reader:
    suffix = path.suffix.lower()
    if suffix == ".zarr" and path.exists():
        return READERS[suffix]
    if path.is_dir() or (not path.exists() and glob.has_magic(str(path))):
        return Reader(_read_samples, _single)
    if path.name.lower().endswith((".nii", ".nii.gz")):
        return Reader(_read_samples, _single)
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if suffix == ".dst2r":
        raise FileError(
            f"{path} is a model or statistics, not an array: --stats fits statistics, which dst2r stats writes."
        )
    if suffix not in READERS:
        raise FileError(
            f"{path} has {f'the suffix {suffix}' if suffix else 'no suffix'}; arrays are read from "
            f"{', '.join(READERS)}, from .nii and .nii.gz images, and from folders of samples."
        )
    return READERS[suffix]


def _single(path: Path) -> list[str]:
    del path
    return [""]


def choose(path: Path, key: str | None, keys: Sequence[str]) -> str:
    """The key that was asked for, or the only one."""
    if key is None and len(keys) == 1:
        return keys[0]
    if key in keys:
        return str(key)
    if not keys:
        raise FileError(f"{path} holds no arrays of numbers.")
    shown = ", ".join(keys[:20]) + (", ..." if len(keys) > 20 else "")
    fault = "holds several arrays" if key is None else f"holds no {key!r}"
    raise FileError(f"{path} {fault}: write '{path.name}[NAME]' with one of {shown}.")


# .npy, .npz


def _read_npy(path: Path, key: str | None, lazy: bool) -> Any:
    if key is not None:
        raise FileError(f"{path} holds one array, which has no name: leave out [{key}].")
    return np.load(path, mmap_mode="r" if lazy else None, allow_pickle=False)


def _npz_keys(path: Path) -> list[str]:
    with np.load(path, allow_pickle=False) as archive:
        return list(archive.files)


def _read_npz(path: Path, key: str | None, lazy: bool) -> Any:
    del lazy  # a member of a zip cannot be mapped
    with np.load(path, allow_pickle=False) as archive:
        return archive[choose(path, key, archive.files)]


# A file for each sample


def _read_samples(path: Path, key: str | None, lazy: bool) -> Any:
    if key is not None:
        raise FileError(f"{path} is read as one array, which has no name: leave out [{key}].")
    files = sorted(_sample_files(path), key=natural_order)
    if not files:
        raise FileNotFoundError(f"There are no .npy, .nii or .nii.gz files in {path}.")
    if _kind(files[0]) == ".nii":
        return _read_images(files, lazy, None)
    array = _stack_npy(files)
    return array if lazy else array.compute()


def _read_masked(path: Path, key: str | None, lazy: bool, mask: str | os.PathLike[str]) -> Any:
    if path.suffix.lower() in READERS or key is not None:
        raise FileError(f"{path} holds no images that a mask could be for: leave out the mask.")
    files = sorted(_sample_files(path), key=natural_order)
    if not files:
        raise FileNotFoundError(f"There are no .nii or .nii.gz files in {path}.")
    if _kind(files[0]) != ".nii":
        raise FileError(f"{path} holds no images that a mask could be for: leave out the mask.")
    return _read_images(files, lazy, mask)


def _read_images(files: list[Path], lazy: bool, mask: str | os.PathLike[str] | None) -> Any:
    try:
        return open_images(files, mask, lazy=lazy)[0]
    except ModuleNotFoundError:
        raise
    except (ValueError, FileNotFoundError) as error:  # which name the file and what is wrong with it
        raise FileError(str(error)) from error


def _sample_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = path.iterdir() if path.is_dir() else map(Path, glob.glob(str(path)))
    found = [file for file in files if not file.name.startswith(".") and _kind(file)]
    kinds = {_kind(file) for file in found}
    if len(kinds) > 1:
        raise FileError(f"{path} mixes {' and '.join(sorted(kinds))} files: name those of one kind by a pattern.")
    return found


def _kind(path: Path) -> str:
    name = path.name.lower()
    return ".nii" if name.endswith((".nii", ".nii.gz")) else ".npy" if name.endswith(".npy") else ""


def natural_order(path: Path) -> list[Any]:
    """Sorting key by which ``s2`` comes before ``s10``."""
    return [(int(part), "") if part.isdecimal() else (math.inf, part) for part in re.split(r"(\d+)", str(path))]


def _stack_npy(files: list[Path]) -> Any:
    """Dask array of samples, several to a chunk; all headers are compared, no numbers are read."""
    da = need("dask.array", "reading a folder of samples")
    first = _opened(files[0], _map_npy)
    for file in files:
        sample = _opened(file, _map_npy)
        if (sample.shape, sample.dtype) != (first.shape, first.dtype):
            raise FileError(
                f"{file} holds {sample.dtype} of shape {sample.shape}, but {files[0].name} {first.dtype} of shape "
                f"{first.shape}: all samples need the same."
            )
    step = max(1, (1 << 25) // max(first.nbytes, 1))
    parts = [files[k : k + step] for k in range(0, len(files), step)]
    return da.concatenate(
        [da.from_delayed(_delayed(_load_stack)(part), (len(part), *first.shape), first.dtype) for part in parts]
    )


def _map_npy(path: Path) -> Any:
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _delayed(function: Callable[..., Any]) -> Any:
    return need("dask", "reading a folder of samples").delayed(function)


def _load_stack(files: list[Path]) -> Any:
    return np.stack([_opened(file, _map_npy) for file in files])


# Zarr


def _zarr_arrays(path: Path) -> dict[str, Any]:
    zarr = need("zarr", "reading .zarr")
    store = zarr.open(path, mode="r")
    if isinstance(store, zarr.Array):
        return {"": store}
    return {name: item for name, item in store.members(max_depth=None) if isinstance(item, zarr.Array)}


def _data_variables(arrays: dict[str, Any], names_of: Callable[[Any], Sequence[str]]) -> list[str]:
    """Names of the arrays that are not coordinates: those not named after their only dimension."""
    return [name for name, item in arrays.items() if tuple(names_of(item)) != (name.rpartition("/")[2],)]


def _zarr_dims(array: Any) -> tuple[str, ...]:
    names = getattr(array.metadata, "dimension_names", None) or array.attrs.get("_ARRAY_DIMENSIONS") or ()
    return tuple(names) if all(names) else ()


def _zarr_keys(path: Path) -> list[str]:
    return _data_variables(_zarr_arrays(path), _zarr_dims)


def _read_zarr(path: Path, key: str | None, lazy: bool) -> Any:
    arrays = _zarr_arrays(path)
    if "" in arrays and key is not None:
        raise FileError(f"{path} holds one array, which has no name: leave out [{key}].")
    name = choose(path, key, _data_variables(arrays, _zarr_dims))
    if _zarr_dims(arrays[name]) and name:
        return _read_dataset(path, name, lazy, engine="zarr", consolidated=False)
    array = arrays[name]
    return lazy_array(path, array, getattr(array, "shards", None) or array.chunks) if lazy else array[...]


# NetCDF and HDF5


def _hdf_arrays(path: Path) -> dict[str, tuple[str, ...] | None]:
    """Dimension names of every array of numbers; None where it has none."""
    h5py = need("h5py", f"reading {path.suffix}")
    found: dict[str, tuple[str, ...] | None] = {}

    def look(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.attrs.get("CLASS") != b"DIMENSION_SCALE" and item.ndim:
            dims = tuple(scale[0].name.rpartition("/")[2] if len(scale) else "" for scale in item.dims)
            found[name] = dims if all(dims) else None

    with h5py.File(path) as file:
        file.visititems(look)
    return found


def _starts_with(path: Path, magic: bytes, at: int = 0) -> bool:
    with path.open("rb") as file:
        file.seek(at)
        return file.read(len(magic)) == magic


def _hdf_keys(path: Path) -> list[str]:
    if _starts_with(path, NETCDF3_MAGIC):
        with need("xarray", "reading .nc").open_dataset(path, engine="scipy") as dataset:
            return [str(name) for name in dataset.data_vars]
    return list(_hdf_arrays(path))


def _read_hdf(path: Path, key: str | None, lazy: bool) -> Any:
    if _starts_with(path, NETCDF3_MAGIC):
        return _read_dataset(path, choose(path, key, _hdf_keys(path)), lazy, engine="scipy")
    arrays = _hdf_arrays(path)
    name = choose(path, key.strip("/") if key else key, list(arrays))
    if arrays[name]:
        return _read_dataset(path, name, lazy, engine="h5netcdf")
    return _read_h5py(path, name, lazy)


def _read_dataset(path: Path, name: str, lazy: bool, **options: Any) -> Any:
    """A variable with names, through xarray; a chunk holds whole samples."""
    xarray = need("xarray", f"reading {path.suffix} with names")
    if options["engine"] == "h5netcdf":
        need("h5netcdf", f"reading {path.suffix} with names")
    group, _, variable = name.rpartition("/")
    dataset = xarray.open_dataset(path, group=group or None, **options)
    array = dataset[variable]
    if not lazy:
        with dataset:
            return array.load()
    sizes = array.encoding.get("preferred_chunks") or {}
    chunks = tuple(sizes.get(dim, size) for dim, size in array.sizes.items()) if sizes else None
    return array.copy(data=lazy_array(path, array.variable, chunks))


def _read_h5py(path: Path, name: str, lazy: bool, *, transposed: bool = False) -> Any:
    h5py = need("h5py", f"reading {path.suffix}")
    if not lazy:
        with h5py.File(path) as file:
            array = file[name][...]
            return np.ascontiguousarray(array.T) if transposed else array
    dataset = h5py.File(path)[name]
    chunks = dataset.chunks and (dataset.chunks[::-1] if transposed else dataset.chunks)
    return lazy_array(path, dataset, chunks, transposed=transposed)


# MATLAB


def _is_mat_v73(path: Path) -> bool:
    return _starts_with(path, HDF5_MAGIC, 512) or _starts_with(path, HDF5_MAGIC)


def _mat_keys(path: Path) -> list[str]:
    if not _is_mat_v73(path):
        from scipy.io import whosmat

        return [name for name, _, kind in whosmat(path) if kind in MAT_CLASSES]
    with need("h5py", "reading .mat of version 7.3").File(path) as file:
        classes = {name: item.attrs.get("MATLAB_class", b"") for name, item in file.items()}
    return [name for name, kind in classes.items() if kind.decode() in MAT_CLASSES]


def _read_mat(path: Path, key: str | None, lazy: bool) -> Any:
    name = choose(path, key, _mat_keys(path))
    if _is_mat_v73(path):
        return _read_h5py(path, name, lazy, transposed=True)
    from scipy.io import loadmat

    return np.ascontiguousarray(loadmat(path, variable_names=[name])[name])


READERS = {
    ".npy": Reader(_read_npy, _single),
    ".npz": Reader(_read_npz, _npz_keys),
    ".zarr": Reader(_read_zarr, _zarr_keys),
    ".nc": Reader(_read_hdf, _hdf_keys),
    ".h5": Reader(_read_hdf, _hdf_keys),
    ".hdf5": Reader(_read_hdf, _hdf_keys),
    ".mat": Reader(_read_mat, _mat_keys),
    ".csv": Reader(read_table, table_columns),
    ".tsv": Reader(read_table, table_columns),
    ".parquet": Reader(read_table, table_columns),
}
