"""``dst2r reproduce``: the paper's experiments, ours beside the printed figures."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from dst2r._files import written_whole
from dst2r.cli import INTERRUPTED
from dst2r.cli.output import claim, fail
from dst2r.experiments import COMMANDS, Experiment, run_experiment
from dst2r.experiments.pages import Entry, Grid, Section, to_html, to_markdown
from dst2r.experiments.results import Results, cells_csv, summary_csv, times_csv
from dst2r.experiments.runner import OtherRunError, code_digest, versions
from dst2r.experiments.story import tell, tell_run

GRIDS_SHOWN = 2  # of a section; the report has all
SECONDS_BETWEEN_LINES = 20.0  # where the progress is not on a terminal


def run(
    name: str,
    *,
    repeats: int,
    jobs: int,
    out: Path,
    seed: int,
    noise: float | None,
    snr: float | None,
    normalize: bool | None,
) -> None:
    """Run what ``name`` stands for, write the tables, figures and pages, and print the tables.

    Parameters
    ----------
    name : str
        A key of ``experiments.COMMANDS``.
    repeats, jobs, seed : int
    out : Path
        Folder of everything that is written.
    noise, snr : float or None
        At most one of them; noise 1 if neither.
    normalize : bool or None
        Unit-norm factors, or raw ones; raw if not said.
    """
    experiments = choose(name, noise, snr, normalize)
    claim(out / "cells", force=True, folder=True)
    sections = []
    for experiment in experiments:
        results = Results(compute(experiment, out, repeats, seed, jobs))
        section = tell(experiment, results)
        for suffix, content in (("", summary_csv), ("-cells", cells_csv), ("-times", times_csv)):
            save(out / f"{experiment.name}{suffix}.csv", content(results).encode())
        for picture in section.pictures:
            save(out / f"{picture.name}.svg", picture.svg)
            save(out / f"{picture.name}.png", picture.png)
        sections.append(section)
    sections.append(tell_run(experiments, facts(name, repeats, seed, experiments)))
    title = "The paper's experiments, repeated" if name in ("all", "table1", "table2", "figure2") else f"dst2r {name}"
    save(out / f"{name}.md", to_markdown(title, sections).encode())
    save(out / f"{name}.html", to_html(title, sections).encode())
    console = Console(highlight=False)
    for section in sections[:-1]:
        show(console, section)
    console.print(f"Report: {out / f'{name}.html'}", soft_wrap=True)


def choose(name: str, noise: float | None, snr: float | None, normalize: bool | None) -> list[Experiment]:
    """Look up the experiments, at the noise level that is asked for."""
    experiments = COMMANDS[name]
    if snr == 0.0:
        fail("--snr must be greater than 0.")
    if noise is not None and snr is not None:
        fail("--noise and --snr both set the noise level: give one of them.")
    if any(experiment.fixed for experiment in experiments):
        if (noise, snr, normalize) != (None, None, None):
            fail(f"{name} has noise levels and factors of its own: leave out --noise, --snr, --raw and --normalize.")
        return list(experiments)
    level = 1.0 if noise is None and snr is None else noise
    return [e.at(noise=level, snr=snr, normalize=bool(normalize)) for e in experiments]


def compute(experiment: Experiment, out: Path, repeats: int, seed: int, jobs: int) -> list[dict[str, object]]:
    """Run the missing cells with progress; end in one line where a user can do something about it."""
    start = time.perf_counter()
    try:
        with progress(experiment.name) as tell_progress:
            rows = run_experiment(
                experiment,
                out / "cells" / experiment.name,
                repeats=repeats,
                seed=seed,
                jobs=jobs,
                on_progress=tell_progress,
            )
    except OtherRunError as error:
        fail(f"{error}: choose another folder with --out, or remove that one.")
    except OSError as error:
        fail(f"{error.filename or out}: {error.strerror or error}; choose another folder with --out.")
    except KeyboardInterrupt:
        fail("interrupted. What is finished is kept: the same command goes on from there.", INTERRUPTED)
    sys.stderr.write(f"{experiment.name}: {len(rows)} cells after {time.perf_counter() - start:.0f} s\n")
    return rows


@contextmanager
def progress(name: str) -> Iterator[Callable[[int, int], None]]:
    """Cells done, and the time left: a bar on a terminal, else a line now and then."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lines_of_progress(name)
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("left"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True, speed_estimate_period=600.0) as bar:
        task = bar.add_task(name)

        def tell_progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield tell_progress


def lines_of_progress(name: str) -> Callable[[int, int], None]:
    """Write a line at the start and then every now and then."""
    first: list[int] = []
    start = last = time.perf_counter()

    def tell_progress(done: int, total: int) -> None:
        nonlocal last
        now = time.perf_counter()
        if not first:
            first.append(done)
            sys.stderr.write(f"{name}: {done} of {total} cells are there\n")
        elif now - last >= SECONDS_BETWEEN_LINES:
            last = now
            left = (now - start) / (done - first[0]) * (total - done)
            sys.stderr.write(f"{name}: {done} of {total} cells, about {left:.0f} s left\n")

    return tell_progress


def save(path: Path, content: bytes) -> None:
    """Write a file whole."""
    with written_whole(path, overwrite=True) as temporary:
        temporary.write_bytes(content)


def facts(name: str, repeats: int, seed: int, experiments: Sequence[Experiment]) -> list[tuple[str, str]]:
    """Return the command that repeats the run, and what else its numbers depend on."""
    design = experiments[0].designs[0]
    command = f"dst2r reproduce {name} --repeats {repeats} --seed {seed}"
    if not experiments[0].fixed:
        level = f"--snr {design.snr:g}" if design.snr is not None else f"--noise {design.noise:g}"
        command += f" {level} {'--normalize' if design.normalize else '--raw'}"
    return [
        ("Command", command),
        ("Seeds", f"from {seed}; data_seed in the -cells.csv files is the random_state of each simulated data set"),
        ("Versions", ", ".join(f"{package} {number}" for package, number in versions().items())),
        ("Sources", f"digest {code_digest()}"),
    ]


def show(console: Console, section: Section) -> None:
    """Print a section for people."""
    console.print(f"\n[bold]{section.title}[/]")
    for paragraph in section.text:
        console.print(f"[dim]{paragraph}[/]")
    for grid in section.grids[:GRIDS_SHOWN]:
        for table in as_rich(grid, console.width):
            console.print(table)
    if section.grids[GRIDS_SHOWN:]:
        more = ", ".join(grid.title.partition(",")[0] for grid in section.grids[GRIDS_SHOWN:])
        console.print(f"[dim]In the report: {more}.[/]\n")
    for holds, text in section.verdicts:
        console.print(f"{'[green]yes[/]' if holds else '[red]no [/]'}  {text}")
    for point in section.points:
        console.print(point)
    console.print()


def as_rich(grid: Grid, width: int) -> Iterator[Table]:
    """Render a table, the note below each figure, in as many parts as the terminal is too narrow for."""
    shown = [text for _, entries in grid.rows for e in entries for text in (e.text, e.note)]
    column = 2 + max(map(len, (*grid.head[1:], *shown)))
    names = 4 + max(len(name) for name, _ in grid.rows)
    n_columns = len(grid.head) - 1
    n_parts = math.ceil(n_columns / max(1, (width - names) // column))
    size = math.ceil(n_columns / n_parts)
    for start in range(0, n_columns, size):
        part = slice(start, start + size)
        title = grid.title if start == 0 else None
        table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
        table.add_column("")
        for name in grid.head[1:][part]:
            table.add_column(name, justify="right")
        for name, entries in grid.rows:
            table.add_row(name, *(_rich_cell(entry) for entry in entries[part]))
        yield table


def _rich_cell(entry: Entry) -> str:
    shown = f"[bold]{entry.text}[/]" if entry.best else entry.text
    return f"{shown}\n[dim]{entry.note}[/]" if entry.note else shown
