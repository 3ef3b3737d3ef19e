"""The likelihood sweep, against plain formulas and finite differences."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework import FloatArray, IntArray

RNG_SEED = 20


def a_log(
    n_arms: int, n: int, lam: float, q0: float = 1.0, seed: int = RNG_SEED
) -> tuple[bdes.Instance, IntArray, FloatArray]:
    rng = np.random.default_rng(seed)
    instance = bdes.Instance(rng.uniform(0.1, 0.9, n_arms), rng.uniform(0.1, 0.9, n_arms), lam, q0)
    arms = rng.integers(0, n_arms, n)
    rewards = (rng.random(n) < instance.expected_rewards(arms)).astype(float)
    return instance, arms, rewards


def plain_value(instance: bdes.Instance, arms: IntArray, rewards: FloatArray) -> float:
    means = instance.expected_rewards(arms)
    return float(np.sum(np.log(np.where(rewards == 1, means, 1 - means))))


def from_vector(vector: FloatArray) -> bdes.Instance:
    n_arms = (vector.size - 2) // 2
    return bdes.Instance(vector[:n_arms], vector[n_arms:-2], vector[-2], vector[-1])


def as_vector(instance: bdes.Instance) -> FloatArray:
    return np.concatenate([instance.r, instance.b, [instance.lam, instance.q0]])


@pytest.mark.parametrize("lam", [0.0, 1e-4, 0.1, 0.7, 1.0])
@pytest.mark.parametrize("n_arms", [1, 3])
def test_value_is_the_sum_of_log_probabilities(n_arms: int, lam: float) -> None:
    instance, arms, rewards = a_log(n_arms, 400, lam, q0=0.8)
    found = bdes.likelihood_of(instance, arms, rewards)
    assert found.value == pytest.approx(plain_value(instance, arms, rewards), rel=1e-12)


def slopes_of(
    function: Callable[[bdes.Instance], FloatArray | float], instance: bdes.Instance
) -> FloatArray:
    """Return the central differences of a function by each parameter."""
    vector, step = as_vector(instance), 1e-6
    ends = [
        (from_vector(vector + move), from_vector(vector - move))
        for move in step * np.eye(vector.size)
    ]
    return np.array([np.subtract(function(up), function(down)) for up, down in ends]) / (2 * step)


@pytest.mark.parametrize("lam", [1e-3, 0.1, 0.7, 0.999])
@pytest.mark.parametrize("n_arms", [1, 3])
def test_score_is_the_slope_of_the_value(n_arms: int, lam: float) -> None:
    instance, arms, rewards = a_log(n_arms, 300, lam, q0=0.8)
    found = bdes.likelihood_of(instance, arms, rewards)
    slopes = slopes_of(lambda at: plain_value(at, arms, rewards), instance)
    np.testing.assert_allclose(found.score, slopes, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("lam", [1e-3, 0.3, 0.95])
def test_information_is_that_of_the_means(lam: float) -> None:
    instance, arms, rewards = a_log(3, 200, lam, q0=0.8)
    found = bdes.likelihood_of(instance, arms, rewards)
    slopes = slopes_of(lambda at: at.expected_rewards(arms), instance)
    means = instance.expected_rewards(arms)
    expected = (slopes / (means * (1 - means))) @ slopes.T
    np.testing.assert_allclose(found.information, expected, rtol=1e-6, atol=1e-4)


def test_information_is_the_variance_of_the_score() -> None:
    instance, arms, _ = a_log(2, 50, 0.3)
    rng = np.random.default_rng(1)
    means = instance.expected_rewards(arms)
    scores = []
    for _ in range(4000):
        rewards = (rng.random(arms.size) < means).astype(float)
        scores.append(bdes.likelihood_of(instance, arms, rewards).score)
    information = bdes.likelihood_of(instance, arms, np.zeros(50)).information
    deviations = np.sqrt(np.diag(information))
    # Sampling error of a correlation matrix of 4,000 draws is about 0.016 an entry.
    scaled = np.cov(np.array(scores).T) / np.outer(deviations, deviations)
    correlations = information / np.outer(deviations, deviations)
    np.testing.assert_allclose(scaled, correlations, atol=0.08)


def test_a_resumed_sweep_equals_one_sweep() -> None:
    instance, arms, rewards = a_log(4, 500, 0.05)
    starts = np.array([0, 120, 121, 400])
    whole = bdes.likelihood_of(instance, arms, rewards, starts)
    state = bdes.fresh_state(4, instance.q0)
    cuts = [0, 1, 120, 250, 400, 500]
    parts = []
    for begin, end in pairwise(cuts):
        inside = starts[(starts >= begin) & (starts < end)] - begin
        parts.append(
            bdes.likelihood_of(instance, arms[begin:end], rewards[begin:end], inside, state)
        )
    assert sum(part.value for part in parts) == pytest.approx(whole.value, rel=1e-12)
    np.testing.assert_allclose(sum(part.score for part in parts), whole.score, rtol=1e-9)
    total = sum(part.information for part in parts)
    np.testing.assert_allclose(total, whole.information, rtol=1e-9)


def test_likelihood_of_users_is_their_sum() -> None:
    instance, arms, rewards = a_log(3, 600, 0.2)
    starts = np.arange(0, 600, 7)
    joint = bdes.likelihood_of(instance, arms, rewards, starts)
    alone = [
        bdes.likelihood_of(instance, arms[s : s + 7], rewards[s : s + 7]) for s in starts.tolist()
    ]
    assert joint.value == pytest.approx(sum(one.value for one in alone), rel=1e-12)
    np.testing.assert_allclose(joint.score, sum(one.score for one in alone), rtol=1e-9)
    total = sum(one.information for one in alone)
    np.testing.assert_allclose(joint.information, total, rtol=1e-9, atol=1e-12)


def test_value_alone_is_the_same_value() -> None:
    instance, arms, rewards = a_log(3, 300, 0.2)
    starts = np.array([0, 100])
    value, last = bdes.sweep_log_likelihood(
        arms, rewards, starts, instance.r, instance.b, instance.lam, instance.q0, instance.q0
    )
    assert value == bdes.likelihood_of(instance, arms, rewards, starts).value
    assert last == instance.state_after(arms[100:])


@pytest.mark.parametrize("n", [1, 7])
@pytest.mark.parametrize("binary", [True, False])
def test_many_instances_give_the_bits_of_each(n: int, binary: bool) -> None:
    _, arms, rewards = a_log(3, 301, 0.2)
    rng = np.random.default_rng(n)
    if not binary:
        rewards = np.where(rng.random(301) < 0.3, rng.random(301), rewards)
    r, b, lam = rng.random((3, n)), rng.random((3, n)), rng.random(n)
    starts, q, totals = rng.random(n), np.empty(n), np.empty(n)
    q[:] = starts
    bdes.sweep_log_likelihoods(arms, rewards, r, b, lam, q, totals)
    for i in range(n):
        at = (r[:, i].copy(), b[:, i].copy(), lam[i], 1.0, starts[i])
        alone = bdes.sweep_log_likelihood(arms, rewards, np.empty(0, np.int64), *at)
        assert alone == (totals[i], q[i])


def test_compact_rows_and_fractions_are_accepted() -> None:
    instance, arms, rewards = a_log(3, 300, 0.2)
    compact = bdes.likelihood_of(instance, arms.astype(np.int16), rewards.astype(np.int8))
    assert compact.value == bdes.likelihood_of(instance, arms, rewards).value
    half = bdes.likelihood_of(instance, arms[:1], np.array([0.5])).value
    mean = instance.r[arms[0]]
    assert half == pytest.approx(0.5 * np.log(mean) + 0.5 * np.log(1 - mean))


@pytest.mark.parametrize(("of_arms", "of_rewards"), [(">i4", "f2"), ("u2", "longdouble")])
def test_numbers_of_any_dtype_are_accepted(of_arms: str, of_rewards: str) -> None:
    instance, arms, rewards = a_log(3, 60, 0.2)
    value = bdes.likelihood_of(instance, arms, rewards).value
    other = bdes.likelihood_of(instance, arms.astype(of_arms), rewards.astype(of_rewards))
    assert other.value == value


def test_lists_and_booleans_are_accepted() -> None:
    instance, arms, rewards = a_log(3, 60, 0.2)
    value = bdes.likelihood_of(instance, arms, rewards, np.array([0, 20])).value
    assert bdes.likelihood_of(instance, arms.tolist(), rewards.tolist(), [0, 20]).value == value
    paid = rewards == 1
    assert bdes.likelihood_of(instance, arms.astype(np.uint8), paid, [0, 20]).value == value
    assert bdes.likelihood_of(instance, [], []).value == 0


@pytest.mark.parametrize(
    ("arms", "rewards", "starts", "message"),
    [
        ([0, 3], [0, 1], None, "arms, row 1: expected a number from 0 to 2, got 3"),
        ([0, -1], [0, 1], None, "arms, row 1"),
        ([0.0, 1.0], [0, 1], None, "arms: expected one whole number per row"),
        ([True, False], [0, 1], None, "arms: expected one whole number per row"),
        ([[0], [1, 2]], [0, 1], None, "arms: expected one whole number per row"),
        ([0, 1], [0], None, "one reward per arm pulled, got 1 for 2"),
        ([0, 1], [0, 5], None, "rewards, row 1: expected a number from 0 to 1, got 5"),
        ([0, 1], [0, np.nan], None, "rewards, row 1"),
        ([0, 1], ["0", "1"], None, "rewards: expected one number per row"),
        ([0, 1], [0, 1], [0, 2], "starts, row 1: expected a number from 0 to 1, got 2"),
        ([0, 1], [0, 1], [1, 0], "starts must increase"),
        ([0, 1], [0, 1], [1, 1], "starts must increase"),
    ],
)
def test_bad_rows_are_rejected(
    arms: list[int], rewards: list[float], starts: list[int] | None, message: str
) -> None:
    instance = bdes.Instance([0.5, 0.5, 0.5], [0.5, 0.5, 0.5], 0.1)
    with pytest.raises(bdes.InvalidValueError, match=message):
        bdes.likelihood_of(instance, arms, rewards, starts)


def test_a_state_of_other_arms_is_rejected() -> None:
    instance, arms, rewards = a_log(3, 10, 0.2)
    with pytest.raises(bdes.InvalidValueError, match=r"must come from fresh_state\(3, q0\)"):
        bdes.likelihood_of(instance, arms, rewards, state=bdes.fresh_state(2, 1.0))
