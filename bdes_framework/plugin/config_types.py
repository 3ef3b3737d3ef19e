"""The types a config field may have, parsed once from its type hint.

Parsing of values, the JSON Schema, grids and ``bdes plugins show`` all read these descriptions.
"""

import json
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import attrs
import numpy as np
from attrs import AttrsInstance, frozen

from bdes_framework._internal.text import quoted
from bdes_framework.interfaces import Kind


@frozen
class ScalarType:
    """``bool``, ``int``, ``float``, ``str``, ``Path`` or ``None``."""

    python: type


@frozen
class ChoiceType:
    """A ``Literal`` or an ``Enum``: values as a file writes them, and what they become."""

    written: tuple[object, ...]
    values: tuple[object, ...]


@frozen
class ArrayType:
    """A numpy array of numbers, written as a list."""

    dtype: Any

    @property
    def floating(self) -> bool:
        """Whether it holds floats rather than integers."""
        return bool(np.issubdtype(self.dtype, np.floating))

    @property
    def item(self) -> "ConfigType":
        """The type of one element."""
        return ScalarType(float if self.floating else int)


@frozen
class ReferenceType:
    """The name, table or config object of another registered thing."""

    kind: Kind


@frozen
class ListType:
    """A list, or a tuple of any length, of one type."""

    item: "ConfigType"
    python: type


@frozen
class FixedTupleType:
    """A tuple of fixed length."""

    items: tuple["ConfigType", ...]


@frozen
class MappingType:
    """A table with keys of the user's choice and values of one type."""

    value: "ConfigType"


@frozen
class TableType:
    """A nested attrs class."""

    config: type[AttrsInstance]


@frozen
class UnionType:
    """One of several types, tried in this order."""

    members: tuple["ConfigType", ...]


@frozen
class InstanceType:
    """Any other class: only its instances are accepted, and ``object`` accepts all."""

    python: type


ConfigType: TypeAlias = (
    ScalarType
    | ChoiceType
    | ArrayType
    | ReferenceType
    | ListType
    | FixedTupleType
    | MappingType
    | TableType
    | UnionType
    | InstanceType
)

ANYTHING = InstanceType(object)

_SCALAR_NAMES = {
    bool: "boolean",
    int: "integer",
    float: "float",
    str: "string",
    Path: "string",
    type(None): "unset",
}

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@cache
def field_types(config: type[AttrsInstance]) -> Mapping[str, ConfigType]:
    """Return the type of every parameter of a config class, in order."""
    hints = get_type_hints(config, include_extras=True)
    return {
        attribute.name: parse_hint(hints.get(attribute.name, object))
        for attribute in attrs.fields(config)
        if attribute.init
    }


def parse_hint(hint: Any) -> ConfigType:
    """Return the description of a type hint."""
    # What a NewType or a ``type`` statement (Python 3.12) stands for.
    hint = getattr(hint, "__supertype__", getattr(hint, "__value__", hint))
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin is Annotated:
        kinds = [note for note in arguments[1:] if isinstance(note, Kind)]
        return ReferenceType(kinds[0]) if kinds else parse_hint(arguments[0])
    if origin in (Union, types.UnionType):
        # Python may reorder equal unions; sorting makes the order of attempts the same in every
        # process, with integers before the floats that would accept them too.
        ordered = sorted(arguments, key=lambda member: (member is float, repr(member)))
        return UnionType(tuple(map(parse_hint, ordered)))
    if origin is Literal:
        return ChoiceType(arguments, arguments)
    if origin is tuple and arguments and arguments[-1] is not ...:
        return FixedTupleType(tuple(map(parse_hint, arguments)))
    if origin in (list, tuple, Sequence):
        item = parse_hint(arguments[0]) if arguments else ANYTHING
        return ListType(item, list if origin is list else tuple)
    if origin in (dict, Mapping):
        return MappingType(parse_hint(arguments[1]) if arguments else ANYTHING)
    if origin is np.ndarray and arguments:
        return ArrayType(get_args(arguments[1])[0])
    return _parse_class(type(None) if hint is None else origin)


def _parse_class(cls: Any) -> ConfigType:
    if cls is Any or not isinstance(cls, type):  # since Python 3.11, Any is a class
        return ANYTHING
    if cls in _SCALAR_NAMES:
        return ScalarType(cls)
    if issubclass(cls, Enum):
        return ChoiceType(tuple(member.value for member in cls), tuple(cls))
    return TableType(cls) if attrs.has(cls) else InstanceType(cls)


def members_of(kind: ConfigType) -> tuple[ConfigType, ...]:
    """Return the members of a union, or the type itself."""
    return kind.members if isinstance(kind, UnionType) else (kind,)


def is_none(kind: ConfigType) -> bool:
    """Return whether a type is ``None``."""
    return kind == ScalarType(type(None))


def nested_tables(kind: ConfigType, path: str) -> Iterator[tuple[str, type[AttrsInstance]]]:
    """Yield the attrs classes inside a type, each with the key path at which it stands."""
    match kind:
        case TableType(config):
            yield path, config
        case ListType(item):
            yield from nested_tables(item, f"{path}[]")
        case FixedTupleType(members):
            for index, member in enumerate(members):
                yield from nested_tables(member, f"{path}[{index}]")
        case UnionType(members):
            for member in members:
                yield from nested_tables(member, path)
        case MappingType(value):
            yield from nested_tables(value, f"{path}.*")


def type_text(kind: ConfigType) -> str:
    """Return a type in the words of TOML.

    >>> type_text(parse_hint(tuple[int, ...] | None))
    'array of integer'
    """
    match kind:
        case ScalarType(python):
            return _SCALAR_NAMES[python]
        case ChoiceType(written):
            return " | ".join(map(toml_text, written))
        case ReferenceType(referred):
            return f"{referred} (name or table)"
        case ArrayType() | ListType():
            return f"array of {_grouped(kind.item)}"
        case FixedTupleType(items):
            return f"[{', '.join(map(type_text, items))}]"
        case MappingType(value):
            return f"table of {_grouped(value)}"
        case TableType():
            return "table"
        case UnionType(members):
            return " | ".join(type_text(member) for member in members if not is_none(member))
        case InstanceType(python):
            return "anything" if python is object else python.__name__


def _grouped(kind: ConfigType) -> str:
    text = type_text(kind)
    return f"({text})" if isinstance(kind, ChoiceType | UnionType) and " | " in text else text


def toml_text(value: object) -> str:
    """Return a value as TOML would write it on one line; None as ``unset``.

    >>> toml_text({"gap": 1e-5, "name": "x", "on": True})
    '{gap = 1e-05, name = "x", on = true}'
    """
    if isinstance(value, Enum):
        return toml_text(value.value)
    if isinstance(value, np.ndarray | np.generic):
        return toml_text(value.tolist())
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | Path):
        return json.dumps(str(value), ensure_ascii=False)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_text, value))}]"
    if attrs.has(type(value)):
        value = attrs.asdict(value, recurse=False, filter=lambda field, _: bool(field.init))  # type: ignore[arg-type]
    if isinstance(value, Mapping):
        pairs = (
            f"{key if _BARE_KEY.fullmatch(str(key)) else toml_text(str(key))} = {toml_text(inner)}"
            for key, inner in value.items()
            if inner is not None
        )
        return "{" + ", ".join(pairs) + "}"
    return repr(value) if isinstance(value, int | float) else quoted(value)
