"""Unknown lam on exact means: the test, the doubling, what it commits to; and the estimator."""

import math
from functools import partial

import numpy as np
import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from bdes_framework import FloatArray, Instance, Problem, alternating_limit, simulate
from bdes_policies import RateEstimate, estimate_lam, estimate_lam_by_blocks
from bdes_policies.exploration.lambda_search import sweep_phase
from studies.auto_loss import instances
from tests.support.noiseless import (
    PLUGINS,
    Played,
    array,
    click_bait,
    number,
    planned,
    play_named,
)

PLANNER = "best-cycle"
play_unknown = partial(play_named, "unknown-lambda", lam_known=False)

# -- the estimator --------------------------------------------------------------------------


@given(
    st.floats(0.01, 1),
    st.floats(0, 1),
    st.floats(0, 1),
    st.sampled_from([1e-6, 0.01, 0.3, 0.5, 0.9, 1.0]),
)
def test_estimate_is_exact_on_settled_means(r: float, b_i: float, b_j: float, lam: float) -> None:
    if abs(b_i - b_j) < 1e-3:
        return
    found = estimate_lam(r * b_j, r * b_i, r * alternating_limit(b_i, b_j, lam))
    assert found.lam == pytest.approx(lam, abs=1e-9)
    assert found.denominator == pytest.approx(r * (b_i - b_j) / (2 - lam), rel=1e-6)
    assert found.standard_error == 0


def test_estimate_is_cut_to_the_unit_interval() -> None:
    for means, unclipped, lam in (((0.5, 0.1, 0.2), -2, 0), ((0.1, 0.2, 0.3), 3, 1)):
        found = estimate_lam(*means)
        assert found.unclipped == pytest.approx(unclipped)
        assert found.lam == lam


def test_equal_end_states_identify_nothing() -> None:
    found = estimate_lam(0.3, 0.3, 0.3, samples=100)
    assert math.isnan(found.lam)
    assert found.denominator == 0
    assert found.standard_error == math.inf


@pytest.mark.parametrize("lam", [0.1, 0.5, 1.0])
def test_standard_error_is_the_scatter(lam: float) -> None:
    r, b_i, b_j, samples = 0.9, 0.1, 0.8, 4_000
    means = np.array([r * b_j, r * b_i, r * alternating_limit(b_i, b_j, lam)])
    draws = np.random.default_rng(2).binomial(samples, means, (4_000, 3)) / samples
    estimates = np.array([estimate_lam(*row).unclipped for row in draws.tolist()])
    error = estimate_lam(means[0], means[1], means[2], samples).standard_error
    each = (samples, samples, samples)
    assert estimate_lam(means[0], means[1], means[2], each).standard_error == error
    assert estimates.std() == pytest.approx(error, rel=0.05)
    assert estimates.mean() == pytest.approx(lam, abs=4 * error / math.sqrt(4_000) + error**2 * 3)


def block_mean(i: float, j: float, r: float, lam: float, length: int) -> float:
    """Mean reward of i over its last block, by the recurrence, after 12,000 pulls."""
    here = Instance([0.0, r], [j, i], lam)
    blocks = np.repeat([0, 1], length)
    return float(here.expected_rewards(np.tile(blocks, 6_000 // length))[-length:].mean())


@pytest.mark.parametrize("length", [2, 8, 64])
@pytest.mark.parametrize("lam", [0.003, 0.1, 0.5, 1.0])
def test_estimate_by_blocks_is_exact(lam: float, length: int) -> None:
    r, b_i, b_j = 0.8, 0.2, 0.9
    mean = block_mean(b_i, b_j, r, lam, length)
    alternating = r * alternating_limit(b_i, b_j, lam)
    found = estimate_lam_by_blocks(r * b_i, alternating, mean, length)
    assert found.lam == pytest.approx(lam, rel=1e-5)
    assert found.standard_error == 0


def test_estimate_by_blocks_is_cut() -> None:
    assert estimate_lam_by_blocks(0.1, 0.5, 0.6, 4).lam == 0  # beyond single pulls in turn
    assert estimate_lam_by_blocks(0.1, 0.5, 0.15, 4).lam == 1  # less than 1/4 of the gap
    assert math.isnan(estimate_lam_by_blocks(0.3, 0.3, 0.3, 4).lam)


def test_standard_error_by_blocks_is_the_scatter() -> None:
    r, b_i, b_j, lam, length, samples = 0.9, 0.1, 0.8, 0.1, 32, 4_000
    alternating = r * alternating_limit(b_i, b_j, lam)
    means = np.array([r * b_i, alternating, block_mean(b_i, b_j, r, lam, length)])
    draws = np.random.default_rng(2).binomial(samples, means, (2_000, 3)) / samples
    estimates = [estimate_lam_by_blocks(x, y, z, length).lam for x, y, z in draws.tolist()]
    x, y, z = means.tolist()
    error = estimate_lam_by_blocks(x, y, z, length, samples).standard_error
    assert np.std(estimates) == pytest.approx(error, rel=0.07)


# -- the algorithm, from the paper's boxes --------------------------------------------------


class Replay:
    """Reads the phases off the arms played, and means off the exact rewards."""

    def __init__(self, played: Played) -> None:
        self.played, self.at = played, 0

    def take(self, arms: list[int]) -> FloatArray:
        """Check that these arms come next; return their rewards."""
        end = self.at + len(arms)
        assert self.played.arms[self.at : end].tolist() == arms
        rewards = self.played.means[self.at : end]
        self.at = end
        return rewards


@define
class Means:
    """Algorithm 8, lines 1 to 9: mu, shape (K,), and (2, K) of each pair's two arms in turn."""

    mu: FloatArray
    alternating: FloatArray


def read_sweeps(replay: Replay, n_arms: int, n: int) -> int:
    """Ours: all arms in random orders; return the one that paid most."""
    paid = np.zeros(n_arms)
    for _ in range(n):
        arms = replay.played.arms[replay.at : replay.at + n_arms].tolist()
        assert sorted(arms) == list(range(n_arms))
        paid[arms] += replay.take(arms)
    return int(np.argmax(paid))


def read_test(replay: Replay, n_arms: int, n: int, other: int) -> Means:
    mu, alternating = np.empty(n_arms), np.empty((2, n_arms))
    for i in range(n_arms):
        replay.take([i] * n)
        mu[i] = replay.take([i] * n).mean()
    alternating[:, other] = mu[other]
    for i in range(n_arms):
        if i != other:
            replay.take([i, other] * n)
            rewards = replay.take([i, other] * (2 * n))
            alternating[:, i] = rewards[::2].mean(), rewards[1::2].mean()
    return Means(mu, alternating)


def read_estimate(replay: Replay, i: int, j: int, n: int, m: int) -> tuple[float, float, float]:
    """Algorithm 7: the three means."""
    first = np.mean([replay.take([j] * n + [i])[-1] for _ in range(m)])
    second = np.mean([replay.take([j] * n + [i] * n + [i])[-1] for _ in range(m)])
    third = np.mean([replay.take([i] * n + [i, j] * n + [i])[-1] for _ in range(m)])
    return float(first), float(second), float(third)


def expected_thresholds(
    alone: FloatArray, alternating: FloatArray, n: int, horizon: int, tuning: str
) -> FloatArray:
    log = math.log(horizon)
    if tuning == "paper":
        return np.full(alone.shape, 3 * math.sqrt(log / n))
    variances = (alone * (1 - alone) + 1 / n) / n
    variances += (alternating * (1 - alternating) + 1 / n) / (2 * n)
    return np.sqrt(log * variances)


@define
class Doubling:
    """How lam is estimated, read off what was played."""

    n_arms: int
    horizon: int
    alone: float
    alternating: float
    n: int
    estimates: list[RateEstimate] = field(factory=list)
    settle: int = 0
    agreed: bool = False

    def epsilon(self, settle: int) -> float:
        return float((self.n_arms * math.log(self.horizon) * settle / self.horizon) ** (1 / 3))

    def plausible(self, estimate: RateEstimate, settle: int) -> bool:
        settled = estimate.denominator * (self.alone - self.alternating) > 0
        tolerance = self.epsilon(settle) / 4
        return settled and -tolerance <= estimate.unclipped <= 1 + tolerance

    def read_as_printed(self, replay: Replay, i: int, j: int) -> float:
        """Algorithm 8, lines 13 to 22: longer and longer settling."""
        log = math.log(self.horizon)
        settle = math.ceil(log)
        while not self.agreed:
            m = math.ceil(log / self.epsilon(settle) ** 2)
            m = min(m, (self.horizon // 2 - replay.at) // 2 // (6 * settle + 3))
            if m < log:
                break
            means = read_estimate(replay, i, j, settle, m)
            self.estimates.append(estimate_lam(*means, samples=m))
            last_two = self.estimates[-2:]
            self.agreed = (
                len(last_two) == 2
                and abs(last_two[0].unclipped - last_two[1].unclipped) <= self.epsilon(settle) / 4
                and all(self.plausible(estimate, settle) for estimate in last_two)
            )
            self.settle, settle = settle, 2 * settle
        if self.agreed:
            return self.estimates[-2].lam
        last = self.estimates[-1]
        return last.lam if self.plausible(last, self.settle) else 0.0

    def read_blocks(self, replay: Replay, i: int, j: int) -> float:
        """Ours: longer and longer blocks, until the state settles in two of them in a row."""
        allowance = int(2 * float(self.n_arms) ** (1 / 3) * float(self.horizon) ** (2 / 3))
        m, n = allowance // 20, self.n
        replay.take([i] * n)
        alone = (replay.take([i] * m).sum() + n * self.alone) / (m + n)
        replay.take([i, j] * n)
        pairs = replay.take([i, j] * m)[::2].sum()
        alternating = (pairs + 2 * n * self.alternating) / (m + 2 * n)
        length = 1
        while not self.agreed:
            length *= 2
            blocks = max(1, m // length)
            rewards = replay.take(([j] * length + [i] * length) * blocks)
            mean = rewards.reshape(-1, 2, length)[:, 1].mean()
            counts = (m + n, m + 2 * n, blocks * length)
            found = estimate_lam_by_blocks(alone, alternating, mean, length, counts)
            self.estimates.append(found)
            last = [estimate.lam for estimate in self.estimates[-2:]]
            settled = [lam * n >= 2.5 for lam, n in zip(last, (length // 2, length), strict=False)]
            self.agreed = len(last) == 2 and all(settled) and max(last) < 2 * min(last)
        weights = [(each.lam / each.standard_error) ** 2 for each in self.estimates[-2:]]
        return float(np.exp(np.average(np.log(last), weights=weights)))


@pytest.mark.parametrize("tuning", ["paper", "balanced"])
@pytest.mark.parametrize(
    ("n_arms", "horizon", "lam", "arm"),
    [
        (2, 200_000, 0.5, 1),
        (3, 300_000, 0.3, None),
        (2, 200_000, 0.9, None),
        (3, 300_000, 0.1, 2),
        (2, 200_000, 0.01, 1),
    ],
)
def test_phases_and_plan_are_as_printed(
    tuning: str, n_arms: int, horizon: int, lam: float, arm: int | None
) -> None:
    instance = click_bait(n_arms, lam)
    played = play_unknown(instance, horizon, arm, tuning=tuning, planner=PLANNER)
    shown, replay = played.diagnostics, Replay(played)

    # The test: is there a gap?
    swept = tuning == "balanced" and n_arms > 2
    blocks = 2 * n_arms + 6 * (n_arms - 1) + swept * n_arms
    most = float(horizon // 4)
    if tuning == "balanced":
        most = min(most, 2 * n_arms ** (1 / 3) * horizon ** (2 / 3))
    n = min(math.floor((horizon / n_arms) ** (2 / 3)), math.floor(most / blocks))
    assert shown["test_length"] == n
    other = int(number(shown, "other_arm"))
    if swept:
        assert read_sweeps(replay, n_arms, n) == other
    means = read_test(replay, n_arms, n, other)
    assert shown["test_ends"] == replay.at == blocks * n
    np.testing.assert_allclose(array(shown, "mu"), means.mu, rtol=1e-12)
    names = "mu_alternating", "mu_alternating_other"
    for name, row in zip(names, means.alternating, strict=True):
        np.testing.assert_allclose(array(shown, name), row, rtol=1e-12)
    alone = np.array([means.mu, [means.mu[other]] * n_arms])
    thresholds = expected_thresholds(alone, means.alternating, n, horizon, tuning)
    shown_thresholds = [array(shown, name) for name in ("thresholds", "thresholds_other")]
    np.testing.assert_allclose(shown_thresholds, thresholds, rtol=1e-9)
    gaps = np.abs(alone - means.alternating)
    at = np.unravel_index(np.argmax(np.where(gaps > thresholds, gaps, 0)), gaps.shape)
    assert gaps[at] > thresholds[at]
    i, j = (int(at[1]), other) if at[0] == 0 else (other, int(at[1]))
    assert array(shown, "pair").tolist() == [i, j]

    # The doubling: until two estimates in a row agree, or no room is left.
    doubling = Doubling(n_arms, horizon, alone[at], means.alternating[at], n)
    read = doubling.read_as_printed if tuning == "paper" else doubling.read_blocks
    found = read(replay, i, j)
    assert shown["estimation_ends"] == replay.at
    unclipped = [estimate.unclipped for estimate in doubling.estimates]
    np.testing.assert_allclose(array(shown, "lam_estimates"), unclipped, rtol=1e-6)
    assert shown["lam_agreed"] == doubling.agreed
    lam_hat = number(shown, "lam_hat")
    assert lam_hat == pytest.approx(max(found, 1 / n), rel=1e-6)

    # The rest: explore and commit, from the state that all pulls have led to.
    assert shown["chosen"] == ("etc-unknown-arm" if arm is None else "etc")
    explored = replay.at + int(number(shown, "exploration"))
    q0 = 1.0 if arm is not None else float(array(shown, "b_hat").max())
    estimate = Instance(array(shown, "r_hat"), array(shown, "b_hat"), lam_hat, q0)
    state = estimate.state_after(played.arms[:explored])
    assert number(shown, "state") == pytest.approx(state, rel=1e-9)
    expected = planned(shown, lam_hat, horizon - explored, PLANNER)
    np.testing.assert_array_equal(played.arms[explored:], expected)


@pytest.mark.parametrize(("lam", "near"), [(0.3, 0.03), (0.5, 0.01), (0.9, 0.01)])
def test_printed_doubling_finds_lam_on_exact_means(lam: float, near: float) -> None:
    shown = play_unknown(click_bait(2, lam), 300_000, tuning="paper").diagnostics
    assert number(shown, "lam_hat") == pytest.approx(lam, abs=near)


RATES = [0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.9, 1.0]


@pytest.mark.parametrize("lam", RATES)
def test_doubling_finds_lam_on_exact_means(lam: float) -> None:
    shown = play_unknown(click_bait(2, lam), 300_000, planner=PLANNER).diagnostics
    assert shown["lam_agreed"]
    assert number(shown, "lam_hat") == pytest.approx(lam, rel=0.03)


@pytest.mark.parametrize("n_arms", [3, 5])
@pytest.mark.parametrize(("lam", "near"), [(0.003, 0.26), (0.1, 0.001), (1.0, 0.001)])
def test_doubling_finds_lam_among_more_arms(n_arms: int, lam: float, near: float) -> None:
    # The more arms, the shorter the test: at 0.003 no arm's state settles in it.
    shown = play_unknown(click_bait(n_arms, lam), 300_000, planner=PLANNER).diagnostics
    assert shown["lam_agreed"]
    assert number(shown, "lam_hat") == pytest.approx(lam, rel=near)


SEEDS = range(5000, 5016)
"""Not those that the doubling was developed on, which were 0 to 15."""
DRAWN = range(5100, 5110)
"""Of instances, one of each family per seed."""


def factor_off(instance: Instance, seed: int) -> float:
    """Return how many times too large or too small lam was found; infinite if no gap showed."""
    world = PLUGINS.environment(
        "bernoulli", seed=seed, r=instance.r, b=instance.b, lam=instance.lam
    )
    problem = Problem(instance.n_arms, 300_000)
    policy = PLUGINS.policy("unknown-lambda", problem, seed=seed, planner=PLANNER)
    shown = simulate(world, policy, problem.horizon, keep=False).diagnostics
    if "lam_hat" not in shown:
        return math.inf
    return math.exp(abs(math.log(number(shown, "lam_hat") / instance.lam)))


@pytest.mark.slow
@pytest.mark.parametrize("lam", RATES)
def test_doubling_finds_lam_on_draws(lam: float) -> None:
    assert np.median([factor_off(click_bait(2, lam), seed) for seed in SEEDS]) < 1.15


@pytest.mark.slow
@pytest.mark.parametrize("n_arms", [2, 3, 5])
@pytest.mark.parametrize("lam", [0.003, 0.01, 0.1, 0.5, 1.0])
def test_doubling_finds_lam_on_drawn_instances(n_arms: int, lam: float) -> None:
    drawn = instances(n_arms, lam, DRAWN)
    assert np.median([factor_off(instance, seed) for seed, instance in drawn]) < 1.5


PAYS_AND_RESTORES = Instance([1.0, 0.0], [0.0, 1.0], 0.5)


@pytest.mark.parametrize("tuning", ["paper", "balanced"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gap_of_the_arm_drawn_shows_too(tuning: str, seed: int) -> None:
    # Only arm 0 pays: its rewards must count whether it is the arm drawn or the other one.
    shown = play_unknown(PAYS_AND_RESTORES, 100_000, tuning=tuning, seed=seed).diagnostics
    assert array(shown, "pair").tolist() == [0, 1]
    assert shown["chosen"] == "etc-unknown-arm"


def test_unknown_lambda_finds_the_only_arm_that_pays() -> None:
    horizon, lost = 100_000, []
    r, b, lam = PAYS_AND_RESTORES.r, PAYS_AND_RESTORES.b, PAYS_AND_RESTORES.lam
    best = PLUGINS.planner("certified").plan(PAYS_AND_RESTORES, horizon).value
    for seed in range(40):
        world = PLUGINS.environment("bernoulli", seed=seed, r=r, b=b, lam=lam)
        problem = Problem(2, horizon, replenishing_arm=1)
        trace = simulate(world, PLUGINS.policy("unknown-lambda", problem, seed=seed), horizon)
        assert trace.diagnostics["chosen"] == "etc"  # 19 of 40 ended in exp3p
        lost.append(1 - trace.total_mean / best)
    assert np.mean(lost) < 0.1  # it was 0.42


@pytest.mark.parametrize("n_arms", [3, 10])
@pytest.mark.parametrize("lam", [0.1, 1.0])
def test_dead_arms_do_not_hide_the_only_arm_that_pays(n_arms: int, lam: float) -> None:
    r, b, horizon = np.zeros(n_arms), np.zeros(n_arms), 100_000
    r[1], b[2] = 1.0, 1.0
    for seed in range(10):
        world = PLUGINS.environment("bernoulli", seed=seed, r=r, b=b, lam=lam)
        policy = PLUGINS.policy(
            "unknown-lambda", Problem(n_arms, horizon), seed=seed, planner=PLANNER
        )
        shown = simulate(world, policy, horizon, keep=False).diagnostics
        assert shown["other_arm"] == 1  # drawn at random it was a dead arm in most runs
        assert array(shown, "pair").tolist() == [1, 2]
        assert shown["chosen"] == "etc-unknown-arm"


def test_sweeps_repeat_where_they_would_be_long() -> None:
    # At most 100,000 steps in memory, however long the test.
    phase = sweep_phase(4, 100_000, np.random.default_rng(1))
    assert phase.steps.shape[0] == 100_000
    assert phase.n_pulls == 400_000
    assert np.bincount(phase.steps[:, 0]).tolist() == [25_000] * 4
    assert (phase.steps[:, 3] == phase.steps[:, 0]).all()


def test_unsettled_state_is_not_taken_for_fast() -> None:
    # The printed blocks give estimates near 5 here; cut to 1 they would agree.
    shown = play_unknown(click_bait(2, 0.003), 200_000, tuning="paper").diagnostics
    assert array(shown, "lam_estimates").min() > 2
    assert number(shown, "lam_hat") == 1 / number(shown, "test_length")


@pytest.mark.parametrize(
    "instance",
    [
        Instance([0.9, 0.4], [0.2, 1.0], 1e-9),
        Instance([0.9, 0.4, 0.4], [0.6, 0.6, 0.6], 0.5),
        Instance([0.0, 0.0], [0.2, 1.0], 0.5),
        Instance([0.9], [0.2], 0.5),
    ],
)
def test_without_a_gap_exp3p_plays_the_rest(instance: Instance) -> None:
    shown = play_unknown(instance, 5_000).diagnostics
    assert shown["chosen"] == "exp3p"
    assert "no gap" in str(shown["because"])
    left, n_arms = 5_000 - number(shown, "test_ends"), instance.n_arms
    gamma = 1.05 * math.sqrt(n_arms * math.log(n_arms) / left)
    assert shown["gamma"] == pytest.approx(gamma, abs=1e-12)


def test_sticky_takes_over_near_one() -> None:
    for parameters, chosen in (
        ({"tuning": "paper"}, "sticky"),
        ({"tuning": "balanced"}, "etc-unknown-arm"),
        ({"tuning": "balanced", "fast": 30.0}, "sticky"),
    ):
        shown = play_unknown(click_bait(2, 1.0), 100_000, **parameters).diagnostics
        assert shown["chosen"] == chosen
        if chosen == "sticky":
            assert number(shown, "committed_at") > 0


def test_without_room_exp3p_plays() -> None:
    shown = play_unknown(Instance([1.0, 0.0], [0.0, 1.0], 1.0), 300).diagnostics
    assert shown["chosen"] == "exp3p"
    assert "no room" in str(shown["because"])
    assert array(shown, "pair").tolist()[0] in (0, 1)
