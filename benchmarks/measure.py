"""Measuring on a noisy machine: the best of many turns, taken in rotation; C compiled here."""

import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import frozen
from rich.console import Console
from rich.table import Table

SOURCES = Path(__file__).parent / "c"


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


def best_seconds(turns: Mapping[str, Callable[[], object]], repeats: int = 15) -> dict[str, float]:
    """Return the shortest time of each, measured in rotation so that noise hits all alike."""
    best = dict.fromkeys(turns, float("inf"))
    for _ in range(repeats):
        for name, turn in turns.items():
            begin = time.perf_counter()
            turn()
            best[name] = min(best[name], time.perf_counter() - begin)
    return best


class CompiledC:
    """A C loop from ``benchmarks/c``, compiled with ``gcc -O3`` when the benchmark runs."""

    def __init__(self, name: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._binary = Path(self._folder.name) / name
        source = SOURCES / f"{name}.c"
        command = ["gcc", "-O3", "-o", str(self._binary), str(source), "-lm"]
        subprocess.run(command, check=True)

    def ns_per_pull(self, n_arms: int, horizon: int) -> float:
        """Run the loop once and return nanoseconds per pull."""
        command = [str(self._binary), str(n_arms), str(horizon), "1"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return float(done.stdout.split()[0])


def print_rows(title: str, rows: list[Row]) -> bool:
    """Print claims as a table; return whether all of them held."""
    table = Table(title=title, title_justify="left")
    table.add_column("Claim")
    for heading in ("Ours", "Against", "Figure", "Asked", "Held"):
        table.add_column(heading, justify="right")
    for row in rows:
        asked = f"{'≥' if row.at_least else '≤'} {row.asked:g}"
        held = "yes" if row.held else "[bold red]no[/]"
        table.add_row(row.claim, row.ours, row.against, f"{row.ratio:.2f}", asked, held)
    Console().print(table)
    return all(row.held for row in rows)
