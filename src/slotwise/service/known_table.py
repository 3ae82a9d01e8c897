"""A table of what a team knows already, as counts of the links of a pool."""

from __future__ import annotations

from slotwise.errors import InvalidInput
from slotwise.selector.known_counts import parse_known_counts
from slotwise.service.records import KnownCounts, PoolSettings
from slotwise.service.visitors import VisitorCode

__all__ = ["read_known_table"]

MICROS = 1_000_000


def read_known_table(
    text: str, pool: PoolSettings, discount: float, name: str = "csv"
) -> dict[str, list[KnownCounts]]:
    """Return the counts of each link in a CSV text: link, views, clicks, revenue and features.

    Rows without a view are left out; a link that has no others is there with none.
    """
    code = VisitorCode(pool.features)
    known: dict[str, list[KnownCounts]] = {}
    for row in parse_known_counts(text, name):
        try:
            visitor = code.read(row.visitor)
        except InvalidInput as error:
            raise InvalidInput(f"{name}, link {row.link}: {error}", "csv") from None
        counts = KnownCounts(
            views=row.views,
            clicks=row.clicks,
            revenue_micros=round(row.revenue * MICROS),
            visitor=visitor,
            discount=discount,
        )
        known.setdefault(row.link, []).extend([counts] if row.views or row.clicks else [])
    return known
