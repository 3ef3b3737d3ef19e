"""Reference policies built by name, tables of rewards, and how the one plays the other."""

import math
from collections.abc import Callable

import numpy as np
from numpy.random import SFC64, Generator
from scipy.special import kolmogorov

from bdes_framework import FloatArray, Policy, Problem, load_plugins

PLUGINS = load_plugins()
NEEDED: dict[str, dict[str, object]] = {"fixed-schedule": {"cycle": [0]}}


def random_generator(seed: int = 1) -> Generator:
    return Generator(SFC64(seed))


def kolmogorov_p_value(values: FloatArray, cdf: Callable[[FloatArray], FloatArray]) -> float:
    """Return the p-value of a Kolmogorov-Smirnov test; to import scipy.stats takes a second."""
    reached, steps = cdf(np.sort(values)), np.arange(values.size + 1) / values.size
    distance = max(np.max(steps[1:] - reached), np.max(reached - steps[:-1]))
    return float(kolmogorov(math.sqrt(values.size) * distance))


def build(name: str, n_arms: int, horizon: int, **parameters: object) -> Policy:
    table = {"use": name, **NEEDED.get(name, {}), **parameters}
    return PLUGINS.policy(table, Problem(n_arms, horizon, lam=0.3), seed=5)


def arms_played(policy: Policy, table: FloatArray) -> list[int]:
    """Let a policy play a table of rewards, asking with the largest limit allowed."""
    arms: list[int] = []
    while len(arms) < len(table):
        block = policy.ask(len(table) - len(arms))
        assert block.dtype == np.int64
        assert 1 <= block.size <= len(table) - len(arms)
        rounds = np.arange(len(arms), len(arms) + block.size)
        policy.tell(table[rounds, block])
        arms += block.tolist()
    return arms


def tables(n_arms: int, horizon: int) -> dict[str, FloatArray]:
    """Return tables of rewards: clicks, fractions, a gap, a change, and nothing but ties."""
    rng = random_generator(n_arms * 1000 + horizon)
    means = np.linspace(0.2, 0.8, n_arms)
    changing = np.where(np.arange(horizon)[:, None] < horizon / 2, means, means[::-1])
    return {
        "clicks": (rng.random((horizon, n_arms)) < means).astype(float),
        "fractions": rng.random((horizon, n_arms)),
        "gap": np.tile((np.arange(n_arms) == n_arms - 1).astype(float), (horizon, 1)),
        "changing": (rng.random((horizon, n_arms)) < changing).astype(float),
        "zeros": np.zeros((horizon, n_arms)),
        "ones": np.ones((horizon, n_arms)),
    }
