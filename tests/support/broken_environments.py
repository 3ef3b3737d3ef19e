"""A local plugin of environments: good ones, and for every check of the kit one that breaks it."""

import random
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from attrs import evolve
from numpy.random import Generator

from bdes_framework import (
    Benchmark,
    FloatArray,
    Instance,
    IntArray,
    Outcome,
    Registrar,
    World,
    hookimpl,
)
from tests.support.kit_subjects import Subjects

BDES_API_VERSION = 1

INSTANCE = Instance(r=[0.9, 0.3, 0.6], b=[0.1, 1.0, 0.5], lam=0.3)

subject = Subjects()


@subject("good")
class Good:
    """Clicks from Bern(r·q), pull by pull, with the probabilities shown."""

    n_arms: Any = INSTANCE.n_arms
    thinning = 1.0

    def __init__(self, rng: Generator) -> None:
        self.rng, self.q, self.round = rng, INSTANCE.q0, 0

    def mean(self, arm: int) -> float:
        return float(INSTANCE.r[arm]) * self.q

    def probability(self, arm: int) -> float:
        return self.mean(arm)

    def pull_one(self, arm: int) -> tuple[float, float, float]:
        mean, probability = self.mean(arm), self.probability(arm)
        reward = float(self.rng.random() < self.thinning * probability)
        self.q += INSTANCE.lam * (float(INSTANCE.b[arm]) - self.q)
        self.round += 1
        return reward, mean, probability

    def pull(self, arms: IntArray) -> Any:
        if arms.min() < 0 or arms.max() >= INSTANCE.n_arms:
            raise ValueError("there is no such arm")
        brought = [self.pull_one(arm) for arm in arms.tolist()]
        return Outcome(*np.array(brought).T.copy())


@subject("good.instance")
class WithInstance(Good):
    instance = INSTANCE


@subject("good.fused")
class Fused(WithInstance):
    state: FloatArray | None = None

    def pull(self, arms: IntArray) -> Any:
        if self.state is not None:
            self.q = float(self.state[0])
        outcome = super().pull(arms)
        if self.state is not None:
            self.state[0] = self.q
        return outcome

    def open_rounds(self, n: int) -> World:
        if self.state is None:
            self.state = np.array([self.q])
        uniforms = self.rng.random(n)
        return World(INSTANCE.r, INSTANCE.b, INSTANCE.lam, self.state, uniforms, np.empty(0))


# -- the form of things ---------------------------------------------------------------------


def changed(name: str, change: Callable[[Outcome], dict[str, Any]]) -> None:
    """Add an environment that changes good outcomes."""

    def pull(self: Good, arms: IntArray) -> Any:
        outcome = Good.pull(self, arms)
        return evolve(outcome, **change(outcome))

    subject.variant(name, Good, pull=pull)


FORM = "outcomes-have-one-float64-per-pull"

changed("good.plain", lambda outcome: {"probabilities": None})
changed(f"{FORM}.32-bits", lambda outcome: {"rewards": outcome.rewards.astype(np.float32)})
changed(f"{FORM}.column", lambda outcome: {"means": outcome.means[:, np.newaxis]})
subject.variant("n-arms-is-a-positive-int", Good, n_arms=np.int64(3))


@subject("outcomes-are-finite")
class Gap(Good):
    def mean(self, arm: int) -> float:
        return float("nan") if self.round == 7 else super().mean(arm)

    def probability(self, arm: int) -> float:
        return super().mean(arm)


@subject("probabilities-lie-in-0-1")
class BelowZero(Good):
    def probability(self, arm: int) -> float:
        return -0.001 if self.round == 7 else super().probability(arm)


# -- what rewards depend on -----------------------------------------------------------------


@subject("same-seed-gives-the-same-rewards")
class LateRandomness(Good):
    def pull_one(self, arm: int) -> tuple[float, float, float]:
        if self.round == 1000:
            self.rng = np.random.default_rng()
        return super().pull_one(arm)


@subject("environments-do-not-share-state")
class Shared(Good):
    common: ClassVar[float]

    def __init__(self, rng: Generator) -> None:
        super().__init__(rng)
        type(self).common = self.q

    def pull_one(self, arm: int) -> tuple[float, float, float]:
        self.q = self.common
        brought = super().pull_one(arm)
        type(self).common = self.q
        return brought


@subject("uses-no-global-random-state.reads")
class ReadsNumpy(Good):
    def __init__(self, rng: Generator) -> None:
        super().__init__(rng)
        for _ in range(int(np.random.get_state(legacy=False)["state"]["key"][0])):  # noqa: NPY002
            self.rng.random()


def before(name: str, effect: Callable[[Good], object]) -> None:
    """Add an environment that does something before every pull."""

    def pull(self: Good, arms: IntArray) -> Any:
        effect(self)
        return Good.pull(self, arms)

    subject.variant(name, Good, pull=pull)


before("rewards-do-not-depend-on-blocks", lambda environment: environment.rng.random())
before(
    "uses-no-global-random-state.moves-numpy",
    lambda environment: np.random.random(),  # noqa: NPY002
)
before("uses-no-global-random-state.moves-random", lambda environment: random.random())


# -- what it does with arms -----------------------------------------------------------------


@subject("arms-given-are-not-changed")
class Scribbles(Good):
    def pull(self, arms: IntArray) -> Any:
        outcome = super().pull(arms)
        arms[:] = 0
        return outcome


def clipped(name: str, clip: Callable[[IntArray], IntArray]) -> None:
    """Add an environment that takes some other arm for one that does not exist."""
    subject.variant(name, Good, pull=lambda self, arms: Good.pull(self, clip(arms)))


LAST = INSTANCE.n_arms - 1
clipped("arms-out-of-range-are-rejected.above", lambda arms: np.minimum(arms, LAST))
clipped("arms-out-of-range-are-rejected.below", lambda arms: np.where(arms == -1, LAST, arms))


# -- what rewards are worth -----------------------------------------------------------------


subject.variant("rewards-agree-with-means", Good, thinning=0.9)
subject.variant(
    "means-are-those-of-the-instance.state",
    Good,
    instance=Instance(INSTANCE.r, INSTANCE.b, lam=0.31),
)
subject.variant(
    "means-are-those-of-the-instance.arms",
    Good,
    instance=Instance(INSTANCE.r[:2], INSTANCE.b[:2], INSTANCE.lam),
)


# -- optional extras ------------------------------------------------------------------------


@subject("open-rounds-equals-pull.uniforms")
class OtherUniforms(Fused):
    def open_rounds(self, n: int) -> World:
        world = super().open_rounds(n)
        return world._replace(uniforms=1 - world.uniforms)


@subject("open-rounds-equals-pull.state")
class ForgetsState(Fused):
    def open_rounds(self, n: int) -> World:
        self.state = None
        return super().open_rounds(n)


def compares(name: str, benchmark: Callable[[IntArray, Generator], Benchmark]) -> None:
    """Add an environment with a benchmark."""
    subject.variant(
        name, Good, benchmark=lambda self, checkpoints: benchmark(checkpoints, self.rng)
    )


def tenth(checkpoints: IntArray) -> Benchmark:
    values = checkpoints.astype(np.float64) / 10
    return Benchmark(checkpoints, values, upper_bound=0.9 * float(checkpoints[-1]))


def simulated(checkpoints: IntArray, rng: Generator) -> Benchmark:
    rng.random()
    return tenth(checkpoints)


compares("good.benchmark", lambda checkpoints, rng: tenth(checkpoints))
compares("benchmark-changes-no-rewards", simulated)
compares(
    "benchmark-has-the-right-form.checkpoints",
    lambda checkpoints, rng: tenth(checkpoints[-1:] + 1),
)
compares(
    "benchmark-has-the-right-form.bound",
    lambda checkpoints, rng: evolve(tenth(checkpoints), values=checkpoints.astype(np.float64)),
)
compares(
    "benchmark-has-the-right-form.not-finite",
    lambda checkpoints, rng: Benchmark(
        checkpoints, np.full(checkpoints.size, np.nan), float("inf")
    ),
)
compares(
    "benchmark-is-not-beaten",
    lambda checkpoints, rng: Benchmark(checkpoints, np.zeros(checkpoints.size), 0.05),
)


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    subject.register(registrar.environment, lambda make, context: make(context.rng))
