"""Unknown lam on exact means: the test, the doubling, what it commits to; and the estimator."""

import math
from functools import partial

import numpy as np
import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from bdes_framework import FloatArray, Instance, alternating_limit
from bdes_policies import RateEstimate, estimate_lam
from tests.support.noiseless import Played, array, click_bait, number, planned, play_named

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


def read_test(replay: Replay, n_arms: int, n: int, other: int) -> tuple[FloatArray, FloatArray]:
    """Algorithm 8, lines 1 to 9: mu_i and mu_ij."""
    alone, alternating = np.empty(n_arms), np.empty(n_arms)
    for i in range(n_arms):
        replay.take([i] * n)
        alone[i] = replay.take([i] * n).mean()
    for i in range(n_arms):
        if i == other:
            alternating[i] = alone[i]
            continue
        replay.take([i, other] * n)
        alternating[i] = replay.take([i, other] * (2 * n))[::2].mean()
    return alone, alternating


def read_estimate(
    replay: Replay, i: int, j: int, n: int, m: int, *, in_blocks: bool
) -> tuple[float, float, float]:
    """Algorithm 7: the three means; or the same with one settling for all samples."""
    if in_blocks:
        first = np.mean([replay.take([j] * n + [i])[-1] for _ in range(m)])
        second = np.mean([replay.take([j] * n + [i] * n + [i])[-1] for _ in range(m)])
        third = np.mean([replay.take([i] * n + [i, j] * n + [i])[-1] for _ in range(m)])
    else:
        replay.take([j] * n)
        first = np.mean([replay.take([j] * n + [i])[-1] for _ in range(m)])
        replay.take([i] * n)
        second = replay.take([i] * m).mean()
        replay.take([i, j] * n)
        third = replay.take([i, j] * m)[::2].mean()
    return float(first), float(second), float(third)


def expected_thresholds(
    alone: FloatArray, alternating: FloatArray, n: int, horizon: int, tuning: str
) -> FloatArray:
    log = math.log(horizon)
    if tuning == "paper":
        return np.full(alone.size, 3 * math.sqrt(log / n))
    variances = (alone * (1 - alone) + 1 / n) / n
    variances += (alternating * (1 - alternating) + 1 / n) / (2 * n)
    return np.sqrt(log * variances)


@define
class Doubling:
    """Algorithm 8, lines 13 to 22, read off what was played."""

    tuning: str
    n_arms: int
    horizon: int
    alone: float
    alternating: float
    n: int
    test_pulls: int
    estimates: list[RateEstimate] = field(factory=list)
    settle: int = 0
    agreed: bool = False

    def epsilon(self, settle: int) -> float:
        return float((self.n_arms * math.log(self.horizon) * settle / self.horizon) ** (1 / 3))

    def samples(self, settle: int, at: int) -> int:
        m = math.ceil(math.log(self.horizon) / self.epsilon(settle) ** 2)
        left = self.horizon // 2 - at
        if self.tuning == "paper":
            return min(m, left // 2 // (6 * settle + 3))
        allowance = int(2 * float(self.n_arms) ** (1 / 3) * float(self.horizon) ** (2 / 3))
        left = min(left, allowance - (at - self.test_pulls))
        return min(m, (left // 2 - 4 * settle) // (settle + 4))

    def tolerance(self, settle: int, *estimates: RateEstimate) -> float:
        delta = self.epsilon(settle) / 4
        if self.tuning == "paper":
            return delta
        return max(delta, sum(estimate.standard_error for estimate in estimates))

    def inside(self, estimate: RateEstimate, tolerance: float) -> bool:
        settled = estimate.denominator * (self.alone - self.alternating) > 0
        return settled and -tolerance <= estimate.unclipped <= 1 + tolerance

    def estimate(self, means: tuple[float, float, float], m: int) -> RateEstimate:
        """In the paper from these means alone; balanced, with the samples of the test."""
        if self.tuning == "paper":
            return estimate_lam(*means, samples=m)
        settled = (m * means[1] + self.n * self.alone) / (m + self.n)
        alternating = (m * means[2] + 2 * self.n * self.alternating) / (m + 2 * self.n)
        return estimate_lam(means[0], settled, alternating, (m, m + self.n, m + 2 * self.n))

    def read(self, replay: Replay, i: int, j: int) -> None:
        log = math.log(self.horizon)
        settle = math.ceil(log)
        while not self.agreed:
            m = self.samples(settle, replay.at)
            if m < log:
                break
            means = read_estimate(replay, i, j, settle, m, in_blocks=self.tuning == "paper")
            self.estimates.append(self.estimate(means, m))
            last_two = self.estimates[-2:]
            tolerance = self.tolerance(settle, *last_two)
            self.agreed = (
                len(last_two) == 2
                and abs(last_two[0].unclipped - last_two[1].unclipped) <= tolerance
                and all(self.inside(estimate, tolerance) for estimate in last_two)
            )
            self.settle, settle = settle, 2 * settle

    def lam(self, slowest: float) -> float:
        if self.agreed:
            return max(self.estimates[-2].lam, slowest)
        last = self.estimates[-1]
        plausible = self.inside(last, self.tolerance(self.settle, last))
        return max(last.lam, slowest) if plausible else slowest


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
    blocks = 2 * n_arms + 6 * (n_arms - 1)
    most = float(horizon // 4)
    if tuning == "balanced":
        most = min(most, 2 * n_arms ** (1 / 3) * horizon ** (2 / 3))
    n = min(math.floor((horizon / n_arms) ** (2 / 3)), math.floor(most / blocks))
    assert shown["test_length"] == n
    other = int(number(shown, "other_arm"))
    alone, alternating = read_test(replay, n_arms, n, other)
    assert shown["test_ends"] == replay.at == blocks * n
    np.testing.assert_allclose(array(shown, "mu"), alone, rtol=1e-12)
    np.testing.assert_allclose(array(shown, "mu_alternating"), alternating, rtol=1e-12)
    thresholds = expected_thresholds(alone, alternating, n, horizon, tuning)
    np.testing.assert_allclose(array(shown, "thresholds"), thresholds, rtol=1e-9)
    gaps = np.abs(alone - alternating)
    i = int(np.argmax(np.where(gaps > thresholds, gaps, 0)))
    assert gaps[i] > thresholds[i]
    assert array(shown, "pair").tolist() == [i, other]

    # The doubling: until two estimates in a row agree, or no room is left.
    doubling = Doubling(tuning, n_arms, horizon, alone[i], alternating[i], n, blocks * n)
    doubling.read(replay, i, other)
    assert shown["estimation_ends"] == replay.at
    unclipped = [estimate.unclipped for estimate in doubling.estimates]
    np.testing.assert_allclose(array(shown, "lam_estimates"), unclipped, rtol=1e-9)
    assert shown["lam_agreed"] == doubling.agreed
    lam_hat = number(shown, "lam_hat")
    assert lam_hat == pytest.approx(doubling.lam(1 / n), rel=1e-9)

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
def test_doubling_finds_lam_on_exact_means(lam: float, near: float) -> None:
    instance = click_bait(2, lam)
    for tuning in ("paper", "balanced"):
        shown = play_unknown(instance, 300_000, tuning=tuning).diagnostics
        assert number(shown, "lam_hat") == pytest.approx(lam, abs=near)


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
