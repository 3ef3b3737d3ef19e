"""Thompson sampling with Beta posteriors, exact: no normal approximation at any count.

A Beta draw tries pairs of uniforms until one is accepted (Cheng: Generating Beta Variates
with Nonintegral Shape Parameters, Communications of the ACM 21, 1978), so rounds use
differently many. Uniforms are drawn ahead; a compiled loop that runs out of them in
mid-round gives that round up, and begins it again with the same ones once more are there.
"""

import math
from typing import NamedTuple

import numpy as np
from attrs import field, frozen
from attrs.validators import ge, le
from numpy.random import Generator

import bdes_framework as bdes
from bdes_framework import FloatArray, IntArray, Record, World, compiled, play_round

_RAN_OUT = -1
_REJECTED = -1.0
_LOG_FOUR = math.log(4.0)
_ONE_PLUS_LOG_FIVE = 1.0 + math.log(5.0)


@frozen
class ThompsonConfig:
    """Thompson sampling: the arm that is best in a draw from the posterior.

    By Thompson (Biometrika 25, 1933), in the form of Agrawal and Goyal (Analysis of
    Thompson Sampling for the Multi-armed Bandit Problem, COLT 2012), Algorithm 1. Draws a
    mean for each arm from its Beta posterior and plays the highest; ties, which have
    probability 0 but for rounding, go to the lowest arm. Exact for rewards of 0 and 1; a
    reward x in between counts as x successes and 1 - x failures.

    Parameters
    ----------
    alpha : float
        Successes the prior is worth, from 1e-9 to 1e15; 1 with beta = 1 is uniform.
    beta : float
        Failures the prior is worth, from 1e-9 to 1e15.
    """

    alpha: float = field(default=1.0, validator=[bdes.validate_number, ge(1e-9), le(1e15)])
    beta: float = field(default=1.0, validator=[bdes.validate_number, ge(1e-9), le(1e15)])


class Uniforms:
    """Uniform draws made ahead and read in order, the same however many are made at a time."""

    def __init__(self, rng: Generator, size: int = 1 << 13) -> None:
        self._rng = rng
        self.values = np.empty(size)
        self.cursor = np.array([size])
        """Shape (1,): the first value that has not been read."""

    def refill(self) -> None:
        """Move the unread values to the front and draw more; make room if all are unread."""
        unread = self.values[self.cursor[0] :]
        enough_room = unread.size < self.values.size
        values = self.values if enough_room else np.empty(2 * self.values.size)
        values[: unread.size] = unread
        self._rng.random(out=values[unread.size :])
        self.values = values
        self.cursor[0] = 0


@compiled
def odds_trial(alpha: float, beta: float, first: float, second: float) -> float:
    """Make a draw of Beta(alpha, beta) from two uniforms on [0, 1), or return -1: try again.

    Returns the draw's odds, x/(1 - x), which order the arms as the draws themselves do but
    do not crowd together next to 1. Names are Cheng's, a the smaller parameter.
    """
    u = max(first, 2.0**-54)  # 0 has no logarithm
    z = u * u * (1.0 - second)
    a, b = min(alpha, beta), max(alpha, beta)
    if a > 1.0:
        w = _trial_bb(a, b, u, z)
        scale, swap = b, alpha > beta
    else:
        w = _trial_bc(a, b, u, z, 1.0 - second)
        scale, swap = a, alpha < beta
    if w == _REJECTED:
        return _REJECTED
    return scale / w if swap else w / scale


@compiled
def _trial_bb(a: float, b: float, u: float, z: float) -> float:
    """Cheng's algorithm BB, for both parameters above 1: return w, or -1 if rejected."""
    total = a + b
    rate = math.sqrt((total - 2.0) / (2.0 * a * b - total))
    v = rate * math.log(u / (1.0 - u))
    w = a * math.exp(v)
    r = (a + 1.0 / rate) * v - _LOG_FOUR
    s = a + r - w
    if s + _ONE_PLUS_LOG_FIVE >= 5.0 * z:
        return w
    log_z = math.log(z)
    if s >= log_z or r + total * math.log(total / (b + w)) >= log_z:
        return w
    return _REJECTED


@compiled
def _trial_bc(a: float, b: float, u: float, z: float, second: float) -> float:
    """Cheng's algorithm BC, for a <= 1: return w, or -1 if rejected.

    Cutting the exponent at 600 keeps w within range; the draw is 0 or 1 to the last bit long
    before, and where v is cut the test below has long been the same for every v.
    """
    delta = 1.0 + b - a
    if u < 0.5:
        k1 = delta * (1.0 / 72.0 + a / 24.0) / (b / a - 7.0 / 9.0)
        if 0.25 * second + z - u * second >= k1:
            return _REJECTED
    elif z > 0.25 and z >= 0.25 + (0.5 + 0.25 / delta) * a:
        return _REJECTED
    v = min(math.log(u / (1.0 - u)) / a, 600.0)
    w = b * math.exp(max(v, -600.0))
    if u >= 0.5 and z <= 0.25:
        return w
    total = a + b
    if total * (math.log(total / (a + w)) + v) - _LOG_FOUR >= math.log(z):
        return w
    return _REJECTED


class _State(NamedTuple):
    """Successes and failures of each arm, prior included: shape (K,) each."""

    alphas: FloatArray
    betas: FloatArray


@compiled
def _choose(alphas: FloatArray, betas: FloatArray, uniforms: FloatArray, cursor: IntArray) -> int:
    """Return the arm to play and move the cursor; or -1, the cursor unmoved, for lack of draws."""
    best, highest = 0, -1.0
    k = cursor[0]
    for arm in range(alphas.size):
        odds = _REJECTED
        while odds == _REJECTED:
            if k + 2 > uniforms.size:
                return _RAN_OUT
            odds = odds_trial(alphas[arm], betas[arm], uniforms[k], uniforms[k + 1])
            k += 2
        if odds > highest:
            best, highest = arm, odds
    cursor[0] = k
    return best


@compiled
def _learn(alphas: FloatArray, betas: FloatArray, arm: int, reward: float) -> None:
    alphas[arm] += reward
    betas[arm] += 1.0 - reward


@compiled
def _play(
    state: _State, uniforms: FloatArray, cursor: IntArray, world: World, record: Record, start: int
) -> int:
    """Play from round ``start`` of the block; return the first round that lacked draws."""
    alphas, betas = state
    for t in range(start, record.arms.size):
        arm = _choose(alphas, betas, uniforms, cursor)
        if arm == _RAN_OUT:
            return t
        _learn(alphas, betas, arm, play_round(world, record, t, arm))
    return record.arms.size


class Thompson:
    """The policy ``thompson``."""

    def __init__(self, n_arms: int, alpha: float, beta: float, rng: Generator) -> None:
        self._arm = 0
        self._uniforms = Uniforms(rng)
        self._state = _State(np.full(n_arms, alpha), np.full(n_arms, beta))

    def __repr__(self) -> str:
        return f"Thompson(n_arms={self._state[0].size})"

    def ask(self, limit: int) -> IntArray:
        """Return the next arm: shape (1,)."""
        uniforms = self._uniforms
        arm = _choose(*self._state, uniforms.values, uniforms.cursor)
        while arm == _RAN_OUT:
            uniforms.refill()
            arm = _choose(*self._state, uniforms.values, uniforms.cursor)
        self._arm = arm
        return np.array([arm], dtype=np.int64)

    def tell(self, rewards: FloatArray) -> None:
        """Learn the reward of the arm just asked for: shape (1,)."""
        _learn(*self._state, self._arm, bdes.reward_in_unit_interval(rewards))

    def play(self, world: World, record: Record) -> None:
        """Play a whole block in compiled loops, drawing more uniforms in between."""
        uniforms = self._uniforms
        n = record.arms.size
        done = _play(self._state, uniforms.values, uniforms.cursor, world, record, 0)
        while done < n:
            uniforms.refill()
            done = _play(self._state, uniforms.values, uniforms.cursor, world, record, done)

    def diagnostics(self) -> bdes.Diagnostics:
        """Return the parameters of each arm's posterior."""
        return {"alpha": self._state.alphas.copy(), "beta": self._state.betas.copy()}


def build(config: ThompsonConfig, context: bdes.PolicyContext) -> Thompson:
    """Build the policy."""
    n_arms = context.problem.n_arms
    return Thompson(n_arms, float(config.alpha), float(config.beta), context.rng)
