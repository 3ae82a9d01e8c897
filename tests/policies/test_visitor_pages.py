"""Pages for visitors at one moment: the average over prices of the policy's own pages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slotwise.policies import NO_SLOTS
from slotwise.policies.paced_kl_visitors import PacedKLVisitors
from slotwise.policies.visitor_pages import Open, pages_of, prices_ahead
from slotwise.problem import Problem
from slotwise.selection import dense_probabilities, draw_page
from tests.reference.visitor_effects import rate, upper_bounds
from tests.unnamed_features import features_of

SIZES = (2, 3)
PROBLEM = Problem(n_links=7, n_slots=2, click_floor=0.8, features=features_of(SIZES))


def played(n_rounds: int, state: Any = None, seed: int = 5, sale: float = 1.0) -> Any:
    """Let a policy serve visitors of whom the first kind clicks on other links than the second."""
    rng = np.random.default_rng(seed)
    click_rate = rng.uniform(0.1, 0.6, (2, 7))
    learns = PacedKLVisitors().start(PROBLEM) if state is None else state
    chooses: Any = PacedKLVisitors().start(PROBLEM)
    shown, chances, once = np.zeros(2, np.int64), np.zeros(2), np.ones(2)
    for _ in range(n_rounds):
        visitor = np.array([rng.integers(2), 2 + rng.integers(3)], np.int64)
        PacedKLVisitors.choose(chooses, visitor, rng)
        draw_page(chooses.mix, rng, shown, chances)
        clicked = (rng.random(2) < click_rate[visitor[0], shown]).astype(float)
        earned = sale * clicked * (rng.random(2) < 0.5)
        for level, outcomes in enumerate((clicked, earned)):
            for one in (learns, chooses):
                PacedKLVisitors.learn(one, visitor, level, shown, NO_SLOTS, chances, once, outcomes)
    return learns


def nothing_open() -> Open:
    return Open(np.zeros((2, 7)), np.zeros((2, sum(SIZES), 7), np.float32))


def every_visitor() -> np.ndarray[Any, Any]:
    return np.array([[a, 2 + b] for a in range(2) for b in range(3)], np.int64)


@pytest.mark.parametrize("links", [range(7), (0, 2, 3, 6)])
def test_a_page_is_the_average_of_the_best_pages_at_each_price(links: Any) -> None:
    state = played(300)
    prices = np.array([0.0, 0.3, 1.0, 4.0])
    pages = pages_of(state, nothing_open(), prices)
    arrays = {name: getattr(state.effects, name) for name in state.effects._fields}
    chosen = np.array(links, np.int64)
    for visitor in every_visitor():
        clicks, revenue = (
            np.array(upper_bounds(arrays, visitor.tolist(), level))[chosen] for level in (0, 1)
        )
        expected = np.zeros(len(chosen))
        for price in prices:
            best = np.argsort(-(revenue + price * clicks), kind="stable")[:2]
            expected[best] += 1 / len(prices)
        probabilities, expected_clicks = pages.page(visitor, chosen, 2)
        np.testing.assert_allclose(probabilities, expected, atol=1e-12)
        rates = [rate(arrays, visitor.tolist(), 0, link) for link in links]
        assert expected_clicks == pytest.approx(float(expected @ rates), rel=1e-5)


@pytest.mark.parametrize("sale", [0.1, 0.125])
def test_in_another_currency_pages_are_the_same_and_prices_in_it(sale: float) -> None:
    found = []
    for size in (1.0, sale):
        state, opened = played(300, sale=size), nothing_open()
        pages = pages_of(state, opened, np.zeros(1))
        rates = pages.effects.rate[0]
        prices = prices_ahead(state, pages, every_visitor(), opened, rates, 64)
        pages = pages.with_prices(prices)
        shown = [pages.page(visitor, pages.links, 2)[0] for visitor in every_visitor()]
        found.append((prices / size, shown, pages.scores(pages.links) / size))
    for in_first, in_other in zip(*found, strict=True):
        np.testing.assert_allclose(in_first, in_other, rtol=1e-9)
    assert found[0][0].max() > 0.01


def test_at_the_policys_own_price_it_is_the_policys_own_page() -> None:
    state, rng = played(300), np.random.default_rng(1)
    for visitor in every_visitor():
        PacedKLVisitors.choose(state, visitor, rng)
        pages = pages_of(state, nothing_open(), state.queues.worth[:1].copy())
        probabilities, _ = pages.page(visitor, pages.links, 2)
        np.testing.assert_allclose(probabilities, dense_probabilities(state.mix), atol=1e-9)


def test_a_state_that_only_learns_learns_the_same() -> None:
    lean = played(300, PacedKLVisitors().learning_only(PacedKLVisitors().start(PROBLEM)))
    assert lean.effects.value_bonus.size == 0
    policy, full = PacedKLVisitors(), played(300)
    for name, array in policy.knowledge(full).items():
        np.testing.assert_array_equal(policy.knowledge(lean)[name], array)
    visitor = every_visitor()[4]
    first, second = (pages_of(one, nothing_open(), np.ones(1)) for one in (lean, full))
    assert first.page(visitor, first.links, 2)[0].tolist() == (
        second.page(visitor, second.links, 2)[0].tolist()
    )


def test_prices_ahead_lead_to_a_mix_that_keeps_the_floor() -> None:
    state = played(4_000)
    pages = pages_of(state, nothing_open(), np.zeros(1))
    visitors = every_visitor()
    prices = prices_ahead(state, pages, visitors, nothing_open(), np.zeros(7), 256)
    assert 1 <= len(prices) <= 16
    assert (np.diff(prices) >= 0).all()
    before = state.queues.lengths.copy()
    mixed = pages.with_prices(prices)
    clicks = [mixed.page(visitor, mixed.links, 2)[1] for visitor in visitors]
    assert np.mean(clicks) >= 0.97 * PROBLEM.click_floor
    np.testing.assert_array_equal(state.queues.lengths, before)


def test_open_views_make_a_bonus_smaller_and_a_price_follow_what_they_bring() -> None:
    state = played(300)
    shown = nothing_open()
    shown.links[:] = 400.0
    shown.values[:] = 200.0
    few, many = (pages_of(state, one, np.zeros(1)).effects for one in (nothing_open(), shown))
    assert (many.value_bonus <= few.value_bonus).all()
    assert many.value_bonus.sum() < few.value_bonus.sum()
    assert many.link_bonus.sum() < few.link_bonus.sum()
    np.testing.assert_array_equal(many.effect, few.effect)
    pages = pages_of(state, shown, np.zeros(1))
    poor, rich = (
        prices_ahead(state, pages, every_visitor(), shown, np.full(7, brings), 64).mean()
        for brings in (0.0, 1.0)
    )
    assert poor > rich
