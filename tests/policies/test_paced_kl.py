"""Paced KL against its formula, and what its queue promises."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from slotwise import BernoulliLinks, PacedKL, Problem, Selector, default_policy, simulate
from slotwise.errors import InvalidInput
from slotwise.selection import dense_probabilities, draw_page


def bound(total: float, n_views: float, width: float) -> float:
    """Solve n kl(total/n, q) = width by bisection."""
    mean = total / n_views

    def excess(rate: float) -> float:
        kl = mean * math.log(mean / rate) + (1 - mean) * math.log((1 - mean) / (1 - rate))
        return n_views * kl - width

    if width <= 0:
        return mean
    return float(brentq(excess, mean + 1e-15, 1 - 1e-12, xtol=1e-14))


def power_below(number: float, grid: float) -> float:
    """Find the largest power of `grid` up to a number, step by step."""
    power = 1.0
    while power > number * (1 + 1e-12):
        power /= grid
    while power * grid <= number * (1 + 1e-12):
        power *= grid
    return power


class Twin:
    """The displayed formula, link by link, with nothing kept between rounds but counts."""

    def __init__(self, problem: Problem, exploration: float, patience: float) -> None:
        self.problem, self.exploration, self.patience = problem, exploration, patience
        self.views = np.zeros((2, problem.n_links))
        self.sums = np.zeros((2, problem.n_links))
        self.queue = self.owed = 0.0
        self.n_rounds = 0

    def scores(self) -> np.ndarray:
        n_links, n_slots = self.problem.n_links, self.problem.n_slots
        share = power_below(self.n_rounds + 1, 1.02) * n_slots / n_links
        promised = self.problem.click_floor * (self.n_rounds + 1)
        price = self.queue / (self.patience * math.sqrt(promised))
        return np.array(
            [self.bound(1, i, share) + price * self.bound(0, i, share) for i in range(n_links)]
        )

    def bound(self, level: int, link: int, share: float) -> float:
        prior = (0.5, 0.25)[level]
        average = (self.sums[level].sum() + prior) / (self.views[level].sum() + 1)
        imagined = min(prior, power_below(4 * average, 1.25))
        n_shown, n_told = self.views[0, link] + 1, self.views[level, link] + 1
        width = self.exploration * max(0.0, math.log(share / n_shown)) * n_told / n_shown
        return bound(self.sums[level, link] + imagined, n_told, width)

    def learn_clicks(self, shown: np.ndarray, clicks: np.ndarray) -> None:
        self.views[0, shown] += 1
        self.sums[0, shown] += clicks
        missing = self.problem.click_floor - clicks.sum()
        self.n_rounds += 1
        self.owed += missing
        reserve = max(0.0, self.queue - max(0.0, self.owed))
        growth = min(0.5, 0.5 / self.n_rounds) * reserve
        self.queue = max(0.0, self.queue + missing + growth)

    def learn_revenue(self, shown: np.ndarray, revenue: np.ndarray) -> None:
        self.views[1, shown] += 1
        self.sums[1, shown] += revenue


@pytest.mark.parametrize("delay", [0, 40])
def test_equals_its_formula_round_by_round(delay: int) -> None:
    problem = Problem(n_links=23, n_slots=4, click_floor=1.3)
    rng = np.random.default_rng(5)
    click_rate, revenue_per_click = rng.beta(1, 2, 23), rng.beta(1, 2, 23)
    policy = PacedKL()
    state = policy.start(problem)
    twin = Twin(problem, policy.exploration, policy.patience)
    chances, ones = np.zeros(4), np.ones(4)
    untold: list[tuple[np.ndarray, np.ndarray]] = []
    for _ in range(500):
        PacedKL.choose(state, rng)
        probabilities = dense_probabilities(state.mix)
        scores = twin.scores()
        threshold = np.sort(scores)[-4]
        assert np.all(probabilities[scores > threshold + 1e-9] == 1.0)
        assert np.all(probabilities[scores < threshold - 1e-9] == 0.0)
        shown = np.zeros(4, np.int64)
        draw_page(state.mix, rng, shown, chances)
        clicks = (rng.random(4) < click_rate[shown]).astype(float)
        PacedKL.learn(state, 0, shown, chances, ones, clicks)
        twin.learn_clicks(shown, clicks)
        untold.append((shown, clicks * (rng.random(4) < revenue_per_click[shown])))
        if len(untold) > delay:
            told, revenue = untold.pop(0)
            PacedKL.learn(state, 1, told, chances, ones, revenue)
            twin.learn_revenue(told, revenue)
        assert state.queues.lengths[0] == pytest.approx(twin.queue, abs=1e-9)


def test_a_promise_of_no_click_has_no_price() -> None:
    state = PacedKL().start(Problem(n_links=9, n_slots=4, click_floor=0.0))
    PacedKL.choose(state, np.random.default_rng(1))
    assert state.queues.worth.tolist() == [0.0, 1.0]


@given(
    floor=st.floats(0.0, 3.9),
    pages=st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=60),
)
def test_the_shortfall_never_exceeds_the_queue(floor: float, pages: list[list[bool]]) -> None:
    state = PacedKL().start(Problem(n_links=9, n_slots=4, click_floor=floor))
    shown, ones = np.arange(4), np.ones(4)
    shortfall = 0.0
    for clicked in pages:
        PacedKL.learn(state, 0, shown, ones, ones, np.array(clicked, dtype=float))
        shortfall += floor - sum(clicked)
        if floor == 0.0:
            assert len(state.queues.lengths) == 0
            continue
        assert state.queues.owed[0] == pytest.approx(shortfall, abs=1e-9)
        assert max(0.0, shortfall) <= state.queues.lengths[0] + 1e-9


def test_keeps_the_floor_and_earns_more_than_the_paper() -> None:
    rng = np.random.default_rng(2)
    click_rate = 0.75 * rng.beta(1, 4, 60)
    links = BernoulliLinks(click_rate, rng.beta(1, 1.5, 60) * np.exp(-4 * click_rate))
    results = simulate(
        links, [PacedKL()], n_slots=6, click_floor=1.6, n_rounds=10_000, n_runs=4, seed=3
    )
    best = results.config["optimum"]["value"] * 10_000
    assert results.final("paced-kl", "shortfall").max() < 0.01 * 1.6 * 10_000
    assert results.final("paced-kl", "regret").mean() < 0.2 * best


def test_is_the_default_of_a_selector() -> None:
    assert default_policy() == PacedKL()
    assert Selector(links=["a", "b", "c"], n_slots=1, seed=1).policy == PacedKL()


@pytest.mark.parametrize("name", ["exploration", "patience"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_settings_must_be_positive(name: str, value: float) -> None:
    with pytest.raises(InvalidInput, match=f"`{name}` must be a positive number"):
        PacedKL(**{name: value})
