"""Checks of crowd policies that choose apart from showing, or learn apart from deciding."""

from collections.abc import Callable, Iterator
from typing import Protocol
from unittest import SkipTest

import numpy as np
from attrs import define, evolve

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework.errors import InvalidValueError
from bdes_framework.interfaces import (
    ChoosesApart,
    CrowdDecider,
    CrowdLearner,
    CrowdPolicy,
    LearnsApart,
)
from bdes_framework.testing import expect
from bdes_framework.testing.checks import Subject
from bdes_framework.testing.crowd_policies import (
    ORDINARY,
    SUITE,
    CrowdPolicyScenario,
    Player,
    arms_of,
    build,
)
from bdes_framework.testing.expect import PromiseBrokenError

crowd_policy_checks = SUITE.checks
"""Return the checks of a policy for many users, to be called one by one."""

check_crowd_policy = SUITE.check
"""Run every check of a policy for many users; raise one error with all failures."""

DELAYED = evolve(ORDINARY[1], delay=40, shuffled=True, missing=0.2)
SCENARIOS = (*ORDINARY, DELAYED)


class _Chooser(Protocol):
    def choose(self, users: IntArray) -> IntArray: ...

    def show(self, users: IntArray, arms: IntArray) -> None: ...


def _apart(subject: Subject, scenario: CrowdPolicyScenario) -> ChoosesApart:
    policy = build(subject, scenario)
    if not isinstance(policy, ChoosesApart):
        raise SkipTest("it does not choose apart from showing")
    return policy


def _halves(subject: Subject, scenario: CrowdPolicyScenario) -> tuple[CrowdDecider, CrowdLearner]:
    """Return the halves of two policies that are built alike."""
    one, other = build(subject, scenario), build(subject, scenario)
    if not isinstance(one, LearnsApart) or not isinstance(other, LearnsApart):
        raise SkipTest("it does not learn apart from deciding")
    return one.decider, other.learner


def _one_by_one(chooser: _Chooser, users: IntArray) -> IntArray:
    arms = np.empty(users.size, dtype=np.int64)
    for visit in range(users.size):
        at = slice(visit, visit + 1)
        arms[at] = chooser.choose(users[at].copy())
        chooser.show(users[at].copy(), arms[at].copy())
    return arms


@define
class _Apart:
    """A policy that is asked by choosing and showing, one visit after another."""

    policy: ChoosesApart
    before: Callable[[IntArray], object] = lambda users: None
    """Is called with the users of each ask."""

    def ask(self, users: IntArray) -> IntArray:
        self.before(users)
        return _one_by_one(self.policy, users)

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        self.policy.tell(visits, rewards)


@define
class _Split:
    """A decider and a learner, played as one policy: models travel as data."""

    decider: CrowdDecider
    learner: CrowdLearner

    def ask(self, users: IntArray) -> IntArray:
        if self.learner.is_due:
            self.decider.adopt(self.learner.learn())
        arms = _one_by_one(self.decider, users)
        self.learner.show(users, arms)
        return arms

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        self.learner.tell(visits, rewards)


def _arms(policy: CrowdPolicy, scenario: CrowdPolicyScenario) -> IntArray:
    return Player(policy, scenario).play(scenario.visits).arms


# -- choosing apart from showing ------------------------------------------------------------


@SUITE.over(*SCENARIOS)
def choosing_and_showing_is_asking(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """Choosing for one visit after another, and showing that, gives the arms that ask does."""
    played = _arms(_Apart(_apart(subject, scenario)), scenario)
    expected = "the same arms asked for, and chosen and shown one by one"
    expect.same(arms_of(subject, scenario), played, expected, "arm", "visit")


@SUITE.over(*SCENARIOS)
def choosing_notes_nothing(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """Choosing for users, some of whom were never seen, changes no arm that is chosen later."""
    policy = _apart(subject, scenario)

    def look(users: IntArray) -> None:
        everybody = np.arange(int(users.max()) + 2)
        one, other = policy.choose(everybody), policy.choose(everybody[::-1].copy())
        expected = "the same arms for the same users, with nothing shown meanwhile"
        expect.same(np.asarray(one), np.asarray(other)[::-1], expected, "arm", "user")

    played = _arms(_Apart(policy, look), scenario)
    undisturbed = _arms(_Apart(_apart(subject, scenario)), scenario)
    expected = "the same arms however often it was asked what it would choose"
    expect.same(undisturbed, played, expected, "arm", "visit")


def _numbered(users: IntArray) -> IntArray:
    """Return users numbered by their first visit."""
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(user, len(numbers)) for user in users.tolist()])


def _shown_others(subject: Subject, scenario: CrowdPolicyScenario, of_others: bool) -> IntArray:
    """Show half of the visits arms that nobody chose; return what is chosen for the other half.

    Before, it is asked what it would show to that user, or to another, who never comes.
    """
    policy, rng = _apart(subject, scenario), np.random.default_rng(scenario.seed)
    users = _numbered(rng.integers(scenario.n_users, size=scenario.visits))
    stranger = users.max(keepdims=True) + 1
    chosen, half = [], scenario.visits // 2
    for visit in range(scenario.visits):
        user, arm = users[visit : visit + 1], rng.integers(scenario.n_arms, size=1)
        is_first_half = visit < half
        found = policy.choose(stranger if is_first_half and of_others else user.copy())
        if not is_first_half:
            arm = np.asarray(found)
            chosen.append(int(arm[0]))
        policy.show(user.copy(), arm.copy())
        if visit % scenario.every == 0:
            policy.tell(np.array([visit]), np.array([float(arm[0] == scenario.n_arms - 1)]))
    return np.array(chosen)


@SUITE.over(*ORDINARY)
def only_what_is_shown_counts(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """Where another arm is shown than was chosen, what it chose leaves no trace."""
    own, others = (_shown_others(subject, scenario, of_others) for of_others in (False, True))
    expected = "the same arms later, whoever it was asked about when other arms were shown"
    expect.same(own, others, expected, "arm", "visit")


# -- learning apart from deciding -----------------------------------------------------------


@SUITE.over(*SCENARIOS)
def halves_show_what_the_whole_does(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """A decider given the models of another policy's learner shows what the whole does."""
    played = _arms(_Split(*_halves(subject, scenario)), scenario)
    whole = _arms(_Apart(_apart(subject, scenario)), scenario)
    expected = "the same arms from the whole, and from a decider with a learner's models"
    expect.same(whole, played, expected, "arm", "visit")


def _taught(
    subject: Subject, scenario: CrowdPolicyScenario
) -> tuple[_Split, list[tuple[IntArray, IntArray]], list[tuple[IntArray, FloatArray]]]:
    """Play half of the visits; return the halves, what was shown, and what was told."""
    split = _Split(*_halves(subject, scenario))
    shown: list[tuple[IntArray, IntArray]] = []
    told: list[tuple[IntArray, FloatArray]] = []

    class Noted:
        def ask(self, users: IntArray) -> IntArray:
            arms = split.ask(users)
            shown.append((users.copy(), arms.copy()))
            return arms

        def tell(self, visits: IntArray, rewards: FloatArray) -> None:
            told.append((visits.copy(), rewards.copy()))
            split.tell(visits, rewards)

    Player(Noted(), scenario).play(scenario.visits // 2)
    return split, shown, told


def _everybody(shown: list[tuple[IntArray, IntArray]]) -> IntArray:
    return np.arange(max(int(users.max()) for users, _ in shown) + 1)


@SUITE.over(*SCENARIOS)
def late_models_make_no_difference(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """A model adopted late, with the visits since, decides as one adopted in time."""
    split, shown, _ = _taught(subject, scenario)
    model, later = split.learner.learn(), shown[-3:]
    in_time, late = _halves(subject, scenario)[0], split.decider
    in_time.adopt(model)
    for decider in (in_time, late):
        for users, arms in later:
            decider.show(users.copy(), arms.copy())
    late.adopt(model)
    for users, arms in later:
        late.show(users.copy(), arms.copy())
    everybody = _everybody(shown)
    expected = (
        "the same arms from a decider that adopted the model late, and was shown visits again"
    )
    first, second = in_time.choose(everybody.copy()), late.choose(everybody.copy())
    expect.same(np.asarray(first), np.asarray(second), expected, "arm", "user")


def _retold(
    learner: CrowdLearner,
    shown: list[tuple[IntArray, IntArray]],
    told: list[tuple[IntArray, FloatArray]],
) -> None:
    for users, arms in shown:
        learner.show(users.copy(), arms.copy())
    for visits, rewards in told:
        learner.tell(visits.copy(), rewards.copy())


@SUITE.over(*SCENARIOS)
def resumed_learners_go_on_alike(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """A learner that resumes from a model makes the next ones as the same bytes."""
    split, shown, told = _taught(subject, scenario)
    original, model = split.learner, split.learner.learn()
    resumed = _halves(subject, scenario)[1]
    _retold(resumed, shown, told)
    resumed.resume(model)
    expected = "the same from a learner that made a model, and from one that resumed from it"
    expect.that(original.is_due == resumed.is_due, f"is_due {expected}", "not the same")
    for _ in range(2):
        for learner in (original, resumed):
            learner.show(*(array.copy() for array in shown[0]))
        same = original.learn() == resumed.learn()
        expect.that(same, f"models of the same bytes: {expected}", "other bytes")


@SUITE.over(*SCENARIOS)
def orders_of_rewards_do_not_matter(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """Models are the same bytes in whatever order, and in whatever groups, rewards were told."""
    _, shown, told = _taught(subject, scenario)
    learners = [_halves(subject, scenario)[1] for _ in range(2)]
    models = []
    for learner, backwards in zip(learners, (False, True), strict=True):
        _retold(learner, shown, [] if backwards else told)
        if backwards and told:
            visits, rewards = (np.concatenate(part)[::-1] for part in zip(*told, strict=True))
            for place in range(visits.size):
                learner.tell(visits[place : place + 1], rewards[place : place + 1])
        models.append(learner.learn())
    came = "other bytes for rewards told backwards, one by one"
    expect.that(models[0] == models[1], "models of the same bytes", came)


def _damaged(model: bytes) -> Iterator[tuple[str, bytes]]:
    yield "no bytes", b""
    yield "other bytes", b"this is no model of anything"
    yield "the first half of a model", model[: len(model) // 2]
    flipped = bytearray(model)
    flipped[len(model) // 2] ^= 1
    yield "a model with one bit changed", bytes(flipped)


@SUITE.over(*ORDINARY)
def damaged_models_are_refused(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """Adopting or resuming from anything but a model raises InvalidValueError, changing nothing."""
    split, shown, _ = _taught(subject, scenario)
    everybody, model = _everybody(shown), split.learner.learn()
    before = np.asarray(split.decider.choose(everybody.copy()))
    for what, data in _damaged(model):
        for name, call in (("adopt", split.decider.adopt), ("resume", split.learner.resume)):
            try:
                call(data)
            except InvalidValueError:
                continue
            raise PromiseBrokenError(f"InvalidValueError from {name} of {what}", "no error")
    after = np.asarray(split.decider.choose(everybody.copy()))
    expect.same(before, after, "the same arms after models were refused", "arm", "user")


@SUITE.over(*ORDINARY)
def deciders_heed_retired_arms(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """A decider never shows a retired arm, whatever its model says; a new arm gets a number."""
    split, shown, _ = _taught(subject, scenario)
    n, everybody, decider = scenario.n_arms, _everybody(shown), split.decider
    added = decider.add_arm()
    expect.that(added == n, f"add_arm to return {n}, the next number", f"{added}")
    model = split.learner.learn()
    for arm in range(n):
        decider.retire_arm(arm)
        for again in (False, True):
            if again:
                decider.adopt(model)
            arms = np.asarray(decider.choose(everybody.copy()))
            right = (arms > arm) & (arms <= n)
            expect.that(right.all(), f"an arm from {arm + 1} to {n}", f"{arms[~right][:1]}")
        decider.show(everybody[:1].copy(), np.array([n]))
