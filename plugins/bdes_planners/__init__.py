"""Planners, as a plugin: the optimum, approximations with a proven gap, simple alternatives."""

from bdes_framework import Registrar, hookimpl

BDES_API_VERSION = 1


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Register ``certified``, ``exact``, ``fptas``, ``greedy``, ``best-fixed``, ``best-cycle``."""
    from bdes_planners import certified, cycles, exact, fptas, simple

    registrar.planner("certified", certified.CertifiedConfig, certified.build)
    registrar.planner("exact", exact.ExactConfig, exact.build)
    registrar.planner("fptas", fptas.FptasConfig, fptas.build)
    registrar.planner("greedy", simple.GreedyConfig, simple.build_greedy)
    registrar.planner("best-fixed", simple.BestFixedConfig, simple.build_best_fixed)
    registrar.planner("best-cycle", cycles.BestCycleConfig, cycles.build)
