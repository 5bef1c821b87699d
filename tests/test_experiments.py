"""The experiments: what is drawn and scored, what the numbers are made to say, and that runs survive being killed."""

import io
import math
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from scipy import stats as distributions
from sklearn.linear_model import LinearRegression
from tensorly.cp_tensor import CPTensor

import dst2r

typer_testing = pytest.importorskip("typer.testing")
pytest.importorskip("matplotlib")

from matplotlib.figure import Figure  # noqa: E402

from dst2r.baselines import SparseOLS, TensorEnvelope  # noqa: E402
from dst2r.cli import app as app_module  # noqa: E402
from dst2r.cli import reproduce  # noqa: E402
from dst2r.experiments import (  # noqa: E402
    COMMANDS,
    Design,
    Experiment,
    run_experiment,
    runner,
)
from dst2r.experiments import results as results_module  # noqa: E402
from dst2r.experiments.figures import plain_ticks  # noqa: E402
from dst2r.experiments.methods import METHODS, score  # noqa: E402
from dst2r.experiments.pages import Entry, Grid, Section, to_html, to_markdown  # noqa: E402
from dst2r.experiments.results import Results, implied_sigma, table_verdicts  # noqa: E402
from dst2r.experiments.runner import Cell, OtherRunError, read_cell  # noqa: E402
from dst2r.experiments.settings import FIGURE2, LANDSCAPE, SWEEP, TABLE1, TABLE2, printed  # noqa: E402
from dst2r.experiments.story import TELLERS, tell  # noqa: E402
from dst2r.metrics import selection_rates  # noqa: E402

SMALL = Design((4, 3), (3,), rank=2, zeros=0.3, n_samples=80)
TINY = Experiment(
    "table1",
    "Tiny",
    (SMALL, replace(SMALL, rank=1)),
    ("sparse_ols", "store", "holrr", "cp_ridge", "printed", "dst2r", "oracle"),
)
# Cells of some milliseconds, so that a kill hits the middle of a run.
SCRIPT = """
import sys
from dst2r.experiments.settings import COMMANDS, Design, Experiment
designs = tuple(Design((4, 3), (3,), rank=rank, zeros=0.3, n_samples=80) for rank in (1, 2))
COMMANDS["table1"] = (Experiment("table1", "Tiny", designs, ("sparse_ols", "holrr", "dst2r", "oracle")),)
from dst2r.cli import main
main()
"""


def command(out, *options):
    """``dst2r reproduce table1`` on a tiny table, in a process group of its own."""
    env = os.environ | {"PYTHONPATH": str(Path(dst2r.__file__).parents[1]), "NO_COLOR": "1"}
    arguments = [sys.executable, "-c", SCRIPT, "reproduce", "table1", "--out", str(out), *options]
    return subprocess.Popen(
        arguments, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def cells_in(out):
    return sorted(path.relative_to(out) for path in (out / "cells").rglob("*.json") if path.name[0] in "0123456789")


def invoke(*args):
    return typer_testing.CliRunner().invoke(app_module.app, ["reproduce", *map(str, args)])


def fabricate(experiment, error, repeats=3, **scores):
    """Results whose errors are ``error(design, method, repeat)``."""
    rates = {name: float(name.startswith("tpr")) for name in results_module.RATES} | {"ideal_tpr": 0.95}
    return Results(
        [
            {
                **asdict(design),
                **rates,
                "repeat": k,
                "data_seed": k,
                "sigma": 1.0,
                "method": method,
                "error": error(design, method, k),
                "relative_error": 0.1,
                "rank_found": None,
                "cut_short": 0,
                "not_converged": 0,
                "seconds": 0.5,
                **{name: value(design, method) for name, value in scores.items()},
            }
            for design in experiment.designs
            for method in experiment.methods
            for k in range(repeats)
        ]
    )


# Settings -------------------------------------------------------------------------------------------------------------


def test_tables_are_the_papers():
    assert [(d.rank, d.zeros) for d in TABLE1.designs] == [(2, 0.2), (2, 0.5), (10, 0.2), (10, 0.5)]
    assert [(d.rank, d.zeros) for d in TABLE2.designs] == [(5, 0.2), (5, 0.5)]
    for design in TABLE1.designs + TABLE2.designs:
        assert (design.x_shape, design.n_samples, design.noise) == ((8, 8, 8), 1000, 1.0)
        assert all(printed(design, m) is not None for m in ("sparse_ols", "store", "env", "holrr", "dst2r", "printed"))
        assert printed(design, "cp_ridge") is None
        assert printed(replace(design, y_shape=(5, 5)), "dst2r") is None
    assert printed(TABLE1.designs[3], "env").fpr == 1.0
    # Sums over the six settings of error, its standard error, TPR and FPR, taken from the paper's source by a script.
    sums = {
        "sparse_ols": (332.51, 11.02, 5.76, 0.365),
        "store": (19.59, 0.74, 6.0, 0.0),
        "env": (44.22, 0.79, 6.0, 1.0),
        "holrr": (29.87, 0.76, 6.0, 6.0),
        "dst2r": (7.34, 0.6, 6.0, 0.0),
    }
    for method, expected in sums.items():
        lines = [printed(design, method) for design in TABLE1.designs + TABLE2.designs]
        assert [sum(getattr(x, name) for x in lines) for name in ("error", "se", "tpr", "fpr")] == pytest.approx(
            expected
        )
    told = tell(TABLE1, fabricate(TABLE1, lambda *_: 1.0, repeats=1))
    assert "of 1 data set;" in told.text[0]
    rates = dict(told.grids[1].rows)["Sparse OLS"]
    assert [entry.note for entry in rates[1:3]] == ["paper 0.99 / 0.13", "paper 0.91 / 0.005"]
    assert printed(TABLE2.designs[1], "store").error == 3.19


def test_every_method_and_experiment_is_known():
    for experiments in COMMANDS.values():
        for experiment in experiments:
            assert set(experiment.methods) <= set(METHODS)
            assert experiment.name in TELLERS
            assert len({d.name for d in experiment.designs}) == len(experiment.designs)


def test_data_follow_from_seed_problem_and_repeat_alone():
    seed = SMALL.data_seed(7, 2)
    assert seed == replace(SMALL, noise=None, snr=3.0, normalize=True).data_seed(7, 2)
    others = [SMALL.data_seed(8, 2), SMALL.data_seed(7, 3), replace(SMALL, rank=3).data_seed(7, 2)]
    assert len({seed, *others}) == 4
    quiet, loud = SMALL.draw(seed), replace(SMALL, noise=5.0).draw(seed)
    np.testing.assert_array_equal(quiet.X, loud.X)
    np.testing.assert_array_equal(quiet.coef, loud.coef)
    noiseless = np.tensordot(quiet.X, quiet.coef, 2)
    np.testing.assert_allclose(loud.Y - noiseless, 5.0 * (quiet.Y - noiseless), atol=1e-9)


# Methods and scores ---------------------------------------------------------------------------------------------------


def test_references():
    data = SMALL.draw(1)
    ols = METHODS["ols"].build(data, 0).fit(data.X, data.Y)
    plain = LinearRegression().fit(data.X.reshape(80, -1), data.Y)
    np.testing.assert_allclose(ols.coef_.reshape(12, 3), plain.coef_.T, atol=1e-8)
    oracle = METHODS["oracle"].build(data, 0).fit(data.X, data.Y)
    rates = selection_rates(oracle.cp_, data.cp)
    assert (rates.tpr, rates.fpr) == (1.0, 0.0)

    # Least squares among models of this support: the truth is one of them.
    def squares(coef):
        residual = data.Y - np.tensordot(data.X, coef, 2)
        return ((residual - residual.mean(axis=0)) ** 2).sum()

    assert squares(oracle.coef_) < squares(data.coef)
    assert not METHODS["oracle"].competes
    # With a vector predictor and a scalar response the ideal test is the z-test of multiple regression.
    data = Design((6,), (), rank=1, zeros=0.3, n_samples=80, noise=3.0).draw(4)
    oracle = METHODS["oracle"].build(data, 0).fit(data.X, data.Y)
    X = data.X[:, data.coef != 0]
    X = X - X.mean(axis=0)
    z = np.abs(data.coef[data.coef != 0]) / (3.0 * np.sqrt(np.linalg.inv(X.T @ X).diagonal()))
    cut = distributions.norm.isf(0.01)
    power = np.mean(distributions.norm.sf(cut - z) + distributions.norm.cdf(-cut - z))
    assert 0.1 < power < 0.9
    assert oracle.ideal_tpr_ == pytest.approx(power, rel=1e-6)


def test_competitors_get_the_better_of_their_rules():
    """Sparse OLS by cross-validation and not by BIC; the envelope by BIC and not of the true dimensions."""
    design = Design((4, 4), (4, 4), rank=4, zeros=0.2, n_samples=150, noise=None, snr=0.2, normalize=True)
    for repeat in range(3):
        data = design.draw(repeat)
        for name, other in (("sparse_ols", SparseOLS()), ("env", TensorEnvelope((4, 4)))):
            chosen = METHODS[name].build(data, 0)
            assert score(chosen.fit(data.X, data.Y), data)["error"] < score(other.fit(data.X, data.Y), data)["error"]


def test_the_printed_method_is_not_held_back_by_its_step():
    """With one component there is no deflation to blame: a fine search comes close to least squares."""
    data = Design((4, 4), (4, 4), rank=1, zeros=0.5, n_samples=300, noise=None, snr=50.0, normalize=True).draw(0)
    fine, oracle = (METHODS[name].build(data, 0).fit(data.X, data.Y) for name in ("printed", "oracle"))
    coarse = dst2r.DST2RCV((1,), cv=5, correction="none", relax=False).fit(data.X, data.Y)
    errors = [score(model, data)["error"] for model in (oracle, fine, coarse)]
    assert errors[1] < 2 * errors[0]
    assert errors[2] > 4 * errors[0]
    larger = replace(data, Y=1000 * data.Y)
    scaled = METHODS["printed"].build(larger, 0).fit(larger.X, larger.Y)
    np.testing.assert_allclose(scaled.coef_, 1000 * fine.coef_, rtol=1e-6)


def test_scores():
    data = SMALL.draw(3)
    perfect = SimpleNamespace(coef_=data.coef, cp_=data.cp)
    found = score(perfect, data)
    assert (found["error"], found["relative_error"]) == (0.0, 0.0)
    for kind in ("factors", "response", "coef"):
        assert (found[f"tpr_{kind}"], found[f"fpr_{kind}"]) == (1.0, 0.0)
    dense = score(SimpleNamespace(coef_=np.ones_like(data.coef)), data)
    assert (dense["tpr_coef"], dense["fpr_coef"]) == (1.0, 1.0)
    assert math.isnan(dense["tpr_factors"])
    assert math.isnan(dense["fpr_factors"])
    assert dense["error"] == pytest.approx(math.sqrt(((1 - data.coef) ** 2).sum()))


def test_a_method_with_a_dense_predictor_vector_is_scored_on_response_modes():
    data = replace(SMALL, rank=1, y_shape=(4, 4), zeros=0.5).draw(0)
    a, b, c, d = (f[:, 0] for f in data.factors)
    vector = np.outer(a, b).ravel() + 1.0
    full = np.where(d == 0, 0.1, d)
    model = SimpleNamespace(coef_=data.coef, cp_=CPTensor((None, [f[:, None] for f in (vector, c, full)])))
    found = score(model, data)
    assert math.isnan(found["tpr_factors"])
    assert (found["tpr_response"], found["fpr_response"]) == (1.0, 0.5)  # of two modes, one has all its zeros filled


# What the numbers are made to say -------------------------------------------------------------------------------------

GOOD = {"dst2r": 0.5, "printed": 1.1, "oracle": 0.4}


def test_verdicts_hold_when_they_should():
    good = fabricate(TABLE1, lambda d, m, k: GOOD.get(m, 3.0))
    verdicts = table_verdicts(good)
    assert [v.holds for v in verdicts] == [True] * 5
    assert "all 4 settings" in verdicts[0].text


@pytest.mark.parametrize(
    ("number", "change", "told"),
    [
        (0, {"error": {"printed": 0.3}}, "0.5 against 0.3"),
        (1, {"error": {"cp_ridge": 0.3}}, "CPRidge is better, 0.3 against 0.5"),
        (2, {"error": {"dst2r": 1.25}}, "1.25, printed 1.23"),
        (3, {"tpr_factors": {"dst2r": 0.9}}, "0.900, 0.000"),
        (3, {"fpr_factors": {"dst2r": 0.03}}, "1.000, 0.030"),
        (4, {"fpr_coef": {"dst2r": 0.1}, "tpr_coef": {"dst2r": 0.9}}, "Sparse OLS on the support of B"),
        (4, {"fpr_factors": {"dst2r": 0.1}, "tpr_factors": {"dst2r": 0.9}}, "STORE on the factors"),
    ],
)
def test_a_verdict_that_fails_names_where(number, change, told):
    at = TABLE1.designs[2]

    def value(name, normal):
        return lambda d, m, *_: change.get(name, {}).get(m, normal(m)) if d == at else normal(m)

    scores = {name: value(name, lambda m, n=name: float(n.startswith("tpr"))) for name in change if name != "error"}
    bad = fabricate(TABLE1, value("error", lambda m: GOOD.get(m, 3.0)), **scores)
    verdict = table_verdicts(bad)[number]
    assert not verdict.holds
    assert told in verdict.text
    assert "R = 10, 20 % zeros" in verdict.text
    assert "R = 2" not in verdict.text


def test_means_and_standard_errors():
    results = fabricate(TABLE2, lambda d, m, k: [1.0, 2.0, 6.0][k])
    s = results.table[TABLE2.designs[0], "dst2r"]
    assert s.mean["error"] == 3.0
    assert s.se["error"] == pytest.approx(math.sqrt(7.0) / math.sqrt(3))
    single = fabricate(TABLE2, lambda *_: 1.0, repeats=1)
    assert math.isnan(single.table[TABLE2.designs[0], "dst2r"].se["error"])


def test_sigma_is_interpolated_and_what_no_sigma_reaches_is_said():
    # Errors proportional to σ meet 3.53 at 3.53 / 2; an error that never passes 50 does not meet 56.58.
    results = fabricate(SWEEP, lambda d, m, k: 2.0 * d.noise if m == "store" else min(2.0 * d.noise, 50.0))
    design = SWEEP.designs[0]
    assert implied_sigma(results, design, "store")[0] == pytest.approx(3.53 / 2)
    assert math.isnan(implied_sigma(results, design, "sparse_ols")[0])
    lines = results_module.sweep_words(results)
    assert any("R = 2, 20 % zeros, Sparse OLS: printed 56.6 is above all our errors" in line for line in lines)
    assert not any("STORE: printed" in line for line in lines)
    assert "ask for σ from 0.55" in lines[-1]  # the least printed error over two: 1.10 / 2


def test_losses_are_said_plainly():
    at = LANDSCAPE.designs[4]
    noise = (0.9, 1.0, 1.1)

    def error(design, method, k):
        return {"oracle": 1.0, "dst2r": 1.2}.get(method, 0.6 * noise[k] if design == at and method == "store" else 2.0)

    lines = results_module.landscape_words(fabricate(LANDSCAPE, error))
    assert "DST2R has the least error in 26 of 27 settings." in lines
    assert "STORE has the least error in 1 of 27 settings." in lines
    assert "DST2R loses in 1 settings." in lines or "DST2R loses in 1 setting." in lines
    assert re.search(r"Loses at SNR 0.1, R = 5, 50 % zeros: 2\.0\d times the error of STORE\.$", lines[-1])
    noise = (0.3, 1.9, 5.0)  # better on the whole, but not on every data set
    lines = results_module.landscape_words(fabricate(LANDSCAPE, error))
    assert re.search(r"1\.\d\d times the error of STORE, within two standard errors of a draw\.$", lines[-1])


def test_step_sizes_are_told_with_what_was_cut_short():
    def error(design, method, k):
        return 1.0 if method.startswith("dst2r") else 1.0 + float(method.rpartition("_")[2])

    cut = "printed_eps_0.01"
    results = fabricate(FIGURE2, error, cut_short=lambda d, m: int(m == cut))
    lines = results_module.step_size_words(results)
    assert "DST2R as printed: error rises with ε, from 1.01 at ε = 0.01 to 2 at ε = 1." in lines
    assert "DST2R: error stays within 5 % with ε, from 1 at ε = 0.01 to 1 at ε = 1." in lines
    assert lines[4:] == [
        "DST2R as printed, ε = 0.01: the search's limit of 20,000 steps cut 3 of 6 components short.",
    ]


def test_a_search_that_was_cut_short_is_counted(tmp_path, monkeypatch):
    one = replace(TINY, designs=(replace(SMALL, rank=1),), methods=("printed_eps_0.01", "ols"))
    assert [row["cut_short"] for row in run_experiment(one, tmp_path / "whole", repeats=1)] == [0, 0]
    monkeypatch.setattr(runner, "MAX_STEPS", 5)  # the path has more points than that
    assert [row["cut_short"] for row in run_experiment(one, tmp_path / "cut", repeats=1)] == [1, 0]


@pytest.mark.parametrize("name", sorted(TELLERS))
def test_everything_is_told_with_pictures(name):
    (experiment,) = {e.name: e for experiments in COMMANDS.values() for e in experiments if e.name == name}.values()
    rng = np.random.default_rng(0)
    section = tell(experiment, fabricate(experiment, lambda *_: rng.uniform(0.5, 5.0), repeats=2))
    assert section.text
    assert section.points or section.verdicts or name == "growth"
    for picture in section.pictures:
        assert picture.png.startswith(b"\x89PNG\r\n\x1a\n")
        assert b"<svg" in picture.svg
    page = to_html("Title", [section])
    assert "http" not in re.sub(r'src="data:[^"]*"', "", page)
    assert to_markdown("Title", [section]).startswith("# Title\n")


@pytest.mark.parametrize(("low", "high"), [(0.45, 0.65), (0.98, 1.04), (0.3, 60.0), (1e-3, 400.0)])
def test_logarithmic_axes_have_plain_numbers(low, high):
    ax = Figure().subplots()
    ax.set(xscale="log", xlim=(low, high))
    plain_ticks(ax.xaxis)
    labels = [text.get_text() for text in ax.get_xticklabels()]
    assert 3 <= len(labels) <= 9
    assert all(low <= float(label) <= high for label in labels)
    assert ax.get_xlim() == (low, high)


def test_pages_escape_and_mark():
    section = Section(
        "A < B", text=["x & y"], grids=[Grid("G", ["", "c"], [("r", [Entry("1", "paper 2", best=True)])])]
    )
    page = to_html("T", [section])
    assert "A &lt; B" in page
    assert "x &amp; y" in page
    assert '<td class="best">1<small>paper 2</small></td>' in page
    assert "| r | **1** · paper 2 |" in to_markdown("T", [section])


# Runs -----------------------------------------------------------------------------------------------------------------


def test_a_run_killed_three_times_ends_as_one_never_killed(tmp_path):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    options = ("--repeats", "6", "--seed", "5")
    for k in range(3):
        before = len(cells_in(killed)) if k else 0
        process = command(killed, *options, "--jobs", "1")
        try:
            while process.poll() is None and len(cells_in(killed)) < before + 4:
                time.sleep(0.002)
            assert process.poll() is None, process.communicate()[1]
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    left = len(cells_in(killed))
    assert 12 <= left < 48
    for out, jobs in ((killed, 1), (whole, 2)):
        process = command(out, *options, "--jobs", str(jobs))
        _, told = process.communicate()
        assert process.returncode == 0, told
        assert f"{left if out == killed else 0} of 48 cells are there" in told
    for name in ("table1.csv", "table1-cells.csv"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    lines = (whole / "table1-cells.csv").read_text().splitlines()
    assert len(lines) == 49
    assert "seconds" not in lines[0]
    assert len(set(lines)) == 49


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory):
    """A folder with all the files of a tiny run, and what was printed."""
    out = tmp_path_factory.mktemp("run")
    before = COMMANDS["table1"]
    COMMANDS["table1"] = (TINY,)
    try:
        yield out, invoke("table1", "--repeats", 2, "--jobs", 1, "--out", out, "--snr", 4, "--normalize")
    finally:
        COMMANDS["table1"] = before


def test_files_and_words_of_a_run(tiny_run):
    out, result = tiny_run
    assert result.exit_code == 0, result.output
    names = sorted(path.name for path in out.iterdir())
    stem = [f"table1{end}" for end in ("-cells.csv", "-times.csv", ".csv", ".html", ".md", ".png", ".svg")]
    assert names == ["cells", *stem]
    page = (out / "table1.html").read_text(encoding="utf-8")
    for part in ("dst2r reproduce table1 --repeats 2 --seed 0 --snr 4 --normalize", "numpy ", "STORE", "SNR 4"):
        assert part in page
        assert part in (out / "table1.md").read_text(encoding="utf-8")
    assert "14 of 28 cells" not in result.output
    assert str(out / "table1.html") in result.output.replace("\n", "")


def test_a_cell_can_be_made_again_by_hand(tiny_run):
    out, _ = tiny_run
    design = replace(SMALL, noise=None, snr=4.0, normalize=True)
    row = read_cell(Cell(design, 1, "dst2r").path(out / "cells" / "table1"))
    data = dst2r.make_tensor_regression(
        80, (4, 3), (3,), rank=2, sparsity=0.3, snr=4, normalize=True, random_state=row["data_seed"]
    )
    model = dst2r.DST2R(2).fit(data.X, data.Y)
    assert row["error"] == pytest.approx(np.linalg.norm(model.coef_ - data.coef), rel=1e-9)


def test_words_and_pictures_do_not_make_another_version():
    """A name that has moved would let every change of a picture throw results away."""
    root = Path(dst2r.__file__).parent
    assert all((root / name).exists() for name in runner.TELLING)


def test_a_broken_cell_is_made_again_and_other_runs_are_refused(tiny_run):
    out, _ = tiny_run
    table = (out / "table1-cells.csv").read_bytes()
    broken = next((out / "cells").rglob("000-dst2r.json"))
    broken.write_text('{"half": ')
    again = invoke("table1", "--repeats", 2, "--jobs", 1, "--out", out, "--snr", 4, "--normalize")
    assert again.exit_code == 0
    assert "27 of 28 cells are there" in again.output
    assert (out / "table1-cells.csv").read_bytes() == table
    other = invoke("table1", "--repeats", 2, "--out", out, "--seed", 1)
    assert other.exit_code == 1
    assert other.output.startswith("dst2r: ")
    assert "seed 0, now 1" in other.output
    with pytest.raises(OtherRunError):
        run_experiment(TINY, out / "cells" / "table1", repeats=1, seed=1)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("table1", "--noise", 1, "--snr", 1), "give one of them"),
        (("landscape", "--snr", 1), "leave out --noise"),
        (("sweep", "--normalize"), "leave out --noise"),
        (("figure2", "--snr", 0), "greater than 0"),
    ],
)
def test_options_that_make_no_sense_end_in_one_line(tmp_path, args, told):
    result = invoke(*args, "--out", tmp_path / "new")
    assert result.exit_code == 1
    (line,) = result.output.splitlines()
    assert told in line
    assert not (tmp_path / "new").exists()


def test_tables_fit_the_terminal():
    grid = Grid(
        "T", ["", *"abcd"], [("a method", [Entry("0.123 / 0.456", "paper 1 / 2", best=k == 1) for k in range(4)])]
    )
    for width in (200, 80, 50, 30):
        console = Console(width=width, file=io.StringIO())
        for table in reproduce.as_rich(grid, width):
            console.print(table)
        text = console.file.getvalue()
        assert text.count("0.123 / 0.456") == text.count("paper 1 / 2") == 4
        assert max(map(len, text.splitlines())) <= width


def test_the_command_line_offers_every_experiment():
    assert {choice.value for choice in app_module.Experiments} == set(COMMANDS)


def test_unknown_experiment_and_bad_numbers_are_usage_errors():
    for args in (["table3"], ["table1", "--repeats", 0], ["table1", "--jobs", 0], ["table1", "--seed", -1]):
        assert invoke(*args).exit_code == 2


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    result = invoke("table1", "--out", tmp_path / "file")
    assert result.exit_code == 1
    assert "--out" in result.output


def test_time_left_is_told(monkeypatch, capsys):
    clock = iter([0.0, 1.0, 50.0, 60.0, 100.0])
    monkeypatch.setattr(reproduce.time, "perf_counter", lambda: next(clock))
    told = reproduce.lines_of_progress("table1")
    told(10, 110)  # 10 were there before
    told(60, 110)
    told(70, 110)  # too soon after the last line
    told(85, 110)
    assert capsys.readouterr().err.splitlines() == [
        "table1: 10 of 110 cells are there",
        "table1: 60 of 110 cells, about 50 s left",
        "table1: 85 of 110 cells, about 33 s left",
    ]
