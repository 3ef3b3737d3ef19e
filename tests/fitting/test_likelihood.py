"""The likelihood sweep, against plain formulas and finite differences."""

from collections.abc import Callable
from itertools import pairwise, product

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework import FloatArray, IntArray


def a_log(
    n_arms: int, n: int, lam: float, q0: float = 1.0
) -> tuple[bdes.Instance, IntArray, FloatArray]:
    rng = np.random.default_rng(20)
    instance = bdes.Instance(rng.uniform(0.1, 0.9, n_arms), rng.uniform(0.1, 0.9, n_arms), lam, q0)
    arms = rng.integers(0, n_arms, n)
    rewards = (rng.random(n) < instance.expected_rewards(arms)).astype(float)
    return instance, arms, rewards


def slopes_of(
    function: Callable[[bdes.Instance], FloatArray | float], at: bdes.Instance
) -> FloatArray:
    """Return the central differences of a function by each parameter."""
    vector, n, step = np.array([*at.r, *at.b, at.lam, at.q0]), at.n_arms, 1e-6

    def value(point: FloatArray) -> FloatArray | float:
        return function(bdes.Instance(point[:n], point[n:-2], point[-2], point[-1]))

    moves = step * np.eye(vector.size)
    differences = [np.subtract(value(vector + move), value(vector - move)) for move in moves]
    return np.array(differences) / (2 * step)


@pytest.mark.parametrize("lam", [0.0, 1e-4, 1e-3, 0.1, 0.3, 0.7, 0.95, 0.999, 1.0])
@pytest.mark.parametrize("n_arms", [1, 3])
def test_likelihood_agrees_with_plain_formulas(n_arms: int, lam: float) -> None:
    instance, arms, rewards = a_log(n_arms, 300, lam, q0=0.8)

    def plain_value(at: bdes.Instance) -> float:
        means = at.expected_rewards(arms)
        return float(np.sum(np.log(np.where(rewards == 1, means, 1 - means))))

    found = bdes.likelihood_of(instance, arms, rewards)
    assert found.value == pytest.approx(plain_value(instance), rel=1e-12)
    if lam in (0, 1):  # no differences at a boundary
        return
    np.testing.assert_allclose(found.score, slopes_of(plain_value, instance), rtol=1e-5, atol=1e-4)
    slopes = slopes_of(lambda at: at.expected_rewards(arms), instance)
    means = instance.expected_rewards(arms)
    expected = (slopes / (means * (1 - means))) @ slopes.T
    np.testing.assert_allclose(found.information, expected, rtol=1e-6, atol=1e-4)


def brute_force(at: bdes.Instance, arms: IntArray, rewards: FloatArray) -> float:
    """Return the log-likelihood of a log: the sum over all ways that unknown rewards may be."""
    unknown = np.flatnonzero(np.isnan(rewards))
    ways = []
    for way in product((0.0, 1.0), repeat=unknown.size):
        filled = rewards.copy()
        filled[unknown] = way
        probability, q = 1.0, at.q0
        for arm, reward in zip(arms.tolist(), filled.tolist(), strict=True):
            mean = at.r[arm] * q
            probability *= mean if reward == 1 else 1 - mean
            q += at.lam * (at.b[arm] - q)
        ways.append(probability)
    return float(np.log(sum(ways)))


@pytest.mark.parametrize("seed", range(5))
def test_unknown_rewards_drop_only_their_factor(seed: int) -> None:
    instance, arms, rewards = a_log(3, 40, 0.2, q0=0.8)
    rng = np.random.default_rng(seed)
    rewards[rng.choice(40, 8, replace=False)] = np.nan
    if seed == 0:
        rewards[[0, -1]] = np.nan
    found = bdes.likelihood_of(instance, arms, rewards)
    assert found.value == pytest.approx(brute_force(instance, arms, rewards), rel=1e-12)
    slopes = slopes_of(lambda at: brute_force(at, arms, rewards), instance)
    np.testing.assert_allclose(found.score, slopes, rtol=1e-6, atol=1e-5)
    known = ~np.isnan(rewards)
    means = instance.expected_rewards(arms)[known]
    by_row = slopes_of(lambda at: at.expected_rewards(arms), instance)[:, known]
    expected = (by_row / (means * (1 - means))) @ by_row.T
    np.testing.assert_allclose(found.information, expected, rtol=1e-6, atol=1e-4)
    # As a log keeps them, and in every other sweep.
    log = bdes.Log(arms, rewards)
    kept = bdes.likelihood_of(instance, log.arms, log.rewards)
    assert kept.value == found.value
    assert np.array_equal(kept.score, found.score)
    assert np.array_equal(kept.information, found.information)
    value, last = bdes.sweep_log_likelihood(
        arms, rewards, log.starts, instance.r, instance.b, instance.lam, instance.q0, instance.q0
    )
    assert (value, last) == (found.value, instance.state_after(arms))
    r, b = (np.repeat(part[:, None], 2, axis=1) for part in (instance.r, instance.b))
    q, totals = np.full(2, instance.q0), np.empty(2)
    bdes.sweep_log_likelihoods(log.arms, log.rewards, r, b, np.full(2, instance.lam), q, totals)
    assert totals.tolist() == [value, value]
    assert q.tolist() == [last, last]


def test_a_log_without_known_rewards_says_nothing() -> None:
    instance, arms, _ = a_log(2, 20, 0.2)
    found = bdes.likelihood_of(instance, arms, np.full(20, np.nan))
    assert found.value == 0
    assert not found.score.any()
    assert not found.information.any()


def test_information_is_the_variance_of_the_score() -> None:
    instance, arms, _ = a_log(2, 50, 0.3)
    rng = np.random.default_rng(1)
    drawn = (rng.random((4000, 50)) < instance.expected_rewards(arms)).astype(float)
    scores = [bdes.likelihood_of(instance, arms, rewards).score for rewards in drawn]
    information = bdes.likelihood_of(instance, arms, np.zeros(50)).information
    scale = np.sqrt(np.outer(np.diag(information), np.diag(information)))
    # Sampling error of a correlation matrix of 4,000 draws is about 0.016 an entry.
    np.testing.assert_allclose(np.cov(np.array(scores).T) / scale, information / scale, atol=0.08)


def assert_adds_up(parts: list[bdes.Likelihood], whole: bdes.Likelihood) -> None:
    value, score, information = (sum(column) for column in zip(*parts, strict=True))
    assert value == pytest.approx(whole.value, rel=1e-12)
    np.testing.assert_allclose(score, whole.score, rtol=1e-9)
    np.testing.assert_allclose(information, whole.information, rtol=1e-9, atol=1e-12)


def test_a_resumed_sweep_equals_one_sweep() -> None:
    instance, arms, rewards = a_log(4, 500, 0.05)
    starts = np.array([0, 120, 121, 400])
    state, parts = bdes.fresh_state(4, instance.q0), []
    for begin, end in pairwise([0, 1, 120, 250, 400, 500]):
        rows, inside = slice(begin, end), starts[(starts >= begin) & (starts < end)] - begin
        parts.append(bdes.likelihood_of(instance, arms[rows], rewards[rows], inside, state))
    assert_adds_up(parts, bdes.likelihood_of(instance, arms, rewards, starts))


def test_likelihood_of_users_is_their_sum() -> None:
    instance, arms, rewards = a_log(3, 600, 0.2)
    starts = np.arange(0, 600, 7)
    users = [slice(start, start + 7) for start in starts.tolist()]
    alone = [bdes.likelihood_of(instance, arms[rows], rewards[rows]) for rows in users]
    assert_adds_up(alone, bdes.likelihood_of(instance, arms, rewards, starts))


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


@pytest.mark.parametrize(
    ("of_arms", "of_rewards"), [("i2", "i1"), (">i4", "f2"), ("u2", "longdouble"), ("u1", "bool")]
)
def test_rows_of_any_type_are_accepted(of_arms: str, of_rewards: str) -> None:
    instance, arms, rewards = a_log(3, 60, 0.2)
    value = bdes.likelihood_of(instance, arms, rewards, np.array([0, 20])).value
    typed = arms.astype(of_arms), rewards.astype(of_rewards)
    assert bdes.likelihood_of(instance, *typed, [0, 20]).value == value
    assert bdes.likelihood_of(instance, arms.tolist(), rewards.tolist(), [0, 20]).value == value
    assert bdes.likelihood_of(instance, [], []).value == 0


def test_a_fraction_is_a_success_of_that_weight() -> None:
    instance = bdes.Instance([0.3], [0.5], 0.2)
    half = bdes.likelihood_of(instance, [0], np.array([0.5])).value
    assert half == pytest.approx(0.5 * np.log(0.3) + 0.5 * np.log(0.7))


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
        ([0, 1], [0, np.inf], None, "rewards, row 1"),
        ([0, 1], [np.nan, -1], None, "rewards, row 1: .*got -1"),
        ([0, 1], np.array([-128, -1], np.int8), None, "rewards, row 1: .*got -1"),
        ([0, 1], [0, -128], None, "rewards, row 1: .*got -128"),
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


def test_rewards_below_zero_are_not_known() -> None:
    """Their pulls move the state; value and score are those of the other rows' factors alone."""
    rng = np.random.default_rng(3)
    arms, rewards = rng.integers(3, size=60), rng.integers(2, size=60).astype(np.float32)
    rewards[::7], rewards[rng.random(60) < 0.3] = 0.25, -1.0
    at = np.array([0.9, 0.3, 0.5, 0.1, 1.0, 0.6, 0.3, 0.8])
    starts = np.array([20, 45])

    def plain(point: FloatArray) -> float:
        r, b, (lam, q0) = point[:3], point[3:6], point[6:]
        total, q = 0.0, q0
        for t, (arm, y) in enumerate(zip(arms, rewards.tolist(), strict=True)):
            q = q0 if t in starts else q
            if y >= 0:
                total += y * np.log(r[arm] * q) + (1 - y) * np.log(1 - r[arm] * q)
            q = q + lam * (b[arm] - q)
        return float(total)

    r, b, (lam, q0) = at[:3].copy(), at[3:6].copy(), at[6:].tolist()
    found = bdes.sweep_likelihood(arms, rewards, starts, r, b, lam, q0)
    value, _ = bdes.sweep_log_likelihood(arms, rewards, starts, r, b, lam, q0, q0)
    assert found.value == pytest.approx(plain(at), rel=1e-12)
    assert value == pytest.approx(found.value, rel=1e-12)
    steps = 1e-6 * np.eye(8)
    slopes = [(plain(at + step) - plain(at - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(found.score, slopes, rtol=1e-5, atol=1e-5)
    known = bdes.sweep_likelihood(
        arms[:1], np.maximum(rewards[:1], 0), starts[:0], r, b, lam, q0
    ).information
    unknown = bdes.sweep_likelihood(arms[:1], -np.ones(1), starts[:0], r, b, lam, q0).information
    assert known.any()
    assert not unknown.any()
    totals, q = np.empty(1), np.full(1, q0)
    bdes.sweep_log_likelihoods(
        arms[:20], rewards[:20], r[:, None], b[:, None], np.full(1, lam), q, totals
    )
    alone, _ = bdes.sweep_log_likelihood(arms[:20], rewards[:20], starts[:0], r, b, lam, q0, q0)
    assert totals[0] == pytest.approx(alone, rel=1e-12)
