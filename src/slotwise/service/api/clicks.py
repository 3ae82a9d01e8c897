"""Click links: record the click, then send the visitor to the link's registered address."""

from __future__ import annotations

import asyncio

from slotwise.errors import InvalidInput
from slotwise.service.access.tokens import ClickToken
from slotwise.service.api.context import Operation, Request, ServiceContext
from slotwise.service.api.destinations import check_destination
from slotwise.service.errors import StoreUnavailable, UnknownLink, UnknownPool
from slotwise.service.http.crawlers import why_no_click
from slotwise.service.http.exchange import Answer
from slotwise.service.http.problems import RequestProblem
from slotwise.service.records import ClickEvent

__all__ = ["OPERATIONS"]

_WAIT_S = 0.5
"""How long a visitor waits for the commit of the click; it goes on without the visitor."""


async def follow(context: ServiceContext, request: Request) -> Answer:
    """Redirect whoever holds an authentic token; whether it counts is another question."""
    token = context.signer.read(request.path_values["token"])
    if token is None:
        raise RequestProblem("unknown-token", "the signature does not fit")
    destination = _destination(context, token)
    headers = {
        name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers.items()
    }
    outcome = await _record(context, token, why_no_click(request.method, headers))
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


def _destination(context: ServiceContext, token: ClickToken) -> str:
    """Return the registered address, checked again: the allowed hosts may have changed."""
    try:
        link = context.service.link(token.pool_id, token.link_id)
        check_destination(link.url, context.service.pool(token.pool_id).allowed_hosts)
    except (UnknownPool, UnknownLink):
        raise RequestProblem("unknown-token", "the link is gone") from None
    except InvalidInput:
        detail = "the link's host is no longer allowed in its pool"
        raise RequestProblem("unknown-token", detail) from None
    return link.url


async def _record(context: ServiceContext, token: ClickToken, invalid: str) -> str:
    """Record the click and return what became of it; a visitor never waits for a lost store."""
    click = ClickEvent(decision_id=token.decision_id, link_id=token.link_id, invalid=invalid)
    try:
        recorded = context.service.submit_events([click], context.clock_us())
        [outcome] = await asyncio.wait_for(
            asyncio.shield(asyncio.wrap_future(recorded)), timeout=_WAIT_S
        )
    except StoreUnavailable:
        return "lost"
    except TimeoutError:
        return "unconfirmed"
    context.metrics.events["click", outcome.outcome] += 1
    if outcome.outcome == "duplicate" and not invalid:
        context.outcomes.note(click, outcome)
    return "invalid" if invalid else outcome.outcome


OPERATIONS = tuple(
    Operation(
        method=method,
        path="/r/{token}",
        name=name,
        summary=summary,
        handler=follow,
        scope=None,
        meter="clicks",
        status=302,
        content_types=(),
        problems=("unknown-token",),
    )
    for method, name, summary in (
        ("GET", "follow_click", "Record the click and redirect to the link's registered address"),
        ("HEAD", "probe_click", "Redirect without counting a click"),
    )
)
