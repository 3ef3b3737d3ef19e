"""The arm that paid best so far, over all users."""

import numpy as np
from attrs import field, frozen
from attrs.validators import ge
from numpy.typing import NDArray

import bdes_framework as bdes
from bdes_framework import CrowdPolicyContext, FloatArray, IntArray, compiled
from bdes_policies.crowd.active_arms import check_retired
from bdes_policies.crowd.open_visits import OpenVisits


@frozen
class CrowdGreedyConfig:
    """Shows everybody the arm that paid best so far, over all users.

    The mean reward of an arm estimates r·q, q the state that users are at on average. Every user
    at a state q is paid r·q, so the best arm for the moment is the same for all of them; what it
    does to their states is ignored. First every arm is shown equally often, in turns. Ties go to
    the lowest arm.

    Rewards of visits more than 2^20 (1,048,576) visits ago are ignored; ``ignored`` of the
    diagnostics counts them.

    Parameters
    ----------
    explore : int
        How often every arm is shown in the beginning.
    """

    explore: int = field(default=100, validator=[bdes.validate_integer, ge(1)])


@compiled
def _add_rewards(told: IntArray, sums: FloatArray, arms: IntArray, rewards: FloatArray) -> None:
    """Add rewards to the sums of their arms."""
    for v in range(arms.size):
        told[arms[v]] += 1
        sums[arms[v]] += rewards[v]


@compiled
def _best_arm(is_active: NDArray[np.bool_], told: IntArray, sums: FloatArray) -> int:
    """Return the active arm with the highest mean; where no reward is known, the first of them."""
    best, highest = -1, -1.0
    for arm in range(told.size):
        if is_active[arm]:
            mean = sums[arm] / told[arm] if told[arm] > 0 else -1.0
            if best < 0 or mean > highest:
                best, highest = arm, mean
    return best


class CrowdGreedy:
    """The policy ``crowd-greedy``."""

    def __init__(self, config: CrowdGreedyConfig, context: CrowdPolicyContext) -> None:
        self._explore = config.explore
        n = context.problem.n_arms
        self._told = np.zeros(n, dtype=np.int64)
        self._sums = np.zeros(n)
        self._is_active = np.ones(n, dtype=np.bool_)
        self._best = 0
        # Arms that are shown in turns before any other: how often, and whose turn it is.
        self._trials = [(np.arange(n), config.explore * n, 0)]
        self._open = OpenVisits()

    def __repr__(self) -> str:
        return f"CrowdGreedy(n_arms={self._told.size}, best={self._best})"

    def ask(self, users: IntArray) -> IntArray:
        """Return the arm of each visit."""
        arms = np.full(users.size, self._best)
        done = 0
        while self._trials and done < users.size:
            tried, left, turn = self._trials[0]
            n = min(left, users.size - done)
            arms[done : done + n] = tried[np.arange(turn, turn + n) % tried.size]
            done += n
            self._trials[0] = tried, left - n, (turn + n) % tried.size
            if n == left:
                del self._trials[0]
        self._open.open(users, arms)
        return arms

    def choose(self, users: IntArray) -> IntArray:
        """Return the arm that is next for each user: the same for all of them."""
        arm = self._best
        if self._trials:
            tried, _, turn = self._trials[0]
            arm = int(tried[turn])
        return np.full(users.size, arm)

    def show(self, users: IntArray, arms: IntArray) -> None:
        """Note the next visits; an arm that was not shown in its turn is still to be."""
        for arm in arms.tolist():
            if not self._trials:
                break
            tried, left, turn = self._trials[0]
            if arm == tried[turn]:
                self._trials[0] = tried, left - 1, (turn + 1) % tried.size
                if left == 1:
                    del self._trials[0]
        self._open.open(users, arms)

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        """Add rewards to the means of their arms."""
        _, arms, rewards = self._open.close(visits, rewards)
        _add_rewards(self._told, self._sums, arms, rewards)
        self._choose()

    def _choose(self) -> None:
        """Find the active arm with the highest mean; one that is not known has none."""
        self._best = _best_arm(self._is_active, self._told, self._sums)

    @property
    def _means(self) -> FloatArray:
        n = self._told.size
        return np.divide(self._sums, self._told, out=np.zeros(n), where=self._told > 0)

    def add_arm(self) -> int:
        """Add an arm, shown as often before any other as those of the beginning; its number."""
        arm = self._told.size
        self._told = np.append(self._told, 0)
        self._sums = np.append(self._sums, 0.0)
        self._is_active = np.append(self._is_active, True)
        self._trials.append((np.array([arm]), self._explore, 0))
        return arm

    def retire_arm(self, arm: int) -> None:
        """Show an arm no more, not even for the first time."""
        check_retired(self._is_active, arm)
        self._is_active[arm] = False
        self._choose()
        trials, self._trials = self._trials, []
        for tried, left, turn in trials:
            others = tried[tried != arm]
            if others.size:
                # Whose turn it was, or whose is next; each others' turns stay as many as they were.
                place = int((np.roll(tried, -turn) != arm).argmax())
                turn = int(np.flatnonzero(others == np.roll(tried, -turn)[place])[0])
                self._trials.append((others, left * others.size // tried.size, turn))

    def diagnostics(self) -> bdes.Diagnostics:
        """Return how many rewards of each arm are known, their means, and how many were ignored."""
        ignored = self._open.n_ignored
        return {"told": self._told.copy(), "means": self._means, "ignored": ignored}
