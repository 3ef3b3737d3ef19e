"""Planners, as a plugin: the optimum, approximations with a proven gap, simple alternatives."""

from bdes_framework import Registrar, hookimpl

BDES_API_VERSION = 1


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Register ``certified``, ``exact``, ``fptas``, ``greedy``, ``best-fixed``, ``best-cycle``."""
    from bdes_planners.best_cycle import BestCycle
    from bdes_planners.certified import Certified
    from bdes_planners.exact import Exact
    from bdes_planners.fptas import Fptas
    from bdes_planners.single_arm import BestFixed, Greedy

    # A planner keeps no state but its parameters: it is its own config.
    registrar.planner("certified", Certified, lambda planner, _: planner)
    registrar.planner("exact", Exact, lambda planner, _: planner)
    registrar.planner("fptas", Fptas, lambda planner, _: planner)
    registrar.planner("greedy", Greedy, lambda planner, _: planner)
    registrar.planner("best-fixed", BestFixed, lambda planner, _: planner)
    registrar.planner("best-cycle", BestCycle, lambda planner, _: planner)
