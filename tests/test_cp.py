"""The CP model against outer products written out one by one, and against TensorLy."""

import math
from itertools import product

import naive
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tensorly import cp_to_tensor

from dst2r.cp import CPCoefficient, contract_all_but_one, khatri_rao, max_rank

SHAPES = [((4,), ()), ((3,), (2,)), ((4, 3, 2), (3, 2)), ((1, 5), (1,)), ((2, 3), ()), ((1,), (1, 1)), ((2, 6), (4,))]
RANKS = [1, 3]


def coefficient(x_shape, y_shape, rank, seed=0, zeros=0.0):
    rng = np.random.default_rng(seed)
    shape = x_shape + y_shape
    factors = [rng.normal(size=(d, rank)) * (rng.random((d, rank)) >= zeros) for d in shape]
    return CPCoefficient(tuple(factors), len(x_shape))


@pytest.mark.parametrize("sizes", [(3,), (3, 2), (2, 1, 4), (5, 2, 3)])
@pytest.mark.parametrize("rank", RANKS)
def test_khatri_rao(sizes, rank):
    rng = np.random.default_rng(1)
    matrices = [rng.normal(size=(d, rank)) for d in sizes]
    expected = np.empty((math.prod(sizes), rank))
    for row, index in enumerate(product(*(range(d) for d in sizes))):  # the last index runs fastest: C order
        for r in range(rank):
            expected[row, r] = math.prod(m[i, r] for m, i in zip(matrices, index, strict=True))
    assert_allclose(khatri_rao(matrices, rank), expected, rtol=1e-14)
    assert_allclose(khatri_rao(iter(matrices), rank), expected, rtol=1e-14)


def test_khatri_rao_of_nothing_is_a_row_of_ones():
    assert_array_equal(khatri_rao([], 3), np.ones((1, 3)))


@pytest.mark.parametrize("sizes", [(4,), (3, 2), (2, 5), (1, 3), (2, 3, 4), (4, 3, 2), (2, 1, 3, 2)])
@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("m", [1, 4])
def test_contract_all_but_one(sizes, rank, m):
    rng = np.random.default_rng(2)
    A, factors = rng.normal(size=(math.prod(sizes), m)), [rng.normal(size=(d, rank)) for d in sizes]
    rows = []
    for k, d in enumerate(sizes):
        for i in range(d):
            for r in range(rank):
                vectors = [np.eye(d)[i] if mode == k else f[:, r] for mode, f in enumerate(factors)]
                rows.append(naive.outer(vectors).ravel() @ A)
    for layout in (A, np.asfortranarray(A), np.repeat(A, 2, axis=0)[::2]):
        assert_allclose(contract_all_but_one(layout, factors), rows, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES)
@pytest.mark.parametrize("rank", RANKS)
class TestCoefficient:
    def test_tensor_is_the_sum_of_outer_products(self, x_shape, y_shape, rank):
        coef = coefficient(x_shape, y_shape, rank)
        assert coef.rank == rank
        assert coef.to_tensor().shape == x_shape + y_shape
        assert_allclose(coef.to_tensor(), naive.dense(coef.factors), rtol=1e-12, atol=1e-14)

    def test_sides_are_the_outer_products_of_their_factors(self, x_shape, y_shape, rank):
        coef = coefficient(x_shape, y_shape, rank)
        assert (len(coef.x_factors), len(coef.y_factors)) == (len(x_shape), len(y_shape))
        for side, factors in ((coef.x_side(), coef.x_factors), (coef.y_side(), coef.y_factors)):
            for r in range(rank):
                assert_allclose(side[:, r], naive.outer([f[:, r] for f in factors]).ravel(), rtol=1e-13)

    def test_norms_are_those_of_the_components(self, x_shape, y_shape, rank):
        coef = coefficient(x_shape, y_shape, rank)
        for r in range(rank):
            component = naive.outer([f[:, r] for f in coef.factors])
            assert_allclose(coef.norms()[r], np.linalg.norm(component), rtol=1e-13)
            assert_allclose(coef.l1_norms()[r], np.abs(component).sum(), rtol=1e-13)

    def test_entries_go_round(self, x_shape, y_shape, rank):
        coef = coefficient(x_shape, y_shape, rank)
        entries = [f[i, r] for f in coef.factors for i in range(len(f)) for r in range(rank)]
        assert_array_equal(coef.ravel(), entries)
        back = coefficient(x_shape, y_shape, rank, seed=9).with_entries(coef.ravel())
        assert back.n_x_modes == coef.n_x_modes
        for got, expected in zip(back.factors, coef.factors, strict=True):
            assert_array_equal(got, expected)

    def test_balanced(self, x_shape, y_shape, rank):
        factors = list(coefficient(x_shape, y_shape, rank).factors)
        factors[0] = 1e8 * factors[0]
        coef = CPCoefficient(tuple(factors), len(x_shape))
        balanced = coef.balanced()
        assert_allclose(balanced.to_tensor(), coef.to_tensor(), rtol=1e-12, atol=1e-6)
        norms = np.array([np.linalg.norm(f, axis=0) for f in balanced.factors])
        assert_allclose(norms, np.broadcast_to(norms[0], norms.shape), rtol=1e-12)
        assert all((np.sign(a) == np.sign(b)).all() for a, b in zip(balanced.factors, coef.factors, strict=True))

    def test_normal_form(self, x_shape, y_shape, rank):
        coef = coefficient(x_shape, y_shape, rank)
        weights, factors = coef.normal_form()
        assert_allclose(cp_to_tensor((weights, factors)), naive.dense(coef.factors), rtol=1e-12, atol=1e-13)
        assert (weights > 0).all()
        assert (np.diff(weights) <= 0).all()
        assert_allclose([np.linalg.norm(f, axis=0) for f in factors], 1, rtol=1e-13)
        for f in factors[:-1]:
            assert (f[np.abs(f).argmax(axis=0), np.arange(rank)] > 0).all()

    def test_normal_form_does_not_depend_on_signs_scales_and_order(self, x_shape, y_shape, rank):
        coef = coefficient(x_shape, y_shape, rank)
        rng = np.random.default_rng(3)
        scales = rng.choice([-1.0, 1.0], (len(coef.factors), rank)) * rng.uniform(0.1, 10, (len(coef.factors), rank))
        scales[-1] /= scales.prod(axis=0)
        order = rng.permutation(rank)
        same = CPCoefficient(tuple((f * s)[:, order] for f, s in zip(coef.factors, scales, strict=True)), len(x_shape))
        (w1, f1), (w2, f2) = coef.normal_form(), same.normal_form()
        assert_allclose(w1, w2, rtol=1e-12)
        for a, b in zip(f1, f2, strict=True):
            assert_allclose(a, b, rtol=1e-11, atol=1e-13)

    def test_modes_of_size_one_are_put_back(self, x_shape, y_shape, rank):
        small_x = tuple(d for d in x_shape if d > 1) or (1,)
        small = coefficient(small_x, tuple(d for d in y_shape if d > 1), rank)
        whole = small.with_modes(x_shape, y_shape)
        assert [f.shape for f in whole.factors] == [(d, rank) for d in x_shape + y_shape]
        assert whole.n_x_modes == len(x_shape)
        assert_allclose(naive.dense(whole.factors), naive.dense(small.factors).reshape(x_shape + y_shape), rtol=1e-13)

    def test_components_are_taken_and_appended(self, x_shape, y_shape, rank):
        coef, other = coefficient(x_shape, y_shape, rank), coefficient(x_shape, y_shape, 2, seed=5)
        both = coef.append(other)
        assert both.rank == rank + 2
        assert_allclose(both.to_tensor(), coef.to_tensor() + other.to_tensor(), rtol=1e-12, atol=1e-14)
        assert_array_equal(both.take(slice(0, rank)).ravel(), coef.ravel())
        swapped = both.take([rank + 1, rank])
        assert_array_equal(swapped.factors[-1], other.factors[-1][:, ::-1])

    def test_nothing_is_modified(self, x_shape, y_shape, rank):
        coef = coefficient(x_shape, y_shape, rank)
        before = coef.ravel().copy()
        entries = before.copy()
        for result in (coef.balanced(), coef.alive(), coef.take([0]), coef.append(coef), coef.with_entries(entries)):
            result.factors[0][...] = -7.0
        coef.normal_form()
        assert_array_equal(coef.ravel(), before)
        assert_array_equal(entries, before)


def test_parameters_are_entries_less_shared_scales():
    dense = coefficient((4, 3), (2,), 2)
    assert dense.n_parameters() == 2 * (4 + 3 + 2 - 2)
    sparse = CPCoefficient((np.array([[1.0, 1], [0, 1]]), np.array([[0.0, 2], [1, 0], [3, 0]]), np.ones((2, 2))), 2)
    assert sparse.n_parameters() == (1 + 2 + 2 - 2) + (2 + 1 + 2 - 2)
    dead = CPCoefficient((np.array([[1.0, 0], [0, 0]]), np.array([[1.0, 2], [1, 2]])), 1)
    assert dead.n_parameters() == 1 + 2 - 1
    assert coefficient((5,), (), 1).n_parameters() == 5


def test_components_that_are_zero():
    factors = list(coefficient((3, 2), (2,), 4).factors)
    factors[0][:, 1] = 0.0
    factors[2][:, 3] = 0.0
    coef = CPCoefficient(tuple(factors), 2)
    assert_array_equal(coef.alive().ravel(), coef.take([0, 2]).ravel())
    assert_allclose(coef.alive().to_tensor(), coef.to_tensor(), rtol=1e-14)
    assert_allclose(coef.balanced().to_tensor(), coef.to_tensor(), rtol=1e-12, atol=1e-15)
    for f in coef.balanced().factors:  # all modes alike: a factor that was left could come back by itself
        assert not f[:, [1, 3]].any()
    weights, factors = coef.normal_form()
    assert_array_equal(weights[2:], 0)
    assert_allclose(cp_to_tensor((weights, factors)), coef.to_tensor(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("x_shape", "y_shape"), SHAPES)
def test_no_components(x_shape, y_shape):
    empty = CPCoefficient.empty(x_shape, y_shape)
    assert (empty.rank, empty.n_parameters(), empty.ravel().size) == (0, 0, 0)
    assert_array_equal(empty.to_tensor(), np.zeros(x_shape + y_shape))
    assert_array_equal(empty.norms(), [])
    assert empty.balanced().rank == empty.alive().rank == 0
    weights, factors = empty.normal_form()
    assert weights.size == 0
    assert [f.shape for f in factors] == [(d, 0) for d in x_shape + y_shape]
    assert_array_equal(empty.append(coefficient(x_shape, y_shape, 2)).ravel(), coefficient(x_shape, y_shape, 2).ravel())


@pytest.mark.parametrize(
    ("shape", "rank"), [((4,), 1), ((4, 3), 3), ((2, 3, 4), 6), ((8, 8, 8, 4, 4, 4), 4096), ((1, 1), 1), ((5, 1), 1)]
)
def test_max_rank_carries_every_tensor(shape, rank):
    # A tensor is a sum of its fibres along the longest mode, one component each.
    assert max_rank(shape) == rank
