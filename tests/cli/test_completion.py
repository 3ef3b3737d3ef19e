"""Completion in shells, asked for as click's scripts ask."""

import contextlib
import io
import os
import sys
from pathlib import Path
from unittest import mock

import pytest

from bdes_framework.cli import main
from tests.support.command import bdes
from tests.support.experiments import Install, good_plugin, run_demo, write_experiment


def answer(cwd: Path, **settings: str) -> str:
    """Return what ``bdes`` answers a shell that has set these variables; never an error."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with (
        contextlib.chdir(cwd),
        mock.patch.dict(os.environ, settings),
        mock.patch.object(sys, "argv", ["bdes"]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as end,
    ):
        main()
    assert (end.value.code, err.getvalue()) == (0, "")
    out.seek(0)
    return out.read()


def completions(line: str, cwd: Path, shell: str = "fish", **settings: str) -> list[str]:
    """Return what completes the last word of a line, without what is said of each."""
    words = line.split(" ")
    word = str(len(words) - 1) if shell == "bash" else words[-1]
    asked = {"_BDES_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, "COMP_CWORD": word}
    found = answer(cwd, **asked, **settings).splitlines()
    return [each[6:].partition("\t")[0] for each in found if each.startswith("plain,")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("bdes pl", ["plugins", "plan", "plot"]),
        ("bdes run --q", ["--quiet"]),
        ("bdes run --engine ", ["serial", "processes", "dask"]),
        ("bdes plan --planner ce", ["certified"]),
        ("bdes plugins show poster", ["posterior"]),
        ("bdes plugins show bdes_eng", ["bdes_engines"]),
        ("bdes plugins --disable bdes-f", ["bdes-framework"]),
        ("bdes plot one --chart l", ["loglog", "lam"]),
        ("bdes show ", ["latest", "one", "two"]),
        ("bdes compare one t", ["two"]),
        ("bdes plot two --policy ", ["mine", "a b"]),
        ("bdes plot latest --environment ber", ["bernoulli"]),
        # What is wrong elsewhere is said when the command is run.
        ("bdes plot nowhere --policy ", []),
        ("bdes nonsense ", []),
    ],
)
def test_names_complete(runs: Path, line: str, expected: list[str]) -> None:
    assert completions(line, runs) == expected


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with runs ``one`` and ``two``, whose policies have labels."""
    folder = tmp_path_factory.mktemp("completion")
    (folder / "mine.py").write_text(good_plugin("mine"))
    second = 'use = "mine"\n[[policies]]\nuse = "mine"\nlabel = "a b"'
    write_experiment(folder, ('use = "mine"', second), ("[10, 50]", "[10]"))
    for name in ("one", "two"):
        run_demo(folder, f"runs/{name}").close()
    return folder


def test_bash_gets_labels_quoted(runs: Path) -> None:
    assert completions("bdes plot two --policy a", runs, "bash") == ["'a b'"]


def test_paths_are_left_to_the_shell(runs: Path) -> None:
    asked = {"_BDES_COMPLETE": "fish_complete", "COMP_WORDS": "bdes run x", "COMP_CWORD": "x"}
    assert answer(runs, **asked) == "file,x\n"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_shells_get_their_script(shell: str, tmp_path: Path) -> None:
    script = answer(tmp_path, _BDES_COMPLETE=f"{shell}_source")
    assert f"_BDES_COMPLETE={shell}_complete" in script


def test_completing_imports_no_code_of_third_parties(install: Install, tmp_path: Path) -> None:
    tale = "from pathlib import Path\nPath(__file__).with_suffix('.imported').touch()\n"
    site = install("acme-one", tale + good_plugin("acme"))
    install("broken-one", "raise OSError('no disk')")
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    line = "bdes plugins show acm"
    assert completions(line, tmp_path, **cache) == ["acme_one", "acme-one"]
    assert not (site / "acme_one.imported").exists()
    bdes("plugins", settings=cache)  # which imports it, and notes what it registers
    (site / "acme_one.imported").unlink()
    sys.modules.pop("acme_one")
    assert completions(line, tmp_path, **cache) == ["acme", "acme_one", "acme-one"]
    assert not (site / "acme_one.imported").exists()
    for damage in ("", "{", "[1]", '{"acme_one of acme-one 1.0": 3}'):
        (next((tmp_path / "cache").rglob("names-*.json"))).write_text(damage)
        assert completions(line, tmp_path, **cache) == ["acme_one", "acme-one"]
