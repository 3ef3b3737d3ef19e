"""Threads beside the one that decides: they leave it time, say what is wrong, and end at once."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import pytest

from bdes_framework import Event, JournalError, UserForgotten
from bdes_framework.live.config import load_live
from bdes_framework.live.learning import LearnerThread
from bdes_framework.live.pace import ReadingEndedError, unhurried
from bdes_framework.live.requests import Decide, Reward
from bdes_framework.live.retention import Keeper
from bdes_framework.live.writer import MOST_ENTRIES, Writer
from tests.support.live import written

EVENTS: list[Event] = [UserForgotten(number, 0.0) for number in range(2_000)]


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds; a minute is too long."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_unhurried_reading_reads_all() -> None:
    assert list(unhurried(EVENTS, threading.Event())) == EVENTS


def test_half_of_the_time_is_left() -> None:
    rested: list[float] = []

    class Closing(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            rested.append(timeout or 0.0)
            return False

    begin = time.perf_counter()
    for _ in unhurried(EVENTS, Closing()):
        time.sleep(1e-5)
    assert len(rested) == 4
    assert sum(rested) == pytest.approx(time.perf_counter() - begin, rel=0.2)


def test_reading_ends_when_closing() -> None:
    closing, read = threading.Event(), iter(EVENTS)
    closing.set()
    with pytest.raises(ReadingEndedError):
        list(unhurried(read, closing))
    assert len(list(read)) == 1_500


class LostOnce:
    """A journal whose server is away at first; then another process has every role."""

    def __init__(self) -> None:
        self.claims = 0

    def open(self) -> str:
        return ""

    def close(self) -> None:
        pass

    def claim(self, role: str) -> bool:
        self.claims += 1
        if self.claims == 1:
            raise JournalError("the server is away", is_passing=True)
        return False


class Publisher:
    """A writer of which only the journal and its news are asked for."""

    def __init__(self, journal: object) -> None:
        self.journal, self.news = journal, threading.Event()

    def new_journal(self) -> Any:
        return self.journal

    def submit(self, request: object) -> "Future[Any]":
        raise AssertionError(request)


def test_who_waits_to_learn_is_healthy_again() -> None:
    learner = LearnerThread(cast(Any, Publisher(LostOnce())))
    learner.start()
    until(lambda: learner.trouble == "the server is away")
    until(lambda: learner.trouble is None)
    learner.close()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (JournalError("the journal is damaged"), "the journal is damaged"),
        (KeyError(7), "KeyError: 7"),
    ],
)
def test_keeper_says_why_it_forgets_nobody(error: Exception, said: str) -> None:
    class Damaged(LostOnce):
        def open(self) -> str:
            raise error

    keeper = Keeper(cast(Any, Publisher(Damaged())), 1.0)
    keeper.start()
    until(lambda: keeper.trouble == f"names are not forgotten: {said}")
    keeper.close()


def test_turn_has_a_limited_number_of_entries(tmp_path: Path) -> None:
    writer = Writer(load_live(written(tmp_path)))
    for _ in range(3):
        writer.submit(Decide([f"user {i}" for i in range(900)]))
        writer.submit(Reward([("", 0, 1.0)] * 300))
    sizes = []
    while waiting := writer._gather():
        sizes.append(sum(cast(Any, one.request).size for one in waiting))
    assert sizes == [2_100, 1_500]
    assert max(sizes) < MOST_ENTRIES + 1_000
