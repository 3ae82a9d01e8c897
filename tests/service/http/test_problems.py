"""Problem answers: a pointer and a rule for every broken field."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import pytest

from slotwise.service.api.decide import DecideBody
from slotwise.service.api.pools import PoolBody
from slotwise.service.http.problems import (
    PROBLEMS,
    RequestProblem,
    advise,
    field_error,
    read_fields,
    refuse,
)


@pytest.mark.parametrize(
    ("body", "pointer", "rule"),
    [
        (
            b'{"pin": [{"link_id": "a", "position": "x"}]}',
            "/pin/0/position",
            "a whole number, got text",
        ),
        (b'{"pin": [{"link_id": "a"}]}', "/pin/0/position", "`position` is missing"),
        (b'{"pon": []}', "/pon", "`pon` is not a known field"),
        (
            b'{"exclude": ["ok", "not ok"]}',
            "/exclude/1",
            "`exclude[1]` must be 1 to 64 characters of",
        ),
        (b'{"exclude": ["l1\\n"]}', "/exclude/0", "`exclude[0]` must be 1 to 64"),
        (b"[]", "", "the body must be an object, got a list"),
    ],
)
def test_a_broken_field_is_pointed_at(body: bytes, pointer: str, rule: str) -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.json.decode(body, type=DecideBody)
    error = field_error(str(raised.value))
    assert error.pointer == pointer
    assert rule in error.detail
    assert "$" not in error.detail.replace("$(?!", "").replace("}$", "")


def test_a_number_that_is_not_whole_is_named() -> None:
    body = b'{"pin": [{"link_id": "a", "position": 25.5}]}'
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.json.decode(body, type=DecideBody)
    [error], _ = read_fields(raised.value, body, DecideBody)
    assert error.detail == "`position` must be a whole number, got 25.5"


def test_a_missing_field_of_the_whole_body_is_pointed_at() -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.json.decode(b"{}", type=PoolBody)
    assert field_error(str(raised.value), within="/events/3").pointer == "/events/3/slots"


def test_names_are_escaped_as_json_pointers_are() -> None:
    error = field_error("Object contains unknown field `a/b~c`")
    assert error.pointer == "/a~1b~0c"


class _Body(msgspec.Struct):
    slots: int
    click_floor: float
    features: dict[str, Literal["text", "bool"] | list[str]] = {}
    pin: Annotated[list[Literal["first", "last"]], msgspec.Meta(max_length=3)] | None = None


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("Object contains unknown field `floor`", "; did you mean `click_floor`?"),
        ("Object contains unknown field `zzz`", "; known are slots, click_floor, features, pin"),
        ("Object contains unknown field `floor` - at `$.pin[0]`", ""),
        ("Object missing required field `slots`", ""),
    ],
)
def test_an_unknown_field_or_word_brings_advice(message: str, advice: str) -> None:
    broken = field_error(message)
    suggested = advise(broken, _Body)
    assert suggested.detail == broken.detail + advice
    assert suggested.pointer == broken.pointer


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Invalid enum value 'str' - at `$.features[...]`", "`features` must be 'bool' or 'text'"),
        ("Invalid enum value 'up' - at `$.pin[0]`", "`pin[0]` must be 'first' or 'last', got 'up'"),
        ("Expected `int` >= 1 - at `$.slots`", "`slots` must be a whole number, at least 1"),
        ("Expected `float` < 100.0 - at `$.x`", "`x` must be a number, less than 100"),
        ("Expected `array` of length <= 3 - at `$.x`", "`x` must be a list of length at most 3"),
        ("Expected `str | null`, got `int` - at `$.x`", "`x` must be text or null, got a whole"),
        ("Expected `str` matching regex '^a$' - at `$.x`", "`x` must be text that matches '^a$'"),
        ("Invalid RFC3339 encoded datetime - at `$.until`", "`until` must be a time with its zone"),
        ("Invalid value 'buy' - at `$.type`", "`type` must be one of its words, got 'buy'"),
        ("Something new", "Something new"),
    ],
)
def test_a_rule_is_said_in_the_words_of_slotwise(message: str, said: str) -> None:
    assert advise(field_error(message), _Body).detail.startswith(said)


class _Group(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    at_least: float = 0.0


class _Groups(msgspec.Struct, forbid_unknown_fields=True):
    slots: Annotated[int, msgspec.Meta(le=50)]
    groups: list[_Group] = []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"slot": 3}', ["`slot` is not a known field; did you mean", "`slots` is missing"]),
        (b'{"slots": 99}', ["`slots` must be a whole number, at most 50, got 99"]),
        (
            b'{"slots": 1, "groups": [{"name": "x", "at_leest": 1}]}',
            ["`at_leest` is not a known field; did you mean `at_least`?"],
        ),
    ],
)
def test_an_unknown_field_comes_first_and_a_number_is_repeated(
    body: bytes, said: list[str]
) -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.json.decode(body, type=_Groups)
    found, _ = read_fields(raised.value, body, _Groups)
    details = [advise(one, _Groups).detail for one in found]
    assert len(details) == len(said)
    for detail, start in zip(details, said, strict=True):
        assert detail.startswith(start)


def test_an_answer_has_the_title_and_status_of_its_type() -> None:
    problem = RequestProblem("unknown-pool", "no pool home").answer("r1")
    assert msgspec.to_builtins(problem) == {
        "type": "unknown-pool",
        "title": "There is no such pool",
        "status": 404,
        "detail": "no pool home",
        "request_id": "r1",
    }


def test_a_refusal_says_when_to_come_back() -> None:
    assert refuse("store-away", "", retry_after_s=3).headers == ((b"retry-after", b"3"),)


def test_slugs_are_slugs_and_statuses_are_errors() -> None:
    for slug, kind in PROBLEMS.items():
        assert slug == slug.lower().strip("-")
        assert slug.replace("-", "").isalpha()
        assert 400 <= kind.status <= 599
        assert kind.title
