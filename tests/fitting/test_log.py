"""Logs in memory: what is accepted, what is rejected, and that nobody changes them."""

import pickle

import numpy as np
import pytest

import bdes_framework as bdes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "has no rows"),
        (([0, 1], [0]), "one reward per row"),
        (([0, -1], [0, 1]), "row 1"),
        (([0, 0.5], [0, 1]), "row 1.*got 0.5"),
        (([0, 1], [0, 2]), "rewards, row 1.*got 2"),
        (([0, 1], [0, float("inf")]), "rewards, row 1"),
        (([0, 1, 0], [float("nan"), 0, -1]), "rewards, row 2: .*got -1"),
        (([0, 1], [0, -128]), "rewards, row 1: .*got -128"),
        (([0, 1], [0, -128.0]), "rewards, row 1: .*got -128"),
        (([0, 1], np.array([0, -1], np.int8)), "rewards, row 1: .*got -1"),
        (([0, 1], np.array([-128, -1], np.int8)), "rewards, row 1: .*got -1"),
        (([0, 1], [0, None]), "rewards: expected one number per row"),
        (([0, 5000], [0, 1]), "from 0 to 999"),
        ((["a"], [1]), "one number per row"),
        (([[0]], [[1]]), "one number per row"),
        (([0, 1], [0, 1], [1]), "begin with row 0"),
        (([0, 1], [0, 1], [0, 2]), "lie below 2"),
        (([0, 1], [0, 1], [0, 0]), "must increase"),
        (([0, 1], [0, 1], [0], ["a"]), "has no name"),
        (([0, 1], [0, 1], [0], ["a", "a"]), "same name"),
        (([0], [1], [0], []), "names: expected one text per arm, got none"),
        (([0, 1], [0, 1], [0], "ab"), "names: expected one text per arm, got 'ab'"),
        (([0, 1], [0, 1], None, None, [0.5]), "need one propensity per row, got 1 for 2"),
        (([0, 1], [0, 1], None, None, [0.5, 0.0]), "propensities, row 1: .*above 0, got 0"),
        (([0, 1], [0, 1], None, None, [0.5, 1.1]), "propensities, row 1: .*got 1.1"),
        (([0, 1], [0, 1], None, None, [0.5, float("nan")]), "propensities, row 1: .*got nan"),
        (([0, 1], [0, 1], None, None, None, [0]), "need one stratum per row, got 1 for 2"),
        (([0, 1], [0, 1], None, None, None, [0, -1]), "strata, row 1: .*got -1"),
        (([0, 1], [0, 1], None, None, None, [0, 0.5]), "strata, row 1: .*got 0.5"),
    ],
)
def test_a_malformed_log_is_rejected(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(bdes.InvalidValueError, match=message):
        bdes.Log(*arguments)  # type: ignore[arg-type]


def test_nothing_given_is_the_default() -> None:
    log = bdes.Log([0, 2], [1, 0], starts=None, names=None)
    assert log.starts.tolist() == [0]
    assert log.names == ("0", "1", "2")


def test_a_log_cannot_be_changed_from_outside() -> None:
    arms, rewards = np.zeros(5, np.int32), np.zeros(5, np.int8)
    log = bdes.Log(arms, rewards)
    arms[0], rewards[0] = 99, 1
    assert not log.arms.any()
    assert not log.rewards.any()
    for rows in (log.arms, log.rewards, log.starts, log.first(3).arms):
        with pytest.raises(ValueError, match="read-only"):
            rows[0] = 1
    assert np.shares_memory(log.first(3).arms, log.arms)
    view = arms.view()
    view.flags.writeable = False  # but its base can be written to
    of_view = bdes.Log(view, rewards)
    arms[:] = 7
    assert of_view.arms.tolist() == [99, 0, 0, 0, 0]
    assert np.shares_memory(of_view.first(2).arms, of_view.arms)


@pytest.mark.parametrize(
    ("users", "message"),
    [
        ([1, 2], "one user per row, got 2 for 3"),
        ([[1], [2, 3], [4]], "one user per row"),
        ([[1, 2, 3]], "one user per row"),
        ([1.0, np.nan, 1.0], "row 1: has no user"),
        ([np.nan, np.nan, 1.0], "row 0: has no user"),
        (["a", None, "b"], "row 1: has no user"),
        ([None, "a", "b"], "row 0: has no user"),
        ([{}, {1: 2}, {}], "numbers or text"),
    ],
)
def test_bad_users_are_rejected(users: list[object], message: str) -> None:
    with pytest.raises(bdes.InvalidValueError, match=message):
        bdes.Log.of_users(users, [0, 0, 0], [1, 1, 1])  # type: ignore[arg-type]
    with pytest.raises(bdes.InvalidValueError, match="arms"):
        bdes.Log.of_users([1, 2], [[0], [0, 1]], [1, 1])  # type: ignore[list-item]


def test_users_must_stand_together() -> None:
    with pytest.raises(bdes.InvalidValueError, match="stand together"):
        bdes.Log.of_users([1, 2, 1], [0, 0, 0], [1, 1, 1])
    named = bdes.Log.of_users([1, 1], [0, 0], [1, 1], names=["a", "b"])
    assert (named.n_arms, named.n_sequences) == (2, 1)


def test_an_unpickled_log_is_read_only() -> None:
    log = bdes.Log(
        [0, 1, 0],
        [1, np.nan, 1],
        starts=[0, 2],
        names=["loud", "calm"],
        propensities=[0.5, 1, 0.25],
        strata=[0, 3, 1],
    )
    again = pickle.loads(pickle.dumps(log))
    assert (again.names, again.starts.tolist()) == (log.names, [0, 2])
    assert again.arms.tolist() == [0, 1, 0]
    assert again.rewards.tolist() == [1, bdes.UNKNOWN_REWARD, 1]
    assert again.propensities is not None
    assert again.strata is not None
    assert again.propensities.tolist() == [0.5, 1, 0.25]
    assert again.strata.tolist() == [0, 3, 1]
    rows = (again.arms, again.rewards, again.starts, again.propensities, again.strata)
    assert not any(part.flags.writeable for part in rows)


def test_rewards_that_are_not_known() -> None:
    log = bdes.Log([0, 1, 1, 0], [1, np.nan, 0, np.nan], starts=[0, 2])
    assert (log.n_rows, log.n_unknown) == (4, 2)
    assert log.known.tolist() == [True, False, True, False]
    assert log.plays().tolist() == [2, 2]
    assert [part.tolist() for part in log.totals()] == [[1, 1], [1, 0]]
    assert repr(log) == "Log(n_rows=4, n_sequences=2, n_arms=2, n_unknown=2, names=[0, 1])"
    assert log.first(2).n_unknown == 1
    assert bdes.Log(log.arms, log.rewards).n_unknown == 2


def test_the_first_rows_keep_every_column() -> None:
    log = bdes.Log([0, 1, 1], [1, 0, 0], propensities=[1, 0.5, 0.25], strata=[2, 0, 1]).first(2)
    assert log.propensities is not None
    assert log.strata is not None
    assert (log.propensities.tolist(), log.strata.tolist()) == ([1, 0.5], [2, 0])
    users = bdes.Log.of_users(["a", "b"], [0, 0], [1, 0], propensities=[0.5, 1], strata=[0, 1])
    assert users.propensities is not None
    assert users.strata is not None
    assert (users.propensities.tolist(), users.strata.tolist()) == ([0.5, 1], [0, 1])
