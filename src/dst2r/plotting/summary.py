"""All about a model in one figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dst2r.plotting._canvas import fitted, matplotlib, names_of
from dst2r.plotting.choice import CVDisplay, RegularizationPathDisplay
from dst2r.plotting.model import ComponentsDisplay

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    weights, factors = fitted(estimator, "cp_")
    names, texts, ordered = names_of(estimator, labels, mode_names)
    n_x_modes = len(factors) - estimator.intercept_.ndim
    components = ComponentsDisplay(weights, factors, n_x_modes, labels=texts, mode_names=names, ordered=ordered)
    heights = components.size()[1] + 0.2, 3.0
    figure: Figure = matplotlib("figure").Figure(figsize=(8, sum(heights)), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=heights)
    above, below = parts
    components.plot(components.new_axes(above))
    choices = [RegularizationPathDisplay] if getattr(estimator, "path_", None) is not None else []
    kinds: list[Any] = [CVDisplay, *choices] if hasattr(estimator, "cv_results_") else choices
    for kind, ax in zip(kinds, np.ravel(below.subplots(1, len(kinds))) if kinds else [], strict=True):
        kind.from_estimator(estimator, ax=ax)
    if title:
        figure.suptitle(title)
    return figure
