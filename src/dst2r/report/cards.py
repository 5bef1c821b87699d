"""The components as cards of signed bars. The page's script moves what is written here along the path."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from dst2r.report.evidence import Axis
from dst2r.report.markup import bar, column
from dst2r.report.words import count, short

LONGEST = 16  # entries of a mode that are listed one by one; a longer mode is drawn as a strip
LISTED = 6  # largest entries that are named below a strip
OPEN = 6  # cards that start open


def card(r: int, part: dict[str, Any], axes: Sequence[Axis], start: int, heaviest: float) -> str:
    """Card of component ``r`` as it is at a position of the slider."""
    weight = part["weights"][start]
    name = f"Component {r + 1}" + ("" if part["reported"] else " (not in the reported model)")
    modes = "".join(_mode(part["modes"][k], axis, start) for k, axis in enumerate(axes) if len(axis) > 1)
    size = '<svg class="size" viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true">'
    return (
        f'<details class="card" data-component="{r}"{" open" if r < OPEN else ""}{"" if weight else " hidden"}>'
        f'<summary><h3>{name}</h3><span class="weight">weight <output>{short(weight)}</output></span>'
        f"{size}{bar(weight / heaviest)}</svg></summary>"
        f'<p class="reading">{escape(part["readings"][start])}</p><div class="modes">{modes}</div></details>'
    )


def reading(part: dict[str, Any], axes: Sequence[Axis], t: int) -> str:
    """The strongest entries of every mode of a component, in one line."""
    sides: dict[str, list[str]] = {"X": [], "Y": []}
    for k, axis in enumerate(axes):
        if len(axis) == 1:
            continue
        values = np.array(part["modes"][k]["values"][t], dtype=float)
        if not values.any():
            return "Nothing: at this penalty the component is gone."
        order = [i for i in np.argsort(-np.abs(values))[:3] if abs(values[i]) > 0.3 * np.abs(values).max()]
        labels = part["modes"][k]["labels"]
        names = ", ".join(f"{labels[i]}\u00a0{'+' if values[i] > 0 else '−'}" for i in order)
        sides[axis.side].append(f"{axis.name}: {names}")
    x, y = (" · ".join(names) for names in sides.values())
    return f"Strongest: {x} → {y}" if y else f"Strongest: {x}"


def signed(value: float) -> str:
    """With its sign and two decimals; a hollow dot where it is exactly zero."""
    if not value:
        return "○ 0"
    sign = "+" if value > 0 else "−"
    return f"{sign}{abs(value):.2f}" if abs(value) >= 0.005 else f"≈ {sign}0"


def _mode(mode: dict[str, Any], axis: Axis, start: int) -> str:
    """A mode's bars, drawn to the scale of the longest."""
    values = mode["values"][start]
    top = max(map(abs, values)) or 1.0
    side = "" if axis.name.startswith(axis.side) else f'<span class="side">{axis.side}</span> '
    name = side + escape(axis.name)
    if len(axis) <= LONGEST:
        content = _table(name, mode, values, range(len(values)), top)
    else:
        largest = sorted(np.argsort(-np.abs(values), kind="stable")[:LISTED].tolist())
        content = (
            f'<p class="name">{name}</p>{_strip(mode, axis, values, top)}'
            f"{_table('Largest of the reported model', mode, values, largest, top)}{_left_out(mode, start, len(axis))}"
        )
    return f'<div class="mode" data-mode="{mode["k"]}">{content}</div>'


def _table(caption: str, mode: dict[str, Any], values: Sequence[float], shown: Sequence[int], top: float) -> str:
    lines = "".join(
        f'<tr data-entry="{i}"{"" if values[i] else " class=none"}><th scope="row">{escape(mode["labels"][i])}</th>'
        '<td><svg viewBox="-1 0 2 1" preserveAspectRatio="none" aria-hidden="true"><path class="zero" d="M0 0V1"/>'
        f"{bar(values[i] / top)}</svg></td><td>{signed(values[i])}</td></tr>"
        for i in shown
    )
    return f"<table><caption>{caption}</caption><tbody>{lines}</tbody></table>"


def _strip(mode: dict[str, Any], axis: Axis, values: Sequence[float], top: float) -> str:
    """All entries that are shown, in order, as upright bars."""
    first, last = escape(mode["labels"][0]), escape(mode["labels"][-1])
    label = f"{escape(axis.name)}: {len(values)} entries in order, from {first} to {last}"
    columns = "".join(column(i, value / top) for i, value in enumerate(values))
    return (
        f'<svg class="strip" viewBox="0 -1 {len(values)} 2" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f'<path class="zero" d="M0 0H{len(values)}"/>{columns}</svg>'
        f'<p class="ends"><span>{first}</span><span>{last}</span></p>'
    )


def _left_out(mode: dict[str, Any], start: int, size: int) -> str:
    hidden = size - len(mode["index"])
    more = ""
    if hidden:
        more = (
            f" The strip holds the largest {len(mode['index'])}; {count(mode['hidden'][start])} of the "
            f"{count(hidden)} left out are not zero in the reported model."
        )
    text = f"<output>{count(mode['nonzero'][start])}</output> of {count(size)} are not zero.{more}"
    return f'<p class="left-out">{text}</p>'
