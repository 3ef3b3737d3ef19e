"""``live.toml``: what a live learner shows, how it learns, and where it keeps what happened."""

import math
import re
from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Literal

from attrs import field, fields, frozen

from bdes_framework._internal.files import parse_toml, read_text
from bdes_framework._internal.seeding import N_SEEDS
from bdes_framework._internal.text import quoted
from bdes_framework.errors import BdesError, ConfigError, Mistake
from bdes_framework.interfaces import CrowdPolicyRef, JournalRef, Kind, Reference
from bdes_framework.live.serve_config import ServeConfig
from bdes_framework.model.instance import CrowdProblem
from bdes_framework.plugin.config_values import structure
from bdes_framework.plugin.load import PluginsConfig, load_plugins
from bdes_framework.plugin.plugins import Plugins

FILE = "live.toml"
MAX_ARMS = 1_000
MAX_NAME = 64
"""Characters of an arm's name, or of the learner's."""
_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?) ?(s|min|h|d)", re.ASCII)


@frozen
class LiveConfig:
    """A live learner: the tables of its ``live.toml``.

    Parameters
    ----------
    name : str
        What it is called.
    arms : list[str]
        Its first arms, which are numbered in this order; others are added and retired while it
        runs.
    policy : crowd policy
        What decides and learns.
    visits_per_user : float | None
        How often a user is expected to come; learned if it is not given.
    visits : int
        How many visits are expected in all.
    lam : float | None
        The evolution rate, if it is known.
    q0 : float
        The state of every user at their first visit.
    seed : int
        The root of every random stream.
    floor : float
        Every active arm is shown with at least this probability.
    reward_window : str
        How long the reward of a decision is waited for: a number and ``s``, ``min``, ``h`` or
        ``d``.
    default_reward : float | "none"
        The reward of a decision whose window is over; with "none" it stays unknown.
    retention : str | None
        Names of users not seen for so long are forgotten.
    journal : journal
        Where everything that happens is kept.
    serve : table
        Where the service listens.
    plugins : table
        Plugins to disable, to require, or to load from local files.
    """

    name: str
    arms: tuple[str, ...]
    policy: CrowdPolicyRef = "crowd-posterior"
    visits_per_user: float | None = None
    visits: int = 1_000_000
    lam: float | None = None
    q0: float = 1.0
    seed: int = 1
    floor: float = 0.01
    reward_window: str = "1 h"
    default_reward: float | Literal["none"] = 0.0
    retention: str | None = None
    journal: JournalRef = "sqlite"
    serve: ServeConfig = field(factory=ServeConfig)
    plugins: PluginsConfig = field(factory=PluginsConfig)

    @property
    def window_seconds(self) -> float:
        """How long the reward of a decision is waited for."""
        return seconds(self.reward_window)

    @property
    def retention_seconds(self) -> float | None:
        """How long a user's name is kept after their last visit; None for ever."""
        return None if self.retention is None else seconds(self.retention)

    @property
    def settled_as(self) -> float | None:
        """The reward of decisions that were waited for long enough; None if it stays unknown."""
        return None if isinstance(self.default_reward, str) else self.default_reward

    @property
    def problem(self) -> CrowdProblem:
        """What the policy may know."""
        return CrowdProblem(
            len(self.arms), self.visits, self.visits_per_user, lam=self.lam, q0=self.q0
        )


@frozen(eq=False)
class LiveSetup:
    """A live learner's config, its folder and plugins: all that is needed to open it."""

    config: LiveConfig
    folder: Path
    plugins: Plugins

    @property
    def policy(self) -> Reference:
        """The policy, with whole names of files."""
        return with_files(self.plugins, Kind.CROWD_POLICY, self.config.policy, self.folder)

    @property
    def journal(self) -> Reference:
        """The journal, with whole names of files."""
        return with_files(self.plugins, Kind.JOURNAL, self.config.journal, self.folder)


def seconds(text: str) -> float:
    """Return how long ``90 s``, ``10 min``, ``1 h`` or ``400 d`` are.

    >>> seconds("1.5 h")
    5400.0
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"expected a number and s, min, h or d, such as '1 h', got {quoted(text)}")
    return float(found[1]) * _UNITS[found[2]]


def load_live(folder: str | Path, plugins: Plugins | None = None) -> LiveSetup:
    """Read a folder's ``live.toml``; raise ConfigError with every mistake in it."""
    place = Path(folder)
    file = place / FILE
    if not file.is_file():
        raise ConfigError(
            [Mistake("", f"there is no {FILE} here; 'bdes live init' writes one")], str(place)
        )
    return build_live(parse_toml(read_text(file), file), str(file), place.resolve(), plugins)


def build_live(
    tables: Mapping[str, object], source: str, folder: Path, plugins: Plugins | None = None
) -> LiveSetup:
    """Check the tables of a ``live.toml``; raise ConfigError with every mistake in them."""
    config, mistakes = _structured(tables, source)
    mistakes += _value_mistakes(config)
    if plugins is None:
        plugins = load_plugins(config.plugins, base=folder)
        local = plugins.statuses[len(plugins.statuses) - len(config.plugins.modules) :]
        mistakes += [
            Mistake(f"plugins.modules[{i}]", f"failed to load: {status.reason}")
            for i, status in enumerate(local)
            if status.state == "failed"
        ]
    parts = (
        (Kind.CROWD_POLICY, config.policy, "policy"),
        (Kind.JOURNAL, config.journal, "journal"),
    )
    for kind, reference, path in parts:
        try:
            plugins.resolve(kind, reference, source=source, path=path)
        except ConfigError as error:
            mistakes += error.mistakes
        except BdesError as error:
            mistakes.append(Mistake(path, str(error)))
    if mistakes:
        raise ConfigError(mistakes, source)
    return LiveSetup(config, folder, plugins)


def _structured(tables: Mapping[str, object], source: str) -> tuple[LiveConfig, list[Mistake]]:
    """Return the config and what is wrong with [serve], which is then as by default.

    Its values are checked when it is built, so a wrong one would hide mistakes elsewhere.
    """
    mistakes: list[Mistake] = []
    try:
        structure(ServeConfig, tables.get("serve", {}), source, "serve")
    except ConfigError as error:
        mistakes += error.mistakes
        tables = {key: value for key, value in tables.items() if key != "serve"}
    try:
        return structure(LiveConfig, tables, source), mistakes
    except ConfigError as error:
        raise ConfigError([*mistakes, *error.mistakes], source) from None


def _value_mistakes(config: LiveConfig) -> list[Mistake]:
    found: list[Mistake] = []

    def check(is_right: bool, path: str, message: str) -> None:
        if not is_right:
            found.append(Mistake(path, message))

    check(is_name(config.name), "name", _expected_name(config.name))
    n = len(config.arms)
    check(1 <= n <= MAX_ARMS, "arms", f"expected 1 to {MAX_ARMS:,} arms, got {n:,}")
    for i, arm in enumerate(config.arms):
        check(is_name(arm), f"arms[{i}]", _expected_name(arm))
        check(arm not in config.arms[:i], f"arms[{i}]", f"{quoted(arm)} is there twice")
    visits = config.visits_per_user
    if visits is not None:
        wrong = f"expected a number of at least 1, got {visits}"
        check(1 <= visits < math.inf, "visits_per_user", wrong)
    most = 10**15
    check(
        1 <= config.visits <= most, "visits", f"expected 1 to {most:,}, got {quoted(config.visits)}"
    )
    if config.lam is not None:
        check(0 <= config.lam <= 1, "lam", f"expected a number in [0, 1], got {config.lam}")
    check(0 <= config.q0 < math.inf, "q0", f"expected a number of at least 0, got {config.q0}")
    check(
        0 <= config.seed < N_SEEDS,
        "seed",
        f"expected an integer from 0 to 2^128 - 1, got {quoted(config.seed)}",
    )
    wrong_floor = floor_mistake(config.floor, n)
    check(wrong_floor is None, "floor", wrong_floor or "")
    default = config.default_reward
    if not isinstance(default, str):
        wrong = f"expected a number in [0, 1] or 'none', got {default}"
        check(0 <= default <= 1, "default_reward", wrong)
    for path, text in (("reward_window", config.reward_window), ("retention", config.retention)):
        if text is not None:
            try:
                check(seconds(text) > 0, path, f"must be longer than nothing, got {quoted(text)}")
            except ValueError as error:
                found.append(Mistake(path, str(error)))
    return found


def floor_mistake(floor: float, n_arms: int) -> str | None:
    """Return what is wrong with showing each of so many arms with at least this probability."""
    if not 0 <= floor <= 1:
        return f"expected a probability, got {floor}"
    if floor * n_arms > 1:
        return (
            f"{n_arms} arms cannot each be shown with probability {floor:g}: at most"
            f" {1 / n_arms:.4g} is possible"
        )
    return None


def is_name(text: str) -> bool:
    """Return whether a text can be the name of an arm or of a learner."""
    return 1 <= len(text) <= MAX_NAME and text.isprintable() and text.strip() == text


def _expected_name(text: str) -> str:
    return (
        f"expected 1 to {MAX_NAME} printable characters, no space at either end, got {quoted(text)}"
    )


def check_arm_name(text: str) -> None:
    """Raise InvalidValueError unless a text can be the name of an arm."""
    from bdes_framework.errors import InvalidValueError

    if not isinstance(text, str) or not is_name(text):
        raise InvalidValueError("name of an arm: " + _expected_name(text))


def with_files(plugins: Plugins, kind: Kind, reference: Reference, folder: Path) -> Reference:
    """Return a reference whose files are named from the root, not from the folder."""
    _, config = plugins.resolve(kind, reference)
    changed = copy(config)
    for name in (each.name for each in fields(type(config))):
        if isinstance(value := getattr(config, name), Path):
            object.__setattr__(changed, name, folder / value)
    return changed
