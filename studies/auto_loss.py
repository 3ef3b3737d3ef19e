"""What ``auto`` loses by choosing: its loss beside that of the best single policy, told the same.

A loss is the share of the optimum that a policy did not earn, averaged over click-bait and uniform
instances in equal parts. Seeds of the published table were fixed before ``auto`` was tuned, which
was done on others. ``python -m studies.auto_loss`` measures all of it, which takes about an hour,
and writes the table into docs/policies.md; it exits with 1 if ``auto`` loses more than allowed.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Final, Literal

import numpy as np
from attrs import frozen

import bdes_framework as bdes
from bdes_framework.experiment.arms import ArmsConfig, generate_arms
from studies.pages import replaced_between, save_rows, table

PLUGINS = bdes.load_plugins()
PAGE = Path(__file__).parent.parent / "docs" / "policies.md"
MEASURED = Path(__file__).with_suffix(".json")
BEGIN = "<!-- auto: written by python -m studies.auto_loss -->"
END = "<!-- end of auto -->"
SEEDS = range(7000, 7020)
"""One instance of each family per seed; never used to choose a constant of ``auto``."""
MORE_SEEDS = range(7000, 7060)
"""Played instead where the first ones leave open on which side of ``ALLOWED`` the ratio is."""
ALLOWED = 1.25
"""Times the best single policy's loss, in every cell."""
HORIZONS = (10_000, 100_000, 1_000_000)
ARMS = (2, 5, 17)
FAMILIES: Final[tuple[Literal["click-bait", "uniform"], ...]] = ("click-bait", "uniform")
RATES: dict[str, Callable[[int], float]] = {
    "T^-2": lambda t: float(t) ** -2,
    "T^-1.5": lambda t: float(t) ** -1.5,
    "1/T": lambda t: 1 / t,
    "3/T": lambda t: 3 / t,
    "T^-0.75": lambda t: float(t) ** -0.75,
    "T^-0.5": lambda t: float(t) ** -0.5,
    "0.1": lambda t: 0.1,
    "0.5": lambda t: 0.5,
    "0.9": lambda t: 0.9,
    "0.99": lambda t: 0.99,
    "1": lambda t: 1.0,
}
GAPS = {(1_000_000, "T^-0.75"): 1e-3}
"""Of the optimum to its bound where not 1e-4: plans that close take minutes there."""
LEFT_OUT = {(1_000_000, n_arms, "T^-0.75") for n_arms in (5, 17)}
"""Cells in which a benchmark within 1e-3 takes many minutes for every instance."""
SINGLE = ("etc-unknown-arm", "sticky", "exp3p", "wide-ucb", "ucb1")
"""Policies that need no replenishing arm; ``etc`` is beside them where one is told."""


@frozen
class Cell:
    """One problem size and rate; whether the policies are told a replenishing arm."""

    horizon: int
    n_arms: int
    rate: str
    arm_told: bool

    @property
    def policies(self) -> tuple[str, ...]:
        """The single policies that can play here."""
        return ("etc", *SINGLE) if self.arm_told else SINGLE


@frozen
class Losses:
    """Mean losses in one cell, by policy."""

    cell: Cell
    of: dict[str, float]
    runs: dict[str, list[float]]
    """Of each instance."""

    @property
    def best(self) -> str:
        """The best single policy."""
        return min(self.cell.policies, key=self.of.__getitem__)

    @property
    def ratio(self) -> float:
        """How many times the best single policy's loss ``auto`` loses."""
        return self.of["auto"] / self.of[self.best]

    @property
    def standard_error(self) -> float:
        """Of the ratio, from the differences on the same instances."""
        more = np.subtract(self.runs["auto"], self.runs[self.best])
        return float(more.std(ddof=1) / np.sqrt(more.size)) / self.of[self.best]

    @property
    def clear(self) -> bool:
        """Whether the ratio is at least two standard errors away from ``ALLOWED``."""
        return abs(self.ratio - ALLOWED) >= 2 * self.standard_error

    @property
    def row(self) -> "Row":
        """What is kept."""
        cell = self.cell
        numbers = (round(self.ratio, 3), round(self.standard_error, 3), len(self.runs["auto"]))
        return Row(cell.horizon, cell.n_arms, cell.rate, cell.arm_told, self.best, *numbers)


@frozen
class Row:
    """What is kept of one cell: how many times the best single policy's loss ``auto`` loses."""

    horizon: int
    n_arms: int
    rate: str
    arm_told: bool
    best: str
    ratio: float
    standard_error: float
    instances: int

    @property
    def held(self) -> bool:
        """Whether the ratio is at most what is allowed."""
        return self.ratio <= ALLOWED

    def __str__(self) -> str:
        text = f"{self.ratio:.2f}"
        return text if self.held else f"**{text} ± {self.standard_error:.2f}**"


def instances(n_arms: int, lam: float, seeds: Iterable[int]) -> Iterator[tuple[int, bdes.Instance]]:
    """Yield an instance of each family per seed, with one arm that restores the state fully."""
    for seed in seeds:
        for family in FAMILIES:
            config = ArmsConfig(generator=family, n=n_arms, seed=seed, replenishing=True)
            r, b = generate_arms(config)
            yield seed, bdes.Instance(r, b, lam)


def loss(name: str, instance: bdes.Instance, best: float, seed: int, cell: Cell) -> float:
    """Return the share of the optimum that one run of a policy does not earn."""
    arm = int(instance.b.argmax()) if cell.arm_told else None
    problem = bdes.Problem(instance.n_arms, cell.horizon, instance.lam, arm)
    world = PLUGINS.environment(
        "bernoulli", seed=seed, r=instance.r, b=instance.b, lam=instance.lam
    )
    policy = PLUGINS.policy(name, problem, seed=seed)
    return 1 - bdes.simulate(world, policy, cell.horizon, keep=False).total_mean / best


def measure(
    horizon: int, n_arms: int, rate: str, seeds: Iterable[int] = SEEDS
) -> tuple[Losses, Losses]:
    """Return mean losses of all policies with a replenishing arm told, and without."""
    lam = RATES[rate](horizon)
    told, untold = (Cell(horizon, n_arms, rate, arm_told) for arm_told in (True, False))
    planner = PLUGINS.planner("certified", gap=GAPS.get((horizon, rate), 1e-4))
    rows: tuple[list[dict[str, float]], list[dict[str, float]]] = ([], [])
    for seed, instance in instances(n_arms, lam, seeds):
        best = planner.plan(instance, horizon).value
        single = {name: loss(name, instance, best, seed, untold) for name in SINGLE}
        for cell, own in zip((told, untold), rows, strict=True):
            of_cell = [name for name in ("auto", *cell.policies) if name not in single]
            own.append(single | {name: loss(name, instance, best, seed, cell) for name in of_cell})
    return _losses(told, rows[0]), _losses(untold, rows[1])


def measure_until_clear(horizon: int, n_arms: int, rate: str) -> tuple[Losses, Losses]:
    """Measure on ``SEEDS``; where either ratio is not clear, on ``MORE_SEEDS`` instead."""
    losses = measure(horizon, n_arms, rate, SEEDS)
    if all(each.clear for each in losses):
        return losses
    return measure(horizon, n_arms, rate, MORE_SEEDS)


def _losses(cell: Cell, rows: list[dict[str, float]]) -> Losses:
    runs = {name: [row[name] for row in rows] for name in rows[0]}
    return Losses(cell, {name: float(np.mean(own)) for name, own in runs.items()}, runs)


def sizes() -> Iterator[tuple[int, int, str]]:
    """Yield the horizon, number of arms and rate of every cell that is measured."""
    yield from (size for size in product(HORIZONS, ARMS, RATES) if size not in LEFT_OUT)


def table_of(rows: Iterable[Row]) -> str:
    """Return a line per horizon, number of arms and arm told; what is not allowed is bold."""
    lines: dict[tuple[int, int, bool], dict[str, Row]] = {}
    for row in rows:
        lines.setdefault((row.horizon, row.n_arms, row.arm_told), {})[row.rate] = row
    return table(
        {"T": f"{horizon:,}", "K": str(n_arms), "arm": "told" if told else "not told"}
        | {_heading(rate): str(cells.get(rate, "–")) for rate in RATES}
        for (horizon, n_arms, told), cells in lines.items()
    )


def _heading(rate: str) -> str:
    return f"T<sup>−{rate[3:]}</sup>" if rate.startswith("T^-") else rate


def text_of(rows: list[Row]) -> str:
    """Return what stands between the page's markers."""
    above = sum(not row.held for row in rows)
    counted = f"{above} of {len(rows)} cells are above {ALLOWED}, the most that `auto` should lose."
    return f"{table_of(rows)}\n\n{counted}"


def main() -> None:
    """Measure, keep the rows, and write the table into the page."""
    rows = [losses.row for size in sizes() for losses in measure_until_clear(*size)]
    save_rows(MEASURED, rows)
    text = replaced_between(PAGE.read_text(encoding="utf-8"), BEGIN, END, text_of(rows))
    PAGE.write_text(text, encoding="utf-8")
    sys.exit(0 if all(row.held for row in rows) else 1)


if __name__ == "__main__":
    main()
