"""The paper reproduced: ``make paper`` runs these experiments and writes docs/ from them.

Figures and tables come out of here, and from nowhere else.
What was measured is kept in ``measured.json``, so that pages can be checked without playing.
"""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from string import Template

import altair as alt
import cattrs

from studies.pages import table
from studies.paper import charts
from studies.paper.measure import HERE, Measured, growth, measure
from studies.sticky_ablations import measure as ablations
from studies.theorem_e2 import measure as theorem_e2

REPOSITORY = HERE.parent.parent
MEASURED = HERE / "measured.json"


def table_1(measured: Measured) -> str:
    """Return the empirical Table 1."""
    return table(
        {
            "regime": row.regime,
            "lam": row.lam,
            "policy": row.policy,
            "exponent": row.exponent,
            "bound": f"{row.bound_slope:.2f}",
            "measured, 95 %": _interval(row.slope, row.low, row.high),
            "last decade, 95 %": _interval(row.last_slope, row.last_low, row.last_high),
            "horizons": " to ".join(f"10^{math.log10(row.horizons[k]):.3g}" for k in (0, -1)),
            "regret, of OPT": f"{row.regret[-1]:,.0f}, {row.lost:.2%}",
        }
        for row in measured.table_1
    )


def _interval(middle: float, low: float, high: float) -> str:
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def figure_2_table(measured: Measured, instance: str) -> str:
    """Return both regrets at the horizon, by policy and lam."""
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for row in measured.figure_2:
        if row.instance == instance:
            for name, regret in {"DES": row.des, "external": row.external}.items():
                line = lines.setdefault((row.policy, name), {"policy": row.policy, "regret": name})
                line[f"lam = {row.lam}"] = f"{regret[-1]:,.0f}"
    return table(lines.values())


def page(measured: Measured) -> str:
    """Return docs/paper.md: the text of page.md with every number filled in."""
    numbers = {
        "replications": str(measured.table_1[0].replications),
        "instances": str(measured.table_1[0].instances),
        "table_1": table_1(measured),
        "opposites": figure_2_table(measured, "opposites"),
        "click_bait": figure_2_table(measured, "click-bait"),
    }
    text = (HERE / "page.md").read_text(encoding="utf-8")
    return Template(text).substitute(
        numbers
        | quoted_numbers(measured)
        | ablations.numbers(ablations.saved())
        | theorem_e2.numbers(theorem_e2.saved())
    )


def quoted_numbers(measured: Measured) -> dict[str, str]:
    """Return every number that a sentence of the page may quote, by name."""
    found = {}
    for row in measured.table_1:
        name = _as_name(row.policy, row.lam)
        found[f"slope_{name}"] = f"{row.slope:.2f}"
        found[f"interval_{name}"] = _interval(row.slope, row.low, row.high)
        found[f"bound_{name}"] = f"{row.bound_slope:.2f}"
        found[f"last_{name}"] = f"{row.last_slope:.2f}"
        found[f"lost_{name}"] = f"{row.lost:.2%}"
    for curve in measured.figure_2:
        name = _as_name(curve.instance, curve.policy, curve.lam)
        found[f"des_{name}"] = f"{curve.des[-1]:,.0f}"
        found[f"external_{name}"] = f"{curve.external[-1]:,.0f}"
        found[f"growth_{name}"] = f"{growth(curve.rounds, curve.des):.2f}"
        found[f"external_growth_{name}"] = f"{growth(curve.rounds, curve.external):.2f}"
    opposites = [curve for curve in measured.figure_2 if curve.instance == "opposites"]
    found["most_external"] = f"{max(max(curve.external) for curve in opposites):,.0f}"
    return found


def _as_name(*parts: str) -> str:
    return re.sub(r"\W+", "_", "_".join(parts)).strip("_")


def pictures(measured: Measured) -> dict[str, Callable[[], alt.TopLevelMixin]]:
    """Return what draws each picture, by the name of its file."""
    figure_2 = measured.figure_2
    return {
        "paper-figure-1": charts.figure_1,
        "paper-figure-2": lambda: charts.figure_2(figure_2, "opposites"),
        "paper-figure-2-click-bait": lambda: charts.figure_2(figure_2, "click-bait"),
        "paper-table-1": lambda: charts.table_1(measured.table_1),
        "paper-section-5-1": lambda: charts.section_5_1(ablations.saved()),
    }


def write(measured: Measured, repository: Path) -> None:
    """Write pages and pictures."""
    docs = repository / "docs"
    (docs / "img").mkdir(parents=True, exist_ok=True)
    (docs / "paper.md").write_text(page(measured), encoding="utf-8")
    for name, draw in pictures(measured).items():
        draw().save(docs / "img" / f"{name}.svg")


def as_json(measured: Measured) -> str:
    """Return what was measured as JSON, a row a line, so that changes can be read."""
    parts = [
        json.dumps(name) + ": [\n" + ",\n".join(map(json.dumps, rows)) + "\n]"
        for name, rows in cattrs.unstructure(measured).items()
    ]
    return "{" + ",\n".join(parts) + "}\n"


def from_json(text: str) -> Measured:
    """Return what :func:`as_json` was given."""
    return cattrs.structure(json.loads(text), Measured)


def main() -> None:
    """Play what is not there yet, and write everything anew."""
    measured = measure(HERE)
    MEASURED.write_text(as_json(measured), encoding="utf-8")
    ablations.save(ablations.measure())
    theorem_e2.save(theorem_e2.measure())
    write(measured, REPOSITORY)


if __name__ == "__main__":
    main()
