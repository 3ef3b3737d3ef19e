"""Charts, defined once in Altair: the page makes them interactive, ``bdes plot`` saves them.

A definition holds no data: it names the columns of the rows it is given (see :mod:`data`).
"""

from collections.abc import Sequence
from typing import Any

import altair as alt

from bdes_framework.report.data import REGRET, REWARD

Layered = alt.LayerChart

MEASURES = {
    REGRET: "mean DES regret (expected reward lost)",
    REWARD: "mean expected reward per round",
}
"""How the axis of each measure is titled, with its unit."""

AXIS_WIDTH = 42
"""Room for the numbers of vertical axes, so that charts below each other line up."""

LAM_PADDING = 14
"""Room beside the first and last lam, so that their bars are not on the axis, in pixels."""

# Okabe and Ito's palette: distinguishable without seeing all colours.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK = "#E69F00", "#56B4E9", "#000000"
LIGHT_COLOURS = [BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK, "#8A8A8A"]
# Lighter where the original would drown in a dark page; yellow, too faint on white, in its place.
DARK_COLOURS = ["#4BA3DE", "#F0803C", "#2BC394", "#DE9CC4", ORANGE, "#9BD3F5", "#F0E442", "#B4B4B4"]
DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3]]
"""With more policies than colours the colours come round again, dashed."""

_FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', 'Liberation Sans', sans-serif"


def theme(name: str) -> dict[str, Any]:
    """Return the Vega-Lite config of a theme, ``"light"`` or ``"dark"``."""
    dark = name == "dark"
    text, soft = ("#e8ebf0", "#b3bcc9") if dark else ("#1d2530", "#4a5462")
    grid, ground = ("#333b47", "#171b21") if dark else ("#e3e7ec", "#ffffff")
    axis = {"labelColor": soft, "domainColor": soft, "tickColor": soft, "gridColor": grid}
    axis_text = {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": 500}
    title_text = {"fontSize": 13, "fontWeight": 600}
    labels = {"labelColor": text, "titleColor": text, "labelFontSize": 12}
    symbols = {"symbolStrokeWidth": 2.5, "symbolSize": 140}
    return {
        "font": _FONT,
        "background": ground,
        "padding": 6,
        "view": {"stroke": None},
        "range": {"category": DARK_COLOURS if dark else LIGHT_COLOURS},
        "title": {"color": text, "anchor": "start", "offset": 10, **title_text},
        "axis": {**axis, **axis_text, "titleColor": text, "labelOverlap": True, "titlePadding": 8},
        "legend": {**labels, **symbols, "titleFontSize": 12, "labelLimit": 220},
        "header": {**labels, "labelFontWeight": 600, "labelLimit": 300, "labelAnchor": "start"},
        "text": {"color": text, "fontSize": 11},
        "rule": {"color": soft},
    }


def _layers(*layers: alt.Chart) -> Layered:
    return alt.LayerChart(layer=list(layers))


def _colour(policies: Sequence[str], legend: Sequence[str]) -> alt.Color:
    """Return the colours of policies, the same in every chart of a run, and those in the legend."""
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
    """Return a horizontal axis of counts, written as 200, 1k, 20k."""
    # Each number by itself: "~s" as the axis' format would write 200 beside 1k as 0.2k.
    axis = {"tickCount": 6, "labelExpr": "format(datum.value, '~s')", **more.pop("axis", {})}
    return alt.X(name, title=title, axis=alt.Axis(**axis), **more)


def _rounds() -> alt.X:
    return _thousands("round", "round:Q", scale=alt.Scale(nice=False))


def _names(
    base: alt.Chart, title: str, text: str, dx: int, limit: int, **encoding: Any
) -> alt.Chart:
    """Return text to the right of each line's end, where rows have ``label_at``."""
    named: alt.Chart = base.mark_text(align="left", dx=dx, limit=limit).encode(
        y=alt.Y("label_at:Q", title=title), text=text, **encoding
    )
    return named


def _policy_names(base: alt.Chart, measure: str, colour: alt.Color, dx: int = 8) -> alt.Chart:
    """Return policies' names to the right of their last points; see ``labels.place_names``."""
    ends = base.transform_filter("isValid(datum.label_at)").properties(name="names")
    return _names(ends, MEASURES[measure], "policy:N", dx, 110, color=colour)


def _bars(base: alt.Chart, title: str, width: float, colour: alt.Color, low: str) -> alt.Chart:
    """Return vertical bars of 95 % intervals."""
    bars: alt.Chart = base.mark_rule(strokeWidth=width).encode(
        y=alt.Y(f"{low}:Q", title=title), y2="high:Q", color=colour
    )
    return bars


def _dots(base: alt.Chart, size: int, opacity: float = 1, **encoding: Any) -> alt.Chart:
    """Return points; invisible ones, larger than a line, are something to point at."""
    dots: alt.Chart = base.mark_point(filled=True, size=size, opacity=opacity).encode(**encoding)
    return dots


def _interval_tips(measure: str) -> list[alt.Tooltip]:
    form = ",.1f" if measure == REGRET else ".4f"
    name = "mean regret" if measure == REGRET else "mean reward per round"
    columns = {"value:Q": name, "low:Q": "95 % from", "high:Q": "95 % to"}
    tips = [alt.Tooltip(column, title=title, format=form) for column, title in columns.items()]
    return [alt.Tooltip("policy:N"), *tips]


def regret(policies: Sequence[str], measure: str, *, legend: Sequence[str] = ()) -> Layered:
    """Return mean curves over rounds with 95 % bands, each named where it ends."""
    colour = _colour(policies, legend)
    base = alt.Chart().encode(x=_rounds())
    value = alt.Y("value:Q", title=MEASURES[measure], scale=alt.Scale(nice=False))
    band = base.mark_area(opacity=0.16).encode(
        y=alt.Y("low:Q", title=MEASURES[measure]), y2="high:Q", color=colour
    )
    line = base.mark_line(strokeWidth=2.2).encode(y=value, color=colour, **_dash(policies))
    tips = [alt.Tooltip("round:Q", format=","), *_interval_tips(measure)]
    touch = _dots(base, 160, opacity=0, y=value, color=colour, tooltip=tips)
    return _layers(band, line, touch, _policy_names(base, measure, colour))


def final(policies: Sequence[str], measure: str, *, legend: Sequence[str] = ()) -> Layered:
    """Return each policy's mean at the horizon with its 95 % interval, best on top."""
    order = alt.EncodingSortField("value", order="ascending" if measure == REGRET else "descending")
    colour = _colour(policies, legend)
    base = alt.Chart().encode(
        y=alt.Y("policy:N", title=None, sort=order, axis=alt.Axis(labelLimit=150, grid=False)),
    )
    scale = alt.Scale(zero=measure == REGRET, nice=False)
    x = alt.X("value:Q", title=MEASURES[measure], scale=scale, axis=alt.Axis(tickCount=4))
    bars = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title=MEASURES[measure]), x2="high:Q", color=colour
    )
    dots = _dots(base, 90, x=x, color=colour, tooltip=_interval_tips(measure))
    text = base.mark_text(align="left", dx=9).encode(x=alt.X("high:Q"), text="label:N")
    return _layers(bars, dots, text)


def loglog(
    policies: Sequence[str], horizons: Sequence[int], *, legend: Sequence[str] = ()
) -> Layered:
    """Return mean regret at each horizon on log scales, with fitted lines and Table 1's slope."""
    low, high = min(horizons), max(horizons)
    room = (high / low) ** 0.04
    x_scale = alt.Scale(type="log", domain=[low / room, high * room], nice=False)
    x = _thousands("horizon T (rounds)", "T:Q", scale=x_scale, axis={"values": list(horizons)})
    title = MEASURES[REGRET]
    axis = alt.Axis(format=",", tickCount=3)
    y = alt.Y("value:Q", title=title, scale=alt.Scale(type="log"), axis=axis)
    colour = _colour(policies, legend)
    base = alt.Chart().encode(x=x)
    means = base.transform_filter("datum.kind == 'mean'")
    tips = [alt.Tooltip("T:Q", format=","), *_interval_tips(REGRET)]
    fits = base.transform_filter("datum.kind == 'fit'")
    slopes = base.transform_filter("datum.kind == 'fit' && isValid(datum.label_at)")
    promise = base.transform_filter("datum.kind == 'promise'")
    promised = promise.transform_filter("isValid(datum.label_at)")
    guide = promise.mark_line(strokeDash=[3, 4], strokeWidth=1.5, color="#808a96")
    return _layers(
        guide.encode(y=y, detail="label:N"),
        fits.mark_line(strokeWidth=1.8).encode(y=y, color=colour, **_dash(policies)),
        _bars(means, title, 1.5, colour, "drawn_low"),
        _dots(means, 60, y=y, color=colour, tooltip=tips),
        _names(slopes.properties(name="names"), title, "label:N", 14, 150, color=colour),
        _names(promised.properties(name="names_of_table_1"), title, "label:N", 14, 150),
    )


def lam(
    policies: Sequence[str], measure: str, values: Sequence[float], *, legend: Sequence[str] = ()
) -> Layered:
    """Return means at one horizon across the evolution rate, with 95 % bars."""
    wide = min(values) > 0 and max(values) >= 10 * min(values)
    scale = alt.Scale(type="log", nice=False, padding=LAM_PADDING)
    if not wide:
        scale = alt.Scale(type="linear", zero=False, nice=False, padding=LAM_PADDING)
    axis = alt.Axis(values=list(values) if len(values) <= 8 else alt.Undefined, format="~g")
    colour = _colour(policies, legend)
    base = alt.Chart().encode(x=alt.X("lam:Q", title="evolution rate lam", scale=scale, axis=axis))
    value = alt.Y("value:Q", title=MEASURES[measure], scale=alt.Scale(nice=True))
    tips = [alt.Tooltip("lam:Q", format="~g"), *_interval_tips(measure)]
    return _layers(
        _bars(base, MEASURES[measure], 1.5, colour, "low"),
        base.mark_line(strokeWidth=2).encode(y=value, color=colour, **_dash(policies)),
        _dots(base, 60, y=value, color=colour, tooltip=tips),
        _policy_names(base, measure, colour, dx=LAM_PADDING + 6),
    )


def state() -> Layered:
    """Return the state over rounds of one cell: mean of each bin, and its range there."""
    base = alt.Chart().transform_calculate(what="'state'").encode(x=_rounds())
    title = "state q (mean and range)"
    colour = alt.Color("what:N", legend=None)  # the theme's first colour
    band = base.mark_area(opacity=0.25).encode(
        y=alt.Y("lowest:Q", title=title), y2="highest:Q", color=colour
    )
    y = alt.Y("state:Q", title=title, axis=alt.Axis(minExtent=AXIS_WIDTH))
    tips = [
        alt.Tooltip("round:Q", title="rounds from", format=","),
        alt.Tooltip("until:Q", title="to", format=","),
        alt.Tooltip("state:Q", title="mean state", format=".3f"),
        alt.Tooltip("lowest:Q", format=".3f"),
        alt.Tooltip("highest:Q", format=".3f"),
    ]
    line = base.mark_line(strokeWidth=1.8).encode(y=y, color=colour)
    return _layers(band, line, _dots(base, 120, opacity=0, y=y, tooltip=tips))


def arms(names: Sequence[str]) -> alt.Chart:
    """Return the arms one cell pulled over rounds: their shares of each bin."""
    axis = alt.Axis(format=".0%", minExtent=AXIS_WIDTH)
    legend = alt.Legend(title=None, orient="top")
    chart: alt.Chart = (
        alt.Chart()
        .mark_area(interpolate="step-after", opacity=0.9)
        .encode(
            x=_rounds(),
            y=alt.Y("share:Q", title="share of pulls", stack="normalize", axis=axis),
            color=alt.Color("arm:N", scale=alt.Scale(domain=list(names)), legend=legend),
            order=alt.Order("position:Q"),
            tooltip=[
                alt.Tooltip("arm:N"),
                alt.Tooltip("round:Q", title="rounds from", format=","),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
    )
    return chart


def gap(horizons: Sequence[int]) -> Layered:
    """Return the proven gap of each benchmark to the optimum, as a share of the upper bound."""
    scale = alt.Scale(type="log", domainMin=1e-12, nice=False)
    axis = alt.Axis(format=".0e", tickCount=6)
    title = "proven gap / upper bound (1e-12 stands for less)"
    rounds = alt.Scale(domain=[f"{horizon:,}" for horizon in horizons])
    dots = _dots(
        alt.Chart(),
        80,
        x=alt.X("drawn_gap:Q", title=title, scale=scale, axis=axis),
        y=alt.Y("environment:N", title=None, sort=None, axis=alt.Axis(labelLimit=220)),
        yOffset=alt.YOffset("rounds:N", scale=rounds),
        color=alt.Color("rounds:N", scale=rounds, legend=alt.Legend(title="T")),
        tooltip=[
            alt.Tooltip("environment:N"),
            alt.Tooltip("T:Q", format=","),
            alt.Tooltip("value:Q", title="benchmark", format=",.2f"),
            alt.Tooltip("upper_bound:Q", title="upper bound", format=",.2f"),
            alt.Tooltip("gap:Q", title="gap", format=".2e"),
        ],
    )
    return _layers(dots)
