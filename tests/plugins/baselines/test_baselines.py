"""The reference policies against plain re-implementations, and one by one at their edges."""

import math
from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator

from bdes_baselines.aae import Aae
from bdes_baselines.discounted_ucb import DiscountedUcb
from bdes_baselines.discounted_ucb import best_gamma as best_discount
from bdes_baselines.exp3 import Exp3, best_gamma
from bdes_baselines.non_adaptive import Uniform
from bdes_baselines.sliding_window_ucb import SlidingWindowUcb, best_window
from bdes_baselines.thompson import Thompson, Uniforms
from bdes_baselines.ucb1 import Ucb1
from bdes_framework import (
    FloatArray,
    HasDiagnostics,
    IntArray,
    InvalidValueError,
    Policy,
)
from tests.support import textbook
from tests.support.reward_tables import arms_played, build, luck, tables

SIZES = [(1, 1), (1, 30), (2, 1), (5, 3), (2, 250), (7, 300)]

# -- against the papers ---------------------------------------------------------------------

Textbook = Callable[[FloatArray], list[int]]


def assert_same_arms(ours: Callable[[int], Policy], paper: Textbook) -> None:
    """Compare the arms played on every table of every size."""
    for n_arms, horizon in SIZES:
        for name, table in tables(n_arms, horizon).items():
            played = arms_played(ours(n_arms), table)
            assert played == paper(table), f"K = {n_arms}, T = {horizon}, {name}"


@pytest.mark.parametrize("exploration", [2.0, 0.3])
def test_ucb1_plays_what_the_paper_says(exploration: float) -> None:
    assert_same_arms(
        lambda n_arms: Ucb1(n_arms, exploration), lambda table: textbook.ucb1(table, exploration)
    )


@pytest.mark.parametrize("delta", [1.0, 0.01])
def test_aae_plays_what_the_paper_says(delta: float) -> None:
    assert_same_arms(lambda n_arms: Aae(n_arms, delta), lambda table: textbook.aae(table, delta))


@pytest.mark.parametrize("gamma", [0.05, 0.6, 1.0])
def test_exp3_plays_what_the_paper_says(gamma: float) -> None:
    assert_same_arms(
        lambda n_arms: Exp3(n_arms, gamma, luck(3)),
        lambda table: textbook.exp3(table, gamma, luck(3).random),
    )


@pytest.mark.parametrize("gamma", [0.05, 0.2])
def test_exp3_plays_what_the_paper_says_however_often_its_sums_are_corrected(gamma: float) -> None:
    for name, table in tables(n_arms=3, horizon=5000).items():
        paper = textbook.exp3(table, gamma, luck(3).random)
        assert arms_played(Exp3(3, gamma, luck(3)), table) == paper, name


@pytest.mark.parametrize(
    ("bound", "xi", "gamma"), [(1.0, 0.6, 0.95), (0.5, 1.0, 1.0), (1.0, 0.1, 0.5)]
)
def test_discounted_ucb_plays_what_the_paper_says(bound: float, xi: float, gamma: float) -> None:
    assert_same_arms(
        lambda n_arms: DiscountedUcb(n_arms, bound, xi, gamma),
        lambda table: textbook.discounted_ucb(table, bound, xi, gamma),
    )


@pytest.mark.parametrize(
    ("bound", "xi", "tau"), [(1.0, 0.6, 40), (0.5, 1.0, 1000), (1.0, 0.6, 4), (1.0, 0.6, 1)]
)
def test_sliding_window_ucb_plays_what_the_paper_says(bound: float, xi: float, tau: int) -> None:
    assert_same_arms(
        lambda n_arms: SlidingWindowUcb(n_arms, bound, xi, tau),
        lambda table: textbook.sliding_window_ucb(table, bound, xi, tau),
    )


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (0.5, 0.5), (2.5, 0.7), (30.0, 4.0)])
def test_thompson_plays_what_the_paper_says(alpha: float, beta: float) -> None:
    assert_same_arms(
        lambda n_arms: Thompson(n_arms, alpha, beta, luck(8)),
        lambda table: textbook.thompson(table, alpha, beta, luck(8).random),
    )


# -- one by one -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ucb1", "discounted-ucb", "sliding-window-ucb", "aae"])
def test_unplayed_arms_come_first_and_ties_go_to_the_lowest_arm(name: str) -> None:
    arms = arms_played(build(name, 4, 8), np.zeros((8, 4)))
    assert arms == [0, 1, 2, 3, 0, 1, 2, 3]


def test_ucb1_returns_to_a_neglected_arm_when_the_logarithm_has_grown() -> None:
    table = np.tile([1.0, 0.0], (2000, 1))
    pulls = np.flatnonzero(np.array(arms_played(Ucb1(2, 2.0), table)) == 1)
    # With n pulls of arm 1 it is due when 1 + sqrt(2 ln t/(t - n)) < sqrt(2 ln t/n).
    for n, t in enumerate(pulls.tolist()[1:], start=1):
        assert 1 + math.sqrt(2 * math.log(t) / (t - n)) < math.sqrt(2 * math.log(t) / n)
    assert pulls.size > 5


@pytest.mark.parametrize(("n_arms", "horizon"), [(2, 1), (2, 100), (10, 10**6), (1, 50)])
def test_exp3_takes_gamma_from_the_horizon(n_arms: int, horizon: int) -> None:
    policy = build("exp3", n_arms, horizon)
    assert isinstance(policy, HasDiagnostics)
    expected = min(1, math.sqrt(n_arms * math.log(n_arms) / ((math.e - 1) * horizon)))
    assert policy.diagnostics()["gamma"] == best_gamma(n_arms, horizon) == expected


LARGEST_UNIFORM = 1 - 2**-53


class AlmostOne:
    """A generator that draws the largest uniform there is."""

    def random(self, size: int | None = None) -> float | FloatArray:
        return LARGEST_UNIFORM if size is None else np.full(size, LARGEST_UNIFORM)


def test_exp3_takes_the_last_arm_when_probabilities_round_to_less_than_the_draw() -> None:
    rounded_down = 0
    for n_arms in range(2, 100):
        policy = Exp3(n_arms, 0.3, cast(Generator, AlmostOne()))
        total = np.cumsum(policy.diagnostics()["probabilities"])[-1]
        rounded_down += bool(total <= LARGEST_UNIFORM)
        assert policy.ask(1).tolist() == [n_arms - 1]
    assert rounded_down > 10


@pytest.mark.parametrize(
    ("horizon", "changes", "bound", "gamma"),
    [(10_000, 1, 1.0, 1 - 0.01 / 4), (10_000, 4, 1.0, 1 - 0.02 / 4), (1, 1, 0.1, 0.5)],
)
def test_discounted_ucb_takes_gamma_from_the_horizon(
    horizon: int, changes: int, bound: float, gamma: float
) -> None:
    assert best_discount(bound, changes, horizon) == pytest.approx(gamma, rel=1e-15)


@pytest.mark.parametrize(
    ("horizon", "changes", "n_arms", "tau"),
    [(10_000, 1, 5, 607), (10_000, 4, 5, 304), (100, 1, 60, 60), (1, 1, 3, 3), (2, 1, 1, 2)],
)
def test_sliding_window_ucb_takes_tau_from_the_horizon(
    horizon: int, changes: int, n_arms: int, tau: int
) -> None:
    assert best_window(1.0, changes, n_arms, horizon) == tau
    policy = build("sliding-window-ucb", n_arms, horizon, changes=changes)
    assert isinstance(policy, HasDiagnostics)
    assert policy.diagnostics()["tau"] == min(tau, horizon)


def test_discounted_ucb_plays_an_arm_again_whose_count_underflowed() -> None:
    table = np.tile([1.0, 0.0], (200, 1))
    policy = DiscountedUcb(2, 1.0, 1e-300, 1e-9)  # no exploration: 1e-9^36 is 0
    arms = arms_played(policy, table)
    assert 2 <= arms.count(1) < 20
    diagnostics = policy.diagnostics()
    assert all(np.isfinite(diagnostics[key]).all() for key in ("counts", "means"))


def test_a_window_s_sums_do_not_drift() -> None:
    table = luck(2).random((3000, 3))
    table[-100:] *= 1e-14  # what rounding left of the earlier rewards would show
    policy = SlidingWindowUcb(3, 1.0, 0.6, 30)
    arms = np.array(arms_played(policy, table))[-30:]
    last = table[-30:][np.arange(30), arms]
    means = policy.diagnostics()["means"]
    assert isinstance(means, np.ndarray)
    for arm in range(3):
        exact = math.fsum(last[arms == arm]) / (arms == arm).sum()
        assert means[arm] == pytest.approx(exact, rel=1e-12, abs=0)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(0, 9))
def test_uniforms_are_read_in_order_however_they_are_refilled(reads: list[int], seed: int) -> None:
    buffer = Uniforms(luck(seed), size=4)
    seen: list[float] = []
    for n in reads:
        while buffer.values.size - buffer.cursor[0] < n:
            buffer.refill()
        first = int(buffer.cursor[0])
        seen += buffer.values[first : first + n].tolist()
        buffer.cursor[0] += n
    assert seen == luck(seed).random(len(seen)).tolist()


def test_thompson_plays_more_arms_than_its_buffer_has_draws() -> None:
    n_arms = 9000
    policy = build("thompson", n_arms, 3)
    arms = arms_played(policy, np.zeros((3, n_arms)))
    assert len(set(arms)) == 3


def test_thompson_counts_a_fraction_as_part_success_part_failure() -> None:
    policy = Thompson(1, 1.0, 2.0, luck())
    policy.ask(1)
    policy.tell(np.array([0.25]))
    assert policy.diagnostics() == {"alpha": np.array([1.25]), "beta": np.array([2.75])}


@pytest.mark.parametrize(
    ("head", "cycle", "expected"),
    [
        ([], [0, 1, 2], [0, 1, 2, 0, 1, 2, 0, 1]),
        ([2, 2, 1], [0, 1], [2, 2, 1, 0, 1, 0, 1, 0]),
        ([1] * 8, [0], [1] * 8),
        ([1] * 20, [0], [1] * 8),
        ([0], list(range(3)) * 5, [0, 0, 1, 2, 0, 1, 2, 0]),
    ],
)
def test_a_fixed_schedule_plays_its_head_and_then_its_cycle(
    head: list[int], cycle: list[int], expected: list[int]
) -> None:
    policy = build("fixed-schedule", 3, 8, head=head, cycle=cycle)
    assert arms_played(policy, np.zeros((8, 3))) == expected


def test_a_fixed_schedule_shows_itself_and_how_far_it_has_come() -> None:
    policy = build("fixed-schedule", 3, 1000, head=[2, 2], cycle=[0, 1])
    assert isinstance(policy, HasDiagnostics)
    policy.tell(np.zeros(policy.ask(7).size))
    assert policy.diagnostics() == {"schedule": "2 2 · (0 1) × 499", "done": 7}


def test_a_fixed_schedule_with_an_arm_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="plays arm 3, but arms go from 0 to 2"):
        build("fixed-schedule", 3, 8, cycle=[0, 3])


@pytest.mark.parametrize("name", ["fixed-schedule", "uniform", "aae"])
def test_no_limit_makes_a_block_that_fills_the_memory(name: str) -> None:
    policy = build(name, 1, 10**12)
    for _ in range(3):
        block: IntArray = policy.ask(10**12)
        assert 1 <= block.size <= 1 << 16
        policy.tell(np.zeros(block.size))


def test_a_fixed_schedule_of_a_trillion_rounds_is_where_arithmetic_says() -> None:
    policy = build("fixed-schedule", 7, 10**12, head=[6] * 5, cycle=[0, 1, 2, 3, 4])
    done = 0
    for limit in (1, 3, 70_000, 12, 10**12):
        block = policy.ask(limit)
        rounds = np.arange(done, done + block.size)
        np.testing.assert_array_equal(block, np.where(rounds < 5, 6, (rounds - 5) % 5))
        policy.tell(np.zeros(block.size))
        done += block.size


def test_uniform_draws_every_arm_equally_often() -> None:
    n_arms, horizon = 10, 200_000
    policy = build("uniform", n_arms, horizon)
    counts = np.bincount(arms_played(policy, np.zeros((horizon, n_arms))), minlength=n_arms)
    chi_square = float(((counts - horizon / n_arms) ** 2).sum() * n_arms / horizon)
    assert chi_square < 21.67  # the 1 % point with 9 degrees of freedom


@pytest.mark.parametrize("n_arms", [1, 3, 7, 2**31 - 1, 2**40 + 1, 2**52])
def test_the_largest_draw_makes_uniform_play_the_last_arm(n_arms: int) -> None:
    policy = Uniform(n_arms, cast(Generator, AlmostOne()))
    assert policy.ask(2).tolist() == [n_arms - 1, n_arms - 1]


@pytest.mark.parametrize("name", ["discounted-ucb", "sliding-window-ucb"])
def test_forgetting_pays_when_the_arms_change(name: str) -> None:
    # After 3000 rounds the best arm becomes the worst, but its mean stays the highest.
    horizon = 5000
    first = np.arange(horizon)[:, None] < 3000
    means = np.where(first, [0.9, 0.5], [0.1, 0.5])
    table = (luck(11).random((horizon, 2)) < means).astype(float)

    def earned(policy: Policy) -> float:
        return float(table[np.arange(horizon), arms_played(policy, table)].sum())

    assert earned(build(name, 2, horizon)) > earned(build("ucb1", 2, horizon)) + 300
