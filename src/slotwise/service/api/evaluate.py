"""Evaluate: what another floor would have earned, by the round log."""

from __future__ import annotations

import asyncio

from msgspec import UNSET, UnsetType

from slotwise.service.api.answers import Time, from_time
from slotwise.service.api.context import Operation, Request, ServiceContext
from slotwise.service.api.fields import Strict
from slotwise.service.api.pool_bodies import ClickFloor
from slotwise.service.http.problems import broken_rule
from slotwise.service.records import DAY_US
from slotwise.service.reporting.what_if import EvaluationReport

__all__ = ["OPERATIONS"]

DEFAULT_DAYS = 30


class EvaluateQuery(Strict, frozen=True, kw_only=True):
    """Which floor, the pool's by default, and since when: the last 30 days by default."""

    click_floor: ClickFloor | UnsetType = UNSET
    since: Time | UnsetType = UNSET


async def evaluate(context: ServiceContext, request: Request) -> EvaluationReport:
    """Ask the log of a pool what the best mix at a floor would have earned."""
    query: EvaluateQuery = request.query
    pool = context.service.pool(request.path_values["pool_id"])
    floor = pool.click_floor if query.click_floor is UNSET else query.click_floor
    if floor >= pool.slots:
        detail = f"`click_floor` must be below slots ({pool.slots}), got {floor:g}"
        raise broken_rule(detail, parameter="click_floor")
    since_us = (
        context.clock_us() - DEFAULT_DAYS * DAY_US
        if query.since is UNSET
        else from_time(query.since)
    )
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(
        context.export_threads,
        context.service.reporter.evaluate,
        pool.pool_id,
        floor,
        since_us,
        query.since is UNSET,
    )


OPERATIONS = (
    Operation(
        method="GET",
        path="/v1/pools/{pool_id}/evaluate",
        name="evaluate",
        summary="Ask the log what another floor would have earned",
        handler=evaluate,
        scope="read",
        open_on_loopback=True,
        query=EvaluateQuery,
        answer=EvaluationReport,
        problems=("unknown-pool",),
        answer_example={
            "pool_id": "home",
            "click_floor": 0.35,
            "currency": "EUR",
            "revenue": {"value": 1.31, "low": 1.12, "high": 1.52},
            "clicks": {"value": 0.352, "low": 0.331, "high": 0.375},
            "logged_revenue": {"value": 1.28, "low": 1.2, "high": 1.37},
            "logged_clicks": {"value": 0.31, "low": 0.295, "high": 0.327},
            "floor_is_kept": None,
            "cannot_tell": "",
            "confidence": 0.95,
            "effective_sample_size": 21500.0,
            "max_weight": 83.2,
            "uncovered": 0.0,
            "n_pages": 60000,
            "n_fitted": 20000,
            "n_unsettled": 1200,
        },
    ),
)
