"""Answers that are sent chunk by chunk until the client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

from slotwise.service.http.exchange import Receive, Request, Send, StreamAnswer

__all__ = ["send_stream"]


async def send_stream(
    answer: StreamAnswer, request: Request[Any], receive: Receive, send: Send
) -> None:
    """Send chunk by chunk until the client goes away.

    After an error the connection is closed, so that the client notices.
    """
    headers = [
        (b"content-type", answer.content_type),
        (b"x-request-id", request.request_id.encode()),
        (b"x-content-type-options", b"nosniff"),
        *answer.headers,
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        async with aclosing(answer.chunks) as chunks:
            while (chunk := await _next_chunk(chunks, gone)) is not None:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
    finally:
        gone.cancel()
    await send({"type": "http.response.body", "body": b""})


async def _next_chunk(chunks: AsyncGenerator[bytes], gone: asyncio.Future[None]) -> bytes | None:
    """Return the next chunk, None at the end or when the client goes away first."""
    step = asyncio.ensure_future(anext(chunks, None))
    try:
        await asyncio.wait((step, gone), return_when=asyncio.FIRST_COMPLETED)
        return step.result() if step.done() else None
    finally:
        if not step.done():
            step.cancel()
            with suppress(asyncio.CancelledError):
                await step


async def _disconnected(receive: Receive) -> None:
    """Return when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass
