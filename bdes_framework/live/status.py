"""What a session tells people: what it shows, what it has learned, and how sure it is."""

from collections.abc import Sequence

import numpy as np
from attrs import asdict, evolve, field, frozen

from bdes_framework._internal.arrays import FloatArray
from bdes_framework.interfaces import CrowdEstimates, Kind, StationaryPlanner
from bdes_framework.live.config import LiveSetup
from bdes_framework.live.state import State
from bdes_framework.live.tally import ModelStatus, Tally
from bdes_framework.model.decision_table import DecisionTable
from bdes_framework.model.instance import Instance
from bdes_framework.planning.lift import Lift, lift, over_traffic
from bdes_framework.plugin.plugins import Plugins

BINS = 20
_MOST_CONTINUATION = 1.0 - 1e-6


@frozen
class ArmStatus:
    """What is known of an arm.

    Parameters
    ----------
    number : int
        Arms are numbered in the order they were added.
    name : str
        What it is called.
    is_active : bool
        False once it is retired.
    shown : int
        How often it was shown.
    rewards : int
        How many of its rewards came in time.
    defaults : int
        How many of its decisions were settled by the default reward.
    mean_reward : float | None
        Over rewards and defaults; None without any.
    """

    number: int
    name: str
    is_active: bool
    shown: int
    rewards: int
    defaults: int
    mean_reward: float | None


@frozen
class ShareSpan:
    """How often each arm was shown in a span of time that begins at ``time``."""

    time: float
    shown: tuple[int, ...]


@frozen
class LiveStatus:
    """How a session is doing.

    Parameters
    ----------
    name, policy : str
        What it is called, and what decides.
    is_ready : bool
        Whether decisions can be made.
    is_learning : bool
        Whether this process makes models of what happens, or plays a policy that learns at once.
    trouble : str | None
        What goes wrong at the moment: with the journal, or with learning.
    decisions, rewards, late, users, forgotten : int
        How many there were in all; late rewards are not learned from.
    open : int
        How many decisions are still waited for, rewards known or not.
    decisions_per_second, rewards_per_second : float
        Of this process, in the last minute.
    waiting : tuple[float, float] | None
        Seconds that a caller of this process waited for a decision lately: half of them at most
        the first, 99 % at most the second. None before any.
    arms : tuple[ArmStatus, ...]
        All arms.
    models : tuple[ModelStatus, ...]
        All models, the oldest first; none where the policy learns at once.
    shares : tuple[ShareSpan, ...]
        What was shown, over time.
    span : float
        How many seconds each of these spans is long.
    state_edges, state_counts : tuple
        How many users are at states between two edges, as the newest model sees it; empty where
        nobody says.
    """

    name: str
    policy: str
    is_ready: bool
    is_learning: bool
    trouble: str | None
    decisions: int
    rewards: int
    late: int
    users: int
    forgotten: int
    open: int
    decisions_per_second: float
    rewards_per_second: float
    waiting: tuple[float, float] | None
    arms: tuple[ArmStatus, ...] = ()
    models: tuple[ModelStatus, ...] = ()
    shares: tuple[ShareSpan, ...] = ()
    span: float = 60.0
    state_edges: tuple[float, ...] = ()
    state_counts: tuple[int, ...] = field(factory=tuple)

    @property
    def is_healthy(self) -> bool:
        """Whether it decides, and nothing goes wrong."""
        return self.is_ready and self.trouble is None

    def as_json(self) -> dict[str, object]:
        """Return what JSON holds of it."""
        return {"is_healthy": self.is_healthy, **asdict(self)}


def arms_of(tally: Tally) -> tuple[ArmStatus, ...]:
    """Return what is known of each arm."""
    found = []
    for number, arm in enumerate(tally.arms):
        known = arm.rewards + arm.defaults
        mean = arm.total / known if known else None
        counts = arm.shown, arm.rewards, arm.defaults
        found.append(ArmStatus(number, arm.name, arm.is_active, *counts, mean))
    return tuple(found)


def shares_of(tally: Tally) -> tuple[ShareSpan, ...]:
    """Return how often each arm was shown, over time."""
    return tuple(ShareSpan(time, tuple(counts)) for time, counts in tally.share_spans())


def waiting_of(waits: Sequence[float]) -> tuple[float, float] | None:
    """Return how long callers waited: half of them at most the first, 99 % the second."""
    if not waits:
        return None
    half, most = np.quantile(np.array(waits), [0.5, 0.99]).tolist()
    return half, most


@frozen
class ProcessStatus:
    """What a process knows of itself."""

    is_ready: bool = True
    is_learning: bool = False
    trouble: str | None = None
    rates: tuple[float, float] = (0.0, 0.0)
    """Decisions and rewards a second."""
    waiting: tuple[float, float] | None = None


def status_of(setup: LiveSetup, state: State | None, process: ProcessStatus) -> LiveStatus:
    """Return what a state, if there is one, and a process say of a session."""
    entry, _ = setup.plugins.resolve(Kind.CROWD_POLICY, setup.config.policy)
    tally = state.tally if state is not None else Tally()
    states = state.player.user_states() if state is not None else None
    edges, counts = histogram(np.empty(0) if states is None else states)
    return LiveStatus(
        name=setup.config.name,
        policy=entry.name,
        is_ready=process.is_ready,
        is_learning=process.is_learning,
        trouble=process.trouble,
        decisions=tally.n_decisions,
        rewards=tally.n_rewards,
        late=tally.n_late,
        users=tally.n_users,
        forgotten=tally.n_forgotten,
        open=tally.n_decisions - tally.settled,
        decisions_per_second=process.rates[0],
        rewards_per_second=process.rates[1],
        waiting=process.waiting,
        arms=arms_of(tally),
        models=tuple(tally.models),
        shares=shares_of(tally),
        span=tally.shares.width,
        state_edges=edges,
        state_counts=counts,
    )


def histogram(states: FloatArray) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Return edges, and how many users are between them."""
    if not states.size:
        return (), ()
    counts, edges = np.histogram(states, bins=BINS, range=(0.0, max(1.0, float(states.max()))))
    return tuple(edges.tolist()), tuple(counts.tolist())


class EstimatedArms:
    """Estimates of a crowd policy, of some arms, as a posterior that lifts are computed from."""

    def __init__(self, estimates: CrowdEstimates, names: Sequence[str], arms: list[int]) -> None:
        self._estimates = estimates
        self._arms = arms
        self.names = tuple(names[arm] for arm in arms)

    @property
    def instance(self) -> Instance:
        """The estimates."""
        at, arms = self._estimates, self._arms
        return Instance(at.r[0, arms], at.b[0, arms], float(at.lam[0]), at.q0)

    def draws(self, n: int, rng: np.random.Generator) -> list[Instance]:
        """Return the draws that the policy made, whatever ``n`` is: more would say nothing new."""
        at, arms = self._estimates, self._arms
        rows = zip(at.r_draws, at.b_draws, at.lam_draws.tolist(), strict=True)
        return [Instance(r[arms], b[arms], lam, at.q0) for r, b, lam in rows]

    def mixtures(self, shares: FloatArray) -> list[Instance]:
        """Return, for each draw, the arm that earns what a mixture of arms at random does.

        Which arm is shown does not depend on the state, so expected rewards and states are those
        of one arm with the mean r and the mean b.
        """
        at, arms = self._estimates, self._arms
        r, b = at.r_draws[:, arms] @ shares, at.b_draws[:, arms] @ shares
        rows = zip(r.tolist(), b.tolist(), at.lam_draws.tolist(), strict=True)
        return [Instance([mean_r], [mean_b], lam, at.q0) for mean_r, mean_b, lam in rows]


@frozen(eq=False)
class View:
    """What tables and lifts are made of."""

    estimates: CrowdEstimates
    model: int
    names: tuple[str, ...]
    active: tuple[int, ...]
    before: tuple[int, ...]

    @property
    def key(self) -> object:
        """The same as long as the table is."""
        return self.model, self.active

    @property
    def arms(self) -> EstimatedArms:
        """The active arms that there are estimates of; the first arm if there are none."""
        known = [arm for arm in self.active if arm < self.estimates.r.shape[1]] or [0]
        return EstimatedArms(self.estimates, self.names, known)

    def table(self, plugins: Plugins) -> DecisionTable:
        """Return the decision table that is best if the estimates are true.

        Its arms are numbered among those that are in it, and have their names.
        """
        planner = plugins.planner("certified")
        assert isinstance(planner, StationaryPlanner)
        continuation = min(self.estimates.continuation, _MOST_CONTINUATION)
        found = planner.plan_stationary(self.arms.instance, continuation)
        return evolve(found, names=self.arms.names)

    def lift(self, table: DecisionTable) -> Lift:
        """Return what the table earns over the best fixed arm, and over the traffic before."""
        found = lift(self.arms, table)
        n = self.estimates.r.shape[1]
        counts = np.array(self.before[:n], dtype=np.float64)
        if not counts.sum():
            return found
        all_arms = EstimatedArms(self.estimates, self.names, list(range(n)))
        traffic = all_arms.mixtures(counts / counts.sum())
        return over_traffic(found, table, self.arms.draws(0, np.random.default_rng(0)), traffic)


def view_of(state: State) -> View | None:
    """Return what tables and lifts are made of; None if the policy has no estimates."""
    estimates, tally = state.player.estimates(), state.tally
    if estimates is None:
        return None
    names = tuple(arm.name for arm in tally.arms)
    return View(estimates, tally.model, names, tuple(tally.active), tuple(tally.before))
