"""Estimate lam from three means of one arm's rewards, at three states."""

import math

from attrs import frozen


@frozen
class RateEstimate:
    """An estimate of lam, and how well the three means determine it.

    Parameters
    ----------
    unclipped : float
        The estimate as it comes out; NaN if the denominator is 0. Far outside [0, 1] it
        means that the state had not settled before the samples.
    denominator : float
        The gap that everything is divided by, r_i·(b_i - b_j)/(2 - lam) in the limit: the
        smaller, the less the estimate is worth.
    standard_error : float
        Of ``unclipped``, to first order; infinite if the denominator is 0.
    """

    unclipped: float
    denominator: float
    standard_error: float

    @property
    def lam(self) -> float:
        """The estimate, cut to [0, 1]; NaN if the denominator is 0."""
        if math.isnan(self.unclipped):
            return math.nan
        return min(max(self.unclipped, 0.0), 1.0)


def estimate_lam(
    after_other: float,
    settled: float,
    alternating: float,
    samples: float | tuple[float, float, float] = math.inf,
) -> RateEstimate:
    """Estimate the evolution rate from three mean rewards of an arm i, and another arm j.

    The last line of the paper's Algorithm 7 with its formula corrected (as printed it is
    always 1): ``1 + (after_other - alternating) / (settled - alternating)``.

    Parameters
    ----------
    after_other : float
        Mean reward of i after many pulls of j: r_i·b_j in the limit.
    settled : float
        Mean reward of i after many pulls of i: r_i·b_i in the limit.
    alternating : float
        Mean reward of i after i and j have alternated for long, j last:
        r_i·(b_j + (1 - lam)·b_i)/(2 - lam) in the limit.
    samples : float | tuple[float, float, float]
        How many rewards of 0 or 1 the means are over; infinite if they are exact.

    Examples
    --------
    >>> round(estimate_lam(after_other=0.72, settled=0.08, alternating=0.48).lam, 12)
    0.4
    """
    denominator = settled - alternating
    if denominator == 0:
        return RateEstimate(math.nan, 0.0, math.inf)
    ratio = (after_other - alternating) / denominator
    counts = samples if isinstance(samples, tuple) else (samples,) * 3
    spread = (
        _variance(after_other) / counts[0]
        + ratio**2 * _variance(settled) / counts[1]
        + (1 - ratio) ** 2 * _variance(alternating) / counts[2]
    )
    return RateEstimate(1 + ratio, denominator, math.sqrt(spread) / abs(denominator))


def _variance(mean: float) -> float:
    return max(mean * (1 - mean), 0.0)
