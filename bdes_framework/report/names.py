"""Labels fit for charts and tables: other people's text, escaped, shortened, still distinct."""

from collections.abc import Iterable

from bdes_framework._internal.text import ascii_controls

MAX_NAME = 40
MAX_TEXT = 200


def shown_names(labels: Iterable[str], limit: int = MAX_NAME) -> dict[str, str]:
    """Return what each label is shown as: at most about ``limit`` characters, no two alike.

    >>> shown_names(["a" * 9, "a" * 8, "b"], limit=5)
    {'aaaaaaaaa': 'aaaa…', 'aaaaaaaa': 'aaaa… (2)', 'b': 'b'}
    """
    shown: dict[str, str] = {}
    taken: set[str] = set()
    for label in labels:
        if label in shown:
            continue
        name = clipped(label, limit)
        unique, n = name, 1
        while unique in taken:
            n += 1
            unique = f"{name} ({n})"
        shown[label] = unique
        taken.add(unique)
    return shown


def clipped(text: str, limit: int = MAX_TEXT) -> str:
    """Return text on one line, control characters escaped, cut at ``limit`` characters."""
    line = ascii_controls(text[: 2 * limit])
    return line if len(line) <= limit and len(text) <= 2 * limit else line[: limit - 1] + "…"
