"""Schedules of pulls kept as repeated segments, so that a billion pulls fit in a few arrays."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from attrs import field, frozen

from bdes_framework._internal.arrays import IntArray, as_arms
from bdes_framework._internal.display import (
    MAX_NUMBERS,
    html_table,
    shown_fields,
    shown_numbers,
)
from bdes_framework._internal.numbers import as_integer
from bdes_framework._internal.upwards import drawn, report_function
from bdes_framework.errors import InvalidValueError

if TYPE_CHECKING:
    import altair


def _as_repeats(value: int) -> int:
    repeats = as_integer(value, "repeats", 1)
    if repeats > np.iinfo(np.int64).max:
        raise InvalidValueError(f"repeats must be a 64-bit integer, got {repeats}")
    return repeats


@frozen(eq=False)
class Segment:
    """Some arms in order, played ``repeats`` times over.

    Parameters
    ----------
    arms : IntArray, shape (n,)
        Arms in the order they are played, at least one.
    repeats : int
        How often the whole of ``arms`` is played; at least 1.
    """

    arms: IntArray = field(converter=as_arms)
    repeats: int = field(default=1, converter=_as_repeats)

    @property
    def n_pulls(self) -> int:
        """How many pulls the segment has: ``len(arms) * repeats``."""
        return self.arms.size * self.repeats

    def __repr__(self) -> str:
        return shown_fields("Segment", arms=shown_numbers(self.arms), repeats=self.repeats)


def _as_segments(values: Sequence[Segment]) -> tuple[Segment, ...]:
    segments = tuple(values)
    if not segments:
        raise InvalidValueError("a schedule needs at least one segment")
    return segments


@frozen(eq=False)
class Schedule:
    """A sequence of arms, held as segments such as head, cycle and tail.

    >>> schedule = Schedule([Segment([0, 0]), Segment([1, 2], repeats=1000)])
    >>> schedule.n_pulls
    2002
    >>> schedule.slice(1, 5).tolist()
    [0, 1, 2, 1]
    >>> print(schedule)
    0 0 · (1 2) × 1000
    >>> schedule
    Schedule(n_pulls=2,002, segments=0 0 · (1 2) × 1000)
    """

    segments: tuple[Segment, ...] = field(converter=_as_segments)

    @classmethod
    def of(cls, arms: Sequence[int] | IntArray) -> "Schedule":
        """Return the schedule that plays these arms once."""
        return cls((Segment(as_arms(arms)),))

    @classmethod
    def cycle(cls, arms: Sequence[int] | IntArray, n_pulls: int) -> "Schedule":
        """Return ``arms`` repeated for exactly ``n_pulls`` pulls, the last repeat cut short."""
        if n_pulls < 1:
            raise InvalidValueError(f"n_pulls must be at least 1, got {n_pulls}")
        once = as_arms(arms)
        whole, rest = divmod(n_pulls, once.size)
        parts = ([Segment(once, whole)] if whole else []) + ([Segment(once[:rest])] if rest else [])
        return cls(parts)

    @property
    def n_pulls(self) -> int:
        """How many pulls the schedule has."""
        return sum(segment.n_pulls for segment in self.segments)

    @property
    def arms(self) -> IntArray:
        """The whole sequence as one array: shape (n_pulls,)."""
        return self.slice(0, self.n_pulls)

    def part(self, start: int, stop: int) -> "Schedule":
        """Return pulls ``start`` to ``stop - 1`` as a schedule, repeats kept as repeats."""
        if not 0 <= start < stop <= self.n_pulls:
            raise InvalidValueError(
                f"need 0 <= start < stop <= {self.n_pulls}, got start {start}, stop {stop}"
            )
        parts: list[Segment] = []
        offset = 0
        for segment in self.segments:
            low, high = max(start - offset, 0), min(stop - offset, segment.n_pulls)
            if low < high:
                parts += _segment_part(segment, low, high)
            offset += segment.n_pulls
        return Schedule(parts)

    def slice(self, start: int, stop: int) -> IntArray:
        """Return pulls ``start`` to ``stop - 1``, the rest unexpanded: shape (stop - start,)."""
        segments = self.part(start, stop).segments
        return np.concatenate([np.tile(segment.arms, segment.repeats) for segment in segments])

    def blocks(self, size: int) -> Iterator[IntArray]:
        """Yield the schedule in order, in arrays of at most ``size`` pulls."""
        for start in range(0, self.n_pulls, size):
            yield self.slice(start, min(start + size, self.n_pulls))

    def counts(self, n_arms: int) -> IntArray:
        """Return how often each arm is played: shape (n_arms,)."""
        total = np.zeros(n_arms, dtype=np.int64)
        for segment in self.segments:
            if segment.arms.max() >= n_arms:
                raise InvalidValueError(
                    f"the schedule plays arm {int(segment.arms.max())} of only {n_arms} arms"
                )
            total += np.bincount(segment.arms, minlength=n_arms) * segment.repeats
        return total

    def __str__(self) -> str:
        return " · ".join(_segment_text(segment) for segment in self.segments)

    def __repr__(self) -> str:
        shown = [_segment_text(segment, longest=8) for segment in self.segments[:MAX_NUMBERS]]
        if len(self.segments) > MAX_NUMBERS:
            shown.append(f"… {len(self.segments):,} segments in all")
        return shown_fields("Schedule", n_pulls=self.n_pulls, segments=" · ".join(shown))

    def plot(self, rounds: int | None = None) -> "altair.VConcatChart":
        """Return a chart of the arms of the first rounds: 120 unless told otherwise.

        Needs the extra ``report``.
        """
        chart: altair.VConcatChart = report_function("plot_plan")(self, rounds)
        return chart

    def _repr_html_(self) -> str:
        return schedule_html(self) + drawn("image_of_schedule", self)


def schedule_html(schedule: Schedule) -> str:
    """Return what a notebook shows of a schedule, but for the chart."""
    rows = [
        (shown_numbers(segment.arms, most=24), segment.repeats, segment.n_pulls)
        for segment in schedule.segments
    ]
    caption = f"Schedule: {schedule.n_pulls:,} pulls"
    return html_table(["arms", "repeats", "pulls"], rows, caption)


def _segment_part(segment: Segment, low: int, high: int) -> list[Segment]:
    """Cut ``low`` to ``high - 1`` out of a segment: a rest, whole repeats, another rest."""
    length = segment.arms.size
    (first, skipped), (last, rest) = divmod(low, length), divmod(high, length)
    if first == last:
        return [Segment(segment.arms[skipped:rest])]
    parts = []
    if skipped:
        parts.append(Segment(segment.arms[skipped:]))
        first += 1
    if last > first:
        parts.append(Segment(segment.arms, last - first))
    if rest:
        parts.append(Segment(segment.arms[:rest]))
    return parts


def _segment_text(segment: Segment, longest: int = 24) -> str:
    arms = [str(arm) for arm in segment.arms[:longest]]
    if segment.arms.size > longest:
        arms.append(f"… {segment.arms.size} arms")
    text = " ".join(arms)
    return text if segment.repeats == 1 else f"({text}) × {segment.repeats}"
