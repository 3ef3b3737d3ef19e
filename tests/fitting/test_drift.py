"""The model of a drift: its likelihood by the sweep, its fit, and what a fit says of it."""

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework.fitting.drift import _classes, fit_drift
from tests.support.logs import ADS, simulated_log
from tests.support.null_logs import null_log

DRIFT = bdes.Instance([0.7, 0.4, 0.2], [0.3] * 3, 0.1)


def value_of(log: bdes.Log, instance: bdes.Instance) -> float:
    return bdes.likelihood_of(instance, log.arms, log.rewards, log.starts).value


@pytest.mark.parametrize(("q0", "lam"), [(1.0, None), (1.0, 0.2), (0.5, None), (2.0, None)])
def test_likelihood_is_that_of_the_sweep(q0: float, lam: float | None) -> None:
    log = simulated_log(DRIFT, users=50, rows=30, seed=1)
    found, likelihood = fit_drift(log, lam, q0, bounded=True)
    assert likelihood == pytest.approx(value_of(log, found), abs=1e-6)
    assert lam in (None, found.lam)
    # No other drift nearby is more likely.
    rng = np.random.default_rng(2)
    for _ in range(200):
        r = found.r * np.exp(0.05 * rng.standard_normal(3))
        b = min(1.0, float(found.b[0]) * np.exp(0.05 * rng.standard_normal()))
        rate = found.lam if lam else found.lam * np.exp(0.05 * rng.standard_normal())
        if r.max() * max(1.0, q0) <= 1:
            other = bdes.Instance(r, [b] * 3, rate, q0)
            assert value_of(log, other) <= likelihood + 1e-4


def test_fit_finds_the_drift() -> None:
    found = fit_drift(simulated_log(DRIFT, users=1000, rows=50, seed=3), None, 1.0, True).instance
    np.testing.assert_allclose(found.r, DRIFT.r, atol=0.03)
    assert found.b[0] == pytest.approx(0.3, abs=0.02)
    assert found.lam == pytest.approx(0.1, abs=0.015)


def test_end_states_above_1_are_found_where_q0_is_unknown() -> None:
    rising = bdes.Instance([0.8, 0.5], [1.0, 1.0], 0.1, q0=0.5)
    found = fit_drift(simulated_log(rising, 1000, 40, seed=4), None, 1.0, False).instance
    assert found.b[0] == pytest.approx(2.0, abs=0.1)
    assert (found.r * found.b).max() <= 1 + 1e-9


def test_unknown_rewards_move_the_drift_on() -> None:
    log = simulated_log(DRIFT, users=50, rows=30, seed=5)
    rewards = log.rewards.astype(float)
    rewards[::3] = np.nan
    some = bdes.Log(log.arms, rewards, log.starts)
    found, likelihood = fit_drift(some, None, 1.0, bounded=True)
    assert likelihood == pytest.approx(value_of(some, found), abs=1e-6)


def test_late_rows_share_classes() -> None:
    classes, ages = _classes(1_000_000)
    assert classes[:2000].tolist() == list(range(2000))
    assert (np.diff(classes) >= 0).all()
    assert classes[-1] < 4000
    rows = np.arange(1_000_000)
    assert (np.abs(ages[classes] - rows) <= 0.005 * rows + 1).all()


def test_a_drift_is_preferred_where_nothing_shown_matters() -> None:
    for seed in range(3):
        found = bdes.fit(null_log("trend", users=100, visits=50, seed=seed))
        assert found.evolving.bic < found.stationary.bic  # it looks like a state
        assert found.drifting.bic < found.evolving.bic
        assert any("BIC prefers one end state for all arms" in text for text in found.warnings)


def test_end_states_that_differ_are_preferred() -> None:
    found = bdes.fit(simulated_log(ADS, users=200, rows=50, seed=6))
    assert found.evolving.bic < found.drifting.bic
    assert found.drifting.n_parameters == 5
    assert "what is shown explains the log better" in str(found.summary())
    # The state's model contains the drift's, and that one contains standing still.
    likelihoods = [
        score.log_likelihood for score in (found.stationary, found.drifting, found.evolving)
    ]
    assert likelihoods == sorted(likelihoods)
