"""Pools and their settings. Used by `app`, `pool_rules`, `reports` and `traffic_plans`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import Future
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from slotwise.errors import InvalidInput, check_all
from slotwise.features import declared_floors
from slotwise.policies import default_policy
from slotwise.service import limits
from slotwise.service.api.bodies import (
    Currency,
    Features,
    Id,
    PinBody,
    Pins,
    SegmentFloorTable,
    Slots,
    SlotWeights,
    Strict,
    Time,
    check_destination,
    from_time,
    given,
    patch_type,
)
from slotwise.service.api.context import Operations, Request, ServiceContext
from slotwise.service.http.problems import FieldError, RequestProblem
from slotwise.service.http.routing import links_to
from slotwise.service.records import (
    EQUAL_SLOTS,
    HoldoutPage,
    Pin,
    PoolSettings,
    time_if_any,
    to_time,
)
from slotwise.service.refusals import UnknownPool

Host = Annotated[
    str,
    Meta(pattern=limits.HOST_PATTERN, max_length=limits.MAX_HOST_CHARS),
    Meta(description="host or host:port"),
]
ClickFloor = Annotated[
    float, Meta(ge=0, lt=limits.MAX_SLOTS, description="Fewest expected clicks per page view")
]
WindowSeconds = Annotated[int, Meta(ge=1, le=limits.MAX_WINDOW_S)]
ClickWindow = Annotated[
    WindowSeconds, Meta(description="Seconds after the page view in which a click counts")
]
RevenueWindow = Annotated[
    WindowSeconds, Meta(description="Seconds after the page view in which a sale counts")
]
Explore = Annotated[float, Meta(ge=0, le=1, description="Share of random links on every page")]
Hosts = Annotated[
    tuple[Host, ...],
    Meta(min_length=1, max_length=limits.MAX_HOSTS),
    Meta(description="Where links may lead and the script may run"),
]
Order = Annotated[
    tuple[Id, ...],
    Meta(max_length=limits.MAX_POOL_LINKS),
    Meta(
        description="What the page shows today, in order: the first `slots` of these links that "
        "may be shown. Also shown while the policy cannot choose"
    ),
]


Until = Annotated[
    Time | None,
    Meta(
        description="When the pool ends, if that is certain: the default policy then tries new "
        "links only as long as that pays, given the page views expected until then. "
        "It has no effect on other policies, and none with `features`"
    ),
]


class MoneyBody(Strict, frozen=True, kw_only=True):
    """An amount in micro-units: 12.50 EUR is 12500000."""

    amount_micros: Annotated[
        int, Meta(ge=1, le=limits.MAX_AMOUNT_MICROS, description="Millionths of the currency")
    ]
    currency: Currency


Share = Annotated[float, Meta(ge=0, le=1)]


class HoldoutBody(Strict, frozen=True, kw_only=True):
    """Pages that are not chosen, for comparison."""

    share: Annotated[Share, Meta(description="Their share of page views")]
    shows: Annotated[
        HoldoutPage, Meta(description="What they show: the own page, or random links")
    ] = "random"


Holdout = Annotated[
    HoldoutBody | Share,
    Meta(
        description="Pages that are not chosen, for comparison. A number is the share of pages "
        "with random links"
    ),
]
Keep = Annotated[
    Annotated[float, Meta(ge=0, lt=1)] | None,
    Meta(
        description="The promise: revenue is at least this share of what the own page alone would "
        "have earned. slotwise chooses few pages at first and more as they prove better"
    ),
]
MaxRevenue = Annotated[
    MoneyBody, Meta(description="The most that one click can earn; larger amounts are clipped")
]


class PolicyBody(Strict, frozen=True, kw_only=True):
    """A policy by its name in the registry, with its settings."""

    name: Annotated[str, Meta(min_length=1, max_length=limits.MAX_POLICY_CHARS)]
    settings: dict[str, Any] = msgspec.field(default_factory=dict)


class PoolBody(Strict, frozen=True, kw_only=True):
    """The settings of a pool."""

    slots: Slots
    max_revenue: MaxRevenue
    allowed_hosts: Hosts
    click_floor: ClickFloor = 0.0
    click_window_s: ClickWindow = 1800
    revenue_window_s: RevenueWindow = 86400
    policy: PolicyBody = PolicyBody(name=default_policy().name)
    holdout: Holdout = HoldoutBody(share=0.0)
    explore: Explore = 0.0
    own_page: Order = ()
    keep: Keep = None
    pins: Pins = ()
    features: Features = msgspec.field(default_factory=dict)
    slot_weights: SlotWeights = "learn"
    segment_floors: SegmentFloorTable = msgspec.field(default_factory=dict)
    until: Until = None


PoolPatch = patch_type(PoolBody, "PoolPatch", "The fields of a pool to change; the others stay.")


class PoolAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A pool as stored."""

    pool_id: str
    slots: Slots
    max_revenue: MaxRevenue
    allowed_hosts: Hosts
    click_floor: ClickFloor
    click_window_s: ClickWindow
    revenue_window_s: RevenueWindow
    policy: PolicyBody
    holdout: Holdout
    explore: Explore
    own_page: Order
    keep: Keep
    pins: Pins
    features: Features
    slot_weights: SlotWeights
    segment_floors: SegmentFloorTable
    until: Until
    archived: bool
    n_links: int
    created_at: Time
    changed_at: Time


class PoolList(msgspec.Struct, frozen=True):
    """Every pool, archived ones too."""

    pools: list[PoolAnswer]


def body_of(pool: PoolSettings) -> PoolBody:
    """Return the body that a pool would be put with."""
    return PoolBody(
        slots=pool.slots,
        max_revenue=MoneyBody(amount_micros=pool.max_revenue_micros, currency=pool.currency),
        allowed_hosts=pool.allowed_hosts,
        click_floor=pool.click_floor,
        click_window_s=pool.click_window_s,
        revenue_window_s=pool.revenue_window_s,
        policy=PolicyBody(name=pool.policy, settings=pool.policy_settings),
        holdout=HoldoutBody(share=pool.holdout, shows=pool.holdout_shows),
        explore=pool.explore,
        own_page=pool.own_page,
        keep=pool.keep or None,
        pins=tuple(PinBody(link_id=pin.link_id, position=pin.position) for pin in pool.pins),
        features=pool.features,
        slot_weights=_answered_weights(pool),
        segment_floors=pool.segment_floors,
        until=time_if_any(pool.until_us),
    )


def _answered_weights(
    pool: PoolSettings,
) -> Literal["learn", "equal"] | tuple[float, ...]:
    if pool.slot_weights == EQUAL_SLOTS:
        return "equal"
    return "learn" if pool.learn_slot_weights else pool.slot_weights


def _stored_weights(weights: object) -> tuple[float, ...]:
    """Return known weights as they are stored; equal ones are those of slots that are alike."""
    if weights == "equal" or (isinstance(weights, tuple) and len(weights) > len({*weights}) == 1):
        return EQUAL_SLOTS
    return weights if isinstance(weights, tuple) else ()


def _settings_of(pool_id: str, body: PoolBody) -> PoolSettings:
    """Return the settings to store for a body; the inverse of `body_of`."""
    kinds, holdout = body.features.items(), body.holdout
    if not isinstance(holdout, HoldoutBody):
        holdout = HoldoutBody(share=holdout)
    return PoolSettings(
        pool_id=pool_id,
        slots=body.slots,
        click_floor=body.click_floor,
        max_revenue_micros=body.max_revenue.amount_micros,
        currency=body.max_revenue.currency,
        click_window_s=body.click_window_s,
        revenue_window_s=body.revenue_window_s,
        policy=body.policy.name,
        policy_settings=body.policy.settings,
        holdout=holdout.share,
        own_page=body.own_page,
        allowed_hosts=body.allowed_hosts,
        pins=tuple(Pin(link_id=pin.link_id, position=pin.position) for pin in body.pins),
        explore=body.explore,
        # As they are read back from the store, with lists for tuples.
        features={name: kind if isinstance(kind, str) else list(kind) for name, kind in kinds},
        slot_weights=_stored_weights(body.slot_weights),
        learn_slot_weights=body.slot_weights in ("learn", None),
        segment_floors=body.segment_floors,
        until_us=0 if body.until is None else from_time(body.until),
        holdout_shows=holdout.shows,
        keep=body.keep or 0.0,
    )


_POINTERS = {
    "holdout": "/holdout/share",
    "max_revenue_micros": "/max_revenue/amount_micros",
    "currency": "/max_revenue/currency",
    "policy": "/policy/name",
    "policy_settings": "/policy/settings",
    "until_us": "/until",
}
"""Where the fields of the stored settings stand in the body, where the names differ."""


async def _check_good_fields(
    context: ServiceContext, request: Request, good: dict[str, object], wrong: Collection[str]
) -> list[FieldError]:
    """Return the rules between fields that the good fields of a body break."""
    pool_id = request.path_values["pool_id"]
    try:
        is_new = request.method == "PUT"
        base = _BLANK if is_new else body_of(context.service.directory.pool(pool_id))
    except UnknownPool:
        return []
    body = replace(base, **good)
    # A wrong field must not make others look wrong.
    if "slots" in wrong:
        body = replace(body, slots=limits.MAX_SLOTS)
    if "features" in wrong:
        body = replace(body, features={}, segment_floors={})
    loop, settings = asyncio.get_running_loop(), _settings_of(pool_id, body)
    try:
        await loop.run_in_executor(context.change_threads, _check, context, settings)
    except InvalidInput as error:
        return [one for one in _field_errors(error) if one.pointer.split("/")[1] in good]
    return []


_BLANK = PoolBody(
    slots=limits.MAX_SLOTS,
    max_revenue=MoneyBody(amount_micros=1, currency="EUR"),
    allowed_hosts=(),
)


EXAMPLE = {
    "slots": 3,
    "click_floor": 0.3,
    "max_revenue": {"amount_micros": 50_000_000, "currency": "EUR"},
    "click_window_s": 1800,
    "revenue_window_s": 86400,
    "policy": {"name": "paced-bayes", "settings": {}},
    "holdout": {"share": 0.05, "shows": "own"},
    "explore": 0.02,
    "own_page": ["l1", "l2"],
    "keep": 0.95,
    "pins": [],
    "allowed_hosts": ["shop.example"],
    "features": {"device": ["phone", "desktop"], "country": "text", "returning": "bool"},
    "slot_weights": "learn",
    "segment_floors": {"country": {"DE": 0.25}},
    "until": None,
}
OPERATIONS = Operations()


@OPERATIONS.add(
    "PUT /v1/pools/{pool_id}",
    "admin",
    has_revision=True,
    body=PoolBody,
    check_good_fields=_check_good_fields,
    answer=PoolAnswer,
    example=EXAMPLE,
    links=links_to(
        *("get_pool", "patch_pool", "put_link", "put_links", "decide", "stats", "archive_pool"),
        giving=("pool_id",),
    ),
    problems=("pool-too-large",),
)
async def put_pool(context: ServiceContext, request: Request) -> msgspec.Struct:
    """Create or replace a pool."""
    return await _store(context, request, lambda _: request.body)


@OPERATIONS.add(
    "PATCH /v1/pools/{pool_id}",
    "admin",
    has_revision=True,
    body=PoolPatch,
    check_good_fields=_check_good_fields,
    answer=PoolAnswer,
    example={"click_floor": 0.4},
    links=links_to("get_pool", giving=("pool_id",)),
)
async def patch_pool(context: ServiceContext, request: Request) -> msgspec.Struct:
    """Change some fields of a pool; one that was archived is used again."""
    context.service.directory.pool(request.path_values["pool_id"])
    changes = given(request.body)

    def patched(present: PoolSettings | None) -> PoolBody:
        assert present is not None  # pools are archived, never removed
        return replace(body_of(present), **changes)

    return await _store(context, request, patched)


@OPERATIONS.add("GET /v1/pools/{pool_id}", "read", has_revision=True, answer=PoolAnswer)
def get_pool(context: ServiceContext, request: Request) -> msgspec.Struct:
    """Read a pool."""
    return _answer(context, request, context.service.directory.pool(request.path_values["pool_id"]))


@OPERATIONS.add(
    "DELETE /v1/pools/{pool_id}",
    "admin",
    has_revision=True,
    answer=PoolAnswer,
    links=links_to("get_pool", giving=("pool_id",)),
)
async def archive_pool(context: ServiceContext, request: Request) -> msgspec.Struct:
    """Archive a pool: it no longer decides, and its history is kept."""
    archived = await asyncio.to_thread(
        context.service.directory.archive_pool,
        request.path_values["pool_id"],
        request.caller(),
        context.clock_us(),
        request.expected_revision(),
    )
    return await asyncio.to_thread(_answer, context, request, await asyncio.wrap_future(archived))


@OPERATIONS.add("GET /v1/pools", "read")
def list_pools(context: ServiceContext, request: Request) -> PoolList:
    """List the pools, archived ones too."""
    return PoolList([_described(context, pool) for pool in context.service.directory.pools()])


async def _store(
    context: ServiceContext, request: Request, make: Callable[[PoolSettings | None], PoolBody]
) -> msgspec.Struct:
    """Store what `make` returns for the present pool, and answer it."""
    pool_id = request.path_values["pool_id"]

    def change(present: PoolSettings | None) -> PoolSettings:
        body = make(present)
        settings = _settings_of(pool_id, body)
        _check(context, settings)
        segment_floors = declared_floors(body.segment_floors, settings.features)
        return replace(settings, segment_floors=segment_floors)

    def check_and_store() -> Future[PoolSettings]:
        by, now_us, expected_us = request.caller(), context.clock_us(), request.expected_revision()
        return context.service.directory.change_pool(pool_id, change, by, now_us, expected_us)

    try:
        # Not on the event loop: the check starts the policy, which may have to be compiled first.
        loop = asyncio.get_running_loop()
        saving = await loop.run_in_executor(context.change_threads, check_and_store)
        stored = await asyncio.wrap_future(saving)
    except InvalidInput as error:
        broken = _field_errors(error)
        raise RequestProblem("validation", broken[0].detail, errors=broken) from None
    return await asyncio.to_thread(_answer, context, request, stored)


def _check(context: ServiceContext, pool: PoolSettings) -> None:
    """Raise `InvalidInput` for all rules that settings break."""
    check_all(
        partial(context.service.directory.check_pool, pool, context.clock_us()),
        partial(_check_links_stay_allowed, context, pool),
    )


def _field_errors(error: InvalidInput) -> list[FieldError]:
    found = (error, *error.others)
    return [FieldError(str(one), _POINTERS.get(one.argument, f"/{one.argument}")) for one in found]


def _check_links_stay_allowed(context: ServiceContext, pool: PoolSettings) -> None:
    try:
        links = context.service.directory.links(pool.pool_id)
    except UnknownPool:
        return
    for link in links:
        if link.retired:
            continue
        try:
            check_destination(link.url, pool.allowed_hosts)
        except InvalidInput as error:
            detail = f"link {link.link_id}: {error}; change or retire the link first"
            raise InvalidInput(detail, "allowed_hosts") from None


def _answer(context: ServiceContext, request: Request, pool: PoolSettings) -> PoolAnswer:
    request.revision = pool.changed_us
    return _described(context, pool)


def _described(context: ServiceContext, pool: PoolSettings) -> PoolAnswer:
    active = sum(not link.retired for link in context.service.directory.links(pool.pool_id))
    body = body_of(pool)
    return PoolAnswer(
        pool_id=pool.pool_id,
        slots=body.slots,
        max_revenue=body.max_revenue,
        allowed_hosts=body.allowed_hosts,
        click_floor=body.click_floor,
        click_window_s=body.click_window_s,
        revenue_window_s=body.revenue_window_s,
        policy=body.policy,
        holdout=body.holdout,
        explore=body.explore,
        own_page=body.own_page,
        keep=body.keep,
        pins=body.pins,
        features=body.features,
        slot_weights=body.slot_weights,
        segment_floors=body.segment_floors,
        until=body.until,
        archived=pool.archived,
        n_links=active,
        created_at=to_time(pool.created_us),
        changed_at=to_time(pool.changed_us),
    )
