"""What every command needs to speak to people and to write files."""

import json
import math
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from dst2r.cli import INTERRUPTED


def fail(message: str, code: int = 1) -> NoReturn:
    """End the command with one line on standard error, and an exit code."""
    typer.echo(f"dst2r: {message}", err=True)
    raise typer.Exit(code)


class Commands(TyperGroup):
    """The commands; what users can get wrong ends every one of them in one line."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            try:
                return super().invoke(ctx)
            except BrokenPipeError:
                raise  # of "| head": click ends quietly
            except KeyboardInterrupt:
                fail("interrupted; nothing was written.", INTERRUPTED)
            except (ValueError, OSError, MemoryError, ImportError) as error:
                if ctx.params.get("debug"):
                    raise
                fail(sentence(error))


def sentence(error: Exception) -> str:
    """What went wrong, in one line."""
    if isinstance(error, OSError) and error.strerror:
        if error.strerror.startswith("cannot be written"):
            return f"{error.filename} {error.strerror}: make room, or choose another place; nothing was written."
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = str(error) or type(error).__name__
    if isinstance(error, MemoryError):
        return f"not enough memory ({text}): give fewer entries, or a machine with more."
    return _without_advice(text)


def _without_advice(text: str) -> str:
    """A message without the paragraphs that scikit-learn adds."""
    if text.startswith("The feature names"):
        return " ".join(text.split())
    first = text.splitlines()[0]
    if first.startswith(("Expected 2D array, got 1D", "Expected a 2-dimensional container")):
        return "X holds one number for each sample: expected a second axis, as of X.reshape(-1, 1), or several columns."
    if first.startswith("Input ") and ("NaN" in first or "infinity" in first):
        return f"{first.rstrip('.')}: remove or impute those samples first."
    return first


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(f"dst2r: warning: {str(message).splitlines()[0]}", err=True)


@dataclass(frozen=True)
class Voice:
    """How a command speaks: results on standard output, all else on standard error."""

    quiet: bool = False
    verbose: bool = False
    json: bool = False

    def tell(self, text: str) -> None:
        """Print for people: not if asked to be quiet, or if a machine reads."""
        if not self.quiet and not self.json:
            typer.echo(text)

    def result(self, path: Path | None, facts: dict[str, Any]) -> None:
        """Print what scripts use: the facts as one JSON object, or the path of what was written."""
        if self.json:
            typer.echo(json.dumps(_for_json({"path": str(path)} | facts if path else facts), allow_nan=False))
        elif path is not None:
            typer.echo(str(path))


def _for_json(value: Any) -> Any:
    """Plain values; what is not a finite number is null."""
    if isinstance(value, dict):
        return {str(key): _for_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_for_json(item) for item in value]
    if hasattr(value, "tolist"):
        return _for_json(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def claim(path: Path, *, force: bool, option: str = "--out", folder: bool = False) -> Path:
    """Make sure, before any work, that a file or ``folder`` can be written at ``path``; make its parent if need be."""
    if path.is_dir() and not folder:
        fail(f"{path} is a folder: name a file in it with {option}.")
    if path.exists() and not force:
        fail(f"{path} exists: replace it with --force, or choose another place with {option}.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        fail(f"cannot write in {path.parent} ({error.strerror}): choose another place with {option}.")
    return path


def claim_table(path: Path | None, *, force: bool, option: str = "--csv") -> None:
    """Make sure, before any work, that a table can be written, if one is asked for."""
    if path is not None:
        from dst2r.io import check_table

        check_table(path)
        claim(path, force=force, option=option)


@contextmanager
def progress(first: str, *, quiet: bool, total: int | None = None) -> Iterator[Callable[[str], None]]:
    """Show on the terminal what is being done and for how long; calling what this yields names the next step.

    With a ``total``, every call but those past it is a step done, and the time left is estimated. Large sources, which
    are read chunk by chunk, have a line of their own.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda text: None
        return
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    left = BarColumn(bar_width=20), TextColumn("left"), TimeRemainingColumn()
    with Progress(*columns, *left, console=console, transient=True) as bar:
        task = bar.add_task(first, total=total)
        chunks = bar.add_task("  reading chunks", visible=False)

        def tell(done: int, of: int) -> None:
            bar.update(chunks, completed=done, total=of, visible=done < of)

        with _chunks_watched(tell):
            yield lambda text: bar.update(task, description=text, advance=0 if total is None else 1, refresh=True)


def _chunks_watched(tell: Callable[[int, int], None]) -> AbstractContextManager[None]:
    """Follow Dask, if a source is large enough for it to have been loaded."""
    if "dask" not in sys.modules:
        return nullcontext()
    from dst2r.io import watched

    return watched(tell)
