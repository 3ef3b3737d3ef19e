"""The log-posterior of a log of pulls at some coordinates, and how to climb it."""

from collections.abc import Callable

import numpy as np
from attrs import evolve

from bdes_framework._internal.arrays import FloatArray
from bdes_framework.fitting.blocks import (
    likelihood_of_log,
    log_likelihood_of_log,
    score_of_log,
)
from bdes_framework.fitting.fisher_scoring import PosteriorPoint, ScoringRules, fisher_scoring
from bdes_framework.fitting.log import Log
from bdes_framework.fitting.parametrisation import Coordinates, RatePrediction
from bdes_framework.fitting.quasi_newton import ScorePoint, quasi_newton

_MAX_MOVE = 2.0
_EVALUATIONS = 20
"""After so many scores, the information where they have led is worth its sweep."""


def climb(
    mode: PosteriorPoint,
    log: Log,
    coordinates: Coordinates,
    tolerance: float,
    max_steps: int,
    seen_as: Callable[[PosteriorPoint], PosteriorPoint] = lambda mode: mode,
    fixed: int | None = None,
) -> PosteriorPoint:
    """Climb the posterior of a log; ``seen_as`` may replace a mode's objective and score."""

    def move(theta: FloatArray, step: FloatArray) -> FloatArray:
        return _moved(coordinates, theta, step)

    def evaluate(theta: FloatArray) -> PosteriorPoint:
        return seen_as(point_at(log, coordinates, theta))

    return fisher_scoring(mode, evaluate, move, ScoringRules(max_steps, tolerance), fixed)


def climb_by_scores(
    theta: FloatArray,
    log: Log,
    coordinates: Coordinates,
    tolerance: float,
    max_evaluations: int,
    *,
    with_prior: bool = True,
    fixed: int | None = None,
) -> ScorePoint:
    """Climb the posterior of a log, or its likelihood, by scores and little else.

    With many arms a score is so much faster than an information that the few more steps do not
    matter.
    """

    def evaluate(theta: FloatArray) -> ScorePoint:
        value, by_parameter = score_of_log(log, coordinates.instance(theta))
        score = coordinates.pulled_score(theta, by_parameter[: coordinates.size])
        if with_prior:
            value += coordinates.log_prior(theta)
            score = score + coordinates.prior_score(theta)
        if fixed is not None:
            score[fixed] = 0.0
        return ScorePoint(theta, value, score)

    def move(theta: FloatArray, step: FloatArray) -> FloatArray:
        moved = _moved(coordinates, theta, step)
        if fixed is not None:
            moved[fixed] = theta[fixed]
        return moved

    here, left = evaluate(theta), max_evaluations
    while left > 0:
        precision = point_at(log, coordinates, here.theta).precision
        if fixed is not None:
            precision[fixed], precision[:, fixed], precision[fixed, fixed] = 0.0, 0.0, 1.0
        covariance: FloatArray = np.linalg.inv(precision).astype(np.float64, copy=False)
        allowed = min(left, _EVALUATIONS)
        here, done = quasi_newton(here, covariance, evaluate, move, tolerance, allowed)
        left = left - done if done == allowed else 0
    return here


def _moved(coordinates: Coordinates, theta: FloatArray, step: FloatArray) -> FloatArray:
    step = step * min(1.0, _MAX_MOVE / max(float(np.abs(step).max()), 1e-300))
    return coordinates.moved(theta, step)


def objective_at(log: Log, coordinates: Coordinates, theta: FloatArray) -> float:
    """Return the log-posterior, up to a constant: several times faster than all of a mode."""
    at = coordinates.instance(theta)
    return log_likelihood_of_log(log, at) + coordinates.log_prior(theta)


def point_at(log: Log, coordinates: Coordinates, theta: FloatArray) -> PosteriorPoint:
    """Return the log-posterior and its derivatives at some coordinates, from one sweep."""
    at, n = coordinates.instance(theta), coordinates.size
    found = likelihood_of_log(log, at)
    information = found.information[:n, :n]
    slope, precision = coordinates.pulled_back(theta, found.score[:n], information)
    return PosteriorPoint(
        theta=theta,
        log_likelihood=found.value,
        objective=found.value + coordinates.log_prior(theta),
        slope=slope,
        score=slope + coordinates.prior_score(theta),
        precision=precision + np.diag(coordinates.prior_precision(theta)),
        information=information,
    )


def without_flat_prior(mode: PosteriorPoint, coordinates: Coordinates) -> PosteriorPoint:
    """Take the likelihood as the objective, and of the priors only what is known of lam."""
    score = mode.slope.copy()
    if isinstance(coordinates.lam, RatePrediction):
        score[-1] = mode.score[-1]
    prior = coordinates.rate_log_prior(mode.theta)
    return evolve(mode, objective=mode.log_likelihood + prior, score=score)
