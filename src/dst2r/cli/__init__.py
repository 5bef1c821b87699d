"""The command line, ``dst2r``: typer for arguments, rich for what people read."""

import io
import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line; the entry point of the installed ``dst2r``."""
    for name in ("typer", "rich"):
        if find_spec(name) is None:
            sys.exit(f'dst2r: the command line needs {name}: python -m pip install "dst2r[cli]"')
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without "²" shows "?", not a traceback
    from dst2r.cli.app import app

    app()
