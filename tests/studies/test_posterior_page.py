"""Sections of docs/posterior.md are written one at a time, and the others are left alone."""

import pytest

from studies.posterior.measure import BEGIN, END, PAGE, main, with_section

TEXT = f"# A page\n\n{BEGIN}\n\n### One\n\nfirst\n\n### Two\n\nsecond\n\n{END}\n\nmore\n"


def test_section_replaces_the_one_of_its_heading() -> None:
    assert with_section(TEXT, "### One\n\nnew") == TEXT.replace("first", "new")
    assert with_section(TEXT, "### Two\n\nsecond") == TEXT


def test_new_section_comes_last() -> None:
    added = with_section(TEXT, "### Three\n\nthird")
    assert added == TEXT.replace("second", "second\n\n### Three\n\nthird")


def test_unknown_section_raises_before_playing() -> None:
    before = PAGE.read_text()
    with pytest.raises(SystemExit, match="there is no section 'comparison': choose from compare"):
        main(["compare", "comparison"])
    assert PAGE.read_text() == before
