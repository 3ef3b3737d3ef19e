"""Logs simulated from an instance, row by row, without any code of the fit."""

import numpy as np

import bdes_framework as bdes


def simulated_log(
    instance: bdes.Instance, users: int, rows: int, *, run: int = 5, seed: int = 0
) -> bdes.Log:
    """Return a log of so many users, each with runs of one arm at a time."""
    rng = np.random.default_rng(seed)
    arms = np.concatenate(
        [np.repeat(rng.integers(0, instance.n_arms, -(-rows // run)), run)[:rows]
         for _ in range(users)]
    )  # fmt: skip
    means = np.concatenate([instance.expected_rewards(part) for part in np.split(arms, users)])
    rewards = (rng.random(arms.size) < means).astype(np.int8)
    names = [str(arm) for arm in range(instance.n_arms)]
    return bdes.Log(arms, rewards, np.arange(0, arms.size, rows), names)
