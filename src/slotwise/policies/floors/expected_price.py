"""The price of a floor: what the posterior means say it is, corrected by the clicks that came.

    price    = b0 [expected + s Q / (v sqrt(floor t))]+,   b0 what a click of the pool earns
    s        = max(1, sqrt(expected))
    expected = the price of the floor program on the posterior means, in b0, at most 20
    Q        = owed + reserve
    owed    <- max(owed + floor - clicks of the page, -4 sqrt(floor t))
    reserve <- [reserve +- sqrt(floor / t) / 4]+,   + while something is owed, - otherwise

Of the two parts the first is right in the long run and steady; the second makes up for what is
wrong with it, as it is while the page explores. Clicks vary by sqrt(floor t) whatever the policy
does, so that is the scale of Q: a surplus, too, lowers the price until it is used up. Only
a surplus of four standard deviations is remembered: a floor that has cost nothing for a long time
is kept from the first page views on in which it binds again. The reserve ends a debt that lasts
because `expected` is too low; sqrt(floor / t) / 4 a page adds up to half a standard deviation.
The more a click costs already, the more the price must move to bring another one, so s grows with
the expected price; its root, since in proportion to it the price swings.

The cap on `expected` is for pools of which too little is known to reach the floor at all. Clicks
are then nearly all that counts at twenty times what a click earns; a debt that goes on raises the
price further.
"""

from __future__ import annotations

import math

from slotwise.policies.contract import Floats
from slotwise.policies.floors.queue import DEBT_GROWTH, Queues
from slotwise.selection.compiled import inner
from slotwise.selection.page_search.page_scratch import Search
from slotwise.selection.top_page import top_page

__all__ = ["correct_queues", "expect_price", "priced"]

MAX_EXPECTED = 20.0
"""The largest expected price, in what an outcome of the floor's level earns on average."""

MAX_STEPS = 100
"""More steps than the search for a price needs."""

MAX_CREDIT = 4.0
"""The largest surplus that is remembered, in roots of what the floor has promised."""


@inner
def correct_queues(
    queues: Queues, level: int, views: Floats, outcomes: Floats, rounds: Floats
) -> None:
    """Let the queues of a level take in page views; a queue may be negative: a surplus.

    `rounds` are those settled at each level, the present ones included.
    """
    n_views = brought = 0.0
    for k in range(len(views)):
        n_views += views[k]
        brought += outcomes[k]
    pages = n_views / queues.n_slots
    if pages == 0.0:
        return
    for floor in range(len(queues.lengths)):
        if queues.levels[floor] == level:
            least = queues.least[floor]
            reserve = queues.lengths[floor] - queues.owed[floor]
            owed = queues.owed[floor] + least * pages - brought
            owed = max(owed, -MAX_CREDIT * math.sqrt(least * rounds[level]))
            step = DEBT_GROWTH * math.sqrt(least / rounds[level]) * pages
            reserve = max(0.0, reserve + (step if owed > 0.0 else -step))
            queues.owed[floor] = owed
            queues.lengths[floor] = owed + reserve


@inner
def priced(queues: Queues, floor: int, expected: float, rounds: Floats) -> float:
    """Return the price of a floor in units of what an outcome of its level earns."""
    promised = queues.least[floor] * (rounds[queues.levels[floor]] + 1.0)
    correction = queues.lengths[floor] / (queues.patience * math.sqrt(promised))
    return max(0.0, expected + max(1.0, math.sqrt(expected)) * correction)


@inner
def expect_price(
    value: Floats, brought: Floats, n_slots: int, least: float, most: float, search: Search
) -> float:
    """Return the price at which the best pages bring just `least`, at most `most`.

    `value` is what each link is worth without this floor, `brought` what it brings towards it. The
    search is that of `slotwise.selection.price_search` where ties do not matter: a page with too
    little and one with enough are two lines, and the next price is where they meet.
    """
    n_links = len(value)
    few_value, few = top_page(value, brought, n_links, n_slots, 1.0, 0.0, search)
    if few >= least:
        return 0.0
    many_value, many = top_page(value, brought, n_links, n_slots, 1.0, most, search)
    if many < least:
        return most
    price = most
    for _ in range(MAX_STEPS):
        price = (few_value - many_value) / (many - few)
        page_value, page = top_page(value, brought, n_links, n_slots, 1.0, price, search)
        gain = page_value + price * page - few_value - price * few
        if gain <= 1e-12 * few_value:
            break
        if page >= least:
            many_value, many = page_value, page
        else:
            few_value, few = page_value, page
    return min(price, most)
