"""Pace the dated goals and budgets of rules: how many slots their links need and may have now.

With V page views expected until the date, a goal of N views needs on each page

    at least (N - delivered) / V   slots,

a goal of clicks needs the missing clicks divided by V times the click rate of the links, and a
budget allows at most its remainder divided by the same. The clicks expected from views with an open
window count as delivered. The bounds enter the program that makes the next pages, together with all
caps and the floor.

V is a forecast by hour of the week, from the traffic so far. Used by `service`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from slotwise.arrays import Floats

SECOND_US = 1_000_000
HOUR_US = 3600 * SECOND_US
N_HOURS = 168
PRIOR_S = 900.0
"""Observed seconds at which an hour of the week has the same weight as the prior."""
LEVEL_S = 2 * 3600.0
"""The present level of traffic is a mean over about this time."""
LEVEL_PAGES = 20.0
KEPT_SHARE = 0.5
"""The counts of an hour of the week are halved every week."""
KNOWN_PAGES, KNOWN_S = 20.0, 60.0
"""Page views and seconds before the first forecast: no goal is paced, no budget spent."""
AHEAD = 0.97
"""Goals are planned for this share of the expected page views, to leave a margin at the end."""


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
        """Recent page views, expected ones, the hour that was counted last, and its forecast from
        before it began: its own page views must not hide a change of traffic."""
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
        """Return page views per second by hour of the week, shrunk to that hour of all days."""
        mean = self._pages.sum() / max(self._seconds.sum(), 1.0)
        by_day = self._pages.reshape(7, 24).sum(axis=0), self._seconds.reshape(7, 24).sum(axis=0)
        of_hour = np.tile((by_day[0] + PRIOR_S * mean) / (by_day[1] + PRIOR_S), 7)
        rates: Floats = (self._pages + PRIOR_S * of_hour) / (self._seconds + PRIOR_S)
        return rates


def _hours(from_us: int, until_us: int) -> Iterator[tuple[int, int]]:
    """Yield the hours between two times and the seconds of each between them."""
    while from_us < until_us:
        hour = from_us // HOUR_US
        end_us = min((hour + 1) * HOUR_US, until_us)
        yield hour, end_us - from_us
        from_us = end_us


class Goal(NamedTuple):
    """So many views or clicks until a time."""

    amount: float
    until_us: int


class Goals(NamedTuple):
    """The goal of a rule until a date, or the most clicks that it allows (`budget`)."""

    views: Goal | None = None
    clicks: Goal | None = None
    budget: Goal | None = None


class GoalProgress(NamedTuple):
    """Views and clicks of the links of a rule so far, and its open views.

    An open view may still get a click, until `window_us` after it.
    """

    views: float
    clicks: float
    open_views: float
    open_clicks: float
    window_us: int

    def highest_rate(self) -> float:
        """Return an upper bound of the clicks per view, at most 1: two standard deviations above.

        It is measured on settled views, and on open views by the clicks that they have already.
        """
        settled, clicked = self.views - self.open_views, self.clicks - self.open_clicks
        bound = (clicked + 1.0 + 2.0 * math.sqrt(clicked + 1.0)) / (max(settled, 0.0) + 1.0)
        return min(1.0, max(bound, self.open_clicks / max(self.open_views, 1.0)))


def pace(
    goals: Goals, done: GoalProgress, traffic: Traffic, rate: float, now_us: int
) -> tuple[float, float]:
    """Return the slots that the links of a rule need and may have from now on, at least 0.

    `rate` are the clicks per view that are expected of the links.
    """
    least, most = 0.0, np.inf
    pending = max(0.0, done.open_views * rate - done.open_clicks)
    is_known = traffic.is_known
    views, clicks, budget = goals
    if views is not None and now_us < views.until_us and is_known:
        expected = AHEAD * traffic.views_until(now_us, views.until_us)
        least = max(least, (views.amount - done.views) / max(expected, 1.0))
    if clicks is not None and now_us < clicks.until_us and is_known:
        # Clicks of the last views come after the date. By how much clicks are late follows from the
        # part of those of open views that has yet to come.
        late = pending / max(done.open_views * rate, 1e-9)
        late_us = round(late * done.window_us)
        last_us = max(clicks.until_us - late_us, (now_us + clicks.until_us) // 2)
        expected = AHEAD * traffic.views_until(now_us, last_us)
        missing = clicks.amount - done.clicks - pending
        least = max(least, missing / max(expected * rate, 1e-9))
    if budget is not None and now_us < budget.until_us:
        expected = traffic.views_until(now_us, budget.until_us) if is_known else np.inf
        # The estimated rate may be far too low while few views have settled.
        rate = max(rate, done.highest_rate())
        pending = max(0.0, done.open_views * rate - done.open_clicks)
        left = budget.amount - done.clicks - pending
        most = max(0.0, left / max(expected * rate, 1e-9))
    return least, most
