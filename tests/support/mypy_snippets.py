"""Running mypy on snippets as a user would: elsewhere, strictly, with no config of ours.

A line that mypy must reject ends in a comment such as ``# error: arg-type``.
"""

import re
import subprocess
import sys
from pathlib import Path

from tests.support import REPOSITORY

SNIPPETS = REPOSITORY / "tests" / "typing"

_MARKER = re.compile(r"# error: ([a-z-]+)$")
_REPORT = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): error: .*\[(?P<code>[a-z-]+)\]$")


def expected_errors(snippet: Path) -> set[tuple[int, str]]:
    """Return the lines a snippet marks, each with its error code."""
    return {
        (number, found[1])
        for number, line in enumerate(snippet.read_text().splitlines(), start=1)
        if (found := _MARKER.search(line))
    }


def reported_errors(folder: Path, python: str = sys.executable) -> dict[str, set[tuple[int, str]]]:
    """Run mypy on every file of a folder; return what it rejected, by file name.

    ``python`` is the interpreter whose installed packages are used.
    """
    config = folder / "mypy.ini"
    config.write_text("[mypy]\n")
    files = sorted(path.name for path in folder.glob("*.py"))
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", config.name]
    command += ["--python-executable", python, "--cache-dir", "cache", "--no-error-summary"]
    done = subprocess.run(
        [*command, "--no-pretty", *files], cwd=folder, capture_output=True, text=True, check=False
    )
    found: dict[str, set[tuple[int, str]]] = {name: set() for name in files}
    for line in done.stdout.splitlines():
        report = _REPORT.match(line)
        if report is not None:
            found[report["file"]].add((int(report["line"]), report["code"]))
        elif ": note: " not in line:
            raise AssertionError(f"mypy said something unexpected: {done.stdout}{done.stderr}")
    if done.returncode not in (0, 1):
        raise AssertionError(f"mypy broke: {done.stdout}{done.stderr}")
    return found
