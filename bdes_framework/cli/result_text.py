"""The table of results as a terminal shows it: no line wider than the screen, no row folded."""

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from attrs import asdict, evolve, frozen
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from bdes_framework._internal.colours import colours_of
from bdes_framework._internal.text import ascii_controls
from bdes_framework.experiment.pooling import ENVIRONMENT, HORIZON, Observations
from bdes_framework.experiment.result_table import BEST, TIED, ResultTable, TableColumn, shown_value
from bdes_framework.experiment.summary import Estimate, Result, slopes, summarise

MAX_ROWS, SHOWN_ROWS = 12, 10
"""Policies that are shown, all of them; of more than that, the first ones."""

_INTERVALS = "± of groups"
_SPACE = 2
"""Characters between columns."""


@frozen
class Layout:
    """What of a table fits into a width.

    Parameters
    ----------
    columns : tuple[TableColumn, ...]
        The columns that fit.
    stacked : bool
        Whether the parts of headings stand below each other.
    n_groups_left_out : int
        Number of groups that do not fit.
    """

    columns: tuple[TableColumn, ...]
    stacked: bool
    n_groups_left_out: int = 0

    @property
    def width(self) -> int:
        """Characters of its lines."""
        columns = self.columns
        return sum(self.width_of(column) for column in columns) + _SPACE * (len(columns) - 1)

    def width_of(self, column: TableColumn) -> int:
        """Return the characters of a column."""
        return max(map(cell_len, [*self.heading(column).split("\n"), *column.texts]))

    def heading(self, column: TableColumn) -> str:
        """Return the heading of a column, on one line or more."""
        return ("\n" if self.stacked else ", ").join(column.heading)


def fitting(
    columns: Sequence[TableColumn],
    width: int,
    order: Sequence[str] = ("told", "per_user", "regret", _INTERVALS, "first"),
) -> Layout:
    """Return as much of a table's columns as fits into a width.

    The first that go are those of ``order``, one kind after the other: what can be said below
    the table or read elsewhere, and the intervals of groups. Then groups go.
    """
    found = whole = Layout(tuple(columns), stacked=False)
    for found in _narrower(whole, width, order):
        if found.width <= width:
            break
    return found


def _narrower(layout: Layout, width: int, order: Sequence[str]) -> Iterator[Layout]:
    yield layout
    layout = evolve(layout, stacked=True)
    yield layout
    layout = _with_names(layout, width // 3)
    yield layout
    for kind in order:
        if kind == _INTERVALS:
            layout = _without_intervals(layout, "group")
        else:
            layout = evolve(layout, columns=tuple(c for c in layout.columns if c.kind != kind))
        yield layout
    groups = [column for column in layout.columns if column.kind == "group"]
    for kept in range(len(groups) - 1, -1, -1):
        gone = groups[kept:]
        left = tuple(c for c in layout.columns if all(c is not own for own in gone))
        narrow = evolve(layout, columns=left, n_groups_left_out=len(gone))
        yield narrow
        layout = narrow if not kept else layout
    layout = _without_intervals(layout, "overall")
    yield layout
    others = layout.width - layout.width_of(layout.columns[0])
    yield _with_names(layout, max(width - others, 1))


def _without_intervals(layout: Layout, kind: str) -> Layout:
    short = (evolve(c, texts=c.short) if c.kind == kind else c for c in layout.columns)
    return evolve(layout, columns=tuple(short))


def _with_names(layout: Layout, width: int) -> Layout:
    """Return a layout whose first column is at most so wide."""
    first, *others = layout.columns
    texts = tuple(shortened(text, width) for text in first.texts)
    return evolve(layout, columns=(evolve(first, texts=texts), *others))


def shortened(text: str, width: int) -> str:
    """Return text of at most this width, its middle left out: labels differ at their ends.

    >>> shortened("etc (explore = 1000, c = 2)", 15)
    'etc (ex…c = 2)'
    """
    if cell_len(text) <= width:
        return text
    tail = max((width - 1) // 2, 0)
    head = set_cell_size(text, max(width - 1 - tail, 0)).rstrip()
    end = text[len(text) - tail :] if tail else ""
    while cell_len(end) > tail:
        end = end[1:]
    return f"{head}…{end.lstrip()}"


def result_lines(
    table: ResultTable,
    console: Console,
    *,
    name: str,
    every_policy: bool = False,
    policies: Iterable[str] = (),
) -> Iterator[list[Text]]:
    """Yield the blocks that tell a table on a console: the sentence, the rows, what they mean.

    Parameters
    ----------
    table : ResultTable
        What is told.
    console : Console
        Where; its width decides which columns are shown.
    name : str
        The run's name, for commands that show more.
    every_policy : bool
        Whether to show all policies, however many there are.
    policies : Iterable[str]
        All policies of the run, among which each has its colour; by default those of the table.
    """
    yield [Text(table.sentence, style="bold")]
    n_policies = len(table.rows)
    n_shown = n_policies if every_policy or n_policies <= MAX_ROWS else SHOWN_ROWS
    columns = [
        evolve(c, texts=aligned(c.texts[:n_shown]), short=aligned(c.short[:n_shown]))
        for c in table.columns()
    ]
    alike = len({row.told for row in table.rows}) < 2
    layout = fitting([c for c in columns if not (alike and c.kind == "told")], console.width)
    if n_shown:
        yield list(table_lines(layout, _styles(table, n_shown, policies)))
    notes = []
    if n_shown < n_policies:
        notes.append(f"and {n_policies - n_shown:,} more policies: bdes show {name} --all")
    if layout.n_groups_left_out:
        n, of = layout.n_groups_left_out, len(table.groups)
        what = f"{n:,} of {of:,} columns do not fit here"
        notes.append(f"{what}: --format csv has all, --by splits by something else")
    shown = {column.kind for column in layout.columns}
    notes += table.explain(shown)
    if "told" not in shown and n_policies:
        notes += table.told_lines()
    yield [Text(note, style="dim") for note in notes]


def aligned(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the cells of a column, those without a mark as wide as if they had one."""
    marked = any(text.endswith((BEST, TIED)) for text in texts)
    return tuple(t if not marked or t.endswith((BEST, TIED)) else t + "  " for t in texts)


def table_lines(layout: Layout, styles: Sequence[tuple[str, bool]]) -> Iterator[Text]:
    """Yield the lines of a heading, then one per row.

    ``styles`` are the colour of each row's first column, and whether the row is bold.
    """
    headings = [layout.heading(column).split("\n") for column in layout.columns]
    n_lines = max(map(len, headings))
    padded = [[""] * (n_lines - len(heading)) + heading for heading in headings]
    for parts in zip(*padded, strict=True):
        yield Text.assemble(*_padded(layout, parts), style="bold", no_wrap=True)
    every = zip(*(column.texts for column in layout.columns), strict=True)
    for (colour, bold), texts in zip(styles, every, strict=True):
        name, *others = _padded(layout, texts)
        line = Text.assemble((name, colour), *others, style="bold" if bold else "", no_wrap=True)
        line.rstrip()  # its last cells may be blank
        yield line


def _styles(table: ResultTable, n_rows: int, policies: Iterable[str]) -> list[tuple[str, bool]]:
    colours = colours_of([*policies, *(row.policy for row in table.rows)])
    several = len(table.rows) > 1
    return [
        (colours[row.policy].terminal, several and row.overall is not None and row.overall.is_best)
        for row in table.rows[:n_rows]
    ]


def _padded(layout: Layout, texts: Sequence[str]) -> Iterator[str]:
    """Yield the texts of a line, as wide as their columns; numbers to the right."""
    last = len(texts) - 1
    for index, (column, text) in enumerate(zip(layout.columns, texts, strict=True)):
        space = " " * (layout.width_of(column) - cell_len(text))
        to_left = column.kind in ("policy", "told")
        whole = text + space if to_left else space + text
        yield whole.rstrip() if index == last else whole + " " * _SPACE


def print_blocks(console: Console, blocks: Sequence[Sequence[Text]]) -> None:
    """Print blocks with a line between them, unless a terminal is too low for that."""
    crowded = False
    if console.is_terminal:
        parts = [part for block in blocks for part in block]
        lines = sum(len(part.wrap(console, console.width)) for part in parts)
        crowded = lines < console.height < lines + len(blocks)
    for index, block in enumerate(blocks):
        if index and not crowded:
            console.print()
        for part in block:
            console.print(part)


@frozen
class _Column:
    """A column of the table of every row; those that matter least go first if it is too wide."""

    heading: str
    texts: tuple[str, ...]
    is_number: bool = True
    matters: int = 9

    @property
    def width(self) -> int:
        return max(map(cell_len, [self.heading, *self.texts]))


_NOTES = {
    "reward ± 95 %": "reward: what was paid",
    "per user": "per user: regret, divided by the number of users",
    "slope": "slope: of log regret over log T",
}


def every_row(observations: Observations, width: int) -> Iterator[Text]:
    """Yield a heading, one line per environment of the grid, horizon and policy, and a legend.

    A star marks the best policy of each environment and horizon.
    """
    results = summarise(observations.cells)
    columns = list(_columns(observations, results))
    while _width(columns) > width and (least := min(c.matters for c in columns)) < 9:
        columns = [column for column in columns if column.matters > least]
    room = (width - _width(columns)) // 2
    if room < 0:  # the labels share what is left
        columns = [
            c if c.is_number else evolve(c, texts=_cut(c.texts, max(c.width + room, 12)))
            for c in columns
        ]
    best = best_results(results)
    widths = [column.width for column in columns]
    rows = [[column.heading for column in columns], *zip(*(c.texts for c in columns), strict=True)]
    for index, texts in enumerate(rows):
        bold = index == 0 or results[index - 1] in best
        parts = [
            set_cell_size("", width - cell_len(text)) + text
            if column.is_number
            else set_cell_size(text, width)
            for column, width, text in zip(columns, widths, texts, strict=True)
        ]
        line = (" " * _SPACE).join(parts).rstrip()
        yield Text(line, style="bold" if bold else "", no_wrap=True)
    shown = {column.heading for column in columns}
    notes = [note for heading, note in _NOTES.items() if heading in shown]
    yield Text("; ".join([*notes, "± 95 % over replications"]), style="dim")


def row_records(observations: Observations) -> list[dict[str, object]]:
    """Return the rows of :func:`every_row` as mappings, with every number whole."""
    results = summarise(observations.cells)
    slope_of, best = slopes(results), best_results(results)
    found: list[dict[str, object]] = []
    for result in results:
        variant = observations.variants[result.environment, result.horizon]
        estimates = {
            "total_reward": result.reward,
            "total_mean": result.mean,
            "regret": result.regret,
        }
        if observations.step == "visit":
            estimates["regret_per_user"] = result.regret_per_user
        found.append(
            {
                **variant.varies,
                "environment": variant.environment,
                "lam": variant.lam,
                "K": variant.n_arms,
                "instance": variant.instance,
                "T": result.horizon,
                "policy": result.policy,
                **{name: own and asdict(own) for name, own in estimates.items()},
                "share": result.share,
                "slope": slope_of.get((result.environment, result.policy)),
                "n_failed": result.n_failed,
                "is_best": result in best,
            }
        )
    return found


def _cut(texts: Sequence[str], width: int) -> tuple[str, ...]:
    return tuple(shortened(text, width) for text in texts)


def _width(columns: Sequence[_Column]) -> int:
    return sum(column.width for column in columns) + _SPACE * (len(columns) - 1)


def _columns(observations: Observations, results: Sequence[Result]) -> Iterator[_Column]:
    variants = [observations.variants[result.environment, result.horizon] for result in results]
    environments = tuple(ascii_controls(variant.environment) for variant in variants)
    yield _Column("environment", environments, is_number=False)
    names = [name for name in observations.dimensions() if name not in (ENVIRONMENT, HORIZON)]
    for name in names:
        yield _Column(
            ascii_controls(name), tuple(shown_value(variant.value(name)) for variant in variants)
        )
    if any(variant.instance for variant in variants):
        yield _Column("instance", tuple(shown_value(variant.instance) for variant in variants))
    yield _Column("T", tuple(f"{result.horizon:,}" for result in results))
    best = best_results(results)
    labels = tuple(
        ascii_controls(result.policy)
        + (" *" if result in best else "")
        + (f" ({result.n_failed} failed)" if result.n_failed and result.mean else "")
        for result in results
    )
    yield _Column("policy", labels, is_number=False)
    with_regret = any(result.regret is not None for result in results)
    matters = 2 if with_regret else 9
    yield _Column("reward ± 95 %", _texts([r.reward for r in results]), matters=matters)
    each = ("failed" if r.mean_per_step is None else f"{r.mean_per_step.mean:.4f}" for r in results)
    step = observations.step
    yield _Column(f"reward per {step}", tuple(each), matters=1 if with_regret else 9)
    if with_regret:
        yield _Column("regret ± 95 %", _texts([r.regret for r in results]), matters=4)
        if step == "visit":
            texts = tuple(
                "-" if r.regret_per_user is None else f"{r.regret_per_user.mean:.3f}"
                for r in results
            )
            yield _Column("per user", texts, matters=3)
        yield _Column("share, %", tuple(map(_fraction, results)))
    slope_of = slopes(results)
    if slope_of:
        found = (slope_of.get((result.environment, result.policy)) for result in results)
        texts = tuple("" if slope is None else f"{slope:.2f}" for slope in found)
        yield _Column("slope", texts, matters=3)


def _texts(estimates: Sequence[Estimate | None]) -> tuple[str, ...]:
    return tuple(map(estimate_text, estimates))


def best_results(results: Sequence[Result]) -> set[Result]:
    """Return the results with the highest expected reward of their environment and horizon."""
    columns: dict[tuple[str, int], list[tuple[float, Result]]] = {}
    for result in results:
        if result.mean is not None:
            column = columns.setdefault((result.environment, result.horizon), [])
            column.append((result.mean.mean, result))
    return {max(column, key=itemgetter(0))[1] for column in columns.values() if len(column) > 1}


def _fraction(result: Result) -> str:
    if result.mean is None:
        return "failed"
    if result.beats_benchmark:
        return "> 100"
    return "-" if result.share is None else f"{100 * result.share:.1f}"


def estimate_text(estimate: Estimate | None) -> str:
    """Return a mean with its interval, or a dash."""
    if estimate is None:
        return "-"
    if estimate.half_width is None:
        return f"{estimate.mean:,.1f}"
    return f"{estimate.mean:,.1f} ± {estimate.half_width:,.1f}"
