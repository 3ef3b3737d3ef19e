"""Finding plugins and loading each in isolation; failures are data, never the end.

Metadata is read and sorted before anything is imported. Each plugin is imported, checked
and asked to register on its own; what goes wrong becomes a record that `bdes plugins`
shows, and the others load all the same.
"""

import hashlib
import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Literal, TypeAlias

import pluggy
from attrs import field, frozen

from bdes_framework._internal.text import did_you_mean, listed, one_line, quoted
from bdes_framework.errors import PluginError
from bdes_framework.plugin.hookspecs import API_VERSION, PROJECT, HookSpecs
from bdes_framework.plugin.local_files import folder_beside, own_files, source_files, source_hash
from bdes_framework.plugin.registry import Entry, Registrar, Registry

FIRST_PARTY = "bdes-framework"
"""The distribution whose plugins load first, so that nobody takes their names."""

_LOCAL = "bdes_local_"
"""How the module names of local files begin."""

_helper_folders: set[Path] = set()
"""The folders that were put on the path because a local plugin stands in them."""

State: TypeAlias = Literal["loaded", "disabled", "failed"]

HOOK_NAMES = tuple(name for name in vars(HookSpecs) if name.startswith("bdes_"))


@frozen
class Candidate:
    """A plugin that has been found but not imported.

    Parameters
    ----------
    name : str
        The entry point's name, or a local module's.
    distribution, version : str
        Where it comes from; local files have a hash of their source for a version.
    load : callable
        Imports it and returns the module (or object) with its hooks.
    """

    name: str
    distribution: str
    version: str
    load: Callable[[], object] = field(repr=False)


@frozen
class PluginStatus:
    """What became of one plugin.

    Parameters
    ----------
    name, distribution, version : str
        Which plugin it is.
    state : "loaded", "disabled" or "failed"
        What became of it.
    reason : str
        Why it failed, on one line; empty otherwise.
    details : str
        The traceback of a failure; empty otherwise.
    entries : tuple of Entry
        What it registered, or, if it failed, what it had tried to register.
    """

    name: str
    distribution: str
    version: str
    state: State
    reason: str = ""
    details: str = field(default="", repr=False)
    entries: tuple[Entry, ...] = field(default=(), repr=False)

    @property
    def origin(self) -> str:
        """Distribution and version, as one phrase."""
        return f"{self.distribution} {self.version}".strip()


def installed() -> list[Candidate]:
    """Return the plugins that installed distributions announce, ours first, then by name."""
    found = [_installed_candidate(point) for point in entry_points(group=PROJECT)]
    return sorted(found, key=lambda c: (c.distribution != FIRST_PARTY, c.distribution, c.name))


def _installed_candidate(point: EntryPoint) -> Candidate:
    distribution = point.dist
    name = distribution.metadata["Name"] if distribution is not None else None
    version = distribution.version if distribution is not None else None
    return Candidate(point.name, canonical_name(name or "unknown"), version or "", point.load)


def canonical_name(distribution: str) -> str:
    """Return a distribution's name the way package indexes compare them (PEP 503)."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def local(reference: str, base: Path) -> Candidate:
    """Return a plugin that is not installed: a module's name, or a file below ``base``."""
    if not (reference.endswith(".py") or "/" in reference or "\\" in reference):
        return Candidate(reference, "local module", "", lambda: _import_local_module(reference))
    path = (base / reference).resolve()
    if path.is_dir():
        path = path / "__init__.py"
    name = path.parent.name if path.name == "__init__.py" else path.stem
    try:
        path.stat()
        version = "sha256:" + source_hash(source_files(path))
    except OSError as error:
        reason = error.strerror or str(error)
        return Candidate(name, "local file", "", lambda: _raise_unreadable(reference, reason))
    return Candidate(name, "local file", version, lambda: _import_file(path, name, version))


def _raise_unreadable(reference: str, reason: str) -> object:
    raise PluginError(f"cannot read {quoted(reference)}: {reason}")


def _import_local_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise PluginError(
                f"no module named {quoted(name)} can be imported; to load a file, write its"
                f" path, such as {quoted('./' + name.replace('.', '/') + '.py')}"
            ) from None
        raise


def _import_file(path: Path, name: str, version: str) -> ModuleType:
    """Import a file under a name of its own, the same in every process, once per content."""
    place = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    module_name = f"{_LOCAL}{re.sub(r'[^0-9A-Za-z_]', '_', name)}_{place}"
    known = sys.modules.get(module_name)
    if known is not None and getattr(known, "__bdes_version__", None) == version:
        return known
    if known is not None:
        _forget(path, module_name)
    is_package = path.name == "__init__.py"
    spec = importlib.util.spec_from_file_location(
        module_name, path, submodule_search_locations=[str(path.parent)] if is_package else None
    )
    if spec is None or spec.loader is None:
        raise PluginError(f"{quoted(path.name)} is not a Python file")
    _reach_helpers(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    vars(module)["__bdes_version__"] = version
    return module


def _reach_helpers(path: Path) -> None:
    """Let a plugin import the modules beside it, at any time and in every process.

    Their folder comes last on the path, so that nothing of Python's or installed is hidden.
    Helpers of one name in two plugins' folders would be mixed up, so the second is refused.
    """
    folder = folder_beside(path)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    _helper_folders.add(folder)
    importlib.invalidate_caches()
    helpers = set(source_files(path)) - set(own_files(path))
    for name in sorted({file.relative_to(folder).parts[0].removesuffix(".py") for file in helpers}):
        found = sys.modules[name].__spec__ if name in sys.modules else PathFinder.find_spec(name)
        origin = Path(found.origin).resolve() if found and found.origin else path
        if origin not in helpers and _helper_folders.intersection(origin.parents) - {folder}:
            raise PluginError(
                f"imports {name!r} from beside it, but another plugin's helper has that name:"
                f" {quoted(str(origin), 200)}; rename one"
            )


def _forget(path: Path, module_name: str) -> None:
    """Forget a changed plugin's modules, so that their new text is what is imported."""
    files = set(source_files(path))
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        is_helper = file is not None and Path(file).resolve() in files
        is_own = name.startswith(module_name + ".")
        if is_own or (is_helper and not name.startswith(("__", _LOCAL))):
            del sys.modules[name]


def load(
    candidates: Iterable[Candidate], disabled: Sequence[str], registry: Registry
) -> tuple[list[PluginStatus], pluggy.PluginManager]:
    """Load candidates in order into ``registry``; return what became of each, and their hooks.

    ``disabled`` names plugins or whole distributions; those are not even imported.
    """
    manager = _new_manager()
    records: list[PluginStatus] = []
    names: dict[str, str] = {}
    off = {canonical_name(name) for name in disabled}
    for candidate in candidates:
        if {canonical_name(candidate.name), candidate.distribution} & off:
            records.append(_record(candidate, "disabled"))
            continue
        registrar = Registrar(candidate.name, candidate.distribution)
        try:
            if candidate.name in names:
                raise PluginError(
                    f"a plugin named {candidate.name!r} is already loaded from"
                    f" {names[candidate.name]}"
                )
            plugin = candidate.load()
            _check_new(plugin, manager)
            _check_api_version(plugin)
            _check_hooks(plugin, candidate.name).hook.bdes_register(registrar=registrar)
            manager.register(plugin, name=candidate.name)
            try:
                registry.add(registrar.entries)
            except PluginError:
                manager.unregister(name=candidate.name)
                raise
        except KeyboardInterrupt:
            raise
        # Whatever else a plugin raises, SystemExit and exceptions of its own kind included.
        except BaseException as error:
            records.append(
                _record(
                    candidate,
                    "failed",
                    reason=_reason(error),
                    details=_details(error),
                    entries=registrar.entries,
                )
            )
            continue
        names[candidate.name] = candidate.distribution
        records.append(_record(candidate, "loaded", entries=registrar.entries))
    return records, manager


def _record(
    candidate: Candidate,
    state: State,
    reason: str = "",
    details: str = "",
    entries: tuple[Entry, ...] = (),
) -> PluginStatus:
    return PluginStatus(
        candidate.name, candidate.distribution, candidate.version, state, reason, details, entries
    )


def _new_manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(HookSpecs)
    return manager


def _check_new(plugin: object, manager: pluggy.PluginManager) -> None:
    for name, known in manager.list_name_plugin():
        if known is plugin:
            raise PluginError(f"is the same object as plugin {name!r}, which is loaded already")


def _check_api_version(plugin: object) -> None:
    version = getattr(plugin, "BDES_API_VERSION", None)
    if isinstance(version, bool) or not isinstance(version, int):
        raise PluginError(
            "does not say which API version it was written for: add"
            f" 'BDES_API_VERSION = {API_VERSION}' next to its hook"
        )
    if version < 1:
        raise PluginError(f"says it was written for API version {version}; the first was 1")
    if version > API_VERSION:
        raise PluginError(
            f"was written for API version {version}, newer than this framework's"
            f" {API_VERSION}: upgrade {FIRST_PARTY}"
        )


def _check_hooks(plugin: object, name: str) -> pluggy.PluginManager:
    """Register the plugin with a manager of its own, refusing hooks that do not exist."""
    alone = _new_manager()
    alone.register(plugin, name=name)
    implemented = {caller.name for caller in alone.get_hookcallers(plugin) or ()}
    unmarked = {
        key
        for key, value in vars(plugin).items()
        if key.startswith("bdes_") and isinstance(value, FunctionType) and key not in implemented
    }
    for wrong in sorted((implemented | unmarked) - set(HOOK_NAMES)):
        raise PluginError(
            f"{wrong!r} is not a hook.{did_you_mean(wrong, HOOK_NAMES)} Hooks: {listed(HOOK_NAMES)}"
        )
    for forgotten in sorted(unmarked):
        raise PluginError(f"{forgotten!r} is not marked with @hookimpl, so it is never called")
    if not implemented:
        raise PluginError(f"implements no hook. Hooks: {listed(HOOK_NAMES)}")
    return alone


def _reason(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException as another:
        text = f"(its message cannot be read: {type(another).__name__})"
    if isinstance(error, PluginError):
        return one_line(text)
    where = traceback.extract_tb(error.__traceback__)
    file = one_line(Path(where[-1].filename).name) if where else ""
    place = f" ({file}, line {where[-1].lineno})" if where else ""
    return one_line(f"{type(error).__name__}: {text}") + place


def _details(error: BaseException) -> str:
    """Return the traceback, without the message if the message cannot be read."""
    try:
        return "".join(traceback.format_exception(error))
    except BaseException:
        return "".join(traceback.format_tb(error.__traceback__))
