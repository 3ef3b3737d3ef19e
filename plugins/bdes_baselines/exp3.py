"""EXP3: exponential weights on importance-weighted rewards, for adversarial rewards.

Weights grow without bound, but only their ratios count: they are kept with their logarithms,
and divided by the largest before they overflow. A reward changes one weight only: a round
costs at most one exponential, and the running sums of the weights are corrected by the
difference; every so many changes all are summed afresh, before rounding can build up. A round
without a reward changes nothing, so the parts of [0, 1) that belong to the arms are laid out
only after a reward: from the running sums, so that no arm waits for the sum before it.
"""

import math
from typing import NamedTuple

import numpy as np
from attrs import field, frozen
from attrs.validators import ge, le, optional
from numpy.random import Generator

import bdes_framework as bdes
from bdes_framework import FloatArray, IntArray, Record, World, compiled, play_round

_FRESH_SUM_EVERY = 1024
"""Changes between fresh sums: the sums drift by about this many last bits in between."""

_HIGHEST_TOTAL = 1e20
"""A total above this makes all weights smaller; far from overflow, as a reward multiplies a
weight by at most e."""


@frozen
class Exp3Config:
    """EXP3: exponential weights, for rewards that follow no distribution at all.

    By Auer, Cesa-Bianchi, Freund and Schapire (The Nonstochastic Multiarmed Bandit Problem,
    SIAM Journal on Computing 32, 2002). Draws arm i with probability
    p_i = (1 - gamma)·w_i/sum(w) + gamma/K, and multiplies the drawn arm's weight by
    exp(gamma·reward/(K·p_i)). Rewards must lie in [0, 1].

    Parameters
    ----------
    gamma : float | None
        Share of uniform exploration, from 1e-9 to 1. By default the paper's choice for a
        known horizon T (Corollary 3.2): min(1, sqrt(K·ln K / ((e - 1)·T))).
    """

    gamma: float | None = field(
        default=None, validator=optional([bdes.validate_number, ge(1e-9), le(1.0)])
    )


class _State(NamedTuple):
    """Arrays of the compiled functions; ask and tell pass them one by one, which is faster."""

    log_weights: FloatArray
    """Shape (K,): less the largest of them when they were last summed afresh."""
    weights: FloatArray
    """Shape (K,): exp(log_weights)."""
    sums: FloatArray
    """Shape (K,): of the weights up to each arm."""
    reached: FloatArray
    """Shape (K,): where each arm's part of [0, 1) ends; the last one's is never asked."""
    totals: FloatArray
    """Shape (4,): the sum of all weights, the share (1 - gamma)/sum, how many changes are left
    until the next fresh sum, and what a reward of 1 adds to the last chosen arm's logarithm."""


@compiled
def _lay_out(
    sums: FloatArray, reached: FloatArray, share: float, floor: float, arm: int, change: float
) -> None:
    """Note that a weight changed; lay the arms' probabilities, of at least ``floor``, end to end.

    Every arm is passed: the same step for all is compiled to steps for several arms at once.
    """
    for other in range(sums.size):
        sums[other] += change if other >= arm else 0.0
        reached[other] = share * sums[other] + floor * (other + 1)


@compiled
def _choose(
    weights: FloatArray, reached: FloatArray, totals: FloatArray, floor: float, uniform: float
) -> int:
    """Return the arm whose part of [0, 1) the draw falls in, by counting the ends below the draw.

    The last end is left out, as rounding may leave it below the draw. What a reward will add is
    noted here: divided while the round is played, it is there when learning begins.
    """
    arm = 0
    for other in range(reached.size - 1):
        arm += uniform >= reached[other]
    totals[3] = floor / (totals[1] * weights[arm] + floor)
    return arm


@compiled
def _learn(
    log_weights: FloatArray,
    weights: FloatArray,
    totals: FloatArray,
    gamma: float,
    arm: int,
    reward: float,
) -> float:
    """Learn a reward above 0 of the arm last chosen; return by how much its weight changed.

    Callers do the laying out: only a function this small is compiled right into their loop.
    """
    before: float = weights[arm]
    others = totals[0] - before
    log_weights[arm] += reward * totals[3]
    weight = math.exp(log_weights[arm])
    weights[arm] = weight
    totals[0] = others + weight
    totals[1] = (1.0 - gamma) / totals[0]
    totals[2] -= 1.0
    return weight - before


@compiled
def _sum_afresh(
    log_weights: FloatArray, weights: FloatArray, sums: FloatArray, totals: FloatArray, gamma: float
) -> None:
    """Make the largest weight 1 and sum all of them; a weight that underflows counts as 0."""
    highest = log_weights.max()
    total = 0.0
    for arm in range(log_weights.size):
        log_weights[arm] -= highest
        weights[arm] = math.exp(log_weights[arm])
        total += weights[arm]
        sums[arm] = total
    totals[0] = total
    totals[1] = (1.0 - gamma) / total
    totals[2] = _FRESH_SUM_EVERY


@compiled
def _play(
    state: _State, gamma: float, floor: float, uniforms: FloatArray, world: World, record: Record
) -> None:
    log_weights, weights, sums, reached, totals = state
    for t in range(record.arms.size):
        arm = _choose(weights, reached, totals, floor, uniforms[t])
        reward = play_round(world, record, t, arm)
        if reward > 0.0:
            change = _learn(log_weights, weights, totals, gamma, arm, reward)
            if totals[0] > _HIGHEST_TOTAL or totals[2] == 0.0:
                _sum_afresh(log_weights, weights, sums, totals, gamma)
                change = 0.0
            _lay_out(sums, reached, totals[1], floor, arm, change)


class Exp3:
    """The policy ``exp3``: one uniform draw per round, fused or not."""

    def __init__(self, n_arms: int, gamma: float, rng: Generator) -> None:
        self._gamma = gamma
        self._floor = gamma / n_arms
        self._rng = rng
        self._arm = 0
        self._state = _State(
            log_weights=np.zeros(n_arms),
            weights=np.empty(n_arms),
            sums=np.empty(n_arms),
            reached=np.empty(n_arms),
            totals=np.zeros(4),
        )
        log_weights, weights, sums, reached, totals = self._state
        _sum_afresh(log_weights, weights, sums, totals, gamma)
        _lay_out(sums, reached, totals[1], self._floor, 0, 0.0)

    def __repr__(self) -> str:
        return f"Exp3(n_arms={self._state.log_weights.size}, gamma={self._gamma:.4g})"

    def ask(self, limit: int) -> IntArray:
        """Return the next arm: shape (1,)."""
        state = self._state
        self._arm = _choose(
            state.weights, state.reached, state.totals, self._floor, self._rng.random()
        )
        return np.array([self._arm], dtype=np.int64)

    def tell(self, rewards: FloatArray) -> None:
        """Learn the reward of the arm just asked for: shape (1,)."""
        reward = bdes.reward_in_unit_interval(rewards)
        if reward > 0.0:
            log_weights, weights, sums, reached, totals = self._state
            gamma, floor, arm = self._gamma, self._floor, self._arm
            change = _learn(log_weights, weights, totals, gamma, arm, reward)
            if totals[0] > _HIGHEST_TOTAL or totals[2] == 0.0:
                _sum_afresh(log_weights, weights, sums, totals, gamma)
                change = 0.0
            _lay_out(sums, reached, totals[1], floor, arm, change)

    def play(self, world: World, record: Record) -> None:
        """Play a whole block in one compiled loop."""
        uniforms = self._rng.random(record.arms.size)
        _play(self._state, self._gamma, self._floor, uniforms, world, record)

    def diagnostics(self) -> bdes.Diagnostics:
        """Return gamma and the probabilities of the next draw."""
        probabilities = self._state.totals[1] * self._state.weights + self._floor
        return {"gamma": self._gamma, "probabilities": probabilities}


def build(config: Exp3Config, context: bdes.PolicyContext) -> Exp3:
    """Build the policy."""
    n_arms, horizon = context.problem.n_arms, context.problem.horizon
    suggested = math.sqrt(n_arms * math.log(n_arms) / ((math.e - 1.0) * horizon))
    gamma = min(1.0, suggested) if config.gamma is None else float(config.gamma)
    return Exp3(n_arms, gamma, context.rng)
