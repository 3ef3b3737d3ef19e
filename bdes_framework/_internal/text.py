"""Text for messages: nearest matches, lists, and untrusted text made safe to print."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

_USER_PASSWORD = re.compile(r"(\w:/{1,2}[^\s:/@]*):.*@", re.DOTALL)
_QUERY_PASSWORD = re.compile(r"([?&][^=&]*password=)[^&]*", re.IGNORECASE)
_LOCAL_MODULE = re.compile(r"^bdes_local_(.+)_[0-9a-f]{12}(?=\.|$)")

MAX_QUOTE_LENGTH = 80
MAX_LIST_LENGTH = 20


def quoted(value: object, limit: int = MAX_QUOTE_LENGTH) -> str:
    r"""Return ``value`` quoted on one line, control characters escaped, at most ``limit`` long.

    >>> quoted("two\nlines")
    "'two\\nlines'"
    """
    try:
        text = ascii_controls(repr(value))
    except Exception:  # a number of 5,000 digits, or somebody's own repr
        text = f"<{type(value).__name__} that cannot be shown>"
    if len(text) <= limit:
        return text
    return text[: limit - 12] + f"… ({len(text)} chars)"


def without_password(address: str) -> str:
    """Return the address of a database, or any other text, with ``***`` for a password in it.

    >>> without_password("postgresql://ann:secret@host/shop")
    'postgresql://ann:***@host/shop'
    """
    return _QUERY_PASSWORD.sub(r"\1***", _USER_PASSWORD.sub(r"\1:***@", address))


def ascii_controls(text: str) -> str:
    """Return ``text`` with control characters, newlines included, escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable(text: str) -> str:
    """Return ``text`` with control characters escaped, but for newlines."""
    return "\n".join(map(ascii_controls, text.split("\n")))


def one_line(text: str, limit: int = 300) -> str:
    """Return ``text`` on one line, white space folded, control characters escaped, shortened."""
    folded = ascii_controls(" ".join(text.split()))
    return folded if len(folded) <= limit else folded[: limit - 1] + "…"


def error_text(error: BaseException) -> str:
    """Return an exception's type and message on one line, shortened."""
    return one_line(f"{type(error).__name__}: {error_message(error)}")


def error_message(error: BaseException) -> str:
    """Return an exception's message, or that it cannot be read: plugins may raise anything."""
    try:
        return str(error)
    except BaseException as another:
        return f"(its message cannot be read: {type(another).__name__})"


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """Return the entry of ``allowed`` nearest to ``word``; None if none is close."""
    matches = get_close_matches(word[:100], list(allowed), n=1, cutoff=0.6)
    return matches[0] if matches else None


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` (with its leading space); empty if no word is close.

    >>> did_you_mean("ucb", ["ucb1", "exp3"])
    " Did you mean 'ucb1'?"
    """
    match = nearest(word, allowed)
    return f" Did you mean {quoted(match)}?" if match is not None else ""


def class_path(thing: object) -> str:
    """Return the dotted path of an object's class, such as ``my_plugin.policy.MyPolicy``.

    Of a local file it is the file's name: the module's own name has a hash in it.
    """
    module = _LOCAL_MODULE.sub(r"\1", type(thing).__module__)
    return f"{module}.{type(thing).__qualname__}"


def with_article(noun: str) -> str:
    """Return ``a policy``, ``an environment``."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def counted(n: int, noun: str) -> str:
    """Return ``1 cell``, ``2 cells``."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def duration(seconds: float) -> str:
    """Return ``40 s``, ``5 min``, ``3 h``, ``4 days``: about as long as that.

    >>> duration(200)
    '3 min'
    """
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 1):.0f} s"


def listed(names: Iterable[str]) -> str:
    """Return names as a sorted, comma-separated list, shortened if there are many."""
    ordered = sorted(names)
    if not ordered:
        return "none"
    shown = ", ".join(ascii_controls(name) for name in ordered[:MAX_LIST_LENGTH])
    more = len(ordered) - MAX_LIST_LENGTH
    return f"{shown} and {more} more" if more > 0 else shown
