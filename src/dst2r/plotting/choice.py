"""How the model was chosen: the path in the penalty, and cross-validation over rank and penalty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from dst2r.cp import Array
from dst2r.plotting._canvas import (
    DASHES,
    FAINT,
    INK,
    NEGATIVE,
    POSITIVE,
    figure_of,
    fitted,
    l1_axis,
    mark,
    one_axes,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from numpy.typing import ArrayLike

    from dst2r.selection import CVSurface, L1Path

N_ENTRIES = 30  # more lines of coefficients cannot be told apart


class RegularizationPathDisplay:
    """Criterion, loss or coefficients along the path in ``l1``, and how many numbers the model needs.

    Parameters
    ----------
    position : array-like of shape (T,)
        Of the path's points on the horizontal axis.
    values : array-like of shape (T,) or (T, n_lines)
        What is drawn against the left axis.
    n_parameters : array-like of shape (T,)
        Free numbers, drawn against the right axis.
    chosen : int
        Index of the point that is marked.
    name : str, default="loss"
        Of the values.
    along : {"l1", "weight"}, default="l1"
        Whether the positions are penalties or ``||B||_1``.

    Attributes
    ----------
    ax_, size_ax_ : matplotlib Axes
        Left and right axis.
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D
    size_line_, chosen_ : matplotlib Line2D
        Numbers and the mark.

    See Also
    --------
    CVDisplay : The loss on samples that were left out.

    Examples
    --------
    >>> from dst2r.plotting import RegularizationPathDisplay
    >>> RegularizationPathDisplay.from_estimator(model)  # doctest: +SKIP
    """

    def __init__(
        self,
        position: ArrayLike,
        values: ArrayLike,
        n_parameters: ArrayLike,
        chosen: int,
        *,
        name: str = "loss",
        along: Literal["l1", "weight"] = "l1",
    ) -> None:
        self.position = np.asarray(position, dtype=float)
        self.values = np.asarray(values, dtype=float)
        self.n_parameters = np.asarray(n_parameters)
        self.chosen = chosen
        self.name = name
        self.along = along

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        values: Literal["criterion", "loss", "entries"] | None = None,
        along: Literal["l1", "weight"] = "l1",
        ax: Axes | None = None,
    ) -> Self:
        """Draw the path of a fitted ``DST2R`` or ``DST2RCV``.

        Parameters
        ----------
        estimator : DST2R or DST2RCV
        values : {"criterion", "loss", "entries"}, optional
            The criterion's distance from its least value; the training loss; or the entries of the penalised
            coefficient, those that are largest where the path begins. By default the criterion where it made the
            choice, otherwise the loss.
        along : {"l1", "weight"}, default="l1"
            Draw against the penalty, or against the weight ``||B||_1`` of the penalised coefficient.
        ax : matplotlib Axes, optional
            A new figure by default.
        """
        path = fitted(estimator, "path_")
        if not has_joint_path(estimator):
            raise ValueError(
                f"{type(estimator).__name__} has no joint path in l1: "
                "give a DST2R or DST2RCV, fitted with correction='full' or 'final'."
            )
        by_name = isinstance(getattr(estimator, "l1", None), str)
        if values is None:
            values = "criterion" if by_name else "loss"
        if values == "criterion":
            name = f"{estimator.l1.upper() if by_name else 'BIC'} − least"
            drawn = path.criterion - np.min(path.criterion)
        elif values == "loss":
            drawn, name = path.loss, "training loss"
        elif values == "entries":
            scale = np.repeat(estimator.x_scale_, estimator.intercept_.size)
            drawn, name = _entries(path, scale), "coefficient"
        else:
            raise ValueError(f"values is {values!r}; expected 'criterion', 'loss' or 'entries'.")
        if along not in ("l1", "weight"):
            raise ValueError(f"along is {along!r}; expected 'l1' or 'weight'.")
        position = path.l1 if along == "l1" else np.array([coef.l1_norms().sum() for coef in path.coefs])
        chosen = int(np.abs(path.l1 - estimator.l1_).argmin())
        return cls(position, drawn, path.n_parameters, chosen, name=name, along=along).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw; returns self."""
        self.ax_ = ax = one_axes(ax)
        self.figure_ = figure_of(ax)
        self.size_ax_ = right = ax.twinx()
        (self.size_line_,) = right.plot(self.position, self.n_parameters, color=INK, lw=1, ls=(0, (3, 2)))
        ax.set_zorder(right.get_zorder() + 1)  # the mark stays in front
        ax.patch.set_visible(False)
        if self.values.ndim == 1:
            self._one_line(ax)
        else:
            self._many_lines(ax)
        ax.axvline(self.position[self.chosen], color=FAINT, lw=1, zorder=0)
        if self.along == "l1":
            l1_axis(ax, self.position)
        else:
            ax.set_xlabel("weight ‖B‖₁")
        right.set_ylabel("numbers (dashes)")
        right.set_ylim(bottom=0)
        tidy(ax, right)
        return self

    def _one_line(self, ax: Axes) -> None:
        finite = np.isfinite(self.values)
        self.lines_ = ax.plot(self.position[finite], self.values[finite], color=POSITIVE, lw=1.6, marker="o", ms=3)
        self.chosen_ = mark(ax, self.position[self.chosen], self.values[self.chosen])
        ax.set_ylabel(f"{self.name} (line)")
        self.lines_[0].set_zorder(4)
        # The end of the path, where the model has nothing left, must not flatten the rest.
        low, high = self.values[finite].min(), self.values[finite].max()
        kept = max(np.quantile(self.values[finite], 0.6), self.values[self.chosen])
        top = min(high, low + max(1.5 * (kept - low), 0.02 * (high - low)))
        if top > low:
            ax.set_ylim(low - 0.07 * (top - low), top + 0.05 * (top - low))

    def _many_lines(self, ax: Axes) -> None:
        self.lines_ = []
        for line in self.values.T:
            up = line[np.abs(line).argmax()] > 0
            style: dict[str, Any] = {"color": POSITIVE, "lw": 1.1} if up else {"color": NEGATIVE, "lw": 1.6}
            self.lines_ += ax.plot(self.position, line, **style)
        ax.axhline(0.0, color=INK, lw=0.6, zorder=1)
        self.chosen_ = mark(ax, self.position[self.chosen], 0.0)
        ax.set_ylabel(f"{self.name} ({self.values.shape[1]} lines)")


def has_joint_path(estimator: Any) -> bool:
    """Whether a fitted model has a path in ``l1`` of all components; other methods have paths of their own."""
    return hasattr(getattr(estimator, "path_", None), "relaxed")


def _entries(path: L1Path, scale: Array) -> Array:
    """Largest entries of the penalised coefficients, shape (T, n_lines), in the units of X."""
    first = path.coefs[0].to_tensor()
    largest = np.argsort(-np.abs(first.ravel() / scale), kind="stable")[:N_ENTRIES]
    where = np.unravel_index(largest, first.shape)
    rows = []
    for coef in path.coefs:
        product = np.ones((largest.size, coef.rank))
        for factor, index in zip(coef.factors, where, strict=True):
            product = product * factor[index]
        rows.append(product.sum(axis=1) / scale[largest])
    return np.array(rows)


class CVDisplay:
    """Mean test loss against ``l1``, a curve for each rank, with the two models that the rules choose.

    A circle marks the least loss and a diamond the smallest model within a standard error of it; the filled one was
    taken. Points of a curve where a model could not be vouched for are left out. With a single value of ``l1`` the loss
    is drawn against the rank.

    Parameters
    ----------
    ranks : array-like of shape (n_ranks,)
    l1 : array-like of shape (T,)
    test_loss, n_parameters : array-like of shape (n_folds, n_ranks, T)
    rule : {"min", "1se"}, default="min"
        Which of the two was taken.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D
        The curves, in the order of the ranks; or the one curve over ranks.
    least_, one_se_ : matplotlib Line2D
        The marks.

    Examples
    --------
    >>> from dst2r.plotting import CVDisplay
    >>> CVDisplay.from_estimator(model)  # doctest: +SKIP
    """

    def __init__(
        self, ranks: ArrayLike, l1: ArrayLike, test_loss: ArrayLike, n_parameters: ArrayLike, *, rule: str = "min"
    ) -> None:
        self.ranks = np.asarray(ranks)
        self.l1 = np.asarray(l1, dtype=float)
        self.test_loss = np.asarray(test_loss, dtype=float)
        self.n_parameters = np.asarray(n_parameters, dtype=float)
        self.rule = rule

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the cross-validation of a fitted ``DST2RCV``.

        Parameters
        ----------
        estimator : DST2RCV
        ax : matplotlib Axes, optional
            A new figure by default.
        """
        found = fitted(estimator, "cv_results_")
        parts = (found[key] for key in ("ranks", "l1", "test_loss", "n_parameters"))
        return cls(*parts, rule=estimator.rule).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw; returns self."""
        from dst2r.selection import CVSurface  # loads the compiler

        self.ax_ = ax = one_axes(ax)
        self.figure_ = figure_of(ax)
        surface = CVSurface(tuple(self.ranks.tolist()), self.l1, self.test_loss, self.n_parameters)
        mean = self.test_loss.mean(axis=0)
        mean[~np.isfinite(mean)] = np.nan
        if self.l1.size == 1:
            self.lines_: list[Line2D] = ax.plot(self.ranks, mean[:, 0], color=POSITIVE, lw=1.6, marker="o", ms=3)
            ax.set(xlabel="rank", xticks=self.ranks, ylabel="mean test loss")
        else:
            self.lines_ = self._curves(ax, mean, best=surface.choose(self.rule)[0])
        self.least_, self.one_se_ = (self._mark(ax, mean, surface, rule) for rule in ("min", "1se"))
        self._legend(ax)
        tidy(ax)
        return self

    def _mark(self, ax: Axes, mean: Array, surface: CVSurface, rule: str) -> Line2D:
        row, column = surface.choose(rule)
        x = self.ranks[row] if self.l1.size == 1 else self.l1[column]
        shape, label = {"min": ("o", "least loss"), "1se": ("D", "within 1 SE")}[rule]
        # The one that was taken lies filled in the other's ring where both are one.
        taken = rule == self.rule
        label += ", taken" if taken else ""
        return mark(ax, x, mean[row, column], shape, filled=taken, size=6 if taken else 11, label=label)

    def _curves(self, ax: Axes, mean: Array, best: int) -> list[Line2D]:
        lines: list[Line2D] = []
        for row, rank in enumerate(self.ranks):
            shade = 0.8 - 0.55 * row / max(len(self.ranks) - 1, 1)
            style: dict[str, Any] = {"color": str(shade)}
            if row == best:
                style = {"color": POSITIVE, "lw": 2.2, "zorder": 3}
            # Few curves can be told apart by grey alone: the dashes repeat after four.
            dashes = "-" if row == best else DASHES[row % 4]
            lines += ax.plot(self.l1, mean[row], ls=dashes, marker=".", ms=3, label=f"rank {rank}", **style)
        l1_axis(ax, self.l1)
        ax.set_ylabel("mean test loss")
        # Every rank's best is seen; where the penalty leaves nothing of any model, curves leave the picture.
        low, each = float(np.nanmin(mean)), [np.nanmin(row) for row in mean if np.isfinite(row).any()]
        top = min(float(np.nanmax(mean)), max(low + 1.7 * (max(each) - low), low * 1.25))
        if top > low:
            ax.set_ylim(low - 0.08 * (top - low), top + 0.05 * (top - low))
        return lines

    def _legend(self, ax: Axes) -> None:
        """Above the curves, where it hides none."""
        handles = [*(self.lines_ if self.l1.size > 1 else []), self.least_, self.one_se_]
        ax.legend(
            handles=handles,
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=min(len(handles), 3),
            fontsize="small",
            frameon=False,
            handlelength=1.8,
            columnspacing=1.2,
            borderaxespad=0.2,
        )
