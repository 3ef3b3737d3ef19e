"""A local plugin of crowd policies: good ones, and for every check one that breaks it."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from bdes_framework import (
    CrowdEstimates,
    CrowdProblem,
    FloatArray,
    IntArray,
    InvalidValueError,
    Registrar,
    hookimpl,
    pack_model,
    unpack_model,
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


# -- choosing and learning apart ------------------------------------------------------------


class Means:
    """What the halves of the policies below know: means of arms, and how often users came."""

    def __init__(self, n_arms: int) -> None:
        self.left = list(range(n_arms))
        self.n_arms = n_arms
        self.counts: dict[int, int] = {}

    def show(self, users: IntArray, arms: IntArray) -> None:
        for user in users.tolist():
            self.counts[user] = self.counts.get(user, 0) + 1

    def add_arm(self) -> int:
        self.n_arms += 1
        self.left.append(self.n_arms - 1)
        return self.n_arms - 1

    def retire_arm(self, arm: int) -> None:
        if arm not in self.left or len(self.left) == 1:
            raise InvalidValueError(f"arm {arm} cannot be retired")
        self.left.remove(arm)


class MeansDecider(Means):
    """Shows the arms in turns, the best first, to each user from the first visit on."""

    ranking: list[int] | None = None
    kind = "means 1"

    def adopt(self, model: bytes) -> None:
        _, arrays = unpack_model(model, self.kind)
        self.ranking = np.argsort(1.0 - arrays["means"].astype(float), kind="stable").tolist()
        users, counts = arrays["users"].tolist(), arrays["counts"].tolist()
        self.counts = dict(zip(users, counts, strict=True))

    def choose(self, users: IntArray) -> IntArray:
        assert self.ranking is not None
        known = [arm for arm in self.ranking if arm in self.left] or self.left
        arms = [known[self.counts.get(user, 0) % len(known)] for user in users.tolist()]
        return np.array(arms, dtype=np.int64)

    def estimates(self) -> CrowdEstimates:
        raise NotImplementedError


class MeansLearner(Means):
    """Means of rewards, each with a random number on top."""

    kind = "means 1"

    def __init__(self, n_arms: int, rng: Generator) -> None:
        super().__init__(n_arms)
        self.rng, self.shown, self.told = rng, list[int](), dict[int, float]()
        self.n_models, self.due_at = 0, 0

    @property
    def is_due(self) -> bool:
        return len(self.told) >= self.due_at

    def show(self, users: IntArray, arms: IntArray) -> None:
        super().show(users, arms)
        self.shown += arms.tolist()

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        self.told |= dict(zip(visits.tolist(), rewards.tolist(), strict=True))

    def sums(self) -> FloatArray:
        sums = np.zeros(self.n_arms)
        for visit in sorted(self.told):
            sums[self.shown[visit]] += self.told[visit]
        return sums

    def learn(self) -> bytes:
        means = self.sums() / np.maximum(np.bincount(self.shown, minlength=self.n_arms), 1)
        means += 0.1 * self.rng.random(means.size)
        self.due_at, self.n_models = 2 * len(self.told) + 1, self.n_models + 1
        state = self.rng.bit_generator.state
        values = {"words": state["state"]["state"].tolist(), "due_at": self.due_at}
        users, counts = (
            np.array([*part], dtype=np.int64) for part in (self.counts.keys(), self.counts.values())
        )
        arrays = {"means": means, "users": users, "counts": counts}
        return pack_model(self.kind, values, arrays)

    def resume(self, model: bytes) -> None:
        values, _ = unpack_model(model, self.kind)
        self.due_at = int(str(values["due_at"]))
        state = self.rng.bit_generator.state
        words = np.array(values["words"], dtype=np.uint64)
        self.rng.bit_generator.state = {**state, "state": {"state": words}}


@subject("good.halves")
class Halves:
    """Its learner makes a model whenever twice as many rewards are known."""

    Decider: Any = MeansDecider
    Learner: Any = MeansLearner

    def __init__(self, problem: CrowdProblem, rng: Generator) -> None:
        self.n_arms = problem.n_arms
        self.decider, self.learner = self.Decider(self.n_arms), self.Learner(self.n_arms, rng)

    def choose(self, users: IntArray) -> Any:
        if self.learner.is_due:
            self.decider.adopt(self.learner.learn())
        return self.decider.choose(users)

    def show(self, users: IntArray, arms: IntArray) -> None:
        self.decider.show(users, arms)
        self.learner.show(users, arms)

    def ask(self, users: IntArray) -> Any:
        shown = []
        for user in users.tolist():
            arm = self.choose(np.array([user]))
            self.show(np.array([user]), arm)
            shown.append(int(arm[0]))
        return np.array(shown, dtype=np.int64)

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        self.learner.tell(visits, rewards)


def half(name: str, which: str, base: Any, **members: object) -> None:
    """Add a policy with one half replaced by a subclass with other members."""
    subject.variant(name, Halves, **{which: type(which, (base,), members)})


subject.after("choosing-and-showing-is-asking", "ask", lambda arms, self, users: arms * 0, Halves)


@subject("choosing-notes-nothing")
class Nosy(Good):
    """Takes whom it is asked about for a visitor, unless it is shown right after."""

    looked = 0

    def choose(self, users: Any) -> Any:
        if isinstance(users, int):
            return super().choose(users)
        self.looked += users.size
        return np.full(users.size, (self.looked - len(self.shown)) // 20 % self.problem.n_arms)

    def show(self, users: IntArray, arms: IntArray) -> None:
        self.shown += arms.tolist()

    def ask(self, users: IntArray) -> Any:
        arms = []
        for user in users.tolist():
            arms.append(self.choose(np.array([user])))
            self.show(np.array([user]), arms[-1])
        return np.concatenate(arms).astype(np.int64)


@subject("only-what-is-shown-counts")
class Stubborn(Halves):
    """Learns as if everybody saw what it chose for them last."""

    def __init__(self, problem: CrowdProblem, rng: Generator) -> None:
        super().__init__(problem, rng)
        self.wanted: dict[int, int] = {}

    def choose(self, users: IntArray) -> Any:
        arms = super().choose(users)
        self.wanted |= dict(zip(users.tolist(), arms.tolist(), strict=True))
        return arms

    def show(self, users: IntArray, arms: IntArray) -> None:
        wanted = [self.wanted.get(u, a) for u, a in zip(users.tolist(), arms.tolist(), strict=True)]
        super().show(users, np.array(wanted))


@subject("halves-show-what-the-whole-does")
class Different(Halves):
    """As a whole it shows the arms the other way round."""

    def choose(self, users: IntArray) -> Any:
        return self.n_arms - 1 - super().choose(users)


def _adopt_as_of_now(self: MeansDecider, model: bytes) -> None:
    counts = dict(self.counts)
    MeansDecider.adopt(self, model)
    self.counts = {user: max(counts.get(user, 0), n) for user, n in self.counts.items()}


half("late-models-make-no-difference", "Decider", MeansDecider, adopt=_adopt_as_of_now)
half(
    "resumed-learners-go-on-alike.random",
    "Learner",
    MeansLearner,
    resume=lambda self, model: self.__dict__.update(
        due_at=unpack_model(model, self.kind)[0]["due_at"]
    ),
)


def _sums_in_order(self: MeansLearner) -> FloatArray:
    sums = np.zeros(self.n_arms)
    for weight, (visit, reward) in enumerate(self.told.items()):
        sums[self.shown[visit]] += reward * (1 + 1e-9 * weight)
    return sums


half("orders-of-rewards-do-not-matter", "Learner", MeansLearner, sums=_sums_in_order)


def _resume_anything(self: MeansLearner, model: bytes) -> None:
    with suppress(InvalidValueError):
        MeansLearner.resume(self, model)


half("damaged-models-are-refused", "Learner", MeansLearner, resume=_resume_anything)


def _trusting(self: MeansDecider, users: IntArray) -> IntArray:
    assert self.ranking is not None
    places = [self.counts.get(user, 0) % len(self.ranking) for user in users.tolist()]
    return np.array([self.ranking[place] for place in places], dtype=np.int64)


half("deciders-heed-retired-arms", "Decider", MeansDecider, choose=_trusting)


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    subject.register(
        registrar.crowd_policy, "tell", lambda make, context: make(context.problem, context.rng)
    )
