"""The coordinates a fit works in: logits, where posteriors are nearly normal, and the priors.

The prior of r and b is Jeffreys' for a probability, Beta(1/2, 1/2). In logit coordinates its
slope and curvature are bounded: scoring never runs away to a boundary, and never divides by
zero there. It weighs as much as one row, half of it a success.
"""

import math
from typing import TypeAlias

import numpy as np
import scipy  # imports "special" when it is first used
from attrs import field, frozen
from numpy.typing import NDArray

from bdes_framework._internal.arrays import FloatArray
from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.model.instance import Instance, as_rate

_MAX_LOGIT = 30.0
"""Coordinates stay within this of 0: a float knows 1 - 1e-13, and little beyond."""

_SHARPNESS = 4
"""How late a bound is felt: where b is free up to 1/R, its coordinate is x with
``b**-4 = exp(-4x) + R**4``. The b of all arms share one bound, but half-way to it they depend
on R by a sixteenth only: an uncertain R leaves them alone until the bound matters."""

BoolArray: TypeAlias = NDArray[np.bool_]


@frozen
class RatePrediction:
    """An evolution rate that somebody predicts, and how far the prediction is trusted.

    Parameters
    ----------
    lam : float
        The predicted rate, above 0 and below 1.
    deviation : float
        The standard deviation of logit(lam) = log(lam / (1 - lam)) around it. With 2 to 4, a
        prediction that is wrong by a factor of 100 hardly harms; 0.1 is known to 10 %.
    """

    lam: float = field(converter=as_rate)
    deviation: float = 3.0

    def __attrs_post_init__(self) -> None:
        if not 0 < self.lam < 1:
            raise InvalidValueError(f"a predicted lam must lie above 0 and below 1, got {self.lam}")
        try:
            good = 0 < self.deviation < math.inf
        except TypeError:
            good = False
        if not good:
            raise InvalidValueError(
                f"deviation must be a finite number above 0, got {quoted(self.deviation)}"
            )


UNKNOWN_RATE = RatePrediction(0.5, 5.0)
"""What is assumed of a rate nobody knows: within 5e-5 and 1 - 5e-5 in 95 of 100 cases."""


@frozen(eq=False)
class Coordinates:
    """The free parameters of a fit as a vector of unbounded coordinates, and their priors.

    First one of r for each arm, then one of b, then logit(lam), unless ``lam`` is known. No
    probability passes 1, wherever the coordinates are:

    - where q0 is known, no state exceeds ``peak = max(1, q0)``. The coordinates are
      logit(r·peak) and logit(b).
    - where q0 is unknown, it is the unit of states. The coordinate of a played arm's r is
      logit(r), so that it pays with at most certainty at the start; with R the largest of
      these, b lies below 1/R. Its coordinate is log(b) well below that, see :data:`_SHARPNESS`.
      The r of an arm that was never played stays below 1 over the largest state.

    Parameters
    ----------
    n_arms : int
        How many arms there are.
    lam : float | RatePrediction
        The rate itself, or what is believed of it.
    q0 : float
        The state at which every sequence begins.
    bounded : bool
        Whether ``b`` is known to be at most 1: so it is where q0 is known.
    played : BoolArray, shape (K,)
        Which arms the log has rewards of.
    """

    n_arms: int
    lam: float | RatePrediction
    q0: float
    bounded: bool
    played: BoolArray = field(repr=False)

    @property
    def size(self) -> int:
        """How many coordinates there are."""
        return 2 * self.n_arms + isinstance(self.lam, RatePrediction)

    @property
    def peak(self) -> float:
        """The largest state there can be, where ``b`` is bounded."""
        return max(1.0, self.q0)

    def parameters(self, theta: FloatArray) -> FloatArray:
        """Return r, b and, if it is free, lam, in one array."""
        n = self.n_arms
        found = _shares(theta)
        if self.bounded:
            found[:n] /= self.peak
            return found
        highest = float(found[:n][self.played].max())
        found[n : 2 * n] = below(np.clip(theta[n : 2 * n], -_MAX_LOGIT, _MAX_LOGIT), highest)
        found[:n][~self.played] /= max(1.0, float(found[n : 2 * n].max()))
        return found

    def instance(self, theta: FloatArray) -> Instance:
        """Return the parameters at some coordinates."""
        n, found = self.n_arms, self.parameters(theta)
        lam = float(found[-1]) if isinstance(self.lam, RatePrediction) else self.lam
        return Instance(found[:n], found[n : 2 * n], lam, self.q0)

    def largest(self, best: FloatArray, low: FloatArray) -> FloatArray:
        """Return up to where an interval of each parameter may reach.

        ``best`` are the estimates, ``low`` the lower ends: where the bound of b is 1 over the
        largest r, it is no better known than that r.
        """
        n = self.n_arms
        bounds = np.ones(self.size)
        if self.bounded:
            bounds[:n] /= self.peak
        else:
            bounds[:n][~self.played] /= max(1.0, float(best[n : 2 * n].max()))
            bounds[n : 2 * n] /= float(low[:n][np.argmax(np.where(self.played, best[:n], -1))])
        return bounds

    def jacobian(self, theta: FloatArray) -> FloatArray:
        """Return the derivative of each parameter (row) by each coordinate (column)."""
        n, p = self.n_arms, _shares(theta)
        own = p * (1 - p)
        if self.bounded:
            own[:n] /= self.peak
            return np.diag(own)
        slopes, found = np.diag(own), self.parameters(theta)
        best = int(np.argmax(np.where(self.played, p[:n], -1.0)))
        b = found[n : 2 * n]
        crowded = _shares(_SHARPNESS * (theta[n : 2 * n] + math.log(p[best])))
        slopes[n : 2 * n, n : 2 * n] = np.diag(b * (1 - crowded))
        slopes[n : 2 * n, best] = -b * crowded * (1 - p[best])
        unseen, top = np.flatnonzero(~self.played), n + int(np.argmax(b))
        if found[top] > 1:
            slopes[unseen] /= found[top]
            slopes[unseen] -= np.outer(found[unseen], slopes[top] / found[top])
        return slopes

    def pulled_score(self, theta: FloatArray, score: FloatArray) -> FloatArray:
        """Return a score by parameters as that by coordinates."""
        slopes = self.jacobian(theta)
        return np.diag(slopes) * score if self.bounded else score @ slopes

    def pulled_back(
        self, theta: FloatArray, score: FloatArray, information: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return a score and an information by parameters as those by coordinates."""
        slopes = self.jacobian(theta)
        if self.bounded:  # each parameter has its own coordinate: no matrix is needed
            own = np.diag(slopes)
            return own * score, information * np.outer(own, own)
        return score @ slopes, slopes.T @ information @ slopes

    def coordinates(self, parameters: FloatArray) -> FloatArray | None:
        """Return where some r and b (and lam) are found: None for what is out of range."""
        n = self.n_arms
        shares = parameters.copy()
        if self.bounded:
            shares[:n] *= self.peak
        else:
            b = parameters[n : 2 * n]
            shares[:n][~self.played] *= max(1.0, float(b.max()))
            highest = float(shares[:n][self.played].max())
            shares[n : 2 * n] = (b * highest) ** _SHARPNESS
        if not (shares < 1 - 1e-12).all():
            return None
        theta: FloatArray = scipy.special.logit(shares)
        if not self.bounded:
            theta[n : 2 * n] = theta[n : 2 * n] / _SHARPNESS - math.log(highest)
        return theta

    def moved(self, theta: FloatArray, step: FloatArray) -> FloatArray:
        """Return where a step leads that is straight in log(r) and log(b), not in their logits.

        Once its first state is forgotten, a log is explained by ``(c*r, b/c)`` as well: a ridge
        that is straight in logarithms and curved in logits. Where such a step would leave the
        range of some parameter, it is taken in logits.
        """
        n_both = 2 * self.n_arms
        straight = theta + step
        found = self.parameters(theta)
        grown = found.copy()
        grown[:n_both] *= np.exp(((self.jacobian(theta) @ step) / found)[:n_both])
        curved = self.coordinates(grown)
        if curved is not None:
            straight[:n_both] = curved[:n_both]
        return straight

    def log_prior(self, theta: FloatArray) -> float:
        """Return the log-density of the prior, up to a constant."""
        size = np.abs(theta[: 2 * self.n_arms])
        flat = -float(np.sum(0.5 * size + np.log1p(np.exp(-size))))
        return flat + self.rate_log_prior(theta)

    def rate_log_prior(self, theta: FloatArray) -> float:
        """Return the part of it that is about lam."""
        if not isinstance(self.lam, RatePrediction):
            return 0.0
        return (
            -0.5 * float((theta[-1] - scipy.special.logit(self.lam.lam)) / self.lam.deviation) ** 2
        )

    def prior_score(self, theta: FloatArray) -> FloatArray:
        """Return the gradient of the log-prior."""
        score = 0.5 - _shares(theta)
        if isinstance(self.lam, RatePrediction):
            score[-1] = (scipy.special.logit(self.lam.lam) - theta[-1]) / self.lam.deviation**2
        return score

    def prior_precision(self, theta: FloatArray) -> FloatArray:
        """Return minus the curvature of the log-prior, coordinate by coordinate."""
        p = _shares(theta)
        precision = p * (1 - p)
        if isinstance(self.lam, RatePrediction):
            precision[-1] = self.lam.deviation**-2
        return precision


def below(logarithm: FloatArray, highest: float) -> FloatArray:
    """Return numbers below ``1 / highest`` whose logarithms, far from it, are the given ones.

    >>> below(np.array([-5.0, 50.0]), 0.5).round(6).tolist() == [round(math.exp(-5), 6), 2.0]
    True
    """
    crowding = np.logaddexp(-_SHARPNESS * logarithm, _SHARPNESS * math.log(highest))
    found: FloatArray = np.exp(-crowding / _SHARPNESS)
    return found


def _shares(theta: FloatArray) -> FloatArray:
    """Return expit of coordinates, kept away from 0 and 1."""
    found: FloatArray = scipy.special.expit(np.clip(theta, -_MAX_LOGIT, _MAX_LOGIT))
    return found
