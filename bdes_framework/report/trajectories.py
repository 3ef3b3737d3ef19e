"""Trajectories of cells for charts: states and arms over rounds, in bins."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from attrs import field, frozen

from bdes_framework._internal.arrays import IntArray
from bdes_framework._internal.text import one_line
from bdes_framework.errors import BdesError
from bdes_framework.experiment.cell import Cell
from bdes_framework.experiment.file import Experiment
from bdes_framework.experiment.replay import ReplayError, experiment_of, replay_cell
from bdes_framework.experiment.result_table import horizon_words
from bdes_framework.experiment.reuse import code_changes
from bdes_framework.report.charts import QUANTILES
from bdes_framework.report.data import RunData, Setting
from bdes_framework.report.labels import Row
from bdes_framework.simulation.crowd import CrowdTrace
from bdes_framework.simulation.loop import Trace

BINS = 120
STATE_BINS = 40
MAX_ARMS_SHOWN = 7


@frozen
class Trajectory:
    """States and arms of one cell in bins of rounds, as rows of charts.

    Of many users, in bins of visits; ``by_state`` is what was shown at which state.
    """

    environment: str
    policy: str
    horizon: int
    replication: int
    states: list[Row]
    arms: list[Row]
    arm_names: list[str]
    by_state: list[Row] = field(factory=list)


@frozen
class Trajectories:
    """The trajectories that were replayed, and why others were not."""

    found: list[Trajectory] = field(factory=list)
    reasons: list[str] = field(factory=list)


def replay_trajectories(
    data: RunData,
    wanted: Callable[[Sequence[Cell]], Sequence[Cell]],
    *,
    experiment: Experiment | Path | None,
    seconds: float,
    on_cell: Callable[[int, int], None] = lambda done, total: None,
) -> Trajectories:
    """Replay the ``wanted`` cells of a run until they are done or ``seconds`` have passed.

    ``experiment`` is what the run was made from, see :func:`experiment_of`; ``on_cell`` is
    called before each cell with how many are done and how many there are.
    """
    trajectories = Trajectories()
    try:
        loaded = experiment_of(data.run, experiment)
    except BdesError as error:
        trajectories.reasons.append(one_line(str(error)))
        return trajectories
    finished = [cell for cell in data.cells if cell.error is None]
    stored = {(r.environment, r.policy, r.horizon, r.replication): r for r in finished}
    known = data.run.keys()
    same_place = [cell for cell in loaded.cells if _place(cell) in stored]
    cells = [cell for cell in same_place if cell.key in known]
    if not cells or len(cells) < len(same_place):
        changes = "; ".join(code_changes(data.resolved["versions"], loaded.versions))
        what = f"code has changed ({changes})" if changes else "the experiment file has changed"
        n = len(same_place) - len(cells)
        trajectories.reasons.append(
            one_line(f"{what} since this run was made: {n:,} cells are not played again", 1000)
        )
    chosen = wanted(cells)
    end = time.monotonic() + seconds
    for done, cell in enumerate(chosen):
        if time.monotonic() > end:
            left = len(chosen) - done
            trajectories.reasons.append(f"{left} more cells were not played again: time was up")
            break
        on_cell(done, len(chosen))
        edges = bin_edges(cell.horizon)
        try:
            trace = replay_cell(loaded, cell, stored[_place(cell)], edges[1:])
        except ReplayError as error:
            at = horizon_words(cell.horizon, data.run.step)
            name = f"{cell.policy.label} on {cell.environment.label}, {at}"
            trajectories.reasons.append(f"{name}: {error}")
        else:
            if isinstance(trace, CrowdTrace):
                edges, states = bin_edges(trace.visits), user_state_rows(trace)
            else:
                states = state_rows(trace, edges)
            arms, names = arm_rows(trace, edges)
            by_state = by_state_rows(trace, names) if isinstance(trace, CrowdTrace) else []
            trajectories.found.append(Trajectory(*_place(cell), states, arms, names, by_state))
    return trajectories


def first_cells(data: RunData, limit: int) -> Callable[[Sequence[Cell]], Sequence[Cell]]:
    """Return a function that selects at most ``limit`` cells, long horizons first.

    One of each setting and policy: the first replication of the first instance.
    """

    def choose(cells: Sequence[Cell]) -> Sequence[Cell]:
        firsts: dict[tuple[Setting, str], Cell] = {}
        for cell in sorted(cells, key=lambda cell: (cell.replication, -cell.horizon)):
            setting = data.setting_of(cell.environment.label, cell.horizon)
            firsts.setdefault((setting, cell.policy.label), cell)
        return list(firsts.values())[:limit]

    return choose


def _place(cell: Cell) -> tuple[str, str, int, int]:
    return cell.environment.label, cell.policy.label, cell.horizon, cell.replication


def bin_edges(horizon: int) -> IntArray:
    """Return the ends of bins of rounds, from 0 to the horizon."""
    return np.unique(np.rint(np.linspace(0, horizon, min(BINS, horizon) + 1)).astype(np.int64))


def state_rows(trace: Trace, edges: IntArray) -> list[Row]:
    """Return the mean state of each bin and its range; empty if the environment has no state."""
    if trace.cumulative_states is None or trace.states is None:
        return []
    means = np.diff(trace.cumulative_states, prepend=0.0) / np.diff(edges)
    lowest = np.minimum.reduceat(trace.states, edges[:-1])
    highest = np.maximum.reduceat(trace.states, edges[:-1])
    columns = {
        "round": edges[:-1] + 1,
        "until": edges[1:],
        "state": means,
        "lowest": lowest,
        "highest": highest,
    }
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    rows = [dict(zip(columns, row, strict=True)) for row in values]
    return [*rows, {**rows[-1], "round": trace.horizon}]  # the last bin, up to its end


def user_state_rows(trace: CrowdTrace) -> list[Row]:
    """Return quantiles of the states of the users who came, in each bin of visits."""
    if trace.states is None:
        return []
    edges = bin_edges(trace.visits)
    shares = [0.1, 0.25, 0.5, 0.75, 0.9]
    bins = np.split(trace.states, edges[1:-1])
    quantiles = np.array([np.quantile(states, shares) for states in bins])
    names = ("round", "until", *QUANTILES)
    columns = (edges[:-1] + 1, edges[1:], *quantiles.T)
    values = zip(*(column.tolist() for column in columns), strict=True)
    rows = [dict(zip(names, row, strict=True)) for row in values]
    return [*rows, {**rows[-1], "round": trace.visits}]


def by_state_rows(trace: CrowdTrace, names: list[str]) -> list[Row]:
    """Return each arm's share of the visits at each bin of states, in the second half of visits."""
    if trace.states is None:
        return []
    assert trace.arms is not None
    half = trace.visits // 2
    states, shown = trace.states[half:], _shown_arms(trace)
    highest = float(states.max()) or 1.0
    edges = np.linspace(0.0, highest, STATE_BINS + 1)
    bins = np.minimum((states / highest * STATE_BINS).astype(np.int64), STATE_BINS - 1)
    visits = np.bincount(bins, minlength=STATE_BINS)
    counts = [np.bincount(bins[trace.arms[half:] == arm], minlength=STATE_BINS) for arm in shown]
    if len(counts) < len(names):  # other arms
        counts.append(visits - np.sum(counts, axis=0))
    above = np.cumsum(counts, axis=0)
    return [
        {
            "from": edges[at],
            "to": edges[at + 1],
            "arm": name,
            "share": counts[arm][at] / visits[at],
            "below": (above[arm][at] - counts[arm][at]) / visits[at],
            "above": above[arm][at] / visits[at],
            "visits": int(visits[at]),
        }
        for arm, name in enumerate(names)
        for at in np.flatnonzero(counts[arm]).tolist()
    ]


def _shown_arms(trace: Trace | CrowdTrace) -> IntArray:
    """Return the arms that are shown by themselves."""
    shown = np.argsort(-trace.counts, kind="stable")[:MAX_ARMS_SHOWN]
    return np.sort(shown[trace.counts[shown] > 0])


def arm_rows(trace: Trace | CrowdTrace, edges: IntArray) -> tuple[list[Row], list[str]]:
    """Return the share of each arm in each bin; all but the most pulled are put together."""
    assert trace.arms is not None
    shown, n = _shown_arms(trace), int(edges[-1])
    names = [f"arm {arm}" for arm in shown.tolist()]
    sizes = np.diff(edges)
    shares = [
        np.add.reduceat((trace.arms == arm).astype(np.int64), edges[:-1]) / sizes for arm in shown
    ]
    if trace.counts[shown].sum() < n:
        names.append("other arms")
        shares.append(1 - np.sum(shares, axis=0))
    starts = [*(edges[:-1] + 1).tolist(), n]  # and where the last bin ends
    rows = [
        {"round": start, "arm": name, "position": position, "share": share}
        for position, (name, column) in enumerate(zip(names, shares, strict=True))
        for start, share in zip(starts, [*column.tolist(), float(column[-1])], strict=True)
    ]
    return rows, names
