"""Functions that all code of a process shares: find out who replaced one, and put it back.

A plugin that assigns to ``np.sqrt`` changes what every other policy computes in that process. So
the functions of numpy, math and random are noted when this module is imported, before any plugin
is, and compared after a plugin is loaded and after every cell. That finds assignments to these
modules, undoes ``np.seterr``, and does nothing else: a plugin is trusted code, not locked in.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import itemgetter
from types import ModuleType
from typing import Any

import numpy as np

from bdes_framework._internal.text import listed
from bdes_framework.errors import ContractError
from bdes_framework.plugin.error_places import origin_of_file
from bdes_framework.plugin.registry import PluginStatus

_WATCHED = (math, random, np, np.linalg, np.random)


def _names(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if callable(value) and name[0] != "_"]


def _noted(module: ModuleType) -> tuple[ModuleType, list[str], Callable[[Any], Any], Any]:
    names = _names(module)
    return module, names, itemgetter(*names), itemgetter(*names)(vars(module))


_NOTED = [_noted(module) for module in _WATCHED]
_ERRORS = np.geterr()


@contextmanager
def shared_functions_kept(statuses: Sequence[PluginStatus] = ()) -> Iterator[None]:
    """Put back what was replaced inside; raise ContractError that says what, and by whom.

    ``statuses`` are the plugins that may have done it.
    """
    try:
        yield
    finally:
        replaced = _put_back()
        if replaced:
            origins = {origin_of_file(file, statuses) for file in replaced.values()} - {""}
            by = f" by {listed(origins)}" if origins else ""
            raise ContractError(
                f"{listed(replaced)} of this process, which all plugins share, was replaced{by};"
                " it was put back"
            )


def _put_back() -> dict[str, str]:
    """Put shared functions back; return the files of what had replaced them. Takes 10 µs."""
    found: dict[str, str] = {}
    for module, names, get, originals in _NOTED:
        content = vars(module)
        # Compares identities first, in one compiled loop; what cannot be compared was replaced.
        with suppress(Exception):
            if get(content) == originals:
                continue
        for name, original in zip(names, originals, strict=True):
            now = content.get(name)
            if now is not original:
                content[name] = original
                code = getattr(now, "__code__", None)
                found[f"{module.__name__}.{name}"] = str(getattr(code, "co_filename", ""))
    if np.geterr() != _ERRORS:
        np.seterr(**_ERRORS)
    return found
