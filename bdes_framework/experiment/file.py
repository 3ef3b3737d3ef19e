"""The experiment file: read and checked, its grids expanded into cells."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

from attrs import evolve, frozen

from bdes_framework._internal.display import shown_fields, shown_numbers
from bdes_framework._internal.files import parse_toml, read_text
from bdes_framework._internal.text import quoted
from bdes_framework.errors import BdesError, ConfigError, InvalidValueError, Mistake
from bdes_framework.experiment.cell import Cell
from bdes_framework.experiment.cell_builder import CellBuilder
from bdes_framework.experiment.config import REQUIRED_LISTS, ExperimentConfig
from bdes_framework.experiment.tables import toml_of
from bdes_framework.plugin.config_values import structure
from bdes_framework.plugin.fingerprint import framework_code
from bdes_framework.plugin.load import PluginsConfig, load_plugins
from bdes_framework.plugin.plugins import Plugins
from bdes_framework.plugin.registry import Entry


@frozen
class Experiment:
    """A checked experiment, ready to run: made by :func:`load_experiment`.

    Parameters
    ----------
    config : ExperimentConfig
        The tables of the file.
    plugins : Plugins
        The plugins it loads.
    cells : tuple[Cell, ...]
        All cells, in order.
    benchmark_code : Mapping[str, str]
        The names and versions of the code that benchmarks are planned by.
    versions : Mapping[str, str]
        The code that decides the numbers, by its distributions or files, with versions.
    text : str
        The content of the file; if there is none, what a file would hold.
    file : Path | None
        The file it was read from; None if it was given in Python.
    """

    config: ExperimentConfig
    plugins: Plugins
    cells: tuple[Cell, ...]
    benchmark_code: Mapping[str, str]
    versions: Mapping[str, str]
    text: str
    file: Path | None

    @property
    def is_crowd(self) -> bool:
        """Whether it is about many users, so that horizons are numbers of visits."""
        return any(cell.feedback is not None for cell in self.cells[:1])

    def __repr__(self) -> str:
        config = self.config
        return shown_fields(
            "Experiment",
            name=quoted(config.name, 60),
            cells=len(self.cells),
            environments=len({cell.environment.label for cell in self.cells}),
            policies=len({cell.policy.label for cell in self.cells}),
            horizons=shown_numbers(config.horizons),
            replications=config.replications,
        )


def load_experiment(
    experiment: ExperimentConfig | Mapping[str, object] | str | PathLike[str],
    *,
    objects: Sequence[object] = (),
) -> Experiment:
    """Read and check an experiment; raise ConfigError with every mistake in it.

    Parameters
    ----------
    experiment : ExperimentConfig | Mapping[str, object] | str | PathLike[str]
        Its file, or what the file would say: a mapping of its tables, or a config object. In
        those, arrays and tuples are lists, a config object of a plugin stands for the table
        that names it, and relative paths start at the working directory.
    objects : Sequence[object]
        Plugins in memory, as :func:`load_plugins` takes them.

    Examples
    --------
    >>> arms = {"r": [0.9, 0.3], "b": [0.1, 1.0], "lam": [0.1, 0.3]}
    >>> experiment = load_experiment(
    ...     {
    ...         "name": "two rates",
    ...         "seed": 1,
    ...         "horizons": [1000],
    ...         "environments": [{"use": "bernoulli", **arms}],
    ...         "policies": ["etc-unknown-arm", "ucb1"],
    ...     }
    ... )
    >>> len(experiment.cells)
    4
    """
    if isinstance(experiment, str | PathLike):
        file = Path(experiment)
        text = read_text(file)
        return build_experiment(file, text, parse_toml(text, file), objects)
    is_config = isinstance(experiment, ExperimentConfig)
    if not (is_config or isinstance(experiment, Mapping)):
        raise InvalidValueError(
            "an experiment is a file, a mapping of its tables or an ExperimentConfig, not"
            f" {quoted(experiment)}"
        )
    source = "experiment given as " + ("an ExperimentConfig" if is_config else "a dict")
    text = toml_of(experiment, _registered(experiment, objects), source)
    return build_experiment(source, text, parse_toml(text, source), objects)


def _registered(
    experiment: ExperimentConfig | Mapping[str, object], objects: Sequence[object]
) -> Sequence[Entry]:
    """Return everything registered, to find the names of config objects by."""
    table = experiment.get("plugins") if isinstance(experiment, Mapping) else experiment.plugins
    try:
        given = table if isinstance(table, PluginsConfig | Mapping) else None
        return load_plugins(given, objects=objects).entries()
    except BdesError:  # reported with the other mistakes
        return load_plugins(objects=objects).entries()


def build_experiment(
    file: Path | str,
    text: str,
    tables: Mapping[str, object],
    objects: Sequence[object] = (),
    *,
    reads_files: bool = True,
) -> Experiment:
    """Check the content of an experiment file, which ``tables`` holds parsed.

    ``file`` may also be words that say what was given in place of one. Unless it ``reads_files``,
    a parameter that names a file is a mistake.
    """
    config, mistakes = _structured(tables, str(file))
    malformed = {_malformed_part(mistake) for mistake in mistakes}
    base = file.resolve().parent if isinstance(file, Path) else Path.cwd()
    plugins, wrong_plugins = _loaded_plugins(config.plugins, base, objects)
    mistakes += wrong_plugins
    builder = CellBuilder(config, plugins, str(file), base if reads_files else None)
    cells = builder.cells()
    mistakes += [
        mistake
        for mistake in dict.fromkeys(builder.mistakes)
        # One about a placeholder is not about what the file says.
        if not malformed & {_malformed_part(mistake), _top_key(mistake)}
    ]
    if mistakes:
        raise ConfigError(mistakes, str(file))
    benchmark_code = {**framework_code(), **builder.planner_code}
    versions = dict(benchmark_code)
    for cell in cells:
        if cell.replication == 0:
            versions |= cell.code
    return Experiment(
        config=config,
        plugins=plugins,
        cells=tuple(cells),
        benchmark_code=benchmark_code,
        versions=dict(sorted(versions.items())),
        text=text,
        file=file if isinstance(file, Path) else None,
    )


def _loaded_plugins(
    config: PluginsConfig, base: Path, objects: Sequence[object]
) -> tuple[Plugins, list[Mistake]]:
    """Load the plugins; return them with the mistakes of their table: names, and local modules."""
    mistakes: list[Mistake] = []
    try:
        plugins = load_plugins(config, base=base, objects=objects)
    except ConfigError as error:
        # Loaded without what is wrong, so that the other mistakes of the file are found too.
        mistakes += error.mistakes
        wrong = {mistake.path for mistake in mistakes}
        known = [n for i, n in enumerate(config.disabled) if f"plugins.disabled[{i}]" not in wrong]
        sound = evolve(config, disabled=tuple(known), required=())
        plugins = load_plugins(sound, base=base, objects=objects)
    names = [(f"plugins.modules[{i}]", quoted(name)) for i, name in enumerate(config.modules)]
    names += [(f"objects[{i}]", quoted(each)) for i, each in enumerate(objects)]
    local = plugins.statuses[len(plugins.statuses) - len(names) :]
    mistakes += [
        Mistake(path, f"{name} failed to load: {status.reason}")
        for (path, name), status in zip(names, local, strict=True)
        if status.state == "failed"
    ]
    return plugins, mistakes


_PLACEHOLDERS: Mapping[str, object] = {"name": "placeholder", "seed": 0, **REQUIRED_LISTS}
_ITEM_PLACEHOLDERS: Mapping[str, object] = {"horizons": 0, "environments": "", "policies": ""}


def _structured(
    tables: Mapping[str, object], source: str
) -> tuple[ExperimentConfig, list[Mistake]]:
    """Return the config, with placeholders for malformed parts, and the mistakes in those.

    So one malformed key does not keep the other mistakes from being found.
    """
    try:
        return structure(ExperimentConfig, tables, source), []
    except ConfigError as error:
        bad = {_malformed_part(mistake) for mistake in error.mistakes}
        sound = {key: value for key, value in tables.items() if key not in bad}
        for key, placeholder in _ITEM_PLACEHOLDERS.items():
            if isinstance(items := sound.get(key), list):
                wrong = [f"{key}[{index}]" in bad for index in range(len(items))]
                sound[key] = [placeholder if w else i for w, i in zip(wrong, items, strict=True)]
        return structure(ExperimentConfig, {**_PLACEHOLDERS, **sound}, source), list(error.mistakes)


def _malformed_part(mistake: Mistake) -> str:
    """Return the part of the file that a mistake makes useless: an item of a list, or a key."""
    key = _top_key(mistake)
    return mistake.path.partition(".")[0] if key in _ITEM_PLACEHOLDERS else key


def _top_key(mistake: Mistake) -> str:
    return mistake.path.partition(".")[0].partition("[")[0]
