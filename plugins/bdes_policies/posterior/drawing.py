"""Instances that lie some steps away from modes of the posterior, if the log allows for them.

Several at a time, compiled: every draw is held against the whole log, which is read once for
all of them.
"""

import math

import numpy as np
from numpy.typing import NDArray

from bdes_framework import FloatArray, IntArray, compiled, sweep_log_likelihoods
from bdes_policies.posterior.modes import FARTHEST

_FORGOTTEN = 7.0
"""Once less than exp(-7) of the first state is left, nothing says what the scale is."""
_LARGEST = 300.0
"""Of an exponent: draws as wild as that are brought back, and no float overflows before."""
_SLACK = 2.0
_LEAST_SHARE = 0.02
_AHEAD = 4
"""Of what the log contradicts, so many shorter steps are tried at once."""


@compiled
def from_logit(logit: float) -> float:
    """Return the probability that has a logit, which is kept within bounds."""
    return 1.0 / (1.0 + math.exp(-min(max(logit, -FARTHEST), FARTHEST)))


@compiled
def unpack(there: FloatArray, r_in_logits: bool, r: FloatArray, b: FloatArray) -> None:
    """Fill in r and b of a point in the coordinates of a mode."""
    k = r.size
    for i in range(k):
        of_r = min(max(there[i], -_LARGEST), _LARGEST)
        r[i] = 1.0 / (1.0 + math.exp(-of_r)) if r_in_logits else math.exp(of_r)
        b[i] = math.exp(min(max(there[k + i], -_LARGEST), _LARGEST))


@compiled
def keep_within_bounds(r: FloatArray, b: FloatArray, lam: float, n_pulls: int) -> None:
    """Bring r and b to at most 1: by a change of scale where the scale is anybody's guess."""
    if n_pulls * math.log1p(-min(lam, 1 - 1e-12)) < -_FORGOTTEN:
        c = max(r.max(), 1.0)
        r[:] = r / c
        b[:] = b * c
        c = min(max(b.max(), 1.0), 1.0 / r.max())
        r[:] = r * c
        b[:] = b / c
    r[:] = np.minimum(r, 1.0)
    b[:] = np.minimum(b, 1.0)


@compiled
def bring_back(
    arms: IntArray,
    rewards: NDArray[np.float32],
    q0: float,
    known_lam: float,
    centres: FloatArray,
    steps: FloatArray,
    r_in_logits: NDArray[np.bool_],
    most: FloatArray,
    expected_loss: FloatArray,
    falls: bool,
    by: float,
    r: FloatArray,
    b: FloatArray,
    lam: FloatArray,
    state: FloatArray,
) -> int:
    """Fill in instances a step from a mode, or a share of a step if the log contradicts.

    Far from a mode, or where lam is hardly known, the posterior is not normal at all. What loses
    much more likelihood than expected is brought back towards the mode, until it does not or is
    next to it.

    Parameters
    ----------
    known_lam : float
        The rate, or a negative number if each has its own.
    centres, steps : arrays of float, shape (n, 2K+1)
        Of r, b and logit lam.
    r_in_logits : array of bool, shape (n,)
        Whether the coordinate of r is its logit, or its logarithm, as b's is.
    most, expected_loss : arrays of float, shape (n,)
        The log-likelihood of the mode, and what a whole step is expected to lose of it.
    falls : bool
        Whether a share of a step is expected to lose less, by the square of it.
    by : float
        What steps are multiplied by until the log allows for them.
    r, b : arrays of float, shape (n, K)
        Filled in.
    lam, state : arrays of float, shape (n,)
        Filled in; the states are those after the log.

    Returns
    -------
    int
        How many rows were read.
    """
    n, k = r.shape
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
            there = centres[i] + share[i] * steps[i]
            share[i] *= by
            lams[column] = known_lam if known_lam >= 0.0 else from_logit(there[2 * k])
            unpack(there, r_in_logits[i], r[i], b[i])
            keep_within_bounds(r[i], b[i], lams[column], arms.size)
            rs[:, column] = r[i]
            bs[:, column] = b[i]
        q = np.full(columns, q0)
        sweep_log_likelihoods(arms, rewards, rs, bs, lams, q, totals)
        swept += arms.size
        n_left = 0
        for place in range(waiting.size):
            i = waiting[place]
            found = -1
            for column in range(place * ahead, (place + 1) * ahead):
                allowed = expected_loss[i] * (shares[column] ** 2 if falls else 1.0)
                fits = most[i] - totals[column] <= allowed + _SLACK
                if found < 0 and (fits or shares[column] < _LEAST_SHARE):
                    found = column
            if found < 0:
                waiting[n_left] = i
                n_left += 1
            else:
                r[i] = rs[:, found]
                b[i] = bs[:, found]
                lam[i] = lams[found]
                state[i] = q[found]
        waiting = waiting[:n_left].copy()
        # A sweep takes hardly longer for some columns more, and most of these need several steps.
        ahead = _AHEAD
    return swept
