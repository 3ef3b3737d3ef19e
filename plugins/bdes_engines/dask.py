"""Engine that runs jobs on a Dask cluster: an existing scheduler, or a local one."""

import asyncio
import logging
import pickle
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from attrs import field, frozen, validators

from bdes_engines.batches import JobT, in_batches
from bdes_engines.pool import MAX_WORKERS, Pool, ResultT
from bdes_framework import BuildContext, InvalidValueError, JobFailure, PluginError

if TYPE_CHECKING:
    from distributed import Client, Future

_ADDRESS = r"(?:(?:tcp|tls|wss?)://)?(?:[^\s/:\[\]]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}"
_LAST_PORT = 65_535
_ANSWER_SECONDS = 10
_LOCAL_CLUSTER: Mapping[str, object] = {
    # No pages about a cluster that lives inside this process for the length of a run.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}


@frozen
class DaskConfig:
    """Runs cells on a Dask cluster (needs the extra ``dask``).

    Parameters
    ----------
    address : str | None
        An existing scheduler's address, such as ``tcp://10.0.0.5:8786``; by default there
        is one in this process, which nobody else can reach.
    workers : int
        How many processes run cells if no address is given.
    """

    address: str | None = field(default=None)
    workers: int = field(default=2, validator=[validators.ge(1), validators.le(MAX_WORKERS)])

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

    def __repr__(self) -> str:
        return f"Dask(address={self._config.address!r}, workers={self._config.workers})"

    def run(
        self, jobs: Sequence[JobT], execute: Callable[[JobT], ResultT]
    ) -> Iterator[ResultT | JobFailure[JobT]]:
        """Yield each job's result as it comes."""
        from distributed.comm.core import CommClosedError

        run = uuid.uuid4().hex
        with self._client() as client:
            address = client.scheduler_info()["address"]
            connected = True
            try:
                yield from _results(client, run, jobs, execute)
            except (CancelledError, CommClosedError):
                connected = False
                raise PluginError(
                    f"lost the Dask scheduler at {address!r}; run the same command to go on"
                ) from None
            finally:
                if connected:
                    client.run(_close_pools, run)

    @contextmanager
    def _client(self) -> Iterator["Client"]:
        from dask import config
        from distributed import Client

        if self._config.address is not None:
            with _silent_client(), _connected_client(self._config.address) as client:
                yield client
            return
        # A scheduler inside this process: there is no port that another user could call.
        with (
            config.set(_LOCAL_CLUSTER),
            Client(
                processes=False,
                n_workers=1,
                threads_per_worker=self._config.workers,
                memory_limit=0,
                # A port of its own: with None it would still ask for 8787, on every interface.
                dashboard_address="127.0.0.1:0",
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
    client: "Client", run: str, jobs: Sequence[JobT], execute: Callable[[JobT], ResultT]
) -> Iterator[ResultT | JobFailure[JobT]]:
    from distributed import KilledWorker, as_completed

    function = pickle.dumps(execute)
    n_threads = max(sum(client.nthreads().values()), 1)

    def submit(batch: Sequence[JobT]) -> "Future[bytes]":
        return client.submit(_run_batch, run, function, pickle.dumps(batch), pure=False)

    sent = {submit(batch): batch for batch in in_batches(jobs, n_threads)}
    suspects: list[JobT] = []
    for future in as_completed(sent):
        batch = sent.pop(future)  # what is let go is not computed again when a worker dies
        try:
            results = future.result()
        except KilledWorker:
            suspects += batch
            continue
        yield from pickle.loads(results)  # noqa: S301 (our own workers')
    # Dask blames everything a dead worker had in hand. Alone, only what kills is to blame.
    for job in suspects:
        try:
            results = submit([job]).result()
        except KilledWorker:
            yield JobFailure(job, "its Dask worker died every time it was tried")
        else:
            yield from pickle.loads(results)  # noqa: S301


# -- in a Dask worker -----------------------------------------------------------------------

_pools: dict[str, tuple[list[Pool[Any, Any]], list[Pool[Any, Any]]]] = {}
"""For each run its pools of one process each: those that wait, and those at work."""

_lock = threading.Lock()


def _run_batch(run: str, execute: bytes, batch: bytes) -> bytes:
    """Run a batch in a process of its own, which may die or be killed without harm to Dask."""
    with _lock:
        idle, busy = _pools.setdefault(run, ([], []))
        pool = idle.pop() if idle else Pool[Any, Any](1, execute)
        busy.append(pool)
    try:
        results = pickle.dumps(list(pool.run(pickle.loads(batch))))  # noqa: S301
    except BaseException:
        pool.close()
        raise
    else:
        idle.append(pool)
        return results
    finally:
        busy.remove(pool)


def _close_pools(run: str) -> None:
    """End what a run has started in this Dask worker."""
    with _lock:
        idle, busy = _pools.pop(run, ([], []))
    for pool in list(busy):  # which shrinks as they end
        pool.interrupt()
    for pool in idle:
        pool.close()


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
    return Dask(config)
