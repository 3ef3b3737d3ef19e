"""The planner ``fptas``: the paper's scheme, with rewards rounded down to multiples of epsilon.

Corrected in two places. Schedules have exactly as many pulls as the horizon: the printed
algorithm may skip rounds. And what is promised is additive, ``OPT - epsilon * horizon``:
each rounding loses up to epsilon; a multiplicative promise needs a smaller epsilon.
"""

import math
import sys
from typing import Literal

import numpy as np
from attrs import field, frozen
from attrs.validators import gt, in_, lt

import bdes_framework as bdes
from bdes_framework import FloatArray, IntArray, InvalidValueError, Plan, as_integer, compiled
from bdes_planners.bounds import best_pair, constant_plan, is_constant
from bdes_planners.reduced_problem import UNIT_ROUNDOFF, Reduced, reduce

_BYTES_PER_PAIR = 16


@compiled
def _extend(
    r: FloatArray,
    b: FloatArray,
    lam: float,
    epsilon: float,
    paid: IntArray,
    state: FloatArray,
    best: FloatArray,
    origin: IntArray,
) -> int:
    """Enter every pair pulled through every arm: per total paid, the best state and its origin.

    ``best`` must hold -1 on entry; returns the highest total.
    """
    highest = 0
    for pair in range(paid.size):
        for arm in range(r.size):
            total = paid[pair] + math.floor(r[arm] * state[pair] / epsilon)
            q = state[pair] + lam * (b[arm] - state[pair])
            if q > best[total]:
                best[total] = q
                origin[total] = pair * r.size + arm
            highest = max(highest, total)
    return highest


@compiled
def _undominated(
    best: FloatArray,
    origin: IntArray,
    highest: int,
    paid: IntArray,
    state: FloatArray,
    source: IntArray,
) -> int:
    """Collect pairs no other beats in both total and state; reset ``best``; return how many."""
    kept, highest_state = 0, -1.0
    for total in range(highest, -1, -1):
        if best[total] > highest_state:
            highest_state = best[total]
            paid[kept] = total
            state[kept] = best[total]
            source[kept] = origin[total]
            kept += 1
        best[total] = -1.0
    return kept


@frozen
class Fptas:
    """The paper's approximation scheme, corrected; for horizons in the hundreds.

    Rewards below about 1e-300 are outside what floats and hence the guarantee can tell from 0.

    Parameters
    ----------
    epsilon : float
        What may be lost: per round with the additive guarantee, relative to the optimum with
        the multiplicative one. Above 0 and finite.
    guarantee : Literal["additive", "multiplicative"]
        ``value >= OPT - epsilon * horizon``, or ``value >= (1 - epsilon) * OPT``.
    memory : float
        Above 0: megabytes the lists of pairs may take; beyond them planning raises an error.
    """

    epsilon: float = field(default=0.01, validator=[gt(0), lt(math.inf)])
    guarantee: Literal["additive", "multiplicative"] = field(
        default="additive", validator=in_(("additive", "multiplicative"))
    )
    memory: float = field(default=512.0, validator=gt(0))

    def plan(self, instance: bdes.Instance, horizon: int) -> Plan:
        """Return a schedule of ``horizon`` pulls within the guarantee of the optimum."""
        horizon = as_integer(horizon, "horizon", 1)
        problem = reduce(instance)
        if is_constant(problem) or horizon == 1:  # the first kept arm pays most now
            return constant_plan(instance, problem, horizon, "constant")
        epsilon = self.epsilon / problem.unit
        if self.guarantee == "multiplicative":
            # OPT is at least what the best pair of arms earns, so this loses epsilon·OPT at most.
            epsilon = self.epsilon * best_pair(problem, horizon)[1] / horizon
        # Over two rounds and more a pair earns something, if only less than a float can hold.
        epsilon = max(epsilon, sys.float_info.min)
        arms, total, pairs = self._search(problem, horizon, epsilon)
        schedule = problem.original(bdes.Schedule.of(arms))
        value = instance.value(schedule)
        # The optimal schedule's rounded total is at most ours, and each of its rounds was
        # rounded by less than epsilon; states carry a rounding error of their own.
        upper = epsilon * (total + horizon) * problem.unit
        upper *= 1 + 8 * UNIT_ROUNDOFF * (horizon + 4)
        diagnostics: dict[str, bdes.DiagnosticValue] = {
            "method": "rounded rewards",
            "hull_arms": problem.n_arms,
            "epsilon": epsilon * problem.unit,
            "pairs": pairs,
        }
        return Plan(schedule, value, max(upper, value), diagnostics)

    def _search(self, problem: Reduced, horizon: int, epsilon: float) -> tuple[IntArray, int, int]:
        """Return the arms of the best rounded schedule, its total in epsilons, the pairs kept."""
        # The highest total any schedule can reach from the highest state that is ever paid,
        # which is not the one after the last pull; one for rounding.
        rise = (problem.high - problem.q0) * min(1.0, problem.lam * (horizon - 1))
        max_bytes = self.memory * 2**20
        levels = horizon * (float(problem.r.max()) * (problem.q0 + rise) / epsilon) + 1
        if _BYTES_PER_PAIR * (levels + 1) > max_bytes or horizon * 8 > max_bytes:
            raise self._too_large(horizon, levels)
        best = np.full(int(levels) + 2, -1.0)
        origin = np.zeros(best.size, dtype=np.int64)
        paid, state = np.zeros(1, dtype=np.int64), np.array([problem.q0])
        sources: list[IntArray] = []
        stored = 0
        for _ in range(horizon):
            highest = _extend(problem.r, problem.b, problem.lam, epsilon, paid, state, best, origin)
            room = min(highest + 1, paid.size * problem.n_arms)
            source = np.empty(room, dtype=np.int64)
            paid, state = np.empty(room, dtype=np.int64), np.empty(room)
            kept = _undominated(best, origin, highest, paid, state, source)
            paid, state = paid[:kept].copy(), state[:kept].copy()
            sources.append(source[:kept].copy())
            stored += kept
            if 8 * stored > max_bytes:
                raise self._too_large(horizon, levels)
        arms = np.empty(horizon, dtype=np.int64)
        pair = 0  # highest total first
        for t in range(horizon - 1, -1, -1):
            pair, arms[t] = divmod(int(sources[t][pair]), problem.n_arms)
        return arms, int(paid[0]), stored

    def _too_large(self, horizon: int, levels: float) -> InvalidValueError:
        return InvalidValueError(
            f"{horizon} rounds with rewards in steps of epsilon make up to {levels:.3g} totals per"
            f" round, more than {self.memory:g} megabytes hold: use a larger 'epsilon',"
            " more 'memory', or the 'certified' planner, whose cost does not grow with the horizon"
        )
