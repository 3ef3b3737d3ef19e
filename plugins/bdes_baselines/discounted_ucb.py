"""Discounted UCB: an upper confidence bound that forgets old rewards little by little."""

import math
from typing import NamedTuple

import numpy as np
from attrs import field, frozen
from attrs.validators import ge, gt, le, lt, optional

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
    validate_integer,
    validate_number,
)


@frozen
class DiscountedUcbConfig:
    """Discounted UCB: an upper confidence bound that forgets little by little.

    By Garivier and Moulines (On Upper-Confidence Bound Policies for Switching Bandit
    Problems, ALT 2011; arXiv 0805.3415). A play s rounds ago counts gamma^s. Plays every
    arm once, in order, and then the arm with the highest mean + 2·B·sqrt(xi · ln(n) / N),
    where N is the arm's discounted count and n the sum of all arms' counts. Ties go to the
    lowest arm; a count that underflows to 0 makes its arm unplayed again.

    Parameters
    ----------
    B : float
        What rewards cannot exceed, finite and above 0.
    xi : float
        Width of the bound, finite and above 0; the paper's theorem asks for more than 1/2.
    gamma : float | None
        The discount, from 1e-9 to 1. By default the paper's choice for a known horizon T,
        1 - sqrt(changes/T)/(4·B), but at least 1/2.
    changes : int
        How often the arms' means are thought to change, for the default of gamma.
    """

    B: float = field(default=1.0, validator=[validate_number, gt(0), lt(math.inf)])
    xi: float = field(default=0.6, validator=[validate_number, gt(0), lt(math.inf)])
    gamma: float | None = field(
        default=None, validator=optional([validate_number, ge(1e-9), le(1.0)])
    )
    changes: int = field(default=1, validator=[validate_integer, ge(1)])


def best_gamma(bound: float, changes: int, horizon: int) -> float:
    """Return the discount that the paper's theorem suggests, but at least 1/2."""
    return max(1.0 - math.sqrt(changes / horizon) / (4.0 * bound), 0.5)


class _State(NamedTuple):
    """Arrays of the compiled functions; ask and tell pass them one by one, which is faster."""

    counts: FloatArray
    """Shape (K,): discounted number of plays."""
    sums: FloatArray
    """Shape (K,): discounted sum of rewards."""
    total: FloatArray
    """Shape (1,): the sum of the counts."""


@compiled
def highest_bound(
    counts: FloatArray | IntArray, sums: FloatArray, spread: float, width: float
) -> int:
    """Return an arm without plays, or that of the highest mean + width·sqrt(spread/count)."""
    best, highest = 0, -math.inf
    for arm in range(counts.size):
        if counts[arm] == 0:
            return arm
        index = sums[arm] / counts[arm] + width * math.sqrt(spread / counts[arm])
        if index > highest:
            best, highest = arm, index
    return best


@compiled
def _choose(
    counts: FloatArray, sums: FloatArray, total: FloatArray, bound: float, xi: float
) -> int:
    # Rounding may leave the total just below 1, where the logarithm would turn negative.
    return highest_bound(counts, sums, xi * math.log(max(total[0], 1.0)), 2.0 * bound)


@compiled
def _learn(
    counts: FloatArray, sums: FloatArray, total: FloatArray, gamma: float, arm: int, reward: float
) -> None:
    for other in range(counts.size):
        counts[other] *= gamma
        sums[other] *= gamma
    counts[arm] += 1.0
    sums[arm] += reward
    total[0] = gamma * total[0] + 1.0


@compiled
def _play(
    state: _State, bound: float, xi: float, gamma: float, world: World, record: Record
) -> None:
    counts, sums, total = state
    for t in range(record.arms.size):
        arm = _choose(counts, sums, total, bound, xi)
        reward = play_round(world, record, t, arm)
        _learn(counts, sums, total, gamma, arm, reward)


class DiscountedUcb:
    """The policy ``discounted-ucb``."""

    def __init__(self, n_arms: int, bound: float, xi: float, gamma: float) -> None:
        self._bound = bound
        self._xi = xi
        self._gamma = gamma
        self._arm = 0
        self._state = _State(np.zeros(n_arms), np.zeros(n_arms), np.zeros(1))

    def ask(self, limit: int) -> IntArray:
        """Return the next arm: shape (1,)."""
        self._arm = _choose(*self._state, self._bound, self._xi)
        return np.array([self._arm], dtype=np.int64)

    def tell(self, rewards: FloatArray) -> None:
        """Learn the reward of the arm just asked for: shape (1,)."""
        (reward,) = finite_rewards(rewards, 1).tolist()
        _learn(*self._state, self._gamma, self._arm, reward)

    def play(self, world: World, record: Record) -> None:
        """Play a whole block in one compiled loop."""
        _play(self._state, self._bound, self._xi, self._gamma, world, record)

    def diagnostics(self) -> Diagnostics:
        """Return the discount, and each arm's discounted count and mean reward."""
        counts, sums, _ = self._state
        means = np.divide(sums, counts, out=np.zeros(counts.size), where=counts > 0)
        return {"gamma": self._gamma, "counts": counts.copy(), "means": means}


def build(config: DiscountedUcbConfig, context: PolicyContext) -> DiscountedUcb:
    """Build the policy."""
    problem = context.problem
    gamma = config.gamma or best_gamma(config.B, config.changes, problem.horizon)
    return DiscountedUcb(problem.n_arms, float(config.B), float(config.xi), float(gamma))
