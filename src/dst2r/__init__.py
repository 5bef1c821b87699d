"""Sparse low-rank tensor-on-tensor regression.

The public names are loaded on first use, so that ``import dst2r`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dst2r.estimators import DST2R, DST2RCV
    from dst2r.persistence import load, save
    from dst2r.simulation import make_tensor_regression
    from dst2r.statistics import GramStatistics

    __version__: str

__all__ = ["DST2R", "DST2RCV", "GramStatistics", "__version__", "load", "make_tensor_regression", "save"]

_HOMES = {
    "DST2R": "dst2r.estimators",
    "DST2RCV": "dst2r.estimators",
    "GramStatistics": "dst2r.statistics",
    "load": "dst2r.persistence",
    "make_tensor_regression": "dst2r.simulation",
    "save": "dst2r.persistence",
}

# Hidden from type checkers, which would otherwise take every misspelt name for an attribute.
if not TYPE_CHECKING:

    def __getattr__(name):
        if name == "__version__":
            value = import_module("importlib.metadata").version("dst2r")
        elif name in _HOMES:
            value = getattr(import_module(_HOMES[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
