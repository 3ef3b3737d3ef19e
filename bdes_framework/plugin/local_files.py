"""Import of other people's plugins: installed ones, modules by name, files and folders by path.

They are compiled from source, never from bytecode: that of a file of the same size and time may
be another file's. What is imported is what was hashed, however late it is imported.
"""

import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
)
from importlib.metadata import EntryPoint
from pathlib import Path
from types import CodeType, ModuleType

from bdes_framework._internal.text import quoted
from bdes_framework.errors import PluginError
from bdes_framework.plugin.fingerprint import (
    ChangedCodeError,
    combined_hash,
    file_hashes,
    folder_beside,
    installed_folders,
    own_files,
    source_files,
)

_helper_folders: set[Path] = set()
"""The folders put on the path because a local plugin stands in them."""

_helper_versions: dict[str, str] = {}
"""The hash of each helper module's files, as of when a plugin that imports it was loaded."""

_source_folders: set[Path] = set()
"""The folders whose modules are compiled from source."""

_source_names: set[str] = set()
"""The outermost modules of installed plugins, which are compiled from source."""

_source_hashes: dict[Path, str] = {}
"""The hash of each file of a plugin, as of when the plugin was loaded."""


def source_version(path: Path) -> str:
    """Return a hash of a local plugin's files, helpers included."""
    return "sha256:" + combined_hash(file_hashes(source_files(path), folder_beside(path)))


def import_entry_point(point: EntryPoint) -> object:
    """Import what an installed plugin announces, its distribution's modules from source."""
    outermost = point.module.partition(".")[0]
    if outermost not in sys.modules:
        files = (point.dist.files if point.dist else None) or ()
        recorded = {file.parts[0].removesuffix(".py") for file in files if file.suffix == ".py"}
        for name in {outermost, *recorded} - set(sys.modules):
            _source_names.add(name)
            found = importlib.util.find_spec(name) if name.isidentifier() else None
            if found is not None and found.origin is not None and found.has_location:
                path = Path(found.origin).resolve()
                beside = (file.relative_to(folder_beside(path)) for file in _note_hashes(path))
                _source_names.update(file.parts[0].partition(".")[0] for file in beside)
        if _from_source not in sys.meta_path:
            sys.meta_path.insert(0, _from_source)
    return point.load()


def import_module(name: str) -> ModuleType:
    """Import a module by its name; if there is none, raise with how to name a file."""
    outermost = name.partition(".")[0]
    if outermost not in sys.modules:
        found = PathFinder.find_spec(outermost)
        if found is not None and found.origin is not None and found.has_location:
            _compile_from_source(Path(found.origin).resolve())
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
        module_name,
        path,
        loader=_SourceLoader(module_name, str(path)) if path.suffix == ".py" else None,
        submodule_search_locations=[str(path.parent)] if is_package else None,
    )
    if spec is None or spec.loader is None:
        raise PluginError(f"{quoted(path.name)} is not a Python file")
    _make_helpers_importable(path)
    _compile_from_source(path)
    if source_version(path) != version:
        raise ChangedCodeError(f"{quoted(path.name)} changed while it was loaded; try again")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    return module


class _SourceLoader(SourceFileLoader):
    """Compiles a module from its source; raises if that is not what was hashed."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        source = self.get_data(path)
        hashed = _source_hashes.get(Path(path).resolve())
        if hashed is not None and hashlib.sha256(source).hexdigest() != hashed:
            name = quoted(Path(path).name)
            raise ChangedCodeError(f"{name} changed after its plugin was loaded; run again")
        code: CodeType = self.source_to_code(source, path)
        return code


class _FromSource(MetaPathFinder):
    """Finds modules of installed plugins where others find them, and has them compiled."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in _source_names:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _SourceLoader(fullname, spec.loader.path)
        return spec


_from_source = _FromSource()


def _compile_from_source(path: Path) -> None:
    """Compile a local module or package, and what it imports from beside it, from source."""
    folder = folder_beside(path)
    if folder in installed_folders():
        return
    files = _note_hashes(path)
    _add_source_folders({folder, *(file.parent for file in files)})


def _note_hashes(path: Path) -> list[Path]:
    """Note what the files of a module or package are now, helpers included; return them."""
    folder, files = folder_beside(path), source_files(path)
    hashes = file_hashes(files, folder)
    _source_hashes.update({folder / name: hashed for name, hashed in hashes.items()})
    return files


def _add_source_folders(folders: Iterable[Path]) -> None:
    new = set(folders) - _source_folders
    _source_folders.update(new)
    if _source_finder not in sys.path_hooks:
        sys.path_hooks.insert(0, _source_finder)
    for known in list(sys.path_importer_cache) if new else ():
        if Path(known).resolve() in new:
            del sys.path_importer_cache[known]


def _source_finder(folder: str) -> FileFinder:
    """Find modules in a folder of local plugins: an entry of ``sys.path_hooks``."""
    if Path(folder).resolve() not in _source_folders:
        raise ImportError("not a folder of local plugins", path=folder)
    extensions = (ExtensionFileLoader, EXTENSION_SUFFIXES)
    return FileFinder(folder, extensions, (_SourceLoader, SOURCE_SUFFIXES))


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
        helpers.setdefault(file.relative_to(folder).parts[0].partition(".")[0], []).append(file)
    for name, files in helpers.items():
        found = sys.modules[name].__spec__ if name in sys.modules else PathFinder.find_spec(name)
        origin = Path(found.origin).resolve() if found and found.origin else path
        if origin not in files and _helper_folders.intersection(origin.parents) - {folder}:
            raise PluginError(
                f"imports {name!r} from beside it, but another plugin's helper has that name:"
                f" {quoted(str(origin), 200)}; rename one"
            )
        version = combined_hash(file_hashes(files, folder))
        if name in sys.modules and _helper_versions.get(name, version) != version:
            raise PluginError(
                f"imports {name!r} from beside it, which changed after this process had imported"
                " it; start a new process"
            )
        _helper_versions[name] = version
