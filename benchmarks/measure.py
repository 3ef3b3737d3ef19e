"""Measuring on a noisy machine: the best of many turns, taken in rotation; C compiled here."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
from attrs import frozen
from rich.console import Console
from rich.table import Table

SOURCES = Path(__file__).parent / "c"
MILLION = 1_000_000
N_ARMS = 10
# The instance of benchmarks/c/bandit.h: the better an arm pays, the more it wears out.
C_INSTANCE = {
    "r": np.arange(1, N_ARMS + 1) / N_ARMS,
    "b": 1 - np.arange(N_ARMS) / N_ARMS,
    "lam": 0.1,
}


@frozen
class Row:
    """One claim: what was measured, against what, and what was asked."""

    claim: str
    ours: str
    against: str
    ratio: float
    asked: float
    at_least: bool = False

    @property
    def held(self) -> bool:
        """Whether the measured figure is within what was asked."""
        return self.ratio >= self.asked if self.at_least else self.ratio <= self.asked


def absolute(claim: str, value: float, unit: str, asked: float, against: str = "-") -> Row:
    """Return a claim about a figure itself, not about a ratio."""
    return Row(f"{claim}, {unit}", f"{value:.3g} {unit}", against, value, asked)


def ns(seconds: float, pulls: int = MILLION) -> str:
    return f"{seconds / pulls * 1e9:,.1f} ns"


def best_seconds(
    turns: Mapping[str, Callable[[], object]],
    repeats: int = 15,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the shortest time of each, measured in rotation so that noise hits all alike.

    Beside C, whose loops count processor time, the clock is ``time.process_time``.
    """
    best = dict.fromkeys(turns, float("inf"))
    for _ in range(repeats):
        for name, turn in turns.items():
            begin = clock()
            turn()
            best[name] = min(best[name], clock() - begin)
    return best


class CompiledC:
    """A C loop of ``benchmarks/c``, compiled with ``gcc -O3`` and more flags; call it to run.

    ``seconds`` is the shortest time of its runs: of the processor, by its own clock.
    """

    def __init__(
        self,
        name: str,
        pulls: int = MILLION,
        flags: tuple[str, ...] = (),
        n_arms: int = N_ARMS,
    ) -> None:
        self._pulls, self._n_arms = pulls, n_arms
        self._folder = tempfile.TemporaryDirectory()
        self._binary = Path(self._folder.name) / name
        self.seconds = float("inf")
        source = SOURCES / f"{name}.c"
        command = ["gcc", "-O3", *flags, "-o", str(self._binary), str(source), "-lm"]
        subprocess.run(command, check=True)

    def __call__(self) -> None:
        command = [str(self._binary), str(self._n_arms), str(self._pulls), "1"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        self.seconds = min(self.seconds, float(done.stdout.split()[0]) * self._pulls / 1e9)

    def row(self, claim: str, seconds: float, asked: float) -> Row:
        """Return a claim about our time of as many pulls, against that of the C loop."""
        against = f"C {ns(self.seconds, self._pulls)}"
        return Row(claim, ns(seconds, self._pulls), against, seconds / self.seconds, asked)


def print_table(title: str, left: int, columns: list[str], rows: Iterable[list[str]]) -> None:
    """Print a table whose first ``left`` columns are text, and the others figures."""
    table = Table(title=title, title_justify="left")
    for place, heading in enumerate(columns):
        table.add_column(heading, justify="left" if place < left else "right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def run_benchmark(title: str, *parts: Callable[[], list[Row]]) -> None:
    """Measure every part, print all claims as a table, and exit with 1 if one did not hold.

    Or only the parts that are named on the command line.
    """
    named = {part.__name__.removesuffix("_rows").replace("_", "-"): part for part in parts}
    chosen = sys.argv[1:] or list(named)
    if unknown := set(chosen) - set(named):
        sys.exit(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(named)}")
    rows: list[Row] = []
    for name in chosen:
        part = named[name]
        with Console(stderr=True).status(f"measuring {name}"):
            rows += part()
    lines = []
    for row in rows:
        asked = f"{'≥' if row.at_least else '≤'} {row.asked:g}"
        held = "yes" if row.held else "[bold red]no[/]"
        lines.append([row.claim, row.ours, row.against, f"{row.ratio:.2f}", asked, held])
    print_table(title, 1, ["Claim", "Ours", "Against", "Figure", "Asked", "Held"], lines)
    sys.exit(0 if all(row.held for row in rows) else 1)
