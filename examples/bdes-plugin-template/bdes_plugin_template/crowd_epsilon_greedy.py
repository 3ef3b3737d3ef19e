"""Epsilon-greedy for many users: the arm that paid best over all of them, now and then any arm."""

import numpy as np
from attrs import frozen

from bdes_framework import CrowdPolicyContext, FloatArray, IntArray, InvalidValueError


@frozen
class CrowdEpsilonGreedyConfig:
    """Shows the arm that paid best so far, over all users, and now and then any arm at all.

    Parameters
    ----------
    epsilon : float
        How often an arm is drawn at random instead, in [0, 1].
    """

    epsilon: float = 0.1

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.epsilon <= 1:
            raise InvalidValueError(f"epsilon must lie in [0, 1], got {self.epsilon}")


class CrowdEpsilonGreedy:
    """Decides a block of visits at once: rewards come later, in any order, or never.

    Every visit takes two random numbers, used or not, so that the arms do not depend on how
    visits are grouped into blocks.
    """

    def __init__(self, config: CrowdEpsilonGreedyConfig, context: CrowdPolicyContext) -> None:
        self._epsilon = config.epsilon
        self._rng = context.rng
        self._n_visits = 0
        self._open: dict[int, int] = {}
        self._counts = np.zeros(context.problem.n_arms)
        self._sums = np.zeros(context.problem.n_arms)

    def ask(self, users: IntArray) -> IntArray:
        """Return an arm for each visit: shape (n,)."""
        n_arms = self._counts.size
        # An arm that no reward is known of counts as better than any other.
        averages = np.divide(self._sums, self._counts, out=np.ones(n_arms), where=self._counts > 0)
        draws = self._rng.random((users.size, 2))
        any_arm = (draws[:, 1] * n_arms).astype(np.int64)
        arms = np.where(draws[:, 0] < self._epsilon, any_arm, int(averages.argmax()))
        self._open.update(enumerate(arms.tolist(), start=self._n_visits))
        self._n_visits += users.size
        return arms

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        """Learn the rewards of some visits."""
        for visit, reward in zip(visits.tolist(), rewards.tolist(), strict=True):
            arm = self._open.pop(visit)
            self._counts[arm] += 1
            self._sums[arm] += reward
