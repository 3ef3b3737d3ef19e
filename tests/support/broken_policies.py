"""A local plugin of policies: good ones, and for every check of the kit one that breaks it.

Faults that would spoil every game are kept to ``self.here``, a problem that only the general
checks play.
"""

import math
import random
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from bdes_framework import (
    FloatArray,
    IntArray,
    InvalidValueError,
    Problem,
    Record,
    Registrar,
    World,
    compiled,
    hookimpl,
    play_round,
)
from tests.support.kit_subjects import Subjects

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
            self.learn(arm, play_round(world, record, t, arm))


@compiled
def play_in_turn(world: World, record: Record, first: int) -> None:
    for t in range(record.arms.size):
        play_round(world, record, t, (first + t) % world.r.size)


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

    def ask(self: Good, limit: int) -> Any:
        arms = Good.ask(self, limit)
        return change(arms, limit, self.problem.n_arms) if self.here else arms

    subject.variant(name, Good, ask=ask)


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


@subject("same-seed-gives-the-same-arms")
class LateRandomness(Good):
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


@subject("uses-no-global-random-state.reads")
class ReadsNumpy(Good):
    def __init__(self, problem: Problem, rng: Generator) -> None:
        super().__init__(problem, rng)
        self.shift = int(np.random.get_state(legacy=False)["state"]["key"][0])  # noqa: NPY002

    def choose(self) -> int:
        return (super().choose() + self.shift) % self.problem.n_arms


# -- what it does with rewards --------------------------------------------------------------


def does(name: str, effect: Callable[[FloatArray], object]) -> None:
    """Add a policy that does something more with the rewards."""

    def tell(self: Good, rewards: FloatArray) -> None:
        Good.tell(self, rewards)
        effect(rewards)

    subject.variant(name, Good, tell=tell)


does("uses-no-global-random-state.moves-numpy", lambda rewards: np.random.random())  # noqa: NPY002
does("uses-no-global-random-state.moves-random", lambda rewards: random.random())
does("tell-does-not-change-rewards", lambda rewards: np.add(rewards, 1, out=rewards))


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

    def init(self: Good, problem: Problem, rng: Generator) -> None:
        compute(problem)
        Good.__init__(self, problem, rng)

    subject.variant(name, Good, __init__=init)


def known(value: float | None) -> None:
    if value is None:
        raise InvalidValueError("needs to know more")


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


def divides(name: str, by: Callable[[Good], float]) -> None:
    """Add a policy that divides by something in round 60."""

    def choose(self: Good) -> int:
        if self.round == 60:
            assert 1 / by(self) > 0
        return Good.choose(self)

    subject.variant(name, Good, choose=choose)


divides("plays-when-nothing-pays", lambda policy: float(policy.sums.sum()))
divides("plays-when-everything-pays", lambda policy: float((policy.counts - policy.sums).sum()))


# -- optional extras ------------------------------------------------------------------------


def shows(name: str, diagnostics: Callable[[Good], Any]) -> None:
    """Add a policy with other diagnostics."""
    subject.variant(name, Good, diagnostics=diagnostics)


shows("diagnostics-are-flat.nested", lambda policy: {"estimates": {"counts": policy.counts}})
shows("diagnostics-are-flat.numbered", lambda policy: dict(enumerate(policy.counts.tolist())))
shows("diagnostics-are-flat.no-mapping", lambda policy: [("round", policy.round)])
shows("diagnostics-change-nothing", lambda policy: {"sample": policy.rng.random()})


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


@subject("play-equals-ask-and-tell.sometimes")
def sometimes_fused(problem: Problem, rng: Generator) -> Good:
    return LosesPatience(problem, rng) if problem.horizon == 200 else Good(problem, rng)


@subject("play-mixes-with-ask-and-tell")
class LosesItsPlace(Fused):
    def play(self, world: World, record: Record) -> None:
        counts, sums = self.counts.copy(), self.sums.copy()
        super().play(world, record)
        self.counts, self.sums = counts, sums


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    subject.register(registrar.policy, lambda make, context: make(context.problem, context.rng))
