"""What every estimator of the package shares: the scikit-learn surface for n-dimensional X and Y.

A method adds its parameters and ``fit_statistics``; it never sees X and Y, only their statistics.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from numbers import Integral, Real
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_array, check_is_fitted, validate_data
from threadpoolctl import ThreadpoolController

from dst2r.cp import Array
from dst2r.labels import Labels, Mode, as_fitted, bare, check_samples, is_xarray, label_rows, take_labels
from dst2r.metrics import r2_score
from dst2r.persistence import save
from dst2r.statistics import Statistics, gather, is_lazy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from sklearn.utils import Tags

FLOATS = [np.float64, np.float32]
SMALL = 2048  # predictor entries up to which a fit is quicker on one BLAS thread


class TensorRegressor(RegressorMixin, BaseEstimator):
    """Linear regression of a response tensor on a predictor tensor.

    Attributes set by :meth:`fit`: ``coef_`` of shape ``x_shape + y_shape``, ``intercept_`` of shape
    ``y_shape``, ``n_features_in_``, and ``labels_``, None for plain arrays.
    """

    fit_intercept: bool

    @abstractmethod
    def fit_statistics(self, stats: Statistics) -> Self:
        """Fit from statistics, however they were accumulated.

        Parameters
        ----------
        stats : Statistics
            For instance ``GramStatistics.from_arrays(X, Y)``, or a sum of such parts.
        """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit from arrays whose first axis is the sample.

        Parameters
        ----------
        X : array-like or Dask array of shape (n, d_1, ..., d_p)
            Of a Dask array, chunked along samples, one chunk at a time is in memory for each worker.
        y : array-like or Dask array of shape (n, d_{p+1}, ..., d_{p+q})
            The responses Y; shape (n,) is the scalar response, q = 0.

            Either may be an xarray DataArray, whose names are kept in ``labels_`` and compared at :meth:`predict`: the
            sample is the first dimension, or the only one that X and y share. pandas objects do where two axes suffice.
        sample_weight : array-like of shape (n,), optional
            A weight of k counts as k repetitions of the sample.
        """
        self._check_parameters()
        with self._all_or_nothing():
            return self._fit_samples(*self._validate_training(X, y, sample_weight))

    def _fit_samples(self, X: NDArray[Any], Y: NDArray[Any], weight: Array | None) -> Self:
        """Fit from checked arrays; for methods that need more than the statistics of all samples."""
        return self.fit_statistics(gather(X, Y, weight, center=self.fit_intercept))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predicted responses, shape ``(n, *y_shape)``: float32 for float32 input, labelled or lazy if the input is."""
        check_is_fitted(self)
        shape = self.intercept_.shape
        coef = self.coef_.reshape(-1, math.prod(shape))
        function = partial(predictions, coef=coef, intercept=self.intercept_.ravel())
        return self._map_samples(X, function, shape, self._names.y)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R² of the predictions, averaged over response entries: scikit-learn's definition on flattened responses."""
        predicted, observed = self.predict(X), as_fitted("y", y, self._names.y)
        check_samples(predicted, observed)
        if is_lazy(bare(predicted)):
            from dst2r.statistics.dask import r2_score as lazy_r2_score

            return lazy_r2_score(bare(observed), bare(predicted), sample_weight)
        return float(r2_score(np.asarray(observed), np.asarray(predicted), sample_weight=sample_weight))

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fitted model to a file that :func:`dst2r.load` reads back, exactly.

        Parameters
        ----------
        path : path-like
            By custom with the suffix ``.dst2r``. The file appears whole or not at all.
        overwrite : bool, default=False
            Whether a file of that name may be replaced.
        """
        save(self, path, overwrite=overwrite)

    def _check_parameters(self) -> None:
        """Complain about constructor parameters, before the data are touched."""

    def _validate_training(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, *, reset: bool = True, least: int = 2
    ) -> tuple[NDArray[Any], NDArray[Any], Array | None]:
        """Check arrays of ``least`` samples or more, of the fitted features unless ``reset``; Dask arrays stay lazy."""
        X, y, self._labels_seen = take_labels(X, y)
        if any(map(is_lazy, (X, y, sample_weight))):
            from dst2r.statistics.dask import training_arrays

            self.__dict__.pop("feature_names_in_", None)
            return training_arrays(X, y, sample_weight, least=least)
        x_rules = {"dtype": FLOATS, "allow_nd": True, "ensure_min_samples": least}
        y_rules = {"dtype": np.float64, "allow_nd": True, "ensure_2d": False, "ensure_min_features": 0}
        X, Y = validate_data(self, X, y, reset=reset, validate_separately=(x_rules, y_rules))
        if Y.ndim == 0 or Y.shape[0] != X.shape[0]:
            raise ValueError(
                f"X has {X.shape[0]} samples, y has {Y.shape[0] if Y.ndim else 'none'}: "
                "both need one entry per sample along their first axis."
            )
        for name, array in (("X", X), ("y", Y)):
            if array.size == 0:
                raise ValueError(f"{name} of shape {array.shape} holds no entry: every mode needs at least one.")
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return X, Y, weight

    @property
    def _x_shape(self) -> tuple[int, ...]:
        return self.coef_.shape[: self.coef_.ndim - self.intercept_.ndim]

    @property
    def _names(self) -> Labels:
        """What the modes are called, also those of plain arrays."""
        return self.labels_ or Labels.plain(len(self._x_shape), self.intercept_.ndim)

    def _map_samples(
        self, X: Any, function: Callable[[NDArray[Any]], NDArray[Any]], shape: tuple[int, ...], modes: Sequence[Mode]
    ) -> Any:
        """Apply a function of matrices (n, P) to checked predictors; lazily, chunk by chunk, to Dask arrays.

        ``shape`` and ``modes`` are those of its result for one sample.
        """
        rows: Any = X
        if getattr(X, "ndim", 0) > 2 and not is_xarray(X):  # scikit-learn would tell of the first mode only
            self._check_shape(X)
        if is_xarray(X) or (self.labels_ is not None and not hasattr(self, "feature_names_in_")):
            rows = bare(as_fitted("X", X, self._names.x))
            if not is_lazy(rows):
                rows = check_array(rows, dtype=FLOATS, allow_nd=True)
        elif not is_lazy(X) and len(self._x_shape) > 1:
            rows = check_array(X, dtype=FLOATS, allow_nd=True, input_name="X")
        elif not is_lazy(X):  # scikit-learn counts the columns of matrices, and compares those of DataFrames
            rows = validate_data(self, X, reset=False, dtype=FLOATS, allow_nd=True)
        self._check_shape(rows)
        if is_lazy(rows):
            from dst2r.statistics.dask import map_samples

            values: Any = map_samples(rows, function, shape)
        else:
            values = function(rows.reshape(len(rows), -1)).reshape(len(rows), *shape)
        return label_rows(values, X, self._names, modes)

    def _check_shape(self, X: Any) -> None:
        """Raise unless samples have the shape of those of the fit."""
        if X.shape[1:] != self._x_shape:
            raise ValueError(
                f"X has samples of shape {X.shape[1:]}, but {type(self).__name__} was fitted on {self._x_shape}: "
                "give the same modes in the same order, samples first."
            )

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Leave the estimator as it was if a fit is interrupted."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _set_coefficient(self, coef: Array, intercept: Array, stats: Statistics) -> None:
        """Store a (P, Q) coefficient and a (Q,) intercept in the user's shapes."""
        self.coef_ = coef.reshape(stats.x_shape + stats.y_shape)
        self.intercept_ = intercept.reshape(stats.y_shape)
        # None if there were only statistics; what fit saw is used up, for a later fit from statistics does not know it.
        self.labels_: Labels | None = self.__dict__.pop("_labels_seen", None)
        if getattr(self, "n_features_in_", None) != stats.x_shape[0]:  # fitted from statistics
            self.n_features_in_ = stats.x_shape[0]
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.three_d_array = True
        return tags


def blas_threads(stats: Statistics) -> AbstractContextManager[object]:
    """Context in which BLAS uses one thread where matrices are small.

    NumPy's and SciPy's wheels bring a BLAS each, whose idle threads spin: a solver that calls both in turn would
    wait for cores most of the time. SciPy's sees small matrices only; NumPy's keeps its threads for passes over rows.
    """
    every, of_scipy = _blas()
    return (every if stats.n_x <= SMALL else of_scipy).limit(limits=1)


@cache
def _blas() -> tuple[ThreadpoolController, ThreadpoolController]:
    every = ThreadpoolController().select(user_api="blas")
    paths = [library.filepath for library in every.lib_controllers]
    return every, every.select(filepath=[path for path in paths if "scipy.libs" in path])


def predictions(rows: NDArray[Any], *, coef: Array, intercept: Array) -> NDArray[Any]:
    """``rows @ coef + intercept`` in the precision of the rows."""
    return rows @ coef.astype(rows.dtype, copy=False) + intercept.astype(rows.dtype, copy=False)


def check_number(
    name: str,
    value: Any,
    *,
    low: float = 0.0,
    strict: bool = False,
    integer: bool = False,
    otherwise: str = "",
) -> None:
    """Raise unless ``value`` is a finite number (or integer) that is at least, or strictly above, ``low``.

    ``otherwise`` names what else the caller accepts.
    """
    kind = Integral if integer else Real
    good = isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(value)
    if not good or value < low or (strict and value == low):
        bound = f"{'greater than' if strict else 'at least'} {low:g}"
        other = f", or {otherwise}" if otherwise else ""
        raise ValueError(f"{name} is {value!r}; expected {'an integer' if integer else 'a number'} {bound}{other}.")


def check_numbers(name: str, values: Any, *, low: float = 0.0, integer: bool = False) -> None:
    """Raise unless ``values`` is a sequence of one or more numbers that pass :func:`check_number`."""
    if not hasattr(values, "__len__") or isinstance(values, str) or len(values) == 0:
        raise ValueError(
            f"{name} is {values!r}; expected at least one {name.removesuffix('s')}, as in ({low + 1:g}, {low + 2:g})."
        )
    for value in values:
        check_number(name, value, low=low, integer=integer)


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    if not any(value is c or value == c for c in choices):
        raise ValueError(f"{name} is {value!r}; expected one of {', '.join(map(repr, choices))}.")


__all__ = ["TensorRegressor", "blas_threads", "check_choice", "check_number", "check_numbers"]
