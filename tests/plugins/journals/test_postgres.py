"""The journal in PostgreSQL: the contract, lost connections, roles, damage, passwords."""

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from typing import Any
from unittest import SkipTest

import pytest

import bdes_framework as bdes
import bdes_framework.testing as kit
from bdes_framework.live.export import journal_log
from bdes_journals import postgres
from bdes_journals.postgres import PostgresConfig, PostgresJournal
from tests.support.cutting_proxy import cutting_proxy
from tests.support.journals import endless, story
from tests.support.postgres import PostgresServer

PLUGINS = bdes.load_plugins()
CHECKS = [check.name for check in kit.journal_checks("postgres", plugins=PLUGINS)]
SCHEMAS = (f"test_{number}" for number in count())

Make = Callable[[str], PostgresJournal]


@pytest.fixture
def make(server: PostgresServer) -> Iterator[Make]:
    """Return what builds journals for one schema, at an address."""
    schema, made = next(SCHEMAS), list[PostgresJournal]()

    def build(address: str = "") -> PostgresJournal:
        made.append(PostgresJournal(PostgresConfig(address or server.address, schema)))
        return made[-1]

    yield build
    for journal in made:
        journal.close()


@pytest.fixture
def journal(make: Make) -> PostgresJournal:
    made = make("")
    made.create("{}")
    append(made, 6)
    return made


def append(journal: bdes.Journal, n: int) -> None:
    with journal.turn() as turn:
        events = endless(turn.n_events)
        turn.append([next(events) for _ in range(n)])


def holds(journal: bdes.Journal, n: int) -> bool:
    events = endless(0)
    return list(journal.read()) == [next(events) for _ in range(n)]


def sql(server: PostgresServer, journal: PostgresJournal, statement: str) -> list[Any]:
    """Run a statement on another connection; ``{s}`` is the journal's schema."""
    import psycopg

    with psycopg.connect(server.address, autocommit=True) as connection:
        cursor = connection.execute(statement.format(s=journal._config.schema).encode())
        return cursor.fetchall() if cursor.description else []


def end_connection(server: PostgresServer, journal: PostgresJournal) -> None:
    pid = journal._server.connection.info.backend_pid
    assert sql(server, journal, f"SELECT pg_terminate_backend({pid}, 5000)") == [(True,)]


@pytest.mark.parametrize("name", CHECKS)
def test_contract_is_kept(server: PostgresServer, name: str) -> None:
    checks = kit.journal_checks(
        "postgres", plugins=PLUGINS, dsn=server.address, schema=f"kit_fresh_{name[:20]}"
    )
    try:
        next(check for check in checks if check.name == name)()
    except SkipTest as reason:
        pytest.skip(str(reason))


def test_turn_of_a_lost_connection_keeps_nothing(
    server: PostgresServer, journal: PostgresJournal
) -> None:
    def lose() -> None:
        with journal.turn() as turn:
            turn.append([next(endless(6))])
            end_connection(server, journal)

    with pytest.raises(bdes.JournalError) as caught:
        lose()
    assert caught.value.is_passing
    assert holds(journal, 6)
    append(journal, 5)
    assert holds(journal, 11)


def test_reading_in_a_turn_sees_its_end(server: PostgresServer, journal: PostgresJournal) -> None:
    def lose() -> None:
        with journal.turn():
            end_connection(server, journal)
            journal.count()  # on another connection it would not be the turn's

    with pytest.raises(bdes.JournalError) as caught:
        lose()
    assert caught.value.is_passing


@pytest.mark.parametrize("act", [append, lambda journal, _: journal.count()], ids=["turn", "read"])
def test_connection_lost_meanwhile_is_made_again(
    server: PostgresServer, journal: PostgresJournal, act: Callable[[bdes.Journal, int], object]
) -> None:
    end_connection(server, journal)
    act(journal, 4)
    assert holds(journal, journal.count())


def test_commit_that_was_not_answered_counts(
    server: PostgresServer, make: Make, journal: PostgresJournal
) -> None:
    with cutting_proxy(server.port) as proxy, closing(make(proxy.address)) as other:
        other.open()
        proxy.cut = "after"
        append(other, 5)  # which is no failure: the server has kept it
        assert proxy.cuts == 1
        assert holds(other, 11)
        append(other, 2)
    assert holds(journal, 13)


@pytest.mark.parametrize("is_killed", [False, True], ids=["lost", "killed"])
def test_commit_that_never_came_is_an_error(
    server: PostgresServer, make: Make, journal: PostgresJournal, is_killed: bool
) -> None:
    """A server that is killed gives the number of the transaction that it lost to the next one."""

    def kill() -> None:
        server.kill()
        server.start()

    with cutting_proxy(server.port) as proxy, closing(make(proxy.address)) as other:
        other.open()
        proxy.cut = "before"
        if is_killed:
            proxy.meanwhile = kill
        with pytest.raises(bdes.JournalError) as caught:
            append(other, 5)
        assert caught.value.is_passing
        assert proxy.cuts == 1
        assert holds(other, 6)
        append(other, 2)
    assert holds(journal, 8)


def test_server_that_stays_away_leaves_doubt(
    server: PostgresServer, make: Make, journal: PostgresJournal
) -> None:
    schema = journal._config.schema
    with (
        cutting_proxy(server.port) as proxy,
        closing(PostgresJournal(PostgresConfig(proxy.address, schema, 0.5))) as other,
    ):
        other.open()
        proxy.cut, proxy.is_away = "after", True
        with pytest.raises(bdes.JournalError, match="not known whether") as caught:
            append(other, 5)
        assert caught.value.is_passing
        assert caught.value.is_in_doubt
    assert holds(journal, 11)


def test_role_goes_with_its_connection(
    server: PostgresServer, make: Make, journal: PostgresJournal
) -> None:
    other = make("")
    other.open()
    assert journal.claim("learner")
    end_connection(server, journal)
    assert journal.count() == 6
    assert journal.claim("learner")  # it was had again at once
    assert not other.claim("learner")
    end_connection(server, journal)
    assert other.claim("learner")
    with pytest.raises(bdes.JournalError, match="another process is learner now") as caught:
        append(journal, 1)
    assert caught.value.is_passing
    append(journal, 1)
    assert not journal.claim("learner")


def test_unknown_roles_are_refused(journal: PostgresJournal) -> None:
    with pytest.raises(bdes.InvalidValueError, match="owner, learner"):
        journal.claim("king")


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://ann:secret@127.0.0.1:1/none",
        "host=127.0.0.1 port=1 password=secret",
        "secret=",
        "postgresql://ann:secret@[::1/x",
    ],
)
def test_passwords_are_never_shown(server: PostgresServer, dsn: str) -> None:
    config = PostgresConfig(dsn)
    journal = PostgresJournal(config)
    for act in (journal.open, lambda: journal.create("{}")):
        with pytest.raises(bdes.JournalError) as caught:
            act()
        assert "secret" not in str(caught.value)
    assert "secret" not in f"{config!r} {journal!r}"


def test_address_may_come_from_the_environment(
    server: PostgresServer, journal: PostgresJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = PLUGINS.journal("postgres", schema=journal._config.schema)
    monkeypatch.delenv("BDES_JOURNAL_DSN", raising=False)
    with pytest.raises(bdes.JournalError, match="set BDES_JOURNAL_DSN"):
        other.open()
    monkeypatch.setenv("BDES_JOURNAL_DSN", server.address)
    with closing(other):
        assert other.open() == "{}"


@pytest.mark.parametrize("schema", ["", "Shop", "pg_shop", "1a", 'a"b', "a.b", "a" * 64])
def test_schemas_that_need_quotes_are_refused(schema: str) -> None:
    with pytest.raises(bdes.ConfigError, match="schema"):
        PLUGINS.journal("postgres", schema=schema)


def test_psycopg_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "find_spec", lambda name: None)
    with pytest.raises(bdes.PluginError, match=r"install 'bdes-framework\[postgres\]'"):
        PLUGINS.journal("postgres")


def test_damage_is_found_and_the_rest_read(
    server: PostgresServer, journal: PostgresJournal
) -> None:
    append(journal, 9_000)  # more than one block
    for statement in (
        "UPDATE {s}.events SET value = value / 2 WHERE number = 4",
        "UPDATE {s}.events SET time = time + 1 WHERE number = 5",
        "DELETE FROM {s}.events WHERE number BETWEEN 7000 AND 7009",
        "UPDATE {s}.users SET name = 'eve'",
    ):
        sql(server, journal, statement)
    with pytest.raises(bdes.JournalError, match="damaged"):
        list(journal.read())
    with pytest.raises(bdes.JournalError, match="damaged"):
        journal.find_users(["eve"])
    assert journal.check() == [
        "events 1 to 1 cannot be read",
        "events 4 to 5 cannot be read",
        "events 7000 to 7009 cannot be read",
    ]
    lost = {1, 4, 5, *range(7000, 7010)}
    events = enumerate(endless(0))
    wanted = [event for number, event in (next(events) for _ in range(9_006)) if number not in lost]
    assert list(journal.read_undamaged()) == wanted
    sql(server, journal, "UPDATE {s}.head SET events = 5")
    with pytest.raises(bdes.JournalError, match="damaged"):
        journal.count()
    assert "damaged" in journal.check()[0]


def test_damaged_page_costs_what_is_in_it(server: PostgresServer, make: Make) -> None:
    journal = make("")
    journal.create("{}")
    append(journal, 3_000)
    sql(server, journal, "CHECKPOINT")
    [(path,)] = sql(server, journal, "SELECT pg_relation_filepath('{s}.events')")
    journal.close()
    server.stop()
    file = server.folder / "data" / path
    content = bytearray(file.read_bytes())
    content[5 * 8192 : 5 * 8192 + 24] = b"\xff" * 24  # the header of a page
    file.write_bytes(content)
    server.start()
    journal.open()
    with pytest.raises(bdes.JournalError, match="damaged") as caught:
        list(journal.read())
    assert not caught.value.is_passing
    [line] = journal.check()
    left = list(journal.read_undamaged())
    whole = endless(0)
    assert set(left) < {next(whole) for _ in range(3_000)}
    assert 2_800 < len(left) < 3_000
    assert "cannot be read" in line


def test_formats_are_brought_up_to_date(
    server: PostgresServer, journal: PostgresJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "FORMAT", 2)
    monkeypatch.setattr(postgres, "UPGRADES", {1: "CREATE TABLE {schema}.two (a int)"})
    journal.open()
    assert sql(server, journal, "SELECT * FROM {s}.two") == []
    assert sql(server, journal, "SELECT format FROM {s}.header") == [(2,)]
    assert holds(journal, 6)
    monkeypatch.setattr(postgres, "FORMAT", 1)
    with pytest.raises(bdes.JournalError, match="newer"):
        journal.open()


def test_database_must_be_of_utf8(server: PostgresServer, journal: PostgresJournal) -> None:
    sql(server, journal, "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    other = PostgresJournal(PostgresConfig(server.address.replace("/postgres", "/latin")))
    with pytest.raises(bdes.JournalError, match="must be of UTF8, not LATIN1"):
        other.create("{}")


def test_view_in_sql_says_the_same(server: PostgresServer, make: Make) -> None:
    journal = make("")
    journal.create("{}")
    with journal.turn() as turn:
        turn.append(
            [
                event._replace(value=1.0) if isinstance(event, bdes.Rewarded) else event
                for event in story(300)
            ]
        )
    ours = journal_log(journal)
    columns = bdes.Columns(user="user", order="decision", propensity="propensity")
    query = f"SELECT * FROM {journal._config.schema}.log"
    theirs = bdes.read_log(server.address, columns, query=query)
    assert ours.rewards.tolist() == theirs.rewards.tolist()
    assert ours.starts.tolist() == theirs.starts.tolist()
