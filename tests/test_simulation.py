"""The loop and the paper's environment: same numbers however pulls are grouped or kept."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import define, evolve, field
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
    Problem,
    Record,
    Schedule,
    World,
    benchmark_of,
    compiled,
    des_regret,
    external_regret,
    log_checkpoints,
    play_round,
    simulate,
)
from bdes_framework.simulation import CHUNK

PLUGINS = bdes.load_plugins()
ARMS = {"r": [0.9, 0.3, 0.5], "b": [0.1, 1.0, 0.5], "lam": 0.3}

NOISE = """
import math
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

@frozen
class WrongConfig:
    fault: str
    since: int = 0

class Wrong:
    sigma = 1.0
    def __init__(self, config):
        self.config, self.draws = config, 0
    def sample(self, size, rng):
        self.draws += 1
        good = np.zeros(size)
        if self.draws <= self.config.since:
            return good
        return {
            "short": good[:-1],
            "long": np.zeros(size + 1),
            "empty": np.empty(0),
            "list": good.tolist(),
            "nothing": None,
            "2-d": good[:, np.newaxis],
            "32 bits": good.astype(np.float32),
            "nan": np.full(size, math.nan),
        }[self.config.fault]

@hookimpl
def bdes_register(registrar):
    registrar.noise_model("test-uniform", Config, lambda config, context: Uniform(config.width))
    registrar.noise_model("test-wrong", WrongConfig, lambda config, context: Wrong(config))
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
    ("arms", "message"),
    [
        (np.array([0.0, 1.0]), r"float64, shape \(2,\)"),
        (np.array([True, False]), r"bool, shape \(2,\)"),
        (np.array(1), r"int64, shape \(\)"),
        (np.array([[0, 1]]), r"int64, shape \(1, 2\)"),
        ([0, 1], "got list"),
        (None, "got NoneType"),
        (np.array([2**63 + 1], dtype=np.uint64), "plays arm -"),
    ],
)
def test_the_environment_refuses_what_are_no_arms(arms: Any, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        environment().pull(arms)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, ">i8"])
def test_other_integers_and_strided_views_are_arms_too(dtype: Any) -> None:
    arms = script(1000)
    expected = environment().pull(arms).rewards
    np.testing.assert_array_equal(environment().pull(arms.astype(dtype)).rewards, expected)
    strided = np.repeat(arms, 2)[::2]
    assert not strided.flags.c_contiguous
    np.testing.assert_array_equal(environment().pull(strided).rewards, expected)


def test_a_config_keeps_what_it_was_given_and_knows_its_like() -> None:
    config = PLUGINS.entry(bdes.Kind.ENVIRONMENT, "bernoulli").config
    r = np.array([0.9, 0.3, 0.5])
    one: Any = config(**(ARMS | {"r": r}))
    r[0] = 0.1
    assert one.r[0] == 0.9
    for values in (one.r, one.b):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 0.1
    assert one == config(**ARMS)
    assert one != config(**(ARMS | {"r": r}))
    assert one != config(**(ARMS | {"b": [0.1, 1.0, 0.4]}))
    assert one != config(**(ARMS | {"lam": 0.4}))
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


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


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("since", [0, 5])
@pytest.mark.parametrize(
    "fault", ["short", "long", "empty", "list", "nothing", "2-d", "32 bits", "nan"]
)
def test_a_noise_model_that_breaks_its_contract_is_named(
    with_noise: bdes.Plugins, fault: str, since: int, fused: bool
) -> None:
    noise = {"use": "test-wrong", "fault": fault, "since": 0 if fused else since}
    played = with_noise.environment("bernoulli", seed=1, **ARMS, noise=noise)
    late_nan = fault == "nan" and noise["since"]
    message = "probabilities are not finite" if late_nan else r"noise model .*\.Wrong: sample\(4, "
    with pytest.raises(ContractError, match=message):
        simulate(played, InTurn() if fused else Scripted(script(40), [4]), 40 if not fused else 4)


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
        (np.array([0, -1]), r"round 6 \(counted from 0\): ask returned arm -1"),
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
    """Pays one half, until it brings something else from some round on."""

    wrong: Any = None
    since: int = 0
    n_arms: Any = 3
    _round: int = 0

    def pull(self, arms: IntArray) -> Outcome:
        self._round += arms.size
        if self._round > self.since:
            return self.wrong(arms.size)  # type: ignore[no-any-return]
        return Outcome(np.full(arms.size, 0.5), np.full(arms.size, 0.5))


def spoilt(n: int) -> FloatArray:
    return np.full(n, math.nan)


WRONG_OUTCOMES: dict[str, Any] = {
    "pull must return an Outcome, got None": lambda n: None,
    "pull must return an Outcome, got 0.5": lambda n: 0.5,
    r"rewards as array of float64, shape \(.,\), got list": lambda n: Outcome([0.5] * n, spoilt(n)),  # type: ignore[arg-type]
    "rewards as .* got array of <U3": lambda n: Outcome(np.full(n, "0.5"), np.zeros(n)),
    "rewards as .* got array of int64": lambda n: Outcome(np.zeros(n, dtype=int), np.zeros(n)),
    r"means as .* shape \(5,\)": lambda n: Outcome(np.zeros(n), np.zeros(5)),
    r"rewards as .* shape \(., 1\)": lambda n: Outcome(np.zeros((n, 1)), np.zeros(n)),
    r"rewards as .* shape \(\)": lambda n: Outcome(np.array(0.5), np.zeros(n)),
    "means as .* got NoneType": lambda n: Outcome(np.zeros(n), None),  # type: ignore[arg-type]
    "rewards are not finite": lambda n: Outcome(spoilt(n), np.zeros(n)),
    "means are not finite": lambda n: Outcome(np.zeros(n), spoilt(n)),
}
WRONG_EXTRAS: dict[str, Any] = {
    "probabilities as .* got list": lambda n: Outcome(np.zeros(n), np.zeros(n), [0.5] * n),  # type: ignore[arg-type]
    r"states as .* shape \(5,\)": lambda n: Outcome(np.zeros(n), np.zeros(n), None, np.zeros(5)),
    "states as .* got str": lambda n: Outcome(np.zeros(n), np.zeros(n), None, "q"),  # type: ignore[arg-type]
    "states are not finite": lambda n: Outcome(np.zeros(n), np.zeros(n), None, spoilt(n)),
    "probabilities are not finite": lambda n: Outcome(np.zeros(n), np.zeros(n), spoilt(n)),
}


@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("message", WRONG_OUTCOMES | WRONG_EXTRAS)
def test_an_environment_that_breaks_its_contract_is_named(message: str, block: int) -> None:
    wrong = (WRONG_OUTCOMES | WRONG_EXTRAS)[message]
    where = r"environment tests\.test_simulation\.FaultyEnvironment, round 0 \(counted from 0\)"
    with pytest.raises(ContractError, match=f"{where}: .*{message}"):
        simulate(FaultyEnvironment(wrong), Scripted(script(20), [block]), 20)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("message", WRONG_OUTCOMES)
def test_an_environment_that_breaks_its_contract_later_is_named_too(
    message: str, block: int, keep: bool
) -> None:
    """After the first blocks, which are looked at more closely, and in the second chunk."""
    late = CHUNK + 40
    faulty = FaultyEnvironment(WRONG_OUTCOMES[message], since=late)
    with pytest.raises(ContractError, match=rf"round {late} \(counted from 0\): .*{message}"):
        simulate(faulty, Scripted(script(late + 8), [block]), late + 8, keep=keep)


@define
class Sometimes:
    """Brings states, or probabilities, in some blocks only."""

    extra: str
    first: bool
    n_arms: int = 3
    _blocks: int = 0

    def pull(self, arms: IntArray) -> Outcome:
        self._blocks += 1
        half = np.full(arms.size, 0.5)
        return Outcome(
            half, half, **({self.extra: half} if (self._blocks < 7) is self.first else {})
        )


@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("extra", ["states", "probabilities"])
def test_states_and_probabilities_come_in_every_round_or_in_none(
    extra: str, first: bool, block: int
) -> None:
    message = rf"round {6 * block} .*: brought {'no ' if first else ''}{extra}"
    with pytest.raises(ContractError, match=message):
        simulate(Sometimes(extra, first), Scripted(script(60), [block]), 60)


@pytest.mark.parametrize("n_arms", [0, -1, True, 2.0, "3", None])
def test_an_environment_needs_a_number_of_arms(n_arms: object) -> None:
    with pytest.raises(ContractError, match=r"FaultyEnvironment: n_arms must be an integer"):
        simulate(FaultyEnvironment(n_arms=n_arms), Scripted(script(9), [1]), 9)


@pytest.mark.parametrize("n_arms", [2, 4])
def test_an_environment_has_as_many_arms_as_its_instance(n_arms: int) -> None:
    class WithInstance(FaultyEnvironment):
        instance: Any = Instance([0.5, 0.5, 0.5], [0.5, 0.5, 0.5], 0.5)

    with pytest.raises(ContractError, match=f"n_arms is {n_arms}, but its instance has 3"):
        simulate(WithInstance(n_arms=n_arms), Scripted(script(9, 2), [1]), 9)
    WithInstance.instance = None
    with pytest.raises(ContractError, match="instance must be an Instance, got None"):
        simulate(WithInstance(), Scripted(script(9, 2), [1]), 9)


def test_numpy_s_integers_are_integers() -> None:
    half = FaultyEnvironment(since=9, n_arms=np.int32(3))
    trace = simulate(half, Scripted(script(9), [1]), np.int64(9))  # type: ignore[arg-type]
    assert type(trace.horizon) is type(trace.n_arms) is int
    problem = Problem(np.int64(3), np.uint8(9), replenishing_arm=np.int16(2))  # type: ignore[arg-type]
    assert problem == Problem(3, 9, replenishing_arm=2)
    assert type(problem.n_arms) is type(problem.horizon) is type(problem.replenishing_arm) is int


# -- the fused loop -------------------------------------------------------------------------


@compiled
def _play_in_turn(world: World, record: Record, wrong_at: int, wrong_arm: int) -> None:
    for t in range(record.arms.size):
        play_round(world, record, t, wrong_arm if t == wrong_at else t % world.r.size)


@compiled
def _play_outside(world: World, record: Record) -> float:
    total = play_round(world, record, -1, 0) + play_round(world, record, record.arms.size, 0)
    return total + play_round(world, record, 10**15, 0)


class InTurn:
    """All arms in turn, compiled; ``spoil`` then changes what was written down."""

    def __init__(self, wrong_at: int = -1, wrong_arm: int = 0, spoil: Any = None) -> None:
        self.wrong = wrong_at, wrong_arm
        self.spoil = spoil

    def ask(self, limit: int) -> IntArray:
        return np.arange(limit) % 3

    def tell(self, rewards: FloatArray) -> None:
        pass

    def play(self, world: World, record: Record) -> None:
        if self.spoil is None:
            _play_in_turn(world, record, *self.wrong)
        else:
            self.spoil(world, record)


@pytest.mark.parametrize("arm", [3, -1, 10**15, -(10**15)])
def test_a_fused_policy_s_arms_are_checked_and_never_crash(arm: int) -> None:
    message = (
        rf"policy tests\.test_simulation\.InTurn, round 7 \(counted from 0\): play wrote arm {arm}"
    )
    with pytest.raises(ContractError, match=message):
        simulate(environment(), InTurn(7, arm), 20)


def test_a_fused_policy_s_later_chunks_are_checked_too() -> None:
    class Late(InTurn):
        chunks = 0

        def play(self, world: World, record: Record) -> None:
            self.chunks += 1
            self.wrong = (5, 3) if self.chunks == 2 else (-1, 0)
            super().play(world, record)

    for keep in (True, False):
        with pytest.raises(ContractError, match=rf"round {CHUNK + 5} .*play wrote arm 3"):
            simulate(environment(), Late(), 2 * CHUNK, keep=keep)


def leave_out_the_last(world: World, record: Record) -> None:
    _play_in_turn(world, record.rounds(0, record.arms.size - 1), -1, 0)


def write_arms_only(world: World, record: Record) -> None:
    record.arms[:] = 0


def play_nothing(world: World, record: Record) -> None:
    _play_outside(world, record)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (leave_out_the_last, r"round 19 .*play wrote arm -1 or no arm"),
        (play_nothing, r"round 0 .*play wrote arm -1 or no arm"),
        (write_arms_only, r"round 0 .*did not call play_round"),
    ],
)
def test_a_fused_policy_that_leaves_rounds_unplayed_is_named(spoil: Any, message: str) -> None:
    for _ in range(2):  # the second time, memory still holds what was played the first time
        simulate(environment(), InTurn(), 20)
        with pytest.raises(ContractError, match=message):
            simulate(environment(), InTurn(spoil=spoil), 20)


def test_a_round_outside_the_block_is_not_played() -> None:
    played = environment()
    assert isinstance(played, bdes.FusedEnvironment)
    world, record = played.open_rounds(20), Record.empty(20)
    for values in record:
        values.fill(7)
    assert _play_outside(world, record) == 0.0
    assert all((values == 7).all() for values in record)
    assert world.q[0] == 1.0


@define
class OpenWorld(FaultyEnvironment):
    """A fused environment whose world is spoilt in its second chunk."""

    spoil: Any = None
    _chunks: int = 0

    def open_rounds(self, n: int) -> Any:
        self._chunks += 1
        half, uniforms = np.full(3, 0.5), np.full(n, 0.5)
        world = World(half, half, 0.5, np.ones(1), uniforms, np.empty(0))
        return world if self._chunks == 1 else self.spoil(world)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda world: None, "must return a World"),
        (lambda world: world._replace(lam="x"), "a number for lam"),
        (lambda world: world._replace(uniforms=np.zeros(4)), r"uniforms .* shape \(9,\), got"),
        (lambda world: world._replace(noise=np.zeros(4)), r"noise .* shape \(4,\)"),
        (lambda world: world._replace(noise=None), "noise .* got NoneType"),
        (lambda world: world._replace(r=np.zeros(2)), r"r as .* shape \(2,\)"),
        (lambda world: world._replace(b=np.zeros(4)), r"b as .* shape \(4,\)"),
        (lambda world: world._replace(q=np.zeros(0)), r"q as .* shape \(0,\)"),
        (lambda world: world._replace(b=[0.5] * 3), "b as .* got list"),
        (lambda world: world._replace(noise=np.zeros(9)), "brought probabilities .* none before"),
        (lambda world: world._replace(q=np.array([math.nan])), "means are not finite"),
    ],
)
def test_a_world_is_checked_before_compiled_code_reads_it(spoil: Any, message: str) -> None:
    where = rf"environment .*OpenWorld, round {CHUNK} \(counted from 0\)"
    with pytest.raises(ContractError, match=f"{where}: .*{message}"):
        simulate(OpenWorld(spoil=spoil), InTurn(), CHUNK + 9)


@pytest.mark.parametrize("horizon", [0, -1, 1.5, True, "9"])
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
    trace = simulate(OtherWorld(), Scripted(script(9), [4]), 9)
    assert trace.cumulative_states is None
    assert benchmark_of(OtherWorld(), trace.checkpoints, BruteForce()) is None
    with pytest.raises(InvalidValueError, match="brought no states"):
        external_regret(trace, Instance([0.5], [0.5], 0.5))
    own = benchmark_of(OtherWorldWithBenchmark(), trace.checkpoints, None)
    assert own is not None
    np.testing.assert_allclose(des_regret(trace, own), 0)


def test_regret_at_other_checkpoints_is_refused() -> None:
    trace = simulate(environment(), Scripted(script(9), [4]), 9)
    other = Benchmark(np.array([9]), np.array([1.0]), 1.0)
    with pytest.raises(InvalidValueError, match="different checkpoints"):
        des_regret(trace, other)


@define
class Promises:
    """A planner that always plays arm 0, and says of it what it likes."""

    pulls: int = 0
    arm: int = 0
    value: Any = 0.0
    bound: Any = 100.0
    nothing: bool = False

    def plan(self, instance: Instance, horizon: int) -> Any:
        arms = [self.arm] * (horizon + self.pulls)
        earned = instance.value([0] * horizon)
        plan = Plan(Schedule.of(arms), earned, self.bound)
        if not isinstance(self.value, float):
            plan = evolve(plan, value=self.value)
        elif self.value:
            plan = evolve(plan, value=earned * self.value)
        return None if self.nothing else plan


@pytest.mark.parametrize(
    ("planner", "message"),
    [
        (Promises(nothing=True), "expected a Plan with a Schedule, got None"),
        (Promises(pulls=1), "the plan for 9 rounds has a schedule of 10 pulls"),
        (Promises(pulls=-1), "the plan for 9 rounds has a schedule of 8 pulls"),
        (Promises(arm=3), "plays arm 3; arms go from 0 to 2"),
        (Promises(value=1 + 1e-5), "says its value is .*, but its schedule earns"),
        (Promises(value=1 - 1e-5), "says its value is .*, but its schedule earns"),
        (Promises(value=math.nan), "says its value is nan"),
        (Promises(value="much"), "must be numbers, got 'much'"),
        (Promises(value=None), "must be numbers, got None"),
        (Promises(bound=1.0), r"upper bound 1\.0 is below its value"),
        (Promises(bound=math.nan), "upper bound nan is below"),
    ],
)
def test_a_plan_that_is_not_what_it_says_is_refused(planner: Promises, message: str) -> None:
    where = r"planner tests\.test_simulation\.Promises: "
    with pytest.raises(ContractError, match=where + ".*" + message):
        benchmark_of(environment(), np.array([3, 9]), planner)


@pytest.mark.parametrize("planner", [Promises(value=1 + 1e-8), Promises(bound=math.inf)])
def test_a_plan_may_be_off_by_rounding_and_prove_nothing(planner: Promises) -> None:
    benchmark = benchmark_of(environment(), np.array([3, 9]), planner)
    assert benchmark is not None
    assert benchmark.value == planner.plan(Instance(**ARMS), 9).value  # type: ignore[arg-type]


def test_without_a_planner_there_is_no_benchmark() -> None:
    assert benchmark_of(environment(), np.array([9]), None) is None
