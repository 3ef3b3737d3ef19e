"""Least-squares fits of an exponential curve, profiled over its rate."""

import math
from typing import NamedTuple

import numpy as np

from bdes_framework._internal.arrays import FloatArray
from bdes_framework._internal.distributions import (
    fisher_quantile,
    normal_quantile,
    student_quantile,
)

_BLOCK = 1 << 20
"""Rates times measurements that are worked on at once, so that memory stays flat."""

_STEPS = 65
"""Rates tried at once when zooming in: seven rounds are as fine as rounding lets a fit be."""


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


class Profile:
    """A curve's best fit at every rate, as a function of log beta; beta = -log(1 - lam).

    At a given beta the form is linear in two factors that are at least 0: level0 times
    ``exp(-beta*t)``, plus level0·ratio times ``1 - exp(-beta*t)``. Both columns are scaled to
    have a largest entry of 1, so that no beta is special to the numbers. If level0 is known,
    only the second factor is fitted.
    """

    def __init__(
        self, times: FloatArray, levels: FloatArray, weights: FloatArray, level0: float | None
    ) -> None:
        self._times, top = times, float(levels.max()) or 1.0
        self._roots = np.sqrt(weights) * top
        self._target = self._roots * (levels / top)
        self._known_x = None if level0 is None else level0 / top
        flat = self._known_x
        if flat is None:
            flat = float(self._roots @ self._target) / float(self._roots @ self._roots)
        self.flat_rest = float(np.sum((self._target - flat * self._roots) ** 2))
        # What levels that are exact up to rounding leave over, each.
        self.rounding = float(np.mean(self._roots**2)) * (8 * math.ulp(1.0)) ** 2

        # A known level at round 0 is as good as a curve that starts there.
        self.start, last = float(times[0]) if level0 is None else 0.0, float(times[-1])
        gap = max(float(times[times > self.start][0]) - self.start, 1e-12 * last)
        # From rates that look like a straight line to rates that look like a jump.
        self.slowest = math.log(1e-6 / last)
        self.fastest = math.log(min(40 / gap, 700 / self.start if self.start > 0 else math.inf))
        n_rates = 10 * math.ceil(self.fastest - self.slowest) + 1
        self._grid = np.linspace(self.slowest, self.fastest, n_rates)
        on_grid = self._fits(self._grid)
        self._rests, self.free_rest = on_grid.rest, float(on_grid.free_rest.min())

        at = self._zoomed()
        fits, (first, second) = self._fits(at), self._columns(at)
        x, y = float(fits.x[0]), float(fits.y[0])
        self.best, self.rest = float(at[0]), float(fits.rest[0])
        self.level0 = level0 or x * math.exp(math.exp(self.best) * self.start) * top
        self.ratio = y / x * float(self._ratio_scale(at)[0]) if x > 0 else math.inf
        self.residuals = self._target - x * first[0] - y * second[0]
        self.fitted = levels - self.residuals / self._roots * top

    def lam(self, log_beta: float) -> float:
        """Return the evolution rate; the fastest stands for a jump."""
        return 1.0 if log_beta >= self.fastest else -math.expm1(-math.exp(log_beta))

    def within(self, limit: float) -> tuple[float, float]:
        """Return the lowest and highest log beta that leave at most ``limit``."""
        inside = np.append(self._grid[self._rests <= limit], self.best)
        low, high = float(inside.min()), float(inside.max())
        below, above = self._grid[self._grid < low], self._grid[self._grid > high]
        return (
            self._crossing(low, float(below[-1]), limit) if below.size else low,
            self._crossing(high, float(above[0]), limit) if above.size else high,
        )

    def ratios_within(self, limit: float, low: float, high: float) -> tuple[float, float]:
        """Return the lowest and highest ratio that leave at most ``limit``, at any rate.

        At one rate the pairs of factors that do so fill an ellipse, and its tangents from the
        origin bound their ratio: the roots of ``a*ratio**2 - 2*b*ratio + c = 0``. If the first
        factor is known, they fill a line.
        """
        log_betas = np.append(np.linspace(low, high, 401), self.best)
        g11, g12, g22, size, x, y, rest, *_ = self._fits(log_betas)
        room, scale = np.maximum(limit - rest, 0), self._ratio_scale(log_betas)
        if self._known_x is not None:
            reach = np.sqrt(room / g22)
            ends = np.maximum([y - reach, y + reach], 0) * scale / self._known_x
            return float(ends[0].min()), float(ends[1].max())
        a, c = size * x**2 - room * g22, size * y**2 - room * g11
        norm = g11 * x**2 + 2 * g12 * x * y + g22 * y**2
        root = size * x * y + room * g12 + np.sqrt(size * room * np.maximum(norm - room, 0))
        never = np.full_like(a, math.inf)
        lowest = np.where(c > 0, np.divide(c, root, out=never.copy(), where=root > 0), 0)
        highest = np.divide(root, a, out=never, where=a > 0)
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
        scale: FloatArray = np.exp(-betas * self.start) / -np.expm1(-betas * self._times[-1])
        return scale

    def _columns(self, log_betas: FloatArray) -> tuple[FloatArray, FloatArray]:
        betas = np.exp(log_betas)[:, None]
        first = np.exp(-betas * (self._times - self.start))
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
        zero = np.zeros_like(g11)
        # If the free fit is out of bounds, the best within them has one factor at 0.
        if self._known_x is None:
            free_y = apart @ target / size
            free_x = (first @ target - free_y * g12) / g11
            x = np.array([free_x, first @ target / g11, zero])
            y = np.array([free_y, zero, second @ target / g22])
        else:
            free_x = np.full_like(g11, self._known_x)
            free_y = (second @ target - free_x * g12) / g22
            x, y = np.array([free_x, free_x]), np.array([free_y, zero])
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


def quantiles(confidence: float, spare: int | None) -> tuple[float, float]:
    """Return Student's two-sided t and Fisher's F with 2 degrees; None: the noise is known."""
    two_sided = (1 + confidence) / 2
    if spare is None:
        return normal_quantile(two_sided), -math.log(1 - confidence)
    return student_quantile(two_sided, spare), fisher_quantile(confidence, 2, spare)
