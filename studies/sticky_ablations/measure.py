"""Plays ``sticky`` beside the two simpler orders; ``make paper`` shows what comes out."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import altair as alt
import numpy as np
from attrs import asdict, frozen

import bdes_framework as bdes
from bdes_framework._internal.colours import BLUE, ORANGE, PURPLE
from bdes_framework.experiment.summary import Estimate, estimate
from studies.pages import chart_data, save_rows, saved_rows, slope_of, table

HERE = Path(__file__).parent
MEASURED = HERE / "measured.json"
ORDERS = {"sticky": PURPLE, "unsmart switching": BLUE, "naive ABA-CCC": ORANGE}


@frozen
class OrderRow:
    """One order on 20 instances: means with half their 95 % intervals over instances."""

    experiment: str
    order: str
    n_arms: int
    horizon: int
    instances: int
    regret: float
    regret_half: float
    switches: float
    switches_half: float
    extra: float
    """Regret beyond that of ``sticky``, mean of the differences on the same instances."""
    extra_half: float


def measure(configs: Path = HERE) -> list[OrderRow]:
    """Play both experiments, or what is left of them."""
    return [row for name in ("example", "many-arms") for row in _rows(name, configs)]


def _rows(name: str, configs: Path) -> list[OrderRow]:
    with bdes.run_experiment(configs / f"{name}.toml") as run:
        cells = run.to_pandas()
    failed = cells[cells.regret.isna()]
    if len(failed):
        raise RuntimeError(f"{name}: a cell failed: {failed.error.iloc[0]}")
    place = ["draw", "T"] if name == "example" else ["K", "instance", "T"]
    ours = cells[cells.policy == "sticky"].set_index(place).regret
    cells = cells.join(ours.rename("ours"), on=place)
    found: dict[tuple[str, int, int], list[tuple[float, float, float]]] = {}
    for row in cells.itertuples():
        group = row.policy, int(row.K) if name == "many-arms" else 3, int(row.T)
        switches = float(np.sum(json.loads(row.diagnostics)["switches"]))
        extra = float(row.regret - row.ours)
        found.setdefault(group, []).append((float(row.regret), switches, extra))
    return [_row(name, place, values) for place, values in found.items()]


def _row(
    name: str, place: tuple[str, int, int], values: Sequence[tuple[float, float, float]]
) -> OrderRow:
    regret, switches, extra = (_rounded(estimate(column)) for column in zip(*values, strict=True))
    return OrderRow(name, *place, len(values), *regret, *switches, *extra)


def _rounded(found: Estimate | None) -> tuple[float, float]:
    assert found is not None
    return round(found.mean, 2), round(found.half_width or 0.0, 2)


# -- what the page shows --------------------------------------------------------------------


def chart(rows: Sequence[OrderRow]) -> alt.HConcatChart:
    """Regret over horizons on the example, and switches over arms: with intervals."""
    left = _panel(
        [row for row in rows if row.experiment == "example"],
        "regret",
        alt.X("horizon:Q", title="horizon T (rounds)", scale=alt.Scale(type="log")),
        "DES regret (reward)",
        alt.Title("Regret on the example", subtitle="A = (1, 0), B = (0, 1), C: three arms"),
    )
    right = _panel(
        [row for row in rows if row.experiment == "many-arms"],
        "switches",
        alt.X(
            "n_arms:Q", title="arms K", scale=alt.Scale(type="log", domain=[2.7, 27], nice=False)
        ),
        "pulls made to switch",
        alt.Title("Switches among many arms", subtitle="drawn uniformly, T = 100,000"),
    )
    both: alt.HConcatChart = alt.hconcat(left, right, spacing=32)
    return both


def _panel(
    rows: Sequence[OrderRow], value: str, x: alt.X, y_title: str, title: alt.Title
) -> alt.LayerChart | alt.FacetChart:
    places = sorted({getattr(row, x.shorthand.partition(":")[0]) for row in rows})
    x = x.axis(format="~s", values=places if len(places) < 5 else places[::2])
    scale = alt.Scale(type="log")
    y = alt.Y(f"{value}:Q", title=y_title, scale=scale, axis=alt.Axis(format="~s", tickCount=5))
    legend = alt.Legend(title=None, orient="bottom", symbolSize=90, columnPadding=24)
    domain = list(ORDERS)
    colour = alt.Color(
        "order:N", scale=alt.Scale(domain=domain, range=list(ORDERS.values())), legend=legend
    )
    shapes = alt.Scale(domain=domain, range=["circle", "square", "triangle-up"])
    long = [_with_ends(row, value) for row in rows]
    base = chart_data(long, value).encode(x=x, color=colour)
    bars = base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q")
    # Curves that lie on one another: a wide one below, a narrow one above.
    widths = alt.Scale(type="ordinal", domain=domain, range=[5, 1.5, 2])
    lines = base.mark_line().encode(
        y=y, strokeWidth=alt.StrokeWidth("order:N", scale=widths, legend=None)
    )
    points = base.mark_point(size=80, strokeWidth=2, opacity=1).encode(
        y=y, shape=alt.Shape("order:N", scale=shapes, legend=legend)
    )
    return alt.layer(lines, bars, points).properties(width=300, height=230, title=title)


def _with_ends(row: OrderRow, value: str) -> dict[str, object]:
    mean, half = getattr(row, value), getattr(row, f"{value}_half")
    return {**asdict(row), "low": mean - half, "high": mean + half}


def example_table(rows: Iterable[OrderRow]) -> str:
    """Return regret on the example, by order and horizon, and how it grows."""
    lines = []
    for order in ORDERS:
        mine = [row for row in rows if row.experiment == "example" and row.order == order]
        line = {"order of pairs": order}
        for row in mine[::2]:
            line[f"T = {row.horizon:,}"] = f"{row.regret:,.0f} ± {row.regret_half:,.0f}"
        line["growth"] = f"{growth(mine):.2f}"
        line["switches"] = f"{mine[-1].switches:,.0f}"
        lines.append(line)
    return table(lines)


def growth(rows: Sequence[OrderRow]) -> float:
    """Return the exponent of regret over the last decade: the last three horizons."""
    return slope_of([row.horizon for row in rows[-3:]], np.array([row.regret for row in rows[-3:]]))


def many_arms_table(rows: Iterable[OrderRow]) -> str:
    """Return regret and switches among drawn arms, by order and number of arms."""
    lines = []
    for order in ORDERS:
        line = {"order of pairs": order}
        for row in rows:
            if row.experiment == "many-arms" and row.order == order:
                shown = f"{row.regret:,.0f} ± {row.regret_half:,.0f}; {row.switches:,.0f}"
                line[f"K = {row.n_arms}"] = shown
        lines.append(line)
    return table(lines)


def paired_table(rows: Iterable[OrderRow], experiment: str) -> str:
    """Return what the simpler orders lose beyond ``sticky`` on the same instances."""
    lines = []
    for order in list(ORDERS)[1:]:
        line = {"beyond `sticky`": order}
        for row in rows:
            if row.experiment == experiment and row.order == order:
                place = f"K = {row.n_arms}" if experiment == "many-arms" else f"T = {row.horizon:,}"
                line[place] = f"{row.extra:+,.0f} ± {row.extra_half:,.0f}"
        lines.append(line)
    return table(lines)


def numbers(rows: Sequence[OrderRow]) -> dict[str, str]:
    """Return what the page's section shows, by name."""
    return {
        "orders_example": example_table(rows),
        "orders_many_arms": many_arms_table(rows),
        "orders_example_paired": paired_table(rows, "example"),
        "orders_many_arms_paired": paired_table(rows, "many-arms"),
        "orders_instances": str(rows[0].instances),
    }


def save(rows: Sequence[OrderRow]) -> None:
    """Keep what was measured."""
    save_rows(MEASURED, rows)


def saved() -> list[OrderRow]:
    """Return what was measured last."""
    return saved_rows(MEASURED, OrderRow)


if __name__ == "__main__":
    save(measure())
