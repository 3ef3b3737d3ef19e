"""Calibration: the evolution rate from a curve of CTR under one repeated treatment.

Pulling one arm for t rounds takes the state to ``b - (1 - lam)**t * (b - q0)``, the form that
Hohnhold et al. (2015) measured. A click-through rate shows it times an unknown factor, so a
curve of levels identifies ``lam`` and ``ratio = b / q0``, and no more:
``level(t) = level0 * (ratio + (1 - ratio) * (1 - lam)**t)``. A curve of relative changes,
``U(t) = level(t) / level0 - 1``, is one of levels whose first one is known to be 1.
"""

import math
from collections.abc import Sequence
from typing import Any, Self, TypeAlias

import numpy as np
from attrs import converters, field, frozen
from numpy.typing import NDArray

from bdes_framework._internal.arrays import FloatArray
from bdes_framework._internal.display import shown_fields, shown_numbers
from bdes_framework._internal.text import quoted
from bdes_framework._internal.threads import one_thread
from bdes_framework.calibration.exponential_fit import Profile, quantiles
from bdes_framework.errors import InvalidValueError

_Numbers: TypeAlias = Sequence[float] | NDArray[np.floating[Any]] | NDArray[np.integer[Any]]

_MAX_WIDTH = 0.5
"""An interval for lam that covers more than this much of [0, 1] is no answer."""

_FORM_CONFIDENCE = 0.999
"""How sure it takes to say that a curve has another form; one in a thousand is rejected wrongly."""

_MAX_SIZE = 1e30
"""Of levels in standard deviations: products of eight of them are calculated with."""


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


def _check_column(name: str, values: FloatArray, size: int, zero_allowed: bool) -> None:
    if values.size != size:
        raise InvalidValueError(
            f"times and {name} need one number per measurement each, got {size} and {values.size}"
        )
    good = np.isfinite(values) & (values >= 0 if zero_allowed else values > 0)
    if not good.all():
        where, least = int(np.argmin(good)), "of at least" if zero_allowed else "above"
        hint = "; for changes, use CtrCurve.from_changes" if name == "levels" else ""
        raise InvalidValueError(
            f"{name}[{where}]: expected a finite number {least} 0, got {values[where]}{hint}"
        )


@frozen(eq=False)
class CtrCurve:
    """CTR levels measured while one treatment was repeated.

    Without ``weights`` or ``impressions`` every level counts the same, and the noise is
    estimated from what the fit leaves over.

    Parameters
    ----------
    times : FloatArray, shape (n,)
        How many rounds of the treatment came before each measurement; at least 0, never
        decreasing, as uneven as you like.
    levels : FloatArray, shape (n,)
        The CTR then, or anything proportional to it; at least 0.
    weights : FloatArray | None, shape (n,)
        The inverse variance of each level; above 0.
    impressions : FloatArray | None, shape (n,)
        How many impressions each level is the mean of; levels are then at most 1, and
        their variance is binomial. Instead of ``weights``.
    level0 : float | None
        The level at round 0 if it is known, above 0; otherwise it is fitted.
    """

    times: FloatArray = field(converter=_as_column)
    levels: FloatArray = field(converter=_as_column)
    weights: FloatArray | None = field(default=None, converter=converters.optional(_as_column))
    impressions: FloatArray | None = field(default=None, converter=converters.optional(_as_column))
    level0: float | None = None

    def __repr__(self) -> str:
        times, levels = shown_numbers(self.times), shown_numbers(self.levels)
        return shown_fields("CtrCurve", times=times, levels=levels, level0=self.level0)

    def __attrs_post_init__(self) -> None:
        for name in ("times", "levels", "weights", "impressions"):
            values, zero_allowed = getattr(self, name), name in ("times", "levels")
            if values is not None:
                _check_column(name, values, self.times.size, zero_allowed)
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
        if self.level0 is not None and not 0 < self.level0 < math.inf:
            raise InvalidValueError(
                f"level0: expected a finite number above 0, got {quoted(self.level0)}"
            )

    @classmethod
    def from_changes(
        cls, times: _Numbers, changes: _Numbers, weights: _Numbers | None = None
    ) -> Self:
        """Return the curve of relative changes of CTR since round 0, the paper's U(t).

        Parameters
        ----------
        times : FloatArray, shape (n,)
            How many rounds of the treatment came before each measurement. Round 0 need not be
            there: a change since then is 0 there, whatever was measured.
        changes : FloatArray, shape (n,)
            The CTR then, divided by that of people without the treatment, minus 1: -0.2 is
            a fifth less. At least -1.
        weights : FloatArray | None, shape (n,)
            The inverse variance of each change; above 0.

        Examples
        --------
        >>> days = [7, 14, 28, 56, 84]
        >>> changes = [-0.3 * (1 - 0.95**t) for t in days]
        >>> fit = calibrate_rate(CtrCurve.from_changes(days, changes))
        >>> round(fit.lam, 6), round(fit.ratio, 6)
        (0.05, 0.7)
        """
        column = _as_column(changes)
        good = np.isfinite(column) & (column >= -1)
        if not good.all():
            where = int(np.argmin(good))
            raise InvalidValueError(
                f"changes[{where}]: expected a finite number of at least -1, got {column[where]};"
                " a change is relative, so that -0.2 is a fifth less"
            )
        return cls(times, 1 + column, weights, level0=1.0)


@frozen(eq=False)
class RateCalibration:
    """Estimates of the evolution rate and of b/q0 from a curve, with intervals.

    Intervals are profile-likelihood intervals: the values that the curve does not reject
    when everything else is fitted to them. They keep to 0 <= lam <= 1 and b >= 0.

    Parameters
    ----------
    lam : float
        The evolution rate.
    lam_interval : tuple[float, float]
        Its lower and upper end.
    ratio : float
        b/q0: the treatment's end state, relative to the state it started from; ``inf`` for a
        curve that starts at 0.
    ratio_interval : tuple[float, float]
        Its lower and upper end.
    level0 : float
        The level at round 0, r·q0, in the unit of the levels: the fitted one, or the one that
        was known, which is 1 for a curve of changes.
    confidence : float
        How often such intervals cover the truth.
    residuals : FloatArray, shape (n,)
        Measured minus fitted levels, in standard deviations.
    dispersion : float | None
        Weighted squares left over per degree of freedom. Near 1 if the weights or impressions
        tell the noise and the form fits; far above, one of the two is wrong. Without either,
        the estimated variance of a level. None if the measurements leave nothing over.
    """

    lam: float
    lam_interval: tuple[float, float]
    ratio: float
    ratio_interval: tuple[float, float]
    level0: float
    confidence: float
    residuals: FloatArray
    dispersion: float | None

    def __repr__(self) -> str:
        def text(value: float, interval: tuple[float, float]) -> str:
            return f"{value:.4g} ({interval[0]:.4g} to {interval[1]:.4g})"

        return shown_fields(
            "RateCalibration",
            lam=text(self.lam, self.lam_interval),
            ratio=text(self.ratio, self.ratio_interval),
            confidence=self.confidence,
            level0=self.level0,
        )


@one_thread()
def calibrate_rate(
    curve: CtrCurve, *, confidence: float = 0.95, estimate_noise: bool = False
) -> RateCalibration:
    """Fit lam and b/q0 to a curve by weighted least squares.

    Parameters
    ----------
    curve : CtrCurve
        What was measured.
    confidence : float
        Above 0 and below 1, for the intervals, and for what counts as identified.
    estimate_noise : bool
        Take the curve's weights or impressions as relative only, and the size of the noise
        from what the fit leaves over. Always so for a curve that has neither.

    Raises
    ------
    UnidentifiedCurveError
        If the curve has too few points, is flat up to its noise, may be straight, falls as no
        end state of at least 0 allows, or leaves lam anywhere in more than half of [0, 1].

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
    _check_extreme(curve)
    known = not estimate_noise and (curve.weights is not None or curve.impressions is not None)
    spare = _spare_measurements(curve)
    if spare == 0 and not known:
        raise UnidentifiedCurveError(
            "too few levels to estimate their noise from; add another, or give weights or"
            " impressions that tell the noise"
        )
    profile = _profile_of(curve)
    dispersion = profile.rest / spare if spare else None
    variance = max(1.0 if known or dispersion is None else dispersion, profile.rounding)
    student, fisher = quantiles(confidence, None if known else spare)
    if profile.flat_rest - profile.rest <= 2 * fisher * variance:
        raise UnidentifiedCurveError(
            "the levels change no more than their noise does, so that any lam fits; it takes more"
            " impressions, a longer curve that starts at round 0, or a treatment with a stronger"
            " effect"
        )
    _check_negative_end(profile, None if known else spare)
    limit = profile.rest + student**2 * variance
    low, high = profile.within(limit)
    _check_unbounded(profile, low, high, last=float(curve.times[-1]))
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


def _spare_measurements(curve: CtrCurve) -> int:
    """Return how many measurements there are beyond the numbers to fit; raise if too few."""
    counted = curve.times
    if curve.level0 is not None:
        # The known level itself is no measurement: noise estimated from it would be too small.
        counted = counted[(curve.times > 0) | (curve.levels != curve.level0)]
        n_times, needed = np.unique(counted[counted > 0]).size, "two different times after round 0"
    else:
        n_times, needed = np.unique(counted).size, "three different times"
    n_fitted = 3 if curve.level0 is None else 2
    if n_times < n_fitted:
        raise UnidentifiedCurveError(f"a rate takes levels at {needed} or more, got {n_times}")
    return int(counted.size) - n_fitted


def _check_extreme(curve: CtrCurve) -> None:
    weight = 1.0 if curve.weights is None else float(curve.weights.max())
    largest = float(curve.levels.max())
    for size in (largest, largest * math.sqrt(weight), curve.level0 or 0):
        if size > 0 and not 1 / _MAX_SIZE <= size <= _MAX_SIZE:
            raise InvalidValueError(
                "levels, or levels and weights, are too large or too small to square; give them in"
                " another unit"
            )


def _check_negative_end(profile: Profile, spare: int | None) -> None:
    """Raise for a fall that does not flatten: there b >= 0 decides lam, not the curve."""
    noise = 1.0 if spare is None else profile.free_rest / spare
    student, _ = quantiles(_FORM_CONFIDENCE, spare)
    if profile.rest - profile.free_rest > student**2 * max(noise, profile.rounding):
        raise UnidentifiedCurveError(
            "the levels fall too straight for an end state of at least 0: they do not follow the"
            " exponential form, or fall for another reason as well; divide by a control group's"
            " level, or leave out what came before or after the treatment"
        )


def _check_unbounded(profile: Profile, low: float, high: float, last: float) -> None:
    start = profile.start
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
    if ends[1] - ends[0] > _MAX_WIDTH:
        raise UnidentifiedCurveError(
            f"lam may be anything from {ends[0]:.2g} to {ends[1]:.2g}; it takes more impressions,"
            " or more levels while they change"
        )


def _profile_of(curve: CtrCurve) -> Profile:
    if curve.impressions is None:
        weights = np.ones(curve.times.size) if curve.weights is None else curve.weights
        return Profile(curve.times, curve.levels, weights, curve.level0)
    n, total = curve.impressions, curve.impressions.sum()
    # Variances are those of fitted levels, not of measured ones, or levels that came out low
    # by chance would count most.
    fitted = np.full(n.size, np.average(curve.levels, weights=n))
    for _ in range(30):
        # Half a click more and half a miss more: no level is certain.
        smooth = (np.clip(fitted, 0, 1) * total + 0.5) / (total + 1)
        profile = Profile(curve.times, curve.levels, n / (smooth * (1 - smooth)), curve.level0)
        if np.allclose(fitted, profile.fitted, rtol=1e-3, atol=0):
            break
        fitted = profile.fitted
    return profile
