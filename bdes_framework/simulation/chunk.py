"""Playing chunks of rounds, with checks that policy and environment keep their protocols."""

import math
from contextlib import suppress
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.text import class_path, quoted
from bdes_framework.errors import ContractError
from bdes_framework.interfaces import Environment, FusedEnvironment, FusedPolicy, Outcome, Policy
from bdes_framework.model.rounds import Record, World, sweep_block
from bdes_framework.simulation.totals import MAX_REWARD, MIN_REWARD

_INT64 = np.dtype(np.int64)
_FLOAT64 = np.dtype(np.float64)
_ONE = (1,)
_FULLY_CHECKED_BLOCKS = 3
_NOTE_END = " of the simulation (counted from 0)"
_REPLAYED_SHARE = 1 / 32
"""The share of fused chunks that are played again, besides the first and the last."""


class ChunkPlayer:
    """Plays chunks of rounds, fused if policy and environment can be, and checks both."""

    def __init__(self, environment: Environment, policy: Policy, n_arms: int, horizon: int) -> None:
        self._environment = environment
        self._policy = policy
        self._n_arms = n_arms
        self._horizon = horizon
        self._full_checks_left = _FULLY_CHECKED_BLOCKS
        self.is_noisy: bool | None = None
        self.has_states: bool | None = None
        # isinstance of a protocol is slow, so it is done once, not per chunk.
        self._fused: tuple[FusedEnvironment, FusedPolicy] | None = None
        self._opened: tuple[World, float]
        """The rounds of the last fused chunk, and the state they began at."""
        if isinstance(environment, FusedEnvironment) and isinstance(policy, FusedPolicy):
            self._fused = environment, policy

    def play(self, chunk: Record, start: int) -> None:
        """Play the rounds of ``chunk``, the first of which is round ``start``."""
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
        self._check_extras(world.noise.size > 0, True, start)
        # Compiled code checks nothing: a round that play_round did not play stays NaN.
        chunk.rewards.fill(math.nan)
        chunk.means.fill(math.nan)
        self._opened = world, float(world.q[0])
        # Chosen before the policy plays, by a random number that depends on the seed alone.
        chosen = world.uniforms[0] < _REPLAYED_SHARE
        is_last = start + chunk.arms.size == self._horizon
        try:
            policy.play(world, chunk)
        except BaseException as error:
            note_rounds(error, f"rounds {start} to {start + chunk.arms.size - 1}")
            raise
        if start == 0 or is_last or chosen:
            self._replay(chunk, start)

    def _replay(self, chunk: Record, start: int) -> None:
        """Play the arms of a fused chunk again; raise ContractError unless all else is the same."""
        played, first_state = self._opened
        world, last_state = played._replace(q=np.array([first_state])), float(played.q[0])
        again = Record.empty(chunk.arms.size, chunk.arms)
        if np.isnan(chunk.rewards).any() or sweep_block(world, again) >= 0:
            return  # left for `check`, which says more
        different = np.zeros(chunk.arms.size, dtype=bool)
        for name in self._recorded():
            values, expected = getattr(chunk, name), getattr(again, name)
            different |= (values != expected) & ~(np.isnan(values) & np.isnan(expected))
        different[-1] |= last_state != world.q[0] and not math.isnan(last_state)
        for wrong in first_true(different):
            what = "play recorded what play_round did not play: call it once per round, in order"
            self._raise(self._policy, start + wrong, what)

    def _recorded(self) -> tuple[str, ...]:
        return ("rewards", "means", "states") + ("probabilities",) * bool(self.is_noisy)

    def _ask_and_tell(self, chunk: Record, start: int) -> None:
        ask, tell, pull = self._policy.ask, self._policy.tell, self._environment.pull
        all_arms, all_rewards, all_means, all_probabilities, all_states = chunk
        n, n_arms, done = all_arms.size, self._n_arms, 0
        try:
            while done < n:
                arms = ask(n - done)
                if (
                    type(arms) is not np.ndarray
                    or arms.dtype is not _INT64
                    or arms.shape != _ONE
                    or self._full_checks_left
                ):
                    outcome = self._play_block(arms, chunk, done, start)
                    tell(outcome.rewards)
                    done += arms.size
                    continue
                # One round at a time is how most policies are written: this path is kept fast.
                arm = arms.item()
                if not 0 <= arm < n_arms:
                    self._check_range(arms, start + done, "ask returned")
                outcome = pull(arms)
                try:
                    probabilities, states = outcome.probabilities, outcome.states
                    reward, mean = outcome.rewards.item(), outcome.means.item()
                    all_arms[done], all_rewards[done], all_means[done] = arm, reward, mean
                    if probabilities is not None:
                        all_probabilities[done] = probabilities.item()
                    if states is not None:
                        all_states[done] = states.item()
                except (AttributeError, TypeError, ValueError):
                    self._check_outcome(outcome, 1, start + done)
                    raise
                if (
                    type(reward) is not float
                    or type(mean) is not float
                    or outcome.rewards.shape != _ONE
                    or (probabilities is not None) is not self.is_noisy
                    or (states is not None) is not self.has_states
                ):
                    self._check_outcome(outcome, 1, start + done)
                    self._check_extras(probabilities is not None, states is not None, start + done)
                tell(outcome.rewards)
                done += 1
        except BaseException as error:
            note_rounds(error, f"round {start + done}")
            raise

    def _play_block(self, arms: IntArray, chunk: Record, done: int, start: int) -> Outcome:
        self._check_arms(arms, chunk.arms.size - done, start + done)
        outcome = self._environment.pull(arms)
        self._check_outcome(outcome, arms.size, start + done)
        probabilities, states = outcome.probabilities, outcome.states
        self._check_extras(probabilities is not None, states is not None, start + done)
        end = done + arms.size
        chunk.arms[done:end] = arms
        chunk.rewards[done:end] = outcome.rewards
        chunk.means[done:end] = outcome.means
        if probabilities is not None:
            chunk.probabilities[done:end] = probabilities
        if states is not None:
            chunk.states[done:end] = states
        return outcome

    def _check_extras(self, noisy: bool, stated: bool, at: int) -> None:
        for name, now, before in (
            ("probabilities (noise)", noisy, self.is_noisy),
            ("states", stated, self.has_states),
        ):
            if before is not None and now is not before:
                words = ("brought", "none before") if now else ("brought no", "some before")
                what = f"{words[0]} {name}, but {words[1]}: all or none"
                self._raise(self._environment, at, what)
        self.is_noisy, self.has_states = noisy, stated

    def _check_arms(self, arms: IntArray, limit: int, at: int) -> None:
        if type(arms) is not np.ndarray or arms.dtype != _INT64 or arms.ndim != 1:
            what = f"must return a 1-d array of int64, got {form_of(arms)}: {quoted(arms)}"
            self._raise(self._policy, at, f"ask {what}")
        if not 0 < arms.size <= limit:
            self._raise(self._policy, at, f"ask must return 1 to {limit} arms, got {arms.size}")
        self._check_range(arms, at, "ask returned")

    def _check_range(self, arms: IntArray, at: int, how: str) -> None:
        if arms.min() < 0 or arms.max() >= self._n_arms:
            (wrong,) = first_true((arms < 0) | (arms >= self._n_arms))
            allowed = f"arms go from 0 to {self._n_arms - 1}"
            self._raise(self._policy, at + wrong, f"{how} arm {arms[wrong]}; {allowed}")

    def _check_outcome(self, outcome: Outcome, n: int, at: int) -> None:
        if not isinstance(outcome, Outcome):
            self._raise(
                self._environment, at, f"pull must return an Outcome, got {quoted(outcome)}"
            )
        for name in ("rewards", "means", "probabilities", "states"):
            values = getattr(outcome, name)
            if values is None and name in ("probabilities", "states"):
                continue
            self._check_floats(values, n, at, f"pull of {n} arms", name)
            if self._full_checks_left:
                self._check_values(name, values, at)
        self._full_checks_left = max(self._full_checks_left - 1, 0)

    def _check_values(self, name: str, values: FloatArray, at: int) -> None:
        """Raise ContractError at the first value that is not finite, or not in [0, 1]."""
        for wrong in first_true(~np.isfinite(values)):
            self._raise(self._environment, at + wrong, f"{name} are not finite: {values[wrong]}")
        if name in ("rewards", "means"):
            for wrong in first_true((values < MIN_REWARD) | (values > MAX_REWARD)):
                what = f"{name} must lie in [0, 1], got {values[wrong]}"
                self._raise(self._environment, at + wrong, what)

    def _check_world(self, world: World, n: int, at: int) -> None:
        how = f"open_rounds({n})"
        if not (isinstance(world, World) and isinstance(world.lam, int | float)):
            what = "must return a World, with a number for lam"
            self._raise(self._environment, at, f"{how} {what}, got {quoted(world)}")
        noise = n if np.size(world.noise) else 0
        sizes = {"r": self._n_arms, "b": self._n_arms, "q": 1, "uniforms": n, "noise": noise}
        for name, size in sizes.items():
            self._check_floats(getattr(world, name), size, at, how, name)

    def _check_floats(self, values: object, n: int, at: int, how: str, name: str) -> None:
        if not isinstance(values, np.ndarray) or (values.dtype, values.shape) != (_FLOAT64, (n,)):
            wanted = f"array of float64, shape ({n},)"
            what = f"{how} must bring {name} as {wanted}, got {form_of(values)}"
            self._raise(self._environment, at, what)

    def check(self, chunk: Record, start: int, added: int, total: float) -> None:
        """Raise ContractError if a chunk could not be added up, or not to a finite ``total``.

        ``added`` is the first round that is not valid, or -1.
        """
        noisy_sum = chunk.probabilities.sum() if self.is_noisy else 0.0
        if added < 0 and math.isfinite(total) and math.isfinite(noisy_sum):
            return
        if self._fused is not None:
            for unplayed in first_true(np.isnan(chunk.rewards)):
                if added < 0 or unplayed <= added:
                    what = "play left this round out: every round goes through play_round"
                    self._raise(self._policy, start + unplayed, what)
        self._check_range(chunk.arms, start, "play wrote")
        if self._fused is not None:
            self._replay(chunk, start)  # a policy that wrote the values itself is to blame
        for name in self._recorded():
            self._check_values(name, getattr(chunk, name), start)

    def _raise(self, culprit: Policy | Environment, at: int, what: str) -> NoReturn:
        role = "policy" if culprit is self._policy else "environment"
        where = f"{role} {class_path(culprit)}, round {at} (counted from 0)"
        raise ContractError(f"{where}: {what}")


def note_rounds(error: BaseException, rounds: str) -> None:
    """Add to an exception in which rounds it was raised, unless it says so itself."""
    if not isinstance(error, ContractError):
        with suppress(Exception):  # somebody's own kind of exception
            error.add_note(f"in {rounds}{_NOTE_END}")


def noted_rounds(error: BaseException) -> str:
    """Return in which rounds an exception was raised, such as ``round 7``; empty if unknown."""
    notes: object = getattr(error, "__notes__", None)
    # The last note counts: one exception may be raised twice.
    for note in reversed(notes) if isinstance(notes, list) else ():
        if isinstance(note, str) and note.endswith(_NOTE_END):
            return note.removeprefix("in ").removesuffix(_NOTE_END)
    return ""


def first_true(wrong: NDArray[np.bool_]) -> list[int]:
    """Return the index of the first true value, in a list; an empty list without any."""
    found: list[int] = np.flatnonzero(wrong)[:1].tolist()
    return found


def form_of(values: object) -> str:
    """Return an array's type and shape, or the name of what is no array."""
    if isinstance(values, np.ndarray):
        return f"array of {values.dtype}, shape {values.shape}"
    return type(values).__name__
