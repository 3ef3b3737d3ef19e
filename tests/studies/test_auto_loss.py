"""What ``auto`` loses, beside the best single policy told the same: on seeds fixed beforehand."""

from pathlib import Path

import pytest

from studies import auto_loss
from studies.auto_loss import (
    BEGIN,
    END,
    FAMILIES,
    MEASURED,
    MORE_SEEDS,
    PAGE,
    RATES,
    SEEDS,
    SINGLE,
    Cell,
    Losses,
    Row,
    measure,
    measure_until_clear,
    sizes,
    table_of,
    text_of,
)
from studies.pages import saved_rows

ROWS = saved_rows(MEASURED, Row)


@pytest.mark.slow
@pytest.mark.parametrize(("horizon", "n_arms", "rate"), [*sizes()])
def test_auto_loses_little_more_than_the_best(horizon: int, n_arms: int, rate: str) -> None:
    for losses in measure_until_clear(horizon, n_arms, rate):
        assert losses.row.held, (losses.ratio, losses.standard_error, losses.of)


def test_auto_loss_is_measured() -> None:
    told, untold = measure(2_000, 2, "0.5", seeds=[0])
    assert "etc" in told.of
    assert "etc" not in untold.of
    assert told.best in told.of
    assert all(0 < loss < 1 for loss in told.of.values())


def test_page_shows_what_was_measured() -> None:
    assert {row.instances for row in ROWS} == {40, 120}
    assert [len(FAMILIES) * len(seeds) for seeds in (SEEDS, MORE_SEEDS)] == [40, 120]
    cells = [(*size, told) for size in sizes() for told in (True, False)]
    assert [(row.horizon, row.n_arms, row.rate, row.arm_told) for row in ROWS] == cells
    assert [row for row in ROWS if not row.held] == []
    text = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert text.strip() == text_of(ROWS)


def test_what_is_not_allowed_is_bold() -> None:
    held, above = (Row(100, 2, "0.5", True, "etc", ratio, 0.1, 40) for ratio in (1.25, 1.26))
    assert str(held) == "1.25"
    assert str(above) == "**1.26 ± 0.10**"
    rows = [Row(100, 2, rate, True, "etc", 1.26, 0.1, 40) for rate in RATES]
    assert table_of(rows).splitlines()[-1].startswith("| 100 | 2 | told | **1.26 ± 0.10** |")


@pytest.mark.parametrize(("ratio", "error", "clear"), [(1.0, 0.2, False), (1.0, 0.1, True)])
def test_more_seeds_are_played_where_few_leave_it_open(
    ratio: float, error: float, clear: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = []

    def stub(horizon: int, n_arms: int, rate: str, seeds: range) -> tuple[Losses, Losses]:
        played.append(seeds)
        cell = Cell(horizon, n_arms, rate, arm_told=False)
        runs = {name: [0.5, 0.5] for name in SINGLE}
        own = [(ratio + error) / 2, (ratio - error) / 2]
        sure, other = (
            Losses(cell, {name: sum(x) / 2 for name, x in found.items()}, found)
            for found in (runs | {"auto": [0.5, 0.5]}, runs | {"auto": own})
        )
        assert other.standard_error == pytest.approx(error)
        return sure, other

    monkeypatch.setattr(auto_loss, "measure", stub)
    measure_until_clear(100, 2, "0.5")
    assert played == ([SEEDS] if clear else [SEEDS, MORE_SEEDS])


def test_study_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_loss, "PAGE", page := tmp_path / "page.md")
    monkeypatch.setattr(auto_loss, "MEASURED", measured := tmp_path / "measured.json")
    monkeypatch.setattr(auto_loss, "sizes", lambda: [(2_000, 2, "0.5")])
    monkeypatch.setattr(auto_loss, "SEEDS", [0])
    monkeypatch.setattr(auto_loss, "RATES", {"0.5": lambda t: 0.5})
    monkeypatch.setattr(auto_loss, "ALLOWED", 0.0)
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="1"):
        auto_loss.main()
    shown = text_of(saved_rows(measured, Row))
    assert "2 of 2 cells are above 0.0" in shown
    assert page.read_text(encoding="utf-8") == f"before\n{BEGIN}\n\n{shown}\n\n{END}\nafter\n"
