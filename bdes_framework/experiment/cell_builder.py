"""The cells of an experiment: its grids expanded, and everything built once to check it."""

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bdes_framework._internal.text import quoted
from bdes_framework.errors import BdesError, ConfigError, Mistake
from bdes_framework.experiment import grid
from bdes_framework.experiment.arms import MAX_EXPERIMENT_ARMS, ArmsConfig, arms_parameters
from bdes_framework.experiment.cell import Cell, Part, cell_key, missing_knowledge, spec_hash
from bdes_framework.experiment.config import (
    MAX_CELLS,
    MAX_HORIZONS,
    MAX_LABEL_LENGTH,
    MAX_VARIANTS,
    ExperimentConfig,
    is_horizon,
    value_mistakes,
)
from bdes_framework.experiment.contents import content_reader
from bdes_framework.interfaces import (
    Kind,
    Reference,
)
from bdes_framework.planning.plan_report import stationary_planner
from bdes_framework.plugin.config_types import (
    ANYTHING,
    ConfigType,
    ReferenceType,
    ScalarType,
    field_types,
    members_of,
)
from bdes_framework.plugin.config_values import structure
from bdes_framework.plugin.fingerprint import framework_code, has_foreign_code
from bdes_framework.plugin.plugins import Plugins
from bdes_framework.plugin.registry import REVEALED, Entry
from bdes_framework.simulation.feedback import FeedbackConfig

_PLACEHOLDER_HORIZON = 1_000


class CellBuilder:
    """Builds the cells of a config, collecting every mistake instead of stopping at one."""

    def __init__(
        self, config: ExperimentConfig, plugins: Plugins, source: str, base: Path | None
    ) -> None:
        self.mistakes: list[Mistake] = value_mistakes(config)
        self.planner_code: dict[str, str] = {}
        self._is_crowd = False
        self._config = config
        self._plugins = plugins
        self._source = source
        self._base = base

    def cells(self) -> list[Cell]:
        """Return the cells, as far as they can be made."""
        config = self._config
        with self._collect_mistakes("engine"):
            self._plugins.resolve(Kind.ENGINE, config.engine, source=self._source, path="engine")
        environments = self._sources(Kind.ENVIRONMENT, "environments", config.environments)
        policies = self._sources(Kind.POLICY, "policies", config.policies)
        self._check_audiences(environments, policies)
        if config.benchmark is not False:
            with self._collect_mistakes("benchmark"):
                self.planner_code = self._check_benchmark(config.benchmark)
        size = self._size_that_fits(environments, policies)
        if size is None:
            return []
        horizons, n_replications = size
        self.mistakes += [*grid.duplicate_labels(environments), *grid.duplicate_labels(policies)]
        cells: list[Cell] = []
        for horizon in horizons:
            parts = self._parts(environments, horizon, None)
            # Of an environment a formula may use the number of arms, and nothing else.
            players = {n: self._parts(policies, horizon, n) for n in {n for _, n in parts}}
            for environment, n_arms in parts:
                for policy, _ in players[n_arms]:
                    cells += self._replications(environment, policy, horizon, n_replications)
            if not parts:  # no environment is valid: check the policies all the same
                self._parts(policies, horizon, n_arms=2)
        self._check_knowledge(policies, cells)
        return cells

    def _check_audiences(
        self, environments: list[grid.Source], policies: list[grid.Source]
    ) -> None:
        """Report what is not for as many as the first environment is: one audience, or users."""
        if not environments:
            return
        first = environments[0]
        self._is_crowd = first.kind is Kind.CROWD_ENVIRONMENT
        has = "many users" if self._is_crowd else "one audience"
        one = f"{first.path} has {has}"
        for source in (*environments[1:], *policies):
            name = quoted(source.entry.name)
            is_crowd = source.kind in (Kind.CROWD_ENVIRONMENT, Kind.CROWD_POLICY)
            if is_crowd == self._is_crowd:
                continue
            if source.kind is Kind.POLICY:
                hint = f'{{use = "each", policy = "{source.entry.name}"}}, or "pooled" for "each"'
                what = f"{name} is a policy for one audience, and {one}: write {hint}"
            elif source.kind is Kind.CROWD_POLICY:
                what = f"{name} is a policy for many users, and {one}"
            else:
                other = "many users" if is_crowd else "one audience"
                what = f"{name} has {other}, and {one}: make two experiments of them"
            self._add_mistake(source.path, what)
        for sources in (environments, policies):
            crowds = (Kind.CROWD_ENVIRONMENT, Kind.CROWD_POLICY)
            sources[:] = [s for s in sources if (s.kind in crowds) == self._is_crowd]
        if self._config.feedback != FeedbackConfig() and not self._is_crowd:
            self._add_mistake("feedback", f"is for experiments of many users; {one}")

    def _check_benchmark(self, planner: Reference) -> dict[str, str]:
        """Return the code of the planner of benchmarks; of many users, it makes decision tables."""
        found = self._plugins.resolve(Kind.PLANNER, planner, source=self._source, path="benchmark")
        code = self._plugins.code_of(*found)
        if self._is_crowd and not has_foreign_code(code):
            stationary_planner(self._plugins, planner)
        return code

    def _check_knowledge(self, policies: list[grid.Source], cells: list[Cell]) -> None:
        """Report each policy that none of its cells reveals enough to."""
        to_play: dict[str, list[Cell]] = {}
        for cell in sorted(cells, key=lambda cell: cell.horizon):
            if cell.replication == 0:
                to_play.setdefault(cell.policy.label, []).append(cell)
        for source in policies:
            for label, _ in source.variants():
                # Stops at the first cell that reveals enough: most policies are built once.
                found = (missing_knowledge(self._plugins, cell) for cell in to_play.get(label, ()))
                reasons = list(itertools.takewhile(bool, found))
                if reasons and len(reasons) == len(to_play[label]):
                    self._add_mistake(source.path, reasons[0])

    def _replications(
        self, environment: Part, policy: Part, horizon: int, n_replications: int
    ) -> Iterator[Cell]:
        config = self._config
        code = {**framework_code(), **environment.code, **policy.code}
        users: dict[str, object] = {}
        if self._is_crowd:
            users = {
                "reveal_visits_per_user": config.reveal_visits_per_user,
                "feedback": config.feedback,
            }
        for replication in range(n_replications):
            decisive = {
                "horizon": horizon,
                "replication": replication,
                "seed": config.seed,
                "checkpoints": config.checkpoints,
                "reveal_lam": config.reveal_lam,
                "reveal_replenishing_arm": config.reveal_replenishing_arm,
                **users,
            }
            tables = {"environment": environment.decisive_table, "policy": policy.decisive_table}
            spec = spec_hash(**decisive, **tables)
            yield Cell(
                key=cell_key(spec, code),
                spec=spec,
                code=code,
                environment=environment,
                policy=policy,
                **decisive,  # type: ignore[arg-type]
            )

    def _sources(self, kind: Kind, key: str, refs: Sequence[Reference]) -> list[grid.Source]:
        found: list[grid.Source] = []
        labels: set[str] = set()
        for index, ref in enumerate(refs):
            path = f"{key}[{index}]"
            table = dict(ref) if isinstance(ref, Mapping) else {"use": ref}
            use = str(table.pop("use"))
            label = self._label(table.pop("label", use), path)
            if label in labels:
                what = f"the label {quoted(label)} is taken; give each its own 'label'"
                self._add_mistake(path, what)
            with self._collect_mistakes(path):
                meant = self._plugins.kind_in_file(kind, use)
                entry = self._plugins.entry(meant, use)
                axes, mistakes = grid.axes_of(entry, table, path)
                self.mistakes += mistakes
                # A taken label is reported by now: the path keeps the two apart from here on.
                found.append(
                    grid.Source(meant, path, entry, path if label in labels else label, axes)
                )
                labels.add(label)
        return found

    def _label(self, label: object, path: str) -> str:
        if isinstance(label, str) and 0 < len(label) <= MAX_LABEL_LENGTH:
            return label
        self._add_mistake(
            f"{path}.label", f"must be a string of 1 to {MAX_LABEL_LENGTH} characters"
        )
        return path

    def _size_that_fits(
        self, environments: list[grid.Source], policies: list[grid.Source]
    ) -> tuple[list[int], int] | None:
        """Return the horizons to check and the number of replications to build.

        Of too many cells none is built, and one horizon shows the other mistakes; None if the
        grid itself is too large for that.
        """
        config = self._config
        points, too_large = 1, False
        for key, sources in (("environments", environments), ("policies", policies)):
            size = sum(source.size for source in sources)
            points *= max(size, 1)
            if size > MAX_VARIANTS:
                too_large = True
                self._add_mistake(key, f"has {size:,} variants; the maximum is {MAX_VARIANTS:,}")
        n = points * max(len(config.horizons), 1) * config.replications
        if n > MAX_CELLS:
            self._add_mistake("", f"describes {n:,} cells; the maximum is {MAX_CELLS:,}")
        if points > MAX_CELLS or too_large:
            return None
        horizons = list(filter(is_horizon, config.horizons)) or [_PLACEHOLDER_HORIZON]
        if n > MAX_CELLS or len(config.horizons) > MAX_HORIZONS:
            return horizons[:1], 0
        return horizons, config.replications

    def _parts(
        self, sources: list[grid.Source], horizon: int, n_arms: int | None
    ) -> list[tuple[Part, int | None]]:
        parts = []
        for source in sources:
            for label, chosen in source.variants():
                with self._collect_mistakes(source.path):
                    parts.append(self._part(source, label, chosen, horizon, n_arms))
        return parts

    def _part(
        self,
        source: grid.Source,
        label: str,
        chosen: Mapping[str, object],
        horizon: int,
        n_arms: int | None,
    ) -> tuple[Part, int | None]:
        values = self._with_arms(source, chosen)
        if "r" in values and isinstance(values["r"], list | np.ndarray):
            n_arms = len(values["r"])
            if n_arms > MAX_EXPERIMENT_ARMS:
                many = f"has {n_arms:,} arms; the maximum is {MAX_EXPERIMENT_ARMS:,}"
                raise ConfigError([Mistake(f"{source.path}.r", many)])
        kinds = field_types(source.entry.config)
        self._read_contents(source, values, kinds)
        for name, value in values.items():
            if isinstance(value, str) and grid.wants_number(kinds.get(name, ANYTHING)):
                values[name] = grid.formula_value(
                    value, f"{source.path}.{name}", horizon, n_arms, kinds[name]
                )
        values, decisive = self._with_files(source.entry, values, source.path)
        table = {"use": source.entry.name, **values}
        found = self._plugins.resolve(source.kind, table, source=self._source, path=source.path)
        code = self._plugins.code_of(*found)
        where = (source.label, *source.dimensions(chosen))
        uses = source.entry.revealed(found[1]) if source.kind in REVEALED else ()
        return Part(label, source.entry.name, values, code, *where, uses, decisive), n_arms

    def _with_files(
        self, entry: Entry, values: Mapping[str, object], path: str
    ) -> tuple[dict[str, object], dict[str, object]]:
        """Return parameters with whole names of files, and with hashes of their content instead."""
        kinds = field_types(entry.config)
        whole, hashed = dict(values), dict(values)
        for name, value in values.items():
            members = members_of(kinds.get(name, ANYTHING))
            refers = next((kind.kind for kind in members if isinstance(kind, ReferenceType)), None)
            if isinstance(value, str) and ScalarType(Path) in members:
                file = self._file(value, f"{path}.{name}")
                whole[name] = str(file)
                hashed[name] = f"{file.name} sha256:{_file_hash(file, f'{path}.{name}')}"
            elif isinstance(value, Mapping) and refers is not None and "use" in value:
                inner = self._plugins.entry(refers, str(value["use"]))
                whole[name], hashed[name] = self._with_files(inner, value, f"{path}.{name}")
        return whole, hashed

    def _file(self, name: str, path: str) -> Path:
        """Return a file that the experiment names, relative to its own folder."""
        if self._base is None:
            unasked = "names a file, which is not read unasked: give --experiment"
            raise ConfigError([Mistake(path, unasked)], self._source)
        return self._base / name

    def _with_arms(self, source: grid.Source, chosen: Mapping[str, object]) -> dict[str, object]:
        arms = {k.removeprefix("arms."): v for k, v in chosen.items() if k.startswith("arms.")}
        values = {k: v for k, v in chosen.items() if not k.startswith("arms.")}
        if grid.takes_arms(source.entry.config) and isinstance(
            given := values.get("arms"), Mapping
        ):
            arms = dict(given)  # one of a list of arms
            del values["arms"]
        if arms:
            path = f"{source.path}.arms"
            if "r" in values or "b" in values:
                raise ConfigError([Mistake(path, "stands for r and b: give one or the other")])
            config = structure(ArmsConfig, arms, self._source, path)
            try:
                values = arms_parameters(config, self._base or Path()) | values
            except ConfigError as error:  # about the file of arms, not about this one
                where = f"{path}.file"
                mistakes = [Mistake(where, f"{error.source}: {each}") for each in error.mistakes]
                raise ConfigError(mistakes, self._source) from None
        return values

    def _read_contents(
        self, source: grid.Source, values: dict[str, object], kinds: Mapping[str, ConfigType]
    ) -> None:
        """Put what they hold in the place of files of fits and of decision tables.

        So the content is part of the cell's key, and the file is needed no more.
        """
        for name, value in values.items():
            if isinstance(value, str) and (read := content_reader(kinds.get(name, ANYTHING))):
                try:
                    values[name] = read(self._file(value, f"{source.path}.{name}"))
                except ConfigError as error:  # about that file, not about this one
                    where = f"{source.path}.{name}"
                    mistakes = [Mistake(where, f"{error.source}: {e}") for e in error.mistakes]
                    raise ConfigError(mistakes, self._source) from None

    @contextmanager
    def _collect_mistakes(self, path: str) -> Iterator[None]:
        """Turn an error of the framework into mistakes, at ``path`` if it names no place."""
        try:
            yield
        except ConfigError as error:
            self.mistakes += error.mistakes
        except BdesError as error:
            self._add_mistake(path, str(error))

    def _add_mistake(self, path: str, message: str) -> None:
        self.mistakes.append(Mistake(path, message))


def _file_hash(file: Path, path: str) -> str:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()[:32]
    except OSError as error:
        what = f"{quoted(str(file), 200)} cannot be read: {error.strerror}"
        raise ConfigError([Mistake(path, what)]) from None
