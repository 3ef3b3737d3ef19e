"""The config of an experiment, as its file holds it, and which values it may have."""

from collections.abc import Mapping
from typing import Literal

from attrs import field, frozen

from bdes_framework._internal.seeding import N_SEEDS
from bdes_framework.errors import Mistake
from bdes_framework.interfaces import (
    EngineRef,
    EnvironmentRef,
    PlannerRef,
    PolicyRef,
)
from bdes_framework.plugin.load import PluginsConfig
from bdes_framework.simulation.feedback import FeedbackConfig

MAX_LABEL_LENGTH = 200
MAX_CELLS = 1_000_000
MAX_VARIANTS = 10_000
"""Of environments, and of policies: every one of them is checked."""
MAX_HORIZONS = 1_000
MAX_CHECKPOINTS = 10_000
MAX_HORIZON = 10**12
MAX_TIMEOUT = 10**7
MIN_VALUES = {"seed": 0, "replications": 1, "checkpoints": 2}
REQUIRED_LISTS: Mapping[str, object] = {"horizons": [], "environments": [], "policies": []}


@frozen
class ExperimentConfig:
    """An experiment: the tables of its TOML file.

    Parameters
    ----------
    name : str
        The experiment's name.
    seed : int
        The root of every random stream.
    horizons : list[int]
        Numbers of rounds to play, or of visits of many users; every policy plays every horizon.
    environments, policies : list[table]
        Each names a plugin with ``use``, may give itself a ``label``, and sets the
        plugin's parameters. All are for one audience, or all for many users.
    replications : int
        Number of repetitions of each cell, each with random streams of its own.
    checkpoints : int
        Number of log-spaced rounds at which the curves are recorded.
    reveal_lam : bool
        Whether the evolution rate is revealed to policies.
    reveal_replenishing_arm : bool
        Whether it is revealed to policies which arm has the largest end state.
    reveal_visits_per_user : bool
        Whether it is revealed to policies for many users how often a user comes on average.
    feedback : table
        When policies for many users learn rewards: ``every``, ``delay``, ``delays``, ``lost``.
    benchmark : planner | false
        The planner that computes the best sequence; with false, regret is absent.
    engine : engine
        The engine that runs the cells.
    timeout : float | None
        Seconds that a cell or a benchmark may take before it is ended; no limit by default.
    plugins : table
        Plugins to disable, to require, or to load from local files.
    """

    name: str
    seed: int
    horizons: tuple[int, ...]
    environments: tuple[EnvironmentRef, ...]
    policies: tuple[PolicyRef, ...]
    replications: int = 1
    checkpoints: int = 50
    reveal_lam: bool = True
    reveal_replenishing_arm: bool = False
    reveal_visits_per_user: bool = True
    feedback: FeedbackConfig = field(factory=FeedbackConfig)
    benchmark: PlannerRef | Literal[False] = "certified"
    engine: EngineRef = "processes"
    timeout: float | None = None
    plugins: PluginsConfig = field(factory=PluginsConfig)


def is_horizon(value: int) -> bool:
    """Return whether an experiment may have so many rounds."""
    return 1 <= value <= MAX_HORIZON


def value_mistakes(config: ExperimentConfig) -> list[Mistake]:
    """Return what is wrong with numbers and lengths, whatever the plugins say."""
    mistakes = [
        Mistake(key, f"must be at least {minimum}, got {value}")
        for key, minimum in MIN_VALUES.items()
        if (value := getattr(config, key)) < minimum
    ]
    if not config.name.strip() or len(config.name) > MAX_LABEL_LENGTH:
        mistakes.append(Mistake("name", f"must have 1 to {MAX_LABEL_LENGTH} characters"))
    if config.seed >= N_SEEDS:
        mistakes.append(Mistake("seed", "must be from 0 to 2^128 - 1"))
    if config.checkpoints > MAX_CHECKPOINTS:
        mistakes.append(Mistake("checkpoints", f"must be at most {MAX_CHECKPOINTS:,}"))
    if len(config.horizons) > MAX_HORIZONS:
        many = f"has {len(config.horizons):,} entries; the maximum is {MAX_HORIZONS:,}"
        mistakes.append(Mistake("horizons", many))
    mistakes += [
        Mistake(f"horizons[{index}]", f"must be from 1 to {MAX_HORIZON:,}, got {horizon}")
        for index, horizon in enumerate(config.horizons)
        if not is_horizon(horizon)
    ]
    if config.timeout is not None and not 0 < config.timeout <= MAX_TIMEOUT:
        what = f"must be above 0 and at most {MAX_TIMEOUT:,} seconds, got {config.timeout:g}"
        mistakes.append(Mistake("timeout", what))
    horizons = list(filter(is_horizon, config.horizons))
    if len(set(horizons)) < len(horizons):
        mistakes.append(Mistake("horizons", "names a horizon twice"))
    return mistakes + [
        Mistake(key, "needs at least one entry")
        for key in REQUIRED_LISTS
        if not getattr(config, key)
    ]
