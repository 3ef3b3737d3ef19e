"""The planner ``exact``: the optimum, by backward induction that keeps every line needed."""

from attrs import field, frozen
from attrs.validators import gt

from bdes_framework import DecisionTable, Instance, InvalidValueError, Plan, Schedule, as_integer
from bdes_planners.backward_induction import BackwardInduction, Stage, Status
from bdes_planners.blocks import single_step
from bdes_planners.bounds import constant_plan, is_constant
from bdes_planners.reduced_problem import reduce
from bdes_planners.stationary import search_table

_TABLE_GAP = 1e-8


@frozen
class Exact:
    """The optimal schedule, for instances whose value function stays small enough to keep.

    The upper bound equals the value up to rounding. Rewards below about 1e-300 are outside what
    floats and hence the bound can tell from 0.

    Parameters
    ----------
    memory : float
        Above 0: megabytes the value function and the policy may take. Beyond them the planner stops
        with an error; ``certified`` plans such instances to a proven gap instead.
    """

    memory: float = field(default=512.0, validator=gt(0))

    def plan(self, instance: Instance, horizon: int) -> Plan:
        """Return an optimal schedule of ``horizon`` pulls."""
        horizon = as_integer(horizon, "horizon", 1)
        problem = reduce(instance)
        if is_constant(problem):
            return constant_plan(instance, problem, horizon, "constant")
        max_bytes = self.memory * 2**20
        step = single_step(problem, horizon)
        sweep = BackwardInduction(problem, (Stage(step),), horizon=horizon, max_bytes=max_bytes)
        # 16 bytes per round: one number that says where its policy ends, one for its arm.
        if 16 * horizon > max_bytes or sweep.advance(horizon) is not Status.DONE:
            raise InvalidValueError(
                f"the exact plan of {horizon} rounds at lam = {instance.lam:g} needs more than"
                f" {self.memory:g} megabytes (gave up {sweep.n} rounds before the end,"
                f" at {int(sweep.counters.size[0])} lines): give it more 'memory', or use the"
                " 'certified' planner, which stays small and proves its gap"
            )
        schedule = problem.original(Schedule(sweep.finish(problem.q0, horizon)))
        value = instance.value(schedule)
        upper = max(sweep.upper() * problem.unit, value)
        lines, work = int(sweep.counters.peak[0]), int(sweep.counters.work[0])
        how = {"hull_arms": problem.n_arms, "most_lines": lines, "work": work}
        return Plan(schedule, value, upper, {"method": "sweep", **how})

    def plan_stationary(self, instance: Instance, continuation: float) -> DecisionTable:
        """Return the arm for every state, when a user comes back with this probability.

        The bound is within 1e-8 of the value, relative to it, and rounding: V may have infinitely
        many lines.
        """
        search = search_table(instance, continuation, _TABLE_GAP, self.memory * 2**20)
        if search.reached > _TABLE_GAP:
            raise InvalidValueError(
                f"the exact decision table at lam = {instance.lam:g} and continuation"
                f" {continuation:g} takes more than {self.memory:g} megabytes or some seconds (it"
                f" gave up at a gap of {search.reached:.1g}): use the 'certified' planner, which"
                " stays small and proves its gap"
            )
        return search.table
