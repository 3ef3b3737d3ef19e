"""Checks of policies for many users."""

import copy
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias
from unittest import SkipTest

import numpy as np
from attrs import evolve, frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework.errors import InvalidValueError
from bdes_framework.interfaces import ChangesArms, CrowdPolicy, HasDiagnostics, Kind
from bdes_framework.model.instance import CrowdProblem
from bdes_framework.testing import expect
from bdes_framework.testing.checks import KEPT, ConformanceSuite, Subject
from bdes_framework.testing.expect import (
    PromiseBrokenError,
    ScenarioRejectedError,
    seed_global_random_state,
)
from bdes_framework.testing.reference import ReferenceCrowd, example_instance


@frozen
class CrowdPolicyScenario:
    """Users and visits, what the policy knows, and when rewards come."""

    n_arms: int = 3
    n_users: int = 6
    visits: int = 120
    lam: float = 0.3
    seed: int = 1
    q0: float = 1.0
    """The state of every user at their first visit."""
    lam_known: bool = True
    visits_per_user_known: bool = True
    every: int = 7
    """Rewards are told each time this many visits were made."""
    delay: int = 0
    """How many visits later they are told."""
    shuffled: bool = False
    missing: float = 0.0
    """The share of rewards that are never told."""
    required: bool = False
    """Whether a policy that knows less, or begins at another state, may not raise
    InvalidValueError when it is built."""

    def __str__(self) -> str:
        lam = f"lam={self.lam}" + ("" if self.lam_known else " (unknown)")
        known = "" if self.visits_per_user_known else "visits per user unknown"
        delay = f"rewards {self.delay} visits late" if self.delay else ""
        missing = f"{self.missing:.0%} of rewards missing" if self.missing else ""
        first = f"first state {self.q0}" if self.q0 != 1.0 else ""
        extras = [first, known, delay, "rewards unordered" if self.shuffled else "", missing]
        sizes = f"K={self.n_arms}, {self.n_users} users, {self.visits} visits, {lam}"
        return ", ".join([sizes, f"seed={self.seed}", *filter(None, extras)])

    @property
    def problem(self) -> CrowdProblem:
        """What the policy knows."""
        return CrowdProblem(
            n_arms=self.n_arms,
            visits=self.visits,
            visits_per_user=self.visits / self.n_users if self.visits_per_user_known else None,
            lam=self.lam if self.lam_known else None,
            q0=self.q0,
        )

    def environment(self) -> ReferenceCrowd:
        """Return a fresh environment; always the same visits and random numbers."""
        rng = np.random.default_rng([self.seed, 3])
        drawn = rng.integers(self.n_users, size=self.visits).tolist()
        if self.n_users == self.visits:
            drawn = list(range(self.visits))
        numbers: dict[int, int] = {}
        visits = [numbers.setdefault(user, len(numbers)) for user in drawn]
        instance = example_instance(self.n_arms, self.lam, self.seed, self.q0)
        return ReferenceCrowd(instance, np.array(visits), self.seed)


ORDINARY = (
    CrowdPolicyScenario(),
    CrowdPolicyScenario(n_arms=2, n_users=30, visits=200, lam=0.05, seed=2, every=25),
    CrowdPolicyScenario(n_arms=5, visits=90, lam=0.9, seed=3, every=1),
)
LONG = CrowdPolicyScenario(n_users=20, visits=1500, lam=0.1, seed=4, every=100)


# -- playing --------------------------------------------------------------------------------


@frozen(eq=False)
class Answer:
    """What ``ask`` returned for some visits."""

    arms: object
    n: int
    n_arms: int
    at: int


@frozen(eq=False)
class Game:
    """What was asked, answered and shown."""

    answers: list[Answer]
    arms: IntArray


Groups: TypeAlias = Callable[[int], int]
"""From the visits until the next tell to how many of them are asked for together."""

GROUPS: Mapping[str, Groups] = {
    "together": lambda left: left,
    "one by one": lambda left: 1,
    "a few at a time": lambda left: min(left, 17 * left % 5 + 1),
}
TOGETHER, *_ = GROUPS

AfterCall: TypeAlias = Callable[[tuple[IntArray | FloatArray, ...], str], object]
"""Sees the arrays that ask or tell was given, after the call."""


class Letters:
    """Rewards on their way to the policy."""

    def __init__(self, scenario: CrowdPolicyScenario) -> None:
        self._scenario = scenario
        self._rng = np.random.default_rng([scenario.seed, 4])
        self._visits: list[int] = []
        self._rewards: list[float] = []

    def post(self, at: int, rewards: FloatArray) -> None:
        """Send the rewards of visits ``at``, ``at + 1``, ...; some are lost."""
        arrive = self._rng.random(rewards.size) >= self._scenario.missing
        for visit, reward, arrives in zip(
            range(at, at + rewards.size), rewards.tolist(), arrive.tolist(), strict=True
        ):
            if arrives:
                self._visits.append(visit)
                self._rewards.append(reward)

    def due(self, done: int) -> tuple[IntArray, FloatArray]:
        """Return what the policy is told after ``done`` visits."""
        n = sum(visit < done - self._scenario.delay for visit in self._visits)
        visits, rewards = np.array(self._visits[:n], dtype=np.int64), np.array(self._rewards[:n])
        del self._visits[:n], self._rewards[:n]
        if self._scenario.shuffled:
            order = np.random.default_rng(done).permutation(n)
            visits, rewards = visits[order], rewards[order]
        return visits, rewards


class Player:
    """A policy that is checked, its environment, and where they are."""

    def __init__(
        self,
        policy: CrowdPolicy,
        scenario: CrowdPolicyScenario,
        groups: Groups = GROUPS[TOGETHER],
        after_call: AfterCall = lambda given, call: None,
    ) -> None:
        self._policy = policy
        self._scenario = scenario
        self._groups = groups
        self._after_call = after_call
        self._environment = scenario.environment()
        self._letters = Letters(scenario)
        self._done = 0
        self._answers: list[Answer] = []

    def play(self, n: int) -> Game:
        """Ask, pull and tell for ``n`` more visits.

        Wrong answers are kept as they are and put right before they are shown, so that a policy
        with one fault fails one check.
        """
        parts, until = [], self._done + n
        every, n_arms = self._scenario.every, self._scenario.n_arms
        while self._done < until:
            left = min(every - self._done % every, until - self._done)
            users = self._environment.arrivals(self._groups(left))
            given = users.copy()
            asked = self._policy.ask(given)
            self._after_call((given, users), "ask")
            answer = Answer(copy.copy(asked), users.size, n_arms, self._done)
            self._answers.append(answer)
            parts.append(_put_right(answer))
            outcome = self._environment.pull(users, parts[-1])
            self._letters.post(self._done, outcome.rewards)
            self._done += users.size
            if self._done % every == 0:
                self._tell()
        return Game(self._answers, np.concatenate(parts))

    def _tell(self) -> None:
        visits, rewards = self._letters.due(self._done)
        if visits.size:
            given = visits.copy(), rewards.copy()
            self._policy.tell(*given)
            self._after_call((*given, visits, rewards), "tell")


def _put_right(answer: Answer) -> IntArray:
    try:
        arms = np.asarray(answer.arms).ravel()[: answer.n].astype(np.int64)
    except (TypeError, ValueError):
        ask_returns_one_int64_per_visit(answer)
        raise
    arms = np.concatenate([arms, np.zeros(answer.n - arms.size, dtype=np.int64)])
    return np.minimum(np.maximum(arms, 0), answer.n_arms - 1)


def build(subject: Subject, scenario: CrowdPolicyScenario, global_seed: int = 0) -> CrowdPolicy:
    """Build the policy that is checked, the global random states set to ``global_seed``."""
    seed_global_random_state(global_seed)
    try:
        return subject.plugins.crowd_policy(
            subject.ref, scenario.problem, seed=scenario.seed, **subject.parameters
        )
    except InvalidValueError as error:
        is_usual = scenario.lam_known and scenario.visits_per_user_known and scenario.q0 == 1.0
        if scenario.required or is_usual:
            raise
        raise ScenarioRejectedError(str(error)) from error


def play_anew(
    subject: Subject,
    scenario: CrowdPolicyScenario,
    how: str = TOGETHER,
    after_call: AfterCall = lambda given, call: None,
) -> Game:
    """Build a policy and play all visits, asked for in one of the ways of ``GROUPS``."""
    policy = build(subject, scenario)
    return Player(policy, scenario, GROUPS[how], after_call).play(scenario.visits)


@lru_cache(KEPT)
def game(subject: Subject, scenario: CrowdPolicyScenario, how: str) -> Game:
    """Return what :func:`play_anew` does, kept for other checks."""
    return play_anew(subject, scenario, how)


def arms_of(subject: Subject, scenario: CrowdPolicyScenario) -> IntArray:
    """Return the arms that are shown when nothing disturbs."""
    return game(subject, scenario, TOGETHER).arms


SUITE: ConformanceSuite[CrowdPolicyScenario] = ConformanceSuite(Kind.CROWD_POLICY)

# -- what ask returns -----------------------------------------------------------------------


def _answers(subject: Subject, scenario: CrowdPolicyScenario) -> Iterator[tuple[Answer]]:
    for how in GROUPS:
        yield from ((answer,) for answer in game(subject, scenario, how).answers)


@SUITE.over_each(_answers, *ORDINARY)
def ask_returns_one_int64_per_visit(answer: Answer) -> None:
    """Ask returns a one-dimensional array of int64, an arm for each visit."""
    expected = f"an array of int64, shape ({answer.n},), from ask of {answer.n} visits"
    expect.array(answer.arms, np.int64, expected, answer.n)


@SUITE.over_each(_answers, *ORDINARY)
def arms_exist(answer: Answer) -> None:
    """Every arm lies between 0 and K - 1."""
    arms = np.asarray(answer.arms).ravel()
    for at in np.flatnonzero((arms < 0) | (arms >= answer.n_arms))[:1]:
        came = f"visit {answer.at + at}: arm {arms[at]}"
        raise PromiseBrokenError(f"arms from 0 to {answer.n_arms - 1}", came)


# -- what the arms depend on ----------------------------------------------------------------


@SUITE.over(*ORDINARY, LONG)
def same_seed_gives_the_same_arms(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """Two policies with the same seed, visits and rewards show the same arms."""
    again = play_anew(subject, scenario).arms
    expected = "the same arms from the same seed"
    expect.same(arms_of(subject, scenario), again, expected, "arm", "visit")


@SUITE.over(*ORDINARY, evolve(ORDINARY[1], delay=40, shuffled=True, missing=0.2))
def arms_do_not_depend_on_grouping(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """Between two tells, visits asked for one by one, some or all together get the same arms."""
    for how in GROUPS:
        expected = f"the same arms asked for {TOGETHER} and {how}"
        other = game(subject, scenario, how).arms
        expect.same(arms_of(subject, scenario), other, expected, "arm", "visit")


@SUITE.over(*ORDINARY)
def replaying_its_log_restores_it(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """A policy rebuilt half-way, and given the visits and rewards so far, goes on as the first."""
    half = scenario.visits // 2 // scenario.every * scenario.every
    lost = Player(build(subject, scenario), scenario).play(half).arms
    rebuilt = Player(build(subject, scenario), scenario)
    expected = "the logged arms again while replaying the log"
    expect.same(lost, rebuilt.play(half).arms, expected, "arm", "visit")
    rest = rebuilt.play(scenario.visits - half).arms
    expected = "after a replay, the arms of a policy that was never interrupted"
    expect.same(arms_of(subject, scenario)[half:], rest, expected, "arm", "visit")


@SUITE.over(*ORDINARY)
def policies_do_not_share_state(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """Two policies that play side by side show what each shows alone."""
    scenarios = (scenario, evolve(scenario, seed=scenario.seed + 1000))
    pair = [Player(build(subject, each), each) for each in scenarios]
    turns: tuple[list[IntArray], list[IntArray]] = ([], [])
    for start in range(0, scenario.visits, scenario.every):
        for turn, player in zip(turns, pair, strict=True):
            turn.append(player.play(min(scenario.every, scenario.visits - start)).arms)
    for turn, alone in zip(turns, scenarios, strict=True):
        expected = "the same arms alone and side by side with another policy"
        expect.same(arms_of(subject, alone), np.concatenate(turn), expected, "arm", "visit")


@SUITE.over(*ORDINARY)
def uses_no_global_random_state(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """All randomness comes from the context; np.random and random are neither read nor moved."""

    def arms(global_seed: int) -> tuple[IntArray]:
        policy = build(subject, scenario, global_seed)
        return (Player(policy, scenario).play(scenario.visits).arms,)

    expect.global_random_state_unused(arms, "arm", "visit")


# -- what it does with arrays ---------------------------------------------------------------


@SUITE.over(*ORDINARY)
def arrays_given_are_not_changed(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """Ask leaves the array of users as it is, tell those of visits and rewards."""

    def compare(arrays: tuple[IntArray | FloatArray, ...], call: str) -> None:
        half = len(arrays) // 2
        for given, before in zip(arrays[:half], arrays[half:], strict=True):
            expect.same(before, given, f"arrays as they were before {call}", "value", "place")

    play_anew(subject, scenario, after_call=compare)


@SUITE.over(*ORDINARY)
def arrays_given_are_not_kept(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """The arrays given to ask and tell may be overwritten afterwards."""

    def overwrite(arrays: tuple[IntArray | FloatArray, ...], call: str) -> None:
        for given in arrays[: len(arrays) // 2]:
            given[:] = 0

    played = play_anew(subject, scenario, after_call=overwrite).arms
    expected = "the same arms when arrays are overwritten after the call"
    expect.same(arms_of(subject, scenario), played, expected, "arm", "visit")


# -- problems at the edge -------------------------------------------------------------------


def plays(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """It answers every ask as it should."""
    for answer in play_anew(subject, scenario).answers:
        ask_returns_one_int64_per_visit(answer)
        arms_exist(answer)


PLAIN = CrowdPolicyScenario(seed=5)

SUITE.table(
    plays,
    plays_a_single_visit=[evolve(PLAIN, visits=1, n_users=1, every=1)],
    plays_a_single_arm=[evolve(PLAIN, n_arms=1), evolve(PLAIN, n_arms=1, n_users=1)],
    plays_with_one_user=[evolve(PLAIN, n_users=1), evolve(PLAIN, n_users=1, every=1)],
    plays_with_users_seen_once=[evolve(PLAIN, n_users=PLAIN.visits)],
    plays_with_late_rewards=[evolve(PLAIN, delay=30)],
    plays_with_unordered_rewards=[evolve(PLAIN, shuffled=True)],
    plays_with_missing_rewards=[evolve(PLAIN, missing=0.3)],
    plays_when_no_reward_comes=[evolve(PLAIN, missing=1.0)],
    plays_at_lam_0=[evolve(PLAIN, lam=0.0)],
    plays_at_lam_1=[evolve(PLAIN, lam=1.0)],
    plays_from_a_low_first_state=[evolve(PLAIN, q0=0.4)],
    plays_without_knowing_lam=[evolve(PLAIN, lam_known=False, required=True)],
    plays_without_knowing_visits_per_user=[
        evolve(PLAIN, visits_per_user_known=False, required=True)
    ],
)


# -- optional extras ------------------------------------------------------------------------


@SUITE.over(*ORDINARY)
def diagnostics_are_flat(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """Diagnostics, at any time, are names with scalars, strings or small arrays, and harmless."""
    policy = build(subject, scenario)
    if not isinstance(policy, HasDiagnostics):
        raise SkipTest("it has no diagnostics")
    show = policy.diagnostics
    expect.flat(show())

    def look(arrays: object, call: str) -> None:
        expect.flat(show())

    played = Player(policy, scenario, after_call=look).play(scenario.visits).arms
    expected = "the same arms with and without a look at diagnostics"
    expect.same(arms_of(subject, scenario), played, expected, "arm", "visit")


# -- arms that change -----------------------------------------------------------------------

PATIENCE = 1000
"""Visits within which an arm that was added has to be shown, where no other arm pays."""


def _with_changing_arms(subject: Subject, scenario: CrowdPolicyScenario) -> ChangesArms:
    policy = build(subject, scenario)
    if not isinstance(policy, ChangesArms):
        raise SkipTest("its arms do not change")
    return policy


def _changed_game(subject: Subject, scenario: CrowdPolicyScenario) -> tuple[IntArray, IntArray]:
    """Play half, retire arm 1, and play the rest; return what was shown before and after."""
    policy = _with_changing_arms(subject, scenario)
    player = Player(policy, scenario)
    half = scenario.visits // 2
    before = player.play(half).arms
    policy.retire_arm(1)
    return before, player.play(scenario.visits - half).arms


@SUITE.over(*ORDINARY, evolve(ORDINARY[1], delay=40, missing=0.2))
def retired_arms_are_not_shown(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """After retire_arm an arm is shown no more, though its rewards may still come."""
    _, after = _changed_game(subject, scenario)
    shown = np.flatnonzero(after == 1)[:1].tolist()
    expect.that(not shown, "arm 1 not to be shown once it is retired", f"it was: {shown}")


@SUITE.over(*ORDINARY)
def added_arms_are_tried(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """add_arm returns the next number, and where no other arm pays the new one is soon shown."""
    policy, n = _with_changing_arms(subject, scenario), scenario.n_arms
    users, done = np.zeros(scenario.every, dtype=np.int64), 0

    def play(visits: int) -> IntArray:
        nonlocal done
        shown = []
        for _ in range(0, visits, users.size):
            arms = policy.ask(users.copy())
            shown.append(arms)
            policy.tell(np.arange(done, done + users.size), (arms == n).astype(np.float64))
            done += users.size
        return np.concatenate(shown)

    play(scenario.visits)
    added = policy.add_arm()
    expect.that(added == n, f"add_arm to return {n}, the next number", f"{added}")
    shown = play(PATIENCE)
    expect.that(shown.max() <= n, f"arms from 0 to {n}", f"{shown.max()}")
    came = f"not within {shown.size} visits"
    expect.that(n in shown, f"arm {n} to be shown, the only one that pays", came)


@SUITE.over(*ORDINARY)
def same_changes_give_the_same_arms(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """Two policies with the same seed, visits, rewards and changes show the same arms."""
    expected = "the same arms after the same changes"
    games = (np.concatenate(_changed_game(subject, scenario)) for _ in range(2))
    expect.same(next(games), next(games), expected, "arm", "visit")


@SUITE.over(*ORDINARY)
def changed_arms_leave_diagnostics_flat(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """Diagnostics are flat right after an arm was added or retired, before the next ask."""
    policy = _with_changing_arms(subject, scenario)
    if not isinstance(policy, HasDiagnostics):
        raise SkipTest("it has no diagnostics")
    show = policy.diagnostics
    for visits in (0, scenario.visits):
        if visits:
            Player(policy, scenario).play(visits)
        policy.add_arm()
        expect.flat(show())
        policy.retire_arm(1 if visits else 0)
        expect.flat(show())


@SUITE.over(*ORDINARY)
def wrong_changes_are_rejected(subject: Subject, scenario: CrowdPolicyScenario) -> None:
    """Retiring an arm that is none, one that was retired, or the last raises InvalidValueError."""
    policy, n = _with_changing_arms(subject, scenario), scenario.n_arms
    policy.retire_arm(0)
    wrong = {n: "there is no such arm", 0: "it was retired", n - 1: "it is the last"}
    for arm, why in wrong.items():
        if why == "it is the last":
            for other in range(1, n - 1):
                policy.retire_arm(other)
        try:
            policy.retire_arm(arm)
        except InvalidValueError:
            continue
        raise PromiseBrokenError(f"InvalidValueError from retire_arm({arm}): {why}", "no error")
