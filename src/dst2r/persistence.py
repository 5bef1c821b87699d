"""Fitted models and statistics as files: a zip of ``.npy`` arrays and one JSON, in which nothing can run.

Schema 1: the member ``dst2r.json`` holds ``{"format", "schema", "version", "object"}``. In the object, numbers,
strings, lists and None stand for themselves, and a dict whose first key begins with ``$`` for anything else: ``$array``
names the member with an array, ``$object`` a class out of a fixed table, with its ``parameters`` and ``attributes``.
Statistics of labelled arrays have ``"labels"`` beside the object. Members are stored without compression, so that a
file cannot claim to hold more than its size. Any unzip and any reader of ``.npy`` will do to read it from another
language.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from inspect import signature
from numbers import Integral, Real
from pathlib import Path
from typing import IO, Any, Literal
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy

from dst2r._files import written_whole
from dst2r.cp import Array
from dst2r.labels import Labels

SCHEMA = 1
JSON_NAME = "dst2r.json"
JSON_LIMIT = 1 << 26
MOST_LETTERS = 300  # of a complaint, which may cite a damaged file
NPY_MAGIC = b"\x93NUMPY\x01\x00"
NPY_HEADER = re.compile(
    rb"\{'descr': '(?P<dtype>[<>|][biuf]\d{1,2})', 'fortran_order': (?P<fortran>True|False), "
    rb"'shape': \((?P<shape>(\d{1,19}(, ?\d{1,19})*,?)?)\), \} *\n"
)
MEMBER = re.compile(r"dst2r\.json|arrays/[\w.-]+\.npy")

# The classes that a file may hold, by the module that they are taken from: these, and no others, are ever made.
MODELS = {
    "DST2R": "dst2r.estimators",
    "DST2RCV": "dst2r.estimators",
    "GramStatistics": "dst2r.statistics",
    **dict.fromkeys(
        ("CPRidge", "HOLRR", "KernelHOLRR", "SparseOLS", "STORE", "SURF", "TensorEnvelope"), "dst2r.baselines"
    ),
}
PARTS = {
    "CPCoefficient": "dst2r.cp",
    "CPTensor": "tensorly.cp_tensor",
    "L1Path": "dst2r.selection",
    "SearchPath": "dst2r.search",
    **dict.fromkeys(
        (
            "GroupKFold", "GroupShuffleSplit", "KFold", "LeaveOneGroupOut", "LeaveOneOut", "LeavePGroupsOut",
            "ShuffleSplit", "TimeSeriesSplit",
        ),
        "sklearn.model_selection",
    ),
}  # fmt: skip
HOMES = MODELS | PARTS

# What reading a file with a wrong byte somewhere may raise.
DAMAGE = ArithmeticError, AttributeError, EOFError, LookupError, RuntimeError, TypeError, ValueError, struct.error


def save(obj: Any, path: str | os.PathLike[str], *, overwrite: bool = False, labels: Labels | None = None) -> None:
    """Write a fitted model, or statistics, so that :func:`load` gives back the same to the last bit.

    Parameters
    ----------
    obj : DST2R, DST2RCV, a baseline or GramStatistics
    path : path-like
        By custom with the suffix ``.dst2r``. The file appears whole or not at all.
    overwrite : bool, default=False
        Whether a file of that name may be replaced.
    labels : Labels, optional
        Names of the modes that statistics are about, for :func:`load_labels`; a model has its own.

    Raises
    ------
    TypeError
        If the object, or a parameter of it, is of a kind that a file cannot hold.
    FileExistsError, OSError
        If the file exists, or cannot be written.

    Examples
    --------
    >>> import os, tempfile
    >>> from dst2r import GramStatistics, load, save
    >>> stats = GramStatistics.from_arrays([[1.0], [2.0], [4.0]], [1.0, 2.0, 3.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(stats, os.path.join(folder, "site-a.dst2r"))
    ...     load(os.path.join(folder, "site-a.dst2r")).n_samples
    3.0
    """
    name = type(obj).__name__
    if _class_named(name, MODELS) is not type(obj):
        raise TypeError(
            f"A file holds one of {', '.join(MODELS)}; this is a {name}. Of a pipeline, save the last step."
        )
    if name != "GramStatistics" and not hasattr(obj, "intercept_"):
        raise TypeError(f"This {name} is not fitted: call fit before saving it.")
    encoder = _Encoder()
    header = {"format": "dst2r", "schema": SCHEMA, "version": version("dst2r"), "object": encoder.encode(obj)}
    if labels is not None:
        header["labels"] = labels.to_json()
    text = json.dumps(header, allow_nan=False, ensure_ascii=False, indent=1).encode()
    if len(text) > JSON_LIMIT:
        raise TypeError(
            f"The parameters and labels take {len(text) >> 20} MiB; a file holds {JSON_LIMIT >> 20} at most."
        )
    with written_whole(path, overwrite=overwrite) as temporary, ZipFile(temporary, "w", ZIP_STORED) as file:
        file.writestr(ZipInfo(JSON_NAME), text)  # ZipInfo's date is fixed: the same model gives the same bytes
        for member, array in encoder.arrays.items():
            with file.open(ZipInfo(member), "w", force_zip64=array.nbytes >= 1 << 30) as stream:
                npy.write_array(stream, array, allow_pickle=False)


def load(path: str | os.PathLike[str]) -> Any:
    """Read what :func:`save` wrote, by this or an earlier version.

    Nothing in a file is ever run: it can only fill the classes of this package with numbers and text. Files that are
    damaged, foreign or forged raise a ``ValueError``.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    DST2R, DST2RCV, a baseline or GramStatistics
    """
    path = Path(path)
    with _complaints(path), ZipFile(path) as file:
        members = _checked_members(file, path.stat().st_size)
        obj = _Decoder(file, members).decode(_header(file, members)["object"])
        if type(obj).__name__ not in MODELS:
            raise ValueError(f"it holds a {type(obj).__name__}")
        _check_consistent(obj)
        return obj


def load_labels(path: str | os.PathLike[str]) -> Labels | None:
    """Names that were saved beside statistics; None if there were none."""
    path = Path(path)
    with _complaints(path), ZipFile(path) as file:
        labels = _header(file, _checked_members(file, path.stat().st_size)).get("labels")
        return None if labels is None else Labels.from_json(labels)


def file_facts(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Schema and version of dst2r that a file was written with."""
    path = Path(path)
    with _complaints(path), ZipFile(path) as file:
        header = _header(file, _checked_members(file, path.stat().st_size))
        return {"schema": header["schema"], "version": str(header.get("version"))}


def _class_named(name: str, homes: dict[str, str]) -> type | None:
    return getattr(import_module(homes[name]), name) if name in homes else None


class _Encoder:
    """JSON for values; arrays are put aside under member names that tell where they belong, each object once."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._names: dict[int, str] = {}

    def encode(self, value: Any, name: str = "") -> Any:
        if value is None or isinstance(value, str | np.bool_ | Real):
            return _encode_scalar(value)
        if isinstance(value, list | tuple | range | dict):
            return self._container(value, name)
        if isinstance(value, np.ndarray):
            return self._array(value, name)
        return self._object(value, name)

    def _container(self, value: Any, name: str) -> Any:
        if isinstance(value, range):
            return {"$range": [value.start, value.stop, value.step]}
        if isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                raise _cannot_hold(name, value)
            return {"$dict": self._named(value, name)}
        items = [self.encode(item, f"{name}.{k}") for k, item in enumerate(value)]
        return items if isinstance(value, list) else {"$tuple": items}

    def _array(self, value: Array, name: str) -> dict[str, Any]:
        if value.dtype == object and value.ndim == 1 and all(isinstance(item, str) for item in value):
            return {"$strings": list(value)}
        if value.dtype.kind not in "biuf":
            raise _cannot_hold(name, value)
        if id(value) not in self._names:
            stem = re.sub(r"[^\w.-]", "_", name.lstrip("."))
            member, k = f"arrays/{stem}.npy", 1
            while member in self.arrays:
                member, k = f"arrays/{stem}-{k}.npy", k + 1
            self.arrays[member], self._names[id(value)] = value, member
        return {"$array": self._names[id(value)]}

    def _object(self, value: Any, name: str) -> dict[str, Any]:
        cls = type(value)
        if isinstance(value, Labels):
            return {"$labels": self.encode(value.to_json(), name)}
        if _class_named(cls.__name__, HOMES) is not cls:
            raise _cannot_hold(name, value)
        if cls.__name__ == "CPTensor":
            weights, factors = value
            return {"$object": "CPTensor", "parameters": self._named({"cp_tensor": (weights, factors)}, name)}
        parameters = {key: getattr(value, key) for key in signature(cls).parameters}
        attributes = {key: item for key, item in getattr(value, "__dict__", {}).items() if key not in parameters}
        return {
            "$object": cls.__name__,
            "parameters": self._named(parameters, name),
            "attributes": self._named(attributes, name),
        }

    def _named(self, values: dict[str, Any], name: str) -> dict[str, Any]:
        return {key: self.encode(item, f"{name}.{key}") for key, item in values.items()}


def _encode_scalar(value: Any) -> Any:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        return number if math.isfinite(number) else {"$float": repr(number)}
    return None if value is None else str(value)


def _cannot_hold(name: str, value: Any) -> TypeError:
    return TypeError(
        f"{name.lstrip('.')} is {str(value)[:80]}, which a file cannot hold: before saving, give numbers, text or "
        "arrays of numbers instead, for example by model.set_params."
    )


@contextmanager
def _complaints(path: Path) -> Iterator[None]:
    """Turn whatever a damaged or forged file provokes into one sentence."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no file {path}.") from None
    except (BadZipFile, OSError) as error:
        if getattr(error, "filename", None) is not None:  # the file cannot be opened; other errors come of its bytes
            raise
        reason = str(error).rstrip(".")[:MOST_LETTERS]
        raise ValueError(
            f"{path} is not a dst2r file, or is damaged ({reason}): save it again, or fetch it again."
        ) from None
    except DAMAGE as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error).rstrip(".") or repr(error)
        raise ValueError(f"{path} cannot be loaded: {reason[:MOST_LETTERS]}.") from error


def _checked_members(file: ZipFile, size: int) -> dict[str, ZipInfo]:
    """The members by name, of which none can be larger than the file or lie elsewhere."""
    infos = file.infolist()
    members = {info.filename: info for info in infos}
    if JSON_NAME not in members:
        raise ValueError(f"it is a zip file, but not of dst2r: it holds no {JSON_NAME}")
    if len(members) != len(infos) or not all(MEMBER.fullmatch(name) for name in members):
        raise ValueError("it holds files that dst2r does not write")
    if any(info.compress_type != ZIP_STORED or info.compress_size != info.file_size for info in infos):
        raise ValueError("its members are compressed, which dst2r does not do")
    if sum(info.file_size for info in infos) > size:
        raise ValueError(f"its members claim to be larger than the file's {size} bytes")
    return members


def _header(file: ZipFile, members: dict[str, ZipInfo]) -> dict[str, Any]:
    if members[JSON_NAME].file_size > JSON_LIMIT:
        raise ValueError(f"its {JSON_NAME} is larger than {JSON_LIMIT >> 20} MiB")
    header = json.loads(file.read(JSON_NAME), parse_constant=_no_constant)
    if not isinstance(header, dict) or header.get("format") != "dst2r" or "object" not in header:
        raise ValueError(f"its {JSON_NAME} is not of dst2r")
    if header.get("schema") != SCHEMA:
        raise ValueError(
            f"it has schema {header.get('schema')!r}, this version reads {SCHEMA}: it was written by dst2r "
            f"{header.get('version')}, install that or a later one"
        )
    return header


def _no_constant(name: str) -> None:
    raise ValueError(f"its {JSON_NAME} holds {name}")


class _Decoder:
    """Values from JSON; arrays are read once each, after their claims have been checked."""

    def __init__(self, file: ZipFile, members: dict[str, ZipInfo]) -> None:
        self._file, self._members, self._known = file, members, dict[str, Array]()
        self._kinds: dict[str, Callable[[Any], Any]] = {
            "$array": self._array,
            "$dict": self._named,
            "$float": float,
            "$labels": lambda content: Labels.from_json(self.decode(content)),
            "$range": lambda content: range(*content),
            "$strings": lambda content: np.array([str(item) for item in content], dtype=object),
            "$tuple": lambda content: tuple(self.decode(content)),
        }

    def decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        kind = next(iter(value), None)
        if kind == "$object":
            return self._object(value)
        if kind not in self._kinds or len(value) != 1:
            raise ValueError(f"its entry {str(value)[:60]} is unknown")
        return self._kinds[kind](value[kind])

    def _named(self, values: dict[str, Any]) -> dict[str, Any]:
        return {key: self.decode(item) for key, item in values.items()}

    def _object(self, value: dict[str, Any]) -> Any:
        """One of the known classes, made from its parameters; estimators get their fitted attributes."""
        name = value["$object"]
        cls = _class_named(name, HOMES) if isinstance(name, str) else None
        if cls is None:
            raise ValueError(f"it asks for a {str(name)[:60]!r}, which no file of dst2r holds")
        obj = cls(**self._named(value["parameters"]))
        for key, item in self._named(value.get("attributes", {})).items():
            if not key.isidentifier() or key.startswith("__") or hasattr(cls, key):
                raise ValueError(f"{name} has no attribute {key!r} that could be set")
            setattr(obj, key, item)
        return obj

    def _array(self, name: str) -> Array:
        if name == JSON_NAME or name not in self._members:
            raise ValueError(f"its array {name!r} is missing")
        if name not in self._known:
            with self._file.open(name) as stream:
                self._known[name] = _read_array(stream, self._members[name].file_size, name)
        return self._known[name]


def _read_array(stream: IO[bytes], size: int, name: str) -> Array:
    """Array of real numbers in NumPy's format 1.0, by a stricter reader than NumPy's: claims are checked first."""
    start = stream.read(len(NPY_MAGIC) + 2)
    header = stream.read(int.from_bytes(start[-2:], "little"))
    claim = NPY_HEADER.fullmatch(header)
    if not start.startswith(NPY_MAGIC) or claim is None:
        raise ValueError(f"its member {name} is not an array of numbers")
    dtype, shape = np.dtype(claim["dtype"].decode()), tuple(int(d) for d in re.findall(rb"\d+", claim["shape"]))
    wanted, found = math.prod(shape) * dtype.itemsize, size - len(start) - len(header)
    if wanted != found:
        raise ValueError(f"its array {name} of shape {shape} needs {wanted} bytes and has {found}")
    data = bytearray(wanted)
    view, filled = memoryview(data), 0
    while filled < wanted:
        filled += len(chunk := stream.read(min(wanted - filled, 1 << 20)))
        view[filled - len(chunk) : filled] = chunk
        if not chunk:
            raise EOFError(f"its array {name} ends after {filled} of {wanted} bytes")
    stream.read(1)  # at the end the checksum is compared
    order: Literal["F", "C"] = "F" if claim["fortran"] == b"True" else "C"
    return np.ndarray(shape, dtype, data, order=order)


def _check_consistent(obj: Any) -> None:
    """Raise unless the arrays of a model or of statistics fit together."""
    if type(obj).__name__ == "GramStatistics":
        P, Q = math.prod(obj.x_shape), math.prod(obj.y_shape)
        shapes = {"gram": (P, P), "cross": (P, Q), "y_square": (Q,), "x_mean": (P,), "y_mean": (Q,)}
        for name, shape in shapes.items():
            if np.shape(getattr(obj, name)) != shape:
                raise ValueError(f"its {name} has shape {np.shape(getattr(obj, name))} instead of {shape}")
        return
    name = "dual_coef_" if hasattr(obj, "dual_coef_") else "coef_"
    coef, intercept = getattr(obj, name), obj.intercept_
    if not isinstance(coef, np.ndarray) or not isinstance(intercept, np.ndarray):
        raise ValueError(f"its {name} and intercept_ are not arrays")
    n_x_modes = coef.ndim - intercept.ndim
    if n_x_modes < 1 or coef.shape[n_x_modes:] != intercept.shape:
        raise ValueError(f"its {name} of shape {coef.shape} does not end in the intercept's {intercept.shape}")
    if name == "coef_":
        _check_names(obj, coef.shape, n_x_modes)


def _check_names(obj: Any, shape: tuple[int, ...], n_x_modes: int) -> None:
    """Raise unless components and labels, if there are any, are those of the coefficient."""
    if hasattr(obj, "cp_"):
        weights, factors = obj.cp_
        found = tuple(np.shape(factor) for factor in factors)
        if found != tuple((d, len(weights)) for d in shape):
            raise ValueError(f"its cp_ has factors of shapes {found}, which do not make a coef_ of shape {shape}")
    labels = getattr(obj, "labels_", None)
    if labels is None:
        return
    modes = labels.x + labels.y
    sizes = tuple(d if mode.labels is None else len(mode.labels) for mode, d in zip(modes, shape, strict=False))
    if len(labels.x) != n_x_modes or len(modes) != len(shape) or sizes != shape:
        raise ValueError(f"its labels_ are of another shape than coef_, {shape}")
