"""``dst2r stats``: second moments of samples, for fits where the samples themselves may not go."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from dst2r.cli.facts import statistics_facts, statistics_lines
from dst2r.cli.output import Voice, progress
from dst2r.io import fetch, open_column
from dst2r.labels import Labels, bare, take_labels
from dst2r.persistence import load, load_labels, save
from dst2r.statistics import GramStatistics, require_room


def run(x: str, y: str, *, weights: str | None, mask: Path | None, out: Path, voice: Voice) -> None:
    """Read the samples once and write their statistics.

    Parameters
    ----------
    x, y : str
        Specifications of predictors and responses.
    weights : str, optional
        Of an array with one weight per sample.
    mask : Path, optional
        Of predictors that are images.
    out : Path
        Free to be written.
    voice : Voice
    """
    with progress("Reading", quiet=voice.quiet):
        X, Y = fetch(x, mask=mask), fetch(y)
        weight = None if weights is None else open_column(weights)
    with progress("Adding up", quiet=voice.quiet):
        stats, labels = statistics_of(X, Y, weight)
    save(stats, out, overwrite=True, labels=labels)
    facts = statistics_facts(stats, labels)
    for line in statistics_lines(facts):
        voice.tell(line)
    voice.result(out, facts)


def statistics_of(X: Any, Y: Any, weight: Any = None) -> tuple[GramStatistics, Labels | None]:
    """Statistics of samples, and the names of what they are about; a MemoryError comes before any work."""
    X, Y, labels = take_labels(X, Y)
    X, Y = bare(X), bare(Y)
    if X.ndim < 2:
        raise ValueError(f"X has shape {X.shape}; expected samples first, then at least one mode.")
    if len(X) != len(Y):
        raise ValueError(f"X has {len(X)} samples, Y has {len(Y)}: both need one row per sample.")
    require_room(math.prod(X.shape[1:]), math.prod(Y.shape[1:]))
    return GramStatistics.from_arrays(X, Y, weight), labels


def load_parts(paths: list[str]) -> tuple[list[GramStatistics], Labels | None]:
    """Statistics from files that hold nothing else, of the same modes with the same names."""
    parts = [load(path) for path in paths]
    names = [load_labels(path) for path in paths]
    for path, part, labels in zip(paths, parts, names, strict=True):
        if not isinstance(part, GramStatistics):
            raise ValueError(f"{path} holds a {type(part).__name__}; expected statistics, as dst2r stats writes them.")
        if (part.x_shape, part.y_shape) != (parts[0].x_shape, parts[0].y_shape):
            raise ValueError(
                f"{path} is about {part.x_shape} -> {part.y_shape}, {paths[0]} about {parts[0].x_shape} -> "
                f"{parts[0].y_shape}: all sites need the same predictors and responses."
            )
        if (labels is None) != (names[0] is None):
            raise ValueError(
                f"one of {paths[0]} and {path} has labels and the other has none, so their order cannot be compared: "
                "make both from labelled arrays, or both from plain ones."
            )
        if labels is not None and names[0] is not None:
            _compare(path, labels, paths[0], names[0])
    return parts, names[0]


def _compare(path: str, labels: Labels, first_path: str, first: Labels) -> None:
    """Raise where two sites name a mode, or its entries, differently."""
    for mode, other in zip(labels.x + labels.y, first.x + first.y, strict=True):
        if mode.name != other.name:
            raise ValueError(f"{path} has the mode {mode.name!r} where {first_path} has {other.name!r}: {REMEDY}")
        if mode.labels == other.labels:
            continue
        pairs = enumerate(zip(mode.labels or (), other.labels or (), strict=False))
        where = next((f"entry {k} is {a!r}, not {b!r}" for k, (a, b) in pairs if a != b), "only one has labels")
        raise ValueError(f"{path} differs from {first_path} along {mode.name!r}: {where}; {REMEDY}")


REMEDY = "bring all sites into the same order and make the statistics again."
