"""Regret grows as the theorems say: measured with fixed seeds; a marked set, ``make rates``."""

import pytest

from benchmarks.rates import CASES, Case, measure, measure_noise

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.gated or c.least_slope], ids=lambda c: c.name
)
def test_the_slope_is_within_the_theorem_s(case: Case) -> None:
    measured = measure(case)
    assert measured.held, (measured.slope, measured.low, measured.high, measured.theory_slope)


def test_noise_costs_at_most_a_multiple_of_its_size() -> None:
    for row in measure_noise():
        assert row.extra - 3 * row.error <= 1.0, row
