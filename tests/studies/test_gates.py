"""The gates of the measured rates: what they hold, and what they refuse."""

import attrs
import numpy as np
import pytest

from studies.pages import interval_of_means, slope_of, slope_with_interval
from studies.regimes import (
    ARMS,
    CASES,
    MAX_EXTERNAL,
    SHRINKING,
    Measured,
    ShrinkingGap,
    ShrinkingRow,
    slow,
    slow_ucb,
)

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


@pytest.mark.parametrize("case", SHRINKING, ids=lambda case: case.policy)
def test_both_ends_must_be_near_the_exponent_where_gaps_shrink(case: ShrinkingGap) -> None:
    steady = ShrinkingRow(case, 1.0, case.exponent, case.exponent - 0.09, case.exponent + 0.09)
    assert steady.held
    assert not attrs.evolve(steady, low=case.exponent - 0.11).held
    assert not attrs.evolve(steady, high=case.exponent + 0.11).held


def test_logarithm_of_arms_is_most_of_how_the_bound_grows_beyond_a_root() -> None:
    with_log, without = (
        slope_of(ARMS, np.array([bound(10**5, n_arms, 1e-10) for n_arms in ARMS]))
        for bound in (slow, slow_ucb)
    )
    assert with_log == pytest.approx(0.78, abs=0.01)
    assert without == pytest.approx(0.5, abs=0.01)


def test_intervals_are_over_rows() -> None:
    regret = np.array([[10.0, 100.0], [20.0, 200.0], [30.0, 300.0]])
    assert slope_with_interval([10, 100], regret) == pytest.approx((1.0, 1.0, 1.0))
    low, high = interval_of_means(regret)
    assert low.tolist() == [10.0, 100.0]  # all three draws the same row once in 27
    assert high.tolist() == [30.0, 300.0]
