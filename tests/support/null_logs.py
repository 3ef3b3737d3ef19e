"""Logs of users who are shown arms at random: worlds without a state, and worlds with one."""

from typing import Any

import numpy as np
from attrs import frozen

import bdes_framework as bdes
from tests.support.players import PLUGINS

WEEK = [0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5]
NULL_WORLDS: dict[str, dict[str, Any]] = {
    "trend": {"end": 0.4, "rate": 0.05},
    "users": {"spread": 0.6},
    "week": {"week": WEEK, "visits_per_day": 200},
    "everything": {
        "end": 0.4,
        "rate": 0.05,
        "spread": 0.6,
        "week": WEEK,
        "visits_per_day": 200,
    },
}


@frozen
class RandomArms:
    """A crowd policy that shows anybody anything."""

    n_arms: int
    rng: np.random.Generator

    def ask(self, users: bdes.IntArray) -> bdes.IntArray:
        return self.rng.integers(0, self.n_arms, users.size)

    def tell(self, visits: bdes.IntArray, rewards: bdes.FloatArray) -> None:
        pass


def random_log(name: str, users: int, visits: int, seed: int, **parameters: Any) -> bdes.Log:
    """Return the log of a crowd environment under arms drawn evenly."""
    environment = PLUGINS.crowd_environment(
        name, seed=seed, users=users, visits_per_user=visits, **parameters
    )
    policy = RandomArms(environment.n_arms, np.random.default_rng([seed, 1]))
    trace = bdes.simulate_crowd(environment, policy, users * visits, keep=True)
    assert trace.users is not None
    assert trace.arms is not None
    assert trace.rewards is not None
    order = np.argsort(trace.users, kind="stable")
    return bdes.Log.of_users(trace.users[order], trace.arms[order], trace.rewards[order])


def null_log(kind: str, users: int, visits: int, seed: int, n_arms: int = 4) -> bdes.Log:
    """Return a log of a world in which nothing moves anybody."""
    r = np.linspace(0.6, 0.2, n_arms)
    return random_log("no-state", users, visits, seed, r=r, **NULL_WORLDS[kind])


PHASES = np.array([[0.7, 0.2, 0.1], [0.15, 0.25, 0.6]])


def phased_log(users: int, visits: int, seed: int) -> bdes.Log:
    """Return a log without a state whose chances of arms, and whose rewards, change half-way.

    When exactly differs from user to user. The log knows its propensities.
    """
    rng = np.random.default_rng(seed)
    change = rng.integers(visits // 4, 3 * visits // 4, users)
    phase = (np.arange(visits) >= change[:, None]).astype(np.int64)
    arms = (rng.random((users, visits))[..., None] > PHASES.cumsum(axis=1)[phase]).sum(axis=2)
    arms = np.minimum(arms, 2)
    means = np.array([0.3, 0.25, 0.2])[arms] * np.where(phase == 1, 0.4, 1.0)
    rewards = rng.random(means.shape) < means
    return bdes.Log(
        arms.ravel(),
        rewards.ravel(),
        np.arange(0, users * visits, visits),
        propensities=PHASES[phase, arms].ravel(),
    )


def targeted_log(users: int, visits: int, seed: int, known: bool) -> bdes.Log:
    """Return a log without a state whose users differ, and are shown what suits them.

    Those who respond more are shown the first arm more often. The log may know its propensities.
    """
    rng = np.random.default_rng(seed)
    kind = np.repeat(rng.integers(0, 2, users), visits)
    arms = (rng.random(kind.size)[:, None] > PHASES.cumsum(axis=1)[kind]).sum(axis=1)
    arms = np.minimum(arms, 2)
    means = np.array([0.3, 0.25, 0.2])[arms] * np.where(kind == 0, 1.5, 0.5)
    return bdes.Log(
        arms,
        rng.random(means.size) < means,
        np.arange(0, users * visits, visits),
        propensities=PHASES[kind, arms] if known else None,
    )
