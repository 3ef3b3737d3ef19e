"""The coordinates a fit works in: logits, where posteriors are nearly normal, and the priors.

The prior of r and b is Jeffreys' for a probability, Beta(1/2, 1/2). In logit coordinates its
slope and curvature are bounded: scoring never runs away to a boundary, and never divides by
zero there. It weighs as much as one row, half of it a success.
"""

import math

import numpy as np
from attrs import field, frozen, validators

from bdes_framework.model import Instance, as_rate
from bdes_framework.types import FloatArray, IntArray

_FARTHEST = 30.0
"""Coordinates stay within this of 0: a float knows 1 - 1e-13, and little beyond."""


@frozen
class RatePrediction:
    """An evolution rate that somebody predicts, and how far the prediction is trusted.

    Parameters
    ----------
    lam : float, above 0 and below 1
        The predicted rate.
    deviation : float
        The standard deviation of logit(lam) = log(lam / (1 - lam)) around it. With 2 to 4, a
        prediction that is wrong by a factor of 100 hardly harms; 0.1 is known to 10 %.
    """

    lam: float = field(converter=as_rate, validator=[validators.gt(0), validators.lt(1)])
    deviation: float = field(default=3.0, validator=[validators.gt(0), validators.lt(math.inf)])


UNKNOWN_RATE = RatePrediction(0.5, 5.0)
"""What is assumed of a rate nobody knows: within 5e-5 and 1 - 5e-5 in 95 of 100 cases."""


@frozen
class Coordinates:
    """What is to be estimated, as a vector of free coordinates.

    First logit(r) of each arm; then logit(b), or log(b) if ``b`` may exceed 1; then logit(lam),
    unless ``lam`` is known.

    Parameters
    ----------
    n_arms : int
        How many arms there are.
    lam : float or RatePrediction
        The rate itself, or what is believed of it.
    q0 : float
        The state at which every sequence begins.
    bounded : bool
        Whether ``b`` is known to be at most 1.
    """

    n_arms: int
    lam: float | RatePrediction
    q0: float
    bounded: bool

    @property
    def size(self) -> int:
        """How many coordinates there are."""
        return 2 * self.n_arms + isinstance(self.lam, RatePrediction)

    @property
    def free(self) -> IntArray:
        """Where they stand among the parameters ``r, b, lam, q0`` of a likelihood."""
        return np.arange(self.size)

    def instance(self, theta: FloatArray) -> Instance:
        """Return the parameters at some coordinates."""
        n = self.n_arms
        clipped = np.clip(theta, -_FARTHEST, _FARTHEST)
        b = expit(clipped[n : 2 * n]) if self.bounded else np.exp(clipped[n : 2 * n])
        known = not isinstance(self.lam, RatePrediction)
        lam = self.lam if known else float(expit(clipped[2 * n :])[0])
        assert isinstance(lam, float)
        return Instance(expit(clipped[:n]), b, lam, self.q0)

    def slopes(self, theta: FloatArray) -> FloatArray:
        """Return the derivative of each parameter by its coordinate."""
        p = expit(theta)
        slopes = p * (1 - p)
        if not self.bounded:
            b = slice(self.n_arms, 2 * self.n_arms)
            slopes[b] = np.exp(theta[b])
        return slopes

    def moved(self, theta: FloatArray, step: FloatArray) -> FloatArray:
        """Return where a step leads that is straight in log(r) and log(b), not in their logits.

        Once its first state is forgotten, a log is explained by ``(c*r, b/c)`` as well: a ridge
        that is straight in logarithms and curved in logits. Where such a step would leave the
        range of some parameter, it is taken in logits.
        """
        n_logits = 2 * self.n_arms if self.bounded else self.n_arms
        p = expit(theta[:n_logits])
        grown = p * np.exp(step[:n_logits] * (1 - p))
        straight = theta + step
        if (grown < 1 - 1e-12).all():
            straight[:n_logits] = np.log(grown) - np.log1p(-grown)
        return straight

    def log_prior(self, theta: FloatArray) -> float:
        """Return the log-density of the prior, up to a constant."""
        size = np.abs(theta[: 2 * self.n_arms])
        total = -float(np.sum(0.5 * size + np.log1p(np.exp(-size))))
        if isinstance(self.lam, RatePrediction):
            total -= 0.5 * ((theta[-1] - logit(self.lam.lam)) / self.lam.deviation) ** 2
        return total

    def prior_score(self, theta: FloatArray) -> FloatArray:
        """Return the gradient of the log-prior."""
        score = 0.5 - expit(theta)
        if isinstance(self.lam, RatePrediction):
            score[-1] = (logit(self.lam.lam) - theta[-1]) / self.lam.deviation**2
        return score

    def prior_precision(self, theta: FloatArray) -> FloatArray:
        """Return minus the curvature of the log-prior, coordinate by coordinate."""
        p = expit(theta)
        precision = p * (1 - p)
        if isinstance(self.lam, RatePrediction):
            precision[-1] = self.lam.deviation**-2
        return precision


def logit(p: float) -> float:
    """Return log(p / (1 - p)).

    >>> logit(0.5)
    0.0
    """
    return math.log(p) - math.log1p(-p)


def expit(theta: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(-theta)), the inverse of :func:`logit`.

    >>> expit(np.array([0.0])).tolist()
    [0.5]
    """
    result: FloatArray = 1 / (1 + np.exp(-np.clip(theta, -_FARTHEST, _FARTHEST)))
    return result
