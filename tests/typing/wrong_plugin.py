"""Mistakes a plugin author's editor shows: mypy rejects each at its own line."""

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


@frozen
class OtherConfig:
    """No parameters either."""


class Plain:
    """No attrs class."""


class Good:
    """A policy and a planner with nothing wrong."""

    def ask(self, limit: int) -> IntArray:
        return np.zeros(limit, dtype=np.int64)

    def tell(self, rewards: FloatArray) -> None:
        pass

    def plan(self, instance: Instance, horizon: int) -> Plan:
        schedule = Schedule.cycle([0], horizon)
        return Plan(schedule, instance.value(schedule), float("inf"))


class WithoutTell:
    def ask(self, limit: int) -> IntArray:
        return np.zeros(limit, dtype=np.int64)


class AsksForAList:
    def ask(self, limit: int) -> list[int]:
        return [0] * limit

    def tell(self, rewards: FloatArray) -> None:
        pass


class PlansASchedule:
    def plan(self, instance: Instance, horizon: int) -> Schedule:
        return Schedule.cycle([0], horizon)


class WithoutSigma:
    def sample(self, size: int, rng: Generator) -> FloatArray:
        return np.zeros(size)


def build_without_tell(config: Config, context: PolicyContext) -> WithoutTell:
    return WithoutTell()


def build_list(config: Config, context: PolicyContext) -> AsksForAList:
    return AsksForAList()


def build_schedule(config: Config, context: BuildContext) -> PlansASchedule:
    return PlansASchedule()


def build_without_sigma(config: Config, context: BuildContext) -> WithoutSigma:
    return WithoutSigma()


def build_with_a_problem(config: Config, context: PolicyContext) -> Good:
    return Good()


def build_plain(config: Plain, context: PolicyContext) -> Good:
    return Good()


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    registrar.policy("without-tell", Config, build_without_tell)  # error: arg-type
    registrar.policy("list", Config, build_list)  # error: arg-type
    registrar.policy("other-config", OtherConfig, build_with_a_problem)  # error: arg-type
    registrar.policy("plain", Plain, build_plain)  # error: type-var
    registrar.planner("schedule", Config, build_schedule)  # error: arg-type
    registrar.planner("with-a-problem", Config, build_with_a_problem)  # error: arg-type
    registrar.noise_model("without-sigma", Config, build_without_sigma)  # error: arg-type
