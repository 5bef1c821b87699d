"""Compiled loops: arrays and scalars in, arrays out. Everything else of the package is plain NumPy.

The search (docs/maths.md, section 3) sees one component ``w * a_1 o ... o a_p o b_1 o ... o b_q`` with factors of
unit l1 norm. A *side*, predictor or response, keeps its factors one after the other in one vector: mode k is
``side[offset[k]:offset[k + 1]]``, and its entries lie ``stride[k]`` apart in the raveled side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Problem(NamedTuple):
    """Statistics of the data and the layout of both sides; never written to."""

    gram: Floats  # (P, P)
    cross: Floats  # (P, Q)
    cross_t: Floats  # (Q, P), the same numbers with responses as rows
    x_offset: Ints
    x_stride: Ints
    y_offset: Ints
    y_stride: Ints


class Component(NamedTuple):
    """One component and what a move needs to know; every field always belongs to the current factors.

    ``u`` and ``v`` stand for the outer products of the predictor and of the response factors.
    """

    a: Floats  # predictor factors, unit l1 norm each
    b: Floats  # response factors
    numbers: Floats  # weight w, u'Gu, v'v, u'Cv
    gram_u: Floats  # G u
    cross_v: Floats  # C v
    cross_u: Floats  # C' u
    v: Floats
    curvature: Floats  # d'Gd for d = u with one factor replaced by a unit vector


class Scratch(NamedTuple):
    """Buffers for sparse outer products and for what a move adds."""

    place: Ints
    value: Floats
    place2: Ints
    value2: Floats
    add_x: Floats
    add_y: Floats


WEIGHT, UGU, VV, UCV = 0, 1, 2, 3


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on the first call, and keep the machine code on disk if there is a folder that can be written."""
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # as in a container that is read-only
        return njit(nogil=True)(function)


@compiled
def outer_of_others(side, offset, stride, skip, also_skip, index, value):  # type: ignore[no-untyped-def]
    """Write the non-zeros of the outer product of all factors but two to ``index, value``; return how many.

    The skipped modes stay at position zero; ``also_skip`` may equal ``skip``.
    """
    index[0], value[0], count = 0, 1.0, 1
    for k in range(stride.size):
        if k in (skip, also_skip):
            continue
        alive = 0
        for i in range(offset[k], offset[k + 1]):
            alive += side[i] != 0.0
        slot = alive * count
        for e in range(count - 1, -1, -1):  # from the back: entries are expanded in place
            base, factor = index[e], value[e]
            for i in range(offset[k + 1] - 1, offset[k] - 1, -1):
                if side[i] != 0.0:
                    slot -= 1
                    index[slot] = base + (i - offset[k]) * stride[k]
                    value[slot] = factor * side[i]
        count *= alive
    return count


@compiled
def mode_gradients(residual, side, offset, stride, scratch):  # type: ignore[no-untyped-def]
    """Contract ``residual`` with all factors but one, for each mode; laid out as ``side``."""
    gradient = np.empty(side.size)
    index, value = scratch.place, scratch.value
    for k in range(stride.size):
        count = outer_of_others(side, offset, stride, k, k, index, value)
        for i in range(offset[k], offset[k + 1]):
            total, base = 0.0, (i - offset[k]) * stride[k]
            for e in range(count):
                total += residual[base + index[e]] * value[e]
            gradient[i] = total
    return gradient


@compiled
def best_backward(side, weight, gradient, curvature, step, l1, slack):  # type: ignore[no-untyped-def]
    """Shrink the non-zero entry that lowers the penalised loss most, if by more than ``slack``.

    Returns entry (or -1), signed move of ``weight * side`` and change of the loss.
    """
    best, entry, move, change = -slack, -1, 0.0, 0.0
    for i in range(side.size):
        if side[i] != 0.0:
            size = min(step, weight * abs(side[i]))  # to zero, never through it
            if size < weight:  # never the whole component
                s = -size if side[i] > 0.0 else size
                rise = s * gradient[i] + 0.5 * s * s * curvature[i]
                if rise - l1 * size < best:
                    best, entry, move, change = rise - l1 * size, i, s, rise
    return entry, move, change


@compiled
def best_forward(gradient, curvature, step):  # type: ignore[no-untyped-def]
    """Move the entry, of all, that lowers the loss most; entry -1 if a step lowers it nowhere."""
    entry, move, change = -1, 0.0, 0.0
    for i in range(gradient.size):
        rise = -step * abs(gradient[i]) + 0.5 * step * step * curvature[i]
        if rise < change:
            entry, move, change = i, (-step if gradient[i] > 0.0 else step), rise
    return entry, move, change


@compiled
def best_move(side, weight, gradient, curvature, step, l1, slack):  # type: ignore[no-untyped-def]
    """Choose a phase's move: backward if that pays, else forward."""
    found = best_backward(side, weight, gradient, curvature, step, l1, slack)
    return found if found[0] >= 0 else best_forward(gradient, curvature, step)


@compiled
def mode_of(entry, offset):  # type: ignore[no-untyped-def]
    """Mode to which an entry of a side belongs."""
    mode = 0
    while offset[mode + 1] <= entry:
        mode += 1
    return mode


@compiled
def move_entry(side, start, stop, entry, move, weight):  # type: ignore[no-untyped-def]
    """Add ``move`` to ``weight * side[entry]``; return the new weight. The factor keeps unit l1 norm."""
    value = weight * side[entry] + move
    if abs(value) <= 1e-12 * weight:  # rounding must not keep an entry alive that was meant to reach zero
        value = 0.0
    total = abs(value)
    for i in range(start, stop):
        if i != entry:
            side[i] *= weight
            total += abs(side[i])
    side[entry] = value
    for i in range(start, stop):
        side[i] /= total
    return total


@compiled
def new_weight(side, start, stop, entry, move, weight):  # type: ignore[no-untyped-def]
    """Weight that :func:`move_entry` will return."""
    total = abs(weight * side[entry] + move)
    for i in range(start, stop):
        if i != entry:
            total += weight * abs(side[i])
    return total


@compiled
def update_curvature(problem, part, scratch, mode, entry, move, weight_after):  # type: ignore[no-untyped-def]
    """Carry ``part.curvature`` over a move of ``entry`` in ``mode``; to be called before the factors move.

    Only the other modes' directions change: d becomes ``(w d + move e) / w'`` with e the part of u that moves.
    """
    gram, a, offset, stride = problem.gram, part.a, problem.x_offset, problem.x_stride
    index, value, index2, value2 = scratch.place, scratch.value, scratch.place2, scratch.value2
    shift = (entry - offset[mode]) * stride[mode]
    keep, add = part.numbers[WEIGHT] / weight_after, move / weight_after
    for k in range(stride.size):
        if k == mode:
            continue
        n_old = outer_of_others(a, offset, stride, k, k, index, value)
        n_new = outer_of_others(a, offset, stride, k, mode, index2, value2)
        for i in range(offset[k], offset[k + 1]):
            base = (i - offset[k]) * stride[k]
            cross, square = 0.0, 0.0
            for e in range(n_new):
                row = gram[base + shift + index2[e]]
                inner = 0.0
                for f in range(n_old):
                    inner += row[base + index[f]] * value[f]
                cross += value2[e] * inner
                inner = 0.0
                for f in range(n_new):
                    inner += row[base + shift + index2[f]] * value2[f]
                square += value2[e] * inner
            part.curvature[i] = keep * keep * part.curvature[i] + 2.0 * keep * add * cross + add * add * square


@compiled
def start_component(problem, x_entry, y_entry, part):  # type: ignore[no-untyped-def]
    """Set ``part`` to the single entry (x_entry, y_entry), signed to lower the loss; its weight is left alone."""
    part.a[:] = 0.0
    part.b[:] = 0.0
    part.v[:] = 0.0
    rest = x_entry
    for k in range(problem.x_stride.size):
        part.a[problem.x_offset[k] + rest // problem.x_stride[k]] = 1.0
        rest %= problem.x_stride[k]
    rest = y_entry
    for k in range(problem.y_stride.size):
        part.b[problem.y_offset[k] + rest // problem.y_stride[k]] = 1.0
        rest %= problem.y_stride[k]
    sign = 1.0 if problem.cross[x_entry, y_entry] >= 0.0 else -1.0
    part.a[: problem.x_offset[1]] *= sign
    part.v[y_entry] = 1.0
    part.gram_u[:] = sign * problem.gram[x_entry]
    part.cross_v[:] = problem.cross_t[y_entry]
    part.cross_u[:] = sign * problem.cross[x_entry]
    part.numbers[UGU] = problem.gram[x_entry, x_entry]
    part.numbers[VV] = 1.0
    part.numbers[UCV] = abs(problem.cross[x_entry, y_entry])
    for k in range(problem.x_stride.size):
        here = (x_entry // problem.x_stride[k]) % (problem.x_offset[k + 1] - problem.x_offset[k])
        for i in range(problem.x_offset[k], problem.x_offset[k + 1]):
            j = x_entry + (i - problem.x_offset[k] - here) * problem.x_stride[k]
            part.curvature[i] = problem.gram[j, j]


@compiled
def contract(problem, part, scratch, step, l1, slack):  # type: ignore[no-untyped-def]
    """Move one predictor entry with the response side fixed (eq. 5); return whether, and the loss change."""
    numbers, offset, stride = part.numbers, problem.x_offset, problem.x_stride
    weight, vv = numbers[WEIGHT], numbers[VV]
    gradient = mode_gradients(weight * vv * part.gram_u - part.cross_v, part.a, offset, stride, scratch)
    entry, move, change = best_move(part.a, weight, gradient, vv * part.curvature, step, l1, slack)
    if entry < 0:
        return False, 0.0
    mode = mode_of(entry, offset)
    start, stop = offset[mode], offset[mode + 1]
    after = new_weight(part.a, start, stop, entry, move, weight)
    update_curvature(problem, part, scratch, mode, entry, move, after)

    # e = the part of u that the entry multiplies: one slice, non-zero where the other factors are
    count = outer_of_others(part.a, offset, stride, mode, mode, scratch.place, scratch.value)
    base = (entry - start) * stride[mode]
    scratch.add_x[:] = 0.0
    scratch.add_y[:] = 0.0
    e_gram_u, e_cross_v, e_gram_e = 0.0, 0.0, 0.0
    for e in range(count):
        j, c = base + scratch.place[e], scratch.value[e]
        e_gram_u += c * part.gram_u[j]
        e_cross_v += c * part.cross_v[j]
        add_scaled(scratch.add_x, c, problem.gram[j])
        add_scaled(scratch.add_y, c, problem.cross[j])
    for e in range(count):
        e_gram_e += scratch.value[e] * scratch.add_x[base + scratch.place[e]]

    numbers[WEIGHT] = move_entry(part.a, start, stop, entry, move, weight)
    keep, add = weight / numbers[WEIGHT], move / numbers[WEIGHT]
    numbers[UGU] = keep * keep * numbers[UGU] + 2.0 * keep * add * e_gram_u + add * add * e_gram_e
    numbers[UCV] = keep * numbers[UCV] + add * e_cross_v
    mix(part.gram_u, keep, add, scratch.add_x)
    mix(part.cross_u, keep, add, scratch.add_y)
    return True, change


@compiled
def generate(problem, part, scratch, step, l1, slack):  # type: ignore[no-untyped-def]
    """Move one response entry with the predictor side fixed (eq. 6); return whether, and the loss change."""
    numbers, offset, stride = part.numbers, problem.y_offset, problem.y_stride
    weight, ugu = numbers[WEIGHT], numbers[UGU]
    gradient = mode_gradients(weight * ugu * part.v - part.cross_u, part.b, offset, stride, scratch)
    curvature = np.empty(part.b.size)
    for k in range(stride.size):
        h = numbers[VV] * ugu / np.sum(part.b[offset[k] : offset[k + 1]] ** 2)
        curvature[offset[k] : offset[k + 1]] = h
    entry, move, change = best_move(part.b, weight, gradient, curvature, step, l1, slack)
    if entry < 0:
        return False, 0.0
    mode = mode_of(entry, offset)
    start, stop = offset[mode], offset[mode + 1]
    count = outer_of_others(part.b, offset, stride, mode, mode, scratch.place, scratch.value)
    base = (entry - start) * stride[mode]
    scratch.add_x[:] = 0.0
    e_v, e_e, e_cross_u = 0.0, 0.0, 0.0
    for e in range(count):
        j, c = base + scratch.place[e], scratch.value[e]
        e_v += c * part.v[j]
        e_e += c * c
        e_cross_u += c * part.cross_u[j]
        add_scaled(scratch.add_x, c, problem.cross_t[j])

    numbers[WEIGHT] = move_entry(part.b, start, stop, entry, move, weight)
    keep, add = weight / numbers[WEIGHT], move / numbers[WEIGHT]
    numbers[VV] = keep * keep * numbers[VV] + 2.0 * keep * add * e_v + add * add * e_e
    numbers[UCV] = keep * numbers[UCV] + add * e_cross_u
    mix(part.cross_v, keep, add, scratch.add_x)
    mix(part.v, keep, 0.0, part.v)
    for e in range(count):
        part.v[base + scratch.place[e]] += add * scratch.value[e]
    return True, change


@compiled
def add_scaled(out, factor, row):  # type: ignore[no-untyped-def]
    """``out += factor * row``."""
    for i in range(out.size):
        out[i] += factor * row[i]


@compiled
def mix(out, keep, add, other):  # type: ignore[no-untyped-def]
    """``out = keep * out + add * other``."""
    for i in range(out.size):
        out[i] = keep * out[i] + add * other[i]


@compiled
def stagewise(problem, part, scratch, rules, path, factors):  # type: ignore[no-untyped-def]
    """Alternate contract and generate from the component in ``part``; return the number of path points.

    ``rules`` holds the step, whether it is relative to the weight, ``tol`` (the slack is ``tol * l1 * step``), and the
    l1 at which to stop. Row t of ``path`` is (l1, weight, change of loss from zero), of ``factors`` (a, b).
    Invariant: l1 never rises.
    """
    step_size, relative, l1_end = rules[0], rules[1] > 0.0, rules[3]
    tol = max(rules[2], 1e-9)  # below rounding a move and its reverse could both seem to pay
    numbers = part.numbers
    # A first step beyond the minimum along its coordinate would not lower the loss.
    best_weight = numbers[UCV] / numbers[UGU]
    step = min(step_size * best_weight if relative else step_size, best_weight)
    numbers[WEIGHT] = step
    l1 = numbers[UCV] - 0.5 * step * numbers[UGU]  # what it gains per unit of weight
    n_phases = 2 if problem.y_stride.size > 0 else 1  # a scalar response leaves nothing to generate
    t, idle_phases, in_contract = 0, 0, True
    while True:
        path[t, 0], path[t, 1] = l1, numbers[WEIGHT]
        path[t, 2] = 0.5 * numbers[WEIGHT] ** 2 * numbers[UGU] * numbers[VV] - numbers[WEIGHT] * numbers[UCV]
        factors[t, : part.a.size] = part.a
        factors[t, part.a.size :] = part.b
        t += 1
        moved = False
        while not moved:
            if t == path.shape[0] or l1 <= l1_end or idle_phases == n_phases:
                return t
            # By doubling: between two doublings all moves lie on one grid. Weights on the grid meet the bound exactly,
            # so rounding must not decide.
            while relative and 2.0 * step <= step_size * numbers[WEIGHT] * (1.0 + 1e-9):
                step *= 2.0
            weight, slack = numbers[WEIGHT], tol * l1 * step
            if in_contract:
                moved, change = contract(problem, part, scratch, step, l1, slack)
            else:
                moved, change = generate(problem, part, scratch, step, l1, slack)
            in_contract = not in_contract or n_phases == 1
            idle_phases = 0 if moved else idle_phases + 1
        grown = numbers[WEIGHT] - weight
        if grown > 0.0:  # eq. 7, after either phase
            l1 = min(l1, (-change - slack) / grown)


@compiled
def lasso_quadratic(hessian, gradient, theta, penalty, tol, max_sweeps):  # type: ignore[no-untyped-def]
    """Minimise ``g'(t - t0) + (t - t0)'H(t - t0)/2 + sum penalty|t|`` over t from ``theta`` = t0, in place.

    Invariant: ``gradient`` is the gradient of the quadratic at ``theta``. Returns the sweeps made, -1 if too many.
    """
    for sweep in range(max_sweeps):
        worst = 0.0
        for j in range(theta.size):
            h = hessian[j, j]
            if h <= 0.0:
                continue
            z = h * theta[j] - gradient[j]
            size = abs(z) - penalty[j]
            new = 0.0 if size <= 0.0 else (size / h if z > 0.0 else -size / h)
            move = new - theta[j]
            if move != 0.0:
                theta[j] = new
                add_scaled(gradient, move, hessian[j])
                worst = max(worst, move * move * h)
        if worst <= tol:
            return sweep + 1
    return -1


@compiled
def eliminate(covariance, theta, price):  # type: ignore[no-untyped-def]
    """Set to zero, one by one, the entry that costs least, while that costs less than ``price``; return the order.

    The cost of zeroing entry j, twice the rise of the loss, is ``theta_j^2 / covariance_jj``, after which the other
    entries take over what they can. Invariant: ``theta`` and ``covariance`` are those of the constrained least-squares
    problem.
    """
    n = theta.size
    alive = np.arange(n)
    count = n
    order = np.empty(n, np.int64)
    removed = 0
    while count > 0:
        best, slot = price, -1
        for s in range(count):
            j = alive[s]
            cost = theta[j] ** 2 / covariance[j, j] if covariance[j, j] > 0.0 else 0.0
            if cost < best:
                best, slot = cost, s
        if slot < 0:
            break
        j = alive[slot]
        count -= 1
        alive[slot] = alive[count]
        order[removed] = j
        removed += 1
        if covariance[j, j] > 0.0:
            share = theta[j] / covariance[j, j]
            for s in range(count):
                i = alive[s]
                theta[i] -= covariance[i, j] * share
                add_scaled(covariance[i], -covariance[i, j] / covariance[j, j], covariance[j])
        theta[j] = 0.0
    return order[:removed]
