"""Calibration against curves whose rate is known: exact, by brute force, and in repetition."""

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

import bdes_framework as bdes
from bdes_framework import CtrCurve, FloatArray, UnidentifiedCurveError, calibrate_rate

UNEVEN = [0, 1, 2, 3, 5, 8, 12, 17, 25, 40]


def exact_levels(
    times: Sequence[float] | FloatArray, lam: float, ratio: float, level0: float = 0.06
) -> FloatArray:
    """Follow the paper's form: b - (1 - lam)**t * (b - q0), with q0 = 1, times level0."""
    decay: FloatArray = (1 - lam) ** np.asarray(times, dtype=np.float64)
    return level0 * (ratio - decay * (ratio - 1))


def noisy_levels(
    seed: int,
    times: Sequence[float] | FloatArray = UNEVEN,
    lam: float = 0.2,
    ratio: float = 0.4,
    sigma: float = 0.001,
) -> FloatArray:
    return exact_levels(times, lam, ratio) + default_rng(seed).normal(0, sigma, len(times))


WEIGHTS = np.full(len(UNEVEN), 1e6)


def noisy_curve(seed: int) -> CtrCurve:
    return CtrCurve(UNEVEN, noisy_levels(seed), WEIGHTS)


def assert_same_fit(
    fit: bdes.RateCalibration, other: bdes.RateCalibration, rel: float = 1e-6
) -> None:
    """Compare rates and intervals, of rate and ratio."""
    assert fit.lam == pytest.approx(other.lam, rel=rel)
    assert fit.lam_interval == pytest.approx(other.lam_interval, rel=2 * rel)
    assert fit.ratio_interval == pytest.approx(other.ratio_interval, rel=10 * rel)


@pytest.mark.parametrize("ratio", [0.0, 0.15, 0.9, 1.1, 4.0])
@pytest.mark.parametrize(
    ("lam", "times"),
    [
        (1e-5, [0, 2e4, 3.1e4, 9e4, 2e5, 7e5]),
        (0.01, [0, 1, 7, 30, 31, 200, 500]),
        (0.3, UNEVEN),
        (0.3, [0.5, 1.25, 4, 4.5, 9, 14]),
        (0.9, [0, 1, 2, 3, 7]),
        (0.999, [0, 1, 2, 3, 7]),
        (1.0, [0, 1, 2, 3, 7]),
        (0.002, list(np.linspace(0, 3000, 1_001))),
    ],
)
def test_an_exact_curve_gives_rate_and_ratio(lam: float, times: list[float], ratio: float) -> None:
    levels = exact_levels(times, lam, ratio)
    impressions = np.linspace(1e6, 2e6, len(times))
    for curve in (CtrCurve(times, levels), CtrCurve(times, levels, impressions=impressions)):
        fit = calibrate_rate(curve, estimate_noise=True)
        assert fit.lam == pytest.approx(lam, rel=1e-6)
        assert fit.ratio == pytest.approx(ratio, rel=1e-6, abs=1e-8)
        assert fit.level0 == pytest.approx(0.06, rel=1e-6)
        for interval, estimate in ((fit.lam_interval, fit.lam), (fit.ratio_interval, fit.ratio)):
            assert interval[0] <= estimate <= interval[1]
            assert interval == pytest.approx((estimate, estimate), rel=1e-5, abs=1e-6)


def test_a_curve_from_zero_has_an_infinite_ratio() -> None:
    levels = 0.5 - 0.5 * 0.9 ** np.array(UNEVEN)
    fit = calibrate_rate(CtrCurve(UNEVEN, levels, weights=np.full(len(UNEVEN), 1e4)))
    assert fit.lam == pytest.approx(0.1)
    assert fit.ratio_interval[0] > 10
    assert fit.ratio_interval[1] == math.inf
    assert fit.level0 == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("c", [1e-6, 0.3, 1e6])
def test_the_unit_of_levels_does_not_matter(c: float) -> None:
    curve = noisy_curve(1)
    scaled = CtrCurve(UNEVEN, c * curve.levels, WEIGHTS / c**2)
    fit, other = calibrate_rate(curve), calibrate_rate(scaled)
    assert_same_fit(other, fit)
    assert other.level0 == pytest.approx(c * fit.level0, rel=1e-6)
    assert other.dispersion == pytest.approx(fit.dispersion, rel=1e-6)


def test_two_rounds_as_one_square_the_decay() -> None:
    curve = noisy_curve(2)
    fit = calibrate_rate(curve)
    halved = calibrate_rate(CtrCurve(curve.times / 2, curve.levels, curve.weights))
    assert 1 - halved.lam == pytest.approx((1 - fit.lam) ** 2, rel=1e-6)
    assert 1 - halved.lam_interval[0] == pytest.approx((1 - fit.lam_interval[0]) ** 2, rel=1e-6)
    assert halved.ratio_interval == pytest.approx(fit.ratio_interval, rel=1e-4)


@pytest.mark.parametrize("kind", ["weights", "impressions"])
def test_one_measurement_counts_like_two_halves(kind: str) -> None:
    levels = noisy_levels(3)
    size = np.full(len(UNEVEN), 50_000.0)
    sizes: dict[str, Any] = {kind: size}
    whole = calibrate_rate(CtrCurve(UNEVEN, levels, **sizes))
    twice = [np.repeat(column, 2) for column in (np.array(UNEVEN), levels, size / 2)]
    sizes = {kind: twice[2]}
    split = calibrate_rate(CtrCurve(twice[0], twice[1], **sizes))
    assert_same_fit(split, whole)


def brute_force_rests(curve: CtrCurve, lams: FloatArray, ratios: FloatArray) -> FloatArray:
    """Return the weighted squares left at each pair of lam and ratio, the level fitted."""
    assert curve.weights is not None
    rests = np.empty((lams.size, ratios.size))
    for row, lam in enumerate(lams):
        decay = (1 - lam) ** curve.times
        shapes = ratios[:, None] * (1 - decay) + decay
        best = shapes @ (curve.weights * curve.levels) / (shapes**2 @ curve.weights)
        rests[row] = (curve.levels - best[:, None] * shapes) ** 2 @ curve.weights
    return rests


STUDENT_95 = {1: 12.7062, 5: 2.5706}
"""Two-sided 95 % quantiles by degrees of freedom, from the printed table."""


@pytest.mark.parametrize(
    ("times", "lam", "ratio", "sigma", "spare"),
    [
        ([0, 1, 2, 4, 7, 12, 20], 0.25, 0.4, 0.002, None),
        ([0, 1, 2, 4, 7, 12, 20], 0.1, 0.0, 0.003, None),
        ([0, 1, 2, 3, 4], 0.97, 0.5, 0.002, None),
        ([1, 2, 4, 7, 12, 20], 0.2, 0.7, 0.0005, None),
        ([0, 1, 2, 4, 7, 12, 20, 30], 0.25, 0.4, 0.002, 5),
        ([0, 3, 8, 20], 0.2, 0.2, 0.0002, 1),
    ],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_intervals_agree_with_brute_force(
    times: list[float], lam: float, ratio: float, sigma: float, spare: int | None, seed: int
) -> None:
    levels = noisy_levels(seed, times, lam, ratio, sigma)
    weights = np.linspace(1, 2, len(times)) / sigma**2
    curve = CtrCurve(times, np.maximum(levels, 0), weights)
    fit = calibrate_rate(curve, estimate_noise=spare is not None)
    # A grid over each interval and half its width more on both sides.
    lams, ratios = (
        np.linspace(max(low - (high - low) / 2, 0), high + (high - low) / 2, 1001)
        for low, high in (fit.lam_interval, fit.ratio_interval)
    )
    lams = np.minimum(lams, 1)
    rests = brute_force_rests(curve, lams, ratios)
    variance, quantile = 1.0, 1.959964
    if spare is not None:
        variance, quantile = rests.min() / spare, STUDENT_95[spare]
    inside = rests <= rests.min() + quantile**2 * variance
    for interval, grid, axis in ((fit.lam_interval, lams, 1), (fit.ratio_interval, ratios, 0)):
        ends = grid[inside.any(axis=axis)][[0, -1]]
        np.testing.assert_allclose(interval, ends, rtol=0, atol=0.005 * (interval[1] - interval[0]))


def test_impressions_give_binomial_weights() -> None:
    impressions = np.linspace(300, 900, len(UNEVEN)).round()
    means = exact_levels(UNEVEN, 0.15, 0.05, 0.8)
    levels = default_rng(13).binomial(impressions.astype(np.int64), means) / impressions
    fit = calibrate_rate(CtrCurve(UNEVEN, levels, impressions=impressions))
    fitted = exact_levels(UNEVEN, fit.lam, fit.ratio, fit.level0)
    weighted = calibrate_rate(CtrCurve(UNEVEN, levels, impressions / (fitted * (1 - fitted))))
    assert_same_fit(fit, weighted, rel=1e-3)


def test_the_interval_of_a_jump_ends_at_one() -> None:
    clicks = default_rng(5).binomial(5000, exact_levels(UNEVEN, 1.0, 0.5, 0.3))
    fit = calibrate_rate(CtrCurve(UNEVEN, clicks / 5000, impressions=np.full(10, 5000)))
    assert fit.lam_interval[1] == 1.0
    assert 0.8 < fit.lam_interval[0] < fit.lam <= 1.0


def test_more_confidence_widens_intervals() -> None:
    half, most, nearly_all = (
        calibrate_rate(noisy_curve(6), confidence=c) for c in (0.5, 0.95, 0.999)
    )
    for inner, outer in ((half, most), (most, nearly_all)):
        for name in ("lam_interval", "ratio_interval"):
            (low, high), (lower, higher) = getattr(inner, name), getattr(outer, name)
            assert lower < low < high < higher
    for confidence in (0.0, 1.0, 95, math.nan):
        with pytest.raises(bdes.InvalidValueError, match="confidence"):
            calibrate_rate(noisy_curve(6), confidence=confidence)


def fits_of_clicks(
    lam: float, ratio: float, level0: float, n_curves: int, *, estimate_noise: bool
) -> list[bdes.RateCalibration]:
    """Calibrate curves of drawn clicks; those that are rejected are left out."""
    rng, fits = default_rng(2024), list[bdes.RateCalibration]()
    means, impressions = exact_levels(UNEVEN, lam, ratio, level0), np.full(len(UNEVEN), 20_000)
    for _ in range(n_curves):
        curve = CtrCurve(UNEVEN, rng.binomial(impressions, means) / impressions, None, impressions)
        with suppress(UnidentifiedCurveError):
            fits.append(calibrate_rate(curve, estimate_noise=estimate_noise))
    return fits


THOUSANDS = [
    pytest.param(*world, 2000, noise, marks=pytest.mark.slow)
    for world in ((0.2, 0.4, 0.06), (0.05, 0.2, 0.3), (0.3, 3.0, 0.05))
    for noise in (False, True)
]


@pytest.mark.parametrize(
    ("lam", "ratio", "level0", "n_curves", "estimate_noise"),
    [(0.2, 0.4, 0.06, 300, False), *THOUSANDS],
)
def test_intervals_cover_the_truth(
    lam: float, ratio: float, level0: float, n_curves: int, estimate_noise: bool
) -> None:
    fits = fits_of_clicks(lam, ratio, level0, n_curves, estimate_noise=estimate_noise)
    assert len(fits) == n_curves
    ends, truth = np.array([(fit.lam_interval, fit.ratio_interval) for fit in fits]), [lam, ratio]
    shares = np.mean((ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1]), axis=0)
    assert ((shares >= 0.93) & (shares <= 0.97)).all()
    dispersions = [fit.dispersion for fit in fits if fit.dispersion is not None]
    assert np.mean(dispersions) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("estimate_noise", [False, True])
def test_most_curves_without_effect_are_rejected(estimate_noise: bool) -> None:
    assert len(fits_of_clicks(0.2, 1.0, 0.06, 100, estimate_noise=estimate_noise)) <= 5


def test_dispersion_shows_noise_or_another_form() -> None:
    right = noisy_curve(7)
    understated = CtrCurve(UNEVEN, right.levels, WEIGHTS * 100)
    fit = calibrate_rate(understated)
    assert (fit.dispersion or 0) > 30
    assert np.mean(fit.residuals**2) > 20
    estimated = calibrate_rate(understated, estimate_noise=True)
    assert estimated.dispersion == pytest.approx(fit.dispersion)
    assert np.sum(estimated.residuals**2) == pytest.approx(right.times.size - 3)
    honest = calibrate_rate(right, estimate_noise=True)
    assert estimated.lam_interval == pytest.approx(honest.lam_interval, rel=1e-6)
    times = np.arange(0, 30.0)
    s_shaped = 0.1 + 0.2 / (1 + np.exp(0.6 * (times - 12)))
    fit = calibrate_rate(CtrCurve(times, s_shaped, impressions=np.full(30, 20_000)))
    assert (fit.dispersion or 0) > 5


def test_residuals_are_measured_minus_fitted() -> None:
    curve = noisy_curve(8)
    fit = calibrate_rate(curve)
    fitted = exact_levels(UNEVEN, fit.lam, fit.ratio, fit.level0)
    np.testing.assert_allclose(fit.residuals, (curve.levels - fitted) / 0.001, atol=1e-6)
    assert fit.dispersion == pytest.approx(np.sum(fit.residuals**2) / 7)


ROUNDS = np.arange(0, 21.0)
STRAIGHT = 0.06 * (1 - 0.04 * ROUNDS)
TOO_STRAIGHT = "too straight for an end state"


@pytest.mark.parametrize(
    ("curve", "reason"),
    [
        (CtrCurve([0, 5], [0.1, 0.2], [1e6, 1e6]), "three different times"),
        (CtrCurve([0, 0, 5, 5], [0.1, 0.1, 0.2, 0.2], [1e6] * 4), "three different times"),
        (CtrCurve([0, 5, 9], [0.3, 0.2, 0.15]), "add another"),
        (CtrCurve([0, 1, 2, 3], [0.1, 0.1, 0.1, 0.1]), "any lam fits"),
        (CtrCurve([0, 1, 2, 3], [0.0, 0.0, 0.0, 0.0]), "any lam fits"),
        (CtrCurve([0, 1, 2, 3], [0.0] * 4, impressions=[100] * 4), "any lam fits"),
        (CtrCurve([0, 1, 2, 3], [0.10, 0.12, 0.09, 0.11]), "any lam fits"),
        (CtrCurve([0, 1, 5, 9], [0.3, 0.2, 0.15, 0.14], [1.0] * 4), "any lam fits"),
        (CtrCurve([0, 1, 2, 3, 4], [0.1, 0.11, 0.12, 0.13, 0.14]), "straight line up to round 4"),
        (CtrCurve([0, 1, 2, 3], [0.1, 0.11, 0.12, 0.13], [1e6] * 4), "straight line"),
        (CtrCurve([2, 3, 4, 5], [0.3, 0.2, 0.2, 0.2], [1e6] * 4), "starts at round 2"),
        (CtrCurve([0, 90, 99, 150], [0.3, 0.1, 0.1, 0.1], [1e6] * 4), "anything from 0.* to 1;"),
        (CtrCurve([0, 1, 2, 5], [0.30, 0.25, 0.22, 0.21], [2e3] * 4), "anything from"),
        (CtrCurve(range(100, 200), noisy_levels(9, range(100, 200))), "starts at round 0"),
        (CtrCurve(ROUNDS, STRAIGHT), TOO_STRAIGHT),
        (CtrCurve(ROUNDS, STRAIGHT + default_rng(1).normal(0, 0.001, 21)), TOO_STRAIGHT),
        (CtrCurve(ROUNDS, STRAIGHT, impressions=np.full(21, 100_000)), TOO_STRAIGHT),
        (CtrCurve(ROUNDS, 0.06 * (1 - (ROUNDS / 21) ** 2)), TOO_STRAIGHT),
    ],
)
def test_an_unidentified_curve_is_rejected(curve: CtrCurve, reason: str) -> None:
    with pytest.raises(UnidentifiedCurveError, match=reason):
        calibrate_rate(curve)


def test_rising_curves_cut_off_early_are_rejected() -> None:
    times, straight = np.arange(0, 100.0), 0
    for seed in range(20):
        levels = noisy_levels(seed, times, 0.03, 2.0)
        try:
            calibrate_rate(CtrCurve(times[:10], levels[:10]))
        except UnidentifiedCurveError as error:
            straight += "straight line up to round 9" in str(error)
        whole = calibrate_rate(CtrCurve(times, levels))
        assert whole.lam == pytest.approx(0.03, abs=0.003)
    # By chance a short curve bends enough to tell something, now and then.
    assert straight >= 16


def test_a_straight_fall_has_an_interval() -> None:
    times = np.arange(0, 10.0)
    levels = 0.06 * (1 - 0.02 * times) + default_rng(12).normal(0, 0.0003, times.size)
    fit = calibrate_rate(CtrCurve(times, levels))
    # Falling by 2 % of the first level per round takes at least that rate.
    assert 0.015 < fit.lam_interval[0] < fit.lam_interval[1] < 0.2
    assert fit.ratio_interval[0] == 0


def test_a_fall_to_zero_is_not_taken_as_straight() -> None:
    times = np.arange(0, 25.0)
    for seed in range(200):  # one in two thousand, if noise is Gaussian
        levels = np.maximum(noisy_levels(seed, times, 0.1, 0.0), 0)
        assert calibrate_rate(CtrCurve(times, levels)).lam == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("scale", [1e300, 1e90, 1e-300])
def test_extreme_levels_are_rejected(scale: float) -> None:
    levels = exact_levels(UNEVEN, 0.2, 0.4)
    for curve in (CtrCurve(UNEVEN, scale * levels), CtrCurve(UNEVEN, levels, [scale] * 10)):
        with pytest.raises(bdes.InvalidValueError, match="another unit"):
            calibrate_rate(curve)


def test_levels_just_within_bounds_are_fitted() -> None:
    for scale in (1e29, 1e-27):
        fit = calibrate_rate(CtrCurve(UNEVEN, scale * exact_levels(UNEVEN, 0.2, 0.4)))
        assert fit.lam == pytest.approx(0.2, abs=1e-6)
    # Of three measurements, if their noise is known.
    fit = calibrate_rate(CtrCurve([0, 3, 20], exact_levels([0, 3, 20], 0.2, 0.4), [1e6] * 3))
    assert fit.lam == pytest.approx(0.2)
    assert fit.dispersion is None


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"times": [0, 1], "levels": [0.1]}, "got 2 and 1"),
        ({"times": [], "levels": []}, "one number per measurement"),
        ({"times": [[0, 1]], "levels": [[0.1, 0.2]]}, "shape"),
        ({"times": ["a"], "levels": [0.1]}, "sequence of numbers"),
        ({"times": None, "levels": [0.1]}, "one number per measurement"),
        ({"times": [0, math.nan], "levels": [0.1, 0.2]}, r"times\[1\]: .* got nan"),
        ({"times": [-1, 0], "levels": [0.1, 0.2]}, r"times\[0\]: .* at least 0, got -1"),
        ({"times": [0, 2, 1], "levels": [0.1, 0.2, 0.3]}, r"after times\[1\]"),
        ({"times": [0, 1], "levels": [0.1, -0.2]}, r"levels\[1\]: .* at least 0, got -0.2"),
        ({"times": [0, 1], "levels": [math.inf, 0.2]}, r"levels\[0\]: .* finite"),
        ({"times": [0], "levels": [0.1], "weights": [0]}, r"weights\[0\]: .* above 0"),
        ({"times": [0], "levels": [0.1], "weights": [1, 2]}, "weights .* got 1 and 2"),
        ({"times": [0], "levels": [0.1], "impressions": [math.nan]}, r"impressions\[0\]"),
        ({"times": [0], "levels": [1.5], "impressions": [10]}, "at most 1, got a level of 1.5"),
        ({"times": [0], "levels": [0.1], "weights": [1], "impressions": [1]}, "not both"),
    ],
)
def test_a_malformed_curve_is_rejected(columns: dict[str, Any], reason: str) -> None:
    with pytest.raises(bdes.InvalidValueError, match=reason) as caught:
        CtrCurve(**columns)
    assert not isinstance(caught.value, UnidentifiedCurveError)


def test_a_curve_keeps_its_own_numbers() -> None:
    levels = np.array([0.3, 0.2, 0.1])
    curve = CtrCurve([0, 1, 2], levels)
    levels[0] = 9
    assert curve.levels[0] == 0.3
    with pytest.raises(ValueError, match="read-only"):
        curve.levels[0] = 9


@pytest.mark.parametrize("c", [1.0, 0.4])
def test_the_rate_of_an_instance_in_any_scale(c: float) -> None:
    instance = bdes.Instance([0.9, 0.5], [0.2, 0.6], lam=0.07, q0=0.8).scaled(c)
    rounds = np.array([0, 1, 4, 9, 16, 25, 60])
    levels = instance.expected_rewards(np.ones(61, dtype=np.int64))[rounds]
    fit = calibrate_rate(CtrCurve(rounds, levels))
    assert fit.lam == pytest.approx(0.07, rel=1e-6)
    assert fit.ratio == pytest.approx(0.6 / 0.8, rel=1e-6)
    assert fit.level0 == pytest.approx(0.5 * 0.8, rel=1e-6)
    # An instance made from a fit goes on as the real one does.
    made = bdes.Instance([fit.level0], [fit.ratio], fit.lam).expected_rewards([0] * 300)
    np.testing.assert_allclose(made, instance.expected_rewards([1] * 300), rtol=1e-6)


def test_levels_averaged_over_windows_are_fitted() -> None:
    instance = bdes.Instance([0.5], [0.3], lam=0.04, q0=0.6)
    windows = instance.expected_rewards(np.zeros(105, dtype=np.int64)).reshape(15, 7)
    fit = calibrate_rate(CtrCurve(7 * np.arange(15), windows.mean(axis=1)))
    assert fit.lam == pytest.approx(0.04, rel=1e-6)
    assert fit.ratio == pytest.approx(0.5 * 0.3 / windows[0].mean(), rel=1e-6)


def test_clicks_of_an_environment_give_its_rate() -> None:
    plugins, n_users, rounds = bdes.load_plugins(), 400, 60
    clicks = np.zeros(rounds)
    for user in range(n_users):
        one = plugins.environment("bernoulli", seed=user, r=[0.8], b=[0.2], lam=0.1, q0=0.9)
        clicks += one.pull(np.zeros(rounds, dtype=np.int64)).rewards
    counts = np.full(rounds, n_users)
    fit = calibrate_rate(CtrCurve(np.arange(rounds), clicks / n_users, impressions=counts))
    assert fit.lam_interval[0] < 0.1 < fit.lam_interval[1]
    assert fit.ratio_interval[0] < 0.2 / 0.9 < fit.ratio_interval[1]
    assert fit.lam_interval[1] - fit.lam_interval[0] < 0.03
    assert fit.dispersion == pytest.approx(1, abs=0.5)
