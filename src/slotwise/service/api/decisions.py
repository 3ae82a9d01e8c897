"""Decisions: what was shown, received, counted and refused."""

from __future__ import annotations

import asyncio

import msgspec

from slotwise.errors import UnknownDecision
from slotwise.service.api.answers import answer_type, as_answer
from slotwise.service.api.context import Operation, Request, ServiceContext
from slotwise.service.reporting.reports import DecisionReport

__all__ = ["OPERATIONS"]


async def get_decision(context: ServiceContext, request: Request) -> msgspec.Struct:
    """Return what is known of a decision, even of one that is not committed yet."""
    decision_id = request.path_values["decision_id"]
    try:
        report = await asyncio.to_thread(context.service.decision, decision_id)
    except UnknownDecision:
        await asyncio.wrap_future(context.service.flush())
        report = await asyncio.to_thread(context.service.decision, decision_id)
    return as_answer(report)


OPERATIONS = (
    Operation(
        method="GET",
        path="/v1/decisions/{decision_id}",
        name="get_decision",
        summary="Read what was shown, received, counted and refused, and why",
        handler=get_decision,
        scope="read",
        answer=answer_type(DecisionReport),
        problems=("unknown-decision",),
    ),
)
