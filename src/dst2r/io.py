"""Arrays from and to files, by suffix; lazily where the format allows it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from dst2r._files import written_whole

SPEC = re.compile(r"(?P<path>.*?)(\[(?P<key>[^\[\]]*)\])?")


def open_array(spec: str | os.PathLike[str], *, lazy: bool = True) -> Any:
    """Open the array that a specification names.

    Parameters
    ----------
    spec : str or path-like
        A file, with the array's name in brackets where the file holds several: ``X.npy``, ``data.npz[X]``.
    lazy : bool, default=True
        Leave the numbers on disk until they are used, where the format allows it.

    Returns
    -------
    ndarray or memmap
    """
    path, key = split_spec(spec)
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{path} has the unknown suffix {path.suffix!r}; arrays are read from {', '.join(READERS)}.")
    try:
        array = reader(path, key, lazy)
    except (ValueError, EOFError, OSError) as error:
        if isinstance(error, ValueError) and str(path) in str(error):
            raise
        raise ValueError(f"{path} cannot be read as {path.suffix}: {error}") from error
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{spec} holds {array.dtype} entries; expected real numbers.")
    return array


def write_array(path: str | os.PathLike[str], array: Any, *, overwrite: bool = False) -> None:
    """Write an array to a file, by suffix; the file appears whole or not at all.

    Parameters
    ----------
    path : path-like
    array : array-like
    overwrite : bool, default=False
        Whether a file of that name may be replaced.
    """
    path = Path(path)
    writer = WRITERS.get(path.suffix.lower())
    if writer is None:
        raise ValueError(f"{path} has the unknown suffix {path.suffix!r}; arrays are written to {', '.join(WRITERS)}.")
    with written_whole(path, overwrite=overwrite) as temporary:
        writer(temporary, array)


def split_spec(spec: str | os.PathLike[str]) -> tuple[Path, str | None]:
    """Path and key of ``path[key]``; a file whose name has brackets is taken by its name."""
    text = os.fspath(spec)
    match = SPEC.fullmatch(text)
    if match is None or Path(text).exists():
        return Path(text), None
    return Path(match["path"]), match["key"]


def _read_npy(path: Path, key: str | None, lazy: bool) -> Any:
    if key is not None:
        raise ValueError(f"{path} holds a single array: leave out [{key}].")
    return np.load(path, mmap_mode="r" if lazy else None, allow_pickle=False)


def _read_npz(path: Path, key: str | None, lazy: bool) -> Any:
    del lazy  # NumPy cannot map a member of a zip
    with np.load(path, allow_pickle=False) as archive:
        return archive[choose_key(path, key, archive.files)]


def choose_key(path: Path, key: str | None, keys: Iterable[str]) -> str:
    """The key that was asked for, or the only one."""
    keys = list(keys)
    if key is None and len(keys) == 1:
        return keys[0]
    if key not in keys:
        names = ", ".join(keys) or "nothing"
        asked = f"has no array {key!r}" if key is not None else "holds several arrays"
        raise ValueError(f"{path} {asked}: name one of {names}, as in {path.name}[{keys[0] if keys else '...'}].")
    return key


def _write_npy(path: Path, array: Any) -> None:
    with path.open("wb") as file:
        npy.write_array(file, np.asarray(array), allow_pickle=False)


READERS: dict[str, Callable[[Path, str | None, bool], Any]] = {".npy": _read_npy, ".npz": _read_npz}
WRITERS: dict[str, Callable[[Path, Any], None]] = {".npy": _write_npy}
