"""The planner ``best-cycle``: the best periodic schedule up to a given length, by enumeration."""

import numpy as np
from attrs import field, frozen
from attrs.validators import ge

import bdes_framework as bdes
from bdes_framework import AffineEffect, FloatArray, IntArray, add_pull, compiled, repeat_effect
from bdes_planners.bounds import simply_bounded_plan


@compiled
def _prefix(effects: FloatArray, length: int) -> AffineEffect:
    kept, lost, shift, slope, base = effects[length]
    return AffineEffect(kept, lost, shift, slope, base)


@compiled
def _total(effects: FloatArray, length: int, q: float, horizon: int) -> float:
    """Return what the cycle earns over the horizon: whole repeats by squaring, then a prefix."""
    whole = repeat_effect(_prefix(effects, length), horizon // length)
    rest = _prefix(effects, horizon % length)
    return whole.slope * q + whole.base + rest.slope * (whole.kept * q + whole.shift) + rest.base


@compiled
def _best_of_length(
    r: FloatArray, b: FloatArray, lam: float, q0: float, horizon: int, length: int, best: IntArray
) -> float:
    """Look at all cycles of one length in order, like a counter; write the best; return its pay."""
    effects = np.zeros((length + 1, 5))
    effects[0, 0] = 1.0
    digits = np.zeros(length, dtype=np.int64)
    changed, highest = 0, -1.0
    while True:
        for depth in range(changed, length):
            arm = digits[depth]
            effects[depth + 1] = add_pull(_prefix(effects, depth), r[arm], b[arm], lam)
        total = _total(effects, length, q0, horizon)
        if total > highest:
            highest = total
            for depth in range(length):
                best[depth] = digits[depth]
        changed = length - 1
        while changed >= 0 and digits[changed] == r.size - 1:
            digits[changed] = 0
            changed -= 1
        if changed < 0:
            return highest
        digits[changed] += 1


@frozen
class BestCycle:
    """The best cycle of arms up to a given length, repeated from the first round to the last.

    Only arms that another arm dominates in both r and b are left out. The convex hull, which
    is enough for free schedules, is not enough here: a cycle plays its arms again and again,
    so its value is not convex in (r, b), and an arm inside the hull can make the best one.

    Parameters
    ----------
    length : int
        At least 1: the longest cycle looked at.
    most_cycles : int
        At least 1: raise an error where there are more cycles to look at. k arms that no other
        arm dominates make ``k + k**2 + ... + k**length`` of them, at some 0.3 microseconds each.
    """

    length: int = field(default=4, validator=ge(1))
    most_cycles: int = field(default=20_000_000, validator=ge(1))

    def plan(self, instance: bdes.Instance, horizon: int) -> bdes.Plan:
        """Return the best periodic schedule of ``horizon`` pulls; the shortest of equals."""
        horizon = bdes.as_integer(horizon, "horizon", 1)
        arms = np.sort(bdes.pareto_arms(instance.r, instance.b))
        longest = min(self.length, horizon)
        n_cycles = sum(arms.size**length for length in range(1, longest + 1))
        if n_cycles > self.most_cycles:
            raise bdes.InvalidValueError(
                f"{arms.size} arms make {n_cycles} cycles of up to {longest} pulls, more than"
                f" most_cycles = {self.most_cycles}: use a smaller 'length', allow more, or use"
                " the 'certified' planner"
            )
        r, b = instance.r[arms], instance.b[arms]
        chosen, highest = np.zeros(1, dtype=np.int64), -1.0
        for length in range(1, longest + 1):
            best = np.zeros(length, dtype=np.int64)
            total = _best_of_length(r, b, instance.lam, instance.q0, horizon, length, best)
            # A longer cycle that only repeats a shorter one may differ in the last bits.
            if total > highest * (1 + 1e-12):
                chosen, highest = best, total
        schedule = bdes.Schedule.cycle(arms[chosen], horizon)
        tried = {"method": "cycle", "period": chosen.size, "cycles_tried": n_cycles}
        return simply_bounded_plan(instance, schedule, tried)
