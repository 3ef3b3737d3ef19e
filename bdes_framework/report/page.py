"""The report: one HTML file that loads nothing and runs no script but its own."""

import shlex
from collections.abc import Callable
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from attrs import frozen

from bdes_framework._version import __version__
from bdes_framework.report import sections
from bdes_framework.report.bundle import vega_script
from bdes_framework.report.data import RunData
from bdes_framework.report.diagnostics import diagnostics
from bdes_framework.report.figures import Figures
from bdes_framework.report.html import content_hash, json_block, text
from bdes_framework.report.slopes import fit_slopes
from bdes_framework.report.trajectories import Trajectories, first_cells, replay_trajectories

MARK = '<meta name="generator" content="bdes-framework report">'
"""What every report has near its beginning; a file without it is somebody else's."""

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
    experiment = _experiment_text(data)
    parts = [("run", "What was run", sections.what_was_run(data, _command(settings), experiment))]
    if data.panels():
        parts += [
            ("won", "Who won", sections.who_won(data, figures)),
            ("growth", sections.over_time(data), sections.growth(data, figures, fits)),
            ("lam", "Across lam", sections.across_lam(figures)),
            ("paths", "States and arms", sections.paths_of_cells(figures, paths)),
            ("gap", "The benchmark", sections.certified_gap(data, figures)),
            ("diagnostics", "Diagnostics", diagnostics(data)),
        ]
    parts.append(("failures", "Failures", sections.failures(data)))
    on_step("putting the page together", 0, 1)
    return _assembled(data, figures, parts)


def _experiment_text(data: RunData) -> str:
    try:
        return (data.run.folder / "experiment.toml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return "The run's folder has no experiment.toml that can be read."


def _command(settings: Settings) -> str:
    """Return what to type; where the experiment file was is its owner's business."""
    name = settings.experiment or Path("experiment.toml")
    shown = name.name if name.is_absolute() else str(name)
    return f"bdes run {shlex.quote(shown)}"


def _legend(data: RunData) -> str:
    """Return the policies with their colours: every chart's legend, and what hides them."""
    boxes = "".join(
        f'<label><input type="checkbox" checked value="{i}">'
        f'<span class="swatch" data-index="{i}"></span>{text(name)}</label>'
        for i, name in enumerate(data.policies)
    )
    return f'<fieldset class="legend"><legend>Policies shown in charts</legend>{boxes}</fieldset>'


def _assembled(data: RunData, figures: Figures, parts: list[tuple[str, str, str]]) -> str:
    style, script = _asset("report.css"), _asset("report.js")
    vega = vega_script()
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"script-src {content_hash(vega)} {content_hash(script)}; "
        f"style-src {content_hash(style)}"
    )
    return Template(_asset("report.html")).substitute(
        policy=policy,
        title=text(data.run.name),
        headline=sections.headline(data),
        contents="".join(f'<li><a href="#{name}">{escape(title)}</a></li>'
                         for name, title, _ in parts),
        legend=_legend(data) if data.panels() else "",
        sections="\n".join(
            f'<section id="{name}" aria-labelledby="h-{name}">'
            f'<h2 id="h-{name}">{escape(title)}</h2>{body}</section>'
            for name, title, body in parts
        ),
        version=escape(__version__),
        style=style,
        data=json_block("report-data", figures.script_data()),
        vega=vega,
        script=script,
    )  # fmt: skip


def _asset(name: str) -> str:
    return (files("bdes_framework.report") / "assets" / name).read_text(encoding="utf-8")
