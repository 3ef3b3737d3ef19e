"""The command line, run as people run it: a real process, its output and its exit code."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.broken_plugins import BROKEN
from tests.support.command import bdes
from tests.support.experiments import FILE, Install

Good = Callable[[str], str]


def test_help_fits_one_screen_and_names_every_command() -> None:
    done = bdes("--help")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) <= 24
    for command in (
        "plugins",
        "fit",
        "plan",
        "init",
        "check",
        "run",
        "runs",
        "show",
        "compare",
        "report",
        "plot",
        "export",
        "schema",
    ):
        assert f"\n  {command} " in done.stdout


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom bdes_framework.cli import main\nsys.argv = ['bdes', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'numba', 'rich', 'cattrs', 'pluggy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_version_is_the_distribution_s() -> None:
    from importlib.metadata import version

    assert bdes("--version").stdout == f"bdes {version('bdes-framework')}\n"


def test_an_unknown_command_exits_2_with_the_nearest_match() -> None:
    done = bdes("plugin")
    assert done.returncode == 2
    assert "Did you mean 'plugins'?" in done.stderr


@pytest.mark.parametrize("fault", ["import raises", "hook raises half-way", "takes a taken name",
                                   "newer API", "misspelt hook"])  # fmt: skip
def test_plugins_shows_a_broken_one_with_its_reason_and_exits_0(
    fault: str, install: Install, good_plugin: Good
) -> None:
    make, reason = BROKEN[fault]
    install("broken-one", make(good_plugin))
    listing = bdes("plugins")
    assert listing.returncode == 0
    assert "broken_one  broken-one 1.0  failed" in listing.stdout
    assert reason in listing.stdout
    assert "bernoulli" in listing.stdout
    details = bdes("plugins", "show", "broken_one")
    assert details.returncode == 0
    assert "Traceback" in details.stdout


def test_a_run_that_needs_a_broken_plugin_exits_2_with_one_clear_message(
    install: Install, good_plugin: Good, tmp_path: Path
) -> None:
    install("broken-one", BROKEN["hook raises half-way"][0](good_plugin))
    install("sound-one", good_plugin("sound"))
    file = tmp_path / "run.toml"
    text = FILE[: FILE.index("[[policies]]")].replace('modules = ["mine.py"]', "")
    file.write_text(text + '[[policies]]\nuse = "first"\n')
    needs_it = bdes("run", str(file))
    assert needs_it.returncode == 2
    assert needs_it.stdout == ""
    (line,) = needs_it.stderr.splitlines()
    assert line.startswith(f"bdes: error: {file}: policies[0]: policy 'first' belongs to plugin")
    assert "failed to load: KeyError: 'half-way'" in line
    file.write_text(text + '[[policies]]\nuse = "sound"\n')
    does_not = bdes("run", str(file))
    assert does_not.returncode == 0, does_not.stderr
    assert "sound" in does_not.stdout


def test_plugins_as_json_says_the_same(install: Install) -> None:
    install("broken-one", "raise OSError('the disk is on fire')")
    records = {record["plugin"]: record for record in json.loads(bdes("plugins", "--json").stdout)}
    assert records["broken_one"]["state"] == "failed"
    assert "the disk is on fire" in records["broken_one"]["reason"]
    (bernoulli,) = records["bdes_environments"]["registered"]
    assert (bernoulli["kind"], bernoulli["name"]) == ("environment", "bernoulli")
    assert bernoulli["summary"].startswith("Clicks drawn")


def test_show_prints_parameters_with_types_defaults_and_meaning() -> None:
    done = bdes("plugins", "show", "bernoulli")
    assert done.returncode == 0
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("q0")]
    assert line.split()[:6] == ["q0", "float", "1.0", "The", "state", "at"]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("lam")]
    assert "required" in line


def test_show_keeps_the_items_of_a_list_apart(tmp_path: Path, good_plugin: Good) -> None:
    text = (
        "Always plays arm 0.\n\n    It does so:\n\n    - at once,\n"
        "    - for ever, until\n      it ends.\n\n    That is - really - all."
    )
    (tmp_path / "mine.py").write_text(good_plugin("mine").replace("Always plays arm 0.", text))
    shown = bdes("plugins", "show", "mine", "--module", "mine.py", cwd=tmp_path).stdout.splitlines()
    start = shown.index("It does so:")
    lines = [line.rstrip() for line in shown[start : start + 4]]
    assert lines == [
        "It does so:",
        "- at once,",
        "- for ever, until it ends.",
        "That is - really - all.",
    ]


def test_show_of_something_unknown_exits_2_with_the_nearest_match() -> None:
    done = bdes("plugins", "show", "bernouli")
    assert done.returncode == 2
    assert "Did you mean 'bernoulli'?" in done.stderr


def test_plugins_can_be_disabled_and_local_ones_added(tmp_path: Path, good_plugin: Good) -> None:
    (tmp_path / "mine.py").write_text(good_plugin("mine"))
    done = bdes("plugins", "--module", "mine.py", "--disable", "bdes_engines", cwd=tmp_path)
    assert "bdes_engines  bdes-framework" in done.stdout
    assert "disabled" in done.stdout
    assert "policy" in done.stdout
    shown = bdes("plugins", "--module", "mine.py", "show", "mine", cwd=tmp_path)
    assert "Always plays arm 0." in shown.stdout
    assert "It has no parameters." in shown.stdout


def test_plugins_follows_a_config_file(tmp_path: Path, good_plugin: Good) -> None:
    (tmp_path / "mine.py").write_text(good_plugin("mine"))
    (tmp_path / "x.toml").write_text('[plugins]\nmodules = ["mine.py"]\n')
    assert "mine" in bdes("plugins", "--config", str(tmp_path / "x.toml")).stdout
    missing = bdes("plugins", "--config", str(tmp_path / "y.toml"))
    assert missing.returncode == 2
    assert "No such file" in missing.stderr


def test_markup_in_other_people_s_text_is_shown_as_text(install: Install) -> None:
    install("evil-one", "raise OSError('[bold]\\x1b[2J[/nonsense]')")
    done = bdes("plugins")
    assert done.returncode == 0
    assert "[bold]\\x1b[2J[/nonsense]" in done.stdout


def test_a_command_of_another_distribution_is_listed_and_run(install: Install) -> None:
    source = "import click\n@click.command()\ndef hello():\n    click.echo('hello there')\n"
    install("greeter", source, group="bdes_framework.commands", target="greeter:hello")
    assert "From greeter." in bdes("--help").stdout
    assert bdes("greeter").stdout == "hello there\n"


@pytest.mark.parametrize(("source", "message"), [
    ("raise OSError('no')", "cannot be loaded: OSError: no"),
    ("hello = 3", "is no click command but int"),
])  # fmt: skip
def test_a_broken_command_exits_2_and_help_still_works(
    install: Install, source: str, message: str
) -> None:
    install("greeter", source, group="bdes_framework.commands", target="greeter:hello")
    assert bdes("--help").returncode == 0
    done = bdes("greeter")
    assert done.returncode == 2
    assert message in done.stderr


def test_two_commands_of_one_name_are_both_named_and_ours_cannot_be_taken(
    install: Install,
) -> None:
    source = "import click\n@click.command()\ndef hello():\n    click.echo('{}')\n"
    for name, command in (("ant", "hi"), ("bee", "hi"), ("wasp", "run")):
        site = install(name, source.format(name), group="bdes_framework.commands")
        info = site / f"{name}-1.0.dist-info" / "entry_points.txt"
        info.write_text(f"[bdes_framework.commands]\n{command} = {name}:hello\n")
    text = " ".join(bdes("--help").stdout.split())
    assert "hi From ant. (ignored: the one of bee)" in text
    assert "go on with it. (ignored: the one of wasp)" in text
    assert bdes("hi").stdout == "ant\n"
    assert bdes("run").returncode == 2


@pytest.fixture
def demo(tmp_path: Path, good_plugin: Good) -> Path:
    (tmp_path / "mine.py").write_text(good_plugin("mine"))
    (tmp_path / "demo.toml").write_text(FILE)
    return tmp_path


def test_a_run_is_shown_listed_exported_and_compared(demo: Path) -> None:
    first = bdes("run", "demo.toml", "--out", "one", "--engine", "serial", cwd=demo)
    assert first.returncode == 0, first.stderr
    assert "6 of 6 cells in one" in first.stdout
    assert bdes("show", "one", cwd=demo).stdout == first.stdout
    bdes("run", "demo.toml", "--out", "two", "--workers", "2", cwd=demo)
    assert "mine" in bdes("compare", "one", "two", cwd=demo).stdout
    listing = bdes("runs", ".", cwd=demo).stdout
    assert "one" in listing
    assert "6/6" in listing
    rows = json.loads(bdes("export", "one", "--format", "json", cwd=demo).stdout)
    assert len(rows) == 6
    as_csv = bdes("export", "one", cwd=demo).stdout.splitlines()
    assert as_csv[0].startswith("environment,policy,horizon")
    assert len(as_csv) == 7
    done = bdes("export", "one", "--format", "parquet", "--out", "x.parquet", cwd=demo)
    assert done.returncode == 0, done.stderr
    import pyarrow.parquet

    assert pyarrow.parquet.read_table(demo / "x.parquet").num_rows == 6


def test_an_export_that_cannot_be_written_exits_2_and_other_seeds_are_not_paired(
    demo: Path,
) -> None:
    bdes("run", "demo.toml", "--out", "one", "--engine", "serial", cwd=demo)
    done = bdes("export", "one", "--out", "no/where.csv", cwd=demo)
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    (demo / "demo.toml").write_text(FILE.replace("seed = 1", "seed = 2"))
    bdes("run", "demo.toml", "--out", "two", "--engine", "serial", cwd=demo)
    compared = bdes("compare", "one", "two", cwd=demo)
    assert compared.returncode == 0
    assert "different seeds" in compared.stderr


def test_showing_what_is_no_run_exits_2(tmp_path: Path) -> None:
    done = bdes("show", str(tmp_path))
    assert done.returncode == 2
    assert "is not a run" in done.stderr


def test_check_says_what_would_be_run_and_leaves_nothing_behind(demo: Path) -> None:
    done = bdes("check", "demo.toml", cwd=demo)
    assert done.returncode == 0
    assert "cells         6" in done.stdout
    assert "pulls         180" in done.stdout
    assert not (demo / "runs").exists()
    (demo / "demo.toml").write_text(FILE.replace("lam", "lamb"))
    wrong = bdes("check", "demo.toml", cwd=demo)
    assert wrong.returncode == 2
    assert "environments[0].lamb: is not a parameter. Did you mean 'lam'?" in wrong.stderr


def test_check_says_that_its_time_leaves_out_planning(demo: Path) -> None:
    assert "planning" not in bdes("check", "demo.toml", cwd=demo).stdout
    (demo / "demo.toml").write_text(FILE.replace("benchmark = false\n", ""))
    assert "; besides, planning the benchmark\n" in bdes("check", "demo.toml", cwd=demo).stdout


def test_init_writes_a_file_that_runs_and_never_overwrites(tmp_path: Path) -> None:
    done = bdes("init", "mine.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert bdes("check", "mine.toml", cwd=tmp_path).returncode == 0
    before = (tmp_path / "mine.toml").read_text()
    again = bdes("init", "mine.toml", cwd=tmp_path)
    assert again.returncode == 2
    assert "already there" in again.stderr
    assert (tmp_path / "mine.toml").read_text() == before


def test_the_schema_accepts_the_starter_and_refuses_a_misspelling(tmp_path: Path) -> None:
    import tomllib

    import jsonschema

    schema = json.loads(bdes("schema").stdout)
    bdes("init", "mine.toml", cwd=tmp_path)
    tables = tomllib.loads((tmp_path / "mine.toml").read_text())
    jsonschema.validate(tables, schema)
    tables["environments"][0]["lamb"] = tables["environments"][0].pop("lam")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tables, schema)


def test_a_run_whose_cells_fail_exits_1_and_names_them(tmp_path: Path, good_plugin: Good) -> None:
    source = good_plugin("mine").replace("np.zeros(limit", "5 + np.ones(limit")
    (tmp_path / "mine.py").write_text(source)
    (tmp_path / "run.toml").write_text(FILE)
    done = bdes("run", "run.toml", cwd=tmp_path)
    assert done.returncode == 1
    assert "round 0 (counted from 0): ask returned arm 6; arms go from 0 to 1" in done.stderr
    assert "6 of 6 cells failed" in done.stderr


def test_a_wrong_file_exits_2_without_a_traceback(tmp_path: Path) -> None:
    for content in ("", "x = [", "seed = 1", "\x00", 'name = "a"\nseed = "b"'):
        (tmp_path / "run.toml").write_text(content)
        done = bdes("run", "run.toml", cwd=tmp_path)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert "run.toml" in done.stderr
