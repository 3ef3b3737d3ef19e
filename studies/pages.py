"""What the studies' pages share: Markdown tables, sections between markers, chart data, slopes."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from bdes_framework import FloatArray, IntArray
from bdes_framework.experiment.summary import loglog_line


def table(rows: Iterable[Mapping[str, str]]) -> str:
    """Return a Markdown table of rows by heading."""
    found = list(rows)
    lines = [list(found[0]), ["---"] * len(found[0]), *(row.values() for row in found)]
    return "\n".join(f"| {' | '.join(line)} |".replace("| --- ", "|---") for line in lines)


def replaced_between(text: str, begin: str, end: str, new: str) -> str:
    """Return ``text`` with what stands between two marker lines replaced."""
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"the page has no lines {begin!r} and {end!r}")
    return f"{before}{begin}\n\n{new}\n\n{end}{after}"


def on_white(chart: alt.TopLevelMixin, **more: Any) -> alt.TopLevelMixin:
    """Return a chart on white, so that it can be read in dark mode too."""
    done: alt.TopLevelMixin = chart.configure(font="sans-serif", background="white", **more)
    return done


def chart_data(values: Iterable[Mapping[str, object]], name: str | None = None) -> alt.Chart:
    """Return a chart of rows that stand in its definition."""
    rows = [dict(row) for row in values]
    return alt.Chart(alt.InlineData(values=rows, name=name or alt.Undefined))


def heights_apart(heights: Sequence[float], gap: float) -> list[float]:
    """Return heights of labels at least a gap apart: moved down where they would overlap."""
    placed = [0.0] * len(heights)
    above = math.inf
    for k in sorted(range(len(heights)), key=lambda k: -heights[k]):
        above = placed[k] = min(heights[k], above - gap)
    return placed


def slope_of(horizons: Sequence[int] | IntArray, regret: FloatArray) -> float:
    """Return the log-log slope of regret over horizons, by least squares."""
    return float(loglog_line(horizons, np.maximum(regret, 1e-9))[0])


def slope_with_interval(
    horizons: Sequence[int], regret: FloatArray, rng: np.random.Generator | None = None
) -> tuple[float, float, float]:
    """Return the slope of mean regret, shape (seeds, horizons), and its 95 % bootstrap interval."""
    seeds, rng = len(regret), rng or np.random.default_rng(0)
    samples = [
        slope_of(horizons, regret[rng.integers(0, seeds, seeds)].mean(axis=0)) for _ in range(2000)
    ]
    low, high = np.quantile(samples, (0.025, 0.975))
    return slope_of(horizons, regret.mean(axis=0)), float(low), float(high)
