"""The price of a floor: the price at the posterior means, corrected by the outcomes received.

    price    = b0 [expected + s (Q + open debt) / (v sqrt(promised))]+
    s        = max(1, sqrt(expected)) sqrt(1 + between)
    expected = the price of the floor program on the posterior means, in b0, at most 20
    Q        = owed + reserve
    owed    <- min(owed + floor, most) - outcomes of the page, at least -4 sd,   sd = sqrt(promised)
    reserve <- [reserve +- sqrt(floor / t) / 4]+,   + while something is owed, - otherwise

One rule for every floor: of a level, for all visitors, or of clicks, for the visitors of a segment.
t are the settled pages of those visitors, promised = floor * t the outcomes that they should have
brought, and b0 the pool's mean revenue for an outcome of the floor's level. The price of an outcome
for a visitor is the sum over the floors that the visitor counts for.

`expected` is steady and correct in the long run; Q corrects its errors, for example while the page
explores. Outcomes vary by sd under any policy, so that is the scale of Q: a surplus, too, lowers
the price until it is used up. Surplus and debt are limited: a floor that was slack for a long time
is kept from the first page views in which it binds again, and one that was out of reach is not paid
back for as long again. The reserve ends a debt that lasts because `expected` is too low; sqrt(floor
/ t) / 4 per page adds up to half a standard deviation. The more a click costs, the more the price
must move to get another one, so s grows with the expected price; with its root, since the price
oscillates if s is proportional to it. Where the sales of links differ, with `between` as their
squared coefficient of variation, links on the page are worth several times the mean, and the price
must move more as well.

Every outcome is credited when it arrives, also one of a page that was counted before. Open pages
count with what they are expected to owe: otherwise the price would rise while their clicks are
pending, and overshoot when they arrive.

The cap on `expected` is for pools with too few observations to reach the floor at all. At twenty
times the revenue of a click, clicks are nearly all that counts; a lasting debt raises the price
further. Used by `older_states` and `paced_bayes`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slotwise.arrays import Floats, Links
from slotwise.compile import inner
from slotwise.policies.open_views import EVERYBODY, belongs
from slotwise.problem import Problem
from slotwise.selection.page_search import Entries, Objective, Search
from slotwise.selection.passes import total_of
from slotwise.selection.top_page import top_page

MAX_EXPECTED = 20.0
"""The largest expected price, in units of the mean revenue of an outcome of the floor's level."""

UNKNOWN = -1.0
"""Marks an expected price that is not computed yet."""

MAX_STEPS = 100
"""More steps than the search for a price needs."""

MAX_CREDIT, MAX_DEBT = 4.0, 16.0
"""The largest surplus and debt, in roots of the outcomes promised so far."""

FIRST_PAGES = 10_000.0
"""Pages that are added to those so far for the largest debt: what the first pages lack, which are
shown before much is known, is paid back."""

ONE_PAGE = 1.5
"""More page views than this are a batch: weighted views of one page add up to about 1."""

RESERVE_STEP = 0.25
"""How fast the reserve grows while something is owed, in sqrt(floor / rounds) a page."""


class Floors(NamedTuple):
    """What is owed to each floor, and the resulting value of a unit of each level.

    Floor f requires `least[f]` outcomes of level `levels[f]` per page of the visitors with value
    `places[f]`, or of all. `reward` and `worth` are in units of the mean sale: what a unit of each
    level earns, and that with the prices of the visitor's floors.
    """

    owed: Floats
    reserve: Floats
    expected: Floats
    rounds: Floats
    prices: Floats
    levels: Links
    places: Links
    least: Floats
    rewards: Floats
    reward: Floats
    worth: Floats
    n_slots: int
    patience: float


def new_floors(problem: Problem, patience: float) -> Floors:
    """Return floors to which nothing is owed: those of levels, then those of segments."""
    rows = [(floor.level, EVERYBODY, floor.least) for floor in problem.active_floors]
    rows += [(0, place, least) for place, least in problem.segment_floor_places]
    return Floors(
        owed=np.zeros(len(rows)),
        reserve=np.zeros(len(rows)),
        expected=np.full(len(rows), MAX_EXPECTED),
        rounds=np.zeros(len(rows)),
        prices=np.zeros(len(rows)),
        levels=np.array([level for level, _, _ in rows], np.int64),
        places=np.array([place for _, place, _ in rows], np.int64),
        least=np.array([least for _, _, least in rows], np.float64),
        rewards=np.array([problem.rewards.get(level, 0.0) for level in problem.levels]),
        reward=np.zeros(problem.n_levels),
        worth=np.zeros(problem.n_levels),
        n_slots=problem.n_slots,
        patience=patience,
    )


def floor_rows(before: Floors, after: Floors) -> Links:
    """Return for each floor the row of the same floor before, or -1."""
    known = zip(before.levels.tolist(), before.places.tolist(), strict=True)
    row_of = {floor: row for row, floor in enumerate(known)}
    rows = zip(after.levels.tolist(), after.places.tolist(), strict=True)
    return np.array([row_of.get(floor, -1) for floor in rows], np.int64)


def take_debts(after: Floors, before: Floors) -> None:
    """Copy what is owed to floors that are still there.

    A floor that is set to another value starts with nothing owed. On a page with fewer slots, the
    rest of one with pinned links, floors are lower, but the debts are those of all pages.
    """
    for new, old in enumerate(floor_rows(before, after).tolist()):
        if old < 0:
            continue
        if after.n_slots != before.n_slots or after.least[new] == before.least[old]:
            after.owed[new], after.reserve[new] = before.owed[old], before.reserve[old]
            after.rounds[new] = before.rounds[old]


@inner
def credit(floors: Floors, visitor: Links, level: int, views: Floats, outcomes: Floats) -> None:
    """Add what page views of a visitor owe at a level, and subtract their outcomes."""
    if len(floors.owed) == 0:
        return
    pages, brought = total_of(views) / floors.n_slots, total_of(outcomes)
    for floor in range(len(floors.owed)):
        if floors.levels[floor] == level and belongs(visitor, floors.places[floor]):
            floors.rounds[floor] += pages
            least, owed = floors.least[floor], floors.owed[floor]
            deviation = math.sqrt(least * floors.rounds[floor])
            if pages > 0.0:
                step = RESERVE_STEP * math.sqrt(least / floors.rounds[floor]) * pages
                step = step if owed > 0.0 else -step
                floors.reserve[floor] = max(0.0, floors.reserve[floor] + step)
                # The debt of a page is limited before its clicks are credited, so that it does not
                # matter whether they come one at a time; that of a batch, with its clicks.
                of_batch = brought if pages > ONE_PAGE else 0.0
                promised = least * (FIRST_PAGES + floors.rounds[floor])
                most = max(owed, MAX_DEBT * math.sqrt(promised))
                owed = min(owed + least * pages - of_batch, most) + of_batch
            floors.owed[floor] = max(owed - brought, -MAX_CREDIT * deviation)


@inner
def corrected_price(floors: Floors, floor: int, open_debt: float, spread: float) -> float:
    """Return the price of a floor in units of the revenue of an outcome of its level.

    `spread` is the root mean square of the mean sales of links, in mean sales.
    """
    promised = floors.least[floor] * (floors.rounds[floor] + 1.0)
    owed = floors.owed[floor] + floors.reserve[floor] + open_debt
    expected = max(0.0, floors.expected[floor])
    correction = owed / (floors.patience * math.sqrt(promised))
    return max(0.0, expected + max(1.0, math.sqrt(expected)) * spread * correction)


@inner
def price_visitor(floors: Floors, visitor: Links, without: int) -> None:
    """Write the value of a unit of each level for a visitor, in units of the mean sale.

    Leaves out the price of floor `without`, if that is at least 0.
    """
    for level in range(len(floors.worth)):
        floors.worth[level] = floors.reward[level]
    for floor in range(len(floors.prices)):
        if floor != without and belongs(visitor, floors.places[floor]):
            floors.worth[floors.levels[floor]] += floors.prices[floor]


class ExpectedPages(NamedTuple):
    """Value and outcome of a view of each link, a row for each of some visitors.

    `weights` are those of the slots, from best to worst; none where slots are alike. `links` is a
    buffer for one page.
    """

    value: Floats
    outcome: Floats
    weights: Floats
    links: Links


@inner
def put_best_slots_first(weights: Floats, pages: ExpectedPages) -> None:
    """Write the weights of the page's slots from the highest to the lowest."""
    ordered = pages.weights
    for k in range(len(ordered)):
        weight, place = weights[k], k
        while place > 0 and ordered[place - 1] < weight:
            ordered[place] = ordered[place - 1]
            place -= 1
        ordered[place] = weight


@inner
def _in_order(entries: Entries, price: float, weights: Floats, page: Links) -> tuple[float, float]:
    """Return value and outcome of a page whose best link at a price is in the best slot."""
    value, outcome, _ = entries
    for k in range(len(page)):
        link, place = page[k], k
        score = value[link] + price * outcome[link]
        while place > 0 and value[page[place - 1]] + price * outcome[page[place - 1]] < score:
            page[place] = page[place - 1]
            place -= 1
        page[place] = link
    page_value = page_outcome = 0.0
    for k in range(len(page)):
        page_value += weights[k] * value[page[k]]
        page_outcome += weights[k] * outcome[page[k]]
    return page_value, page_outcome


@inner
def _page_at(
    pages: ExpectedPages, n_visitors: int, n_slots: int, price: float, search: Search
) -> tuple[float, float]:
    """Return value and outcome of the best page at a price, averaged over the visitors."""
    value = outcome = 0.0
    for k in range(n_visitors):
        entries = Entries(pages.value[k], pages.outcome[k], pages.value.shape[1])
        one, its = top_page(entries, n_slots, Objective(1.0, price), search)
        if len(pages.weights) > 0:
            for place in range(n_slots):
                pages.links[place] = search.entry[place]
            one, its = _in_order(entries, price, pages.weights, pages.links)
        value += one / n_visitors
        outcome += its / n_visitors
    return value, outcome


@inner
def expect_price(
    pages: ExpectedPages, n_visitors: int, n_slots: int, least: float, most: float, search: Search
) -> float:
    """Return the price at which the best pages of the visitors just reach `least`, at most `most`.

    The values of `pages` are without this floor. The search is that of
    `slotwise.selection.price_search` without ties: a page with too little and one with enough are
    two lines, and the next price is where they intersect.
    """
    few_value, few = _page_at(pages, n_visitors, n_slots, 0.0, search)
    if few >= least:
        return 0.0
    many_value, many = _page_at(pages, n_visitors, n_slots, most, search)
    if many < least:
        return most
    price = most
    for _ in range(MAX_STEPS):
        price = (few_value - many_value) / (many - few)
        page_value, page = _page_at(pages, n_visitors, n_slots, price, search)
        gain = page_value + price * page - few_value - price * few
        if gain <= 1e-12 * few_value:
            break
        if page >= least:
            many_value, many = page_value, page
        else:
            few_value, few = page_value, page
    return min(price, most)
