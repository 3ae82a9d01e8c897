"""A policy for visitors that differ, on the links of a pool: it learns for whom, and for now."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.policies import Policy, regression_pages, visitor_pages
from slotwise.policies.paced_bayes_visitors import PacedBayesVisitors, has_few_pairs
from slotwise.policies.paced_kl_visitors import PacedKLVisitors
from slotwise.policies.page_views import average_ahead, expect_views, fill_slots
from slotwise.policies.policy import Visitor
from slotwise.policies.sampling import average_probabilities
from slotwise.policies.visitor_pages import Open, VisitorPages
from slotwise.problem import Problem
from slotwise.service.counting.attribution import CLICKS, Level, View
from slotwise.service.counting.rates import LinkRates, solve_page
from slotwise.service.learning.policy_run import PolicyRun
from slotwise.service.published_version import PagesForVisitors, VisitorKind
from slotwise.service.records import SECOND_US, DecisionRecord, KnownCounts, PoolSettings
from slotwise.service.visitors import VisitorCode

Floats = NDArray[np.float64]

RECENT_VISITORS = 256
"""Latest visitors with whom the next rounds are played ahead."""
MAX_KINDS = 64
"""Kinds of visitors that a version lists."""
MAX_ROUNDS_AHEAD = 256
MIN_ROUNDS_AHEAD = 64
LINKS_AHEAD = 1_000_000
"""Links that are scored for one version, where that leaves `MIN_ROUNDS_AHEAD` rounds."""
CHOICES = 64
"""Choices for a page of a policy that samples, or rounds ahead of one that moves each round."""


class OfSegment(NamedTuple):
    """What is known of visitors with one value of a feature, who have a floor of their own."""

    feature: str
    value: str
    rates: LinkRates
    probabilities: Floats
    shadow_price: float


class SegmentSeen:
    """Sums over the latest visitors of a segment: their pages and the click rates of links."""

    def __init__(self, n_links: int) -> None:
        self.n_visitors = 0
        self.probabilities = np.zeros(n_links)
        self.clicks = np.zeros(n_links)

    def add(self, probabilities: Floats, clicks: Floats, n_visitors: int) -> None:
        """Add visitors who get the same page."""
        self.n_visitors += n_visitors
        self.probabilities += n_visitors * probabilities
        self.clicks += n_visitors * clicks


class ForVisitors(NamedTuple):
    """What a version shows to whom, and what it shows on average over the latest visitors."""

    pages: PagesForVisitors
    words: dict[str, tuple[str, ...]]
    probabilities: Floats
    expected_clicks: float
    segments: tuple[OfSegment, ...] = ()
    """A row for each floor of a segment."""
    kinds: tuple[VisitorKind, ...] = ()
    """The kinds of the latest visitors, where they are few."""


def is_told_visitors(policy: Policy, pool: PoolSettings) -> bool:
    """Say whether the pages of a policy depend on what is known of the visitor."""
    return policy.uses_visitors and bool(pool.features)


def can_learn(policy: Policy, problem: Problem) -> bool:
    """Say whether a policy has room for what the visitors of a problem do to its links."""
    return has_few_pairs(problem) or not isinstance(policy, PacedBayesVisitors)


class VisitorRun(PolicyRun):
    """A policy whose pages depend on the visitor, with the words of open lists that it knows."""

    _learned = (*PolicyRun._learned, "code")

    def __init__(
        self,
        policy: Policy,
        problem: Problem,
        link_ids: Sequence[str],
        state: Any,
        code: VisitorCode,
    ) -> None:
        super().__init__(policy, problem, link_ids, state)
        self.code = code
        shape = (problem.n_levels, sum(problem.feature_sizes), len(link_ids))
        self._open_values = np.zeros(shape, np.float32)
        self._open_links = np.zeros((problem.n_levels, len(link_ids)))
        """Views that were open when the last version was made."""
        self._opened_us = 0
        self._recent: deque[tuple[int, ...]] = deque(maxlen=RECENT_VISITORS)

    @property
    def _making(self) -> Any:
        """What makes pages of the policy's state."""
        return regression_pages if isinstance(self.policy, PacedBayesVisitors) else visitor_pages

    def _held(self, state: Any) -> Any:
        return self.policy.learning_only(state)

    def moved(
        self,
        problem: Problem,
        link_ids: Sequence[str],
        forgotten: frozenset[str] = frozenset(),
        policy: Policy | None = None,
    ) -> VisitorRun:
        """Return the same knowledge for other links or another page; `forgotten` start afresh."""
        run = super().moved(problem, link_ids, forgotten, policy)
        assert isinstance(run, VisitorRun)
        for place, link_id in enumerate(link_ids):
            before = self._places.get(link_id)
            if before is not None and link_id not in forgotten:
                run._open_values[..., place] = self._open_values[..., before]
                run._open_links[..., place] = self._open_links[..., before]
        run._opened_us, run._recent = self._opened_us, self._recent
        return run

    def _of_state(
        self, policy: Policy, problem: Problem, link_ids: Sequence[str], state: Any
    ) -> VisitorRun:
        return type(self)(policy, problem, link_ids, state, self.code)

    def _visitor(self, view: View, level: Level) -> Sequence[int]:
        """Return the visitor; a word is counted once a view, when its clicks settle."""
        return self.code.places(view.decision.visitor, is_counted=level == CLICKS)

    def _meet(self, known: Sequence[tuple[str, KnownCounts]]) -> None:
        """Give words of open lists that were seen often places of their own."""
        self.code.keep_words((counts.visitor, counts.views) for _, counts in known)

    def _known_visitor(self, values: Mapping[str, str]) -> Sequence[int]:
        return self.code.places(values, is_counted=False)

    def note_shown(self, views: Sequence[DecisionRecord], pool: PoolSettings, now_us: int) -> None:
        """Take in the latest views, which fade as if windows closed at a constant rate."""
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
                places = known[said] = self.code.places(view.visitor, is_counted=False)
            self._recent.append(tuple(places))
            for shown in view.shown:
                link = self._places.get(shown.link_id)
                if link is not None:
                    values += places
                    links += [link] * len(places)
        for open_values in self._open_values:
            np.add.at(open_values, (values, links), np.float32(1.0))

    def for_visitors(self, open_views: Floats | None, rates: LinkRates) -> ForVisitors:
        """Return what the next version shows to whom."""
        n_links, visitors = len(self.link_ids), self._latest_visitors()
        pages = self._pages_ahead(open_views, rates, visitors)
        probabilities, clicks = np.zeros(n_links), 0.0
        different, counts = np.unique(visitors, axis=0, return_counts=True)
        segments = [SegmentSeen(n_links) for _ in self.problem.value_floors]
        for visitor, count in zip(different, counts.tolist(), strict=True):
            page, expected = pages.page(visitor, pages.links, self.problem.n_slots)
            probabilities += page * (count / len(visitors))
            clicks += expected * count / len(visitors)
            for (place, _), seen in zip(self.problem.value_floors, segments, strict=True):
                if place in visitor:
                    seen.add(page, pages.rate[0], count)
        told = tuple(
            self._of_segment(pages, floor, seen, rates) for floor, seen in enumerate(segments)
        )
        kinds = tuple(
            VisitorKind(tuple(visitor), count / len(visitors))
            for visitor, count in zip(different.tolist(), counts.tolist(), strict=True)
            if len(different) <= MAX_KINDS
        )
        return ForVisitors(pages, self.code.words, probabilities, clicks, told, kinds)

    def _pages_ahead(
        self, open_views: Floats | None, rates: LinkRates, visitors: NDArray[np.int64]
    ) -> PagesForVisitors:
        """Return pages at the prices of the next rounds, which are those of `visitors`."""
        assert open_views is not None  # these policies move each round
        self._open_links[:] = open_views
        opened = Open(self._open_links, self._open_values)
        pages = self._pages(opened, np.zeros(1 + self._n_floors))
        n_links = len(self.link_ids)
        n_rounds = min(MAX_ROUNDS_AHEAD, max(MIN_ROUNDS_AHEAD, LINKS_AHEAD // n_links))
        prices = self._making.prices_ahead(
            self._state, pages, visitors, opened, rates.clicks, n_rounds
        )
        return pages.with_prices(prices)

    @property
    def _n_floors(self) -> int:
        return len(self.problem.value_floors)

    def _shaped(self, prices: Floats) -> Floats:
        """Return prices of a version in the shape in which its pages take them."""
        return prices.reshape(-1, 1 + self._n_floors) if self._n_floors else prices

    def _of_segment(
        self, pages: PagesForVisitors, floor: int, seen: SegmentSeen, rates: LinkRates
    ) -> OfSegment:
        """Return what is known of a segment, on average over its latest visitors."""
        place, _ = self.problem.value_floors[floor]
        feature, value = self.code.features.label(place)
        if not seen.n_visitors:  # then for a visitor of whom nothing else is known
            visitor = np.array(self.code.places({feature: value}, is_counted=False), np.int64)
            page, _ = pages.page(visitor, pages.links, self.problem.n_slots)
            seen.add(page, pages.rate[0], 1)
        clicks = (seen.clicks / seen.n_visitors).clip(0.0, 1.0)
        n_views = self._views_of_value(place) + 1.0
        variance = (clicks * (1.0 - clicks) + 0.25 / n_views) / n_views
        of_segment = LinkRates(clicks, np.minimum(rates.revenue, clicks), variance)
        price = float(pages.prices.reshape(-1, 1 + self._n_floors)[:, 1 + floor].mean())
        probabilities = seen.probabilities / seen.n_visitors
        return OfSegment(feature, value, of_segment, probabilities, price)

    def _views_of_value(self, place: int) -> Floats:
        views: Floats = self._making.views_of_value(self._state, place)
        return views

    def pages_at(self, prices: Floats, rates: LinkRates) -> PagesForVisitors:  # noqa: ARG002 - overridden
        """Return the pages of what was learned, at prices of a version that was stored."""
        return self._pages(Open(self._open_links, self._open_values), prices)

    def open_bytes(self) -> tuple[bytes, bytes]:
        """Return the views that were open when the last version was made, to be stored."""
        return self._open_links.tobytes(), self._open_values.tobytes()

    def take_open(self, links: bytes, values: bytes) -> None:
        """Take back open views that were stored, where they are of the same links and values."""
        for array, stored in ((self._open_links, links), (self._open_values, values)):
            if len(stored) == array.nbytes:
                array[:] = np.frombuffer(stored, array.dtype).reshape(array.shape)

    def _pages(self, opened: Open, prices: Floats) -> VisitorPages:
        pages: VisitorPages = self._making.pages_of(self._state, opened, self._shaped(prices))
        return pages

    def _latest_visitors(self) -> NDArray[np.int64]:
        """Return the latest visitors, a row each; one of whom nothing is known before the first."""
        latest = self._recent or [tuple(self.code.places({}, is_counted=False))]
        return np.array(latest, np.int64)


class ChosenPages:
    """What a version shows to each visitor by the policy's own `choose`, on a state of its own.

    slotwise's own policies for visitors publish scores and prices instead (`VisitorPages`), which
    is quicker than choosing again for every visitor. Not safe for threads.
    """

    def __init__(self, policy: Policy, problem: Problem, state: Any, rates: LinkRates) -> None:
        self._policy, self._problem, self._state = policy, problem, state
        self.links = np.arange(problem.n_links)
        self.rate: Floats = np.stack([rates.clicks, rates.revenue])
        """What each link brings a view, by level: the same for all visitors."""
        self.rewards = np.array([0.0, 1.0])
        self.prices = np.zeros(1 + len(problem.value_floors))
        """None are known, but a version whose pages depend on visitors is stored with some."""
        price = solve_page(rates, problem.n_slots, problem.click_floor).shadow_price
        self.shadow_price = float(price)

    def page(self, visitor: Visitor, links: Visitor, n_slots: int) -> tuple[Floats, float]:
        """Return the inclusion probabilities of some links for a visitor, and expected clicks.

        Where the page is not a whole one, the whole page is scaled to the links and slots left.
        """
        rng, asked = np.random.default_rng(0), np.ascontiguousarray(visitor)[None]
        if self._policy.moves_each_round:
            chosen = (self._policy, self._problem, self._state, self.rate, rng, CHOICES, asked)
            whole = average_ahead(*chosen)
        else:
            whole = average_probabilities(self._policy, self._state, rng, CHOICES, asked)
        is_whole = len(links) == len(whole) and n_slots == self._problem.n_slots
        probabilities = whole if is_whole else fill_slots(whole[links], n_slots)
        return probabilities, float(probabilities @ self.rate[0, links])

    def scores(self, links: Visitor) -> Floats:
        """Return what the links are worth to the visitor of the last page."""
        worth = np.zeros(len(links))
        type(self._policy).rank(self._state, links, worth)
        return worth


class ChoosingRun(VisitorRun):
    """A policy of another package: the page of a visitor is what its own `choose` says."""

    def _held(self, state: Any) -> Any:
        return state

    def _pages_ahead(
        self, open_views: Floats | None, rates: LinkRates, visitors: NDArray[np.int64]
    ) -> ChosenPages:
        ahead: Any = self.policy.restore(self.problem, self.policy.knowledge(self._state))
        if open_views is not None and self._has_learned():
            by_level = np.stack([rates.clicks, rates.revenue])
            expect_views(self.policy, ahead, open_views, by_level, visitors)
        return ChosenPages(self.policy, self.problem, ahead, rates)

    def _views_of_value(self, place: int) -> Floats:  # noqa: ARG002 - the policy does not say
        return np.zeros(len(self.link_ids))

    def pages_at(self, prices: Floats, rates: LinkRates) -> ChosenPages:  # noqa: ARG002
        """Return the pages of what was learned; there are no prices."""
        ahead: Any = self.policy.restore(self.problem, self.policy.knowledge(self._state))
        return ChosenPages(self.policy, self.problem, ahead, rates)


def visitor_run(run: PolicyRun, code: VisitorCode) -> VisitorRun:
    """Return a run that is told of visitors and takes over what `run` knows."""
    is_own = isinstance(run.policy, PacedBayesVisitors | PacedKLVisitors)
    kind = VisitorRun if is_own else ChoosingRun
    return kind(run.policy, run.problem, run.link_ids, run._state, code)
