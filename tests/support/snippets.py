"""Reading and running what documentation pages show: code, files and commands.

A page's blocks run in the order they stand in, in one folder and one module:

- ``python`` runs; a ``text`` block right below it is what it prints;
- ``python``, ``toml`` or anything else with ``title="name"`` becomes that file instead;
- ``toml`` must be TOML;
- in ``console`` and ``bash``, lines that start with ``$ bdes`` (in this process) or
  ``$ pytest`` (in its own) are run and must succeed, unless ``$ echo $?`` and another exit
  code follow; lines below a command are what it prints, and ``> name`` puts it into a file
  instead;
- ``$ cp``, ``$ mv``, ``$ sed`` and ``$ cd`` happen in the page's folder; after
  ``$ pip install -e .`` later commands find the package that is there, though nothing is
  installed; what else sets a machine up is only shown.

Expected output is compared with white space folded, and ``...`` stands for anything.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from attrs import frozen

from tests.support.command import bdes, without_progress

NOT_RUN = (".", "git", "make", "mypy", "pip", "python", "python3", "source")
"""Commands that pages may show and no test here runs: they set a machine up, or (mypy, on the
template) are slow and run by ``make types``."""

FILE_TOOLS = ("cp", "mv", "sed")
"""Commands that change files; they are run, with ``*`` expanded as a shell would."""

_FENCE = re.compile(r"^( *)(`{3,})([\w-]*)(.*)$")
_TITLE = re.compile(r'title="([^"]+)"')


@frozen
class Snippet:
    """One fenced block: its language, the file it is (or ""), its text, its first line."""

    language: str
    title: str
    text: str
    line: int


def snippets_of(page: Path) -> list[Snippet]:
    """Return a page's fenced blocks, in order."""
    return list(_parsed(page.read_text(encoding="utf-8").splitlines()))


def _parsed(lines: Sequence[str]) -> Iterator[Snippet]:
    start, opening = 0, None
    for number, line in enumerate(lines):
        if opening is None:
            opening, start = _FENCE.match(line), number + 1
        elif line.strip() == opening[2]:
            inside = [text.removeprefix(opening[1]) for text in lines[start:number]]
            title = _TITLE.search(opening[4])
            yield Snippet(opening[3], title[1] if title else "", "\n".join(inside), start + 1)
            opening = None
    if opening is not None:
        raise AssertionError(f"the block that opens on line {start} is never closed")


def fits(expected: str, got: str) -> bool:
    """Say whether ``got`` is as expected, white space folded, ``...`` standing for anything."""
    parts = [re.escape(" ".join(part.split())) for part in expected.split("...")]
    return re.fullmatch(r"\s*" + r"\s*.*?\s*".join(parts), " ".join(got.split())) is not None


@frozen
class Command:
    """A line of a console block: what is typed, what it should print, how it should end."""

    arguments: tuple[str, ...]
    output: str
    status: int


def commands_of(text: str) -> list[Command]:
    """Return the commands of a console block, ``$ echo $?`` folded into the one above it."""
    found: list[Command] = []
    for chunk in re.split(r"(?m)^\$ ", text.replace("\\\n", " "))[1:]:
        typed, _, output = chunk.partition("\n")
        if typed.strip() == "echo $?":
            last = found.pop()
            found.append(Command(last.arguments, last.output, int(output)))
        else:
            found.append(Command(tuple(shlex.split(typed, comments=True)), output.strip(), 0))
    return found


class PageRun:
    """Runs the blocks of one page in ``folder``; a difference is an AssertionError."""

    def __init__(self, page: Path, folder: Path) -> None:
        self._page = page
        self._folder = folder
        self._search_path: list[Path] = []
        self._module = ModuleType(f"snippets_of_{re.sub(r'[^a-z]', '_', page.stem.lower())}")
        self._printed: str | None = None

    def run(self) -> None:
        """Run everything, in order."""
        sys.modules[self._module.__name__] = self._module
        try:
            for snippet in snippets_of(self._page):
                self._one(snippet)
        finally:
            del sys.modules[self._module.__name__]

    def _one(self, snippet: Snippet) -> None:
        printed, self._printed = self._printed, None
        where = f"{self._page.name}, line {snippet.line}"
        if snippet.language == "toml":
            tomllib.loads(snippet.text)
        if snippet.title:
            target = self._folder / snippet.title
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(snippet.text + "\n", encoding="utf-8")
        elif snippet.language == "python":
            self._printed = self._python(snippet)
        elif snippet.language == "text" and printed is not None:
            assert fits(snippet.text, printed), f"{where}: the code above prints\n{printed}"
        elif snippet.language in ("console", "bash"):
            for command in commands_of(snippet.text):
                self._command(command, where)

    def _python(self, snippet: Snippet) -> str:
        # Blank lines in front, so that a traceback shows the page's own line.
        source = "\n" * (snippet.line - 1) + snippet.text
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(source, str(self._page), "exec"), vars(self._module))
        return output.getvalue()

    def _command(self, command: Command, where: str) -> None:
        name, *rest = command.arguments
        if name == "cd":
            self._folder = (self._folder / rest[0]).resolve(strict=True)
        elif name in FILE_TOOLS:
            self._change_files(name, rest)
        elif name == "pip" and "-e" in rest:
            self._announce_package()
        elif name not in NOT_RUN:
            self._program(command, where)

    def _program(self, command: Command, where: str) -> None:
        name, *rest = command.arguments
        file = None
        if ">" in rest:
            rest, (file,) = rest[: rest.index(">")], rest[rest.index(">") + 1 :]
        if name == "bdes" and not self._search_path:
            done = bdes(*rest, cwd=self._folder, settings=self._settings(), merged=True)
            status, printed = done.returncode, done.stdout
        else:
            status, printed = self._process(name, rest, where)
        shown = f"{where}: {shlex.join(command.arguments)} prints\n{printed}"
        assert status == command.status, f"{shown}\nand ends with {status}"
        assert not command.output or fits(command.output, printed), shown
        if file is not None:
            (self._folder / file).write_text(printed, encoding="utf-8")

    def _process(self, name: str, arguments: Sequence[str], where: str) -> tuple[int, str]:
        programs = {
            "bdes": [str(Path(sys.executable).with_name("bdes"))],
            "pytest": [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        }
        assert name in programs, f"{where}: no test runs {name!r}"
        done = subprocess.run(
            [*programs[name], *arguments],
            cwd=self._folder,
            env=os.environ | self._settings(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=300,
        )
        return done.returncode, without_progress(done.stdout)

    def _settings(self) -> dict[str, str]:
        settings = {"COLUMNS": "120", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        if self._search_path:
            settings["PYTHONPATH"] = os.pathsep.join(map(str, self._search_path))
        return settings

    def _change_files(self, name: str, arguments: Sequence[str]) -> None:
        expanded: list[str] = []
        for argument in arguments:
            found = sorted(map(str, self._folder.glob(argument))) if "*" in argument else []
            expanded += found or [argument]
        subprocess.run([name, *expanded], cwd=self._folder, check=True)

    def _announce_package(self) -> None:
        """Say of the package in the page's folder what its installation would say."""
        project = tomllib.loads((self._folder / "pyproject.toml").read_text())["project"]
        site = self._folder.parent / "announced"
        announced = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        announced.mkdir(parents=True)
        head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        (announced / "METADATA").write_text(head)
        lines: list[str] = []
        for group, points in project["entry-points"].items():
            lines += [f"[{group}]", *(f"{key} = {value}" for key, value in points.items())]
        (announced / "entry_points.txt").write_text("\n".join(lines) + "\n")
        self._search_path = [self._folder, site]
