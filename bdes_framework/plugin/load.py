"""Loading the plugins a config asks for, and checking that those it requires are there."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from os import PathLike
from pathlib import Path
from types import ModuleType

import pluggy
from attrs import frozen
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from bdes_framework._internal.files import read_toml
from bdes_framework._internal.text import did_you_mean, one_line, quoted
from bdes_framework.errors import ConfigError, Mistake, PluginError
from bdes_framework.plugin import discovery
from bdes_framework.plugin.config_values import structure
from bdes_framework.plugin.fingerprint import plugin_code
from bdes_framework.plugin.plugins import Plugins
from bdes_framework.plugin.registry import PluginStatus, Registry


@frozen
class PluginsConfig:
    """Which plugins to load: the ``[plugins]`` table of a config file.

    Parameters
    ----------
    disabled : list[str]
        Plugins, or whole distributions, that are not to be imported.
    required : list[str]
        Distributions that must be installed and loaded, as PEP 508 requirements such as
        ``"my-plugins>=1.2"``.
    modules : list[str]
        Local plugins to load besides the installed ones: importable modules, or files and
        package folders by their path, relative to the config file.
    """

    disabled: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


def load_plugins(
    config: PluginsConfig | Mapping[str, object] | str | PathLike[str] | None = None,
    *,
    disabled: Sequence[str] = (),
    required: Sequence[str] = (),
    modules: Sequence[str] = (),
    objects: Sequence[object] = (),
    base: str | PathLike[str] | None = None,
) -> Plugins:
    """Find and load plugins; return them with everything they registered.

    A plugin that fails does not stop the others: look at ``Plugins.statuses``.

    Parameters
    ----------
    config : PluginsConfig | Mapping[str, object] | str | PathLike[str] | None
        Which plugins to disable, require or load from local files; a path is read as a TOML
        file's ``[plugins]`` table, with local files relative to it.
    disabled, required, modules : Sequence[str]
        Added to what ``config`` says.
    objects : Sequence[object]
        Plugins that this process has in memory, say in a notebook: modules, classes that serve
        as namespaces, or instances, each with ``BDES_API_VERSION`` and hooks. Other processes
        do not have them, so what they register runs with engines such as ``serial`` only.
    base : str | PathLike[str] | None
        The folder local files are relative to; by default that of the config file, or the
        working directory.

    Raises
    ------
    ConfigError
        If ``config`` is malformed, or nothing has a name that is disabled.
    PluginError
        If something required is missing, too old, disabled or failed.

    Examples
    --------
    >>> plugins = load_plugins(disabled=["bdes-framework"])
    >>> [entry.name for entry in plugins.entries() if entry.distribution == "bdes-framework"]
    []

    A plugin in memory, as a notebook may define one:

    >>> from bdes_framework import RunProgress, hookimpl
    >>> class Listener:
    ...     BDES_API_VERSION = 1
    ...
    ...     @hookimpl
    ...     def bdes_run_finished(self, run: RunProgress) -> None:
    ...         print(f"{run.n_finished} cells are done")
    >>> load_plugins(objects=[Listener()]).statuses[-1].state
    'loaded'
    """
    table: object = config
    folder, place = Path.cwd(), ("plugins", "")
    if isinstance(config, str | PathLike):
        folder, table = Path(config).resolve().parent, read_toml(Path(config)).get("plugins")
        place = (str(config), "plugins")
    if not isinstance(table, PluginsConfig):
        table = structure(PluginsConfig, {} if table is None else table, *place)
    return _load(
        _Choice(
            disabled=(*table.disabled, *disabled),
            required=(*table.required, *required),
            modules=(*table.modules, *modules),
            base=folder if base is None else Path(base).resolve(),
        ),
        objects,
    )


@frozen
class _Choice(PluginsConfig):
    """Everything that decides which plugins are loaded: hashable and picklable."""

    base: Path = Path()


def _load(choice: _Choice, objects: Sequence[object] = ()) -> Plugins:
    candidates = discovery.installed()
    candidates += [discovery.local(module, choice.base) for module in choice.modules]
    candidates += [discovery.in_memory(plugin) for plugin in objects]
    _check_disabled(choice.disabled, candidates)
    registry = Registry()
    statuses, hooks = discovery.load(candidates, choice.disabled, registry)
    for requirement in choice.required:
        _check_required(requirement, statuses)
    return Plugins(statuses, registry, hooks, _code(statuses, hooks), (_load_once, (choice,)))


def _code(
    statuses: Sequence[PluginStatus], hooks: pluggy.PluginManager
) -> dict[str, tuple[str, str]]:
    """Return the name and the version of each loaded plugin's code, by the plugin's name."""
    code: dict[str, tuple[str, str]] = {}
    for status in statuses:
        if status.state == "loaded":
            plugin: object = hooks.get_plugin(status.name)
            named = plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__module__
            code[status.name] = plugin_code(status, named)
    return code


@cache
def _load_once(choice: _Choice) -> Plugins:
    """Load the plugins of an unpickled ``Plugins``, once per worker process."""
    return _load(choice)


def _check_disabled(names: Sequence[str], candidates: Sequence[discovery.Candidate]) -> None:
    """Raise ConfigError with every disabled name that no plugin and no distribution has."""
    known = {canonicalize_name(c.name) for c in candidates} | {c.distribution for c in candidates}
    mistakes = []
    for index, name in enumerate(names):
        plain = canonicalize_name(name)
        if plain not in known:
            message = f"no plugin is called {quoted(name)}.{did_you_mean(plain, sorted(known))}"
            mistakes.append(Mistake(f"plugins.disabled[{index}]", message))
    if mistakes:
        raise ConfigError(mistakes)


def _check_required(text: str, statuses: Sequence[PluginStatus]) -> None:
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        message = f"{quoted(text)} is no requirement: {one_line(str(error))}"
        raise ConfigError([Mistake("plugins.required", message)]) from None
    if requirement.marker is not None and not requirement.marker.evaluate():
        return
    name = canonicalize_name(requirement.name)
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        raise PluginError(f"required plugin distribution {name!r} is not installed") from None
    if not requirement.specifier.contains(version, prereleases=True):
        raise PluginError(
            f"required plugin distribution {name!r}: {requirement.specifier} is needed,"
            f" {version} is installed"
        )
    own = [status for status in statuses if status.distribution == name]
    if not own:
        raise PluginError(f"required distribution {name!r} is installed but announces no plugin")
    for status in own:
        if status.state != "loaded":
            why = f": {status.reason}" if status.reason else ""
            raise PluginError(f"required plugin {status.name!r} of {name} is {status.state}{why}")
