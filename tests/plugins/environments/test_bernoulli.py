"""The paper's environment: the same rewards in blocks of any size, and clipped noise."""

import math
from typing import Any

import numpy as np
import pytest
from attrs import define
from numpy.random import Generator
from scipy.special import chdtri

import bdes_framework as bdes
from bdes_environments.bernoulli import Bernoulli
from bdes_framework import ConfigError, ContractError, InvalidValueError, simulate
from bdes_framework.simulation.loop import CHUNK
from tests.support.players import ARMS, PLUGINS, InTurn, Scripted, environment, script

MISSING = [[0, 3], [-1], [0] * (CHUNK + 5) + [7]]


@define
class WrongNoise:
    """Draws zeros, and from some draw on an array of the wrong form."""

    fault: str
    since: int = 0
    sigma: float = 1.0
    draws: int = 0

    def sample(self, size: int, rng: Generator) -> Any:
        self.draws += 1
        good = np.zeros(size)
        if self.draws <= self.since:
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
        }[self.fault]


def test_long_blocks_cut_anywhere_pay_the_same() -> None:
    arms = script(100_000)
    whole, pieces = environment().pull(arms), environment()
    parts = [pieces.pull(block) for block in np.split(arms, [1, 41, 42, 43 + CHUNK])]
    np.testing.assert_array_equal(np.concatenate([p.rewards for p in parts]), whole.rewards)
    np.testing.assert_array_equal(np.concatenate([p.means for p in parts]), whole.means)
    assert set(whole.rewards.tolist()) == {0.0, 1.0}
    assert whole.probabilities is None


def test_draws_do_not_depend_on_arms() -> None:
    fair: dict[str, Any] = {"r": [0.5, 0.5], "b": [1.0, 1.0], "lam": 0.3}
    rewards = [environment(**fair).pull(script(1000, 2) * k).rewards for k in (0, 1)]
    np.testing.assert_array_equal(rewards[0], rewards[1])
    other = environment(seed=2, **fair).pull(script(1000, 2)).rewards
    assert not np.array_equal(rewards[0], other)


@pytest.mark.parametrize("lam", [0.0, 1e-4, 0.3, 1.0])
def test_rewards_pass_a_chi_square_test(lam: float) -> None:
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
    assert statistic < chdtri(len(used), 1e-4)


def test_extremes_always_pay_or_never_do() -> None:
    arms = np.zeros(1000, dtype=np.int64)
    assert environment(r=[1.0], b=[1.0]).pull(arms).rewards.all()
    assert not environment(r=[0.0], b=[1.0]).pull(arms).rewards.any()
    assert not environment(r=[1.0], b=[1.0], q0=0.0, lam=0.0).pull(arms).rewards.any()


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        *((np.array(a), f"pull {len(a) - 1} of this block plays arm") for a in MISSING),
        (np.array([0.0, 1.0]), r"float64, shape \(2,\)"),
        (np.array([True, False]), r"bool, shape \(2,\)"),
        (np.array(1), r"int64, shape \(\)"),
        (np.array([[0, 1]]), r"int64, shape \(1, 2\)"),
        ([0, 1], "got list"),
        (None, "got NoneType"),
        (np.array([2**63 + 1], dtype=np.uint64), "plays arm -"),
    ],
)
def test_pull_rejects_what_are_no_arms(arms: Any, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        environment().pull(arms)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, ">i8"])
def test_pull_takes_other_integers_and_views(dtype: Any) -> None:
    arms = script(1000)
    expected = environment().pull(arms).rewards
    np.testing.assert_array_equal(environment().pull(arms.astype(dtype)).rewards, expected)
    strided = np.repeat(arms, 2)[::2]
    assert not strided.flags.c_contiguous
    np.testing.assert_array_equal(environment().pull(strided).rewards, expected)


def test_config_is_immutable_and_comparable() -> None:
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


def test_noise_moves_probabilities_not_means() -> None:
    arms = script(200_000)
    outcome = environment(noise={"use": "uniform", "half_width": 0.8}).pull(arms)
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
def test_wrong_noise_models_are_named(fault: str, since: int, fused: bool) -> None:
    noise = WrongNoise(fault, 0 if fused else since)
    rng = np.random.default_rng(1)
    played = Bernoulli(bdes.Instance([0.9, 0.3, 0.5], [0.1, 1.0, 0.5], 0.3), rng, noise, rng)
    late_nan = fault == "nan" and noise.since
    message = "probabilities are not finite" if late_nan else r"model .*\.WrongNoise: sample\(4, "
    with pytest.raises(ContractError, match=message):
        simulate(played, InTurn() if fused else Scripted(script(40), [4]), 40 if not fused else 4)
