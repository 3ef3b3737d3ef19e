"""Experiments from one TOML file: which policies play which environments, for how long.

The file becomes cells (policy x environment x horizon x replication), an engine runs
them, and each becomes a record. Replications share their luck across policies.
"""

from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from attrs import AttrsInstance, evolve, field, frozen

from bdes_framework.errors import BdesError, ConfigError, Mistake
from bdes_framework.interfaces import (
    Benchmark,
    EnvironmentRef,
    HasInstance,
    Kind,
    PlannerRef,
    PolicyRef,
    Reference,
)
from bdes_framework.manager import Plugins, PluginsConfig, load_plugins
from bdes_framework.model import Problem
from bdes_framework.records import CellRecord, RunRecord
from bdes_framework.seeding import branch
from bdes_framework.simulation import benchmark_of, log_checkpoints, simulate
from bdes_framework.structuring import structure
from bdes_framework.text import one_line, quoted
from bdes_framework.tomlfile import read_toml

LONGEST_LABEL = 100


@frozen
class ExperimentConfig:
    """An experiment: the tables of its TOML file.

    Parameters
    ----------
    name : str
        What the experiment is called.
    seed : int
        The root of every random stream.
    horizons : list of int
        How many rounds to play; every policy plays every horizon.
    environments, policies : list of tables
        Each names a plugin with ``use``, may give itself a ``label``, and sets the
        plugin's parameters.
    replications : int
        How often to repeat each cell, each time with other luck.
    reveal_lam : bool
        Whether policies are told the evolution rate.
    benchmark : planner or nothing
        What computes the best sequence; without one, regret is absent.
    engine : engine
        What runs the cells.
    plugins : table
        Which plugins to disable, require or load from local files.
    """

    name: str
    seed: int
    horizons: tuple[int, ...]
    environments: tuple[EnvironmentRef, ...]
    policies: tuple[PolicyRef, ...]
    replications: int = 1
    reveal_lam: bool = True
    benchmark: PlannerRef | None = None
    engine: str = "serial"
    plugins: PluginsConfig = field(factory=PluginsConfig)


class _Labelled(NamedTuple):
    """One environment or policy of the experiment: its label and what it is."""

    label: str
    config: AttrsInstance


@frozen
class Cell:
    """One policy on one environment, for one horizon and one replication."""

    environment: _Labelled
    policy: _Labelled
    horizon: int
    replication: int
    seed: int
    reveal_lam: bool

    @property
    def cost(self) -> float:
        """Expected pulls, for an engine to balance work by."""
        return float(self.horizon)


@frozen
class Experiment:
    """A checked experiment, ready to run: made by :func:`load_experiment`.

    Parameters
    ----------
    config : ExperimentConfig
        What the file says.
    plugins : Plugins
        The plugins it chose.
    cells : tuple of Cell
        Everything there is to run.
    """

    config: ExperimentConfig
    plugins: Plugins
    cells: tuple[Cell, ...]


def load_experiment(path: str | PathLike[str]) -> Experiment:
    """Read and check an experiment file; raise ConfigError with every mistake in it."""
    source = str(path)
    tables = read_toml(Path(path))
    config = structure(ExperimentConfig, tables, source)
    plugins = load_plugins(path)
    mistakes = _wrong_values(config)
    environments = _labelled(plugins, Kind.ENVIRONMENT, config.environments, source, mistakes)
    policies = _labelled(plugins, Kind.POLICY, config.policies, source, mistakes)
    references: list[tuple[Kind, str, Reference]] = [(Kind.ENGINE, "engine", config.engine)]
    if config.benchmark is not None:
        references.append((Kind.PLANNER, "benchmark", config.benchmark))
    for kind, key, ref in references:
        _resolved(plugins, kind, ref, source, key, mistakes)
    if mistakes:
        raise ConfigError(mistakes, source)
    cells = [
        Cell(environment, policy, horizon, replication, config.seed, config.reveal_lam)
        for environment in environments
        for horizon in config.horizons
        for policy in policies
        for replication in range(config.replications)
    ]
    return Experiment(config, plugins, tuple(cells))


def run_experiment(
    experiment: Experiment, finished: Callable[[CellRecord], None] = lambda _: None
) -> list[CellRecord]:
    """Run every cell; return their records in the experiment's order.

    A cell that fails becomes a record with its error; the others go on. ``finished`` is
    called in this process with each record as it comes in.
    """
    plugins, config = experiment.plugins, experiment.config
    engine = plugins.engine(config.engine)
    run = RunRecord(config.name, len(experiment.cells))
    plugins.announce("bdes_run_started", run=run)
    benchmarks = _Benchmarks(experiment)
    records: dict[int, CellRecord] = {}
    jobs = list(enumerate(experiment.cells))
    for index, record in engine.run(jobs, partial(_execute, plugins)):
        measured = benchmarks.measure(experiment.cells[index], record)
        records[index] = measured
        failed = measured.error is not None
        run = evolve(run, n_finished=run.n_finished + (not failed), n_failed=run.n_failed + failed)
        finished(measured)
        plugins.announce("bdes_cell_finished", run=run, cell=measured)
    plugins.announce("bdes_run_finished", run=run)
    return [records[index] for index in sorted(records)]


def _execute(plugins: Plugins, job: tuple[int, Cell]) -> tuple[int, CellRecord]:
    """Run one cell; whatever a plugin raises becomes part of the record."""
    index, cell = job
    record = CellRecord(cell.environment.label, cell.policy.label, cell.horizon, cell.replication)
    try:
        seed = branch(cell.seed, "replication", cell.replication)
        environment = plugins.environment(cell.environment.config, seed=seed)
        instance = environment.instance if isinstance(environment, HasInstance) else None
        problem = Problem(
            n_arms=environment.n_arms,
            horizon=cell.horizon,
            lam=instance.lam if instance is not None and cell.reveal_lam else None,
            q0=instance.q0 if instance is not None else 1.0,
        )
        policy = plugins.policy(cell.policy.config, problem, seed=seed)
        trace = simulate(environment, policy, cell.horizon, keep=False)
    except Exception as error:
        return index, evolve(record, error=one_line(f"{type(error).__name__}: {error}"))
    return index, evolve(record, total_reward=trace.total_reward, total_mean=trace.total_mean)


class _Benchmarks:
    """The benchmark of each environment and horizon, planned once, when first needed."""

    def __init__(self, experiment: Experiment) -> None:
        self._plugins = experiment.plugins
        ref = experiment.config.benchmark
        self._planner = None if ref is None else self._plugins.planner(ref)
        self._known: dict[tuple[str, int], Benchmark | None] = {}

    def measure(self, cell: Cell, record: CellRecord) -> CellRecord:
        if record.total_mean is None:
            return record
        key = cell.environment.label, cell.horizon
        if key not in self._known:
            environment = self._plugins.environment(cell.environment.config, seed=cell.seed)
            checkpoints = log_checkpoints(cell.horizon)
            self._known[key] = benchmark_of(environment, checkpoints, self._planner)
        benchmark = self._known[key]
        if benchmark is None:
            return record
        return evolve(record, regret=benchmark.value - record.total_mean)


# -- checking -------------------------------------------------------------------------------


def _wrong_values(config: ExperimentConfig) -> list[Mistake]:
    mistakes = []
    if not config.name.strip() or len(config.name) > LONGEST_LABEL:
        mistakes.append(Mistake("name", f"must have 1 to {LONGEST_LABEL} characters"))
    if config.seed < 0:
        mistakes.append(Mistake("seed", f"must be at least 0, got {config.seed}"))
    if config.replications < 1:
        mistakes.append(Mistake("replications", f"must be at least 1, got {config.replications}"))
    mistakes += [
        Mistake(f"horizons[{index}]", f"must be at least 1, got {horizon}")
        for index, horizon in enumerate(config.horizons)
        if horizon < 1
    ]
    for key in ("horizons", "environments", "policies"):
        if not getattr(config, key):
            mistakes.append(Mistake(key, "needs at least one entry"))
    return mistakes


def _labelled(
    plugins: Plugins,
    kind: Kind,
    refs: tuple[Reference, ...],
    source: str,
    mistakes: list[Mistake],
) -> list[_Labelled]:
    key = {Kind.ENVIRONMENT: "environments", Kind.POLICY: "policies"}[kind]
    found: list[_Labelled] = []
    for index, ref in enumerate(refs):
        path = f"{key}[{index}]"
        label: object = ref
        if isinstance(ref, Mapping):
            label = ref.get("label", ref.get("use"))
            ref = {name: value for name, value in ref.items() if name != "label"}
        config = _resolved(plugins, kind, ref, source, path, mistakes)
        if not isinstance(label, str) or not 0 < len(label) <= LONGEST_LABEL:
            mistakes.append(
                Mistake(f"{path}.label", f"must be a string of 1 to {LONGEST_LABEL} characters")
            )
        elif label in [other.label for other in found]:
            mistakes.append(
                Mistake(path, f"the label {quoted(label)} is taken; give each a 'label' of its own")
            )
        elif config is not None:
            found.append(_Labelled(label, config))
    return found


def _resolved(
    plugins: Plugins, kind: Kind, ref: Reference, source: str, path: str, mistakes: list[Mistake]
) -> AttrsInstance | None:
    try:
        return plugins.resolve(kind, ref, source=source, path=path)[1]
    except ConfigError as error:
        mistakes += error.mistakes
    except BdesError as error:
        mistakes.append(Mistake(path, str(error)))
    return None
