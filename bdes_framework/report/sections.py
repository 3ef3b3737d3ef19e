"""The sections of the page, in the order of a researcher's questions: each returns HTML."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from bdes_framework.experiment.summary import Estimate
from bdes_framework.report.data import REGRET, Panel, RunData, Standing, gap_rows, standings
from bdes_framework.report.figures import Figures
from bdes_framework.report.html import Cell, Column, brief, number, table, text, without
from bdes_framework.report.names import clipped
from bdes_framework.report.rows import promise_of
from bdes_framework.report.slopes import SlopeFit
from bdes_framework.report.trajectories import Trajectories

MOST_ROWS = 2_500
MOST_FAILURES = 200
LONGEST_PARAMETERS = 400


def figure(figures: Figures, name: str, label: str, caption: str, n_charts: int = 1) -> str:
    """Return a chart with its picker, its caption and its numbers; the script draws it."""
    options = figures.options[name]
    picker = f'<p class="pick">{escape(label)}: {text(options[0]["label"])}</p>' if label else ""
    if len(options) > 1:
        inside = "".join(f"<option>{text(option['label'])}</option>" for option in options)
        picker = (
            f'<div class="pick"><label for="pick-{name}">{escape(label)}</label>'
            f'<select id="pick-{name}">{inside}</select></div>'
        )
    holders = "".join(
        f'<div class="chart" role="img" aria-label="{text(part["alt"], 600)}"></div>'
        for part in options[0]["parts"]
    )
    holders += '<div class="chart" role="img" aria-label="" hidden></div>' * (
        n_charts - len(options[0]["parts"])
    )
    return (
        f'<figure data-figure="{name}">{picker}{holders}'
        f"<figcaption>{caption}</figcaption>"
        "<details><summary>The numbers of this chart</summary></details></figure>"
    )


# -- what was run ---------------------------------------------------------------------------


def what_was_run(data: RunData, command: str, experiment: str) -> str:
    """Return instances, policies, versions, seeds, and how to do it again."""
    config = data.resolved["config"]
    facts = {
        "cells finished": f"{len(data.records):,} of {data.run.n_cells:,}",
        "seed": str(config["seed"]),
        "replications": f"{config['replications']:,}",
        "horizons T": ", ".join(f"{horizon:,}" for horizon in config["horizons"]),
        "benchmark": _reference(config["benchmark"]) if config["benchmark"] else "none",
        "policies are told": _told(config),
    }
    items = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{text(value)}</dd></div>" for name, value in facts.items()
    )
    versions = [[Cell(name), Cell(version)] for name, version in data.resolved["versions"].items()]
    return (
        f'<dl class="facts">{items}</dl>'
        "<h3>Do it again</h3>"
        f'<div class="command"><pre tabindex="0" aria-label="Command">{text(command, 500)}</pre>'
        '<button type="button">Copy</button></div>'
        '<p class="note">The file is in the run\'s folder, as <code>experiment.toml</code>. The'
        " same file, versions and kind of machine give the same numbers, bit for bit.</p>"
        "<details><summary>The experiment file</summary>"
        f'<pre tabindex="0" aria-label="The experiment file">{_file(experiment)}</pre></details>'
        + _parts("Environments", config["environments"])
        + _parts("Policies", config["policies"])
        + table("Code that decides the numbers", [Column("Distribution"), Column("Version")],
                versions, sortable=False)
    )  # fmt: skip


def _file(experiment: str) -> str:
    lines = (clipped(line, 400) for line in experiment[:100_000].splitlines())
    return escape("\n".join(lines))


def _reference(ref: object) -> str:
    return ref if isinstance(ref, str) else json.dumps(ref, sort_keys=True)


def _told(config: Mapping[str, Any]) -> str:
    told = {"lam": config["reveal_lam"], "replenishing arm": config["reveal_replenishing_arm"]}
    return ", ".join(name for name, is_told in told.items() if is_told) or "neither lam nor arm"


def _parts(title: str, parts: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of environments or policies; of those that depend on T, the longest."""
    last = {part["label"]: part for part in sorted(parts, key=lambda part: part["horizon"])}
    order = dict.fromkeys(part["label"] for part in parts)
    rows = []
    for label in list(order)[:MOST_ROWS]:
        parameters = {k: v for k, v in last[label]["table"].items() if k != "use"}
        words = ", ".join(f"{name} = {brief(value)}" for name, value in parameters.items())
        rows.append(
            [Cell(label), Cell(str(last[label]["table"]["use"])),
             Cell(words or "defaults", limit=LONGEST_PARAMETERS)]
        )  # fmt: skip
    caption = f"{title}, with parameters as they are at the longest horizon"
    one = {"Environments": "Environment", "Policies": "Policy"}[title]
    columns = [Column(one), Column("Plugin"), Column("Parameters")]
    return table(caption, columns, rows, sortable=False)


# -- who won --------------------------------------------------------------------------------


def headline(data: RunData) -> str:
    """Return what there is, and who won at the longest horizon, in two sentences."""
    panels = data.panels()
    if not panels:
        return '<p class="headline">No cell has finished well yet.</p>'
    facts = (
        _count(len(data.policies), "policy", "policies"),
        _count(len(data.environment_names), "environment", "environments"),
        _count(len(data.horizons), "horizon", "horizons"),
    )
    words = f"{_count(data.run.n_cells, 'cell', 'cells')}{_undone(data)}: {', '.join(facts)}."
    last = [panel for panel in panels if panel.horizon == panels[0].horizon]
    wins, ties = _tally(data, last)
    if wins:
        best, count = wins.most_common(1)[0]
        where = f" in {count} of {len(last)} environments" if len(last) > 1 else ""
        tied = f", and tied with the best in {ties[best]}" if ties[best] else ""
        name = data.policy_names[best]
        words += f" At T = {panels[0].horizon:,}, {name} earned the most{where}{tied}."
    return f'<p class="headline">{text(words, 400)}</p>'


def _undone(data: RunData) -> str:
    """Return how many cells are missing or failed, if any: whoever won may not win in the end."""
    missing = data.run.n_cells - len(data.records)
    n_failed = sum(record.error is not None for record in data.records)
    parts = [
        f"{n:,} {what}" for n, what in ((missing, "not played yet"), (n_failed, "failed")) if n
    ]
    return f" ({', '.join(parts)})" if parts else ""


def _count(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"


def _tally(data: RunData, panels: Sequence[Panel]) -> tuple[Counter[str], Counter[str]]:
    wins: Counter[str] = Counter()
    ties: Counter[str] = Counter()
    for panel in panels:
        for standing in standings(data, panel):
            wins[standing.result.policy] += standing.is_best
            ties[standing.result.policy] += standing.is_tied
    return +wins, ties


def who_won(data: RunData, figures: Figures) -> str:
    """Return figures with intervals and paired differences, sortable."""
    rows: list[list[Cell]] = []
    panels = data.panels()
    with_regret = _has_regret(data)
    n_rows = 0
    best: set[int] = set()
    for panel in panels:
        found = standings(data, panel)
        n_rows += len(found)
        if len(rows) < MOST_ROWS:
            best.update(len(rows) + i for i, standing in enumerate(found) if standing.is_best)
            rows += [_standing_row(data, standing, with_regret) for standing in found]
    columns = [Column("Environment"), Column("T", True), Column("Policy")]
    if with_regret:
        columns += [
            Column("DES regret ± 95 %", True, "Expected reward lost against the best sequence"),
            Column("Of OPT", True, "Expected reward as a share of the benchmark's"),
        ]
    columns += [
        Column("Reward/round", True, "Mean expected reward a round"),
        Column("Behind best ± 95 %", True, "Paired by replication: the same luck for both"),
        Column("Verdict"),
    ]
    left_out = "" if n_rows <= len(rows) else without(n_rows - len(rows), "lines")
    return (
        figure(figures, "final", "Environment and horizon",
               "Each policy at the horizon: mean over replications with its 95 % interval"
               " (Student's t).")
        + table("Results by environment, horizon and policy", columns, rows, strong=best) + left_out
        + '<p class="note">“Behind best” is the mean difference in expected reward to the'
        " policy with the highest mean, replication by replication: both met the same luck."
        " The best one was picked on these very numbers, so a narrow win may be chance."
        " “Tied” means that the interval holds zero.</p>"
    )  # fmt: skip


def _standing_row(data: RunData, standing: Standing, with_regret: bool) -> list[Cell]:
    result = standing.result
    assert result.mean is not None
    cells = [
        Cell(data.environment_names[result.environment]),
        number(result.horizon, ",d"),
        Cell(data.policy_names[result.policy]),
    ]
    if with_regret:
        optimum = None if result.regret is None else result.mean.mean + result.regret.mean
        share = result.mean.mean / optimum if optimum else None
        cells += [_estimate(result.regret), number(share, ".1%")]
    verdict = "best" if standing.is_best else "tied" if standing.is_tied else ""
    if result.n_failed:
        verdict = f"{verdict}, {result.n_failed} failed".removeprefix(", ")
    return [
        *cells,
        number(result.mean.mean / result.horizon, ".4f"),
        _estimate(standing.behind),
        Cell(verdict),
    ]


def _estimate(found: Estimate | None) -> Cell:
    if found is None:
        return number(None, "")
    half = "" if found.half_width is None else f" ± {found.half_width:,.1f}"
    return Cell(f"{found.mean:,.1f}{half}", found.mean, True)


# -- growth, lam, paths ---------------------------------------------------------------------


def over_time(data: RunData) -> str:
    """Return what the section of curves is called."""
    return "Regret over time" if _has_regret(data) else "Reward over time"


def _has_regret(data: RunData) -> bool:
    return any(panel.measure == REGRET for panel in data.panels())


def growth(data: RunData, figures: Figures, fits: Mapping[tuple[str, str], SlopeFit]) -> str:
    """Return curves over rounds, and regret over horizons with fitted slopes."""
    before = (
        (
            " Regret before the horizon compares with the first rounds of the sequence that is best"
            " for the whole horizon, so it may be negative there."
        )
        if _has_regret(data)
        else ""
    )
    curves = figure(
        figures, "regret", "Environment and horizon",
        f"Means over replications with 95 % bands.{before} Drag to move, shift and wheel to zoom,"
        " double-click to go back.",
    )  # fmt: skip
    if figures.left_out:
        curves += without(figures.left_out, "environments and horizons")
    heading = "<h3>How regret grows with the horizon</h3>"
    if not fits:
        why = "one horizon" if len(data.horizons) == 1 else "no regret at two horizons"
        return f'{curves}{heading}<p class="note">This run has {why}, so no slope is fitted.</p>'
    return (
        curves + heading
        + figure(figures, "loglog", "Environment",
                 "Mean regret at each horizon, on log scales, with the fitted line and its slope."
                 " The dotted line has the slope of the paper's Table 1 for this lam; its height"
                 " means nothing.")
        + _slope_table(data, fits)
    )  # fmt: skip


def _slope_table(data: RunData, fits: Mapping[tuple[str, str], SlopeFit]) -> str:
    rows = []
    for (environment, policy), fit in list(fits.items())[:MOST_ROWS]:
        promise = promise_of(data, environment)
        interval = "–" if fit.low is None else f"{fit.low:.2f} to {fit.high:.2f}"
        rows.append([
            Cell(data.environment_names[environment]),
            Cell(data.policy_names[policy]),
            number(fit.slope, ".2f"),
            Cell(interval, fit.low, True),
            number(promise.exponent if promise else None, ".2f"),
            Cell(promise.words if promise else "lam is not known"),
        ])  # fmt: skip
    columns = [Column("Environment"), Column("Policy"), Column("Slope", True),
               Column("95 %", True, "Bootstrap over replications"), Column("Table 1", True),
               Column("What Table 1 says of this lam")]  # fmt: skip
    note = (
        '<p class="note">Table 1 gives the rate of one algorithm in each regime of lam, not of'
        " every policy, and for T without end. Slopes at finite T carry logarithms and constants."
        "</p>"
    )
    return table("Log-log slopes of mean regret over horizons", columns, rows) + note


def across_lam(figures: Figures) -> str:
    """Return figures over the evolution rate."""
    if not figures.options["lam"]:
        return '<p class="note">No two environments of this run differ in lam alone.</p>'
    return figure(figures, "lam", "Environments and horizon",
                  "Environments that differ in nothing but lam, at one horizon; bars are 95 %"
                  " intervals.")  # fmt: skip


def paths_of_cells(figures: Figures, paths: Trajectories) -> str:
    """Return the state and arms of cells over rounds, or why there are none."""
    reasons = "".join(f"<li>{text(reason, 300)}</li>" for reason in paths.reasons[:20])
    notes = f'<div class="note"><p>Not everything is shown:</p><ul>{reasons}</ul></div>'
    if not paths.found:
        return notes if reasons else '<p class="note">No cell was played again.</p>'
    chart = figure(
        figures, "path", "Cell",
        "One cell, played again: the run stores no rounds, but the cell earned exactly what is"
        " stored. Above, the mean state of each bin of rounds and its range there; below, the"
        " arms pulled.", n_charts=2,
    )  # fmt: skip
    return chart + (notes if reasons else "")


# -- benchmark, failures --------------------------------------------------------------------


def certified_gap(data: RunData, figures: Figures) -> str:
    """Return by how much regret may be understated."""
    errors = "".join(f"<li>{text(error, 300)}</li>" for error in data.run.benchmark_errors()[:20])
    failed = f'<div class="warn"><p>Benchmarks that failed:</p><ul>{errors}</ul></div>'
    if not data.benchmarks:
        return (failed if errors else "") + (
            '<p class="note">This run has no benchmark: regret is absent, rewards are shown.</p>'
        )
    rows = [
        [Cell(row["environment"]), number(row["T"], ",d"), number(row["value"], ",.2f"),
         number(row["upper_bound"], ",.2f"), number(row["gap"], ",.2g"),
         number(row["share"], ".1e")]
        for row in gap_rows(data)[:MOST_ROWS]
    ]  # fmt: skip
    columns = [Column("Environment"), Column("T", True), Column("Benchmark", True),
               Column("Upper bound", True), Column("Gap", True),
               Column("Gap / benchmark", True)]  # fmt: skip
    return (
        (failed if errors else "")
        + "<p>Regret is measured against a planned sequence. The planner also proves that no"
        " sequence earns more than the upper bound: regret is understated by at most the gap.</p>"
        + figure(figures, "gap", "", "The proven gap of each benchmark, as a share of its value.")
        + table("Benchmarks and their proven upper bounds", columns, rows)
    )


def failures(data: RunData) -> str:
    """Return which cells failed and how, and which are still to come."""
    failed = [record for record in data.records if record.error is not None]
    missing = data.run.n_cells - len(data.records)
    notes = f'<p class="warn">{missing:,} cells have not been played yet.</p>' if missing else ""
    if not failed:
        return notes + "<p>No cell failed.</p>"
    rows = [
        [Cell(data.policy_names[r.policy]), Cell(data.environment_names[r.environment]),
         number(r.horizon, ",d"), number(r.replication, "d"), Cell(r.error or "", limit=300)]
        for r in failed[:MOST_FAILURES]
    ]  # fmt: skip
    columns = [Column("Policy"), Column("Environment"), Column("T", True),
               Column("Replication", True), Column("Error")]  # fmt: skip
    left_out = len(failed) - len(rows)
    return (
        notes + f'<p class="warn">{len(failed):,} of {len(data.records):,} cells failed;'
        " <code>--retry-failed</code> runs them again.</p>"
        + table("Cells that failed", columns, rows)
        + (without(left_out, "failures") if left_out else "")
    )
