"""Simulated tensor-on-tensor regressions whose sparse low-rank coefficient is known."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dst2r.cp import CPCoefficient

if TYPE_CHECKING:
    from tensorly.cp_tensor import CPTensor

FloatArray = NDArray[np.float64]
RandomStateLike = int | np.random.Generator | np.random.RandomState | None


@dataclass(frozen=True, eq=False, repr=False)
class TensorRegression:
    """A simulated regression and its truth.

    Attributes
    ----------
    X : ndarray of shape (n_samples, *x_shape)
        Predictors.
    Y : ndarray of shape (n_samples, *y_shape)
        Responses.
    coef : ndarray of shape (*x_shape, *y_shape)
        The coefficient tensor, the sum over components of the outer products of their factor vectors.
    factors : tuple of ndarray of shape (d_k, rank)
        One factor matrix for each mode, predictor modes first; a column belongs to a component.
    noise : float
        Standard deviation of the noise in `Y`.
    """

    X: FloatArray
    Y: FloatArray
    coef: FloatArray
    factors: tuple[FloatArray, ...]
    noise: float

    def __repr__(self) -> str:
        rank = self.factors[0].shape[1]
        return f"TensorRegression(X={self.X.shape}, Y={self.Y.shape}, {rank=}, noise={self.noise:.4g})"

    @property
    def cp(self) -> "CPTensor":
        """The coefficient as TensorLy's ``CPTensor``, with weights of one."""
        from tensorly.cp_tensor import CPTensor

        return CPTensor((np.ones(self.factors[0].shape[1]), list(self.factors)))


def make_tensor_regression(
    n_samples: int = 1000,
    x_shape: Sequence[int] = (8, 8, 8),
    y_shape: Sequence[int] = (4, 4, 4),
    *,
    rank: int = 2,
    sparsity: float = 0.5,
    noise: float | None = None,
    snr: float | None = None,
    normalize: bool = False,
    x_distribution: Literal["binary", "normal"] = "binary",
    random_state: RandomStateLike = None,
) -> TensorRegression:
    r"""Simulate a regression with a sparse coefficient of CP rank at most `rank`.

    .. math:: Y_m = \langle X_m, B \rangle + \sigma E_m, \qquad
              B = \sum_{r=1}^{R} \beta_1^r \circ \dots \circ \beta_{p+q}^r,

    with standard normal :math:`E_m` and factor vectors :math:`\beta_k^r`, some of whose entries are zero.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of samples.
    x_shape : sequence of int, default=(8, 8, 8)
        Sizes of the predictor modes, at least one.
    y_shape : sequence of int, default=(4, 4, 4)
        Sizes of the response modes. ``()`` gives a scalar response: `Y` of shape (n_samples,).
    rank : int, default=2
        Number of components.
    sparsity : float, default=0.5
        Share of zeros in each factor vector, between 0 and 1. ``round(d_k * sparsity)`` entries, at random
        places, are zero; one at least is not.
    noise : float, optional
        Standard deviation :math:`\sigma` of the noise; 1 when neither `noise` nor `snr` is given.
    snr : float, optional
        Signal-to-noise ratio, instead of `noise`: the variance of the noiseless responses, each about its
        mean in the sample, pooled over all entries, divided by :math:`\sigma^2`.
    normalize : bool, default=False
        Scale each factor vector to unit :math:`\ell_2` norm. Otherwise the norm of a component is
        heavy-tailed, and so is the difficulty of the problem.
    x_distribution : {"binary", "normal"}, default="binary"
        Entries of `X`: 0 or 1 with equal probability, or standard normal.
    random_state : int, Generator, RandomState or None, default=None
        Source of randomness. With a fixed seed the coefficient does not depend on `n_samples`, nor `X` on
        the noise. A ``RandomState`` is used to seed a ``Generator``.

    Returns
    -------
    TensorRegression
        The data and the truth, in float64.

    Raises
    ------
    ValueError
        If an argument is out of its range, or both `noise` and `snr` are given.

    Notes
    -----
    The defaults are the design of the DST2R paper's first experiment; the paper does not state
    :math:`\sigma`, and 1 is our assumption.

    Examples
    --------
    >>> from dst2r import make_tensor_regression
    >>> data = make_tensor_regression(200, (5, 4), (3,), rank=2, snr=10, random_state=0)
    >>> data.X.shape, data.Y.shape, data.coef.shape
    ((200, 5, 4), (200, 3), (5, 4, 3))
    >>> [factor.shape for factor in data.factors]
    [(5, 2), (4, 2), (3, 2)]
    """
    _check_integer("n_samples", n_samples)
    _check_integer("rank", rank)
    x_shape, y_shape = _shape("x_shape", x_shape), _shape("y_shape", y_shape)
    if not x_shape:
        raise ValueError("x_shape must have at least one mode, got (); write (1,) for a scalar predictor.")
    _check_real("sparsity", sparsity, lambda s: 0 <= s <= 1, "a share of zeros between 0 and 1")
    if noise is not None and snr is not None:
        raise ValueError(f"noise={noise!r} and snr={snr!r} both set the noise level; give one of them.")
    if noise is not None:
        _check_real("noise", noise, lambda s: s >= 0, "a finite number of at least 0")
    if snr is not None:
        _check_real("snr", snr, lambda s: s > 0, "a finite number greater than 0")
    _check_choice("normalize", normalize, (True, False))
    _check_choice("x_distribution", x_distribution, ("binary", "normal"))

    rng = _generator(random_state)
    factors = tuple(_factor(size, rank, sparsity, normalize, rng) for size in x_shape + y_shape)
    coef = CPCoefficient(factors, len(x_shape))
    X = _predictors(n_samples, math.prod(x_shape), x_distribution, rng)
    Y = (X @ coef.x_side()) @ coef.y_side().T
    sigma = _noise_for(snr, Y) if snr is not None else 1.0 if noise is None else float(noise)
    Y += sigma * rng.standard_normal(Y.shape)
    return TensorRegression(
        X=X.reshape(n_samples, *x_shape),
        Y=Y.reshape(n_samples, *y_shape),
        coef=coef.to_tensor(),
        factors=factors,
        noise=sigma,
    )


def _factor(size: int, rank: int, sparsity: float, normalize: bool, rng: np.random.Generator) -> FloatArray:
    """Factor matrix of shape (size, rank), with zeros at independent places in each column."""
    factor = rng.standard_normal((size, rank))
    n_zeros = min(round(size * sparsity), size - 1)
    for column in factor.T:
        column[rng.choice(size, n_zeros, replace=False)] = 0.0
    return factor / np.linalg.norm(factor, axis=0) if normalize else factor


def _predictors(n_samples: int, size: int, distribution: str, rng: np.random.Generator) -> FloatArray:
    if distribution == "normal":
        return rng.standard_normal((n_samples, size))
    return rng.integers(0, 2, (n_samples, size), dtype=np.int8).astype(np.float64)


def _noise_for(snr: float, signal: FloatArray) -> float:
    """Standard deviation of the noise that gives noiseless responses of shape (n_samples, Q) this ratio."""
    variance = float(signal.var(axis=0).mean())
    if variance == 0:
        raise ValueError("snr needs a signal that varies over the samples; increase n_samples or give noise.")
    return math.sqrt(variance / snr)


def _generator(random_state: RandomStateLike) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        # Drawing the seed advances the state: a second call gives other data, as in scikit-learn.
        return np.random.default_rng(random_state.randint(2**31, size=4))
    if random_state is not None and not isinstance(random_state, np.random.Generator):
        _check_integer("random_state", random_state, "a seed (an integer of at least 0), Generator or None", 0)
    return np.random.default_rng(random_state)


def _shape(name: str, sizes: Sequence[int]) -> tuple[int, ...]:
    try:
        shape = tuple(sizes)
    except TypeError:
        raise ValueError(f"{name} must be a tuple of mode sizes, got {sizes!r}; one mode is (size,).") from None
    for size in shape:
        _check_integer(f"each size in {name}", size)
    return shape


def _check_integer(name: str, value: Any, expected: str = "an integer of at least 1", low: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < low:
        raise ValueError(f"{name} must be {expected}, got {value!r}.")


def _check_real(name: str, value: Any, valid: Callable[[Any], bool], expected: str) -> None:
    if not isinstance(value, Real) or not math.isfinite(value) or not valid(value):
        raise ValueError(f"{name} must be {expected}, got {value!r}.")


def _check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {choices}, got {value!r}.")
