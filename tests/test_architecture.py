"""Imports point downwards, heavy libraries stay in their modules, and ``import dst2r`` is free."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dst2r

SRC = Path(__file__).parents[1] / "src"

# From the bottom: a module may import from lower lines only, and a package from itself.
LAYERS = (
    {"_kernels", "_files"},
    {"cp", "metrics", "labels", "images"},
    {"statistics", "simulation", "persistence"},
    {"search", "regressor"},
    {"correction"},
    {"baselines"},
    {"selection"},
    {"estimators"},
    {"__init__"},
    {"io", "plotting"},
    {"report"},
    {"experiments"},
    {"cli"},
)
HEIGHT = {module: height for height, layer in enumerate(LAYERS) for module in layer}

DASK, PLOTS = {"statistics/dask.py", "io", "images"}, {"plotting", "report", "experiments/figures.py"}
TERMINAL = {"cli"}
ONLY_IN = {
    "numba": {"_kernels"},
    "dask": DASK,
    "distributed": DASK,
    "zarr": {"io"},
    "xarray": {"labels", "io"},
    "pandas": {"labels", "io"},
    "nibabel": {"images"},
    "matplotlib": PLOTS,
    "plotly": PLOTS,
    "typer": TERMINAL,
    "rich": TERMINAL,
}


def imported_names(source: str, package: list[str]) -> Iterator[str]:
    """Absolute dotted names of all imports, nested ones included, in a module of ``package``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = package[: len(package) - node.level + 1] if node.level else []
            origin = parent + ([node.module] if node.module else [])
            yield from (".".join([*origin, alias.name]) for alias in node.names)


def violations(root: Path) -> list[str]:
    """Complaints about the package in the folder ``root``, which is named ``dst2r``."""
    complaints = []
    for path in sorted(root.rglob("*.py")):
        file = path.relative_to(root).as_posix()
        layer = file.split("/")[0].removesuffix(".py")
        if layer not in HEIGHT:
            complaints.append(f"{file} has no layer")
            continue
        package = ["dst2r", *path.relative_to(root).parts[:-1]]
        for name in imported_names(path.read_text(encoding="utf-8"), package):
            top, *rest = name.split(".")
            if top == "dst2r":
                # What is not a module is a public name, and those live in dst2r/__init__.py.
                target = rest[0] if rest and rest[0] in HEIGHT else "__init__"
                if target != layer and HEIGHT[target] >= HEIGHT[layer]:
                    complaints.append(f"{file} imports {name}")
            elif top in ONLY_IN and not ONLY_IN[top] & {layer, file}:
                complaints.append(f"{file} imports {name}")
    return complaints


def test_imports_of_the_package():
    assert violations(SRC / "dst2r") == []


@pytest.mark.parametrize(
    ("file", "source", "complaint"),
    [
        ("search.py", "import dst2r.estimators", "dst2r.estimators"),
        ("search.py", "from dst2r import selection", "dst2r.selection"),
        ("search.py", "from dst2r import DST2R", "dst2r.DST2R"),
        ("search.py", "from .correction import correct", "dst2r.correction.correct"),
        ("statistics/gram.py", "from .. import search", "dst2r.search"),
        (
            "cp.py",
            "def f():\n    from dst2r.statistics import GramStatistics",
            "dst2r.statistics.GramStatistics",
        ),
        ("correction.py", "from dst2r.baselines import STORE", "dst2r.baselines.STORE"),
        ("experiments/table1.py", "from dst2r.cli import main", "dst2r.cli.main"),
        ("correction.py", "from numba import njit", "numba.njit"),
        ("statistics/gram.py", "import dask.array as da", "dask.array"),
        ("estimators.py", "if True:\n    import matplotlib.pyplot", "matplotlib.pyplot"),
        ("cp.py", "import numpy\nfrom dst2r._kernels import stagewise", None),
        ("selection.py", "from dst2r.search import search\nfrom dst2r.cp import CPCoefficient", None),
        ("statistics/gram.py", "from dst2r.statistics.base import Statistics", None),
        ("statistics/dask.py", "import dask", None),
        ("report/html.py", "import matplotlib.pyplot\nfrom dst2r import DST2R", None),
    ],
)
def test_planted_imports(tmp_path, file, source, complaint):
    path = tmp_path / "dst2r" / file
    path.parent.mkdir(parents=True)
    path.write_text(source)
    assert violations(tmp_path / "dst2r") == ([f"{file} imports {complaint}"] if complaint else [])


def test_a_module_without_a_layer_is_reported(tmp_path):
    (tmp_path / "helpers.py").touch()
    assert violations(tmp_path) == ["helpers.py has no layer"]


def modules_loaded_by(statement: str) -> set[str]:
    """Top-level modules outside the standard library that a statement loads in a new process."""
    code = (
        "import json, sys; before = set(sys.modules)\n"
        f"{statement}\n"
        "print(json.dumps([name for name in set(sys.modules) - before]))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.split(".")[0] for name in json.loads(process.stdout)} - set(sys.stdlib_module_names)


def test_import_loads_nothing_else():
    assert modules_loaded_by("import dst2r; dir(dst2r)") == {"dst2r"}
    # The probe does see what is loaded.
    assert modules_loaded_by("import dst2r.cp") >= {"dst2r", "numpy"}


@pytest.mark.parametrize("name", dst2r.__all__)
def test_public_names(name):
    assert name in dir(dst2r)
    assert getattr(dst2r, name) is not None


def test_unknown_name():
    with pytest.raises(AttributeError, match="no attribute 'DST3R'"):
        _ = dst2r.DST3R
