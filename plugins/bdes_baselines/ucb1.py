"""UCB1, and UCB with radii widened for the drift of the state: one index policy."""

import math
from typing import NamedTuple

import numpy as np
from attrs import field, frozen
from attrs.validators import gt, lt

import bdes_framework as bdes
from bdes_framework import FloatArray, IntArray, PolicyContext, Record, World, compiled, play_round


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

    exploration: float = field(default=2.0, validator=[bdes.validate_number, gt(0), lt(math.inf)])


@frozen
class WideUcbConfig(Ucb1Config):
    """UCB with radii enlarged for the drift of the state, for slow states.

    The paper's remark "EXP3.P versus UCB" in Section 4.
    Plays every arm once, in order, and then the arm with the highest
    mean + sqrt(exploration · ln t / n) + min(1, lam · age), where n counts the arm's plays, t
    all plays so far, and age is how many rounds ago the arm's plays were, on average. Ties
    go to the lowest arm. At lam = 0 this is UCB1.

    Where it departs from the printed text, and why: the paper would enlarge the intervals
    by lam·T, but the same number added to every index changes no choice. What that number
    bounds is how far an arm's mean may be from what the arm would pay now: a state moves by
    at most lam per round, so a play s rounds ago is off by at most lam·s, and a mean by
    lam·age, which is at most lam·T and differs from arm to arm. No state moves by more
    than 1.
    """


class _State(NamedTuple):
    """Arrays of the compiled functions; ask and tell pass them one by one, which is faster.

    Means and widths are kept per arm, so that choosing takes neither division nor root.
    """

    plays: IntArray
    """Shape (K,)."""
    sums: FloatArray
    """Shape (2, K): of rewards, and of the rounds they were paid in (with lam only)."""
    means: FloatArray
    """Shape (2, K): the same, over plays."""
    widths: FloatArray
    """Shape (K,): 1 / sqrt(plays)."""
    clock: IntArray
    """Shape (1,): all plays so far."""


_STRETCH = 64
"""Rounds for which the radius is bounded, not computed."""
_ROUNDING = 1e-12


@compiled
def _radius(t: int, exploration: float) -> float:
    return math.sqrt(exploration * math.log(t))


@compiled
def _choose(
    means: FloatArray, widths: FloatArray, clock: IntArray, exploration: float, lam: float | None
) -> int:
    """Return the arm of the highest index; a lam of None is compiled to plain UCB1."""
    t = clock[0]
    if t < widths.size:
        return int(t)
    radius = _radius(t, exploration)
    best, highest = 0, -math.inf
    for arm in range(widths.size):
        bound = means[0, arm] + radius * widths[arm]
        if lam is not None:
            bound += min(1.0, lam * (t - means[1, arm]))
        if bound > highest:
            best, highest = arm, bound
    return best


@compiled
def _others(
    means: FloatArray, widths: FloatArray, radius: float, leader: int
) -> tuple[float, float]:
    """Return the highest index of all arms but one, and the largest width."""
    highest, widest = -math.inf, 0.0
    for arm in range(widths.size):
        if arm != leader:
            highest = max(highest, means[0, arm] + radius * widths[arm])
            widest = max(widest, widths[arm])
    return highest, widest


@compiled
def _learn(
    plays: IntArray,
    sums: FloatArray,
    means: FloatArray,
    widths: FloatArray,
    clock: IntArray,
    lam: float | None,
    arm: int,
    reward: float,
) -> None:
    plays[arm] += 1
    sums[0, arm] += reward
    means[0, arm] = sums[0, arm] / plays[arm]
    if lam is not None:
        sums[1, arm] += clock[0]
        means[1, arm] = sums[1, arm] / plays[arm]
    widths[arm] = 1.0 / math.sqrt(plays[arm])
    clock[0] += 1


@compiled
def _play(
    state: _State, exploration: float, lam: float | None, world: World, record: Record
) -> None:
    plays, sums, means, widths, clock = state
    leader, rest, widest, radius = 0, math.inf, 0.0, 0.0
    least, most, until = 0.0, 0.0, 0
    for t in range(record.arms.size):
        now = clock[0]
        arm = leader
        if now < widths.size or lam is not None:
            arm = _choose(means, widths, clock, exploration, lam)
        else:
            if now >= until:
                until = now + _STRETCH
                least, most = _radius(now, exploration), _radius(until, exploration)
            # While the leader's index is above what the others' can have grown to, none is needed.
            grown = (rest + (most - radius) * widest) * (1.0 + _ROUNDING)
            if not means[0, leader] + least * widths[leader] > grown:
                radius = _radius(now, exploration)
                arm = leader = _choose(means, widths, clock, exploration, lam)
                rest, widest = _others(means, widths, radius, leader)
        reward = play_round(world, record, t, arm)
        _learn(plays, sums, means, widths, clock, lam, arm, reward)


class Ucb1:
    """The policies ``ucb1`` and, given ``lam``, ``wide-ucb``."""

    def __init__(self, n_arms: int, exploration: float, lam: float | None = None) -> None:
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

    def __repr__(self) -> str:
        lam = "" if self._lam is None else f", lam={self._lam:.4g}"
        return f"Ucb1(n_arms={self._state.plays.size}, exploration={self._exploration:.4g}{lam})"

    def ask(self, limit: int) -> IntArray:
        """Return the next arm: shape (1,)."""
        _, _, means, widths, clock = self._state
        self._arm = _choose(means, widths, clock, self._exploration, self._lam)
        return np.array([self._arm], dtype=np.int64)

    def tell(self, rewards: FloatArray) -> None:
        """Learn the reward of the arm just asked for: shape (1,)."""
        (reward,) = bdes.finite_rewards(rewards, 1).tolist()
        _learn(*self._state, self._lam, self._arm, reward)

    def play(self, world: World, record: Record) -> None:
        """Play a whole block in one compiled loop."""
        _play(self._state, self._exploration, self._lam, world, record)

    def diagnostics(self) -> bdes.Diagnostics:
        """Return how often each arm was played, its mean reward and, with lam, their age."""
        plays, _, means, _, clock = self._state
        shown: dict[str, bdes.DiagnosticValue] = {"plays": plays.copy(), "means": means[0].copy()}
        if self._lam is not None:
            shown["ages"] = np.where(plays > 0, clock[0] - means[1], 0.0)
        return shown


def build_ucb1(config: Ucb1Config, context: PolicyContext) -> Ucb1:
    """Build the policy ``ucb1``."""
    return Ucb1(context.problem.n_arms, float(config.exploration))


def build_wide_ucb(config: WideUcbConfig, context: PolicyContext) -> Ucb1:
    """Build the policy ``wide-ucb``."""
    problem = context.problem
    if problem.lam is None:
        raise bdes.InvalidValueError("wide-ucb needs to know lam; without it, use exp3p")
    return Ucb1(problem.n_arms, float(config.exploration), float(problem.lam))
