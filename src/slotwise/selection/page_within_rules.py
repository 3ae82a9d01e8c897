"""The best mix within rules that keeps a floor, compiled, and the nearest page within them.

`slotwise.selection.rules` defines the program. `price_search` finds the price of the floor with the
pages of `greedy_page`; where groups cross, the simplex method of `several_floors` solves it. Used
by `frontier`, `rules`, `solve_kinds`, `player`, `policies` and `service`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slotwise.arrays import Floats
from slotwise.compile import hot, inner, int64
from slotwise.selection.greedy_page import LEAST_WEIGHT, load_links, spread, write_page
from slotwise.selection.page_rules import PageRules, SolvedWithin
from slotwise.selection.page_search import BINDING, INFEASIBLE, MAX_PRICE, NOTHING, SLACK
from slotwise.selection.price_search import floor_slackness, search_price
from slotwise.selection.several_floors import FloorsProgram, solve_floors_program


class RuledPrice(NamedTuple):
    """How the floor is kept within rules; prices are those of `slotwise.selection.price_search`."""

    status: int
    price: float
    value: float
    clicks: float


@inner
def _guess_price(rules: PageRules) -> float:
    """Return the largest value over the most clicks of what may be raised; 0 if that is no price.

    Prices are of that order, in any units.
    """
    most_value = most_clicks = 0.0
    for k in range(len(rules.free)):
        most_value = max(most_value, rules.value[k])
        most_clicks = max(most_clicks, rules.clicks[k])
    guess = most_value / most_clicks if most_clicks > 0.0 else 0.0
    return guess if guess < MAX_PRICE else 0.0


@inner
def _solve_disjoint(rules: PageRules, value: Floats, clicks: Floats, floor: float) -> RuledPrice:
    """Mix the two best pages whose lines enclose the floor, each with what links have at least.

    The search counts what links have above their least; `base_value` and `base_clicks` are those of
    the least. `part` is the share of the page with more clicks. Where a page has no ties it is the
    one that the search left in `rules.places` and `rules.taken_of`; otherwise links that tie share
    their slots, so the page is written anew.
    """
    page, other = rules.page, rules.other_page
    load_links(rules, value, clicks)
    base = base_value = base_clicks = 0.0
    for group in range(len(rules.base)):
        base += rules.base[group]
    if base > 0.0:
        for place in range(len(page)):
            base_value += rules.least[place] * value[rules.links[place]]
            base_clicks += rules.least[place] * clicks[rules.links[place]]
    left = floor - base_clicks
    guess = _guess_price(rules)
    status, few, many = search_price(None, 0, left, floor_slackness(floor), guess, 0.0, None, rules)
    price, part, n_pages = 0.0, 1.0, 1
    if status == INFEASIBLE:
        price = np.inf
    elif status == BINDING:
        n_pages = 2
        if many.clicks > few.clicks:
            part = min(1.0, max(0.0, (left - few.clicks) / (many.clicks - few.clicks)))
            price = max(0.0, (few.value - many.value) / (many.clicks - few.clicks))
    for place in range(len(page)):
        other[place] = rules.least[place]
    for k in range(n_pages):
        at, share = (many.price, part) if k == 0 else (few.price, 1.0 - part)
        is_finite, side = at < np.inf, 1 - k
        if rules.is_certain[side]:
            for entry in range(len(rules.listed)):
                other[rules.places[side, entry]] += share * rules.taken_of[side, entry]
        else:
            write_page(rules, 1.0 if is_finite else 0.0, at if is_finite else 1.0, page)
            for place in range(len(page)):
                other[place] += share * (page[place] - rules.least[place])
    for place in range(len(page)):
        rules.probabilities[rules.links[place]] = other[place]
    page_value = base_value + part * many.value + (1.0 - part) * few.value
    page_clicks = base_clicks + part * many.clicks + (1.0 - part) * few.clicks
    return RuledPrice(status, price, page_value, page_clicks)


@hot
def _solve_crossing(
    program: FloorsProgram, n_slots: int, value: Floats, clicks: Floats, floor: float
) -> RuledPrice:
    """Solve with a row for each rule; if the floor is infeasible, maximise clicks.

    Row 0 of the program is the floor. It is solved for clicks first, which gives the most that a
    page within the rules can reach, then for value with the floor or that.
    """
    simplex = program.simplex
    reach = np.inf
    price, status = 0.0, int64(SLACK)
    if floor > 0.0:
        for link in range(len(value)):
            simplex.value[link] = clicks[link]
            simplex.demands[0, link] = 0.0
        simplex.floors[0] = 0.0
        solve_floors_program(program, n_slots)
        reach = 0.0
        for link in range(len(value)):
            reach += program.x[link] * clicks[link]
    for link in range(len(value)):
        simplex.value[link] = value[link]
        simplex.demands[0, link] = clicks[link]
    is_missed = reach < floor - floor_slackness(floor)
    simplex.floors[0] = min(floor, reach * (1.0 - NOTHING)) if floor > 0.0 else 0.0
    solve_floors_program(program, n_slots)
    if is_missed:
        price, status = np.inf, int64(INFEASIBLE)
    elif floor > 0.0 and program.prices[0] > 0.0 and program.prices[0] < np.inf:
        price, status = program.prices[0], int64(BINDING)
    page_value = page_clicks = 0.0
    for link in range(len(value)):
        page_value += program.x[link] * value[link]
        page_clicks += program.x[link] * clicks[link]
    return RuledPrice(status, price, page_value, page_clicks)


@inner
def _is_solved(solved: SolvedWithin, value: Floats, clicks: Floats, floor: float) -> bool:
    """Return whether this is the program that was solved last; record it if not."""
    n_changed = int64(solved.numbers[0] != floor)
    for link in range(len(value)):
        n_changed += (solved.value[link] != value[link]) | (solved.clicks[link] != clicks[link])
    if n_changed > 0:
        solved.numbers[0] = floor
        for link in range(len(value)):
            solved.value[link], solved.clicks[link] = value[link], clicks[link]
    return n_changed == 0


@hot
def solve_within(rules: PageRules, value: Floats, clicks: Floats, floor: float) -> RuledPrice:
    """Write the best mix within the rules that keeps the floor into `rules.probabilities`.

    Many pages may be chosen before the next feedback: an unchanged program is solved once.
    """
    solved, numbers = rules.solved, rules.solved.numbers
    if _is_solved(solved, value, clicks, floor):
        for link in range(len(value)):
            rules.probabilities[link] = solved.probabilities[link]
        return RuledPrice(int64(numbers[1]), numbers[2], numbers[3], numbers[4])
    if len(rules.crossing.x) == 0:
        found = _solve_disjoint(rules, value, clicks, floor)
    else:
        found = _solve_crossing(rules.crossing, rules.n_slots, value, clicks, floor)
        for link in range(len(value)):
            rules.probabilities[link] = rules.crossing.x[link]
    numbers[1], numbers[2] = float(found.status), found.price
    numbers[3], numbers[4] = found.value, found.clicks
    for link in range(len(value)):
        solved.probabilities[link] = rules.probabilities[link]
    return found


@hot
def best_within(rules: PageRules, score: Floats, second: Floats) -> None:
    """Write the page of the largest scores within the rules; `second` decides ties."""
    if len(rules.crossing.x) > 0:
        solve_within(rules, score, second, 0.0)
        return
    load_links(rules, score, second)
    write_page(rules, 1.0, 0.0, rules.page)
    for place in range(len(rules.page)):
        rules.probabilities[rules.links[place]] = rules.page[place]


@hot
def project_within(rules: PageRules, wanted: Floats) -> None:
    """Write the probabilities nearest to those wanted within the rules.

    Nearest in relative entropy: links of a group keep their proportions as far as bounds allow.
    Where groups cross, the page of the largest probabilities is taken.
    """
    if len(rules.crossing.x) > 0:
        solve_within(rules, wanted, wanted, 0.0)
        return
    for place in range(len(rules.page)):
        rules.low[place], rules.high[place] = rules.least[place], rules.most[place]
        rules.weights[place] = max(wanted[rules.links[place]], LEAST_WEIGHT)
    for group in range(len(rules.sums)):
        rules.sum_low[group] = rules.group_least[group]
        rules.sum_high[group] = rules.group_most[group]
    spread(rules, rules.weights, rules.page)
    for place in range(len(rules.page)):
        rules.probabilities[rules.links[place]] = rules.page[place]
