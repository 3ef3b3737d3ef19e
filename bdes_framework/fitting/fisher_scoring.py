"""Fisher scoring: climb a posterior or a likelihood by damped Newton steps, one sweep each."""

from collections.abc import Callable

import numpy as np
from attrs import field, frozen

from bdes_framework._internal.arrays import FloatArray
from bdes_framework._internal.display import shown_numbers


@frozen(eq=False)
class PosteriorPoint:
    """A point of a posterior with its objective and derivatives; Fisher scoring ends at a mode.

    Parameters
    ----------
    theta : FloatArray, shape (n,)
        Its coordinates.
    log_likelihood : float
        Of the log.
    objective : float
        What is climbed: log-likelihood plus log-prior, up to a constant.
    slope : FloatArray, shape (n,)
        The gradient of the log-likelihood alone.
    score : FloatArray, shape (n,)
        The gradient of the objective.
    precision : FloatArray, shape (n, n)
        The expected curvature of the objective: Fisher information plus the prior's.
    information : FloatArray, shape (n, n)
        Of the parameters themselves, not of their coordinates, and without the prior.
    """

    theta: FloatArray = field(repr=shown_numbers)
    log_likelihood: float
    objective: float
    slope: FloatArray = field(repr=False)
    score: FloatArray = field(repr=False)
    precision: FloatArray = field(repr=False)
    information: FloatArray = field(repr=False)


@frozen
class ScoringRules:
    """When Fisher scoring stops, and how its steps are damped (Levenberg, Marquardt).

    Parameters
    ----------
    max_steps : int
        At most so many steps, each of one evaluation.
    tolerance : float
        Stop before a step that would gain half of this or less.
    stop_damped : bool
        Whether a damped step may be the reason to stop.
    max_quiet_steps : int | None
        Stop after so many steps in a row that gained less than the tolerance.
    min_damping : float
        What the diagonal of the precision grows by, relatively, after a step that lost; ten times
        as much after the next such step, a tenth after one that gained.
    undamped_below : float
        Up to here, a step that gained ends the damping.
    rounding : float
        Losses up to this, relative to the objective, count as none.
    """

    max_steps: int
    tolerance: float
    stop_damped: bool = False
    max_quiet_steps: int | None = 3
    min_damping: float = 0.01
    undamped_below: float = 0.02
    rounding: float = 1e-10


def fisher_scoring(
    start: PosteriorPoint,
    evaluate: Callable[[FloatArray], PosteriorPoint],
    move: Callable[[FloatArray, FloatArray], FloatArray],
    rules: ScoringRules,
    fixed: int | None = None,
) -> PosteriorPoint:
    """Climb by Fisher scoring, and return the highest point found.

    In a corner of the parameters the expected information says little about the real
    curvature, and steps are too long; then they are damped.

    Parameters
    ----------
    start : PosteriorPoint
        Where to begin.
    evaluate : Callable[[FloatArray], PosteriorPoint]
        Returns the point at some coordinates.
    move : Callable[[FloatArray, FloatArray], FloatArray]
        Returns where a step from some coordinates leads; may shorten it.
    rules : ScoringRules
        When to stop.
    fixed : int | None
        A coordinate that stays as it is.

    Examples
    --------
    >>> def evaluate(x):  # the log-density of a normal distribution around 3
    ...     value, slope, one = -0.5 * float((x[0] - 3) ** 2), 3 - x, np.eye(1)
    ...     return PosteriorPoint(x, value, value, slope, slope, one, one)
    >>> rules = ScoringRules(max_steps=5, tolerance=1e-6)
    >>> fisher_scoring(evaluate(np.zeros(1)), evaluate, np.add, rules).theta.tolist()
    [3.0]
    """
    mode, damping, quiet_steps = start, 0.0, 0
    slack = rules.rounding * abs(mode.objective)
    tolerance = max(rules.tolerance, slack)  # a smaller gain could not be seen
    for _ in range(rules.max_steps):
        damped = mode.precision + damping * np.diag(np.diag(mode.precision))
        score = mode.score
        if fixed is not None:
            score = np.where(np.arange(score.size) == fixed, 0.0, score)
            damped[fixed], damped[:, fixed], damped[fixed, fixed] = 0.0, 0.0, 1.0
        step: FloatArray = np.linalg.solve(damped, score).astype(np.float64, copy=False)
        if (damping == 0 or rules.stop_damped) and float(step @ score) < tolerance:
            break
        theta = move(mode.theta, step)
        if fixed is not None:
            theta[fixed] = mode.theta[fixed]
        further = evaluate(theta)
        gain = further.objective - mode.objective
        if not gain > -slack:  # so that NaN is a loss
            damping = max(10 * damping, rules.min_damping)
            continue
        mode = further
        damping = 0.1 * damping if damping > rules.undamped_below else 0.0
        quiet_steps = quiet_steps + 1 if gain < tolerance else 0
        if quiet_steps == rules.max_quiet_steps:
            break
    return mode
