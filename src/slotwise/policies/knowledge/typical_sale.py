"""The size of a typical sale, sum r^2 / sum r, in which revenue is counted.

So another currency gives the same pages. Where most feedback comes in batches, the size of a sale
is not known and the largest possible one, 1, is taken.
"""

from __future__ import annotations

from slotwise.policies.contract import Floats
from slotwise.selection.compiled import inner

__all__ = ["SALES", "UNIT", "note_sales", "typical_sale"]

UNIT, SALES, SQUARES = range(3)
"""The places of `sales`: the typical sale, and sums of sales and their squares, view by view."""


@inner
def note_sales(sales: Floats, is_first: bool, views: Floats, outcomes: Floats) -> None:
    """Take in outcomes of the last level, of which there were none before if `is_first`.

    A batch says nothing of the size of a sale.
    """
    if is_first and sales[SALES] == 0.0:
        for k in range(len(views) - 1, -1, -1):
            if views[k] == 1.0 and outcomes[k] > 0.0:
                sales[UNIT] = outcomes[k]  # the first sale is the typical one until the refit
    total, squares = sales[SALES], sales[SQUARES]
    for k in range(len(views)):  # without branches: which link sells cannot be foreseen
        sale = outcomes[k] if views[k] == 1.0 else 0.0
        total += sale
        squares += sale * sale
    sales[SALES], sales[SQUARES] = total, squares


@inner
def typical_sale(sales: Floats, total: float) -> float:
    """Return the size of a sale: 1 where most of them came in batches, whose sizes are unknown."""
    if sales[SALES] == 0.0 or sales[SALES] < 0.5 * total:
        return 1.0
    return sales[SQUARES] / sales[SALES]
