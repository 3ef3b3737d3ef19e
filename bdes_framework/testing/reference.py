"""The kit's reference: a plain environment, example instances and brute force.

Nothing here uses a plugin, and brute force uses none of the core's own shortcuts either.
"""

import numpy as np

from bdes_framework._internal.arrays import IntArray
from bdes_framework.errors import InvalidValueError
from bdes_framework.interfaces import Outcome
from bdes_framework.model.instance import Instance
from bdes_framework.model.rounds import Record, World, sweep_block


class ReferenceEnvironment:
    """A B-DES instance played straight through the public kernels; one random number per round.

    Parameters
    ----------
    instance : Instance
        What is played; r, b and q0 in [0, 1].
    seed : int
        Seed of its random numbers.
    noise_width : float, default 0
        Uniform noise on the state, between minus and plus this; none at 0.

    Examples
    --------
    >>> environment = ReferenceEnvironment(Instance([1.0, 0.0], [1.0, 1.0], lam=0.5), seed=1)
    >>> environment.pull(np.array([0, 1, 0])).rewards.tolist()
    [1.0, 0.0, 1.0]
    """

    def __init__(self, instance: Instance, seed: int, noise_width: float = 0.0) -> None:
        self.instance = instance
        self.n_arms = instance.n_arms
        self._rng = np.random.default_rng([seed, 0])
        self._noise_rng = np.random.default_rng([seed, 1])
        self._noise_width = noise_width
        self._q = np.array([instance.q0])

    def open_rounds(self, n: int) -> World:
        """Draw the random numbers of the next n rounds."""
        noise = np.empty(0)
        if self._noise_width:
            noise = self._noise_rng.uniform(-self._noise_width, self._noise_width, n)
        instance = self.instance
        return World(instance.r, instance.b, instance.lam, self._q, self._rng.random(n), noise)

    def pull(self, arms: IntArray) -> Outcome:
        """Play ``arms`` in order: shape (n,)."""
        n = arms.size
        record = Record.empty(n, arms)
        wrong = sweep_block(self.open_rounds(n), record)
        if wrong >= 0:
            raise InvalidValueError(f"arm {arms[wrong]} does not exist: there are {self.n_arms}")
        probabilities = record.probabilities if self._noise_width else None
        return Outcome(record.rewards, record.means, probabilities, record.states)


class ReferenceCrowd:
    """Users of one B-DES instance with a state each, visit by visit in plain Python.

    Parameters
    ----------
    instance : Instance
        What every user plays; r, b and q0 in [0, 1].
    visits : IntArray, shape (n,)
        Who comes, in order: users numbered by first visit.
    seed : int
        Seed of its random numbers, one for each visit.
    """

    def __init__(self, instance: Instance, visits: IntArray, seed: int) -> None:
        self.instance = instance
        self.n_arms = instance.n_arms
        self._visits = visits
        self._came = 0
        self._rng = np.random.default_rng([seed, 2])
        self._states = np.full(int(visits.max()) + 1, instance.q0)

    def arrivals(self, n: int) -> IntArray:
        """Return the users of the next visits."""
        users = self._visits[self._came : self._came + n].copy()
        self._came += users.size
        return users

    def pull(self, users: IntArray, arms: IntArray) -> Outcome:
        """Show ``arms`` to ``users``, in order."""
        instance, means, states = self.instance, np.empty(users.size), np.empty(users.size)
        for visit, (user, arm) in enumerate(zip(users.tolist(), arms.tolist(), strict=True)):
            q = states[visit] = self._states[user]
            means[visit] = instance.r[arm] * q
            self._states[user] = q + instance.lam * (instance.b[arm] - q)
        rewards = (self._rng.random(users.size) < means).astype(np.float64)
        return Outcome(rewards, means, None, states)


def example_instance(n_arms: int, lam: float, seed: int, q0: float = 1.0) -> Instance:
    """Return an instance with parameters in [0, 1]; its last arm replenishes fully."""
    rng = np.random.default_rng(seed)
    r, b = rng.uniform(0.05, 1.0, n_arms), rng.uniform(0.0, 1.0, n_arms)
    b[-1] = 1.0
    return Instance(r, b, lam, q0)


def best_value(instance: Instance, horizon: int) -> float:
    """Return what the best of all K**T sequences earns, by trying every one.

    >>> best_value(Instance([1.0, 0.0], [0.0, 1.0], lam=1.0), horizon=5)
    3.0
    """
    if instance.n_arms**horizon > 1_000_000:
        raise InvalidValueError(
            f"{instance.n_arms} arms and {horizon} rounds are too many to try every sequence"
        )
    totals, q = np.zeros(1), np.full(1, instance.q0)
    for _ in range(horizon):
        totals = np.add.outer(totals, np.zeros(instance.n_arms)) + np.outer(q, instance.r)
        q = np.add.outer((1 - instance.lam) * q, instance.lam * instance.b)
        totals, q = totals.ravel(), q.ravel()
    return float(totals.max())


def plain_value(instance: Instance, arms: IntArray) -> float:
    """Return what ``arms`` earn in expectation, by the recurrence and nothing else."""
    total, q = 0.0, instance.q0
    for arm in arms.tolist():
        total += float(instance.r[arm]) * q
        q = (1 - instance.lam) * q + instance.lam * float(instance.b[arm])
    return total
