"""Registering the good and broken subjects that the conformance kit is tried on.

A broken subject is registered under the name of the one check it fails, with hyphens; what
follows a dot tells several for the same check apart. Those called ``wrong.`` fail several.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from attrs import AttrsInstance, frozen, make_class

from bdes_framework import Plugins, load_plugins

M = TypeVar("M", bound=Callable[..., Any])


def load_subjects(file: str) -> Plugins:
    """Load one of the local plugins beside this file, and nothing else."""
    path = str(Path(__file__).with_name(file))
    return load_plugins(modules=[path], disabled=["bdes-framework"])


class Subjects:
    """The subjects of one local plugin, by name; variants are of "good" unless a base is given."""

    def __init__(self) -> None:
        self.makes: dict[str, Any] = {}

    def __call__(self, name: str) -> Callable[[M], M]:
        """Add the class or function below under a name."""

        def add(make: M) -> M:
            self.makes[name] = make
            return make

        return add

    def variant(self, name: str, base: Any = None, **members: object) -> None:
        """Add a subclass with some methods or attributes replaced."""
        self.makes[name] = type(name, (base or self.makes["good"],), members)

    def before(
        self, name: str, method: str, effect: Callable[..., object], base: Any = None
    ) -> None:
        """Add a subclass that first calls ``effect`` with what a method is given."""
        original = getattr(base or self.makes["good"], method)

        def replaced(*arguments: Any) -> Any:
            effect(*arguments)
            return original(*arguments)

        self.variant(name, base, **{method: replaced})

    def after(self, name: str, method: str, change: Callable[..., Any], base: Any = None) -> None:
        """Add a subclass that changes what a method returns, given that and its arguments."""
        original = getattr(base or self.makes["good"], method)

        def replaced(*arguments: Any) -> Any:
            return change(original(*arguments), *arguments)

        self.variant(name, base, **{method: replaced})

    def register(
        self, add: Callable[..., None], method: str, build: Callable[[Any, Any], Any]
    ) -> None:
        """Register all, two that move global random states and two not documented.

        ``add`` is a method of the registrar, ``method`` the one that moves the states, ``build``
        takes a class and a context.
        """
        moves = "uses-no-global-random-state.moves-"
        self.before(f"{moves}random", method, lambda *_: random.random())
        self.before(f"{moves}numpy", method, lambda *_: np.random.random())  # noqa: NPY002

        def factory(make: object) -> Callable[[AttrsInstance, Any], Any]:
            return lambda config, context: build(make, context)

        for name, make in self.makes.items():
            add(name, config_for(name), factory(make))
        good = factory(self.makes["good"])
        add("parameters-are-documented.one-not", UnexplainedConfig, good)
        add("parameters-are-documented.none-at-all", UndocumentedConfig, good)


def late_randomness(subject: Any, *arguments: object) -> None:
    """Give a subject a generator nobody seeded, in its round 1000."""
    if subject.round == 1000:
        subject.rng = np.random.default_rng()


def global_seed() -> int:
    """Read the seed last given to ``np.random.seed`` from the global random state."""
    return int(np.random.get_state(legacy=False)["state"]["key"][0])  # noqa: NPY002


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
