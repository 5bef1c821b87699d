"""Names of modes and of their entries: what labelled arrays (xarray, pandas) carry beside numbers.

A fitted estimator that was given labelled arrays holds a :class:`Labels` as ``labels_``; with plain arrays it is None.
Three things are done here: names are taken off the arrays before a fit, the names of new arrays are compared with them,
and results are given back with names: DataArrays where DataArrays came. Where a DataFrame came, predictions are arrays,
as those of every estimator of scikit-learn, and ``set_output(transform="pandas")`` makes frames of component scores.
Nobody who brings plain arrays needs, or loads, the libraries.

Examples
--------
>>> import numpy as np, xarray as xr
>>> from dst2r import DST2R
>>> from dst2r.labels import labelled_coef, selected_entries
>>> rng = np.random.default_rng(0)
>>> X = xr.DataArray(rng.normal(size=(50, 3, 2)), dims=("patient", "gene", "tissue"))
>>> X = X.assign_coords(gene=["TP53", "MYC", "KRAS"], tissue=["liver", "lung"])
>>> Y = 2 * X.sel(gene="MYC", tissue="lung", drop=True) + 0.1 * rng.normal(size=50)
>>> model = DST2R().fit(X, Y)
>>> selected_entries(model)
component  weight  mode    label  value
1          1.993   gene    MYC     1.0000
1          1.993   tissue  lung    1.0000
>>> labelled_coef(model).sel(gene="MYC").round(1).to_series().to_dict()
{'liver': 0.0, 'lung': 2.0}
>>> model.predict(X.rename(gene="probe"))  # doctest: +ELLIPSIS
Traceback (most recent call last):
ValueError: X has the dimensions ['patient', 'probe', 'tissue'], but the fit had ... 'gene' is missing. ...
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pandas import DataFrame
    from xarray import DataArray

__all__ = [
    "Entries",
    "Entry",
    "Label",
    "Labels",
    "Mode",
    "as_fitted",
    "bare",
    "check_samples",
    "components_of",
    "is_xarray",
    "label_rows",
    "labelled_coef",
    "labelled_factors",
    "labels_of",
    "selected_entries",
    "take_labels",
]

Label = str | int | float
SHOWN = 60  # rows of a table that nobody asked to print


@dataclass(frozen=True)
class Mode:
    """One mode of a predictor or response tensor.

    Attributes
    ----------
    name : str
        The dimension's name.
    labels : tuple of str, int or float, optional
        One per entry; None where the dimension has no coordinate. Dates are ISO 8601 strings; whatever else is neither
        text nor number is kept as its text.
    dtype : str
        NumPy's name of a number's or date's type, which makes the coordinate what it was; "" for texts.
    """

    name: str
    labels: tuple[Label, ...] | None
    dtype: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not isinstance(self.dtype, str):
            raise ValueError(f"a mode's name and dtype are {self.name!r} and {self.dtype!r}; expected two strings.")
        if self.labels is None:
            return
        object.__setattr__(self, "labels", tuple(self.labels))
        for label in self.labels:
            if not isinstance(label, str | int | float):
                raise ValueError(f"mode {self.name!r} has the label {label!r}; expected a string or a number.")

    @classmethod
    def of(cls, name: Any, values: NDArray[Any] | None) -> Self:
        """Mode of a coordinate, or of none."""
        if values is None:
            return cls(name, None)
        kind = values.dtype.kind
        if kind == "M":
            found = np.datetime_as_string(values, unit="auto").tolist()
        elif kind == "m":
            from pandas import to_timedelta  # NumPy reads no durations

            found = [str(value) for value in to_timedelta(values)]
        else:
            found = [_label(value) for value in (values.astype(str) if kind == "S" else values).tolist()]
        missing = [k for k, label in enumerate(found) if label != label or label == "NaT"]  # noqa: PLR0124
        if missing:
            raise ValueError(f"the label of entry {missing[0]} of {name!r} is missing: give every entry a label.")
        return cls(name, tuple(found), str(values.dtype) if kind in "biufmM" else "")

    def coordinate(self) -> NDArray[Any]:
        """Labels as an array of their type."""
        if self.labels is None:
            raise ValueError(f"mode {self.name!r} has no labels.")
        if self.dtype.startswith("timedelta"):
            from pandas import to_timedelta

            return np.asarray(to_timedelta(list(self.labels)), dtype=self.dtype)
        mixed = len({isinstance(label, str) for label in self.labels}) > 1
        return np.array(self.labels, dtype=self.dtype or (object if mixed else None))

    def to_json(self) -> dict[str, Any]:
        """Plain dictionary, for JSON."""
        return {"name": self.name, "labels": None if self.labels is None else list(self.labels), "dtype": self.dtype}

    @classmethod
    def from_json(cls, entry: Any) -> Self:
        """Read what :meth:`to_json` wrote; a ValueError tells what is wrong with anything else."""
        if not isinstance(entry, dict) or not entry.keys() >= {"name", "labels"}:
            raise ValueError(f"a mode is stored as {entry!r}; expected a dictionary with 'name' and 'labels'.")
        labels = entry["labels"]
        if not isinstance(labels, list | None):
            raise ValueError(f"the labels of mode {entry['name']!r} are {labels!r}; expected a list or null.")
        return cls(entry["name"], None if labels is None else tuple(labels), entry.get("dtype", ""))


@dataclass(frozen=True)
class Labels:
    """Names of all modes of a fitted model.

    Attributes
    ----------
    x, y : tuple of Mode
        Modes of the predictors and of the responses, without the sample.
    sample : str
        Name of the sample dimension.
    """

    x: tuple[Mode, ...]
    y: tuple[Mode, ...]
    sample: str

    def __post_init__(self) -> None:
        if not isinstance(self.sample, str):
            raise ValueError(f"the sample dimension is named {self.sample!r}; expected a string.")

    @classmethod
    def plain(cls, n_x_modes: int, n_y_modes: int) -> Self:
        """Names for the modes of plain arrays: x1, x2, ..., y1, y2, ..."""
        x = tuple(Mode(f"x{k + 1}", None) for k in range(n_x_modes))
        y = tuple(Mode(f"y{k + 1}", None) for k in range(n_y_modes))
        return cls(x, y, "sample")

    def names(self) -> list[str]:
        """Names of all modes, X first, each once: a response mode that shares its name with another gets ``_y``."""
        names: list[str] = []
        for mode in self.x + self.y:
            name = mode.name
            while name in names:
                name += "_y"
            names.append(name)
        return names

    def to_json(self) -> dict[str, Any]:
        """Plain dictionary, for JSON."""
        x, y = ([mode.to_json() for mode in modes] for modes in (self.x, self.y))
        return {"sample": self.sample, "x": x, "y": y}

    @classmethod
    def from_json(cls, entry: Any) -> Self:
        """Read what :meth:`to_json` wrote; a ValueError tells what is wrong with anything else."""
        if not isinstance(entry, dict) or not entry.keys() >= {"sample", "x", "y"}:
            raise ValueError(f"labels are stored as {entry!r}; expected a dictionary with 'sample', 'x' and 'y'.")
        for side in ("x", "y"):
            if not isinstance(entry[side], list):
                raise ValueError(f"the modes of {side} are stored as {entry[side]!r}; expected a list.")
        x, y = (tuple(Mode.from_json(mode) for mode in entry[side]) for side in ("x", "y"))
        return cls(x, y, entry["sample"])


# Arrays with names: off before a fit, compared before a prediction, on again after it.


def take_labels(X: Any, y: Any) -> tuple[Any, Any, Labels | None]:
    """Training arrays without names and with the sample first, and the names; plain arrays as they are, and None.

    Lazy data stay lazy. A DataFrame is handed on whole: scikit-learn reads its columns, too.
    """
    named = [axes for what, array in (("X", X), ("y", y)) if (axes := _axes(what, array)) is not None]
    if not named:
        return X, y, None
    sample = _common_sample(named)
    X, y = (array.transpose(sample, ...) if is_xarray(array) else array for array in (X, y))
    check_samples(X, y)
    labels = Labels(_modes("X", X), _modes("y", y), sample)
    X, y = (bare(array) if is_xarray(array) else array for array in (X, y))
    return X, y, labels


def as_fitted(what: str, array: Any, modes: Sequence[Mode]) -> Any:
    """New data in the order of the fitted modes and labels, sample first; plain arrays as they are.

    Dimensions in another order are transposed and labels in another order are put in order; a ValueError names
    whatever else differs. A mode that has no labels, here or in the fit, is compared by its size alone.
    """
    axes = _axes(what, array)
    if axes is None:
        return array
    if not is_xarray(array):
        if len(axes) == 2 and len(modes) == 1:
            order = _order(what, modes[0], array.shape[1], axes[1][1])
            array = array if order is None else array.iloc[:, order]
        return array
    array = _sample_first(what, array, modes)
    if array.dims[1:] != tuple(mode.name for mode in modes):
        return array  # the fit saw a plain array: modes go by position
    for mode in modes:
        order = _order(what, mode, array.sizes[mode.name], dict(axes)[mode.name])
        array = array if order is None else array.isel({mode.name: order})
    return array


def bare(array: Any) -> Any:
    """The data of a DataArray, lazy if they are, or of a DataFrame; other arrays as they are."""
    if is_xarray(array):
        return array.data
    return array.to_numpy() if _is_pandas(array) else array


def check_samples(X: Any, y: Any) -> None:
    """Raise if X and y, sample first, both label their samples and do it differently."""
    axes = _axes("X", X), _axes("y", y)
    if axes[0] is None or axes[1] is None:
        return
    (name, ours), (_, theirs) = axes[0][0], axes[1][0]
    if ours is None or theirs is None or np.array_equal(ours, theirs):
        return
    in_x, in_y = (Mode.of(str(name), values).labels or () for values in (ours, theirs))
    where = f"X has {len(in_x)} samples, y has {len(in_y)}"
    if sorted(map(str, in_x)) == sorted(map(str, in_y)):
        where = "they hold the same labels in another order"
    elif (first := _first_difference(in_x, in_y)) is not None:
        where = f"sample {first} is {in_x[first]!r} in X and {in_y[first]!r} in y"
    way = 'X.align(y, join="inner", axis=0)'
    if is_xarray(X) and is_xarray(y):
        shared = [dim for dim in X.dims[1:] if dim in y.dims[1:]]
        way = f'xarray.align(X, y, join="inner"{f", exclude={shared}" if shared else ""})'
    raise ValueError(f"X and y label their samples differently: {where}. Align them first: X, y = {way}.")


def label_rows(values: Any, like: Any, labels: Labels, modes: Sequence[Mode]) -> Any:
    """Results with one row for each sample of ``like``, as a DataArray if that is one.

    The samples keep their coordinates; ``modes`` name the other axes.
    """
    if not is_xarray(like):
        return values
    from xarray import DataArray

    sample = _sample_first("X", like, labels.x).dims[0]
    names = [mode.name for mode in modes]
    if sample in names:
        raise ValueError(f"X calls its samples {sample!r}, and so is a mode of the result called: rename one in X.")
    others = [key for key, value in like.coords.items() if set(value.dims) - {sample} or key in names]
    coordinates = like.coords.to_dataset().drop_vars(others).coords
    own = {mode.name: mode.coordinate() for mode in modes if mode.labels is not None}
    return DataArray(values, dims=(sample, *names), coords=coordinates).assign_coords(own)


def is_xarray(array: Any) -> bool:
    """Whether this is a DataArray with dimensions; nobody has one who has not imported xarray."""
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(array, xarray.DataArray) and array.ndim > 0


Axes = list[tuple[Any, "NDArray[Any] | None"]]  # name and coordinate of every axis


def _label(value: Any) -> Label:
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, str | int | float) else str(value)


def _is_pandas(array: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(array, pandas.DataFrame | pandas.Series)


def _only_counts(index: Any) -> bool:
    """Whether a pandas index is the one that arrays without labels get."""
    return isinstance(index, sys.modules["pandas"].RangeIndex) and index.start == 0 and index.step == 1


def _axes(what: str, array: Any) -> Axes | None:
    """Names and coordinates of a DataArray's, DataFrame's or Series' axes; None for plain arrays."""
    xarray = sys.modules.get("xarray")
    if xarray is not None and isinstance(array, xarray.Dataset):
        first = next(iter(array.data_vars), "name")
        raise ValueError(f"{what} is an xarray Dataset: give one variable, as in {what}[{first!r}], or to_dataarray().")
    if is_xarray(array):
        return [(dim, np.asarray(array.coords[dim]) if dim in array.coords else None) for dim in array.dims]
    if _is_pandas(array):
        return [(axis.name, None if _only_counts(axis) else np.asarray(axis)) for axis in array.axes]
    return None


def _modes(what: str, array: Any) -> tuple[Mode, ...]:
    """Modes of an array whose first axis is the sample."""
    axes = _axes(what, array)
    if axes is None:
        n_modes = max(np.ndim(array) - 1, 0)
        return getattr(Labels.plain(n_modes, n_modes), what.lower())
    unnamed = {"X": "feature", "y": "response"}[what]
    return tuple(Mode.of(unnamed if name is None else name, values) for name, values in axes[1:])


def _common_sample(named: Sequence[Axes]) -> str:
    """Name of the sample: the first dimension of all arrays, or else the only one that they share."""
    firsts = [axes[0][0] for axes in named if axes[0][0] is not None]
    if len(set(firsts)) <= 1:
        return firsts[0] if firsts else "sample"
    X, y = ([name for name, _ in axes] for axes in named)
    common = [name for name in X if name in y]
    if len(common) != 1:
        raise ValueError(
            f"X has the dimensions {X} and y {y}; which is the sample? Give it the same name in both and put it first: "
            f"y = y.rename(...), y = y.transpose({X[0]!r}, ...)."
        )
    return common[0]


def _sample_first(what: str, array: Any, modes: Sequence[Mode]) -> Any:
    """Transpose a DataArray to the sample and the fitted modes; by position where the fit saw a plain array."""
    names = [mode.name for mode in modes]
    samples = [dim for dim in array.dims if dim not in names]
    missing = [name for name in names if name not in array.dims]
    if len(samples) == 1 and not missing:
        return array.transpose(*samples, *names)
    if tuple(modes) in (Labels.plain(len(modes), 0).x, Labels.plain(0, len(modes)).y) and array.ndim == len(modes) + 1:
        return array
    if missing:
        fault = f"{missing[0]!r} is missing"
    elif samples:
        fault = f"{samples} cannot all be the sample"
    else:
        fault = "the sample is missing (expand_dims adds one)"
    raise ValueError(
        f"{what} has the dimensions {list(array.dims)}, but the fit had a sample and {names}: {fault}. "
        "Rename, select or add dimensions until they agree; their order does not matter."
    )


def _order(what: str, mode: Mode, size: int, values: NDArray[Any] | None) -> list[int] | None:
    """Positions of the fitted labels among new ones, None if they are in place; raise if they are not the same."""
    new = Mode.of(mode.name, values).labels
    if mode.labels is None or new is None:
        if mode.labels is not None and len(mode.labels) != size:
            raise ValueError(f"{what} has {size} entries along {mode.name!r}, the fit had {len(mode.labels)}.")
        return None
    if _same(new, mode.labels):
        return None
    ours, theirs = _sorting(new), _sorting(mode.labels)
    if len(set(new)) == len(new) and _same([new[i] for i in ours], [mode.labels[i] for i in theirs]):
        place = dict(zip(theirs, ours, strict=True))
        return [place[k] for k in range(len(new))]
    hint = "the labels must be the fitted ones, in any order"
    if set(new) > set(mode.labels):
        hint = f"it holds all fitted labels and more: select them with {what}.sel({mode.name}=...)"
    first = _first_difference(new, mode.labels)
    if first is None:
        fault = f"it has {size} labels, the fit had {len(mode.labels)}"
    else:
        fault = f"entry {first} is {new[first]!r}, the fit had {mode.labels[first]!r}"
    raise ValueError(f"{what} differs from the fit along {mode.name!r}: {fault}; {hint}.")


def _sorting(labels: Sequence[Label]) -> list[int]:
    """Positions in the order of the labels, numbers first."""
    return sorted(range(len(labels)), key=lambda k: (isinstance(labels[k], str), labels[k]))


def _first_difference(new: Sequence[Label], old: Sequence[Label]) -> int | None:
    """Where two sequences part; None if one is the beginning of the other."""
    return next((k for k, (a, b) in enumerate(zip(new, old, strict=False)) if not _same([a], [b])), None)


def _same(new: Sequence[Label], old: Sequence[Label]) -> bool:
    """Whether labels agree; numbers to a thousandth of their least distance, as files round them."""
    if len(new) != len(old):
        return False
    if tuple(new) == tuple(old):
        return True
    if any(isinstance(label, str) for label in (*new, *old)):
        return False
    a, b = np.array(new, dtype=float), np.array(old, dtype=float)
    gaps = np.diff(np.sort(b))
    least = gaps[gaps > 0].min(initial=np.inf)
    tol = 1e-3 * least if np.isfinite(least) else 1e-6 * np.abs(b).max(initial=0.0)
    return bool((np.abs(a - b) <= tol).all())


# Results with names.


def labelled_coef(model: Any) -> DataArray:
    """Coefficient of a fitted model as a DataArray: ``coef_`` with the names of its modes and entries.

    A response mode that shares its name with another mode gets ``_y`` behind it.

    Parameters
    ----------
    model : fitted estimator
        With ``labels_`` None the modes are x1, x2, ..., y1, ..., without coordinates.

    Returns
    -------
    DataArray
    """
    from xarray import DataArray

    labels = labels_of(model)
    names, modes = labels.names(), labels.x + labels.y
    coordinates = {name: mode.coordinate() for name, mode in zip(names, modes, strict=True) if mode.labels is not None}
    return DataArray(model.coef_, dims=names, coords=coordinates, name="coefficient")


def labelled_factors(model: Any) -> list[DataArray]:
    """Factor matrices of a fitted model as DataArrays (mode × component), predictor modes first.

    Components count from 1; each carries its weight as a coordinate.

    Parameters
    ----------
    model : fitted estimator with components
        ``DST2R``, ``DST2RCV``, or a baseline that has ``cp_``.

    Returns
    -------
    list of DataArray
    """
    from xarray import DataArray

    weights, factors = components_of(model)
    labels = labels_of(model)
    shared = {"component": np.arange(len(weights)) + 1, "weight": ("component", weights)}
    found = []
    for name, mode, factor in zip(labels.names(), labels.x + labels.y, factors, strict=True):
        own = {} if mode.labels is None else {name: mode.coordinate()}
        found.append(DataArray(factor, dims=(name, "component"), coords=shared | own, name="factor"))
    return found


class Entry(NamedTuple):
    """One selected entry: a factor's number that is not zero."""

    component: int
    weight: float
    mode: str
    label: Label
    value: float


@dataclass(frozen=True, repr=False)
class Entries(Sequence[Entry]):
    """Long table of selected entries: a sequence of ``Entry`` that prints as a table.

    Components come in decreasing weight, modes in their order, entries of a mode in decreasing size. ``print`` shows
    all of a long table, a notebook its beginning.
    """

    rows: tuple[Entry, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: Any) -> Any:
        return Entries(self.rows[at]) if isinstance(at, slice) else self.rows[at]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.rows)

    def __repr__(self) -> str:
        more = len(self) - SHOWN
        return f"{self[:SHOWN]}\n... and {more} more entries" if more > 0 else str(self)

    def __str__(self) -> str:
        cells = [(f"{r.component}", f"{r.weight:.4g}", r.mode, f"{r.label}", f"{r.value: .4f}") for r in self.rows]
        table = [Entry._fields, *cells]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table)
        return "\n".join(line.rstrip() for line in lines)

    def to_csv(self) -> str:
        """The table as text with a line for each entry; numbers in full."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(Entry._fields)
        writer.writerows(self.rows)
        return text.getvalue()

    def to_frame(self) -> DataFrame:
        """The table as a pandas DataFrame."""
        from pandas import DataFrame

        return DataFrame(self.rows, columns=list(Entry._fields))


def selected_entries(model: Any) -> Entries:
    """All entries that a fitted model selected: component, weight, mode, label and value of each.

    Parameters
    ----------
    model : fitted estimator with components
        Entries without labels go by their positions, from 0.

    Returns
    -------
    Entries

    Examples
    --------
    >>> from dst2r import DST2R, make_tensor_regression
    >>> from dst2r.labels import selected_entries
    >>> data = make_tensor_regression(200, (4, 3), (2,), rank=1, noise=0.1, random_state=2)
    >>> entries = selected_entries(DST2R().fit(data.X, data.Y))
    >>> entries[0].component, entries[0].mode
    (1, 'x1')
    """
    weights, factors = components_of(model)
    labels = labels_of(model)
    rows = []
    for r, weight in enumerate(weights):
        for name, mode, factor in zip(labels.names(), labels.x + labels.y, factors, strict=True):
            texts = range(len(factor)) if mode.labels is None else mode.labels
            largest_first = np.argsort(-np.abs(factor[:, r]), kind="stable")
            rows += [
                Entry(r + 1, float(weight), name, texts[k], float(factor[k, r]))
                for k in largest_first[: np.count_nonzero(factor[:, r])].tolist()
            ]
    return Entries(tuple(rows))


def labels_of(model: Any) -> Labels:
    """Labels of a fitted model; of one that saw plain arrays, names that count."""
    labels = getattr(model, "labels_", None)
    if labels is None:
        n_y_modes = model.intercept_.ndim
        labels = Labels.plain(model.coef_.ndim - n_y_modes, n_y_modes)
    return labels


def components_of(model: Any) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """Weights and factors of a fitted model, a factor for each mode of its coefficient."""
    if not hasattr(model, "cp_"):
        raise ValueError(
            f"{type(model).__name__} has no components (cp_): fit it first, or give a model that has them."
        )
    weights, factors = model.cp_
    if len(factors) != model.coef_.ndim:
        raise ValueError(
            f"the components of {type(model).__name__} have {len(factors)} modes, its coefficient {model.coef_.ndim}: "
            "it takes the predictors as one vector. Fit it to such, X.reshape(len(X), -1), to see its components."
        )
    return weights, factors
