"""Pages of paced Bayes for visitors at one moment: the average over prices of its own pages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slotwise.policies.paced_bayes_visitors import PacedBayesVisitors
from slotwise.policies.visitor_pages import (
    Open,
    pages_of,
    prices_ahead,
)
from slotwise.problem import Problem
from slotwise.selection import dense_probabilities
from tests.policies.test_paced_bayes_visitors import EVERYBODY, PROBLEM, SIZES, played
from tests.unnamed_features import features_of


def nothing_open() -> Open:
    return Open(np.zeros((2, 6)), np.zeros((2, sum(SIZES), 6), np.float32))


def price_of(state: Any) -> float:
    """Return the price of the last page, in revenue."""
    posterior, worth = state.posterior, state.queues.worth
    return float((worth[0] - state.queues.rewards[0]) * posterior.sales[0])


def test_at_the_policys_own_price_it_is_the_policys_own_page() -> None:
    state, rng = played(300, size=0.2), np.random.default_rng(1)
    for visitor in EVERYBODY:
        PacedBayesVisitors.choose(state, visitor, rng)
        pages = pages_of(state, nothing_open(), np.array([price_of(state)]))
        probabilities, clicks = pages.page(visitor, pages.links, 2)
        np.testing.assert_allclose(probabilities, dense_probabilities(state.mix), atol=1e-9)
        means = state.posterior.mean
        assert clicks == pytest.approx(float(probabilities @ means[0]))
        np.testing.assert_allclose(pages.rate[0], means[0], rtol=1e-6)
        revenue = state.posterior.sales[0] * means[0] * means[1]
        np.testing.assert_allclose(pages.rate[1], revenue, rtol=1e-6)


def test_a_page_is_the_average_over_the_prices_among_the_links_asked_for() -> None:
    state = played(300)
    prices, links = np.array([0.0, 0.3, 4.0]), np.array([0, 2, 3, 5])
    visitor = EVERYBODY[1]
    expected = np.zeros(4)
    for price in prices:
        at_price = pages_of(state, nothing_open(), np.array([price]))
        expected += at_price.page(visitor, links, 2)[0] / 3
    pages = pages_of(state, nothing_open(), np.zeros(1)).with_prices(prices)
    probabilities, _ = pages.page(visitor, links, 2)
    np.testing.assert_allclose(probabilities, expected, atol=1e-12)
    assert probabilities.sum() == pytest.approx(2.0)
    worth = pages.rate[1, links] + prices.mean() * pages.rate[0, links]
    np.testing.assert_allclose(pages.scores(links), worth)


def test_a_state_that_only_learns_learns_the_same() -> None:
    policy = PacedBayesVisitors()
    lean = played(300, state=policy.learning_only(policy.start(PROBLEM)))
    full = played(300)
    assert lean.sight.odds.size == 0
    for name, array in policy.knowledge(full).items():
        np.testing.assert_array_equal(policy.knowledge(lean)[name], array)
    assert lean.regression.value_views[1].sum() == 300


def test_prices_ahead_lead_to_a_mix_that_keeps_the_floor() -> None:
    state = played(4_000)
    pages = pages_of(state, nothing_open(), np.zeros(1))
    visitors = np.array(EVERYBODY)
    before = state.queues.lengths.copy()
    prices = prices_ahead(state, pages, visitors, nothing_open(), np.zeros(6), 256)
    assert 1 <= len(prices) <= 16
    assert (np.diff(prices) >= 0).all()
    mixed = pages.with_prices(prices)
    clicks = [mixed.page(visitor, mixed.links, 2)[1] for visitor in visitors]
    assert np.mean(clicks) >= 0.97 * PROBLEM.click_floor
    np.testing.assert_array_equal(state.queues.lengths, before)


def test_open_views_make_bounds_narrower_and_a_price_follow_what_they_bring() -> None:
    state, visitor = played(300), EVERYBODY[0]
    shown = nothing_open()
    shown.links[:] = 400.0
    shown.values[:] = 200.0
    widths = []
    for opened in (nothing_open(), shown):
        pages = pages_of(state, opened, np.zeros(1))
        pages.look_at(visitor)
        widths.append(pages.prospect.posterior.width.copy())
    few = widths[0] > np.log(1.5)  # links shown less than visitors like this one would see
    assert (widths[1][few] < widths[0][few]).all()
    poor, rich = (
        prices_ahead(state, pages, np.array(EVERYBODY), shown, np.full(6, brings), 64).mean()
        for brings in (0.0, 1.0)
    )
    assert poor > rich


def test_a_segment_with_a_floor_has_a_price_of_its_own() -> None:
    floors = {"f0": {"v0": 1.9}}
    problem = Problem(6, 2, click_floor=0.6, features=features_of(SIZES), segment_floors=floors)
    policy = PacedBayesVisitors()
    state = played(300, state=policy.start(problem))
    opened = nothing_open()
    opened.links[:], opened.values[0, 0] = 1.0, 5.0  # an estimate: at most 1 of each link
    pages = pages_of(state, opened, np.zeros((1, 2)))
    prices = prices_ahead(state, pages, np.array(EVERYBODY), opened, np.full(6, 0.1), 64)
    assert prices.shape == (64, 2)
    assert (prices[:, 1] > 0.0).all()
    mixed = pages.with_prices(prices)
    assert mixed.prices_of(EVERYBODY[0]).mean() > mixed.prices_of(EVERYBODY[3]).mean()
