"""A request and its answer, in the form in which handlers use them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from slotwise.service.http.problems import RequestProblem

__all__ = [
    "Answer",
    "Caller",
    "Key",
    "Message",
    "Receive",
    "Request",
    "Send",
    "StreamAnswer",
    "has_body",
    "read_body",
    "send_answer",
]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Caller(Protocol):
    """What the HTTP side must know about a key."""

    @property
    def key_id(self) -> str:
        """The public id of the key."""


Key = TypeVar("Key", bound=Caller)


class Request(msgspec.Struct, Generic[Key]):
    """A request after the checks that its operation declares."""

    method: str
    headers: Mapping[bytes, bytes]
    path_values: Mapping[str, str]
    request_id: str
    client: str
    """Network address of the visitor; shorten it before it is logged."""
    key: Key | None = None
    body: Any = None
    """An instance of the operation's body type."""
    query: Any = None
    """An instance of the operation's query type."""

    def text_headers(self) -> dict[str, str]:
        """Return the headers as text."""
        return {
            name.decode("latin-1"): value.decode("latin-1") for name, value in self.headers.items()
        }

    def caller(self) -> str:
        """Return the id of the key that the request came with, or nothing."""
        return self.key.key_id if self.key else ""


class Answer(msgspec.Struct):
    """An answer with its whole body."""

    body: bytes
    status: int = 200
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()


class StreamAnswer(msgspec.Struct):
    """An answer whose body is produced while it is sent."""

    chunks: AsyncGenerator[bytes]
    content_type: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


def has_body(headers: Mapping[bytes, bytes]) -> bool:
    """Say whether a body follows the head; it may be empty when it comes in chunks."""
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


async def read_body(headers: Mapping[bytes, bytes], receive: Receive, max_bytes: int) -> bytes:
    """Return the whole body; never holds more than `max_bytes` of it."""
    if not has_body(headers):
        return b""
    announced = headers.get(b"content-length", b"0")
    if announced.isdigit() and int(announced) > max_bytes:
        raise _too_large(max_bytes)
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
        return body
    parts = [body]
    size = len(body)
    while message.get("more_body"):
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if size > max_bytes:
            raise _too_large(max_bytes)
        parts.append(part)
    return b"".join(parts)


async def send_answer(answer: Answer, request: Request[Any], send: Send) -> None:
    """Send an answer at once."""
    headers = [
        (b"content-length", b"%d" % len(answer.body)),
        (b"x-request-id", request.request_id.encode()),
        (b"x-content-type-options", b"nosniff"),
        *answer.headers,
    ]
    if answer.content_type:
        headers.append((b"content-type", answer.content_type))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def _too_large(max_bytes: int) -> RequestProblem:
    detail = f"`body` must be at most {max_bytes} bytes; send it in several calls"
    return RequestProblem("body-too-large", detail)
