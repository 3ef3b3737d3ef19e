"""Batched elimination over pairs of arms, for states that forget all but the last arm."""

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from attrs import field, frozen
from attrs.validators import optional
from numpy.random import Generator

from bdes_framework import FloatArray, PolicyContext, Problem, Schedule
from bdes_policies.checks import at_least_one, positive
from bdes_policies.phases import Phase, Run, one_arm
from bdes_policies.scripted import FollowSchedule, Notes, Script, Scripted

MetaArm: TypeAlias = tuple[int, int]
"""Two arms i <= j played in turn, or one arm twice."""


@frozen
class StickyConfig:
    """Batched elimination over meta-arms, for lam near 1 (the paper's Algorithms 3 and 4,
    "Smart Meta-Arm Switch Exploration" and "Batched B-DES for Sticky Arms", with Theorem 5.1).

    A meta-arm is a pair of arms played in turn. Batch beta plays each active meta-arm
    floor(w^beta) times, w = T^(1/B), in an order with at most K switches: after one pull
    of i, whose reward is dropped, come all meta-arms that contain i. Then those are
    eliminated whose mean lies more than sqrt(2·ln(2·K²·T·B)/c) below the best, where c
    counts the pairs played of each. The rest of the horizon plays the best one left. It
    does not use lam.

    Where it departs from the printed text, and why:

    - The next meta-arm is drawn from those not yet explored in this batch, A', not from A.
    - A batch is played only if its pulls, 2·floor(w^beta) for each active
      meta-arm and one for each switch, fit into the rounds
      left; as printed the test counts half of that, and runs past the horizon.
    - B = 2·ln T is rounded up, and w is T^(1/B) for that B.
    - When one meta-arm is left, it is played to the end without further batches.
    - If the horizon has no room for a batch, the first meta-arm, arm 0, is played.

    Parameters
    ----------
    batches : int or nothing
        B: one more than the batches that explore. By default 2·ln T, rounded up.
    width : float
        What the elimination radius is multiplied by, above 0. Less than 1 eliminates
        sooner, with no guarantee.
    """

    batches: int | None = field(default=None, validator=optional(at_least_one))
    width: float = field(default=1.0, validator=positive)


def smart_switching(active: Sequence[MetaArm], times: int, rng: Generator) -> tuple[Phase, int]:
    """Return a batch as a phase, slot k for ``active[k]``, and its number of switches."""
    unexplored = dict(zip(active, range(len(active)), strict=True))
    runs: list[Run] = []
    switches = 0
    while unexplored:
        drawn = list(unexplored)[int(rng.integers(len(unexplored)))]
        shared = drawn[0]
        runs.append(one_arm(shared, 1))
        switches += 1
        others = [pair for pair in unexplored if shared in pair and pair != drawn]
        for pair in (drawn, *others):
            other = pair[1] if pair[0] == shared else pair[0]
            slot = unexplored.pop(pair)
            runs.append(Run(other, shared, 2 * times, slot, slot))
    return Phase.once(np.array(runs, dtype=np.int64), len(active)), switches


def _eliminate(
    active: list[MetaArm], sums: FloatArray, count: int, radius: float
) -> tuple[list[MetaArm], FloatArray]:
    """Return the meta-arms, and their sums, whose mean is within the radius of the best."""
    means = sums / (2 * count)
    kept = np.flatnonzero(means >= means.max() - radius)
    return [active[k] for k in kept], sums[kept]


def _script(problem: Problem, config: StickyConfig, rng: Generator, notes: Notes) -> Script:
    n_arms, horizon = problem.n_arms, problem.horizon
    batches = config.batches or max(1, math.ceil(2 * math.log(horizon)))
    log_term = math.log(2 * n_arms**2 * horizon * batches)
    active = [(i, j) for i in range(n_arms) for j in range(i, n_arms)]
    sums, count, left = np.zeros(len(active)), 0, horizon
    ends: list[int] = []
    switched: list[int] = []
    survivors: list[int] = []
    for batch in range(1, batches):
        times = math.floor(horizon ** (batch / batches))
        if len(active) == 1 or 2 * times * len(active) >= left:
            break
        phase, switches = smart_switching(active, times, rng)
        if phase.n_pulls > left:
            break
        sums = sums + (yield phase)
        count, left = count + times, left - phase.n_pulls
        active, sums = _eliminate(
            active, sums, count, config.width * math.sqrt(2 * log_term / count)
        )
        ends.append(horizon - left)
        switched.append(switches)
        survivors.append(len(active))
        notes.update(
            batch_ends=np.array(ends),
            switches=np.array(switched),
            active_after=np.array(survivors),
            pairs_each=count,
        )
    best = int(np.argmax(sums))
    notes["active_first"], notes["active_second"] = np.array(active, dtype=np.int64).T.copy()
    notes["means"] = sums / (2 * max(count, 1))
    notes["committed"] = np.array(active[best], dtype=np.int64)
    notes["committed_at"] = horizon - left
    # A batch may have used up the horizon; then nobody will ask.
    return FollowSchedule(Schedule.cycle(active[best], max(left, 1)))


def build(config: StickyConfig, context: PolicyContext) -> Scripted:
    """Build the policy."""
    problem = context.problem
    notes: Notes = {"meta_arms": problem.n_arms * (problem.n_arms + 1) // 2}
    return Scripted(_script(problem, config, context.rng, notes), notes)
