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
from bdes_framework._internal.files import check_no_link, read_text
from bdes_framework._internal.numbers import is_number
from bdes_framework._internal.text import quoted
from bdes_framework._internal.upwards import drawn, report_function
from bdes_framework.errors import BdesError, StoreError
from bdes_framework.experiment.cell import CellResult
from bdes_framework.experiment.curves import Curves, OverUsers
from bdes_framework.experiment.database import DamagedError
from bdes_framework.experiment.pooling import Observations, Variant, pool, share_of
from bdes_framework.experiment.result_table import ResultTable, Step
from bdes_framework.experiment.run_files import changed_files, read_resolved
from bdes_framework.experiment.store import (
    PlannedCell,
    Store,
    UserBenchmark,
    benchmark_key,
    open_store,
)
from bdes_framework.experiment.summary import CellSummary, Result, summarise
from bdes_framework.interfaces import Kind, relative_gap
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
_USERS = ("visits", "users", "regret_per_user", "clairvoyant")
_USER_CURVE = ("visits", "users", "total_reward", "total_mean", "regret", "total_state")

MAX_SHOWN_CELLS = 20_000
"""Of a run that a notebook shows when its name is typed: more take a while to read."""


@frozen
class RunBenchmark:
    """The benchmark of one environment at one horizon, against which regret is measured.

    Parameters
    ----------
    environment : str
        The environment's label.
    horizon : int
        Number of rounds, or of visits of many users at most.
    value : float
        Expected reward of the benchmark's sequence, or of the decision table for many users.
    upper_bound : float
        Proven upper bound on the expected reward of any sequence; of many users, the
        clairvoyant's, who knows how often each user will come.
    users, visits : int | None
        How many users came, and how often together; None with one audience.
    table_gap : float | None
        The gap of the decision table for many users; None with one audience.
    """

    environment: str
    horizon: int
    value: float
    upper_bound: float
    users: int | None = None
    visits: int | None = None
    table_gap: float | None = None

    @property
    def gap(self) -> float:
        """Upper bound on the benchmark's loss against the optimum, relative to the bound."""
        return min(relative_gap(self.value, self.upper_bound), 1.0)


@frozen(eq=False)
class _Finished:
    """A planned cell with its result, and its benchmark's expected reward at the checkpoints.

    ``users`` is what the benchmark of many users has besides, ``bound`` its upper bound.
    """

    planned: PlannedCell
    result: CellResult
    totals: FloatArray | None
    users: UserBenchmark | None
    bound: float | None

    @property
    def visits(self) -> int | None:
        return None if self.result.user_curves is None else int(self.result.counts.sum())

    @property
    def user_regret(self) -> FloatArray | None:
        """Regret of the first users, at the checkpoints of the curves over users."""
        curves, benchmark = self.result.user_curves, self.users
        if curves is None or benchmark is None or self.totals is None:
            return None
        if not np.array_equal(curves.users, benchmark.users):
            return None
        return benchmark.totals - curves.means

    def summary(self) -> CellSummary:
        place, totals, result = self.planned, self.totals, self.result
        mean = result.total_mean
        regret = None if mean is None or totals is None else float(totals[-1]) - mean
        earned = result.total_reward, mean
        where = (*_group(place), place.replication)
        n_users = None if result.user_curves is None else int(result.user_curves.users[-1])
        error, warning = result.error or None, result.warning
        return CellSummary(*where, *earned, error, regret, warning, self.visits, n_users)


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

    @cached_property
    def step(self) -> Step:
        """What horizons count: rounds of one audience, or visits of many users."""
        return "visit" if self.resolved.get("step") == "visit" else "round"

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
            Number of rounds or visits; the longest horizon by default.
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
        return self.observed(self.cells())

    def observed(self, cells: Sequence[CellSummary]) -> Observations:
        """Return these cells of the run with the instances and settings they belong to."""
        return Observations(
            self.name, self.variants, self.told, cells, self.step, self._plans_benchmarks
        )

    @property
    def _plans_benchmarks(self) -> bool:
        """Whether the experiment wants benchmarks."""
        return self.resolved["config"].get("benchmark") is not False

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
        """What was revealed to each policy: ``lam``, ``replenishing_arm``, ``visits_per_user``."""
        config = self.resolved["config"]
        kind = Kind.POLICY if self.step == "round" else Kind.CROWD_POLICY
        known = REVEALED[kind]
        revealed = [name for name in known if config.get(f"reveal_{name}")]
        return {
            part["label"]: tuple(name for name in revealed if name in part.get("uses", known))
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
        """Return the curves of the cells of one policy on one environment at one horizon.

        Where nobody comes any more before the horizon, they end with the last visit.
        """
        checkpoints = self._checkpoints(cells[0].planned.horizon)
        last = max(cell.visits or int(checkpoints[-1]) for cell in cells)
        n = int(np.searchsorted(checkpoints, last)) + 1
        checkpoints = np.append(checkpoints[: n - 1], last)
        visits = [cell.visits or last for cell in cells]
        means = np.array([cell.result.means[:n] for cell in cells])
        totals = [None if cell.totals is None else cell.totals[:n] for cell in cells]
        states = [cell.result.states[:n] for cell in cells]
        return Curves(
            checkpoints=checkpoints,
            replications=np.array([cell.planned.replication for cell in cells]),
            rewards=np.array([cell.result.rewards[:n] for cell in cells]),
            means=means,
            regret=None if any(row is None for row in totals) else np.array(totals) - means,
            states=np.array(states) if all(row.size for row in states) else None,
            steps=np.minimum(checkpoints, np.array(visits)[:, None]),
            over_users=_over_users(cells),
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
        of_users = _USERS if self.step == "visit" else ()
        return self._with_parameters(*_PLACE, *_NUMBERS, *of_users, *_DETAILS)

    @property
    def curve_columns(self) -> tuple[str, ...]:
        """The columns of an export of curves, in order."""
        return self._with_parameters(*_PLACE, *(_USER_CURVE if self.step == "visit" else _CURVE))

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
                "visits": cell.visits,
                "users": cell.users,
                "regret_per_user": cell.regret_per_user,
                "clairvoyant": found.bound,
                "error": cell.error,
                "diagnostics": found.result.diagnostics,
                "key": found.planned.key,
            }
            yield {column: values.get(column) for column in columns}

    def curve_rows(self) -> Iterator[dict[str, object]]:
        """Yield the curves of each finished cell, a flat mapping per checkpoint.

        ``round`` is the number of rounds played; ``total_reward``, its expectation
        ``total_mean``, ``regret`` and ``total_state`` are sums over these rounds. Of many users
        there is a row per checkpoint over ``visits``, and then one per checkpoint over ``users``:
        sums over all visits of the users who came first.
        """
        columns = self.curve_columns
        for found in self._finished(self._plan):
            if found.result.error:
                continue
            setting = self._setting(found.planned)
            curves = self._curves([found])
            over = {
                "round" if self.step == "round" else "visits": curves.checkpoints,
                "total_reward": curves.rewards[0],
                "total_mean": curves.means[0],
                "regret": None if curves.regret is None else curves.regret[0],
                "total_state": None if curves.states is None else curves.states[0],
            }
            tables = [over]
            if (own := curves.over_users) is not None:
                regret = None if own.regret is None else own.regret[0]
                sums = {"total_reward": own.rewards[0], "total_mean": own.means[0]}
                tables.append({"users": own.users, **sums, "regret": regret})
            for table in tables:
                known = {name: array.tolist() for name, array in table.items() if array is not None}
                for values in zip(*known.values(), strict=True):
                    point = setting | dict(zip(known, values, strict=True))
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
                of_users = self._store.user_benchmark(key)
                users: dict[str, Any] = {}
                if of_users is not None:
                    users = {
                        "users": int(of_users.users[-1]),
                        "visits": of_users.visits,
                        "table_gap": of_users.table_gap,
                    }
                place = planned.environment, planned.horizon
                benchmarks.append(RunBenchmark(*place, value, bound, **users))
        return benchmarks

    def is_whole(self) -> bool:
        """Return whether all cells were played and all benchmarks planned, well or not."""
        finished = self._store.finished(failed=True) | self._store.finished(failed=False)
        if not self.keys() <= finished:
            return False
        if not self._plans_benchmarks:
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
                key = benchmark_key(result.basis, planned.horizon)
                found = self._store.benchmark(key)
                # A benchmark of other checkpoints is not this cell's.
                fits = found is not None and found[0].size == result.means.size > 0
                totals = found[0] if found and fits else None
                is_crowd = result.user_curves is not None
                users = self._store.user_benchmark(key) if is_crowd and fits else None
                bound = found[1] if found and users is not None else None
                yield _Finished(planned, result, totals, users, bound)

    def _result(self, planned: PlannedCell) -> CellResult | None:
        """Return the result of a planned cell; raise StoreError if it is not one of that cell."""
        try:
            result = self._store.result(planned.key)
            if result is not None and not result.error:
                checkpoints = self._checkpoints(planned.horizon)
                fits = result.means.size == checkpoints.size
                visits = int(result.counts.sum())
                whole = visits == planned.horizon
                if result.user_curves is not None:  # nobody may come any more before the horizon
                    whole = int(result.user_curves.users[-1]) <= visits <= planned.horizon
                if not fits or not whole:
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


def _over_users(cells: Sequence[_Finished]) -> OverUsers | None:
    """Return curves over the users that all cells had; None with one audience."""
    curves = [found.result.user_curves for found in cells]
    known = [curve for curve in curves if curve is not None]
    if not known or len(known) < len(curves):
        return None
    users = known[0].users
    for curve in known[1:]:
        users = np.intersect1d(users, curve.users)
    if users.size == 0:
        return None
    places = [np.searchsorted(curve.users, users) for curve in known]
    regrets = [found.user_regret for found in cells]
    return OverUsers(
        users,
        np.array([curve.rewards[at] for curve, at in zip(known, places, strict=True)]),
        np.array([curve.means[at] for curve, at in zip(known, places, strict=True)]),
        None
        if any(regret is None for regret in regrets)
        else np.array([r[at] for r, at in zip(regrets, places, strict=True) if r is not None]),
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


def find_damage(folder: Path) -> list[str]:
    """Return what of a run is not as it was written, a line each; empty if all is well.

    Raises StoreError if it is no run, or one of a newer version.
    """
    found: list[str] = []
    try:
        with closing(open_store(folder, create=False, check=False)) as store:
            found += [f"the database: {line}" for line in store.integrity()]
            found += [f"{kind} {quoted(key)}" for kind, key in store.damage()]
            found += [f"file {quoted(name)}" for name in changed_files(store, folder)]
            if not found:
                found += Run(folder, store).unreadable()
    except DamagedError as error:
        return found or [str(error)]
    return found


def load_run(path: str | PathLike[str]) -> Run:
    """Open a run's folder for reading; raise StoreError if it is none or cannot be read."""
    folder = Path(path)
    return Run(folder, open_store(folder, create=False))
