"""Rewards on their way to a policy: against a list of all that wait, searched each time."""

from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bdes_framework.simulation.feedback import Feedback, Mailbox, _Unordered


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=40),
    st.integers(0, 120),
    st.sampled_from(["fixed", "geometric"]),
    st.sampled_from([0.0, 0.3, 1.0]),
)
def test_rewards_come_once_when_they_are_due(
    blocks: list[int], delay: int, delays: Literal["fixed", "geometric"], lost: float
) -> None:
    mailbox = Mailbox(Feedback(delay=delay, delays=delays, lost=lost, seed=1))
    rewards = np.random.default_rng(2).random(sum(blocks))
    start, came, never = 0, list[int](), list[int]()
    for n in blocks:
        given_away = rewards[start : start + n].copy()
        gone = mailbox.post(given_away, start)
        given_away[:] = -1.0  # the environment may use its array again
        never += (start + np.flatnonzero(gone)).tolist()
        start += n
        visits, paid = mailbox.collect(start)
        assert paid.tolist() == rewards[visits].tolist()
        assert (visits < start).all()
        if delays == "fixed":
            assert visits.tolist() == sorted(visits.tolist())
            assert (visits + 1 + delay <= start).all()
        came += visits.tolist()
    visits, paid = mailbox.collect(1 << 60)
    assert paid.tolist() == rewards[visits].tolist()
    assert sorted(came + visits.tolist() + never) == list(range(start))
    if delays == "fixed":
        assert visits.tolist() == [v for v in range(max(start - delay, 0), start) if v not in never]


@given(st.lists(st.lists(st.integers(0, 30), max_size=20), max_size=12), st.integers(0, 8))
def test_heap_gives_what_is_due_in_order(blocks: list[list[int]], step: int) -> None:
    """By when they are due, and by visit where several are due at once."""
    heap, waiting, number = _Unordered(), list[tuple[int, int]](), 0
    for now, due in enumerate(blocks):
        visits = np.arange(number, number + len(due))
        heap.add(visits, np.array(due, dtype=np.int64), visits / 1000)
        waiting += zip(due, visits.tolist(), strict=True)
        number += len(due)
        found, rewards = heap.take(now * step)
        here = sorted(each for each in waiting if each[0] <= now * step)
        waiting = [each for each in waiting if each[0] > now * step]
        assert found.tolist() == [visit for _, visit in here]
        assert rewards.tolist() == (found / 1000).tolist()


@pytest.mark.parametrize("delays", ["fixed", "geometric"])
def test_mean_delay_is_as_asked(delays: Literal["fixed", "geometric"]) -> None:
    mailbox, late = Mailbox(Feedback(delay=40, delays=delays, seed=3)), []
    for now in range(1, 20_001):
        mailbox.post(np.zeros(1), now - 1)
        visits, _ = mailbox.collect(now)
        late += (now - 1 - visits).tolist()
    assert np.mean(late) == pytest.approx(40, abs=1.2)
    assert (np.std(late) > 35) == (delays == "geometric")
