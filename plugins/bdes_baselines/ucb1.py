"""UCB1: the arm whose upper confidence bound is highest."""

import math
from typing import NamedTuple

import numpy as np
from attrs import field, frozen

from bdes_baselines.checks import positive
from bdes_framework import (
    Diagnostics,
    FloatArray,
    IntArray,
    PolicyContext,
    Record,
    World,
    compiled,
    finite_rewards,
    play_round,
)


@frozen
class Ucb1Config:
    """UCB1: the arm whose upper confidence bound is highest.

    By Auer, Cesa-Bianchi and Fischer (Finite-time Analysis of the Multiarmed Bandit
    Problem, Machine Learning 47, 2002). Plays every arm once, in order, and then the arm
    with the highest mean + sqrt(exploration · ln t / n), where n counts the arm's plays and
    t all plays so far. Ties go to the lowest arm. Rewards lie in [0, 1].

    Parameters
    ----------
    exploration : float
        The factor under the root, finite and above 0; 2 in the paper.
    """

    exploration: float = field(default=2.0, validator=positive)


class _State(NamedTuple):
    """What the compiled functions share; they take the arrays one by one.

    Mean and width are kept per arm, so that choosing takes neither division nor root.
    """

    plays: IntArray
    """Shape (K,)."""
    sums: FloatArray
    """Shape (K,): total reward."""
    means: FloatArray
    """Shape (K,): sums / plays."""
    widths: FloatArray
    """Shape (K,): 1 / sqrt(plays)."""
    clock: IntArray
    """Shape (1,): all plays so far."""


@compiled
def _choose(means: FloatArray, widths: FloatArray, clock: IntArray, exploration: float) -> int:
    t = clock[0]
    if t < means.size:
        return int(t)
    radius = math.sqrt(exploration * math.log(t))
    best, highest = 0, means[0] + radius * widths[0]
    for arm in range(1, means.size):
        bound = means[arm] + radius * widths[arm]
        if bound > highest:
            best, highest = arm, bound
    return best


@compiled
def _learn(
    plays: IntArray,
    sums: FloatArray,
    means: FloatArray,
    widths: FloatArray,
    clock: IntArray,
    arm: int,
    reward: float,
) -> None:
    plays[arm] += 1
    sums[arm] += reward
    means[arm] = sums[arm] / plays[arm]
    widths[arm] = 1.0 / math.sqrt(plays[arm])
    clock[0] += 1


@compiled
def _play(
    plays: IntArray,
    sums: FloatArray,
    means: FloatArray,
    widths: FloatArray,
    clock: IntArray,
    exploration: float,
    world: World,
    record: Record,
) -> None:
    for t in range(record.arms.size):
        arm = _choose(means, widths, clock, exploration)
        reward = play_round(world, record, t, arm)
        _learn(plays, sums, means, widths, clock, arm, reward)


class Ucb1:
    """The policy ``ucb1``."""

    def __init__(self, n_arms: int, exploration: float) -> None:
        self._exploration = exploration
        self._arm = 0
        self._state = _State(
            plays=np.zeros(n_arms, dtype=np.int64),
            sums=np.zeros(n_arms),
            means=np.zeros(n_arms),
            widths=np.zeros(n_arms),
            clock=np.zeros(1, dtype=np.int64),
        )

    def ask(self, limit: int) -> IntArray:
        """Return the next arm: shape (1,)."""
        state = self._state
        self._arm = _choose(state.means, state.widths, state.clock, self._exploration)
        return np.array([self._arm], dtype=np.int64)

    def tell(self, rewards: FloatArray) -> None:
        """Learn the reward of the arm just asked for: shape (1,)."""
        (reward,) = finite_rewards(rewards, 1).tolist()
        _learn(*self._state, self._arm, reward)

    def play(self, world: World, record: Record) -> None:
        """Play a whole block in one compiled loop."""
        _play(*self._state, self._exploration, world, record)

    def diagnostics(self) -> Diagnostics:
        """Return how often each arm was played and its mean reward."""
        return {"plays": self._state.plays.copy(), "means": self._state.means.copy()}


def build(config: Ucb1Config, context: PolicyContext) -> Ucb1:
    """Build the policy."""
    return Ucb1(context.problem.n_arms, float(config.exploration))
