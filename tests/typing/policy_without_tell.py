"""A policy that cannot be told anything: mypy refuses to register it."""

import numpy as np
from attrs import frozen

from bdes_framework import IntArray, PolicyContext, Registrar, hookimpl

BDES_API_VERSION = 1


@frozen
class DeafConfig:
    """Plays arm 0."""


class Deaf:
    """Lacks ``tell``."""

    def ask(self, limit: int) -> IntArray:
        """Return arm 0."""
        return np.zeros(limit, dtype=np.int64)


def build(config: DeafConfig, context: PolicyContext) -> Deaf:
    """Build it."""
    return Deaf()


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Try to register it."""
    registrar.policy("deaf", DeafConfig, build)  # error: arg-type
