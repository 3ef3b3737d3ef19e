"""Regret rates, written down: ``make rates`` measures every regime and writes docs/rates.md."""

import math
import sys
from itertools import cycle, pairwise
from pathlib import Path

import altair as alt
import numpy as np
from rich.console import Console
from rich.progress import track

from studies.pages import BLACK, BLUE, GREEN, PURPLE, VERMILION, chart_data, heights_apart, table
from studies.regimes import (
    ALLOWED_EXCESS,
    CASES,
    INSTANCES,
    SEEDS,
    Measured,
    NoiseRow,
    measure,
    measure_noise,
)

DOCS = Path(__file__).parent.parent / "docs"

PAGE = """# Measured rates

<!-- Written by `make rates`; do not edit by hand. -->

Mean DES regret of {seeds} paired seeds, each with {instances} click-bait instances of its own from
fixed seeds (K = 3, one arm with b = 1), against a plan proven to be within 1e-6 of the optimum. The
slope is fitted on a log-log scale over horizons from 10^3 to 10^6 at which exploring takes at most
half of the horizon and is not cut, as the policies' diagnostics say. Its interval is a 95 %
bootstrap over seeds and their instances. The theorem's slope is that of its own finite-T
expression, logarithms and N(lam) included, over the same horizons. A gate holds when the interval's
lower end exceeds the theorem's slope by at most {excess}; for the policies that know nothing of
states, when the slope is above 0.95, as Proposition 2.1 says. The last decade's slope is there to
compare; it gates nothing.

![Mean regret against the horizon, by regime](img/rates.svg)

The dashed grey line has the theorem's slope and ends where the panel's first case does.

{rates}

**Why `exp3p` starts steeper than 1/2.** The theorem bounds the worst instance at each T. On one
instance regret cannot exceed the gap between its arms times T, so where the gap is small regret
grows linearly until T is of the order of K·ln K/gap², and as √T from there on. The mean over
instances is in between, the more so the shorter the horizon. More instances would narrow the
interval, not lower the slope. Slopes by half decade:

{local}

## Noise

Theorem 6.1 allows extra regret of the order of sigma·T. Measured with Gaussian noise on the same
instances: the regret that noise adds, divided by sigma·T (mean ± standard error over paired seeds).
It grows at most linearly if the last column does not grow with T.

{noise}
"""


def page(measured: list[Measured], noise: list[NoiseRow]) -> str:
    """Return the documentation page."""
    slow = [row for row in measured if row.case.regime == "slow"]
    powers = [f"10^{math.log10(t):.3g}" for t in slow[0].horizons]
    steps = [f"{a} to {b}" for a, b in pairwise(powers)]
    return PAGE.format(
        seeds=SEEDS,
        instances=INSTANCES,
        excess=ALLOWED_EXCESS,
        rates=table(RATES, map(_rate_cells, measured)),
        local=table(["case", *steps], map(_local_slopes, slow)),
        noise=table(
            ["policy", "sigma", "T", "extra regret / (sigma·T)"],
            (
                (n.policy, str(n.sigma), f"{n.horizon:,}", f"{n.extra:+.4f} ± {n.error:.4f}")
                for n in noise
            ),
        ),
    )


RATES = [
    "case",
    "theorem",
    "horizons",
    "regret at the last",
    "slope, 95 %",
    "last decade",
    "theorem's",
    "gate",
]


def _rate_cells(row: Measured) -> list[str]:
    return [
        row.case.name,
        row.case.theorem,
        f"{row.horizons[0]:,} to {row.horizons[-1]:,}",
        f"{row.regret[:, -1].mean():,.0f}",
        f"{row.slope:.3f} ({row.low:.3f} to {row.high:.3f})",
        f"{row.last_slope:.2f}",
        "-" if row.theory_slope is None else f"{row.theory_slope:.2f}",
        {None: "reported", True: "held", False: "**not held**"}[row.held],
    ]


def _local_slopes(row: Measured) -> list[str]:
    slopes = np.diff(np.log(row.regret.mean(axis=0))) / np.diff(np.log(row.horizons))
    return [row.case.name, *(f"{slope:.2f}" for slope in slopes)]


COLOURS = (BLUE, VERMILION, GREEN, PURPLE, BLACK)
TITLES = {
    "slow": "Slow states",
    "middle": "In between",
    "fast": "Sticky arms",
    "blind": "No idea of states, on (1, 0), (0, 1)",
}
WIDTH, HEIGHT, LINE_OF_TEXT = 260, 220, 13
LOWEST, HIGHEST = 1, 6
"""Powers of ten that regret is shown between, the same in all panels: so slopes compare."""


def chart(measured: list[Measured]) -> alt.ConcatChart:
    """Return mean regret against the horizon, one panel per regime, every line with its name."""
    panels = [
        _panel(title, [row for row in measured if _panel_of(row) == key])
        for key, title in TITLES.items()
    ]
    both: alt.ConcatChart = alt.concat(*panels, columns=2, spacing=24).configure(
        font="sans-serif", background="white"
    )
    return both


def _panel_of(row: Measured) -> str:
    return "blind" if row.case.two_arms else row.case.regime


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
        layers += [
            chart_data(points)
            .mark_line(color=colour, point={"color": colour, "size": 14})
            .encode(x, y),
            chart_data([label])
            .mark_text(align="left", dx=7, color=colour, fontSize=11)
            .encode(x, y, text="name:N"),
        ]
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
    (DOCS / "rates.md").write_text(page(measured, measure_noise()))
    chart(measured).save(DOCS / "img" / "rates.svg")
    for row in measured:
        Console().print(f"{row.case.name}: {row.slope:.3f} ({row.low:.3f} to {row.high:.3f})")
    sys.exit(1 if any(row.held is False for row in measured) else 0)


if __name__ == "__main__":
    main()
