"""The problem that planners solve: an instance reduced to its hull arms, scaled to at most 1.

Every planner of this plugin starts here. Dropping the other arms loses nothing, or at most
a loss that is counted; rescaling by powers of two rounds nothing.
"""

import math

import numpy as np
from attrs import evolve, frozen

import bdes_framework as bdes
from bdes_framework import FloatArray, Instance, IntArray, Schedule, hull_of_arms, state_decay

UNIT_ROUNDOFF = 2.0**-53


@frozen(eq=False)
class Reduced:
    """An instance cut down to its hull arms and scaled to numbers of at most 1."""

    index: IntArray
    """The arms kept, as numbered in the instance; r falls and b rises along them."""
    r: FloatArray
    b: FloatArray
    lam: float
    q0: float
    low: float
    """Every state that can be reached lies in [low, high]."""
    high: float
    unit: float
    """A total in these units times ``unit`` is the total of the instance."""
    slack: float = 0.0
    """Each arm of the instance lies at most this far, in b, above the hull of those kept."""

    @property
    def n_arms(self) -> int:
        """How many arms were kept."""
        return self.r.size

    @property
    def instance(self) -> Instance:
        """The reduced problem as an instance of its own."""
        return Instance(self.r, self.b, self.lam, self.q0)

    def reachable(self, horizon: int) -> tuple[float, float]:
        """Return an interval that holds every state of ``horizon`` rounds, and a hair more.

        After t rounds the state is ``(1-lam)**t * q0`` plus ``1 - (1-lam)**t`` times a mean of
        the arms' b: for a slow state, a small part of [low, high].
        """
        kept, lost = state_decay(self.lam, horizon)
        low, high = kept * self.q0 + lost * self.low, kept * self.q0 + lost * self.high
        return max(low * (1 - 1e-12), self.low), min(high * (1 + 1e-12), self.high)

    def original(self, schedule: Schedule) -> Schedule:
        """Return a schedule of the kept arms with the arms numbered as in the instance."""
        return Schedule([bdes.Segment(self.index[s.arms], s.repeats) for s in schedule.segments])

    def thinned(self, slack: float) -> "Reduced":
        """Return the same without arms that lie at most ``slack`` above a chord of the others."""
        kept = _thin(self.r, self.b, slack)
        if len(kept) == self.n_arms:
            return self
        arms = self.index[kept], self.r[kept], self.b[kept]
        return evolve(self, index=arms[0], r=arms[1], b=arms[2], slack=slack)


def reduce(instance: Instance) -> Reduced:
    """Return ``instance`` without the arms no optimal schedule needs, in convenient units.

    For any convex, increasing V, ``r*q + V((1-lam)*q + lam*b)`` is convex and increasing in
    (r, b), so its maximum over the arms is reached on their upper-right convex hull.
    """
    index = hull_of_arms(instance.r, instance.b)
    r, b = instance.r[index], instance.b[index]
    of_r, of_q = (
        _power_of_two_above(float(r.max())),
        _power_of_two_above(max(instance.q0, float(b.max()))),
    )
    q0, scaled_b = instance.q0 / of_q, b / of_q
    return Reduced(
        index=index,
        r=r / of_r,
        b=scaled_b,
        lam=instance.lam,
        q0=q0,
        low=min(q0, float(scaled_b.min())),
        high=max(q0, float(scaled_b.max())),
        unit=of_r * of_q,
    )


def _thin(r: FloatArray, b: FloatArray, slack: float) -> list[int]:
    """Choose corners so that every other one is at most ``slack`` above a chord of the chosen."""
    kept, last = [0], r.size - 1
    while kept[-1] < last:
        start = kept[-1]
        stop = start + 1
        while stop < last and _chord_error(r, b, start, stop + 1) <= slack * 0.999:
            stop += 1
        kept.append(stop)
    return kept


def _chord_error(r: FloatArray, b: FloatArray, start: int, stop: int) -> float:
    inner = slice(start + 1, stop)
    share = (r[start] - r[inner]) / (r[start] - r[stop])
    return float(np.max(b[inner] - b[start] - share * (b[stop] - b[start])))


def _power_of_two_above(value: float) -> float:
    """Return the least power of two that is at least ``value``; 1 for 0."""
    if value == 0:
        return 1.0
    fraction, exponent = math.frexp(value)
    exponent -= fraction == 0.5
    return math.ldexp(1.0, min(max(exponent, -1000), 1000))
