"""Rounds of a B-DES environment: the data a fused policy sees, and the loops that play them."""

from typing import NamedTuple

import numpy as np

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework.errors import InvalidValueError
from bdes_framework.model.compiling import compiled


class World(NamedTuple):
    """The inside of a B-DES environment for a fused policy, with the random draws of n rounds.

    Only the environment makes one; only :func:`play_round` should touch what is in it.
    """

    r: FloatArray
    """Shape (K,): pay-off of each arm."""
    b: FloatArray
    """Shape (K,): end state of each arm."""
    lam: float
    """Evolution rate."""
    q: FloatArray
    """Shape (1,): the state before the next round; moved in place."""
    uniforms: FloatArray
    """Shape (n,): one uniform draw per round."""
    noise: FloatArray
    """Shape (n,): one draw of the noise per round, or shape (0,) without noise."""


class Record(NamedTuple):
    """Where n rounds are written down: all arrays of shape (n,)."""

    arms: IntArray
    rewards: FloatArray
    means: FloatArray
    """Expected reward r·q, before noise."""
    probabilities: FloatArray
    """Under noise, what the reward was drawn from: clip(r·(q + noise), 0, 1). Else untouched."""
    states: FloatArray
    """The state each pull was made at."""

    @classmethod
    def empty(cls, n: int, arms: IntArray | None = None) -> "Record":
        """Return room for n rounds, for given arms or for arms yet to be chosen."""
        chosen = np.empty(n, dtype=np.int64) if arms is None else arms
        return cls(chosen, np.empty(n), np.empty(n), np.empty(n), np.empty(n))

    def rounds(self, start: int, stop: int) -> "Record":
        """Return the part of this record that rounds ``start`` to ``stop - 1`` are in."""
        return Record._make(array[start:stop] for array in self)


@compiled
def play_round(world: World, record: Record, t: int, arm: int) -> float:
    """Play ``arm`` in round ``t`` of this block; write it down; return the reward.

    An arm that does not exist is written down as it is, for :func:`simulate` to reject, and
    pays like arm 0; a round outside the block is not played. Neither reads or writes outside
    the arrays.
    """
    if t < 0 or t >= record.arms.size:
        return 0.0
    known = arm if 0 <= arm < world.r.size else 0
    record.arms[t] = arm
    world.q[0] = _play_known_arm(world, record, t, known, world.q[0])
    return float(record.rewards[t])


@compiled
def _play_known_arm(world: World, record: Record, t: int, arm: int, q: float) -> float:
    """Write down the round that plays ``arm`` at state ``q``; return the state after it."""
    mean = world.r[arm] * q
    probability = mean
    if world.noise.size:
        probability = min(max(world.r[arm] * (q + world.noise[t]), 0.0), 1.0)
        record.probabilities[t] = probability
    record.rewards[t] = 1.0 if world.uniforms[t] < probability else 0.0
    record.means[t] = mean
    record.states[t] = q
    return float(q + world.lam * (world.b[arm] - q))


@compiled
def sweep_states(b: FloatArray, lam: float, q0: float, arms: IntArray, states: FloatArray) -> float:
    """Write the state before each pull into ``states``; return the state after the last one.

    ``q += lam * (b - q)`` rather than ``(1 - lam) * q + lam * b``: it drifts less.
    """
    q = q0
    for t in range(arms.size):
        states[t] = q
        q = q + lam * (b[arms[t]] - q)
    return q


@compiled
def sweep_block(world: World, record: Record) -> int:
    """Play ``record.arms`` in order; return -1, or the first round whose arm is out of range.

    If an arm is out of range, nothing is played.
    """
    n_arms = world.r.size
    for t in range(record.arms.size):
        if record.arms[t] < 0 or record.arms[t] >= n_arms:
            return t
    q = world.q[0]
    for t in range(record.arms.size):
        q = _play_known_arm(world, record, t, record.arms[t], q)
    world.q[0] = q
    return -1


def finite_rewards(rewards: FloatArray, asked: int) -> FloatArray:
    """Return the rewards given to ``tell`` if they are finite and as many as asked for.

    Parameters
    ----------
    rewards : FloatArray, shape (n,)
        As given to :meth:`Policy.tell`.
    asked : int
        How many arms the last :meth:`Policy.ask` returned.

    Raises
    ------
    InvalidValueError
        If they are not as many as were asked for, or one of them is NaN or infinite. A policy
        should call this before it learns from any.

    Examples
    --------
    >>> finite_rewards(np.array([0.0, 1.0]), 2).tolist()
    [0.0, 1.0]
    """
    if rewards.size != asked:
        raise InvalidValueError(f"asked for {asked} pulls, got the rewards of {rewards.size}")
    finite = np.isfinite(rewards)
    if not finite.all():
        place = int(np.argmin(finite))
        raise InvalidValueError(
            f"rewards must be finite numbers, got {rewards.tolist()[place]!r}"
            f" as number {place + 1} of {rewards.size}"
        )
    return rewards


def reward_in_unit_interval(rewards: FloatArray) -> float:
    """Return the one reward given to ``tell``, for policies whose arithmetic fails outside [0, 1].

    Raises
    ------
    InvalidValueError
        If there is not exactly one reward, or it lies outside [0, 1].

    Examples
    --------
    >>> reward_in_unit_interval(np.array([0.5]))
    0.5
    """
    (reward,) = finite_rewards(rewards, 1).tolist()
    if not 0.0 <= reward <= 1.0:
        raise InvalidValueError(f"rewards must lie in [0, 1], got {reward!r}")
    return float(reward)
