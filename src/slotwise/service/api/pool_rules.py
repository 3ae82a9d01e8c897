"""Rules of a pool: limits on the slots of some links, and what they cost.

Used by `app`.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Annotated

import msgspec
from msgspec import Meta

from slotwise.errors import InvalidInput
from slotwise.service import limits
from slotwise.service.api.bodies import Id, Strict, Time, from_time
from slotwise.service.api.context import Operations, Request, ServiceContext
from slotwise.service.api.links import Group
from slotwise.service.api.pools import MoneyBody
from slotwise.service.http.problems import broken_rule
from slotwise.service.records import (
    ClickBudget,
    ClicksUntil,
    PoolRule,
    PoolSettings,
    ViewsUntil,
)
from slotwise.service.reporting.report_records import RuleStatus
from slotwise.service.reporting.rule_report import RuleCheck

SlotBound = Annotated[float, Meta(ge=0, le=limits.MAX_SLOTS)]


class ViewsUntilBody(Strict, frozen=True, kw_only=True):
    """A number of views of all the links together, until a time."""

    views: Annotated[int, Meta(ge=1, le=limits.MAX_KNOWN_VIEWS)]
    until: Time


class ClicksUntilBody(Strict, frozen=True, kw_only=True):
    """A number of clicks on all the links together, until a time."""

    clicks: Annotated[int, Meta(ge=1, le=limits.MAX_KNOWN_VIEWS)]
    until: Time


class BudgetBody(Strict, frozen=True, kw_only=True):
    """The most clicks until a time, or an amount of money at a cost per click."""

    until: Time
    clicks: Annotated[int, Meta(ge=0, le=limits.MAX_KNOWN_VIEWS)] | None = None
    money: MoneyBody | None = None
    cost_per_click: MoneyBody | None = None
    hard: Annotated[
        bool,
        Meta(description="Reserve the clicks of open views, so that the budget is never exceeded"),
    ] = False


class RuleBody(Strict, frozen=True, kw_only=True):
    """A rule about the links of a group, or about listed links."""

    name: Annotated[str, Meta(min_length=1, max_length=limits.MAX_GROUP_CHARS)]
    group: Group = ""
    links: Annotated[
        tuple[Id, ...],
        Meta(max_length=limits.MAX_POOL_LINKS, description="The links, where there is no group"),
    ] = ()
    at_least: Annotated[
        SlotBound,
        Meta(description="Fewest slots per page: a fraction holds on average, 1 on every page"),
    ] = 0.0
    at_most: Annotated[SlotBound | None, Meta(description="Most slots per page")] = None
    boost: Annotated[
        float, Meta(ge=0, le=1e6, description="Revenue of these links counts 1 + boost times")
    ] = 0.0
    views_until: ViewsUntilBody | None = None
    clicks_until: ClicksUntilBody | None = None
    budget: BudgetBody | None = None


class RulesBody(Strict, frozen=True, kw_only=True):
    """All rules of a pool; of two that contradict each other the first one holds."""

    rules: Annotated[
        tuple[RuleBody, ...],
        Meta(
            max_length=limits.MAX_RULES,
            description="All rules of the pool; of two that contradict each other the first holds.",
        ),
    ]


class RuleList(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a pool and how each of them is kept."""

    pool_id: str
    currency: str
    rules: tuple[RuleStatus, ...]


EXAMPLE = {
    "rules": [
        {"name": "one of Acme", "group": "Acme", "at_most": 1},
        {"name": "partner", "links": ["b1", "b2"], "at_least": 0.5},
        {
            "name": "campaign",
            "group": "Acme",
            "views_until": {"views": 100_000, "until": "2026-01-30T00:00:00Z"},
            "budget": {"clicks": 500, "until": "2026-01-30T00:00:00Z", "hard": True},
        },
    ]
}
OPERATIONS = Operations()


@OPERATIONS.add("GET /v1/pools/{pool_id}/rules", "read", has_revision=True)
def get_rules(context: ServiceContext, request: Request) -> RuleList:
    """Read the rules of a pool, what each one delivers, and what it costs."""
    pool_id = request.path_values["pool_id"]
    request.revision = context.service.directory.pool(pool_id).changed_us
    return _list(context, pool_id)


@OPERATIONS.add(
    "PUT /v1/pools/{pool_id}/rules",
    "admin",
    has_revision=True,
    body=RulesBody,
    example=EXAMPLE,
)
async def put_rules(context: ServiceContext, request: Request) -> RuleList:
    """Replace the rules of a pool; they hold from the next page on."""
    pool_id = request.path_values["pool_id"]
    rules = _rules_of(request.body, context.service.directory.pool(pool_id).currency)

    def check_and_store() -> Future[PoolSettings]:
        by, now_us, expected_us = request.caller(), context.clock_us(), request.expected_revision()
        return context.service.directory.put_rules(pool_id, rules, by, now_us, expected_us)

    loop = asyncio.get_running_loop()
    try:
        saving = await loop.run_in_executor(context.change_threads, check_and_store)
        stored = await asyncio.wrap_future(saving)
    except InvalidInput as error:
        raise broken_rule(str(error), "/rules") from None
    request.revision = stored.changed_us
    return await asyncio.to_thread(_list, context, pool_id)


@OPERATIONS.add("POST /v1/pools/{pool_id}/rules:check", "read", body=RulesBody, example=EXAMPLE)
def check_rules(context: ServiceContext, request: Request) -> RuleCheck:
    """Estimate what rules would cost, and which of them contradict others; nothing is stored."""
    pool_id = request.path_values["pool_id"]
    rules = _rules_of(request.body, context.service.directory.pool(pool_id).currency)
    try:
        return context.service.reporter.check_rules(pool_id, rules, context.clock_us())
    except InvalidInput as error:
        raise broken_rule(str(error), "/rules") from None


def _rules_of(body: RulesBody, currency: str) -> tuple[PoolRule, ...]:
    """Return the rules as they are stored; money is that of the pool."""
    return tuple(
        PoolRule(
            name=rule.name,
            group=rule.group,
            links=rule.links,
            at_least=rule.at_least,
            at_most=rule.at_most,
            boost=rule.boost,
            views_until=_views_until(rule.views_until),
            clicks_until=_clicks_until(rule.clicks_until),
            budget=None if rule.budget is None else _budget(rule.name, rule.budget, currency),
        )
        for rule in body.rules
    )


def _views_until(goal: ViewsUntilBody | None) -> ViewsUntil | None:
    return None if goal is None else ViewsUntil(views=goal.views, until_us=from_time(goal.until))


def _clicks_until(goal: ClicksUntilBody | None) -> ClicksUntil | None:
    return None if goal is None else ClicksUntil(clicks=goal.clicks, until_us=from_time(goal.until))


def _budget(name: str, body: BudgetBody, currency: str) -> ClickBudget:
    """Return a budget in clicks; money buys as many as it pays in full."""

    def wrong(field: str, rule: str, value: object) -> Exception:
        detail = f"`budget.{field}` of rule {name!r} must be {rule}, got {value!r}"
        return broken_rule(detail, "/rules")

    until_us = from_time(body.until)
    if (body.clicks is None) == (body.money is None):
        raise wrong("clicks", "given, or `budget.money`, and not both", body.clicks)
    if body.money is None or body.cost_per_click is None:
        if body.money is not None or body.clicks is None:
            raise wrong("cost_per_click", "given with money", None)
        return ClickBudget(clicks=body.clicks, until_us=until_us, hard=body.hard)
    for field in ("money", "cost_per_click"):
        amount = getattr(body, field)
        if amount.currency != currency:
            raise wrong(field, f"in the pool's currency ({currency})", amount.currency)
    amount, cost = body.money.amount_micros, body.cost_per_click.amount_micros
    return ClickBudget(
        clicks=amount // cost,
        until_us=until_us,
        hard=body.hard,
        amount_micros=amount,
        cost_per_click_micros=cost,
    )


def _list(context: ServiceContext, pool_id: str) -> RuleList:
    reporter = context.service.reporter
    rules = reporter.rules(pool_id, context.clock_us())
    currency = reporter.directory.pool(pool_id).currency
    return RuleList(pool_id=pool_id, currency=currency, rules=rules)
