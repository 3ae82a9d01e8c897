"""The values of an address after the question mark, checked against their type."""

from __future__ import annotations

import functools
import re
from collections import Counter
from urllib.parse import parse_qsl

import msgspec
import msgspec.inspect

from slotwise.service.http.problems import broken_rule, field_error

__all__ = ["read_query"]

_WHOLE = re.compile(r"-?[0-9]{1,18}")


@functools.cache
def _whole_numbers(query: type[msgspec.Struct]) -> frozenset[str]:
    """Return the names of the fields that are whole numbers; in an address they are text."""
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


def read_query(query: type[msgspec.Struct], query_string: bytes) -> msgspec.Struct:
    """Return the values of an address as `query`, or refuse the first that breaks a rule."""
    pairs = parse_qsl(query_string.decode("latin-1"), keep_blank_values=True)
    values = dict(pairs)
    if len(values) < len(pairs):
        repeated = next(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
        detail = f"`{repeated[:80]}` must be given once"
        raise broken_rule(detail, parameter=repeated[:80])
    whole = _whole_numbers(query)
    typed = {
        name: int(text) if name in whole and _WHOLE.fullmatch(text) else text
        for name, text in pairs
    }
    try:
        return msgspec.convert(typed, query)
    except msgspec.ValidationError as error:
        broken = field_error(str(error))
        parameter = broken.pointer.removeprefix("/")
        raise broken_rule(broken.detail, parameter=parameter) from None
