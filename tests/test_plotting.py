"""The pictures show what they say: a bar for each non-zero entry, a point for each fit, a mark at the choice."""

import io
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest

from dst2r import DST2R, DST2RCV, make_tensor_regression
from dst2r.plotting import ComponentsDisplay, CVDisplay, RegularizationPathDisplay, plot_summary

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
    np.testing.assert_array_equal(display.line_.get_xdata(), by_bic.path_.l1)
    np.testing.assert_array_equal(display.line_.get_ydata(), by_bic.path_.criterion)
    np.testing.assert_array_equal(display.size_line_.get_xdata(), by_bic.path_.l1)
    np.testing.assert_array_equal(display.size_line_.get_ydata(), by_bic.path_.n_parameters)
    assert display.chosen_.get_xdata() == [by_bic.l1_]
    assert display.chosen_.get_ydata() == [by_bic.path_.criterion.min()]
    assert "BIC" in display.ax_.get_ylabel()
    assert saved(display.figure_)


def test_path_below_cross_validation_shows_the_loss(by_cv):
    display = RegularizationPathDisplay.from_estimator(by_cv)
    np.testing.assert_array_equal(display.line_.get_ydata(), by_cv.path_.loss)
    assert display.chosen_.get_xdata() == [by_cv.l1_]
    assert "loss" in display.ax_.get_ylabel()
    chosen = RegularizationPathDisplay.from_estimator(by_cv, values="criterion")
    np.testing.assert_array_equal(chosen.line_.get_ydata(), by_cv.path_.criterion)


def test_l1_axis_shows_zero_and_the_end(by_bic):
    ax = RegularizationPathDisplay.from_estimator(by_bic).ax_
    x = ax.transData.transform(np.column_stack([by_bic.path_.l1, np.ones(by_bic.path_.l1.size)]))[:, 0]
    left, right = ax.transAxes.transform([(0, 0), (1, 0)])[:, 0]
    assert (np.diff(x) > 1).all(), "points of the path must not lie on each other"
    assert left <= x[0]
    assert x[-1] <= right
    assert ax.get_xscale() == "symlog"
    assert RegularizationPathDisplay([0.1, 1.0], [1, 2], [3, 2], 0.1).plot().ax_.get_xscale() == "log"


def test_cross_validation_curves(by_cv):
    display = CVDisplay.from_estimator(by_cv)
    found = by_cv.cv_results_
    assert [line.get_label() for line in display.lines_] == ["1", "2", "3"]
    drawn = np.where(np.isfinite(found["mean_test_loss"]), found["mean_test_loss"], np.nan)
    for line, losses in zip(display.lines_, drawn, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), found["l1"])
        np.testing.assert_allclose(line.get_ydata(), losses)
    assert display.chosen_.get_xdata() == [by_cv.l1_]
    np.testing.assert_allclose(display.chosen_.get_ydata(), found["mean_test_loss"].min())
    widths = [line.get_linewidth() for line in display.lines_]
    assert np.argmax(widths) == by_cv.best_rank_ - 1
    assert saved(display.figure_)


def test_cross_validation_of_the_rank_alone(data):
    model = DST2RCV((1, 2, 3), n_l1=1).fit(data.X, data.Y)
    display = CVDisplay.from_estimator(model)
    (line,) = display.lines_
    np.testing.assert_array_equal(line.get_xdata(), [1, 2, 3])
    np.testing.assert_allclose(line.get_ydata(), model.cv_results_["mean_test_loss"][:, 0])
    assert display.chosen_.get_xdata() == [model.best_rank_]


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
    assert names == [f"voxel {k}" for k in range(0, 100, 4)]
    assert len(display.bars_[0]) == 100


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
    with pytest.raises(ValueError, match="ax holds 1 Axes; the model has 3 modes"):
        ComponentsDisplay.from_estimator(by_bic, ax=[plt.subplots()[1]])


def test_without_matplotlib_the_remedy_is_named(by_bic, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "dst2r\[plot\]"'):
        ComponentsDisplay.from_estimator(by_bic)


def test_import_does_not_load_matplotlib():
    code = "import dst2r.plotting, sys; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
