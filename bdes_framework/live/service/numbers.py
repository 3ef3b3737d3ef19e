"""Counts and waiting times of requests, as Prometheus wants them."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from bdes_framework.live.session import LiveSession

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class RequestNumbers:
    """What was asked and how long it took; belongs to the thread of the event loop."""

    def __init__(self) -> None:
        self.waiting = 0
        self._statuses: Counter[tuple[str, int]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}

    def note(self, route: str, status: int, seconds: float) -> None:
        """Note one request; routes are few, whatever is asked for."""
        self._statuses[route, status] += 1
        if route not in self._buckets:
            self._buckets[route] = [0] * (len(_BOUNDS) + 1)
        self._buckets[route][bisect_left(_BOUNDS, seconds)] += 1
        self._seconds[route] = self._seconds.get(route, 0.0) + seconds

    def metrics(self) -> Iterator[Metric]:
        """Yield what was noted."""
        requests = CounterMetricFamily(
            "bdes_http_requests", "Requests by route and status.", labels=["route", "status"]
        )
        for (route, status), n in sorted(self._statuses.items()):
            requests.add_metric([route, str(status)], n)
        yield requests
        took = HistogramMetricFamily(
            "bdes_http_request_seconds", "Seconds from a request to its answer.", labels=["route"]
        )
        for route, counts in sorted(self._buckets.items()):
            total, buckets = 0, []
            for bound, n in zip([*map(str, _BOUNDS), "+Inf"], counts, strict=True):
                total += n
                buckets.append((bound, float(total)))
            took.add_metric([route], buckets, self._seconds[route])
        yield took
        waiting = GaugeMetricFamily("bdes_http_waiting", "Requests that wait for their answer.")
        waiting.add_metric([], self.waiting)
        yield waiting


def session_metrics(session: "LiveSession") -> Iterator[Metric]:
    """Yield what was decided and earned, by arm."""
    shown = CounterMetricFamily("bdes_shown", "Decisions for an arm.", labels=["arm"])
    rewards = CounterMetricFamily("bdes_rewards", "Rewards known of an arm.", labels=["arm"])
    reward = CounterMetricFamily("bdes_reward", "Sum of the rewards of an arm.", labels=["arm"])
    active = GaugeMetricFamily("bdes_arm_active", "1 for an arm that is shown.", labels=["arm"])
    for arm in session.arms():
        shown.add_metric([arm.name], arm.shown)
        rewards.add_metric([arm.name], arm.rewarded)
        reward.add_metric([arm.name], arm.rewarded * (arm.mean_reward or 0.0))
        active.add_metric([arm.name], int(arm.is_active))
    ready = GaugeMetricFamily("bdes_ready", "1 while the service decides.")
    ready.add_metric([], int(session.is_ready))
    yield from (shown, rewards, reward, active, ready)


class _Ready(Collector):
    """Metrics that were made before they are asked for."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = [*metrics]

    def collect(self) -> Iterable[Metric]:
        """Return them."""
        return self._metrics


def metrics_text(metrics: Iterable[Metric]) -> bytes:
    """Return metrics as Prometheus reads them; labels are escaped, whatever an arm is called."""
    registry = CollectorRegistry()
    registry.register(_Ready(metrics))
    return generate_latest(registry)
