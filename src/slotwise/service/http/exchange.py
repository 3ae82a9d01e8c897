"""A request and its answer, in the form in which handlers use them.

Used by `routing`, `api` and `demo`.
"""

from __future__ import annotations

import asyncio
import functools
import gzip
import hashlib
import importlib.util
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import parse_qsl

import msgspec
import msgspec.inspect

from slotwise.errors import MissingData
from slotwise.service.http.problems import RequestProblem, advise, broken_rule, choices, field_error

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


_REVISION_TAG = re.compile(rb'"(\d{1,18})"')


class Caller(Protocol):
    """The part of a key that the HTTP side uses."""

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
    revision: int | None = None
    """Set by the handler: the revision of what it answers, which is sent as an entity tag."""

    def expected_revision(self) -> int | None:
        """Return the revision that the caller wants to change (`If-Match`); None: any.

        A tag that is not one of ours is a revision that nothing has.
        """
        given = self.headers.get(b"if-match", b"*").strip()
        if given == b"*":
            return None
        tag = _REVISION_TAG.fullmatch(given)
        return int(tag[1]) if tag else -1

    def text_headers(self) -> dict[str, str]:
        """Return the headers as text."""
        return {
            name.decode("latin-1"): value.decode("latin-1") for name, value in self.headers.items()
        }

    def caller(self) -> str:
        """Return the id of the request's key, or an empty text."""
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
    """Return whether a body follows the head; a chunked body may be empty."""
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


async def read_body(headers: Mapping[bytes, bytes], receive: Receive, max_bytes: int) -> bytes:
    """Return the whole body; never buffers more than `max_bytes` of it."""
    if not has_body(headers):
        return b""
    announced = headers.get(b"content-length", b"0")
    if announced.isdigit() and int(announced) > max_bytes:
        raise _too_large(max_bytes)
    parts: list[bytes] = []
    size, has_more = 0, True
    while has_more:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > max_bytes:
            raise _too_large(max_bytes)
        has_more = message.get("more_body", False)
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


_WHOLE = re.compile(r"-?[0-9]{1,18}")
_DECIMAL = re.compile(r"-?[0-9]{1,18}(\.[0-9]{0,18})?([eE][+-]?[0-9]{1,2})?")


@functools.cache
def _numbers(query: type[msgspec.Struct], kind_of: type[msgspec.inspect.Type]) -> frozenset[str]:
    """Return the names of the fields of a number type; in an address they are text."""
    described = msgspec.inspect.type_info(query)
    assert isinstance(described, msgspec.inspect.StructType)
    return frozenset(
        field.encode_name
        for field in described.fields
        if any(isinstance(one, kind_of) for one in choices(field.type))
    )


def read_query(query: type[msgspec.Struct], query_string: bytes) -> msgspec.Struct:
    """Return the query of an address as `query`, or refuse the first value that breaks a rule."""
    pairs = parse_qsl(query_string.decode("latin-1"), keep_blank_values=True)
    values = dict(pairs)
    if len(values) < len(pairs):
        repeated = next(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
        detail = f"`{repeated[:80]}` must be given once"
        raise broken_rule(detail, parameter=repeated[:80])
    whole = _numbers(query, msgspec.inspect.IntType)
    decimal = _numbers(query, msgspec.inspect.FloatType)
    typed: dict[str, object] = dict(pairs)
    for name, text in pairs:
        if name in whole and _WHOLE.fullmatch(text):
            typed[name] = int(text)
        elif name in decimal and _DECIMAL.fullmatch(text):
            typed[name] = float(text)
    try:
        return msgspec.convert(typed, query)
    except msgspec.ValidationError as error:
        broken = advise(field_error(str(error)), query)
        parameter = broken.pointer.removeprefix("/")
        raise broken_rule(broken.detail, parameter=parameter) from None


def refuse_query(query_string: bytes) -> None:
    """Refuse the parameters of an address that has none."""
    for name, _ in parse_qsl(query_string.decode("latin-1"), keep_blank_values=True):
        detail = f"`{name[:80]}` is not a parameter of this call; fields belong into the body"
        raise broken_rule(detail, parameter=name[:80])


async def send_stream(
    answer: StreamAnswer, request: Request[Any], receive: Receive, send: Send
) -> None:
    """Send chunk by chunk until the end, or until the client disconnects.

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
    """Return the next chunk, None at the end or if the client disconnects first."""
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
    """Return when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


CHART_LIBRARY = "plotly.min.js"
_TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}


@dataclass(frozen=True)
class Asset:
    """A file with its content type."""

    content: bytes
    content_type: bytes

    @functools.cached_property
    def compressed(self) -> bytes:
        """The content, compressed with gzip."""
        return gzip.compress(self.content, 6, mtime=0)

    @functools.cached_property
    def tag(self) -> bytes:
        """A hash of the content, for the ETag."""
        return hashlib.sha256(self.content).hexdigest()[:32].encode()


@functools.cache
def load_asset(package: str, name: str) -> Asset:
    """Return a file of a package's folder `static`, or the chart library's script."""
    if name == CHART_LIBRARY:
        content = _chart_library().read_bytes()
    else:
        content = resources.files(package).joinpath("static", name).read_bytes()
    return Asset(content, _TYPES[Path(name).suffix])


def _chart_library() -> Path:
    """Find plotly's script without importing plotly, which takes a second."""
    spec = importlib.util.find_spec("plotly")
    if spec is None or not spec.submodule_search_locations:
        raise MissingData(
            "the charts need plotly; install it with: pip install 'slotwise[service]'"
        )
    return Path(spec.submodule_search_locations[0]) / "package_data" / CHART_LIBRARY


def answer_asset(
    asset: Asset, request: Request[Any], headers: tuple[tuple[bytes, bytes], ...] = ()
) -> Answer:
    """Answer a file, compressed if the browser accepts it, or 304 if the browser has it."""
    tag = b'"' + asset.tag + b'"'
    headers = ((b"etag", tag), (b"vary", b"accept-encoding"), *headers)
    if request.headers.get(b"if-none-match") == tag:
        return Answer(b"", 304, b"", headers)
    if b"gzip" in request.headers.get(b"accept-encoding", b""):
        headers = ((b"content-encoding", b"gzip"), *headers)
        return Answer(asset.compressed, 200, asset.content_type, headers)
    return Answer(asset.content, 200, asset.content_type, headers)
