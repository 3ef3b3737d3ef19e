"""The example study: one table in terminal, report, Markdown and LaTeX, as pandas computes it."""

import contextlib
import json
import re
import shutil
import tomllib
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path

import pandas
import pytest
import tomli_w
from attrs import frozen
from scipy.stats import t as student

from tests.support import REPOSITORY
from tests.support.command import bdes, prints
from tests.support.experiments import changed
from tests.support.snippets import PageRun

FOLDER = REPOSITORY / "examples" / "study"
PAGE = FOLDER / "README.md"
SMALL = (
    ("horizons = [100_000]", "horizons = [300]"),
    ("instances = 20", "instances = 3"),
)
Entry = tuple[str, str]
"""A mean and half its interval, in % with one digit."""


@frozen
class Played:
    """The folder of the study, after all commands of its page; and what its cells say."""

    folder: Path
    n_instances: int

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def expected(self) -> dict[str, list[Entry]]:
        """Each policy's share of OPT, by lam: mean and interval over instances."""
        cells = pandas.read_csv(self.folder / "cells.csv")
        cells["share"] = 100 * cells.total_mean / cells.OPT
        instances = cells.groupby(["policy", "lam", "instance"]).share.mean()
        found = instances.groupby(["policy", "lam"]).agg(["mean", "sem", "count"])
        assert set(found["count"]) == {self.n_instances}
        half = found["sem"] * student.ppf(0.975, self.n_instances - 1)
        rows = zip(found.index, found["mean"], half, strict=True)
        return {
            policy: [(f"{mean:.1f}", f"{width:.1f}") for _, mean, width in group]
            for policy, group in groupby(rows, key=lambda row: row[0][0])
        }


def play(folder: Path, *changes: tuple[str, str]) -> Path:
    """Run all commands of the study's page in a copy of its folder."""
    study = folder / "study"
    shutil.copytree(FOLDER, study, ignore=shutil.ignore_patterns("runs"))
    file = study / "experiment.toml"
    file.write_text(changed(file.read_text(), *changes))
    with contextlib.chdir(study):
        PageRun(PAGE, study).run()
    return study


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return Played(play(tmp_path_factory.mktemp("small"), *SMALL), 3)


def entries(cells: list[str]) -> list[Entry]:
    """Return the first three means with intervals, marks and markup left out."""
    found = [re.search(r"([\d.]+) (?:±|\$\\pm\$) ([\d.]+)", cell) for cell in cells]
    return [(one[1], one[2]) for one in found if one is not None][:3]


def markdown_table(text: str) -> dict[str, list[Entry]]:
    rows = [line.strip("| ").split(" | ") for line in text.splitlines()[2:]]
    return {row[0]: entries(row[1:]) for row in rows}


def latex_table(text: str) -> dict[str, list[Entry]]:
    rows = [line.removesuffix(r" \\").split(" & ") for line in text.splitlines() if " & " in line]
    return {row[0]: entries(row[1:]) for row in rows[1:]}


def terminal_table(text: str) -> dict[str, list[Entry]]:
    block = next(part for part in text.split("\n\n") if part.startswith("policy"))
    rows = [re.split(r"\s{2,}", line) for line in block.splitlines()[1:]]
    return {row[0]: entries(row[1:]) for row in rows}


def json_table(text: str) -> dict[str, list[Entry]]:
    return {
        row["policy"]: [
            (f"{100 * share['mean']:.1f}", f"{100 * share['half_width']:.1f}")
            for share in (group["results"]["share"] for group in row["groups"])
        ]
        for row in json.loads(text)["policies"]
    }


class _Rows(HTMLParser):
    """The rows of a page's table of results."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._inside = self._cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = dict(attrs).get("id") == "results" if tag == "table" else self._inside
        if self._inside and tag == "tr":
            self.rows.append([])
        if self._inside and tag == "td":
            self.rows[-1].append("")
            self._cell = True

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "table"
        self._cell = self._cell and tag != "td"

    def handle_data(self, data: str) -> None:
        if self._inside and self._cell:
            self.rows[-1][-1] += data


def report_table(text: str) -> dict[str, list[Entry]]:
    parser = _Rows()
    parser.feed(text)
    return {row[0].strip(): entries(row[1:]) for row in parser.rows if row}


def check_tables(played: Played) -> None:
    expected = played.expected()
    assert sorted(expected) == ["etc", "exp3p", "posterior", "ucb1"]
    assert {len(row) for row in expected.values()} == {3}
    terminal = prints("show", "latest", cwd=played.folder)
    assert terminal_table(terminal) == expected
    assert json_table(played.read("table.json")) == expected
    assert markdown_table(played.read("table.md")) == expected
    assert latex_table(played.read("table.tex")) == expected
    assert report_table(played.read("report.html")) == expected


def test_every_table_is_what_pandas_computes(small: Played) -> None:
    check_tables(small)


@pytest.mark.parametrize(
    ("name", "start"), [("share.svg", b"<svg"), ("share.png", b"\x89PNG"), ("share.pdf", b"%PDF")]
)
def test_one_command_draws_the_chart(small: Played, name: str, start: bytes) -> None:
    assert (small.folder / name).read_bytes().startswith(start)


def test_chart_has_the_numbers_of_the_table(small: Played) -> None:
    said = re.findall(r'aria-label="([^"]*share of OPT[^"]*)"', small.read("share.svg"))
    means = {mean for row in small.expected().values() for mean, _ in row}
    numbers = {f"{float(n):.1f}" for text in said for n in re.findall(r"([\d.]+)%?", text)}
    assert means <= numbers


@pytest.mark.slow
def test_whole_study_says_what_its_page_says(tmp_path: Path) -> None:
    played = Played(play(tmp_path), 20)
    check_tables(played)
    shown = next(s for s in PAGE.read_text().split("```text\n")[1:]).partition("```")[0]
    settings = {"COLUMNS": "80", "LINES": "24", "FORCE_COLOR": "1"}
    done = bdes("show", "latest", cwd=played.folder, settings=settings)
    printed = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", done.stdout)
    assert [line.rstrip() for line in printed.splitlines()][: len(shown.splitlines())] == [
        line.rstrip() for line in shown.splitlines()
    ]


# As many as a study may have: the answer stays on a screen, and the report small.
MANY = """
name = "many"
seed = 1
horizons = [16]
checkpoints = 2

[[environments]]
use = "bernoulli"
arms = {generator = "click-bait", n = 3, seed = 1, instances = 200}
lam = 0.3
"""
POLICIES = ("ucb1", "thompson", "exp3", "exp3p", "uniform", "aae")


def test_two_hundred_instances_and_twelve_policies(tmp_path: Path) -> None:
    policies = [{"use": name} for name in POLICIES]
    policies += [{"use": name, "label": f"{name} again"} for name in POLICIES]
    file = tmp_path / "experiment.toml"
    file.write_text(tomli_w.dumps(tomllib.loads(MANY) | {"policies": policies}))
    settings = {"COLUMNS": "80", "LINES": "24", "FORCE_COLOR": "1"}
    done = bdes("run", "--report", cwd=tmp_path, settings=settings)
    assert done.returncode == 0, done.stderr
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", done.stdout).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    row = re.compile(rf"({'|'.join(POLICIES)})( again)?  +[\d.]+ ± ")
    assert len([line for line in lines if row.match(line)]) == 12
    (report,) = tmp_path.glob("runs/*/report.html")
    assert report.stat().st_size < 5_000_000
