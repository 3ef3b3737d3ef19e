"""Logs from files: what is read, and how it is sorted."""

import io
from pathlib import Path

import numpy as np
import pytest

import bdes_framework as bdes
from tests.support.log_files import COLUMNS, HEAD, read, read_parquet, rows_of, write


@pytest.mark.usefixtures("engine")
def test_users_are_sequences_arms_sorted_by_name(tmp_path: Path) -> None:
    log = read(tmp_path, HEAD + "u2,1,b,0\nu2,2,a,1\nu1,1,10,1\nu1,5,9,0\n")
    assert log.names == ("9", "10", "a", "b")
    assert rows_of(log) == [[3, 2, 1, 0], [0, 1, 1, 0], [0, 2]]
    assert np.shares_memory(log.first(1).rewards, log.rewards)


def test_rows_are_mapped_into_memory(tmp_path: Path) -> None:
    log = read(tmp_path, HEAD + "u,1,a,1\n")
    assert isinstance(log.arms.base, np.memmap)
    assert not log.arms.flags.writeable


def test_a_log_in_time_order_is_sorted(tmp_path: Path) -> None:
    log = read(tmp_path, HEAD + "v,1,b,0\nu,2,a,1\nv,3,a,1\nu,4,c,0\nu,3,b,1\n")
    assert rows_of(log) == [[1, 0, 0, 1, 2], [0, 1, 1, 1, 0], [0, 2]]


def test_equal_times_stay_in_the_order_of_the_file(tmp_path: Path) -> None:
    arms = np.random.default_rng(0).integers(0, 5, 3000)
    rows = [f"u{row % 2},2024-01-0{1 + row % 4},a{arm},1" for row, arm in enumerate(arms)]
    log = read(tmp_path, HEAD + "\n".join(rows) + "\n")
    places = np.arange(3000)
    expected = np.concatenate(
        [arms[(places % 2 == user) & (places % 4 == day)] for user in (0, 1) for day in range(4)]
    )
    assert log.arms.tolist() == expected.tolist()


def test_sorting_agrees_with_numpy(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    users, times = rng.integers(0, 300, 20_000), rng.integers(0, 500, 20_000)
    arms, rewards = rng.integers(0, 7, 20_000), rng.integers(0, 2, 20_000)
    lines = zip(users, times, arms, rewards, strict=True)
    text = HEAD + "".join(f"u{u},{t},{a},{r}\n" for u, t, a, r in lines)
    log = read(tmp_path, text)
    _, firsts, codes = np.unique(users, return_index=True, return_inverse=True)
    order = np.lexsort([np.arange(20_000), times, firsts[codes]])
    assert np.array_equal(log.arms, arms[order])
    assert np.array_equal(log.rewards, rewards[order])
    assert log.starts.tolist() == np.flatnonzero(np.diff(users[order], prepend=-1)).tolist()


@pytest.mark.usefixtures("engine")
def test_without_users_a_file_is_one_sequence(tmp_path: Path) -> None:
    log = read(tmp_path, "arm,reward,more\n0,1,x\n1,0,y\n", bdes.Columns())
    assert (log.n_sequences, log.n_rows, log.names) == (1, 2, ("0", "1"))


@pytest.mark.usefixtures("engine")
def test_propensities_and_strata_are_kept(tmp_path: Path) -> None:
    columns = bdes.Columns(user="u", propensity="p", strata="s")
    log = read(tmp_path, "u,arm,reward,p,s\na,0,1,0.5,day\na,1,,1,night\nb,0,0,1e-3,day\n", columns)
    assert log.propensities is not None
    assert log.strata is not None
    assert log.propensities.tolist() == [0.5, 1, 0.001]
    assert log.strata.tolist() == [0, 1, 0]
    assert log.known.tolist() == [True, False, True]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + HEAD + "u,1,a,1\nu,2,a,0\n",  # a byte-order mark
        "\n\n" + HEAD + "u,1,a,1\nu,2,a,0\n",
        HEAD.replace("\n", "\r\n") + "u,1,a,1\r\nu,2,a,0\r\n\r\n",  # DOS, and a blank line
        HEAD + "u,1,a,1\r\nu,2,a,0\n",  # both kinds of lines
        HEAD + '"u","1","a","1"\n"u","2","a","0"\n',
        HEAD.replace(",", ";") + "u;1;a;1\nu;2;a;0\n",
        HEAD.replace(",", "\t") + "u\t1\ta\t1\nu\t2\ta\t0\n",
        HEAD + "u,1.5,a,true\nu,2.5,a,False\n",
        HEAD + "u,1.5,a,1.0\nu,2,a,0.0\n",
        HEAD + "u,1.5,a,1.00\nu,2,a,0e0\n",
        HEAD + "u,-2,a,1\nu,+1,a,0\n",
        HEAD + "u,9,a,1\nu,10,a,0\n",
        HEAD + "u,0.1234567890123456788,a,1\nu,0.1234567890123456789,a,0\n",  # as floats, the same
        HEAD + "u,9007199254740992,a,1\nu,9007199254740992.5,a,0\n",
        HEAD + "u,99999999999999999998,a,1\nu,99999999999999999999,a,0\n",
        HEAD.replace(",", " ,\t") + 'u, 1, "a", 1\nu, 2, "a", 0\n',
        HEAD + "u,2024-01-01T00:00:00Z,a,1\nu,2024-01-01 00:00:01+00:00,a,0\n",
        HEAD + "u,2024-01-01T02:00:00+03:00,a,1\nu,2024-01-01 00:00:00+00:00,a,0\n",
        HEAD + "u,2024-01-31,a,1\nu,2024-02-01,a,0\n",
        HEAD + "u,1700000000000000000,a,1\nu,1700000000000000001,a,0\n",  # nanoseconds
        HEAD + "u,2024-01-01T00:00:00.123456788,a,1\nu,2024-01-01T00:00:00.123456789,a,0\n",
        HEAD + "u,2024-01-01T00:00:00.123456789Z,a,1\nu,2024-01-01T00:00:00.12345679Z,a,0\n",
        HEAD + "u,0001-01-01T00:00Z,a,1\nu,9999-01-01T00:00Z,a,0\n",
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_files_as_tools_write_them_are_read(
    tmp_path: Path, text: str, turned: bool, engine: str
) -> None:
    if turned:  # the last row first: it is sorted
        if engine == "python":
            return
        *head, first, second = text.replace("\r\n\r\n", "\r\n").splitlines(keepends=True)
        text = "".join([*head, second, first])
    log = read(tmp_path, text, strict=True)
    assert log.names == ("a",)
    assert log.rewards.tolist() == [1, 0]


def test_a_file_may_have_any_name(tmp_path: Path) -> None:
    for name in ("rejects_0.csv", "strict_mode=true.csv"):
        file = write(tmp_path, HEAD + "u,1,a,1\r\nu,2,a,0\n", name)  # read a second time
        assert bdes.read_log(file, COLUMNS).rewards.tolist() == [1, 0]


@pytest.mark.parametrize("text", ["arm,reward\ra,1\rb,0\r", "arm,re\rward\na,1\n"])
def test_lone_carriage_returns_are_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(bdes.InvalidValueError, match=r"line 1: .* a carriage return stands"):
        read(tmp_path, text, bdes.Columns())


@pytest.mark.usefixtures("engine")
def test_white_space_around_cells_is_removed(tmp_path: Path) -> None:
    log = read(tmp_path, HEAD + "u , 1, a, 1\nu,2,a ,0\n u,3,\ta, 1 \nv, 1,b, 0\n")
    assert log.names == ("a", "b")
    assert rows_of(log) == [[0, 0, 0, 1], [1, 0, 1, 0], [0, 3]]


@pytest.mark.usefixtures("engine")
def test_whole_numbers_are_the_same_as_floats(tmp_path: Path) -> None:
    log = read(tmp_path, HEAD + "1,1,2.0,1\n1,2,2,0\n1,3,10,1\n2,1,2,0\n")
    assert log.names == ("2", "10")
    assert rows_of(log) == [[0, 0, 1, 0], [1, 0, 1, 0], [0, 3]]
    assert read(tmp_path, HEAD + "u,1,2.0,1\nu,2,2.1,0\n").names == ("2.0", "2.1")


def test_parquet_says_the_same_as_csv(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    csv_log = read(tmp_path, HEAD + "u,1,a,1\nu,2,b,0\nv,1,b,1\n")
    columns = {"user": ["u", "u", "v"], "ad": ["a", "b", "b"], "click": [True, False, True]}
    moments = pa.array([1, 2, 1], pa.timestamp("ns"))
    zoned = pa.array([1, 2, 1], pa.timestamp("us", "Europe/Berlin"))
    days = pa.array([1, 2, 1], pa.date32())
    decimals = [f"0.{digit}" for digit in (1, 2, 1)]
    for order in ([1, 2, 1], moments, zoned, days, [0.1, 0.2, 0.1], decimals):
        for rewards in ([True, False, True], [1, 0, 1], [1.0, 0.0, 1.0], ["1", "0", "1"]):
            table = {**columns, "time": order, "click": rewards}
            assert rows_of(read_parquet(tmp_path, table, strict=True)) == rows_of(csv_log)
    packed = pa.array(["a", "b", "b"]).dictionary_encode()
    assert rows_of(read_parquet(tmp_path, {**columns, "time": [1, 2, 1], "ad": packed})) == rows_of(
        csv_log
    )
    for order, message in (
        ([1, None, 1], "row 2: has no value in column 'time'"),
        ([0.5, float("nan"), 1], "row 2: has no value in column 'time'"),
        ([0.5, float("inf"), 1], "row 2: order 'inf' is no finite number"),
        (
            [[1], [2], [1]],
            r"column 'time' holds values of type BIGINT\[\], and cannot be the order",
        ),
        ([True, False, True], "column 'time' holds values of type BOOLEAN"),
    ):
        with pytest.raises(bdes.InvalidValueError, match=message):
            read_parquet(tmp_path, {**columns, "time": order})
    rewards = pa.array([1, None, 0])
    log = read_parquet(tmp_path, {**columns, "time": [1, 2, 1], "click": rewards}, strict=True)
    assert log.n_unknown == 1
    write(tmp_path, "nonsense", "log.parquet")
    with pytest.raises(bdes.InvalidValueError, match=r"log\.parquet is not a Parquet file"):
        bdes.read_log(tmp_path / "log.parquet", COLUMNS)


def test_numbers_of_parquet_are_names(tmp_path: Path) -> None:
    table = {"user": [2.0, 2.0, 1.5], "time": [1, 2, 1], "ad": [1.0, 10.0, 2.0], "click": [1, 0, 1]}
    log = read_parquet(tmp_path, table)
    assert log.names == ("1", "2", "10")
    assert rows_of(log) == [[0, 2, 1], [1, 0, 1], [0, 2]]
    flags = {**table, "ad": [True, False, True], "user": [-1, -2, -1]}
    assert read_parquet(tmp_path, flags).names == ("False", "True")


def test_parquet_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    table, unused = {" arm": ["a", "b"], "reward": [1, 0], "more": [0, 0]}, list[str]()
    assert read_parquet(tmp_path, table, None, on_unused=unused.extend).names == ("a", "b")
    assert unused == ["more"]
    with (tmp_path / "log.pq").open("rb") as file:
        assert bdes.read_log(file).n_rows == 2


def test_an_open_file_is_read_and_left_open() -> None:
    file = io.BytesIO(b"arm,reward\na,1\n")
    assert bdes.read_log(file).names == ("a",)
    assert not file.closed
    with pytest.raises(bdes.InvalidValueError, match="log, line 2: a reward is 0 or 1"):
        bdes.read_log(io.BytesIO(b"arm,reward\na,2\n"))
    with pytest.raises(bdes.InvalidValueError, match="log is open as text: open it in binary mode"):
        bdes.read_log(io.StringIO("arm,reward\n0,1\n"))  # type: ignore[arg-type]


def test_progress_and_unused_columns_are_reported(tmp_path: Path) -> None:
    rows, unused, seen = "0,0,a,1,7\n" * 10, list[str](), list[float]()
    calls = {"on_unused": unused.extend, "on_progress": seen.append}
    read(tmp_path, ",arm, user ,reward,when\n" + rows, bdes.Columns(), **calls)
    assert unused == ["(unnamed)", "user", "when"]
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert len(set(seen)) >= 3


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"ad,arm,rewrad\n", r"no column 'reward'\. Did you mean 'rewrad'"),
        (b"ad;arm;rewrad\n", r"no column 'reward'\. Did you mean 'rewrad'"),
        (b"arm,arm,reward\n", "two columns 'arm'$"),
        (b"", "log.csv: is empty"),
        (b"\xef\xbb\xbf", "log.csv: is empty"),
        (b"\n\n", "log.csv: is empty"),
        (b"arm,reward\n", "log.csv: has no rows"),
        (b"\x1f\x8b\x08\x00", "cannot read .*log.csv: Compressed file ended"),
        (b"BZh91AY", "cannot read .*log.csv: Compressed file ended"),
    ],
)
def test_a_file_that_is_not_csv_is_rejected(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(bdes.InvalidValueError, match=message):
        read(tmp_path, content, None)
