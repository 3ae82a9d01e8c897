"""The values of an address after the question mark, checked against their type."""

from __future__ import annotations

import functools
import re
from collections import Counter
from urllib.parse import parse_qsl

import msgspec
import msgspec.inspect

from slotwise.service.http.problems import advise, broken_rule, field_error

__all__ = ["read_query"]

_WHOLE = re.compile(r"-?[0-9]{1,18}")
_DECIMAL = re.compile(r"-?[0-9]{1,18}(\.[0-9]{0,18})?([eE][+-]?[0-9]{1,2})?")


@functools.cache
def _numbers(query: type[msgspec.Struct], kind_of: type[msgspec.inspect.Type]) -> frozenset[str]:
    """Return the names of the fields that are numbers of a kind; in an address they are text."""
    described = msgspec.inspect.type_info(query)
    assert isinstance(described, msgspec.inspect.StructType)
    names = set()
    for field in described.fields:
        kind = field.type
        kinds = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
        if any(isinstance(_bare(one), kind_of) for one in kinds):
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
    whole = _numbers(query, msgspec.inspect.IntType)
    decimal = _numbers(query, msgspec.inspect.FloatType)
    typed: dict[str, object] = dict(pairs)
    for name, text in pairs:
        if name in whole and _WHOLE.fullmatch(text):
            typed[name] = int(text)
        elif name in decimal and _DECIMAL.fullmatch(text):
            typed[name] = float(text)
    try:
        return msgspec.convert(typed, query)
    except msgspec.ValidationError as error:
        broken = advise(field_error(str(error)), query)
        parameter = broken.pointer.removeprefix("/")
        raise broken_rule(broken.detail, parameter=parameter) from None
