"""The path of one cell: its state and arms over rounds, by playing the cell again.

Runs keep curves, not rounds. A cell is a function of its spec, so it is played anew, and shown
only if it earns exactly what the run has stored.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from attrs import field, frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.files import read_toml
from bdes_framework._internal.text import one_line
from bdes_framework.errors import BdesError
from bdes_framework.experiment.cell import Cell, build_environment, explained, play
from bdes_framework.experiment.file import Experiment, load_experiment
from bdes_framework.interfaces import Environment, HasInstance
from bdes_framework.plugin.plugins import Plugins
from bdes_framework.report.data import Row, RunData
from bdes_framework.simulation.loop import Trace

BINS = 120
MOST_ARMS = 7
LONGEST = 5_000_000
"""Rounds above which a cell is not played again: every round is kept in memory."""


@frozen
class CellPath:
    """What one cell did, in bins of rounds: rows for the charts of its state and its arms."""

    environment: str
    policy: str
    horizon: int
    replication: int
    states: list[Row]
    arms: list[Row]
    arm_names: list[str]


@frozen
class Paths:
    """The paths that could be had, and why others could not."""

    found: list[CellPath] = field(factory=list)
    reasons: list[str] = field(factory=list)


def replay(
    data: RunData,
    wanted: Callable[[Sequence[Cell]], Sequence[Cell]],
    *,
    experiment: Path | None,
    seconds: float,
    on_cell: Callable[[int, int], None] = lambda done, total: None,
) -> Paths:
    """Play cells of a run again, until they are done or the time is up.

    Parameters
    ----------
    data : RunData
        The run.
    wanted : callable
        Chooses among the run's cells.
    experiment : path, optional
        The file the run was made from; by default the copy in the run's folder, which will
        not do if it loads local files: a folder from elsewhere must not bring its own code.
    seconds : float
        When to stop.
    on_cell : callable
        Called before each cell with how many are done and to do.
    """
    paths = Paths()
    try:
        loaded = _experiment_of(data, experiment)
    except BdesError as error:
        paths.reasons.append(one_line(str(error)))
        return paths
    stored = {
        (r.environment, r.policy, r.horizon, r.replication): (r.total_reward, r.total_mean)
        for r in data.records
        if r.error is None
    }
    known = data.run.keys()
    cells = [cell for cell in loaded.cells if cell.key in known and _place(cell) in stored]
    if not cells:
        paths.reasons.append(
            "the experiment file, or the version of some plugin, is no longer what this run was"
            " made with"
        )
    chosen = wanted(cells)
    end = time.monotonic() + seconds
    for done, cell in enumerate(chosen):
        if time.monotonic() > end:
            paths.reasons.append(
                f"{len(chosen) - done} more cells were not played again: time was up"
            )
            break
        on_cell(done, len(chosen))
        _add(paths, loaded.plugins, cell, stored[_place(cell)])
    return paths


def first_cells(most: int) -> Callable[[Sequence[Cell]], Sequence[Cell]]:
    """Return what chooses the first replications, long horizons first, at most so many cells."""

    def choose(cells: Sequence[Cell]) -> Sequence[Cell]:
        return sorted(cells, key=lambda cell: (cell.replication, -cell.horizon))[:most]

    return choose


def _place(cell: Cell) -> tuple[str, str, int, int]:
    return cell.environment.label, cell.policy.label, cell.horizon, cell.replication


def _experiment_of(data: RunData, file: Path | None) -> Experiment:
    if file is not None:
        return load_experiment(file)
    copy = data.run.folder / "experiment.toml"
    plugins = read_toml(copy).get("plugins")
    if isinstance(plugins, dict) and plugins.get("modules"):
        raise BdesError(
            "the run loads local modules, which are not run unasked: name its experiment file"
            " with --experiment"
        )
    return load_experiment(copy)


def _add(
    paths: Paths, plugins: Plugins, cell: Cell, stored: tuple[float | None, float | None]
) -> None:
    """Add the path of one cell, or why it cannot be shown."""
    name = one_line(
        f"{cell.policy.label[:100]} on {cell.environment.label[:100]}, T = {cell.horizon:,}"
    )
    if cell.horizon > LONGEST:
        paths.reasons.append(f"{name}: more than {LONGEST:,} rounds are not played again")
        return
    edges = _edges(cell.horizon)
    try:
        environment = build_environment(plugins, cell)
        trace = play(plugins, cell, environment, edges[1:], keep=True)
    except (Exception, SystemExit) as error:  # other people's code
        paths.reasons.append(f"{name}: playing it again failed: {explained(error)[0]}")
        return
    if (trace.total_reward, trace.total_mean) != stored:
        paths.reasons.append(f"{name}: playing it again earned something else; not shown")
        return
    arms, names = _arm_rows(trace, edges)
    states = _state_rows(environment, trace, edges)
    paths.found.append(CellPath(*_place(cell), states, arms, names))


def _edges(horizon: int) -> IntArray:
    """Return where bins of rounds begin and end, from 0 to the horizon."""
    return np.unique(np.rint(np.linspace(0, horizon, min(BINS, horizon) + 1)).astype(np.int64))


def _state_rows(environment: Environment, trace: Trace, edges: IntArray) -> list[Row]:
    """Return the mean state of each bin, and its range where the instance tells it."""
    if trace.cumulative_states is None:
        return []
    means = np.diff(trace.cumulative_states, prepend=0.0) / np.diff(edges)
    lowest = highest = means
    if isinstance(environment, HasInstance) and trace.arms is not None:
        states = environment.instance.states(trace.arms)[: trace.horizon]
        lowest = np.minimum.reduceat(states, edges[:-1])
        highest = np.maximum.reduceat(states, edges[:-1])
    rows = [
        {"round": start + 1, "until": end, "state": q, "lowest": low, "highest": high}
        for start, end, q, low, high in zip(
            edges[:-1].tolist(), edges[1:].tolist(), means.tolist(), lowest.tolist(),
            highest.tolist(), strict=True,
        )
    ]  # fmt: skip
    return [*rows, {**rows[-1], "round": trace.horizon}]  # the last bin, up to its end


def _arm_rows(trace: Trace, edges: IntArray) -> tuple[list[Row], list[str]]:
    """Return the share of each arm in each bin; all but the most pulled are put together."""
    assert trace.arms is not None
    shown = np.argsort(-trace.counts, kind="stable")[:MOST_ARMS]
    shown = np.sort(shown[trace.counts[shown] > 0])
    names = [f"arm {arm}" for arm in shown.tolist()]
    shares = [_share(trace.arms == arm, edges) for arm in shown]
    if trace.counts[shown].sum() < trace.horizon:
        names.append("other arms")
        shares.append(1 - np.sum(shares, axis=0))
    rows = [
        {"round": start, "arm": name, "position": position, "share": share}
        for position, (name, column) in enumerate(zip(names, shares, strict=True))
        for start, share in zip(_starts(edges), [*column.tolist(), float(column[-1])], strict=True)
    ]
    return rows, names


def _starts(edges: IntArray) -> list[int]:
    """Return the first round of each bin, and the last of all, where the last bin ends."""
    return [*(edges[:-1] + 1).tolist(), int(edges[-1])]


def _share(pulled: "np.ndarray[tuple[int], np.dtype[np.bool_]]", edges: IntArray) -> FloatArray:
    counts = np.add.reduceat(pulled.astype(np.int64), edges[:-1])
    share: FloatArray = counts / np.diff(edges)
    return share
