"""From tables and keywords to attrs configs: strict about types, and clear when refusing.

TOML tables and library keywords come through the same door. Nothing is coerced but an
integer to a float and a list to an array; every mistake is found, not only the first.
"""

import math
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs
import cattrs
import numpy as np
from attrs import AttrsInstance
from cattrs.cols import homogenous_tuple_structure_factory, list_structure_factory
from cattrs.errors import IterableValidationError

from bdes_framework._internal.arrays import holds_booleans
from bdes_framework._internal.text import (
    did_you_mean,
    listed,
    nearest,
    one_line,
    quoted,
    with_article,
)
from bdes_framework.errors import BdesError, ConfigError, Mistake
from bdes_framework.interfaces import Kind

T = TypeVar("T", bound=AttrsInstance)


class _RefusedError(ValueError):
    """A value of a wrong type; its message is meant for people."""


class _TableError(ValueError):
    """A table that cannot be used; the paths of its mistakes start at the table."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        super().__init__(mistakes)
        self.mistakes = mistakes


def structure(config: type[T], values: Mapping[str, object], source: str = "", path: str = "") -> T:
    """Make a ``config`` from plain values, or raise ConfigError with every mistake found.

    Parameters
    ----------
    config : attrs class
        Its fields are the parameters allowed.
    values : mapping
        Parameter names and values, as read from TOML or given as keywords.
    source : str
        What the values belong to, for the message: a file, or a plugin's name.
    path : str
        Key path of the table inside ``source``.
    """
    try:
        return _converter.structure(dict(values), config)
    except Exception as error:
        raise ConfigError(list(_mistakes(error, path)), source) from None


def reference_kind(hint: object) -> Kind | None:
    """Return which kind of thing a type such as ``PlannerRef`` refers to, or None."""
    if get_origin(hint) is Annotated:
        for note in get_args(hint)[1:]:
            if isinstance(note, Kind):
                return note
    if is_union(hint) or get_origin(hint) in (list, tuple):
        kinds = [kind for kind in map(reference_kind, get_args(hint)) if kind is not None]
        return kinds[0] if kinds else None
    return None


def table_class(hint: object) -> type[AttrsInstance] | None:
    """Return the config class whose tables stand here, themselves or in a list, or None."""
    if is_union(hint) or get_origin(hint) in (list, tuple):
        return next(filter(None, map(table_class, get_args(hint))), None)
    return hint if isinstance(hint, type) and attrs.has(hint) else None


def is_union(hint: object) -> bool:
    """Say whether a type is ``A | B``, however it was spelled."""
    return get_origin(hint) in (Union, types.UnionType)


# -- hooks: one per family of types ---------------------------------------------------------


def _boolean(value: object, _: object) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise _RefusedError(f"expected true or false, got {quoted(value)}")
    return bool(value)


def _integer(value: object, _: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise _RefusedError(f"expected an integer, got {quoted(value)}")
    return int(value)


def _number(value: object, _: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise _RefusedError(f"expected a number, got {quoted(value)}")
    try:
        number = float(value)
    except OverflowError:
        raise _RefusedError(f"expected a smaller number, got {quoted(value)}") from None
    if math.isnan(number):
        raise _RefusedError("expected a number, got NaN")
    return number


def _string(value: object, _: object) -> str:
    if not isinstance(value, str):
        raise _RefusedError(f"expected a string, got {quoted(value)}")
    return value


def _nothing(value: object, _: object) -> None:
    if value is not None:
        raise _RefusedError(f"expected nothing, got {quoted(value)}")


def _literal(hint: Any) -> Callable[[object, object], object]:
    allowed = get_args(hint)

    def hook(value: object, _: object) -> object:
        for option in allowed:
            if type(option) is type(value) and option == value:
                return value
        match = did_you_mean(str(value), map(str, allowed))
        options = ", ".join(_as_written(option) for option in allowed)
        one_of = "one of " if len(allowed) > 1 else ""
        raise _RefusedError(
            f"expected {one_of}{options}, got {quoted(value)}" + (f".{match}" if match else "")
        )

    return hook


def _as_written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else quoted(value)


def _union(hint: Any) -> Callable[[object, object], object]:
    # Equal unions may come in any order, whichever was written first in this process: so one
    # order for all, in which an integer is tried before it could be taken for a float.
    members = sorted(get_args(hint), key=lambda member: (member is float, repr(member)))

    def hook(value: object, _: object) -> object:
        if value is None and type(None) in members:
            return None
        refusals: list[str] = []
        for member in members:
            if member is type(None):
                continue
            try:
                return _converter.structure(value, member)
            except Exception as error:
                refusals += [str(mistake) for mistake in _mistakes(error, "")]
        raise _RefusedError("; or ".join(dict.fromkeys(refusals)))

    return hook


def _array(hint: Any) -> Callable[[object, object], object]:
    (dtype,) = get_args(get_args(hint)[1])
    floating = np.issubdtype(dtype, np.floating)
    wanted = "numbers" if floating else "integers"

    def hook(value: object, _: object) -> object:
        refusal = _RefusedError(f"expected a list of {wanted}, got {quoted(value)}")
        if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str | bytes):
            raise refusal
        try:
            array = np.array(value)
        except ValueError:  # lists of different lengths
            raise refusal from None
        if array.size and (holds_booleans(value) or not _are_numbers(array, floating)):
            raise refusal
        try:
            converted = array.astype(dtype)
        except OverflowError:
            converted = None
        if converted is None or not (floating or np.array_equal(converted, array)):
            raise _RefusedError(f"expected smaller {wanted}, got {quoted(value)}")
        return converted

    return hook


def _are_numbers(array: np.ndarray[Any, Any], floating: bool) -> bool:
    """Say whether all are integers or, if allowed, floats; numpy keeps huge ones as objects."""
    if array.dtype == object:
        return all(isinstance(number, int) for number in array.flat)
    return np.issubdtype(array.dtype, np.integer) or (
        floating and np.issubdtype(array.dtype, np.floating)
    )


def _reference(hint: Any) -> Callable[[object, object], object]:
    kind = reference_kind(hint)

    def hook(value: object, _: object) -> object:
        if isinstance(value, str) or attrs.has(type(value)):
            return value
        if isinstance(value, Mapping) and isinstance(value.get("use"), str):
            return dict(value)
        raise _RefusedError(
            f"expected the name of {with_article(str(kind))} or a table with 'use' naming one,"
            f" got {quoted(value)}"
        )

    return hook


def _sequence(factory: Callable[..., Any]) -> Callable[..., Callable[[object, object], object]]:
    def make(hint: Any, converter: cattrs.BaseConverter) -> Callable[[object, object], object]:
        inner = factory(hint, converter)

        def hook(value: object, kind: object) -> object:
            if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str | bytes):
                raise _RefusedError(f"expected a list, got {quoted(value)}")
            return inner(value, kind)

        return hook

    return make


def _table(cls: Any, converter: cattrs.BaseConverter) -> Callable[[object, object], object]:
    allowed = [attribute.name for attribute in attrs.fields(cls) if attribute.init]

    def hook(value: object, _: object) -> object:
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise _RefusedError(f"expected a table, got {quoted(value)}")
        sound, mistakes = _sound_values(cls, converter, value)
        unknown = sorted(map(str, value.keys() - set(allowed)))
        # Where a key is misspelt, what the class says of the one that was meant is no news.
        complete = not mistakes and all(nearest(key, allowed) in (None, *value) for key in unknown)
        mistakes += [_unknown(key, allowed) for key in unknown]
        mistakes += _refusals(cls, sound, unset=value.keys() - sound.keys())
        try:
            made = _made(cls, sound) if complete else None
        except Exception as error:
            mistakes += [m for m in _mistakes(error, "") if m not in mistakes]
        if mistakes:
            raise _TableError(mistakes)
        return made

    return hook


def _sound_values(
    cls: Any, converter: cattrs.BaseConverter, table: Mapping[str, object]
) -> tuple[dict[str, object], list[Mistake]]:
    """Return the values of a table that are what their fields want, and what the others are."""
    hints = get_type_hints(cls, include_extras=True)
    sound: dict[str, object] = {}
    mistakes: list[Mistake] = []
    for attribute in attrs.fields(cls):
        name = attribute.name
        if attribute.init and name in table:
            try:
                sound[name] = converter.structure(table[name], hints.get(name, Any))
            except Exception as error:
                mistakes += _mistakes(error, name)
        elif attribute.init and attribute.default is attrs.NOTHING:
            mistakes.append(Mistake(name, "is required but missing"))
    return sound, mistakes


def _made(cls: Any, values: Mapping[str, object]) -> object:
    aliases = {attribute.name: attribute.alias for attribute in attrs.fields(cls)}
    return cls(**{aliases[name]: value for name, value in values.items()})


def _refusals(cls: Any, values: Mapping[str, object], unset: Collection[str]) -> Sequence[Mistake]:
    """Ask each field's own validator: attrs itself stops at the first that refuses.

    What they look at is an instance whose wrong fields are not set; a validator that wants
    one of them has nothing to say. A field with a converter is left to attrs.
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


def _is(origin: object) -> Callable[[Any], bool]:
    return lambda hint: get_origin(hint) is origin


def _is_homogenous_tuple(hint: Any) -> bool:
    return get_origin(hint) is tuple and get_args(hint)[-1:] == (...,)


def is_reference(hint: Any) -> bool:
    """Say whether a type is a reference such as ``PlannerRef`` itself."""
    return get_origin(hint) is Annotated and reference_kind(hint) is not None


def _make_converter() -> cattrs.Converter:
    converter = cattrs.Converter(detailed_validation=True)
    for scalar, hook in (
        (bool, _boolean),
        (int, _integer),
        (float, _number),
        (str, _string),
        (type(None), _nothing),
    ):
        converter.register_structure_hook(scalar, hook)
    for belongs, factory in (
        (_is(list), _sequence(list_structure_factory)),
        (_is_homogenous_tuple, _sequence(homogenous_tuple_structure_factory)),
        (attrs.has, _table),
    ):
        converter.register_structure_hook_factory(belongs, factory)
    for belongs, make in (
        (_is(Literal), _literal),
        (is_union, _union),
        (_is(np.ndarray), _array),
        (is_reference, _reference),
    ):
        converter.register_structure_hook_factory(belongs, make)
    return converter


# -- what went wrong, in words --------------------------------------------------------------


def _mistakes(error: BaseException, path: str) -> Sequence[Mistake]:
    if isinstance(error, _TableError):
        return [Mistake(_join(path, m.path), m.message) for m in error.mistakes]
    if isinstance(error, IterableValidationError):
        with_indices, rest = error.group_exceptions()
        found = [m for exc, note in with_indices for m in _mistakes(exc, f"{path}[{note.index}]")]
        return found + [m for exc in rest for m in _mistakes(exc, path)]
    if isinstance(error, _RefusedError | BdesError):
        return [Mistake(path, str(error))]
    return [Mistake(path, one_line(f"{error}" or type(error).__name__))]


def _unknown(key: str, allowed: Sequence[str]) -> Mistake:
    return Mistake(
        key if key.isidentifier() else quoted(key),
        f"is not a parameter.{did_you_mean(key, allowed)} Allowed: {listed(allowed)}",
    )


def _join(path: str, inner: str) -> str:
    return f"{path}.{inner}" if path and inner else path or inner


_converter = _make_converter()
