"""Upper confidence bounds that forget: old rewards count less and less, or not at all."""

import math
from typing import NamedTuple

import numpy as np
from attrs import field, frozen
from attrs.validators import ge, gt, le, lt, optional

import bdes_framework as bdes
from bdes_framework import FloatArray, IntArray, Record, World, compiled, play_round


@frozen
class _ForgettingConfig:
    """Fields shared by both.

    Parameters
    ----------
    B : float
        What rewards cannot exceed, finite and above 0.
    xi : float
        Width of the bound, finite and above 0; the paper's theorem asks for more than 1/2.
    changes : int
        How often the arms' means are thought to change, for the default of what is forgotten.
    """

    B: float = field(default=1.0, validator=[bdes.validate_number, gt(0), lt(math.inf)])
    xi: float = field(default=0.6, validator=[bdes.validate_number, gt(0), lt(math.inf)])
    changes: int = field(default=1, validator=[bdes.validate_integer, ge(1)])


@compiled
def _highest_bound(
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


@frozen
class DiscountedUcbConfig(_ForgettingConfig):
    """Discounted UCB: an upper confidence bound that forgets little by little.

    By Garivier and Moulines (On Upper-Confidence Bound Policies for Switching Bandit
    Problems, ALT 2011; arXiv 0805.3415). A play s rounds ago counts gamma^s. Plays every
    arm once, in order, and then the arm with the highest mean + 2·B·sqrt(xi · ln(n) / N),
    where N is the arm's discounted count and n the sum of all arms' counts. Ties go to the
    lowest arm; a count that underflows to 0 makes its arm unplayed again.

    Parameters
    ----------
    gamma : float | None
        The discount, from 1e-9 to 1. By default the paper's choice for a known horizon T,
        1 - sqrt(changes/T)/(4·B), but at least 1/2.
    """

    gamma: float | None = field(
        default=None, validator=optional([bdes.validate_number, ge(1e-9), le(1.0)])
    )


class _Discounted(NamedTuple):
    """Arrays of the compiled functions; ask and tell pass them one by one, which is faster."""

    counts: FloatArray
    """Shape (K,): discounted number of plays."""
    sums: FloatArray
    """Shape (K,): discounted sum of rewards."""
    total: FloatArray
    """Shape (1,): the sum of the counts."""


@compiled
def _choose_discounted(
    counts: FloatArray, sums: FloatArray, total: FloatArray, bound: float, xi: float
) -> int:
    # Rounding may leave the total just below 1, where the logarithm would turn negative.
    return _highest_bound(counts, sums, xi * math.log(max(total[0], 1.0)), 2.0 * bound)


@compiled
def _learn_discounted(
    counts: FloatArray, sums: FloatArray, total: FloatArray, gamma: float, arm: int, reward: float
) -> None:
    for other in range(counts.size):
        counts[other] *= gamma
        sums[other] *= gamma
    counts[arm] += 1.0
    sums[arm] += reward
    total[0] = gamma * total[0] + 1.0


@compiled
def _play_discounted(
    state: _Discounted, bound: float, xi: float, gamma: float, world: World, record: Record
) -> None:
    counts, sums, total = state
    for t in range(record.arms.size):
        arm = _choose_discounted(counts, sums, total, bound, xi)
        reward = play_round(world, record, t, arm)
        _learn_discounted(counts, sums, total, gamma, arm, reward)


class DiscountedUcb:
    """The policy ``discounted-ucb``."""

    def __init__(self, n_arms: int, bound: float, xi: float, gamma: float) -> None:
        self._bound = bound
        self._xi = xi
        self._gamma = gamma
        self._arm = 0
        self._state = _Discounted(np.zeros(n_arms), np.zeros(n_arms), np.zeros(1))

    def __repr__(self) -> str:
        return f"DiscountedUcb(n_arms={self._state[0].size}, gamma={self._gamma:.6g})"

    def ask(self, limit: int) -> IntArray:
        """Return the next arm: shape (1,)."""
        self._arm = _choose_discounted(*self._state, self._bound, self._xi)
        return np.array([self._arm], dtype=np.int64)

    def tell(self, rewards: FloatArray) -> None:
        """Learn the reward of the arm just asked for: shape (1,)."""
        (reward,) = bdes.finite_rewards(rewards, 1).tolist()
        _learn_discounted(*self._state, self._gamma, self._arm, reward)

    def play(self, world: World, record: Record) -> None:
        """Play a whole block in one compiled loop."""
        _play_discounted(self._state, self._bound, self._xi, self._gamma, world, record)

    def diagnostics(self) -> bdes.Diagnostics:
        """Return the discount, and each arm's discounted count and mean reward."""
        counts, sums, _ = self._state
        means = np.divide(sums, counts, out=np.zeros(counts.size), where=counts > 0)
        return {"gamma": self._gamma, "counts": counts.copy(), "means": means}


def build_discounted_ucb(config: DiscountedUcbConfig, context: bdes.PolicyContext) -> DiscountedUcb:
    """Build the policy ``discounted-ucb``."""
    problem = context.problem
    suggested = 1.0 - math.sqrt(config.changes / problem.horizon) / (4.0 * config.B)
    gamma = config.gamma or max(suggested, 0.5)
    return DiscountedUcb(problem.n_arms, float(config.B), float(config.xi), float(gamma))


@frozen
class SlidingWindowUcbConfig(_ForgettingConfig):
    """Sliding-window UCB: an upper confidence bound over the last rounds only.

    By Garivier and Moulines (On Upper-Confidence Bound Policies for Switching Bandit
    Problems, ALT 2011; arXiv 0805.3415). Plays an arm that was not played in the last tau
    rounds, if there is one, and otherwise the arm with the highest
    mean + B·sqrt(xi · ln(min(t, tau)) / N), where mean and N are those of the last tau
    rounds and t counts all plays so far. Ties go to the lowest arm.

    Parameters
    ----------
    tau : int | None
        Length of the window, at least 1. By default the paper's choice for a known horizon
        T, 2·B·sqrt(T·ln(T)/changes) rounded up, but at least the number of arms. Memory
        grows with it, up to the horizon.
    """

    tau: int | None = field(default=None, validator=optional([bdes.validate_integer, ge(1)]))


class _Window(NamedTuple):
    """Arrays of the compiled functions; ask and tell pass them one by one, which is faster."""

    counts: IntArray
    """Shape (K,): plays inside the window."""
    sums: FloatArray
    """Shape (K,): rewards inside the window."""
    window_arms: IntArray
    """Shape (tau,): the arms of the window, in a ring."""
    window_rewards: FloatArray
    """Shape (tau,): their rewards."""
    clock: IntArray
    """Shape (2,): all plays so far, and the ring's next slot."""


@compiled
def _choose_window(
    counts: IntArray, sums: FloatArray, clock: IntArray, tau: int, bound: float, xi: float
) -> int:
    return _highest_bound(counts, sums, xi * math.log(max(min(clock[0], tau), 1)), bound)


@compiled
def _learn_window(
    counts: IntArray,
    sums: FloatArray,
    window_arms: IntArray,
    window_rewards: FloatArray,
    clock: IntArray,
    arm: int,
    reward: float,
) -> None:
    slot = clock[1]
    if clock[0] >= window_arms.size:
        counts[window_arms[slot]] -= 1
        sums[window_arms[slot]] -= window_rewards[slot]
    counts[arm] += 1
    sums[arm] += reward
    window_arms[slot] = arm
    window_rewards[slot] = reward
    clock[0] += 1
    clock[1] += 1
    if clock[1] == window_arms.size:
        clock[1] = 0
        _sum_afresh(sums, window_arms, window_rewards)


@compiled
def _sum_afresh(sums: FloatArray, window_arms: IntArray, window_rewards: FloatArray) -> None:
    """Sum a full window again, once around the ring: what was subtracted leaves no rounding."""
    for arm in range(sums.size):
        sums[arm] = 0.0
    for slot in range(window_arms.size):
        sums[window_arms[slot]] += window_rewards[slot]


@compiled
def _play_window(state: _Window, bound: float, xi: float, world: World, record: Record) -> None:
    counts, sums, window_arms, window_rewards, clock = state
    for t in range(record.arms.size):
        arm = _choose_window(counts, sums, clock, window_arms.size, bound, xi)
        reward = play_round(world, record, t, arm)
        _learn_window(counts, sums, window_arms, window_rewards, clock, arm, reward)


class SlidingWindowUcb:
    """The policy ``sliding-window-ucb``."""

    def __init__(self, n_arms: int, bound: float, xi: float, tau: int) -> None:
        self._bound = bound
        self._xi = xi
        self._tau = tau
        self._arm = 0
        self._state = _Window(
            counts=np.zeros(n_arms, dtype=np.int64),
            sums=np.zeros(n_arms),
            window_arms=np.zeros(tau, dtype=np.int64),
            window_rewards=np.zeros(tau),
            clock=np.zeros(2, dtype=np.int64),
        )

    def __repr__(self) -> str:
        return f"SlidingWindowUcb(n_arms={self._state.counts.size}, tau={self._tau})"

    def ask(self, limit: int) -> IntArray:
        """Return the next arm: shape (1,)."""
        state = self._state
        self._arm = _choose_window(
            state.counts, state.sums, state.clock, self._tau, self._bound, self._xi
        )
        return np.array([self._arm], dtype=np.int64)

    def tell(self, rewards: FloatArray) -> None:
        """Learn the reward of the arm just asked for: shape (1,)."""
        (reward,) = bdes.finite_rewards(rewards, 1).tolist()
        _learn_window(*self._state, self._arm, reward)

    def play(self, world: World, record: Record) -> None:
        """Play a whole block in one compiled loop."""
        _play_window(self._state, self._bound, self._xi, world, record)

    def diagnostics(self) -> bdes.Diagnostics:
        """Return the window's length, and each arm's plays and mean reward inside it."""
        counts = self._state.counts
        means = self._state.sums / np.maximum(counts, 1)
        return {"tau": self._tau, "counts": counts.copy(), "means": means}


def build_sliding_window_ucb(
    config: SlidingWindowUcbConfig, context: bdes.PolicyContext
) -> SlidingWindowUcb:
    """Build the policy; a window beyond the horizon is cut to it, which changes nothing."""
    problem = context.problem
    n_arms, horizon = problem.n_arms, problem.horizon
    suggested = 2.0 * config.B * math.sqrt(horizon * math.log(horizon) / config.changes)
    tau = config.tau or max(math.ceil(min(suggested, float(horizon))), n_arms)
    return SlidingWindowUcb(n_arms, float(config.B), float(config.xi), min(tau, horizon))
