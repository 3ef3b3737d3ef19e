"""exp3p and wide-ucb against their definitions, and every policy fused against asking."""

import math

import numpy as np
import pytest
from numpy.random import default_rng

from bdes_framework import InvalidValueError, Problem
from bdes_policies.exp3p import Exp3p, rates
from tests.support.fused import (
    LAMS,
    NOISES,
    POLICIES,
    Case,
    Pieces,
    assert_same_diagnostics,
    environment,
    fused,
    play_in_pieces,
    policy_for,
)
from tests.support.noiseless import PLUGINS, array, build, diagnostics_of

# -- EXP3.P ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_arms", "horizon"), [(2, 400), (4, 300), (1, 50), (6, 5)])
def test_exp3p_draws_as_defined(n_arms: int, horizon: int) -> None:
    delta, rng = 0.2, default_rng(3)
    eta = 0.95 * math.sqrt(math.log(n_arms) / (n_arms * horizon))
    gamma = min(1.0, 1.05 * math.sqrt(n_arms * math.log(n_arms) / horizon))
    beta = math.sqrt(math.log(n_arms / delta) / (n_arms * horizon))
    policy = Exp3p(n_arms, rates(n_arms, horizon, delta), default_rng(3))
    rewards = default_rng(5).random((horizon, n_arms))
    gains = [0.0] * n_arms
    for t in range(horizon):
        weights = [math.exp(eta * gain) for gain in gains]
        p = [(1 - gamma) * w / math.fsum(weights) + gamma / n_arms for w in weights]
        np.testing.assert_allclose(array(policy.diagnostics(), "probabilities"), p, rtol=1e-10)
        draw = rng.random()
        drawn = min(int(np.searchsorted(np.cumsum(p), draw, side="right")), n_arms - 1)
        (arm,) = policy.ask(1).tolist()
        assert arm == drawn
        reward = float(rewards[t, arm])
        for i in range(n_arms):
            gains[i] += ((reward if i == arm else 0.0) + beta) / p[i]
        policy.tell(np.array([reward]))


def test_exp3p_shows_its_parameters() -> None:
    shown = diagnostics_of(build("exp3p", Problem(5, 1000), delta=0.1))
    assert shown["eta"] == pytest.approx(0.95 * math.sqrt(math.log(5) / 5000))
    assert shown["gamma"] == pytest.approx(1.05 * math.sqrt(5 * math.log(5) / 1000))
    assert shown["beta"] == pytest.approx(math.sqrt(math.log(50) / 5000))
    assert diagnostics_of(build("exp3p", Problem(50, 3)))["gamma"] == 1.0


def test_exp3p_does_not_overflow_in_long_runs() -> None:
    # eta·G alone passes 790 here, beyond what exp can take.
    horizon = 2_000_000
    world = PLUGINS.environment("bernoulli", seed=1, r=[1.0, 0.0], b=[1.0, 1.0], lam=0.0)
    policy = fused(build("exp3p", Problem(2, horizon)))
    arms, rewards = play_in_pieces(policy, world, [(True, horizon)])
    p = array(diagnostics_of(policy), "probabilities")
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    # The bonus beta/p of the arm that never pays keeps up with the other's gain of 1 a round.
    assert p[1] == pytest.approx(math.sqrt(math.log(2 / 0.05) / (2 * horizon)), rel=0.02)
    assert np.mean(arms) < 0.01
    assert np.mean(rewards) > 0.99


def test_exp3p_with_more_arms_than_rounds() -> None:
    policy = build("exp3p", Problem(100_000, 2))
    for _ in range(2):
        policy.ask(1)
        policy.tell(np.array([1.0]))
    p = array(diagnostics_of(policy), "probabilities")
    assert np.isfinite(p).all()
    policy.ask(1)
    with pytest.raises(InvalidValueError, match=r"\[0, 1\]"):
        policy.tell(np.array([1.5]))


# -- UCB with wider radii -------------------------------------------------------------------


@pytest.mark.parametrize("lam", [0.0, 1e-4, 0.003, 0.5])
@pytest.mark.parametrize("n_arms", [1, 2, 5])
def test_wide_ucb_plays_the_highest_index(lam: float, n_arms: int) -> None:
    rewards = (default_rng(8).random((600, n_arms)) < 0.5).astype(float)
    policy = build("wide-ucb", Problem(n_arms, 600, lam))
    history: list[tuple[int, float]] = []
    for t in range(600):
        (arm,) = policy.ask(600 - t).tolist()
        if t < n_arms:
            expected = t
        else:
            bounds = []
            for i in range(n_arms):
                plays = [(s, x) for s, (a, x) in enumerate(history) if a == i]
                mean = math.fsum(x for _, x in plays) / len(plays)
                radius = math.sqrt(2 * math.log(t) / len(plays))
                age = math.fsum(t - s for s, _ in plays) / len(plays)
                bounds.append(mean + radius + min(1.0, lam * age))
            expected = arm if bounds[arm] >= max(bounds) - 1e-12 else -1
        assert arm == expected
        history.append((arm, float(rewards[t, arm])))
        policy.tell(rewards[t, arm : arm + 1])
    assert array(diagnostics_of(policy), "plays").sum() == 600


def test_wide_ucb_at_lam_0_is_ucb1() -> None:
    problem = Problem(4, 3_000, 0.0)
    world = [environment(4, 3), environment(4, 3)]
    wide, plain = fused(build("wide-ucb", problem)), fused(build("ucb1", problem))
    pieces = [(True, 3_000)]
    assert play_in_pieces(wide, world[0], pieces) == play_in_pieces(plain, world[1], pieces)


def test_wide_ucb_returns_to_neglected_arms() -> None:
    def plays(lam: float) -> float:
        world = PLUGINS.environment("bernoulli", seed=1, r=[0.9, 0.3], b=[1.0, 1.0], lam=0.0)
        policy = fused(build("wide-ucb", Problem(2, 50_000, lam)))
        play_in_pieces(policy, world, [(True, 50_000)])
        return float(array(diagnostics_of(policy), "plays")[1])

    assert plays(1 / 20_000) > 1.5 * plays(0.0)


# -- fused against asking -------------------------------------------------------------------

PIECES: list[Pieces] = [
    [(True, 700), (False, 1), (True, 40), (False, 300), (True, 459)],
    [(True, 1500)],
]


@pytest.mark.parametrize("noise", NOISES[:2])
@pytest.mark.parametrize("case", POLICIES)
def test_fused_and_asking_are_the_same(case: Case, noise: object) -> None:
    for n_arms, seed in ((4, 9), (2, 10), (1, 11)):
        problem = Problem(n_arms, 1500, LAMS[seed % 3], replenishing_arm=n_arms - 1)
        asked = policy_for(case, problem, seed=9)
        expected = play_in_pieces(asked, environment(n_arms, seed, noise), [(False, 1500)])
        for pieces in PIECES:
            mixed = policy_for(case, problem, seed=9)
            assert play_in_pieces(mixed, environment(n_arms, seed, noise), pieces) == expected
            assert_same_diagnostics(mixed, asked)
