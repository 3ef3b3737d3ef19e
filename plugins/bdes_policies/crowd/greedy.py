"""The arm that paid best so far, over all users."""

import numpy as np
from attrs import field, frozen
from attrs.validators import ge

import bdes_framework as bdes
from bdes_framework import CrowdPolicyContext, FloatArray, IntArray, compiled
from bdes_policies.crowd.open_visits import OpenVisits


@frozen
class CrowdGreedyConfig:
    """Shows everybody the arm that paid best so far, over all users.

    The mean reward of an arm estimates r·q, q the state that users are at on average. Every user
    at a state q is paid r·q, so the best arm for the moment is the same for all of them; what it
    does to their states is ignored. First every arm is shown equally often, in turns. Ties go to
    the lowest arm.

    Parameters
    ----------
    explore : int
        How often every arm is shown in the beginning.
    """

    explore: int = field(default=100, validator=[bdes.validate_integer, ge(1)])


@compiled
def _add_rewards(told: IntArray, sums: FloatArray, arms: IntArray, rewards: FloatArray) -> int:
    """Add rewards to the sums of their arms; return the arm with the highest mean."""
    for v in range(arms.size):
        told[arms[v]] += 1
        sums[arms[v]] += rewards[v]
    best, highest = 0, -1.0
    for arm in range(sums.size):
        if told[arm] > 0 and sums[arm] / told[arm] > highest:
            best, highest = arm, sums[arm] / told[arm]
    return best


class CrowdGreedy:
    """The policy ``crowd-greedy``."""

    def __init__(self, config: CrowdGreedyConfig, context: CrowdPolicyContext) -> None:
        problem = context.problem
        self._n_arms = problem.n_arms
        self._n_explore = config.explore * problem.n_arms
        self._asked = 0
        self._best = 0
        self._told = np.zeros(problem.n_arms, dtype=np.int64)
        self._sums = np.zeros(problem.n_arms)
        self._open = OpenVisits()

    def __repr__(self) -> str:
        return f"CrowdGreedy(n_arms={self._n_arms}, best={self._best})"

    def ask(self, users: IntArray) -> IntArray:
        """Return the arm of each visit."""
        arms = np.full(users.size, self._best)
        exploring = min(max(self._n_explore - self._asked, 0), users.size)
        arms[:exploring] = np.arange(self._asked, self._asked + exploring) % self._n_arms
        self._asked += users.size
        self._open.open(users, arms)
        return arms

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        """Add rewards to the means of their arms."""
        _, arms, rewards = self._open.close(visits, rewards)
        self._best = _add_rewards(self._told, self._sums, arms, rewards)

    def diagnostics(self) -> bdes.Diagnostics:
        """Return how many rewards of each arm are known, and their means."""
        means = np.divide(self._sums, self._told, out=np.zeros(self._n_arms), where=self._told > 0)
        return {"told": self._told.copy(), "means": means}
