"""Limits: depth of JSON and rates of calls."""

from __future__ import annotations

import json
import timeit
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from slotwise.service.http.problems import RequestProblem
from slotwise.service.http.routing import RateLimit, check_depth

json_values = st.recursive(
    st.none() | st.integers() | st.text('[]{}"\\a'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("[{a"), inner, max_size=3),
    max_leaves=20,
)


def depth_of(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


@given(json_values, st.integers(1, 6))
def test_json_is_refused_exactly_when_it_is_too_deep(value: object, max_depth: int) -> None:
    body = json.dumps(value).encode()
    if depth_of(value) <= max_depth:
        check_depth(body, max_depth)
    else:
        with pytest.raises(RequestProblem, match=f"nested at most {max_depth} deep"):
            check_depth(body, max_depth)


@pytest.mark.parametrize("body", [b"[" * 500_000, b'{"a":' * 100_000, b'["' + b"[" * 900_000])
def test_hostile_bodies_are_judged_without_recursion(body: bytes) -> None:
    if body.startswith(b'["'):
        check_depth(body, 16)
    else:
        with pytest.raises(RequestProblem, match="nested at most 16 deep"):
            check_depth(body, 16)


def test_calls_beyond_the_rate_are_refused_until_the_bucket_fills() -> None:
    limit = RateLimit(per_s=10, burst=20)
    for _ in range(20):
        limit.spend("a", now_s=100.0)
    with pytest.raises(RequestProblem, match="at most 10 calls a second") as refused:
        limit.spend("a", now_s=100.0)
    assert refused.value.headers == ((b"retry-after", b"1"),)
    limit.spend("b", now_s=100.0)
    limit.spend("a", now_s=100.15)
    with pytest.raises(RequestProblem):
        limit.spend("a", now_s=100.15)


def test_a_batch_larger_than_the_bucket_passes_once_and_is_paid_for() -> None:
    limit = RateLimit(per_s=10, burst=20)
    limit.spend("a", now_s=0.0, n=100)
    with pytest.raises(RequestProblem) as refused:
        limit.spend("a", now_s=0.0)
    assert refused.value.headers == ((b"retry-after", b"9"),)
    limit.spend("a", now_s=8.2)


def test_callers_are_forgotten_before_they_fill_the_memory() -> None:
    limit = RateLimit(per_s=1, burst=1)
    for caller in range(20_000):
        limit.spend(str(caller), now_s=0.0)
    assert len(limit._buckets) == 10_000
    limit.spend("0", now_s=0.0)
    with pytest.raises(RequestProblem):
        limit.spend("19999", now_s=0.0)


def test_depth_is_found_faster_than_by_a_loop_over_the_bytes() -> None:
    body = b'["]"]' * 200_000

    def count() -> int:
        depth = 0
        for byte in body:
            depth += byte in b"[{"
        return depth

    def seconds(act: Callable[[], object]) -> float:
        return min(timeit.repeat(act, number=1, repeat=5))

    assert seconds(lambda: check_depth(body, 16)) < seconds(count)
