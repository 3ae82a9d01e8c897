"""What the loaders of original data share: a scale from 0 to 1, and sums by key.

Used by `ad_clicks`, `coupon_purchase` and `edx_courses`.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from slotwise.arrays import Floats
from slotwise.errors import InvalidInput


def min_max(name: str, values: Floats) -> Floats:
    """Return (x - min x) / (max x - min x).

    >>> min_max("views", np.array([2.0, 4.0, 6.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    smallest, largest = values.min(initial=np.inf), values.max(initial=-np.inf)
    if not smallest < largest:
        rule = "different for at least two links"
        raise InvalidInput.of(name, rule, values[:3].tolist())
    return np.asarray((values - smallest) / (largest - smallest))


class EventTally:
    """Sums for each key, added block by block.

    >>> tally = EventTally("ad")
    >>> tally.add(pl.LazyFrame({"ad": ["x", "y", "x"]}), views=pl.len())
    >>> tally.add(pl.LazyFrame({"ad": ["x"]}), views=pl.len())
    >>> tally.totals("views").sort("ad").rows()
    [('x', 3.0), ('y', 1.0)]
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self._totals: pl.DataFrame | None = None

    def add(self, rows: pl.LazyFrame, **sums: pl.Expr) -> None:
        """Add the sums of each key in `rows` to its totals."""
        exact = {name: total.cast(pl.Int64) for name, total in sums.items()}
        part = rows.group_by(self.key).agg(**exact).collect()
        if self._totals is None:
            self._totals = part
        else:
            together = pl.concat([self._totals, part])
            self._totals = together.group_by(self.key).agg(pl.col(name).sum() for name in sums)

    def totals(self, *names: str) -> pl.DataFrame:
        """Return the key and the named sums of every key that occurred, in any order."""
        if self._totals is None:
            schema = {self.key: pl.String} | dict.fromkeys(names, pl.Float64)
            return pl.DataFrame(schema=schema)
        return self._totals.select(self.key, *(pl.col(name).cast(pl.Float64) for name in names))


CLICK_RATE, REVENUE = "click rate", "phone requests per click"

COUPON, DISPLAY_DAYS = "COUPON_ID_hash", "DISPPERIOD"
VISITED, PURCHASED = "VIEW_COUPON_ID_hash", "PURCHASE_FLG"
