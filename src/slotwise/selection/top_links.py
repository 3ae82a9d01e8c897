"""The best links by one score, ties shared: what policies without a floor program show."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.compiled import inner
from slotwise.selection.mix import N_SURE, N_TIED, TIED_SLOTS, Mix
from slotwise.selection.page_search.page_scratch import Search
from slotwise.selection.share_slots import list_ties, share_ties
from slotwise.selection.top_page import top_page

__all__ = ["share_top_page", "take_top_links"]


MANY = 4
"""Links that tie are drawn as one group from this many a slot on."""


@inner
def take_top_links(
    value: NDArray[np.float64],
    bonus: NDArray[np.float64],
    bonus_weight: float,
    n_slots: int,
    search: Search,
    mix: Mix,
) -> None:
    """Fill `mix` with the links of largest value + bonus_weight * bonus.

    Links that tie at the boundary in both parts share its slots equally. `search` remembers
    where the last page ended, which makes the next one cheap.
    """
    top_page(value, bonus, len(value), n_slots, 1.0, bonus_weight, search)
    share_top_page(search.links, n_slots, search, mix)


@inner
def share_top_page(links: NDArray[np.int64], n_slots: int, search: Search, mix: Mix) -> None:
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
