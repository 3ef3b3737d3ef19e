"""Climbing a posterior, or a likelihood, by Fisher scoring: one step costs one sweep."""

from collections.abc import Callable

import numpy as np
from attrs import evolve, frozen

from bdes_framework._internal.arrays import FloatArray
from bdes_framework.fitting.likelihood import fresh_state, sweep_information, sweep_log_likelihood
from bdes_framework.fitting.log import Log
from bdes_framework.fitting.parametrisation import Coordinates, RatePrediction

_LONGEST_STEP = 2.0
_LEAST_DAMPING = 0.01
_QUIET_STEPS = 3
_ROUNDING = 1e-10
"""A sum of very many logarithms is no more exact than this."""


@frozen(eq=False)
class Mode:
    """A point of the posterior, with what one sweep says about it."""

    theta: FloatArray
    log_likelihood: float
    objective: float
    slope: FloatArray
    """Of the log-likelihood alone; the score is that of the objective."""
    score: FloatArray
    precision: FloatArray


def scored(
    mode: Mode,
    log: Log,
    coordinates: Coordinates,
    tolerance: float,
    most_steps: int,
    seen_as: Callable[[Mode], Mode] = lambda mode: mode,
    fixed: int | None = None,
) -> Mode:
    """Go uphill by Fisher scoring until the next step is shorter than asked.

    In a corner of the parameters the expected information says little about the real
    curvature, and steps are too long; then they are damped (Levenberg, Marquardt), and the end
    is where they no longer gain anything. ``seen_as`` may give modes another objective and score
    to climb; the coordinate ``fixed`` stays where it is.
    """
    damping, quiet_steps = 0.0, 0
    rounding = _ROUNDING * abs(mode.objective)
    tolerance = max(tolerance, rounding)  # a smaller gain could not be seen
    for _ in range(most_steps):
        damped = mode.precision + damping * np.diag(np.diag(mode.precision))
        score = mode.score
        if fixed is not None:
            score = np.where(np.arange(score.size) == fixed, 0.0, score)
            damped[fixed], damped[:, fixed], damped[fixed, fixed] = 0.0, 0.0, 1.0
        step: FloatArray = np.linalg.solve(damped, score).astype(np.float64)
        if damping == 0 and float(step @ score) < tolerance:
            break
        step *= min(1.0, _LONGEST_STEP / max(float(np.abs(step).max()), 1e-300))
        theta = coordinates.moved(mode.theta, step)
        if fixed is not None:
            theta[fixed] = mode.theta[fixed]
        further = seen_as(mode_at(log, coordinates, theta))
        gain = further.objective - mode.objective
        if gain < -rounding:
            damping = max(10 * damping, _LEAST_DAMPING)
            continue
        mode = further
        damping = damping / 10 if damping > _LEAST_DAMPING else 0.0
        quiet_steps = quiet_steps + 1 if gain < tolerance else 0
        if quiet_steps == _QUIET_STEPS:
            break
    return mode


def objective_at(log: Log, coordinates: Coordinates, theta: FloatArray) -> float:
    """Return the log-posterior, up to a constant: several times faster than all of a mode."""
    at = coordinates.instance(theta)
    value, _ = sweep_log_likelihood(
        log.arms, log.rewards, log.starts, at.r, at.b, at.lam, at.q0, at.q0
    )
    return value + coordinates.log_prior(theta)


def mode_at(log: Log, coordinates: Coordinates, theta: FloatArray) -> Mode:
    """Return what one sweep says about a point."""
    at = coordinates.instance(theta)
    size, free = 2 * at.n_arms + 2, coordinates.free
    score, information = np.zeros(size), np.zeros((size, size))
    state = fresh_state(at.n_arms, at.q0)
    value = sweep_information(
        log.arms, log.rewards, log.starts, at.r, at.b, at.lam, at.q0, state, score, information
    )
    slope, precision = coordinates.pulled_back(theta, score[free], information[np.ix_(free, free)])
    return Mode(
        theta=theta,
        log_likelihood=value,
        objective=value + coordinates.log_prior(theta),
        slope=slope,
        score=slope + coordinates.prior_score(theta),
        precision=precision + np.diag(coordinates.prior_precision(theta)),
    )


def without_flat_prior(mode: Mode, coordinates: Coordinates) -> Mode:
    """Judge by the likelihood; what is known of lam stays, as it is no mere convention."""
    score = mode.slope.copy()
    if isinstance(coordinates.lam, RatePrediction):
        score[-1] = mode.score[-1]
    prior = coordinates.rate_log_prior(mode.theta)
    return evolve(mode, objective=mode.log_likelihood + prior, score=score)
