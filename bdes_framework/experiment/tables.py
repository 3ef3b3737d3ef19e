"""An experiment given in Python, written as the TOML that its file would hold.

A mapping or an :class:`ExperimentConfig` goes the way of a file from there on: the same checks,
the same cells with the same keys, and a copy in the run's folder.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from os import PathLike, fspath
from typing import cast

import attrs
import numpy as np
import tomli_w
from attrs import AttrsInstance

from bdes_framework._internal.files import MAX_DEPTH
from bdes_framework._internal.text import quoted
from bdes_framework.errors import ConfigError, Mistake
from bdes_framework.plugin.registry import Entry

_NO_NONE = "is None, which TOML does not have: leave the key out"


def toml_of(tables: object, entries: Iterable[Entry], source: str) -> str:
    """Return tables as TOML; raise ConfigError with every value that TOML cannot have.

    Parameters
    ----------
    tables : object
        A mapping or an attrs object. Tuples and arrays are written as lists, attrs objects as
        tables; a config object of something registered as a table with its ``use``.
    entries : Iterable[Entry]
        What is registered.
    source : str
        What is given, for messages.
    """
    writer = _Writer({entry.config: entry.name for entry in entries})
    plain = writer.table(tables, "")
    try:
        text = tomli_w.dumps(plain)
        text.encode()
    except UnicodeEncodeError:
        writer.mistakes.append(Mistake("", "has text that is not Unicode"))
    if writer.mistakes:
        raise ConfigError(writer.mistakes, source)
    return text


class _Writer:
    """Turns values into those that TOML has, collecting the mistakes."""

    def __init__(self, names: Mapping[type, str]) -> None:
        self.mistakes: list[Mistake] = []
        self._names = names

    def table(self, value: object, path: str) -> dict[str, object]:
        """Return a mapping or an attrs object as a table."""
        found: dict[str, object] = {}
        if isinstance(value, Mapping):
            inner = dict(value)
        else:
            if type(value) in self._names:
                found["use"] = self._names[type(value)]
            inner = _set_fields(cast(AttrsInstance, value))
        for key, each in inner.items():
            if not isinstance(key, str):
                self.mistakes.append(Mistake(path, f"has the key {quoted(key)}, which is no text"))
            else:
                found[key] = self._plain(each, f"{path}.{key}" if path else key)
        return found

    def _plain(self, value: object, path: str) -> object:
        if path.count(".") + path.count("[") > MAX_DEPTH:
            self.mistakes.append(Mistake(path[:80], f"is nested more than {MAX_DEPTH} deep"))
            return ""
        if isinstance(value, Enum):
            value = value.value
        if isinstance(value, np.ndarray | np.generic):
            value = value.tolist()
        if isinstance(value, Mapping) or attrs.has(type(value)):
            return self.table(value, path)
        if isinstance(value, list | tuple):
            return [self._plain(each, f"{path}[{index}]") for index, each in enumerate(value)]
        if isinstance(value, PathLike):
            value = fspath(value)
        if isinstance(value, str | bool | int | float):
            return value
        what = _NO_NONE if value is None else f"is {quoted(value)}, which TOML cannot hold"
        self.mistakes.append(Mistake(path, what))
        return ""


def _set_fields(config: AttrsInstance) -> dict[str, object]:
    """Return the fields of a config; those that are None by default and unset are left out."""
    return {
        field.name: value
        for field in attrs.fields(type(config))
        if field.init
        and not ((value := getattr(config, field.name)) is None and field.default is None)
    }
