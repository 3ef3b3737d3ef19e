"""What a plan shows, in words: a schedule by the names of its arms, a decision table row by row."""

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from bdes_framework._internal.text import one_line
from bdes_framework.model.decision_table import DecisionTable
from bdes_framework.model.schedule import Schedule, Segment

TABLE_HEADINGS = ("State", "Show", "r", "b")
"""Of the rows that :func:`table_words` yields."""
_SHOWN_RUNS = 8
_SHOWN_SEGMENTS = 5


def schedule_words(schedule: Schedule, names: Sequence[str]) -> str:
    """Return the runs of arms of a schedule by name, and what is repeated in brackets.

    >>> once = [Segment([1]), Segment([1, 0])]
    >>> schedule_words(Schedule([*once, Segment([0, 1], 20)]), ["tea", "milk"])
    'milk × 2, tea, (tea, milk) × 20'
    >>> schedule_words(Schedule([Segment([0, 1] * 9)]), ["tea", "milk"])
    'tea, milk, tea, milk, tea, milk, tea, milk, … 18 pulls'
    >>> schedule_words(Schedule([Segment([0], 10**15)]), ["tea"])
    'tea × 1,000,000,000,000,000'
    """
    segments: list[Segment] = []
    for is_once, group in groupby(schedule.segments, key=lambda segment: segment.repeats == 1):
        found = list(group)
        if is_once:
            found = [Segment(np.concatenate([segment.arms for segment in found]))]
        segments.extend(found)
    parts = []
    for segment in segments[:_SHOWN_SEGMENTS]:
        starts = np.flatnonzero(np.diff(segment.arms, prepend=-1))
        is_cycle = segment.repeats > 1 and starts.size > 1
        end = segment.arms.size if is_cycle else segment.n_pulls
        lengths = np.diff(starts, append=end)
        runs = [
            arm_name(arm, names) + (f" × {length:,}" if length > 1 else "")
            for arm, length in zip(segment.arms[starts[:_SHOWN_RUNS]], lengths, strict=False)
        ]
        if starts.size > _SHOWN_RUNS:
            runs.append(f"… {end:,} pulls")
        text = ", ".join(runs)
        parts.append(f"({text}) × {segment.repeats:,}" if is_cycle else text)
    if len(segments) > _SHOWN_SEGMENTS:
        parts.append(f"… {schedule.n_pulls:,} pulls in all")
    return ", ".join(parts)


def arm_name(arm: int, names: Sequence[str]) -> str:
    """Return an arm's name, safe to print, or its number if it has none."""
    return one_line(names[arm], 40) if arm < len(names) else str(arm)


def table_words(table: DecisionTable, most: int) -> Iterator[tuple[str, str, str, str]]:
    """Yield the first intervals of states, and what is shown there: its name, r and b."""
    for start, end, arm in table.intervals()[:most]:
        r, b = table.instance.r[arm], table.instance.b[arm]
        yield _states(start, end, table), table.arm_name(arm), f"{r:.4g}", f"{b:.4g}"


def _states(start: float, end: float, table: DecisionTable) -> str:
    """Return an interval of states in words."""
    if table.starts.size == 1:
        return "any"
    if start == 0:
        return f"below {end:.4g}"
    if start == table.starts[-1]:
        return f"{start:.4g} and above"
    return f"{start:.4g} to {end:.4g}"
