"""What is lost before any reward can be known: by a policy, and by the best that nobody can beat.

An arm costs what the user is then worth less than if the best were shown, from here on:
``V(q) - r q - g V(q')``, with V of the decision table and g the chance of coming back. It is never
negative, and what a policy loses in all is the sum over its visits, in the mean over lifetimes.

Who knows no reward knows no arm from another. So let arms be in any order, all equally likely: then
only which of a user's visits show the same arm matters, and the least that is lost is found by
trying all such patterns.
"""

import itertools

import numpy as np

from bdes_framework import DecisionTable, FloatArray, IntArray

_LONGEST = 8
"""Visits of a user beyond these count as if nothing were lost: few users come so often so soon."""
_GRID = 4001


class Costs:
    """What showing each arm costs at any state."""

    def __init__(self, table: DecisionTable) -> None:
        self.instance, self._chance = table.instance, table.continuation
        self._states = np.linspace(0.0, table.highest_state, _GRID)
        self._values = table.values_at(self._states)

    def values_at(self, states: FloatArray) -> FloatArray:
        """Return what a user at each state is worth."""
        return np.interp(states, self._states, self._values)

    def of(self, states: FloatArray, arms: IntArray) -> FloatArray:
        """Return the cost of each visit; rounding of values never makes it negative."""
        at = self.instance
        after = states + at.lam * (at.b[arms] - states)
        worth = at.r[arms] * states + self._chance * self.values_at(after)
        return np.maximum(self.values_at(states) - worth, 0.0)


def visits_by_number(users: IntArray, longest: int = _LONGEST) -> FloatArray:
    """Return how many of these visits are a user's first, second, ... up to the longest."""
    counts = np.bincount(users)
    return np.array([float((counts > n).sum()) for n in range(longest)])


def least_blind_loss(costs: Costs, visits: FloatArray) -> float:
    """Return the least that visits cost whoever cannot tell arms apart, over all orders of arms.

    ``visits`` says how many there are by number; all users may as well be shown the same pattern.
    """
    k = costs.instance.n_arms
    orders = np.array(list(itertools.permutations(range(k))))
    best = np.inf

    def extend(place: int, states: FloatArray, shown: int, lost: float) -> None:
        """Try all patterns that go on from here; those that lose more already are left out."""
        nonlocal best
        if lost >= best:
            return
        if place == visits.size or not visits[place]:
            best = lost
            return
        at = costs.instance
        following = []
        for label in range(min(shown + 1, k)):
            arms = orders[:, label]
            cost = float(costs.of(states, arms).mean()) * visits[place]
            following.append((cost, label, states + at.lam * (at.b[arms] - states)))
        for cost, label, after in sorted(following, key=lambda each: each[0]):
            extend(place + 1, after, max(shown, label + 1), lost + cost)

    extend(0, np.full(len(orders), costs.instance.q0), 0, 0.0)
    return best
