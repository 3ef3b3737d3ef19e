"""Colours of policies: by name, distinct, readable."""

from itertools import combinations

import pytest

from bdes_framework._internal.colours import (
    ARMS,
    CHART_DARK,
    HORIZONS,
    N_COLOURS,
    WHITE,
    colour_of,
    colours_of,
    contrast,
)

OURS = [
    *("aae", "auto", "discounted-ucb", "etc", "etc-unknown-arm", "exp3", "exp3p", "fixed-schedule"),
    *("posterior", "rank-one", "sliding-window-ucb", "sticky", "thompson", "ucb1", "uniform"),
    *("unknown-lambda", "wide-ucb"),
]
GROUNDS = {"light": WHITE, "dark": CHART_DARK}


def test_colour_comes_from_the_name_alone() -> None:
    together = colours_of(OURS)
    assert together == {name: colour_of(name) for name in OURS}
    assert len({colour.light for colour in together.values()}) == len(OURS)
    assert colours_of(reversed(OURS))["etc"] == colours_of(["etc"])["etc"] == colour_of("etc")


def test_names_that_want_one_colour_share_none() -> None:
    names = [f"policy {i}" for i in range(N_COLOURS)]
    assert len({colour_of(name) for name in names}) < N_COLOURS  # some want the same
    found = colours_of(names)
    assert len(set(found.values())) == N_COLOURS
    assert colours_of(reversed(names)) == found
    # Whoever gets the colour of its name alone keeps it in company.
    assert all(colour_of(name) in found.values() for name in names)


def test_labels_take_no_colour_from_a_policy_of_ours() -> None:
    label = next(text for n in range(99) if colour_of(text := f"A {n}") == colour_of("etc"))
    together = colours_of([label, "etc"])
    assert together["etc"] == colour_of("etc")
    assert together[label] != colour_of("etc")


def test_colours_come_round_again_dashed() -> None:
    found = colours_of(f"policy {i}" for i in range(2 * N_COLOURS + 1))
    assert {colour.turn for colour in found.values()} == {0, 1, 2}
    assert len({(colour.light, colour.turn) for colour in found.values()}) == len(found)


@pytest.mark.parametrize(("theme", "ground"), GROUNDS.items())
def test_lines_are_seen_and_text_is_read(theme: str, ground: str) -> None:
    for name in OURS:
        assert contrast(colour_of(name).line(theme), ground) >= 3
        assert contrast(colour_of(name).text(theme), ground) >= 4.5


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("theme", GROUNDS)
def test_arms_and_horizons_look_like_no_policy(theme: str) -> None:
    lines = {colour_of(name).line(theme) for name in OURS}
    families = [lines, set(ARMS[theme]), set(HORIZONS[theme])]
    assert all(not one & other for one, other in combinations(families, 2))


def test_terminals_of_either_ground_can_show_them() -> None:
    found = [colour.terminal for colour in colours_of(OURS).values()]
    assert len(set(found)) == len(OURS)
    assert all(contrast(colour, ground) > 4.2 for colour in found for ground in (WHITE, "#000000"))
