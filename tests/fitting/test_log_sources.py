"""Where logs come from: packed files, encodings, folders; and disks and memory that end."""

import bz2
import gzip
import io
import lzma
import shutil
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pytest

import bdes_framework as bdes
from bdes_framework.fitting import csv_rows, log_database, log_sources
from tests.support.log_files import COLUMNS, HEAD, MANY, read, rows_of, write


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
