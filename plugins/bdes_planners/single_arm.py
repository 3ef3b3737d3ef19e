"""The planners ``greedy`` and ``best-fixed``: one arm throughout, as a simple alternative."""

import numpy as np
from attrs import frozen

from bdes_framework import Instance, Plan, Schedule, as_integer, pareto_arms
from bdes_planners.bounds import simply_bounded_plan


@frozen
class Greedy:
    """The arm that pays most right now, every round, whatever it does to the state.

    All arms see the same state, so this is an arm with the largest r throughout. Of several
    with the same r it takes the one with the largest b, then the lowest number; it keeps to
    that arm when the state is 0 and all arms pay nothing.
    """

    def plan(self, instance: Instance, horizon: int) -> Plan:
        """Return the greedy schedule of ``horizon`` pulls."""
        horizon = as_integer(horizon, "horizon", 1)
        return _one_arm(instance, int(pareto_arms(instance.r, instance.b)[0]), horizon)


@frozen
class BestFixed:
    """The best single arm, played throughout; of equals, the one of the lowest number."""

    def plan(self, instance: Instance, horizon: int) -> Plan:
        """Return the best constant schedule of ``horizon`` pulls."""
        horizon = as_integer(horizon, "horizon", 1)
        # A dominated arm earns no more than the arm that dominates it.
        arms = np.sort(pareto_arms(instance.r, instance.b)).tolist()
        values = [instance.value(Schedule.cycle([arm], horizon)) for arm in arms]
        return _one_arm(instance, arms[int(np.argmax(values))], horizon)


def _one_arm(instance: Instance, arm: int, horizon: int) -> Plan:
    schedule = Schedule.cycle([arm], horizon)
    return simply_bounded_plan(instance, schedule, {"method": "constant", "arm": arm})
