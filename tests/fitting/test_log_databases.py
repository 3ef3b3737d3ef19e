"""Logs from databases, by a query: DuckDB, SQLite, PostgreSQL; and what a query may not do."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

import bdes_framework as bdes
from bdes_framework.fitting.log_database import LogDatabase, sql_name, sql_text
from tests.support.postgres import BINARIES, postgres

COLUMNS = bdes.Columns(arm="ad", reward="click", user="user", order="time")
ROWS = [("u2", 1, "b", 0), ("u1", 5, "10", 1), ("u2", 3, "a", None), ("u1", 1, "9", 1)]
EXPECTED = [[3, 2, 0, 1], [0, bdes.UNKNOWN_REWARD, 1, 1], [0, 2]]
QUERY = 'SELECT who AS "user", time, ad, click FROM shown'


def rows_of(log: bdes.Log) -> list[list[int]]:
    return [log.arms.tolist(), log.rewards.tolist(), log.starts.tolist()]


@pytest.fixture
def of_duckdb(tmp_path: Path) -> Path:
    file = tmp_path / "it's [1].db"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE shown (who TEXT, time BIGINT, ad TEXT, click BOOLEAN)")
        connection.executemany("INSERT INTO shown VALUES (?, ?, ?, ?)", ROWS)
    return file


@pytest.fixture
def of_sqlite(tmp_path: Path) -> Path:
    file = tmp_path / "it's #1?.db"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE shown (who, time, ad, click)")
        connection.executemany("INSERT INTO shown VALUES (?, ?, ?, ?)", ROWS)
    return file


@pytest.mark.parametrize("kind", ["of_duckdb", "of_sqlite"])
def test_a_query_yields_a_log(kind: str, request: pytest.FixtureRequest) -> None:
    file, unused = request.getfixturevalue(kind), list[str]()
    for query in (
        f"{QUERY};",
        f"{QUERY} -- all of them",
        "SELECT 7 AS more, q.* FROM (" + QUERY + ") q",
    ):
        log = bdes.read_log(file, COLUMNS, on_unused=unused.extend, query=query)
        assert log.names == ("9", "10", "a", "b")
        assert rows_of(log) == EXPECTED
    assert unused == ["more"]
    with pytest.raises(bdes.InvalidValueError, match="is a database: give a query"):
        bdes.read_log(file, COLUMNS)
    with pytest.raises(bdes.InvalidValueError, match="row 3: has no value in column 'click'"):
        bdes.read_log(file, bdes.Columns("click", "ad"), query="SELECT click, 1 AS ad FROM shown")
    with pytest.raises(bdes.InvalidValueError, match="has no column 'time'"):
        bdes.read_log(file, COLUMNS, query='SELECT who AS "user", ad, click FROM shown')


def test_no_row_of_a_query_is_lost(tmp_path: Path) -> None:
    file, columns = tmp_path / "shop.db", bdes.Columns(arm="ad", reward="click", user="who")
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE shown (payload, who, ad, click)")
        rows = [["x" * (3 << 20) * (row in (7, 9)), f"u{row % 20}", "a", 1] for row in range(300)]
        connection.executemany("INSERT INTO shown VALUES (?, ?, ?, ?)", rows)
    unused, query = list[str](), "SELECT * FROM shown"
    log = bdes.read_log(file, columns, on_unused=unused.extend, query=query)
    assert (log.n_rows, log.n_sequences, unused) == (300, 20, ["payload"])
    columns = bdes.Columns(arm="ad", reward="click", user="payload")
    with pytest.raises(bdes.InvalidValueError, match=r"shop\.db, row 8: cannot be .* too long"):
        bdes.read_log(file, columns, query=query)


@pytest.mark.parametrize("kind", ["of_duckdb", "of_sqlite"])
@pytest.mark.parametrize(
    "query",
    [
        "DROP TABLE shown",
        "SELECT 1; DROP TABLE shown",
        "INSERT INTO shown VALUES ('x', 1, 'a', 1)",
        "COPY shown TO 'out.csv'",
        "ATTACH 'other.db' AS other",
        "SELECT * FROM nothing",
        "SELEC",
        "",
    ],
)
def test_a_query_changes_nothing(
    kind: str,
    query: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    file = request.getfixturevalue(kind)
    before, files = file.read_bytes(), sorted(tmp_path.iterdir())
    with pytest.raises(bdes.InvalidValueError):
        bdes.read_log(file, COLUMNS, query=query)
    assert file.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == files


@pytest.mark.parametrize(
    "source",
    ["read_text('{other}')", "read_csv('{other}')", "read_csv('http://127.0.0.1:9/x.csv')"],
)
def test_a_query_reads_no_other_file(of_duckdb: Path, tmp_path: Path, source: str) -> None:
    other = tmp_path / "other.csv"
    other.write_text("user,time,ad,click\nu,1,a,1\n")
    with pytest.raises(bdes.InvalidValueError, match="Permission Error"):
        bdes.read_log(of_duckdb, COLUMNS, query=f"SELECT * FROM {source.format(other=other)}")


def test_a_query_needs_a_database(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("arm,reward\na,1\n")
    for path in (tmp_path, tmp_path / "log.csv"):
        with pytest.raises(bdes.InvalidValueError, match="is no database: a query needs one"):
            bdes.read_log(path, query="SELECT 1")


def test_the_database_is_shut_off(tmp_path: Path) -> None:
    with LogDatabase(tmp_path, "log") as database:
        database.lock()
        for statement in (
            "SET enable_external_access = true",
            "INSTALL httpfs",
            "LOAD httpfs",
            "SELECT * FROM glob('/*')",
        ):
            with pytest.raises(bdes.InvalidValueError, match="cannot read log"):
                database.rows(statement)
    assert sql_text("it's") == "'it''s'"
    assert sql_name('a "b"') == '"a ""b"""'


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    if not BINARIES:
        pytest.skip("PostgreSQL is not installed")
    pytest.importorskip("psycopg")
    with postgres() as found:
        yield found


def test_postgres_yields_the_same_log(address: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    start = datetime(2024, 1, 1, tzinfo=UTC)
    rows = [
        (who, start + timedelta(days=time), ad, None if click is None else click == 1)
        for who, time, ad, click in ROWS
    ]
    with psycopg.connect(address) as connection:
        connection.execute(
            "CREATE TABLE shown (who text, time timestamptz, ad text, click boolean)"
        )
        connection.cursor().executemany("INSERT INTO shown VALUES (%s, %s, %s, %s)", rows)
    log = bdes.read_log(address, COLUMNS, query=QUERY)
    assert rows_of(log) == EXPECTED
    with pytest.raises(bdes.InvalidValueError, match="is a database: give a query"):
        bdes.read_log(address, COLUMNS)
    for query in ("DROP TABLE shown", "SELECT * FROM nothing", "DELETE FROM shown RETURNING *"):
        with pytest.raises(bdes.InvalidValueError, match="the query failed"):
            bdes.read_log(address, COLUMNS, query=query)
    assert rows_of(bdes.read_log(address, COLUMNS, query=QUERY)) == EXPECTED
    with pytest.raises(bdes.InvalidValueError, match="the query failed"):
        bdes.read_log("postgresql://nobody@127.0.0.1:1/none", COLUMNS, query=QUERY)
