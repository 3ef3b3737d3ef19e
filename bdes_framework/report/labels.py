"""Labels of charts and tables: other people's text made safe and short, and where it is placed."""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import itemgetter
from typing import Any, TypeVar

from bdes_framework._internal.text import ascii_controls

Row = dict[str, Any]
"""A row of a chart's data: names to strings and numbers."""

Item = TypeVar("Item")
Key = TypeVar("Key")

MAX_NAME = 40
MAX_TEXT = 200

LABEL_HEIGHT = 13 / 260
"""The height of a line of text as a share of a chart's."""


MAX_SPREAD, MAX_STEP = 0.04, 0.008
"""How far bars at one place are moved apart at most, all and two, as shares of a chart's width."""

LEAST_OF_LOG = 1e-6
"""The least share of the largest value that a logarithmic axis has."""


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return items by their key, keys in the order first seen."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


_INVISIBLE = "\u2060"
_TAKEN_BY_JAVASCRIPT = frozenset(
    {
        *("constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable"),
        *("toLocaleString", "toString", "valueOf", "__proto__"),
        *("__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__"),
    }
)
"""What every object of JavaScript's has: Vega, which looks names up in objects, stumbles on it."""


def shown_names(labels: Iterable[str], limit: int = MAX_NAME) -> dict[str, str]:
    """Return what each label is shown as: at most about ``limit`` characters, no two alike.

    >>> shown_names(["a" * 9, "a" * 8, "b"], limit=5)
    {'aaaaaaaaa': 'aaaa…', 'aaaaaaaa': 'aaaa… (2)', 'b': 'b'}
    """
    unique = list(dict.fromkeys(labels))
    names = [clipped(label, limit) for label in unique]
    drawable = [name + _INVISIBLE if name in _TAKEN_BY_JAVASCRIPT else name for name in names]
    return dict(zip(unique, numbered(drawable), strict=True))


def numbered(names: Iterable[str]) -> list[str]:
    """Return names with a number behind each that was there before.

    >>> numbered(["a", "b", "a"])
    ['a', 'b', 'a (2)']
    """
    taken: dict[str, None] = {}
    for name in names:
        unique, n = name, 1
        while unique in taken:
            n += 1
            unique = f"{name} ({n})"
        taken[unique] = None
    return list(taken)


def clipped(text: str, limit: int = MAX_TEXT) -> str:
    """Return text on one line, control characters escaped, cut at ``limit`` characters."""
    line = ascii_controls(text[: 2 * limit])
    return line if len(line) <= limit and len(text) <= 2 * limit else line[: limit - 1] + "…"


def place_names(
    rows: list[Row], by: str = "panel", x: str = "round", *, zero: bool = True
) -> list[Row]:
    """Set ``label_at`` of each policy's last row: the height of its name beside the chart.

    ``by`` is the column that tells panels apart, ``x`` the one on the horizontal axis, ``zero``
    whether the vertical axis has one. ``label_log`` is the height on a logarithmic axis.
    """
    for panel in grouped(rows, itemgetter(by)).values():
        lines = grouped(panel, itemgetter("policy")).values()
        last = [max(line, key=itemgetter(x)) for line in lines]
        drawn = "drawn_" if "drawn_low" in panel[0] else ""
        ends = [row[drawn + end] for row in panel for end in ("low", "high")]
        spread_labels(last, min(*ends, 0.0) if zero else min(ends), max(ends))
        least = max(0.0, LEAST_OF_LOG * max(row["value"] for row in panel))
        positive = [row for row in panel if row["value"] > least]
        above = [row for row in last if row["value"] > least]
        if above:
            lows = [max(row["low"], row["value"] / 20) for row in positive]
            highs = [row["high"] for row in positive]
            spread_labels(above, min(lows), max(highs), log=True, column="label_log")
    return rows


def is_wide(values: Collection[float]) -> bool:
    """Return whether numbers belong on a logarithmic axis: positive, and tenfold apart."""
    return min(values) > 0 and max(values) >= 10 * min(values)


def place_bars(rows: list[Row], x: str, policies: Sequence[str]) -> list[Row]:
    """Set ``drawn_at`` of rows: ``x``, moved a little, lest policies' bars cover each other."""
    if not rows:
        return rows
    values = [row[x] for row in rows]
    low, high = min(values), max(values)
    for row in rows:
        place = policies.index(row["policy"]) - (len(policies) - 1) / 2
        row["drawn_at"] = _moved(row[x], place, len(policies), low, high)
    return rows


def drawn_range(values: Collection[float], n_policies: int) -> tuple[float, float]:
    """Return where the first and the last bar of :func:`place_bars` are."""
    low, high = min(values), max(values)
    last = (n_policies - 1) / 2
    first = _moved(low, -last, n_policies, low, high)
    return first, _moved(high, last, n_policies, low, high)


def _moved(x: float, place: float, n: int, low: float, high: float) -> float:
    """Return ``x`` moved by places, of n, on an axis from ``low`` to ``high``."""
    offset = place * min(MAX_SPREAD / max(n - 1, 1), MAX_STEP)
    if is_wide((low, high)):
        moved: float = x * (high / low) ** offset
        return moved
    return x + offset * (high - low)


def spread_labels(
    ends: Sequence[Row],
    lowest: float,
    highest: float,
    *,
    log: bool = False,
    column: str = "label_at",
) -> None:
    """Set a column of rows to the position nearest to their value; see :func:`spread`."""
    heights = spread([row["value"] for row in ends], lowest, highest, log=log)
    for row, height in zip(ends, heights, strict=True):
        row[column] = height


def spread(
    values: Sequence[float], lowest: float, highest: float, *, log: bool = False
) -> list[float]:
    """Return the positions nearest to ``values`` at which no label covers another.

    The axis goes from ``lowest`` to ``highest``, on a logarithmic scale if ``log``.
    """
    there: Callable[[float], float] = math.log if log else float
    back: Callable[[float], float] = math.exp if log else float
    bottom, top = there(lowest), there(highest)
    step = (top - bottom) * LABEL_HEIGHT or 1.0

    def start(cluster: list[int]) -> float:
        """Return where stacked labels begin: centred, or as near as the axis' ends allow."""
        height = step * len(cluster)
        centre = sum(there(values[i]) for i in cluster) / len(cluster)
        return max(min(centre - height / 2, top + step / 2 - height), bottom - step / 2)

    clusters: list[list[int]] = []
    for index in sorted(range(len(values)), key=lambda i: values[i]):
        above = [index]
        while clusters and start(clusters[-1]) + step * len(clusters[-1]) > start(above):
            above = clusters.pop() + above
        clusters.append(above)
    placed = [0.0] * len(values)
    for cluster in clusters:
        for k, index in enumerate(cluster):
            placed[index] = back(start(cluster) + step * (k + 0.5))
    return placed
