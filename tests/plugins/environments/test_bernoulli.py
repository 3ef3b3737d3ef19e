"""The paper's environment: the same luck however pulls are grouped, noise that is clipped."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bdes_framework as bdes
from bdes_framework import (
    ConfigError,
    ContractError,
    InvalidValueError,
    simulate,
)
from bdes_framework.simulation.loop import CHUNK
from tests.support.players import (
    ARMS,
    PLUGINS,
    InTurn,
    Scripted,
    environment,
    script,
)

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
