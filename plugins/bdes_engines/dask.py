"""Jobs spread over a Dask cluster: an existing scheduler, or a local one."""

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

from attrs import field, frozen, validators

from bdes_engines.batches import in_batches, run_batch
from bdes_engines.guard import leave_if_imported_by_a_worker, try_a_worker
from bdes_framework import BuildContext, PluginError

if TYPE_CHECKING:
    from distributed import Client

Job = TypeVar("Job")
Result = TypeVar("Result")


@frozen
class DaskConfig:
    """Runs cells on a Dask cluster (needs the extra ``dask``).

    Parameters
    ----------
    address : str or nothing
        An existing scheduler's address, such as ``tcp://10.0.0.5:8786``; by default a
        cluster is started on this machine.
    workers : int
        How many processes a cluster on this machine gets.
    """

    address: str | None = None
    workers: int = field(default=2, validator=validators.ge(1))


class Dask:
    """Sends batches of jobs to a cluster and yields what comes back."""

    def __init__(self, config: DaskConfig) -> None:
        self._config = config

    def run(self, jobs: Sequence[Job], execute: Callable[[Job], Result]) -> Iterator[Result]:
        """Yield each job's result as it comes."""
        from distributed import KilledWorker, as_completed

        with self._client() as client:
            n_workers = max(len(client.scheduler_info()["workers"]), 1)
            batches = in_batches(jobs, n_workers)
            sent = {client.submit(run_batch, execute, b, pure=False): b for b in batches}
            coming = as_completed(sent)
            for future in coming:
                batch = sent.pop(future)
                try:
                    results: list[Result] = future.result()
                except KilledWorker:
                    # Dask has tried it on several workers, and each died: send its jobs one by
                    # one, so that the one that kills is left out alone.
                    for job in batch if len(batch) > 1 else ():
                        again = client.submit(run_batch, execute, [job], pure=False)
                        sent[again] = [job]
                        coming.add(again)
                    continue
                yield from results

    def _client(self) -> "Client":
        from distributed import Client

        if self._config.address is not None:
            try:
                return Client(self._config.address, timeout=10)
            except OSError:
                address = self._config.address
                raise PluginError(f"no Dask scheduler answers at {address!r}") from None
        try_a_worker("dask")
        return Client(
            n_workers=self._config.workers,
            threads_per_worker=1,
            dashboard_address=None,
            host="127.0.0.1",
        )


def build(config: DaskConfig, context: BuildContext) -> Dask:
    """Build the engine, if Dask is there."""
    if find_spec("distributed") is None:
        raise PluginError("engine 'dask' needs Dask: install 'bdes-framework[dask]'")
    leave_if_imported_by_a_worker()
    return Dask(config)
