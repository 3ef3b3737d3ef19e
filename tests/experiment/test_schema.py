"""The JSON Schema of experiment files: it accepts what the parser accepts."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bdes_framework import ConfigError, load_experiment, load_plugins
from bdes_framework.experiment.schema import experiment_schema
from tests.support import every_type

RIGHT: Mapping[str, Any] = {
    "name": "x",
    "seed": 1,
    "horizons": [10],
    "environments": [{"use": "bernoulli", "r": [0.9], "b": [0.1], "lam": 0.3}],
    "policies": [{"use": "every"}],
    "plugins": {"modules": ["every.py"]},
}

DRAWN: dict[str, Any] = {"generator": "uniform", "n": 2}


class Judges:
    def __init__(self, folder: Path) -> None:
        shutil.copy(str(every_type.__file__), folder / "every.py")
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
    yield with_policy(policy={"use": "every", "whole": 2})
    yield with_policy(policy=["every", {"use": "every", "policy": "uniform"}])
    yield with_policy(colour=["red", "dark-blue"], pair=[2, "y"], inner={"size": 1, "high": 2.5})
    yield with_policy(
        limits=[{}, {"a": 1, "b": 0.5}], inner=[{}, {"more": [{"more": [{"size": 3}]}]}]
    )
    arms = {"r": [0.9], "b": [0.1]}
    yield with_environment(
        **arms, lam=[0.1, "1/T"], noise=["none", {"use": "gaussian", "sigma": 1}]
    )
    yield with_environment(arms={"file": "arms.csv"})
    yield with_environment(arms={"generator": "click-bait", "n": [1, 2], "seed": [0], "spread": 1})
    yield with_environment(arms={"generator": ["uniform", "click-bait"], "n": 100_000})
    yield with_environment(arms=DRAWN | {"seed": 7, "instances": 10})
    yield with_environment(arms={"r": [0.9], "b": [0.1], "name": "x"})
    yield with_environment(arms=[{"file": "arms.csv"}, DRAWN, {"r": [0.9], "b": [0.1]}])


WRONG_KEYS: Mapping[str, list[Any]] = {
    "seed": [-1, "1", True],
    "name": ["", " ", "x" * 201],
    "replications": [0],
    "checkpoints": [1, 10_001],
    "horizons": [[], [0], [10**12 + 1], [10, 10], 10, ["10"], [*range(1, 1_002)]],
    "environments": [[]],
    "policies": [[], [{"label": "x"}], ["nobody"], [{"use": "uniform", "arms": DRAWN}]],
    "benchmark": [True],
    "engine": [["serial"], {"use": "serial", "n": 2}],
}
WRONG_PARAMETERS: Mapping[str, list[Any]] = {
    "label": ["", "x" * 201, 3, 0, False, ["a", "b"]],
    "stranger": [1],
    "whole": [[], [1, 1], "many"],
    "number": [[1, 1.0], "__import__", "1" * 201],
    "mode": ["1/T"],  # a string here may be meant as itself: no formula
    "one_or_many": ["x"],
    "many": [1, ["1/T"]],
    "flag": [1, "T"],
    "folder": [1],
    "colour": ["green", "RED", 1, ["red", "red"]],
    "pair": [[1], [1, "x", 2], ["x", 1], 1, [[1, "x"], [2, "y"]]],
    "limits": [1, {"a": "1/T"}, {"a": [1, 2]}, [{"a": 1}, 2]],
    "inner": [{"size": "T"}, {"stranger": 1}, 3, {"more": [1]}],
    "policy": [{"whole": 1}]
    + [{"use": "every"} | inner for inner in ({"whole": "1/T"}, {"whole": [1, 2]})]
    + [{"use": "every"} | inner for inner in ({"label": "x"}, {"stranger": 1})],
}
WRONG_ARMS: list[Any] = [
    *({}, {"n": 2}, {"generator": "uniform"}, {"generator": "unifrom", "n": 2}, "arms.csv"),
    *({"file": "arms.csv"} | other for other in ({"generator": "uniform"}, {"n": 0})),
    *(DRAWN | {"n": n} for n in (0, 100_001, "2*K")),
    DRAWN | {"n": []},
    *(DRAWN | {"seed": seed} for seed in (-1, "T")),
    *(DRAWN | {"instances": n} for n in (0, 10_001, [2, 3])),
    *([], [DRAWN, "arms.csv"], [DRAWN | {"seed": [1, 2]}], {"r": [0.9]}),
    *(DRAWN | other for other in ({"file": "arms.csv"}, {"spread": 1.5}, {"stranger": 1})),
]


def wrong() -> Iterator[dict[str, Any]]:
    for key in ("name", "seed", "horizons", "environments", "policies"):
        yield {name: value for name, value in RIGHT.items() if name != key}
    for key, values in WRONG_KEYS.items():
        yield from ({**RIGHT, key: value} for value in values)
    for name, values in WRONG_PARAMETERS.items():
        yield from (with_policy(**{name: value}) for value in values)
    yield from (with_environment(arms=arms) for arms in WRONG_ARMS)
    for without in ({}, {"r": [0.9]}, {"arms": DRAWN, "r": [0.9], "b": [0.1]}):
        yield with_environment(**without)
    yield with_environment(arms=DRAWN, b=[0.1])


def changes(document: Mapping[str, Any]) -> str:
    return json.dumps({k: v for k, v in document.items() if RIGHT.get(k) != v})[:80]


@pytest.mark.parametrize("document", list(right()), ids=changes)
def test_schema_and_parser_accept(judges: Judges, document: dict[str, Any]) -> None:
    assert judges.verdicts(document) == (True, True)


@pytest.mark.parametrize("document", list(wrong()), ids=changes)
def test_schema_and_parser_reject(judges: Judges, document: dict[str, Any]) -> None:
    assert judges.verdicts(document) == (False, False)


VALUES = (
    st.sampled_from([-1, 0, 1, 2, 0.5, 10**13, True, False])
    | st.sampled_from(["", "x", "auto", "1/T", "K", "every", "red", "a/b"])
    | st.sampled_from([[], [1], [1, 2], [0.5, "1/T"], ["a", "b"], [[1]], [1, "x"]])
    | st.sampled_from([{}, {"use": "every"}, {"use": "x"}, {"use": "every", "whole": 3}])
    | st.sampled_from([{"a": 0.5}, {"size": 1}])
)
TOP = "seed replications checkpoints horizons reveal_lam engine"
OWN = (
    "label whole number mode text many one_or_many flag policy colour pair limits inner folder free"
)


def tables(keys: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(keys.split()), VALUES, max_size=2)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(top=tables(TOP), own=tables(OWN))
def test_schema_and_parser_agree(judges: Judges, top: dict[str, Any], own: dict[str, Any]) -> None:
    document = {**with_policy(**own), **top}
    by_schema, by_parser = judges.verdicts(document)
    assert by_schema == by_parser
