"""The pictures show what they say: a bar for each non-zero entry, a point for each fit, a mark at the choice."""

import io
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest

from dst2r import DST2R, DST2RCV, make_tensor_regression
from dst2r.baselines import STORE, CPRidge, KernelHOLRR
from dst2r.labels import selected_entries
from dst2r.plotting import (
    CoefficientDisplay,
    ComponentsDisplay,
    CVDisplay,
    PredictionDisplay,
    RegularizationPathDisplay,
    ScoresDisplay,
    plot_summary,
)

mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    return make_tensor_regression(300, (6, 5), (4,), rank=2, noise=0.3, random_state=0)


@pytest.fixture(scope="module")
def by_bic(data):
    return DST2R(2).fit(data.X, data.Y)


@pytest.fixture(scope="module")
def by_cv(data):
    return DST2RCV((1, 2, 3), n_l1=8).fit(data.X, data.Y)


def saved(figure):
    """Drawing may fail where plotting did not."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=50)
    return len(buffer.getvalue())


def test_path_of_a_criterion(by_bic):
    display = RegularizationPathDisplay.from_estimator(by_bic)
    (line,) = display.lines_
    np.testing.assert_array_equal(line.get_xdata(), by_bic.path_.l1)
    np.testing.assert_allclose(np.diff(line.get_ydata()), np.diff(by_bic.path_.criterion), atol=1e-9)
    np.testing.assert_array_equal(display.size_line_.get_xdata(), by_bic.path_.l1)
    np.testing.assert_array_equal(display.size_line_.get_ydata(), by_bic.path_.n_parameters)
    assert display.chosen_.get_xdata() == [by_bic.l1_]
    assert display.chosen_.get_ydata() == [0.0]
    assert "BIC" in display.ax_.get_ylabel()
    assert saved(display.figure_)


def test_path_below_cross_validation_shows_the_loss(by_cv):
    display = RegularizationPathDisplay.from_estimator(by_cv)
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), by_cv.path_.loss)
    assert display.chosen_.get_xdata() == [by_cv.l1_]
    assert "loss" in display.ax_.get_ylabel()
    chosen = RegularizationPathDisplay.from_estimator(by_cv, values="criterion")
    assert np.argmin(chosen.lines_[0].get_ydata()) == np.argmin(by_cv.path_.criterion)


def test_path_along_the_weight(by_bic):
    display = RegularizationPathDisplay.from_estimator(by_bic, along="weight")
    drawn = display.lines_[0].get_xdata()
    assert (np.diff(drawn) <= 0.01 * drawn[0]).all(), "the weight falls as the penalty grows"
    assert drawn[-1] < 0.1 * drawn[0]
    # The l1 norm of a sum of rank-one tensors is at most the sum of theirs, with equality at rank one.
    one = DST2R(1, l1=0.0).fit(*_vectors())
    weights = RegularizationPathDisplay.from_estimator(one, along="weight").lines_[0].get_xdata()
    np.testing.assert_allclose(weights[0], np.abs(one.coef_).sum(), rtol=1e-4)
    assert "‖B‖" in display.ax_.get_xlabel()
    assert display.chosen_.get_xdata() == [drawn[np.flatnonzero(by_bic.path_.l1 == by_bic.l1_)[0]]]


def _vectors():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5)) * [1.0, 10.0, 0.1, 1.0, 1.0]
    return X, np.outer(X @ [1.0, -0.2, 8.0, 0.0, 0.5], [1.0, -2.0]) + 0.1 * rng.normal(size=(200, 2))


@pytest.mark.parametrize("standardize", [False, True])
def test_path_of_the_entries_begins_with_the_fit(standardize):
    model = DST2R(1, l1=0.0, standardize=standardize).fit(*_vectors())
    display = RegularizationPathDisplay.from_estimator(model, values="entries")
    starts = np.array([line.get_ydata()[0] for line in display.lines_])
    np.testing.assert_allclose(np.sort(starts), np.sort(model.coef_.ravel()), atol=1e-3)
    assert all(abs(line.get_ydata()[-1]) <= abs(line.get_ydata()[0]) + 1e-3 for line in display.lines_)
    dark = [np.mean(mpl.colors.to_rgb(line.get_color())) < 0.5 for line in display.lines_]
    np.testing.assert_array_equal(np.array(dark)[np.abs(starts) > 0.01], starts[np.abs(starts) > 0.01] > 0)
    assert saved(display.figure_)


def test_l1_axis_shows_zero_and_the_end(by_bic):
    ax = RegularizationPathDisplay.from_estimator(by_bic).ax_
    x = ax.transData.transform(np.column_stack([by_bic.path_.l1, np.ones(by_bic.path_.l1.size)]))[:, 0]
    left, right = ax.transAxes.transform([(0, 0), (1, 0)])[:, 0]
    assert (np.diff(x) > 1).all(), "points of the path must not lie on each other"
    assert left <= x[0]
    assert x[-1] <= right
    assert ax.get_xscale() == "symlog"
    assert RegularizationPathDisplay([0.1, 1.0], [1, 2], [3, 2], 0).plot().ax_.get_xscale() == "log"


def test_the_end_of_the_path_does_not_flatten_the_rest():
    values = [4.0, 3.0, 0.0, 2.0, 5.0, 1e6]
    display = RegularizationPathDisplay(np.geomspace(0.1, 1, 6), values, [5, 4, 3, 2, 1, 0], 2).plot()
    low, high = display.ax_.get_ylim()
    assert low < 0.0
    assert 4.0 < high < 1e5


def test_cross_validation_curves(by_cv):
    display = CVDisplay.from_estimator(by_cv)
    found = by_cv.cv_results_
    assert [line.get_label() for line in display.lines_] == ["rank 1", "rank 2", "rank 3"]
    drawn = np.where(np.isfinite(found["mean_test_loss"]), found["mean_test_loss"], np.nan)
    for line, losses in zip(display.lines_, drawn, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), found["l1"])
        np.testing.assert_allclose(line.get_ydata(), losses)
    assert display.least_.get_xdata() == [by_cv.l1_]
    np.testing.assert_allclose(display.least_.get_ydata(), found["mean_test_loss"].min())
    low, high = display.ax_.get_ylim()
    assert low < np.nanmin(drawn)
    assert (np.nanmin(drawn, axis=1) < high).all(), "the best of every rank is seen"
    widths = [line.get_linewidth() for line in display.lines_]
    assert np.argmax(widths) == by_cv.best_rank_ - 1
    assert saved(display.figure_)


def test_cross_validation_marks_both_rules(data, by_cv):
    careful = DST2RCV((1, 2, 3), n_l1=8, rule="1se").fit(data.X, data.Y)
    drawn = CVDisplay.from_estimator(careful)
    assert drawn.one_se_.get_xdata() == [careful.l1_]
    assert drawn.least_.get_xdata() == [by_cv.l1_]
    assert drawn.one_se_.get_markerfacecolor() != "none"
    assert drawn.least_.get_markerfacecolor() == "none"
    assert CVDisplay.from_estimator(by_cv).least_.get_markerfacecolor() != "none"


def test_cross_validation_of_the_rank_alone(data):
    model = DST2RCV((1, 2, 3), n_l1=1).fit(data.X, data.Y)
    display = CVDisplay.from_estimator(model)
    (line,) = display.lines_
    np.testing.assert_array_equal(line.get_xdata(), [1, 2, 3])
    np.testing.assert_allclose(line.get_ydata(), model.cv_results_["mean_test_loss"][:, 0])
    assert display.least_.get_xdata() == [model.best_rank_]


def test_components_have_a_bar_for_each_entry_that_is_not_zero(by_bic):
    display = ComponentsDisplay.from_estimator(by_bic)
    assert len(display.axes_) == 3
    assert any((factor == 0).any() for factor in by_bic.cp_.factors), "the test needs zeros"
    for ax, bars, factor in zip(display.axes_, display.bars_, by_bic.cp_.factors, strict=True):
        component, entry = np.nonzero(factor.T)
        assert len(bars) == np.count_nonzero(factor)
        foot = np.array([bar.get_y() for bar in bars])
        tip = foot + [bar.get_height() for bar in bars]
        np.testing.assert_array_equal(foot, component)
        np.testing.assert_allclose([bar.get_x() + bar.get_width() / 2 for bar in bars], entry)
        up = ax.transData.transform(np.column_stack([entry, tip])) - ax.transData.transform(
            np.column_stack([entry, foot])
        )
        np.testing.assert_array_equal(np.sign(up[:, 1]), np.sign(factor[entry, component]))
        largest = np.abs(factor).max(axis=0)[component]
        np.testing.assert_allclose(np.abs(tip - foot), 0.45 * np.abs(factor[entry, component]) / largest)


def test_components_carry_names(by_bic):
    labels = [list("abcdef"), [f"time {k}" for k in range(5)], list("wxyz")]
    display = ComponentsDisplay.from_estimator(by_bic, labels=labels, mode_names=["place", "time", "gene"])
    assert [ax.get_title() for ax in display.axes_] == ["place", "time", "gene"]
    for ax, names in zip(display.axes_, labels, strict=True):
        assert [text.get_text() for text in ax.get_xticklabels()] == names
    rows = [text.get_text() for text in display.axes_[0].get_yticklabels()]
    assert [row.split()[0] for row in rows] == ["1", "2"]
    plain = ComponentsDisplay.from_estimator(by_bic)
    assert [ax.get_title() for ax in plain.axes_] == ["X mode 1", "X mode 2", "Y mode 1"]


def test_long_modes_name_some_entries_only():
    factors = [np.ones((100, 1)), np.ones((3, 1))]
    display = ComponentsDisplay([1.0], factors, 1, labels=[[f"voxel {k}" for k in range(100)], list("abc")]).plot()
    names = [text.get_text() for text in display.axes_[0].get_xticklabels()]
    assert names == [f"voxel {k}" for k in range(0, 100, int(names[1].split()[1]))]
    assert len(names) > 10
    assert len(display.bars_[0]) == 100


def test_long_modes_without_an_order_name_their_largest_entries():
    factor = np.zeros((100, 1))
    factor[[3, 4, 50, 97], 0] = [0.1, 0.9, -0.4, 0.2]
    texts = [[f"gene {k}" for k in range(100)], list("abc")]
    factors = [factor, np.ones((3, 1))]
    display = ComponentsDisplay([1.0], factors, 1, labels=texts, ordered=[False, False]).plot()
    names = {text.get_text() for text in display.axes_[0].get_xticklabels()}
    assert names == {"gene 4", "gene 50", "gene 97"}, "gene 3 would run into gene 4"


@pytest.fixture(scope="module")
def named(data):
    xr = pytest.importorskip("xarray")
    hours = [0.0, 6.0, 12.0, 18.0, 24.0]
    X = xr.DataArray(data.X, dims=("n", "place", "hour"), coords={"place": list("abcdef"), "hour": hours})
    Y = xr.DataArray(data.Y, dims=("n", "gene"), coords={"gene": ["TP53", "MYC", "a very long name of a gene", "KRAS"]})
    return DST2R(2).fit(X, Y), X, Y


def test_names_come_from_labelled_arrays(named):
    display = ComponentsDisplay.from_estimator(named[0])
    assert [ax.get_title() for ax in display.axes_] == ["place", "hour", "gene"]
    ticks = [[text.get_text() for text in ax.get_xticklabels()] for ax in display.axes_]
    assert ticks == [list("abcdef"), ["0", "12", "24"], ["TP53", "MYC", "a very lo…f a gene", "KRAS"]]
    slices = CoefficientDisplay.from_estimator(named[0])
    titles = [ax.get_title() for ax in slices.axes_]
    assert set(titles) <= {"TP53", "MYC", "a very lo…f a gene", "KRAS"}
    assert len(set(titles)) == len(titles)
    figure = slices.figure_
    assert (figure.get_supylabel(), figure.get_supxlabel(), figure.get_suptitle()) == ("place", "hour", "by gene")
    given = CoefficientDisplay.from_estimator(named[0], ax=plt.subplots(1, 2)[1])
    assert [ax.get_title() for ax in given.axes_] == [f"gene {title}" for title in titles[:2]]
    assert given.axes_[1].get_ylabel() == "place"


def test_panels_go_to_the_next_row_at_the_responses():
    factors = [np.ones((20, 1)), np.ones((10, 1)), np.ones((6, 1)), np.ones((5, 1))]
    display = ComponentsDisplay([1.0], factors, 2).plot()
    rows = [ax.get_subplotspec().get_topmost_subplotspec().rowspan.start for ax in display.axes_]
    assert rows == [0, 1, 2, 2]
    assert display.figure_.get_size_inches()[0] <= 4
    named_rows = [ax for ax in display.axes_ if ax.get_ylabel()]
    assert named_rows == [display.axes_[0], display.axes_[1], display.axes_[2]]


def test_coefficient_slices_show_the_coefficient(by_bic):
    display = CoefficientDisplay.from_estimator(by_bic, modes=(0, 2), n_slices=4)
    norms = np.linalg.norm(by_bic.coef_, axis=(0, 2))
    order = [at[0] for at in display.slices_]
    assert order == [int(k) for k in np.argsort(-norms) if norms[k] > 0][:4]
    for image, at, ax in zip(display.images_, order, display.axes_, strict=True):
        values = by_bic.coef_[:, at, :]
        np.testing.assert_array_equal(image.get_array().filled(0.0), values)
        np.testing.assert_array_equal(np.ma.getmaskarray(image.get_array()), values == 0)
        dots = ax.collections[0].get_offsets()
        assert {tuple(dot) for dot in dots} == {(j, i) for i, j in np.argwhere(values < 0)}
    limits = {image.get_clim() for image in display.images_}
    assert limits == {(-np.abs(by_bic.coef_).max(), np.abs(by_bic.coef_).max())}
    assert saved(display.figure_)


GENES = [f"ENSG{100000 + 37 * k}" for k in range(100)]
SHAPES = {
    "scalar response": ((8, 6), (), None),
    "3-D to 3-D": ((8, 8, 8), (4, 4, 4), None),
    "vector to matrix": ((9,), (12, 7), None),
    "100 labels": ((100, 4), (100,), [GENES, ["liver", "whole blood", "cortex", "lung"], GENES[::-1]]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_no_words_run_into_each_other_at_four_inches(shape):
    x_shape, y_shape, labels = SHAPES[shape]
    data = make_tensor_regression(100, x_shape, y_shape, rank=2, sparsity=0.5, random_state=1)
    model = DST2R(2, l1=0.0)  # the truth stands in for a fit
    model.coef_, model.intercept_, (weights, factors) = data.coef, np.zeros(y_shape), data.cp
    norms = [np.linalg.norm(factor, axis=0) for factor in factors]
    scaled = [factor / norm for factor, norm in zip(factors, norms, strict=True)]
    model.cp_ = weights * np.prod(norms, axis=0), scaled
    for kind in (ComponentsDisplay, CoefficientDisplay):
        figure = kind.from_estimator(model, labels=labels).figure_
        assert figure.get_size_inches()[0] <= 4
        figure.draw_without_rendering()
        texts = [text for text in figure.findobj(mpl.text.Text) if text.get_text() and text.get_visible()]
        texts = [text for text in texts if not (text.axes and any(t.label1 is text for t in _hidden_ticks(text.axes)))]
        boxes = [text.get_window_extent() for text in texts]
        for k, box in enumerate(boxes):
            clashes = [t.get_text() for t, other in zip(texts[:k], boxes[:k], strict=True) if _overlap(box, other)]
            assert not clashes, f"{texts[k].get_text()!r} overlaps {clashes}"
            inside = figure.bbox
            assert box.x0 >= inside.x0 - 1, texts[k].get_text()
            assert box.x1 <= inside.x1 + 1, texts[k].get_text()
            assert box.y0 >= inside.y0 - 1, texts[k].get_text()
            assert box.y1 <= inside.y1 + 1, texts[k].get_text()


def _hidden_ticks(ax):
    return [tick for axis in (ax.xaxis, ax.yaxis) for tick in axis.get_major_ticks() if not tick.label1.get_visible()]


def _overlap(box, other):
    """By more than a pixel in both directions."""
    return min(box.x1, other.x1) - max(box.x0, other.x0) > 1 and min(box.y1, other.y1) - max(box.y0, other.y0) > 1


def test_signs_differ_in_grey(by_bic):
    image = CoefficientDisplay.from_estimator(by_bic).images_[0]

    def grey(values):
        return image.cmap(image.norm(values))[:, :3] @ [0.299, 0.587, 0.114]

    peak = image.get_clim()[1]
    assert grey([peak])[0] < grey([-peak])[0] - 0.3
    assert (np.diff(grey(np.linspace(1e-3 * peak, peak, 9))) < 0).all(), "more is darker"
    assert grey([1e-6 * peak])[0] < 0.95, "the smallest of entries is not white"


@pytest.mark.parametrize(
    ("x_shape", "y_shape", "modes"),
    [((5, 7), (), (0, 1)), ((3, 5, 4), (6,), (1, 2)), ((6,), (4, 5), (0, 2)), ((6,), (9,), (0, 1)), ((6,), (), (0, 1))],
)
def test_coefficient_of_every_shape(x_shape, y_shape, modes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, *x_shape))
    Y = np.multiply.outer(X.reshape(60, -1)[:, 0], np.ones(y_shape))
    display = CoefficientDisplay.from_estimator(DST2R().fit(X, Y))
    assert display.modes == modes
    assert saved(display.figure_)
    assert saved(CoefficientDisplay.from_estimator(DST2R().fit(X, np.zeros_like(Y))).figure_)


def test_predictions(data, by_bic, named):
    display = PredictionDisplay.from_estimator(by_bic, data.X[:50], data.Y[:50])
    points = display.points_.get_offsets()
    np.testing.assert_allclose(points[:, 0], by_bic.predict(data.X[:50]).ravel())
    np.testing.assert_allclose(points[:, 1], data.Y[:50].ravel())
    assert display.ax_.get_xlabel() == "predicted"
    assert f"{by_bic.score(data.X[:50], data.Y[:50]):.2f} (mean of 4 entries)" in display.ax_.texts[0].get_text()
    residual, spread = data.Y[:50] - by_bic.predict(data.X[:50]), data.Y[:50] - data.Y[:50].mean(axis=0)
    pooled = 1 - (residual**2).sum() / (spread**2).sum()
    assert f"{pooled:.2f} (all together)" in display.ax_.texts[0].get_text()
    many = PredictionDisplay.from_estimator(by_bic, np.tile(data.X, (5, 1, 1)), np.tile(data.Y, (5, 1)))
    assert many.points_.get_array().sum() == 5 * data.Y.size, "hexagons count every entry"
    assert saved(many.figure_)
    one = PredictionDisplay.from_estimator(by_bic, data.X, data.Y, entry=(2,))
    np.testing.assert_allclose(one.points_.get_offsets()[:, 1], data.Y[:, 2])
    model, X, Y = named
    turned = PredictionDisplay.from_estimator(model, X[:50], Y[:50].T[::-1])
    np.testing.assert_allclose(turned.points_.get_offsets()[:, 1], data.Y[:50].ravel())
    with pytest.raises(ValueError, match=r"entry is \(1, 2\); expected .* of shape \(4,\)"):
        PredictionDisplay.from_estimator(by_bic, data.X, data.Y, entry=(1, 2))


def test_scores(data, by_bic):
    scores = by_bic.transform(data.X)
    display = ScoresDisplay.from_estimator(by_bic, data.X)
    np.testing.assert_allclose(display.points_[0].get_offsets(), scores)
    assert "component 2" in display.ax_.get_ylabel()
    other = ScoresDisplay.from_estimator(by_bic, data.X, components=(2,), by=data.Y[:, 0], by_name="response")
    np.testing.assert_allclose(other.points_[0].get_offsets()[:, 1], scores[:, 1])
    np.testing.assert_allclose(other.points_[0].get_array(), data.Y[:, 0])
    groups = np.array(["case", "control"])[np.arange(300) % 2]
    grouped = ScoresDisplay.from_estimator(by_bic, data.X, by=groups)
    np.testing.assert_allclose(grouped.points_[1].get_offsets(), scores[1::2])
    shapes = {tuple(map(tuple, points.get_paths()[0].vertices)) for points in grouped.points_}
    assert len(shapes) == 2, "groups differ in shape, not in colour alone"
    assert all(map(saved, (display.figure_, other.figure_, grouped.figure_)))


def test_other_methods_show_what_they_have(data):
    ridge = CPRidge(1).fit(data.X, data.Y)
    assert len(ComponentsDisplay.from_estimator(ridge).axes_) == 3
    assert plot_summary(ridge).get_size_inches()[1] < plot_summary(DST2R().fit(data.X, data.Y)).get_size_inches()[1] - 2
    store = STORE(1).fit(data.X, data.Y)
    for show in (ComponentsDisplay.from_estimator, plot_summary, selected_entries):
        with pytest.raises(ValueError, match=r"components of STORE have 2 modes, its coefficient 3: .*X.reshape"):
            show(store)
    assert saved(ComponentsDisplay.from_estimator(STORE(1).fit(data.X.reshape(300, -1), data.Y)).figure_)
    kernel = KernelHOLRR().fit(data.X[:50], data.Y[:50])
    drawn = PredictionDisplay.from_estimator(kernel, data.X[50:90], data.Y[50:90], entry=(1,))
    np.testing.assert_allclose(drawn.points_.get_offsets()[:, 0], kernel.predict(data.X[50:90])[:, 1])
    for method in (ridge, store, kernel):
        with pytest.raises(ValueError, match="has no joint path in l1: give a DST2R"):
            RegularizationPathDisplay.from_estimator(method)
        with pytest.raises(ValueError, match="has no transform"):
            ScoresDisplay.from_estimator(method, data.X)
        with pytest.raises(ValueError, match="has no cv_results_"):
            CVDisplay.from_estimator(method)


def test_axes_that_are_given_are_used(by_cv):
    figure, axes = plt.subplots(2, 3)
    assert RegularizationPathDisplay.from_estimator(by_cv, ax=axes[0, 0]).ax_ is axes[0, 0]
    assert CVDisplay.from_estimator(by_cv, ax=axes[0, 1]).figure_ is figure
    display = ComponentsDisplay.from_estimator(by_cv, ax=axes[1])
    assert display.axes_ == list(axes[1])
    assert plt.get_fignums() == [figure.number]


@pytest.mark.parametrize(("x_shape", "y_shape"), [((4, 3), ()), ((5, 4, 3), (3, 2)), ((6,), (5, 4)), ((40,), (30,))])
def test_summary_of_every_shape(x_shape, y_shape):
    data = make_tensor_regression(300, x_shape, y_shape, rank=1, noise=0.3, random_state=0)
    figure = plot_summary(DST2RCV((1,), n_l1=5).fit(data.X, data.Y), title="all of it")
    assert saved(figure)
    assert not plt.get_fignums(), "the figure belongs to no window"


def test_summary_without_cross_validation_without_path_and_without_components(data, by_bic):
    assert saved(plot_summary(by_bic))
    assert saved(plot_summary(DST2R(2, correction="none").fit(data.X, data.Y)))
    assert saved(plot_summary(DST2R(1).fit(data.X, np.zeros_like(data.Y))))


def test_displays_of_a_model_without_components(data):
    empty = DST2R(1).fit(data.X, np.zeros_like(data.Y))
    assert saved(ComponentsDisplay.from_estimator(empty).figure_)
    assert saved(PredictionDisplay.from_estimator(empty, data.X, data.Y).figure_)
    with pytest.raises(ValueError, match="no components"):
        ScoresDisplay.from_estimator(empty, data.X)


def test_what_cannot_be_drawn_is_named(data, by_bic):
    with pytest.raises(ValueError, match="DST2R has no cv_results_"):
        CVDisplay.from_estimator(by_bic)
    with pytest.raises(ValueError, match="fit it first"):
        ComponentsDisplay.from_estimator(DST2R())
    with pytest.raises(ValueError, match="correction='full'"):
        RegularizationPathDisplay.from_estimator(DST2R(correction="none").fit(data.X, data.Y))
    with pytest.raises(ValueError, match=r"labels name \[2, 5, 4\] entries, the modes have \[6, 5, 4\]"):
        ComponentsDisplay.from_estimator(by_bic, labels=["ab", "abcde", "abcd"])
    with pytest.raises(ValueError, match="mode_names holds 1"):
        ComponentsDisplay.from_estimator(by_bic, mode_names=["place"])
    with pytest.raises(ValueError, match="values is 'weights'"):
        RegularizationPathDisplay.from_estimator(by_bic, values="weights")
    with pytest.raises(ValueError, match="along is 'rank'"):
        RegularizationPathDisplay.from_estimator(by_bic, along="rank")
    for modes in [(0, 0), (0, 3), (0,), (1, -2)]:
        with pytest.raises(ValueError, match="two different modes of the 3"):
            CoefficientDisplay.from_estimator(by_bic, modes=modes)
    with pytest.raises(ValueError, match=r"components is \(1, 3\); expected one or two numbers from 1 to 2"):
        ScoresDisplay.from_estimator(by_bic, data.X, components=(1, 3))
    with pytest.raises(ValueError, match=r"by has shape \(3,\)"):
        ScoresDisplay.from_estimator(by_bic, data.X, by=[1, 2, 3])
    with pytest.raises(ValueError, match="ax holds 1 Axes; the model has 3 modes"):
        ComponentsDisplay.from_estimator(by_bic, ax=[plt.subplots()[1]])


def test_without_matplotlib_the_remedy_is_named(by_bic, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "dst2r\[plot\]"'):
        ComponentsDisplay.from_estimator(by_bic)


def test_import_does_not_load_matplotlib():
    code = "import dst2r.plotting, sys; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
