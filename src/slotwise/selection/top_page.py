"""The best page at given weights, found by counting.

A page is the `n_slots` links with the largest score; its threshold is the score of the last of them
(`slotwise.selection.page_search`).

A pass over a large pool lists the links above a cut a little below the expected threshold, and the
page is found in the list. A cut that is too high is lowered: it affects the work, not the page. In
a small pool all links are scored and nothing is listed. Nothing here allocates: the caller owns the
buffers.

The links of a page are in the order of the pool, except for those that tie at its end. Used by most
of `selection`, and by `policies`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slotwise.arrays import Floats, Links
from slotwise.compile import inner, int64
from slotwise.compile.decorators import LANES, WORD
from slotwise.selection.page_search import (
    DRIFT,
    GAP,
    IS_LISTED,
    IS_WARM,
    LAST_PRICE,
    LAST_SLOPE,
    LAST_THRESHOLD,
    LAST_WEIGHS_VALUE,
    N_CANDIDATES,
    N_CERTAIN,
    N_LISTED,
    REACH,
    SURE_CLICKS,
    Entries,
    Objective,
    Search as Search,  # policies use it, too
    new_search as new_search,
    put_best_first,
)
from slotwise.selection.passes import (
    find_threshold,
    list_at_least,
    neighbours,
    page_sums,
    score_all,
    split_page,
)

TIE = 1e-12
"""Scores closer than this, relative to the score of the last link on the page, are equal."""

SAMPLE = int64(64)

SMALL_POOL = 600
"""In a pool up to this size, looking at all links costs less than lists."""

MOST = 1e300
"""Replaces an infinite score where scores are sorted."""

SPARE = 8
"""A list should have this many links beyond the page, and up to twice as many."""


class Found(NamedTuple):
    """A page in a list: the score of its last link, and the sums of those that reach it.

    `n_reaching` links are in the sums, more than the page has where links tie at its end.
    """

    threshold: float
    n_reaching: int
    value: float
    clicks: float


@inner
def sampled_cut(entries: Entries, n_slots: int, objective: Objective, search: Search) -> float:
    """Return a score that about twice as many links as needed should exceed."""
    value, clicks, n_entries = entries
    value_weight, click_weight = objective
    if n_entries <= SAMPLE or 4 * n_slots > n_entries:
        return -np.inf
    stride = n_entries // SAMPLE
    for k in range(SAMPLE):
        i = k * stride
        search.first[k] = value_weight * value[i] + click_weight * clicks[i]
        search.second[k] = 0.0
    rank = 2 + (2 * n_slots * SAMPLE) // n_entries
    put_best_first(search, int64(0), SAMPLE, rank)
    return search.first[rank - 1]


@inner
def _score(entries: Entries, objective: Objective, search: Search) -> None:
    """Score some entries; a word of minus infinity follows."""
    value, clicks, n_entries = entries
    value_weight, click_weight = objective
    scores = search.listed_score
    for k in range(n_entries):
        scores[k] = value_weight * value[k] + click_weight * clicks[k]
    for k in range(n_entries, n_entries + WORD):
        scores[k] = -np.inf


@inner
def _threshold_from(
    below: float, above: float, n_above: int, n_slots: int, search: Search
) -> float:
    """Return the threshold of the page; the `neighbours` of where it is expected are known."""
    threshold, search.numbers[GAP] = find_threshold(
        search.listed_score,
        search.sizes[N_LISTED],
        n_slots,
        below,
        above,
        n_above,
        search.numbers[GAP],
    )
    return threshold


@inner
def _listed_threshold(n_slots: int, expected: float, search: Search) -> float:
    """Return the threshold of the page among listed links that are scored."""
    n_blocks = (search.sizes[N_LISTED] + LANES - 1) // LANES
    below, above, n_above = neighbours(search.listed_score, n_blocks, expected)
    return _threshold_from(below, above, n_above, n_slots, search)


@inner
def _threshold_in_list(
    entries: Entries, n_slots: int, objective: Objective, expected: float, search: Search
) -> float:
    """List the links of a large pool that can be on the page, score them; return its threshold."""
    value, clicks, n_entries = entries
    value_weight, click_weight = objective
    numbers = search.numbers
    listed, of_value, of_clicks = search.listed, search.listed_value, search.listed_clicks
    cut = expected - numbers[REACH] - 0.1 * abs(click_weight - numbers[LAST_PRICE])
    if expected == -np.inf:
        numbers[REACH] = 1e-3
        cut = sampled_cut(entries, n_slots, objective, search)
    threshold = cut
    for attempt in range(6):
        if attempt == 5:
            cut = -np.inf
        n_listed = list_at_least(
            value, clicks, n_entries, value_weight, click_weight, cut, listed, of_value, of_clicks
        )
        search.sizes[N_LISTED] = n_listed
        if attempt == 0:
            if n_listed > n_slots + 2 * SPARE:
                numbers[REACH] *= 0.9
            elif n_listed < n_slots + SPARE:
                numbers[REACH] *= 1.15
        if n_listed >= n_slots:
            _score(Entries(of_value, of_clicks, n_listed), objective, search)
            threshold = _listed_threshold(n_slots, max(expected, cut), search)
            if cut < threshold - _tolerance(click_weight):
                break
        numbers[REACH] = max(2.0 * numbers[REACH], 1e-7)
        cut -= 2.0 * numbers[REACH]
    return threshold


@inner
def _n_summed(search: Search) -> int:
    """Return how many scores are looked at for sums: whole blocks of what is listed."""
    n_listed = search.sizes[N_LISTED]
    is_listed = search.sizes[IS_LISTED] == 1
    return (n_listed + LANES - 1) // LANES * LANES if is_listed else n_listed


@inner
def _tolerance(click_weight: float) -> float:
    """Return by how much scores that tie may differ, and more."""
    return 4.0 * TIE * (1.0 + abs(click_weight))


@inner
def forget_list(search: Search) -> None:
    """Search the next page among all entries, which may have changed."""
    search.sizes[N_LISTED] = 0


@inner
def _expected_threshold(objective: Objective, is_first: bool, search: Search) -> float:
    """Return where the page should end, estimated from the last page."""
    value_weight, click_weight = objective
    numbers, sizes = search.numbers, search.sizes
    weighs_value = 1 if value_weight > 0.0 else 0
    is_warm = sizes[IS_WARM] == 1 and sizes[LAST_WEIGHS_VALUE] == weighs_value
    sizes[IS_WARM], sizes[LAST_WEIGHS_VALUE] = 1, weighs_value
    if not is_warm:
        numbers[DRIFT], numbers[GAP] = 0.0, 1e-3
        return -np.inf
    moved = click_weight - numbers[LAST_PRICE]
    drift = numbers[DRIFT] if is_first else 0.0
    return numbers[LAST_THRESHOLD] + moved * numbers[LAST_SLOPE] + drift


@inner
def _find(
    entries: Entries, n_slots: int, objective: Objective, is_listed: bool, search: Search
) -> Found:
    """Find the best page, among listed entries or among all; note it for the next."""
    value, clicks, n_entries = entries
    value_weight, click_weight = objective
    sizes, numbers = search.sizes, search.numbers
    is_first = sizes[N_LISTED] == 0
    expected = _expected_threshold(objective, is_first, search)
    sizes[IS_LISTED] = is_listed
    if is_listed:
        threshold = _threshold_in_list(entries, n_slots, objective, expected, search)
    else:
        sizes[N_LISTED] = n_entries
        if n_entries < LANES:
            _score(entries, objective, search)
            threshold = _listed_threshold(n_slots, expected, search)
        else:
            below, above, n_above = score_all(
                value, clicks, n_entries, value_weight, click_weight, expected, search.listed_score
            )
            threshold = _threshold_from(below, above, n_above, n_slots, search)
    n_reaching, page_value, page_clicks, slope = page_sums(
        search.listed_score,
        search.listed_value if is_listed else value,
        search.listed_clicks if is_listed else clicks,
        _n_summed(search),
        threshold - TIE * threshold,
        threshold,
    )
    if is_first and expected > -np.inf:
        # links never shown may have scores of any size, which predict nothing
        off = threshold - expected
        numbers[DRIFT] = numbers[DRIFT] + 0.1 * off if abs(off) < 1.0 else 0.0
    numbers[LAST_PRICE] = click_weight
    numbers[LAST_THRESHOLD] = threshold
    numbers[LAST_SLOPE] = slope
    return Found(threshold, n_reaching, page_value, page_clicks)


@inner
def find_among_all(entries: Entries, n_slots: int, objective: Objective, search: Search) -> Found:
    """Find the best page by looking at all entries."""
    return _find(entries, n_slots, objective, False, search)


@inner
def find_page(entries: Entries, n_slots: int, objective: Objective, search: Search) -> Found:
    """Find the best page, in a large pool among the entries above a cut."""
    return _find(entries, n_slots, objective, entries.n_entries > SMALL_POOL, search)


@inner
def ends_of(found: Found, click_weight: float) -> tuple[float, float]:
    """Return scores around the end of a page: links below are not on it, links above surely are."""
    edge = 2.0 * (_tolerance(click_weight) + TIE * abs(found.threshold))
    return found.threshold - edge, found.threshold + edge


@inner
def list_page(
    entries: Entries, n_slots: int, objective: Objective, found: Found, search: Search
) -> float:
    """Put the page that `find_page` found first among the candidates.

    Ties go to more clicks; where clicks alone count, to more value. Every entry that ties with
    the page's last is among the candidates. Return a score that every certain entry reaches.
    """
    entry, first, second, others = search.entry, search.first, search.second, search.ties
    scores, listed, n_listed = search.listed_score, search.listed, search.sizes[N_LISTED]
    is_listed = search.sizes[IS_LISTED] == 1
    least, certain = ends_of(found, objective.click_weight)
    n_words = (n_listed + WORD - 1) // WORD
    n_certain, n_others = split_page(scores, n_words, certain, least, entry, others)
    end = n_certain + n_others
    if objective.value_weight > 0.0:
        tie_of = search.listed_clicks if is_listed else entries.clicks
    else:
        tie_of = search.listed_value if is_listed else entries.value
    n_equal = int64(0)
    for k in range(n_certain, end):
        other = others[k - n_certain]
        entry[k] = other
        first[k], second[k] = scores[other], tie_of[other]
        n_equal += (first[k] == first[n_certain]) & (second[k] == second[n_certain])
    if n_equal < n_others:
        put_best_first(search, n_certain, end, n_slots - n_certain)
    if is_listed:
        for k in range(end):
            entry[k] = listed[entry[k]]
    search.sizes[N_CANDIDATES] = end
    search.sizes[N_CERTAIN] = n_certain
    return certain


@inner
def lay_out_page(
    entries: Entries, n_slots: int, objective: Objective, found: Found, search: Search
) -> tuple[float, float]:
    """Put the page first among the candidates, as `list_page`; return its value and clicks."""
    certain = list_page(entries, n_slots, objective, found, search)
    is_listed = search.sizes[IS_LISTED] == 1
    _, page_value, page_clicks, _ = page_sums(
        search.listed_score,
        search.listed_value if is_listed else entries.value,
        search.listed_clicks if is_listed else entries.clicks,
        _n_summed(search),
        certain,
        certain,
    )
    search.numbers[SURE_CLICKS] = page_clicks
    for k in range(search.sizes[N_CERTAIN], n_slots):
        page_value += entries.value[search.entry[k]]
        page_clicks += entries.clicks[search.entry[k]]
    return page_value, page_clicks


@inner
def top_page(
    entries: Entries, n_slots: int, objective: Objective, search: Search
) -> tuple[float, float]:
    """Put the best page first in `search`; return its value and clicks."""
    forget_list(search)
    found = find_page(entries, n_slots, objective, search)
    if has_finite_end(found, n_slots):
        return lay_out_page(entries, n_slots, objective, found, search)
    return sort_page(entries, n_slots, objective, search)


@inner
def has_finite_end(found: Found, n_slots: int) -> bool:
    """Return whether the page does not end among infinite scores."""
    return found.n_reaching >= n_slots and abs(found.threshold) < np.inf


@inner
def sort_page(
    entries: Entries, n_slots: int, objective: Objective, search: Search
) -> tuple[float, float]:
    """Do as `top_page` by sorting, where the page ends among infinite scores; those tie."""
    value, clicks, n_entries = entries
    value_weight, click_weight = objective
    tie_of = clicks if value_weight > 0.0 else value
    for i in range(n_entries):
        score = value_weight * value[i] + click_weight * clicks[i]
        search.first[i] = min(max(score, -MOST), MOST)
        search.second[i] = tie_of[i]
    entry = search.entry
    for i in range(n_entries):
        entry[i] = i
    put_best_first(search, int64(0), n_entries, n_slots)
    search.sizes[N_CANDIDATES], search.sizes[N_CERTAIN] = n_entries, 0
    search.sizes[IS_WARM], search.numbers[SURE_CLICKS] = 0, 0.0
    page_value = page_clicks = 0.0
    for k in range(n_slots):
        page_value += value[entry[k]]
        page_clicks += clicks[entry[k]]
    return page_value, page_clicks


class Boundary(NamedTuple):
    """The ties of a page, sorted by clicks in `search.ties` where they exceed `slots`.

    At a price, every link clearly above the threshold is on every best page. The links that tie at
    the threshold fill the remaining slots in any way, so the best pages have a range of clicks. The
    floor is kept exactly at a price whose range contains it.

    `slots` are left for them; `fewest` and `most` are the clicks of these slots with the least and
    with the most clicked ties in them. Links above `least_above` are sure and have `clicks_above`,
    a separate sum so that a steep price does not magnify its rounding error.
    """

    n_ties: int
    slots: int
    least_above: float
    clicks_above: float
    fewest: float
    most: float


@inner
def sink(order: Links, root: int, size: int, keys: Floats) -> None:
    """Move the root of a heap down to its place; the entry with the largest key is on top."""
    moved = order[root]
    while True:
        child = 2 * root + 1
        if child >= size:
            break
        if child + 1 < size and keys[order[child + 1]] > keys[order[child]]:
            child += 1
        if keys[order[child]] <= keys[moved]:
            break
        order[root] = order[child]
        root = child
    order[root] = moved


@inner
def _sort_by_clicks(ties: Links, n_ties: int, clicks: Floats) -> None:
    """Sort ascending in place (heap sort: ties are few, and nothing may be allocated)."""
    for root in range(n_ties // 2 - 1, -1, -1):
        sink(ties, root, n_ties, clicks)
    for last in range(n_ties - 1, 0, -1):
        ties[0], ties[last] = ties[last], ties[0]
        sink(ties, int64(0), last, clicks)


@inner
def page_boundary(clicks: Floats, n_slots: int, search: Search) -> Boundary:
    """Return the boundary of the page that `top_page` left in `search`.

    Scores are sums of two products of nonnegative numbers, so scores that are equal without
    rounding differ by a few units in the last place of the threshold, whatever its scale.
    """
    entry, first, ties = search.entry, search.first, search.ties
    threshold = first[n_slots - 1]
    least_above = threshold + TIE * threshold
    least_tied = threshold - TIE * threshold
    n_above = search.sizes[N_CERTAIN]
    n_ties = int64(0)
    clicks_above = search.numbers[SURE_CLICKS]
    for k in range(n_above, search.sizes[N_CANDIDATES]):
        if first[k] > least_above:
            n_above += 1
            clicks_above += clicks[entry[k]]
        elif first[k] >= least_tied:
            ties[n_ties] = entry[k]
            n_ties += 1
    slots = n_slots - n_above
    if n_ties > slots:
        _sort_by_clicks(ties, n_ties, clicks)
    fewest = most = 0.0
    for k in range(slots):
        fewest += clicks[ties[k]]
        most += clicks[ties[n_ties - 1 - k]]
    return Boundary(n_ties, slots, least_above, clicks_above, fewest, most)
