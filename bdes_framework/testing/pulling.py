"""Pulls for environments to make in the kit, and what came of them."""

from collections.abc import Iterable, Sequence

import numpy as np
from attrs import frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework.interfaces import Environment, Outcome
from bdes_framework.testing.checks import Subject
from bdes_framework.testing.demands import demand_same, set_global_luck


@frozen
class Scenario:
    """How many pulls to make, and with which seed."""

    horizon: int
    seed: int

    def __str__(self) -> str:
        return f"T={self.horizon}, seed={self.seed}"

    def arms(self, n_arms: int) -> IntArray:
        """Return arms to pull, at random: shape (T,)."""
        return np.random.default_rng(self.seed).integers(n_arms, size=self.horizon)


ORDINARY = (Scenario(300, 1), Scenario(100, 2), Scenario(1, 3))
LONG = Scenario(2000, 4)
MANY = Scenario(20_000, 5)


# -- pulling --------------------------------------------------------------------------------


@frozen(eq=False)
class Pulled:
    """What a number of blocks brought, put together: arrays of shape (T,)."""

    rewards: FloatArray
    means: FloatArray
    probabilities: FloatArray
    """The means, where the environment gives no probabilities of its own."""


def build(subject: Subject, scenario: Scenario, global_seed: int = 0) -> Environment:
    """Build the environment that is checked, the global random states set to ``global_seed``."""
    set_global_luck(global_seed)
    return subject.plugins.environment(subject.ref, seed=scenario.seed, **subject.parameters)


def pull(environment: Environment, blocks: Iterable[IntArray]) -> Pulled:
    """Pull block after block."""
    return joined([_copied(environment.pull(block.copy())) for block in blocks])


def joined(parts: Sequence[Pulled]) -> Pulled:
    """Put together what came block by block."""
    return Pulled(
        rewards=np.concatenate([part.rewards for part in parts]),
        means=np.concatenate([part.means for part in parts]),
        probabilities=np.concatenate([part.probabilities for part in parts]),
    )


def _copied(outcome: Outcome) -> Pulled:
    """Copy at once what an environment may overwrite when it is pulled again."""
    drawn_from = outcome.means if outcome.probabilities is None else outcome.probabilities
    columns = (outcome.rewards, outcome.means, drawn_from)
    return Pulled(*(np.array(column, dtype=np.float64).ravel() for column in columns))


def run(subject: Subject, scenario: Scenario) -> Pulled:
    """Build an environment and pull all arms in one block."""
    environment = build(subject, scenario)
    return pull(environment, [scenario.arms(environment.n_arms)])


def cut(arms: IntArray, seed: int) -> list[IntArray]:
    """Cut into blocks of uneven length."""
    rng = np.random.default_rng(seed)
    return np.split(arms, np.flatnonzero(rng.random(arms.size - 1) < 0.2) + 1)


def demand_same_pulls(first: Pulled, second: Pulled, how: str) -> None:
    """Demand that two environments paid the same, bit for bit."""
    demand_same(first.rewards, second.rewards, f"the same rewards {how}", "reward")
    demand_same(first.means, second.means, f"the same means {how}", "mean")
    demand_same(
        first.probabilities, second.probabilities, f"the same probabilities {how}", "probability"
    )
