"""Charts, defined once in Altair: the page makes them interactive, ``bdes plot`` saves them.

A definition holds no data: it names the columns of the rows it is given (see :mod:`data`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from bdes_framework._internal.colours import ARMS, BLUE, CHART_DARK, HORIZONS, WHITE, Colour
from bdes_framework.experiment.result_table import Step
from bdes_framework.report.data import (
    COHORT_REWARD,
    COHORT_SHARE,
    REGRET,
    REWARD,
    SHARE,
    USER_REGRET,
    USER_REWARD,
    VISIT_REWARD,
)
from bdes_framework.report.labels import drawn_range, is_wide

Layered = alt.LayerChart

Policies = Mapping[str, Colour]
"""The policies of a run as they are shown, in their order, with their colours."""

MEASURES = {
    REGRET: "mean DES regret (expected reward lost)",
    REWARD: "mean expected reward per round",
    SHARE: "mean share of OPT",
    VISIT_REWARD: "mean expected reward per visit",
    USER_REGRET: "mean DES regret (expected reward lost)",
    USER_REWARD: "mean expected reward per user",
    COHORT_SHARE: "mean share of OPT",
    COHORT_REWARD: "mean expected reward per user",
}
"""How the axis of each measure is titled, with its unit."""

TITLES = {"lam": "evolution rate lam", "K": "number of arms K"}
"""How axes of what varies between settings are titled."""


def horizon_title(step: Step) -> str:
    """Return how an axis of horizons is titled."""
    return f"horizon T ({step}s)"


TOUCH = "touch"
"""The name of the layer whose nearest point the page shows."""

AXIS_WIDTH = 42
"""Room for the numbers of vertical axes, so that charts below each other line up."""

EDGE_PADDING = 14
"""Room beside the first and last value of x, so that their bars are not on the axis, in pixels."""

DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3]]
"""With more policies than colours the colours come round again, dashed."""

# Vega's names of ranges, each taken for one thing: definitions then fit both themes.
_POLICIES, _POLICY_TEXT, _ARMS, _HORIZONS = "category", "diverging", "ordinal", "ramp"
_STATE = "heatmap"

_FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', 'Liberation Sans', sans-serif"


def theme(name: str, policies: Sequence[Colour] = ()) -> dict[str, Any]:
    """Return the Vega-Lite config of a theme, ``"light"`` or ``"dark"``, with policies' colours."""
    dark = name == "dark"
    text, soft = ("#e8ebf0", "#b3bcc9") if dark else ("#1d2530", "#4a5462")
    grid, ground = ("#333b47", CHART_DARK) if dark else ("#e3e7ec", WHITE)
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
        "range": {
            _POLICIES: [colour.line(name) for colour in policies] or [BLUE],
            _POLICY_TEXT: [colour.text(name) for colour in policies] or [BLUE],
            _ARMS: list(ARMS[name]),
            _HORIZONS: list(HORIZONS[name]),
            _STATE: [HORIZONS[name][2]],
        },
        "title": {"color": text, "anchor": "start", "offset": 10, **title_text},
        "axis": {**axis, **axis_text, "titleColor": text, "labelOverlap": True, "titlePadding": 8},
        "legend": {**labels, **symbols, "titleFontSize": 12, "labelLimit": 220},
        "header": {**labels, "labelFontWeight": 600, "labelLimit": 300, "labelAnchor": "start"},
        "text": {"color": text, "fontSize": 11},
        "rule": {"color": soft},
    }


def _layers(*layers: alt.Chart) -> Layered:
    return alt.LayerChart(layer=list(layers))


def _colour(policies: Policies, legend: Sequence[str] = ()) -> alt.Color:
    """Return the colours of policies, the same in every chart of a run, and those in the legend."""
    shown = alt.Legend(title="policy", values=list(legend)) if legend else None
    scale = alt.Scale(domain=list(policies), range=_POLICIES)
    return alt.Color("policy:N", scale=scale, legend=shown)


def _text_colour(policies: Policies) -> alt.Fill:
    """Return the colours of text beside lines: readable ones, not always the lines' own."""
    scale = alt.Scale(domain=list(policies), range=_POLICY_TEXT)
    return alt.Fill("policy:N", scale=scale, legend=None)


def _dash(policies: Policies) -> dict[str, alt.StrokeDash]:
    """Return the dashes that tell policies apart once the colours come round again."""
    if not any(colour.turn for colour in policies.values()):
        return {}
    dashes = [DASHES[colour.turn % len(DASHES)] for colour in policies.values()]
    scale = alt.Scale(domain=list(policies), range=dashes)
    return {"strokeDash": alt.StrokeDash("policy:N", scale=scale, legend=None)}


def _thousands(title: str, name: str, **more: Any) -> alt.X:
    """Return a horizontal axis of counts, written as 200, 1k, 20k."""
    # Each number by itself: "~s" as the axis' format would write 200 beside 1k as 0.2k.
    axis = {"tickCount": 6, "labelExpr": "format(datum.value, '~s')", **more.pop("axis", {})}
    return alt.X(name, title=title, axis=alt.Axis(**axis), **more)


def _rounds(title: str = "round", *, log: bool = False) -> alt.X:
    scale = alt.Scale(nice=False, type="log") if log else alt.Scale(nice=False)
    return _thousands(title, "round:Q", scale=scale)


def _names(
    base: alt.Chart, title: str, text: str, dx: int, limit: int, **encoding: Any
) -> alt.Chart:
    """Return text to the right of each line's end, where rows have ``label_at``."""
    named: alt.Chart = base.mark_text(align="left", dx=dx, limit=limit).encode(
        y=alt.Y("label_at:Q", title=title), text=text, **encoding
    )
    return named


def _policy_names(base: alt.Chart, measure: str, policies: Policies, dx: int = 8) -> alt.Chart:
    """Return policies' names to the right of their last points; see ``labels.place_names``."""
    ends = base.transform_filter("isValid(datum.label_at)").properties(name="names")
    return _names(ends, MEASURES[measure], "policy:N", dx, 110, fill=_text_colour(policies))


def _bars(base: alt.Chart, title: str, width: float, colour: alt.Color) -> alt.Chart:
    """Return vertical bars of 95 % intervals, as far as the axis goes."""
    bars: alt.Chart = base.mark_rule(strokeWidth=width).encode(
        y=alt.Y("drawn_low:Q", title=title), y2="drawn_high:Q", color=colour
    )
    return bars


def _dots(base: alt.Chart, size: int, opacity: float = 1, **encoding: Any) -> alt.Chart:
    """Return points; invisible ones, larger than a line, are something to point at."""
    dots: alt.Chart = base.mark_point(filled=True, size=size, opacity=opacity).encode(**encoding)
    return dots


_REGRETS, _SHARES = (REGRET, USER_REGRET), (SHARE, COHORT_SHARE)
_SHORT = {
    REGRET: "mean regret",
    REWARD: "mean reward per round",
    SHARE: "share of OPT",
    VISIT_REWARD: "mean reward per visit",
    USER_REGRET: "mean regret",
    USER_REWARD: "mean reward per user",
    COHORT_SHARE: "share of OPT",
    COHORT_REWARD: "mean reward per user",
}


def _form(measure: str) -> str:
    return ",.1f" if measure in _REGRETS else ".1%" if measure in _SHARES else ".4f"


def _interval_tips(measure: str) -> list[alt.Tooltip]:
    columns = {"value:Q": _SHORT[measure], "low:Q": "95 % from", "high:Q": "95 % to"}
    tips = [
        alt.Tooltip(column, title=title, format=_form(measure)) for column, title in columns.items()
    ]
    return [alt.Tooltip("policy:N"), *tips]


def _value_axis(measure: str, **more: Any) -> alt.Axis:
    return alt.Axis(format=".0%", **more) if measure in _SHARES else alt.Axis(**more)


def regret(
    policies: Policies,
    measure: str,
    *,
    over: str = "round",
    log: bool = False,
    legend: Sequence[str] = (),
) -> Layered:
    """Return mean curves over rounds with 95 % bands, each named where it ends.

    Or over visits, or users: what ``over`` says. With ``log``, on a logarithmic scale.
    """
    colour = _colour(policies, legend)
    base = alt.Chart().encode(x=_rounds(over, log=log))
    more: dict[str, Any] = {"scale": alt.Scale(nice=False)}
    if measure in _SHARES:
        more = {"scale": alt.Scale(nice=False, zero=False), "axis": _value_axis(measure)}
    value = alt.Y("value:Q", title=MEASURES[measure], **more)
    band = base.mark_area(opacity=0.16).encode(
        y=alt.Y("low:Q", title=MEASURES[measure]), y2="high:Q", color=colour
    )
    line = base.mark_line(strokeWidth=2.2).encode(y=value, color=colour, **_dash(policies))
    tips = [alt.Tooltip("round:Q", title=over, format=","), *_interval_tips(measure)]
    touch = _dots(base, 70, opacity=0, y=value, color=colour, tooltip=tips)
    return _layers(band, line, touch.properties(name=TOUCH), _policy_names(base, measure, policies))


def final(policies: Policies, measure: str) -> Layered:
    """Return each policy's mean at the horizon with its 95 % interval, best on top."""
    order = alt.EncodingSortField("value", order="ascending" if measure == REGRET else "descending")
    colour = _colour(policies)
    base = alt.Chart().encode(
        y=alt.Y("policy:N", title=None, sort=order, axis=alt.Axis(labelLimit=150, grid=False)),
    )
    scale = alt.Scale(zero=measure == REGRET, nice=measure != REGRET)
    axis = _value_axis(measure, tickCount=4)
    x = alt.X("value:Q", title=MEASURES[measure], scale=scale, axis=axis)
    bars = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("drawn_low:Q", title=MEASURES[measure]),
        x2="drawn_high:Q",
        color=colour,
    )
    dots = _dots(base, 90, x=x, color=colour, tooltip=_interval_tips(measure))
    # Below each other, where the plot ends: beside the bars some would not fit.
    text = base.mark_text(align="left", dx=9).encode(x=alt.value("width"), text="label:N")
    return _layers(bars, dots, text)


def loglog(
    policies: Policies,
    horizons: Sequence[int],
    *,
    step: Step = "round",
    legend: Sequence[str] = (),
) -> Layered:
    """Return mean regret at each horizon on log scales, with fitted lines and Table 1's slope."""
    # Room in pixels, not in rounds: the names beside the lines must not move as the plot shrinks.
    x_scale = alt.Scale(type="log", nice=False, padding=EDGE_PADDING)
    x = _thousands(horizon_title(step), "T:Q", scale=x_scale, axis={"values": list(horizons)})
    title = MEASURES[REGRET]
    axis = alt.Axis(format=",", tickCount=3)
    y = alt.Y("value:Q", title=title, scale=alt.Scale(type="log"), axis=axis)
    colour, text = _colour(policies, legend), _text_colour(policies)
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
        _bars(means, title, 1.5, colour),
        _dots(means, 60, y=y, color=colour, tooltip=tips).properties(name=TOUCH),
        _names(slopes.properties(name="names"), title, "label:N", 14, 150, fill=text),
        _names(promised.properties(name="names_of_table_1"), title, "label:N", 14, 150),
    )


def across(
    policies: Policies,
    measure: str,
    column: str,
    values: Sequence[float],
    *,
    step: Step = "round",
    legend: Sequence[str] = (),
) -> Layered:
    """Return means over a column of numbers such as lam, with 95 % bars.

    ``values`` are those of all panels: each has the whole axis, however few are its own.
    """
    scale = alt.Scale(type="log", nice=False, padding=EDGE_PADDING)
    if not is_wide(values):
        scale = alt.Scale(type="linear", zero=False, nice=False, padding=EDGE_PADDING)
    if len(values) > 1:
        scale.domain = list(drawn_range(values, len(policies)))
    axis: dict[str, Any] = {"values": list(values)} if len(values) <= 8 else {}
    title = horizon_title(step) if column == "T" else TITLES.get(column, column)

    def x(name: str) -> alt.X:
        if max(values) <= 1:
            return alt.X(name, title=title, scale=scale, axis=alt.Axis(**axis, format=".3~g"))
        return _thousands(title, name, scale=scale, axis=axis)

    colour = _colour(policies, legend)
    base = alt.Chart().encode(x=x("drawn_at:Q"))
    ends = alt.Chart().encode(x=x(f"{column}:Q"))
    heights = alt.Scale(nice=True)
    if measure == SHARE:  # nothing beyond 100 % but rounding: no tick above it
        heights = alt.Scale(nice=False, zero=False, padding=8)
    value = alt.Y("value:Q", title=MEASURES[measure], scale=heights, axis=_value_axis(measure))
    tips = [alt.Tooltip(f"{column}:Q", title=title, format=".4~g"), *_interval_tips(measure)]
    return _layers(
        _bars(base, MEASURES[measure], 1.5, colour),
        base.mark_line(strokeWidth=2).encode(y=value, color=colour, **_dash(policies)),
        _dots(base, 60, y=value, color=colour, tooltip=tips).properties(name=TOUCH),
        _policy_names(ends, measure, policies, dx=EDGE_PADDING + 14),
    )


def state() -> Layered:
    """Return the state over rounds of one cell: mean of each bin, and its range there."""
    base = alt.Chart().transform_calculate(what="'state'").encode(x=_rounds())
    title = "state q (mean and range)"
    colour = alt.Color("what:N", scale=alt.Scale(range=_STATE), legend=None)
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
    touch = _dots(base, 60, opacity=0, y=y, color=colour, tooltip=tips).properties(name=TOUCH)
    return _layers(band, line, touch)


def states() -> Layered:
    """Return the states of the users who came, over visits: quantiles of each bin."""
    base = alt.Chart().transform_calculate(what="'state'").encode(x=_rounds("visit"))
    title = "state q of who came"
    colour = alt.Color("what:N", scale=alt.Scale(range=_STATE), legend=None)

    def band(opacity: float, low: str, high: str) -> alt.Chart:
        area: alt.Chart = base.mark_area(opacity=opacity).encode(
            y=alt.Y(f"{low}:Q", title=title), y2=f"{high}:Q", color=colour
        )
        return area

    y = alt.Y("state:Q", title=title, axis=alt.Axis(minExtent=AXIS_WIDTH))
    tips = [
        alt.Tooltip("round:Q", title="visits from", format=","),
        alt.Tooltip("until:Q", title="to", format=","),
        *(alt.Tooltip(f"{name}:Q", title=text, format=".3f") for name, text in QUANTILES.items()),
    ]
    line = base.mark_line(strokeWidth=1.8).encode(y=y, color=colour)
    touch = _dots(base, 60, opacity=0, y=y, color=colour, tooltip=tips).properties(name=TOUCH)
    return _layers(band(0.18, "lowest", "highest"), band(0.25, "low", "high"), line, touch)


QUANTILES = {
    "lowest": "10 % below",
    "low": "25 % below",
    "state": "median",
    "high": "75 % below",
    "highest": "90 % below",
}
"""The quantiles of states that are shown, by the columns of their rows."""


def arms_by_state(names: Sequence[str]) -> alt.Chart:
    """Return what was shown at which state: each arm's share of the visits in each bin."""
    axis = alt.Axis(format=".0%", minExtent=AXIS_WIDTH)
    fills = alt.Scale(domain=list(names), range=_ARMS)
    chart: alt.Chart = (
        alt.Chart()
        .mark_rect(opacity=0.9)
        .encode(
            x=alt.X("from:Q", title="state q of who came", scale=alt.Scale(nice=False)),
            x2="to:Q",
            y=alt.Y("below:Q", title="share of visits", scale=alt.Scale(domain=[0, 1]), axis=axis),
            y2="above:Q",
            color=alt.Color("arm:N", scale=fills, legend=alt.Legend(title=None, orient="top")),
            tooltip=[
                alt.Tooltip("arm:N"),
                alt.Tooltip("from:Q", title="states from", format=".3f"),
                alt.Tooltip("to:Q", title="to", format=".3f"),
                alt.Tooltip("share:Q", format=".1%"),
                alt.Tooltip("visits:Q", title="of visits", format=","),
            ],
        )
    )
    return chart


def arms(names: Sequence[str], width: int | None = None, *, step: Step = "round") -> alt.Chart:
    """Return the arms one cell pulled over rounds, or showed over visits: shares of each bin.

    ``width`` is the plot's, if known: as many names stand side by side as fit.
    """
    legend = alt.Legend(title=None, orient="top")
    if width is not None:
        legend.columns = max(width // (7 * max(map(len, names)) + 30), 1)
    axis = alt.Axis(format=".0%", minExtent=AXIS_WIDTH)
    fills = alt.Scale(domain=list(names), range=_ARMS)
    title = "share of pulls" if step == "round" else "share of visits"
    chart: alt.Chart = (
        alt.Chart()
        .mark_area(interpolate="step-after", opacity=0.9)
        .encode(
            x=_rounds(step),
            y=alt.Y("share:Q", title=title, stack="normalize", axis=axis),
            color=alt.Color("arm:N", scale=fills, legend=legend),
            order=alt.Order("position:Q"),
            tooltip=[
                alt.Tooltip("arm:N"),
                alt.Tooltip("round:Q", title=f"{step}s from", format=","),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
    )
    return chart


def gap(horizons: Sequence[int], least: float) -> Layered:
    """Return the proven gap of each benchmark to the optimum, as a share of the upper bound.

    ``least`` is the least gap: the axis starts a decade below it.
    """
    scale = alt.Scale(type="log", domainMin=least / 10, nice=False)
    axis = alt.Axis(format=".0e", tickCount=6)
    title = "proven gap / upper bound (1e-12 stands for less)"
    names = [f"{horizon:,}" for horizon in horizons]
    rounds, shades = alt.Scale(domain=names), alt.Scale(domain=names, range=_HORIZONS)
    dots = _dots(
        alt.Chart(),
        80,
        x=alt.X("drawn_gap:Q", title=title, scale=scale, axis=axis),
        y=alt.Y("panel:N", title=None, sort=None, axis=alt.Axis(labelLimit=220)),
        yOffset=alt.YOffset("rounds:N", scale=rounds),
        color=alt.Color("rounds:N", scale=shades, legend=alt.Legend(title="T")),
        tooltip=[
            alt.Tooltip("panel:N", title="setting"),
            alt.Tooltip("T:Q", format=","),
            alt.Tooltip("value:Q", title="benchmark", format=",.2f"),
            alt.Tooltip("upper_bound:Q", title="upper bound", format=",.2f"),
            alt.Tooltip("gap:Q", title="gap", format=".2e"),
        ],
    )
    return _layers(dots)
