"""``dst2r inspect``: what a file holds, whatever kind of file it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np

from dst2r.cli.facts import label_line, mode_facts, mode_lines, model_facts, model_lines, statistics_facts
from dst2r.cli.facts import statistics_lines as lines_of_statistics
from dst2r.cli.output import Voice, progress
from dst2r.io import contents, open_array, split_spec, write_table
from dst2r.labels import Entry, Mode, is_xarray, labels_of, selected_entries
from dst2r.persistence import JSON_NAME, file_facts, load, load_labels
from dst2r.statistics import GramStatistics

CHEAP = 1 << 28  # bytes of an array that are read to count what is missing
ROWS = 20  # of the table of selected entries in the terminal


def run(spec: str, *, table: Path | None, voice: Voice) -> None:
    """Tell what a file holds.

    Parameters
    ----------
    spec : str
        Path of a model, of statistics or of data; or specification of an array.
    table : Path, optional
        For the entries that a model selected; free to be written.
    voice : Voice
    """
    if is_ours(Path(spec)):
        with progress("Reading", quiet=voice.quiet):
            obj = load(spec)
        header = file_facts(spec)
        if isinstance(obj, GramStatistics):
            _refuse_table(table, "statistics have no components")
            facts = header | statistics_facts(obj, load_labels(spec))
            lines = lines_of_statistics(facts)
        else:
            facts = header | facts_of_model(obj)
            lines = lines_of_model(facts, obj)
            if table is not None:
                entries = selected_entries(obj)
                columns = zip(*entries, strict=True) if len(entries) else ([] for _ in Entry._fields)
                write_table(table, dict(zip(Entry._fields, map(list, columns), strict=True)), overwrite=True)
        lines.append(f"  written by dst2r {header['version']}, schema {header['schema']}")
    else:
        _refuse_table(table, "this is no model")
        with progress("Reading", quiet=voice.quiet):
            facts = {"arrays": arrays(spec)}
        lines = table_lines(spec, facts["arrays"]) or [line for fact in facts["arrays"] for line in array_lines(fact)]
    for line in lines:
        voice.tell(line)
    voice.result(table, facts)


def is_ours(path: Path) -> bool:
    """Whether a file is a model's or of statistics, by its name or by what it holds."""
    if path.suffix.lower() == ".dst2r":
        return True
    if not path.is_file():
        return False
    try:
        with ZipFile(path) as file:
            return JSON_NAME in file.namelist()
    except (BadZipFile, OSError):
        return False


def facts_of_model(model: Any) -> dict[str, Any]:
    """All that is plain to say of a model, for JSON."""
    facts = model_facts(model)
    facts["parameters"] = {name: plain(value) for name, value in model.get_params(deep=False).items()}
    for name in ("statistics", "n_iter"):
        if hasattr(model, f"{name}_"):
            facts[name] = getattr(model, f"{name}_")
    if hasattr(model, "coef_"):
        n_x = model.coef_.ndim - model.intercept_.ndim
        facts["modes"] = mode_facts(labels_of(model), model.coef_.shape[:n_x], model.coef_.shape[n_x:])
    if hasattr(model, "cp_"):
        facts["entries"] = [entry._asdict() for entry in selected_entries(model)]
    return facts


def plain(value: Any) -> Any:
    """A parameter as JSON has it; what it has not as its text."""
    if isinstance(value, range):
        return list(value)
    return value if isinstance(value, str | int | float | list | tuple | None) else str(value)


def lines_of_model(facts: dict[str, Any], model: Any) -> list[str]:
    """A model, for people."""
    lines = model_lines(facts)
    if "n_samples" in facts:
        lines.insert(1, f"  samples  {facts['n_samples']:.12g}")
    lines += mode_lines(facts.get("modes", []))
    if "entries" in facts:
        entries = selected_entries(model)
        lines += ["", *(f"  {line}" for line in str(entries[:ROWS]).splitlines())]
        if len(entries) > ROWS:
            lines.append(f"  ... {len(entries) - ROWS} more: --table entries.csv writes all")
    return [*lines, ""]


def arrays(spec: str) -> list[dict[str, Any]]:
    """Facts of the arrays that a specification, or a file, holds."""
    path, key = split_spec(spec)
    found = {key: open_array(spec)} if key is not None else contents(path)
    if not found:
        raise ValueError(f"{path} holds no arrays of numbers.")
    if isinstance(found.get(""), str):
        raise ValueError(found[""])
    return [array_facts(path, name, array) for name, array in found.items()]


def array_facts(path: Path, key: str, array: Any) -> dict[str, Any]:
    """Facts of one array; of what is none, why."""
    name = f"{path}[{key}]" if key else os.fspath(path)
    if isinstance(array, str):
        return {"name": name, "fault": array}
    frame = hasattr(array, "iloc")
    dtypes = sorted({str(dtype) for dtype in array.dtypes}) if frame and array.ndim == 2 else [str(array.dtype)]
    facts: dict[str, Any] = {"name": name, "shape": list(array.shape), "dtype": ", ".join(dtypes)}
    facts["format"] = type(array.data if is_xarray(array) else array).__module__.split(".")[0]
    data = array.data if is_xarray(array) else array
    if getattr(data, "npartitions", 1) > 1:
        facts["chunks"] = list(data.chunksize)
    size = int(array.memory_usage().sum() if frame and array.ndim == 2 else array.nbytes)
    facts["bytes"] = size
    if size <= CHEAP:
        values = np.asarray(array)
        facts["not_finite"] = int(np.count_nonzero(~np.isfinite(values))) if values.dtype.kind == "f" else 0
    if is_xarray(array):
        axes = [(str(dim), array.coords[dim].values if dim in array.coords else None) for dim in array.dims]
    elif frame:
        counting = type(array.index).__name__ == "RangeIndex"
        axes = [(str(array.index.name or "sample"), None if counting else np.asarray(array.index))]
        axes += [("column", np.asarray(array.columns))] if array.ndim == 2 else []
    else:
        return facts
    modes = [Mode.of(axis, values) for axis, values in axes]
    facts["dims"] = [
        {"name": mode.name, "size": d, "labels": mode.labels and list(mode.labels)}
        for mode, d in zip(modes, array.shape, strict=True)
    ]
    return facts


def array_lines(facts: dict[str, Any]) -> list[str]:
    """One array, for people."""
    if "fault" in facts:
        return [facts["fault"] if facts["fault"].startswith(facts["name"]) else f"{facts['name']}: {facts['fault']}"]
    shape = " × ".join(map(str, facts["shape"]))
    parts = [shape, facts["dtype"], _size(facts["bytes"])]
    if "chunks" in facts:
        parts.append(f"chunks {' × '.join(map(str, facts['chunks']))}")
    if facts.get("not_finite"):
        parts.append(f"{facts['not_finite']} NaN or infinite")
    dims = (f"  {dim['name']}  {dim['size']}  {label_line(dim['labels'])}".rstrip() for dim in facts.get("dims", []))
    return [f"{facts['name']}: {', '.join(parts)}", *dims]


def table_lines(spec: str, facts: list[dict[str, Any]]) -> list[str]:
    """The columns of a table that holds text, too; nothing for other files."""
    if len(facts) < 2 or Path(spec).suffix.lower() not in (".csv", ".tsv", ".parquet"):
        return []
    cut = len(spec) + 1
    numbers = [fact["name"][cut:-1] for fact in facts if "fault" not in fact]
    texts = [fact["name"][cut:-1] for fact in facts if "fault" in fact]
    rows = next((fact["shape"][0] for fact in facts if "shape" in fact), None)
    missing = sum(fact.get("not_finite", 0) for fact in facts)
    lines = [
        f"{spec}: a table{f' of {rows} rows' if rows is not None else ''}",
        f"  numbers  {label_line(numbers, 200)}{f' ({missing} missing)' if missing else ''}",
        f"  text     {label_line(texts, 200)}",
    ]
    if numbers:
        name, index = Path(spec).name, texts if len(texts) > 1 else [*texts, *numbers[:1]]
        lines += [
            f"  a row for each sample:  '{name}[{texts[0]}:{','.join(numbers[:2])}]'",
            f"  a row for each entry:   '{name}[{','.join(index)}:{numbers[-1]}]'",
        ]
    return lines


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def _refuse_table(table: Path | None, why: str) -> None:
    if table is not None:
        raise ValueError(f"--table is for the entries that a model selected, and {why}: leave it out.")
