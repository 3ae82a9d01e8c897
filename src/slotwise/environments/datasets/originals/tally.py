"""Counts by key over blocks of rows; memory grows with the keys, not with the rows."""

from __future__ import annotations

import polars as pl

__all__ = ["Tally"]


class Tally:
    """Sums for each key, added block by block.

    >>> tally = Tally("ad")
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
