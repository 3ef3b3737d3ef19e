"""Blocks of rounds on slow states: what they leave out is counted, what they plan is real."""

import itertools
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from bdes_framework import Instance
from bdes_planners.backward_induction import BackwardInduction, Stage
from bdes_planners.blocks import block_step, single_step
from bdes_planners.reduced_problem import reduce
from tests.support.planner_oracles import clickbait_arms


@pytest.mark.parametrize("seed", range(6))
def test_no_sequence_beats_a_block_beyond_loss(seed: int) -> None:
    """All sequences of 8 pulls, over states and over convex functions of the state after."""
    problem = reduce(Instance(*clickbait_arms(seed, 3), 1e-4, q0=0.8))
    step = block_step(problem, 2048 * 8, 1e-4, (problem.low, problem.high))
    assert step.rounds == 8
    assert len(step.runs) < problem.n_arms**8
    sequences = np.array(list(itertools.product(range(problem.n_arms), repeat=8)))
    rng = np.random.default_rng(seed)
    for _ in range(50):
        slopes = np.sort(rng.uniform(0, 1e4, 3))
        bases = -np.sort(rng.uniform(0, 1e4, 3))
        first = float(rng.uniform(problem.low, problem.high))
        q, totals = np.full(len(sequences), first), np.zeros(len(sequences))
        for arm in sequences.T:
            totals += problem.r[arm] * q
            q += problem.lam * (problem.b[arm] - q)
        best = float(np.max(totals + np.max(np.outer(q, slopes) + bases, axis=1)))
        moved = step.moves.keep * first + step.moves.shift
        of_moves = step.moves.pay * first + step.moves.bonus
        highest = float(np.max(of_moves + np.max(np.outer(moved, slopes) + bases, axis=1)))
        assert best <= highest + step.loss + 1e-9
        assert highest <= best + 1e-9  # moves are sequences themselves


@pytest.mark.parametrize(("q0", "lam"), [(0.0, 1e-8), (1.0, 1e-5), (0.3, 1e-4), (0.3, 1.0)])
def test_all_states_lie_in_the_reachable_interval(q0: float, lam: float) -> None:
    problem = reduce(Instance([0.9, 0.5, 0.3], [0.1, 0.7, 1.0], lam, q0))
    low, high = problem.reachable(1000)
    lowest, highest = (
        problem.instance.state_after([arm] * 1000) for arm in (0, problem.n_arms - 1)
    )
    assert low <= min(lowest, q0) <= max(highest, q0) <= high
    assert high - low <= (problem.high - problem.low) * min(1, 1000 * lam) * (1 + 1e-6)


def test_blocks_lose_less_where_states_are_small() -> None:
    problem = reduce(Instance([0.9, 0.3], [0.1, 1.0], 1e-10, 0.0))
    everywhere = block_step(problem, 10**5, 1e-10, (problem.low, problem.high))
    reached = block_step(problem, 10**5, 1e-10, problem.reachable(10**5))
    assert reached.rounds == everywhere.rounds > 1
    assert reached.loss < 0.5 * everywhere.loss


def test_a_move_pays_and_shifts_what_its_arms_do() -> None:
    problem = reduce(Instance(*clickbait_arms(1, 20), 1e-6))
    step = block_step(problem, 10**6, 1e-5, (problem.low, problem.high))
    assert step.rounds > 1
    for move in range(len(step.runs)):
        (segment,) = step.segments(np.array([move]))
        assert segment.arms.size == step.rounds
        for q in (0.2, 1.0):
            here = problem.instance.starting_at(q)
            paid = step.moves.pay[move] * q + step.moves.bonus[move]
            assert here.value(segment.arms) == pytest.approx(paid, rel=1e-10)
            moved = step.moves.keep * q + step.moves.shift[move]
            assert here.state_after(segment.arms) == pytest.approx(moved, rel=1e-10)


def test_a_known_horizon_gives_the_same_bound() -> None:
    """Leaving out states that cannot be reached changes nothing from the first state."""
    problem = reduce(Instance(*clickbait_arms(3, 20), 0.01, q0=0.1))
    step = single_step(problem, 200)
    everywhere, reached = (
        BackwardInduction(problem, (Stage(step),)),
        BackwardInduction(problem, (Stage(step),), horizon=200),
    )
    for sweep in (everywhere, reached):
        sweep.advance(200)
    assert reached.upper() == pytest.approx(everywhere.upper(), rel=1e-9)
    assert reached.counters.work[0] < everywhere.counters.work[0]


SCRIPT = """
import json, numpy as np
from bdes_framework import Instance
from bdes_planners.certified import Certified
from bdes_planners.best_cycle import BestCycle
from bdes_planners.exact import Exact
from bdes_planners.fptas import Fptas
rng = np.random.default_rng(4)
out = []
for lam, horizon in ((0.5, 40), (0.1, 60), (0.3, 500), (1e-5, 30), (1e-7, 5000)):
    r = rng.random(6)
    instance = Instance(r, np.clip(1 - r + 0.1 * rng.standard_normal(6), 0, 1), lam, 0.9)
    planners = [Certified(1e-3)]
    if horizon <= 60:
        planners += [Exact(), Fptas(0.05), BestCycle(2)]
    for planner in planners:
        plan = planner.plan(instance, horizon)
        out.append([plan.value, plan.upper_bound, plan.schedule.counts(6).tolist()])
print(json.dumps(out))
"""


def test_interpreted_and_compiled_plans_are_equal() -> None:
    def run(**environment: str) -> object:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    assert run(NUMBA_DISABLE_JIT="1") == run()
