"""Tables: a row for each sample, or a row for each entry."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from dst2r.io.common import FileError, need

SEPARATORS = {".csv": ",", ".tsv": "\t"}


def table_columns(path: Path) -> list[str]:
    """One array of all columns, if that is what the table is; else the columns that hold numbers."""
    return [name for name, column in table_contents(path).items() if not isinstance(column, str)]


def table_contents(path: Path) -> dict[str, Any]:
    """One array of all columns, if that is what the table is; else all columns, what is text as a message."""
    frame = _load(path)
    try:
        return {"": _all_columns(path, frame)}
    except FileError:
        return {
            str(name): column if column.dtype.kind in "biuf" else f"text, as in {column.iloc[0]!r}"
            for name, column in frame.items()
        }


def read_table(path: Path, key: str | None, lazy: bool) -> Any:
    """A DataFrame (samples, columns), a Series of one column, or a DataArray with a mode for each index column.

    Parameters
    ----------
    path : Path
    key : str, optional
        "a,b" are columns; "i:a,b" takes the names of the samples from column i, and "i,j,k:a" is a table with one row
        for each entry, of which columns i, j and k tell the place. No columns after the colon are all others.
    lazy : bool
        Ignored: tables are read at once.
    """
    del lazy
    frame = _load(path)
    if key is None:
        return _all_columns(path, frame)
    left, colon, right = key.partition(":")
    index = _names(path, frame, left) if colon else []
    values = _names(path, frame, right if colon else left)
    single = len(values) == 1
    values = values or [name for name in frame.columns if name not in index]
    if len(index) > 1:
        if len(values) != 1:
            raise FileError(
                f"{path}: a table with one row for each entry has one column of values, not {', '.join(values)}: "
                f"write '{path.name}[{','.join(index)}:VALUE]'."
            )
        return _unstack(path, frame, index, values[0])
    if index:
        frame = frame.set_index(index[0])
    for name in values:
        _check_numeric(path, frame, name)
    return frame[values[0]] if single else frame[values]


def read_column(path: Path, key: str | None) -> Any:
    """One column, of numbers or text; the only one if none is named."""
    frame = _load(path)
    names = _names(path, frame, key) if key else list(frame.columns)
    if len(names) != 1:
        raise FileError(f"{path}: expected one column, not {', '.join(map(str, names))}: write '{path.name}[NAME]'.")
    return frame[names[0]].to_numpy()


def _load(path: Path) -> Any:
    pandas = need("pandas", f"reading {path.suffix}")
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        need("pyarrow", "reading .parquet")
        frame = pandas.read_parquet(path)
        return frame if frame.index.names == [None] else frame.reset_index()
    header = None if _starts_with_numbers(path, SEPARATORS[suffix]) else "infer"
    # Later versions read every digit by default, and do not want to be asked.
    exact = {} if _version(pandas) >= (3, 1) else {"float_precision": "round_trip"}
    frame = pandas.read_csv(path, sep=SEPARATORS[suffix], header=header, **exact)
    frame.attrs["headerless"] = header is None
    frame.columns = frame.columns.astype(str)
    return frame


def _version(module: Any) -> tuple[int, ...]:
    return tuple(int(part) for part in module.__version__.split(".")[:2])


def _starts_with_numbers(path: Path, separator: str) -> bool:
    """Whether the first line is data already."""
    with path.open(encoding="utf-8-sig") as file:
        fields = file.readline().strip().split(separator)
    try:
        return bool([float(field.strip('"')) for field in fields])
    except ValueError:
        return False


def _all_columns(path: Path, frame: Any) -> Any:
    """All columns; the first names the samples if it holds text."""
    if frame.attrs.get("headerless"):
        return frame.to_numpy()
    if frame.shape[1] > 1 and frame[frame.columns[0]].dtype.kind not in "biuf":
        frame = frame.set_index(frame.columns[0])
    for name in frame.columns:
        _check_numeric(path, frame, name)
    return frame


def _names(path: Path, frame: Any, text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in frame.columns:
            columns = ", ".join(map(str, frame.columns[:20])) + (", ..." if frame.shape[1] > 20 else "")
            raise FileError(f"{path} has no column {name!r}: it has {columns}.")
    return names


def _check_numeric(path: Path, frame: Any, name: str) -> None:
    if frame[name].dtype.kind not in "biuf":
        raise FileError(
            f"{path}: column {name!r} holds text, as in {frame[name].iloc[0]!r}: name the columns to take, as in "
            f"'{path.name}[age,weight]', or the one that names the samples, as in '{path.name}[{name}:age,weight]'."
        )


def _unstack(path: Path, frame: Any, index: list[str], value: str) -> Any:
    """DataArray with a mode for each index column, labels in the order in which they appear."""
    pandas, xarray = need("pandas", "reading tables"), need("xarray", "reading tables with a row for each entry")
    _check_numeric(path, frame, value)
    codes, labels = zip(*(pandas.factorize(frame[name], use_na_sentinel=False) for name in index), strict=True)
    shape = tuple(len(names) for names in labels)
    if math.prod(shape) > 1000 * len(frame):
        raise FileError(
            f"{path} has {len(frame)} rows for {' × '.join(map(str, shape))} combinations of {', '.join(index)}: "
            "every one needs a row. Are these the columns that tell an entry's place?"
        )
    place = np.ravel_multi_index(codes, shape)
    counts = np.bincount(place, minlength=int(np.prod(shape)))
    if (counts != 1).any():
        first = int(np.flatnonzero(counts != 1)[0])
        entry = ", ".join(
            f"{name}={names[k]}" for name, names, k in zip(index, labels, np.unravel_index(first, shape), strict=True)
        )
        fault = "no row" if counts[first] == 0 else f"{counts[first]} rows"
        raise FileError(
            f"{path} has {fault} for {entry}: every combination of {', '.join(index)} needs one row "
            f"({np.count_nonzero(counts == 0)} of {counts.size} have none, {np.count_nonzero(counts > 1)} several)."
        )
    flat = np.empty(counts.size, dtype=frame[value].dtype)
    flat[place] = frame[value].to_numpy()
    coords = {name: np.asarray(names) for name, names in zip(index, labels, strict=True)}
    return xarray.DataArray(flat.reshape(shape), dims=index, coords=coords, name=value)
