"""The gates of the measured rates: what they hold, and what they refuse."""

import attrs
import numpy as np

from studies.regimes import CASES, MAX_EXTERNAL, Measured

STEADY = Measured(
    next(case for case in CASES if case.gated),
    [10**5, 10**6],
    np.ones((1, 2)),
    slope=0.5,
    low=0.4,
    high=0.6,
    last_slope=0.5,
    last_low=0.4,
    last_high=0.6,
    theory_slope=0.5,
    external=0.0,
)


def test_steeper_than_the_theorem_is_not_held() -> None:
    assert STEADY.held
    assert attrs.evolve(STEADY, low=0.54, last_low=0.54).held
    assert attrs.evolve(STEADY, low=0.56).held is False
    assert attrs.evolve(STEADY, last_low=0.56).held is False


def test_proposition_is_about_learners_without_external_regret() -> None:
    blind = [case for case in CASES if case.least_slope is not None]
    assert {case.lam(1000) for case in blind} == {0.5}  # at 1 the pair shows nothing
    linear = attrs.evolve(STEADY, case=blind[0], slope=1.0)
    assert linear.held
    assert attrs.evolve(linear, external=2 * MAX_EXTERNAL).held is False
    assert attrs.evolve(linear, slope=0.9).held is False
