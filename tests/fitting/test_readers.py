"""Logs from files: what is read, and what is rejected, with its line."""

import io
import tempfile
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework.fitting import readers

COLUMNS = bdes.Columns(arm="ad", reward="click", user="user", order="time")
HEAD = "user,time,ad,click\n"


@pytest.fixture(params=[1, 3, 1000])
def chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "CSV_CHUNK", request.param)


def read(
    folder: Path, content: str | bytes, columns: bdes.Columns | None = COLUMNS, **options: Any
) -> bdes.Log:
    data = content.encode() if isinstance(content, str) else content
    (folder / "log.csv").write_bytes(data)
    return bdes.read_log(folder / "log.csv", columns, **options)


def read_parquet(
    folder: Path, table: Mapping[str, Any], columns: bdes.Columns | None = COLUMNS, **options: Any
) -> bdes.Log:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table(table), folder / "log.pq")
    return bdes.read_log(folder / "log.pq", columns, **options)


def rows_of(log: bdes.Log) -> list[list[int]]:
    return [log.arms.tolist(), log.rewards.tolist(), log.starts.tolist()]


def test_users_are_sequences_arms_sorted_by_name(tmp_path: Path) -> None:
    log = read(tmp_path, HEAD + "u2,1,b,0\nu2,2,a,1\nu1,1,10,1\nu1,5,9,0\n")
    assert log.names == ("9", "10", "a", "b")
    assert rows_of(log) == [[3, 2, 1, 0], [0, 1, 1, 0], [0, 2]]
    # Rows are mapped into memory, not copied.
    assert isinstance(log.arms.base, np.memmap)
    assert np.shares_memory(log.first(1).rewards, log.rewards)


def test_chunks_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    places = product(range(9), range(11))
    rows = [f"{user},{time},x{rng.integers(5)},{rng.integers(2)}" for user, time in places]
    text = HEAD + "\n".join(rows) + "\n"
    whole = read(tmp_path, text)
    assert whole.starts.tolist() == list(range(0, 99, 11))
    for size in (1, 2, 7, 50):
        monkeypatch.setattr(readers, "CSV_CHUNK", size)
        assert rows_of(read(tmp_path, text)) == rows_of(whole)


def test_without_users_a_file_is_one_sequence(tmp_path: Path) -> None:
    log = read(tmp_path, "arm,reward,more\n0,1,x\n1,0,y\n", bdes.Columns())
    assert (log.n_sequences, log.n_rows, log.names) == (1, 2, ("0", "1"))


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + HEAD + "u,1,a,1\nu,2,a,0\n",  # a byte-order mark
        HEAD.replace("\n", "\r\n") + "u,1,a,1\r\nu,2,a,0\r\n\r\n",  # DOS, and a blank line
        HEAD + '"u","1","a","1"\n"u","2","a","0"\n',
        HEAD + "u,1.5,a,true\nu,2.5,a,False\n",
        HEAD + "u,1.5,a,1.0\nu,2,a,0.0\n",
        HEAD + "u,1.5,a,1.00\nu,2,a,0e0\n",
        HEAD + "u,0.1234567890123456788,a,1\nu,0.1234567890123456789,a,0\n",  # as floats, the same
        HEAD + "u,9007199254740992,a,1\nu,9007199254740992.5,a,0\n",
        HEAD.replace(",", " ,\t") + 'u, 1, "a", 1\nu, 2, "a", 0\n',
        HEAD + "u,2024-01-01T00:00:00Z,a,1\nu,2024-01-01 00:00:01+00:00,a,0\n",
        HEAD + "u,1700000000000000000,a,1\nu,1700000000000000001,a,0\n",  # nanoseconds
        HEAD + "u,2024-01-01T00:00:00.123456788,a,1\nu,2024-01-01T00:00:00.123456789,a,0\n",
        HEAD + "u,2024-01-01T00:00:00.123456789Z,a,1\nu,2024-01-01T00:00:00.12345679Z,a,0\n",
        HEAD + "u,2024-01-01T00:00Z,a,1\nu,9999-01-01T00:00Z,a,0\n",
    ],
)
def test_files_as_tools_write_them_are_read(tmp_path: Path, text: str) -> None:
    log = read(tmp_path, text)
    assert log.names == ("a",)
    assert log.rewards.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("u,1,a,1\nu,3,a,0\nu,2,a,1\n", "line 4: order '2' comes after a later one"),
        ("u,1,a,1\nu,1,a,1\n", "line 3: order '1' is there twice"),
        ("u,1,a,1\nv,1,a,1\nu,2,a,1\n", "line 4: this user had rows before"),
        ("u,1,a,1\nu,2,a,2\n", "line 3: a reward is 0 or 1, got '2'"),
        ("u,1,a,0.5\n", "line 2: a reward is 0 or 1"),
        ("u,1,a,1\nu,2,a,\n", "line 3: has no value in column 'click'$"),
        ("u,1,,1\n", "line 2: has no value in column 'ad'$"),
        (",1,a,1\n", "line 2: has no value in column 'user'$"),
        ("u,,a,1\n", "line 2: has no value in column 'time'$"),
        ("u,1,a,1\nu,2,a\n", "line 3: has 3 fields where the header has 4"),
        ("u,1,a,1\nu,2,a, the second,1\n", "line 3: has 5 fields where the header has 4"),
        ('u,1,"a\nb",1\nu,0,a,1\n', "line 4: order '0' comes after"),  # a name of two lines
        ("u,1,a,1\nu,inf,a,1\n", "line 3: order 'inf' is no finite number"),
        ("u,1,a,1\nu,nan,a,1\n", r"line 3: has no value in column 'time' \('nan'\)"),
        ("u,1,a,1\nu,2,NULL,1\n", r"line 3: has no value in column 'ad' \('NULL'\)"),
        ("u,1,a,1\nu,2, NaN ,1\n", "line 3: has no value in column 'ad'"),
        ("u,1,a,1\nu,2,  ,1\n", "line 3: has no value in column 'ad'"),
        ("u,1,a,1\nNone,2,a,1\n", "line 3: has no value in column 'user'"),
        ("u,1,a,1\nu,2,a,nan\n", "line 3: has no value in column 'click'"),
        ("u,1.5,a,1\nu,2.5,a,1\nu,2,a,1\n", "line 4: order '2' comes after a later one"),
        ("u,2.5,a,1\nu,2,a,1\n", "line 3: order '2' comes after a later one"),
        ("u,99999999999999999999,a,1\nu,99999999999999999998,a,1\n", "line 3: order"),
        (
            "u,2024-01-01T00:00:00.000000002,a,1\nu,2024-01-01T00:00:00.000000001,a,1\n",
            "line 3: order '2024-01-01T00:00:00.000000001' comes after",
        ),
        ("u,2024-01-01T00:00:00.0000000001,a,1\n", "line 2: .* finer than nanoseconds"),
        (
            "u,2024-01-01T00:00Z,a,1\nu,2024-01-02,a,1\n",
            "line 3: order '2024-01-02' has no time zone, and the first has one",
        ),
        (
            "u,2024-01-01,a,1\nv,2024-01-01T00:00+01:00,a,1\n",
            "line 3: .* has a time zone, and the first has none",
        ),
        ("u,0.1,a,1\nu,0.10,a,1\n", "line 3: order '0.10' is there twice"),
        ("u,1,a,1\nu,1_000,a,1\n", "line 3: order '1_000' is no finite number"),
        ("u,1_000,a,1\n", "line 2: order '1_000' is no number and no ISO"),
        ("u,1,a,1_0\n", "line 2: a reward is 0 or 1, got '1_0'"),
        ("u,1,a,1e-9999999999999999999\n", "line 2: a reward is 0 or 1, got '1e-99"),
        ("u,1,a,1\nu,1e-9999999999999999999,a,1\n", "line 3: order '1e-9.*is no finite number"),
        ("u,soon,a,1\n", "line 2: order 'soon' is no number and no ISO 8601 moment"),
        ("u,1,a,1\nu,later,a,1\n", "line 3: order 'later' is no finite number"),
        ("u,2024-01-01,a,1\nu,7,a,1\n", "line 3: order '7' is no number and no ISO"),
        (f"u,1,{'x' * 201},1\n", "line 2: the arm's name has over 200 characters"),
        (
            "".join(f"u,{i},arm{i},1\n" for i in range(1001)),
            "line 1002: over 1,000 arms, .* is 'ad' the arm's column",
        ),
        ('u,1,"a,1\n', "is not CSV"),
        ("", "has no rows"),
    ],
)
@pytest.mark.usefixtures("chunks")
def test_a_bad_row_is_named_by_its_line(tmp_path: Path, rows: str, message: str) -> None:
    with pytest.raises(bdes.InvalidValueError, match=message):
        read(tmp_path, HEAD + rows)


FIRST_BAD = [
    (b"u,3,a,x", "a reward is 0 or 1"),
    (b"u,3,,1", "has no value in column 'ad'"),
    (b"u,0,a,1", "comes after a later one"),
    (b"u,3,a", "has 3 fields"),
    (b"u,3,\xe9,1", "is not UTF-8"),
    (b",3,a,1", "has no value in column 'user'"),
    (b"t,3,a,1", "this user had rows before"),
]


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize(("first", "message"), FIRST_BAD)
@pytest.mark.parametrize("second", [row for row, _ in FIRST_BAD])
def test_of_two_bad_lines_the_first_is_named(
    tmp_path: Path, first: bytes, second: bytes, message: str
) -> None:
    good = [b"t,1,a,1", b"u,1,a,0", b"u,2,b,1"]
    rows = [HEAD.encode().strip(), *good, first, b"v,1,a,1", b"w,1,b,0", second, b"x,1,a,1"]
    with pytest.raises(bdes.InvalidValueError, match=f"line 5: .*{message}"):
        read(tmp_path, b"\n".join(rows) + b"\n")


def test_white_space_around_cells_is_removed(tmp_path: Path) -> None:
    log = read(tmp_path, HEAD + "u , 1, a, 1\nu,2,a ,0\n u,3,\ta, 1 \nv, 1,b, 0\n")
    assert log.names == ("a", "b")
    assert rows_of(log) == [[0, 0, 0, 1], [1, 0, 1, 0], [0, 3]]


def test_parquet_says_the_same_as_csv(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    csv_log = read(tmp_path, HEAD + "u,1,a,1\nu,2,b,0\nv,1,b,1\n")
    columns = {"user": ["u", "u", "v"], "ad": ["a", "b", "b"], "click": [True, False, True]}
    for order in ([1, 2, 1], pa.array([1, 2, 1], pa.timestamp("ns")), [0.1, 0.2, 0.1]):
        assert rows_of(read_parquet(tmp_path, {**columns, "time": order})) == rows_of(csv_log)
    for order, message in (
        ([1, None, 1], "row 2: has no value in column 'time'"),
        ([0.5, float("nan"), 1], "row 2: has no value in column 'time'"),
        ([2, 1, 1], "row 2: order 1 comes after"),
    ):
        with pytest.raises(bdes.InvalidValueError, match=message):
            read_parquet(tmp_path, {**columns, "time": order})
    (tmp_path / "log.parquet").write_text("nonsense")
    with pytest.raises(bdes.InvalidValueError, match="is not a Parquet file"):
        bdes.read_log(tmp_path / "log.parquet", COLUMNS)


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


def test_progress_and_unused_columns_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "CSV_CHUNK", 2)
    rows, unused, seen = "0,0,a,1,7\n" * 10, list[str](), list[float]()
    calls = {"on_unused": unused.extend, "on_progress": seen.append}
    read(tmp_path, ",arm, user ,reward,when\n" + rows, None, **calls)
    assert unused == ["(unnamed)", "user", "when"]
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"ad,arm,rewrad\n", r"no column 'reward'\. Did you mean 'rewrad'"),
        (b"arm,arm,reward\n", "two columns 'arm'$"),
        (b"arm,reward\n\xe9,1\n", "line 2: is not CSV: it is not UTF-8"),
        (b"", "log.csv: is empty"),
        (b"\xef\xbb\xbf", "log.csv: is empty"),
        (b"\n\n", "log.csv: is empty"),
        (b"arm;reward\n0;1\n", "only heading is 'arm;reward': is the file separated by ';'"),
        (b"arm\treward\n0\t1\n", r"is the file separated by '\\t'"),
        (b"\x1f\x8b\x08\x00", "log.csv is compressed: pipe it through zcat into 'bdes fit -'"),
        (b"BZh91AY", "log.csv is compressed: pipe it through bzcat into 'bdes fit -'"),
    ],
)
def test_a_file_that_is_not_csv_is_rejected(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(bdes.InvalidValueError, match=message):
        read(tmp_path, content, None)


def test_a_missing_file_or_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(bdes.InvalidValueError, match=r"cannot read .*/log\.csv: No such file"):
        bdes.read_log(tmp_path / "log.csv")
    with pytest.raises(bdes.InvalidValueError, match="it is a folder, not a file"):
        bdes.read_log(tmp_path)


@pytest.mark.parametrize(
    ("roles", "other"), [({"arm": "ad", "user": "ad"}, "user"), ({"reward": " arm"}, "reward")]
)
def test_a_column_has_one_role(roles: dict[str, str], other: str) -> None:
    with pytest.raises(bdes.InvalidValueError, match=f"cannot be both the arm and the {other}"):
        bdes.Columns(**roles)


def test_a_full_disk_is_reported() -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, before[1]))  # in the midst of a chunk
    try:
        with pytest.raises(bdes.InvalidValueError, match=r"keep .*: File too large; set TMPDIR"):
            bdes.read_log(io.BytesIO(b"arm,reward\n" + b"0,1\n" * 5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_no_temporary_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(bdes.InvalidValueError, match=r"cannot keep the rows in .*nowhere: No such"):
        bdes.read_log(io.BytesIO(b"arm,reward\na,1\n"))


def test_users_of_one_hash_are_still_two(tmp_path: Path) -> None:
    table = {"user": [-1, -1, -2, -2], "time": [1, 2, 1, 2], "ad": [0, 1, 0, 1]}
    assert hash(-1) == hash(-2)
    assert read_parquet(tmp_path, {**table, "click": [1, 0, 1, 0]}).starts.tolist() == [0, 2]
