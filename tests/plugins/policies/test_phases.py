"""Phases against their plain expansion into one arm and one slot per pull."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bdes_framework import Instance, Schedule, Segment
from bdes_policies.exploration.phased_policy import MAX_BLOCK, FollowSchedule
from bdes_policies.exploration.phases import (
    NOT_SAMPLED,
    Phase,
    PhaseReader,
    PhaseStep,
    StateWeights,
)

N_ARMS, N_SLOTS = 4, 3

steps = st.builds(
    PhaseStep,
    first=st.integers(0, N_ARMS - 1),
    second=st.integers(0, N_ARMS - 1),
    pulls=st.integers(0, 7),
    slot=st.integers(NOT_SAMPLED, N_SLOTS - 1),
    second_slot=st.integers(NOT_SAMPLED, N_SLOTS - 1),
)
loops = st.lists(st.tuples(st.integers(0, 5), st.lists(steps, max_size=4)), max_size=5)
cuts = st.lists(st.integers(1, 20), min_size=1, max_size=20)


Table = list[tuple[int, list[PhaseStep]]]


def expanded(table: Table) -> tuple[list[int], list[int]]:
    arms, slots = [], []
    for repeats, parts in table:
        for _ in range(repeats):
            for step in parts:
                for k in range(step.pulls):
                    arms.append(step.first if k % 2 == 0 else step.second)
                    slots.append(step.slot if k % 2 == 0 else step.second_slot)
    return arms, slots


@given(loops, cuts, st.integers(0, 1000))
def test_phase_is_its_expansion_in_any_blocks(table: Table, sizes: list[int], seed: int) -> None:
    arms, slots = expanded(table)
    phase = Phase.of(table, N_SLOTS)
    assert phase.n_pulls == len(arms)
    rewards = np.random.default_rng(seed).random(len(arms))
    reader, k = PhaseReader(phase), 0
    read: list[int] = []
    while reader.left:
        n = min(sizes[k % len(sizes)], reader.left)
        block = reader.arms(n)
        assert reader.arms(n).tolist() == block.tolist()  # asking again changes nothing
        reader.take(rewards[len(read) : len(read) + n])
        read += block.tolist()
        k += 1
    assert read == arms
    expected = np.zeros(N_SLOTS)
    for slot, reward in zip(slots, rewards.tolist(), strict=True):
        if slot >= 0:
            expected[slot] += reward
    assert reader.sums.tolist() == expected.tolist()  # the same order, so the same bits


@given(
    st.lists(loops, min_size=1, max_size=3),
    st.sampled_from([0.0, 1e-9, 0.01, 0.3, 0.999, 1.0]),
    st.integers(0, 1000),
)
def test_state_weights_follow_the_recurrence(tables: list[Table], lam: float, seed: int) -> None:
    b = np.random.default_rng(seed).random(N_ARMS)
    weights, arms = StateWeights(N_ARMS, lam), []
    for table in tables:
        weights.add(Phase.of(table, N_SLOTS))
        arms += expanded(table)[0]
    assert weights.n_pulls == len(arms)
    instance = Instance(np.ones(N_ARMS), b, lam, 0.7)
    expected = instance.state_after(arms) if arms else 0.7
    assert weights.state(b, 0.7) == pytest.approx(expected, abs=1e-13)


def test_state_weights_of_a_long_phase_are_exact() -> None:
    weights = StateWeights(N_ARMS, 1e-13)
    weights.add(
        Phase.of(
            [(10**9, [PhaseStep(0, 0, 50), PhaseStep(1, 2, 3)]), (1, [PhaseStep(3, 3, 10**12)])], 0
        )
    )
    b = np.array([0.9, 0.2, 0.4, 0.1])
    with localcontext(prec=60):
        lam = Decimal("1e-13")
        kept, gained = Decimal(1), Decimal(0)
        for arm in [0] * 50 + [1, 2, 1]:
            kept, gained = kept * (1 - lam), gained + lam * (Decimal(b[arm]) - gained)
        limit = gained / (1 - kept)
        after_loop = limit + kept**10**9 * (1 - limit)
        end = Decimal(b[3])
        expected = float(end + (1 - lam) ** 10**12 * (after_loop - end))
    assert weights.state(b, 1.0) == pytest.approx(expected, rel=1e-14)
    assert expected < 0.96  # it did move


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.integers(1, 30)),
        min_size=1,
        max_size=4,
    ),
    cuts,
)
def test_schedule_is_followed_in_any_blocks(
    parts: list[tuple[list[int], int]], sizes: list[int]
) -> None:
    schedule = Schedule([Segment(arms, repeats) for arms, repeats in parts])
    follower, k = FollowSchedule(schedule), 0
    followed: list[int] = []
    while len(followed) < schedule.n_pulls:
        block = follower.ask(min(sizes[k % len(sizes)], schedule.n_pulls - len(followed)))
        block_before = block.tolist()
        block[:] = 99  # what becomes of a block returned makes no difference
        follower.tell(np.zeros(block.size))
        followed += block_before
        k += 1
    assert followed == schedule.arms.tolist()


def test_long_cycle_comes_in_bounded_blocks() -> None:
    schedule = Schedule([Segment(np.arange(1000) % 7, 300), Segment([6, 5])])
    follower, followed = FollowSchedule(schedule), 0
    whole = schedule.arms
    while followed < schedule.n_pulls:
        block = follower.ask(schedule.n_pulls - followed)
        assert block.size <= MAX_BLOCK
        np.testing.assert_array_equal(block, whole[followed : followed + block.size])
        follower.tell(np.zeros(block.size))
        followed += block.size
