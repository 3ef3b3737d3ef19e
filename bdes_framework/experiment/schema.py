"""A JSON Schema of the experiment file, built from the plugins that are loaded."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

import attrs
import numpy as np
from attrs import AttrsInstance

from bdes_framework.experiment.arms import MOST_ARMS, ArmsConfig
from bdes_framework.experiment.file import (
    LEAST,
    LONGEST_HORIZON,
    LONGEST_LABEL,
    MOST_CHECKPOINTS,
    ExperimentConfig,
)
from bdes_framework.experiment.formulas import LONGEST
from bdes_framework.experiment.grid import takes_arms, takes_list, wants_number
from bdes_framework.interfaces import Kind
from bdes_framework.plugin.config_values import is_reference, is_union, reference_kind
from bdes_framework.plugin.parameters import parameters_of
from bdes_framework.plugin.plugins import Plugins
from bdes_framework.plugin.registry import Entry

Schema = dict[str, Any]

_SCALARS: Mapping[object, Schema] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
}


_FORMULA: Schema = {
    "type": "string",
    "maxLength": LONGEST,
    "pattern": r"^\s*(?:[-+*/^().\s\d_eETK]|exp|log|sqrt)+$",
    "description": "a formula in T and K",
}
_LABEL: Schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_LABEL}
_LIMITS: Mapping[str, Schema] = {
    **{key: {"minimum": least} for key, least in LEAST.items()},
    "name": {"maxLength": LONGEST_LABEL, "pattern": r"\S"},
    "checkpoints": {"minimum": LEAST["checkpoints"], "maximum": MOST_CHECKPOINTS},
    "horizons": {
        "items": {"type": "integer", "minimum": 1, "maximum": LONGEST_HORIZON},
        "minItems": 1,
        "uniqueItems": True,
    },
    "environments": {"items": {"$ref": "#/$defs/environments"}, "minItems": 1},
    "policies": {"items": {"$ref": "#/$defs/policies"}, "minItems": 1},
}
_ARMS_LIMITS: Mapping[str, Schema] = {
    "n": {"minimum": 1, "maximum": MOST_ARMS},
    "seed": {"minimum": 0},
    "spread": {"minimum": 0, "maximum": 1},
}


def experiment_schema(plugins: Plugins) -> Schema:
    """Return the schema; a reference to a plugin becomes a choice among what is registered.

    It knows names, types and the file's own limits. What a plugin's own code demands of a
    value, only the plugin knows; ``bdes check`` asks it.
    """
    schema = _table(ExperimentConfig)
    for key, limits in _LIMITS.items():
        schema["properties"][key] |= limits
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "bdes-framework experiment",
        **schema,
        "$defs": {
            **{kind.value: _choice(plugins, kind, _nested) for kind in Kind},
            "environments": _choice(plugins, Kind.ENVIRONMENT, _listed),
            "policies": _choice(plugins, Kind.POLICY, _listed),
        },
    }


def _choice(plugins: Plugins, kind: Kind, described: Callable[[Entry], Schema]) -> Schema:
    entries = plugins.entries(kind)
    names: Schema = {"enum": [entry.name for entry in entries]}
    return {"anyOf": [names, *map(described, entries)]}


def _nested(entry: Entry) -> Schema:
    """Describe a table that stands for a plugin inside another table: plain values only."""
    table = _table(entry.config)
    return table | {
        "properties": _use(entry) | table["properties"],
        "required": ["use", *table["required"]],
    }


def _listed(entry: Entry) -> Schema:
    """Describe an environment or a policy of the file: labels, grids, formulas and arms too."""
    table = _table(entry.config, _or_grid)
    properties = _use(entry) | {"label": _LABEL} | table["properties"]
    required = ["use", *table["required"]]
    if entry.kind is not Kind.ENVIRONMENT or not takes_arms(entry.config):
        return table | {"properties": properties, "required": required}
    arms = sorted({"r", "b"} & set(required))
    rate = sorted({"lam"} & set(required))
    none: Schema = {"r": False, "b": False}
    return table | {
        "properties": properties | {"arms": _arms()},
        "required": [name for name in required if name not in (*arms, *rate)],
        "oneOf": [
            # A file may bring lam with the arms; nothing else can.
            {"required": ["arms"], "properties": none | {"arms": {"required": ["file"]}}},
            {
                "required": ["arms", *rate],
                "properties": none | {"arms": {"required": ["generator"]}},
            },
            {"required": [*arms, *rate], "properties": {"arms": False}},
        ],
    }


def _use(entry: Entry) -> Schema:
    return {"use": {"const": entry.name, "description": entry.summary}}


def _arms() -> Schema:
    """Describe the ``arms`` table: a file, or a generator; every value may be a list of them."""
    table = _table(ArmsConfig)
    for name, limits in _ARMS_LIMITS.items():
        table["properties"][name] |= limits
    properties = {name: _or_list([one]) for name, one in table["properties"].items()}
    return table | {
        "properties": properties,
        "oneOf": [
            {"required": ["file"], "properties": {"generator": False}},
            {"required": ["generator", "n"], "properties": {"file": False}},
        ],
    }


def _table(config: type[AttrsInstance], described: Callable[[Any], Schema] | None = None) -> Schema:
    hints = get_type_hints(config, include_extras=True)
    properties = {}
    for parameter in parameters_of(config):
        properties[parameter.name] = (described or _type)(hints[parameter.name]) | (
            {"description": parameter.meaning} if parameter.meaning else {}
        )
    required = [a.name for a in attrs.fields(config) if a.init and a.default is attrs.NOTHING]
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "required": required,
    }


def _or_grid(hint: Any) -> Schema:
    """Allow a formula for a number, and a list of values for a grid, where the file does."""
    if takes_list(hint):
        return _type(hint)
    return _or_list([_type(hint), *([_FORMULA] if wants_number(hint) else [])])


def _or_list(one: list[Schema]) -> Schema:
    values: Schema = {"type": "array", "items": {"anyOf": one}, "minItems": 1, "uniqueItems": True}
    return {"anyOf": [*one, values]}


def _type(hint: Any) -> Schema:
    if hint in _SCALARS:
        return dict(_SCALARS[hint])
    kind = reference_kind(hint)
    if kind is not None and is_reference(hint):
        return {"$ref": f"#/$defs/{kind.value}"}
    if is_union(hint):
        return {"anyOf": [_type(member) for member in get_args(hint) if member is not type(None)]}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is np.ndarray:
        floating = np.issubdtype(get_args(arguments[1])[0], np.floating)
        return {"type": "array", "items": {"type": "number" if floating else "integer"}}
    if origin in (list, tuple) and arguments:
        return {"type": "array", "items": _type(arguments[0])}
    if isinstance(hint, type) and attrs.has(hint):
        return _table(hint)
    return {}
