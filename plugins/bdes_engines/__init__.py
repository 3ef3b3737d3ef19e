"""Engines that run an experiment's cells, as a plugin."""

from bdes_framework import Registrar, hookimpl

BDES_API_VERSION = 1


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Register ``serial``."""
    from bdes_engines.serial import SerialConfig, build

    registrar.engine("serial", SerialConfig, build)
