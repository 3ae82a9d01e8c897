"""What the rules of a pool deliver, what they cost and which of them contradict others.

Used by `reporter` and `api`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from slotwise.arrays import Floats
from slotwise.compile import switching
from slotwise.player.link_pool import LinkPool
from slotwise.player.pacing import Traffic
from slotwise.player.rules_in_force import VIOLATED, RulesInForce, cost_of_rules
from slotwise.selection.page_rules import PageRules
from slotwise.selection.page_within_rules import solve_within
from slotwise.service.deciding.installed_version import InstalledVersion
from slotwise.service.pool import NO_PLACES, Pool, check_rules, dated_rules
from slotwise.service.pool_version import RuleCount, StoredVersion
from slotwise.service.records import SECOND_US, PoolRule, to_time
from slotwise.service.reporting.report_records import GoalKind, GoalStatus, RuleStatus


class RuleCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What rules would do, by the present estimates."""

    currency: str
    revenue_micros: int
    """Expected revenue of a page view with these rules."""
    cost_micros: int | None
    """The additional revenue per page view without any of them; None if pages miss the click floor
    because of them."""
    most_clicks: float
    """The most clicks that a page view can have with these rules."""
    clicks_missed: float
    """Clicks per page view by which the floor will be missed because of the rules."""
    conflicts: tuple[str, ...]
    """A sentence for each rule and each floor that cannot be kept."""
    rules: tuple[RuleStatus, ...]


EMPTY = "No link of the pool may be shown at present."


class _Now(NamedTuple):
    """The links that may be shown now, with their rates, and the rules about them."""

    places: NDArray[np.int64]
    in_force: RulesInForce
    pinned: NDArray[np.int64]
    revenue: Floats
    clicks: Floats
    n_slots: int


def _present(pool: Pool, installed: InstalledVersion) -> _Now | None:
    """Return what may be shown now, or None if nothing may."""
    off = installed.off
    places = np.array([k for k, one in enumerate(installed.link_ids) if one not in off], np.int64)
    n_slots = min(pool.settings.slots, len(places))
    if not n_slots:
        return None
    link_ids = [installed.link_ids[k] for k in places.tolist()]
    links = LinkPool(link_ids)
    pinned = [links.place_of[one.link_id] for one in pool.settings.pins if one.link_id in links]
    return _Now(
        places,
        pool.rules_in_force(link_ids, n_slots, installed.stored.paced_rules),
        np.array(pinned[:n_slots], np.int64),
        installed.rates.revenue[places],
        installed.rates.clicks[places],
        n_slots,
    )


def report_rules(
    pool: Pool, installed: InstalledVersion, page: Floats | None = None
) -> tuple[RuleStatus, ...]:
    """Return a row for each rule; `page` is the version's page if the rules are in use."""
    settings = pool.settings
    if not settings.rules:
        return ()
    now = _present(pool, installed)
    counts = {one.name: one for one in installed.stored.rule_counts}
    counted = [
        one if (one := counts.get(rule.name)) and one.since_us == rule.since_us else None
        for rule in settings.rules
    ]
    if now is None:
        return tuple(
            _status(rule, EMPTY, bool(rule.at_least), _goals(rule, one, installed.stored, 0.0, 0.0))
            for rule, one in zip(settings.rules, counted, strict=True)
        )
    shown = installed.shown_probabilities()[now.places] if page is None else page
    delivered = np.array([one.slots / max(one.pages, 1) if one else 0.0 for one in counted])
    rates, money = (now.revenue, now.clicks), float(settings.max_revenue_micros)
    ruled = now.in_force.for_places(now.pinned, NO_PLACES)
    rows = now.in_force.report(shown, delivered, rates, settings.click_floor, money, ruled)
    slot_rules = now.in_force.slot_rules()
    found = []
    for rule, row, one, links in zip(settings.rules, rows, counted, slot_rules, strict=True):
        clicks = float(shown[links.links] @ now.clicks[links.links])
        goals = _goals(rule, one, installed.stored, row.slots_now, clicks)
        detail = f"Rule {rule.name!r} has {row.granted} slots per page." if row.violated else ""
        detail = detail or _behind(rule.name, goals, installed.stored)
        amounts = _Amounts(
            n_links=len(links.links),
            slots_now=row.slots_now,
            slots_delivered=row.slots_delivered,
            page_views=one.pages if one else 0,
            price_micros=round(row.price),
            cost_micros=_micros(row.cost),
        )
        found.append(_status(rule, detail, bool(detail), goals, amounts))
    return tuple(found)


class _Amounts(NamedTuple):
    """What a rule delivers and costs; nothing where no link may be shown."""

    n_links: int = 0
    slots_now: float = 0.0
    slots_delivered: float = 0.0
    page_views: int = 0
    price_micros: int = 0
    cost_micros: int | None = 0


def _status(
    rule: PoolRule,
    detail: str,
    is_violated: bool,
    goals: tuple[GoalStatus, ...],
    amounts: _Amounts | None = None,
) -> RuleStatus:
    """Return the row of a rule."""
    amounts = amounts or _Amounts()
    return RuleStatus(
        name=rule.name,
        group=rule.group,
        links=rule.links,
        at_least=rule.at_least,
        at_most=rule.at_most,
        boost=rule.boost,
        since=to_time(rule.since_us),
        n_links=amounts.n_links,
        slots_now=amounts.slots_now,
        slots_delivered=amounts.slots_delivered,
        page_views=amounts.page_views,
        price_micros=amounts.price_micros,
        cost_micros=amounts.cost_micros,
        violated=is_violated,
        detail=detail,
        goals=goals,
    )


def check_new_rules(
    pool: Pool,
    installed: InstalledVersion,
    rules: Sequence[PoolRule],
    now_us: int,
    views_per_s: float = 0.0,
) -> RuleCheck:
    """Return what new rules would do, or raise `InvalidInput` where one is wrong.

    `views_per_s` is the traffic of the last day, used where there is no forecast yet.
    """
    check_rules(pool, rules, now_us)
    settings = replace(pool.settings, rules=dated_rules(pool, rules, now_us))
    changed = pool.with_settings(settings)
    now, money = _present(changed, installed), settings.max_revenue_micros
    if now is None:
        found = report_rules(changed, installed)
        return RuleCheck(
            currency=settings.currency,
            revenue_micros=0,
            cost_micros=0,
            most_clicks=0.0,
            clicks_missed=0.0,
            conflicts=(),
            rules=found,
        )

    def best(in_force: RulesInForce) -> Floats:
        page = in_force.for_places(now.pinned, NO_PLACES).rules
        value = np.minimum(now.revenue * page.boost, 1.0)
        switching(solve_within)(page, value, now.clicks, settings.click_floor)
        return page.probabilities.copy()

    links = LinkPool([installed.link_ids[k] for k in now.places.tolist()])
    no_rules = RulesInForce((), links, now.n_slots)
    within, free = best(now.in_force), best(no_rules)
    rows = report_rules(changed, installed, within)
    conflicts = [row.detail for row in rows if row.violated]
    floor = settings.click_floor
    most, most_free = (
        _most_clicks(in_force.for_places(now.pinned, NO_PLACES).rules, now.clicks, now.n_slots)
        for in_force in (now.in_force, no_rules)
    )
    missed = min(floor, most_free) - most
    missed = missed if missed > VIOLATED * floor else 0.0
    if missed:
        conflicts.append(
            f"With these rules a page has at most {most:.3g} clicks; the floor of {floor:g} will "
            f"be missed by {floor - most:.3g}."
        )
    if not Traffic(installed.stored.traffic).is_known:
        at_most = {
            rule.name: _most_on_a_page(rule, now.clicks[asked_links.links], now.n_slots)
            for rule, asked_links in zip(settings.rules, now.in_force.slot_rules(), strict=True)
        }
        conflicts += _out_of_reach(settings.rules, at_most, views_per_s, now_us)
    revenue = float(within @ now.revenue) * money
    return RuleCheck(
        currency=settings.currency,
        revenue_micros=round(revenue),
        cost_micros=_micros(cost_of_rules((now.revenue, now.clicks), floor, free, within) * money),
        most_clicks=most,
        clicks_missed=missed,
        conflicts=tuple(conflicts),
        rules=rows,
    )


def _micros(cost: float) -> int | None:
    return None if math.isinf(cost) else round(cost)


def _most_clicks(page: PageRules | None, clicks: Floats, n_slots: int) -> float:
    """Return the most clicks of a page within the rules, if there are some."""
    if page is None:
        return float(np.sort(clicks)[::-1][:n_slots].sum())
    switching(solve_within)(page, clicks, clicks, 0.0)
    return float(page.probabilities @ clicks)


def rules_below_floor(pool: Pool, installed: InstalledVersion) -> tuple[str, ...]:
    """Return the rules that keep pages below the floor, by the present estimates.

    With all rules no page reaches the floor, and without one of these a page has more clicks.
    """
    floor = pool.settings.click_floor

    def most_without(name: str) -> float:
        page = installed.page_rules(left_out=name)
        return _most_clicks(page, installed.rates.clicks, pool.settings.slots)

    rules = pool.settings.rules
    most = most_without("") if rules else floor
    if most >= floor * (1.0 - VIOLATED):
        return ()
    return tuple(one.name for one in rules if most_without(one.name) > most + VIOLATED * floor)


def _most_on_a_page(rule: PoolRule, rates: Floats, n_slots: int) -> tuple[float, float]:
    """Return the most slots and clicks that the links of a rule can have on a page."""
    slots = min(float(n_slots), len(rates), n_slots if rule.at_most is None else rule.at_most)
    return slots, float(np.sort(rates)[::-1][: math.ceil(slots)].sum())


def _out_of_reach(
    rules: Sequence[PoolRule],
    at_most: Mapping[str, tuple[float, float]],
    views_per_s: float,
    now_us: int,
) -> Iterator[str]:
    """Yield a sentence for each goal that the traffic of the last day cannot reach.

    `at_most` are the most slots and clicks of each rule on a page.
    """
    for rule in rules:
        slots, clicks = at_most[rule.name]
        wanted: list[tuple[str, int, int, float]] = []
        if rule.views_until is not None:
            wanted.append(("views", rule.views_until.views, rule.views_until.until_us, slots))
        if rule.clicks_until is not None:
            wanted.append(("clicks", rule.clicks_until.clicks, rule.clicks_until.until_us, clicks))
        for kind, target, until_us, per_page in wanted:
            at = f"{to_time(until_us):%Y-%m-%d %H:%M} UTC"
            possible = views_per_s * max(until_us - now_us, 0) / SECOND_US * per_page
            if not views_per_s:
                yield (
                    f"Nothing is known of the traffic yet, so whether rule {rule.name!r} reaches "
                    f"{target:,} {kind} by {at} cannot be estimated."
                )
            elif possible < BEHIND * target:
                yield (
                    f"Rule {rule.name!r} needs {target:,} {kind} by {at}; at most about "
                    f"{round(possible):,} are possible with the traffic of the last day."
                )


def _goals(
    rule: PoolRule, count: RuleCount | None, stored: StoredVersion, slots: float, clicks: float
) -> tuple[GoalStatus, ...]:
    """Return the progress of a rule's goals, given the slots and clicks of its links per page."""
    if not rule.has_goals:
        return ()
    count = count or RuleCount(rule.name, rule.since_us)
    traffic, now_us = Traffic(stored.traffic), stored.published_us
    done_clicks = count.clicks + count.open_clicks

    def status(
        kind: GoalKind, target: int, until_us: int, done: int, per_page: float
    ) -> GoalStatus:
        further = round(traffic.views_until(now_us, until_us) * per_page)
        until = to_time(until_us)
        return GoalStatus(kind=kind, target=target, done=done, until=until, forecast=done + further)

    goals = []
    if (views := rule.views_until) is not None:
        goals.append(status("views", views.views, views.until_us, count.slots, slots))
    if (wanted := rule.clicks_until) is not None:
        goals.append(status("clicks", wanted.clicks, wanted.until_us, done_clicks, clicks))
    if (budget := rule.budget) is not None:
        spent = status("budget", budget.clicks, budget.until_us, done_clicks, clicks)
        goals.append(
            replace(
                spent,
                hard=budget.hard,
                amount_micros=budget.amount_micros,
                cost_per_click_micros=budget.cost_per_click_micros,
            )
        )
    return tuple(goals)


BEHIND = 0.98
"""A goal whose forecast is below this share of its target is behind."""


def _behind(name: str, goals: Sequence[GoalStatus], stored: StoredVersion) -> str:
    """Return a sentence about a goal that will be missed, or an empty text."""
    if not Traffic(stored.traffic).is_known:
        return ""
    for goal in goals:
        is_open = goal.kind != "budget" and goal.until > to_time(stored.published_us)
        if is_open and max(goal.forecast, goal.done) < BEHIND * goal.target:
            at = f"{goal.until:%Y-%m-%d %H:%M} UTC"
            return (
                f"Rule {name!r} reaches about {goal.forecast:,} of {goal.target:,} {goal.kind} "
                f"by {at}."
            )
    return ""
