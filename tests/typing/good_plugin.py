"""A stranger's plugin with one thing of every kind: passes mypy --strict."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeVar

import numpy as np
from attrs import field, frozen
from numpy.random import Generator

from bdes_framework import (
    BuildContext,
    Diagnostics,
    FinishedCell,
    FloatArray,
    Instance,
    IntArray,
    InvalidValueError,
    NoiseModel,
    NoiseModelRef,
    Outcome,
    Plan,
    Planner,
    PlannerRef,
    PolicyContext,
    Registrar,
    RunProgress,
    Schedule,
    hookimpl,
)

BDES_API_VERSION = 1

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")


@frozen
class SteadyConfig:
    """Pays each arm's mean, give or take some noise.

    Parameters
    ----------
    means : FloatArray
        What each arm pays.
    noise : NoiseModelRef | None
        What is added.
    """

    means: FloatArray = field(eq=False)
    noise: NoiseModelRef | None = None


class Steady:
    """An environment without a state."""

    def __init__(self, means: FloatArray, noise: NoiseModel | None, rng: Generator) -> None:
        self._means, self._noise, self._rng = means, noise, rng

    @property
    def n_arms(self) -> int:
        return self._means.size

    def pull(self, arms: IntArray) -> Outcome:
        if arms.min() < 0 or arms.max() >= self.n_arms:
            raise InvalidValueError(f"arms go from 0 to {self.n_arms - 1}")
        means = self._means[arms]
        extra = 0.0 if self._noise is None else self._noise.sample(arms.size, self._rng)
        return Outcome(rewards=means + extra, means=means)


def build_steady(config: SteadyConfig, context: BuildContext) -> Steady:
    noise = None if config.noise is None else context.noise_model(config.noise)
    return Steady(config.means, noise, context.rng)


@frozen
class FollowConfig:
    """Follows a plan made for guessed parameters.

    Parameters
    ----------
    planner : PlannerRef
        Who makes the plan.
    mood : Literal["bold", "shy"]
        What is guessed.
    """

    planner: PlannerRef
    mood: Literal["bold", "shy"] = "bold"


class Follow:
    """A policy that plays a schedule, whatever the rewards."""

    def __init__(self, planner: Planner, guess: Instance, horizon: int) -> None:
        self._schedule = planner.plan(guess, horizon).schedule
        self._played = 0

    def ask(self, limit: int) -> IntArray:
        arms = self._schedule.slice(self._played, self._played + limit)
        self._played += limit
        return arms

    def tell(self, rewards: FloatArray) -> None:
        pass

    def diagnostics(self) -> Diagnostics:
        return {"played": self._played, "phase": "following"}


def build_follow(config: FollowConfig, context: PolicyContext) -> Follow:
    problem = context.problem
    paid = np.full(problem.n_arms, 1.0 if config.mood == "bold" else 0.1)
    guess = Instance(paid, np.ones(problem.n_arms), problem.lam or 0.5, problem.q0)
    return Follow(context.planner(config.planner), guess, problem.horizon)


@frozen
class GreedyConfig:
    """Plays the arm that pays most at once."""


class Greedy:
    """A planner that proves nothing."""

    def plan(self, instance: Instance, horizon: int) -> Plan:
        schedule = Schedule.cycle([int(np.argmax(instance.r))], horizon)
        return Plan(schedule, instance.value(schedule), upper_bound=float("inf"))


@frozen
class CoinConfig:
    """Plus or minus a width.

    Parameters
    ----------
    width : float
        How far from 0.
    """

    width: float = 0.1


@frozen
class Coin:
    """A noise model whose width is its subGaussian parameter (Hoeffding)."""

    sigma: float

    def sample(self, size: int, rng: Generator) -> FloatArray:
        return np.where(rng.random(size) < 0.5, -self.sigma, self.sigma)


@frozen
class BackwardsConfig:
    """Runs the last job first."""


class Backwards:
    """An engine: any order will do."""

    def run(self, jobs: Sequence[JobT], execute: Callable[[JobT], ResultT]) -> Iterator[ResultT]:
        return map(execute, reversed(jobs))


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    registrar.environment("steady", SteadyConfig, build_steady)
    registrar.policy("follow", FollowConfig, build_follow)
    registrar.planner("greedy-once", GreedyConfig, lambda config, context: Greedy())
    registrar.noise_model("coin", CoinConfig, lambda config, context: Coin(config.width))
    registrar.engine("backwards", BackwardsConfig, lambda config, context: Backwards())


@hookimpl
def bdes_run_started(run: RunProgress) -> None:
    pass


@hookimpl
def bdes_cell_finished(run: RunProgress, cell: FinishedCell) -> None:
    pass
