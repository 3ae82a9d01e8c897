"""Click links: record the click, then send the visitor to the link's registered address.

Used by `app`.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial

from slotwise.errors import InvalidInput
from slotwise.service.access.tokens import ClickToken
from slotwise.service.api.bodies import check_destination
from slotwise.service.api.context import Operations, Request, ServiceContext
from slotwise.service.http.addresses import why_no_click
from slotwise.service.http.exchange import Answer
from slotwise.service.http.problems import RequestProblem
from slotwise.service.logs import short_address
from slotwise.service.records import ClickEvent, LinkRecord, Outcome
from slotwise.service.refusals import StoreUnavailable, UnknownLink, UnknownPool
from slotwise.service.reporting.network_shares import ONE_NETWORK

_WAIT_S = 0.5
"""How long a visitor waits for the commit of the click, which happens in any case."""


OPERATIONS = Operations()
_add = partial(OPERATIONS.add, scope=None, meter=None, content_types=())


@_add(
    "HEAD /r/{token}", name="probe_click", summary="Redirect without counting a click", status=302
)
@_add("GET /r/{token}", status=302)
async def follow_click(context: ServiceContext, request: Request) -> Answer:
    """Record the click and redirect to the link's registered address.

    Everybody with a genuine token is redirected, whether or not the click counts.
    """
    token = context.known_token(request, context.signer.read)
    destination = _destination(context, token, _link(context, token))
    outcome = await _record(context, request, token)
    context.metrics.redirects[outcome] += 1
    return Answer(
        b"",
        status=302,
        content_type=b"",
        headers=(
            (b"location", destination.encode("ascii")),
            (b"cache-control", b"no-store"),
            (b"referrer-policy", b"origin"),
            (b"x-robots-tag", b"noindex, nofollow"),
        ),
    )


@_add("POST /r/{token}", status=204)
async def report_click(context: ServiceContext, request: Request) -> Answer:
    """Record the click, without a redirect.

    The script on a page calls it, and the browser follows the link itself.
    """
    token = context.known_token(request, context.signer.read)
    _link(context, token)
    await _record(context, request, token)
    return Answer(b"", 204, b"", ((b"cache-control", b"no-store"),))


def _link(context: ServiceContext, token: ClickToken) -> LinkRecord:
    """Return the link that a token names, unless another one is in its place."""
    try:
        link = context.service.directory.link(token.pool_id, token.link_id)
    except (UnknownPool, UnknownLink):
        raise RequestProblem("unknown-token", "the link is gone") from None
    if link.place != token.place:
        raise RequestProblem("unknown-token", "the page has another link there")
    return link


def _destination(context: ServiceContext, token: ClickToken, link: LinkRecord) -> str:
    """Return the registered address, checked again: the allowed hosts may have changed."""
    try:
        check_destination(link.url, context.service.directory.pool(token.pool_id).allowed_hosts)
    except InvalidInput:
        detail = "the link's host is no longer allowed in its pool"
        raise RequestProblem("unknown-token", detail) from None
    return link.url


async def _record(context: ServiceContext, request: Request, token: ClickToken) -> str:
    """Record the click and return what became of it; no visitor waits for a store that is away.

    One genuine link that is followed over and over is no longer recorded: the store is spared,
    and nothing is lost, since a click counts once.
    """
    try:
        context.limits["replays"].spend(token.decision_id, now_s=time.monotonic())
    except RequestProblem:
        return "repeated"
    now_us = context.clock_us()
    invalid = why_no_click(request.method, request.text_headers())
    if invalid:
        context.outcomes.pages.note("ignored-visitor", token.pool_id, invalid)
    elif not context.outcomes.networks.may_click(token, short_address(request.client), now_us):
        invalid = ONE_NETWORK
        context.outcomes.pages.note("one-network", token.pool_id, short_address(request.client))
    click = ClickEvent(decision_id=token.decision_id, link_id=token.link_id, invalid=invalid)
    committer = context.service.committer
    recorded = committer.submit_click(click, now_us)
    if not committer.available:
        return "queued"
    try:
        [outcome] = await asyncio.wait_for(
            asyncio.shield(asyncio.wrap_future(recorded)), timeout=_WAIT_S
        )
    except StoreUnavailable:
        return "lost"
    except TimeoutError:
        return "unconfirmed"
    assert isinstance(outcome, Outcome)
    context.metrics.events["click", outcome.outcome] += 1
    if outcome.outcome == "duplicate" and not invalid:
        context.outcomes.note(click, outcome)
    return "invalid" if invalid else outcome.outcome
