"""Strict conversion of TOML tables and library keywords to attrs configs.

Nothing is coerced but an integer to a float, a list to an array or tuple, and a word to its Enum
member; every mistake is found, not only the first.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard, TypeVar, cast

import attrs
import numpy as np
from attrs import AttrsInstance

from bdes_framework._internal.arrays import holds_booleans
from bdes_framework._internal.text import (
    did_you_mean,
    error_message,
    listed,
    nearest,
    one_line,
    quoted,
    with_article,
)
from bdes_framework.errors import BdesError, ConfigError, Mistake
from bdes_framework.interfaces import Kind, Reference
from bdes_framework.plugin import config_types as ct

T = TypeVar("T", bound=AttrsInstance)


class _WrongValueError(ValueError):
    """A value that does not fit its type; the paths of its mistakes start at the value."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = list(mistakes)
        super().__init__(self.mistakes)


def structure(config: type[T], values: object, source: str = "", path: str = "") -> T:
    """Make a ``config`` from plain values, or raise ConfigError with every mistake found.

    Parameters
    ----------
    config : type[T]
        An attrs class; its fields are the parameters allowed.
    values : object
        A mapping of parameter names to values, as read from TOML or given as keywords.
    source : str
        What the values belong to, for the message: a file, or a plugin's name.
    path : str
        Key path of the table inside ``source``.
    """
    try:
        return cast(T, _table(config, values))
    except _WrongValueError as error:
        raise ConfigError(_mistakes(error, path), source) from None


def references_in(kind: ct.ConfigType, value: object, path: str) -> Iterator[tuple[Kind, Any, str]]:
    """Yield the references inside a value, right or wrong: kind, reference and key path."""
    if isinstance(kind, ct.ReferenceType) and _is_reference(value):
        yield kind.kind, value, path
    elif isinstance(kind, ct.UnionType):
        for member in kind.members:
            found = list(references_in(member, value, path))
            if found:
                yield from found
                return
    else:
        for inner_path, inner_kind, inner in _parts(kind, value):
            yield from references_in(inner_kind, inner, _join(path, inner_path))


_Part: TypeAlias = tuple[str, ct.ConfigType, object]


def _parts(kind: ct.ConfigType, value: object) -> list[_Part]:
    """Return the values inside a list, tuple or table, each with its path and type."""
    if isinstance(kind, ct.ListType | ct.FixedTupleType) and _is_list(value):
        items = kind.items if isinstance(kind, ct.FixedTupleType) else [kind.item] * len(value)
        pairs = enumerate(zip(items, value, strict=False))
        return [(f"[{index}]", item, inner) for index, (item, inner) in pairs]
    if isinstance(kind, ct.MappingType) and isinstance(value, Mapping):
        return [(_key(str(key)), kind.value, inner) for key, inner in value.items()]
    if isinstance(kind, ct.TableType) and attrs.has(type(value)):
        own = ct.field_types(cast(type[AttrsInstance], type(value)))
        return [(name, field, getattr(value, name)) for name, field in own.items()]
    if isinstance(kind, ct.TableType) and isinstance(value, Mapping):
        own = ct.field_types(kind.config)
        return [(name, own[name], value[name]) for name in own if name in value]
    return []


def _is_reference(value: object) -> TypeGuard[Reference]:
    """Return whether a value is a name, a table with ``use`` or a config object."""
    if isinstance(value, Mapping):
        return isinstance(value.get("use"), str)
    return isinstance(value, str) or attrs.has(type(value))


# -- one function per family of types -------------------------------------------------------


def _convert(kind: ct.ConfigType, value: object) -> object:
    """Return a value converted to its type, or raise _WrongValueError."""
    match kind:
        case ct.ScalarType(python):
            return _scalar(python, value)
        case ct.ChoiceType():
            return _choice(kind, value)
        case ct.ArrayType():
            return _array(kind, value)
        case ct.ReferenceType():
            return _reference(kind, value)
        case ct.ListType() | ct.FixedTupleType() | ct.MappingType():
            return _collection(kind, value)
        case ct.TableType(config):
            return value if isinstance(value, config) else _table(config, value)
        case ct.UnionType():
            return _union(kind, value)
        case ct.InstanceType(python) if not isinstance(value, python):
            raise _wrong(with_article(python.__name__), value)
    return value


def _wrong(expected: str, value: object) -> _WrongValueError:
    return _WrongValueError([Mistake("", f"expected {expected}, got {quoted(value)}")])


_SCALARS: Mapping[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool, np.bool_), "true or false"),
    int: ((int, np.integer), "an integer"),
    float: ((int, float, np.integer, np.floating), "a number"),
    str: ((str,), "a string"),
    Path: ((str, Path), "a string"),
    type(None): ((type(None),), "None"),
}


def _scalar(python: Any, value: object) -> object:
    accepted, expected = _SCALARS[python]
    if not isinstance(value, accepted) or (isinstance(value, bool) and python is not bool):
        raise _wrong(expected, value)
    try:
        converted = python(value) if python in (bool, int, float, Path) else value
    except OverflowError:
        raise _wrong("a smaller number", value) from None
    if converted != converted:
        raise _WrongValueError([Mistake("", "expected a number, got NaN")])
    return converted


def _choice(kind: ct.ChoiceType, value: object) -> object:
    for written, meant in zip(kind.written, kind.values, strict=True):
        if value is meant or (type(written) is type(value) and written == value):
            return meant
    match = did_you_mean(str(value), map(str, kind.written))
    options = ", ".join(map(ct.toml_text, kind.written))
    one_of = "one of " if len(kind.written) > 1 else ""
    message = f"expected {one_of}{options}, got {quoted(value)}" + (f".{match}" if match else "")
    raise _WrongValueError([Mistake("", message)])


def _union(kind: ct.UnionType, value: object) -> object:
    if value is None and any(map(ct.is_none, kind.members)):
        return None
    reasons: dict[str, None] = {}
    for member in kind.members:
        if not ct.is_none(member):
            try:
                return _convert(member, value)
            except _WrongValueError as error:
                reasons |= {str(mistake): None for mistake in error.mistakes}
    raise _WrongValueError([Mistake("", "; or ".join(reasons))])


def _reference(kind: ct.ReferenceType, value: object) -> object:
    if not _is_reference(value):
        name = with_article(str(kind.kind))
        raise _wrong(f"the name of {name} or a table with 'use' naming one", value)
    return dict(value) if isinstance(value, Mapping) else value


def _collection(kind: ct.ListType | ct.FixedTupleType | ct.MappingType, value: object) -> object:
    if isinstance(kind, ct.MappingType):
        if not isinstance(value, Mapping):
            raise _wrong("a table", value)
    elif not _is_list(value):
        raise _wrong("a list", value)
    elif isinstance(kind, ct.FixedTupleType) and len(value) != len(kind.items):
        raise _wrong(f"a list of {len(kind.items)} values", value)
    parts, mistakes = _convert_parts(_parts(kind, value))
    if mistakes:
        raise _WrongValueError(mistakes)
    converted = [part for _, part in parts]
    if isinstance(value, Mapping):
        return dict(zip(value, converted, strict=True))
    return converted if isinstance(kind, ct.ListType) and kind.python is list else tuple(converted)


def _array(kind: ct.ArrayType, value: object) -> object:
    wanted = "numbers" if kind.floating else "integers"
    wrong = _wrong(f"a list of {wanted}", value)
    if not _is_list(value):
        raise wrong
    try:
        array = np.array(value)
    except ValueError:  # lists of different lengths
        raise wrong from None
    if array.size and (holds_booleans(value) or not _are_numbers(array, kind.floating)):
        raise wrong
    try:
        converted = array.astype(kind.dtype)
    except OverflowError:
        converted = None
    if converted is None or not (kind.floating or np.array_equal(converted, array)):
        raise _wrong(f"smaller {wanted}", value)
    return converted


def _are_numbers(array: np.ndarray[Any, Any], floating: bool) -> bool:
    """Return whether all are integers or, if allowed, floats; numpy keeps huge ones as objects."""
    if array.dtype == object:
        return all(isinstance(number, int) for number in array.flat)
    return np.issubdtype(array.dtype, np.integer) or (
        floating and np.issubdtype(array.dtype, np.floating)
    )


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes)


def _convert_parts(
    parts: Iterable[_Part],
) -> tuple[list[tuple[str, object]], list[Mistake]]:
    """Convert values given with their paths and types; return the valid ones and all mistakes."""
    converted: list[tuple[str, object]] = []
    mistakes: list[Mistake] = []
    for path, kind, value in parts:
        try:
            converted.append((path, _convert(kind, value)))
        except _WrongValueError as error:
            mistakes += _mistakes(error, path)
    return converted, mistakes


def _table(cls: type[AttrsInstance], value: object) -> object:
    if not isinstance(value, Mapping):
        raise _wrong("a table", value)
    fields = {field.name: field for field in attrs.fields(cls) if field.init}
    parts, mistakes = _convert_parts(_parts(ct.TableType(cls), value))
    valid = dict(parts)
    for name, field in fields.items():
        if field.default is attrs.NOTHING and name not in value:
            mistakes.append(Mistake(name, "is required but missing"))
    unknown = sorted(map(str, value.keys() - fields.keys()))
    # With a misspelt key, what the class says of the key that was meant is no news.
    complete = not mistakes and all(nearest(key, fields) in (None, *value) for key in unknown)
    for key in unknown:
        allowed = f"{did_you_mean(key, fields)} Allowed: {listed(fields)}"
        mistakes.append(Mistake(_key(key), f"is not a parameter.{allowed}"))
    mistakes += _validator_mistakes(cls, valid, unset=value.keys() - valid.keys())
    made: object = None
    if complete:
        try:
            made = cls(**{str(fields[name].alias): inner for name, inner in valid.items()})
        except Exception as error:
            mistakes += [m for m in _mistakes(error, "") if m not in mistakes]
    if mistakes:
        raise _WrongValueError(mistakes)
    return made


def _validator_mistakes(
    cls: type[AttrsInstance], values: Mapping[str, object], unset: Collection[str]
) -> Sequence[Mistake]:
    """Run every field's own validator: attrs itself stops at the first that raises.

    They see an instance whose wrong fields are not set; a validator that wants one of them
    is skipped. A field with a converter is left to attrs.
    """
    bare = cls.__new__(cls)
    plain = [attribute for attribute in attrs.fields(cls) if attribute.converter is None]
    for attribute in plain:
        if attribute.name in values:
            object.__setattr__(bare, attribute.name, values[attribute.name])
        elif attribute.name not in unset and not isinstance(
            attribute.default, attrs.Factory | type(attrs.NOTHING)
        ):
            object.__setattr__(bare, attribute.name, attribute.default)
    mistakes: list[Mistake] = []
    for attribute in plain:
        if attribute.validator is not None and attribute.name in values:
            try:
                attribute.validator(bare, attribute, values[attribute.name])
            except AttributeError:
                continue
            except Exception as error:
                mistakes += _mistakes(error, "")
    return mistakes


def _mistakes(error: Exception, path: str) -> list[Mistake]:
    if isinstance(error, _WrongValueError):
        return [Mistake(_join(path, m.path), m.message) for m in error.mistakes]
    if isinstance(error, BdesError):
        return [Mistake(path, str(error))]
    return [Mistake(path, one_line(error_message(error) or type(error).__name__))]


def _key(key: str) -> str:
    return key if key.isidentifier() else quoted(key)


def _join(path: str, inner: str) -> str:
    return f"{path}.{inner}" if path and inner and inner[0] != "[" else path + inner
