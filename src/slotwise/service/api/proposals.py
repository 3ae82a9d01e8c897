"""Calls of the script on a page: load it, request a page, report that the page was seen.

Used by `app` and `ofrep`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from slotwise.errors import InvalidInput
from slotwise.features import TEXT
from slotwise.service.api.bodies import Slots, Strict, Visitor, VisitorKey, destination_host
from slotwise.service.api.context import Operations, Request, ServiceContext
from slotwise.service.api.page_json import DecideAnswer
from slotwise.service.deciding.decider import PROPOSED_US
from slotwise.service.http.addresses import why_no_click
from slotwise.service.http.exchange import Answer, answer_asset, load_asset
from slotwise.service.http.problems import RequestProblem, broken_rule
from slotwise.service.http.routing import Headers
from slotwise.service.limits import (
    MAX_ID_CHARS,
    MAX_PAGE_BODY_BYTES,
    MAX_SLOTS,
)
from slotwise.service.logs import short_address
from slotwise.service.records import DecisionRecord
from slotwise.service.refusals import UnknownPool

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
    visitor_key: VisitorKey | None = None


class PageAnswer(DecideAnswer, frozen=True):
    """A page that becomes a view when its `view_url` is called."""

    view_url: Annotated[str, Meta(description="POST here when the page was seen")]


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
        context.limits.spend("decide", request)
        return
    pool_id = request.path_values.get("pool_id", key.pool_id)
    if key.pool_id != pool_id:
        detail = f"the key is for the pool {key.pool_id!r}"
        raise RequestProblem("wrong-scope", detail)
    context.limits.spend_address("pages", request)
    origin = request.headers.get(b"origin", b"").decode("latin-1")
    if destination_host(origin) not in context.service.directory.pool(pool_id).allowed_hosts:
        context.outcomes.pages.note("refused-host", pool_id, origin)
        detail = f"`Origin` must be one of the pool's allowed hosts, got {origin[:100]!r}"
        raise RequestProblem("wrong-host", detail)


def _readable_refusal(context: ServiceContext, request: Request) -> Headers:
    """Return the headers that let the script read why it was refused, and tell the page's owner."""
    try:
        headers = _allowed_origin(context, request)
    except UnknownPool:
        return ()
    pool_id, key = request.path_values["pool_id"], request.key
    if key is None or (key.pool_id and key.pool_id != pool_id):
        origin = request.headers.get(b"origin", b"").decode("latin-1")
        context.outcomes.pages.note("refused-key", pool_id, origin)
    return headers


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
    key = (request.body or _NOTHING_SAID).visitor_key
    _, page = await make_proposal(context, pool_id, slots, visitor, request.caller(), key)
    return Answer(page, headers=_allowed_origin(context, request))


async def make_proposal(
    context: ServiceContext,
    pool_id: str,
    slots: int | None,
    visitor: Mapping[str, object],
    caller: str,
    visitor_key: str | None = None,
) -> tuple[DecisionRecord, bytes]:
    """Choose a page that becomes a view once it was seen; return it also as JSON."""
    service = context.service
    arguments = (pool_id, context.clock_us(), slots, visitor, visitor_key)
    try:
        if service.decider.proposes_at_once(pool_id, slots, visitor):
            proposed = service.decider.propose(*arguments)
        else:
            proposing = service.decider.threads.submit(service.decider.propose, *arguments)
            proposed = await asyncio.wrap_future(proposing)
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
    """Check whether a page of this origin may request links."""
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


def _visitor(context: ServiceContext, request: Request) -> Mapping[str, object]:
    """Return the visitor that the page describes, with what the script found where declared.

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
    """Report that a page was seen, so that it counts as a page view."""
    payload = context.known_token(request, context.signer.unseal)
    seen = _displayed(msgspec.msgpack.decode(payload, type=DecisionRecord), request.query.shown)
    now_us = context.clock_us()
    if ignored := why_no_click("POST", request.text_headers()):
        context.outcomes.pages.note("ignored-visitor", seen.pool_id, ignored)
    elif now_us - seen.issued_us < PROPOSED_US:
        key, network = (
            context.service.directory.key_records.get(seen.key_id),
            short_address(request.client),
        )
        view, networks = (seen.pool_id, network, seen.decision_id), context.outcomes.networks
        if key and key.pool_id and not networks.may_learn(*view, now_us):
            context.outcomes.pages.note("one-network", seen.pool_id, network)
            seen = replace(seen, learned=False)
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
