"""Plugin of the paper's environment, ``bernoulli``, and of ``crowd``, many users of it."""

from bdes_framework import Registrar, hookimpl

BDES_API_VERSION = 1


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Register ``bernoulli`` and ``crowd``."""
    from bdes_environments import bernoulli, crowd

    registrar.environment("bernoulli", bernoulli.BernoulliConfig, bernoulli.build)
    registrar.crowd_environment("crowd", crowd.CrowdConfig, crowd.build)
