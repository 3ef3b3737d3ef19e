"""Progress: a bar on a terminal, lines elsewhere, both with the phase and an honest time."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from bdes_framework.cli.progress import COMPILING, Lines, Progress, pauses
from bdes_framework.experiment.time_left import TimeLeft
from bdes_framework.model.compiling import CompileTimer, on_compiling
from tests.support.command import bdes, fails
from tests.support.experiments import write_experiment

COMMAND = [sys.executable, "-c", "from bdes_framework.cli import main; main()"]
PROGRESS = "bdes_framework.cli.progress"
FIRST = "the first ones load code"
CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def on_terminal(folder: Path, columns: int, *arguments: str) -> str:
    """Run ``bdes`` with standard error on a terminal; return what that showed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm"}
    environment.pop("COLUMNS", None)
    with subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65_536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            shown += part
    os.close(ours)
    assert process.returncode == 0, shown
    return shown.decode()


@pytest.mark.parametrize("columns", [80, 140])
def test_a_terminal_shows_phases_on_one_line(folder: Path, columns: int) -> None:
    write_experiment(folder, ("benchmark = false", ""))
    shown = on_terminal(folder, columns, "run", "demo.toml", "--engine", "serial")
    lines = [CONTROL.sub("", line) for line in re.split(r"[\r\n]+", shown)]
    assert max(map(len, lines)) <= columns
    assert any(line.startswith("loading ━") for line in lines)
    assert any(re.fullmatch(f"playing ━+ 0/6 cells, {FIRST}", line) for line in lines)
    assert any(re.fullmatch("planning benchmarks ━+ 0/2", line) for line in lines)
    assert "\x1b[?25h" in shown  # the cursor is back


class Recorded(Progress):
    """Keeps all that would be shown."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def _show(self, *, is_new: bool = False) -> None:
        self.lines.append(f"{self.doing}: {self.status()}")


def test_cells_and_benchmarks_are_counted_and_timed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Recorded()
    monkeypatch.setattr(TimeLeft, "seconds", lambda self: (80.0, 86.0))
    monkeypatch.setattr(f"{PROGRESS}.Lines", lambda command, verbose: recorded)
    text = '[[policies]]\nuse = "fixed-schedule"\ncycle = [7]'
    write_experiment(folder, ('use = "mine"', f'use = "mine"\n{text}'), ("benchmark = false", ""))
    bdes("run", "demo.toml", cwd=folder)
    assert recorded.lines[:2] == ["loading: ", f"playing: 0/12 cells, {FIRST}"]
    played = [line for line in recorded.lines if line.startswith("playing: ")]
    number = r"[0-9.]+( [kM])?"
    for done, line in enumerate(played[-12:], start=1):
        assert re.match(f"playing: {done}/12 cells(, {number} pulls/s)?, ", line)
    assert re.search(f"12/12 cells, {number} pulls/s, 6 failed$", played[-1])
    assert re.search(r", [56] failed, 83 s left$", played[-2])
    first, second, last = [line for line in recorded.lines if line.startswith("planning")]
    assert (first, last) == ("planning benchmarks: 0/2", "planning benchmarks: 2/2")
    assert second == "planning benchmarks: 1/2, measuring the time left"


PLAN = "plan --r 0.9,0.3 --b 0.1,1 --lam 0.3 -T 100 --out plan.csv"


@pytest.mark.parametrize(
    ("command", "phases"),
    [
        (PLAN, ["planning 100 pulls of 2 arms", "writing"]),
        ("fit log.csv --permutations 0", ["reading", "fitting 4 rows"]),
        ("check demo.toml --verify 1", ["playing cells again"]),
    ],
)
def test_other_commands_have_phases_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, phases: list[str]
) -> None:
    recorded = Recorded()
    monkeypatch.setattr(f"{PROGRESS}.Lines", lambda command, verbose: recorded)
    (folder / "log.csv").write_text("arm,reward\na,1\nb,0\na,0\nb,1\n")
    assert bdes(*command.split(), cwd=folder).returncode == 0
    told = [line.partition(": ")[0] for line in recorded.lines]
    assert [phase for phase in dict.fromkeys(told) if phase != COMPILING] == phases


def test_elsewhere_a_short_run_prints_no_progress(folder: Path) -> None:
    done = bdes("run", "demo.toml", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")


def test_lines_come_more_and_more_seldom() -> None:
    assert list(islice(pauses(), 8)) == [10, 20, 40, 80, 160, 320, 320, 320]


def test_lines_say_phase_and_status(capsys: pytest.CaptureFixture[str]) -> None:
    waited: list[float] = []
    ready: list[Callable[[], bool]] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        return ready.pop(0)()

    lines = Lines(verbose=False, wait=wait)
    lines.begin("loading")  # nothing is told before the first pause is over
    lines.begin("playing", 5, lambda: f"{lines.done}/5 cells")
    lines.advance(3)
    ready += [lambda: False, lambda: True]
    with lines:
        pass
    lines.begin("planning benchmarks", 2, lambda: "0/2")
    lines.advance(1)
    for is_compiling in (True, False, True, False):  # told once
        lines.compile(is_compiling)
    told = ["playing: 3/5 cells", "planning benchmarks: 0/2", f"{COMPILING}: 0/2"]
    assert capsys.readouterr().err.splitlines() == [f"bdes: {line}" for line in told]
    assert waited == [10, 20]


def test_verbose_names_each_phase_and_who_plays_what(folder: Path) -> None:
    write_experiment(folder, ("benchmark = false", ""))
    told = bdes("run", "demo.toml", "--verbose", cwd=folder).stderr
    assert "\x1b" not in told
    lines = told.splitlines()
    phases = [
        "bdes: loading",
        f"bdes: playing: 0/6 cells, {FIRST}",
        "bdes: planning benchmarks: 0/2",
    ]
    assert [line for line in lines if line.startswith("bdes: ")] == phases
    assert "engine serial, 1 worker" in lines
    assert any(re.fullmatch(r"bdes-framework \d+\.\d+\.\d+", line) for line in lines)
    assert "0 cells finished before, 6 to play" in lines
    assert "mine: 6 cells to play" in lines
    assert any(re.fullmatch(r"mine: 6 cells, \d+\.\d\d s, .* pulls/s", line) for line in lines)
    again = bdes("run", "demo.toml", "--verbose", cwd=folder).stderr
    assert "6 cells finished before, 0 to play" in again
    assert "playing" not in again


def test_quiet_prints_the_answer_and_failures_only(folder: Path) -> None:
    write_experiment(folder, ('use = "mine"', 'use = "fixed-schedule"\ncycle = [7]'))
    done = bdes("run", "demo.toml", "--quiet", cwd=folder)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 2
    assert "failed: fixed-schedule on bernoulli" in done.stderr


def test_quiet_says_nothing_of_what_is_reused(folder: Path) -> None:
    bdes("run", "demo.toml", cwd=folder)
    write_experiment(folder, ("[10, 50]", "[10, 50, 60]"))
    assert bdes("run", "demo.toml", "--quiet", cwd=folder).stderr == ""


def test_quiet_and_verbose_exclude_each_other(folder: Path) -> None:
    assert "choose one of them" in fails("run", "demo.toml", "--quiet", "--verbose", cwd=folder)


def test_compiling_is_a_phase_only_while_it_happens() -> None:
    numba = pytest.importorskip("numba")
    shown, timer, seen = Progress(), CompileTimer(), []
    shown.begin("playing")

    def note(is_compiling: bool) -> None:
        shown.compile(is_compiling)
        timer.switch(is_compiling)
        seen.append(shown.doing)

    function = numba.njit(lambda x: x + 1.0)
    with on_compiling(note):
        function(1.0)
        function(2.0)  # it is there already
    is_compiled = hasattr(function, "py_func")  # not so under NUMBA_DISABLE_JIT
    assert seen == ([COMPILING, "playing"] if is_compiled else [])
    assert (timer.seconds > 0) == is_compiled
    assert not timer.is_running
