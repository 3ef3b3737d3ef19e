"""``bdes report`` and ``bdes plot``: what they write, and their errors."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bdes_framework.cli import main

Bdes = Callable[..., tuple[int, str, str]]

BOTH = pytest.mark.parametrize(
    "command", [["report"], ["plot", "--chart", "regret", "-o", "x.svg"]]
)


@pytest.fixture
def bdes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Bdes:
    """Return the command line, in this process: exit code, output and errors."""
    monkeypatch.chdir(tmp_path)

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


def test_report_is_written_again_at_its_path(
    bdes: Bdes, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(plain.parent)
    for _ in range(2):
        assert bdes("report", "run", "--paths", 1) == (0, "run/report.html\n", "")
    assert "<title>plain</title>" in (plain / "report.html").read_text()
    assert not list(plain.glob("*.tmp"))


def test_report_keeps_foreign_files_unless_asked(bdes: Bdes, plain: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.html"
    mine.write_text("my own page")
    code, _, error = bdes("report", plain, "--out", mine, "--paths", 0)
    assert code == 2
    assert "is no report; --overwrite replaces it" in error
    assert mine.read_text() == "my own page"
    assert bdes("report", plain, "--out", mine, "--paths", 0, "--overwrite")[0] == 0
    assert "<title>plain</title>" in mine.read_text()


@BOTH
@pytest.mark.parametrize("missing", ["altair", "jinja2", "vl_convert"])
def test_missing_extra_is_named(
    bdes: Bdes, command: list[str], missing: str, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "bdes_framework.cli.report.find_spec", lambda name: None if name == missing else name
    )
    code, _, error = bdes(*command, plain)
    assert code == 2
    assert f"charts need {missing}: install 'bdes-framework[report]'" in error


@pytest.mark.parametrize(
    ("chart", "words"),
    [
        ("final", ["mean DES regret (expected reward lost)", "etc", "bernoulli, T = 4,000"]),
        ("regret", ["round", "etc"]),
        ("loglog", ["horizon T (rounds)", "etc"]),
        ("path", ["share of pulls"]),
        ("gap", ["proven gap / benchmark"]),
    ],
)
def test_plot_names_axes_in_svg(bdes: Bdes, chart: str, words: list[str], plain: Path) -> None:
    assert bdes("plot", plain, "--chart", chart, "-o", "x.svg") == (0, "wrote x.svg\n", "")
    assert [word for word in words if word not in Path("x.svg").read_text()] == []


def test_plot_draws_across_lam_as_png(bdes: Bdes, hostile: Path) -> None:
    assert bdes("plot", hostile, "--chart", "lam", "-o", "lam.png")[0] == 0
    assert Path("lam.png").read_bytes().startswith(b"\x89PNG")


PLOT = "plot --chart"


@pytest.mark.parametrize(
    ("which", "command", "words"),
    [
        (None, "report", "is not a run"),
        (None, f"{PLOT} regret -o x.svg", "is not a run"),
        ("plain", "report --out no/where.html --paths 0", "cannot write"),
        ("plain", f"{PLOT} lam -o x.svg", "differ in lam alone"),
        ("plain", f"{PLOT} regret -o x.pdf", "must end in .svg or .png"),
        ("plain", f"{PLOT} regret -o x.svg --policy ucb", "Did you mean 'ucb1'?"),
        ("plain", f"{PLOT} regret -o x.svg --horizon 5", "It has: 100, 1000, 4000"),
        ("hostile", f"{PLOT} path -o x.svg", "--experiment"),
        ("hostile", f"{PLOT} regret -o x.svg --policy failing", "have no figure"),
    ],
)
def test_wrong_request_exits_2_and_writes_nothing(
    bdes: Bdes, which: str | None, command: str, words: str, request: pytest.FixtureRequest
) -> None:
    code, _, error = bdes(*command.split(), request.getfixturevalue(which) if which else "nowhere")
    assert code == 2
    assert words in error
    assert list(Path().iterdir()) == []
