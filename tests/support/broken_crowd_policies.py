"""A local plugin of crowd policies: good ones, and for every check one that breaks it."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from bdes_framework import (
    CrowdProblem,
    FloatArray,
    IntArray,
    InvalidValueError,
    Registrar,
    hookimpl,
)
from tests.support.kit_subjects import Subjects, global_seed

BDES_API_VERSION = 1

subject = Subjects()


@subject("good")
class Good:
    """The arm with the best mean so far, after a random arm for every user's first visit."""

    def __init__(self, problem: CrowdProblem, rng: Generator) -> None:
        self.problem, self.rng = problem, rng
        self.seen: set[int] = set()
        self.shown: list[int] = []
        self.paid = np.zeros(problem.n_arms)
        self.told = np.ones(problem.n_arms)

    def choose(self, user: int) -> int:
        if user in self.seen:
            return int(np.argmax(self.paid / self.told))
        self.seen.add(user)
        return int(self.rng.random() * self.problem.n_arms)

    def ask(self, users: IntArray) -> Any:
        arms = [self.choose(user) for user in users.tolist()]
        self.shown += arms
        return np.array(arms, dtype=np.int64)

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        for visit, reward in zip(visits.tolist(), rewards.tolist(), strict=True):
            self.paid[self.shown[visit]] += reward
            self.told[self.shown[visit]] += 1.0

    def diagnostics(self) -> Any:
        return {"means": self.paid / self.told}


@subject("good.silent")
class Silent:
    """Shows arm 0, learns nothing and has no diagnostics."""

    def __init__(self, problem: CrowdProblem, rng: Generator) -> None:
        self.here = problem.visits == 90

    def ask(self, users: IntArray) -> IntArray:
        return np.zeros(users.size, dtype=np.int64)

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        pass


@subject("good.changing")
class Changing(Good):
    """Its arms change: the best mean among the arms that are left, unseen arms first."""

    def __init__(self, problem: CrowdProblem, rng: Generator) -> None:
        super().__init__(problem, rng)
        self.left = list(range(problem.n_arms))

    def choose(self, user: int) -> int:
        means = self.paid / self.told
        return max(self.left, key=lambda arm: (self.told[arm] == 1.0, means[arm]))

    def add_arm(self) -> int:
        self.left.append(self.paid.size)
        self.paid, self.told = np.append(self.paid, 0.0), np.append(self.told, 1.0)
        return self.left[-1]

    def retire_arm(self, arm: int) -> None:
        if arm not in self.left or len(self.left) == 1:
            raise InvalidValueError(f"arm {arm} cannot be retired")
        self.left.remove(arm)


# -- what ask returns -----------------------------------------------------------------------

FORM = "ask-returns-one-int64-per-visit"


def malformed(name: str, change: Callable[[IntArray], object]) -> None:
    """Add a policy that sometimes answers in another form."""
    subject.after(
        f"{FORM}.{name}",
        "ask",
        lambda arms, self, users: change(arms) if self.here else arms,
        Silent,
    )


malformed("list", lambda arms: arms.tolist())
malformed("32-bits", lambda arms: arms.astype(np.int32))
malformed("too-many", lambda arms: np.repeat(arms, 2))


def _out_of_range(arms: IntArray, self: Good, users: IntArray) -> IntArray:
    return np.where(users == 5, self.problem.n_arms, arms) if self.problem.n_arms == 5 else arms


subject.after("arms-exist", "ask", _out_of_range)


# -- what the arms depend on ----------------------------------------------------------------


def _late_randomness(self: Good, users: IntArray) -> None:
    if len(self.shown) == 1000:
        self.rng, self.seen = np.random.default_rng(), set()


def _draw_per_call(self: Good, users: IntArray) -> None:
    self.rng.random()


COMMON: dict[str, Any] = {}

subject.before("same-seed-gives-the-same-arms", "ask", _late_randomness)
subject.before("arms-do-not-depend-on-grouping", "ask", _draw_per_call)
subject.variant(
    "policies-do-not-share-state",
    paid=property(lambda self: COMMON["paid"], lambda self, paid: COMMON.update(paid=paid)),
)
subject.before(
    "uses-no-global-random-state.reads",
    "__init__",
    lambda self, problem, rng: rng.random(global_seed()),
)


@subject("replaying-its-log-restores-it")
class WarmStart(Good):
    """Leaves what it learned to the next policy of the problem, unless it played to the end."""

    left_behind: ClassVar[dict[CrowdProblem, FloatArray]] = {}

    def __init__(self, problem: CrowdProblem, rng: Generator) -> None:
        super().__init__(problem, rng)
        found = self.left_behind.pop(problem, None)
        self.warm = found is not None
        if found is not None:
            self.paid = found

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        super().tell(visits, rewards)
        if not self.warm:
            self.left_behind[self.problem] = 100 * self.paid[::-1]
            if len(self.shown) > self.problem.visits - 30:
                del self.left_behind[self.problem]


# -- what it does with arrays ---------------------------------------------------------------

subject.before(
    "arrays-given-are-not-changed.users", "ask", lambda self, users: np.place(users, users == 3, 2)
)
subject.before(
    "arrays-given-are-not-changed.rewards",
    "tell",
    lambda self, visits, rewards: np.place(rewards, rewards == 1.0, 0.5),
)


@subject("arrays-given-are-not-kept")
class Keeper(Good):
    """Learns rewards only when it is next asked."""

    kept: tuple[IntArray, FloatArray] | None = None

    def ask(self, users: IntArray) -> Any:
        if self.kept is not None:
            super().tell(*self.kept)
            self.kept = None
        return super().ask(users)

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        self.kept = visits, rewards


# -- problems at the edge -------------------------------------------------------------------


def raises(when: Callable[..., bool]) -> Callable[..., None]:
    """Return an effect that raises where a condition holds."""

    def effect(self: Any, *given: Any) -> None:
        if when(self, *given):
            raise RuntimeError("that was not foreseen")

    return effect


def edge(name: str, when: Callable[[CrowdProblem], bool]) -> None:
    """Add a policy that cannot be built for some problems."""
    subject.before(name, "__init__", raises(lambda self, problem, rng: when(problem)))


def told(name: str, when: Callable[[Any, IntArray], bool]) -> None:
    """Add a policy that does not foresee some visits that it is told of."""
    subject.before(name, "tell", raises(lambda self, visits, rewards: when(self, visits)))


edge("plays-a-single-visit", lambda problem: problem.visits == 1)
edge("plays-a-single-arm", lambda problem: problem.n_arms == 1)
edge("plays-at-lam-0", lambda problem: problem.lam == 0.0)
edge("plays-at-lam-1", lambda problem: problem.lam == 1.0)
edge("plays-from-a-low-first-state", lambda problem: problem.q0 < 1.0)
edge("plays-without-knowing-lam", lambda problem: problem.lam is None)
edge("plays-without-knowing-visits-per-user", lambda problem: problem.visits_per_user is None)
edge(
    "plays-with-one-user",
    lambda problem: problem.n_arms > 1 and 1 < problem.visits == problem.visits_per_user,
)
edge("plays-with-users-seen-once", lambda problem: problem.visits_per_user == 1 < problem.visits)


def _is_late(self: Any, visits: IntArray) -> bool:
    return self.problem.visits != 200 and len(self.shown) - int(visits.max()) > 15


def _is_unordered(self: Any, visits: IntArray) -> bool:
    return self.problem.visits != 200 and bool((np.diff(visits) < 0).any())


@subject("plays-with-missing-rewards")
class Complete(Good):
    """Wants every reward, sooner or later."""

    def __init__(self, problem: CrowdProblem, rng: Generator) -> None:
        super().__init__(problem, rng)
        self.known: set[int] = set()

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        super().tell(visits, rewards)
        self.known |= set(visits.tolist())
        if self.problem.visits != 200 and self.known != set(range(len(self.known))):
            raise RuntimeError("a reward is missing")


told("plays-with-late-rewards", _is_late)
told("plays-with-unordered-rewards", _is_unordered)


def _starved(self: Good, users: IntArray) -> bool:
    return len(self.shown) > 50 and self.told.sum() == self.problem.n_arms


subject.before("plays-when-no-reward-comes", "ask", raises(_starved))


# -- optional extras ------------------------------------------------------------------------

FLAT = "diagnostics-are-flat"

subject.variant(f"{FLAT}.nested", diagnostics=lambda self: {"means": {"paid": self.paid}})
subject.variant(f"{FLAT}.draws", diagnostics=lambda self: {"sample": self.rng.random()})


# -- arms that change -----------------------------------------------------------------------


@subject("retired-arms-are-not-shown")
class Forgetful(Changing):
    """Shows a retired arm all the same, a hundred visits later."""

    def choose(self, user: int) -> int:
        retired = self.problem.n_arms > 1 and 1 not in self.left
        late = len(self.shown) > self.problem.visits - 9
        return 1 if late and retired else super().choose(user)


@subject("added-arms-are-tried.not")
class Conservative(Changing):
    """Never shows an arm that it did not start with."""

    def choose(self, user: int) -> int:
        return min(super().choose(user), self.problem.n_arms - 1)


subject.after("added-arms-are-tried.number", "add_arm", lambda arm, self: arm - 1, Changing)


@subject("same-changes-give-the-same-arms")
class Whimsical(Changing):
    """Once arms were retired, it shows any."""

    whim: ClassVar[list[int]] = [0]

    def choose(self, user: int) -> int:
        if len(self.left) == self.problem.n_arms:
            return super().choose(user)
        self.whim[0] += 1
        return self.left[(self.whim[0] // 11) % len(self.left)]


subject.variant(
    "changed-arms-leave-diagnostics-flat",
    base=Changing,
    diagnostics=lambda self: {"means": self.paid / np.ones(self.problem.n_arms)},
)


@subject("wrong-changes-are-rejected")
class Lenient(Changing):
    """Retires whatever it is told to."""

    def retire_arm(self, arm: int) -> None:
        if arm in self.left and len(self.left) > 1:
            self.left.remove(arm)


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    subject.register(
        registrar.crowd_policy, "tell", lambda make, context: make(context.problem, context.rng)
    )
