"""A plugin whose one policy has a parameter of every type that a config class may use."""

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import numpy as np
from attrs import field, frozen, validators

from bdes_framework import FloatArray, IntArray, PlannerRef, PolicyRef, Registrar, hookimpl

BDES_API_VERSION = 1


class Colour(Enum):
    RED = "red"
    DARK_BLUE = "dark-blue"


@frozen
class Inner:
    """A nested table, which may hold others of its kind.

    Parameters
    ----------
    size : int
        How large.
    """

    size: int = field(default=1, validator=validators.gt(0))
    high: float | None = None
    more: tuple["Inner", ...] = ()


@frozen
class Config:
    """A parameter of every type. And a second sentence.

    Parameters
    ----------
    rate : float
        How fast,
        on two lines.
    speed, mode : str
        One of two.
    """

    whole: int = 1
    rate: float = 0.5
    number: float | None = None
    flag: bool = False
    text: str | int = "x"
    folder: Path = Path("a")
    speed: Literal["fast", "slow"] = "fast"
    mode: float | Literal["auto"] = "auto"
    colour: Colour = Colour.RED
    weights: FloatArray = field(factory=lambda: np.ones(2), eq=False)
    arms: IntArray = field(factory=lambda: np.zeros(1, dtype=np.int64), eq=False)
    many: tuple[float, ...] = ()
    one_or_many: float | list[float] = 1.0
    names: list[str] = field(factory=list)
    pair: tuple[int, str] = (1, "x")
    limits: Mapping[str, float] = field(factory=dict)
    free: dict[str, Any] = field(factory=dict)
    inner: Inner = Inner(size=2)
    parts: Mapping[str, tuple[Inner, bool]] = field(factory=dict)
    rows: list[Inner | None] = field(factory=list)
    policy: PolicyRef | None = None
    planner: PlannerRef = "certified"


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    registrar.policy("every", Config, lambda config, context: None)  # type: ignore[arg-type, return-value]
