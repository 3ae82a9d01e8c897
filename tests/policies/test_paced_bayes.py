"""Paced Bayes against its formula, and what it promises: floors kept, in any currency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import betabinom

from benchmarks.leaderboard.cases import Effort
from benchmarks.leaderboard.suite import build_suite, fresh_suite
from slotwise import BernoulliLinks, PacedBayes, Problem, simulate
from slotwise.compile import switching
from slotwise.environments.datasets import ads_recipe
from slotwise.errors import InvalidInput
from slotwise.policies import LinkFeedback
from slotwise.policies.bound import score_boosted, score_links
from slotwise.policies.change_detection import LOG_FACTOR
from slotwise.policies.link_rates import UNIT, prior_mean, refit_pool
from slotwise.policies.policy import NO_SLOTS, NOBODY
from slotwise.selection import dense_probabilities, draw_page, solve
from slotwise.simulation import run_experiment
from slotwise.simulation.engine import TOTAL, play_run
from tests.reference.floor_price import PriceTwin
from tests.reference.pool_fit import SaleSizes, likeliest_mean, mean_of_links, trials_of

pytestmark = pytest.mark.compiled  # the forms of the code that a selector runs

CHOOSE: Any = switching(PacedBayes.choose)  # without chance: no generator, as in a selector
LEARN = switching(PacedBayes.learn)


class Twin:
    """The displayed formulas, link by link, for two levels."""

    def __init__(self, problem: Problem, exploration: float, patience: float) -> None:
        self.problem, self.exploration = problem, exploration
        self.views = np.zeros((2, problem.n_links))
        self.sums = np.zeros((2, problem.n_links))
        self.sales = np.zeros(problem.n_links)
        self.squares = np.zeros(problem.n_links)
        self.floor = PriceTwin(problem.click_floor, patience)
        self.rounds = [0, 0]
        self.clock, self.pool = [1.0, 1.0], [0.5, 0.5]
        self.amounts = SaleSizes()
        self.margin = self.price_of_margin = 1.0
        self.missing = 0.0
        self.n_changes = self.n_falls = 0
        self.factor, self.fall = 1.0, np.zeros(3)

    def trials(self, level: int, link: int) -> float:
        return trials_of(self.views, self.sums, level, link)

    def hits(self, level: int, link: int) -> float:
        return float(self.sums[0, link] if level == 0 else self.sales[link])

    def refit(self, level: int) -> None:
        """Refit before the page is counted, from the pages before."""
        if self.rounds[level] + 1 < 1.02 * self.clock[level]:
            return
        self.clock[level] = self.rounds[level] + 1
        if level == 0:
            self.pool[0] = mean_of_links(self.views[0], self.sums[0])
        self.pool[1] = likeliest_mean(self.views, self.sums, self.sales, self.pool[1])
        if level == 1:
            self.amounts = self.amounts.fitted(self.sales, self.sums[1], self.squares)
        self.floor.expected = self.expect_price()
        self.price_of_margin = self.price()
        worths = sorted(self.worth(link, self.price_of_margin)[0] for link in range(10))[::-1]
        n_slots = self.problem.n_slots
        if self.floor.expected == 20.0:
            self.margin = 1e9
            return
        self.margin = float(np.mean(worths[:n_slots]) - np.mean(worths[n_slots : 2 * n_slots]))

    def prior(self, level: int) -> float:
        return min(self.pool[level], 0.999)

    def posterior(self, level: int, link: int) -> tuple[float, float]:
        """Return mean and variance of one conditional rate, or of the revenue of a click."""
        prior = self.prior(level)
        strength = 1 / min(prior, 1 - prior)
        trials = self.trials(level, link)
        hits = min(self.hits(level, link), trials)
        all_trials = self.views[0, link] if level == 0 else self.sums[0, link]
        mean = (hits + strength * prior) / (trials + strength)
        variance = mean * (1 - mean) / (max(all_trials, trials) + strength + 1)
        if level == 0:
            return mean, variance
        size, doubt = self.amounts.of_link(hits, float(self.sums[1, link]))
        return mean * size, variance * (doubt + size**2) + mean**2 * doubt

    def price(self) -> float:
        return self.prior(1) * self.floor.price(self.amounts.between)

    def worth(self, link: int, price: float) -> tuple[float, float]:
        """Return mean and variance of what showing a link is worth."""
        (a, a_variance), (b, b_variance) = self.posterior(0, link), self.posterior(1, link)
        variance = a_variance * ((b + price) ** 2 + b_variance) + a**2 * b_variance
        return a * (b + price), variance

    def score(self, link: int) -> float:
        mean, variance = self.worth(link, self.price())
        share = self.clock[0] * self.problem.n_slots / self.problem.n_links
        deviation = math.sqrt(self.worth(link, self.price_of_margin)[1])
        gain = 7 * self.margin / (self.margin + 2 * deviation)
        width = self.exploration * math.log(1 + gain * share / (self.views[0, link] + 1))
        return mean + math.sqrt(2 * width * variance) + 2 / 3 * width * variance / mean

    def notice_change(self, shown: np.ndarray, clicks: np.ndarray) -> None:
        prior = self.prior(0)
        strength = 1 / min(prior, 1 - prior)
        expected = sum(self.hits(0, i) / (self.trials(0, i) + strength) for i in shown)
        before = expected / self.factor
        self.missing = max(0.0, self.missing + 0.75 * before - clicks.sum())
        if self.missing > 30 + 0.01 * self.rounds[0] * before:
            self.missing, self.clock[0] = 0.0, 0.0
            self.factor, self.fall = 1.0, np.zeros(3)
            for counts in (self.views, self.sums, self.sales, self.squares):
                counts *= 0.1
            self.n_changes += 1
            return
        self.fall += (0.9 * expected - clicks.sum(), expected, clicks.sum())
        if self.fall[0] > 100 + 0.01 * self.rounds[0] * expected:
            factor = (self.fall[2] + 10) / (self.fall[1] + 10)
            for counts in (self.sums, self.sales, self.squares):
                counts *= factor
            self.factor, self.clock[0] = self.factor * factor, 0.0
            self.n_falls += 1
        if self.fall[0] <= 0 or self.clock[0] == 0:
            self.fall = np.zeros(3)

    def learn_clicks(self, shown: np.ndarray, clicks: np.ndarray) -> None:
        self.refit(0)
        self.rounds[0] += 1
        self.floor.credit(float(clicks.sum()))
        self.notice_change(shown, clicks)
        self.views[0, shown] += 1
        self.sums[0, shown] += clicks

    def expect_price(self) -> float:
        """Solve the floor program on the posterior means; return its price, in mean revenue."""
        means = np.array(
            [[self.posterior(level, link)[0] for link in range(10)] for level in (0, 1)]
        )
        clicks, floor, scale = means[0], self.problem.click_floor, 1024.0  # values up to 1024
        solution = solve(means[0] * means[1] / scale, clicks, self.problem.n_slots, floor)
        if solution.status == "infeasible":
            return 20.0
        return min(scale * solution.shadow_price / self.prior(1), 20.0)

    def learn_revenue(self, shown: np.ndarray, revenue: np.ndarray) -> None:
        self.refit(1)
        self.rounds[1] += 1
        self.views[1, shown] += 1
        self.sums[1, shown] += revenue
        self.sales[shown] += revenue > 0
        self.squares[shown] += revenue**2
        self.amounts = self.amounts.with_first(revenue)


def play(state: object, n_rounds: int, scale: float = 1.0, delay: int = 0) -> list[list[int]]:
    """Play against ten links with revenue of two sizes; return the pages shown."""
    rng, visitors = np.random.default_rng(3), np.random.default_rng(4)
    rates = np.linspace(0.1, 0.6, 10)
    pages, waiting = [], []
    shown, probabilities, ones = np.zeros(3, np.int64), np.zeros(3), np.ones(3)
    for _ in range(n_rounds):
        CHOOSE(state, NOBODY, None)
        draw_page(state.mix, rng, shown, probabilities)  # type: ignore[attr-defined]
        pages.append(sorted(shown.tolist()))
        clicks = (visitors.random(3) < rates[shown]).astype(float)
        revenue = clicks * (visitors.random(3) < 0.3) * np.where(shown % 2, 1.0, 0.25) * scale
        LEARN(state, NOBODY, 0, LinkFeedback(shown, NO_SLOTS, probabilities, ones, clicks))
        waiting.append((shown.copy(), revenue))
        if len(waiting) > delay:
            links, amounts = waiting.pop(0)
            LEARN(state, NOBODY, 1, LinkFeedback(links, NO_SLOTS, probabilities, ones, amounts))
    return pages


@pytest.mark.parametrize("delay", [0, 40])
def test_scores_are_those_of_the_formula(delay: int) -> None:
    # no whole number of clicks pays this floor: else rounding would say whether some are owed
    problem = Problem(n_links=10, n_slots=3, click_floor=1.20813)
    policy = PacedBayes()
    state, twin = policy.start(problem), Twin(problem, policy.exploration, policy.patience)
    visitors, rng = np.random.default_rng(1), np.random.default_rng(2)
    shown, probabilities, ones = np.zeros(3, np.int64), np.zeros(3), np.ones(3)
    waiting: list[tuple[np.ndarray, np.ndarray]] = []
    for t in range(600):
        CHOOSE(state, NOBODY, None)
        expected = [twin.score(link) for link in range(10)]
        np.testing.assert_allclose(state.score, expected, rtol=1e-10)
        assert dense_probabilities(state.mix).sum() == pytest.approx(3)
        draw_page(state.mix, rng, shown, probabilities)
        place = shown if t < 300 else 9 - shown
        clicks = (visitors.random(3) < 0.08 * (1 + place)).astype(float)
        revenue = clicks * np.round(visitors.random(3), 1)
        LEARN(state, NOBODY, 0, LinkFeedback(shown, NO_SLOTS, probabilities, ones, clicks))
        twin.learn_clicks(shown, clicks)
        waiting.append((shown.copy(), revenue))
        if len(waiting) > delay:
            links, amounts = waiting.pop(0)
            LEARN(state, NOBODY, 1, LinkFeedback(links, NO_SLOTS, probabilities, ones, amounts))
            twin.learn_revenue(links, amounts)
    assert twin.n_changes == 1


@pytest.mark.parametrize("scale", [0.5, 0.125, 0.1])
def test_another_currency_gives_the_same_pages(scale: float) -> None:
    """Where every link has sold: before, the limit of revenue says what a sale may be."""
    problem = Problem(n_links=10, n_slots=3, click_floor=1.2)
    pages = []
    for unit in (1.0, scale):
        state, ones = PacedBayes().start(problem), np.ones(3)
        for k in range(30):
            links = (k + np.arange(3)) % 10
            for level, outcomes in enumerate((ones, 0.5 * unit * ones)):
                LEARN(state, NOBODY, level, LinkFeedback(links, NO_SLOTS, ones, ones, outcomes))
        pages.append(play(state, 500, unit))
    assert pages[0] == pages[1]


def likeliest_prior(n_clicks: np.ndarray, n_sales: np.ndarray) -> float:
    """Return the mean 1 / (1 + beta) of the Beta(1, beta) under which sales are likeliest.

    A tenth of a link whose rate p is known, with ln(1 - p) = -1, counts too.
    """

    def unlikely(log_beta: float) -> float:
        chances = betabinom(n_clicks.astype(int), 1.0, math.exp(log_beta))
        of_pseudo_link = log_beta - math.exp(log_beta)
        return -float(chances.logpmf(n_sales.astype(int)).sum()) - 0.1 * of_pseudo_link

    best = minimize_scalar(unlikely, bounds=(-2.0, 7.0), method="bounded")
    return 1.0 / (1.0 + math.exp(best.x))


@pytest.mark.parametrize("sold", [0.5, 0.1])
def test_links_that_never_sell_do_not_lower_what_others_are_expected_to_earn(sold: float) -> None:
    """A third of the links are clicked on often and never sell: the prior is by likelihood.

    Over all clicks the mean would be below a tenth of what the others earn. The policy takes few
    steps and an approximate digamma function: within 2 %.
    """
    state: Any = PacedBayes().start(Problem(n_links=12, n_slots=4, click_floor=1.0))
    links, views = np.arange(12), np.full(12, 1_000.0)
    clicks = np.where(links < 4, 500.0, 20.0)
    revenue = np.where(links < 4, 0.0, sold * 20.0)
    for _ in range(4):
        LEARN(state, NOBODY, 0, LinkFeedback(links, NO_SLOTS, np.ones(12), views, clicks))
        LEARN(state, NOBODY, 1, LinkFeedback(links, NO_SLOTS, np.ones(12), views, revenue))
    n_clicks, n_sales = state.evidence.sums
    expected = likeliest_prior(n_clicks, n_sales)
    assert expected > 3.0 * n_sales.sum() / n_clicks.sum()
    refit_pool(state.pool, state.evidence, 1)
    assert prior_mean(state.pool, 1) == pytest.approx(expected, rel=0.02)


def test_an_expensive_floor_is_kept() -> None:
    # Links that are clicked earn nothing: a click costs about half of what a page earns.
    clicks = np.concatenate([np.full(20, 0.05), np.full(20, 0.5)])
    revenue = np.concatenate([np.full(20, 0.9), np.full(20, 0.01)])
    links = BernoulliLinks(click_rate=clicks, revenue_per_click=revenue)
    results = simulate(links, [PacedBayes()], 4, click_floor=1.5, n_rounds=20_000, n_runs=8)
    # By chance alone a fixed mix that just keeps the floor falls short by 0.4 sqrt(h T) = 69.
    assert results.final("paced-bayes", "shortfall").mean() < 20


def test_the_one_link_that_keeps_the_floor_is_found_though_others_are_alike() -> None:
    # One slot, one link of 114 above the floor, and the next ten of nearly equal rates: 16 of
    # these 48 runs gave the link up for good while the lead of the best link bounded its trials.
    case = fresh_suite(2, 2027).cases[1]
    results = run_experiment(case.experiment({"p": PacedBayes()}, Effort(n_runs=48, seed=2027)))
    assert (results.final("p", "shortfall") > 300).sum() <= 5


def clicks_come(state: Any, per_page: float, n_pages: int) -> None:
    """Let two links of one page be clicked alike, `per_page` clicks a page."""
    links, ones = np.arange(2), np.ones(2)
    for _ in range(n_pages):
        LEARN(state, NOBODY, 0, LinkFeedback(links, NO_SLOTS, ones, ones, ones * per_page / 2))


def test_links_that_have_changed_are_learned_again() -> None:
    problem = Problem(n_links=4, n_slots=2, click_floor=0.5)
    state: Any = PacedBayes().start(problem)
    clicks_come(state, 1.0, 2_000)
    clicks_come(state, 0.2, 300)
    assert state.evidence.views[0, 0] < 0.1 * 2_000 + 300
    CHOOSE(state, NOBODY, None)
    assert state.posterior.mean[0, 0] < 0.2
    assert state.evidence.rounds[0] == 2_300


@pytest.mark.parametrize(("per_page", "n_pages"), [(0.0, 60), (0.8, 5_000), (0.95, 8_000)])
def test_short_outages_and_small_changes_forget_nothing(per_page: float, n_pages: int) -> None:
    state: Any = PacedBayes().start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    clicks_come(state, 1.0, 5_000)
    clicks_come(state, per_page, n_pages)
    assert state.evidence.views[0, 0] == 5_000 + n_pages


def test_a_common_fall_scales_what_was_counted_and_a_rise_undoes_it() -> None:
    policy, problem = PacedBayes(), Problem(n_links=4, n_slots=2, click_floor=0.5)
    state: Any = policy.start(problem)
    clicks_come(state, 1.0, 5_000)
    assert not state.change.drift[LOG_FACTOR]
    clicks_come(state, 0.8, 3_000)
    change = state.change
    assert math.exp(change.drift[LOG_FACTOR]) == pytest.approx(0.82, abs=0.04)
    assert state.evidence.views[0, :2].tolist() == [8_000.0] * 2  # no link lost its place
    CHOOSE(state, NOBODY, None)
    assert state.posterior.mean[0, 0] == pytest.approx(0.4, abs=0.03)
    restored: Any = policy.restore(problem, policy.knowledge(state))
    np.testing.assert_array_equal(restored.change.drift, change.drift)
    np.testing.assert_array_equal(restored.evidence.sums, state.evidence.sums)
    clicks_come(state, 1.0, 5_000)
    assert math.exp(change.drift[LOG_FACTOR]) > 0.9
    assert (state.evidence.sums <= state.evidence.views).all()


def shortfall_of_halves(
    links: Sequence[BernoulliLinks], problem: Problem, n_rounds: int, n_runs: int
) -> float:
    """Return the mean of what the floor lacks where links change half-way.

    They are not one environment that drifts, so that all tests here play one compiled loop.
    """
    missing = []
    for run in range(n_runs):
        state = PacedBayes().for_problem(problem).start(problem)
        clicks = 0.0
        for seed, half in enumerate(links, 1):
            rounds = np.array([n_rounds // 2])
            record = play_run(PacedBayes(), half, problem, rounds, seed, run, state)
            clicks += record[TOTAL, 0, 0]
        missing.append(max(0.0, problem.click_floor * n_rounds - clicks))
    return float(np.mean(missing))


def test_a_floor_is_kept_when_all_click_rates_fall_by_a_fifth() -> None:
    pool = ads_recipe(41)
    floor = 0.95 * 0.8 * pool.most_clicks
    links = [BernoulliLinks(part * pool.click_rate, pool.revenue_per_click) for part in (1.0, 0.8)]
    problem = Problem(pool.n_links, pool.n_slots, floor, horizon=50_000)
    # 1,324 clicks of the 600,000 promised were missing before drift was followed
    assert shortfall_of_halves(links, problem, 50_000, n_runs=2) < 0.001 * floor * 50_000


def test_counts_from_elsewhere_are_no_change() -> None:
    state: Any = PacedBayes().start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    for link, n_clicks in enumerate([30_000.0, 20_000.0, 1_000.0, 0.0]):
        one, views = np.array([link]), np.array([100_000.0])
        clicks = np.array([n_clicks])
        LEARN(state, NOBODY, 0, LinkFeedback(one, NO_SLOTS, np.ones(1), views, clicks))
    assert state.evidence.views[0].tolist() == [100_000.0] * 4


def test_floors_are_kept_although_links_swap() -> None:
    case = next(case for case in build_suite().cases if case.name == "swapped")
    rates = case.links.world(1).stations
    pool, n_rounds = case.dataset, case.n_rounds
    problem = Problem(pool.n_links, pool.n_slots, pool.click_floor, horizon=n_rounds)
    links = [BernoulliLinks(*rates[0]), BernoulliLinks(*rates[-1])]
    # About 500 are missing where nothing is forgotten, as in 8 runs of this seed.
    assert shortfall_of_halves(links, problem, n_rounds, n_runs=8) < 50


def test_a_surplus_is_spent_and_only_part_of_it_remembered() -> None:
    problem = Problem(n_links=4, n_slots=2, click_floor=0.5)
    state, links = PacedBayes().start(problem), np.arange(2)
    ones = np.ones(2)
    for _ in range(100):
        LEARN(state, NOBODY, 0, LinkFeedback(links, NO_SLOTS, ones, ones, ones))
    assert state.floors.owed[0] == pytest.approx(-4 * math.sqrt(0.5 * 100))
    CHOOSE(state, NOBODY, None)
    assert state.floors.worth[0] == 0.0  # clicks cost nothing while the surplus lasts


def test_a_batch_counts_as_many_sales_of_the_mean_size_as_make_its_total() -> None:
    problem = Problem(n_links=4, n_slots=2, click_floor=0.5)
    state, ones, links = PacedBayes().start(problem), np.ones(2), np.arange(4)
    for _ in range(100):
        for level, outcomes in enumerate((ones, 0.125 * ones)):
            LEARN(state, NOBODY, level, LinkFeedback(links[:2], NO_SLOTS, ones, ones, outcomes))
    assert state.pool.amounts[UNIT] == 0.125
    views = np.full(4, 1_000.0)
    LEARN(state, NOBODY, 0, LinkFeedback(links, NO_SLOTS, np.ones(4), views, views))
    LEARN(state, NOBODY, 1, LinkFeedback(links, NO_SLOTS, np.ones(4), views, np.full(4, 5.0)))
    assert state.evidence.sales.tolist() == [140.0, 140.0, 40.0, 40.0]


def test_the_debt_of_a_floor_out_of_reach_is_limited() -> None:
    state: Any = PacedBayes().start(Problem(n_links=4, n_slots=2, click_floor=1.5))
    clicks_come(state, 0.0, 3_000)
    assert state.floors.owed[0] == pytest.approx(16 * math.sqrt(1.5 * 13_000))


def test_levels_are_worth_what_they_were_after_restoring() -> None:
    problem, policy = Problem(n_links=10, n_slots=3, click_floor=1.4), PacedBayes()
    state = policy.start(problem)
    assert state.floors.prices[0] > 0.0  # priced before the first page
    play(state, 300)
    restored: Any = policy.restore(problem, policy.knowledge(state))
    np.testing.assert_array_equal(restored.floors.prices, state.floors.prices)
    np.testing.assert_array_equal(restored.floors.reward, state.floors.reward)


def test_a_floor_that_moves_is_priced_at_once() -> None:
    problem, policy = Problem(n_links=10, n_slots=3, click_floor=0.5), PacedBayes()
    state = policy.start(problem)
    play(state, 800)
    assert state.floors.expected[0] == 0.0
    higher = Problem(n_links=10, n_slots=3, click_floor=1.6)
    moved: Any = policy.move(state, higher, np.arange(10))
    assert moved.floors.expected[0] > 0.0


def test_several_floors_are_kept() -> None:
    problem = Problem(6, 2, levels=("click", "cart", "sale"), floors={"click": 0.5, "cart": 0.1})
    state = PacedBayes().start(problem)
    rng = np.random.default_rng(5)
    rates = np.array([[0.1, 0.2, 0.3, 0.4, 0.5, 0.2], [0.9, 0.2, 0.2, 0.1, 0.0, 0.9], [0.5] * 6])
    shown, probabilities, ones = np.zeros(2, np.int64), np.zeros(2), np.ones(2)
    brought = np.zeros(3)
    for _ in range(2_000):
        CHOOSE(state, NOBODY, None)
        draw_page(state.mix, rng, shown, probabilities)
        outcome = ones.copy()
        for level in range(3):
            outcome *= rng.random(2) < rates[level, shown]
            LEARN(state, NOBODY, level, LinkFeedback(shown, NO_SLOTS, probabilities, ones, outcome))
            brought[level] += outcome.sum()
    # Over 12 seeds the two are 4 above their floors with a deviation of 8, and 245 with 29.
    assert brought[0] >= 0.5 * 2_000 - 50
    assert brought[1] >= 0.1 * 2_000 - 25


def test_settings_are_positive() -> None:
    with pytest.raises(InvalidInput, match="`patience` must be a positive number, got 0"):
        PacedBayes(patience=0)
    with pytest.raises(InvalidInput, match="`exploration` must be a positive number, got -1"):
        PacedBayes(exploration=-1)


def widths_after(n_rounds: int, horizon: int | None) -> list[float]:
    """Return the widths of links after rounds in which links are clicked on in turn."""
    policy, problem = PacedBayes(horizon=horizon), Problem(n_links=6, n_slots=2, click_floor=0.3)
    state: Any = policy.start(problem)
    for k in range(n_rounds):
        shown = np.array([k % 6, (k + 1) % 6])
        clicks = np.array([float(k % 3 == 0), 0.0])
        for level, outcomes in enumerate((clicks, 0.5 * clicks)):
            LEARN(
                state,
                NOBODY,
                level,
                LinkFeedback(shown, NO_SLOTS, np.ones(2), np.ones(2), outcomes),
            )
    CHOOSE(state, NOBODY, None)
    widths: list[float] = state.posterior.width.tolist()
    return widths


def test_with_a_horizon_trials_are_worth_the_rounds_to_come() -> None:
    """It explores more early and less late; past the horizon it plays as without one."""
    for n_rounds, horizon, sign in ((30, 1_000, 1.0), (300, 320, -1.0)):
        with_end, without = widths_after(n_rounds, horizon), widths_after(n_rounds, None)
        assert all(sign * (one - other) > 0.0 for one, other in zip(with_end, without, strict=True))
    assert widths_after(60, 20) == widths_after(60, None)
    with pytest.raises(InvalidInput, match="`horizon` must be"):
        PacedBayes(horizon=0)


def test_planning_for_rounds_to_come_equals_a_horizon() -> None:
    problem = Problem(n_links=30, n_slots=4, click_floor=0.4)
    rates = np.random.default_rng(3).uniform(0.02, 0.2, 30)
    policy, rng = PacedBayes(), np.random.default_rng(4)
    state = policy.start(problem)
    for _ in range(300):
        links = rng.choice(30, 4, replace=False)
        clicks = (rng.random(4) < rates[links]).astype(float)
        for level, outcomes in enumerate((clicks, 0.5 * clicks)):
            empty = np.zeros(0, np.int64)
            ones = np.ones(4)
            policy.learn(
                state, NOBODY, level, LinkFeedback(links, empty, 0.1 * ones, ones, outcomes)
            )
    known = policy.knowledge(state)

    def scores(of: PacedBayes, n_rounds: float) -> list[float]:
        planning = of.plan_for(state, n_rounds) if n_rounds else of
        planned: Any = planning.restore(problem, known)
        of.choose(planned, NOBODY, rng)
        return list(planned.score)

    assert scores(PacedBayes(), 200.0) == scores(PacedBayes(horizon=500), 0.0)
    assert scores(PacedBayes(), 200.0) != scores(PacedBayes(), 0.0)


@pytest.mark.parametrize(
    ("worth", "factor"), [([0.0, 1.0], 3.0), ([0.4, 0.0], 1.0)], ids=["revenue", "price"]
)
def test_a_boost_multiplies_what_a_link_earns_alone(worth: list[float], factor: float) -> None:
    problem = Problem(n_links=4, n_slots=2, click_floor=0.5)
    state, rng = PacedBayes().start(problem), np.random.default_rng(4)
    for _ in range(40):
        PacedBayes.choose(state, NOBODY, rng)
        shown, drawn_with = np.array([0, 1]), np.ones(2)
        draw_page(state.mix, rng, shown, drawn_with)
        for level in range(2):
            came = 0.5**level * (rng.random(2) < 0.5).astype(np.float64)
            PacedBayes.learn(
                state, NOBODY, level, LinkFeedback(shown, NO_SLOTS, drawn_with, np.ones(2), came)
            )
    PacedBayes.choose(state, NOBODY, rng)
    posterior, plain, boost = state.posterior, np.zeros(4), np.array([1.0, 3.0, 1.0, 3.0])
    score_links(posterior, np.array(worth), plain, np.zeros(4))
    rewards = state.floors.reward if worth[1] else np.zeros(2)
    boosted = plain.copy()
    score_boosted(posterior, np.array(worth), rewards, boost, boosted)
    assert boosted == pytest.approx(np.where(boost > 1.0, factor, 1.0) * plain)
