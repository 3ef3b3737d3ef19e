"""What a backward step tries: the moves listed are enough, repeats lose no more than is said."""

import itertools

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from bdes_framework import Instance
from bdes_planners.backward_induction import BackwardInduction, Chords, Stage
from bdes_planners.blocks import single_step
from bdes_planners.certified import Certified
from bdes_planners.envelope import Lines, backward, envelope_value, room_for
from bdes_planners.exact import Exact
from bdes_planners.menu import Domain, Menu, menu_for
from bdes_planners.reduced_problem import Reduced, reduce
from tests.support.planner_oracles import arc_of_arms, clickbait_arms

MAKERS = {"arc": arc_of_arms, "clickbait": clickbait_arms}


def lines_at(problem: Reduced, slopes: np.ndarray, bases: np.ndarray) -> tuple[Lines, int]:
    """Return the envelope of a few lines over all states, and its size."""
    step = single_step(problem, 10**6)
    menu = menu_for(
        step.base._replace(keep=1.0, pay=slopes, bonus=bases, shift=np.zeros(slopes.size)),
        1,
        Domain(problem.low, problem.high, 1.0),
    )
    nothing, out, hull = room_for(1), room_for(4 * slopes.size + 4), room_for(slopes.size)
    nothing.start[0] = problem.low
    found, _ = backward(nothing, 1, menu, problem.low, problem.high, hull, out)
    return out, found


def best_of_sequences(
    problem: Reduced, length: int, q: float, slopes: np.ndarray, bases: np.ndarray
) -> float:
    """Return the best total of some pulls from q and then the highest line, by brute force."""
    sequences = np.array(list(itertools.product(range(problem.n_arms), repeat=length)))
    states, totals = np.full(len(sequences), q), np.zeros(len(sequences))
    for arm in sequences.T:
        totals += problem.r[arm] * states
        states += problem.lam * (problem.b[arm] - states)
    return float(np.max(totals + np.max(np.outer(states, slopes) + bases, axis=1)))


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    lam=st.sampled_from([0.9, 0.3, 0.05, 1e-2, 1e-3, 1e-6]),
    repeats=st.integers(1, 6),
    maker=st.sampled_from(sorted(MAKERS)),
)
def test_a_step_is_no_lower_than_any_sequence(
    seed: int, lam: float, repeats: int, maker: str
) -> None:
    """At any state, after any convex function, within the states and slopes of the menu."""
    problem = reduce(Instance(*MAKERS[maker](seed, 3), lam, q0=0.7))
    step = evolve(single_step(problem, 10**6), repeats=repeats)
    rng = np.random.default_rng(seed)
    slopes = np.sort(rng.uniform(0, float(problem.r.max()) / lam, 4))
    bases = -np.cumsum(np.append(0.0, np.diff(slopes) * np.sort(rng.random(3))))
    value, size = lines_at(problem, slopes, bases)
    out, hull = room_for(256), room_for(problem.n_arms)
    found, _ = backward(value, size, step.menu, problem.low, problem.high, hull, out)
    for q in np.linspace(problem.low, problem.high, 7).tolist():
        best = best_of_sequences(problem, repeats, q, slopes, bases)
        bound = envelope_value(out, found, q) + step.loss
        assert best <= bound + 1e-12 * (1 + abs(best))
        if repeats == 1:
            assert bound <= best + 1e-12 * (1 + abs(best))


def listed(menu: Menu) -> float:
    """Return how many moves are listed per tile that was asked for."""
    return float(menu.size[menu.first >= 0].mean())


def test_few_arms_of_an_arc_are_tried_at_a_state() -> None:
    problem = reduce(Instance(*arc_of_arms(1, 200), 1e-3))
    step = evolve(single_step(problem, 10**6), repeats=10)
    chords = Chords(1e-4, np.zeros(1), 10**6, np.inf)
    sweep = BackwardInduction(problem, (Stage(step),), chords)
    sweep.advance(100)
    assert 1 <= listed(step.menu) < 0.25 * problem.n_arms


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(("lam", "q0"), [(3e-4, 1.0), (3e-4, 0.0), (1e-4, 0.4)])
def test_repeated_moves_agree_with_exact(maker: str, lam: float, q0: float) -> None:
    instance = Instance(*MAKERS[maker](3, 8), lam, q0)
    best = Exact(4096).plan(instance, 4200).value
    for gap in (1e-2, 1e-3, 1e-4):
        plan = Certified(gap).plan(instance, 4200)
        assert plan.gap <= gap
        assert plan.value <= best * (1 + 1e-12) <= plan.upper_bound * (1 + 2e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_arcs_agree_with_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lam, horizon = 10 ** rng.uniform(-5, -3), int(rng.integers(4100, 6000))
    instance = Instance(*arc_of_arms(seed, 10), lam, q0=float(rng.random()))
    best = Exact(4096).plan(instance, horizon).value
    for gap in (1e-2, 1e-3, 1e-4, 1e-5):
        plan = Certified(gap).plan(instance, horizon)
        assert plan.gap <= gap
        assert plan.value <= best * (1 + 1e-12) <= plan.upper_bound * (1 + 2e-12)
