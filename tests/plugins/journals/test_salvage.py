"""Damaged journals in SQLite: it is seen, and what is undamaged is read."""

from contextlib import closing
from pathlib import Path
from random import Random

import pytest

import bdes_framework as bdes
from bdes_journals.salvage import PAGE_BYTES
from bdes_journals.sqlite import SqliteConfig, SqliteJournal
from tests.support.journals import model, story

EVENTS = story(4_000)


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the bytes of a journal's file."""
    file = tmp_path_factory.mktemp("whole") / "journal.sqlite"
    with closing(SqliteJournal(SqliteConfig(file))) as journal:
        journal.create("{}")
        for first in range(0, len(EVENTS), 1_000):
            with journal.turn() as turn:
                turn.append(EVENTS[first : first + 1_000])
    return file.read_bytes()


def journal_of(tmp_path: Path, content: bytes) -> SqliteJournal:
    file = tmp_path / "journal.sqlite"
    file.write_bytes(content)
    return SqliteJournal(SqliteConfig(file))


def is_seen(journal: SqliteJournal) -> bool:
    """Return whether whoever reads it is told of damage."""
    try:
        with closing(journal):
            journal.open()
            return list(journal.read()) != EVENTS
    except bdes.JournalError as error:
        return not error.is_passing


def in_order(left: list[bdes.Event]) -> bool:
    """Return whether these are some of the events, in their order, each as it was."""
    rest = iter(EVENTS)
    return all(any(event == other for other in rest) for event in left)


def test_whole_file_is_read_without_sqlite(tmp_path: Path, content: bytes) -> None:
    assert list(journal_of(tmp_path, content).read_undamaged()) == EVENTS


@pytest.mark.parametrize("seed", range(12))
def test_random_damage_is_seen_and_survived(tmp_path: Path, content: bytes, seed: int) -> None:
    rng, damaged = Random(seed), bytearray(content)
    sizes = [rng.choice([1, 16, PAGE_BYTES]) for _ in range(rng.choice([1, 3, 20]))]
    pages = set[int]()
    for size in sizes:
        at = rng.randrange(len(content) - size)
        damaged[at : at + size] = rng.randbytes(size)
        pages |= {at // PAGE_BYTES, (at + size - 1) // PAGE_BYTES}
    journal = journal_of(tmp_path, bytes(damaged))
    left = list(journal.read_undamaged())
    assert in_order(left)
    # A page has 150 events at most; what it names, as users, costs theirs too.
    assert len(EVENTS) - len(left) <= 300 * len(pages)
    lines = journal.check()
    assert all("\n" not in line for line in lines)
    if len(left) < len(EVENTS):
        assert any("cannot be read" in line for line in lines)
        assert is_seen(journal)


def test_first_page_may_be_gone(tmp_path: Path, content: bytes) -> None:
    journal = journal_of(tmp_path, bytes(PAGE_BYTES) + content[PAGE_BYTES:])
    assert list(journal.read_undamaged()) == EVENTS
    assert "damaged" in journal.check()[0]
    assert is_seen(journal)


def test_cut_file_keeps_its_beginning(tmp_path: Path, content: bytes) -> None:
    journal = journal_of(tmp_path, content[: len(content) // 2 + 77])
    left = list(journal.read_undamaged())
    assert in_order(left)
    assert len(left) > len(EVENTS) / 3
    assert journal.check()
    assert is_seen(journal)


def test_log_beside_the_file_counts(tmp_path: Path) -> None:
    with closing(SqliteJournal(SqliteConfig(tmp_path / "journal.sqlite"))) as journal:
        journal.create("{}")
        with journal.turn() as turn:
            turn.append(EVENTS)
        other = SqliteJournal(SqliteConfig(tmp_path / "copy.sqlite"))
        for end in ("", "-wal"):
            whole = (tmp_path / f"journal.sqlite{end}").read_bytes()
            (tmp_path / f"copy.sqlite{end}").write_bytes(whole)
        assert list(other.read_undamaged()) == EVENTS
        log = tmp_path / "copy.sqlite-wal"
        log.write_bytes(log.read_bytes()[:-50])  # the commit of the turn is cut off
        left = list(other.read_undamaged())
        assert len(left) < len(EVENTS)


def test_forgotten_names_stay_forgotten(tmp_path: Path) -> None:
    with closing(SqliteJournal(SqliteConfig(tmp_path / "journal.sqlite"))) as journal:
        journal.create("{}")
        users: list[bdes.Event] = [bdes.NewUser(user, f"user {user}") for user in range(200)]
        with journal.turn() as turn:
            turn.append(users)
        with journal.turn() as turn:
            turn.append([bdes.UserForgotten(50, 1.0)])
        left = list(journal.read_undamaged())
        assert left[50] == bdes.NewUser(50, None)
        assert left[51] == users[51]


def test_large_models_are_whole_or_left_out(tmp_path: Path) -> None:
    large = model(0, 0, bytes(range(256)) * 400)
    file = tmp_path / "journal.sqlite"
    with closing(SqliteJournal(SqliteConfig(file))) as journal:
        journal.create("{}")
        with journal.turn() as turn:
            turn.append([large])
    assert list(SqliteJournal(SqliteConfig(file)).read_undamaged()) == [large]
    content = bytearray(file.read_bytes())
    at = content.rindex(bytes(range(256)))
    content[at] ^= 1
    file.write_bytes(content)
    assert list(SqliteJournal(SqliteConfig(file)).read_undamaged()) == []
    assert SqliteJournal(SqliteConfig(file)).check() == ["events 0 to 0 cannot be read"]


@pytest.mark.parametrize("size", [*range(3_900, 4_100, 9), 8_180, 8_192, 40_000])
def test_rows_of_every_size_are_found(tmp_path: Path, size: int) -> None:
    made = model(0, 0, b"m" * size)
    file = tmp_path / "journal.sqlite"
    with closing(SqliteJournal(SqliteConfig(file))) as journal:
        journal.create("{}")
        with journal.turn() as turn:
            turn.append([made])
        assert list(journal.read_undamaged()) == [made]
