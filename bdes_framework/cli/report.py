"""``bdes report`` and ``bdes plot``: write a run as an HTML page, or one chart as a picture."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import click

from bdes_framework._internal.files import replace_file
from bdes_framework._internal.upwards import missing_packages
from bdes_framework.cli.completion import complete_labels
from bdes_framework.cli.options import PATH, RunType, echo
from bdes_framework.cli.progress import progress
from bdes_framework.experiment.results import load_run
from bdes_framework.report.data import RunData

CHARTS = {
    "share": "each policy's share of OPT across lam, or what else varies",
    "final": "each policy at the horizon, with its interval",
    "regret": "mean regret over rounds or visits, with bands",
    "loglog": "regret over horizons on log scales, with fitted slopes",
    "lam": "regret across lam",
    "path": "the state and the arms of one cell over rounds, or of many users over visits",
    "users": "of many users: mean regret over users, in the order they first came",
    "cohorts": "of many users: what those who came later bring, as a share of OPT",
    "gap": "how far from optimal the benchmark can be",
}


_ONLY = "Only this one; may be given again."
_PATHS = click.IntRange(min=0)
_PATHS_HELP = "How many cells to replay at most, to show their states and arms."
_FILE_HELP = "The file the run was made from: needed to replay cells if it loads local modules."
_EXPERIMENT = click.option("--experiment", type=PATH, metavar="FILE", help=_FILE_HELP)


def need_charts() -> None:
    """Raise UsageError if the packages of the extra ``report`` are missing."""
    missing = missing_packages()
    if missing:
        raise click.UsageError(
            f"charts need {' and '.join(missing)}: install 'bdes-framework[report]'"
        )


class _ChartedRunType(RunType):
    """A run to draw: what is missing for charts is said before the run is looked for."""

    def convert(
        self, value: str | PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | PathLike[str]:
        need_charts()
        return super().convert(value, param, ctx)


CHARTED_RUN = _ChartedRunType(path_type=Path)


@click.command()
@click.argument("run", type=CHARTED_RUN)
@click.option("--out", type=PATH, help="By default report.html in the run's folder.")
@_EXPERIMENT
@click.option("--paths", type=_PATHS, default=60, show_default=True, help=_PATHS_HELP)
@click.option("--overwrite", is_flag=True, help="Overwrite FILE even if it is no report.")
def report(run: Path, **options: Any) -> None:
    """Write RUN as one HTML page: tables and interactive charts, for any browser, offline."""
    with load_run(run) as opened:
        write_report(RunData(opened), **options)


def write_report(
    data: RunData,
    out: Path | None = None,
    *,
    overwrite: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> None:
    """Write a run's page with these settings, and print its path."""
    from bdes_framework.report.from_python import write_page
    from bdes_framework.report.page import Settings

    with progress(quiet=quiet) as shown:

        def on_step(what: str, done: int, total: int) -> None:
            if done == 0 or shown.status() != what:
                shown.begin("writing the report", total if total > 1 else 0, lambda: what)
            shown.advance(done)

        on_step("reading the run", 0, 1)
        file = write_page(data, out, Settings(**settings), overwrite=overwrite, on_step=on_step)
    echo(str(file))


@click.command(epilog="Charts: " + "; ".join(f"{name}, {text}" for name, text in CHARTS.items()))
@click.argument("run", type=CHARTED_RUN)
@click.option(
    "--chart",
    type=click.Choice(list(CHARTS)),
    default="share",
    show_default=True,
    help="Which chart.",
)
@click.option("-o", "--out", required=True, type=PATH, help="FILE.svg, FILE.png or FILE.pdf.")
@click.option(
    "--environment",
    "environments",
    multiple=True,
    metavar="LABEL",
    help=_ONLY,
    shell_complete=complete_labels("environment"),
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="LABEL",
    help=_ONLY,
    shell_complete=complete_labels("policy"),
)
@click.option("--where", multiple=True, metavar="NAME=VALUE", help="Only where, such as K=5.")
@click.option("--horizon", type=int, help="The longest by default.")
@click.option("--replication", type=click.IntRange(min=0), default=0, help="For path: which one.")
@_EXPERIMENT
@click.option("--title", default="", help="A line above the chart.")
@click.option("--width", type=click.IntRange(100, 4000), help="Of a panel, pixels.")
@click.option(
    "--width-mm",
    type=click.FloatRange(40, 1000),
    help="Of the whole picture: 84 fits a column of most journals.",
)
@click.option("--height", type=click.IntRange(60, 4000), default=260, help="Of a panel, pixels.")
@click.option("--theme", type=click.Choice(["light", "dark"]), default="light")
def plot(run: Path, chart: str, out: Path, environments: Sequence[str], **choices: Any) -> None:
    """Save a chart of RUN as a picture."""
    form = out.suffix.lower().removeprefix(".")
    if form not in ("svg", "png", "pdf"):
        raise click.UsageError(f"{out}: the file's name must end in .svg, .png or .pdf")
    from bdes_framework.report.pictures import Choice, picture, save

    with load_run(run) as found:
        drawn = picture(RunData(found, environments), chart, Choice(**choices))
    replace_file(out, lambda path: save(drawn, path, form))
    echo(f"wrote {out}")
