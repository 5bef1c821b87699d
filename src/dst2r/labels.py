"""Names of modes and of their entries: what labelled arrays carry beside numbers.

A fitted estimator that was given labelled arrays holds a :class:`Labels` as ``labels_``; with plain arrays it is None.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

__all__ = ["Label", "Labels", "Mode"]

Label = str | int | float


@dataclass(frozen=True)
class Mode:
    """One mode of a predictor or response tensor.

    Attributes
    ----------
    name : str
        The dimension's name.
    labels : tuple of str, int or float, optional
        One per entry; None where the dimension has no coordinate. Dates are ISO 8601 strings.
    dtype : str
        NumPy's name of the coordinate's type, which turns ISO strings into dates again; "" leaves it to NumPy.
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
