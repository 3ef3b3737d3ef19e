"""A local plugin of policies: good ones, and for every check of the kit one that breaks it.

Faults that would spoil every game are kept to ``self.here``, a problem that only the general
checks play.
"""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from attrs import field, frozen
from numpy.random import Generator

import bdes_framework as bdes
from bdes_framework import FloatArray, IntArray, Problem, Record, World
from tests.support.kit_subjects import Subjects, global_seed, late_randomness

BDES_API_VERSION = 1

subject = Subjects()


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
            self.learn(arm, bdes.play_round(world, record, t, arm))


@bdes.compiled
def play_in_turn(world: World, record: Record, first: int) -> None:
    for t in range(record.arms.size):
        bdes.play_round(world, record, t, (first + t) % world.r.size)


@subject("good.silent")
class Silent:
    """No diagnostics, no random numbers, no learning: all arms in turn."""

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


def answers(name: str, change: Callable[[IntArray, int, int], Any]) -> None:
    """Add a policy that changes its arms, given the limit and the number of arms."""

    def changed(arms: IntArray, self: Good, limit: int) -> Any:
        return change(arms, limit, self.problem.n_arms) if self.here else arms

    subject.after(name, "ask", changed)


answers("ask-returns-an-array-of-int64.32-bits", lambda arms, limit, n: arms.astype(np.int32))
answers("ask-returns-an-array-of-int64.a-list", lambda arms, limit, n: arms.tolist())
answers(
    "ask-returns-1-to-limit-arms",
    lambda arms, limit, n: np.append(arms, arms) if arms.size == limit else arms,
)
answers("arms-exist", lambda arms, limit, n: arms + (arms == n - 1))

for _name, _answer in {
    "a-list": lambda self, limit: [0] * limit,
    "none": lambda self, limit: None,
    "too-many": lambda self, limit: np.zeros(limit + 1, dtype=np.int64),
    "empty": lambda self, limit: np.zeros(0, dtype=np.int64),
    "arm-99": lambda self, limit: np.full(limit, 99),
    "unseeded": lambda self, limit: np.random.default_rng().integers(2, size=limit),
}.items():
    subject.variant(f"wrong.{_name}", Silent, ask=_answer)


# -- what the arms depend on ----------------------------------------------------------------


COMMON: dict[str, FloatArray] = {}

subject.variant(
    "policies-do-not-share-state",
    sums=property(lambda self: COMMON["sums"], lambda self, sums: COMMON.update(sums=sums)),
)
subject.before("same-seed-gives-the-same-arms", "choose", late_randomness)
subject.before(
    "uses-no-global-random-state.reads",
    "__init__",
    lambda self, problem, rng: rng.random(global_seed()),
)


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


# -- what it does with rewards --------------------------------------------------------------


subject.before(
    "tell-does-not-change-rewards", "tell", lambda self, rewards: np.add(rewards, 1, out=rewards)
)


@subject("tell-does-not-keep-rewards")
class Lazy(Good):
    kept: FloatArray | None = None

    def ask(self, limit: int) -> IntArray:
        if self.kept is not None:
            super().tell(self.kept)
        return super().ask(limit)

    def tell(self, rewards: FloatArray) -> None:
        self.kept = rewards


# -- problems at the edge -------------------------------------------------------------------


def needs(name: str, compute: Callable[[Problem], object]) -> None:
    """Add a policy that first computes something which may fail."""
    subject.before(name, "__init__", lambda self, problem, rng: compute(problem))


def known(value: float | None) -> None:
    if value is None:
        raise bdes.InvalidValueError("needs to know more")


needs("plays-a-single-round", lambda problem: problem.n_arms == 1 or 1 / math.log(problem.horizon))
needs("plays-a-single-arm", lambda problem: 1 / (problem.n_arms - 1))
needs(
    "plays-horizons-too-short-to-explore.crashes",
    lambda problem: problem.horizon == 1 or 1 // (problem.horizon // 26),
)
needs("plays-at-lam-0", lambda problem: problem.lam is None or math.log(problem.lam))
needs("plays-at-lam-1", lambda problem: problem.lam is None or math.log(1 - problem.lam))
needs("plays-without-knowing-lam", lambda problem: known(problem.lam))
needs("plays-without-knowing-a-replenishing-arm", lambda problem: known(problem.replenishing_arm))


@subject("plays-horizons-too-short-to-explore.plays-too-much")
class Overshoots(Good):
    def ask(self, limit: int) -> IntArray:
        exploring = self.round == 0 and 1 < limit < self.problem.n_arms
        return np.arange(self.problem.n_arms) if exploring else super().ask(limit)

    def tell(self, rewards: FloatArray) -> None:
        if self.asked:
            super().tell(rewards)


subject.before(
    "plays-when-nothing-pays", "choose", lambda self: self.round != 60 or 1 / float(self.sums.sum())
)
subject.before(
    "plays-when-everything-pays",
    "choose",
    lambda self: self.round != 60 or 1 / float((self.counts - self.sums).sum()),
)


# -- optional extras ------------------------------------------------------------------------


FLAT = "diagnostics-are-flat"

subject.variant(f"{FLAT}.nested", diagnostics=lambda self: {"estimates": {"counts": self.counts}})
subject.variant(f"{FLAT}.numbered", diagnostics=lambda self: dict(enumerate(self.counts.tolist())))
subject.variant(f"{FLAT}.no-mapping", diagnostics=lambda self: [("round", self.round)])
subject.variant(
    "diagnostics-change-nothing", diagnostics=lambda self: {"sample": self.rng.random()}
)
subject.after(
    "play-equals-ask-and-tell.means",
    "play",
    lambda _, self, world, record: record.means[64:].fill(0.0),
    Fused,
)


@subject("play-equals-ask-and-tell.arms")
class LosesPatience(Fused):
    def play(self, world: World, record: Record) -> None:
        for t in range(record.arms.size):
            arm = self.choose() if t < 64 else 0
            self.learn(arm, bdes.play_round(world, record, t, arm))


@subject("play-equals-ask-and-tell.sometimes")
def sometimes_fused(problem: Problem, rng: Generator) -> Good:
    return LosesPatience(problem, rng) if problem.horizon == 200 else Good(problem, rng)


@subject("play-mixes-with-ask-and-tell")
class LosesItsPlace(Fused):
    def play(self, world: World, record: Record) -> None:
        counts, sums = self.counts.copy(), self.sums.copy()
        super().play(world, record)
        self.counts, self.sums = counts, sums


@frozen
class WeightsConfig:
    """Good, with weights that building it changes.

    Parameters
    ----------
    weights : list[float]
        Of no use.
    """

    weights: list[float] = field(factory=lambda: [0.5])


def build_from_weights(config: WeightsConfig, context: bdes.PolicyContext) -> Good:
    config.weights.append(1.0)
    return Good(context.problem, context.rng)


@bdes.hookimpl
def bdes_register(registrar: bdes.Registrar) -> None:
    registrar.policy("config-is-not-changed", WeightsConfig, build_from_weights)
    subject.register(
        registrar.policy, "tell", lambda make, context: make(context.problem, context.rng)
    )
