"""Simulation of many users: visits one after another, rewards handed over late or never.

Visits are asked for and played in blocks that end where rewards are handed over, so results do
not depend on the size of blocks. Sums are taken visit by visit, in order; only arrays with a
number per user grow.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import numpy as np
from attrs import field, frozen

from bdes_framework._internal.arrays import BoolArray, FloatArray, IntArray
from bdes_framework._internal.display import html_facts, html_table, shown_fields, shown_numbers
from bdes_framework._internal.numbers import as_integer
from bdes_framework._internal.text import class_path, quoted
from bdes_framework._internal.threads import one_thread
from bdes_framework.errors import ContractError
from bdes_framework.interfaces import CrowdEnvironment, CrowdPolicy, Diagnostics, Outcome
from bdes_framework.model.compiling import compiled
from bdes_framework.simulation.chunk import form_of, note_rounds
from bdes_framework.simulation.feedback import Feedback, Mailbox
from bdes_framework.simulation.loop import CHUNK, arms_of, as_checkpoints, diagnostics_of
from bdes_framework.simulation.totals import MAX_REWARD, MIN_REWARD

_INT64 = np.dtype(np.int64)
_FLOAT64 = np.dtype(np.float64)


@frozen(eq=False)
class CrowdTrace:
    """The record of a simulation of many users.

    Parameters
    ----------
    visits, n_users, n_arms : int
        Numbers of visits made, of users who came, and of arms.
    checkpoints : IntArray, shape (c,)
        Visits after which the curves over visits were recorded; the last is the last visit.
    cumulative_rewards, cumulative_means : FloatArray, shape (c,)
        Cumulative reward, and its expectation given the arms shown.
    cumulative_states : FloatArray | None, shape (c,)
        Cumulative state of the users at their visits; None if the environment brings no states.
    counts : IntArray, shape (K,)
        How often each arm was shown.
    user_visits : IntArray, shape (n_users,)
        How often each user came, in the order of first visits.
    user_rewards, user_means : FloatArray, shape (n_users,)
        Total reward of each user, and its expectation.
    told : int
        How many rewards were handed over.
    users, arms : IntArray | None, shape (visits,)
        User and arm of each visit; None, like all below, unless visits were kept.
    rewards, means : FloatArray | None, shape (visits,)
        The reward of each visit, and its expectation.
    states : FloatArray | None, shape (visits,)
        The user's state at each visit; None if the environment brings none.
    lost : BoolArray | None, shape (visits,)
        Which rewards the policy never learns.
    diagnostics : Diagnostics
        The policy's diagnostics at the end; empty if it has none or they failed.
    diagnostics_error : BaseException | None
        What ``diagnostics`` of the policy raised, or that it returned no mapping.
    """

    visits: int
    n_users: int
    n_arms: int
    checkpoints: IntArray
    cumulative_rewards: FloatArray
    cumulative_means: FloatArray
    cumulative_states: FloatArray | None
    counts: IntArray
    user_visits: IntArray
    user_rewards: FloatArray
    user_means: FloatArray
    told: int
    users: IntArray | None = None
    arms: IntArray | None = None
    rewards: FloatArray | None = None
    means: FloatArray | None = None
    states: FloatArray | None = None
    lost: BoolArray | None = None
    diagnostics: Diagnostics = field(factory=dict)
    diagnostics_error: BaseException | None = None

    @property
    def total_reward(self) -> float:
        """The sum of all rewards."""
        return float(self.cumulative_rewards[-1])

    @property
    def total_mean(self) -> float:
        """The expectation of the sum of all rewards, given the arms shown."""
        return float(self.cumulative_means[-1])

    @property
    def cumulative_user_rewards(self) -> FloatArray:
        """Shape (n_users,): reward of the first users together, in the order they first came."""
        return np.cumsum(self.user_rewards)

    @property
    def cumulative_user_means(self) -> FloatArray:
        """Shape (n_users,): expected reward of the first users together, given the arms shown."""
        return np.cumsum(self.user_means)

    def __repr__(self) -> str:
        return shown_fields(
            "CrowdTrace",
            visits=self.visits,
            n_users=self.n_users,
            n_arms=self.n_arms,
            total_reward=self.total_reward,
            total_mean=self.total_mean,
            told=self.told,
            counts=shown_numbers(self.counts),
            kept="every visit" if self.arms is not None else "curves only",
        )

    def _repr_html_(self) -> str:
        facts = [
            ("visits", self.visits),
            ("users", self.n_users),
            ("reward", self.total_reward),
            ("expected reward", self.total_mean),
            ("expected reward per visit", self.total_mean / self.visits),
            ("expected reward per user", self.total_mean / self.n_users),
        ]
        order = np.argsort(-self.counts, kind="stable").tolist()
        rows = [
            (arm, int(n), f"{100 * n / self.visits:.1f} %")
            for arm in order
            for n in [self.counts[arm]]
        ]
        return html_facts("CrowdTrace", facts) + html_table(["arm", "shown", "share"], rows)


class _Block(NamedTuple):
    """What happened in some visits: all arrays of shape (n,)."""

    users: IntArray
    arms: IntArray
    rewards: FloatArray
    means: FloatArray
    states: FloatArray


@one_thread()
def simulate_crowd(
    environment: CrowdEnvironment,
    policy: CrowdPolicy,
    visits: int,
    *,
    feedback: Feedback | None = None,
    checkpoints: Sequence[int] | IntArray | None = None,
    keep: bool = False,
) -> CrowdTrace:
    """Simulate a policy on many users for ``visits`` visits, or until nobody comes any more.

    Parameters
    ----------
    environment, policy : CrowdEnvironment, CrowdPolicy
        Newly built ones: both are used up.
    visits : int
        Number of visits, at most.
    feedback : Feedback | None
        When the policy learns rewards; all of them, after every 100 visits, by default.
    checkpoints : Sequence[int] | IntArray | None
        Increasing visits at which the curves are recorded; log-spaced by default. The last visit
        is always the last.
    keep : bool
        Whether to keep every visit. If not, memory grows with users, with ``feedback.every`` and
        with delays, but not with visits.

    Raises
    ------
    ContractError
        If the policy or the environment breaks its protocol; names its class, the visit
        (counted from 0) and the value.
    """
    visits = as_integer(visits, "visits", 1)
    marks = as_checkpoints(checkpoints, visits)
    feedback = Feedback() if feedback is None else feedback
    player = _VisitPlayer(environment, policy)
    totals = _Totals(player.n_arms, marks)
    mailbox = Mailbox(feedback)
    kept: list[_Block] = []
    lost: list[BoolArray] = []
    done, told = 0, 0
    while done < visits:
        until_told = feedback.every - done % feedback.every
        block = player.play(min(until_told, CHUNK, visits - done), done)
        if block is None:
            break
        player.check(block, done, totals.add(block, done, player.n_users))
        never_known = mailbox.post(block.rewards, done)
        done += block.users.size
        if keep:
            kept.append(_Block._make(array.copy() for array in block))
            lost.append(never_known)
        if done % feedback.every == 0:
            told += player.tell(*mailbox.collect(done), done)
    n = totals.n_users
    reached = np.append(marks[marks < done], done)
    rewards, means, states = totals.curves_at(reached)
    columns = _Block._make(map(np.concatenate, zip(*kept, strict=True))) if keep else None
    diagnostics, diagnostics_error = diagnostics_of(policy)
    return CrowdTrace(
        visits=done,
        n_users=n,
        n_arms=player.n_arms,
        checkpoints=reached,
        cumulative_rewards=rewards,
        cumulative_means=means,
        cumulative_states=states if player.has_states else None,
        counts=totals.counts,
        user_visits=totals.users[:n, 0].astype(np.int64),
        user_rewards=totals.users[:n, 1].copy(),
        user_means=totals.users[:n, 2].copy(),
        told=told,
        users=None if columns is None else columns.users,
        arms=None if columns is None else columns.arms,
        rewards=None if columns is None else columns.rewards,
        means=None if columns is None else columns.means,
        states=columns.states if columns is not None and player.has_states else None,
        lost=np.concatenate(lost) if keep else None,
        diagnostics=diagnostics,
        diagnostics_error=diagnostics_error,
    )


class _VisitPlayer:
    """Asks, pulls and tells, and checks that both sides keep their protocols."""

    def __init__(self, environment: CrowdEnvironment, policy: CrowdPolicy) -> None:
        self._environment = environment
        self._policy = policy
        self.n_arms = arms_of(environment)
        self.n_users = 0
        self.has_states: bool | None = None
        self._is_noisy: bool | None = None

    def play(self, n: int, at: int) -> _Block | None:
        """Play up to ``n`` visits, of which the first is visit ``at``; None if nobody comes."""
        try:
            users = self._environment.arrivals(n)
            self._check_users(users, n, at)
            if users.size == 0:
                return None
            arms = self._policy.ask(users)
            self._check_arms(arms, users.size, at)
            outcome = self._environment.pull(users, arms)
            self._check_outcome(outcome, users.size, at)
        except BaseException as error:
            note_rounds(error, f"visits {at} to {at + n - 1}")
            raise
        states = np.zeros(users.size) if outcome.states is None else outcome.states
        return _Block(users, arms, outcome.rewards, outcome.means, states)

    def tell(self, visits: IntArray, rewards: FloatArray, at: int) -> int:
        """Hand rewards over, if there are any; return how many."""
        if visits.size:
            try:
                self._policy.tell(visits, rewards)
            except BaseException as error:
                note_rounds(error, f"visit {at}")
                raise
        return visits.size

    def _check_users(self, users: IntArray, n: int, at: int) -> None:
        if type(users) is not np.ndarray or users.dtype != _INT64 or users.ndim != 1:
            what = f"must return a 1-d array of int64, got {form_of(users)}: {quoted(users)}"
            self._raise(self._environment, at, f"arrivals({n}) {what}")
        if users.size > n:
            self._raise(self._environment, at, f"arrivals({n}) returned {users.size} users")
        wrong, highest = _next_new_user(users, self.n_users)
        if wrong >= 0:
            what = f"arrivals returned user {users[wrong]}; users are numbered by first visit, from"
            self._raise(self._environment, at + wrong, f"{what} 0 to {highest} here")
        if at == 0 and users.size == 0:
            self._raise(self._environment, at, "arrivals returned nobody: one visit is the least")
        self.n_users = highest

    def _check_arms(self, arms: IntArray, n: int, at: int) -> None:
        if type(arms) is not np.ndarray or (arms.dtype, arms.shape) != (_INT64, (n,)):
            what = f"must return an array of int64, shape ({n},), got {form_of(arms)}"
            self._raise(self._policy, at, f"ask of {n} visits {what}: {quoted(arms)}")
        wrong = _first_unknown(arms, self.n_arms)
        if wrong >= 0:
            allowed = f"arms go from 0 to {self.n_arms - 1}"
            self._raise(self._policy, at + wrong, f"ask returned arm {arms[wrong]}; {allowed}")

    def _check_outcome(self, outcome: Outcome, n: int, at: int) -> None:
        if not isinstance(outcome, Outcome):
            what = f"pull must return an Outcome, got {quoted(outcome)}"
            self._raise(self._environment, at, what)
        for name in ("rewards", "means", "probabilities", "states"):
            values = getattr(outcome, name)
            if values is None and name in ("probabilities", "states"):
                continue
            is_array = isinstance(values, np.ndarray)
            if not is_array or (values.dtype, values.shape) != (_FLOAT64, (n,)):
                wanted = f"array of float64, shape ({n},)"
                what = f"pull of {n} visits must bring {name} as {wanted}, got {form_of(values)}"
                self._raise(self._environment, at, what)
        for name, now, before in (
            ("probabilities (noise)", outcome.probabilities is not None, self._is_noisy),
            ("states", outcome.states is not None, self.has_states),
        ):
            if before is not None and now is not before:
                words = ("brought", "none before") if now else ("brought no", "some before")
                what = f"{words[0]} {name}, but {words[1]}: all or none"
                self._raise(self._environment, at, what)
        self._is_noisy = outcome.probabilities is not None
        self.has_states = outcome.states is not None

    def check(self, block: _Block, at: int, added: int) -> None:
        """Raise ContractError if ``added``, the first visit that is not valid, is not -1."""
        if added < 0:
            return
        for name in ("rewards", "means"):
            value = getattr(block, name)[added]
            if not MIN_REWARD <= value <= MAX_REWARD:
                what = f"{name} must lie in [0, 1], got {value}"
                self._raise(self._environment, at + added, what)
        what = f"states are not finite: {block.states[added]}"
        self._raise(self._environment, at + added, what)

    def _raise(self, culprit: object, at: int, what: str) -> NoReturn:
        role = "crowd policy" if culprit is self._policy else "crowd environment"
        where = f"{role} {class_path(culprit)}, visit {at} (counted from 0)"
        raise ContractError(f"{where}: {what}")


@compiled
def _first_unknown(arms: IntArray, n_arms: int) -> int:
    """Return the first visit whose arm does not exist, or -1."""
    for v in range(arms.size):
        if arms[v] < 0 or arms[v] >= n_arms:
            return v
    return -1


@compiled
def _next_new_user(users: IntArray, n_users: int) -> tuple[int, int]:
    """Return the first visit of a user out of turn, or -1; and the number of the next new user."""
    for v in range(users.size):
        if users[v] == n_users:
            n_users += 1
        elif users[v] < 0 or users[v] > n_users:
            return v, n_users
    return -1, n_users


class _Totals:
    """Cumulative rewards, means and states, over visits at checkpoints and for each user."""

    def __init__(self, n_arms: int, checkpoints: IntArray) -> None:
        self._checkpoints = checkpoints
        self._sums = np.zeros(3)
        self._curves = np.zeros((3, checkpoints.size))
        self.counts = np.zeros(n_arms, dtype=np.int64)
        self.n_users = 0
        # Visits, rewards and means, side by side: one access to memory per visit, not three.
        self.users = np.zeros((0, 3))

    def add(self, block: _Block, start: int, n_users: int) -> int:
        """Add visits from visit ``start`` on, users so far; return the first not valid, or -1."""
        self.n_users = n_users
        if self.n_users > self.users.shape[0]:
            more = max(1024, 2 * self.n_users) - self.users.shape[0]
            self.users = np.concatenate([self.users, np.zeros((more, 3))])
        marks, curves = self._checkpoints, self._curves
        return _add_visits(block, start, marks, self._sums, self.counts, curves, self.users)

    def curves_at(self, reached: IntArray) -> FloatArray:
        """Return the curves at the checkpoints that were reached, and at the last visit."""
        curves = self._curves[:, : reached.size].copy()
        curves[:, -1] = self._sums
        return curves


@compiled
def _add_visits(
    block: _Block,
    start: int,
    checkpoints: IntArray,
    sums: FloatArray,
    counts: IntArray,
    curves: FloatArray,
    per_user: FloatArray,
) -> int:
    """Add visits one by one, in order; return -1, or the first that is not valid."""
    users, arms, rewards, means, states = block
    reward, mean, state = sums[0], sums[1], sums[2]
    place = np.searchsorted(checkpoints, start, "right")
    upcoming = checkpoints[place] - start - 1 if place < checkpoints.size else -1
    for v in range(users.size):
        if not (MIN_REWARD <= rewards[v] <= MAX_REWARD and MIN_REWARD <= means[v] <= MAX_REWARD):
            return v
        if not math.isfinite(states[v]):
            return v
        reward += rewards[v]
        mean += means[v]
        state += states[v]
        counts[arms[v]] += 1
        user = users[v]
        per_user[user, 0] += 1.0
        per_user[user, 1] += rewards[v]
        per_user[user, 2] += means[v]
        if v == upcoming:
            curves[0, place], curves[1, place], curves[2, place] = reward, mean, state
            place += 1
            upcoming = checkpoints[place] - start - 1 if place < checkpoints.size else -1
    sums[0], sums[1], sums[2] = reward, mean, state
    return -1
