"""``dst2r predict``: responses for new predictors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dst2r.cli.output import Voice, progress
from dst2r.io import NAMING, TABLES, fetch, named_rows, write_array
from dst2r.labels import Labels, Mode, is_xarray, labels_of
from dst2r.persistence import load


def run(model_path: Path, x: str, *, components: bool, mask: Path | None = None, out: Path, voice: Voice) -> None:
    """Predict and write; of a large source chunk by chunk.

    Parameters
    ----------
    model_path : Path
    x : str
        Specification of the predictors.
    components : bool
        Write the components' scores instead of predictions.
    mask : Path, optional
        Of predictors that are images.
    out : Path
        Free to be written.
    voice : Voice
    """
    with progress("Reading", quiet=voice.quiet):
        model = load_model(model_path)
        if components and not hasattr(model, "transform"):
            raise ValueError(f"{model_path} holds a {type(model).__name__}, which has no component scores.")
        X = as_in_fit(model, fetch(x, mask=mask), x)
    with progress("Predicting", quiet=voice.quiet):
        result = model.transform(X) if components else model.predict(X)
        if out.suffix.lower() in NAMING:
            result = named(result, X, model, components=components, table=out.suffix.lower() in TABLES)
        write_array(out, result, overwrite=True)
    voice.tell(f"{'Component scores' if components else 'Predictions'} of shape {result.shape}, {result.dtype}:")
    voice.result(out, {"shape": list(result.shape), "dtype": str(result.dtype)})


def named(result: Any, X: Any, model: Any, *, components: bool, table: bool) -> Any:
    """Give results their names, for a format that keeps them; as they are if there are none.

    A table with a row for each entry has names in any case, of modes that count.
    """
    title = "score" if components else "prediction"
    if is_xarray(result):
        return result.rename(title)
    if getattr(model, "labels_", None) is None and not hasattr(X, "iloc") and not (table and result.ndim > 2):
        return result
    labels: Labels = labels_of(model)
    modes = (Mode("component", tuple(range(1, model.rank_ + 1))),) if components else labels.y
    return named_rows(result, X, labels.sample, modes).rename(title)


def load_model(path: Path) -> Any:
    """A fitted model from its file."""
    model = load(path)
    if not hasattr(model, "predict"):
        raise ValueError(f"{path} holds a {type(model).__name__}, which predicts nothing: name a model of dst2r fit.")
    return model


def as_in_fit(model: Any, X: Any, name: str) -> Any:
    """Predictors with the columns of the fit, or of its shape; raise if they have not.

    What has names of modes is compared by them when it is used.
    """
    if hasattr(X, "iloc") and hasattr(model, "feature_names_in_"):
        missing = [str(column) for column in model.feature_names_in_ if column not in X.columns]
        if missing:
            shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
            raise ValueError(f"{name} lacks columns that the fit had: {shown}.")
        return X[list(model.feature_names_in_)]
    if hasattr(model, "coef_") and not is_xarray(X):
        expected = model.coef_.shape[: model.coef_.ndim - model.intercept_.ndim]
        if X.shape[1:] != expected:
            remedy = "give the same modes in the same order, samples first"
            if X.ndim == 4 and len(expected) == 3:  # images are cropped to their mask
                remedy += ", of images with the --mask of the fit"
            raise ValueError(
                f"{name} has samples of shape {X.shape[1:]}, but the model was fitted on {expected}: {remedy}."
            )
    return X
