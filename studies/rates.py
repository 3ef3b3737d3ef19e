"""Regret rates, written down: ``make rates`` measures every regime and writes docs/rates.md."""

import math
import sys
from itertools import cycle, pairwise
from pathlib import Path
from string import Template

import altair as alt
import numpy as np
from rich.console import Console
from rich.progress import track

from bdes_framework.report.charts import BLACK, BLUE, GREEN, PURPLE, VERMILION
from studies.pages import chart_data, heights_apart, on_white, table
from studies.regimes import (
    ALLOWED_EXCESS,
    CASES,
    INSTANCES,
    MAX_EXTERNAL,
    NEAR_EXPONENT,
    SEEDS,
    SHRINKING,
    SHRINKING_SEEDS,
    Measured,
    NoiseRow,
    ShrinkingRow,
    measure,
    measure_noise,
    measure_shrinking,
)

DOCS = Path(__file__).parent.parent / "docs"


def page(measured: list[Measured], shrinking: list[ShrinkingRow], noise: list[NoiseRow]) -> str:
    """Return docs/rates.md: the text of rates.md here with every number filled in."""
    text = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    return Template(text).substitute(
        seeds=SEEDS,
        instances=INSTANCES,
        excess=ALLOWED_EXCESS,
        rates=table(map(_rate_cells, measured)),
        local=table(_local_slopes(row) for row in measured if row.case.regime == "slow"),
        noise=table(map(_noise_cells, noise)),
        shrinking=table(map(_shrinking_cells, shrinking)),
        shrinking_seeds=SHRINKING_SEEDS,
        near=NEAR_EXPONENT,
        external=table(_external_cells(row) for row in measured if row.case.least_slope),
        max_external=f"{MAX_EXTERNAL:.0%}",
    )


def _rate_cells(row: Measured) -> dict[str, str]:
    return {
        "case": row.case.name,
        "theorem": row.case.theorem,
        "horizons": f"{row.horizons[0]:,} to {row.horizons[-1]:,}",
        "regret at the last": f"{row.regret[:, -1].mean():,.0f}",
        "slope, 95 %": f"{row.slope:.3f} ({row.low:.3f} to {row.high:.3f})",
        "last decade, 95 %": f"{row.last_slope:.2f} ({row.last_low:.2f} to {row.last_high:.2f})",
        "theorem's": "-" if row.theory_slope is None else f"{row.theory_slope:.2f}",
        "gate": {None: "reported", True: "held", False: "**not held**"}[row.held],
    }


def _external_cells(row: Measured) -> dict[str, str]:
    des = float(row.regret[:, -1].mean())
    return {
        "policy": row.case.policy,
        "DES regret": f"{des:,.0f}",
        "external regret": f"{row.external * des:,.0f}",
    }


def _local_slopes(row: Measured) -> dict[str, str]:
    slopes = np.diff(np.log(row.regret.mean(axis=0))) / np.diff(np.log(row.horizons))
    powers = [f"10^{math.log10(t):.3g}" for t in row.horizons]
    steps = zip(pairwise(powers), slopes.tolist(), strict=True)
    return {"case": row.case.name} | {f"{a} to {b}": f"{slope:.2f}" for (a, b), slope in steps}


def _shrinking_cells(row: ShrinkingRow) -> dict[str, str]:
    return {
        "policy": row.case.policy,
        "gap": row.case.text,
        "regret at T = 10^6": f"{row.regret:,.0f}",
        "slope, 95 %": f"{row.slope:.3f} ({row.low:.3f} to {row.high:.3f})",
        "exponent": f"{row.case.exponent:.2f}",
        "gate": "held" if row.held else "**not held**",
    }


def _noise_cells(row: NoiseRow) -> dict[str, str]:
    extra = f"{row.extra:+.4f} ± {row.error:.4f}"
    cells = {"policy": row.policy, "sigma": str(row.sigma), "T": f"{row.horizon:,}"}
    return {**cells, "extra regret / (sigma·T)": extra}


COLOURS = (BLUE, VERMILION, GREEN, PURPLE, BLACK)
TITLES = {
    "slow": "Slow states",
    "middle": "In between",
    "fast": "Sticky arms",
    "blind": "No idea of states, on (1, 0), (0, 1), lam = 0.5",
}
WIDTH, HEIGHT, LINE_OF_TEXT = 260, 220, 13
LOWEST, HIGHEST = 1, 6
"""Powers of ten that regret is shown between, the same in all panels: so slopes compare."""


def chart(measured: list[Measured]) -> alt.TopLevelMixin:
    """Return mean regret against the horizon, one panel a regime, every line with its name."""
    panels = [
        _panel(title, [row for row in measured if _panel_of(row) == key])
        for key, title in TITLES.items()
    ]
    return on_white(alt.concat(*panels, columns=2, spacing=24))


def _panel_of(row: Measured) -> str:
    return "blind" if row.case.n_arms == 2 else row.case.regime


def _panel(title: str, rows: list[Measured]) -> alt.LayerChart:
    means = [row.regret.mean(axis=0) for row in rows]
    x = alt.X(
        "T:Q",
        scale=alt.Scale(type="log", domain=[1e3, 1e6]),
        axis=alt.Axis(format="~s", values=[1e3, 1e4, 1e5, 1e6], grid=False),
        title="horizon T (rounds)",
    )
    y = alt.Y(
        "regret:Q",
        scale=alt.Scale(type="log", domain=[10**LOWEST, 10**HIGHEST]),
        axis=alt.Axis(format="~s", values=[10**k for k in range(LOWEST, HIGHEST + 1)]),
        title="mean DES regret",
    )
    layers = [_theory(rows[0], x, y)] if rows[0].theory_slope is not None else []
    gap = LINE_OF_TEXT * (HIGHEST - LOWEST) / HEIGHT
    heights = heights_apart([math.log10(mean[-1]) for mean in means], gap)
    for row, mean, height, colour in zip(rows, means, heights, cycle(COLOURS), strict=False):
        points = [{"T": t, "regret": float(m)} for t, m in zip(row.horizons, mean, strict=True)]
        name = row.case.name.removesuffix(" on (1, 0), (0, 1)")
        label = {"T": row.horizons[-1], "regret": 10**height, "name": name}
        line = chart_data(points).mark_line(color=colour, point={"color": colour, "size": 14})
        text = chart_data([label]).mark_text(align="left", dx=7, color=colour, fontSize=11)
        layers += [line.encode(x, y), text.encode(x, y, text="name:N")]
    return alt.LayerChart(layer=layers, width=WIDTH, height=HEIGHT, title=title)


def _theory(row: Measured, x: alt.X, y: alt.Y) -> alt.Chart:
    """Return a line with the theorem's slope, through the last point."""
    assert row.theory_slope is not None
    last = row.regret[:, -1].mean()
    ends = [row.horizons[0], row.horizons[-1]]
    points = [{"T": t, "regret": last * (t / ends[1]) ** row.theory_slope} for t in ends]
    dashed: alt.Chart = chart_data(points).mark_line(color="#888", strokeDash=[5, 4]).encode(x, y)
    return dashed


def main() -> None:
    measured = [measure(case) for case in track(CASES, "playing", console=Console(stderr=True))]
    shrinking = [measure_shrinking(case) for case in SHRINKING]
    (DOCS / "rates.md").write_text(page(measured, shrinking, measure_noise()))
    chart(measured).save(DOCS / "img" / "rates.svg")
    for row in measured:
        Console().print(f"{row.case.name}: {row.slope:.3f} ({row.low:.3f} to {row.high:.3f})")
    held = [row.held for row in measured] + [row.held for row in shrinking]
    sys.exit(1 if False in held else 0)


if __name__ == "__main__":
    main()
