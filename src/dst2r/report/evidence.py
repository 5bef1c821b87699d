"""What a report shows, as plain numbers and texts: the path, the components, the choice, the quality of the fit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from dst2r.cp import Array, CPCoefficient
from dst2r.labels import as_fitted, bare, check_samples, labels_of
from dst2r.metrics import pooled_r2, r2_score
from dst2r.selection import CVSurface

MOST_VALUES = 250_000  # factor entries in a page, over all points of the path
LONGEST_LABEL = 60
MOST_CELLS = 12_000  # response entries that are drawn one by one
FEW_COLUMNS, MOST_ROWS = 8, 60  # of a table
MOST_ENTRIES, MOST_SAMPLES, MOST_POINTS = 40, 150, 600  # of the pictures of predicted against observed


@dataclass(frozen=True)
class Axis:
    """A mode as it is shown: name, side ("X" or "Y") and a text for every entry."""

    name: str
    side: str
    labels: list[str]
    named: bool

    def __len__(self) -> int:
        return len(self.labels)


def axes_of(model: Any) -> list[Axis]:
    """All modes of a fitted model, predictor modes first; numbered from 0 where nothing has a name."""
    shape, n_x = model.coef_.shape, model.coef_.ndim - model.intercept_.ndim
    labels = getattr(model, "labels_", None)
    modes = [None] * len(shape) if labels is None else [*labels.x, *labels.y]
    axes = []
    for k, (d, mode) in enumerate(zip(shape, modes, strict=True)):
        side, number = ("X", k + 1) if k < n_x else ("Y", k + 1 - n_x)
        name = mode.name if mode is not None else f"{side} mode {number}"
        named = mode is not None and mode.labels is not None
        texts = [_text(label) for label in mode.labels] if mode is not None and named else [str(i) for i in range(d)]
        axes.append(Axis(_short(name), side, [_short(text) for text in texts], named))
    return axes


@dataclass(frozen=True, eq=False)
class Position:
    """A model that the slider stops at.

    Attributes
    ----------
    l1 : float
    loss : float
        On the data of the fit, without the ridge.
    explained : float
        The part of the loss without a model that is gone; nan if the response does not vary.
    criterion : float
        nan or inf where the path has none.
    n_parameters : int
    coef : CPCoefficient
    reported : bool
        Whether this is the model that was fitted, rather than a point of the path that led there.
    on_path : int or None
        Free numbers of the path's point that the reported model was refined from.
    """

    l1: float
    loss: float
    explained: float
    criterion: float
    n_parameters: int
    coef: CPCoefficient
    reported: bool = False
    on_path: int | None = None


def positions_of(model: Any) -> list[Position]:
    """The path of a fitted model, with the model itself in place of the point that it was refined from.

    Points that the path cannot vouch for (docs/maths.md, section 5), or that are worse than no model, are left out.
    """
    weights, factors = model.cp_
    x_shape, y_shape = _shapes(model)
    coef = CPCoefficient((factors[0] * weights, *factors[1:]), len(x_shape))
    path, l2 = model.path_, getattr(model, "l2_", model.l2)
    found, origin, criterion = [], None, float("nan")

    def explained(loss: float) -> float:
        return 1.0 - loss / model.null_loss_ if model.null_loss_ > 0 else float("nan")

    for t, l1 in enumerate([] if path is None else path.l1):
        if np.isclose(l1, model.l1_, rtol=1e-9, atol=0.0):
            origin, criterion = int(path.n_parameters[t]), float(path.criterion[t])
            continue
        loss = float(path.loss[t]) - _ridge_part(path.relaxed[t], l2)
        if not np.isfinite(path.criterion[t]) or loss > model.null_loss_ * (1 + 1e-9):
            continue
        shown = (path.relaxed if model.relax else path.coefs)[t].alive().with_modes(x_shape, y_shape)
        numbers = int(path.n_parameters[t])
        found.append(Position(float(l1), loss, explained(loss), float(path.criterion[t]), numbers, shown))
    loss = float(model.loss_) - _ridge_part(coef, l2)
    own = Position(model.l1_, loss, explained(loss), criterion, model.n_parameters_, coef, True, origin)
    return sorted([*found, own], key=lambda position: position.l1)


def reported(positions: Sequence[Position]) -> int:
    """Index of the model itself."""
    return next(t for t, position in enumerate(positions) if position.reported)


def _ridge_part(coef: CPCoefficient, l2: float) -> float:
    """What the ridge adds to a fit's loss."""
    U, V = coef.x_side(), coef.y_side()
    return 0.5 * l2 * float(np.sum((U.T @ U) * (V.T @ V)))


def follow_components(positions: Sequence[Position]) -> list[list[tuple[float, list[Array]] | None]]:
    """Every component over all positions: ``followed[component][position]`` is its weight and unit factors, or None.

    The reported model gives the order. From there outwards each model's components take the places, and the signs, of
    those that they resemble most in the model before.
    """
    start = reported(positions)
    places: list[list[tuple[float, list[Array]] | None]] = []
    for order in (range(start, len(positions)), range(start - 1, -1, -1)):
        latest = [next(c for c in (place[start], *place) if c is not None) for place in places]
        for t in order:
            weights, factors = positions[t].coef.alive().normal_form()
            parts = [(float(w), [f[:, r] for f in factors]) for r, w in enumerate(weights)]
            for part, place in _matches(parts, latest):
                if place == len(places):
                    places.append([None] * len(positions))
                    latest.append(part)
                latest[place] = places[place][t] = _same_signs(part, latest[place])
    return places


def _matches(
    parts: list[tuple[float, list[Array]]], places: list[tuple[float, list[Array]]]
) -> Iterator[tuple[tuple[float, list[Array]], int]]:
    """Pair components with the places they resemble most; those left over get new places at the end."""
    likeness = np.ones((len(parts), len(places)))
    for i, (_, factors) in enumerate(parts):
        for j, (_, others) in enumerate(places):
            likeness[i, j] = np.prod([abs(f @ g) for f, g in zip(factors, others, strict=True)])
    partner = dict(zip(*linear_sum_assignment(likeness, maximize=True), strict=True))
    new = len(places)
    for i, part in enumerate(parts):
        yield part, int(partner.get(i, new))
        new += i not in partner


def _same_signs(part: tuple[float, list[Array]], other: tuple[float, list[Array]]) -> tuple[float, list[Array]]:
    """Exchange signs between modes, which leaves the component alone, so that it looks like another."""
    weight, factors = part
    signs = [-1.0 if f @ g < 0 else 1.0 for f, g in zip(factors[:-1], other[1][:-1], strict=True)]
    signs.append(float(np.prod(signs)))
    return weight, [f * sign for f, sign in zip(factors, signs, strict=True)]


def components(positions: Sequence[Position], axes: Sequence[Axis]) -> list[dict[str, Any]]:
    """For JSON: weight, shown entries and the count of those not shown, of each component at each position."""
    followed = follow_components(positions)
    start = reported(positions)
    room = MOST_VALUES // max(len(positions) * len(followed) * len(axes), 1)
    most = int(np.clip(room, 20, 400))
    result = []
    for place in followed:
        modes = []
        for k, axis in enumerate(axes):
            values = np.array([np.zeros(len(axis)) if part is None else part[1][k] for part in place])
            shown = _largest(values, start, most)
            rest = np.delete(values, shown, axis=1)
            modes.append(
                {
                    "k": k,
                    "index": shown.tolist(),
                    "labels": [axis.labels[i] for i in shown],
                    "values": [[_round(value) for value in row] for row in values[:, shown]],
                    "nonzero": np.count_nonzero(values, axis=1).tolist(),
                    "hidden": np.count_nonzero(rest, axis=1).tolist(),
                    "hidden_share": [_round(share) for share in np.sum(rest**2, axis=1)],
                }
            )
        weights = [0 if part is None else _round(part[0]) for part in place]
        result.append({"weights": weights, "reported": place[start] is not None, "modes": modes})
    return result


def _largest(values: Array, start: int, most: int) -> NDArray[np.intp]:
    """Indices, in order, of the entries to show: the largest of the reported model, then those of the path."""
    if values.shape[1] <= most:
        return np.arange(values.shape[1])
    at, anywhere = np.abs(values[start]), np.abs(values).max(axis=0)
    return np.sort(np.lexsort((-anywhere, -at))[:most])


@dataclass(frozen=True, eq=False)
class Choice:
    """Cross-validation surface with its marked points, each a (row, column) of rank and l1."""

    surface: CVSurface
    mean: Array
    error: Array
    least: tuple[int, int]
    within: tuple[int, int]
    chosen: tuple[int, int]

    @classmethod
    def of(cls, model: Any) -> Choice:
        """Surface of a fitted ``DST2RCV``."""
        found = model.cv_results_
        surface = CVSurface(tuple(found["ranks"]), found["l1"], found["test_loss"], found["n_parameters"])
        mean = surface.loss.mean(axis=0)
        return cls(
            surface, mean, surface.standard_error(), surface.least(), surface.choose("1se"), surface.choose(model.rule)
        )

    def rank(self, point: tuple[int, int]) -> int:
        """Rank at a point."""
        return int(self.surface.ranks[point[0]])

    def l1(self, point: tuple[int, int]) -> float:
        """Penalty at a point."""
        return float(self.surface.l1[point[1]])

    def numbers(self, point: tuple[int, int]) -> float:
        """Free numbers at a point, averaged over folds."""
        return float(self.surface.n_parameters[:, point[0], point[1]].mean())

    def to_json(self) -> dict[str, Any]:
        """For the picture; models that were no candidates are null."""
        return {
            "ranks": [int(rank) for rank in self.surface.ranks],
            "l1": [_round(l1) for l1 in self.surface.l1],
            "mean": [[_round(value) for value in row] for row in self.mean],
            "error": [[_round(value) for value in row] for row in self.error],
            "numbers": [[_round(value) for value in row] for row in self.surface.n_parameters.mean(axis=0)],
            "least": self.least,
            "within": self.within,
            "chosen": self.chosen,
        }


@dataclass(frozen=True, eq=False)
class Quality:
    """How predictions compare with responses that were given.

    Attributes
    ----------
    n : int
    r2 : ndarray of shape (Q,)
        Per response entry; nan where the observed values do not vary.
    pooled : float
        1 - SSE / SST over all entries.
    training : bool
        Whether these are, as far as size and means tell, the data of the fit.
    observed, predicted : ndarray of shape (n, Q)
    """

    n: int
    r2: Array
    pooled: float
    training: bool
    observed: Array
    predicted: Array

    @classmethod
    def of(cls, model: Any, X: Any, Y: Any) -> Quality:
        """Check and compare; a ValueError says what does not fit."""
        names = labels_of(model)
        X, Y = as_fitted("X", X, names.x), as_fitted("Y", Y, names.y)
        check_samples(X, Y)
        X, observed = np.asarray(bare(X), dtype=float), np.asarray(bare(Y), dtype=float)
        predicted = np.asarray(model.predict(X), dtype=float)
        if observed.shape != predicted.shape:
            raise ValueError(
                f"Y has shape {observed.shape}, the predictions from X have {predicted.shape}: "
                "give the samples of X, in the same order, with the response modes of the fit."
            )
        if len(observed) < 2:
            raise ValueError(f"X and Y hold {len(observed)} sample; the quality of a fit needs two or more.")
        pooled, r2 = pooled_r2(observed, predicted), r2_score(observed, predicted, per_entry=True)
        n = len(observed)
        observed, predicted = observed.reshape(n, -1), predicted.reshape(n, -1)
        r2 = np.where(np.ptp(observed, axis=0) > 0, np.ravel(r2), np.nan)
        mean = X.mean(axis=0).ravel()
        spread = max(float(np.abs(mean).max()), 1e-300)
        same = n == model.n_samples_ and np.allclose(mean, np.ravel(model.x_mean_), atol=1e-5 * spread)
        return cls(n, r2, pooled, bool(same), observed, predicted)

    def to_json(self, axes: Sequence[Axis]) -> dict[str, Any]:
        """For the pictures: R² of every entry (or its histogram), and points for some entries."""
        names = combinations(axes)
        known = np.flatnonzero(np.isfinite(self.r2))
        order = known[np.argsort(self.r2[known], kind="stable")]
        half = MOST_ENTRIES // 2
        some = order if order.size <= MOST_ENTRIES else np.concatenate([order[:half], order[-half:]])
        counts, edges = np.histogram(np.clip(self.r2[known], -0.1, 1.0), bins=np.linspace(-0.1, 1.0, 23))
        draw = np.random.default_rng(0)  # which points are shown, where there are too many
        rows = np.sort(draw.permutation(self.n)[:MOST_SAMPLES])
        entries = [
            {
                "name": names[j] or "the response",
                "r2": _round(self.r2[j]),
                "points": [[_round(self.observed[i, j]), _round(self.predicted[i, j])] for i in rows],
            }
            for j in some
        ]
        return {
            "counts": counts.tolist(),
            "edges": [_round(edge) for edge in edges],
            "entries": entries,
            "pooled": self._pooled_points(known, draw),
        }

    def _pooled_points(self, known: NDArray[np.intp], draw: np.random.Generator) -> list[list[float | None]]:
        """Pairs from all entries, each in units of its own standard deviation about its mean."""
        if known.size == 0:
            return []
        i, j = draw.integers(self.n, size=MOST_POINTS), known[draw.integers(known.size, size=MOST_POINTS)]
        center, spread = self.observed.mean(axis=0)[j], self.observed.std(axis=0)[j]
        pairs = (self.observed[i, j] - center) / spread, (self.predicted[i, j] - center) / spread
        return [[_round(a), _round(b)] for a, b in zip(*pairs, strict=True)]

    def extremes(self, axes: Sequence[Axis], many: int) -> list[tuple[str, float]]:
        """The worst and the best predicted entries, worst first; all of them if there are few."""
        known = np.flatnonzero(np.isfinite(self.r2))
        order = known[np.argsort(self.r2[known], kind="stable")]
        some = order if order.size <= 2 * many else np.concatenate([order[:many], order[-many:]])
        names = combinations(axes)
        return [(names[j] or "the response", float(self.r2[j])) for j in some]


def rows_and_columns(axes: Sequence[Axis]) -> tuple[Sequence[Axis], Sequence[Axis]]:
    """Modes that run down a table and those that run across: so many down that few columns remain, if rows allow."""
    sizes = [len(axis) for axis in axes]
    splits = [
        k for k in range(1, len(axes)) if math.prod(sizes[k:]) <= FEW_COLUMNS and math.prod(sizes[:k]) <= MOST_ROWS
    ]
    k = min(splits, default=1)
    return axes[:k], axes[k:]


def combinations(axes: Sequence[Axis]) -> list[str]:
    """Texts of all combinations of the entries of some modes."""
    texts = [""]
    for axis in axes:
        texts = [f"{text} · {label}" if text else label for text in texts for label in axis.labels]
    return texts


def _shapes(model: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    n_x = model.coef_.ndim - model.intercept_.ndim
    return model.coef_.shape[:n_x], model.coef_.shape[n_x:]


def _text(label: str | int | float) -> str:
    return f"{label:.6g}" if isinstance(label, float) else str(label)


def _short(text: str) -> str:
    """One line of a length that fits."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_LABEL else line[: LONGEST_LABEL - 1] + "…"


def _round(value: float) -> float | int | None:
    """Four digits, which is more than can be seen; exact zeros short, and None for what is not a number."""
    if not np.isfinite(value):
        return None
    return float(f"{value:.4g}") if value else 0
