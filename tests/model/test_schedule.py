"""Schedules kept as segments behave as the arrays they stand for."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bdes_framework import InvalidValueError, Schedule, Segment

arms_lists = st.lists(st.integers(0, 3), min_size=1, max_size=5)
schedules = st.lists(st.tuples(arms_lists, st.integers(1, 6)), min_size=1, max_size=5)


@given(schedules, st.data())
def test_schedule_agrees_with_the_expanded_array(
    segments: list[tuple[list[int], int]], data: st.DataObject
) -> None:
    expanded = [arm for arms, repeats in segments for arm in arms * repeats]
    schedule = Schedule([Segment(arms, repeats) for arms, repeats in segments])
    assert schedule.arms.tolist() == expanded
    assert schedule.n_pulls == len(expanded)
    start = data.draw(st.integers(0, len(expanded) - 1))
    stop = data.draw(st.integers(start + 1, len(expanded)))
    assert schedule.slice(start, stop).tolist() == expanded[start:stop]
    assert schedule.part(start, stop).arms.tolist() == expanded[start:stop]
    size = data.draw(st.integers(1, 10))
    blocks = list(schedule.blocks(size))
    assert [arm for block in blocks for arm in block.tolist()] == expanded
    assert all(block.size == size for block in blocks[:-1])
    assert schedule.counts(4).tolist() == [expanded.count(arm) for arm in range(4)]


@given(arms_lists, st.integers(1, 40))
def test_a_cycle_has_exactly_the_pulls_asked_for(arms: list[int], n_pulls: int) -> None:
    schedule = Schedule.cycle(arms, n_pulls)
    assert schedule.arms.tolist() == [arms[t % len(arms)] for t in range(n_pulls)]


def test_a_billion_pulls_are_sliced() -> None:
    schedule = Schedule([Segment([0]), Segment([1, 2], 10**9), Segment([3])])
    assert schedule.n_pulls == 2 * 10**9 + 2
    assert schedule.slice(2 * 10**9 - 1, 2 * 10**9 + 2).tolist() == [1, 2, 3]
    assert str(schedule) == "0 · (1 2) × 1000000000 · 3"


def test_long_segments_are_shortened_for_reading() -> None:
    assert str(Schedule.of(np.zeros(1000, dtype=np.int64))).endswith("0 … 1000 arms")


@pytest.mark.parametrize("repeats", [0, -1, 1.5, True, 2**63])
def test_segment_rejects_bad_repeats(repeats: int) -> None:
    with pytest.raises(InvalidValueError, match="repeats"):
        Segment([0], repeats)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: Schedule([]), "at least one segment"),
        (lambda: Schedule.cycle([0], 0), "n_pulls"),
        (lambda: Schedule.of([0, 1]).slice(1, 3), "need 0 <= start"),
        (lambda: Schedule.of([0, 2]).counts(2), "only 2 arms"),
    ],
)
def test_schedule_rejects_bad_ranges(use: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        use()
