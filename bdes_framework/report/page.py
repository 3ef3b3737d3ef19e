"""The report: one HTML file that loads nothing and runs no script but its own."""

import base64
import hashlib
import shlex
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import jinja2
from attrs import frozen

from bdes_framework._version import __version__
from bdes_framework.report import tables
from bdes_framework.report.bundle import vega_script
from bdes_framework.report.data import RunData
from bdes_framework.report.figures import Figures
from bdes_framework.report.names import clipped
from bdes_framework.report.slopes import fit_slopes
from bdes_framework.report.trajectories import Trajectories, first_cells, replay_trajectories

MARK = '<meta name="generator" content="bdes-framework report">'
"""What every report has near its beginning; a file without it is somebody else's."""

_SECTIONS = {
    "run": "What was run",
    "won": "Who won",
    "growth": "",
    "lam": "Across lam",
    "paths": "States and arms",
    "gap": "The benchmark",
    "diagnostics": "Diagnostics",
    "failures": "Failures",
}
_SECTIONS_WITHOUT_RESULTS = {name: _SECTIONS[name] for name in ("run", "failures")}

_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("bdes_framework.report", "assets"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)
_TEMPLATES.filters["clip"] = clipped
_TEMPLATES.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}

PATH_SECONDS = 20.0
CELLS_SHOWN = 60


@frozen
class Settings:
    """How a report is made.

    Parameters
    ----------
    paths : int
        How many cells to play again at most, for their paths.
    seconds : float
        For how long, at most.
    experiment : path or None
        The file the run was made from.
    """

    paths: int = CELLS_SHOWN
    seconds: float = PATH_SECONDS
    experiment: Path | None = None


Step = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""


def report_page(
    data: RunData, settings: Settings, on_step: Step = lambda what, done, total: None
) -> str:
    """Return the whole page."""
    paths = Trajectories()
    if settings.paths:
        paths = replay_trajectories(
            data,
            first_cells(settings.paths),
            experiment=settings.experiment,
            seconds=settings.seconds,
            on_cell=lambda done, total: on_step("playing cells again", done, total),
        )
    on_step("reading curves", 0, 1)
    fits = fit_slopes(data.records)
    figures = Figures(data)
    figures.add_final()
    figures.add_regret()
    figures.add_loglog(fits)
    figures.add_lam()
    figures.add_paths(paths.found)
    figures.add_gap()
    on_step("putting the page together", 0, 1)
    has_panels, has_regret = bool(data.panels()), tables.has_regret(data)
    over_time = "Regret over time" if has_regret else "Reward over time"
    style, script, vega = _asset("report.css"), _asset("report.js"), vega_script()
    return _TEMPLATES.get_template("report.html").render(
        title=data.run.name,
        version=__version__,
        policy="default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"script-src {_content_hash(vega)} {_content_hash(script)}; "
        f"style-src {_content_hash(style)}",
        style=style,
        script=script,
        vega=vega,
        script_data=figures.script_data(),
        sections=_SECTIONS | {"growth": over_time} if has_panels else _SECTIONS_WITHOUT_RESULTS,
        headline=tables.headline(data),
        policies=data.policies,
        has_panels=has_panels,
        has_regret=has_regret,
        n_horizons=len(data.horizons),
        facts=tables.facts(data),
        command=_command(settings),
        experiment=_experiment_text(data),
        run_tables=tables.run_tables(data),
        options=figures.options,
        n_left_out=figures.left_out,
        standings=tables.standings_table(data),
        slopes=tables.slope_table(data, fits),
        not_replayed=paths.reasons,
        benchmark_errors=data.run.benchmark_errors(),
        gaps=tables.gap_table(data),
        diagnostics=tables.diagnostics_table(data),
        n_missing=data.run.n_cells - len(data.records),
        n_finished=len(data.records),
        n_failed=sum(record.error is not None for record in data.records),
        failures=tables.failure_table(data),
    )


def _experiment_text(data: RunData) -> str:
    try:
        text = (data.run.folder / "experiment.toml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return "The run's folder has no experiment.toml that can be read."
    return "\n".join(clipped(line, 400) for line in text[:100_000].splitlines())


def _command(settings: Settings) -> str:
    """Return what to type; where the experiment file was is its owner's business."""
    name = settings.experiment or Path("experiment.toml")
    shown = name.name if name.is_absolute() else str(name)
    return f"bdes run {shlex.quote(shown)}"


def _content_hash(content: str) -> str:
    """Return the hash by which a Content-Security-Policy allows one script or style."""
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _asset(name: str) -> str:
    return (files("bdes_framework.report") / "assets" / name).read_text(encoding="utf-8")
