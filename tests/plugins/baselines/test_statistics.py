"""Reference policies over many rounds: known bounds, distributions, and what long runs break."""

import math

import numpy as np
import pytest
from numpy.random import SFC64, Generator

from bdes_baselines.thompson import odds_trial
from bdes_framework import FloatArray, Problem, Trace, load_plugins, simulate

PLUGINS = load_plugins()
NODES, WEIGHTS = np.polynomial.legendre.leggauss(300)


def luck(seed: int) -> Generator:
    return Generator(SFC64(seed))


def run(name: str, r: list[float], horizon: int, seed: int, **parameters: object) -> Trace:
    """Play a stationary instance: at lam = 0 an arm's mean is its r for ever."""
    environment = PLUGINS.environment("bernoulli", seed=seed, r=r, b=[0.5] * len(r), lam=0.0)
    problem = Problem(n_arms=len(r), horizon=horizon)
    policy = PLUGINS.policy({"use": name, **parameters}, problem, seed=seed)
    return simulate(environment, policy, horizon, keep=False)


def mean_regret(name: str, r: list[float], horizon: int, **parameters: object) -> float:
    totals = [run(name, r, horizon, seed, **parameters).total_mean for seed in range(10)]
    return max(r) * horizon - sum(totals) / len(totals)


def test_the_regret_of_ucb1_is_below_the_theorem_s_bound() -> None:
    r, horizon = [0.9, 0.6, 0.5, 0.1], 20_000
    gaps = [max(r) - x for x in r if x < max(r)]
    bound = sum(8 * math.log(horizon) / gap for gap in gaps) + (1 + math.pi**2 / 3) * sum(gaps)
    assert bound < 0.1 * horizon  # else the test would say nothing
    assert 0 < mean_regret("ucb1", r, horizon) < bound


def test_the_regret_of_exp3_is_below_the_theorem_s_bound() -> None:
    r, horizon = [0.9, 0.5, 0.1], 20_000
    bound = 2 * math.sqrt(math.e - 1) * math.sqrt(horizon * len(r) * math.log(len(r)))
    assert bound < 0.1 * horizon
    assert 0 < mean_regret("exp3", r, horizon) < bound


def test_aae_is_left_with_the_best_arm_as_soon_as_its_radius_allows() -> None:
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


@pytest.mark.parametrize(
    ("name", "share"), [("ucb1", 0.8), ("aae", 0.7), ("exp3", 0.7), ("thompson", 0.97)]
)
def test_the_best_arm_is_played_most(name: str, share: float) -> None:
    r, horizon = [0.3, 0.7, 0.5], 20_000
    for seed in range(5):
        counts = run(name, r, horizon, seed).counts
        assert counts[1] > share * horizon


@pytest.mark.parametrize("gamma", [None, 1e-9, 0.1, 1.0])
def test_exp3_s_probabilities_stay_a_distribution_over_a_million_rounds(
    gamma: float | None,
) -> None:
    for r in ([1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]):
        diagnostics = run("exp3", r, 1_000_000, 1, gamma=gamma).diagnostics
        probabilities = np.asarray(diagnostics["probabilities"])
        used = float(np.asarray(diagnostics["gamma"]))
        assert probabilities.sum() == pytest.approx(1, abs=1e-12)
        assert probabilities.min() >= used / 3
        if sum(r) == 1 and used > 1e-4:
            assert probabilities[np.argmax(r)] == pytest.approx(1 - 2 * used / 3, abs=1e-9)


def draw_betas(alpha: float, beta: float, n: int, seed: int) -> FloatArray:
    rng = luck(seed)
    draws: list[float] = []
    while len(draws) < n:
        odds = odds_trial(alpha, beta, rng.random(), rng.random())
        if odds >= 0:
            draws.append(odds / (1 + odds))
    return np.array(draws)


def beta_cdf(alpha: float, beta: float, x: float) -> float:
    """Return the incomplete beta integral by quadrature, from the nearer end."""
    if x > alpha / (alpha + beta):
        return 1 - beta_cdf(beta, alpha, 1 - x)
    norm = math.exp(math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta))
    if alpha >= 3:
        t = x / 2 * (1 + NODES)
        return norm * x / 2 * float(WEIGHTS @ (t ** (alpha - 1) * (1 - t) ** (beta - 1)))
    # Substituting t = y^(1/alpha) takes the singularity away from 0.
    half = math.pow(x, alpha) / 2
    t = (half * (1 + NODES)) ** (1 / alpha)
    return norm / alpha * half * float(WEIGHTS @ (1 - t) ** (beta - 1))


SHAPES = [
    (1.0, 1.0),
    (1.0, 2.0),
    (3.0, 1.0),
    (2.0, 2.0),
    (1.01, 1.3),
    (7.5, 2.25),
    (40.0, 60.0),
    (1.5, 90.0),
    (0.5, 0.5),
    (0.3, 4.0),
    (12.0, 0.7),
    (0.2, 0.9),
]


@pytest.mark.parametrize(("alpha", "beta"), SHAPES)
def test_thompson_s_beta_draws_pass_a_kolmogorov_smirnov_test(alpha: float, beta: float) -> None:
    n = 20_000
    exact = np.array(
        [beta_cdf(alpha, beta, x) for x in np.sort(draw_betas(alpha, beta, n, seed=6)).tolist()]
    )
    steps = np.arange(n + 1) / n
    distance = max(np.abs(exact - steps[1:]).max(), np.abs(exact - steps[:-1]).max())
    assert distance * math.sqrt(n) < 1.63  # the 1 % point


def test_the_quadrature_agrees_with_binomial_sums() -> None:
    # For whole numbers, P(Beta(a, b) <= x) = P(at least a of a + b - 1 tosses succeed).
    for a, b in ((1, 1), (2, 5), (7, 3), (20, 30)):
        n = a + b - 1
        for x in (0.05, 0.3, 0.5, 0.77, 0.95):
            tosses = [math.comb(n, k) * x**k * (1 - x) ** (n - k) for k in range(a, n + 1)]
            assert beta_cdf(a, b, x) == pytest.approx(math.fsum(tosses), abs=1e-9)


@pytest.mark.parametrize("above_one", [True, False])
def test_cheng_s_short_cuts_decide_as_the_full_test_does(above_one: bool) -> None:
    rng = luck(12)
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
def test_thompson_s_beta_draws_have_the_right_moments_at_extreme_counts(
    alpha: float, beta: float
) -> None:
    n = 20_000
    mean = alpha / (alpha + beta)
    deviation = math.sqrt(mean * (1 - mean) / (alpha + beta + 1))
    draws = draw_betas(alpha, beta, n, seed=2)
    assert np.isfinite(draws).all()
    assert (draws.mean() - mean) / deviation == pytest.approx(0, abs=4 / math.sqrt(n))
    assert draws.std() == pytest.approx(deviation, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ucb1", "exp3", "thompson", "discounted-ucb"])
def test_ten_million_rounds_leave_every_diagnostic_finite(name: str) -> None:
    trace = run(name, [0.0, 1.0, 0.999], 10_000_000, 1)
    assert trace.counts.sum() == 10_000_000
    for value in trace.diagnostics.values():
        assert np.isfinite(np.asarray(value)).all()


@pytest.mark.slow
def test_aae_drops_the_best_arm_no_more_often_than_promised() -> None:
    delta, runs = 0.2, 2000
    wrong = sum(
        1 not in np.asarray(run("aae", [0.5, 0.6], 500, s, delta=delta).diagnostics["active"])
        for s in range(runs)
    )
    assert wrong <= delta * runs
