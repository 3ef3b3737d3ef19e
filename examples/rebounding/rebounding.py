"""Rebounding arms: an environment that is no B-DES instance, as a plugin in one file.

Every arm has a satiation of its own: pulling the arm raises it, time wears it off. There is no
common state, so no planner of the framework fits; the environment brings its own benchmark.
After Leqi, Kilinc-Karzan, Lipton and Montgomery, *Rebounding Bandits for Modeling Satiation
Effects* (2021), with Bernoulli rewards.
"""

import numpy as np
from attrs import field, frozen
from numpy.random import Generator

from bdes_framework import (
    Benchmark,
    BuildContext,
    FloatArray,
    IntArray,
    InvalidValueError,
    Outcome,
    Registrar,
    compiled,
    hookimpl,
)

BDES_API_VERSION = 1

WEIGHTS = (1.0, 1.25, 1.5, 1.75, 2.0)
"""How much of its satiation a greedy schedule holds against an arm: 1 sees only what this pull
loses. In the long run a pull makes later ones lose as much again, so that 2 counts both."""

LAGS = 64
"""How many earlier pulls of an arm the upper bound takes into account; fewer is looser."""


@frozen
class ReboundingConfig:
    """Arms that people tire of, each for itself, and that recover while they rest.

    Parameters
    ----------
    base : list of float in [0, 1]
        What each arm pays on average when nobody is tired of it.
    cost : list of float, at least 0
        How much less it pays for each unit of its satiation.
    decay : list of float in [0, 1)
        How much of its satiation is left after a round; a pull adds one unit before that.
    """

    base: FloatArray = field(eq=False)
    cost: FloatArray = field(eq=False)
    decay: FloatArray = field(eq=False)

    def __attrs_post_init__(self) -> None:
        if not self.base.ndim == 1 <= self.base.size:
            raise InvalidValueError("base must be a list with a number for each arm")
        if self.cost.shape != self.base.shape or self.decay.shape != self.base.shape:
            raise InvalidValueError("base, cost and decay need one number for each arm")
        if (self.decay < 0).any() or (self.decay >= 1).any() or (self.cost < 0).any():
            raise InvalidValueError("decay must lie in [0, 1), and cost must not be negative")
        worst = self.base - self.cost * self.decay / (1 - self.decay)
        if (self.base > 1).any() or (worst < 0).any():
            raise InvalidValueError(
                "an arm must pay at most 1 rested, and at least 0 if it is pulled for ever:"
                f" base - cost * decay / (1 - decay) is {worst.round(4).tolist()}"
            )


@compiled
def _pull(arms: IntArray, arm_table: FloatArray, satiation: FloatArray, means: FloatArray) -> None:
    """Write the mean of each pull, and move every arm's satiation."""
    base, cost, decay = arm_table
    for t in range(arms.size):
        arm = arms[t]
        means[t] = base[arm] - cost[arm] * satiation[arm]
        satiation[arm] += 1.0
        for k in range(base.size):
            satiation[k] *= decay[k]


@compiled
def _greedy(arms: IntArray, arm_table: FloatArray, satiation: FloatArray, weight: float) -> None:
    """Write the schedule that pulls the arm with the best base - weight * cost * satiation."""
    base, cost, decay = arm_table
    for t in range(arms.size):
        best, highest = 0, -np.inf
        for k in range(base.size):
            index = base[k] - weight * cost[k] * satiation[k]
            if index > highest:
                best, highest = k, index
        arms[t] = best
        satiation[best] += 1.0
        for k in range(base.size):
            satiation[k] *= decay[k]


class Rebounding:
    """Pays 1 with probability base - cost * satiation of the arm pulled, else 0."""

    def __init__(self, config: ReboundingConfig, rng: Generator) -> None:
        self._table = np.array([config.base, config.cost, config.decay])
        self._satiation = np.zeros(config.base.size)
        self._rng = rng

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return self._satiation.size

    def pull(self, arms: IntArray) -> Outcome:
        """Play a block."""
        if arms.min() < 0 or arms.max() >= self.n_arms:
            raise InvalidValueError(f"arms go from 0 to {self.n_arms - 1}")
        means = np.empty(arms.size)
        _pull(arms, self._table, self._satiation, means)
        rewards = (self._rng.random(arms.size) < means).astype(np.float64)
        return Outcome(rewards, means)

    def benchmark(self, checkpoints: IntArray) -> Benchmark:
        """Return what the best of a few greedy schedules earns, and what nothing exceeds."""
        horizon = int(checkpoints[-1])
        totals = max(
            (self._earned(weight, horizon) for weight in WEIGHTS), key=lambda sums: sums[-1]
        )
        return Benchmark(checkpoints, totals[checkpoints - 1], upper_bound(self._table, horizon))

    def _earned(self, weight: float, horizon: int) -> FloatArray:
        arms, means = np.empty(horizon, dtype=np.int64), np.empty(horizon)
        _greedy(arms, self._table, np.zeros(self.n_arms), weight)
        _pull(arms, self._table, np.zeros(self.n_arms), means)
        return np.cumsum(means)


def upper_bound(arm_table: FloatArray, horizon: int) -> float:
    """Return what no schedule of ``horizon`` rounds earns more than.

    An arm pulled m times loses cost * decay^d for each two of its pulls, d rounds apart. Among the
    m - k pairs that are k pulls apart, distances add up to at most min(k, m - k) * (horizon - 1),
    and decay^d is convex in d, so together they lose at least what equal distances would
    (Jensen). That bounds each arm by a function of m alone. With a price on pulls, each arm may
    choose its m freely (Lagrange); every price gives a bound, and the best of many is returned.
    """
    pulls = np.arange(horizon + 1, dtype=np.float64)
    most = np.array([_most_of_one(arm, pulls) for arm in arm_table.T])

    def bound(price: float) -> float:
        return float((most - price * pulls).max(axis=1).sum() + price * horizon)

    low, high = 0.0, 1.0  # the bound is convex in the price, so a search by thirds finds its least
    for _ in range(60):
        third = (high - low) / 3
        if bound(low + third) <= bound(high - third):
            high -= third
        else:
            low += third
    return bound((low + high) / 2)


def _most_of_one(arm: FloatArray, pulls: FloatArray) -> FloatArray:
    """Return what an arm can earn at most with each number of pulls: same shape as ``pulls``."""
    base, cost, decay = arm.tolist()
    lost = np.zeros_like(pulls)
    span = pulls[-1] - 1
    for k in range(1, min(LAGS, pulls.size - 1)):
        pairs = pulls[k + 1 :] - k
        lost[k + 1 :] += pairs * decay ** (np.minimum(k, pairs) * span / pairs)
    earned: FloatArray = base * pulls - cost * lost
    return earned


def build(config: ReboundingConfig, context: BuildContext) -> Rebounding:
    """Build the environment."""
    return Rebounding(config, context.rng)


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Register ``rebounding``."""
    registrar.environment("rebounding", ReboundingConfig, build)
