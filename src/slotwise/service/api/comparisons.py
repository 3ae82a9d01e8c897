"""Pools side by side, and a period beside the one before it: more figures of the dashboard."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from slotwise.service.api.answers import Time, from_time
from slotwise.service.api.context import Operation, Request, ServiceContext
from slotwise.service.api.fields import Strict
from slotwise.service.http.problems import broken_rule
from slotwise.service.records import DAY_US
from slotwise.service.reporting.all_pools import PoolRow
from slotwise.service.reporting.totals import PeriodComparison

__all__ = ["OPERATIONS"]

MAX_DAYS = 92
_ALL_POOLS = " all pools"
"""The name of the kept report; no pool has it, for no id has a space."""


class PoolRows(msgspec.Struct, frozen=True, kw_only=True):
    """Every pool, by id."""

    pools: tuple[PoolRow, ...]


class PeriodQuery(Strict, frozen=True, kw_only=True):
    """Which period."""

    since: Annotated[Time, Meta(description="The start of the period")]
    until: Annotated[Time, Meta(description="Its end, which is no part of it")]


async def all_pools(context: ServiceContext, _request: Request) -> PoolRows:
    """Return how all pools are doing."""
    service = context.service
    state = tuple((pool.pool_id, pool.changed_us) for pool in service.pools())

    def make() -> tuple[PoolRow, ...]:
        return service.reporter.all_pools(service.health())

    kept = context.comparisons
    rows = await asyncio.to_thread(kept.get, _ALL_POOLS, state, lambda: PoolRows(pools=make()))
    assert isinstance(rows, PoolRows)
    return rows


async def compare(context: ServiceContext, request: Request) -> PeriodComparison:
    """Return what a pool brought in a period and in the one before it."""
    query: PeriodQuery = request.query
    pool = context.service.pool(request.path_values["pool_id"])
    from_us, until_us = from_time(query.since), from_time(query.until)
    if not from_us < until_us:
        raise broken_rule("`until` must be after `since`", parameter="until")
    if until_us - from_us > MAX_DAYS * DAY_US:
        raise broken_rule(f"the period must have at most {MAX_DAYS} days", parameter="since")
    if from_us < 0:
        raise broken_rule("`since` must be after 1970", parameter="since")
    name = f"{pool.pool_id} {from_us} {until_us}"
    report = context.service.reporter.compare
    made = await asyncio.to_thread(
        context.comparisons.get,
        name,
        pool.changed_us,
        lambda: report(pool.pool_id, from_us, until_us),
    )
    assert isinstance(made, PeriodComparison)
    return made


OPERATIONS = (
    Operation(
        method="GET",
        path="/dashboard/overview",
        name="dashboard_overview",
        summary="Read how all pools are doing",
        handler=all_pools,
        scope="read",
        open_on_loopback=True,
        answer=PoolRows,
    ),
    Operation(
        method="GET",
        path="/dashboard/pools/{pool_id}/period",
        name="dashboard_period",
        summary="Compare a period of a pool with the one before it",
        handler=compare,
        scope="read",
        open_on_loopback=True,
        query=PeriodQuery,
        answer=PeriodComparison,
        problems=("unknown-pool",),
    ),
)
