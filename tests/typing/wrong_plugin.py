"""Mistakes a plugin author's editor shows: mypy rejects each at its own line."""

import numpy as np
from attrs import frozen
from numpy.random import Generator

import bdes_framework as bdes
from bdes_framework import FloatArray, Instance, IntArray, Plan, PolicyContext, Schedule, hookimpl

BDES_API_VERSION = 1


@frozen
class Config:
    """No parameters."""


@frozen
class OtherConfig:
    """No parameters either."""


class Plain:
    """No attrs class."""


class Built:
    """Is its own factory."""

    def __init__(self, config: Config, context: bdes.BuildContext) -> None:
        pass


class Good(Built):
    """A policy with nothing wrong."""

    def ask(self, limit: int) -> IntArray:
        return np.zeros(limit, dtype=np.int64)

    def tell(self, rewards: FloatArray) -> None:
        pass


class WithoutTell(Built):
    def ask(self, limit: int) -> IntArray:
        return np.zeros(limit, dtype=np.int64)


class AsksForAList(Built):
    def ask(self, limit: int) -> list[int]:
        return [0] * limit

    def tell(self, rewards: FloatArray) -> None:
        pass


class PlansASchedule(Built):
    def plan(self, instance: Instance, horizon: int) -> Schedule:
        return Schedule.cycle([0], horizon)


class WantsAProblem:
    def __init__(self, config: Config, context: PolicyContext) -> None:
        pass

    def plan(self, instance: Instance, horizon: int) -> Plan:
        schedule = Schedule.cycle([0], horizon)
        return Plan(schedule, instance.value(schedule), float("inf"))


class WithoutSigma(Built):
    def sample(self, size: int, rng: Generator) -> FloatArray:
        return np.zeros(size)


class CrowdWithoutVisits(Built):
    """Learns rewards without knowing which."""

    def ask(self, users: IntArray) -> IntArray:
        return users

    def tell(self, rewards: FloatArray) -> None:
        pass


class CrowdWithoutArrivals(Built):
    n_arms = 2

    def pull(self, users: IntArray, arms: IntArray) -> bdes.Outcome:
        return bdes.Outcome(np.zeros(users.size), np.zeros(users.size))


class GoodCrowdPolicy:
    """Is told a crowd's problem."""

    def __init__(self, config: Config, context: bdes.CrowdPolicyContext) -> None:
        self.visits = context.problem.visits

    def ask(self, users: IntArray) -> IntArray:
        return np.zeros(users.size, dtype=np.int64)

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        pass


def build_plain(config: Plain, context: PolicyContext) -> Good:
    return Good(Config(), context)


@hookimpl
def bdes_register(registrar: bdes.Registrar) -> None:
    registrar.policy("good", Config, Good)
    registrar.policy("without-tell", Config, WithoutTell)  # error: arg-type
    registrar.policy("list", Config, AsksForAList)  # error: arg-type
    registrar.policy("other-config", OtherConfig, Good)  # error: arg-type
    registrar.policy("plain", Plain, build_plain)  # error: type-var
    registrar.policy("uses", Config, Good, uses=3)  # error: arg-type
    registrar.planner("schedule", Config, PlansASchedule)  # error: arg-type
    registrar.planner("with-a-problem", Config, WantsAProblem)  # error: arg-type
    registrar.noise_model("without-sigma", Config, WithoutSigma)  # error: arg-type
    registrar.crowd_policy("good", Config, GoodCrowdPolicy, uses=["lam"])
    registrar.crowd_policy("rewards-only", Config, CrowdWithoutVisits)  # error: arg-type
    registrar.crowd_policy("one-audience", Config, Good)  # error: arg-type
    registrar.policy("for-a-crowd", Config, GoodCrowdPolicy)  # error: arg-type
    registrar.crowd_environment("nobody", Config, CrowdWithoutArrivals)  # error: arg-type
