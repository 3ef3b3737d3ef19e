"""A factory that takes another config class than the one registered: mypy refuses it."""

import numpy as np
from attrs import frozen

from bdes_framework import FloatArray, IntArray, PolicyContext, Registrar, hookimpl

BDES_API_VERSION = 1


@frozen
class OneConfig:
    """What is registered."""


@frozen
class OtherConfig:
    """What the factory takes."""


class Zero:
    """Plays arm 0."""

    def ask(self, limit: int) -> IntArray:
        """Return arm 0."""
        return np.zeros(limit, dtype=np.int64)

    def tell(self, rewards: FloatArray) -> None:
        """Learn nothing."""


def build(config: OtherConfig, context: PolicyContext) -> Zero:
    """Build it."""
    return Zero()


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Try to register it."""
    registrar.policy("zero", OneConfig, build)  # error: arg-type
