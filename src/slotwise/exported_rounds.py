"""The rounds that a service exports, read in a program: one by one, or added up for each link.

Programs use it through `slotwise.client`; it needs no connection. Used by `client`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slotwise.errors import MissingData
from slotwise.extras import naming_extra


@dataclass(frozen=True)
class LogCounts:
    """Settled counts of the links of a pool by level, as `Selector.update_batch` takes them.

        selector.update_batch(counts.click_views, clicks=counts.clicks)
        selector.update_batch(counts.revenue_views, revenue=counts.revenue)

    `revenue` is in shares of the pool's `max_revenue`, so the selector keeps its default of 1.
    """

    click_views: dict[str, int] = field(default_factory=dict)
    clicks: dict[str, int] = field(default_factory=dict)
    revenue_views: dict[str, int] = field(default_factory=dict)
    revenue: dict[str, float] = field(default_factory=dict)


def read_rounds(file: Path) -> Iterator[dict[str, Any]]:
    """Go through the rounds of an export, JSON lines or Parquet, one decision at a time.

    Raises `MissingData` when there is no such file.
    """
    if not file.exists():
        raise MissingData(f"`file` must be an export that exists, got {str(file)!r}")
    with file.open("rb") as opened:
        if opened.read(4) != b"PAR1":
            opened.seek(0)
            yield from map(json.loads, opened)
            return
    with naming_extra("an export in Parquet"):
        from pyarrow.parquet import ParquetFile

    with ParquetFile(file) as parquet:
        for batch in parquet.iter_batches():
            yield from batch.to_pylist()


def count_links(rounds: Iterable[Mapping[str, Any]]) -> LogCounts:
    """Add up what is settled for each link, as a policy learns it.

    Rounds of the holdout and of fallback pages count too, as they do in the service: a shown
    link was clicked or not, whoever chose it.

    >>> one = {"links": ["a", "b"], "clicks": [1, 0], "revenue_micros": [5, 0]}
    >>> one |= {"max_revenue_micros": 10, "clicks_settled": True, "revenue_settled": False}
    >>> count_links([one])
    LogCounts(click_views={'a': 1, 'b': 1}, clicks={'a': 1, 'b': 0}, revenue_views={}, revenue={})
    """
    counts = LogCounts()
    for one in rounds:
        most = one["max_revenue_micros"]
        shares = [micros / most for micros in one["revenue_micros"]]
        if one["clicks_settled"]:
            _add(counts.click_views, counts.clicks, one["links"], one["clicks"])
        if one["revenue_settled"]:
            _add(counts.revenue_views, counts.revenue, one["links"], shares)
    return counts


def _add(
    views: dict[str, int],
    sums: dict[str, Any],
    links: Sequence[str],
    outcomes: Sequence[float],
) -> None:
    for link_id, outcome in zip(links, outcomes, strict=True):
        views[link_id] = views.get(link_id, 0) + 1
        sums[link_id] = sums.get(link_id, 0) + outcome
