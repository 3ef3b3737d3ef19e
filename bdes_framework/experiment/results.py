"""Runs on disk: their cells, curves and results as arrays or data frames."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property, partial
from html import escape
from os import PathLike
from pathlib import Path
from sqlite3 import ProgrammingError
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from attrs import frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.display import shown_fields
from bdes_framework._internal.files import check_no_link, read_json, read_text
from bdes_framework._internal.numbers import is_number
from bdes_framework._internal.text import one_line, quoted
from bdes_framework._internal.upwards import drawn, report_function
from bdes_framework.errors import BdesError, ConfigError, StoreError
from bdes_framework.experiment.cell import CellResult
from bdes_framework.experiment.database import DamagedError, checksum
from bdes_framework.experiment.pooling import Observations, Variant, pool, share_of
from bdes_framework.experiment.result_table import ResultTable
from bdes_framework.experiment.store import PlannedCell, Store, benchmark_key, open_store
from bdes_framework.experiment.summary import CellSummary, Result, summarise
from bdes_framework.interfaces import relative_gap
from bdes_framework.plugin.hookspecs import RunProgress
from bdes_framework.plugin.registry import REVEALED

if TYPE_CHECKING:
    import altair
    import pandas
    import polars

_SETTING = ("environment", "lam", "K", "instance")
_PLACE = ("policy", "told", "T", "replication", "seed")
_NUMBERS = ("total_reward", "total_mean", "OPT", "regret", "share")
_DETAILS = ("error", "diagnostics", "key")
_CURVE = ("round", "total_reward", "total_mean", "regret", "total_state")

MAX_SHOWN_CELLS = 20_000
"""Of a run that a notebook shows when its name is typed: more take a while to read."""

MAX_RESOLVED_BYTES = 128 * 1024 * 1024
"""The largest resolved config that is read; 100,000 arms take 6 MB."""

_FILES = ("experiment.toml", "resolved.json")
_INTEGERS = ("seed", "replications", "reveal_lam", "reveal_replenishing_arm")


@frozen(eq=False)
class Curves:
    """The curves of one policy on one environment at one horizon, one row per replication.

    Parameters
    ----------
    checkpoints : IntArray, shape (c,)
        Numbers of rounds after which the curves were recorded.
    replications : IntArray, shape (n,)
        Numbers of the replications.
    rewards, means : FloatArray, shape (n, c)
        Cumulative reward, and its expectation.
    regret : FloatArray | None, shape (n, c)
        DES regret; None without a benchmark.
    states : FloatArray | None, shape (n, c)
        Cumulative state of the pulls; None if the environment brings none. With the largest
        r, ``r * states - means`` is external regret.
    """

    checkpoints: IntArray
    replications: IntArray
    rewards: FloatArray
    means: FloatArray
    regret: FloatArray | None
    states: FloatArray | None

    def __repr__(self) -> str:
        regret = {} if self.regret is None else {"regret": float(self.regret[:, -1].mean())}
        return shown_fields(
            "Curves",
            replications=self.replications.size,
            checkpoints=self.checkpoints.size,
            horizon=int(self.checkpoints[-1]),
            reward=float(self.rewards[:, -1].mean()),
            **regret,
        )


@frozen
class RunBenchmark:
    """The benchmark of one environment at one horizon, against which regret is measured.

    Parameters
    ----------
    environment : str
        The environment's label.
    horizon : int
        Number of rounds.
    value : float
        Expected reward of the benchmark's sequence.
    upper_bound : float
        Proven upper bound on the expected reward of any sequence.
    """

    environment: str
    horizon: int
    value: float
    upper_bound: float

    @property
    def gap(self) -> float:
        """Upper bound on the benchmark's loss against the optimum, relative to the bound."""
        return min(relative_gap(self.value, self.upper_bound), 1.0)


@frozen(eq=False)
class _Finished:
    """A planned cell with its result, and its benchmark's expected reward at the checkpoints."""

    planned: PlannedCell
    result: CellResult
    totals: FloatArray | None

    def summary(self) -> CellSummary:
        place, totals, result = self.planned, self.totals, self.result
        mean = result.total_mean
        regret = None if mean is None or totals is None else float(totals[-1]) - mean
        earned = result.total_reward, mean
        where = (*_group(place), place.replication)
        return CellSummary(*where, *earned, result.error or None, regret, result.warning)


def _group(cell: PlannedCell | CellSummary) -> tuple[str, str, int]:
    return cell.environment, cell.policy, cell.horizon


class Run:
    """A run on disk, open for reading: made by :func:`load_run` and :func:`run_experiment`.

    A context manager; another process may still be writing the run.
    """

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder = folder
        self.progress: RunProgress | None = None
        """What :func:`run_experiment` did; None if the run was only opened."""
        self._store = store
        self._plan = store.plan()
        self._rounds: dict[int, IntArray] = {}
        self._groups: dict[tuple[str, str, int], list[PlannedCell]] = {}
        for planned in self._plan:
            self._groups.setdefault(_group(planned), []).append(planned)

    def __repr__(self) -> str:
        folder = quoted(str(self.folder), 60)
        try:
            _, n_finished, n_failed, _ = self._store.counts()
        except (StoreError, ProgrammingError):  # it was closed
            return shown_fields("Run", folder=folder, cells=self.n_cells, closed=True)
        done = f"{n_finished:,} of {self.n_cells:,}"
        return shown_fields(
            "Run", name=quoted(self.name, 60), folder=folder, finished=done, failed=n_failed
        )

    def _repr_html_(self) -> str:
        if self.n_cells > MAX_SHOWN_CELLS:
            return f"<pre>{escape(repr(self))}</pre>"
        try:
            return self.table()._repr_html_() + drawn("image_of_run", self)
        except (BdesError, ProgrammingError):  # nothing to show yet, or it was closed
            return f"<pre>{escape(repr(self))}</pre>"

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self._store.meta("name") or self.folder.name

    @property
    def finished(self) -> str:
        """When its last cell finished (ISO 8601); empty if none has."""
        return self._store.last_finished()

    @cached_property
    def experiment_text(self) -> str:
        """The content of the experiment file; raises BdesError if it cannot be read."""
        path = self.folder / "experiment.toml"
        check_no_link(path)
        return read_text(path)

    @cached_property
    def resolved(self) -> dict[str, Any]:
        """The resolved config, with the versions of all code that decided the numbers."""
        return read_resolved(self.folder)

    @property
    def n_cells(self) -> int:
        """The number of cells, finished or not."""
        return len(self._plan)

    def keys(self) -> set[str]:
        """Return the keys of all cells."""
        return {planned.key for planned in self._plan}

    def cells(self) -> list[CellSummary]:
        """Return the finished cells, failed ones included, in the experiment's order."""
        return [found.summary() for found in self._finished(self._plan)]

    def results(self) -> list[Result]:
        """Return one result per environment, horizon and policy, with intervals."""
        return summarise(self.cells())

    def table(
        self,
        by: Sequence[str] | None = None,
        *,
        horizon: int | None = None,
        policies: Sequence[str] = (),
    ) -> ResultTable:
        """Return the policies ranked, pooled over instances, with the sentence that answers.

        Parameters
        ----------
        by : Sequence[str] | None
            What the table is split by: of ``lam``, ``K``, ``T``, ``environment`` and other
            parameters those that vary. By default ``lam``, or else the first that varies.
        horizon : int | None
            Number of rounds; the longest horizon by default.
        policies : Sequence[str]
            Only these policies; all by default.

        Raises
        ------
        InvalidValueError
            If a name is none of the run's.
        """
        return pool(self.observations(), by, horizon=horizon, policies=policies)

    def plot(
        self, chart: str = "share", **choices: Any
    ) -> "altair.Chart | altair.LayerChart | altair.FacetChart | altair.VConcatChart":
        """Return a chart of the run, as ``bdes plot`` draws it; needs the extra ``report``.

        Parameters
        ----------
        chart : str
            Which one: see ``bdes plot --help``.
        **choices
            What it shows and how, as the options of ``bdes plot`` say: ``policies`` and others
            that may be given again take a list.

        Raises
        ------
        InvalidValueError
            If there is no such chart or option, or the packages are missing.
        """
        drawn: altair.Chart | altair.LayerChart | altair.FacetChart | altair.VConcatChart
        drawn = report_function("plot_run")(self, chart, choices)
        return drawn

    def report(
        self, path: str | PathLike[str] | None = None, *, overwrite: bool = False, **settings: Any
    ) -> Path:
        """Write the run as one HTML page, as ``bdes report`` does; return the page's path.

        Needs the extra ``report``.

        Parameters
        ----------
        path : str | PathLike[str] | None
            The page's file; by default ``report.html`` in the run's folder.
        overwrite : bool
            Whether a file that is no report is replaced.
        **settings
            ``experiment``, an :class:`Experiment` or the file the run was made from, which is
            needed to play cells of local plugins again; ``paths``, how many cells are played
            again at most; ``seconds``, for how long.
        """
        found: Path = report_function("write_report")(self, path, overwrite, settings)
        return found

    def observations(self) -> Observations:
        """Return the finished cells with the instances and settings they belong to."""
        return Observations(self.name, self.variants, self.told, self.cells())

    @cached_property
    def variants(self) -> dict[tuple[str, int], Variant]:
        """Where the environments of cells come from, by their labels in the cells and horizons."""
        parts = self.resolved["config"]["environments"]
        found = {(part["label"], part["horizon"]): _variant(part) for part in parts}
        for cell in self._plan:
            found.setdefault((cell.environment, cell.horizon), Variant(cell.environment))
        return found

    @cached_property
    def told(self) -> dict[str, tuple[str, ...]]:
        """What was revealed to each policy of the instances: ``lam``, ``replenishing_arm``."""
        config = self.resolved["config"]
        revealed = [name for name in REVEALED if config[f"reveal_{name}"]]
        return {
            part["label"]: tuple(name for name in revealed if name in part.get("uses", REVEALED))
            for part in config["policies"]
        }

    def groups(self) -> Iterator[tuple[list[CellSummary], list[str], Curves | None]]:
        """Yield the finished cells of each environment, policy and horizon, each fetched once.

        With the diagnostics (JSON) and the curves of those that did not fail.
        """
        for group in self._groups.values():
            found = list(self._finished(group))
            good = [each for each in found if not each.result.error]
            if found:
                yield (
                    [each.summary() for each in found],
                    [each.result.diagnostics for each in good],
                    self._curves(good) if good else None,
                )

    def curves(self, environment: str, policy: str, horizon: int) -> Curves:
        """Return the curves of one policy on one environment at one horizon."""
        group = self._groups.get((environment, policy, horizon), [])
        good = [found for found in self._finished(group) if not found.result.error]
        if not good:
            raise KeyError(f"no finished cell of {policy!r} on {environment!r}, T = {horizon}")
        return self._curves(good)

    def _curves(self, cells: Sequence[_Finished]) -> Curves:
        """Return the curves of the cells of one policy on one environment at one horizon."""
        means = np.array([cell.result.means for cell in cells])
        totals = [cell.totals for cell in cells]
        states = [cell.result.states for cell in cells]
        return Curves(
            checkpoints=self._checkpoints(cells[0].planned.horizon),
            replications=np.array([cell.planned.replication for cell in cells]),
            rewards=np.array([cell.result.rewards for cell in cells]),
            means=means,
            regret=None if any(row is None for row in totals) else np.array(totals) - means,
            states=np.array(states) if all(row.size for row in states) else None,
        )

    def traceback(self, cell: CellSummary) -> str:
        """Return the traceback of a failed cell; empty if it did not fail."""
        for planned in self._groups.get(_group(cell), ()):
            if planned.replication == cell.replication:
                result = self._result(planned)
                return "" if result is None else result.details
        raise KeyError(f"no cell of {cell.policy!r} on {cell.environment!r}, T = {cell.horizon}")

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the cells as a pandas frame, one row per cell; needs pandas."""
        import pandas

        return pandas.DataFrame(list(self.rows()))

    def to_polars(self) -> "polars.DataFrame":
        """Return the cells as a polars frame, one row per cell; needs polars."""
        import polars

        return polars.DataFrame(list(self.rows()), infer_schema_length=None)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of an export, in order; parameters that vary are among them by name."""
        return self._with_parameters(*_PLACE, *_NUMBERS, *_DETAILS)

    @property
    def curve_columns(self) -> tuple[str, ...]:
        """The columns of an export of curves, in order."""
        return self._with_parameters(*_PLACE, *_CURVE)

    def _with_parameters(self, *columns: str) -> tuple[str, ...]:
        varying = {name for variant in self.variants.values() for name in variant.varies}
        return (*_SETTING, *sorted(varying - {*_SETTING, *columns}), *columns)

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield each finished cell as a flat mapping: the rows of an export."""
        columns = self.columns
        for found in self._finished(self._plan):
            cell, totals = found.summary(), found.totals
            values = self._setting(found.planned) | {
                "total_reward": cell.total_reward,
                "total_mean": cell.total_mean,
                "OPT": None if totals is None else float(totals[-1]),
                "regret": cell.regret,
                "share": share_of(cell),
                "error": cell.error,
                "diagnostics": found.result.diagnostics,
                "key": found.planned.key,
            }
            yield {column: values.get(column) for column in columns}

    def curve_rows(self) -> Iterator[dict[str, object]]:
        """Yield the curves of each finished cell, a flat mapping per checkpoint.

        ``round`` is the number of rounds played; ``total_reward``, its expectation
        ``total_mean``, ``regret`` and ``total_state`` are sums over these rounds.
        """
        columns = self.curve_columns
        for found in self._finished(self._plan):
            result, setting = found.result, self._setting(found.planned)
            if result.error:
                continue
            rounds = self._checkpoints(found.planned.horizon).tolist()
            nothing = [None] * len(rounds)
            totals = found.totals
            curves = {
                "round": rounds,
                "total_reward": result.rewards.tolist(),
                "total_mean": result.means.tolist(),
                "regret": nothing if totals is None else (totals - result.means).tolist(),
                "total_state": result.states.tolist() if result.states.size else nothing,
            }
            for values in zip(*curves.values(), strict=True):
                point = setting | dict(zip(curves, values, strict=True))
                yield {column: point.get(column) for column in columns}

    def _setting(self, cell: PlannedCell) -> dict[str, object]:
        """Return where a cell belongs: its environment's parameters and instance, and its place."""
        variant = self.variants[cell.environment, cell.horizon]
        seed = self.resolved["config"]["seed"]
        return {
            **variant.varies,
            "environment": variant.environment,
            "lam": variant.lam,
            "K": variant.n_arms,
            "instance": variant.instance,
            "policy": cell.policy,
            "told": ", ".join(self.told.get(cell.policy, ())),
            "T": cell.horizon,
            "replication": cell.replication,
            "seed": str(seed) if seed >= 2**63 else seed,  # Parquet has no larger integers
        }

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def benchmarks(self) -> list[RunBenchmark]:
        """Return the benchmarks: one per environment and horizon.

        More where an environment draws its instance anew for every replication.
        """
        bases = self._store.bases()
        seen: set[tuple[str, str]] = set()
        benchmarks = []
        for planned in self._plan:
            key = benchmark_key(bases.get(planned.key, ""), planned.horizon)
            if (planned.environment, key) in seen:
                continue
            seen.add((planned.environment, key))
            found = self._store.benchmark(key)
            if found is not None and found[0].size:
                value, bound = float(found[0][-1]), found[1]
                benchmarks.append(RunBenchmark(planned.environment, planned.horizon, value, bound))
        return benchmarks

    def is_whole(self) -> bool:
        """Return whether all cells were played and all benchmarks planned, well or not."""
        finished = self._store.finished(failed=True) | self._store.finished(failed=False)
        if not self.keys() <= finished:
            return False
        if self.resolved["config"].get("benchmark") is False:
            return True
        bases = self._store.bases()
        places = {(bases[c.key], c.horizon) for c in self._plan if bases.get(c.key)}
        return all(self._store.benchmark(benchmark_key(*place)) for place in places)

    def benchmark_errors(self) -> list[str]:
        """Return the errors of benchmarks that failed; regret is absent there."""
        return self._store.benchmark_errors()

    def unreadable(self) -> Iterator[str]:
        """Yield why something of the run cannot be read: a cell, a benchmark, a file."""
        reads: list[Callable[[], object]] = [lambda: self.resolved, lambda: self.experiment_text]
        reads += [partial(list, self._finished([cell])) for cell in self._plan]
        for read in reads:
            try:
                read()
            except BdesError as error:
                yield str(error)

    def _finished(self, plan: Sequence[PlannedCell]) -> Iterator[_Finished]:
        """Yield the planned cells that have a result, each fetched once."""
        for planned in plan:
            result = self._result(planned)
            if result is not None:
                found = self._store.benchmark(benchmark_key(result.basis, planned.horizon))
                # A benchmark of other checkpoints is not this cell's.
                fits = found is not None and found[0].size == result.means.size > 0
                yield _Finished(planned, result, found[0] if found and fits else None)

    def _result(self, planned: PlannedCell) -> CellResult | None:
        """Return the result of a planned cell; raise StoreError if it is not one of that cell."""
        try:
            result = self._store.result(planned.key)
            if result is not None and not result.error:
                checkpoints = self._checkpoints(planned.horizon)
                fits = result.means.size == checkpoints.size
                if not fits or result.counts.sum() != planned.horizon:
                    raise StoreError(
                        f"{quoted(str(self.folder), 200)}: cell {quoted(planned.key)} has results"
                        " of another horizon"
                    )
        except StoreError as error:
            labels = f"{quoted(planned.policy)} on {quoted(planned.environment)}"
            place = f"{labels}, T = {planned.horizon}, replication {planned.replication}"
            raise StoreError(f"{error} ({place})") from None
        return result

    def _checkpoints(self, horizon: int) -> IntArray:
        if horizon not in self._rounds:
            self._rounds[horizon] = self._store.checkpoints(horizon)
        return self._rounds[horizon]


def read_resolved(folder: Path) -> dict[str, Any]:
    """Return what a run's ``resolved.json`` holds; raise StoreError if it cannot be used."""
    path = folder / "resolved.json"
    check_no_link(path)
    try:
        found: dict[str, Any] = read_json(path, limit=MAX_RESOLVED_BYTES)
        reason = "" if _is_resolved(found) else "it is damaged"
    except ConfigError as error:
        reason = error.mistakes[0].message
    if reason:
        raise StoreError(
            f"cannot read {quoted(str(path), 200)}: {one_line(reason)}; without that file, running"
            " the experiment again writes it anew"
        )
    return found


def _is_resolved(found: dict[str, Any]) -> bool:
    """Return whether a resolved config has what is read of it."""
    config, versions = found.get("config"), found.get("versions")
    if not (isinstance(config, dict) and isinstance(versions, dict)):
        return False
    parts = [config.get("environments"), config.get("policies"), config.get("horizons")]
    if not all(isinstance(part, list) for part in parts):
        return False
    return (
        all(map(_is_part, [*config["environments"], *config["policies"]]))
        and all(isinstance(number, int) for number in config["horizons"])
        and all(isinstance(config.get(key), int) for key in _INTEGERS)
        and isinstance(config.get("benchmark"), str | dict | bool)
        and all(isinstance(version, str) for version in versions.values())
    )


def _is_part(part: object) -> bool:
    """Return whether this is an environment or a policy as ``resolved.json`` has them."""
    if not (isinstance(part, dict) and isinstance(part.get("table"), dict)):
        return False
    named = isinstance(part.get("label"), str) and isinstance(part["table"].get("use"), str)
    places = [part.get("source", ""), part.get("instance", "")]
    varies, uses = part.get("varies", {}), part.get("uses", [])
    return (
        named
        and isinstance(part.get("horizon"), int)
        and all(isinstance(text, str) for text in places)
        and isinstance(varies, dict)
        and all(isinstance(value, str | int | float) for value in varies.values())
        and isinstance(uses, list)
        and all(isinstance(name, str) for name in uses)
    )


def _variant(part: Mapping[str, Any]) -> Variant:
    """Return what an environment of a resolved config is in the grid."""
    table = part["table"]
    lam, r = table.get("lam"), table.get("r")
    return Variant(
        environment=part.get("source") or part["label"],
        varies=part.get("varies", {}),
        instance=part.get("instance", ""),
        lam=float(lam) if is_number(lam) else None,
        n_arms=len(r) if isinstance(r, list) else None,
    )


@frozen
class RunOverview:
    """What is told of a run without reading its results.

    Parameters
    ----------
    name : str
        The experiment's name.
    n_cells, n_finished, n_failed : int
        Numbers of all cells, of finished ones, and of those among them that failed.
    finished : str
        When the last cell finished (ISO 8601); empty if none has.
    has_checksums : bool
        Whether damage to its rows can be noticed: not in runs of the first format.
    version : str
        The version of the framework; empty if it is not known.
    """

    name: str
    n_cells: int
    n_finished: int
    n_failed: int
    finished: str
    has_checksums: bool
    version: str


def run_overview(folder: Path) -> RunOverview:
    """Return the overview of a run; raise StoreError if it is none or cannot be read."""
    with closing(open_store(folder, create=False, check=False)) as store:
        name = store.meta("name") or folder.name
        counts = (*store.counts(), store.has_checksums)
    try:
        version = read_resolved(folder)["versions"].get("bdes-framework", "")
    except StoreError:
        version = ""
    return RunOverview(name, *counts, version)


def note_files(store: Store, folder: Path) -> None:
    """Save checksums of a run's files in its database, where :func:`find_damage` finds them."""
    for name in _FILES:
        store.set_meta(f"checksum of {name}", _file_checksum(folder / name))


def _changed_files(store: Store, folder: Path) -> Iterator[str]:
    """Yield the names of a run's files that are not as they were written."""
    for name in _FILES:
        known = store.meta(f"checksum of {name}")
        if known is not None and known != _file_checksum(folder / name):
            yield name


def _file_checksum(path: Path) -> str:
    check_no_link(path)
    try:
        with path.open("rb") as file:  # a larger one differs by its length
            return checksum(path.name, [file.read(MAX_RESOLVED_BYTES + 1)]).hex()
    except OSError:
        return ""


def find_damage(folder: Path) -> list[str]:
    """Return what of a run is not as it was written, a line each; empty if all is well.

    Raises StoreError if it is no run, or one of a newer version.
    """
    found: list[str] = []
    try:
        with closing(open_store(folder, create=False, check=False)) as store:
            found += [f"the database: {line}" for line in store.integrity()]
            found += [f"{kind} {quoted(key)}" for kind, key in store.damage()]
            found += [f"file {quoted(name)}" for name in _changed_files(store, folder)]
            if not found:
                found += Run(folder, store).unreadable()
    except DamagedError as error:
        return found or [str(error)]
    return found


def load_run(path: str | PathLike[str]) -> Run:
    """Open a run's folder for reading; raise StoreError if it is none or cannot be read."""
    folder = Path(path)
    return Run(folder, open_store(folder, create=False))
