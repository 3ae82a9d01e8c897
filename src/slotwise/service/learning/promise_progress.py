"""Decide the share of chosen pages of a pool with a promise.

Used by `pool_run` and `reporting`.
"""

from __future__ import annotations

from slotwise.selection.promise import (
    OpenCounts,
    OwnPageComparison,
    PromiseEvidence,
    Shares,
    compare,
    next_share,
)
from slotwise.service.counting.attribution import Counters, Group
from slotwise.service.counting.counters import SHARE_UNIT
from slotwise.service.pool_version import PromiseState, promise_terms, share_step
from slotwise.service.records import SECOND_US, PageGroup, PoolSettings
from slotwise.service.storage.sql_reads import StoreReader

_GROUPS: dict[Group, PageGroup] = {"policy": "chosen", "own": "own", "holdout": "random"}
TIMES_AHEAD = 2.0
"""The views until the next version are taken to be at most this many times those of the last."""


def evidence_of(counters: Counters, pool: PoolSettings) -> PromiseEvidence:
    """Return the evidence on own and chosen pages, in units of the pool's largest revenue."""
    evidence = PromiseEvidence()
    for (group, since_us, chosen, own), pages in counters.compared.items():
        if since_us == pool.own_page_us:
            shares = Shares(chosen, own, max(0.0, 1.0 - chosen - own))
            total = pages.revenue_micros / pool.max_revenue_micros
            sums = (total, pages.revenue_squared / SHARE_UNIT**2)
            evidence.note_many(_GROUPS[group], shares, pages.revenue_views, sums)
    return evidence


def compare_own_page(counters: Counters, pool: PoolSettings) -> OwnPageComparison:
    """Compare chosen pages with the own page, in units of the pool's largest revenue."""
    return compare(evidence_of(counters, pool), float(pool.slots))


class PromiseProgress:
    """Counts the pages of each group that were shown since the own page was last changed.

    Views that are not settled yet are the difference between these and the counters. After a start
    they are counted from the rows. `last` is what the last version promised, if there is one.
    """

    def __init__(self, last: PromiseState | None = None) -> None:
        self._last = last
        self._since_us = 0
        self._counted_to = 0
        """The position in the store up to which pages are counted."""
        self._counted_us = 0
        self._shown = OpenCounts()
        self._n_ahead = 1.0
        self._share = 0.0
        """The share of the last version, which stays while the balance can pay for it."""
        self._known: tuple[PoolSettings, Counters, PromiseEvidence, float] | None = None

    def count(self, reader: StoreReader, pool: PoolSettings, now_us: int) -> None:
        """Count the pages that were shown since the last call."""
        if self._since_us != pool.own_page_us:
            is_same = self._last is not None and self._last.since_us == pool.own_page_us
            self._share = self._last.share if self._last is not None and is_same else 0.0
            self._since_us, self._shown = pool.own_page_us, OpenCounts()
            settled = evidence_of(reader.counters(pool.pool_id), pool)
            self._counted_to, n_own, n_other = reader.open_groups(pool.pool_id, self._since_us)
            window_us = max(pool.click_window_s, pool.revenue_window_s) * SECOND_US
            seen_us = max(min(now_us - self._since_us, window_us), SECOND_US)
            self._n_ahead = max(1.0, (n_own + n_other) * SECOND_US / seen_us)
            self._shown = OpenCounts(settled.n_own + n_own, settled.n_other + n_other)
            return
        last = (pool.pool_id, self._since_us, self._counted_to)
        self._counted_to, n_own, n_other = reader.groups_since(*last)
        self._shown = OpenCounts(self._shown.own + n_own, self._shown.other + n_other)
        self._n_ahead = max(1.0, float(n_own + n_other))

    def state(self, pool: PoolSettings, counters: Counters) -> PromiseState | None:
        """Return the share of chosen pages until the next version; None if nothing is counted."""
        if self._since_us != pool.own_page_us:
            return None
        if self._known is None or self._known[:2] != (pool, counters):
            evidence = evidence_of(counters, pool)
            rho = compare(evidence, float(pool.slots)).rho
            self._known = (pool, counters, evidence, rho)
        *_, evidence, rho = self._known
        n_own, n_other = self._shown
        open_views = OpenCounts(
            max(0.0, n_own - evidence.n_own), max(0.0, n_other - evidence.n_other)
        )
        terms = promise_terms(pool)
        n_ahead = TIMES_AHEAD * self._n_ahead
        share = next_share(
            evidence, open_views, terms, n_ahead=n_ahead, rho=rho, previous=self._share
        )
        self._share = share.chosen
        return PromiseState(
            keep=pool.keep,
            since_us=pool.own_page_us,
            share=share_step(share.chosen),
            rho=rho,
            reason=share.reason,
        )
