"""The commands and their arguments. What a command does lives in a module of its own, imported when it runs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dst2r.cli.output import Commands

# A traceback is for a bug: plain, so that it can be pasted. What users can get wrong ends in one line (output.fail).
app = typer.Typer(
    name="dst2r",
    cls=Commands,
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
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")] = False,
) -> None:
    """Sparse low-rank tensor-on-tensor regression."""


Force = Annotated[bool, typer.Option("--force", help="Replace a file of that name.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but the path of what was written.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print what the solver does.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]


@app.command()
def fit(
    data: Annotated[list[str], typer.Argument(help="Predictors X and responses Y; or files of statistics.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model's file.", metavar="MODEL.dst2r")],
    rank: Annotated[str, typer.Option(help="3, or 1:8 or 1,2,4 to choose by cross-validation.")] = "1:5",
    l1: Annotated[str | None, typer.Option(help="Of one rank: bic, aic, ebic or a number.  [default: bic]")] = None,
    l2: Annotated[str, typer.Option(help="Ridge penalty; 0,0.1,1 to choose by cross-validation.")] = "0",
    cv: Annotated[int | None, typer.Option(min=2, help="Number of folds.  [default: 5]")] = None,
    rule: Annotated[str | None, typer.Option(help="min, or 1se for the smallest model close to it.")] = None,
    standardize: Annotated[
        bool, typer.Option("--standardize", help="Put predictors in units of their spread.")
    ] = False,
    weights: Annotated[str | None, typer.Option(help="Array of sample weights.", metavar="FILE")] = None,
    groups: Annotated[str | None, typer.Option(help="Array: samples of a group share a fold.", metavar="FILE")] = None,
    restarts: Annotated[int, typer.Option(min=0, help="Random starts beside the searched one.")] = 0,
    seed: Annotated[int | None, typer.Option(min=0, help="Of random folds and restarts.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Folds at a time.")] = None,
    stats: Annotated[bool, typer.Option("--stats", help="The files hold statistics (dst2r stats).")] = False,
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Fit a model and write it to a file.

    X and Y are files whose first axis is the sample: X.npy, data.npz[X].

    Example:  dst2r fit X.npy Y.npy -o model.dst2r
    """
    from dst2r.cli.output import Voice, claim, progress

    if not stats and len(data) != 2:
        raise typer.BadParameter(f"expected two files, X and Y; got {len(data)}.", param_hint="DATA")
    claim(out, force=force)
    with progress("Loading", quiet=quiet):
        from dst2r.cli.fit import Plan, run
    plan = Plan(rank, l1, l2, cv, rule, standardize, weights, groups, restarts, seed, jobs)
    run(data, plan, statistics=stats, out=out, voice=Voice(quiet, verbose, as_json))


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="What dst2r fit wrote.", metavar="MODEL.dst2r")],
    x: Annotated[str, typer.Argument(help="Predictors, samples first.", metavar="X")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The predictions' file.", metavar="Y")],
    components: Annotated[bool, typer.Option("--components", help="Write component scores instead.")] = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Predict responses for new predictors.

    Example:  dst2r predict model.dst2r X.npy -o predicted.npy
    """
    from dst2r.cli.output import Voice, claim, progress

    claim(out, force=force)
    with progress("Loading", quiet=quiet):
        from dst2r.cli.predict import run
    run(model, x, components=components, out=out, voice=Voice(quiet, json=as_json))


@app.command()
def report(
    model: Annotated[Path, typer.Argument(help="What dst2r fit wrote.", metavar="MODEL.dst2r")],
    data: Annotated[
        tuple[str, str] | None,
        typer.Option(help="Samples to show the quality of the fit on: X and Y.", metavar="X Y"),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The report's file.", metavar="HTML")] = Path("report.html"),
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a page about a model, for people who were not there when it was fitted.

    One HTML file for any browser: what was fitted, how rank and penalty were
    chosen, the components with a slider along the path, how well responses are
    predicted (with --data; best data that the fit has not seen), warnings, and
    how to do it again. It needs no network.

    Example:  dst2r report model.dst2r --data X.npy Y.npy -o report.html
    """
    from dst2r.cli.output import Voice, claim, progress

    claim(out, force=force)
    with progress("Loading", quiet=quiet):
        from dst2r.cli.report import run
    run(model, data, out=out, voice=Voice(quiet, json=as_json))


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


class Experiments(StrEnum):
    """What ``reproduce`` can run."""

    TABLE1 = "table1"
    TABLE2 = "table2"
    FIGURE2 = "figure2"
    ALL = "all"
    LANDSCAPE = "landscape"
    SWEEP = "sweep"


@app.command()
def reproduce(
    experiment: Annotated[Experiments, typer.Argument(help="What to run; 'all' is both tables and the figure.")],
    repeats: Annotated[int, typer.Option(min=1, help="Data sets for each setting.")] = 30,
    jobs: Annotated[int, typer.Option(min=1, help="Processes; their number changes no result.")] = 2,
    out: Annotated[Path, typer.Option(help="Folder for all files; made if need be.", metavar="DIR")] = Path(
        "dst2r-reproduce"
    ),
    noise: Annotated[float | None, typer.Option(min=0, help="σ, 1 by default: the paper does not state it.")] = None,
    snr: Annotated[float | None, typer.Option(min=0, help="Signal-to-noise ratio, instead of --noise.")] = None,
    normalize: Annotated[
        bool | None,
        typer.Option("--normalize/--raw", help="Factor vectors of unit norm, or raw normal ones.", show_default="raw"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the data; the same seed gives the same tables.")] = 0,
) -> None:
    """Repeat the paper's experiments, our figures beside the printed ones.

    'landscape' goes beyond the paper: the error of every method over that of an oracle,
    by noise, zeros and rank, and the greedy search against the corrected one. 'sweep'
    looks for the σ that gives the printed errors.

    Every finished fit is kept in DIR/cells at once: a run that was stopped, in whatever
    way, goes on from there when the command is given again.
    Writes tables (.csv), figures (.png, .svg) and a report (.html, .md).
    """
    from importlib.util import find_spec

    from dst2r.cli.output import fail

    if find_spec("matplotlib") is None:
        fail('the figures need matplotlib: python -m pip install "dst2r[plot]"')
    from dst2r.cli.reproduce import run

    run(experiment.value, repeats=repeats, jobs=jobs, out=out, seed=seed, noise=noise, snr=snr, normalize=normalize)
