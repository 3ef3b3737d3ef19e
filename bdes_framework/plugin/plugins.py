"""Loaded plugins: look things up by name, check their parameters and build them.

Building looks a name up in a table; no hook is called.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias, cast

import pluggy
from attrs import AttrsInstance, evolve
from numpy.random import Generator, SeedSequence

from bdes_framework._internal.display import html_facts, shown_fields, shown_names
from bdes_framework._internal.files import working_folder_restored
from bdes_framework._internal.interrupts import is_interrupt
from bdes_framework._internal.seeding import Seed, branch, generator
from bdes_framework._internal.text import did_you_mean, error_text, listed, quoted, with_article
from bdes_framework.errors import (
    BdesError,
    ConfigError,
    ContractError,
    Mistake,
    PluginError,
    UnknownNameError,
)
from bdes_framework.interfaces import (
    CrowdEnvironment,
    CrowdPolicy,
    Engine,
    Environment,
    Journal,
    Kind,
    NoiseModel,
    Planner,
    Policy,
    Reference,
)
from bdes_framework.model.instance import CrowdProblem, Problem
from bdes_framework.plugin.config_types import TableType
from bdes_framework.plugin.config_values import references_in, structure
from bdes_framework.plugin.fingerprint import (
    ChangedCodeError,
    describe_change,
    framework_code,
)
from bdes_framework.plugin.registry import (
    COUNTERPARTS,
    LOCAL_OBJECT,
    REVEALED,
    Entry,
    PluginStatus,
    Registry,
)

_AnyProblem: TypeAlias = Problem | CrowdProblem

_PROTOCOLS: Mapping[Kind, type] = {
    Kind.ENVIRONMENT: Environment,
    Kind.POLICY: Policy,
    Kind.PLANNER: Planner,
    Kind.NOISE_MODEL: NoiseModel,
    Kind.ENGINE: Engine,
    Kind.CROWD_ENVIRONMENT: CrowdEnvironment,
    Kind.CROWD_POLICY: CrowdPolicy,
    Kind.JOURNAL: Journal,
}


_FOR_MANY_USERS = (Kind.CROWD_ENVIRONMENT, Kind.CROWD_POLICY)


class Plugins:
    """Plugins that were found, and everything the loaded ones registered.

    Made by :func:`load_plugins`. A thing is built from its name and keywords, from a table
    ``{"use": name, ...}``, or from a config object, which is the fully typed way.

    >>> from bdes_framework import load_plugins
    >>> load_plugins(disabled=["bdes-framework"])
    Plugins(
        loaded=0,
        environments=0, 0 for many users,
        policies=0, 0 for many users,
        planners=0,
        noise_models=0,
        engines=0,
        journals=0,
    )
    """

    def __init__(
        self,
        statuses: Sequence[PluginStatus],
        registry: Registry,
        hooks: pluggy.PluginManager,
        code: Mapping[str, tuple[str, str]],
        reload: tuple[Callable[..., "Plugins"], tuple[object, ...]],
    ) -> None:
        self._statuses = tuple(statuses)
        self._registry = registry
        self._hooks = hooks
        self._code = code
        self._reload = reload

    def __reduce__(self) -> tuple[Callable[..., "Plugins"], tuple[object, ...]]:
        # Other processes load plugins by name themselves; modules and factories do not travel.
        if self.in_memory:
            raise PluginError(f"{self._only_here()}, so no other process can have it")
        return self._reload

    def __repr__(self) -> str:
        states = Counter(status.state for status in self._statuses)
        counts = {
            f"{kind.value}s".replace("ys", "ies"): self._count(kind)
            for kind in Kind
            if kind not in _FOR_MANY_USERS
        }
        failed = [status.name for status in self._statuses if status.state == "failed"]
        named = {"failed": shown_names(failed)} if failed else {}
        return shown_fields("Plugins", loaded=states["loaded"], **named, **counts)

    def _repr_html_(self) -> str:
        rows = [(kind.value, ", ".join(e.name for e in self.entries(kind))) for kind in Kind]
        failed = [(f"{s.name}: failed", s.reason) for s in self._statuses if s.state == "failed"]
        return html_facts("Plugins", rows + failed)

    def _count(self, kind: Kind) -> str:
        """Return how many are registered, and how many of the same for many users."""
        n, other = len(self._registry.table(kind)), COUNTERPARTS.get(kind)
        if other is None:
            return f"{n}"
        return f"{n}, {len(self._registry.table(other))} for many users"

    @property
    def statuses(self) -> tuple[PluginStatus, ...]:
        """Status of each plugin, in loading order."""
        return self._statuses

    @property
    def in_memory(self) -> tuple[Entry, ...]:
        """What objects in memory registered: no other process has it."""
        return tuple(entry for entry in self._registry if entry.distribution == LOCAL_OBJECT)

    def check_engine(self, ref: Reference) -> None:
        """Raise PluginError if an engine is not for these plugins; the request is wrong then.

        What objects in memory registered needs one that says it is ``in_process``.
        """
        engine = self.engine(ref)
        if self.in_memory and getattr(engine, "in_process", False) is not True:
            name = self.resolve(Kind.ENGINE, ref)[0].name
            raise PluginError(
                f"{self._only_here()}, and engine {name!r} may run cells in other processes, which"
                " do not have it: use engine 'serial', or put the plugin into a file and name that"
                " in the experiment's [plugins] modules"
            )

    def _only_here(self) -> str:
        entry = self.in_memory[0]
        return f"{entry.kind} {entry.name!r} comes from an object in memory, {entry.plugin!r}"

    def entries(self, kind: Kind | None = None) -> tuple[Entry, ...]:
        """Return everything registered, or everything of one kind."""
        if kind is None:
            return tuple(self._registry)
        return tuple(self._registry.table(kind).values())

    def environment(self, ref: Reference, *, seed: Seed, **parameters: object) -> Environment:
        """Build an environment; its random numbers come from ``seed`` alone."""
        return cast(Environment, self._top(Kind.ENVIRONMENT, ref, parameters, seed))

    def policy(
        self, ref: Reference, problem: Problem, *, seed: Seed, **parameters: object
    ) -> Policy:
        """Build a policy for a problem; its random choices come from ``seed`` alone."""
        return cast(Policy, self._top(Kind.POLICY, ref, parameters, seed, problem))

    def planner(self, ref: Reference, *, seed: Seed = 0, **parameters: object) -> Planner:
        """Build a planner."""
        return cast(Planner, self._top(Kind.PLANNER, ref, parameters, seed))

    def noise_model(self, ref: Reference, *, seed: Seed = 0, **parameters: object) -> NoiseModel:
        """Build a noise model."""
        return cast(NoiseModel, self._top(Kind.NOISE_MODEL, ref, parameters, seed))

    def engine(self, ref: Reference, **parameters: object) -> Engine:
        """Build an engine."""
        return cast(Engine, self._top(Kind.ENGINE, ref, parameters, 0))

    def crowd_environment(
        self, ref: Reference, *, seed: Seed, **parameters: object
    ) -> CrowdEnvironment:
        """Build an environment of many users; its random numbers come from ``seed`` alone."""
        return cast(CrowdEnvironment, self._top(Kind.CROWD_ENVIRONMENT, ref, parameters, seed))

    def crowd_policy(
        self, ref: Reference, problem: CrowdProblem, *, seed: Seed, **parameters: object
    ) -> CrowdPolicy:
        """Build a policy for many users; its random choices come from ``seed`` alone."""
        return cast(CrowdPolicy, self._top(Kind.CROWD_POLICY, ref, parameters, seed, problem))

    def journal(self, ref: Reference, **parameters: object) -> Journal:
        """Build a journal; it is not open yet."""
        return cast(Journal, self._top(Kind.JOURNAL, ref, parameters, 0))

    def entry(self, kind: Kind, name: str) -> Entry:
        """Return the entry called ``name``, or raise with why there is none and what there is."""
        found = self._registry.table(kind).get(name)
        if found is not None:
            return found
        for status in self._statuses:
            failed = status.entries if status.state == "failed" else ()
            if any(entry.kind is kind and entry.name == name for entry in failed):
                raise PluginError(
                    f"{kind} {quoted(name)} belongs to plugin {status.name!r} of {status.origin},"
                    f" which failed to load: {status.reason}"
                )
        names = list(self._registry.table(kind))
        other = COUNTERPARTS.get(kind)
        if other is not None and name in self._registry.table(other):
            raise UnknownNameError(f"{quoted(name)} is a {other}, and no {kind}")
        raise UnknownNameError(
            f"no {kind} is called {quoted(name)}.{did_you_mean(name, names)}"
            f" Registered: {listed(names)}.{self._not_loaded()}"
        )

    def kind_in_file(self, kind: Kind, name: str) -> Kind:
        """Return the kind an experiment file means by a name: ``kind``, or that for many users."""
        other = COUNTERPARTS[kind]
        own, others = self._registry.table(kind), self._registry.table(other)
        if name in own or name in others:
            return kind if name in own else other
        return other if did_you_mean(name, others) and not did_you_mean(name, own) else kind

    def origin(self, entry: Entry) -> str:
        """Return where an entry comes from: distribution and version, or a local file."""
        for status in self._statuses:
            if (status.name, status.distribution) == (entry.plugin, entry.distribution):
                local = f"{status.distribution} {status.name}"
                return local if status.is_local else status.origin
        return entry.distribution

    def resolve(
        self,
        kind: Kind,
        ref: Reference,
        parameters: Mapping[str, object] | None = None,
        source: str = "",
        path: str = "",
    ) -> tuple[Entry, AttrsInstance]:
        """Return the entry and config of a reference, with nested references checked.

        Builds nothing. ``source`` and ``path`` say where the reference stands, for messages.
        """
        given = dict(parameters or {})
        if not isinstance(ref, str | Mapping):
            if given:
                raise ConfigError([Mistake("", "give keywords or a config object, not both")])
            entry, config = self._entry_of_config(kind, type(ref)), ref
            place = source or f"{kind} {entry.name!r}"
        else:
            table = {"use": ref} if isinstance(ref, str) else dict(ref)
            name = table.pop("use", None)
            if not isinstance(name, str):
                wanted = f"needs 'use', naming {with_article(str(kind))}"
                raise ConfigError([Mistake(path, wanted)], source)
            entry, values = self.entry(kind, name), table | given
            place = source or f"{kind} {entry.name!r}"
            try:
                config = structure(entry.config, values, place, path)
            except ConfigError as error:
                # What is wrong with a table does not hide what is wrong with those inside it.
                inner = self._nested_mistakes(entry.config, values, place, path)
                raise ConfigError([*error.mistakes, *inner], place) from None
        mistakes = self._nested_mistakes(type(config), config, place, path)
        if mistakes:
            raise ConfigError(mistakes, place)
        return entry, config

    def code_of(self, entry: Entry, config: AttrsInstance) -> dict[str, str]:
        """Return the names and versions of the code of an entry and of all it references."""
        name, version = self._code[entry.plugin]
        code = {name: version}
        for kind, reference, _ in references_in(TableType(type(config)), config, ""):
            code |= self.code_of(*self.resolve(kind, reference))
        return code

    @cached_property
    def _loaded_code(self) -> dict[str, str]:
        return {**framework_code(), **dict(self._code.values())}

    def check_code(self, expected: Mapping[str, str]) -> None:
        """Raise ChangedCodeError unless the code loaded here is what is expected."""
        for name, version in expected.items():
            loaded = self._loaded_code.get(name)
            if loaded != version:
                change = describe_change(name, version, loaded)
                raise ChangedCodeError(
                    f"a worker has other code than the run began with: {change};"
                    " run the same command to go on"
                )

    def _entry_of_config(self, kind: Kind, config: type[AttrsInstance]) -> Entry:
        for entry in self.entries(kind):
            if entry.config is config:
                return entry
        raise UnknownNameError(
            f"no {kind} is registered with config class {quoted(config.__name__)}. Registered:"
            f" {listed(e.config.__name__ for e in self.entries(kind))}.{self._not_loaded()}"
        )

    def _nested_mistakes(
        self, cls: type[AttrsInstance], given: object, source: str, path: str
    ) -> list[Mistake]:
        """Return the mistakes in the references inside a config, or inside a table for one."""
        mistakes: list[Mistake] = []
        for kind, reference, place in references_in(TableType(cls), given, path):
            try:
                self.resolve(kind, reference, source=source, path=place)
            except ConfigError as error:
                mistakes += error.mistakes
            except BdesError as error:
                mistakes.append(Mistake(place, str(error)))
        return mistakes

    def _top(
        self,
        kind: Kind,
        ref: Reference,
        parameters: Mapping[str, object],
        seed: Seed,
        problem: _AnyProblem | None = None,
    ) -> object:
        entry, config = self.resolve(kind, ref, parameters)
        context = _Context(self, branch(seed, kind.value), _told(entry, config, problem))
        return self._build(entry, config, context)

    def _build(self, entry: Entry, config: AttrsInstance, context: "_Context") -> object:
        factory = f"plugin {entry.plugin!r} of {entry.distribution}: the factory of {entry.kind}"
        try:
            built = entry.build(config, context)
        except BdesError:
            raise
        except Exception as error:
            what = f"{factory} {entry.name!r} raised {error_text(error)}"
            raise PluginError(what) from error
        protocol = _PROTOCOLS[entry.kind]
        if not isinstance(built, protocol):
            members = sorted(name for name in vars(protocol) if not name.startswith("_"))
            lacking = listed(name for name in members if not hasattr(built, name))
            kind = quoted(type(built).__name__)
            raise ContractError(f"{factory} {entry.name!r} returned {kind}, which lacks {lacking}")
        return built

    def _not_loaded(self) -> str:
        out = [f"{r.name} ({r.state})" for r in self._statuses if r.state != "loaded"]
        return f" Not loaded: {listed(out)}; see 'bdes plugins --config FILE'." if out else ""

    def announce(self, hook: str, **arguments: object) -> None:
        """Call a run hook in every plugin; what one raises is only a warning."""
        implementations = getattr(self._hooks.hook, hook).get_hookimpls()
        for plugin in [implementation.plugin for implementation in implementations]:
            others = [other for other in self._hooks.get_plugins() if other is not plugin]
            try:
                with working_folder_restored():
                    self._hooks.subset_hook_caller(hook, others)(**arguments)
            except BaseException as error:  # sys.exit in a hook ends no run
                if is_interrupt(error):
                    raise
                name = self._hooks.get_name(plugin)
                message = f"plugin {name!r}: {hook} raised {error_text(error)}"
                warnings.warn(message, RuntimeWarning, stacklevel=2)


def _told(entry: Entry, config: AttrsInstance, problem: _AnyProblem | None) -> _AnyProblem | None:
    """Return the problem without what the policy does not use: so it cannot have been told it."""
    if problem is None or entry.uses is None:
        return problem
    told = entry.revealed(config)
    hidden: dict[str, Any] = {name: None for name in REVEALED[entry.kind] if name not in told}
    return evolve(problem, **hidden)


class _Context:
    """The implementation of BuildContext, PolicyContext and CrowdPolicyContext."""

    def __init__(self, plugins: Plugins, seed: SeedSequence, problem: _AnyProblem | None) -> None:
        self._plugins = plugins
        self._seed = seed
        self._problem = problem
        self._built = 0

    @cached_property
    def rng(self) -> Generator:
        return generator(branch(self._seed, "main"))

    @property
    def problem(self) -> _AnyProblem:
        if self._problem is None:
            raise ContractError("only a policy's factory has a problem")
        return self._problem

    def stream(self, name: str) -> Generator:
        return generator(branch(self._seed, "stream", name))

    def environment(self, ref: Reference) -> Environment:
        return cast(Environment, self._nested(Kind.ENVIRONMENT, ref))

    def policy(self, ref: Reference, problem: Problem | None = None) -> Policy:
        given = problem or self.problem
        if not isinstance(given, Problem):
            raise ContractError(
                "a crowd policy's factory must say for which Problem: one audience's"
            )
        return cast(Policy, self._nested(Kind.POLICY, ref, given))

    def user_policy(self, ref: Reference, problem: Problem, user: int, copy: int = 0) -> Policy:
        seed = branch(self._seed, "user", user, copy)
        return cast(Policy, self._build(Kind.POLICY, ref, problem, seed))

    def crowd_environment(self, ref: Reference) -> CrowdEnvironment:
        return cast(CrowdEnvironment, self._nested(Kind.CROWD_ENVIRONMENT, ref))

    def crowd_policy(self, ref: Reference, problem: CrowdProblem | None = None) -> CrowdPolicy:
        given = problem or self.problem
        if not isinstance(given, CrowdProblem):
            raise ContractError("a policy's factory must say for which CrowdProblem")
        return cast(CrowdPolicy, self._nested(Kind.CROWD_POLICY, ref, given))

    def planner(self, ref: Reference) -> Planner:
        return cast(Planner, self._nested(Kind.PLANNER, ref))

    def noise_model(self, ref: Reference) -> NoiseModel:
        return cast(NoiseModel, self._nested(Kind.NOISE_MODEL, ref))

    def engine(self, ref: Reference) -> Engine:
        return cast(Engine, self._nested(Kind.ENGINE, ref))

    def journal(self, ref: Reference) -> Journal:
        return cast(Journal, self._nested(Kind.JOURNAL, ref))

    def _nested(self, kind: Kind, ref: Reference, problem: _AnyProblem | None = None) -> object:
        """Build with a random stream that depends only on how many were built before."""
        seed = branch(self._seed, "nested", self._built)
        self._built += 1
        return self._build(kind, ref, problem, seed)

    def _build(
        self, kind: Kind, ref: Reference, problem: _AnyProblem | None, seed: SeedSequence
    ) -> object:
        entry, config = self._plugins.resolve(kind, ref)
        inner = _Context(self._plugins, seed, _told(entry, config, problem))
        return self._plugins._build(entry, config, inner)
