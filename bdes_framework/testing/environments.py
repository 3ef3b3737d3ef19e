"""Checks of environments."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from unittest import SkipTest

import numpy as np
from attrs import evolve, frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.text import quoted
from bdes_framework.errors import BdesError
from bdes_framework.interfaces import (
    Benchmark,
    Environment,
    FusedEnvironment,
    HasBenchmark,
    HasInstance,
    Kind,
    Outcome,
)
from bdes_framework.model.rounds import sweep_block
from bdes_framework.simulation.regret import allowed_rounding
from bdes_framework.simulation.totals import MAX_REWARD, MIN_REWARD
from bdes_framework.testing import expect
from bdes_framework.testing.checks import KEPT, ConformanceSuite, Subject
from bdes_framework.testing.expect import PromiseBrokenError, Rounds, seed_global_random_state


@frozen
class EnvironmentScenario:
    """How many pulls to make, and with which seed."""

    horizon: int
    seed: int

    def __str__(self) -> str:
        return f"T={self.horizon}, seed={self.seed}"

    def arms(self, n_arms: int) -> IntArray:
        """Return arms to pull, at random: shape (T,)."""
        return np.random.default_rng(self.seed).integers(n_arms, size=self.horizon)


ORDINARY = (EnvironmentScenario(300, 1), EnvironmentScenario(100, 2), EnvironmentScenario(1, 3))
LONG = EnvironmentScenario(2000, 4)
MANY = EnvironmentScenario(20_000, 5)


# -- pulling --------------------------------------------------------------------------------


def build(subject: Subject, scenario: EnvironmentScenario, global_seed: int = 0) -> Environment:
    """Build the environment that is checked, the global random states set to ``global_seed``."""
    seed_global_random_state(global_seed)
    return subject.plugins.environment(subject.ref, seed=scenario.seed, **subject.parameters)


def pull(environment: Environment, blocks: Iterable[IntArray]) -> Rounds:
    """Pull block after block."""
    return Rounds.joined([Rounds.of(block, environment.pull(block.copy())) for block in blocks])


def pull_anew(subject: Subject, scenario: EnvironmentScenario, global_seed: int = 0) -> Rounds:
    """Build an environment and pull all arms in one block."""
    environment = build(subject, scenario, global_seed)
    return pull(environment, [scenario.arms(environment.n_arms)])


@lru_cache(KEPT)
def undisturbed(subject: Subject, scenario: EnvironmentScenario) -> Rounds:
    """Return what :func:`pull_anew` does, kept for other checks."""
    return pull_anew(subject, scenario)


def cut(arms: IntArray, seed: int) -> list[IntArray]:
    """Cut into blocks of uneven length."""
    rng = np.random.default_rng(seed)
    return np.split(arms, np.flatnonzero(rng.random(arms.size - 1) < 0.2) + 1)


SUITE: ConformanceSuite[EnvironmentScenario] = ConformanceSuite(Kind.ENVIRONMENT)

environment_checks = SUITE.checks
"""Return the checks of an environment, to be called one by one."""

check_environment = SUITE.check
"""Run every check of an environment; raise one error with all failures."""


# -- the form of things ---------------------------------------------------------------------


@SUITE.over(EnvironmentScenario(1, 1))
def n_arms_is_a_positive_int(subject: Subject, scenario: EnvironmentScenario) -> None:
    """The number of arms is an int of at least 1, and stays what it is."""
    environment = build(subject, scenario)
    n_arms: object = environment.n_arms
    expected = "n_arms: an int of at least 1"
    expect.that(type(n_arms) is int, expected, f"{quoted(n_arms)} of type {type(n_arms).__name__}")
    expect.that(environment.n_arms >= 1, expected, quoted(n_arms))
    environment.pull(scenario.arms(environment.n_arms))
    expect.that(environment.n_arms == n_arms, f"{n_arms} arms for ever", f"{environment.n_arms}")


def _columns(
    subject: Subject, scenario: EnvironmentScenario
) -> Iterator[tuple[int, str, FloatArray]]:
    """Yield the number of pulls, the name and the values of every column of every outcome."""
    environment = build(subject, scenario)
    for block in cut(scenario.arms(environment.n_arms), scenario.seed):
        outcome: object = environment.pull(block)
        if not isinstance(outcome, Outcome):
            raise PromiseBrokenError("an Outcome from pull", quoted(outcome))
        yield block.size, "rewards", outcome.rewards
        yield block.size, "means", outcome.means
        if outcome.probabilities is not None:
            yield block.size, "probabilities", outcome.probabilities


@SUITE.over_each(_columns, *ORDINARY)
def outcomes_have_one_float64_per_pull(n: int, name: str, column: FloatArray) -> None:
    """Rewards, means and probabilities are arrays of float64, one value per pull."""
    expect.array(column, np.float64, f"{name}: an array of float64, shape ({n},)", n)


@SUITE.over_each(_columns, *ORDINARY)
def outcomes_are_finite(n: int, name: str, column: FloatArray) -> None:
    """No reward, mean or probability is NaN or infinite."""
    expect.all_allowed(column, np.isfinite(column), f"finite {name}")


@SUITE.over_each(_columns, *ORDINARY)
def rewards_lie_in_0_1(n: int, name: str, column: FloatArray) -> None:
    """Rewards and means lie in [0, 1], give or take the rounding of means."""
    if name != "probabilities":
        values = np.asarray(column)
        wrong = (values < MIN_REWARD) | (values > MAX_REWARD)  # not so for NaN, which is not finite
        expect.all_allowed(values, ~wrong, f"{name} in [0, 1]")


@SUITE.over(*ORDINARY)
def probabilities_lie_in_0_1(subject: Subject, scenario: EnvironmentScenario) -> None:
    """Probabilities, where there are any, are clipped to [0, 1]."""
    found = [column for _, name, column in _columns(subject, scenario) if name == "probabilities"]
    if not found:
        raise SkipTest("it gives no probabilities")
    for column in map(np.asarray, found):
        expect.all_allowed(column, (column >= 0) & (column <= 1), "probabilities in [0, 1]")


# -- what rewards depend on -----------------------------------------------------------------


@SUITE.over(*ORDINARY, LONG)
def same_seed_gives_the_same_rewards(subject: Subject, scenario: EnvironmentScenario) -> None:
    """Two environments built with one seed pay the same for the same arms."""
    first, second = undisturbed(subject, scenario), pull_anew(subject, scenario)
    expect.same_rounds(first, second, "from the same seed")


@SUITE.over(*ORDINARY)
def rewards_do_not_depend_on_blocks(subject: Subject, scenario: EnvironmentScenario) -> None:
    """One block, several, or one pull at a time: random numbers belong to the round."""
    whole = undisturbed(subject, scenario)
    arms = whole.arms
    singly = pull(build(subject, scenario), np.split(arms, arms.size))
    expect.same_rounds(whole, singly, "in one block and pull by pull")
    uneven = pull(build(subject, scenario), cut(arms, scenario.seed))
    expect.same_rounds(whole, uneven, "in one block and in several")


@SUITE.over(*ORDINARY)
def environments_do_not_share_state(subject: Subject, scenario: EnvironmentScenario) -> None:
    """Two environments pulled in turns pay what each pays alone."""
    pair = (scenario, evolve(scenario, seed=scenario.seed + 1000))
    environments = [build(subject, each) for each in pair]
    turns: tuple[list[Rounds], list[Rounds]] = ([], [])
    arms = [each.arms(environments[0].n_arms) for each in pair]
    for t in range(scenario.horizon):
        for environment, played, turn in zip(environments, arms, turns, strict=True):
            turn.append(pull(environment, [played[t : t + 1]]))
    for each, played, turn in zip(pair, arms, turns, strict=True):
        alone = pull(build(subject, each), np.split(played, played.size))
        expect.same_rounds(alone, Rounds.joined(turn), "alone and in turns with another")


@SUITE.over(*ORDINARY)
def uses_no_global_random_state(subject: Subject, scenario: EnvironmentScenario) -> None:
    """All randomness comes from the context; np.random and random are neither read nor moved."""

    def rewards(global_seed: int) -> tuple[FloatArray, FloatArray]:
        pulled = pull_anew(subject, scenario, global_seed)
        return pulled.rewards, pulled.means

    expect.global_random_state_unused(rewards, "reward")


# -- what it does with arms -----------------------------------------------------------------


@SUITE.over(*ORDINARY)
def arms_given_are_not_changed(subject: Subject, scenario: EnvironmentScenario) -> None:
    """Pull leaves the array of arms as it is."""
    environment = build(subject, scenario)
    arms = scenario.arms(environment.n_arms)
    given = arms.copy()
    environment.pull(given)
    expect.same(arms, given, "the array of arms as it was before pull", "arm")


@SUITE.over(EnvironmentScenario(5, 1))
def arms_out_of_range_are_rejected(subject: Subject, scenario: EnvironmentScenario) -> None:
    """Pulling an arm that does not exist raises, wherever it stands in the block."""
    n_arms = build(subject, scenario).n_arms
    for wrong in (n_arms, -1):
        for arms in ([wrong], [0, 0, wrong], [wrong, 0]):
            try:
                build(subject, scenario).pull(np.array(arms))
            except (BdesError, ValueError, LookupError):
                continue
            raise PromiseBrokenError(
                f"ValueError or LookupError for arm {wrong} of {n_arms}", f"pull({arms}) was played"
            )


# -- what rewards are worth -----------------------------------------------------------------


@SUITE.over(MANY)
def rewards_agree_with_means(subject: Subject, scenario: EnvironmentScenario) -> None:
    """Over many pulls, each arm pays on average what its probabilities, or means, say.

    Six standard errors, and a little for rewards that are very rare: a fair environment
    fails once in a hundred million seeds.
    """
    pulled = pull_anew(subject, scenario)
    for arm in np.unique(pulled.arms):
        surplus = (pulled.rewards - pulled.probabilities)[pulled.arms == arm]
        rare = 20 * np.abs(surplus).max() / surplus.size
        allowed = 6 * surplus.std() / np.sqrt(surplus.size) + rare + 1e-12
        mean = float(surplus.mean())
        expect.that(
            abs(mean) <= allowed,
            f"arm {arm}: rewards within {allowed:.3g} of their expectation, on average",
            f"{mean:+.3g} over {surplus.size} pulls",
        )


@SUITE.over(*ORDINARY, LONG)
def means_are_those_of_the_instance(subject: Subject, scenario: EnvironmentScenario) -> None:
    """An environment with an instance has its number of arms and its expected rewards."""
    environment = build(subject, scenario)
    if not isinstance(environment, HasInstance):
        raise SkipTest("it is no B-DES instance")
    instance = environment.instance
    expected = f"an instance of {environment.n_arms} arms"
    expect.that(instance.n_arms == environment.n_arms, expected, f"{instance.n_arms} arms")
    arms = scenario.arms(instance.n_arms)
    means = pull(environment, cut(arms, scenario.seed)).means
    expected = "the expected rewards of the instance as means"
    expect.same(instance.expected_rewards(arms), means, expected, "mean", rtol=1e-9)


# -- optional extras ------------------------------------------------------------------------


@SUITE.over(*ORDINARY, LONG)
def open_rounds_equals_pull(subject: Subject, scenario: EnvironmentScenario) -> None:
    """Rounds laid open for a fused policy bring what pulling brings; they can take turns."""
    environment = build(subject, scenario)
    if not isinstance(environment, FusedEnvironment):
        raise SkipTest("it has no fused form")
    arms = scenario.arms(environment.n_arms)
    parts: list[Rounds] = []
    for index, block in enumerate(cut(arms, scenario.seed)):
        if index % 3 == 2:
            parts.append(pull(environment, [block]))
            continue
        parts.append(Rounds.fused(environment.open_rounds(block.size), block, sweep_block))
    whole = undisturbed(subject, scenario)
    expect.same_rounds(whole, Rounds.joined(parts), "pulled and through open_rounds")


@SUITE.over(*ORDINARY)
def benchmark_has_the_right_form(subject: Subject, scenario: EnvironmentScenario) -> None:
    """A benchmark has a finite value for each checkpoint asked for, none above its bound.

    Values rise by 0 to 1 per round.
    """
    environment = build(subject, scenario)
    checkpoints = np.unique(np.array([1, (scenario.horizon + 1) // 2, scenario.horizon]))
    benchmark = _benchmark(environment, checkpoints.copy())
    expect.same(checkpoints, benchmark.checkpoints, "the checkpoints asked for", "checkpoint", "at")
    expect.array(benchmark.values, np.float64, "values: an array of float64, one per checkpoint")
    expect.that(bool(np.isfinite(benchmark.values).all()), "finite values", f"{benchmark.values}")
    expect.that(
        benchmark.upper_bound >= benchmark.value - 1e-9 * abs(benchmark.value),
        f"an upper bound of at least the value, {benchmark.value}",
        f"{benchmark.upper_bound}",
    )
    rises, rounds = np.diff(benchmark.values, prepend=0.0), np.diff(checkpoints, prepend=0)
    rounding = allowed_rounding(benchmark.value)
    expect.all_allowed(
        rises,
        (rises >= -rounding) & (rises <= rounds + rounding),
        "values that rise 0 to 1 a round",
    )


@SUITE.over(*ORDINARY)
def benchmark_changes_no_rewards(subject: Subject, scenario: EnvironmentScenario) -> None:
    """Asking for the benchmark draws none of its random numbers."""
    environment = build(subject, scenario)
    _benchmark(environment, np.array([scenario.horizon]))
    pulled = pull(environment, [scenario.arms(environment.n_arms)])
    expect.same_rounds(undisturbed(subject, scenario), pulled, "with and without its benchmark")


@SUITE.over(*ORDINARY)
def benchmark_is_not_beaten(subject: Subject, scenario: EnvironmentScenario) -> None:
    """The means of no fixed arm, and of no random sequence, add up to more than the upper bound."""
    environment = build(subject, scenario)
    bound = _benchmark(environment, np.array([scenario.horizon])).upper_bound
    sequences = [np.full(scenario.horizon, arm) for arm in range(environment.n_arms)]
    for arms in (*sequences, scenario.arms(environment.n_arms)):
        means = pull(build(subject, scenario), [arms]).means
        expect.that(
            means.sum() <= bound + allowed_rounding(bound),
            f"at most {bound} from any sequence of {scenario.horizon} arms",
            f"{means.sum()} from {np.unique(arms).size} arm(s)",
        )


def _benchmark(environment: Environment, checkpoints: IntArray) -> Benchmark:
    if not isinstance(environment, HasBenchmark):
        raise SkipTest("it brings no benchmark")
    benchmark: object = environment.benchmark(checkpoints)
    if not isinstance(benchmark, Benchmark):
        raise PromiseBrokenError("a Benchmark from benchmark()", quoted(benchmark))
    return benchmark
