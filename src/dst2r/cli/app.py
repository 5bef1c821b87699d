"""The commands and their arguments. What a command does lives in a module of its own, imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

# A traceback is for a bug: plain, so that it can be pasted. What users can get wrong ends in one line (output.fail).
app = typer.Typer(
    name="dst2r",
    help="Sparse low-rank tensor-on-tensor regression.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(wanted: bool) -> None:
    """Print the version and leave."""
    if wanted:
        import dst2r

        typer.echo(f"dst2r {dst2r.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Sparse low-rank tensor-on-tensor regression."""


@app.command()
def demo(
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Simulated data, compared with the truth they were made from.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the figure; made if need be.", metavar="DIR")] = Path(),
    seed: Annotated[int, typer.Option(min=0, help="Of the simulated data; nothing else is random.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace the figure of an earlier run.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but the figure's path.")] = False,
) -> None:
    """Fit real data, tell what was found, and draw it.

    The data come with TensorLy: antibodies in 438 blood samples predict how well
    those bind Fc receptors. Rank and sparsity are chosen by cross-validation, and
    the fit is compared with a tuned ridge regression on patients held out.

    Takes about 20 seconds, half of them to compile the solver on the first run.
    Writes dst2r-demo.png, or dst2r-demo-simulated.png.
    """
    from importlib.util import find_spec

    from dst2r.cli.output import claim, fail, progress

    if find_spec("matplotlib") is None:
        fail('the figure needs matplotlib: python -m pip install "dst2r[plot]"')
    path = claim(out / f"dst2r-demo{'-simulated' if simulated else ''}.png", force=force)
    with progress("Loading", quiet=quiet):
        from dst2r.cli.demo import run
    run(simulated=simulated, path=path, seed=seed, quiet=quiet)
