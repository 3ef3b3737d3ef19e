"""What objects show of themselves when somebody types their name: short texts, small tables."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from attrs import frozen

from bdes_framework._internal.text import ascii_controls

WIDTH = 80
"""Columns of a terminal."""
MAX_NUMBERS = 5
MAX_ROWS = 12
"""Rows of a table that a notebook shows of an object."""


def shown_fields(name: str, /, **fields: object) -> str:
    """Return a class's name with fields, on one line, or on one line each if that is too long.

    Text is shown as it is; quote it first if it comes from outside.

    >>> shown_fields("Plan", value=2.5, gap="1 %")
    'Plan(value=2.5, gap=1 %)'
    """
    parts = [f"{key}={shown_number(value)}" for key, value in fields.items()]
    line = f"{name}({', '.join(parts)})"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {_cut(part, WIDTH - 5)}," for part in parts), ")"])


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def shown_number(value: object) -> str:
    """Return a number with six digits, thousands with commas; anything else as text.

    >>> shown_number(12345), shown_number(0.1 + 0.2), shown_number(None)
    ('12,345', '0.3', 'None')
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    return f"{value:,.2f}" if 1000 <= abs(value) < 1e9 else f"{value:.6g}"


def shown_numbers(values: Iterable[Any], most: int = MAX_NUMBERS) -> str:
    """Return the first numbers of an array, and how many there are if not all are shown.

    >>> shown_numbers([0.9, 1 / 3]), shown_numbers(range(10))
    ('[0.9, 0.3333]', '[0, 1, 2, 3, 4, … 10 in all]')
    """
    numbers = list(values)
    texts = [f"{number:.4g}" for number in numbers[:most]]
    if len(numbers) > most:
        texts.append(f"… {len(numbers):,} in all")
    return f"[{', '.join(texts)}]"


def shown_names(names: Sequence[str], most: int = MAX_NUMBERS) -> str:
    """Return the first names, and how many there are if not all are shown."""
    texts = [ascii_controls(name) for name in names[:most]]
    if len(names) > most:
        texts.append(f"… {len(names):,} in all")
    return f"[{', '.join(texts)}]"


def html_table(
    headings: Sequence[object], rows: Iterable[Sequence[object]], caption: str = ""
) -> str:
    """Return a small table in HTML; all text is escaped, numbers stand to the right.

    >>> html_table(["arm"], [["<b>"]])
    '<table><thead><tr><th>arm</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    shown = list(rows)
    more = len(shown) - MAX_ROWS
    head = "".join(f"<th>{_html_text(text)}</th>" for text in headings)
    body = "".join(f"<tr>{''.join(map(_html_cell, row))}</tr>" for row in shown[:MAX_ROWS])
    if more > 0:
        body += f'<tr><td colspan="{len(headings)}">… and {more:,} more</td></tr>'
    above = f"<caption>{_html_text(caption)}</caption>" if caption else ""
    header = f"<thead><tr>{head}</tr></thead>" if headings else ""
    return f"<table>{above}{header}<tbody>{body}</tbody></table>"


def html_facts(title: str, facts: Iterable[tuple[str, object]]) -> str:
    """Return names and values as a table of two columns, the title above."""
    return f"<p><strong>{_html_text(title)}</strong></p>" + html_table([], facts)


def _html_cell(value: object) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    style = ' style="text-align: right"' if is_number else ""
    return f"<td{style}>{_html_text(value)}</td>"


def _html_text(value: object) -> str:
    return escape(ascii_controls(shown_number(value)))


@frozen(repr=False)
class Summary:
    """A text for reading: typing its name, or printing it, shows it as it is.

    Parameters
    ----------
    text : str
        The text, of several lines.
    """

    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"
