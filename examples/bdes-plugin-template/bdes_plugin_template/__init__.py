"""A plugin for bdes-framework: registers the policy ``epsilon-greedy``."""

from bdes_framework import Registrar, hookimpl

BDES_API_VERSION = 1


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Register everything this package brings."""
    from bdes_plugin_template.epsilon_greedy import EpsilonGreedyConfig, build

    registrar.policy("epsilon-greedy", EpsilonGreedyConfig, build)
