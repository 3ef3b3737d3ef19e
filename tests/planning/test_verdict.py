"""The verdict on a log: what its test takes for granted."""

import numpy as np
import pytest
from attrs import evolve

import bdes_framework as bdes
from bdes_framework.planning.verdict import chances_change, judge
from tests.support.logs import ADS, simulated_log

ARMS, PAID, STARTS = [0, 1, 0, 0, 1, 0], [0, 1, 1, 0, 0, 1], [0, 3]


@pytest.mark.parametrize(
    ("chances", "strata", "expected"),
    [
        (None, None, False),
        ([0.6, 0.4, 0.6, 0.6, 0.4, 0.6], None, False),
        ([0.6, 0.4, 0.6, 0.3, 0.7, 0.3], None, False),  # users differ, each is constant
        ([0.6, 0.4, 0.5, 0.6, 0.4, 0.6], None, True),
        ([0.6, 0.4, 0.5, 0.6, 0.4, 0.6], [0, 0, 1, 0, 0, 0], False),
        ([0.6, 0.4, 0.6, 0.6, 0.4, 0.1], [0, 0, 1, 0, 0, 0], True),
        ([0.6, 0.4, 1.0, 0.6, 0.4, 0.6], None, True),
    ],
)
def test_chances_that_change_are_found(
    chances: list[float] | None, strata: list[int] | None, expected: bool
) -> None:
    log = bdes.Log(ARMS, PAID, STARTS, propensities=chances, strata=strata)
    assert chances_change(log) is expected


def test_runs_do_not_change_chances() -> None:
    log = bdes.Log([0, 0, 1, 1, 0, 0], PAID, [0], propensities=[0.5, 1, 0.5, 1, 0.5, 1])
    assert not chances_change(log)


def test_changing_chances_are_a_warning() -> None:
    plain = simulated_log(ADS, users=60, rows=20, seed=1)
    fit = bdes.fit(plain)
    chances = np.full(plain.n_rows, 1 / 3)
    even = bdes.Log(plain.arms, plain.rewards, plain.starts, propensities=chances)
    assert judge(fit, even, 20).warnings == ()
    chances = np.where(np.arange(plain.n_rows) % 20 < 10, 1 / 3, 0.2)
    uneven = bdes.Log(plain.arms, plain.rewards, plain.starts, propensities=chances)
    verdict = judge(fit, uneven, 20)
    (warning,) = verdict.warnings
    assert warning.startswith("the chances of arms changed within users: give --strata")
    assert verdict.as_json()["warnings"] == [warning]
    assert evolve(verdict, test=None).warnings == ()  # then there is nothing to mislead
