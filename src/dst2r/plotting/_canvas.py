"""What all pictures share: matplotlib on first use, colours that survive grey, names of modes and entries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from dst2r.cp import Array
from dst2r.labels import Mode, labels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# Dark and light, so that signs differ in grey, too.
POSITIVE, NEGATIVE = "#1f4e79", "#ef9b45"
INK, FAINT = "0.1", "0.75"
DASHES = ("-", (0, (4, 1)), (0, (1, 1)), (0, (4, 1, 1, 1)))
MAX_LETTERS = 18
LETTER, LINE = 0.075, 0.125  # inches that small print takes: a letter's width, a line's height


def matplotlib(module: str) -> Any:
    """A module of matplotlib, imported on first use."""
    try:
        return import_module(f"matplotlib.{module}")
    except ModuleNotFoundError:
        raise ModuleNotFoundError('Pictures need matplotlib: python -m pip install "dst2r[plot]"') from None


def fitted(estimator: Any, attribute: str) -> Any:
    """A fitted attribute, or an error that names the remedy."""
    try:
        return getattr(estimator, attribute)
    except AttributeError:
        name = type(estimator).__name__
        raise ValueError(f"{name} has no {attribute}: fit it first, and give the estimator that computes it.") from None


def one_axes(ax: Axes | None, size: tuple[float, float] = (4.0, 3.0)) -> Axes:
    """The Axes that were given, or those of a new figure."""
    if ax is not None:
        return ax
    axes: Axes = matplotlib("pyplot").subplots(figsize=size, layout="constrained")[1]
    return axes


def figure_of(ax: Axes) -> Figure:
    """The figure of an Axes, also of one in a subfigure."""
    figure = ax.get_figure(root=True)
    if figure is None:
        raise ValueError("ax belongs to no figure.")
    return figure


def mark(
    ax: Axes, x: float, y: float, shape: str = "o", *, size: float = 9, filled: bool = False, label: str | None = None
) -> Line2D:
    """A mark that stands out from lines."""
    inside = INK if filled else "none"
    (line,) = ax.plot([x], [y], shape, ms=size, mfc=inside, mec=INK, mew=1.5, zorder=5, label=label)
    return line


def tidy(*axes: Axes) -> None:
    """Take the upper frame away."""
    for ax in axes:
        ax.spines["top"].set_visible(False)


def l1_axis(ax: Axes, l1: Array) -> None:
    """Logarithmic, with zero at its left end where the grid holds it."""
    positive = l1[l1 > 0]
    if l1.min(initial=np.inf) > 0:
        ax.set_xscale("log")
    elif positive.size:
        ax.set_xscale("symlog", linthresh=positive.min(), linscale=0.5)
        ax.set_xticks([0.0, *10.0 ** np.arange(np.ceil(np.log10(positive.min())), np.log10(positive.max()) + 1e-9)])
        ax.set_xlim(left=-0.15 * positive.min())
    ax.set_xlabel("penalty l1")


def names_of(
    estimator: Any, labels: Sequence[Sequence[str]] | None, mode_names: Sequence[str] | None
) -> tuple[list[str], list[list[str]], list[bool]]:
    """Names of modes, names of their entries, and whether these have an order: those given, or the model's own."""
    known = labels_of(estimator)
    plain = getattr(estimator, "labels_", None) is None
    own = default_names(len(known.x), len(known.y)) if plain else known.names()
    modes, shape = known.x + known.y, fitted(estimator, "coef_").shape
    texts = [entry_names(mode, d) for mode, d in zip(modes, shape, strict=True)]
    ordered = [not any(isinstance(k, str) for k in mode.labels or ()) or bool(mode.dtype) for mode in modes]
    if labels is not None:
        texts, ordered = [list(map(str, k)) for k in labels], [False] * len(labels)
    names = own if mode_names is None else list(mode_names)
    if [len(k) for k in texts] != list(shape):
        raise ValueError(f"labels name {[len(k) for k in texts]} entries, the modes have {list(shape)}.")
    if len(names) != len(shape):
        raise ValueError(f"mode_names holds {len(names)} names, the model has {len(shape)} modes.")
    return names, texts, ordered


def default_names(n_x_modes: int, n_y_modes: int) -> list[str]:
    """Names for modes that have none."""
    return [f"X mode {k + 1}" for k in range(n_x_modes)] + [f"Y mode {k + 1}" for k in range(n_y_modes)]


def entry_names(mode: Mode, size: int) -> list[str]:
    """Names of a mode's entries as they fit on a picture; positions where there are none."""
    labels = range(size) if mode.labels is None else mode.labels
    return [shortened(k if isinstance(k, str) else f"{k:g}") for k in labels]


def shortened(text: str, most: int = MAX_LETTERS) -> str:
    """A text without its middle where it is too long: names often differ at their ends."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}…{text[len(text) - (most - 1) // 2 :]}"


def name_entries(axis: Axis, names: Sequence[str], room: float, size: Array | None = None) -> None:
    """Name the entries of a mode on an axis, ``room`` inches apart.

    Where there is no room for all, those of largest ``size`` are named; at even distances without it.
    """
    upright, step = spacing(names, room) if axis is axis.axes.xaxis else (False, math.ceil(LINE / room))
    shown = list(range(0, len(names), step))
    if size is not None and step > 1:
        shown = []
        for k in np.argsort(-size, kind="stable")[: np.count_nonzero(size)].tolist():
            if all(abs(k - other) >= step for other in shown):
                shown.append(k)
    axis.set_ticks(shown, [names[k] for k in shown], rotation=90 if upright else 0, fontsize="small")


def spacing(names: Sequence[str], room: float) -> tuple[bool, int]:
    """Whether names below an axis stand upright, and every how many-th of them there is room for."""
    letters = max(map(len, names), default=0)
    level, upright = (math.ceil(need / room) for need in (LETTER * (letters + 0.6), LINE))
    short_numbers = letters <= 4 and not any(name.strip("-.0123456789") for name in names)
    return (False, level) if level <= upright or short_numbers else (True, upright)


def inches(panel: Axes) -> Array:
    """Width and height of a panel, about: its names take some of it."""
    box = panel.bbox
    return np.array([box.width, box.height]) / figure_of(panel).dpi
