"""What ``rank-one`` loses beside others, on seeds fixed beforehand, and the page that says so."""

import pytest

from studies.rank_one import (
    ARMS,
    BEGIN,
    END,
    FAMILIES,
    HORIZONS,
    PAGE,
    POLICIES,
    Family,
    measure,
    table_of,
)

CELLS = [(family, k, t) for family in FAMILIES for k in ARMS for t in HORIZONS]
LOSES = ("uniform", 50, 10_000)
"""The line of the table where another loses less."""


def test_losses_are_measured_and_shown() -> None:
    cell = measure("uniform", 2, 2_000, seeds=[0, 1])
    assert set(cell.losses) == set(POLICIES)
    assert all(0 < loss < 1 for own in cell.losses.values() for loss in own)
    last = table_of([cell]).splitlines()[-1]
    assert last.startswith("| uniform | 2 | 2,000 |")
    assert last.count("**") == 2


def test_page_has_a_line_for_every_cell_and_marks_the_best() -> None:
    text = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    lines = text.strip().splitlines()[2:]
    assert [line.split(" | ")[:3] for line in lines] == [
        [f"| {family}", str(n_arms), f"{horizon:,}"] for family, n_arms, horizon in CELLS
    ]
    marked = {
        cell: line.split(" | ")[3].startswith("**") for cell, line in zip(CELLS, lines, strict=True)
    }
    assert [cell for cell in CELLS if not marked[cell]] == [LOSES]
    assert "loses least in 35 of 36 lines" in PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(("family", "n_arms", "horizon"), CELLS)
def test_rank_one_loses_least(family: Family, n_arms: int, horizon: int) -> None:
    best = measure(family, n_arms, horizon).best
    assert (best == "rank-one") == ((family, n_arms, horizon) != LOSES)
