"""Quasi-Newton ascent (L-BFGS): climb by scores alone, from a guess of the curvature."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bdes_framework._internal.arrays import FloatArray

_MAX_PAIRS = 30
_ENOUGH = 1e-4
"""A step is kept if it gained this part of what the slope promised (Armijo)."""
_SHORTER = 0.1
_ROUNDING = 1e-10
"""Gains up to this, relative to the objective, cannot be seen."""


class ScorePoint(NamedTuple):
    """A point with its objective and gradient."""

    theta: FloatArray
    objective: float
    score: FloatArray


def quasi_newton(
    start: ScorePoint,
    covariance: FloatArray,
    evaluate: Callable[[FloatArray], ScorePoint],
    move: Callable[[FloatArray, FloatArray], FloatArray],
    tolerance: float,
    max_evaluations: int,
) -> tuple[ScorePoint, int]:
    """Climb until the next step would gain half of the tolerance or less.

    Returns the last point, and after how many evaluations it ended.

    Parameters
    ----------
    start : ScorePoint
        Where to begin.
    covariance : FloatArray, shape (n, n)
        The inverse of minus the curvature, as far as it is known: positive semidefinite.
    evaluate : Callable[[FloatArray], ScorePoint]
        Returns the point at some coordinates.
    move : Callable[[FloatArray, FloatArray], FloatArray]
        Returns where a step from some coordinates leads; may shorten it.
    tolerance : float
        As above.
    max_evaluations : int
        Stop after so many.

    Examples
    --------
    >>> def evaluate(x):  # curvatures 1 and 9
    ...     return ScorePoint(x, -0.5 * float(x @ (x * [1, 9])), -x * [1, 9])
    >>> found, _ = quasi_newton(evaluate(np.ones(2)), 0.5 * np.eye(2), evaluate, np.add, 1e-12, 30)
    >>> bool(np.abs(found.theta).max() < 1e-6)
    True
    """
    here, pairs = start, list[tuple[FloatArray, FloatArray, float]]()
    tolerance = max(tolerance, _ROUNDING * abs(here.objective))
    left = max_evaluations
    while left > 0:
        step = _direction(here.score, covariance, pairs)
        promised = float(step @ here.score)
        if promised < tolerance:
            break
        size = 1.0
        while left > 0:
            left -= 1
            found = evaluate(move(here.theta, size * step))
            gain = found.objective - here.objective
            if gain > _ENOUGH * size * promised:  # so that NaN is a loss
                break
            # Where a parabola through both ends and the slope is highest.
            bend = size * promised - gain
            size *= max(_SHORTER, 0.5 * size * promised / bend) if bend > 0 else _SHORTER
            if size * promised < tolerance:
                return here, max_evaluations - left
        else:
            break
        moved, change = found.theta - here.theta, here.score - found.score
        curvature = float(moved @ change)
        if curvature > 1e-10 * float(np.linalg.norm(moved) * np.linalg.norm(change)):
            pairs = [*pairs[1 - _MAX_PAIRS :], (moved, change, curvature)]
        here = found
    return here, max_evaluations - left


def _direction(
    score: FloatArray, covariance: FloatArray, pairs: list[tuple[FloatArray, FloatArray, float]]
) -> FloatArray:
    """Return the Newton step of a curvature that agrees with the moves made (Nocedal)."""
    step, shares = score.copy(), list[float]()
    for moved, change, curvature in reversed(pairs):
        shares.append(float(moved @ step) / curvature)
        step -= shares[-1] * change
    step = covariance @ step
    for moved, change, curvature in pairs:
        step += (shares.pop() - float(change @ step) / curvature) * moved
    return step
