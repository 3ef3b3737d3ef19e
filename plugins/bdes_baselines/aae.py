"""Active arm elimination: play all arms in turn, drop those that are surely worse."""

import math
from typing import NamedTuple

import numpy as np
from attrs import field, frozen
from attrs.validators import ge, le, optional

import bdes_framework as bdes
from bdes_framework import FloatArray, IntArray, Record, World, compiled, play_round

_MAX_BLOCK = 1 << 16
"""Arms returned at once at most, so that memory stays flat whatever limit is asked with."""


@frozen
class AaeConfig:
    """Active arm elimination: all arms in turn, dropping those that are surely worse.

    Successive elimination by Even-Dar, Mannor and Mansour (Action Elimination and Stopping
    Conditions for the Multi-Armed Bandit and Reinforcement Learning Problems, JMLR 7,
    2006). Plays the active arms in turn, lowest first. After every arm has been played n
    times, drops those whose mean is 2·radius or more below the best, with
    radius = sqrt(ln(4·K·n²/delta)/n), and plays the last one left for ever. For constant
    means and rewards in [0, 1] the best arm is never dropped, with probability at least
    1 - delta (Hoeffding's inequality, summed over arms and n: pi²/3 < 4).

    Parameters
    ----------
    delta : float | None
        How likely a wrong elimination may be, from 1e-300 to 1. By default 1/T for the
        horizon T.
    """

    delta: float | None = field(
        default=None, validator=optional([bdes.validate_number, ge(1e-300), le(1.0)])
    )


class _State(NamedTuple):
    """Arrays of the compiled functions."""

    sums: FloatArray
    """Shape (K,): total reward of each arm."""
    plays: IntArray
    """Shape (K,)."""
    active: IntArray
    """Shape (K,): the active arms, in order, come first; what follows them is left over."""
    status: IntArray
    """Shape (3,): how many arms are active, which of them is next, and n."""


@compiled
def _learn(state: _State, log_factor: float, reward: float) -> None:
    """Learn the reward of the next active arm; at the end of a turn, drop bad arms."""
    sums, plays, active, status = state
    arm = active[status[1]]
    sums[arm] += reward
    plays[arm] += 1
    status[1] += 1
    if status[1] == status[0]:
        status[1] = 0
        status[2] += 1
        if status[0] > 1:
            _drop(sums, active, status, log_factor)


@compiled
def _drop(sums: FloatArray, active: IntArray, status: IntArray, log_factor: float) -> None:
    n = status[2]
    radius = math.sqrt((log_factor + 2.0 * math.log(n)) / n)
    best = sums[active[0]]
    for i in range(1, status[0]):
        best = max(best, sums[active[i]])
    kept = 0
    for i in range(status[0]):
        arm = active[i]
        if best / n - sums[arm] / n < 2.0 * radius:
            active[kept] = arm
            kept += 1
    status[0] = kept


@compiled
def _learn_block(state: _State, log_factor: float, rewards: FloatArray) -> None:
    for t in range(rewards.size):
        _learn(state, log_factor, rewards[t])


@compiled
def _play(state: _State, log_factor: float, world: World, record: Record) -> None:
    for t in range(record.arms.size):
        reward = play_round(world, record, t, state.active[state.status[1]])
        _learn(state, log_factor, reward)


class Aae:
    """The policy ``aae``: asked, it returns the rest of the turn, or the last arm for long."""

    def __init__(self, n_arms: int, delta: float) -> None:
        self._asked = 0
        self._log_factor = math.log(4.0 * n_arms) - math.log(delta)
        self._state = _State(
            sums=np.zeros(n_arms),
            plays=np.zeros(n_arms, dtype=np.int64),
            active=np.arange(n_arms),
            status=np.array([n_arms, 0, 0]),
        )

    def __repr__(self) -> str:
        return f"Aae(n_arms={self._state.sums.size}, active={self._state.status[0]})"

    def ask(self, limit: int) -> IntArray:
        """Return what is left of this turn: at most ``limit`` arms."""
        n_active, cursor, _ = self._state.status.tolist()
        if n_active == 1:
            arms = np.full(min(limit, _MAX_BLOCK), self._state.active[0])
        else:
            arms = self._state.active[cursor : min(n_active, cursor + limit)].copy()
        self._asked = arms.size
        return arms

    def tell(self, rewards: FloatArray) -> None:
        """Learn the rewards of the arms just asked for."""
        _learn_block(self._state, self._log_factor, bdes.finite_rewards(rewards, self._asked))
        self._asked = 0

    def play(self, world: World, record: Record) -> None:
        """Play a whole block in one compiled loop."""
        _play(self._state, self._log_factor, world, record)

    def diagnostics(self) -> bdes.Diagnostics:
        """Return how often each arm was played, its mean reward, and the active arms."""
        state = self._state
        return {
            "plays": state.plays.copy(),
            "means": state.sums / np.maximum(state.plays, 1),
            "active": state.active[: state.status[0]].copy(),
        }


def build(config: AaeConfig, context: bdes.PolicyContext) -> Aae:
    """Build the policy."""
    problem = context.problem
    delta = 1.0 / problem.horizon if config.delta is None else float(config.delta)
    return Aae(problem.n_arms, delta)
