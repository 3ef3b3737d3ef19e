"""Explore-then-commit without a known replenishing arm."""

from collections.abc import Generator
from typing import NamedTuple

import numpy as np
from attrs import frozen
from numpy.random import Generator as RandomGenerator

from bdes_framework import FloatArray, IntArray, PolicyContext
from bdes_policies.exploration.commitment import (
    ExploreThenCommitConfig,
    Task,
    follow_plan,
    ratio,
    round_robin,
)
from bdes_policies.exploration.phased_policy import PhasedPolicy, PhaseGenerator
from bdes_policies.exploration.phases import NOT_SAMPLED, Phase, StateWeights, one_arm
from bdes_policies.exploration.tuning import Lengths

_BLOCKS = 4096
"""Blocks whose random benchmark arms are drawn together; memory does not grow with the horizon."""


@frozen
class EtcUnknownArmConfig(ExploreThenCommitConfig):
    """Explore then commit, with no replenishing arm known.

    The paper's Algorithm 5, "B-DES general lam, unknown i_R", with Theorem B.3.
    For each arm i, M times: N pulls of a benchmark arm z, then one of i; the mean over
    random z is r_hat, which goes to b_bar·r_i, with b_bar the mean of all b. For each arm
    i: N pulls of it, then M more, whose mean is v_hat; b_hat = v_hat/r_hat goes to
    b_i/b_bar. That is the same instance on another scale. Then a plan for the estimates is
    played to the end.

    Where it departs from the printed text, and why:

    - Exploring is cut to ``explore_at_most`` of the horizon, as in ``etc``: the paper's
      M = K²·log(T)/epsilon² fits into no real horizon.
    - "Play i_R" at the end plays the arm with the largest b_hat, the first of them. The plan
      is made for the state that the arms really pulled have led to, under the estimates,
      and for the rounds really left.
    - On the scale of the estimates the first state is q0/b_bar, and b_bar is not identified.
      It is taken to be 1/max(b_hat), as if the largest b were 1; by then the first state
      hardly counts.
    - b_hat is cut to [0, K]: b_i is at most K·b_bar. An arm that never paid gets r_hat = 0,
      and its b_hat is read from what all arms paid after it: their mean over the mean of
      r_hat goes to b_i/b_bar as well.
    - If no arm has paid, or the horizon has no room for one sample of each mean, all arms
      are played in turn.
    - With ``tuning = "balanced"`` every benchmark arm is used equally often (if M is at
      least K), so that all r_hat have the same scale; all samples with the same benchmark
      arm are taken together, so that the state has to settle once and be restored from one
      pull at a time; and the state is not restored at the end.
    """


class SampleSums(NamedTuple):
    """Sums of exploration samples: arrays of shape (K,)."""

    of_arm: FloatArray
    """Rewards of each arm, each after some benchmark arm."""
    after_arm: FloatArray
    """Rewards of all arms after each benchmark arm."""
    n_after: FloatArray
    """How many those were."""
    settled: FloatArray
    """Rewards of each arm after many pulls of it."""


Exploration = Generator[Phase, FloatArray, None]


def _random_benchmarks(
    chosen: Lengths, rng: RandomGenerator, weights: StateWeights, sampled: SampleSums
) -> Exploration:
    """Explore as printed: a fresh benchmark arm for every sample."""
    n_arms, m, n = sampled.of_arm.size, chosen.samples, chosen.settle
    for start in range(0, n_arms * m, _BLOCKS):
        blocks = np.arange(start, min(start + _BLOCKS, n_arms * m))
        arms, benchmarks = blocks // m, rng.integers(0, n_arms, blocks.size)
        phase = Phase.once(_benchmark_steps(arms, benchmarks, n), blocks.size)
        rewards = yield phase
        weights.add(phase)
        sampled.of_arm[:] += np.bincount(arms, rewards, minlength=n_arms)
        sampled.after_arm[:] += np.bincount(benchmarks, rewards, minlength=n_arms)
        sampled.n_after[:] += np.bincount(benchmarks, minlength=n_arms)
    phase = Phase.of(
        ((1, [one_arm(i, n), one_arm(i, m, i)]) for i in range(n_arms)), n_slots=n_arms
    )
    sampled.settled[:] = yield phase
    weights.add(phase)


def _benchmark_steps(arms: IntArray, benchmarks: IntArray, settle: int) -> IntArray:
    """Return the steps of some blocks, a slot for each: benchmark pulls, then one of the arm."""
    steps = np.empty((arms.size, 2, 5), dtype=np.int64)
    steps[:, 0, :2], steps[:, 1, :2] = benchmarks[:, None], arms[:, None]
    steps[:, 0, 2], steps[:, 1, 2] = settle, 1
    steps[:, 0, 3:], steps[:, 1, 3:] = NOT_SAMPLED, np.arange(arms.size)[:, None]
    return steps.reshape(-1, 5) if settle else steps[:, 1].copy()


def _benchmarks_in_turn(chosen: Lengths, weights: StateWeights, sampled: SampleSums) -> Exploration:
    """Explore benchmark by benchmark: settle, sample the benchmark, then every arm after it."""
    n_arms, m = sampled.of_arm.size, chosen.samples
    steps, loops = _benchmark_tables(chosen, n_arms)
    for z in range(n_arms):
        each = m // n_arms + (z < m % n_arms)
        steps[:2, :2], steps[2::2, :2], loops[1:, 2] = z, z, each
        phase = Phase.from_tables(steps, loops, n_slots=n_arms + 1)
        sums = yield phase
        weights.add(phase)
        sampled.of_arm[:] += sums[:-1]
        sampled.after_arm[z], sampled.n_after[z] = sums[:-1].sum(), each * n_arms
        sampled.settled[z] = sums[-1]


def _benchmark_tables(chosen: Lengths, n_arms: int) -> tuple[IntArray, IntArray]:
    """Return the steps and loops of one benchmark arm's turn, but for the arm and the repeats.

    It settles and is sampled; then, for each arm: some of its pulls, one of the arm.
    """
    arms = np.arange(n_arms)
    steps = np.zeros((2 + 2 * n_arms, 5), dtype=np.int64)
    steps[0] = one_arm(0, chosen.settle)
    steps[1] = one_arm(0, chosen.samples, n_arms)
    steps[2::2] = one_arm(0, chosen.restore)
    steps[3::2, [0, 1, 3, 4]], steps[3::2, 2] = arms[:, None], 1
    loops = np.ones((1 + n_arms, 3), dtype=np.int64)
    loops[0, :2] = 0, 2
    loops[1:, 0], loops[1:, 1] = 2 + 2 * arms, 4 + 2 * arms
    return steps, loops


def explore_unknown_arm(
    task: Task, config: EtcUnknownArmConfig, rng: RandomGenerator
) -> PhaseGenerator:
    """Explore with an unknown replenishing arm, then commit."""
    problem, weights, diagnostics = task.problem, task.weights, task.diagnostics
    chosen = task.choose_lengths(config, factor=problem.n_arms**2)
    if chosen.samples == 0:
        return round_robin(problem.n_arms, problem.horizon)
    sampled, before = SampleSums(*np.zeros((4, problem.n_arms))), weights.n_pulls
    if config.tuning == "paper":
        yield from _random_benchmarks(chosen, rng, weights, sampled)
    else:
        yield from _benchmarks_in_turn(chosen, weights, sampled)
    n_arms, samples = problem.n_arms, chosen.samples
    r_hat = np.maximum(sampled.of_arm, 0.0) / samples
    v_hat = np.maximum(sampled.settled, 0.0) / samples
    after = np.maximum(sampled.after_arm, 0.0) / np.maximum(sampled.n_after, 1)
    read_from_others = ratio(after, np.full(n_arms, r_hat.mean()), highest=n_arms)
    b_hat = np.where(r_hat > 0, ratio(v_hat, r_hat, highest=n_arms), read_from_others)
    diagnostics.update(r_hat=r_hat, v_hat=v_hat, b_hat=b_hat, never_paid=np.flatnonzero(r_hat == 0))
    diagnostics["benchmark_samples"] = sampled.n_after
    best = int(np.argmax(b_hat))
    if config.tuning == "paper":
        phase = Phase.of([(1, [one_arm(best, chosen.settle)])], n_slots=0)
        yield phase
        weights.add(phase)
        diagnostics["restored_with"] = best
    diagnostics["exploration"] = weights.n_pulls - before
    state = weights.state(b_hat, problem.q0 * float(b_hat[best]))
    return follow_plan(task, r_hat, b_hat, state, problem.horizon - (weights.n_pulls - before))


def build(config: EtcUnknownArmConfig, context: PolicyContext) -> PhasedPolicy:
    """Build the policy."""
    task = Task.with_known_lam("etc-unknown-arm", config, context)
    return PhasedPolicy(explore_unknown_arm(task, config, context.rng), task.diagnostics)
