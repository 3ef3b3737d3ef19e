"""A plugin for bdes-framework: ``epsilon-greedy``, for one audience and for many users."""

from bdes_framework import Registrar, hookimpl

BDES_API_VERSION = 1


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Register everything this package brings."""
    from bdes_plugin_template.crowd_epsilon_greedy import (
        CrowdEpsilonGreedy,
        CrowdEpsilonGreedyConfig,
    )
    from bdes_plugin_template.epsilon_greedy import EpsilonGreedyConfig, build

    registrar.policy("epsilon-greedy", EpsilonGreedyConfig, build)
    registrar.crowd_policy(
        "crowd-epsilon-greedy", CrowdEpsilonGreedyConfig, CrowdEpsilonGreedy, uses=()
    )
