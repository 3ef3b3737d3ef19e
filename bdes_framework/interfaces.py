"""Protocols that plugins implement, the values they exchange, and optional protocols.

Nothing here asks anybody to inherit: an object with these methods *is* a policy. Arrays
go in and out, a block of pulls at a time; shapes are written beside every array.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Annotated,
    Generic,
    Protocol,
    TypeAlias,
    TypeVar,
    runtime_checkable,
)

import numpy as np
from attrs import AttrsInstance, field, frozen
from numpy.random import Generator

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.display import html_facts, shown_fields, shown_numbers
from bdes_framework._internal.numbers import is_number
from bdes_framework._internal.text import quoted
from bdes_framework._internal.upwards import drawn, report_function
from bdes_framework.errors import ContractError, InvalidValueError
from bdes_framework.model.decision_table import DecisionTable
from bdes_framework.model.events import Decided, Event, ModelMade, Rewarded
from bdes_framework.model.instance import CrowdProblem, Instance, Problem
from bdes_framework.model.rounds import Record, World
from bdes_framework.model.schedule import Schedule, schedule_html

if TYPE_CHECKING:
    import altair


class Kind(str, Enum):
    """What a plugin can register."""

    ENVIRONMENT = "environment"
    POLICY = "policy"
    PLANNER = "planner"
    NOISE_MODEL = "noise_model"
    ENGINE = "engine"
    CROWD_ENVIRONMENT = "crowd_environment"
    CROWD_POLICY = "crowd_policy"
    JOURNAL = "journal"

    def __str__(self) -> str:
        return self.value.replace("_", " ")


# -- values exchanged -----------------------------------------------------------------------


@frozen(eq=False)
class Outcome:
    """Rewards of a block of n pulls, with their expectations and states.

    An environment brings probabilities with every block or with none, and so with states.

    Parameters
    ----------
    rewards : FloatArray, shape (n,)
        The reward of each pull, in [0, 1]. This is all a policy observes.
    means : FloatArray, shape (n,)
        The expected reward of each pull, in [0, 1] too: r·q in a B-DES environment. Regret is
        computed from it.
    probabilities : FloatArray | None, shape (n,)
        Under noise, the clipped probability each reward was drawn from; None without noise.
    states : FloatArray | None, shape (n,)
        The state at each pull; None if the environment has none. Without it there is no
        external regret.
    """

    rewards: FloatArray
    means: FloatArray
    probabilities: FloatArray | None = None
    states: FloatArray | None = None

    def __repr__(self) -> str:
        rewards, means = shown_numbers(self.rewards), shown_numbers(self.means)
        return shown_fields("Outcome", n_pulls=len(self.rewards), rewards=rewards, means=means)


DiagnosticValue: TypeAlias = bool | int | float | str | FloatArray | IntArray
"""A scalar, a string, or a small array."""

Diagnostics: TypeAlias = Mapping[str, DiagnosticValue]
"""What a policy or a planner reports about its workings, by name."""


def relative_gap(value: float, upper_bound: float) -> float:
    """Return the bound less the value as a share of the bound: 1 if the bound is infinite.

    >>> relative_gap(9.0, 10.0), relative_gap(9.0, math.inf), relative_gap(0.0, 0.0)
    (0.1, 1.0, 0.0)
    """
    if upper_bound in (0, math.inf):
        return 1.0 if upper_bound else 0.0
    return max(upper_bound - value, 0.0) / upper_bound


@frozen(eq=False)
class Plan:
    """A schedule for a known instance, its expected reward and a proven upper bound.

    Parameters
    ----------
    schedule : Schedule
        Exactly as many pulls as the horizon that was asked for.
    value : float
        The schedule's total expected reward, recomputed with :meth:`Instance.value`.
    upper_bound : float
        Proven: no schedule of that many pulls earns more. ``inf`` when nothing is proven.
    diagnostics : Diagnostics
        What the planner reports about its work, such as a gap it could not reach.
    """

    schedule: Schedule
    value: float
    upper_bound: float
    diagnostics: Diagnostics = field(factory=dict)

    @property
    def arms(self) -> IntArray:
        """The whole schedule as one array: shape (horizon,)."""
        return self.schedule.arms

    @property
    def gap(self) -> float:
        """Upper bound on the schedule's loss against the optimum, relative to the bound."""
        return relative_gap(self.value, self.upper_bound)

    def __repr__(self) -> str:
        shown = {"value": self.value, "upper_bound": self.upper_bound, "gap": f"{self.gap:.2g}"}
        return shown_fields("Plan", **shown, schedule=repr(self.schedule).replace("\n", " "))

    def plot(self, rounds: int | None = None) -> "altair.VConcatChart":
        """Return a chart of the first rounds: the arms it plays.

        Needs the extra ``report``; ``rounds`` is 120 unless told otherwise.
        """
        chart: altair.VConcatChart = report_function("plot_plan")(self, rounds)
        return chart

    def _repr_html_(self) -> str:
        return plan_html(self) + drawn("image_of_plan", self)


def plan_html(plan: Plan) -> str:
    """Return what a notebook shows of a plan, but for the chart."""
    facts = [
        ("pulls", plan.schedule.n_pulls),
        ("expected reward", plan.value),
        ("at most possible", plan.upper_bound),
        ("gap", f"{100 * plan.gap:.2g} %"),
    ]
    return html_facts("Plan", facts) + schedule_html(plan.schedule)


@frozen(eq=False)
class Benchmark:
    """The best sequence's expected reward over time, from which regret is computed.

    Parameters
    ----------
    checkpoints : IntArray, shape (c,)
        Rounds, increasing; the last is the horizon.
    values : FloatArray, shape (c,)
        Total expected reward of the benchmark sequence after that many rounds.
    upper_bound : float
        Proven: no sequence earns more over the horizon. The difference to ``values[-1]``
        is the uncertainty of every regret figure computed from this benchmark.
    """

    checkpoints: IntArray
    values: FloatArray
    upper_bound: float

    def __attrs_post_init__(self) -> None:
        if self.checkpoints.shape != self.values.shape or self.checkpoints.size == 0:
            raise InvalidValueError(
                "a benchmark needs one value per checkpoint, got shapes"
                f" {self.checkpoints.shape} and {self.values.shape}"
            )

    @property
    def value(self) -> float:
        """Total expected reward over the whole horizon (OPT, where the plan is optimal)."""
        return float(self.values[-1])

    @classmethod
    def from_plan(cls, plan: Plan, instance: Instance, checkpoints: IntArray) -> "Benchmark":
        """Return the expected reward of a plan's schedule at the checkpoints.

        Raises
        ------
        ContractError
            If the plan is not what it says: another number of pulls than the last
            checkpoint, an arm the instance does not have, a value that the schedule does not
            earn (within 1e-6 of it), or an upper bound below the value.
        """
        _check_schedule(plan, instance, int(checkpoints[-1]))
        totals = np.empty(checkpoints.size)
        total, q, done = 0.0, instance.q0, 0
        for index, checkpoint in enumerate(checkpoints.tolist()):
            part, here = plan.schedule.part(done, checkpoint), instance.starting_at(q)
            total, q, done = total + here.value(part), here.state_after(part), checkpoint
            totals[index] = total
        _check_value(plan, total)
        totals[-1] = plan.value
        return cls(checkpoints, totals, plan.upper_bound)

    def __repr__(self) -> str:
        horizon, n = int(self.checkpoints[-1]), self.checkpoints.size
        found = {"horizon": horizon, "value": self.value, "upper_bound": self.upper_bound}
        return shown_fields("Benchmark", **found, checkpoints=n)


def _check_schedule(plan: Plan, instance: Instance, horizon: int) -> None:
    if not (isinstance(plan, Plan) and isinstance(plan.schedule, Schedule)):
        raise ContractError(f"expected a Plan with a Schedule, got {quoted(plan)}")
    if plan.schedule.n_pulls != horizon:
        raise ContractError(
            f"the plan for {horizon} rounds has a schedule of {plan.schedule.n_pulls} pulls"
        )
    highest = max(int(segment.arms.max()) for segment in plan.schedule.segments)
    if highest >= instance.n_arms:
        raise ContractError(
            f"the plan's schedule plays arm {highest}; arms go from 0 to {instance.n_arms - 1}"
        )


def _check_value(plan: Plan, earned: float) -> None:
    for number in (plan.value, plan.upper_bound):
        if not is_number(number):
            raise ContractError(f"the plan's value and bound must be numbers, got {quoted(number)}")
    if not math.isclose(plan.value, earned, rel_tol=1e-6, abs_tol=1e-9):
        raise ContractError(
            f"the plan says its value is {plan.value}, but its schedule earns {earned}"
        )
    if not plan.upper_bound >= plan.value - max(1e-6 * abs(earned), 1e-9):
        raise ContractError(
            f"the plan's upper bound {plan.upper_bound} is below its value {plan.value}"
        )


# -- protocols ------------------------------------------------------------------------------


@frozen(eq=False)
class CrowdEstimates:
    """What a crowd policy takes its arms for: one estimate, its 95 % interval, and draws.

    Parameters
    ----------
    r, b : FloatArray, shape (3, K)
        What each arm pays at state 1, and where it leads to: estimate, low end, high end.
    lam : FloatArray, shape (3,)
        How far a visit moves the state: estimate, low end, high end.
    q0 : float
        The state of every user at their first visit.
    continuation : float
        How likely a user comes back after a visit, as one number for all visits, in [0, 1).
    r_draws, b_draws : FloatArray, shape (n, K)
        Instances drawn from the posterior; n is 1 where there is no doubt.
    lam_draws : FloatArray, shape (n,)
        The rates of these.
    """

    r: FloatArray
    b: FloatArray
    lam: FloatArray
    q0: float
    continuation: float
    r_draws: FloatArray
    b_draws: FloatArray
    lam_draws: FloatArray

    def __repr__(self) -> str:
        shown = {"r": shown_numbers(self.r[0]), "b": shown_numbers(self.b[0]), "lam": self.lam[0]}
        return shown_fields("CrowdEstimates", **shown, n_draws=self.lam_draws.size)


@runtime_checkable
class Environment(Protocol):
    """Pays rewards in [0, 1] for arms pulled. Built with its seed, used once; there is no reset.

    Pulling in one block or in several gives the same rewards: random numbers belong to the
    round, not to the call.
    """

    @property
    def n_arms(self) -> int:
        """Number of arms."""

    def pull(self, arms: IntArray) -> Outcome:
        """Pull ``arms``, shape (n,), n >= 1, in this order, and return their rewards."""


@runtime_checkable
class Policy(Protocol):
    """Chooses arms and learns from rewards.

    A policy is a deterministic function of its config, its seed and the rewards observed, so
    that replaying a log restores it. The arms it plays must not depend on ``limit``.
    """

    def ask(self, limit: int) -> IntArray:
        """Return the next arms to play, shape (n,) with 1 <= n <= limit, in playing order.

        ``limit`` is at least 1 and at most the rounds that are left.
        """

    def tell(self, rewards: FloatArray) -> None:
        """Learn the rewards of the block just asked for: shape (n,), in [0, 1], same order."""


@runtime_checkable
class CrowdEnvironment(Protocol):
    """Many users, each with a state of their own, who come one after another.

    Built with its seed, used once. Who comes does not depend on what is shown or paid; neither
    arrivals nor rewards depend on how they are grouped.
    """

    @property
    def n_arms(self) -> int:
        """Number of arms."""

    def arrivals(self, n: int) -> IntArray:
        """Return the users of the next visits, in order: shape (m,) with m <= n; n >= 1.

        Users are numbered 0, 1, 2, ... by their first visit. Empty when nobody comes any more.
        """

    def pull(self, users: IntArray, arms: IntArray) -> Outcome:
        """Show ``arms``, shape (n,), to ``users``, shape (n,), in this order; return rewards.

        The visits come in the order of ``arrivals``, each exactly once.
        """


@runtime_checkable
class CrowdPolicy(Protocol):
    """Chooses an arm for each visit of many users.

    A deterministic function of its config, its seed, the visits and the rewards observed.
    Between two ``tell`` the arms must not depend on how visits are grouped.
    """

    def ask(self, users: IntArray) -> IntArray:
        """Return an arm for each of the next visits: shape (n,), n >= 1, as ``users``.

        Users are numbered 0, 1, 2, ... by their first visit, and visits 0, 1, 2, ... in the
        order they are asked for.
        """

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        """Learn the rewards, in [0, 1], of some visits: both of shape (n,), n >= 1.

        In any order, late or never: each visit at most once.
        """


@runtime_checkable
class Planner(Protocol):
    """Finds a good sequence of arms for a known instance.

    A planner is a deterministic function of its config and its seed: the same instance and
    horizon give the same plan, from this planner or from another one built alike, whatever was
    planned before. A randomised planner draws one seed when it is built, such as
    ``context.rng.integers(2**63)``, and makes a generator of it anew in every call.
    """

    def plan(self, instance: Instance, horizon: int) -> Plan:
        """Return a schedule of exactly ``horizon`` pulls, its value and an upper bound."""


@runtime_checkable
class NoiseModel(Protocol):
    """Mean-zero noise on the state that a reward is drawn from."""

    @property
    def sigma(self) -> float:
        """The subGaussian parameter: E exp(s·noise) <= exp(sigma²·s²/2) for every s."""

    def sample(self, size: int, rng: Generator) -> FloatArray:
        """Draw ``size`` values, shape (size,), from ``rng``.

        Drawing m and then n must equal drawing m + n, so that block sizes never change a
        result: map a fixed number of uniforms to each value, and reject nothing.
        """


JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")


@frozen
class JobFailure(Generic[JobT]):
    """A job that an engine has no result of, and why.

    Parameters
    ----------
    job : JobT
        The job.
    reason : str
        What happened, on one line, such as "took longer than 30 s (timeout)".
    """

    job: JobT
    reason: str


@runtime_checkable
class Engine(Protocol):
    """Runs independent jobs: in this process, in other processes or on a cluster."""

    def run(
        self, jobs: Sequence[JobT], execute: Callable[[JobT], ResultT]
    ) -> Iterator[ResultT | JobFailure[JobT]]:
        """Yield ``execute(job)`` once for each job, in any order, as results come in.

        Jobs are picklable, and so is ``execute``, which never raises for a failed job: it
        returns a result that says so. What it raises all the same, ``run`` raises.

        A job may have attributes that an engine heeds if it can:

        - ``cost: float``: expected pulls, to balance work by.
        - ``timeout: float | None``: seconds it may take. Then its worker is killed, and a
          :class:`JobFailure` yielded.
        - ``isolate: bool``: it runs code that may end its process, so run it in a worker. A job
          whose worker died is tried again; after some times a :class:`JobFailure` is yielded.

        Closing the iterator ends all that was started.

        An engine with the attribute ``in_process = True`` runs every job in this process. Then
        neither jobs nor ``execute`` need be picklable, and plugins may be objects in memory.
        """


# -- optional protocols ---------------------------------------------------------------------


@runtime_checkable
class HasInstance(Protocol):
    """An environment that is a B-DES instance; a planner can then compute its benchmark.

    External regret needs no more than this and ``Outcome.states``.
    """

    @property
    def instance(self) -> Instance:
        """The instance being played: as many arms as ``n_arms``, means of r·q, states of q."""


@runtime_checkable
class HasBenchmark(Protocol):
    """An environment that is no B-DES instance but computes its own benchmark.

    It is held to account as a planner's plan is: finite values, one for each checkpoint asked
    for, which rise by 0 to 1 per round and end at most at the upper bound. A simulation whose
    means add up to more than the upper bound fails. Where means are random, the bound is that of
    the random numbers this environment was built with, or ``inf``.
    """

    def benchmark(self, checkpoints: IntArray) -> Benchmark:
        """Return the best sequence's expected reward at these rounds; the last is the horizon.

        Draws none of the random numbers that rewards come from.
        """


@runtime_checkable
class HasVisitsPerUser(Protocol):
    """A crowd environment that knows how often a user comes: what policies may be told."""

    @property
    def visits_per_user(self) -> float | None:
        """How many visits a user is expected to make, at least 1; None if nobody ever leaves."""


@runtime_checkable
class HasRateAndStart(Protocol):
    """A crowd environment whose users share a rate and a first state: what policies may be told.

    For environments that are no B-DES instance, because users differ in what they are paid; one
    that has an instance tells its rate and first state anyway.
    """

    @property
    def lam(self) -> float:
        """How far one visit moves the state of the user who came, in [0, 1]."""

    @property
    def q0(self) -> float:
        """The state of every user at their first visit, at least 0."""


@runtime_checkable
class HasDiagnostics(Protocol):
    """A policy that reports its estimates, phases and decisions."""

    def diagnostics(self) -> Diagnostics:
        """Return the current values by name: scalars, strings or small arrays."""


@runtime_checkable
class ChangesArms(CrowdPolicy, Protocol):
    """A crowd policy whose arms may change while it runs, between two visits.

    Arms keep their numbers: a new one gets the next, that of a retired one is not used again. What
    was shown before is not forgotten, as it moved the users' states; rewards of a retired arm may
    still be told. The changes are part of what the policy is a function of.
    """

    def add_arm(self) -> int:
        """Add an arm of which nothing is known yet; return its number."""

    def retire_arm(self, arm: int) -> None:
        """Never show an arm again.

        Raises InvalidValueError if there is no such arm, if it was retired before, or if it is the
        last.
        """


@runtime_checkable
class ChoosesApart(CrowdPolicy, Protocol):
    """A crowd policy that can be asked what it would show, while another arm may be shown.

    ``ask(users)`` shows what it chooses: the same arms come from choosing for one visit after
    another, and showing each before the next is chosen. Nobody calls both ``ask`` and these.
    """

    def choose(self, users: IntArray) -> IntArray:
        """Return the arm to show each user now: shape (n,), n >= 1, as ``users``; notes nothing.

        As if each were the only one: a user who is there twice gets the same arm twice.
        """

    def show(self, users: IntArray, arms: IntArray) -> None:
        """Note the next visits, in order, and what was shown; this numbers the visits."""


@runtime_checkable
class CrowdDecider(Protocol):
    """The half of a crowd policy that decides: by the newest model it was given.

    A function of the models adopted and of what was shown, never of rewards. Asked for an arm
    before it has a model, it raises ContractError.
    """

    def adopt(self, model: bytes) -> None:
        """Decide by this model from now on, with users as they were after what it has read.

        Visits shown since then are shown again by the caller, right after this. Raises
        InvalidValueError, and changes nothing, if the data are no model of this policy.
        """

    def choose(self, users: IntArray) -> IntArray:
        """Return the arm to show each user now, as ``ChoosesApart.choose``; never a retired one."""

    def show(self, users: IntArray, arms: IntArray) -> None:
        """Note the next visits, in order, and what was shown."""

    def add_arm(self) -> int:
        """Make room for another arm, not shown before a model knows it; return its number."""

    def retire_arm(self, arm: int) -> None:
        """Never show an arm again, whatever the model says."""

    def estimates(self) -> CrowdEstimates:
        """Return what the model takes the arms for."""


@runtime_checkable
class HasUserStates(Protocol):
    """A decider that can tell at what state each user is, by its model."""

    def user_states(self) -> FloatArray:
        """Return the state of every user who came, by number: shape (users,)."""


@runtime_checkable
class CrowdLearner(Protocol):
    """The half of a crowd policy that learns: makes models of visits and rewards.

    A model is a function of config, seed, the visits shown, the rewards told, changes of arms and
    the models made before, each with what it had read. The order of rewards does not matter.
    """

    @property
    def is_due(self) -> bool:
        """Whether enough has become known for another model; True before the first."""

    def show(self, users: IntArray, arms: IntArray) -> None:
        """Note the next visits, in order, and what was shown; this numbers the visits."""

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        """Note rewards of visits, as :meth:`CrowdPolicy.tell`."""

    def add_arm(self) -> int:
        """Add an arm of which nothing is known; return its number."""

    def retire_arm(self, arm: int) -> None:
        """Plan without an arm from now on."""

    def learn(self) -> bytes:
        """Make the next model of all that is known, as data; may take minutes."""

    def resume(self, model: bytes) -> None:
        """Go on as if this model had just been made here, of what is known now.

        The next models are then the same bytes as if nothing had been interrupted. Raises
        InvalidValueError, and changes nothing, if the data are no model of this policy.
        """


@runtime_checkable
class LearnsApart(ChoosesApart, Protocol):
    """A crowd policy whose learning may run beside its deciding, in a thread or on another host.

    A service builds two of it, with the same config and seed, and uses the decider of one and the
    learner of the other. ``ask`` and ``tell`` do both by turns.
    """

    @property
    def decider(self) -> CrowdDecider:
        """The half that decides."""

    @property
    def learner(self) -> CrowdLearner:
        """The half that learns."""


class JournalTurn(Protocol):
    """The right to add to a journal: one process has it at a time, over all hosts."""

    @property
    def n_events(self) -> int:
        """How many events there are, without those appended in this turn."""

    def append(self, events: Sequence[Event]) -> None:
        """Add events. All of a turn become durable together when it ends without an error.

        Raises InvalidValueError, now or when the turn ends, for an event that does not follow from
        those before: whose number is not the next, of a user, arm or decision that is not there, a
        second reward of a decision, a name that another user has. Two who think that it is their
        turn cannot both be right.
        """


@runtime_checkable
class Journal(Protocol):
    """All that happened to a live learner, in one order, durable, for all processes that serve it.

    Made with its config, opened with ``create`` or ``open``, closed at the end. Used by one thread
    at a time; another thread or process makes one of its own for the same place. What is read is
    what was durable when reading began. Whatever goes wrong is a JournalError; its ``is_passing``
    says whether trying again later may help, as with a full disk.
    """

    def create(self, header: str) -> None:
        """Make an empty journal with a header, and open it; refuse if there is one already."""

    def open(self) -> str:
        """Open the journal and return its header; older formats are brought up to date."""

    def close(self) -> None:
        """Let go of files and connections; of claims too. Closing twice is fine."""

    def claim(self, role: str) -> bool:
        """Try to become the only holder of a role until close, or until this process ends.

        Roles are "owner", which journals of one process hand out, and "learner". A journal that
        several processes may decide with hands out "owner" to each of them.
        """

    def turn(self) -> AbstractContextManager[JournalTurn]:
        """Wait for the turn to append; at its end all that was appended is durable.

        If the block raises, nothing of the turn is kept. If the end raises, nothing is either,
        unless it is a JournalError that ``is_in_doubt``.
        What is read inside is what was there when the turn began.
        """

    def count(self) -> int:
        """Return how many events there are."""

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[Event]:
        """Yield the events numbered start to stop, in order; memory stays flat.

        A model's data come with the newest model alone; the others' may be None.
        """

    def find_users(self, names: Sequence[str]) -> list[int | None]:
        """Return the number of each user by name; None for one who never came, or is forgotten."""

    def find_decisions(
        self, numbers: Sequence[int]
    ) -> list[tuple[Decided, Rewarded | None] | None]:
        """Return decisions by number, each with its reward if known; None where there is none."""

    def newest_model(self) -> tuple[int, ModelMade] | None:
        """Return the newest model with its data, and the number of its event; None before one."""

    def read_undamaged(self) -> Iterator[Event]:
        """Yield what can still be read of a damaged journal, in order, each event as it was."""

    def check(self) -> list[str]:
        """Return what is damaged, a line each; empty if all events are as they were written."""


@runtime_checkable
class HasHolder(Protocol):
    """A journal that knows who holds a role, for messages to those who cannot have it."""

    def holder(self, role: str) -> str | None:
        """Return who took a role last, such as ``process 123 on web-1``; None if not known."""


@runtime_checkable
class AnytimePlanner(Planner, Protocol):
    """A planner that can stop early with a plan: what a time limit needs."""

    def improving_plans(self, instance: Instance, horizon: int) -> Iterator[Plan]:
        """Yield plans made with ever more effort, each about twice that of the one before.

        Each has a value and an upper bound that hold, as what ``plan`` returns has; the last,
        if there is one, is as good as ``plan`` would make it. Effort is counted, not timed, so
        the same plans come on every machine.
        """


@runtime_checkable
class StationaryPlanner(Planner, Protocol):
    """A planner that also says what to show from any state, to users who may leave any time."""

    def plan_stationary(self, instance: Instance, continuation: float) -> DecisionTable:
        """Return the arm for every state, when a user comes back with this probability.

        ``continuation`` is in [0, 1); after each visit a user comes back with it, or never. The
        table is for this instance and this continuation, and a deterministic function of them.
        """


@runtime_checkable
class FusedEnvironment(Environment, Protocol):
    """An environment whose rounds a fused policy can play in a compiled loop."""

    def open_rounds(self, n: int) -> World:
        """Draw the random numbers of the next n rounds, all of which will be played with them.

        With noise every time or never.
        """


@runtime_checkable
class FusedPolicy(Policy, Protocol):
    """A policy that decides every round and brings a compiled loop of its own.

    ``play`` must choose the same arms, bit for bit, as asking and telling one round at a
    time, and leave the policy in the same state; the conformance kit checks both.
    """

    def play(self, world: World, record: Record) -> None:
        """Play ``len(record.arms)`` rounds through :func:`play_round`."""


# -- building -------------------------------------------------------------------------------

Reference: TypeAlias = str | Mapping[str, object] | AttrsInstance
"""How one thing names another: ``"certified"``, ``{"use": "certified", "gap": 1e-5}``, or a
config object such as ``Certified(gap=1e-5)``."""

EnvironmentRef: TypeAlias = Annotated[Reference, Kind.ENVIRONMENT]
"""A config field that names an environment."""

PolicyRef: TypeAlias = Annotated[Reference, Kind.POLICY]
"""A config field that names a policy."""

PlannerRef: TypeAlias = Annotated[Reference, Kind.PLANNER]
"""A config field that names a planner."""

NoiseModelRef: TypeAlias = Annotated[Reference, Kind.NOISE_MODEL]
"""A config field that names a noise model."""

EngineRef: TypeAlias = Annotated[Reference, Kind.ENGINE]
"""A config field that names an engine."""

CrowdEnvironmentRef: TypeAlias = Annotated[Reference, Kind.CROWD_ENVIRONMENT]
"""A config field that names an environment of many users."""

CrowdPolicyRef: TypeAlias = Annotated[Reference, Kind.CROWD_POLICY]
"""A config field that names a policy for many users."""

JournalRef: TypeAlias = Annotated[Reference, Kind.JOURNAL]
"""A config field that names a journal."""


class BuildContext(Protocol):
    """Random streams and other plugins for a factory: all it is given beside its config."""

    @property
    def rng(self) -> Generator:
        """Random stream of what is being built; always the same generator object."""

    def stream(self, name: str) -> Generator:
        """Return a further random stream, independent of ``rng`` and of other names."""

    def environment(self, ref: Reference) -> Environment:
        """Build a registered environment."""

    def planner(self, ref: Reference) -> Planner:
        """Build a registered planner."""

    def noise_model(self, ref: Reference) -> NoiseModel:
        """Build a registered noise model."""

    def engine(self, ref: Reference) -> Engine:
        """Build a registered engine."""

    def policy(self, ref: Reference, problem: Problem) -> Policy:
        """Build a registered policy for a problem."""

    def crowd_environment(self, ref: Reference) -> CrowdEnvironment:
        """Build a registered environment of many users."""

    def crowd_policy(self, ref: Reference, problem: CrowdProblem) -> CrowdPolicy:
        """Build a registered policy for many users."""

    def journal(self, ref: Reference) -> Journal:
        """Build a registered journal, which is not open yet."""


class PolicyContext(BuildContext, Protocol):
    """The context of a policy's factory: also the problem."""

    @property
    def problem(self) -> Problem:
        """What the policy may know."""

    def policy(self, ref: Reference, problem: Problem | None = None) -> Policy:
        """Build another registered policy, for this problem or for another."""


class CrowdPolicyContext(BuildContext, Protocol):
    """The context of a crowd policy's factory: also the problem, and policies for one user."""

    @property
    def problem(self) -> CrowdProblem:
        """What the policy may know."""

    def crowd_policy(self, ref: Reference, problem: CrowdProblem | None = None) -> CrowdPolicy:
        """Build another registered crowd policy, for this problem or for another."""

    def user_policy(self, ref: Reference, problem: Problem, user: int, copy: int = 0) -> Policy:
        """Build a registered policy for one user; may be called at any time.

        Its random stream belongs to the user and the copy, whatever else was built before.
        """
