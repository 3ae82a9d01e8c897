"""OpenFeature's remote evaluation protocol (OFREP 0.3): a pool is a flag, a page its value.

The evaluation context is the visitor. One flag is evaluated when a page is made: with a key of
scope `decide` the page counts as shown at once, as that of `decide` does. The bulk route, which
clients in browsers call before they know what they will show, and every key of scope `page` only
propose pages: such a page counts once its `view_url` was called. Used by `app`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from slotwise.player.own_page import MAX_KEY
from slotwise.service.api.bodies import Visitor, destination_host
from slotwise.service.api.context import Operations, Request, ServiceContext
from slotwise.service.api.decide import make_decision
from slotwise.service.api.page_json import DecideAnswer
from slotwise.service.api.proposals import check_page_key, make_proposal
from slotwise.service.deciding.page_request import PageRequest
from slotwise.service.http.exchange import Answer
from slotwise.service.http.openapi import REFERENCE
from slotwise.service.http.problems import (
    ProtocolErrors,
    RequestProblem,
    broken_rule,
    field_error,
)
from slotwise.service.http.routing import Headers
from slotwise.service.limits import MAX_ATTRIBUTES, MAX_BULK_POOLS, MAX_PAGE_BODY_BYTES, is_id
from slotwise.service.records import SECOND_US, DecisionRecord
from slotwise.service.refusals import UnknownPool

PAGES_LAST_S = 3600
"""How long a repeated request is answered that its pages have not changed."""
TARGETING_KEY = "targetingKey"

EvaluationContext = Annotated[
    dict[str, Any],
    Meta(
        max_length=MAX_ATTRIBUTES,
        description="The visitor: attributes with the name of a feature of the pool; others are "
        "ignored and counted",
        extra_json_schema={"properties": {TARGETING_KEY: {"type": "string"}}},
    ),
]

_REASONS = {"policy": "TARGETING_MATCH", "own": "SPLIT", "holdout": "SPLIT", "fallback": "DEFAULT"}
_ERRORS: dict[str, tuple[int, Any]] = {
    "invalid-json": (400, "PARSE_ERROR"),
    "too-deep": (400, "PARSE_ERROR"),
    "validation": (400, "INVALID_CONTEXT"),
    "batch-too-large": (400, "GENERAL"),
    "unknown-pool": (404, "FLAG_NOT_FOUND"),
    "internal": (500, "GENERAL"),
}
"""The status and code of problems that the protocol defines a body for."""
OPERATIONS = Operations()
_TAG = re.compile(rb'"([0-9a-f]{1,12})-([0-9a-f]{32})"')


class EvaluationBody(msgspec.Struct, frozen=True, kw_only=True):
    """The visitor that flags are evaluated for."""

    context: EvaluationContext = msgspec.field(default_factory=dict)


class EvaluatedPage(DecideAnswer, frozen=True):
    """A page; where it has a `view_url`, it becomes a view when that is called."""

    view_url: Annotated[str, Meta(description="POST here when the page was seen")] = ""


class FlagEvaluation(msgspec.Struct, frozen=True):
    """The value of a flag: the page of a pool."""

    key: str
    reason: Literal["TARGETING_MATCH", "SPLIT", "DEFAULT"]
    variant: Literal["policy", "own", "holdout", "fallback"]
    value: EvaluatedPage


class FlagFailure(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Why a flag has no value; `key` is missing where the failure is about all flags."""

    error_code: Literal["PARSE_ERROR", "INVALID_CONTEXT", "FLAG_NOT_FOUND", "GENERAL"]
    error_details: str
    key: str = ""


_FLAG = [{"$ref": REFERENCE.format(name=one.__name__)} for one in (FlagEvaluation, FlagFailure)]


class BulkEvaluation(msgspec.Struct, frozen=True):
    """The flags that the key may ask for, each with a value or a failure."""

    flags: list[Annotated[msgspec.Raw, Meta(extra_json_schema={"oneOf": _FLAG})]]


def _failure(problem: RequestProblem, path_values: Mapping[str, str]) -> FlagFailure:
    code = _ERRORS[problem.slug][1]
    return FlagFailure(code, problem.detail, path_values.get("pool_id", ""))


def _cors(context: ServiceContext, request: Request) -> Headers:
    """Return the headers that let a page on a host of the key's pools read the answer.

    Without a key, as before the request itself and in a refusal, any pool will do: the headers
    let a page read what it is answered and allow nothing else.
    """
    vary, origin = (b"vary", b"origin"), request.headers.get(b"origin")
    host = origin and destination_host(origin.decode("latin-1"))
    if origin is None or host is None:
        return (vary,)
    directory, key = context.service.directory, request.key
    pools = [directory.pool(key.pool_id)] if key and key.pool_id else directory.pools()
    if not any(host in pool.allowed_hosts for pool in pools):
        return (vary,)
    exposed = (b"access-control-expose-headers", b"etag, retry-after")
    return (vary, (b"access-control-allow-origin", origin), exposed)


def _visitor_key(attributes: Mapping[str, Any]) -> str | None:
    """Return what identifies the visitor, so that his group stays the same; None if nothing."""
    return attributes.get(TARGETING_KEY, "")[:MAX_KEY] or None


_DECLARED: dict[str, Any] = {
    "meter": None,
    "before_body": check_page_key,
    "body": EvaluationBody,
    "body_optional": True,
    "max_body_bytes": MAX_PAGE_BODY_BYTES,
    "example": {"context": {TARGETING_KEY: "visitor-17", "device": "phone", "returning": True}},
    "refusal_headers": _cors,
    "protocol_errors": ProtocolErrors(
        {slug: status for slug, (status, _) in _ERRORS.items()}, FlagFailure, _failure
    ),
}


@OPERATIONS.add(
    "POST /ofrep/v1/evaluate/flags/{pool_id}",
    "page",
    answer=FlagEvaluation,
    problems=("wrong-host",),
    **_DECLARED,
)
async def evaluate_flag(context: ServiceContext, request: Request) -> Answer:
    """Choose a page of a pool, as the value of a flag of OpenFeature."""
    pool_id, caller = request.path_values["pool_id"], request.caller()
    if not is_id(pool_id):
        raise UnknownPool(f"there is no pool {pool_id[:80]!r}")
    attributes = _checked_context(request)
    visitor, key = _visitor(context, pool_id, attributes), _visitor_key(attributes)
    if request.key is not None and request.key.pool_id:
        made, page = await make_proposal(context, pool_id, None, visitor, caller, key)
    else:
        requested = PageRequest(visitor=visitor, visitor_key=key)
        made = await make_decision(context, pool_id, requested, caller)
        page = context.page_writer.write(made)
    return Answer(_evaluation(made, page), headers=_cors(context, request))


@OPERATIONS.add(
    "POST /ofrep/v1/evaluate/flags",
    "page",
    answer=BulkEvaluation,
    has_tag=True,
    problems=("wrong-host", "batch-too-large"),
    **_DECLARED,
)
async def evaluate_flags(context: ServiceContext, request: Request) -> Answer:
    """Choose a page of every pool that the key may ask for; each counts once it was seen.

    A client that polls has the same pages for an hour, unless the visitor, a pool or a link
    changes. A new version of the pool is no change: links must not move while they are read.
    """
    attributes, caller, now_us = _checked_context(request), request.caller(), context.clock_us()
    pool_ids = _pools(context, request)
    visitors: dict[str, dict[str, Any] | RequestProblem] = {}
    for pool_id in pool_ids:
        try:
            visitors[pool_id] = _visitor(context, pool_id, attributes)
        except RequestProblem as problem:
            visitors[pool_id] = problem
    state = _state(context, (caller, attributes.get(TARGETING_KEY)), visitors)
    headers = _cors(context, request)
    if tag := _fresh_tag(request.headers.get(b"if-none-match", b""), state, now_us):
        return Answer(b"", 304, b"", ((b"etag", tag), *headers))
    if len(pool_ids) > 1:  # the call itself has been counted already
        context.limits.spend("decide", request, len(pool_ids) - 1)
    flags = []
    for pool_id, visitor in visitors.items():
        try:
            if isinstance(visitor, RequestProblem):
                raise visitor
            arguments = (pool_id, None, visitor, caller, _visitor_key(attributes))
            flags.append(_evaluation(*await make_proposal(context, *arguments)))
        except UnknownPool:  # archived meanwhile
            continue
        except RequestProblem as problem:
            flags.append(msgspec.json.encode(_failure(problem, {"pool_id": pool_id})))
    tag = b'"%x-%b"' % (now_us // SECOND_US, state)
    return Answer(b'{"flags":[%b]}' % b",".join(flags), headers=((b"etag", tag), *headers))


@OPERATIONS.add(
    "OPTIONS /ofrep/v1/evaluate/flags/{pool_id}",
    None,
    status=204,
    content_types=(),
    name="allow_flag",
    protocol_errors=_DECLARED["protocol_errors"],
)
@OPERATIONS.add("OPTIONS /ofrep/v1/evaluate/flags", None, status=204, content_types=())
async def allow_flags(context: ServiceContext, request: Request) -> Answer:
    """Check whether a page of this origin may evaluate flags."""
    if not is_id(request.path_values.get("pool_id", "all")):
        raise UnknownPool("there is no such pool")
    headers = (
        *_cors(context, request),
        (b"access-control-allow-methods", b"POST"),
        (b"access-control-allow-headers", b"authorization, content-type, if-none-match"),
        (b"access-control-max-age", b"7200"),
    )
    return Answer(b"", 204, b"", headers)


def _checked_context(request: Request) -> dict[str, object]:
    body: EvaluationBody | None = request.body
    attributes = {} if body is None else body.context
    if not isinstance(attributes.get(TARGETING_KEY, ""), str):
        raise broken_rule(f"`{TARGETING_KEY}` must be a text", f"/context/{TARGETING_KEY}")
    return attributes


def _visitor(
    context: ServiceContext, pool_id: str, attributes: Mapping[str, object]
) -> dict[str, object]:
    """Return the attributes that are features of the pool; count the others."""
    features = context.service.directory.pool(pool_id).features
    visitor = {name: value for name, value in attributes.items() if name in features}
    ignored = (
        len(attributes)
        - len(visitor)
        - (TARGETING_KEY in attributes and TARGETING_KEY not in visitor)
    )
    if ignored:
        context.metrics.ignored_attributes[pool_id] += ignored
    try:
        return msgspec.convert(visitor, Visitor) if visitor else visitor
    except msgspec.ValidationError as error:
        broken = field_error(str(error), "/context")
        detail = f"an attribute must be a text, a number or a boolean: {broken.detail}"
        raise broken_rule(detail, broken.pointer) from None


def _evaluation(made: DecisionRecord, page: bytes) -> bytes:
    kind = made.kind
    head = f'{{"key":"{made.pool_id}","reason":"{_REASONS[kind]}","variant":"{kind}","value":'
    return b"%b%b}" % (head.encode(), page)


def _pools(context: ServiceContext, request: Request) -> list[str]:
    """Return the pools that a key may ask for: its own, or all."""
    key, directory = request.key, context.service.directory
    if key is not None and key.pool_id:
        return [key.pool_id]
    pool_ids = [pool.pool_id for pool in directory.pools() if not pool.archived]
    if len(pool_ids) > MAX_BULK_POOLS:
        detail = (
            f"one call answers at most {MAX_BULK_POOLS} pools, there are {len(pool_ids)}; use a "
            "key with scope page, which is for one pool, or evaluate flags one by one"
        )
        raise RequestProblem("batch-too-large", detail)
    return pool_ids


def _state(context: ServiceContext, caller: object, visitors: Mapping[str, object]) -> bytes:
    """Return a hash of what makes pages that a client has outdated."""
    changed_us = context.service.directory.changed_us
    pools = [
        (pool_id, changed_us(pool_id), None if isinstance(visitor, RequestProblem) else visitor)
        for pool_id, visitor in visitors.items()
    ]
    text = msgspec.json.encode((caller, pools), order="deterministic")
    return hashlib.sha256(text).hexdigest()[:32].encode()


def _fresh_tag(given: bytes, state: bytes, now_us: int) -> bytes | None:
    """Return the entity tag among those of the client whose pages are still good."""
    for found in _TAG.finditer(given):
        age_s = now_us // SECOND_US - int(found[1], 16)
        if found[2] == state and 0 <= age_s < PAGES_LAST_S:
            return found[0]
    return None
