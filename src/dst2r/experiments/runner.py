"""Runs the cells of an experiment. A finished cell is a file at once: a run that was killed goes on where it was."""

from __future__ import annotations

import hashlib
import json
import platform
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import joblib
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

import dst2r
from dst2r._files import written_whole
from dst2r.experiments.methods import METHODS, score
from dst2r.experiments.settings import Design, Experiment
from dst2r.search import MAX_STEPS
from dst2r.simulation import make_tensor_regression

Row = dict[str, Any]
# What does not change a number: words, pictures and pages.
TELLING = (
    "cli/",
    "report/",
    "plotting/",
    "experiments/story.py",
    "experiments/pages.py",
    "experiments/figures.py",
    "experiments/results.py",
)


@dataclass(frozen=True)
class Cell:
    """A method on a data set."""

    design: Design
    repeat: int
    method: str

    def path(self, folder: Path) -> Path:
        """Where its result is kept."""
        return folder / self.design.name / f"{self.repeat:03d}-{self.method}.json"


class OtherRunError(ValueError):
    """The folder holds cells that other options or another version made."""


def run_experiment(
    experiment: Experiment,
    folder: Path,
    *,
    repeats: int,
    seed: int = 0,
    jobs: int = 1,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Row]:
    """Run the cells that ``folder`` does not hold yet, and return all of them in a fixed order.

    Parameters
    ----------
    experiment : Experiment
    folder : Path
        Of the cells; made if need be.
    repeats : int
        Data sets for each setting.
    seed : int, default=0
        The data and the methods' random starts follow from it, the setting and the number of the repeat.
    jobs : int, default=1
        Processes. Each computes on one thread, so that their number changes no result.
    on_progress : callable
        Called with the number of cells that are done and of all.

    Returns
    -------
    list of dict
        Settings, scores and seconds of every cell.

    Raises
    ------
    OtherRunError
        If the cells in the folder do not belong to this seed and this version of the program.
    """
    claim_folder(folder, {"seed": seed, **versions(), "code": code_digest()})
    cells = [Cell(d, k, m) for k in range(repeats) for d in experiment.designs for m in experiment.methods]
    rows = {cell: read_cell(cell.path(folder)) for cell in cells}
    missing = [cell for cell, row in rows.items() if row is None]
    done = len(cells) - len(missing)
    on_progress(done, len(cells))
    parallel = joblib.Parallel(
        n_jobs=min(jobs, max(len(missing), 1)), return_as="generator_unordered", pre_dispatch="3*n_jobs"
    )
    for cell, row in parallel(joblib.delayed(run_cell)(cell, folder, seed) for cell in missing):
        rows[cell] = row
        done += 1
        on_progress(done, len(cells))
    order = [Cell(d, k, m) for d in experiment.designs for m in experiment.methods for k in range(repeats)]
    return [row for cell in order if (row := rows[cell]) is not None]


def run_cell(cell: Cell, folder: Path, seed: int) -> tuple[Cell, Row]:
    """Fit and score one method on one data set, and keep the result."""
    data_seed = cell.design.data_seed(seed, cell.repeat)
    with threadpool_limits(1), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warm_up(cell.method)
        caught.clear()
        data = cell.design.draw(data_seed)
        model = METHODS[cell.method].build(data, data_seed % 2**32)
        start = time.perf_counter()
        model.fit(data.X, data.Y)
        seconds = time.perf_counter() - start
        row = {
            **asdict(cell.design),
            "repeat": cell.repeat,
            "data_seed": data_seed,
            "sigma": data.noise,
            "method": cell.method,
            **score(model, data),
            "rank_found": getattr(model, "rank_", None),
            "cut_short": sum(len(path) >= MAX_STEPS for path in getattr(model, "search_paths_", ())),
            "not_converged": sum(issubclass(w.category, ConvergenceWarning) for w in caught),
            "seconds": seconds,
        }
    write_row(cell.path(folder), row)
    return cell, row


@cache
def warm_up(method: str) -> None:
    """Compile what the method needs, once for each process, so that no cell's time tells of it."""
    data = make_tensor_regression(60, (4, 3), (3, 2), rank=1, sparsity=0.0, random_state=0)
    METHODS[method].build(data, 0).fit(data.X, data.Y)


def read_cell(path: Path) -> Row | None:
    """Return a kept result; None if there is none that can be read."""
    try:
        return as_read(json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def as_read(row: Row) -> Row:
    """Lists as tuples, so that a computed and a kept result are alike."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}


def write_row(path: Path, row: Row) -> None:
    """Keep a result."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path, overwrite=True) as temporary:
        temporary.write_text(json.dumps(row), encoding="utf-8")


def claim_folder(folder: Path, maker: dict[str, Any]) -> None:
    """Note who made the cells of a folder, or make sure that it was us."""
    note = folder / "made_by.json"
    if (found := read_cell(note)) is None:
        write_row(note, maker)
        return
    differing = [name for name in maker if found.get(name) != maker[name]]
    if differing:
        told = ", ".join(f"{name} {found.get(name)}, now {maker[name]}" for name in differing)
        raise OtherRunError(f"{folder} holds results of another run ({told})")


def versions() -> dict[str, str]:
    """Versions of what computes."""
    packages = ("numpy", "scipy", "numba", "scikit-learn", "tensorly")
    return {
        "dst2r": dst2r.__version__,
        **{name: version(name) for name in packages},
        "python": platform.python_version(),
    }


@cache
def code_digest() -> str:
    """Digest of the package's sources, but for those that only tell: other sources may compute other numbers."""
    root = Path(dst2r.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if not name.startswith(TELLING):
            digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]
