"""``bdes report`` and ``bdes plot``: what they write, and their errors."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bdes_framework._internal import files as files_module
from bdes_framework.experiment.store import Store
from tests.support.command import bdes
from tests.support.reports import make_run

PLOT = "plot --chart"


def test_report_is_written_again_at_its_path(plain: Path) -> None:
    for _ in range(2):
        done = bdes("report", "run", "--paths", "1", cwd=plain.parent)
        assert (done.returncode, done.stdout, done.stderr) == (0, "run/report.html\n", "")
    assert "<title>plain</title>" in (plain / "report.html").read_text()
    assert not list(plain.glob("*.tmp"))


@pytest.mark.parametrize(
    ("command", "n_runs"),
    [
        ("run experiment.toml --out new --engine serial --no-reuse --report", 1),
        ("report run --paths 1", 1),
        ("plot run --chart regret -o x.svg", 1),
        ("compare run run", 2),
    ],
)
def test_cells_and_files_are_read_once(
    command: str, n_runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path)
    reads: Counter[object] = Counter()

    def counted(read: Callable[..., Any]) -> Callable[..., Any]:
        def read_counted(of: Any, *arguments: Any, **more: Any) -> Any:
            reads[arguments[0] if isinstance(of, Store) else of.absolute()] += 1
            return read(of, *arguments, **more)

        return read_counted

    for owner, name in ((Store, "result"), (files_module, "_content")):
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))
    assert bdes(*command.split(), cwd=tmp_path).returncode == 0
    cells = {key: n for key, n in reads.items() if isinstance(key, str)}
    files = {f: n for f, n in reads.items() if isinstance(f, Path) and f.is_relative_to(tmp_path)}
    assert len(cells) == 30
    assert files
    assert {*cells.values(), *files.values()} == {n_runs}


def test_report_keeps_foreign_files_unless_asked(plain: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.html"
    mine.write_text("my own page")
    command = "report", str(plain), "--out", str(mine), "--paths", "0"
    done = bdes(*command)
    assert done.returncode == 2
    assert "is no report; --overwrite replaces it" in done.stderr
    assert mine.read_text() == "my own page"
    assert bdes(*command, "--overwrite").returncode == 0
    assert "<title>plain</title>" in mine.read_text()


@pytest.mark.parametrize("command", ["report", f"{PLOT} regret -o x.svg"])
@pytest.mark.parametrize("missing", ["altair", "jinja2", "vl_convert"])
def test_missing_extra_is_named(
    command: str, missing: str, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "bdes_framework._internal.upwards.find_spec", lambda name: None if name == missing else name
    )
    done = bdes(*command.split(), str(plain))
    assert done.returncode == 2
    assert f"charts need {missing}: install 'bdes-framework[report]'" in done.stderr


@pytest.mark.parametrize(
    ("chart", "words"),
    [
        ("final", ["mean DES regret (expected reward lost)", "etc", "bernoulli, T = 4,000"]),
        ("regret", ["round", "etc"]),
        ("loglog", ["horizon T (rounds)", "etc"]),
        ("path", ["share of pulls"]),
        ("gap", ["proven gap / upper bound"]),
    ],
)
def test_plot_names_axes_in_svg(chart: str, words: list[str], plain: Path, tmp_path: Path) -> None:
    done = bdes("plot", str(plain), "--chart", chart, "-o", "x.svg", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "wrote x.svg\n", "")
    assert [word for word in words if word not in (tmp_path / "x.svg").read_text()] == []


def test_plot_draws_across_lam_as_png(hostile: Path, tmp_path: Path) -> None:
    file = tmp_path / "lam.png"
    assert bdes("plot", str(hostile), "--chart", "lam", "-o", str(file)).returncode == 0
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("command", "panels"),
    [
        ("", ["bernoulli, T = 200", "bernoulli, T = 50"]),
        ("--horizon 50", ["bernoulli, T = 50"]),
        ("--chart lam", ["bernoulli, T = 200"]),
        ("--chart regret --where lam=0.3", ["bernoulli, lam = 0.3, T = 200"]),
        ("--chart loglog --where lam=0.3 --where T=50", ["bernoulli, lam = 0.3"]),
        ("--chart regret", ["bernoulli, lam = 0.05, T = 200", "bernoulli, lam = 0.3, T = 200"]),
        ("--chart final", ["bernoulli, lam = 0.05, T = 200", "bernoulli, lam = 0.3, T = 200"]),
        ("--chart loglog", ["bernoulli, lam = 0.05", "bernoulli, lam = 0.3"]),
    ],
)
def test_plot_has_a_panel_per_setting_not_instance(
    command: str, panels: list[str], study: Path, tmp_path: Path
) -> None:
    done = bdes("plot", str(study), *command.split(), "-o", "x.svg", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    texts = re.findall(r">([^<]*)</text>", (tmp_path / "x.svg").read_text())
    assert [text for text in texts if text.startswith("bernoulli")] == panels


def test_plot_is_as_wide_as_a_column(study: Path, tmp_path: Path) -> None:
    for name in ("x.svg", "x.pdf"):
        done = bdes("plot", str(study), "--width-mm", "84", "-o", name, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
    svg, pdf = (tmp_path / "x.svg").read_text(), (tmp_path / "x.pdf").read_bytes()
    (pixels,) = re.findall(r'^<svg[^>]* width="([\d.]+)"', svg)
    (points,) = re.findall(rb"/MediaBox\s*\[0 0 ([\d.]+)", pdf)
    assert pdf.startswith(b"%PDF")
    assert float(pixels) * 25.4 / 96 == pytest.approx(84, abs=1)
    assert float(points) * 25.4 / 72 == pytest.approx(84, abs=1)
    done = bdes("plot", str(study), "--width-mm", "40", "-o", "y.svg", cwd=tmp_path)
    assert done.returncode == 2
    assert "too narrow" in done.stderr


@pytest.mark.parametrize(
    ("which", "command", "words"),
    [
        ("tmp_path", "report", "is not a run"),
        ("tmp_path", f"{PLOT} regret -o x.svg", "is not a run"),
        ("plain", "report --out no/where.html --paths 0", "cannot write"),
        ("plain", f"{PLOT} lam -o x.svg", "lam does not vary"),
        ("plain", f"{PLOT} regret -o x.gif", "must end in .svg, .png or .pdf"),
        ("plain", f"{PLOT} regret -o x.svg --policy ucb", "Did you mean 'ucb1'?"),
        ("plain", f"{PLOT} regret -o x.svg --horizon 5", "It has: 100, 1000, 4000"),
        ("study", "plot -o x.svg --where K=4", "'K' does not vary. What varies: T, lam"),
        ("study", "plot -o x.svg --where lam=4", "lam has the values 0.05, 0.3"),
        ("hostile", f"{PLOT} path -o x.svg", "--experiment"),
        ("hostile", f"{PLOT} regret -o x.svg --policy failing", "have no figure"),
    ],
)
def test_wrong_request_exits_2_and_writes_nothing(
    which: str, command: str, words: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    done = bdes(*command.split(), str(request.getfixturevalue(which)), cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert list(tmp_path.iterdir()) == []
