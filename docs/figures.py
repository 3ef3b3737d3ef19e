"""Draws the pictures of README and docs from the library itself: ``make figures``."""

from pathlib import Path

import altair as alt
import numpy as np

from bdes_framework import Instance, Schedule

IMAGES = Path(__file__).parent / "img"
PULLS = 40
SCHEDULES = {
    "click-bait only": [0],
    "quality only": [1],
    "two of quality, then click-bait": [1, 1, 0],
}
# Okabe and Ito's palette: told apart by people who do not see all colours.
COLOURS = ["#D55E00", "#0072B2", "#009E73"]


def click_bait() -> alt.HConcatChart:
    """Three schedules on one instance: the audience's state, and what each earns."""
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
        scale=alt.Scale(domain=list(SCHEDULES), range=COLOURS),
        legend=alt.Legend(orient="bottom", title=None, labelLimit=300),
    )
    base = alt.Chart(alt.InlineData(values=rows, name="paths")).encode(
        x=alt.X("round:Q", title="round", scale=alt.Scale(domain=[1, PULLS])), color=colour
    )
    state = base.mark_line(strokeWidth=2.5).encode(
        y=alt.Y("state:Q", title="state q of the audience", scale=alt.Scale(domain=[0, 1]))
    )
    clicks = base.mark_line(strokeWidth=2.5).encode(
        y=alt.Y("clicks:Q", title="expected clicks so far")
    )
    size = {"width": 330, "height": 220}
    both: alt.HConcatChart = alt.hconcat(
        state.properties(title="Click-bait wears the audience out", **size),
        clicks.properties(title="A mix of both earns the most", **size),
    ).configure(font="sans-serif", background="white")
    return both


def main() -> None:
    """Write every figure."""
    IMAGES.mkdir(exist_ok=True)
    click_bait().save(IMAGES / "click-bait.svg")


if __name__ == "__main__":
    main()
