"""Colours and type of charts: Okabe and Ito's palette, told apart without seeing all colours."""

from typing import Any

LIGHT_COLOURS = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A8A8A",
]  # fmt: skip
# Lighter where the original would drown in a dark page; yellow, too faint on white, in its place.
DARK_COLOURS = [
    "#4BA3DE", "#F0803C", "#2BC394", "#DE9CC4", "#E69F00", "#9BD3F5", "#F0E442", "#B4B4B4",
]  # fmt: skip
DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3]]
"""With more policies than colours the colours come round again, dashed."""

_FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', 'Liberation Sans', sans-serif"

_INK = {
    "light": {"text": "#1d2530", "soft": "#4a5462", "grid": "#e3e7ec", "ground": "#ffffff"},
    "dark": {"text": "#e8ebf0", "soft": "#b3bcc9", "grid": "#333b47", "ground": "#171b21"},
}


def config(theme: str) -> dict[str, Any]:
    """Return the Vega-Lite config of a theme, ``"light"`` or ``"dark"``."""
    ink = _INK[theme]
    colours = LIGHT_COLOURS if theme == "light" else DARK_COLOURS
    return {
        "font": _FONT,
        "background": ink["ground"],
        "padding": 6,
        "view": {"stroke": None},
        "range": {"category": colours},
        "title": {"color": ink["text"], "anchor": "start", "fontSize": 13, "fontWeight": 600,
                  "offset": 10},
        "axis": {
            "labelColor": ink["soft"], "titleColor": ink["text"], "gridColor": ink["grid"],
            "domainColor": ink["soft"], "tickColor": ink["soft"], "labelFontSize": 11,
            "titleFontSize": 12, "titleFontWeight": 500, "labelOverlap": True, "titlePadding": 8,
        },
        "legend": {"labelColor": ink["text"], "titleColor": ink["text"], "labelFontSize": 12,
                   "titleFontSize": 12, "labelLimit": 220, "symbolStrokeWidth": 2.5,
                   "symbolSize": 140},
        "header": {"labelColor": ink["text"], "titleColor": ink["text"], "labelFontSize": 12,
                   "labelFontWeight": 600, "labelLimit": 300,
                   "labelAnchor": "start"},
        "text": {"color": ink["text"], "fontSize": 11},
        "rule": {"color": ink["soft"]},
    }  # fmt: skip
