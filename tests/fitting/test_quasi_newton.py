"""Quasi-Newton ascent: maxima, hills that are no parabolas, and where it stops."""

import numpy as np
import pytest

from bdes_framework import FloatArray
from bdes_framework.fitting.quasi_newton import ScorePoint, quasi_newton


def banana(x: FloatArray) -> ScorePoint:
    """Minus Rosenbrock's function, highest at (1, 1)."""
    off = x[1] - x[0] ** 2
    value = -(100 * off**2 + (1 - x[0]) ** 2)
    return ScorePoint(x, value, np.array([400 * x[0] * off + 2 * (1 - x[0]), -200 * off]))


@pytest.mark.parametrize("start", [(-1.2, 1.0), (0.0, 0.0), (0.5, -0.5)])
def test_a_curved_ridge_is_climbed(start: tuple[float, float]) -> None:
    found, n = quasi_newton(banana(np.array(start)), 0.01 * np.eye(2), banana, np.add, 1e-12, 200)
    np.testing.assert_allclose(found.theta, 1.0, atol=1e-4)
    assert n < 100


def test_no_step_loses() -> None:
    seen: list[float] = []

    def evaluate(x: FloatArray) -> ScorePoint:
        value = -float(np.log(np.cosh(3 * x)).sum())
        seen.append(value)
        return ScorePoint(x, value, -3 * np.tanh(3 * x))

    start = evaluate(np.array([2.0, -1.0]))
    found, n = quasi_newton(start, 50 * np.eye(2), evaluate, np.add, 1e-10, 100)
    assert found.objective == max(seen)
    assert n == len(seen) - 1
    np.testing.assert_allclose(found.theta, 0.0, atol=1e-4)


def test_what_cannot_be_evaluated_is_a_loss() -> None:
    def evaluate(x: FloatArray) -> ScorePoint:
        value = float(np.sqrt(1 - x[0] ** 2)) if abs(x[0]) <= 1 else np.nan
        return ScorePoint(x, value, -x / value if value else x * np.nan)

    found, _ = quasi_newton(evaluate(np.array([0.9])), np.eye(1) * 5, evaluate, np.add, 1e-12, 60)
    assert abs(found.theta[0]) < 1e-4


def test_a_budget_is_kept() -> None:
    found, n = quasi_newton(banana(np.zeros(2)), 0.01 * np.eye(2), banana, np.add, 1e-12, 3)
    assert n == 3
    assert found.objective >= banana(np.zeros(2)).objective
    assert quasi_newton(found, np.eye(2), banana, np.add, 1e-12, 0) == (found, 0)
