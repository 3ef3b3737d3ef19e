"""A local plugin with a journal in memory, which outlives the objects that open it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from bdes_framework import (
    Decided,
    Event,
    InvalidValueError,
    JournalError,
    ModelMade,
    NewUser,
    Registrar,
    Rewarded,
    UserForgotten,
    hookimpl,
)
from tests.support.memory_stores import STORES, Store

BDES_API_VERSION = 1


@frozen
class MemoryJournalConfig:
    """Keeps events in the memory of this process.

    Parameters
    ----------
    file : path
        What it is called.
    shared : bool
        Whether several may decide with it, as with a database.
    """

    file: Path = Path("memory")
    shared: bool = False


class MemoryJournal:
    """The journal ``memory``."""

    def __init__(self, config: MemoryJournalConfig) -> None:
        self._store = STORES.setdefault(config.file, Store())
        self._shared = config.shared

    def create(self, header: str) -> None:
        if self._store.header is not None:
            raise JournalError("there is one already")
        self._store.header = header

    def open(self) -> str:
        if self._store.header is None:
            raise JournalError("there is none")
        return self._store.header

    def close(self) -> None:
        claims = self._store.claims
        for role in [role for role, holder in claims.items() if holder is self]:
            del claims[role]

    def claim(self, role: str) -> bool:
        if role == "owner" and self._shared:
            return True
        return self._store.claims.setdefault(role, self) is self

    @contextmanager
    def turn(self) -> Iterator["Turn"]:
        with self._store.turn:
            turn = Turn(self.count())
            yield turn
            if self._store.fails:
                raise JournalError("the disk is full", is_passing=True)
            if self._store.refuses:
                raise InvalidValueError("not the next")
            for event in turn.events:
                self._keep(event)

    def _keep(self, event: Event) -> None:
        store = self._store
        if isinstance(event, NewUser):
            assert event.name is not None
            assert event.name not in store.users
            store.users[event.name] = event.user
        elif isinstance(event, Decided):
            assert event.number == len(store.decisions)
            store.decisions.append((event, None))
        elif isinstance(event, Rewarded):
            decided, known = store.decisions[event.decision]
            assert known is None
            store.decisions[event.decision] = decided, event
        elif isinstance(event, UserForgotten):
            store.users = {k: v for k, v in store.users.items() if v != event.user}
            store.events = [
                evolve_user(one) if isinstance(one, NewUser) and one.user == event.user else one
                for one in store.events
            ]
        elif isinstance(event, ModelMade):
            store.events = [
                one._replace(data=None) if isinstance(one, ModelMade) else one
                for one in store.events
            ]
        store.events.append(event)

    def count(self) -> int:
        return len(self._store.events)

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[Event]:
        return iter(self._store.events[start:stop])

    def find_users(self, names: Sequence[str]) -> list[int | None]:
        return [self._store.users.get(name) for name in names]

    def find_decisions(
        self, numbers: Sequence[int]
    ) -> list[tuple[Decided, Rewarded | None] | None]:
        known = self._store.decisions
        return [known[n] if 0 <= n < len(known) else None for n in numbers]

    def newest_model(self) -> tuple[int, ModelMade] | None:
        for place, event in reversed(list(enumerate(self._store.events))):
            if isinstance(event, ModelMade):
                return place, event
        return None

    def read_undamaged(self) -> Iterator[Event]:
        return self.read()

    def check(self) -> list[str]:
        return []


def evolve_user(event: NewUser) -> NewUser:
    """Return a user without a name."""
    return event._replace(name=None)


class Turn:
    """Events to be appended."""

    def __init__(self, n_events: int) -> None:
        self.n_events = n_events
        self.events: list[Event] = []

    def append(self, events: Sequence[Event]) -> None:
        self.events += events


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    registrar.journal("memory", MemoryJournalConfig, lambda config, context: MemoryJournal(config))
