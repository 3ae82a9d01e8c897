"""The ASGI application: route, check, call, answer; every failure becomes a problem answer.

Used by `__main__` and `server`.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
import time
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from slotwise.errors import InvalidInput, UnknownDecision
from slotwise.service import refusals
from slotwise.service.access.keys import find_key, key_allows
from slotwise.service.api import (
    alerts,
    clicks,
    dashboard,
    decide,
    events,
    links,
    notes,
    ofrep,
    pool_keys,
    pool_rules,
    pools,
    proposals,
    reports,
    sign_in,
    traffic_plans,
)
from slotwise.service.api.context import Operation, Operations, Request, ServiceContext
from slotwise.service.api.dashboard_session import is_visitor_of_this_machine, key_of_session
from slotwise.service.api.refused_requests import SUMMARISED
from slotwise.service.http import exchange
from slotwise.service.http.addresses import TrustedProxies
from slotwise.service.http.exchange import (
    Answer,
    Receive,
    Send,
    StreamAnswer,
    has_body,
    read_body,
    read_query,
    refuse_query,
    send_answer,
    send_stream,
)
from slotwise.service.http.openapi import openapi_document
from slotwise.service.http.problems import (
    RequestProblem,
    advise,
    broken_rule,
    read_fields,
    refuse,
)
from slotwise.service.http.routing import Router, check_depth
from slotwise.service.logs import short_address
from slotwise.service.records import KeyRecord

OPERATIONS = Operations()
_JSON = re.compile(rb"\s*application/(?:[\w.-]+\+)?json\s*(?:;.*)?", re.IGNORECASE)
_REQUEST_ID = re.compile(rb"(?!sw_)[A-Za-z0-9._:-]{1,64}")
_SINGLE_HEADERS = (b"host", b"authorization", b"content-length", b"content-type", b"origin")
_ANSWERS = (Answer, StreamAnswer)
_STRICT_SCOPES = ("admin", "read", "decide")
"""Calls of people and programs of the team: a parameter that is not known is a mistake, such as
`?slots=2`, which belongs in the body of `decide`."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"})
"""Those that are logged: any other text may be a misplaced key."""
_SLUGS: dict[type[Exception], str] = {
    refusals.UnknownPool: "unknown-pool",
    refusals.UnknownLink: "unknown-link",
    refusals.UnknownKey: "unknown-key-id",
    refusals.UnknownNote: "unknown-note",
    refusals.UnknownReceiver: "unknown-receiver",
    UnknownDecision: "unknown-decision",
    refusals.Conflict: "conflict",
    refusals.Outdated: "outdated",
    refusals.LimitReached: "pool-too-large",
}


class Alive(msgspec.Struct, frozen=True):
    """The process answers."""

    status: str


class Ready(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether `decide` answers; without the store it uses the last version."""

    ready: bool
    store_available: bool
    learning: bool
    """Whether every pool learns and the clocks agree; the dashboard shows what is wrong."""
    detail: str = ""
    """A sentence if what a pool has learned cannot be read."""


@OPERATIONS.add("GET /healthz", None)
async def healthz(context: ServiceContext, request: Request) -> Alive:
    """Check whether the process is alive."""
    return Alive("ok")


@OPERATIONS.add("GET /readyz", None, problems=("stopping",))
async def readyz(context: ServiceContext, request: Request) -> Ready:
    """Check whether the service is ready for traffic."""
    health = context.service.health()
    if context.stopping:
        raise refuse("stopping", "send traffic elsewhere", retry_after_s=1)
    return Ready(health.ready, health.store_available, health.is_learning, health.detail)


@OPERATIONS.add("GET /metrics", "read", content_types=("text/plain",))
def metrics(context: ServiceContext, request: Request) -> Answer:
    """Read metrics in Prometheus' text format."""
    kind = b"text/plain; version=0.0.4; charset=utf-8"
    return Answer(context.metrics.text(), content_type=kind)


@functools.cache
def _document() -> bytes:
    return msgspec.json.encode(openapi_document(ALL_OPERATIONS))


@OPERATIONS.add("GET /openapi.json", None, answer=dict)
def openapi(context: ServiceContext, request: Request) -> Answer:
    """Read this description."""
    return Answer(_document())


_RESOURCES = (
    *(pools, links, pool_rules, decide, ofrep, proposals, events, clicks, reports),
    *(traffic_plans, pool_keys, notes, alerts, dashboard, sign_in),
)
ALL_OPERATIONS: tuple[Operation, ...] = (
    *chain.from_iterable(resource.OPERATIONS for resource in _RESOURCES),
    *OPERATIONS,
)

_encode = msgspec.json.Encoder().encode


class App:
    """The service as an ASGI application.

    `operations` are served in addition to the service's own.
    """

    def __init__(self, context: ServiceContext, operations: Iterable[Operation] = ()) -> None:
        self._context = context
        self.operations = (*ALL_OPERATIONS, *operations)
        self._router = Router(self.operations)
        self._decoders = {
            operation.name: msgspec.json.Decoder(
                msgspec.Raw if operation.reads_body else operation.body
            )
            for operation in self.operations
            if operation.body is not None
        }
        networks = context.settings.proxy_networks
        self._proxies = TrustedProxies(networks) if networks else None
        self._changes: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """The locks of pools that are being changed."""
        self._start_id = os.urandom(4).hex()
        self._n_requests = 0

    async def __call__(self, scope: Mapping[str, object], receive: Receive, send: Send) -> None:
        """Answer one request, by the ASGI protocol."""
        if scope["type"] == "http":
            await self._exchange(scope, receive, send)
        elif scope["type"] == "lifespan":
            for event in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{event}.complete"})
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _exchange(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        context = self._context
        headers = dict(scope["headers"])
        request: Request = exchange.Request(
            method=scope["method"],
            headers=headers,
            path_values={},
            request_id=self._request_id(headers),
            client=self._client(scope),
        )
        operation: Operation | None = None
        problem: RequestProblem | None = None
        try:
            if len(headers) < len(scope["headers"]):
                _check_repeated(scope["headers"])
            operation, request.path_values = self._router.find(request.method, scope["path"])
            await self._check(operation, request, scope, receive)
            if operation.scope == "admin" and "pool_id" in request.path_values:
                made = await self._change_pool(operation, request)
            else:
                made = await operation.handler(context, request)
            answer = made if isinstance(made, _ANSWERS) else Answer(_encode(made), operation.status)
            if request.revision is not None:
                answer.headers += ((b"etag", b'"%d"' % request.revision),)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001
            problem = _as_problem(error)
            answer = self._refuse(problem, error, request, operation)
        name = operation.name if operation else "none"
        if isinstance(answer, StreamAnswer):
            status = 200
            await send_stream(answer, request, receive, send)
        else:
            status = answer.status
            await send_answer(answer, request, send)
        seconds = time.perf_counter() - started
        context.metrics.observe(name, status, seconds)
        if context.settings.log_requests != "none":
            self._log(operation, request, problem, status, seconds)

    async def _change_pool(self, operation: Operation, request: Request) -> Any:
        """Call a handler after those before it: each starts from the pool that the last stored."""
        async with self._changes.setdefault(request.path_values["pool_id"], asyncio.Lock()):
            return await operation.handler(self._context, request)

    def _client(self, scope: Mapping[str, Any]) -> str:
        client = scope.get("client")
        peer = client[0] if client else ""
        return self._proxies.client(peer, scope["headers"]) if self._proxies else peer

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
            request.key = self._authorize(operation, request)
        if operation.meter is not None:
            context.limits.spend(operation.meter, request)
        if operation.query is not None:
            request.query = read_query(operation.query, scope["query_string"])
        elif operation.scope in _STRICT_SCOPES and scope["query_string"]:
            refuse_query(scope["query_string"])
        if operation.before_body is not None:
            operation.before_body(context, request)
        if operation.body is not None and (
            has_body(request.headers) or not operation.body_optional
        ):
            request.body = await self._read_json(operation, request, receive)

    def _authorize(self, operation: Operation, request: Request) -> KeyRecord:
        """Return the key of the request; only refused requests spend the budget of an address."""
        assert operation.scope is not None
        context = self._context
        given = request.headers.get(b"authorization")
        key = None
        if given is not None:
            kind, _, secret = given.decode("latin-1").partition(" ")
            if kind.lower() == "bearer":
                key = find_key(secret.strip(), context.service.directory.key_records)
        elif b"cookie" in request.headers:
            key = key_of_session(context, request, operation)
        if key is None:
            context.limits.spend("refused_keys", request)
            slug, detail = "unknown-key", "the key is wrong or revoked"
            if given is None:
                slug = "missing-key"
                detail = "send `Authorization: Bearer <key>`; `slotwise keys` makes keys"
            challenge = (b"www-authenticate", b'Bearer realm="slotwise"')
            raise RequestProblem(slug, detail, headers=[challenge])
        if not key_allows(key, operation.scope):
            has = ", ".join(key.scopes)
            detail = f"the call needs a key with scope {operation.scope}, this one has {has}"
            raise RequestProblem("wrong-scope", detail)
        return key

    async def _read_json(self, operation: Operation, request: Request, receive: Receive) -> object:
        settings, headers = self._context.settings, request.headers
        max_bytes = settings.max_body_bytes
        if operation.max_body_bytes is not None:
            max_bytes = min(max_bytes, operation.max_body_bytes)
        body = await read_body(headers, receive, max_bytes)
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
            found, good = read_fields(error, body, operation.body)
            broken = [advise(one, operation.body) for one in found]
            if operation.check_good_fields is not None:
                wrong = {one.pointer.split("/")[1] for one in broken if one.pointer}
                broken += await operation.check_good_fields(self._context, request, good, wrong)
            raise RequestProblem("validation", broken[0].detail, errors=broken) from None
        except UnicodeDecodeError:
            raise RequestProblem("invalid-json", "the body must be UTF-8") from None
        except msgspec.DecodeError as error:
            raise RequestProblem("invalid-json", str(error)) from None

    def _refuse(
        self,
        problem: RequestProblem,
        error: BaseException,
        request: Request,
        operation: Operation | None,
    ) -> Answer:
        if operation is None or operation.name != "readyz":  # a probe is not refused, but answered
            self._context.refusals.note(problem.slug, request.client)
        if problem.slug == "internal":
            name = operation.name if operation else "none"
            fields = {"request_id": request.request_id, "operation": name}
            self._context.log.failure("request.failed", error, **fields)
        headers = problem.headers
        if operation is not None and operation.refusal_headers is not None:
            headers += operation.refusal_headers(self._context, request)
        errors = operation.protocol_errors if operation is not None else None
        if errors is not None and problem.slug in errors.statuses:
            body = _encode(errors.write(problem, request.path_values))
            return Answer(body, errors.statuses[problem.slug], headers=headers)
        return Answer(
            _encode(problem.answer(request.request_id)),
            problem.kind.status,
            b"application/problem+json",
            headers,
        )

    def _log(
        self,
        operation: Operation | None,
        request: Request,
        problem: RequestProblem | None,
        status: int,
        seconds: float,
    ) -> None:
        is_change = operation is not None and operation.scope == "admin" and request.method != "GET"
        is_probe = operation is not None and operation.name == "readyz"
        if problem is not None:
            notable = problem.slug not in SUMMARISED and not is_probe
        else:
            notable = is_change
        if not (notable or self._context.settings.log_requests == "all"):
            return
        # The ids in the path, but never a token, nor what may be a misplaced key.
        ids = {} if status >= 400 else {**request.path_values}
        ids.pop("token", None)
        route = operation.path if operation else problem.route if problem else ""
        self._context.log.info(
            "request",
            request_id=request.request_id,
            method=request.method if route and request.method in _METHODS else "",
            route=route,
            status=status,
            ms=round(1000 * seconds, 3),
            client=short_address(request.client),
            by=request.caller(),
            **ids,
        )


def _check_repeated(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse headers that a proxy may have read differently, because they are given twice."""
    names = [name for name, _ in headers]
    for name in _SINGLE_HEADERS:
        if names.count(name) > 1:
            raise RequestProblem("invalid-http", f"`{name.decode()}` must be given once")


def _as_problem(error: BaseException) -> RequestProblem:
    """Return the problem that an error means for the caller; an unknown error is `internal`."""
    if isinstance(error, asyncio.CancelledError):  # a stop waits for `stop_within_s` only
        return refuse("stopping", "the service stopped before it had an answer", retry_after_s=1)
    if isinstance(error, RequestProblem):
        return error
    for kind, slug in _SLUGS.items():
        if isinstance(error, kind):
            return RequestProblem(slug, str(error))
    if isinstance(error, refusals.StoreUnavailable):
        return refuse("store-away", str(error), retry_after_s=error.retry_after_s)
    if isinstance(error, InvalidInput):
        return broken_rule(str(error), f"/{error.argument}" if error.argument else "")
    return RequestProblem("internal", "the failure is logged under the request id")
