"""The report of a selector: links, pages delivered, floors, visitors, slots and rules.

Used by `floor_advice`, `report_text` and `selector`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from slotwise.arrays import Floats
from slotwise.extras import imported
from slotwise.features import Visitor
from slotwise.player.player import OUTCOMES, PAGES, Player
from slotwise.player.rules_in_force import RuleReport
from slotwise.player.slots import SlotReport
from slotwise.policies.policy import Counts
from slotwise.problem import Problem
from slotwise.rounds import Link
from slotwise.selection.rules import SlotRule, settle_rules, solve_rules
from slotwise.selection.several_floors import solve_floors
from slotwise.selection.solve import solve
from slotwise.selector.accounting import DeliveredReport, Rate, rate_of
from slotwise.selector.promised_pages import ComparisonReport
from slotwise.selector.report_text import text_table

if TYPE_CHECKING:
    import pandas as pd

N_TOP_LINKS = 3
"""Links that a report names for each value of a feature."""


@dataclass(frozen=True)
class VisitorReport:
    """Clicks and revenue per page view of visitors with one value of one feature.

    `clicks` and `revenue` are means over page views whose feedback is settled, with a 95 %
    interval; `top_links` are the most likely links on the next page if only this
    value of the visitor is known. `click_floor` is the floor of this segment, if it has one.
    """

    feature: str
    value: str
    page_views: int
    clicks: Rate
    revenue: Rate
    top_links: tuple[Link, ...]
    click_floor: float | None = None


def visitor_reports(
    player: Player, max_revenue: float, page_for: Callable[[Visitor], Floats]
) -> tuple[VisitorReport, ...]:
    """Return a row for every value seen; `page_for` gives the probabilities for a visitor."""
    rows = []
    problem, features, visits = player.problem, player.features, player.visits
    n_slots, floors = problem.n_slots, dict(problem.segment_floor_places)
    names = [feature.name for feature in features.features]
    for place in np.flatnonzero(visits[0, PAGES] > 0.0).tolist():
        name, label = features.label(place)
        visitor = features.encode()
        visitor[names.index(name)] = place
        likeliest = np.argsort(-page_for(visitor), kind="stable")[: min(N_TOP_LINKS, n_slots)]
        n_pages, clicks = visits[0, PAGES, place], visits[0, OUTCOMES, place]
        n_settled, revenue = visits[-1, PAGES, place], visits[-1, OUTCOMES, place]
        rows.append(
            VisitorReport(
                feature=name,
                value=label,
                page_views=round(n_pages),
                # a page brings up to n_slots clicks: the interval is for the mean of a slot
                clicks=rate_of(clicks / n_slots, n_pages, n_slots),
                revenue=rate_of(revenue / n_slots, n_settled, n_slots * max_revenue),
                top_links=tuple(player.pool.links[k] for k in likeliest.tolist()),
                click_floor=floors.get(place),
            )
        )
    return tuple(rows)


def report_columns(kind: Any, rows: Sequence[Any]) -> dict[str, list[object]]:
    """Return rows of a kind as columns, as frames of polars and pandas take them."""
    columns: dict[str, list[object]] = {}
    for field in fields(kind):
        values = [getattr(row, field.name) for row in rows]
        if field.type == "Rate":
            columns[field.name] = [rate.estimate for rate in values]
            columns[f"{field.name}_low"] = [rate.low for rate in values]
            columns[f"{field.name}_high"] = [rate.high for rate in values]
        else:
            columns[field.name] = values
    return columns


def rule_reports(
    player: Player, page: Floats, delivered: Floats, max_revenue: float
) -> tuple[RuleReport, ...]:
    """Return a row for each rule; costs are those at the mean rates so far."""
    if player.rules is None:
        return ()
    rates, problem = _means(player.counts, 0.0), player.problem
    floor = problem.click_floor
    return player.rules.report(page, delivered, (rates[-1], rates[0]), floor, max_revenue)


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
    """One floor, what a page is expected to contribute to it, and its price.

    Amounts of a floor on a rate are those above the rate, so it requires 0.
    """

    name: str
    floor: float
    expected: float
    shadow_price: float


@dataclass(frozen=True)
class PageReport:
    """Expected clicks and revenue of the next page, and what the floor costs.

    `expected_clicks` and `expected_revenue` are those of the present probabilities at the
    estimated rates. `status`, `shadow_price` (revenue given up for one more click per page view)
    and `most_clicks` (the most expected clicks that a page can have) come from the floor program
    on the estimated rates. In this program a link without settled views has the highest possible
    rates. `floors` has every floor with the expected contribution of a page; `status` is that of
    all of them together and `shadow_price` that of the click floor.
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
    `n_clipped` amounts were above `max_revenue`; `n_unknown_words` values of visitors were in no
    closed list, since the selector was made or loaded. `comparison` compares with the own page,
    where there is one. Printed, it is a table.
    """

    policy: str
    links: tuple[LinkReport, ...]
    page: PageReport
    delivered: DeliveredReport
    n_pages: int
    n_open_pages: int
    n_forgotten_pages: int
    n_clipped: int
    segments: tuple[VisitorReport, ...] = ()
    slots: tuple[SlotReport, ...] = ()
    rules: tuple[RuleReport, ...] = ()
    n_unknown_words: int = 0
    comparison: ComparisonReport | None = None

    def to_pandas(self) -> pd.DataFrame:
        """Return the links as a data frame of pandas: one row a link, with its 95 % intervals."""
        pandas = imported("pandas", "`Report.to_pandas`")
        rates = ("click_rate", "revenue_rate")
        plain = ("link", "views", "clicks", "revenue", *rates, "probability")
        rows = []
        for link in self.links:
            row = {name: getattr(link, name) for name in plain}
            for name in rates:
                rate = row[name]
                row |= {name: rate.estimate, f"{name}_low": rate.low, f"{name}_high": rate.high}
            rows.append(row)
        frame: pd.DataFrame = pandas.DataFrame(rows)
        return frame

    def segment_columns(self) -> dict[str, list[object]]:
        """Return `segments` as columns, as frames of polars and pandas take them."""
        return report_columns(VisitorReport, self.segments)

    def slot_columns(self) -> dict[str, list[object]]:
        """Return `slots` as columns, as frames of polars and pandas take them."""
        return report_columns(SlotReport, self.slots)

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
    counts: Counts,
    probabilities: Floats,
    problem: Problem,
    max_revenue: float,
    rules: Sequence[SlotRule] = (),
) -> PageReport:
    """Return the expected clicks and revenue of pages with these probabilities."""
    rates, optimistic = (_means(counts, unseen) for unseen in (0.0, 1.0))
    if len(rules):
        reach = solve_rules(optimistic[0], optimistic[0], problem.n_slots, 0.0, rules).clicks
    else:
        reach = solve(optimistic[0], optimistic[0], problem.n_slots, 0.0).clicks
    status, prices = _solve(optimistic, problem, rules)
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
        most_clicks=float(reach),
        floors=floors,
    )


def _solve(
    rates: Floats, problem: Problem, rules: Sequence[SlotRule]
) -> tuple[str, Sequence[float]]:
    """Return the status of the floor program and the price of each floor."""
    n_slots = problem.n_slots
    if problem.has_click_floor_only and problem.rewards_last_level_only:
        if len(rules):
            within = solve_rules(rates[-1], rates[0], n_slots, problem.click_floor, rules)
            return within.status, [within.shadow_price] * len(problem.active_floors)
        best = solve(rates[-1], rates[0], n_slots, problem.click_floor)
        return best.status, [best.shadow_price] * len(problem.active_floors)
    if not problem.active_floors:
        return "slack", ()
    value = sum(problem.rewards.get(name, 0.0) * rates[j] for j, name in enumerate(problem.levels))
    demands, least = _demands(rates, problem), [floor.least for floor in problem.active_floors]
    n_floors, granted = len(least), settle_rules(rules, problem.n_links, n_slots).granted
    for rule in granted:  # "at most" is "at least" of all other links, since pages are full
        inside = np.isin(np.arange(problem.n_links), rule.links).astype(np.float64)
        demands = np.vstack([demands, inside, 1.0 - inside])
        least += [max(0.0, rule.least), max(0.0, n_slots - rule.most)]
    found = solve_floors(value, demands, n_slots, least)
    prices = found.shadow_prices[:n_floors].tolist()
    if found.status == "infeasible" or max(prices) > 0.0:
        return found.status, prices
    return "slack", prices  # only rules bind


def _demands(rates: Floats, problem: Problem) -> Floats:
    """Return what each link contributes to each floor, one row per floor."""
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
