"""Cross-validation on statistics: every sample is read once, whatever the number of folds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dst2r.statistics.base import is_lazy
from dst2r.statistics.gram import GramStatistics

Split = tuple[NDArray[np.intp], NDArray[np.intp]]


def fold_statistics(
    X: Any, Y: Any, splits: Sequence[Split], sample_weight: Any, *, center: bool
) -> tuple[GramStatistics, list[tuple[GramStatistics, GramStatistics]]]:
    """Statistics of all samples, and of the training and test set of every split.

    Where the test sets partition the samples and every training set is all the rest, as in K-fold, each sample is
    read once and the statistics of the parts are added up; other splits are accumulated one by one. Of Dask arrays
    every chunk is read once, whatever the splits.
    """

    def of(subsets: Sequence[slice | NDArray[np.intp]]) -> list[GramStatistics]:
        if is_lazy(X):
            from dst2r.statistics.dask import subset_statistics  # one pass for all

            return subset_statistics(X, Y, subsets, sample_weight, center=center)
        weights = (None if sample_weight is None else sample_weight[rows] for rows in subsets)
        return [
            GramStatistics.from_arrays(X[rows], Y[rows], weight, center=center)
            for rows, weight in zip(subsets, weights, strict=True)
        ]

    if _is_partition(splits, X.shape[0]):
        parts = of([test for _, test in splits])
        folds = list(zip(leave_one_out(parts), parts, strict=True))
        return folds[0][0] + folds[0][1], folds
    total, *rest = of([slice(None), *chain.from_iterable(splits)])
    return total, list(zip(rest[::2], rest[1::2], strict=True))


def leave_one_out(parts: Sequence[GramStatistics]) -> list[GramStatistics]:
    """Sums of all parts but one, by prefix and suffix sums: subtracting a part from the total would cancel."""
    prefix = list(accumulate(parts, add))
    suffix = list(accumulate(reversed(parts), add))[::-1]
    inner = [prefix[k - 1] + suffix[k + 1] for k in range(1, len(parts) - 1)]
    return [suffix[1], *inner, prefix[-2]]


def _is_partition(splits: Sequence[Split], n: int) -> bool:
    """Whether every sample is tested once, and trains once wherever it is not tested."""
    tested = np.zeros(n, dtype=int)
    for train, test in splits:
        used = np.bincount(train, minlength=n) + np.bincount(test, minlength=n)
        if (used != 1).any():
            return False
        tested[test] += 1
    return len(splits) > 1 and bool((tested == 1).all())
