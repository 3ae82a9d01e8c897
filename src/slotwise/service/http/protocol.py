"""HTTP on a connection: uvicorn's parser, with limits and with gathered writes.

Used by `server`.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import httptools
import msgspec
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from slotwise.service.http.problems import PROBLEMS, RequestProblem
from slotwise.service.limits import MAX_HEAD_BYTES, MAX_HEADERS, MAX_PIPELINED

_SEND_AT_BYTES = 65_536
_PIECE_BYTES = 256
_MAX_LINES = 64
"""The parser cannot be paused. A request has at least two lines, so data with more lines than this
may contain many requests. It is queued and parsed in pieces of `_PIECE_BYTES`."""
_NEVER = float("inf")


class GatheredWrites(asyncio.Transport):
    """A transport that joins all writes of one iteration of the event loop.

    The head and the body of an answer, and several answers on one connection, become one write,
    so that a client wakes up once. Above 64 KiB data is sent at once, so that the transport below
    can apply back-pressure.
    """

    def __init__(self, below: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._below = below
        self._loop = loop
        self._parts: list[Any] = []
        self._n_bytes = 0
        # Methods that are called for every request go directly to the transport below.
        self.is_closing = below.is_closing  # type: ignore[method-assign]
        self.pause_reading = below.pause_reading  # type: ignore[method-assign]
        self.resume_reading = below.resume_reading  # type: ignore[method-assign]

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Buffer data until the end of the iteration."""
        if not self._parts:
            self._loop.call_soon(self._send)
        self._parts.append(data)
        self._n_bytes += len(data)
        if self._n_bytes >= _SEND_AT_BYTES:
            self._send()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Buffer several pieces."""
        for data in list_of_data:
            self.write(data)

    def _send(self) -> None:
        parts = self._parts
        if parts:
            self._parts, self._n_bytes = [], 0
            if not self.is_closing():  # the peer may have disconnected since the write
                self._below.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def close(self) -> None:
        """Send what is buffered, then close."""
        self._send()
        self._below.close()

    def abort(self) -> None:
        """Close at once and drop what is buffered."""
        self._parts = []
        self._below.abort()

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return information about the connection from the transport below."""
        return self._below.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        """Return how many bytes have not been sent yet."""
        return self._n_bytes + self._below.get_write_buffer_size()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Let another protocol read the connection."""
        self._below.set_protocol(protocol)


class GatedReading(FlowControl):
    """Flow control that does not read from the socket while received bytes are unparsed."""

    is_gated = False

    def resume_reading(self) -> None:
        """Read again, unless the gate is closed."""
        if not self.is_gated:
            super().resume_reading()


@dataclass(frozen=True)
class ConnectionLimits:
    """How much a connection may send and how long it may take, in seconds."""

    max_connections: int = 4_096
    head_within_s: float = 10.0
    """From the connection, or the first byte of a request, to the end of its head."""
    body_within_s: float = 30.0
    """From the end of the head to the end of the body."""
    read_within_s: float = 60.0
    """How long the peer may leave an answer unread."""


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's parser with limits, and with problem answers to invalid requests.

    A connection that breaks a time limit is closed by `close_if_overdue`, which the server calls
    about once a second: a timer for every request would cost more than parsing it.
    """

    limits = ConnectionLimits()
    refused: ClassVar[Counter[str]] = Counter()
    """How many connections were refused, by problem, or closed, as `timeout`."""

    _is_reading = True
    """From the first byte of a request, or from the connection, to the end of the request."""
    _is_in_body = False
    _n_unread = 0
    """Bytes received since the request began, or since the last byte of its body."""
    _due_s = _NEVER
    _readable_until_s = _NEVER
    _problem = "invalid-http"
    _unparsed: bytes | memoryview = b""
    """Received after as many requests as a connection may have in flight."""
    _is_waiting = False
    waiting: ClassVar[deque[HttpProtocol]] = deque()
    """Connections with unparsed requests: one continues in each iteration of the event loop, so
    that many such connections do not delay the others."""
    flow: GatedReading

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, with gathered writes, unless there are too many connections."""
        super().connection_made(GatheredWrites(transport, self.loop))
        self.flow = GatedReading(self.transport)
        self._due_s = self.loop.time() + self.limits.head_within_s
        if len(self.connections) > self.limits.max_connections:
            self._refuse("too-many-connections", "close connections that are not used")

    def data_received(self, data: bytes) -> None:
        """Parse received data; refuse what is not HTTP or has too long a head."""
        if self._unparsed:  # read before reading was paused
            self._unparsed = bytes(self._unparsed) + data
            return
        self._unset_keepalive_if_required()
        is_full = len(self.pipeline) >= MAX_PIPELINED
        if not is_full and (len(data) <= _PIECE_BYTES or data.count(b"\n") <= _MAX_LINES):
            self._parse(data)
            return
        self._unparsed = data
        self._due_s = _NEVER  # only the server delays this request
        self.flow.is_gated = True
        self.flow.pause_reading()
        if not is_full:
            self._wait()

    def on_response_complete(self) -> None:
        """Start the next request, and schedule the parsing of what waited for this one."""
        super().on_response_complete()
        if self._unparsed and not self._is_waiting and len(self.pipeline) < MAX_PIPELINED:
            self._wait()

    def _wait(self) -> None:
        self._is_waiting = True
        self.waiting.append(self)
        if len(self.waiting) == 1:
            self.loop.call_soon(self._parse_next)

    def _parse_next(self) -> None:
        """Parse for the connection that has waited longest; the next one in the next iteration."""
        longest = self.waiting.popleft()
        if self.waiting:
            self.loop.call_soon(self._parse_next)
        longest._parse_unparsed()

    def _parse_unparsed(self) -> None:
        """Parse as much as the limit of requests in flight allows; buffer the rest."""
        self._is_waiting = False
        self._unset_keepalive_if_required()
        rest = memoryview(self._unparsed)
        while rest and len(self.pipeline) < MAX_PIPELINED:
            if not self._parse(rest[:_PIECE_BYTES]):
                self._unparsed = b""
                return
            rest = rest[_PIECE_BYTES:]
        self._unparsed = rest
        if rest:
            self._due_s = _NEVER
        else:
            self.flow.is_gated = False
            self.flow.resume_reading()

    def _parse(self, data: bytes | memoryview) -> bool:
        """Parse bytes; return False if the connection was refused or is closing."""
        if self.transport.is_closing():
            return False
        was_in_body = self._is_in_body
        self._n_unread += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # websockets are not served: the request is answered like any other
        except httptools.HttpParserError:
            if self._problem == "invalid-http":
                self._refuse("invalid-http", "the request cannot be parsed")
            else:
                self._refuse_head()
            return False
        if not self._is_reading:
            return True
        if self._n_unread > MAX_HEAD_BYTES:
            self._refuse_head()
            return False
        if self._due_s == _NEVER or self._is_in_body != was_in_body:
            limits = self.limits
            within_s = limits.body_within_s if self._is_in_body else limits.head_within_s
            self._due_s = self.loop.time() + within_s
        return True

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._is_reading = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Record one header; drop a trailer, which must not count as a header of the request."""
        if self._is_in_body:
            return
        if len(self.headers) >= MAX_HEADERS:
            self._problem = "head-too-large"
            raise ValueError
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start to answer, unless the head is too large."""
        if self._n_unread > MAX_HEAD_BYTES:  # rare: some of these bytes may belong to the body
            lines = sum(len(name) + len(value) for name, value in self.headers)
            if len(self.url) + lines > MAX_HEAD_BYTES:
                self._problem = "head-too-large"
                raise ValueError
        self._is_in_body = True
        self._n_unread = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Receive a part of the body."""
        self._n_unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._is_reading = self._is_in_body = False
        self._n_unread = 0
        self._due_s = _NEVER
        super().on_message_complete()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer the complete requests of a client that has stopped sending, then close."""
        if self._is_reading or self.cycle is None or self.cycle.response_complete:
            return False
        self.cycle.keep_alive = False
        return True

    def pause_writing(self) -> None:
        """Record when the peer stopped reading its answer."""
        self._readable_until_s = self.loop.time() + self.limits.read_within_s
        super().pause_writing()

    def resume_writing(self) -> None:
        """Continue sending."""
        self._readable_until_s = _NEVER
        super().resume_writing()

    def close_if_overdue(self, now_s: float) -> None:
        """Close the connection if it has broken a time limit."""
        if now_s > self._due_s or now_s > self._readable_until_s:
            self.refused["timeout"] += 1
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Answer before there is a request to answer."""
        self._refuse("invalid-http", msg)

    def _refuse_head(self) -> None:
        detail = f"at most {MAX_HEAD_BYTES} bytes and {MAX_HEADERS} headers"
        self._refuse("head-too-large", detail)

    def _refuse(self, slug: str, detail: str) -> None:
        self.refused[slug] += 1
        body = msgspec.json.encode(RequestProblem(slug, detail).answer(""))
        head = (
            b"HTTP/1.1 %d Refused\r\ncontent-type: application/problem+json\r\n"
            b"connection: close\r\ncontent-length: %d\r\n\r\n"
        )
        self.transport.write(head % (PROBLEMS[slug].status, len(body)) + body)
        self.transport.close()


def protocol_with(limits: ConnectionLimits, refused: Counter[str]) -> type[HttpProtocol]:
    """Return the protocol of one server, with its limits and its count of refusals."""
    return type(
        "HttpProtocol", (HttpProtocol,), {"limits": limits, "refused": refused, "waiting": deque()}
    )
