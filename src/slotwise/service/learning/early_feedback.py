"""Count the feedback of open views, weighted by the share that has arrived by their age.

Clicks arrive within seconds, but windows close after half an hour or a day. An open view of age s
counts as F(s) views with the outcomes that have arrived so far, where F(s) is the share of a view's
outcomes that arrives by that age. `PoolRun` adds these counts to the settled ones when it makes a
version and does not store them: counters, ledger and the clicks owed to the floor count closed
windows only.

Views are read in batches, each again when its youngest view reaches one of `AGES_S`. F is a
product over these ages (the product-limit estimate for delays that are cut off at the present):

    F(a_k) = prod_{m >= k} r_m,   r_m = outcomes that came by a_m / outcomes that came by a_{m+1}

over the views that are at least a_{m+1} old, open or settled; the last r_m is that of settled
views. Every r_m has a prior of `PRIOR` outcomes, under which fewer outcomes arrive in each step
than in the one before. Old outcomes are discounted. A link whose delays differ significantly from
the pool's has its own ratios, shrunk towards the pool's with a weight of `SHRINKAGE` outcomes.

Where pages depend on the visitor, each kind of visitor is counted separately.

When the shop stops reporting sales, links must not look as if they had stopped earning: revenue is
then counted from closed windows only (`sales_are_missing`). Used by `pool_run` and `version_pages`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import pairwise
from typing import Any

import numpy as np

from slotwise.arrays import Floats
from slotwise.service.counting.attribution import (
    CLICKS,
    LEVELS,
    REVENUE,
    FoldPosition,
    Level,
    View,
    attribute,
)
from slotwise.service.counting.rates import LinkCounts
from slotwise.service.giving_way import giving_way
from slotwise.service.pool import Pool
from slotwise.service.records import SECOND_US

ReadViews = Callable[[FoldPosition, int, int], list[View]]
SentVisitor = tuple[tuple[str, Any], ...]
"""A visitor's features as the caller sent them; empty where pages do not depend on them."""

AGES_S = (1, 3, 9, 27, 81, 243, 729, 2_187, 6_561, 19_683, 59_049, 177_147, 531_441, 1_594_323)
"""Ages at which views are read again; only those before a window closes matter."""
PRIOR = 2.0
FADING = 1_000.0
"""Outcomes after which older ones weigh 1/e."""
SHRINKAGE = 20.0
MAX_DEVIATION = 4.0
"""Standard deviations from the pool's delays beyond which a link has ratios of its own."""
MAX_BATCH = 500
"""Views of one batch."""
MAX_BATCHES = 400
MAX_CELLS = 200_000
"""Pairs of a kind of visitor and a link in all batches, about 70 MB."""
MAX_KIND_COUNTS = 1_000_000
"""Kinds of visitors times links counted for one version; callers may send any number of kinds."""
MAX_READ = MAX_BATCH
"""Views that are read for one version; the batch that reaches it is read whole."""
EMPTY_READS = 3
SPANS = 64
"""Parts into which a window is split to read its open views after a start."""
READS = SPANS
"""Batches with views that are read for one version, if they have fewer than `MAX_READ` views."""
_AFTER_EVERY_ID = "~"

FEW_OUTCOMES = 5.0
"""Clicks or sales that must have arrived before open views count at their level."""
FEW_SALES, MISSING = 25.0, 0.2
"""Sales are missing when at least `FEW_SALES` were expected and less than this share arrived."""


@dataclass(slots=True, eq=False)
class _Batch:
    """Views issued after one time, up to another; both times are in microseconds."""

    after_us: int
    until_us: int
    links: dict[tuple[SentVisitor, str], list[float]] = field(default_factory=dict)
    """By kind of visitor and link: views, clicks and revenue, as a share of the highest revenue of
    a click."""
    n_views: int = 0
    n_sales: int = 0
    n_ages: int = 0
    """Number of ages of `AGES_S` that all views had reached when they were last read."""


class EarlyFeedback:
    """The batches of open views of one pool, and how quickly their feedback arrives."""

    def __init__(self) -> None:
        self._batches: list[_Batch] = []
        self._read_to_us: int | None = None
        self._windows_us = (0, 0)
        self._has_kinds = False
        self._came = np.zeros((len(LEVELS), 2, len(AGES_S)))
        """By level: outcomes of the same views that arrived by an age, and by the next age."""
        self._came_of: dict[str, Floats] = {}
        """The same for each link."""
        self._sales_per_view = [0.0, 0.0]
        """Links with revenue on settled pages, and settled views; old ones are discounted."""
        self._expected_sales = self._found_sales = 0.0
        self.sales_are_missing = False
        self.is_behind = False
        """Whether the last call of `refresh` left views unread."""

    # Reading

    def refresh(
        self,
        read: ReadViews,
        pool: Pool,
        weights: Sequence[float],
        now_us: int,
        has_kinds: bool = False,
    ) -> bool:
        """Read new views, and those that have reached the next age; return whether there were any.

        `read` returns a limited number of views whose click windows close after a position, up to a
        time. `weights` are the slot weights; empty where all slots are alike. Kinds of visitors are
        counted separately where `has_kinds`.
        """
        settings = pool.settings
        windows_us = settings.click_window_s * SECOND_US, settings.revenue_window_s * SECOND_US
        if (windows_us, has_kinds) != (self._windows_us, self._has_kinds):
            self._has_kinds = has_kinds
            self._start(windows_us, now_us)
        assert self._read_to_us is not None
        if now_us - self._read_to_us >= AGES_S[0] * SECOND_US:
            self._batches.append(_Batch(self._read_to_us, now_us))
            self._read_to_us = now_us
        longest_us = max(windows_us)
        self._batches = [one for one in self._batches if one.after_us + longest_us > now_us]
        due = [one for one in self._batches if self._n_ages(one, now_us) > one.n_ages]
        due.sort(key=lambda one: one.n_ages)  # youngest first: they yield most new feedback
        n_views = n_read = 0
        for batch in due:
            if n_views >= MAX_READ or n_read >= READS:
                break
            self._read(batch, read, pool, weights, now_us)
            n_views += batch.n_views
            n_read += batch.n_views > 0  # to find no view is quick
        self._join()
        self.is_behind = any(
            not one.n_ages and self._n_ages(one, now_us) > 0 for one in self._batches
        )
        return n_views > 0

    def _start(self, windows_us: tuple[int, int], now_us: int) -> None:
        """Drop all batches, and split the window of open views into new ones.

        Views count with what had arrived when the youngest of their batch reached one of `AGES_S`,
        so the batches of the latest views are short.
        """
        self._windows_us, longest_us = windows_us, max(windows_us)
        ages_us = {longest_us * part // SPANS for part in range(SPANS + 1)}
        ages_us |= {age_s * SECOND_US for age_s in AGES_S if age_s * SECOND_US < longest_us}
        ends = sorted(now_us - age_us for age_us in ages_us)
        self._batches = [
            _Batch(max(after_us, 0), until_us)
            for after_us, until_us in pairwise(ends)
            if until_us > 0
        ]
        self._read_to_us = now_us

    def _n_ages(self, batch: _Batch, now_us: int) -> int:
        """Return how many ages the youngest view has reached before its last window closes."""
        age_us = min(now_us - batch.until_us, max(self._windows_us))
        return sum(age_s * SECOND_US <= age_us for age_s in AGES_S)

    def _read(
        self,
        batch: _Batch,
        read: ReadViews,
        pool: Pool,
        weights: Sequence[float],
        now_us: int,
    ) -> None:
        """Count the views of a batch with the feedback that had arrived by its latest age."""
        n_ages = self._n_ages(batch, now_us)
        click_window_us = self._windows_us[CLICKS]
        after = FoldPosition(
            closes_us=batch.after_us + click_window_us, decision_id=_AFTER_EVERY_ID
        )
        until_us = batch.until_us + click_window_us
        views = read(after, until_us, MAX_BATCH)
        if len(views) == MAX_BATCH:  # the rest becomes a batch of its own
            last_us = views[-1].decision.click_closes_us - click_window_us
            if last_us < batch.until_us:
                place = self._batches.index(batch)
                self._batches.insert(place + 1, _Batch(last_us, batch.until_us))
                batch.until_us = last_us
        resets = {link_id: link.counted_from_us for link_id, link in pool.links.items()}
        last_reset_us = max(resets.values(), default=0)
        n_weights = len(weights)
        links: dict[tuple[SentVisitor, str], list[float]] = {}
        n_sales, first = 0, max(batch.n_ages - 1, 0)
        for view in giving_way(views):
            if not self._has_windows_of_pool(view):
                continue
            kind = tuple(view.decision.visitor.items()) if self._has_kinds else ()
            issued_us = view.decision.issued_us
            for shown in view.decision.shown:
                link_id, position = shown.link_id, shown.position
                if issued_us < last_reset_us and issued_us < resets.get(link_id, 0):
                    continue
                sums = links.get((kind, link_id))
                if sums is None:
                    sums = links[kind, link_id] = [0.0, 0.0, 0.0]
                if n_weights:
                    sums[0] += weights[position - 1 if position < n_weights else -1]
                else:
                    sums[0] += 1.0
            came = outcomes_by_age(view, n_ages, first) if view.clicks else {}
            for link_id, of_link in came.items():
                for level in LEVELS if (kind, link_id) in links else ():
                    links[kind, link_id][1 + level] += of_link[level, -1]
                n_sales += of_link[REVENUE, -1] > 0.0
                for age in range(first, n_ages - 1):
                    for level in LEVELS:
                        self._note_came(level, age, link_id, *of_link[level, age : age + 2] > 0.0)
        self._expect_sales(batch, len(views), n_sales, n_ages)
        batch.links, batch.n_views, batch.n_sales, batch.n_ages = links, len(views), n_sales, n_ages

    def _has_windows_of_pool(self, view: View) -> bool:
        """Return whether a view has the present windows; others count when they close."""
        one = view.decision
        lengths_us = one.click_closes_us - one.issued_us, one.revenue_until_us - one.issued_us
        return lengths_us == self._windows_us

    def _join(self) -> None:
        """Join short neighbouring batches of one age; drop every second batch if too many remain.

        The views of a dropped batch count when their windows close.
        """
        joined: list[_Batch] = []
        for batch in self._batches:
            last = joined[-1] if joined else None
            if (
                last is not None
                and last.until_us == batch.after_us
                and last.n_ages == batch.n_ages > 0
                and last.n_views + batch.n_views <= MAX_BATCH
                and batch.until_us - last.after_us <= AGES_S[batch.n_ages - 1] * SECOND_US // 4
            ):
                for cell, sums in batch.links.items():
                    known = last.links.setdefault(cell, [0.0, 0.0, 0.0])
                    for place, number in enumerate(sums):
                        known[place] += number
                last.until_us = batch.until_us
                last.n_views += batch.n_views
                last.n_sales += batch.n_sales
            else:
                joined.append(batch)
        # A batch without views is read three times, so that views stored late are not missed.
        joined = [one for one in joined if one.n_views or one.n_ages < EMPTY_READS]
        is_large = sum(len(one.links) for one in joined) > MAX_CELLS
        self._batches = joined[::2] if is_large or len(joined) > MAX_BATCHES else joined

    # Delays

    def learn_settled(self, views: Iterable[View], level: Level) -> None:
        """Learn from settled views how much arrives between the last age and a window's end."""
        window_us = max(self._windows_us[: level + 1])
        if not window_us:
            return
        n_ages = sum(age_s * SECOND_US < window_us for age_s in AGES_S)
        n_views = n_sales = 0
        for view in views:
            n_views += 1
            if not view.clicks or not n_ages:
                continue
            issued_us = view.decision.issued_us
            then = attribute(view, issued_us + AGES_S[n_ages - 1] * SECOND_US)
            final = attribute(view, view.decision.revenue_closes_us)
            n_sales += sum(amount > 0 for amount in final.revenue_micros.values())
            for link_id in final.clicked:
                if level == CLICKS:
                    by_then, has_come = link_id in then.clicked, True
                else:
                    by_then = then.revenue_micros.get(link_id, 0) > 0
                    has_come = final.revenue_micros.get(link_id, 0) > 0
                self._note_came(level, n_ages - 1, link_id, by_then, has_come)
        if level == REVENUE and n_views:
            fading = np.exp(-n_views / (50.0 * FADING))
            self._sales_per_view[0] = self._sales_per_view[0] * fading + n_sales
            self._sales_per_view[1] = self._sales_per_view[1] * fading + n_views

    def _note_came(self, level: Level, age: int, link_id: str, by: bool, later: bool) -> None:
        """Record whether an outcome that arrived by the next age had arrived by this age."""
        if not later:  # it may have been refunded since
            return
        own = self._came_of.setdefault(link_id, np.zeros_like(self._came))
        for came in (self._came, own):
            came[level, :, age] *= 1.0 - 1.0 / FADING
            came[level, 0, age] += by
            came[level, 1, age] += 1.0

    def shares(self, level: Level, link_id: str | None = None) -> Floats:
        """Return the share of a view's outcomes at a level that arrives by each age."""
        return self._shares_of(level, link_id, self._ratios(level))

    def _shares_of(self, level: Level, link_id: str | None, pooled: Floats) -> Floats:
        ratios, n_ages = pooled, len(pooled)
        own = self._came_of.get(link_id) if link_id is not None else None
        if own is not None and own[level, 1].max() > SHRINKAGE:
            came, of_all = own[level, :, :n_ages]
            if self._differs(came, of_all, pooled):
                ratios = pooled.copy()
                for age in range(n_ages):
                    prior = pooled[age]
                    if age and not self._came[level, 1, age]:  # no view is that old
                        prior = max(prior, ratios[age - 1])
                    ratios[age] = (came[age] + SHRINKAGE * prior) / (of_all[age] + SHRINKAGE)
        shares = np.ones(len(AGES_S))
        shares[:n_ages] = np.cumprod(ratios[::-1])[::-1]
        return shares

    def _ratios(self, level: Level) -> Floats:
        """Return for each age which share of the outcomes by the next age has arrived."""
        window_us = max(self._windows_us[: level + 1])
        n_ages = sum(age_s * SECOND_US < window_us for age_s in AGES_S)
        ratios = np.ones(n_ages)
        for age in range(n_ages):
            # The prior assumes that fewer outcomes arrive in each step than in the one before.
            prior = (age + 1.0) / (age + 2.0)
            prior = max(prior, ratios[age - 1]) if age else prior
            came, of_all = self._came[level, :, age]
            ratios[age] = (came + PRIOR * prior) / (of_all + PRIOR)
        return ratios

    def _differs(self, came: Floats, of_all: Floats, pooled: Floats) -> bool:
        """Return whether a link's delays differ from the pool's by more than chance."""
        variance = of_all * pooled * (1.0 - pooled) + 1.0
        return bool((np.abs(came - of_all * pooled) > MAX_DEVIATION * np.sqrt(variance)).any())

    # Missing sales

    def _expect_sales(self, batch: _Batch, n_views: int, n_sales: int, n_ages: int) -> None:
        """Compare the sales that arrived since a batch was last read with those expected."""
        sales, settled = self._sales_per_view
        if sales < FEW_SALES or not batch.n_ages:
            return
        came = self.shares(REVENUE)
        share = max(0.0, came[n_ages - 1] - came[batch.n_ages - 1])
        self._expected_sales += share * n_views * sales / settled
        self._found_sales += max(n_sales - batch.n_sales, 0)
        if self._expected_sales >= FEW_SALES:
            # a numpy bool could not be stored with the version
            self.sales_are_missing = bool(self._found_sales < MISSING * self._expected_sales)
            self._expected_sales = self._found_sales = 0.0

    # Counting

    def counts(self, link_ids: Sequence[str], closed_until_us: int) -> LinkCounts:
        """Return the weighted counts of open views of these links, without settled views."""
        total = LinkCounts(*np.zeros((2, len(LEVELS), len(link_ids))))
        for level, _, place, n_views, outcomes in self._counted(link_ids, closed_until_us):
            total.views[level, place] += n_views
            total.sums[level, place] += outcomes
        return total

    def counts_by_kind(
        self, link_ids: Sequence[str], closed_until_us: int
    ) -> dict[SentVisitor, LinkCounts]:
        """Return the same by kind of visitor; only those with most views if there are many."""
        seen: defaultdict[SentVisitor, float] = defaultdict(float)
        for _, kind, _, n_views, _ in self._counted(link_ids, closed_until_us):
            seen[kind] += n_views
        most = nlargest(MAX_KIND_COUNTS // max(len(link_ids), 1), seen, key=seen.__getitem__)
        kinds = {kind: LinkCounts(*np.zeros((2, len(LEVELS), len(link_ids)))) for kind in most}
        for level, kind, place, n_views, outcomes in self._counted(link_ids, closed_until_us):
            if kind in kinds:
                kinds[kind].views[level, place] += n_views
                kinds[kind].sums[level, place] += outcomes
        return kinds

    def _counted(
        self, link_ids: Sequence[str], closed_until_us: int
    ) -> Iterator[tuple[int, SentVisitor, int, float, float]]:
        """Yield level, kind of visitor, index of the link, views and outcomes of open views."""
        places = {link_id: place for place, link_id in enumerate(link_ids)}
        for level in LEVELS:
            is_missing = level == REVENUE and self.sales_are_missing
            if is_missing or self._came[level, 1].max() < FEW_OUTCOMES:
                continue
            window_us = max(self._windows_us[: level + 1])
            pooled, own = self._ratios(level), dict[str, Floats]()
            for batch in self._batches:
                if not batch.n_ages or batch.after_us + window_us <= closed_until_us:
                    continue
                for (kind, link_id), (n_views, *outcomes) in batch.links.items():
                    place = places.get(link_id)
                    if place is None:
                        continue
                    if link_id not in own:
                        own[link_id] = self._shares_of(level, link_id, pooled)
                    share = own[link_id][batch.n_ages - 1]
                    yield level, kind, place, share * n_views, outcomes[level]


def outcomes_by_age(view: View, n_ages: int, first: int = 0) -> dict[str, Floats]:
    """Return the outcomes of each clicked link by the first ages: a row a level, a column an age.

    Columns before `first` are 0: they were read before.
    """
    decision = view.decision
    came: dict[str, Floats] = {}
    shown = {link.link_id for link in decision.shown}
    for age, age_s in enumerate(AGES_S[first:n_ages], first):
        known = attribute(view, decision.issued_us + age_s * SECOND_US)
        for link_id in known.clicked & shown:
            of_link = came.setdefault(link_id, np.zeros((len(LEVELS), n_ages)))
            of_link[CLICKS, age] = 1.0
            revenue = known.revenue_micros.get(link_id, 0)
            of_link[REVENUE, age] = revenue / decision.max_revenue_micros
    return came
