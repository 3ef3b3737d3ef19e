"""Backtracking of implausible draws: steps from a mode, shortened until the log allows for them.

Several draws at a time, compiled: all of them are compared with the whole log in one sweep.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bdes_framework import FloatArray, IntArray, compiled, sweep_log_likelihoods

MAX_LOGIT = 25.0
"""Logits are kept this close to 0."""
_FORGOTTEN = 7.0
"""Once less than exp(-7) of the first state is left, nothing says what the scale is."""
_MAX_EXPONENT = 300.0
"""Draws as wild as that are shortened, and no float overflows before."""
_SLACK = 2.0
_MIN_SHARE = 0.02
_AHEAD = 4
"""How many shorter steps are tried at once, of a draw that the log contradicts."""


@compiled
def from_logit(logit: float) -> float:
    """Return the probability that has a logit, which is kept within bounds."""
    return 1.0 / (1.0 + math.exp(-min(max(logit, -MAX_LOGIT), MAX_LOGIT)))


@compiled
def unpack(there: FloatArray, r_in_logits: bool, r: FloatArray, b: FloatArray) -> None:
    """Fill in r and b of a point in the coordinates of a mode."""
    k = r.size
    for i in range(k):
        of_r = min(max(there[i], -_MAX_EXPONENT), _MAX_EXPONENT)
        r[i] = 1.0 / (1.0 + math.exp(-of_r)) if r_in_logits else math.exp(of_r)
        b[i] = math.exp(min(max(there[k + i], -_MAX_EXPONENT), _MAX_EXPONENT))


@compiled
def keep_within_bounds(r: FloatArray, b: FloatArray, lam: float, n_pulls: int) -> None:
    """Limit r and b to at most 1: by a change of scale where the log does not fix the scale."""
    if n_pulls * math.log1p(-min(lam, 1 - 1e-12)) < -_FORGOTTEN:
        c = max(_largest(r), 1.0)
        for i in range(r.size):
            r[i], b[i] = r[i] / c, b[i] * c
        c = min(max(_largest(b), 1.0), 1.0 / _largest(r))
        for i in range(r.size):
            r[i], b[i] = r[i] * c, b[i] / c
    for i in range(r.size):
        r[i], b[i] = min(r[i], 1.0), min(b[i], 1.0)


@compiled
def _largest(values: FloatArray) -> float:
    """Return the largest of some values (numpy's takes a second and a half to compile)."""
    largest = float(values[0])
    for i in range(values.size):
        largest = max(largest, values[i])
    return largest


class Observations(NamedTuple):
    """The pulls that draws are compared with, and what is known for certain."""

    arms: IntArray
    rewards: NDArray[np.float32]
    q0: float
    known_lam: float
    """The rate, or a negative number if every draw has its own."""


class Steps(NamedTuple):
    """Steps away from modes of the posterior, in coordinates of r, b and logit lam; n of them."""

    centres: FloatArray
    """Shape (n, 2K+1), as ``steps``: the modes."""
    steps: FloatArray
    r_in_logits: NDArray[np.bool_]
    """Whether the coordinate of r is its logit, or its logarithm, as b's is."""
    log_likelihoods: FloatArray
    """Of the modes."""
    expected_losses: FloatArray
    """The log-likelihood that a whole step is expected to lose."""


class Shrinkage(NamedTuple):
    """How steps are shortened until the log allows for them."""

    factor: float
    """What a step is multiplied by each time."""
    loss_shrinks: bool
    """Whether a shorter step is expected to lose less, by the square of its share."""


class Instances(NamedTuple):
    """Some instances (r, b: shape (n, K)), and the states that the log leads to under each."""

    r: FloatArray
    b: FloatArray
    lam: FloatArray
    state: FloatArray


def room_for(n: int, n_arms: int) -> Instances:
    """Return ``n`` instances that are not filled in yet."""
    return Instances(np.empty((n, n_arms)), np.empty((n, n_arms)), np.empty(n), np.empty(n))


@compiled
def move_states(instances: Instances, arms: IntArray) -> None:
    """Move the state of every instance on past some more pulls."""
    for i in range(instances.lam.size):
        lam, q = instances.lam[i], instances.state[i]
        for t in range(arms.size):
            q = q + lam * (instances.b[i, arms[t]] - q)
        instances.state[i] = q


@compiled
def backtrack(log: Observations, steps: Steps, shrinkage: Shrinkage, out: Instances) -> int:
    """Fill ``out`` with instances a step from a mode, shortened where the log contradicts them.

    Far from a mode, or where lam is hardly known, the posterior is not normal at all. A step that
    loses much more likelihood than expected is shortened until it does not, or is next to nothing.
    Returns how many rows of the log were read.
    """
    n, k = out.r.shape
    waiting = np.arange(n)
    share = np.ones(n)
    ahead = 1
    swept = 0
    while waiting.size:
        columns = waiting.size * ahead
        rs, bs = np.empty((k, columns)), np.empty((k, columns))
        lams, shares, totals = np.empty(columns), np.empty(columns), np.empty(columns)
        for column in range(columns):
            i = waiting[column // ahead]
            shares[column] = share[i]
            there = steps.centres[i] + share[i] * steps.steps[i]
            share[i] *= shrinkage.factor
            lams[column] = log.known_lam if log.known_lam >= 0.0 else from_logit(there[2 * k])
            unpack(there, steps.r_in_logits[i], out.r[i], out.b[i])
            keep_within_bounds(out.r[i], out.b[i], lams[column], log.arms.size)
            for arm in range(k):
                rs[arm, column], bs[arm, column] = out.r[i, arm], out.b[i, arm]
        q = np.full(columns, log.q0)
        sweep_log_likelihoods(log.arms, log.rewards, rs, bs, lams, q, totals)
        swept += log.arms.size
        n_left = 0
        for place in range(waiting.size):
            i = waiting[place]
            found = -1
            for column in range(place * ahead, (place + 1) * ahead):
                expected = steps.expected_losses[i]
                allowed = expected * (shares[column] ** 2 if shrinkage.loss_shrinks else 1.0)
                fits = steps.log_likelihoods[i] - totals[column] <= allowed + _SLACK
                if found < 0 and (fits or shares[column] < _MIN_SHARE):
                    found = column
            if found < 0:
                waiting[n_left] = i
                n_left += 1
            else:
                for arm in range(k):
                    out.r[i, arm], out.b[i, arm] = rs[arm, found], bs[arm, found]
                out.lam[i] = lams[found]
                out.state[i] = q[found]
        waiting = waiting[:n_left].copy()
        # A sweep takes hardly longer for some columns more, and most of these need several steps.
        ahead = _AHEAD
    return swept
