"""Decide: choose the links of one page view."""

from __future__ import annotations

import asyncio

from slotwise.service.api.bodies import DecideAnswer, DecideBody
from slotwise.service.api.context import ServiceContext
from slotwise.service.errors import UnknownLink
from slotwise.service.http.exchange import Answer, Request
from slotwise.service.http.operations import Operation, OperationLink
from slotwise.service.http.problems import FieldError, RequestProblem
from slotwise.service.records import Pin

__all__ = ["OPERATIONS"]

_NO_WISHES = DecideBody()


async def decide(context: ServiceContext, request: Request) -> Answer:
    """Choose a page from memory; the store is not asked."""
    body: DecideBody = request.body or _NO_WISHES
    service = context.service
    pool_id = request.path_values["pool_id"]
    try:
        decision = service.decide(
            pool_id,
            context.clock_us(),
            exclude=body.exclude,
            pin=[Pin(link_id=one.link_id, position=one.position) for one in body.pin],
            slots=body.slots,
            decision_id=body.decision_id,
        )
    except UnknownLink as error:
        raise RequestProblem(
            "validation", str(error), errors=[FieldError(str(error), "/pin")]
        ) from None
    if context.settings.durability == "strict":
        await asyncio.wrap_future(service.flush())
    kind = "fallback" if decision.fallback else "holdout" if decision.holdout else "policy"
    context.metrics.decisions[pool_id, kind] += 1
    return Answer(context.page_writer.write(decision))


_ONE = {"decision_id": "$response.body#/decision_id", "link_id": "$response.body#/links/0/link_id"}

OPERATIONS = (
    Operation(
        method="POST",
        path="/v1/pools/{pool_id}/decide",
        name="decide",
        summary="Choose the links of one page view",
        handler=decide,
        scope="decide",
        meter="decide",
        body=DecideBody,
        body_optional=True,
        answer=DecideAnswer,
        problems=("unknown-pool", "conflict"),
        example={"exclude": ["l4"], "pin": [{"link_id": "l9", "position": 1}]},
        answer_example={
            "decision_id": "4rV0tQ9dR2m1",
            "pool_id": "home",
            "issued_at": "2026-01-05T10:00:00.000000Z",
            "policy": "paced-kl",
            "policy_version": 12,
            "holdout": False,
            "fallback": False,
            "fallback_reason": "",
            "floor": {"clicks": 0.3, "expected": 0.34, "attainable": 0.6, "status": "met"},
            "links": [
                {
                    "link_id": "l9",
                    "position": 1,
                    "url": "https://shop.example/9",
                    "click_url": "http://127.0.0.1:8460/r/v1.…",
                    "propensity": 1.0,
                    "title": "Spring sale",
                }
            ],
        },
        links=(
            OperationLink("get_decision", {"decision_id": "$response.body#/decision_id"}),
            OperationLink("record_event", body={"type": "click", **_ONE}),
        ),
    ),
)
