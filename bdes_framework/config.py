"""The experiment file: attrs classes for its tables, grids expanded, every mistake found.

A parameter given as a list where one value is wanted is an axis of a grid; a number given
as a string is a formula in T and K. What comes out are cells, plain and picklable.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np
from attrs import AttrsInstance, field, fields, frozen

from bdes_framework.arms import ArmsConfig, arms_parameters
from bdes_framework.cells import Cell, Part, cell_key
from bdes_framework.errors import BdesError, ConfigError, InvalidValueError, Mistake
from bdes_framework.expressions import evaluate
from bdes_framework.interfaces import (
    EngineRef,
    EnvironmentRef,
    Kind,
    PlannerRef,
    PolicyRef,
    Reference,
)
from bdes_framework.loading import PluginsConfig, load_plugins
from bdes_framework.manager import Plugins
from bdes_framework.registry import Entry
from bdes_framework.structuring import is_union, structure
from bdes_framework.text import ascii_controls, quoted
from bdes_framework.tomlfile import read_toml
from bdes_framework.versions import source_versions

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
    config, mistakes = _structured(read_toml(file), str(path))
    misformed = {_top_key(mistake) for mistake in mistakes}
    plugins = load_plugins(config.plugins if "plugins" in misformed else path)
    checker = _Checker(config, plugins, str(path), file.resolve().parent)
    cells = checker.cells()
    # What stands in for a malformed table has nothing to say of its own.
    mistakes += [m for m in dict.fromkeys(checker.mistakes) if _top_key(m) not in misformed]
    if mistakes:
        raise ConfigError(mistakes, str(path))
    return Experiment(config, plugins, tuple(cells), checker.versions, file.read_text())


_STAND_INS: Mapping[str, object] = {
    "name": "stand-in",
    "seed": 0,
    "horizons": [1],
    "environments": [],
    "policies": [],
}


def _structured(
    tables: Mapping[str, object], source: str
) -> tuple[ExperimentConfig, list[Mistake]]:
    """Return the config and what is malformed in it, with something in the place of that.

    So that one misspelt key does not keep all other mistakes for another time.
    """
    try:
        return structure(ExperimentConfig, tables, source), []
    except ConfigError as error:
        bad = {_top_key(mistake) for mistake in error.mistakes}
        sound = {key: value for key, value in tables.items() if key not in bad}
        return structure(ExperimentConfig, {**_STAND_INS, **sound}, source), list(error.mistakes)


def _top_key(mistake: Mistake) -> str:
    return re.split(r"[.\[]", mistake.path, maxsplit=1)[0]


class _Axis(NamedTuple):
    """A parameter and the values it takes; with one value it is no axis of the grid."""

    name: str
    values: list[object]


@frozen
class _Source:
    """One table of the file: what it uses, its label, and its parameters as axes."""

    kind: Kind
    path: str
    entry: Entry
    label: str
    axes: tuple[_Axis, ...]

    def variants(self) -> Iterator[tuple[str, dict[str, object]]]:
        """Yield every combination, with a label that tells it from the others."""
        varying = [axis.name for axis in self.axes if len(axis.values) > 1]
        for values in itertools.product(*(axis.values for axis in self.axes)):
            chosen = dict(zip((axis.name for axis in self.axes), values, strict=True))
            words = [f"{name}={_short(chosen[name])}" for name in varying]
            yield (f"{self.label} ({', '.join(words)})" if words else self.label), chosen


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
        if not self._fits(environments, policies):
            return []
        # Mistakes in values are no reason to keep those in parameters for another time.
        cells: list[Cell] = []
        for horizon in filter(_is_horizon, config.horizons):
            parts = list(self._parts(environments, horizon, None))
            for environment, n_arms in parts:
                for policy, _ in self._parts(policies, horizon, n_arms):
                    cells += self._replications(environment, policy, horizon)
            if not parts:  # no environment is right: look at the policies all the same
                list(self._parts(policies, horizon, n_arms=2))
        return cells

    def _replications(self, environment: Part, policy: Part, horizon: int) -> Iterator[Cell]:
        config = self._config
        for replication in range(config.replications):
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

    def _sources(self, kind: Kind, key: str, refs: Sequence[Reference]) -> list[_Source]:
        found: list[_Source] = []
        for index, ref in enumerate(refs):
            path = f"{key}[{index}]"
            table = dict(ref) if isinstance(ref, Mapping) else {"use": ref}
            use = table.pop("use")
            label = table.pop("label", use)
            try:
                entry = self._plugins.entry(kind, str(use))
            except BdesError as error:
                self.mistakes.append(Mistake(path, str(error)))
                continue
            if not isinstance(label, str) or not 0 < len(label) <= LONGEST_LABEL:
                self._note(f"{path}.label", f"must be a string of 1 to {LONGEST_LABEL} characters")
            elif label in [other.label for other in found]:
                self._note(path, f"the label {quoted(label)} is taken; give each its own 'label'")
            else:
                found.append(_Source(kind, path, entry, label, self._axes(entry, table, path)))
        return found

    def _axes(self, entry: Entry, table: Mapping[str, object], path: str) -> tuple[_Axis, ...]:
        hints = get_type_hints(entry.config, include_extras=True)
        axes: list[_Axis] = []
        for name, value in table.items():
            if name == "arms" and takes_arms(entry.config) and isinstance(value, Mapping):
                axes += [_axis(f"arms.{key}", inner, False) for key, inner in value.items()]
            else:
                axes.append(_axis(name, value, takes_list(hints.get(name, object))))
        for axis in axes:
            if not axis.values:
                self._note(f"{path}.{axis.name}", "is an empty list")
            labels = [_short(_as_number(value)) for value in axis.values]
            for label in sorted({label for label in labels if labels.count(label) > 1}):
                self._note(f"{path}.{axis.name}", f"has {quoted(label)} twice in its grid")
        return tuple(axes)

    def _fits(self, environments: list[_Source], policies: list[_Source]) -> bool:
        n = len(self._config.horizons) * self._config.replications
        for sources in (environments, policies):
            n *= sum(math.prod(len(axis.values) for axis in source.axes) for source in sources)
        if n > MOST_CELLS:
            self._note("", f"describes {n:,} cells; {MOST_CELLS:,} is the most")
        return n <= MOST_CELLS

    def _parts(
        self, sources: list[_Source], horizon: int, n_arms: int | None
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
        source: _Source,
        label: str,
        chosen: Mapping[str, object],
        horizon: int,
        n_arms: int | None,
    ) -> tuple[Part, int | None]:
        values = self._with_arms(source, chosen)
        if "r" in values and isinstance(values["r"], list | np.ndarray):
            n_arms = len(values["r"])
        hints = get_type_hints(source.entry.config, include_extras=True)
        for name, value in values.items():
            if isinstance(value, str) and wants_number(hints.get(name, object)):
                values[name] = _formula(
                    value, f"{source.path}.{name}", horizon, n_arms, hints[name]
                )
        table = {"use": source.entry.name, **values}
        self._plugins.resolve(source.kind, table, source=self._source, path=source.path)
        return Part(label, source.entry.name, values), n_arms

    def _with_arms(self, source: _Source, chosen: Mapping[str, object]) -> dict[str, object]:
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


def _short(value: object) -> str:
    """Return a value as a label shows it: a table by what it uses and sets."""
    if isinstance(value, Mapping):
        numbers = [_short(inner) for key, inner in value.items() if key != "use"]
        return " ".join([_short(value.get("use", "")), *numbers]).strip()
    return ascii_controls(str(value))


def _as_number(value: object) -> object:
    """Return 1 as 1.0: in a grid they are the same."""
    return float(value) if type(value) is int and abs(value) < 2**53 else value


def _axis(name: str, value: object, takes_list: bool) -> _Axis:
    return _Axis(name, list(value) if isinstance(value, list) and not takes_list else [value])


def _formula(text: str, path: str, horizon: int, n_arms: int | None, hint: object) -> float | int:
    try:
        value = evaluate(text, horizon, n_arms)
    except InvalidValueError as error:
        raise ConfigError([Mistake(path, str(error))]) from None
    whole = float not in _members(hint)
    return round(value) if whole else value


def _members(hint: object) -> tuple[object, ...]:
    return get_args(hint) if is_union(hint) else (hint,)


def takes_list(hint: object) -> bool:
    """Say whether a list here is one value, not an axis of a grid."""
    return any(get_origin(member) in (list, tuple, np.ndarray) for member in _members(hint))


def wants_number(hint: object) -> bool:
    """Say whether a string here can only be a formula."""
    members = _members(hint)
    return bool({int, float} & set(members)) and not any(
        member is str or get_origin(member) in (Literal, Annotated) for member in members
    )


def takes_arms(config: type[AttrsInstance]) -> bool:
    """Say whether an environment may have a table ``arms`` in place of ``r`` and ``b``."""
    names = {attribute.name for attribute in fields(config)}
    return {"r", "b"} <= names and "arms" not in names


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
    if len(set(config.horizons)) < len(config.horizons):
        mistakes.append(Mistake("horizons", "names a horizon twice"))
    for key in ("horizons", "environments", "policies"):
        if not getattr(config, key):
            mistakes.append(Mistake(key, "needs at least one entry"))
    return mistakes
