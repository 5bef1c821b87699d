"""ENV: the tensor response envelope (Li and Zhang 2017)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import stats as distributions
from sklearn.exceptions import ConvergenceWarning

from dst2r.baselines._common import (
    check_response_gram,
    check_sizes,
    dense,
    fallback_ridge,
    is_auto,
    mode_gram,
    on_few_threads,
    response_gram,
    response_shape,
    whitening,
)
from dst2r.cp import Array, khatri_rao
from dst2r.regressor import TensorRegressor, check_number
from dst2r.statistics import GramStatistics, Statistics

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class TensorEnvelope(TensorRegressor):
    r"""Least squares projected, mode by mode, on the part of the response that the predictors move.

    .. math:: Y = B \times_{M+1} x + E, \quad
              \mathrm{vec}(E) \sim N(0, \Sigma_M \otimes \dots \otimes \Sigma_1), \quad
              \Sigma_m = \Gamma_m \Omega_m \Gamma_m^T + \Gamma_{0m} \Omega_{0m} \Gamma_{0m}^T,

    where the columns of :math:`\Gamma_m`, shape :math:`(q_m, u_m)`, span mode m of B.

    Parameters
    ----------
    dims : tuple of int or "auto", default="auto"
        Dimensions :math:`(u_1, \dots, u_M)` of the envelopes, one for each response mode. The full
        :math:`q_m` everywhere is ordinary least squares. "auto" chooses by 1D-BIC.
    bic_constant : float, default=1.0
        C in the criterion of "auto", :math:`\sum_{j \le k} \phi_j + C k \, s \log(n)/n`. The original's
        default is P, which for vectorised tensors chooses envelopes that are far too small.
    max_dim : int, default=10
        Largest dimension that "auto" considers in a mode.
    p_threshold : float, optional
        Set entries of the coefficient whose p-value exceeds it to zero. An envelope's coefficient has no
        zeros of its own: this is an addition, by which it can be scored as a selection.
    fit_intercept : bool, default=True
        Whether the data are centred. The original centres, but predicts without the intercept.
    tol : float, default=1e-8
        Relative change at which the iterations for covariances and directions stop.
    max_iter : int, default=500
        Largest number of those iterations.

    Attributes
    ----------
    coef_ : ndarray of shape (*x_shape, *y_shape)
    intercept_ : ndarray of shape y_shape
    dims_ : tuple of int
    basis_ : list of ndarray of shape (q_m, u_m)
        Orthonormal :math:`\Gamma_m`.
    n_parameters_ : int
        Dimension of the set of coefficients with such an envelope.
    n_iter_ : int
        Sweeps of the flip-flop.
    covariances_ : list of ndarray of shape (q_m, q_m)
        Separable covariance of the residuals, every factor of Frobenius norm one except the first, which
        carries the scale.
    p_values_ : ndarray of shape (*x_shape, *y_shape)
        Two-sided t-tests of the entries before thresholding; NaN where P >= n - 1 leaves no degrees of freedom.
        One fit without `p_threshold` serves both: ``model.p_values_ <= 0.05`` is the support at that threshold.

    Notes
    -----
    Everything is computed from G, C and the (Q, Q) second moments of the responses. The separable covariance
    is the maximum-likelihood estimate by flip-flop, apart from its divisor. The directions come one by one (the
    1D algorithm), each minimising :math:`\phi(w) = \log w^T M w + \log w^T (M+U)^{-1} w` on the sphere; we
    replace the original's gradient search by minimising the quadratic majoriser of both logarithms, an
    eigenproblem, which never increases :math:`\phi`.

    The original criterion has s = 1 and a residual covariance M with divisor n. It then sees
    :math:`\phi \approx \log(1 - P/n)` in every direction, even of pure noise, and with C = 1 chooses the full
    dimensions unless P is far below n. Here M has divisor n - P - 1, so that noise gives
    :math:`\phi \approx 0`, and s is the standard deviation of :math:`n \phi` for noise where that exceeds one.

    The standard errors are those of least squares, as in the original, and thus conservative for the
    envelope; they use n - P - 1 degrees of freedom (n - P without an intercept), where the original takes n - 1
    and the variance with divisor n.

    Where P >= n - 1, a ridge of trace(G)/n replaces least squares, with a warning.

    References
    ----------
    .. [1] L. Li and X. Zhang (2017). Parsimonious tensor response regression. Journal of the American
       Statistical Association 112(519), 1131-1146.
    .. [2] X. Zhang and Q. Mai (2018). Model-free envelope dimension selection. Electronic Journal of
       Statistics 12, 2193-2216.

    Examples
    --------
    >>> from dst2r import make_tensor_regression
    >>> from dst2r.baselines import TensorEnvelope
    >>> data = make_tensor_regression(300, (3,), (5, 4), rank=1, sparsity=0, snr=1, random_state=0)
    >>> TensorEnvelope().fit(data.X, data.Y).dims_
    (1, 1)
    """

    def __init__(
        self,
        dims: tuple[int, ...] | str = "auto",
        *,
        bic_constant: float = 1.0,
        max_dim: int = 10,
        p_threshold: float | None = None,
        fit_intercept: bool = True,
        tol: float = 1e-8,
        max_iter: int = 500,
    ) -> None:
        self.dims = dims
        self.bic_constant = bic_constant
        self.max_dim = max_dim
        self.p_threshold = p_threshold
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter

    def _fit_samples(self, X: NDArray[Any], Y: NDArray[Any], weight: Array | None) -> Self:
        stats = GramStatistics.from_arrays(X, Y, weight, center=self.fit_intercept)
        return self.fit_statistics(stats, response_gram(Y, weight, center=self.fit_intercept))

    @on_few_threads
    def fit_statistics(self, stats: Statistics, y_gram: ArrayLike | None = None) -> Self:
        """Fit from statistics, however they were accumulated.

        Parameters
        ----------
        stats : Statistics
        y_gram : array-like of shape (Q, Q), optional
            ``Y'Y/n`` of the centred, flattened responses; needed unless there is only one response entry.
        """
        self._check_parameters()
        shape = response_shape(stats)
        total = check_response_gram(stats, y_gram, "TensorEnvelope")
        gram, cross = dense(stats)
        ridge = fallback_ridge(stats, "TensorEnvelope")
        if ridge > 0 and self.p_threshold is not None:
            raise ValueError(
                f"p_threshold={self.p_threshold} needs more samples than predictor entries, but there are "
                f"{stats.n_samples:g} and {stats.n_x}: set p_threshold=None, or reduce the predictors."
            )
        whiten = whitening(gram, ridge)
        ols = whiten @ (whiten.T @ cross)
        link, fitted = cross.T @ ols, ols.T @ (gram @ ols)
        # Degrees of freedom: the trace of the hat matrix, P without a ridge.
        used = float(np.sum(whiten * (gram @ whiten))) + self.fit_intercept
        residual = (total - link - link.T + fitted) * (stats.n_samples / (stats.n_samples - used))

        # Exact fits and constant responses leave nothing to invert; far below the scale of a response, we add.
        variances = total.diagonal()
        floor = np.diag(np.where(variances > 0, 1e-10 * variances, 1e-10 * variances.mean() or 1.0))
        self._find_envelopes(residual + floor, total + floor, shape, stats.n_samples, used)
        coef = self._project(ols, shape)
        turns = sum(u * (q - u) for u, q in zip(self.dims_, shape, strict=True))
        self.n_parameters_ = stats.n_x * math.prod(self.dims_) + turns
        # The diagonal of the inverse Gram matrix; a ridge is no unbiased estimate and has no such tests.
        x_variance = np.sum(whiten * whiten, axis=1) if ridge == 0 else np.full(stats.n_x, np.nan)
        self._set_p_values(coef, x_variance, stats.n_samples - used, stats)
        if self.p_threshold is not None:
            coef = np.where(self.p_values_.reshape(coef.shape) <= self.p_threshold, coef, 0.0)
        self._set_coefficient(coef, stats.y_mean - stats.x_mean @ coef, stats)
        return self

    def _find_envelopes(self, residual: Array, total: Array, shape: tuple[int, ...], n: float, used: float) -> None:
        """Set covariances, bases and dimensions, given the second moments of residuals and responses."""
        dims = None
        if not is_auto(self.dims):
            dims = check_sizes("dims", self.dims, shape, "one for each response mode")
        self.covariances_, sweeps = flip_flop(residual, shape, self.tol, self.max_iter)
        self.n_iter_, converged = min(sweeps, self.max_iter), sweeps <= self.max_iter
        precisions = [inverse(S) for S in self.covariances_]
        self.basis_ = []
        for m, q in enumerate(shape):
            around = whitened_mode_gram(total, precisions, shape, m)
            within = whitened_mode_gram(residual, precisions, shape, m)
            largest = dims[m] if dims else min(self.max_dim, q)
            basis, values, done = directions(within, around, largest, self.tol, self.max_iter)
            converged &= done
            if dims is None:
                cost = self.bic_constant * direction_cost(n, used, len(total) // q)
                basis = basis[:, : int(np.argmin(np.cumsum(values + cost))) + 1]
            self.basis_.append(np.eye(q) if basis.shape[1] == q else basis)
        if not converged:
            warnings.warn(
                f"TensorEnvelope reached max_iter={self.max_iter} before a covariance or a direction "
                f"changed by less than tol={self.tol:g}: raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.dims_ = tuple(basis.shape[1] for basis in self.basis_)

    def _project(self, ols: Array, shape: tuple[int, ...]) -> Array:
        coef = ols.reshape(-1, *shape)
        for m, basis in enumerate(self.basis_):
            coef = np.moveaxis(np.tensordot(coef, basis @ basis.T, (m + 1, 0)), -1, m + 1)
        return coef.reshape(ols.shape)

    def _set_p_values(self, coef: Array, x_variance: Array, freedom: float, stats: Statistics) -> None:
        y_variance = khatri_rao([S.diagonal()[:, None] for S in self.covariances_], 1)[:, 0]
        error = np.sqrt(np.outer(x_variance, y_variance) / stats.n_samples)
        t = np.divide(np.abs(coef), error, out=np.zeros_like(coef), where=error != 0)
        self.p_values_ = (2.0 * distributions.t.sf(t, freedom)).reshape(stats.x_shape + stats.y_shape)

    def _check_parameters(self) -> None:
        check_number("bic_constant", self.bic_constant)
        check_number("max_dim", self.max_dim, low=1, integer=True)
        check_number("tol", self.tol, strict=True)
        check_number("max_iter", self.max_iter, low=1, integer=True)
        if self.p_threshold is not None:
            check_number("p_threshold", self.p_threshold, strict=True)
            if self.p_threshold > 1:
                raise ValueError(f"p_threshold is {self.p_threshold!r}; expected None or a number from 0 to 1.")


def whitened_mode_gram(matrix: Array, precisions: Sequence[Array], shape: tuple[int, ...], mode: int) -> Array:
    """Second moments within a response mode, the other modes whitened; averaged over them."""
    size = math.prod(shape)
    tensor = matrix.reshape(*shape, size)
    for m, precision in enumerate(precisions):
        if m != mode:
            tensor = np.moveaxis(np.tensordot(precision, tensor, (1, m)), 0, m)
    gram = mode_gram(tensor.reshape(size, size), shape, mode) * (shape[mode] / size)
    return 0.5 * (gram + gram.T)


def direction_cost(n: float, used: float, replicates: int) -> float:
    """What one more direction must lower the 1D objective by: ``log(n)/n``, or ``log(n)`` deviations of noise.

    Where the predictors do nothing, the objective compares variances with ``n - used`` and n degrees of
    freedom, each averaged over ``replicates`` entries of the other modes.
    """
    deviation = np.sqrt(2.0 * used * n / ((n - used) * replicates))  # of n times the objective
    return float(max(1.0, deviation) * np.log(n) / n)


def inverse(matrix: Array) -> Array:
    """Inverse of a covariance matrix."""
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)


def flip_flop(residual: Array, shape: tuple[int, ...], tol: float, max_iter: int) -> tuple[list[Array], int]:
    """Separable covariance of the residuals, the scale in its first factor, and the sweeps made, or one too many."""
    factors = [np.eye(q) / np.sqrt(q) for q in shape]
    for sweep in range(1, max_iter + 1):
        change = 0.0
        for m in range(len(shape)):
            precisions = [inverse(S) for S in factors]
            new = whitened_mode_gram(residual, precisions, shape, m)
            if m > 0:
                new = new / np.linalg.norm(new)
            change = max(change, float(np.linalg.norm(new - factors[m]) / np.linalg.norm(new)))
            factors[m] = new
        if change <= tol:
            return factors, sweep
    return factors, max_iter + 1


def directions(within: Array, around: Array, count: int, tol: float, max_iter: int) -> tuple[Array, Array, bool]:
    """Orthonormal directions of the 1D algorithm, the objective of each one, and whether all converged."""
    free = np.eye(len(within))  # basis of what the directions found so far leave
    found, values, converged = [], [], True
    for _ in range(count):
        w, value, done = minimise_ratio(free.T @ within @ free, free.T @ around @ free, tol, max_iter)
        found.append(free @ w)
        values.append(value)
        converged &= done
        free = free @ np.linalg.qr(w[:, None], mode="complete")[0][:, 1:]
    return np.column_stack(found), np.array(values), converged


def minimise_ratio(M: Array, N: Array, tol: float, max_iter: int) -> tuple[Array, float, bool]:
    """Minimise ``log w'Mw + log w'N^-1 w`` over the sphere, from the best eigenvector of M and N."""
    precision = inverse(N)

    def forms(w: Array) -> Array:
        return np.array([w @ M @ w, w @ precision @ w])

    starts = np.hstack([np.linalg.eigh(M)[1], np.linalg.eigh(N)[1]]).T
    w = min(starts, key=lambda start: float(np.log(forms(start)).sum()))
    value = float(np.log(forms(w)).sum())
    for _ in range(max_iter):
        # log a <= log a0 + a/a0 - 1: both logarithms are majorised by quadratic forms.
        m, n = forms(w)
        w = np.linalg.eigh(M / m + precision / n)[1][:, 0]
        before, value = value, float(np.log(forms(w)).sum())
        if before - value <= tol:
            return w, value, True
    return w, value, False
