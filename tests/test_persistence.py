"""Files of models and statistics: the same to the last bit, and nothing else is ever accepted or run."""

import json
import os
import pickle
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.model_selection import GroupKFold, KFold, PredefinedSplit
from tensorly.cp_tensor import CPTensor

from dst2r import DST2R, DST2RCV, GramStatistics, baselines, load, make_tensor_regression, persistence, save
from dst2r.baselines import HOLRR, STORE, SURF, CPRidge, KernelHOLRR, SparseOLS, TensorEnvelope
from dst2r.cp import CPCoefficient
from dst2r.labels import Labels, Mode
from dst2r.search import SearchPath
from dst2r.selection import L1Path

DATA = make_tensor_regression(60, (4, 3), (3,), rank=2, noise=0.3, random_state=0)
VECTOR = DATA.X.reshape(60, -1)[:, :4]
LABELS = Labels(
    (Mode("gene", ("a", "b", "ç", "d")), Mode("tissue", (0.5, 1.0, 2.0))),
    (Mode("day", ("2020-01-01", "2020-01-02", "2020-01-03"), "datetime64[ns]"),),
    "patient",
)


def assert_same(a, b):
    """The same kinds with the same bits, however deep."""
    if isinstance(a, np.ndarray):
        assert isinstance(b, np.ndarray)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.flags.f_contiguous == b.flags.f_contiguous or not (a.flags.c_contiguous or a.flags.f_contiguous)
        assert a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()
    elif isinstance(a, CPTensor):
        assert_same(tuple(a), tuple(b))
    elif isinstance(a, list | tuple):
        assert type(a) is type(b)
        for one, other in zip(a, b, strict=True):
            assert_same(one, other)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        assert_same(list(a.values()), list(b.values()))
    elif isinstance(a, CPCoefficient | L1Path | SearchPath | GramStatistics):
        assert type(a) is type(b)
        for name in type(a).__dataclass_fields__:
            assert_same(getattr(a, name), getattr(b, name))
    elif isinstance(a, BaseEstimator):
        assert type(a) is type(b)
        assert_same(vars(a), vars(b))
    else:
        assert a == b


def cycle(obj, folder):
    save(obj, folder / "it.dst2r")
    return load(folder / "it.dst2r")


@pytest.mark.parametrize(
    "model",
    [
        DST2R(rank=2),
        DST2R(rank=2, l1=0.01, l2=0.1, standardize=True),
        DST2R(rank=2, correction="none"),
        DST2R(rank=np.int64(2), n_restarts=1, random_state=3),
        DST2RCV(ranks=range(1, 3), cv=3, n_l1=4),
        DST2RCV(ranks=(1, 2), cv=KFold(3, shuffle=True, random_state=1), n_l1=4, l2=[0.0, 0.1]),
        DST2RCV(ranks=[1], cv=list(KFold(3).split(DATA.X)), n_l1=4, rule="1se"),
        HOLRR(),
        KernelHOLRR(kernel="poly", kernel_params={"degree": 2}),
        SparseOLS(),
        CPRidge(rank=(1, 2), n_restarts=1, random_state=0),
    ],
    ids=repr,
)
def test_models_come_back_to_the_last_bit(model, tmp_path):
    model.fit(DATA.X, DATA.Y)
    again = cycle(model, tmp_path)
    for name in set(vars(model)) - {"cv"}:
        assert_same(getattr(model, name), getattr(again, name))
    assert_same(model.predict(DATA.X), again.predict(DATA.X))
    assert_same(model.predict(DATA.X.astype(np.float32)), again.predict(DATA.X.astype(np.float32)))
    if hasattr(model, "transform"):
        assert_same(model.transform(DATA.X), again.transform(DATA.X))
    assert_same(again.fit(DATA.X, DATA.Y).intercept_, model.intercept_)


def test_every_baseline_can_be_saved():
    assert set(baselines.__all__) <= set(persistence.MODELS)


@pytest.mark.parametrize("model", [STORE(rank=2), TensorEnvelope(dims=(1, 2)), TensorEnvelope()], ids=repr)
def test_models_of_vector_predictors_come_back(model, tmp_path):
    model.fit(VECTOR, DATA.X)
    assert_same(model, cycle(model, tmp_path))


@pytest.mark.parametrize("Y", [DATA.Y[:, 0], np.ones(60), DATA.Y[:, :1]], ids=["scalar", "constant", "one entry"])
def test_responses_of_all_shapes_come_back(Y, tmp_path):
    model = DST2R().fit(DATA.X, Y)
    assert_same(model, cycle(model, tmp_path))


def test_a_model_of_scalar_responses_comes_back(tmp_path):
    model = SURF(rank=3).fit(DATA.X, DATA.Y[:, 0])
    assert_same(model, cycle(model, tmp_path))


def test_splitters_come_back(tmp_path):
    groups = np.arange(60) % 4
    model = DST2RCV(ranks=(1,), cv=GroupKFold(4), n_l1=2).fit(DATA.X, DATA.Y, groups=groups)
    again = cycle(model, tmp_path)
    assert isinstance(again.cv, GroupKFold)
    assert vars(again.cv) == vars(model.cv)


def test_labels_and_feature_names_come_back(tmp_path):
    model = DST2R().fit(DATA.X, DATA.Y)
    model.labels_ = LABELS
    model.feature_names_in_ = np.array(["α", "b"], dtype=object)
    again = cycle(model, tmp_path)
    assert again.labels_ == LABELS
    assert_same(again.feature_names_in_, model.feature_names_in_)


def test_statistics_come_back(tmp_path):
    stats = GramStatistics.from_arrays(DATA.X, DATA.Y, np.arange(60.0))
    again = cycle(stats, tmp_path)
    assert_same(stats, again)
    assert_same(stats + stats, again + again)


def test_loaded_arrays_can_be_written_to(tmp_path):
    again = cycle(DST2R().fit(DATA.X, DATA.Y), tmp_path)
    again.coef_[...] = 0.0


def test_the_same_model_gives_the_same_file(tmp_path):
    for name in "ab":
        DST2R().fit(DATA.X, DATA.Y).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_any_unzip_and_numpy_read_the_file(tmp_path):
    model = DST2R().fit(DATA.X, DATA.Y)
    model.save(tmp_path / "it.dst2r")
    with np.load(tmp_path / "it.dst2r", allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["arrays/coef_"], model.coef_)
        np.testing.assert_array_equal(archive["arrays/path_.criterion"], model.path_.criterion)
    with zipfile.ZipFile(tmp_path / "it.dst2r") as file:
        assert json.loads(file.read("dst2r.json"))["schema"] == 1


def test_what_a_file_cannot_hold_is_named_and_nothing_is_written(tmp_path):
    path = tmp_path / "it.dst2r"
    model = DST2RCV(ranks=(1,), cv=PredefinedSplit(np.arange(60) % 3), n_l1=2).fit(DATA.X, DATA.Y)
    for obj, message in [
        (model, "^cv is PredefinedSplit.*set_params"),
        (DST2R(random_state=np.random.default_rng(0)).fit(DATA.X, DATA.Y), "^random_state is Generator"),
        (KernelHOLRR(kernel=np.dot), "not fitted"),
        (DST2R(), "not fitted"),
        ({"a": 1}, "this is a dict"),
    ]:
        with pytest.raises(TypeError, match=message):
            save(obj, path)
    assert list(tmp_path.iterdir()) == []
    model.set_params(cv=3).save(path)
    assert load(path).cv == 3


def test_an_existing_file_is_replaced_on_request_only(tmp_path):
    path = tmp_path / "it.dst2r"
    path.write_text("mine")
    model = DST2R().fit(DATA.X, DATA.Y)
    with pytest.raises(FileExistsError, match=r"it\.dst2r exists"):
        model.save(path)
    assert path.read_text() == "mine"
    model.save(path, overwrite=True)
    assert_same(load(path), model)
    assert [p.name for p in tmp_path.iterdir()] == ["it.dst2r"]


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "it.dst2r"
    path.write_text("mine")
    written = []

    def fill(stream, array, **_):
        written.append(stream.write(b"half"))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(persistence.npy, "write_array", fill)
    with pytest.raises(OSError, match=r"cannot be written \(No space left on device\).*it\.dst2r") as caught:
        DST2R().fit(DATA.X, DATA.Y).save(path, overwrite=True)
    assert caught.value.errno == 28
    assert written
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("it.dst2r", "mine")]


def test_a_folder_that_is_missing_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing"):
        DST2R().fit(DATA.X, DATA.Y).save(tmp_path / "missing" / "it.dst2r")
    with pytest.raises(FileNotFoundError, match=r"There is no file .*nothing\.dst2r"):
        load(tmp_path / "nothing.dst2r")


# Files that nobody should have made


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Bytes of a small file of a model."""
    path = tmp_path_factory.mktemp("good") / "it.dst2r"
    DST2R(correction="none").fit(DATA.X, DATA.Y[:, 0]).save(path)
    return path.read_bytes()


class Bomb:
    """Leaves a trace if it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("exploded",)


def edited(path, good, edit=None, members=None, **zip_options):
    """Write the good file again with another header, or with members replaced (None: left out)."""
    path.write_bytes(good)
    with zipfile.ZipFile(path) as file:
        content = {name: file.read(name) for name in file.namelist()}
    header = json.loads(content["dst2r.json"])
    if edit:
        edit(header)
        content["dst2r.json"] = json.dumps(header).encode()
    content |= members or {}
    with zipfile.ZipFile(path, "w", **zip_options) as file:
        for name, data in content.items():
            if data is not None:
                file.writestr(zipfile.ZipInfo(name), data, compress_type=zip_options.get("compression"))
    return path


def npy_bytes(array, **options):
    """An .npy file as bytes."""
    from io import BytesIO

    stream = BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def refused(path):
    """The message with which a file is refused."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        load(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert len(message.splitlines()) == 1
    return message


def test_parts_of_a_model_that_do_not_fit_together(tmp_path, good):
    one = npy_bytes(np.ones((5, 1)))
    assert "its cp_ has factors of shapes ((5, 1), (3, 1))" in refused(
        edited(tmp_path / "it", good, members={"arrays/cp_.cp_tensor.1.0.npy": one})
    )

    def label(*modes):
        content = {"sample": "s", "x": [{"$dict": m} for m in modes], "y": []}
        return lambda header: _set(header, {"$labels": {"$dict": content}}, *ROOT, "labels_")

    a, b = {"name": "a", "labels": list("wxyz")}, {"name": "b", "labels": list("xyz")}
    assert load(edited(tmp_path / "it", good, label(a, b))).labels_.x[1].name == "b"
    for modes in ((a,), (b, a), (a, b, b)):
        assert "labels_ are of another shape" in refused(edited(tmp_path / "it", good, label(*modes)))


def test_editing_alone_does_no_harm(tmp_path, good):
    assert load(edited(tmp_path / "it", good)).rank == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04", b"\x89PNG\r\n\x1a\n" * 9, pickle.dumps(Bomb()), npy_bytes(np.ones(3)), b"{}" * 50],
    ids=["empty", "zip magic", "png", "pickle", "npy", "text"],
)
def test_foreign_files(content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "it.dst2r"
    path.write_bytes(content)
    assert "is not a dst2r file, or is damaged" in refused(path)
    assert not Path("exploded").exists()


def test_foreign_zips(tmp_path):
    with zipfile.ZipFile(tmp_path / "it", "w") as file:
        file.writestr("word/document.xml", "<xml/>")
    assert "it is a zip file, but not of dst2r" in refused(tmp_path / "it")
    np.savez(tmp_path / "it.npz", X=np.ones(2))
    assert "it is a zip file, but not of dst2r" in refused(tmp_path / "it.npz")


def _set(header, value, *keys):
    for key in keys[:-1]:
        header = header[key]
    header[keys[-1]] = value


ROOT = ("object", "attributes")


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (["schema"], 2, "has schema 2, this version reads 1"),
        (["format"], "pickle", "is not of dst2r"),
        (["object"], 3, "it holds a int"),
        (["object", "$object"], "Popen", "asks for a 'Popen'"),
        (["object", "$object"], "os.system", "asks for a 'os.system'"),
        (["object", "$object"], ["DST2R"], "asks for a"),
        (["object", "$object"], "KFold", "it"),
        (["object", "parameters", "self"], 1, "multiple values"),
        (["object", "parameters", "shell"], 1, "unexpected keyword"),
        (["object", "parameters"], [], "it"),
        ([*ROOT, "predict"], "x", "no attribute 'predict' that could be set"),
        ([*ROOT, "__class__"], "x", "no attribute '__class__' that could be set"),
        ([*ROOT, "coef_"], {"$array": "arrays/none.npy"}, "'arrays/none.npy' is missing"),
        ([*ROOT, "coef_"], {"$array": "../../etc/passwd"}, "is missing"),
        ([*ROOT, "coef_"], {"$array": "dst2r.json"}, "is missing"),
        ([*ROOT, "coef_"], {"$array": ["x"]}, "it"),
        ([*ROOT, "coef_"], {"$call": "os.system"}, "is unknown"),
        ([*ROOT, "coef_"], {}, "is unknown"),
        ([*ROOT, "coef_"], [1.0, 2.0], "coef_ and intercept_ are not arrays"),
        ([*ROOT, "coef_"], {"$array": "arrays/intercept_.npy"}, "does not end in the intercept's"),
        ([*ROOT, "labels_"], {"$labels": {"$dict": {"sample": 1, "x": [], "y": []}}}, "expected a string"),
        ([*ROOT, "cp_", "parameters", "cp_tensor"], {"$tuple": [1]}, "it"),
    ],
)
def test_forged_headers(keys, value, message, tmp_path, good):
    path = edited(tmp_path / "it", good, lambda header: _set(header, value, *keys))
    assert message in refused(path)


def test_forged_text(tmp_path, good):
    for text in (b"[" * 100_000, b"{", b"\xff\xfe", b'{"format": NaN}', b"[" + b"9" * 5000 + b"]", b"null"):
        refused(edited(tmp_path / "it", good, members={"dst2r.json": text}))


def test_forged_arrays(tmp_path, good, monkeypatch):
    monkeypatch.chdir(tmp_path)
    real = npy_bytes(np.ones((4, 3)))
    shape = b"(4, 3), }" + b" " * 20
    forgeries = {
        "objects": (npy_bytes(np.array([Bomb()]), allow_pickle=True), "is not an array of numbers"),
        "pickle": (pickle.dumps(Bomb()), "is not an array of numbers"),
        "text": (npy_bytes(np.array(["a"])), "is not an array of numbers"),
        "record": (npy_bytes(np.zeros(2, dtype=[("a", "f8")])), "is not an array of numbers"),
        "complex": (npy_bytes(np.ones(2, complex)), "is not an array of numbers"),
        "huge": (real.replace(shape, b"(9999999999, 9999999), }".ljust(29)), "bytes and has 96"),
        "negative": (real.replace(shape, b"(-4, -3), }".ljust(29)), "is not an array of numbers"),
        "code": (real.replace(shape, b"(exit(), ), }".ljust(29)), "is not an array of numbers"),
        "short": (real[:-8], "needs 96 bytes and has 88"),
        "long": (real + b"x", "needs 96 bytes and has 97"),
        "odd": (real.replace(b"<f8", b"<f3"), "not understood"),
        "empty": (b"", "is not an array of numbers"),
    }
    for name, (data, message) in forgeries.items():
        path = edited(tmp_path / name, good, members={"arrays/coef_.npy": data})
        assert message in refused(path)
    assert not Path("exploded").exists()


@pytest.mark.parametrize("name", ["../it.npy", "/etc/it.npy", "arrays/../../it.npy", "run.py", "arrays/x.pkl"])
def test_members_elsewhere(name, tmp_path, good):
    assert "files that dst2r does not write" in refused(edited(tmp_path / "it", good, members={name: b"1"}))


def test_a_member_that_is_there_twice(tmp_path, good):
    path = tmp_path / "it"
    path.write_bytes(good)
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("dst2r.json", "{}")
    assert "files that dst2r does not write" in refused(path)


def test_zip_bombs(tmp_path, good):
    compressed = edited(
        tmp_path / "it", good, members={"arrays/zeros.npy": bytes(1 << 24)}, compression=zipfile.ZIP_DEFLATED
    )
    assert compressed.stat().st_size < 1 << 20
    assert "its members are compressed" in refused(compressed)
    # a size in the directory that is not there
    forged = edited(tmp_path / "liar", good)
    data = bytearray(forged.read_bytes())
    entry = data.index(b"PK\x01\x02")
    data[entry + 20 : entry + 28] = (1 << 30).to_bytes(4, "little") * 2
    forged.write_bytes(data)
    assert "claim to be larger than the file" in refused(forged)


def test_a_damaged_byte_or_end_is_never_a_traceback(tmp_path, good):
    path, rng, loaded = tmp_path / "it", random.Random(0), 0
    for k in range(300):
        data = bytearray(good)
        if k % 3:
            for _ in range(k % 3):
                data[rng.randrange(len(data))] = rng.randrange(256)
        else:
            del data[rng.randrange(len(data)) :]
        path.write_bytes(data)
        try:
            assert_same(load(path).coef_.shape, (4, 3))
            loaded += 1
        except ValueError as error:
            assert str(path) in str(error)  # noqa: PT017
    assert loaded < 30  # a date, or a byte that was replaced by itself


def test_every_damaged_byte_at_the_end_is_told_in_a_line(tmp_path, good):
    """There stand the places of the members: wrong ones lie before the file, or cite its bytes."""
    path = tmp_path / "it"
    for k in range(1, 200):
        data = bytearray(good)
        data[-k] ^= 0xFF
        path.write_bytes(data)
        try:
            load(path)
        except ValueError as error:
            assert str(path) in str(error)  # noqa: PT017
            assert len(str(error)) < 500  # noqa: PT017
    path.unlink()
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        load(path)


# Files of released versions, which load for ever

GOLDEN = Path(__file__).parent / "golden"
SCHEMAS = sorted(path.stem for path in GOLDEN.glob("schema*.json"))


def stored(expected, name):
    """An array that lies beside a golden file as text."""
    values = [float.fromhex(text) for text in expected[name]["hex"]]
    return np.array(values).reshape(expected[name]["shape"])


def test_there_are_golden_files_of_every_schema():
    assert [f"schema{k + 1}" for k in range(persistence.SCHEMA)] == SCHEMAS
    assert sum(path.stat().st_size for path in GOLDEN.iterdir()) < 100_000 * persistence.SCHEMA


@pytest.mark.parametrize("stem", SCHEMAS)
def test_golden_models(stem):
    expected = json.loads((GOLDEN / f"{stem}.json").read_text(encoding="utf-8"))
    model = load(GOLDEN / f"{stem}-model.dst2r")
    coef, intercept, X = (stored(expected, name) for name in ("coef_", "intercept_", "X"))
    np.testing.assert_array_equal(model.coef_, coef)
    np.testing.assert_array_equal(model.intercept_, intercept)
    np.testing.assert_array_equal(model.cv_results_["test_loss"], stored(expected, "test_loss"))
    predictions = np.einsum("nab,abc->nc", X, coef) + intercept
    np.testing.assert_allclose(model.predict(X), predictions, rtol=1e-12)
    np.testing.assert_allclose(stored(expected, "predictions"), predictions, rtol=1e-12)
    assert (model.rank_, model.l1_) == (expected["rank_"], float.fromhex(expected["l1_"]))
    modes = model.labels_.x + model.labels_.y
    assert [model.labels_.sample, *(mode.name for mode in modes)] == expected["dims"]
    assert [list(mode.labels) for mode in modes] == expected["labels"]


@pytest.mark.parametrize("stem", SCHEMAS)
def test_golden_statistics(stem):
    expected = json.loads((GOLDEN / f"{stem}.json").read_text(encoding="utf-8"))
    path = GOLDEN / f"{stem}-statistics.dst2r"
    stats = load(path)
    np.testing.assert_array_equal(stats.gram, stored(expected, "gram"))
    np.testing.assert_array_equal(stats.cross, stored(expected, "cross"))
    assert stats.n_samples == expected["n_samples"]
    assert [mode.name for mode in persistence.load_labels(path).x] == expected["dims"][1:3]
    assert persistence.file_facts(path)["schema"] == int(stem.removeprefix("schema"))


def test_labels_beside_statistics(tmp_path, good):
    stats = GramStatistics.from_arrays(DATA.X, DATA.Y)
    for labels in (LABELS, None):
        save(stats, tmp_path / "it", labels=labels, overwrite=True)
        assert persistence.load_labels(tmp_path / "it") == labels
        assert_same(load(tmp_path / "it"), stats)
    forged = edited(tmp_path / "forged", good, lambda header: _set(header, {"x": 1}, "labels"))
    with pytest.raises(ValueError, match="forged cannot be loaded: labels are stored as"):
        persistence.load_labels(forged)
