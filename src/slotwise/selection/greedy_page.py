"""The best page within rules at some scores, compiled: greedy, group by group.

Of each group only as many links are listed as could fill its slots, so a page costs one pass over
the links. Once the price of the floor is enclosed, links that cannot be on a page at any price in
between are dropped. Links with equal rates at the same position of the order share their slots
equally. Used by `page_within_rules` and `price_search`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slotwise.arrays import Floats, Links
from slotwise.compile import inner, int64
from slotwise.selection.page_search import MAX_PRICE, NOTHING, Line, is_better, move_up

if TYPE_CHECKING:
    from slotwise.selection.page_rules import PageRules

FEW = 64
"""Up to this many entries of lists are sorted by comparing all pairs."""

EQUAL = 1e-14
"""Sums of slots that differ by less than this share are equal."""

LEAST_WEIGHT = 1e-12
"""The weight of a link with probability 0 that the rules require."""


@inner
def load_links(rules: PageRules, value: Floats, clicks: Floats) -> None:
    """Load value and clicks of all links that can have more than their least, group by group."""
    n_groups = len(rules.sizes)
    if rules.n_candidates[n_groups - 1] < len(rules.free):
        for group in range(n_groups):
            rules.n_candidates[group] = rules.free_ends[group]
        for k in range(len(rules.free)):
            rules.candidates[k] = rules.free[k]
        _forget_lists(rules)
    for k in range(len(rules.free)):
        link = rules.links[rules.free[k]]
        rules.value[k] = value[link]
        rules.clicks[k] = clicks[link]


@inner
def _forget_lists(rules: PageRules) -> None:
    for group in range(len(rules.sizes)):
        rules.sizes[group] = 0
    for k in range(rules.n_candidates[len(rules.sizes) - 1]):
        rules.is_listed[k] = False


@inner
def drop_dominated(rules: PageRules, few_price: float, many_price: float) -> None:
    """Drop candidates that are on no page between two prices.

    A score is linear in the price. So a link that is worse than all listed links of its group at
    both prices is worse in between, and the listed ones can fill the group.
    """
    high_value, high_clicks = (1.0, many_price) if many_price < np.inf else (0.0, 1.0)
    begin = n_left = int64(0)
    for group in range(len(rules.sizes)):
        end, least_low, least_high = rules.n_candidates[group], np.inf, np.inf
        if rules.sizes[group] < rules.needed[group]:
            least_low = least_high = -np.inf
        for entry in range(rules.starts[group], rules.starts[group] + rules.sizes[group]):
            value, clicks = rules.value[rules.listed[entry]], rules.clicks[rules.listed[entry]]
            least_low = min(least_low, value + few_price * clicks)
            least_high = min(least_high, high_value * value + high_clicks * clicks)
        least_low, least_high = (1.0 - NOTHING) * least_low, (1.0 - NOTHING) * least_high
        for k in range(begin, end):
            place, value, clicks = rules.candidates[k], rules.value[k], rules.clicks[k]
            rules.candidates[n_left], rules.value[n_left] = place, value
            rules.clicks[n_left] = clicks
            is_good = high_value * value + high_clicks * clicks >= least_high
            n_left += is_good | (value + few_price * clicks >= least_low)
        begin = end
        rules.n_candidates[group] = n_left
    _forget_lists(rules)


@inner
def _list_apart(rules: PageRules, start: int, end: int, begin: int, size: int) -> bool:
    """List the largest scores of a group one by one, vectorised, unless some are equal."""
    scores, listed, firsts = rules.score, rules.listed, rules.first
    last = np.inf
    for entry in range(begin, begin + size):
        best, place, n_equal = -np.inf, start, int64(0)
        for k in range(start, end):
            best = max(best, scores[k] if scores[k] < last else -np.inf)
        for k in range(start, end):
            place = k if scores[k] == best else place
            n_equal += scores[k] == best
        if n_equal != 1:
            return False
        listed[entry], firsts[entry] = place, best
        last = best
    return True


@inner
def _list_best(rules: PageRules, value_weight: float, click_weight: float) -> bool:
    """List the best links of every group, as many as its slots could need, the best first.

    Return whether it is certain that no link has the score of a listed one of its group.

    The lists start from those of the last page: few links have to be inserted, and in most groups
    none, as a vectorised count shows.
    """
    scores, sizes, is_listed = rules.score, rules.sizes, rules.is_listed
    listed, firsts, seconds = rules.listed, rules.first, rules.second
    seconds_of = rules.clicks if value_weight > 0.0 else rules.value
    for k in range(rules.n_candidates[len(sizes) - 1]):
        scores[k] = value_weight * rules.value[k] + click_weight * rules.clicks[k]
    start, are_apart = int64(0), True
    for group in range(len(sizes)):
        begin, size, end = rules.starts[group], sizes[group], rules.n_candidates[group]
        if rules.needed[group] <= 2:
            size = min(rules.needed[group], end - start)
            if _list_apart(rules, start, end, begin, size):
                for entry in range(begin, begin + size):
                    seconds[entry] = seconds_of[listed[entry]]
                sizes[group], start = size, end
                continue
            for k in range(start, end):
                is_listed[k] = False
            size = int64(0)
        for entry in range(begin, begin + size):
            place = listed[entry]
            firsts[entry], seconds[entry] = scores[place], seconds_of[place]
            move_up(listed, firsts, seconds, begin, entry)
        worst = -np.inf
        if size == rules.needed[group]:
            worst = firsts[begin + size - 1] if size > 0 else np.inf
        n_reaching = int64(0)
        for k in range(start, end):
            n_reaching += scores[k] >= worst
        if n_reaching > size:
            are_apart = False
            for k in range(start, end):
                if scores[k] < worst or is_listed[k]:
                    continue
                first, second = scores[k], seconds_of[k]
                last = begin + size
                if size < rules.needed[group]:
                    size += 1
                else:
                    last -= 1
                    if not is_better(first, second, firsts[last], seconds[last]):
                        continue
                    is_listed[listed[last]] = False
                listed[last], firsts[last], seconds[last] = k, first, second
                move_up(listed, firsts, seconds, begin, last)
                is_listed[k] = True
                if size == rules.needed[group]:
                    worst = firsts[begin + size - 1]
            sizes[group] = size
        start = end
    return are_apart


@inner
def _sort_few(order: Links, firsts: Floats, rank: Floats) -> bool:
    """Sort by comparing all pairs, vectorised, and return whether no scores are equal."""
    n_entries = len(order)
    for k in range(n_entries):
        rank[k] = 0.0
    for j in range(n_entries):
        first = firsts[j]
        for k in range(n_entries):
            rank[k] += 1.0 if first > firsts[k] else 0.0
    total = 0.0
    for k in range(n_entries):
        total += rank[k]
    if total < 0.5 * n_entries * (n_entries - 1):
        return False
    for k in range(n_entries):
        order[int64(rank[k])] = k
    return True


@inner
def _sort(order: Links, firsts: Floats, seconds: Floats) -> None:
    """Sort the entries of the lists, the best first, by Shell sort from the last page's order.

    Prices change in small steps, so few entries move.
    """
    gap = 1
    while 9 * gap < len(order):
        gap = 3 * gap + 1
    while gap > 0:
        for j in range(gap, len(order)):
            k, at = order[j], j
            first, second = firsts[k], seconds[k]
            while at >= gap:
                other = order[at - gap]
                if not is_better(first, second, firsts[other], seconds[other]):
                    break
                order[at] = other
                at -= gap
            order[at] = k
        gap //= 3


@inner
def _fill_page(rules: PageRules) -> tuple[int, bool]:
    """Write to `taken` what listed links have above their least; return the last one raised.

    The last one is an entry of the lists, or -1 where the guarantees of groups fill the page. Also
    return whether it is certain that no two listed links have the same score.
    """
    taken, sums, order, groups = rules.taken, rules.sums, rules.order, rules.group_of
    left = float(rules.n_slots)
    for group in range(len(sums)):
        sums[group] = rules.base[group]
        left -= max(sums[group], rules.group_least[group])
        begin = rules.starts[group] + rules.sizes[group]
        for k in range(begin, rules.starts[group] + rules.needed[group]):
            rules.first[k] = -MAX_PRICE * (1.0 + k)  # last, and no two are equal
            taken[k] = 0.0
    are_apart = len(order) <= FEW and _sort_few(order, rules.first, rules.rank)
    if not are_apart:
        _sort(order, rules.first, rules.second)
    last = int64(-1)
    for j in range(len(order)):
        k = order[j]
        group = groups[k]
        if k >= rules.starts[group] + rules.sizes[group]:
            continue
        room = rules.room[rules.candidates[rules.listed[k]]]
        room = min(room, rules.group_most[group] - sums[group])
        owed = min(room, max(0.0, rules.group_least[group] - sums[group]))
        more = min(room - owed, left)
        if more > NOTHING:
            left -= more
            last = k
            owed += more
        taken[k] = owed
        sums[group] += owed
    return last, are_apart


@inner
def line_within(rules: PageRules, price: float) -> tuple[Line, bool]:
    """Return the best page at a price, without the least of links; all clicks where infinite.

    Also return whether it is certain that nothing ties.
    """
    is_finite = price < np.inf
    are_apart = _list_best(rules, 1.0 if is_finite else 0.0, price if is_finite else 1.0)
    _, are_listed_apart = _fill_page(rules)
    page_value = page_clicks = 0.0
    for group in range(len(rules.sizes)):
        for k in range(rules.starts[group], rules.starts[group] + rules.sizes[group]):
            if rules.taken[k] > 0.0:
                page_value += rules.taken[k] * rules.value[rules.listed[k]]
                page_clicks += rules.taken[k] * rules.clicks[rules.listed[k]]
    return Line(price, page_value, page_clicks), are_apart and are_listed_apart


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

    The sum is piecewise linear in the level: a secant on one piece finds it. Every second step
    halves the interval, geometrically if its ends are of different size.
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
def spread(rules: PageRules, weights: Floats, page: Floats) -> None:
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
    """Find the score at which the links of each group share slots; NaN if none can change.

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
            is_own = is_better(page_first, page_second, first, second) or (
                is_full and is_better(first, second, page_first, page_second)
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
    """Return whether several links tie where a group or the page ends, and not all have a slot."""
    n_tied, n_partly, last = rules.n_tied, rules.n_partly, len(rules.sizes)
    for end in range(last + 1):
        n_tied[end] = n_partly[end] = 0
    begin = int64(0)
    for group in range(last):
        edge, second = rules.edge_first[group], rules.edge_second[group]
        end = last if rules.sum_low[group] < rules.sum_high[group] else group
        for k in range(begin, rules.n_candidates[group]):
            if _are_equal(rules.score[k], seconds_of[k], edge, second):
                place = rules.candidates[k]
                n_tied[end] += 1
                n_partly[end] += page[place] < rules.most[place] - NOTHING
        begin = rules.n_candidates[group]
    is_any = False
    for end in range(last + 1):
        is_any |= n_tied[end] > 1 and n_partly[end] > 0
    return is_any


@inner
def _share_ties(rules: PageRules, page: Floats, seconds_of: Floats) -> None:
    """Share slots equally among the links that tie at the end of a group or of the page."""
    for place in range(len(page)):
        rules.weights[place] = 1.0
        rules.low[place] = rules.high[place] = page[place]
    begin = int64(0)
    for group in range(len(rules.sizes)):
        edge, second = rules.edge_first[group], rules.edge_second[group]
        for k in range(begin, rules.n_candidates[group]):
            if _are_equal(rules.score[k], seconds_of[k], edge, second):
                place = rules.candidates[k]
                rules.low[place], rules.high[place] = rules.least[place], rules.most[place]
        begin = rules.n_candidates[group]
    spread(rules, rules.weights, page)


@inner
def write_page(rules: PageRules, value_weight: float, click_weight: float, page: Floats) -> None:
    """Write the best page at these weights, group by group; links that tie share equally."""
    are_apart = _list_best(rules, value_weight, click_weight)
    last, are_listed_apart = _fill_page(rules)
    for place in range(len(page)):
        page[place] = rules.least[place]
    for group in range(len(rules.sizes)):
        for k in range(rules.starts[group], rules.starts[group] + rules.sizes[group]):
            page[rules.candidates[rules.listed[k]]] += rules.taken[k]
    if are_apart and are_listed_apart:
        return
    _find_edges(rules, last)
    seconds_of = rules.clicks if value_weight > 0.0 else rules.value
    if _are_tied(rules, page, seconds_of):
        _share_ties(rules, page, seconds_of)


@inner
def keep_line(rules: PageRules, side: int, is_certain: bool) -> None:
    """Keep the page found last as the one with too few clicks (0) or with enough (1)."""
    rules.is_certain[side] = is_certain
    for k in range(len(rules.listed)):
        rules.places[side, k] = rules.candidates[rules.listed[k]]
        rules.taken_of[side, k] = rules.taken[k]
