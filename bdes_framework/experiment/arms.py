"""Arms of an experiment: read from a file, written to one by ``bdes fit``, or generated.

The ``arms`` table of an environment stands for its ``r`` and ``b``; a TOML or JSON file of arms,
such as ``bdes fit`` writes, may bring ``lam`` and ``q0`` too.
"""

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from attrs import asdict, field, frozen
from attrs.validators import ge, le, lt

from bdes_framework._internal.arrays import FloatArray
from bdes_framework._internal.files import (
    invalid_file,
    read_json,
    read_text,
    read_toml,
    replace_text,
)
from bdes_framework._internal.seeding import N_SEEDS, branch, generator
from bdes_framework._internal.text import listed, quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.plugin.config_values import structure

MAX_EXPERIMENT_ARMS = 100_000
MAX_INSTANCES = 10_000
_TOML_HEADING = "# Arms estimated by 'bdes fit', for 'bdes plan' and the arms of an experiment.\n"


@frozen
class ArmsFile:
    """A TOML or JSON file of arms.

    Parameters
    ----------
    r, b : list[float]
        One number per arm.
    lam : float | None
        How far one pull moves the state.
    q0 : float | None
        The state at the first pull.
    names : list[str] | None
        What the arms are called.
    fit : Mapping[str, object]
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
    """Arms from a file, a generator or as they are: give ``file``, ``generator`` or ``r``, ``b``.

    A list of such tables, a generator with several seeds, or several files, are instances of one
    environment: results are pooled over them.

    Parameters
    ----------
    file : str | None
        Relative to the config file. A CSV file with columns ``r`` and ``b``, one arm per line; or
        a TOML or JSON file with lists ``r`` and ``b``, whose ``lam`` and ``q0``, if it has them,
        count where the environment's table does not say otherwise.
    generator : Literal["uniform", "click-bait", "grid"] | None
        ``uniform``: r and b uniform on [0, 1]. ``click-bait``: anti-correlated, what pays now
        wears people out (b = 1 - r, blurred by ``spread``). ``grid``: all pairs from an even
        grid on [0, 1], ``n`` points per side.
    n : int | None
        How many arms, or points per side.
    seed : int
        Which draw of the generator.
    instances : int
        How many draws: with ``seed``, ``seed`` + 1 and so on, each an instance.
    spread : float
        How far click-bait arms may lie from b = 1 - r: from 0 to 1.
    replenishing : bool
        Whether the largest b of generated arms is raised to 1: the arm that the paper assumes.
    r, b : list[float] | None
        One number per arm.
    name : str | None
        What an instance of a list is called in results; its number in the list by default.
    """

    file: str | None = None
    generator: Literal["uniform", "click-bait", "grid"] | None = None
    n: int | None = None
    seed: int = field(default=0, validator=[ge(0), lt(N_SEEDS)])
    instances: int = field(default=1, validator=[ge(1), le(MAX_INSTANCES)])
    spread: float = field(default=0.2, validator=[ge(0), le(1)])
    replenishing: bool = False
    r: list[float] | None = None
    b: list[float] | None = None
    name: str | None = None

    def __attrs_post_init__(self) -> None:
        if [self.file is None, self.generator is None, self.r is None].count(False) != 1:
            raise InvalidValueError("arms need one of 'file', 'generator' and 'r' with 'b'")
        if (self.r is None) != (self.b is None):
            raise InvalidValueError("arms need both 'r' and 'b'")
        if self.instances > 1 and self.generator is None:
            raise InvalidValueError("'instances' needs a 'generator' that draws them")
        needed = self.generator is not None
        if needed if self.n is None else not 1 <= self.n <= MAX_EXPERIMENT_ARMS:
            raise InvalidValueError(f"'n' must be an integer from 1 to {MAX_EXPERIMENT_ARMS}")
        if self.generator == "grid" and self.n is not None and self.n**2 > MAX_EXPERIMENT_ARMS:
            raise InvalidValueError(f"a grid of {self.n}² arms is over {MAX_EXPERIMENT_ARMS}")


def generate_arms(config: ArmsConfig) -> tuple[FloatArray, FloatArray]:
    """Return generated ``r`` and ``b``, each of shape (K,)."""
    r, b = _drawn(config)
    if config.replenishing:
        b[b.argmax()] = 1.0
    return r, b


def _drawn(config: ArmsConfig) -> tuple[FloatArray, FloatArray]:
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
    """Return an environment's parameters from its arms: ``r``, ``b``, perhaps ``lam``, ``q0``."""
    if config.r is not None:
        return {"r": config.r, "b": config.b}
    if config.file is None:
        return dict(zip(("r", "b"), generate_arms(config), strict=True))
    file = read_arms(base / config.file)
    found = {"r": np.array(file.r), "b": np.array(file.b), "lam": file.lam, "q0": file.q0}
    return {name: value for name, value in found.items() if value is not None}


def write_arms(path: Path, arms: ArmsFile) -> None:
    """Write a .json or .toml file that :func:`read_arms` reads."""
    content = asdict(arms, filter=lambda _, value: value is not None)
    if path.suffix == ".json":
        replace_text(path, json.dumps(content, indent=2) + "\n")
    else:
        import tomli_w

        replace_text(path, _TOML_HEADING + tomli_w.dumps(content))


def read_arms(path: Path) -> ArmsFile:
    """Read columns ``r`` and ``b`` of CSV, or a TOML or JSON file; errors name line or key."""
    if path.suffix != ".csv":
        read = read_json if path.suffix == ".json" else read_toml
        return _checked(structure(ArmsFile, read(path), str(path)), path)
    arms: list[tuple[float, float]] = []
    rows = csv.DictReader(io.StringIO(read_text(path).removeprefix("\ufeff")), strict=True)
    try:
        missing = {"r", "b"} - set(rows.fieldnames or ())
        if missing:
            columns = listed(rows.fieldnames or ())
            raise invalid_file(path, f"needs columns 'r' and 'b', has {columns}")
        for row in rows:
            r, b = (_number(row[name], name, rows.line_num, path) for name in ("r", "b"))
            arms.append((r, b))
    except csv.Error as error:
        raise invalid_file(path, f"is not a CSV file: {error}") from None
    if not arms:
        raise invalid_file(path, "has no arms")
    return _checked(ArmsFile([r for r, _ in arms], [b for _, b in arms]), path)


def _checked(arms: ArmsFile, path: Path) -> ArmsFile:
    """Return the arms of a file; raise if they are more than an experiment can have."""
    if len(arms.r) > MAX_EXPERIMENT_ARMS:
        raise invalid_file(
            path, f"has {len(arms.r):,} arms; the maximum is {MAX_EXPERIMENT_ARMS:,}"
        )
    return arms


def _number(text: str | None, column: str, line: int, path: Path) -> float:
    try:
        return float(text or "")
    except ValueError:
        problem = f"column {column!r} must be a number, got {quoted(text)}"
        raise invalid_file(path, f"line {line}: {problem}") from None
