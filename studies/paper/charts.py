"""The pictures of the paper's page, drawn from measured rows."""

from collections.abc import Mapping, Sequence

import altair as alt

from bdes_framework import Instance
from bdes_framework._internal.colours import BLUE, GREEN, ORANGE, SKY, VERMILION
from studies.pages import chart_data, heights_apart, on_white
from studies.paper.measure import FigureRow, TableRow
from studies.sticky_ablations.measure import OrderRow, chart

LAMS = {"0.1": SKY, "0.25": GREEN, "0.5": BLUE, "1.0": VERMILION}
DASHES = [[1, 0], [5, 2], [2, 2], [8, 2, 2, 2]]


def _finished(chart: alt.TopLevelMixin) -> alt.TopLevelMixin:
    return on_white(
        chart,
        padding=12,
        axis=alt.AxisConfig(labelFontSize=12, titleFontSize=12, titleFontWeight="normal"),
        legend=alt.LegendConfig(labelFontSize=12, titleFontSize=12, labelLimit=300),
        title=alt.TitleConfig(fontSize=14, subtitleFontSize=12, anchor="start"),
        header=alt.HeaderConfig(labelFontSize=13, titleFontSize=13),
    )


def _colour(name: str, colours: Mapping[str, str], legend: alt.Legend | None) -> alt.Color:
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    return alt.Color(name, scale=scale, legend=legend)


# -- Figure 1 -------------------------------------------------------------------------------


def figure_1(b: float = 0.15, lam: float = 0.5, pulls: int = 12) -> alt.TopLevelMixin:
    """The state under one arm, pulled again and again: the recurrence, and the closed form."""
    states = Instance([1.0], [b], lam).states([0] * pulls)
    dots = [{"pulls": n, "state": q} for n, q in enumerate(states.tolist())]
    curve = [
        {"pulls": n / 10, "state": b - (1 - lam) ** (n / 10) * (b - 1.0)}
        for n in range(10 * pulls - 9)
    ]
    x = alt.X("pulls:Q", title="pulls made before this one", axis=alt.Axis(tickMinStep=1))
    y = alt.Y("state:Q", title="state q", scale=alt.Scale(domain=[0, 1]))
    line = chart_data(curve, "curve").mark_line(color=SKY, strokeWidth=2).encode(x=x, y=y)
    dotted = chart_data(dots, "dots").mark_point(color=BLUE, filled=True, size=70, opacity=1)
    points = dotted.encode(x=x, y=y)
    limit = chart_data([{"state": b}], "limit")
    rule = limit.mark_rule(color=VERMILION, strokeDash=[5, 4]).encode(y="state:Q")
    label = limit.mark_text(
        align="right", baseline="bottom", dy=-4, color=VERMILION, fontSize=13
    ).encode(x=alt.value(420), y="state:Q", text=alt.value(f"end state b = {b}"))
    title = alt.Title(
        "Pulling one arm for ever drives the state to b",
        subtitle=f"b = {b}, lam = {lam}, q0 = 1. Dots: the recurrence; line: the closed form.",
    )
    layers = alt.layer(line, rule, label, points)
    return _finished(layers.properties(width=420, height=240, title=title))


# -- Figure 2 -------------------------------------------------------------------------------

READINGS = {
    "des": "DES regret: against the best sequence of arms",
    "external": "External regret: against the best arm on the states the policy itself made",
}


def figure_2(rows: Sequence[FigureRow], instance: str) -> alt.TopLevelMixin:
    """DES regret above, external below, over time: one column per policy, one line per lam."""
    panels = [_over_time(rows, instance, reading, title) for reading, title in READINGS.items()]
    return _finished(alt.vconcat(*panels, spacing=18))


def _over_time(
    rows: Sequence[FigureRow], instance: str, reading: str, title: str
) -> alt.FacetChart:
    long = [
        {"policy": row.policy, "lam": row.lam, "round": t, "regret": y, "low": y - h, "high": y + h}
        for row in rows
        if row.instance == instance
        for t, y, h in zip(
            row.rounds, getattr(row, reading), getattr(row, f"{reading}_half_width"), strict=True
        )
    ]
    scale = alt.Scale(domainMin=0, clamp=True)
    axis = alt.Axis(format=",.0f", tickCount=6, minExtent=48)  # no number under the title
    legend = alt.Legend(
        title="lam",
        orient="bottom",
        symbolType="stroke",
        symbolSize=400,
        symbolStrokeWidth=3,
        symbolOpacity=1,
    )
    x = alt.X("round:Q", title="round", axis=alt.Axis(format=",.0f", tickCount=3))
    dashes = alt.Scale(domain=list(LAMS), range=DASHES)
    base = alt.Chart().encode(x=x)
    lines = base.mark_line(strokeWidth=2.2).encode(
        y=alt.Y("regret:Q", title="regret (reward)", scale=scale, axis=axis),
        color=_colour("lam:N", LAMS, legend),
        strokeDash=alt.StrokeDash("lam:N", scale=dashes, legend=legend),
    )
    bands = base.mark_area(opacity=0.25).encode(
        y=alt.Y("low:Q", title="regret (reward)", scale=scale, axis=axis),
        y2="high:Q",
        color=_colour("lam:N", LAMS, legend),
    )
    data = chart_data(long, reading).data
    layers = alt.layer(bands, lines, data=data).properties(width=205, height=170)
    column = alt.Column("policy:N", title=None, sort=list(dict.fromkeys(r.policy for r in rows)))
    facets: alt.FacetChart = layers.facet(column=column).properties(title=title)
    free: alt.FacetChart = facets.resolve_scale(y="independent")
    return free


# -- Table 1 --------------------------------------------------------------------------------

PANELS = {
    "exp3p": "EXP3.P, states that hardly move",
    "ucb1": "UCB1, states that hardly move",
    "sticky": "Sticky arms, states that forget",
    "etc": "Explore, then commit: our tuning",
    "etc, paper's tuning": "Explore, then commit: the paper's tuning",
}


def table_1(rows: Sequence[TableRow]) -> alt.TopLevelMixin:
    """Mean regret over horizons, log-log: what was measured, and the slopes of the bounds."""
    panels = [
        _rates([row for row in rows if row.policy == policy], title)
        for policy, title in PANELS.items()
    ]
    title = alt.Title(
        "How regret grows with the horizon",
        offset=14,
        subtitle=[
            "Means over instances with 95 % intervals; points stand a little aside of one another.",
            "Dashed, top left: how steep the theorem's bound is, its slope beside it.",
        ],
    )
    picture = alt.concat(*panels, columns=2, spacing=32, title=title)
    return _finished(picture.resolve_scale(color="independent", shape="independent"))


def _rates(rows: Sequence[TableRow], title: str) -> alt.LayerChart | alt.FacetChart:
    measured = []
    for k, row in enumerate(rows):
        aside = 10 ** (0.04 * (k - (len(rows) - 1) / 2))  # so that no interval hides another
        measured += [
            {"case": f"lam = {row.lam}", "T": t * aside, "regret": y, "low": low, "high": high}
            for t, y, low, high in zip(
                row.horizons, row.regret, row.regret_low, row.regret_high, strict=True
            )
        ]
    names = [f"lam = {row.lam}" for row in rows]
    legend = alt.Legend(title=None, orient="bottom", columns=2, columnPadding=30, symbolSize=90)
    x = alt.X(
        "T:Q",
        title="horizon T (rounds)",
        scale=alt.Scale(type="log", domain=[800, 1_250_000], nice=False),
        axis=alt.Axis(format="~s", values=[1e3, 1e4, 1e5, 1e6]),
    )
    y = alt.Y(
        "regret:Q",
        title="mean DES regret (reward)",
        scale=alt.Scale(type="log", domain=[30, 100_000], nice=False),
        axis=alt.Axis(format=",.0f", values=[100, 1e3, 1e4, 1e5]),
    )
    colours, shapes = [BLUE, VERMILION, GREEN, ORANGE], ["circle", "cross", "square", "diamond"]
    colour = _colour("case:N", dict(zip(names, colours, strict=False)), legend)
    shape = alt.Shape("case:N", scale=alt.Scale(domain=names, range=shapes), legend=legend)
    base = chart_data(measured, f"measured of {title}").encode(x=x, y=y, color=colour)
    lines = base.mark_line(strokeWidth=1.5)
    bars = base.mark_rule(strokeWidth=2).encode(y="low:Q", y2="high:Q")
    points = base.mark_point(size=40, strokeWidth=1.5, fill="white", opacity=1).encode(shape=shape)
    rays = [layer.encode(x=x, y=y, color=colour) for layer in _slopes(rows, title)]
    layers = alt.layer(*rays, lines, bars, points)
    return layers.properties(width=300, height=230, title=title)


CORNER = 1_100, 5_000
"""Where the rays start: top left of a panel, away from what was measured."""


def _slopes(rows: Sequence[TableRow], title: str) -> list[alt.Chart]:
    """The bounds' slopes as rays from one corner, a decade long, with their numbers."""
    start, level = CORNER
    names = [f"lam = {row.lam}" for row in rows]
    rays = [
        {"case": name, "T": start * t, "regret": level * t**row.bound_slope}
        for name, row in zip(names, rows, strict=True)
        for t in (1, 10)
    ]
    heights = heights_apart([row.bound_slope for row in rows], 0.19)
    numbers = [
        {"case": name, "T": 10 * start, "regret": level * 10**height, "slope": row.bound_slope}
        for name, row, height in zip(names, rows, heights, strict=True)
    ]
    lines = chart_data(rays, f"slopes of {title}").mark_line(strokeDash=[4, 3], strokeWidth=1.2)
    texts = chart_data(numbers, f"numbers of {title}").mark_text(align="left", dx=4, fontSize=11)
    return [lines, texts.encode(text=alt.Text("slope:Q", format=".2f"))]


# -- Section 5.1 ----------------------------------------------------------------------------


def section_5_1(rows: Sequence[OrderRow]) -> alt.TopLevelMixin:
    """Orders of pairs within a batch: regret on the example, and switches among many arms."""
    return _finished(chart(rows))
