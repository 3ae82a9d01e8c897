"""The report of a selector: links, pages delivered, floors, visitors, slots and rules.

Used by `selector`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from slotwise.arrays import Floats, Places
from slotwise.compile import switching
from slotwise.errors import InvalidInput
from slotwise.extras import imported
from slotwise.features import Features, Visitor
from slotwise.player.player import OUTCOMES, PAGES, Player
from slotwise.player.rules_in_force import RuleReport
from slotwise.player.slots import SlotReport, slot_lines
from slotwise.policies.policy import Counts
from slotwise.problem import Problem
from slotwise.rounds import Link
from slotwise.selection import Frontier, frontier
from slotwise.selection.confidence import anytime_lower, anytime_upper, kl_lower, kl_upper
from slotwise.selection.floor_status import (
    click_estimates,
    clicks_delivered,
    floor_status,
    most_clicks,
)
from slotwise.selection.mean_interval import mean_interval
from slotwise.selection.rules import SlotRule, settle_rules, solve_rules
from slotwise.selection.several_floors import solve_floors
from slotwise.selection.solve import solve
from slotwise.selector.arguments import checked_money
from slotwise.selector.promised_pages import ComparisonReport, comparison_lines

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Rate:
    """An estimated rate per view, 0 before any view, with a 95 % interval around it.

    The interval covers the true rate at least that often for a number of views that was fixed
    beforehand, not at a moment chosen by looking at it.
    """

    estimate: float
    low: float
    high: float


def rate_of(total: float, n_views: float, scale: float = 1.0) -> Rate:
    """Return a rate with its 95 % Chernoff interval, valid for any outcomes in [0, 1].

    >>> rate_of(0.0, 0.0)
    Rate(estimate=0.0, low=0.0, high=1.0)
    """
    if n_views <= 0:
        return Rate(0.0, 0.0, scale)
    width = math.log(2 / 0.05)
    mean = min(1.0, total / n_views)
    low = min(mean, switching(kl_lower)(float(total), float(n_views), width))
    high = max(mean, switching(kl_upper)(float(total), float(n_views), width))
    return Rate(float(mean * scale), float(low * scale), float(high * scale))


@dataclass(frozen=True)
class AnytimeRate:
    """An estimated mean, with a 95 % interval that holds at all times at once.

    You may look as often as you like and stop at any moment; `Rate` is narrower and does not allow
    that.
    """

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class DeliveredReport:
    """Clicks and revenue per page view since the floor was last set, with 95 % intervals.

    The intervals hold at all times at once. `status` compares the
    delivered clicks with the click floor (`slotwise.selection.floor_status`): `met` if their
    interval is above the floor, or contains it and is known to within 10 % of the floor;
    `infeasible` if no page of these links reaches the floor; otherwise `learning`.
    """

    page_views: int
    clicks: AnytimeRate
    revenue: AnytimeRate
    click_floor: float
    status: str


class DeliveredTotals:
    """Settled pages, their outcomes and the squares, of the first and of the last level."""

    def __init__(self) -> None:
        self._totals = [0.0] * 6

    @property
    def totals(self) -> Floats:
        """Pages, outcomes and their squares: a row for the first level, one for the last."""
        return np.array(self._totals).reshape(2, 3)

    def note(
        self, level: int, n_levels: int, n_pages: float, brought: float, squares: float
    ) -> None:
        """Count settled pages of a level; levels between the first and the last do not matter.

        `squares` is the sum of the squared outcomes of the pages, or an upper bound of it where
        single pages are not known.
        """
        if level == 0:
            row = 0
        elif level == n_levels - 1:
            row = 3
        else:
            return
        self._totals[row] += n_pages
        self._totals[row + 1] += brought
        self._totals[row + 2] += squares

    def start_again(self) -> None:
        """Forget what was delivered under another floor."""
        self._totals = [0.0] * 6

    def restore(self, totals: Floats, n_slots: int) -> None:
        """Restore the totals from a file; files of the first format have no squares."""
        if totals.shape == (2, 2):  # no page brings more than `n_slots`
            totals = np.column_stack([totals, n_slots * totals[:, 1]])
        if totals.shape != (2, 3) or not (np.isfinite(totals) & (totals >= 0)).all():
            raise ValueError("array delivered must be counts of shape (2, 3)")
        self._totals = totals.astype(np.float64).ravel().tolist()

    def report(
        self,
        problem: Problem,
        max_revenue: float,
        counts: Counts,
        rules: Sequence[SlotRule] = (),
    ) -> DeliveredReport:
        """Return rates per page view and the status of the floor; `counts` are those of links."""
        n_pages, clicks, squares, n_settled, revenue, revenue_squares = self._totals
        floor, n_slots = problem.click_floor, problem.n_slots
        interval = clicks_delivered(n_pages, clicks, squares, n_slots, floor)
        rates, variances = click_estimates(counts.views[0], counts.sums[0])
        page = solve_rules(rates, rates, n_slots, 0.0, rules).probabilities if rules else None
        _, most = most_clicks(rates, variances, n_slots, page)
        low, high = mean_interval(n_settled, revenue, revenue_squares, float(n_slots))
        earned = revenue / n_settled * max_revenue if n_settled else 0.0
        return DeliveredReport(
            page_views=round(n_pages),
            clicks=AnytimeRate(clicks / n_pages if n_pages else 0.0, *interval),
            revenue=AnytimeRate(earned, low * max_revenue, high * max_revenue),
            click_floor=floor,
            status=floor_status(floor, interval, most),
        )


class RevenueClipped(UserWarning):
    """Revenue above `max_revenue` counts as `max_revenue`."""


class Money:
    """The scale of a selector's revenue, and how many amounts were above it."""

    def __init__(self, max_revenue: float) -> None:
        self.max_revenue = checked_money(max_revenue)
        self.n_clipped = 0
        self._first_clipped = 0.0

    def scaled(self, revenue: Floats, most: Floats) -> Floats:
        """Return revenue in units of `max_revenue`, clipped at `most`.

        What is clipped is counted.
        """
        with np.errstate(over="ignore"):
            scaled: Floats = revenue / self.max_revenue
        over = scaled > most
        if over.any():
            a_click = revenue[over] / np.maximum(most[over], 1.0)
            self._count_clipped(a_click.tolist())
            scaled[over] = most[over]
        return scaled

    def scaled_page(self, earned: Mapping[Link, float]) -> dict[Link, float]:
        """Return what the links of one page earned in units of `max_revenue`, clipped at 1."""
        most = self.max_revenue
        if earned and max(earned.values()) / most > 1.0:
            return {link: min(amount / most, 1.0) for link, amount in earned.items()}
        return {link: amount / most for link, amount in earned.items()}

    def count_clipped(self, earned: Mapping[Link, float], pool: Container[Link]) -> None:
        """Count the amounts that `scaled_page` clipped, for links of the pool."""
        most = self.max_revenue
        if earned and max(earned.values()) / most > 1.0:
            over = [earned[link] for link in earned if earned[link] / most > 1.0 and link in pool]
            self._count_clipped(over)

    def _count_clipped(self, amounts: list[float]) -> None:
        if amounts and not self.n_clipped:
            self._first_clipped = max(amounts)
        self.n_clipped += len(amounts)

    def warn(self) -> None:
        """Warn once, after everything is learned, that an amount was clipped."""
        amount, self._first_clipped = self._first_clipped, 0.0
        if amount:
            warnings.warn(
                f"revenue of {amount:g} for a click is above max_revenue ({self.max_revenue:g}) "
                "and counts as that; give the most that a click can bring as `max_revenue=`; "
                "`report().n_clipped` counts such amounts",
                RevenueClipped,
                stacklevel=4,
            )


class UnknownWord(UserWarning):
    """A word outside the closed list of a feature counts as not known."""


class UnknownWords:
    """Counts values of visitors that are in no closed list, and warns of the first one."""

    def __init__(self) -> None:
        self.n = 0

    def note(self, features: Features, visitor: Mapping[str, Any], places: Places) -> None:
        """Count the unknown words of a visitor that is encoded as `places`."""
        for name, value, known in features.unknown_words(visitor, places):
            self.n += 1
            if self.n == 1:
                warnings.warn(
                    f"{value!r} is not a value of the feature {name!r} ({', '.join(known)}), so it "
                    "is taken as not known; `report().n_unknown_words` counts such values",
                    UnknownWord,
                    stacklevel=4,
                )


class FloorUnreachable(UserWarning):
    """No page of the links keeps the floor, by the estimates and by the delivered clicks."""


def warn_unreachable(page: PageReport) -> None:
    """Warn that no page keeps the floor, with the most clicks that a page can have."""
    warnings.warn(
        f"no page of these links keeps click_floor={page.click_floor:g}: by the estimates, the "
        f"most expected clicks are {page.most_clicks:.3g}; lower it with `set_floor`",
        FloorUnreachable,
        stacklevel=3,
    )


LEVEL = 0.95

N_TOP_LINKS = 3
"""Links that a report names for each value of a feature."""


@dataclass(frozen=True)
class PriceOfFloor:
    """Best revenue against floor, in money per page view, at the present estimates.

    `estimate` is computed from the means of all links; the `n_unseen` links without settled views
    count as 0 in it, and as the maximum in `high`.
    `low` is computed from the lower bounds of all click and revenue rates and `high` from the upper
    ones. A higher rate of any link can only raise the best revenue at a floor, so if all bounds
    hold, the true curve is between the two at every floor: with probability at least 95 %, for all
    floors and at all times at once. This holds for constant rates; the shadow prices have no band.
    """

    estimate: Frontier
    low: Frontier
    high: Frontier
    click_floor: float
    n_unseen: int

    def at(self, floor: float) -> tuple[float, float, float]:
        """Return the best revenue that keeps `floor`: estimate, low, high; NaN out of reach."""
        curves = (self.estimate, self.low, self.high)
        estimate, low, high = (curve.value_at(floor) for curve in curves)
        return estimate, low, high


def price_of_floor(
    counts: Counts, problem: Problem, max_revenue: float, rules: Sequence[SlotRule] = ()
) -> PriceOfFloor:
    """Return the frontier of the means, of the lower bounds and of the upper bounds."""
    if not (problem.has_click_floor_only and problem.rewards_last_level_only):
        rule = "a click floor alone for a frontier"
        advice = "a curve shows one floor; `report` has the price of each of several"
        raise InvalidInput.of("floors", rule, dict(problem.floors), advice)
    clicks, revenue = 0, problem.n_levels - 1
    width = math.log(2 * problem.n_links / (1 - LEVEL))

    def rates(level: int, bound: str) -> Floats:
        pairs = zip(counts.sums[level].tolist(), counts.views[level].tolist(), strict=True)
        return np.array([_rate(total, n_views, width, bound) for total, n_views in pairs])

    def curve(bound: str) -> Frontier:
        pair = rates(revenue, bound), rates(clicks, bound)
        floors, values, prices = frontier(*pair, problem.n_slots, rules=rules)
        found = Frontier(floors, values * max_revenue, prices * max_revenue)
        for array in found:
            array.flags.writeable = False
        return found

    return PriceOfFloor(
        estimate=curve("mean"),
        low=curve("low"),
        high=curve("high"),
        click_floor=problem.click_floor,
        n_unseen=int(np.sum((counts.views[clicks] == 0) | (counts.views[revenue] == 0))),
    )


def _rate(total: float, n_views: float, width: float, bound: str) -> float:
    total = min(total, n_views)  # a click in a slot of weight below 1 exceeds its view
    mean = total / n_views if n_views > 0 else 0.0
    if bound == "low":
        return max(0.0, min(mean, switching(anytime_lower)(total, n_views, width)))
    if bound == "high":
        return min(1.0, max(mean, switching(anytime_upper)(total, n_views, width)))
    return mean


@dataclass(frozen=True)
class VisitorReport:
    """Clicks and revenue per page view of visitors with one value of one feature.

    `clicks` and `revenue` are means over page views whose feedback is settled, with a 95 %
    interval; `top_links` are the most likely links on the next page of a visitor of whom only this
    value is known. `click_floor` is the floor of this segment, if it has one.
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


def visitor_lines(rows: Sequence[VisitorReport]) -> list[str]:
    """Return a sentence for every value with page views."""
    return [
        f"{row.feature} {row.value}: {row.page_views} page views, "
        f"{_with_interval(row.clicks)} clicks{_floor(row)} and "
        f"{_with_interval(row.revenue)} revenue a page; "
        f"most likely {', '.join(map(str, row.top_links))}"
        for row in rows
    ]


def _with_interval(rate: Rate) -> str:
    return f"{rate.estimate:.4g} ({rate.low:.4g} to {rate.high:.4g})"


def _floor(row: VisitorReport) -> str:
    return "" if row.click_floor is None else f" (floor {row.click_floor:g})"


MAX_ROWS = 30
"""Links that a printed report shows before it says how many more there are."""

HEADINGS = (
    "link",
    "probability",
    "views",
    "click rate",
    "95 % interval",
    "revenue",
    "95 % interval",
)


def text_table(report: Report) -> str:
    """Return the report as lines of text, the links most likely to be shown first."""
    links = sorted(report.links, key=lambda link: -link.probability)
    rows = [HEADINGS, *(_cells(link) for link in links[:MAX_ROWS])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    if len(links) > MAX_ROWS:
        lines.append(f"... and {len(links) - MAX_ROWS} more links")
    learned = [*visitor_lines(report.segments), *slot_lines(report.slots)]
    learned += [*rule_lines(report.rules), *comparison_lines(report.comparison)]
    page = [*_delivered_lines(report.delivered), *_page_lines(report.page)]
    return "\n".join([*lines, "", *page, *learned, _feedback_line(report)])


def rule_lines(rows: Sequence[RuleReport]) -> list[str]:
    """Return a sentence for every rule."""
    return [
        f"rule {row.name}: {row.slots_now:.3g} slots a page now, {row.slots_delivered:.3g} so far, "
        + (f"violated, {row.granted}; " if row.violated else "")
        + (
            f"costs {row.cost:.4g} a page view"
            if row.cost < math.inf
            else "gives up the click floor"
        )
        for row in rows
    ]


def rule_reports(
    player: Player, page: Floats, delivered: Floats, max_revenue: float
) -> tuple[RuleReport, ...]:
    """Return a row for each rule; costs are those at the mean rates so far."""
    if player.rules is None:
        return ()
    rates, problem = _means(player.counts, 0.0), player.problem
    floor = problem.click_floor
    return player.rules.report(page, delivered, (rates[-1], rates[0]), floor, max_revenue)


def _cells(link: LinkReport) -> tuple[str, ...]:
    return (
        str(link.link),
        f"{link.probability:.3f}",
        str(link.views),
        f"{link.click_rate.estimate:.4f}",
        _interval(link.click_rate),
        f"{link.revenue_rate.estimate:.4f}",
        _interval(link.revenue_rate),
    )


def _interval(rate: Rate | AnytimeRate) -> str:
    return f"{rate.low:.4f} to {rate.high:.4f}"


def _delivered_lines(delivered: DeliveredReport) -> list[str]:
    """Return the delivered clicks and revenue per page view, and the status of the floor."""
    if not delivered.page_views:
        return ["delivered: nothing is settled yet"]
    judged = f"floor {delivered.click_floor:g} {delivered.status}"
    clicks, revenue = (
        f"{one.estimate:.4g} {name} ({_interval(one)} at all times)"
        for name, one in (("clicks", delivered.clicks), ("revenue", delivered.revenue))
    )
    return [
        f"delivered per page view: {clicks}, {judged}",
        f"                         {revenue}",
    ]


def _page_lines(page: PageReport) -> list[str]:
    floor = f"floor {page.click_floor:g}, {page.status}"
    if page.status == "binding":
        floor += f": one more click a page costs {page.shadow_price:.4g}"
    elif page.status == "infeasible":
        floor += f": the most that a page can have is {page.most_clicks:.4g}"
    further = [
        f"               {floor.name}: {floor.expected:.4g} (floor {floor.floor:g})"
        for floor in page.floors[page.click_floor > 0.0 :]
    ]
    return [
        f"the next page: {page.expected_clicks:.4g} clicks expected ({floor})",
        *further,
        f"               {page.expected_revenue:.4g} revenue",
    ]


def _feedback_line(report: Report) -> str:
    return (
        f"{report.policy}: {report.n_pages} pages, {report.n_open_pages} open, "
        f"{report.n_forgotten_pages} forgotten; {report.n_clipped} amounts clipped"
    )


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

    Amounts of a floor on a rate are those above the rate, so it asks for 0.
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
