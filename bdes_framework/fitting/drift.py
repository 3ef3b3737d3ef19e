"""The model of a drift: responsiveness moves towards one end state, whatever is shown.

It is the B-DES model with the same b for every arm, so the state of a user's n-th row is known
without knowing what was shown: ``q = b + (q0 - b) * (1 - lam)**n``. A log is then no more than a
table of rows and rewards by arm and n, and fitting takes no sweep over the log but one. Without a
drift (``lam = 0``) nothing moves at all.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework.fitting.blocks import Rows, of_blocks
from bdes_framework.fitting.likelihood import MIN_PROBABILITY, AnyIntArray
from bdes_framework.fitting.log import Log
from bdes_framework.model.compiling import compiled
from bdes_framework.model.instance import Instance

_EXACT = 2000
"""Rows of a sequence up to here have a class each; later ones share one with those that are at
most half a percent away, in which no state moves noticeably."""
_WIDTH = 0.005
_NEWTON_STEPS = 60
_FINEST = 1e-5
_MAX_HALVINGS = 200


class Drift(NamedTuple):
    """The most likely drift of a log."""

    instance: Instance
    """One b for all arms."""
    log_likelihood: float


def fit_drift(log: Log, lam: float | None, q0: float, bounded: bool) -> Drift:
    """Fit a drift: r of every arm, one b, and lam unless it is known; by maximum likelihood.

    ``bounded`` says whether b is at most 1; if not, every ``r * max(b, q0)`` is.
    """
    classes, ages = _classes(log.longest)

    def one(block: Rows) -> FloatArray:
        counts = np.zeros((2, log.n_arms, ages.size))
        _count(*block, classes, *counts)
        return counts

    paid, failed = sum(of_blocks(log, one), np.zeros((2, log.n_arms, ages.size)))
    known = paid + failed > 0
    cells = paid[known], failed[known], np.nonzero(known)[1], np.cumsum(known.sum(axis=1))
    r = np.empty(log.n_arms)

    def value(point: FloatArray) -> float:
        rate, b = _parameters(point)
        kept = np.exp(ages * np.log1p(-rate)) if rate < 1 else (ages == 0).astype(np.float64)
        highest = max(1.0, q0, b) if bounded else max(q0, b)
        return _profile(*cells, b + (q0 - b) * kept, 1.0 / highest, r)

    def _parameters(point: FloatArray) -> tuple[float, float]:
        rate = lam if lam is not None else 1.0 / (1.0 + float(np.exp(-point[0])))
        grown = float(np.exp(point[1]))
        return rate, grown / (1.0 + grown) if bounded else grown

    best = _searched(value, lam is None, log.longest)
    log_likelihood = value(best)
    rate, b = _parameters(best)
    return Drift(Instance(r.copy(), np.full(log.n_arms, b), rate, q0), log_likelihood)


def _classes(longest: int) -> tuple[IntArray, FloatArray]:
    """Return the class of each row of a sequence, and the mean of the rows of each class."""
    rows = np.arange(longest)
    later = np.log(np.maximum(rows, _EXACT) / _EXACT) / _WIDTH
    classes = np.where(rows < _EXACT, rows, _EXACT + later.astype(np.int64))
    _, classes = np.unique(classes, return_inverse=True)
    counts = np.bincount(classes)
    return classes.astype(np.int64), np.bincount(classes, rows) / counts


@compiled
def _count(
    arms: AnyIntArray,
    rewards: AnyIntArray,
    starts: IntArray,
    classes: IntArray,
    paid: FloatArray,
    failed: FloatArray,
) -> None:
    """Count rows that paid and that did not, by arm and class; unknown rewards are below 0."""
    following, place = 0, 0
    for t in range(arms.size):
        if following < starts.size and starts[following] == t:
            following += 1
            place = 0
        if rewards[t] > 0:
            paid[arms[t], classes[place]] += 1.0
        elif rewards[t] == 0:
            failed[arms[t], classes[place]] += 1.0
        place += 1


@compiled
def _profile(
    paid: FloatArray,
    failed: FloatArray,
    classes: IntArray,
    ends: IntArray,
    states: FloatArray,
    largest: float,
    r: FloatArray,
) -> float:
    """Return the log-likelihood at given states, with r where it is largest, filled in.

    Arm by arm, the rows of its classes: ``ends`` are where those of each arm end.

    It is concave in every r, so Newton's steps, kept between two bounds that close in, find it.
    """
    total, first = 0.0, 0
    for arm in range(r.size):
        low, high, end = 0.0, largest, ends[arm]
        successes, weight = 0.0, 0.0
        for i in range(first, end):
            successes += paid[i]
            weight += (paid[i] + failed[i]) * states[classes[i]]
        at = min(successes / weight, largest) if weight > 0.0 else largest / 2.0
        for _ in range(_NEWTON_STEPS if weight > 0.0 else 0):
            slope = successes / at if at > 0.0 else 0.0
            curvature = slope / at if at > 0.0 else 0.0
            for i in range(first, end):
                if failed[i] > 0.0:
                    q = states[classes[i]]
                    odds = q / max(1.0 - at * q, MIN_PROBABILITY)
                    slope -= failed[i] * odds
                    curvature += failed[i] * odds * odds
            if slope > 0.0:
                low = at
            else:
                high = at
            step = slope / curvature if curvature > 0.0 else 0.0
            further = at + step
            if further > high or further < low:
                further = (low + high) / 2.0
            if abs(further - at) <= 1e-12 * largest:
                break
            at = further
        r[arm] = at
        for i in range(first, end):
            mu = min(max(at * states[classes[i]], MIN_PROBABILITY), 1.0 - MIN_PROBABILITY)
            total += paid[i] * np.log(mu) + failed[i] * np.log(1.0 - mu)
        first = end
    return total


def _searched(value: Callable[[FloatArray], float], free: bool, longest: int) -> FloatArray:
    """Return the logit of lam and the coordinate of b at which a value is largest.

    First on a grid, as there may be more than one hill; then by steps that are halved where none
    gains.
    """
    least = min(0.1, 0.3 / longest)
    rates = np.geomspace(least, 0.95, 4 + round(2 * np.log2(0.95 / least))) if free else [0.5]
    ends = np.log(
        np.array([0.003, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.3, 2.0, 4.0, 10.0, 100.0])
    )
    grid = [np.array([np.log(rate / (1 - rate)), end]) for rate in rates for end in ends]
    values = [value(point) for point in grid]
    best = int(np.argmax(values))
    point, highest = grid[best], values[best]
    directions = [(1, 0), (0, 1), (1, 1), (1, -1)] if free else [(0, 1)]
    moves = [sign * np.array(way, float) for way in directions for sign in (1, -1)]
    size = 0.5
    for _ in range(_MAX_HALVINGS):
        tried = [point + size * move for move in moves]
        values = [value(one) if abs(one).max() < 30 else -np.inf for one in tried]
        best = int(np.argmax(values))
        if values[best] > highest:
            point, highest = tried[best], values[best]
        else:
            size /= 2
            if size < _FINEST:
                break
    return point
