"""Import of plugins that are not installed: modules by name, files and folders by path."""

import hashlib
import importlib
import importlib.util
import re
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

from bdes_framework._internal.text import quoted
from bdes_framework.errors import PluginError
from bdes_framework.plugin.fingerprint import folder_beside, hash_files, own_files, source_files

_helper_folders: set[Path] = set()
"""The folders put on the path because a local plugin stands in them."""

_helper_versions: dict[str, str] = {}
"""The hash of each helper module's files, as of when a plugin that imports it was loaded."""


def import_module(name: str) -> ModuleType:
    """Import a module by its name; if there is none, raise with how to name a file."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise PluginError(
                f"no module named {quoted(name)} can be imported; to load a file, write its"
                f" path, such as {quoted('./' + name.replace('.', '/') + '.py')}"
            ) from None
        raise


def import_file(path: Path, name: str, version: str) -> ModuleType:
    """Import a file, once per version, under a module name that is the same in every process."""
    place = hashlib.sha256(f"{path}\0{version}".encode()).hexdigest()[:12]
    module_name = f"bdes_local_{re.sub(r'[^0-9A-Za-z_]', '_', name)}_{place}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    is_package = path.name == "__init__.py"
    spec = importlib.util.spec_from_file_location(
        module_name, path, submodule_search_locations=[str(path.parent)] if is_package else None
    )
    if spec is None or spec.loader is None:
        raise PluginError(f"{quoted(path.name)} is not a Python file")
    _make_helpers_importable(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    return module


def _make_helpers_importable(path: Path) -> None:
    """Let a plugin import the modules beside it, at any time and in every process.

    Their folder comes last on the path, so that nothing of Python's or installed is hidden.
    Raises if a helper has the name of another plugin's, or changed after it was imported.
    """
    folder = folder_beside(path)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    _helper_folders.add(folder)
    importlib.invalidate_caches()
    helpers: dict[str, list[Path]] = {}
    for file in sorted(set(source_files(path)) - set(own_files(path))):
        helpers.setdefault(file.relative_to(folder).parts[0].removesuffix(".py"), []).append(file)
    for name, files in helpers.items():
        found = sys.modules[name].__spec__ if name in sys.modules else PathFinder.find_spec(name)
        origin = Path(found.origin).resolve() if found and found.origin else path
        if origin not in files and _helper_folders.intersection(origin.parents) - {folder}:
            raise PluginError(
                f"imports {name!r} from beside it, but another plugin's helper has that name:"
                f" {quoted(str(origin), 200)}; rename one"
            )
        version = hash_files(files)
        if name in sys.modules and _helper_versions.get(name, version) != version:
            raise PluginError(
                f"imports {name!r} from beside it, which changed after this process had imported"
                " it; start a new process"
            )
        _helper_versions[name] = version
