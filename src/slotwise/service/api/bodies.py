"""The types of fields and bodies that several resources share.

Used by most of `api`, and by `cli`.
"""

from __future__ import annotations

import functools
import re
import types
import typing
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, UnsetType

from slotwise.errors import InvalidInput
from slotwise.features import MAX_FEATURES
from slotwise.player.own_page import MAX_KEY
from slotwise.service import limits
from slotwise.service.records import time_if_any

Id = Annotated[str, Meta(pattern=limits.ID_PATTERN, min_length=1, max_length=limits.MAX_ID_CHARS)]
DecisionId = Annotated[Id, Meta(description="The id of the page from `decide`")]
LinkId = Annotated[Id, Meta(description="The link, by its id in the pool")]
Currency = Annotated[str, Meta(pattern=limits.CURRENCY_PATTERN, description="ISO 4217")]
FeatureValues = Annotated[
    tuple[str | float, ...], Meta(min_length=1, max_length=limits.MAX_FEATURE_VALUES)
]
Features = Annotated[
    dict[str, Literal["text", "bool"] | FeatureValues],
    Meta(
        max_length=MAX_FEATURES,
        description="Features of visitors: by name a list of words, a list of rising "
        'numbers (bin edges), "text" (an open list of words) or "bool"',
    ),
]
SegmentFloorTable = Annotated[
    dict[
        str,
        Annotated[
            dict[str, Annotated[float, Meta(ge=0, lt=limits.MAX_SLOTS)]],
            Meta(max_length=limits.MAX_SEGMENT_FLOORS),
        ],
    ],
    Meta(
        max_length=MAX_FEATURES,
        description="Fewest expected clicks per page view of visitors with one value of a "
        "feature, by feature and value, in addition to the floor for all",
    ),
]
Visitor = Annotated[
    dict[str, Annotated[str, Meta(max_length=limits.MAX_VALUE_CHARS)] | bool | float | None],
    Meta(max_length=4 * MAX_FEATURES),
    Meta(description="What is known of the visitor: values of the pool's features"),
]
SlotWeights = Annotated[
    Literal["learn", "equal"]
    | Annotated[tuple[Annotated[float, Meta(gt=0, le=1e6)], ...], Meta(max_length=limits.MAX_SLOTS)]
    | None,
    Meta(
        description="How often a link is clicked in each slot, relative to the average slot; "
        '"learn" (also null) to estimate them while serving, "equal" where slots are alike and '
        "pages are shuffled. An empty list, of older pools, orders links by their value",
    ),
]
Slots = Annotated[int, Meta(ge=1, le=limits.MAX_SLOTS, description="How many links a page has")]


VisitorKey = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_KEY,
        description="Any text that identifies the visitor to you: the same visitor then stays in "
        "the same group (chosen, own or random pages). It is neither stored nor logged",
    ),
]


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of bodies that refuse unknown fields."""


def patch_type(body: type[msgspec.Struct], name: str, about: str) -> type[msgspec.Struct]:
    """Return the type of a body that changes some fields of another and leaves the others."""
    fields = [(one.name, one.type | UnsetType, UNSET) for one in msgspec.structs.fields(body)]
    return msgspec.defstruct(
        name, fields, bases=(Strict,), namespace={"__doc__": about}, frozen=True, kw_only=True
    )


def given(patch: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a patch that were sent."""
    fields = msgspec.structs.asdict(patch)
    return {name: value for name, value in fields.items() if value is not UNSET}


class PinBody(Strict, frozen=True, kw_only=True):
    """A link that must be at a position; 1 is the first."""

    link_id: LinkId
    position: Annotated[int, Meta(ge=1, le=limits.MAX_SLOTS, description="1 is the first position")]


Pins = Annotated[
    tuple[PinBody, ...], Meta(max_length=limits.MAX_SLOTS, description="Links at a fixed position")
]


# The answer's type is derived from the record's, so OpenAPI follows the records by itself.


Time = Annotated[datetime, msgspec.Meta(tz=True)]


def from_time(time: datetime) -> int:
    """Return the microseconds since the epoch; exact, unlike `timestamp()`.

    A time that is outside the years 1 to 9999 in UTC, as 9999-12-31T23:59:59-05:00 is, becomes the
    first or the last one inside: it could be stored, but not read back.
    """
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    delta = min(max(time, first), last) - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


@functools.cache
def answer_type(record: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """Return the type of answer for a record type: times renamed and typed as times.

    A record that JSON has as an object, without times, is its own answer.
    """
    if not _is_changed(record):
        return record
    hints = get_type_hints(record, include_extras=True)
    fields = []
    for name in record.__struct_fields__:
        if name.endswith("_us"):
            fields.append((name.removesuffix("_us") + "_at", Time | None))
        else:
            fields.append((name, _answer_hint(hints[name])))
    return msgspec.defstruct(
        record.__name__, fields, frozen=True, kw_only=True, namespace={"__doc__": record.__doc__}
    )


def _is_changed(hint: object) -> bool:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        has_times = any(name.endswith("_us") for name in hint.__struct_fields__)
        if has_times or hint.__struct_config__.array_like:
            return True
        return any(map(_is_changed, get_type_hints(hint).values()))
    return any(map(_is_changed, get_args(hint)))


def _answer_hint(hint: object) -> Any:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return answer_type(hint)
    origin, args = get_origin(hint), get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return functools.reduce(lambda one, other: one | other, map(_answer_hint, args))
    if origin in (tuple, list):
        return origin[tuple(arg if arg is ... else _answer_hint(arg) for arg in args)]
    return hint


def as_answer(record: msgspec.Struct) -> msgspec.Struct:
    """Return the answer for a record; a time of 0 means never and is answered as null."""
    made = answer_type(type(record))
    if made is type(record):
        return record
    values: dict[str, Any] = {}
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if name.endswith("_us"):
            values[name.removesuffix("_us") + "_at"] = time_if_any(value)
        else:
            values[name] = _answer_value(value)
    return made(**values)


def _answer_value(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return as_answer(value)
    if isinstance(value, tuple | list):
        return type(value)(_answer_value(item) for item in value)
    return value


# Browsers correct addresses: backslashes, tabs, user names, odd schemes. An address that could
# be parsed in two ways does not match, so there is nothing to correct.
_DESTINATION = re.compile(
    r"https?://(?P<host>[a-z0-9.-]+(?::[0-9]+)?)(?:[/?#](?:(?![\\\"<>^`{|}])[!-~])*)?"
)
_HOST = re.compile(limits.HOST_PATTERN)


def destination_host(url: str) -> str | None:
    """Return the host, with its port if it has one, of an address that is safe to follow.

    >>> destination_host("https://shop.example/1?q=2")
    'shop.example'
    >>> destination_host("https://shop.example@evil.example/") is None
    True
    """
    if len(url) > limits.MAX_URL_CHARS:
        return None
    found = _DESTINATION.fullmatch(url)
    if found is None or not _HOST.fullmatch(found["host"]):
        return None
    return found["host"]


def check_destination(url: str, allowed_hosts: Collection[str]) -> None:
    """Refuse an address that could lead anywhere but to one of the allowed hosts.

    >>> check_destination("https://evil.example/", ["shop.example"])
    Traceback (most recent call last):
    slotwise.errors.InvalidInput: `url` must be on one of the pool's allowed hosts \
(shop.example), got 'evil.example'
    """
    host = destination_host(url)
    if host is None:
        rule = (
            "an http or https address of printable ASCII with a lower-case host name, "
            f"no user name and at most {limits.MAX_URL_CHARS} characters"
        )
        raise InvalidInput.of("url", rule, url[:100])
    if host not in allowed_hosts:
        rule = f"on one of the pool's allowed hosts ({', '.join(sorted(allowed_hosts))})"
        raise InvalidInput.of("url", rule, host)
