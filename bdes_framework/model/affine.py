"""Affine maps of the state: what pulls do to it and pay, for one arm or a sequence, n times over.

From state q, some pulls pay ``slope*q + base`` and lead to the state ``kept*q + shift``.
"""

import math
from typing import NamedTuple

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework.model.compiling import compiled


class AffineEffect(NamedTuple):
    """What some pulls do to a state q: to ``kept*q + shift``, paying ``slope*q + base``.

    ``lost`` is 1 - kept, known to more digits while it is small: at tiny rates 1 - lam has
    few digits left of lam.
    """

    kept: float
    lost: float
    shift: float
    slope: float
    base: float


@compiled
def add_pull(effect: AffineEffect, r: float, b: float, lam: float) -> AffineEffect:
    """Return the effect of some pulls and then one more, of an arm with pay-off r and end b."""
    lost = effect.lost + lam * effect.kept
    kept = 1.0 - lost if lost < 0.5 else effect.kept * (1.0 - lam)
    shift = effect.shift + lam * (b - effect.shift)
    slope, base = effect.slope + r * effect.kept, effect.base + r * effect.shift
    return AffineEffect(kept, lost, shift, slope, base)


@compiled
def effect_of_arms(r: FloatArray, b: FloatArray, lam: float, arms: IntArray) -> AffineEffect:
    """Return the effect of pulling ``arms`` in order."""
    effect = AffineEffect(1.0, 0.0, 0.0, 0.0, 0.0)
    for arm in arms:
        effect = add_pull(effect, r[arm], b[arm], lam)
    return effect


@compiled
def _then(first: AffineEffect, second: AffineEffect) -> AffineEffect:
    lost = first.lost + second.lost * first.kept
    kept = 1.0 - lost if lost < 0.5 else first.kept * second.kept
    shift = second.kept * first.shift + second.shift
    slope = first.slope + second.slope * first.kept
    base = first.base + second.slope * first.shift + second.base
    return AffineEffect(kept, lost, shift, slope, base)


@compiled
def repeat_effect(once: AffineEffect, n: int) -> AffineEffect:
    """Return the effect of the same pulls n times over: a billion repeats cost thirty steps."""
    result, power = AffineEffect(1.0, 0.0, 0.0, 0.0, 0.0), once
    while n > 0:
        if n & 1:
            result = _then(result, power)
        power = _then(power, power)
        n >>= 1
    return result


@compiled
def state_decay(lam: float, n: float) -> tuple[float, float]:
    """Return how much of the state n pulls keep and lose: (1 - lam)**n, and 1 minus that.

    Both to full precision, at any rate.

    >>> state_decay(0.5, 2)
    (0.25, 0.75)
    """
    if n == 0:
        return 1.0, 0.0
    exponent = n * math.log1p(-lam) if lam < 1.0 else -math.inf
    return math.exp(exponent), -math.expm1(exponent)


@compiled
def repeat_weights(lam: float, n: int) -> tuple[float, float]:
    """Return ``kept`` and ``weight`` of n pulls of one arm, whose end state is b, from state q.

    They lead to ``kept*q + (1 - kept)*b``; the states at which they are made add up to
    ``weight*q + (n - weight)*b``.

    >>> repeat_weights(0.5, 2)
    (0.25, 1.5)
    """
    kept, lost = state_decay(lam, n)
    return kept, (lost / lam if lam > 0.0 else float(n))
