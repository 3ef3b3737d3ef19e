"""Estimate the parameters of a log of pulls, and forecast with them: :func:`fit`.

The estimates are the mode of the posterior in logit coordinates, found by Fisher scoring: the
likelihood is explicit for every row (see :mod:`likelihood`), one step costs one sweep, and a few
steps are enough. As it may have several modes in ``lam``, scoring starts from rates all over
(0, 1), each on as many of the first rows as it needs to show itself.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import scipy
from attrs import evolve, frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.numbers import as_integer
from bdes_framework._internal.text import quoted
from bdes_framework._internal.threads import one_thread
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.blocks import map_on_threads, sweeping_threads
from bdes_framework.fitting.clustered import clustered_covariance
from bdes_framework.fitting.drift import Drift, fit_drift
from bdes_framework.fitting.fisher_scoring import PosteriorPoint
from bdes_framework.fitting.fit_warnings import fit_warnings
from bdes_framework.fitting.goodness import check_fit
from bdes_framework.fitting.intervals import intervals, widen_by_profiles
from bdes_framework.fitting.log import Log
from bdes_framework.fitting.log_posterior import (
    climb,
    climb_by_scores,
    objective_at,
    point_at,
    without_flat_prior,
)
from bdes_framework.fitting.multiplier import fit_multiplier
from bdes_framework.fitting.parametrisation import UNKNOWN_RATE, Coordinates, RatePrediction
from bdes_framework.fitting.quasi_newton import ScorePoint
from bdes_framework.fitting.result import Fit, ModelScore, natural_covariance
from bdes_framework.model.instance import Instance, as_rate
from bdes_framework.model.schedule import Schedule

Playable: TypeAlias = Sequence[int] | IntArray | Schedule

Users: TypeAlias = Literal["alike", "clustered", "multiplier"]

MANY_ARMS = 15
"""From here on scores are so much faster than information that climbs take more of them."""
_TOLERANCE = 1e-6
"""Scoring ends when the next step is shorter than a thousandth of a standard deviation."""
_NEARLY = 1e-4
_ROUGHLY = 1e-2
_FIRST_STEPS = 20
_SECOND_STEPS = 5
_MAX_STEPS = 100
_EVALUATIONS_PER_STEP = 4
"""Where scores are all that is evaluated."""
_RATES = (0.95, 0.7, 0.4, 0.2, 0.08, 0.03, 0.01)
_MIN_ROWS = 20_000
_MAX_FIRST_ROWS = 500_000
_FIRST_KEPT = 4
_SECOND_KEPT = 2


@one_thread()
def fit(
    log: Log,
    *,
    lam: float | RatePrediction | None = None,
    q0: float | None = 1.0,
    users: Users = "alike",
    threads: int = 1,
) -> Fit:
    """Estimate ``r``, ``b`` and ``lam`` from every row of a log.

    Parameters
    ----------
    log : Log
        Arms and rewards, of one sequence or of many independent ones.
    lam : float | RatePrediction | None
        The evolution rate: known, predicted, or unknown.
    q0 : float | None
        The state at which each sequence begins. None if it is unknown but the same for all:
        then states are measured in units of it, so that the fit has ``q0 = 1`` and ``b`` may
        exceed 1. (``(c*r, b/c, q0/c)`` is the same problem for every c.)
    users : Literal["alike", "clustered", "multiplier"]
        What is assumed of users, the log's sequences. ``"alike"``: rows are independent.
        ``"clustered"``: the rewards of one user may go together, for whatever reason; estimates
        are the same, errors, intervals and draws are clustered by user. ``"multiplier"``: each
        has a factor on r of their own, log-normal with mean 1; its spread is estimated too.
        Comparisons with other models and the check of the fit are those of users who are alike.
    threads : int
        On how many threads to sweep a log of several users and more than 262,144 rows. The results
        are the same, to the last bit.

    Returns
    -------
    Fit
        Estimates, intervals, comparisons, and warnings about what the log does not tell.

    Notes
    -----
    No arm pays with a probability above 1 in any state the others lead to: in the estimates
    and in every draw, ``r * max(b, q0, 1)`` is at most 1, or, with ``q0`` unknown,
    ``r * max(b, q0)``.

    Priors are weak, but not uniform: Beta(1/2, 1/2) for every ``r * max(q0, 1)`` and ``b``, or,
    where ``q0`` is unknown, for ``b / (1 + b)``, well below the bound of b; logit(lam) normal
    around 0 with deviation 5. They give an answer where a log says nothing (the intervals of an
    arm that was never played are 0 to 1), and weigh as much as one row where it says something.

    Examples
    --------
    >>> ads = Instance(r=[0.8, 0.3], b=[0.2, 1.0], lam=0.1)
    >>> rng = np.random.default_rng(1)
    >>> arms = np.repeat(rng.integers(0, 2, 500), 8)
    >>> rewards = rng.random(4000) < ads.expected_rewards(arms)
    >>> found = fit(Log(arms, rewards))
    >>> found.lam_interval[0] < 0.1 < found.lam_interval[1]
    True
    >>> found.summary()  # doctest: +ELLIPSIS
    rows              4,000
    lam               0.088... (0.071... to 0.108...)
    log-likelihood    -...
    against no state  AIC -..., BIC -...: the state explains the log better
    against a drift   AIC -..., BIC -...: what is shown explains the log better
    goodness of fit   chi-square ... on ..., p = 0.4...: ...
    Arm  Pulls       r              95 %       b              95 %
    0      ...  0.94...
    1      ...  0.34...
    """
    rate = lam if isinstance(lam, RatePrediction) else UNKNOWN_RATE if lam is None else as_rate(lam)
    start = 1.0 if q0 is None else Instance([0.0], [0.0], 0.0, q0).q0
    pulls, _ = log.totals()
    if not pulls.any():
        raise InvalidValueError("no reward of the log is known")
    coordinates = Coordinates(log.n_arms, rate, start, q0 is not None, pulls > 0)
    if users not in get_args(Users):
        raise InvalidValueError(f"users must be one of {get_args(Users)}, got {quoted(users)}")
    with sweeping_threads(as_integer(threads, "threads", 1)):
        mode = _search(log, coordinates)
        most_likely = _most_likely(log, coordinates, mode)
        return _make_fit(log, coordinates, mode, most_likely, users)


@frozen
class Forecast:
    """An expected value and its 95 % interval, over draws of the parameters.

    Parameters
    ----------
    mean : float
        Over all draws.
    low, high : float
        Between them lie 95 % of the draws.
    """

    mean: float
    low: float
    high: float


@one_thread()
def forecast(
    draws: Sequence[Instance], schedule: Playable, against: Playable | None = None
) -> Forecast:
    """Return what a schedule will earn, or by which part it will earn more than another.

    Parameters
    ----------
    draws : Sequence[Instance]
        From :meth:`Fit.draws`.
    schedule : Schedule | Sequence[int]
        What to play.
    against : Schedule | Sequence[int] | None
        With it, the forecast is of the lift: 0.1 means that ``schedule`` earns 10 % more.

    Examples
    --------
    >>> sure = [Instance(r=[0.8, 0.4], b=[0.5, 1.0], lam=1.0)] * 3
    >>> round(forecast(sure, [0, 0]).mean, 6)
    1.2
    """
    if not draws:
        raise InvalidValueError("a forecast needs at least one draw")
    values = np.array([draw.value(schedule) for draw in draws])
    if against is not None:
        base = np.array([draw.value(against) for draw in draws])
        if not base.all():
            raise InvalidValueError("the schedule to compare with earns nothing in some draw")
        values = values / base - 1
    low, high = np.quantile(values, [0.025, 0.975])
    return Forecast(float(values.mean()), float(low), float(high))


def _search(log: Log, coordinates: Coordinates) -> PosteriorPoint:
    """Climb from several rates on parts of the log, then from the best of them on all of it."""

    def roughly(start: tuple[FloatArray, int]) -> FloatArray:
        part = log.first(start[1])
        return _approached(start[0], part, coordinates, _ROUGHLY, _FIRST_STEPS)[0]

    rough = list(map_on_threads(roughly, _starts(log, coordinates)))
    # Judged on the same rows: what was found on few rows is worse on many, right or wrong.
    part = log.first(_MAX_FIRST_ROWS)
    rough.sort(key=lambda theta: -objective_at(part, coordinates, theta))
    for rows, kept in ((part, _FIRST_KEPT), (log, _SECOND_KEPT)):
        found = [
            _approached(theta, rows, coordinates, _ROUGHLY, _SECOND_STEPS)
            for theta in _distinct(rough)[:kept]
        ]
        found.sort(key=lambda one: -one[1])
        rough = [theta for theta, _ in found]
    best = rough[0]
    if coordinates.n_arms >= MANY_ARMS:  # so near that one full sweep finds nothing left to gain
        best, _ = _approached(best, log, coordinates, 0.1 * _TOLERANCE, _MAX_STEPS)
    return climb(point_at(log, coordinates, best), log, coordinates, _TOLERANCE, _MAX_STEPS)


def _approached(
    theta: FloatArray, log: Log, coordinates: Coordinates, tolerance: float, max_steps: int
) -> tuple[FloatArray, float]:
    """Climb, in the way that is faster for so many arms; return where that ends, and how high."""
    if coordinates.n_arms < MANY_ARMS:
        start = point_at(log, coordinates, theta)
        mode = climb(start, log, coordinates, tolerance, max_steps)
        return mode.theta, mode.objective
    evaluations = _EVALUATIONS_PER_STEP * max_steps
    found = climb_by_scores(theta, log, coordinates, tolerance, evaluations)
    return found.theta, found.objective


def _starts(log: Log, coordinates: Coordinates) -> Iterator[tuple[FloatArray, int]]:
    """Yield starting points, and how many rows show whether they are right."""
    pulls, paid = log.totals()
    level = (paid + 1) / (pulls + 2)
    theta = np.zeros(coordinates.size)
    # As if the state had been 0.7 throughout; b = 0.7 keeps it there.
    theta[: log.n_arms] = scipy.special.logit(np.clip(level / 0.7 * coordinates.peak, 1e-6, 0.95))
    theta[log.n_arms : 2 * log.n_arms] = (
        scipy.special.logit(0.7) if coordinates.bounded else np.log(0.7)
    )
    if not isinstance(coordinates.lam, RatePrediction):
        yield theta, log.n_rows
        return
    # Below it, the state hardly moves within any sequence, or any part that is tried first.
    least = 0.3 / min(log.longest, _MAX_FIRST_ROWS)
    rates = [rate for rate in _RATES if rate > least]
    while rates and rates[-1] / 10 > least:
        rates.append(rates[-1] / 10)
    for rate in [coordinates.lam.lam, *rates]:
        theta[-1] = scipy.special.logit(rate)
        n_known = max(_MIN_ROWS, 500 * log.n_arms, int(min(100 / float(rate), _MAX_FIRST_ROWS)))
        yield theta.copy(), n_known * log.n_rows // int(pulls.sum())


def _distinct(thetas: list[FloatArray]) -> list[FloatArray]:
    kept: list[FloatArray] = []
    for theta in thetas:
        if all(np.abs(theta[-1] - other[-1]) > 0.2 for other in kept):
            kept.append(theta)
    return kept


def _most_likely(log: Log, coordinates: Coordinates, mode: PosteriorPoint) -> float:
    """Return the largest log-likelihood, as AIC and BIC need it: without the prior's pull.

    Its precision keeps climbs off the boundaries, near enough. A rate that was predicted stays
    where the estimate is: the prediction is part of the model.
    """
    predicted = isinstance(coordinates.lam, RatePrediction) and coordinates.lam != UNKNOWN_RATE
    fixed = coordinates.size - 1 if predicted else None
    # Of few rows, the prior decides which hill the estimate is on: the likelihood has others.
    has_hills = not predicted and log.n_rows <= _MIN_ROWS
    others = [theta for theta, _ in _starts(log, coordinates)] if has_hills else []
    # Towards a boundary each step gains a part of what is left; of many rows, that is little.
    steps = _MAX_STEPS if log.n_rows <= _MAX_FIRST_ROWS else _FIRST_STEPS

    def without_prior(found: PosteriorPoint) -> PosteriorPoint:
        return evolve(found, objective=found.log_likelihood, score=found.slope)

    def climbed(start: PosteriorPoint, tolerance: float, steps: int) -> PosteriorPoint:
        return climb(start, log, coordinates, tolerance, steps, without_prior, fixed)

    def climbed_by_scores(theta: FloatArray, tolerance: float, steps: int) -> ScorePoint:
        evaluations = _EVALUATIONS_PER_STEP * steps
        return climb_by_scores(
            theta, log, coordinates, tolerance, evaluations, with_prior=False, fixed=fixed
        )

    if coordinates.n_arms >= MANY_ARMS:
        starts = (mode.theta, *others)
        by_scores = [climbed_by_scores(theta, _ROUGHLY, _FIRST_STEPS) for theta in starts]
        highest = max(by_scores, key=lambda one: one.objective)
        return climbed_by_scores(highest.theta, _NEARLY, steps).objective
    best = without_prior(mode)
    if others:
        points = [without_prior(point_at(log, coordinates, theta)) for theta in others]
        rough = [climbed(start, _ROUGHLY, _FIRST_STEPS) for start in (best, *points)]
        best = max(rough, key=lambda one: one.objective)
    return climbed(best, _NEARLY, steps).log_likelihood


def _make_fit(
    log: Log,
    coordinates: Coordinates,
    mode: PosteriorPoint,
    most_likely: float,
    users: Users,
) -> Fit:
    n, theta = log.n_arms, mode.theta
    instance, slopes = coordinates.instance(theta), coordinates.jacobian(theta)
    alike = _root_of_inverse(mode.precision)
    covariance: FloatArray = alike @ alike.T
    inner = natural_covariance(coordinates, theta, alike)[: theta.size, : theta.size]
    step = slopes @ covariance @ without_flat_prior(mode, coordinates).score
    goodness, states = check_fit(log, instance, inner, step)
    estimates = _estimates(log, coordinates, mode, alike, users)
    ends = estimates.ends
    plays, n_known = log.plays(), int(log.totals()[0].sum())
    of_r, of_b = int(coordinates.played.sum()), int((plays > 0).sum())
    n_parameters = of_r + of_b + coordinates.size - 2 * n
    evolving = ModelScore(most_likely, n_parameters, n_known)
    stationary = ModelScore(_stationary(log), of_r, n_known)
    warnings = [*fit_warnings(log, coordinates, theta, covariance, ends, states, goodness)]
    drift = _fit_drift(log, coordinates)
    moves = (plays > 0).any() and drift.instance.lam > 0
    n_drift = of_r + int(moves) + coordinates.size - 2 * n
    drifting = ModelScore(drift.log_likelihood, n_drift, n_known)
    warnings += _about_models(evolving, stationary, drifting)
    return Fit(
        instance=coordinates.instance(estimates.centre),
        names=log.names,
        pulls=plays,
        n_sequences=log.n_sequences,
        covariance=natural_covariance(coordinates, estimates.centre, estimates.deviations),
        r_interval=ends[:n],
        b_interval=ends[n : 2 * n],
        lam_interval=(float(ends[-1, 0]), float(ends[-1, 1])),
        evolving=evolving,
        stationary=stationary,
        drifting=drifting,
        drift=drift.instance,
        goodness=goodness,
        warnings=tuple(warnings),
        coordinates=coordinates,
        centre=estimates.centre,
        deviations=estimates.deviations,
        spread=estimates.spread,
        spread_interval=estimates.spread_interval,
    )


class _Estimates(NamedTuple):
    """The normal posterior of a fit and the intervals that it leads to."""

    centre: FloatArray
    deviations: FloatArray
    ends: FloatArray
    spread: float | None = None
    spread_interval: tuple[float, float] | None = None


def _estimates(
    log: Log, coordinates: Coordinates, mode: PosteriorPoint, alike: FloatArray, users: Users
) -> _Estimates:
    """Return what is estimated under what is assumed of users; ``alike`` are their deviations."""
    theta, deviations = mode.theta, alike
    if users == "multiplier":
        found = fit_multiplier(log, coordinates, mode)
        theta = found.theta
        # The covariance of all but the spread: the leading triangle of the whole one's root.
        deviations = _root_of_inverse(found.precision)[:-1, :-1]
        deviations = np.ascontiguousarray(deviations)
        ends = _plain_intervals(coordinates, theta, deviations)
        return _Estimates(theta, deviations, ends, found.sigma, found.sigma_interval)
    if users == "clustered":
        sandwich = clustered_covariance(log, coordinates, mode, alike @ alike.T)
        deviations = _triangular(_root(sandwich))
    ends = _plain_intervals(coordinates, theta, deviations)
    widen_by_profiles(ends, log, coordinates, mode, alike @ alike.T)
    return _Estimates(theta, deviations, ends)


def _plain_intervals(
    coordinates: Coordinates, theta: FloatArray, deviations: FloatArray
) -> FloatArray:
    natural = natural_covariance(coordinates, theta, deviations)
    return intervals(coordinates, theta, np.sqrt(np.diag(natural)[: theta.size]))


def _fit_drift(log: Log, coordinates: Coordinates) -> Drift:
    free = isinstance(coordinates.lam, RatePrediction)
    lam = None if free else coordinates.instance(np.zeros(coordinates.size)).lam
    return fit_drift(log, lam, coordinates.q0, coordinates.bounded)


def _about_models(
    evolving: ModelScore, stationary: ModelScore, drifting: ModelScore
) -> Iterator[str]:
    """Warn if BIC prefers a simpler model."""
    more = evolving.bic - stationary.bic
    if more >= 0:
        but = ", though AIC prefers the one with it" if evolving.aic < stationary.aic else ""
        yield (
            f"BIC prefers the model without a state, by {more:,.1f}{but}: the log gives no clear"
            " reason to believe in one"
        )
    more = evolving.bic - drifting.bic
    if more >= 0 and drifting.bic < stationary.bic:
        but = ", though AIC prefers one for each" if evolving.aic < drifting.aic else ""
        yield (
            f"BIC prefers one end state for all arms, by {more:,.1f}{but}: responsiveness drifts,"
            " but the log gives no clear reason to believe that it matters what is shown"
        )


def _root_of_inverse(precision: FloatArray) -> FloatArray:
    """Return the triangular root of the covariance: unique, so that draws are the same everywhere.

    Unlike Cholesky's, it has no negative variances by rounding.
    """
    eigenvalues, vectors = np.linalg.eigh(precision)
    least = max(1e-8, eigenvalues.size * float(np.finfo(float).eps * eigenvalues[-1]))
    return _triangular(vectors / np.sqrt(np.maximum(eigenvalues, least)))


def _root(covariance: FloatArray) -> FloatArray:
    """Return a root of a covariance, without negative variances by rounding."""
    scale = np.sqrt(np.diag(covariance))
    eigenvalues, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    root: FloatArray = scale[:, None] * vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    return root


def _triangular(root: FloatArray) -> FloatArray:
    """Return the lower triangle with the same product, and a positive diagonal."""
    upper = np.linalg.qr(root.T, mode="r")
    # In rows, as one that is read from a file: products depend on it in their last bits.
    return np.ascontiguousarray((upper * np.sign(np.diag(upper))[:, None]).T)


def _stationary(log: Log) -> float:
    """Return the log-likelihood of the model in which every arm pays its own mean."""
    pulls, paid = log.totals()
    total = 0.0
    for part in (paid, pulls - paid):
        some = part > 0
        total += float(np.sum(part[some] * np.log(part[some] / pulls[some])))
    return total
