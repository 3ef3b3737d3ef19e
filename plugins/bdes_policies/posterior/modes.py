"""Modes of the posterior of (r, b, lam), draws around them, and the coordinates they live in."""

import math
from collections.abc import Sequence

import numpy as np
from attrs import frozen

from bdes_framework import FloatArray, Mode

MAX_LOGIT = 25.0
"""Logits are kept this close to 0."""


@frozen
class RatePrior:
    """What is known of logit lam before the first pull.

    Parameters
    ----------
    lam : float
        The rate itself if ``known``; otherwise the most likely one, neither 0 nor 1.
    deviation : float
        Of logit lam.
    known : bool
        Whether ``lam`` is certain.
    starts : sequence of float
        Rates to start looking for modes from.
    """

    lam: float
    deviation: float
    known: bool
    starts: Sequence[float]


@frozen(eq=False)
class Draw:
    """One instance that the log allows for."""

    r: FloatArray
    b: FloatArray
    lam: float


@frozen(eq=False)
class LaplaceApproximation:
    """The posterior around one of its modes, taken to be normal.

    Parameters
    ----------
    mode : Mode
        In logits of r, b and lam, in this order; that of a known lam is not used.
    evidence : float
        The logarithm of the posterior's mass around the mode, up to a constant.
    scale_is_known : bool
        Whether ``centre`` holds logit r, not log r.
    centre : FloatArray, shape (2K+1,)
        The mode as log r (or logit r), log b and logit lam.
    deviations : FloatArray, shape (2K+1, 2K+1)
        What standard normal deviates of b, lam and r, in this order, are multiplied by to get a
        step from the centre.
    """

    mode: Mode
    evidence: float
    scale_is_known: bool
    centre: FloatArray
    deviations: FloatArray


def is_same_mode(one: Mode, other: Mode) -> bool:
    """Return whether two modes are within a fraction of a deviation of each other."""
    apart = one.theta - other.theta
    return float(apart @ other.precision @ apart) < 0.1


# Not by scipy.special, whose last bits are others: the arms that are played depend on them.
def logit(p: float) -> float:
    """Return the logit of a probability, at most ``MAX_LOGIT`` from 0."""
    return min(max(math.log(p) - math.log1p(-p), -MAX_LOGIT), MAX_LOGIT)


def from_logits(logits: FloatArray) -> FloatArray:
    """Return the probabilities that have these logits."""
    values: FloatArray = 1.0 / (1.0 + np.exp(-logits))
    return values
