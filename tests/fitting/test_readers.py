"""Logs from files: what is read, how it is sorted, and what is said about bad rows."""

import bz2
import gzip
import io
import lzma
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework.fitting import csv_rows, log_database, log_sources

COLUMNS = bdes.Columns(arm="ad", reward="click", user="user", order="time")
HEAD = "user,time,ad,click\n"
MANY = "".join(f"z,{row},a,1\n" for row in range(1000))
"""So many good rows that ten bad ones are passed over."""


def write(folder: Path, content: str | bytes, name: str = "log.csv") -> Path:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder / name


def read(
    folder: Path, content: str | bytes, columns: bdes.Columns | None = COLUMNS, **options: Any
) -> bdes.Log:
    return bdes.read_log(write(folder, content), columns, **options)


def read_parquet(
    folder: Path, table: Mapping[str, Any], columns: bdes.Columns | None = COLUMNS, **options: Any
) -> bdes.Log:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table(table), folder / "log.pq")
    return bdes.read_log(folder / "log.pq", columns, **options)


def rows_of(log: bdes.Log) -> list[list[int]]:
    return [log.arms.tolist(), log.rewards.tolist(), log.starts.tolist()]


@pytest.fixture(params=["duckdb", "python"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Read with DuckDB, and as if it were not installed."""
    engine = str(request.param)
    if engine == "python":
        monkeypatch.setattr(log_sources, "has_duckdb", lambda: False)
    return engine


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
@pytest.mark.parametrize("missing", ["", "NULL", "nan", " NaN ", "NA", "None", "  "])
def test_a_missing_reward_is_not_known(tmp_path: Path, missing: str) -> None:
    log = read(tmp_path, HEAD + f"u,1,a,1\nu,2,a,{missing}\nu,3,b,0\n", strict=True)
    assert log.rewards.tolist() == [1, bdes.UNKNOWN_REWARD, 0]


BAD = [
    ("u,2,a,2", "a reward is 0 or 1, got '2'"),
    ("u,2,a,0.5", "a reward is 0 or 1, got '0.5'"),
    ("u,2,a,maybe", "a reward is 0 or 1, got 'maybe'"),
    ("u,2,a,1_0", "a reward is 0 or 1, got '1_0'"),
    ("u,2,a,inf", "a reward is 0 or 1, got 'inf'"),
    ("u,2,a,1e-9999999999999999999", "a reward is 0 or 1, got '1e-99"),
    ("u,2,,1", "has no value in column 'ad'"),
    ("u,2,NULL,1", r"has no value in column 'ad' \('NULL'\)"),
    ("u,2, NaN ,1", r"has no value in column 'ad' \('NaN'\)"),
    (",2,a,1", "has no value in column 'user'"),
    ("None,2,a,1", r"has no value in column 'user' \('None'\)"),
    ("u,,a,1", "has no value in column 'time'"),
    ("u,nan,a,1", r"has no value in column 'time' \('nan'\)"),
    ("u,inf,a,1", "order 'inf' is no finite number"),
    ("u,1_000,a,1", "order '1_000' is no finite number"),
    ("u,later,a,1", "order 'later' is no finite number"),
    ("u,2024-01-01,a,1", "order '2024-01-01' is"),
    (f"u,2,{'x' * 201},1", "the arm's name has over 200 characters"),
    ("u,2,a", "has 3 fields where the header has 4"),
    ("u,2,a, the second,1", "has 5 fields where the header has 4"),
]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("row", "message"), BAD)
def test_a_bad_row_is_named_by_its_line(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(bdes.InvalidValueError, match=rf"^log\.csv, line 3: {message}"):
        read(tmp_path, f"{HEAD}u,1,a,1\n{row}\nu,3,a,1\nv,4,a,1\n")


@pytest.mark.parametrize(("row", "message"), BAD)
def test_a_few_bad_rows_are_passed_over(tmp_path: Path, row: str, message: str) -> None:
    bad: list[bdes.BadRows] = []
    log = read(tmp_path, f'{HEAD}{MANY}"u\n",1,a,1\n{row}\nu,3,a,1\n{row}\n', on_bad=bad.extend)
    (kind,) = bad
    assert kind.n == 2
    assert kind.where == "log.csv, line 1004"  # a name of two lines counts as two
    with pytest.raises(bdes.InvalidValueError, match=f"^{kind.where}: {message}"):
        raise bdes.InvalidValueError(f"{kind.where}: {kind.problem}")
    of_reward = "a reward is" in message
    assert kind.dropped == (not of_reward)
    assert log.n_rows == 1002 + 2 * of_reward
    assert log.n_unknown == 2 * of_reward  # the state moves all the same
    with pytest.warns(UserWarning, match="2 rows .*the first is log.csv, line 1004"):
        read(tmp_path, f'{HEAD}{MANY}"u\n",1,a,1\n{row}\nu,3,a,1\n{row}\n')
    with pytest.raises(bdes.InvalidValueError, match="of 2 bad rows, in 1,004"):
        read(tmp_path, f'{HEAD}{MANY}"u\n",1,a,1\n{row}\nu,3,a,1\n{row}\n', strict=True)


def test_kinds_of_bad_rows_are_told_in_order(tmp_path: Path) -> None:
    bad: list[bdes.BadRows] = []
    rows = ["u,1,,1", "u,2,a,5", "u,x,a,1", "u,2,a", "u,3,a,7", "u,3,b,0"]
    log = read(tmp_path, HEAD + MANY + "\n".join(rows) + "\n", on_bad=bad.extend)
    assert [(kind.n, kind.where[-4:]) for kind in bad] == [
        (1, "1002"),
        (2, "1003"),
        (1, "1004"),
        (1, "1005"),
    ]
    assert log.n_rows == 1003
    with pytest.raises(bdes.InvalidValueError, match=r"line 1002: has no value .*of 13 bad rows"):
        read(tmp_path, HEAD + MANY + "\n".join(rows + rows[:1] * 8) + "\n")


def test_a_row_of_many_kinds_counts_once(tmp_path: Path) -> None:
    columns = bdes.Columns("ad", "click", "user", "time", propensity="p", strata="s")
    good = [f"v{row % 9},{row},a,{row % 2},0.5,day" for row in range(98)]
    text = "\n".join([HEAD.strip() + ",p,s", *good, ",,,,,", "None,x, NA ,7,2,"]) + "\n"
    bad: list[bdes.BadRows] = []
    with pytest.raises(bdes.InvalidValueError, match="of 2 bad rows, in 100, and at most 1 %"):
        read(tmp_path, text, columns)
    more = "".join(f'w,{row},b,1,1,"night"\n' for row in range(100))
    log = read(tmp_path, text + more, columns, on_bad=bad.extend)
    assert log.n_rows == 198
    assert sum(kind.n for kind in bad) > 6
    with pytest.raises(bdes.InvalidValueError, match="of 3 bad rows, in 201"):
        read(tmp_path, text + more + "u,1,a,maybe,1,day\n", columns)
    with pytest.raises(bdes.InvalidValueError, match="of 3 bad rows, in 201"):
        read(tmp_path, text + more + "u,1,a\n", columns)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("u,soon,a,1\n", "line 2: order 'soon' is no number and no ISO 8601 moment"),
        ("u,2024-01-01,a,1\nu,2024-01-02,a,1\nu,7,a,1\n", "line 4: order '7' is no ISO 8601"),
        ("u,2024-02-31,a,1\nu,2024-01-02,a,1\n", "line 2: order '2024-02-31' is no ISO 8601"),
        (
            "u,2024-01-01T00:00Z,a,1\nu,2024-01-01T00:00Z,a,1\nu,2024-01-02,a,1\n",
            "line 4: order '2024-01-02' has no time zone, and most have one",
        ),
        (
            "u,2024-01-01,a,1\nv,2024-01-01T00:00,a,1\nv,2024-01-01T00:00+01:00,a,1\n",
            "line 4: .* has a time zone, and most have none",
        ),
        ("u,2024-01-01T00:00:00.0000000001,a,1\n", "line 2: .* is no number and no ISO 8601"),
        (
            "".join(f"u,{i},arm{i},1\n" for i in range(1001)),
            "line 1002: over 1,000 arms, .* is 'ad' the arm's column",
        ),
        ("".join(f"u,{i},a,{i}\n" for i in range(10_001)), "is 'click' the reward's column"),
        (
            "".join(f"u,{i},{'x' * 201}{i},1\n" for i in range(10_001)),
            "over 1,000 arms, .* is 'ad' the arm's column",
        ),
        ('u,1,"a,1\nu,2,b,1\n' + MANY, "line 2: is not CSV: a quote is not closed"),
        ("", "has no rows"),
    ],
)
def test_a_whole_column_may_be_wrong(tmp_path: Path, rows: str, message: str) -> None:
    with pytest.raises(bdes.InvalidValueError, match=message):
        read(tmp_path, HEAD + rows)


@pytest.mark.parametrize("value", ["0", "-0.5", "1.01", "nan", "", "x", "1_0", "inf"])
@pytest.mark.usefixtures("engine")
def test_bad_propensities_are_named(tmp_path: Path, value: str) -> None:
    columns = bdes.Columns(propensity="p")
    with pytest.raises(bdes.InvalidValueError, match=r"line 3: (a propensity is|has no value in)"):
        read(tmp_path, f"arm,reward,p\na,1,0.5\na,0,{value}\n", columns)
    with pytest.raises(bdes.InvalidValueError, match="line 2: has no value in column 'p'"):
        read(tmp_path, "arm,reward,p\na,1,NA\n", bdes.Columns(strata="p"))


FIRST_BAD = [
    (b"u,3,a,x", "a reward is 0 or 1"),
    (b"u,3,,1", "has no value in column 'ad'"),
    (b"u,y,a,1", "is no finite number"),
    (b"u,3,a", "has 3 fields"),
    (b"u,3,\xe9,1", "is not UTF-8"),
    (b",3,a,1", "has no value in column 'user'"),
]


@pytest.mark.parametrize(("first", "message"), FIRST_BAD)
@pytest.mark.parametrize("second", [row for row, _ in FIRST_BAD])
def test_of_two_bad_lines_the_first_is_named(
    tmp_path: Path, first: bytes, second: bytes, message: str
) -> None:
    good = [b"t,1,a,1", b"u,1,a,0", b"u,2,b,1"]
    rows = [HEAD.encode().strip(), *good, first, b"v,1,a,1", b"w,1,b,0", second, b"x,1,a,1"]
    with pytest.raises(bdes.InvalidValueError, match=f"line 5: .*{message}") as caught:
        read(tmp_path, b"\n".join(rows) + b"\n")
    # What one value can tell of is one kind; others are told too.
    assert "2 bad rows" in str(caught.value)


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


def test_a_missing_file_or_empty_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(bdes.InvalidValueError, match=r"cannot read .*/log\.csv: No such file"):
        bdes.read_log(tmp_path / "log.csv")
    with pytest.raises(bdes.InvalidValueError, match=r"no files that end in \.parquet or \.csv"):
        bdes.read_log(tmp_path)
    write(tmp_path, b"", "results.sqlite")
    with pytest.raises(bdes.InvalidValueError, match=r"is a run .*'bdes export .* --log --out"):
        bdes.read_log(tmp_path)


TEXT = HEAD + "u,1,a,1\nu,2,b,0\nv,1,é,1\n"


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_files_are_read(tmp_path: Path, pack: Any) -> None:
    plain = read(tmp_path, TEXT)
    log = bdes.read_log(write(tmp_path, pack(TEXT.encode()), "log.csv.packed"), COLUMNS)
    assert (rows_of(log), log.names) == (rows_of(plain), plain.names)
    assert rows_of(bdes.read_log(io.BytesIO(pack(TEXT.encode())), COLUMNS)) == rows_of(plain)
    bad = write(tmp_path, pack((TEXT + "v,3,a,x\n").encode()), "bad")
    with pytest.raises(bdes.InvalidValueError, match="bad, line 5: a reward is 0 or 1"):
        bdes.read_log(bad, COLUMNS)


def test_zstd_is_read(tmp_path: Path) -> None:
    file = tmp_path / "log.csv.zst"
    duckdb.connect().execute(
        f"COPY (SELECT * FROM (VALUES ('u', 1, 'a', 1), ('u', 2, 'b', 0), ('v', 1, 'é', 1))"
        f" AS t (\"user\", time, ad, click)) TO '{file}' (FORMAT csv, COMPRESSION zstd)"
    )
    assert rows_of(bdes.read_log(file, COLUMNS)) == rows_of(read(tmp_path, TEXT))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("encoding", "given"),
    [("utf-8-sig", "utf-8"), ("utf-16", "utf-8"), ("utf-16-le", "utf-16-le"), ("latin-1",) * 2],
)
def test_other_encodings_are_read(tmp_path: Path, encoding: str, given: str) -> None:
    log = read(tmp_path, TEXT.encode(encoding), encoding=given)
    assert log.names == ("a", "b", "é")
    assert rows_of(log) == rows_of(read(tmp_path, TEXT))


@pytest.mark.usefixtures("engine")
def test_a_wrong_encoding_is_told(tmp_path: Path) -> None:
    with pytest.raises(bdes.InvalidValueError, match=r"(is not UTF-8|is not utf-8)"):
        read(tmp_path, TEXT.encode("latin-1"))
    with pytest.raises(bdes.InvalidValueError, match="there is no encoding 'klingon'"):
        read(tmp_path, TEXT, encoding="klingon")
    with pytest.raises(bdes.InvalidValueError, match=r"log\.csv is not ascii"):
        read(tmp_path, TEXT, encoding="ascii")


def test_folders_are_read_file_by_file(tmp_path: Path) -> None:
    whole = read(tmp_path, HEAD + "u,1,a,1\nv,1,b,0\nu,2,b,1\nv,2,a,0\n")
    folder = tmp_path / "log"
    folder.mkdir()
    write(folder, HEAD + "u,1,a,1\nv,1,b,0\n", "1.csv")
    write(folder, gzip.compress(b"click,ad,time,user\n1,b,2,u\n0,a,2,v\n"), "2.csv.gz")
    write(folder, "not one of them", "_SUCCESS")
    write(folder, "nor this", ".hidden.csv")
    assert rows_of(bdes.read_log(folder, COLUMNS)) == rows_of(whole)
    write(folder, HEAD + "u,3,a,1\nv,3,b,9\n", "3.csv")
    with pytest.raises(bdes.InvalidValueError, match=r"^3\.csv, line 3: a reward is 0 or 1"):
        bdes.read_log(folder, COLUMNS)
    write(folder, "user,ad,click\nu,a,1\n", "3.csv")
    with pytest.raises(bdes.InvalidValueError, match=r"^3\.csv: has no column 'time'"):
        bdes.read_log(folder, COLUMNS)


def test_numbered_files_are_read_in_order(tmp_path: Path) -> None:
    for number in (10, 2, 0, 1):
        write(tmp_path, f"arm,reward\na{number},1\n", f"part-{number}.csv")
    log = bdes.read_log(tmp_path)
    assert [log.names[arm] for arm in log.arms] == ["a0", "a1", "a2", "a10"]


def test_a_folder_of_two_kinds_is_rejected(tmp_path: Path) -> None:
    write(tmp_path, "arm,reward\na,1\n", "a.csv")
    table = f"COPY (SELECT 'b' AS arm, 1 AS reward) TO '{tmp_path}/b.parquet'"
    with duckdb.connect() as connection:
        connection.execute(table)
    with pytest.raises(bdes.InvalidValueError, match=r"such as 'b\.parquet' and 'a\.csv'"):
        bdes.read_log(tmp_path)
    (tmp_path / "a.csv").rename(tmp_path / "_a.csv")
    assert bdes.read_log(tmp_path).names == ("b",)


def test_names_of_folders_are_columns(tmp_path: Path) -> None:
    for day, ad in (("2024-01-02", "b"), ("2024-01-01", "a%2Fc")):
        folder = tmp_path / "log [1]*" / f"day={day}" / f"ad={ad}"
        folder.mkdir(parents=True)
        table = f"SELECT 'u' || i AS user, {len(ad)} % 2 AS click FROM range(2) AS t (i)"
        duckdb.connect().execute(f"COPY ({table}) TO '{folder}/part.parquet' (FORMAT parquet)")
    columns = bdes.Columns(arm="ad", reward="click", user="user", order="day")
    log = bdes.read_log(tmp_path / "log [1]*", columns)
    assert log.names == ("a/c", "b")
    assert rows_of(log) == [[0, 1, 0, 1], [1, 1, 1, 1], [0, 2]]


def test_paths_and_headings_are_no_sql(tmp_path: Path) -> None:
    name = "it's [a-z]?*'; DROP TABLE raw; --.csv"
    heading = 'ad"; DROP TABLE raw; --'
    text = f'"{heading.replace(chr(34), chr(34) * 2)}",reward\n"\'; DROP TABLE raw",1\nb,0\n'
    log = bdes.read_log(write(tmp_path, text, name), bdes.Columns(arm=heading))
    assert log.names == ("'; DROP TABLE raw", "b")
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({heading: ["a", "b"], "reward": [1, 0]}), tmp_path / "o'ne[1].parquet")
    assert bdes.read_log(tmp_path / "o'ne[1].parquet", bdes.Columns(arm=heading)).n_rows == 2


@pytest.mark.parametrize(
    ("roles", "other"), [({"arm": "ad", "user": "ad"}, "user"), ({"reward": " arm"}, "reward")]
)
def test_a_column_has_one_role(roles: dict[str, str], other: str) -> None:
    with pytest.raises(bdes.InvalidValueError, match=f"cannot be both the arm and the {other}"):
        bdes.Columns(**roles)


@pytest.mark.parametrize("n_rows", [5000, 50])
def test_a_full_disk_is_reported(tmp_path: Path, n_rows: int) -> None:
    resource = pytest.importorskip("resource")
    file = write(tmp_path, "arm,reward\n" + "0,1\n" * n_rows)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(bdes.InvalidValueError, match=r"keep .*: File too large; set TMPDIR"):
            bdes.read_log(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_no_temporary_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(bdes.InvalidValueError, match=r"cannot keep the rows in .*nowhere: No such"):
        bdes.read_log(io.BytesIO(b"arm,reward\na,1\n"))


def test_temporary_files_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "private").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "private"))
    log = read(tmp_path, TEXT)
    with pytest.raises(bdes.InvalidValueError):
        read(tmp_path, TEXT + "u,3,a,9\n")
    assert not list((tmp_path / "private").iterdir())
    assert log.totals()[1].tolist() == [1, 0, 1]


def test_without_duckdb_only_sorted_csv_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_sources, "has_duckdb", lambda: False)
    hint = r"pip install 'bdes-framework\[logs\]'"
    for rows in ("u,1,a,1\nv,1,a,1\nu,2,a,0\n", "u,1,a,1\nu,2,a,1\nu,1,a,0\n"):
        with pytest.raises(bdes.InvalidValueError, match=f"log.csv, line 4: .*{hint}"):
            read(tmp_path, HEAD + rows)
    assert csv_rows.sorted_csv(write(tmp_path, TEXT), "log", COLUMNS, "utf-8", None).bad == []
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    shutil.copy(write(tmp_path, b"PAR1"), tmp_path / "log.parquet")
    with pytest.raises(bdes.InvalidValueError, match=f"log.parquet needs DuckDB.*{hint}"):
        bdes.read_log(tmp_path / "log.parquet", COLUMNS)


@pytest.mark.parametrize("at", [0.01, 0.5, 0.9])
def test_an_interrupted_reading_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: float
) -> None:
    def interrupt(done: float) -> None:
        if done >= at:
            raise KeyboardInterrupt

    (tmp_path / "private").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "private"))
    with pytest.raises(KeyboardInterrupt):
        read(tmp_path, HEAD + MANY, on_progress=interrupt)
    assert not list((tmp_path / "private").iterdir())
    assert read(tmp_path, HEAD + MANY).n_rows == 1000


def test_a_log_larger_than_the_memory_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_database, "_MEMORY", 32 << 20)
    file = tmp_path / "log.parquet"
    table = (
        "SELECT hash(i) % 5000 AS user, i AS time, 'a' || i % 3 AS ad, i % 2 AS click, "
        "0.5 AS p FROM range(500000) AS t (i)"
    )
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({table}) TO '{file}' (FORMAT parquet)")
        ((first,),) = connection.execute("SELECT hash(0) % 5000").fetchall()
        query = f"SELECT i % 3 FROM range(500000) AS t (i) WHERE hash(i) % 5000 = {first}"
        expected = [arm for (arm,) in connection.execute(query).fetchall()]
    columns = bdes.Columns("ad", "click", "user", "time", "p")
    log = bdes.read_log(file, columns)
    assert (log.n_rows, log.n_sequences) == (500_000, 5000)
    assert log.arms[: log.starts[1]].tolist() == expected


def test_errors_do_not_tell_passwords() -> None:
    with pytest.raises(bdes.InvalidValueError, match=r"mysql://ann:\*\*\*@host/shop") as raised:
        bdes.read_log("mysql://ann:secret@host/shop")
    assert "secret" not in str(raised.value)
    assert raised.value.__suppress_context__
