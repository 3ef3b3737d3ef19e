"""What every policy promises, as named checks."""

from collections.abc import Callable, Iterator, Mapping
from unittest import SkipTest

import numpy as np
from attrs import evolve

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework.interfaces import FusedPolicy, HasDiagnostics, Kind, Reference
from bdes_framework.model.rounds import Record
from bdes_framework.plugin.plugins import Plugins
from bdes_framework.testing.checks import Check, Promises, Subject, run_all
from bdes_framework.testing.demands import (
    demand_flat,
    demand_no_global_luck,
    demand_same,
)
from bdes_framework.testing.playing import (
    EVERYTHING,
    LONG,
    ORDINARY,
    Played,
    Scenario,
    all_left,
    and_with_less_told,
    build,
    changing,
    existing_arms,
    int64_arrays,
    one_by_one,
    one_to_limit,
    play,
    run,
)
from bdes_framework.testing.reference import ReferenceEnvironment

PROMISES: Promises[Scenario] = Promises(Kind.POLICY)


def policy_checks(
    ref: Reference,
    *,
    plugins: Plugins | None = None,
    expected_failures: Mapping[str, str] | None = None,
    **parameters: object,
) -> tuple[Check, ...]:
    """Return the checks of a policy, to be called one by one.

    Parameters
    ----------
    ref : name, table or config object
        Which policy.
    plugins : Plugins, optional
        Where it is registered; everything installed by default, loaded when a check runs.
    expected_failures : mapping of check name to reason, optional
        Checks this policy is known to fail, such as
        ``{"plays_without_knowing_lam": "needs lam"}``.
    **parameters
        The policy's parameters, if ``ref`` is a name or a table.
    """
    return PROMISES.checks(ref, parameters, plugins, expected_failures)


def check_policy(
    ref: Reference,
    *,
    plugins: Plugins | None = None,
    expected_failures: Mapping[str, str] | None = None,
    **parameters: object,
) -> None:
    """Run every check of a policy; takes what :func:`policy_checks` takes.

    Raises
    ------
    ConformanceError
        If any check fails; tells all that did, and expected failures that passed.
    """
    run_all(PROMISES.checks(ref, parameters, plugins, expected_failures))


# -- what ask returns -----------------------------------------------------------------------


@PROMISES.over(*ORDINARY)
def ask_returns_an_array_of_int64(subject: Subject, scenario: Scenario) -> None:
    """Ask returns a one-dimensional array of int64."""
    for limits in (all_left, one_by_one):
        run(subject, scenario, limits=limits, demands=[int64_arrays])


@PROMISES.over(*ORDINARY)
def ask_returns_1_to_limit_arms(subject: Subject, scenario: Scenario) -> None:
    """Ask returns at least one arm and never more than the limit."""
    for limits in (all_left, one_by_one, changing(scenario.seed)):
        run(subject, scenario, limits=limits, demands=[one_to_limit])


@PROMISES.over(*ORDINARY)
def arms_exist(subject: Subject, scenario: Scenario) -> None:
    """Every arm lies between 0 and K - 1."""
    run(subject, scenario, demands=[existing_arms])


# -- what the arms depend on ----------------------------------------------------------------


@PROMISES.over(*ORDINARY, LONG)
def same_seed_gives_the_same_arms(subject: Subject, scenario: Scenario) -> None:
    """Two policies built with one seed and told the same rewards play the same arms."""
    first, second = run(subject, scenario), run(subject, scenario)
    demand_same(first.arms, second.arms, "the same arms from the same seed", "arm")


@PROMISES.over(*ORDINARY)
def arms_do_not_depend_on_limit(subject: Subject, scenario: Scenario) -> None:
    """Asking for one arm, for some or for all that are left gives the same sequence."""
    together = run(subject, scenario)
    for limits, how in ((one_by_one, "one by one"), (changing(scenario.seed), "a few at a time")):
        other = run(subject, scenario, limits=limits)
        expected = f"the same arms asked with all that is left as limit and {how}"
        demand_same(together.arms, other.arms, expected, "arm")


@PROMISES.over(*ORDINARY)
def replaying_its_log_restores_it(subject: Subject, scenario: Scenario) -> None:
    """A policy rebuilt half-way, and told the rewards so far, goes on as the first would."""
    whole = run(subject, scenario)
    half = scenario.horizon // 2
    lost = play(build(subject, scenario), scenario.environment(), half)
    # Luck belongs to the round, so a fresh environment pays the logged rewards again.
    environment, rebuilt = scenario.environment(), build(subject, scenario)
    replayed = play(rebuilt, environment, half)
    demand_same(lost.arms, replayed.arms, "the logged arms again while replaying the log", "arm")
    rest = play(rebuilt, environment, scenario.horizon - half)
    expected = "after a replay, the arms of a policy that was never interrupted"
    demand_same(whole.arms[half:], rest.arms, expected, "arm")


@PROMISES.over(*ORDINARY)
def policies_do_not_share_state(subject: Subject, scenario: Scenario) -> None:
    """Two policies that play side by side play what each plays alone."""
    other = evolve(scenario, seed=scenario.seed + 1000)
    pair = [(build(subject, s), s.environment()) for s in (scenario, other)]
    turns: tuple[list[IntArray], list[IntArray]] = ([], [])
    for n in _parts(scenario.horizon):
        for turn, (policy, environment) in zip(turns, pair, strict=True):
            turn.append(play(policy, environment, n).arms)
    for turn, alone in zip(turns, (scenario, other), strict=True):
        expected = "the same arms alone and side by side with another policy"
        demand_same(run(subject, alone).arms, np.concatenate(turn), expected, "arm")


@PROMISES.over(*ORDINARY)
def uses_no_global_random_state(subject: Subject, scenario: Scenario) -> None:
    """All luck comes from the context; np.random and random are neither read nor moved."""

    def arms(global_seed: int) -> tuple[IntArray]:
        policy = build(subject, scenario, global_seed)
        return (play(policy, scenario.environment(), scenario.horizon).arms,)

    demand_no_global_luck(arms, "arm")


# -- what it does with rewards --------------------------------------------------------------


@PROMISES.over(*ORDINARY)
def rewards_told_are_not_changed(subject: Subject, scenario: Scenario) -> None:
    """Tell leaves the array of rewards as it is."""

    def compare(told: FloatArray, copy: FloatArray) -> None:
        demand_same(copy, told, "the array of rewards as it was before tell", "reward")

    play(build(subject, scenario), scenario.environment(), scenario.horizon, after_tell=compare)


@PROMISES.over(*ORDINARY)
def rewards_told_are_not_kept(subject: Subject, scenario: Scenario) -> None:
    """What becomes of the array of rewards after tell makes no difference."""

    def overwrite(told: FloatArray, copy: FloatArray) -> None:
        told[:] = 1.0 - copy

    policy, environment = build(subject, scenario), scenario.environment()
    played = play(policy, environment, scenario.horizon, after_tell=overwrite)
    expected = "the same arms when the array of rewards is overwritten after tell"
    demand_same(run(subject, scenario).arms, played.arms, expected, "arm")


# -- problems at the edge -------------------------------------------------------------------


def _plays(subject: Subject, scenario: Scenario) -> None:
    together = run(subject, scenario, demands=EVERYTHING)
    apart = run(subject, scenario, limits=one_by_one, demands=EVERYTHING)
    expected = "the same arms asked with all that is left as limit and one by one"
    demand_same(together.arms, apart.arms, expected, "arm")


@PROMISES.over(*and_with_less_told(Scenario(horizon=1), Scenario(horizon=1, seed=2)))
def plays_a_single_round(subject: Subject, scenario: Scenario) -> None:
    """It plays a problem of one round."""
    _plays(subject, scenario)


@PROMISES.over(*and_with_less_told(Scenario(n_arms=1, horizon=1), Scenario(n_arms=1, horizon=50)))
def plays_a_single_arm(subject: Subject, scenario: Scenario) -> None:
    """It plays a problem of one arm."""
    _plays(subject, scenario)


@PROMISES.over(
    *and_with_less_told(
        *(Scenario(n_arms=8, horizon=horizon) for horizon in (2, 3, 5, 7)),
        *(Scenario(n_arms=2, horizon=horizon) for horizon in (2, 3, 6, 12, 25)),
    )
)
def plays_horizons_too_short_to_explore(subject: Subject, scenario: Scenario) -> None:
    """It plays a few rounds, even fewer than there are arms."""
    _plays(subject, scenario)


@PROMISES.over(Scenario(lam=0.0), Scenario(lam=0.0, arm_known=False, may_be_refused=True))
def plays_at_lam_0(subject: Subject, scenario: Scenario) -> None:
    """It plays a problem whose state never moves."""
    _plays(subject, scenario)


@PROMISES.over(Scenario(lam=1.0), Scenario(lam=1.0, arm_known=False, may_be_refused=True))
def plays_at_lam_1(subject: Subject, scenario: Scenario) -> None:
    """It plays a problem whose state forgets all but the last arm."""
    _plays(subject, scenario)


@PROMISES.over(Scenario(lam_known=False), Scenario(n_arms=2, lam=0.9, seed=2, lam_known=False))
def plays_without_knowing_lam(subject: Subject, scenario: Scenario) -> None:
    """It plays when it is not told lam."""
    _plays(subject, scenario)


@PROMISES.over(Scenario(arm_known=False), Scenario(n_arms=2, lam=0.9, seed=2, arm_known=False))
def plays_without_knowing_a_replenishing_arm(subject: Subject, scenario: Scenario) -> None:
    """It plays when it is told no replenishing arm."""
    _plays(subject, scenario)


@PROMISES.over(*and_with_less_told(Scenario(pays=0.0), Scenario(n_arms=2, lam=0.9, pays=0.0)))
def plays_when_nothing_pays(subject: Subject, scenario: Scenario) -> None:
    """It plays on when every reward is 0."""
    _plays(subject, scenario)


@PROMISES.over(*and_with_less_told(Scenario(pays=1.0), Scenario(n_arms=2, lam=0.9, pays=1.0)))
def plays_when_everything_pays(subject: Subject, scenario: Scenario) -> None:
    """It plays on when every reward is 1."""
    _plays(subject, scenario)


# -- optional extras ------------------------------------------------------------------------


@PROMISES.over(*ORDINARY)
def diagnostics_are_flat(subject: Subject, scenario: Scenario) -> None:
    """Diagnostics, at any time, are names with scalars, strings or small arrays."""
    policy = build(subject, scenario)
    show = _diagnostics_of(policy)

    def look(told: FloatArray, copy: FloatArray) -> None:
        demand_flat(show())

    demand_flat(show())
    play(policy, scenario.environment(), scenario.horizon, after_tell=look)


@PROMISES.over(*ORDINARY)
def diagnostics_change_nothing(subject: Subject, scenario: Scenario) -> None:
    """Asking for diagnostics does not change the arms."""
    policy = build(subject, scenario)
    show = _diagnostics_of(policy)

    def look(told: FloatArray, copy: FloatArray) -> None:
        show()

    show()
    played = play(policy, scenario.environment(), scenario.horizon, after_tell=look)
    expected = "the same arms with and without a look at diagnostics"
    demand_same(run(subject, scenario).arms, played.arms, expected, "arm")


def _diagnostics_of(policy: object) -> Callable[[], object]:
    if not isinstance(policy, HasDiagnostics):
        raise SkipTest("it shows no diagnostics")
    return policy.diagnostics


FUSED = (*ORDINARY, LONG, Scenario(seed=6, noise_width=0.3))


@PROMISES.over(*FUSED)
def play_equals_ask_and_tell(subject: Subject, scenario: Scenario) -> None:
    """The fused form plays the same arms and brings the same rewards as ask and tell."""
    policy, environment = _fused(subject, scenario), scenario.environment()
    fused = _play_fused(policy, environment, scenario.horizon)
    _demand_same_play(run(subject, scenario, limits=one_by_one), fused)


@PROMISES.over(*FUSED)
def play_mixes_with_ask_and_tell(subject: Subject, scenario: Scenario) -> None:
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
    _demand_same_play(run(subject, scenario, limits=one_by_one), mixed)


def _fused(subject: Subject, scenario: Scenario) -> FusedPolicy:
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


def _demand_same_play(asked: Played, fused: Played) -> None:
    same = "asked one by one and fused"
    demand_same(asked.arms, fused.arms, f"the same arms {same}", "arm")
    demand_same(asked.rewards, fused.rewards, f"the same rewards {same}", "reward")
    demand_same(asked.means, fused.means, f"the same expected rewards {same}", "mean")
    demand_same(
        asked.probabilities, fused.probabilities, f"the same probabilities {same}", "probability"
    )


def _parts(n: int) -> Iterator[int]:
    """Yield parts of uneven length, short ones first, that add up to ``n``."""
    length = 1
    while n > 0:
        yield min(length, n)
        n -= length
        length = length % 20 + 3
