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


@subject("good.plain")
class Plain(Good):
    def pull(self, arms: IntArray) -> Any:
        return evolve(super().pull(arms), probabilities=None)


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


def tenth(checkpoints: IntArray) -> Benchmark:
    values = checkpoints.astype(np.float64) / 10
    return Benchmark(checkpoints, values, upper_bound=0.9 * float(checkpoints[-1]))


@subject("good.benchmark")
class WithBenchmark(Good):
    def benchmark(self, checkpoints: IntArray) -> Any:
        return tenth(checkpoints)


# -- the form of things ---------------------------------------------------------------------


subject.variant("n-arms-is-a-positive-int", Good, n_arms=np.int64(3))


@subject("outcomes-have-one-float64-per-pull.32-bits")
class Narrow(Good):
    def pull(self, arms: IntArray) -> Any:
        outcome = super().pull(arms)
        return evolve(outcome, rewards=outcome.rewards.astype(np.float32))


@subject("outcomes-have-one-float64-per-pull.column")
class Column(Good):
    def pull(self, arms: IntArray) -> Any:
        outcome = super().pull(arms)
        return evolve(outcome, means=outcome.means[:, np.newaxis])


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


subject.variant(
    "arms-out-of-range-are-rejected.above",
    Good,
    pull=lambda self, arms: Good.pull(self, np.minimum(arms, INSTANCE.n_arms - 1)),
)
subject.variant(
    "arms-out-of-range-are-rejected.below",
    Good,
    pull=lambda self, arms: Good.pull(self, np.where(arms == -1, INSTANCE.n_arms - 1, arms)),
)


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


def compares(name: str, benchmark: Callable[[IntArray], Benchmark]) -> None:
    """Add an environment with another benchmark."""
    subject.variant(name, Good, benchmark=lambda self, checkpoints: benchmark(checkpoints))


compares(
    "benchmark-has-the-right-form.checkpoints",
    lambda checkpoints: tenth(checkpoints[-1:] + 1),
)
compares(
    "benchmark-has-the-right-form.bound",
    lambda checkpoints: evolve(tenth(checkpoints), values=checkpoints.astype(np.float64)),
)
compares(
    "benchmark-has-the-right-form.not-finite",
    lambda checkpoints: Benchmark(checkpoints, np.full(checkpoints.size, np.nan), float("inf")),
)
compares(
    "benchmark-is-not-beaten",
    lambda checkpoints: Benchmark(checkpoints, np.zeros(checkpoints.size), upper_bound=0.05),
)


@subject("benchmark-changes-no-rewards")
class Simulates(WithBenchmark):
    def benchmark(self, checkpoints: IntArray) -> Any:
        self.rng.random()
        return super().benchmark(checkpoints)


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    subject.register(registrar.environment, lambda make, context: make(context.rng))
