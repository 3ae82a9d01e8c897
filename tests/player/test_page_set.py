"""Pages of the next rounds: near the best mix, and the policy's own pages for every visitor."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from queue_ts import QueueTS

from slotwise.errors import InvalidInput
from slotwise.player.page_set import (
    N_PRICES,
    Chooser,
    PageSet,
    average_probabilities,
    grouped_rows,
    play_ahead,
    set_open_views,
)
from slotwise.player.player import LinkTotals, Player
from slotwise.policies import NO_SLOTS, NOBODY, LinkFeedback, PacedBayes, Policy
from slotwise.policies.policy import visitors_seen
from slotwise.problem import Problem
from slotwise.selection import dense_probabilities, solve
from tests.unnamed_features import features_of

PROBLEM = Problem(n_links=12, n_slots=3, click_floor=0.7, horizon=200_000)
RNG = np.random.default_rng(8)
CLICKS = RNG.uniform(0.05, 0.5, 12)
RATES = np.stack([CLICKS, CLICKS * RNG.beta(1, 2, 12) * np.exp(-3 * CLICKS)])
BEST = solve(RATES[1], RATES[0], 3, 0.7)
PACING = [PacedBayes(), QueueTS()]


def taught(policy: Policy) -> Player:
    """Return a player that knows all rates well and owes next to nothing."""
    player = Player.start(PROBLEM, policy, range(12))
    links, views = np.arange(12), np.full(12, 25_000.0)
    player.import_counts(
        LinkTotals(NOBODY, level, links, views, views * RATES[level]) for level in range(2)
    )
    return player


@pytest.mark.parametrize("policy", PACING, ids=lambda policy: policy.name)
def test_the_average_page_is_near_the_best_mix(policy: Policy) -> None:
    player, rng = taught(policy), np.random.default_rng(1)
    ahead = play_ahead(Chooser(policy, PROBLEM, player.state), RATES, rng, n_rounds=2_000)
    average = ahead.probabilities
    assert average.sum() == pytest.approx(3.0)
    assert BEST.status == "binding"
    assert average @ RATES[0] == pytest.approx(0.7, abs=0.02)
    assert average @ RATES[1] == pytest.approx(BEST.value, rel=0.05)


@pytest.mark.parametrize("policy", PACING, ids=lambda policy: policy.name)
def test_planning_leaves_the_state_and_its_open_views_alone(policy: Policy) -> None:
    player = taught(policy)
    player.note_open(NOBODY, 0, (1, 2, 3))
    before, views = policy.knowledge(player.state), player.open_views.views.copy()
    chooser = Chooser(policy, PROBLEM, player.state)
    play_ahead(chooser, RATES, np.random.default_rng(1), n_rounds=50)
    for name, array in policy.knowledge(player.state).items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)
    np.testing.assert_array_equal(player.open_views.views, views)


def test_a_plan_has_rounds() -> None:
    chooser = Chooser(PacedBayes(), PROBLEM, PacedBayes().start(PROBLEM))
    with pytest.raises(InvalidInput, match="`n_rounds` must be"):
        play_ahead(chooser, RATES, np.random.default_rng(1), n_rounds=0)


SIZES = (2, 3)
FOR_WHOM = Problem(n_links=6, n_slots=1, click_floor=0.2, features=features_of(SIZES))
LIKED = np.array([[0.6, 0.1, 0.1, 0.1, 0.1, 0.1], [0.1, 0.6, 0.1, 0.1, 0.1, 0.1]])
EVERYBODY = [np.array(one) for one in product(range(2), range(2, 5))]


@pytest.fixture(scope="module")
def taught_once() -> Player:
    return taught_for_whom()


@pytest.fixture
def knowing(taught_once: Player) -> Player:
    """Return a copy of the player that `taught_for_whom` returns."""
    return taught_once.copy()


def taught_for_whom(problem: Problem = FOR_WHOM, n_rounds: int = 400) -> Player:
    """Return a player that saw three visitors of the first kind for one of the second.

    The first kind likes link 0, the second link 1.
    """
    rng, player = np.random.default_rng(2), Player.start(problem, PacedBayes(), range(6))
    shown, certain = np.arange(6), np.ones(6)
    for k in range(n_rounds):
        kind = int(k % 4 == 3)
        visitor = np.array([kind, 2 + rng.integers(3)])
        clicks = (rng.random(6) < LIKED[kind]).astype(float)
        for level in range(2):
            outcomes = 0.5**level * clicks
            PacedBayes.learn(
                player.state,
                visitor,
                level,
                LinkFeedback(shown, NO_SLOTS, certain, certain, outcomes),
            )
    return player


def rates_of(player: Player) -> Any:
    evidence = player.state.evidence
    return evidence.sums / evidence.views


def test_visitors_seen_have_the_shares_in_which_they_came(knowing: Player) -> None:
    player, policy = knowing, PacedBayes()
    visitors = visitors_seen(policy, player.state)
    assert visitors.shape == (64, 2)
    shares = np.bincount(visitors.ravel(), minlength=5) / 64
    seen = player.state.visitors.seen
    np.testing.assert_allclose(shares, seen / seen[:2].sum(), atol=1 / 64)
    assert shares[:2].tolist() == [0.75, 0.25]
    assert visitors_seen(policy, policy.start(PROBLEM)).shape == (1, 0)
    nobody_yet = visitors_seen(policy, policy.start(FOR_WHOM))
    assert set(nobody_yet.ravel().tolist()) == {0, 1, 2, 3, 4}


def test_rounds_ahead_are_those_of_the_visitors_that_come(knowing: Player) -> None:
    """For a visitor of whom nothing is known link 0 would be on every page."""
    player, policy, rng = knowing, PacedBayes(), np.random.default_rng(1)
    state, rates = player.state, rates_of(player)
    chooser = Chooser(policy, FOR_WHOM, state)
    average = play_ahead(chooser, rates, rng, n_rounds=256).probabilities
    np.testing.assert_allclose(average, [0.75, 0.25, 0, 0, 0, 0], atol=0.05)
    same = average_probabilities(chooser, rng)
    np.testing.assert_allclose(same, [0.75, 0.25, 0, 0, 0, 0], atol=0.05)
    second = chooser._replace(visitors=np.array([[1, 2], [1, 3], [1, 4]]))
    ahead = play_ahead(second, rates, rng, n_rounds=99)
    assert ahead.probabilities[1] > 0.95
    assert average_probabilities(second, rng)[1] > 0.95


def test_at_the_policys_own_price_it_is_the_policys_own_page(knowing: Player) -> None:
    player = knowing
    for visitor in EVERYBODY:
        PacedBayes.choose(player.state, visitor, np.random.default_rng(1))
        own, means = dense_probabilities(player.state.mix), player.state.posterior.mean.copy()
        unit = player.state.pool.amounts[0]
        price = float(player.state.floors.prices[0] * unit)
        pages = PageSet(player.copy(), np.array([[price]]), rates_of(player))
        probabilities, clicks = pages.page(visitor, pages.links, 1)
        np.testing.assert_allclose(probabilities, own, atol=1e-9)
        assert clicks == pytest.approx(float(probabilities @ means[0]))
        np.testing.assert_allclose(pages.rate[0], means[0], rtol=1e-6)
        np.testing.assert_allclose(pages.rate[1], unit * means[0] * means[1], rtol=1e-6)


def test_a_page_is_the_average_over_the_prices_among_the_links_asked_for(
    knowing: Player,
) -> None:
    player, visitor = knowing, EVERYBODY[1]
    prices, links = np.array([[0.0], [0.3], [4.0]]), np.array([0, 2, 3, 5])
    rates = rates_of(player)
    expected = sum(
        PageSet(player.copy(), row[None], rates).page(visitor, links, 2)[0] / 3 for row in prices
    )
    pages = PageSet(player.copy(), prices, rates)
    probabilities, _ = pages.page(visitor, links, 2)
    np.testing.assert_allclose(probabilities, expected, atol=1e-12)
    assert probabilities.sum() == pytest.approx(2.0)
    worth = pages.rate[1, links] + prices.mean() * pages.rate[0, links]
    np.testing.assert_allclose(pages.scores(links), worth)


def test_prices_ahead_lead_to_a_mix_that_keeps_the_floor(knowing: Player) -> None:
    player, visitors = knowing, np.array(EVERYBODY)
    pages = PageSet.ahead(player.copy(), visitors, rates_of(player), 256)
    assert 1 <= len(pages.prices) <= N_PRICES
    assert (np.diff(pages.prices[:, 0]) >= 0).all()
    clicks = [pages.page(visitor, pages.links, 1)[1] for visitor in visitors]
    assert np.mean(clicks) >= 0.97 * FOR_WHOM.click_floor


def test_open_views_make_bounds_narrower_and_the_price_counts_what_they_owe(
    knowing: Player,
) -> None:
    player, visitor = knowing, EVERYBODY[0]
    few, many = player.copy(), player.copy()
    set_open_views(many, np.full((2, 6), 400.0))
    for one in (few, many):
        PacedBayes.choose(one.state, visitor, np.random.default_rng(1))
    assert (many.state.posterior.width <= few.state.posterior.width).all()
    assert (many.state.posterior.variance[0] < few.state.posterior.variance[0]).all()
    bad, good = np.zeros((2, 6)), np.zeros((2, 6))
    bad[:, 4], good[:, 0] = 5_000.0, 5_000.0  # a link that is hardly clicked, and a good one
    prices = []
    for views in (bad, good):
        one = player.copy()
        set_open_views(one, views)
        PacedBayes.choose(one.state, visitor, np.random.default_rng(1))
        prices.append(float(one.state.floors.prices[0]))
    assert prices[0] > prices[1]


def test_a_segment_with_a_floor_has_a_price_of_its_own() -> None:
    floors = {"f0": {"v0": 0.9}}
    problem = Problem(6, 1, click_floor=0.2, features=features_of(SIZES), segment_floors=floors)
    player = taught_for_whom(problem, n_rounds=200)
    pages = PageSet.ahead(player.copy(), np.array(EVERYBODY), rates_of(player), 64)
    assert pages.prices.shape == (64, 2)
    assert (pages.prices[:, 1] > 0.0).all()
    own, other = (pages._prices_of(EVERYBODY[k]).shape[0] for k in (0, 3))
    assert own <= N_PRICES
    assert other <= N_PRICES


def test_rows_are_grouped_by_their_order() -> None:
    rows = np.arange(64.0)[:, None]
    grouped = grouped_rows(rows, -rows[:, 0])
    assert grouped.shape == (N_PRICES, 1)
    assert grouped[0, 0] == pytest.approx(61.5)
    assert len(grouped_rows(np.ones((64, 2)), np.ones(64))) == 1
