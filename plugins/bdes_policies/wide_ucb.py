"""UCB with wider radii, for states that hardly move."""

import math
from typing import NamedTuple

import numpy as np
from attrs import field, frozen

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
from bdes_policies.checks import known_rate, positive


@frozen
class WideUcbConfig:
    """UCB with radii enlarged for the drift of the state, for slow states (the paper's remark
    "EXP3.P versus UCB" in Section 4).

    Plays every arm once, in order, and then the arm with the highest
    mean + sqrt(exploration · ln t / n) + min(1, lam · age), where n counts the arm's plays, t
    all plays so far, and age is how many rounds ago the arm's plays were, on average. Ties
    go to the lowest arm. At lam = 0 this is UCB1.

    Where it departs from the printed text, and why: the paper would enlarge the intervals
    by lam·T, but the same number added to every index changes no choice. What that number
    bounds is how far an arm's mean may be from what the arm would pay now: a state moves by
    at most lam in a round, so a play s rounds ago is off by at most lam·s, and a mean by
    lam·age, which is at most lam·T and differs from arm to arm. No state moves by more
    than 1.

    Parameters
    ----------
    exploration : float
        The factor under the root, finite and above 0; 2 in UCB1.
    """

    exploration: float = field(default=2.0, validator=positive)


class _State(NamedTuple):
    """What the compiled functions share; they take the arrays one by one.

    Means and widths are kept per arm, so that choosing takes neither division nor root.
    """

    plays: IntArray
    """Shape (K,)."""
    sums: FloatArray
    """Shape (2, K): of rewards, and of the rounds they were paid in."""
    means: FloatArray
    """Shape (2, K): the same, over plays."""
    widths: FloatArray
    """Shape (K,): 1 / sqrt(plays)."""
    clock: IntArray
    """Shape (1,): all plays so far."""


@compiled
def _choose(
    means: FloatArray, widths: FloatArray, clock: IntArray, exploration: float, lam: float
) -> int:
    t = clock[0]
    if t < widths.size:
        return int(t)
    radius = math.sqrt(exploration * math.log(t))
    best, highest = 0, -math.inf
    for arm in range(widths.size):
        drift = min(1.0, lam * (t - means[1, arm]))
        bound = means[0, arm] + radius * widths[arm] + drift
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
    sums[0, arm] += reward
    sums[1, arm] += clock[0]
    means[0, arm] = sums[0, arm] / plays[arm]
    means[1, arm] = sums[1, arm] / plays[arm]
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
    lam: float,
    world: World,
    record: Record,
) -> None:
    for t in range(record.arms.size):
        arm = _choose(means, widths, clock, exploration, lam)
        reward = play_round(world, record, t, arm)
        _learn(plays, sums, means, widths, clock, arm, reward)


class WideUcb:
    """The policy ``wide-ucb``."""

    def __init__(self, n_arms: int, exploration: float, lam: float) -> None:
        self._exploration = exploration
        self._lam = lam
        self._arm = 0
        self._state = _State(
            plays=np.zeros(n_arms, dtype=np.int64),
            sums=np.zeros((2, n_arms)),
            means=np.zeros((2, n_arms)),
            widths=np.zeros(n_arms),
            clock=np.zeros(1, dtype=np.int64),
        )

    def ask(self, limit: int) -> IntArray:
        """Return the next arm: shape (1,)."""
        state = self._state
        self._arm = _choose(state.means, state.widths, state.clock, self._exploration, self._lam)
        return np.array([self._arm], dtype=np.int64)

    def tell(self, rewards: FloatArray) -> None:
        """Learn the reward of the arm just asked for: shape (1,)."""
        (reward,) = finite_rewards(rewards, 1).tolist()
        _learn(*self._state, self._arm, reward)

    def play(self, world: World, record: Record) -> None:
        """Play a whole block in one compiled loop."""
        _play(*self._state, self._exploration, self._lam, world, record)

    def diagnostics(self) -> Diagnostics:
        """Return how often each arm was played, its mean reward and the age of its plays."""
        state = self._state
        ages = np.where(state.plays > 0, state.clock[0] - state.means[1], 0.0)
        return {"plays": state.plays.copy(), "means": state.means[0].copy(), "ages": ages}


def build(config: WideUcbConfig, context: PolicyContext) -> WideUcb:
    """Build the policy."""
    lam = known_rate(context.problem, "wide-ucb", "exp3p")
    return WideUcb(context.problem.n_arms, float(config.exploration), lam)
