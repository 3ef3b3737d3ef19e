"""Fisher scoring on a function whose maximum is known."""

import numpy as np
import pytest

from bdes_framework import FloatArray, PosteriorPoint, ScoringRules, fisher_scoring


def evaluate(theta: FloatArray) -> PosteriorPoint:
    """Evaluate log(x) - x in each coordinate: largest at 1, undefined below 0."""
    with np.errstate(invalid="ignore"):
        value = float(np.sum(np.log(theta) - theta))
    score, precision = 1 / theta - 1, np.diag(1 / theta**2)
    return PosteriorPoint(theta, value, value, score, score, precision, precision)


@pytest.mark.parametrize("start", [0.01, 1.5, 30.0])
@pytest.mark.parametrize("stop_damped", [True, False])
def test_fisher_scoring_finds_the_maximum(start: float, stop_damped: bool) -> None:
    # From 30 a whole step leads below 0, to an objective that is NaN: steps are damped.
    rules = ScoringRules(max_steps=200, tolerance=1e-12, stop_damped=stop_damped)
    found = fisher_scoring(evaluate(np.full(2, start)), evaluate, np.add, rules)
    np.testing.assert_allclose(found.theta, 1, rtol=1e-4)
    found = fisher_scoring(evaluate(np.full(2, start)), evaluate, np.add, rules, fixed=1)
    np.testing.assert_allclose(found.theta, [1, start], rtol=1e-4)


def test_max_steps_limit_the_evaluations() -> None:
    start = evaluate(np.full(1, 0.01))
    found = fisher_scoring(start, evaluate, np.add, ScoringRules(max_steps=1, tolerance=0.0))
    assert found.theta[0] == pytest.approx(0.01 + 0.01 * 0.99)
    assert fisher_scoring(found, evaluate, np.add, ScoringRules(0, 0.0)) is found
