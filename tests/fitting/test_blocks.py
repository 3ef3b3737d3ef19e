"""Sweeps in blocks of users: the sums of the whole log, and the same bits on any threads."""

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework.fitting import blocks
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


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 100)
    log = simulated_log(ADS, users=60, rows=25, seed=2)
    alone, many = bdes.fit(log), bdes.fit(log, threads=threads)
    assert truth_of(many.instance).tobytes() == truth_of(alone.instance).tobytes()
    assert many.covariance.tobytes() == alone.covariance.tobytes()
    assert many.evolving == alone.evolving


def test_threads_must_be_a_number() -> None:
    with pytest.raises(bdes.InvalidValueError, match="threads"):
        bdes.fit(simulated_log(ADS, users=2, rows=10), threads=0)
