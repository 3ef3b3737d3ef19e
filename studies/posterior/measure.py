"""``make posterior``: plays studies/posterior/*.toml, and writes the tables of docs/posterior.md.

Runs resume: what is in their folders is not played again. Name some sections to write only
those anew, and leave the others as they are.
"""

import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import altair as alt
import numpy as np
from attrs import frozen
from rich.console import Console
from rich.progress import Progress

import bdes_framework as bdes
from bdes_framework._internal.colours import colours_of
from studies.pages import chart_data, on_white, slope_with_interval, table

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "studies" / "posterior"
PAGE = ROOT / "docs" / "posterior.md"
CHART = ROOT / "docs" / "img" / "posterior.svg"
BEGIN, END = (
    "<!-- Written by `make posterior`: begin -->",
    "<!-- Written by `make posterior`: end -->",
)
OURS = "posterior"
NOT_PAPERS = (OURS, "thompson")
QUARTER = ("T^-0.75", "0.01", "0.1", "0.5", "0.9", "1-1/sqrt(T)", "1")
"""Rates at which at most a quarter of the best paper's policy's regret is asked for."""


@frozen
class Row:
    """Regret on one kind of instance: one array per policy, one value per instance."""

    kind: str
    lam: str
    n_arms: str
    horizon: int
    regret: dict[str, bdes.FloatArray]

    def mean(self, policy: str) -> float:
        return float(self.regret[policy].mean())

    def best_other(self, left_out: Sequence[str]) -> str:
        return min((name for name in self.regret if name not in left_out), key=self.mean)


def play(name: str) -> Path:
    """Run an experiment, or what is left of it, and return its folder."""
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task(name, total=None)
        with bdes.run_experiment(
            EXPERIMENTS / f"{name}.toml",
            out=ROOT / "runs" / f"posterior-{name}",
            on_start=lambda total, left: progress.update(
                task, total=total, completed=total - len(left)
            ),
            on_cell=lambda cell, result: progress.advance(task),
        ) as run:
            return run.folder


def rows_of(folder: Path) -> list[Row]:
    """Return the regrets of a run, instances side by side."""
    found: dict[tuple[str, str, str, int], dict[str, list[float]]] = {}
    for cell in bdes.load_run(folder).cells():
        if cell.regret is None:
            raise RuntimeError(f"{cell.policy} on {cell.environment}: {cell.error}")
        kind, _, axes = cell.environment.partition(" (")
        key = (kind, _axis(axes, "lam"), _axis(axes, "arms.n"), cell.horizon)
        found.setdefault(key, {}).setdefault(cell.policy, []).append(cell.regret)
    return [
        Row(*key, {name: np.array(values) for name, values in policies.items()})
        for key, policies in found.items()
    ]


def _axis(text: str, name: str) -> str:
    match = re.search(rf"\b{re.escape(name)}=([^,]+?)(, |\)$)", text)
    return match.group(1).removesuffix(".0") if match else ""


def wanted(row: Row) -> tuple[str, float]:
    """Return whose regret ours is compared with at a rate, and what share of it is allowed."""
    if row.lam == "T^-2":
        return "thompson", 1.5
    return row.best_other(NOT_PAPERS), 0.25 if row.lam in QUARTER else 1.0


def comparison(rows: Iterable[Row]) -> str:
    """Return the table of `posterior` beside the best other policy, and whether it holds."""
    lines = []
    for row in rows:
        ours, spread = row.regret[OURS], row.regret[OURS].std(ddof=1)
        against, share = wanted(row)
        ratio = row.mean(OURS) / row.mean(against)
        best = row.best_other(NOT_PAPERS)
        lines.append(
            {
                "instances": row.kind,
                "lam": row.lam,
                "`posterior`": f"{ours.mean():,.0f} ± {spread / np.sqrt(ours.size):,.0f}",
                "Thompson": f"{row.mean('thompson'):,.0f}",
                "best of the paper's": f"{row.mean(best):,.0f} (`{best}`)",
                "ratio": f"{ratio:.2f}{' of Thompson' if against == 'thompson' else ''}",
                "asked": f"{share:g}",
                "verdict": "held" if ratio <= share else "**not held**",
            }
        )
    return table(lines)


def every_policy(rows: Sequence[Row]) -> str:
    """Return a table of mean regrets, one column per policy."""
    lines = []
    for row in rows:
        parts = (row.kind, f"K = {row.n_arms}" if row.n_arms else "", row.lam)
        lowest = min(map(row.mean, row.regret))
        line = {"instances, lam": ", ".join(filter(None, parts))}
        for name in row.regret:
            mark = "**" if row.mean(name) == lowest else ""
            line[name] = f"{mark}{row.mean(name):,.0f}{mark}"
        lines.append(line)
    return table(lines)


def growth(rows: Sequence[Row]) -> str:
    """Return mean regret by horizon, and its log-log slope with a bootstrap interval."""
    horizons = sorted({row.horizon for row in rows})
    rng = np.random.default_rng(0)
    lines = []
    for lam in dict.fromkeys(row.lam for row in rows):
        regret = np.array([row.regret[OURS] for row in rows if row.lam == lam])
        slope, low, high = slope_with_interval(horizons, regret.T, rng)
        means = zip(horizons, regret.mean(axis=1), strict=True)
        line = {"lam": lam} | {f"T = {t:,}": f"{mean:,.0f}" for t, mean in means}
        lines.append(line | {"slope, 95 %": f"{slope:.2f} ({low:.2f} to {high:.2f})"})
    return table(lines)


def predictions(rows: Sequence[Row]) -> str:
    """Return regret under wrong predictions of lam, and its ratio to that without one."""
    share = "of that without one (at most 1.5)"
    return table(
        {"instances": row.kind, "prediction": name, "mean regret": f"{row.mean(name):,.0f}"}
        | {share: f"{row.mean(name) / row.mean('unknown'):.2f}"}
        for row in rows
        for name in row.regret
    )


def cost() -> str:
    """Time the policy with its environment: the best of several turns.

    Turns go round the rates, so that other work on the machine does not hit only one.
    """
    rates = (1e-10, 1e-5, 0.01, 0.1, 0.5, 1.0)
    for lam in rates:  # compiles, or loads what was compiled
        micros_a_round(lam, 1_000)
    short = np.min([[micros_a_round(lam, 100_000) for lam in rates] for _ in range(5)], axis=0)
    lines = []
    for lam, micros in zip(rates, short.tolist(), strict=True):
        long = micros_a_round(lam, 1_000_000)
        lines.append(
            {
                "lam": f"{lam:g}",
                "T = 100,000 (at most 30 µs)": f"{micros:.1f} µs",
                "T = 1,000,000": f"{long:.1f} µs",
                "ratio (at most 2.5)": f"{long / micros:.2f}",
            }
        )
    return table(lines)


def micros_a_round(lam: float, horizon: int) -> float:
    plugins = bdes.load_plugins()
    arms = {"r": [0.9, 0.7, 0.5, 0.4, 0.2], "b": [0.1, 0.3, 0.5, 0.8, 1.0]}
    environment = plugins.environment("bernoulli", seed=1, lam=lam, **arms)
    policy = plugins.policy(OURS, bdes.Problem(5, horizon), seed=1)
    begin = time.process_time()
    bdes.simulate(environment, policy, horizon, keep=False)
    return (time.process_time() - begin) / horizon * 1e6


def chart(rows: Sequence[Row]) -> alt.TopLevelMixin:
    values = [
        {"instances": row.kind, "lam": row.lam, "policy": name, "regret": max(row.mean(name), 1.0)}
        for row in rows
        for name in row.regret
    ]
    order = list(dict.fromkeys(row.lam for row in rows))
    colours = colours_of(rows[0].regret)
    lines = [colour.light for colour in colours.values()]
    scale = alt.Scale(domain=list(colours), range=lines)
    legend = alt.Legend(title=None, orient="bottom", columns=5)
    is_ours = alt.datum.policy == OURS
    curves = (
        chart_data(values, "posterior")
        .mark_line(point=True)
        .encode(
            x=alt.X("lam:N", sort=order, title="lam", axis=alt.Axis(labelAngle=-45)),
            y=alt.Y("regret:Q", scale=alt.Scale(type="log"), title="mean DES regret"),
            color=alt.Color("policy:N", scale=scale, legend=legend),
            strokeWidth=alt.condition(is_ours, alt.value(4), alt.value(1.5), empty=False),
        )
        .properties(width=360, height=300)
    )
    return on_white(curves.facet(column=alt.Column("instances:N", title=None)))


Table = Callable[[Sequence[Row]], str]
EXPERIMENT_SECTIONS: dict[str, tuple[str, Table]] = {
    "compare": ("Against the paper's policies", comparison),
    "growth": ("Growth with the horizon", growth),
    "predictions": ("Wrong predictions of lam", predictions),
    "known": ("Known lam, and unknown", every_policy),
    "noise": ("Gaussian noise, sigma = 0.1", every_policy),
    "sizes": ("Two arms and twenty", every_policy),
}
SECTIONS = (*EXPERIMENT_SECTIONS, "cost")


def section(name: str) -> str:
    """Play an experiment and return what is to be said of it, or measure the cost."""
    if name == "cost":
        return "\n\n".join(["### Cost per round", cost()])
    heading, write = EXPERIMENT_SECTIONS[name]
    rows = rows_of(play(name))
    written = [f"### {heading}"]
    if name == "compare":
        chart(rows).save(CHART)
        written.append("![Mean regret by rate, for every policy](img/posterior.svg)")
    written.append(f"Means over {len(next(iter(rows[0].regret.values())))} instances.")
    written.append(write(rows))
    return "\n\n".join(written)


def main(names: Sequence[str]) -> None:
    """Write some sections of the page anew, each when it is done."""
    for name in names:
        if name not in SECTIONS:
            raise SystemExit(f"there is no section {name!r}: choose from {', '.join(SECTIONS)}")
    for name in names:
        written = section(name)
        PAGE.write_text(with_section(PAGE.read_text(), written))


def with_section(page: str, written: str) -> str:
    """Return a page with a section in the place of the one with its heading, or as the last."""
    before, begin, rest = page.partition(BEGIN)
    inside, end, after = rest.partition(END)
    heading = written.partition("\n")[0]
    kept = [f"### {part.strip()}" for part in inside.split("### ")[1:]]
    places = [part.partition("\n")[0] for part in kept]
    if heading in places:
        kept[places.index(heading)] = written
    else:
        kept.append(written)
    return before + "\n\n".join([begin, *kept, end]) + after


if __name__ == "__main__":
    main(sys.argv[1:] or SECTIONS)
