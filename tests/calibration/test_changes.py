"""Calibration of relative changes: the paper's U(t), and the two ways to read it off."""

import math

import numpy as np
import pytest
from numpy.random import default_rng

import bdes_framework as bdes
from bdes_framework import CtrCurve, FloatArray, UnidentifiedCurveError, calibrate_rate

DAYS = np.array([3.0, 7, 14, 21, 28, 42, 56, 84])


def learned(times: FloatArray, lam: float, alpha: float) -> FloatArray:
    """Follow the paper: U(t) = alpha * (1 - exp(-beta*t)), beta = -log(1 - lam)."""
    return alpha * (1 - (1 - lam) ** times)


@pytest.mark.parametrize("alpha", [-1.0, -0.3, -1e-3, 0.2, 3.0])
@pytest.mark.parametrize("lam", [0.004, 0.05, 0.3])
@pytest.mark.parametrize("first", [[], [0.0]])
def test_an_exact_curve_of_changes_gives_its_rate(
    first: list[float], lam: float, alpha: float
) -> None:
    times = np.append(first, DAYS)
    fit = calibrate_rate(CtrCurve.from_changes(times, learned(times, lam, alpha)))
    assert fit.lam == pytest.approx(lam, rel=1e-6)
    assert fit.ratio - 1 == pytest.approx(alpha, rel=1e-6)
    assert fit.level0 == 1
    assert fit.lam_interval == pytest.approx((lam, lam), rel=1e-4)
    assert fit.ratio_interval == pytest.approx((1 + alpha, 1 + alpha), rel=1e-4, abs=1e-6)


def test_two_readings_of_known_noise_are_enough() -> None:
    two = np.array([10.0, 40.0])
    fit = calibrate_rate(CtrCurve.from_changes(two, learned(two, 0.05, -0.3), [1e6, 1e6]))
    assert fit.lam == pytest.approx(0.05)
    assert fit.dispersion is None


@pytest.mark.parametrize("known", [True, False])
def test_a_change_of_zero_at_round_zero_says_nothing(known: bool) -> None:
    changes = learned(DAYS, 0.05, -0.3) + default_rng(1).normal(0, 0.005, DAYS.size)
    without, listed = (
        calibrate_rate(
            CtrCurve.from_changes(
                [0.0] * zeros + [*DAYS],
                [0.0] * zeros + [*changes],
                [4e4] * (zeros + 8) if known else None,
            )
        )
        for zeros in (0, 1)
    )
    assert listed.lam_interval == pytest.approx(without.lam_interval, rel=1e-9)
    assert listed.ratio_interval == pytest.approx(without.ratio_interval, rel=1e-9)
    assert listed.dispersion == pytest.approx(without.dispersion, rel=1e-9)


STUDENT_95_OF_SIX = 2.446912


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("lam", "alpha"), [(0.05, -0.3), (0.15, 0.4), (0.03, -1.0)])
def test_intervals_of_changes_agree_with_brute_force(lam: float, alpha: float, known: bool) -> None:
    rng = default_rng(2)
    changes = np.maximum(learned(DAYS, lam, alpha) + rng.normal(0, 0.01, DAYS.size), -1)
    weights = np.linspace(1, 2, DAYS.size) * 1e4
    curve = CtrCurve.from_changes(DAYS, changes, weights)
    fit = calibrate_rate(curve, estimate_noise=not known)
    lams, ratios = (
        np.linspace(max(low - (high - low) / 2, 0), high + (high - low) / 2, 801)
        for low, high in (fit.lam_interval, fit.ratio_interval)
    )
    shapes = 1 - (1 - lams[:, None]) ** DAYS
    misses = changes - (ratios - 1)[:, None, None] * shapes
    rests = misses**2 @ weights
    variance, quantile = (1.0, 1.959964) if known else (rests.min() / 6, STUDENT_95_OF_SIX)
    inside = rests <= rests.min() + quantile**2 * variance
    for interval, grid, axis in ((fit.lam_interval, lams, 0), (fit.ratio_interval, ratios, 1)):
        ends = grid[inside.any(axis=axis)][[0, -1]]
        np.testing.assert_allclose(interval, ends, rtol=0, atol=0.005 * (interval[1] - interval[0]))


@pytest.mark.parametrize("known", [True, False])
def test_intervals_of_changes_cover_the_truth(known: bool) -> None:
    rng, n_curves, weights = default_rng(3), 300, np.full(DAYS.size, 1e4) if known else None
    truth, covered = np.array([0.05, 0.7]), np.zeros(2)
    for _ in range(n_curves):
        changes = learned(DAYS, 0.05, -0.3) + rng.normal(0, 0.01, DAYS.size)
        fit = calibrate_rate(CtrCurve.from_changes(DAYS, changes, weights))
        ends = np.array([fit.lam_interval, fit.ratio_interval])
        covered += (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    assert (covered >= 0.92 * n_curves).all()
    assert (covered <= 0.98 * n_curves).all()


def test_a_known_start_narrows_the_interval() -> None:
    changes = learned(DAYS, 0.05, -0.3) + default_rng(4).normal(0, 0.003, DAYS.size)
    weights = np.full(DAYS.size, 1 / 0.003**2)
    low, high = calibrate_rate(CtrCurve.from_changes(DAYS, changes, weights)).lam_interval
    lower, higher = calibrate_rate(CtrCurve(DAYS, 1 + changes, weights)).lam_interval
    assert high - low < 0.8 * (higher - lower)


@pytest.mark.parametrize(
    ("times", "changes", "weights", "reason"),
    [
        ([0, 7], [0, -0.2], [1e6] * 2, "two different times after round 0"),
        ([0, 7, 7], [0.01, -0.2, -0.2], None, "two different times after round 0"),
        ([0, 7, 14], [0, -0.2, -0.3], None, "add another"),
        ([7, 14, 28], [0.0, 0.0, 0.0], None, "any lam fits"),
        ([7, 14, 28, 56], [0.01, -0.02, 0.0, -0.01], [1e4] * 4, "any lam fits"),
        ([7, 14, 28, 56], [0.07, 0.14, 0.28, 0.56], None, "straight line up to round 56"),
        ([1, 8, 16, 24], [0.0, -0.4, -0.8, -1.0], [1e4] * 4, "too straight for an end state"),
        ([2, 4, 6, 8], [-0.3, -0.31, -0.29, -0.3], [150] * 4, "anything from"),
    ],
)
def test_changes_that_do_not_tell_the_rate_are_rejected(
    times: list[float], changes: list[float], weights: list[float] | None, reason: str
) -> None:
    with pytest.raises(UnidentifiedCurveError, match=reason):
        calibrate_rate(CtrCurve.from_changes(times, changes, weights))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ([-0.1, -20.0], r"changes\[1\]: .* at least -1, got -20.0; a change is relative"),
        ([math.nan, -0.2], r"changes\[0\]: .* got nan"),
        ([-0.1], "got 2 and 1"),
        ("many", "sequence of numbers"),
    ],
)
def test_malformed_changes_are_rejected(changes: list[float], reason: str) -> None:
    with pytest.raises(bdes.InvalidValueError, match=reason):
        CtrCurve.from_changes([7, 14], changes)


def test_changes_given_as_levels_are_told_where_to_go() -> None:
    with pytest.raises(bdes.InvalidValueError, match=r"use CtrCurve\.from_changes"):
        CtrCurve(DAYS, learned(DAYS, 0.05, -0.3))


@pytest.mark.parametrize("level0", [0, -1, math.nan, math.inf])
def test_a_known_level_is_positive(level0: float) -> None:
    with pytest.raises(bdes.InvalidValueError, match="level0"):
        CtrCurve([7, 14], [0.1, 0.2], level0=level0)
    with pytest.raises(bdes.InvalidValueError, match="another unit"):
        calibrate_rate(CtrCurve([7, 14], [0.1, 0.2], [1, 1], level0=1e200))


# -- readings: arm 0 is what people always saw, their state is at rest; arm 1 is the treatment --

WORLD = bdes.Instance(r=[0.05, 0.08], b=[0.9, 0.6], lam=0.04, q0=0.9)


def post_period(treated_days: int, read_days: int) -> float:
    """Return the change of CTR between two groups that see the same, after one was treated."""
    days = treated_days + read_days
    treated = WORLD.expected_rewards([1] * treated_days + [0] * read_days)[treated_days:]
    control = WORLD.expected_rewards([0] * days)[treated_days:]
    return float(treated.mean() / control.mean() - 1)


def test_first_days_after_the_treatment_are_points_of_the_curve() -> None:
    days = [7, 14, 28, 56, 84]
    changes = [post_period(t, 1) for t in days]
    np.testing.assert_allclose(changes, learned(np.array(days), 0.04, 0.6 / 0.9 - 1))
    fit = calibrate_rate(CtrCurve.from_changes(days, changes))
    assert fit.lam == pytest.approx(0.04, rel=1e-6)
    assert fit.ratio == pytest.approx(0.6 / 0.9, rel=1e-6)


def test_long_post_periods_hide_some_of_the_change_but_not_the_rate() -> None:
    days = [7, 14, 28, 56, 84]
    fit = calibrate_rate(CtrCurve.from_changes(days, [post_period(t, 14) for t in days]))
    assert fit.lam == pytest.approx(0.04, rel=1e-6)
    seen = (1 - 0.96**14) / (14 * 0.04)
    assert fit.ratio - 1 == pytest.approx((0.6 / 0.9 - 1) * seen, rel=1e-6)


def cookie_cookie_day(day: int, share: float = 0.0) -> float:
    """Return the change of CTR of people treated every day, against people treated that day.

    ``share`` is the chance of one who is drawn anew to have been drawn on an earlier day.
    """
    always = WORLD.expected_rewards([1] * day)[-1]
    mixed = bdes.Instance([0.08], [share * 0.6 + (1 - share) * 0.9], lam=0.04, q0=0.9)
    return float(always / mixed.expected_rewards([0] * day)[-1] - 1)


def test_day_d_of_cookies_against_cookie_days_is_round_d_minus_one() -> None:
    days = np.array([1, 2, 8, 15, 29, 57, 85])
    changes = [cookie_cookie_day(day) for day in days.tolist()]
    assert changes[0] == 0
    fit = calibrate_rate(CtrCurve.from_changes(days - 1, changes))
    assert fit.lam == pytest.approx(0.04, rel=1e-6)
    assert fit.ratio == pytest.approx(0.6 / 0.9, rel=1e-6)


def test_few_repeated_draws_make_the_rate_and_the_change_too_small() -> None:
    days = np.array([2, 8, 15, 29, 57, 85])
    fit = calibrate_rate(
        CtrCurve.from_changes(days - 1, [cookie_cookie_day(day, 0.05) for day in days.tolist()])
    )
    assert fit.lam / 0.04 == pytest.approx(0.9864, abs=0.0005)
    # A twentieth of the change is in both groups, and the one compared with is lower too.
    assert (fit.ratio - 1) / (0.6 / 0.9 - 1) == pytest.approx(0.9676, abs=0.0005)
