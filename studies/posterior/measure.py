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
from bdes_framework.experiment.summary import loglog_line

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
    """Regret of some policies on one kind of instance: a row a policy, a column an instance."""

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
            on_start=lambda total, done: progress.update(task, total=total, completed=done),
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


def comparison(rows: Iterable[Row]) -> Iterable[str]:
    yield "| instances | lam | `posterior` | Thompson | best of the paper's | ratio | asked | |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        ours, spread = row.regret[OURS], row.regret[OURS].std(ddof=1)
        against, share = wanted(row)
        ratio = row.mean(OURS) / row.mean(against)
        best = row.best_other(NOT_PAPERS)
        yield (
            f"| {row.kind} | {row.lam} | {ours.mean():,.0f} ± {spread / np.sqrt(ours.size):,.0f}"
            f" | {row.mean('thompson'):,.0f} | {row.mean(best):,.0f} (`{best}`)"
            f" | {ratio:.2f}{' of Thompson' if against == 'thompson' else ''} | {share:g}"
            f" | {'held' if ratio <= share else '**not held**'} |"
        )


def every_policy(rows: Sequence[Row], lead: str) -> Iterable[str]:
    """Return a table of mean regrets, a column a policy."""
    names = list(rows[0].regret)
    yield f"| {lead} | " + " | ".join(f"{name}" for name in names) + " |"
    yield "|---" * (len(names) + 1) + "|"
    for row in rows:
        first = ", ".join(
            part for part in (row.kind, f"K = {row.n_arms}" if row.n_arms else "", row.lam) if part
        )
        lowest = min(row.mean(name) for name in names)
        cells = [f"{row.mean(name):,.0f}" for name in names]
        marked = [
            f"**{cell}**" if row.mean(name) == lowest else cell
            for name, cell in zip(names, cells, strict=True)
        ]
        yield f"| {first} | " + " | ".join(marked) + " |"


def growth(rows: Sequence[Row]) -> Iterable[str]:
    """Return mean regret by horizon, and its log-log slope with a bootstrap interval."""
    horizons = sorted({row.horizon for row in rows})
    yield "| lam | " + " | ".join(f"T = {t:,}" for t in horizons) + " | slope, 95 % |"
    yield "|---" * (len(horizons) + 2) + "|"
    rng = np.random.default_rng(0)
    for lam in dict.fromkeys(row.lam for row in rows):
        regret = np.array([row.regret[OURS] for row in rows if row.lam == lam])
        n = regret.shape[1]
        slopes = [
            loglog_line(horizons, regret[:, rng.integers(0, n, n)].mean(axis=1))[0]
            for _ in range(2000)
        ]
        slope = float(loglog_line(horizons, regret.mean(axis=1))[0])
        low, high = np.quantile(slopes, (0.025, 0.975))
        cells = " | ".join(f"{mean:,.0f}" for mean in regret.mean(axis=1))
        yield f"| {lam} | {cells} | {slope:.2f} ({low:.2f} to {high:.2f}) |"


def predictions(rows: Sequence[Row]) -> Iterable[str]:
    yield "| instances | prediction | mean regret | of that without one (at most 1.5) |"
    yield "|---|---|---|---|"
    for row in rows:
        for name in row.regret:
            share = row.mean(name) / row.mean("unknown")
            yield f"| {row.kind} | {name} | {row.mean(name):,.0f} | {share:.2f} |"


def cost() -> Iterable[str]:
    """Time the policy alone, environment included, which is next to nothing: the best of turns.

    Turns go round the rates, so that a neighbour's burst on the machine does not hit only one.
    """
    rates = (1e-10, 1e-5, 0.01, 0.1, 0.5, 1.0)
    for lam in rates:  # compiles, or loads what was compiled
        micros_a_round(lam, 1_000)
    short = np.min([[micros_a_round(lam, 100_000) for lam in rates] for _ in range(5)], axis=0)
    yield "| lam | T = 100,000 (at most 30 µs) | T = 1,000,000 | ratio (at most 2.5) |"
    yield "|---|---|---|---|"
    for lam, micros in zip(rates, short.tolist(), strict=True):
        long = micros_a_round(lam, 1_000_000)
        yield f"| {lam:g} | {micros:.1f} µs | {long:.1f} µs | {long / micros:.2f} |"


def micros_a_round(lam: float, horizon: int) -> float:
    plugins = bdes.load_plugins()
    arms = {"r": [0.9, 0.7, 0.5, 0.4, 0.2], "b": [0.1, 0.3, 0.5, 0.8, 1.0]}
    environment = plugins.environment("bernoulli", seed=1, lam=lam, **arms)
    policy = plugins.policy(OURS, bdes.Problem(5, horizon), seed=1)
    begin = time.process_time()
    bdes.simulate(environment, policy, horizon, keep=False)
    return (time.process_time() - begin) / horizon * 1e6


def chart(rows: Sequence[Row]) -> alt.FacetChart:
    values = [
        {"instances": row.kind, "lam": row.lam, "policy": name, "regret": max(row.mean(name), 1.0)}
        for row in rows
        for name in row.regret
    ]
    order = list(dict.fromkeys(row.lam for row in rows))
    names = list(rows[0].regret)
    lines = (
        alt.Chart(alt.InlineData(values=values, name="posterior"))
        .mark_line(point=True)
        .encode(
            x=alt.X("lam:N", sort=order, title="lam", axis=alt.Axis(labelAngle=-45)),
            y=alt.Y("regret:Q", scale=alt.Scale(type="log"), title="mean DES regret"),
            color=alt.Color(
                "policy:N",
                sort=names,
                scale=alt.Scale(scheme="tableau10"),
                legend=alt.Legend(title=None, orient="bottom", columns=5),
            ),
            strokeWidth=alt.condition(
                alt.datum.policy == OURS, alt.value(4), alt.value(1.5), empty=False
            ),
        )
        .properties(width=360, height=300)
    )
    both: alt.FacetChart = lines.facet(column=alt.Column("instances:N", title=None)).configure(
        font="sans-serif", background="white"
    )
    return both


Table = Callable[[Sequence[Row]], Iterable[str]]
EXPERIMENT_SECTIONS: dict[str, tuple[str, Table]] = {
    "compare": ("Against the paper's policies", comparison),
    "growth": ("Growth with the horizon", growth),
    "predictions": ("Wrong predictions of lam", predictions),
    "known": ("Told lam, and not", lambda rows: every_policy(rows, "instances, lam")),
    "noise": ("Gaussian noise, sigma = 0.1", lambda rows: every_policy(rows, "instances, lam")),
    "sizes": ("Two arms and twenty", lambda rows: every_policy(rows, "instances, lam")),
}
SECTIONS = (*EXPERIMENT_SECTIONS, "cost")


def section(name: str) -> str:
    """Play an experiment and return what is to be said of it, or measure the cost."""
    if name == "cost":
        return "\n\n".join(["### Cost a round", "\n".join(cost())])
    heading, table = EXPERIMENT_SECTIONS[name]
    rows = rows_of(play(name))
    written = [f"### {heading}"]
    if name == "compare":
        chart(rows).save(CHART)
        written.append("![Mean regret by rate, for every policy](img/posterior.svg)")
    written.append(f"Means over {len(next(iter(rows[0].regret.values())))} instances.")
    written.append("\n".join(table(rows)))
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
