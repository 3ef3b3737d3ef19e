"""The HTML report of a run: what is on the page."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import frozen

from bdes_framework._internal.colours import Colour
from bdes_framework.errors import BdesError
from bdes_framework.experiment.file import Experiment
from bdes_framework.report import tables
from bdes_framework.report.data import SHARE, RunData
from bdes_framework.report.figures import Figures
from bdes_framework.report.labels import clipped
from bdes_framework.report.slopes import fit_slopes
from bdes_framework.report.template import render_page
from bdes_framework.report.trajectories import Trajectories, first_cells, replay_trajectories

_SECTIONS = {
    "won": "Results",
    "share": "Share of OPT",
    "growth": "Over time",
    "users": "Over users",
    "horizons": "How regret grows with the horizon",
    "paths": "States and arms",
    "details": "Details",
}


@frozen
class Settings:
    """Settings of a report: how many cells to replay at most and for how many seconds.

    ``experiment`` is what the run was made from, or its file.
    """

    paths: int = 60
    seconds: float = 20.0
    experiment: Experiment | Path | None = None


def report_page(
    data: RunData,
    settings: Settings,
    on_step: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> str:
    """Return the whole page; ``on_step`` gets what is being done, and how much of how much."""
    paths = Trajectories()
    if settings.paths:
        paths = replay_trajectories(
            data,
            first_cells(data, settings.paths),
            experiment=settings.experiment,
            seconds=settings.seconds,
            on_cell=lambda done, total: on_step("playing cells again", done, total),
        )
    on_step("reading curves", 0, 1)
    fits = fit_slopes(data.regret_draws())
    figures = Figures(data, fits, paths.found)
    on_step("putting the page together", 0, 1)
    has_results, has_regret = bool(data.settings()), tables.has_regret(data)
    slopes = tables.slope_table(data, fits)
    absent = {"horizons": not slopes.rows, "users": data.run.step == "round"}
    sections = {
        name: "Reward" if name == "share" and data.measure != SHARE else title
        for name, title in _SECTIONS.items()
        if name == "details" or (has_results and not absent.get(name))
    }
    return render_page(
        "report.html",
        title=data.run.name,
        colours=_colours(list(data.policies.values())),
        data=data,
        script_data=figures.script_data(),
        sections=sections,
        dimensions=data.dimensions.dimensions,
        gap_sentence=tables.gap_sentence(data),
        interval_words=tables.interval_words(data),
        counts=tables.counts(data),
        answers=tables.answers(data),
        has_results=has_results,
        has_regret=has_regret,
        facts=tables.facts(data),
        command=_command(settings),
        experiment=_experiment_text(data, settings.experiment),
        run_tables=tables.run_tables(data),
        figures=figures,
        every_setting=tables.settings_table(data),
        slopes=slopes,
        with_states=any(path.states for path in paths.found),
        not_replayed=paths.reasons,
        gaps=tables.gap_table(data),
        diagnostics=tables.diagnostics_table(data),
        failures=tables.failure_table(data),
    )


def _colours(policies: Sequence[Colour]) -> str:
    """Return the classes that give swatches the colours of policies."""
    dashed = [
        f".c{i}{{border-top-style:dashed}}" for i, colour in enumerate(policies) if colour.turn
    ]
    light, dark = (
        "".join(f".c{i}{{color:{colour.line(theme)}}}" for i, colour in enumerate(policies))
        for theme in ("light", "dark")
    )
    on_dark = f"@media screen and (prefers-color-scheme:dark){{{dark}}}"
    return light + "".join(dashed) + on_dark


def _experiment_text(data: RunData, given: Experiment | Path | None) -> str:
    try:
        text = given.text if isinstance(given, Experiment) else data.run.experiment_text
    except BdesError:
        return "The run's folder has no experiment.toml that can be read."
    return "\n".join(clipped(line, 400) for line in text[:100_000].splitlines())


def _command(settings: Settings) -> str:
    """Return the command that makes the run; an absolute path is cut to the file's name."""
    given = settings.experiment
    name = (given.file if isinstance(given, Experiment) else given) or Path("experiment.toml")
    shown = name.name if name.is_absolute() else str(name)
    return f"bdes run {shlex.quote(shown)}"
