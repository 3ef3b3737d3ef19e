"""``bdes report`` and ``bdes plot``: what they write and what they refuse."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bdes_framework import load_run
from bdes_framework.cli import main
from bdes_framework.report.data import (
    RunData,
)
from bdes_framework.report.pictures import Choice, picture, save

Bdes = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bdes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Bdes:
    """Return the command line, in this process: exit code, output and errors."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["bdes", *map(str, arguments)])
        code: object = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        assert isinstance(code, int)
        return code, *capsys.readouterr()

    return run


def test_report_prints_its_path_and_may_be_written_again(
    bdes: Bdes, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(plain.parent)
    for _ in range(2):
        assert bdes("report", "run", "--paths", 1) == (0, "run/report.html\n", "")
    assert "<title>plain</title>" in (plain / "report.html").read_text()
    assert not list(plain.glob("*.tmp"))


def test_report_overwrites_nothing_but_reports_unless_asked(
    bdes: Bdes, plain: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.html"
    mine.write_text("my own page")
    code, _, error = bdes("report", plain, "--out", mine, "--paths", 0)
    assert code == 2
    assert "is no report; --overwrite replaces it" in error
    assert mine.read_text() == "my own page"
    assert bdes("report", plain, "--out", mine, "--paths", 0, "--overwrite")[0] == 0
    assert "<title>plain</title>" in mine.read_text()


@pytest.mark.parametrize("command", [["report"], ["plot", "--chart", "regret", "-o", "x.svg"]])
def test_what_is_no_run_exits_2(bdes: Bdes, command: list[str], tmp_path: Path) -> None:
    code, _, error = bdes(*command, tmp_path / "nowhere")
    assert code == 2
    assert "is not a run" in error
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_cannot_be_written_exits_2_and_leaves_the_old_one(
    bdes: Bdes, plain: Path, tmp_path: Path
) -> None:
    code, _, error = bdes("report", plain, "--out", tmp_path / "no/where.html", "--paths", 0)
    assert code == 2
    assert "cannot write" in error


@pytest.mark.parametrize("command", [["report"], ["plot", "--chart", "regret", "-o", "x.svg"]])
@pytest.mark.parametrize("missing", ["altair", "jinja2", "vl_convert"])
def test_without_the_extra_the_error_names_it(
    bdes: Bdes, command: list[str], missing: str, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "bdes_framework.cli.report.find_spec", lambda name: None if name == missing else name
    )
    code, _, error = bdes(*command, plain)
    assert code == 2
    assert f"charts need {missing}: install 'bdes-framework[report]'" in error


@pytest.mark.parametrize("chart", ["final", "regret", "loglog", "path", "gap"])
def test_every_chart_is_saved_as_svg_with_its_axes_named(
    chart: str, plain: Path, tmp_path: Path
) -> None:
    run = load_run(plain)
    drawn = picture(RunData(run), chart, Choice())
    run.close()
    save(drawn, tmp_path / "x.svg", "svg")
    text = (tmp_path / "x.svg").read_text()
    axis = {
        "final": "mean DES regret (expected reward lost)",
        "regret": "round",
        "loglog": "horizon T (rounds)",
        "path": "share of pulls",
        "gap": "proven gap / benchmark",
    }[chart]
    assert axis in text
    if chart in ("final", "regret", "loglog"):
        assert "etc" in text
    if chart == "final":
        assert "bernoulli, T = 4,000" in text


def test_plot_draws_across_lam_as_png(bdes: Bdes, hostile: Path, tmp_path: Path) -> None:
    out = tmp_path / "lam.png"
    assert bdes("plot", hostile, "--chart", "lam", "-o", out)[0] == 0
    assert out.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("which", "arguments", "words"),
    [
        ("plain", ["lam", "-o", "x.svg"], "differ in lam alone"),
        ("plain", ["regret", "-o", "x.pdf"], "must end in .svg or .png"),
        ("plain", ["regret", "-o", "x.svg", "--policy", "ucb"], "Did you mean 'ucb1'?"),
        ("plain", ["regret", "-o", "x.svg", "--horizon", "5"], "It has: 100, 1000, 4000"),
        ("hostile", ["path", "-o", "x.svg"], "--experiment"),
        ("hostile", ["regret", "-o", "x.svg", "--policy", "failing"], "have no figure"),
    ],
)
def test_plot_refuses_what_cannot_be_drawn(
    bdes: Bdes, which: str, arguments: list[str], words: str, request: pytest.FixtureRequest
) -> None:
    code, _, error = bdes("plot", request.getfixturevalue(which), "--chart", *arguments)
    assert code == 2
    assert words in error
    assert not Path("x.svg").exists()
