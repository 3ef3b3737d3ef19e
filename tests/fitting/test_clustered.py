"""Errors clustered by user: the sandwich by brute force, and how often intervals hold the truth."""

from typing import Any, Literal

import numpy as np
import pytest

import bdes_framework as bdes
from tests.support.logs import ADS, intervals_of, simulated_log, truth_of
from tests.support.null_logs import random_log


def test_covariance_is_the_sandwich_of_users_scores() -> None:
    log = simulated_log(ADS, users=100, rows=30, seed=1)
    alike, clustered = bdes.fit(log), bdes.fit(log, users="clustered")
    assert truth_of(clustered.instance).tobytes() == truth_of(alike.instance).tobytes()
    scores = np.array(
        [
            bdes.likelihood_of(
                alike.instance, log.arms[begin : begin + 30], log.rewards[begin : begin + 30]
            ).score[:7]
            for begin in log.starts
        ]
    )
    slopes = alike.coordinates.jacobian(alike.centre)
    by_user = (scores - scores.mean(axis=0)) @ slopes
    prior = np.diag(alike.coordinates.prior_precision(alike.centre))
    bread = alike.deviations @ alike.deviations.T
    expected = bread @ (100 / 99 * by_user.T @ by_user + prior) @ bread
    found = clustered.deviations @ clustered.deviations.T
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_users_who_are_alike_have_the_same_errors() -> None:
    log = simulated_log(ADS, users=1500, rows=20, seed=2)
    alike, clustered = bdes.fit(log), bdes.fit(log, users="clustered")
    ratio = np.sqrt(np.diag(clustered.covariance) / np.diag(alike.covariance))
    assert ((ratio > 0.85) & (ratio < 1.15)).all()


def test_an_arm_never_shown_keeps_its_prior() -> None:
    log = simulated_log(ADS, users=50, rows=20, seed=3)
    spare = bdes.Log(log.arms, log.rewards, log.starts, [*"abc", "spare"])
    alike, clustered = bdes.fit(spare), bdes.fit(spare, users="clustered")
    assert clustered.covariance[3, 3] == pytest.approx(alike.covariance[3, 3], rel=1e-6)
    assert clustered.r_interval[3].tolist() == [0.0, 1.0]


def test_few_users_cannot_be_clustered() -> None:
    log = simulated_log(ADS, users=5, rows=20, seed=4)
    with pytest.raises(bdes.InvalidValueError, match="at least 20 users, the log has 5"):
        bdes.fit(log, users="clustered")
    with pytest.raises(bdes.InvalidValueError, match=r"one of .*'clustered'.*, got 'x'"):
        bdes.fit(log, users="x")  # type: ignore[arg-type]


# Users' factors on r are even on 1 ± 0.52: their standard deviation is 0.3.
DIFFERENT: dict[str, Any] = {"r": [0.5, 0.35, 0.2], "b": [0.2, 0.6, 1.0], "lam": 0.1}


def coverage(n_logs: int, seed: int) -> dict[str, bdes.FloatArray]:
    truth = truth_of(bdes.Instance(**DIFFERENT))
    hits: dict[str, list[Any]] = {"alike": [], "clustered": []}
    for index in range(n_logs):
        log = random_log("crowd", 200, 50, seed + index, spread=0.52, **DIFFERENT)
        users: Literal["alike", "clustered"]
        for users in ("alike", "clustered"):
            low, high = intervals_of(bdes.fit(log, users=users)).T
            hits[users].append((low <= truth) & (truth <= high))
    return {users: np.mean(held, axis=0) for users, held in hits.items()}


def test_clustered_intervals_cover_where_users_differ() -> None:
    covered = coverage(12, seed=100)
    assert covered["clustered"].mean() >= 0.85
    assert covered["clustered"].mean() > covered["alike"].mean()


@pytest.mark.slow
def test_clustered_intervals_cover_nine_in_ten() -> None:
    covered = coverage(300, seed=1000)
    # The b of one arm is 1, its boundary, where a normal curve fits worst.
    assert covered["clustered"].mean() >= 0.90
    assert covered["clustered"].min() >= 0.85
