"""Regret of a simulation: against a benchmark (DES regret), or the best fixed arm (external)."""

import numpy as np

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.text import class_path
from bdes_framework.errors import ContractError, InvalidValueError
from bdes_framework.interfaces import Benchmark, Environment, HasBenchmark, HasInstance, Planner
from bdes_framework.model.instance import Instance
from bdes_framework.simulation.loop import Trace


def benchmark_of(
    environment: Environment, checkpoints: IntArray, planner: Planner | None
) -> Benchmark | None:
    """Return the benchmark of ``environment``: its own, or the planner's plan of its instance.

    None if it has neither a benchmark nor an instance, or without a planner.

    Raises
    ------
    ContractError
        If the plan has another value than it states; names the planner's class.
    """
    if isinstance(environment, HasBenchmark):
        return environment.benchmark(checkpoints)
    if planner is None or not isinstance(environment, HasInstance):
        return None
    instance = environment.instance
    plan = planner.plan(instance, int(checkpoints[-1]))
    try:
        return Benchmark.from_plan(plan, instance, checkpoints)
    except ContractError as error:
        raise ContractError(f"planner {class_path(planner)}: {error}") from None


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
