"""The time a run will take: from what cells of each policy took per pull, not from counts."""

from collections.abc import Iterable

import pytest

from bdes_framework.experiment.time_left import TimeLeft


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def started(cells: Iterable[tuple[str, int]], workers: int = 1) -> tuple[TimeLeft, Clock]:
    """Return the estimate of cells, where the first cell of policies a, b, c is over already."""
    clock = Clock()
    left = TimeLeft([*cells, ("a", 1), ("b", 1), ("c", 1)], workers, clock)
    for policy in "abc":
        left.finish(policy, 1, 0.5)
    return left, clock


def test_nothing_is_said_before_anything_is_known() -> None:
    left = TimeLeft([("a", 10)] * 4)
    assert left.seconds() is None
    left.finish("a", 10, None)  # a cell that failed says nothing
    assert left.seconds() is None


def test_the_first_cell_of_a_policy_counts_only_if_it_is_long() -> None:
    left = TimeLeft([("a", 10)] * 4, clock=Clock())
    left.finish("a", 10, 1.0)  # which may be all for loading
    assert left.seconds() is None
    left.finish("a", 10, 0.1)
    assert left.seconds() == pytest.approx(0.2)
    left = TimeLeft([("a", 10)] * 4, clock=Clock())
    left.finish("a", 10, 60.0)
    assert left.seconds() == pytest.approx(180.0)


def test_each_policy_has_its_own_cost() -> None:
    left, _ = started([("a", 1_000)] * 10 + [("b", 1_000)] * 3)
    left.finish("a", 1_000, 1.0)
    assert left.seconds() == pytest.approx(9 * 1.0 + 3 * 1.0)  # b: as far as is known
    left.finish("b", 1_000, 50.0)
    assert left.seconds() == pytest.approx(9 * 1.0 + 2 * 50.0)


def test_an_unknown_policy_costs_the_mean_of_the_others() -> None:
    left, _ = started([("a", 10)] * 5 + [("b", 10)] * 2 + [("c", 10)])
    for _ in range(5):
        left.finish("a", 10, 1.0)
    for _ in range(2):
        left.finish("b", 10, 3.0)
    assert left.seconds() == pytest.approx(2.0)


def test_a_cell_that_waited_for_code_does_not_count() -> None:
    left, _ = started([("a", 10)] * 12)
    for seconds in (1.0, 30.0, 1.2):
        left.finish("a", 10, seconds)
    assert left.seconds() == pytest.approx(9 * 1.2)


def test_only_the_latest_cells_count() -> None:
    left, _ = started([("a", 10)] * 301)
    for seconds in [5.0] * 200 + [1.0] * 100:  # the machine got faster
        left.finish("a", 10, seconds)
    assert left.seconds() == pytest.approx(1.0)


def test_a_horizon_that_is_not_known_costs_as_the_nearest_one() -> None:
    left, _ = started([("a", 10), ("a", 1_000), ("a", 2_000)])
    left.finish("a", 10, 10.0)  # mostly what every cell costs
    assert left.seconds() is None  # which tells little about a horizon a hundred times as long
    left.finish("a", 1_000, 20.0)
    assert left.seconds() == pytest.approx(2_000 * 20.0 / 1_000)


@pytest.mark.parametrize(("workers", "seconds"), [(1, 80.0), (4, 20.0), (100, 10.0)])
def test_workers_share_the_work_but_not_a_cell(workers: int, seconds: float) -> None:
    left, _ = started([("a", 10)] * 9, workers)
    left.finish("a", 10, 10.0)
    assert left.seconds() == pytest.approx(seconds)


def test_it_counts_down_and_never_below_nothing() -> None:
    left, clock = started([("a", 10)] * 3)
    left.finish("a", 10, 10.0)
    clock.now += 5
    assert left.seconds() == pytest.approx(15.0)
    clock.now += 16  # longer than expected: nobody knows
    assert left.seconds() is None
    left.finish("a", 10, 10.0)
    assert left.seconds() == pytest.approx(10.0)
