"""Cumulative sums over the rounds of a simulation, recorded at checkpoints.

Every round is checked here: one comparison costs nothing beside three additions.
"""

import numpy as np

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework.model.compiling import compiled
from bdes_framework.model.rounds import Record

MIN_REWARD, MAX_REWARD = -1e-9, 1.0 + 1e-9
"""Between which rewards and means must lie: [0, 1], and a little for the rounding of means."""


@compiled
def _add_up(
    chunk: Record,
    start: int,
    checkpoints: IntArray,
    totals: FloatArray,
    counts: IntArray,
    curves: FloatArray,
) -> int:
    """Add rounds one by one, in order; return -1, or the first that is not a valid round.

    Its arm does not exist, or its reward or mean is NaN or outside [0, 1]. Local variables
    hold the sums: through arrays, every addition would wait for memory.
    """
    arms, rewards, means, states = chunk.arms, chunk.rewards, chunk.means, chunk.states
    reward, mean, state = totals[0], totals[1], totals[2]
    place = np.searchsorted(checkpoints, start, "right")
    upcoming = checkpoints[place] - start - 1 if place < checkpoints.size else -1
    for t in range(arms.size):
        arm = arms[t]
        if arm < 0 or arm >= counts.size:
            return t
        if not (MIN_REWARD <= rewards[t] <= MAX_REWARD and MIN_REWARD <= means[t] <= MAX_REWARD):
            return t
        reward += rewards[t]
        mean += means[t]
        state += states[t]
        counts[arm] += 1
        if t == upcoming:
            curves[0, place], curves[1, place], curves[2, place] = reward, mean, state
            place += 1
            upcoming = checkpoints[place] - start - 1 if place < checkpoints.size else -1
    totals[0], totals[1], totals[2] = reward, mean, state
    return -1


class Totals:
    """Cumulative rewards, means and states, summed round by round, in order."""

    def __init__(self, n_arms: int, checkpoints: IntArray) -> None:
        self._checkpoints = checkpoints
        self._totals = np.zeros(3)
        self.counts = np.zeros(n_arms, dtype=np.int64)
        self.curves = np.zeros((3, checkpoints.size))

    @property
    def total(self) -> float:
        """The sum of all sums: finite if and only if each of them is (unless they overflow)."""
        return sum(self._totals.tolist())

    def add(self, chunk: Record, start: int) -> int:
        """Add a chunk that begins at round ``start``, up to the first round that is not valid.

        Returns that round, counted in the chunk; -1 if all arms exist and all rewards and means
        lie in [0, 1].
        """
        return _add_up(chunk, start, self._checkpoints, self._totals, self.counts, self.curves)
