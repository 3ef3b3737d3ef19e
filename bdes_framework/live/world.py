"""``world.toml``: users whose truth is known, for a live service to be tried on."""

from collections.abc import Mapping
from pathlib import Path

from attrs import evolve, field, frozen

from bdes_framework._internal.files import parse_toml, read_text
from bdes_framework._internal.seeding import N_SEEDS, branch
from bdes_framework.errors import BdesError, ConfigError, Mistake
from bdes_framework.interfaces import CrowdEnvironment, CrowdEnvironmentRef, Kind
from bdes_framework.live.config import with_files
from bdes_framework.plugin.config_values import structure
from bdes_framework.plugin.plugins import Plugins
from bdes_framework.simulation.feedback import Feedback, FeedbackConfig

FILE = "world.toml"
MAX_VISITS = 10**7


@frozen
class WorldConfig:
    """Users whose truth is known: the tables of a ``world.toml``.

    Parameters
    ----------
    users : crowd environment
        Who comes, and what the arms really pay and do.
    visits : int
        How many visits, at most.
    seed : int
        The root of every random stream of these users.
    feedback : table
        When the service is told rewards: ``every``, ``delay``, ``delays``, ``lost``, as in an
        experiment.
    """

    users: CrowdEnvironmentRef
    visits: int
    seed: int = 1
    feedback: FeedbackConfig = field(factory=FeedbackConfig)


@frozen(eq=False)
class World:
    """A checked world: builds its users as often as needed, alike every time."""

    config: WorldConfig
    plugins: Plugins
    source: str

    def environment(self) -> CrowdEnvironment:
        """Return the users, of whom nobody has come yet."""
        seed = branch(self.config.seed, "replication", 0)
        return self.plugins.crowd_environment(self.config.users, seed=seed)

    @property
    def feedback(self) -> Feedback:
        """When rewards are told, with a seed."""
        rules = self.config.feedback
        seed = branch(branch(self.config.seed, "replication", 0), "feedback")
        return Feedback(rules.every, rules.delay, rules.delays, rules.lost, seed=seed)

    def with_seed(self, seed: int) -> "World":
        """Return the same world with other random numbers."""
        return evolve(self, config=evolve(self.config, seed=seed))


def load_world(file: Path, plugins: Plugins) -> World:
    """Read a ``world.toml``; raise ConfigError with every mistake in it."""
    return build_world(parse_toml(read_text(file), file), str(file), file.parent, plugins)


def build_world(tables: Mapping[str, object], source: str, folder: Path, plugins: Plugins) -> World:
    """Check the tables of a ``world.toml``; raise ConfigError with every mistake in them."""
    config = structure(WorldConfig, tables, source)
    mistakes = list(_value_mistakes(config))
    try:
        users = with_files(plugins, Kind.CROWD_ENVIRONMENT, config.users, folder)
        config = evolve(config, users=users)
    except ConfigError as error:
        mistakes += error.mistakes
    except BdesError as error:
        mistakes.append(Mistake("users", str(error)))
    if mistakes:
        raise ConfigError(mistakes, source)
    return World(config, plugins, source)


def _value_mistakes(config: WorldConfig) -> "list[Mistake]":
    found = []
    if not 1 <= config.visits <= MAX_VISITS:
        found.append(Mistake("visits", f"expected 1 to {MAX_VISITS:,}, got {config.visits:,}"))
    if not 0 <= config.seed < N_SEEDS:
        found.append(Mistake("seed", f"expected an integer from 0 to 2^128 - 1, got {config.seed}"))
    return found
