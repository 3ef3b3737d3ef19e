"""Trying a live service on users whose truth is known: the whole of it, over HTTP.

Visits come in the order of the environment, in blocks that end where rewards are handed over, as in
:func:`simulate_crowd`: so the same policy can be played there, on the same users with the same
feedback, and what the service loses beside it is the price of being a service.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Protocol

import numpy as np
from attrs import define, frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.text import counted, quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.interfaces import ChoosesApart, CrowdEnvironment, CrowdPolicy
from bdes_framework.live.client import Client
from bdes_framework.live.config import LiveSetup
from bdes_framework.live.decision import Decision
from bdes_framework.live.ids import uniform_of
from bdes_framework.live.requests import arm_shown
from bdes_framework.live.serving import ServiceProcess
from bdes_framework.live.world import World
from bdes_framework.planning.plan_report import stationary_planner
from bdes_framework.simulation.crowd import simulate_crowd
from bdes_framework.simulation.crowd_benchmark import crowd_benchmark_of
from bdes_framework.simulation.feedback import Mailbox

MAX_REWARDS = 1_000
"""In one request."""


@frozen
class LiveSimulation:
    """What a service did for users whose truth is known.

    Parameters
    ----------
    visits, users : int
        Numbers of visits made and of users who came.
    earned : float
        Expected reward of all visits, given the arms shown.
    best : float | None
        What the best decision table earns on the same visits; None if there is no benchmark.
    alone : tuple[float, ...]
        What the same policy earns in :func:`simulate_crowd`, on the same users with the same
        feedback: each time with another seed, the first with its own.
    rewards, lost : int
        How many rewards the service was told, and how many were never known.
    models : int
        How many models decided.
    restarts, kills : int
        How often the service was stopped, and how often killed.
    seconds : float
        How long it took, without restarts.
    down : float
        Seconds until the service was ready again, all restarts together.
    missing : tuple[str, ...]
        What the service does not know of what it acknowledged; empty if all is there.
    """

    visits: int
    users: int
    earned: float
    best: float | None
    alone: tuple[float, ...]
    rewards: int
    lost: int
    models: int
    restarts: int
    kills: int
    seconds: float
    down: float
    missing: tuple[str, ...]

    @property
    def regret(self) -> float | None:
        """What the service loses against the best decision table."""
        return None if self.best is None else self.best - self.earned

    @property
    def regret_alone(self) -> float | None:
        """What the same policy loses without a service around it, on average."""
        if self.best is None or not self.alone:
            return None
        return self.best - math.fsum(self.alone) / len(self.alone)

    @property
    def ratio(self) -> float | None:
        """The service's regret over that of the same policy without one; None if it lost none."""
        if self.regret is None or not self.regret_alone or self.regret_alone < 0:
            return None
        return self.regret / self.regret_alone


@define
class Played:
    """What happened so far."""

    visits: int = 0
    users: int = 0
    earned: float = 0.0
    told: int = 0
    lost: int = 0
    model: int = 0
    seconds: float = 0.0
    down: float = 0.0


def simulate_live(
    world: World,
    setup: LiveSetup,
    *,
    url: str | None = None,
    connections: int = 4,
    restarts: Sequence[int] = (),
    kills: Sequence[int] = (),
    rate: float | None = None,
    plays: int = 10,
    on_visits: Callable[[int], None] = lambda visits: None,
) -> LiveSimulation:
    """Let the users of a world be served over HTTP, and say what that earned.

    Parameters
    ----------
    world : World
        The users.
    setup : LiveSetup
        The live learner. It must not have served anybody yet.
    url : str | None
        Where it is served already; by default it is served for as long as this takes.
    connections : int
        How many requests are made at once.
    restarts : Sequence[int]
        After so many visits the service is asked to stop (SIGTERM), and started again.
    kills : Sequence[int]
        After so many visits it is killed (SIGKILL), and started again.
    rate : float | None
        At most so many decisions a second; by default as many as the service makes.
    plays : int
        How often to play the same policy in :func:`simulate_crowd`, to compare.
    on_visits : Callable[[int], None]
        Told how many visits are made, now and then.

    Raises
    ------
    InvalidValueError
        If world and learner do not fit together, or the learner has served before.
    """
    stops = sorted({*restarts, *kills})
    _check(world, setup, stops, url)
    environment = world.environment()
    token = setup.config.serve.token(setup.folder)
    with ExitStack() as stack:
        service = None
        if url is None:
            service = stack.enter_context(ServiceProcess(setup.folder, token))
            url = service.address
        client = stack.enter_context(Client(url, token=token, timeout=60.0, retries=8))
        arms = _check_new(client, environment.n_arms)
        callers = stack.enter_context(ThreadPoolExecutor(connections))
        players = _Callers(client, callers, arms, connections)
        played = Played()
        for visits in make_visits(world, environment, players, played, stops=stops, rate=rate):
            on_visits(visits)
            if service is not None and visits in stops:
                played.down += service.restart(kill=visits in kills)
        missing = _missing(client, played)
    seeds = range(setup.config.seed, setup.config.seed + plays)
    return LiveSimulation(
        visits=played.visits,
        users=played.users,
        earned=played.earned,
        best=best_of(world, played.visits),
        alone=tuple(earned_alone(world, setup, played.visits, seed) for seed in seeds),
        rewards=played.told,
        lost=played.lost,
        models=played.model + 1,
        restarts=sum(stop <= played.visits for stop in restarts),
        kills=sum(stop <= played.visits for stop in kills),
        seconds=played.seconds,
        down=played.down,
        missing=missing,
    )


def _check(world: World, setup: LiveSetup, stops: Sequence[int], url: str | None) -> None:
    if url is not None and stops:
        raise InvalidValueError(
            "only a service that is started here can be stopped and started again, not that at"
            f" {quoted(url)}"
        )
    for stop in stops:
        if not 0 < stop < world.config.visits:
            raise InvalidValueError(
                f"the service can be stopped after 1 to {world.config.visits - 1:,} visits, before"
                f" the last one; got {stop:,}"
            )
    n_arms, named = world.environment().n_arms, len(setup.config.arms)
    if n_arms != named:
        raise InvalidValueError(
            f"{world.source} has {counted(n_arms, 'arm')}, and live.toml names {named}: the first"
            " of one is the first of the other"
        )


def _check_new(client: Client, n_arms: int) -> Mapping[str, int]:
    """Return the numbers of the arms; raise if the service has decided before."""
    arms = client.arms()
    shown = sum(arm["shown"] for arm in arms)
    if shown:
        raise InvalidValueError(
            f"the service made {counted(shown, 'decision')} before, of users whose truth nobody"
            " knows; simulate with a new journal"
        )
    return {arm["name"]: arm["number"] for arm in arms[:n_arms]}


# -- visits ---------------------------------------------------------------------------------


class Decides(Protocol):
    """What is asked for decisions, and told rewards."""

    def decide(self, users: IntArray) -> tuple[list[str], IntArray, int]:
        """Return the id and the arm of each visit, and the newest model that decided."""

    def reward(self, rewards: Sequence[tuple[str, float]]) -> None:
        """Take note of rewards, each with its decision's id."""


class _Callers:
    """Connections that ask for decisions at once; one user's visits are asked for in order."""

    def __init__(
        self, client: Client, pool: ThreadPoolExecutor, arms: Mapping[str, int], n: int
    ) -> None:
        self._client = client
        self._pool = pool
        self._arms = arms
        self._n = n

    def decide(self, users: IntArray) -> tuple[list[str], IntArray, int]:
        """Return the id and the arm of each visit, and the newest model that decided."""
        own = [np.flatnonzero(users % self._n == caller) for caller in range(self._n)]
        found: list[Decision | None] = [None] * users.size

        def ask(visits: IntArray) -> None:
            for visit in visits.tolist():
                found[visit] = self._client.decide(f"user {users[visit]}")

        for _ in self._pool.map(ask, own):
            pass
        decisions = [decision for decision in found if decision is not None]
        arms = np.array([self._arms[decision.arm] for decision in decisions], dtype=np.int64)
        newest = max(decision.model for decision in decisions)
        return [decision.id for decision in decisions], arms, newest

    def reward(self, rewards: Sequence[tuple[str, float]]) -> None:
        """Tell rewards, all in one request as far as it may be so long."""
        parts = [rewards[i : i + MAX_REWARDS] for i in range(0, len(rewards), MAX_REWARDS)]
        for answers in self._pool.map(self._client.reward_many, parts):
            if "late" in answers:
                raise InvalidValueError(
                    "a reward came too late to be learned from; make reward_window longer"
                )


def make_visits(
    world: World,
    environment: CrowdEnvironment,
    callers: Decides,
    played: Played,
    *,
    stops: Sequence[int] = (),
    rate: float | None = None,
) -> Iterator[int]:
    """Make the visits, block by block; yield how many are made after each."""
    mailbox, rules = Mailbox(world.feedback), world.config.feedback
    ids: list[str] = []
    while played.visits < world.config.visits:
        begin = time.monotonic()
        users = environment.arrivals(_until_pause(world, played.visits, stops))
        if users.size == 0:
            return
        named, arms, model = callers.decide(users)
        ids += named
        outcome = environment.pull(users, arms)
        played.lost += int(mailbox.post(outcome.rewards, played.visits).sum())
        played.earned = math.fsum([played.earned, *outcome.means.tolist()])
        played.visits += users.size
        played.users = max(played.users, int(users.max()) + 1)
        played.model = max(played.model, model)
        if played.visits % rules.every == 0:
            visits, rewards = mailbox.collect(played.visits)
            known = [ids[visit] for visit in visits.tolist()]
            callers.reward(list(zip(known, rewards.tolist(), strict=True)))
            played.told += visits.size
        if rate is not None:
            time.sleep(max(begin + users.size / rate - time.monotonic(), 0.0))
        played.seconds += time.monotonic() - begin
        yield played.visits


def _until_pause(world: World, done: int, stops: Sequence[int]) -> int:
    """Return how many visits are made until rewards are told, or the service is stopped."""
    every = world.config.feedback.every
    pauses = [world.config.visits, done - done % every + every]
    return min(pauses + [stop for stop in stops if stop > done]) - done


def _missing(client: Client, played: Played) -> tuple[str, ...]:
    """Return what was acknowledged and is not known: lines, none if all is there."""
    arms = client.arms()
    found = []
    for what, told in (("shown", played.visits), ("rewards", played.told)):
        known = sum(arm[what] for arm in arms)
        if known != told:
            found.append(f"{what}: {told:,} were acknowledged, and the service knows {known:,}")
    return tuple(found)


# -- the same without a service -------------------------------------------------------------


def best_of(world: World, visits: int) -> float | None:
    """Return what the best decision table earns on the same visits; None without a benchmark."""
    planner = stationary_planner(world.plugins, "certified")
    found = crowd_benchmark_of(world.environment(), visits, planner)
    return None if found is None else found.value


def earned_alone(world: World, setup: LiveSetup, visits: int, seed: int) -> float:
    """Return what the same policy earns in a simulation, with the same floor, and a seed."""
    config = setup.config
    policy = setup.plugins.crowd_policy(setup.policy, config.problem, seed=seed)
    if config.floor:
        policy = WithFloor(policy, config.floor, len(config.arms), seed)
    found = simulate_crowd(world.environment(), policy, visits, feedback=world.feedback)
    return found.total_mean


class WithFloor:
    """A crowd policy, but every arm is shown with at least some probability, as a service does."""

    def __init__(self, policy: CrowdPolicy, floor: float, n_arms: int, seed: int) -> None:
        if not isinstance(policy, ChoosesApart):
            raise InvalidValueError("a floor above 0 needs a policy that is ChoosesApart")
        self._policy = policy
        self._floor = floor
        self._arms = list(range(n_arms))
        self._seed = seed
        self._visits = 0

    def ask(self, users: IntArray) -> IntArray:
        """Return what is shown, visit by visit."""
        shown = np.empty(users.size, dtype=np.int64)
        for i in range(users.size):
            chosen = int(self._policy.choose(users[i : i + 1])[0])
            uniform = uniform_of(self._seed, self._visits)
            shown[i], _ = arm_shown(chosen, self._arms, self._floor, uniform)
            self._policy.show(users[i : i + 1], shown[i : i + 1])
            self._visits += 1
        return shown

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        """Hand rewards on."""
        self._policy.tell(visits, rewards)
