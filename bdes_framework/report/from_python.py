"""Charts and pages for people who use the library: of runs, traces and plans.

Objects of rooms below this one get here by name (see ``_internal/upwards.py``), so that typing a
trace's name in a notebook draws it where the extra ``report`` is installed.
"""

import base64
import io
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from attrs import evolve

from bdes_framework._internal.colours import BLUE, SKY
from bdes_framework._internal.files import replace_text
from bdes_framework._internal.numbers import as_integer
from bdes_framework._internal.text import did_you_mean, listed, quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.experiment.results import Run
from bdes_framework.interfaces import Benchmark, Plan
from bdes_framework.model.schedule import Schedule
from bdes_framework.planning.plan_report import PlanReport
from bdes_framework.report import charts, pictures
from bdes_framework.report.data import RunData
from bdes_framework.report.labels import Row
from bdes_framework.report.page import Settings, report_page
from bdes_framework.report.template import check_is_report
from bdes_framework.report.trajectories import arm_rows, bin_edges, state_rows
from bdes_framework.simulation.loop import Trace
from bdes_framework.simulation.regret import des_regret

WIDTH, HEIGHT = 460, 110
"""Of a panel, in pixels."""

MAX_ARM = 1_000_000
"""Above which the number of an arm is not taken for one."""

FIRST_ROUNDS = 120
"""How many rounds of a plan are drawn unless told otherwise: each can be seen."""


def plot_run(run: Run, chart: str, choices: dict[str, Any]) -> pictures.Drawn:
    """Return a chart of a run as ``bdes plot`` draws it; see :meth:`Run.plot`."""
    known = [name for name in vars(pictures._Pictures) if not name.startswith("_")]
    if chart not in known:
        match = did_you_mean(str(chart), known)
        raise InvalidValueError(
            f"there is no chart {quoted(chart)}.{match} Charts: {listed(known)}"
        )
    environments = choices.pop("environments", ())
    allowed = ["environments", *(field.name for field in pictures.Choice.__attrs_attrs__)]
    for name in choices:
        if name not in allowed:
            raise InvalidValueError(
                f"a chart has no option {quoted(name)}.{did_you_mean(name, allowed)}"
                f" Options: {listed(allowed)}"
            )
    return pictures.picture(RunData(run, environments), chart, pictures.Choice(**choices))


def write_page(
    data: RunData,
    out: str | PathLike[str] | None,
    settings: Settings,
    *,
    overwrite: bool,
    on_step: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Path:
    """Write a run's page, by default into its folder; return its path.

    Raises
    ------
    InvalidValueError
        If the file is there and is no report, unless ``overwrite``.
    """
    file = data.run.folder / "report.html" if out is None else Path(out)
    if not overwrite:
        check_is_report(file)
    replace_text(file, report_page(data, settings, on_step))
    return file


def write_report(
    run: Run, out: str | PathLike[str] | None, overwrite: bool, settings: dict[str, Any]
) -> Path:
    """Write the page of a run; see :meth:`Run.report`."""
    return write_page(RunData(run), out, Settings(**settings), overwrite=overwrite)


def plot_trace(
    trace: Trace, benchmark: Benchmark | None = None, *, touch: bool = True
) -> alt.VConcatChart:
    """Return the chart of a simulation; see :meth:`Trace.plot`.

    ``touch`` adds what shows numbers when it is pointed at: for nothing in a picture.
    """
    panels: list[alt.Chart | alt.LayerChart] = [_curves(trace, benchmark)]
    if trace.arms is not None:
        panels += _rounds_panels(trace, touch)
    return _stacked(panels)


def plot_plan(
    plan: Plan | PlanReport | Schedule, rounds: int | None = None, *, touch: bool = True
) -> alt.VConcatChart:
    """Return the chart of a plan's first rounds; see :meth:`PlanReport.plot`."""
    known = plan.plan if isinstance(plan, PlanReport) else plan
    schedule = known if isinstance(known, Schedule) else known.schedule
    wanted = FIRST_ROUNDS if rounds is None else as_integer(rounds, "rounds", 1)
    n = min(wanted, schedule.n_pulls)
    arms = schedule.slice(0, n)
    if arms.max() >= MAX_ARM:
        raise InvalidValueError(f"arm {arms.max():,} is not drawn: arms are counted from 0")
    nothing = np.zeros(1)
    trace = Trace(
        horizon=n,
        n_arms=int(arms.max()) + 1,
        checkpoints=np.array([n]),
        cumulative_rewards=nothing,
        cumulative_means=nothing,
        cumulative_states=None,
        counts=np.bincount(arms),
        arms=arms,
        states=plan.rounds(0, n)[1] if isinstance(plan, PlanReport) else None,
    )
    return _stacked(_rounds_panels(trace, touch))


def image(chart: pictures.Drawn, description: str) -> str:
    """Return a chart as an HTML image that needs nothing else: no script, no network."""
    svg = io.StringIO()
    chart.save(svg, format="svg")
    content = base64.b64encode(svg.getvalue().encode()).decode()
    return f'<p><img alt="{description}" src="data:image/svg+xml;base64,{content}"/></p>'


def image_of_run(run: Run) -> str:
    """Return the first chart of a run for a notebook."""
    return image(plot_run(run, "share", {}), "what each policy earns")


def image_of_schedule(schedule: Schedule) -> str:
    """Return the chart of a schedule for a notebook."""
    return image(plot_plan(schedule, touch=False), "arms over the first rounds of the schedule")


def image_of_trace(trace: Trace) -> str:
    """Return the chart of a trace for a notebook."""
    return image(plot_trace(trace, touch=False), "reward, state and arms over rounds")


def image_of_plan(plan: Plan | PlanReport) -> str:
    """Return the chart of a plan for a notebook."""
    return image(plot_plan(plan, touch=False), "arms over the first rounds of the plan")


def _stacked(panels: list[alt.Chart | alt.LayerChart]) -> alt.VConcatChart:
    chart: alt.VConcatChart = alt.vconcat(*panels).resolve_scale(color="independent")
    chart.config = alt.Config.from_dict(charts.theme("light"))
    return chart


def _curves(trace: Trace, benchmark: Benchmark | None) -> alt.Chart:
    """Return cumulative reward and its expectation over rounds, or regret."""
    series = {"reward": trace.cumulative_rewards, "expected": trace.cumulative_means}
    title = "cumulative reward"
    if benchmark is not None:
        series, title = {"regret": des_regret(trace, benchmark)}, "DES regret"
    rows: list[Row] = [
        {"round": at, "value": value, "what": what}
        for what, values in series.items()
        for at, value in zip(trace.checkpoints.tolist(), values.tolist(), strict=True)
    ]
    colours = alt.Scale(domain=list(series), range=[SKY, BLUE][-len(series) :])
    legend = alt.Legend(title=None, orient="top") if benchmark is None else None
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(strokeWidth=1.8)
        .encode(
            x=alt.X("round:Q", title="round", scale=alt.Scale(nice=False)),
            y=alt.Y("value:Q", title=title, axis=alt.Axis(minExtent=charts.AXIS_WIDTH)),
            color=alt.Color("what:N", scale=colours, legend=legend),
        )
        .properties(width=WIDTH, height=HEIGHT)
    )
    return chart


def _rounds_panels(trace: Trace, touch: bool) -> list[alt.Chart | alt.LayerChart]:
    """Return the state, if it is known, and the arms over rounds, in bins."""
    edges = bin_edges(trace.horizon)
    found: list[alt.Chart | alt.LayerChart] = []
    if trace.states is not None:
        sums = np.cumsum(trace.states)[edges[1:] - 1]
        rows = state_rows(evolve(trace, cumulative_states=sums), edges)
        state = charts.state().properties(width=WIDTH, height=HEIGHT)
        state.data = alt.InlineData(values=rows)
        if not touch:
            state.layer = [layer for layer in state.layer if layer.name != charts.TOUCH]
        found.append(state)
    rows, names = arm_rows(trace, edges)
    arms = charts.arms(names, WIDTH).properties(width=WIDTH, height=HEIGHT)
    arms.data = alt.InlineData(values=rows)
    return [*found, arms]
