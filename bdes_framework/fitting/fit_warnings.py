"""Warnings of a fit: what its log cannot tell, in plain words."""

from collections.abc import Iterator

import numpy as np

from bdes_framework._internal.arrays import FloatArray
from bdes_framework._internal.text import ascii_controls
from bdes_framework.fitting.blocks import likelihood_of_log
from bdes_framework.fitting.goodness import SIGNIFICANT, GoodnessOfFit, States
from bdes_framework.fitting.log import Log
from bdes_framework.fitting.parametrisation import (
    UNKNOWN_RATE,
    BoolArray,
    Coordinates,
    RatePrediction,
)

MAX_USEFUL_FACTOR = 1.5
"""A check that sees no smaller error in the odds is no check."""
_MAX_SCORE_DEVIATIONS = 3.5
"""Standard deviations of a score: by chance, once in two thousand logs."""
_MIN_PLAYS = 30
_HARDLY_MOVED = 0.02
_HARDLY_ANYTHING = 0.7
_WIDE_SCALE = 0.1
_WIDE_RATE = 1.0
_MAX_SHOWN_ARMS = 5
_MAX_SHOWN_FACTOR = 100


def fit_warnings(
    log: Log,
    coordinates: Coordinates,
    theta: FloatArray,
    covariance: FloatArray,
    ends: FloatArray,
    states: States,
    goodness: GoodnessOfFit,
) -> Iterator[str]:
    """Yield warnings; ``covariance`` is that of ``theta``, ``ends`` the intervals of r, b, lam."""
    n, never = log.n_arms, log.plays() == 0
    if goodness.p_value < SIGNIFICANT:
        yield (
            f"the model does not describe the log (p = {goodness.p_value:.2g}): no figure here can"
            " be trusted"
        )
    if states.impossible:
        rows = "row" if states.impossible == 1 else "rows"
        yield (
            f"{states.impossible:,} {rows} paid although the model says they cannot, with this q0"
            " and lam"
        )
    if never.any():
        yield f"never played, so nothing is known of {_arms(log, never)}"
    unpaid = ~coordinates.played & ~never
    if unpaid.any():
        yield f"played, but no reward is known of {_arms(log, unpaid)}"
    yield from _about_rewards(log)
    errors = np.sqrt(np.diag(covariance))
    prior_errors = 1 / np.sqrt(coordinates.prior_precision(theta))
    vague = errors > _HARDLY_ANYTHING * prior_errors
    still = states.deviation <= _HARDLY_MOVED * states.mean
    if still:
        yield (
            "the state hardly varied over the log, so it says little about b and lam:"
            " play runs of several arms"
        )
    yield from _about_given_rate(log, coordinates, theta)
    yield from _about_rate(log, ends[-1], errors)
    loose = vague[n : 2 * n] & ~never
    if loose.any() and not still:
        yield f"the log says hardly anything about b of {_arms(log, loose)}"
    yield from _about_scale(coordinates, theta, covariance)
    if MAX_USEFUL_FACTOR < goodness.detectable < np.inf:
        shown = goodness.detectable <= _MAX_SHOWN_FACTOR
        factor = f"{goodness.detectable:.1f}" if shown else f"over {_MAX_SHOWN_FACTOR}"
        yield (
            "too little data to check the fit: a model would have to be wrong about the odds by a"
            f" factor of {factor} to be found out"
        )
    yield from _at_boundaries(log, ends[n : 2 * n], coordinates.bounded, never | loose)


def _about_rewards(log: Log) -> Iterator[str]:
    """Warn of arms by what they tell: successes and failures, not pulls."""
    pulls, paid = log.totals()
    rarely = (pulls > 0) & (pulls < _MIN_PLAYS)
    if rarely.any():
        yield f"played fewer than {_MIN_PLAYS} times: {_arms(log, rarely)}"
    for count, what in ((paid, "paid"), (pulls - paid, "failed to pay")):
        few = (pulls >= _MIN_PLAYS) & (count < _MIN_PLAYS)
        if few.any():
            yield (
                f"{what} fewer than {_MIN_PLAYS} times, so intervals are wide, and forecasts too"
                f" narrow: {_arms(log, few)}"
            )


def _about_given_rate(log: Log, coordinates: Coordinates, theta: FloatArray) -> Iterator[str]:
    """Warn if the log speaks against a rate that was given: a score test.

    The goodness of fit may not see it, because b can make up for much of a wrong rate.
    """
    if coordinates.lam == UNKNOWN_RATE:
        return
    at = coordinates.instance(theta)
    _, score, information = likelihood_of_log(log, at)
    rate = 2 * at.n_arms
    others = np.flatnonzero(np.diag(information)[:rate] > 0)
    inner = information[np.ix_(others, others)]
    weights = np.linalg.lstsq(inner, information[others, rate], rcond=None)[0]
    variance = information[rate, rate] - weights @ information[others, rate]
    if variance <= 1e-9 * information[rate, rate]:
        return
    deviations = (score[rate] - weights @ score[others]) / np.sqrt(variance)
    inside = at.lam < 1 if deviations > 0 else at.lam > 0
    if abs(deviations) > _MAX_SCORE_DEVIATIONS and inside:
        given = "predicted" if isinstance(coordinates.lam, RatePrediction) else "given"
        side = "higher" if deviations > 0 else "lower"
        yield (
            f"the log contradicts the rate that was {given}: a {side} one than {at.lam:.3g} would"
            " explain it better"
        )


def _about_rate(log: Log, ends: FloatArray, errors: FloatArray) -> Iterator[str]:
    if errors.size == 2 * log.n_arms:  # lam is known
        return
    low, high = ends
    if low * log.longest < 0.1:
        yield "lam cannot be distinguished from 0, at which the state never moves"
    if high > 0.999:
        yield "lam cannot be distinguished from 1, at which one pull decides the state"
    if errors[-1] > _WIDE_RATE:
        yield f"lam is known only to lie between {low:.2g} and {high:.2g}"


def _about_scale(
    coordinates: Coordinates, theta: FloatArray, covariance: FloatArray
) -> Iterator[str]:
    """Warn if ``(c*r, b/c)`` explains the log as well, over a wide range of c."""
    if not coordinates.bounded:
        yield "q0 is unknown: r and b are in units of it, and only products r·b/q0 compare"
    n, played = coordinates.n_arms, coordinates.played
    relative = coordinates.jacobian(theta) / coordinates.parameters(theta)[:, None]
    of_r, of_b = played @ relative[:n], played @ relative[n : 2 * n]
    weights = np.array([of_r - of_b, of_r + of_b])
    scale, product = np.sqrt(np.diag(weights @ covariance @ weights.T)) / (2 * played.sum())
    if scale <= _WIDE_SCALE or scale <= 3 * product:
        return
    at = coordinates.instance(theta)
    low, high = float(np.exp(-1.96 * scale)), float(np.exp(1.96 * scale))
    # No probability passes 1, and no b where it is bounded; elsewhere its bound moves along.
    high = min(high, 1 / float(at.r[played].max() * coordinates.peak))
    if coordinates.bounded:
        low = max(low, float(at.b[played].max()))
    if high / low > 1 + _WIDE_SCALE:
        yield (
            "r and b are known only up to a common factor: (c·r, b/c) explains the log as well"
            f" for c from {low:.2g} to {high:.2g}; rows right after the start of a sequence would"
            " tell"
        )


def _at_boundaries(log: Log, ends: FloatArray, bounded: bool, loose: BoolArray) -> Iterator[str]:
    bottom = (ends[:, 1] < 0.05) & ~loose
    top = (ends[:, 0] > 0.9) & (ends[:, 1] > 0.99) & bounded & ~loose
    for where, value in ((bottom, 0), (top, 1)):
        if where.any():
            yield f"b is at its boundary {value} for {_arms(log, where)}"


def _arms(log: Log, where: BoolArray) -> str:
    """Name arms; the names are other people's text."""
    chosen = np.flatnonzero(where)
    names = [ascii_controls(log.names[arm])[:40] for arm in chosen[:_MAX_SHOWN_ARMS]]
    more = f" and {chosen.size - _MAX_SHOWN_ARMS} more" if chosen.size > _MAX_SHOWN_ARMS else ""
    return f"arm{'s' if chosen.size > 1 else ''} {', '.join(names)}{more}"
