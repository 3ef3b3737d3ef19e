"""Registering the good and broken subjects that the conformance kit is tried on.

A broken subject is registered under the name of the one check it fails, with hyphens; what
follows a dot tells several for the same check apart. Those called ``wrong.`` fail several.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from attrs import AttrsInstance, frozen, make_class

M = TypeVar("M", bound=Callable[..., Any])


class Subjects:
    """The subjects of one local plugin, by name."""

    def __init__(self) -> None:
        self._makes: dict[str, Callable[..., Any]] = {}

    def __call__(self, name: str) -> Callable[[M], M]:
        """Add the class or function below under a name."""

        def add(make: M) -> M:
            self._makes[name] = make
            return make

        return add

    def variant(self, name: str, base: type, **methods: object) -> None:
        """Add a subclass with some methods replaced."""
        self._makes[name] = type(name, (base,), methods)

    def register(self, add: Callable[..., None], build: Callable[[Any, Any], Any]) -> None:
        """Register all, and two whose parameters nobody documents.

        ``add`` is a method of the registrar, ``build`` takes a class and a context.
        """

        def factory(make: object) -> Callable[[AttrsInstance, Any], Any]:
            return lambda config, context: build(make, context)

        for name, make in self._makes.items():
            add(name, config_for(name), factory(make))
        good = factory(self._makes["good"])
        add("parameters-are-documented.one-not", UnexplainedConfig, good)
        add("parameters-are-documented.none-at-all", UndocumentedConfig, good)


def config_for(name: str) -> type[AttrsInstance]:
    """Return a config class without parameters; every name needs one of its own."""
    made: type[AttrsInstance] = make_class("Config", {}, frozen=True)
    made.__doc__ = f"What is called {name}."
    return made


@frozen
class UnexplainedConfig:
    """Has a parameter nobody explains.

    Parameters
    ----------
    width : float
        How wide it is.
    """

    width: float = 1.0
    depth: float = 1.0


@frozen
class UndocumentedConfig:
    pass
