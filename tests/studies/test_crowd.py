"""What crowd-posterior loses on many users: a small part of the study, and the page's bounds."""

import numpy as np
import pytest

from studies.crowd import page
from studies.crowd.measure import (
    FAMILIES,
    LIFETIMES,
    RATES,
    SEEDS,
    Game,
    Row,
    games,
    measure,
    saved,
)

ROWS = saved()


def saved_row(game: Game) -> Row:
    (row,) = (row for row in ROWS if row.game == game)
    return row


@pytest.mark.slow
@pytest.mark.parametrize("lam", RATES)
def test_little_is_lost_of_ten_thousand_users(lam: float) -> None:
    """And as much as the page says: it was made with the policy as it is now."""
    rows = [measure(game) for game in games("main", SEEDS[:2], (lam,))]
    assert page.by_seed(rows, lambda row: row.loss).mean() <= page.MOST_LOST
    assert max(row.loss for row in rows) <= page.MOST_LOST_ONCE
    assert [row.regret for row in rows] == pytest.approx(
        [saved_row(row.game).regret for row in rows], rel=1e-6
    )


@pytest.mark.parametrize(("policy", "users"), [("each thompson", 40), ("pooled rank-one", 400)])
def test_saved_games_replay(policy: str, users: int) -> None:
    """A game gives the numbers again that the page was made from: here with few users."""
    game = Game("screen", policy, "click-bait", 0, 0.5, users=users)
    again, was = measure(game), saved_row(game)
    assert again.regret == pytest.approx(was.regret, rel=1e-9)
    assert again.visits == was.visits
    assert again.optimum == pytest.approx(was.optimum)
    assert 0 < again.regret < again.optimum


@pytest.mark.parametrize("lam", RATES)
@pytest.mark.parametrize("lifetimes", LIFETIMES)
def test_measured_losses_are_within_bounds(lam: float, lifetimes: str) -> None:
    rows = page.chosen(ROWS, "main", lam=lam, lifetimes=lifetimes)
    assert {row.game.family for row in rows} == set(FAMILIES)
    assert page.by_seed(rows, lambda row: row.loss).mean() <= page.MOST_LOST
    assert max(row.loss for row in rows) <= page.MOST_LOST_ONCE


def test_regret_ratio_pairs_seeds() -> None:
    rows = page.chosen(ROWS, "main", lam=0.1, lifetimes="geometric")
    assert page.ratio(rows, rows) == 1.0
    assert page.ratio(rows[:1], rows) == pytest.approx(1.0)
    assert np.isfinite(page.ratio(rows, rows[:3]))


def test_every_bound_but_the_known_ones_holds() -> None:
    """What is missed is said on the page, and nothing else is."""
    missed = page.failures(ROWS)
    known = ("delays", "arrivals", "lam = 0.02, warm")
    assert [each for each in missed if not any(word in each for word in known)] == []
    assert all(each in page.PAGE.read_text(encoding="utf-8") for each in missed)


def test_page_shows_what_was_measured() -> None:
    assert page.text_of(ROWS) in page.PAGE.read_text(encoding="utf-8")
