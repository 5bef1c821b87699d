"""The report says what the model holds: its numbers are recomputed here, its page is parsed, its warnings provoked."""

import base64
import hashlib
import json
import re
import warnings
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
import xarray as xr
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import r2_score

from dst2r import DST2R, DST2RCV, make_tensor_regression
from dst2r.baselines import HOLRR, CPRidge
from dst2r.report import write_report
from dst2r.report.evidence import Choice, positions_of

HOSTILE = ("</script><script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "<!--", "&lt;b&gt; $title ${x}")


class Page(HTMLParser):
    """Elements, attributes and texts of a page."""

    def __init__(self, text):
        super().__init__()
        self.text, self.elements, self.texts, self._open = text, [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self._open.append(tag)

    def handle_endtag(self, tag):
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data):
        for tag in set(self._open):
            self.texts.setdefault(tag, []).append(data)

    @property
    def evidence(self):
        return json.loads(self.texts["script"][0])

    @property
    def words(self):
        return " ".join(self.texts["main"])

    def remarks(self):
        return self.texts.get("h4", [])


def page_of(model, *data, folder):
    path = write_report(model, folder / "report.html", *data)
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def data():
    return make_tensor_regression(300, (6, 5), (4,), rank=2, noise=0.3, random_state=0)


@pytest.fixture(scope="module")
def by_bic(data):
    return DST2R(2).fit(data.X, data.Y)


@pytest.fixture(scope="module")
def by_cv(data):
    return DST2RCV((1, 2, 3), n_l1=8, l2=[0.01, 0.1], rule="1se").fit(data.X, data.Y)


@pytest.fixture(scope="module")
def named():
    """A model of labelled arrays, one of them hostile, with modes of one entry."""
    data = make_tensor_regression(80, (4, 3, 1), (3, 2), rank=1, noise=0.3, random_state=3)
    names = ["person", "</title><b>gene", "time", "lab", "tissue", "side"]
    X = xr.DataArray(data.X, dims=names[:4], coords={names[1]: list(HOSTILE), "time": [0.5, 1.0, 1.5]})
    Y = xr.DataArray(data.Y, dims=["person", *names[4:]], coords={"tissue": ["liver", "heart", "skin"]})
    return DST2R().fit(X, Y), X, Y


def test_slider_holds_the_path(by_bic, by_cv, tmp_path):
    for model in (by_bic, by_cv):
        evidence = page_of(model, folder=tmp_path).evidence
        path, own = evidence["path"], evidence["path"]["reported"]
        assert path["l1"] == sorted(path["l1"])
        assert path["l1"][own] == model.l1_
        assert path["numbers"][own] == model.n_parameters_
        shape = model.coef_.shape
        for t, l1 in enumerate(path["l1"]):
            rebuilt = np.zeros(shape)
            for part in evidence["components"]:
                a, b, c = (np.array(mode["values"][t]) for mode in part["modes"])
                rebuilt += part["weights"][t] * np.einsum("i,j,k->ijk", a, b, c)
            truth = model.coef_
            if t != own:
                point = int(np.argmin(np.abs(model.path_.l1 - l1)))
                truth = model.path_.relaxed[point].to_tensor()
                assert path["numbers"][t] == model.path_.n_parameters[point]
            np.testing.assert_allclose(rebuilt, truth, atol=2e-3 * np.abs(model.coef_).max())


def test_components_keep_place_and_signs_along_the_path(by_bic, tmp_path):
    parts = page_of(by_bic, folder=tmp_path).evidence["components"]
    np.testing.assert_allclose([part["weights"][0] for part in parts], by_bic.cp_.weights, rtol=0.3)
    for part in parts:
        for mode in part["modes"]:
            values = [np.array(row) for row, weight in zip(mode["values"], part["weights"], strict=True) if weight]
            assert min(a @ b for a, b in pairwise(values)) > 0.7


def test_explained_is_that_of_the_predictions(data, by_bic, by_cv, tmp_path):
    for model in (by_bic, by_cv):  # the second has a ridge, which is no part of what is explained
        path = page_of(model, folder=tmp_path).evidence["path"]
        rest = np.sum((data.Y - model.predict(data.X)) ** 2)
        explained = 1 - rest / np.sum((data.Y - data.Y.mean(axis=0)) ** 2)
        np.testing.assert_allclose(path["explained"][path["reported"]], explained, rtol=1e-6)


def test_cross_validation_is_marked(by_cv, tmp_path):
    page = page_of(by_cv, folder=tmp_path)
    choice, found = page.evidence["choice"], by_cv.cv_results_
    mean = found["test_loss"].mean(axis=0)
    least = np.unravel_index(mean.argmin(), mean.shape)
    assert choice["least"] == [int(k) for k in least]
    excess = found["test_loss"] - found["test_loss"][:, least[0], least[1]][:, None, None]
    error = excess.std(axis=0, ddof=1) / np.sqrt(len(excess))
    size = np.where(excess.mean(axis=0) <= error, found["n_parameters"].mean(axis=0), np.inf)
    assert choice["within"] == choice["chosen"] == [int(k) for k in np.unravel_index(size.argmin(), size.shape)]
    shown = np.array(choice["mean"], dtype=float)
    usable = np.isfinite(mean)
    np.testing.assert_allclose(shown[usable], mean[usable], rtol=1e-3)
    assert np.isnan(shown[~usable]).all()
    assert f"rank {found['ranks'][choice['chosen'][0]]}, l1 = {by_cv.l1_:.3g}" in page.words
    assert "smallest model within one standard error" in page.words
    assert "from 0.01, 0.1" in page.words


def test_quality_is_that_of_the_data(data, by_bic, tmp_path):
    new = make_tensor_regression(100, (6, 5), (4,), rank=2, noise=0.3, random_state=5)
    for X, Y, training in ((data.X, data.Y, True), (new.X, new.Y, False)):
        page = page_of(by_bic, X, Y, folder=tmp_path)
        truth = r2_score(Y, by_bic.predict(X), multioutput="raw_values")
        entries = {entry["name"]: entry for entry in page.evidence["quality"]["entries"]}
        np.testing.assert_allclose([entries[str(j)]["r2"] for j in range(4)], truth, rtol=1e-3)
        cells = [re.sub("−", "-", text) for text in page.texts["td"]]
        assert {f"{value:.2f}" for value in truth} <= set(cells)
        predicted = by_bic.predict(X)
        points = np.array(entries["2"]["points"])
        pairs = np.column_stack([Y[:, 2], predicted[:, 2]])
        distance = np.abs(points[:, None] - pairs[None]).max(axis=2).min(axis=1)
        assert distance.max() < 1e-3 * np.abs(pairs).max()
        assert any("the data of the fit" in title for title in page.remarks()) == training


def test_labels_are_compared_and_put_in_order(named, tmp_path):
    model, X, Y = named
    straight = page_of(model, X, Y, folder=tmp_path).evidence["quality"]
    turned = page_of(model, X[..., ::-1, :], Y[:, ::-1].transpose("side", "person", "tissue"), folder=tmp_path)
    assert turned.evidence["quality"] == straight
    assert any(entry["name"] == "heart · 1" for entry in straight["entries"])
    with pytest.raises(ValueError, match="brain"):
        write_report(model, tmp_path / "x.html", X, Y.assign_coords(tissue=["liver", "brain", "skin"]))


def test_page_loads_nothing_and_runs_only_its_own_script(named, tmp_path):
    page = page_of(*named, folder=tmp_path)
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == 2
    assert tags.count("style") == 1
    assert not {"img", "iframe", "object", "embed", "base", "form", "b"} & set(tags)
    for tag, attributes in page.elements:
        assert not any(name.startswith("on") or name in ("src", "srcset", "style", "action") for name in attributes), (
            tag
        )
        assert attributes.get("href", "#")[0] == "#" or attributes["href"] == "data:,"
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    script, style = "".join(page.texts["script"][1:]), "".join(page.texts["style"])
    for text in (script, style):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy
    assert policy.startswith("default-src 'none'")
    assert "http" not in style
    assert set(re.findall(r"https?://[^\"']+", script)) == {"http://www.w3.org/2000/svg"}  # a name, never fetched


def test_hostile_labels_are_shown_as_they_are(named, tmp_path):
    page = page_of(*named, folder=tmp_path)
    assert page.evidence["components"][0]["modes"][0]["labels"] == list(HOSTILE)
    headers = [text for text in page.texts["th"] if text in HOSTILE]
    assert set(headers) >= set(HOSTILE)
    assert "</title><b>gene" in page.texts["title"][0]
    assert "0.5" in page.texts["th"]
    assert "(along “person”)" in page.words


def test_zeros_and_signs_are_visible(by_bic, tmp_path):
    page = page_of(by_bic, folder=tmp_path)
    factors = np.concatenate([factor.ravel() for factor in by_bic.cp_.factors])
    assert (factors == 0).any(), "the test needs zeros"
    assert page.texts["td"].count("○ 0") == np.count_nonzero(factors == 0)
    values = [text for text in page.texts["td"] if re.fullmatch(r"[+−]\d\.\d\d", text)]
    shown = sorted(float(text.replace("−", "-")) for text in values)
    np.testing.assert_allclose(shown, sorted(factors[np.abs(factors) >= 0.005]), atol=0.0051)


@pytest.mark.parametrize(
    ("x_shape", "y_shape"), [((64, 64), (8, 4)), ((100, 3), (100,)), ((3000,), ()), ((2,), (200, 100))]
)
def test_large_models_stay_small_and_say_what_is_left_out(x_shape, y_shape, tmp_path):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, *x_shape)), rng.normal(size=(40, *y_shape))
    small = make_tensor_regression(200, (4, 3), (3,), rank=2, noise=0.1, random_state=0)
    model = DST2R(2).fit(small.X, small.Y)
    assert model.rank_ == 2
    grown(model, x_shape, y_shape, rng)
    path = write_report(model, tmp_path / "report.html", X, Y)
    assert path.stat().st_size < 2e6
    page = Page(path.read_text(encoding="utf-8"))
    for r, part in enumerate(page.evidence["components"]):
        for mode, factor in zip(part["modes"], model.cp_.factors, strict=True):
            assert mode["nonzero"] == [np.count_nonzero(factor[:, r])]
            shown = np.array(mode["values"][0])
            assert np.count_nonzero(shown) + mode["hidden"][0] == mode["nonzero"][0]
            least = np.sort(np.abs(factor[:, r]))[-len(shown)]
            assert (np.abs(shown) >= least * 0.999).all(), "the largest are shown"
    if max(x_shape) > 400:
        assert f"the largest {len(shown)}" in page.words


def grown(model, x_shape, y_shape, rng):
    """Give a fitted model random components of another shape, half zeros, and no path."""
    factors = [rng.normal(size=(d, 2)) * (rng.random((d, 2)) < 0.5 if d > 9 else 1.0) for d in x_shape + y_shape]
    model.cp_.factors[:] = [factor / np.linalg.norm(factor, axis=0) for factor in factors]
    sides = [np.ones((1, 2)), np.ones((1, 2))]
    for k, factor in enumerate(model.cp_.factors):
        side = sides[k >= len(x_shape)]
        sides[k >= len(x_shape)] = (side[:, None] * factor).reshape(-1, 2)
    model.coef_ = ((sides[0] * model.cp_.weights) @ sides[1].T).reshape(x_shape + y_shape)
    model.intercept_ = np.zeros(y_shape)
    model.n_features_in_ = x_shape[0]
    model.path_, model.x_mean_ = None, np.zeros(int(np.prod(x_shape)))


def test_models_without_path_components_data_or_variation(data, tmp_path):
    page = page_of(DST2R(2, correction="none").fit(data.X, data.Y), folder=tmp_path)
    assert "no path to slide along" in page.words
    page = page_of(DST2R(1).fit(data.X, np.zeros_like(data.Y)), data.X, np.zeros_like(data.Y), folder=tmp_path)
    assert "The model is empty" in page.remarks()
    assert "does not vary" in page.words
    page = page_of(DST2R(1, l1=0.1).fit(data.X, data.Y[:, 0]), folder=tmp_path)
    assert "l1 = 0.1" in page.words
    assert "No data came with this report" in page.words


def test_unremarkable_fit_has_no_warning(data, tmp_path):
    new = make_tensor_regression(100, (6, 5), (4,), rank=2, noise=0.3, random_state=0)
    page = page_of(DST2R(2).fit(data.X, data.Y), new.X[:, ::1] + 0.01, new.Y, folder=tmp_path)
    assert page.remarks() == []
    assert "Nothing in this fit calls for a warning" in page.words


def titles(model, folder, *data):
    return " | ".join(page_of(model, *data, folder=folder).remarks())


def test_warnings_come_when_they_are_due(data, tmp_path):
    noise = np.random.default_rng(0).normal(size=data.Y.shape)
    with pytest.warns(ConvergenceWarning):
        model = DST2R(3, l1=0.0, max_iter=1, tol=1e-10).fit(data.X, noise)
    assert "stopped before it had settled" in titles(model, tmp_path)
    assert "4 components were asked for, 2 were kept" in titles(DST2R(4).fit(data.X, data.Y), tmp_path)
    assert "few samples" in titles(DST2R(1).fit(data.X[:20], data.Y[:20]), tmp_path)
    assert "response entries are predicted worse" in titles(DST2R(2).fit(data.X, data.Y), tmp_path, data.X, noise)


def test_warnings_of_cross_validation(data, tmp_path):
    found = titles(DST2RCV((1,), n_l1=4, cv=2).fit(data.X, data.Y), tmp_path)
    assert "only 2 folds" in found
    assert "largest rank" not in found, "a single rank was given, not chosen"
    assert "largest rank" in titles(DST2RCV((1, 2), n_l1=4).fit(data.X, data.Y), tmp_path)
    ridges = DST2RCV((2,), n_l1=4, l2=[0.5, 1.0]).fit(data.X, data.Y)
    assert "edge" in titles(ridges, tmp_path)
    assert "edge" not in titles(DST2RCV((2,), n_l1=4, l2=[0.0, 1.0]).fit(data.X, data.Y), tmp_path)


def test_errors_that_are_shown_are_those_of_the_rule(data):
    rng = np.random.default_rng(0)
    model = DST2RCV((1, 2, 3), n_l1=8, rule="1se").fit(data.X, data.Y)
    found = model.cv_results_
    shape = found["test_loss"].shape
    for _ in range(50):
        folds = rng.normal(size=(shape[0], 1, 1))
        found["test_loss"][:] = 5 + folds + rng.exponential(0.5, shape) + 9 * (rng.random(shape) < 0.05)
        found["n_parameters"][:] = rng.integers(1, 99, shape[1:])
        choice = Choice.of(model)
        close = choice.mean - choice.mean[choice.least] <= 1.05 * choice.error  # docs/maths.md, section 5
        assert found["n_parameters"].mean(axis=0)[choice.within] == found["n_parameters"].mean(axis=0)[close].min()


def test_lowest_loss_at_the_largest_rank_is_told_even_if_another_was_chosen(data, tmp_path):
    model = DST2RCV((1, 2, 3), n_l1=8, rule="1se").fit(data.X, data.Y)
    found = model.cv_results_["test_loss"]
    found[:, 2] = found[:, 1] - np.linspace(-0.01, 0.012, len(found))[:, None]  # better by less than a standard error
    model.cv_results_["n_parameters"][:, 2] = model.cv_results_["n_parameters"][:, 1] + 5
    assert model.best_rank_ == 2
    assert "The largest rank that was tried has the lowest test loss" in titles(model, tmp_path)


def test_more_entries_than_samples_and_a_fit_of_chance_are_told(tmp_path):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 12, 12)), rng.normal(size=(60, 2))
    Y[:, 0] += 3 * X[:, 1, 2]
    model = DST2R(2, l1=0.01).fit(X[:40], Y[:40])
    page = page_of(model, X[40:], Y[40:] - 10, folder=tmp_path)
    assert "The model does much worse on other data than on its own" in page.remarks()
    assert "do worse than its mean would" in page.words
    assert 'write_report(model, "report.html", other_X, other_Y)' in page.words
    wide = "There are more predictor entries than samples"
    assert wide in titles(DST2R().fit(X, Y), tmp_path)
    assert wide not in titles(DST2R(l1="ebic").fit(X, Y), tmp_path)
    assert wide not in titles(DST2R().fit(X[:, :4, :4], Y), tmp_path)


def test_table_of_many_modes_runs_down_the_page(tmp_path):
    data = make_tensor_regression(100, (4,), (4, 3, 2), rank=1, random_state=0)
    page = page_of(DST2R().fit(data.X, data.Y), data.X, data.Y, folder=tmp_path)
    assert "R² by Y mode 1 (rows) and Y mode 2 · Y mode 3 (columns)" in page.words
    data = make_tensor_regression(100, (4,), (4, 4, 4), rank=1, random_state=0)
    model = DST2R().fit(data.X, data.Y)
    page = page_of(model, data.X, data.Y, folder=tmp_path)
    assert "R² by Y mode 1 · Y mode 2 (rows) and Y mode 3 (columns)" in page.words
    table = page.text.split("R² by Y mode 1")[-1].split("</table>")[0]
    rows = re.findall(r'<tr><th scope="row">(\d) · (\d)</th>(.*?)</tr>', table)
    assert len(rows) == 16
    residual, spread = data.Y - model.predict(data.X), data.Y - data.Y.mean(axis=0)
    truth = 1 - (residual**2).sum(axis=0) / np.maximum((spread**2).sum(axis=0), 1e-300)
    for i, j, cells in rows:
        shown = re.findall(r">([^<>]+)</td>", cells)
        for value, text in zip(truth[int(i), int(j)], shown, strict=True):
            if text != "–":
                assert abs(float(text.replace("−", "-")) - value) < 0.006


def test_quality_of_one_long_mode_lies_down(tmp_path):
    data = make_tensor_regression(100, (4,), (70,), rank=1, random_state=0)
    page = page_of(DST2R().fit(data.X, data.Y), data.X, data.Y, folder=tmp_path)
    assert '<svg class="cells row" viewBox="0 0 70 1"' in page.text
    assert "From left to right: 0 to 69." in page.words


def test_components_that_cancel_are_named(by_bic, tmp_path):
    factors = [factor.copy() for factor in by_bic.cp_.factors]
    try:
        for k, factor in enumerate(by_bic.cp_.factors):
            factor[:, 1] = factor[:, 0] * (-1 if k == 2 else 1)
        assert "Components 1 and 2 nearly cancel" in titles(by_bic, tmp_path)
    finally:
        by_bic.cp_.factors[:] = factors
    assert "cancel" not in titles(by_bic, tmp_path)


def test_the_call_can_be_run_again(by_cv, tmp_path):
    (code,) = page_of(by_cv, folder=tmp_path).texts["code"]
    call = re.search(r"model = (DST2RCV\(.*\))\nmodel.fit", code, re.S).group(1)
    again = eval(call, {"DST2RCV": DST2RCV})  # of a text made two lines above
    assert again.get_params() == by_cv.get_params()


def test_points_of_no_use_are_left_out(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = DST2R(2).fit(data.X[:12], data.Y[:12])
    positions = positions_of(model)
    assert sum(position.reported for position in positions) == 1
    usable = np.isfinite(model.path_.criterion)
    assert not usable.all(), "the test needs points without a criterion"
    assert len(positions) <= usable.sum() + 1


def test_what_cannot_be_reported_is_named(data, by_bic, tmp_path):
    path = tmp_path / "report.html"
    with pytest.raises(NotFittedError):
        write_report(DST2R(), path)
    with pytest.raises(ValueError, match="DST2R or DST2RCV, not HOLRR"):
        write_report(HOLRR().fit(data.X, data.Y), path)
    with pytest.raises(ValueError, match="DST2R or DST2RCV, not CPRidge"):
        write_report(CPRidge(1).fit(data.X, data.Y), path)
    with pytest.raises(ValueError, match="Y was given without X"):
        write_report(by_bic, path, None, data.Y)
    with pytest.raises(ValueError, match="samples of X, in the same order"):
        write_report(by_bic, path, data.X, data.Y[:5])
    with pytest.raises(ValueError, match="two or more"):
        write_report(by_bic, path, data.X[:1], data.Y[:1])
    with pytest.raises(OSError, match="missing"):
        write_report(by_bic, tmp_path / "missing" / "report.html")
    assert not path.exists()
    path.write_text("older")
    write_report(by_bic, str(path))
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_command(by_cv, data, tmp_path):
    testing = pytest.importorskip("typer.testing")
    from dst2r.cli.app import app

    model, out = tmp_path / "model.dst2r", tmp_path / "new" / "page.html"
    by_cv.save(model)
    for name in ("X", "Y"):
        np.save(tmp_path / f"{name}.npy", getattr(data, name))

    def run(*args):
        return testing.CliRunner().invoke(app, ["report", *map(str, args)])

    result = run(model, "--data", tmp_path / "X.npy", tmp_path / "Y.npy", "-o", out, "--quiet")
    assert (result.exit_code, result.output) == (0, f"{out}\n")
    page = Page(out.read_text(encoding="utf-8"))
    assert page.evidence["quality"]["entries"]
    in_memory = page_of(by_cv, data.X, data.Y, folder=tmp_path)
    assert page.evidence == in_memory.evidence
    assert "exists" in run(model, "-o", out).output
    again = run(model, "-o", out, "--force", "--json")
    assert json.loads(again.output)["path"] == str(out)
    assert "no file" in run(tmp_path / "other.dst2r", "-o", tmp_path / "a.html").output
    failed = run(model, "--data", tmp_path / "X.npy", tmp_path / "X.npy", "-o", tmp_path / "a.html")
    assert failed.exit_code == 1
    assert len(failed.output.splitlines()) == 1
    assert not (tmp_path / "a.html").exists()
