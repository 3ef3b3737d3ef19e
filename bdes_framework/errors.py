"""The framework's errors: one small tree, each with a built-in parent.

Every message says what was wrong, where, what was allowed and, where there is one,
the nearest match. :class:`BdesError` catches them all. Nothing here needs more than the standard
library: the client of a service raises these errors where nothing else is installed.
"""

from collections.abc import Sequence
from dataclasses import dataclass


class BdesError(Exception):
    """The root of every error this framework raises on purpose."""


class InvalidValueError(BdesError, ValueError):
    """A value breaks its type's promise: an :class:`Instance` with a NaN, a horizon of 0."""


class UnknownNameError(BdesError, LookupError):
    """No plugin registered this name; says which names exist and which plugins failed."""


class PluginError(BdesError, RuntimeError):
    """Something asked for a plugin that is missing, disabled, failed or of a wrong version."""


class ContractError(BdesError, RuntimeError):
    """A plugin broke its protocol at run time: names the plugin, the round and the value."""


class StoreError(BdesError, OSError):
    """A run's folder or another file cannot be used: damaged, newer, full, in use, not writable."""


class JournalError(BdesError, OSError):
    """A journal cannot be used: damaged, newer, full, held by another process, out of reach.

    Attributes
    ----------
    is_passing : bool
        Whether the same may go well later, with nothing repaired: a full disk, a lost connection.
    is_in_doubt : bool
        Whether nobody can say yet if it was done. Of every other error of a turn it is certain that
        nothing of the turn was kept.
    """

    def __init__(
        self, message: str, *, is_passing: bool = False, is_in_doubt: bool = False
    ) -> None:
        self.is_passing, self.is_in_doubt = is_passing, is_in_doubt
        super().__init__(message)


class ContradictionError(BdesError, ValueError):
    """Something else was said before: another reward of the same decision; the first one stays."""


class ServiceError(BdesError, OSError):
    """A live service did not answer as it should: not reached, too slow, a wrong token.

    Attributes
    ----------
    status : int or None
        The HTTP status it answered with; None if there was no answer.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing wrong in a configuration: where it is and what is wrong with it."""

    path: str
    """Key path, such as ``policies[0].planner.gap``; empty for the whole table."""
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


_MAX_SHOWN = 20
_MAX_LENGTH = 2_000


def _shortened(text: str) -> str:
    half = _MAX_LENGTH // 2
    return text if len(text) <= _MAX_LENGTH else f"{text[:half]} … {text[-half:]}"


class ConfigError(BdesError, ValueError):
    """A configuration that cannot be used; has every mistake found, and shows the first 20.

    Attributes
    ----------
    mistakes : tuple[Mistake, ...]
        What is wrong and where.
    source : str
        The file, or what was being configured.
    """

    def __init__(self, mistakes: Sequence[Mistake], source: str = "") -> None:
        self.mistakes = tuple(mistakes)
        self.source = source
        super().__init__(mistakes, source)

    def __str__(self) -> str:
        before = f"{self.source}: " if self.source else ""
        lines = [_shortened(f"{before}{mistake}") for mistake in self.mistakes[:_MAX_SHOWN]]
        if more := len(self.mistakes) - len(lines):
            lines.append(f"{before}and {more:,} more mistake{'s' if more > 1 else ''}")
        return "\n".join(lines)
