"""Epsilon-greedy: the arm with the best average so far, and now and then any arm."""

import numpy as np
from attrs import frozen
from numpy.random import Generator

from bdes_framework import FloatArray, IntArray, InvalidValueError, PolicyContext


@frozen
class EpsilonGreedyConfig:
    """Plays the arm with the best average so far, and now and then any arm at all.

    Parameters
    ----------
    epsilon : float
        How often an arm is drawn at random instead, in [0, 1].
    """

    epsilon: float = 0.1

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.epsilon <= 1:
            raise InvalidValueError(f"epsilon must lie in [0, 1], got {self.epsilon}")


class EpsilonGreedy:
    """Decides every round, so each block it asks for is one arm long.

    An arm that was never played counts as better than any other, so every arm is tried
    before an average decides. Ties are broken at random: ``argmax`` alone would favour
    the arms that happen to come first.
    """

    def __init__(self, n_arms: int, epsilon: float, rng: Generator) -> None:
        self._epsilon = epsilon
        self._rng = rng
        self._counts = np.zeros(n_arms, dtype=np.int64)
        self._averages = np.full(n_arms, np.inf)
        self._arm = 0

    def ask(self, limit: int) -> IntArray:
        """Return the next arm: shape (1,)."""
        if self._rng.random() < self._epsilon:
            candidates = np.arange(self._counts.size)
        else:
            candidates = np.flatnonzero(self._averages == self._averages.max())
        self._arm = int(self._rng.choice(candidates))
        return np.array([self._arm], dtype=np.int64)

    def tell(self, rewards: FloatArray) -> None:
        """Learn the reward of the arm just asked for: shape (1,)."""
        arm, reward = self._arm, float(rewards[0])
        self._counts[arm] += 1
        if self._counts[arm] == 1:
            self._averages[arm] = reward
        else:
            self._averages[arm] += (reward - self._averages[arm]) / self._counts[arm]


def build(config: EpsilonGreedyConfig, context: PolicyContext) -> EpsilonGreedy:
    """Build the policy for the problem at hand."""
    return EpsilonGreedy(context.problem.n_arms, config.epsilon, context.rng)
