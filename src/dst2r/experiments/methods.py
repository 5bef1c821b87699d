"""The methods, and how an estimate is scored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from scipy.stats import norm
from tensorly.cp_tensor import CPTensor

from dst2r import DST2R, DST2RCV
from dst2r.baselines import HOLRR, STORE, CPRidge, SparseOLS, TensorEnvelope
from dst2r.correction import least_squares, local_model
from dst2r.cp import Array, CPCoefficient
from dst2r.experiments.settings import EPSILONS
from dst2r.metrics import estimation_error, relative_error, selection_rates, support_rates
from dst2r.search import search
from dst2r.simulation import TensorRegression
from dst2r.statistics import GramStatistics

IDEAL_FPR = 0.02
FINE_STEP = 1 / 1000  # of a component's weight: some 2,000 steps


@dataclass(frozen=True)
class Method:
    """A competitor, or a reference.

    Attributes
    ----------
    label : str
        For people.
    build : callable
        From the data, of which it uses the true rank and shapes only, and a seed, to an estimator.
    given : str
        What it is told and how the rest is chosen.
    competes : bool
        False for what nobody could run on data of their own.
    """

    label: str
    build: Callable[[TensorRegression, int], Any]
    given: str
    competes: bool = True


class Oracle:
    """Least squares from the truth on the true support: no estimator of this model can expect to do better.

    ``ideal_tpr_`` is the power of a test of each non-zero entry that knows all other entries of the truth, its scale
    excepted, and is wrong for ``IDEAL_FPR`` of the zeros.
    """

    def __init__(self, data: TensorRegression) -> None:
        self.truth, self.noise = CPCoefficient(data.factors, data.X.ndim - 1), data.noise

    def fit(self, X: Array, Y: Array) -> Self:
        """Fit the non-zero entries."""
        stats = GramStatistics.from_arrays(X, Y)
        fit = least_squares(stats, self.truth, support=self.truth.ravel() != 0.0, max_iter=1000)
        self.coef_, self.cp_ = fit.coef.to_tensor(), fit.coef.normal_form()
        self.ideal_tpr_ = self._power(stats)
        return self

    def _power(self, stats: GramStatistics) -> float:
        entries = self.truth.ravel()
        alive = np.flatnonzero(entries)
        hessian = local_model(stats, self.truth).hessian[np.ix_(alive, alive)]
        # H/sigma^2 is the information of a sample. The scales that modes share do not count: local_model curves them.
        deviation = self.noise * np.sqrt(np.linalg.inv(hessian).diagonal() / stats.n_samples)
        size, cut = np.abs(entries[alive]) / deviation, norm.isf(IDEAL_FPR / 2)
        power = norm.sf(cut - size) + norm.cdf(-cut - size)
        mode = np.repeat(np.arange(len(self.truth.factors)), [f.size for f in self.truth.factors])[alive]
        return float(np.mean([power[mode == k].mean() for k in range(len(self.truth.factors))]))


def _rank(data: TensorRegression) -> int:
    return data.factors[0].shape[1]


def _response_ranks(data: TensorRegression) -> tuple[int, ...]:
    """Multilinear rank of a coefficient of the true CP rank, on the response modes."""
    return tuple(min(_rank(data), d) for d in data.Y.shape[1:])


def _as_printed(data: TensorRegression, seed: int, step_size: float | str = "auto") -> DST2RCV:
    """The paper's procedure, with one fine ε for all components unless another one is asked for.

    The default step is made for what is corrected afterwards; without, it would cost up to 13 times the error.
    """
    if step_size == "auto":
        first = search(GramStatistics.from_arrays(data.X, data.Y))
        step_size = FINE_STEP * float(first.weight[-1])
    return DST2RCV((_rank(data),), cv=5, correction="none", relax=False, step_size=step_size)


def _default(data: TensorRegression, seed: int, step_size: float | str = "auto") -> DST2R:
    return DST2R(_rank(data), step_size=step_size)


METHODS: dict[str, Method] = {
    # By BIC, Sparse OLS has the larger error throughout, beyond least squares where B has few zeros.
    "sparse_ols": Method("Sparse OLS", lambda data, seed: SparseOLS(cv=5), "l1 by 5-fold CV"),
    "store": Method(
        "STORE",
        lambda data, seed: STORE(_rank(data), random_state=seed),
        "true rank; sparsity by BIC",
    ),
    # Told the true dimensions, the envelope would do worse: what is below the noise is better left out.
    "env": Method("ENV", lambda data, seed: TensorEnvelope(), "dimensions by BIC"),
    "env_p": Method(
        "ENV, p ≤ 0.05",
        lambda data, seed: TensorEnvelope(p_threshold=0.05),
        "dimensions by BIC; entries with p > 0.05 set to zero",
    ),
    "holrr": Method(
        "HOLRR",
        lambda data, seed: HOLRR((_rank(data), *_response_ranks(data))),
        "true multilinear rank; ridge by 3-fold CV",
    ),
    "cp_ridge": Method(
        "CPRidge",
        lambda data, seed: CPRidge(_rank(data), n_restarts=10, random_state=seed),
        "true rank; ridge by 5-fold CV; the best of 20 starts",
    ),
    # Envelopes of full dimension are least squares.
    "ols": Method("OLS", lambda data, seed: TensorEnvelope(data.Y.shape[1:]), "nothing to choose"),
    "printed": Method(
        "DST2R as printed",
        _as_printed,
        "true rank; l1 by 5-fold CV; correction='none', no refit; ε 1/1000 of the first component's weight",
    ),
    "final": Method(
        "DST2R, corrected once", lambda data, seed: DST2R(_rank(data), correction="final"), "true rank; l1 by BIC"
    ),
    "dst2r": Method("DST2R", _default, "true rank; l1 by BIC; the defaults"),
    "oracle": Method(
        "oracle", lambda data, seed: Oracle(data), "the truth's zeros, and the truth to start from", False
    ),
}
for _epsilon in EPSILONS:
    for _stage, _build in (("printed", _as_printed), ("dst2r", _default)):
        METHODS[f"{_stage}_eps_{_epsilon:g}"] = Method(
            f"{METHODS[_stage].label}, ε = {_epsilon:g}",
            partial(_build, step_size=_epsilon),
            METHODS[_stage].given,
        )


def score(model: Any, data: TensorRegression) -> dict[str, float]:
    """Error and selection rates of a fitted method; nan where a measure does not apply.

    Rates are of the factors after matching components one to one, of all modes and of the response modes alone, where a
    method has such factors; and of the support of the coefficient tensor, which every method has.
    """
    of_coef = support_rates(model.coef_, data.coef)
    return {
        "error": estimation_error(model.coef_, data.coef),
        "relative_error": relative_error(model.coef_, data.coef),
        **_factor_rates(model, data),
        "tpr_coef": of_coef.tpr,
        "fpr_coef": of_coef.fpr,
        "ideal_tpr": getattr(model, "ideal_tpr_", np.nan),
    }


def _factor_rates(model: Any, data: TensorRegression) -> dict[str, float]:
    rates = dict.fromkeys(("tpr_factors", "fpr_factors", "tpr_response", "fpr_response"), np.nan)
    if not hasattr(model, "cp_"):
        return rates
    truth = CPCoefficient(data.factors, data.X.ndim - 1)
    if len(model.cp_.factors) == len(data.factors):
        found = selection_rates(model.cp_, data.cp)
        rates |= {"tpr_factors": found.tpr, "fpr_factors": found.fpr}
    else:  # STORE's predictor is a vector, and dense: as in its paper, only the response modes are scored
        joined = CPTensor((np.ones(truth.rank), [truth.x_side(), *truth.y_factors]))
        found = selection_rates(model.cp_, joined)
    responses = slice(-len(truth.y_factors), None)
    tpr, fpr = np.nanmean(found.tpr_per_mode[responses]), np.nanmean(found.fpr_per_mode[responses])
    return rates | {"tpr_response": float(tpr), "fpr_response": float(fpr)}
