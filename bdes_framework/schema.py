"""A JSON Schema of the experiment file, built from the plugins that are loaded."""

from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

import attrs
import numpy as np
from attrs import AttrsInstance

from bdes_framework.arms import ArmsConfig
from bdes_framework.config import ExperimentConfig
from bdes_framework.interfaces import Kind
from bdes_framework.manager import Plugins
from bdes_framework.parameters import parameters_of
from bdes_framework.registry import Entry
from bdes_framework.structuring import is_reference, is_union, reference_kind

Schema = dict[str, Any]

_SCALARS: Mapping[object, Schema] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
}


def experiment_schema(plugins: Plugins) -> Schema:
    """Return the schema; a reference to a plugin becomes a choice among what is registered."""
    definitions = {kind.value: _choice(plugins, kind) for kind in Kind}
    schema = _table(ExperimentConfig, grid=False)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "bdes-framework experiment",
        **schema,
        "$defs": definitions,
    }


def _choice(plugins: Plugins, kind: Kind) -> Schema:
    entries = plugins.entries(kind)
    grid = kind in (Kind.ENVIRONMENT, Kind.POLICY)
    names: Schema = {"enum": [entry.name for entry in entries]}
    return {"anyOf": [names, *(_entry(entry, grid) for entry in entries)]}


def _entry(entry: Entry, grid: bool) -> Schema:
    table = _table(entry.config, grid)
    own: Schema = {"use": {"const": entry.name, "description": entry.summary}}
    if grid:
        own["label"] = {"type": "string"}
    required = table.get("required", [])
    if {"r", "b"} <= set(table["properties"]) and entry.kind is Kind.ENVIRONMENT:
        own["arms"] = _table(ArmsConfig, grid=True)
        required = [name for name in required if name not in ("r", "b", "lam")]
    return table | {"properties": own | table["properties"], "required": ["use", *required]}


def _table(config: type[AttrsInstance], grid: bool) -> Schema:
    hints = get_type_hints(config, include_extras=True)
    properties = {}
    for parameter in parameters_of(config):
        hint = hints[parameter.name]
        described = _or_grid(_type(hint), hint) if grid else _type(hint)
        properties[parameter.name] = described | (
            {"description": parameter.meaning} if parameter.meaning else {}
        )
    required = [a.name for a in attrs.fields(config) if a.init and a.default is attrs.NOTHING]
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "required": required,
    }


def _or_grid(schema: Schema, hint: Any) -> Schema:
    """Allow a formula for a number, and a list of values for a grid."""
    if schema.get("type") == "array":
        return schema
    one: list[Schema] = [schema]
    members = get_args(hint) if is_union(hint) else (hint,)
    if {int, float} & set(members):
        one.append({"type": "string", "description": "a formula in T and K"})
    return {"anyOf": [*one, {"type": "array", "items": {"anyOf": one}, "minItems": 1}]}


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
        return _table(hint, grid=False)
    return {}
