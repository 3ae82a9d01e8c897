"""What the script on a page asks for: itself, a page that may be seen, and that it was seen."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from slotwise.errors import InvalidInput
from slotwise.service.api.context import Operation, Request, ServiceContext
from slotwise.service.api.decide import DecideAnswer
from slotwise.service.api.destinations import destination_host
from slotwise.service.api.fields import Slots, Strict, Visitor
from slotwise.service.errors import UnknownPool
from slotwise.service.http.crawlers import why_no_click
from slotwise.service.http.exchange import Answer
from slotwise.service.http.operations import Headers
from slotwise.service.http.problems import RequestProblem, broken_rule
from slotwise.service.http.static_files import answer_asset, load_asset
from slotwise.service.records import DAY_US, DecisionRecord, KeyRecord
from slotwise.service.visitors import TEXT

__all__ = ["OPERATIONS"]

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
    """For whom the page is; all optional."""

    visitor: Visitor = msgspec.field(default_factory=dict)
    hints: PageHints = PageHints()


class PageAnswer(DecideAnswer, frozen=True):
    """A page that becomes a view when its `view_url` is called."""

    view_url: Annotated[str, Meta(description="POST it once the page was seen")]


_NOTHING_SAID = PageBody()


async def script(_context: ServiceContext, request: Request) -> Answer:
    """Answer the script."""
    return answer_asset(load_asset("slotwise.service.api", "slotwise.js"), request, _ANYWHERE)


async def allow_page(context: ServiceContext, request: Request) -> Answer:
    """Tell a browser whether a page of this origin may ask."""
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


async def propose_page(context: ServiceContext, request: Request) -> Answer:
    """Choose a page from memory; nothing is stored until it was seen."""
    assert request.key is not None
    _check_page_key(context, request, request.key)
    pool_id, service = request.path_values["pool_id"], context.service
    slots, visitor = request.query.slots, _visitor(context, request)
    asked = (pool_id, context.clock_us(), slots, visitor)
    try:
        if service.proposes_at_once(pool_id, slots, visitor):
            proposed = service.propose(*asked)
        else:
            proposed = await asyncio.wrap_future(service.beside(service.propose, *asked))
    except InvalidInput as error:
        context.outcomes.pages.note("refused-visitor", pool_id, str(error))
        raise broken_rule(str(error), f"/{error.argument}") from None
    proposed = replace(proposed, key_id=request.key.key_id)
    token = context.signer.seal(msgspec.msgpack.encode(proposed))
    view_url = msgspec.json.encode(f"{context.public_base}/v/{token}")
    page = context.page_writer.write(proposed)
    body = page[:-1] + b',"view_url":' + view_url + b"}"
    return Answer(body, headers=_allowed_origin(context, request))


def _visitor(context: ServiceContext, request: Request) -> Mapping[str, Any]:
    """Return what the page says of its visitor, and what the script has found where declared.

    What the pool did not declare is dropped here and stored nowhere.
    """
    body: PageBody = request.body or _NOTHING_SAID
    device = body.hints.device
    declared = context.service.pool(request.path_values["pool_id"]).features.get("device")
    takes_words = declared == TEXT or (isinstance(declared, list) and device in declared)
    if device is None or not takes_words or "device" in body.visitor:
        return body.visitor
    return {**body.visitor, "device": device}


def _check_page_key(context: ServiceContext, request: Request, key: KeyRecord) -> None:
    """Hold a key that everybody can read to its pool, the pool's hosts and its own rate."""
    if not key.pool_id:
        context.spend("decide", request)
        return
    pool_id = request.path_values["pool_id"]
    if key.pool_id != pool_id:
        detail = f"the key is for the pool {key.pool_id!r}"
        raise RequestProblem("wrong-scope", detail)
    context.spend_address("pages", request)
    origin = request.headers.get(b"origin", b"").decode("latin-1")
    if destination_host(origin) not in context.service.pool(pool_id).allowed_hosts:
        context.outcomes.pages.note("refused-host", pool_id, origin)
        detail = f"`Origin` must be one of the pool's allowed hosts, got {origin[:100]!r}"
        raise RequestProblem("wrong-host", detail)


async def record_view(context: ServiceContext, request: Request) -> Answer:
    """Make a view of a page that was seen; called again, it stays one view."""
    payload = context.known_token(request, context.signer.unseal)
    seen = msgspec.msgpack.decode(payload, type=DecisionRecord)
    now_us = context.clock_us()
    if ignored := why_no_click("POST", request.text_headers()):
        context.outcomes.pages.note("ignored-visitor", seen.pool_id, ignored)
    elif now_us - seen.issued_us < DAY_US:
        context.service.record_view(seen, now_us)
        if context.settings.durability == "strict":
            await asyncio.wrap_future(context.service.flush())
        kind = "fallback" if seen.fallback else "holdout" if seen.holdout else "policy"
        context.metrics.decisions[seen.pool_id, kind] += 1
    return Answer(b"", 204, b"", ((b"cache-control", b"no-store"),))


def _readable_refusal(context: ServiceContext, request: Request) -> Headers:
    """Return the headers that let the script read why it was refused, and tell the page's owner."""
    try:
        return _allowed_origin(context, request)
    except UnknownPool:
        return ()


def _allowed_origin(context: ServiceContext, request: Request) -> Headers:
    """Return the headers that let a page read the answer, for pages on the pool's own hosts."""
    vary = (b"vary", b"origin")
    pool = context.service.pool(request.path_values["pool_id"])
    origin = request.headers.get(b"origin", b"")
    if destination_host(origin.decode("latin-1")) not in pool.allowed_hosts:
        if origin and request.method == "OPTIONS":
            name = origin.decode("latin-1")
            context.outcomes.pages.note("refused-host", pool.pool_id, name)
        return (vary,)
    return (vary, (b"access-control-allow-origin", origin))


OPERATIONS = (
    Operation(
        method="GET",
        path="/slotwise.js",
        name="snippet",
        summary="Load the script that fills lists on a page",
        handler=script,
        scope=None,
        content_types=("text/javascript",),
    ),
    Operation(
        method="POST",
        path="/v1/pools/{pool_id}/page",
        name="propose_page",
        summary="Choose a page that becomes a view once it was seen",
        handler=propose_page,
        scope="page",
        meter=None,
        query=PageQuery,
        body=PageBody,
        body_optional=True,
        example={"visitor": {"returning": True}, "hints": {"device": "phone"}},
        answer=PageAnswer,
        problems=("unknown-pool", "wrong-host"),
        refusal_headers=_readable_refusal,
    ),
    Operation(
        method="OPTIONS",
        path="/v1/pools/{pool_id}/page",
        name="allow_page",
        summary="Ask whether a page of this origin may ask for links",
        handler=allow_page,
        scope=None,
        status=204,
        content_types=(),
        problems=("unknown-pool",),
    ),
    Operation(
        method="POST",
        path="/v/{token}",
        name="record_view",
        summary="Make a view of a page that was seen",
        handler=record_view,
        scope=None,
        meter=None,
        status=204,
        content_types=(),
        problems=("unknown-token",),
    ),
)
