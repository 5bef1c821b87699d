"""How the model does on data: predicted against observed responses, and the components' scores of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dst2r.labels import as_fitted
from dst2r.metrics import pooled_r2
from dst2r.plotting._canvas import FAINT, INK, POSITIVE, figure_of, fitted, matplotlib, one_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

FEW = 1500  # more points hide each other: they are counted in hexagons
SHAPES = "o^sDvP*X"


class PredictionDisplay:
    """Predicted against observed responses: points near the dashed line are right.

    Parameters
    ----------
    observed, predicted : array-like of the same shape
    score : float, optional
        R², the mean over the entries of a response, written in the corner beside that of all entries together.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    points_ : matplotlib PathCollection or PolyCollection
        A point for each entry of a response; hexagons, the darker the more entries they hold, where there are many.
    line_ : matplotlib Line2D
        Where predicted equals observed.

    Examples
    --------
    >>> from dst2r.plotting import PredictionDisplay
    >>> PredictionDisplay.from_estimator(model, X_test, Y_test)  # doctest: +SKIP
    """

    def __init__(self, observed: ArrayLike, predicted: ArrayLike, *, score: float | None = None) -> None:
        self.observed = np.asarray(observed, dtype=float)
        self.predicted = np.asarray(predicted, dtype=float)
        self.score = score

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, entry: tuple[int, ...] | None = None, ax: Axes | None = None
    ) -> Self:
        """Draw the predictions of a fitted model.

        Parameters
        ----------
        estimator : fitted estimator
        X, y : array-like
            Predictors and responses, better ones that the fit did not see.
        entry : tuple of int, optional
            Draw this entry of the response only; by default all, in their own units.
        ax : matplotlib Axes, optional
            A new figure by default.
        """
        score = estimator.score(X, y)  # compares names and samples, too
        labels = getattr(estimator, "labels_", None)
        observed = np.asarray(y if labels is None else as_fitted("y", y, labels.y))
        predicted = np.asarray(estimator.predict(X))
        if entry is not None:
            shape = observed.shape[1:]
            if len(entry) != len(shape) or not all(-d <= i < d for i, d in zip(entry, shape, strict=True)):
                raise ValueError(f"entry is {entry}; expected the position of an entry in a response of shape {shape}.")
            place = np.ravel_multi_index([i % d for i, d in zip(entry, shape, strict=True)], shape)
            predicted, observed = (values.reshape(len(values), -1)[:, place] for values in (predicted, observed))
            score = None
        return cls(observed, predicted, score=score).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw; returns self."""
        self.ax_ = ax = one_axes(ax, (4.0, 3.6))
        self.figure_ = figure_of(ax)
        x, y = self.predicted.ravel(), self.observed.ravel()
        low, high = min(x.min(), y.min()), max(x.max(), y.max())
        margin = 0.04 * (high - low) or 1.0
        limits = (low - margin, high + margin)
        (self.line_,) = ax.plot(limits, limits, color=INK, lw=1, ls=(0, (4, 3)), zorder=3)
        self.points_: Any
        if x.size <= FEW:
            self.points_ = ax.scatter(x, y, s=14, color=POSITIVE, alpha=0.5, linewidths=0)
        else:
            shades = matplotlib("colors").LinearSegmentedColormap.from_list("counts", ["0.85", POSITIVE, "0.0"])
            self.points_ = ax.hexbin(x, y, gridsize=40, extent=(*limits, *limits), mincnt=1, bins="log", cmap=shades)
            bar = self.figure_.colorbar(self.points_, ax=ax, shrink=0.8, aspect=25)
            bar.set_label("entries", fontsize="small")
        ax.set(xlim=limits, ylim=limits, xlabel="predicted", ylabel="observed", aspect="equal")
        if self.score is not None:
            entries = self.observed[0].size
            text = f"R² = {self.score:.2f}"
            if entries > 1:
                text += (
                    f" (mean of {entries} entries)\nR² = {pooled_r2(self.observed, self.predicted):.2f} (all together)"
                )
            ax.text(0.04, 0.96, text, transform=ax.transAxes, va="top", fontsize="small")
        tidy(ax)
        return self


class ScoresDisplay:
    """Samples by their scores on two components, or on one in the order of the samples.

    Parameters
    ----------
    scores : array-like of shape (n, R)
        As ``transform`` gives them.
    components : tuple of int
        One or two components, counted from 1.
    by : array-like of shape (n,), optional
        A number of every sample, shown as its shade, or the name of its group, shown as its shape, too.
    by_name : str, default=""
        What ``by`` is.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    points_ : list of matplotlib PathCollection
        One, or one for each group.

    Examples
    --------
    >>> from dst2r.plotting import ScoresDisplay
    >>> ScoresDisplay.from_estimator(model, X, by=y)  # doctest: +SKIP
    """

    def __init__(
        self, scores: ArrayLike, components: Sequence[int], *, by: ArrayLike | None = None, by_name: str = ""
    ) -> None:
        self.scores = np.asarray(scores, dtype=float)
        self.components = tuple(components)
        self.by = None if by is None else np.asarray(by)
        self.by_name = by_name
        n, rank = self.scores.shape
        if len(self.components) not in (1, 2) or not all(1 <= r <= rank for r in self.components):
            raise ValueError(f"components is {self.components}; expected one or two numbers from 1 to {rank}.")
        if self.by is not None and self.by.shape != (n,):
            raise ValueError(f"by has shape {self.by.shape}; expected ({n},), an entry for each sample.")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        components: Sequence[int] | None = None,
        by: ArrayLike | None = None,
        by_name: str = "",
        ax: Axes | None = None,
    ) -> Self:
        """Draw the scores of a fitted ``DST2R`` or ``DST2RCV``.

        Parameters
        ----------
        estimator : DST2R or DST2RCV
        X : array-like
            Predictors.
        components : sequence of one or two int, optional
            By default the first two, or the only one.
        by, by_name
            As for the class.
        ax : matplotlib Axes, optional
            A new figure by default.
        """
        fitted(estimator, "transform")
        if fitted(estimator, "rank_") == 0:
            raise ValueError("The model has no components: there are no scores to draw.")
        scores = np.asarray(estimator.transform(X))
        components = range(1, min(scores.shape[1], 2) + 1) if components is None else components
        return cls(scores, tuple(components), by=by, by_name=by_name).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw; returns self."""
        self.ax_ = ax = one_axes(ax, (4.0, 3.2))
        self.figure_ = figure_of(ax)
        axes = [self.scores[:, r - 1] for r in self.components]
        x, y = axes if len(axes) == 2 else (np.arange(len(self.scores)), axes[0])
        ax.axhline(0.0, color=FAINT, lw=0.8, zorder=0)
        if len(axes) == 2:
            ax.axvline(0.0, color=FAINT, lw=0.8, zorder=0)
            ax.set(xlabel=f"score of component {self.components[0]}", ylabel=f"score of component {self.components[1]}")
        else:
            ax.set(xlabel="sample", ylabel=f"score of component {self.components[0]}")
        style: dict[str, Any] = {"s": 22, "edgecolors": INK, "linewidths": 0.4}
        if self.by is None:
            self.points_ = [ax.scatter(x, y, color=POSITIVE, alpha=0.7, **style)]
        elif self.by.dtype.kind in "biuf":
            self.points_ = [ax.scatter(x, y, c=self.by.astype(float), cmap="cividis", **style)]
            bar = self.figure_.colorbar(self.points_[0], ax=ax, shrink=0.8, aspect=25)
            bar.set_label(self.by_name, fontsize="small")
        else:
            groups = np.unique(self.by)
            shades = matplotlib("pyplot").get_cmap("cividis")(np.linspace(0.05, 0.95, len(groups)))
            self.points_ = [
                ax.scatter(x[self.by == g], y[self.by == g], color=shade, marker=SHAPES[k % 8], label=str(g), **style)
                for k, (g, shade) in enumerate(zip(groups, shades, strict=True))
            ]
            ax.legend(title=self.by_name or None, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), ncols=4)
        tidy(ax)
        return self
