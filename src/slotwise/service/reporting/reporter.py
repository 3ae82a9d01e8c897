"""Read how pools and decisions are doing, from the store and the versions in use."""

from __future__ import annotations

from collections.abc import Iterator

from slotwise.errors import UnknownDecision
from slotwise.service.deciding.decider import Decider
from slotwise.service.notes import Notes
from slotwise.service.pool_directory import PoolDirectory
from slotwise.service.reporting import pool_report
from slotwise.service.reporting.all_pools import PoolRow, describe_pool
from slotwise.service.reporting.decision_report import report_decision, round_row, settings_at
from slotwise.service.reporting.for_whom import ForWhom, report_for_whom, say_for_whom
from slotwise.service.reporting.reports import (
    DecisionReport,
    Explanation,
    FrontierReport,
    Health,
    PoolReport,
    RoundRow,
)
from slotwise.service.reporting.round_log import log_file
from slotwise.service.reporting.totals import (
    PeriodComparison,
    compare_periods,
    period_span_us,
)
from slotwise.service.reporting.what_if import EvaluationReport, evaluate_floor, kept_logs
from slotwise.service.storage.activity import Activity
from slotwise.service.storage.contract import Store

__all__ = ["Reporter"]

EXPORT_CHUNK = 10_000
MAX_CHANGES = 1_000
"""Latest changes of a pool that are read to find its settings at a time."""


class Reporter:
    """Reports; every call queries the store or computes for a while: *reading*."""

    def __init__(
        self,
        store: Store,
        directory: PoolDirectory,
        decider: Decider,
        notes: Notes,
    ) -> None:
        self._store = store
        self._decider = decider
        self._logs = kept_logs()
        self.directory = directory
        self.notes = notes

    def stats(self, pool_id: str) -> PoolReport:
        """Return the statistics of a pool."""
        pool, snapshot = self.directory.pool(pool_id), self._decider.snapshot(pool_id)
        with self._store.reading() as reader:
            return pool_report.report_pool(reader, pool, snapshot)

    def all_pools(self, health: Health) -> tuple[PoolRow, ...]:
        """Return a row for each pool."""
        rows = []
        for pool in self.directory.all_pools():
            settings, n_links = pool.settings, len(pool.active)
            snapshot = self._decider.snapshot(settings.pool_id)
            with self._store.reading() as reader:
                rows.append(describe_pool(reader, settings, n_links, snapshot, health))
        return tuple(rows)

    def compare(self, pool_id: str, from_us: int, until_us: int) -> PeriodComparison:
        """Compare a period with the one of the same length before it."""
        pool = self.directory.pool(pool_id)
        span_us = period_span_us(until_us - from_us)
        since_us = max(2 * from_us - until_us, 0)
        spans = self.activity(pool_id, since_us, span_us).spans
        return compare_periods(spans, pool.currency, span_us, from_us, until_us)

    def frontier(self, pool_id: str) -> FrontierReport:
        """Return the best revenue for every floor, by the present estimates."""
        pool, snapshot = self.directory.pool(pool_id), self._decider.snapshot(pool_id)
        return pool_report.report_frontier(pool, snapshot)

    def for_whom(self, pool_id: str) -> ForWhom:
        """Tell what was learned for whom, and of the slots."""
        pool, snapshot = self.directory.pool(pool_id), self._decider.snapshot(pool_id)
        with self._store.reading() as reader:
            counters = reader.counters(pool_id)
        return report_for_whom(counters, pool, snapshot)

    def explain(self, pool_id: str) -> list[Explanation]:
        """Tell for each active link why it is shown as often as it is."""
        pool, snapshot = self.directory.pool(pool_id), self._decider.snapshot(pool_id)
        explained = pool_report.explain_links(pool, snapshot)
        if not snapshot.depends_on_visitors:
            return explained
        with self._store.reading() as reader:
            return say_for_whom(explained, reader.counters(pool_id), pool, snapshot)

    def explain_lately(self, pool_id: str) -> list[Explanation]:
        """Tell it by the average of the latest versions: the same for a minute."""
        pool, snapshot = self.directory.pool(pool_id), self._decider.snapshot(pool_id)
        averaged = self._decider.averages(pool_id)
        return pool_report.explain_links(pool, snapshot, averaged)

    def activity(self, pool_id: str, since_us: int, span_us: int) -> Activity:
        """Sum up what happened in a pool since a time, span by span."""
        self.directory.pool(pool_id)
        with self._store.reading() as reader:
            closed_until_us = reader.progress().closed_until_us
            return reader.activity(pool_id, since_us, span_us, closed_until_us)

    def decision(self, decision_id: str) -> DecisionReport:
        """Tell what was shown, received, counted and refused, or raise `UnknownDecision`."""
        with self._store.reading() as reader:
            view = reader.view(decision_id)
            if view is None:
                raise UnknownDecision(f"there is no decision {decision_id!r}")
            closed_until_us = reader.progress().closed_until_us
            present = self.directory.pool(view.decision.pool_id)
            changes = reader.changes(present.pool_id, MAX_CHANGES)
            pool = settings_at(present, changes, view.decision.issued_us)
            return report_decision(view, reader.refusals(decision_id), closed_until_us, pool)

    def pool_of_decision(self, decision_id: str) -> str | None:
        """Return the pool of a stored decision."""
        with self._store.reading() as reader:
            found = reader.decision(decision_id)
            return None if found is None else found.pool_id

    def export(
        self, pool_id: str, since_us: int = 0, until_us: int | None = None
    ) -> Iterator[list[RoundRow]]:
        """Go through the round log in the order it was stored, in lists of some thousand."""
        self.directory.pool(pool_id)
        with self._store.reading() as reader:
            closed_until_us = reader.progress().closed_until_us
        last = 0
        while True:
            # Each chunk at its own moment: a slow consumer must not hold one for minutes.
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

        The log of a recent time is kept for a minute, so that a slider may ask again.
        """
        pool = self.directory.pool(pool_id)
        with self._store.reading() as reader:
            pages = reader.counters(pool_id).pages
        n_settled = sum(group.revenue_views for group in pages.values())

        def read_log() -> bytes:
            return log_file(pool, self.export(pool_id, since_us)).getvalue()

        def kept_log() -> bytes:
            return self._logs.get(pool_id, pool.changed_us, read_log)

        return evaluate_floor(pool, click_floor, n_settled, kept_log if is_recent else read_log)
