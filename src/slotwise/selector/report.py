"""What a selector knows, for people to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotwise.policies.policy import Counts
from slotwise.problem import Problem
from slotwise.rounds import Link
from slotwise.selection.several_floors import solve_floors
from slotwise.selection.solve import solve
from slotwise.selector.delivered import DeliveredReport
from slotwise.selector.for_whom import VisitorReport, visitor_columns
from slotwise.selector.page_slots import SlotReport, slot_columns
from slotwise.selector.rate import Rate, rate_of
from slotwise.selector.report_table import text_table

__all__ = [
    "DeliveredReport",
    "FloorReport",
    "LevelReport",
    "LinkReport",
    "PageReport",
    "Rate",
    "Report",
    "link_reports",
    "page_report",
    "rate_of",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LevelReport:
    """What is known of one link at one level: settled page views, their sum and the rate."""

    level: str
    views: int
    total: float
    rate: Rate


@dataclass(frozen=True)
class LinkReport:
    """What is known of one link; revenue in the money of `max_revenue`, after clipping.

    `views` are the page views whose clicks are settled, `revenue_views` those whose revenue
    is; each rate is per settled view of its own level. With levels of other names, clicks are
    those of the first and revenue that of the last; `levels` has all of them.
    `probability` is that of the link on the next page.
    """

    link: Link
    views: int
    revenue_views: int
    clicks: int
    revenue: float
    click_rate: Rate
    revenue_rate: Rate
    probability: float
    levels: tuple[LevelReport, ...]


@dataclass(frozen=True)
class FloorReport:
    """One floor: what it asks for, what a page is expected to bring towards it, and its price.

    Amounts of a floor on a rate are those above the rate, so it asks for 0.
    """

    name: str
    floor: float
    expected: float
    shadow_price: float


@dataclass(frozen=True)
class PageReport:
    """What the next page is expected to bring, and what the floor costs.

    `expected_clicks` and `expected_revenue` are those of the present probabilities at the
    estimated rates. `status`, `shadow_price` (money given up for one more click a page view)
    and `most_clicks` (the most expected clicks that a page can have) come from the floor program
    on the estimated rates, where a link without settled views counts as one that is clicked, and
    earns the most, at every view: it may be, until it is seen. `floors` has every floor,
    with what a page is expected to bring towards it; `status` is that of all of them together and
    `shadow_price` that of the click floor.
    """

    expected_clicks: float
    expected_revenue: float
    click_floor: float
    status: str
    shadow_price: float
    most_clicks: float
    floors: tuple[FloorReport, ...]


@dataclass(frozen=True)
class Report:
    """Links in the order of the pool, the next page, what was delivered, and the feedback.

    `n_open_pages` are not settled at every level; `n_forgotten_pages` stayed open too long;
    `n_clipped` amounts were above `max_revenue`. Printed, it is a table.
    """

    policy: str
    links: tuple[LinkReport, ...]
    page: PageReport
    delivered: DeliveredReport
    n_pages: int
    n_open_pages: int
    n_forgotten_pages: int
    n_clipped: int
    for_whom: tuple[VisitorReport, ...] = ()
    slots: tuple[SlotReport, ...] = ()

    def for_whom_columns(self) -> dict[str, list[object]]:
        """Return `for_whom` as columns, as frames of polars and pandas take them."""
        return visitor_columns(self.for_whom)

    def slot_columns(self) -> dict[str, list[object]]:
        """Return `slots` as columns, as frames of polars and pandas take them."""
        return slot_columns(self.slots)

    def __str__(self) -> str:
        return text_table(self)


def link_reports(
    links: Sequence[Link],
    counts: Counts,
    probabilities: Floats,
    problem: Problem,
    max_revenue: float,
) -> tuple[LinkReport, ...]:
    """Return what is known of each link; `probabilities` are those of the next page."""
    scales = [*[1.0] * (problem.n_levels - 1), max_revenue]
    rows = []
    for place, link in enumerate(links):
        levels = []
        for level, (name, scale) in enumerate(zip(problem.levels, scales, strict=True)):
            n_views, total = float(counts.views[level, place]), float(counts.sums[level, place])
            rate = rate_of(total, n_views, scale)
            levels.append(LevelReport(name, round(n_views), total * scale, rate))
        first, last = levels[0], levels[-1]
        rows.append(
            LinkReport(
                link=link,
                views=first.views,
                revenue_views=last.views,
                clicks=round(first.total),
                revenue=last.total,
                click_rate=first.rate,
                revenue_rate=last.rate,
                probability=float(probabilities[place]),
                levels=tuple(levels),
            )
        )
    return tuple(rows)


def page_report(
    counts: Counts, probabilities: Floats, problem: Problem, max_revenue: float
) -> PageReport:
    """Return what pages drawn with these probabilities are expected to bring."""
    rates, optimistic = (_means(counts, unseen) for unseen in (0.0, 1.0))
    most = solve(optimistic[0], optimistic[0], problem.n_slots, 0.0)
    status, prices = _solve(optimistic, problem)
    expected = _demands(rates, problem) @ probabilities
    floors = tuple(
        FloorReport(floor.name, floor.least, float(brought), float(price) * max_revenue)
        for floor, brought, price in zip(problem.active_floors, expected, prices, strict=True)
    )
    return PageReport(
        expected_clicks=float(probabilities @ rates[0]),
        expected_revenue=float(probabilities @ rates[-1]) * max_revenue,
        click_floor=problem.click_floor,
        status=status,
        shadow_price=floors[0].shadow_price if problem.click_floor > 0.0 else 0.0,
        most_clicks=float(most.clicks),
        floors=floors,
    )


def _solve(rates: Floats, problem: Problem) -> tuple[str, Sequence[float]]:
    """Return the status of the floor program and the price of each floor."""
    n_slots = problem.n_slots
    if problem.has_click_floor_only and problem.rewards_last_level_only:
        best = solve(rates[-1], rates[0], n_slots, problem.click_floor)
        return best.status, [best.shadow_price] * len(problem.active_floors)
    if not problem.active_floors:
        return "slack", ()
    value = sum(problem.rewards.get(name, 0.0) * rates[j] for j, name in enumerate(problem.levels))
    least = [floor.least for floor in problem.active_floors]
    found = solve_floors(value, _demands(rates, problem), n_slots, least)
    return found.status, found.shadow_prices.tolist()


def _demands(rates: Floats, problem: Problem) -> Floats:
    """Return what each link brings towards each floor, one row a floor."""
    rows = [
        rates[floor.level] - (floor.rate * rates[floor.level - 1] if floor.rate else 0.0)
        for floor in problem.active_floors
    ]
    return np.array(rows).reshape(len(rows), problem.n_links)


def _means(counts: Counts, unseen: float) -> Floats:
    """Return the mean outcome of each level and link, `unseen` where no view is settled."""
    means: Floats = np.full_like(counts.sums, unseen)
    np.divide(counts.sums, counts.views, out=means, where=counts.views > 0)
    return means.clip(max=1.0)
