"""Cumulative sums over the rounds of a simulation, recorded at checkpoints."""

import numpy as np

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework.model.compiling import compiled
from bdes_framework.model.rounds import Record


@compiled
def _add_up(
    chunk: Record,
    start: int,
    checkpoints: IntArray,
    totals: FloatArray,
    counts: IntArray,
    curves: FloatArray,
) -> int:
    """Add rounds one by one, in order; return -1, or the first whose arm does not exist.

    Local variables hold the sums: through arrays, every addition would wait for memory.
    """
    arms, rewards, means, states = chunk.arms, chunk.rewards, chunk.means, chunk.states
    reward, mean, state = totals[0], totals[1], totals[2]
    place = np.searchsorted(checkpoints, start, "right")
    upcoming = checkpoints[place] - start - 1 if place < checkpoints.size else -1
    for t in range(arms.size):
        arm = arms[t]
        if arm < 0 or arm >= counts.size:
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
        """Add a chunk that begins at round ``start``, up to the first arm that does not exist.

        Returns that round, counted in the chunk; -1 if all arms exist.
        """
        return _add_up(chunk, start, self._checkpoints, self._totals, self.counts, self.curves)
