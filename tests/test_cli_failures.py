"""What can go wrong at the command line: one line that says what to do, an exit code, and nothing half-written."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dst2r

typer_testing = pytest.importorskip("typer.testing")

from dst2r.cli import app as app_module  # noqa: E402

DATA = dst2r.make_tensor_regression(40, (4, 3), (3, 2), rank=1, noise=0.3, random_state=0)
COMMANDS = ("fit", "cv", "predict", "score", "inspect", "stats", "simulate", "report", "demo", "reproduce")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work among X.npy, Y.npy, a model and statistics; at the end nothing else may have been left."""
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", DATA.X)
    np.save("Y.npy", DATA.Y)
    model = dst2r.DST2R().fit(DATA.X, DATA.Y)
    model.save("m.dst2r")
    dst2r.save(dst2r.GramStatistics.from_arrays(DATA.X, DATA.Y), "s.dst2r")
    yield tmp_path
    assert not [path.name for path in tmp_path.rglob("*") if path.name.startswith(("out", ".out"))]


def run(*args):
    return typer_testing.CliRunner().invoke(app_module.app, [str(arg) for arg in args])


def refused(*args):
    """The one line on standard error with which a command fails; nothing is on standard output."""
    result = run(*args)
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("dst2r: ")
    assert "Traceback" not in line
    return line


def shell(args, **options):
    """Start what the installed command would."""
    env = os.environ | {"PYTHONPATH": str(Path(dst2r.__file__).parents[1]), "NO_COLOR": "1", "COLUMNS": "100"}
    code = "from dst2r.cli import main; main()"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code, *args], env=env, **pipes | options)


# Where X, Y and a model go in, and what comes out
READING = [
    ("fit", "X", "Y", "-o", "out.dst2r"),
    ("cv", "X", "Y", "--csv", "out.csv"),
    ("stats", "X", "Y", "-o", "out.dst2r"),
    ("score", "m.dst2r", "X", "Y", "--csv", "out.csv"),
    ("report", "m.dst2r", "--data", "X", "Y", "-o", "out.html"),
    ("predict", "m.dst2r", "X", "-o", "out.npy"),
]


def with_files(command, x="X.npy", y="Y.npy"):
    return [{"X": x, "Y": y}.get(part, part) for part in command]


@pytest.mark.parametrize("command", READING, ids=lambda command: command[0])
def test_missing_files(command):
    assert "There is no file no.npy" in refused(*with_files(command, x="no.npy"))
    if "Y" in command:
        assert "There is no file no.npy" in refused(*with_files(command, y="no.npy"))


@pytest.mark.parametrize("command", READING, ids=lambda command: command[0])
def test_wrong_keys(command):
    np.savez("both.npz", A=DATA.X, B=DATA.Y)
    assert "holds no 'X': write 'both.npz[NAME]' with one of A, B" in refused(*with_files(command, x="both.npz[X]"))
    assert "holds several arrays" in refused(*with_files(command, x="both.npz"))


@pytest.mark.parametrize("command", READING[:-1], ids=lambda command: command[0])
def test_numbers_of_samples_that_differ(command):
    np.save("short.npy", DATA.Y[:30])
    line = refused(*with_files(command, y="short.npy"))
    assert "40" in line
    assert "30" in line


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("command", READING, ids=lambda command: command[0])
def test_numbers_that_are_none(command, value):
    for name, array in (("X", DATA.X), ("Y", DATA.Y)):
        if name in command:
            bad = array.copy()
            bad[3, 1, 1] = value
            np.save("bad.npy", bad)
            line = refused(*with_files(command, **{name.lower(): "bad.npy"}))
            assert "NaN" in line or "infinity" in line
            assert "remove or impute those samples" in line or "would mean nothing" in line


@pytest.mark.parametrize("command", READING[3:], ids=lambda command: command[0])
def test_predictors_of_another_order(command):
    np.save("wide.npy", np.ones((40, 4, 3, 2)))
    line = refused(*with_files(command, x="wide.npy"))
    assert "(4, 3, 2)" in line
    assert "(4, 3)" in line


@pytest.mark.parametrize("command", READING[3:5], ids=lambda command: command[0])
def test_responses_of_another_shape(command):
    np.save("wide.npy", np.ones((40, 3, 2, 2)))
    line = refused(*with_files(command, y="wide.npy"))
    assert "(40, 3, 2, 2)" in line
    assert "(40, 3, 2)" in line


@pytest.mark.parametrize("command", READING, ids=lambda command: command[0])
def test_truncated_and_foreign_data(command):
    Path("cut.npy").write_bytes(Path("X.npy").read_bytes()[:2000])
    assert "cut.npy cannot be read" in refused(*with_files(command, x="cut.npy"))
    Path("it.xlsx").touch()
    assert "it.xlsx has the suffix .xlsx; arrays are read from .npy" in refused(*with_files(command, x="it.xlsx"))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array(["a", "b"]), "expected real numbers"),
        (np.ones(3, dtype=complex), "expected real numbers"),
        (np.float64(3.0), "is a single number"),
    ],
    ids=["text", "complex", "scalar"],
)
def test_inspecting_what_is_no_array_of_numbers(array, message):
    np.save("bad.npy", array)
    assert message in refused("inspect", "bad.npy")


def test_predictors_without_a_mode():
    np.save("vector.npy", DATA.X[:, 0, 0])
    assert "expected a second axis" in refused("fit", "vector.npy", "Y.npy", "-o", "out.dst2r")
    pytest.importorskip("pandas")
    Path("table.csv").write_text("a,b\n" + "1.5,2.5\n" * 40)
    assert "several columns" in refused("fit", "table.csv[a]", "Y.npy", "-o", "out.dst2r")


def test_numbers_whose_squares_overflow():
    np.save("large.npy", np.where(DATA.X > 0, 1e300, DATA.X))
    for rank in ("1", "1:2"):
        assert "X holds numbers so large" in refused("fit", "large.npy", "Y.npy", "--rank", rank, "-o", "out.dst2r")
    np.save("large.npy", np.where(DATA.Y > 0, 1e300, DATA.Y))
    assert "Y holds numbers so large" in refused("fit", "X.npy", "large.npy", "-o", "out.dst2r")


@pytest.mark.parametrize(
    "command",
    [
        ("predict", "M", "X.npy", "-o", "out.npy"),
        ("score", "M", "X.npy", "Y.npy"),
        ("report", "M", "-o", "out.html"),
        ("cv", "M"),
        ("inspect", "M"),
        ("fit", "--stats", "M", "M", "-o", "out.dst2r"),
    ],
    ids=lambda command: command[0],
)
def test_models_that_are_none(command):
    whole = Path("m.dst2r").read_bytes()
    for content, message in (
        (None, "There is no file bad.dst2r"),
        (whole[:900], "not a dst2r file, or is damaged"),
        (b"", "not a dst2r file, or is damaged"),
        (b"\x80\x04cos\nsystem\n", "not a dst2r file, or is damaged"),
    ):
        if content is not None:
            Path("bad.dst2r").write_bytes(content)
        assert message in refused(*("bad.dst2r" if part == "M" else part for part in command))


WRITING = [
    ("fit", "X.npy", "Y.npy", "--rank", "1", "-o", "out.dst2r"),
    ("cv", "X.npy", "Y.npy", "--rank", "1", "--n-l1", "2", "--folds", "2", "--csv", "out.csv"),
    ("cv", "X.npy", "Y.npy", "--rank", "1", "--n-l1", "2", "--folds", "2", "-o", "out.dst2r"),
    ("stats", "X.npy", "Y.npy", "-o", "out.dst2r"),
    ("predict", "m.dst2r", "X.npy", "-o", "out.npy"),
    ("score", "m.dst2r", "X.npy", "Y.npy", "--csv", "out.csv"),
    ("inspect", "m.dst2r", "--table", "out.csv"),
    ("report", "m.dst2r", "-o", "out.html"),
    ("simulate", "--samples", "5", "-o", "out"),
]
NAMES = [f"{command[0]} {command[-1]}" for command in WRITING]


@pytest.mark.parametrize("command", WRITING, ids=NAMES)
def test_what_exists_is_kept_and_replaced_on_request(command):
    out = Path(command[-1])
    out.write_text("mine")
    line = refused(*command)
    assert (
        f"{out} exists: replace it with --force, or choose another place with {command[-2].replace('-o', '--out')}"
        in line
    )
    assert out.read_text() == "mine"
    if command[0] != "simulate":
        assert run(*command, "--force").exit_code == 0
        assert out.read_bytes() != b"mine"
    out.unlink()


@pytest.mark.parametrize("command", WRITING, ids=NAMES)
def test_folders_that_cannot_be_written(command):
    Path("file").touch()
    line = refused(*command[:-1], f"file/{command[-1]}")
    assert "cannot write in file" in line
    assert "choose another place with" in line


@pytest.mark.parametrize("command", WRITING, ids=NAMES)
def test_folders_in_the_place_of_files(command):
    """Told before any work, and whatever is in the folder is kept."""
    place = Path(command[-1]).with_name("mine" + Path(command[-1]).suffix)
    place.mkdir()
    (place / "precious").touch()
    for force in ([], ["--force"]):
        line = refused(*command[:-1], place, *force)
        assert "is a folder: name a file in it" in line or "is not a folder of dst2r simulate" in line
    assert [path.name for path in place.iterdir()] == ["precious"]


@pytest.mark.parametrize("suffix", [".nc", ".h5"])
def test_hdf5_is_not_tried_on_a_disk_that_is_full(suffix, monkeypatch):
    """The library crashes when it cannot close its file."""
    pytest.importorskip("h5py")
    usage = type(shutil.disk_usage("."))
    monkeypatch.setattr("dst2r.io.writing.shutil.disk_usage", lambda _: usage(10**6, 10**6 - 1000, 1000))
    assert "No space left on device): make room" in refused("predict", "m.dst2r", "X.npy", "-o", f"out{suffix}")


@pytest.mark.parametrize("command", WRITING, ids=NAMES)
def test_a_full_disk(command, monkeypatch):
    """The device reports that it is full when the file is flushed, as network disks do."""

    def full(path):
        assert path.exists()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dst2r._files._flush", full)
    monkeypatch.setattr("dst2r.cli.simulate.np.savez", lambda *_: full(Path()))
    line = refused(*command)
    assert line.count("cannot be written") == 1
    assert "(No space left on device)" in line
    assert command[-1] in line
    assert "make room" in line


@pytest.mark.parametrize("command", [WRITING[0], WRITING[4]], ids=["fit", "predict"])
def test_a_disk_that_is_full_within_a_file(command):
    """The system ends every file after some kB."""
    resource = pytest.importorskip("resource")
    if command[0] == "predict":
        np.save("X.npy", np.ones((4000, 4, 3)))
    process = shell(command, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)))
    out, err = process.communicate()
    assert (process.returncode, out) == (1, ""), err
    assert "cannot be written" in err
    assert len(err.splitlines()) == 1


def started(command, **options):
    """A command that has begun its work: the compiler is loaded, and its file is claimed."""
    code = (
        "import sys, time\n"
        "from dst2r.cli import main\n"
        "import dst2r.correction, dst2r.persistence\n"
        "def slowly(*args, **options):\n"
        "    print('WORKING', file=sys.stderr, flush=True)\n"
        "    time.sleep(60)\n"
        "{patch}\n"
        "main()"
    )
    patch = {
        "fit": "from dst2r import DST2RCV; DST2RCV.fit = slowly",
        "predict": "from dst2r.io import writing; writing.WRITERS['.npy'] = slowly",
    }[command[0]]
    env = os.environ | {"PYTHONPATH": str(Path(dst2r.__file__).parents[1]), "NO_COLOR": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    args = [sys.executable, "-c", code.format(patch=patch), *command]
    process = subprocess.Popen(args, env=env, **pipes | options)
    assert process.stderr.readline() == "WORKING\n"
    return process


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("command", [("fit", "X.npy", "Y.npy", "-o", "out.dst2r"), WRITING[4]], ids=["fit", "predict"])
def test_interrupts(command, number, code):
    process = started(command)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (code, "")
    assert err == ("dst2r: interrupted; nothing was written.\n" if number == signal.SIGINT else "")


def test_an_interrupt_of_real_work():
    """In the middle of whatever it was doing, the compiler included."""
    np.save("X.npy", np.random.default_rng(0).random((400, 8, 8)))
    np.save("Y.npy", np.random.default_rng(1).random((400, 8, 8)))
    process = shell(["fit", "X.npy", "Y.npy", "--rank", "40", "-v", "-o", "out.dst2r"])
    assert process.stderr.readline().startswith("[dst2r] ")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "dst2r: interrupted; nothing was written."


def test_an_interrupt_while_libraries_load():
    code = (
        "import sys\n"
        "from dst2r.cli import main\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'dst2r.cli.app':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "main()"
    )
    env = os.environ | {"PYTHONPATH": str(Path(dst2r.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "dst2r: interrupted; nothing was written.\n")


def test_a_reader_that_has_gone():
    """As in ``dst2r inspect ... | head -1``."""
    process = shell(["inspect", "m.dst2r"])
    process.stdout.close()
    with process.stderr:
        assert "Traceback" not in process.stderr.read()
    process.wait()


@pytest.mark.parametrize(
    "args",
    [
        ("fit", "X.npy", "-o", "out.dst2r"),
        ("fit", "X.npy", "Y.npy"),
        ("fit", "X.npy", "Y.npy", "-o", "out.dst2r", "--rank", "0"),
        ("fit", "X.npy", "Y.npy", "-o", "out.dst2r", "--rank", "a"),
        ("fit", "X.npy", "Y.npy", "-o", "out.dst2r", "--l2", "a"),
        ("fit", "X.npy", "Y.npy", "-o", "out.dst2r", "--rank", "1", "--l1", "cp"),
        ("fit", "X.npy", "Y.npy", "-o", "out.dst2r", "--rank", "1:2", "--l1", "bic"),
        ("fit", "X.npy", "Y.npy", "-o", "out.dst2r", "--rank", "1", "--seed", "3"),
        ("fit", "X.npy", "Y.npy", "-o", "out.dst2r", "--cv", "1"),
        ("fit", "X.npy", "Y.npy", "-o", "out.dst2r", "--jobs", "0"),
        ("predict", "m.dst2r", "X.npy"),
        ("score", "m.dst2r", "X.npy"),
        ("simulate", "-o", "out", "--sparsity", "2"),
        ("inspect",),
        ("nothing",),
    ],
    ids=" ".join,
)
def test_usage_errors(args):
    result = run(*args)
    assert result.exit_code == 2
    assert "Usage: " in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("fit", "X.npy", "Y.npy", "-o", "out.dst2r", "--rank", "1", "--l1", "-3"), "l1 is -3.0"),
        (("fit", "X.npy", "Y.npy", "-o", "out.dst2r", "--rule", "best"), "rule is 'best'"),
        (("fit", "X.npy", "Y.npy", "-o", "out.dst2r", "--rank", "99"), "choose at most 18"),
        (("fit", "X.npy", "Y.npy", "-o", "out.dst2r", "--cv", "99"), "99"),
        (("predict", "m.dst2r", "X.npy", "-o", "out.xyz"), "arrays are written to .npy"),
        (("predict", "no.dst2r", "X.npy", "-o", "out.xyz"), "arrays are written to .npy"),  # before any work
        (("predict", "s.dst2r", "X.npy", "-o", "out.npy"), "predicts nothing"),
        (("score", "s.dst2r", "X.npy", "Y.npy"), "predicts nothing"),
        (("score", "m.dst2r", "X.npy", "Y.npy", "--csv", "out.npy"), "tables are written to .csv"),
        (("inspect", "m.dst2r", "--table", "out"), "no suffix"),
        (("inspect", "X.npy", "--table", "out.csv"), "this is no model"),
        (("report", "m.dst2r", "-o", "out.pdf"), "does not end in .html"),
        (("fit", "s.dst2r", "s.dst2r", "-o", "out.dst2r"), "--stats fits statistics"),
        (("fit", "", "Y.npy", "-o", "out.dst2r"), "name of a file is empty"),
        (("simulate", "-o", "out", "--noise", "1", "--snr", "1"), "both set the noise"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_values_that_cannot_be(args, message):
    assert message in refused(*args)


def test_missing_libraries_are_named(monkeypatch):
    for module, path in (("pandas", "it.csv"), ("h5py", "it.nc"), ("zarr", "it.zarr")):
        Path(path).touch()
        monkeypatch.setitem(sys.modules, module, None)
        line = refused("fit", path, "Y.npy", "-o", "out.dst2r")
        assert f"needs {module}: python -m pip install" in line


def test_bugs_keep_their_traceback(monkeypatch):
    """What nobody thought of is not made to look like a user's mistake."""

    def broken(*_):
        raise AttributeError("a bug")

    monkeypatch.setattr("dst2r.cli.inspect.array_facts", broken)
    result = run("inspect", "X.npy")
    assert isinstance(result.exception, AttributeError)
    assert isinstance(run("--debug", "predict", "m.dst2r", "no.npy", "-o", "out.npy").exception, FileNotFoundError)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_stands_alone(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"dst2r {command}" in result.stdout
    assert "Example:" in result.stdout
    if command == "fit":
        assert "dst2r fit 'data.nc[X]' 'data.nc[Y]'" in result.stdout  # brackets are no markup
        assert "[default: bic]" in result.stdout


def test_help_tells_of_formats_and_exit_codes():
    text = run("--help").stdout
    for part in ("data.npz[X]", "long.csv[patient,gene:level]", "'scans/*.nii.gz'", "130 interrupted", "2 wrong"):
        assert part in text
    assert [name for name in COMMANDS if name in text] == list(COMMANDS)


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion(name):
    """The shells' scripts are there, and ask the command for what may follow."""
    env = os.environ | {"PYTHONPATH": str(Path(dst2r.__file__).parents[1]), "_DST2R_COMPLETE": f"source_{name}"}
    code = "import sys; sys.argv[0] = 'dst2r'; from dst2r.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert "_DST2R_COMPLETE" in done.stdout
    if name != "bash":
        return
    env |= {"_DST2R_COMPLETE": "complete_bash", "COMP_WORDS": "dst2r s", "COMP_CWORD": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["score", "stats", "simulate"]
