"""Metrics of the service for Prometheus. Used by `api`."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from slotwise.service.reporting.health import Health

METRICS: dict[str, str] = {
    "slotwise_requests_total": "Requests answered, by operation and status",
    "slotwise_request_seconds": "Time from a request's head to its answer, by operation",
    "slotwise_decisions_total": "Pages decided, by pool and kind (policy, own, holdout, fallback)",
    "slotwise_ignored_attributes_total": "Attributes of OpenFeature contexts that are no feature "
    "of the pool, by pool",
    "slotwise_events_total": "Events answered, by type and outcome",
    "slotwise_redirects_total": "Click links followed, by outcome of the click",
    "slotwise_refusals_total": "Requests and connections refused, by problem",
    "slotwise_clipped_sales_total": "Sales above max_revenue, which count as max_revenue",
    "slotwise_ready": "1 when decide answers",
    "slotwise_store_available": "1 when feedback is accepted",
    "slotwise_learner": "1 when this process learns; one of several replicas does",
    "slotwise_waiting_writes": "Writes that wait for their commit",
    "slotwise_lost_decisions_total": "Decisions dropped while the store was unavailable",
    "slotwise_lost_clicks_total": "Clicks on links dropped while the store was unavailable",
    "slotwise_closed_until_seconds": "Windows are closed up to this time since the epoch",
    "slotwise_clock_jump_seconds": "How far the time of day jumped ahead of the service's clock",
    "slotwise_store_ahead_seconds": "How far the latest time in the store is in the future",
    "slotwise_learning_failures_total": "Failures to learn or publish, by pool",
    "slotwise_pool_learned_seconds": "When the pool was last learned, by pool",
    "slotwise_pool_version": "Version of the published probabilities, by pool",
    "slotwise_pool_published_seconds": "When that version was published, by pool",
    "slotwise_pool_floor": "1 for the present floor status, by pool and status",
    "slotwise_pool_segment_floor": "1 for the present status of a segment's floor, by pool, "
    "feature, value and status",
    "slotwise_pool_fallback": "1 when the pool shows its own page because its policy or its "
    "learning failed, by pool",
}
"""Every metric with its help text."""

_BOUNDS = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_BUCKETS = (*(str(bound) for bound in _BOUNDS), "+Inf")
_FLOOR_STATUSES = ("met", "learning", "infeasible")


class ServiceMetrics(Collector):
    """Plain counters that requests increment, and Prometheus text made on request.

    The counters of prometheus_client are not used because they lock, and a decision takes
    microseconds. All changes come from the event loop's thread; reading copies first.
    """

    def __init__(self, health: Callable[[], Health], refusals: Counter[str]) -> None:
        self._health = health
        self._refusals = refusals
        self._registry = CollectorRegistry()
        self.requests: Counter[tuple[str, int]] = Counter()
        self.decisions: Counter[tuple[str, str]] = Counter()
        self.ignored_attributes: Counter[str] = Counter()
        self.events: Counter[tuple[str, str]] = Counter()
        self.redirects: Counter[str] = Counter()
        self.n_clipped_sales = 0
        self._times: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}
        self._registry.register(self)

    def observe(self, operation: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        self.requests[operation, status] += 1
        times = self._times.get(operation)
        if times is None:
            times = self._times[operation] = [0] * len(_BUCKETS)
            self._seconds[operation] = 0.0
        times[bisect_left(_BOUNDS, seconds)] += 1
        self._seconds[operation] += seconds

    def text(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics to prometheus_client."""
        health = self._health()
        yield self._counter("slotwise_requests_total", ("operation", "status"), self.requests)
        yield self._request_seconds()
        yield self._counter("slotwise_decisions_total", ("pool", "kind"), self.decisions)
        ignored = self.ignored_attributes
        yield self._counter("slotwise_ignored_attributes_total", ("pool",), ignored)
        yield self._counter("slotwise_events_total", ("type", "outcome"), self.events)
        yield self._counter("slotwise_redirects_total", ("click",), self.redirects)
        yield self._counter("slotwise_refusals_total", ("problem",), self._refusals)
        yield self._counter("slotwise_clipped_sales_total", (), {(): self.n_clipped_sales})
        yield self._gauge("slotwise_ready", health.ready)
        yield self._gauge("slotwise_store_available", health.store_available)
        yield self._gauge("slotwise_learner", health.is_learner)
        yield self._gauge("slotwise_waiting_writes", health.n_waiting)
        yield self._counter("slotwise_lost_decisions_total", (), {(): health.n_lost_decisions})
        yield self._counter("slotwise_lost_clicks_total", (), {(): health.n_lost_clicks})
        yield self._gauge("slotwise_closed_until_seconds", health.closed_until_us / 1e6)
        yield self._gauge("slotwise_clock_jump_seconds", health.clock_jump_us / 1e6)
        yield self._gauge("slotwise_store_ahead_seconds", health.store_ahead_us / 1e6)
        yield from self._pools(health)

    def _pools(self, health: Health) -> Iterator[Metric]:
        """Yield the metrics that have a value for each pool."""

        def family(name: str, *labels: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(name, METRICS[name], labels=("pool", *labels))

        failures = {pool.pool_id: pool.n_failures for pool in health.pools}
        yield self._counter("slotwise_learning_failures_total", ("pool",), failures)
        learned = family("slotwise_pool_learned_seconds")
        version = family("slotwise_pool_version")
        published = family("slotwise_pool_published_seconds")
        floor = family("slotwise_pool_floor", "status")
        segments = family("slotwise_pool_segment_floor", "feature", "value", "status")
        fallback = family("slotwise_pool_fallback")
        for pool in health.pools:
            learned.add_metric([pool.pool_id], pool.learned_us / 1e6)
            version.add_metric([pool.pool_id], pool.policy_version)
            published.add_metric([pool.pool_id], pool.published_us / 1e6)
            fallback.add_metric([pool.pool_id], bool(pool.fallback))
            for status in _FLOOR_STATUSES:
                floor.add_metric([pool.pool_id, status], pool.floor_status == status)
                for one in pool.segment_floors:
                    labels = [pool.pool_id, one.feature, one.value, status]
                    segments.add_metric(labels, one.floor.status == status)
        yield from (learned, version, published, floor, segments, fallback)

    def _request_seconds(self) -> Metric:
        name = "slotwise_request_seconds"
        family = HistogramMetricFamily(name, METRICS[name], labels=("operation",))
        for operation, times in list(self._times.items()):
            running, buckets = 0, []
            for bound, n in zip(_BUCKETS, times, strict=True):
                running += n
                buckets.append((bound, float(running)))
            family.add_metric([operation], buckets, self._seconds[operation])
        return family

    @staticmethod
    def _counter(name: str, labels: tuple[str, ...], counts: Mapping[Any, int]) -> Metric:
        family = CounterMetricFamily(name, METRICS[name], labels=labels)
        for values, n in list(counts.items()):
            named = (values,) if isinstance(values, str) else values
            family.add_metric([str(value) for value in named], n)
        return family

    @staticmethod
    def _gauge(name: str, value: float) -> Metric:
        return GaugeMetricFamily(name, METRICS[name], value=float(value))
