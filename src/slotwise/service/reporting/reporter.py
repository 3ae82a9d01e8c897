"""Report on pools and decisions, from the store and the versions in use.

Used by `overview`, `api` and `service`.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from slotwise.errors import SlotwiseError, UnknownDecision
from slotwise.evaluation import BestMix, Estimate, evaluate
from slotwise.service.deciding.decider import Decider
from slotwise.service.deciding.installed_version import InstalledVersion
from slotwise.service.pool import Pool
from slotwise.service.pool_directory import PoolDirectory
from slotwise.service.pool_notes import Notes
from slotwise.service.records import (
    DAY_US,
    SECOND_US,
    FloorState,
    PoolRule,
    PoolSettings,
)
from slotwise.service.reporting import pool_report
from slotwise.service.reporting.decision_report import report_decision, round_row, settings_at
from slotwise.service.reporting.health import Health
from slotwise.service.reporting.own_page_report import forecast_share
from slotwise.service.reporting.page_view_files import log_file
from slotwise.service.reporting.pool_report import (
    PeriodComparison,
    compare_periods,
    describe_trouble,
    period_span_us,
    report_totals,
)
from slotwise.service.reporting.report_records import (
    DecisionReport,
    Explanation,
    FrontierReport,
    GroupReport,
    PoolReport,
    RateReport,
    RoundRow,
    RuleStatus,
)
from slotwise.service.reporting.rule_report import (
    RuleCheck,
    check_new_rules,
    report_rules,
    rules_below_floor,
)
from slotwise.service.reporting.segments import SegmentsReport, describe_segments, report_segments
from slotwise.service.storage.activity import Activity
from slotwise.service.storage.contract import Store

Report = TypeVar("Report")

MAX_CACHED = 64
MAX_NAMES = 1_000
MAX_OLD_S = 60.0
"""How long after its expiry `latest` still returns a report."""


class _CachedReport(NamedTuple):
    report: object
    state: Hashable
    until_s: float


class ReportCache(Generic[Report]):
    """Makes a report at most every `cached_s`, using at most a twentieth of one core.

    `clock_s` is monotonic time in seconds.
    """

    def __init__(self, cached_s: float, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._cached_s = cached_s
        self._clock_s = clock_s
        self._lock = Lock()
        self._making: dict[str, Lock] = {}
        self._cache: dict[str, _CachedReport] = {}

    def latest(self, name: str, state: Hashable, make: Callable[[], Report]) -> Report:
        """Return the last report called `name`, even an expired one, unless `state` changed since.

        For calls that must not wait for a new report.
        """
        cached = self._cache.get(name)
        if (
            cached is not None
            and cached.state == state
            and self._clock_s() < cached.until_s + MAX_OLD_S
        ):
            return cached.report  # type: ignore[return-value]
        return self.get(name, state, make)

    def get(self, name: str, state: Hashable, make: Callable[[], Report]) -> Report:
        """Return the report called `name`; make it again when `state` changed or it expired."""
        with self._lock:
            if len(self._making) >= MAX_NAMES:  # callers choose names, for example of periods
                self._making = {one: lock for one, lock in self._making.items() if lock.locked()}
            making = self._making.setdefault(name, Lock())
        with making:
            cached = self._cache.get(name)
            started = self._clock_s()
            if cached is not None and cached.state == state and started < cached.until_s:
                return cached.report  # type: ignore[return-value]
            report = make()
            took = self._clock_s() - started
            until_s = started + took + max(self._cached_s, 20 * took)
            with self._lock:
                while len(self._cache) >= MAX_CACHED:
                    del self._cache[next(iter(self._cache))]
                self._cache[name] = _CachedReport(report, state, until_s)
            return report


CACHED_S = 60.0
MIN_PAGES = 200
"""A shorter log is not evaluated: fitting and evaluating each need some pages."""


class EvaluationReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcomes per page view of the best mix at a floor, estimated from the log."""

    pool_id: str
    click_floor: float
    currency: str
    revenue: Estimate | None
    """In the currency; both intervals hold together with `confidence`."""
    clicks: Estimate | None
    logged_revenue: Estimate | None
    """Outcomes of the pages in the log."""
    logged_clicks: Estimate | None
    floor_is_kept: bool | None
    """None if the interval allows both."""
    cannot_tell: str
    """Why the log is not sufficient, in a sentence; empty if it is."""
    confidence: float
    effective_sample_size: float
    max_weight: float
    uncovered: float
    """The share of the page that the log could not show."""
    n_pages: int
    n_fitted: int
    """Pages at the beginning that only served to fit the mix."""
    n_unsettled: int
    """Pages left out because their windows are open."""


def evaluate_floor(
    pool: PoolSettings, click_floor: float, n_settled: int, read_log: Callable[[], bytes]
) -> EvaluationReport:
    """Evaluate the best mix at a floor; a log that is too short gives no estimate."""
    if n_settled < MIN_PAGES:
        reason = f"it has {n_settled} settled pages, and {MIN_PAGES} are the least"
        return _no_answer(pool, click_floor, f"The log cannot tell: {reason}.")
    try:
        answer = evaluate([io.BytesIO(read_log())], BestMix(click_floor, pool.slots))
    except SlotwiseError as error:
        return _no_answer(pool, click_floor, f"The log cannot tell: {error}.")
    return EvaluationReport(
        pool_id=pool.pool_id,
        click_floor=click_floor,
        currency=pool.currency,
        revenue=answer.revenue,
        clicks=answer.clicks,
        logged_revenue=answer.logged_revenue,
        logged_clicks=answer.logged_clicks,
        floor_is_kept=answer.floor_is_kept,
        cannot_tell=answer.cannot_tell,
        confidence=answer.confidence,
        effective_sample_size=answer.effective_sample_size,
        max_weight=answer.max_weight,
        uncovered=answer.uncovered,
        n_pages=answer.n_pages,
        n_fitted=answer.n_fitted,
        n_unsettled=answer.n_unsettled,
    )


def _no_answer(pool: PoolSettings, click_floor: float, reason: str) -> EvaluationReport:
    return EvaluationReport(
        pool_id=pool.pool_id,
        click_floor=click_floor,
        currency=pool.currency,
        floor_is_kept=None,
        cannot_tell=reason,
        confidence=0.95,
        revenue=None,
        clicks=None,
        logged_revenue=None,
        logged_clicks=None,
        effective_sample_size=0.0,
        max_weight=0.0,
        uncovered=0.0,
        n_pages=0,
        n_fitted=0,
        n_unsettled=0,
    )


class PoolRow(msgspec.Struct, frozen=True, kw_only=True):
    """How one pool is doing."""

    pool_id: str
    archived: bool
    n_links: int
    slots: int
    currency: str
    floor: FloorState
    clicks_delivered: RateReport | None
    groups: tuple[GroupReport, ...]
    lift: RateReport | None
    trouble: str
    """Why the pool cannot learn, in one sentence; empty if it can."""


EXPORT_CHUNK = 10_000
MAX_CHANGES_READ = 1_000
"""Latest changes of a pool that are read, for example to find its settings at a time."""


class Reporter:
    """Makes reports; every call queries the store or computes for a while: *reading*."""

    def __init__(
        self,
        store: Store,
        directory: PoolDirectory,
        decider: Decider,
        notes: Notes,
    ) -> None:
        self._store = store
        self._decider = decider
        self._logs: ReportCache[bytes] = ReportCache(CACHED_S)
        self._forecasts: ReportCache[tuple[int | None, int | None]] = ReportCache(CACHED_S)
        self.directory = directory
        self.notes = notes

    def stats(self, pool_id: str) -> PoolReport:
        """Return the statistics of a pool."""
        pool, installed = self.directory.pool(pool_id), self._decider.installed(pool_id)
        with self._store.reading() as reader:
            report = pool_report.report_pool(reader, pool, installed)
        rules = report_rules(self.directory.whole_pool(pool_id), installed)
        return replace(report, rules=rules) if rules else report

    def share_forecast(self, pool_id: str, n_open: int) -> tuple[int | None, int | None]:
        """Return the views until half and all pages of a promise are chosen, from a cache."""
        pool = self.directory.pool(pool_id)

        def make() -> tuple[int | None, int | None]:
            with self._store.reading() as reader:
                counters = reader.counters(pool_id)
            return forecast_share(counters, pool, n_open)

        return self._forecasts.latest(pool_id, pool.changed_us, make)

    def rules(self, pool_id: str, now_us: int) -> tuple[RuleStatus, ...]:
        """Return what the rules of a pool deliver and cost."""
        self._decider.renew(pool_id, now_us)
        pool, installed = self.directory.whole_pool(pool_id), self._decider.installed(pool_id)
        return report_rules(pool, installed)

    def rules_below_floor(self, pool_id: str) -> tuple[str, ...]:
        """Return the names of the rules that keep pages below the click floor."""
        pool = self.directory.whole_pool(pool_id)
        return rules_below_floor(pool, self._decider.installed(pool_id))

    def check_rules(self, pool_id: str, rules: Sequence[PoolRule], now_us: int) -> RuleCheck:
        """Return what new rules would cost, and which contradict others."""
        self._decider.renew(pool_id, now_us)
        pool, installed = self.directory.whole_pool(pool_id), self._decider.installed(pool_id)
        since_us = max(now_us - DAY_US, pool.settings.created_us)
        seconds = max((now_us - since_us) / SECOND_US, 1.0)
        spans = self.activity(pool_id, since_us, DAY_US).spans
        views_per_s = sum(span.views for span in spans) / seconds
        return check_new_rules(pool, installed, rules, now_us, views_per_s)

    def rows_of(self, pools: Iterable[Pool], health: Health) -> tuple[PoolRow, ...]:
        """Return a row for each of these pools."""
        rows = []
        for pool in pools:
            settings, pool_id = pool.settings, pool.settings.pool_id
            with self._store.reading() as reader:
                counters = reader.counters(pool_id)
            totals = report_totals(counters, settings, self._decider.installed(pool_id))
            rows.append(
                PoolRow(
                    pool_id=settings.pool_id,
                    archived=settings.archived,
                    slots=settings.slots,
                    currency=settings.currency,
                    floor=totals.floor,
                    clicks_delivered=totals.clicks_delivered,
                    groups=totals.groups,
                    lift=totals.lift,
                    n_links=len(pool.active),
                    trouble=describe_trouble(health, pool_id),
                )
            )
        return tuple(rows)

    def compare(self, pool_id: str, from_us: int, until_us: int) -> PeriodComparison:
        """Compare a period with the preceding period of the same length."""
        pool = self.directory.pool(pool_id)
        span_us = period_span_us(until_us - from_us)
        since_us = max(2 * from_us - until_us, 0)
        spans = self.activity(pool_id, since_us, span_us).spans
        return compare_periods(spans, pool, span_us, from_us, until_us)

    def frontier(self, pool_id: str) -> FrontierReport:
        """Return the best revenue for every floor, by the present estimates."""
        pool, installed = self.directory.pool(pool_id), self._decider.installed(pool_id)
        return pool_report.report_frontier(pool, installed, self._decider.averages(pool_id))

    def segments(self, pool_id: str) -> SegmentsReport:
        """Return what was learned of segments and slots."""
        pool, installed = self.directory.pool(pool_id), self._decider.installed(pool_id)
        with self._store.reading() as reader:
            counters = reader.counters(pool_id)
        return report_segments(counters, pool, installed)

    def explain(self, pool_id: str) -> list[Explanation]:
        """Return for each active link why it is shown as often as it is."""
        pool, installed = self.directory.pool(pool_id), self._decider.installed(pool_id)
        return self._by_segment(pool, installed, pool_report.explain_links(pool, installed))

    def _by_segment(
        self, pool: PoolSettings, installed: InstalledVersion, explained: list[Explanation]
    ) -> list[Explanation]:
        """Add which visitors see each link most, where pages depend on visitors."""
        if not installed.depends_on_visitors:
            return explained
        with self._store.reading() as reader:
            return describe_segments(explained, reader.counters(pool.pool_id), pool, installed)

    def explain_lately(self, pool_id: str) -> list[Explanation]:
        """Return the same for the average of the latest versions; cached for a minute."""
        pool, installed = self.directory.pool(pool_id), self._decider.installed(pool_id)
        averaged = self._decider.averages(pool_id)
        return self._by_segment(
            pool, installed, pool_report.explain_links(pool, installed, averaged)
        )

    def activity(self, pool_id: str, since_us: int, span_us: int) -> Activity:
        """Sum up the activity of a pool since a time, by span of time."""
        self.directory.pool(pool_id)
        with self._store.reading() as reader:
            closed_until_us = reader.progress().closed_until_us
            return reader.activity(pool_id, since_us, span_us, closed_until_us)

    def decision(self, decision_id: str) -> DecisionReport:
        """Return what was shown, received, counted and refused, or raise `UnknownDecision`."""
        with self._store.reading() as reader:
            view = reader.view(decision_id)
            if view is None:
                raise UnknownDecision(f"there is no decision {decision_id!r}")
            closed_until_us = reader.progress().closed_until_us
            present = self.directory.pool(view.decision.pool_id)
            changes = reader.changes(present.pool_id, MAX_CHANGES_READ)
            pool = settings_at(present, changes, view.decision.issued_us)
            return report_decision(view, reader.refusals(decision_id), closed_until_us, pool)

    def sales_missing(self, pool_id: str) -> bool:
        """Return whether sales that are expected from open views do not arrive."""
        return self._decider.installed(pool_id).stored.sales_missing

    def pool_of_decision(self, decision_id: str) -> str | None:
        """Return the pool of a stored decision."""
        with self._store.reading() as reader:
            found = reader.decision(decision_id)
            return None if found is None else found.pool_id

    def export(
        self, pool_id: str, since_us: int = 0, until_us: int | None = None
    ) -> Iterator[list[RoundRow]]:
        """Yield the round log in the order it was stored, in lists of a few thousand."""
        self.directory.pool(pool_id)
        with self._store.reading() as reader:
            closed_until_us = reader.progress().closed_until_us
        last = 0
        while True:
            # Each chunk has its own snapshot: a slow consumer must not hold one for minutes.
            with self._store.reading() as reader:
                batch = reader.views_after(pool_id, since_us, until_us, last, EXPORT_CHUNK)
            if not batch.views:
                return
            last = batch.last
            yield [round_row(view, closed_until_us) for view in batch.views]

    def evaluate(
        self, pool_id: str, click_floor: float, since_us: int, is_recent: bool
    ) -> EvaluationReport:
        """Return what the best mix at a floor would have earned, by the log since a time.

        The log of a recent time is cached for a minute, since a slider repeats the request.
        """
        pool = self.directory.pool(pool_id)
        with self._store.reading() as reader:
            pages = reader.counters(pool_id).pages
        n_settled = sum(group.revenue_views for group in pages.values())

        def read_log() -> bytes:
            return log_file(pool, self.export(pool_id, since_us)).getvalue()

        def cached_log() -> bytes:
            return self._logs.get(pool_id, pool.changed_us, read_log)

        return evaluate_floor(pool, click_floor, n_settled, cached_log if is_recent else read_log)
