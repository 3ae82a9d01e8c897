"""Stored records as answers: every `*_us` time becomes an RFC 3339 `*_at`.

The answer's type is derived from the record's, so OpenAPI follows the records by itself.
"""

from __future__ import annotations

import functools
import types
import typing
from datetime import UTC, datetime
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

__all__ = ["Time", "answer_type", "as_answer", "from_time", "to_time"]

Time = Annotated[datetime, msgspec.Meta(tz=True)]


def to_time(us: int) -> datetime:
    """Return the time `us` microseconds after the epoch."""
    return datetime.fromtimestamp(us // 1_000_000, UTC).replace(microsecond=us % 1_000_000)


def from_time(time: datetime) -> int:
    """Return the microseconds since the epoch; exact, unlike `timestamp()`."""
    delta = time - datetime(1970, 1, 1, tzinfo=UTC)
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


def _is_changed(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        has_times = any(name.endswith("_us") for name in hint.__struct_fields__)
        if has_times or hint.__struct_config__.array_like:
            return True
        return any(map(_is_changed, get_type_hints(hint).values()))
    return any(map(_is_changed, get_args(hint)))


def _answer_hint(hint: Any) -> Any:
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
            values[name.removesuffix("_us") + "_at"] = to_time(value) if value else None
        else:
            values[name] = _answer_value(value)
    return made(**values)


def _answer_value(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return as_answer(value)
    if isinstance(value, tuple | list):
        return type(value)(_answer_value(item) for item in value)
    return value
