"""A policy in one file: play all arms in turn. Loaded by examples/demo.toml."""

import numpy as np
from attrs import frozen

from bdes_framework import FloatArray, IntArray, PolicyContext, Registrar, hookimpl

BDES_API_VERSION = 1


@frozen
class InTurnConfig:
    """Plays all arms in turn.

    Parameters
    ----------
    repeats : int
        How often each arm is played before its turn is over.
    """

    repeats: int = 1


class InTurn:
    """Plays 0, 1, ..., K - 1, each ``repeats`` times, over and over."""

    def __init__(self, n_arms: int, repeats: int) -> None:
        self._cycle = np.repeat(np.arange(n_arms), repeats)
        self._next = 0

    def ask(self, limit: int) -> IntArray:
        """Return the next ``limit`` arms."""
        start = self._next
        self._next += limit
        return self._cycle[np.arange(start, start + limit) % self._cycle.size]

    def tell(self, rewards: FloatArray) -> None:
        """Learn nothing."""


def build(config: InTurnConfig, context: PolicyContext) -> InTurn:
    """Build the policy for the problem's arms."""
    return InTurn(context.problem.n_arms, config.repeats)


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Register ``in-turn``."""
    registrar.policy("in-turn", InTurnConfig, build, uses=())  # told nothing
