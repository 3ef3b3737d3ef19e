"""The randomisation test: its statistic by another way, what it permutes, alarms and power."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bdes_framework as bdes
from bdes_framework.fitting import exchange
from bdes_framework.fitting import null_scores as ns
from bdes_framework.fitting import randomisation as rt
from tests.support.logs import ADS, simulated_log
from tests.support.null_logs import (
    NULL_WORLDS,
    null_log,
    phased_log,
    random_log,
    targeted_log,
)

LOG = null_log("everything", users=60, visits=20, seed=1, n_arms=3)


def rows_of(
    log: bdes.Log, strata: list[int] | None = None, seed: int = 0
) -> tuple[ns.TestedRows, exchange.ExchangeBlocks]:
    return rt._tested_rows(log, rt._as_strata(log, strata), np.random.default_rng(seed))


def frame_of(log: bdes.Log) -> ns.Frame:
    return ns.make_frame(rows_of(log)[0])


def dummies(values: NDArray[np.signedinteger[Any]]) -> bdes.FloatArray:
    return np.asarray(values[:, None] == np.unique(values), dtype=np.float64)


def newton(
    design: bdes.FloatArray, rewards: bdes.FloatArray, first: bdes.FloatArray, prior: float
) -> bdes.FloatArray:
    """Return the coefficients of a Poisson regression, the first of them with a prior."""
    beta, penalised = np.zeros(design.shape[1]), np.zeros(design.shape[1])
    penalised[: first.size] = prior
    beta[first.size :] = np.log(rewards.mean()) / 2
    for _ in range(20):
        means, factors = np.exp(design @ beta), np.exp(beta)
        information = design.T @ (means[:, None] * design) + np.diag(penalised * factors)
        score = design.T @ (rewards - means) + penalised * (1 - factors)
        beta += np.linalg.pinv(information) @ score
    return beta


def test_statistic_is_the_score_by_regression() -> None:
    n, rate = LOG.n_rows, 0.3
    users = np.repeat(np.arange(60), 20)
    visits = np.tile(np.arange(20), 60)
    classes = ns._visit_classes(visits, 20)
    of_users, fixed = dummies(users), np.hstack([dummies(LOG.arms), dummies(classes)])
    rewards = LOG.rewards.astype(float)
    # Poisson regressions by Newton's steps, with none of the test's own code: without users'
    # factors, and then with factors whose prior is a gamma distribution.
    means = np.exp(fixed @ newton(fixed, rewards, np.zeros(0), 0.0))
    by_user = of_users.T @ rewards, of_users.T @ means
    chance = of_users.T @ (means * (1 - means))
    variance = (np.subtract(*by_user) ** 2).sum() - chance.sum() - np.sqrt(8 * (chance**2).sum())
    prior = (by_user[1] ** 2).sum() / variance
    assert variance > 0
    design = np.hstack([of_users, fixed])
    beta = newton(design, rewards, np.ones(60), prior)
    means = np.exp(design @ beta)
    ridge = np.zeros(design.shape[1])
    ridge[:60] = prior * np.exp(beta[:60])
    exposures = np.empty((n, 3))
    for row in range(n):
        w = np.bincount(LOG.arms, minlength=3) / n
        for earlier in range(row - visits[row], row):
            w = (1 - rate) * w
            w[LOG.arms[earlier]] += rate
        exposures[row] = w
    weighted = means[:, None] * design
    slopes = np.linalg.pinv(design.T @ weighted + np.diag(ridge)) @ (weighted.T @ exposures)
    scores = (rewards - means)[:, None] * (exposures - design @ slopes)
    sums = scores.reshape(60, 20, 3).sum(axis=1)
    total = sums.sum(axis=0)
    expected = total @ np.linalg.pinv(sums.T @ sums, rcond=1e-9) @ total
    frame = frame_of(LOG)
    found = ns.statistics(frame._replace(rates=np.array([rate])), frame.groups)
    assert found[0] == pytest.approx(expected, rel=1e-4)


def test_no_arm_is_special() -> None:
    frame = frame_of(LOG)
    expected = ns.statistics(frame, frame.groups)
    assert expected.size > 1
    names = np.array([2, 0, 1])
    other = frame_of(bdes.Log(names[LOG.arms], LOG.rewards, LOG.starts))
    np.testing.assert_allclose(ns.statistics(other, other.groups), expected, rtol=1e-8)


def test_arms_are_permuted_within_blocks() -> None:
    order = np.random.default_rng(1).permutation(10)
    blocks = np.array([0, 3, 4, 10])
    rng = np.random.default_rng(2)
    seen = np.zeros((10, 10))
    for _ in range(2000):
        shuffled = rt._permuted(np.arange(10), order, blocks, rng.random(10))
        seen[np.arange(10), shuffled] += 1
    seen = seen[np.ix_(order, order)]
    for first, end in pairwise(blocks):
        block = seen[first:end, first:end] / 2000
        assert abs(block - 1 / (end - first)).max() < 0.05
    assert seen.sum() == sum(seen[a:b, a:b].sum() for a, b in ((0, 3), (3, 4), (4, 10)))


def test_blocks_are_users_and_strata() -> None:
    strata = [0, 1, 0, 1, 1, 1]
    log = bdes.Log([0, 1, 0, 1, 1, 0], [0, 1, 1, 1, 0, 0], starts=[0, 4])
    _, exchanged = rows_of(log, strata)
    order, blocks = exchange.in_blocks(exchanged.blocks)
    parts = np.split(order, blocks[1:-1])
    assert [sorted(part.tolist()) for part in parts] == [[0, 2], [1, 3], [4, 5]]


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_change_no_permutation(threads: int) -> None:
    alone, many = (bdes.randomisation_test(LOG, permutations=30, threads=n) for n in (1, threads))
    assert many.null_statistics.tobytes() == alone.null_statistics.tobytes()
    assert np.unique(many.null_statistics).size == 30
    with pytest.raises(bdes.InvalidValueError, match="threads"):
        bdes.randomisation_test(LOG, threads=0)


def test_unknown_rewards_leave_exposures_alone() -> None:
    rewards = LOG.rewards.astype(float)
    rewards[::7] = np.nan
    log = bdes.Log(LOG.arms, rewards, LOG.starts, strata=np.arange(LOG.n_rows) % 2)
    frame = frame_of(log)
    assert not frame.means[::7].any()
    assert not frame.residuals[::7].any()
    assert frame.groups.tolist() == frame_of(LOG).groups.tolist()
    found = bdes.randomisation_test(log, permutations=9)
    assert (found.n_rows, found.n_strata) == (LOG.n_rows, 2)
    assert str(found).endswith("9 permutations within users and 2 strata)")


def test_p_value_counts_the_order_itself() -> None:
    found = bdes.randomisation_test(LOG, permutations=50)
    exceeded = (found.null_statistics >= found.statistic).sum()
    assert found.p_value == (1 + exceeded) / 51
    assert found.p_value_error == pytest.approx(np.sqrt(found.p_value * (1 - found.p_value) / 51))
    again = bdes.randomisation_test(LOG, permutations=50)
    assert again.null_statistics.tobytes() == found.null_statistics.tobytes()
    other = bdes.randomisation_test(LOG, permutations=50, seed=1)
    assert other.statistic == found.statistic
    assert other.null_statistics.tobytes() != found.null_statistics.tobytes()


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(bdes.Log([0] * 20, [0, 1] * 10), id="one arm"),
        pytest.param(bdes.Log([0, 1] * 10, [0] * 20), id="nothing paid"),
        pytest.param(bdes.Log([0, 1] * 10, [0, 1] * 10, range(20)), id="one visit each"),
        pytest.param(bdes.Log([0], [1]), id="one row"),
    ],
)
def test_logs_that_tell_nothing_raise_no_alarm(log: bdes.Log) -> None:
    found = bdes.randomisation_test(log, permutations=19)
    assert found.p_value == 1
    assert "±" not in f"{found} {found!r}"


def test_a_state_is_found() -> None:
    log = simulated_log(ADS, users=200, rows=50, run=1, seed=1)
    found = bdes.randomisation_test(log, permutations=99)
    assert found.p_value == 0.01
    assert str(found) == "p = 0.01 (99 permutations within users)"
    alone = simulated_log(ADS, users=1, rows=10_000, run=1, seed=2)
    assert bdes.randomisation_test(alone, permutations=99).p_value == 0.01


def test_long_logs_are_tested_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rt, "MAX_TESTED_ROWS", 500)
    found = bdes.randomisation_test(LOG, permutations=9)
    assert (found.n_rows, found.n_users) == (500, 25)


def test_long_sequences_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rt, "MAX_TESTED_ROWS", 500)
    alone = bdes.Log(LOG.arms, LOG.rewards)
    found = bdes.randomisation_test(alone, permutations=9)
    assert (found.n_rows, found.n_users) == (500, 1)
    first = bdes.randomisation_test(alone.first(500), permutations=9)
    assert found.statistic == first.statistic
    for starts in ([0, 10], [0, 700], [0, 100, 110]):  # short ones before or after a long one
        log = bdes.Log(LOG.arms, LOG.rewards, starts)
        rows, _ = rows_of(log, seed=3)
        assert rows.arms.size == 500
        ends = [*rows.starts[1:].tolist(), 500]
        for begin, end in zip(rows.starts.tolist(), ends, strict=True):
            shown = rows.arms[begin:end]
            assert any(np.array_equal(shown, LOG.arms[s : s + end - begin]) for s in starts)


def test_progress_is_told() -> None:
    told: list[float] = []
    bdes.randomisation_test(LOG, permutations=4, on_progress=told.append)
    assert told == [0.25, 0.5, 0.75, 1]


def test_strata_need_a_number_per_row() -> None:
    with pytest.raises(bdes.InvalidValueError, match="one stratum per row, got 2 for 1200"):
        bdes.randomisation_test(LOG, strata=[0, 1])
    with pytest.raises(bdes.InvalidValueError, match="strata"):
        bdes.randomisation_test(LOG, strata=np.full(LOG.n_rows, 0.5))
    with pytest.raises(bdes.InvalidValueError, match="permutations"):
        bdes.randomisation_test(LOG, permutations=0)


def alarms(logs: list[bdes.Log]) -> float:
    p_values = [
        bdes.randomisation_test(log, permutations=99, seed=seed).p_value
        for seed, log in enumerate(logs)
    ]
    return float(np.mean(np.array(p_values) <= 0.05))


@pytest.mark.slow
@pytest.mark.parametrize("kind", NULL_WORLDS)
def test_one_in_twenty_null_logs_raises_an_alarm(kind: str) -> None:
    rate = alarms([null_log(kind, users=100, visits=50, seed=seed) for seed in range(200)])
    assert 0.03 <= rate <= 0.07


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
def test_targeted_logs_raise_few_alarms(known: bool) -> None:
    logs = [targeted_log(100, 50, seed, known) for seed in range(200)]
    assert 0.03 <= alarms(logs) <= 0.07


@pytest.mark.slow
def test_known_phases_raise_few_alarms() -> None:
    assert 0.03 <= alarms([phased_log(200, 60, seed) for seed in range(200)]) <= 0.07


def state_logs(highest: float, lowest: float) -> list[bdes.Log]:
    state = {"r": np.linspace(highest, lowest, 4), "b": np.linspace(0.2, 1.0, 4), "lam": 0.05}
    return [random_log("crowd", 200, 100, seed, **state) for seed in range(200)]


@pytest.mark.slow
def test_power_is_at_least_80_percent() -> None:
    assert alarms(state_logs(0.6, 0.2)) >= 0.8


@pytest.mark.slow
def test_known_chances_find_rare_rewards() -> None:
    logs = state_logs(0.3, 0.1)
    known = [
        bdes.Log(log.arms, log.rewards, log.starts, propensities=np.full(log.n_rows, 0.25))
        for log in logs
    ]
    plainly = alarms(logs)
    assert plainly >= 0.7
    assert alarms(known) >= max(0.8, plainly)
