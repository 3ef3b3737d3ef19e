"""Measured rates: page and pictures show what is stored, and what is stored fits together."""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from bdes_framework import FloatArray
from studies import rates
from studies.pages import slope_of
from studies.regimes import (
    ARMS,
    ARMS_CASES,
    ARMS_SEEDS,
    CASES,
    MAX_NOISE_SHARE,
    SEEDS,
    SHRINKING,
)
from tests.support import REPOSITORY

STORED = rates.from_json(rates.MEASURED.read_text(encoding="utf-8"))
LABEL = re.compile(r'aria-label="[^"]*: ([\d.]+)([kM]?); mean DES regret[^:"]*: ([\d.]+)([kM]?)"')
FACTORS = {"": 1.0, "k": 1e3, "M": 1e6}


def test_the_page_shows_what_is_stored() -> None:
    assert (REPOSITORY / "docs" / "rates.md").read_text(encoding="utf-8") == rates.page(STORED)


def points_in(picture: str) -> set[tuple[float, float]]:
    """Return the points of a picture, as its labels for screen readers say."""
    text = (REPOSITORY / "docs" / "img" / picture).read_text(encoding="utf-8")
    return {(float(x) * FACTORS[k], float(y) * FACTORS[m]) for x, k, y, m in LABEL.findall(text)}


def missing(
    places: Iterable[int], regret: FloatArray, drawn: set[tuple[float, float]]
) -> list[Any]:
    """Return the points of mean regret that are not drawn."""
    points = list(zip(places, regret.mean(axis=0).tolist(), strict=True))
    near = np.isclose(np.array(points)[:, None], np.array(sorted(drawn)), rtol=1e-4).all(axis=2)
    return [point for point, found in zip(points, near.any(axis=1), strict=True) if not found]


def test_pictures_are_drawn_as_stored() -> None:
    curves, arms = points_in("rates.svg"), points_in("rates-arms.svg")
    for row in STORED.measured:
        assert missing(row.horizons, row.regret, curves) == [], row.case.name
    for other in STORED.arms:
        assert missing(ARMS, other.regret, arms) == [], other.case.policy
    assert missing([1_000], np.array([[7.0]]), curves) == [(1_000, 7.0)]


def test_every_case_is_stored_in_full() -> None:
    assert [row.case for row in STORED.measured] == CASES
    assert [row.case for row in STORED.shrinking] == SHRINKING
    assert [row.case for row in STORED.arms] == ARMS_CASES
    for row in STORED.measured:
        assert row.regret.shape == (SEEDS, len(row.horizons))
        assert slope_of(row.horizons, row.regret.mean(axis=0)) == pytest.approx(row.slope, abs=1e-3)
        assert row.low <= row.slope <= row.high
    for arms in STORED.arms:
        assert arms.regret.shape == (len(ARMS_SEEDS), len(ARMS))
        assert slope_of(ARMS, arms.regret.mean(axis=0)) == pytest.approx(arms.slope, abs=1e-3)


def test_what_is_stored_holds_its_gates() -> None:
    gated = [row for row in STORED.measured if row.case.gated or row.case.least_slope]
    assert all(row.held for row in gated)
    assert all(row.held for row in STORED.shrinking)
    assert max(row.extra + 3 * row.error for row in STORED.noise) <= MAX_NOISE_SHARE


def test_storing_keeps_what_is_shown() -> None:
    again = rates.from_json(rates.as_json(STORED))
    assert rates.page(again) == rates.page(STORED)
    assert np.array_equal(again.measured[0].regret, STORED.measured[0].regret)
