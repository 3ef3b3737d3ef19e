"""What every policy promises, as named checks."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias
from unittest import SkipTest

import numpy as np
from attrs import evolve, frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework.errors import InvalidValueError
from bdes_framework.interfaces import FusedPolicy, HasDiagnostics, Kind, Policy
from bdes_framework.model.instance import Instance, Problem
from bdes_framework.model.rounds import Record
from bdes_framework.testing.assertions import (
    PromiseBrokenError,
    ScenarioRejectedError,
    assert_array,
    assert_flat,
    assert_global_random_state_unused,
    assert_same,
    assert_that,
    seed_global_random_state,
)
from bdes_framework.testing.checks import ConformanceSuite, Subject
from bdes_framework.testing.reference import ReferenceEnvironment, example_instance


@frozen
class PolicyScenario:
    """A problem to play: what is true, and what the policy is told of it."""

    n_arms: int = 3
    horizon: int = 120
    lam: float = 0.3
    seed: int = 1
    lam_known: bool = True
    arm_known: bool = True
    pays: float | None = None
    """Every pull pays this, if it is given."""
    noise_width: float = 0.0
    may_be_rejected: bool = False
    """Whether a policy is free to raise InvalidValueError when it is built for this."""

    def __str__(self) -> str:
        told = f"lam={self.lam}" + ("" if self.lam_known else " (not told)")
        extras = ["" if self.arm_known else "no replenishing arm told"]
        extras += ["" if self.pays is None else f"every pull pays {self.pays:g}"]
        extras += [f"noise {self.noise_width}" if self.noise_width else ""]
        more = "".join(f", {extra}" for extra in extras if extra)
        return f"K={self.n_arms}, T={self.horizon}, {told}, seed={self.seed}{more}"

    @property
    def problem(self) -> Problem:
        """What the policy is told."""
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
    PolicyScenario(n_arms=2, horizon=200, lam=0.05, seed=2, lam_known=False, may_be_rejected=True),
    PolicyScenario(n_arms=5, horizon=90, lam=0.9, seed=3, arm_known=False, may_be_rejected=True),
    PolicyScenario(
        n_arms=4, lam=0.5, seed=4, lam_known=False, arm_known=False, may_be_rejected=True
    ),
)
LONG = PolicyScenario(horizon=1500, lam=0.1, seed=5)


def and_with_less_known(*scenarios: PolicyScenario) -> tuple[PolicyScenario, ...]:
    """Add each scenario with lam and with the replenishing arm kept from the policy."""
    return (
        *scenarios,
        *(evolve(s, lam_known=False, may_be_rejected=True) for s in scenarios),
        *(evolve(s, arm_known=False, may_be_rejected=True) for s in scenarios),
    )


# -- playing --------------------------------------------------------------------------------


@frozen(eq=False)
class Asked:
    """What a policy answered, and what it was asked."""

    arms: object
    limit: int
    n_arms: int
    at: int
    """The round of the first of these arms."""


@frozen(eq=False)
class Played:
    """What was played, round by round: arrays of shape (T,)."""

    arms: IntArray
    rewards: FloatArray
    means: FloatArray
    probabilities: FloatArray


Limits: TypeAlias = Callable[[int], int]
"""From the rounds left to the limit that is asked with."""


def all_left(left: int) -> int:
    """Ask for everything that is left."""
    return left


def one_by_one(left: int) -> int:
    """Ask for one arm at a time."""
    return 1


def changing(seed: int) -> Limits:
    """Ask with a limit that changes all the time."""
    rng = np.random.default_rng(seed)
    return lambda left: int(rng.integers(1, min(left, 40) + 1))


def build(subject: Subject, scenario: PolicyScenario, global_seed: int = 0) -> Policy:
    """Build the policy that is checked, the global random states set to ``global_seed``."""
    seed_global_random_state(global_seed)
    try:
        return subject.plugins.policy(
            subject.ref, scenario.problem, seed=scenario.seed, **subject.parameters
        )
    except InvalidValueError as error:
        if scenario.may_be_rejected:
            raise ScenarioRejectedError(str(error)) from error
        raise


def _nothing_more(told: FloatArray, copy: FloatArray) -> None:
    pass


def play(
    policy: Policy,
    environment: ReferenceEnvironment,
    n: int,
    *,
    limits: Limits = all_left,
    assertions: Sequence[Callable[[Asked], None]] = (),
    after_tell: Callable[[FloatArray, FloatArray], None] = _nothing_more,
) -> Played:
    """Ask, pull and tell for ``n`` rounds.

    ``after_tell`` sees each array of rewards told, and a copy made before it was. What
    ``assertions`` do not ask for is put right in silence, so that a policy with one fault
    fails one check.
    """
    played = Played(np.empty(n, dtype=np.int64), np.empty(n), np.empty(n), np.empty(n))
    n_arms, done = environment.n_arms, 0
    while done < n:
        limit = limits(n - done)
        asked = policy.ask(limit)
        for assertion in assertions:
            assertion(Asked(asked, limit, n_arms, done))
        block = np.asarray(asked).ravel()[:limit].astype(np.int64)
        assert_that(block.size > 0, f"1 to {limit} arms from ask({limit})", f"round {done}: none")
        block = np.minimum(np.maximum(block, 0), n_arms - 1)
        outcome, here = environment.pull(block), slice(done, done + block.size)
        played.arms[here], played.rewards[here] = block, outcome.rewards
        played.means[here] = played.probabilities[here] = outcome.means
        if outcome.probabilities is not None:
            played.probabilities[here] = outcome.probabilities
        policy.tell(outcome.rewards)
        after_tell(outcome.rewards, played.rewards[here])
        done = here.stop
    return played


def run(
    subject: Subject,
    scenario: PolicyScenario,
    *,
    limits: Limits = all_left,
    assertions: Sequence[Callable[[Asked], None]] = (),
) -> Played:
    """Build a policy and play the whole scenario."""
    policy = build(subject, scenario)
    return play(
        policy, scenario.environment(), scenario.horizon, limits=limits, assertions=assertions
    )


def int64_arrays(asked: Asked) -> None:
    """Assert one-dimensional arrays of int64."""
    assert_array(asked.arms, np.int64, "a one-dimensional array of int64 from ask")


def one_to_limit(asked: Asked) -> None:
    """Assert at least one arm and at most the limit."""
    n, limit = np.asarray(asked.arms).size, asked.limit
    assert_that(
        1 <= n <= limit, f"1 to {limit} arms from ask({limit})", f"round {asked.at}: {n} arms"
    )


def existing_arms(asked: Asked) -> None:
    """Assert arms from 0 to K - 1."""
    arms = np.asarray(asked.arms).ravel()
    wrong = np.flatnonzero((arms < 0) | (arms >= asked.n_arms))
    if wrong.size:
        at = int(wrong[0])
        raise PromiseBrokenError(
            f"arms from 0 to {asked.n_arms - 1}", f"round {asked.at + at}: arm {arms[at]}"
        )


EVERYTHING = (int64_arrays, one_to_limit, existing_arms)


SUITE: ConformanceSuite[PolicyScenario] = ConformanceSuite(Kind.POLICY)

policy_checks = SUITE.checks
"""Return the checks of a policy, to be called one by one."""

check_policy = SUITE.check
"""Run every check of a policy; raise one error with all failures."""


# -- what ask returns -----------------------------------------------------------------------


@SUITE.over(*ORDINARY)
def ask_returns_an_array_of_int64(subject: Subject, scenario: PolicyScenario) -> None:
    """Ask returns a one-dimensional array of int64."""
    for limits in (all_left, one_by_one):
        run(subject, scenario, limits=limits, assertions=[int64_arrays])


@SUITE.over(*ORDINARY)
def ask_returns_1_to_limit_arms(subject: Subject, scenario: PolicyScenario) -> None:
    """Ask returns at least one arm and never more than the limit."""
    for limits in (all_left, one_by_one, changing(scenario.seed)):
        run(subject, scenario, limits=limits, assertions=[one_to_limit])


@SUITE.over(*ORDINARY)
def arms_exist(subject: Subject, scenario: PolicyScenario) -> None:
    """Every arm lies between 0 and K - 1."""
    run(subject, scenario, assertions=[existing_arms])


# -- what the arms depend on ----------------------------------------------------------------


@SUITE.over(*ORDINARY, LONG)
def same_seed_gives_the_same_arms(subject: Subject, scenario: PolicyScenario) -> None:
    """Two policies built with one seed and told the same rewards play the same arms."""
    first, second = run(subject, scenario), run(subject, scenario)
    assert_same(first.arms, second.arms, "the same arms from the same seed", "arm")


@SUITE.over(*ORDINARY)
def arms_do_not_depend_on_limit(subject: Subject, scenario: PolicyScenario) -> None:
    """Asking for one arm, for some or for all that are left gives the same sequence."""
    together = run(subject, scenario)
    for limits, how in ((one_by_one, "one by one"), (changing(scenario.seed), "a few at a time")):
        other = run(subject, scenario, limits=limits)
        expected = f"the same arms asked with all that is left as limit and {how}"
        assert_same(together.arms, other.arms, expected, "arm")


@SUITE.over(*ORDINARY)
def replaying_its_log_restores_it(subject: Subject, scenario: PolicyScenario) -> None:
    """A policy rebuilt half-way, and told the rewards so far, goes on as the first would."""
    whole = run(subject, scenario)
    half = scenario.horizon // 2
    lost = play(build(subject, scenario), scenario.environment(), half)
    # Luck belongs to the round, so a fresh environment pays the logged rewards again.
    environment, rebuilt = scenario.environment(), build(subject, scenario)
    replayed = play(rebuilt, environment, half)
    assert_same(lost.arms, replayed.arms, "the logged arms again while replaying the log", "arm")
    rest = play(rebuilt, environment, scenario.horizon - half)
    expected = "after a replay, the arms of a policy that was never interrupted"
    assert_same(whole.arms[half:], rest.arms, expected, "arm")


@SUITE.over(*ORDINARY)
def policies_do_not_share_state(subject: Subject, scenario: PolicyScenario) -> None:
    """Two policies that play side by side play what each plays alone."""
    other = evolve(scenario, seed=scenario.seed + 1000)
    pair = [(build(subject, s), s.environment()) for s in (scenario, other)]
    turns: tuple[list[IntArray], list[IntArray]] = ([], [])
    for n in _parts(scenario.horizon):
        for turn, (policy, environment) in zip(turns, pair, strict=True):
            turn.append(play(policy, environment, n).arms)
    for turn, alone in zip(turns, (scenario, other), strict=True):
        expected = "the same arms alone and side by side with another policy"
        assert_same(run(subject, alone).arms, np.concatenate(turn), expected, "arm")


@SUITE.over(*ORDINARY)
def uses_no_global_random_state(subject: Subject, scenario: PolicyScenario) -> None:
    """All randomness comes from the context; np.random and random are neither read nor moved."""

    def arms(global_seed: int) -> tuple[IntArray]:
        policy = build(subject, scenario, global_seed)
        return (play(policy, scenario.environment(), scenario.horizon).arms,)

    assert_global_random_state_unused(arms, "arm")


# -- what it does with rewards --------------------------------------------------------------


@SUITE.over(*ORDINARY)
def rewards_told_are_not_changed(subject: Subject, scenario: PolicyScenario) -> None:
    """Tell leaves the array of rewards as it is."""

    def compare(told: FloatArray, copy: FloatArray) -> None:
        assert_same(copy, told, "the array of rewards as it was before tell", "reward")

    play(build(subject, scenario), scenario.environment(), scenario.horizon, after_tell=compare)


@SUITE.over(*ORDINARY)
def rewards_told_are_not_kept(subject: Subject, scenario: PolicyScenario) -> None:
    """What becomes of the array of rewards after tell makes no difference."""

    def overwrite(told: FloatArray, copy: FloatArray) -> None:
        told[:] = 1.0 - copy

    policy, environment = build(subject, scenario), scenario.environment()
    played = play(policy, environment, scenario.horizon, after_tell=overwrite)
    expected = "the same arms when the array of rewards is overwritten after tell"
    assert_same(run(subject, scenario).arms, played.arms, expected, "arm")


# -- problems at the edge -------------------------------------------------------------------


def _plays(subject: Subject, scenario: PolicyScenario) -> None:
    together = run(subject, scenario, assertions=EVERYTHING)
    apart = run(subject, scenario, limits=one_by_one, assertions=EVERYTHING)
    expected = "the same arms asked with all that is left as limit and one by one"
    assert_same(together.arms, apart.arms, expected, "arm")


@SUITE.over(*and_with_less_known(PolicyScenario(horizon=1), PolicyScenario(horizon=1, seed=2)))
def plays_a_single_round(subject: Subject, scenario: PolicyScenario) -> None:
    """It plays a problem of one round."""
    _plays(subject, scenario)


@SUITE.over(
    *and_with_less_known(PolicyScenario(n_arms=1, horizon=1), PolicyScenario(n_arms=1, horizon=50))
)
def plays_a_single_arm(subject: Subject, scenario: PolicyScenario) -> None:
    """It plays a problem of one arm."""
    _plays(subject, scenario)


@SUITE.over(
    *and_with_less_known(
        *(PolicyScenario(n_arms=8, horizon=horizon) for horizon in (2, 3, 5, 7)),
        *(PolicyScenario(n_arms=2, horizon=horizon) for horizon in (2, 3, 6, 12, 25)),
    )
)
def plays_horizons_too_short_to_explore(subject: Subject, scenario: PolicyScenario) -> None:
    """It plays a few rounds, even fewer than there are arms."""
    _plays(subject, scenario)


@SUITE.over(PolicyScenario(lam=0.0), PolicyScenario(lam=0.0, arm_known=False, may_be_rejected=True))
def plays_at_lam_0(subject: Subject, scenario: PolicyScenario) -> None:
    """It plays a problem whose state never moves."""
    _plays(subject, scenario)


@SUITE.over(PolicyScenario(lam=1.0), PolicyScenario(lam=1.0, arm_known=False, may_be_rejected=True))
def plays_at_lam_1(subject: Subject, scenario: PolicyScenario) -> None:
    """It plays a problem whose state forgets all but the last arm."""
    _plays(subject, scenario)


@SUITE.over(
    PolicyScenario(lam_known=False), PolicyScenario(n_arms=2, lam=0.9, seed=2, lam_known=False)
)
def plays_without_knowing_lam(subject: Subject, scenario: PolicyScenario) -> None:
    """It plays when it is not told lam."""
    _plays(subject, scenario)


@SUITE.over(
    PolicyScenario(arm_known=False), PolicyScenario(n_arms=2, lam=0.9, seed=2, arm_known=False)
)
def plays_without_knowing_a_replenishing_arm(subject: Subject, scenario: PolicyScenario) -> None:
    """It plays when it is told no replenishing arm."""
    _plays(subject, scenario)


@SUITE.over(
    *and_with_less_known(PolicyScenario(pays=0.0), PolicyScenario(n_arms=2, lam=0.9, pays=0.0))
)
def plays_when_nothing_pays(subject: Subject, scenario: PolicyScenario) -> None:
    """It plays on when every reward is 0."""
    _plays(subject, scenario)


@SUITE.over(
    *and_with_less_known(PolicyScenario(pays=1.0), PolicyScenario(n_arms=2, lam=0.9, pays=1.0))
)
def plays_when_everything_pays(subject: Subject, scenario: PolicyScenario) -> None:
    """It plays on when every reward is 1."""
    _plays(subject, scenario)


# -- optional extras ------------------------------------------------------------------------


@SUITE.over(*ORDINARY)
def diagnostics_are_flat(subject: Subject, scenario: PolicyScenario) -> None:
    """Diagnostics, at any time, are names with scalars, strings or small arrays."""
    policy = build(subject, scenario)
    show = _diagnostics_of(policy)

    def look(told: FloatArray, copy: FloatArray) -> None:
        assert_flat(show())

    assert_flat(show())
    play(policy, scenario.environment(), scenario.horizon, after_tell=look)


@SUITE.over(*ORDINARY)
def diagnostics_change_nothing(subject: Subject, scenario: PolicyScenario) -> None:
    """Asking for diagnostics does not change the arms."""
    policy = build(subject, scenario)
    show = _diagnostics_of(policy)

    def look(told: FloatArray, copy: FloatArray) -> None:
        show()

    show()
    played = play(policy, scenario.environment(), scenario.horizon, after_tell=look)
    expected = "the same arms with and without a look at diagnostics"
    assert_same(run(subject, scenario).arms, played.arms, expected, "arm")


def _diagnostics_of(policy: object) -> Callable[[], object]:
    if not isinstance(policy, HasDiagnostics):
        raise SkipTest("it shows no diagnostics")
    return policy.diagnostics


FUSED = (*ORDINARY, LONG, PolicyScenario(seed=6, noise_width=0.3))


@SUITE.over(*FUSED)
def play_equals_ask_and_tell(subject: Subject, scenario: PolicyScenario) -> None:
    """The fused form plays the same arms and brings the same rewards as ask and tell."""
    policy, environment = _fused(subject, scenario), scenario.environment()
    fused = _play_fused(policy, environment, scenario.horizon)
    _assert_same_play(run(subject, scenario, limits=one_by_one), fused)


@SUITE.over(*FUSED)
def play_mixes_with_ask_and_tell(subject: Subject, scenario: PolicyScenario) -> None:
    """The fused form leaves the policy where ask and tell would; they can take turns."""
    policy, environment = _fused(subject, scenario), scenario.environment()
    turns: list[Played] = []
    for index, n in enumerate(_parts(scenario.horizon)):
        if index % 3 == 2:
            turns.append(play(policy, environment, n))
        else:
            turns.append(_play_fused(policy, environment, n))
    mixed = Played(
        arms=np.concatenate([turn.arms for turn in turns]),
        rewards=np.concatenate([turn.rewards for turn in turns]),
        means=np.concatenate([turn.means for turn in turns]),
        probabilities=np.concatenate([turn.probabilities for turn in turns]),
    )
    _assert_same_play(run(subject, scenario, limits=one_by_one), mixed)


def _fused(subject: Subject, scenario: PolicyScenario) -> FusedPolicy:
    policy = build(subject, scenario)
    if not isinstance(policy, FusedPolicy):
        raise SkipTest("it has no fused form")
    return policy


def _play_fused(policy: FusedPolicy, environment: ReferenceEnvironment, n: int) -> Played:
    # Filled with what no round can bring, so that rounds not written down show.
    record = Record(np.full(n, -1), *(np.full(n, -1.0) for _ in range(4)))
    world = environment.open_rounds(n)
    policy.play(world, record)
    probabilities = record.probabilities if world.noise.size else record.means
    return Played(record.arms, record.rewards, record.means, probabilities)


def _assert_same_play(asked: Played, fused: Played) -> None:
    same = "asked one by one and fused"
    assert_same(asked.arms, fused.arms, f"the same arms {same}", "arm")
    assert_same(asked.rewards, fused.rewards, f"the same rewards {same}", "reward")
    assert_same(asked.means, fused.means, f"the same expected rewards {same}", "mean")
    assert_same(
        asked.probabilities, fused.probabilities, f"the same probabilities {same}", "probability"
    )


def _parts(n: int) -> Iterator[int]:
    """Yield parts of uneven length, short ones first, that add up to ``n``."""
    length = 1
    while n > 0:
        yield min(length, n)
        n -= length
        length = length % 20 + 3
