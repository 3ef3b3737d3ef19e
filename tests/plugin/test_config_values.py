"""From plain values to configs: strict types, every mistake found, nothing coerced."""

import math
import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Literal, NewType

import numpy as np
import pytest
from attrs import field, frozen, validators
from click.testing import CliRunner

from bdes_framework import (
    ConfigError,
    FloatArray,
    IntArray,
    Parameter,
    PlannerRef,
    parameters_of,
)
from bdes_framework.cli.plugins import plugins
from bdes_framework.plugin.config_types import TableType, parse_hint, toml_text, type_text
from bdes_framework.plugin.config_values import references_in, structure


class Colour(Enum):
    RED = "red"
    DARK_BLUE = "dark-blue"


@frozen
class Inner:
    """A part.

    Parameters
    ----------
    size : int
        How large.
    """

    size: int = field(default=1, validator=validators.gt(0))


@frozen
class Sample:
    """Everything a config may hold. And a second sentence.

    Parameters
    ----------
    rate : float
        How fast,
        on two lines.
    mode, other : str
        One of two.
    """

    rate: float
    mode: Literal["fast", "slow"] = "fast"
    other: str = ""
    count: int | None = None
    flag: bool = False
    either: int | str = 0
    weights: FloatArray = field(factory=lambda: np.ones(2), eq=False)
    arms: IntArray = field(factory=lambda: np.zeros(1, dtype=np.int64), eq=False)
    names: tuple[str, ...] = ()
    numbers: list[float] = field(factory=list)
    inner: Inner = field(factory=Inner)
    planner: PlannerRef = "certified"
    colour: Colour = Colour.RED
    pair: tuple[int, str] = (1, "x")
    limits: Mapping[str, float] = field(factory=dict)
    parts: dict[str, Inner] = field(factory=dict)
    free: Mapping[str, Any] = field(factory=dict)
    rows: list[Inner | None] = field(factory=list)
    folder: Path = Path()


def mistakes_in(**values: object) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        structure(Sample, values)
    return [str(mistake) for mistake in caught.value.mistakes]


def test_good_values_are_taken_as_they_are() -> None:
    sample = structure(
        Sample,
        {
            "rate": 1,
            "mode": "slow",
            "count": 3,
            "either": "x",
            "weights": [1, 2.5],
            "arms": [0, 1],
            "names": ["a"],
            "numbers": [1, 2],
            "inner": {"size": 2},
            "planner": {"use": "exact", "memory": 3},
            "colour": "dark-blue",
            "pair": [2, "y"],
            "limits": {"a": 1},
            "parts": {"left": {"size": 3}},
            "free": {"x": [1]},
            "rows": [{"size": 4}],
            "folder": "a/b",
        },
    )
    assert (sample.rate, sample.mode, sample.count, sample.either) == (1.0, "slow", 3, "x")
    assert isinstance(sample.rate, float)
    assert sample.weights.dtype == np.float64
    assert sample.weights.tolist() == [1.0, 2.5]
    assert sample.arms.dtype == np.int64
    assert (sample.names, sample.numbers, sample.inner) == (("a",), [1.0, 2.0], Inner(2))
    assert sample.planner == {"use": "exact", "memory": 3}
    assert (sample.colour, sample.pair) == (Colour.DARK_BLUE, (2, "y"))
    assert (sample.limits, sample.parts) == ({"a": 1.0}, {"left": Inner(3)})
    assert sample.free == {"x": [1]}
    assert (sample.rows, sample.folder) == ([Inner(4)], Path("a/b"))
    assert structure(Sample, {"rate": 1, "colour": Colour.RED}).colour is Colour.RED


def test_a_huge_integer_is_a_number_where_numbers_are_wanted() -> None:
    assert structure(Sample, {"rate": 10**30, "weights": [10**30, 1]}).weights.tolist() == [1e30, 1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "rate: is required but missing"),
        ({"rate": "1"}, "rate: expected a number, got '1'"),
        ({"rate": True}, "rate: expected a number, got True"),
        ({"rate": math.nan}, "rate: expected a number, got NaN"),
        ({"rate": 1, "count": 1.0}, "count: expected an integer, got 1.0"),
        ({"rate": 1, "count": True}, "count: expected an integer, got True"),
        ({"rate": 1, "flag": 1}, "flag: expected true or false, got 1"),
        ({"rate": 1, "mode": "fst"}, "one of \"fast\", \"slow\", got 'fst'. Did you mean 'fast'?"),
        ({"rate": 1, "either": 1.5}, "expected an integer, got 1.5; or expected a string"),
        ({"rate": 1, "weights": "12"}, "weights: expected a list of numbers, got '12'"),
        ({"rate": 1, "weights": [[1], [1, 2]]}, "weights: expected a list of numbers"),
        ({"rate": 1, "weights": [True]}, "weights: expected a list of numbers"),
        ({"rate": 1, "weights": [True, 0.5]}, "weights: expected a list of numbers"),
        ({"rate": 1, "weights": [[0.5], [True]]}, "weights: expected a list of numbers"),
        ({"rate": 1, "weights": np.array([True])}, "weights: expected a list of numbers"),
        ({"rate": 1, "weights": [None]}, "weights: expected a list of numbers, got [None]"),
        ({"rate": 1, "weights": [10**400]}, "weights: expected smaller numbers, got [100"),
        ({"rate": 10**400}, "rate: expected a smaller number, got 100"),
        ({"rate": 1, "arms": [False, 1]}, "arms: expected a list of integers, got [False, 1]"),
        ({"rate": 1, "arms": [10**30]}, "arms: expected smaller integers, got [100"),
        ({"rate": 1, "arms": [2**63]}, "arms: expected smaller integers, got [922"),
        ({"rate": 1, "arms": [0.5]}, "arms: expected a list of integers, got [0.5]"),
        ({"rate": 1, "names": "ab"}, "names: expected a list, got 'ab'"),
        ({"rate": 1, "numbers": [1, "x"]}, "numbers[1]: expected a number, got 'x'"),
        ({"rate": 1, "inner": 3}, "inner: expected a table, got 3"),
        ({"rate": 1, "inner": {"size": "x"}}, "inner.size: expected an integer, got 'x'"),
        ({"rate": 1, "inner": {"sze": 1}}, "inner.sze: is not a parameter. Did you mean 'size'?"),
        ({"rate": 1, "inner": {"size": 0}}, "size"),
        ({"rate": 1, "planner": 3}, "planner: expected the name of a planner or a table"),
        ({"rate": 1, "planner": {"name": "x"}}, "planner: expected the name of a planner"),
        ({"rate": 1, "colour": "RED"}, 'colour: expected one of "red", "dark-blue", got \'RED\''),
        ({"rate": 1, "colour": "blue"}, "Did you mean 'dark-blue'?"),
        ({"rate": 1, "pair": [1]}, "pair: expected a list of 2 values, got [1]"),
        ({"rate": 1, "pair": 1}, "pair: expected a list, got 1"),
        ({"rate": 1, "pair": ["x", "y"]}, "pair[0]: expected an integer, got 'x'"),
        ({"rate": 1, "limits": [1]}, "limits: expected a table, got [1]"),
        ({"rate": 1, "limits": {"a": "x"}}, "limits.a: expected a number, got 'x'"),
        ({"rate": 1, "limits": {"a b": "x"}}, "limits.'a b': expected a number, got 'x'"),
        ({"rate": 1, "parts": {"a": {"sze": 1}}}, "parts.a.sze: is not a parameter."),
        ({"rate": 1, "rows": [{"size": "x"}]}, "rows[0]: size: expected an integer"),
        ({"rate": 1, "rte": 1}, "rte: is not a parameter. Did you mean 'rate'? Allowed: "),
        ({"rate": 1, "a\nb": 1}, r"'a\nb': is not a parameter."),
    ],
)
def test_bad_values_are_refused_with_their_place(values: dict[str, object], message: str) -> None:
    assert message in "\n".join(mistakes_in(**values))


def test_all_mistakes_are_reported_at_once() -> None:
    found = mistakes_in(rate="x", count="y", inner={"size": "z"}, unknown=1)
    assert [text.split(":")[0] for text in found] == ["rate", "count", "inner.size", "unknown"]


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
        # What needs a value that is wrong itself has nothing to say.
        ({"low": "x", "high": 2, "step": 0}, ["low: expected an integer", "'step' must be"]),
        ({"high": 2, "step": 0}, ["low: is required", "'step' must be"]),
        ({"low": 1, "high": 2, "step": 3}, ["the step is too long"]),
        ({"low": 1, "high": 2, "step": 3, "q": 1}, ["q: is not a parameter", "the step is too"]),
        # 'stp' is what was meant to be the step.
        ({"low": -2, "high": 0, "stp": 1}, ["stp: is not a parameter. Did you mean 'step'?"]),
    ],
)
def test_every_field_s_validator_is_asked(values: dict[str, object], expected: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        structure(Range, values)
    found = [str(mistake) for mistake in caught.value.mistakes]
    assert len(found) == len(expected)
    assert all(text.startswith(start) for text, start in zip(found, expected, strict=True))


def test_the_source_and_path_lead_every_line() -> None:
    with pytest.raises(ConfigError) as caught:
        structure(Sample, {"rate": "x", "count": "y"}, "demo.toml", "policies[0]")
    assert str(caught.value).splitlines() == [
        "demo.toml: policies[0].rate: expected a number, got 'x'",
        "demo.toml: policies[0].count: expected an integer, got 'y'",
    ]


def test_a_very_long_value_is_cut_short() -> None:
    (message,) = mistakes_in(rate="x" * 10_000)
    assert len(message) < 200


def test_parameters_are_described_from_fields_and_docstring() -> None:
    found = {p.name: p for p in parameters_of(Sample)}
    assert found["rate"].default is None
    assert found["rate"].meaning == "How fast, on two lines."
    assert found["mode"].meaning == found["other"].meaning == "One of two."
    assert found["flag"].meaning == ""
    types = {name: p.type for name, p in found.items()}
    defaults = {name: p.default for name, p in found.items()}
    assert (types["count"], defaults["count"]) == ("integer", "unset")
    assert (types["mode"], defaults["mode"]) == ('"fast" | "slow"', '"fast"')
    assert (types["flag"], defaults["flag"]) == ("boolean", "false")
    assert (types["weights"], defaults["weights"]) == ("array of float", "[1.0, 1.0]")
    assert types["arms"] == "array of integer"
    assert types["names"] == "array of string"
    assert (types["planner"], defaults["planner"]) == ("planner (name or table)", '"certified"')
    assert (types["colour"], defaults["colour"]) == ('"red" | "dark-blue"', '"red"')
    assert (types["pair"], defaults["pair"]) == ("[integer, string]", '[1, "x"]')
    assert (types["limits"], defaults["limits"]) == ("table of float", "{}")
    assert (types["inner"], defaults["inner"]) == ("table", "{size = 1}")
    for nested in ("inner.size", "parts.*.size", "rows[].size"):
        assert found[nested] == Parameter(nested, "integer", "1", "How large.")


PLUGIN = '''
from collections.abc import Mapping
from enum import Enum
from typing import Literal
from attrs import Factory, frozen
from bdes_framework import PolicyRef, hookimpl

BDES_API_VERSION = 1

class Colour(Enum):
    RED = "red"
    BLUE = "blue"

@frozen
class Span:
    """A span.

    Parameters
    ----------
    low, high : float
        An end.
    """
    low: float
    high: float | None = None

@frozen
class Config:
    """A policy with nested tables.

    Parameters
    ----------
    span : Span
        Where.
    """
    span: Span = Span(0.5)
    spans: Mapping[str, tuple[Span, Literal["a", 1]]] = Factory(dict)
    colour: Colour = Colour.BLUE
    inner: PolicyRef | None = None

@hookimpl
def bdes_register(registrar):
    registrar.policy("nested", Config, lambda config, context: None)
'''


def test_plugins_show_lists_nested_fields(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    shown = CliRunner().invoke(plugins, ["show", "--module", str(tmp_path / "mine.py"), "nested"])
    _, _, table = shown.stdout.partition("Meaning\n")
    assert [re.split("  +", line.strip()) for line in table.splitlines()] == [
        ["span", "table", "{low = 0.5}", "Where."],
        ["span.low", "float", "required", "An end."],
        ["span.high", "float", "unset", "An end."],
        ["spans", 'table of [table, "a" | 1]', "{}"],
        ["spans.*[0].low", "float", "required", "An end."],
        ["spans.*[0].high", "float", "unset", "An end."],
        ["colour", '"red" | "blue"', '"blue"'],
        ["inner", "policy (name or table)", "unset"],
    ]


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (list[int | str], "array of (integer | string)"),
        (dict[str, tuple[bool, ...]], "table of array of boolean"),
        (NewType("Metres", float), "float"),
        (Path, "string"),
        (complex, "complex"),
        (object, "anything"),
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
        (Path("a/b"), '"a/b"'),
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


def test_parameters_list_a_recursive_class_once() -> None:
    assert [p.name for p in parameters_of(Tree)] == ["planner", "branches", "named"]


def test_references_are_found_at_any_depth() -> None:
    table = {"branches": [{"planner": "a"}], "named": {"x": ["b", 1], "y": 3}, "planner": 4}
    config = Tree(planner="c", branches=(Tree(planner="d"),))
    kind = TableType(Tree)
    assert [(ref, path) for _, ref, path in references_in(kind, table, "")] == [
        ("a", "branches[0].planner"),
        ("b", "named.x[0]"),
    ]
    assert [ref for _, ref, _ in references_in(kind, config, "")] == ["c", "d"]
