"""Which source files a plugin that is not installed consists of, and one hash of them all.

A file consists of itself and of what it imports from beside it, directly or through another
such file; a package folder of all its modules, and of what they import from beside it.
"""

import ast
import hashlib
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path


def source_hash(files: Iterable[Path]) -> str:
    """Return a hash of files, of their names and contents."""
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
            for name in _imported(file):
                left += _module_files(beside, name)
    return sorted(found)


def folder_beside(path: Path) -> Path:
    """Return the folder in which a module or package stands."""
    return path.parent.parent if path.name == "__init__.py" else path.parent


def own_files(path: Path) -> list[Path]:
    """Return a module's file, or all files of a package given by its ``__init__.py``, sorted."""
    return sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]


def _module_files(folder: Path, name: str) -> list[Path]:
    if (folder / f"{name}.py").is_file():
        return [folder / f"{name}.py"]
    package = folder / name
    return list(package.rglob("*.py")) if package.is_dir() else []


def _imported(file: Path) -> Iterator[str]:
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
