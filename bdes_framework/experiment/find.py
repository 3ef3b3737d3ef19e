"""Runs by name: a path, the name of a folder or of an experiment, or ``latest``."""

import os
import re
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from bdes_framework._internal.text import did_you_mean, listed, quoted
from bdes_framework.errors import StoreError, UnknownNameError
from bdes_framework.experiment.reuse import RUNS, list_runs
from bdes_framework.experiment.store import DATABASE, open_store

LATEST = "latest"
"""The name of the run whose last cell finished last."""


def slug(name: str) -> str:
    """Return an experiment's name as the folders of its runs begin.

    >>> slug("Two ads, 1/T")
    'two-ads-1-t'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "run"


def find_run(name: str, folder: str = RUNS) -> Path:
    """Return the folder of a run, given its path or its name below ``folder``.

    The name is that of its folder, that of its experiment (then the newest run of it is meant),
    or ``latest``. Raises UnknownNameError, with the names there are.
    """
    path = Path(name)
    if _is_run(path):
        return path
    runs = list(list_runs(folder))
    if name == LATEST:
        found = runs
    else:
        found = [run for run in runs if run.name == name]
        found = found or [run for run in runs if slug(_experiment(run)) == slug(name)]
    if found:
        return max(found, key=_age)
    if os.path.lexists(path):
        return path  # whoever opens it says why it is no run
    if not runs:
        raise UnknownNameError(
            f"no run is called {quoted(name)}: there is none below {quoted(folder)} yet"
        )
    names = _names(runs)
    # A path that is nearly right is answered with a path.
    near = did_you_mean(name, [*names, *map(str, runs)])
    raise UnknownNameError(
        f"no run is called {quoted(name)}.{near} Runs below {quoted(folder)}: {listed(names)};"
        f" {LATEST!r} is the newest"
    )


def run_name(path: Path, folder: str = RUNS) -> str:
    """Return a short name by which :func:`find_run` finds the run at ``path``."""
    place = path.resolve()
    for name in (LATEST, path.name):
        try:
            if find_run(name, folder).resolve() == place:
                return name
        except (UnknownNameError, StoreError):
            continue
    return str(path)


def run_names(folder: str = RUNS) -> list[str]:
    """Return the names of the folders of runs below ``folder``, with ``latest`` if there is one."""
    names = _names(list_runs(folder))
    return [LATEST, *names] if names else []


def _names(runs: Iterable[Path]) -> list[str]:
    return [run.name for run in runs]


def _is_run(path: Path) -> bool:
    return os.path.isfile(path / DATABASE)  # noqa: PTH113 (False, too, for what is no path)


def _experiment(run: Path) -> str:
    """Return the name of a run's experiment; empty if it cannot be read."""
    try:
        with closing(open_store(run, create=False, check=False)) as store:
            return store.meta("name") or ""
    except StoreError:
        return ""


def _age(run: Path) -> tuple[str, int]:
    """Return when a run's last cell finished, and when it was written, for those of one second."""
    try:
        with closing(open_store(run, create=False, check=False)) as store:
            return store.last_finished(), (run / DATABASE).stat().st_mtime_ns
    except (StoreError, OSError):
        return "", 0
