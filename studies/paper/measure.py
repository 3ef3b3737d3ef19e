"""Runs the experiments of this folder and boils them down to what the page shows.

Everything comes out of runs on disk, so a second call plays nothing again.
"""

import itertools
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from attrs import frozen

import bdes_framework as bdes
from bdes_framework import CellSummary, Experiment, FloatArray
from bdes_framework.experiment.summary import estimate
from studies.pages import interval_of_means, slope_of, slope_with_interval
from studies.regimes import fast, middle, slow, slow_ucb

HERE = Path(__file__).parent
Bound: TypeAlias = Callable[[int, int, float], float]
"""The theorem's finite-T expression: of T, K and lam."""


@frozen
class Case:
    """A line of Table 1: where it is measured, and what the paper promises of it."""

    experiment: str
    lam: str
    policy: str
    regime: str
    exponent: str
    bound: Bound


CASES = [
    Case("table-1-slow", "T^-2", "exp3p", "slow", "1/2", slow),
    Case("table-1-slow", "T^-1.5", "exp3p", "slow", "b/a = 2/3", slow),
    Case("table-1-slow", "T^-1.25", "exp3p", "slow", "b/a = 4/5", slow),
    Case("table-1-slow", "T^-1", "exp3p", "between", "none", slow),
    *(
        Case("table-1-slow", lam, "ucb1", regime, "not in it", slow_ucb)
        for lam, regime in zip(
            ("T^-2", "T^-1.5", "T^-1.25", "T^-1"), ("slow", "slow", "slow", "between"), strict=True
        )
    ),
    Case("table-1-middle", "T^-0.5", "etc", "middle", "2/3", middle),
    Case("table-1-middle", "0.1", "etc", "middle", "2/3", middle),
    Case("table-1-middle", "0.5", "etc", "middle", "2/3", middle),
    Case("table-1-middle", "T^-0.5", "etc, paper's tuning", "middle", "2/3", middle),
    Case("table-1-middle", "0.1", "etc, paper's tuning", "middle", "2/3", middle),
    Case("table-1-middle", "0.5", "etc, paper's tuning", "middle", "2/3", middle),
    Case("table-1-fast", "1-1/sqrt(T)", "sticky", "fast", "1/2", fast),
    Case("table-1-fast", "1.0", "sticky", "fast", "1/2", fast),
]


@frozen
class TableRow:
    """A line of Table 1, measured: the slope of mean regret beside that of the theorem's bound.

    All intervals are 95 % bootstrap intervals over instances.
    """

    regime: str
    lam: str
    policy: str
    exponent: str
    bound_slope: float
    slope: float
    low: float
    high: float
    last_slope: float
    """Over the last decade alone."""
    last_low: float
    last_high: float
    instances: int
    replications: int
    horizons: list[int]
    regret: list[float]
    regret_low: list[float]
    regret_high: list[float]
    lost: float


@frozen
class FigureRow:
    """Both regrets of one policy over time: means over replications, half their 95 % intervals."""

    instance: str
    lam: str
    policy: str
    rounds: list[int]
    des: list[float]
    external: list[float]
    des_half_width: list[float]
    external_half_width: list[float]


def growth(times: Sequence[int], values: Sequence[float]) -> float:
    """Return the exponent by which values grow over the last factor of ten in time, about.

    Not a number where they are not positive.

    >>> round(growth([1, 10, 100], [3.0, 5.0, 50.0]), 6)
    1.0
    """
    before = min(range(len(times)), key=lambda k: abs(times[k] - times[-1] / 10))
    if min(values[-1], values[before]) <= 0:
        return math.nan
    return slope_of([times[before], times[-1]], np.array([values[before], values[-1]]))


@frozen
class Measured:
    """Everything that the pages show."""

    table_1: list[TableRow]
    figure_2: list[FigureRow]


@frozen(eq=False)
class Played:
    """An experiment and its finished run."""

    experiment: Experiment
    run: bdes.Run
    cells: Sequence[CellSummary]

    @property
    def horizons(self) -> list[int]:
        """The horizons, increasing."""
        return sorted(self.experiment.config.horizons)


def play(name: str, configs: Path) -> Played:
    """Run an experiment of this folder, or what is left of it."""
    experiment = bdes.load_experiment(configs / f"{name}.toml")
    run = bdes.run_experiment(experiment)
    cells = run.cells()
    failed = [cell.error for cell in cells if cell.error or cell.regret is None]
    if failed:
        raise RuntimeError(f"{name}: {len(failed)} cells have no regret, the first: {failed[0]}")
    return Played(experiment, run, cells)


def lam_of(label: str) -> str:
    """Return which point of the grid over lam a label stands for, as the file has it.

    >>> lam_of("click-bait (lam=T^-2, arms.seed=7)")
    'T^-2'
    """
    found = re.search(r"\blam=(.+?)(?:, [\w.]+=.*)?\)$", label)
    assert found is not None
    return found[1]


def measure(configs: Path) -> Measured:
    """Play everything; return the rows of Table 1 and Figure 2."""
    played = {name: play(name, configs) for name in {case.experiment for case in CASES}}
    return Measured(
        table_1=[table_row(case, played[case.experiment]) for case in CASES],
        figure_2=figure_rows(play("figure-2", configs)),
    )


# -- Table 1 --------------------------------------------------------------------------------


def table_row(case: Case, played: Played) -> TableRow:
    """Return a line of Table 1."""
    horizons = played.horizons
    cells = [
        c for c in played.cells if c.policy == case.policy and lam_of(c.environment) == case.lam
    ]
    regret = _by_instance(cells, horizons)
    slope, low, high = slope_with_interval(horizons, regret)
    of_last = [k for k, t in enumerate(horizons) if t >= horizons[-1] / 11]
    last = slope_with_interval([horizons[k] for k in of_last], regret[:, of_last])
    ends = [_rounded(end) for end in interval_of_means(regret)]
    bounds = {}
    for c in played.experiment.cells:
        if lam_of(c.environment.label) == case.lam:
            r, lam = (_array(c.environment.parameters[name]) for name in ("r", "lam"))
            bounds[c.horizon] = case.bound(c.horizon, r.size, float(lam))
    at_last = [c for c in cells if c.horizon == horizons[-1]]
    return TableRow(
        regime=case.regime,
        lam=case.lam,
        policy=case.policy,
        exponent=case.exponent,
        bound_slope=slope_of(horizons, np.array([bounds[t] for t in horizons])),
        slope=slope,
        low=low,
        high=high,
        last_slope=last[0],
        last_low=last[1],
        last_high=last[2],
        instances=len(regret),
        replications=len({c.replication for c in cells}),
        horizons=horizons,
        regret=_averaged(regret),
        regret_low=ends[0],
        regret_high=ends[1],
        lost=float(np.mean([_regret(c) / _best(c) for c in at_last])),
    )


def _by_instance(cells: Sequence[CellSummary], horizons: Sequence[int]) -> FloatArray:
    """Return regret averaged over replications: shape (instances, horizons)."""
    found: dict[str, dict[int, list[float]]] = {}
    for cell in cells:
        by_horizon = found.setdefault(cell.environment, {})
        by_horizon.setdefault(cell.horizon, []).append(_regret(cell))
    return np.array([[np.mean(own[t]) for t in horizons] for own in found.values()])


def _regret(cell: CellSummary) -> float:
    assert cell.regret is not None
    return cell.regret


def _best(cell: CellSummary) -> float:
    """Return what the best sequence earns in a cell's place."""
    assert cell.total_mean is not None
    return cell.total_mean + _regret(cell)


# -- Figure 2 -------------------------------------------------------------------------------


def figure_rows(played: Played) -> list[FigureRow]:
    """Return both regrets of every policy on every instance."""
    instances = {c.environment.label: c.environment.parameters for c in played.experiment.cells}
    policies = dict.fromkeys(c.policy.label for c in played.experiment.cells)
    (horizon,) = played.horizons
    rows = []
    for (label, parameters), policy in itertools.product(instances.items(), policies):
        curves = played.run.curves(label, policy, horizon)
        assert curves.regret is not None
        assert curves.states is not None
        external = _array(parameters["r"]).max() * curves.states - curves.means
        place = label.partition(" (")[0], lam_of(label), policy
        regrets = curves.regret, external
        means, halves = map(_averaged, regrets), map(_half_widths, regrets)
        rows.append(FigureRow(*place, curves.checkpoints.tolist(), *means, *halves))
    return rows


def _array(values: object) -> FloatArray:
    return np.asarray(values, dtype=np.float64)


def _averaged(curves: FloatArray) -> list[float]:
    return _rounded(curves.mean(axis=0))


def _half_widths(curves: FloatArray) -> list[float]:
    found = [estimate(column) for column in curves.T.tolist()]
    return _rounded(np.array([one.half_width for one in found if one is not None]))


def _rounded(values: FloatArray) -> list[float]:
    return [round(value, 2) for value in values.tolist()]
