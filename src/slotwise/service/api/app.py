"""The ASGI application: route, check, call, answer; every failure becomes a problem answer."""

from __future__ import annotations

import functools
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import msgspec.inspect

from slotwise.errors import InvalidInput, UnknownDecision
from slotwise.service.access.keys import find_key, key_allows
from slotwise.service.api.all_operations import OPERATIONS
from slotwise.service.api.context import Operation, Request, ServiceContext
from slotwise.service.api.local_visitors import is_visitor_of_this_machine
from slotwise.service.errors import (
    Conflict,
    LimitReached,
    StoreUnavailable,
    UnknownKey,
    UnknownLink,
    UnknownPool,
)
from slotwise.service.http import exchange
from slotwise.service.http.exchange import Answer, Receive, Send, StreamAnswer, read_body
from slotwise.service.http.problems import (
    RequestProblem,
    broken_rule,
    field_error,
    refuse,
)
from slotwise.service.http.rate_limits import check_depth
from slotwise.service.http.router import Router
from slotwise.service.logs import short_address
from slotwise.service.records import KeyRecord

__all__ = ["App"]

_encode = msgspec.json.Encoder().encode
_JSON = re.compile(rb"\s*application/(?:[\w.-]+\+)?json\s*(?:;.*)?", re.IGNORECASE)
_REQUEST_ID = re.compile(rb"(?!sw_)[A-Za-z0-9._:-]{1,64}")
_ANSWERS = (Answer, StreamAnswer)
_WHOLE = re.compile(r"-?[0-9]{1,18}")


class App:
    """The service as an ASGI application.

    `operations` are served beside the service's own: a benchmark adds its constant answer.
    """

    def __init__(self, context: ServiceContext, operations: Iterable[Operation] = ()) -> None:
        self._context = context
        self.operations = (*OPERATIONS, *operations)
        self._router = Router(self.operations)
        self._decoders = {
            operation.name: msgspec.json.Decoder(operation.body)
            for operation in self.operations
            if operation.body is not None
        }
        self._start_id = os.urandom(4).hex()
        self._n_requests = 0

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI has it."""
        if scope["type"] == "http":
            await self._exchange(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _exchange(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        context = self._context
        headers = dict(scope["headers"])
        client = scope.get("client")
        request: Request = exchange.Request(
            method=scope["method"],
            headers=headers,
            path_values={},
            request_id=self._request_id(headers),
            client=client[0] if client else "",
        )
        operation: Operation | None = None
        try:
            operation, request.path_values = self._router.find(request.method, scope["path"])
            await self._check(operation, request, scope, receive)
            made = await operation.handler(context, request)
            answer = made if isinstance(made, _ANSWERS) else Answer(_encode(made), operation.status)
        except Exception as error:
            answer = self._problem(error, request, operation)
        name = operation.name if operation else "none"
        if isinstance(answer, StreamAnswer):
            status = 200
            await _send_stream(answer, request, send)
        else:
            status = answer.status
            await _send(answer, request, send)
        seconds = time.perf_counter() - started
        context.metrics.observe(name, status, seconds)
        if context.settings.log_requests != "none":
            self._log(operation, request, status, seconds)

    def _request_id(self, headers: Mapping[bytes, bytes]) -> str:
        given = headers.get(b"x-request-id")
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given.decode("ascii")
        self._n_requests += 1
        return f"{self._start_id}-{self._n_requests:x}"

    async def _check(
        self, operation: Operation, request: Request, scope: Mapping[str, Any], receive: Receive
    ) -> None:
        """Refuse what the declaration of the operation forbids; fill in key, query and body."""
        context = self._context
        here = operation.open_on_loopback and is_visitor_of_this_machine(request, context.settings)
        if operation.scope is not None and not here:
            request.key = self._authorize(operation, request.headers)
        caller = request.key.key_id if request.key else request.client
        context.limits[operation.meter].spend(caller, now_s=time.monotonic())
        if operation.query is not None:
            request.query = _read_query(operation, scope["query_string"])
        if operation.body is not None:
            request.body = await self._read_json(operation, request.headers, receive)

    def _authorize(self, operation: Operation, headers: Mapping[bytes, bytes]) -> KeyRecord:
        given = headers.get(b"authorization")
        challenge = [(b"www-authenticate", b'Bearer realm="slotwise"')]
        if given is None:
            detail = "send `Authorization: Bearer <key>`; `slotwise keys` makes keys"
            raise RequestProblem("missing-key", detail, headers=challenge)
        kind, _, secret = given.decode("latin-1").partition(" ")
        key = None
        if kind.lower() == "bearer":
            key = find_key(secret.strip(), self._context.service.key)
        if key is None:
            raise RequestProblem("unknown-key", "the key is wrong or revoked", headers=challenge)
        assert operation.scope is not None
        if not key_allows(key, operation.scope):
            has = ", ".join(key.scopes)
            detail = f"the call needs a key with scope {operation.scope}, this one has {has}"
            raise RequestProblem("wrong-scope", detail)
        return key

    async def _read_json(
        self, operation: Operation, headers: Mapping[bytes, bytes], receive: Receive
    ) -> Any:
        settings = self._context.settings
        body = await read_body(headers, receive, settings.max_body_bytes)
        if not body and operation.body_optional:
            return None
        content_type = headers.get(b"content-type", b"")
        if not _JSON.fullmatch(content_type):
            shown = content_type.decode("latin-1")[:80]
            detail = f"`Content-Type` must be application/json, got {shown!r}"
            raise RequestProblem("unsupported-media-type", detail)
        check_depth(body, settings.max_depth)
        try:
            return self._decoders[operation.name].decode(body)
        except msgspec.ValidationError as error:
            broken = field_error(str(error))
            raise RequestProblem("validation", broken.detail, errors=[broken]) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RequestProblem("invalid-json", str(error)) from None

    def _problem(self, error: Exception, request: Request, operation: Operation | None) -> Answer:
        problem = _as_problem(error)
        if problem.slug == "internal":
            name = operation.name if operation else "none"
            fields = {"request_id": request.request_id, "operation": name}
            self._context.log.failure("request.failed", error, **fields)
        return Answer(
            _encode(problem.answer(request.request_id)),
            problem.kind.status,
            b"application/problem+json",
            problem.headers,
        )

    def _log(
        self, operation: Operation | None, request: Request, status: int, seconds: float
    ) -> None:
        changes = operation is not None and operation.scope == "admin" and request.method != "GET"
        is_probe = operation is not None and operation.name == "readyz"
        notable = changes or (status >= 400 and not is_probe)
        if not (notable or self._context.settings.log_requests == "all"):
            return
        self._context.log.info(
            "request",
            request_id=request.request_id,
            method=request.method if operation else "",
            route=operation.path if operation else "",
            status=status,
            ms=round(1000 * seconds, 3),
            client=short_address(request.client),
            by=request.caller(),
            **self._named(request, status),
        )

    @staticmethod
    def _named(request: Request, status: int) -> dict[str, str]:
        """Return the ids in the path, but never a token, nor what may be a misplaced key."""
        if status >= 400:
            return {}
        return {name: value for name, value in request.path_values.items() if name != "token"}


async def _send(answer: Answer, request: Request, send: Send) -> None:
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


async def _send_stream(answer: StreamAnswer, request: Request, send: Send) -> None:
    """Send chunk by chunk; a failure on the way cuts the connection, as it must."""
    headers = [
        (b"content-type", answer.content_type),
        (b"x-request-id", request.request_id.encode()),
        (b"x-content-type-options", b"nosniff"),
        *answer.headers,
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    async for chunk in answer.chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@functools.cache
def _whole_numbers(query: type[msgspec.Struct]) -> frozenset[str]:
    """Return the fields that are whole numbers: a query has them as text, as it has everything."""
    described = msgspec.inspect.type_info(query)
    assert isinstance(described, msgspec.inspect.StructType)
    names = set()
    for field in described.fields:
        kind = field.type
        kinds = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
        if any(isinstance(_bare(one), msgspec.inspect.IntType) for one in kinds):
            names.add(field.encode_name)
    return frozenset(names)


def _bare(kind: msgspec.inspect.Type) -> msgspec.inspect.Type:
    """Return a type without its description."""
    return _bare(kind.type) if isinstance(kind, msgspec.inspect.Metadata) else kind


def _read_query(operation: Operation, query_string: bytes) -> msgspec.Struct:
    pairs = parse_qsl(query_string.decode("latin-1"), keep_blank_values=True)
    values = dict(pairs)
    assert operation.query is not None
    if len(values) < len(pairs):
        repeated = next(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
        detail = f"`{repeated[:80]}` must be given once"
        raise broken_rule(detail, parameter=repeated[:80])
    whole = _whole_numbers(operation.query)
    typed = {
        name: int(text) if name in whole and _WHOLE.fullmatch(text) else text
        for name, text in pairs
    }
    try:
        return msgspec.convert(typed, operation.query)
    except msgspec.ValidationError as error:
        broken = field_error(str(error))
        parameter = broken.pointer.removeprefix("/")
        raise broken_rule(broken.detail, parameter=parameter) from None


def _as_problem(error: Exception) -> RequestProblem:
    """Say what an error means to the caller; whatever is not foreseen is our failure."""
    match error:
        case RequestProblem():
            return error
        case UnknownPool():
            return RequestProblem("unknown-pool", str(error))
        case UnknownLink():
            return RequestProblem("unknown-link", str(error))
        case UnknownKey():
            return RequestProblem("unknown-key-id", str(error))
        case UnknownDecision():
            return RequestProblem("unknown-decision", str(error))
        case Conflict():
            return RequestProblem("conflict", str(error))
        case LimitReached():
            return RequestProblem("pool-too-large", str(error))
        case StoreUnavailable():
            return refuse("store-away", str(error), retry_after_s=error.retry_after_s)
        case InvalidInput():
            pointer = f"/{error.argument}" if error.argument else ""
            return broken_rule(str(error), pointer)
    return RequestProblem("internal", "the failure is logged under the request id")
