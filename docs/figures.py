"""Draw the pictures of README and docs from the library itself: ``make figures``.

Runs of the worked examples are drawn as ``bdes plot`` would draw them. The paper's pictures are
drawn by ``make paper``.
"""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import altair as alt
import numpy as np
from attrs import evolve

from bdes_framework import Instance, Schedule, load_plugins, run_experiment
from bdes_framework._internal.colours import BLUE, GREEN, ORANGE, SKY, VERMILION
from bdes_framework.report.data import RunData
from bdes_framework.report.pictures import Choice, picture, save
from tests.support.snippets import snippets_of

DOCS = Path(__file__).parent
IMAGES = DOCS / "img"
EXAMPLES = DOCS.parent / "examples"
PULLS = 40
SCHEDULES = {
    "click-bait only": [0],
    "quality only": [1],
    "two of quality, then click-bait": [1, 1, 0],
}
STYLE: dict[str, Any] = {"font": "sans-serif", "background": "white"}


def click_bait() -> alt.HConcatChart:
    """Return three schedules on one instance: the audience's state, and what each earns."""
    instance = Instance(r=[0.9, 0.3], b=[0.1, 1.0], lam=0.3)
    rows = []
    for name, cycle in SCHEDULES.items():
        arms = Schedule.cycle(cycle, PULLS).arms
        states = instance.states(arms)
        totals = np.cumsum(instance.expected_rewards(arms))
        rows += [
            {"schedule": name, "round": t + 1, "state": q, "clicks": total}
            for t, (q, total) in enumerate(zip(states.tolist(), totals.tolist(), strict=True))
        ]
    colour = alt.Color(
        "schedule:N",
        scale=alt.Scale(domain=list(SCHEDULES), range=[VERMILION, BLUE, GREEN]),
        legend=alt.Legend(orient="bottom", title=None, labelLimit=300),
    )
    x = alt.X("round:Q", title="round", scale=alt.Scale(domain=[1, PULLS]))
    base = alt.Chart(alt.InlineData(values=rows, name="paths")).encode(x=x, color=colour)
    line = base.mark_line(strokeWidth=2.5).properties(width=330, height=220)
    unit = alt.Scale(domain=[0, 1])
    state = line.encode(y=alt.Y("state:Q", title="state q of the audience", scale=unit))
    clicks = line.encode(y=alt.Y("clicks:Q", title="expected clicks so far"))
    both: alt.HConcatChart = alt.hconcat(
        state.properties(title="Click-bait wears the audience out"),
        clicks.properties(title="A mix of both earns the most"),
    ).configure(**STYLE)
    return both


SLOTS = 40
CTR = "click-through rate"
TYPES = ["outrage", "celebrities", "friends", "long reads"]


def feed() -> alt.VConcatChart:
    """Return one session of the feed example: the type in each slot, and the reader's state."""
    readers = Instance(r=[0.8, 0.5, 0.3, 0.2], b=[0.05, 0.3, 0.6, 1.0], lam=0.1)
    arms = load_plugins().planner("certified").plan(readers, SLOTS).arms
    feeds = {"planned": arms, "one of each": Schedule.cycle([0, 1, 2, 3], SLOTS).arms}
    rows = [
        {"feed": name, "slot": t + 1, "state": q, "type": TYPES[arm]}
        for name, played in feeds.items()
        for t, (q, arm) in enumerate(
            zip(readers.states(played).tolist(), played.tolist(), strict=True)
        )
    ]
    base = alt.Chart(alt.InlineData(values=rows, name="feeds"))
    colours = alt.Scale(domain=TYPES, range=[VERMILION, ORANGE, SKY, BLUE])
    top, bottom = (alt.Legend(orient=side, title=None) for side in ("top", "bottom"))
    slots = base.mark_rect(stroke="white").encode(
        x=alt.X("slot:O", title=None, axis=None),
        y=alt.Y("feed:N", title=None, sort=list(feeds)),
        color=alt.Color("type:N", scale=colours, legend=top),
    )
    axis = alt.Axis(values=[1, *range(5, SLOTS + 1, 5)], labelAngle=0)
    state = base.mark_line(strokeWidth=2.5, color="#333333").encode(
        x=alt.X("slot:O", title="slot of the session", axis=axis),
        y=alt.Y("state:Q", title="state q of the reader", scale=alt.Scale(domain=[0, 1])),
        strokeDash=alt.StrokeDash("feed:N", sort=list(feeds), legend=bottom),
    )
    both: alt.VConcatChart = alt.vconcat(
        slots.properties(width=640, height=60), state.properties(width=640, height=200), spacing=10
    ).configure(padding=10, **STYLE)
    return both


def calibration() -> alt.TopLevelMixin:
    """Return the measured curves of the calibration page, and those fitted to them."""
    page: dict[str, Any] = {}
    code = next(s.text for s in snippets_of(DOCS / "calibration.md") if s.language == "python")
    exec(code.partition("\nfor fit in")[0], page)  # noqa: S102 - the page's own first block
    dots, lines = [], []
    for name, fit in zip(("loud", "calm"), page["fits"], strict=True):
        rates = page[name] / page["impressions"]
        errors = 1.96 * np.sqrt(rates * (1 - rates) / page["impressions"])
        dots += [
            {"ad": name, "exposures": t, "ctr": y, "low": y - e, "high": y + e}
            for t, y, e in zip(page["exposures"], rates.tolist(), errors.tolist(), strict=True)
        ]
        times = [t / 4 for t in range(4 * page["exposures"][-1] + 1)]
        shares = [fit.ratio + (1 - fit.ratio) * (1 - fit.lam) ** t for t in times]
        lines += [
            {"ad": name, "exposures": t, "ctr": fit.level0 * share}
            for t, share in zip(times, shares, strict=True)
        ]
    x = alt.X("exposures:Q", title="exposures so far")
    y = alt.Y("ctr:Q", title=CTR, axis=alt.Axis(format=".1%"))
    scale = alt.Scale(domain=["loud", "calm"], range=[VERMILION, BLUE])
    colour = alt.Color("ad:N", scale=scale, legend=None)
    ends = [lines[len(lines) // 2 - 1], lines[-1]]
    measured, fitted, names = (
        alt.Chart(alt.InlineData(values=rows, name=name)).encode(x=x, color=colour)
        for name, rows in (("measured", dots), ("fitted", lines), ("names", ends))
    )
    chart: alt.TopLevelMixin = (
        alt.layer(
            measured.mark_rule().encode(y=alt.Y("low:Q", title=CTR), y2="high:Q"),
            measured.mark_point(filled=True, size=45, opacity=1).encode(y=y),
            fitted.mark_line(strokeWidth=2).encode(y=y),
            names.mark_text(align="left", dx=8, fontSize=13).encode(y=y, text="ad:N"),
        )
        .properties(
            width=460, height=250, title="Dots: measured, with 95 % intervals; lines: fitted"
        )
        .configure(padding=10, **STYLE)
    )
    return chart


RUNS = {
    "ads": {
        "ads-regret": ("regret", Choice()),
        "ads-path": ("path", Choice(policies=["etc"], horizon=10_000)),
    },
    "feed": {"feed-final": ("final", Choice())},
    "rebounding": {"rebounding-final": ("final", Choice())},
}
"""The pictures of the examples' runs: the file, the chart, and which part of it."""


def draw_run(file: Path, folder: Path, pictures: Mapping[str, tuple[str, Choice]]) -> None:
    """Run an experiment and draw it."""
    with run_experiment(file, out=folder) as run:
        data = RunData(run)
        for name, (chart, choice) in pictures.items():
            drawn = picture(data, chart, evolve(choice, experiment=file))
            save(drawn, IMAGES / f"{name}.svg", "svg")


def first_policy(folder: Path) -> Path:
    """Write the files of the page about a first policy; return its experiment."""
    for snippet in snippets_of(DOCS / "first-policy.md"):
        if snippet.title:
            (folder / snippet.title).write_text(snippet.text + "\n", encoding="utf-8")
    return folder / "first.toml"


def main() -> None:
    """Write every figure."""
    IMAGES.mkdir(exist_ok=True)
    click_bait().save(IMAGES / "click-bait.svg")
    feed().save(IMAGES / "feed.svg")
    calibration().save(IMAGES / "calibration.svg")
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for example, pictures in RUNS.items():
            draw_run(EXAMPLES / example / "experiment.toml", folder / example, pictures)
        final = {"first-policy": ("final", Choice())}
        draw_run(first_policy(folder), folder / "first", final)


if __name__ == "__main__":
    main()
