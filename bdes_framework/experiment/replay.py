"""Replaying cells: play a stored cell again with every round kept, and verify the result.

Runs store curves, not rounds. A cell is a function of its spec, so it can be played anew; a
replay counts only if it earns exactly what the run has stored.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bdes_framework._internal.arrays import IntArray
from bdes_framework._internal.files import parse_toml
from bdes_framework._internal.interrupts import is_interrupt
from bdes_framework._internal.text import quoted
from bdes_framework.errors import BdesError, InvalidValueError
from bdes_framework.experiment.cell import Cell, build_environment, guarded, play
from bdes_framework.experiment.failures import explained
from bdes_framework.experiment.file import Experiment, build_experiment, load_experiment
from bdes_framework.experiment.pooling import check_names
from bdes_framework.experiment.results import Run
from bdes_framework.experiment.summary import CellSummary
from bdes_framework.interfaces import Kind
from bdes_framework.plugin.registry import COUNTERPARTS
from bdes_framework.simulation.crowd import CrowdTrace
from bdes_framework.simulation.loop import Trace, log_checkpoints

MAX_ROUNDS = 5_000_000
"""Rounds or visits above which a cell is not replayed: every one is kept in memory."""

_TOO_LONG = f"more than {MAX_ROUNDS:,} rounds or visits are not played again"


class ReplayError(BdesError):
    """A cell cannot be replayed, or earned something else than what is stored."""


def experiment_of(run: Run, given: Experiment | Path | None = None) -> Experiment:
    """Return the experiment a run was made from: ``given``, or the copy in the run's folder.

    Raises
    ------
    BdesError
        If the file is wrong, or if it is the copy and loads local modules or reads arms from a
        file: a folder from elsewhere must neither bring its own code nor choose what is read.
    """
    if given is not None:
        return given if isinstance(given, Experiment) else load_experiment(given)
    copy, text = run.folder / "experiment.toml", run.experiment_text
    tables = parse_toml(text, copy)
    plugins = tables.get("plugins")
    if isinstance(plugins, dict) and plugins.get("modules"):
        raise ReplayError(
            "the run loads local modules, which are not run unasked: name its experiment file"
            " with --experiment"
        )
    if _names_arms_file(tables.get("environments")):
        raise ReplayError(
            "the run reads arms from a file, which is not read unasked: name its experiment file"
            " with --experiment"
        )
    return build_experiment(copy, text, tables, reads_files=False)


def _names_arms_file(environments: object) -> bool:
    tables = environments if isinstance(environments, list) else []
    given = [table.get("arms") for table in tables if isinstance(table, dict)]
    arms = [each for one in given for each in (one if isinstance(one, list) else [one])]
    return any("file" in each for each in arms if isinstance(each, dict))


def replay_cell(
    experiment: Experiment, cell: Cell, stored: CellSummary, checkpoints: IntArray
) -> Trace | CrowdTrace:
    """Play one cell again, all rounds kept and totals noted at ``checkpoints``.

    Raises
    ------
    ReplayError
        If it is too long or fails, or unless it earns exactly what is stored.
    """
    if _length(cell, stored) > MAX_ROUNDS:
        raise ReplayError(_TOO_LONG)
    try:
        trace = _kept_trace(experiment, cell, checkpoints)
    except ReplayError as error:
        raise ReplayError(f"playing it again failed: {error}") from error
    if (trace.total_reward, trace.total_mean) != (stored.total_reward, stored.total_mean):
        raise ReplayError("playing it again earned something else; not shown")
    return trace


def chosen_cell(
    run: Run,
    experiment: Experiment,
    *,
    environment: str | None = None,
    policy: str | None = None,
    horizon: int | None = None,
    replication: int = 0,
) -> tuple[Cell, CellSummary]:
    """Return the one finished cell that is meant, and what is stored of it.

    What is left out must not be in doubt; of several horizons it is the longest.

    Raises
    ------
    InvalidValueError
        If the run has no such label or horizon, or several and none is named.
    ReplayError
        If the cell has not finished well, or code or the file has changed since.
    """
    cells = list(experiment.cells)
    for name, wanted in (("environment", environment), ("policy", policy)):
        labels = dict.fromkeys(getattr(cell, name).label for cell in cells)
        check_names(name, [] if wanted is None else [wanted], labels)
        if wanted is None and len(labels) > 1:
            several = ", ".join(quoted(label, 60) for label in list(labels)[:10])
            raise InvalidValueError(f"name one {name}, the run has several: {several}")
        cells = [cell for cell in cells if wanted in (None, getattr(cell, name).label)]
    horizons = sorted({cell.horizon for cell in cells})
    check_names("horizon", [] if horizon is None else [horizon], horizons)
    at = horizons[-1] if horizon is None else horizon
    check_names("replication", [replication], {cell.replication for cell in cells})
    cell = next(c for c in cells if (c.horizon, c.replication) == (at, replication))
    known = run.keys()
    if cell.key not in known:
        raise ReplayError("code or the experiment file has changed since this run was made")
    place = cell.environment.label, cell.policy.label, cell.horizon, cell.replication
    for stored in run.cells():
        found = stored.environment, stored.policy, stored.horizon, stored.replication
        if found == place and stored.error is None:
            return cell, stored
    raise ReplayError("this cell has not finished well")


def spread_cells(cells: Sequence[Cell], n: int) -> list[Cell]:
    """Return up to ``n`` cells, of every policy in turn, always the same ones."""
    by_policy: dict[str, list[Cell]] = {}
    for cell in cells:
        by_policy.setdefault(cell.policy.label, []).append(cell)
    turns = itertools.zip_longest(*by_policy.values())
    return [cell for turn in turns for cell in turn if cell is not None][:n]


def why_not_verified(cell: Cell, stored: CellSummary | None) -> str:
    """Return why a cell is not played again; empty if it can be."""
    if stored is not None and stored.error is not None:
        return "failed in the run"
    return _TOO_LONG if _length(cell, stored) > MAX_ROUNDS else ""


def _length(cell: Cell, stored: CellSummary | None) -> int:
    """Return how many rounds or visits a cell has: at most its horizon."""
    known = None if stored is None else stored.visits
    return cell.horizon if known is None else known


def verify_cell(experiment: Experiment, cell: Cell, stored: CellSummary | None = None) -> str:
    """Play a cell twice in this process; return who is not deterministic, and where it shows.

    Empty if both games are the same, round by round, and earn what is stored.

    Raises
    ------
    ReplayError
        If a game fails.
    """
    where = f"on {cell.environment.label}, T = {cell.horizon}, replication {cell.replication}"
    checkpoints = log_checkpoints(cell.horizon, cell.checkpoints)
    try:
        first, second = (_kept_trace(experiment, cell, checkpoints) for _ in range(2))
    except ReplayError as error:
        raise ReplayError(f"{cell.policy.label} {where}: {error}") from error
    found = _first_difference(first, second)
    if found is not None:
        at, name = found
        kind = Kind.POLICY if name == "arms" else Kind.ENVIRONMENT
        step = "round"
        if cell.feedback is not None:
            kind, step = COUNTERPARTS[kind], "visit"
        use = cell.policy.use if name == "arms" else cell.environment.use
        who = f"{kind} {use!r} of {experiment.plugins.origin(experiment.plugins.entry(kind, use))}"
        values = [getattr(trace, name)[at : at + 1] for trace in (first, second)]
        said = (str(value[0]) if value.size else "nobody" for value in values)
        return f"{who} {where}: {name} of {step} {at} are " + " and then ".join(said)
    if stored is not None and stored.error is None:
        earned = first.total_reward, first.total_mean
        if earned != (stored.total_reward, stored.total_mean):
            return (
                f"{cell.policy.label} {where}: earns {earned[0]} here and"
                f" {stored.total_reward} in the run: it depends on the process or on the time"
            )
    return ""


def _kept_trace(experiment: Experiment, cell: Cell, checkpoints: IntArray) -> Trace | CrowdTrace:
    """Play a cell with all rounds kept; raise ReplayError that says why if it fails."""
    plugins = experiment.plugins
    try:
        with guarded(plugins):
            environment = build_environment(plugins, cell)
            return play(plugins, cell, environment, checkpoints, keep=True)
    except BaseException as error:  # other people's code
        if is_interrupt(error):
            raise
        raise ReplayError(explained(error, plugins)[0]) from error


def _first_difference(one: Trace | CrowdTrace, other: Trace | CrowdTrace) -> tuple[int, str] | None:
    """Return the first round or visit that differs, and in what: what comes first of it."""
    found = []
    names = ("users", "arms", "rewards", "means")
    for order, name in enumerate(names if isinstance(one, CrowdTrace) else names[1:]):
        first, second = getattr(one, name), getattr(other, name)
        n = min(first.size, second.size)
        different = np.flatnonzero(first[:n] != second[:n])
        found += [(int(at), order, name) for at in different[:1]]
        if not different.size and first.size != second.size:  # one had more visits
            return n, "users"
    if not found:
        return None
    at, _, name = min(found)
    return at, name
