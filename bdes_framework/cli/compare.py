"""``bdes compare``: runs on what they have in common, or the policies of one run."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from string import ascii_uppercase

import click
from attrs import asdict, evolve, frozen
from rich.text import Text

from bdes_framework._internal.colours import colours_of
from bdes_framework._internal.text import ascii_controls
from bdes_framework.cli.completion import complete_labels
from bdes_framework.cli.options import AS_JSON, RUN, echo, json_text, output, write_data
from bdes_framework.cli.result_text import aligned, fitting, print_blocks, shortened, table_lines
from bdes_framework.cli.runs import local_time
from bdes_framework.experiment.comparison import (
    Contrast,
    code_differences,
    common_cells,
    contrast,
    measure_of,
    setup_changes,
)
from bdes_framework.experiment.pooling import (
    ENVIRONMENT,
    HORIZON,
    INSTANCE,
    Observations,
    check_names,
    interval_over,
    pool,
)
from bdes_framework.experiment.result_table import (
    TIED,
    Group,
    Measure,
    TableColumn,
    best_words,
    horizon_words,
    interval_words,
    reward_words,
    shown_value,
)
from bdes_framework.experiment.results import Run, load_run
from bdes_framework.experiment.summary import CellSummary, Estimate

_MAX_CHANGES = 8
"""Changes of the setup that are listed, for each run."""
_ORDER = ("± of groups", "first", "regret")
_MAX_BASE = 24
"""Characters of the policy that others are compared with, in the heading of a column."""
_POLICY_HELP = "Only this policy; repeatable. Of one run, others are compared with the first."


@frozen
class _Choice:
    """What of the runs is compared."""

    policies: Sequence[str]
    by: Sequence[str]
    horizon: int | None
    every: bool

    def names(self, observations: Observations) -> Sequence[str]:
        """Return what rows of one policy differ in; raise if that does not vary."""
        dimensions = observations.dimensions()
        if not self.every:
            check_names("dimension", self.by, dimensions)
            return self.by
        others = [name for name in dimensions if name not in (ENVIRONMENT, HORIZON)]
        units = [observations.unit(cell) for cell in observations.cells]
        instance = [INSTANCE] if any(unit.instance for unit in units) else []
        return [ENVIRONMENT, *others, *instance, HORIZON]

    def of(self, cells: Sequence[CellSummary]) -> list[CellSummary]:
        """Return the chosen cells: those of the longest horizon, unless it is said otherwise."""
        at = self.horizon
        if at is None and not self.every and "T" not in self.by:
            at = max((cell.horizon for cell in cells), default=None)
        return [
            cell
            for cell in cells
            if (not self.policies or cell.policy in self.policies) and at in (None, cell.horizon)
        ]


@frozen
class _Row:
    """A line of the table: a policy, in a group, on one side (a run, or the policy itself)."""

    policy: str
    group: Group
    side: str
    found: Contrast


@frozen
class _Comparison:
    """What is printed: whom, what is different, by how much, and what it means."""

    headings: tuple[str, str, str]
    names: Sequence[str]
    measure: Measure
    rows: Sequence[_Row]
    legend: Sequence[str]


@click.command()
@click.argument("runs", nargs=-1, required=True, type=RUN, metavar="RUN...")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="LABEL",
    help=_POLICY_HELP,
    shell_complete=complete_labels("policy"),
)
@click.option("--by", metavar="NAMES", default="", help="Rows for each of these, such as lam,K.")
@click.option("--horizon", type=int, metavar="T", help="The longest in common by default.")
@click.option("--all", "every", is_flag=True, help="Rows for each environment and horizon.")
@AS_JSON
def compare(
    runs: tuple[Path, ...],
    policies: tuple[str, ...],
    by: str,
    horizon: int | None,
    every: bool,
    as_json: bool,
) -> None:
    """Compare runs on what they have in common with the first, or the policies of one RUN."""
    if len(runs) > len(ascii_uppercase):
        raise click.UsageError(f"compare takes {len(ascii_uppercase)} runs at most")
    names = [name.strip() for name in by.split(",") if name.strip()]
    choice = _Choice(policies, names, horizon, every)
    with ExitStack() as stack:
        opened = [stack.enter_context(load_run(run)) for run in runs]
        changes: list[str] = []
        remarks: list[str] = []
        if len(opened) == 1:
            found = _policies(opened[0], choice)
        else:
            found, changes, remarks = _runs(opened, choice)
        if as_json:
            write_data(json_text(_as_json(opened, found, changes, remarks)))
        else:
            _print(opened, found, changes)
    for remark in remarks:
        echo(remark, err=True)
    sys.exit(0 if found.rows else 1)


def _policies(run: Run, choice: _Choice) -> _Comparison:
    """Compare the policies of a run with the first one named, or with the best."""
    observations = run.observations()
    table = pool(observations, (), horizon=choice.horizon, policies=choice.policies)
    labels = list(choice.policies) or [row.policy for row in table.rows]
    base = labels[0] if labels else ""
    cells = choice.of(observations.cells)
    names = choice.names(evolve(observations, cells=cells))
    measure = measure_of(cells)
    own = _by_policy(observations, cells, names)
    rows = []
    for label, group in sorted(own, key=lambda place: labels.index(place[0])):
        found = contrast(observations, own.get((base, group), []), own[label, group], measure)
        if found is not None:
            rows.append(_Row(label, group, "", found))
    shown = "share, %" if measure == "share" else f"reward per {observations.step}"
    headings = (base, shown, f"less {shortened(ascii_controls(base), _MAX_BASE)}")
    legend = _legend(observations, cells, measure, headings[2], paired=True)
    return _Comparison(headings, names, measure, rows, list(legend))


def _runs(runs: Sequence[Run], choice: _Choice) -> tuple[_Comparison, list[str], list[str]]:
    """Compare each later run with the first; return what differs besides, and remarks."""
    first, before = runs[0], runs[0].cells()
    labels = [part["label"] for run in runs for part in run.resolved["config"]["policies"]]
    check_names("policy", choice.policies, dict.fromkeys(labels), owner="the runs have")
    changes: list[str] = []
    remarks: list[str] = []
    pairs = []
    for name, run in zip(ascii_uppercase[1:], runs[1:], strict=False):
        common = common_cells(first.resolved, run.resolved, before, run.cells())
        pairs.append((name, run, common))
        found = list(setup_changes(first.resolved, run.resolved, name))
        more = len(found) - _MAX_CHANGES
        changes += found[:_MAX_CHANGES] + ([f"and {more:,} more in {name}"] if more > 0 else [])
        remarks += _left_out(common.different, name)
        remarks += code_differences(first.resolved, run.resolved, name)
        if not _same_seed(first, run):
            remarks.append(f"A and {name} have different seeds, so replications are not paired")
    # Each at the longest horizon that it has in common with the first.
    chosen = [cell for _, _, both in pairs for cell in choice.of([*both.first, *both.second])]
    kept = {id(cell) for cell in chosen}
    observations = first.observed(chosen)
    names = choice.names(observations)
    measure = measure_of(chosen)
    rows = []
    for name, run, common in pairs:
        sides = [
            _by_policy(observations, [cell for cell in side if id(cell) in kept], names)
            for side in (common.first, common.second)
        ]
        for policy, group in sides[0]:
            one, other = (side.get((policy, group), []) for side in sides)
            row = contrast(observations, one, other, measure, paired=_same_seed(first, run))
            if row is not None:
                rows.append(_Row(policy, group, name, row))
    order = list(dict.fromkeys(row.policy for row in rows))
    rows.sort(key=lambda row: order.index(row.policy))
    several = len(runs) > 2
    headings = ("A", "its own" if several else "B", "less A" if several else "B - A")
    paired = all(_same_seed(first, run) for run in runs)
    legend = _legend(observations, chosen, measure, headings[2], paired=paired)
    return _Comparison(headings, names, measure, rows, list(legend)), changes, remarks


def _left_out(different: Sequence[str], name: str) -> Iterator[str]:
    for each in different[:_MAX_CHANGES]:
        yield f"left out, for they differ in A and {name}: {each}"
    if len(different) > _MAX_CHANGES:
        yield f"left out: {len(different) - _MAX_CHANGES:,} more environments"


def _same_seed(one: Run, other: Run) -> bool:
    seeds = [run.resolved["config"]["seed"] for run in (one, other)]
    return bool(seeds[0] == seeds[1])


def _by_policy(
    observations: Observations, cells: Sequence[CellSummary], names: Sequence[str]
) -> dict[tuple[str, Group], list[CellSummary]]:
    """Return cells by policy and group, in the order first seen."""
    found: dict[tuple[str, Group], list[CellSummary]] = {}
    for cell in cells:
        unit = observations.unit(cell)
        values = dict(zip(names, observations.group(unit, names), strict=True))
        if INSTANCE in values:
            values[INSTANCE] = unit.instance
        found.setdefault((cell.policy, tuple(values.values())), []).append(cell)
    return found


def _legend(
    observations: Observations,
    cells: Sequence[CellSummary],
    measure: Measure,
    difference: str,
    *,
    paired: bool,
) -> Iterator[str]:
    """Yield what the numbers mean, a line each; ``difference`` is the heading of that column."""
    units = {observations.unit(cell) for cell in cells}
    n_instances = len({(unit.environment, unit.instance) for unit in units})
    n_replications = len({cell.replication for cell in cells})
    over = interval_words(interval_over(units), n_instances, n_replications)
    step = observations.step
    what = f"share of {best_words(step)}'s reward in %"
    if measure == "reward":
        what = reward_words(step, observations.plans_benchmarks)
    horizons = {cell.horizon for cell in cells}
    at = f", {horizon_words(max(horizons), step)}" if len(horizons) == 1 else ""
    yield f"{what}{at}" + (f"; ± 95 % over {over}" if over else "; one value each")
    unit = "in points of share" if measure == "share" else f"in reward per {step}"
    how = "paired by instance and luck" if paired else "on the same instances"
    yield f"{difference}: {unit}, {how}" + ("; = tied: it may be 0" if over else "")
    if measure == "share":
        yield f"reward: that difference in expected reward, summed over the {step}s"
    if len(units) > 1:
        yield "ahead on: on how many instances, one per setting, it earns more"


def _print(
    runs: Sequence[Run],
    found: _Comparison,
    changes: Sequence[str],
) -> None:
    console = output()
    heading = [
        f"{name}  {shown_value(run.name)}, {local_time(run.finished)}, {run.folder}"
        for name, run in zip(ascii_uppercase, runs, strict=False)
    ]
    if len(runs) == 1:
        heading = [heading[0].removeprefix("A  ")]
    lines = [Text(shortened(ascii_controls(line), console.width)) for line in heading]
    lines += [Text(f"differs: {ascii_controls(change)}") for change in changes]
    if not found.rows:
        what = "the runs have no cells in common" if len(runs) > 1 else "no cell has finished well"
        print_blocks(console, [lines, [Text(what)]])
        return
    layout = fitting(list(_columns(found, len(runs))), console.width, _ORDER)
    colours = colours_of(dict.fromkeys(label for run in runs for label in run.told))
    styles = [(colours[row.policy].terminal, False) for row in found.rows]
    table = list(table_lines(layout, styles))
    kinds = {column.kind for column in layout.columns}
    hidden = {"reward: ": "regret", "ahead on: ": "first"}
    notes = [
        Text(line, style="dim")
        for line in found.legend
        if all(kind in kinds for start, kind in hidden.items() if line.startswith(start))
    ]
    print_blocks(console, [lines, table, notes])


def _columns(found: _Comparison, n_runs: int) -> Iterator[TableColumn]:
    rows, form = found.rows, _Form(found.measure)
    yield TableColumn("policy", ("policy",), tuple(ascii_controls(row.policy) for row in rows))
    for index, name in enumerate(found.names):
        texts = tuple(_key(row.group[index]) for row in rows)
        yield TableColumn("key", (ascii_controls(name),), texts)
    if n_runs > 2:
        yield TableColumn("key", ("run",), tuple(row.side for row in rows))
    if n_runs > 1:
        yield form.column(found.headings[0], [row.found.first for row in rows])
    yield form.column(found.headings[1], [row.found.second for row in rows])
    # Of one run, nothing is said of the policy that others are compared with.
    others = [
        None if n_runs == 1 and row.policy == found.headings[0] else row.found for row in rows
    ]
    yield form.changes(found.headings[2], others)
    if found.measure == "share":
        total = _Form("total")
        totals = tuple(total.text(own.reward_difference) if own else "" for own in others)
        yield TableColumn("regret", ("reward",), totals)
    if any(row.found.n_units > 1 for row in rows):
        texts = tuple(f"{own.n_ahead:,} of {own.n_units:,}" if own else "" for own in others)
        yield TableColumn("first", ("ahead on",), texts)


def _key(value: object) -> str:
    return ascii_controls(value) if isinstance(value, str) else shown_value(value)  # type: ignore[arg-type]


@frozen
class _Form:
    """How numbers of a measure are written."""

    measure: str

    def text(self, value: Estimate, *, interval: bool = True) -> str:
        """Return a mean with its interval."""
        scale, form = {"share": (100, ".1f"), "total": (1, ",.1f")}.get(self.measure, (1, ".4f"))
        text = f"{scale * value.mean:z{form}}"
        if interval and value.half_width is not None:
            text += f" ± {scale * value.half_width:{form}}"
        return text

    def column(self, heading: str, values: Sequence[Estimate]) -> TableColumn:
        """Return a column of numbers, with and without intervals."""
        texts, short = ([self.text(v, interval=i) for v in values] for i in (True, False))
        return TableColumn("group", (heading,), tuple(texts), tuple(short))

    def changes(self, heading: str, rows: Sequence[Contrast | None]) -> TableColumn:
        """Return the column of differences: ``=`` marks those that may be 0."""
        texts, short = (
            aligned(["" if row is None else self._change(row, interval=i) for row in rows])
            for i in (True, False)
        )
        return TableColumn("overall", (heading,), texts, short)

    def _change(self, row: Contrast, *, interval: bool) -> str:
        if row.is_same:
            return "same"
        return self.text(row.difference, interval=interval) + (TIED if row.is_tied else "")


def _as_json(
    runs: Sequence[Run],
    found: _Comparison,
    changes: Sequence[str],
    remarks: Sequence[str],
) -> dict[str, object]:
    return {
        "runs": [
            {
                "letter": letter,
                "run": str(run.folder),
                "name": run.name,
                "finished": run.finished or None,
            }
            for letter, run in zip(ascii_uppercase, runs, strict=False)
        ],
        "changes": list(changes),
        "remarks": list(remarks),
        "measure": found.measure,
        "against": found.headings[0],
        "rows": [
            {
                "policy": row.policy,
                "run": row.side or "A",
                "group": dict(zip(found.names, row.group, strict=True)),
                **asdict(row.found),
                "is_tied": row.found.is_tied,
            }
            for row in found.rows
        ],
        "legend": list(found.legend),
    }
