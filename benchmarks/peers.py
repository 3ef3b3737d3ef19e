"""Ours beside other bandit libraries: ``python -m benchmarks.peers`` prints a table of ratios.

Each peer is installed into an environment of its own under ``.venv-peers/`` (a few gigabytes in
all; a second run finds them there). A stationary 10-armed Bernoulli bandit is then played with
UCB1, or the nearest that a peer offers, in one process each, timed by the same code as ours.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen
from rich.console import Console

from benchmarks.measure import print_table

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parent / ".venv-peers"
MEANS = [round(0.05 + 0.1 * arm, 2) for arm in range(10)]
ROTATIONS = 3
ASKED = 100
INSTALL_SECONDS = 1800
TIMING_SECONDS = 300


@frozen
class Library:
    """A distribution, the policy that its snippet plays, and what pip needs to install it."""

    name: str
    policy: str
    requirements: tuple[str, ...]

    @property
    def snippet(self) -> Path:
        return HERE / "peers_snippets" / f"{self.name.lower()}.py.txt"


@frozen
class Timing:
    """What one turn of a library measured."""

    version: str
    microseconds: float


class PeerError(Exception):
    """A peer does not install or does not run on this Python; says why in one line."""


OURS = Library("bdes-framework", "UCB1", ())
PEERS = (
    Library("river", "UCB1", ("river",)),
    # It imports a function that newer SciPy no longer has, and asks for numba where speed matters.
    Library("SMPyBandits", "UCB1", ("SMPyBandits", "scipy<1.14", "numba")),
    Library("coba", "UCB1-Tuned", ("coba",)),
    # It installs from its repository; its messages were generated for an old protobuf.
    Library(
        "banditpylib",
        "UCB1",
        ("banditpylib @ git+https://github.com/Alanthink/banditpylib", "protobuf<3.21"),
    ),
    Library("mabwiser", "UCB1", ("mabwiser",)),
    # The last version with bandits; it was written for gymnasium before 1.0.
    Library("rlberry", "UCB1", ("rlberry<0.7", "gymnasium<1")),
    Library("pybandits", "Thompson", ("pybandits",)),
    Library("bayesianbandits", "Thompson", ("bayesianbandits",)),
)


def run(command: list[str], problem: str, seconds: float) -> str:
    """Run a command and return what it printed; raise `PeerError` if it fails."""
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise PeerError(f"{problem}: not done after {seconds:g} s") from None
    except subprocess.CalledProcessError as failure:
        raise PeerError(f"{problem}: {last_words(failure.stderr)}") from None
    return done.stdout


def last_words(printed: str) -> str:
    """Return the last line that names an error, or else the last line."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    named = re.compile(r"(?!.*subprocess-exited)(fatal|\w*error): ", re.IGNORECASE)
    errors = [line for line in lines if named.match(line)]
    return (errors or lines or ["no message"])[-1]


def installed(peer: Library) -> Path:
    """Return the Python of the peer's own environment, installing it if that was not done yet."""
    folder = ENVIRONMENTS / peer.name
    python = folder / "bin" / "python"
    receipt = folder / "requirements.txt"
    wanted = "\n".join(peer.requirements)
    if not receipt.exists() or receipt.read_text("utf-8") != wanted:
        problem = "does not install"
        run([sys.executable, "-m", "venv", "--clear", str(folder)], problem, INSTALL_SECONDS)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--no-input"]
        run([*pip, *peer.requirements], problem, INSTALL_SECONDS)
        receipt.write_text(wanted, "utf-8")
    return python


def timing(python: Path, library: Library) -> Timing:
    """Time the library's snippet once, in a process of its own."""
    # Isolated, so that neither this folder nor PYTHONPATH shadows what is measured.
    command = [str(python), "-I", "-W", "ignore", str(HERE / "peers_timing.py")]
    arguments = [str(library.snippet), library.name, json.dumps(MEANS)]
    printed = run([*command, *arguments], "does not run", TIMING_SECONDS)
    return Timing(**json.loads(printed.splitlines()[-1]))  # some libraries print on import


def measure(console: Console) -> tuple[dict[str, Timing], dict[str, str]]:
    """Return the best timing of each library, and why the others have none."""
    problems: dict[str, str] = {}
    pythons = {OURS: Path(sys.executable)}
    with console.status(f"warming up {OURS.name}"):
        timing(pythons[OURS], OURS)  # compiles; and if it fails, it fails before the long installs
    for peer in PEERS:
        with console.status(f"installing {peer.name}"):
            try:
                pythons[peer] = installed(peer)
            except PeerError as error:
                problems[peer.name] = str(error)
    best: dict[str, Timing] = {}
    # In rotation, so that other work on the machine hits all alike.
    for rotation in range(1, ROTATIONS + 1):
        for library, python in pythons.items():
            if library.name in problems:
                continue
            with console.status(f"timing {library.name}, {rotation} of {ROTATIONS}"):
                try:
                    found = timing(python, library)
                except PeerError as error:
                    if library is OURS:
                        raise
                    problems[library.name] = str(error)
                    continue
            known = best.setdefault(library.name, found)
            if found.microseconds < known.microseconds:
                best[library.name] = found
    return best, problems


def table_rows(best: dict[str, Timing], problems: dict[str, str]) -> Iterator[list[str]]:
    """Yield each library with its time and its ratio to ours, or why it has none."""
    ours = best[OURS.name].microseconds
    for library in (OURS, *PEERS):
        figures = [problems.get(library.name, "").partition(":")[0], "-", "-"]
        if library.name not in problems:
            found = best[library.name]
            time = found.microseconds
            figures = [found.version, f"{time:,.3g}", f"{time / ours:,.0f}"]
        yield [library.name, library.policy, *figures]


def main() -> None:
    try:
        best, problems = measure(Console(stderr=True))
    except PeerError as error:
        sys.exit(f"{OURS.name} {error}")
    title = "UCB1 on 10 Bernoulli arms, single process"
    columns = ["Library", "Policy", "Version", "µs per pull", "Ratio to ours"]
    print_table(title, 3, columns, table_rows(best, problems))
    for name, problem in problems.items():
        print(f"{name} {problem}")
    ours = best.pop(OURS.name).microseconds
    measured = {name: found for name, found in best.items() if name not in problems}
    if not measured:
        sys.exit("No peer could be measured.")
    fastest = min(measured, key=lambda name: measured[name].microseconds)
    ratio = measured[fastest].microseconds / ours
    held = ratio >= ASKED
    words = f"{'at least' if held else 'less than'} {ASKED} times as fast as the fastest peer"
    print(f"Ours is {words}, {fastest}: {ratio:.0f} times.")
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
