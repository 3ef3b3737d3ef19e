"""``bdes report`` and ``bdes plot``: a run as one HTML page, and its charts as pictures."""

from importlib.util import find_spec
from pathlib import Path

import click

from bdes_framework.cli.files import replace_file
from bdes_framework.report import CHARTS
from bdes_framework.results import load_run

_FILE = click.Path(path_type=Path)


def _need_charts() -> None:
    missing = [name for name in ("altair", "vl_convert") if find_spec(name) is None]
    if missing:
        raise click.UsageError(
            f"charts need {' and '.join(missing)}: install 'bdes-framework[report]'"
        )


@click.command(epilog="Charts: " + "; ".join(f"{name}, {text}" for name, text in CHARTS.items()))
@click.argument("run", type=_FILE)
@click.option("--chart", required=True, type=click.Choice(list(CHARTS)), help="Which chart.")
@click.option("-o", "--out", required=True, type=_FILE, help="FILE.svg or FILE.png.")
@click.option(
    "--environment",
    "environments",
    multiple=True,
    metavar="LABEL",
    help="Only this environment; may be given again.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="LABEL",
    help="Only this policy; may be given again.",
)
@click.option("--horizon", type=int, help="The longest by default.")
@click.option(
    "--replication", type=click.IntRange(min=0), default=0, help="For path: which repetition."
)
@click.option(
    "--experiment",
    type=_FILE,
    metavar="FILE",
    help="For path: the file the run was made from, if it loads local modules.",
)
@click.option("--title", default="", help="A line above the chart.")
@click.option("--width", type=click.IntRange(100, 4000), default=None, help="Of a panel, pixels.")
@click.option("--height", type=click.IntRange(60, 4000), default=260, help="Of a panel, pixels.")
@click.option("--theme", type=click.Choice(["light", "dark"]), default="light")
def plot(
    run: Path, chart: str, out: Path, width: int | None, **choices: object
) -> None:  # fmt: skip
    """Save a chart of RUN as a picture."""
    form = out.suffix.lower().removeprefix(".")
    if form not in ("svg", "png"):
        raise click.UsageError(f"{out}: the file's name must end in .svg or .png")
    _need_charts()
    from bdes_framework.report.data import RunData
    from bdes_framework.report.pictures import Choice, picture, save

    found = load_run(run)
    try:
        drawn = picture(RunData(found), chart, Choice(width=width or 0, **choices))  # type: ignore[arg-type]
    finally:
        found.close()
    replace_file(out, lambda path: save(drawn, path, form))
    click.echo(f"wrote {out}")
