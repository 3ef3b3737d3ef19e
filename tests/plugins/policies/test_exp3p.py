"""EXP3.P against its definition, and at its edges."""

import math

import numpy as np
import pytest
from numpy.random import default_rng

from bdes_framework import Problem
from bdes_framework.errors import ConfigError
from bdes_policies.exp3p import Exp3p, rates
from tests.support.fused import fused, play_in_pieces
from tests.support.noiseless import PLUGINS, array, build, diagnostics_of


@pytest.mark.parametrize(("n_arms", "horizon"), [(2, 400), (4, 300), (1, 50), (6, 5)])
def test_exp3p_draws_as_defined(n_arms: int, horizon: int) -> None:
    delta, rng = 0.2, default_rng(3)
    eta = 0.95 * math.sqrt(math.log(n_arms) / (n_arms * horizon))
    gamma = min(1.0, 1.05 * math.sqrt(n_arms * math.log(n_arms) / horizon))
    beta = math.sqrt(math.log(n_arms / delta) / (n_arms * horizon))
    policy = Exp3p(n_arms, rates(n_arms, horizon, delta), default_rng(3))
    shown = policy.diagnostics()
    assert [shown["eta"], shown["gamma"], shown["beta"]] == pytest.approx([eta, gamma, beta])
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


def test_exp3p_is_tuned_for_either_bound() -> None:
    n_arms, horizon = 4, 300
    for given, log in (
        ({}, math.log(n_arms / 0.05)),
        ({"delta": 0.2}, math.log(n_arms / 0.2)),
        ({"bound": "expected"}, math.log(n_arms)),
    ):
        shown = diagnostics_of(build("exp3p", Problem(n_arms, horizon), **given))
        assert shown["beta"] == pytest.approx(math.sqrt(log / (n_arms * horizon)))
        assert shown["gamma"] == pytest.approx(1.05 * math.sqrt(n_arms * math.log(4) / horizon))
    with pytest.raises(ConfigError, match="'delta' needs bound"):
        build("exp3p", Problem(2, 10), bound="expected", delta=0.1)


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
