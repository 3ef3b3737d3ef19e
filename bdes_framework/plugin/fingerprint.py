"""Which code decides a run's numbers: distributions with versions, or hashes of their source.

An installed version says what code it is. A local file or an editable install does not: there
the source itself is hashed.
"""

import json
import sys
from importlib import metadata
from pathlib import Path

from bdes_framework._version import __version__
from bdes_framework.plugin.discovery import FIRST_PARTY, PluginStatus
from bdes_framework.plugin.local_files import own_files, source_files, source_hash
from bdes_framework.plugin.plugins import Plugins


def source_versions(plugins: Plugins) -> dict[str, str]:
    """Return the version of every loaded plugin's distribution, and of the core itself."""
    packages: dict[str, set[str]] = {FIRST_PARTY: {"bdes_framework"}}
    versions = {FIRST_PARTY: __version__}
    for record in plugins.records:
        if record.state == "loaded":
            name = _name(record)
            versions.setdefault(name, record.version)
            packages.setdefault(name, set()).update(_packages(record))
    for name, version in versions.items():
        if _is_editable(name):
            versions[name] = f"{version}+{_source_hash(name, packages[name])}"
    return dict(sorted(versions.items()))


def _name(record: PluginStatus) -> str:
    is_local = record.distribution.startswith("local ")
    return f"{record.distribution} {record.name}" if is_local else record.distribution


def _packages(record: PluginStatus) -> set[str]:
    return {entry.build.__module__.split(".")[0] for entry in record.entries}


def _is_editable(distribution: str) -> bool:
    if distribution.startswith("local module"):
        return True
    try:
        text = metadata.distribution(distribution).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return False
    return text is not None and bool(json.loads(text).get("dir_info", {}).get("editable"))


def _source_hash(distribution: str, packages: set[str]) -> str:
    files: list[Path] = []
    for package in sorted(packages):
        file = getattr(sys.modules.get(package), "__file__", None)
        if file is not None:
            # Ours import nothing from beside them; looking would cost every run a while.
            find = own_files if distribution == FIRST_PARTY else source_files
            files += find(Path(file).resolve())
    return source_hash(files)
