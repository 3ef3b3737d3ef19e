"""Other mistakes an author's editor shows: mypy refuses each at its own line."""

import numpy as np
from attrs import frozen
from numpy.random import Generator

from bdes_framework import (
    BuildContext,
    FloatArray,
    Instance,
    IntArray,
    Plan,
    PolicyContext,
    Registrar,
    Schedule,
    hookimpl,
)

BDES_API_VERSION = 1


@frozen
class Config:
    """No parameters."""


class Listing:
    """Asks for a list."""

    def ask(self, limit: int) -> list[int]:
        """Return a list instead of an array."""
        return [0] * limit

    def tell(self, rewards: FloatArray) -> None:
        """Learn nothing."""


class Unvalued:
    """Plans without a value or a bound."""

    def plan(self, instance: Instance, horizon: int) -> Schedule:
        """Return a schedule instead of a plan."""
        return Schedule.cycle([0], horizon)


class Unmeasured:
    """Has no sigma."""

    def sample(self, size: int, rng: Generator) -> FloatArray:
        """Return zeros."""
        return np.zeros(size)


class Zero:
    """A policy with nothing wrong."""

    def ask(self, limit: int) -> IntArray:
        """Return arm 0."""
        return np.zeros(limit, dtype=np.int64)

    def tell(self, rewards: FloatArray) -> None:
        """Learn nothing."""


class Plain:
    """No attrs class."""


def build_listing(config: Config, context: PolicyContext) -> Listing:
    """Build it."""
    return Listing()


def build_unvalued(config: Config, context: BuildContext) -> Unvalued:
    """Build it."""
    return Unvalued()


def build_unmeasured(config: Config, context: BuildContext) -> Unmeasured:
    """Build it."""
    return Unmeasured()


class Planned:
    """A planner with nothing wrong."""

    def plan(self, instance: Instance, horizon: int) -> Plan:
        """Return arm 0."""
        schedule = Schedule.cycle([0], horizon)
        return Plan(schedule, instance.value(schedule), float("inf"))


def build_with_a_problem(config: Config, context: PolicyContext) -> Planned:
    """Build it; only policies are given a problem."""
    return Planned()


def build_plain(config: Plain, context: PolicyContext) -> Zero:
    """Build it."""
    return Zero()


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Try to register them."""
    registrar.policy("listing", Config, build_listing)  # error: arg-type
    registrar.planner("unvalued", Config, build_unvalued)  # error: arg-type
    registrar.noise_model("unmeasured", Config, build_unmeasured)  # error: arg-type
    registrar.planner("with-a-problem", Config, build_with_a_problem)  # error: arg-type
    registrar.policy("plain", Plain, build_plain)  # error: type-var
