"""The loop: a policy plays an environment for a horizon; and what it cost, as regret.

Rounds are played in chunks of fixed size. All sums are taken round by round, in order, so
results do not depend on how a policy groups its pulls, on whether it is fused, or on what is
kept.
"""

import math
from collections.abc import Sequence
from typing import NoReturn

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
from bdes_framework.kernels import Record, World, compiled
from bdes_framework.model import Instance
from bdes_framework.schedule import as_integer
from bdes_framework.text import quoted
from bdes_framework.types import FloatArray, IntArray

CHUNK = 1 << 14
"""Rounds per chunk: four arrays of this many numbers stay inside a core's cache."""

_INT64 = np.dtype(np.int64)
_FLOAT64 = np.dtype(np.float64)
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
        The sum of the states at which pulls were made; None if the environment brings none
        (it brings them in every round or in none).
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
        If the policy or the environment breaks its protocol; names its class, the round
        (counted from 0) and the value. A number that is not finite may be found as late as at
        the end of its chunk of rounds.
    """
    horizon = as_integer(horizon, "horizon", 1)
    noted = _as_checkpoints(checkpoints, horizon)
    n_arms = _arms_of(environment)
    accounts = _Accounts(n_arms, noted)
    kept = Record.empty(horizon if keep else min(CHUNK, horizon))
    play = _ChunkPlayer(environment, policy, n_arms)
    for start in range(0, horizon, CHUNK):
        offset = start if keep else 0
        chunk = kept.rounds(offset, offset + min(CHUNK, horizon - start))
        play(chunk, start)
        accounts.add(chunk, start)
        play.check_finite(chunk, start, accounts.total)
    rewards, means, states = accounts.curves
    return Trace(
        horizon=horizon,
        n_arms=n_arms,
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

    Raises
    ------
    ContractError
        If the planner's plan is not what it says it is; names the planner's class.
    """
    if isinstance(environment, HasBenchmark):
        return environment.benchmark(checkpoints)
    if planner is None or not isinstance(environment, HasInstance):
        return None
    instance = environment.instance
    plan = planner.plan(instance, int(checkpoints[-1]))
    try:
        return Benchmark.from_plan(plan, instance, checkpoints)
    except ContractError as error:
        raise ContractError(f"planner {described(planner)}: {error}") from None


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
    """Plays one chunk, fused where both sides can be, and holds both sides to their contract."""

    def __init__(self, environment: Environment, policy: Policy, n_arms: int) -> None:
        self._environment = environment
        self._policy = policy
        self._n_arms = n_arms
        self._unchecked = _FULLY_CHECKED_BLOCKS
        self.is_noisy: bool | None = None
        self.has_states: bool | None = None
        # Asking for a protocol is slow, so it is done once, not once a chunk.
        self._fused: tuple[FusedEnvironment, FusedPolicy] | None = None
        if isinstance(environment, FusedEnvironment) and isinstance(policy, FusedPolicy):
            self._fused = environment, policy

    def __call__(self, chunk: Record, start: int) -> None:
        if self._fused is not None:
            self._play_fused(*self._fused, chunk, start)
            return
        self._ask_and_tell(chunk, start)
        if not self.has_states:
            chunk.states.fill(0.0)

    def _play_fused(
        self, environment: FusedEnvironment, policy: FusedPolicy, chunk: Record, start: int
    ) -> None:
        world = environment.open_rounds(chunk.arms.size)
        self._check_world(world, chunk.arms.size, start)
        self._note_extras(world.noise.size > 0, True, start)
        # What the policy does not write must show: compiled code checks nothing.
        chunk.arms.fill(-1)
        for values in chunk[1:]:
            values.fill(math.nan)
        policy.play(world, chunk)
        self._check_range(chunk.arms, start, "play wrote")

    def _ask_and_tell(self, chunk: Record, start: int) -> None:
        ask, tell, pull = self._policy.ask, self._policy.tell, self._environment.pull
        n, n_arms, done = chunk.arms.size, self._n_arms, 0
        while done < n:
            arms = ask(n - done)
            # One round at a time is how most people write policies: that path stays lean.
            if type(arms) is np.ndarray and arms.dtype is _INT64 and arms.shape == _ONE:
                if not 0 <= arms.item() < n_arms:
                    self._check_range(arms, start + done, "ask returned")
            else:
                self._check_arms(arms, n - done, start + done)
            outcome, end = pull(arms), done + arms.size
            try:
                self._write(chunk, done, end, arms, outcome, start + done)
            except (AttributeError, TypeError, ValueError):
                self._check_outcome(outcome, arms.size, start + done)
                raise
            tell(outcome.rewards)
            done = end

    def _write(
        self, chunk: Record, done: int, end: int, arms: IntArray, outcome: Outcome, at: int
    ) -> None:
        all_arms, all_rewards, all_means, all_probabilities, all_states = chunk
        rewards, probabilities, states = outcome.rewards, outcome.probabilities, outcome.states
        noisy, stated = probabilities is not None, states is not None
        if noisy is not self.is_noisy or stated is not self.has_states:
            self._note_extras(noisy, stated, at)
        if end - done == 1 and rewards.shape == _ONE:
            reward, mean = rewards.item(), outcome.means.item()
            if self._unchecked or type(reward) is not float or type(mean) is not float:
                self._check_outcome(outcome, 1, at)
            all_arms[done], all_rewards[done], all_means[done] = arms.item(), reward, mean
            if probabilities is not None:
                all_probabilities[done] = probabilities.item()
            if states is not None:
                all_states[done] = states.item()
            return
        self._check_outcome(outcome, end - done, at)
        all_arms[done:end] = arms
        all_rewards[done:end] = rewards
        all_means[done:end] = outcome.means
        if probabilities is not None:
            all_probabilities[done:end] = probabilities
        if states is not None:
            all_states[done:end] = states

    def _note_extras(self, noisy: bool, stated: bool, at: int) -> None:
        for name, now, so_far in (
            ("probabilities (noise)", noisy, self.is_noisy),
            ("states", stated, self.has_states),
        ):
            if so_far is not None and now is not so_far:
                words = ("brought", "none before") if now else ("brought no", "some before")
                self._refuse_environment(at, f"{words[0]} {name}, but {words[1]}: all or none")
        self.is_noisy, self.has_states = noisy, stated

    def _check_arms(self, arms: IntArray, limit: int, at: int) -> None:
        if type(arms) is not np.ndarray or arms.dtype != _INT64 or arms.ndim != 1:
            what = f"must return a 1-d array of int64, got {_form(arms)}: {quoted(arms)}"
            self._refuse_policy(at, f"ask {what}")
        if not 0 < arms.size <= limit:
            self._refuse_policy(at, f"ask must return 1 to {limit} arms, got {arms.size}")
        self._check_range(arms, at, "ask returned")

    def _check_range(self, arms: IntArray, at: int, how: str) -> None:
        if arms.min() < 0 or arms.max() >= self._n_arms:
            wrong = int(np.flatnonzero((arms < 0) | (arms >= self._n_arms))[0])
            unplayed = " or no arm" if how == "play wrote" and arms[wrong] == -1 else ""
            allowed = f"arms go from 0 to {self._n_arms - 1}"
            self._refuse_policy(at + wrong, f"{how} arm {arms[wrong]}{unplayed}; {allowed}")

    def _check_outcome(self, outcome: Outcome, n: int, at: int) -> None:
        if not isinstance(outcome, Outcome):
            self._refuse_environment(at, f"pull must return an Outcome, got {quoted(outcome)}")
        for name in ("rewards", "means", "probabilities", "states"):
            values = getattr(outcome, name)
            if values is None and name in ("probabilities", "states"):
                continue
            self._check_floats(values, n, at, f"pull of {n} arms", name)
            if self._unchecked and not np.isfinite(values).all():
                self._refuse_environment(at, f"{name} are not finite: {quoted(values)}")
        self._unchecked = max(self._unchecked - 1, 0)

    def _check_world(self, world: World, n: int, at: int) -> None:
        how = f"open_rounds({n})"
        if not (isinstance(world, World) and isinstance(world.lam, int | float)):
            what = "must return a World, with a number for lam"
            self._refuse_environment(at, f"{how} {what}, got {quoted(world)}")
        noise = n if np.size(world.noise) else 0
        sizes = {"r": self._n_arms, "b": self._n_arms, "q": 1, "uniforms": n, "noise": noise}
        for name, size in sizes.items():
            self._check_floats(getattr(world, name), size, at, how, name)

    def _check_floats(self, values: object, n: int, at: int, how: str, name: str) -> None:
        if not isinstance(values, np.ndarray) or (values.dtype, values.shape) != (_FLOAT64, (n,)):
            wanted = f"array of float64, shape ({n},)"
            what = f"{how} must bring {name} as {wanted}, got {_form(values)}"
            self._refuse_environment(at, what)

    def check_finite(self, chunk: Record, start: int, total: float) -> None:
        """Refuse what is not finite; ``total`` is not either if anything added up is not."""
        if math.isfinite(total) and (not self.is_noisy or np.isfinite(chunk.probabilities.sum())):
            return
        for name in ("rewards", "means", "states") + ("probabilities",) * bool(self.is_noisy):
            values = getattr(chunk, name)
            for wrong in np.flatnonzero(~np.isfinite(values))[:1].tolist():
                at, value = start + wrong, values[wrong]
                if self._fused is not None and name == "rewards":
                    self._refuse_policy(at, "play wrote an arm, but did not call play_round")
                self._refuse_environment(at, f"{name} are not finite: {value}")

    def _refuse_policy(self, at: int, what: str) -> NoReturn:
        raise _broken("policy", self._policy, at, what)

    def _refuse_environment(self, at: int, what: str) -> NoReturn:
        raise _broken("environment", self._environment, at, what)


def _broken(role: str, thing: object, at: int, what: str) -> ContractError:
    return ContractError(f"{role} {described(thing)}, round {at} (counted from 0): {what}")


def _form(values: object) -> str:
    if isinstance(values, np.ndarray):
        return f"array of {values.dtype}, shape {values.shape}"
    return type(values).__name__


def described(thing: object) -> str:
    """Return where an object's class lives, such as ``my_plugin.policy.MyPolicy``."""
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def _arms_of(environment: Environment) -> int:
    """Return how many arms there are, having held the environment to what it says."""
    who = f"environment {described(environment)}"
    try:
        n_arms = as_integer(environment.n_arms, "n_arms", 1)
    except InvalidValueError as error:
        raise ContractError(f"{who}: {error}") from None
    if isinstance(environment, HasInstance):
        instance = environment.instance
        if not isinstance(instance, Instance):
            raise ContractError(f"{who}: instance must be an Instance, got {quoted(instance)}")
        if instance.n_arms != n_arms:
            raise ContractError(
                f"{who}: n_arms is {n_arms}, but its instance has {instance.n_arms}"
            )
    return n_arms


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

    @property
    def total(self) -> float:
        """Everything added up, meaningless but for not being finite if a part is not."""
        return sum(self._totals.tolist())

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
