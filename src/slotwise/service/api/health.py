"""Health, readiness, metrics and the OpenAPI description."""

from __future__ import annotations

import asyncio
import functools

import msgspec

from slotwise.service.api.context import Operation, Request, ServiceContext
from slotwise.service.http.exchange import Answer
from slotwise.service.http.openapi import openapi_document
from slotwise.service.http.problems import refuse


class Alive(msgspec.Struct, frozen=True):
    """The process answers."""

    status: str


class Ready(msgspec.Struct, frozen=True):
    """Decide answers; without the store it does so from the last snapshot."""

    ready: bool
    store_available: bool
    learning: bool
    """Whether every pool is learned and the clocks agree; the dashboard says what is wrong."""


async def healthz(context: ServiceContext, request: Request) -> Alive:
    """Say that the process lives."""
    return Alive("ok")


async def readyz(context: ServiceContext, request: Request) -> Ready:
    """Say whether traffic should come here."""
    health = context.service.health()
    if context.stopping:
        raise refuse("stopping", "send traffic elsewhere", retry_after_s=1)
    return Ready(health.ready, health.store_available, health.is_learning)


async def metrics(context: ServiceContext, request: Request) -> Answer:
    """Return what Prometheus reads."""
    text = await asyncio.to_thread(context.metrics.text)
    return Answer(text, content_type=b"text/plain; version=0.0.4; charset=utf-8")


@functools.cache
def _document() -> bytes:
    from slotwise.service.api.app import ALL_OPERATIONS as ALL_OPERATIONS

    return msgspec.json.encode(openapi_document(ALL_OPERATIONS))


async def openapi(context: ServiceContext, request: Request) -> Answer:
    """Return the description of every operation."""
    return Answer(await asyncio.to_thread(_document))


OPERATIONS = (
    Operation(
        method="GET",
        path="/healthz",
        name="healthz",
        summary="Ask whether the process lives",
        handler=healthz,
        scope=None,
        answer=Alive,
        answer_example={"status": "ok"},
    ),
    Operation(
        method="GET",
        path="/readyz",
        name="readyz",
        summary="Ask whether traffic should come here",
        handler=readyz,
        scope=None,
        answer=Ready,
        problems=("stopping",),
        answer_example={"ready": True, "store_available": True, "learning": True},
    ),
    Operation(
        method="GET",
        path="/metrics",
        name="metrics",
        summary="Read metrics in Prometheus' text format",
        handler=metrics,
        scope="read",
        content_types=("text/plain",),
    ),
    Operation(
        method="GET",
        path="/openapi.json",
        name="openapi",
        summary="Read this description",
        handler=openapi,
        scope=None,
        answer=dict,
    ),
)
