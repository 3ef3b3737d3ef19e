"""A local plugin of journals: good ones, and for every check of the kit one that breaks it."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs

import bdes_framework as bdes
from bdes_journals.sqlite import SqliteConfig, SqliteJournal
from tests.support.kit_subjects import Subjects

BDES_API_VERSION = 1

add = Subjects()
MINE = threading.Lock()


@add("good")
class Good(SqliteJournal):
    """A journal of one process."""


@add("good.shared")
class Shared(Good):
    """A journal that several processes may own."""

    def claim(self, role: str) -> bool:
        return role == "owner" or super().claim(role)


class Changed:
    """A turn whose events are changed before they are appended."""

    def __init__(self, turn: Any, change: Callable[[Any, list[Any]], Sequence[Any]]) -> None:
        self.turn, self.change = turn, change

    @property
    def n_events(self) -> int:
        return int(self.turn.n_events)

    def append(self, events: Sequence[bdes.Event]) -> None:
        self.turn.append(self.change(self.turn, list(events)))


def changing(name: str, change: Callable[[Any, list[Any]], Sequence[Any]]) -> None:
    """Add a journal that changes events before it keeps them."""

    @contextmanager
    def turn(self: Good) -> Iterator[Changed]:
        with Good.turn(self) as inner:
            yield Changed(inner, change)

    add.variant(name, turn=turn)


def without(events: Sequence[Any], at: int) -> list[Any]:
    return [*events[:at], *events[at + 1 :]]


add.after(
    "events-are-read-as-written.lost",
    "read",
    lambda events, self, start=0, stop=None: iter(without(list(events), 5_000 - start)),
)


def in_swapped_order(events: Iterator[Any], *arguments: Any) -> Iterator[Any]:
    found = list(events)
    if len(found) > 5_000:
        found[10], found[11] = found[11], found[10]
    return iter(found)


add.after("events-are-read-as-written.swapped", "read", in_swapped_order)
add.after("turns-are-kept.header", "open", lambda header, self: header.strip().lower())


@add("failed-turns-keep-nothing.kept")
class KeepsAll(Good):
    @contextmanager
    def turn(self) -> Iterator[Any]:
        failure = None
        with super().turn() as turn:
            try:
                yield turn
            except bdes.BdesError:
                raise
            except Exception as error:
                failure = error
        if failure is not None:
            raise failure


@add("failed-turns-keep-nothing.swallowed")
class Swallows(Good):
    @contextmanager
    def turn(self) -> Iterator[Any]:
        with suppress(ArithmeticError), super().turn() as turn:
            try:
                yield turn
            except bdes.BdesError:
                raise
            except Exception as error:
                raise ArithmeticError from error


def renumbered(turn: Any, events: list[Any]) -> Sequence[Any]:
    n = turn.after.decisions
    for at, event in enumerate(events):
        if isinstance(event, bdes.Decided):
            events[at], n = event._replace(number=n), n + 1
    return events


changing("events-that-do-not-follow-are-refused.renumbered", renumbered)


@add("reading-shows-what-was-durable.count")
class CountsItsOwn(Good):
    @contextmanager
    def turn(self) -> Iterator[Any]:
        class Growing(Changed):
            @property
            def n_events(self) -> int:
                return int(self.turn.after.events)

        with super().turn() as turn:
            yield Growing(turn, lambda turn, events: events)


@add("reading-shows-what-was-durable.late")
class ReadsOn(Good):
    def read(self, start: int = 0, stop: int | None = None) -> Iterator[bdes.Event]:
        while start < (self.count() if stop is None else min(self.count(), stop)):
            yield from super().read(start, start + 1)
            start += 1


add.variant(
    "look-ups-find-what-is-there",
    find_decisions=lambda self, numbers: Good.find_decisions(self, sorted(numbers)),
)
add.after(
    "newest-model-has-its-data",
    "newest_model",
    lambda found, self: found and (found[0], found[1]._replace(data=found[1].data[:100])),
)
add.variant(
    "names-are-kept-or-refused.stripped",
    find_users=lambda self, names: Good.find_users(self, [name.strip() for name in names]),
)


def forget_two(turn: Any, events: list[Any]) -> Sequence[Any]:
    if all(isinstance(event, bdes.UserForgotten) for event in events):
        return events[:2]
    return events


changing("forgotten-names-are-gone.some-not", forget_two)


@add("create-and-open-say-what-is-wrong")
class OpensInstead(Good):
    def create(self, header: str) -> None:
        if self._file.exists():
            self.open()
        else:
            super().create(header)


@add("closing-twice-is-fine")
class NeverCloses(Good):
    def count(self) -> int:
        if self._connection is None:
            self.open()
        return super().count()


add.variant(
    "claims-are-exclusive", claim=lambda self, role: role == "learner" or Good.claim(self, role)
)


def never_wait(connection: Any, *arguments: object) -> Any:
    connection.execute("PRAGMA busy_timeout = 0")
    return connection


add.after("threads-take-turns", "_connect", never_wait)


@add("processes-take-turns")
class OneProcess(Shared):
    """Turns of this process wait for each other, but not for those of others."""

    def _connect(self) -> Any:
        return never_wait(super()._connect())

    def create(self, header: str) -> None:
        with MINE:
            super().create(header)

    @contextmanager
    def turn(self) -> Iterator[Any]:
        with MINE, super().turn() as turn:
            yield turn


@add("killed-process-loses-nothing")
class LeavesItsLock(Good):
    def claim(self, role: str) -> bool:
        locks = self.__dict__.setdefault("locks", {})
        if super().claim(role) and role not in locks:
            lock = self._file.with_name(f"{self._file.name}.{role}.lock")
            with suppress(FileExistsError):
                lock.touch(exist_ok=False)
                locks[role] = lock
        return role in locks

    def close(self) -> None:
        for lock in self.__dict__.pop("locks", {}).values():
            lock.unlink()
        super().close()


add.after(
    "undamaged-journals-are-whole",
    "read_undamaged",
    lambda events, self: iter(list(events)[:-1]),
)


@add("wrong.write-behind")
class WritesBehind(Good):
    """Keeps what was appended to itself until it is closed."""

    @contextmanager
    def turn(self) -> Iterator[Any]:
        behind: list[bdes.Event] = []
        self._opened()
        if not hasattr(self, "kept"):
            self.kept: list[bdes.Event] = []

        class Later:
            n_events = len(self.kept)
            append = behind.extend

        yield Later()
        self.kept += behind

    def close(self) -> None:
        kept, self.kept = getattr(self, "kept", []), []
        if kept:
            with super().turn() as turn:
                turn.append(kept)
        super().close()


@attrs.frozen
class Unexplained:
    """Has a parameter nobody explains."""

    file: Path


@attrs.frozen
class Undocumented:
    file: Path


def config_for(name: str) -> Any:
    made = attrs.make_class("Config", {"file": attrs.field(type=Path)}, frozen=True)
    made.__doc__ = f"""What is called {name}.

    Parameters
    ----------
    file : Path
        Where it lies.
    """
    return made


@bdes.hookimpl
def bdes_register(registrar: bdes.Registrar) -> None:
    def factory(make: Any) -> Callable[[Any, Any], bdes.Journal]:
        return lambda config, context: make(SqliteConfig(config.file))

    for name, make in add.makes.items():
        registrar.journal(name, config_for(name), factory(make))
    registrar.journal("parameters-are-documented.one-not", Unexplained, factory(Good))
    registrar.journal("parameters-are-documented.none-at-all", Undocumented, factory(Good))
