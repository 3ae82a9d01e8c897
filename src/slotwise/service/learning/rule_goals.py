"""Count what the rules of a pool have delivered, and pace their dated goals and budgets.

Used by `pool_run`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from slotwise.player.pacing import Goal, GoalProgress, Goals, Traffic, pace
from slotwise.service.pool import Pool
from slotwise.service.pool_version import RuleCount, StoredVersion
from slotwise.service.records import SECOND_US, PacedRule, PoolRule, PoolSettings
from slotwise.service.storage.contract import ShownViews
from slotwise.service.storage.sql_reads import StoreReader

ShownSince = Callable[[StoreReader, str, int], ShownViews]
"""Counts what a pool has shown after a position in the store, like `StoreReader.shown_since`."""


class RuleProgress:
    """What the rules of a pool have delivered, and the present bounds of their goals."""

    def __init__(self, stored: StoredVersion | None = None) -> None:
        self.counts: tuple[RuleCount, ...] = stored.rule_counts if stored else ()
        self.counted_to = stored.counted_to if stored else 0
        """The position in the store up to which pages are counted."""
        self.counted_us = stored.counted_us if stored else 0
        self.paced: tuple[PacedRule, ...] = stored.paced_rules if stored else ()
        self.traffic = Traffic(stored.traffic if stored else b"")

    def count(self, reader: StoreReader, shown_since: ShownSince, pool: Pool, now_us: int) -> None:
        """Add to each rule what was delivered since the last call; a new rule starts at 0."""
        before = {(one.name, one.since_us): one for one in self.counts}
        is_counting = bool(before or (pool.settings.until_us and self.counted_us))
        after = self.counted_to if is_counting else 2**62
        shown = shown_since(reader, pool.settings.pool_id, after)
        if is_counting and self.counted_us:
            self.traffic.add(shown.n_pages, self.counted_us, now_us)
        counts = []
        for one, rule in zip(pool.settings.rules, pool.rules(), strict=True):
            known = before.get((one.name, one.since_us))
            count = RuleCount(one.name, one.since_us)
            if known is not None:
                slots = known.slots + sum(shown.links.get(link, 0) for link in rule.links)
                counted = (known.pages + shown.n_pages, slots, known.clicks, known.clicks_to_us)
                count = RuleCount(one.name, one.since_us, *counted)
            if one.clicks_until or one.budget:
                count = _count_clicks(reader, pool.settings.pool_id, count, set(rule.links))
            counts.append(count)
        self.counts, self.counted_to, self.counted_us = tuple(counts), shown.until, now_us

    def views_to_come(self, pool: Pool, now_us: int) -> float:
        """Return the page views expected until the pool ends; 0 if unknown."""
        until_us = pool.settings.until_us
        is_known = until_us > now_us and self.traffic.is_known
        return self.traffic.views_until(now_us, until_us) if is_known else 0.0

    def pace(self, pool: Pool, rates: Mapping[str, float], now_us: int) -> None:
        """Compute the bounds of goals and budgets; `rates` are the clicks per view of links."""
        paced = []
        for one, rule, count in zip(pool.settings.rules, pool.rules(), self.counts, strict=True):
            if one.has_goals:
                of_links = [rates[link] for link in rule.links if link in rates]
                rate = max(float(np.mean(of_links)) if of_links else 0.0, 1e-9)
                paced.append(pace_rule(one, count, self.traffic, rate, pool.settings, now_us))
        self.paced = tuple(paced)


def pace_rule(
    rule: PoolRule,
    count: RuleCount,
    traffic: Traffic,
    rate: float,
    pool: PoolSettings,
    now_us: int,
) -> PacedRule:
    """Return the slots that the links of a rule need and may have from now on.

    `rate` is the expected number of clicks per view of the links.
    """
    views, clicks, budget = rule.views_until, rule.clicks_until, rule.budget
    goals = Goals(
        None if views is None else Goal(views.views, views.until_us),
        None if clicks is None else Goal(clicks.clicks, clicks.until_us),
        None if budget is None else Goal(budget.clicks, budget.until_us),
    )
    done = count.clicks + count.open_clicks
    window_us = pool.click_window_s * SECOND_US
    progress = GoalProgress(count.slots, done, count.open_slots, count.open_clicks, window_us)
    least, most = pace(goals, progress, traffic, rate, now_us)
    quota, slots = -1, float(pool.slots)
    if budget is not None and budget.hard and now_us < budget.until_us:
        # every open view may still be clicked
        quota = max(0, budget.clicks - done - (count.open_slots - count.open_clicks))
    return PacedRule(rule.name, min(max(least, 0.0), slots), min(slots, most), quota)


def _count_clicks(
    reader: StoreReader, pool_id: str, count: RuleCount, links: set[object]
) -> RuleCount:
    """Count the clicks of views since a rule was set; those of closed windows are final."""
    closed_until_us = reader.progress().closed_until_us
    after_us = max(count.clicks_to_us, count.since_us)
    settled = open_clicks = 0
    rows = reader.clicks_after(pool_id, count.since_us, after_us, closed_until_us)
    for link_id, is_settled, n_clicks in rows.clicks:
        if link_id in links:
            settled += n_clicks if is_settled else 0
            open_clicks += 0 if is_settled else n_clicks
    open_slots = sum(n for link_id, n in rows.open_views.items() if link_id in links)
    return RuleCount(
        count.name,
        count.since_us,
        count.pages,
        count.slots,
        count.clicks + settled,
        max(after_us, closed_until_us),
        open_slots,
        open_clicks,
    )
