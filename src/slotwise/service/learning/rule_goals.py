"""Pace the dated goals and budgets of rules: how many slots their links need and may have now.

A goal of N views until a date asks, of each of the V page views that are expected until then, for

    at least (N - delivered) / V   slots,

a goal of clicks for what is missing over V times the click rate of the links, and a budget leaves
them at most what is left of it over the same. What views with an open window will still bring
counts as delivered. These bounds are those of the program from which the next version is made, so
all goals, caps and the floor are kept by prices that are added together.

V is a forecast by hour of the week, from the pool's own traffic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from slotwise.arrays import Floats
from slotwise.service.pool import Pool
from slotwise.service.published_version import Published, RuleCount
from slotwise.service.records import SECOND_US, PacedRule, PoolRule, PoolSettings
from slotwise.service.storage.sql_reads import StoreReader

HOUR_US = 3600 * SECOND_US
N_HOURS = 168
PRIOR_S = 900.0
"""An hour of the week counts as much as the prior from other days when it was seen this long."""
LEVEL_S = 2 * 3600.0
"""The present level of traffic is a mean over about this time."""
LEVEL_PAGES = 20.0
KEPT_SHARE = 0.5
"""What an hour of the week was last week counts half of what it is this week."""
KNOWN_PAGES, KNOWN_S = 20.0, 60.0
"""Before so many page views and seconds nothing is forecast: no goal is paced, no budget spent."""
MAX_COUNTED = 1_000
"""Page views of all pools that are read for a version to say what rules without goals have had: at
ten thousand a second, reading each of them costs a thirtieth of deciding it."""
AHEAD = 0.97
"""Goals are planned for this share of the page views expected, so that the last hour is not all."""


class Traffic:
    """Page views by hour of the week, and how the present level compares.

    >>> traffic = Traffic()
    >>> traffic.add(3600, 0, HOUR_US)
    >>> round(traffic.views_until(HOUR_US, 3 * HOUR_US))
    7200
    """

    def __init__(self, stored: bytes = b"") -> None:
        numbers = np.frombuffer(stored).copy() if stored else np.zeros(2 * N_HOURS + 4)
        self._pages, self._seconds = numbers[:N_HOURS], numbers[N_HOURS : 2 * N_HOURS]
        self._rest = numbers[2 * N_HOURS :]
        """Recent page views, those that were expected, the hour that was counted last, and what was
        expected of it when it began: its own page views must not hide that traffic has changed."""
        self._all = numbers

    def stored(self) -> bytes:
        """Return what a version stores."""
        return self._all.tobytes()

    @property
    def is_known(self) -> bool:
        """Whether there was enough traffic for a forecast."""
        return bool(self._pages.sum() >= KNOWN_PAGES and self._seconds.sum() >= KNOWN_S)

    def add(self, n_pages: int, from_us: int, until_us: int) -> None:
        """Count page views between two times, evenly."""
        length_us = until_us - from_us
        if length_us <= 0:
            return
        for hour, part_us in _hours(from_us, until_us):
            seconds, pages = part_us / SECOND_US, n_pages * part_us / length_us
            place = hour % N_HOURS
            if self._rest[2] != hour + 1:
                self._rest[2] = hour + 1
                self._rest[3] = self._rates()[place] if self._seconds.any() else -1.0
                self._pages[place] *= KEPT_SHARE
                self._seconds[place] *= KEPT_SHARE
            faded = math.exp(-seconds / LEVEL_S)
            expected = pages if self._rest[3] < 0.0 else self._rest[3] * seconds
            self._rest[0] = self._rest[0] * faded + pages
            self._rest[1] = self._rest[1] * faded + expected
            self._pages[place] += pages
            self._seconds[place] += seconds

    def views_until(self, now_us: int, until_us: int) -> float:
        """Return the page views that are expected between two times."""
        rates = self._rates()
        weeks, rest_us = divmod(max(until_us - now_us, 0), N_HOURS * HOUR_US)
        total = weeks * float(rates.sum()) * 3600.0
        for hour, part_us in _hours(now_us, now_us + rest_us):
            total += float(rates[hour % N_HOURS]) * part_us / SECOND_US
        return total * self._level

    @property
    def _level(self) -> float:
        seen, expected = float(self._rest[0]), float(self._rest[1])
        return (seen + LEVEL_PAGES) / (expected + LEVEL_PAGES)

    def _rates(self) -> Floats:
        """Return page views per second by hour of the week, drawn towards that hour of all days."""
        mean = self._pages.sum() / max(self._seconds.sum(), 1.0)
        by_day = self._pages.reshape(7, 24).sum(axis=0), self._seconds.reshape(7, 24).sum(axis=0)
        of_hour = np.tile((by_day[0] + PRIOR_S * mean) / (by_day[1] + PRIOR_S), 7)
        rates: Floats = (self._pages + PRIOR_S * of_hour) / (self._seconds + PRIOR_S)
        return rates


def _hours(from_us: int, until_us: int) -> Iterator[tuple[int, int]]:
    """Yield the hours between two times and how long each of them is part of it."""
    while from_us < until_us:
        hour = from_us // HOUR_US
        end_us = min((hour + 1) * HOUR_US, until_us)
        yield hour, end_us - from_us
        from_us = end_us


class RuleProgress:
    """What the rules of a pool have delivered, and the bounds that their goals ask for now."""

    def __init__(self, published: Published | None = None) -> None:
        self.counts: tuple[RuleCount, ...] = published.rule_counts if published else ()
        self.counted_to = published.counted_to if published else 0
        """The place in the store up to which pages are counted."""
        self.counted_us = published.counted_us if published else 0
        self.paced: tuple[PacedRule, ...] = published.paced_rules if published else ()
        self.traffic = Traffic(published.traffic if published else b"")

    def count(self, reader: StoreReader, pool: Pool, now_us: int) -> None:
        """Add to each rule what came since the last call; a new one starts at 0."""
        before = {(one.name, one.since_us): one for one in self.counts}
        is_counting = bool(before or (pool.settings.until_us and self.counted_us))
        has_goals = any(rule.has_goals for rule in pool.settings.rules)
        most = 2**62 if has_goals or pool.settings.until_us else MAX_COUNTED
        after = self.counted_to if is_counting else 2**62
        shown = reader.shown_since(pool.settings.pool_id, after, most)
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
        """Return the page views expected until the pool ends; 0 where that is not known."""
        until_us = pool.settings.until_us
        is_known = until_us > now_us and self.traffic.is_known
        return self.traffic.views_until(now_us, until_us) if is_known else 0.0

    def pace(self, pool: Pool, rates: Mapping[str, float], now_us: int) -> None:
        """Find the bounds of goals and budgets; `rates` are the clicks per view of links."""
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
    """Return the slots that the links of a rule need and may have from now on; knows no store.

    `rate` are the clicks per view that are expected of the links.
    """
    slots = float(pool.slots)
    least, most, quota = 0.0, slots, -1
    pending = max(0.0, count.open_slots * rate - count.open_clicks)
    done = count.clicks + count.open_clicks
    views = rule.views_until
    is_known = traffic.is_known
    if views is not None and now_us < views.until_us and is_known:
        expected = AHEAD * traffic.views_until(now_us, views.until_us)
        least = max(least, (views.views - count.slots) / max(expected, 1.0))
    goal = rule.clicks_until
    if goal is not None and now_us < goal.until_us and is_known:
        # Clicks of the last views come after the date. By how much clicks are late follows from the
        # part of those of open views that has yet to come.
        late = pending / max(count.open_slots * rate, 1e-9)
        late_us = round(late * pool.click_window_s * SECOND_US)
        last_us = max(goal.until_us - late_us, (now_us + goal.until_us) // 2)
        expected = AHEAD * traffic.views_until(now_us, last_us)
        least = max(least, (goal.clicks - done - pending) / max(expected * rate, 1e-9))
    budget = rule.budget
    if budget is not None and now_us < budget.until_us:
        left = budget.clicks - done
        expected = traffic.views_until(now_us, budget.until_us) if is_known else np.inf
        most = max(0.0, (left - pending) / max(expected * rate, 1e-9))
        if budget.hard:  # a click may still come of every open view
            quota = max(0, left - (count.open_slots - count.open_clicks))
    most = min(slots, most)
    return PacedRule(rule.name, min(max(least, 0.0), slots), most, quota)


def _count_clicks(
    reader: StoreReader, pool_id: str, count: RuleCount, links: set[object]
) -> RuleCount:
    """Count the clicks of views since a rule was set; those of closed windows for good."""
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
