"""Answers derived from records: the same fields, times readable."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import msgspec
from hypothesis import given, strategies as st

from slotwise.service.api.bodies import answer_type, as_answer, from_time
from slotwise.service.records import to_time
from slotwise.service.reporting.report_records import DecisionReport, PoolReport


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    seen_us: int


class Outer(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    made_us: int
    inner: Inner | None
    many: tuple[Inner, ...]


def test_times_are_renamed_at_every_depth() -> None:
    inner = Inner(seen_us=1_500_000)
    outer = Outer(name="a", made_us=0, inner=inner, many=(inner,))
    assert json.loads(msgspec.json.encode(as_answer(outer))) == {
        "name": "a",
        "made_at": None,
        "inner": {"seen_at": "1970-01-01T00:00:01.500000Z"},
        "many": [{"seen_at": "1970-01-01T00:00:01.500000Z"}],
    }


def test_the_schema_of_an_answer_has_the_renamed_fields() -> None:
    for record in (PoolReport, DecisionReport):
        text = msgspec.json.encode(msgspec.json.schema(answer_type(record))).decode()
        assert "_us" not in text
        assert "date-time" in text


@given(st.integers(0, 4_000_000_000_000_000))
def test_times_survive_exactly(us: int) -> None:
    assert from_time(to_time(us)) == us


def test_times_are_utc() -> None:
    assert to_time(0) == datetime(1970, 1, 1, tzinfo=UTC)
