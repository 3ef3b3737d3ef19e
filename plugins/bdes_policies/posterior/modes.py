"""Modes of the posterior of (r, b, lam), draws around them, and the coordinates they live in."""

import math
from collections.abc import Sequence

import numpy as np
from attrs import define, field, frozen

from bdes_framework import FloatArray

FARTHEST = 25.0
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


@define(eq=False)
class Mode:
    """One mode of the posterior."""

    logits: FloatArray
    """Shape (2K+1,): of r, b and lam, in this order; that of a known lam is not used."""
    likelihood: float = -math.inf
    """On a log scale, as everything here."""
    objective: float = -math.inf
    """Log-likelihood plus log prior, in these coordinates."""
    score: FloatArray = field(factory=lambda: np.empty(0))
    precision: FloatArray = field(factory=lambda: np.empty(0))
    information: FloatArray = field(factory=lambda: np.empty(0))
    """Shape (2K+1, 2K+1): of r, b and lam themselves, without the prior."""
    evidence: float = -math.inf
    scale_is_known: bool = False
    """Whether ``centre`` holds logit r, not log r."""
    centre: FloatArray = field(factory=lambda: np.empty(0))
    """Shape (2K+1,): log r (or logit r), log b and logit lam."""
    deviations: FloatArray = field(factory=lambda: np.empty(0))
    """Shape (2K+1, 2K+1): what standard normal deviates of b, lam and r, in this order, are
    multiplied by to get a step from the centre."""


def same_place(one: Mode, other: Mode) -> bool:
    """Say whether two modes are within a fraction of a deviation of each other."""
    apart = one.logits - other.logits
    return float(apart @ other.precision @ apart) < 0.1


def logit(p: float) -> float:
    """Return the logit of a probability, at most ``FARTHEST`` from 0."""
    return min(max(math.log(p) - math.log1p(-p), -FARTHEST), FARTHEST)


def from_logits(logits: FloatArray) -> FloatArray:
    """Return the probabilities that have these logits."""
    values: FloatArray = 1.0 / (1.0 + np.exp(-logits))
    return values
