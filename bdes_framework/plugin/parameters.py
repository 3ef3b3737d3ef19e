"""Parameters of a registered thing: names, types, defaults and meanings.

All are read from the config class: fields give names, types and defaults, the class's
NumPy-style docstring gives the meaning.
"""

import inspect
import re
from typing import Any

import attrs
from attrs import AttrsInstance, frozen

from bdes_framework.plugin.config_types import field_types, nested_tables, toml_text, type_text


@frozen
class Parameter:
    """One parameter of a registered thing.

    Parameters
    ----------
    name : str
        The field's name; a field of a nested table has its path, such as ``inner.size``.
    type : str
        Its type, in the words of TOML.
    default : str | None
        Its default as TOML would write it, or None when a value must be given.
    meaning : str
        What the config class's docstring says of it; empty if it says nothing.
    """

    name: str
    type: str
    default: str | None
    meaning: str


def parameters_of(config: type[AttrsInstance]) -> tuple[Parameter, ...]:
    """Return the parameters of a config class in order, each followed by its nested fields."""
    return tuple(_parameters(config, "", ()))


def _parameters(
    config: type[AttrsInstance], prefix: str, around: tuple[type[AttrsInstance], ...]
) -> list[Parameter]:
    kinds, meanings = field_types(config), _documented(config)
    found: list[Parameter] = []
    for attribute in attrs.fields(config):
        if not attribute.init:
            continue
        name, kind = prefix + attribute.name, kinds[attribute.name]
        default = _default_text(attribute.default)
        found.append(Parameter(name, type_text(kind), default, meanings.get(attribute.name, "")))
        for path, inner in nested_tables(kind, name):
            if inner not in (config, *around):  # a class that contains itself is listed once
                found += _parameters(inner, f"{path}.", (*around, config))
    return found


def _default_text(default: Any) -> str | None:
    if default is attrs.NOTHING:
        return None
    if hasattr(default, "factory"):
        return "computed" if default.takes_self else toml_text(default.factory())
    return toml_text(default)


_HEADING = re.compile(r"^(?:Parameters|Attributes)\n-+\n", re.MULTILINE)
_NEXT_HEADING = re.compile(r"^\S[^\n]*\n-{3,}\n", re.MULTILINE)


def _documented(config: type[AttrsInstance]) -> dict[str, str]:
    """Read ``name : type`` and the indented lines below it from the sections of docstrings.

    What a class's docstring does not mention is looked up in those of its bases.
    """
    meanings: dict[str, str] = {}
    for cls in reversed(config.__mro__):
        meanings |= _meanings(inspect.cleandoc(cls.__doc__ or ""))
    return meanings


def _meanings(text: str) -> dict[str, str]:
    start = _HEADING.search(text)
    if start is None:
        return {}
    section = text[start.end() :]
    end = _NEXT_HEADING.search(section)
    meanings: dict[str, str] = {}
    names: list[str] = []
    for line in (section[: end.start()] if end else section).splitlines():
        if line and not line[0].isspace():
            names = [name.strip() for name in line.split(":")[0].split(",")]
        elif line.strip():
            for name in names:
                meanings[name] = f"{meanings.get(name, '')} {line.strip()}".strip()
    return meanings
