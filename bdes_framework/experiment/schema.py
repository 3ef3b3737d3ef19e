"""JSON Schema of experiment files, made from the config classes of loaded plugins."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from attrs import AttrsInstance

from bdes_framework._internal.seeding import N_SEEDS
from bdes_framework.experiment.arms import MAX_EXPERIMENT_ARMS, MAX_INSTANCES, ArmsConfig
from bdes_framework.experiment.config import (
    MAX_CHECKPOINTS,
    MAX_HORIZON,
    MAX_HORIZONS,
    MAX_LABEL_LENGTH,
    MAX_TIMEOUT,
    MIN_VALUES,
    ExperimentConfig,
)
from bdes_framework.experiment.formulas import MAX_FORMULA_LENGTH
from bdes_framework.experiment.grid import takes_arms, takes_list, wants_number
from bdes_framework.interfaces import Kind
from bdes_framework.plugin import config_types as ct
from bdes_framework.plugin.parameters import parameters_of
from bdes_framework.plugin.plugins import Plugins
from bdes_framework.plugin.registry import COUNTERPARTS, Entry

Schema = dict[str, Any]

_SCALARS: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    Path: "string",
    type(None): "null",
}
_FORMULA: Schema = {
    "type": "string",
    "maxLength": MAX_FORMULA_LENGTH,
    "pattern": r"^\s*(?:[-+*/^().\s\d_eETK]|exp|log|sqrt)+$",
    "description": "a formula in T and K",
}
_LABEL: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_LABEL_LENGTH}
_LIMITS: Mapping[str, Schema] = {
    **{key: {"minimum": least} for key, least in MIN_VALUES.items()},
    "seed": {"minimum": MIN_VALUES["seed"], "maximum": N_SEEDS - 1},
    "name": {"maxLength": MAX_LABEL_LENGTH, "pattern": r"\S"},
    "checkpoints": {"minimum": MIN_VALUES["checkpoints"], "maximum": MAX_CHECKPOINTS},
    "timeout": {"exclusiveMinimum": 0, "maximum": MAX_TIMEOUT},
    "horizons": {
        "items": {"type": "integer", "minimum": 1, "maximum": MAX_HORIZON},
        "minItems": 1,
        "maxItems": MAX_HORIZONS,
        "uniqueItems": True,
    },
    "environments": {"items": {"$ref": "#/$defs/environments"}, "minItems": 1},
    "policies": {"items": {"$ref": "#/$defs/policies"}, "minItems": 1},
}
_NO_GRID = ("instances", "r", "b")
"""What may not have several values in a table of arms."""

_ARMS_LIMITS: Mapping[str, Schema] = {
    "n": {"minimum": 1, "maximum": MAX_EXPERIMENT_ARMS},
    "seed": {"minimum": 0, "maximum": N_SEEDS - 1},
    "instances": {"minimum": 1, "maximum": MAX_INSTANCES},
    "spread": {"minimum": 0, "maximum": 1},
}


def experiment_schema(plugins: Plugins) -> Schema:
    """Return the schema of an experiment file: names, types and the file's own limits.

    A reference to a plugin becomes a choice among what is registered. The validators of
    plugins are not part of it; ``bdes check`` runs them.
    """
    schema = _table(ExperimentConfig)
    for key, limits in _LIMITS.items():
        schema["properties"][key] |= limits
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "bdes-framework experiment",
        **schema,
        "$defs": {
            **{kind.value: _choice(plugins.entries(kind), _nested) for kind in Kind},
            "environments": _choice(_in_file(plugins, Kind.ENVIRONMENT), _listed),
            "policies": _choice(_in_file(plugins, Kind.POLICY), _listed),
        },
    }


def _in_file(plugins: Plugins, kind: Kind) -> tuple[Entry, ...]:
    """Return what a file may name in a place: of one audience, or of many users."""
    return (*plugins.entries(kind), *plugins.entries(COUNTERPARTS[kind]))


def _choice(entries: Sequence[Entry], schema_of: Callable[[Entry], Schema]) -> Schema:
    names: Schema = {"enum": [entry.name for entry in entries]}
    return {"anyOf": [names, *map(schema_of, entries)]}


def _nested(
    entry: Entry, schema_of: Callable[[ct.ConfigType], Schema] | None = None, **label: Schema
) -> Schema:
    """Return the schema of a plugin's table, by default inside another one: plain values only."""
    table = _table(entry.config, schema_of)
    use: Schema = {"use": {"const": entry.name, "description": entry.summary}}
    return table | {
        "properties": use | label | table["properties"],
        "required": ["use", *table["required"]],
    }


def _listed(entry: Entry) -> Schema:
    """Return the schema of an environment or policy: with label, grids, formulas and arms."""
    table = _nested(entry, _or_grid, label=_LABEL)
    is_environment = entry.kind in (Kind.ENVIRONMENT, Kind.CROWD_ENVIRONMENT)
    if not is_environment or not takes_arms(entry.config):
        return table
    required = table["required"]
    arms, rate = sorted({"r", "b"} & set(required)), sorted({"lam"} & set(required))
    none: Schema = {"r": False, "b": False}
    of_file: Schema = {"type": "object", "required": ["file"]}
    with_file: Schema = {"anyOf": [of_file, {"type": "array", "contains": of_file}]}
    return table | {
        "properties": table["properties"] | {"arms": _arms()},
        "required": [name for name in required if name not in (*arms, *rate)],
        "oneOf": [
            # A file may bring lam with the arms; nothing else can.
            {"required": ["arms"], "properties": none | {"arms": with_file}},
            {"required": ["arms", *rate], "properties": none | {"arms": {"not": with_file}}},
            {"required": [*arms, *rate], "properties": {"arms": False}},
        ],
    }


def _arms() -> Schema:
    """Return the schema of ``arms``: a table in which values may be grids, or a list of tables."""
    table = _table(ArmsConfig)
    for name, limits in _ARMS_LIMITS.items():
        table["properties"][name] |= limits
    sources: Schema = {
        "oneOf": [
            {"required": ["file"], "properties": {"generator": False, "r": False, "b": False}},
            {"required": ["generator", "n"], "properties": {"file": False, "r": False, "b": False}},
            {"required": ["r", "b"], "properties": {"file": False, "generator": False}},
        ],
    }
    grids = {
        name: one if name in _NO_GRID else _or_list([one])
        for name, one in table["properties"].items()
    }
    listed: Schema = {"type": "array", "items": table | sources, "minItems": 1}
    return {"anyOf": [table | {"properties": grids} | sources, listed]}


def _table(
    config: type[AttrsInstance],
    schema_of: Callable[[ct.ConfigType], Schema] | None = None,
    around: tuple[type[AttrsInstance], ...] = (),
) -> Schema:
    meanings = {parameter.name: parameter.meaning for parameter in parameters_of(config)}
    properties = {
        name: (schema_of(kind) if schema_of else _type(kind, (*around, config)))
        | ({"description": meanings[name]} if meanings[name] else {})
        for name, kind in ct.field_types(config).items()
    }
    required = [a.name for a in attrs.fields(config) if a.init and a.default is attrs.NOTHING]
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "required": required,
    }


def _or_grid(kind: ct.ConfigType) -> Schema:
    """Return the schema of a value, a formula for it, or a grid of values."""
    if takes_list(kind):
        return _type(kind)
    return _or_list([_type(kind), *([_FORMULA] if wants_number(kind) else [])])


def _or_list(one: list[Schema]) -> Schema:
    values: Schema = {"type": "array", "items": {"anyOf": one}, "minItems": 1, "uniqueItems": True}
    return {"anyOf": [*one, values]}


def _type(kind: ct.ConfigType, around: tuple[type[AttrsInstance], ...] = ()) -> Schema:
    """Return the schema of one value, without grids and formulas, inside these classes."""
    match kind:
        case ct.ScalarType(python):
            return {"type": _SCALARS[python]}
        case ct.ReferenceType(referred):
            return {"$ref": f"#/$defs/{referred.value}"}
        case ct.UnionType(members):
            return {
                "anyOf": [_type(member, around) for member in members if not ct.is_none(member)]
            }
        case ct.ChoiceType(written):
            return {"enum": list(written)}
        case ct.ArrayType() | ct.ListType():
            return {"type": "array", "items": _type(kind.item, around)}
        case ct.FixedTupleType(items):
            n, schemas = len(items), [_type(item, around) for item in items]
            return {"type": "array", "prefixItems": schemas, "minItems": n, "maxItems": n}
        case ct.MappingType(value):
            return {"type": "object", "additionalProperties": _type(value, around)}
        case ct.TableType(config):
            # A class that contains itself is spelled out once.
            return {"type": "object"} if config in around else _table(config, around=around)
        case ct.InstanceType():
            return {}
