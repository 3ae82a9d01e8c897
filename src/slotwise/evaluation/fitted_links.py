"""Links with the rates of a log, to simulate with.

`slotwise evaluate --policy` plays on them. Used by `log_frontier`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slotwise.arrays import Floats
from slotwise.evaluation.link_tallies import Tallies
from slotwise.evaluation.log_files import Source
from slotwise.evaluation.log_reader import LogReader


@dataclass(frozen=True)
class FittedLinks:
    """Views, clicks and revenue (in [0, 1] a view) of each link, and its shrunk rates.

    `n_slots` is the number of links that most pages have, `pages_of_size` counts all sizes.
    """

    links: tuple[str, ...]
    views: Floats
    clicks: Floats
    revenue: Floats
    click_rates: Floats
    revenue_rates: Floats
    n_slots: int
    pages_of_size: Mapping[int, int]
    n_pages: int
    n_unsettled: int
    max_revenue: float
    currency: str | None


def fit_links(log: Source, max_revenue: float | None = None) -> FittedLinks:
    """Count the outcomes of every link of a log, in one pass.

    These are plain averages over all views of a link; features of visitors are ignored.
    """
    reader, tallies = LogReader(log, max_revenue=max_revenue), Tallies()
    for pages in reader:
        tallies.make_room(1, len(reader.links))
        tallies.add(pages, by_slot=False)
    click_rates, revenue_rates = tallies.rates()[:, 0]
    return FittedLinks(
        links=reader.links.values,
        views=tallies.views[0],
        clicks=tallies.outcomes[0, 0],
        revenue=tallies.outcomes[1, 0],
        click_rates=click_rates,
        revenue_rates=revenue_rates,
        n_slots=reader.usual_slots,
        pages_of_size=reader.pages_of_size,
        n_pages=reader.n_pages,
        n_unsettled=reader.n_unsettled,
        max_revenue=reader.max_revenue,
        currency=reader.currency,
    )
