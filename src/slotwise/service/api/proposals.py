"""What the script on a page asks for: itself, a page that may be seen, and that it was seen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import asdict, replace

from slotwise.errors import InvalidInput
from slotwise.features import TEXT
from slotwise.service.api.bodies import Slots, Strict, Time, Visitor, destination_host, from_time
from slotwise.service.api.context import Operations, Request, ServiceContext
from slotwise.service.api.page_json import DecideAnswer
from slotwise.service.api.pools import ClickFloor
from slotwise.service.deciding.decider import PROPOSED_US
from slotwise.service.http.addresses import why_no_click
from slotwise.service.http.exchange import Answer, StreamAnswer, answer_asset, load_asset
from slotwise.service.http.problems import RequestProblem, broken_rule, refuse
from slotwise.service.http.routing import Headers
from slotwise.service.limits import (
    MAX_ID_CHARS,
    MAX_PAGE_BODY_BYTES,
    MAX_PLAN_CASES,
    MAX_PLAN_VIEWS,
    MAX_POOL_LINKS,
    MAX_SLOTS,
)
from slotwise.service.records import DAY_US, DecisionRecord, compose
from slotwise.service.refusals import Conflict, UnknownPool
from slotwise.service.reporting.pool_report import PeriodComparison
from slotwise.service.reporting.reporter import PoolRow

_ANYWHERE = (
    (b"cache-control", b"public, max-age=3600"),
    (b"cross-origin-resource-policy", b"cross-origin"),
)


class PageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the list is; the pool's slots by default."""

    slots: Slots | None = None


class PageHints(msgspec.Struct, frozen=True, kw_only=True):
    """What the script finds out by itself; used only where the pool declares the feature."""

    device: Annotated[
        Literal["phone", "tablet", "desktop"] | None,
        Meta(description="The kind of device, for a pool with a feature `device`"),
    ] = None


class PageBody(Strict, frozen=True, kw_only=True):
    """The visitor of the page; all optional."""

    visitor: Visitor = msgspec.field(default_factory=dict)
    hints: PageHints = PageHints()


class PageAnswer(DecideAnswer, frozen=True):
    """A page that becomes a view when its `view_url` is called."""

    view_url: Annotated[str, Meta(description="POST it once the page was seen")]


class SeenQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the page was displayed; in the order of the answer by default."""

    shown: Annotated[
        str,
        Meta(
            max_length=MAX_SLOTS * (MAX_ID_CHARS + 1),
            description="The links of the page in the order in which they were displayed, "
            "separated by commas",
        ),
    ] = ""


_NOTHING_SAID = PageBody()


OPERATIONS = Operations()


@OPERATIONS.add("GET /slotwise.js", None, content_types=("text/javascript",))
async def snippet(_context: ServiceContext, request: Request) -> Answer:
    """Load the script that fills lists on a page."""
    return answer_asset(load_asset("slotwise.service.api", "slotwise.js"), request, _ANYWHERE)


def check_page_key(context: ServiceContext, request: Request) -> None:
    """Hold a key that everybody can read to its pool, the pool's hosts and its own rate."""
    key = request.key
    assert key is not None
    if not key.pool_id:
        context.spend("decide", request)
        return
    pool_id = request.path_values.get("pool_id", key.pool_id)
    if key.pool_id != pool_id:
        detail = f"the key is for the pool {key.pool_id!r}"
        raise RequestProblem("wrong-scope", detail)
    context.spend_address("pages", request)
    origin = request.headers.get(b"origin", b"").decode("latin-1")
    if destination_host(origin) not in context.service.directory.pool(pool_id).allowed_hosts:
        context.outcomes.pages.note("refused-host", pool_id, origin)
        detail = f"`Origin` must be one of the pool's allowed hosts, got {origin[:100]!r}"
        raise RequestProblem("wrong-host", detail)


def _readable_refusal(context: ServiceContext, request: Request) -> Headers:
    """Return the headers that let the script read why it was refused, and tell the page's owner."""
    try:
        return _allowed_origin(context, request)
    except UnknownPool:
        return ()


@OPERATIONS.add(
    "POST /v1/pools/{pool_id}/page",
    "page",
    meter=None,
    query=PageQuery,
    before_body=check_page_key,
    body=PageBody,
    body_optional=True,
    max_body_bytes=MAX_PAGE_BODY_BYTES,
    example={"visitor": {"returning": True}, "hints": {"device": "phone"}},
    answer=PageAnswer,
    refusal_headers=_readable_refusal,
    problems=("wrong-host",),
)
async def propose_page(context: ServiceContext, request: Request) -> Answer:
    """Choose a page that becomes a view once it was seen."""
    slots, visitor = request.query.slots, _visitor(context, request)
    pool_id = request.path_values["pool_id"]
    _, page = await make_proposal(context, pool_id, slots, visitor, request.caller())
    return Answer(page, headers=_allowed_origin(context, request))


async def make_proposal(
    context: ServiceContext,
    pool_id: str,
    slots: int | None,
    visitor: Mapping[str, Any],
    caller: str,
) -> tuple[DecisionRecord, bytes]:
    """Choose a page that becomes a view once it was seen; return it also as JSON."""
    service = context.service
    asked = (pool_id, context.clock_us(), slots, visitor)
    try:
        if service.decider.proposes_at_once(pool_id, slots, visitor):
            proposed = service.decider.propose(*asked)
        else:
            proposed = await asyncio.wrap_future(
                service.decider.beside(service.decider.propose, *asked)
            )
    except InvalidInput as error:
        context.outcomes.pages.note("refused-visitor", pool_id, str(error))
        raise broken_rule(str(error), f"/{error.argument}") from None
    proposed = replace(proposed, key_id=caller)
    token = context.signer.seal(msgspec.msgpack.encode(proposed))
    view_url = msgspec.json.encode(f"{context.public_base}/v/{token}")
    page = context.page_writer.write(proposed)
    return proposed, page[:-1] + b',"view_url":' + view_url + b"}"


@OPERATIONS.add("OPTIONS /v1/pools/{pool_id}/page", None, status=204, content_types=())
async def allow_page(context: ServiceContext, request: Request) -> Answer:
    """Ask whether a page of this origin may ask for links."""
    pool_id = request.path_values["pool_id"]
    try:
        allowed = _allowed_origin(context, request)
    except UnknownPool:
        context.outcomes.pages.note("unknown-pool", "", pool_id)
        raise
    headers = (
        *allowed,
        (b"access-control-allow-methods", b"POST"),
        (b"access-control-allow-headers", b"authorization, content-type"),
        (b"access-control-max-age", b"7200"),
    )
    return Answer(b"", 204, b"", headers)


def _visitor(context: ServiceContext, request: Request) -> Mapping[str, Any]:
    """Return what the page says of its visitor, and what the script has found where declared.

    What the pool did not declare is dropped here and stored nowhere.
    """
    body: PageBody = request.body or _NOTHING_SAID
    device = body.hints.device
    declared = context.service.directory.pool(request.path_values["pool_id"]).features.get("device")
    takes_words = declared == TEXT or (isinstance(declared, list) and device in declared)
    if device is None or not takes_words or "device" in body.visitor:
        return body.visitor
    return {**body.visitor, "device": device}


@OPERATIONS.add("POST /v/{token}", None, meter=None, query=SeenQuery, status=204, content_types=())
async def record_view(context: ServiceContext, request: Request) -> Answer:
    """Make a view of a page that was seen."""
    payload = context.known_token(request, context.signer.unseal)
    seen = _displayed(msgspec.msgpack.decode(payload, type=DecisionRecord), request.query.shown)
    now_us = context.clock_us()
    if ignored := why_no_click("POST", request.text_headers()):
        context.outcomes.pages.note("ignored-visitor", seen.pool_id, ignored)
    elif now_us - seen.issued_us < PROPOSED_US:
        context.service.decider.record_view(seen, now_us)
        if context.settings.durability == "strict":
            await asyncio.wrap_future(context.service.flush())
        context.metrics.decisions[seen.pool_id, seen.kind] += 1
    return Answer(b"", 204, b"", ((b"cache-control", b"no-store"),))


def _displayed(page: DecisionRecord, shown: str) -> DecisionRecord:
    """Return a page in the order in which a caller displayed it, so that slots are learned."""
    links = {link.link_id: link for link in page.shown}
    order = shown.split(",") if shown else list(links)
    if order == list(links):
        return page
    if sorted(order) != sorted(links):
        detail = f"`shown` must be the links of the page, {','.join(links)}, got {shown}"
        raise broken_rule(detail, parameter="shown")
    placed = (replace(links[link], position=place) for place, link in enumerate(order, start=1))
    return replace(page, shown=tuple(placed), random_order=False)


def _allowed_origin(context: ServiceContext, request: Request) -> Headers:
    """Return the headers that let a page read the answer, for pages on the pool's own hosts."""
    vary = (b"vary", b"origin")
    pool = context.service.directory.pool(request.path_values["pool_id"])
    origin = request.headers.get(b"origin", b"")
    if destination_host(origin.decode("latin-1")) not in pool.allowed_hosts:
        if origin and request.method == "OPTIONS":
            name = origin.decode("latin-1")
            context.outcomes.pages.note("refused-host", pool.pool_id, name)
        return (vary,)
    return (vary, (b"access-control-allow-origin", origin))


RETRY_AFTER_S = 30
Share = Annotated[float, Meta(gt=0, lt=1)]


class PlanBody(Strict, frozen=True, kw_only=True):
    """What a team knows before it starts."""

    links: Annotated[int, Meta(ge=1, le=MAX_POOL_LINKS, description="Links to choose from")]
    slots: Slots
    click_rate: Annotated[Share, Meta(description="Clicks per view of a typical link")]
    revenue_per_click: Annotated[
        Share, Meta(description="Of a typical link, as a share of the largest sale")
    ]
    views_per_day: Annotated[float, Meta(gt=0, le=1e9, description="Page views a day")]
    click_floor: ClickFloor = 0.0
    certainty: Annotated[
        float, Meta(ge=0.5, lt=1, description="In which share of cases the answer holds")
    ] = 0.95
    holdout: Annotated[Share, Meta(description="Share of page views with random links")] = 0.05
    max_views: Annotated[
        int, Meta(ge=100, le=MAX_PLAN_VIEWS, description="Page views of a simulated case")
    ] = 20_000
    cases: Annotated[int, Meta(ge=10, le=MAX_PLAN_CASES, description="Simulated cases")] = 100


class DaysAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Days until something holds, with a 95 % interval for the number of cases.

    None: not before the end of the simulation.
    """

    days: float | None
    low: float | None
    high: float | None
    page_views: float | None


class PlanAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How long a page needs."""

    floor_kept: DaysAnswer
    lift_visible: DaysAnswer
    floors_in_reach: float
    """The share of cases in which the links can keep the floor at all."""
    certainty: float
    cases: int
    max_views: int


class PlanLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the answer: the share that is done, at last the plan or why there is none."""

    done: float | None = None
    plan: PlanAnswer | None = None
    failed: str | None = None


PLAN_OPERATIONS = Operations()


@PLAN_OPERATIONS.add(
    "POST /v1/plan",
    "read",
    open_on_loopback=True,
    body=PlanBody,
    answer=PlanLine,
    content_types=("application/jsonl",),
    example={
        "links": 40,
        "slots": 5,
        "click_rate": 0.03,
        "revenue_per_click": 0.1,
        "click_floor": 0.2,
        "views_per_day": 5000,
    },
    problems=("plan-running",),
)
async def plan(context: ServiceContext, request: Request) -> StreamAnswer:
    """Simulate how many days of traffic a page needs."""
    body: PlanBody = request.body
    if body.slots > body.links:
        detail = f"`slots` must be at most links ({body.links}), got {body.slots}"
        raise broken_rule(detail, "/slots")
    if body.click_floor >= body.slots:
        detail = f"`click_floor` must be below slots ({body.slots}), got {body.click_floor:g}"
        raise broken_rule(detail, "/click_floor")
    try:
        lines = context.planner.start(_arguments(body))
    except Conflict as error:
        raise refuse("plan-running", str(error), retry_after_s=RETRY_AFTER_S) from None
    return StreamAnswer(_encoded(lines, body), b"application/jsonl", _UNBUFFERED)


# A proxy that gathers the answer would keep the progress to itself.
_UNBUFFERED = ((b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))


def _arguments(body: PlanBody) -> list[str]:
    names = {"click_floor": "floor", "max_views": "views"}
    options = {names.get(name, name): value for name, value in asdict(body).items()}
    return [f"--{name.replace('_', '-')}={value!r}" for name, value in options.items()]


async def _encoded(lines: AsyncGenerator[dict[str, Any]], body: PlanBody) -> AsyncGenerator[bytes]:
    async with aclosing(lines):
        async for line in lines:
            found = line.get("plan")
            made = PlanLine(**line) if found is None else PlanLine(plan=_answer(found, body))
            yield msgspec.json.encode(made) + b"\n"


def _answer(found: Mapping[str, Any], body: PlanBody) -> PlanAnswer:
    return compose(
        PlanAnswer,
        body,
        floor_kept=_days(found["floor"], body.views_per_day),
        lift_visible=_days(found["lift"], body.views_per_day),
        floors_in_reach=found["share_of_floors_in_reach"],
    )


def _days(waiting: Mapping[str, float | None], views_per_day: float) -> DaysAnswer:
    days = {name: views and views / views_per_day for name, views in waiting.items()}
    return DaysAnswer(
        days=days["views"], low=days["low"], high=days["high"], page_views=waiting["views"]
    )


MAX_DAYS = 92
_ALL_POOLS = " all pools"
"""The name of the cached report; no pool has it, for no id has a space."""


class PoolRows(msgspec.Struct, frozen=True, kw_only=True):
    """Every pool, by id."""

    pools: tuple[PoolRow, ...]


class PeriodQuery(Strict, frozen=True, kw_only=True):
    """Which period."""

    since: Annotated[Time, Meta(description="The start of the period")]
    until: Annotated[Time, Meta(description="Its end, which is no part of it")]


COMPARISON_OPERATIONS = Operations()


@COMPARISON_OPERATIONS.add("GET /dashboard/overview", "read", open_on_loopback=True)
def dashboard_overview(context: ServiceContext, _request: Request) -> PoolRows:
    """Read how all pools are doing."""
    service = context.service
    state = tuple((pool.pool_id, pool.changed_us) for pool in service.directory.pools())
    rows = context.comparisons.get(
        _ALL_POOLS, state, lambda: PoolRows(pools=service.reporter.all_pools(service.health()))
    )
    assert isinstance(rows, PoolRows)
    return rows


@COMPARISON_OPERATIONS.add(
    "GET /dashboard/pools/{pool_id}/period",
    "read",
    open_on_loopback=True,
    query=PeriodQuery,
)
def dashboard_period(context: ServiceContext, request: Request) -> PeriodComparison:
    """Compare a period of a pool with the one before it."""
    query: PeriodQuery = request.query
    pool = context.service.directory.pool(request.path_values["pool_id"])
    from_us, until_us = from_time(query.since), from_time(query.until)
    if not from_us < until_us:
        raise broken_rule("`until` must be after `since`", parameter="until")
    if until_us - from_us > MAX_DAYS * DAY_US:
        raise broken_rule(f"the period must have at most {MAX_DAYS} days", parameter="since")
    if from_us < 0:
        raise broken_rule("`since` must be after 1970", parameter="since")
    period = (pool.pool_id, from_us, until_us)
    made = context.comparisons.get(
        f"{pool.pool_id} {from_us} {until_us}",
        pool.changed_us,
        lambda: context.service.reporter.compare(*period),
    )
    assert isinstance(made, PeriodComparison)
    return made
