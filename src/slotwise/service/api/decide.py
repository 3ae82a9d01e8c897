"""Decide: choose the links of one page view. Used by `app` and `ofrep`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from slotwise.errors import InvalidInput, UnknownDecision
from slotwise.service.api.bodies import (
    Id,
    Pins,
    Slots,
    Strict,
    Visitor,
    VisitorKey,
    answer_type,
    as_answer,
)
from slotwise.service.api.context import Operations, Request, ServiceContext
from slotwise.service.api.page_json import DecideAnswer
from slotwise.service.deciding.page_request import ANY_PAGE, PageRequest
from slotwise.service.http.exchange import Answer
from slotwise.service.http.problems import broken_rule
from slotwise.service.http.routing import OperationLink, links_to
from slotwise.service.limits import MAX_EXCLUDED
from slotwise.service.records import DecisionRecord, Pin
from slotwise.service.refusals import UnknownLink
from slotwise.service.reporting.report_records import DecisionReport


class DecideBody(Strict, frozen=True, kw_only=True):
    """Constraints of one page and its visitor; all optional."""

    exclude: Annotated[
        tuple[Id, ...],
        Meta(max_length=MAX_EXCLUDED, description="Links that must not be on this page"),
    ] = ()
    pin: Pins = ()
    slots: Slots | None = None
    visitor: Visitor = msgspec.field(default_factory=dict)
    visitor_key: VisitorKey | None = None
    decision_id: (
        Annotated[Id, Meta(description="An id of your own, so that a retry is safe")] | None
    ) = None


def _request_for(body: DecideBody) -> PageRequest:
    pin = [Pin(link_id=one.link_id, position=one.position) for one in body.pin]
    return PageRequest(
        body.exclude, pin, body.slots, body.decision_id, body.visitor, body.visitor_key
    )


_ONE = {"decision_id": "$response.body#/decision_id", "link_id": "$response.body#/links/0/link_id"}
OPERATIONS = Operations()


@OPERATIONS.add(
    "POST /v1/pools/{pool_id}/decide",
    "decide",
    meter="decide",
    body=DecideBody,
    body_optional=True,
    answer=DecideAnswer,
    example={
        "visitor": {"device": "phone", "country": "DE", "returning": True},
        "exclude": ["l4"],
        "pin": [{"link_id": "l9", "position": 1}],
    },
    links=(
        *links_to("get_decision", giving=("decision_id",)),
        OperationLink("record_event", body={"type": "click", **_ONE}),
    ),
    problems=("conflict",),
)
async def decide(context: ServiceContext, request: Request) -> Answer:
    """Choose the links of one page view."""
    body: DecideBody | None = request.body
    page = ANY_PAGE if body is None else _request_for(body)
    decision = await make_decision(context, request.path_values["pool_id"], page, request.caller())
    return Answer(context.page_writer.write(decision))


async def make_decision(
    context: ServiceContext, pool_id: str, page: PageRequest, caller: str
) -> DecisionRecord:
    """Choose a page that counts as shown, or refuse what is requested."""
    service = context.service
    decider, now_us = service.decider, context.clock_us()
    try:
        decision = decider.answer_at_once(pool_id, now_us, page, caller)
        if decision is None:
            threads = decider.threads if page.decision_id is None else decider.id_threads
            answering = threads.submit(decider.answer, pool_id, now_us, page, caller)
            decision = await asyncio.wrap_future(answering)
    except UnknownLink as error:
        raise broken_rule(str(error), "/pin") from None
    except InvalidInput as error:
        about_pin = error.argument == "position"
        raise broken_rule(str(error), "/pin" if about_pin else f"/{error.argument}") from None
    if context.settings.durability == "strict":
        await asyncio.wrap_future(service.flush())
    context.metrics.decisions[pool_id, decision.kind] += 1
    return decision


@OPERATIONS.add("GET /v1/decisions/{decision_id}", "read", answer=answer_type(DecisionReport))
async def get_decision(context: ServiceContext, request: Request) -> msgspec.Struct:
    """Read what was shown, received, counted and refused for a decision, and why."""
    decision_id = request.path_values["decision_id"]
    try:
        report = await asyncio.to_thread(context.service.reporter.decision, decision_id)
    except UnknownDecision:
        await asyncio.wrap_future(context.service.flush())
        report = await asyncio.to_thread(context.service.reporter.decision, decision_id)
    return as_answer(report)
