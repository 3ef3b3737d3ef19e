"""A local plugin, as third parties write them: ``sticky`` with simpler orders of its pairs.

Everything else is as in ``sticky``: the batches, the pairs played of each, the elimination.
"""

import math
from typing import Literal

import numpy as np
from attrs import field, frozen
from attrs.validators import ge, in_, le
from numpy.random import default_rng

from bdes_framework import (
    BuildContext,
    Diagnostics,
    Environment,
    FloatArray,
    IntArray,
    PolicyContext,
    Registrar,
    finite_rewards,
    hookimpl,
    validate_number,
)

BDES_API_VERSION = 1

_NOT_SAMPLED = -1


@frozen
class OrderConfig:
    """Batched elimination over pairs of arms, with a simple order within a batch.

    Parameters
    ----------
    order : Literal["naive", "unsmart"]
        ``naive`` goes round the pairs, one of each at a time, as in ABA-CCC-ABA-CCC.
        ``unsmart`` plays all of one pair before the next, as in ABABABA-CCCCCCC, and drops the
        first reward of every pair.
    """

    order: Literal["naive", "unsmart"] = field(validator=in_(("naive", "unsmart")))


class OrderPolicy:
    """Plays batch after batch, then the best pair that is left."""

    def __init__(self, config: OrderConfig, context: PolicyContext) -> None:
        self._order, self._rng = config.order, context.rng
        n_arms, self._horizon = context.problem.n_arms, context.problem.horizon
        self._n_batches = max(1, math.ceil(2 * math.log(self._horizon)))
        self._log = math.log(2 * n_arms**2 * self._horizon * self._n_batches)
        self._pairs = np.column_stack(np.triu_indices(n_arms))
        self._sums, self._count = np.zeros(len(self._pairs)), 0
        self._left, self._asked = self._horizon, 0
        self._switches: list[int] = []
        self._arms: IntArray = np.empty(0, dtype=np.int64)
        self._slots: IntArray = self._arms
        self._next_arms()

    def ask(self, limit: int) -> IntArray:
        """Return the next arms of the batch."""
        self._asked = min(limit, self._arms.size)
        return self._arms[: self._asked].copy()

    def tell(self, rewards: FloatArray) -> None:
        """Add up the rewards of each pair; at a batch's end, eliminate."""
        finite_rewards(rewards, self._asked)
        slots = self._slots[: self._asked]
        sampled = slots != _NOT_SAMPLED
        self._sums += np.bincount(slots[sampled], rewards[sampled], len(self._pairs))
        self._arms, self._slots = self._arms[self._asked :], self._slots[self._asked :]
        self._left, self._asked = self._left - self._asked, 0
        if self._arms.size == 0 and self._left:
            means = self._sums / (2 * self._count)
            kept = means >= means.max() - math.sqrt(2 * self._log / self._count)
            self._pairs, self._sums = self._pairs[kept], self._sums[kept]
            self._next_arms()

    def diagnostics(self) -> Diagnostics:
        """Return how many pulls were made to switch, batch by batch."""
        return {"switches": np.array(self._switches, dtype=np.int64)}

    def _next_arms(self) -> None:
        """Line up the arms of another batch if it fits; else the best pair for all that is left."""
        batch, n_pairs = len(self._switches) + 1, len(self._pairs)
        times = math.floor(self._horizon ** (batch / self._n_batches) + 1e-9)
        goes = times if self._order == "naive" else 1
        n_pulls = n_pairs * (2 * times + goes)
        if batch == self._n_batches or n_pairs == 1 or n_pulls > self._left:
            best = self._pairs[int(np.argmax(self._sums))]
            self._arms = np.resize(best, self._left)
            self._slots = np.full(self._left, _NOT_SAMPLED)
            return
        shuffled = self._rng.permutation(n_pairs)
        # One go at a pair: a pull of its first arm to switch, then both in turn.
        pulls = 1 + 2 * times // goes
        arms = np.empty((n_pairs, pulls), dtype=np.int64)
        arms[:, 0::2], arms[:, 1::2] = np.hsplit(self._pairs[shuffled], 2)
        slots = np.repeat(shuffled[:, None], pulls, axis=1)
        slots[:, 0] = _NOT_SAMPLED
        self._arms, self._slots = np.tile(arms.ravel(), goes), np.tile(slots.ravel(), goes)
        self._count += times
        self._switches.append(n_pairs * goes)


@frozen
class ExampleConfig:
    """The three arms of Section 5.1: A = (1, 0), B = (0, 1), and C, as good as A and B in turn.

    C has r = b = (1 + x)/sqrt(2). Alone it earns (1 + x)²/2 a round, A and B in turn 1/2.

    Parameters
    ----------
    draw : int
        Seed of x.
    delta : float
        x is uniform between -delta and delta.
    """

    draw: int
    delta: float = field(default=0.003, validator=[validate_number, ge(0), le(0.4)])


def example(config: ExampleConfig, context: BuildContext) -> Environment:
    """Build the example at lam = 1."""
    x = default_rng(config.draw).uniform(-config.delta, config.delta)
    c = (1 + x) / math.sqrt(2)
    parameters = {"r": [1.0, 0.0, c], "b": [0.0, 1.0, c], "lam": 1.0}
    return context.environment({"use": "bernoulli"} | parameters)


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Register the policy ``sticky-order`` and the environment ``section-5-1``."""
    registrar.policy("sticky-order", OrderConfig, OrderPolicy)
    registrar.environment("section-5-1", ExampleConfig, example)
