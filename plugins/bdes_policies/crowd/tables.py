"""Decision tables for drawn instances: fast, compiled, on a grid of states, without a proven bound.

A table says which arm to show after so many visits, at which state. The chance that a user comes
back may depend on how often they came, so there is a row per number of visits made, and the last is
for all who came more often. The registered planners answer for one chance only, and take up to a
second because they prove a bound; here a table takes a fraction of a millisecond, for there are
dozens of them every time that the posterior is fitted. The value is kept on the grid and is convex:
what lies between its points lies below their chord.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bdes_framework import FloatArray, IntArray, compiled, hull_of_arms

STATES = 129
"""Points of the grid: an arm is chosen at the nearest. At twice as many no regret was smaller."""
_MEMORIES = 8.0
"""How many times 1/lam visits count, beyond the last row: exp(-8) of a state is left after that."""
_FEWEST_AHEAD, _MOST_AHEAD = 256, 2048
"""The best plan may be a cycle, whose phase the end of all visits decides unless it is far away."""
_SETTLED = 1e-6
"""Where another visit ahead adds as much at every state, up to this, so do all others."""
_NEGLIGIBLE = 1e-4
"""Visits that fewer users than this get to are not planned for."""


class Tables(NamedTuple):
    """A decision table for each of n drawn instances."""

    arms: NDArray[np.int16]
    """Shape (n, rows, STATES)."""
    low: FloatArray
    """The lowest state of each grid."""
    per_state: FloatArray
    """Points per unit of state; 0 if the state cannot move."""


def planned_tables(
    r: FloatArray, b: FloatArray, lam: FloatArray, q0: float, chances: FloatArray, arms: IntArray
) -> Tables:
    """Return the tables of instances, which show some of their arms only."""
    n = lam.size
    tables = Tables(np.empty((n, chances.size, STATES), dtype=np.int16), np.empty(n), np.empty(n))
    plan_tables(r[:, arms].copy(), b[:, arms].copy(), lam, q0, chances, tables)
    return tables._replace(arms=arms.astype(np.int16)[tables.arms])


@compiled
def plan_tables(
    r: FloatArray, b: FloatArray, lam: FloatArray, q0: float, chances: FloatArray, out: Tables
) -> None:
    """Fill in the tables of instances: r and b of shape (n, K), lam of shape (n,)."""
    for i in range(lam.size):
        _plan_table(r[i], b[i], lam[i], q0, chances, i, out)


@compiled
def _range_of(q0: float, b: FloatArray) -> tuple[float, float]:
    """Return the lowest and the highest state that users can be at (numpy's compile slowly)."""
    low = high = q0
    for k in range(b.size):
        low, high = min(low, b[k]), max(high, b[k])
    return low, high


@compiled
def _plan_table(
    all_r: FloatArray,
    all_b: FloatArray,
    lam: float,
    q0: float,
    chances: FloatArray,
    i: int,
    out: Tables,
) -> None:
    hull = hull_of_arms(all_r, all_b)
    r, b = all_r[hull], all_b[hull]
    low, high = _range_of(q0, b)
    points = out.arms.shape[2]
    per_state = (points - 1) / (high - low) if high > low else 0.0
    out.low[i], out.per_state[i] = low, per_state
    cell = np.empty((r.size, points), dtype=np.int64)
    share = np.empty((r.size, points))
    pays = np.empty((r.size, points))
    for k in range(r.size):
        for g in range(points):
            q = low + (high - low) * (g / (points - 1))
            place = (q + lam * (b[k] - q) - low) * per_state
            cell[k, g] = min(max(int(place), 0), points - 2)
            share[k, g] = place - cell[k, g]
            pays[k, g] = r[k] * q
    rows = chances.size
    last = chances[rows - 1]
    ahead = min(_MEMORIES / max(lam, 1e-9), _MOST_AHEAD)
    if last < 1.0:
        ahead = min(ahead, math.log(_NEGLIGIBLE) / math.log(max(last, _NEGLIGIBLE)))
    step = rows + max(int(ahead), _FEWEST_AHEAD)
    later, now = np.zeros(points), np.zeros(points)
    while step > 0:
        step -= 1
        row = min(step, rows - 1)
        least, most = np.inf, -np.inf  # of what this visit adds
        chance = chances[row]
        for g in range(points):
            best, highest = 0, -1.0
            for k in range(r.size):
                at = cell[k, g]
                value = pays[k, g] + chance * (
                    later[at] + share[k, g] * (later[at + 1] - later[at])
                )
                if value > highest:
                    best, highest = k, value
            now[g] = highest
            least, most = min(least, highest - later[g]), max(most, highest - later[g])
            if step < rows:
                out.arms[i, row, g] = hull[best]
        if step > rows and most - least < _SETTLED:
            step = rows
        later, now = now, later
