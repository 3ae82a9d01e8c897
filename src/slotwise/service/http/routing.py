"""Operations: how they are declared, which one answers a method and a path, and how often.

Used by `openapi` and `api`.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Any, Generic, TypeVar, get_type_hints

import msgspec
import numpy as np

from slotwise.errors import InvalidInput
from slotwise.service.http.addresses import rate_limited_network
from slotwise.service.http.exchange import Answer, Key, Request, StreamAnswer
from slotwise.service.http.problems import (
    FieldError,
    ProtocolErrors,
    RequestProblem,
    broken_rule,
    refuse,
)
from slotwise.service.limits import ID_RULE, is_id

Context = TypeVar("Context")
Headers = tuple[tuple[bytes, bytes], ...]
Made = Answer | StreamAnswer | msgspec.Struct
Handler = Callable[[Context, Request[Key]], Awaitable[Made]]
Declared = TypeVar("Declared", bound=Callable[..., Any])
FieldCheck = Callable[
    [Context, Request[Key], dict[str, Any], Collection[str]], Awaitable[list[FieldError]]
]
"""Called with the valid fields of a body and the names of the wrong ones."""

_UNKNOWN = {
    "pool_id": "unknown-pool",
    "link_id": "unknown-link",
    "note_id": "unknown-note",
    "receiver_id": "unknown-receiver",
    "key_id": "unknown-key-id",
    "decision_id": "unknown-decision",
    "token": "unknown-token",
}
"""The problem of a call with an unknown id in its path."""
_METHODS = "methods"
_VALUE = "{}"
_WHAT_IS_HERE = "the dashboard is at /, and /openapi.json lists all calls"
_MAX_CALLERS = 10_000
_MAX_FOUND = 1_000
_OF_ONE_VISITOR = {"decision_id", "token"}
"""Values of paths that occur once or twice, so that finding them again does not pay."""
_NOT_STRUCTURAL = bytes(byte for byte in range(256) if byte not in b'[]{}"')
_STEPS = bytes.maketrans(b'[{]}"', b"\x01\x01\xff\xff\x00")
_QUOTES = bytes.maketrans(b'[{]}"', b"\x00\x00\x00\x00\x01")


@dataclass(frozen=True)
class OperationLink:
    """A value of this operation's answer that is an argument of another operation.

    `values` are OpenAPI runtime expressions by parameter; `body` one for fields of the body.
    """

    to: str
    values: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)


def links_to(*names: str, giving: tuple[str, ...]) -> tuple[OperationLink, ...]:
    """Return links to operations whose parameters are fields of an answer."""
    values = {field: f"$response.body#/{field}" for field in giving}
    return tuple(OperationLink(name, values) for name in names)


@dataclass(frozen=True)
class Operation(Generic[Context, Key]):
    """One method of one address.

    `handler` is called with the application's context and a checked request. It returns a record,
    which is sent as JSON with `status`, or an `Answer`, or raises a problem.
    """

    method: str
    path: str
    name: str
    summary: str
    handler: Handler[Context, Key]
    scope: str | None
    """The scope that a key needs; None: no key is needed."""
    open_on_loopback: bool = False
    """Whether a person at this machine may call it without a key."""
    meter: str | None = "calls"
    """The rate limit that counts its calls; None: the handler counts them itself."""
    before_body: Callable[[Context, Request[Key]], None] | None = None
    """Refuses a request by its head, before its body is read."""
    body: Any = None
    body_optional: bool = False
    reads_body: bool = False
    """Whether the handler decodes the body itself, as a `body`."""
    check_good_fields: FieldCheck[Context, Key] | None = None
    """Checks the valid fields of a body with wrong ones, so that one answer lists all errors."""
    max_body_bytes: int | None = None
    """None: the limit of the settings."""
    query: type[msgspec.Struct] | None = None
    path_choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The allowed values of names in the path; any other value is answered with 404."""
    answer: Any = None
    status: int = 200
    content_types: tuple[str, ...] = ("application/json",)
    has_tag: bool = False
    """Whether the answer has an entity tag, and is 304 for a client that sends it."""
    has_revision: bool = False
    """Whether what it answers has a revision: the answer has it as an entity tag, and a change is
    refused with 412 if the caller sends another one as `If-Match`."""
    problems: tuple[str, ...] = ()
    """Problems of this operation, in addition to those of every operation."""
    protocol_errors: ProtocolErrors | None = None
    """Problems answered in the form of another protocol, also for unknown ids."""
    refusal_headers: Callable[[Context, Request[Key]], Headers] | None = None
    """Makes headers for every problem answer; it must not raise."""
    example: Any = None
    links: tuple[OperationLink, ...] = ()


class Operations(list[Operation[Context, Key]]):
    """The operations of a resource, each declared where its handler is defined."""

    def add(
        self, address: str, scope: str | None, *, answer: Any = None, **declared: Any
    ) -> Callable[[Declared], Declared]:
        """Declare a handler as the operation of an address, such as `GET /v1/pools`.

        Its name and summary are the handler's, its answer the handler's return type. A handler that
        is not a coroutine reads the store or computes for a while: it is called in a thread. An id
        in the path may be unknown, unless it is the one that a PUT creates.
        """
        method, path = address.split(" ")
        ids = [name for name in re.findall(r"\{(\w+)\}", path) if name in _UNKNOWN]
        if method == "PUT" and path.endswith("}"):
            ids.pop()
        problems = (*declared.pop("problems", ()), *(_UNKNOWN[name] for name in ids))
        if declared.get("has_revision") and method != "GET":
            problems = (*problems, "outdated")

        def declare(handler: Declared) -> Declared:
            returned = get_type_hints(handler)["return"]
            summary = (handler.__doc__ or "").partition("\n")[0].removesuffix(".")
            named = {"name": handler.__name__, "summary": summary} | declared
            self.append(
                Operation(
                    method=method,
                    path=path,
                    handler=handler if iscoroutinefunction(handler) else _in_a_thread(handler),
                    scope=scope,
                    answer=answer or (None if returned in (Answer, StreamAnswer) else returned),
                    problems=problems,
                    **named,
                )
            )
            return handler

        return declare


def _in_a_thread(handler: Callable[[Context, Request[Key]], Made]) -> Handler[Context, Key]:
    async def call(context: Context, request: Request[Key]) -> Made:
        return await asyncio.to_thread(handler, context, request)

    return call


class Router:
    """A tree of path segments; a `{name}` segment is an id, or the token of a click link."""

    def __init__(self, operations: Iterable[Operation[Any, Any]]) -> None:
        self._root: dict[str, Any] = {}
        self._found: dict[tuple[str, str], tuple[Operation[Any, Any], Mapping[str, str]]] = {}
        """What was found lately, by method and path: most requests are about a few pools."""
        for operation in operations:
            self._add(operation)

    def _add(self, operation: Operation[Any, Any]) -> None:
        names = []
        node = self._root
        for segment in operation.path.split("/")[1:]:
            if segment.startswith("{"):
                names.append(segment[1:-1])
                node = node.setdefault(_VALUE, {})
            else:
                node = node.setdefault("/" + segment, {})
        methods = node.setdefault(_METHODS, {})
        if operation.method in methods:
            taken = f"{operation.method} {operation.path}"
            raise InvalidInput.of("operations", "one for each method and path", taken)
        methods[operation.method] = (operation, tuple(names))

    def find(self, method: str, path: str) -> tuple[Operation[Any, Any], Mapping[str, str]]:
        """Return the operation and the values in its path, or refuse with 404, 405 or 422."""
        found = self._found.get((method, path))
        if found is None:
            operation, values = found = self._search(method, path)
            # Values of another protocol are of any length.
            if operation.protocol_errors is None and values.keys().isdisjoint(_OF_ONE_VISITOR):
                if len(self._found) >= _MAX_FOUND:
                    self._found.clear()
                self._found[method, path] = found
        return found

    def _search(self, method: str, path: str) -> tuple[Operation[Any, Any], Mapping[str, str]]:
        node = self._root
        values = []
        for segment in path.split("/")[1:]:
            below = node.get("/" + segment)
            if below is None:
                below = node.get(_VALUE)
                if below is None or not segment:
                    raise RequestProblem("unknown-route", _WHAT_IS_HERE)
                values.append(segment)
            node = below
        methods = node.get(_METHODS)
        if methods is None:
            raise RequestProblem("unknown-route", _WHAT_IS_HERE)
        found = methods.get(method)
        if found is None:
            allowed = ", ".join(methods)
            problem = RequestProblem(
                "method-not-allowed",
                f"`method` must be one of {allowed}, got {method[:20]!r}",
                headers=[(b"allow", allowed.encode())],
            )
            problem.route = next(iter(methods.values()))[0].path
            raise problem
        operation, names = found
        for name, value in zip(names, values, strict=True):
            if operation.protocol_errors is None and name != "token" and not is_id(value):
                rule = f"`{name}` must be {ID_RULE}, got {value[:80]!r}"
                raise broken_rule(rule, parameter=name)
        return operation, dict(zip(names, values, strict=True))


def check_depth(body: bytes, max_depth: int) -> None:
    """Refuse JSON whose arrays and objects are nested deeper than `max_depth`.

    Runs before the decoder, in time linear in the body and without recursion.
    """
    if body.count(b"[") + body.count(b"{") <= max_depth:
        return
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    structure = unescaped.translate(None, _NOT_STRUCTURAL)
    n_quotes = np.cumsum(np.frombuffer(structure.translate(_QUOTES), np.uint8), dtype=np.uint8)
    steps = np.frombuffer(structure.translate(_STEPS), np.int8)
    depths = np.cumsum(np.where(n_quotes & 1, np.int8(0), steps), dtype=np.int32)
    if depths.max() > max_depth:
        detail = f"`body` must be nested at most {max_depth} deep; flatten it"
        raise RequestProblem("too-deep", detail)


class RateLimit:
    """A token bucket per caller: `per_s` calls a second, up to `burst` at once.

    Only the most recent callers are cached, so its memory is bounded; an evicted caller starts with
    a full bucket.

    >>> limit = RateLimit(per_s=1, burst=2)
    >>> limit.spend("k1", now_s=0.0), limit.spend("k1", now_s=0.0)
    (None, None)
    >>> limit.spend("k1", now_s=0.0)
    Traceback (most recent call last):
    slotwise.service.http.problems.RequestProblem: at most 1 calls a second, 2 at once; wait 1 s
    """

    def __init__(self, per_s: float, burst: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def spend(self, caller: str, *, now_s: float, n: int = 1) -> None:
        """Take `n` tokens of the caller's bucket, or refuse with the time to wait.

        A batch larger than the burst is accepted when the bucket is full, and the bucket goes
        below zero: the caller then waits longer before its next call.
        """
        tokens, since = self._buckets.get(caller, (self._burst, now_s))
        tokens = min(self._burst, tokens + (now_s - since) * self._per_s)
        needed = min(n, self._burst)
        if tokens < needed:
            wait_s = max(1, math.ceil((needed - tokens) / self._per_s))
            detail = (
                f"at most {self._per_s:g} calls a second, {self._burst:g} at once; wait {wait_s} s"
            )
            raise refuse("rate-limited", detail, retry_after_s=wait_s)
        self._buckets[caller] = (tokens - n, now_s)
        self._buckets.move_to_end(caller)
        if len(self._buckets) > _MAX_CALLERS:
            self._buckets.popitem(last=False)


class RateLimits(dict[str, RateLimit]):
    """The rate limits of a service, by the meter that an operation names.

    >>> RateLimits({"decide": 10.0})["decide"].spend("k1", now_s=0.0)
    """

    def __init__(self, per_s: Mapping[str, float]) -> None:
        super().__init__({meter: RateLimit(rate, 2 * rate) for meter, rate in per_s.items()})

    def spend(self, meter: str, request: Request[Any], n: int = 1) -> None:
        """Count `n` calls of the request's key, or of its address, or refuse them."""
        if request.key is None:
            self.spend_address(meter, request, n)
        else:
            self[meter].spend(request.key.key_id, now_s=time.monotonic(), n=n)

    def spend_address(self, meter: str, request: Request[Any], n: int = 1) -> None:
        """Count calls of the request's address, whatever its key."""
        self[meter].spend(rate_limited_network(request.client), now_s=time.monotonic(), n=n)
