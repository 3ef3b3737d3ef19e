"""What ``auto`` loses by choosing: its loss beside that of the best single policy, told the same.

A loss is the share of the optimum that a policy did not earn, averaged over click-bait and uniform
instances in equal parts. Seeds of the published table were fixed before ``auto`` was tuned, which
was done on others. ``python -m studies.auto_loss`` prints the table. It takes about an hour,
most of it for plans at T = 10^6 and lam = T^-0.75.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal

import numpy as np
from attrs import frozen

import bdes_framework as bdes
from bdes_framework.experiment.arms import ArmsConfig, generate_arms

PLUGINS = bdes.load_plugins()
SEEDS = range(7000, 7020)
"""One instance of each family per seed; never used to choose a constant of ``auto``."""
LONGEST_SEEDS = SEEDS[:10]
"""Those at T = 10^6."""
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
    def held(self) -> bool:
        """Whether the ratio is at most what is allowed."""
        return self.ratio <= ALLOWED


def instances(n_arms: int, lam: float, seeds: Iterable[int]) -> Iterator[tuple[int, bdes.Instance]]:
    """Yield an instance of each family per seed, with one arm that restores the state fully."""
    for seed in seeds:
        for family in FAMILIES:
            r, b = generate_arms(ArmsConfig(generator=family, n=n_arms, seed=seed))
            b[b.argmax()] = 1.0
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
    horizon: int, n_arms: int, rate: str, seeds: Iterable[int] | None = None
) -> tuple[Losses, Losses]:
    """Return mean losses of all policies with a replenishing arm told, and without."""
    lam = RATES[rate](horizon)
    if seeds is None:
        seeds = LONGEST_SEEDS if horizon == HORIZONS[-1] else SEEDS
    told, untold = (Cell(horizon, n_arms, rate, arm_told) for arm_told in (True, False))
    planner = PLUGINS.planner("certified", gap=1e-4)
    rows: tuple[list[dict[str, float]], list[dict[str, float]]] = ([], [])
    for seed, instance in instances(n_arms, lam, seeds):
        best = planner.plan(instance, horizon).value
        single = {name: loss(name, instance, best, seed, untold) for name in SINGLE}
        for cell, own in zip((told, untold), rows, strict=True):
            of_cell = [name for name in ("auto", *cell.policies) if name not in single]
            own.append(single | {name: loss(name, instance, best, seed, cell) for name in of_cell})
    return _losses(told, rows[0]), _losses(untold, rows[1])


def _losses(cell: Cell, rows: list[dict[str, float]]) -> Losses:
    runs = {name: [row[name] for row in rows] for name in rows[0]}
    return Losses(cell, {name: float(np.mean(own)) for name, own in runs.items()}, runs)


def main() -> None:
    """Print the table, a line per cell; exit with 1 if ``auto`` loses more than allowed in one."""
    held = True
    for horizon in HORIZONS:
        for n_arms in ARMS:
            for rate in RATES:
                for losses in measure(horizon, n_arms, rate):
                    held &= losses.held
                    shown = " ".join(f"{name}={100 * x:.3g}%" for name, x in losses.of.items())
                    told = "arm told" if losses.cell.arm_told else "no arm told"
                    print(f"T={horizon} K={n_arms} lam={rate}, {told}:", end=" ")
                    print(f"{losses.ratio:.2f} ± {losses.standard_error:.2f}", shown, flush=True)
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
