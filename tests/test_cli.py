"""The command line, run as people run it: a real process, its output and its exit code."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, Install
from tests.test_plugins import BROKEN

Good = Callable[[str], str]


def bdes(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"COLUMNS": "200", "NO_COLOR": "1"}
    command = [sys.executable, "-c", "from bdes_framework.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment)


def test_help_fits_one_screen_and_names_every_command() -> None:
    done = bdes("--help")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) <= 24
    assert "plugins " in done.stdout
    assert "run " in done.stdout


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
    text = (REPOSITORY / "examples" / "demo.toml").read_text()
    text = text[: text.index("[[policies]]")].replace('modules = ["./first_policy.py"]', "")
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
    assert line.split() == ["q0", "float", "1.0", "The", "state", "at", "the", "first", "pull."]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("lam")]
    assert "required" in line


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


def test_the_demo_runs_and_prints_a_table() -> None:
    done = bdes("run", str(REPOSITORY / "examples" / "demo.toml"))
    assert done.returncode == 0, done.stderr
    assert "one of each" in done.stdout
    assert "±" in done.stdout


def test_a_run_whose_cells_fail_exits_1_and_names_them(tmp_path: Path, good_plugin: Good) -> None:
    source = good_plugin("mine").replace("np.zeros(limit", "np.ones(limit")
    (tmp_path / "first_policy.py").write_text(source.replace("np.ones(limit", "5 + np.ones(limit"))
    text = (REPOSITORY / "examples" / "demo.toml").read_text()
    text = text[: text.index("[[policies]]")] + '[[policies]]\nuse = "mine"\n'
    (tmp_path / "run.toml").write_text(text)
    done = bdes("run", "run.toml", cwd=tmp_path)
    assert done.returncode == 1
    assert "round 0: ask returned arm 6; arms go from 0 to 1" in done.stderr
    assert "20 of 20 cells failed" in done.stderr


def test_a_wrong_file_exits_2_without_a_traceback(tmp_path: Path) -> None:
    for content in ("", "x = [", "seed = 1", "\x00", 'name = "a"\nseed = "b"'):
        (tmp_path / "run.toml").write_text(content)
        done = bdes("run", "run.toml", cwd=tmp_path)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert "run.toml" in done.stderr
