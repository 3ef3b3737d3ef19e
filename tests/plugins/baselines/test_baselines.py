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
from bdes_baselines.exp3 import Exp3, Exp3Config
from bdes_baselines.forgetting_ucb import DiscountedUcb, SlidingWindowUcb
from bdes_baselines.non_adaptive import UniformPolicy
from bdes_baselines.thompson import Thompson, Uniforms
from bdes_baselines.ucb1 import Ucb1
from bdes_framework import ConfigError, FloatArray, InvalidValueError, Policy, Problem
from tests.support import textbook
from tests.support.fused import BASELINES, NOISES, Case, game
from tests.support.noiseless import diagnostics_of
from tests.support.reward_tables import arms_played, build, random_generator, tables

SIZES = [(1, 1), (1, 30), (2, 1), (5, 3), (2, 250), (7, 300)]

# -- against the papers, and fused against asking -------------------------------------------

OurPolicy = Callable[..., Policy]
Textbook = Callable[..., list[int]]
PAPERS: list[tuple[OurPolicy, Textbook, list[tuple[float, ...]]]] = [
    (Ucb1, textbook.ucb1, [(2.0,), (0.3,)]),
    (Ucb1, textbook.ucb1, [(2.0, lam) for lam in (0.0, 1e-4, 0.003, 0.5)]),  # wide-ucb
    (Aae, textbook.aae, [(1.0,), (0.01,)]),
    (Exp3, textbook.exp3, [(0.05,), (0.6,), (1.0,)]),
    (DiscountedUcb, textbook.discounted_ucb, [(1.0, 0.6, 0.95), (0.5, 1.0, 1.0), (1.0, 0.1, 0.5)]),
    (
        SlidingWindowUcb,
        textbook.sliding_window_ucb,
        [(1.0, 0.6, 40), (0.5, 1.0, 1000), (1.0, 0.6, 4), (1.0, 0.6, 1)],
    ),
    (Thompson, textbook.thompson, [(1.0, 1.0), (0.5, 0.5), (2.5, 0.7), (30.0, 4.0)]),
]


def assert_same_arms(
    policy: OurPolicy, paper: Textbook, parameters: tuple[float, ...], sizes: list[tuple[int, int]]
) -> None:
    """Compare the arms played on every table of every size."""
    is_random = policy in (Exp3, Thompson)
    for n_arms, horizon in sizes:
        for name, table in tables(n_arms, horizon).items():
            rngs = [random_generator(3)] if is_random else []
            uniforms = [random_generator(3).random] if is_random else []
            played = arms_played(policy(n_arms, *parameters, *rngs), table)
            expected = paper(table, *parameters, *uniforms)
            assert played == expected, f"K = {n_arms}, T = {horizon}, {name}"


@pytest.mark.parametrize(
    ("policy", "paper", "parameters"),
    [(policy, paper, each) for policy, paper, every in PAPERS for each in every],
)
def test_arms_are_those_of_the_paper(
    policy: OurPolicy, paper: Textbook, parameters: tuple[float, ...]
) -> None:
    assert_same_arms(policy, paper, parameters, SIZES)


@pytest.mark.parametrize("gamma", [0.05, 0.2])
def test_exp3_corrects_its_sums_without_effect(gamma: float) -> None:
    assert_same_arms(Exp3, textbook.exp3, (gamma,), [(3, 5000)])


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("case", BASELINES)
def test_fused_rounds_equal_ask_and_tell(case: Case, noise: object) -> None:
    # Long enough for sums and buffered draws to be made afresh.
    pieces = [(True, 1), (False, 40), (True, 60), (False, 1), (True, 16_900), (False, 9)]
    for n_arms, turns in ((4, pieces if noise is None else pieces[:4]), (1, pieces[:4])):
        problem = Problem(n_arms, sum(n for _, n in turns))
        asked = game(case, problem, [(False, problem.horizon)], 3, noise)
        assert game(case, problem, turns, 3, noise) == asked


# -- one by one -----------------------------------------------------------------------------


def test_wide_ucb_returns_to_neglected_arms_sooner() -> None:
    table = (random_generator(1).random((50_000, 2)) < [0.9, 0.3]).astype(float)
    plain, wide = (arms_played(Ucb1(2, 2.0, lam), table).count(1) for lam in (0.0, 1 / 20_000))
    assert wide > 1.5 * plain


LARGEST_UNIFORM = 1 - 2**-53


class AlmostOne:
    """A generator that draws the largest uniform there is."""

    def random(self, size: int | None = None) -> float | FloatArray:
        return LARGEST_UNIFORM if size is None else np.full(size, LARGEST_UNIFORM)


def test_exp3_takes_the_last_arm_beyond_rounding() -> None:
    rounded_down = 0
    for n_arms in range(2, 100):
        policy = Exp3(n_arms, 0.3, cast(Generator, AlmostOne()))
        total = np.cumsum(diagnostics_of(policy)["probabilities"])[-1]
        rounded_down += bool(total <= LARGEST_UNIFORM)
        assert policy.ask(1).tolist() == [n_arms - 1]
    assert rounded_down > 10


@pytest.mark.parametrize(
    ("name", "n_arms", "horizon", "given", "expected"),
    [
        *(
            ("exp3", k, t, {}, min(1, math.sqrt(k * math.log(k) / ((math.e - 1) * t))))
            for k, t in ((2, 1), (2, 100), (10, 10**6), (1, 50))
        ),
        ("discounted-ucb", 2, 10_000, {}, 1 - 0.01 / 4),
        ("discounted-ucb", 2, 10_000, {"changes": 4}, 1 - 0.02 / 4),
        ("discounted-ucb", 2, 1, {"B": 0.1}, 0.5),
        ("sliding-window-ucb", 5, 10_000, {}, 607),
        ("sliding-window-ucb", 5, 10_000, {"changes": 4}, 304),
        ("sliding-window-ucb", 60, 100, {}, 60),
        ("sliding-window-ucb", 3, 1, {}, 1),  # 3, cut to the horizon
        ("sliding-window-ucb", 1, 2, {}, 2),
    ],
)
def test_defaults_come_from_the_horizon(
    name: str, n_arms: int, horizon: int, given: dict[str, object], expected: float
) -> None:
    shown = diagnostics_of(build(name, n_arms, horizon, **given))
    found = shown["tau" if name == "sliding-window-ucb" else "gamma"]
    assert found == pytest.approx(expected, rel=1e-15)


def test_discounted_ucb_replays_underflowed_arm() -> None:
    table = np.tile([1.0, 0.0], (200, 1))
    policy = DiscountedUcb(2, 1.0, 1e-300, 1e-9)  # no exploration: 1e-9^36 is 0
    arms = arms_played(policy, table)
    assert 2 <= arms.count(1) < 20
    diagnostics = diagnostics_of(policy)
    assert all(np.isfinite(diagnostics[key]).all() for key in ("counts", "means"))


def test_window_sums_do_not_drift() -> None:
    table = random_generator(2).random((3000, 3))
    table[-100:] *= 1e-14  # what rounding left of the earlier rewards would show
    policy = SlidingWindowUcb(3, 1.0, 0.6, 30)
    arms = np.array(arms_played(policy, table))[-30:]
    last = table[-30:][np.arange(30), arms]
    means = diagnostics_of(policy)["means"]
    assert isinstance(means, np.ndarray)
    for arm in range(3):
        exact = math.fsum(last[arms == arm]) / (arms == arm).sum()
        assert means[arm] == pytest.approx(exact, rel=1e-12, abs=0)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(0, 9))
def test_uniforms_are_read_in_order(reads: list[int], seed: int) -> None:
    buffer = Uniforms(random_generator(seed), size=4)
    seen: list[float] = []
    for n in reads:
        while buffer.values.size - buffer.cursor[0] < n:
            buffer.refill()
        first = int(buffer.cursor[0])
        seen += buffer.values[first : first + n].tolist()
        buffer.cursor[0] += n
    assert seen == random_generator(seed).random(len(seen)).tolist()


def test_thompson_with_more_arms_than_buffer() -> None:
    n_arms = 9000
    policy = build("thompson", n_arms, 3)
    arms = arms_played(policy, np.zeros((3, n_arms)))
    assert len(set(arms)) == 3


def test_thompson_splits_a_fractional_reward() -> None:
    policy = Thompson(1, 1.0, 2.0, random_generator())
    policy.ask(1)
    policy.tell(np.array([0.25]))
    assert diagnostics_of(policy) == {"alpha": np.array([1.25]), "beta": np.array([2.75])}


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
def test_fixed_schedule_plays_head_then_cycle(
    head: list[int], cycle: list[int], expected: list[int]
) -> None:
    policy = build("fixed-schedule", 3, 8, head=head, cycle=cycle)
    assert arms_played(policy, np.zeros((8, 3))) == expected


def test_fixed_schedule_diagnostics() -> None:
    policy = build("fixed-schedule", 3, 1000, head=[2, 2], cycle=[0, 1])
    policy.tell(np.zeros(policy.ask(7).size))
    assert diagnostics_of(policy) == {"schedule": "2 2 · (0 1) × 499", "done": 7}


def test_fixed_schedule_rejects_missing_arm() -> None:
    with pytest.raises(InvalidValueError, match="plays arm 3, but arms go from 0 to 2"):
        build("fixed-schedule", 3, 8, cycle=[0, 3])


@pytest.mark.parametrize("name", ["fixed-schedule", "uniform", "aae"])
def test_blocks_are_bounded_at_any_limit(name: str) -> None:
    policy = build(name, 1, 10**12)
    for _ in range(3):
        block = policy.ask(10**12)
        assert 1 <= block.size <= 1 << 16
        policy.tell(np.zeros(block.size))


def test_fixed_schedule_of_a_trillion_rounds() -> None:
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
def test_uniform_plays_last_arm_at_largest_draw(n_arms: int) -> None:
    policy = UniformPolicy(n_arms, cast(Generator, AlmostOne()))
    assert policy.ask(2).tolist() == [n_arms - 1, n_arms - 1]


@pytest.mark.parametrize("name", ["discounted-ucb", "sliding-window-ucb"])
def test_forgetting_pays_when_arms_change(name: str) -> None:
    # After 3000 rounds the best arm becomes the worst, but its mean stays the highest.
    horizon = 5000
    first = np.arange(horizon)[:, None] < 3000
    means = np.where(first, [0.9, 0.5], [0.1, 0.5])
    table = (random_generator(11).random((horizon, 2)) < means).astype(float)

    def earned(policy: Policy) -> float:
        return float(table[np.arange(horizon), arms_played(policy, table)].sum())

    assert earned(build(name, 2, horizon)) > earned(build("ucb1", 2, horizon)) + 300


# -- rejected values ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("ucb1", {"exploration": 0.0}, "'exploration' must be > 0"),
        ("ucb1", {"exploration": math.inf}, "'exploration' must be < inf"),
        ("aae", {"delta": 0.0}, "'delta' must be >= 1e-300"),
        ("aae", {"delta": 1.5}, "'delta' must be <= 1"),
        ("exp3", {"gamma": 0.0}, "'gamma' must be >= 1e-09"),
        ("exp3", {"gamma": 1.01}, "'gamma' must be <= 1"),
        ("thompson", {"alpha": 0.0}, "'alpha' must be >= 1e-09"),
        ("thompson", {"beta": math.inf}, "'beta' must be <= 1"),
        ("discounted-ucb", {"gamma": 1.5}, "'gamma' must be <= 1"),
        ("discounted-ucb", {"B": -1.0}, "'B' must be > 0"),
        ("discounted-ucb", {"changes": 0}, "'changes' must be >= 1"),
        ("sliding-window-ucb", {"xi": 0.0}, "'xi' must be > 0"),
        ("sliding-window-ucb", {"tau": 0}, "'tau' must be >= 1"),
        ("fixed-schedule", {"cycle": []}, "cycle needs at least one arm"),
        ("fixed-schedule", {"cycle": [0, -1]}, "arms are integers counted from 0, got -1"),
    ],
)
def test_bad_parameters_are_named(name: str, parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(name, 3, 100, **parameters)


def test_config_rejects_bool_for_a_number() -> None:
    with pytest.raises(InvalidValueError, match="'gamma' must be a number: True"):
        Exp3Config(gamma=True)
