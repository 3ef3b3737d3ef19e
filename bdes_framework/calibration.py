"""Calibration: the evolution rate from CTR levels over time under one repeated treatment.

Pulling one arm for t rounds takes the state to ``b - (1 - lam)**t * (b - q0)``, the form that
Hohnhold et al. (2015) measured. A click-through rate shows it times an unknown factor, so a
curve of levels identifies ``lam`` and ``ratio = b / q0``, and no more:
``level(t) = level0 * (ratio + (1 - ratio) * (1 - lam)**t)``.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from attrs import converters, field, frozen
from numpy.typing import NDArray

from bdes_framework.errors import InvalidValueError
from bdes_framework.text import quoted
from bdes_framework.types import FloatArray

Interval: TypeAlias = tuple[float, float]

_Numbers: TypeAlias = Sequence[float] | NDArray[np.floating[Any]] | NDArray[np.integer[Any]]

_WIDEST = 0.5
"""An interval for lam that covers more than this much of [0, 1] is no answer."""

_BLOCK = 1 << 20
"""Rates times measurements that are worked on at once, so that memory stays flat."""

_STEPS = 65
"""Rates tried at once when zooming in: seven rounds are as fine as rounding lets a fit be."""

_EPS = float(np.finfo(np.float64).eps)


class UnidentifiedCurveError(InvalidValueError):
    """A well-formed curve that does not tell lam; says why, and what would help."""


def _as_column(values: _Numbers) -> FloatArray:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidValueError(f"expected a sequence of numbers, got {quoted(values)}") from None
    if array.ndim != 1 or array.size == 0:
        raise InvalidValueError(f"expected one number per measurement, got shape {array.shape}")
    array.flags.writeable = False
    return array


def _refuse_bad_column(name: str, values: FloatArray, size: int, zero_allowed: bool) -> None:
    if values.size != size:
        raise InvalidValueError(
            f"times and {name} need one number per measurement each, got {size} and {values.size}"
        )
    good = np.isfinite(values) & (values >= 0 if zero_allowed else values > 0)
    if not good.all():
        where, least = int(np.argmin(good)), "of at least" if zero_allowed else "above"
        raise InvalidValueError(
            f"{name}[{where}]: expected a finite number {least} 0, got {values[where]}"
        )


@frozen(eq=False)
class CtrCurve:
    """CTR levels measured while one treatment was repeated.

    Without ``weights`` or ``impressions`` every level counts the same, and the noise is
    estimated from what the fit leaves over.

    Parameters
    ----------
    times : array of float, shape (n,)
        How many rounds of the treatment came before each measurement; at least 0, never
        decreasing, as uneven as you like.
    levels : array of float, shape (n,)
        The CTR then, or anything proportional to it; at least 0.
    weights : array of float, shape (n,), optional
        The inverse variance of each level; above 0.
    impressions : array of float, shape (n,), optional
        How many impressions each level is the mean of; levels are then at most 1, and
        their variance is binomial. Instead of ``weights``.
    """

    times: FloatArray = field(converter=_as_column)
    levels: FloatArray = field(converter=_as_column)
    weights: FloatArray | None = field(default=None, converter=converters.optional(_as_column))
    impressions: FloatArray | None = field(default=None, converter=converters.optional(_as_column))

    def __attrs_post_init__(self) -> None:
        for name, values in (("times", self.times), ("levels", self.levels)):
            _refuse_bad_column(name, values, self.times.size, zero_allowed=True)
        for name, counts in (("weights", self.weights), ("impressions", self.impressions)):
            if counts is not None:
                _refuse_bad_column(name, counts, self.times.size, zero_allowed=False)
        back = np.flatnonzero(np.diff(self.times) < 0)
        if back.size:
            raise InvalidValueError(f"times must not decrease, as they do after times[{back[0]}]")
        if self.impressions is not None and self.weights is not None:
            raise InvalidValueError("give weights or impressions, not both")
        if self.impressions is not None and self.levels.max() > 1:
            raise InvalidValueError(
                f"the mean of clicks is at most 1, got a level of {self.levels.max()}; for other"
                " levels, give weights instead of impressions"
            )


@frozen(eq=False)
class RateCalibration:
    """What a curve says about the evolution rate.

    Intervals are profile-likelihood intervals: the values that the curve does not reject
    when everything else is fitted to them. They keep to 0 <= lam <= 1 and b >= 0.

    Parameters
    ----------
    lam : float
        The evolution rate.
    lam_interval : pair of float
        Its lower and upper end.
    ratio : float
        b/q0: the treatment's end state, relative to the state it started from; ``inf`` for a
        curve that starts at 0.
    ratio_interval : pair of float
        Its lower and upper end.
    level0 : float
        The fitted level at round 0, r·q0, in the unit of the levels.
    confidence : float
        How often such intervals cover the truth.
    residuals : array of float, shape (n,)
        Measured minus fitted levels, in standard deviations.
    dispersion : float or None
        Weighted squares left over per degree of freedom. Near 1 if the weights or impressions
        tell the noise and the form fits; far above, one of the two is wrong. Without either,
        the estimated variance of a level. None if three measurements leave nothing over.
    """

    lam: float
    lam_interval: Interval
    ratio: float
    ratio_interval: Interval
    level0: float
    confidence: float
    residuals: FloatArray
    dispersion: float | None


def calibrate_rate(
    curve: CtrCurve, *, confidence: float = 0.95, estimate_noise: bool = False
) -> RateCalibration:
    """Fit lam and b/q0 to a curve by weighted least squares.

    Parameters
    ----------
    curve : CtrCurve
        What was measured.
    confidence : float in (0, 1)
        For the intervals, and for what counts as identified.
    estimate_noise : bool
        Take the curve's weights or impressions as relative only, and the size of the noise
        from what the fit leaves over. Always so for a curve that has neither.

    Raises
    ------
    UnidentifiedCurveError
        If the curve has too few points, is flat up to its noise, may be straight, or leaves
        lam anywhere in more than half of [0, 1].

    Examples
    --------
    >>> times = [0, 1, 2, 4, 8, 16]
    >>> levels = [0.06 * (0.4 + 0.6 * 0.8**t) for t in times]
    >>> fit = calibrate_rate(CtrCurve(times, levels))
    >>> round(fit.lam, 6), round(fit.ratio, 6), round(fit.level0, 6)
    (0.2, 0.4, 0.06)
    """
    if not 0 < confidence < 1:
        raise InvalidValueError(f"confidence must lie in (0, 1), got {quoted(confidence)}")
    known = not estimate_noise and (curve.weights is not None or curve.impressions is not None)
    _refuse_too_few(curve, known)
    profile = _profile_of(curve)
    spare = curve.times.size - 3
    dispersion = profile.rest / spare if spare else None
    variance = max(1.0 if known or dispersion is None else dispersion, profile.rounding)
    student, fisher = _quantiles(confidence, None if known else spare)
    if profile.flat_rest - profile.rest <= 2 * fisher * variance:
        raise UnidentifiedCurveError(
            "the levels change no more than their noise does, so that any lam fits; it takes more"
            " impressions, a longer curve that starts at round 0, or a treatment with a stronger"
            " effect"
        )
    limit = profile.rest + student**2 * variance
    low, high = profile.within(limit)
    _refuse_unbounded(curve, profile, low, high)
    return RateCalibration(
        lam=profile.lam(profile.best),
        lam_interval=(profile.lam(low), profile.lam(high)),
        ratio=profile.ratio,
        ratio_interval=profile.ratios_within(limit, low, high),
        level0=profile.level0,
        confidence=confidence,
        residuals=profile.residuals / math.sqrt(variance),
        dispersion=dispersion,
    )


def _refuse_too_few(curve: CtrCurve, known: bool) -> None:
    n_times = np.unique(curve.times).size
    if n_times < 3:
        raise UnidentifiedCurveError(
            f"a rate takes levels at three different times or more, got {n_times}"
        )
    if curve.times.size == 3 and not known:
        raise UnidentifiedCurveError(
            "three levels leave nothing to estimate their noise from; add a fourth, or give"
            " weights or impressions that tell the noise"
        )


def _refuse_unbounded(curve: CtrCurve, profile: "_Profile", low: float, high: float) -> None:
    start, last = curve.times[0], curve.times[-1]
    if low == profile.slowest:
        raise UnidentifiedCurveError(
            f"the levels may follow a straight line up to round {last:g}, so that any small lam"
            " fits; it takes a longer curve, one that bends"
        )
    if high == profile.fastest and start > 0:
        raise UnidentifiedCurveError(
            f"the curve starts at round {start:g}, when most of the change may have been over, so"
            " that any large lam fits; it takes levels from round 0 on, rounds being counted from"
            " the start of the treatment"
        )
    ends = profile.lam(low), profile.lam(high)
    if ends[1] - ends[0] > _WIDEST:
        raise UnidentifiedCurveError(
            f"lam may be anything from {ends[0]:.2g} to {ends[1]:.2g}; it takes more impressions,"
            " or more levels while they change"
        )


def _profile_of(curve: CtrCurve) -> "_Profile":
    if curve.impressions is None:
        weights = np.ones(curve.times.size) if curve.weights is None else curve.weights
        return _Profile(curve, weights)
    n, total = curve.impressions, curve.impressions.sum()
    # Variances are those of fitted levels, not of measured ones, or levels that came out low
    # by chance would count most.
    fitted = np.full(n.size, np.average(curve.levels, weights=n))
    for _ in range(30):
        # Half a click more and half a miss more: no level is certain.
        smooth = (np.clip(fitted, 0, 1) * total + 0.5) / (total + 1)
        profile = _Profile(curve, n / (smooth * (1 - smooth)))
        if np.allclose(fitted, profile.fitted, rtol=1e-3, atol=0):
            break
        fitted = profile.fitted
    return profile


class _Fits(NamedTuple):
    """Least squares at each of m rates; all arrays of shape (m,)."""

    g11: FloatArray
    g12: FloatArray
    g22: FloatArray
    determinant: FloatArray
    """The columns' products, and the determinant of their matrix."""
    free_x: FloatArray
    free_y: FloatArray
    free_rest: FloatArray
    """The columns' factors without bounds, and the squares they leave over."""
    x: FloatArray
    y: FloatArray
    rest: FloatArray
    """The same with both factors at least 0."""


class _Profile:
    """A curve's best fit at every rate, as a function of log beta; beta = -log(1 - lam).

    At a given beta the form is linear in two factors that are at least 0: level0 times
    ``exp(-beta*t)``, plus level0·ratio times ``1 - exp(-beta*t)``. Both columns are scaled to
    have a largest entry of 1, so that no beta is special to the numbers.
    """

    def __init__(self, curve: CtrCurve, weights: FloatArray) -> None:
        self._times, top = curve.times, float(curve.levels.max()) or 1.0
        self._roots = np.sqrt(weights) * top
        self._target = self._roots * (curve.levels / top)
        flat = (self._roots @ self._target) / (self._roots @ self._roots) * self._roots
        self.flat_rest = float(np.sum((self._target - flat) ** 2))
        # What levels that are exact up to rounding leave over, each.
        self.rounding = float(np.mean(self._roots**2)) * (8 * _EPS) ** 2

        start, last = float(self._times[0]), float(self._times[-1])
        gap = max(float(self._times[self._times > start][0]) - start, 1e-12 * last)
        # From rates that look like a straight line to rates that look like a jump.
        self.slowest = math.log(1e-6 / last)
        self.fastest = math.log(min(40 / gap, 700 / start if start > 0 else math.inf))
        n_rates = 10 * math.ceil(self.fastest - self.slowest) + 1
        self._grid = np.linspace(self.slowest, self.fastest, n_rates)
        self._rests = self._fits(self._grid).rest

        at = self._zoomed()
        fits, (first, second) = self._fits(at), self._columns(at)
        x, y = float(fits.x[0]), float(fits.y[0])
        self.best, self.rest = float(at[0]), float(fits.rest[0])
        self.level0 = x * math.exp(math.exp(self.best) * start) * top
        self.ratio = y / x * float(self._ratio_scale(at)[0]) if x > 0 else math.inf
        self.residuals = self._target - x * first[0] - y * second[0]
        self.fitted = curve.levels - self.residuals / self._roots * top

    def lam(self, log_beta: float) -> float:
        """Return the evolution rate; the fastest stands for a jump."""
        return 1.0 if log_beta >= self.fastest else -math.expm1(-math.exp(log_beta))

    def within(self, limit: float) -> Interval:
        """Return the lowest and highest log beta that leave at most ``limit``."""
        inside = np.append(self._grid[self._rests <= limit], self.best)
        low, high = float(inside.min()), float(inside.max())
        below, above = self._grid[self._grid < low], self._grid[self._grid > high]
        return (
            self._crossing(low, float(below[-1]), limit) if below.size else low,
            self._crossing(high, float(above[0]), limit) if above.size else high,
        )

    def ratios_within(self, limit: float, low: float, high: float) -> Interval:
        """Return the lowest and highest ratio that leave at most ``limit``, at any rate.

        At one rate the pairs of factors that do so fill an ellipse, and its tangents from the
        origin bound their ratio: the roots of ``a*ratio**2 - 2*b*ratio + c = 0``.
        """
        log_betas = np.append(np.linspace(low, high, 401), self.best)
        g11, g12, g22, size, x, y, rest, *_ = self._fits(log_betas)
        room = np.maximum(limit - rest, 0)
        a, c = size * x**2 - room * g22, size * y**2 - room * g11
        norm = g11 * x**2 + 2 * g12 * x * y + g22 * y**2
        root = size * x * y + room * g12 + np.sqrt(size * room * np.maximum(norm - room, 0))
        never = np.full_like(a, math.inf)
        lowest = np.where(c > 0, np.divide(c, root, out=never.copy(), where=root > 0), 0)
        highest = np.divide(root, a, out=never, where=a > 0)
        scale = self._ratio_scale(log_betas)
        return float(np.min(lowest * scale)), float(np.max(highest * scale))

    def _zoomed(self) -> FloatArray:
        """Return the best rate, found around the best one of the grid: shape (1,)."""
        log_betas, rests = self._grid, self._rests
        for _ in range(7):
            place = int(np.argmin(rests))
            around = log_betas[max(place - 1, 0)], log_betas[min(place + 1, log_betas.size - 1)]
            log_betas = np.linspace(*around, _STEPS)
            rests = self._fits(log_betas).rest
        return log_betas[[np.argmin(rests)]]

    def _crossing(self, inside: float, outside: float, limit: float) -> float:
        """Return the last rate within the limit on the way to one beyond it."""
        for _ in range(6):
            steps = np.linspace(inside, outside, _STEPS)
            beyond = int(np.argmax(self._fits(steps[1:]).rest > limit)) + 1
            inside, outside = float(steps[beyond - 1]), float(steps[beyond])
        return inside

    def _ratio_scale(self, log_betas: FloatArray) -> FloatArray:
        """Return what turns y/x into level0·ratio / level0, undoing the columns' scales."""
        betas = np.exp(log_betas)
        scale: FloatArray = np.exp(-betas * self._times[0]) / -np.expm1(-betas * self._times[-1])
        return scale

    def _columns(self, log_betas: FloatArray) -> tuple[FloatArray, FloatArray]:
        betas = np.exp(log_betas)[:, None]
        first = np.exp(-betas * (self._times - self._times[0]))
        second = np.expm1(-betas * self._times) / np.expm1(-betas * self._times[-1])
        return first * self._roots, second * self._roots

    def _fits(self, log_betas: FloatArray) -> _Fits:
        n_blocks = min(math.ceil(log_betas.size * self._times.size / _BLOCK), log_betas.size)
        blocks = map(self._fit_block, np.array_split(log_betas, n_blocks))
        return _Fits(*map(np.concatenate, zip(*blocks, strict=True)))

    def _fit_block(self, log_betas: FloatArray) -> _Fits:
        target, (first, second) = self._target, self._columns(log_betas)
        g11, g12, g22 = np.sum([first**2, first * second, second**2], axis=2)
        # Orthogonal columns, because the normal equations cancel near a straight line.
        apart = second - (g12 / g11)[:, None] * first
        size = np.maximum(np.sum(apart**2, axis=1), np.finfo(np.float64).tiny)
        free_y = apart @ target / size
        free_x = (first @ target - free_y * g12) / g11
        zero = np.zeros_like(g11)
        # If the free fit is out of bounds, the best within them has one factor at 0.
        x = np.array([free_x, first @ target / g11, zero])
        y = np.array([free_y, zero, second @ target / g22])
        rests = np.array(
            [
                np.sum((target - p[:, None] * first - q[:, None] * second) ** 2, axis=1)
                for p, q in zip(x, y, strict=True)
            ]
        )
        allowed = np.where((x >= 0) & (y >= 0), rests, math.inf)
        chosen = np.argmin(allowed, axis=0), np.arange(log_betas.size)
        products = g11, g12, g22, g11 * size
        return _Fits(*products, free_x, free_y, rests[0], x[chosen], y[chosen], rests[chosen])


def _quantiles(confidence: float, spare: int | None) -> tuple[float, float]:
    """Return Student's two-sided t and Fisher's F with 2 degrees; None: the noise is known."""
    miss = 1 - confidence
    if spare is None:
        return NormalDist().inv_cdf(1 - miss / 2), -math.log(miss)
    # With t = sqrt(spare) * tan(angle), the angle's density is cos(angle)**(spare - 1).
    angles = np.linspace(0, min(math.pi / 2, 12 / math.sqrt(spare)), 8001)
    density = np.cos(angles) ** (spare - 1)
    mass = np.append(0, np.cumsum(density[1:] + density[:-1]))
    angle = float(np.interp(confidence * mass[-1], mass, angles))
    return math.sqrt(spare) * math.tan(angle), spare / 2 * (miss ** (-2 / spare) - 1)
