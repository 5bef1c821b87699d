"""The data: the only place of the package that sees X and Y."""

from dst2r.statistics.base import Statistics
from dst2r.statistics.folds import fold_statistics, leave_one_out
from dst2r.statistics.gram import GramStatistics

__all__ = ["GramStatistics", "Statistics", "fold_statistics", "leave_one_out"]
