"""Checks of policies."""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias
from unittest import SkipTest

import numpy as np
from attrs import AttrsInstance, asdict, evolve, frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.interfaces import FusedPolicy, HasDiagnostics, Kind, Policy
from bdes_framework.model.instance import Instance, Problem
from bdes_framework.testing import expect
from bdes_framework.testing.checks import KEPT, ConformanceSuite, Subject
from bdes_framework.testing.expect import (
    PromiseBrokenError,
    Rounds,
    ScenarioRejectedError,
    seed_global_random_state,
)
from bdes_framework.testing.reference import ReferenceEnvironment, example_instance


@frozen
class PolicyScenario:
    """A problem to play: its true parameters, and which of them the policy knows."""

    n_arms: int = 3
    horizon: int = 120
    lam: float = 0.3
    seed: int = 1
    lam_known: bool = True
    arm_known: bool = True
    pays: float | None = None
    """Every pull pays this, if it is given."""
    noise_width: float = 0.0
    required: bool = False
    """Whether a policy that knows less may not raise InvalidValueError when it is built."""

    def __str__(self) -> str:
        lam = f"lam={self.lam}" + ("" if self.lam_known else " (unknown)")
        extras = ["" if self.arm_known else "replenishing arm unknown"]
        extras += ["" if self.pays is None else f"every pull pays {self.pays:g}"]
        extras += [f"noise {self.noise_width}" if self.noise_width else ""]
        more = "".join(f", {extra}" for extra in extras if extra)
        return f"K={self.n_arms}, T={self.horizon}, {lam}, seed={self.seed}{more}"

    @property
    def problem(self) -> Problem:
        """What the policy knows."""
        return Problem(
            n_arms=self.n_arms,
            horizon=self.horizon,
            lam=self.lam if self.lam_known else None,
            replenishing_arm=self.n_arms - 1 if self.arm_known else None,
        )

    def environment(self) -> ReferenceEnvironment:
        """Return a fresh environment; always the same random numbers."""
        if self.pays is None:
            instance = example_instance(self.n_arms, self.lam, self.seed)
        else:
            everywhere = np.ones(self.n_arms)
            instance = Instance(self.pays * everywhere, everywhere, self.lam)
        return ReferenceEnvironment(instance, self.seed, self.noise_width)


ORDINARY = (
    PolicyScenario(),
    PolicyScenario(n_arms=2, horizon=200, lam=0.05, seed=2, lam_known=False),
    PolicyScenario(n_arms=5, horizon=90, lam=0.9, seed=3, arm_known=False),
    PolicyScenario(n_arms=4, lam=0.5, seed=4, lam_known=False, arm_known=False),
)
LONG = PolicyScenario(horizon=1500, lam=0.1, seed=5)
FUSED = (*ORDINARY, LONG, PolicyScenario(seed=6, noise_width=0.3))


def with_less_known(*scenarios: PolicyScenario) -> tuple[PolicyScenario, ...]:
    """Add each scenario with lam and with the replenishing arm unknown to the policy."""
    lam_unknown = (evolve(scenario, lam_known=False) for scenario in scenarios)
    arm_unknown = (evolve(scenario, arm_known=False) for scenario in scenarios)
    return (*scenarios, *lam_unknown, *arm_unknown)


# -- playing --------------------------------------------------------------------------------


@frozen(eq=False)
class Answer:
    """What ``ask(limit)`` returned, and the round of its first arm."""

    arms: object
    limit: int
    n_arms: int
    at: int


@frozen(eq=False)
class Game:
    """What was asked, answered and played."""

    answers: list[Answer]
    rounds: Rounds


Limits: TypeAlias = Callable[[int], int]
"""From the rounds left to the limit that is asked with."""


LIMITS: Mapping[str, Limits] = {
    "with all that is left as limit": lambda left: left,
    "one by one": lambda left: 1,
    "a few at a time": lambda left: min(left, 17 * left % 40 + 1),
}
TOGETHER, SINGLY, _ = LIMITS


def build(subject: Subject, scenario: PolicyScenario, global_seed: int = 0) -> Policy:
    """Build the policy that is checked, the global random states set to ``global_seed``."""
    seed_global_random_state(global_seed)
    try:
        return subject.plugins.policy(
            subject.ref, scenario.problem, seed=scenario.seed, **subject.parameters
        )
    except InvalidValueError as error:
        if scenario.required or (scenario.lam_known and scenario.arm_known):
            raise
        raise ScenarioRejectedError(str(error)) from error


AfterTell: TypeAlias = Callable[[FloatArray, FloatArray], object]
"""Sees each array of rewards that was given to tell, and a copy made before."""


def play(
    policy: Policy,
    environment: ReferenceEnvironment,
    n: int,
    limits: Limits = lambda left: left,
    after_tell: AfterTell = lambda given, before: None,
) -> Game:
    """Ask, pull and tell for ``n`` rounds.

    Wrong answers are kept as they are and put right before they are played, so that a
    policy with one fault fails one check.
    """
    answers: list[Answer] = []
    parts: list[Rounds] = []
    n_arms, done = environment.n_arms, 0
    while done < n:
        limit = limits(n - done)
        asked = policy.ask(limit)
        answers.append(Answer(copy.copy(asked), limit, n_arms, done))
        try:
            block = np.asarray(asked).ravel()[:limit].astype(np.int64)
        except (TypeError, ValueError):
            ask_returns_an_array_of_int64(answers[-1])
            raise
        expect.that(block.size > 0, f"1 to {limit} arms from ask({limit})", f"round {done}: none")
        block = np.minimum(np.maximum(block, 0), n_arms - 1)
        outcome = environment.pull(block)
        parts.append(Rounds.of(block, outcome))
        policy.tell(outcome.rewards)
        after_tell(outcome.rewards, parts[-1].rewards)
        done += block.size
    return Game(answers, Rounds.joined(parts))


def play_anew(subject: Subject, scenario: PolicyScenario, how: str = TOGETHER) -> Game:
    """Build a policy and play the whole scenario, asking in one of the ways of ``LIMITS``."""
    policy, environment = build(subject, scenario), scenario.environment()
    return play(policy, environment, scenario.horizon, LIMITS[how])


@lru_cache(KEPT)
def game(subject: Subject, scenario: PolicyScenario, how: str) -> Game:
    """Return what :func:`play_anew` does, kept for other checks."""
    return play_anew(subject, scenario, how)


def arms_of(subject: Subject, scenario: PolicyScenario) -> IntArray:
    """Return the arms that are played when nothing disturbs."""
    return game(subject, scenario, TOGETHER).rounds.arms


SUITE: ConformanceSuite[PolicyScenario] = ConformanceSuite(Kind.POLICY)

policy_checks = SUITE.checks
"""Return the checks of a policy, to be called one by one."""

check_policy = SUITE.check
"""Run every check of a policy; raise one error with all failures."""


# -- what ask returns -----------------------------------------------------------------------


def _answers(subject: Subject, scenario: PolicyScenario) -> Iterator[tuple[Answer]]:
    for how in LIMITS:
        yield from ((answer,) for answer in game(subject, scenario, how).answers)


@SUITE.over_each(_answers, *ORDINARY)
def ask_returns_an_array_of_int64(answer: Answer) -> None:
    """Ask returns a one-dimensional array of int64."""
    expect.array(answer.arms, np.int64, "a one-dimensional array of int64 from ask")


@SUITE.over_each(_answers, *ORDINARY)
def ask_returns_1_to_limit_arms(answer: Answer) -> None:
    """Ask returns at least one arm and never more than the limit."""
    n, limit = np.asarray(answer.arms).size, answer.limit
    expected = f"1 to {limit} arms from ask({limit})"
    expect.that(1 <= n <= limit, expected, f"round {answer.at}: {n} arms")


@SUITE.over_each(_answers, *ORDINARY)
def arms_exist(answer: Answer) -> None:
    """Every arm lies between 0 and K - 1."""
    arms = np.asarray(answer.arms).ravel()
    for at in np.flatnonzero((arms < 0) | (arms >= answer.n_arms))[:1]:
        came = f"round {answer.at + at}: arm {arms[at]}"
        raise PromiseBrokenError(f"arms from 0 to {answer.n_arms - 1}", came)


# -- what the arms depend on ----------------------------------------------------------------


@SUITE.over(*ORDINARY, LONG)
def same_seed_gives_the_same_arms(subject: Subject, scenario: PolicyScenario) -> None:
    """Two policies with the same seed and the same rewards play the same arms."""
    again = play_anew(subject, scenario).rounds.arms
    expect.same(arms_of(subject, scenario), again, "the same arms from the same seed", "arm")


@SUITE.over(*ORDINARY)
def arms_do_not_depend_on_limit(subject: Subject, scenario: PolicyScenario) -> None:
    """Asking for one arm, for some or for all that are left gives the same sequence."""
    for how in LIMITS:
        _assert_same_arms(arms_of(subject, scenario), game(subject, scenario, how), how)


def _assert_same_arms(together: IntArray, other: Game, how: str) -> None:
    expected = f"the same arms asked {TOGETHER} and {how}"
    expect.same(together, other.rounds.arms, expected, "arm")


@SUITE.over(*ORDINARY)
def replaying_its_log_restores_it(subject: Subject, scenario: PolicyScenario) -> None:
    """A policy rebuilt half-way, and given the rewards so far, goes on as the first would."""
    whole = arms_of(subject, scenario)
    half = scenario.horizon // 2
    lost = play(build(subject, scenario), scenario.environment(), half).rounds.arms
    # A random number belongs to its round, so a fresh environment pays the logged rewards again.
    environment, rebuilt = scenario.environment(), build(subject, scenario)
    replayed = play(rebuilt, environment, half).rounds.arms
    expect.same(lost, replayed, "the logged arms again while replaying the log", "arm")
    rest = play(rebuilt, environment, scenario.horizon - half).rounds.arms
    expected = "after a replay, the arms of a policy that was never interrupted"
    expect.same(whole[half:], rest, expected, "arm")


@SUITE.over(*ORDINARY)
def policies_do_not_share_state(subject: Subject, scenario: PolicyScenario) -> None:
    """Two policies that play side by side play what each plays alone."""
    scenarios = (scenario, evolve(scenario, seed=scenario.seed + 1000))
    pair = [(build(subject, s), s.environment()) for s in scenarios]
    turns: tuple[list[IntArray], list[IntArray]] = ([], [])
    for n in _parts(scenario.horizon):
        for turn, (policy, environment) in zip(turns, pair, strict=True):
            turn.append(play(policy, environment, n).rounds.arms)
    for turn, alone in zip(turns, scenarios, strict=True):
        expected = "the same arms alone and side by side with another policy"
        expect.same(arms_of(subject, alone), np.concatenate(turn), expected, "arm")


@SUITE.over(*ORDINARY)
def uses_no_global_random_state(subject: Subject, scenario: PolicyScenario) -> None:
    """All randomness comes from the context; np.random and random are neither read nor moved."""

    def arms(global_seed: int) -> tuple[IntArray]:
        policy = build(subject, scenario, global_seed)
        return (play(policy, scenario.environment(), scenario.horizon).rounds.arms,)

    expect.global_random_state_unused(arms, "arm")


# -- what it does with rewards --------------------------------------------------------------


@SUITE.over(ORDINARY[0])
def config_is_not_changed(subject: Subject, scenario: PolicyScenario) -> None:
    """Building a policy and playing leave its config as it is: others may be built from it."""
    _, config = subject.plugins.resolve(subject.kind, subject.ref, subject.parameters)
    before = _config_text(config)
    policy = build(Subject(subject.kind, config, {}, subject.plugins), scenario)
    play(policy, scenario.environment(), scenario.horizon)
    after = _config_text(config)
    expect.that(after == before, f"the config as it was, {quoted(before)}", quoted(after))


def _config_text(config: AttrsInstance) -> str:
    """Return all values of a config, nested ones and arrays included."""

    def plain(value: object) -> object:
        return value.tolist() if isinstance(value, np.ndarray) else repr(value)

    return json.dumps(asdict(config), default=plain)


@SUITE.over(*ORDINARY)
def tell_does_not_change_rewards(subject: Subject, scenario: PolicyScenario) -> None:
    """Tell leaves the array of rewards as it is."""

    def compare(given: FloatArray, before: FloatArray) -> None:
        expect.same(before, given, "the array of rewards as it was before tell", "reward")

    play(build(subject, scenario), scenario.environment(), scenario.horizon, after_tell=compare)


@SUITE.over(*ORDINARY)
def tell_does_not_keep_rewards(subject: Subject, scenario: PolicyScenario) -> None:
    """What becomes of the array of rewards after tell makes no difference."""

    def overwrite(given: FloatArray, before: FloatArray) -> None:
        given[:] = 1.0 - before

    expected = "the same arms when the array of rewards is overwritten after tell"
    _assert_undisturbed(subject, scenario, build(subject, scenario), overwrite, expected)


def _assert_undisturbed(
    subject: Subject, scenario: PolicyScenario, policy: Policy, after_tell: AfterTell, expected: str
) -> None:
    played = play(policy, scenario.environment(), scenario.horizon, after_tell=after_tell)
    expect.same(arms_of(subject, scenario), played.rounds.arms, expected, "arm")


# -- problems at the edge -------------------------------------------------------------------


def plays(subject: Subject, scenario: PolicyScenario) -> None:
    """It answers every ask as it should, however it is asked."""
    together, singly = (play_anew(subject, scenario, how) for how in (TOGETHER, SINGLY))
    for answer in together.answers + singly.answers:
        ask_returns_an_array_of_int64(answer)
        ask_returns_1_to_limit_arms(answer)
        arms_exist(answer)
    _assert_same_arms(together.rounds.arms, singly, SINGLY)


FAST = PolicyScenario(n_arms=2, lam=0.9)

SUITE.table(
    plays,
    plays_a_single_round=with_less_known(*(PolicyScenario(horizon=1, seed=s) for s in (1, 2))),
    plays_a_single_arm=with_less_known(*(PolicyScenario(n_arms=1, horizon=n) for n in (1, 50))),
    plays_horizons_too_short_to_explore=with_less_known(
        *(PolicyScenario(n_arms=8, horizon=n) for n in (2, 3, 5, 7)),
        *(PolicyScenario(n_arms=2, horizon=n) for n in (2, 3, 6, 12, 25)),
    ),
    plays_at_lam_0=[PolicyScenario(lam=0.0), PolicyScenario(lam=0.0, arm_known=False)],
    plays_at_lam_1=[PolicyScenario(lam=1.0), PolicyScenario(lam=1.0, arm_known=False)],
    plays_without_knowing_lam=[
        evolve(scenario, lam_known=False, required=True)
        for scenario in (PolicyScenario(), evolve(FAST, seed=2))
    ],
    plays_without_knowing_a_replenishing_arm=[
        evolve(scenario, arm_known=False, required=True)
        for scenario in (PolicyScenario(), evolve(FAST, seed=2))
    ],
    plays_when_nothing_pays=with_less_known(PolicyScenario(pays=0.0), evolve(FAST, pays=0.0)),
    plays_when_everything_pays=with_less_known(PolicyScenario(pays=1.0), evolve(FAST, pays=1.0)),
)


# -- optional extras ------------------------------------------------------------------------


@SUITE.over(*ORDINARY)
def diagnostics_are_flat(subject: Subject, scenario: PolicyScenario) -> None:
    """Diagnostics, at any time, are names with scalars, strings or small arrays."""
    policy, environment = build(subject, scenario), scenario.environment()
    show = _diagnostics_of(policy)
    expect.flat(show())
    play(policy, environment, scenario.horizon, after_tell=lambda *_: expect.flat(show()))


@SUITE.over(*ORDINARY)
def diagnostics_change_nothing(subject: Subject, scenario: PolicyScenario) -> None:
    """Asking for diagnostics does not change the arms."""
    policy = build(subject, scenario)
    show = _diagnostics_of(policy)
    show()
    expected = "the same arms with and without a look at diagnostics"
    _assert_undisturbed(subject, scenario, policy, lambda *_: show(), expected)


def _diagnostics_of(policy: object) -> Callable[[], object]:
    if not isinstance(policy, HasDiagnostics):
        raise SkipTest("it shows no diagnostics")
    return policy.diagnostics


@SUITE.over(*FUSED)
def play_equals_ask_and_tell(subject: Subject, scenario: PolicyScenario) -> None:
    """The fused form plays the same arms and brings the same rewards as ask and tell."""
    _assert_fused_equals_asking(subject, scenario, [(True, scenario.horizon)])


@SUITE.over(*FUSED)
def play_mixes_with_ask_and_tell(subject: Subject, scenario: PolicyScenario) -> None:
    """The fused form leaves the policy where ask and tell would; they can take turns."""
    turns = [(index % 3 != 2, n) for index, n in enumerate(_parts(scenario.horizon))]
    _assert_fused_equals_asking(subject, scenario, turns)


def _assert_fused_equals_asking(
    subject: Subject, scenario: PolicyScenario, turns: list[tuple[bool, int]]
) -> None:
    """Play turns of so many rounds, fused or not, and compare with asking one by one."""
    policy, environment = build(subject, scenario), scenario.environment()
    if not isinstance(policy, FusedPolicy):
        raise SkipTest("it has no fused form")
    parts: list[Rounds] = []
    for fused, n in turns:
        if not fused:
            parts.append(play(policy, environment, n).rounds)
            continue
        parts.append(Rounds.fused(environment.open_rounds(n), np.full(n, -1), policy.play))
    asked = game(subject, scenario, SINGLY).rounds
    expect.same_rounds(asked, Rounds.joined(parts), "asked one by one and fused")


def _parts(n: int) -> Iterator[int]:
    """Yield parts of uneven length, short ones first, that add up to ``n``."""
    length = 1
    while n > 0:
        yield min(length, n)
        n -= length
        length = length % 20 + 3
