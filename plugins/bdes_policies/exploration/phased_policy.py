"""Policies written as generators of phases, which end in a schedule or another policy.

A script is a generator that reads like the paper's box: it yields a phase, is sent the
phase's sums when all of its rewards have come, and returns the policy that plays the
rest. :class:`PhasedPolicy` makes a policy of it that asks and tells in blocks of any size, and
that plays fused, which is where a script hands over to a policy with a loop of its own.
"""

from collections.abc import Generator
from typing import TypeAlias

import numpy as np

import bdes_framework as bdes
from bdes_framework import Diagnostics, FloatArray, FusedPolicy, IntArray, Policy, Record, World
from bdes_policies.exploration.phases import Phase, PhaseReader, check_rewards

MAX_BLOCK = 1 << 16
"""Arms returned at once at most, so that memory stays flat whatever limit is asked with."""

PhaseGenerator: TypeAlias = Generator[Phase, FloatArray, Policy]
"""Yields phases, is sent their sums, returns who plays the rest."""

DiagnosticsDict: TypeAlias = dict[str, bdes.DiagnosticValue]
"""What a script wants to show; it adds to them as it goes."""


class FollowSchedule:
    """Plays a schedule to its end, whatever the rewards."""

    def __init__(self, schedule: bdes.Schedule) -> None:
        self._blocks = schedule.blocks(MAX_BLOCK)
        self._block = np.empty(0, dtype=np.int64)
        self._done = self._asked = 0

    def ask(self, limit: int) -> IntArray:
        """Return the next part of the schedule: at most ``limit`` arms."""
        if self._done == self._block.size:
            block = next(self._blocks, None)
            if block is None:
                raise bdes.ContractError("asked for more rounds than the problem's horizon has")
            self._block, self._done = block, 0
        self._asked = min(limit, self._block.size - self._done)
        return self._block[self._done : self._done + self._asked].copy()

    def tell(self, rewards: FloatArray) -> None:
        """Move on by as many pulls as were played."""
        check_rewards(rewards, self._asked)
        self._asked = 0
        self._done += rewards.size


class PhasedPolicy:
    """The policy that a script describes: it writes the diagnostics, and may yield empty phases."""

    def __init__(self, script: PhaseGenerator, diagnostics: DiagnosticsDict) -> None:
        self._script = script
        self._diagnostics = diagnostics
        self._reader: PhaseReader | None = None
        self._last: Policy | None = None
        self._fused: FusedPolicy | None = None
        self._advance(None)

    def __repr__(self) -> str:
        if self._reader is not None:
            return f"PhasedPolicy(exploring: {self._reader.left:,} pulls left of this phase)"
        return f"PhasedPolicy(exploration over, plays {type(self._last).__name__})"

    def ask(self, limit: int) -> IntArray:
        """Return the next arms of the phase, or what the last policy asks for."""
        if self._reader is not None:
            return self._reader.arms(min(limit, self._reader.left, MAX_BLOCK))
        assert self._last is not None
        return self._last.ask(limit)

    def tell(self, rewards: FloatArray) -> None:
        """Add up the rewards; at a phase's end, let the script decide how to go on."""
        if self._reader is None:
            assert self._last is not None
            self._last.tell(rewards)
            return
        self._reader.take(rewards)
        if self._reader.left == 0:
            self._advance(self._reader.sums)

    def play(self, world: World, record: Record) -> None:
        """Play a whole block, phase by phase, in compiled sweeps."""
        done, n = 0, record.arms.size
        while done < n:
            if self._fused is not None:
                self._fused.play(*_rounds(world, record, done, n))
                return
            arms = self.ask(n - done)
            here, part = _rounds(world, record, done, done + arms.size)
            part.arms[:] = arms
            wrong = bdes.sweep_block(here, part)
            if wrong >= 0:
                raise bdes.ContractError(f"{type(self._last).__name__} asked for arm {arms[wrong]}")
            self.tell(part.rewards)
            done += arms.size

    def diagnostics(self) -> Diagnostics:
        """Return the script's diagnostics, and what the last policy shows.

        Names of the script stay; what the last policy shows under one of them is ``inner_…``.
        """
        shown = dict(self._diagnostics)
        last: Diagnostics = (
            self._last.diagnostics() if isinstance(self._last, bdes.HasDiagnostics) else {}
        )
        for name, value in last.items():
            while name in shown:
                name = f"inner_{name}"
            shown[name] = value
        return {
            name: value.copy() if isinstance(value, np.ndarray) else value
            for name, value in shown.items()
        }

    def _advance(self, sums: FloatArray | None) -> None:
        self._reader = None
        try:
            phase = next(self._script) if sums is None else self._script.send(sums)
            while phase.n_pulls == 0:
                phase = self._script.send(np.zeros(phase.n_slots))
        except StopIteration as end:
            self._last = end.value
            self._fused = self._last if isinstance(self._last, FusedPolicy) else None
        else:
            self._reader = PhaseReader(phase)


def _rounds(world: World, record: Record, start: int, stop: int) -> tuple[World, Record]:
    """Return some rounds of a world and of its record."""
    uniforms, noise = world.uniforms[start:stop], world.noise[start:stop]
    here = World(world.r, world.b, world.lam, world.q, uniforms, noise)
    return here, record.rounds(start, stop)
