"""Goodness of fit: a chi-square test of predicted against observed rewards, over bins.

Rows are put into bins by their predicted probability, and the rewards of each bin are compared
with their expectation. Fitting has drawn the two together; the covariance of the differences
allows for it, so that the statistic has a chi-square distribution whatever K is (a
Rao-Robson-Nikulin statistic). That covariance is of differences at the largest likelihood. The
estimates stand a step away from it, as priors pull: many small pulls, all in the direction that
fitting leaves the least variance in, so the differences are taken where that step leads.
"""

import math

import numpy as np
from attrs import frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.display import shown_fields
from bdes_framework._internal.distributions import chi_square_quantile, chi_square_tail
from bdes_framework.fitting.blocks import Rows, of_blocks
from bdes_framework.fitting.likelihood import (
    MIN_PROBABILITY,
    AnyIntArray,
    fresh_state,
    move_slopes,
    paying_probability,
    restart_slopes,
)
from bdes_framework.fitting.log import Log
from bdes_framework.model.compiling import compiled
from bdes_framework.model.instance import Instance

N_BINS = 20
SIGNIFICANT = 0.01
_POWER_QUANTILE = 0.8416
"""The normal quantile of 80 %."""
_N_FINE_BINS = 4096
_LOGIT_RANGE = 24.0
_MIN_EIGENVALUE = 0.1
"""Directions in which fitting leaves less than this of the variance show nothing but rounding
and curvature."""


@frozen(eq=False)
class GoodnessOfFit:
    """Predicted against observed rewards, bin by bin.

    Parameters
    ----------
    rows : FloatArray, shape (B,)
        How many rows each bin has; bins hold about equally many, in order of their predicted
        probability.
    predicted, observed : FloatArray, shape (B,)
        The mean predicted probability, and the mean reward.
    statistic : float
        The chi-square statistic.
    freedom : int
        Its degrees of freedom; 0 if the bins leave nothing to check.
    p_value : float
        How often a log of the fitted model would fit no better; 1 with no freedom. Below 0.01
        the model does not describe the log.
    detectable : float
        How wrong the model would have to be to be found out, in four of five such logs: the
        factor, one way or the other, by which it is wrong about the odds of every bin.
        Infinite with no freedom.
    """

    rows: FloatArray
    predicted: FloatArray
    observed: FloatArray
    statistic: float
    freedom: int
    p_value: float
    detectable: float

    def __repr__(self) -> str:
        statistic, p_value = f"{self.statistic:.4g}", f"{self.p_value:.2g}"
        shown = {"statistic": statistic, "freedom": self.freedom, "p_value": p_value}
        return shown_fields("GoodnessOfFit", **shown, bins=self.rows.size)


@frozen
class States:
    """How much the fitted state varied over the rows of a log with known rewards."""

    mean: float
    deviation: float
    impossible: int
    """Rows that paid in a state in which nothing pays."""


def check_fit(
    log: Log, instance: Instance, covariance: FloatArray, step: FloatArray
) -> tuple[GoodnessOfFit, States]:
    """Bin the rows of a log by what the fitted instance predicts.

    ``covariance`` is that of the free parameters: of r, b and, if it was estimated, lam; ``step``
    leads from them to where the likelihood is largest.
    """
    r, b, lam, q0 = instance.r, instance.b, instance.lam, instance.q0

    def one(block: Rows) -> tuple[FloatArray, FloatArray]:
        sums, slopes = np.zeros((_N_FINE_BINS, 7)), np.zeros((_N_FINE_BINS, 2 * log.n_arms + 2))
        _sum_fine_bins(*block, r, b, lam, q0, fresh_state(log.n_arms, q0), sums, slopes)
        return sums, slopes

    found = of_blocks(log, one)
    sums, slopes = next(found)
    for other in found:
        sums += other[0]
        slopes += other[1]
    # Neighbouring fine bins are joined into bins of about equally many rows.
    sums, slopes = sums[sums[:, 0] > 0], slopes[sums[:, 0] > 0]
    counts, n_rows = sums[:, 0], float(sums[:, 0].sum())
    wanted = np.minimum((np.cumsum(counts) - counts) * N_BINS // n_rows, N_BINS - 1)
    _, firsts = np.unique(wanted, return_index=True)
    sums = np.add.reduceat(sums, firsts)
    rows, predicted, observed, variance, impossible, states, squares = sums.T
    slopes = np.add.reduceat(slopes, firsts)[:, : step.size]
    mean = float(states.sum()) / n_rows
    deviation = math.sqrt(max(0.0, float(squares.sum()) / n_rows - mean**2))
    differences = observed - predicted - slopes @ step
    statistic, freedom = _chi_square(differences, variance, slopes, covariance)
    p_value = chi_square_tail(statistic, freedom)
    detectable = _detectable(freedom, float(variance.sum()) * freedom / rows.size)
    means = predicted / rows, observed / rows
    goodness = GoodnessOfFit(rows, *means, statistic, freedom, p_value, detectable)
    return goodness, States(mean, deviation, int(impossible.sum()))


def _chi_square(
    differences: FloatArray, variance: FloatArray, slopes: FloatArray, covariance: FloatArray
) -> tuple[float, int]:
    scale = np.sqrt(variance)
    scaled = slopes / scale[:, None]
    left = np.eye(scale.size) - scaled @ covariance @ scaled.T
    eigenvalues, vectors = np.linalg.eigh(left)
    kept = eigenvalues > _MIN_EIGENVALUE
    along = (differences / scale) @ vectors[:, kept]
    return float(np.sum(along**2 / eigenvalues[kept])), int(kept.sum())


def _detectable(freedom: int, variance: float) -> float:
    """Return the least factor of the odds that the check would most likely see.

    A factor exp(x) adds x² times the variance of a bin to the noncentrality; fitting hides a part.
    """
    if freedom == 0 or variance == 0:
        return math.inf
    # No exponent beyond a float's: a factor of 1e300 is as good as any.
    return math.exp(min(math.sqrt(_visible_noncentrality(freedom) / variance), 690.0))


def _visible_noncentrality(freedom: int) -> float:
    """Return what makes a chi-square variable exceed its 1 % point in 80 of 100 cases.

    It is nearly normal, with mean ``freedom + x`` and variance ``2 * freedom + 4 * x``.
    """
    limit = chi_square_quantile(1 - SIGNIFICANT, freedom)
    # The root of freedom + x - z * s = limit, s = sqrt(2 * freedom + 4 * x) the deviation.
    deviation = 2 * (_POWER_QUANTILE + math.sqrt(_POWER_QUANTILE**2 + limit - freedom / 2))
    return (deviation**2 - 2 * freedom) / 4


@compiled
def _sum_fine_bins(
    arms: AnyIntArray,
    rewards: AnyIntArray,
    starts: IntArray,
    r: FloatArray,
    b: FloatArray,
    lam: float,
    q0: float,
    state: FloatArray,
    sums: FloatArray,
    slopes: FloatArray,
) -> None:
    """Sum, over the rows of each fine bin of the predicted logit, what a check needs.

    Rows whose reward is not known are left out.

    ``sums`` has columns for rows, predictions, rewards, variances, impossible rewards, states and
    squared states; ``slopes`` are those of the predictions.
    """
    n_arms, n = r.size, r.size + 2
    d, q, following = state[:n].copy(), q0, 0
    for t in range(arms.size):
        if following < starts.size and starts[following] == t:
            following += 1
            restart_slopes(d)
            q = q0
        arm = arms[t]
        if rewards[t] >= 0:
            mu = paying_probability(r[arm], q)
            share = (math.log(mu / (1.0 - mu)) / _LOGIT_RANGE + 1.0) / 2.0
            place = min(max(int(share * _N_FINE_BINS), 0), _N_FINE_BINS - 1)
            sums[place, 0] += 1.0
            sums[place, 1] += mu
            sums[place, 2] += rewards[t]
            sums[place, 3] += mu * (1.0 - mu)
            if rewards[t] == 1 and r[arm] * q < MIN_PROBABILITY:
                sums[place, 4] += 1.0
            sums[place, 5] += q
            sums[place, 6] += q * q
            slopes[place, arm] += q
            for j in range(n):
                slopes[place, n_arms + j] += r[arm] * d[j]
        change = b[arm] - q
        move_slopes(d, arm, lam, change)
        q = q + lam * change
