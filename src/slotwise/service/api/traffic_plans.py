"""Traffic plans: how many days of traffic a page needs, simulated by another process.

Used by `app`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from slotwise.service.api.bodies import Slots, Strict
from slotwise.service.api.context import Operations, Request, ServiceContext
from slotwise.service.api.pools import ClickFloor
from slotwise.service.http.exchange import StreamAnswer
from slotwise.service.http.problems import broken_rule, refuse
from slotwise.service.limits import MAX_PLAN_CASES, MAX_PLAN_VIEWS, MAX_POOL_LINKS
from slotwise.service.refusals import Conflict

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


OPERATIONS = Operations()


@OPERATIONS.add(
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
    return PlanAnswer(
        floor_kept=_days(found["floor"], body.views_per_day),
        lift_visible=_days(found["lift"], body.views_per_day),
        floors_in_reach=found["share_of_floors_in_reach"],
        certainty=body.certainty,
        cases=body.cases,
        max_views=body.max_views,
    )


def _days(waiting: Mapping[str, float | None], views_per_day: float) -> DaysAnswer:
    days = {name: views and views / views_per_day for name, views in waiting.items()}
    return DaysAnswer(
        days=days["views"], low=days["low"], high=days["high"], page_views=waiting["views"]
    )
