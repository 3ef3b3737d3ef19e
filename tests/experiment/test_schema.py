"""The JSON Schema: it and the parser agree on what is a right file."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bdes_framework import ConfigError, load_experiment, load_plugins
from bdes_framework.experiment.schema import experiment_schema

PLUGIN = """
from enum import Enum
from typing import Literal
from attrs import Factory, frozen
from bdes_framework import PolicyRef, hookimpl

BDES_API_VERSION = 1

class Colour(Enum):
    RED = "red"
    BLUE = "blue"

@frozen
class Limits:
    low: float = 0.0
    high: float | None = None

@frozen
class Config:
    '''A policy with every kind of parameter.'''
    whole: int = 1
    number: float | None = None
    mode: float | Literal["auto"] = "auto"
    text: str | int = "x"
    many: tuple[float, ...] = ()
    one_or_many: float | list[float] = 1.0
    flag: bool = False
    inner: PolicyRef | None = None
    colour: Colour = Colour.RED
    pair: tuple[int, str] = (1, "x")
    weights: dict[str, float] = Factory(dict)
    limits: Limits = Limits()

@hookimpl
def bdes_register(registrar):
    registrar.policy("every", Config, lambda config, context: None)
"""

RIGHT: Mapping[str, Any] = {
    "name": "x",
    "seed": 1,
    "horizons": [10],
    "environments": [{"use": "bernoulli", "r": [0.9], "b": [0.1], "lam": 0.3}],
    "policies": [{"use": "every"}],
    "plugins": {"modules": ["every.py"]},
}


class Judges:
    """The schema and the parser, asked about one document."""

    def __init__(self, folder: Path) -> None:
        (folder / "every.py").write_text(PLUGIN)
        (folder / "arms.csv").write_text("r,b\n0.9,0.1\n")
        self.file = folder / "x.toml"
        plugins = load_plugins(modules=[str(folder / "every.py")])
        # Through JSON and back: what an editor reads.
        schema = json.loads(json.dumps(experiment_schema(plugins)))
        jsonschema.Draft202012Validator.check_schema(schema)
        self.schema = jsonschema.Draft202012Validator(schema)

    def verdicts(self, document: Mapping[str, Any]) -> tuple[bool, bool]:
        self.file.write_text("".join(f"{key} = {toml(v)}\n" for key, v in document.items()))
        try:
            load_experiment(self.file)
        except ConfigError:
            parses = False
        else:
            parses = True
        return self.schema.is_valid(document), parses


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Judges:
    return Judges(tmp_path_factory.mktemp("schema"))


def with_policy(**parameters: object) -> dict[str, Any]:
    return {**RIGHT, "policies": [{"use": "every", **parameters}]}


def with_environment(**parameters: object) -> dict[str, Any]:
    return {**RIGHT, "environments": [{"use": "bernoulli", "lam": 0.3, **parameters}]}


def right() -> Iterator[dict[str, Any]]:
    yield dict(RIGHT)
    yield {**RIGHT, "seed": 0, "checkpoints": 2, "replications": 1}
    yield {**RIGHT, "checkpoints": 10_000, "horizons": [1, 10**12]}
    yield {**RIGHT, "name": "x" * 200}
    yield {**RIGHT, "policies": ["every"]}
    yield {**RIGHT, "benchmark": False}
    yield {**RIGHT, "benchmark": {"use": "certified", "gap": 1e-5}, "engine": "serial"}
    yield with_policy(label="x" * 200)
    yield with_policy(whole=["2*K", 3], number=["1/T", "1-1/sqrt(T)"], mode=["auto", 0.5])
    yield with_policy(text=["a", 1], many=[1, 2], one_or_many=[1.0, 2.0], flag=[True, False])
    yield with_policy(inner={"use": "every", "whole": 2})
    yield with_policy(inner=["every", {"use": "every", "inner": "uniform"}])
    yield with_policy(colour=["red", "blue"], pair=[2, "y"], limits={"low": 1, "high": 2.5})
    yield with_policy(weights=[{}, {"a": 1, "b": 0.5}], limits=[{}, {"low": 1}])
    arms = {"r": [0.9], "b": [0.1]}
    yield with_environment(
        **arms, lam=[0.1, "1/T"], noise=["none", {"use": "gaussian", "sigma": 1}]
    )
    yield with_environment(arms={"file": "arms.csv"})
    yield with_environment(arms={"generator": "click-bait", "n": [1, 2], "seed": [0], "spread": 1})
    yield with_environment(arms={"generator": ["uniform", "click-bait"], "n": 100_000})


def wrong() -> Iterator[dict[str, Any]]:
    for key in ("name", "seed", "horizons", "environments", "policies"):
        yield {name: value for name, value in RIGHT.items() if name != key}
    yield {**RIGHT, "seed": -1}
    yield {**RIGHT, "seed": "1"}
    yield {**RIGHT, "seed": True}
    yield {**RIGHT, "name": ""}
    yield {**RIGHT, "name": " "}
    yield {**RIGHT, "name": "x" * 201}
    yield {**RIGHT, "replications": 0}
    yield {**RIGHT, "checkpoints": 1}
    yield {**RIGHT, "checkpoints": 10_001}
    for horizons in ([], [0], [10**12 + 1], [10, 10], 10, ["10"]):
        yield {**RIGHT, "horizons": horizons}
    yield {**RIGHT, "environments": []}
    yield {**RIGHT, "policies": []}
    yield {**RIGHT, "policies": [{"label": "x"}]}
    yield {**RIGHT, "policies": ["nobody"]}
    yield {**RIGHT, "benchmark": True}
    yield {**RIGHT, "engine": ["serial"]}
    yield {**RIGHT, "engine": {"use": "serial", "n": 2}}
    for label in ("", "x" * 201, 3, 0, False, ["a", "b"]):
        yield with_policy(label=label)
    yield with_policy(stranger=1)
    yield with_policy(whole=[])
    yield with_policy(whole=[1, 1])
    yield with_policy(number=[1, 1.0])
    yield with_policy(whole="many")
    yield with_policy(number="__import__")
    yield with_policy(number="1" * 201)
    yield with_policy(mode="1/T")  # a string here may be meant as itself: no formula
    yield with_policy(one_or_many="x")
    yield with_policy(many=1)
    yield with_policy(many=["1/T"])
    yield with_policy(flag=1)
    yield with_policy(flag="T")
    for colour in ("green", "RED", 1, ["red", "red"]):
        yield with_policy(colour=colour)
    for pair in ([1], [1, "x", 2], ["x", 1], 1, [[1, "x"], [2, "y"]]):
        yield with_policy(pair=pair)
    for weights in (1, {"a": "1/T"}, {"a": [1, 2]}, [{"a": 1}, 2]):
        yield with_policy(weights=weights)
    for limits in ({"low": "T"}, {"stranger": 1}, 3):
        yield with_policy(limits=limits)
    for inner in ({"whole": "1/T"}, {"whole": [1, 2]}, {"label": "x"}, {"stranger": 1}):
        yield with_policy(inner={"use": "every", **inner})
    yield with_policy(inner={"whole": 1})
    yield with_environment()
    yield with_environment(r=[0.9])
    drawn = {"generator": "uniform", "n": 2}
    yield with_environment(arms=drawn, r=[0.9], b=[0.1])
    yield with_environment(arms=drawn, b=[0.1])
    for arms in (
        {}, {"n": 2}, {"generator": "uniform"}, {"generator": "unifrom", "n": 2},
        {"file": "arms.csv", "generator": "uniform"}, {"file": "arms.csv", "n": 0},
        drawn | {"file": "arms.csv"}, drawn | {"n": 0}, drawn | {"n": 100_001},
        drawn | {"n": "2*K"}, drawn | {"n": []}, drawn | {"seed": -1}, drawn | {"spread": 1.5},
        drawn | {"seed": "T"}, drawn | {"stranger": 1}, "arms.csv",
    ):  # fmt: skip
        yield with_environment(arms=arms)
    yield {**RIGHT, "policies": [{"use": "uniform", "arms": drawn}]}


def shortly(document: Mapping[str, Any]) -> str:
    """Name a document by what tells it from the right one."""
    return json.dumps({k: v for k, v in document.items() if RIGHT.get(k) != v})[:80]


@pytest.mark.parametrize("document", list(right()), ids=shortly)
def test_both_take_what_is_right(judges: Judges, document: dict[str, Any]) -> None:
    assert judges.verdicts(document) == (True, True)


@pytest.mark.parametrize("document", list(wrong()), ids=shortly)
def test_both_refuse_what_is_wrong(judges: Judges, document: dict[str, Any]) -> None:
    assert judges.verdicts(document) == (False, False)


VALUES = st.sampled_from(
    [-1, 0, 1, 2, 0.5, 10**13, True, False, "", "x", "auto", "1/T", "K", "every", [], [1], [1, 2],
     [0.5, "1/T"], ["a", "b"], [[1]], {}, {"use": "every"}, {"use": "x"},
     {"use": "every", "whole": 3}, "red", [1, "x"], {"a": 0.5}, {"low": 1}]
)  # fmt: skip


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    top=st.dictionaries(
        st.sampled_from(
            ["seed", "replications", "checkpoints", "horizons", "reveal_lam", "engine"]
        ),
        VALUES,
        max_size=2,
    ),
    own=st.dictionaries(
        st.sampled_from(
            [
                "label",
                "whole",
                "number",
                "mode",
                "text",
                "many",
                "one_or_many",
                "flag",
                "inner",
                "colour",
                "pair",
                "weights",
                "limits",
            ]
        ),
        VALUES,
        max_size=2,
    ),
)
def test_both_say_the_same_of_anything(
    judges: Judges, top: dict[str, Any], own: dict[str, Any]
) -> None:
    document = {**with_policy(**own), **top}
    by_schema, by_parser = judges.verdicts(document)
    assert by_schema == by_parser
