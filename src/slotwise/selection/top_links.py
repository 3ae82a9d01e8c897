"""The best links by one score, ties shared: what policies without a floor program show."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.compiled import hot
from slotwise.selection.mix import Mix
from slotwise.selection.price_search import SLACK, Price
from slotwise.selection.share_slots import share_slots
from slotwise.selection.top_page import Search, top_page

__all__ = ["share_top_page", "take_top_links"]


@hot
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
    share_top_page(bonus, search.links, bonus_weight, n_slots, search, mix)


@hot
def share_top_page(
    bonus: NDArray[np.float64],
    links: NDArray[np.int64],
    bonus_weight: float,
    n_slots: int,
    search: Search,
    mix: Mix,
) -> None:
    """Fill `mix` with the page that `top_page` left in `search`; entry i is `links[i]`."""
    last = n_slots - 1
    price = Price(SLACK, 1.0, bonus_weight, search.first[last], search.second[last])
    mix.sizes[:] = 0
    share_slots(bonus, links, n_slots, 0.0, price, search, mix)
