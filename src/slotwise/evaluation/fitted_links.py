"""The totals of each link in a log: what a simulator is fitted to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotwise.evaluation.estimating.tallies import Tallies
from slotwise.evaluation.logs.log_files import Source
from slotwise.evaluation.logs.log_reader import LogReader

__all__ = ["FittedLinks", "fit_links"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FittedLinks:
    """Views, clicks and revenue (in [0, 1] a view) of each link, and its shrunk rates."""

    links: tuple[str, ...]
    views: Floats
    clicks: Floats
    revenue: Floats
    click_rates: Floats
    revenue_rates: Floats
    n_slots: int
    n_pages: int
    n_unsettled: int
    max_revenue: float
    currency: str | None


def fit_links(log: Source, max_revenue: float | None = None) -> FittedLinks:
    """Count what every link of a log brought, in one pass.

    Plain averages: a link counts as much as it was shown, and nobody's features matter.
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
        n_slots=reader.n_slots,
        n_pages=reader.n_pages,
        n_unsettled=reader.n_unsettled,
        max_revenue=reader.max_revenue,
        currency=reader.currency,
    )
