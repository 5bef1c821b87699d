"""The data: the only place of the package that sees X and Y."""

from dst2r.statistics.base import Statistics, is_lazy
from dst2r.statistics.choice import choose, gather, gather_folds, require_room
from dst2r.statistics.dask import DaskStatistics
from dst2r.statistics.folds import fold_statistics, leave_one_out
from dst2r.statistics.gram import GramStatistics
from dst2r.statistics.rows import RowStatistics

__all__ = [
    "DaskStatistics",
    "GramStatistics",
    "RowStatistics",
    "Statistics",
    "choose",
    "fold_statistics",
    "gather",
    "gather_folds",
    "is_lazy",
    "leave_one_out",
    "require_room",
]
