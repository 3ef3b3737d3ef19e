"""Users with a multiplier each: likelihood by brute force, its gradient, and what is recovered."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bdes_framework as bdes
from bdes_framework.fitting import multiplier
from bdes_framework.fitting.parametrisation import UNKNOWN_RATE, Coordinates
from tests.support.logs import ADS, intervals_of, simulated_log, truth_of

WORLD = bdes.Instance([0.4, 0.3, 0.15], [0.2, 0.6, 1.0], 0.1)


def spread_log(users: int, rows: int, spread: float, seed: int) -> bdes.Log:
    """Return a log of users with log-normal factors on r, arms drawn evenly."""
    rng = np.random.default_rng(seed)
    arms = rng.integers(0, 3, (users, rows))
    factors = np.exp(spread * rng.standard_normal(users) - spread**2 / 2)
    means = np.array([WORLD.expected_rewards(shown) for shown in arms]) * factors[:, None]
    rewards = rng.random(arms.shape) < means
    return bdes.Log(arms.ravel(), rewards.ravel(), np.arange(0, arms.size, rows))


def coordinates_of(log: bdes.Log) -> Coordinates:
    return Coordinates(log.n_arms, UNKNOWN_RATE, 1.0, True, log.plays() > 0)


@pytest.mark.parametrize("sigma", [0.05, 0.3, 0.8])
def test_likelihood_is_the_integral(sigma: float) -> None:
    log = spread_log(users=30, rows=60, spread=0.5, seed=1)
    coordinates = coordinates_of(log)
    theta = np.append(bdes.fit(log).centre, np.log(sigma))
    point = multiplier._point_at(log, coordinates, theta)
    at, z = coordinates.instance(theta[:-1]), np.linspace(-9, 9, 8001)
    factors = np.exp(sigma * z - sigma**2 / 2)
    expected = 0.0
    for begin in log.starts:
        arms = log.arms[begin : begin + 60].astype(np.int64)
        means = at.expected_rewards(arms)[:, None] * factors
        means = np.minimum(means, 5.0)
        paid = log.rewards[begin : begin + 60, None] > 0
        likely = means * (1 + means**16) ** (-1 / 16)
        value = np.where(paid, np.log(likely), np.log1p(-likely)).sum(axis=0) - z**2 / 2
        highest = value.max()
        expected += highest + np.log(np.exp(value - highest).sum() * (z[1] - z[0]))
    expected -= 30 * np.log(2 * np.pi) / 2
    assert point.log_likelihood == pytest.approx(expected, abs=0.02)


@given(st.floats(1e-6, 5.0))
def test_means_saturate_smoothly(mean: float) -> None:
    likely, free = multiplier.saturated(mean)
    assert likely == pytest.approx(mean * (1 + mean**16) ** (-1 / 16), rel=1e-9)
    assert 0 < likely < 1
    above, below = multiplier.saturated(mean * 1.0001)[0], multiplier.saturated(mean / 1.0001)[0]
    assert free == pytest.approx(np.log(above / below) / (2 * np.log(1.0001)), abs=1e-3)


def test_score_is_the_gradient() -> None:
    log = spread_log(users=20, rows=30, spread=0.3, seed=2)
    coordinates = coordinates_of(log)
    at = coordinates.coordinates(truth_of(bdes.Instance([0.45, 0.25, 0.2], [0.3, 0.5, 0.9], 0.15)))
    assert at is not None
    theta = np.append(at, np.log(0.25))
    found = multiplier._point_at(log, coordinates, theta).slope
    for place in range(theta.size):
        step = np.zeros(theta.size)
        step[place] = 1e-5
        above, below = (
            multiplier._point_at(log, coordinates, theta + sign * step).log_likelihood
            for sign in (1, -1)
        )
        assert found[place] == pytest.approx((above - below) / 2e-5, abs=0.02)


def test_users_who_are_alike_have_no_spread() -> None:
    log = simulated_log(ADS, users=300, rows=40, seed=3)
    alike, found = bdes.fit(log), bdes.fit(log, users="multiplier")
    assert found.spread is not None
    assert found.spread < 0.12
    np.testing.assert_allclose(truth_of(found.instance), truth_of(alike.instance), rtol=0.03)
    assert (found.evolving, found.goodness.p_value) == (alike.evolving, alike.goodness.p_value)
    assert alike.spread is None


def test_spread_and_parameters_are_recovered() -> None:
    found = bdes.fit(spread_log(users=600, rows=50, spread=0.3, seed=4), users="multiplier")
    assert found.spread == pytest.approx(0.3, abs=0.05)
    assert found.spread_interval is not None
    assert found.spread_interval[0] < 0.3 < found.spread_interval[1]
    errors = np.sqrt(np.diag(found.covariance))
    assert (np.abs(truth_of(found.instance) - truth_of(WORLD)) < 4 * errors).all()
    assert "users differ" in str(found.summary())


def test_a_multiplier_needs_users() -> None:
    with pytest.raises(bdes.InvalidValueError, match="at least 20 users, the log has 1"):
        bdes.fit(simulated_log(ADS, users=1, rows=100), users="multiplier")


@pytest.mark.slow
def test_intervals_cover_where_users_have_multipliers() -> None:
    truth, held, spreads = truth_of(WORLD), [], []
    for seed in range(300):
        found = bdes.fit(spread_log(200, 50, spread=0.3, seed=1000 + seed), users="multiplier")
        low, high = intervals_of(found).T
        held.append((low <= truth) & (truth <= high))
        assert found.spread_interval is not None
        spreads.append(found.spread_interval[0] <= 0.3 <= found.spread_interval[1])
    # The b of one arm is 1, its boundary, where a normal curve fits worst.
    assert np.mean(held) >= 0.92
    assert np.mean(held, axis=0).min() >= 0.85
    assert np.mean(spreads) >= 0.90
