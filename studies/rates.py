"""Regret rates, written down: ``make rates`` measures every regime and writes docs/rates.md."""

import json
import math
import sys
from itertools import pairwise
from pathlib import Path
from string import Template

import altair as alt
import cattrs
import numpy as np
from attrs import frozen
from rich.console import Console
from rich.progress import track

from bdes_framework import FloatArray
from bdes_framework._internal.colours import BLACK, BLUE, GREEN, PURPLE, VERMILION
from studies.pages import chart_data, heights_apart, interval_of_means, on_white, slope_of, table
from studies.regimes import (
    ALLOWED_EXCESS,
    ARMS,
    ARMS_CASES,
    ARMS_HORIZON,
    ARMS_SEEDS,
    CASES,
    INSTANCES,
    MAX_EXTERNAL,
    MAX_NOISE_SHARE,
    NEAR_EXPONENT,
    SEEDS,
    SHRINKING,
    SHRINKING_SEEDS,
    ArmsCase,
    ArmsRow,
    Case,
    Measured,
    NoiseRow,
    ShrinkingGap,
    ShrinkingRow,
    measure,
    measure_arms,
    measure_noise,
    measure_shrinking,
)

DOCS = Path(__file__).parent.parent / "docs"
MEASURED = Path(__file__).with_suffix(".json")


@frozen(eq=False)
class Rates:
    """All that the page shows."""

    measured: list[Measured]
    shrinking: list[ShrinkingRow]
    arms: list[ArmsRow]
    noise: list[NoiseRow]


def as_json(rates: Rates) -> str:
    """Return what was measured as JSON, a row a line, so that changes can be read."""
    parts = [
        json.dumps(name) + ": [\n" + ",\n".join(map(json.dumps, rows)) + "\n]"
        for name, rows in _converter().unstructure(rates).items()
    ]
    return "{" + ",\n".join(parts) + "}\n"


def from_json(text: str) -> Rates:
    """Return what :func:`as_json` was given, regret rounded to a hundredth."""
    return _converter().structure(json.loads(text), Rates)


def _converter() -> cattrs.Converter:
    """Cases have functions, so they are kept by their names."""
    converter = cattrs.Converter()
    converter.register_unstructure_hook_func(_is_array, lambda array: array.round(2).tolist())
    converter.register_structure_hook_func(_is_array, lambda rows, _: np.array(rows, dtype=float))
    cases = {case.name: case for case in CASES}
    gaps, sizes = ({case.policy: case for case in found} for found in (SHRINKING, ARMS_CASES))
    converter.register_unstructure_hook(Case, lambda case: case.name)
    converter.register_structure_hook(Case, lambda name, _: cases[name])
    for kind, named in ((ShrinkingGap, gaps), (ArmsCase, sizes)):
        converter.register_unstructure_hook(kind, lambda case: case.policy)
        converter.register_structure_hook(kind, lambda name, _, named=named: named[name])
    return converter


def _is_array(kind: object) -> bool:
    return kind == FloatArray


def page(rates: Rates) -> str:
    """Return docs/rates.md: the text of rates.md here with every number filled in."""
    measured, arms = rates.measured, rates.arms
    text = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    return Template(text).substitute(
        seeds=SEEDS,
        instances=INSTANCES,
        excess=ALLOWED_EXCESS,
        rates=table(map(_rate_cells, measured)),
        local=table(_local_slopes(row) for row in measured if row.case.regime == "slow"),
        noise=table(map(_noise_cells, rates.noise)),
        shrinking=table(map(_shrinking_cells, rates.shrinking)),
        shrinking_seeds=_range(SHRINKING_SEEDS),
        arms=table(map(_arms_cells, arms)),
        exploring=table(_exploring_cells(row) for row in arms if row.explored.any()),
        sticky_to_8=f"{slope_of(ARMS[:3], _named(arms, 'sticky').regret.mean(axis=0)[:3]):.2f}",
        arms_seeds=_range(ARMS_SEEDS),
        arms_instances=len(ARMS_SEEDS),
        near=NEAR_EXPONENT,
        external=table(_external_cells(row) for row in measured if row.case.least_slope),
        noise_share=MAX_NOISE_SHARE,
        max_external=f"{MAX_EXTERNAL:.0%}",
    )


def _rate_cells(row: Measured) -> dict[str, str]:
    return {
        "case": row.case.name,
        "theorem": row.case.theorem,
        "horizons": f"{row.horizons[0]:,} to {row.horizons[-1]:,}",
        "regret at the last": f"{row.regret[:, -1].mean():,.0f}",
        "slope, 95 %": f"{row.slope:.3f} ({row.low:.3f} to {row.high:.3f})",
        "last decade, 95 %": f"{row.last_slope:.2f} ({row.last_low:.2f} to {row.last_high:.2f})",
        "theorem's": "-" if row.theory_slope is None else f"{row.theory_slope:.2f}",
        "gate": {None: "reported", True: "held", False: "**not held**"}[row.held],
    }


def _external_cells(row: Measured) -> dict[str, str]:
    des = float(row.regret[:, -1].mean())
    return {
        "policy": row.case.policy,
        "DES regret": f"{des:,.0f}",
        "external regret": f"{row.external * des:,.0f}",
    }


def _local_slopes(row: Measured) -> dict[str, str]:
    slopes = np.diff(np.log(row.regret.mean(axis=0))) / np.diff(np.log(row.horizons))
    powers = [f"10^{math.log10(t):.3g}" for t in row.horizons]
    steps = zip(pairwise(powers), slopes.tolist(), strict=True)
    return {"case": row.case.name} | {f"{a} to {b}": f"{slope:.2f}" for (a, b), slope in steps}


def _shrinking_cells(row: ShrinkingRow) -> dict[str, str]:
    return {
        "policy": row.case.policy,
        "gap": row.case.text,
        "regret at T = 10^6": f"{row.regret:,.0f}",
        "slope, 95 %": f"{row.slope:.3f} ({row.low:.3f} to {row.high:.3f})",
        "exponent": f"{row.case.exponent:.2f}",
        "gate": "held" if row.held else "**not held**",
    }


def _range(seeds: range) -> str:
    return f"{seeds[0]} to {seeds[-1]}"


def _arms_cells(row: ArmsRow) -> dict[str, str]:
    regret = zip(ARMS, row.regret.mean(axis=0).tolist(), strict=True)
    return {
        "policy": row.case.policy,
        "lam": row.case.text,
        **{f"K = {n_arms}": f"{mean:,.0f}" for n_arms, mean in regret},
        "measured, 95 %": f"{row.slope:.2f} ({row.low:.2f} to {row.high:.2f})",
        "Table 1's": row.case.exponent,
        "bound's": f"{row.theory_slope:.2f}",
    }


def _named(rows: list[ArmsRow], policy: str) -> ArmsRow:
    return next(row for row in rows if row.case.policy == policy)


def _exploring_cells(row: ArmsRow) -> dict[str, str]:
    rounds, lost = row.explored.mean(axis=0), row.lost_exploring.mean(axis=0)
    after = row.regret.mean(axis=0) - lost
    each = zip(ARMS, rounds / ARMS_HORIZON, lost / rounds, after, strict=True)
    return {
        "policy": row.case.policy,
        **{f"K = {k}": f"{s:.1%}, {per:.3f}, {later:,.0f}" for k, s, per, later in each},
    }


def _noise_cells(row: NoiseRow) -> dict[str, str]:
    extra = f"{row.extra:+.4f} ± {row.error:.4f}"
    cells = {"policy": row.policy, "sigma": str(row.sigma), "T": f"{row.horizon:,}"}
    return {**cells, "extra regret / (sigma·T)": extra}


COLOURS = (BLUE, VERMILION, GREEN, PURPLE, BLACK)
# Curves that lie on one another: a wide one below, dashes and smaller points above.
STROKES: tuple[tuple[float, list[int]], ...] = (
    (5, []),
    (2, [8, 5]),
    (2, [2, 4]),
    (1.5, [10, 3, 2, 3]),
    (1.5, []),
)
SHAPES = (("circle", 160), ("square", 75), ("triangle-up", 35), ("diamond", 14), ("cross", 35))
TITLES = {
    "slow": "Slow states",
    "middle": "In between",
    "fast": "Sticky arms",
    "blind": "No idea of states, on (1, 0), (0, 1), lam = 0.5",
}
WIDTH, HEIGHT, LINE_OF_TEXT = 260, 220, 13
LOWEST, HIGHEST = 1, 6
"""Powers of ten that regret is shown between, the same in all panels: so slopes compare."""


def chart(measured: list[Measured]) -> alt.TopLevelMixin:
    """Return mean regret against the horizon, one panel a regime, every line with its name."""
    panels = [
        _panel(title, [row for row in measured if _panel_of(row) == key])
        for key, title in TITLES.items()
    ]
    # Names stand right of the panels, in a font that may be wider than the one measured here.
    padding = {"left": 5, "top": 5, "right": 70, "bottom": 5}
    frameless = alt.ViewConfig(stroke=None)  # names run over the edge of a panel
    return on_white(alt.concat(*panels, columns=2, spacing=48), padding=padding, view=frameless)


def _panel_of(row: Measured) -> str:
    return "blind" if row.case.n_arms == 2 else row.case.regime


def _panel(title: str, rows: list[Measured]) -> alt.LayerChart:
    means = [row.regret.mean(axis=0) for row in rows]
    x = alt.X(
        "T:Q",
        scale=alt.Scale(type="log", domain=[1e3, 1e7]),
        axis=alt.Axis(format="~s", values=[1e3, 1e4, 1e5, 1e6, 1e7], grid=False),
        title="horizon T (rounds)",
    )
    y = alt.Y(
        "regret:Q",
        scale=alt.Scale(type="log", domain=[10**LOWEST, 10**HIGHEST]),
        axis=alt.Axis(format="~s", values=[10**k for k in range(LOWEST, HIGHEST + 1)]),
        title="mean DES regret",
    )
    theory = rows[0].theory_slope
    layers = [] if theory is None else [layer.encode(x, y) for layer in _ray(theory)]
    gap = LINE_OF_TEXT * (HIGHEST - LOWEST) / HEIGHT
    heights = heights_apart([math.log10(mean[-1]) for mean in means], gap)
    looks = zip(COLOURS, STROKES, SHAPES, strict=True)
    for row, mean, height, look in zip(rows, means, heights, looks, strict=False):
        colour, (width, dash), (shape, size) = look
        points = [{"T": t, "regret": float(m)} for t, m in zip(row.horizons, mean, strict=True)]
        name = row.case.name.removesuffix(" on (1, 0), (0, 1)")
        label = {"T": row.horizons[-1], "regret": 10**height, "name": name}
        point = {"color": colour, "size": size, "shape": shape, "filled": False, "fill": "white"}
        line = chart_data(points).mark_line(
            color=colour, strokeWidth=width, strokeDash=dash, point=point
        )
        text = chart_data([label]).mark_text(align="left", dx=12, color=colour, fontSize=11)
        layers += [line.encode(x, y), text.encode(x, y, text="name:N")]
    return alt.LayerChart(layer=layers, width=WIDTH, height=HEIGHT, title=title)


def _ray(slope: float) -> list[alt.Chart]:
    """Return a theorem's slope as a ray in the corner, a decade long, with its number."""
    start, level = 1.3e3, 5e4
    ends = [{"T": start * t, "regret": level * t**slope} for t in (1, 10)]
    line = chart_data(ends).mark_line(color="#666", strokeDash=[5, 4], strokeWidth=1.5)
    text = chart_data([ends[-1] | {"name": f"theorem: slope {slope:.2f}"}])
    label = text.mark_text(align="left", dx=5, color="#666", fontSize=11)
    return [line, label.encode(text="name:N")]


def arms_chart(rows: list[ArmsRow]) -> alt.TopLevelMixin:
    """Return mean regret against the number of arms, with 95 % intervals over instances."""
    scale = alt.Scale(type="log", domain=[1.9, 34], nice=False)
    x = alt.X("K:Q", scale=scale, axis=alt.Axis(values=ARMS, grid=False), title="arms K")
    y = alt.Y(
        "regret:Q",
        scale=alt.Scale(type="log", domain=[50, 50_000], nice=False),
        axis=alt.Axis(format="~s", values=[100, 1e3, 1e4]),
        title="mean DES regret at T = 100,000",
    )
    heights = heights_apart([math.log10(row.regret[:, -1].mean()) for row in rows], 0.18)
    layers: list[alt.Chart] = []
    for row, height, colour in zip(rows, heights, COLOURS, strict=False):
        low, high = interval_of_means(row.regret)
        means = zip(ARMS, row.regret.mean(axis=0), low, high, strict=True)
        points = [{"K": k, "regret": m, "low": a, "high": b} for k, m, a, b in means]
        base = chart_data(points).encode(x, y)
        bars = base.mark_rule(color=colour, strokeWidth=1.5).encode(y="low:Q", y2="high:Q")
        line = base.mark_line(color=colour, point={"color": colour, "size": 30})
        label = {"K": ARMS[-1], "regret": 10**height, "name": row.case.policy}
        text = chart_data([label]).mark_text(align="left", dx=8, color=colour, fontSize=12)
        layers += [bars, line, text.encode(x, y, text="name:N")]
    title = "How regret grows with the number of arms"
    picture = alt.LayerChart(layer=layers, width=380, height=260, title=title)
    return on_white(picture, padding={"left": 5, "top": 5, "right": 60, "bottom": 5})


def write(rates: Rates, docs: Path = DOCS) -> None:
    """Write the page and its pictures."""
    (docs / "rates.md").write_text(page(rates), encoding="utf-8")
    chart(rates.measured).save(docs / "img" / "rates.svg")
    arms_chart(rates.arms).save(docs / "img" / "rates-arms.svg")


def main() -> None:
    rates = Rates(
        [measure(case) for case in track(CASES, "playing", console=Console(stderr=True))],
        [measure_shrinking(case) for case in SHRINKING],
        [measure_arms(case) for case in ARMS_CASES],
        measure_noise(),
    )
    MEASURED.write_text(as_json(rates), encoding="utf-8")
    write(from_json(MEASURED.read_text(encoding="utf-8")))
    for row in rates.measured:
        Console().print(f"{row.case.name}: {row.slope:.3f} ({row.low:.3f} to {row.high:.3f})")
    held = [row.held for row in rates.measured] + [row.held for row in rates.shrinking]
    sys.exit(1 if False in held else 0)


if __name__ == "__main__":
    main()
