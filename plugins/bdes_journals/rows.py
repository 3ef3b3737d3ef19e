"""Events as rows of tables, each with a checksum, and events of a turn checked before it ends.

A row of ``events`` has numbers only: so it is small, quick to check, and names nobody. Names and
models lie in tables of their own, from which they can be taken away.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from math import isfinite, nan
from struct import Struct
from typing import TypeAlias
from zlib import crc32

from attrs import Factory, astuple, define, evolve

from bdes_framework import (
    ArmAdded,
    ArmRetired,
    Decided,
    Event,
    InvalidValueError,
    ModelMade,
    NewUser,
    Rewarded,
    UserForgotten,
    WindowsClosed,
)

NEW_USER, DECIDED, REWARDED, REWARDED_LATE, WINDOWS_CLOSED = range(5)
ARM_ADDED, ARM_RETIRED, USER_FORGOTTEN, MODEL_MADE = range(5, 9)

EventRow: TypeAlias = tuple[
    int, int, int, int | None, int | None, int | None, int | None, float | None, float | None, int
]
"""number, kind, subject, user, arm, chosen, model, value, time, checksum."""

NamedRow: TypeAlias = tuple[int, str | bytes | None, int]
"""Of a user or an arm: number, name, checksum. Bytes or None stand where a name was forgotten."""

ModelRow: TypeAlias = tuple[int, int, str, str, bytes | None, int]
"""number, read, digest, version, data, checksum (of all but the data, which have the digest)."""

_DECISION = Struct("<qqqqqqdd")
_OTHER = Struct("<qqqdd")


@define
class Counts:
    """How many there are of what has numbers: the row of the table ``head``."""

    events: int = 0
    users: int = 0
    decisions: int = 0
    arms: int = 0
    models: int = 0

    def row(self) -> tuple[int, ...]:
        """Return the row, with its checksum."""
        values = astuple(self)
        return (*values, counts_checksum(values))


def counts_checksum(counts: Sequence[int]) -> int:
    """Return the checksum of the row of ``head``."""
    return crc32(f"head {list(counts)}".encode())


def name_checksum(table: str, number: int, name: str | None) -> int:
    """Return the checksum of a row that names a user or an arm: always a number of 33 bits."""
    text = f"{table} {number}" if name is None else f"{table} {number} {name}"
    return crc32(text.encode()) | 1 << 32


def model_checksum(number: int, read: int, digest: str, version: str) -> int:
    """Return the checksum of a model's row."""
    return crc32(f"models {number} {read} {digest} {version}".encode())


def event_checksum(row: Sequence[int | float | None]) -> int | None:
    """Return the checksum that a row of ``events`` should have; None if it can be none."""
    number, kind, subject, user, arm, chosen, model, value, time = row[:9]
    try:
        if kind == DECIDED:
            packed = _DECISION.pack(number, subject, user, arm, chosen, model, value, time)
        else:
            packed = _OTHER.pack(
                number,
                kind,
                subject,
                nan if value is None else value,
                nan if time is None else time,
            )
    except (struct.error, TypeError):
        return None
    return crc32(packed)


@define
class Turn:
    """The events of a turn, which are kept when it ends: numbered, checked, as rows.

    Parameters
    ----------
    counts : Counts
        What there was before.
    """

    counts: Counts
    after: Counts = Factory(lambda self: evolve(self.counts), takes_self=True)
    events: list[EventRow] = Factory(list)
    users: list[NamedRow] = Factory(list)
    arms: list[NamedRow] = Factory(list)
    models: list[ModelRow] = Factory(list)
    forgotten: list[int] = Factory(list)
    is_over: bool = False

    @property
    def n_events(self) -> int:
        """How many events there are, without those appended in this turn."""
        return self.counts.events

    def append(self, events: Sequence[Event]) -> None:
        """Add events; raise InvalidValueError for one that does not follow from those before."""
        if self.is_over:
            raise InvalidValueError("this turn is over: what is appended now would be lost")
        for event in events:
            try:
                self._append(event)
            except (struct.error, TypeError, AttributeError, UnicodeError, OverflowError) as error:
                raise InvalidValueError(f"{event!r:.200} cannot be kept: {error}") from None

    def new_users(self) -> list[NamedRow]:
        """Return the rows of new users; one who is forgotten in the same turn leaves no name."""
        gone = set(self.forgotten)
        return [_nameless(row[0]) if row[0] in gone else row for row in self.users]

    def users_to_forget(self) -> list[NamedRow]:
        """Return the rows that users of earlier turns get, who are forgotten in this one."""
        return [_nameless(user) for user in self.forgotten if user < self.counts.users]

    def _append(self, event: Event) -> None:
        after = self.after
        # Most events are of the first two kinds, so these are checked at one go.
        if isinstance(event, Decided):
            self._append_decided(event)
        elif isinstance(event, Rewarded):
            decision, value, time, is_late = event
            if not (0 <= decision < after.decisions and 0 <= value <= 1 and isfinite(time)):
                allowed = f"a decision below {after.decisions}, a value in [0, 1], a finite time"
                raise _misfit(event, allowed)
            packed = _OTHER.pack(
                after.events, REWARDED_LATE if is_late else REWARDED, decision, value + 0.0, time
            )
            at, kind, about, paid, when = _OTHER.unpack(packed)
            row = (at, kind, about, None, None, None, None, paid, when, crc32(packed))
            self.events.append(row)
        elif isinstance(event, NewUser):
            _expect(event, event.user == after.users, f"number {after.users}")
            user = int(event.user)
            self.users.append((user, event.name, name_checksum("users", user, event.name)))
            self._add(event, NEW_USER, user)
            after.users += 1
        elif isinstance(event, WindowsClosed):
            known = 0 <= event.before <= after.decisions
            _expect(event, known, f"at most {after.decisions}")
            fits = event.default is None or 0 <= event.default <= 1
            _expect(event, fits, "a default in [0, 1] or None")
            self._add(event, WINDOWS_CLOSED, event.before, event.default, event.time)
        elif isinstance(event, ArmAdded):
            _expect(event, event.arm == after.arms, f"number {after.arms}")
            arm = int(event.arm)
            self.arms.append((arm, event.name, name_checksum("arms", arm, event.name)))
            self._add(event, ARM_ADDED, arm, None, event.time)
            after.arms += 1
        elif isinstance(event, ArmRetired):
            _expect(event, 0 <= event.arm < after.arms, f"an arm below {after.arms}")
            self._add(event, ARM_RETIRED, event.arm, None, event.time)
        elif isinstance(event, UserForgotten):
            _expect(event, 0 <= event.user < after.users, f"a user below {after.users}")
            self.forgotten.append(int(event.user))
            self._add(event, USER_FORGOTTEN, event.user, None, event.time)
        elif isinstance(event, ModelMade):
            self._append_model(event)
        else:
            raise InvalidValueError(f"{event!r:.200} is no event")
        after.events += 1

    def _append_decided(self, event: Decided) -> None:
        after = self.after
        number, user, arm, chosen, probability, model, time = event
        if not (
            number == after.decisions
            and 0 <= user < after.users
            and 0 <= arm < after.arms
            and 0 <= chosen < after.arms
            and 0 <= probability <= 1
            and isfinite(time)
        ):
            raise _misfit(
                event,
                f"decision {after.decisions}, of a user below {after.users}, arms below"
                f" {after.arms}, a probability in [0, 1], a finite time",
            )
        packed = _DECISION.pack(
            after.events, number, user, arm, chosen, model, probability + 0.0, time
        )
        # Unpacked again, they are Python's own numbers, whatever kind came.
        at, about, who, shown, wanted, by, likely, when = _DECISION.unpack(packed)
        row = (at, DECIDED, about, who, shown, wanted, by, likely, when, crc32(packed))
        self.events.append(row)
        after.decisions += 1

    def _append_model(self, event: ModelMade) -> None:
        after = self.after
        _expect(event, event.number == after.models, f"number {after.models}")
        _expect(event, 0 <= event.read <= after.events, f"at most {after.events} events read")
        data = event.data
        _expect(event, data is not None, "data")
        fits = data is not None and sha256(data).hexdigest() == event.digest
        _expect(event, fits, "the SHA-256 of its data as digest")
        values = int(event.number), int(event.read), event.digest, event.version
        self.models.append((*values, data, model_checksum(*values)))
        self._add(event, MODEL_MADE, event.number, None, event.time)
        after.models += 1

    def _add(
        self, event: Event, kind: int, subject: int, value: float | None = None,
        time: float | None = None,
    ) -> None:  # fmt: skip
        _expect(event, time is None or isfinite(time), "a finite time")
        packed = _OTHER.pack(
            self.after.events, kind, subject,
            nan if value is None else value + 0.0, nan if time is None else time,
        )  # fmt: skip
        at, _, about, shown, when = _OTHER.unpack(packed)
        row = (None if value is None else shown, None if time is None else when)
        self.events.append((at, kind, about, None, None, None, None, *row, crc32(packed)))


def _nameless(user: int) -> NamedRow:
    return user, None, name_checksum("users", user, None)


def _expect(event: Event, holds: bool, allowed: str) -> None:
    if not holds:
        raise _misfit(event, allowed)


def _misfit(event: Event, allowed: str) -> InvalidValueError:
    shown = event._replace(data=None) if isinstance(event, ModelMade) else event
    return InvalidValueError(f"{shown!r:.200} cannot be the next event: expected {allowed}")


# -- back to events ---------------------------------------------------------------------------


class DamagedRowError(Exception):
    """A row is not as it was written; says which."""


@define
class SideRows:
    """What rows of ``events`` refer to, by number."""

    users: Mapping[int, NamedRow]
    arms: Mapping[int, NamedRow]
    models: Mapping[int, ModelRow]


def needs_side_rows(rows: Sequence[EventRow]) -> dict[int, tuple[int, int]]:
    """Return the first and last number of the users, arms and models that rows refer to."""
    found: dict[int, tuple[int, int]] = {}
    for row in rows:
        if row[1] in (NEW_USER, ARM_ADDED, MODEL_MADE):
            first, last = found.get(row[1], (row[2], row[2]))
            found[row[1]] = min(first, row[2]), max(last, row[2])
    return found


def events_of(rows: Iterable[EventRow], side: SideRows) -> Iterator[Event]:
    """Yield the events of rows, in order; raise DamagedRowError at one that is damaged."""
    pack, make = _DECISION.pack, Decided._make
    for row in rows:
        number, kind, subject, user, arm, chosen, model, value, time, checksum = row
        if kind == DECIDED:
            try:
                right = crc32(pack(number, subject, user, arm, chosen, model, value, time))
            except (struct.error, TypeError):
                right = -1
            if right != checksum:
                raise DamagedRowError(f"event {number}")
            yield make((subject, user, arm, chosen, value, model, time))
        else:
            if event_checksum(row) != checksum:
                raise DamagedRowError(f"event {number}")
            yield _other(row, side)


def _other(row: EventRow, side: SideRows) -> Event:
    number, kind, subject, *_, value, given_time, _ = row
    time = 0.0 if given_time is None else given_time
    match kind:
        case 0:
            return NewUser(subject, checked_name("users", subject, side.users.get(subject)))
        case 2 | 3 if value is not None:
            return Rewarded(subject, value, time, kind == REWARDED_LATE)
        case 4:
            return WindowsClosed(subject, value, time)
        case 5:
            name = checked_name("arms", subject, side.arms.get(subject))
            if name is not None:
                return ArmAdded(subject, name, time)
        case 6:
            return ArmRetired(subject, time)
        case 7:
            return UserForgotten(subject, time)
        case 8:
            return checked_model(subject, side.models.get(subject), time)
    raise DamagedRowError(f"event {number}")


def checked_name(table: str, number: int, row: NamedRow | None) -> str | None:
    """Return the name in a row; raise DamagedRowError if it is not what was written."""
    if row is not None and row[0] == number:
        name = row[1] if isinstance(row[1], str) else None  # a name blanked out is no text
        if name_checksum(table, number, name) == row[2]:
            return name
    raise DamagedRowError(f"row {number} of {table}")


def checked_model(number: int, row: ModelRow | None, time: float) -> ModelMade:
    """Return the model in a row; raise DamagedRowError if it is not what was written."""
    if row is None or row[0] != number or model_checksum(*row[:4]) != row[5]:
        raise DamagedRowError(f"row {number} of models")
    _, read, digest, version, data, _ = row
    if data is not None and sha256(data).hexdigest() != digest:
        raise DamagedRowError(f"the data of model {number}")
    return ModelMade(number, read, digest, data, version, time)
