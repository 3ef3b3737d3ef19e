"""Checks of environments of many users."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias
from unittest import SkipTest

import numpy as np
from attrs import evolve, frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.numbers import is_number
from bdes_framework._internal.text import quoted
from bdes_framework.errors import BdesError
from bdes_framework.interfaces import (
    CrowdEnvironment,
    HasInstance,
    HasRateAndStart,
    HasVisitsPerUser,
    Kind,
    Outcome,
)
from bdes_framework.simulation.totals import MAX_REWARD, MIN_REWARD
from bdes_framework.testing import expect
from bdes_framework.testing.checks import KEPT, ConformanceSuite, Subject
from bdes_framework.testing.expect import PromiseBrokenError, Rounds, seed_global_random_state


@frozen
class CrowdScenario:
    """How many visits are made at most, and with which seed."""

    visits: int
    seed: int

    def __str__(self) -> str:
        return f"{self.visits} visits, seed={self.seed}"

    def arms(self, n_arms: int) -> IntArray:
        """Return arms to show, at random: shape (visits,)."""
        return np.random.default_rng(self.seed).integers(n_arms, size=self.visits)


ORDINARY = (CrowdScenario(300, 1), CrowdScenario(100, 2), CrowdScenario(1, 3))
LONG = CrowdScenario(2000, 4)
MANY = CrowdScenario(6000, 5)

Groups: TypeAlias = Callable[[int], int]
"""From the visits that are left to how many are played together."""

GROUPS: Mapping[str, Groups] = {
    "together": lambda left: left,
    "one by one": lambda left: 1,
    "a few at a time": lambda left: min(left, 17 * left % 40 + 1),
}
TOGETHER, *_ = GROUPS


# -- playing --------------------------------------------------------------------------------


@frozen(eq=False)
class Visits:
    """Who came, what was shown, and what it brought."""

    users: IntArray
    rounds: Rounds


def build(subject: Subject, scenario: CrowdScenario, global_seed: int = 0) -> CrowdEnvironment:
    """Build the environment that is checked, the global random states set to ``global_seed``."""
    seed_global_random_state(global_seed)
    return subject.plugins.crowd_environment(subject.ref, seed=scenario.seed, **subject.parameters)


def _came(environment: CrowdEnvironment, n: int) -> IntArray:
    """Return who comes, put right so that an environment with one fault fails one check."""
    return np.asarray(environment.arrivals(n)).ravel()[:n].astype(np.int64)


def play(
    environment: CrowdEnvironment, arms: IntArray, groups: Groups = GROUPS[TOGETHER]
) -> Visits:
    """Let users come and show them ``arms``, until there are no more of either."""
    came, parts, done = [], [], 0
    while done < arms.size:
        users = _came(environment, groups(arms.size - done))
        if users.size == 0:
            break
        shown = arms[done : done + users.size]
        parts.append(Rounds.of(shown, environment.pull(users.copy(), shown.copy())))
        came.append(users)
        done += users.size
    expect.that(done > 0, "at least one visit", "nobody came")
    return Visits(np.concatenate(came), Rounds.joined(parts))


def play_anew(
    subject: Subject, scenario: CrowdScenario, how: str = TOGETHER, global_seed: int = 0
) -> Visits:
    """Build an environment and play all visits in one of the ways of ``GROUPS``."""
    environment = build(subject, scenario, global_seed)
    return play(environment, scenario.arms(environment.n_arms), GROUPS[how])


@lru_cache(KEPT)
def undisturbed(subject: Subject, scenario: CrowdScenario) -> Visits:
    """Return what :func:`play_anew` does, kept for other checks."""
    return play_anew(subject, scenario)


def _same_visits(first: Visits, second: Visits, how: str) -> None:
    expect.same(first.users, second.users, f"the same users {how}", "user", "visit")
    expect.same_rounds(first.rounds, second.rounds, how)


SUITE: ConformanceSuite[CrowdScenario] = ConformanceSuite(Kind.CROWD_ENVIRONMENT)

crowd_environment_checks = SUITE.checks
"""Return the checks of an environment of many users, to be called one by one."""

check_crowd_environment = SUITE.check
"""Run every check of an environment of many users; raise one error with all failures."""


# -- the form of things ---------------------------------------------------------------------


@SUITE.over(CrowdScenario(1, 1))
def n_arms_is_a_positive_int(subject: Subject, scenario: CrowdScenario) -> None:
    """The number of arms is an int of at least 1, and stays what it is."""
    environment = build(subject, scenario)
    n_arms: object = environment.n_arms
    expected = "n_arms: an int of at least 1"
    expect.that(type(n_arms) is int, expected, f"{quoted(n_arms)} of type {type(n_arms).__name__}")
    expect.that(environment.n_arms >= 1, expected, quoted(n_arms))
    play(environment, scenario.arms(environment.n_arms))
    expect.that(environment.n_arms == n_arms, f"{n_arms} arms for ever", f"{environment.n_arms}")


@SUITE.over(CrowdScenario(1, 1))
def visits_per_user_are_at_least_1(subject: Subject, scenario: CrowdScenario) -> None:
    """An environment that says how often a user comes says a number of at least 1, or None."""
    environment = build(subject, scenario)
    if not isinstance(environment, HasVisitsPerUser):
        raise SkipTest("it does not say how often a user comes")
    often = environment.visits_per_user
    is_sound = often is None or (is_number(often) and 1 <= often < math.inf)
    expect.that(is_sound, "visits_per_user: a number of at least 1, or None", quoted(often))


@SUITE.over(CrowdScenario(40, 1))
def rate_and_start_are_those_of_users(subject: Subject, scenario: CrowdScenario) -> None:
    """An environment that says lam and q0 says numbers that agree with instance and states."""
    environment = build(subject, scenario)
    if not isinstance(environment, HasRateAndStart):
        raise SkipTest("it does not say at which rate and state users begin")
    lam, q0 = environment.lam, environment.q0
    expect.that(is_number(lam) and 0 <= lam <= 1, "lam: a number in [0, 1]", quoted(lam))
    is_state = is_number(q0) and 0 <= q0 < math.inf
    expect.that(is_state, "q0: a number of at least 0", quoted(q0))
    if isinstance(environment, HasInstance):
        own = environment.instance.lam, environment.instance.q0
        expect.that((lam, q0) == own, f"lam and q0 of its instance: {own}", quoted((lam, q0)))
    users = _came(environment, scenario.visits)
    states = environment.pull(users, scenario.arms(environment.n_arms)[: users.size]).states
    if states is not None:
        first = states[np.unique(users, return_index=True)[1]]
        expected = f"every user at {q0:g} at their first visit, as q0 says"
        expect.same(np.full(first.size, float(q0)), first, expected, "state", "user", 1e-9)


def _arrivals(subject: Subject, scenario: CrowdScenario) -> Iterator[tuple[int, IntArray]]:
    for groups in GROUPS.values():
        environment, left = build(subject, scenario), scenario.visits
        while left:
            n = groups(left)
            users = environment.arrivals(n)
            yield n, users
            if np.size(users) == 0:
                break
            left = max(left - np.size(users), 0)


@SUITE.over_each(_arrivals, *ORDINARY)
def arrivals_are_at_most_n_int64(n: int, users: IntArray) -> None:
    """Arrivals returns a one-dimensional array of at most n int64."""
    expected = f"a one-dimensional array of at most {n} int64 from arrivals({n})"
    expect.array(users, np.int64, expected)
    expect.that(users.size <= n, expected, f"{users.size} users")


@SUITE.over(*ORDINARY, LONG)
def users_are_numbered_by_first_visit(subject: Subject, scenario: CrowdScenario) -> None:
    """The first user is 0, and each new one has the next number."""
    known = 0
    for visit, user in enumerate(undisturbed(subject, scenario).users.tolist()):
        expected = f"visit {visit}: a user from 0 to {known}, who is the next new one"
        expect.that(0 <= user <= known, expected, f"user {user}")
        known = max(known, user + 1)


def _columns(subject: Subject, scenario: CrowdScenario) -> Iterator[tuple[int, str, FloatArray]]:
    """Yield the number of visits, the name and the values of every column of every outcome."""
    environment, done = build(subject, scenario), 0
    arms = scenario.arms(environment.n_arms)
    while done < arms.size:
        users = _came(environment, min(arms.size - done, 40))
        if users.size == 0:
            break
        outcome: object = environment.pull(users, arms[done : done + users.size])
        if not isinstance(outcome, Outcome):
            raise PromiseBrokenError("an Outcome from pull", quoted(outcome))
        for name in ("rewards", "means", "probabilities", "states"):
            column = getattr(outcome, name)
            if column is not None or name in ("rewards", "means"):
                yield users.size, name, column
        done += users.size


@SUITE.over_each(_columns, *ORDINARY)
def outcomes_have_one_float64_per_visit(n: int, name: str, column: FloatArray) -> None:
    """Rewards, means, probabilities and states are arrays of float64, one value per visit."""
    expect.array(column, np.float64, f"{name}: an array of float64, shape ({n},)", n)


@SUITE.over_each(_columns, *ORDINARY)
def outcomes_are_finite(n: int, name: str, column: FloatArray) -> None:
    """No reward, mean, probability or state is NaN or infinite."""
    expect.all_allowed(column, np.isfinite(column), f"finite {name}")


@SUITE.over_each(_columns, *ORDINARY)
def rewards_lie_in_0_1(n: int, name: str, column: FloatArray) -> None:
    """Rewards, means and probabilities lie in [0, 1], give or take the rounding of means."""
    if name != "states":
        values = np.asarray(column)
        wrong = (values < MIN_REWARD) | (values > MAX_REWARD)  # not so for NaN, which is not finite
        expect.all_allowed(values, ~wrong, f"{name} in [0, 1]")


# -- what visits depend on ------------------------------------------------------------------


@SUITE.over(*ORDINARY, LONG)
def same_seed_gives_the_same_visits(subject: Subject, scenario: CrowdScenario) -> None:
    """Two environments with one seed have the same visits and pay the same for the same arms."""
    again = play_anew(subject, scenario)
    _same_visits(undisturbed(subject, scenario), again, "from the same seed")


@SUITE.over(*ORDINARY)
def visits_do_not_depend_on_grouping(subject: Subject, scenario: CrowdScenario) -> None:
    """Visits one by one, some or all together are the same.

    Random numbers belong to the visit, and who comes depends on nothing that is shown.
    """
    whole = undisturbed(subject, scenario)
    for how in GROUPS:
        _same_visits(whole, play_anew(subject, scenario, how), f"{TOGETHER} and {how}")


@SUITE.over(*ORDINARY)
def environments_do_not_share_state(subject: Subject, scenario: CrowdScenario) -> None:
    """Two environments played in turns have the visits that each has alone."""
    pair = (scenario, evolve(scenario, seed=scenario.seed + 1000))
    environments = [build(subject, each) for each in pair]
    turns: tuple[list[Visits], list[Visits]] = ([], [])
    alone = [undisturbed(subject, each) for each in pair]
    for visit in range(min(one.users.size for one in alone)):
        for environment, one, turn in zip(environments, alone, turns, strict=True):
            turn.append(play(environment, one.rounds.arms[visit : visit + 1]))
    for one, turn in zip(alone, turns, strict=True):
        users = np.concatenate([visit.users for visit in turn])
        expected = "the same users alone and in turns with another"
        expect.same(one.users[: users.size], users, expected, "user", "visit")
        means = np.concatenate([visit.rounds.means for visit in turn])
        expected = "the same means alone and in turns with another"
        expect.same(one.rounds.means[: means.size], means, expected, "mean", "visit")


@SUITE.over(*ORDINARY)
def uses_no_global_random_state(subject: Subject, scenario: CrowdScenario) -> None:
    """All randomness comes from the context; np.random and random are neither read nor moved."""

    def columns(global_seed: int) -> tuple[IntArray, FloatArray, FloatArray]:
        visits = play_anew(subject, scenario, TOGETHER, global_seed)
        return visits.users, visits.rounds.rewards, visits.rounds.means

    expect.global_random_state_unused(columns, "value", "visit")


# -- what it does with users and arms -------------------------------------------------------


@SUITE.over(*ORDINARY)
def arrays_given_are_not_changed(subject: Subject, scenario: CrowdScenario) -> None:
    """Pull leaves the arrays of users and arms as they are."""
    environment = build(subject, scenario)
    users = _came(environment, scenario.visits)
    arms = scenario.arms(environment.n_arms)[: users.size]
    given = users.copy(), arms.copy()
    environment.pull(*given)
    expect.same(users, given[0], "the array of users as it was before pull", "user", "visit")
    expect.same(arms, given[1], "the array of arms as it was before pull", "arm", "visit")


def _is_rejected(subject: Subject, user: int, arm: int) -> bool:
    environment = build(subject, ORDINARY[0])
    first = _came(environment, 1)
    users = first if user == 0 else np.full(1, user)
    try:
        environment.pull(users, np.full(1, arm))
    except (BdesError, ValueError, LookupError):
        return True
    return False


@SUITE.over(CrowdScenario(1, 1))
def arms_out_of_range_are_rejected(subject: Subject, scenario: CrowdScenario) -> None:
    """Showing an arm that does not exist raises."""
    n_arms = build(subject, scenario).n_arms
    for wrong in (n_arms, -1):
        expected = f"ValueError or LookupError for arm {wrong} of {n_arms}"
        expect.that(_is_rejected(subject, 0, wrong), expected, "it was shown")


@SUITE.over(CrowdScenario(1, 1))
def users_never_seen_are_rejected(subject: Subject, scenario: CrowdScenario) -> None:
    """Showing an arm to a user who never came raises."""
    for wrong in (1, -1):
        expected = f"ValueError or LookupError for user {wrong}, when only user 0 has come"
        expect.that(_is_rejected(subject, wrong, 0), expected, "it was shown")


# -- what rewards are worth -----------------------------------------------------------------


@SUITE.over(MANY)
def rewards_agree_with_means(subject: Subject, scenario: CrowdScenario) -> None:
    """Over many visits, each arm pays on average what its probabilities, or means, say.

    Six standard errors, and a little for rewards that are very rare.
    """
    rounds = play_anew(subject, scenario).rounds
    for arm in np.unique(rounds.arms):
        surplus = (rounds.rewards - rounds.probabilities)[rounds.arms == arm]
        rare = 20 * np.abs(surplus).max() / surplus.size
        allowed = 6 * surplus.std() / np.sqrt(surplus.size) + rare + 1e-12
        mean = float(surplus.mean())
        expected = f"arm {arm}: rewards within {allowed:.3g} of their expectation, on average"
        expect.that(abs(mean) <= allowed, expected, f"{mean:.3g}")


@SUITE.over(*ORDINARY, LONG)
def means_are_those_of_the_instance(subject: Subject, scenario: CrowdScenario) -> None:
    """Where it is a B-DES instance, each user's means are r·q of that user's own state."""
    environment = build(subject, scenario)
    if not isinstance(environment, HasInstance):
        raise SkipTest("it is no B-DES instance")
    instance = environment.instance
    visits = undisturbed(subject, scenario)
    for user in np.unique(visits.users):
        mine = visits.users == user
        arms = visits.rounds.arms[mine]
        expected = f"user {user}: means of r·q along the states of the arms they were shown"
        means = instance.r[arms] * instance.states(arms)
        expect.same(means, visits.rounds.means[mine], expected, "mean", "visit", 1e-9)
