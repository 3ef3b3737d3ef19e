"""Running sums over the rounds of a simulation, noted at checkpoints."""

import numpy as np

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework.model.compiling import compiled
from bdes_framework.model.rounds import Record


@compiled
def _add_up(
    arms: IntArray,
    rewards: FloatArray,
    means: FloatArray,
    states: FloatArray,
    start: int,
    checkpoints: IntArray,
    totals: FloatArray,
    counts: IntArray,
    curves: FloatArray,
) -> int:
    """Add rounds one by one, in order; return -1, or the first whose arm does not exist.

    The sums are kept in local variables: through arrays, every addition would wait for the
    one before it to reach memory and come back.
    """
    paid, expected, stood = totals[0], totals[1], totals[2]
    noted = np.searchsorted(checkpoints, start, "right")
    upcoming = checkpoints[noted] - start - 1 if noted < checkpoints.size else -1
    for t in range(arms.size):
        arm = arms[t]
        if arm < 0 or arm >= counts.size:
            return t
        paid += rewards[t]
        expected += means[t]
        stood += states[t]
        counts[arm] += 1
        if t == upcoming:
            curves[0, noted], curves[1, noted], curves[2, noted] = paid, expected, stood
            noted += 1
            upcoming = checkpoints[noted] - start - 1 if noted < checkpoints.size else -1
    totals[0], totals[1], totals[2] = paid, expected, stood
    return -1


class Totals:
    """Sums of rewards, means and states so far; always added up round by round, in order."""

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
        """Add a chunk that begins at round ``start``.

        Returns -1, or the first of its rounds whose arm does not exist; nothing after that
        round is added.
        """
        return _add_up(
            chunk.arms,
            chunk.rewards,
            chunk.means,
            chunk.states,
            start,
            self._checkpoints,
            self._totals,
            self.counts,
            self.curves,
        )
