"""The command line: what each command prints, and its exit code."""

import json
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from unittest import mock

import jsonschema
import pyarrow.parquet
import pytest

from bdes_framework._internal.files import read_text
from tests.support.broken_plugins import BROKEN
from tests.support.command import bdes, fails, prints
from tests.support.experiments import Install, good_plugin, write_experiment, write_plugin

COMMANDS = "plugins fit plan init check run runs show compare report plot export schema"


def test_help_names_every_command_on_one_screen() -> None:
    shown = prints("--help")
    assert len(shown.splitlines()) <= 24
    assert all(f"\n  {command} " in shown for command in COMMANDS.split())


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom bdes_framework.cli import main\nsys.argv = ['bdes', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'numba', 'rich', 'cattrs', 'pluggy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_version_is_that_of_the_distribution() -> None:
    assert prints("--version") == f"bdes {version('bdes-framework')}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("plugin", "Did you mean 'plugins'?"),
        ("plugins show bernouli", "Did you mean 'bernoulli'?"),
        ("plugins --config nowhere.toml", "No such file"),
        ("show .", "is not a run"),
    ],
)
def test_a_wrong_request_exits_2(arguments: str, message: str, tmp_path: Path) -> None:
    assert message in fails(*arguments.split(), cwd=tmp_path)


@pytest.mark.parametrize("content", ["", "x = [", "seed = 1", "\x00", 'name = "a"\nseed = "b"'])
def test_run_of_a_wrong_file_exits_2(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.toml").write_text(content)
    assert "run.toml" in fails("run", "run.toml", cwd=tmp_path)


@pytest.mark.parametrize(
    "fault",
    ["import raises", "hook raises half-way", "takes a taken name", "newer API", "misspelt hook"],
)
def test_plugins_shows_why_one_failed(fault: str, install: Install) -> None:
    source, reason = BROKEN[fault]
    install("broken-one", source)
    listing = prints("plugins")
    assert "broken_one  broken-one 1.0  failed" in listing
    assert reason in listing
    assert "bernoulli" in listing
    assert "Traceback" in prints("plugins", "show", "broken_one")


def test_run_fails_only_if_it_needs_the_plugin(install: Install, tmp_path: Path) -> None:
    install("broken-one", BROKEN["hook raises half-way"][0])
    install("sound-one", good_plugin("sound"))
    no_modules = ('modules = ["mine.py"]', "")
    file = write_experiment(tmp_path, no_modules, ('use = "mine"', 'use = "first"'))
    needs_it = bdes("run", str(file))
    assert needs_it.returncode == 2
    assert needs_it.stdout == ""
    (line,) = needs_it.stderr.splitlines()
    assert line.startswith(f"bdes: error: {file}: policies[0]: policy 'first' belongs to plugin")
    assert "failed to load: KeyError: 'half-way'" in line
    write_experiment(tmp_path, no_modules, ('use = "mine"', 'use = "sound"'))
    assert "sound" in prints("run", str(file), cwd=tmp_path)


def test_plugins_json_has_states_and_summaries(install: Install) -> None:
    install("broken-one", "raise OSError('the disk is on fire')")
    records = {record["plugin"]: record for record in json.loads(prints("plugins", "--json"))}
    assert records["broken_one"]["state"] == "failed"
    assert "the disk is on fire" in records["broken_one"]["reason"]
    bernoulli, crowd, _ = records["bdes_environments"]["registered"]
    assert (bernoulli["kind"], bernoulli["name"]) == ("environment", "bernoulli")
    assert (crowd["kind"], crowd["name"]) == ("crowd_environment", "crowd")
    assert bernoulli["summary"].startswith("Clicks drawn")


def test_plugins_show_prints_parameters() -> None:
    rows = {
        line.split(" ")[0]: line for line in prints("plugins", "show", "bernoulli").splitlines()
    }
    assert rows["q0"].split()[:6] == ["q0", "float", "1.0", "The", "state", "at"]
    assert "required" in rows["lam"]
    found = json.loads(prints("plugins", "show", "bernoulli", "--json"))
    assert found == json.loads(prints("plugins", "--json", "show", "bernoulli"))
    entry = found["entries"][0]
    assert (entry["kind"], entry["plugin"]) == ("environment", "bdes_environments")
    defaults = {one["name"]: one["default"] for one in entry["parameters"]}
    assert (defaults["q0"], defaults["lam"], found["plugins"]) == ("1.0", None, [])


def test_plugins_show_prints_lists_item_by_item(folder: Path) -> None:
    text = (
        "Always plays arm 0.\n\n    It does so:\n\n    - at once,\n"
        "    - for ever, until\n      it ends.\n\n    That is - really - all."
    )
    write_plugin(folder, ("Always plays arm 0.", text))
    shown = prints("plugins", "show", "mine", "--module", "mine.py", cwd=folder)
    lines = [line.rstrip() for line in shown.splitlines()]
    start = lines.index("It does so:")
    items = ["- at once,", "- for ever, until it ends.", "That is - really - all."]
    assert lines[start + 1 : start + 4] == items


def test_plugins_are_disabled_and_added(folder: Path) -> None:
    local = ("plugins", "--module", "mine.py")
    listing = prints(*local, "--disable", "bdes_engines", cwd=folder)
    assert "bdes_engines  bdes-framework" in listing
    assert "disabled" in listing
    assert "policy" in listing
    shown = prints(*local, "show", "mine", cwd=folder)
    assert "Always plays arm 0." in shown
    assert "It has no parameters." in shown
    assert "mine" in prints("plugins", "--config", str(folder / "demo.toml"))


def test_markup_in_plugin_errors_stays_text(install: Install) -> None:
    install("evil-one", "raise OSError('[bold]\\x1b[2J[/nonsense]')")
    assert "[bold]\\x1b[2J[/nonsense]" in prints("plugins")


HELLO = "import click\n@click.command()\ndef hello():\n    click.echo('hello there')\n"


def test_commands_of_plugins_are_listed_and_run(install: Install) -> None:
    install("greeter", HELLO, group="bdes_framework.commands", target="greeter:hello")
    assert "From greeter." in prints("--help")
    assert prints("greeter") == "hello there\n"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise OSError('no')", "cannot be loaded: OSError: no"),
        (
            "raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})()",
            "cannot be loaded: Odd: (its message cannot be read: ZeroDivisionError)",
        ),
        ("hello = 3", "is no click command but int"),
    ],
)
def test_a_broken_command_exits_2(install: Install, source: str, message: str) -> None:
    install("greeter", source, group="bdes_framework.commands", target="greeter:hello")
    prints("--help")
    assert message in fails("greeter")


def test_the_first_command_of_a_name_is_kept(install: Install) -> None:
    for name, command in (("ant", "hi"), ("bee", "hi"), ("wasp", "run")):
        site = install(name, HELLO.replace("hello there", name), group="bdes_framework.commands")
        info = site / f"{name}-1.0.dist-info" / "entry_points.txt"
        info.write_text(f"[bdes_framework.commands]\n{command} = {name}:hello\n")
    text = " ".join(prints("--help").split())
    assert "hi From ant. (ignored: the one of bee)" in text
    assert "go on with it. (ignored: the one of wasp)" in text
    assert prints("hi") == "ant\n"
    fails("run")


def test_runs_are_shown_listed_exported_compared(folder: Path) -> None:
    first = prints("run", "demo.toml", "--out", "one", "--engine", "serial", cwd=folder)
    done = ": 6 computed, 0 reused, 0 failed"
    assert f"6 of 6 cells in one{done}" in first
    assert prints("show", "one", cwd=folder) == first.replace(done, "")
    prints("run", "demo.toml", "--out", "two", "--workers", "2", cwd=folder)
    assert "mine" in prints("compare", "one", "two", cwd=folder)
    listing = prints("runs", ".", cwd=folder)
    assert "one" in listing
    assert "6/6" in listing
    assert len(json.loads(prints("export", "one", "--format", "json", cwd=folder))) == 6
    as_csv = prints("export", "one", cwd=folder).splitlines()
    assert as_csv[0].startswith("environment,lam,K,instance,policy")
    assert len(as_csv) == 7
    prints("export", "one", "--format", "parquet", "--out", "x.parquet", cwd=folder)
    assert pyarrow.parquet.read_table(folder / "x.parquet").num_rows == 6
    assert "cannot write" in fails("export", "one", "--out", "no/where.csv", cwd=folder)
    assert "needs --out" in fails("export", "one", "--format", "parquet", cwd=folder)
    (folder / "two" / "results.sqlite").write_text("no database")
    assert "it is damaged" in prints("runs", ".", cwd=folder)
    assert prints("runs", "nowhere", cwd=folder) == "no runs in nowhere\n"


def test_run_report_reads_the_file_once(folder: Path) -> None:
    with mock.patch("bdes_framework.experiment.file.read_text", wraps=read_text) as read:
        prints("run", "demo.toml", "--out", "one", "--report", cwd=folder)
    assert read.call_count == 1
    page = (folder / "one" / "report.html").read_text()
    assert "bdes run demo.toml" in page
    assert "name its experiment file" not in page


def test_run_with_failed_cells_exits_1(folder: Path) -> None:
    write_plugin(folder, ("np.zeros(limit", "5 + np.ones(limit"))
    done = bdes("run", "demo.toml", "--out", "one", cwd=folder)
    assert done.returncode == 1
    assert "round 0 (counted from 0): ask returned arm 6; arms go from 0 to 1" in done.stderr
    assert "6 of 6 cells failed" in done.stderr
    shown = bdes("show", "one", "--traceback", cwd=folder)
    assert shown.returncode == 1
    assert "  Traceback (most recent call last):" in shown.stderr


def test_check_counts_and_leaves_nothing_behind(folder: Path) -> None:
    shown = prints("check", "demo.toml", cwd=folder)
    assert "cells         6" in shown
    assert "pulls         180" in shown
    assert "time" not in shown
    assert "instances" not in shown
    assert not (folder / "runs").exists()
    arms = 'arms = {generator = "click-bait", n = 3, instances = 4, seed = 1}'
    text = (
        f'name = "many"\nseed = 1\nhorizons = [10]\n[[environments]]\nuse = "bernoulli"\n{arms}\n'
    )
    (folder / "many.toml").write_text(text + 'lam = [0.1, 0.2, 0.3]\n[[policies]]\nuse = "ucb1"\n')
    found = json.loads(prints("check", "many.toml", "--json", cwd=folder))
    assert found["counts"]["instances"] == 4
    assert found["folder"].startswith("runs/many-")
    lines = prints("check", "many.toml", cwd=folder).splitlines()
    assert lines[1:4] == ["environments   1", "instances      4", "values of lam  3"]
    assert [line for line in lines if line != line.rstrip()] == []
    write_experiment(folder, ("lam", "lamb"))
    wrong = fails("check", "demo.toml", cwd=folder)
    assert "environments[0].lamb: is not a parameter. Did you mean 'lam'?" in wrong


def test_init_writes_a_valid_file_once(tmp_path: Path) -> None:
    prints("init", "mine.toml", cwd=tmp_path)
    prints("check", "mine.toml", cwd=tmp_path)
    before = (tmp_path / "mine.toml").read_text()
    assert "already there" in fails("init", "mine.toml", cwd=tmp_path)
    assert (tmp_path / "mine.toml").read_text() == before
    schema, tables = json.loads(prints("schema")), tomllib.loads(before)
    jsonschema.validate(tables, schema)
    assert tables["environments"][0]["arms"]["instances"] >= 10  # so that intervals say something
    assert tables["policies"][0] == {"use": "posterior"}
    tables["environments"][0]["lamb"] = tables["environments"][0].pop("lam")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tables, schema)
