"""The pages of paced Bayes for every visitor, for one state of the policy.

A service draws many pages from one version. The queue would move the price of clicks with every
page, so a version has the prices of its next rounds, simulated with the visitors of the last
minutes, and a visitor's page is the average over them:

    probability of link i for visitor x = mean over prices of [i among the L largest scores]

Where segments have floors, a version has the prices of every round: of the floor for all and of
each segment's floor. The prices of a visitor are sums over the visitor's segments.

One dependent rounding of these probabilities draws the page, so they are exact given the visitor.
The price of a click is stored in units of revenue and used in units of sales. Used by `service`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.compile import compiled, hot, switching
from slotwise.policies.joint_posterior import (
    JointPosterior,
    outcome_worth,
    reward_in_sales,
    score_boosted,
    score_jointly,
)
from slotwise.policies.link_posterior import UNIT, PosteriorLayout
from slotwise.policies.paced_bayes_visitors import PacedBayesVisitorsState
from slotwise.policies.policy import Floats, Links, Visitor
from slotwise.policies.prices import (
    Queues,
    SegmentFloors,
    floor_price,
    price_clicks,
    priced,
    queue_clicks,
    queue_outcomes,
)
from slotwise.policies.visitor_regression import (
    Sight,
    new_sight,
    rate_for,
    refresh_level,
)
from slotwise.selection.mix import N_OPEN, N_SURE, N_TIED, TIED_SLOTS, Mix, new_mix
from slotwise.selection.page_rules import PageRules
from slotwise.selection.page_search import Search, new_search
from slotwise.selection.page_within_rules import best_within
from slotwise.selection.share_slots import take_top_links

N_PRICES = 16
"""Number of prices of a version: each is the mean of a part of the rounds ahead, by price."""


class Open(NamedTuple):
    """Views whose feedback is open, by level and link, and by level, feature value and link."""

    links: Floats
    values: NDArray[np.float32]


def copied_queues(queues: Queues) -> Queues:
    """Return an independent copy of queues."""
    return queues._replace(
        lengths=queues.lengths.copy(), owed=queues.owed.copy(), worth=queues.worth.copy()
    )


def grouped_prices(prices: Floats) -> Floats:
    """Return the means of `N_PRICES` parts of the prices, by price; one if all are equal."""
    if len(prices) < N_PRICES:
        return prices
    means: Floats = np.sort(prices).reshape(N_PRICES, -1).mean(axis=1)
    return means[:1] if means[0] == means[-1] else means


def _settle_segments(
    floors: SegmentFloors, pages: VisitorPages, visitors: NDArray[np.int64], open_views: Open
) -> None:
    """Settle open views, given by value and link, in the queues of segments.

    The last of these visitors who belongs to a segment represents all of it.
    """
    for place in floors.places:
        members = visitors[(visitors == place).any(axis=1)]
        pages.look_at(members[-1] if len(members) else visitors[0])
        shown = open_views.values[0, place].astype(np.float64)
        views, clicks = np.array([shown.sum()]), np.array([shown @ pages.rate[0]])
        switching(queue_clicks)(floors, np.array([place]), views, clicks)


MAX_KEPT_PRICES = 256
"""Number of sets of segments whose prices a version caches."""


class PageBuffers(NamedTuple):
    """Buffers for one page."""

    value: Floats
    clicks: Floats
    probabilities: Floats
    search: Search
    mix: Mix


class Prospect(NamedTuple):
    """The estimates of a version, and buffers for one visitor."""

    layout: PosteriorLayout
    sight: Sight
    posterior: JointPosterior
    rewards: Floats
    worth: Floats
    rate: Floats
    score: Floats
    buffer: Floats
    n_slots: int


def _bounded(open_views: Open) -> Open:
    """Return open views in which no link has more views of one value than in total.

    Views by value are estimates, since they decay gradually.
    """
    return open_views._replace(
        values=np.minimum(open_views.values, open_views.links[:, None, :].astype(np.float32))
    )


@hot
def add_page(mix: Mix, share: float, probabilities: Floats) -> None:
    """Add a page, weighted by this share of page views, to the probabilities of links."""
    for k in range(mix.sizes[N_SURE]):
        probabilities[mix.sure[k]] += share
    for k in range(mix.sizes[N_OPEN]):
        probabilities[mix.open[k]] += share * mix.probabilities[k]
    for k in range(mix.sizes[N_TIED]):
        tied = mix.sizes[TIED_SLOTS] / mix.sizes[N_TIED]
        probabilities[mix.tied[k]] += share * tied


@hot
def _look_at(prospect: Prospect, visitor: Visitor) -> None:
    """Write the expected outcomes of links for this visitor, and the inputs of their scores."""
    posterior, rate = prospect.posterior, prospect.rate
    rate_for(prospect.layout, prospect.sight, posterior, visitor, prospect.n_slots)
    n_levels = len(rate)
    for level in range(n_levels):
        size = posterior.sales[UNIT] if level == n_levels - 1 else 1.0
        prospect.worth[level] = reward_in_sales(posterior, prospect.rewards, level)
        for link in range(rate.shape[1]):
            passed = 1.0
            for earlier in range(level):
                passed *= posterior.mean[earlier, link]
            rate[level, link] = size * passed * posterior.mean[level, link]


@hot
def _choose_at(
    prospect: Prospect,
    prices: Floats,
    visitor: Visitor,
    links: Links,
    n_slots: int,
    buffers: PageBuffers,
) -> float:
    """Write the average page over the prices; return its expected clicks."""
    _look_at(prospect, visitor)
    n_links = len(links)
    value, clicks = buffers.value[:n_links], buffers.clicks[:n_links]
    probabilities = buffers.probabilities[:n_links]
    for k in range(n_links):
        clicks[k] = prospect.rate[0, links[k]]
        probabilities[k] = 0.0
    reward, size = prospect.worth[0], prospect.posterior.sales[UNIT]
    for price in prices:
        prospect.worth[0] = reward + price / size
        score_jointly(prospect.posterior, prospect.worth, prospect.score, prospect.buffer)
        for k in range(n_links):
            value[k] = prospect.score[links[k]]
        take_top_links(value, clicks, 0.0, n_slots, buffers.search, buffers.mix)
        add_page(buffers.mix, 1.0 / len(prices), probabilities)
    expected = 0.0
    for k in range(n_links):
        expected += probabilities[k] * clicks[k]
    return expected


@hot
def _choose_within(
    prospect: Prospect, prices: Floats, visitor: Visitor, rules: PageRules, page: Floats
) -> float:
    """Write the average page within rules over the prices; return its expected clicks."""
    _look_at(prospect, visitor)
    for link in range(len(page)):
        page[link] = 0.0
    reward, size = prospect.worth[0], prospect.posterior.sales[UNIT]
    for price in prices:
        prospect.worth[0] = reward + price / size
        score_jointly(prospect.posterior, prospect.worth, prospect.score, prospect.buffer)
        worth, score = prospect.worth, prospect.score
        score_boosted(prospect.posterior, worth, prospect.rewards, rules.boost, score)
        best_within(rules, score, prospect.rate[0])
        for link in range(len(page)):
            page[link] += rules.probabilities[link] / len(prices)
    expected = 0.0
    for link in range(len(page)):
        expected += page[link] * prospect.rate[0, link]
    return expected


@compiled
def _play_ahead(
    prospect: Prospect,
    queues: Queues,
    floors: SegmentFloors,
    rounds: Floats,
    visitors: NDArray[np.int64],
    links: Links,
    buffers: PageBuffers,
    prices: Floats,
) -> None:
    """Advance the queues as if every page got its expected clicks.

    A row of `prices` has the price of the floor for all, then that of each segment's floor.
    """
    one_view = np.ones(queues.n_slots)
    outcomes = np.zeros(queues.n_slots)
    price = np.zeros(1)
    posterior = prospect.posterior
    unit = posterior.sales[UNIT] * outcome_worth(posterior, prospect.rewards, 0)
    for k in range(len(prices)):
        visitor = visitors[k % len(visitors)]
        for floor in range(len(queues.lengths)):
            if queues.levels[floor] == 0:
                prices[k, 0] += unit * priced(queues, floor, 0.0, rounds, 0.0)
        for floor in range(len(floors.places)):
            prices[k, 1 + floor] = unit * floor_price(floors, floor)
        price[0] = prices[k, 0] + unit * price_clicks(floors, visitor)
        outcomes[0] = _choose_at(prospect, price, visitor, links, queues.n_slots, buffers)
        rounds[0] += 1.0
        queue_outcomes(queues, 0, one_view, outcomes, rounds)
        queue_clicks(floors, visitor, one_view, outcomes)


class VisitorPages:
    """The pages of a version for each visitor. Not thread-safe: it has buffers for one page."""

    def __init__(
        self, prospect: Prospect, prices: Floats, floor_places: tuple[int, ...] = ()
    ) -> None:
        n_links = prospect.rate.shape[1]
        self.prospect = prospect
        self.rate: Floats = prospect.rate
        """Each link's expected outcome per view for the visitor of the last page, by level."""
        self.rewards = prospect.rewards
        self.prices = prices
        """With floors of segments a row for each round: the price for all, then of each floor."""
        self.floor_places = floor_places
        self._by_floors: dict[tuple[int, ...], Floats] = {}
        self._last_prices = prices
        self.links = np.arange(n_links)
        self.buffers = PageBuffers(
            value=np.zeros(n_links),
            clicks=np.zeros(n_links),
            probabilities=np.zeros(n_links),
            search=new_search(n_links),
            mix=new_mix(n_links),
        )

    def with_prices(self, prices: Floats) -> VisitorPages:
        """Return the pages at other prices."""
        return VisitorPages(self.prospect, prices, self.floor_places)

    @property
    def shadow_price(self) -> float:
        """The mean price of a click for the floor that holds for all visitors."""
        return float(self.prices.mean() if self.prices.ndim == 1 else self.prices[:, 0].mean())

    def prices_of(self, visitor: Visitor) -> Floats:
        """Return the prices of a click of a visitor, who may belong to segments with floors."""
        if not self.floor_places:
            return self.prices
        known = set(visitor.tolist())
        held = tuple(k for k, place in enumerate(self.floor_places, 1) if place in known)
        prices = self._by_floors.get(held)
        if prices is None:
            if len(self._by_floors) >= MAX_KEPT_PRICES:
                self._by_floors.clear()
            prices = grouped_prices(self.prices[:, (0, *held)].sum(axis=1))
            self._by_floors[held] = prices
        return prices

    def page(self, visitor: Visitor, links: Links, n_slots: int) -> tuple[Floats, float]:
        """Return the inclusion probabilities of some links for a visitor, and expected clicks."""
        prices = self._last_prices = self.prices_of(visitor)
        expected = switching(_choose_at)(
            self.prospect, prices, visitor, links, n_slots, self.buffers
        )
        return self.buffers.probabilities[: len(links)].copy(), float(expected)

    def page_within(self, visitor: Visitor, rules: PageRules) -> tuple[Floats, float]:
        """Return the probabilities of all links within rules for a visitor, and their clicks."""
        prices = self._last_prices = self.prices_of(visitor)
        page = np.zeros(len(self.links))
        expected = switching(_choose_within)(self.prospect, prices, visitor, rules, page)
        return page, float(expected)

    def look_at(self, visitor: Visitor) -> None:
        """Write the expected outcomes of links for this visitor to `rate`."""
        switching(_look_at)(self.prospect, visitor)

    def scores(self, links: Links) -> Floats:
        """Return the scores of the links for the visitor of the last page, at the mean price."""
        rates: Any = self.rate[:, links]
        worth: Floats = self.rewards @ rates + float(self._last_prices.mean()) * rates[0]
        return worth


def prices_ahead(
    state: PacedBayesVisitorsState,
    pages: VisitorPages,
    visitors: NDArray[np.int64],
    open_views: Open,
    click_rates: Floats,
    n_rounds: int,
) -> Floats:
    """Return the prices of the next rounds with these visitors, grouped to a few.

    With floors of segments they are not grouped: a row for each round, a column for each floor.
    Open views are first settled with their links' `click_rates`.
    """
    open_views = _bounded(open_views)
    queues, held = copied_queues(state.queues), state.segment_floors
    floors = held._replace(queues=copied_queues(held.queues), rounds=held.rounds.copy())
    rounds = state.evidence.rounds.copy()
    shown = open_views.links[0]
    if shown.any():
        rounds[0] += shown.sum() / queues.n_slots
        brought = np.array([shown @ click_rates])
        switching(queue_outcomes)(queues, 0, np.array([shown.sum()]), brought, rounds)
        _settle_segments(floors, pages, visitors, open_views)
    n_rounds = max(n_rounds, N_PRICES) // N_PRICES * N_PRICES
    prices = np.zeros((n_rounds, 1 + len(floors.places)))
    ahead = (queues, floors, rounds, visitors, pages.links, pages.buffers, prices)
    switching(_play_ahead)(pages.prospect, *ahead)
    return prices if len(floors.places) else grouped_prices(prices[:, 0])


def pages_of(state: PacedBayesVisitorsState, open_views: Open, prices: Floats) -> VisitorPages:
    """Return the pages of the present state, with open views taken into account."""
    regression, posterior = state.regression, state.posterior
    open_views = _bounded(open_views)
    seen = open_views.values[0].sum(axis=1, dtype=np.float64) / state.queues.n_slots
    sight = new_sight(regression, state.evidence.rounds, state.evidence.views[0])._replace(
        views=regression.value_views.astype(np.float32) + open_views.values[0],
        link_views=state.evidence.views[0] + open_views.links[0],
        seen=regression.seen + seen,
        n_pages=state.evidence.rounds + open_views.links[0].sum() / state.queues.n_slots,
    )
    n_levels, n_links, _ = regression.tilt.shape
    for level in range(n_levels):
        switching(refresh_level)(regression, sight, level)
    room = posterior._replace(
        mean=np.zeros((n_levels, n_links)),
        variance=np.zeros((n_levels, n_links)),
        width=np.zeros(n_links),
        pool=posterior.pool.copy(),
        sales=posterior.sales.copy(),
    )
    prospect = Prospect(
        layout=regression.layout,
        sight=sight,
        posterior=room,
        rewards=state.queues.rewards.copy(),
        worth=np.zeros(n_levels),
        rate=np.zeros((n_levels, n_links)),
        score=np.zeros(n_links),
        buffer=np.zeros(n_links),
        n_slots=state.queues.n_slots,
    )
    return VisitorPages(prospect, prices, tuple(state.segment_floors.places.tolist()))
