"""Pictures of fitted models, in the manner of scikit-learn's Displays. Grey print keeps everything."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from dst2r.cp import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from numpy.typing import ArrayLike

__all__ = ["CVDisplay", "ComponentsDisplay", "RegularizationPathDisplay", "plot_summary"]

# Dark and light, so that signs differ in grey, too.
POSITIVE, NEGATIVE = "#1f4e79", "#ef9b45"
INK, FAINT = "0.1", "0.75"
MAX_TICKS = 25  # a longer mode shows every second, third, ... label
GAP = 0.45  # a component's largest bar reaches this far towards its neighbour


class RegularizationPathDisplay:
    """Loss or criterion along the path in ``l1``, and how many numbers the model needs.

    Parameters
    ----------
    l1 : array-like of shape (T,)
    values : array-like of shape (T,)
        What is drawn against the left axis.
    n_parameters : array-like of shape (T,)
        Free numbers, drawn as steps against the right axis.
    chosen_l1 : float
        The point that is marked.
    name : str, default="loss"
        Of the values.

    Attributes
    ----------
    ax_, size_ax_ : matplotlib Axes
        Left and right axis.
    figure_ : matplotlib Figure
    line_, size_line_, chosen_ : matplotlib Line2D
        Values, numbers and the mark.

    See Also
    --------
    CVDisplay : The loss on samples that were left out.

    Examples
    --------
    >>> from dst2r.plotting import RegularizationPathDisplay
    >>> RegularizationPathDisplay.from_estimator(model)  # doctest: +SKIP
    """

    def __init__(
        self, l1: ArrayLike, values: ArrayLike, n_parameters: ArrayLike, chosen_l1: float, *, name: str = "loss"
    ) -> None:
        self.l1 = np.asarray(l1, dtype=float)
        self.values = np.asarray(values, dtype=float)
        self.n_parameters = np.asarray(n_parameters)
        self.chosen_l1 = chosen_l1
        self.name = name

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, values: Literal["loss", "criterion"] | None = None, ax: Axes | None = None
    ) -> Self:
        """Draw the path of a fitted ``DST2R`` or ``DST2RCV``.

        Parameters
        ----------
        estimator : DST2R or DST2RCV
        values : {"loss", "criterion"}, optional
            By default the criterion where it made the choice, otherwise the loss.
        ax : matplotlib Axes, optional
            A new figure by default.
        """
        path = _fitted(estimator, "path_")
        if path is None:
            raise ValueError("The model has no joint path: fit it with correction='full' or 'final'.")
        by_name = isinstance(getattr(estimator, "l1", None), str)
        if values is None:
            values = "criterion" if by_name else "loss"
        name = estimator.l1.upper() if by_name else "BIC"
        shown = path.criterion if values == "criterion" else path.loss
        name = name if values == "criterion" else "training loss"
        return cls(path.l1, shown, path.n_parameters, estimator.l1_, name=name).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw; returns self."""
        self.ax_ = ax = _axes(ax)
        self.figure_ = _figure(ax)
        self.size_ax_ = right = ax.twinx()
        (self.size_line_,) = right.plot(self.l1, self.n_parameters, color=INK, lw=1, ls=(0, (3, 2)))
        (self.line_,) = ax.plot(self.l1, self.values, color=POSITIVE, lw=1.6, marker="o", ms=3)
        at = int(np.abs(self.l1 - self.chosen_l1).argmin())
        self.chosen_ = _mark(ax, self.chosen_l1, float(self.values[at]))
        ax.axvline(self.chosen_l1, color=FAINT, lw=1, zorder=0)
        _l1_axis(ax, self.l1)
        ax.set_ylabel(f"{self.name} (line)")
        right.set_ylabel("numbers (dashes)")
        right.set_ylim(bottom=0)
        _tidy(ax, right)
        return self


class CVDisplay:
    """Mean test loss against ``l1``, a curve for each rank, with the chosen point.

    With a single value of ``l1`` the loss is drawn against the rank.

    Parameters
    ----------
    ranks : array-like of shape (n_ranks,)
    l1 : array-like of shape (T,)
    test_loss : array-like of shape (n_folds, n_ranks, T)
    best_rank : int
    best_l1 : float

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D
        The curves, in the order of the ranks; or the one curve over ranks.
    chosen_ : matplotlib Line2D

    Examples
    --------
    >>> from dst2r.plotting import CVDisplay
    >>> CVDisplay.from_estimator(model)  # doctest: +SKIP
    """

    def __init__(self, ranks: ArrayLike, l1: ArrayLike, test_loss: ArrayLike, best_rank: int, best_l1: float) -> None:
        self.ranks = np.asarray(ranks)
        self.l1 = np.asarray(l1, dtype=float)
        self.test_loss = np.asarray(test_loss, dtype=float)
        self.best_rank = best_rank
        self.best_l1 = best_l1

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the cross-validation of a fitted ``DST2RCV``.

        Parameters
        ----------
        estimator : DST2RCV
        ax : matplotlib Axes, optional
            A new figure by default.
        """
        found = _fitted(estimator, "cv_results_")
        best = estimator.best_rank_, estimator.l1_
        return cls(found["ranks"], found["l1"], found["test_loss"], *best).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw; returns self."""
        self.ax_ = ax = _axes(ax)
        self.figure_ = _figure(ax)
        mean = self.test_loss.mean(axis=0)
        mean[~np.isfinite(mean)] = np.nan  # models that were not candidates leave a gap
        row = int(np.flatnonzero(self.ranks == self.best_rank)[0])
        column = int(np.abs(self.l1 - self.best_l1).argmin())
        if self.l1.size == 1:
            self.lines_: list[Line2D] = ax.plot(self.ranks, mean[:, 0], color=POSITIVE, lw=1.6, marker="o", ms=3)
            self.chosen_ = _mark(ax, self.best_rank, float(mean[row, 0]))
            ax.set(xlabel="rank", xticks=self.ranks, ylabel="mean test loss")
        else:
            self.lines_ = self._curves(ax, mean)
            self.chosen_ = _mark(ax, self.best_l1, float(mean[row, column]))
        _tidy(ax)
        return self

    def _curves(self, ax: Axes, mean: Array) -> list[Line2D]:
        lines: list[Line2D] = []
        for row, rank in enumerate(self.ranks):
            best = rank == self.best_rank
            shade = 0.8 - 0.55 * row / max(len(self.ranks) - 1, 1)
            style: dict[str, Any] = {"color": POSITIVE, "lw": 2.2, "zorder": 3} if best else {"color": str(shade)}
            # Few curves can be told apart by grey alone: the dashes repeat after four.
            dashes = "-" if best else ("-", (0, (4, 1)), (0, (1, 1)), (0, (4, 1, 1, 1)))[row % 4]
            lines += ax.plot(self.l1, mean[row], ls=dashes, label=f"{rank}", **style)
        _l1_axis(ax, self.l1)
        ax.set_yscale("log")
        low, high = (
            float(np.nanmin(mean)),
            float(np.nanmax(mean[:, -1], initial=np.nanmedian(mean))),
        )  # the end of the path is (nearly) no model
        if high > low:
            ax.set_ylim(low / (high / low) ** 0.06, high * (high / low) ** 0.06)
        if high < 20 * low:  # powers of ten alone would leave the axis without a number
            ticker = _matplotlib("ticker")
            ax.yaxis.set_major_locator(ticker.MaxNLocator(5))
            ax.yaxis.set_major_formatter(ticker.ScalarFormatter())
            ax.yaxis.set_minor_locator(ticker.NullLocator())
        ax.set_ylabel("mean test loss")
        ax.legend(title="rank", ncols=1 + len(self.ranks) // 5, fontsize="small", frameon=False, handlelength=1.6)
        return lines


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
    ) -> None:
        self.weights = np.asarray(weights, dtype=float)
        self.factors = [np.asarray(factor, dtype=float) for factor in factors]
        self.n_x_modes = n_x_modes
        sizes = [len(factor) for factor in self.factors]
        self.labels = [[str(i) for i in range(d)] for d in sizes] if labels is None else [list(k) for k in labels]
        self.mode_names = _default_names(len(sizes), n_x_modes) if mode_names is None else list(mode_names)
        if [len(names) for names in self.labels] != sizes:
            raise ValueError(f"labels name {[len(k) for k in self.labels]} entries, the modes have {sizes}.")
        if len(self.mode_names) != len(sizes):
            raise ValueError(f"mode_names holds {len(self.mode_names)} names, the model has {len(sizes)} modes.")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        labels: Sequence[Sequence[str]] | None = None,
        mode_names: Sequence[str] | None = None,
        ax: Sequence[Axes] | None = None,
    ) -> Self:
        """Draw the components of a fitted ``DST2R`` or ``DST2RCV``.

        Parameters
        ----------
        estimator : DST2R or DST2RCV
        labels, mode_names
            As for the class: all predictor modes, then all response modes.
        ax : sequence of matplotlib Axes, optional
            One for each mode; a new figure by default.
        """
        weights, factors = _fitted(estimator, "cp_")
        n_x_modes = len(factors) - estimator.intercept_.ndim
        return cls(weights, factors, n_x_modes, labels=labels, mode_names=mode_names).plot(ax)

    def plot(self, ax: Sequence[Axes] | None = None) -> Self:
        """Draw; returns self."""
        if ax is None:
            ax = self._new_axes()
        self.axes_ = list(ax)
        if len(self.axes_) != len(self.factors):
            raise ValueError(f"ax holds {len(self.axes_)} Axes; the model has {len(self.factors)} modes.")
        self.figure_ = _figure(self.axes_[0])
        self.bars_: list[BarContainer] = []
        rows = np.arange(self.weights.size)
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
            panel.set_title(self.mode_names[k], fontsize="medium")
            self._name_entries(panel, k)
            panel.set_yticks(rows, [])
            panel.tick_params(length=0)
            panel.spines[:].set_visible(False)
        first = self.axes_[0]
        first.set_yticks(rows, [f"{r + 1}  ({w:.3g})" for r, w in zip(rows, self.weights, strict=True)])
        first.set_ylabel("component (weight)")
        return self

    def _new_axes(self) -> Sequence[Axes]:
        widths = _panel_widths(self.factors)
        size = (min(1.0 + 0.17 * sum(widths), 12.0), 1.1 + 0.45 * max(self.weights.size, 1))
        _, axes = _matplotlib("pyplot").subplots(
            1, len(self.factors), figsize=size, width_ratios=widths, squeeze=False, layout="constrained"
        )
        return list(axes[0])

    def _name_entries(self, panel: Axes, k: int) -> None:
        names = self.labels[k]
        shown = range(0, len(names), 1 + (len(names) - 1) // MAX_TICKS)
        upright = max(len(names[i]) for i in shown) > (1 if len(shown) > 12 else 2)
        panel.set_xticks(list(shown), [names[i] for i in shown], rotation=90 if upright else 0, fontsize="small")


def plot_summary(
    estimator: Any,
    *,
    labels: Sequence[Sequence[str]] | None = None,
    mode_names: Sequence[str] | None = None,
    title: str | None = None,
) -> Figure:
    """One figure of a fitted model: its components, the cross-validation (if there was one) and the path.

    Parameters
    ----------
    estimator : DST2R or DST2RCV
    labels, mode_names
        As for :class:`ComponentsDisplay`.
    title : str, optional

    Returns
    -------
    matplotlib Figure
        It belongs to no window; ``savefig`` writes it.
    """
    weights, factors = _fitted(estimator, "cp_")
    heights = 1.1 + 0.42 * max(len(weights), 1), 2.8
    figure: Figure = _matplotlib("figure").Figure(figsize=(8, sum(heights)), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=heights)
    above, below = parts
    panels = above.subplots(1, len(factors), width_ratios=_panel_widths(factors), squeeze=False)[0]
    ComponentsDisplay.from_estimator(estimator, labels=labels, mode_names=mode_names, ax=list(panels))
    choices = [RegularizationPathDisplay] if getattr(estimator, "path_", None) is not None else []
    kinds: list[Any] = [CVDisplay, *choices] if hasattr(estimator, "cv_results_") else choices
    for kind, ax in zip(kinds, np.ravel(below.subplots(1, len(kinds))) if kinds else [], strict=True):
        kind.from_estimator(estimator, ax=ax)
    if title:
        figure.suptitle(title)
    return figure


def _matplotlib(module: str) -> Any:
    """A module of matplotlib, imported on first use."""
    try:
        return import_module(f"matplotlib.{module}")
    except ModuleNotFoundError:
        raise ModuleNotFoundError('Pictures need matplotlib: python -m pip install "dst2r[plot]"') from None


def _fitted(estimator: Any, attribute: str) -> Any:
    """A fitted attribute, or an error that names the remedy."""
    try:
        return getattr(estimator, attribute)
    except AttributeError:
        name = type(estimator).__name__
        raise ValueError(f"{name} has no {attribute}: fit it first, and give the estimator that computes it.") from None


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    axes: Axes = _matplotlib("pyplot").subplots(figsize=(4.5, 3.2), layout="constrained")[1]
    return axes


def _figure(ax: Axes) -> Figure:
    """The figure of an Axes, also of one in a subfigure."""
    figure = ax.get_figure(root=True)
    if figure is None:
        raise ValueError("ax belongs to no figure.")
    return figure


def _default_names(n_modes: int, n_x_modes: int) -> list[str]:
    n_y_modes = n_modes - n_x_modes
    return [f"X mode {k + 1}" for k in range(n_x_modes)] + [f"Y mode {k + 1}" for k in range(n_y_modes)]


def _panel_widths(factors: Sequence[Any]) -> list[float]:
    """Wider for more entries, but a mode of one stays legible and one of a thousand leaves room to the rest."""
    return [float(np.clip(len(factor), 5, 24)) for factor in factors]


def _mark(ax: Axes, x: float, y: float) -> Line2D:
    (mark,) = ax.plot([x], [y], "o", ms=9, mfc="none", mec=INK, mew=1.5, zorder=4)
    return mark


def _l1_axis(ax: Axes, l1: Array) -> None:
    """Logarithmic, with zero at its left end where the grid holds it."""
    positive = l1[l1 > 0]
    if l1.min(initial=np.inf) > 0:
        ax.set_xscale("log")
    elif positive.size:
        ax.set_xscale("symlog", linthresh=positive.min(), linscale=0.5)
        ax.set_xticks([0.0, *10.0 ** np.arange(np.ceil(np.log10(positive.min())), np.log10(positive.max()) + 1e-9)])
        ax.set_xlim(left=-0.15 * positive.min())
    ax.set_xlabel("penalty l1")


def _tidy(*axes: Axes) -> None:
    for ax in axes:
        ax.spines["top"].set_visible(False)
