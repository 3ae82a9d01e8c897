"""Probabilities at a price: the links surely on the page, and the shares of the boundary.

Links above the threshold are sure. Links that tie at the threshold share what is left so that the
floor is kept exactly, and links with equal estimates get equal probabilities: a tie is broken by
chance alone, and only at the boundary. Used by `floor_program`, `solve` and `policies`.
"""

from __future__ import annotations

import numpy as np

from slotwise.arrays import Floats, Links
from slotwise.compile import inner, int64
from slotwise.compile.decorators import WORD
from slotwise.selection.mix import N_OPEN, N_SURE, N_TIED, TIED_SLOTS, Mix
from slotwise.selection.page_search import (
    BINDING,
    N_CANDIDATES,
    N_CERTAIN,
    N_LISTED,
    Entries,
    Objective,
    Search,
)
from slotwise.selection.passes import split_page
from slotwise.selection.price_search import Price
from slotwise.selection.top_page import (
    Found,
    ends_of,
    find_among_all,
    find_page,
    forget_list,
    has_finite_end,
    list_page,
    page_boundary,
    sort_page,
)


@inner
def _add(mix: Mix, link: int, probability: float) -> None:
    if probability >= 1.0:
        mix.sure[mix.sizes[N_SURE]] = link
        mix.sizes[N_SURE] += 1
    elif probability > 0.0:
        mix.open[mix.sizes[N_OPEN]] = link
        mix.probabilities[mix.sizes[N_OPEN]] = probability
        mix.sizes[N_OPEN] += 1


@inner
def _add_certain(links: Links, search: Search, mix: Mix) -> None:
    """Add the links that are on the page whatever ties at its end."""
    n_before, n_certain = mix.sizes[N_SURE], search.sizes[N_CERTAIN]
    for k in range(n_certain):
        mix.sure[n_before + k] = links[search.entry[k]]
    mix.sizes[N_SURE] = n_before + n_certain


@inner
def _share_binding(
    clicks: Floats,
    links: Links,
    n_slots: int,
    floor: float,
    search: Search,
    mix: Mix,
) -> None:
    """Share the boundary so that the page has `floor` clicks: theta * most + rest * fewest.

    The two extremes fill the slots with the most and with the least clicked ties; links with the
    same clicks are interchangeable and share the slots of their group.
    """
    edge = page_boundary(clicks, n_slots, search)
    ties, n_ties, slots = search.ties, edge.n_ties, edge.slots
    _add_certain(links, search, mix)
    for k in range(search.sizes[N_CERTAIN], search.sizes[N_CANDIDATES]):
        if search.first[k] > edge.least_above:
            _add(mix, links[search.entry[k]], 1.0)
    theta = 1.0
    if edge.most > edge.fewest:
        missing = floor - edge.clicks_above - edge.fewest
        theta = min(1.0, max(0.0, missing / (edge.most - edge.fewest)))
    start = 0
    while start < n_ties:
        end = start + 1
        while end < n_ties and clicks[ties[end]] == clicks[ties[start]]:
            end += 1
        in_fewest = min(max(slots - start, 0), end - start)
        in_most = min(max(slots - (n_ties - end), 0), end - start)
        probability = (theta * in_most + (1.0 - theta) * in_fewest) / (end - start)
        for k in range(start, end):
            _add(mix, links[ties[k]], probability)
        start = end


@inner
def list_ties(links: Links, n_slots: int, search: Search, mix: Mix) -> int:
    """Add to `mix` the links above the end of the page in `search`.

    The entries that tie exactly at its end are left in `search.ties`; return how many they are.
    """
    entry, first, second, ties = search.entry, search.first, search.second, search.ties
    _add_certain(links, search, mix)
    last_first, last_second = first[n_slots - 1], second[n_slots - 1]
    for k in range(search.sizes[N_CERTAIN], n_slots):
        if first[k] != last_first or second[k] != last_second:
            _add(mix, links[entry[k]], 1.0)
    n_ties = int64(0)
    for k in range(search.sizes[N_CERTAIN], search.sizes[N_CANDIDATES]):
        ties[n_ties] = entry[k]
        n_ties += (first[k] == last_first) & (second[k] == last_second)
    return n_ties


@inner
def share_ties(links: Links, n_ties: int, n_left: int, search: Search, mix: Mix) -> None:
    """Add to `mix` the entries in `search.ties`, which share `n_left` slots equally."""
    for k in range(n_ties):
        _add(mix, links[search.ties[k]], n_left / n_ties)


@inner
def share_slots(
    clicks: Floats,
    links: Links,
    n_slots: int,
    floor: float,
    price: Price,
    search: Search,
    mix: Mix,
) -> None:
    """Add to `mix` the page found at `price`, its boundary shared; entry i is `links[i]`.

    Where the floor does not bind, links that tie exactly at its end share equally.
    """
    if price.status == BINDING:
        _share_binding(clicks, links, n_slots, floor, search, mix)
    else:
        n_before = mix.sizes[N_SURE]
        n_ties = list_ties(links, n_slots, search, mix)
        share_ties(links, n_ties, n_before + n_slots - mix.sizes[N_SURE], search, mix)


MANY = 4
"""From this many per slot on, links that tie are drawn as one group."""

MANY_LINKS = 8
"""All links are searched if one in this many was on the last page, or tied with its end."""


@inner
def take_top_links(
    value: Floats,
    bonus: Floats,
    bonus_weight: float,
    n_slots: int,
    search: Search,
    mix: Mix,
) -> None:
    """Fill `mix` with the links of largest value + bonus_weight * bonus.

    Links that tie at the boundary in both parts share its slots equally. `search` remembers
    where the last page ended, which makes the next one cheap.
    """
    entries, objective = Entries(value, bonus, len(value)), Objective(1.0, bonus_weight)
    forget_list(search)
    if MANY_LINKS * search.sizes[N_CANDIDATES] > len(value) and len(value) >= WORD:
        found = find_among_all(entries, n_slots, objective, search)
        if _take_group(bonus, objective, n_slots, found, search, mix):
            return
    else:
        found = find_page(entries, n_slots, objective, search)
    if has_finite_end(found, n_slots):
        list_page(entries, n_slots, objective, found, search)
    else:
        sort_page(entries, n_slots, objective, search)
    share_top_page(search.links, n_slots, search, mix)


@inner
def _take_group(
    bonus: Floats, objective: Objective, n_slots: int, found: Found, search: Search, mix: Mix
) -> bool:
    """Fill `mix` where many links tie at the page's end, without a list; return whether they do."""
    n_links, tied = search.sizes[N_LISTED], mix.tied
    is_large = found.n_reaching > (MANY + 1) * n_slots and abs(found.threshold) < np.inf
    if not is_large or len(tied) < n_links:
        return False
    least, certain = ends_of(found, objective.click_weight)
    n_words = (n_links + WORD - 1) // WORD
    n_sure, n_ties = split_page(search.listed_score, n_words, certain, least, mix.sure, tied)
    scores, bonus_of_last, n_equal = search.listed_score, bonus[tied[0]], int64(0)
    for link in range(n_links):  # of all links, which runs in vectors
        n_equal += (scores[link] == found.threshold) & (bonus[link] == bonus_of_last)
    if n_equal < n_ties:
        return False
    search.sizes[N_CANDIDATES] = n_sure + n_ties
    mix.sizes[:] = 0
    mix.sizes[N_SURE] = n_sure
    mix.sizes[N_TIED] = n_ties
    mix.sizes[TIED_SLOTS] = n_slots - n_sure
    return True


@inner
def share_top_page(links: Links, n_slots: int, search: Search, mix: Mix) -> None:
    """Fill `mix` with the page that `top_page` left in `search`; entry i is `links[i]`.

    Many links that tie are drawn as one group, which costs the slots left and not the links.
    """
    mix.sizes[:] = 0
    n_ties = list_ties(links, n_slots, search, mix)
    n_left = n_slots - mix.sizes[N_SURE]
    if n_ties > MANY * n_slots and n_ties <= len(mix.tied):
        for k in range(n_ties):
            mix.tied[k] = links[search.ties[k]]
        mix.sizes[N_TIED] = n_ties
        mix.sizes[TIED_SLOTS] = n_left
        return
    share_ties(links, n_ties, n_left, search, mix)
