"""The likelihood of a log of pulls: its value, its gradient and its Fisher information.

Given (b, lam, q0) the state is a known function of the arms pulled, so the probability of a
reward is known too, for every pull: ``mu = r[I] * q``. A row whose reward is not known moves the
state as any other does, and adds nothing else. One sweep over the rows carries the state together
with its derivatives:

- ``w[j] = dq/db[j]``, which goes to ``(1 - lam) * w[j] + lam * [I == j]``;
- ``dq/dlam``, which goes to ``(1 - lam) * dq/dlam + b[I] - q``;
- ``dq/dq0``, which goes to ``(1 - lam) * dq/dq0``.

Parameters always stand in this order: ``r[0..K-1], b[0..K-1], lam, q0``, 2K + 2 in all. A
caller who knows ``lam`` or ``q0`` leaves out its row and column.

A sweep may stop and go on: its whole memory is one small array, see :func:`fresh_state`.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bdes_framework._internal.arrays import FloatArray, IntArray, read_only
from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.log import checked_rewards, checked_rows
from bdes_framework.model.compiling import compiled
from bdes_framework.model.instance import Instance

MIN_PROBABILITY = 1e-10
"""Probabilities are kept this far away from 0 and from 1: no single row says everything."""

_ROWS_AT_ONCE = 8
# One logarithm is taken of the product of as many probabilities, which cannot vanish, and as
# many outer products are added in one pass: both cost more than all the rest of a row.

VANISHED = 1e-100
# Derivatives die out geometrically. Below this they count for nothing, and their products
# would be denormal numbers, on which processors are up to a hundred times slower.

AnyIntArray: TypeAlias = NDArray[np.signedinteger[Any]]
"""Arms, as 16, 32 or 64-bit integers: a log of many rows is kept small."""

AnyRewards: TypeAlias = NDArray[np.signedinteger[Any] | np.floating[Any]]
"""Rewards in [0, 1], as integers or floats; NaN, or a number below 0, where one is not known."""

_ARMS = [np.dtype(f"={kind}") for kind in ("i4", "i8")]
_REWARDS = [np.dtype(f"={kind}") for kind in ("i1", "f4", "f8")]
# What sweeps are compiled for, a second or two for each pair; other numbers are converted.


class Likelihood(NamedTuple):
    """What some rows say about the parameters ``r, b, lam, q0``, in this order."""

    value: float
    """The log-likelihood."""
    score: FloatArray
    """Shape (2K+2,): its gradient."""
    information: FloatArray
    """Shape (2K+2, 2K+2): the expected Fisher information, given the arms pulled."""


def fresh_state(n_arms: int, q0: float) -> FloatArray:
    """Return a sweep's memory before the first row of a sequence: shape (K+3,).

    The derivatives of the state by ``b`` (K numbers), by ``lam`` and by ``q0``; then the
    state itself, ``state[-1]``.
    """
    state = np.zeros(n_arms + 3)
    state[-2:] = 1.0, q0
    return state


def likelihood_of(
    instance: Instance,
    arms: Sequence[int] | AnyIntArray,
    rewards: Sequence[float] | AnyRewards,
    starts: Sequence[int] | IntArray | None = None,
    state: FloatArray | None = None,
) -> Likelihood:
    """Return log-likelihood, score and information of a log, in one compiled sweep.

    Parameters
    ----------
    instance : Instance
        The parameters to judge.
    arms, rewards : Sequence[float] | NDArray, n numbers each
        Which arm each row pulled, and what it paid, 0 or 1. (A reward in between counts as a
        success of that weight.) NaN, or what a log has for it, where it is not known.
    starts : Sequence[int] | IntArray | None
        Rows at which a new sequence begins, back at state ``q0``: increasing. Row 0 is a
        start anyway, unless ``state`` is given.
    state : FloatArray | None
        From :func:`fresh_state`, or where an earlier sweep under the same instance stopped; moved
        in place to where this one stops. The results of the parts add up to that of the whole.

    Examples
    --------
    >>> one = Instance(r=[0.5], b=[0.5], lam=0.5)
    >>> found = likelihood_of(one, np.array([0, 0]), np.array([1, 0]))
    >>> round(found.value, 6) == round(math.log(0.5) + math.log(1 - 0.5 * 0.75), 6)
    True
    """
    played = checked_rows("arms", arms, "iu", instance.n_arms - 1)
    played = played if played.dtype in _ARMS else played.astype(np.int64)
    paid = checked_rewards(rewards)
    paid = paid if paid.dtype in _REWARDS else paid.astype(np.float64)
    if played.size != paid.size:
        sizes = f"{paid.size} for {played.size}"
        raise InvalidValueError(f"need one reward per arm pulled, got {sizes}")
    given = () if starts is None else starts
    begins = checked_rows("starts", given, "iu", played.size - 1)
    if (np.diff(begins) <= 0).any():
        raise InvalidValueError(f"starts must increase, got {quoted(starts)}")
    form = (getattr(state, "shape", None), getattr(state, "dtype", None))
    if state is not None and form != ((instance.n_arms + 3,), np.float64):
        raise InvalidValueError(f"state must come from fresh_state({instance.n_arms}, q0)")
    at = (instance.r, instance.b, instance.lam, instance.q0)
    return sweep_likelihood(played, paid, begins.astype(np.int64, copy=False), *at, state)


def sweep_likelihood(
    arms: AnyIntArray,
    rewards: AnyRewards,
    starts: IntArray,
    r: FloatArray,
    b: FloatArray,
    lam: float,
    q0: float,
    state: FloatArray | None = None,
) -> Likelihood:
    """Return what :func:`likelihood_of` does, of rows that need no checks: arms must exist."""
    size = 2 * r.size + 2
    score, information = np.zeros(size), np.zeros((size, size))
    memory = fresh_state(r.size, q0) if state is None else state
    # What may be written to is another type to numba, and compiled for anew.
    rows, at = (
        (read_only(arms), read_only(rewards), read_only(starts)),
        (read_only(r), read_only(b)),
    )
    value = sweep_information(*rows, *at, float(lam), float(q0), memory, score, information)
    return Likelihood(value, score, information)


@compiled
def paying_probability(r: float, q: float) -> float:
    """Return the probability of a reward, kept away from 0 and from 1."""
    return min(max(r * q, MIN_PROBABILITY), 1.0 - MIN_PROBABILITY)


@compiled
def restart_slopes(d: FloatArray) -> None:
    """Set the derivatives of the state, by b, lam and q0, to those at a sequence's start."""
    d[:] = 0.0
    d[d.size - 1] = 1.0


@compiled
def move_slopes(d: FloatArray, arm: int, lam: float, change: float) -> None:
    """Move the derivatives of the state past a pull; ``change`` is b[arm] less the state."""
    for j in range(d.size):
        x = d[j] * (1.0 - lam)
        d[j] = x if abs(x) > VANISHED else 0.0
    d[arm] += lam
    d[d.size - 2] += change


@compiled
def _of_fraction(mu: float, y: float) -> float:
    """Return the log-likelihood of a reward between 0 and 1: a success of that weight."""
    return y * math.log(mu) + (1.0 - y) * math.log(1.0 - mu)


@compiled
def _add_outer_products(rows: FloatArray, total: FloatArray) -> None:
    """Add the outer product of each of 8 rows with itself: its lower triangle."""
    n = total.shape[0]
    for i in range(n):
        a, b, c, d = rows[0, i], rows[1, i], rows[2, i], rows[3, i]
        e, f, g, h = rows[4, i], rows[5, i], rows[6, i], rows[7, i]
        for j in range(i + 1):
            first = (a * rows[0, j] + b * rows[1, j]) + (c * rows[2, j] + d * rows[3, j])
            second = (e * rows[4, j] + f * rows[5, j]) + (g * rows[6, j] + h * rows[7, j])
            total[i, j] += first + second


@compiled
def _mirror(total: FloatArray) -> None:
    """Fill in the upper triangle of a symmetric matrix."""
    for i in range(total.shape[0]):
        for j in range(i):
            total[j, i] = total[i, j]


@compiled
def sweep_log_likelihood(
    arms: AnyIntArray,
    rewards: AnyRewards,
    starts: IntArray,
    r: FloatArray,
    b: FloatArray,
    lam: float,
    q0: float,
    q: float,
) -> tuple[float, float]:
    """Return the log-likelihood of some rows from state ``q`` on, and the state after them.

    Several times faster than :func:`sweep_information`. Arms must exist: nothing is checked.
    """
    total, product, following = 0.0, 1.0, 0
    for t in range(arms.size):
        if following < starts.size and starts[following] == t:
            following += 1
            q = q0
        arm = arms[t]
        y = float(rewards[t])
        mu = paying_probability(r[arm], q)
        if y == 0.0 or y == 1.0:
            product *= mu if y == 1.0 else 1.0 - mu
        elif y >= 0.0:
            total += _of_fraction(mu, y)
        if t % _ROWS_AT_ONCE == _ROWS_AT_ONCE - 1:
            total += math.log(product)
            product = 1.0
        q = q + lam * (b[arm] - q)
    return total + math.log(product), q


@compiled
def sweep_log_likelihoods(
    arms: AnyIntArray,
    rewards: AnyRewards,
    r: FloatArray,
    b: FloatArray,
    lam: FloatArray,
    q: FloatArray,
    totals: FloatArray,
) -> None:
    """Fill in the log-likelihoods of one sequence under n instances, and move their states.

    The same bits as :func:`sweep_log_likelihood`, instance by instance, in a third of the time
    for a dozen of them: the rows are read once, and no instance waits for another.

    Parameters
    ----------
    arms, rewards : NDArray, shape (rows,)
        The sequence. Arms must exist: nothing is checked.
    r, b : FloatArray, shape (K, n)
        A column per instance.
    lam : FloatArray, shape (n,)
        Their rates.
    q : FloatArray, shape (n,)
        Their states; after the sweep, those after the rows.
    totals : FloatArray, shape (n,)
        Their log-likelihoods, filled in.
    """
    product = np.ones(q.size)
    totals[:] = 0.0
    for t in range(arms.size):
        arm = arms[t]
        y = float(rewards[t])
        if y == 0.0 or y == 1.0:
            for i in range(q.size):
                mu = paying_probability(r[arm, i], q[i])
                # One of the two, without a branch: so that several are computed at once.
                product[i] *= y * mu + (1.0 - y) * (1.0 - mu)
                q[i] = q[i] + lam[i] * (b[arm, i] - q[i])
        else:
            for i in range(q.size):
                if y >= 0.0:
                    totals[i] += _of_fraction(paying_probability(r[arm, i], q[i]), y)
                q[i] = q[i] + lam[i] * (b[arm, i] - q[i])
        if t % _ROWS_AT_ONCE == _ROWS_AT_ONCE - 1:
            for i in range(q.size):
                totals[i] += math.log(product[i])
                product[i] = 1.0
    for i in range(q.size):
        totals[i] += math.log(product[i])


@compiled
def sweep_information(
    arms: AnyIntArray,
    rewards: AnyRewards,
    starts: IntArray,
    r: FloatArray,
    b: FloatArray,
    lam: float,
    q0: float,
    state: FloatArray,
    score: FloatArray,
    information: FloatArray,
) -> float:
    """Add the score and the information of some rows; return their log-likelihood.

    ``state`` (see :func:`fresh_state`) is where the rows begin, and is moved to where they
    end; ``score`` and ``information`` are added to in place. Arms must exist: nothing is
    checked. Where a probability had to be clipped, the derivatives are those of ``r * q``.
    """
    n_arms, n = r.size, r.size + 2
    d, q = state[:n].copy(), state[n]  # derivatives of the state, by b, lam and q0
    total, product, following = 0.0, 1.0, 0
    of_r, of_state = np.zeros(n_arms), np.zeros(n)
    rr = np.zeros(n_arms)  # a row pulls one arm: no two r meet
    crossed, inner = np.zeros((n_arms, n)), np.zeros((n, n))
    waiting = np.zeros((_ROWS_AT_ONCE, n))
    for t in range(arms.size):
        if following < starts.size and starts[following] == t:
            following += 1
            restart_slopes(d)
            q = q0
        arm = arms[t]
        y = float(rewards[t])
        pays = r[arm]
        mu = paying_probability(pays, q)
        weight = 1.0 / (mu * (1.0 - mu))
        if y == 0.0 or y == 1.0:
            product *= mu if y == 1.0 else 1.0 - mu
        elif y >= 0.0:
            total += _of_fraction(mu, y)
        else:  # not known
            y, weight = mu, 0.0
        pull = (y - mu) * weight
        of_r[arm] += pull * q
        rr[arm] += weight * q * q
        by_state, by_both, root = pull * pays, weight * q * pays, math.sqrt(weight) * pays
        across, row = crossed[arm], waiting[t % _ROWS_AT_ONCE]
        for j in range(n):
            of_state[j] += by_state * d[j]
            across[j] += by_both * d[j]
            row[j] = root * d[j]
        if t % _ROWS_AT_ONCE == _ROWS_AT_ONCE - 1:
            total += math.log(product)
            product = 1.0
            _add_outer_products(waiting, inner)
        change = b[arm] - q
        move_slopes(d, arm, lam, change)
        q = q + lam * change
    total += math.log(product)
    _clear_rows(waiting, arms.size % _ROWS_AT_ONCE)
    _add_outer_products(waiting, inner)
    for j in range(n):
        state[j] = d[j]
    state[n] = q
    _add_to(score, 0, of_r)
    _add_to(score, n_arms, of_state)
    for i in range(n_arms):
        information[i, i] += rr[i]
        _add_to(information[i], n_arms, crossed[i])
        _add_to(information[:, i], n_arms, crossed[i])
    _mirror(inner)
    for i in range(n):
        _add_to(information[n_arms + i], n_arms, inner[i])
    return total


@compiled
def _add_to(target: FloatArray, first: int, values: FloatArray) -> None:
    """Add values to a part of a vector (adding slices takes seconds to compile)."""
    for i in range(values.size):
        target[first + i] += values[i]


@compiled
def _clear_rows(matrix: FloatArray, first: int) -> None:
    for i in range(first, matrix.shape[0]):
        for j in range(matrix.shape[1]):
            matrix[i, j] = 0.0
