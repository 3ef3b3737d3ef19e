"""Reference policies over many rounds: known bounds, distributions, and what long runs break."""

import math

import numpy as np
import pytest
from scipy.special import betainc

from bdes_baselines.thompson import odds_trial
from bdes_framework import FloatArray, Problem, Trace, simulate
from tests.support.reward_tables import PLUGINS, kolmogorov_p_value, random_generator


def run(name: str, r: list[float], horizon: int, seed: int, **parameters: object) -> Trace:
    """Play a stationary instance: at lam = 0 an arm's mean is its r for ever."""
    environment = PLUGINS.environment("bernoulli", seed=seed, r=r, b=[0.5] * len(r), lam=0.0)
    problem = Problem(n_arms=len(r), horizon=horizon)
    policy = PLUGINS.policy({"use": name, **parameters}, problem, seed=seed)
    return simulate(environment, policy, horizon, keep=False)


def test_regret_is_below_the_theorems_bounds() -> None:
    r, horizon, gaps = [0.9, 0.5, 0.1], 20_000, [0.4, 0.8]
    logarithmic = sum(8 * math.log(horizon) / gap for gap in gaps)
    bounds = {
        "ucb1": logarithmic + (1 + math.pi**2 / 3) * sum(gaps),
        "exp3": 2 * math.sqrt((math.e - 1) * horizon * len(r) * math.log(len(r))),
    }
    for name, bound in bounds.items():
        assert bound < 0.1 * horizon  # else the test would say nothing
        totals = [run(name, r, horizon, seed).total_mean for seed in range(10)]
        assert 0 < max(r) * horizon - sum(totals) / len(totals) < bound


def test_aae_drops_arms_once_its_radius_allows() -> None:
    r, horizon = [0.5, 0.9, 0.2], 20_000
    for seed in range(20):
        diagnostics = run("aae", r, horizon, seed).diagnostics
        assert np.asarray(diagnostics["active"]).tolist() == [1]
        plays = np.asarray(diagnostics["plays"])
        for arm, gap in ((0, 0.4), (2, 0.7)):
            # While every mean is within the radius, an arm is dropped once 4 radii fit its gap.
            n = next(
                n
                for n in range(1, horizon)
                if 4 * math.sqrt(math.log(4 * 3 * n**2 * horizon) / n) <= gap
            )
            assert plays[arm] <= n


@pytest.mark.parametrize("gamma", [None, 1e-9, 0.1, 1.0])
def test_exp3_stays_a_distribution_for_long(gamma: float | None) -> None:
    for r in ([1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]):
        diagnostics = run("exp3", r, 1_000_000, 1, gamma=gamma).diagnostics
        probabilities = np.asarray(diagnostics["probabilities"])
        used = float(np.asarray(diagnostics["gamma"]))
        assert probabilities.sum() == pytest.approx(1, abs=1e-12)
        assert probabilities.min() >= used / 3
        if sum(r) == 1 and used > 1e-4:
            assert probabilities[np.argmax(r)] == pytest.approx(1 - 2 * used / 3, abs=1e-9)


def draw_betas(alpha: float, beta: float, n: int, seed: int) -> FloatArray:
    rng = random_generator(seed)
    draws: list[float] = []
    while len(draws) < n:
        odds = odds_trial(alpha, beta, rng.random(), rng.random())
        if odds >= 0:
            draws.append(odds / (1 + odds))
    return np.array(draws)


SHAPES = [(1.0, 1.0), (1.0, 2.0), (3.0, 1.0), (2.0, 2.0), (1.01, 1.3), (7.5, 2.25)]
SHAPES += [(40.0, 60.0), (1.5, 90.0), (0.5, 0.5), (0.3, 4.0), (12.0, 0.7), (0.2, 0.9)]


@pytest.mark.parametrize(("alpha", "beta"), SHAPES)
def test_beta_draws_pass_kolmogorov_smirnov(alpha: float, beta: float) -> None:
    draws = draw_betas(alpha, beta, 20_000, seed=6)
    assert kolmogorov_p_value(draws, lambda x: np.asarray(betainc(alpha, beta, x))) > 0.01


@pytest.mark.parametrize("above_one", [True, False])
def test_beta_short_cuts_equal_the_full_test(above_one: bool) -> None:
    rng = random_generator(12)
    accepted = 0
    for first, second, x, y in rng.random((50_000, 4)).tolist():
        # The smaller parameter a on one side of 1, the larger up to 100 times that.
        a = 1 + 1 / x - 1e-9 if above_one else x + 1e-9
        b = a * 100**y
        total, z = a + b, first**2 * (1 - second)
        logit = math.log(first / (1 - first))
        if above_one:
            rate = math.sqrt((total - 2) / (2 * a * b - total))
            w = a * math.exp(rate * logit)
            margin = (a * rate + 1) * logit + total * math.log(total / (b + w))
        else:
            w = b * math.exp(min(logit / a, 600))
            margin = total * (math.log(total / (a + w)) + min(logit / a, 600))
        margin -= math.log(4) + math.log(z)
        if abs(margin) > 1e-9:
            assert (odds_trial(a, b, first, second) >= 0) == (margin > 0), (a, b, first, second)
        accepted += margin > 0
    assert 20_000 < accepted < 49_000


@pytest.mark.parametrize(("alpha", "beta"), [(1e8, 3e8), (5e9, 2.0), (1e15, 1e15), (1e-9, 1e-9)])
def test_beta_draws_have_moments_at_extremes(alpha: float, beta: float) -> None:
    n = 20_000
    mean = alpha / (alpha + beta)
    deviation = math.sqrt(mean * (1 - mean) / (alpha + beta + 1))
    draws = draw_betas(alpha, beta, n, seed=2)
    assert np.isfinite(draws).all()
    assert (draws.mean() - mean) / deviation == pytest.approx(0, abs=4 / math.sqrt(n))
    assert draws.std() == pytest.approx(deviation, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ucb1", "exp3", "thompson", "discounted-ucb"])
def test_diagnostics_are_finite_after_10_million(name: str) -> None:
    trace = run(name, [0.0, 1.0, 0.999], 10_000_000, 1)
    assert trace.counts.sum() == 10_000_000
    for value in trace.diagnostics.values():
        assert np.isfinite(np.asarray(value)).all()


@pytest.mark.slow
def test_aae_rarely_drops_the_best_arm() -> None:
    delta, runs = 0.2, 2000
    wrong = sum(
        1 not in np.asarray(run("aae", [0.5, 0.6], 500, s, delta=delta).diagnostics["active"])
        for s in range(runs)
    )
    assert wrong <= delta * runs
