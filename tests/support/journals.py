"""Events of a made-up shop, for tests of journals."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from itertools import count, cycle, islice, pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection
from time import sleep
from typing import Any

import bdes_framework as bdes


def model(number: int, read: int, data: bytes) -> bdes.ModelMade:
    return bdes.ModelMade(number, read, sha256(data).hexdigest(), data, "0.1", 2.5)


def story(n: int, n_models: int = 1) -> list[bdes.Event]:
    """Return events of every kind, with ``n`` decisions and half as many rewards."""
    events: list[bdes.Event] = [bdes.ArmAdded(0, "clip", 1.0), bdes.ArmAdded(1, "èss'ay\n", 1.5)]
    events += [model(number, 2 + number, b"model" * 2000) for number in range(n_models)]
    for number in range(n):
        if number % 3 == 0:
            events.append(bdes.NewUser(number // 3, f"user {number // 3} of us"))
        arm = number % 2
        events.append(
            bdes.Decided(number, number // 3, arm, 0, 0.93 if arm else 1.0, 0, 1e9 + number / 7)
        )
        if number % 2:
            events.append(bdes.Rewarded(number, number / (2 * n), 1e9, is_late=number % 5 == 0))
    events.append(bdes.WindowsClosed(n // 2, 0.0, 5.0))
    events.append(bdes.WindowsClosed(n, None, 5.5))
    events.append(bdes.ArmRetired(1, 6.0))
    return events


FIRST: list[bdes.Event] = [bdes.ArmAdded(0, "clip", 1.0), bdes.NewUser(0, "anna")]


def endless(start: int) -> Iterator[bdes.Event]:
    """Yield the events from a number on that follow the two above: always the same."""
    for number in count(start):
        decision, odd = divmod(number - len(FIRST), 2)
        if number < len(FIRST):
            yield FIRST[number]
        elif odd:
            yield bdes.Rewarded(decision, decision % 3 / 2, 1e9 + decision)
        else:
            yield bdes.Decided(decision, 0, 0, 0, 1.0, 0, 1e9 + decision)


def append_endlessly(use: str, parameters: dict[str, Any], pipe: Connection) -> None:
    """Append in turns of many sizes, and say after each how many events there are.

    What fails for a while only is tried again, as a service does.
    """
    with closing(bdes.load_plugins().journal(use, **parameters)) as journal:
        journal.open()
        for size in cycle((1, 30, 2, 7, 400)):
            try:
                with journal.turn() as turn:
                    n = turn.n_events
                    turn.append(list(islice(endless(n), size)))
            except bdes.JournalError as error:
                if not error.is_passing:
                    raise
                sleep(0.05)
            else:
                pipe.send((n, n + size))


@contextmanager
def appending(use: str, parameters: dict[str, Any]) -> Iterator[tuple[Any, Connection]]:
    """Yield a process that appends, and where it says what it has appended."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=append_endlessly, args=(use, parameters, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield process, ours
    finally:
        process.kill()
        process.join()
        ours.close()


def heard(pipe: Connection) -> list[tuple[int, int]]:
    """Return what a process has said until now."""
    said = []
    with suppress(EOFError, ConnectionResetError):
        while pipe.poll():
            said.append(pipe.recv())
    return said


def check_events(journal: bdes.Journal, said: list[tuple[int, int]]) -> None:
    """Raise unless a journal has what was said to be appended, once, and whole turns only."""
    n = journal.count()
    assert n >= max((end for _, end in said), default=0)
    assert all(end <= start for (_, end), (start, _) in pairwise(said))
    assert list(journal.read()) == list(islice(endless(0), n))
    assert journal.check() == []
