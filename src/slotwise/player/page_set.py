"""The pages of a player's next rounds, from which many page views are drawn.

A service draws thousands of pages from one version before it learns again. The price of a floor
moves with every page, so a single page is one step around the best mix. These pages are played
ahead instead: each is chosen by the policy itself and then counted as open, as a page is whose
feedback has yet to come, so that exploration and prices move on as they would.

Without features of visitors, the version has the average page of these rounds. With features, it
has the prices of the rounds, and the page of visitor x is

    probability of link i for visitor x = mean over prices of [i among the L largest scores]

One dependent rounding of these probabilities draws a page, so they are exact given the visitor. A
policy that has no prices chooses for every visitor. Used by `service`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.arrays import Floats, Links
from slotwise.compile import code_for, switching
from slotwise.player.player import Player
from slotwise.policies import NO_SLOTS, LinkFeedback, Policy
from slotwise.policies.link_rates import mean_sale
from slotwise.policies.open_views import EVERYBODY, copied_counts, set_pages
from slotwise.policies.policy import (
    Visitor,
    check_page,
    ignore_open,
    is_own,
    rng_of_choice,
    visitors_seen,
)
from slotwise.policies.rest_of_page import fill_slots
from slotwise.policies.within_rules import choosing_within
from slotwise.problem import Problem, whole_number
from slotwise.selection.mix import dense_probabilities
from slotwise.selection.page_rules import PageRules
from slotwise.selection.rounding import draw_by_groups, draw_page
from slotwise.selection.solve import solve
from slotwise.selection.uniforms import chance_of

N_PRICES = 16
"""Number of prices of a visitor's page: each is the mean of a part of the rounds ahead."""

MAX_CACHED_PRICES = 256
"""Number of sets of segments whose prices are cached."""

CHOICES = 64
"""Pages averaged for a visitor of a policy without prices."""


class RoundsAhead(NamedTuple):
    """The average page of some rounds, and the prices of the floors in each of them."""

    probabilities: Floats
    prices: Floats


class Chooser(NamedTuple):
    """A policy and its state, and whose pages it chooses within which rules.

    `visitors` has a row each: by default they are like those the state has seen.
    """

    policy: Policy
    problem: Problem
    state: Any
    visitors: NDArray[np.int64] | None = None
    rules: PageRules | None = None

    @property
    def who(self) -> NDArray[np.int64]:
        """The visitors, a row each."""
        if self.visitors is None:
            return np.ascontiguousarray(visitors_seen(self.policy, self.state))
        return np.ascontiguousarray(self.visitors)


def average_probabilities(
    chooser: Chooser, rng: np.random.Generator, n_draws: int = 1_000
) -> Floats:
    """Return the average page over `n_draws` choices of the policy for each of its visitors.

    With rules each choice is a page within them, and so is the average. The pages of policies of
    other packages are checked.

    A sampling policy's page is deterministic given its sample, so its own probabilities are 1 for
    every link shown. Where propensities are logged, publish this average and round it: then the
    logged probability of a link is exactly the one it was shown with. One choice is enough for a
    policy that does not sample.

    >>> from slotwise.policies import Uniform
    >>> from slotwise.problem import Problem
    >>> problem = Problem(n_links=4, n_slots=2)
    >>> chooser = Chooser(Uniform(), problem, Uniform().start(problem))
    >>> average = average_probabilities(chooser, np.random.default_rng(1))
    >>> average.round(1).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    policy, problem, state, _, rules = chooser
    n_draws = whole_number("n_draws", n_draws, at_least=1) if policy.samples else 1
    who = chooser.who
    different, counts = np.unique(who, axis=0, return_counts=True)
    total = np.zeros(len(state.mix.sure))
    choose, chosen_by = switching(type(policy).choose), rng_of_choice(policy, rng)
    within = switching(choosing_within(type(policy)))
    is_foreign = not is_own(policy.choose)
    for visitor, share in zip(different, counts / len(who), strict=True):
        for _ in range(n_draws):
            if rules is None:
                choose(state, visitor, chosen_by)
                if is_foreign:
                    check_page(policy, state.mix, problem.n_slots)
                total += share * dense_probabilities(state.mix)
            else:
                within(state, visitor, chosen_by, rules)
                total += share * rules.probabilities
    return (total / n_draws).clip(0.0, 1.0)


def play_ahead(
    chooser: Chooser, rates: Floats, rng: np.random.Generator, n_rounds: int = 128
) -> RoundsAhead:
    """Return the next rounds of the policy as if no feedback came before they are over.

    The rounds are those of the visitors in turn. Within rules the average is that of the
    probabilities, so that the rules hold for it.
    The state is not changed. A policy without a ledger of open views learns that each page brings
    the outcomes expected at `rates`, a row for each level, as batches of bandits are planned with
    hallucinated feedback (Desautels, Krause and Burdick 2014).

    >>> from slotwise.policies import NOBODY, LinkFeedback, PacedBayes
    >>> problem = Problem(n_links=3, n_slots=1, click_floor=0.3)
    >>> state, links, certain = PacedBayes().start(problem), np.arange(3), np.ones(3)
    >>> views, rates = np.full(3, 1e4), np.array([[0.1, 0.5, 0.3], [0.1, 0.0, 0.0]])
    >>> for level in range(2):
    ...     sums = views * rates[level]
    ...     feedback = LinkFeedback(links, NO_SLOTS, certain, views, sums)
    ...     PacedBayes.learn(state, NOBODY, level, feedback)
    >>> rng = np.random.default_rng(1)
    >>> ahead = play_ahead(Chooser(PacedBayes(), problem, state), rates, rng, n_rounds=2_000)
    >>> ahead.probabilities.round(1).tolist()
    [0.5, 0.5, 0.0]
    """
    n_rounds = whole_number("n_rounds", n_rounds, at_least=1)
    policy, problem, state, _, rules = chooser
    kind, who = type(policy), chooser.who
    ahead = _copied(policy, problem, state)
    page, probabilities = np.zeros(problem.n_slots, np.int64), np.zeros(problem.n_slots)
    chosen_by, chance = rng_of_choice(policy, rng), chance_of(rng)
    parts: tuple[Any, ...] = ()
    if rules is None:
        choose = code_for(kind.choose, ahead, who[0], chosen_by)
        drawn_from: tuple[Any, ...] = (ahead.mix,)
        draw = code_for(draw_page, *drawn_from, chance, page, probabilities)
    else:
        parts = (rules,)
        choose = code_for(choosing_within(kind), ahead, who[0], chosen_by, rules)
        drawn_from = (rules.probabilities, rules.links, rules.ends, rules.other_page)
        page, probabilities = page[: rules.n_slots], probabilities[: rules.n_slots]
        draw = code_for(draw_by_groups, *drawn_from, chance, page, probabilities)
    one_view = np.ones(len(page))
    note_open = code_for(kind.note_open, ahead, who[0], 0, page, 1.0)
    feedback = LinkFeedback(page, NO_SLOTS, probabilities, one_view, one_view)
    learn = code_for(kind.learn, ahead, who[0], 0, feedback)
    has_ledger = kind.note_open is not ignore_open
    shown, prices = np.zeros(problem.n_links), np.zeros((n_rounds, _n_floors(ahead)))
    is_checked = rules is None and not is_own(policy.choose)
    for k in range(n_rounds):
        visitor = who[k % len(who)]
        choose.call(ahead, visitor, chosen_by, *parts)
        if is_checked:
            check_page(policy, ahead.mix, problem.n_slots)
        draw.call(*drawn_from, chance, page, probabilities)
        if rules is None:
            shown[page] += 1.0
        else:
            shown += rules.probabilities
        if prices.shape[1]:
            prices[k] = ahead.floors.prices
        for level in range(problem.n_levels):
            if has_ledger:
                note_open.call(ahead, visitor, level, page, 1.0)
            else:
                brought = feedback._replace(outcomes=rates[level, page])
                learn.call(ahead, visitor, level, brought)
    return RoundsAhead(shown / n_rounds, prices)


def average_pages(
    chooser: Chooser, rates: Floats, rng: np.random.Generator, n_draws: int
) -> Floats:
    """Return the average page over rounds ahead if the policy moves each round, else over draws."""
    if chooser.policy.debt.moves_each_round and has_learned(chooser.policy, chooser.state):
        return play_ahead(chooser, rates, rng, n_draws).probabilities
    return average_probabilities(chooser, rng, n_draws)


def has_learned(policy: Policy, state: object) -> bool:
    """Return whether a state has learned anything about a link."""
    # counts of the pool as a whole may start above zero, because of a prior
    knowledge = policy.knowledge(state)
    names = policy.per_link & knowledge.keys()
    return any(knowledge[name].any() for name in names or knowledge)


def set_open_views(player: Player, views: Floats, of_segments: Floats | None = None) -> None:
    """Set the open views of a player by level and link, and those of segments with a floor.

    Other features of their visitors are not known.
    """
    ledger = player.open_views
    ledger.views[:] = views
    ledger.of_values[:] = 0.0
    if of_segments is not None:
        ledger.of_segments[:] = np.minimum(of_segments, views[0])
    set_pages(ledger)
    player.state = player.state  # what the policy derives from open views is recomputed


def _copied(policy: Policy, problem: Problem, state: object) -> Any:
    """Return a state that has learned the same and has open views of its own."""
    copied: Any = policy.restore(problem, policy.knowledge(state))
    if not hasattr(state, "open"):
        return copied
    copied = copied._replace(open=copied_counts(state.open))
    every_link = np.arange(problem.n_links)
    for level in range(problem.n_levels):
        switching(type(policy).note_open)(copied, np.zeros(0, np.int64), level, every_link, 0.0)
    return copied


def _n_floors(state: object) -> int:
    """Return the number of floors with a price in a state."""
    floors = getattr(state, "floors", None)
    return 0 if floors is None else len(floors.prices)


class PageSet:
    """The pages of a version for each visitor. Not thread-safe: it has buffers for one page.

    It uses the player, which nobody else may use from then on. `prices` has a row for each round
    ahead, in money: the price of a click for the floor of all visitors, then for that of each
    segment. It has no columns that count where the policy has no prices.
    """

    def __init__(self, player: Player, prices: Floats, rates: Floats) -> None:
        problem, state = player.problem, player.state
        self._player, self.prices = player, prices
        self.links = np.arange(problem.n_links)
        self.rewards = np.array([problem.rewards.get(level, 0.0) for level in problem.levels])
        self.rate: Floats = rates
        """Each link's expected outcome per view for the visitor of the last page, by level."""
        self._at_prices = player.form.at_prices
        self.has_prices = self._at_prices is not None
        self._unit = float(mean_sale(state.pool)) if self.has_prices else 1.0
        self._columns = _columns_of(state) if self.has_prices else {}
        self._by_floors: dict[tuple[int, ...], Floats] = {}
        self._last_price = 0.0
        self._probabilities = np.zeros(problem.n_links)

    @classmethod
    def ahead(
        cls,
        player: Player,
        visitors: NDArray[np.int64],
        rates: Floats,
        n_rounds: int,
        prices_of: Player | None = None,
    ) -> PageSet:
        """Return the pages at the prices of the next rounds, played with these visitors.

        `prices_of` is a player with other open views by which the prices are found.
        """
        n_columns = 1 + len(player.problem.segment_floor_places)
        if player.form.at_prices is None:
            return cls(player, np.zeros((1, n_columns)), rates)
        one = player if prices_of is None else prices_of
        rng, n_rounds = np.random.default_rng(0), max(n_rounds // N_PRICES, 1) * N_PRICES
        chooser = Chooser(one.form, one.problem, one.state, visitors)
        found = play_ahead(chooser, rates, rng, n_rounds)
        prices = np.zeros((n_rounds, n_columns))
        for column, floor in _columns_of(one.state).items():
            prices[:, column] = found.prices[:, floor] * float(mean_sale(one.state.pool))
        if n_columns == 1:
            prices = grouped_rows(prices, prices[:, 0])
        return cls(player, prices, rates)

    @property
    def shadow_price(self) -> float:
        """The mean price of a click for the floor that holds for all visitors."""
        if self.has_prices:
            return float(self.prices[:, 0].mean())
        problem = self._player.problem
        value, clicks = self.rewards @ self.rate, self.rate[0]
        return float(solve(value, clicks, problem.n_slots, problem.click_floor).shadow_price)

    def _prices_of(self, visitor: Visitor) -> Floats:
        """Return the prices of the floors for a visitor, who may belong to segments with floors."""
        known = set(visitor.tolist())
        places = self._player.problem.segment_floor_places
        held = (0, *(k for k, (place, _) in enumerate(places, 1) if place in known))
        prices = self._by_floors.get(held)
        if prices is None:
            if len(self._by_floors) >= MAX_CACHED_PRICES:
                self._by_floors.clear()
            rows = grouped_rows(self.prices, self.prices[:, held].sum(axis=1))
            prices = np.zeros((len(rows), len(self._player.state.floors.prices)))
            for column, floor in self._columns.items():
                prices[:, floor] = rows[:, column] / self._unit
            self._by_floors[held] = prices
        self._last_price = float(self.prices[:, held].sum(axis=1).mean())
        return prices

    def page(self, visitor: Visitor, links: Links, n_slots: int) -> tuple[Floats, float]:
        """Return the inclusion probabilities of some links for a visitor, and expected clicks."""
        player, problem = self._player, self._player.problem
        if self._at_prices is not None:
            page, prices = self._probabilities[: len(links)], self._prices_of(visitor)
            at = switching(self._at_prices.page)
            at(player.state, visitor, prices, links, n_slots, page)
            self._take_rates()
            page = page.copy()
        else:  # if links or slots are missing, the whole page is scaled to those that remain
            page = self._chosen(visitor, None)
            if len(links) != len(page) or n_slots != problem.n_slots:
                page = fill_slots(page[links], n_slots)
        return page, float(page @ self.rate[0, links])

    def page_within(self, visitor: Visitor, rules: PageRules) -> tuple[Floats, float]:
        """Return the probabilities of all links within rules for a visitor, and their clicks."""
        player = self._player
        if self._at_prices is not None:
            page = self._probabilities
            at = switching(self._at_prices.page_within)
            at(player.state, visitor, self._prices_of(visitor), rules, page)
            self._take_rates()
            page = page.copy()
        else:
            page = self._chosen(visitor, rules)
        return page, float(page @ self.rate[0])

    def _chosen(self, visitor: Visitor, rules: PageRules | None) -> Floats:
        player = self._player
        who = np.ascontiguousarray(visitor)[None]
        chooser = Chooser(player.form, player.problem, player.state, who, rules)
        return average_pages(chooser, self.rate, np.random.default_rng(0), CHOICES)

    def _take_rates(self) -> None:
        self.rate = np.cumprod(self._player.state.posterior.mean, axis=0)
        self.rate[-1] *= self._unit

    def scores(self, links: Links) -> Floats:
        """Return the scores of the links for the visitor of the last page, at the mean price."""
        if not self.has_prices:
            worth = np.zeros(len(links))
            switching(type(self._player.form).rank)(self._player.state, links, worth)
            return worth
        rates: Any = self.rate[:, links]
        scores: Floats = self.rewards @ rates + self._last_price * rates[0]
        return scores


def _columns_of(state: Any) -> dict[int, int]:
    """Return the floor of each column of prices: that of clicks for all, then those of segments."""
    columns, n_segments = {}, 0
    floors = zip(state.floors.levels.tolist(), state.floors.places.tolist(), strict=True)
    for floor, (level, place) in enumerate(floors):
        if place != EVERYBODY:
            n_segments += 1
            columns[n_segments] = floor
        elif level == 0:
            columns[0] = floor
    return columns


def grouped_rows(rows: Floats, order: Floats) -> Floats:
    """Return the means of `N_PRICES` groups of rows, by their order; one row if all are equal."""
    if len(rows) <= N_PRICES:
        return rows
    ordered = rows[np.argsort(order, kind="stable")]
    n_kept = len(rows) // N_PRICES * N_PRICES
    means: Floats = ordered[:n_kept].reshape(N_PRICES, -1, rows.shape[1]).mean(axis=1)
    return means[:1] if np.array_equal(ordered[0], ordered[-1]) else means
