"""Engine that runs jobs on a Dask cluster: an existing scheduler, or a local one."""

import asyncio
import logging
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from attrs import field, frozen, validators

from bdes_engines.batches import JobT, ResultT, in_batches, run_batch
from bdes_engines.guard import check_worker_start, exit_if_imported_by_worker
from bdes_framework import BuildContext, InvalidValueError, PluginError

if TYPE_CHECKING:
    from distributed import Client

_ADDRESS = r"(?:(?:tcp|tls|wss?)://)?(?:[^\s/:\[\]]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}"
_LAST_PORT = 65_535
_ANSWER_SECONDS = 10
_LOCAL_CLUSTER = {
    # Our own scheduler need not try a batch thrice: what it gives back is run again alone.
    "distributed.scheduler.allowed-failures": 0,
    # A worker that dies again while it comes back would be given up for good after 15 s.
    "distributed.deploy.lost-worker-timeout": "1 day",
    # Every worker calls this module's dask_setup, those that come back included.
    "distributed.worker.preload": [__name__],
}


@frozen
class DaskConfig:
    """Runs cells on a Dask cluster (needs the extra ``dask``).

    Parameters
    ----------
    address : str | None
        An existing scheduler's address, such as ``tcp://10.0.0.5:8786``; by default a
        cluster is started on this machine.
    workers : int
        How many processes a cluster on this machine gets.
    """

    address: str | None = field(default=None)
    workers: int = field(default=2, validator=validators.ge(1))

    @address.validator
    def _is_an_address(self, _: object, value: str | None) -> None:
        if value is None:
            return
        if not re.fullmatch(_ADDRESS, value):
            raise InvalidValueError(
                f"address must be host:port or such as tcp://10.0.0.5:8786, got {value!r}"
            )
        if int(value.rpartition(":")[2]) > _LAST_PORT:
            raise InvalidValueError(f"address must have a port up to {_LAST_PORT}, got {value!r}")


class Dask:
    """Sends batches of jobs to a cluster and yields their results."""

    def __init__(self, config: DaskConfig) -> None:
        self._config = config

    def run(self, jobs: Sequence[JobT], execute: Callable[[JobT], ResultT]) -> Iterator[ResultT]:
        """Yield each job's result as it comes."""
        from distributed.comm.core import CommClosedError

        with self._client() as client:
            address = client.scheduler_info()["address"]
            try:
                yield from _results(client, jobs, execute)
            except (CancelledError, CommClosedError):
                raise PluginError(
                    f"lost the Dask scheduler at {address!r}; run the same command to go on"
                ) from None

    @contextmanager
    def _client(self) -> Iterator["Client"]:
        from dask import config
        from distributed import Client

        if self._config.address is not None:
            with _silent_client(), _connected_client(self._config.address) as client:
                yield client
            return
        check_worker_start("dask")
        with (
            config.set(_LOCAL_CLUSTER),
            Client(
                n_workers=self._config.workers,
                threads_per_worker=1,
                # A port of its own: with None it would still ask for 8787, on every interface.
                dashboard_address="127.0.0.1:0",
                host="127.0.0.1",
            ) as client,
        ):
            yield client


@contextmanager
def _silent_client() -> Iterator[None]:
    """Keep a lost scheduler out of the log, which would show a traceback before our error."""
    logger = logging.getLogger("distributed.client")
    logger.disabled, before = True, logger.disabled
    try:
        yield
    finally:
        logger.disabled = before


def _results(
    client: "Client", jobs: Sequence[JobT], execute: Callable[[JobT], ResultT]
) -> Iterator[ResultT]:
    from distributed import KilledWorker, as_completed

    n_workers = max(len(client.scheduler_info()["workers"]), 1)
    batches = in_batches(jobs, n_workers)
    sent = {client.submit(run_batch, execute, b, pure=False): b for b in batches}
    suspects: list[JobT] = []
    for future in as_completed(sent):
        batch = sent.pop(future)  # what is let go is not computed again when a worker dies
        try:
            results: list[ResultT] = future.result()
        except KilledWorker:
            suspects += batch
            continue
        yield from results
    # Dask blames everything a dead worker had in hand. Alone, only what kills is to blame.
    for job in suspects:
        alone = client.submit(run_batch, execute, [job], pure=False)
        with suppress(KilledWorker):
            yield alone.result()[0]


def dask_setup(worker: object) -> None:
    """Ignore Ctrl-C, which the parent handles: Dask calls this in each local worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _connected_client(address: str) -> "Client":
    """Connect to the scheduler at an address; raise if none answers.

    A client waits without end for a port that takes the call and says nothing, as the port of
    Dask's own dashboard does; so it is tried first, in a thread of its own because notebooks
    have a running loop in this one.
    """
    from distributed import Client

    try:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, _connect(address)).result()
        return Client(address, timeout=_ANSWER_SECONDS)
    except OSError:
        raise PluginError(f"no Dask scheduler answers at {address!r}") from None
    except (TypeError, ValueError) as error:  # such as TLS without the keys it needs
        raise PluginError(f"cannot connect to {address!r}: {error}") from None


async def _connect(address: str) -> None:
    from distributed.comm.core import connect

    async with asyncio.timeout(_ANSWER_SECONDS):
        comm = await connect(address)
        await comm.close()


def build(config: DaskConfig, context: BuildContext) -> Dask:
    """Build the engine; raise if Dask is not installed."""
    if find_spec("distributed") is None:
        raise PluginError("engine 'dask' needs Dask: install 'bdes-framework[dask]'")
    exit_if_imported_by_worker()
    return Dask(config)
