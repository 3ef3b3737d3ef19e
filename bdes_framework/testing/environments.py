"""What every environment promises, as named checks."""

from collections.abc import Iterator, Mapping
from unittest import SkipTest

import numpy as np
from attrs import evolve

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
    Reference,
)
from bdes_framework.model.rounds import Record, sweep_block
from bdes_framework.plugin.plugins import Plugins
from bdes_framework.testing.checks import Check, Promises, Subject, run_all
from bdes_framework.testing.demands import (
    BrokenPromiseError,
    demand,
    demand_array,
    demand_no_global_luck,
    demand_same,
)
from bdes_framework.testing.pulling import (
    LONG,
    MANY,
    ORDINARY,
    Pulled,
    Scenario,
    build,
    cut,
    demand_same_pulls,
    joined,
    pull,
    run,
)

PROMISES: Promises[Scenario] = Promises(Kind.ENVIRONMENT)


def environment_checks(
    ref: Reference,
    *,
    plugins: Plugins | None = None,
    expected_failures: Mapping[str, str] | None = None,
    **parameters: object,
) -> tuple[Check, ...]:
    """Return the checks of an environment, to be called one by one.

    Parameters
    ----------
    ref : name, table or config object
        Which environment.
    plugins : Plugins, optional
        Where it is registered; everything installed by default, loaded when a check runs.
    expected_failures : mapping of check name to reason, optional
        Checks this environment is known to fail.
    **parameters
        The environment's parameters, if ``ref`` is a name or a table.
    """
    return PROMISES.checks(ref, parameters, plugins, expected_failures)


def check_environment(
    ref: Reference,
    *,
    plugins: Plugins | None = None,
    expected_failures: Mapping[str, str] | None = None,
    **parameters: object,
) -> None:
    """Run every check of an environment; takes what :func:`environment_checks` takes.

    Raises
    ------
    ConformanceError
        If any check fails; tells all that did, and expected failures that passed.
    """
    run_all(PROMISES.checks(ref, parameters, plugins, expected_failures))


# -- the form of things ---------------------------------------------------------------------


@PROMISES.over(Scenario(1, 1))
def n_arms_is_a_positive_int(subject: Subject, scenario: Scenario) -> None:
    """The number of arms is an int of at least 1, and stays what it is."""
    environment = build(subject, scenario)
    n_arms: object = environment.n_arms
    expected = "n_arms: an int of at least 1"
    demand(type(n_arms) is int, expected, f"{quoted(n_arms)} of type {type(n_arms).__name__}")
    demand(environment.n_arms >= 1, expected, quoted(n_arms))
    environment.pull(scenario.arms(environment.n_arms))
    demand(environment.n_arms == n_arms, f"{n_arms} arms for ever", f"{environment.n_arms}")


@PROMISES.over(*ORDINARY)
def outcomes_have_one_float64_per_pull(subject: Subject, scenario: Scenario) -> None:
    """Rewards, means and probabilities are arrays of float64, one value per pull."""
    for arms, outcome in _outcomes(subject, scenario):
        for name, column in _named_columns(outcome):
            expected = f"{name}: an array of float64, shape ({arms.size},)"
            demand_array(column, np.float64, expected, arms.size)


@PROMISES.over(*ORDINARY)
def outcomes_are_finite(subject: Subject, scenario: Scenario) -> None:
    """No reward, mean or probability is NaN or infinite."""
    for _, outcome in _outcomes(subject, scenario):
        for name, column in _named_columns(outcome):
            values = np.asarray(column, dtype=np.float64).ravel()
            wrong = values[~np.isfinite(values)]
            demand(wrong.size == 0, f"finite {name}", f"{wrong[:1]}")


@PROMISES.over(*ORDINARY)
def probabilities_lie_in_0_1(subject: Subject, scenario: Scenario) -> None:
    """Probabilities, where there are any, are clipped to [0, 1]."""
    for _, outcome in _outcomes(subject, scenario):
        if outcome.probabilities is None:
            raise SkipTest("it gives no probabilities")
        values = np.asarray(outcome.probabilities)
        wrong = values[(values < 0) | (values > 1)]
        demand(wrong.size == 0, "probabilities in [0, 1]", f"{wrong[:1]}")


def _outcomes(subject: Subject, scenario: Scenario) -> Iterator[tuple[IntArray, Outcome]]:
    environment = build(subject, scenario)
    for block in cut(scenario.arms(environment.n_arms), scenario.seed):
        outcome: object = environment.pull(block)
        if not isinstance(outcome, Outcome):
            raise BrokenPromiseError("an Outcome from pull", quoted(outcome))
        yield block, outcome


def _named_columns(outcome: Outcome) -> list[tuple[str, object]]:
    columns: list[tuple[str, object]] = [("rewards", outcome.rewards), ("means", outcome.means)]
    if outcome.probabilities is not None:
        columns.append(("probabilities", outcome.probabilities))
    return columns


# -- what rewards depend on -----------------------------------------------------------------


@PROMISES.over(*ORDINARY, LONG)
def same_seed_gives_the_same_rewards(subject: Subject, scenario: Scenario) -> None:
    """Two environments built with one seed pay the same for the same arms."""
    demand_same_pulls(run(subject, scenario), run(subject, scenario), "from the same seed")


@PROMISES.over(*ORDINARY)
def rewards_do_not_depend_on_blocks(subject: Subject, scenario: Scenario) -> None:
    """One block, several, or one pull at a time: luck belongs to the round."""
    whole = run(subject, scenario)
    arms = scenario.arms(build(subject, scenario).n_arms)
    singly = pull(build(subject, scenario), np.split(arms, arms.size))
    demand_same_pulls(whole, singly, "in one block and pull by pull")
    uneven = pull(build(subject, scenario), cut(arms, scenario.seed))
    demand_same_pulls(whole, uneven, "in one block and in several")


@PROMISES.over(*ORDINARY)
def environments_do_not_share_state(subject: Subject, scenario: Scenario) -> None:
    """Two environments pulled in turns pay what each pays alone."""
    pair = (scenario, evolve(scenario, seed=scenario.seed + 1000))
    environments = [build(subject, each) for each in pair]
    turns: tuple[list[Pulled], list[Pulled]] = ([], [])
    arms = [each.arms(environments[0].n_arms) for each in pair]
    for t in range(scenario.horizon):
        for environment, played, turn in zip(environments, arms, turns, strict=True):
            turn.append(pull(environment, [played[t : t + 1]]))
    for each, played, turn in zip(pair, arms, turns, strict=True):
        alone = pull(build(subject, each), np.split(played, played.size))
        demand_same_pulls(alone, joined(turn), "alone and in turns with another environment")


@PROMISES.over(*ORDINARY)
def uses_no_global_random_state(subject: Subject, scenario: Scenario) -> None:
    """All luck comes from the context; np.random and random are neither read nor moved."""

    def rewards(global_seed: int) -> tuple[FloatArray, FloatArray]:
        environment = build(subject, scenario, global_seed)
        pulled = pull(environment, [scenario.arms(environment.n_arms)])
        return pulled.rewards, pulled.means

    demand_no_global_luck(rewards, "reward")


# -- what it does with arms -----------------------------------------------------------------


@PROMISES.over(*ORDINARY)
def arms_given_are_not_changed(subject: Subject, scenario: Scenario) -> None:
    """Pull leaves the array of arms as it is."""
    environment = build(subject, scenario)
    arms = scenario.arms(environment.n_arms)
    given = arms.copy()
    environment.pull(given)
    demand_same(arms, given, "the array of arms as it was before pull", "arm")


@PROMISES.over(Scenario(5, 1))
def arms_out_of_range_are_refused(subject: Subject, scenario: Scenario) -> None:
    """Pulling an arm that does not exist raises, wherever it stands in the block."""
    n_arms = build(subject, scenario).n_arms
    for wrong in (n_arms, -1):
        for arms in ([wrong], [0, 0, wrong], [wrong, 0]):
            try:
                build(subject, scenario).pull(np.array(arms))
            except (BdesError, ValueError, LookupError):
                continue
            raise BrokenPromiseError(
                f"ValueError or LookupError for arm {wrong} of {n_arms}",
                f"pull({arms}) was played",
            )


# -- what rewards are worth -----------------------------------------------------------------


@PROMISES.over(MANY)
def rewards_agree_with_means(subject: Subject, scenario: Scenario) -> None:
    """Over many pulls, each arm pays on average what its probabilities, or means, say.

    Six standard errors, and a little for rewards that are very rare: a fair environment
    fails once in a hundred million seeds.
    """
    environment = build(subject, scenario)
    arms = scenario.arms(environment.n_arms)
    pulled = pull(environment, [arms])
    for arm in np.unique(arms):
        surplus = (pulled.rewards - pulled.probabilities)[arms == arm]
        rare = 20 * np.abs(surplus).max() / surplus.size
        allowed = 6 * surplus.std() / np.sqrt(surplus.size) + rare + 1e-12
        mean = float(surplus.mean())
        demand(
            abs(mean) <= allowed,
            f"arm {arm}: rewards within {allowed:.3g} of their expectation, on average",
            f"{mean:+.3g} over {surplus.size} pulls",
        )


@PROMISES.over(*ORDINARY, LONG)
def means_are_those_of_the_instance(subject: Subject, scenario: Scenario) -> None:
    """An environment with an instance has its number of arms and its expected rewards."""
    environment = build(subject, scenario)
    if not isinstance(environment, HasInstance):
        raise SkipTest("it is no B-DES instance")
    instance = environment.instance
    expected = f"an instance of {environment.n_arms} arms"
    demand(instance.n_arms == environment.n_arms, expected, f"{instance.n_arms} arms")
    arms = scenario.arms(instance.n_arms)
    means = pull(environment, cut(arms, scenario.seed)).means
    wanted = instance.expected_rewards(arms)
    wrong = np.flatnonzero(~np.isclose(means, wanted, rtol=1e-9, atol=1e-12))
    if wrong.size:
        at = int(wrong[0])
        raise BrokenPromiseError(
            f"the instance's expected reward, {wanted[at]}", f"round {at}: mean {means[at]}"
        )


# -- optional extras ------------------------------------------------------------------------


@PROMISES.over(*ORDINARY, LONG)
def open_rounds_equals_pull(subject: Subject, scenario: Scenario) -> None:
    """Rounds laid open for a fused policy bring what pulling brings; they can take turns."""
    environment = build(subject, scenario)
    if not isinstance(environment, FusedEnvironment):
        raise SkipTest("it has no fused form")
    arms = scenario.arms(environment.n_arms)
    parts: list[Pulled] = []
    for index, block in enumerate(cut(arms, scenario.seed)):
        if index % 3 == 2:
            parts.append(pull(environment, [block]))
            continue
        record = Record(block, *(np.full(block.size, -1.0) for _ in range(4)))
        world = environment.open_rounds(block.size)
        sweep_block(world, record)
        probabilities = record.probabilities if world.noise.size else record.means
        parts.append(Pulled(record.rewards, record.means, probabilities))
    demand_same_pulls(run(subject, scenario), joined(parts), "pulled and through open_rounds")


@PROMISES.over(*ORDINARY)
def benchmark_has_the_right_form(subject: Subject, scenario: Scenario) -> None:
    """A benchmark has a finite value for each checkpoint asked for, none above its bound."""
    environment = build(subject, scenario)
    checkpoints = np.unique(np.array([1, (scenario.horizon + 1) // 2, scenario.horizon]))
    benchmark = _benchmark(environment, checkpoints.copy())
    demand_same(
        checkpoints, benchmark.checkpoints, "the checkpoints asked for", "round", "checkpoint"
    )
    demand_array(benchmark.values, np.float64, "values: an array of float64, one per checkpoint")
    demand(bool(np.isfinite(benchmark.values).all()), "finite values", f"{benchmark.values}")
    demand(
        benchmark.upper_bound >= benchmark.value - 1e-9 * abs(benchmark.value),
        f"an upper bound of at least the value, {benchmark.value}",
        f"{benchmark.upper_bound}",
    )


@PROMISES.over(*ORDINARY)
def benchmark_changes_no_rewards(subject: Subject, scenario: Scenario) -> None:
    """Asking for the benchmark draws none of the environment's luck."""
    environment = build(subject, scenario)
    _benchmark(environment, np.array([scenario.horizon]))
    pulled = pull(environment, [scenario.arms(environment.n_arms)])
    demand_same_pulls(run(subject, scenario), pulled, "with and without a look at the benchmark")


@PROMISES.over(*ORDINARY)
def benchmark_is_not_beaten(subject: Subject, scenario: Scenario) -> None:
    """No fixed arm, and no random sequence, is expected to earn more than the upper bound.

    Means that depend on luck may do so by luck: six standard errors are allowed.
    """
    environment = build(subject, scenario)
    bound = _benchmark(environment, np.array([scenario.horizon])).upper_bound
    sequences = [np.full(scenario.horizon, arm) for arm in range(environment.n_arms)]
    for arms in (*sequences, scenario.arms(environment.n_arms)):
        means = pull(build(subject, scenario), [arms]).means
        allowed = bound + 6 * means.std() * np.sqrt(means.size) + 1e-9 * abs(bound)
        demand(
            means.sum() <= allowed,
            f"at most {bound} from any sequence of {scenario.horizon} arms",
            f"{means.sum()} from {np.unique(arms).size} arm(s)",
        )


def _benchmark(environment: Environment, checkpoints: IntArray) -> Benchmark:
    if not isinstance(environment, HasBenchmark):
        raise SkipTest("it brings no benchmark")
    benchmark: object = environment.benchmark(checkpoints)
    if not isinstance(benchmark, Benchmark):
        raise BrokenPromiseError("a Benchmark from benchmark()", quoted(benchmark))
    return benchmark
