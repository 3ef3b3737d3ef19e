"""The loop: a policy plays an environment for a horizon; and what it cost, as regret.

Rounds are played in chunks of fixed size. All sums are taken round by round, in order, so
results do not depend on how a policy groups its pulls, on whether it is fused, or on what is
kept.
"""

from collections.abc import Sequence

import numpy as np
from attrs import field, frozen

from bdes_framework.errors import ContractError, InvalidValueError
from bdes_framework.interfaces import (
    Benchmark,
    Diagnostics,
    Environment,
    FusedEnvironment,
    FusedPolicy,
    HasBenchmark,
    HasDiagnostics,
    HasInstance,
    Outcome,
    Planner,
    Policy,
)
from bdes_framework.kernels import Record, compiled
from bdes_framework.model import Instance
from bdes_framework.text import quoted
from bdes_framework.types import FloatArray, IntArray

CHUNK = 1 << 14
"""Rounds per chunk: four arrays of this many numbers stay inside a core's cache."""

_INT64 = np.dtype(np.int64)
_ONE = (1,)
_FULLY_CHECKED_BLOCKS = 3


@frozen(eq=False)
class Trace:
    """What happened in one simulation.

    Parameters
    ----------
    horizon, n_arms : int
        How many rounds were played, over how many arms.
    checkpoints : array of int, shape (c,)
        After how many rounds the curves were noted; the last is the horizon.
    cumulative_rewards, cumulative_means : array of float, shape (c,)
        What was paid up to each checkpoint, and what was to be expected of the same pulls.
    cumulative_states : array of float, shape (c,), or None
        The sum of the states at which pulls were made; None if the environment brings none.
    counts : array of int, shape (K,)
        How often each arm was pulled.
    arms, rewards, means : arrays, shape (horizon,), or None
        Every round, unless the simulation was asked to keep curves only.
    probabilities : array of float, shape (horizon,), or None
        Under noise, what each reward was drawn from.
    diagnostics : mapping
        What the policy showed of its workings at the end.
    """

    horizon: int
    n_arms: int
    checkpoints: IntArray
    cumulative_rewards: FloatArray
    cumulative_means: FloatArray
    cumulative_states: FloatArray | None
    counts: IntArray
    arms: IntArray | None = None
    rewards: FloatArray | None = None
    means: FloatArray | None = None
    probabilities: FloatArray | None = None
    diagnostics: Diagnostics = field(factory=dict)

    @property
    def total_reward(self) -> float:
        """What was paid over the whole horizon."""
        return float(self.cumulative_rewards[-1])

    @property
    def total_mean(self) -> float:
        """What was to be expected of the arms really pulled, over the whole horizon."""
        return float(self.cumulative_means[-1])


def log_checkpoints(horizon: int, n: int = 50) -> IntArray:
    """Return up to ``n`` rounds from 1 to ``horizon``, evenly spaced on a log scale.

    >>> log_checkpoints(1000, 4).tolist()
    [1, 10, 100, 1000]
    """
    if horizon < 1:
        raise InvalidValueError(f"horizon must be at least 1, got {horizon}")
    if n < 2:
        raise InvalidValueError(f"n must be at least 2, got {n}")
    return np.unique(np.rint(np.geomspace(1, horizon, n)).astype(np.int64))


def simulate(
    environment: Environment,
    policy: Policy,
    horizon: int,
    *,
    checkpoints: Sequence[int] | IntArray | None = None,
    keep: bool = True,
) -> Trace:
    """Let a policy play an environment for ``horizon`` rounds.

    Parameters
    ----------
    environment, policy
        Fresh ones: both are used up.
    horizon : int
        How many rounds to play.
    checkpoints : increasing rounds, optional
        When to note the curves; log-spaced by default. The horizon is always the last.
    keep : bool
        Whether to keep every round. If not, memory stays the same at any horizon.

    Raises
    ------
    ContractError
        If the policy or the environment breaks its protocol; names it, the round and the
        value.
    """
    if isinstance(horizon, bool) or not isinstance(horizon, int) or horizon < 1:
        raise InvalidValueError(f"horizon must be an integer of at least 1, got {quoted(horizon)}")
    noted = _as_checkpoints(checkpoints, horizon)
    accounts = _Accounts(environment.n_arms, noted)
    kept = Record.empty(horizon if keep else min(CHUNK, horizon))
    play = _ChunkPlayer(environment, policy)
    for start in range(0, horizon, CHUNK):
        offset = start if keep else 0
        chunk = kept.rounds(offset, offset + min(CHUNK, horizon - start))
        play(chunk, start)
        accounts.add(chunk, start)
    rewards, means, states = accounts.curves
    return Trace(
        horizon=horizon,
        n_arms=environment.n_arms,
        checkpoints=noted,
        cumulative_rewards=rewards,
        cumulative_means=means,
        cumulative_states=states if play.has_states else None,
        counts=accounts.counts,
        arms=kept.arms if keep else None,
        rewards=kept.rewards if keep else None,
        means=kept.means if keep else None,
        probabilities=kept.probabilities if keep and play.is_noisy else None,
        diagnostics=dict(policy.diagnostics()) if isinstance(policy, HasDiagnostics) else {},
    )


def benchmark_of(
    environment: Environment, checkpoints: IntArray, planner: Planner | None
) -> Benchmark | None:
    """Return what a policy on ``environment`` is measured against, or None if nothing is known.

    An environment's own benchmark comes first; otherwise a planner plans its instance.
    """
    if isinstance(environment, HasBenchmark):
        return environment.benchmark(checkpoints)
    if planner is None or not isinstance(environment, HasInstance):
        return None
    instance = environment.instance
    return Benchmark.from_plan(planner.plan(instance, int(checkpoints[-1])), instance, checkpoints)


def des_regret(trace: Trace, benchmark: Benchmark) -> FloatArray:
    """Return the DES regret at the trace's checkpoints: shape (c,).

    The expected reward of the benchmark's sequence, less that of the arms really pulled.
    Before the horizon this compares with the first rounds of the sequence that is best
    for the whole horizon, so it may be negative there.
    """
    if not np.array_equal(trace.checkpoints, benchmark.checkpoints):
        raise InvalidValueError("trace and benchmark were noted at different checkpoints")
    return benchmark.values - trace.cumulative_means


def external_regret(trace: Trace, instance: Instance) -> FloatArray:
    """Return the external regret at the trace's checkpoints: shape (c,).

    Against the best fixed arm *on the states the policy itself induced*: what most bandit
    papers call regret, and no measure of what another sequence could have earned.
    """
    if trace.cumulative_states is None:
        raise InvalidValueError("the trace's environment brought no states")
    best: FloatArray = instance.r.max() * trace.cumulative_states - trace.cumulative_means
    return best


# -- one chunk ------------------------------------------------------------------------------


class _ChunkPlayer:
    """Plays one chunk, fused where both sides can be."""

    def __init__(self, environment: Environment, policy: Policy) -> None:
        self._environment = environment
        self._policy = policy
        self._n_arms = environment.n_arms
        self._unchecked = _FULLY_CHECKED_BLOCKS
        self.is_noisy = False
        self.has_states = True
        # Asking for a protocol is slow, so it is done once, not once a chunk.
        self._fused: tuple[FusedEnvironment, FusedPolicy] | None = None
        if isinstance(environment, FusedEnvironment) and isinstance(policy, FusedPolicy):
            self._fused = environment, policy

    def __call__(self, chunk: Record, start: int) -> None:
        if self._fused is None:
            self._ask_and_tell(chunk, start)
            return
        environment, policy = self._fused
        world = environment.open_rounds(chunk.arms.size)
        policy.play(world, chunk)
        self.is_noisy = world.noise.size > 0

    def _ask_and_tell(self, chunk: Record, start: int) -> None:
        ask, tell, pull = self._policy.ask, self._policy.tell, self._environment.pull
        all_arms, all_rewards, all_means, all_probabilities, all_states = chunk
        n, n_arms, done = chunk.arms.size, self._n_arms, 0
        while done < n:
            arms = ask(n - done)
            # One round at a time is how most people write policies: that path stays lean.
            if type(arms) is np.ndarray and arms.dtype is _INT64 and arms.shape == _ONE:
                arm, end = arms.item(), done + 1
                if not 0 <= arm < n_arms:
                    self._check_arms(arms, n - done, start + done)
                outcome = pull(arms)
                rewards, means = outcome.rewards, outcome.means
                if self._unchecked or len(rewards) != 1 or len(means) != 1:
                    self._check_outcome(outcome, 1, start + done)
                all_arms[done] = arm
                all_rewards[done] = rewards.item()
                all_means[done] = means.item()
            else:
                self._check_arms(arms, n - done, start + done)
                outcome, end = pull(arms), done + arms.size
                rewards = outcome.rewards
                self._check_outcome(outcome, arms.size, start + done)
                all_arms[done:end] = arms
                all_rewards[done:end] = rewards
                all_means[done:end] = outcome.means
            if outcome.states is None:
                self.has_states = False
            else:
                all_states[done:end] = outcome.states
            if outcome.probabilities is not None:
                all_probabilities[done:end] = outcome.probabilities
                self.is_noisy = True
            tell(rewards)
            done = end

    def _check_arms(self, arms: IntArray, limit: int, at: int) -> None:
        if type(arms) is not np.ndarray or arms.dtype != _INT64 or arms.ndim != 1:
            kind = f"array of {arms.dtype}" if isinstance(arms, np.ndarray) else type(arms).__name__
            shape = f", shape {arms.shape}" if isinstance(arms, np.ndarray) else ""
            self._refuse(at, f"must return a 1-d array of int64, got {kind}{shape}: {quoted(arms)}")
        if not 0 < arms.size <= limit:
            self._refuse(at, f"must return 1 to {limit} arms, got {arms.size}")
        if arms.min() < 0 or arms.max() >= self._n_arms:
            wrong = int(np.flatnonzero((arms < 0) | (arms >= self._n_arms))[0])
            allowed = f"arms go from 0 to {self._n_arms - 1}"
            self._refuse(at + wrong, f"returned arm {arms[wrong]}; {allowed}")

    def _refuse(self, at: int, what: str) -> None:
        raise ContractError(f"policy {described(self._policy)}, round {at}: ask {what}")

    def _check_outcome(self, outcome: Outcome, n: int, at: int) -> None:
        if outcome.rewards.shape != (n,) or outcome.means.shape != (n,):
            shapes = f"{outcome.rewards.shape} and {outcome.means.shape}"
            what = f"{n} arms brought rewards and means of shapes {shapes}"
        elif self._unchecked and not (
            np.isfinite(outcome.rewards).all() and np.isfinite(outcome.means).all()
        ):
            what = f"rewards or means are not finite: {quoted(outcome)}"
        else:
            self._unchecked = max(self._unchecked - 1, 0)
            return
        raise ContractError(f"environment {described(self._environment)}, round {at}: {what}")


def described(thing: object) -> str:
    """Return where an object's class lives, such as ``my_plugin.policy.MyPolicy``."""
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


@compiled
def _add_up(chunk: Record, start: int, stop: int, totals: FloatArray, counts: IntArray) -> None:
    for t in range(start, stop):
        totals[0] += chunk.rewards[t]
        totals[1] += chunk.means[t]
        totals[2] += chunk.states[t]
        counts[chunk.arms[t]] += 1


class _Accounts:
    """Running sums, noted at checkpoints; always added up round by round, in order."""

    def __init__(self, n_arms: int, checkpoints: IntArray) -> None:
        self._checkpoints = checkpoints
        self._totals = np.zeros(3)
        self.counts = np.zeros(n_arms, dtype=np.int64)
        self.curves = np.zeros((3, checkpoints.size))

    def add(self, chunk: Record, start: int) -> None:
        n, done = chunk.arms.size, 0
        low, high = np.searchsorted(self._checkpoints, (start, start + n), side="right")
        for index in range(low, high):
            until = int(self._checkpoints[index]) - start
            _add_up(chunk, done, until, self._totals, self.counts)
            self.curves[:, index], done = self._totals, until
        _add_up(chunk, done, n, self._totals, self.counts)


def _as_checkpoints(values: Sequence[int] | IntArray | None, horizon: int) -> IntArray:
    if values is None:
        return log_checkpoints(horizon)
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise InvalidValueError(f"checkpoints must be a list of rounds, got {quoted(values)}")
    rounds = np.append(array.astype(np.int64), horizon)
    if rounds.size > 1 and rounds[-2] == horizon:
        rounds = rounds[:-1]
    if rounds[0] < 1 or (np.diff(rounds) <= 0).any():
        raise InvalidValueError(
            f"checkpoints must increase from 1 to {horizon}, got {quoted(values)}"
        )
    return rounds
