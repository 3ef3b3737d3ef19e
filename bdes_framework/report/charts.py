"""Charts, defined once in Altair: the page makes them interactive, ``bdes plot`` saves them.

A definition holds no data: it names the columns of the rows it is given (see :mod:`data`).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import altair as alt
from attrs import frozen

from bdes_framework.report.data import REGRET, Row
from bdes_framework.report.theme import DASHES, LIGHT_COLOURS

Layered = alt.LayerChart

MEASURES = {
    REGRET: "mean DES regret (expected reward lost)",
    "reward": "mean expected reward a round",
}
"""How the axis of each measure is titled, with its unit."""

PATH_EXTENT = 42
"""Room for the numbers of vertical axes, so that charts below each other line up."""

LAM_PADDING = 14
"""Room beside the first and last lam, so that their bars are not on the axis, in pixels."""

LABEL_HEIGHT = 13 / 260
"""The height of a line of text as a share of a chart's."""


def _layers(*layers: alt.Chart) -> Layered:
    return alt.LayerChart(layer=list(layers))


def _colour(policies: Sequence[str], legend: Sequence[str]) -> alt.Color:
    """Return the colours of policies, the same in every chart of a run, and who is explained."""
    shown = alt.Legend(title="policy", values=list(legend)) if legend else None
    return alt.Color("policy:N", scale=alt.Scale(domain=list(policies)), legend=shown)


def _dash(policies: Sequence[str]) -> dict[str, alt.StrokeDash]:
    """Return the dashes that tell policies apart once the colours come round again."""
    n = len(LIGHT_COLOURS)
    if len(policies) <= n:
        return {}
    dashes = [DASHES[i // n % len(DASHES)] for i in range(len(policies))]
    scale = alt.Scale(domain=list(policies), range=dashes)
    return {"strokeDash": alt.StrokeDash("policy:N", scale=scale, legend=None)}


def _thousands(title: str, name: str, **more: Any) -> alt.X:
    # Each number by itself: "~s" as the axis' format would write 200 beside 1k as 0.2k.
    axis = {"tickCount": 6, "labelExpr": "format(datum.value, '~s')", **more.pop("axis", {})}
    return alt.X(name, title=title, axis=alt.Axis(**axis), **more)


def _names(base: alt.Chart, measure: str, colour: alt.Color, right: int = 8) -> alt.Chart:
    """Return policies' names to the right of their last points; see :func:`with_names`."""
    named: alt.Chart = (
        base.transform_filter("isValid(datum.label_at)")
        .mark_text(align="left", dx=right, limit=110)
        .encode(y=alt.Y("label_at:Q", title=MEASURES[measure]), text="policy:N", color=colour)
        .properties(name="names")
    )
    return named


def _interval_tips(measure: str) -> list[alt.Tooltip]:
    form = ",.1f" if measure == REGRET else ".4f"
    name = "mean regret" if measure == REGRET else "mean reward a round"
    return [
        alt.Tooltip("policy:N"),
        alt.Tooltip("value:Q", title=name, format=form),
        alt.Tooltip("low:Q", title="95 % from", format=form),
        alt.Tooltip("high:Q", title="95 % to", format=form),
    ]


def regret(policies: Sequence[str], measure: str, *, legend: Sequence[str] = ()) -> Layered:
    """Mean curves over rounds with 95 % bands, each named where it ends."""
    x = _thousands("round", "round:Q", scale=alt.Scale(nice=False))
    colour = _colour(policies, legend)
    line_colour = {"color": colour, **_dash(policies)}
    base = alt.Chart().encode(x=x)
    value = alt.Y("value:Q", title=MEASURES[measure], scale=alt.Scale(nice=False))
    band = base.mark_area(opacity=0.16).encode(
        y=alt.Y("low:Q", title=MEASURES[measure]), y2="high:Q", color=colour
    )
    line = base.mark_line(strokeWidth=2.2).encode(y=value, **line_colour)
    # Invisible, and larger than a line: something to point at.
    touch = base.mark_point(size=160, opacity=0, filled=True).encode(
        y=value,
        color=colour,
        tooltip=[alt.Tooltip("round:Q", format=","), *_interval_tips(measure)],
    )
    return _layers(band, line, touch, _names(base, measure, colour))


def final(policies: Sequence[str], measure: str, *, legend: Sequence[str] = ()) -> Layered:
    """Each policy's figure at the horizon with its 95 % interval, best on top."""
    order = alt.EncodingSortField("value", order="ascending" if measure == REGRET else "descending")
    colour = _colour(policies, legend)
    base = alt.Chart().encode(
        y=alt.Y("policy:N", title=None, sort=order, axis=alt.Axis(labelLimit=150, grid=False)),
    )
    scale = alt.Scale(zero=measure == REGRET, nice=False)
    x = alt.X("value:Q", title=MEASURES[measure], scale=scale, axis=alt.Axis(tickCount=4))
    whisker = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title=MEASURES[measure]), x2="high:Q", color=colour
    )
    dot = base.mark_point(filled=True, size=90, opacity=1).encode(
        x=x, color=colour, tooltip=_interval_tips(measure)
    )
    text = base.mark_text(align="left", dx=9).encode(x=alt.X("high:Q"), text="label:N")
    return _layers(whisker, dot, text)


def loglog(
    policies: Sequence[str], horizons: Sequence[int], *, legend: Sequence[str] = ()
) -> Layered:
    """Mean regret at each horizon on log scales, with fitted lines and Table 1's slope."""
    low, high = min(horizons), max(horizons)
    room = (high / low) ** 0.04
    x = _thousands(
        "horizon T (rounds)",
        "T:Q",
        scale=alt.Scale(type="log", domain=[low / room, high * room], nice=False),
        axis={"values": list(horizons)},
    )
    y = alt.Y("value:Q", title=MEASURES[REGRET], scale=alt.Scale(type="log"),
              axis=alt.Axis(format=",", tickCount=3))  # fmt: skip
    colour = _colour(policies, legend)
    base = alt.Chart().encode(x=x)
    dots = base.transform_filter("datum.kind == 'mean'")
    whisker = dots.mark_rule(strokeWidth=1.5).encode(
        y=alt.Y("drawn_low:Q", title=MEASURES[REGRET]), y2="high:Q", color=colour
    )
    dot = dots.mark_point(filled=True, size=60, opacity=1).encode(
        y=y, color=colour,
        tooltip=[alt.Tooltip("T:Q", format=","), *_interval_tips(REGRET)],
    )  # fmt: skip
    fit = (
        base.transform_filter("datum.kind == 'fit'")
        .mark_line(strokeWidth=1.8)
        .encode(y=y, color=colour, **_dash(policies))
    )
    slope = (
        base.transform_filter("datum.kind == 'fit' && isValid(datum.label_at)")
        .mark_text(align="left", dx=14, limit=150)
        .encode(y=alt.Y("label_at:Q", title=MEASURES[REGRET]), text="label:N", color=colour)
        .properties(name="names")
    )
    promise = base.transform_filter("datum.kind == 'promise'")
    guide = promise.mark_line(strokeDash=[3, 4], strokeWidth=1.5, color="#808a96").encode(
        y=y, detail="label:N"
    )
    promised = (
        promise.transform_filter("isValid(datum.label_at)")
        .mark_text(align="left", dx=14, limit=150)
        .encode(y=alt.Y("label_at:Q", title=MEASURES[REGRET]), text="label:N")
        .properties(name="names_of_table_1")
    )
    return _layers(guide, fit, whisker, dot, slope, promised)


def lam(
    policies: Sequence[str], measure: str, values: Sequence[float], *, legend: Sequence[str] = ()
) -> Layered:
    """Figures at one horizon across the evolution rate, with 95 % bars."""
    wide = min(values) > 0 and max(values) >= 10 * min(values)
    scale = alt.Scale(type="log", nice=False, padding=LAM_PADDING)
    if not wide:
        scale = alt.Scale(type="linear", zero=False, nice=False, padding=LAM_PADDING)
    ticks = list(values) if len(values) <= 8 else alt.Undefined
    x = alt.X("lam:Q", title="evolution rate lam", scale=scale,
              axis=alt.Axis(values=ticks, format="~g"))  # fmt: skip
    colour = _colour(policies, legend)
    base = alt.Chart().encode(x=x)
    value = alt.Y("value:Q", title=MEASURES[measure], scale=alt.Scale(nice=True))
    whisker = base.mark_rule(strokeWidth=1.5).encode(
        y=alt.Y("low:Q", title=MEASURES[measure]), y2="high:Q", color=colour
    )
    line = base.mark_line(strokeWidth=2).encode(y=value, color=colour, **_dash(policies))
    dot = base.mark_point(filled=True, size=60, opacity=1).encode(
        y=value, color=colour,
        tooltip=[alt.Tooltip("lam:Q", format="~g"), *_interval_tips(measure)],
    )  # fmt: skip
    beside_the_axis = LAM_PADDING + 6
    return _layers(whisker, line, dot, _names(base, measure, colour, beside_the_axis))


def state() -> Layered:
    """Show the state over rounds of one cell: mean of each bin, and its range there."""
    x = _thousands("round", "round:Q", scale=alt.Scale(nice=False))
    base = alt.Chart().transform_calculate(what="'state'").encode(x=x)
    title = "state q (mean and range)"
    colour = alt.Color("what:N", legend=None)  # the theme's first colour
    band = base.mark_area(opacity=0.25).encode(
        y=alt.Y("lowest:Q", title=title), y2="highest:Q", color=colour
    )
    y = alt.Y("state:Q", title=title, axis=alt.Axis(minExtent=PATH_EXTENT))
    line = base.mark_line(strokeWidth=1.8).encode(y=y, color=colour)
    touch = base.mark_point(size=120, opacity=0, filled=True).encode(
        y=y,
        tooltip=[
            alt.Tooltip("round:Q", title="rounds from", format=","),
            alt.Tooltip("until:Q", title="to", format=","),
            alt.Tooltip("state:Q", title="mean state", format=".3f"),
            alt.Tooltip("lowest:Q", format=".3f"),
            alt.Tooltip("highest:Q", format=".3f"),
        ],
    )
    return _layers(band, line, touch)


def arms(names: Sequence[str]) -> alt.Chart:
    """Show which arms one cell pulled over rounds: their shares of each bin."""
    chart: alt.Chart = (
        alt.Chart()
        .mark_area(interpolate="step-after", opacity=0.9)
        .encode(
            x=_thousands("round", "round:Q", scale=alt.Scale(nice=False)),
            y=alt.Y("share:Q", title="share of pulls", stack="normalize",
                    axis=alt.Axis(format=".0%", minExtent=PATH_EXTENT)),
            color=alt.Color("arm:N", scale=alt.Scale(domain=list(names)),
                            legend=alt.Legend(title=None, orient="top")),
            order=alt.Order("position:Q"),
            tooltip=[
                alt.Tooltip("arm:N"),
                alt.Tooltip("round:Q", title="rounds from", format=","),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
    )  # fmt: skip
    return chart


def gap(horizons: Sequence[int]) -> Layered:
    """How far from optimal each benchmark can be at most, as a share of its value."""
    scale = alt.Scale(type="log", domainMin=1e-12, nice=False)
    x = alt.X("drawn_share:Q", title="proven gap / benchmark (1e-12 stands for less)",
              scale=scale, axis=alt.Axis(format=".0e", tickCount=6))  # fmt: skip
    names = [f"{horizon:,}" for horizon in horizons]
    dot = (
        alt.Chart()
        .mark_point(filled=True, size=80, opacity=1)
        .encode(
            x=x,
            y=alt.Y("environment:N", title=None, sort=None, axis=alt.Axis(labelLimit=220)),
            yOffset=alt.YOffset("rounds:N", scale=alt.Scale(domain=names)),
            color=alt.Color("rounds:N", scale=alt.Scale(domain=names),
                            legend=alt.Legend(title="T")),
            tooltip=[
                alt.Tooltip("environment:N"),
                alt.Tooltip("T:Q", format=","),
                alt.Tooltip("value:Q", title="benchmark", format=",.2f"),
                alt.Tooltip("upper_bound:Q", title="upper bound", format=",.2f"),
                alt.Tooltip("share:Q", title="gap", format=".2e"),
            ],
        )
    )  # fmt: skip
    return _layers(dot)


def spread(
    values: Sequence[float], lowest: float, highest: float, *, log: bool = False
) -> list[float]:
    """Return where to write labels so that none covers another, as near as can be.

    Parameters
    ----------
    values : sequence of float
        Where they belong.
    lowest, highest : float
        The ends of the axis.
    log : bool
        Whether the axis is logarithmic.
    """
    there: Callable[[float], float] = math.log if log else float
    back: Callable[[float], float] = math.exp if log else float
    bottom, top = there(lowest), there(highest)
    step = (top - bottom) * LABEL_HEIGHT or 1.0
    clusters: list[_Cluster] = []
    for index in sorted(range(len(values)), key=lambda i: values[i]):
        clusters.append(_Cluster.around(there(values[index]), [index], step, bottom, top))
        while len(clusters) > 1 and clusters[-2].end > clusters[-1].start:
            above, below = clusters.pop(), clusters.pop()
            members = below.members + above.members
            centre = sum(there(values[i]) for i in members) / len(members)
            clusters.append(_Cluster.around(centre, members, step, bottom, top))
    placed = [0.0] * len(values)
    for cluster in clusters:
        for k, index in enumerate(cluster.members):
            placed[index] = back(cluster.start + step * (k + 0.5))
    return placed


@frozen
class _Cluster:
    """Labels that stand one above the other, from the lowest, without a space."""

    start: float
    end: float
    members: list[int]

    @classmethod
    def around(
        cls, centre: float, members: list[int], step: float, bottom: float, top: float
    ) -> "_Cluster":
        """Return labels centred at a place, or as near as the axis' ends allow."""
        height = step * len(members)
        start = max(min(centre - height / 2, top + step / 2 - height), bottom - step / 2)
        return cls(start, start + height, members)


def with_names(rows: list[Row], by: str = "environment", x: str = "round") -> list[Row]:
    """Return rows with the place of each policy's name beside its last point.

    Parameters
    ----------
    rows : list of rows
        With ``policy``, ``value``, ``low`` and ``high``.
    by, x : str
        The column that tells panels apart, and the one the horizontal axis shows.
    """
    panels: dict[str, list[Row]] = {}
    for row in rows:
        panels.setdefault(row[by], []).append(row)
    for here in panels.values():
        last: dict[str, Row] = {}
        for row in here:
            if row["policy"] not in last or row[x] > last[row["policy"]][x]:
                last[row["policy"]] = row
        ends = [row[end] for row in here for end in ("low", "high")]
        values = [row["value"] for row in last.values()]
        places = spread(values, min(*ends, 0.0), max(ends))
        for row, place in zip(last.values(), places, strict=True):
            row["label_at"] = place
    return rows
