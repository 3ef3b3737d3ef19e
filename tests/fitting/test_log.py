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
        (([0, 1], [0, float("nan")]), "rewards, row 1"),
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
    log = bdes.Log([0, 1, 0], [1, 0, 1], starts=[0, 2], names=["loud", "calm"])
    again = pickle.loads(pickle.dumps(log))
    assert (again.names, again.starts.tolist()) == (log.names, [0, 2])
    assert again.arms.tolist() == [0, 1, 0]
    assert not any(part.flags.writeable for part in (again.arms, again.rewards, again.starts))
