"""Logs simulated from an instance, row by row, without any code of the fit."""

import numpy as np

import bdes_framework as bdes

ADS = bdes.Instance([0.6, 0.4, 0.25], [0.25, 0.5, 0.75], 0.15)


def simulated_log(
    instance: bdes.Instance,
    users: int,
    rows: int,
    *,
    run: int = 5,
    seed: int = 0,
    spread: float = 0.0,
) -> bdes.Log:
    """Return a log of so many users, each with runs of one arm at a time.

    Each user's rewards have a factor of their own, of mean 1 and standard deviation ``spread``.
    """
    rng = np.random.default_rng(seed)
    n_runs = -(-rows // run)
    arms = np.concatenate(
        [np.repeat(rng.integers(0, instance.n_arms, n_runs), run)[:rows] for _ in range(users)]
    )
    means = np.concatenate([instance.expected_rewards(part) for part in np.split(arms, users)])
    if spread:
        means = np.repeat(rng.gamma(spread**-2, spread**2, users), rows) * means
    rewards = (rng.random(arms.size) < means).astype(np.int8)
    names = [str(arm) for arm in range(instance.n_arms)]
    return bdes.Log(arms, rewards, np.arange(0, arms.size, rows), names)


def truth_of(instance: bdes.Instance) -> bdes.FloatArray:
    """Return r, b and lam in one array."""
    return np.array([*instance.r, *instance.b, instance.lam])


def intervals_of(found: bdes.Fit) -> bdes.FloatArray:
    """Return the ends of the intervals of r, b and lam: shape (2K + 1, 2)."""
    return np.vstack([found.r_interval, found.b_interval, [found.lam_interval]])


def leaving_log(instance: bdes.Instance, users: int, mean: float, seed: int = 0) -> bdes.Log:
    """Return a log of users who leave after every visit with the same probability."""
    rng = np.random.default_rng(seed)
    lengths = rng.geometric(1 / mean, users)
    parts = [np.repeat(rng.integers(0, instance.n_arms, n), 3)[:n] for n in lengths.tolist()]
    means = np.concatenate([instance.expected_rewards(part) for part in parts])
    rewards = (rng.random(means.size) < means).astype(np.int8)
    starts = np.cumsum(lengths) - lengths
    return bdes.Log(np.concatenate(parts), rewards, starts, list(map(str, range(instance.n_arms))))
