"""What models and statistics are, in words and numbers."""

from __future__ import annotations

from typing import Any


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
