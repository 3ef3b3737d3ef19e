"""The pictures of the paper's page and of the front page, drawn from measured rows."""

from collections.abc import Mapping, Sequence

import altair as alt
from attrs import asdict

from bdes_framework import Instance
from bdes_framework.report.charts import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION
from studies.pages import chart_data, heights_apart, on_white
from studies.paper.measure import FigureRow, HeadlineRow, TableRow

POLICIES = {
    "posterior": BLACK,
    "etc": GREEN,
    "sticky": PURPLE,
    "unknown-lambda": BLUE,
    "ucb1": ORANGE,
    "exp3p": SKY,
    "thompson": VERMILION,
}
LAMS = {"0.1": SKY, "0.25": GREEN, "0.5": BLUE, "1.0": VERMILION}


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
        {"policy": row.policy, "lam": row.lam, "round": t, "regret": y}
        for row in rows
        if row.instance == instance
        for t, y in zip(row.rounds, getattr(row, reading), strict=True)
    ]
    scale, axis = alt.Scale(domainMin=0, clamp=True), alt.Axis(format=",.0f", tickCount=6)
    legend = alt.Legend(title="lam", orient="bottom", symbolStrokeWidth=3)
    lines = (
        chart_data(long, reading)
        .mark_line(strokeWidth=2.2)
        .encode(
            x=alt.X("round:Q", title="round", axis=alt.Axis(format=",.0f", tickCount=3)),
            y=alt.Y("regret:Q", title="regret (reward)", scale=scale, axis=axis),
            color=_colour("lam:N", LAMS, legend),
            strokeDash=alt.StrokeDash("lam:N", scale=alt.Scale(domain=list(LAMS)), legend=legend),
        )
        .properties(width=205, height=170)
    )
    column = alt.Column("policy:N", title=None, sort=list(dict.fromkeys(r.policy for r in rows)))
    facets: alt.FacetChart = lines.facet(column=column).properties(title=title)
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
    """Mean regret over horizons, log-log: what was measured, and the slope of each bound."""
    panels = [
        _rates([row for row in rows if row.policy == policy], title)
        for policy, title in PANELS.items()
    ]
    title = alt.Title(
        "How regret grows with the horizon",
        subtitle="Solid: measured. Dashed: as fast as the theorem's bound grows.",
    )
    picture = alt.concat(*panels, columns=2, spacing=32, title=title)
    return _finished(picture.resolve_scale(color="independent", shape="independent"))


def _rates(rows: Sequence[TableRow], title: str) -> alt.LayerChart | alt.FacetChart:
    measured, bounds = [], []
    for row in rows:
        name, first, last = f"lam = {row.lam}", row.horizons[0], row.horizons[-1]
        measured += [
            {"case": name, "T": t, "regret": y}
            for t, y in zip(row.horizons, row.regret, strict=True)
        ]
        bounds += [
            {"case": name, "T": t, "regret": row.regret[0] * (t / first) ** row.bound_slope}
            for t in (first, last)
        ]
    names = [f"lam = {row.lam}" for row in rows]
    legend = alt.Legend(title=None, orient="bottom", columns=2, symbolSize=90)
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
    dashed = chart_data(bounds, f"bounds of {title}").mark_line(strokeDash=[4, 4], strokeWidth=1.2)
    dashes = dashed.encode(x=x, y=y, color=colour)
    base = chart_data(measured, f"measured of {title}").encode(x=x, y=y, color=colour)
    lines = base.mark_line(strokeWidth=2)
    points = base.mark_point(size=70, strokeWidth=2, fill="white", opacity=1).encode(shape=shape)
    return alt.layer(dashes, lines, points).properties(width=300, height=230, title=title)


# -- the front page -------------------------------------------------------------------------


def headline(rows: Sequence[HeadlineRow]) -> alt.TopLevelMixin:
    """The share of the best sequence's reward, by lam: one line per policy, named at its end."""
    lams = list(dict.fromkeys(row.lam for row in rows))
    x = alt.X("lam:O", sort=lams, title="evolution rate lam", axis=alt.Axis(labelAngle=0))
    colour = _colour("policy:N", POLICIES, None)
    title, whole = "share of what the best sequence earns", alt.Scale(domain=[0, 1])
    y = alt.Y("share:Q", title=title, scale=whole, axis=alt.Axis(format="%"))
    shares = chart_data([asdict(row) for row in rows], "shares").encode(x=x, y=y, color=colour)
    lines = shares.mark_line(strokeWidth=2.5, point=alt.OverlayMarkDef(size=60))
    last = sorted((row for row in rows if row.lam == lams[-1]), key=lambda row: -row.share)
    heights = heights_apart([row.share for row in last], 0.055)
    labels = [
        {"policy": row.policy, "lam": row.lam, "share": height}
        for row, height in zip(last, heights, strict=True)
    ]
    ends = chart_data(labels, "names").encode(x=x, y=y, color=colour, text="policy:N")
    names = ends.mark_text(align="left", dx=10, fontSize=13)
    heading = "Five ads, click-bait among them: 100,000 rounds"
    return _finished(alt.layer(lines, names).properties(width=420, height=280, title=heading))
