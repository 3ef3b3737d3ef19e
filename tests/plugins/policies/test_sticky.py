"""Sticky arms on exact means: switches, batches, eliminations and the last pair as printed.

The order of a batch is random, so it is read off the arms played, and checked.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator

import numpy as np
import pytest
from attrs import define

from bdes_framework import FloatArray, Instance, IntArray, Problem
from bdes_policies.sticky import times_each
from tests.support.noiseless import array, build, click_bait, play, play_named
from tests.support.work import n_lines

Pair = tuple[int, int]


@define
class Batch:
    """One batch as it was played: the sums of each pair's rewards, and the switches."""

    sums: dict[Pair, float]
    switches: int
    end: int


def read_batch(
    arms: IntArray, means: FloatArray, start: int, active: list[Pair], times: int
) -> Batch:
    """Follow Algorithm 3: a switch to i, then all unexplored pairs with i, U times x, i each."""
    unexplored, sums, at, switches = set(active), {}, start, 0
    while unexplored:
        shared = int(arms[at])
        at, switches = at + 1, switches + 1
        assert any(pair[0] == shared for pair in unexplored)  # it begins with a pair's first arm
        while any(shared in pair for pair in unexplored):
            other = int(arms[at])
            pair = (min(other, shared), max(other, shared))
            assert pair in unexplored
            block = slice(at, at + 2 * times)
            assert arms[block].tolist() == [other, shared] * times
            sums[pair] = float(means[block].sum())
            unexplored.remove(pair)
            at = block.stop
    return Batch(sums, switches, at)


def times_of(horizon: int, batches: int) -> Iterator[int]:
    for beta in range(1, batches):
        # The largest whole number whose B-th power is at most T^beta, in whole numbers only.
        yield bisect_right(range(1, horizon + 1), horizon**beta, key=lambda n: n**batches)


CASES = [(2, 20_000, 1.0), (3, 30_000, 1.0), (5, 100_000, 1.0), (3, 30_000, 0.95)]
CASES += [(1, 500, 1.0), (2, 40, 1.0)]


@pytest.mark.parametrize(("n_arms", "horizon", "lam"), CASES)
def test_batches_and_last_pair_are_as_printed(n_arms: int, horizon: int, lam: float) -> None:
    instance = Instance([0.6], [0.5], lam) if n_arms == 1 else click_bait(n_arms, lam)
    played = play_named("sticky", instance, horizon)
    shown = played.diagnostics
    active = [(i, j) for i in range(n_arms) for j in range(i, n_arms)]
    assert shown["meta_arms"] == len(active)
    batches = max(1, math.ceil(2 * math.log(horizon)))
    totals = dict.fromkeys(active, 0.0)
    at, count, ends, switches, left_active = 0, 0, [], [], []
    for times in times_of(horizon, batches):
        if len(active) == 1:
            break
        batch_pulls = 2 * times * len(active)
        if batch_pulls + 1 > horizon - at:
            break
        batch = read_batch(played.arms, played.means, at, active, times)
        assert batch.switches <= n_arms
        assert batch.end - at == batch_pulls + batch.switches  # one dropped sample a switch
        at, count = batch.end, count + times
        for pair, total in batch.sums.items():
            totals[pair] += total
        means = {pair: totals[pair] / (2 * count) for pair in active}
        radius = math.sqrt(2 * math.log(2 * n_arms**2 * horizon * batches) / count)
        active = [pair for pair in active if means[pair] >= max(means.values()) - radius]
        ends.append(at)
        switches.append(batch.switches)
        left_active.append(len(active))
    best = max(active, key=lambda pair: totals[pair])
    assert shown["committed_at"] == at
    assert array(shown, "committed").tolist() == list(best)
    if ends:
        assert array(shown, "batch_ends").tolist() == ends
        assert array(shown, "switches").tolist() == switches
        assert array(shown, "active_after").tolist() == left_active
        assert shown["pairs_each"] == count
        np.testing.assert_allclose(
            array(shown, "means"), [totals[p] / (2 * count) for p in active], rtol=1e-12
        )
    shown_pairs = zip(array(shown, "active_first"), array(shown, "active_second"), strict=True)
    assert list(shown_pairs) == active
    rest = [best[k % 2] for k in range(horizon - at)]
    assert played.arms[at:].tolist() == rest


def test_means_are_exact_at_rate_one() -> None:
    instance = click_bait(3, 1.0)
    shown = play_named("sticky", instance, 3_000).diagnostics
    first = array(shown, "active_first").astype(int)
    second = array(shown, "active_second").astype(int)
    r, b = instance.r, instance.b
    expected = (r[first] * b[second] + r[second] * b[first]) / 2
    np.testing.assert_allclose(array(shown, "means"), expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_a_batch_takes_at_most_k_switches(seed: int) -> None:
    shown = play_named("sticky", click_bait(5, 1.0), 4_000, seed=seed).diagnostics
    switches = array(shown, "switches")
    assert switches.size >= 4
    assert switches.max() <= 5
    assert switches.min() >= 3  # 15 pairs of 5 arms cannot all be reached through two


@pytest.mark.parametrize("n_arms", [2, 3, 5])
@pytest.mark.parametrize("horizon", [1, 2, 5, 6, 7, 8, 12, 13, 30, 31, 32, 35, 36, 37, 38])
def test_batches_that_do_not_fit_are_not_begun(n_arms: int, horizon: int) -> None:
    instance = click_bait(n_arms, 1.0)
    played = play_named("sticky", instance, horizon)
    assert played.arms.size == horizon
    pairs = n_arms * (n_arms + 1) // 2
    if horizon <= 2 * pairs:
        assert played.arms.tolist() == [k % n_arms for k in range(horizon)]
        assert "no room for a batch" in str(played.diagnostics["plan"])


def test_batches_and_width_can_be_given() -> None:
    instance = click_bait(2, 1.0)
    shown = play_named("sticky", instance, 5_000, batches=3, width=1e-6).diagnostics
    # w = 5000^(1/3); with next to no radius only the best pair is left.
    assert shown["pairs_each"] == math.floor(5_000 ** (1 / 3))
    assert array(shown, "active_after").tolist() == [1]
    alone = play_named("sticky", instance, 5_000, batches=1)
    assert alone.arms.tolist() == [k % instance.n_arms for k in range(5_000)]


@pytest.mark.parametrize(("root", "batches"), [(3, 5), (7, 6), (10, 6), (5, 8), (2, 23)])
def test_whole_roots_survive_rounding(root: int, batches: int) -> None:
    powers = [times_each(root**batches, beta, batches) for beta in range(1, batches)]
    assert powers == [root**beta for beta in range(1, batches)]
    for horizon in (root**batches - 1, root**batches + 1):
        powers = [times_each(horizon, beta, batches) for beta in range(1, batches)]
        assert powers == list(times_of(horizon, batches))


def test_many_arms_cost_nothing_without_room() -> None:
    policy = build("sticky", Problem(100_000, 10**9, 1.0))  # five thousand million pairs
    assert policy.ask(3).tolist() == [0, 1, 2]


def test_many_arms_are_switched_in_compiled_code() -> None:
    n_arms = 300
    build("sticky", Problem(3, 10**6, 1.0))  # compiles
    # Some lines for each switch, of which there are at most K; none for each of 45,150 pairs.
    assert n_lines(lambda: build("sticky", Problem(n_arms, 10**6, 1.0))) < 45_150 / 2
    policy = build("sticky", Problem(n_arms, 10**6, 1.0))
    instance = Instance(np.full(n_arms, 0.5), np.ones(n_arms), 1.0)
    shown = play(policy, instance, 10**6).diagnostics
    assert array(shown, "switches").max() <= n_arms
    assert "means" not in shown  # 45,150 pairs are no small array
