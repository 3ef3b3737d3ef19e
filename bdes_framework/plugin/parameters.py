"""What a registered thing can be told: its parameters with types, defaults and meanings.

Read off the config class, so that there is one source: fields give names, types and
defaults, the class's NumPy-style docstring gives the meaning.
"""

import inspect
import re
from typing import Any, Literal, get_args, get_origin, get_type_hints

import attrs
import numpy as np
from attrs import AttrsInstance, frozen

from bdes_framework._internal.text import quoted
from bdes_framework.plugin.config_values import is_reference, is_union, reference_kind


@frozen
class Parameter:
    """One parameter of a registered thing.

    Parameters
    ----------
    name : str
        The field's name.
    type : str
        Its type, in words.
    default : str or None
        Its default as text, or None when a value must be given.
    meaning : str
        What the config class's docstring says of it; empty if it says nothing.
    """

    name: str
    type: str
    default: str | None
    meaning: str


def parameters_of(config: type[AttrsInstance]) -> tuple[Parameter, ...]:
    """Return the parameters of a config class, in order."""
    hints = get_type_hints(config, include_extras=True)
    meanings = _documented(config)
    return tuple(
        Parameter(
            name=attribute.name,
            type=type_text(hints.get(attribute.name, object)),
            default=_default_text(attribute.default),
            meaning=meanings.get(attribute.name, ""),
        )
        for attribute in attrs.fields(config)
        if attribute.init
    )


def type_text(hint: Any) -> str:
    """Return a type as a person would say it.

    >>> type_text(float | None)
    'float or nothing'
    """
    if is_reference(hint):
        return f"{reference_kind(hint)} (name or table)"
    if is_union(hint):
        members = [type_text(m) for m in get_args(hint) if m is not type(None)]
        return " or ".join(members + (["nothing"] if type(None) in get_args(hint) else []))
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(repr(option) for option in arguments)
    if origin is np.ndarray:
        floating = np.issubdtype(get_args(arguments[1])[0], np.floating)
        return "list of float" if floating else "list of int"
    if origin in (list, tuple) and arguments:
        return f"list of {type_text(arguments[0])}"
    return getattr(hint, "__name__", str(hint))


def _default_text(default: Any) -> str | None:
    if default is attrs.NOTHING:
        return None
    if hasattr(default, "factory"):
        return "computed" if default.takes_self else quoted(default.factory())
    return quoted(default)


_HEADING = re.compile(r"^(?:Parameters|Attributes)\n-+\n", re.MULTILINE)
_NEXT_HEADING = re.compile(r"^\S[^\n]*\n-{3,}\n", re.MULTILINE)


def _documented(config: type[AttrsInstance]) -> dict[str, str]:
    """Read ``name : type`` and the indented lines below it from the docstring's sections."""
    text = inspect.cleandoc(config.__doc__ or "")
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
