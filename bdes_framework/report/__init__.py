"""Seeing a run: charts as SVG or PNG, and one self-contained HTML page.

Data flows one way: a run on disk -> :mod:`data` (rows of numbers) -> :mod:`charts` (Altair,
one definition for page and picture) -> :mod:`page` or a picture file.
"""

CHARTS = {
    "final": "each policy at the horizon, with its interval",
    "regret": "mean regret over rounds, with bands",
    "loglog": "regret over horizons on log scales, with fitted slopes",
    "lam": "regret across lam",
    "path": "the state and the arms of one cell over rounds",
    "gap": "how far from optimal the benchmark can be",
}
"""Every chart by its name, with what it shows."""
