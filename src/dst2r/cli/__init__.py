"""The command line, ``dst2r``: typer for arguments, rich for what people read."""

import io
import signal
import sys
from importlib.util import find_spec
from typing import NoReturn

INTERRUPTED, TERMINATED = 130, 143  # what shells give for Ctrl-C and SIGTERM


def main() -> None:
    """Run the command line; the entry point of the installed ``dst2r``."""
    for name in ("typer", "rich"):
        if find_spec(name) is None:
            sys.exit(f'dst2r: the command line needs {name}: python -m pip install "dst2r[cli]"')
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without "²" shows "?", not a traceback
    signal.signal(signal.SIGTERM, _terminate)
    try:
        from dst2r.cli.app import app

        app()
    except KeyboardInterrupt:  # before there was a command to end
        sys.stderr.write("dst2r: interrupted; nothing was written.\n")
        sys.exit(INTERRUPTED)


def _terminate(*_: object) -> NoReturn:
    """Leave as from Ctrl-C, so that nothing half-written stays behind."""
    sys.exit(TERMINATED)
