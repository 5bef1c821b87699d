"""``dst2r simulate``: data whose coefficient is known, in files."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from typer import BadParameter

from dst2r import make_tensor_regression
from dst2r._files import written_whole
from dst2r.cli.output import Voice, progress


@dataclass(frozen=True)
class Design:
    """What to simulate; names and meanings are those of ``make_tensor_regression``."""

    n_samples: int
    x_shape: str
    y_shape: str
    rank: int
    sparsity: float
    noise: float | None
    snr: float | None
    normalize: bool
    x_distribution: str
    random_state: int


def run(design: Design, test: int, *, out: Path, voice: Voice) -> None:
    """Simulate and write a folder.

    Parameters
    ----------
    design : Design
    test : int
        Samples beside those of the design, for scores.
    out : Path
        Folder, free to be written.
    voice : Voice
    """
    arguments = asdict(design) | {
        "n_samples": design.n_samples + test,
        "x_shape": shape("--x-shape", design.x_shape),
        "y_shape": shape("--y-shape", design.y_shape),
    }
    with progress("Simulating", quiet=voice.quiet):
        data = make_tensor_regression(**arguments)
        n = design.n_samples
        arrays = {"X": data.X[:n], "Y": data.Y[:n], "coef": data.coef}
        if test:
            arrays |= {"X_test": data.X[n:], "Y_test": data.Y[n:]}
        facts = {name: list(array.shape) for name, array in arrays.items()}
        with written_whole(out, overwrite=True) as temporary:
            temporary.unlink()  # the temporary name becomes a folder
            temporary.mkdir()
            for name, array in arrays.items():
                np.save(temporary / f"{name}.npy", array)
            np.savez(temporary / "factors.npz", *data.factors)  # arr_0, arr_1, ..., predictor modes first
            story = {"dst2r": version("dst2r"), "make_tensor_regression": arguments, "noise": data.noise, "test": test}
            (temporary / "simulation.json").write_text(json.dumps(story, indent=1) + "\n", encoding="utf-8")
    for name, size in facts.items():
        voice.tell(f"  {name + '.npy':11}  {' × '.join(map(str, size))}")
    voice.tell(f"  noise of standard deviation {data.noise:.4g}; coef.npy and factors.npz are the truth")
    voice.result(out, {"shapes": facts, "noise": data.noise, "seed": design.random_state})


def shape(option: str, text: str) -> tuple[int, ...]:
    """Sizes of "8,8,8" or "8x8x8"; none of "" or "scalar"."""
    if option == "--y-shape" and text in ("", "scalar"):
        return ()
    try:
        sizes = tuple(int(part) for part in text.replace("x", ",").split(","))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise BadParameter(f"{text!r} is no shape: write 8,8,8 or 8x8x8.", param_hint=option)
    return sizes
