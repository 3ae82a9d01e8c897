"""Open views: feedback on its way steers exploration and price, and leaves nothing behind."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from queue_ts import QueueTS

from slotwise.compile import switching
from slotwise.environments import BernoulliLinks, LateFeedback, SegmentLinks
from slotwise.policies import NOBODY, ConUCB, LinkFeedback, PacedBayes, Policy
from slotwise.policies.link_rates import prior_mean, spread_of_sales
from slotwise.policies.open_views import count_open, merge_values, new_open_views, set_pages
from slotwise.policies.policy import NO_SLOTS, ignore_open
from slotwise.problem import Problem
from slotwise.simulation.engine import play_run

RNG_SEED = 5


def taught(n_links: int, floor: float = 0.3) -> tuple[PacedBayes, Problem]:
    problem = Problem(n_links, 3, click_floor=floor)
    return PacedBayes(), problem


def play(policy: PacedBayes, problem: Problem, n_rounds: int) -> Any:
    """Return a state that has learned from random pages."""
    rng = np.random.default_rng(RNG_SEED)
    state: Any = policy.start(problem)
    ones = np.ones(problem.n_slots)
    for _ in range(n_rounds):
        links = rng.choice(problem.n_links, problem.n_slots, replace=False)
        rates = 0.02 + 0.5 * links / problem.n_links
        clicks = (rng.random(problem.n_slots) < rates).astype(float)
        for level, outcomes in enumerate((clicks, 0.3 * clicks)):
            switching(PacedBayes.learn)(
                state, NOBODY, level, LinkFeedback(links, NO_SLOTS, ones, ones, outcomes)
            )
    return state


def scores(policy: PacedBayes, problem: Problem, state: Any) -> list[float]:
    switching(PacedBayes.choose)(state, NOBODY, np.random.default_rng(1))
    worth = np.zeros(problem.n_links)
    PacedBayes.rank(state, np.arange(problem.n_links), worth)
    return worth.tolist()


@pytest.mark.parametrize("n_links", [12, 700])
def test_pages_that_settle_leave_nothing_open(n_links: int) -> None:
    policy, problem = taught(n_links)
    state = play(policy, problem, 90)
    before = scores(policy, problem, state)
    shown = np.array([0, 3, 7])
    for level in (0, 1):
        PacedBayes.note_open(state, NOBODY, level, shown, 5.0)
    during = scores(policy, problem, state)
    for level in (1, 0):
        PacedBayes.note_open(state, NOBODY, level, shown, -5.0)
    assert during != before
    assert scores(policy, problem, state) == before


def test_a_link_with_open_views_is_explored_less_and_worth_the_same() -> None:
    policy, problem = taught(12, floor=0.0)
    state = play(policy, problem, 80)
    before, mean = scores(policy, problem, state), state.posterior.mean.copy()
    PacedBayes.note_open(state, NOBODY, 0, np.array([4]), 50.0)
    after = scores(policy, problem, state)
    assert after[4] < before[4]
    assert [after[k] for k in range(12) if k != 4] == [before[k] for k in range(12) if k != 4]
    assert state.posterior.mean.tolist() == mean.tolist()


def test_the_debt_of_open_pages_is_that_of_their_expected_outcomes() -> None:
    """The price is that of a page which owes as much and has no open page."""
    policy, problem = taught(12)
    state = play(policy, problem, 80)
    state.floors.owed[0] = 5.0
    scores(policy, problem, state)
    mean = state.posterior.mean[0].copy()
    for shown in ([0, 1, 2], [0, 5, 6], [0, 1, 9]):
        PacedBayes.note_open(state, NOBODY, 0, np.array(shown), 1.0)
    scores(policy, problem, state)
    debt = 3 * 0.3 - (3 * mean[0] + 2 * mean[1] + mean[[2, 5, 6, 9]].sum())
    floors = state.floors
    correction = (5.0 + debt + floors.reserve[0]) / (policy.patience * math.sqrt(0.3 * 81))
    expected = floors.expected[0]
    steepness = max(1.0, math.sqrt(expected)) * spread_of_sales(state.pool)
    price = max(0.0, expected + steepness * correction)
    assert floors.prices[0] == pytest.approx(prior_mean(state.pool, 1) * price, rel=1e-12)
    assert floors.prices[0] > 0.0


def test_clicks_on_their_way_do_not_raise_the_price() -> None:
    """Many open pages of good links owe less than nothing, those of bad links owe clicks."""
    policy, problem = taught(12, floor=0.9)
    state = play(policy, problem, 80)
    scores(policy, problem, state)
    by_clicks = np.argsort(state.posterior.mean[0])

    def price_with(shown: list[int]) -> float:
        PacedBayes.note_open(state, NOBODY, 0, np.array(shown), 40.0)
        scores(policy, problem, state)
        price = float(state.floors.worth[0])
        PacedBayes.note_open(state, NOBODY, 0, np.array(shown), -40.0)
        return price

    assert price_with(by_clicks[-3:].tolist()) < price_with(by_clicks[:3].tolist())


FOR_PHONES = Problem(
    6,
    2,
    click_floor=0.6,
    features={"device": ("phone", "desktop")},
    segment_floors={"device": {"phone": 0.6}},
)
PHONE, DESKTOP = np.array([1]), np.array([2])


def for_phones() -> Any:
    """Return a state that has learned that only phones click, on links alike."""
    state: Any = PacedBayes().start(FOR_PHONES)
    links, ones = np.arange(6), np.full(6, 200.0)
    for visitor, rate in ((PHONE, 0.6), (DESKTOP, 0.1)):
        for level, outcomes in enumerate((200.0 * rate, 100.0 * rate)):
            feedback = LinkFeedback(links, NO_SLOTS, ones, ones, np.full(6, outcomes))
            switching(PacedBayes.learn)(state, visitor, level, feedback)
    switching(PacedBayes.choose)(state, PHONE, np.random.default_rng(1))
    return state


def issue(state: Any, visitor: Any, page: Any, n_views: float) -> None:
    """Issue views before the next page is chosen."""
    PacedBayes.note_open(state, visitor, 0, page, n_views)
    switching(PacedBayes.choose)(state, visitor, np.random.default_rng(1))


def test_open_views_bring_what_their_visitors_are_expected_to_do() -> None:
    state, page, rates = for_phones(), np.array([0, 1]), []
    for visitor in (PHONE, DESKTOP):
        switching(PacedBayes.choose)(state, visitor, np.random.default_rng(1))
        rates.append(state.posterior.mean[0, 0])
    brought = state.visitors.open_rate
    issue(state, PHONE, page, 30.0)
    assert brought[:, :2] == pytest.approx(rates[0])
    assert rates[0] > 0.5
    issue(state, DESKTOP, page, 10.0)
    assert brought[1, :2] == pytest.approx(rates[0])  # the floor of phones
    assert rates[1] < 0.25 * rates[0] + 0.75 * rates[1] < brought[0, 0] < rates[0]
    issue(state, PHONE, page, -30.0)
    assert brought[0, :2] == pytest.approx(rates[1])


def test_open_views_of_unknown_visitors_bring_what_all_views_have_brought() -> None:
    state, page = for_phones(), np.array([0, 1])
    state.open.views[0, page] = 40.0
    set_pages(state.open)
    switching(PacedBayes.choose)(state, DESKTOP, np.random.default_rng(1))
    assert state.visitors.open_rate[0, :2] == pytest.approx(140.0 / 400.0, rel=0.01)


def test_open_views_bring_what_is_expected_when_the_next_page_is_chosen() -> None:
    state, page, ones = for_phones(), np.array([0, 1]), np.ones(2)
    issue(state, PHONE, page, 30.0)
    before = state.visitors.open_rate[:, :2].copy()
    missed = LinkFeedback(page, NO_SLOTS, ones, 20.0 * ones, 0.0 * ones)
    switching(PacedBayes.learn)(state, PHONE, 0, missed)
    switching(PacedBayes.choose)(state, PHONE, np.random.default_rng(1))
    assert state.visitors.open_rate[:, :2] == pytest.approx(state.posterior.mean[0, 0])
    assert (state.visitors.open_rate[:, :2] < before).all()


def test_open_views_of_a_merged_value_settle_as_those_of_the_other() -> None:
    ledger, page = new_open_views(FOR_PHONES), np.array([0, 1])
    count_open(ledger, PHONE, 0, page, 3.0)
    count_open(ledger, DESKTOP, 0, page, 2.0)
    merge_values(ledger, int(PHONE[0]), int(DESKTOP[0]))
    assert ledger.of_values[:, :2].tolist() == [[0.0, 0.0], [0.0, 0.0], [5.0, 5.0]]
    count_open(ledger, DESKTOP, 0, page, -5.0)
    assert not ledger.of_values.any()
    assert not ledger.views.any()


def test_no_delay_is_no_open_page() -> None:
    links = BernoulliLinks(np.linspace(0.05, 0.4, 40), np.linspace(0.9, 0.1, 40))
    problem = Problem(40, 4, click_floor=0.8)
    at = np.array([100, 300])
    now = play_run(PacedBayes(), links, problem, at, 3, 0)
    assert np.array_equal(now, play_run(PacedBayes(), LateFeedback(links, 0, 0), problem, at, 3, 0))


SLOTS = (1.5, 1.0, 0.5)
SEGMENTS = [{"device": "phone"}, {"device": "desktop"}]


@pytest.mark.parametrize("policy", [PacedBayes(), QueueTS()])
@pytest.mark.parametrize("visitors", [False, True], ids=["alike", "differ"])
@pytest.mark.parametrize("weights", [(), "learn"], ids=["slots alike", "slots learned"])
@pytest.mark.parametrize("spread", [0.0, 1.0], ids=["fixed", "random"])
def test_every_page_of_a_run_is_open_or_settled(
    policy: Policy, visitors: bool, weights: Any, spread: float
) -> None:
    rates = 0.05 + 0.3 * np.random.default_rng(7).random((2, 8))
    kinds = SEGMENTS if visitors else [{}]
    rows = slice(len(kinds))
    shares = np.full(len(kinds), 1.0 / len(kinds))
    shop = SegmentLinks(
        rates[rows], rates[rows], shares, kinds, slot_weights=SLOTS if weights else None
    )
    late = LateFeedback(shop, 20, 60, spread)
    problem = Problem(8, 3, 0.4, features=shop.features, slot_weights=weights)
    form: Any = policy.for_problem(problem)
    state = form.start(problem)
    play_run(policy, late, problem, np.array([200]), 2, 0, state)
    opened = state.open
    assert state.evidence.rounds + opened.pages == pytest.approx([200, 200])
    assert opened.views.min() >= 0.0
    assert opened.views.sum(axis=1) == pytest.approx(3 * opened.pages)
    assert opened.of_values.sum(axis=0) == pytest.approx(opened.views[0] * visitors)
    if spread == 0.0:
        assert opened.pages.tolist() == [20.0, 60.0]
    else:
        assert 0.0 < opened.pages[0] < 40.0
        assert 0.0 < opened.pages[1] < 120.0


@pytest.mark.slow
@pytest.mark.compiled
def test_late_feedback_costs_little() -> None:
    """Without open views this pool loses three times as much, which 8 runs tell by far.

    `test_pages_of_late_feedback_lose_less_with_open_views` is shorter.
    """
    rng = np.random.default_rng(4)
    clicks = 0.75 * rng.beta(1.0, 4.0, 200)
    links = BernoulliLinks(clicks, rng.beta(1.0, 1.5, 200) * np.exp(-4.0 * clicks))
    problem = Problem(200, 12, click_floor=3.0)
    at = np.array([20_000])

    def earned(delay: int) -> float:
        late = LateFeedback(links, delay, delay)
        return float(
            np.mean(
                [play_run(PacedBayes(), late, problem, at, 9, run)[0, 1, 0] for run in range(8)]
            )
        )

    assert earned(500) > 0.95 * earned(0)


def learned(policy: Policy, problem: Problem) -> Any:
    """Return a state of another policy that has seen a few pages of every link."""
    state: Any = policy.start(problem)
    ones = np.ones(problem.n_links)
    for level in range(problem.n_levels):
        outcomes = 20.0 * np.linspace(0.1, 0.6, problem.n_links) * 0.5**level
        links = np.arange(problem.n_links)
        type(policy).learn(
            state, NOBODY, level, LinkFeedback(links, NO_SLOTS, ones, 20.0 * ones, outcomes)
        )
    return state


TWO_FLOORS = Problem(6, 2, click_floor=0.5, floors={"revenue": 0.1}, horizon=1000)


@pytest.mark.parametrize("problem", [Problem(6, 2, click_floor=0.5, horizon=1000), TWO_FLOORS])
def test_open_views_narrow_the_bounds_of_con_ucb_until_they_settle(problem: Problem) -> None:
    policy: Any = ConUCB(gamma_scale=1e-3).for_problem(problem)
    state = learned(policy, problem)
    before = policy.estimates(state)
    clicks, value = before.clicks.tolist(), before.value.tolist()
    for level in (0, 1):
        type(policy).note_open(state, NOBODY, level, np.array([4, 1]), 30.0)
    during = policy.estimates(state)
    for link in range(6):
        assert (during.clicks[link] < clicks[link]) == (link in (1, 4))
        assert (during.value[link] < value[link]) == (link in (1, 4))
    means = state.counts.sums / (state.counts.views + 1.0)
    assert (during.clicks > means[0]).all()
    for level in (1, 0):
        type(policy).note_open(state, NOBODY, level, np.array([4, 1]), -30.0)
    assert policy.estimates(state).clicks.tolist() == clicks
    assert policy.estimates(state).value.tolist() == value


def test_open_pages_lengthen_the_queue_of_queue_ts_by_what_they_are_expected_to_owe() -> None:
    problem = Problem(6, 2, click_floor=0.5, rate_floors={"revenue": 0.4})
    policy, rng = QueueTS(), np.random.default_rng(1)
    state = learned(policy, problem)
    QueueTS.choose(state, NOBODY, rng)
    assert state.coming.tolist() == [0.0, 0.0]
    before = state.queues.worth.tolist()
    QueueTS.note_open(state, NOBODY, 0, np.array([0, 3]), 7.0)
    QueueTS.note_open(state, NOBODY, 1, np.array([0, 3]), 9.0)
    QueueTS.choose(state, NOBODY, rng)
    posterior = state.posterior
    mean = posterior.hits / (posterior.hits + posterior.misses)
    clicks = mean[0, [0, 3]].sum()
    sales = (mean[0] * mean[1])[[0, 3]].sum()
    assert state.coming == pytest.approx([7 * (0.5 - clicks), 7 * 0.4 * clicks - 9 * sales])
    for level, n_views in ((0, -7.0), (1, -9.0)):
        QueueTS.note_open(state, NOBODY, level, np.array([0, 3]), n_views)
    QueueTS.choose(state, NOBODY, rng)
    assert state.queues.worth.tolist() == before


@pytest.mark.parametrize("policy", [QueueTS(), ConUCB(horizon=1_500, gamma_scale=1e-3)])
def test_late_feedback_steers_other_policies_too(policy: Policy) -> None:
    """Pages differ from those of a policy that is blind to open views, and only if some are."""
    blind = type("Blind", (type(policy),), {"note_open": staticmethod(ignore_open)})
    links = BernoulliLinks(np.linspace(0.05, 0.4, 20), np.linspace(0.9, 0.1, 20))
    problem, at = Problem(20, 3, click_floor=0.7), np.array([200, 400])
    for delay in (0, 50):
        late = LateFeedback(links, delay, delay)
        own, other = (
            play_run(one, late, problem, at, 3, 0) for one in (policy, blind(**vars(policy)))
        )
        assert np.array_equal(own, other) == (delay == 0)
