"""How far an estimated coefficient is from the truth, and predictions from responses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from tensorly.cp_tensor import CPTensor

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class SupportRates(NamedTuple):
    """True and false positive rate of a support; nan where there is nothing to find or to avoid."""

    tpr: float
    fpr: float


@dataclass(frozen=True, eq=False)
class SelectionRates:
    """How well the supports of the factors were found.

    Attributes
    ----------
    tpr, fpr : float
        Means of the rates over the modes, leaving out the undefined ones; nan if all are.
    tpr_per_mode : ndarray of shape (n_modes,)
        Share of the non-zero true entries that are non-zero in the estimate, over all components; nan in a
        mode without non-zero entries.
    fpr_per_mode : ndarray of shape (n_modes,)
        Share of the zero true entries that are non-zero in the estimate; nan in a mode without zeros.
    missed : ndarray of shape (n_missed,)
        Sizes of the true entries that were not found, each relative to the largest of its factor vector, in
        decreasing order: small ones are below the noise, large ones are worth a look.
    n_extra : int
        Number of non-zero components of the estimate without a true partner. They are not scored.
    """

    tpr: float
    fpr: float
    tpr_per_mode: FloatArray
    fpr_per_mode: FloatArray
    missed: FloatArray
    n_extra: int


def estimation_error(coef: ArrayLike, truth: ArrayLike) -> float:
    """Frobenius norm of the difference of two coefficient tensors of one shape.

    Examples
    --------
    >>> estimation_error([[3.0, 0.0]], [[0.0, 4.0]])
    5.0
    """
    estimate, target = _pair("coef", coef, "truth", truth)
    return float(np.linalg.norm(estimate - target))


def relative_error(coef: ArrayLike, truth: ArrayLike) -> float:
    """`estimation_error` divided by the Frobenius norm of the truth, which must not be zero.

    Examples
    --------
    >>> relative_error([[3.0, 0.0]], [[0.0, 4.0]])
    1.25
    """
    size = estimation_error(truth, np.zeros(np.shape(truth)))
    if size == 0:
        raise ValueError("truth is zero, so the relative error is undefined; use estimation_error.")
    return estimation_error(coef, truth) / size


def support_rates(coef: ArrayLike, truth: ArrayLike, *, tol: float = 0.0) -> SupportRates:
    """Score the support of a dense coefficient tensor, for estimates without factors.

    Parameters
    ----------
    coef, truth : array-like of one shape
        Estimated and true coefficient tensor.
    tol : float, default=0.0
        Entries of `coef` count as zero up to this multiple of its largest magnitude.

    Returns
    -------
    SupportRates
        Named tuple (tpr, fpr).

    Examples
    --------
    >>> support_rates([[1.0, 2.0, 0.0, 0.0]], [[1.0, 0.0, 3.0, 0.0]])
    SupportRates(tpr=0.5, fpr=0.5)
    """
    _check_tolerance(tol)
    estimate, target = _pair("coef", coef, "truth", truth)
    magnitude = np.abs(estimate)
    found = magnitude > tol * magnitude.max(initial=0.0)
    return SupportRates(_share(found, target != 0), _share(found, target == 0))


def selection_rates(
    estimate: "CPTensor | Sequence[Any]", truth: "CPTensor | Sequence[Any]", *, tol: float = 0.0
) -> SelectionRates:
    r"""Score the supports of the factors after matching the components one to one.

    Parameters
    ----------
    estimate, truth : CPTensor, (weights, factors) or sequence of factor matrices
        Factor matrices have shape (d_k, rank); the ranks of the two may differ.
    tol : float, default=0.0
        Entries of an estimated factor vector count as zero up to this multiple of its largest magnitude. The
        truth is taken exactly.

    Returns
    -------
    SelectionRates
        Rates, overall and by mode, the entries missed and the number of extra components.

    Notes
    -----
    Components are paired by the assignment with the greatest sum of
    :math:`\prod_k |\cos(\hat\beta_k, \beta_k)|`, so that order, signs and scales do not matter. A component
    with weight zero or a factor vector of zeros is no component. True components left without a partner
    count as estimated by zeros.

    Examples
    --------
    >>> truth = [[[1, 0], [2, 0], [0, 3]], [[1, 0], [0, 1]]]
    >>> estimate = [[[0, 1], [0, 2], [5, 1]], [[0, 1], [2, 0]]]
    >>> rates = selection_rates(estimate, truth)
    >>> rates.tpr_per_mode, rates.fpr_per_mode
    (array([1., 1.]), array([0.33333333, 0.        ]))
    """
    # scipy.optimize is slow to import, and only this function needs it.
    from scipy.optimize import linear_sum_assignment

    _check_tolerance(tol)
    found, true = _components("estimate", estimate), _components("truth", truth)
    sizes, true_sizes = [len(factor) for factor in found], [len(factor) for factor in true]
    if sizes != true_sizes:
        raise ValueError(f"estimate and truth must have modes of the same sizes, got {sizes} and {true_sizes}.")

    cosines = [np.abs(_unit(t).T @ _unit(f)) for t, f in zip(true, found, strict=True)]
    rows, columns = linear_sum_assignment(np.prod(cosines, axis=0), maximize=True)
    tpr, fpr, missed = [], [], []
    for true_factor, factor in zip(true, found, strict=True):
        selected = np.zeros(true_factor.shape, dtype=bool)
        selected[:, rows] = np.abs(factor[:, columns]) > tol
        tpr.append(_share(selected, true_factor != 0))
        fpr.append(_share(selected, true_factor == 0))
        missed.append(np.abs(true_factor[(true_factor != 0) & ~selected]))
    return SelectionRates(
        tpr=_defined_mean(tpr),
        fpr=_defined_mean(fpr),
        tpr_per_mode=np.array(tpr),
        fpr_per_mode=np.array(fpr),
        missed=np.sort(np.concatenate(missed))[::-1],
        n_extra=found[0].shape[1] - len(columns),
    )


@overload
def r2_score(
    Y: ArrayLike,
    Y_pred: ArrayLike,
    *,
    per_entry: Literal[False] = ...,
    sample_weight: ArrayLike | None = ...,
) -> float: ...
@overload
def r2_score(
    Y: ArrayLike, Y_pred: ArrayLike, *, per_entry: Literal[True], sample_weight: ArrayLike | None = ...
) -> FloatArray: ...
def r2_score(
    Y: ArrayLike, Y_pred: ArrayLike, *, per_entry: bool = False, sample_weight: ArrayLike | None = None
) -> float | FloatArray:
    """R² by scikit-learn's definition, for responses of any number of modes.

    Parameters
    ----------
    Y, Y_pred : array-like of shape (n_samples, *y_shape)
        Responses and their predictions.
    per_entry : bool, default=False
        Return the R² of every response entry instead of their mean.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples.

    Returns
    -------
    float, or ndarray of shape y_shape
        Mean over the response entries of ``1 - SSE / SST``, each about its own mean; or all of them. An entry
        that does not vary scores 1 if predicted exactly, else 0.

    Examples
    --------
    >>> r2_score([[[0, 1], [4, 2]], [[2, 3], [0, 4]]], [[[0, 2], [4, 2]], [[2, 2], [0, 4]]], per_entry=True)
    array([[1., 0.],
           [1., 1.]])
    """
    return _by_entry("r2_score", Y, Y_pred, per_entry, sample_weight)


def explained_variance_score(
    Y: ArrayLike, Y_pred: ArrayLike, *, per_entry: bool = False, sample_weight: ArrayLike | None = None
) -> float | FloatArray:
    """`r2_score` of predictions that may be off by a constant in each response entry.

    Examples
    --------
    >>> explained_variance_score([[[0, 1]], [[2, 3]]], [[[5, 1]], [[7, 3]]])
    1.0
    """
    return _by_entry("explained_variance_score", Y, Y_pred, per_entry, sample_weight)


def mean_squared_error(
    Y: ArrayLike, Y_pred: ArrayLike, *, per_entry: bool = False, sample_weight: ArrayLike | None = None
) -> float | FloatArray:
    """Squared error, averaged over samples and, unless ``per_entry``, over the entries of the response.

    Examples
    --------
    As a scorer of scikit-learn's tools, whose own errors take responses of two axes at most:

    >>> from sklearn.metrics import make_scorer
    >>> from sklearn.model_selection import cross_val_score
    >>> from dst2r import DST2R, make_tensor_regression
    >>> data = make_tensor_regression(60, (4, 3), (2, 2), random_state=0)
    >>> scorer = make_scorer(mean_squared_error, greater_is_better=False)
    >>> cross_val_score(DST2R(), data.X, data.Y, scoring=scorer, cv=3).shape
    (3,)
    """
    return _by_entry("mean_squared_error", Y, Y_pred, per_entry, sample_weight)


def _by_entry(name: str, Y: ArrayLike, Y_pred: ArrayLike, per_entry: bool, sample_weight: ArrayLike | None) -> Any:
    """A metric of scikit-learn for the entries of a response, or their mean."""
    # scikit-learn is slow to import, and the other metrics do without.
    import sklearn.metrics

    target, prediction = _responses(Y, Y_pred)
    scores = getattr(sklearn.metrics, name)(
        target.reshape(len(target), -1),
        prediction.reshape(len(target), -1),
        sample_weight=sample_weight,
        multioutput="raw_values" if per_entry else "uniform_average",
    )
    return np.reshape(scores, target.shape[1:]) if per_entry else float(scores)


@overload
def pooled_r2(Y: ArrayLike, Y_pred: ArrayLike, *, center: ArrayLike | None = ..., mode: None = ...) -> float: ...
@overload
def pooled_r2(Y: ArrayLike, Y_pred: ArrayLike, *, center: ArrayLike | None = ..., mode: int) -> FloatArray: ...
def pooled_r2(
    Y: ArrayLike, Y_pred: ArrayLike, *, center: ArrayLike | None = None, mode: int | None = None
) -> float | FloatArray:
    """``1 - SSE / SST`` with both sums over all samples and response entries.

    Entries with more variance count for more, where `r2_score` counts all alike.

    Parameters
    ----------
    Y, Y_pred : array-like of shape (n_samples, *y_shape)
        Responses and their predictions.
    center : array-like of shape y_shape, optional
        What SST is measured about; by default the mean of each response entry. Give the training mean to
        compare predictions of new samples with the best constant known beforehand.
    mode : int, optional
        A response mode, counted from 0: a score for each of its entries, with sums over all others.

    Returns
    -------
    float, or ndarray of shape (e_mode,)
        Where `Y` does not vary, 1 for an exact prediction, else 0.

    Examples
    --------
    >>> pooled_r2([[0.0, 10.0], [2.0, 30.0]], [[1.0, 10.0], [1.0, 30.0]])
    0.990
    """
    target, prediction = _responses(Y, Y_pred)
    middle = target.mean(axis=0) if center is None else np.broadcast_to(_finite("center", center), target.shape[1:])
    n_modes = target.ndim - 1
    if mode is not None and not -n_modes <= mode < n_modes:
        raise ValueError(f"mode is {mode}; the response has {n_modes} modes, counted from 0.")
    summed = tuple(axis for axis in range(target.ndim) if mode is None or axis != mode % n_modes + 1)
    sse, sst = (np.sum((target - other) ** 2, axis=summed) for other in (prediction, middle))
    scores = np.where(sst > 0, 1 - sse / np.where(sst > 0, sst, 1.0), sse == 0)
    return float(scores) if mode is None else scores


def permutation_importance(
    estimator: Any,
    X: ArrayLike,
    Y: ArrayLike,
    *,
    mode: int = 0,
    n_repeats: int = 5,
    random_state: int | np.random.Generator | None = None,
) -> FloatArray:
    """How much the score falls when an entry of a predictor mode is shuffled among the samples.

    All predictors that share the entry move together: a tissue with all its genes, a time with all its places.

    Parameters
    ----------
    estimator : fitted estimator
        With ``score(X, Y)``.
    X, Y : array-like of shape (n, d_1, ..., d_p) and (n, e_1, ..., e_q)
        Better samples that the fit did not see.
    mode : int, default=0
        A predictor mode, counted from 0.
    n_repeats : int, default=5
        How often each entry is shuffled.
    random_state : int, Generator or None, default=None

    Returns
    -------
    ndarray of shape (d_mode, n_repeats)
        Score as it is, less the score with the entry shuffled: 0 for an entry that the model does not use.

    Examples
    --------
    >>> import numpy as np
    >>> from dst2r import DST2R
    >>> X = np.random.default_rng(0).normal(size=(100, 3, 4))
    >>> model = DST2R().fit(X, X[:, 1, 2])
    >>> permutation_importance(model, X, X[:, 1, 2], mode=0, random_state=0).mean(axis=1) > 1
    array([False,  True, False])
    """
    shuffled, Y = np.array(X), np.asarray(Y)
    n_modes = shuffled.ndim - 1
    if not -n_modes <= mode < n_modes:
        raise ValueError(f"mode is {mode}; the predictor has {n_modes} modes, counted from 0.")
    entries, draw = np.moveaxis(shuffled, mode % n_modes + 1, 0), np.random.default_rng(random_state)
    whole = estimator.score(shuffled, Y)
    falls = np.empty((len(entries), n_repeats))
    for entry, row in zip(entries, falls, strict=True):
        before = entry.copy()
        for k in range(n_repeats):
            entry[...] = before[draw.permutation(len(before))]
            row[k] = whole - estimator.score(shuffled, Y)
        entry[...] = before
    return falls


def _check_tolerance(tol: float) -> None:
    if not 0 <= tol < 1:
        raise ValueError(f"tol is relative to the largest entry and must be at least 0 and below 1, got {tol!r}.")


def _finite(name: str, values: ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has NaN or infinite entries; a score of it would mean nothing.")
    return array


def _pair(name: str, values: ArrayLike, other_name: str, other_values: ArrayLike) -> tuple[FloatArray, FloatArray]:
    array, other = _finite(name, values), _finite(other_name, other_values)
    if array.shape != other.shape:
        raise ValueError(f"{name} and {other_name} must have one shape, got {array.shape} and {other.shape}.")
    return array, other


def _responses(Y: ArrayLike, Y_pred: ArrayLike) -> tuple[FloatArray, FloatArray]:
    target, prediction = _pair("Y", Y, "Y_pred", Y_pred)
    if target.ndim == 0 or len(target) == 0:
        raise ValueError(f"Y and Y_pred must hold at least one sample, got shape {target.shape}.")
    return target, prediction


def _components(name: str, cp: "CPTensor | Sequence[Any]") -> list[FloatArray]:
    """Factor matrices without the components that are zero; the largest magnitude in each column is 1."""
    weights, factors = _weights_and_factors(cp)
    matrices = [_finite(f"{name}, mode {k},", factor) for k, factor in enumerate(factors)]
    shapes = [matrix.shape for matrix in matrices]
    if not shapes or any(len(shape) != 2 or shape[1] != shapes[0][-1] for shape in shapes):
        raise ValueError(f"{name} must hold factor matrices of shape (d_k, rank) with one rank, got shapes {shapes}.")
    scales = np.array([np.abs(matrix).max(axis=0, initial=0.0) for matrix in matrices])
    rank = shapes[0][1]
    alive: BoolArray = np.all(scales > 0, axis=0)
    if weights is not None:
        weights = _finite(f"{name}, weights,", weights)
        if weights.shape != (rank,):
            raise ValueError(f"{name} must have one weight for each component, got {weights.shape}, not {(rank,)}.")
        alive &= weights != 0
    return [matrix[:, alive] / scale[alive] for matrix, scale in zip(matrices, scales, strict=True)]


def _weights_and_factors(cp: Any) -> tuple[Any, Sequence[Any]]:
    if hasattr(cp, "factors"):
        return cp.weights, cp.factors
    factors = list(cp)
    # A pair with a vector (or None) in front is (weights, factors); factor matrices have two axes.
    if len(factors) == 2 and np.ndim(factors[0]) < 2:
        return factors[0], factors[1]
    return None, factors


def _unit(factor: FloatArray) -> FloatArray:
    unit: FloatArray = factor / np.linalg.norm(factor, axis=0)
    return unit


def _share(found: BoolArray, among: BoolArray) -> float:
    """Share of the entries marked in `among` that are found; nan when there are none."""
    return float(found[among].mean()) if among.any() else np.nan


def _defined_mean(rates: list[float]) -> float:
    defined = [rate for rate in rates if not np.isnan(rate)]
    return float(np.mean(defined)) if defined else np.nan
