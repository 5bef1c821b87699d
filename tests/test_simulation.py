"""The simulated design against its definition, written out by loops."""

from functools import reduce

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tensorly import cp_to_tensor

from dst2r.simulation import make_tensor_regression

SHAPES = [((8, 8, 8), (4, 4, 4)), ((5, 4), (3,)), ((6,), (2, 3)), ((7,), ()), ((3, 4), ()), ((1, 5), (1,))]


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES)
@pytest.mark.parametrize("rank", [1, 3])
def test_coefficient_is_the_sum_of_outer_products(x_shape, y_shape, rank):
    data = make_tensor_regression(20, x_shape, y_shape, rank=rank, random_state=0)
    outer = [reduce(np.multiply.outer, [f[:, r] for f in data.factors]) for r in range(rank)]
    assert_allclose(data.coef, sum(outer), atol=1e-13)
    assert_allclose(cp_to_tensor(data.cp), data.coef, atol=1e-13)
    assert [f.shape for f in data.factors] == [(d, rank) for d in (*x_shape, *y_shape)]


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES)
def test_responses_follow_the_model(x_shape, y_shape):
    data = make_tensor_regression(30, x_shape, y_shape, noise=0.0, random_state=1)
    assert data.X.shape == (30, *x_shape)
    assert data.Y.shape == (30, *y_shape)
    assert data.X.dtype == data.Y.dtype == data.coef.dtype == np.float64
    assert_allclose(data.Y, np.tensordot(data.X, data.coef, axes=len(x_shape)), atol=1e-12)


@pytest.mark.parametrize(("noise", "sigma"), [(None, 1.0), (0.2, 0.2)])
def test_noise_is_white_with_the_stated_level(noise, sigma):
    data = make_tensor_regression(2000, (3, 4), (5, 2), noise=noise, random_state=2)
    E = (data.Y - np.tensordot(data.X, data.coef, axes=2)).reshape(2000, -1)
    assert data.noise == sigma
    # Five standard errors of a standard deviation, a mean and a correlation.
    assert abs(E.std() / sigma - 1) < 5 / np.sqrt(2 * E.size)
    assert abs(E.mean()) < 5 * sigma / np.sqrt(E.size)
    assert np.abs(np.corrcoef(E.T) - np.eye(10)).max() < 5 / np.sqrt(2000)


@pytest.mark.parametrize("snr", [0.1, 4.0])
def test_snr_is_realised(snr):
    data = make_tensor_regression(100, (4, 4), (3, 2), snr=snr, random_state=3)
    signal = np.tensordot(data.X, data.coef, axes=2)
    assert_allclose(np.mean((signal - signal.mean(axis=0)) ** 2) / data.noise**2, snr)


@pytest.mark.parametrize(
    ("sparsity", "zeros_of_8", "zeros_of_4", "zeros_of_1"),
    [(0.0, 0, 0, 0), (0.2, 2, 1, 0), (0.5, 4, 2, 0), (0.8, 6, 3, 0), (1.0, 7, 3, 0)],
)
@pytest.mark.parametrize("normalize", [False, True])
def test_number_of_zeros(sparsity, zeros_of_8, zeros_of_4, zeros_of_1, normalize):
    data = make_tensor_regression(5, (8,), (4, 1), rank=6, sparsity=sparsity, normalize=normalize, random_state=4)
    zeros = [(f == 0).sum(axis=0) for f in data.factors]
    assert_array_equal(zeros, np.outer([zeros_of_8, zeros_of_4, zeros_of_1], np.ones(6)))
    norms = [np.linalg.norm(f, axis=0) for f in data.factors]
    assert np.allclose(norms, 1) == normalize


def test_zeros_are_at_random_places():
    factor = make_tensor_regression(2, (8,), rank=4000, sparsity=0.25, random_state=5).factors[0]
    assert_allclose((factor == 0).mean(axis=1), 0.25, atol=5 * np.sqrt(0.25 * 0.75 / 4000))


def test_predictors():
    binary = make_tensor_regression(500, (4, 4), (2,), random_state=6).X
    assert_array_equal(np.unique(binary), [0.0, 1.0])
    assert abs(binary.mean() - 0.5) < 5 * 0.5 / np.sqrt(binary.size)
    normal = make_tensor_regression(500, (4, 4), (2,), x_distribution="normal", random_state=6).X
    assert abs(normal.mean()) < 5 / np.sqrt(normal.size)
    assert abs(normal.var() - 1) < 5 * np.sqrt(2 / normal.size)


@pytest.mark.parametrize("make_state", [int, np.random.default_rng, np.random.RandomState])
def test_random_state_decides_everything(make_state):
    first, second = (make_tensor_regression(10, (3,), (2,), random_state=make_state(7)) for _ in range(2))
    assert_array_equal(first.Y, second.Y)
    assert_array_equal(first.X, second.X)


@pytest.mark.parametrize("state", [np.random.default_rng(7), np.random.RandomState(7), None])
def test_a_used_random_state_gives_other_data(state):
    first, second = (make_tensor_regression(10, (3,), (2,), random_state=state) for _ in range(2))
    assert not np.array_equal(first.Y, second.Y)


def test_a_seed_fixes_the_coefficient_whatever_the_sample():
    few, many = (make_tensor_regression(n, noise=s, random_state=8) for n, s in [(10, 1.0), (20, 0.0)])
    assert_array_equal(few.coef, many.coef)
    quiet = make_tensor_regression(10, snr=3.0, random_state=8)
    assert_array_equal(few.X, quiet.X)


def test_integers_of_numpy_are_integers():
    data = make_tensor_regression(np.int64(4), np.array([3, 2]), [2], rank=np.int32(1), random_state=np.int64(0))
    assert data.coef.shape == (3, 2, 2)
    assert repr(data) == "TensorRegression(X=(4, 3, 2), Y=(4, 2), rank=1, noise=1)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, "n_samples must be an integer of at least 1, got 0"),
        ({"n_samples": 10.0}, "n_samples must be an integer of at least 1, got 10.0"),
        ({"rank": 0}, "rank must be an integer of at least 1, got 0"),
        ({"rank": True}, "rank must be an integer of at least 1, got True"),
        ({"x_shape": ()}, "x_shape must have at least one mode"),
        ({"x_shape": 8}, r"x_shape must be a tuple of mode sizes, got 8; one mode is \(size,\)"),
        ({"x_shape": (3, 0)}, "each size in x_shape must be an integer of at least 1, got 0"),
        ({"y_shape": (2.5,)}, "each size in y_shape must be an integer of at least 1, got 2.5"),
        ({"sparsity": 1.2}, "sparsity must be a share of zeros between 0 and 1, got 1.2"),
        ({"sparsity": 20}, "sparsity must be a share of zeros"),
        ({"sparsity": float("nan")}, "sparsity must be a share of zeros"),
        ({"noise": -1.0}, "noise must be a finite number of at least 0, got -1.0"),
        ({"noise": float("inf")}, "noise must be a finite number"),
        ({"noise": "auto"}, "noise must be a finite number of at least 0, got 'auto'"),
        ({"snr": 0}, "snr must be a finite number greater than 0, got 0"),
        ({"noise": 1.0, "snr": 2.0}, "both set the noise level; give one of them"),
        ({"n_samples": 1, "snr": 2.0}, "increase n_samples or give noise"),
        ({"normalize": "l2"}, r"normalize must be one of \(True, False\), got 'l2'"),
        ({"x_distribution": "uniform"}, "x_distribution must be one of .*'normal'.*, got 'uniform'"),
        ({"random_state": -1}, "random_state must be a seed"),
        ({"random_state": "seed"}, "random_state must be a seed .*, got 'seed'"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_tensor_regression(**arguments)
