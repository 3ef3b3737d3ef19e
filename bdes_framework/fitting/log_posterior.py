"""The log-posterior of a log of pulls at some coordinates, and how to climb it."""

from collections.abc import Callable

import numpy as np
from attrs import evolve

from bdes_framework._internal.arrays import FloatArray
from bdes_framework.fitting.blocks import likelihood_of_log, log_likelihood_of_log
from bdes_framework.fitting.fisher_scoring import PosteriorPoint, ScoringRules, fisher_scoring
from bdes_framework.fitting.log import Log
from bdes_framework.fitting.parametrisation import Coordinates, RatePrediction

_MAX_MOVE = 2.0


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
        step *= min(1.0, _MAX_MOVE / max(float(np.abs(step).max()), 1e-300))
        return coordinates.moved(theta, step)

    def evaluate(theta: FloatArray) -> PosteriorPoint:
        return seen_as(point_at(log, coordinates, theta))

    return fisher_scoring(mode, evaluate, move, ScoringRules(max_steps, tolerance), fixed)


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
