"""The charts of a fit's page, defined once in Altair; see :mod:`charts` for themes."""

from collections.abc import Sequence

import altair as alt

from bdes_framework.report.fit_data import (
    BEYOND,
    OBSERVED,
    PLAN,
    PREDICTED,
    TODAY,
    WITHIN,
)

_LINES, _SOFT = "category", "ordinal"
"""Vega's names of the ranges that themes give lines and soft fills; see :mod:`charts`."""
HEIGHT = 200
_LEGEND = alt.Legend(title=None, orient="top", symbolSize=60, columnPadding=6, labelFontSize=11)
"""Small: three panels stand side by side on paper."""


def response(title: str, *, whole: bool = False) -> alt.LayerChart:
    """Return observed responses with their intervals, and the line the model predicts."""
    axis = alt.Axis(format="d", tickMinStep=1) if whole else alt.Axis(tickCount=5)
    x = alt.X("at:Q", title=title, scale=alt.Scale(zero=False, padding=10), axis=axis)
    base = alt.Chart().encode(x=x)
    y_title = "share that responds"
    y = alt.Scale(zero=True, nice=True)
    tips = [
        alt.Tooltip("at:Q", title=title, format=".3~g"),
        alt.Tooltip("observed:Q", format=".2%"),
        alt.Tooltip("low:Q", title="95 % from", format=".2%"),
        alt.Tooltip("high:Q", title="95 % to", format=".2%"),
        alt.Tooltip("predicted:Q", format=".2%"),
        alt.Tooltip("rows:Q", format=","),
    ]
    colour = alt.Color(
        "what:N",
        scale=alt.Scale(domain=[OBSERVED, PREDICTED], range=_LINES),
        legend=_LEGEND,
    )
    line = (
        base.transform_calculate(what=f"'{PREDICTED}'")
        .mark_line(strokeWidth=2.2)
        .encode(y=alt.Y("predicted:Q", title=y_title), color=colour)
    )
    bars = (
        base.transform_calculate(what=f"'{OBSERVED}'")
        .mark_rule(strokeWidth=2)
        .encode(
            y=alt.Y("low:Q", title=y_title, scale=y, axis=alt.Axis(format=".1%", tickCount=5)),
            y2="high:Q",
            color=colour,
        )
    )
    dots = (
        base.transform_calculate(what=f"'{OBSERVED}'")
        .mark_point(filled=True, size=50)
        .encode(y=alt.Y("observed:Q", title=y_title), color=colour, tooltip=tips)
    )
    return alt.LayerChart(layer=[bars, line, dots]).properties(height=HEIGHT)


def states(highest: float, *, planned: bool) -> alt.LayerChart:
    """Return how visits are spread over states, today and, if there is one, under the plan."""
    colour = alt.Color(
        "what:N",
        scale=alt.Scale(domain=[TODAY, PLAN][: 1 + planned], range=_SOFT),
        legend=_LEGEND,
    )
    bars = (
        alt.Chart()
        .mark_rect(opacity=0.75)
        .encode(
            x=alt.X("state:Q", title="state q", scale=alt.Scale(domain=[0, highest], nice=False)),
            x2="until:Q",
            y=alt.Y("share:Q", title="share of visits", axis=alt.Axis(format=".0%")),
            y2=alt.datum(0),
            color=colour,
            tooltip=[
                alt.Tooltip("what:N", title="of"),
                alt.Tooltip("state:Q", title="state from", format=".3~f"),
                alt.Tooltip("until:Q", title="to", format=".3~f"),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
    )
    return alt.LayerChart(layer=[bars]).properties(height=HEIGHT)


def table(names: Sequence[str], highest: float) -> alt.LayerChart:
    """Return a decision table as a band: which arm is shown at which state."""
    colour = alt.Color(
        "arm:N",
        scale=alt.Scale(domain=list(names), range=_SOFT),
        legend=_LEGEND,
    )
    x = alt.X("state:Q", title="state q", scale=alt.Scale(domain=[0, highest], nice=False))
    band = (
        alt.Chart()
        .mark_bar(height=60, opacity=0.9)
        .encode(
            x=x,
            x2="until:Q",
            color=colour,
            tooltip=[
                alt.Tooltip("arm:N", title="show"),
                alt.Tooltip("state:Q", title="state from", format=".4~f"),
                alt.Tooltip("until:Q", title="to", format=".4~f"),
            ],
        )
    )
    return alt.LayerChart(layer=[band]).properties(height=80)


def lift() -> alt.LayerChart:
    """Return the distribution of a lift over the draws of the posterior."""
    colour = alt.Color(
        "what:N",
        scale=alt.Scale(domain=[BEYOND, WITHIN], range=_LINES),
        legend=None,
    )
    bars = (
        alt.Chart()
        .mark_rect()
        .encode(
            x=alt.X(
                "lift:Q",
                title="lift",
                axis=alt.Axis(format="+.1%", tickCount=5),
                scale=alt.Scale(zero=False, nice=False),
            ),
            x2="until:Q",
            y=alt.Y("share:Q", title="share of draws", axis=alt.Axis(format=".0%", tickCount=4)),
            y2=alt.datum(0),
            color=colour,
            tooltip=[
                alt.Tooltip("lift:Q", title="lift from", format="+.2%"),
                alt.Tooltip("until:Q", title="to", format="+.2%"),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
    )
    return alt.LayerChart(layer=[bars]).properties(height=HEIGHT)
