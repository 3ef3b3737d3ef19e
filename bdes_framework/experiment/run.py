"""Running an experiment into a folder, and resuming it where it stopped.

The same experiment always has the same folder; finished cells are never run twice, unless code
that they use has changed. Hooks are called here, in the parent process.
"""

import hashlib
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TypeVar, cast

from attrs import asdict, define, evolve, field, frozen

from bdes_framework._internal.arrays import IntArray
from bdes_framework._internal.files import replace_text
from bdes_framework._internal.interrupts import is_interrupt
from bdes_framework._internal.text import quoted
from bdes_framework.errors import ContractError, InvalidValueError, StoreError
from bdes_framework.experiment.cell import (
    Cell,
    CellResult,
    Part,
    as_json,
    build_environment,
    execute,
    failed,
    guarded,
    spec_hash,
)
from bdes_framework.experiment.config import ExperimentConfig
from bdes_framework.experiment.failures import explained
from bdes_framework.experiment.file import Experiment, load_experiment
from bdes_framework.experiment.find import slug
from bdes_framework.experiment.results import Run, load_run
from bdes_framework.experiment.reuse import RUNS, changes, reuse_cells
from bdes_framework.experiment.run_files import note_files
from bdes_framework.experiment.store import DATABASE, LOCK, Store, benchmark_key, locked, open_store
from bdes_framework.interfaces import (
    Benchmark,
    CrowdEnvironment,
    Environment,
    JobFailure,
    Kind,
    Reference,
)
from bdes_framework.planning.plan_report import stationary_planner
from bdes_framework.plugin.fingerprint import ChangedCodeError, decisive_versions, has_foreign_code
from bdes_framework.plugin.hookspecs import FinishedCell, RunProgress
from bdes_framework.plugin.plugins import Plugins
from bdes_framework.plugin.registry import COUNTERPARTS, FIRST_PARTY
from bdes_framework.simulation.crowd_benchmark import CrowdBenchmark, crowd_benchmark_of
from bdes_framework.simulation.loop import log_checkpoints
from bdes_framework.simulation.regret import allowed_rounding, benchmark_of

_NO_RESULT = "the engine returned no result"


@frozen(kw_only=True)
class Job:
    """What engines are given: see :class:`Engine` for what they may know of it.

    Parameters
    ----------
    key : str
        What it is called among the jobs of a run.
    cell : Cell
        The cell to simulate, or whose benchmark to plan.
    cost : float
        Expected cost in pulls.
    isolate : bool
        Whether it runs plugins of third parties.
    timeout : float | None
        How many seconds it may take.
    """

    key: str
    cell: Cell
    cost: float
    isolate: bool
    timeout: float | None


@frozen(kw_only=True)
class BenchmarkJob(Job):
    """The job of planning the benchmark of one instance at one horizon."""

    planner: Reference
    code: Mapping[str, str]
    cost: float = 1e7
    """About a second's worth."""


JobT = TypeVar("JobT", bound=Job)
LeftT = TypeVar("LeftT")
JobResult = TypeVar("JobResult")


def run_folder(experiment: Experiment, out: str | PathLike[str] | None = None) -> Path:
    """Return the folder of an experiment's run: ``out``, or one named after its name and hash."""
    if out is not None:
        return Path(out)
    return Path(RUNS) / f"{slug(experiment.config.name)}-{run_identity(experiment)[:8]}"


def run_identity(experiment: Experiment) -> str:
    """Return a hash of the experiment's name, benchmark, cells and labels, without any code."""
    lines = [f"{c.spec} {c.environment.label!r} {c.policy.label!r}" for c in experiment.cells]
    text = "\n".join([repr(experiment.config.name), repr(experiment.config.benchmark), *lines])
    return hashlib.sha256(text.encode()).hexdigest()


def run_experiment(
    experiment: Experiment | ExperimentConfig | Mapping[str, object] | str | PathLike[str],
    *,
    objects: Sequence[object] = (),
    out: str | PathLike[str] | None = None,
    engine: Reference | None = None,
    retry_failed: bool = False,
    reuse: bool = True,
    on_note: Callable[[str], None] = lambda note: None,
    on_start: Callable[[int, Sequence[Cell]], None] = lambda total, left: None,
    on_cell: Callable[[Cell, CellResult], None] = lambda cell, result: None,
    on_benchmark: Callable[[int, int], None] = lambda total, done: None,
) -> Run:
    """Run an experiment, or what is left of it; return the run, open for reading.

    Parameters
    ----------
    experiment : Experiment | ExperimentConfig | Mapping[str, object] | str | PathLike[str]
        The experiment, its file, or its tables as :func:`load_experiment` takes them.
    objects : Sequence[object]
        Plugins in memory, as :func:`load_plugins` takes them, for engine ``serial`` only. Their
        cells are run anew each time, as nothing tells whether their code changed; run an
        :class:`Experiment` again to go on with what it has.
    out : str | PathLike[str] | None
        The run's folder; by default one below ``runs`` named after the experiment.
    engine : Reference | None
        The engine to run the cells with, instead of the one that the file names.
    retry_failed : bool
        Whether cells that failed before are run again.
    reuse : bool
        Whether a cell is taken from a run beside this one, of the same experiment's name, that
        has it with the same key.
    on_note : Callable[[str], None]
        Called before the first cell with lines that say what is reused, and whose change makes
        cells run again.
    on_start : Callable[[int, Sequence[Cell]], None]
        Called in this process with the number of all cells, and the cells that are left to run.
    on_cell : Callable[[Cell, CellResult], None]
        Called with every cell that finishes.
    on_benchmark : Callable[[int, int], None]
        Called with the numbers of benchmarks to plan and of those planned so far.

    Raises
    ------
    StoreError
        If the folder is damaged, full, in use, or another experiment's.
    PluginError
        If code changed while the run was going on, when what was saved before is kept; or if the
        engine may use other processes, and a plugin is in memory.

    Examples
    --------
    >>> arms = {"r": [0.9, 0.3], "b": [0.1, 1.0], "lam": 0.3}
    >>> tables = {
    ...     "name": "one rate",
    ...     "seed": 1,
    ...     "horizons": [1000],
    ...     "environments": [{"use": "bernoulli", **arms}],
    ...     "policies": ["etc-unknown-arm", "ucb1"],
    ... }
    >>> folder = getfixture("tmp_path") / "run"
    >>> with run_experiment(tables, out=folder, engine="serial") as run:
    ...     [result.policy for result in run.results()]
    ['etc-unknown-arm', 'ucb1']
    """
    if not isinstance(experiment, Experiment):
        experiment = load_experiment(experiment, objects=objects)
    elif objects:
        raise InvalidValueError("an Experiment has its plugins: give objects to load_experiment")
    chosen = experiment.config.engine if engine is None else engine
    experiment.plugins.check_engine(chosen)  # a wrong one leaves no folder behind
    folder = run_folder(experiment, out)
    _make_folder(folder)
    with locked(folder), closing(open_store(folder, create=True)) as store:
        _write_description(store, folder, experiment)
        execution = _RunExecution(experiment, store, chosen, on_cell, on_benchmark)
        notes = execution.prepare(retry_failed, folder if reuse else None)
        for note in notes:
            on_note(note)
        execution.run_cells(retry_failed, on_start)
    run = load_run(folder)
    run.progress = execution.progress
    return run


def _make_folder(folder: Path) -> None:
    """Create a run's folder; raise StoreError if it exists with other files in it."""
    if folder.is_dir() and not (folder / DATABASE).exists():
        others = sorted(path.name for path in folder.iterdir() if not path.name.startswith(LOCK))
        if others:
            raise StoreError(
                f"{quoted(str(folder), 200)} is not a run but has {quoted(others[0])} in it;"
                " use another --out"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot create {quoted(str(folder), 200)}: {error.strerror}") from None


def _write_description(store: Store, folder: Path, experiment: Experiment) -> None:
    """Write what is run, and by which code; raise StoreError if it is another experiment's."""
    identity = run_identity(experiment)
    known = store.meta("identity")
    if known not in (None, identity):
        raise StoreError(f"{quoted(str(folder), 200)} holds another experiment; use another --out")
    resolved = {
        "name": experiment.config.name,
        "step": "visit" if experiment.is_crowd else "round",
        "versions": dict(experiment.versions),
        "plugins": [
            {"plugin": r.name, "distribution": r.distribution, "version": r.version}
            for r in experiment.plugins.statuses
            if r.state == "loaded"
        ],
        "config": {
            **asdict(experiment.config, recurse=False),
            "feedback": _feedback(experiment),
            "plugins": asdict(experiment.config.plugins),
            "environments": _labelled((c.environment, c.horizon) for c in experiment.cells),
            "policies": _labelled((c.policy, c.horizon) for c in experiment.cells),
        },
        "cells": len(experiment.cells),
    }
    replace_text(folder / "experiment.toml", experiment.text)
    replace_text(folder / "resolved.json", json.dumps(resolved, indent=2, default=as_json))
    note_files(store, folder)
    store.set_meta("name", experiment.config.name)
    store.set_meta("identity", identity)


def _feedback(experiment: Experiment) -> dict[str, object] | None:
    feedback = experiment.cells[0].feedback if experiment.cells else None
    return None if feedback is None else asdict(feedback)


def _labelled(parts: Iterable[tuple[Part, int]]) -> list[dict[str, object]]:
    """Return tables with grids expanded, formulas evaluated and arms read, each once."""
    by_place = {(part.label, horizon): part for part, horizon in parts}
    return [
        {
            "label": part.label,
            "horizon": horizon,
            "source": part.source,
            "varies": part.varies,
            "instance": part.instance,
            "uses": part.uses,
            "table": part.decisive_table,
        }
        for (_, horizon), part in by_place.items()
    ]


@define
class _RunExecution:
    """Runs the cells that are not finished, saves them and reports progress."""

    _experiment: Experiment
    _store: Store
    _engine: Reference
    _on_cell: Callable[[Cell, CellResult], None]
    _on_benchmark: Callable[[int, int], None]
    _left: dict[str, list[Cell]] = field(init=False)
    progress: RunProgress = field(init=False)

    @property
    def _plugins(self) -> Plugins:
        return self._experiment.plugins

    def prepare(self, retry_failed: bool, folder: Path | None) -> tuple[str, ...]:
        """Find the cells that are left to run; return notes on what is reused and what is not.

        With ``folder``, that of the run, cells are taken from the runs beside it.
        """
        cells, config = self._experiment.cells, self._experiment.config
        self._store.delete_damaged()
        former = self._store.code_of_specs()
        self._store.set_plan(cells)
        self._store.set_benchmark_key(
            spec_hash(
                planner=config.benchmark,
                code=decisive_versions(self._experiment.benchmark_code),
                checkpoints=config.checkpoints,
            )
        )
        for horizon in config.horizons:
            self._store.set_checkpoints(horizon, log_checkpoints(horizon, config.checkpoints))
        failures = set() if retry_failed else self._store.finished(failed=True)
        done = self._store.finished(failed=False)
        if self._experiment.is_crowd:
            done &= self._store.with_users()
        missing = {cell.key for cell in cells} - done - failures
        notes: list[str] = []
        if missing and folder is not None:
            notes = reuse_cells(self._store, folder, config.name, missing, former)
        # Cells that differ in their labels alone share a key, and are run once.
        self._left = {}
        for cell in cells:
            if cell.key in missing:
                self._left.setdefault(cell.key, []).append(cell)
        left = [cell for same in self._left.values() for cell in same]
        n_failed = sum(cell.key in failures for cell in cells)
        n_reused = len(cells) - len(left) - n_failed
        notes += changes(left, former, n_reused)
        self.progress = RunProgress(
            config.name,
            len(cells),
            n_finished=n_reused,
            n_failed=n_failed,
            n_reused=n_reused,
            notes=tuple(notes),
        )
        return self.progress.notes

    def run_cells(
        self, retry_failed: bool, on_start: Callable[[int, Sequence[Cell]], None]
    ) -> None:
        """Run the cells that are missing, then plan the missing benchmarks."""
        on_start(self.progress.n_cells, [cell for same in self._left.values() for cell in same])
        self._plugins.announce("bdes_run_started", run=self.progress)
        left = self._left
        # By their keys, which are hashes: in a mixed order, the first cells tell of all others.
        jobs = [self._cell_job(left[key][0]) for key in sorted(left)]
        with closing(self._results(jobs, play_cell)) as results:
            for result in results:
                if isinstance(result, JobFailure):
                    result = failed(result.job.key, result.reason, result.reason)
                self._finish(self._take(left, result.key), result)
        for key, same in left.items():
            self._finish(same, failed(key, _NO_RESULT, _NO_RESULT))
        self._plan_benchmarks(retry_failed)
        self._fail_cells_above_bounds()
        self._store.forget_unplanned()
        self._plugins.announce("bdes_run_finished", run=self.progress)

    def _plan_benchmarks(self, retry_failed: bool) -> None:
        found = {job.key: job for job in self._benchmark_jobs(retry_failed)}
        jobs = dict(sorted(found.items()))  # mixed, as cells are
        total = len(jobs)
        self._on_benchmark(total, 0)
        with closing(self._results(list(jobs.values()), plan_benchmark)) as results:
            for result in results:
                if isinstance(result, JobFailure):
                    result = (result.job.key, None, result.reason)
                self._take(jobs, result[0])
                self._store.save_benchmark(*result)
                self._on_benchmark(total, total - len(jobs))
        for key in jobs:
            self._store.save_benchmark(key, None, _NO_RESULT)

    def _fail_cells_above_bounds(self) -> None:
        """Mark cells as failed whose expected reward exceeds their benchmark's upper bound."""
        planner = self._experiment.config.benchmark
        if planner is False:
            return
        totals = self._store.total_means()
        above: dict[str, str] = {}
        for cell in self._experiment.cells:
            basis, total = totals.get(cell.key, ("", 0.0))
            found = self._store.benchmark(benchmark_key(basis, cell.horizon)) if basis else None
            if found is None or not found[0].size or total <= found[1] + allowed_rounding(found[1]):
                continue
            above[cell.key] = (
                f"earned {total:.10g} (expected reward) where the benchmark proves at most"
                f" {found[1]:.10g}: {self._suspects(cell, planner)}"
            )
            self.progress = evolve(
                self.progress,
                n_finished=self.progress.n_finished - 1,
                n_failed=self.progress.n_failed + 1,
                n_reused=min(self.progress.n_reused, self.progress.n_finished - 1),
            )
        for key, error in above.items():
            self._store.save(failed(key, error, error))

    def _suspects(self, cell: Cell, planner: Reference) -> str:
        """Return who may be wrong if a cell is above its bound: code of others, if there is any."""
        kinds = [Kind.ENVIRONMENT, Kind.PLANNER, Kind.POLICY]
        if cell.feedback is not None:
            kinds = [COUNTERPARTS.get(kind, kind) for kind in kinds]
        tables = [cell.environment.table, planner, cell.policy.table]
        references: list[tuple[Kind, Reference]] = list(zip(kinds, tables, strict=True))
        entries = [self._plugins.resolve(kind, reference)[0] for kind, reference in references]
        others = [entry for entry in entries if entry.distribution != FIRST_PARTY]
        named = (f"{e.kind} {e.name!r} of {self._plugins.origin(e)}" for e in others or entries)
        return "suspect " + " or ".join(named)

    def _results(
        self, jobs: list[JobT], do: Callable[[Plugins, JobT], JobResult]
    ) -> Generator[JobResult | JobFailure[JobT]]:
        if jobs:
            yield from self._plugins.engine(self._engine).run(jobs, partial(do, self._plugins))

    def _cell_job(self, cell: Cell) -> Job:
        return Job(
            key=cell.key,
            cell=cell,
            cost=cell.cost,
            isolate=cell.environment.is_foreign or cell.policy.is_foreign,
            timeout=self._experiment.config.timeout,
        )

    def _take(self, left: dict[str, LeftT], key: str) -> LeftT:
        """Remove a job from those left; raise ContractError if it is not among them."""
        if key not in left:
            raise ContractError(
                f"engine {quoted(self._engine)} returned a result twice, or of an unknown job"
            )
        return left.pop(key)

    def _finish(self, cells: list[Cell], result: CellResult) -> None:
        """Save the result of cells that share a key, and report each of them."""
        self._store.save(result)
        bad = bool(result.error)
        for cell in cells:
            self.progress = evolve(
                self.progress,
                n_finished=self.progress.n_finished + (not bad),
                n_failed=self.progress.n_failed + bad,
            )
            self._on_cell(cell, result)
            place = (cell.environment.label, cell.policy.label, cell.horizon, cell.replication)
            totals = result.total_reward, result.total_mean
            finished = FinishedCell(*place, *totals, result.error or None)
            self._plugins.announce("bdes_cell_finished", run=self.progress, cell=finished)

    def _benchmark_jobs(self, retry_failed: bool) -> Iterator[BenchmarkJob]:
        """Yield one job per instance and horizon that has no benchmark yet."""
        planner = self._experiment.config.benchmark
        if planner is False:
            return
        seen = set()
        bases = self._store.bases()
        found = self._plugins.resolve(Kind.PLANNER, planner)
        foreign = has_foreign_code(self._plugins.code_of(*found))
        for cell in self._experiment.cells:
            basis = bases.get(cell.key)
            key = benchmark_key(basis or "", cell.horizon)
            if not basis or key in seen:
                continue
            seen.add(key)
            known = self._store.benchmark(key)
            no_users = cell.feedback is not None and self._store.user_benchmark(key) is None
            if known is None or (known[2] and retry_failed) or (not known[2] and no_users):
                yield BenchmarkJob(
                    key=key,
                    cell=cell,
                    planner=planner,
                    code={**cell.environment.code, **self._experiment.benchmark_code},
                    isolate=foreign or cell.environment.is_foreign,
                    timeout=self._experiment.config.timeout,
                )


def play_cell(plugins: Plugins, job: Job) -> CellResult:
    """Simulate a job's cell."""
    return execute(plugins, job.cell)


def plan_benchmark(
    plugins: Plugins, job: BenchmarkJob
) -> tuple[str, Benchmark | CrowdBenchmark | None, str]:
    """Return the job's key, its benchmark if there is one, and the error of a plugin."""
    plugins.check_code(job.code)
    try:
        with guarded(plugins):
            environment = build_environment(plugins, job.cell)
            checkpoints = log_checkpoints(job.cell.horizon, job.cell.checkpoints)
            benchmark = _benchmark(plugins, job, environment, checkpoints)
    except BaseException as error:
        if is_interrupt(error) or isinstance(error, ChangedCodeError):
            raise
        return job.key, None, explained(error, plugins)[0]
    return job.key, benchmark, ""


def _benchmark(
    plugins: Plugins,
    job: BenchmarkJob,
    environment: Environment | CrowdEnvironment,
    checkpoints: IntArray,
) -> Benchmark | CrowdBenchmark | None:
    if job.cell.feedback is None:
        one_audience = cast(Environment, environment)
        return benchmark_of(one_audience, checkpoints, plugins.planner(job.planner))
    planner = stationary_planner(plugins, job.planner)
    users = cast(CrowdEnvironment, environment)
    return crowd_benchmark_of(users, job.cell.horizon, planner, checkpoints)
