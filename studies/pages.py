"""What the studies' pages share: Markdown tables, sections between markers, chart data, slopes."""

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import altair as alt
import cattrs
import numpy as np
from attrs import AttrsInstance

from bdes_framework import FloatArray, IntArray
from bdes_framework.experiment.summary import loglog_line

RowT = TypeVar("RowT", bound=AttrsInstance)


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


def save_rows(file: Path, rows: Iterable[AttrsInstance]) -> None:
    """Write rows as JSON, a row a line, so that changes can be read."""
    lines = ",\n".join(json.dumps(cattrs.unstructure(row)) for row in rows)
    file.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def saved_rows(file: Path, kind: type[RowT]) -> list[RowT]:
    """Return what :func:`save_rows` was given."""
    return [cattrs.structure(row, kind) for row in json.loads(file.read_text(encoding="utf-8"))]


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
    """Return the slope of mean regret and its 95 % bootstrap interval.

    ``regret`` has shape (seeds or instances, horizons): rows are drawn again, whole.
    """
    samples = [slope_of(horizons, mean) for mean in _means_drawn_again(regret, rng)]
    low, high = np.quantile(samples, (0.025, 0.975))
    return slope_of(horizons, regret.mean(axis=0)), float(low), float(high)


def interval_of_means(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the 95 % bootstrap interval of each column's mean: both its ends."""
    low, high = np.quantile(list(_means_drawn_again(values)), (0.025, 0.975), axis=0)
    return low, high


def interval_of_ratio(pairs: FloatArray) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the ratio of two columns' means: both its ends."""
    low, high = np.quantile([a / b for a, b in _means_drawn_again(pairs)], (0.025, 0.975))
    return float(low), float(high)


def _means_drawn_again(
    values: FloatArray, rng: np.random.Generator | None = None
) -> Iterator[FloatArray]:
    rows, rng = len(values), rng or np.random.default_rng(0)
    for _ in range(2000):
        yield values[rng.integers(0, rows, rows)].mean(axis=0)


def main() -> None:
    """Put standard input between the markers of a page: ``python -m studies.pages PAGE NAME``."""
    page, name = Path(sys.argv[1]), sys.argv[2]
    new = sys.stdin.read().strip()
    if not new:
        sys.exit(f"nothing to put into {page}")
    begin, end = f"<!-- {name}: written by make {name} -->", f"<!-- end of {name} -->"
    text = replaced_between(page.read_text(encoding="utf-8"), begin, end, new)
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
