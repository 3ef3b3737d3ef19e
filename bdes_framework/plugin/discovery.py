"""Finding plugins and loading each on its own; a failure is reported and stops no other.

Metadata is read and sorted before anything is imported. What goes wrong when a plugin is
imported, checked or registers becomes a :class:`PluginStatus` that ``bdes plugins`` shows.
"""

import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from uuid import uuid4

import pluggy
from attrs import field, frozen
from packaging.utils import canonicalize_name

from bdes_framework._internal.files import working_folder_restored
from bdes_framework._internal.text import (
    did_you_mean,
    error_message,
    error_text,
    listed,
    one_line,
    quoted,
)
from bdes_framework.errors import PluginError
from bdes_framework.plugin.fingerprint import UNHASHED
from bdes_framework.plugin.hookspecs import API_VERSION, PROJECT, HookSpecs
from bdes_framework.plugin.local_files import (
    import_entry_point,
    import_file,
    import_module,
    source_version,
)
from bdes_framework.plugin.registry import (
    FIRST_PARTY,
    LOCAL_OBJECT,
    PluginStatus,
    Registrar,
    Registry,
)
from bdes_framework.plugin.shared_functions import shared_functions_kept

HOOK_NAMES = tuple(name for name in vars(HookSpecs) if name.startswith("bdes_"))


@frozen
class Candidate:
    """A plugin that has been found but not imported: ``load`` returns the object with its hooks.

    Local files have a hash of their source for a version.
    """

    name: str
    distribution: str
    version: str
    load: Callable[[], object] = field(repr=False)


def installed() -> list[Candidate]:
    """Return the plugins that installed distributions announce, ours first, then by name."""
    return list(_installed_in(tuple((place, _modified(place)) for place in sys.path)))


@lru_cache(maxsize=1)
def _installed_in(places: tuple[tuple[str, int], ...]) -> tuple[Candidate, ...]:
    """Return the plugins found in folders that were last changed then: all metadata is read."""
    found = [_installed_candidate(point) for point in entry_points(group=PROJECT)]
    return tuple(
        sorted(found, key=lambda c: (c.distribution != FIRST_PARTY, c.distribution, c.name))
    )


def _modified(place: str) -> int:
    """Return when a folder of the search path, "" for the current one, was last changed."""
    try:
        return Path(place).stat().st_mtime_ns
    except (OSError, ValueError):
        return 0


def _installed_candidate(point: EntryPoint) -> Candidate:
    name, version = (point.dist.name, point.dist.version) if point.dist else (None, None)
    distribution = canonicalize_name(name or "unknown")
    # Ours keep their bytecode: their hash is of files that only an installer changes.
    load = point.load if distribution == FIRST_PARTY else partial(import_entry_point, point)
    return Candidate(point.name, distribution, version or "", load)


def local(reference: str, base: Path) -> Candidate:
    """Return a plugin that is not installed: a module's name, or a file below ``base``."""
    if not (reference.endswith(".py") or "/" in reference or "\\" in reference):
        return Candidate(reference, "local module", "", lambda: import_module(reference))
    name = Path(reference).stem
    try:
        path = (base / reference).resolve()
        if path.is_dir():
            path = path / "__init__.py"
        name = path.parent.name if path.name == "__init__.py" else path.stem
        path.stat()
        version = source_version(path)
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a NUL character
        reason = getattr(error, "strerror", None) or str(error)
        return Candidate(name, "local file", "", lambda: _raise_unreadable(reference, reason))
    return Candidate(name, "local file", version, lambda: import_file(path, name, version))


def in_memory(plugin: object) -> Candidate:
    """Return a plugin that is an object of this process: a module, a class or an instance.

    Nothing tells what its code was before, or is in another process. So every loading is a
    version of its own, and no cell of another one is taken for one of this.
    """
    named = plugin if isinstance(plugin, type | ModuleType) else type(plugin)

    def load() -> object:
        if isinstance(plugin, type) and _takes_self(plugin):
            raise PluginError("is a class whose hooks take 'self': give an instance of it")
        return plugin

    return Candidate(one_line(named.__name__), LOCAL_OBJECT, f"{UNHASHED}{uuid4().hex}", load)


def _takes_self(plugin: type) -> bool:
    hooks = [getattr(plugin, name, None) for name in HOOK_NAMES]
    return any(isinstance(h, FunctionType) and "self" in h.__code__.co_varnames[:1] for h in hooks)


def _raise_unreadable(reference: str, reason: str) -> object:
    raise PluginError(f"cannot read {quoted(reference)}: {reason}")


def load(
    candidates: Iterable[Candidate], disabled: Sequence[str], registry: Registry
) -> tuple[list[PluginStatus], pluggy.PluginManager]:
    """Load candidates in order into ``registry``; return their statuses and their hooks.

    ``disabled`` names plugins or whole distributions; those are not even imported.
    """
    manager = _new_manager()
    statuses: list[PluginStatus] = []
    off = {canonicalize_name(name) for name in disabled}
    for candidate in candidates:
        name, distribution = candidate.name, candidate.distribution
        status = partial(PluginStatus, name, distribution, candidate.version)
        if {canonicalize_name(name), distribution} & off:
            statuses.append(status("disabled"))
            continue
        registrar = Registrar(name, distribution)
        try:
            for other in statuses:
                if other.name == name and other.state == "loaded":
                    raise PluginError(
                        f"a plugin named {name!r} is already loaded from {other.distribution}"
                    )
            with working_folder_restored():
                _load_one(candidate, registrar, registry, manager)
        except KeyboardInterrupt:
            raise
        # Whatever else a plugin raises, SystemExit and exceptions of its own kind included.
        except BaseException as error:
            failure = status("failed", _reason(error), _details(error), registrar.entries)
            statuses.append(failure)
        else:
            statuses.append(status("loaded", entries=registrar.entries))
    return statuses, manager


def _load_one(
    candidate: Candidate, registrar: Registrar, registry: Registry, manager: pluggy.PluginManager
) -> None:
    with shared_functions_kept():
        plugin = candidate.load()
    for name, known in manager.list_name_plugin():
        if known is plugin:
            raise PluginError(f"is the same object as plugin {name!r}, which is loaded already")
    _check_api_version(plugin)
    with shared_functions_kept():
        _check_hooks(plugin, candidate.name).hook.bdes_register(registrar=registrar)
    manager.register(plugin, name=candidate.name)
    try:
        registry.add(registrar.entries)
    except PluginError:
        manager.unregister(name=candidate.name)
        raise


def _new_manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(HookSpecs)
    return manager


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
    """Register the plugin with a manager of its own; raise if it has hooks that do not exist."""
    alone = _new_manager()
    alone.register(plugin, name=name)
    implemented = {caller.name for caller in alone.get_hookcallers(plugin) or ()}
    named = [name for name in dir(plugin) if name.startswith("bdes_") and name not in implemented]
    unmarked = {
        name for name in named if isinstance(getattr(plugin, name, None), FunctionType | MethodType)
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
    if isinstance(error, PluginError):
        return one_line(error_message(error))
    where = traceback.extract_tb(error.__traceback__)
    file = one_line(Path(where[-1].filename).name) if where else ""
    place = f" ({file}, line {where[-1].lineno})" if where else ""
    return error_text(error) + place


def _details(error: BaseException) -> str:
    """Return the traceback, without the message if the message cannot be read."""
    try:
        return "".join(traceback.format_exception(error))
    except BaseException:
        return "".join(traceback.format_tb(error.__traceback__))
