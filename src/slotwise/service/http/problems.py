"""Problem answers: every refusal is RFC 9457 `application/problem+json` with a stable `type`.

Used by most of `http`, and by `api`, `demo` and `settings`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import msgspec

from slotwise.errors import SlotwiseError, did_you_mean
from slotwise.service.limits import PATTERN_RULES


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
    "unknown-receiver": ProblemType(404, "There is no such receiver of alerts"),
    "unknown-key-id": ProblemType(404, "There is no key with this id"),
    "unknown-token": ProblemType(404, "The click link is not one of ours"),
    "method-not-allowed": ProblemType(405, "This address does not answer this method"),
    "conflict": ProblemType(409, "The call contradicts what is stored"),
    "plan-running": ProblemType(409, "A plan is being simulated already"),
    "outdated": ProblemType(412, "Somebody else changed this since it was read"),
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
    "too-many-connections": ProblemType(503, "There are too many connections"),
    "stopping": ProblemType(503, "The service is stopping"),
}
"""Every `type` of a problem answer; the slugs never change their meaning."""


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
        self.route = ""
        """The template of the path, if the path is known but not the method."""

    def answer(self, request_id: str) -> ProblemAnswer:
        """Return the body of the answer."""
        kind = self.kind
        return ProblemAnswer(
            self.slug, kind.title, kind.status, self.detail, request_id, self.errors
        )


class ProtocolErrors(NamedTuple):
    """How operations of another protocol answer the problems that it defines a body for."""

    statuses: Mapping[str, int]
    """By problem."""
    body: type[msgspec.Struct]
    write: Callable[[RequestProblem, Mapping[str, str]], msgspec.Struct]
    """Makes the body for a problem and the values in the path."""


def broken_rule(detail: str, pointer: str = "", parameter: str = "") -> RequestProblem:
    """Return the refusal of one field of the body, or of one value in the address."""
    return RequestProblem("validation", detail, errors=[FieldError(detail, pointer, parameter)])


def refuse(slug: str, detail: str, *, retry_after_s: int) -> RequestProblem:
    """Return a refusal with a `Retry-After` header."""
    return RequestProblem(slug, detail, headers=[(b"retry-after", b"%d" % retry_after_s)])


_PLACE = re.compile(r" - at `(?:key in )?\$([^`]*)`$")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_NAMED_FIELD = re.compile(r"(missing|unknown) (?:required )?field `([^`]*)`")


_EXPECTED = re.compile(
    r"Expected `([^`]*)`(?: (>=|<=|>|<) (\S+)| of length (>=|<=) (\d+)|, got `(\w+)`)?"
)
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "datetime": "a time with its zone, such as 2026-05-01T12:00:00Z",
}
_COMPARED = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_PATTERNS = {repr(pattern): rule for pattern, rule in PATTERN_RULES.items()}
_ONE_OF = "one of its words"
_RENAMED = {"fallback_order": "own_page"}
"""Fields of earlier releases, and what replaced them."""


def _rule(message: str, name: str) -> str:
    """Translate msgspec's message about a value to a rule of slotwise."""
    if found := _NAMED_FIELD.search(message):
        if found[1] == "missing":
            return f"`{found[2]}` is missing"
        renamed = _RENAMED.get(found[2])
        instead = f"; it is called `{renamed}` now" if renamed else ""
        return f"`{found[2]}` is not a known field{instead}"
    if found := re.match(r"Invalid (?:enum )?value (.*)", message):
        return f"{name} must be {_ONE_OF}, got {found[1]}"
    if message.startswith("Invalid RFC3339"):
        return f"{name} must be {_KINDS['datetime']}"
    found = _EXPECTED.match(message)
    if found is None:
        return message
    kinds, compared, limit, longer, length, got = found.groups()
    rule = " or ".join(_KINDS.get(kind, kind) for kind in kinds.split(" | "))
    if compared:
        rule += f", {_COMPARED[compared]} {limit.removesuffix('.0')}"
    elif longer:
        rule += f" of length {_COMPARED[longer]} {length}"
    elif got:
        rule += f", got {_KINDS.get(got, got)}"
    elif pattern := message[found.end() :].removeprefix(" matching regex "):
        rule = _PATTERNS.get(pattern, f"{rule} that matches {pattern}")
    return f"{name} must be {rule}"


def field_error(message: str, within: str = "") -> FieldError:
    """Turn msgspec's message into a pointer and the rule; `within` is the pointer of the whole.

    >>> field_error("Expected `int`, got `str` - at `$.pin[0].position`")
    FieldError(detail='`position` must be a whole number, got text', pointer='/pin/0/position', \
parameter='')
    >>> field_error("Object missing required field `slots`").detail
    '`slots` is missing'
    >>> field_error("Expected `int`, got `str` - at `$[0]`", "/pins").detail
    '`pins[0]` must be a whole number, got text'
    """
    place = _PLACE.search(message)
    rule = message[: place.start()] if place else message
    pointer, name = within, within.rpartition("/")[2]
    if place:
        for field, index in _STEP.findall(place.group(1)):
            pointer += "/" + (field or index).replace("~", "~0").replace("/", "~1")
            name = field or (name if index == "..." else f"{name}[{index}]")
    if named := _NAMED_FIELD.search(rule):
        pointer += "/" + named[2].replace("~", "~0").replace("/", "~1")
    return FieldError(_rule(rule, f"`{name}`" if name else "the body"), pointer)


def read_fields(
    first: msgspec.ValidationError, content: bytes, kind: type
) -> tuple[list[FieldError], dict[str, object]]:
    """Return the error of each wrong field of a body, and the values of the others.

    A decoder stops at the `first` error.

    >>> class Body(msgspec.Struct):
    ...     n: int
    ...     m: int
    ...     o: int
    >>> wrong = msgspec.ValidationError("Expected `int`, got `str` - at `$.n`")
    >>> broken, good = read_fields(wrong, b'{"n": "1", "o": 5}', Body)
    >>> [one.pointer for one in broken], good
    (['/n', '/m'], {'o': 5})
    """
    found: list[FieldError] = []
    good: dict[str, Any] = {}
    try:
        values = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):  # after the position of the first error
        return [field_error(str(first))], good
    if isinstance(values, dict) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if kind.__struct_config__.forbid_unknown_fields:  # first, since they may be misspelt ones
            unknown = [name for name in values if name not in kind.__struct_encode_fields__]
            texts = [f"Object contains unknown field `{name[:100]}`" for name in unknown[:10]]
            found += map(field_error, texts)
        found.append(field_error(str(first)))
        for field in msgspec.structs.fields(kind):
            name = field.encode_name
            try:
                if name in values:
                    good[name] = msgspec.convert(values[name], field.type)
                elif field.required:
                    found.append(field_error(f"Object missing required field `{name}`"))
            except msgspec.ValidationError as error:
                found.append(field_error(str(error), f"/{name}"))
    else:
        found = [field_error(str(first))]
    by_pointer = {one.pointer: one for one in reversed(found)}
    return [with_value(one, values) for one in [*by_pointer.values()][::-1]], good


def with_value(broken: FieldError, values: Any) -> FieldError:
    """Return an error about a number or a currency with the value that was given.

    >>> with_value(FieldError("`slots` must be a whole number, at least 1", "/slots"), {"slots": 0})
    FieldError(detail='`slots` must be a whole number, at least 1, got 0', pointer='/slots', \
parameter='')
    """
    detail = broken.detail.removesuffix(f", got {_KINDS['float']}")
    if ", got " in detail or " must be " not in detail:
        return broken
    for step in broken.pointer.split("/")[1:]:
        index: Any = int(step) if isinstance(values, list) and step.isdigit() else step
        try:
            values = values[index]
        except (LookupError, TypeError):
            return broken
    if isinstance(values, str) and broken.pointer.endswith("/currency"):
        return FieldError(f"{detail}, got {values[:20]!r}", broken.pointer)
    if not isinstance(values, int | float):
        return broken
    return FieldError(f"{detail}, got {values}", broken.pointer)


def advise(broken: FieldError, kind: object) -> FieldError:
    """Add to an error the allowed values at its pointer, or a similar field.

    >>> unknown = field_error("Object contains unknown field `details`")
    >>> advise(unknown, FieldError).detail
    '`details` is not a known field; did you mean `detail`?'
    """
    detail = broken.detail
    if f" must be {_ONE_OF}, got " in detail:
        values = [getattr(one, "values", ()) for one in _kinds_at(kind, broken.pointer)]
        words = " or ".join(repr(str(word)) for some in values for word in some)
        detail = detail.replace(_ONE_OF, words or _ONE_OF, 1)
    elif detail.endswith("not a known field"):
        within, _, given = broken.pointer.rpartition("/")
        fields = [
            field.encode_name
            for one in _kinds_at(kind, within)
            if isinstance(one, msgspec.inspect.StructType)
            for field in one.fields
        ]
        if fields:
            detail = f"{detail}; {did_you_mean(given[:100], fields)}"
    return FieldError(detail, broken.pointer)


def _kinds_at(kind: object, pointer: str) -> list[msgspec.inspect.Type]:
    """Return the types that a body of `kind` may contain at a pointer."""
    kinds = list(choices(msgspec.inspect.type_info(kind)))
    for step in pointer.split("/")[1:]:
        kinds = [
            choice for kind in kinds for part in _parts(kind, step) for choice in choices(part)
        ]
    return kinds


def choices(kind: msgspec.inspect.Type) -> Iterator[msgspec.inspect.Type]:
    """Yield the members of a union type, without their descriptions."""
    if isinstance(kind, msgspec.inspect.Metadata):
        yield from choices(kind.type)
    elif isinstance(kind, msgspec.inspect.UnionType):
        for one in kind.types:
            yield from choices(one)
    else:
        yield kind


def _parts(kind: msgspec.inspect.Type, step: str) -> Iterator[msgspec.inspect.Type]:
    """Yield the type of a field, of the values of a dictionary, or of the items of a list."""
    if isinstance(kind, msgspec.inspect.StructType) and kind.tag_field == step:
        yield msgspec.inspect.LiteralType((kind.tag,))
    elif isinstance(kind, msgspec.inspect.StructType):
        yield from (field.type for field in kind.fields if field.encode_name == step)
    elif isinstance(kind, msgspec.inspect.DictType):
        yield kind.value_type
    elif isinstance(kind, msgspec.inspect.CollectionType):
        yield kind.item_type
