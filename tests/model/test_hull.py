"""Undominated arms and the hull of arms."""

from fractions import Fraction

import numpy as np

from bdes_framework import FloatArray, hull_of_arms, pareto_arms


def test_hull_keeps_only_upper_right_corners() -> None:
    r = np.array([0.5, 1.0, 0.0, 0.4, 1.0, 0.75])
    b = np.array([0.5, 0.0, 1.0, 0.9, 0.0, 0.35])
    assert hull_of_arms(r, b).tolist() == [1, 3, 2]
    assert pareto_arms(r, b).tolist() == [1, 5, 0, 3, 2]


def test_hull_keeps_an_arm_just_above_a_chord() -> None:
    r, on_chord = np.array([1.0, 0.5, 0.0]), np.array([0.0, 0.5, 1.0])
    assert hull_of_arms(r, on_chord).tolist() == [0, 2]
    above = on_chord.copy()
    above[1] = np.nextafter(0.5, 1)
    assert hull_of_arms(r, above).tolist() == [0, 1, 2]


def exact_hull(r: FloatArray, b: FloatArray) -> list[int]:
    kept: list[int] = []
    for arm in pareto_arms(r, b).tolist():
        while len(kept) >= 2:
            (x0, y0), (x1, y1), (x2, y2) = (
                (Fraction(float(r[i])), Fraction(float(b[i]))) for i in (*kept[-2:], arm)
            )
            if (x0 - x2) * (y1 - y0) > (y2 - y0) * (x0 - x1):
                break
            kept.pop()
        kept.append(arm)
    return kept


def test_hull_is_exact_for_nearly_collinear_arms() -> None:
    rng = np.random.default_rng(1)
    scales = [1.0, 1e-200, 1e200]
    for trial in range(400):
        r = np.sort(rng.random(5))
        b = rng.random() - r * rng.random() + 1.0
        b = b + rng.integers(-1, 2, 5) * np.spacing(b)
        r, b = r * scales[trial % 3], b * scales[trial // 3 % 3]
        assert hull_of_arms(r, b).tolist() == exact_hull(r, b)


def test_hull_holds_the_best_arm_for_any_weights() -> None:
    rng = np.random.default_rng(5)
    angles = np.linspace(0, np.pi / 2, 4_001)
    for _ in range(50):
        r, b = rng.random(7), rng.random(7)
        winners = np.argmax(np.outer(np.cos(angles), r) + np.outer(np.sin(angles), b), axis=1)
        assert set(winners.tolist()) <= set(hull_of_arms(r, b).tolist())
        # Sharper corners than the angles resolve are rare.
        assert len(hull_of_arms(r, b)) <= len(set(winners.tolist())) + 1
    assert hull_of_arms(np.array([0.5, 0.5, 0.2]), np.array([0.5, 0.5, 0.1])).size == 1
