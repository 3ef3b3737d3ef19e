"""Batched elimination over pairs of arms, for states that forget all but the last arm."""

import math

import numpy as np
from attrs import field, frozen
from attrs.validators import ge, gt, lt, optional
from numpy.random import Generator

import bdes_framework as bdes
from bdes_framework import IntArray, Problem, Schedule, compiled, validate_integer, validate_number
from bdes_policies.exploration.commitment import round_robin
from bdes_policies.exploration.phased_policy import (
    DiagnosticsDict,
    FollowSchedule,
    PhasedPolicy,
    PhaseGenerator,
)
from bdes_policies.exploration.phases import NOT_SAMPLED, Phase

_MAX_PAIRS_SHOWN = 1000
"""Pairs left that diagnostics list at most: they hold small arrays."""


@frozen
class StickyConfig:
    """Batched elimination over meta-arms, for lam near 1.

    The paper's Algorithms 3 and 4, "Smart Meta-Arm Switch Exploration" and "Batched B-DES for
    Sticky Arms", with Theorem 5.1.

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
    - If the horizon has no room for a batch, all arms are played in turn.

    Parameters
    ----------
    batches : int | None
        B: one more than the batches that explore. By default 2·ln T, rounded up.
    width : float
        What the elimination radius is multiplied by, above 0. Less than 1 eliminates
        sooner, with no guarantee.
    """

    batches: int | None = field(default=None, validator=optional([validate_integer, ge(1)]))
    width: float = field(default=1.0, validator=[validate_number, gt(0), lt(math.inf)])


def smart_switching(active: IntArray, times: int, rng: Generator) -> tuple[Phase, int]:
    """Return a batch as a phase, slot k for the k-th pair, and its number of switches.

    ``active``, shape (2, n), holds the arms of each pair: the second is at least the first.
    """
    n_pairs = active.shape[1]
    unexplored = active[0].copy(), active[1].copy(), np.arange(n_pairs)
    # Each switch is to an arm that no later one is to.
    steps = np.empty((n_pairs + int(active[1].max()) + 1, 5), dtype=np.int64)
    left, n_steps, switches = n_pairs, 0, 0
    while left:
        drawn = int(rng.integers(left))
        left, n_steps = _explore_shared(*unexplored, left, drawn, times, steps, n_steps)
        switches += 1
    return Phase.once(steps[:n_steps], n_pairs), switches


@compiled
def _explore_shared(
    first: IntArray,
    second: IntArray,
    slots: IntArray,
    left: int,
    drawn: int,
    times: int,
    steps: IntArray,
    n_steps: int,
) -> tuple[int, int]:
    """Switch to the drawn pair's first arm, and explore all pairs with it, the drawn one first.

    Writes the steps, and moves the pairs that stay unexplored to the front; returns how many
    there are of either.
    """
    shared = first[drawn]
    steps[n_steps, :2], steps[n_steps, 2], steps[n_steps, 3:] = shared, 1, NOT_SAMPLED
    steps[n_steps + 1, 0], steps[n_steps + 1, 1] = second[drawn], shared
    steps[n_steps + 1, 2], steps[n_steps + 1, 3:] = 2 * times, slots[drawn]
    n_steps += 2
    kept = 0
    for k in range(left):
        if first[k] != shared and second[k] != shared:
            first[kept], second[kept], slots[kept] = first[k], second[k], slots[k]
            kept += 1
        elif k != drawn:
            steps[n_steps, 0], steps[n_steps, 1] = first[k] + second[k] - shared, shared
            steps[n_steps, 2], steps[n_steps, 3:] = 2 * times, slots[k]
            n_steps += 1
    return kept, n_steps


def times_each(horizon: int, batch: int, batches: int) -> int:
    """Return floor(T^(beta/B)), whole powers included: floating point may fall just below."""
    power: float = math.pow(horizon, batch / batches)
    shared = math.gcd(batch, batches)
    root = batches // shared
    # T is no perfect power of an order above its number of bits, unless it is 1.
    if root <= horizon.bit_length() and round(power) ** root == horizon ** (batch // shared):
        return round(power)
    return math.floor(power)


def default_batches(horizon: int) -> int:
    """Return the paper's B = 2·ln T, rounded up."""
    return max(1, math.ceil(2 * math.log(horizon)))


def _script(
    problem: Problem, config: StickyConfig, rng: Generator, diagnostics: DiagnosticsDict
) -> PhaseGenerator:
    n_arms, horizon = problem.n_arms, problem.horizon
    n_pairs = n_arms * (n_arms + 1) // 2
    batches = config.batches or default_batches(horizon)
    log_term = math.log(2 * n_arms**2 * horizon * batches)
    # Looked at before any table is made: there may be a great many pairs.
    if batches == 1 or 2 * times_each(horizon, 1, batches) * n_pairs >= horizon:
        return _without_room(n_arms, horizon, diagnostics)
    active = np.array(np.triu_indices(n_arms))
    sums, count, left = np.zeros(active.shape[1]), 0, horizon
    batch_ends: list[tuple[int, int, int]] = []
    for batch in range(1, batches):
        times = times_each(horizon, batch, batches)
        if sums.size == 1 or 2 * times * sums.size >= left:
            break
        phase, switches = smart_switching(active, times, rng)
        if phase.n_pulls > left:
            if batch == 1:
                return _without_room(n_arms, horizon, diagnostics)
            break
        sums = sums + (yield phase)
        count, left = count + times, left - phase.n_pulls
        means = sums / (2 * count)
        kept = means >= means.max() - config.width * math.sqrt(2 * log_term / count)
        active, sums = active[:, kept], sums[kept]
        batch_ends.append((horizon - left, switches, sums.size))
        names = ("batch_ends", "switches", "active_after")
        diagnostics.update(zip(names, np.array(batch_ends).T, strict=True), pairs_each=count)
    committed = active[:, int(np.argmax(sums))]
    diagnostics.update(committed=committed, committed_at=horizon - left)
    if sums.size <= _MAX_PAIRS_SHOWN:
        means = sums / (2 * max(count, 1))
        diagnostics.update(active_first=active[0], active_second=active[1], means=means)
    # A batch may have used up the horizon; then no round is left.
    return FollowSchedule(Schedule.cycle(committed, max(left, 1)))


def _without_room(n_arms: int, horizon: int, diagnostics: DiagnosticsDict) -> bdes.Policy:
    diagnostics["plan"] = "all arms in turn: no room for a batch"
    return round_robin(n_arms, horizon)


def build(config: StickyConfig, context: bdes.PolicyContext) -> PhasedPolicy:
    """Build the policy."""
    problem = context.problem
    diagnostics: DiagnosticsDict = {"meta_arms": problem.n_arms * (problem.n_arms + 1) // 2}
    return PhasedPolicy(_script(problem, config, context.rng, diagnostics), diagnostics)
