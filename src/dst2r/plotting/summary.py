"""All about a model in one figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dst2r.labels import components_of
from dst2r.plotting._canvas import matplotlib, names_of
from dst2r.plotting.choice import CVDisplay, RegularizationPathDisplay, has_joint_path
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
    estimator : DST2R, DST2RCV, or another with ``cp_``
    labels, mode_names
        As for :class:`ComponentsDisplay`.
    title : str, optional

    Returns
    -------
    matplotlib Figure
        It belongs to no window; ``savefig`` writes it.
    """
    weights, factors = components_of(estimator)
    names, texts, ordered = names_of(estimator, labels, mode_names)
    n_x_modes = len(factors) - estimator.intercept_.ndim
    components = ComponentsDisplay(weights, factors, n_x_modes, labels=texts, mode_names=names, ordered=ordered)
    choices = [RegularizationPathDisplay] if has_joint_path(estimator) else []
    kinds: list[Any] = [CVDisplay, *choices] if hasattr(estimator, "cv_results_") else choices
    heights = [components.size()[1] + 0.2, 3.0][: 2 if kinds else 1]
    figure: Figure = matplotlib("figure").Figure(figsize=(8, sum(heights)), layout="constrained")
    above, *below = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    components.plot(components.new_axes(above))
    for part in below:
        for kind, ax in zip(kinds, np.ravel(part.subplots(1, len(kinds))), strict=True):
            kind.from_estimator(estimator, ax=ax)
    if title:
        figure.suptitle(title)
    return figure
