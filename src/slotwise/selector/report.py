"""What a selector knows, for people to read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotwise.policies.counts import Counts
from slotwise.problem import Problem
from slotwise.rounds import Link
from slotwise.selection import solve
from slotwise.selection.confidence import kl_lower, kl_upper
from slotwise.selector.report_table import text_table

__all__ = ["LinkReport", "PageReport", "Rate", "Report", "link_reports", "page_report", "rate_of"]

CLICK, REVENUE = 0, 1


@dataclass(frozen=True)
class Rate:
    """An estimated rate per view, 0 before any view, with a 95 % interval around it.

    The interval covers the true rate at least that often for a number of views that was fixed
    beforehand; it makes no promise for the moment somebody picks because of what it shows.
    """

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class LinkReport:
    """What is known of one link; revenue in the money of `max_revenue`, after clipping.

    `views` are the page views whose clicks are settled, `revenue_views` those whose revenue
    is; each rate is per settled view of its own level. `probability` is the link's chance to be
    on the next page.
    """

    link: Link
    views: int
    revenue_views: int
    clicks: int
    revenue: float
    click_rate: Rate
    revenue_rate: Rate
    probability: float


@dataclass(frozen=True)
class PageReport:
    """What the next page is expected to bring, and what the floor costs.

    `expected_clicks` and `expected_revenue` are those of the present probabilities at the
    estimated rates. `status`, `shadow_price` (money given up for one more click a page view)
    and `most_clicks` (the most expected clicks that a page can have) come from the floor program
    on the estimated rates, where a link without settled views counts as one that is clicked, and
    earns the most, at every view: it may be, until it is seen.
    """

    expected_clicks: float
    expected_revenue: float
    click_floor: float
    status: str
    shadow_price: float
    most_clicks: float


@dataclass(frozen=True)
class Report:
    """Links in the order of the pool, the page, and what became of the feedback.

    `n_open_pages` wait for clicks or revenue; `n_forgotten_pages` waited too long;
    `n_clipped` amounts were above `max_revenue`. Printed, it is a table.
    """

    policy: str
    links: tuple[LinkReport, ...]
    page: PageReport
    n_pages: int
    n_open_pages: int
    n_forgotten_pages: int
    n_clipped: int

    def __str__(self) -> str:
        return text_table(self)


def rate_of(total: float, n_views: float, scale: float = 1.0) -> Rate:
    """Return a rate with its 95 % Chernoff interval, valid for any outcomes in [0, 1].

    >>> rate_of(0.0, 0.0)
    Rate(estimate=0.0, low=0.0, high=1.0)
    """
    if n_views <= 0:
        return Rate(0.0, 0.0, scale)
    width = math.log(2 / 0.05)
    mean = min(1.0, total / n_views)
    low = min(mean, kl_lower(total, n_views, width))
    high = max(mean, kl_upper(total, n_views, width))
    return Rate(float(mean * scale), float(low * scale), float(high * scale))


def link_reports(
    links: Sequence[Link], counts: Counts, chances: NDArray[np.float64], max_revenue: float
) -> tuple[LinkReport, ...]:
    """Return what is known of each link; `chances` are the present probabilities."""
    views, sums = counts.views.tolist(), counts.sums.tolist()
    return tuple(
        LinkReport(
            link=link,
            views=round(views[CLICK][i]),
            revenue_views=round(views[REVENUE][i]),
            clicks=round(sums[CLICK][i]),
            revenue=sums[REVENUE][i] * max_revenue,
            click_rate=rate_of(sums[CLICK][i], views[CLICK][i]),
            revenue_rate=rate_of(sums[REVENUE][i], views[REVENUE][i], max_revenue),
            probability=chance,
        )
        for i, (link, chance) in enumerate(zip(links, chances.tolist(), strict=True))
    )


def page_report(
    counts: Counts, chances: NDArray[np.float64], problem: Problem, max_revenue: float
) -> PageReport:
    """Return what pages drawn with `chances` are expected to bring."""
    click_rate, revenue_rate = (_means(counts, level, unseen=0.0) for level in (CLICK, REVENUE))
    clicks, value = (_means(counts, level, unseen=1.0) for level in (CLICK, REVENUE))
    best = solve(value, clicks, problem.n_slots, problem.click_floor)
    most = solve(clicks, clicks, problem.n_slots, 0.0)
    return PageReport(
        expected_clicks=float(chances @ click_rate),
        expected_revenue=float(chances @ revenue_rate) * max_revenue,
        click_floor=problem.click_floor,
        status=best.status,
        shadow_price=float(best.shadow_price) * max_revenue,
        most_clicks=float(most.clicks),
    )


def _means(counts: Counts, level: int, unseen: float) -> NDArray[np.float64]:
    """Return the mean outcome of each link, `unseen` where no view is settled."""
    sums, views = counts.sums[level], counts.views[level]
    means: NDArray[np.float64] = np.full_like(sums, unseen)
    np.divide(sums, views, out=means, where=views > 0)
    return means.clip(max=1.0)
