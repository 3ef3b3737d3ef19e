"""What can be exchanged by propensities: classes against distributions that are known."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bdes_framework as bdes
from bdes_framework.fitting import exchange
from tests.support.null_logs import phased_log

Distributions = list[list[float]]


def all_shown(distributions: Distributions) -> tuple[bdes.IntArray, bdes.FloatArray]:
    """Return a row for every arm of every distribution, and its chance."""
    rows = [(arm, p) for chances in distributions for arm, p in enumerate(chances) if p > 0]
    return np.array([arm for arm, _ in rows]), np.array([p for _, p in rows])


def classes_of(distributions: Distributions) -> list[int]:
    arms, chances = all_shown(distributions)
    return list(map(int, exchange._exchange_classes(arms, chances)))


def test_phases_are_classes() -> None:
    assert classes_of([[0.6, 0.3, 0.1]]) == [0, 0, 0]
    found = classes_of([[0.6, 0.3, 0.1], [0.25, 0.35, 0.4]])
    assert len(set(found[:3])) == len(set(found[3:])) == 1
    assert found[0] != found[3]


def test_arms_of_one_chance_in_both_phases_stay_apart() -> None:
    first, shared, third, other, shared_too, last = classes_of([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
    assert shared == shared_too
    assert first == third
    assert other == last
    assert len({first, shared, other}) == 3


def test_an_arm_that_was_off_is_allowed() -> None:
    found = classes_of([[0.5, 0.3, 0.2], [0.6, 0.0, 0.4]])
    assert found[0] == found[1] == found[2] != exchange.NOT_EXCHANGED
    assert found[3] == found[4] != exchange.NOT_EXCHANGED


def test_chances_that_add_up_to_nothing_are_not_exchanged() -> None:
    found = classes_of([[0.6, 0.3, 0.1], [0.15, 0.15, 0.15]])
    assert found[3:] == [exchange.NOT_EXCHANGED] * 3
    assert classes_of([[0.2, 0.2, 0.2]]) == [0, 0, 0]  # wrong, but never changed


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_class_is_in_a_distribution_or_it_is_not(data: st.DataObject) -> None:
    """So the arm of a visit of a class is drawn in proportion to its chances, whatever was true."""
    n_arms = data.draw(st.integers(2, 4))
    distributions = []
    for _ in range(data.draw(st.integers(1, 3))):
        cuts = data.draw(st.sets(st.integers(1, 19), min_size=n_arms - 1, max_size=n_arms - 1))
        distributions.append((np.diff([0, *sorted(cuts), 20]) / 20).tolist())
    arms, chances = all_shown(distributions)
    classes = exchange._exchange_classes(arms, chances)
    of_class: dict[int, set[tuple[int, float]]] = {}
    for number, arm, chance in zip(classes.tolist(), arms.tolist(), chances.tolist(), strict=True):
        assert number != exchange.NOT_EXCHANGED
        of_class.setdefault(number, set()).add((arm, round(chance, 9)))
    for pairs, true in product(of_class.values(), distributions):
        contained = {(arm, round(p, 9)) for arm, p in enumerate(true)} & pairs
        assert contained in (set(), pairs)


def test_too_many_chances_are_not_sorted_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    arms, chances = rng.integers(0, 3, 1000), rng.random(1000)
    assert set(exchange._exchange_classes(arms, chances).tolist()) == {exchange.NOT_EXCHANGED}
    several: Distributions = [[0.6, 0.3, 0.1], [0.25, 0.35, 0.4]]
    monkeypatch.setattr(exchange, "_MAX_TRIED", 3)
    assert set(classes_of(several)) == {exchange.NOT_EXCHANGED}


def test_runs_are_exchanged_within_users() -> None:
    arms = np.array([0, 0, 1, 1, 1, 1, 0, 0])
    chances = np.array([0.6, 1.0, 0.4, 1.0, 0.4, 1.0, 0.6, 1.0])
    users = np.repeat([0, 1], 4)
    found = exchange.exchange_blocks(arms, chances, users, np.zeros(8, np.int64))
    assert not found.between_users
    assert found.share(arms) == 1
    assert np.array_equal(found.blocks[:, None] == found.blocks, users[:, None] == users)


def test_certain_arms_are_no_runs_if_some_came_anew() -> None:
    arms = np.array([1, 0, 0, 0, 1, 0])
    chances = np.array([0.5, 1.0, 1.0, 0.5, 0.5, 0.5])
    found = exchange.exchange_blocks(arms, chances, np.zeros(6, np.int64), np.zeros(6, np.int64))
    (certain,), (drawn,) = (
        np.unique(found.blocks[rows]).tolist() for rows in ([1, 2], [0, 3, 4, 5])
    )
    assert certain != drawn


def test_users_of_their_own_chances_stay_within() -> None:
    rng = np.random.default_rng(2)
    users, arms = np.repeat(np.arange(100), 10), rng.integers(0, 3, 1000)
    own = rng.dirichlet([5, 5, 5], 100)
    zeros = np.zeros(1000, np.int64)
    found = exchange.exchange_blocks(arms, own[users, arms], users, zeros)
    assert not found.between_users
    assert np.array_equal(found.blocks[:, None] == found.blocks, users[:, None] == users)
    changed = rng.random(1000)
    found = exchange.exchange_blocks(arms, changed, users, zeros)
    assert found.share(arms) == 0
    strata = np.arange(1000) % 5  # in each of which a user's chances are the same
    kept = rng.dirichlet([5, 5, 5], (100, 5))[users, strata, arms]
    assert exchange.exchange_blocks(arms, kept, users, strata).share(arms) == 1


def test_strata_stay_apart_between_users() -> None:
    arms, strata = np.array([0, 1, 0, 1] * 2), np.array([0, 0, 1, 1] * 2)
    users, chances = np.repeat([0, 1], 4), np.full(8, 0.5)
    found = exchange.exchange_blocks(arms, chances, users, strata)
    assert found.between_users
    assert np.array_equal(found.blocks[:, None] == found.blocks, strata[:, None] == strata)


def test_phases_of_changing_chances_raise_no_alarm() -> None:
    known = [phased_log(users=200, visits=60, seed=seed) for seed in range(8)]
    unknown = [bdes.Log(log.arms, log.rewards, log.starts) for log in known]
    with_chances, without = (
        [bdes.randomisation_test(log, permutations=59).p_value for log in logs]
        for logs in (known, unknown)
    )
    assert sorted(without)[-3] <= 0.05
    assert sorted(with_chances)[2] > 0.05


def test_chances_that_always_change_show_nothing() -> None:
    log = phased_log(users=20, visits=20, seed=1)
    chances = np.random.default_rng(1).random(log.n_rows)
    never = bdes.Log(log.arms, log.rewards, log.starts, propensities=chances)
    found = bdes.randomisation_test(never, permutations=20)
    assert (found.p_value, found.exchanged) == (1, 0)


def test_known_chances_are_exchanged_between_users() -> None:
    log = phased_log(users=20, visits=20, seed=2)
    found = bdes.randomisation_test(log, permutations=20)
    assert found.between_users
    assert found.exchanged == 1
    assert str(found).endswith("20 permutations among visits of the same chances)")
