"""What ``rank-one`` loses at lam = 1, beside ``sticky`` and explore-then-commit.

A loss is the share of the optimum that a policy did not earn. Seeds of the published table were
fixed before ``rank-one`` was written; it was tuned on others, from 8000 on.
``python -m studies.rank_one``, a part of ``make rates``, measures all of it, in about three
minutes, and writes the table into docs/policies.md.
"""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal

import numpy as np
from attrs import frozen

import bdes_framework as bdes
from bdes_framework.experiment.arms import ArmsConfig, generate_arms
from studies.pages import replaced_between, table

PLUGINS = bdes.load_plugins()
PAGE = Path(__file__).parent.parent / "docs" / "policies.md"
BEGIN = "<!-- rank-one: written by python -m studies.rank_one -->"
END = "<!-- end of rank-one -->"
SEEDS = range(7000, 7020)
"""One instance per seed; never used to choose a constant of ``rank-one``."""
HORIZONS = (10_000, 100_000, 1_000_000)
ARMS = (2, 3, 5, 10, 20, 50)
Family = Literal["click-bait", "uniform"]
FAMILIES: Final[tuple[Family, ...]] = ("click-bait", "uniform")
POLICIES = ("rank-one", "sticky", "etc-unknown-arm", "etc")
"""``etc`` alone is told the arm that restores the state fully; both kinds of it are told lam."""


@frozen
class Cell:
    """One family, number of arms and horizon, with the losses of all instances by policy."""

    family: Family
    n_arms: int
    horizon: int
    losses: dict[str, list[float]]

    def mean(self, name: str) -> float:
        """Return the mean loss of a policy."""
        return float(np.mean(self.losses[name]))

    def half_width(self, name: str) -> float:
        """Return half of the 95 % interval over instances."""
        own = self.losses[name]
        return 1.96 * float(np.std(own, ddof=1)) / math.sqrt(len(own))

    @property
    def best(self) -> str:
        """The policy that loses least."""
        return min(self.losses, key=self.mean)


def measure(family: Family, n_arms: int, horizon: int, seeds: Iterable[int] = SEEDS) -> Cell:
    """Play every policy on one instance per seed."""
    losses: dict[str, list[float]] = {name: [] for name in POLICIES}
    for seed in seeds:
        r, b = generate_arms(ArmsConfig(generator=family, n=n_arms, seed=seed))
        b[b.argmax()] = 1.0
        instance = bdes.Instance(r, b, 1.0)
        best = PLUGINS.planner("certified", gap=1e-4).plan(instance, horizon).value
        for name, own in losses.items():
            own.append(1 - _earned(name, instance, horizon, seed) / best)
    return Cell(family, n_arms, horizon, losses)


def _earned(name: str, instance: bdes.Instance, horizon: int, seed: int) -> float:
    arm = int(instance.b.argmax()) if name == "etc" else None
    problem = bdes.Problem(instance.n_arms, horizon, instance.lam, arm)
    world = PLUGINS.environment(
        "bernoulli", seed=seed, r=instance.r, b=instance.b, lam=instance.lam
    )
    policy = PLUGINS.policy(name, problem, seed=seed)
    return bdes.simulate(world, policy, horizon, keep=False).total_mean


def cells() -> Iterator[Cell]:
    """Measure the whole table, cell by cell."""
    for family in FAMILIES:
        for n_arms in ARMS:
            for horizon in HORIZONS:
                yield measure(family, n_arms, horizon)


def table_of(measured: Iterable[Cell]) -> str:
    """Return the table; the least mean loss of a line is bold."""
    rows = []
    for cell in measured:
        row = {"arms": cell.family, "K": str(cell.n_arms), "T": f"{cell.horizon:,}"}
        for name in POLICIES:
            text = f"{100 * cell.mean(name):.2f} ± {100 * cell.half_width(name):.2f}"
            row[f"`{name}`"] = f"**{text}**" if name == cell.best else text
        rows.append(row)
    return table(rows)


def main() -> None:
    """Measure, and write the table into the page."""
    measured = table_of(cells())
    text = replaced_between(PAGE.read_text(encoding="utf-8"), BEGIN, END, measured)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
