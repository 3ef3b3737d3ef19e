"""Plugin of engines that run an experiment's cells: serial, processes, Dask."""

from bdes_framework import Registrar, hookimpl

BDES_API_VERSION = 1


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Register ``serial``, ``processes`` and ``dask``."""
    from bdes_engines import dask, processes
    from bdes_engines.serial import Serial

    registrar.engine("serial", Serial, lambda engine, _: engine)
    registrar.engine("processes", processes.ProcessesConfig, processes.build)
    registrar.engine("dask", dask.DaskConfig, dask.build)
