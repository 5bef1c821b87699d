"""What reading and writing share."""

from __future__ import annotations

from importlib import import_module
from typing import Any

EXTRAS = {"dask": "dask", "zarr": "dask", "xarray": "xarray", "h5py": "xarray", "h5netcdf": "xarray"}


class FileError(ValueError):
    """A file that is not what it should be; the message says which, and what to do."""


def need(module: str, purpose: str) -> Any:
    """Import a library of an extra, or say which extra has it."""
    try:
        return import_module(module)
    except ImportError:
        top = module.split(".", maxsplit=1)[0]
        extra = EXTRAS.get(top, "tables")
        raise ImportError(f'{purpose} needs {top}: python -m pip install "dst2r[{extra}]"') from None
