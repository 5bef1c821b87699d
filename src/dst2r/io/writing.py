"""Arrays to files: one writer for each suffix; a file appears whole or not at all."""

from __future__ import annotations

import csv
import errno
import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from dst2r._files import written_whole
from dst2r.io.common import FileError, need
from dst2r.io.tables import SEPARATORS
from dst2r.labels import Mode, is_xarray

NAMING = {".nc", ".h5", ".hdf5", ".zarr", ".csv", ".tsv", ".parquet"}  # that keep names of modes and entries
HDF_EXTRA = 1 << 18  # bytes of names and tables beside the numbers
NAME = "array"  # of what has no name, in files that need one


def write_array(path: str | os.PathLike[str], array: Any, *, overwrite: bool = False) -> None:
    """Write an array to a file, by suffix.

    Parameters
    ----------
    path : path-like
        ``.npy``, ``.npz`` and ``.mat`` take the numbers; ``.nc``, ``.h5`` and ``.zarr`` names, too, if there are any;
        ``.csv``, ``.tsv`` and ``.parquet`` get a row for each sample of an array of at most two axes, otherwise a row
        for each entry.
    array : ndarray, Dask array, DataArray, DataFrame or Series
        Dask arrays are computed block by block, but for tables, ``.npz`` and ``.mat``.
    overwrite : bool, default=False
        Whether a file of that name may be replaced.
    """
    writer = writer_of(path)
    with written_whole(path, overwrite=overwrite) as temporary:
        try:
            writer(temporary, array)
        except RuntimeError as error:  # HDF5's words for a full disk
            raise OSError(errno.EIO, str(error)) from error


def write_table(path: str | os.PathLike[str], columns: Mapping[str, Sequence[Any]], *, overwrite: bool = False) -> None:
    """Write named columns to a ``.csv``, ``.tsv`` or ``.parquet``."""
    check_table(path)
    suffix = Path(path).suffix.lower()
    with written_whole(path, overwrite=overwrite) as temporary:
        if suffix == ".parquet":
            need("pyarrow", "writing .parquet")
            frame = need("pandas", "writing .parquet").DataFrame(dict(columns))
            frame.to_parquet(temporary, index=False)
            return
        with temporary.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=SEPARATORS[suffix], lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))


def check_table(path: str | os.PathLike[str]) -> None:
    """Raise unless the suffix is that of a table."""
    suffix = Path(path).suffix.lower()
    if suffix not in (*SEPARATORS, ".parquet"):
        fault = f"the suffix {suffix}" if suffix else "no suffix"
        raise FileError(f"{os.fspath(path)} has {fault}; tables are written to .csv, .tsv or .parquet.")


def writer_of(path: str | os.PathLike[str]) -> Callable[[Path, Any], None]:
    """The function that writes files with this suffix."""
    suffix = Path(path).suffix.lower()
    if suffix not in WRITERS:
        fault = f"the suffix {suffix}" if suffix else "no suffix"
        raise FileError(f"{os.fspath(path)} has {fault}; arrays are written to {', '.join(WRITERS)}.")
    return WRITERS[suffix]


def named_rows(values: Any, X: Any, sample: str, modes: Sequence[Mode]) -> Any:
    """Results with a row for each sample of ``X`` as a DataArray, for formats that keep names.

    Parameters
    ----------
    values : ndarray or Dask array of shape (n, ...)
    X : array or pandas object
        Whose index, if it has one, names the samples.
    sample : str
        Name of the sample, where ``X`` has none.
    modes : sequence of Mode
        Names of the other axes.
    """
    xarray = need("xarray", "writing names")
    coords = {mode.name: mode.coordinate() for mode in modes if mode.labels is not None}
    names = [mode.name for mode in modes]
    index = getattr(X, "index", None) if hasattr(X, "iloc") else None
    if index is not None and not isinstance(index, need("pandas", "writing names").RangeIndex):
        sample = index.name or sample
        coords[sample] = np.asarray(index)
    return xarray.DataArray(values, dims=[sample, *names], coords=coords)


def _numbers(array: Any) -> Any:
    """NumPy or Dask array without names."""
    return getattr(array, "data", array) if is_xarray(array) else array.to_numpy() if hasattr(array, "iloc") else array


def _is_dask(array: Any) -> bool:
    return hasattr(array, "dask") and not is_xarray(array)


def _write_npy(path: Path, array: Any) -> None:
    array = _numbers(array)
    if _is_dask(array) and array.ndim:
        whole = array.rechunk(dict.fromkeys(range(1, array.ndim), -1))
        need("dask.array", "writing blocks").store(whole, Rows(path, whole.shape, whole.dtype), lock=False)
        return
    with path.open("wb") as file:
        npy.write_array(file, np.asarray(array), allow_pickle=False)


class Rows:
    """Rows of an ``.npy`` file, written rather than mapped: on a full disk a mapping would end the process.

    Parameters
    ----------
    path : Path
        Of a file that gets its header now.
    shape, dtype
        Of the whole array.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.path, self.dtype, self.width = path, dtype, dtype.itemsize * math.prod(shape[1:])
        header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        with path.open("wb") as file:
            npy.write_array_header_1_0(file, header)
            self.offset = file.tell()

    def __setitem__(self, key: tuple[slice, ...], block: Any) -> None:
        with self.path.open("r+b") as file:
            file.seek(self.offset + key[0].start * self.width)
            file.write(np.ascontiguousarray(block, self.dtype).tobytes())


def _write_npz(path: Path, array: Any) -> None:
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **{_name(array): np.asarray(array)})


def _write_mat(path: Path, array: Any) -> None:
    from scipy.io import savemat

    with path.open("wb") as file:
        savemat(file, {_name(array): np.asarray(array)}, oned_as="column")


def _write_zarr(path: Path, array: Any) -> None:
    zarr = need("zarr", "writing .zarr")
    path.unlink()  # the temporary name becomes a folder
    array = _even_chunks(array)
    if is_xarray(array) or hasattr(array, "iloc"):
        _dataset(array).to_zarr(path, zarr_format=2, consolidated=True)  # text has no place in version 3 yet
    elif _is_dask(array):
        array.to_zarr(str(path))
    else:
        zarr.save_array(str(path), np.asarray(array))


def _even_chunks(array: Any) -> Any:
    """Zarr's chunks are all of one size."""
    data = array.data if is_xarray(array) else array
    if not _is_dask(data):
        return array
    data = data.rechunk({0: max(data.chunks[0])})
    return array.copy(data=data) if is_xarray(array) else data


def _write_hdf(path: Path, array: Any) -> None:
    if shutil.disk_usage(path.parent).free < 8 * array.size + HDF_EXTRA:  # HDF5 crashes on a disk that is full
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if is_xarray(array) or hasattr(array, "iloc"):
        need("h5netcdf", f"writing {path.suffix} with names")
        _dataset(array).to_netcdf(path, engine="h5netcdf")
        return
    with need("h5py", f"writing {path.suffix}").File(path, "w") as file:
        if _is_dask(array):
            target = file.create_dataset(NAME, shape=array.shape, dtype=array.dtype)
            need("dask.array", "writing blocks").store(array, target)
        else:
            file.create_dataset(NAME, data=np.asarray(array))


def _write_table(path: Path, array: Any) -> None:
    frame = _frame(array)
    if path.suffix.lower() == ".parquet":
        need("pyarrow", "writing .parquet")
        frame.to_parquet(path, index=False)
        return
    bare = array.ndim < 3 and not is_xarray(array) and not hasattr(array, "iloc")
    frame.to_csv(path, sep=SEPARATORS[path.suffix.lower()], index=False, header=not bare)


def _frame(array: Any) -> Any:
    """Table with names, if there are any, in its columns."""
    pandas = need("pandas", "writing tables")
    if hasattr(array, "iloc"):
        frame = array.to_frame() if array.ndim == 1 else array
        return frame if isinstance(frame.index, pandas.RangeIndex) else frame.reset_index()
    if array.ndim > 2:
        array = array if is_xarray(array) else _with_axes(array)
        values = np.asarray(array).ravel()
        levels = [np.asarray(array[dim]) if dim in array.coords else np.arange(array.sizes[dim]) for dim in array.dims]
        places = np.unravel_index(np.arange(values.size), array.shape)
        columns = {str(dim): level[at] for dim, level, at in zip(array.dims, levels, places, strict=True)}
        return pandas.DataFrame(columns | {_name(array, "value"): values})
    if not is_xarray(array):
        return pandas.DataFrame(np.asarray(array)).rename(columns=str)
    names = [_name(array, "value")] if array.ndim == 1 else np.asarray(array[array.dims[1]]).astype(str)
    frame = pandas.DataFrame(np.asarray(array).reshape(len(array), -1), columns=names)
    if array.dims[0] in array.coords:
        frame.insert(0, str(array.dims[0]), np.asarray(array[array.dims[0]]))
    return frame


def _with_axes(array: Any) -> Any:
    xarray = need("xarray", "writing tables with a row for each entry")
    return xarray.DataArray(np.asarray(array), dims=["sample", *(f"axis{k}" for k in range(1, array.ndim))])


def _dataset(array: Any) -> Any:
    xarray = need("xarray", "writing names")
    if hasattr(array, "iloc"):
        array = array.to_xarray() if array.ndim == 1 else xarray.DataArray(array)
        array = array.rename({dim: "sample" for dim in array.dims[:1] if dim in ("index", "dim_0")})
    return array.to_dataset(name=_name(array))


def _name(array: Any, default: str = NAME) -> str:
    """Name of an array that has one of its own; a coordinate cannot share it."""
    name = getattr(array, "name", None)
    taken = {str(dim) for dim in getattr(array, "dims", ())}
    return name if isinstance(name, str) and name not in taken and not _is_dask(array) else default


WRITERS: dict[str, Callable[[Path, Any], None]] = {
    ".npy": _write_npy,
    ".npz": _write_npz,
    ".zarr": _write_zarr,
    ".nc": _write_hdf,
    ".h5": _write_hdf,
    ".hdf5": _write_hdf,
    ".mat": _write_mat,
    ".csv": _write_table,
    ".tsv": _write_table,
    ".parquet": _write_table,
}
