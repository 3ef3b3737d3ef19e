"""Sweeps in blocks of users: the sums of the whole log, and the same bits on any threads."""

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework.fitting import blocks
from bdes_framework.fitting import fit as fitting
from bdes_framework.fitting.fit import Users
from tests.support.logs import ADS, simulated_log, truth_of


def test_blocks_are_whole_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 10)
    rng = np.random.default_rng(1)
    for _ in range(50):
        lengths = rng.integers(1, 30, rng.integers(1, 20))
        starts = np.cumsum(lengths) - lengths
        users = blocks.user_blocks(starts, int(lengths.sum()))
        assert users[0] == 0
        assert users[-1] == lengths.size
        assert (np.diff(users) > 0).all()
        sizes = np.add.reduceat(lengths, users[:-1])
        assert (sizes - lengths[users[:-1]] < 10).all()


def test_sums_are_those_of_the_whole_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log = simulated_log(ADS, users=40, rows=25, seed=1)
    whole = bdes.likelihood_of(ADS, log.arms, log.rewards, log.starts)
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 100)
    found = blocks.likelihood_of_log(log, ADS)
    assert found.value == pytest.approx(whole.value, rel=1e-12)
    np.testing.assert_allclose(found.score, whole.score, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.information, whole.information, rtol=1e-12)
    assert blocks.log_likelihood_of_log(log, ADS) == pytest.approx(whole.value, rel=1e-12)


@pytest.mark.parametrize(("threads", "users"), [(2, "alike"), (3, "clustered"), (7, "multiplier")])
def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch, threads: int, users: Users) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 100)
    log = simulated_log(ADS, users=60, rows=25, seed=2)
    alone, many = (bdes.fit(log, users=users, threads=n) for n in (1, threads))
    assert truth_of(many.instance).tobytes() == truth_of(alone.instance).tobytes()
    assert many.covariance.tobytes() == alone.covariance.tobytes()
    assert many.evolving == alone.evolving
    assert many.drifting == alone.drifting
    assert many.goodness.statistic == alone.goodness.statistic
    assert many.warnings == alone.warnings


def test_threads_change_no_bit_of_many_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 100)
    monkeypatch.setattr(blocks, "FASTER_FROM", 1)
    monkeypatch.setattr(fitting, "MANY_ARMS", 1)
    log = simulated_log(ADS, users=60, rows=25, seed=2)
    alone, many = (bdes.fit(log, threads=n) for n in (1, 3))
    assert truth_of(many.instance).tobytes() == truth_of(alone.instance).tobytes()
    assert many.covariance.tobytes() == alone.covariance.tobytes()
    assert many.evolving == alone.evolving


@pytest.mark.parametrize("users", ["alike", "clustered", "multiplier"])
def test_blocks_change_nothing_but_rounding(monkeypatch: pytest.MonkeyPatch, users: Users) -> None:
    log = simulated_log(ADS, users=60, rows=25, seed=3)
    whole = bdes.fit(log, users=users)
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 100)
    parts = bdes.fit(log, users=users)
    np.testing.assert_allclose(truth_of(parts.instance), truth_of(whole.instance), rtol=1e-6)
    np.testing.assert_allclose(parts.covariance, whole.covariance, rtol=1e-5, atol=1e-9)
    assert parts.drifting.log_likelihood == pytest.approx(whole.drifting.log_likelihood)
    np.testing.assert_allclose(parts.goodness.rows, whole.goodness.rows)
    np.testing.assert_allclose(parts.goodness.observed, whole.goodness.observed)
    assert parts.goodness.statistic == pytest.approx(whole.goodness.statistic, rel=1e-4)


def test_threads_must_be_a_number() -> None:
    with pytest.raises(bdes.InvalidValueError, match="threads"):
        bdes.fit(simulated_log(ADS, users=2, rows=10), threads=0)
