"""Events: clicks, conversions and refunds, answered only after their commit. Used by `app`."""

from __future__ import annotations

import asyncio
import difflib
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from slotwise.service.api.bodies import Currency, DecisionId, Id, LinkId
from slotwise.service.api.context import Operations, Request, ServiceContext
from slotwise.service.counting.attribution import ACCEPTED, CLIPPED_SALE
from slotwise.service.http.openapi import REFERENCE
from slotwise.service.http.problems import (
    FieldError,
    RequestProblem,
    advise,
    field_error,
    with_value,
)
from slotwise.service.limits import MAX_CLIENT_TIME_CHARS, MAX_ID_CHARS
from slotwise.service.records import (
    AdjustmentEvent,
    ClickEvent,
    ConversionEvent,
    Event,
    Outcome,
    OutcomeName,
)

ConversionId = Annotated[Id, Meta(description="Your own id of this sale, such as the order number")]
ClientTime = Annotated[str, Meta(max_length=MAX_CLIENT_TIME_CHARS, description="Annotation only")]

_RECORDED: dict[str, type[Event]] = {
    "click": ClickEvent,
    "conversion": ConversionEvent,
    "adjustment": AdjustmentEvent,
}
_MAX_UNKNOWN = 8
"""Unknown fields that are looked at: fields of other tools may travel with an event."""
_SPELT_ALIKE = 0.8
_MIN_WORD = 4
CLICK = {"type": "click", "decision_id": "4rV0tQ9dR2m1", "link_id": "l9"}
CONVERSION = {
    "type": "conversion",
    "conversion_id": "order-17",
    "decision_id": "4rV0tQ9dR2m1",
    "link_id": "l9",
    "revenue_micros": 12_500_000,
    "currency": "EUR",
}
REFUND = {
    "type": "adjustment",
    "adjustment_id": "refund-3",
    "conversion_id": "order-17",
    "refund_micros": 2_500_000,
    "currency": "EUR",
}
OPERATIONS = Operations()


class ClickBody(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="click"):
    """A link of a page was clicked."""

    decision_id: DecisionId
    link_id: LinkId
    client_time: ClientTime | None = None


class ConversionBody(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="conversion"):
    """A click earned revenue."""

    conversion_id: ConversionId
    decision_id: DecisionId
    link_id: LinkId
    revenue_micros: Annotated[int, Meta(description="The revenue, in millionths of the currency")]
    currency: Currency
    client_time: ClientTime | None = None


class AdjustmentBody(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="adjustment"):
    """Revenue of a conversion was refunded."""

    adjustment_id: Annotated[Id, Meta(description="Your own id of this refund")]
    conversion_id: ConversionId
    refund_micros: Annotated[
        int, Meta(description="The refunded amount, in millionths of the currency")
    ]
    currency: Currency
    client_time: ClientTime | None = None


EventBody = ClickBody | ConversionBody | AdjustmentBody
# An item of a batch is decoded by itself, so that one broken item does not refuse the others.
# Its description is that of an event.
_ITEM = msgspec.json.schema_components([EventBody], ref_template=REFERENCE)[0][0]
_BODIES = {"click": ClickBody, "conversion": ConversionBody, "adjustment": AdjustmentBody}


def _event(body: EventBody) -> Event:
    """Return an event as it is recorded."""
    return _RECORDED[str(body.__struct_config__.tag)](**asdict(body))


Item = Annotated[msgspec.Raw, Meta(extra_json_schema=_ITEM)]


class BatchBody(msgspec.Struct, frozen=True):
    """Events, each judged by itself."""

    events: Annotated[
        tuple[Item, ...], Meta(min_length=1, description="Clicks, conversions and refunds")
    ]


class ItemOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of one event; `pointer` names the field that breaks a rule."""

    outcome: OutcomeName
    reason: str = ""
    detail: str = ""
    pointer: str = ""


class BatchOutcomes(msgspec.Struct, frozen=True):
    """One outcome for each event, in order."""

    outcomes: list[ItemOutcome]


_ACCEPTED = ItemOutcome("accepted")
_decode_event = msgspec.json.Decoder(EventBody).decode
_decode_names = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_STRICT = [
    msgspec.defstruct(one.__name__, (), bases=(one,), frozen=True, forbid_unknown_fields=True)
    for one in _BODIES.values()
]
_decode_known: Callable[[msgspec.Raw], Any]
_decode_known = msgspec.json.Decoder(functools.reduce(operator.or_, _STRICT)).decode
"""Decodes an event without unknown fields, which is most often the case."""


@functools.lru_cache(maxsize=1000)
def _meant(name: str) -> tuple[str, str] | None:
    """Return the field that a name is close to, and an event that has it.

    >>> _meant("revnue"), _meant("campaign")
    (('revenue_micros', 'conversion'), None)
    """
    fields = {one: tag for tag, body in _BODIES.items() for one in body.__struct_encode_fields__}
    spelt = {word: one for one in fields for word in one.split("_") if len(word) >= _MIN_WORD}
    spelt |= {one: one for one in fields}
    close = difflib.get_close_matches(name.lower(), spelt, n=1, cutoff=_SPELT_ALIKE)
    return (spelt[close[0]], fields[spelt[close[0]]]) if close else None


def _misspelt(raw: msgspec.Raw, fields: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return unknown fields that are close to a known one, with that one and its event."""
    unknown = [name for name in _decode_names(raw) if name not in fields and name != "type"]
    found = {name: _meant(name[:MAX_ID_CHARS]) for name in unknown[:_MAX_UNKNOWN]}
    return {name[:MAX_ID_CHARS]: meant for name, meant in found.items() if meant}


def _read(raw: msgspec.Raw) -> tuple[Event, str]:
    """Return an event, and advice on fields that look misspelt; others are ignored."""
    try:
        return _event(_decode_known(raw)), ""
    except msgspec.ValidationError:  # perhaps only for a field that is not known
        body: EventBody = _decode_event(raw)
    wrong = _misspelt(raw, body.__struct_encode_fields__)
    advice = [
        f"ignored `{name}`; did you mean `{of}` of a {tag}?" for name, (of, tag) in wrong.items()
    ]
    return _event(body), " ".join(advice)


def _broken(raw: msgspec.Raw, error: Exception, within: str = "") -> FieldError:
    """Return what is wrong with an event; a missing field may be there under another name."""
    broken = advise(field_error(str(error)), EventBody)
    if isinstance(error, msgspec.ValidationError):
        broken = with_value(broken, msgspec.json.decode(raw))
    detail, missing = broken.detail, broken.pointer[1:]
    if detail.endswith("is missing"):
        body = _BODIES.get(str(msgspec.json.decode(raw).get("type")))
        for name, (field, _) in _misspelt(
            raw, body.__struct_encode_fields__ if body else ()
        ).items():
            if field == missing:
                detail = f"{detail}; did you mean it by `{name}`?"
    if not broken.pointer and isinstance(error, msgspec.ValidationError) and within:
        detail = detail.replace("the body", "an event", 1)
    return FieldError(detail, within + broken.pointer)


@OPERATIONS.add(
    "POST /v1/events",
    "track",
    meter="events",
    body=EventBody,
    reads_body=True,
    example=CONVERSION,
)
async def record_event(context: ServiceContext, request: Request) -> ItemOutcome:
    """Record a click, a conversion or a refund."""
    try:
        event, advice = _read(request.body)
    except msgspec.ValidationError as error:
        broken = _broken(request.body, error)
        raise RequestProblem("validation", broken.detail, errors=[broken]) from None
    except UnicodeDecodeError:
        raise RequestProblem("invalid-json", "the body must be UTF-8") from None
    except msgspec.DecodeError as error:
        raise RequestProblem("invalid-json", str(error)) from None
    [outcome] = await _submit(context, [event])
    return _item(outcome, advice)


@OPERATIONS.add(
    "POST /v1/events:batch",
    "track",
    meter="events",
    body=BatchBody,
    example={"events": [CLICK, CONVERSION, REFUND]},
    problems=("batch-too-large",),
)
async def record_events(context: ServiceContext, request: Request) -> BatchOutcomes:
    """Record many events, each judged by itself."""
    body: BatchBody = request.body
    _check_batch(context, request, len(body.events))
    outcomes: list[ItemOutcome | str] = []
    events: list[Event] = []
    for index, raw in enumerate(body.events):
        try:
            event, advice = _read(raw)
            events.append(event)
            outcomes.append(advice)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            broken = _broken(raw, error, within=f"/events/{index}")
            outcomes.append(ItemOutcome("rejected", "malformed", broken.detail, broken.pointer))
            context.metrics.events["malformed", "rejected"] += 1
            context.outcomes.refused += 1
    submitted = iter(await _submit(context, events) if events else ())
    return BatchOutcomes(
        [
            _item(next(submitted), outcome, f"/events/{index}")
            if isinstance(outcome, str)
            else outcome
            for index, outcome in enumerate(outcomes)
        ]
    )


def _check_batch(context: ServiceContext, request: Request, n_events: int) -> None:
    max_batch = context.settings.max_batch
    if n_events > max_batch:
        detail = f"`events` must have at most {max_batch} items, got {n_events}"
        raise RequestProblem("batch-too-large", detail, errors=[FieldError(detail, "/events")])
    if n_events > 1:  # the call itself has been counted already, as one event
        context.limits.spend("events", request, n_events - 1)


async def _submit(context: ServiceContext, events: Sequence[Event]) -> list[Outcome]:
    outcomes = await asyncio.wrap_future(
        context.service.committer.submit_events(events, context.clock_us())
    )
    counts = context.metrics.events
    for event, outcome in zip(events, outcomes, strict=True):
        counts[event.kind, outcome.outcome] += 1
        context.metrics.n_clipped_sales += outcome.reason == CLIPPED_SALE.reason
        if outcome.outcome != "accepted":
            context.outcomes.note(event, outcome)
    return outcomes


def _item(outcome: Outcome, advice: str, within: str = "") -> ItemOutcome:
    if outcome is ACCEPTED and not advice:
        return _ACCEPTED
    pointer = f"{within}/{outcome.field}" if outcome.field else ""
    detail = "; ".join(filter(None, (outcome.detail, advice)))
    return ItemOutcome(outcome.outcome, outcome.reason, detail, pointer)
