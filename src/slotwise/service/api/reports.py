"""Reports: how a pool is doing, what its floor costs and why a link is shown."""

from __future__ import annotations

import asyncio

import msgspec

from slotwise.service.api.answers import answer_type, as_answer
from slotwise.service.api.context import Operation, Request, ServiceContext
from slotwise.service.reporting.for_whom import ForWhom
from slotwise.service.reporting.reports import Explanation, FrontierReport, PoolReport

__all__ = ["OPERATIONS"]


class ExplanationList(msgspec.Struct, frozen=True, kw_only=True):
    """Why each active link is shown as often as it is, and to whom."""

    pool_id: str
    links: tuple[Explanation, ...]
    for_whom: ForWhom


async def stats(context: ServiceContext, request: Request) -> msgspec.Struct:
    """Return estimates with intervals."""
    return as_answer(await asyncio.to_thread(context.service.stats, request.path_values["pool_id"]))


async def frontier(context: ServiceContext, request: Request) -> msgspec.Struct:
    """Return the revenue-for-floor curve."""
    pool_id = request.path_values["pool_id"]
    return as_answer(await asyncio.to_thread(context.service.frontier, pool_id))


async def explain(context: ServiceContext, request: Request) -> msgspec.Struct:
    """Say why each link is shown as often as it is."""
    pool_id = request.path_values["pool_id"]
    service = context.service
    found = await asyncio.to_thread(service.explain, pool_id)
    for_whom = await asyncio.to_thread(service.for_whom, pool_id)
    return ExplanationList(pool_id=pool_id, links=tuple(found), for_whom=for_whom)


OPERATIONS = (
    Operation(
        method="GET",
        path="/v1/pools/{pool_id}/stats",
        name="stats",
        summary="Read estimates with intervals, the floor and what it costs",
        handler=stats,
        scope="read",
        answer=answer_type(PoolReport),
        problems=("unknown-pool",),
    ),
    Operation(
        method="GET",
        path="/v1/pools/{pool_id}/frontier",
        name="frontier",
        summary="Read the best revenue for every floor",
        handler=frontier,
        scope="read",
        answer=answer_type(FrontierReport),
        problems=("unknown-pool",),
        answer_example={
            "pool_id": "home",
            "policy_version": 12,
            "currency": "EUR",
            "click_floor": 0.3,
            "points": [
                {"click_floor": 0.2, "revenue": 0.1, "revenue_micros": 5e6, "shadow_price": 0.0},
                {"click_floor": 0.6, "revenue": 0.04, "revenue_micros": 2e6, "shadow_price": 0.15},
            ],
        },
    ),
    Operation(
        method="GET",
        path="/v1/pools/{pool_id}/explain",
        name="explain",
        summary="Read why each link is shown as often as it is, and to whom",
        handler=explain,
        scope="read",
        answer=ExplanationList,
        problems=("unknown-pool",),
    ),
)
