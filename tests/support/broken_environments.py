"""A local plugin of environments: good ones, and for every check of the kit one that breaks it.

Each broken one is registered under the name of the one check it fails, with hyphens; what
follows a dot tells several for the same check apart.
"""

import random
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import numpy as np
from attrs import AttrsInstance
from numpy.random import Generator

from bdes_framework import (
    Benchmark,
    BuildContext,
    Environment,
    FloatArray,
    Instance,
    IntArray,
    Outcome,
    Registrar,
    World,
    hookimpl,
)
from tests.support.kit_subjects import SpeechlessConfig, UnexplainedConfig, config_for

BDES_API_VERSION = 1

INSTANCE = Instance(r=[0.9, 0.3, 0.6], b=[0.1, 1.0, 0.5], lam=0.3)

E = TypeVar("E", bound=Environment)
SUBJECTS: dict[str, Any] = {}


def subject(name: str) -> Callable[[type[E]], type[E]]:
    """Register the class below under a name."""

    def add(cls: type[E]) -> type[E]:
        SUBJECTS[name] = cls
        return cls

    return add


@subject("good")
class Good:
    """Clicks from Bern(r·q), pull by pull, with the probabilities shown."""

    thinning = 1.0

    def __init__(self, rng: Generator) -> None:
        self.rng, self.q, self.round = rng, INSTANCE.q0, 0

    @property
    def n_arms(self) -> Any:
        return INSTANCE.n_arms

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


@subject("good.plain")
class Plain(Good):
    def pull(self, arms: IntArray) -> Any:
        outcome = super().pull(arms)
        return Outcome(outcome.rewards, outcome.means)


@subject("good.instance")
class WithInstance(Good):
    @property
    def instance(self) -> Instance:
        return INSTANCE


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


@subject("good.benchmark")
class WithBenchmark(Good):
    def benchmark(self, checkpoints: IntArray) -> Any:
        values = checkpoints.astype(np.float64) / 10
        return Benchmark(checkpoints, values, upper_bound=0.9 * float(checkpoints[-1]))


# -- the form of things ---------------------------------------------------------------------


@subject("n-arms-is-a-positive-int")
class NumpyArms(Good):
    @property
    def n_arms(self) -> Any:
        return np.int64(3)


@subject("outcomes-have-one-float64-per-pull.32-bits")
class Narrow(Good):
    def pull(self, arms: IntArray) -> Any:
        outcome = super().pull(arms)
        return Outcome(outcome.rewards.astype(np.float32), outcome.means, outcome.probabilities)


@subject("outcomes-have-one-float64-per-pull.column")
class Column(Good):
    def pull(self, arms: IntArray) -> Any:
        outcome = super().pull(arms)
        return Outcome(outcome.rewards, outcome.means[:, np.newaxis], outcome.probabilities)


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
class LateLuck(Good):
    def pull_one(self, arm: int) -> tuple[float, float, float]:
        if self.round == 1000:
            self.rng = np.random.default_rng()
        return super().pull_one(arm)


@subject("rewards-do-not-depend-on-blocks")
class Block(Good):
    def pull(self, arms: IntArray) -> Any:
        self.rng.random()
        return super().pull(arms)


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


@subject("uses-no-global-random-state.moves-numpy")
class MovesNumpy(Good):
    def pull(self, arms: IntArray) -> Any:
        np.random.random()  # noqa: NPY002
        return super().pull(arms)


@subject("uses-no-global-random-state.moves-random")
class MovesRandom(Good):
    def pull(self, arms: IntArray) -> Any:
        random.random()
        return super().pull(arms)


@subject("uses-no-global-random-state.reads")
class ReadsNumpy(Good):
    def __init__(self, rng: Generator) -> None:
        super().__init__(rng)
        for _ in range(int(np.random.get_state(legacy=False)["state"]["key"][0])):  # noqa: NPY002
            self.rng.random()


# -- what it does with arms -----------------------------------------------------------------


@subject("arms-given-are-not-changed")
class Scribbles(Good):
    def pull(self, arms: IntArray) -> Any:
        outcome = super().pull(arms)
        arms[:] = 0
        return outcome


@subject("arms-out-of-range-are-rejected.above")
class WrapsAbove(Good):
    def pull(self, arms: IntArray) -> Any:
        return super().pull(np.minimum(arms, INSTANCE.n_arms - 1))


@subject("arms-out-of-range-are-rejected.below")
class WrapsBelow(Good):
    def pull(self, arms: IntArray) -> Any:
        return super().pull(np.where(arms == -1, INSTANCE.n_arms - 1, arms))


# -- what rewards are worth -----------------------------------------------------------------


@subject("rewards-agree-with-means")
class Stingy(Good):
    thinning = 0.9


@subject("means-are-those-of-the-instance.state")
class AnotherRate(Good):
    @property
    def instance(self) -> Instance:
        return Instance(INSTANCE.r, INSTANCE.b, lam=0.31)


@subject("means-are-those-of-the-instance.arms")
class FewerArms(Good):
    @property
    def instance(self) -> Instance:
        return Instance(INSTANCE.r[:2], INSTANCE.b[:2], INSTANCE.lam)


# -- optional extras ------------------------------------------------------------------------


@subject("open-rounds-equals-pull.luck")
class OtherLuck(Fused):
    def open_rounds(self, n: int) -> World:
        world = super().open_rounds(n)
        return world._replace(uniforms=1 - world.uniforms)


@subject("open-rounds-equals-pull.state")
class ForgetsState(Fused):
    def open_rounds(self, n: int) -> World:
        self.state = None
        return super().open_rounds(n)


@subject("benchmark-has-the-right-form.checkpoints")
class OwnCheckpoints(WithBenchmark):
    def benchmark(self, checkpoints: IntArray) -> Any:
        return super().benchmark(checkpoints[-1:] + 1)


@subject("benchmark-has-the-right-form.bound")
class BoundBelowValue(WithBenchmark):
    def benchmark(self, checkpoints: IntArray) -> Any:
        benchmark = super().benchmark(checkpoints)
        return Benchmark(checkpoints, 10 * benchmark.values, benchmark.upper_bound)


@subject("benchmark-has-the-right-form.not-finite")
class NoValue(WithBenchmark):
    def benchmark(self, checkpoints: IntArray) -> Any:
        return Benchmark(checkpoints, np.full(checkpoints.size, np.nan), float("inf"))


@subject("benchmark-changes-no-rewards")
class Simulates(WithBenchmark):
    def benchmark(self, checkpoints: IntArray) -> Any:
        self.rng.random()
        return super().benchmark(checkpoints)


@subject("benchmark-is-not-beaten")
class Modest(WithBenchmark):
    def benchmark(self, checkpoints: IntArray) -> Any:
        return Benchmark(checkpoints, np.zeros(checkpoints.size), upper_bound=0.05)


# -- the plugin -----------------------------------------------------------------------------


def factory(make: Callable[[Generator], Environment]) -> Callable[..., Environment]:
    def build(config: AttrsInstance, context: BuildContext) -> Environment:
        return make(context.rng)

    return build


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    for name, make in SUBJECTS.items():
        registrar.environment(name, config_for(name), factory(make))
    registrar.environment("parameters-are-documented.one-not", UnexplainedConfig, factory(Good))
    registrar.environment("parameters-are-documented.none-at-all", SpeechlessConfig, factory(Good))
