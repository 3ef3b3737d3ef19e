"""``bdes plan --leave``: what to show at which state, when users may leave after every visit."""

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bdes_framework._internal.text import counted
from bdes_framework.cli.lift_table import show_lift
from bdes_framework.cli.options import print_facts
from bdes_framework.model.decision_table import DecisionTable
from bdes_framework.planning.lift import Lift
from bdes_framework.planning.plan_words import TABLE_HEADINGS, table_words

_MOST_ROWS = 40


def continuation_of(leave: float | None, visits: float | None) -> float:
    """Return the probability that a user comes back, from one of two ways to say it; 0 for none."""
    if leave is not None and visits is not None:
        raise click.UsageError("--leave and --visits say the same: give one of them")
    if leave is not None:
        return 1.0 - leave
    return 1.0 - 1.0 / visits if visits is not None else 0.0


def show_table(console: Console, table: DecisionTable, lift: Lift) -> None:
    """Print a decision table: the answer first, then what it earns, and more than others."""
    rows = Table(pad_edge=False, box=None, header_style="bold")
    for heading in TABLE_HEADINGS:
        rows.add_column(heading, justify="right" if heading in "rb" else "left")
    for texts in table_words(table, _MOST_ROWS):
        rows.add_row(*map(Text, texts))
    console.print(rows)
    if table.starts.size > _MOST_ROWS:
        more = counted(table.starts.size - _MOST_ROWS, "interval")
        console.print(Text(f"… and {more} more: --out table.json has them all"))
    visits = f"{table.visits:,.4g}"
    per_visit = table.value / table.visits
    facts = {
        "value": f"{table.value:,.4f} expected of a user, {per_visit:.4f} per visit",
        "upper bound": f"{table.upper_bound:,.4f}: no way to choose arms earns more",
        "gap": f"{table.gap:.2e} of the upper bound at most",
        "visits": f"{visits} of a user on average; after each, {1 / table.visits:.4g} leave",
    }
    print_facts(console, facts.items())
    show_lift(console, lift)
