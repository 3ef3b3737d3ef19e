"""Checks of journals."""

import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from itertools import islice
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import SkipTest
from uuid import uuid4

from attrs import field, frozen

from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError, JournalError, PluginError
from bdes_framework.interfaces import Journal, Kind, Reference
from bdes_framework.model.events import (
    ArmAdded,
    ArmRetired,
    Decided,
    Event,
    ModelMade,
    NewUser,
    Rewarded,
    UserForgotten,
    WindowsClosed,
)
from bdes_framework.plugin.plugins import Plugins
from bdes_framework.testing import expect
from bdes_framework.testing.checks import ConformanceSuite, Subject

FRESH = "kit_fresh"
"""What stands in a parameter for a new name, so that each check has a journal of its own."""

HEADER = '{"name": "Kit", "text": "quotes \' \\" and ünïcode 🦉\\n"}\n'

SECONDS = 120
"""For another process to start, to answer or to end."""


@frozen
class JournalScenario:
    """How much is written: decisions, and turns they are spread over."""

    n: int = 30
    turns: int = 3

    def __str__(self) -> str:
        return f"{self.n} decisions in {self.turns} turns"

    @property
    def events(self) -> list[Event]:
        """Events of every kind, in an order that could be."""
        events: list[Event] = [ArmAdded(0, "clip", 1.0), ArmAdded(1, "essay", 1.25)]
        events.append(_model(0, 2, b"\x00first"))
        for number in range(self.n):
            if number % 3 == 0:
                events.append(NewUser(number // 3, f"user {number // 3}"))
            # Neither value has an exact decimal form of few digits.
            probability, at = 1 - number / 97 % 1, 1.7e9 + number / 3
            arm = number % 2
            events.append(Decided(number, number // 3, arm, 1 - arm, probability, 0, at))
            if number >= 5:  # a while later, in another order than they were shown, and not all
                of = number - 5 + (1 if number % 2 else -1)
                if of >= 0 and number % 4 < 2:
                    events.append(Rewarded(of, number / (3 * self.n), at, number % 8 == 1))
        events += [WindowsClosed(self.n // 2, 0.1, 2.0), WindowsClosed(self.n, None, 3.0)]
        events += [UserForgotten(0, 3.5), ArmRetired(1, 4.0), _model(1, 5, b"second")]
        return events

    @property
    def parts(self) -> list[list[Event]]:
        """The events of each turn."""
        events, size = self.events, -(-len(self.events) // self.turns)
        return [events[at : at + size] for at in range(0, len(events), size)]


def _model(number: int, read: int, data: bytes) -> ModelMade:
    return ModelMade(number, read, sha256(data).hexdigest(), data, "1.2", 2.5)


def _as_read(events: Sequence[Event]) -> list[Event]:
    """Return events as they are read once all are written: without what may be gone by then."""
    gone = {event.user for event in events if isinstance(event, UserForgotten)}
    last = max((event.number for event in events if isinstance(event, ModelMade)), default=-1)
    return [_without(event, gone, last) for event in events]


def _without(event: Event, gone: set[int], last: int) -> Event:
    if isinstance(event, NewUser) and event.user in gone:
        return event._replace(name=None)
    if isinstance(event, ModelMade) and event.number < last:
        return event._replace(data=None)
    return event


# -- places ---------------------------------------------------------------------------------


@frozen
class Place:
    """Where a check's journal is: what to build journals with, all for the same place."""

    plugins: Plugins
    ref: Reference
    parameters: Mapping[str, object]
    folder: Path = field(factory=Path.cwd)
    """What relative names of files mean, in other processes too."""

    def journal(self) -> Journal:
        """Build another journal for the place; it is not open."""
        return self.plugins.journal(self.ref, **self.parameters)

    def opened(self) -> Journal:
        """Build another journal for the place, and open it."""
        journal = self.journal()
        journal.open()
        return journal


def _place(subject: Subject) -> Place:
    """Return a place where nothing is yet."""
    word = f"kit_{uuid4().hex[:16]}"
    ref = subject.ref
    if isinstance(ref, Mapping):
        ref = {key: _filled(value, word) for key, value in ref.items()}
    given = {key: _filled(value, word) for key, value in subject.parameters.items()}
    if ref == subject.ref and given == subject.parameters:
        raise InvalidValueError(
            f"each check needs a journal of its own: put {FRESH!r} into a parameter, such as the"
            " name of a file or a schema, and the kit writes a new word there each time"
        )
    return Place(subject.plugins, ref, given)


def _filled(value: object, word: str) -> object:
    """Return a parameter, or a table of them, with a word in the place of the placeholder."""
    if isinstance(value, Mapping):
        return {key: _filled(inner, word) for key, inner in value.items()}
    if isinstance(value, str):
        return value.replace(FRESH, word)
    return Path(str(value).replace(FRESH, word)) if isinstance(value, Path) else value


@contextmanager
def _written(
    subject: Subject, parts: Sequence[Sequence[Event]]
) -> Generator[tuple[Place, Journal]]:
    """Yield a new place and its open journal, with these events in it."""
    place = _place(subject)
    with closing(place.journal()) as journal:
        journal.create(HEADER)
        for part in parts:
            _append(journal, part)
        yield place, journal


def _append(journal: Journal, events: Sequence[Event]) -> None:
    with journal.turn() as turn:
        turn.append(events)


def _same(came: Iterator[Event], wanted: Sequence[Event], expected: str) -> None:
    """Raise unless these events come, in this order; show the first that does not."""
    found = list(islice(came, len(wanted) + 1))
    expect.that(len(found) == len(wanted), expected, f"{len(found)} of {len(wanted)} events")
    for number, (event, other) in enumerate(zip(found, wanted, strict=True)):
        same = type(event) is type(other) and event == other
        expect.that(same, f"{expected}; event {number} is {quoted(other)}", quoted(event))


SUITE: ConformanceSuite[JournalScenario] = ConformanceSuite(Kind.JOURNAL)

journal_checks = SUITE.checks
"""Return the checks of a journal, to be called one by one. A parameter has ``kit_fresh`` in it."""

check_journal = SUITE.check
"""Run every check of a journal; raise one error with all failures."""

SMALL = JournalScenario()
USUAL = (JournalScenario(), JournalScenario(n=1, turns=1), JournalScenario(n=4_000, turns=7))


# -- what is written is read ------------------------------------------------------------------


@SUITE.over(*USUAL)
def events_are_read_as_written(subject: Subject, scenario: JournalScenario) -> None:
    """Reading yields the events of all turns, each as it was, in order, and any part of them."""
    wanted = _as_read(scenario.events)
    with _written(subject, scenario.parts) as (_, journal):
        expect.that(journal.count() == len(wanted), f"count() is {len(wanted)}", "another number")
        _same(_readable(journal.read(), wanted), wanted, "the events that were appended")
        for start, stop in ((3, 9), (0, 1), (7, None), (5, 10**9), (9, 9), (10**9, None)):
            part = wanted[start:stop]
            came = _readable(journal.read(start, stop), wanted)
            _same(came, part, f"read({start}, {stop}) is that part")


def _readable(events: Iterator[Event], wanted: Sequence[Event]) -> Iterator[Event]:
    """Drop the data of models but the newest, which may be there or not."""
    last = max((event.number for event in wanted if isinstance(event, ModelMade)), default=-1)
    return (_without(event, set(), last) for event in events)


@SUITE.over(SMALL)
def turns_are_kept(subject: Subject, scenario: JournalScenario) -> None:
    """What a turn appended is there for others when it has ended, and after all are closed."""
    wanted = _as_read(scenario.events)
    with _written(subject, scenario.parts) as (place, journal):
        with closing(place.journal()) as other:
            header = other.open()
            expect.that(header == HEADER, f"the header {HEADER!r}", quoted(header, 200))
            expected = "what the first has appended, while it is open"
            _same(_readable(other.read(), wanted), wanted, expected)
        journal.close()
        with closing(place.opened()) as later:
            _same(_readable(later.read(), wanted), wanted, "what there was before all closed")


class _OnPurposeError(Exception):
    """Raised inside a turn."""


@SUITE.over(SMALL)
def failed_turns_keep_nothing(subject: Subject, scenario: JournalScenario) -> None:
    """If the block of a turn raises, that comes out, and nothing of the turn is kept."""
    first, *_ = parts = scenario.parts
    with _written(subject, [first]) as (place, journal):
        came = "no exception"
        try:
            with journal.turn() as turn:
                turn.append(parts[1])
                raise _OnPurposeError
        except _OnPurposeError:
            came = ""
        expect.that(not came, "the exception of the block", came)
        expected = "nothing of a turn whose block raised"
        _same(journal.read(), first, expected)
        _append(journal, parts[1])
        with closing(place.opened()) as other:
            _same(other.read(), [*first, *parts[1]], "the turns before and after it")


@SUITE.over(SMALL)
def events_that_do_not_follow_are_refused(subject: Subject, scenario: JournalScenario) -> None:
    """A number that is not the next, or a second reward, raises, and its turn keeps nothing."""
    shown = Decided(1, 0, 0, 0, 1.0, 0, 1.0)
    before: list[Event] = [ArmAdded(0, "clip", 1.0), NewUser(0, "anna")]
    before += [shown._replace(number=0), Rewarded(0, 1.0, 2.0)]
    wrong: list[Event] = [
        shown._replace(number=0),
        shown._replace(number=3),
        NewUser(0, "ben"),
        NewUser(5, "ben"),
        NewUser(1, "anna"),
        ArmAdded(2, "essay", 1.0),
        Rewarded(7, 1.0, 2.0),
        Rewarded(0, 0.5, 2.0),
        _model(1, 0, b"no model before it"),
    ]
    with _written(subject, [before]) as (_, journal):
        for event in wrong:
            came = "no exception"
            try:
                _append(journal, [shown, event])
            except InvalidValueError:
                came = ""
            expected = f"InvalidValueError for {quoted(event, 160)}, which does not follow"
            expect.that(not came, expected, came)
            _same(journal.read(), before, f"nothing of the turn with {quoted(event, 160)}")
        _append(journal, [shown])
        _same(journal.read(), [*before, shown], "the turn after one that was refused")


@SUITE.over(SMALL)
def reading_shows_what_was_durable(subject: Subject, scenario: JournalScenario) -> None:
    """What a turn appends is not read before its end, nor by what began to read before that."""
    first, second = scenario.parts[:2]
    with _written(subject, [first]) as (_, journal):
        begun = journal.read()
        early = list(islice(begun, 2))
        with journal.turn() as turn:
            expected = f"n_events of the turn is {len(first)}, before and after appending"
            expect.that(turn.n_events == len(first), expected, str(turn.n_events))
            turn.append(second)
            expect.that(turn.n_events == len(first), expected, str(turn.n_events))
            expected = "inside a turn the events of earlier turns"
            _same(journal.read(), first, expected)
            n = journal.count()
            expect.that(n == len(first), f"count() in the turn is {len(first)}", str(n))
        _same(iter([*early, *begun]), first, "what was there when reading began")


# -- look-ups ---------------------------------------------------------------------------------


@SUITE.over(SMALL, JournalScenario(n=700, turns=2))
def look_ups_find_what_is_there(subject: Subject, scenario: JournalScenario) -> None:
    """Users are found by name, decisions by number with their reward, in the order asked."""
    events = scenario.events
    decided = {event.number: event for event in events if isinstance(event, Decided)}
    rewarded = {event.decision: event for event in events if isinstance(event, Rewarded)}
    users = {str(event.name): event.user for event in events if isinstance(event, NewUser)}
    del users["user 0"]  # forgotten
    names = [*reversed(users), "nobody", "user 0", "USER 1", "user 1"]
    numbers = [*reversed(decided), len(decided), 10**18, -1, 0]
    with _written(subject, scenario.parts) as (_, journal):
        found = journal.find_users(names)
        wanted = [users.get(name) for name in names]
        expect.that(found == wanted, f"find_users: {quoted(wanted)}", quoted(found))
        pairs = journal.find_decisions(numbers)
        for number, pair in zip(numbers, pairs, strict=True):
            there = (decided[number], rewarded.get(number)) if number in decided else None
            expected = f"find_decisions: of {number} {quoted(there, 200)}"
            expect.that(pair == there, expected, quoted(pair, 200))
        nothing = journal.find_users([]), journal.find_decisions([])
        expect.that(nothing == ([], []), "nothing where nothing is asked", quoted(nothing))


@SUITE.over(SMALL)
def newest_model_has_its_data(subject: Subject, scenario: JournalScenario) -> None:
    """The newest model is found and read with its data, whatever became of those before."""
    place = _place(subject)
    with closing(place.journal()) as journal:
        journal.create(HEADER)
        expect.that(journal.newest_model() is None, "None before a model", "something else")
        for number in range(4):
            model = _model(number, number, bytes([number]) * 50_000)
            _append(journal, [model])
            found = journal.newest_model()
            expected = f"model {number} with its data, and the number of its event"
            expect.that(found == (number, model), expected, quoted(found, 200))
            *older, newest = journal.read()
            expect.that(newest == model, f"model {number} read with its data", quoted(newest, 200))
            right = all(
                isinstance(each, ModelMade)
                and each.data in (None, bytes([at]) * 50_000)
                and each.digest == _model(at, at, bytes([at]) * 50_000).digest
                for at, each in enumerate(older)
            )
            expect.that(right, "older models with their own data, or None", "something else")


# -- names ------------------------------------------------------------------------------------

HOSTILE = (
    *("'", '"', "a' OR 1=1; DROP TABLE users; --", "%s {p} ? :a $1", "\\", "a\nb\r\t", "", " "),
    *("anna", "Anna", "anna ", " anna", "ANNA", "é", "e\u0301", "null", "NULL", "None"),
    *("🦉" * 200, "\U0010ffff", "\u202e<script>", "\ufeff", "\x01\x7f", "a\0b", "\0", "\udc80"),
)


@SUITE.over(SMALL)
def names_are_kept_or_refused(subject: Subject, scenario: JournalScenario) -> None:
    """A name, whatever is in it, comes back exactly and is found, or is refused as invalid."""
    with _written(subject, []) as (_, journal):
        kept: list[Event] = []
        names: list[str] = []
        for name in HOSTILE:
            event = NewUser(len(names), name)
            try:
                _append(journal, [event, ArmAdded(len(names), name, 1.0)])
            except InvalidValueError:
                refusable = "\0" in name or "\ud800" <= max(name, default="") <= "\udfff"
                expect.that(refusable, f"that {name!r:.50} is kept", "it is refused")
            else:
                kept += [event, ArmAdded(len(names), name, 1.0)]
                names.append(name)
        _same(journal.read(), kept, "every name as it was given")
        found = journal.find_users(HOSTILE)
        wanted = [names.index(name) if name in names else None for name in HOSTILE]
        expect.that(found == wanted, f"users found by name: {wanted}", str(found))


@SUITE.over(SMALL)
def forgotten_names_are_gone(subject: Subject, scenario: JournalScenario) -> None:
    """Of a forgotten user nobody learns the name again; whoever comes with it is a new user."""
    names = [f"user {number}" for number in range(20)]
    users: list[Event] = [NewUser(number, name) for number, name in enumerate(names)]
    gone = {3, 7, 19}
    forgotten: list[Event] = [UserForgotten(user, 5.0) for user in sorted(gone)]
    with _written(subject, [users, forgotten]) as (place, journal):
        wanted = [_without(event, gone, -1) for event in [*users, *forgotten]]
        for each in (journal, place.opened()):
            _same(each.read(), wanted, "None for a name that was forgotten")
            found = each.find_users(names)
            still = [None if user in gone else user for user in range(20)]
            expect.that(found == still, f"find_users: {still}", str(found))
            if each is not journal:
                each.close()
        again: list[Event] = [NewUser(20, "user 7"), UserForgotten(20, 6.0), NewUser(21, "user 7")]
        _append(journal, again)
        found = journal.find_users(["user 7", "user 3"])
        expect.that(found == [21, None], "the newest user of a name that came again", str(found))


# -- opening and closing ----------------------------------------------------------------------


@SUITE.over(SMALL)
def create_and_open_say_what_is_wrong(subject: Subject, scenario: JournalScenario) -> None:
    """There is no second create for a place, and nothing to open before the first: JournalError."""
    place = _place(subject)
    _raises_journal_error(place.journal().open, "opening what was never created")
    with closing(place.journal()) as journal:
        journal.create(HEADER)
        _append(journal, scenario.events)
        _raises_journal_error(lambda: place.journal().create("other"), "creating it again")
        wanted = _as_read(scenario.events)
        with closing(place.journal()) as other:
            other.open()
            _same(_readable(other.read(), wanted), wanted, "the events there were")


@SUITE.over(SMALL)
def closing_twice_is_fine(subject: Subject, scenario: JournalScenario) -> None:
    """A closed journal can be closed and opened again; in between it cannot be used."""
    with _written(subject, [scenario.events]) as (place, journal):
        journal.close()
        journal.close()
        place.journal().close()
        _raises_journal_error(journal.count, "counting in a closed journal")
        _raises_journal_error(lambda: _append(journal, []), "a turn of a closed journal")
        journal.open()
        n = journal.count()
        wanted = len(scenario.events)
        expect.that(n == wanted, f"{wanted} events, opened again", str(n))


def _raises_journal_error(call: Callable[[], object], what: str) -> None:
    came = "no exception"
    try:
        call()
    except JournalError:
        return
    except Exception as error:
        came = f"{type(error).__name__}: {error}"
    expect.that(False, f"JournalError for {what}", came)


@SUITE.over(SMALL)
def claims_are_exclusive(subject: Subject, scenario: JournalScenario) -> None:
    """A role is held by one journal until it is closed; its holder may claim it again."""
    with _written(subject, []) as (place, first), closing(place.opened()) as second:
        is_owner = first.claim("owner")
        expect.that(is_owner, "the only one becomes the owner", "it does not")
        came = [first.claim("learner"), second.claim("learner"), first.claim("learner")]
        expect.that(came == [True, False, True], "the first is the learner", str(came))
        first.close()
        free = [second.claim("learner"), second.claim("owner")]
        expect.that(free == [True, True], "roles are free once their holder closed", str(free))


# -- several at once --------------------------------------------------------------------------


def _take_turns(journal: Journal, n_turns: int, who: str) -> None:
    """Append users in turns, as one who follows the journal: read what is new, then go on."""
    n_read = n_users = 0
    for number in range(n_turns):
        with journal.turn() as turn:
            for event in journal.read(n_read, turn.n_events):
                n_read += 1
                n_users += isinstance(event, NewUser)
            if n_read != turn.n_events:
                raise JournalError(f"{turn.n_events} events in the turn, {n_read} of them read")
            time.sleep(0.002)  # for others to come in between, if they can
            turn.append([NewUser(n_users + at, f"{who} {number} {at}") for at in range(2)])


def _check_turns(journal: Journal, names: Sequence[str], n_turns: int) -> None:
    events = [event for event in journal.read() if isinstance(event, NewUser)]
    numbers = [event.user for event in events]
    expect.that(numbers == list(range(len(numbers))), "users numbered in order", quoted(numbers))
    for name in names:
        came = [str(event.name) for event in events if str(event.name).startswith(name)]
        wanted = [f"{name} {number} {at}" for number in range(n_turns) for at in range(2)]
        expect.that(came == wanted, f"each event of {name} once, in order", quoted(came))


@SUITE.over(SMALL)
def threads_take_turns(subject: Subject, scenario: JournalScenario) -> None:
    """Turns of several threads, with a journal each, wait for one another: nothing gets lost."""
    names = ["one", "two", "three"]
    failures: list[Exception] = []
    with _written(subject, []) as (place, journal):

        def work(name: str) -> None:
            try:
                with closing(place.opened()) as own:
                    _take_turns(own, 10, name)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=[name]) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        came = "; ".join(map(str, failures))
        expect.that(not failures, "that each waits for its turn", came)
        _check_turns(journal, names, 10)


def _worker(place: Place, name: str, pipe: Connection) -> None:
    """Take turns in another process, once it is told to; say what went wrong."""
    os.chdir(place.folder)
    try:
        with closing(place.opened()) as journal:
            pipe.send(journal.claim("owner"))
            pipe.recv()  # so that both have started
            _take_turns(journal, 12, name)
            pipe.send("")
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")


@SUITE.over(SMALL)
def processes_take_turns(subject: Subject, scenario: JournalScenario) -> None:
    """Turns of several processes, where all may be the owner, wait for one another."""
    names = ["left", "right"]
    with _written(subject, []) as (place, journal):
        with closing(place.opened()) as other:
            if not (journal.claim("owner") and other.claim("owner")):
                raise SkipTest("one process at a time owns it")
        workers = [_started(place, _worker, name) for name in names]
        try:
            came = [_received(pipe) for _, pipe in workers]
            for _, pipe in workers:
                pipe.send("go")
            came += [_received(pipe) for _, pipe in workers]
        finally:
            _end(workers)
        expected = "that each process is an owner, and waits for its turn"
        expect.that(came == [True, True, "", ""], expected, quoted(came, 300))
        _check_turns(journal, names, 12)


def _writer(place: Place, name: str, pipe: Connection) -> None:
    """Append without end in another process, and say after each turn how many there are."""
    os.chdir(place.folder)
    journal = place.opened()
    pipe.send([journal.claim("owner"), journal.claim("learner")])
    for number in range(10**9):
        _append(journal, [NewUser(3 * number + at, f"{name} {number} {at}") for at in range(3)])
        pipe.send(3 * number + 3)


@SUITE.over(SMALL)
def killed_process_loses_nothing(subject: Subject, scenario: JournalScenario) -> None:
    """When a process is killed, whole turns are there, all that ended, and its roles are free."""
    with _written(subject, []) as (place, journal):
        journal.close()
        worker, pipe = _started(place, _writer, "it")
        try:
            claims = _received(pipe)
            expect.that(claims == [True, True], "both roles for the only process", quoted(claims))
            for _ in range(20):
                promised = _received(pipe)
            worker.kill()
            worker.join()
            with suppress(EOFError, OSError):  # what it still said
                while pipe.poll(0.1):
                    promised = pipe.recv()
        finally:
            _end([(worker, pipe)])
        journal.open()
        n = journal.count()
        expected = f"{promised} events, and at most one turn of three more"
        expect.that(n in (promised, int(promised) + 3), expected, str(n))
        wanted = [NewUser(at, f"it {at // 3} {at % 3}") for at in range(n)]
        _same(journal.read(), wanted, "the events of whole turns")
        until = time.monotonic() + 5  # a server may take a moment to see it
        free = [False]
        while not all(free) and time.monotonic() < until:
            free = [journal.claim("owner"), journal.claim("learner")]
            time.sleep(0.05)
        expect.that(all(free), "the roles of a killed process are free", str(free))
        _append(journal, [NewUser(n, "later")])
        expect.that(journal.check() == [], "nothing damaged", quoted(journal.check()))


def _process_context() -> Any:
    """Return how to start processes: from one that has imported us already, where there is such."""
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


_Worker = tuple[Any, Connection]


def _started(place: Place, target: Callable[..., None], name: str) -> _Worker:
    """Start another process for a place."""
    context = _process_context()
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(place, name, theirs), daemon=True)
    try:
        process.start()
    except PluginError as error:  # plugins in memory
        raise SkipTest(str(error)) from None
    theirs.close()
    return process, ours


def _received(pipe: Connection) -> Any:
    if not pipe.poll(SECONDS):
        raise JournalError(f"another process said nothing for {SECONDS} s")
    try:
        return pipe.recv()
    except EOFError:
        raise JournalError("another process ended before it was to") from None


def _end(workers: Sequence[_Worker]) -> None:
    for process, pipe in workers:
        pipe.close()
        process.kill()
        process.join()


# -- damage -----------------------------------------------------------------------------------


@SUITE.over(SMALL, JournalScenario(n=1, turns=1))
def undamaged_journals_are_whole(subject: Subject, scenario: JournalScenario) -> None:
    """Where nothing is damaged, check finds nothing and read_undamaged yields every event."""
    wanted = _as_read(scenario.events)
    with _written(subject, scenario.parts) as (place, journal):
        for each in (journal, place.journal()):  # which need not be open
            came = each.check()
            expect.that(came == [], "check() is empty", quoted(came))
            found = _readable(each.read_undamaged(), wanted)
            _same(found, wanted, "read_undamaged() yields all events")
