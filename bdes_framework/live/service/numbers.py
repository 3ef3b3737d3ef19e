"""Counts and waiting times of requests, as Prometheus wants them."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from bdes_framework.live.session import LiveSession
from bdes_framework.live.status import ArmStatus

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


def session_metrics(session: LiveSession) -> Iterator[Metric]:
    """Yield how a session does, and what was shown and earned by arm."""
    status = session.status()
    newest = status.models[-1] if status.models else None
    counters = {
        "late_rewards": ("Rewards that came when their window was over.", status.late),
        "forgotten_users": ("Users whose names were removed.", status.forgotten),
    }
    gauges = {
        "ready": ("1 while decisions are made at once.", status.is_ready),
        "healthy": ("1 while it decides and nothing goes wrong.", status.is_healthy),
        "learning": ("1 while this process learns.", status.is_learning),
        "users": ("Users who came, forgotten ones too.", status.users),
        "open_decisions": ("Decisions whose reward window is open.", status.open),
        "model": ("Number of the newest model.", newest.number if newest else 0),
        "model_read": ("Events the newest model has read.", newest.read if newest else 0),
    }
    for name, (what, value) in counters.items():
        yield CounterMetricFamily(f"bdes_{name}", what, value)
    for name, (what, value) in gauges.items():
        yield GaugeMetricFamily(f"bdes_{name}", what, float(value))
    yield from _by_arm(status.arms)


def _by_arm(arms: Iterable[ArmStatus]) -> Iterator[Metric]:
    shown = CounterMetricFamily("bdes_shown", "Decisions for an arm.", labels=["arm"])
    known = CounterMetricFamily(
        "bdes_rewards", "Rewards of an arm, told in time or settled by the default.", labels=["arm"]
    )
    total = CounterMetricFamily("bdes_reward", "Sum of the rewards of an arm.", labels=["arm"])
    active = GaugeMetricFamily("bdes_arm_active", "1 for an arm that is shown.", labels=["arm"])
    for arm in arms:
        n = arm.rewards + arm.defaults
        shown.add_metric([arm.name], arm.shown)
        known.add_metric([arm.name], n)
        total.add_metric([arm.name], n * (arm.mean_reward or 0.0))
        active.add_metric([arm.name], int(arm.is_active))
    yield from (shown, known, total, active)


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
