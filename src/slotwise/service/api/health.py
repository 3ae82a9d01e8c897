"""Health, readiness, metrics and the OpenAPI description."""

from __future__ import annotations

import asyncio
import functools

import msgspec

from slotwise.service.api.context import Operations, Request, ServiceContext
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


OPERATIONS = Operations()


@OPERATIONS.add("GET /healthz", None, answer_example={"status": "ok"})
async def healthz(context: ServiceContext, request: Request) -> Alive:
    """Ask whether the process lives."""
    return Alive("ok")


@OPERATIONS.add(
    "GET /readyz",
    None,
    answer_example={"ready": True, "store_available": True, "learning": True},
    problems=("stopping",),
)
async def readyz(context: ServiceContext, request: Request) -> Ready:
    """Ask whether traffic should come here."""
    health = context.service.health()
    if context.stopping:
        raise refuse("stopping", "send traffic elsewhere", retry_after_s=1)
    return Ready(health.ready, health.store_available, health.is_learning)


@OPERATIONS.add("GET /metrics", "read", content_types=("text/plain",))
async def metrics(context: ServiceContext, request: Request) -> Answer:
    """Read metrics in Prometheus' text format."""
    text = await asyncio.to_thread(context.metrics.text)
    return Answer(text, content_type=b"text/plain; version=0.0.4; charset=utf-8")


@functools.cache
def _document() -> bytes:
    from slotwise.service.api.app import ALL_OPERATIONS as ALL_OPERATIONS

    return msgspec.json.encode(openapi_document(ALL_OPERATIONS))


@OPERATIONS.add("GET /openapi.json", None, answer=dict)
async def openapi(context: ServiceContext, request: Request) -> Answer:
    """Read this description."""
    return Answer(await asyncio.to_thread(_document))
