"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def written_whole(path: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """Give a temporary name in the same folder, which becomes ``path`` if the block succeeds and vanishes if not.

    The block writes a file there, or makes a folder. What is at ``path`` is replaced at the end, and only if
    ``overwrite``.
    """
    path = Path(path)
    refuse_existing(path, overwrite=overwrite)
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
        temporary = Path(name)
        os.close(handle)
        yield temporary
        if temporary.is_file():
            temporary.chmod(0o666 & ~_umask())  # mkstemp's files are private
            _flush(temporary)  # some disks report only now that they are full
        refuse_existing(path, overwrite=overwrite)
        if path.is_dir() and temporary.is_dir():
            shutil.rmtree(path)
        temporary.replace(path)
    except OSError as error:
        ours = error.filename is None or temporary is None or str(error.filename).startswith(str(temporary))
        if not ours or isinstance(error, FileExistsError):
            raise
        detail = " ".join(str(error.strerror or error).split())  # HDF5 needs several lines
        raise OSError(error.errno, f"cannot be written ({detail})", str(path)) from error
    finally:
        if temporary is not None:
            _remove(temporary)


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Raise if there is something at ``path`` that may not be replaced."""
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists: choose another name, or ask to overwrite it.")


def _remove(path: Path) -> None:
    """Remove a file or folder, in which threads that have not heard of a failure may still be writing."""
    absent = not path.exists()
    for _ in range(50):
        if absent:
            return
        folder = path.is_dir()
        with suppress(OSError):
            shutil.rmtree(path) if folder else path.unlink()
        if folder:
            time.sleep(0.1)
        absent = not path.exists()


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
