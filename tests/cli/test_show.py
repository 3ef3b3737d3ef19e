"""What ``bdes run`` and ``bdes show`` print: the answer, a table that fits, what it all means."""

import csv
import io
import json
import os
import pty
import re
import sqlite3
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from rich.console import Console
from rich.text import Text

from bdes_framework import Run, load_run, run_experiment
from bdes_framework._internal.colours import colour_of, colours_of
from bdes_framework.cli.result_text import fitting, print_blocks, result_lines, shortened
from bdes_framework.experiment.pooling import Observations, Variant, pool
from bdes_framework.experiment.result_table import ResultTable
from bdes_framework.experiment.summary import CellSummary
from tests.support.command import bdes, fails, prints
from tests.support.experiments import STUDY, changed, write_experiment, write_plugin

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run of four policies, three rates and three instances."""
    folder = tmp_path_factory.mktemp("show")
    (folder / "study.toml").write_text(STUDY)
    run_experiment(folder / "study.toml", out=folder / "runs" / "study", engine="serial").close()
    return folder


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    return load_run(folder / "runs" / "study")


def on_terminal(folder: Path, *arguments: str, columns: int = 80) -> str:
    """Return what a command prints on a terminal, colours left out."""
    settings = {"COLUMNS": str(columns), "LINES": "24", "FORCE_COLOR": "1"}
    done = bdes(*arguments, cwd=folder, settings=settings)
    assert done.returncode == 0, done.stderr
    return ESCAPE.sub("", done.stdout)


def widest(text: str) -> int:
    return max(map(len, text.splitlines()))


def made_up(n_policies: int, n_instances: int = 3, label: str = "policy") -> ResultTable:
    cells = [
        CellSummary(f"{i}", f"{label} {p}", 100, 0, 50.0 - p, 50.0 - p - i % 3, None, 50.0 + p)
        for i in range(n_instances)
        for p in range(n_policies)
    ]
    places = {(cell.environment, 100): Variant("e", instance=cell.environment) for cell in cells}
    return pool(Observations("made up", places, {}, cells))


def screen(table: ResultTable, columns: int = 80) -> str:
    console = Console(
        file=io.StringIO(), width=columns, height=24, force_terminal=True, color_system=None
    )
    last = [Text("counts"), Text("next")]
    print_blocks(console, [*result_lines(table, console, name="latest"), last])
    assert isinstance(console.file, io.StringIO)
    return ESCAPE.sub("", console.file.getvalue())


def test_the_answer_comes_first_and_what_to_do_next_last(folder: Path, run: Run) -> None:
    lines = prints("show", "latest", cwd=folder).splitlines()
    table = run.table()
    assert lines[0] == table.sentence
    assert lines[-2:] == [
        "144 of 144 cells in runs/study",
        "next: bdes report latest; every row: bdes show latest --all",
    ]
    ranked = [line.split()[0] for line in lines[3:7]]
    assert ranked == [row.policy for row in table.rows]
    for line in table.legend[:-1]:  # told is no column, for all were told the same
        assert line in lines
    assert "told nothing: every policy" in lines


@pytest.mark.parametrize("columns", [80, 140, None])
def test_numbers_are_those_of_the_table(folder: Path, run: Run, columns: int | None) -> None:
    shown = prints("show", "latest", cwd=folder)
    if columns is not None:
        shown = on_terminal(folder, "show", "latest", columns=columns)
        assert widest(shown) <= columns
    lines = {line.split()[0]: line for line in shown.splitlines() if line}
    for row in run.table().rows:
        for found in (*row.groups, row.overall):
            assert found is not None
            assert found.share is not None
            assert found.share.half_width is not None
            assert (
                f"{100 * found.share.mean:.1f} ± {100 * found.share.half_width:.1f}"
                in lines[row.policy]
            )
    assert ("regret" in shown) == (columns != 80)  # the first column that goes


@pytest.mark.parametrize("columns", range(20, 141, 10))
def test_no_row_is_folded_at_any_width(run: Run, columns: int) -> None:
    table = run.table(by=["lam", "T"])
    shown = screen(table, columns)
    for row in table.rows:
        assert sum(line.startswith(row.policy[:3]) for line in shown.splitlines()) >= 1
    layout = fitting(table.columns(), columns)
    assert layout.width <= columns
    groups = sum(column.kind == "group" for column in layout.columns)
    assert groups + layout.n_groups_left_out == 6
    folded = " ".join(shown.split())
    assert ("columns do not fit here" in folded) == bool(layout.n_groups_left_out)


def test_twelve_policies_on_two_hundred_instances_stay_on_one_screen() -> None:
    shown = screen(made_up(12, 200))
    assert len(shown.splitlines()) < 24
    assert widest(shown) <= 80
    assert len(re.findall(r"(?m)^policy \d+  +\d", shown)) == 12


def test_of_more_policies_the_first_ten_are_shown() -> None:
    shown = screen(made_up(13))
    assert "policy 9 " in shown
    assert "policy 10" not in shown
    assert "and 3 more policies: bdes show latest --all" in shown


def test_long_labels_keep_both_ends(run: Run) -> None:
    assert shortened("a-label (explore=1)", 10) == "a-lab…e=1)"
    assert shortened("宽宽宽宽宽宽", 5) in ("宽…宽", "宽宽…")
    shown = screen(made_up(3, label="long " * 12 + "label"))
    assert widest(shown) <= 80
    assert all(f"label {p} " in shown for p in range(3))


def test_told_is_a_column_or_a_line(run: Run) -> None:
    told = {"policy 0": ("lam",)}
    table = made_up(2)
    cells = [CellSummary("1", row.policy, 10, 0, 5.0, 5.0, None, 5.0) for row in table.rows]
    table = pool(Observations("x", {("1", 10): Variant("e")}, told, cells))
    assert re.search(r"(?m)^policy 0 .* lam$", screen(table))
    narrow = screen(table, 30)
    assert "told lam: policy 0\ntold nothing: policy 1\n" in narrow


def test_every_row_has_columns_for_what_varies(folder: Path, run: Run) -> None:
    shown = prints("show", "latest", "--all", cwd=folder).splitlines()
    (heading,) = [line for line in shown if line.startswith("environment ")]
    names = ["environment", "lam", "instance", "T", "policy", "reward"]
    assert heading.split()[:6] == names
    assert "slope" in heading
    assert all(f" {name} " in heading for name in ("share, %", "regret ± 95 %", "reward per round"))
    legend = "reward: what was paid; slope: of log regret over log T; ± 95 % over replications"
    assert legend in shown
    rows = [line.split() for line in shown if line.startswith("ads ")]
    assert len(rows) == 3 * 3 * 2 * 4
    assert rows[0][:5] == ["ads", "0.1", "1", "20", "ucb1"]
    assert sum("*" in row for row in rows) == 3 * 3 * 2
    assert widest(on_terminal(folder, "show", "latest", "--all")) <= 80


def test_show_takes_what_to_split_by_and_what_to_leave_out(folder: Path, run: Run) -> None:
    shown = prints("show", "latest", "--by", "lam,T", "--policy", "ucb1", cwd=folder)
    assert "lam = 0.1, T = 20" in shown
    assert "thompson" not in shown
    early = prints("show", "latest", "--horizon", "20", "--all", cwd=folder)
    assert early.splitlines()[0] == run.table(horizon=20).sentence
    assert len([line for line in early.splitlines() if line.startswith("ads ")]) == 3 * 3 * 4
    error = fails("show", "latest", "--by", "lamb", cwd=folder)
    assert "no dimension 'lamb'. Did you mean 'lam'? It has: T, lam" in error


def test_policies_have_their_colours_on_a_terminal_only(folder: Path) -> None:
    settings = {"COLUMNS": "80", "FORCE_COLOR": "1", "COLORTERM": "truecolor", "TERM": "xterm"}
    environment = {"NO_COLOR": ""}
    shown = bdes("show", "latest", cwd=folder, settings=settings | environment).stdout
    red, green, blue = (int(colour_of("ucb1").terminal[i : i + 2], 16) for i in (1, 3, 5))
    assert re.search(rf"\x1b\[[0-9;]*38;2;{red};{green};{blue}mucb1", shown)
    assert "\x1b" not in prints("show", "latest", cwd=folder)


def test_a_policy_shown_alone_keeps_its_colour(run: Run) -> None:
    # Both want one colour, which "ucb1" gets: of the other, alone, nobody would know that.
    rival = next(name for i in range(999) if colour_of(name := f"x, {i}") == colour_of("ucb1"))
    table = evolve(run.table(), rows=(evolve(run.table().rows[0], policy=rival),))
    colours = []
    for others in ([], ["ucb1", rival]):
        console = Console(file=io.StringIO(), width=80)
        _, (_, line), *_ = result_lines(table, console, name="latest", policies=others)
        colours.append(str(line.spans[0].style))
    assert colours == [colours_of(names)[rival].terminal for names in ([rival], ["ucb1", rival])]
    assert colours[0] != colours[1]


def test_an_unfinished_run_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(changed(STUDY, ("[20, 40]", "[20]")))
    out = tmp_path / "runs" / "study"
    run_experiment(tmp_path / "study.toml", out=out, engine="serial").close()
    words = "not finished: the same 'bdes run' goes on"
    assert words not in prints("show", "latest", cwd=tmp_path)
    legend = []
    for lost in ("benchmarks", "cells"):
        with sqlite3.connect(out / "results.sqlite") as database:
            database.execute(f"DELETE FROM {lost}")
        shown = prints("show", "latest", cwd=tmp_path)
        assert words in shown.splitlines()[-1]
        legend.append("expected reward per round, for some benchmarks are missing" in shown)
    assert legend == [True, False]  # without cells there is no table


def test_a_run_without_benchmarks_says_so(tmp_path: Path) -> None:
    text = changed(STUDY, ("[20, 40]", "[20]"), ("checkpoints = 2", "benchmark = false"))
    (tmp_path / "study.toml").write_text(text)
    legend = "expected reward per round, for there is no benchmark"
    assert legend in prints("run", "study.toml", cwd=tmp_path)
    assert legend in prints("compare", "latest", cwd=tmp_path)


def test_a_real_terminal_of_80_columns(folder: Path) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    hidden = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    environment = {k: v for k, v in os.environ.items() if k not in hidden} | {"TERM": "xterm"}
    command = [sys.executable, "-c", "from bdes_framework.cli import main; main()"]
    with subprocess.Popen(
        [*command, "show", "latest"], stdout=theirs, stderr=theirs, cwd=folder, env=environment
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65_536)
            except OSError:  # all was read, and nobody writes any more
                break
            shown += part
            if not part:
                break
    os.close(ours)
    assert process.returncode == 0
    assert b"\x1b[" in shown
    plain = ESCAPE.sub("", shown.decode())
    assert widest(plain) <= 80
    assert "lam = 0.1" in plain


def test_the_next_step_names_the_run(tmp_path: Path) -> None:
    write_plugin(tmp_path)
    write_experiment(tmp_path, ("[10, 50]", "[10]"))
    elsewhere = prints("run", "demo.toml", "--out", "my run", cwd=tmp_path)
    assert "3 of 3 cells in my run: 3 computed, 0 reused, 0 failed" in elsewhere
    assert "next: bdes report 'my run'; every row: bdes show 'my run' --all" in elsewhere
    prints("run", "demo.toml", "--out", "runs/a", cwd=tmp_path)
    assert "bdes report latest" in prints("run", "demo.toml", "--out", "runs/b", cwd=tmp_path)


def strict(text: str) -> Any:
    """Return what JSON holds; NaN and infinity are none of it."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def test_json_has_the_table_whole(folder: Path, run: Run) -> None:
    found = strict(prints("show", "latest", "--json", cwd=folder))
    table = run.table()
    assert found["sentence"] == table.sentence
    assert found["legend"] == table.legend
    assert found["cells"]["n_finished"] == 144
    assert [row["policy"] for row in found["policies"]] == [row.policy for row in table.rows]
    last = table.rows[-1]
    assert last.groups[1] is not None
    share = last.groups[1].share
    assert share is not None
    group = found["policies"][-1]["groups"][1]
    assert group["lam"] == 0.5
    assert group["results"]["share"] == {"mean": share.mean, "half_width": share.half_width}
    best = found["policies"][0]["overall"]
    assert best["behind"] is None
    assert "reward" not in best
    assert 0 < best["reward_per_round"]["mean"] < 1
    assert "rows" not in found
    rows = strict(prints("show", "latest", "--all", "--json", cwd=folder))["rows"]
    assert len(rows) == 3 * 3 * 2 * 4
    assert rows[0]["instance"] == "1"
    assert not {"reward", "mean"} & {*rows[0]}
    first = run.results()[0]
    assert first.mean is not None
    assert first.reward is not None
    assert rows[0]["total_mean"]["mean"] == first.mean.mean
    assert rows[0]["total_reward"]["mean"] == first.reward.mean
    assert rows[0]["regret"]["mean"] == run.results()[0].regret.mean  # type: ignore[union-attr]


@pytest.mark.parametrize("form", ["markdown", "latex", "csv"])
def test_every_row_in_other_formats_is_refused(folder: Path, form: str) -> None:
    done = bdes("show", "latest", "--all", "--format", form, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--all prints text or JSON, not {form}" in done.stderr
    assert "bdes export" in done.stderr


@pytest.mark.parametrize("form", ["markdown", "latex", "csv"])
def test_the_table_in_other_formats(folder: Path, run: Run, form: str) -> None:
    shown = prints("show", "latest", "--by", "lam,T", "--format", form, cwd=folder)
    table = run.table(by=["lam", "T"])
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(shown)))
        assert [row["share"] for row in rows] == [str(r["share"]) for r in table.to_records()]
        assert rows[0]["T"] == "20"
        assert rows[0]["told"] == ""
        assert 0 < float(rows[0]["reward_per_round"]) < 1
        assert "reward" not in rows[0]
    else:
        assert shown == (table.to_markdown() if form == "markdown" else table.to_latex())


def test_every_command_with_results_prints_json(folder: Path, tmp_path: Path) -> None:
    write_plugin(tmp_path)
    write_experiment(tmp_path, ("benchmark = false\n", ""))
    done = bdes("run", "demo.toml", "--json", "--verify", "1", cwd=tmp_path)
    assert strict(done.stdout)["cells"] == {
        "n_cells": 6,
        "n_finished": 6,
        "n_failed": 0,
        "n_computed": 6,
        "n_reused": 0,
    }
    assert "played again" in done.stderr
    (listed,) = strict(prints("runs", "--json", cwd=folder))
    assert (listed["run"], listed["n_finished"]) == ("runs/study", 144)
    arms = ("--r", "0.9,0.3", "--b", "0.1,1", "--lam", "0.3", "-T", "50")
    plan = strict(prints("plan", *arms, "--json", "--out", str(tmp_path / "plan.csv"), cwd=folder))
    assert plan["gap"] < 1e-3
    assert set(plan["alternatives"]) == {"best-fixed", "greedy"}
    log = tmp_path / "log.csv"
    log.write_text("arm,reward\n" + "a,1\nb,0\na,0\nb,1\n" * 20)
    fitted = strict(prints("fit", str(log), "--json", cwd=folder))
    assert fitted["names"] == ["a", "b"]
    assert fitted["fit"]["rows"] == 80


def test_failures_are_in_json_and_on_stderr(tmp_path: Path) -> None:
    write_plugin(tmp_path, ("np.zeros(limit", "5 + np.ones(limit"))
    write_experiment(tmp_path)
    done = bdes("run", "demo.toml", "--json", cwd=tmp_path)
    assert done.returncode == 1
    (failure,) = strict(done.stdout)["failures"]
    assert failure["policy"] == "mine"
    assert "arms go from 0 to 1" in failure["error"]
    assert "6 of 6 cells failed" in done.stderr
