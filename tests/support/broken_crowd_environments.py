"""A local plugin of crowd environments: good ones, and for every check one that breaks it."""

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import evolve
from numpy.random import Generator

from bdes_framework import Instance, IntArray, Outcome, Registrar, hookimpl
from tests.support.kit_subjects import Subjects, global_seed

BDES_API_VERSION = 1

INSTANCE = Instance(r=[0.9, 0.3, 0.6], b=[0.1, 1.0, 0.5], lam=0.3)
LAST = INSTANCE.n_arms - 1

subject = Subjects()


@subject("good.plain")
class Plain:
    """Ten users who come at random, visit by visit."""

    n_arms = INSTANCE.n_arms
    thinning = 1.0

    def __init__(self, rng: Generator, arrivals: Generator) -> None:
        self.rng, self.users_rng = rng, arrivals
        self.numbers: dict[int, int] = {}
        self.states: dict[int, float] = {}
        self.visit = 0

    def next_user(self) -> int:
        drawn = int(self.users_rng.random() * 10)
        return self.numbers.setdefault(drawn, len(self.numbers))

    def arrivals(self, n: int) -> Any:
        return np.array([self.next_user() for _ in range(n)], dtype=np.int64)

    def pull_one(self, user: int, arm: int) -> tuple[float, float, float, float]:
        q = self.states.get(user, INSTANCE.q0)
        mean = float(INSTANCE.r[arm] * q)
        reward = float(self.rng.random() < self.thinning * mean)
        self.states[user] = q + INSTANCE.lam * (INSTANCE.b[arm] - q)
        self.visit += 1
        return reward, mean, mean, q

    def pull(self, users: IntArray, arms: IntArray) -> Any:
        if arms.min() < 0 or arms.max() >= INSTANCE.n_arms:
            raise ValueError("there is no such arm")
        if not set(users.tolist()) <= set(self.numbers.values()):
            raise ValueError("there is no such user")
        brought = [
            self.pull_one(*visit) for visit in zip(users.tolist(), arms.tolist(), strict=True)
        ]
        return Outcome(*np.array(brought).T.copy())


@subject("good")
class Good(Plain):
    instance = INSTANCE


@subject("good.over-soon")
class OverSoon(Good):
    """Nobody comes after 150 visits."""

    def arrivals(self, n: int) -> Any:
        return super().arrivals(max(min(n, 150 - self.visit), 0))


# -- the form of things ---------------------------------------------------------------------


def changed(name: str, change: Callable[[Outcome], dict[str, Any]]) -> None:
    """Add an environment that changes good outcomes."""
    subject.after(
        name, "pull", lambda outcome, self, users, arms: evolve(outcome, **change(outcome))
    )


def once(name: str, *, at: int = 8, base: Any = None, **values: float) -> None:
    """Add an environment that brings other values in one visit."""
    order = ("reward", "mean", "probability", "state")

    def change(brought: tuple[float, ...], self: Plain, user: int, arm: int) -> Any:
        if self.visit != at:
            return brought
        return tuple(values.get(key, old) for key, old in zip(order, brought, strict=True))

    subject.after(name, "pull_one", change, base)


FORM = "outcomes-have-one-float64-per-visit"

changed(f"{FORM}.32-bits", lambda outcome: {"rewards": outcome.rewards.astype(np.float32)})
changed(f"{FORM}.column", lambda outcome: {"states": outcome.states[:, np.newaxis]})  # type: ignore[index]
subject.variant("n-arms-is-a-positive-int", n_arms=np.int64(3))
subject.variant("good.says-how-often", visits_per_user=12.5)
subject.variant("visits-per-user-are-at-least-1", visits_per_user=0.5)
subject.variant("good.says-rate-and-start", lam=INSTANCE.lam, q0=INSTANCE.q0)
RATE = "rate-and-start-are-those-of-users"
subject.variant(f"{RATE}.above-1", lam=1.5, q0=INSTANCE.q0)
subject.variant(f"{RATE}.no-number", lam=INSTANCE.lam, q0="1")
subject.variant(f"{RATE}.of-instance", lam=0.4, q0=INSTANCE.q0)
subject.variant(f"{RATE}.of-states", base=Plain, lam=INSTANCE.lam, q0=0.5)
once("outcomes-are-finite", state=np.nan)
once("rewards-lie-in-0-1.reward", reward=1.5)
once("rewards-lie-in-0-1.mean", mean=-0.25, base=Plain)
subject.after(
    "arrivals-are-at-most-n-int64.32-bits",
    "arrivals",
    lambda users, self, n: users.astype(np.int32),
)
subject.after(
    "arrivals-are-at-most-n-int64.too-many",
    "arrivals",
    lambda users, self, n: np.append(users, 0),
)


@subject("users-are-numbered-by-first-visit")
class Numbered(Good):
    """Calls users by numbers of its own."""

    def next_user(self) -> int:
        drawn = int(self.users_rng.random() * 10)
        return self.numbers.setdefault(drawn, 100 + drawn)


# -- what visits depend on ------------------------------------------------------------------


def _late_randomness(self: Plain, *given: object) -> None:
    if self.visit == 1000:
        self.rng = np.random.default_rng()


COMMON: dict[str, Any] = {}

subject.before("same-seed-gives-the-same-visits", "pull_one", _late_randomness)
subject.before(
    "visits-do-not-depend-on-grouping", "pull", lambda self, users, arms: self.rng.random()
)
subject.variant(
    "environments-do-not-share-state",
    states=property(lambda self: COMMON["states"], lambda self, found: COMMON.update(states=found)),
)
subject.before(
    "uses-no-global-random-state.reads",
    "__init__",
    lambda self, rng, arrivals: rng.random(global_seed()),
)


# -- what it does with users and arms -------------------------------------------------------

subject.before(
    "arrays-given-are-not-changed.arms",
    "pull",
    lambda self, users, arms: np.place(arms, arms == 1, 2),
    Plain,
)
subject.before(
    "arrays-given-are-not-changed.users",
    "pull",
    lambda self, users, arms: np.place(users, users == 3, 2),
    Plain,
)
subject.variant(
    "arms-out-of-range-are-rejected.above",
    pull=lambda self, users, arms: Good.pull(self, users, np.minimum(arms, LAST)),
)
subject.variant(
    "arms-out-of-range-are-rejected.below",
    pull=lambda self, users, arms: Good.pull(self, users, np.where(arms == -1, LAST, arms)),
)
subject.variant(
    "users-never-seen-are-rejected.above",
    pull=lambda self, users, arms: Good.pull(self, np.minimum(users, len(self.numbers) - 1), arms),
)
subject.variant(
    "users-never-seen-are-rejected.below",
    pull=lambda self, users, arms: Good.pull(self, np.maximum(users, 0), arms),
)


# -- what rewards are worth -----------------------------------------------------------------

subject.variant("rewards-agree-with-means", thinning=0.5)


@subject("means-are-those-of-the-instance")
class OneStateForAll(Good):
    def pull_one(self, user: int, arm: int) -> tuple[float, float, float, float]:
        return super().pull_one(0, arm)


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    subject.register(
        registrar.crowd_environment,
        "pull",
        lambda make, context: make(context.rng, context.stream("arrivals")),
    )
