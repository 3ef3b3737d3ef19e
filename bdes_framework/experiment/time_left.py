"""How long the cells that are left will take, from what those of the same policy took per pull."""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from statistics import fmean, median

_N_RECENT = 100
"""How many of the latest cells of a policy and horizon count."""
_WARM_UP_SECONDS = 5.0
"""A policy's first cell may load code for about as long, which says nothing about the others."""
_MAX_RATIO = 10
"""Up to how many times longer a horizon is told about by a shorter one."""


class TimeLeft:
    """An estimate of the time until all cells are played.

    A policy's cost per pull is measured, at each horizon by itself: cells also cost something
    that does not grow with their pulls. A horizon of which no cell is finished is taken to cost
    what the nearest other one does, and a policy of which none is, the mean of the others.

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
        self._begun: set[str] = set()
        self._recent: dict[str, dict[int, deque[float]]] = {}
        self._expected: float | None = None
        self._since = clock()

    def finish(self, policy: str, pulls: int, seconds: float | None) -> None:
        """Take note of a finished cell, and of its duration; None if that says nothing."""
        self._left[policy, pulls] -= 1
        if not self._left[policy, pulls]:
            del self._left[policy, pulls]
        if seconds is not None and (policy in self._begun or seconds > _WARM_UP_SECONDS):
            horizons = self._recent.setdefault(policy, {})
            horizons.setdefault(pulls, deque(maxlen=_N_RECENT)).append(seconds / pulls)
        self._begun.add(policy)
        self._expected, self._since = self._estimate(), self._clock()

    def seconds(self) -> float | None:
        """Return the seconds until all cells are played.

        None before enough is known, and as soon as it has taken longer than expected.
        """
        if self._expected is None:
            return None
        left = self._expected - (self._clock() - self._since)
        return left if left >= 0 else None

    def _estimate(self) -> float | None:
        longest_known = max((max(known) for known in self._recent.values()), default=0)
        total = longest = 0.0
        for (policy, pulls), n in self._left.items():
            if pulls > _MAX_RATIO * longest_known:
                return None
            known = [policy] if policy in self._recent else self._recent
            seconds = pulls * fmean(self._per_pull(one, pulls) for one in known)
            total += n * seconds
            longest = max(longest, seconds)
        return max(total / self._workers, longest)

    def _per_pull(self, policy: str, pulls: int) -> float:
        """Return the seconds per pull of a policy at the horizon nearest to this one.

        The median, as a cell now and then waits for code to be loaded.
        """
        horizons = self._recent[policy]
        return median(horizons[min(horizons, key=lambda known: abs(known - pulls))])
