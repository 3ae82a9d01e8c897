"""Problem answers: every refusal is RFC 9457 `application/problem+json` with a stable `type`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

import msgspec

from slotwise.errors import SlotwiseError

__all__ = [
    "PROBLEMS",
    "FieldError",
    "ProblemAnswer",
    "ProblemType",
    "RequestProblem",
    "broken_rule",
    "field_error",
    "refuse",
    "suggest_field",
]


class ProblemType(NamedTuple):
    """What all answers with one `type` share."""

    status: int
    title: str


PROBLEMS: dict[str, ProblemType] = {
    "invalid-http": ProblemType(400, "The request is not HTTP"),
    "invalid-json": ProblemType(400, "The body is not JSON"),
    "missing-key": ProblemType(401, "The call needs a key"),
    "unknown-key": ProblemType(401, "The key is not known"),
    "wrong-scope": ProblemType(403, "The key may not make this call"),
    "wrong-host": ProblemType(403, "The page is not on one of the pool's hosts"),
    "other-origin": ProblemType(403, "The change was not made on a page of this service"),
    "unknown-route": ProblemType(404, "There is nothing at this address"),
    "unknown-pool": ProblemType(404, "There is no such pool"),
    "unknown-link": ProblemType(404, "There is no such link in the pool"),
    "unknown-decision": ProblemType(404, "There is no such decision"),
    "unknown-note": ProblemType(404, "There is no such note on the pool"),
    "unknown-key-id": ProblemType(404, "There is no key with this id"),
    "unknown-token": ProblemType(404, "The click link is not one of ours"),
    "method-not-allowed": ProblemType(405, "This address does not answer this method"),
    "conflict": ProblemType(409, "The call contradicts what is stored"),
    "plan-running": ProblemType(409, "A plan is being simulated already"),
    "body-too-large": ProblemType(413, "The body is too large"),
    "unsupported-media-type": ProblemType(415, "The body must be application/json"),
    "validation": ProblemType(422, "The call breaks a rule"),
    "too-deep": ProblemType(422, "The JSON is nested too deeply"),
    "batch-too-large": ProblemType(422, "The batch has too many items"),
    "pool-too-large": ProblemType(422, "The pool would have too many links"),
    "head-too-large": ProblemType(431, "The head of the request is too large"),
    "rate-limited": ProblemType(429, "Too many calls"),
    "internal": ProblemType(500, "The service failed"),
    "store-away": ProblemType(503, "The store does not answer"),
    "compiling": ProblemType(503, "Policies are being compiled"),
    "too-many-connections": ProblemType(503, "There are too many connections"),
    "stopping": ProblemType(503, "The service is stopping"),
}
"""Every `type` a caller can meet; the slugs never change their meaning."""


class FieldError(msgspec.Struct, frozen=True, omit_defaults=True):
    """One broken rule: where (`pointer` into the body, or the `parameter`'s name) and which."""

    detail: str
    pointer: Annotated[str, msgspec.Meta(description="JSON pointer into the body")] = ""
    parameter: Annotated[str, msgspec.Meta(description="Name of a path or query value")] = ""


class ProblemAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of every refusal."""

    type: Annotated[str, msgspec.Meta(pattern="^[a-z-]+$")]
    title: str
    status: Annotated[int, msgspec.Meta(ge=400, le=599)]
    detail: str = ""
    request_id: str = ""
    errors: tuple[FieldError, ...] = ()


class RequestProblem(SlotwiseError):
    """A call that is refused; the service turns it into a problem answer."""

    def __init__(
        self,
        slug: str,
        detail: str,
        *,
        errors: Iterable[FieldError] = (),
        headers: Iterable[tuple[bytes, bytes]] = (),
    ) -> None:
        super().__init__(detail)
        self.slug = slug
        self.kind = PROBLEMS[slug]
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = tuple(headers)

    def answer(self, request_id: str) -> ProblemAnswer:
        """Return the body that a caller reads."""
        kind = self.kind
        return ProblemAnswer(
            self.slug, kind.title, kind.status, self.detail, request_id, self.errors
        )


def broken_rule(detail: str, pointer: str = "", parameter: str = "") -> RequestProblem:
    """Return the refusal of one field of the body, or of one value in the address."""
    return RequestProblem("validation", detail, errors=[FieldError(detail, pointer, parameter)])


def refuse(slug: str, detail: str, *, retry_after_s: int) -> RequestProblem:
    """Return a refusal with a `Retry-After` header."""
    return RequestProblem(slug, detail, headers=[(b"retry-after", b"%d" % retry_after_s)])


_PLACE = re.compile(r" - at `(?:key in )?\$([^`]*)`$")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_NAMED_FIELD = re.compile(r"(?:missing required|contains unknown) field `([^`]*)`")


def field_error(message: str, within: str = "") -> FieldError:
    """Turn msgspec's message into a pointer and the rule; `within` is the pointer of the whole.

    >>> field_error("Expected `int`, got `str` - at `$.pin[0].position`")
    FieldError(detail='Expected `int`, got `str`', pointer='/pin/0/position', parameter='')
    >>> field_error("Object missing required field `slots`").pointer
    '/slots'
    """
    place = _PLACE.search(message)
    rule = message[: place.start()] if place else message
    pointer = within
    if place:
        for name, index in _STEP.findall(place.group(1)):
            pointer += "/" + (name or index).replace("~", "~0").replace("/", "~1")
    if named := _NAMED_FIELD.search(rule):
        pointer += "/" + named.group(1).replace("~", "~0").replace("/", "~1")
    return FieldError(rule, pointer)


def suggest_field(broken: FieldError, fields: Sequence[str]) -> FieldError:
    """Name the field that was likely meant by an unknown one of the whole body, or all there are.

    >>> unknown = field_error("Object contains unknown field `floor`")
    >>> suggest_field(unknown, ["slots", "floors_by", "click_floor"]).detail
    'Object contains unknown field `floor`; did you mean `click_floor`?'
    """
    named = _NAMED_FIELD.search(broken.detail)
    if "contains unknown" not in broken.detail or not named or broken.pointer.count("/") != 1:
        return broken
    given = named.group(1)[:100]
    whole = [field for field in fields if given in field.split("_")]
    close = whole or difflib.get_close_matches(given, fields, n=1, cutoff=0.5)
    advice = f"did you mean `{close[0]}`?" if close else f"known are {', '.join(fields)}"
    return FieldError(f"{broken.detail}; {advice}", broken.pointer)
