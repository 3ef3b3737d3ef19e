"""A local plugin of policies: good ones, and for every check of the kit one that breaks it.

A broken policy is registered under the name of the one check it fails, with hyphens; what
follows a dot tells several for the same check apart. Faults that would spoil every game are
kept to ``self.here``, a problem that only the general checks play.
"""

import math
import random
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import numpy as np
from attrs import AttrsInstance
from numpy.random import Generator

from bdes_framework import (
    FloatArray,
    IntArray,
    InvalidValueError,
    Policy,
    PolicyContext,
    Problem,
    Record,
    Registrar,
    World,
    compiled,
    hookimpl,
    play_round,
)
from tests.support.kit_subjects import SpeechlessConfig, UnexplainedConfig, config_for

BDES_API_VERSION = 1

Make = Callable[[Problem, Generator], Policy]
P = TypeVar("P", bound=Policy)
SUBJECTS: dict[str, Any] = {}


def subject(name: str) -> Callable[[type[P]], type[P]]:
    """Register the class below under a name."""

    def add(cls: type[P]) -> type[P]:
        SUBJECTS[name] = cls
        return cls

    return add


@subject("good")
class Good:
    """Tries every arm four times and then follows the leader, mostly, five rounds at a time."""

    def __init__(self, problem: Problem, rng: Generator) -> None:
        self.problem, self.rng = problem, rng
        self.here = problem.horizon == 200
        self.counts, self.sums = np.zeros(problem.n_arms), np.zeros(problem.n_arms)
        self.coming: list[int] = []
        self.asked: list[int] = []
        self.round = 0

    def decide(self) -> list[int]:
        n_arms = self.problem.n_arms
        if self.round < 4 * n_arms:
            return list(range(n_arms))
        explores, which = self.rng.random(2)
        if explores < 0.2:
            return [int(which * n_arms)] * 5
        return [int(np.argmax(self.sums / np.maximum(self.counts, 1)))] * 5

    def choose(self) -> int:
        self.coming = self.coming or self.decide()
        self.round += 1
        return self.coming.pop(0)

    def learn(self, arm: int, reward: float) -> None:
        self.counts[arm] += 1
        self.sums[arm] += reward

    def ask(self, limit: int) -> IntArray:
        self.coming = self.coming or self.decide()
        self.asked = [self.choose() for _ in range(min(limit, len(self.coming)))]
        return np.array(self.asked, dtype=np.int64)

    def tell(self, rewards: FloatArray) -> None:
        for arm, reward in zip(self.asked, rewards.tolist(), strict=True):
            self.learn(arm, reward)

    def diagnostics(self) -> Any:
        return {"round": self.round, "counts": self.counts, "phase": "late", "share": 0.5}


@subject("good.fused")
class Fused(Good):
    """The same with a fused form."""

    def play(self, world: World, record: Record) -> None:
        for t in range(record.arms.size):
            arm = self.choose()
            self.learn(arm, play_round(world, record, t, arm))


@compiled
def play_in_turn(world: World, record: Record, first: int) -> None:
    for t in range(record.arms.size):
        play_round(world, record, t, (first + t) % world.r.size)


@subject("good.silent")
class Silent:
    """No diagnostics, no luck, no learning: all arms in turn."""

    def __init__(self, problem: Problem, rng: Generator) -> None:
        self.n_arms, self.round = problem.n_arms, 0

    def ask(self, limit: int) -> IntArray:
        arms = np.arange(self.round, self.round + limit) % self.n_arms
        self.round += limit
        return arms

    def tell(self, rewards: FloatArray) -> None:
        pass


@subject("good.compiled")
class Compiled(Silent):
    """A fused form that is really compiled, where there is a compiler."""

    def play(self, world: World, record: Record) -> None:
        play_in_turn(world, record, self.round)
        self.round += record.arms.size


# -- what ask returns -----------------------------------------------------------------------


@subject("ask-returns-an-array-of-int64.32-bits")
class Narrow(Good):
    def ask(self, limit: int) -> Any:
        return super().ask(limit).astype(np.int32 if self.here else np.int64)


@subject("ask-returns-an-array-of-int64.a-list")
class Listed(Good):
    def ask(self, limit: int) -> Any:
        return super().ask(limit).tolist() if self.here else super().ask(limit)


@subject("ask-returns-1-to-limit-arms")
class TooMany(Good):
    def ask(self, limit: int) -> IntArray:
        arms = super().ask(limit)
        return np.append(arms, arms) if self.here and arms.size == limit else arms


@subject("arms-exist")
class OffTheEnd(Good):
    def ask(self, limit: int) -> IntArray:
        arms = super().ask(limit)
        return arms + (arms == self.problem.n_arms - 1) if self.here else arms


# -- what the arms depend on ----------------------------------------------------------------


@subject("same-seed-gives-the-same-arms")
class LateLuck(Good):
    def choose(self) -> int:
        if self.round == 1000:
            self.rng = np.random.default_rng()
        return super().choose()


@subject("arms-do-not-depend-on-limit")
class Impatient(Good):
    ones = 0

    def ask(self, limit: int) -> IntArray:
        self.ones = self.ones + 1 if limit == 1 else 0
        if self.here and self.ones > 3:
            self.sums = self.sums[::-1].copy()
        return super().ask(limit)


@subject("replaying-its-log-restores-it")
class WarmStart(Good):
    left_behind: ClassVar[dict[Problem, FloatArray]] = {}

    def __init__(self, problem: Problem, rng: Generator) -> None:
        super().__init__(problem, rng)
        found = self.left_behind.pop(problem, None)
        self.warm = found is not None
        if found is not None:
            self.sums, self.round = found, 4 * problem.n_arms

    def tell(self, rewards: FloatArray) -> None:
        super().tell(rewards)
        if not self.warm:
            self.left_behind[self.problem] = self.sums.copy()
            if self.round == self.problem.horizon:
                del self.left_behind[self.problem]


@subject("policies-do-not-share-state")
class Shared(Good):
    common: ClassVar[FloatArray]

    def __init__(self, problem: Problem, rng: Generator) -> None:
        super().__init__(problem, rng)
        type(self).common = self.sums

    def choose(self) -> int:
        self.sums = self.common
        return super().choose()


@subject("uses-no-global-random-state.moves-numpy")
class MovesNumpy(Good):
    def tell(self, rewards: FloatArray) -> None:
        super().tell(rewards)
        np.random.random()  # noqa: NPY002


@subject("uses-no-global-random-state.moves-random")
class MovesRandom(Good):
    def tell(self, rewards: FloatArray) -> None:
        super().tell(rewards)
        random.random()


@subject("uses-no-global-random-state.reads")
class ReadsNumpy(Good):
    def __init__(self, problem: Problem, rng: Generator) -> None:
        super().__init__(problem, rng)
        self.shift = int(np.random.get_state(legacy=False)["state"]["key"][0])  # noqa: NPY002

    def choose(self) -> int:
        return (super().choose() + self.shift) % self.problem.n_arms


# -- what it does with rewards --------------------------------------------------------------


@subject("rewards-told-are-not-changed")
class Scribbles(Good):
    def tell(self, rewards: FloatArray) -> None:
        super().tell(rewards)
        rewards += 1


@subject("rewards-told-are-not-kept")
class Lazy(Good):
    kept: FloatArray | None = None

    def ask(self, limit: int) -> IntArray:
        if self.kept is not None:
            super().tell(self.kept)
        return super().ask(limit)

    def tell(self, rewards: FloatArray) -> None:
        self.kept = rewards


# -- problems at the edge -------------------------------------------------------------------


@subject("plays-a-single-round")
class NeedsTwoRounds(Good):
    def __init__(self, problem: Problem, rng: Generator) -> None:
        super().__init__(problem, rng)
        if problem.n_arms > 1:
            self.width = 1 / math.log(problem.horizon)


@subject("plays-a-single-arm")
class NeedsTwoArms(Good):
    def __init__(self, problem: Problem, rng: Generator) -> None:
        super().__init__(problem, rng)
        self.share = 1 / (problem.n_arms - 1)


@subject("plays-horizons-too-short-to-explore.crashes")
class NeedsTime(Good):
    def __init__(self, problem: Problem, rng: Generator) -> None:
        super().__init__(problem, rng)
        self.every = 1 // (problem.horizon // 26) if problem.horizon > 1 else 1


@subject("plays-horizons-too-short-to-explore.plays-too-much")
class Overshoots(Good):
    def ask(self, limit: int) -> IntArray:
        exploring = self.round == 0 and 1 < limit < self.problem.n_arms
        return np.arange(self.problem.n_arms) if exploring else super().ask(limit)

    def tell(self, rewards: FloatArray) -> None:
        if self.asked:
            super().tell(rewards)


@subject("plays-at-lam-0")
class NeedsMotion(Good):
    def __init__(self, problem: Problem, rng: Generator) -> None:
        super().__init__(problem, rng)
        self.pulls = 0.0 if problem.lam is None else math.log(problem.lam)


@subject("plays-at-lam-1")
class NeedsMemory(Good):
    def __init__(self, problem: Problem, rng: Generator) -> None:
        super().__init__(problem, rng)
        self.pulls = 0.0 if problem.lam is None else math.log(1 - problem.lam)


@subject("plays-without-knowing-lam")
class NeedsLam(Good):
    def __init__(self, problem: Problem, rng: Generator) -> None:
        super().__init__(problem, rng)
        if problem.lam is None:
            raise InvalidValueError("needs to know lam")


@subject("plays-without-knowing-a-replenishing-arm")
class NeedsArm(Good):
    def __init__(self, problem: Problem, rng: Generator) -> None:
        super().__init__(problem, rng)
        if problem.replenishing_arm is None:
            raise InvalidValueError("needs to know a replenishing arm")


@subject("plays-when-nothing-pays")
class NeedsReward(Good):
    def choose(self) -> int:
        if self.round == 60:
            self.weight = 1 / float(self.sums.sum())
        return super().choose()


@subject("plays-when-everything-pays")
class NeedsFailure(Good):
    def choose(self) -> int:
        if self.round == 60:
            self.weight = 1 / float((self.counts - self.sums).sum())
        return super().choose()


# -- optional extras ------------------------------------------------------------------------


@subject("diagnostics-are-flat.nested")
class Nested(Good):
    def diagnostics(self) -> Any:
        return {"estimates": {"counts": self.counts}}


@subject("diagnostics-are-flat.numbered")
class Numbered(Good):
    def diagnostics(self) -> Any:
        return dict(enumerate(self.counts.tolist()))


@subject("diagnostics-are-flat.no-mapping")
class Pairs(Good):
    def diagnostics(self) -> Any:
        return [("round", self.round)]


@subject("diagnostics-change-nothing")
class Restless(Good):
    def diagnostics(self) -> Any:
        return {"sample": self.rng.random()}


@subject("play-equals-ask-and-tell.arms")
class LosesPatience(Fused):
    def play(self, world: World, record: Record) -> None:
        for t in range(record.arms.size):
            arm = self.choose() if t < 64 else 0
            self.learn(arm, play_round(world, record, t, arm))


@subject("play-equals-ask-and-tell.means")
class ForgetsMeans(Fused):
    def play(self, world: World, record: Record) -> None:
        super().play(world, record)
        record.means[64:] = 0.0


def sometimes_fused(problem: Problem, rng: Generator) -> Good:
    return LosesPatience(problem, rng) if problem.horizon == 200 else Good(problem, rng)


SUBJECTS["play-equals-ask-and-tell.sometimes"] = sometimes_fused


@subject("play-mixes-with-ask-and-tell")
class LosesItsPlace(Fused):
    def play(self, world: World, record: Record) -> None:
        counts, sums = self.counts.copy(), self.sums.copy()
        super().play(world, record)
        self.counts, self.sums = counts, sums


# -- the plugin -----------------------------------------------------------------------------


def factory(make: Make) -> Callable[[AttrsInstance, PolicyContext], Policy]:
    return lambda config, context: make(context.problem, context.rng)


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    for name, make in SUBJECTS.items():
        registrar.policy(name, config_for(name), factory(make))
    registrar.policy("parameters-are-documented.one-not", UnexplainedConfig, factory(Good))
    registrar.policy("parameters-are-documented.none-at-all", SpeechlessConfig, factory(Good))
