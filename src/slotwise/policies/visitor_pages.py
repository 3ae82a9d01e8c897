"""The pages of `PacedKLVisitors` for every visitor, as they stand at one moment.

A service draws many pages from one version of what it knows. The queue would move the price of
clicks with every page, so a version has the prices of its next rounds, played ahead with the
visitors of the last minutes, and a visitor's page is the average over them:

    probability of link i for visitor x = mean over prices of [i among the L largest
                                          U_revenue(x) + price U_clicks(x)]

Where segments have floors, a version has the prices of every round: that of the floor for all and
that of each segment's floor. The prices of a visitor are their sums over the visitor's segments.

One dependent rounding of these probabilities draws the page, so they are exact given the visitor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.compile import compiled, hot, switching
from slotwise.policies.paced_kl_visitors import PacedKLVisitorsState, upper_bound
from slotwise.policies.policy import Floats, Links, Visitor
from slotwise.policies.prices import (
    Queues,
    SegmentFloors,
    floor_price,
    price_clicks,
    price_levels,
    queue_clicks,
    queue_outcomes,
)
from slotwise.policies.visitor_effects import (
    VisitorEffects,
    link_bonus,
    score_level,
    unit_of,
    value_bonus,
)
from slotwise.selection.mix import N_OPEN, N_SURE, N_TIED, TIED_SLOTS, Mix, new_mix
from slotwise.selection.page_search import Search, new_search
from slotwise.selection.share_slots import take_top_links

# The queues go on as if every page brought the clicks that are expected of it, with the visitors
# of the last minutes. `pages` is a `VisitorPages`, whose policy plays the rounds.


N_PRICES = 16
"""Prices of a version: the means of as many parts of the rounds ahead, in order of price."""


class Open(NamedTuple):
    """Views whose feedback is open, by level and link, and by level, feature value and link."""

    links: Floats
    values: NDArray[np.float32]


@hot
def _settle_open(queues: Queues, views: Floats, clicks: Floats, rounds: Floats) -> None:
    """Let the queues settle open views that are expected to bring these clicks."""
    queue_outcomes(queues, 0, views, clicks, rounds)


def copied_queues(queues: Queues) -> Queues:
    """Return queues that go on by themselves."""
    return queues._replace(
        lengths=queues.lengths.copy(), owed=queues.owed.copy(), worth=queues.worth.copy()
    )


def grouped_prices(prices: Floats) -> Floats:
    """Return the means of `N_PRICES` parts of the prices, in order of price; one if all agree."""
    if len(prices) < N_PRICES:
        return prices
    means: Floats = np.sort(prices).reshape(N_PRICES, -1).mean(axis=1)
    return means[:1] if means[0] == means[-1] else means


def _settle_segments(
    floors: SegmentFloors, pages: Any, visitors: NDArray[np.int64], open_views: Open
) -> None:
    """Let the queues of segments settle open views, given by value and link.

    The last of these visitors who belongs to a segment stands for all of it.
    """
    for place in floors.places:
        members = visitors[(visitors == place).any(axis=1)]
        pages.look_at(members[-1] if len(members) else visitors[0])
        shown = open_views.values[0, place].astype(np.float64)
        views, clicks = np.array([shown.sum()]), np.array([shown @ pages.rate[0]])
        switching(queue_clicks)(floors, np.array([place]), views, clicks)


def prices_ahead(
    state: Any,
    pages: Any,
    visitors: NDArray[np.int64],
    open_views: Open,
    click_rates: Floats,
    n_rounds: int,
) -> Floats:
    """Return the prices of the next rounds with these visitors, grouped to a few.

    With floors of segments they are not grouped: a row for each round, a column for each floor.
    Views that are still open are first expected to bring their links' `click_rates`.
    """
    queues, held = copied_queues(state.queues), state.segment_floors
    floors = held._replace(queues=copied_queues(held.queues), rounds=held.rounds.copy())
    rounds = state.evidence.rounds.copy()
    shown = open_views.links[0]
    if shown.any():
        rounds[0] += shown.sum() / queues.n_slots
        brought = np.array([shown @ click_rates])
        switching(_settle_open)(queues, np.array([shown.sum()]), brought, rounds)
        _settle_segments(floors, pages, visitors, open_views)
    n_rounds = max(n_rounds, N_PRICES) // N_PRICES * N_PRICES
    prices = np.zeros((n_rounds, 1 + len(floors.places)))
    ahead = (queues, floors, rounds, visitors, pages.links, pages.room, prices)
    pages.play_ahead(*ahead)
    return prices if len(floors.places) else grouped_prices(prices[:, 0])


MAX_KEPT_PRICES = 256
"""Sets of segments whose prices a version keeps."""

_NOTHING = np.zeros((0, 0))
_NO_VALUES = np.zeros((0, 0, 0))


class Room(NamedTuple):
    """Scratch for one page."""

    value: Floats
    clicks: Floats
    probabilities: Floats
    search: Search
    mix: Mix


def views_of_value(state: PacedKLVisitorsState, place: int) -> Floats:
    """Return about how often each link was shown to visitors with one value of a feature."""
    views: Floats = state.effects.value_exposure[0, place]
    return views


@hot
def _freeze(state: PacedKLVisitorsState, open_views: Open, frozen: VisitorEffects) -> None:
    """Write bonuses as if open views had settled."""
    effects, evidence = state.effects, state.evidence
    for level in range(len(effects.tau)):
        for link in range(evidence.views.shape[1]):
            settled = max(evidence.views[level, link], evidence.views[0, link])
            n_shown = settled + open_views.links[0, link]
            frozen.link_bonus[level, link] = link_bonus(effects, level, n_shown)
        for value in range(len(effects.feature_of)):
            for link in range(evidence.views.shape[1]):
                settled = effects.value_exposure[level, value, link]
                exposure = settled + open_views.values[level, value, link]
                used = effects.used_level[level, link]
                bonus = value_bonus(effects, level, value, exposure, used)
                frozen.value_bonus[level, value, link] = bonus


@hot
def add_page(mix: Mix, share: float, probabilities: Floats) -> None:
    """Add a page that stands for this share of page views to what links are shown with."""
    for k in range(mix.sizes[N_SURE]):
        probabilities[mix.sure[k]] += share
    for k in range(mix.sizes[N_OPEN]):
        probabilities[mix.open[k]] += share * mix.probabilities[k]
    for k in range(mix.sizes[N_TIED]):
        tied = mix.sizes[TIED_SLOTS] / mix.sizes[N_TIED]
        probabilities[mix.tied[k]] += share * tied


@hot
def _choose_at(
    effects: VisitorEffects,
    rewards: Floats,
    prices: Floats,
    visitor: Visitor,
    links: Links,
    n_slots: int,
    room: Room,
) -> float:
    """Write the average page over the prices; return the clicks it is expected to bring."""
    n_links = len(links)
    value, clicks = room.value[:n_links], room.clicks[:n_links]
    probabilities = room.probabilities[:n_links]
    for level in range(len(rewards)):
        score_level(effects, visitor, level)
    for k in range(n_links):
        link = links[k]
        clicks[k] = upper_bound(effects.rate[0, link], effects.bonus[0, link])
        value[k] = rewards[0] * clicks[k]
        probabilities[k] = 0.0
        for level in range(1, len(rewards)):
            upper = upper_bound(effects.rate[level, link], effects.bonus[level, link])
            value[k] += rewards[level] * upper
    share = 1.0 / len(prices)
    mix = room.mix
    for price in prices:
        take_top_links(value, clicks, price, n_slots, room.search, mix)
        add_page(mix, share, probabilities)
    expected = 0.0
    for k in range(n_links):
        expected += probabilities[k] * effects.rate[0, links[k]]
    return expected


@compiled
def _play_ahead(
    effects: VisitorEffects,
    rewards: Floats,
    queues: Queues,
    floors: SegmentFloors,
    rounds: Floats,
    visitors: NDArray[np.int64],
    links: Links,
    room: Room,
    prices: Floats,
) -> None:
    """Let the queues go on as if every page brought the clicks that are expected of it.

    A row of `prices` has the price of the floor for all, then that of each segment's floor.
    """
    one_view = np.ones(queues.n_slots)
    outcomes = np.zeros(queues.n_slots)
    price = np.zeros(1)
    sale = unit_of(effects, len(rewards) - 1)
    for k in range(len(prices)):
        price_levels(queues, rounds)
        visitor = visitors[k % len(visitors)]
        prices[k, 0] = sale * (queues.worth[0] - queues.rewards[0])
        for floor in range(len(floors.places)):
            prices[k, 1 + floor] = sale * floor_price(floors, floor)
        price[0] = prices[k, 0] + sale * price_clicks(floors, visitor)
        clicks = _choose_at(effects, rewards, price, visitor, links, queues.n_slots, room)
        outcomes[0] = clicks
        rounds[0] += 1.0
        queue_outcomes(queues, 0, one_view, outcomes, rounds)
        queue_clicks(floors, visitor, one_view, outcomes)


class VisitorPages:
    """What a version shows to each visitor. Not safe for threads: it has room for one page."""

    def __init__(
        self,
        effects: Any,
        rewards: Floats,
        prices: Floats,
        floor_places: Sequence[int] = (),
    ) -> None:
        n_links = effects.rate.shape[1]
        self.effects = effects
        self.rate: Floats = effects.rate
        """What each link brings a view of the visitor of the last page, by level."""
        self.rewards = rewards
        """What an outcome of each level is worth, in money: at the last level, a typical sale."""
        self.prices = prices
        """With floors of segments a row for each round: the price for all, then of each floor."""
        self.floor_places = tuple(floor_places)
        self._by_floors: dict[tuple[int, ...], Floats] = {}
        self._last_prices = prices
        self.links = np.arange(n_links)
        self.room = Room(
            value=np.zeros(n_links),
            clicks=np.zeros(n_links),
            probabilities=np.zeros(n_links),
            search=new_search(n_links),
            mix=new_mix(n_links),
        )

    def with_prices(self, prices: Floats) -> VisitorPages:
        """Return the pages at other prices."""
        return VisitorPages(self.effects, self.rewards, prices, self.floor_places)

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
            self.effects, self.rewards, prices, visitor, links, n_slots, self.room
        )
        return self.room.probabilities[: len(links)].copy(), float(expected)

    def look_at(self, visitor: Visitor) -> None:
        """Write into `rate` the clicks that links bring a view of this visitor."""
        switching(score_level)(self.effects, visitor, 0)

    def play_ahead(self, *ahead: Any) -> None:
        """Let queues go on for some rounds; see `prices_ahead`."""
        switching(_play_ahead)(self.effects, self.rewards, *ahead)

    def scores(self, links: Links) -> Floats:
        """Return what the links are worth to the visitor of the last page, at the mean price."""
        rates: Any = self.rate[:, links]
        worth: Floats = self.rewards @ rates + float(self._last_prices.mean()) * rates[0]
        return worth


def pages_of(state: PacedKLVisitorsState, open_views: Open, prices: Floats) -> VisitorPages:
    """Return the pages of a state as it stands, for views whose feedback is still open, too."""
    effects = state.effects
    frozen = effects._replace(
        value_sums=_NO_VALUES,
        value_exposure=_NO_VALUES,
        link_exposure=_NOTHING,
        common_sums=effects.common_sums.copy(),
        common_expected=effects.common_expected.copy(),
        seen=_NOTHING,
        tau=_NOTHING,
        pool=_NOTHING,
        sales=effects.sales.copy(),
        link_level=effects.link_level.copy(),
        used_level=_NOTHING,
        link_bonus=np.empty_like(effects.link_bonus),
        effect=effects.effect.copy(),
        value_bonus=np.empty_like(effects.effect),
        seen_at=_NOTHING,
        rate=np.zeros_like(effects.rate),
        bonus=np.zeros_like(effects.bonus),
    )
    switching(_freeze)(state, open_views, frozen)
    places = state.segment_floors.places.tolist()
    rewards = state.queues.rewards.copy()
    rewards[-1] *= unit_of(effects, len(rewards) - 1)
    return VisitorPages(frozen, rewards, prices, places)
