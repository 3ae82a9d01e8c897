from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.leaderboard.drifting_segments import DriftingSegments
from slotwise.environments import (
    Environment,
    LateFeedback,
    LogisticLinks,
    SegmentLinks,
)
from slotwise.environments.visitor_shops import logistic_of, segments_of
from slotwise.errors import InvalidInput
from slotwise.problem import Problem
from slotwise.selection import solve, solve_kinds
from slotwise.simulation.optimum import find_optimum
from tests.environments.test_contract import QuickContract

CLICKS = [[0.4, 0.1, 0.2], [0.1, 0.3, 0.2], [0.2, 0.2, 0.1]]
REVENUE = [[0.5, 0.5, 0.1], [0.2, 1.0, 0.3], [0.1, 0.0, 0.9]]
SHARES = [0.5, 0.3, 0.2]


def segments(**options: object) -> SegmentLinks:
    return SegmentLinks(CLICKS, REVENUE, SHARES, **options)  # type: ignore[arg-type]


def logistic(n_features: int = 2) -> LogisticLinks:
    rng = np.random.default_rng(1)
    effects = rng.normal(0.0, 0.5, (2, n_features, 3, 4))
    shares = rng.dirichlet(np.ones(3), n_features)
    logits = rng.normal(-1.0, 0.5, (2, 4))
    return LogisticLinks(logits[0], list(effects[0]), logits[1], list(effects[1]), list(shares))


class TestSegments(QuickContract):
    def make_environment(self) -> Environment:
        return segments()


class TestDriftingSegments(QuickContract):
    def make_environment(self) -> Environment:
        later = SegmentLinks(CLICKS[::-1], REVENUE[::-1], SHARES)
        return DriftingSegments([segments(), later, segments()])


class TestNobodyIsKnown(QuickContract):
    def make_environment(self) -> Environment:
        return SegmentLinks(CLICKS[:1], REVENUE[:1], [1.0], visitors=[{}])


class TestSegmentsThatLookAlike(QuickContract):
    def make_environment(self) -> Environment:
        looks = [{"device": "phone", "new": True}, {"device": "phone", "new": True}]
        return segments(visitors=[*looks, {"device": "desktop", "new": True}])


class TestLogistic(QuickContract):
    def make_environment(self) -> Environment:
        return logistic()


class TestLateVisitors(QuickContract):
    def make_environment(self) -> Environment:
        return LateFeedback(segments(), click_delay=3, revenue_delay=9)


def test_kinds_with_the_same_features_are_one_visitor() -> None:
    looks = [{"device": "phone"}, {"device": "phone"}, {"device": "desktop"}]
    known = segments(visitors=looks).visitor_rates(1)
    np.testing.assert_allclose(known.shares, [0.8, 0.2])
    expected = (0.5 * np.array(CLICKS[0]) + 0.3 * np.array(CLICKS[1])) / 0.8
    np.testing.assert_allclose(known.rates[0, 0], expected)


def test_slots_weigh_clicks_and_not_revenue_given_a_click() -> None:
    """By Hoeffding's inequality, fails by accident with probability below 1e-7."""
    links = SegmentLinks([[0.2, 0.2]], [[0.5, 0.5]], [1.0], slot_weights=[3.0, 1.0])
    assert links.slot_weights == (1.5, 0.5)
    rng, world, n_rounds = np.random.default_rng(2), links.world(1), 5_000
    visitor, total = np.zeros(2, np.int64), np.zeros((2, 2))
    outcomes = np.zeros((2, 2))
    for k in range(n_rounds):
        links.serving(world, k, visitor, np.array([0, 1]), rng, outcomes)
        total += outcomes
    allowed = math.sqrt(math.log(8 / 1e-7) / (2 * n_rounds))
    expected = np.array([[0.3, 0.1], [0.15, 0.05]])
    assert np.abs(total / n_rounds - expected).max() <= allowed


def test_many_features_are_sampled_for_the_best_mix() -> None:
    known = logistic(n_features=9).visitor_rates(1)
    assert known.rates.shape == (4096, 2, 4)
    assert known.places[:, 8].min() >= 24
    again = logistic(n_features=9).visitor_rates(1)
    assert np.array_equal(known.places, again.places)


def test_regret_is_against_the_best_mix_that_knows_the_visitors() -> None:
    links = segments()
    best = find_optimum(links, Problem(3, 1, click_floor=0.22), 1)
    rates = links.visitor_rates(1).rates
    floors = [(np.ones(len(SHARES), bool), 0.22)]
    knowing = solve_kinds(rates[:, 1], rates[:, 0], SHARES, [1.0], floors)
    blind = solve(links.rates(1)[1], links.rates(1)[0], 1, 0.22)
    assert best.value == pytest.approx(knowing.value)
    assert best.value_without_visitors == pytest.approx(blind.value)
    assert best.value > (best.value_without_visitors or 0.0)
    assert best.plain()["value_without_visitors"] == best.value_without_visitors
    assert np.array_equal(best.probabilities, blind.probabilities)


def test_order_is_worth_what_the_best_slots_add() -> None:
    links = SegmentLinks([[0.4, 0.2]], [[0.5, 0.5]], [1.0], slot_weights=[1.5, 0.5])
    best = find_optimum(links, Problem(2, 2), 1)
    assert best.value == pytest.approx(1.5 * 0.2 + 0.5 * 0.1)
    assert best.value_without_order == pytest.approx(0.3)
    assert best.clicks == pytest.approx(0.7)
    # a floor that only the right order keeps
    assert find_optimum(links, Problem(2, 2, click_floor=0.65), 1).status == "slack"
    with pytest.raises(InvalidInput, match=r"^`n_slots` must be as many as `slot_weights` \(2\)"):
        find_optimum(links, Problem(2, 1), 1)


def test_the_best_order_under_a_floor_is_found_by_listing_all_pages() -> None:
    """One kind, three links in two slots: every page listed, and every mix of two of them."""
    value, clicks = np.array([[0.3, 0.2, 0.05]]), np.array([[0.3, 0.4, 0.5]])
    links = SegmentLinks(clicks, value / clicks, [1.0], slot_weights=[1.4, 0.6])
    pages = [(i, j) for i in range(3) for j in range(3) if i != j]
    brings = [
        (1.4 * value[0, i] + 0.6 * value[0, j], 1.4 * clicks[0, i] + 0.6 * clicks[0, j])
        for i, j in pages
    ]
    for floor in np.linspace(0.5, 0.93, 12):
        most = max((v for v, c in brings if c >= floor), default=-1.0)
        for v_few, c_few in brings:
            for v_many, c_many in brings:
                if c_few < floor <= c_many:
                    part = (floor - c_few) / (c_many - c_few)
                    most = max(most, part * v_many + (1 - part) * v_few)
        best = find_optimum(links, Problem(3, 2, click_floor=floor), 1)
        assert best.value == pytest.approx(most)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SegmentLinks([0.1], [0.1], [1.0]), "`revenue_per_click` must be a row"),
        (lambda: segments(visitors=[{"a": 1}]), "`visitors` must be a mapping of features"),
        (lambda: segments(visitors=[{"a": 1}, {"b": 1}, {"a": 2}]), "`visitors` must be the same"),
        (lambda: segments(slot_weights=[1.0, -1.0]), "`slot_weights` must be positive finite"),
        (
            lambda: segments(slot_weights=[30.0, 1.0, 1.0]),
            "`click_rate` must be so low that no slot",
        ),
        (lambda: LogisticLinks([0.0], [[[0.0]]], [0.0], [], [[1.0]]), "`revenue_effects` must be"),
        (
            lambda: LogisticLinks([0.0], [[[0.0]]], [0.0], [[[0.0]]], [[0.9]]),
            "`value_shares` must be numbers that sum to 1",
        ),
    ],
)
def test_bad_input_is_named(make: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{message}"):
        make()  # type: ignore[operator]


def test_stations_must_have_the_same_visitors() -> None:
    with pytest.raises(InvalidInput, match="`stations` must be at least two, got 1"):
        DriftingSegments([segments()])
    other = SegmentLinks(CLICKS, REVENUE, [0.2, 0.3, 0.5])
    with pytest.raises(
        InvalidInput, match="`stations` must be of the same kinds, shares and slots"
    ):
        DriftingSegments([segments(), other])
    fewer = SegmentLinks([row[:2] for row in CLICKS], [row[:2] for row in REVENUE], SHARES)
    with pytest.raises(InvalidInput, match="`stations` must be of one number of links, got 2"):
        DriftingSegments([segments(), fewer])


def test_without_a_spread_visitors_are_those_of_the_links() -> None:
    rates = np.array([0.1, 0.4, 0.0]), np.array([0.5, 1.0, 0.3])
    for links in (
        segments_of(rates, [0.5, 0.5], spread=0.0, seed=1),
        logistic_of(rates, [2, 3], effect=0.0, seed=1),
    ):
        known = links.visitor_rates(1)
        for kind in known.rates:
            np.testing.assert_allclose(kind[0], rates[0], atol=2e-6)
            np.testing.assert_allclose(kind[1], rates[0] * rates[1], atol=2e-6)
    with pytest.raises(InvalidInput, match="`spread` must be a finite number"):
        segments_of(rates, [1.0], spread=-1.0, seed=1)
