"""Phases of exploration: arms in a known order, sums of their rewards, weights in the state.

Exploring is always the same kind of work: play arms in loops, and add the rewards of some
of the pulls to sums. A phase says which, in a few small tables, whatever its length; three
compiled functions write its arms, add up its rewards, and say what it left of the state.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from attrs import frozen

from bdes_framework import FloatArray, IntArray, compiled, finite_rewards, state_decay

NOT_SAMPLED = -1
"""The slot of rewards that are added to no sum."""


class PhaseStep(NamedTuple):
    """Two arms in turn for some pulls, and the slots that their rewards are added to."""

    first: int
    second: int
    pulls: int
    slot: int = NOT_SAMPLED
    """Of the pulls of ``first``: the 1st, 3rd, 5th ..."""
    second_slot: int = NOT_SAMPLED


Loop: TypeAlias = tuple[int, Sequence[PhaseStep]]
"""How often, and what."""


def one_arm(arm: int, pulls: int, slot: int = NOT_SAMPLED) -> PhaseStep:
    """Return the step that plays one arm only."""
    return PhaseStep(arm, arm, pulls, slot, slot)


@frozen(eq=False)
class Phase:
    """Loops of steps, one after another."""

    steps: IntArray
    """Shape (R, 5): one :class:`PhaseStep` per row, each of at least one pull."""
    loops: IntArray
    """Shape (L, 3): the first step, the one after the last, and how often they are played."""
    n_slots: int
    """How many sums there are."""
    n_pulls: int

    @classmethod
    def of(cls, loops: Iterable[Loop], n_slots: int) -> "Phase":
        """Return the phase that plays these loops; what is empty is left out."""
        steps: list[PhaseStep] = []
        table: list[tuple[int, int, int]] = []
        for repeats, parts in loops:
            table.append((len(steps), len(steps) + len(parts), repeats))
            steps += parts
        return cls.from_tables(
            np.array(steps, dtype=np.int64).reshape(-1, 5),
            np.array(table, dtype=np.int64).reshape(-1, 3),
            n_slots,
        )

    @classmethod
    def from_tables(cls, steps: IntArray, loops: IntArray, n_slots: int) -> "Phase":
        """Return the phase of some steps and loops, as tables; what is empty is left out."""
        pulls = steps[:, 2]
        kept_before, pulls_before = (
            np.concatenate([[0], np.cumsum(counts)]) for counts in (pulls > 0, pulls)
        )
        first, after = kept_before[loops[:, 0]], kept_before[loops[:, 1]]
        each = pulls_before[loops[:, 1]] - pulls_before[loops[:, 0]]
        played = (each > 0) & (loops[:, 2] > 0)
        table = np.column_stack([first, after, loops[:, 2]])[played]
        n_pulls = int((each * loops[:, 2])[played].sum())
        return cls(steps[pulls > 0], table, n_slots, n_pulls)

    @classmethod
    def once(cls, steps: IntArray, n_slots: int) -> "Phase":
        """Return the phase that plays a table of steps once; shape (R, 5), none empty."""
        loops = np.array([[0, steps.shape[0], 1]], dtype=np.int64)
        return cls(steps, loops, n_slots, int(steps[:, 2].sum()))


class PhaseReader:
    """Reads one phase: the arms to come, and the sums of the rewards observed."""

    def __init__(self, phase: Phase) -> None:
        self._phase = phase
        # Loop, repeat, step, and pulls done in that step.
        self._cursor = np.zeros(4, dtype=np.int64)
        if phase.n_pulls:
            self._cursor[2] = phase.loops[0, 0]
        self.sums = np.zeros(phase.n_slots)
        self.left = phase.n_pulls
        self._asked = 0

    def arms(self, n: int) -> IntArray:
        """Return the next ``n`` arms: at most as many as are left."""
        self._asked = n
        arms = np.empty(n, dtype=np.int64)
        _write(self._phase.steps, self._phase.loops, self._cursor.copy(), arms)
        return arms

    def take(self, rewards: FloatArray) -> None:
        """Add up the rewards of the next pulls, and move on."""
        check_rewards(rewards, self._asked)
        self._asked = 0
        _add_up(self._phase.steps, self._phase.loops, self._cursor, rewards, self.sums)
        self.left -= rewards.size


def check_rewards(rewards: FloatArray, asked: int) -> None:
    """Raise for rewards that are not finite or not as many as asked for."""
    if rewards.size != asked or not _all_finite(rewards):
        finite_rewards(rewards, asked)  # says what is wrong


@compiled
def _all_finite(rewards: FloatArray) -> bool:
    """Return whether all rewards are finite, three times as fast as numpy."""
    wrong = 0
    for k in range(rewards.size):
        wrong += not abs(rewards[k]) < math.inf
    return wrong == 0


@compiled
def _after(
    steps: IntArray, loops: IntArray, loop: int, repeat: int, step: int, done: int
) -> tuple[int, int, int, int]:
    """Return the place after ``done`` pulls of a step: at its end, the next step's beginning."""
    if done < steps[step, 2]:
        return loop, repeat, step, done
    if step + 1 < loops[loop, 1]:
        return loop, repeat, step + 1, 0
    if repeat + 1 < loops[loop, 2]:
        return loop, repeat + 1, loops[loop, 0], 0
    if loop + 1 < loops.shape[0]:
        return loop + 1, 0, loops[loop + 1, 0], 0
    return loop, repeat, step, done


@compiled
def _write(steps: IntArray, loops: IntArray, cursor: IntArray, arms: IntArray) -> None:
    loop, repeat, step, done = cursor[0], cursor[1], cursor[2], cursor[3]
    t = 0
    while t < arms.size:
        first, second = steps[step, 0], steps[step, 1]
        if done % 2 == 1:
            first, second = second, first
        start, stop = t, min(arms.size, t + steps[step, 2] - done)
        while t < stop - 1:
            arms[t] = first
            arms[t + 1] = second
            t += 2
        if t < stop:
            arms[t] = first
            t += 1
        loop, repeat, step, done = _after(steps, loops, loop, repeat, step, done + stop - start)


@compiled
def _add_up(
    steps: IntArray, loops: IntArray, cursor: IntArray, rewards: FloatArray, sums: FloatArray
) -> None:
    """Add in playing order, reward by reward, so that blocks of any size give the same sums."""
    loop, repeat, step, done = cursor[0], cursor[1], cursor[2], cursor[3]
    t = 0
    while t < rewards.size:
        stop = min(rewards.size, t + steps[step, 2] - done)
        slot, other = steps[step, 3], steps[step, 4]
        if slot == other and slot >= 0:
            total = sums[slot]
            for k in range(t, stop):
                total += rewards[k]
            sums[slot] = total
        elif slot != other:
            turn = done % 2
            for k in range(t, stop):
                now = other if turn == 1 else slot
                if now >= 0:
                    sums[now] += rewards[k]
                turn = 1 - turn
        loop, repeat, step, done = _after(steps, loops, loop, repeat, step, done + stop - t)
        t = stop
    cursor[0], cursor[1], cursor[2], cursor[3] = loop, repeat, step, done


class StateWeights:
    """Weight of every arm pulled so far in the state, for a given lam.

    The state is always a weighted mean of the first state and the end states of the arms
    pulled, and the weights do not depend on those: so estimates can be put in later.
    """

    def __init__(self, n_arms: int, lam: float) -> None:
        self._lam = lam
        self._weights = np.zeros(n_arms + 1)
        self._weights[-1] = 1.0
        self.n_pulls = 0

    def add(self, phase: Phase) -> None:
        """Add the weights of a phase that was played."""
        self.n_pulls += phase.n_pulls
        added = np.zeros_like(self._weights)
        kept = _fold(phase.steps, phase.loops, self._lam, added)
        self._weights = kept * self._weights + added

    def state(self, b: FloatArray, q0: float) -> float:
        """Return the state now, for these end states and this first state."""
        return float(np.dot(self._weights[:-1], b) + self._weights[-1] * q0)


_FORGOTTEN = 1e-20
"""A share of the state that no later sum of weights, which is 1, would show."""


@compiled
def _fold(steps: IntArray, loops: IntArray, lam: float, weights: FloatArray) -> float:
    """Add each arm's share of the state after a phase; return the share of the state before.

    Backwards from the last pull, until nothing of the state before can be left.
    """
    if lam == 0.0:
        return 1.0
    kept = 1.0
    for loop in range(loops.shape[0] - 1, -1, -1):
        pulls = 0
        for step in range(loops[loop, 0], loops[loop, 1]):
            pulls += steps[step, 2]
        # What one repeat leaves, the later ones keep a share of: a geometric sum.
        left, lost = state_decay(lam, loops[loop, 2] * pulls)
        share = kept * (lost / state_decay(lam, pulls)[1])
        for step in range(loops[loop, 1] - 1, loops[loop, 0] - 1, -1):
            share = _fold_step(steps, step, lam, share, weights)
            if share < _FORGOTTEN:
                break
        kept *= left
        if kept < _FORGOTTEN:
            return 0.0
    return kept


@compiled
def _fold_step(steps: IntArray, step: int, lam: float, share: float, weights: FloatArray) -> float:
    """Divide a share of the state among a step's arms; return what belongs to pulls before."""
    first, second, pulls = steps[step, 0], steps[step, 1], steps[step, 2]
    if first == second:
        kept, lost = state_decay(lam, pulls)
        weights[first] += share * lost
        return share * kept
    if pulls % 2 == 1:
        weights[first] += share * lam
        share *= 1.0 - lam
    kept, lost = state_decay(lam, pulls - pulls % 2)
    pairs = share * lost / (2.0 - lam)
    weights[first] += pairs * (1.0 - lam)
    weights[second] += pairs
    return share * kept
