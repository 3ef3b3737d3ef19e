"""The optimum itself: every line of the envelope kept, none dropped but those that are covered."""

from attrs import frozen

from bdes_framework import (
    BuildContext,
    DiagnosticValue,
    Instance,
    InvalidValueError,
    Plan,
    Schedule,
)
from bdes_planners.blocks import single_step
from bdes_planners.bounds import constant_plan, is_constant
from bdes_planners.reduction import checked_horizon, reduce
from bdes_planners.sweep import Status, Sweep


@frozen
class ExactConfig:
    """The optimal schedule, for instances whose value function stays small enough to keep.

    Rewards below about 1e-300 are outside what floats and hence the bound can tell from 0.

    Parameters
    ----------
    memory : float above 0
        Megabytes the value function and the policy may take. Beyond them the planner stops
        with an error; ``certified`` plans such instances to a proven gap instead.
    """

    memory: float = 512.0

    def __attrs_post_init__(self) -> None:
        if not self.memory > 0:
            raise InvalidValueError(f"memory must be above 0 megabytes, got {self.memory!r}")


class Exact:
    """Plans optimally; the upper bound equals the value up to rounding."""

    def __init__(self, memory: float = 512.0) -> None:
        self._bytes = memory * 2**20

    def plan(self, instance: Instance, horizon: int) -> Plan:
        """Return an optimal schedule of ``horizon`` pulls."""
        horizon = checked_horizon(horizon)
        problem = reduce(instance)
        if is_constant(problem):
            return constant_plan(instance, problem, horizon, "constant")
        step = single_step(problem, horizon)
        sweep = Sweep(problem, step, step, horizon=horizon, most_bytes=self._bytes)
        # 16 bytes a round: one number that says where its policy ends, one for its arm.
        if 16 * horizon > self._bytes or sweep.advance(horizon) is not Status.DONE:
            raise InvalidValueError(
                f"the exact plan of {horizon} rounds at lam = {instance.lam:g} needs more than"
                f" {self._bytes / 2**20:g} megabytes (gave up {sweep.n} rounds before the end,"
                f" at {int(sweep.counters.size[0])} lines): give it more 'memory', or use the"
                " 'certified' planner, which stays small and proves its gap"
            )
        schedule = problem.original(Schedule(sweep.finish(problem.q0, horizon)))
        value = instance.value(schedule)
        upper = max(sweep.upper() * problem.unit, value)
        diagnostics: dict[str, DiagnosticValue] = {
            "method": "sweep",
            "hull_arms": problem.n_arms,
            "most_lines": int(sweep.counters.peak[0]),
            "work": int(sweep.counters.work[0]),
        }
        return Plan(schedule, value, upper, diagnostics)


def build(config: ExactConfig, context: BuildContext) -> Exact:
    """Build the planner."""
    return Exact(config.memory)
