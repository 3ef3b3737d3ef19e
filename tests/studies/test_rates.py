"""Regret grows as the theorems say: measured with fixed seeds; a marked set, ``make rates``."""

import pytest

from studies.regimes import (
    CASES,
    SHRINKING,
    Case,
    ShrinkingGap,
    measure,
    measure_noise,
    measure_shrinking,
)

pytestmark = [pytest.mark.slow, pytest.mark.rates]


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.gated or c.least_slope], ids=lambda c: c.name
)
def test_the_slope_is_within_the_theorem_s(case: Case) -> None:
    measured = measure(case)
    assert measured.held, (measured.slope, measured.low, measured.high, measured.theory_slope)


@pytest.mark.parametrize("case", SHRINKING, ids=lambda case: case.policy)
def test_shrinking_gaps_show_the_exponent(case: ShrinkingGap) -> None:
    row = measure_shrinking(case)
    assert row.held, (row.slope, row.low, row.high)


def test_noise_costs_a_bounded_share() -> None:
    rows = {(row.policy, row.sigma, row.horizon): row for row in measure_noise()}
    for (policy, sigma, horizon), row in rows.items():
        assert row.extra - 3 * row.error <= 0.25, row
        if horizon == 100_000:
            before = rows[policy, sigma, 10_000]
            assert row.extra - before.extra <= 3 * (row.error + before.error), (before, row)
