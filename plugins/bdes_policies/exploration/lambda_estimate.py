"""Estimate lam from three means of one arm's rewards, at three states."""

import math

from attrs import frozen

from bdes_framework import state_decay


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


def block_share(lam: float, length: int) -> float:
    """Return how far another arm moves an arm's mean, if blocks of both are played in turn.

    The mean over a block of i is r_i·(b_i + share·(b_j - b_i)), once the same blocks have been
    played for long: (1 - x)/((1 + x)·lam·N), with x = (1 - lam)^N for blocks of N pulls.
    """
    kept, lost = state_decay(lam, length)
    return lost / ((1 + kept) * lam * length)


def estimate_lam_by_blocks(
    alone: float,
    alternating: float,
    in_blocks: float,
    length: int,
    samples: float | tuple[float, float, float] = math.inf,
) -> RateEstimate:
    """Estimate the evolution rate from three mean rewards of an arm i, in blocks with an arm j.

    Not in the paper. The longer the blocks, the less of j's end state is in i's mean: the
    excess over i alone falls from that of single pulls in turn to about 1/(lam·N) of it. Every
    pull of i is a sample, and the error is relative to lam, however small lam is, if blocks
    are as long as the state takes to settle.

    Parameters
    ----------
    alone : float
        Mean reward of i after many pulls of i: r_i·b_i in the limit.
    alternating : float
        Mean reward of i while i and j alternate.
    in_blocks : float
        Mean reward of i, over all of its pulls, while blocks of j and of i alternate.
    length : int
        How many pulls a block has, at least 2.
    samples : float | tuple[float, float, float]
        How many rewards of 0 or 1 the means are over; infinite if they are exact.

    Examples
    --------
    >>> round(estimate_lam_by_blocks(0.08, alternating=0.48, in_blocks=0.3882, length=4).lam, 3)
    0.4
    """
    gap = alternating - alone
    if gap == 0:
        return RateEstimate(math.nan, 0.0, math.inf)
    fallen = (in_blocks - alone) / gap
    lam = _rate_of_fall(fallen, length)
    counts = samples if isinstance(samples, tuple) else (samples,) * 3
    spread = (
        (1 - fallen) ** 2 * _variance(alone) / counts[0]
        + fallen**2 * _variance(alternating) / counts[1]
        + _variance(in_blocks) / counts[2]
    )
    # How the share falls with lam, from a step to the side that lies in (0, 1].
    near = 0.999 * lam
    slope = (_fall(lam, length) - _fall(near, length)) / (lam - near) if lam > 0 else 0.0
    error = math.sqrt(spread) / abs(gap * slope) if slope else math.inf
    return RateEstimate(lam, gap, error)


def _fall(lam: float, length: int) -> float:
    return block_share(lam, length) / block_share(lam, 1)


def _rate_of_fall(fallen: float, length: int) -> float:
    """Return the lam at which the share falls to ``fallen``; 0 or 1 if none is between them."""
    if fallen <= 1 / length:
        return 1.0
    if fallen >= _fall(_SLOWEST, length):
        return 0.0
    low, high = math.log(_SLOWEST), 0.0
    for _ in range(60):
        middle = (low + high) / 2
        if _fall(math.exp(middle), length) > fallen:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2)


_SLOWEST = 1e-12
"""No horizon shows a slower rate."""


def _variance(mean: float) -> float:
    return max(mean * (1 - mean), 0.0)
