"""Names and hashes of the code that decides numbers: what a cell's key contains of it.

Code has a name, such as that of a distribution, and a version with a hash of its files: what is
installed may change under the same version. A local file's source is itself and what it imports
from beside it, directly or through another such file; a package's is all its modules, and what
they import from beside it. Of the framework itself, the files that can change a number count,
and each of its plugin packages on its own.
"""

import ast
import hashlib
import platform
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

from bdes_framework._version import __version__
from bdes_framework.errors import PluginError
from bdes_framework.plugin.registry import FIRST_PARTY, LOCAL_OBJECT, PluginStatus

NUMERIC_CODE = (
    "_internal/arrays.py",
    "_internal/distributions.py",
    "_internal/numbers.py",
    "_internal/seeding.py",
    "_internal/threads.py",
    "experiment/cell.py",
    "fitting",
    "interfaces.py",
    "model",
    "plugin/config_types.py",
    "plugin/config_values.py",
    "plugin/plugins.py",
    "plugin/registry.py",
    "simulation",
)
"""Files and folders of the framework that can change a cell's numbers; no others can."""

CODE_SUFFIXES = (".py", *EXTENSION_SUFFIXES)
"""How files end that Python imports: its own and those of compiled extensions."""

UNHASHED = "memory:"
"""What the version of an object in memory begins with: there are no files to hash."""

_NUMERIC_LIBRARIES = ("numpy", "numba")


class ChangedCodeError(PluginError):
    """Code is no longer what the key of a cell says."""


@cache
def framework_code() -> Mapping[str, str]:
    """Return what every cell uses: Python, numpy, numba, the machine and the framework's core."""
    versions = {"Python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    for library in _NUMERIC_LIBRARIES:
        versions[library] = "absent"
        with suppress(metadata.PackageNotFoundError):
            versions[library] = metadata.version(library)
    versions["machine"] = platform.machine()
    root = Path(__file__).resolve().parent.parent
    files = [file for part in NUMERIC_CODE for file in own_files(_module_file(root / part))]
    versions[FIRST_PARTY] = f"{__version__}+{combined_hash(file_hashes(files, root))}"
    return versions


def _module_file(path: Path) -> Path:
    return path / "__init__.py" if path.is_dir() else path


def plugin_code(plugin: PluginStatus, module: str) -> tuple[str, str]:
    """Return the name and the version of a plugin's code; ``module`` has its hooks."""
    if plugin.distribution in ("local file", LOCAL_OBJECT):
        return f"{plugin.distribution} {plugin.name}", plugin.version
    names = {module, *(entry.config.__module__ for entry in plugin.entries)}
    names |= {entry.build.__module__ for entry in plugin.entries}
    modules = {found for name in names if (found := outermost_module(name)) is not None}
    ordered = tuple(sorted(modules, key=lambda found: found.__name__))
    hashed = _code_hash(plugin.distribution, ordered)
    is_ours = plugin.distribution == FIRST_PARTY
    name = f"{FIRST_PARTY}/{plugin.name}" if is_ours else plugin.distribution
    if plugin.distribution == "local module":
        return f"{name} {plugin.name}", f"sha256:{hashed}"
    return name, f"{plugin.version}+{hashed}"


def outermost_module(name: str) -> ModuleType | None:
    """Return the outermost package of a module that has a file: not a namespace package."""
    parts = name.split(".")
    for n in range(1, len(parts) + 1):
        module = sys.modules.get(".".join(parts[:n]))
        if module is not None and getattr(module, "__file__", None):
            return module
    return None


@cache  # per module as it was imported: what changes on disk later is not what runs here
def _code_hash(distribution: str, modules: tuple[ModuleType, ...]) -> str:
    hashes: dict[str, str] = {}
    if distribution != FIRST_PARTY:
        hashes |= _recorded_files(distribution)
    for module in modules:
        path = Path(str(module.__file__)).resolve()
        # Ours import nothing from beside them; looking would cost every run a while.
        files = own_files(path) if distribution == FIRST_PARTY else source_files(path)
        hashes |= file_hashes(files, folder_beside(path))
    return combined_hash(hashes)


def _recorded_files(distribution: str) -> Iterator[tuple[str, str]]:
    """Yield the files that an installer recorded for a distribution, with hashes.

    Code is read, for it may have been edited; of other files the recorded hash counts.
    """
    try:
        files = metadata.distribution(distribution).files or ()
    except metadata.PackageNotFoundError:
        return
    for file in files:
        folder = file.parts[0]
        is_link = file.suffix == ".pth" or file.name.startswith("__editable__")
        if file.hash is None or is_link or folder == ".." or folder.endswith(".dist-info"):
            continue
        path = Path(str(file.locate()))
        content = file.hash.value
        if file.name.endswith(CODE_SUFFIXES):
            with suppress(OSError):
                content = _content_hash(path.read_bytes())
        yield file.as_posix(), content


def decisive_versions(code: Mapping[str, str]) -> dict[str, str]:
    """Return the part of code's names and versions that belongs into a key.

    The framework's own version is left out: its files are all that counts.
    """
    return {
        name: version.rpartition("+")[2] if name.split("/")[0] == FIRST_PARTY else version
        for name, version in code.items()
    }


def has_foreign_code(code: Mapping[str, str]) -> bool:
    """Return whether code of plugins, given by names and versions, is in part third parties'."""
    return any(not name.startswith(f"{FIRST_PARTY}/") for name in code)


def without_hash(version: str) -> str:
    """Return the version itself, such as 0.3 of ``0.3+1f2e...``; empty if it is a hash only."""
    return (
        "" if version.startswith(("sha256:", UNHASHED)) else version.rpartition("+")[0] or version
    )


def describe_change(name: str, before: str | None, after: str | None) -> str:
    """Return how code differs, on one line: ``acme 0.3 -> 0.4``."""
    if before is None or after is None:
        known = without_hash(before or after or "")
        return f"{name} {known}".strip() + (" is new" if before is None else " is no longer used")
    if after.startswith(UNHASHED):
        return f"{name} is in memory, so nothing tells whether it changed"
    old, new = without_hash(before), without_hash(after)
    if old != new:
        return f"{name} {old} -> {new}"
    return f"{name} {new} changed (same version)" if new else f"{name} changed"


def file_hashes(files: Iterable[Path], base: Path) -> dict[str, str]:
    """Return a hash of each file's content, by its path below ``base``."""
    return {f.relative_to(base).as_posix(): _content_hash(f.read_bytes()) for f in files}


def _content_hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def combined_hash(hashes: Mapping[str, str]) -> str:
    """Return one hash of the names and contents of files."""
    text = "".join(f"{name}\0{content}\0" for name, content in sorted(hashes.items()))
    return _content_hash(text.encode("utf-8", "surrogateescape"))[:12]


def source_files(path: Path) -> list[Path]:
    """Return the files a module or package consists of, its helpers included, sorted."""
    beside = folder_beside(path)
    found: set[Path] = set()
    left = own_files(path)
    while left:
        file = left.pop()
        if file in found:
            continue
        found.add(file)
        # Whatever is installed there has a version of its own.
        if file.suffix == ".py" and beside not in installed_folders():
            for name in _imported_names(file):
                single = [beside / f"{name}{suffix}" for suffix in CODE_SUFFIXES]
                left += list(filter(Path.is_file, single)) or _code_below(beside / name)
    return sorted(found)


def own_files(path: Path) -> list[Path]:
    """Return a module's file, or all files of a package given by its ``__init__.py``, sorted."""
    return _code_below(path.parent) if path.name == "__init__.py" else [path]


def _code_below(folder: Path) -> list[Path]:
    """Return the files of Python and of compiled extensions in a folder and those below, sorted."""
    return sorted(file for file in folder.rglob("*.*") if file.name.endswith(CODE_SUFFIXES))


def folder_beside(path: Path) -> Path:
    """Return the folder in which a module or package stands."""
    return path.parent.parent if path.name == "__init__.py" else path.parent


def _imported_names(file: Path) -> Iterator[str]:
    """Yield the top-level names of all modules a file imports by name, wherever in it."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError):  # importing it will tell
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.split(".")[0]


@cache
def installed_folders() -> frozenset[Path]:
    """Return the folders of installed packages and of Python's own modules."""
    names = ("purelib", "platlib", "stdlib")
    return frozenset(Path(sysconfig.get_path(name)).resolve() for name in names)
