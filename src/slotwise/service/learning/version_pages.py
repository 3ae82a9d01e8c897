"""The pages of a pool's next version: averages over the pages that a player would choose.

Thousands of pages are drawn from a version before the next one, so it needs the probabilities of
many pages ahead, not only of the next page. Used by `pool_player`, `pool_run` and `publisher`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from slotwise.arrays import Floats, Links
from slotwise.compile import switching
from slotwise.player.player import LinkTotals, Player
from slotwise.policies import Policy, visitor_pages
from slotwise.policies.paced_bayes_visitors import PacedBayesVisitors
from slotwise.policies.page_views import (
    average_ahead,
    average_probabilities,
    expect_views,
    fill_slots,
    rest_of_page,
)
from slotwise.policies.policy import NOBODY, Visitor
from slotwise.policies.visitor_pages import Open, VisitorPages
from slotwise.problem import Problem
from slotwise.selection.page_rules import PageRules
from slotwise.service.counting.rates import LinkCounts, LinkRates, solve_page
from slotwise.service.learning.early_feedback import Said
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
CHOICES = 64
"""Pages averaged for a policy that samples, or rounds ahead for one that moves each round."""

NOTHING_EARLY: Mapping[Said, LinkCounts] = {}


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

    def expect_views(self, views: Floats, rates: LinkRates) -> None:
        """Record the expected outcomes of open views, where pages depend on them.

        Nothing is expected before the first views have settled.
        """
        player = self._player
        if player.form.moves_each_round and _has_learned(player.form, player.state):
            expect_views(player.form, player.state, views, _by_level(rates))

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
        return _average(player.form, player.state, player.problem, rates, rng, n_draws, rules)

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

        def page_of(state: Any, problem: Problem) -> Floats:
            whole = problem is player.problem
            known = rates if whole else LinkRates(*(column[free] for column in rates))
            return _average(form, state, problem, known, np.random.default_rng(0), n_draws)

        return rest_of_page(
            form,
            player.state,
            player.problem,
            free=free,
            n_slots=n_slots,
            pinned=pinned,
            rates=_by_level(rates),
            page_of=page_of,
        )


def _average(
    form: Policy,
    state: Any,
    problem: Problem,
    rates: LinkRates,
    rng: np.random.Generator,
    n_draws: int,
    rules: PageRules | None = None,
) -> Floats:
    if form.moves_each_round and _has_learned(form, state):
        known = _by_level(rates)
        return average_ahead(form, problem, state, known, rng, n_draws, rules=rules)
    n_slots = problem.n_slots
    return average_probabilities(form, state, rng, n_draws, rules=rules, n_slots=n_slots)


def _has_learned(form: Policy, state: Any) -> bool:
    # counts of the pool as a whole may start above zero, because of a prior
    knowledge = form.knowledge(state)
    return any(knowledge[name].any() for name in form.per_link or knowledge)


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


class ForVisitors(NamedTuple):
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
    """The latest visitors of a pool, with which its player simulates the next rounds.

    slotwise's own policies for visitors publish scores and prices. For a policy of another package,
    the page of a visitor comes from its own `choose`.
    """

    def __init__(self, player: Player) -> None:
        self.player = player
        problem, form = player.problem, player.form
        shape = (problem.n_levels, sum(problem.feature_sizes), problem.n_links)
        self._open_values = np.zeros(shape, np.float32)
        self._open_links = np.zeros((problem.n_levels, problem.n_links))
        """Views that were open when the last version was made."""
        self._opened_us = 0
        self._recent: deque[tuple[int, ...]] = deque(maxlen=RECENT_VISITORS)
        self._making: Any = None
        """Makes pages from the state of one of slotwise's own policies."""
        if isinstance(form, PacedBayesVisitors):
            self._making = visitor_pages

    def moved(self, player: Player, kept: Links) -> VisitorsAhead:
        """Return the same for a moved player; `kept[i]` is the old place of link i or -1."""
        moved, stays = VisitorsAhead(player), kept >= 0
        moved._open_values[..., stays] = self._open_values[..., kept[stays]]
        moved._open_links[..., stays] = self._open_links[..., kept[stays]]
        moved._opened_us, moved._recent = self._opened_us, self._recent
        return moved

    def merge_value(self, value: int, into: int) -> None:
        """Count the latest visitors with one feature value as visitors with another one."""
        self._open_values[:, into] += self._open_values[:, value]
        self._open_values[:, value] = 0.0
        latest = [tuple(into if one == value else one for one in seen) for seen in self._recent]
        self._recent = deque(latest, maxlen=RECENT_VISITORS)

    def note_shown(self, views: Sequence[DecisionRecord], pool: PoolSettings, now_us: int) -> None:
        """Record the latest views; open views decay as if windows closed at a constant rate."""
        passed_s = max(now_us - self._opened_us, 0) / SECOND_US
        windows_s = (pool.click_window_s, max(pool.click_window_s, pool.revenue_window_s))
        for open_values, window_s in zip(self._open_values, windows_s, strict=True):
            open_values *= np.float32(math.exp(-min(passed_s / window_s, 700.0)))
        self._opened_us = now_us
        values, links = [], []
        known: dict[tuple[tuple[str, str], ...], list[int]] = {}
        for view in views:
            said = tuple(view.visitor.items())
            places = known.get(said)
            if places is None:
                places = self.player.features.stored_places(view.visitor, is_counted=False)
                known[said] = places
            self._recent.append(tuple(places))
            for shown in view.shown:
                link = self.player.pool.place_of.get(shown.link_id)
                if link is not None:
                    values += places
                    links += [link] * len(places)
        for open_values in self._open_values:
            np.add.at(open_values, (values, links), np.float32(1.0))

    @property
    def learns_early(self) -> bool:
        """Whether feedback counts before windows close."""
        return self._making is not None

    def for_visitors(
        self,
        open_views: Floats | None,
        rates: LinkRates,
        rules: PageRules | None = None,
        early: Mapping[Said, LinkCounts] = NOTHING_EARLY,
    ) -> ForVisitors:
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
        told = tuple(
            self._of_segment(pages, floor, seen, rates) for floor, seen in enumerate(segments)
        )
        most = np.argsort(-counts, kind="stable")[:MAX_KINDS]
        kinds = tuple(
            VisitorKind(tuple(visitor), count / int(counts[most].sum()))
            for visitor, count in zip(different[most].tolist(), counts[most].tolist(), strict=True)
        )
        return ForVisitors(pages, features.words, probabilities, clicks, told, kinds)

    def pages_at(
        self, prices: Floats, rates: LinkRates, early: Mapping[Said, LinkCounts] = NOTHING_EARLY
    ) -> PagesForVisitors:
        """Return the pages of the learned state at the prices of a stored version.

        `early` has the weighted counts of open views by kind of visitor.
        """
        if self._making is None:
            return ChosenPages(self.player.copy(), rates)
        opened = Open(self._open_links, self._open_values)
        knows, left = self._with_early(early, opened) if early else (self.player, opened)
        return self._pages(knows, left, prices)

    def open_bytes(self) -> tuple[bytes, bytes]:
        """Return the views that were open when the last version was made, to be stored."""
        return self._open_links.tobytes(), self._open_values.tobytes()

    def take_open(self, links: bytes, values: bytes) -> None:
        """Restore stored open views if they have the same links and values."""
        for array, stored in ((self._open_links, links), (self._open_values, values)):
            if len(stored) == array.nbytes:
                array[:] = np.frombuffer(stored, array.dtype).reshape(array.shape)

    @property
    def _n_floors(self) -> int:
        return len(self.player.problem.segment_floor_places)

    def _pages_ahead(
        self,
        open_views: Floats | None,
        rates: LinkRates,
        visitors: Links,
        early: Mapping[Said, LinkCounts],
    ) -> PagesForVisitors:
        """Return pages at the prices of the next rounds, simulated with `visitors`.

        Links are scored with the feedback of open views so far. The clicks owed to floors are those
        of settled views, less the clicks expected from all open ones.
        """
        player = self.player
        if self._making is None:
            ahead = player.copy()
            if open_views is not None and _has_learned(player.form, player.state):
                expect_views(ahead.form, ahead.state, open_views, _by_level(rates), visitors)
            return ChosenPages(ahead, rates)
        assert open_views is not None  # these policies move each round
        self._open_links[:] = open_views
        opened = Open(self._open_links, self._open_values)
        knows, left = self._with_early(early, opened) if early else (player, opened)
        pages = self._pages(knows, left, np.zeros(1 + self._n_floors))
        n_links = player.problem.n_links
        n_rounds = min(MAX_ROUNDS_AHEAD, max(MIN_ROUNDS_AHEAD, LINKS_AHEAD // n_links))
        ahead_of = (player.state, pages, visitors, opened, rates.clicks, n_rounds)
        return pages.with_prices(self._making.prices_ahead(*ahead_of))

    def _with_early(self, early: Mapping[Said, LinkCounts], opened: Open) -> tuple[Player, Open]:
        """Return a copy that has learned from open views, and the views that remain open.

        If there are too many kinds of visitors, only those with most views are used.
        """
        player, n_cells = self.player, 0
        learner = player.move(player.problem, player.pool)
        links, values = np.zeros_like(opened.links), np.zeros_like(opened.values)
        for said, counts in sorted(early.items(), key=lambda one: -one[1].views[0].sum()):
            n_cells += int(np.count_nonzero(counts.views))
            if n_cells > MAX_CELLS:
                break
            places = np.array(player.features.stored_places(dict(said), is_counted=False), np.int64)
            learner.learn_counts(totals_of(counts, places))
            links += counts.views
            values[:, places] += counts.views[:, None].astype(np.float32)
        left = Open(
            np.maximum(opened.links - links, 0.0), np.maximum(opened.values - values, np.float32(0))
        )
        return learner, left

    def _pages(self, player: Player, opened: Open, prices: Floats) -> VisitorPages:
        n_floors = self._n_floors
        shaped = prices.reshape(-1, 1 + n_floors) if n_floors else prices
        pages: VisitorPages = self._making.pages_of(player.state, opened, shaped)
        return pages

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
        n_views: Floats = np.ones(problem.n_links)
        if self._making is not None:
            n_views = self.player.state.regression.value_views[place] + 1.0
        variance = (clicks * (1.0 - clicks) + 0.25 / n_views) / n_views
        of_segment = LinkRates(clicks, np.minimum(rates.revenue, clicks), variance)
        price = float(pages.prices.reshape(-1, 1 + self._n_floors)[:, 1 + floor].mean())
        probabilities = seen.probabilities / seen.n_visitors
        return OfSegment(feature, value, of_segment, probabilities, price)


class ChosenPages:
    """The pages of a version by the policy's own `choose`, on a separate player.

    slotwise's own policies for visitors publish scores and prices instead (`VisitorPages`), which
    is quicker than choosing again for every visitor. Not thread-safe.
    """

    def __init__(self, player: Player, rates: LinkRates) -> None:
        self._player, problem = player, player.problem
        self.links = np.arange(problem.n_links)
        self.rate: Floats = _by_level(rates)
        """Each link's outcome per view, by level: the same for all visitors."""
        self.rewards = np.array([0.0, 1.0])
        self.prices = np.zeros(1 + len(problem.segment_floor_places))
        """Zeros, since there are no prices, but a version for visitors is stored with some."""
        price = solve_page(rates, problem.n_slots, problem.click_floor).shadow_price
        self.shadow_price = float(price)

    def page(self, visitor: Visitor, links: Visitor, n_slots: int) -> tuple[Floats, float]:
        """Return the inclusion probabilities of some links for a visitor, and expected clicks.

        If links or slots are missing, the whole page is scaled to those that remain.
        """
        problem, whole = self._player.problem, self._whole(visitor)
        is_whole = len(links) == len(whole) and n_slots == problem.n_slots
        probabilities = whole if is_whole else fill_slots(whole[links], n_slots)
        return probabilities, float(probabilities @ self.rate[0, links])

    def page_within(self, visitor: Visitor, rules: PageRules) -> tuple[Floats, float]:
        """Return the probabilities of all links within rules for a visitor, and their clicks."""
        page = self._whole(visitor, rules)
        return page, float(page @ self.rate[0])

    def _whole(self, visitor: Visitor, rules: PageRules | None = None) -> Floats:
        form, state, problem = self._player.form, self._player.state, self._player.problem
        rng, asked = np.random.default_rng(0), np.ascontiguousarray(visitor)[None]
        if form.moves_each_round:
            return average_ahead(form, problem, state, self.rate, rng, CHOICES, asked, rules)
        return average_probabilities(form, state, rng, CHOICES, asked, rules, problem.n_slots)

    def scores(self, links: Visitor) -> Floats:
        """Return the scores of the links for the visitor of the last page."""
        worth = np.zeros(len(links))
        switching(type(self._player.form).rank)(self._player.state, links, worth)
        return worth
