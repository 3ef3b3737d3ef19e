"""Regret grows as the theorems say: measured with fixed seeds; a marked set, ``make rates``."""

import numpy as np
import pytest

from studies import rates
from studies.pages import slope_of
from studies.regimes import (
    ARMS,
    ARMS_CASES,
    ARMS_HORIZON,
    CASES,
    MAX_NOISE_SHARE,
    SHRINKING,
    Case,
    ShrinkingGap,
    measure,
    measure_arms,
    measure_noise,
    measure_shrinking,
)

STORED = rates.from_json(rates.MEASURED.read_text(encoding="utf-8"))

pytestmark = [pytest.mark.slow, pytest.mark.rates]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_slope_is_within_the_theorem_s(case: Case) -> None:
    measured = measure(case)
    assert measured.horizons[-1] >= 10 * measured.horizons[0]
    (stored,) = (row for row in STORED.measured if row.case == case)
    assert measured.regret == pytest.approx(stored.regret, abs=0.01)
    gated = case.gated or case.least_slope is not None
    shown = measured.slope, measured.low, measured.high, measured.theory_slope
    assert measured.held is (True if gated else None), shown


@pytest.mark.parametrize("case", SHRINKING, ids=lambda case: case.policy)
def test_shrinking_gaps_show_the_exponent(case: ShrinkingGap) -> None:
    row = measure_shrinking(case)
    (stored,) = (found for found in STORED.shrinking if found.case == case)
    assert (row.slope, row.regret) == pytest.approx((stored.slope, stored.regret), rel=1e-6)
    assert row.held, (row.slope, row.low, row.high)


def test_growth_with_arms_is_explained() -> None:
    rows = {case.policy: measure_arms(case) for case in ARMS_CASES}
    for stored in STORED.arms:
        again = rows[stored.case.policy].regret
        assert again == pytest.approx(stored.regret, abs=0.01), stored.case
    exp3p, etc, sticky = (rows[name] for name in ("exp3p", "etc", "sticky"))
    assert exp3p.slope == pytest.approx(exp3p.theory_slope, abs=0.1)
    rounds, lost = etc.explored.mean(axis=0), etc.lost_exploring.mean(axis=0)
    assert slope_of(ARMS, rounds) == pytest.approx(1 / 3, abs=0.05)
    assert (np.diff(lost / rounds) > 0).all()
    assert (np.diff(etc.regret.mean(axis=0) - lost) > 0).all()
    assert (sticky.explored.mean(axis=0)[2:] > 0.7 * ARMS_HORIZON).all()
    assert slope_of(ARMS[:3], sticky.regret.mean(axis=0)[:3]) > 1.5


def test_noise_costs_a_bounded_share() -> None:
    found = measure_noise()
    for row, stored in zip(found, STORED.noise, strict=True):
        assert row.extra == pytest.approx(stored.extra, abs=1e-6), row
    rows = {(row.policy, row.sigma, row.horizon): row for row in found}
    for (policy, sigma, horizon), row in rows.items():
        assert row.extra + 3 * row.error <= MAX_NOISE_SHARE, row
        if horizon == 100_000:
            before = rows[policy, sigma, 10_000]
            assert row.extra - before.extra <= 3 * (row.error + before.error), (before, row)
