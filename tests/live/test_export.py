"""The log of a journal, as ``bdes fit`` reads it."""

import csv
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework.live.export import journal_log, log_rows, undamaged_rows
from tests.support.command import bdes as run_bdes
from tests.support.command import prints
from tests.support.journals import story

PLUGINS = bdes.load_plugins()

COLUMNS = bdes.Columns(user="user", order="decision", propensity="propensity")
EVENTS: list[bdes.Event] = [
    *(bdes.ArmAdded(arm, name, 0.0) for arm, name in enumerate(["clip", "essay", "never"])),
    *(bdes.NewUser(user, f"user {user}") for user in range(2)),
    # user, arm, probability of decisions 0, 1, 2, ...
    *(
        bdes.Decided(number, user, arm, 0, probability, 0, 10.0 - number)
        for number, (user, arm, probability) in enumerate(
            [(0, 1, 0.25), (1, 0, 0.5), (0, 0, 0.75), (1, 1, 1.0), (0, 1, 0.125), (1, 0, 0.5)]
        )
    ),
    bdes.Rewarded(1, 1.0, 20.0),
    bdes.WindowsClosed(3, 0.0, 21.0),
    bdes.Rewarded(2, 1.0, 22.0, is_late=True),
    bdes.WindowsClosed(4, None, 23.0),
    bdes.Rewarded(5, 1.0, 24.0),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "journal.sqlite", EVENTS)


def written(file: Path, events: list[bdes.Event]) -> Path:
    with closing(PLUGINS.journal("sqlite", file=file)) as journal:
        journal.create("{}")
        with journal.turn() as turn:
            turn.append(events)
    return file


@contextmanager
def opened(file: Path) -> Iterator[bdes.Journal]:
    with closing(PLUGINS.journal("sqlite", file=file)) as journal:
        journal.open()
        yield journal


def log_of(file: Path) -> bdes.Log:
    with opened(file) as journal:
        return journal_log(journal)


def test_rewards_are_as_settled(file: Path) -> None:
    log = log_of(file)
    assert log.names == ("clip", "essay")
    assert log.starts.tolist() == [0, 3]
    by_user = {0: [0, 2, 4], 1: [1, 3, 5]}
    rewards = {0: [0, 0, None], 1: [1, None, 1]}
    propensities = {0: [0.25, 0.75, 0.125], 1: [0.5, 1.0, 0.5]}
    arms = {0: ["essay", "clip", "essay"], 1: ["clip", "essay", "clip"]}
    for first, user in zip(log.starts.tolist(), (0, 1), strict=True):
        rows = slice(first, first + len(by_user[user]))
        assert [log.names[arm] for arm in log.arms[rows]] == arms[user]
        known = [None if reward == -128 else reward for reward in log.rewards[rows].tolist()]
        assert known == rewards[user]
        assert log.propensities is not None
        assert log.propensities[rows].tolist() == propensities[user]


@pytest.mark.parametrize("events", [EVENTS, story(300)], ids=["few", "many"])
def test_view_in_sql_says_the_same(tmp_path: Path, events: list[bdes.Event]) -> None:
    whole = [
        event._replace(value=float(event.value > 0.2))
        if isinstance(event, bdes.Rewarded)
        else event
        for event in events
    ]
    file = written(tmp_path / "journal.sqlite", whole)
    ours, theirs = log_of(file), bdes.read_log(file, COLUMNS, query="SELECT * FROM log")
    names = [name.strip() for name in ours.names]  # as read_log takes them
    assert sorted(names) == sorted(theirs.names)
    for name in ("starts", "rewards", "propensities"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name
    assert [names[arm] for arm in ours.arms] == [theirs.names[arm] for arm in theirs.arms]


@pytest.mark.parametrize("seed", range(8))
def test_what_is_left_after_damage_is_exported(tmp_path: Path, seed: int) -> None:
    rng, content = Random(seed), written(tmp_path / "whole", story(2_000)).read_bytes()
    with opened(tmp_path / "whole") as journal:
        whole = list(log_rows(journal))
        told = {e.decision for e in journal.read() if isinstance(e, bdes.Rewarded)}
    damaged = bytearray(content)
    for _ in range(rng.choice([3, 10])):
        at = rng.randrange(len(content) - 4096)
        damaged[at : at + 4096] = rng.randbytes(4096)
    (tmp_path / "damaged").write_bytes(damaged)
    journal = PLUGINS.journal("sqlite", file=tmp_path / "damaged")  # which may not open at all
    rows = list(undamaged_rows(journal, ["clip", "èss'ay\n"]))
    assert 0 < len(rows) < len(whole)
    left = {row.time: row for row in rows}  # which names a decision here
    assert len(left) == len(rows)
    for number, row in enumerate(whole):
        found = left.get(row.time, row)
        assert found._replace(reward=None) == row._replace(reward=None)
        assert found.reward in (None, row.reward)
        assert found.reward is None or number in told or found is row


def test_damaged_journal_is_told_and_its_rest_written(tmp_path: Path) -> None:
    (tmp_path / "live.toml").write_text('name = "shop"\narms = ["clip", "essay"]\n')
    file, log = written(tmp_path / "journal.sqlite", story(3_000)), tmp_path / "log.csv"
    content = bytearray(file.read_bytes())
    content[100_000:120_000] = bytes(20_000)
    file.write_bytes(content)
    refused = run_bdes("live", "export", str(tmp_path), str(log))
    assert refused.returncode == 2
    assert "bdes: error: journal" in refused.stderr
    assert "live export --undamaged" in refused.stderr
    assert not log.exists()
    done = run_bdes("live", "export", str(tmp_path), str(log), "--undamaged")
    assert done.returncode == 0, done.stderr
    assert "cannot be read" in done.stderr
    with log.open(newline="") as file_read:
        assert 1_000 < len(list(csv.reader(file_read))) < 3_000


def test_fit_reads_journals(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "live.toml").write_text(
        'name = "shop"\narms = ["clip", "essay"]\npolicy = { use = "crowd-greedy" }\n'
    )
    rng = np.random.default_rng(1)
    events: list[bdes.Event] = list(EVENTS[:3])
    events += [bdes.NewUser(user, f"user {user}") for user in range(100)]
    states, number = np.ones(100), 0
    for _ in range(20):
        for user in range(100):
            arm = int(rng.random() < 0.5)
            events.append(bdes.Decided(number, user, arm, 0, 0.5, 0, 1.0))
            if rng.random() < (0.9, 0.3)[arm] * states[user]:
                events.append(bdes.Rewarded(number, 1.0, 2.0))
            states[user] += 0.2 * ((0.1, 1.0)[arm] - states[user])
            number += 1
    events.append(bdes.WindowsClosed(number, 0.0, 3.0))
    file = written(folder / "journal.sqlite", events)
    of_view = ["--query", "SELECT * FROM log", "--user", "user", "--order", "decision"]
    options = ["--permutations", "0", "--json"]
    said = [
        prints("fit", str(folder), *options),
        prints("fit", str(file), *options),
        prints("fit", str(file), *options, *of_view, "--propensity", "propensity"),
    ]
    assert said[0] == said[1] == said[2]
    assert '"lam"' in said[0]


def test_fit_names_no_columns_of_a_journal(file: Path) -> None:
    done = run_bdes("fit", str(file), "--user", "user")
    assert done.returncode == 2
    assert "name no columns" in done.stderr


def test_other_databases_need_a_query(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as other, other:
        other.execute("CREATE TABLE log (a)")
    done = run_bdes("fit", str(tmp_path / "other.sqlite"))
    assert done.returncode == 2
    assert "give a query" in done.stderr
