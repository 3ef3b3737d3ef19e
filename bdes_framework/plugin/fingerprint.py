"""Versions of the code that decides a run's numbers: of distributions, or hashes of source.

An installed version says what code it is. A local file or an editable install does not: there
the source is hashed. A file's source is itself and what it imports from beside it, directly or
through another such file; a package's is all its modules, and what they import from beside it.
"""

import ast
import hashlib
import json
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from bdes_framework._version import __version__
from bdes_framework.plugin.registry import FIRST_PARTY, PluginStatus


def source_versions(plugins: Iterable[PluginStatus]) -> dict[str, str]:
    """Return the version of every loaded plugin's distribution, and of the core itself."""
    packages: dict[str, set[str]] = {FIRST_PARTY: {"bdes_framework"}}
    versions = {FIRST_PARTY: __version__}
    for plugin in plugins:
        if plugin.state == "loaded":
            is_local = plugin.distribution.startswith("local ")
            name = f"{plugin.distribution} {plugin.name}" if is_local else plugin.distribution
            versions.setdefault(name, plugin.version)
            modules = {entry.build.__module__.split(".")[0] for entry in plugin.entries}
            packages.setdefault(name, set()).update(modules)
    for name, version in versions.items():
        if _is_editable(name):
            versions[name] = f"{version}+{hash_files(_package_files(name, packages[name]))}"
    return dict(sorted(versions.items()))


def _is_editable(distribution: str) -> bool:
    if distribution.startswith("local module"):
        return True
    try:
        text = metadata.distribution(distribution).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return False
    return text is not None and bool(json.loads(text).get("dir_info", {}).get("editable"))


def _package_files(distribution: str, packages: set[str]) -> Iterator[Path]:
    for package in sorted(packages):
        file = getattr(sys.modules.get(package), "__file__", None)
        if file is not None:
            # Ours import nothing from beside them; looking would cost every run a while.
            find = own_files if distribution == FIRST_PARTY else source_files
            yield from find(Path(file).resolve())


def hash_files(files: Iterable[Path]) -> str:
    """Return a hash of the names and contents of files."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


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
        if beside not in _installed_folders():
            for name in _imported_names(file):
                module = beside / f"{name}.py"
                left += [module] if module.is_file() else (beside / name).rglob("*.py")
    return sorted(found)


def own_files(path: Path) -> list[Path]:
    """Return a module's file, or all files of a package given by its ``__init__.py``, sorted."""
    return sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]


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


def _installed_folders() -> set[Path]:
    return {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib", "stdlib")}
