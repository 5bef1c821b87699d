"""What the model is: its components mode by mode, and its coefficient in slices."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dst2r.cp import Array
from dst2r.labels import components_of
from dst2r.plotting._canvas import (
    FAINT,
    INK,
    LETTER,
    LINE,
    MAX_LETTERS,
    NEGATIVE,
    POSITIVE,
    default_names,
    figure_of,
    fitted,
    inches,
    matplotlib,
    name_entries,
    names_of,
    shortened,
    spacing,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from numpy.typing import ArrayLike

GAP = 0.45  # a component's largest bar reaches this far towards its neighbour
ROW_WIDTH = 24.0  # in entries: more panels go to the next row
ENTRY = LINE  # inches for one entry, so that a row of panels is four inches wide with the components' names
BESIDE = 1.0  # inches for these


class ComponentsDisplay:
    """Factor vectors of all components: a panel for each mode, in it a row for each component.

    A bar goes up for a positive and down for a negative entry; where there is no bar, the entry is zero.

    Parameters
    ----------
    weights : array-like of shape (R,)
    factors : sequence of array-like of shape (d_k, R)
        Columns of unit norm, predictor modes first: a TensorLy ``CPTensor``'s.
    n_x_modes : int
        How many of the modes belong to the predictors.
    labels : sequence of sequence of str, optional
        Names of the entries of every mode.
    mode_names : sequence of str, optional
        Names of the modes.
    ordered : sequence of bool, optional
        Whether the entries of a mode have an order, as times and wavelengths have. Where there is no room for all
        names, an ordered mode shows every second, third, ..., any other those of its largest entries; by default all
        are ordered.

    Attributes
    ----------
    axes_ : list of matplotlib Axes
        One for each mode.
    figure_ : matplotlib Figure
    bars_ : list of matplotlib BarContainer
        One for each mode; it holds a bar for each non-zero entry, component by component.

    Examples
    --------
    >>> from dst2r.plotting import ComponentsDisplay
    >>> ComponentsDisplay.from_estimator(model, mode_names=["voxel", "subject"])  # doctest: +SKIP
    """

    def __init__(
        self,
        weights: ArrayLike,
        factors: Sequence[ArrayLike],
        n_x_modes: int,
        *,
        labels: Sequence[Sequence[str]] | None = None,
        mode_names: Sequence[str] | None = None,
        ordered: Sequence[bool] | None = None,
    ) -> None:
        self.weights = np.asarray(weights, dtype=float)
        self.factors = [np.asarray(factor, dtype=float) for factor in factors]
        self.n_x_modes = n_x_modes
        sizes = [len(factor) for factor in self.factors]
        self.labels = [[str(i) for i in range(d)] for d in sizes] if labels is None else [list(k) for k in labels]
        names = default_names(n_x_modes, len(sizes) - n_x_modes)
        self.mode_names = names if mode_names is None else list(mode_names)
        self.ordered = [True] * len(sizes) if ordered is None else list(ordered)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        labels: Sequence[Sequence[str]] | None = None,
        mode_names: Sequence[str] | None = None,
        ax: Sequence[Axes] | None = None,
    ) -> Self:
        """Draw the components of a fitted model.

        Parameters
        ----------
        estimator : DST2R, DST2RCV, or another with ``cp_``
        labels, mode_names
            As for the class: all predictor modes, then all response modes. By default the model's ``labels_``.
        ax : sequence of matplotlib Axes, optional
            One for each mode; a new figure by default.
        """
        weights, factors = components_of(estimator)
        names, texts, ordered = names_of(estimator, labels, mode_names)
        n_x_modes = len(factors) - estimator.intercept_.ndim
        return cls(weights, factors, n_x_modes, labels=texts, mode_names=names, ordered=ordered).plot(ax)

    def plot(self, ax: Sequence[Axes] | None = None) -> Self:
        """Draw; returns self."""
        if own := ax is None:
            figure = matplotlib("pyplot").figure(figsize=self.size(), layout="constrained")
            ax = self.new_axes(figure)
        self.axes_ = list(ax)
        if len(self.axes_) != len(self.factors):
            raise ValueError(f"ax holds {len(self.axes_)} Axes; the model has {len(self.factors)} modes.")
        self.figure_ = figure_of(self.axes_[0])
        self.bars_: list[BarContainer] = []
        rows = np.arange(self.weights.size)
        firsts = [row[0] for row in self._rows()]
        for k, (panel, factor) in enumerate(zip(self.axes_, self.factors, strict=True)):
            component, entry = np.nonzero(factor.T)
            heights = GAP * factor[entry, component] / np.abs(factor).max(axis=0)[component]
            # Drawn downwards on a falling axis: the first component on top, positive entries up.
            colors = [POSITIVE if h > 0 else NEGATIVE for h in heights]
            # The edge keeps the smallest of entries visible.
            bars = panel.bar(
                entry, -heights, 0.8, component, color=colors, edgecolor=INK, linewidth=0.5, align="center"
            )
            self.bars_.append(bars)
            panel.hlines(rows, -0.5, len(factor) - 0.5, color=FAINT, lw=0.6, zorder=0)
            panel.set(xlim=(-0.6, len(factor) - 0.4), ylim=(rows.size - 0.45, -0.55))
            panel.set_title(self.mode_names[k], fontsize="small")
            size = None if self.ordered[k] else np.abs(factor).max(axis=1, initial=0.0)
            wide = ENTRY * self._widths()[k] if own else inches(panel)[0]
            name_entries(panel.xaxis, self.labels[k], wide / len(factor), size)
            panel.set_yticks(rows, [])
            panel.tick_params(length=0)
            panel.spines[:].set_visible(False)
            if k in firsts:
                panel.set_yticks(rows, [f"{r + 1}  ({w:.3g})" for r, w in zip(rows, self.weights, strict=True)])
                panel.set_ylabel("component\n(weight)", fontsize="small")
        return self

    def size(self) -> tuple[float, float]:
        """Width and height of a figure for :meth:`new_axes`, in inches."""
        rows, widths = self._rows(), self._widths()
        width = BESIDE + ENTRY * max(sum(widths[k] for k in row) for row in rows)
        return max(width, 2.5), sum(self._heights())

    def new_axes(self, figure: Any) -> list[Axes]:
        """Panels in a figure or subfigure: rows of modes, responses below predictors where one row is too short."""
        rows, widths = self._rows(), self._widths()
        most = max(sum(widths[k] for k in row) for row in rows)
        grid = figure.add_gridspec(len(rows), 1, height_ratios=self._heights())
        panels: list[Axes] = []
        for at, row in enumerate(rows):
            used = [widths[k] for k in row]
            spare = [most - sum(used)] if most - sum(used) > 1 else []
            cells = grid[at].subgridspec(1, len(row) + len(spare), width_ratios=used + spare)
            panels += [figure.add_subplot(cells[i]) for i in range(len(row))]
        return panels

    def _heights(self) -> list[float]:
        """Height of each row of panels in inches, with its title and the names below."""
        below = []
        for names, width in zip(self.labels, self._widths(), strict=True):
            upright, _ = spacing(names, ENTRY * width / len(names))
            below.append(LETTER * max(map(len, names)) if upright else LINE)
        bars = 0.4 * max(self.weights.size, 1.5)
        return [0.5 + bars + max(below[k] for k in row) for row in self._rows()]

    def _widths(self) -> list[float]:
        """Wider for more entries and for a long title, but a mode of a thousand entries leaves room to the rest."""
        least = [max(5.0, LETTER * (len(name) + 1) / ENTRY) for name in self.mode_names]
        return [min(max(len(f), width), ROW_WIDTH) for f, width in zip(self.factors, least, strict=True)]

    def _rows(self) -> list[list[int]]:
        """Modes of each row of panels."""
        widths = self._widths()
        if sum(widths) <= ROW_WIDTH:
            return [list(range(len(widths)))]
        rows: list[list[int]] = []
        for k, width in enumerate(widths):
            if not rows or k == self.n_x_modes or sum(widths[i] for i in rows[-1]) + width > ROW_WIDTH:
                rows.append([])
            rows[-1].append(k)
        return rows


class CoefficientDisplay:
    """Slices of a coefficient as images: two modes span a slice, all others are fixed.

    Dark is positive, light is negative and dotted, white is zero; all slices share one scale.

    Parameters
    ----------
    coef : array-like of shape (d_1, ..., d_{p+q})
    labels : sequence of sequence of str
        Names of the entries of every mode.
    mode_names : sequence of str
        Names of the modes.
    modes : tuple of two int
        The modes that span a slice: rows and columns.
    n_slices : int, default=6
        How many slices to draw, those of largest norm first.
    ordered : sequence of bool, optional
        As for :class:`ComponentsDisplay`.

    Attributes
    ----------
    axes_ : list of matplotlib Axes
        One for each slice that was drawn.
    figure_ : matplotlib Figure
    images_ : list of matplotlib AxesImage
    colorbar_ : matplotlib Colorbar
    slices_ : list of tuple of int
        What the other modes were fixed at.

    Examples
    --------
    >>> from dst2r.plotting import CoefficientDisplay
    >>> CoefficientDisplay.from_estimator(model, modes=(0, 2))  # doctest: +SKIP
    """

    def __init__(
        self,
        coef: ArrayLike,
        labels: Sequence[Sequence[str]],
        mode_names: Sequence[str],
        modes: tuple[int, int],
        *,
        n_slices: int = 6,
        ordered: Sequence[bool] | None = None,
    ) -> None:
        self.coef = np.asarray(coef, dtype=float)
        self.labels = [list(k) for k in labels]
        self.mode_names = list(mode_names)
        self.modes = modes
        self.n_slices = n_slices
        self.ordered = [True] * self.coef.ndim if ordered is None else list(ordered)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        modes: tuple[int, int] | None = None,
        n_slices: int = 6,
        labels: Sequence[Sequence[str]] | None = None,
        mode_names: Sequence[str] | None = None,
        ax: Sequence[Axes] | None = None,
    ) -> Self:
        """Draw the coefficient of a fitted model.

        Parameters
        ----------
        estimator : fitted estimator
        modes : tuple of two int, optional
            Modes that span a slice, counted over predictors and then responses. By default the two longest predictor
            modes, or the only one and the longest response mode.
        n_slices : int, default=6
            Most slices to draw, those of largest norm.
        labels, mode_names
            All predictor modes, then all response modes. By default the model's ``labels_``.
        ax : sequence of matplotlib Axes, optional
            For as many slices as there are Axes; a new figure by default.
        """
        coef = fitted(estimator, "coef_")
        names, texts, ordered = names_of(estimator, labels, mode_names)
        if coef.ndim == 1:  # one row
            coef, names, texts, ordered = coef[None], ["", *names], [[""], *texts], [True, *ordered]
        if modes is None:
            modes = _longest(coef.shape, coef.ndim - estimator.intercept_.ndim)
        valid = len(modes) == 2 and len({m % coef.ndim for m in modes}) == 2 and max(map(abs, modes)) <= coef.ndim
        if not valid or max(modes) == coef.ndim:
            raise ValueError(f"modes is {modes}; expected two different modes of the {coef.ndim}, counted from 0.")
        row, column = (m % coef.ndim for m in modes)
        return cls(coef, texts, names, (row, column), n_slices=n_slices, ordered=ordered).plot(ax)

    def plot(self, ax: Sequence[Axes] | None = None) -> Self:
        """Draw; returns self."""
        slices = np.moveaxis(self.coef, self.modes, (-2, -1))
        norms = np.linalg.norm(slices, axis=(-2, -1))
        count = self.n_slices if ax is None else len(list(ax))
        largest = np.argsort(-norms.ravel(), kind="stable")[: max(1, min(count, np.count_nonzero(norms)))]
        self.slices_ = [tuple(int(i) for i in np.unravel_index(k, norms.shape)) for k in largest]
        self.axes_ = self._new_axes(len(self.slices_)) if ax is None else list(ax)[: len(self.slices_)]
        self.figure_ = figure_of(self.axes_[0])
        peak = float(np.abs(self.coef).max(initial=0.0)) or 1.0
        # The smallest of entries has a tint; white is zero.
        tints = [(0.0, NEGATIVE), (0.5, "#fdeedd"), (0.5, "#dde7f0"), (1.0, POSITIVE)]
        colors = matplotlib("colors").LinearSegmentedColormap.from_list("signs", tints)
        self.images_: list[AxesImage] = []
        for panel, at in zip(self.axes_, self.slices_, strict=True):
            shown = np.ma.masked_equal(slices[at], 0.0)
            image = panel.imshow(shown, cmap=colors, vmin=-peak, vmax=peak, aspect="auto", interpolation="nearest")
            self.images_.append(image)
            self._dot(panel, slices[at])
            self._name(panel, np.abs(self.coef))
            if ax is not None:
                panel.set_title(self._title(at, "\n", named=True), fontsize="small")
                panel.set(xlabel=self.mode_names[self.modes[1]], ylabel=self.mode_names[self.modes[0]])
        self.colorbar_: Colorbar = self.figure_.colorbar(self.images_[0], ax=self.axes_, shrink=0.8, aspect=25)
        self.colorbar_.set_label("coefficient (dots: negative)", fontsize="small")
        return self

    def _name(self, panel: Axes, size: Array) -> None:
        """Name the entries of both modes, of those without an order the largest."""
        for mode, axis, room in zip(self.modes, (panel.yaxis, panel.xaxis), inches(panel)[::-1], strict=True):
            largest = size.max(axis=tuple(k for k in range(size.ndim) if k != mode), initial=0.0)
            name_entries(axis, self.labels[mode], room / len(largest), None if self.ordered[mode] else largest)
        panel.tick_params(length=2)

    def _dot(self, panel: Axes, values: Array) -> None:
        """Dots tell negative entries from positive ones where colours do not."""
        row, column = np.nonzero(values < 0)
        cell = 72.0 * (inches(panel) / values.shape[::-1]).min()
        panel.scatter(column, row, s=np.clip(0.3 * cell, 0.8, 4.0) ** 2, color=INK, linewidths=0)

    def _title(self, at: Sequence[int], between: str, *, named: bool = False, most: int = MAX_LETTERS) -> str:
        """What the other modes are fixed at."""
        pairs = [
            (self.mode_names[k], shortened(self.labels[k][i], most)) for k, i in zip(self._others, at, strict=True)
        ]
        return between.join(
            label if label.startswith(name) or not named else f"{name} {label}" for name, label in pairs
        )

    @property
    def _others(self) -> list[int]:
        """Modes that are fixed in a slice."""
        return [k for k in range(self.coef.ndim) if k not in self.modes]

    def _new_axes(self, n: int) -> list[Axes]:
        """Panels in a figure of four inches, which tells once what they have in common."""
        row, column = self.modes
        names = self.labels[row]
        wide = 3.0 - LETTER * max(map(len, names))  # all panels together, without the names and the colour bar
        titles = [self._title(at, ", ") for at in self.slices_]
        longest = LETTER * (max(map(len, titles)) + 1)
        n_columns = min(n, 3 if longest < wide / 3 else 2)
        n_rows = math.ceil(n / n_columns)
        letters = max(int(wide / n_columns / LETTER), 4)
        titles = [textwrap.fill(self._title(at, ", ", most=letters), letters + 1) for at in self.slices_]
        upright, _ = spacing(self.labels[column], wide / n_columns / len(self.labels[column]))
        below = LETTER * max(map(len, self.labels[column])) if upright else LINE
        panel = 2.2 if n == 1 else float(np.clip(LINE * len(names) / 3, 1.1, 1.7))
        above = LINE * (max(title.count("\n") for title in titles) + 1)
        figure: Figure = matplotlib("pyplot").figure(
            figsize=(4.0, 0.7 + below + n_rows * (panel + above + 0.1)), layout="constrained"
        )
        panels = list(figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False).ravel())
        for empty in panels[n:]:
            empty.remove()
        for k, title in enumerate(titles):
            panels[k].set_title(title, fontsize="small")
            panels[k].tick_params(labelbottom=k + n_columns >= n)  # the lowest of its column
        figure.supxlabel(self.mode_names[column], fontsize="medium")
        figure.supylabel(self.mode_names[row], fontsize="medium")
        if self._others:
            figure.suptitle(f"by {', '.join(self.mode_names[k] for k in self._others)}", fontsize="small")
        return panels[:n]


def _longest(shape: Sequence[int], n_x_modes: int) -> tuple[int, int]:
    """The two longest predictor modes, or the only one and the longest response mode."""
    modes = list(range(n_x_modes)) if n_x_modes > 1 else list(range(len(shape)))
    longest = sorted(modes, key=lambda k: (-shape[k], k))[:2]
    if n_x_modes == 1:
        longest = [0, max(modes[1:], key=lambda k: (shape[k], -k))]
    return min(longest), max(longest)
