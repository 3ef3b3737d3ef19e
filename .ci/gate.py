"""Run the steps of ``make test`` side by side, and print where the time went.

Two lanes, so that a core is never idle: pytest's workers in one; in the other the checks, and
then the tests that build and install the wheel. What the steps print is shown when they end.
"""

import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BIN = Path(sys.executable).parent
Step = tuple[str, str]
CHOSEN = "-m 'not slow and not packaging'"
TESTS: list[Step] = [
    # One process compiles what all workers use; numba's cache does not wait for its writers.
    ("compile loops", "python -m tests.support.compile_loops"),
    ("pytest", f"pytest -n 3 --dist worksteal {CHOSEN} -q --durations 15 --timeout 300"),
]
CHECKS: list[Step] = [
    ("ruff check", "ruff check --quiet"),
    ("ruff format", "ruff format --check --quiet"),
    ("import-linter", "lint-imports --no-logo"),
    ("mypy", "mypy"),
    ("wheel", "pytest -m packaging --quiet tests/packaging"),
    ("mkdocs", "mkdocs build --strict --quiet"),
]
ENVIRONMENT = {
    **os.environ,
    "NO_MKDOCS_2_WARNING": "1",
    "PYTHONDONTWRITEBYTECODE": "",  # hundreds of processes import the same modules
}


def run(lane: list[Step]) -> list[tuple[str, int, float, float]]:
    """Run steps in turn; return name, exit status, wall and processor seconds of each."""
    done = []
    for name, command in lane:
        program, *arguments = shlex.split(command)
        begin = time.perf_counter()
        with subprocess.Popen(
            [str(BIN / program), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=ENVIRONMENT,
        ) as process:
            output = process.stdout.read() if process.stdout else b""
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        wall, processor = time.perf_counter() - begin, usage.ru_utime + usage.ru_stime
        done.append((name, process.returncode, wall, processor))
        if process.returncode or name == "pytest":
            sys.stdout.write(f"\n-- {name}\n{output.decode(errors='replace')}")
        sys.stdout.write(f"{name}: {'FAILED' if process.returncode else 'passed'}, {wall:.1f} s\n")
        sys.stdout.flush()
    return done


def main() -> int:
    """Run all steps; return 1 if one failed."""
    begin = time.perf_counter()
    with ThreadPoolExecutor() as pool:
        done = [step for lane in pool.map(run, (TESTS, CHECKS)) for step in lane]
    lines = [f"\n{'step':<16}{'wall':>9}{'CPU':>9}"]
    for name, status, wall, processor in done:
        lines.append(f"{name:<16}{wall:>7.1f} s{processor:>7.1f} s{'  FAILED' * bool(status)}")
    total, processor = time.perf_counter() - begin, sum(step[3] for step in done)
    sys.stdout.write("\n".join([*lines, f"{'all':<16}{total:>7.1f} s{processor:>7.1f} s\n"]))
    return int(any(status for _, status, _, _ in done))


if __name__ == "__main__":
    sys.exit(main())
