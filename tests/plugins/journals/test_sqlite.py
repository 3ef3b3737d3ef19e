"""The journal in a SQLite file: layout, locks, formats, full disks, names that are forgotten."""

import random
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

import bdes_framework as bdes
from bdes_journals import sqlite
from bdes_journals.sqlite import SqliteConfig, SqliteJournal
from tests.support.journals import model, story


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


def made(file: Path, events: list[bdes.Event]) -> SqliteJournal:
    journal = SqliteJournal(SqliteConfig(file))
    journal.create('{"name": "shop"}')
    with journal.turn() as turn:
        turn.append(events)
    return journal


def bytes_of(file: Path) -> bytes:
    return b"".join(each.read_bytes() for each in sorted(file.parent.glob(f"{file.name}*")))


def test_events_come_back_as_they_were(file: Path) -> None:
    events = story(6_000)  # more than one block
    with closing(made(file, events)) as journal:
        assert list(journal.read()) == events
        assert list(journal.read(4_990, 5_010)) == events[4_990:5_010]
        assert journal.check() == []


def test_file_is_for_its_user_alone(file: Path) -> None:
    with closing(made(file, story(3))) as journal:
        assert journal.claim("owner")
        for each in file.parent.iterdir():
            assert stat.S_IMODE(each.stat().st_mode) == 0o600, each


def test_holder_is_named(file: Path) -> None:
    with closing(made(file, [])) as first, closing(SqliteJournal(SqliteConfig(file))) as second:
        second.open()
        assert first.holder("owner") is None
        assert first.claim("owner")
        assert not second.claim("owner")
        assert "process " in str(second.holder("owner"))


def test_forgotten_names_are_in_no_file(file: Path) -> None:
    # Of many lengths, in no order, over many turns: so pages of the file split while it grows.
    rng = random.Random(3)
    names = [f"<{rng.getrandbits(64):016x}>{'x' * rng.randrange(150)}" for _ in range(5_000)]
    with closing(made(file, [])) as journal:
        for first in range(0, len(names), 500):
            with journal.turn() as turn:
                turn.append([bdes.NewUser(n, names[n]) for n in range(first, first + 500)])
        begun = [name[:18].encode() for name in names]  # nor may a piece of one be left
        left = bytes_of(file)
        assert all(name in left for name in begun)
        for first in range(0, len(names), 500):
            with journal.turn() as turn:
                turn.append([bdes.UserForgotten(n, 1.0) for n in range(first, first + 500, 10)])
        left = bytes_of(file)
        assert [name for name in begun[::10] if name in left] == []
        assert all(name in left for name in begun[1::10])
        assert journal.find_users(names[:2]) == [None, 1]
        assert journal.check() == []


def test_only_two_models_keep_their_data(file: Path) -> None:
    datas = [bytes([65 + n]) * 20_000 for n in range(4)]
    with closing(made(file, [])) as journal:
        for n, data in enumerate(datas):
            with journal.turn() as turn:
                turn.append([model(n, 0, data)])
        kept = [event.data for event in journal.read() if isinstance(event, bdes.ModelMade)]
        assert kept == [None, None, *datas[2:]]
        assert journal.newest_model() == (3, model(3, 0, datas[3]))
    assert datas[0][:200] not in file.read_bytes()
    assert datas[3][:200] in file.read_bytes()


def test_full_disk_keeps_nothing_and_passes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(made(file, story(300))) as journal:
        before = list(journal.read())
        connection = journal._opened()
        [[n_pages]] = connection.execute("PRAGMA page_count").fetchall()
        connection.execute(f"PRAGMA max_page_count = {n_pages}").fetchall()
        more: list[bdes.Event] = [bdes.ArmAdded(n, "arm" * 20, 1.0) for n in range(2, 2_000)]
        with pytest.raises(bdes.JournalError, match="disk is full") as caught, journal.turn() as t:
            t.append(more)
        assert caught.value.is_passing
        assert list(journal.read()) == before
        connection.execute("PRAGMA max_page_count = 1000000").fetchall()
        with journal.turn() as turn:
            turn.append(more)
        assert list(journal.read()) == before + more
        assert journal.check() == []


def test_formats_not_ours_are_refused(file: Path) -> None:
    made(file, []).close()
    for pragma, match in [("user_version = 7", "newer"), ("application_id = 5", "no journal of")]:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute(f"PRAGMA {pragma}")
        with pytest.raises(bdes.JournalError, match=match):
            SqliteJournal(SqliteConfig(file)).open()


def test_older_format_is_brought_up_to_date(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(file, story(9)).close()
    monkeypatch.setattr(sqlite, "FORMAT", 3)
    scripts = {1: "CREATE TABLE two (a);", 2: "CREATE TABLE three (a); no statement;"}
    monkeypatch.setattr(sqlite, "UPGRADES", scripts)
    with pytest.raises(bdes.JournalError, match="syntax"):
        SqliteJournal(SqliteConfig(file)).open()
    with closing(sqlite3.connect(file)) as connection:  # all or nothing
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT * FROM sqlite_master WHERE name = 'two'").fetchall() == []
    scripts[2] = "CREATE TABLE three (a);"
    with closing(SqliteJournal(SqliteConfig(file))) as journal:
        journal.open()
        assert journal._fetch("SELECT * FROM two, three") == []
        assert list(journal.read()) == story(9)
    monkeypatch.setattr(sqlite, "FORMAT", 1)
    with pytest.raises(bdes.JournalError, match="newer"):
        SqliteJournal(SqliteConfig(file)).open()


def test_what_is_no_journal_is_named(file: Path) -> None:
    journal = SqliteJournal(SqliteConfig(file))
    with pytest.raises(bdes.JournalError, match="there is no journal"):
        journal.open()
    file.write_text("no database at all, but long enough to have a header of one hundred bytes" * 9)
    with pytest.raises(bdes.JournalError, match="damaged"):
        journal.open()
    with pytest.raises(bdes.JournalError, match="there already"):
        journal.create("{}")


def test_file_left_empty_by_a_crash_is_no_journal(file: Path) -> None:
    file.touch()
    with closing(made(file, story(3))) as journal:
        assert list(journal.read()) == story(3)
