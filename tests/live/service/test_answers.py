"""Futures of another thread, handed to the event loop a group at a time."""

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from bdes_framework.live.service.answers import Answers


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
