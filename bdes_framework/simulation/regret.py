"""Regret of a simulation: against a benchmark (DES regret), or the best fixed arm (external)."""

import math

import numpy as np
from attrs import evolve

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.numbers import is_number
from bdes_framework._internal.text import class_path, quoted
from bdes_framework._internal.threads import one_thread
from bdes_framework.errors import ContractError, InvalidValueError
from bdes_framework.interfaces import Benchmark, Environment, HasBenchmark, HasInstance, Planner
from bdes_framework.model.instance import Instance
from bdes_framework.simulation.loop import Trace


@one_thread()
def benchmark_of(
    environment: Environment, checkpoints: IntArray, planner: Planner | None
) -> Benchmark | None:
    """Return the benchmark of ``environment``: its own, or the planner's plan of its instance.

    None if it has neither a benchmark nor an instance, or without a planner.

    Raises
    ------
    ContractError
        If the plan has another value than it states, or an own benchmark is not what
        :class:`HasBenchmark` promises; names the class of planner or environment.
    """
    if isinstance(environment, HasBenchmark):
        try:
            return _checked(environment.benchmark(checkpoints.copy()), checkpoints)
        except ContractError as error:
            raise ContractError(f"environment {class_path(environment)}: {error}") from None
    if planner is None or not isinstance(environment, HasInstance):
        return None
    instance = environment.instance
    plan = planner.plan(instance, int(checkpoints[-1]))
    try:
        return Benchmark.from_plan(plan, instance, checkpoints)
    except ContractError as error:
        raise ContractError(f"planner {class_path(planner)}: {error}") from None


def _checked(found: object, checkpoints: IntArray) -> Benchmark:
    """Return an environment's own benchmark; raise ContractError unless it keeps its promises."""
    if not isinstance(found, Benchmark):
        raise ContractError(f"benchmark must return a Benchmark, got {quoted(found)}")
    if not np.array_equal(found.checkpoints, checkpoints):
        raise ContractError(
            f"benchmark must be that of the {checkpoints.size} checkpoints asked for, up to round"
            f" {checkpoints[-1]}; got {quoted(found.checkpoints)}"
        )
    values: object = found.values
    if not isinstance(values, np.ndarray) or values.dtype != np.float64:
        raise ContractError(f"benchmark's values must be an array of float64: {quoted(values)}")
    try:
        bound = float(found.upper_bound) if is_number(found.upper_bound) else math.nan
    except OverflowError:
        bound = math.nan
    if math.isnan(bound):
        what = f"a number of at least its value, got {quoted(found.upper_bound)}"
        raise ContractError(f"benchmark's upper bound must be {what}")
    for wrong in np.flatnonzero(~np.isfinite(values))[:1]:
        raise ContractError(
            f"benchmark's value after round {checkpoints[wrong]} is not finite: {values[wrong]}"
        )
    rounding = allowed_rounding(found.value)
    earned, rounds = np.diff(values, prepend=0.0), np.diff(checkpoints, prepend=0)
    for wrong in np.flatnonzero((earned < -rounding) | (earned > rounds + rounding))[:1]:
        raise ContractError(
            f"benchmark's value rises by {earned[wrong]} over the {rounds[wrong]} rounds up to"
            f" {checkpoints[wrong]}: the means of rounds lie in [0, 1]"
        )
    if found.value > bound + rounding:
        raise ContractError(f"benchmark's upper bound {bound} is below its value {found.value}")
    return evolve(found, upper_bound=bound)


def allowed_rounding(total: float) -> float:
    """Return how much a sum of expected rewards may be off, as for plans: a millionth of it."""
    return max(1e-6 * abs(total), 1e-9)


def des_regret(trace: Trace, benchmark: Benchmark) -> FloatArray:
    """Return the DES regret at the trace's checkpoints: shape (c,).

    The expected reward of the benchmark's sequence, less that of the arms pulled. Before the
    horizon this compares with the first rounds of the sequence that is best for the whole
    horizon, so it may be negative there.
    """
    if not np.array_equal(trace.checkpoints, benchmark.checkpoints):
        raise InvalidValueError("trace and benchmark have different checkpoints")
    return benchmark.values - trace.cumulative_means


def external_regret(trace: Trace, instance: Instance) -> FloatArray:
    """Return the external regret at the trace's checkpoints: shape (c,).

    Against the best fixed arm *on the states the policy itself induced*: what most bandit
    papers call regret, and no measure of what another sequence could have earned.
    """
    if trace.cumulative_states is None:
        raise InvalidValueError("the trace's environment brought no states")
    best: FloatArray = instance.r.max() * trace.cumulative_states - trace.cumulative_means
    return best
