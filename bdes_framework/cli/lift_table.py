"""Tables of what a plan earns more than others, as commands print them."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bdes_framework.planning.lift import LIFT_HEADINGS, Lift
from bdes_framework.planning.off_policy import OFF_POLICY_HEADINGS, OffPolicyCheck


def show_lift(console: Console, lift: Lift) -> None:
    """Print what a plan earns per visit, and what it earns more than others."""
    rows = list(lift.rows())
    known = not any(interval for *_, interval in rows)
    n = len(LIFT_HEADINGS) - known
    _show_rows(console, LIFT_HEADINGS[:n], [row[:n] for row in rows])


def show_check(console: Console, check: OffPolicyCheck) -> None:
    """Print a plan's value by the propensities of a log, beside the model's."""
    visits = "first visit" if check.n_visits == 1 else f"first {check.n_visits:,} visits"
    console.print(
        Text(
            f"checked by propensities on the {visits}:"
            f" {check.effective:,.0f} effective users of {check.n_users:,}"
        )
    )
    _show_rows(console, OFF_POLICY_HEADINGS, check.rows())
    if not check.agrees:
        text = "warning: the log contradicts the model's value: do not trust the lift"
        console.print(Text(text, style="yellow"))


def _show_rows(console: Console, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table(pad_edge=False, box=None, header_style="bold")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left")
    for cells in rows:
        table.add_row(*map(Text, cells))
    console.print(table)
