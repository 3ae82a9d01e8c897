"""The best links by one score, ties shared: what policies without a floor program show."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.compiled import compiled
from slotwise.selection.mix import N_SURE, Mix
from slotwise.selection.price_search import SLACK, Price, Search, seed_page, top_page
from slotwise.selection.share_slots import share_slots

__all__ = ["take_top_links"]


@compiled
def take_top_links(
    value: NDArray[np.float64],
    bonus: NDArray[np.float64],
    bonus_weight: float,
    n_slots: int,
    search: Search,
    mix: Mix,
) -> None:
    """Fill `mix` with the links of largest value + bonus_weight * bonus.

    Links that tie at the boundary in both parts share its slots equally. The page in `search`
    is where the search starts, so a page that hardly changes costs one comparison a link.
    """
    n_links = len(value)
    seed_page(search, n_links, n_slots)
    top_page(value, bonus, n_links, n_slots, 1.0, bonus_weight, search)
    mix.sizes[:] = 0
    if not search.has_ties[0]:
        for k in range(n_slots):
            mix.sure[k] = search.entry[k]
        mix.sizes[N_SURE] = n_slots
        return
    price = Price(SLACK, 1.0, bonus_weight, search.first[0], search.second[0])
    share_slots(value, bonus, search.links, n_links, n_slots, 0.0, price, search, mix)
