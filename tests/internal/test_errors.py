"""Errors stay readable, however many mistakes there are."""

from bdes_framework import ConfigError
from bdes_framework.errors import Mistake


def test_the_first_mistakes_are_shown_and_the_rest_counted() -> None:
    mistakes = [Mistake(f"r[{index}]", "expected a number") for index in range(200_000)]
    error = ConfigError(mistakes, "x.toml")
    lines = str(error).splitlines()
    assert len(error.mistakes) == 200_000
    assert lines[19:] == ["x.toml: r[19]: expected a number", "x.toml: and 199,980 more mistakes"]
    assert str(ConfigError(mistakes[:21])).endswith("and 1 more mistake")


def test_a_long_mistake_is_shortened_in_its_middle() -> None:
    text = str(ConfigError([Mistake("x" * 10**6, "is not a parameter")]))
    assert len(text) < 2_100
    assert text.endswith("xxx: is not a parameter")
