"""The time a run will take: a range, from what cells of each policy took, not from counts."""

import csv
import heapq
import math
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bdes_framework.cli.run import time_left_text
from bdes_framework.experiment.time_left import StepsLeft, TimeLeft
from tests.support import REPOSITORY

TIMINGS = REPOSITORY / "tests" / "support" / "timings"
MINUTE = 60.0


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Finished(NamedTuple):
    """When a cell finished, whose it was, how long it took."""

    end: float
    policy: str
    pulls: int
    seconds: float
    is_first: bool


def recorded(name: str) -> list[Finished]:
    """Return the cells of a run of ``examples/demo.toml`` with two workers on a busy machine."""
    with (TIMINGS / f"{name}.csv").open() as file:
        return [
            Finished(float(end), policy, int(pulls), float(seconds), is_first == "1")
            for end, policy, pulls, seconds, is_first in list(csv.reader(file))[1:]
        ]


Told = tuple[float, float] | None
"""The bounds that are told; None while the time is being measured."""


def told(played: list[Finished], workers: int, at_least: float) -> Iterator[tuple[Told, float]]:
    """Yield what is told to be left and what is, after a fifth of the work, at some cells.

    While it is at least so many seconds.
    """
    clock, work, done = Clock(), sum(cell.seconds for cell in played), 0.0
    left = TimeLeft([(cell.policy, cell.pulls) for cell in played], workers, clock)
    for number, cell in enumerate(played):
        clock.now = cell.end
        left.finish(cell.policy, cell.pulls, cell.seconds, is_first=cell.is_first)
        done += cell.seconds
        truth = played[-1].end - cell.end
        if number % 5 or done < work / 5 or truth < at_least:
            continue
        expected = left.seconds()
        if "measuring" in time_left_text(expected) or expected is None:
            yield None, truth
            continue
        low, high = expected
        one = math.sqrt(low * high)
        yield ((one, one) if high <= 2 * low else expected), truth


# -- one cell after another -----------------------------------------------------------------


def test_nothing_is_said_before_anything_is_known() -> None:
    left = TimeLeft([("a", 10)] * 4, clock=Clock())
    assert left.seconds() is None
    left.finish("a", 10, None)  # a cell that failed says nothing
    assert left.seconds() is None


def test_a_first_cell_gives_bounds_only() -> None:
    left = TimeLeft([("a", 10)] * 4, clock=Clock())
    left.finish("a", 10, 8.0, is_first=True)  # which may be all for loading code
    assert left.seconds() == pytest.approx((0.0, 3 * 8.0))
    left.finish("a", 10, 0.1)
    assert left.seconds() == pytest.approx((0.2, 0.2))
    left = TimeLeft([("a", 10)] * 4, clock=Clock())
    left.finish("a", 10, 620.0, is_first=True)  # which cannot
    assert left.seconds() == pytest.approx((3 * 600.0, 3 * 620.0))


def test_each_policy_has_its_own_cost() -> None:
    left = TimeLeft([("a", 1_000)] * 11 + [("b", 1_000)] * 3, clock=Clock())
    left.finish("a", 1_000, 1.0)
    left.finish("b", 1_000, 50.0)
    assert left.seconds() == pytest.approx((10 * 1.0 + 2 * 50.0,) * 2)


def test_nothing_is_told_while_a_policy_is_unknown() -> None:
    left = TimeLeft([("a", 10)] * 3 + [("b", 10)] * 3, clock=Clock())
    left.finish("a", 10, 1.0)
    assert left.seconds() is None  # b may take an hour
    left.finish("b", 10, 3.0)
    assert left.seconds() == pytest.approx((8.0, 8.0))


def test_a_policy_that_fails_costs_what_others_may() -> None:
    left = TimeLeft([("a", 10), ("b", 10), ("c", 10), ("c", 10)], clock=Clock())
    left.finish("a", 10, 1.0)
    left.finish("b", 10, 3.0)
    left.finish("c", 10, None)
    assert left.seconds() == pytest.approx((1.0, 3.0))


def test_one_horizon_bounds_another_one() -> None:
    left = TimeLeft([("a", 1_000), ("a", 100_000)], clock=Clock())
    left.finish("a", 1_000, 2.0)  # all of it may be fixed, or all of it for pulls
    assert left.seconds() == pytest.approx((2.0, 200.0))
    left = TimeLeft([("a", 1_000), ("a", 100_000)], clock=Clock())
    left.finish("a", 100_000, 2.0)
    assert left.seconds() == pytest.approx((0.02, 2.0))


def test_two_horizons_make_a_line() -> None:
    cells = [("a", 1_000), ("a", 2_000), ("a", 4_000), ("a", 10_000)]
    left = TimeLeft(cells, clock=Clock())
    left.finish("a", 1_000, 1.0)
    left.finish("a", 2_000, 1.5)  # 0.5 s, and 0.5 s per 1,000 pulls
    left.finish("a", 10_000, None)
    low, high = left.seconds() or (0.0, 0.0)
    assert low <= 2.5 <= high <= 4 * low


def test_only_the_latest_cells_count() -> None:
    left = TimeLeft([("a", 10)] * 301, clock=Clock())
    for seconds in [5.0] * 200 + [1.0] * 100:  # the machine got faster
        left.finish("a", 10, seconds)
    assert left.seconds() == pytest.approx((1.0, 1.0))


def test_cells_that_differ_make_a_range() -> None:
    left = TimeLeft([("a", 10)] * 8, clock=Clock())
    for seconds in (1.0, 1.0, 1.0, 17.0):
        left.finish("a", 10, seconds)
    assert left.seconds() == pytest.approx((4 * 1.0, 4 * 5.0))


@pytest.mark.parametrize(("workers", "seconds"), [(1, 80.0), (4, 20.0), (100, 10.0)])
def test_workers_share_the_work_but_not_a_cell(workers: int, seconds: float) -> None:
    left = TimeLeft([("a", 10)] * 9, workers, Clock())
    left.finish("a", 10, 10.0)
    assert left.seconds() == pytest.approx((seconds, seconds))


def test_every_worker_will_load_code() -> None:
    left = TimeLeft([("a", 10)] * 10, 4, Clock())
    left.finish("a", 10, 9.0, is_first=True)
    left.finish("a", 10, 1.0)
    assert left.seconds() == pytest.approx(((8 * 1.0 + 3 * 8.0) / 4,) * 2)


def test_it_counts_down_and_never_below_nothing() -> None:
    clock = Clock()
    left = TimeLeft([("a", 10)] * 3, clock=clock)
    left.finish("a", 10, 10.0)
    clock.now += 5
    assert left.seconds() == pytest.approx((15.0, 15.0))
    clock.now += 16  # longer than expected: nobody knows
    assert left.seconds() is None
    left.finish("a", 10, 10.0)
    assert left.seconds() == pytest.approx((10.0, 10.0))


@pytest.mark.parametrize(
    ("left", "text"),
    [
        (None, "measuring the time left"),
        ((100.0, 144.0), "2 min left"),
        ((20.0, 150.0), "20 s to 2 min left"),
        ((3.0, 900.0), "measuring the time left"),
        ((0.0, 0.0), "1 s left"),
        ((0.0, 8.0), "1 s to 8 s left"),
    ],
)
def test_a_wide_range_is_not_told(left: tuple[float, float] | None, text: str) -> None:
    assert time_left_text(left) == text


# -- whole runs ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cold", "warm"])
def test_no_time_told_of_a_recorded_run_is_wrong(name: str) -> None:
    """Cold, functions were compiled for 67 s before the second policy's first cell ended."""
    found = list(told(recorded(name), 2, at_least=10))
    assert len(found) > 10
    known = [(bounds, truth) for bounds, truth in found if bounds is not None]
    assert len(known) > 0.8 * len(found)
    for bounds, truth in known:
        assert bounds[0] / 2 <= truth <= 2 * bounds[1]


Cost = Callable[[str, int], float]


def simulated(
    cells: list[tuple[str, int]], workers: int, cost: Cost, loading: float, start: float
) -> list[Finished]:
    """Play cells as the engine "processes" does: the cheapest here, the others in workers."""
    left = sorted(cells, key=lambda cell: cell[1])
    now, here, played = 0.0, set[str](), list[Finished]()

    def play(at: float, cell: tuple[str, int], loaded: set[str]) -> float:
        is_first = cell[0] not in loaded
        loaded.add(cell[0])
        seconds = cost(*cell) + loading * is_first
        played.append(Finished(at + seconds, *cell, seconds, is_first))
        return at + seconds

    while left and (now < 2 or workers == 1):
        now = play(now, left.pop(0), here)
    loaded = [set[str]() for _ in range(workers)]
    free = [(now + start, number) for number in range(workers)]
    while left:
        at, number = heapq.heappop(free)
        heapq.heappush(free, (play(at, left.pop(), loaded[number]), number))
    return sorted(played)


def told_of_a_run(
    seed: int,
    n_policies: int,
    workers: int,
    loading: float,
    start: float,
    horizons: tuple[int, ...],
) -> list[tuple[Told, float]]:
    """Return what is told of a simulated run while a minute or more is left."""
    rng = random.Random(seed)
    fixed = {f"p{n}": 10 ** rng.uniform(-3.0, 0.5) for n in range(n_policies)}
    rates = {name: 10 ** rng.uniform(-6.0, -3.5) for name in fixed}
    cells = [(name, pulls) for name in fixed for pulls in horizons for _ in range(20)]
    rng.shuffle(cells)  # as keys of cells do

    def cost(name: str, pulls: int) -> float:
        return (fixed[name] + rates[name] * pulls) * math.exp(rng.gauss(0.0, 0.2))

    return list(told(simulated(cells, workers, cost, loading, start), workers, MINUTE))


@settings(max_examples=100)
@given(
    seed=st.integers(0, 2**32),
    n_policies=st.integers(1, 5),
    workers=st.integers(1, 8),
    loading=st.floats(0.0, 15.0),
    start=st.floats(0.5, 10.0),
    horizons=st.sampled_from([(1_000, 10_000, 100_000), (100_000,), (2_000, 50_000)]),
)
def test_after_a_fifth_the_time_told_is_right(
    seed: int,
    n_policies: int,
    workers: int,
    loading: float,
    start: float,
    horizons: tuple[int, ...],
) -> None:
    """Up to a factor of 2; workers start and load code for many seconds."""
    for bounds, truth in told_of_a_run(seed, n_policies, workers, loading, start, horizons):
        assert bounds is None or bounds[0] / 2 <= truth <= 2 * bounds[1]


def test_after_a_fifth_the_time_is_mostly_told() -> None:
    found = [
        bounds is not None
        for seed in range(40)
        for bounds, _ in told_of_a_run(seed, 4, 2, 5.0, 3.0, (1_000, 10_000, 100_000))
    ]
    assert sum(found) > 0.8 * len(found) > 100


# -- steps of a planner ----------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 4])
def test_steps_are_timed_without_the_first_ones(workers: int) -> None:
    clock = Clock()
    left = StepsLeft(80, workers, clock)
    clock.now += 30.0  # code was loaded
    left.finish(workers)
    assert left.seconds() is None
    for done in range(workers + 1, 40 + workers + 1):
        clock.now += 2.0 / workers
        left.finish(done)
    truth = (40 - workers) * 2.0 / workers
    low, high = left.seconds() or (0.0, 0.0)
    assert truth / 2 <= low <= truth <= high <= 2 * truth
    clock.now += 10 * truth
    assert left.seconds() is None
