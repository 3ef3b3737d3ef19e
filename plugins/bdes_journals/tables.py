"""A journal in the tables of a database: what SQLite and PostgreSQL have in common."""

from abc import abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from typing import Any, TypeAlias

from bdes_framework import Decided, Event, JournalError, ModelMade, Rewarded
from bdes_journals.rows import (
    ARM_ADDED,
    MODEL_MADE,
    NEW_USER,
    Counts,
    DamagedRowError,
    EventRow,
    SideRows,
    Turn,
    counts_checksum,
    events_of,
    needs_side_rows,
)

Rows: TypeAlias = list[Any]

BLOCK = 5_000
"""Events that are read together: enough for speed, and memory stays flat."""

MOST_LINES = 100
"""Of what is damaged."""

EVENT = "number, kind, subject, user_no, arm, chosen, model, value, time, checksum"
MODEL = "number, read, digest, version, data, checksum"

COUNTS = "SELECT events, users, decisions, arms, models, checksum FROM {schema}.head"
EVENTS = (
    f"SELECT {EVENT} FROM {{schema}}.events"
    " WHERE number >= {p} AND number < {p} ORDER BY number"
)
SIDE_ROWS = {
    NEW_USER: "SELECT number, name, checksum FROM {schema}.users WHERE number BETWEEN {p} AND {p}",
    ARM_ADDED: "SELECT number, name, checksum FROM {schema}.arms WHERE number BETWEEN {p} AND {p}",
    MODEL_MADE: f"SELECT {MODEL} FROM {{schema}}.models WHERE number BETWEEN {{p}} AND {{p}}",
}
DECISIONS = f"SELECT {EVENT} FROM {{schema}}.events WHERE kind = 1 AND subject"
REWARDS = f"SELECT {EVENT} FROM {{schema}}.events WHERE kind IN (2, 3) AND subject"
NEWEST = f"SELECT {EVENT} FROM {{schema}}.events WHERE kind = 8 ORDER BY subject DESC LIMIT 1"


class TableJournal:
    """A journal in tables: reading, and what a turn writes.

    A subclass runs statements: those above, with ``{schema}`` and ``{p}`` filled in as its database
    wants them. Its errors are JournalErrors.
    """

    place: str
    """The journal, for messages."""

    @abstractmethod
    def _fetch(self, statement: str, *parameters: object) -> Rows:
        """Return the rows of a query."""

    @abstractmethod
    def _fetch_each(self, statement: str, numbers: Sequence[int]) -> Rows:
        """Return the rows of a query that ends with a column, where it equals any of these."""

    @abstractmethod
    def turn(self) -> AbstractContextManager[Turn]:
        """Wait for the turn to append; at its end all that was appended is durable."""

    def count(self) -> int:
        """Return how many events there are."""
        return self._counts().events

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[Event]:
        """Yield the events numbered start to stop, in order; memory stays flat."""
        end = self.count() if stop is None else min(stop, self.count())
        for first in range(start, end, BLOCK):
            last = min(first + BLOCK, end)
            rows = self._fetch(EVENTS, first, last)
            if len(rows) != last - first:
                raise self._damaged(f"{last - first - len(rows)} events from {first} on are gone")
            with self._damage():
                yield from events_of(rows, self._side_rows(rows))

    @abstractmethod
    def find_users(self, names: Sequence[str]) -> list[int | None]:
        """Return the number of each user by name; None for one who never came, or is forgotten."""

    def find_decisions(
        self, numbers: Sequence[int]
    ) -> list[tuple[Decided, Rewarded | None] | None]:
        """Return decisions by number, each with its reward if known; None where there is none."""
        wanted = [int(number) for number in numbers if 0 <= number < 2**63]
        nothing = SideRows({}, {}, {})
        decided: dict[int, Decided] = {}
        rewarded: dict[int, Rewarded] = {}
        with self._damage():
            for event in events_of(self._fetch_each(DECISIONS, wanted), nothing):
                if isinstance(event, Decided):
                    decided[event.number] = event
            for event in events_of(self._fetch_each(REWARDS, wanted), nothing):
                if isinstance(event, Rewarded):
                    rewarded[event.decision] = event
        return [
            (decided[number], rewarded.get(number)) if number in decided else None
            for number in numbers
        ]

    def newest_model(self) -> tuple[int, ModelMade] | None:
        """Return the newest model with its data, and the number of its event; None before one."""
        rows = self._fetch(NEWEST)
        if not rows:
            return None
        [row] = rows
        with self._damage():
            [event] = events_of(rows, self._side_rows(rows))
        if not isinstance(event, ModelMade) or event.data is None:
            raise self._damaged(f"the data of model {row[2]} are gone")
        return row[0], event

    def _counts(self) -> Counts:
        return self._counts_in(self._fetch(COUNTS))

    def _counts_in(self, rows: Rows) -> Counts:
        for *counts, checksum in rows:
            if counts_checksum(counts) == checksum:
                return Counts(*counts)
        raise self._damaged("the row with its counts is not as it was written")

    def _side_rows(self, rows: Sequence[EventRow]) -> SideRows:
        found: dict[int, dict[int, Any]] = {kind: {} for kind in SIDE_ROWS}
        for kind, numbers in needs_side_rows(rows).items():
            found[kind] = {row[0]: row for row in self._fetch(SIDE_ROWS[kind], *numbers)}
        return SideRows(found[NEW_USER], found[ARM_ADDED], found[MODEL_MADE])

    def _damaged(self, what: str) -> JournalError:
        return JournalError(
            f"{self.place} is damaged: {what}; see what can still be read with"
            " 'bdes live export --undamaged'"
        )

    @contextmanager
    def _damage(self) -> Generator[None]:
        try:
            yield
        except DamagedRowError as error:
            raise self._damaged(f"{error} is not as it was written") from None


def gaps(numbers: Iterable[int], n_events: int) -> Iterator[str]:
    """Yield which of the numbers 0, 1, ... are missing from ``numbers``, a line each."""
    expected = 0
    for number in chain(numbers, [n_events]):
        if number > expected:
            yield f"events {expected} to {number - 1} cannot be read"
        expected = max(expected, number + 1)
