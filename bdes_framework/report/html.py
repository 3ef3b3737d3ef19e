"""HTML made safely: every text is escaped here, and nowhere else."""

import base64
import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

from attrs import frozen

from bdes_framework.report.names import clipped

LONGEST_TEXT = 200
LONGEST_VALUE = 160


@frozen
class Cell:
    """A cell of a table: what it says, and what it is sorted by if that is a number."""

    text: str
    value: float | None = None
    is_number: bool = False
    limit: int = LONGEST_TEXT

    def __str__(self) -> str:
        kind = ' class="number"' if self.is_number else ""
        value = "" if self.value is None else f' data-value="{self.value!r}"'
        return f"<td{kind}{value}>{text(self.text, self.limit)}</td>"


def number(value: float | None, form: str) -> Cell:
    """Return a cell with a formatted number, or a dash."""
    if value is None:
        return Cell("–", None, True)
    return Cell(format(value, form), value, True)


def text(value: str, limit: int = LONGEST_TEXT) -> str:
    """Return other people's text, shortened, control characters shown, fit for HTML."""
    return escape(clipped(value, limit))


@frozen
class Column:
    """A column of a table: its heading, and what it means where that is not plain."""

    heading: str
    is_number: bool = False
    meaning: str = ""


def table(
    caption: str,
    columns: Sequence[Column],
    rows: Iterable[Sequence[Cell]],
    *,
    sortable: bool = True,
    strong: Collection[int] = (),
) -> str:
    """Return a table in a region of its own, which scrolls where the page must not.

    ``strong`` are the rows to set off, by their number.
    """
    head = "".join(_heading(column, sortable) for column in columns)
    kind = ' class="sortable"' if sortable else ""
    body = "\n".join(
        f"<tr{' class=strong' if i in strong else ''}>{''.join(map(str, row))}</tr>"
        for i, row in enumerate(rows)
    )
    return (
        f'<div class="scroll" role="region" aria-label="{escape(caption)}" tabindex="0">'
        f"<table{kind}>"
        f"<caption>{escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def _heading(column: Column, sortable: bool) -> str:
    kind = ' class="number"' if column.is_number else ""
    meaning = f' title="{escape(column.meaning)}"' if column.meaning else ""
    inside = escape(column.heading)
    if sortable:
        inside = f'<button type="button">{inside}</button>'
    return f'<th scope="col"{kind}{meaning}>{inside}</th>'


def json_block(identifier: str, value: Any) -> str:
    """Return data for scripts: JSON that no text inside can break out of."""
    plain = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    for character in "<>&":
        plain = plain.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="{identifier}">{plain}</script>'


def content_hash(content: str) -> str:
    """Return the hash by which a Content-Security-Policy allows one script or style."""
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def brief(value: object) -> str:
    """Return a value as JSON, cut where it gets long."""
    plain = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return plain if len(plain) <= LONGEST_VALUE else plain[: LONGEST_VALUE - 1] + "…"


def without(n: int, what: str) -> str:
    """Return a note on what a page leaves out, and where it is."""
    return f'<p class="note">{n:,} more {what} are left out; <code>bdes export</code> has all.</p>'
