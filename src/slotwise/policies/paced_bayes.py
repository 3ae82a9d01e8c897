"""Paced Bayes: one optimistic score per link, and a price paced by the clicks owed to the floor.

    estimate (rates of links for a visitor)  ->  price (of every floor)  ->  page (the best scores)

Rates come from `link_rates`, or from `visitor_rates` where visitors have features. `floor_prices`
has the price of a floor, `bound` the score of a link. `state.visitors` is None without features;
the compiler then leaves the code for them out. Found by the registry in `policies`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.compile import hot, inner, int64, switching
from slotwise.policies.bound import (
    RatePosterior,
    expected_outcomes,
    largest_growth,
    margin_of_page,
    mean_worth,
    new_posterior,
    score_boosted,
    score_link,
    score_links,
)
from slotwise.policies.change_detection import Change, new_change, notice_change, notice_missing
from slotwise.policies.floor_prices import (
    MAX_EXPECTED,
    ONE_PAGE,
    UNKNOWN,
    ExpectedPages,
    Floors,
    corrected_price,
    credit,
    expect_price,
    floor_rows,
    new_floors,
    price_visitor,
    put_best_slots_first,
    take_debts,
)
from slotwise.policies.link_rates import (
    PoolFit,
    RateCounts,
    add_views,
    is_refit_due,
    mean_sale,
    new_pool_fit,
    new_rate_counts,
    outcome_worth,
    prior_mean,
    refit_pool,
    refresh_all_widths,
    refresh_rates,
    spread_of_sales,
)
from slotwise.policies.older_states import upgraded
from slotwise.policies.open_views import (
    OpenLedger,
    belongs,
    count_open,
    has_open_pages,
    new_open_views,
)
from slotwise.policies.policy import (
    NOBODY,
    AtPrices,
    Choose,
    ChooseWithin,
    Debt,
    Feedback,
    Floats,
    Knowledge,
    Learn,
    LinkFeedback,
    Links,
    NoteOpen,
    Policy,
    Rank,
    ReadsVisitors,
    State,
    Visitor,
    check_horizon,
    check_positive,
    moved_links,
    require_no_rate_floors,
)
from slotwise.policies.tied_group import (
    LEAST_POOL,
    TiedGroup,
    fill_up_from_group,
    find_above_group,
    forget_group,
    keep_group,
    leave_group,
    list_from,
    new_tied_group,
)
from slotwise.policies.visitor_learning import count_for_floors, learn_link, note_visitor
from slotwise.policies.visitor_rates import (
    N_RECENT,
    PRICE_GROWTH,
    OpenFloor,
    RatesForVisitors,
    count_open_trials,
    fit_effects,
    is_fit_due,
    known_by_link,
    known_part,
    merged_value,
    new_visitor_rates,
    pairs_fit,
    rate_for,
    refresh_amount,
    refresh_open_rate,
    refresh_tables,
    take_known,
    visitors_like_those_seen,
)
from slotwise.problem import Problem
from slotwise.selection.mix import Mix, add_page, new_mix
from slotwise.selection.page_order import weights_of
from slotwise.selection.page_rules import PageRules
from slotwise.selection.page_search import N_CANDIDATES, Search, new_search
from slotwise.selection.page_within_rules import best_within
from slotwise.selection.passes import list_marked, total_of, total_of_products
from slotwise.selection.share_slots import take_top_links

NO_FLOOR = int64(-1)

UNBOUNDED = 1e9
"""The margin while no known page keeps the floors: any better link is worth its trials."""

MAX_GROWTH, MIN_LINKS_PER_NEAR = 1.2, 8
"""All links are scored again if scores may have grown more, or too many may be on the page."""

SAFE = 1.0 + 1e-9
"""Rounding never makes a score grow by this factor."""

HIDDEN = -1.0
"""Less than any score."""

N_VISITORS = 64
"""Number of visitors that represent those seen: enough for shares in steps of 1.6 %."""

COUNTED = ("views", "sums", "sales", "squares", "rounds")
OF_FLOORS = {"owed": "owed", "reserve": "reserve", "price": "expected", "floor_rounds": "rounds"}
"""The saved parts of `RateCounts`, and those of `Floors` by their names in what is saved."""


class PacedBayesState(NamedTuple):
    """What is counted, fitted and owed, and the posterior and the scores that follow from it.

    `score` is each link's bound; without features, at the values `scored_at` of the levels.
    `slot_weights` are those of the page's slots, which the player shares with the state; none where
    slots are alike.
    """

    evidence: RateCounts
    pool: PoolFit
    change: Change
    floors: Floors
    open: OpenLedger
    visitors: RatesForVisitors | None
    posterior: RatePosterior
    pages: ExpectedPages
    slot_weights: Floats
    score: Floats
    scored_at: Floats
    buffer: Floats
    search: Search
    price_search: Search
    mix: Mix
    group: TiedGroup


# Prices


@inner
def _open_debt(state: PacedBayesState, visitors: RatesForVisitors | None, floor: int) -> float:
    """Return the expected shortfall of the open pages of a floor."""
    opened, level = state.open, state.floors.levels[floor]
    n_pages, views = opened.pages[level], opened.views[level]
    for row in range(len(opened.places)):
        if opened.places[row] == state.floors.places[floor]:
            n_pages, views = opened.segment_pages[row], opened.of_segments[row]
    if n_pages <= 0.0:
        return 0.0
    if visitors is None:
        expected = expected_outcomes(state.posterior, level, views, state.buffer)
        if level == len(state.pool.rate) - 1:
            expected *= mean_sale(state.pool)
    else:
        expected = total_of_products(views, visitors.open_rate[floor])
    return state.floors.least[floor] * n_pages - expected


@inner
def _refresh_for_visitors(state: PacedBayesState, visitors: RatesForVisitors) -> None:
    """Bring rates up to date, and what open views are expected to bring to the floors at them.

    The latter changes with open views, with feedback and with the prior of all links.
    """
    opened, floors, last = state.open, state.floors, len(state.pool.rate) - 1
    changed = state.posterior.to_do
    refresh_tables(visitors, state.pool, state.evidence, state.posterior, opened.is_changed)
    if not has_open_pages(opened):
        return
    n_changed = list_marked(opened.is_changed, changed)
    for row in range(len(floors.levels)):
        level, of_pool, unit = floors.levels[row], 1.0, 1.0
        for earlier in range(level + 1):
            of_pool *= prior_mean(state.pool, earlier)
        if level == last:
            unit = mean_sale(state.pool)
        floor = OpenFloor(row, level, floors.places[row], of_pool * unit, unit, level == last)
        for k in range(n_changed):
            refresh_open_rate(visitors, opened, changed[k], floor)
    for k in range(n_changed):
        opened.is_changed[changed[k]] = False


@inner
def _price_floors(state: PacedBayesState) -> None:
    """Compute the reward of a unit of each level and the price of each floor."""
    floors, last = state.floors, len(state.pool.rate) - 1
    for level in range(last):
        floors.reward[level] = floors.rewards[level] / mean_sale(state.pool)
    floors.reward[last] = floors.rewards[last]
    spread = spread_of_sales(state.pool)
    for floor in range(len(floors.prices)):
        unit = outcome_worth(state.pool, floors.reward, floors.levels[floor])
        debt = _open_debt(state, state.visitors, floor)
        floors.prices[floor] = unit * corrected_price(floors, floor, debt, spread)


@inner
def _expect_pages(state: PacedBayesState, visitors: RatesForVisitors | None, floor: int) -> int:
    """Write value and outcome of all links for the visitors of a floor; return their number."""
    floors, pages, level = state.floors, state.pages, state.floors.levels[floor]
    if visitors is None:
        price_visitor(floors, NOBODY, floor)
        mean_worth(state.posterior, floors.worth, level, pages.value[0], pages.outcome[0])
        return 1
    row = 1 + floor if floors.places[floor] >= 0 else 0
    n_visitors = min(int(visitors.turns[row]), N_RECENT)
    for k in range(n_visitors):
        visitor = visitors.recent[row, k]
        rate_for(visitors, state.evidence, state.open, visitor, state.posterior)
        price_visitor(floors, visitor, floor)
        mean_worth(state.posterior, floors.worth, level, pages.value[k], pages.outcome[k])
    return n_visitors


@inner
def _expect_prices(state: PacedBayesState) -> bool:
    """Compute the expected price of each floor at the prices of the others.

    Returns whether some floor is out of reach at the posterior means.
    """
    floors, last = state.floors, len(state.pool.rate) - 1
    is_short = False
    put_best_slots_first(state.slot_weights, state.pages)
    _price_floors(state)
    for floor in range(len(floors.prices)):
        n_visitors = _expect_pages(state, state.visitors, floor)
        if n_visitors > 0:
            level = floors.levels[floor]
            unit = outcome_worth(state.pool, floors.reward, level)
            least, most = floors.least[floor], MAX_EXPECTED * unit
            if level == last:
                least /= mean_sale(state.pool)
            price = expect_price(
                state.pages, n_visitors, floors.n_slots, least, most, state.price_search
            )
            floors.expected[floor] = price / unit
            is_short = is_short or price >= most
            _price_floors(state)
    return is_short


@inner
def _refit_links(state: PacedBayesState) -> None:
    """Recompute the expected prices, the margin and the widths of all links, without features."""
    state.open.is_changed[:] = True
    refresh_rates(state.posterior, state.pool, state.evidence, state.open, False)
    forget_group(state.group)
    is_short = _expect_prices(state)
    floors, posterior, value = state.floors, state.posterior, state.pages.value[0]
    price_visitor(floors, NOBODY, NO_FLOOR)
    mean_worth(posterior, floors.worth, 0, value, state.buffer)
    posterior.margin[0] = UNBOUNDED
    if not is_short:
        posterior.margin[0] = margin_of_page(value, floors.n_slots, state.price_search)
    for level in range(len(floors.worth)):
        posterior.worth[level] = floors.worth[level]
    refresh_all_widths(posterior, state.pool, state.evidence, state.open)


@inner
def _refit_visitors(
    state: PacedBayesState, visitors: RatesForVisitors, level: int, before: float
) -> None:
    """Refit the effects of features at a level, and the expected prices if they are due."""
    pool, evidence = state.pool, state.evidence
    state.open.is_changed[:] = True
    if is_fit_due(visitors, before, pool.clock[level]) and fit_effects(
        visitors, level, prior_mean(pool, level)
    ):
        visitors.is_stale[level] = True
    if level == len(pool.rate) - 1:
        for link in range(len(state.score)):
            refresh_amount(visitors, pool, evidence, link)
    if level == 0 and pool.clock[0] >= PRICE_GROWTH * visitors.priced[0]:
        _expect_for_visitors(state, visitors)


@inner
def _expect_for_visitors(state: PacedBayesState, visitors: RatesForVisitors) -> None:
    """Compute the expected prices over the latest visitors."""
    visitors.priced[0] = state.pool.clock[0]
    if len(state.floors.prices) > 0:
        _refresh_for_visitors(state, visitors)
        _expect_prices(state)


@inner
def _refit(state: PacedBayesState, visitors: RatesForVisitors | None, level: int) -> None:
    """Refit the pool from a level on, with everything that depends on it."""
    before = max(1.0, state.pool.clock[level])
    refit_pool(state.pool, state.evidence, level)
    if visitors is None:
        _refit_links(state)
    else:
        _refit_visitors(state, visitors, level, before)


# Pages


@inner
def _rate_links(state: PacedBayesState, visitors: RatesForVisitors | None, visitor: Visitor) -> int:
    """Bring the posterior up to date for a visitor; return how many links `to_do` lists."""
    if visitors is None:
        n_changed = refresh_rates(state.posterior, state.pool, state.evidence, state.open, True)
    else:
        _refresh_for_visitors(state, visitors)
        rate_for(visitors, state.evidence, state.open, visitor, state.posterior)
        if state.open.pages[0] > 0.0:
            count_open_trials(state.pool, state.evidence, state.open, state.posterior)
        n_changed = len(state.score)
    if has_open_pages(state.open):  # prices then change with every page, not only with feedback
        _price_floors(state)
    price_visitor(state.floors, visitor, NO_FLOOR)
    return n_changed


@inner
def _score_all(state: PacedBayesState, visitor: Visitor) -> None:
    """Write the scores of all links for a visitor."""
    _rate_links(state, state.visitors, visitor)
    score_links(state.posterior, state.floors.worth, state.score, state.buffer)


@inner
def _find_above_group(state: PacedBayesState, changed: Links) -> bool:
    """Put the links above the group into `state.search`; return whether the group fills the rest.

    Scores are those of the worths `state.scored_at`. Few links can have risen above the group since
    then, and only these are scored again. Returns False if there are more.
    """
    posterior, score, entry = state.posterior, state.score, state.search.entry
    worth, n_slots = state.floors.worth, state.floors.n_slots
    growth = largest_growth(worth, state.scored_at)
    if state.group.size[0] < n_slots or growth > MAX_GROWTH:
        return False
    for link in changed:
        score[link] = score_link(posterior, state.scored_at, link)
    of_group = score_link(posterior, worth, state.mix.tied[0])
    n_near = list_from(score, of_group / (growth * SAFE), entry)
    if n_near * MIN_LINKS_PER_NEAR > len(score):
        return False
    n_above = int64(0)
    for k in range(n_near):
        link = entry[k]
        its_score = score_link(posterior, worth, link)
        if its_score == of_group:
            return False
        entry[n_above] = link
        n_above += its_score > of_group
    state.search.sizes[N_CANDIDATES] = n_above
    return n_above < n_slots


@inner
def _choose_beside_group(state: PacedBayesState, visitor: Visitor) -> None:
    """Choose the page of the highest scores, with the tied links of the last page's group.

    Scores of links in the group are set to `HIDDEN`: they are all equal and known.
    """
    posterior, group, score, mix = state.posterior, state.group, state.score, state.mix
    changed = posterior.to_do[: _rate_links(state, state.visitors, visitor)]
    leave_group(group, changed, mix)
    n_slots, search, worth = state.floors.n_slots, state.search, state.floors.worth
    if _find_above_group(state, changed):
        fill_up_from_group(group, n_slots, search, mix)
        return
    score_links(posterior, worth, score, state.buffer)
    for level in range(len(state.scored_at)):
        state.scored_at[level] = worth[level]
    if find_above_group(group, score, n_slots, search, mix):
        fill_up_from_group(group, n_slots, search, mix)
    else:
        take_top_links(score, posterior.mean[0], 0.0, n_slots, search, mix)
        keep_group(group, mix)
    for k in range(group.size[0]):
        score[mix.tied[k]] = HIDDEN


@inner
def _choose(state: PacedBayesState, visitors: RatesForVisitors | None, visitor: Visitor) -> None:
    if visitors is None and len(state.score) >= LEAST_POOL:
        _choose_beside_group(state, visitor)
    else:
        _score_all(state, visitor)
        clicks, n_slots = state.posterior.mean[0], state.floors.n_slots
        take_top_links(state.score, clicks, 0.0, n_slots, state.search, state.mix)


@hot
def choose(state: PacedBayesState, visitor: Visitor, rng: np.random.Generator) -> None:
    """Take the links with the largest bound on the value of a view by this visitor."""
    _choose(state, state.visitors, visitor)


@hot
def choose_within(
    state: PacedBayesState, visitor: Visitor, rng: np.random.Generator, rules: PageRules
) -> None:
    """Take the best page within the rules at the scores of all links."""
    _score_all(state, visitor)
    forget_group(state.group)  # it does not belong to this page
    floors = state.floors
    for k in range(len(state.score)):  # a boost affects the page, not the order of its slots
        rules.worth[k] = state.score[k]
    score_boosted(state.posterior, floors.worth, floors.reward, rules.boost, rules.worth)
    best_within(rules, rules.worth, rules.worth)


@hot
def rank(state: PacedBayesState, links: Links, worth: Floats) -> None:
    """Write the scores of links on the page chosen last."""
    for k in range(len(links)):
        worth[k] = score_link(state.posterior, state.floors.worth, links[k])


@hot
def note_open(
    state: PacedBayesState, visitor: Visitor, level: int, links: Links, n_views: float
) -> None:
    """Count page views whose feedback at a level is open."""
    count_open(state.open, visitor, level, links, n_views)


# Learning


@inner
def _learn_links(
    state: PacedBayesState,
    visitors: RatesForVisitors | None,
    visitor: Visitor,
    level: int,
    feedback: LinkFeedback,
    n_pages: float,
) -> None:
    """Count the views of links, and notice if the links have changed."""
    links, views, outcomes = feedback.links, feedback.views, feedback.outcomes
    evidence, pool = state.evidence, state.pool
    if visitors is None:
        if level == 0 and notice_change(state.change, pool, evidence, links, views, outcomes):
            pool.clock[0] = 0.0
            state.open.is_changed[:] = True
        for k in range(len(links)):
            add_views(evidence, pool, level, links[k], views[k], outcomes[k])
            state.open.is_changed[links[k]] = True
        return
    if level == 0 and n_pages > 0.0:
        note_visitor(visitors, state.floors.places, visitor, n_pages)
    for floor in range(len(state.floors.places)):
        if state.floors.levels[floor] == level and belongs(visitor, state.floors.places[floor]):
            count_for_floors(visitors, floor, links, views, outcomes)
    expected = n_clicks = 0.0
    for k in range(len(links)):
        link = links[k]
        passed = add_views(evidence, pool, level, link, views[k], outcomes[k])
        due = learn_link(visitors, visitor, level, link, views[k], passed)
        state.open.is_changed[link] = True
        n_clicks += outcomes[k]  # also further clicks, which come without a view
        if level == 0 and views[k] > 0.0:
            expected += due * known_part(visitors, visitor, link, due / views[k])
        if level == len(evidence.rounds) - 1:
            refresh_amount(visitors, pool, evidence, link)
    if level == 0 and len(visitor) > 0:
        rounds = evidence.rounds[0]
        if notice_missing(visitors, visitor, rounds, expected, n_clicks, n_pages):
            visitors.is_stale[:] = True


@hot
def learn(state: PacedBayesState, visitor: Visitor, level: int, feedback: LinkFeedback) -> None:
    """Refit pool and prices as the rounds grow, count, and credit the floors of the level.

    The refit comes first, so that it has all feedback of the pages before, also where clicks of a
    page come one at a time. After a batch of many pages comes another one.
    """
    evidence, n_pages = state.evidence, total_of(feedback.views) / state.floors.n_slots
    if n_pages > 0.0 and is_refit_due(state.pool, evidence, level):
        _refit(state, state.visitors, level)
    evidence.rounds[level] += n_pages
    credit(state.floors, visitor, level, feedback.views, feedback.outcomes)
    _learn_links(state, state.visitors, visitor, level, feedback, n_pages)
    if n_pages > ONE_PAGE and is_refit_due(state.pool, evidence, level):
        _refit(state, state.visitors, level)
    if not has_open_pages(state.open):
        _price_floors(state)


@inner
def _complete(state: PacedBayesState, visitors: RatesForVisitors | None) -> None:
    """Compute expected prices that are not known, and all prices."""
    is_unknown = False
    for floor in range(len(state.floors.expected)):
        if state.floors.expected[floor] == UNKNOWN:
            is_unknown = True
            state.floors.expected[floor] = 0.0
    if visitors is None:
        if is_unknown:
            _refit_links(state)
    else:
        visitors.is_stale[:] = True
        if is_unknown:
            _expect_for_visitors(state, visitors)
    _price_floors(state)


@hot
def refresh(state: PacedBayesState) -> None:
    """Recompute everything that is derived from the knowledge."""
    state.open.is_changed[:] = True
    _complete(state, state.visitors)
    state.open.is_changed[:] = True


# Pages of a version


@hot
def page_at(
    state: PacedBayesState,
    visitor: Visitor,
    prices: Floats,
    links: Links,
    n_slots: int,
    probabilities: Floats,
) -> None:
    """Write the average page of some links for a visitor, over rows of prices of the floors."""
    _rate_links(state, state.visitors, visitor)
    n_links, clicks, value = len(links), state.buffer, state.pages.value[0]
    for k in range(n_links):
        clicks[k] = state.posterior.mean[0, links[k]]
        probabilities[k] = 0.0
    for row in range(len(prices)):
        for floor in range(len(state.floors.prices)):
            state.floors.prices[floor] = prices[row, floor]
        price_visitor(state.floors, visitor, NO_FLOOR)
        score_links(state.posterior, state.floors.worth, state.score, state.pages.outcome[0])
        for k in range(n_links):
            value[k] = state.score[links[k]]
        take_top_links(value[:n_links], clicks[:n_links], 0.0, n_slots, state.search, state.mix)
        add_page(state.mix, 1.0 / len(prices), probabilities)


@hot
def page_within_at(
    state: PacedBayesState,
    visitor: Visitor,
    prices: Floats,
    rules: PageRules,
    probabilities: Floats,
) -> None:
    """Write the average page within rules for a visitor, over rows of prices of the floors."""
    _rate_links(state, state.visitors, visitor)
    probabilities[:] = 0.0
    floors = state.floors
    for row in range(len(prices)):
        for floor in range(len(floors.prices)):
            floors.prices[floor] = prices[row, floor]
        price_visitor(floors, visitor, NO_FLOOR)
        score_links(state.posterior, floors.worth, state.score, state.buffer)
        score_boosted(state.posterior, floors.worth, floors.reward, rules.boost, state.score)
        best_within(rules, state.score, state.posterior.mean[0])
        for link in range(len(probabilities)):
            probabilities[link] += rules.probabilities[link] / len(prices)


def _visitors_seen(state: PacedBayesState) -> NDArray[np.int64]:
    """Return visitors with the values that were seen, in the same shares."""
    visitors = state.visitors
    if visitors is None:
        return NOBODY[None]
    return visitors_like_those_seen(visitors.seen, visitors.layout.feature_of, N_VISITORS)


def _merge_value(knowledge: Knowledge, problem: Problem, value: int, into: int) -> Knowledge:
    """Add the feedback of visitors with one value to that of those with another one."""
    return merged_value(knowledge, problem.feature_sizes, value, into)


@dataclass(frozen=True)
class PacedBayes(Policy):
    """Paced Bayes: show the links with the largest bounds, at the price of the floor.

        shown = the L largest  E + sqrt(2 w Var) + (2/3) w Var / E  of  a (b + price)
        w     = c ln(1 + 7 t L / (K N) * D / (D + 2 sqrt(Var)))
        price = b0 [expected + s Q / (v sqrt(floor t))]+,   b0 the pool's mean revenue per click

    a and b are the posterior click rate and revenue per click of a link, under priors fitted to the
    pool, and D is the margin of a link on the page over one not on it (`link_rates`). b is the rate
    of a sale times its amount. One bound on the whole score explores less than the sum of two,
    which counts the uncertainty of the click twice. The expected price is that of the floor program
    on the posterior means, and Q what the page owes and a reserve (`floor_prices`). All is in units
    of the pool's mean sale, so that revenue in another currency gives the same pages. If clicks
    stay far below those expected, the links have changed, and most of the counts are discarded
    (`change_detection`). c = `exploration`, v = `patience`: larger is smoother and slower to react.

    Where visitors have features, a and b are those of the visitor, by a regression per link
    (`visitor_rates`). The best mix for different visitors has one price for all of them; a floor of
    a segment has its own price, which is added for the visitors of the segment.

    `horizon` is the number of rounds T if it is known: T - t then replaces t, which reduces regret.
    Set it only if it is certain: a horizon that is too short costs much more than it gains. After
    it, and for visitors with features, the policy plays as without one.

    Needs no horizon and no tuning. Several floors have a price each. No regret bound is proven for
    the whole policy; the leaderboard shows its performance.

    >>> from slotwise.policies import NOBODY
    >>> from slotwise.problem import Problem
    >>> state = PacedBayes().start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    >>> PacedBayes.choose(state, NOBODY, np.random.default_rng(1))
    >>> state.mix.probabilities[:4].tolist()
    [0.5, 0.5, 0.5, 0.5]
    """

    exploration: float = 0.6
    patience: float = 0.5
    horizon: int | None = None

    name: ClassVar[str] = "paced-bayes"
    choose: ClassVar[Choose] = staticmethod(choose)
    learn: ClassVar[Learn] = staticmethod(learn)
    choose_within: ClassVar[ChooseWithin] = staticmethod(choose_within)
    rank: ClassVar[Rank] = staticmethod(rank)
    note_open: ClassVar[NoteOpen] = staticmethod(note_open)
    at_prices: ClassVar[AtPrices | None] = AtPrices(page_at, page_within_at)
    needs: ClassVar[Feedback] = Feedback.COUNTS_IN_ORDER
    debt: ClassVar[Debt] = Debt.BALANCE
    for_visitors: ClassVar[ReadsVisitors | None] = ReadsVisitors(_visitors_seen, _merge_value)
    per_link: ClassVar[frozenset[str]] = frozenset(
        {"views", "sums", "sales", "squares"}
        | {"information", "tilt", "waiting", "value_views", "floor_views", "floor_sums"}
    )

    def __post_init__(self) -> None:
        check_positive("exploration", self.exploration)
        check_positive("patience", self.patience)
        check_horizon(self.horizon)

    def for_problem(self, problem: Problem) -> Policy:  # noqa: ARG002 - it supports all floors
        """Return this policy, which keeps floors of segments, too."""
        return self

    def start(self, problem: Problem) -> PacedBayesState:
        """Return a state that has only the prior."""
        return self._start(problem, pairs_fit(problem))

    def _start(self, problem: Problem, has_pairs: bool) -> PacedBayesState:
        require_no_rate_floors(self.name, problem)
        n_links, floors = problem.n_links, new_floors(problem, self.patience)
        has_features = bool(problem.feature_sizes)
        n_floors = len(floors.owed)
        n_visitors = N_RECENT if has_features and n_floors else 1
        state = PacedBayesState(
            evidence=new_rate_counts(problem),
            pool=new_pool_fit(problem),
            change=new_change(),
            floors=floors,
            open=new_open_views(problem),
            visitors=new_visitor_rates(problem, n_floors, has_pairs) if has_features else None,
            posterior=new_posterior(problem, self.exploration, self.horizon),
            pages=ExpectedPages(
                value=np.zeros((n_visitors, n_links)),
                outcome=np.zeros((n_visitors, n_links)),
                weights=np.zeros_like(weights_of(problem)),
                links=np.zeros(problem.n_slots, np.int64),
            ),
            slot_weights=weights_of(problem),
            score=np.zeros(n_links),
            scored_at=np.zeros(problem.n_levels),
            buffer=np.zeros(n_links),
            search=new_search(n_links),
            price_search=new_search(n_links),
            mix=new_mix(n_links),
            group=new_tied_group(n_links),
        )
        switching(refresh)(state)
        return state

    def _blank(self, problem: Problem, knowledge: Mapping[str, Floats]) -> PacedBayesState:
        """Return a state that has seen nothing, in the layout of what was saved."""
        has_pairs = knowledge.get("has_pairs")
        if has_pairs is None:
            return self.start(problem)
        return self._start(problem, bool(has_pairs[0]))

    def plan_for(self, state: PacedBayesState, n_rounds: float) -> Policy:
        """Return the policy with a horizon `n_rounds` ahead."""
        return replace(self, horizon=max(1, round(float(state.evidence.rounds[0]) + n_rounds)))

    def knowledge(self, state: PacedBayesState) -> Knowledge:
        """Return what is counted, fitted and owed, and what is known of visitors."""
        known = {name: getattr(state.evidence, name).copy() for name in COUNTED}
        known |= {name: getattr(state.floors, own).copy() for name, own in OF_FLOORS.items()}
        known |= {
            "pool": state.pool.rate.copy(),
            "clock": state.pool.clock.copy(),
            "amounts": state.pool.amounts.copy(),
            "worth": state.posterior.worth.copy(),
            "margin": state.posterior.margin.copy(),
            "missing": state.change.missing.copy(),
            "drift": state.change.drift.copy(),
        }
        if state.visitors is not None:
            of_visitors = known_by_link(state.visitors)
            of_visitors["segment_missing"] = of_visitors.pop("missing")
            known |= of_visitors
        return known

    def restore(self, problem: Problem, knowledge: Mapping[str, Floats]) -> PacedBayesState:
        """Return the state that has learned exactly this; older knowledge is converted."""
        knowledge = upgraded(problem, knowledge)
        state = self._blank(problem, knowledge)
        for name in COUNTED:
            getattr(state.evidence, name)[:] = knowledge[name]
        for name, own in OF_FLOORS.items():
            getattr(state.floors, own)[:] = knowledge[name]
        state.pool.rate[:] = knowledge["pool"]
        state.pool.clock[:] = knowledge["clock"]
        state.pool.amounts[:] = knowledge["amounts"]
        state.posterior.worth[:] = knowledge["worth"]
        state.posterior.margin[:] = knowledge["margin"]
        state.change.missing[:] = knowledge["missing"]
        state.change.drift[:] = knowledge["drift"]
        if state.visitors is not None:
            take_known(state.visitors, {**knowledge, "missing": knowledge["segment_missing"]})
        switching(refresh)(state)
        return state

    def move(self, state: PacedBayesState, problem: Problem, kept: Links) -> State:
        """Return a state for a changed pool, with the prices of its floors there.

        A floor that stays keeps what is owed to it; a floor that is set to another value starts
        with nothing owed.
        """
        known, before = moved_links(self, state, kept), state.floors
        after = new_floors(problem, self.patience)
        take_debts(after, before)
        known |= {name: getattr(after, own) for name, own in OF_FLOORS.items()}
        known["price"] = np.full(len(after.owed), UNKNOWN)
        if state.visitors is not None:
            rows = floor_rows(before, after)
            stays = np.flatnonzero(rows >= 0)
            fresh: Any = self._blank(problem, known).visitors
            for name, first in (("recent", 1), ("turns", 1), ("floor_views", 0), ("floor_sums", 0)):
                moved = np.array(getattr(fresh, name), np.float64)
                moved[:first] = known[name][:first]
                moved[first + stays] = known[name][first + rows[stays]]
                known[name] = moved
        return self.restore(problem, known)
