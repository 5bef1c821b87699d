"""Arrays that stay on disk: Dask arrays that read whole samples, and name their file if that fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dst2r.io.common import FileError, need
from dst2r.labels import is_xarray

CHUNK_BYTES = 1 << 25  # of samples that a task reads, where the file does not say
LARGEST_BYTES = 1 << 28  # chunks of whole samples, where the file is chunked along modes, too


class Source:
    """Anything that can be sliced, as Dask reads it: damage that shows only now is told with the file's name."""

    def __init__(self, path: Path, array: Any, *, transposed: bool = False) -> None:
        self.path, self.array, self.transposed = path, array, transposed
        self.shape = tuple(array.shape[::-1] if transposed else array.shape)
        self.dtype, self.ndim = array.dtype, len(self.shape)

    def __getitem__(self, key: Any) -> Any:
        key = key if isinstance(key, tuple) else (key,)
        try:
            part = np.asarray(self.array[key[::-1] if self.transposed else key])
        except MemoryError:
            raise
        except Exception as error:  # what the libraries raise on damaged files is anyone's guess
            detail = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
            raise FileError(f"{self.path} cannot be read to its end ({detail}): fetch or make it again.") from error
        return part.T if self.transposed else part


class Rows:
    """Rows of an ``.npy`` file, read rather than mapped: what has been read does not stay in memory."""

    def __init__(self, path: Path, mapped: np.memmap[Any, Any]) -> None:
        self.path, self.mapped = path, mapped
        self.shape, self.dtype = mapped.shape, mapped.dtype

    def __getitem__(self, key: tuple[Any, ...]) -> Any:
        rows, *rest = key
        if not isinstance(rows, slice) or rows.step not in (None, 1) or not self.mapped.flags.c_contiguous:
            return self.mapped[key]
        start, stop, _ = rows.indices(len(self.mapped))
        shape = (max(stop - start, 0), *self.shape[1:])
        count, width = math.prod(shape), self.dtype.itemsize * math.prod(self.shape[1:])
        block = np.fromfile(self.path, self.dtype, count, offset=self.mapped.offset + start * width)
        if block.size < count:
            raise EOFError(f"it ends within sample {start + block.size * self.dtype.itemsize // width}")
        return block.reshape(shape)[(slice(None), *rest)]


def lazy_array(path: Path, array: Any, chunks: tuple[int, ...] | None = None, *, transposed: bool = False) -> Any:
    """Dask array of whole samples.

    Parameters
    ----------
    path : Path
        For messages.
    array : array-like on disk
    chunks : tuple of int, optional
        Those of the file.
    transposed : bool
        Whether the file's axes are in reverse order.
    """
    da = need("dask.array", f"reading {path.suffix} lazily")
    source = Source(path, array, transposed=transposed)
    width = max(1, source.dtype.itemsize * math.prod(source.shape[1:]))
    if chunks is None:
        rows = max(1, CHUNK_BYTES // width)
    elif chunks[0] * width <= LARGEST_BYTES:
        rows = max(1, chunks[0])
    else:  # reading whole samples would read such chunks again and again
        return da.from_array(source, chunks=chunks, name=False)
    return da.from_array(source, chunks=(rows, *(-1,) * (source.ndim - 1)), name=False)


def on_disk(array: Any) -> bool:
    """Whether the numbers of an array have not been read yet."""
    data = array.data if is_xarray(array) else array
    return isinstance(data, np.memmap) or type(data).__module__.startswith("dask.")


@contextmanager
def watched(tell: Callable[[int, int], None]) -> Iterator[None]:
    """Call ``tell(done, total)`` after each task of whatever Dask computes meanwhile."""
    counts = {"done": 0, "total": 0}

    def start(dsk: Any, state: Any) -> None:
        del dsk
        counts.update(done=0, total=sum(len(state[key]) for key in ("ready", "waiting")))

    def after(*_: Any) -> None:
        counts["done"] += 1
        tell(counts["done"], max(counts.values()))

    with need("dask.callbacks", "watching").Callback(start_state=start, posttask=after):
        yield
