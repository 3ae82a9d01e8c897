"""How HTTP is spoken on a connection: uvicorn's reading of it, and answers sent together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from slotwise.service.http.problems import RequestProblem

__all__ = ["GatheredWrites", "HttpProtocol"]

_SEND_AT_BYTES = 65_536


class GatheredWrites(asyncio.Transport):
    """A transport that sends what was written once all requests that were read are answered.

    Head and body of an answer go out in one piece, and the answers of one turn of the event
    loop go out one after the other: whoever waits for them is woken once instead of for each.
    Much data is sent at once, so that the transport below can say when it has too much.
    """

    def __init__(self, below: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._below = below
        self._loop = loop
        self._parts: list[Any] = []
        self._n_bytes = 0
        # What a connection calls for every request goes straight to the transport below.
        self.is_closing = below.is_closing  # type: ignore[method-assign]
        self.pause_reading = below.pause_reading  # type: ignore[method-assign]
        self.resume_reading = below.resume_reading  # type: ignore[method-assign]

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep what is to be sent until the end of the turn."""
        if not self._parts:
            self._loop.call_soon(self._send)
        self._parts.append(data)
        self._n_bytes += len(data)
        if self._n_bytes >= _SEND_AT_BYTES:
            self._send()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Keep several pieces."""
        for data in list_of_data:
            self.write(data)

    def _send(self) -> None:
        parts = self._parts
        if parts:
            self._parts, self._n_bytes = [], 0
            self._below.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def close(self) -> None:
        """Send what is kept, then close."""
        self._send()
        self._below.close()

    def abort(self) -> None:
        """Close at once and drop what is kept."""
        self._parts = []
        self._below.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the transport below knows about the connection."""
        return self._below.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait to be sent."""
        return self._n_bytes + self._below.get_write_buffer_size()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Let another protocol read the connection."""
        self._below.set_protocol(protocol)


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's reading of HTTP, with a problem answer for what cannot be read."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, with gathered writes."""
        super().connection_made(GatheredWrites(transport, self.loop))

    def send_400_response(self, msg: str) -> None:
        """Answer before there is a request to answer."""
        body = msgspec.json.encode(RequestProblem("invalid-http", msg).answer(""))
        head = (
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n"
            b"connection: close\r\ncontent-length: %d\r\n\r\n"
        )
        self.transport.write(head % len(body) + body)
        self.transport.close()
