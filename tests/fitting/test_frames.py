"""Logs from frames of pandas and polars: the same rows and the same checks as from a file."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest

import bdes_framework as bdes

COLUMNS = bdes.Columns(arm="ad", reward="click", user="user", order="time")
GOOD: Mapping[str, Sequence[Any]] = {
    "user": ["u2", "u1", "u2", "u1", "u2"],
    "time": [1, 1, 2, 5, 7],
    "ad": ["b", "10", "a", "9", "b"],
    "click": [0, 1, 1, 0, 1],
    "unused": [0.5] * 5,
}
MakeFrame = Callable[[Mapping[str, Any]], Any]


@pytest.fixture(params=[pandas.DataFrame, polars.DataFrame], ids=["pandas", "polars"])
def make(request: pytest.FixtureRequest) -> Any:
    return request.param


def rows_of(log: bdes.Log) -> list[object]:
    return [log.arms.tolist(), log.rewards.tolist(), log.starts.tolist(), log.names]


def test_users_that_take_turns_are_brought_together(make: MakeFrame, tmp_path: Path) -> None:
    log = bdes.Log.from_frame(make(GOOD), COLUMNS)
    assert rows_of(log) == [[3, 2, 3, 1, 0], [0, 1, 1, 1, 0], [0, 3], ("9", "10", "a", "b")]
    file = tmp_path / "sorted.csv"
    pandas.DataFrame(GOOD).sort_values("user", kind="stable", ascending=False).to_csv(file)
    assert rows_of(bdes.read_log(file, COLUMNS)) == rows_of(log)


def test_one_sequence_by_default_and_many_chunks(make: MakeFrame) -> None:
    rng = np.random.default_rng(0)
    arms, rewards = rng.integers(0, 3, 20_000), rng.random(20_000) < 0.5
    log = bdes.Log.from_frame(make({"arm": arms, "reward": rewards}))
    assert np.array_equal(log.arms, arms)
    assert np.array_equal(log.rewards, rewards)
    assert log.n_sequences == 1


def test_moments_keep_every_digit(make: MakeFrame) -> None:
    start = np.datetime64("2024-01-01T00:00:00.000000000")
    times = start + np.array([5, 6, 7])
    frame = make({**GOOD_TIMES, "time": times[[2, 0, 1]]})
    log = bdes.Log.from_frame(frame, bdes.Columns(arm="ad", reward="click", order="time"))
    assert log.arms.tolist() == [1, 0, 0]
    assert log.rewards.tolist() == [1, 0, 0]


GOOD_TIMES: Mapping[str, Any] = {"ad": ["a", "b", "a"], "click": [0, 1, 0]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"click": [0, 1, 2, 0, 1]}, "frame, row 2: a reward is 0 or 1, got 2"),
        ({"ad": ["a", "b", None, "a", "a"]}, "frame, row 2: has no value in column 'ad'"),
        ({"user": ["u", "v", None, "u", "u"]}, "frame, row 2: has no value in column 'user'"),
        ({"time": ["x", "1", "2", "3", "4"]}, "frame, row 0: order 'x' is no finite number"),
    ],
)
def test_bad_rows(make: MakeFrame, changes: Mapping[str, Any], message: str) -> None:
    with pytest.raises(bdes.InvalidValueError) as caught:
        bdes.Log.from_frame(make({**GOOD, **changes}), COLUMNS)
    assert str(caught.value) == message


def test_lists_are_no_names(make: MakeFrame) -> None:
    with pytest.raises(bdes.InvalidValueError, match=r"frame.*: column 'ad' holds .*expected text"):
        bdes.Log.from_frame(make({**GOOD, "ad": [[1]] * 5}), COLUMNS)


def test_frames_say_the_same_as_csv(make: MakeFrame, tmp_path: Path) -> None:
    frame = {
        "user": [2, 1, 2, 1, 2],
        "time": [datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)] * 3
        + [datetime.datetime(2023, 12, 31, 23, 59, 59, 5, tzinfo=datetime.UTC)] * 2,
        "ad": [1.0, 10.0, 1.0, 2.0, 1.0],
        "click": [True, None, False, True, True],
        "p": [0.5, 0.25, 1.0, 0.5, 0.5],
        "day": ["we", "mo", "we", "we", "mo"],
    }
    columns = bdes.Columns("ad", "click", "user", "time", "p", "day")
    log = bdes.Log.from_frame(make(frame), columns)
    assert rows_of(log) == [[0, 0, 0, 1, 2], [1, 1, 0, 1, bdes.UNKNOWN_REWARD], [0, 3], log.names]
    assert log.names == ("1", "2", "10")
    pandas.DataFrame(frame).to_csv(tmp_path / "log.csv")
    polars.DataFrame(frame).write_parquet(tmp_path / "log.parquet")
    for name in ("log.csv", "log.parquet"):
        again = bdes.read_log(tmp_path / name, columns)
        assert rows_of(again) == rows_of(log)
        for some, others in ((again.propensities, log.propensities), (again.strata, log.strata)):
            assert some is not None
            assert others is not None
            assert some.tolist() == others.tolist()


def test_a_few_bad_rows_are_a_warning(make: MakeFrame) -> None:
    frame = make({"arm": ["a"] * 200, "reward": ["1"] * 199 + ["x"]})
    with pytest.warns(UserWarning, match="1 row kept with an unknown reward; .* frame, row 199"):
        assert bdes.Log.from_frame(frame).n_unknown == 1
    with pytest.raises(bdes.InvalidValueError, match=r"^frame, row 199: a reward is 0 or 1"):
        bdes.Log.from_frame(frame, strict=True)


def test_bad_frames(make: MakeFrame) -> None:
    with pytest.raises(bdes.InvalidValueError, match=r"frame: has no column 'arm'\. It has ad, "):
        bdes.Log.from_frame(make(GOOD))
    with pytest.raises(bdes.InvalidValueError, match="frame: has no rows"):
        bdes.Log.from_frame(make({"arm": [], "reward": []}))
    for wrong in (3, {"arm": [1]}):
        with pytest.raises(bdes.InvalidValueError, match="expected a frame of pandas or polars"):
            bdes.Log.from_frame(wrong)


def test_values_of_pandas_that_are_missing() -> None:
    frame = pandas.DataFrame({"arm": pandas.array([1, None], dtype="Int64"), "reward": [1, 0]})
    with pytest.raises(bdes.InvalidValueError, match="row 1: has no value in column 'arm'"):
        bdes.Log.from_frame(frame)
    days = [datetime.date(2024, 1, 1), pandas.NaT]
    frame = pandas.DataFrame({"arm": ["a", "b"], "reward": [1, 0], "day": days})
    with pytest.raises(bdes.InvalidValueError, match="row 1: has no value in column 'day'"):
        bdes.Log.from_frame(frame, bdes.Columns(order="day"))
    doubled = pandas.DataFrame([[1, 1, 0]], columns=["arm", "arm", "reward"])
    with pytest.raises(bdes.InvalidValueError, match="frame: has two columns 'arm'"):
        bdes.Log.from_frame(doubled)
