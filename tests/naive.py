"""The method from its definitions, in plain NumPy on the rows: slow, short, and sharing no code with the package.

Rows are ``X (n, d_1, ..., d_p)`` and ``Y (n, d_p+1, ..., d_p+q)``, already centred where that is wanted. ``factors`` is
a sequence of matrices ``(d_k, R)`` and a component is ``weight`` times one vector ``(d_k,)`` a mode, as the text says.
"""

from functools import reduce
from typing import NamedTuple

import numpy as np


def centred(rows, weights=None):
    """Rows less their mean."""
    return rows - np.average(rows, axis=0, weights=weights)


def outer(vectors):
    """Outer product of vectors; the number one if there are none."""
    return reduce(np.multiply.outer, vectors, np.ones(()))


def dense(factors):
    """``sum_r a_1r o a_2r o ...``."""
    letters = "abcdefghijkl"[: len(factors)]
    return np.einsum(",".join(f"{k}z" for k in letters) + "->" + letters, *factors)


def predicted(X, B):
    """``<<X_m, B>>`` for every sample m."""
    return np.tensordot(X, B, axes=X.ndim - 1)


def objective(X, Y, factors, l1=0.0, l2=0.0):
    """``||Y - <<X, B>>||^2 / 2n + l2/2 ||B||_F^2 + l1 sum_r ||B_r||_1`` (DESIGN section 2)."""
    B = dense(factors)
    loss = np.sum((Y - predicted(X, B)) ** 2) / (2 * len(X))
    sizes = [np.abs(dense([f[:, [r]] for f in factors])).sum() for r in range(factors[0].shape[1])]
    return loss + 0.5 * l2 * np.sum(B**2) + l1 * np.sum(sizes)


# The paper's Algorithms 1 to 3 for one component, with the corrections of DESIGN section 3.


class RowsPath(NamedTuple):
    """One row for every point of the path; ``factors`` holds all modes' vectors, one after the other."""

    l1: np.ndarray
    weight: np.ndarray
    loss: np.ndarray
    factors: np.ndarray


def stagewise_rows(X, Y, step_size, relative=True, gamma=1e-5, l1_end=0.0, max_steps=20_000):
    """Algorithm 1: contract and generate in turn, from the entry that the KKT conditions choose.

    ``step_size`` is the step in ``||B||_1``; if ``relative``, the step is doubled whenever it has fallen to half of
    ``step_size`` times the weight. ``gamma`` is relative to the penalty of a step.
    """
    start = kkt_start(X, Y)
    p, q, n_entries = X.ndim - 1, Y.ndim - 1, sum(X.shape[1:]) + sum(Y.shape[1:])
    if start is None or start.l1 <= l1_end:
        return RowsPath(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros((0, n_entries)))
    factors = start.factors
    step = min(step_size * start.best_weight if relative else step_size, start.best_weight)
    weight = step
    loss = loss_of(residual(X, Y, weight, factors))
    l1 = (loss_of(Y) - loss) / step
    path = [(l1, weight, loss, np.concatenate(factors))]
    phases = [contract, generate] if q else [contract]
    turn, idle = 0, 0
    while len(path) < max_steps and l1 > l1_end and idle < len(phases):
        while relative and 2 * step <= step_size * weight * (1 + 1e-9):  # on the grid, where it may just hold
            step *= 2
        slack = gamma * l1 * step
        phase = phases[turn % len(phases)]
        turn += 1
        moved = phase(X, Y, weight, factors, step, l1, slack)
        if moved is None:
            idle += 1
            continue
        idle = 0
        old_weight, old_loss = weight, loss
        weight, factors = moved
        loss = loss_of(residual(X, Y, weight, factors))
        if weight > old_weight:
            l1 = min(l1, (old_loss - loss - slack) / (weight - old_weight))
        path.append((l1, weight, loss, np.concatenate(factors)))
    assert len(factors) == p + q
    return RowsPath(*(np.array(column) for column in zip(*path, strict=True)))


class Start(NamedTuple):
    """Where a path starts: the least l1 that keeps zero, the component's vectors, and the best weight on them."""

    l1: float
    factors: list
    best_weight: float


def kkt_start(X, Y):
    """The largest entry of X'Y/n; the first mode carries its sign. None if nothing can be explained."""
    cross = np.tensordot(X, Y, axes=(0, 0)) / len(X)
    entry = np.unravel_index(np.abs(cross).argmax(), cross.shape)
    square = np.mean(X[(slice(None), *entry[: X.ndim - 1])] ** 2)
    if cross[entry] == 0 or square == 0:
        return None
    factors = [np.eye(d)[i] for d, i in zip(cross.shape, entry, strict=True)]
    factors[0] = factors[0] * np.sign(cross[entry])
    return Start(abs(cross[entry]), factors, abs(cross[entry]) / square)


def contract(X, Y, weight, factors, step, l1, slack):
    """Algorithm 2: one move of a predictor entry, with the response part fixed."""
    p, n = X.ndim - 1, len(X)
    error = residual(X, Y, weight, factors)
    response_part = outer(factors[p:])
    gradients, curvatures = [], []
    for k in range(p):
        Z = np.multiply.outer(contracted(X, factors[:p], skip=k), response_part)  # (n, d_k, response modes)
        Z = Z.reshape(n, -1, response_part.size)
        gradients.append(-np.einsum("ndq,nq->d", Z, error.reshape(n, -1)) / n)
        curvatures.append(np.einsum("ndq,ndq->d", Z, Z) / n)
    return search_stages(weight, factors, range(p), gradients, curvatures, (step, l1, slack))


def generate(X, Y, weight, factors, step, l1, slack):
    """Algorithm 3: one move of a response entry, with the predictor part fixed."""
    p, n = X.ndim - 1, len(X)
    error = residual(X, Y, weight, factors)
    scores = contracted(X, factors[:p])
    gradients, curvatures = [], []
    for k in range(p, len(factors)):
        others = outer([f for m, f in enumerate(factors) if m >= p and m != k])
        Z = np.multiply.outer(scores, others).reshape(n, -1)  # (n, all response modes but k)
        unfolded = np.moveaxis(error, 1 + k - p, 1).reshape(n, factors[k].size, -1)
        gradients.append(-np.einsum("ndz,nz->d", unfolded, Z) / n)
        curvatures.append(np.full(factors[k].size, np.sum(Z**2) / n))
    return search_stages(weight, factors, range(p, len(factors)), gradients, curvatures, (step, l1, slack))


def search_stages(weight, factors, modes, gradients, curvatures, rules):
    """Backward if that pays, else forward; the new weight and factors, or None if no move lowers the loss.

    Gradients and curvatures are those of the loss in ``weight * factors[k]``.
    """
    step, l1, slack = rules
    gradient, curvature = np.concatenate(gradients), np.concatenate(curvatures)
    beta = weight * np.concatenate([factors[k] for k in modes])

    size = np.minimum(step, np.abs(beta))
    move = -np.sign(beta) * size
    penalised = move * gradient + 0.5 * move**2 * curvature - l1 * size
    penalised[(beta == 0) | (size >= weight)] = np.inf  # only what is there, and never the whole component
    best = penalised.argmin()
    if not penalised[best] < -slack:
        move = -np.sign(gradient) * step
        change = move * gradient + 0.5 * move**2 * curvature
        best = change.argmin()
        if not change[best] < 0:
            return None

    sizes = [factors[k].size for k in modes]
    mode = int(np.searchsorted(np.cumsum(sizes), best, side="right"))
    k, i = modes[mode], best - sum(sizes[:mode])
    moved = weight * factors[k]
    moved[i] += move[best]
    if abs(moved[i]) <= 1e-12 * weight:
        moved[i] = 0.0
    new_weight = np.abs(moved).sum()
    return new_weight, [*factors[:k], moved / new_weight, *factors[k + 1 :]]


def contracted(X, vectors, skip=None):
    """X with its modes contracted with ``vectors``, one a mode, save the mode ``skip``."""
    for k in reversed(range(len(vectors))):
        if k != skip:
            X = np.tensordot(X, vectors[k], axes=(1 + k, 0))
    return X


def residual(X, Y, weight, factors):
    """``Y - weight * <X, B_P> o B_Q``."""
    p = X.ndim - 1
    return Y - weight * np.multiply.outer(contracted(X, factors[:p]), outer(factors[p:]))


def loss_of(error):
    """``||E||^2 / 2n``."""
    return np.sum(error**2) / (2 * len(error))
