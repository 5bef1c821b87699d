"""The command line: what it prints and writes, and how it fails: one line, a code, nothing half-written."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dst2r

typer_testing = pytest.importorskip("typer.testing")
pytest.importorskip("matplotlib")

from dst2r.cli import app as app_module  # noqa: E402
from dst2r.cli import demo, output  # noqa: E402

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def small(monkeypatch):
    """The demos on short grids."""
    monkeypatch.setattr(demo, "SEROLOGY", demo.SEROLOGY | {"ranks": range(1, 3), "n_l1": 3})
    monkeypatch.setattr(demo, "SIMULATED", demo.SIMULATED | {"ranks": range(2, 5), "n_l1": 8})
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def xy(tmp_path):
    """A small regression, in files, too."""
    data = dst2r.make_tensor_regression(60, (4, 3), (3,), rank=2, noise=0.3, random_state=0)
    np.save(tmp_path / "X.npy", data.X)
    np.save(tmp_path / "Y.npy", data.Y)
    return data.X, data.Y


def run(*args):
    return typer_testing.CliRunner().invoke(app_module.app, [str(arg) for arg in args])


def run_process(*args, **options):
    """The installed command would do the same."""
    env = os.environ | {"PYTHONPATH": str(Path(dst2r.__file__).parents[1]), "NO_COLOR": "1"}
    code = "from dst2r.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *args], env=env, capture_output=True, text=True, check=False, **options
    )


def one_line(result):
    """The message of a failure, checked to be nothing but a message."""
    assert result.exit_code == 1
    (line,) = result.output.splitlines()
    assert line.startswith("dst2r: ")
    return line


def files_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_help_and_version():
    help_text = run_process("--help")
    assert help_text.returncode == 0
    assert "demo" in help_text.stdout
    version = run_process("--version")
    assert (version.returncode, version.stdout) == (0, f"dst2r {dst2r.__version__}\n")
    assert "--simulated" in run_process("demo", "-h").stdout


def test_help_loads_nothing_heavy():
    heavy = {"numba", "sklearn", "scipy", "numpy", "matplotlib", "tensorly"}
    code = (
        "import sys; sys.argv = ['dst2r', '--help']; from dst2r.cli import main\n"
        "try: main()\n"
        f"finally: print('LOADED', {heavy} & set(sys.modules))"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "LOADED set()" in process.stdout


@pytest.mark.parametrize("name", ["typer", "rich"])
def test_missing_extra_is_named(name):
    code = f"import sys; sys.modules['{name}'] = None; from dst2r.cli import main; main()"
    process = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=False)
    assert process.returncode != 0
    assert process.stderr == f'dst2r: the command line needs {name}: python -m pip install "dst2r[cli]"\n'


def test_unknown_command_and_option_end_with_a_usage_error():
    for args in (["fit-all"], ["demo", "--sed", "3"], ["demo", "--seed", "-1"]):
        result = run(*args)
        assert result.exit_code == 2
        assert "Traceback" not in result.output


def test_fit_and_predict_are_those_of_python(tmp_path, xy):
    X, Y = xy
    result = run("fit", tmp_path / "X.npy", tmp_path / "Y.npy", "-o", tmp_path / "m.dst2r", "--rank", 2)
    assert result.exit_code == 0, result.output
    assert result.output.endswith(f"{tmp_path / 'm.dst2r'}\n")
    model = dst2r.DST2R(rank=2).fit(X, Y)
    assert dst2r.load(tmp_path / "m.dst2r").coef_.tobytes() == model.coef_.tobytes()
    result = run("predict", tmp_path / "m.dst2r", tmp_path / "X.npy", "-o", tmp_path / "P.npy")
    assert result.exit_code == 0, result.output
    assert np.load(tmp_path / "P.npy").tobytes() == model.predict(X).tobytes()


@pytest.mark.usefixtures("small")
def test_demo(tmp_path):
    result = run("demo", "--out", tmp_path / "new" / "folder")
    assert result.exit_code == 0, result.output
    path = tmp_path / "new" / "folder" / "dst2r-demo.png"
    text = result.output
    assert path.read_bytes().startswith(PNG)
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()
    assert files_in(path.parent) == ["dst2r-demo.png"]
    assert str(path) in text
    for part in ("438 blood samples", "231", "X antigen", "Y receptor", "IgG3 +", "FcR", "<- chosen", "1,080"):
        assert part in text
    assert "\n  ridge    0.799    0.739    0.747    0.770    0.738     0.759     1,080" in text
    assert max(len(line.rstrip()) for line in text.splitlines() if not line.startswith("Figure")) <= 80


@pytest.mark.usefixtures("small")
def test_simulated_demo(tmp_path):
    result = run("demo", "--simulated", "--out", tmp_path, "--seed", 1)
    assert result.exit_code == 0, result.output
    text = result.output
    assert (tmp_path / "dst2r-demo-simulated.png").read_bytes().startswith(PNG)
    for part in ("3, in truth 3", "error / oracle's", "TPR", "FPR", "missed", "32,768", "seed 1", "●"):
        assert part in text
    assert max(len(line.rstrip()) for line in text.splitlines() if not line.startswith("Figure")) <= 80


@pytest.mark.usefixtures("small")
def test_quiet_prints_the_path_and_nothing_else(tmp_path):
    path = tmp_path / "dst2r-demo-simulated.png"
    path.write_text("older")
    result = run("demo", "--simulated", "--quiet", "--force", "--out", tmp_path)
    assert (result.exit_code, result.output) == (0, f"{path}\n")
    assert path.read_bytes().startswith(PNG)


def test_an_existing_figure_is_kept(tmp_path):
    path = tmp_path / "dst2r-demo.png"
    path.write_text("mine")
    line = one_line(run("demo", "--out", tmp_path))
    assert f"{path} exists" in line
    assert "--force" in line
    assert path.read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_named_before_any_work(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    line = one_line(run("demo", "--out", tmp_path / "file" / "below"))
    assert "cannot write in" in line
    assert "--out" in line

    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(output.tempfile, "TemporaryFile", refuse)
    assert f"cannot write in {tmp_path} (Permission denied)" in one_line(run("demo", "--out", tmp_path))


@pytest.mark.usefixtures("small")
def test_a_full_disk_leaves_the_old_figure(tmp_path, monkeypatch):
    path = tmp_path / "dst2r-demo-simulated.png"
    path.write_text("older")

    def fill(self, name, **_):
        Path(name).write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fill)
    line = one_line(run("demo", "--simulated", "--force", "--out", tmp_path))
    assert "No space left on device" in line
    assert files_in(tmp_path) == [path.name]
    assert path.read_text() == "older"


def test_missing_matplotlib_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert 'pip install "dst2r[plot]"' in one_line(run("demo", "--out", tmp_path))
    assert files_in(tmp_path) == []


def test_serology_is_split_by_column():
    X, Y, labels = demo.load_serology()
    assert X.shape == (438, 6, 6)
    assert Y.shape == (438, 6, 5)
    assert [len(names) for names in labels] == [6, 6, 6, 5]
    assert all(name.startswith("Ig") for name in labels[1])
    assert all(name.startswith("FcR") for name in labels[3])
    assert np.bincount([int(digit) for digit in demo.PATIENT_FOLDS]).tolist() == [86, 98, 107, 74, 73]


@pytest.mark.skipif("DST2R_DATA" not in os.environ, reason="DST2R_DATA names no folder with the real data")
def test_serology_is_that_of_the_benchmarks():
    X, Y, _ = demo.load_serology()
    with np.load(Path(os.environ["DST2R_DATA"]) / "covid_serology.npz") as data:
        np.testing.assert_array_equal(X.astype(np.float32), data["X"])
        np.testing.assert_array_equal(Y.astype(np.float32), data["Y"])
        assert "".join(str(k) for k in data["fold"]) == demo.PATIENT_FOLDS


def test_support_lines_match_components_and_mark_entries():
    truth = [np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])]
    found = [np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])]
    assert demo.support_lines(["X", "Y"], truth, found) == [
        "     X    Y ",
        "  1  ○●×  ●·",
        "  2  ··●  ·●",
    ]
    assert demo.support_lines(["X", "Y"], truth, [f[:, :1] for f in found])[1] == "  1  ○○·  ○·"


def test_short_numbers():
    assert [demo._short(v) for v in (0.456, -1.0, -0.0012, 0.00003)] == ["+.46", "-1.00", "-.001", "+3e-05"]


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
