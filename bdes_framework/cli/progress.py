"""Progress on standard error: a bar on a terminal; elsewhere a line now and then."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
from rich.progress import Progress as RichProgress
from rich.table import Column
from rich.text import Text

from bdes_framework.cli.options import echo, messages, output
from bdes_framework.model.compiling import CompileTimer, on_compiling

COMPILING = "compiling once"
_COLD_SECONDS = {"plan": 5, "fit": 3, "run": 10, "warm-up": 30}
"""About how long commands compile with nothing on the disk: see ``benchmarks/cold_start.py``."""
_FIRST_LINE_SECONDS = 10.0
_LAST_PAUSE_SECONDS = 320.0


class Progress:
    """What a command is doing, told to nobody: the base of those who tell it.

    A command has one *phase* at a time, such as loading or playing. While functions are compiled,
    that is what it is doing.
    """

    def __init__(self, command: str = "") -> None:
        self.phase, self.done, self.total = "", 0, 0
        self.status: Callable[[], str] = str
        self.compiling = CompileTimer()
        about = _COLD_SECONDS.get(command)
        self._compiling_text = COMPILING + (f", about {about} s" if about else "")

    def begin(self, phase: str, total: int = 0, status: Callable[[], str] = str) -> None:
        """Begin a phase of ``total`` steps, 0 if that is not known.

        ``status`` returns what else is to be said, at any time.
        """
        self.phase, self.done, self.total, self.status = phase, 0, total, status
        self._show(is_new=True)

    def advance(self, done: int) -> None:
        """Take note of how many steps are done."""
        self.done = done
        self._show()

    def compile(self, is_compiling: bool) -> None:
        """Take note that functions begin, or cease, to be compiled."""
        self.compiling.switch(is_compiling)
        self._show(is_new=is_compiling)

    @property
    def doing(self) -> str:
        """The name of the phase, or that functions are compiled."""
        return self._compiling_text if self.compiling.is_running else self.phase

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _show(self, *, is_new: bool = False) -> None:
        """Show what has changed."""


class _Bar(Progress):
    """A line at the bottom of a terminal, with a bar."""

    def __init__(self, console: Console, command: str = "") -> None:
        super().__init__(command)
        columns = (
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
            BarColumn(bar_width=None),
            _Status(self),
        )
        # What is printed meanwhile goes above the bar, unless it goes elsewhere.
        self._rich = RichProgress(
            *columns,
            console=console,
            transient=True,
            expand=True,
            redirect_stdout=output().is_terminal,
        )
        self._task = self._rich.add_task("", total=None)

    def __enter__(self) -> Self:
        self._rich.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._rich.stop()

    def _show(self, *, is_new: bool = False) -> None:
        self._rich.update(
            self._task,
            description=self.doing,
            completed=self.done,
            total=self.total or None,
            refresh=is_new,
        )


class _Status(ProgressColumn):
    """What a phase has to say, asked for whenever the bar is drawn."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(Column(no_wrap=True))  # the bar is what gives way
        self._progress = progress

    def render(self, task: Task) -> Text:
        return Text(self._progress.status())


def pauses() -> Iterator[float]:
    """Yield the seconds between lines: 10, 20, 40 and so on up to about five minutes."""
    pause = _FIRST_LINE_SECONDS
    while True:
        yield pause
        pause = min(2 * pause, _LAST_PAUSE_SECONDS)


class Lines(Progress):
    """Lines without control characters: more and more seldom, and where a phase begins.

    What ends before the first pause prints nothing, unless it is to tell everything.
    """

    def __init__(
        self,
        command: str = "",
        *,
        verbose: bool,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        super().__init__(command)
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._is_telling = verbose
        self._has_told_compiling = False
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def compile(self, is_compiling: bool) -> None:
        """Take note of it, and tell it once: it begins and ceases with each function."""
        self.compiling.switch(is_compiling)
        self._show(is_new=is_compiling and not self._has_told_compiling)

    def _show(self, *, is_new: bool = False) -> None:
        if is_new and self._is_telling:
            self._print()

    def _tell(self) -> None:
        for pause in pauses():
            if self._wait(pause):
                return
            self._is_telling = True
            self._print()

    def _print(self) -> None:
        status = self.status()
        doing = self.phase if self._has_told_compiling else self.doing
        self._has_told_compiling |= doing.startswith(COMPILING)
        with suppress(OSError):  # nobody reads it: the command itself will notice, if it has to
            echo(f"bdes: {doing}{': ' if status else ''}{status}", err=True)


@contextmanager
def progress(
    command: str = "", *, quiet: bool = False, verbose: bool = False
) -> Iterator[Progress]:
    """Show progress on standard error, in the way that suits it; not at all if ``quiet``.

    The command says how long compiling may take, where that is known.
    """
    console = messages()
    shown = Progress(command)
    if not quiet:
        interactive = console.is_interactive
        shown = _Bar(console, command) if interactive else Lines(command, verbose=verbose)
    with on_compiling(shown.compile), shown:
        yield shown
