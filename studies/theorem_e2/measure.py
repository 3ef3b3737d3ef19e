"""Plays ``unknown-lambda`` in every case of Theorem E.2; ``make paper`` shows what comes out."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from attrs import frozen

import bdes_framework as bdes
from studies.pages import save_rows, saved_rows, slope_with_interval, table

HERE = Path(__file__).parent
MEASURED = HERE / "measured.json"
OURS, PAPERS = "unknown-lambda", "paper's tuning"


@frozen
class Case:
    """What is played, and what the theorem has for it."""

    gaps: str
    lam: str
    promise: str
    exponent: float | None
    """Of T, without logarithms; None if the theorem gives none."""


CASES = {
    "case 1": Case("large", "T^-2", "T^(2/3)", 2 / 3),
    "case 2": Case("large", "T^-1.5", "T^(b/a) = T^(2/3)", 2 / 3),
    "case 3": Case("large", "1/T", "(1 - 1/e)·OPT", None),
    "case 4": Case("small", "0.3", "T^(2/3)", 2 / 3),
    "both fail": Case("small", "T^-0.5", "T^(2/3), by case 4", 2 / 3),
    "case 5": Case("large", "0.3", "T^(2/3)", 2 / 3),
    "no case": Case("large", "T^-0.5", "nothing", None),
    "case 5, fresh seeds": Case("large", "0.3", "T^(2/3)", 2 / 3),
}
MARGIN = 0.05
MOST_LOST = 1 / math.e
"""In case 3. At lam = 1/T the state is at least exp(-t/T), 1 - 1/e in the mean whatever is played,
so the arm with the largest r, played for ever, loses 1/e of OPT at most. The theorem: 1 - 1/e."""


@frozen
class CaseRow:
    """One tuning in one case: mean regret at the last horizon, and its slope over instances."""

    case: str
    policy: str
    instances: int
    horizon: int
    regret: float
    slope: float
    low: float
    high: float
    most_lost: float
    """The largest share of OPT that was lost on an instance, at any horizon."""
    to_exp3p: float
    """The share of runs over the last horizon that handed over to ``exp3p``."""

    @property
    def held(self) -> bool | None:
        """Whether the gate holds; None where the theorem promises nothing."""
        exponent = CASES[self.case].exponent
        if exponent is not None:
            return self.high <= exponent + MARGIN
        return self.most_lost <= MOST_LOST if self.case == "case 3" else None


def measure(configs: Path = HERE) -> list[CaseRow]:
    """Play the experiment, or what is left of it."""
    with bdes.run_experiment(configs / "cases.toml") as run:
        cells = run.to_pandas()
    failed = cells[cells.regret.isna()]
    if len(failed):
        raise RuntimeError(f"{len(failed)} cells have no regret, the first: {failed.error.iloc[0]}")
    rows = []
    for case in CASES:
        for policy in (OURS, PAPERS):
            mine = cells[(cells.environment == case) & (cells.policy == policy)]
            regret = mine.pivot_table(index="draw", columns="T", values="regret")
            horizons = [int(horizon) for horizon in regret.columns]
            slope, low, high = slope_with_interval(horizons, regret.to_numpy())
            chosen = [
                json.loads(text)["chosen"] for text in mine[mine["T"] == horizons[-1]].diagnostics
            ]
            row = CaseRow(
                case=case,
                policy=policy,
                instances=len(regret),
                horizon=horizons[-1],
                regret=round(float(regret[horizons[-1]].mean()), 1),
                slope=round(slope, 4),
                low=round(low, 4),
                high=round(high, 4),
                most_lost=round(float((mine.regret / mine.OPT).max()), 4),
                to_exp3p=float(np.mean([name == "exp3p" for name in chosen])),
            )
            rows.append(row)
    return rows


GATES = {True: "held", False: "**missed**", None: "none"}


def case_table(rows: Sequence[CaseRow]) -> str:
    """Return what was measured, a case a line."""
    papers = {row.case: row for row in rows if row.policy == PAPERS}
    return table(
        {
            "case": row.case,
            "gaps": CASES[row.case].gaps,
            "lam": CASES[row.case].lam,
            "theorem": CASES[row.case].promise,
            "regret": f"{row.regret:,.0f}",
            "slope, 95 %": f"{row.slope:.2f} ({row.low:.2f} to {row.high:.2f})",
            "lost at most": f"{row.most_lost:.0%}",
            "to `exp3p`": f"{row.to_exp3p:.0%}",
            "gate": GATES[row.held],
            "paper's tuning": f"{papers[row.case].slope:.2f}, {papers[row.case].to_exp3p:.0%}",
        }
        for row in rows
        if row.policy == OURS
    )


def numbers(rows: Sequence[CaseRow]) -> dict[str, str]:
    """Return what the page's section shows, by name."""
    return {"cases_e2": case_table(rows), "cases_e2_instances": str(rows[0].instances)}


def save(rows: Sequence[CaseRow]) -> None:
    """Keep what was measured."""
    save_rows(MEASURED, rows)


def saved() -> list[CaseRow]:
    """Return what was measured last."""
    return saved_rows(MEASURED, CaseRow)


if __name__ == "__main__":
    save(measure())
