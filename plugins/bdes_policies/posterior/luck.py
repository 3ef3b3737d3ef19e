"""The luck of draws from the posterior, which changes as fast as the state forgets."""

import math

import numpy as np
from numpy.random import Generator

from bdes_framework import FloatArray

_KEPT_FOR = 2.0
"""How many times 1/lam rounds it takes until draws have changed, where the state has moved."""


class Luck:
    """Normal deviates of b, lam and r, a row a draw.

    A plan to learn an end state takes a long stretch of pulls: it would come to nothing if the
    next draws were of other instances altogether. So the luck of b and r is changed little by
    little, as fast as the state forgets. Where the state has hardly moved, one r is sampled
    afresh every time, as Thompson does: that is the other r.
    """

    def __init__(self, draws: int, n_arms: int, rng: Generator) -> None:
        self._shape = (draws, 3 * n_arms + 1)
        self._n_arms = n_arms
        self._rng = rng
        self._last: FloatArray = np.empty((0, 0))
        self._drawn_at = 0

    def after(self, rounds: int, lam: float) -> FloatArray:
        """Return the luck after some rounds in all, if the rate is ``lam``.

        Shape (n, 3K+1): of b, of lam, of r, and of r where the state has hardly moved.
        """
        k = self._n_arms
        luck = self._rng.standard_normal(self._shape)
        luck[:, 2 * k + 1 :] = luck[0, 2 * k + 1 :]
        if self._last.size:
            kept = math.exp(-lam * (rounds - self._drawn_at) / _KEPT_FOR)
            for part in (slice(0, k), slice(k + 1, 2 * k + 1)):
                luck[:, part] *= math.sqrt(1 - kept**2)
                luck[:, part] += kept * self._last[:, part]
        self._last, self._drawn_at = luck.copy(), rounds
        return luck
