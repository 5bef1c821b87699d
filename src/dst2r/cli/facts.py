"""What models and statistics are, in words and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dst2r.labels import Labels

if TYPE_CHECKING:
    from dst2r.statistics import GramStatistics


def model_facts(model: Any) -> dict[str, Any]:
    """Plain facts of a fitted model, for JSON."""
    intercept = model.intercept_
    facts: dict[str, Any] = {"class": type(model).__name__}
    if hasattr(model, "coef_"):
        facts["x_shape"] = list(model.coef_.shape[: model.coef_.ndim - intercept.ndim])
    facts["y_shape"] = list(intercept.shape)
    names = {
        "n_samples": "n_samples_",
        "rank": "rank_",
        "l1": "l1_",
        "l2": "l2_",
        "n_parameters": "n_parameters_",
        "loss": "loss_",
        "null_loss": "null_loss_",
        "converged": "converged_",
    }
    for name, attribute in names.items():
        if hasattr(model, attribute):
            value = getattr(model, attribute)
            facts[name] = value.item() if hasattr(value, "item") else value
    return facts


def statistics_facts(stats: GramStatistics, labels: Labels | None) -> dict[str, Any]:
    """Plain facts of statistics, for JSON."""
    return {
        "class": "GramStatistics",
        "x_shape": list(stats.x_shape),
        "y_shape": list(stats.y_shape),
        "n_samples": stats.n_samples,
        "modes": mode_facts(labels, stats.x_shape, stats.y_shape),
    }


def mode_facts(labels: Labels | None, x_shape: tuple[int, ...], y_shape: tuple[int, ...]) -> list[dict[str, Any]]:
    """Name, side, size and labels of every mode, for JSON."""
    labels = labels or Labels.plain(len(x_shape), len(y_shape))
    sides = zip("X" * len(x_shape) + "Y" * len(y_shape), labels.x + labels.y, x_shape + y_shape, strict=True)
    return [{"side": side, "name": m.name, "size": d, "labels": m.labels and list(m.labels)} for side, m, d in sides]


def mode_lines(modes: list[dict[str, Any]]) -> list[str]:
    """The modes, for people: as many labels as fit into a line."""
    width = max((len(mode["name"]) for mode in modes), default=0)
    return [f"  {m['side']}  {m['name']:{width}}  {m['size']:>5}  {label_line(m['labels'])}".rstrip() for m in modes]


def label_line(labels: list[Any] | None, room: int = 50) -> str:
    """The first labels, and dots for more."""
    shown: list[str] = []
    length = 0
    for label in labels or []:
        text = f"{label:.6g}" if isinstance(label, float) else str(label)
        length += len(text) + 2
        if length > room and shown:
            return ", ".join([*shown, "..."])
        shown.append(text if len(text) <= room else text[: room - 3] + "...")
    return ", ".join(shown)


def statistics_lines(facts: dict[str, Any]) -> list[str]:
    """The facts of statistics, for people."""
    shape, responses = (" × ".join(map(str, facts[key])) or "1" for key in ("x_shape", "y_shape"))
    n = facts["n_samples"]
    lines = [f"Statistics of {n:.12g} samples: predictors {shape}, responses {responses}"]
    return lines + (mode_lines(facts["modes"]) if any(mode["labels"] for mode in facts["modes"]) else [])


def model_lines(facts: dict[str, Any]) -> list[str]:
    """The facts of a model, for people."""
    shape = " × ".join(map(str, facts.get("x_shape", ["?"])))
    responses = " × ".join(map(str, facts["y_shape"])) or "1"
    lines = [f"{facts['class']}: predictors {shape} -> responses {responses}"]
    if "rank" in facts:
        lines.append(f"  rank     {facts['rank']}")
    if "l1" in facts:
        lines.append(f"  l1       {facts['l1']:.4g}")
    if facts.get("l2"):
        lines.append(f"  l2       {facts['l2']:.4g}")
    if "n_parameters" in facts:
        lines.append(f"  numbers  {facts['n_parameters']}")
    if facts.get("null_loss"):
        lines.append(f"  training loss {facts['loss']:.4g}, {facts['null_loss']:.4g} without predictors")
    return lines
