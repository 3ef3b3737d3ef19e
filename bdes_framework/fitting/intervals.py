"""Intervals of a fit: from standard errors, and by profile likelihood where rewards are rare.

There a likelihood is far from a normal curve, in any coordinates: with some fifteen successes
an arm, intervals from its curvature held the truth of b in 76 of 100 logs. A profile needs no
curve. An interval ends where the likelihood, with all other parameters free, has lost 1.92
(half of 3.84, the chi-square point of 95 %). It takes some hundred sweeps, so it is left to
logs small enough for that.
"""

import math
from functools import partial

import numpy as np

from bdes_framework._internal.arrays import FloatArray
from bdes_framework._internal.distributions import chi_square_quantile, normal_quantile
from bdes_framework.fitting.fisher_scoring import PosteriorPoint
from bdes_framework.fitting.log import Log
from bdes_framework.fitting.log_posterior import climb, point_at, without_flat_prior
from bdes_framework.fitting.parametrisation import Coordinates, RatePrediction

FEW = 100
"""Below so many successes or failures of an arm, a likelihood is too crooked for its curvature."""
_WIDTH = normal_quantile(0.975)
_LOSS = chi_square_quantile(0.95, 1) / 2
_LOSS_TOLERANCE = 0.05
_NEARLY = 1e-2
_STEPS = 20
_MAX_TRIES = 12
_BOUNDARY = 15.0
"""A coordinate this far out is a boundary: a share of 3e-7."""
_SWEEPS_PER_END = 30
_MAX_WORK = 5e9
"""Additions, of which a core does about a thousand million a second."""


def intervals(coordinates: Coordinates, centre: FloatArray, errors: FloatArray) -> FloatArray:
    """Return 95 % intervals of r, b and lam: shape (2K+1, 2).

    ``errors`` are the standard errors of the free ones. Intervals are made in each
    parameter's own coordinate, the others staying put, with two exceptions. One reaches a
    boundary that lies within 1.96 standard errors of the estimate: no interval in logits ever
    does. And that of b is at least as wide as the plain one: unlike a probability's, the error
    of b does not shrink towards the boundaries.
    """
    best = coordinates.parameters(centre)
    reach = _WIDTH * errors / np.diag(coordinates.jacobian(centre))
    found = np.empty((2, best.size))
    for place in range(best.size):
        move = np.zeros(best.size)
        move[place] = reach[place]
        for side, sign in enumerate((-1, 1)):
            found[side, place] = coordinates.parameters(centre + sign * move)[place]
    largest = coordinates.largest(best, found[0])
    low, high = best - _WIDTH * errors, best + _WIDTH * errors
    b = slice(coordinates.n_arms, 2 * coordinates.n_arms)
    found[0, b], found[1, b] = np.minimum(low[b], found[0, b]), np.maximum(high[b], found[1, b])
    found[0, np.minimum(low, found[0]) <= 0] = 0.0
    at_top = np.maximum(high, found[1]) >= largest
    found[1, at_top] = largest[at_top]
    if not isinstance(coordinates.lam, RatePrediction):
        found = np.column_stack([found, [coordinates.lam, coordinates.lam]])
    result: FloatArray = found.T
    return result


def widen_by_profiles(
    ends: FloatArray,
    log: Log,
    coordinates: Coordinates,
    mode: PosteriorPoint,
    covariance: FloatArray,
) -> None:
    """Widen intervals of r, b and lam, shape (2K+1, 2), in place, where successes are few.

    ``covariance`` is that of the coordinates.
    """
    pulls, paid = log.totals()
    few = np.minimum(paid, pulls - paid)[pulls > 0].min() < FEW
    sweep = log.n_rows * (10 + (log.n_arms + 2) ** 2)
    if not few or sweep * 2 * coordinates.size * _SWEEPS_PER_END > _MAX_WORK:
        return
    profile = _Profile(log, coordinates, mode)
    played = np.concatenate([coordinates.played, coordinates.played, [True]])
    for place in np.flatnonzero(played[: coordinates.size]).tolist():
        ends[place, 0] = min(ends[place, 0], profile.end(place, -1, covariance[place]))
        ends[place, 1] = max(ends[place, 1], profile.end(place, 1, covariance[place]))


class _Profile:
    """The likelihood along one coordinate, the others being where it is largest."""

    def __init__(self, log: Log, coordinates: Coordinates, mode: PosteriorPoint) -> None:
        self._log, self._coordinates = log, coordinates
        self._without_flat_prior = partial(without_flat_prior, coordinates=coordinates)
        self._start = self._without_flat_prior(mode)
        self._highest = self._climbed(self._start, None).objective

    def end(self, place: int, sign: int, covariance: FloatArray) -> float:
        """Return the parameter at which the likelihood has lost enough, or its boundary.

        The square root of the loss is nearly a straight line: a few tries find the place. The
        other coordinates are first guessed by their covariance with this one.
        """
        along = covariance / covariance[place]
        origin = self._start.theta[place]
        farthest = sign * _BOUNDARY - origin
        inside, outside, known = 0.0, abs(farthest), self._start.theta
        distance = min(_WIDTH * math.sqrt(covariance[place]), outside)
        for _ in range(_MAX_TRIES):
            theta = known + along * (origin + sign * distance - known[place])
            theta[place] = origin + sign * distance
            fresh = self._without_flat_prior(point_at(self._log, self._coordinates, theta))
            found = self._climbed(fresh, place)
            loss = self._highest - found.objective
            if abs(loss - _LOSS) < _LOSS_TOLERANCE:
                break
            if loss < _LOSS:
                if distance == abs(farthest):
                    here = self._coordinates.parameters(found.theta)
                    return 0.0 if sign < 0 else float(self._coordinates.largest(here, here)[place])
                inside, known = distance, found.theta
            else:
                outside = distance
            guess = distance * math.sqrt(_LOSS / max(loss, 0.1))
            if outside == abs(farthest) and guess >= outside:
                distance = outside  # not tried yet
            else:
                distance = guess if inside < guess < outside else (inside + outside) / 2
        return float(self._coordinates.parameters(found.theta)[place])

    def _climbed(self, mode: PosteriorPoint, fixed: int | None) -> PosteriorPoint:
        seen_as = self._without_flat_prior
        return climb(mode, self._log, self._coordinates, _NEARLY, _STEPS, seen_as, fixed)
