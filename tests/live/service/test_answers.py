"""Futures of another thread, handed to the event loop a group at a time."""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, cast

import pytest

import bdes_framework as bdes
from bdes_framework.live.decision import Decision
from bdes_framework.live.service.answers import Answers, Decisions
from tests.support.fake_live import FakeSession


def test_a_group_is_handed_over_by_one_call() -> None:
    async def run() -> tuple[list[int], int]:
        answers = Answers()
        loop = asyncio.get_running_loop()
        calls = 0
        real = loop.call_soon_threadsafe

        def counted(*arguments: Any) -> Any:
            nonlocal calls
            calls += 1
            return real(*arguments)

        loop.call_soon_threadsafe = counted  # type: ignore[assignment]
        futures: list[Future[int]] = [Future() for _ in range(100)]
        waiting = asyncio.gather(*(answers.of(future) for future in futures))
        await asyncio.sleep(0)

        for i, future in enumerate(futures):  # here, so that the loop cannot run in between
            future.set_result(i)
        return await waiting, calls

    assert asyncio.run(run()) == ([*range(100)], 1)


def test_nothing_is_lost_between_two_threads() -> None:
    async def run() -> list[int]:
        answers = Answers()
        futures: list[Future[int]] = [Future() for _ in range(20_000)]

        def finish() -> None:
            for i, future in enumerate(futures):
                future.set_result(i)

        thread = threading.Thread(target=finish)
        waiting = asyncio.gather(*(answers.of(future) for future in futures))
        thread.start()
        try:
            return await asyncio.wait_for(waiting, 60)
        finally:
            thread.join()

    assert asyncio.run(run()) == [*range(20_000)]


def test_errors_are_raised_where_they_are_waited_for() -> None:
    async def run() -> int:
        future: Future[int] = Future()
        future.set_exception(ValueError("wrong"))
        return await Answers().of(future)

    with pytest.raises(ValueError, match="wrong"):
        asyncio.run(run())


def test_those_who_left_are_skipped() -> None:
    async def run() -> int:
        answers = Answers()
        left: Future[int] = Future()
        stays: Future[int] = Future()
        leaving = asyncio.create_task(answers.of(left))
        waiting = asyncio.create_task(answers.of(stays))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.sleep(0)
        left.set_result(1)
        stays.set_result(2)
        return await asyncio.wait_for(waiting, 10)

    assert asyncio.run(run()) == 2


def test_answers_after_the_end_of_the_loop_go_nowhere() -> None:
    future: Future[int] = Future()

    async def run() -> None:
        task = asyncio.create_task(Answers().of(future))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(run())
    future.set_result(1)
    assert future.result() == 1


class Slow(FakeSession):
    """Decides when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[str]] = []
        self.futures: list[Future[list[Decision]]] = []

    def submit_decide(self, users: Sequence[str]) -> "Future[list[Decision]]":
        self.asked.append([*users])
        self.futures.append(Future())
        return self.futures[-1]

    def answer(self, place: int) -> None:
        shown = [Decision(user, user, "clip", 1.0, 0) for user in self.asked[place]]
        self.futures[place].set_result(shown)


def decisions_of(session: FakeSession) -> Decisions:
    return Decisions(cast(Any, session))


def test_requests_of_one_pass_are_one_request() -> None:
    async def run() -> None:
        session = Slow()
        decisions = decisions_of(session)
        batches = [["a"], ["b", "c"], ["a"], ["d"]]
        tasks = [asyncio.create_task(decisions.of(users)) for users in batches]
        await asyncio.sleep(0.01)
        late = asyncio.create_task(decisions.of(["e"]))
        await asyncio.sleep(0.01)
        tasks[2].cancel()
        session.answer(1)
        session.answer(0)
        assert [each.user for each in await late] == ["e"]
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(found.pop(2), asyncio.CancelledError)
        users = [[each.user for each in part] for part in cast(Any, found)]
        assert users == [["a"], ["b", "c"], ["d"]]
        assert session.asked == [["a", "b", "c", "a", "d"], ["e"]]

    asyncio.run(run())


def test_no_group_is_larger_than_a_batch() -> None:
    async def run() -> list[int]:
        session = Slow()
        decisions = decisions_of(session)
        batches = [["a"] * n for n in (600, 400, 1_000, 1, 999, 1)]
        tasks = [asyncio.create_task(decisions.of(users)) for users in batches]
        await asyncio.sleep(0.01)
        for place in range(len(session.asked)):
            session.answer(place)
        assert [len(part) for part in await asyncio.gather(*tasks)] == [600, 400, 1_000, 1, 999, 1]
        return [len(users) for users in session.asked]

    assert asyncio.run(run()) == [1_000, 1_000, 1_000, 1]


def test_all_of_a_group_hear_what_went_wrong() -> None:
    async def run(session: FakeSession) -> list[type]:
        decisions = decisions_of(session)
        tasks = [asyncio.create_task(decisions.of([user])) for user in "ab"]
        found = await asyncio.gather(*tasks, return_exceptions=True)
        return [type(each) for each in found]

    session = FakeSession()
    session.fault = bdes.JournalError("full", is_passing=True)
    assert asyncio.run(run(session)) == [bdes.JournalError] * 2

    class Closed(FakeSession):
        def submit_decide(self, users: Sequence[str]) -> "Future[list[Decision]]":
            raise bdes.InvalidValueError("this session is closed")

    assert asyncio.run(run(Closed())) == [bdes.InvalidValueError] * 2
