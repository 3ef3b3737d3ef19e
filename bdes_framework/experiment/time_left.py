"""How long the cells that are left will take, as a range, from what finished ones took."""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from statistics import fmean, median, stdev

from attrs import define, field

_N_RECENT = 100
"""How many of the latest cells of a policy and horizon count."""
_LOADING_SECONDS = 20.0
"""Up to how long the first cell of a policy in a process loads code, on a slow machine."""
_EXTRAPOLATION = math.sqrt(2)
"""How far off, as a factor, a line through two horizons may be at a third one."""
_SPREAD = 0.3
"""How much cells of a policy and horizon differ, as a share, where only one is known."""

Range = tuple[float, float]
"""The least and the most that something may take, in seconds."""


class TimeLeft:
    """A range for the time until all cells are played.

    A cell of a policy takes a fixed time and a time per pull, neither of which is known at first:
    from one horizon alone, another one's cells may take as long, or longer in proportion. The
    first cell of a policy in a process loads code besides, and gives bounds only.

    Parameters
    ----------
    cells : Iterable[tuple[str, int]]
        The policy and the number of pulls of each cell that is left.
    workers : int
        How many cells are played at once.
    clock : Callable[[], float]
        The time in seconds.
    """

    def __init__(
        self,
        cells: Iterable[tuple[str, int]],
        workers: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left = Counter(cells)
        self._workers = workers
        self._clock = clock
        self._known: dict[str, dict[int, _Durations]] = {}
        self._tried: set[str] = set()
        self._expected: Range | None = None
        self._is_new = False
        self._since = clock()

    def finish(
        self, policy: str, pulls: int, seconds: float | None, *, is_first: bool = False
    ) -> None:
        """Take note of a finished cell.

        Parameters
        ----------
        policy, pulls : str, int
            Whose cell it was.
        seconds : float | None
            Its duration; None if that says nothing, as the cell failed.
        is_first : bool
            Whether it was the policy's first cell in its process, which loads code.
        """
        self._left[policy, pulls] -= 1
        if not self._left[policy, pulls]:
            del self._left[policy, pulls]
        self._tried.add(policy)
        if seconds is not None:
            durations = self._known.setdefault(policy, {}).setdefault(pulls, _Durations())
            (durations.first if is_first else durations.later).append(seconds)
        self._is_new, self._since = True, self._clock()

    def seconds(self) -> Range | None:
        """Return the least and the most seconds until all cells are played.

        None before enough is known, and as soon as it has taken longer than expected.
        """
        if self._is_new:
            self._expected, self._is_new = self._estimate(), False
        if self._expected is None:
            return None
        low, high = (bound - (self._clock() - self._since) for bound in self._expected)
        return (max(low, 0.0), high) if high >= 0 else None

    def _estimate(self) -> Range | None:
        if not self._known or any(policy not in self._tried for policy, _ in self._left):
            return None  # the policy that is not known may take most of the time
        total, longest = [0.0, 0.0], [0.0, 0.0]
        for (policy, pulls), n in self._left.items():
            for bound, seconds in enumerate(self._cell(policy, pulls)):
                total[bound] += n * seconds
                longest[bound] = max(longest[bound], seconds)
        for bound, seconds in enumerate(self._loading()):
            total[bound] += seconds
        low, high = (max(t / self._workers, one) for t, one in zip(total, longest, strict=True))
        return low, high

    def _loading(self) -> Range:
        """Return how long policies will be loaded, in all, by processes that have not done so."""
        seen = {
            policy: [
                max(seconds - fmean(self._cell(policy, pulls)), 0.0)
                for pulls, durations in horizons.items()
                for seconds in durations.first
                if any(each.later for each in horizons.values())
            ]
            for policy, horizons in self._known.items()
        }
        n_left = Counter[str]()
        for (policy, _), n in self._left.items():
            n_left[policy] += n
        low = high = 0.0
        for policy, n in n_left.items():
            n_first = sum(len(each.first) for each in self._known.get(policy, {}).values())
            known = seen.get(policy) or [seconds for one in seen.values() for seconds in one]
            n_to_come = min(n, max(self._workers - n_first, 0))
            low += n_to_come * min(known, default=0.0)
            high += n_to_come * max(known, default=0.0)
        return low, high

    def _cell(self, policy: str, pulls: int) -> Range:
        """Return the bounds of one cell; of a policy that always failed, those of all."""
        known = [policy] if policy in self._known else self._known
        bounds = [_bounds(self._known[one], pulls) for one in known]
        return min(low for low, _ in bounds), max(high for _, high in bounds)


class StepsLeft:
    """A range for the time until all of some steps are done that come in no order of their costs.

    Parameters
    ----------
    total : int
        How many steps there are.
    workers : int
        How many are done at once.
    clock : Callable[[], float]
        The time in seconds.
    """

    def __init__(
        self, total: int, workers: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._total = total
        self._workers = workers
        self._clock = clock
        self._began: tuple[int, float] | None = None
        self._last = (0, clock())

    def finish(self, done: int) -> None:
        """Take note of how many steps are done."""
        self._last = done, self._clock()
        # The first ones load code.
        if self._began is None and done >= min(self._workers, self._total // 4 + 1):
            self._began = self._last

    def seconds(self) -> Range | None:
        """Return the least and the most seconds until all steps are done; None if not known."""
        if self._began is None or self._last[0] == self._began[0]:
            return None
        (first, begin), (done, now) = self._began, self._last
        n = done - first
        per_step = (now - begin) / n
        passed = self._clock() - now
        # The fewer were measured, the less they tell of the others.
        spread = 1.0 + 1.0 / math.sqrt(n)
        left = (self._total - done) * per_step
        low, high = left / spread - passed, left * spread - passed
        return (max(low, 0.0), high) if high >= 0 else None


@define
class _Durations:
    """The latest durations of cells of one policy and horizon, in seconds."""

    first: deque[float] = field(factory=lambda: deque(maxlen=_N_RECENT))
    """Of cells that were the policy's first in their process."""
    later: deque[float] = field(factory=lambda: deque(maxlen=_N_RECENT))

    def bounds(self) -> Range:
        """Return the bounds of a cell's expected duration.

        Median and mean differ where cells do, or where some waited for the machine.
        """
        if not self.later:
            seconds = median(self.first)
            return max(seconds - _LOADING_SECONDS, 0.0), seconds
        typical, mean = median(self.later), fmean(self.later)
        return min(typical, mean), max(typical, mean)

    def mean(self) -> tuple[float, float]:
        """Return the mean of later cells, of which there are some, and its standard error."""
        mean, n = fmean(self.later), len(self.later)
        return mean, (stdev(self.later) if n > 1 else _SPREAD * mean) / math.sqrt(n)


def _bounds(horizons: dict[int, _Durations], pulls: int) -> Range:
    """Return what a cell of so many pulls takes, by the horizons that are known."""
    if pulls in horizons and horizons[pulls].later:
        return horizons[pulls].bounds()
    low, high = 0.0, float("inf")
    for known, durations in horizons.items():
        # It takes a + b * pulls, where neither a nor b is below 0.
        least, most = durations.bounds()
        low = max(low, least * min(pulls / known, 1.0))
        high = min(high, most * max(pulls / known, 1.0))
    points = [(known, d.mean()) for known, d in horizons.items() if d.later]
    if len(points) > 1:
        line, error = _line(points, pulls)
        low = max(low, (line - 2 * error) / _EXTRAPOLATION)
        high = min(high, (line + 2 * error) * _EXTRAPOLATION)
    return min(low, high), max(low, high)


def _line(points: list[tuple[int, Range]], pulls: int) -> Range:
    """Return the value at ``pulls`` of the line through the two nearest points, and its error.

    Each point has a value and the standard error of it.
    """
    (x, (y, error)), (x2, (y2, error2)) = sorted(points, key=lambda p: abs(p[0] - pulls))[:2]
    weight = (pulls - x) / (x2 - x)
    value = max((1 - weight) * y + weight * y2, 0.0)
    return value, math.hypot((1 - weight) * error, weight * error2)
