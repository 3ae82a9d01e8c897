"""The best page within rules, compiled: greedy at any scores, and at the price that keeps a floor.

`slotwise.selection.rules` says what is solved and makes the `PageRules`. Of each group only as many
links are listed as could fill its slots, so a page costs one pass over the links. Links with equal
rates in the same place of the order share their slots equally.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.arrays import Floats, Links
from slotwise.compile import hot, inner, int64
from slotwise.selection.price_search import (
    BINDING,
    INFEASIBLE,
    MAX_PRICE,
    MAX_STEPS,
    SLACK,
    Line,
    floor_slackness,
    meeting_price,
)
from slotwise.selection.several_floors import FloorsProgram, solve_floors_program

NOTHING = 1e-12
"""A share of a slot below this is none."""

GAIN = 1e-14
"""A page must be better by this part to continue the search for a price."""

N_GUESSES = 3
"""How many prices are tried around the ratio of values to clicks, each four times the last."""

EQUAL = 1e-14
"""Sums of slots that differ by less than this part are equal."""

LEAST_WEIGHT = 1e-12
"""What a link without a probability weighs, where the rules ask for it."""


class PageRules(NamedTuple):
    """Rules that can all be kept, as arrays, and buffers to find a page within them.

    `links` has the links group by group, those without one in a last group that has no rules;
    group g has the places from `ends[g - 1]` to `ends[g]`, and `least`, `most` and the buffers
    follow that order. Entries from `starts[g]` on of `listed` are the best places of group g;
    `needed[g]` says how many there may be. `boost` multiplies the scores of links, and
    `probabilities` is the page found last, both in the order of the pool. `crossing` has a row for
    each rule where groups cross, after a first one for the click floor, and no links otherwise.
    """

    n_slots: int
    links: Links
    least: Floats
    most: Floats
    ends: Links
    group_least: Floats
    group_most: Floats
    base: Floats
    value: Floats
    clicks: Floats
    score: Floats
    needed: Links
    starts: Links
    listed: Links
    is_listed: NDArray[np.bool_]
    first: Floats
    second: Floats
    taken: Floats
    available: Floats
    best: Links
    sizes: Links
    sums: Floats
    page: Floats
    other_page: Floats
    edge_first: Floats
    edge_second: Floats
    n_tied: Links
    n_partly: Links
    low: Floats
    high: Floats
    sum_low: Floats
    sum_high: Floats
    weights: Floats
    every_link: Links
    boost: Floats
    worth: Floats
    probabilities: Floats
    crossing: FloorsProgram


class RuledPrice(NamedTuple):
    """How the floor is kept within rules; prices as those of `slotwise.selection.price_search`."""

    status: int
    price: float
    value: float
    clicks: float


# The best page at some scores


@inner
def _is_better(first: float, second: float, other_first: float, other_second: float) -> bool:
    return first > other_first or (first == other_first and second > other_second)


@inner
def _arrange(rules: PageRules, value: Floats, clicks: Floats) -> None:
    """Take in value and clicks, group by group."""
    for k in range(len(value)):
        rules.value[k] = value[rules.links[k]]
        rules.clicks[k] = clicks[rules.links[k]]


@inner
def _insert(
    listed: Links,
    firsts: Floats,
    seconds: Floats,
    begin: int,
    at: int,
    place: int,
    first: float,
    second: float,
) -> None:
    """Move a place up from entry `at` of a list that begins at `begin`.

    It takes three arrays and not the rules: passing many arrays costs more than inserting.
    """
    k = at
    while k > begin and _is_better(first, second, firsts[k - 1], seconds[k - 1]):
        listed[k], firsts[k], seconds[k] = listed[k - 1], firsts[k - 1], seconds[k - 1]
        k -= 1
    listed[k], firsts[k], seconds[k] = place, first, second


@inner
def _list_best(rules: PageRules, value_weight: float, click_weight: float) -> None:
    """List the best links of every group, as many as its slots could need, the best first.

    The lists start from those of the last page: few links have to be inserted, and in most groups
    none, which counting says in vectors.
    """
    scores, sizes, is_listed = rules.score, rules.sizes, rules.is_listed
    listed, firsts, seconds = rules.listed, rules.first, rules.second
    seconds_of = rules.clicks if value_weight > 0.0 else rules.value
    for k in range(len(scores)):
        scores[k] = value_weight * rules.value[k] + click_weight * rules.clicks[k]
    start = int64(0)
    for group in range(len(sizes)):
        begin, size = rules.starts[group], sizes[group]
        for entry in range(begin, begin + size):
            place = listed[entry]
            first, second = scores[place], seconds_of[place]
            _insert(listed, firsts, seconds, begin, entry, place, first, second)
        worst = -np.inf
        if size == rules.needed[group]:
            worst = firsts[begin + size - 1] if size > 0 else np.inf
        n_reaching = int64(0)
        for place in range(start, rules.ends[group]):
            n_reaching += scores[place] >= worst
        if n_reaching > size:
            for place in range(start, rules.ends[group]):
                if scores[place] < worst or is_listed[place]:
                    continue
                if rules.most[place] <= rules.least[place]:
                    continue
                first, second = scores[place], seconds_of[place]
                end = begin + size
                if size < rules.needed[group]:
                    size += 1
                else:
                    end -= 1
                    if not _is_better(first, second, firsts[end], seconds[end]):
                        continue
                    is_listed[listed[end]] = False
                _insert(listed, firsts, seconds, begin, end, place, first, second)
                is_listed[place] = True
                if size == rules.needed[group]:
                    worst = firsts[begin + size - 1]
            sizes[group] = size
        start = rules.ends[group]


@inner
def _fill_page(rules: PageRules) -> int:
    """Decide in `taken` what the listed links have above their least; return the last one raised.

    The last one is an entry of the lists, or -1 where the guarantees of groups fill the page.
    """
    listed, taken, available, best = rules.listed, rules.taken, rules.available, rules.best
    firsts, seconds, starts, sums = rules.first, rules.second, rules.starts, rules.sums
    left = float(rules.n_slots)
    for group in range(len(sums)):
        sums[group] = rules.base[group]
        for k in range(starts[group], starts[group] + rules.sizes[group]):
            taken[k] = 0.0
            missing = rules.group_least[group] - sums[group]
            if missing > 0.0:
                taken[k] = min(rules.most[listed[k]] - rules.least[listed[k]], missing)
                sums[group] += taken[k]
        left -= sums[group]
    n_best = int64(0)
    reach = 0.0  # how much the entries in `best` can take
    for group in range(len(sums) - 1, -1, -1):  # links without a group are many, and sorted
        room_of_group = rules.group_most[group] - sums[group]
        for k in range(starts[group], starts[group] + rules.sizes[group]):
            first, second = firsts[k], seconds[k]
            if reach >= left:
                if n_best == 0:
                    break
                last = best[n_best - 1]
                if not _is_better(first, second, firsts[last], seconds[last]):
                    break
            room = rules.most[listed[k]] - rules.least[listed[k]] - taken[k]
            room = min(room, room_of_group)
            if room <= NOTHING:
                continue
            j = n_best
            while j > 0 and _is_better(first, second, firsts[best[j - 1]], seconds[best[j - 1]]):
                best[j] = best[j - 1]
                j -= 1
            best[j] = k
            n_best += 1
            available[k] = room
            room_of_group -= room
            reach += room
            while n_best > 0 and reach - available[best[n_best - 1]] >= left:
                n_best -= 1
                reach -= available[best[n_best]]
    last_raised = int64(-1)
    for j in range(n_best):
        k = best[j]
        amount = min(available[k], left)
        if amount > NOTHING:
            taken[k] += amount
            left -= amount
            last_raised = k
    return last_raised


@inner
def _line_at(rules: PageRules, price: float) -> Line:
    """Return the best page at a price, without the least of links; all clicks where infinite."""
    if price == np.inf:
        _list_best(rules, 0.0, 1.0)
    else:
        _list_best(rules, 1.0, price)
    _fill_page(rules)
    page_value = page_clicks = 0.0
    for group in range(len(rules.sizes)):
        for k in range(rules.starts[group], rules.starts[group] + rules.sizes[group]):
            if rules.taken[k] > 0.0:
                page_value += rules.taken[k] * rules.value[rules.listed[k]]
                page_clicks += rules.taken[k] * rules.clicks[rules.listed[k]]
    return Line(price, page_value, page_clicks)


# Links that tie


@inner
def _level_sum(
    low: Floats, high: Floats, weights: Floats, begin: int, end: int, level: float
) -> float:
    """Return the slots of places that have `level` times their weight, within bounds."""
    total = 0.0
    for place in range(begin, end):
        total += min(high[place], max(low[place], level * weights[place]))
    return total


@inner
def _reached(rules: PageRules, group: int, weights: Floats, level: float) -> float:
    """Return the slots of a group, or of the page where `group` is -1, at a level."""
    low, high, ends = rules.low, rules.high, rules.ends
    if group >= 0:
        begin = ends[group - 1] if group > 0 else int64(0)
        return _level_sum(low, high, weights, begin, ends[group], level)
    reached, begin = 0.0, int64(0)
    for one in range(len(rules.sums)):
        of_group = _level_sum(low, high, weights, begin, ends[one], level)
        reached += min(rules.sum_high[one], max(rules.sum_low[one], of_group))
        begin = ends[one]
    return reached


@inner
def _level_of(rules: PageRules, group: int, weights: Floats, total: float, most: float) -> float:
    """Return the level at which a group, or the page where `group` is -1, has `total` slots.

    What is reached is piecewise linear in the level: a secant that stays on one piece finds it.
    Every second step halves the interval, by its ends' ratio where these are of different size.
    """
    below, above = 0.0, most
    at_below = _reached(rules, group, weights, below)
    at_above = _reached(rules, group, weights, above)
    for step in range(120):
        level = 0.5 * (below + above)
        if step % 2 == 0 and at_above > at_below:
            level = below + (above - below) * (total - at_below) / (at_above - at_below)
        elif below == 0.0 and above > LEAST_WEIGHT:
            level = above * 2.0**-8
        elif step % 4 == 1:
            level = np.sqrt(below) * np.sqrt(above)
        if not below < level < above:
            if step % 2 == 1:
                break
            continue
        reached = _reached(rules, group, weights, level)
        if abs(reached - total) <= EQUAL * total:
            return level
        if reached < total:
            below, at_below = level, reached
        else:
            above, at_above = level, reached
    return above


@inner
def _spread(rules: PageRules, weights: Floats, page: Floats) -> None:
    """Fill a page in proportion to weights, within `low`, `high`, `sum_low` and `sum_high`."""
    most = 0.0
    for place in range(len(page)):
        if rules.high[place] > rules.low[place]:
            most = max(most, rules.high[place] / weights[place])
    level = _level_of(rules, int64(-1), weights, float(rules.n_slots), most)
    begin = int64(0)
    for group in range(len(rules.sums)):
        end = rules.ends[group]
        of_group = level
        total = _level_sum(rules.low, rules.high, weights, begin, end, level)
        wanted = min(rules.sum_high[group], max(rules.sum_low[group], total))
        if wanted != total:
            of_group = _level_of(rules, group, weights, wanted, most)
        for place in range(begin, end):
            page[place] = min(rules.high[place], max(rules.low[place], of_group * weights[place]))
        begin = end


@inner
def _find_edges(rules: PageRules, last: int) -> None:
    """Find the score at which the links of each group share; NaN where none can rise or fall.

    A group that is full, or that has its least only, shares at the score of its own last link; all
    others at that of the page's last link, where the slots of the group stay free.
    """
    page_first = rules.first[last] if last >= 0 else np.nan
    page_second = rules.second[last] if last >= 0 else np.nan
    for group in range(len(rules.sizes)):
        own, total = int64(-1), rules.base[group]
        for k in range(rules.starts[group], rules.starts[group] + rules.sizes[group]):
            if rules.taken[k] > NOTHING:
                own = k
                total += rules.taken[k]
        is_full = total >= rules.group_most[group] - NOTHING
        is_own = own >= 0 and last < 0
        if own >= 0 and last >= 0:
            first, second = rules.first[own], rules.second[own]
            is_own = _is_better(page_first, page_second, first, second) or (
                is_full and _is_better(first, second, page_first, page_second)
            )
        rules.sum_low[group], rules.sum_high[group] = total, total
        rules.edge_first[group], rules.edge_second[group] = np.nan, np.nan
        if is_own:
            rules.edge_first[group], rules.edge_second[group] = rules.first[own], rules.second[own]
        elif last >= 0 and not (is_full and own < 0):
            rules.edge_first[group], rules.edge_second[group] = page_first, page_second
            rules.sum_low[group] = rules.group_least[group]
            rules.sum_high[group] = rules.group_most[group]


@inner
def _are_equal(first: float, second: float, other_first: float, other_second: float) -> bool:
    return first == other_first and second == other_second


@inner
def _are_tied(rules: PageRules, page: Floats, seconds_of: Floats) -> bool:
    """Say whether several links tie where a group or the page ends, and not all have a slot."""
    n_tied, n_partly, last = rules.n_tied, rules.n_partly, len(rules.sizes)
    for end in range(last + 1):
        n_tied[end] = n_partly[end] = 0
    begin = int64(0)
    for group in range(last):
        edge, second = rules.edge_first[group], rules.edge_second[group]
        n_at_edge = int64(0)
        for place in range(begin, rules.ends[group]):
            n_at_edge += rules.score[place] == edge
        if n_at_edge > 0:
            end = last if rules.sum_low[group] < rules.sum_high[group] else group
            for place in range(begin, rules.ends[group]):
                if not _are_equal(rules.score[place], seconds_of[place], edge, second):
                    continue
                if rules.most[place] > rules.least[place]:
                    n_tied[end] += 1
                    n_partly[end] += page[place] < rules.most[place] - NOTHING
        begin = rules.ends[group]
    is_any = False
    for end in range(last + 1):
        is_any |= n_tied[end] > 1 and n_partly[end] > 0
    return is_any


@inner
def _share_ties(rules: PageRules, page: Floats, seconds_of: Floats) -> None:
    """Let the links that tie where a group or the page ends share their slots equally."""
    begin = int64(0)
    for group in range(len(rules.sizes)):
        edge, second = rules.edge_first[group], rules.edge_second[group]
        for place in range(begin, rules.ends[group]):
            rules.weights[place] = 1.0
            rules.low[place] = rules.high[place] = page[place]
            if _are_equal(rules.score[place], seconds_of[place], edge, second):
                rules.low[place], rules.high[place] = rules.least[place], rules.most[place]
        begin = rules.ends[group]
    _spread(rules, rules.weights, page)


@inner
def _write_page(rules: PageRules, value_weight: float, click_weight: float, page: Floats) -> None:
    """Write the best page at these weights, group by group; links that tie share equally."""
    _list_best(rules, value_weight, click_weight)
    last = _fill_page(rules)
    for place in range(len(page)):
        page[place] = rules.least[place]
    for group in range(len(rules.sizes)):
        for k in range(rules.starts[group], rules.starts[group] + rules.sizes[group]):
            page[rules.listed[k]] += rules.taken[k]
    _find_edges(rules, last)
    seconds_of = rules.clicks if value_weight > 0.0 else rules.value
    if _are_tied(rules, page, seconds_of):
        _share_ties(rules, page, seconds_of)


# The program


@inner
def _search_price(rules: PageRules, floor: float, slackness: float) -> tuple[int, Line, Line]:
    """Return the status of a floor, and two pages that enclose it: one with too few clicks."""
    few, many = Line(-1.0, 0.0, 0.0), Line(np.inf, 0.0, 0.0)
    most_value = most_clicks = 0.0
    for place in range(len(rules.value)):
        most_value = max(most_value, rules.value[place])
        most_clicks = max(most_clicks, rules.clicks[place])
    price = most_value / most_clicks if most_clicks > 0.0 else 0.0
    for _ in range(N_GUESSES):
        if 0.0 < price < MAX_PRICE and (few.price < 0.0 or many.price == np.inf):
            line = _line_at(rules, price)
            if line.clicks < floor - slackness:
                few = line
                price *= 4.0
            else:
                many = line
                price *= 0.25
    if few.price < 0.0:
        few = _line_at(rules, 0.0)
        if few.clicks >= floor - slackness:
            return int64(SLACK), few, few
    if many.price == np.inf:
        many = _line_at(rules, np.inf)
        if many.clicks < floor - slackness:
            return int64(INFEASIBLE), many, many
    nudge = GAIN
    for _ in range(MAX_STEPS):
        price = meeting_price(few, many, nudge)
        if price >= MAX_PRICE or not few.price < price < many.price:
            break
        line = _line_at(rules, price)
        gain = line.value - few.value + price * (line.clicks - few.clicks)
        if gain <= GAIN * (abs(few.value) + price * few.clicks):
            break
        if line.clicks < floor - slackness:
            few = line
        else:
            many = line
        nudge *= 4.0
    return int64(BINDING), few, many


@inner
def _solve_disjoint(rules: PageRules, value: Floats, clicks: Floats, floor: float) -> RuledPrice:
    page, other = rules.page, rules.other_page
    _arrange(rules, value, clicks)
    base = base_value = base_clicks = 0.0
    for group in range(len(rules.base)):
        base += rules.base[group]
    if base > 0.0:
        for place in range(len(page)):
            base_value += rules.least[place] * rules.value[place]
            base_clicks += rules.least[place] * rules.clicks[place]
    left = floor - base_clicks
    status, few, many = _search_price(rules, left, floor_slackness(floor))
    if many.price == np.inf:
        _write_page(rules, 0.0, 1.0, page)
    else:
        _write_page(rules, 1.0, many.price, page)
    price, part = 0.0, 1.0
    if status == INFEASIBLE:
        price = np.inf
    elif status == BINDING:
        if many.clicks > few.clicks:
            part = min(1.0, max(0.0, (left - few.clicks) / (many.clicks - few.clicks)))
            price = max(0.0, (few.value - many.value) / (many.clicks - few.clicks))
        _write_page(rules, 1.0, few.price, other)
        for place in range(len(page)):
            page[place] = part * page[place] + (1.0 - part) * other[place]
    for place in range(len(page)):
        rules.probabilities[rules.links[place]] = page[place]
    page_value = base_value + part * many.value + (1.0 - part) * few.value
    page_clicks = base_clicks + part * many.clicks + (1.0 - part) * few.clicks
    return RuledPrice(status, price, page_value, page_clicks)


@hot
def _solve_crossing(
    program: FloorsProgram, n_slots: int, value: Floats, clicks: Floats, floor: float
) -> RuledPrice:
    """Solve with a row for each rule; a floor out of reach of the rules takes the most clicks."""
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


@hot
def solve_within(rules: PageRules, value: Floats, clicks: Floats, floor: float) -> RuledPrice:
    """Write the best mix within the rules that keeps the floor into `rules.probabilities`."""
    if len(rules.crossing.x) == 0:
        return _solve_disjoint(rules, value, clicks, floor)
    found = _solve_crossing(rules.crossing, rules.n_slots, value, clicks, floor)
    for link in range(len(value)):
        rules.probabilities[link] = rules.crossing.x[link]
    return found


@hot
def best_within(rules: PageRules, score: Floats, second: Floats) -> None:
    """Write the page of the largest scores within the rules; `second` decides ties."""
    if len(rules.crossing.x) > 0:
        solve_within(rules, score, second, 0.0)
        return
    _arrange(rules, score, second)
    _write_page(rules, 1.0, 0.0, rules.page)
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
    _spread(rules, rules.weights, rules.page)
    for place in range(len(rules.page)):
        rules.probabilities[rules.links[place]] = rules.page[place]
