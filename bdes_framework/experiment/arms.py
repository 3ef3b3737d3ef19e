"""Where an experiment's arms come from: a CSV file, or a generator with a seed.

The ``arms`` table of an environment stands for its ``r`` and ``b``; a TOML or JSON file of arms,
such as ``bdes fit`` writes, may bring ``lam`` and ``q0`` too.
"""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from attrs import field, frozen

from bdes_framework._internal.arrays import FloatArray
from bdes_framework._internal.files import read_json, read_toml
from bdes_framework._internal.seeding import branch, generator
from bdes_framework._internal.text import listed, quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.plugin.config_values import structure

MOST_ARMS = 100_000


@frozen
class ArmsFile:
    """A TOML or JSON file of arms.

    Parameters
    ----------
    r, b : list of float
        One number per arm.
    lam : float or nothing
        How far one pull moves the state.
    q0 : float or nothing
        The state at the first pull.
    names : list of str or nothing
        What the arms are called.
    fit : table
        What ``bdes fit`` has to say about the numbers above; not needed to use them.
    """

    r: list[float]
    b: list[float]
    lam: float | None = None
    q0: float | None = None
    names: list[str] | None = None
    fit: Mapping[str, object] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if self.names is not None and len(self.names) != len(self.r):
            raise InvalidValueError(f"'names' has {len(self.names)} names for {len(self.r)} arms")


@frozen
class ArmsConfig:
    """Arms from a file or a generator: give ``file``, or ``generator`` with its numbers.

    Parameters
    ----------
    file : str or nothing
        Relative to the config file. A CSV file with columns ``r`` and ``b``, one arm a line; or
        a TOML or JSON file with lists ``r`` and ``b``, whose ``lam`` and ``q0``, if it has them,
        count where the environment's table does not say otherwise.
    generator : "uniform", "click-bait" or "grid", or nothing
        ``uniform``: r and b uniform on [0, 1]. ``click-bait``: anti-correlated, what pays now
        wears people out (b = 1 - r, blurred by ``spread``). ``grid``: all pairs from an even
        grid on [0, 1], ``n`` points a side.
    n : int or nothing
        How many arms, or points a side.
    seed : int
        Which draw of the generator.
    spread : float in [0, 1]
        How far click-bait arms may lie from b = 1 - r.
    """

    file: str | None = None
    generator: Literal["uniform", "click-bait", "grid"] | None = None
    n: int | None = None
    seed: int = field(default=0)
    spread: float = field(default=0.2)

    @seed.validator
    def _counts(self, _: object, value: int) -> None:
        if value < 0:
            raise InvalidValueError(f"'seed' must be at least 0, got {value}")

    @spread.validator
    def _is_a_share(self, _: object, value: float) -> None:
        if not 0 <= value <= 1:
            raise InvalidValueError(f"'spread' must lie in [0, 1], got {value}")

    def __attrs_post_init__(self) -> None:
        if (self.file is None) == (self.generator is None):
            raise InvalidValueError("arms need either 'file' or 'generator'")
        needed = self.generator is not None
        if needed if self.n is None else not 1 <= self.n <= MOST_ARMS:
            raise InvalidValueError(f"'n' must be an integer from 1 to {MOST_ARMS}")
        if self.generator == "grid" and self.n is not None and self.n**2 > MOST_ARMS:
            raise InvalidValueError(f"a grid of {self.n}² arms is over {MOST_ARMS}")


def make_arms(config: ArmsConfig, base: Path) -> tuple[FloatArray, FloatArray]:
    """Return ``r`` and ``b``, each of shape (K,)."""
    if config.file is not None:
        found = read_arms(base / config.file)
        return np.array(found.r), np.array(found.b)
    assert config.n is not None
    if config.generator == "grid":
        side = np.linspace(0, 1, config.n)
        r, b = np.meshgrid(side, side, indexing="ij")
        return r.ravel(), b.ravel()
    rng = generator(branch(config.seed, "arms", config.generator or ""))
    r = rng.random(config.n)
    if config.generator == "uniform":
        return r, rng.random(config.n)
    blurred = 1 - r + config.spread * (2 * rng.random(config.n) - 1)
    return r, np.clip(blurred, 0, 1)


def arms_parameters(config: ArmsConfig, base: Path) -> dict[str, object]:
    """Return what the arms say about an environment: ``r``, ``b``, perhaps ``lam`` and ``q0``."""
    r, b = make_arms(config, base)
    found: dict[str, object] = {"r": r, "b": b}
    if config.file is not None:
        file = read_arms(base / config.file)
        found |= {"lam": file.lam} if file.lam is not None else {}
        found |= {"q0": file.q0} if file.q0 is not None else {}
    return found


def read_arms(path: Path) -> ArmsFile:
    """Read columns ``r`` and ``b`` of CSV, or a TOML or JSON file; errors name line or key."""
    if path.suffix != ".csv":
        read = read_json if path.suffix == ".json" else read_toml
        return structure(ArmsFile, read(path), str(path))
    r: list[float] = []
    b: list[float] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, strict=True)
            missing = {"r", "b"} - set(rows.fieldnames or ())
            if missing:
                raise InvalidValueError(
                    f"{path.name}: needs columns 'r' and 'b', has {listed(rows.fieldnames or ())}"
                )
            for row in rows:
                if len(r) >= MOST_ARMS:
                    raise InvalidValueError(f"{path.name}: more than {MOST_ARMS} arms")
                where = f"{path.name}, line {rows.line_num}"
                r.append(_number(row["r"], "r", where))
                b.append(_number(row["b"], "b", where))
    except OSError as error:
        raise InvalidValueError(f"cannot read {path.name}: {error.strerror}") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidValueError(f"{path.name} is not a CSV file: {error}") from None
    if not r:
        raise InvalidValueError(f"{path.name}: has no arms")
    return ArmsFile(r, b)


def _number(text: str | None, column: str, where: str) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise InvalidValueError(
            f"{where}: column {column!r} must be a number, got {quoted(text)}"
        ) from None
