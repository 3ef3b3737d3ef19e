"""The experiment file: attrs classes for its tables, grids expanded, every mistake found.

What comes out are cells, plain and picklable.
"""

import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
from attrs import field, frozen

from bdes_framework._internal.files import parse_toml, read_text
from bdes_framework._internal.text import quoted
from bdes_framework.errors import BdesError, ConfigError, InvalidValueError, Mistake
from bdes_framework.experiment.arms import ArmsConfig, arms_parameters
from bdes_framework.experiment.cell import Cell, Part, cell_key, refusal
from bdes_framework.experiment.grid import Source, axes_of, clashes, formula_value, wants_number
from bdes_framework.interfaces import (
    EngineRef,
    EnvironmentRef,
    Kind,
    PlannerRef,
    PolicyRef,
    Reference,
)
from bdes_framework.plugin.config_types import ANYTHING, field_types
from bdes_framework.plugin.config_values import structure
from bdes_framework.plugin.fingerprint import source_versions
from bdes_framework.plugin.load import PluginsConfig, load_plugins
from bdes_framework.plugin.plugins import Plugins

LONGEST_LABEL = 200
MOST_CELLS = 1_000_000
MOST_CHECKPOINTS = 10_000
LONGEST_HORIZON = 10**12
LEAST = {"seed": 0, "replications": 1, "checkpoints": 2}


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
    checkpoints : int
        At how many log-spaced rounds the curves are noted.
    reveal_lam : bool
        Whether policies are told the evolution rate.
    reveal_replenishing_arm : bool
        Whether policies are told which arm has the largest end state.
    benchmark : planner, or false
        What computes the best sequence; with false, regret is absent.
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
    checkpoints: int = 50
    reveal_lam: bool = True
    reveal_replenishing_arm: bool = False
    benchmark: PlannerRef | Literal[False] = "certified"
    engine: EngineRef = "processes"
    plugins: PluginsConfig = field(factory=PluginsConfig)


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
        Everything there is to run, in order.
    versions : mapping
        The distributions whose code decides the numbers, with their versions.
    text : str
        The file as it was read.
    """

    config: ExperimentConfig
    plugins: Plugins
    cells: tuple[Cell, ...]
    versions: Mapping[str, str]
    text: str


def load_experiment(path: str | PathLike[str]) -> Experiment:
    """Read and check an experiment file; raise ConfigError with every mistake in it."""
    file = Path(path)
    text = read_text(file)
    config, mistakes = _structured(parse_toml(text, file), str(path))
    malformed = {_blamed(mistake) for mistake in mistakes}
    base = file.resolve().parent
    plugins = load_plugins(config.plugins, base=base)
    checker = _Checker(config, plugins, str(path), base)
    cells = checker.cells()
    # A placeholder for a malformed table makes no mistakes of its own.
    mistakes += [m for m in dict.fromkeys(checker.mistakes) if not _is_about(m, malformed)]
    if mistakes:
        raise ConfigError(mistakes, str(path))
    return Experiment(config, plugins, tuple(cells), checker.versions, text)


_PLACEHOLDERS: Mapping[str, object] = {
    "name": "placeholder",
    "seed": 0,
    "horizons": [],
    "environments": [],
    "policies": [],
}
_ITEM_PLACEHOLDERS: Mapping[str, object] = {"horizons": 0, "environments": "", "policies": ""}
_PLACEHOLDER_HORIZON = 1_000


def _structured(
    tables: Mapping[str, object], source: str
) -> tuple[ExperimentConfig, list[Mistake]]:
    """Return the config and what is malformed in it, with something in the place of that.

    So that one misspelt key does not keep all other mistakes for another time.
    """
    try:
        return structure(ExperimentConfig, tables, source), []
    except ConfigError as error:
        bad = {_blamed(mistake) for mistake in error.mistakes}
        sound = {key: value for key, value in tables.items() if key not in bad}
        for key, placeholder in _ITEM_PLACEHOLDERS.items():
            items = sound.get(key)
            if isinstance(items, list):
                sound[key] = [
                    placeholder if f"{key}[{index}]" in bad else item
                    for index, item in enumerate(items)
                ]
        return structure(ExperimentConfig, {**_PLACEHOLDERS, **sound}, source), list(error.mistakes)


def _blamed(mistake: Mistake) -> str:
    """Return what a mistake makes useless: an item of a list, or the value of a whole key."""
    item = re.match(r"\w+\[\d+\]", mistake.path)
    if item and _top_key(item[0]) in _ITEM_PLACEHOLDERS:
        return item[0]
    return _top_key(mistake.path)


def _top_key(path: str) -> str:
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _is_about(mistake: Mistake, malformed: Collection[str]) -> bool:
    """Say whether a mistake is about something that is not what the file says."""
    return _blamed(mistake) in malformed or _top_key(mistake.path) in malformed


class _Checker:
    """Turns a config into cells, noting every mistake on the way instead of stopping."""

    def __init__(self, config: ExperimentConfig, plugins: Plugins, source: str, base: Path) -> None:
        self.mistakes: list[Mistake] = _wrong_values(config)
        self.versions = source_versions(plugins)
        self._config = config
        self._plugins = plugins
        self._source = source
        self._base = base

    def cells(self) -> list[Cell]:
        """Return the cells, as far as they can be made."""
        config = self._config
        self._try(Kind.ENGINE, config.engine, "engine")
        if config.benchmark is not False:
            self._try(Kind.PLANNER, config.benchmark, "benchmark")
        environments = self._sources(Kind.ENVIRONMENT, "environments", config.environments)
        policies = self._sources(Kind.POLICY, "policies", config.policies)
        n_replications = self._replications_that_fit(environments, policies)
        if n_replications is None:
            return []
        self.mistakes += [*clashes(environments), *clashes(policies)]
        # Mistakes in values are no reason to keep those in parameters for another time.
        cells: list[Cell] = []
        for horizon in list(filter(_is_horizon, config.horizons)) or [_PLACEHOLDER_HORIZON]:
            parts = list(self._parts(environments, horizon, None))
            for environment, n_arms in parts:
                for policy, _ in self._parts(policies, horizon, n_arms):
                    cells += self._replications(environment, policy, horizon, n_replications)
            if not parts:  # no environment is right: look at the policies all the same
                list(self._parts(policies, horizon, n_arms=2))
        self._note_refusals(policies, cells)
        return cells

    def _note_refusals(self, policies: list[Source], cells: list[Cell]) -> None:
        """Note each policy that refuses, wherever it is to play, what the file lets it know."""
        to_play: dict[str, list[Cell]] = {}
        for cell in sorted(cells, key=lambda cell: cell.horizon):
            if cell.replication == 0:
                to_play.setdefault(cell.policy.label, []).append(cell)
        for source in policies:
            for label, _ in source.variants():
                # The first problem that is not refused ends the matter: most build only once.
                refusals = (refusal(self._plugins, cell) for cell in to_play.get(label, ()))
                reasons = list(itertools.takewhile(bool, refusals))
                if reasons and len(reasons) == len(to_play[label]):
                    self._note(source.path, reasons[0])

    def _replications(
        self, environment: Part, policy: Part, horizon: int, n_replications: int
    ) -> Iterator[Cell]:
        config = self._config
        for replication in range(n_replications):
            decisive = {
                "horizon": horizon,
                "replication": replication,
                "seed": config.seed,
                "checkpoints": config.checkpoints,
                "reveal_lam": config.reveal_lam,
                "reveal_replenishing_arm": config.reveal_replenishing_arm,
            }
            tables = {"environment": environment.table, "policy": policy.table}
            key = cell_key(self.versions, **decisive, **tables)
            yield Cell(key=key, environment=environment, policy=policy, **decisive)  # type: ignore[arg-type]

    def _sources(self, kind: Kind, key: str, refs: Sequence[Reference]) -> list[Source]:
        found: list[Source] = []
        labels: set[str] = set()
        for index, ref in enumerate(refs):
            path = f"{key}[{index}]"
            table = dict(ref) if isinstance(ref, Mapping) else {"use": ref}
            use = str(table.pop("use"))
            label = self._label(table.pop("label", use), path)
            if label in labels:
                self._note(path, f"the label {quoted(label)} is taken; give each its own 'label'")
            try:
                entry = self._plugins.entry(kind, use)
            except BdesError as error:
                self._note(path, str(error))
                continue
            axes, mistakes = axes_of(entry, table, path)
            self.mistakes += mistakes
            # A taken label is told by now: the path keeps the two apart from here on.
            found.append(Source(kind, path, entry, path if label in labels else label, axes))
            labels.add(label)
        return found

    def _label(self, label: object, path: str) -> str:
        if isinstance(label, str) and 0 < len(label) <= LONGEST_LABEL:
            return label
        self._note(f"{path}.label", f"must be a string of 1 to {LONGEST_LABEL} characters")
        return path

    def _replications_that_fit(
        self, environments: list[Source], policies: list[Source]
    ) -> int | None:
        """Return how many replications to make cells for; None if the grid is too large itself."""
        config = self._config
        points = max(len(config.horizons), 1)
        for sources in (environments, policies):
            points *= max(sum(source.size for source in sources), 1)
        n = points * config.replications
        if n > MOST_CELLS:
            self._note("", f"describes {n:,} cells; {MOST_CELLS:,} is the most")
        if points > MOST_CELLS:
            return None
        return config.replications if n <= MOST_CELLS else 0

    def _parts(
        self, sources: list[Source], horizon: int, n_arms: int | None
    ) -> Iterator[tuple[Part, int | None]]:
        for source in sources:
            for label, chosen in source.variants():
                try:
                    yield self._part(source, label, chosen, horizon, n_arms)
                except ConfigError as error:
                    self.mistakes += error.mistakes
                except BdesError as error:
                    self._note(source.path, str(error))

    def _part(
        self,
        source: Source,
        label: str,
        chosen: Mapping[str, object],
        horizon: int,
        n_arms: int | None,
    ) -> tuple[Part, int | None]:
        values = self._with_arms(source, chosen)
        if "r" in values and isinstance(values["r"], list | np.ndarray):
            n_arms = len(values["r"])
        kinds = field_types(source.entry.config)
        for name, value in values.items():
            if isinstance(value, str) and wants_number(kinds.get(name, ANYTHING)):
                values[name] = formula_value(
                    value, f"{source.path}.{name}", horizon, n_arms, kinds[name]
                )
        table = {"use": source.entry.name, **values}
        self._plugins.resolve(source.kind, table, source=self._source, path=source.path)
        return Part(label, source.entry.name, values), n_arms

    def _with_arms(self, source: Source, chosen: Mapping[str, object]) -> dict[str, object]:
        arms = {k.removeprefix("arms."): v for k, v in chosen.items() if k.startswith("arms.")}
        values = {k: v for k, v in chosen.items() if not k.startswith("arms.")}
        if arms:
            path = f"{source.path}.arms"
            if "r" in values or "b" in values:
                raise ConfigError([Mistake(path, "stands for r and b: give one or the other")])
            config = structure(ArmsConfig, arms, self._source, path)
            try:
                values = arms_parameters(config, self._base) | values
            except InvalidValueError as error:
                raise ConfigError([Mistake(path, str(error))], self._source) from None
        return values

    def _try(self, kind: Kind, ref: Reference, path: str) -> None:
        try:
            self._plugins.resolve(kind, ref, source=self._source, path=path)
        except ConfigError as error:
            self.mistakes += error.mistakes
        except BdesError as error:
            self._note(path, str(error))

    def _note(self, path: str, message: str) -> None:
        self.mistakes.append(Mistake(path, message))


def _is_horizon(value: int) -> bool:
    return 1 <= value <= LONGEST_HORIZON


def _wrong_values(config: ExperimentConfig) -> list[Mistake]:
    mistakes = []
    if not config.name.strip() or len(config.name) > LONGEST_LABEL:
        mistakes.append(Mistake("name", f"must have 1 to {LONGEST_LABEL} characters"))
    for key, least in LEAST.items():
        value = getattr(config, key)
        if value < least:
            mistakes.append(Mistake(key, f"must be at least {least}, got {value}"))
    if config.checkpoints > MOST_CHECKPOINTS:
        mistakes.append(Mistake("checkpoints", f"must be at most {MOST_CHECKPOINTS:,}"))
    mistakes += [
        Mistake(f"horizons[{index}]", f"must be from 1 to {LONGEST_HORIZON:,}, got {horizon}")
        for index, horizon in enumerate(config.horizons)
        if not _is_horizon(horizon)
    ]
    horizons = list(filter(_is_horizon, config.horizons))
    if len(set(horizons)) < len(horizons):
        mistakes.append(Mistake("horizons", "names a horizon twice"))
    for key in ("horizons", "environments", "policies"):
        if not getattr(config, key):
            mistakes.append(Mistake(key, "needs at least one entry"))
    return mistakes
