"""Pools: how a page is filled."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from slotwise.errors import InvalidInput
from slotwise.service.api.answers import to_time
from slotwise.service.api.context import Operation, Request, ServiceContext
from slotwise.service.api.destinations import check_destination
from slotwise.service.api.pool_bodies import PoolAnswer, PoolBody, PoolList, PoolPatch, body_of
from slotwise.service.errors import UnknownPool
from slotwise.service.http.operations import OperationLink
from slotwise.service.http.problems import broken_rule
from slotwise.service.records import Pin, PoolSettings
from slotwise.service.visitors import declared_floors

__all__ = ["OPERATIONS"]

_POINTERS = {
    "max_revenue_micros": "/max_revenue/amount_micros",
    "currency": "/max_revenue/currency",
    "policy": "/policy/name",
    "policy_settings": "/policy/settings",
}
"""Where the fields of the stored settings stand in the body, where the names differ."""


async def put_pool(context: ServiceContext, request: Request) -> PoolAnswer:
    """Create or replace a pool."""
    return await _store(context, request, request.body)


async def patch_pool(context: ServiceContext, request: Request) -> PoolAnswer:
    """Change some fields of a pool."""
    patch: PoolPatch = request.body
    present = body_of(context.service.pool(request.path_values["pool_id"]))
    changed = {
        name: getattr(patch, name) if getattr(patch, name) is not UNSET else getattr(present, name)
        for name in PoolBody.__struct_fields__
    }
    return await _store(context, request, PoolBody(**changed))


async def get_pool(context: ServiceContext, request: Request) -> PoolAnswer:
    """Return a pool."""
    pool = context.service.pool(request.path_values["pool_id"])
    return await asyncio.to_thread(_answer, context, pool)


async def list_pools(context: ServiceContext, request: Request) -> PoolList:
    """Return every pool."""
    pools = context.service.pools()
    return PoolList(await asyncio.to_thread(lambda: [_answer(context, pool) for pool in pools]))


async def archive_pool(context: ServiceContext, request: Request) -> PoolAnswer:
    """Archive a pool."""
    archived = context.service.archive_pool(
        request.path_values["pool_id"], request.caller(), context.clock_us()
    )
    return await asyncio.to_thread(_answer, context, await asyncio.wrap_future(archived))


async def _store(context: ServiceContext, request: Request, body: PoolBody) -> PoolAnswer:
    pool_id = request.path_values["pool_id"]
    settings = PoolSettings(
        pool_id=pool_id,
        slots=body.slots,
        click_floor=body.click_floor,
        max_revenue_micros=body.max_revenue.amount_micros,
        currency=body.max_revenue.currency,
        click_window_s=body.click_window_s,
        revenue_window_s=body.revenue_window_s,
        policy=body.policy.name,
        policy_settings=body.policy.settings,
        holdout=body.holdout,
        explore=body.explore,
        fallback_order=body.fallback_order,
        pins=tuple(Pin(link_id=pin.link_id, position=pin.position) for pin in body.pins),
        allowed_hosts=body.allowed_hosts,
        features=_plain(body.features),
        slot_weights=body.slot_weights if isinstance(body.slot_weights, tuple) else (),
        learn_slot_weights=body.slot_weights == "learn",
    )

    def check_and_store() -> Future[PoolSettings]:
        _check_links_stay_allowed(context, pool_id, body)
        floors_by = declared_floors(body.floors_by, settings.features)
        labelled = replace(settings, floors_by=floors_by)
        return context.service.put_pool(labelled, request.caller(), context.clock_us())

    try:
        # Not on the event loop: the check starts the policy, which may have to be compiled first.
        loop = asyncio.get_running_loop()
        stored = await loop.run_in_executor(context.change_threads, check_and_store)
    except InvalidInput as error:
        pointer = _POINTERS.get(error.argument, f"/{error.argument}")
        raise broken_rule(str(error), pointer) from None
    return await asyncio.to_thread(_answer, context, await asyncio.wrap_future(stored))


def _check_links_stay_allowed(context: ServiceContext, pool_id: str, body: PoolBody) -> None:
    try:
        links = context.service.links(pool_id)
    except UnknownPool:
        return
    for link in links:
        if link.retired:
            continue
        try:
            check_destination(link.url, body.allowed_hosts)
        except ValueError as error:
            detail = f"link {link.link_id}: {error}; change or retire the link first"
            raise broken_rule(detail, "/allowed_hosts") from None


def _plain(features: Mapping[str, Any]) -> dict[str, Any]:
    """Return features as they are read back from the store, with lists for tuples."""
    kinds = features.items()
    return {name: kind if isinstance(kind, str) else list(kind) for name, kind in kinds}


def _answer(context: ServiceContext, pool: PoolSettings) -> PoolAnswer:
    body = body_of(pool)
    active = sum(not link.retired for link in context.service.links(pool.pool_id))
    return PoolAnswer(
        pool_id=pool.pool_id,
        **{name: getattr(body, name) for name in PoolBody.__struct_fields__},
        archived=pool.archived,
        n_links=active,
        created_at=to_time(pool.created_us),
        changed_at=to_time(pool.changed_us),
    )


EXAMPLE = {
    "slots": 3,
    "click_floor": 0.3,
    "max_revenue": {"amount_micros": 50_000_000, "currency": "EUR"},
    "click_window_s": 1800,
    "revenue_window_s": 86400,
    "policy": {"name": "paced-bayes", "settings": {}},
    "holdout": 0.05,
    "explore": 0.02,
    "fallback_order": ["l1", "l2"],
    "pins": [],
    "allowed_hosts": ["shop.example"],
    "features": {"device": ["phone", "desktop"], "country": "text", "returning": "bool"},
    "slot_weights": None,
    "floors_by": {"country": {"DE": 0.25}},
}
ANSWER_EXAMPLE = {
    "pool_id": "home",
    **EXAMPLE,
    "archived": False,
    "n_links": 0,
    "created_at": "2026-01-05T10:00:00Z",
    "changed_at": "2026-01-05T10:00:00Z",
}
_TO_POOL = {"pool_id": "$response.body#/pool_id"}

OPERATIONS = (
    Operation(
        method="PUT",
        path="/v1/pools/{pool_id}",
        name="put_pool",
        summary="Create or replace a pool",
        handler=put_pool,
        scope="admin",
        body=PoolBody,
        answer=PoolAnswer,
        problems=("pool-too-large",),
        example=EXAMPLE,
        answer_example=ANSWER_EXAMPLE,
        links=(
            OperationLink("get_pool", _TO_POOL),
            OperationLink("patch_pool", _TO_POOL),
            OperationLink("put_link", _TO_POOL),
            OperationLink("put_links", _TO_POOL),
            OperationLink("decide", _TO_POOL),
            OperationLink("stats", _TO_POOL),
            OperationLink("archive_pool", _TO_POOL),
        ),
    ),
    Operation(
        method="PATCH",
        path="/v1/pools/{pool_id}",
        name="patch_pool",
        summary="Change some fields of a pool",
        handler=patch_pool,
        scope="admin",
        body=PoolPatch,
        answer=PoolAnswer,
        problems=("unknown-pool",),
        example={"click_floor": 0.4},
        answer_example=ANSWER_EXAMPLE | {"click_floor": 0.4},
        links=(OperationLink("get_pool", _TO_POOL),),
    ),
    Operation(
        method="GET",
        path="/v1/pools/{pool_id}",
        name="get_pool",
        summary="Read a pool",
        handler=get_pool,
        scope="read",
        answer=PoolAnswer,
        problems=("unknown-pool",),
        answer_example=ANSWER_EXAMPLE,
    ),
    Operation(
        method="DELETE",
        path="/v1/pools/{pool_id}",
        name="archive_pool",
        summary="Archive a pool: it decides no more, its history stays",
        handler=archive_pool,
        scope="admin",
        answer=PoolAnswer,
        problems=("unknown-pool",),
        answer_example=ANSWER_EXAMPLE | {"archived": True},
        links=(OperationLink("get_pool", _TO_POOL),),
    ),
    Operation(
        method="GET",
        path="/v1/pools",
        name="list_pools",
        summary="List the pools, archived ones too",
        handler=list_pools,
        scope="read",
        answer=PoolList,
        answer_example={"pools": [ANSWER_EXAMPLE]},
    ),
)
