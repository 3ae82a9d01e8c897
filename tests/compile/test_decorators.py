"""Decorators leave functions as they are, and descriptions find them again."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import pytest

from slotwise.compile import can_be_compiled, compiled, hot, inner, loop_maker, vector_pass
from slotwise.compile.descriptions import (
    Indescribable,
    describe,
    describe_function,
    described_function,
    described_value,
)
from slotwise.policies import ConUCB
from slotwise.problem import Problem
from slotwise.selection.rounding import draw_page

pytestmark = pytest.mark.compiled


def add_one(number: int) -> int:
    return number + 1


@pytest.mark.parametrize("declare", [compiled, hot, inner, vector_pass])
def test_a_declared_function_stays_plain_python(declare: Any) -> None:
    def plain(number: int) -> int:
        return number + 1

    assert declare(plain) is plain
    assert can_be_compiled(plain)
    assert plain(1) == 2


def test_a_function_without_a_decorator_is_not_compiled() -> None:
    assert not can_be_compiled(add_one)


@loop_maker
def counting(step: Any) -> Any:
    def loop(times: int) -> int:
        number = 0
        for _ in range(times):
            number = step(number)
        return number

    return loop


def test_a_loop_over_a_plain_function_is_plain() -> None:
    loop = counting(add_one)
    assert not can_be_compiled(loop)
    assert loop(7) == 7


def test_the_same_functions_give_the_same_loop() -> None:
    loop = counting(draw_page)
    assert counting(draw_page) is loop
    assert can_be_compiled(loop)


class Pair(NamedTuple):
    one: Any
    other: Any


@pytest.mark.parametrize(
    "value",
    [
        1,
        2.5,
        True,
        None,
        np.int32(4),
        np.zeros(3),
        np.zeros((2, 3), np.int64),
        np.zeros((4, 3), order="F"),
        np.zeros((8, 3))[::2, ::2],
        np.zeros(3, np.bool_),
        (1, np.zeros(2)),
        np.random.default_rng(1),
        ConUCB().start(Problem(4, 2, horizon=10)),
    ],
    ids=str,
)
def test_a_value_of_a_description_has_that_description(value: Any) -> None:
    described = json.loads(json.dumps(describe(value)))
    assert describe(described_value(described)) == describe(value)


def test_arrays_that_cannot_be_written_to_are_told_apart() -> None:
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    assert describe(fixed) != describe(np.zeros(3))
    assert not described_value(describe(fixed)).flags.writeable


@pytest.mark.parametrize("value", [object(), "text", [1], Pair("text", 1)])
def test_what_compiled_code_does_not_take_is_not_described(value: Any) -> None:
    with pytest.raises(Indescribable):
        describe(value)


def test_functions_are_found_again() -> None:
    assert described_function(describe_function(draw_page)) is draw_page
    assert described_function(describe_function(ConUCB.choose)) is ConUCB.choose


def test_functions_inside_others_cannot_be_found() -> None:
    def local() -> None: ...

    with pytest.raises(Indescribable):
        describe_function(local)
