"""``dst2r report``: a page about a fitted model."""

from __future__ import annotations

from pathlib import Path

from dst2r.cli.output import Voice, progress
from dst2r.io import open_array
from dst2r.persistence import load
from dst2r.report import write_report


def run(model_path: Path, data: tuple[str, str] | None, *, out: Path, voice: Voice) -> None:
    """Write the report.

    Parameters
    ----------
    model_path : Path
    data : pair of str, optional
        Specifications of predictors and responses.
    out : Path
        Free to be written.
    voice : Voice
    """
    with progress("Writing the report", quiet=voice.quiet):
        model = load(model_path)
        X, Y = (None, None) if data is None else (open_array(spec) for spec in data)
        write_report(model, out, X, Y)
    voice.tell("Open it with any browser:")
    voice.result(out, {"bytes": out.stat().st_size})
