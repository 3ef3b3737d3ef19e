"""What planners are checked against: a table for lam = 1, families of instances."""

import itertools
from collections.abc import Iterator

import numpy as np

from bdes_framework import Instance


def table_for_rate_one(instance: Instance, horizon: int) -> float:
    """At lam = 1 the state is the last arm's b: dynamic programming over the last arm."""
    best = np.zeros(instance.n_arms)
    for _ in range(horizon - 1):
        # After arm j, pulling arm i pays r[i] * b[j] and leads to i.
        best = np.max(instance.b[:, None] * instance.r[None, :] + best[None, :], axis=1)
    return float(np.max(instance.r * instance.q0 + best))


def random_arms(seed: int, n_arms: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.random(n_arms), rng.random(n_arms)


def clickbait_arms(seed: int, n_arms: int) -> tuple[np.ndarray, np.ndarray]:
    """High pay now goes with a low end state."""
    rng = np.random.default_rng(seed)
    r = rng.random(n_arms)
    return r, np.clip(1 - r + 0.1 * rng.standard_normal(n_arms), 0, 1)


def arc_of_arms(seed: int, n_arms: int) -> tuple[np.ndarray, np.ndarray]:
    """All arms are corners of the hull."""
    angle = np.random.default_rng(seed).uniform(0, np.pi / 2, n_arms)
    return np.cos(angle), np.sin(angle)


SPECIAL_RATES = (0.0, 1.0, 0.5, 1e-9, 1e-3, 0.999999)
SPECIAL_ARMS = (
    ([1.0, 0.0], [0.0, 1.0]),
    ([0.0, 0.0], [1.0, 0.5]),
    ([1.0, 0.5], [0.0, 0.0]),
    ([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
    ([1.0, 1.0, 0.3], [0.2, 0.2, 1.0]),
    ([1.0, 0.5, 0.0], [0.0, 0.5, 1.0]),
    ([0.9, 0.6, 0.3], [0.1, 0.4, 0.7]),
    ([1.0, 1.0], [1.0, 1.0]),
    ([0.7], [0.3]),
    ([1e-8, 1.0], [1.0, 1e-8]),
    ([1.0, 0.5, 0.25, 0.0], [0.0, 0.7, 0.9, 1.0]),
)


def special_instances() -> Iterator[Instance]:
    """Ties, zeros, ones, equal arms, arms on one line, first states other than 1."""
    for (r, b), lam, q0 in itertools.product(SPECIAL_ARMS, SPECIAL_RATES, (1.0, 0.0, 0.37)):
        yield Instance(r, b, lam, q0)


def random_instances(seed: int, count: int) -> Iterator[Instance]:
    """Up to four arms; sometimes click-bait, ties, large numbers from scaling."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n_arms = int(rng.integers(1, 5))
        r, b = rng.random(n_arms), rng.random(n_arms)
        if rng.random() < 0.4:
            b = np.clip(1 - r + 0.2 * rng.standard_normal(n_arms), 0, 1)
        if rng.random() < 0.2:
            r, b = np.round(r * 4) / 4, np.round(b * 4) / 4
        lam = float(rng.choice([rng.random(), 10.0 ** -rng.integers(1, 6)]))
        instance = Instance(r, b, lam, float(rng.choice([1.0, rng.random(), 0.0])))
        yield instance.scaled(float(10 ** rng.uniform(-3, 3))) if rng.random() < 0.3 else instance
