"""Plugin of the paper's environment, ``bernoulli``, and of many users: ``crowd``, ``no-state``."""

from bdes_framework import Registrar, hookimpl

BDES_API_VERSION = 1


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Register ``bernoulli``, ``crowd`` and ``no-state``."""
    from bdes_environments import bernoulli, crowd, no_state

    registrar.environment("bernoulli", bernoulli.BernoulliConfig, bernoulli.build)
    registrar.crowd_environment("crowd", crowd.CrowdConfig, crowd.build)
    registrar.crowd_environment("no-state", no_state.NoStateConfig, no_state.build)
