"""From plain values to configs: strict types, every mistake found, nothing coerced."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NewType

import numpy as np
import pytest
from attrs import AttrsInstance, field, frozen, validators
from click.testing import CliRunner

from bdes_framework import ConfigError, PlannerRef
from bdes_framework.cli.plugins import plugins
from bdes_framework.plugin.config_types import TableType, parse_hint, toml_text, type_text
from bdes_framework.plugin.config_values import references_in, structure
from tests.support import every_type
from tests.support.every_type import Colour, Config, Inner


def mistakes_in(config: type[AttrsInstance], values: dict[str, object]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        structure(config, values)
    return [str(mistake) for mistake in caught.value.mistakes]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("rate", 1, 1.0),
        ("rate", 10**30, 1e30),
        ("number", None, None),
        ("text", "y", "y"),
        ("folder", "a/b", Path("a/b")),
        ("speed", "slow", "slow"),
        ("colour", "dark-blue", Colour.DARK_BLUE),
        ("colour", Colour.RED, Colour.RED),
        ("weights", [1, 2.5], [1.0, 2.5]),
        ("weights", [10**30, 1], [1e30, 1.0]),
        ("arms", [0, 1], [0, 1]),
        ("many", [1, 2], (1.0, 2.0)),
        ("names", ("a",), ["a"]),
        ("pair", [2, "y"], (2, "y")),
        ("limits", {"a": 1}, {"a": 1.0}),
        ("free", {"x": [1, {}]}, {"x": [1, {}]}),
        ("inner", {"size": 2}, Inner(2)),
        ("inner", Inner(3), Inner(3)),
        ("parts", {"left": [{"size": 3}, True]}, {"left": (Inner(3), True)}),
        ("rows", [{"size": 4}, None], [Inner(4), None]),
        ("planner", {"use": "exact", "memory": 3}, {"use": "exact", "memory": 3}),
    ],
)
def test_structure_converts(name: str, value: object, expected: object) -> None:
    converted = getattr(structure(Config, {name: value}), name)
    plain = converted.tolist() if isinstance(converted, np.ndarray) else converted
    assert (plain, type(plain)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rate": "1"}, "rate: expected a number, got '1'"),
        ({"rate": True}, "rate: expected a number, got True"),
        ({"rate": math.nan}, "rate: expected a number, got NaN"),
        ({"rate": 10**400}, "rate: expected a smaller number, got 100"),
        ({"whole": 1.0}, "whole: expected an integer, got 1.0"),
        ({"whole": True}, "whole: expected an integer, got True"),
        ({"whole": None}, "whole: expected an integer, got None"),
        ({"flag": 1}, "flag: expected true or false, got 1"),
        ({"folder": 1}, "folder: expected a string, got 1"),
        ({"speed": "fst"}, "one of \"fast\", \"slow\", got 'fst'. Did you mean 'fast'?"),
        ({"text": 1.5}, "expected an integer, got 1.5; or expected a string"),
        ({"weights": "12"}, "weights: expected a list of numbers, got '12'"),
        ({"weights": [[1], [1, 2]]}, "weights: expected a list of numbers"),
        ({"weights": [True]}, "weights: expected a list of numbers"),
        ({"weights": [True, 0.5]}, "weights: expected a list of numbers"),
        ({"weights": [[0.5], [True]]}, "weights: expected a list of numbers"),
        ({"weights": np.array([True])}, "weights: expected a list of numbers"),
        ({"weights": [None]}, "weights: expected a list of numbers, got [None]"),
        ({"weights": [10**400]}, "weights: expected smaller numbers, got [100"),
        ({"arms": [False, 1]}, "arms: expected a list of integers, got [False, 1]"),
        ({"arms": [10**30]}, "arms: expected smaller integers, got [100"),
        ({"arms": [2**63]}, "arms: expected smaller integers, got [922"),
        ({"arms": [0.5]}, "arms: expected a list of integers, got [0.5]"),
        ({"names": "ab"}, "names: expected a list, got 'ab'"),
        ({"many": [1, "x"]}, "many[1]: expected a number, got 'x'"),
        ({"inner": 3}, "inner: expected a table, got 3"),
        ({"inner": {"size": "x"}}, "inner.size: expected an integer, got 'x'"),
        ({"inner": {"sze": 1}}, "inner.sze: is not a parameter. Did you mean 'size'?"),
        ({"inner": {"size": 0}}, "'size' must be > 0"),
        ({"planner": 3}, "planner: expected the name of a planner or a table"),
        ({"planner": {"name": "x"}}, "planner: expected the name of a planner"),
        ({"colour": "RED"}, 'colour: expected one of "red", "dark-blue", got \'RED\''),
        ({"colour": "blue"}, "Did you mean 'dark-blue'?"),
        ({"pair": [1]}, "pair: expected a list of 2 values, got [1]"),
        ({"pair": 1}, "pair: expected a list, got 1"),
        ({"pair": ["x", "y"]}, "pair[0]: expected an integer, got 'x'"),
        ({"limits": [1]}, "limits: expected a table, got [1]"),
        ({"limits": {"a": "x"}}, "limits.a: expected a number, got 'x'"),
        ({"limits": {"a b": "x"}}, "limits.'a b': expected a number, got 'x'"),
        ({"parts": {"a": [{"sze": 1}, True]}}, "parts.a[0].sze: is not a parameter."),
        ({"rows": [{"size": "x"}]}, "rows[0]: size: expected an integer"),
        ({"rte": 1}, "rte: is not a parameter. Did you mean 'rate'? Allowed: "),
        ({"a\nb": 1}, r"'a\nb': is not a parameter."),
    ],
)
def test_structure_raises_with_the_path(values: dict[str, object], message: str) -> None:
    assert message in "\n".join(mistakes_in(Config, values))


def test_structure_reports_all_mistakes() -> None:
    values = {"rate": "x", "number": "y", "inner": {"size": "z"}, "unknown": 1}
    paths = [text.split(":")[0] for text in mistakes_in(Config, values)]
    assert paths == ["rate", "number", "inner.size", "unknown"]


@frozen
class Range:
    """Two numbers in order, each below 10."""

    low: int = field(validator=validators.lt(10))
    high: int = field(validator=validators.lt(10))
    step: int = field(default=1, validator=validators.gt(0))

    @high.validator
    def _above(self, _: object, value: int) -> None:
        if value < self.low:
            raise ValueError(f"high is below {self.low}")

    def __attrs_post_init__(self) -> None:
        if self.step > self.high:
            raise ValueError("the step is too long")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"low": 10, "high": 11, "step": 0}, ["'low' must be", "'high' must be", "'step' must be"]),
        ({"low": 3, "high": 2, "step": 0}, ["high is below 3", "'step' must be"]),
        # A validator that needs a value that is wrong itself is skipped.
        ({"low": "x", "high": 2, "step": 0}, ["low: expected an integer", "'step' must be"]),
        ({"high": 2, "step": 0}, ["low: is required", "'step' must be"]),
        ({"low": 1, "high": 2, "step": 3}, ["the step is too long"]),
        ({"low": 1, "high": 2, "step": 3, "q": 1}, ["q: is not a parameter", "the step is too"]),
        # 'stp' is what was meant to be the step.
        ({"low": -2, "high": 0, "stp": 1}, ["stp: is not a parameter. Did you mean 'step'?"]),
    ],
)
def test_structure_runs_all_validators(values: dict[str, object], expected: list[str]) -> None:
    found = mistakes_in(Range, values)
    assert len(found) == len(expected)
    assert all(text.startswith(start) for text, start in zip(found, expected, strict=True))


class UnreadableError(ValueError):
    """An error whose message raises."""

    def __str__(self) -> str:
        raise KeyError


@frozen
class Hostile:
    """Raises an error that cannot be shown."""

    def __attrs_post_init__(self) -> None:
        raise UnreadableError


def test_unreadable_error_of_a_config_is_a_mistake() -> None:
    assert mistakes_in(Hostile, {}) == ["(its message cannot be read: KeyError)"]


def test_messages_start_with_source_and_path() -> None:
    with pytest.raises(ConfigError) as caught:
        structure(Config, {"rate": "x" * 10_000, "number": "y"}, "demo.toml", "policies[0]")
    first, second = str(caught.value).splitlines()
    assert first.startswith("demo.toml: policies[0].rate: expected a number, got 'xxx")
    assert len(first) < 200
    assert second == "demo.toml: policies[0].number: expected a number, got 'y'"


SHOWN = """
whole            integer                    1
rate             float                      0.5                    How fast, on two lines.
number           float                      unset
flag             boolean                    false
text             integer | string           "x"
folder           string                     "a"
speed            "fast" | "slow"            "fast"                 One of two.
mode             "auto" | float             "auto"                 One of two.
colour           "red" | "dark-blue"        "red"
weights          array of float             [1.0, 1.0]
arms             array of integer           [0]
many             array of float             []
one_or_many      array of float | float     1.0
names            array of string            []
pair             [integer, string]          [1, "x"]
limits           table of float             {}
free             table of anything          {}
inner            table                      {size = 2, more = []}
inner.size       integer                    1                      How large.
inner.high       float                      unset
inner.more       array of table             []
parts            table of [table, boolean]  {}
parts.*[0].size  integer                    1                      How large.
parts.*[0].high  float                      unset
parts.*[0].more  array of table             []
rows             array of table             []
rows[].size      integer                    1                      How large.
rows[].high      float                      unset
rows[].more      array of table             []
policy           policy (name or table)     unset
planner          planner (name or table)    "certified"
"""


def test_plugins_show_prints_types_and_defaults() -> None:
    arguments = ["show", "--module", str(every_type.__file__), "every"]
    shown = CliRunner(env={"COLUMNS": "120"}).invoke(plugins, arguments)
    _, _, table = shown.stdout.partition("Meaning")
    assert [line.rstrip() for line in table.strip().splitlines()] == SHOWN.strip().splitlines()


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (list[int | str], "array of (integer | string)"),
        (dict[str, tuple[bool, ...]], "table of array of boolean"),
        (NewType("Metres", float), "float"),
        (complex, "complex"),
        (list[Any], "array of anything"),
        (dict, "table of anything"),
    ],
)
def test_type_text_of_hints(hint: object, text: str) -> None:
    assert type_text(parse_hint(hint)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float64(0.5), "0.5"),
        (math.inf, "inf"),
        ('say "x"', r'"say \"x\""'),
        ({"a-b": [True, None], "a b": 1, "left": None}, '{a-b = [true, unset], "a b" = 1}'),
    ],
)
def test_toml_text_of_values(value: object, text: str) -> None:
    assert toml_text(value) == text


@frozen
class Tree:
    """A config that contains itself."""

    planner: PlannerRef = "certified"
    branches: tuple["Tree", ...] = ()
    named: Mapping[str, tuple[PlannerRef, int]] = field(factory=dict)


def test_references_are_found_at_any_depth() -> None:
    table = {"branches": [{"planner": "a"}], "named": {"x": ["b", 1], "y": 3}, "planner": 4}
    config = Tree(planner="c", branches=(Tree(planner="d"),))
    kind = TableType(Tree)
    assert [(ref, path) for _, ref, path in references_in(kind, table, "")] == [
        ("a", "branches[0].planner"),
        ("b", "named.x[0]"),
    ]
    assert [ref for _, ref, _ in references_in(kind, config, "")] == ["c", "d"]
