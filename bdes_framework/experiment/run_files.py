"""What a run's folder holds beside its cells: the resolved config, checksums, an overview."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from attrs import frozen

from bdes_framework._internal.files import check_no_link, read_json
from bdes_framework._internal.text import one_line, quoted
from bdes_framework.errors import ConfigError, StoreError
from bdes_framework.experiment.database import checksum
from bdes_framework.experiment.store import Store, open_store

MAX_RESOLVED_BYTES = 128 * 1024 * 1024
"""The largest resolved config that is read; 100,000 arms take 6 MB."""

_FILES = ("experiment.toml", "resolved.json")
_INTEGERS = ("seed", "replications", "reveal_lam", "reveal_replenishing_arm")


def read_resolved(folder: Path) -> dict[str, Any]:
    """Return what a run's ``resolved.json`` holds; raise StoreError if it cannot be used."""
    path = folder / "resolved.json"
    check_no_link(path)
    try:
        found: dict[str, Any] = read_json(path, limit=MAX_RESOLVED_BYTES)
        reason = "" if _is_resolved(found) else "it is damaged"
    except ConfigError as error:
        reason = error.mistakes[0].message
    if reason:
        raise StoreError(
            f"cannot read {quoted(str(path), 200)}: {one_line(reason)}; without that file, running"
            " the experiment again writes it anew"
        )
    return found


def _is_resolved(found: dict[str, Any]) -> bool:
    """Return whether a resolved config has what is read of it."""
    config, versions = found.get("config"), found.get("versions")
    if not (isinstance(config, dict) and isinstance(versions, dict)):
        return False
    parts = [config.get("environments"), config.get("policies"), config.get("horizons")]
    if not all(isinstance(part, list) for part in parts):
        return False
    return (
        all(map(_is_part, [*config["environments"], *config["policies"]]))
        and all(isinstance(number, int) for number in config["horizons"])
        and all(isinstance(config.get(key), int) for key in _INTEGERS)
        and isinstance(config.get("benchmark"), str | dict | bool)
        and all(isinstance(version, str) for version in versions.values())
    )


def _is_part(part: object) -> bool:
    """Return whether this is an environment or a policy as ``resolved.json`` has them."""
    if not (isinstance(part, dict) and isinstance(part.get("table"), dict)):
        return False
    named = isinstance(part.get("label"), str) and isinstance(part["table"].get("use"), str)
    places = [part.get("source", ""), part.get("instance", "")]
    varies, uses = part.get("varies", {}), part.get("uses", [])
    return (
        named
        and isinstance(part.get("horizon"), int)
        and all(isinstance(text, str) for text in places)
        and isinstance(varies, dict)
        and all(isinstance(value, str | int | float) for value in varies.values())
        and isinstance(uses, list)
        and all(isinstance(name, str) for name in uses)
    )


@frozen
class RunOverview:
    """What is told of a run without reading its results.

    Parameters
    ----------
    name : str
        The experiment's name.
    n_cells, n_finished, n_failed : int
        Numbers of all cells, of finished ones, and of those among them that failed.
    finished : str
        When the last cell finished (ISO 8601); empty if none has.
    has_checksums : bool
        Whether damage to its rows can be noticed: not in runs of the first format.
    version : str
        The version of the framework; empty if it is not known.
    """

    name: str
    n_cells: int
    n_finished: int
    n_failed: int
    finished: str
    has_checksums: bool
    version: str


def run_overview(folder: Path) -> RunOverview:
    """Return the overview of a run; raise StoreError if it is none or cannot be read."""
    with closing(open_store(folder, create=False, check=False)) as store:
        name = store.meta("name") or folder.name
        counts = (*store.counts(), store.has_checksums)
    try:
        version = read_resolved(folder)["versions"].get("bdes-framework", "")
    except StoreError:
        version = ""
    return RunOverview(name, *counts, version)


def note_files(store: Store, folder: Path) -> None:
    """Save checksums of a run's files in its database, where :func:`find_damage` finds them."""
    for name in _FILES:
        store.set_meta(f"checksum of {name}", _file_checksum(folder / name))


def changed_files(store: Store, folder: Path) -> Iterator[str]:
    """Yield the names of a run's files that are not as they were written."""
    for name in _FILES:
        known = store.meta(f"checksum of {name}")
        if known is not None and known != _file_checksum(folder / name):
            yield name


def _file_checksum(path: Path) -> str:
    check_no_link(path)
    try:
        with path.open("rb") as file:  # a larger one differs by its length
            return checksum(path.name, [file.read(MAX_RESOLVED_BYTES + 1)]).hex()
    except OSError:
        return ""
