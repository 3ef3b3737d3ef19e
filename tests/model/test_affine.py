"""Affine effects of pulls, and the closed forms of repeating one arm, against the recurrence."""

import numpy as np
import pytest

from bdes_framework import Instance, effect_of_arms, repeat_effect, repeat_weights, state_decay

RATES = [0.0, 1e-9, 0.02, 0.5, 1.0]


@pytest.mark.parametrize("lam", RATES)
@pytest.mark.parametrize("n", [0, 1, 2, 7, 64])
def test_repeat_effect_follows_the_recurrence(lam: float, n: int) -> None:
    instance = Instance([0.9, 0.3, 0.5], [0.1, 1.0, 0.6], lam, 0.7)
    effect = repeat_effect(effect_of_arms(instance.r, instance.b, lam, np.array([0, 2, 1])), n)
    arms = np.tile([0, 2, 1], n) if n else np.empty(0, dtype=np.int64)
    paid = instance.value(arms) if n else 0.0
    after = instance.state_after(arms) if n else 0.7
    assert effect.slope * 0.7 + effect.base == pytest.approx(paid, rel=1e-13)
    assert effect.kept * 0.7 + effect.shift == pytest.approx(after, rel=1e-13)
    assert (effect.kept, effect.lost) == pytest.approx(state_decay(lam, 3 * n), abs=1e-14)


@pytest.mark.parametrize("lam", RATES)
@pytest.mark.parametrize("n", [1, 2, 50])
def test_repeat_weights_give_last_state_and_sum(lam: float, n: int) -> None:
    instance = Instance([1.0], [0.2], lam, 0.7)
    kept, weight = repeat_weights(lam, n)
    assert kept * 0.7 + (1 - kept) * 0.2 == pytest.approx(instance.state_after([0] * n), rel=1e-13)
    assert weight * 0.7 + (n - weight) * 0.2 == pytest.approx(instance.value([0] * n), rel=1e-12)
