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
    epilog="Exit codes: 0 done, 1 failed (one line on standard error says why and what to do), 2 wrong arguments, "
    "130 interrupted by Ctrl-C, 143 terminated. Whatever the code, no file is left half-written.",
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
    r"""Sparse low-rank tensor-on-tensor regression.

    Predictors X and responses Y are files, or parts of files, with the samples
    along the first axis:

      X.npy  data.npz\[X]  data.zarr  data.nc\[rain]  data.h5\[group/X]  data.mat\[X]
      data.csv\[age,weight]             columns of a table; no names: all of them
      data.csv\[patient:age,weight]     samples are named by a column
      long.csv\[patient,gene:level]     a row for each entry: columns become modes
      scans/  'scans/*.nii.gz'         a file for each sample

    Quote brackets and patterns, which shells may read otherwise: 'data.npz\[X]'.

    Begin with:  dst2r fit X.npy Y.npy -o model.dst2r
    """


Force = Annotated[bool, typer.Option("--force", help="Replace files of those names.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but the path of what was written.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print what the solver does.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]
Model = Annotated[Path, typer.Argument(help="What dst2r fit wrote.", metavar="MODEL.dst2r")]
X = Annotated[str, typer.Argument(help="Predictors, samples first.", metavar="X")]
Y = Annotated[str, typer.Argument(help="Responses, samples first.", metavar="Y")]
Data = Annotated[list[str], typer.Argument(help="Predictors and responses.", metavar="X Y")]
Mask = Annotated[
    Path | None,
    typer.Option(help="Of X that is images: voxels that are 0 there are left out.", metavar="MASK.nii.gz"),
]
Weights = Annotated[str | None, typer.Option(help="Array of sample weights.", metavar="FILE")]
Rank = Annotated[str, typer.Option(help="3, or 1:8 or 1,2,4 to choose by cross-validation.")]
L2 = Annotated[str, typer.Option(help="Ridge penalty; 0,0.1,1 to choose by cross-validation.")]
Folds = Annotated[int | None, typer.Option(min=2, help="Number of folds.  \\[default: 5]")]
Rule = Annotated[str | None, typer.Option(help="min, or 1se for the smallest model close to it.  \\[default: min]")]
Standardize = Annotated[bool, typer.Option("--standardize", help="Put predictors in units of their spread.")]
Groups = Annotated[
    str | None,
    typer.Option(help="Number or text for each sample: samples of a group share a fold.", metavar="FILE"),
]
Restarts = Annotated[int, typer.Option(min=0, help="Random starts beside the searched one.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Of random folds and restarts.")]
Tolerance = Annotated[float, typer.Option(min=0, help="Relative accuracy of the fit.")]
MaxIter = Annotated[int, typer.Option(min=1, help="Most correction steps at a time.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Folds at a time.  \\[default: 1]")]
Stats = Annotated[bool, typer.Option("--stats", help="The files hold statistics (dst2r stats), not X and Y.")]
Table = Annotated[Path | None, typer.Option("--csv", help="Write the whole table, too.", metavar="FILE.csv")]


def check_pair(data: list[str], *, statistics: bool, alone: str = "") -> None:
    """Raise a usage error unless there are two files, or as many as one likes of statistics."""
    if statistics or len(data) == 2 or (alone and len(data) == 1):
        return
    hint = " Quote patterns: 'scans/*.nii.gz'." if len(data) > 2 else ""
    raise typer.BadParameter(f"expected two files, X and Y{alone}; got {len(data)}.{hint}", param_hint="X Y")


@app.command()
def fit(
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="The model's file.", metavar="MODEL.dst2r")],
    rank: Rank = "1:5",
    l1: Annotated[str | None, typer.Option(help="Of one rank: bic, aic, ebic or a number.  \\[default: bic]")] = None,
    l2: L2 = "0",
    cv: Folds = None,
    rule: Rule = None,
    standardize: Standardize = False,
    weights: Weights = None,
    groups: Groups = None,
    mask: Mask = None,
    restarts: Restarts = 0,
    seed: Seed = None,
    tol: Tolerance = 1e-5,
    max_iter: MaxIter = 100,
    jobs: Jobs = None,
    stats: Stats = False,
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    r"""Fit a model and write it to a file.

    X and Y are files whose first axis is the sample: X.npy, 'data.npz\[X]',
    data.zarr, 'data.csv\[age,weight]' and more, see dst2r --help. Names of axes
    and entries are kept. What is large beside the memory that is free is read
    chunk by chunk.

    With several ranks, rank and sparsity are chosen by cross-validation; with
    one, sparsity by BIC.

    Example:  dst2r fit X.npy Y.npy -o model.dst2r
    Example:  dst2r fit 'data.nc\[X]' 'data.nc\[Y]' --rank 3 --l2 0.1 -o model.dst2r
    Example:  dst2r fit --stats site1.dst2r site2.dst2r --rank 2 -o model.dst2r
    """
    from dst2r.cli.output import Voice, claim, progress

    check_pair(data, statistics=stats)
    claim(out, force=force)
    with progress("Loading", quiet=quiet):
        from dst2r.cli.fit import Plan, run
    plan = Plan(rank, l1, l2, cv, rule, standardize, weights, groups, restarts, seed, jobs, tol, max_iter)
    run(data, plan, statistics=stats, mask=mask, out=out, voice=Voice(quiet, verbose, as_json))


@app.command()
def cv(
    data: Annotated[
        list[str], typer.Argument(help="Predictors and responses; or a model that was cross-validated.", metavar="X Y")
    ],
    rank: Rank = "1:5",
    l2: L2 = "0",
    n_l1: Annotated[int, typer.Option(min=1, help="Penalties of the path.")] = 20,
    folds: Folds = None,
    rule: Rule = None,
    standardize: Standardize = False,
    weights: Weights = None,
    groups: Groups = None,
    mask: Mask = None,
    restarts: Restarts = 0,
    seed: Seed = None,
    tol: Tolerance = 1e-5,
    max_iter: MaxIter = 100,
    jobs: Jobs = None,
    stats: Stats = False,
    table: Table = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Keep the model.", metavar="MODEL.dst2r")] = None,
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Show the cross-validated loss of every rank and penalty.

    Two models are marked: that of the least loss (<), and the smallest one within
    a standard error of it (*).

    Example:  dst2r cv X.npy Y.npy --rank 1:6 --csv surface.csv
    Example:  dst2r cv model.dst2r
    """
    from dst2r.cli.output import Voice, claim, claim_table, progress

    check_pair(data, statistics=stats, alone=", or a model")
    if out is not None:
        claim(out, force=force)
    claim_table(table, force=force)
    with progress("Loading", quiet=quiet):
        from dst2r.cli.cv import run
        from dst2r.cli.fit import Plan
    options = (standardize, weights, groups, restarts, seed, jobs, tol, max_iter, n_l1)
    plan = Plan(rank, None, l2, folds, rule, *options)
    voice = Voice(quiet, verbose, as_json)
    run(data, plan, statistics=stats, mask=mask, out=out, table=table, voice=voice)


@app.command()
def predict(
    model: Model,
    x: X,
    out: Annotated[Path, typer.Option("--out", "-o", help="The predictions' file.", metavar="Y")],
    components: Annotated[bool, typer.Option("--components", help="Write component scores instead.")] = False,
    mask: Mask = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    r"""Predict responses for new predictors.

    The suffix of the output is that of a format: .npy, .npz and .mat take the
    numbers, .nc, .h5, .zarr, .csv, .tsv and .parquet names, too. Predictors that
    do not fit into memory are read, and predictions written, chunk by chunk.

    Example:  dst2r predict model.dst2r X.npy -o predicted.npy
    Example:  dst2r predict model.dst2r 'new.csv\[patient:]' -o predicted.csv
    """
    from dst2r.cli.output import Voice, claim, progress

    claim(out, force=force, folder=out.suffix.lower() == ".zarr")
    with progress("Loading", quiet=quiet):
        from dst2r.cli.predict import run
        from dst2r.io import writer_of
    writer_of(out)  # before any work
    run(model, x, components=components, mask=mask, out=out, voice=Voice(quiet, json=as_json))


@app.command()
def score(
    model: Model,
    x: X,
    y: Y,
    weights: Weights = None,
    mask: Mask = None,
    table: Table = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Tell how well a model predicts known responses: R², in all and of every response entry.

    Best with samples that the fit has not seen. R² is 1 less the mean squared
    error over the variance; the total is its mean over the response entries, as
    scikit-learn has it.

    Example:  dst2r score model.dst2r X_test.npy Y_test.npy
    Example:  dst2r score model.dst2r X.nc Y.nc --csv r2.csv --json
    """
    from dst2r.cli.output import Voice, claim_table, progress

    claim_table(table, force=force)
    with progress("Loading", quiet=quiet):
        from dst2r.cli.score import run
    run(model, x, y, weights=weights, mask=mask, table=table, voice=Voice(quiet, json=as_json))


@app.command()
def inspect(
    file: Annotated[str, typer.Argument(help="A model, statistics, or data.", metavar="FILE")],
    table: Annotated[
        Path | None,
        typer.Option("--table", help="Write the entries that a model selected.", metavar="FILE.csv"),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Tell what a file holds: shapes, names, types, missing values; of a model its components.

    The table has a row for each entry that is not zero: component, weight, mode,
    label, value.

    Example:  dst2r inspect data.npz
    Example:  dst2r inspect model.dst2r --table entries.csv
    """
    from dst2r.cli.output import Voice, claim_table, progress

    claim_table(table, force=force, option="--table")
    with progress("Loading", quiet=quiet):
        from dst2r.cli.inspect import run
    run(file, table=table, voice=Voice(quiet, json=as_json))


@app.command()
def stats(
    x: X,
    y: Y,
    out: Annotated[Path, typer.Option("--out", "-o", help="The statistics' file.", metavar="PART.dst2r")],
    weights: Weights = None,
    mask: Mask = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write the statistics of samples, which suffice for a fit and hold no sample.

    Sites that may not share rows share means and second moments instead, which
    add up exactly: a fit to all files is the fit to all samples.

    Example:  dst2r stats X.npy Y.npy -o site1.dst2r
    then      dst2r fit --stats site1.dst2r site2.dst2r -o model.dst2r
    """
    from dst2r.cli.output import Voice, claim, progress

    claim(out, force=force)
    with progress("Loading", quiet=quiet):
        from dst2r.cli.stats import run
    run(x, y, weights=weights, mask=mask, out=out, voice=Voice(quiet, json=as_json))


class Distribution(StrEnum):
    """Of simulated predictors."""

    BINARY = "binary"
    NORMAL = "normal"


@app.command()
def simulate(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the files.", metavar="DIR")],
    samples: Annotated[int, typer.Option(min=1, help="Number of samples.")] = 1000,
    test: Annotated[int, typer.Option(min=0, help="Further samples, as X_test.npy and Y_test.npy.")] = 0,
    x_shape: Annotated[str, typer.Option(help="Sizes of the predictor modes.")] = "8,8,8",
    y_shape: Annotated[str, typer.Option(help="Sizes of the response modes, or scalar.")] = "4,4,4",
    rank: Annotated[int, typer.Option(min=1, help="Number of components.")] = 3,
    sparsity: Annotated[float, typer.Option(min=0, max=1, help="Share of zeros in every factor.")] = 0.5,
    noise: Annotated[float | None, typer.Option(min=0, help="Standard deviation.  \\[default: 1]")] = None,
    snr: Annotated[float | None, typer.Option(min=0, help="Signal-to-noise ratio, instead of --noise.")] = None,
    normalize: Annotated[bool, typer.Option("--normalize", help="Factor vectors of unit norm.")] = False,
    predictors: Annotated[Distribution, typer.Option(help="Distribution of X.")] = Distribution.BINARY,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same files.")] = 0,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Simulate a regression whose sparse low-rank coefficient is known.

    Writes X.npy and Y.npy, the truth in coef.npy and factors.npz, and
    simulation.json, which tells how they were made.

    Example:  dst2r simulate -o sim --samples 500 --test 200 --rank 2 --seed 1
    then      dst2r fit sim/X.npy sim/Y.npy -o model.dst2r
    """
    from dst2r.cli.output import Voice, claim, fail, progress

    if (force or out.is_dir()) and out.exists() and not (out / "simulation.json").is_file():
        fail(f"{out} is not a folder of dst2r simulate, and is not replaced: choose another place with --out.")
    claim(out, force=force, folder=True)
    with progress("Loading", quiet=quiet):
        from dst2r.cli.simulate import Design, run
    design = Design(samples, x_shape, y_shape, rank, sparsity, noise, snr, normalize, predictors.value, seed)
    run(design, test, out=out, voice=Voice(quiet, json=as_json))


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
    from dst2r.cli.output import Voice, claim, fail, progress

    if out.suffix.lower() not in (".html", ".htm"):
        fail(f"{out} does not end in .html, by which browsers know a page: name such a file with --out.")
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

    Example:  dst2r demo --out figures
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

    'landscape' goes beyond the paper: the error of every method over that of an
    oracle, by noise, zeros and rank, and the greedy search against the corrected
    one. 'sweep' looks for the σ that gives the printed errors.

    Every finished fit is kept in DIR/cells at once: a run that was stopped, in
    whatever way, goes on from there when the command is given again. Writes tables
    (.csv), figures (.png, .svg) and a report (.html, .md).

    Example:  dst2r reproduce table1 --repeats 5 --out results
    """
    from importlib.util import find_spec

    from dst2r.cli.output import fail

    if find_spec("matplotlib") is None:
        fail('the figures need matplotlib: python -m pip install "dst2r[plot]"')
    from dst2r.cli.reproduce import run

    run(experiment.value, repeats=repeats, jobs=jobs, out=out, seed=seed, noise=noise, snr=snr, normalize=normalize)
