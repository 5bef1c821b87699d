"""The figures of the experiments."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING

import numpy as np

from dst2r.experiments.methods import METHODS
from dst2r.experiments.pages import Picture
from dst2r.experiments.results import Results, step_size_curve
from dst2r.experiments.settings import Design, printed

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

OURS, PAPER, OTHER, INK = "#1f4e79", "#ef9b45", "#8a97a5", "0.15"
MARKERS = "osD^vP*X"


def as_picture(name: str, caption: str, figure: Figure) -> Picture:
    """Render as SVG and PNG."""
    files = {}
    for kind in ("svg", "png"):
        file = io.BytesIO()
        figure.savefig(file, format=kind, dpi=150)
        files[kind] = file.getvalue()
    return Picture(name, caption, **files)


def _new(n_rows: int, n_columns: int, size: tuple[float, float]) -> tuple[Figure, np.ndarray]:
    """Figure and axes without pyplot, which would keep a list of figures and may want a screen."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(size[0], size[1]), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def plain_ticks(axis: Axis) -> None:
    """Label a logarithmic axis in plain numbers, at least three of them."""
    low, high = axis.get_view_interval()
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), np.arange(1, 10, 0.5), np.arange(1, 10, 0.1)):
        ticks = [step * 10.0**k for k in range(-9, 10) for step in steps if low <= step * 10.0**k <= high]
        if len(ticks) >= 3:
            break
    axis.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axis.set_ticks([], minor=True)


def draw_errors(results: Results) -> Figure:
    """Errors of all methods, one panel for each setting, with the paper's figure beside ours."""
    n_columns = 2
    n_rows = math.ceil(len(results.designs) / n_columns)
    figure, axes = _new(n_rows, n_columns, (10, 0.6 + 0.32 * len(results.methods) * n_rows))
    places = np.arange(len(results.methods))[::-1]
    for k, (ax, design) in enumerate(zip(axes.flat, results.designs, strict=False)):
        for place, method in zip(places, results.methods, strict=True):
            s = results.table[design, method]
            colour = OURS if method == "dst2r" else OTHER
            bar = None if math.isnan(s.se["error"]) else s.se["error"]
            ax.errorbar(s.mean["error"], place, xerr=bar, fmt="o", color=colour, ms=7, capsize=2)
            if (paper := printed(design, method)) is not None and method != "env_p":
                ax.plot(paper.error, place, "D", mfc="none", mec=PAPER, mew=1.6, ms=7)
        ax.set_xscale("log")
        plain_ticks(ax.xaxis)
        ax.grid(axis="x", color="0.9")
        ax.set_axisbelow(True)
        ax.set_title(design.label, loc="left", fontsize=11, color=INK)
        ax.set_yticks(places, [METHODS[m].label for m in results.methods] if k % n_columns == 0 else [])
        ax.set_ylim(-0.7, len(places) - 0.3)
    for ax in axes.flat[len(results.designs) :]:
        ax.set_visible(False)
    for ax in axes[-1]:
        ax.set_xlabel("‖estimate − truth‖, logarithmic scale")
    axes[0, 0].plot([], [], "o", color=OURS, ms=7, label="our run, mean ± standard error")
    axes[0, 0].plot([], [], "D", mfc="none", mec=PAPER, mew=1.6, ms=7, label="printed in the paper")
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=2,
        frameon=False,
    )
    return figure


def draw_step_sizes(results: Results) -> Figure:
    """The paper's Figure 2: error and sparsity coverage against ε."""
    (design,) = results.designs
    figure, axes = _new(1, 2, (9.5, 3.8))
    names = (("error", "‖estimate − truth‖"), ("coverage", "zeros of the factors found"))
    for ax, (measure, title) in zip(axes[0], names, strict=True):
        for stage, colour, marker in (("printed", PAPER, "s"), ("dst2r", OURS, "o")):
            epsilon, values = step_size_curve(results, design, stage, measure)
            ax.plot(epsilon, values, marker=marker, color=colour, label=METHODS[stage].label)
        ax.set_xscale("log")
        ax.set_xticks(epsilon, [f"{value:g}" for value in epsilon], minor=False)
        ax.minorticks_off()
        ax.set_xlabel("step size ε")
        ax.set_title(title, loc="left", fontsize=11, color=INK)
        if measure == "error":
            ax.set_yscale("log")
            plain_ticks(ax.yaxis)
        else:
            ax.set_ylim(0, 1.02)
        ax.grid(color="0.92")
    axes[0, 0].legend(frameon=False)
    return figure


def draw_landscape(results: Results) -> Figure:
    """Heat maps of the error over the oracle's, one for each method."""
    methods = results.competitors()
    levels = list(dict.fromkeys(d.snr for d in results.designs))
    problems = list(dict.fromkeys((d.zeros, d.rank) for d in results.designs))
    by_place = {(d.snr, d.zeros, d.rank): d for d in results.designs}
    n_columns = 3
    n_rows = math.ceil(len(methods) / n_columns)
    figure, axes = _new(n_rows, n_columns, (10, 3.4 * n_rows))
    for k, (ax, method) in enumerate(zip(axes.flat, methods, strict=False)):
        ratio = np.array(
            [[results.over_oracle(by_place[snr, *problem], method)[0] for snr in levels] for problem in problems]
        )
        ax.imshow(np.log10(ratio), vmin=0, vmax=1.5, cmap="YlOrBr", aspect="auto")
        for (i, j), value in np.ndenumerate(ratio):
            dark = np.log10(value) > 0.9
            ax.text(j, i, f"{value:.3g}", ha="center", va="center", fontsize=9, color="w" if dark else INK)
        ax.set_title(METHODS[method].label, loc="left", fontsize=11, color=INK)
        ax.set_xticks(range(len(levels)), [f"SNR {level:g}" for level in levels])
        labels = [f"R={rank}, {zeros:.0%}" for zeros, rank in problems]
        ax.set_yticks(range(len(problems)), labels if k % n_columns == 0 else [])
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
    for ax in axes.flat[len(methods) :]:
        ax.set_visible(False)
    bar = figure.colorbar(axes[0, 0].images[0], ax=axes, shrink=0.3, ticks=np.log10([1, 2, 5, 10, 30]), extend="max")
    bar.ax.set_yticklabels(["1", "2", "5", "10", "30"])
    bar.set_label("error / oracle's")
    return figure


def draw_growth(results: Results) -> Figure:
    """Error over the oracle's as the rank grows."""
    figure, axes = _new(1, 1, (7, 3.8))
    ax = axes[0, 0]
    ranks = [d.rank for d in results.designs]
    for method, colour, marker in (("printed", PAPER, "s"), ("final", OTHER, "^"), ("dst2r", OURS, "o")):
        ratios = [results.over_oracle(design, method)[0] for design in results.designs]
        ax.plot(ranks, ratios, marker=marker, color=colour, label=METHODS[method].label)
    ax.axhline(1.0, color=INK, lw=0.8, ls=":")
    ax.set_yscale("log")
    plain_ticks(ax.yaxis)
    ax.set_xticks(ranks)
    ax.set_xlabel("rank R")
    ax.set_ylabel("error / oracle's")
    ax.legend(frameon=False)
    return figure


def draw_sweep(results: Results) -> Figure:
    """Mean errors against σ, and the printed errors as horizontal lines."""
    problems: dict[str, list[Design]] = {}
    for design in results.designs:
        problems.setdefault(design.problem, []).append(design)
    n_columns = 2
    n_rows = math.ceil(len(problems) / n_columns)
    figure, axes = _new(n_rows, n_columns, (10, 3.3 * n_rows))
    colours = ["#6b4c9a", "#2f8f6b", "#b5533c", "#8a97a5", PAPER, OURS]
    for ax, designs in zip(axes.flat, problems.values(), strict=False):
        for method, colour, marker in zip(results.methods, colours, MARKERS, strict=False):
            errors = [results.mean(design, method) for design in designs]
            ax.plot([d.noise for d in designs], errors, color=colour, marker=marker, ms=4, label=METHODS[method].label)
            if (paper := printed(designs[0], method)) is not None:
                ax.axhline(paper.error, color=OURS if method == "printed" else colour, lw=1, ls="--")
        ax.set(xscale="log", yscale="log")
        ax.set_title(
            f"{'×'.join(map(str, designs[0].y_shape))} responses, {designs[0].label}",
            loc="left",
            fontsize=11,
            color=INK,
        )
    for ax in axes.flat[len(problems) :]:
        ax.set_visible(False)
    for ax in axes[-1]:
        ax.set_xlabel("σ")
    for ax in axes[:, 0]:
        ax.set_ylabel("‖estimate − truth‖")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=6, frameon=False, fontsize=9)
    return figure
