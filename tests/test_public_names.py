"""The public names: lazy at run time, typed all the same, documented."""

import ast
import itertools
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import bdes_framework
import bdes_framework.testing as kit

SOURCE = Path(bdes_framework.__file__)


def names_imported_for_type_checkers() -> set[str]:
    block, *_ = [node for node in ast.parse(SOURCE.read_text()).body if isinstance(node, ast.If)]
    return {
        alias.asname or ""
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }


def test_typed_names_are_the_lazy_ones() -> None:
    assert names_imported_for_type_checkers() == set(bdes_framework.__all__)


@pytest.mark.parametrize("module", [bdes_framework, kit], ids=lambda module: module.__name__)
def test_every_public_name_resolves(module: ModuleType) -> None:
    assert set(module.__all__) <= set(dir(module))
    assert all(getattr(module, name) is not None for name in module.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    name = "nonsense"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        getattr(bdes_framework, name)


def classes_in(hint: object) -> Iterator[type]:
    """Yield our classes in a type hint, those inside of others included."""
    if isinstance(hint, type) and hint.__module__.startswith("bdes_"):
        yield hint
    for inner in hint if isinstance(hint, list) else typing.get_args(hint):
        yield from classes_in(inner)


@pytest.mark.parametrize("name", bdes_framework.__all__)
def test_types_in_public_signatures_are_public(name: str) -> None:
    found = getattr(bdes_framework, name)
    own = vars(found).items() if isinstance(found, type) else ()
    # Imported for type checkers only.
    frames = {name: import_module(name) for name in ("altair", "pandas", "polars")}
    for member in (found, *(member for key, member in own if key[0] != "_")):
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if isinstance(function, type | FunctionType):
            hints = typing.get_type_hints(function, localns=frames)
            shown = [hint for key, hint in hints.items() if key[0] != "_"]
            for cls in itertools.chain.from_iterable(map(classes_in, shown)):
                assert cls.__name__ in bdes_framework.__all__, (function, cls)
