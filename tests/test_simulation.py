"""The loop and the paper's environment: same numbers however pulls are grouped or kept."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

import bdes_framework as bdes
from bdes_framework import (
    Benchmark,
    ConfigError,
    ContractError,
    Environment,
    FloatArray,
    Instance,
    IntArray,
    InvalidValueError,
    Outcome,
    Plan,
    Schedule,
    benchmark_of,
    des_regret,
    external_regret,
    log_checkpoints,
    simulate,
)
from bdes_framework.simulation import CHUNK

PLUGINS = bdes.load_plugins()
ARMS = {"r": [0.9, 0.3, 0.5], "b": [0.1, 1.0, 0.5], "lam": 0.3}

NOISE = """
import numpy as np
from attrs import frozen
from bdes_framework import hookimpl

BDES_API_VERSION = 1

@frozen
class Config:
    '''Uniform on [-width, width].'''
    width: float

class Uniform:
    def __init__(self, width):
        self.width = width
    @property
    def sigma(self):
        return self.width
    def sample(self, size, rng):
        return self.width * (2 * rng.random(size) - 1)

@hookimpl
def bdes_register(registrar):
    registrar.noise_model("test-uniform", Config, lambda config, context: Uniform(config.width))
"""


@pytest.fixture(scope="module")
def with_noise(tmp_path_factory: pytest.TempPathFactory) -> bdes.Plugins:
    file: Path = tmp_path_factory.mktemp("noise") / "noise.py"
    file.write_text(NOISE)
    return bdes.load_plugins(modules=[str(file)])


def environment(seed: int = 1, **parameters: object) -> Environment:
    return PLUGINS.environment("bernoulli", seed=seed, **(ARMS | parameters))


@define
class Scripted:
    """Plays a script in blocks of given sizes, and remembers what it was told."""

    script: IntArray
    sizes: list[int]
    told: list[float] = field(factory=list)
    limits: list[int] = field(factory=list)
    _at: int = 0

    def ask(self, limit: int) -> IntArray:
        self.limits.append(limit)
        size = min(self.sizes[len(self.limits) % len(self.sizes)], limit)
        block = self.script[self._at : self._at + size]
        self._at += size
        return block

    def tell(self, rewards: FloatArray) -> None:
        self.told += rewards.tolist()


def script(n: int, n_arms: int = 3) -> IntArray:
    return np.random.default_rng(5).integers(0, n_arms, n)


# -- the environment ------------------------------------------------------------------------


def test_means_follow_the_instance_and_rewards_are_0_or_1() -> None:
    played = environment()
    assert isinstance(played, bdes.HasInstance)
    arms = script(5000)
    outcome = played.pull(arms)
    np.testing.assert_array_equal(outcome.means, played.instance.expected_rewards(arms))
    assert set(outcome.rewards.tolist()) == {0.0, 1.0}
    assert outcome.probabilities is None


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_block_sizes_do_not_change_luck(sizes: list[int]) -> None:
    arms = script(100_000)
    whole = environment().pull(arms)
    pieces, at, parts = environment(), 0, []
    for size in itertools.chain(sizes, [CHUNK + 1, arms.size]):
        if at < arms.size:
            parts.append(pieces.pull(arms[at : at + size]))
        at += size
    np.testing.assert_array_equal(np.concatenate([p.rewards for p in parts]), whole.rewards)
    np.testing.assert_array_equal(np.concatenate([p.means for p in parts]), whole.means)


def test_two_policies_under_one_seed_meet_the_same_luck() -> None:
    fair: dict[str, Any] = {"r": [0.5, 0.5], "b": [1.0, 1.0], "lam": 0.3}
    rewards = [environment(**fair).pull(script(1000, 2) * k).rewards for k in (0, 1)]
    np.testing.assert_array_equal(rewards[0], rewards[1])
    other = environment(seed=2, **fair).pull(script(1000, 2)).rewards
    assert not np.array_equal(rewards[0], other)


@pytest.mark.parametrize("lam", [0.0, 1e-4, 0.3, 1.0])
def test_reward_frequencies_pass_a_chi_square_test(lam: float) -> None:
    """Bin pulls by expected reward; compare the clicks in each bin with what was expected."""
    outcome = environment(lam=lam).pull(script(400_000))
    edges = np.quantile(outcome.means, np.linspace(0, 1, 21)[1:-1])
    bins = np.searchsorted(edges, outcome.means)
    used = [k for k in range(20) if (bins == k).any()]
    statistic = 0.0
    for k in used:
        means, rewards = outcome.means[bins == k], outcome.rewards[bins == k]
        variance = (means * (1 - means)).sum()
        statistic += (rewards.sum() - means.sum()) ** 2 / variance
    # Wilson-Hilferty: the 99.99 % point of chi-square with len(used) degrees of freedom.
    n = len(used)
    assert statistic < n * (1 - 2 / (9 * n) + 3.719 * math.sqrt(2 / (9 * n))) ** 3


def test_extremes_always_pay_or_never_do() -> None:
    arms = np.zeros(1000, dtype=np.int64)
    assert environment(r=[1.0], b=[1.0]).pull(arms).rewards.all()
    assert not environment(r=[0.0], b=[1.0]).pull(arms).rewards.any()
    assert not environment(r=[1.0], b=[1.0], q0=0.0, lam=0.0).pull(arms).rewards.any()


@pytest.mark.parametrize("arms", [[0, 3], [-1], [0] * (CHUNK + 5) + [7]])
def test_the_environment_refuses_arms_that_do_not_exist(arms: list[int]) -> None:
    with pytest.raises(InvalidValueError, match=f"pull {len(arms) - 1} of this block plays arm"):
        environment().pull(np.array(arms))


@pytest.mark.parametrize(
    "wrong", [{"r": [1.2, 0.3, 0.5]}, {"b": [0.1, 1.5, 0.5]}, {"q0": 2.0}, {"lam": -0.1}]
)
def test_only_probabilities_are_simulated(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"\[0, 1\]"):
        environment(**wrong)


def test_noise_of_no_width_changes_nothing(with_noise: bdes.Plugins) -> None:
    arms = script(2000)
    silent = {"use": "test-uniform", "width": 0.0}
    noisy = with_noise.environment("bernoulli", seed=1, **ARMS, noise=silent).pull(arms)
    plain = environment().pull(arms)
    np.testing.assert_array_equal(noisy.rewards, plain.rewards)
    np.testing.assert_array_equal(noisy.probabilities, plain.means)


def test_noise_moves_probabilities_not_states_and_is_clipped(with_noise: bdes.Plugins) -> None:
    arms = script(200_000)
    loud = {"use": "test-uniform", "width": 0.8}
    outcome = with_noise.environment("bernoulli", seed=1, **ARMS, noise=loud).pull(arms)
    plain = environment().pull(arms)
    np.testing.assert_array_equal(outcome.means, plain.means)
    p = outcome.probabilities
    assert p is not None
    assert p.min() == 0.0
    assert p.max() <= 1.0
    # Clipped where q + noise < 0 and nowhere else changed: p / r - q is the noise, within width.
    r = np.array(ARMS["r"])[arms]
    noise = p / r - outcome.means / r
    assert np.abs(noise).max() <= 0.8 + 1e-12
    assert abs(outcome.rewards.mean() - p.mean()) < 4 * 0.5 / math.sqrt(arms.size)


# -- the loop -------------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [1, 7, CHUNK, CHUNK + 1, 3 * CHUNK + 5])
@pytest.mark.parametrize("sizes", [[1], [1, 1, 50], [1000], [10**9]])
def test_a_trace_does_not_depend_on_grouping_or_on_what_is_kept(
    horizon: int, sizes: list[int]
) -> None:
    arms = script(horizon)
    outcome = environment().pull(arms)
    policy = Scripted(arms, sizes)
    trace = simulate(environment(), policy, horizon)
    np.testing.assert_array_equal(trace.arms, arms)
    np.testing.assert_array_equal(trace.rewards, outcome.rewards)
    np.testing.assert_array_equal(trace.means, outcome.means)
    np.testing.assert_array_equal(policy.told, outcome.rewards)
    curves = simulate(environment(), Scripted(arms, [17]), horizon, keep=False)
    assert (curves.arms, curves.rewards, curves.means) == (None, None, None)
    np.testing.assert_array_equal(curves.cumulative_means, trace.cumulative_means)
    np.testing.assert_array_equal(curves.cumulative_rewards, trace.cumulative_rewards)
    np.testing.assert_array_equal(curves.cumulative_states, trace.cumulative_states)
    np.testing.assert_array_equal(curves.counts, np.bincount(arms, minlength=3))


def test_curves_are_the_cumulative_sums_at_the_checkpoints() -> None:
    horizon = CHUNK + 100
    arms = script(horizon)
    played = environment()
    assert isinstance(played, bdes.HasInstance)
    checkpoints = [1, 2, 500, CHUNK, CHUNK + 1, horizon]
    trace = simulate(played, Scripted(arms, [64]), horizon, checkpoints=checkpoints)
    index = np.array(checkpoints) - 1
    assert trace.rewards is not None
    assert trace.means is not None
    np.testing.assert_array_equal(trace.cumulative_rewards, np.cumsum(trace.rewards)[index])
    np.testing.assert_allclose(trace.cumulative_means, np.cumsum(trace.means)[index], rtol=1e-12)
    states = np.cumsum(played.instance.states(arms))[index]
    assert trace.cumulative_states is not None
    np.testing.assert_allclose(trace.cumulative_states, states, rtol=1e-12)
    assert trace.total_reward == trace.rewards.sum()


def test_the_horizon_is_always_a_checkpoint() -> None:
    trace = simulate(environment(), Scripted(script(9), [9]), 9, checkpoints=[2, 4])
    assert trace.checkpoints.tolist() == [2, 4, 9]
    assert simulate(environment(), Scripted(script(9), [9]), 9).checkpoints[-1] == 9


@pytest.mark.parametrize("checkpoints", [[0, 3], [3, 3], [4, 2], [20], [1.5]])
def test_bad_checkpoints_are_refused(checkpoints: list[int]) -> None:
    with pytest.raises(InvalidValueError, match="checkpoints"):
        simulate(environment(), Scripted(script(9), [9]), 9, checkpoints=checkpoints)


@given(st.integers(1, 10**9), st.integers(2, 100))
def test_log_checkpoints_increase_from_1_to_the_horizon(horizon: int, n: int) -> None:
    checkpoints = log_checkpoints(horizon, n)
    assert checkpoints[-1] == horizon
    assert (np.diff(checkpoints) > 0).all()
    assert checkpoints.size <= n
    assert checkpoints[0] == 1


def test_limits_never_exceed_the_rounds_left() -> None:
    policy = Scripted(script(CHUNK + 10), [1000])
    simulate(environment(), policy, CHUNK + 10)
    assert policy.limits[-1] == 10
    assert max(policy.limits) <= CHUNK


class Answer:
    """Behaves for five rounds, then gives a wrong answer."""

    def __init__(self, wrong: object) -> None:
        self._wrong = wrong
        self._rounds = 0

    def ask(self, limit: int) -> IntArray:
        self._rounds += 1
        good = np.zeros(1, dtype=np.int64)
        return good if self._rounds <= 5 else self._wrong  # type: ignore[return-value]

    def tell(self, rewards: FloatArray) -> None:
        pass


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.array([3]), "returned arm 3; arms go from 0 to 2"),
        (np.array([0, -1]), "round 6: ask returned arm -1"),
        (np.array([1.0]), "got array of float64"),
        (np.array([math.nan]), "nan"),
        (np.array([1], dtype=np.int32), "got array of int32"),
        (np.array([[1]]), r"shape \(1, 1\)"),
        (np.empty(0, dtype=np.int64), "1 to 15 arms, got 0"),
        (np.zeros(16, dtype=np.int64), "1 to 15 arms, got 16"),
        ([1], "got list"),
        (None, "got NoneType"),
    ],
)
def test_a_policy_that_breaks_its_contract_is_named_with_round_and_value(
    wrong: object, message: str
) -> None:
    with pytest.raises(ContractError, match=message) as caught:
        simulate(environment(), Answer(wrong), 20)
    assert "policy tests.test_simulation.Answer, round" in str(caught.value)
    if "round 6" not in message:
        assert "round 5" in str(caught.value)


@define
class FaultyEnvironment:
    outcome: Outcome

    @property
    def n_arms(self) -> int:
        return 3

    def pull(self, arms: IntArray) -> Outcome:
        return self.outcome


@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(np.zeros(3), np.zeros(4)),
        Outcome(np.zeros((1, 1)), np.zeros(1)),
        Outcome(np.full(1, math.nan), np.zeros(1)),
        Outcome(np.zeros(4), np.full(4, math.inf)),
    ],
)
def test_an_environment_that_breaks_its_contract_is_named(outcome: Outcome, block: int) -> None:
    with pytest.raises(ContractError, match=r"environment tests.*FaultyEnvironment, round 0"):
        simulate(FaultyEnvironment(outcome), Scripted(script(20), [block]), 20)


@pytest.mark.parametrize("horizon", [0, -1, 1.5, True])
def test_a_bad_horizon_is_refused(horizon: int) -> None:
    with pytest.raises(InvalidValueError, match="horizon"):
        simulate(environment(), Scripted(script(9), [1]), horizon)


@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_one_arm_and_one_round_work(lam: float) -> None:
    single: dict[str, Any] = {"r": [0.5], "b": [0.5], "lam": lam}
    trace = simulate(environment(**single), Scripted(np.zeros(1, dtype=np.int64), [1]), 1)
    assert trace.total_mean == 0.5
    assert trace.counts.tolist() == [1]


# -- regret ---------------------------------------------------------------------------------


class BruteForce:
    """The best of all K^T schedules: a planner nobody needs to trust."""

    def plan(self, instance: Instance, horizon: int) -> Plan:
        schedules = itertools.product(range(instance.n_arms), repeat=horizon)
        best = max(schedules, key=lambda arms: instance.value(list(arms)))
        value = instance.value(list(best))
        return Plan(Schedule.of(list(best)), value, value)


def test_des_regret_is_what_the_best_sequence_would_have_earned_more() -> None:
    instance = Instance([0.9, 0.3, 0.5], [0.1, 1.0, 0.5], 0.3)
    arms = script(8)
    trace = simulate(environment(), Scripted(arms, [3]), 8)
    benchmark = benchmark_of(environment(), trace.checkpoints, BruteForce())
    assert benchmark is not None
    regret = des_regret(trace, benchmark)
    best = max(instance.value(list(s)) for s in itertools.product(range(3), repeat=8))
    assert regret[-1] == pytest.approx(best - instance.value(arms))
    assert regret[-1] > 0
    following_it = Scripted(BruteForce().plan(instance, 8).arms, [8])
    np.testing.assert_allclose(
        des_regret(simulate(environment(), following_it, 8), benchmark), 0, atol=1e-12
    )


def test_external_regret_compares_with_one_arm_on_the_induced_states() -> None:
    instance = Instance([0.9, 0.3, 0.5], [0.1, 1.0, 0.5], 0.3)
    arms = script(300)
    trace = simulate(environment(), Scripted(arms, [300]), 300)
    states = instance.states(arms)
    by_arm = [(r * states).sum() for r in instance.r]
    expected = max(by_arm) - instance.value(arms)
    assert external_regret(trace, instance)[-1] == pytest.approx(expected)


@define
class OtherWorld(FaultyEnvironment):
    """No B-DES instance: every arm pays one half."""

    def pull(self, arms: IntArray) -> Outcome:
        return Outcome(np.full(arms.size, 0.5), np.full(arms.size, 0.5))


class OtherWorldWithBenchmark(OtherWorld):
    def benchmark(self, checkpoints: IntArray) -> Benchmark:
        values = 0.5 * checkpoints.astype(np.float64)
        return Benchmark(checkpoints, values, float(values[-1]))


def test_without_an_instance_regret_is_absent_or_the_environment_s_own() -> None:
    nothing = Outcome(np.empty(0), np.empty(0))
    trace = simulate(OtherWorld(nothing), Scripted(script(9), [4]), 9)
    assert trace.cumulative_states is None
    assert benchmark_of(OtherWorld(nothing), trace.checkpoints, BruteForce()) is None
    with pytest.raises(InvalidValueError, match="brought no states"):
        external_regret(trace, Instance([0.5], [0.5], 0.5))
    own = benchmark_of(OtherWorldWithBenchmark(nothing), trace.checkpoints, None)
    assert own is not None
    np.testing.assert_allclose(des_regret(trace, own), 0)


def test_regret_at_other_checkpoints_is_refused() -> None:
    trace = simulate(environment(), Scripted(script(9), [4]), 9)
    other = Benchmark(np.array([9]), np.array([1.0]), 1.0)
    with pytest.raises(InvalidValueError, match="different checkpoints"):
        des_regret(trace, other)


def test_without_a_planner_there_is_no_benchmark() -> None:
    assert benchmark_of(environment(), np.array([9]), None) is None
