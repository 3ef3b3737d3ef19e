"""What all commands have in common: names of runs, pipes, a default file."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from unittest import mock

import pytest

from tests.support.command import bdes, fails, prints
from tests.support.experiments import run_demo, write_experiment, write_plugin

COMMAND = [sys.executable, "-c", "from bdes_framework.cli import main; main()"]


def make_run(folder: Path, name: str, experiment: str, finished: str) -> None:
    """Make a run below ``runs`` whose last cell finished then."""
    write_experiment(folder, ('"demo"', f'"{experiment}"'), ("[10, 50]", "[10]"))
    with mock.patch("bdes_framework.experiment.store.datetime") as clock:
        clock.now.return_value = datetime.fromisoformat(finished)
        run_demo(folder, f"runs/{name}").close()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with three runs of two experiments."""
    folder = tmp_path_factory.mktemp("manners")
    write_plugin(folder)
    make_run(folder, "old", "Two ads", "2026-01-01T00:00:00+00:00")
    make_run(folder, "new", "Two ads", "2026-03-01T00:00:00+00:00")
    make_run(folder, "mid", "other", "2026-02-01T00:00:00+00:00")
    (folder / "other").mkdir()  # no run, so it hides none
    return folder


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("runs/old", "runs/old"),
        ("old", "runs/old"),
        ("latest", "runs/new"),
        ("two-ads", "runs/new"),
        ("Two ads", "runs/new"),
        ("other", "runs/mid"),
    ],
)
def test_runs_are_found_by_name(runs: Path, name: str, folder: str) -> None:
    assert f"3 of 3 cells in {folder}\n" in prints("show", name, cwd=runs)


@pytest.mark.parametrize(
    "arguments",
    [
        "verify {}",
        "export {}",
        "compare {} {}",
        "report {} --paths 0",
        "plot {} --chart final -o x.svg",
    ],
)
def test_every_command_takes_the_latest_run(runs: Path, arguments: str) -> None:
    prints(*arguments.replace("{}", "latest").split(), cwd=runs)


@pytest.mark.parametrize(
    ("name", "near"), [("nwe", "Did you mean 'new'?"), ("runs/nwe", "Did you mean 'runs/new'?")]
)
def test_an_unknown_run_is_refused_with_those_there_are(runs: Path, name: str, near: str) -> None:
    error = fails("show", name, cwd=runs)
    assert error == (
        f"bdes: error: no run is called '{name}'. {near} Runs below 'runs': mid, new, old;"
        " 'latest' is the newest\n"
    )


def test_there_may_be_no_run_at_all(tmp_path: Path) -> None:
    assert "no run is called 'latest': there is none below 'runs' yet" in fails(
        "show", "latest", cwd=tmp_path
    )


def test_a_path_that_is_no_run_is_said_to_be_none(runs: Path) -> None:
    assert "'runs' is not a run" in fails("show", "runs", cwd=runs)


@pytest.mark.parametrize("command", ["run", "check"])
def test_the_file_that_init_writes_is_the_default(folder: Path, command: str) -> None:
    missing = fails(command, cwd=folder)
    assert "there is no experiment.toml here: name a FILE, or let 'bdes init' write one" in missing
    (folder / "demo.toml").rename(folder / "experiment.toml")
    flags = ("--engine", "serial") if command == "run" else ()
    assert "runs/demo-" in prints(command, *flags, cwd=folder)


LONG = "a-label-that-is-longer-than-any-terminal-and-yet-has-to-stay-whole-" * 2
WIDE = ("plugins", "plugins show posterior", "runs", "show wide", "compare wide wide", "check")


@pytest.mark.parametrize("command", WIDE)
def test_nothing_wraps_in_a_pipe(folder: Path, command: str) -> None:
    file = write_experiment(folder, ('use = "mine"', f'use = "mine"\nlabel = "{LONG}"'))
    file.rename(folder / "experiment.toml")
    (folder / "demo.toml").symlink_to("experiment.toml")
    run_demo(folder, f"runs/wide-{LONG}" if command == "runs" else "runs/wide").close()
    narrow = bdes(*command.split(), cwd=folder, settings={"COLUMNS": "40"}).stdout
    assert narrow == bdes(*command.split(), cwd=folder, settings={"COLUMNS": "9000"}).stdout
    if command not in ("plugins", "plugins show posterior", "check"):
        assert LONG in narrow
    assert max(map(len, narrow.splitlines())) < 1_000  # no padding to the width of nothing
    assert not re.search(" $", narrow, re.MULTILINE)


PIPE_SIGNAL = 141
"""128 + SIGPIPE, as shells say it."""
QUIET = (["schema"], ["plugins"], ["--help"], ["show", "latest"], ["export", "latest"])


@pytest.mark.parametrize("arguments", QUIET, ids=" ".join)
def test_a_reader_that_has_seen_enough_ends_it_quietly(runs: Path, arguments: list[str]) -> None:
    with unread_pipe() as pipe:
        done = subprocess.run(
            [*COMMAND, *arguments], cwd=runs, stdout=pipe, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (PIPE_SIGNAL, "")


def test_a_reader_of_messages_may_leave_too(tmp_path: Path) -> None:
    with unread_pipe() as pipe:
        done = subprocess.run(
            [*COMMAND, "check"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=pipe, text=True
        )
    assert (done.returncode, done.stdout) == (PIPE_SIGNAL, "")


@contextmanager
def unread_pipe() -> Iterator[int]:
    """Give a pipe to write to that nobody reads any more."""
    read, write = os.pipe()
    os.close(read)
    try:
        yield write
    finally:
        os.close(write)


def test_another_broken_pipe_is_no_reader_that_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("bdes_framework.cli.bdes.invoke", broken)
    done = bdes("runs")
    assert (done.returncode, done.stderr) == (
        1,
        "bdes: error: cannot write the output: Broken pipe\n",
    )
