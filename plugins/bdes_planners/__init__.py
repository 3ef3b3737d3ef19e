"""Planners, as a plugin: the optimum, approximations with a proven gap, simple alternatives."""

from bdes_framework import Registrar, hookimpl

BDES_API_VERSION = 1


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Register ``certified``, ``exact``, ``fptas``, ``greedy``, ``best-fixed``, ``best-cycle``."""
    from bdes_planners import best_cycle, certified, exact, fptas, single_arm

    registrar.planner("certified", certified.CertifiedConfig, certified.build)
    registrar.planner("exact", exact.ExactConfig, exact.build)
    registrar.planner("fptas", fptas.FptasConfig, fptas.build)
    registrar.planner("greedy", single_arm.GreedyConfig, single_arm.build_greedy)
    registrar.planner("best-fixed", single_arm.BestFixedConfig, single_arm.build_best_fixed)
    registrar.planner("best-cycle", best_cycle.BestCycleConfig, best_cycle.build)
