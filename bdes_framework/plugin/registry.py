"""The registrar that plugins register with, and the tables of what is registered.

Each plugin has a registrar of its own, whose entries are added to the tables only when all
went well. So a plugin that fails half-way leaves nothing behind.
"""

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal, TypeAlias, TypeVar, get_type_hints

import attrs
from attrs import AttrsInstance, field, frozen

from bdes_framework._internal.text import (
    did_you_mean,
    error_text,
    listed,
    one_line,
    quoted,
    with_article,
)
from bdes_framework.errors import PluginError
from bdes_framework.interfaces import (
    BuildContext,
    CrowdEnvironment,
    CrowdPolicy,
    CrowdPolicyContext,
    Engine,
    Environment,
    Journal,
    Kind,
    NoiseModel,
    Planner,
    Policy,
    PolicyContext,
)

ConfigT = TypeVar("ConfigT", bound=AttrsInstance)

REVEALED: Mapping[Kind, tuple[str, ...]] = {
    Kind.POLICY: ("lam", "replenishing_arm"),
    Kind.CROWD_POLICY: ("lam", "visits_per_user"),
}
"""What an experiment may reveal to policies, of the instance or of its users."""

COUNTERPARTS: Mapping[Kind, Kind] = {
    Kind.ENVIRONMENT: Kind.CROWD_ENVIRONMENT,
    Kind.POLICY: Kind.CROWD_POLICY,
    Kind.CROWD_ENVIRONMENT: Kind.ENVIRONMENT,
    Kind.CROWD_POLICY: Kind.POLICY,
}
"""Kinds that an experiment file names in the same place, so that no name may be of both."""

Uses: TypeAlias = Collection[str] | Callable[[Any], Collection[str]]
"""What a policy uses of that: names, or a function of its config that returns them."""

FIRST_PARTY = "bdes-framework"
"""The distribution whose plugins load first, so that nobody takes their names."""

LOCAL_OBJECT = "local object"
"""What stands in place of a distribution's name for a plugin that is an object in memory."""

RESERVED_FIELDS = frozenset({"use", "label", "seed", "problem"})
"""Field names that config classes may not use."""

LIST_ITEM = re.compile(r"(?m)^(?=\s*(?:[-*]|\d+\.) )")
"""Matches where an item of a list begins in a docstring."""

_SECTION = re.compile(r"^\w[^\n]*\n-{3,}$", re.MULTILINE)

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@frozen
class Entry:
    """A registered name, with its kind, config class and factory.

    Parameters
    ----------
    kind : Kind
        What it is.
    name : str
        What config files and look-ups call it.
    config : type[AttrsInstance]
        Its attrs config class; the fields are its parameters.
    build : Callable[[Any, Any], object]
        ``build(config, context)`` makes one.
    plugin : str
        The plugin that registered it.
    distribution : str
        The distribution that plugin came from.
    uses : Uses | None
        What a policy uses of what may be revealed of the instance; None if it does not say.
    """

    kind: Kind
    name: str
    config: type[AttrsInstance]
    build: Callable[[Any, Any], object] = field(repr=False)
    plugin: str
    distribution: str
    uses: Uses | None = field(default=None, repr=False)

    def revealed(self, config: AttrsInstance) -> tuple[str, ...]:
        """Return what of the instance a policy with this config may be told."""
        if self.uses is None:
            return REVEALED[self.kind]
        try:
            found = self.uses(config) if callable(self.uses) else self.uses
        except Exception as error:
            what = f"policy {self.name!r}: its function 'uses' raised {error_text(error)}"
            raise PluginError(what) from error
        _check_uses(self.kind, self.name, found)
        return tuple(name for name in REVEALED[self.kind] if name in found)

    @property
    def summary(self) -> str:
        """First paragraph of the config class's docstring, on one line."""
        return one_line(self._paragraphs()[0])

    @property
    def explanation(self) -> list[str]:
        """Other paragraphs and list items of the docstring, before its sections."""
        items = [item for text in self._paragraphs()[1:] for item in LIST_ITEM.split(text)]
        return [one_line(item, 2000) for item in items if item.strip()]

    def _paragraphs(self) -> list[str]:
        text = inspect.cleandoc(self.config.__doc__ or "")
        return _SECTION.split(text, maxsplit=1)[0].strip().split("\n\n")


@frozen
class PluginStatus:
    """A plugin, whether it is loaded, disabled or failed, and what it registered.

    Parameters
    ----------
    name, distribution, version : str
        Which plugin it is.
    state : Literal["loaded", "disabled", "failed"]
        What became of it.
    reason : str
        Why it failed, on one line; empty otherwise.
    details : str
        The traceback of a failure; empty otherwise.
    entries : tuple[Entry, ...]
        What it registered, or, if it failed, what it had tried to register.
    """

    name: str
    distribution: str
    version: str
    state: Literal["loaded", "disabled", "failed"]
    reason: str = ""
    details: str = field(default="", repr=False)
    entries: tuple[Entry, ...] = field(default=(), repr=False)

    @property
    def is_local(self) -> bool:
        """Whether it is a local file or module, not installed."""
        return self.distribution.startswith("local ")

    @property
    def origin(self) -> str:
        """Distribution and version."""
        return f"{self.distribution} {self.version}".strip()


class Registrar:
    """Registers what a plugin offers: the argument of ``bdes_register``, one method per kind.

    Each takes the name to register, an attrs config class whose fields are the parameters,
    and a factory ``build(config, context)``. A factory for another config class is a type
    error in its author's editor.
    """

    def __init__(self, plugin: str, distribution: str) -> None:
        self._plugin = plugin
        self._distribution = distribution
        self._entries: list[Entry] = []

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What has been registered so far, in order."""
        return tuple(self._entries)

    def environment(
        self,
        name: str,
        config: type[ConfigT],
        build: Callable[[ConfigT, BuildContext], Environment],
    ) -> None:
        """Register an environment."""
        self._add(Kind.ENVIRONMENT, name, config, build)

    def policy(
        self,
        name: str,
        config: type[ConfigT],
        build: Callable[[ConfigT, PolicyContext], Policy],
        *,
        uses: Collection[str] | Callable[[ConfigT], Collection[str]] | None = None,
    ) -> None:
        """Register a policy.

        ``uses`` names what it uses of what an experiment may reveal of the instance: ``lam``,
        ``replenishing_arm``; or a function of the config does. It is told nothing else, and
        results say what each policy was told. Without ``uses`` it is told all that is revealed.
        """
        self._add(Kind.POLICY, name, config, build, uses)

    def planner(
        self, name: str, config: type[ConfigT], build: Callable[[ConfigT, BuildContext], Planner]
    ) -> None:
        """Register a planner."""
        self._add(Kind.PLANNER, name, config, build)

    def noise_model(
        self, name: str, config: type[ConfigT], build: Callable[[ConfigT, BuildContext], NoiseModel]
    ) -> None:
        """Register a noise model."""
        self._add(Kind.NOISE_MODEL, name, config, build)

    def engine(
        self, name: str, config: type[ConfigT], build: Callable[[ConfigT, BuildContext], Engine]
    ) -> None:
        """Register an engine that runs an experiment's cells."""
        self._add(Kind.ENGINE, name, config, build)

    def crowd_environment(
        self,
        name: str,
        config: type[ConfigT],
        build: Callable[[ConfigT, BuildContext], CrowdEnvironment],
    ) -> None:
        """Register an environment of many users."""
        self._add(Kind.CROWD_ENVIRONMENT, name, config, build)

    def crowd_policy(
        self,
        name: str,
        config: type[ConfigT],
        build: Callable[[ConfigT, CrowdPolicyContext], CrowdPolicy],
        *,
        uses: Collection[str] | Callable[[ConfigT], Collection[str]] | None = None,
    ) -> None:
        """Register a policy for many users.

        ``uses`` as for :meth:`policy`; here the names are ``lam`` and ``visits_per_user``.
        """
        self._add(Kind.CROWD_POLICY, name, config, build, uses)

    def journal(
        self, name: str, config: type[ConfigT], build: Callable[[ConfigT, BuildContext], Journal]
    ) -> None:
        """Register a journal that keeps what happens to a live learner."""
        self._add(Kind.JOURNAL, name, config, build)

    def _add(
        self,
        kind: Kind,
        name: str,
        config: type[AttrsInstance],
        build: Callable[..., object],
        uses: Uses | None = None,
    ) -> None:
        if uses is not None and not callable(uses):
            if isinstance(uses, str):
                raise PluginError(f"policy {name!r}: 'uses' must be a list of names, got a string")
            _check_uses(kind, name, uses)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise PluginError(
                f"{quoted(name)} cannot name {with_article(str(kind))}: use 1 to 64 lower-case"
                " letters, digits, '.', '_' and '-', starting with a letter or digit"
            )
        what = f"{kind} {name!r}"
        if not (isinstance(config, type) and attrs.has(config)):
            raise PluginError(f"{what}: expected an attrs class as config, got {quoted(config)}")
        if not callable(build):
            raise PluginError(f"{what}: expected a factory, got {quoted(build)}")
        reserved = RESERVED_FIELDS & {attribute.name for attribute in attrs.fields(config)}
        if reserved:
            raise PluginError(
                f"{what}: {config.__name__} has a field {sorted(reserved)[0]!r},"
                f" a reserved name ({', '.join(sorted(RESERVED_FIELDS))})"
            )
        try:
            get_type_hints(config, include_extras=True)
        except Exception as error:
            raise PluginError(
                f"{what}: a type in {config.__name__} cannot be resolved: {error_text(error)}"
            ) from error
        origin = self._plugin, self._distribution
        self._entries.append(Entry(kind, name, config, build, *origin, uses))


def _check_uses(kind: Kind, policy: str, uses: Collection[str]) -> None:
    """Raise PluginError if a policy uses what nobody can reveal."""
    for name in uses:
        if name not in REVEALED[kind]:
            raise PluginError(
                f"{kind} {policy!r} uses {quoted(name)}, which cannot be revealed."
                f"{did_you_mean(str(name), REVEALED[kind])} What can be: {listed(REVEALED[kind])}"
            )


class Registry:
    """Everything that loaded plugins have registered, by kind and name."""

    def __init__(self) -> None:
        self._tables: dict[Kind, dict[str, Entry]] = {kind: {} for kind in Kind}

    def add(self, entries: tuple[Entry, ...]) -> None:
        """Add a plugin's entries, all or none; raise PluginError if a name is taken."""
        tables = {kind: dict(table) for kind, table in self._tables.items()}
        for entry in entries:
            counterpart = COUNTERPARTS.get(entry.kind)
            namesake = tables[counterpart].get(entry.name) if counterpart else None
            if namesake is not None:
                raise PluginError(
                    f"{entry.kind} {entry.name!r} of {entry.distribution} has the name of the"
                    f" {namesake.kind} of plugin {namesake.plugin!r} of {namesake.distribution};"
                    " experiment files name both in the same place"
                )
            for other in tables[entry.kind].values():
                if other.name == entry.name:
                    raise PluginError(
                        f"{entry.kind} {entry.name!r} of {entry.distribution} is already"
                        f" registered by plugin {other.plugin!r} of {other.distribution}"
                    )
                if other.config is entry.config:
                    raise PluginError(
                        f"{entry.kind} {entry.name!r}: config class {entry.config.__name__} already"
                        f" belongs to {other.name!r}; every name needs a config class of its own"
                    )
            tables[entry.kind][entry.name] = entry
        self._tables = tables

    def table(self, kind: Kind) -> Mapping[str, Entry]:
        """Return the entries of one kind by name."""
        return self._tables[kind]

    def __iter__(self) -> Iterator[Entry]:
        for table in self._tables.values():
            yield from table.values()
