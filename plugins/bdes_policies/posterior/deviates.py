"""Normal deviates for draws from the posterior, correlated over time."""

import math

import numpy as np
from numpy.random import Generator

from bdes_framework import FloatArray

_CORRELATION_TIME = 2.0
"""Times 1/lam rounds: how long deviates stay correlated, where the state has moved."""


class CorrelatedDeviates:
    """Standard normal deviates of b, lam and r, one row per draw.

    Learning an end state takes a long stretch of pulls, which would come to nothing if the next
    draws were of other instances altogether: so those of b and r change as the state forgets.
    """

    def __init__(self, draws: int, n_arms: int, rng: Generator) -> None:
        self._shape = (draws, 3 * n_arms + 1)
        self._n_arms = n_arms
        self._rng = rng
        self._last: FloatArray = np.empty((0, 0))
        self._drawn_at = 0

    def after(self, rounds: int, lam: float) -> FloatArray:
        """Return the deviates after ``rounds`` rounds in all, at evolution rate ``lam``.

        Shape (n, 3K+1): of b, of lam, of r, and of r where the state has hardly moved.
        """
        k = self._n_arms
        deviates = self._rng.standard_normal(self._shape)
        deviates[:, 2 * k + 1 :] = deviates[0, 2 * k + 1 :]
        if self._last.size:
            kept = math.exp(-lam * (rounds - self._drawn_at) / _CORRELATION_TIME)
            for part in (slice(0, k), slice(k + 1, 2 * k + 1)):
                deviates[:, part] *= math.sqrt(1 - kept**2)
                deviates[:, part] += kept * self._last[:, part]
        self._last, self._drawn_at = deviates.copy(), rounds
        return deviates
