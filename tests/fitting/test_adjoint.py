"""Adjoint sweeps, against the sweep that adds up every pair of arms, and finite differences."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework import FloatArray, IntArray
from bdes_framework.fitting import adjoint
from bdes_framework.fitting.adjoint import likelihood_by_adjoint, score_by_adjoint

STARTS = np.array([0, 120, 121, 390])
LAMS = [0.0, 1e-4, 0.1, 0.7, 1.0]


def rows_of(n_arms: int) -> tuple[Any, Any]:
    """Return arms and rewards as a log keeps them, of which some are not known."""
    rng = np.random.default_rng(n_arms)
    arms, rewards = rng.integers(0, n_arms, 400), (rng.random(400) < 0.4).astype(float)
    rewards[rng.random(400) < 0.2] = np.nan
    log = bdes.Log(arms, rewards)
    return log.arms, log.rewards


def point(n_arms: int, lam: float) -> tuple[Any, ...]:
    """Return r, b, lam and q0."""
    rng = np.random.default_rng(n_arms)
    return rng.uniform(0.1, 0.9, n_arms), rng.uniform(0.1, 0.9, n_arms), lam, 0.8


def problem(n_arms: int, lam: float, starts: IntArray = STARTS) -> tuple[Any, ...]:
    """Return what sweeps take."""
    return *rows_of(n_arms), starts, *point(n_arms, lam)


def assert_same(found: bdes.Likelihood, expected: bdes.Likelihood) -> None:
    assert found.value == pytest.approx(expected.value, rel=1e-12)
    np.testing.assert_allclose(found.score, expected.score, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.information, expected.information, rtol=1e-9, atol=1e-9)
    assert np.array_equal(found.information, found.information.T)


@pytest.mark.parametrize("lam", LAMS)
@pytest.mark.parametrize("n_arms", [1, 4])
def test_adjoint_sweeps_agree_with_the_direct_one(n_arms: int, lam: float) -> None:
    swept = problem(n_arms, lam)
    expected = bdes.sweep_likelihood(*swept)
    assert_same(likelihood_by_adjoint(*swept), expected)
    value, score = score_by_adjoint(*swept)
    assert value == pytest.approx(expected.value, rel=1e-12)
    np.testing.assert_allclose(score, expected.score, rtol=1e-9, atol=1e-9)


def test_score_agrees_with_finite_differences() -> None:
    r, b, lam, q0 = point(3, 0.2)
    at = np.concatenate([r, b, [lam, q0]])

    def value(point: FloatArray) -> float:
        r, b, (lam, q0) = point[:3].copy(), point[3:6].copy(), point[6:].tolist()
        return bdes.sweep_log_likelihood(*rows_of(3), STARTS, r, b, lam, q0, q0)[0]

    steps = 1e-6 * np.eye(8)
    slopes = [(value(at + step) - value(at - step)) / 2e-6 for step in steps]
    _, score = score_by_adjoint(*problem(3, 0.2))
    np.testing.assert_allclose(score, slopes, rtol=1e-5, atol=1e-5)


def test_a_resumed_adjoint_sweep_equals_one_sweep() -> None:
    arms, rewards = rows_of(4)
    r, b, lam, q0 = point(4, 0.05)
    at = (r, b, lam, q0)
    state, expected_state = bdes.fresh_state(4, 0.8), bdes.fresh_state(4, 0.8)
    whole = bdes.sweep_likelihood(arms, rewards, STARTS, *at, expected_state)
    parts: list[bdes.Likelihood] = []
    for begin, end in pairwise([0, 1, 120, 250, 390, 400]):
        rows, inside = slice(begin, end), STARTS[(begin <= STARTS) & (end > STARTS)] - begin
        parts.append(likelihood_by_adjoint(arms[rows], rewards[rows], inside, *at, state))
    value, score, information = (sum(column) for column in zip(*parts, strict=True))
    assert_same(bdes.Likelihood(value, score, information), whole)
    np.testing.assert_allclose(state, expected_state, rtol=1e-12)


def interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(function, "py_func", function)
    return found


@pytest.mark.parametrize("stretch", [16, 390, 400])
def test_long_sequences_are_swept_in_stretches(
    monkeypatch: pytest.MonkeyPatch, stretch: int
) -> None:
    monkeypatch.setattr(adjoint, "_STRETCH", stretch)
    for name in ("_sweep_score", "_sweep_derivatives"):
        monkeypatch.setattr(adjoint, name, interpreted(getattr(adjoint, name)))
    starts = (STARTS, STARTS[:1], STARTS[:0])
    for swept in (problem(3, lam, given) for given in starts for lam in (0.0, 0.02, 0.8, 1.0)):
        expected = bdes.sweep_likelihood(*swept)
        assert_same(likelihood_by_adjoint(*swept), expected)
        np.testing.assert_allclose(
            score_by_adjoint(*swept)[1], expected.score, rtol=1e-9, atol=1e-9
        )
