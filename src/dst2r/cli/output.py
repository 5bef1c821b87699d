"""What every command needs to speak to people and to write files."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import typer


def fail(message: str) -> NoReturn:
    """End the command with one line on standard error, and exit code 1."""
    typer.echo(f"dst2r: {message}", err=True)
    raise typer.Exit(1)


def claim(path: Path, *, force: bool) -> Path:
    """Make sure, before any work, that a file can be written at ``path``; make its folder if need be."""
    if path.exists() and not force:
        fail(f"{path} exists: replace it with --force, or choose another folder with --out.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        fail(f"cannot write in {path.parent} ({error.strerror}): choose another folder with --out.")
    return path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give a temporary name in the same folder, which becomes ``path`` if the block succeeds and vanishes if not."""
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    try:
        yield Path(name)
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)  # mkstemp's files are private
        Path(name).replace(path)
    except OSError as error:
        fail(f"cannot write {path} ({error.strerror}): choose another folder with --out.")
    finally:
        with suppress(FileNotFoundError):
            Path(name).unlink()


@contextmanager
def progress(first: str, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show on the terminal what is being done and for how long; calling what this yields names the next step."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task(first)
        yield lambda text: bar.update(task, description=text)
