"""``bdes report`` and ``bdes plot``: write a run as an HTML page, or one chart as a picture."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from stat import S_ISREG
from typing import Any

import click

from bdes_framework._internal.files import replace_file, replace_text
from bdes_framework.cli.options import PATH, echo
from bdes_framework.experiment.results import load_run
from bdes_framework.report.data import RunData

CHARTS = {
    "final": "each policy at the horizon, with its interval",
    "regret": "mean regret over rounds, with bands",
    "loglog": "regret over horizons on log scales, with fitted slopes",
    "lam": "regret across lam",
    "path": "the state and the arms of one cell over rounds",
    "gap": "how far from optimal the benchmark can be",
}


_ONLY = "Only this one; may be given again."
_PATHS = click.IntRange(min=0)
_PATHS_HELP = "How many cells to replay at most, to show their states and arms."
_FILE_HELP = "The file the run was made from: needed to replay cells if it loads local modules."
_EXPERIMENT = click.option("--experiment", type=PATH, metavar="FILE", help=_FILE_HELP)


def need_charts() -> None:
    """Raise UsageError if the packages of the extra ``report`` are missing."""
    missing = [name for name in ("altair", "jinja2", "vl_convert") if find_spec(name) is None]
    if missing:
        raise click.UsageError(
            f"charts need {' and '.join(missing)}: install 'bdes-framework[report]'"
        )


@click.command()
@click.argument("run", type=PATH)
@click.option("--out", type=PATH, help="By default report.html in the run's folder.")
@_EXPERIMENT
@click.option("--paths", type=_PATHS, default=60, show_default=True, help=_PATHS_HELP)
@click.option("--overwrite", is_flag=True, help="Overwrite FILE even if it is no report.")
def report(run: Path, **options: Any) -> None:
    """Write RUN as one HTML page: tables and interactive charts, for any browser, offline."""
    need_charts()
    with load_run(run) as opened:
        write_report(RunData(opened), **options)


def write_report(
    data: RunData, out: Path | None = None, *, overwrite: bool = False, **settings: Any
) -> None:
    """Write a run's page with these settings, and print its path."""
    from bdes_framework.report.page import MARK, Settings, report_page

    file = out or data.run.folder / "report.html"
    if not overwrite:
        _check_is_report(file, MARK)
    with _progress() as on_step:
        page = report_page(data, Settings(**settings), on_step)
    replace_text(file, page)
    echo(str(file))


def _check_is_report(file: Path, mark: str) -> None:
    """Raise UsageError if the file exists and is no report."""
    try:
        is_report = S_ISREG(file.lstat().st_mode)  # a link is not followed, a pipe not waited for
        if is_report:
            with file.open(encoding="utf-8", errors="replace") as opened:
                is_report = mark in opened.read(2_000)
    except FileNotFoundError:
        return
    except OSError as error:
        raise click.UsageError(f"cannot write {file}: {error.strerror}") from None
    if not is_report:
        raise click.UsageError(f"{file} is no report; --overwrite replaces it all the same")


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """Show progress, on a terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task("reading the run", total=None)

        def on_step(what: str, done: int, total: int) -> None:
            known = total if total > 1 else None
            progress.update(task, description=what, completed=done, total=known)

        yield on_step


@click.command(epilog="Charts: " + "; ".join(f"{name}, {text}" for name, text in CHARTS.items()))
@click.argument("run", type=PATH)
@click.option("--chart", required=True, type=click.Choice(list(CHARTS)), help="Which chart.")
@click.option("-o", "--out", required=True, type=PATH, help="FILE.svg or FILE.png.")
@click.option("--environment", "environments", multiple=True, metavar="LABEL", help=_ONLY)
@click.option("--policy", "policies", multiple=True, metavar="LABEL", help=_ONLY)
@click.option("--horizon", type=int, help="The longest by default.")
@click.option("--replication", type=click.IntRange(min=0), default=0, help="For path: which one.")
@_EXPERIMENT
@click.option("--title", default="", help="A line above the chart.")
@click.option("--width", type=click.IntRange(100, 4000), help="Of a panel, pixels.")
@click.option("--height", type=click.IntRange(60, 4000), default=260, help="Of a panel, pixels.")
@click.option("--theme", type=click.Choice(["light", "dark"]), default="light")
def plot(run: Path, chart: str, out: Path, **choices: Any) -> None:
    """Save a chart of RUN as a picture."""
    form = out.suffix.lower().removeprefix(".")
    if form not in ("svg", "png"):
        raise click.UsageError(f"{out}: the file's name must end in .svg or .png")
    need_charts()
    from bdes_framework.report.pictures import Choice, picture, save

    with load_run(run) as found:
        drawn = picture(RunData(found), chart, Choice(**choices))
    replace_file(out, lambda path: save(drawn, path, form))
    echo(f"wrote {out}")
