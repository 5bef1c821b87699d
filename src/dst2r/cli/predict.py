"""``dst2r predict``: responses for new predictors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dst2r.cli.output import Voice, progress, written_whole
from dst2r.io import open_array, write_array
from dst2r.persistence import load


def run(model_path: Path, x: str, *, components: bool, out: Path, voice: Voice) -> None:
    """Predict and write.

    Parameters
    ----------
    model_path : Path
    x : str
        Specification of the predictors.
    components : bool
        Write the components' scores instead of predictions.
    out : Path
        Free to be written.
    voice : Voice
    """
    with progress("Predicting", quiet=voice.quiet):
        model = load(model_path)
        X = np.asarray(open_array(x))
        check_samples(model, X, x)
        result = model.transform(X) if components else model.predict(X)
        with written_whole(out) as temporary:
            write_array(temporary, result, overwrite=True)
    voice.tell(f"{'Component scores' if components else 'Predictions'} of shape {result.shape}, {result.dtype}:")
    voice.result(out, {"shape": list(result.shape), "dtype": str(result.dtype)})


def check_samples(model: Any, X: Any, name: str) -> None:
    """Raise unless the samples have the shape that the model was fitted on."""
    if not hasattr(model, "predict"):
        raise ValueError(f"a file of {type(model).__name__} predicts nothing: name a model that dst2r fit wrote.")
    if not hasattr(model, "coef_"):
        return
    expected = model.coef_.shape[: model.coef_.ndim - model.intercept_.ndim]
    if X.shape[1:] != expected:
        raise ValueError(
            f"{name} has samples of shape {X.shape[1:]}, but the model was fitted on {expected}: "
            "give the same modes in the same order, samples first."
        )
