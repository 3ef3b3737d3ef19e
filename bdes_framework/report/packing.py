"""Charts packed for a page: definitions and strings once, rows as columns, words for all."""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import altair as alt

from bdes_framework.report import charts
from bdes_framework.report.labels import Row

MAX_ALT = 600

Option = dict[str, Any]
"""One entry of a figure's picker: its label, and the charts it shows."""

_ZOOM = {
    "name": "zoom",
    # The wheel alone scrolls the page, and a finger's drag as well.
    "select": {
        "type": "interval",
        "zoom": "wheel![event.shiftKey]",
        "translate": "[mousedown, window:mouseup] > window:mousemove!",
    },
    "bind": "scales",
}
_HOVER = {
    "name": "hover",
    "select": {"type": "point", "nearest": True, "on": "pointerover", "clear": "pointerout"},
}
"""The point nearest to the pointer is shown, and its values: nobody hits a line."""


class Packing:
    """What the charts of a page have in common: their definitions and strings, each kept once."""

    def __init__(self) -> None:
        self._specs: list[dict[str, Any]] = []
        self._known: dict[str, int] = {}
        self._strings: dict[str, dict[str, int]] = {}

    def script_data(self) -> dict[str, Any]:
        """Return definitions and strings as plain JSON, once all parts are made."""
        strings = {name: list(known) for name, known in self._strings.items()}
        return {"specs": self._specs, "strings": strings}

    def part(
        self,
        key: str,
        draw: Callable[[], alt.Chart | alt.LayerChart],
        rows: Sequence[Row],
        fields: Sequence[tuple[str, str]],
        words: str,
        *,
        also: Sequence[str] = (),
        kinds: list[str] | None = None,
        zoom: bool = True,
    ) -> dict[str, Any]:
        """Return one chart of an option: definition, rows, and its text alternative.

        ``fields`` are the columns of its table with their headings, ``also`` the other columns
        that the chart needs, ``kinds`` the kinds of rows that the table shows.
        """
        columns = [name for name, _ in fields] + list(also)
        if "label" not in columns and any(row.get("label") for row in rows):
            columns.append("label")
        return {
            "spec": self._spec(key, draw, zoom),
            "table": {
                "columns": columns,
                "rows": [[self._packed(name, row.get(name)) for name in columns] for row in rows],
            },
            "fields": fields,
            "kinds": kinds,
            "alt": words[:MAX_ALT],
        }

    def _spec(self, key: str, draw: Callable[[], alt.Chart | alt.LayerChart], zoom: bool) -> int:
        if key not in self._known:
            chart = draw()  # once only: Altair takes its time
            chart.data = alt.NamedData("rows")  # else every layer gets an empty set of its own
            spec = chart.to_dict()
            for name in ("config", "data", "datasets"):
                spec.pop(name, None)
            if zoom:
                spec["layer"][0]["params"] = [_ZOOM]
                for layer in spec["layer"]:  # names stand beside the plot, lines stay inside
                    layer["mark"]["clip"] = layer["mark"]["type"] != "text"
                    if layer.get("name") == charts.TOUCH:
                        _show_nearest(layer)
            self._known[key] = len(self._specs)
            self._specs.append(spec)
        return self._known[key]

    def _packed(self, name: str, value: object) -> object:
        """Return a value as the page stores it: strings by number, numbers to five digits."""
        if isinstance(value, str):
            known = self._strings.setdefault(name, {})
            return known.setdefault(value, len(known))
        if isinstance(value, float):
            return float(f"{value:.5g}") if math.isfinite(value) else None
        return value


def _show_nearest(layer: dict[str, Any]) -> None:
    """Make the point nearest to the pointer visible, or larger if it is visible."""
    layer["params"] = [_HOVER]
    nearest = {"param": "hover", "empty": False}
    visible = layer["mark"].get("opacity", 1) > 0
    channel, usual, shown = ("size", layer["mark"]["size"], 150) if visible else ("opacity", 0, 1)
    layer["encoding"][channel] = {"condition": {**nearest, "value": shown}, "value": usual}


def figure_option(
    label: str, *parts: dict[str, Any], settings: Sequence[int], policy: int | None = None
) -> Option:
    """Return an entry; the filter must let one of its settings pass, and its policy."""
    return {"label": label, "parts": list(parts), "settings": settings, "policy": policy}


def file_stem(name: str) -> str:
    """Return what files saved from a page begin with."""
    return re.sub(r"[^\w-]+", "-", name)[:60].strip("-") or "run"
