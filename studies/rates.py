"""Regret rates, written down: ``make rates`` measures every regime and writes docs/rates.md."""

import math
import sys
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

import altair as alt
import numpy as np
from rich.console import Console
from rich.progress import track

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

| case | theorem | horizons | regret at the last | slope, 95 % | last decade | theorem's | gate |
|---|---|---|---|---|---|---|---|
{rates}

**Why `exp3p` starts steeper than 1/2.** The theorem bounds the worst instance at each T. On one
instance regret cannot exceed the gap between its arms times T, so where the gap is small regret
grows linearly until T is of the order of K·ln K/gap², and as √T from there on. The mean over
instances is in between, the more so the shorter the horizon. More instances would narrow the
interval, not lower the slope. Slopes by half decade:

| case | {intervals} |
|---|{rules}
{local}

## Noise

Theorem 6.1 allows extra regret of the order of sigma·T. Measured with Gaussian noise on the same
instances: the regret that noise adds, divided by sigma·T (mean ± standard error over paired seeds).
It grows at most linearly if the last column does not grow with T.

| policy | sigma | T | extra regret / (sigma·T) |
|---|---|---|---|
{noise}
"""


def page(measured: list[Measured], noise: list[NoiseRow]) -> str:
    """Return the documentation page."""
    slow = [row for row in measured if row.case.regime == "slow"]
    steps = list(zip(slow[0].horizons, slow[0].horizons[1:], strict=False))
    return PAGE.format(
        seeds=SEEDS,
        instances=INSTANCES,
        excess=ALLOWED_EXCESS,
        rates="\n".join(map(_line, measured)),
        intervals=" | ".join(f"10^{math.log10(a):.3g} to 10^{math.log10(b):.3g}" for a, b in steps),
        rules="---|" * len(steps),
        local="\n".join(map(_local_slopes, slow)),
        noise="\n".join(
            f"| {n.policy} | {n.sigma} | {n.horizon:,} | {n.extra:+.4f} ± {n.error:.4f} |"
            for n in noise
        ),
    )


def _line(row: Measured) -> str:
    case = row.case
    theory = "-" if row.theory_slope is None else f"{row.theory_slope:.2f}"
    gate = {None: "reported", True: "held", False: "**not held**"}[row.held]
    return (
        f"| {case.name} | {case.theorem} | {row.horizons[0]:,} to {row.horizons[-1]:,} |"
        f" {row.regret[:, -1].mean():,.0f} | {row.slope:.3f} ({row.low:.3f} to {row.high:.3f})"
        f" | {row.last_slope:.2f} | {theory} | {gate} |"
    )


def _local_slopes(row: Measured) -> str:
    slopes = np.diff(np.log(row.regret.mean(axis=0))) / np.diff(np.log(row.horizons))
    return f"| {row.case.name} | {' | '.join(f'{slope:.2f}' for slope in slopes)} |"


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000")
"""Okabe and Ito's, which the colour-blind can tell apart; lines are labelled besides."""
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
    """Return mean regret against the horizon, one panel a regime, every line with its name."""
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
    heights = _apart([math.log10(mean[-1]) for mean in means], gap)
    for row, mean, height, colour in zip(rows, means, heights, cycle(COLOURS), strict=False):
        points = [{"T": t, "regret": float(m)} for t, m in zip(row.horizons, mean, strict=True)]
        name = row.case.name.removesuffix(" on (1, 0), (0, 1)")
        label = {"T": row.horizons[-1], "regret": 10**height, "name": name}
        layers += [
            _data(points).mark_line(color=colour, point={"color": colour, "size": 14}).encode(x, y),
            _data([label])
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
    dashed: alt.Chart = _data(points).mark_line(color="#888", strokeDash=[5, 4]).encode(x, y)
    return dashed


def _data(values: Sequence[Mapping[str, object]]) -> alt.Chart:
    return alt.Chart(alt.InlineData(values=list(values)))


def _apart(heights: list[float], gap: float) -> list[float]:
    """Return heights for labels at least a gap apart: pushed down where they would overlap."""
    placed = dict.fromkeys(range(len(heights)), 0.0)
    above = math.inf
    for k in sorted(placed, key=lambda k: -heights[k]):
        above = placed[k] = min(heights[k], above - gap)
    return list(placed.values())


def main() -> None:
    measured = [measure(case) for case in track(CASES, "playing", console=Console(stderr=True))]
    (DOCS / "rates.md").write_text(page(measured, measure_noise()))
    chart(measured).save(DOCS / "img" / "rates.svg")
    for row in measured:
        Console().print(f"{row.case.name}: {row.slope:.3f} ({row.low:.3f} to {row.high:.3f})")
    sys.exit(1 if any(row.held is False for row in measured) else 0)


if __name__ == "__main__":
    main()
