"""Plugin of the paper's environment, ``bernoulli``."""

from bdes_framework import Registrar, hookimpl

BDES_API_VERSION = 1


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Register ``bernoulli``."""
    from bdes_environments.bernoulli import BernoulliConfig, build

    registrar.environment("bernoulli", BernoulliConfig, build)
