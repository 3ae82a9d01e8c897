"""The pages of `PacedBayesVisitors` for every visitor, as they stand at one moment.

As in `pages.visitor_pages`, a version has the prices of its next rounds, played ahead with the
visitors of the last minutes, and a visitor's page is the average over them. One dependent rounding
of these probabilities draws the page, so they are exact given the visitor. A click's price is kept
in units of revenue, like that of the other policy, and used in sales.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.compile import compiled, hot, switching
from slotwise.policies import visitor_pages
from slotwise.policies.joint_posterior import (
    JointPosterior,
    outcome_worth,
    reward_in_sales,
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
from slotwise.policies.visitor_pages import Open, Room, VisitorPages, add_page
from slotwise.policies.visitor_regression import (
    Sight,
    VisitorRegression,
    new_sight,
    rate_for,
    refresh_level,
)
from slotwise.selection.share_slots import take_top_links


class Prospect(NamedTuple):
    """What a version expects of links, and room for one visitor."""

    layout: PosteriorLayout
    sight: Sight
    posterior: JointPosterior
    rewards: Floats
    worth: Floats
    rate: Floats
    score: Floats
    scratch: Floats
    n_slots: int


def views_of_value(state: PacedBayesVisitorsState, place: int) -> Floats:
    """Return how often each link was shown to visitors with one value of a feature."""
    views: Floats = state.regression.value_views[place]
    return views


def _bounded(open_views: Open) -> Open:
    """Return open views of which no link has more of one value than it has in all.

    Those of values are estimates: they fade instead of ending.
    """
    return open_views._replace(
        values=np.minimum(open_views.values, open_views.links[:, None, :].astype(np.float32))
    )


@hot
def _fill(regression: VisitorRegression, sight: Sight) -> None:
    for level in range(len(sight.odds)):
        refresh_level(regression, sight, level)


@hot
def _look_at(prospect: Prospect, visitor: Visitor) -> None:
    """Write what links bring a view of this visitor, and what is needed to score them."""
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
    prospect: Prospect, prices: Floats, visitor: Visitor, links: Links, n_slots: int, room: Room
) -> float:
    """Write the average page over the prices; return the clicks it is expected to bring."""
    _look_at(prospect, visitor)
    n_links = len(links)
    value, clicks = room.value[:n_links], room.clicks[:n_links]
    probabilities = room.probabilities[:n_links]
    for k in range(n_links):
        clicks[k] = prospect.rate[0, links[k]]
        probabilities[k] = 0.0
    reward, size = prospect.worth[0], prospect.posterior.sales[UNIT]
    for price in prices:
        prospect.worth[0] = reward + price / size
        score_jointly(prospect.posterior, prospect.worth, prospect.score, prospect.scratch)
        for k in range(n_links):
            value[k] = prospect.score[links[k]]
        take_top_links(value, clicks, 0.0, n_slots, room.search, room.mix)
        add_page(room.mix, 1.0 / len(prices), probabilities)
    expected = 0.0
    for k in range(n_links):
        expected += probabilities[k] * clicks[k]
    return expected


@compiled
def _play_ahead(
    prospect: Prospect,
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
        outcomes[0] = _choose_at(prospect, price, visitor, links, queues.n_slots, room)
        rounds[0] += 1.0
        queue_outcomes(queues, 0, one_view, outcomes, rounds)
        queue_clicks(floors, visitor, one_view, outcomes)


class RegressionPages(VisitorPages):
    """What a version shows to each visitor. Not safe for threads: it has room for one page."""

    def __init__(self, prospect: Prospect, prices: Floats, floor_places: tuple[int, ...]) -> None:
        self.prospect = prospect
        super().__init__(prospect, prospect.rewards, prices, floor_places)

    def with_prices(self, prices: Floats) -> RegressionPages:
        """Return the pages at other prices."""
        return RegressionPages(self.prospect, prices, self.floor_places)

    def page(self, visitor: Visitor, links: Links, n_slots: int) -> tuple[Floats, float]:
        """Return the inclusion probabilities of some links for a visitor, and expected clicks."""
        prices = self._last_prices = self.prices_of(visitor)
        expected = switching(_choose_at)(self.prospect, prices, visitor, links, n_slots, self.room)
        return self.room.probabilities[: len(links)].copy(), float(expected)

    def look_at(self, visitor: Visitor) -> None:
        """Write into `rate` what links bring a view of this visitor."""
        switching(_look_at)(self.prospect, visitor)

    def play_ahead(self, *ahead: Any) -> None:
        """Let queues go on for some rounds; see `prices_ahead`."""
        switching(_play_ahead)(self.prospect, *ahead)


def prices_ahead(
    state: PacedBayesVisitorsState,
    pages: RegressionPages,
    visitors: NDArray[np.int64],
    open_views: Open,
    click_rates: Floats,
    n_rounds: int,
) -> Floats:
    """Return the prices of the next rounds with these visitors, as for the other policy."""
    opened = _bounded(open_views)
    return visitor_pages.prices_ahead(state, pages, visitors, opened, click_rates, n_rounds)


def pages_of(state: PacedBayesVisitorsState, open_views: Open, prices: Floats) -> RegressionPages:
    """Return the pages of a state as it stands, for views whose feedback is still open, too."""
    regression, posterior = state.regression, state.posterior
    open_views = _bounded(open_views)
    seen = open_views.values[0].sum(axis=1, dtype=np.float64) / state.queues.n_slots
    sight = new_sight(regression, state.evidence.rounds, state.evidence.views[0])._replace(
        views=regression.value_views.astype(np.float32) + open_views.values[0],
        link_views=state.evidence.views[0] + open_views.links[0],
        seen=regression.seen + seen,
        n_pages=state.evidence.rounds + open_views.links[0].sum() / state.queues.n_slots,
    )
    switching(_fill)(regression, sight)
    n_levels, n_links, _ = regression.tilt.shape
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
        scratch=np.zeros(n_links),
        n_slots=state.queues.n_slots,
    )
    return RegressionPages(prospect, prices, tuple(state.segment_floors.places.tolist()))
