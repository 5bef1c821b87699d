"""``dst2r score``: how well a model predicts responses that are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dst2r.cli.output import Voice, progress
from dst2r.cli.predict import as_in_fit, load_model
from dst2r.io import fetch, open_column, write_table
from dst2r.labels import as_fitted, bare, check_samples, labels_of
from dst2r.statistics import is_lazy

SHOWN = 5  # worst and best entries in the terminal
Floats = NDArray[np.float64]


def run(
    model_path: Path, x: str, y: str, *, weights: str | None, mask: Path | None, table: Path | None, voice: Voice
) -> None:
    """Compare predictions with responses.

    Parameters
    ----------
    model_path : Path
    x, y : str
        Specifications of predictors and responses.
    weights : str, optional
        Of an array with one weight per sample.
    mask : Path, optional
        Of predictors that are images.
    table : Path, optional
        For R² of every response entry; free to be written.
    voice : Voice
    """
    with progress("Reading", quiet=voice.quiet):
        model = load_model(model_path)
        X, Y = as_in_fit(model, fetch(x, mask=mask), x), fetch(y)
        weight = None if weights is None else open_column(weights)
    with progress("Predicting", quiet=voice.quiet):
        names = labels_of(model) if hasattr(model, "coef_") else None
        predicted = model.predict(X)
        observed = Y if names is None else as_fitted("Y", Y, names.y)
        check_samples(predicted, observed)
        n = len(predicted)
        error, variance = errors(bare(observed), bare(predicted), weight)
    with np.errstate(invalid="ignore", divide="ignore"):
        r2 = 1.0 - error / variance
    r2[variance == 0] = np.where(error[variance == 0] > 0, 0.0, 1.0)
    shape = model.intercept_.shape
    modes = [] if names is None else names.y
    texts = [[*range(d)] if mode.labels is None else [*mode.labels] for mode, d in zip(modes, shape, strict=False)]
    places = np.unravel_index(np.arange(r2.size), shape) if shape else ()
    columns: dict[str, Any] = {
        mode.name: [labels[k] for k in place] for mode, labels, place in zip(modes, texts, places, strict=False)
    }
    columns |= {"r2": r2, "rmse": np.sqrt(error), "sd": np.sqrt(variance)}
    total = float(variance.sum())
    facts = {
        "n_samples": n,
        "r2": float(r2.mean()),
        "r2_pooled": 1.0 - float(error.sum()) / total if total > 0 else float(error.sum() == 0),
        "rmse": float(np.sqrt(error.mean())),
        "entries": {name: list(values) for name, values in columns.items()},
    }
    if table is not None:
        write_table(table, columns, overwrite=True)
    tell(facts, columns, voice)
    voice.result(table, facts)


def errors(Y: Any, predicted: Any, weight: Any) -> tuple[Floats, Floats]:
    """Mean squared error and variance of every response entry, shape (Q,)."""
    if Y.shape != predicted.shape:
        raise ValueError(
            f"Y has shape {Y.shape}, the predictions from X have {predicted.shape}: "
            "give the samples of X, in the same order, with the response modes of the fit."
        )
    if len(Y) < 2:
        raise ValueError(f"X and Y hold {len(Y)} sample; a score needs two or more.")
    if is_lazy(predicted):
        from dst2r.statistics.dask import errors as lazy_errors

        return lazy_errors(Y, predicted, weight)
    observed = np.asarray(Y, dtype=np.float64).reshape(len(Y), -1)
    if not np.isfinite(observed).all():
        raise ValueError("Y holds NaN or infinity: remove or impute those samples first.")
    shares = np.full(len(Y), 1 / len(Y)) if weight is None else np.asarray(weight, dtype=float)
    if shares.shape != (len(Y),) or not (shares >= 0).all() or shares.sum() <= 0:
        raise ValueError(f"--weights has to hold {len(Y)} weights, one per sample, not negative and not all 0.")
    shares = shares / shares.sum()
    error = shares @ (observed - np.asarray(predicted, dtype=np.float64).reshape(observed.shape)) ** 2
    constant = (observed == observed[0]).all(axis=0)
    return error, np.where(constant, 0.0, shares @ (observed - shares @ observed) ** 2)


def tell(facts: dict[str, Any], columns: dict[str, Any], voice: Voice) -> None:
    """Print the summary, and the entries that are predicted worst and best."""
    r2 = columns["r2"]
    voice.tell(f"R² {facts['r2']:.4f}, the mean over {r2.size} response entries of {facts['n_samples']} samples")
    if r2.size == 1:
        voice.tell(f"   root mean squared error {facts['rmse']:.4g}")
        return
    voice.tell(f"   {facts['r2_pooled']:.4f} pooled (entries with more variance count more)")
    voice.tell(f"   {r2.min():.4f} least, {np.median(r2):.4f} median, {r2.max():.4f} greatest")
    order = np.argsort(r2, kind="stable")
    some = order if r2.size <= 2 * SHOWN else np.concatenate([order[:SHOWN], order[-SHOWN:]])
    names = [name for name in columns if name not in ("r2", "rmse", "sd")]
    rows = [[*(str(columns[name][k]) for name in names), f"{r2[k]:.4f}"] for k in some]
    if len(some) < len(order):
        rows.insert(SHOWN, ["..."] * len(names) + [""])
    widths = [max(map(len, column)) for column in zip([*names, "R²"], *rows, strict=True)]
    for row in [[*names, "R²"], *rows]:
        voice.tell("   " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
