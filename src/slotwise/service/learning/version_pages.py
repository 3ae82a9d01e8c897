"""The pages of a pool's next version, from its player and the views that are open.

Thousands of pages are drawn from a version before the next one. `slotwise.player.page_set` plays
the rounds ahead; this module has the latest visitors and the open views of a pool, with which it
does so. Used by `pool_player`, `pool_run` and `publisher`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slotwise.arrays import Floats, Links
from slotwise.player.page_set import Chooser, PageSet, average_pages, set_open_views
from slotwise.player.player import LinkTotals, Player
from slotwise.policies.policy import NOBODY, Visitor
from slotwise.policies.rest_of_page import Rest, rest_of_page
from slotwise.problem import Problem
from slotwise.selection.page_rules import PageRules
from slotwise.service.counting.rates import LinkCounts, LinkRates
from slotwise.service.learning.early_feedback import SentVisitor
from slotwise.service.pool_version import PagesForVisitors, VisitorKind
from slotwise.service.records import SECOND_US, DecisionRecord, PoolSettings

DRAWS = 64
MANY_LINKS, FEW_DRAWS = 1_000, 16
"""Draws averaged for a page with constraints; fewer where a draw takes longer."""
RECENT_VISITORS = 256
"""Number of latest visitors with which the next rounds are simulated."""
MAX_KINDS = 64
"""Kinds of visitors that a version lists."""
MAX_ROUNDS_AHEAD = 256
MIN_ROUNDS_AHEAD = 64
LINKS_AHEAD = 1_000_000
"""Links scored for one version, unless that leaves fewer than `MIN_ROUNDS_AHEAD` rounds."""
MAX_CELLS = 20_000
"""Pairs of a kind of visitor and a link, at each level, learned from open views for a version."""

NOTHING_EARLY: Mapping[SentVisitor, LinkCounts] = {}


class AveragePages:
    """A `PageSolver` for a player whose pages do not depend on the visitor."""

    def __init__(self, player: Player) -> None:
        self._player = player

    def learn_early(self, counts: LinkCounts) -> None:
        """Learn the weighted counts of open views; the player must be a copy that is not stored."""
        self._player.learn_counts(totals_of(counts, NOBODY))

    def plan_for(self, n_views: float) -> None:
        """Set the number of page views to come for a policy that uses a horizon."""
        player = self._player
        known = player.form.knowledge(player.state)
        player.form = player.form.plan_for(player.state, n_views)
        player.state = player.form.restore(player.problem, known)

    def note_open(self, views: Floats) -> None:
        """Set the open views by level and link, for a policy whose pages depend on them."""
        set_open_views(self._player, views)

    def probabilities(
        self,
        rng: np.random.Generator,
        n_draws: int,
        rates: LinkRates,
        rules: PageRules | None = None,
    ) -> Floats:
        """Return the average page over many draws, or over rounds ahead if the policy moves.

        One draw is enough for a policy that does not sample. The average is rounded and logged, so
        the logged propensity is exact even for a policy whose page is deterministic given its draw.
        """
        player = self._player
        chooser = Chooser(player.form, player.problem, player.state, rules=rules)
        return average_pages(chooser, _by_level(rates), rng, n_draws)

    def page_within(self, rules: PageRules, rates: LinkRates) -> Floats:
        """Return the probabilities of all links within rules, as defined by `PageSolver`."""
        n_draws = FEW_DRAWS if len(rates.clicks) > MANY_LINKS else DRAWS
        return self.probabilities(np.random.default_rng(0), n_draws, rates, rules)

    def page_probabilities(
        self, free: Links, n_slots: int, pinned: Links, rates: LinkRates
    ) -> Floats:
        """Return the probabilities of the free links, as defined by `PageSolver`."""
        player, form = self._player, self._player.form
        n_draws = FEW_DRAWS if len(free) > MANY_LINKS else DRAWS

        def page_of(state: object, problem: Problem) -> Floats:
            known = rates
            if problem is not player.problem:
                known = LinkRates(*(column[free] for column in rates))
                state = player.with_open_views(state, problem, free)
            rng = np.random.default_rng(0)
            return average_pages(Chooser(form, problem, state), _by_level(known), rng, n_draws)

        rest = Rest(free, n_slots, pinned)
        by_level = _by_level(rates)
        return rest_of_page(form, player.state, player.problem, rest, by_level, page_of)


def _by_level(rates: LinkRates) -> Floats:
    return np.stack([rates.clicks, rates.revenue])


def totals_of(counts: LinkCounts, visitor: Visitor) -> Iterator[LinkTotals]:
    """Yield the counts of links that have been shown, by level."""
    for level, (views, sums) in enumerate(zip(counts.views, counts.sums, strict=True)):
        seen = np.flatnonzero(views > 0)
        yield LinkTotals(visitor, level, seen, views[seen], sums[seen])


class OfSegment(NamedTuple):
    """Estimates for the visitors of a segment that has its own floor."""

    feature: str
    value: str
    rates: LinkRates
    probabilities: Floats
    shadow_price: float


@dataclass(slots=True)
class _SegmentSeen:
    """Sums over the latest visitors of a segment: their pages and the click rates of links."""

    probabilities: Floats
    clicks: Floats
    n_visitors: int = 0

    def add(self, probabilities: Floats, clicks: Floats, n_visitors: int) -> None:
        """Add visitors who get the same page."""
        self.n_visitors += n_visitors
        self.probabilities += n_visitors * probabilities
        self.clicks += n_visitors * clicks


class VisitorDraft(NamedTuple):
    """The pages of a version for each visitor, and their average over the latest visitors."""

    pages: PagesForVisitors
    words: dict[str, tuple[str, ...]]
    probabilities: Floats
    expected_clicks: float
    segments: tuple[OfSegment, ...] = ()
    """A row for each floor of a segment."""
    kinds: tuple[VisitorKind, ...] = ()
    """The most frequent kinds of the latest visitors, with shares that sum to 1."""


class VisitorsAhead:
    """The latest visitors of a pool and its open views, with which the next rounds are played."""

    def __init__(self, player: Player) -> None:
        self.player = player
        problem = player.problem
        self._places = tuple(place for place, _ in problem.segment_floor_places)
        self._open_segments = np.zeros((len(self._places), problem.n_links))
        """Open clicks of segments with a floor, which decay as if windows closed evenly."""
        self._open_links = np.zeros((problem.n_levels, problem.n_links))
        """Views that were open when the last version was made."""
        self._opened_us = 0
        self._recent: deque[tuple[int, ...]] = deque(maxlen=RECENT_VISITORS)

    def moved(self, player: Player, kept: Links) -> VisitorsAhead:
        """Return the same for a moved player; `kept[i]` is the old place of link i or -1."""
        moved, stays = VisitorsAhead(player), kept >= 0
        for row, place in enumerate(moved._places):
            if place in self._places:
                old = self._open_segments[self._places.index(place)]
                moved._open_segments[row, stays] = old[kept[stays]]
        moved._open_links[..., stays] = self._open_links[..., kept[stays]]
        moved._opened_us, moved._recent = self._opened_us, self._recent
        return moved

    def merge_value(self, value: int, into: int) -> None:
        """Count the latest visitors with one feature value as visitors with another one."""
        latest = [tuple(into if one == value else one for one in seen) for seen in self._recent]
        self._recent = deque(latest, maxlen=RECENT_VISITORS)

    def note_shown(self, views: Sequence[DecisionRecord], pool: PoolSettings, now_us: int) -> None:
        """Record the latest views; open views decay as if windows closed at a constant rate."""
        passed_s = max(now_us - self._opened_us, 0) / SECOND_US
        self._open_segments *= math.exp(-min(passed_s / pool.click_window_s, 700.0))
        self._opened_us = now_us
        known: dict[tuple[tuple[str, str], ...], list[int]] = {}
        for view in views:
            visitor = tuple(view.visitor.items())
            places = known.get(visitor)
            if places is None:
                places = self.player.features.stored_places(view.visitor, is_counted=False)
                known[visitor] = places
            self._recent.append(tuple(places))
            held = [row for row, place in enumerate(self._places) if place in places]
            for shown in view.shown if held else ():
                link = self.player.pool.place_of.get(shown.link_id)
                if link is not None:
                    self._open_segments[held, link] += 1.0

    @property
    def learns_early(self) -> bool:
        """Whether feedback counts before windows close."""
        return self.player.form.at_prices is not None

    def for_visitors(
        self,
        open_views: Floats | None,
        rates: LinkRates,
        rules: PageRules | None = None,
        early: Mapping[SentVisitor, LinkCounts] = NOTHING_EARLY,
    ) -> VisitorDraft:
        """Return what the next version shows to each visitor.

        `early` has the weighted counts of open views by kind of visitor; `rates` include them.
        """
        problem, features = self.player.problem, self.player.features
        nobody = tuple(features.stored_places({}, is_counted=False))
        visitors = np.array(self._recent or [nobody], np.int64)
        pages = self._pages_ahead(open_views, rates, visitors, early)
        probabilities, clicks = np.zeros(problem.n_links), 0.0
        different, counts = np.unique(visitors, axis=0, return_counts=True)
        floors = problem.segment_floor_places
        segments = [_SegmentSeen(*np.zeros((2, problem.n_links))) for _ in floors]
        for visitor, count in zip(different, counts.tolist(), strict=True):
            if rules is None:
                page, expected = pages.page(visitor, pages.links, problem.n_slots)
            else:
                page, expected = pages.page_within(visitor, rules)
            probabilities += page * (count / len(visitors))
            clicks += expected * count / len(visitors)
            for (place, _), seen in zip(floors, segments, strict=True):
                if place in visitor:
                    seen.add(page, pages.rate[0], count)
        of_segments = tuple(
            self._of_segment(pages, floor, seen, rates) for floor, seen in enumerate(segments)
        )
        most = np.argsort(-counts, kind="stable")[:MAX_KINDS]
        kinds = tuple(
            VisitorKind(tuple(visitor), count / int(counts[most].sum()))
            for visitor, count in zip(different[most].tolist(), counts[most].tolist(), strict=True)
        )
        return VisitorDraft(pages, features.words, probabilities, clicks, of_segments, kinds)

    def pages_at(
        self,
        prices: Floats,
        rates: LinkRates,
        early: Mapping[SentVisitor, LinkCounts] = NOTHING_EARLY,
    ) -> PagesForVisitors:
        """Return the pages of the learned state at the prices of a stored version.

        `early` has the weighted counts of open views by kind of visitor.
        """
        player = self._with_early(early)
        return PageSet(player, prices.reshape(-1, 1 + len(self._places)), _by_level(rates))

    def open_bytes(self) -> tuple[bytes, bytes]:
        """Return the views that were open when the last version was made, to be stored."""
        return self._open_links.tobytes(), self._open_segments.tobytes()

    def take_open(self, links: bytes, segments: bytes) -> None:
        """Restore stored open views if they have the same links and segments."""
        for array, stored in ((self._open_links, links), (self._open_segments, segments)):
            if len(stored) == array.nbytes:
                array[:] = np.frombuffer(stored, array.dtype).reshape(array.shape)

    def _pages_ahead(
        self,
        open_views: Floats | None,
        rates: LinkRates,
        visitors: Links,
        early: Mapping[SentVisitor, LinkCounts],
    ) -> PageSet:
        """Return pages at the prices of the next rounds, played with `visitors`.

        Links are scored with the feedback of open views so far. The clicks owed to floors are those
        of settled views, less the clicks expected from all open ones.
        """
        settled = self.player.copy()
        if open_views is not None:
            self._open_links[:] = open_views
            set_open_views(settled, open_views, self._open_segments)
        n_rounds = LINKS_AHEAD // self.player.problem.n_links
        n_rounds = min(MAX_ROUNDS_AHEAD, max(MIN_ROUNDS_AHEAD, n_rounds))
        learner = self._with_early(early) if early else settled
        parts = (learner, visitors, _by_level(rates), n_rounds)
        return PageSet.ahead(*parts, prices_of=settled)

    def _with_early(self, early: Mapping[SentVisitor, LinkCounts]) -> Player:
        """Return a copy that has learned from open views; the rest of them is still open.

        If there are too many kinds of visitors, only those with most views are used.
        """
        player, n_cells = self.player, 0
        learner, learned = player.copy(), np.zeros_like(self._open_links)
        for visitor, counts in sorted(early.items(), key=lambda one: -one[1].views[0].sum()):
            n_cells += int(np.count_nonzero(counts.views))
            if n_cells > MAX_CELLS:
                break
            places = np.array(
                player.features.stored_places(dict(visitor), is_counted=False), np.int64
            )
            learner.learn_counts(totals_of(counts, places))
            learned += counts.views
        left = np.maximum(self._open_links - learned, 0.0)
        set_open_views(learner, left, self._open_segments)
        return learner

    def _of_segment(
        self, pages: PagesForVisitors, floor: int, seen: _SegmentSeen, rates: LinkRates
    ) -> OfSegment:
        """Return the estimates for a segment, averaged over its latest visitors."""
        problem, features = self.player.problem, self.player.features
        place, _ = problem.segment_floor_places[floor]
        feature, value = features.label(place)
        if not seen.n_visitors:  # use a visitor with no other features
            only = features.stored_places({feature: value}, is_counted=False)
            page, _ = pages.page(np.array(only, np.int64), pages.links, problem.n_slots)
            seen.add(page, pages.rate[0], 1)
        clicks = (seen.clicks / seen.n_visitors).clip(0.0, 1.0)
        known = self.player.form.knowledge(self.player.state).get("value_views")
        n_views = np.ones(problem.n_links) if known is None else known[place] + 1.0
        variance = (clicks * (1.0 - clicks) + 0.25 / n_views) / n_views
        of_segment = LinkRates(clicks, np.minimum(rates.revenue, clicks), variance)
        price = float(pages.prices[:, 1 + floor].mean())
        probabilities = seen.probabilities / seen.n_visitors
        return OfSegment(feature, value, of_segment, probabilities, price)
