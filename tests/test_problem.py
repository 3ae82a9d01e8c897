"""A problem is checked once, when it is made."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from slotwise.errors import InvalidInput
from slotwise.problem import Problem, is_finite_number, whole_number


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_links": 0}, "`n_links` must be at least 1, got 0"),
        ({"n_links": 5.0}, "`n_links` must be a whole number, got 5.0"),
        ({"n_slots": 0}, "`n_slots` must be at least 1, got 0"),
        ({"n_slots": -3}, "`n_slots` must be at least 1, got -3"),
        ({"n_slots": 6}, r"`n_slots` must be at most the number of links \(5\), got 6"),
        ({"n_slots": 2.5}, "`n_slots` must be a whole number, got 2.5"),
        ({"n_slots": "3"}, "`n_slots` must be a whole number, got '3'"),
        ({"n_slots": True}, "`n_slots` must be a whole number, got True"),
        ({"n_slots": None}, "`n_slots` must be a whole number, got None"),
        (
            {"click_floor": -0.1},
            r"`click_floor` must be at least 0 and below n_slots \(2\), got -0",
        ),
        ({"click_floor": 2}, r"`click_floor` must be at least 0 and below n_slots \(2\), got 2"),
        ({"click_floor": float("nan")}, "`click_floor` must be at least 0 .* got nan"),
        ({"click_floor": float("inf")}, "`click_floor` must be at least 0 .* got inf"),
        ({"click_floor": "0.3"}, "`click_floor` must be at least 0 .* got '0.3'"),
        ({"click_floor": None}, "`click_floor` must be at least 0 .* got None"),
        ({"levels": ()}, r"`levels` must be the names of one level or more, got \(\)"),
        ({"levels": "click"}, "`levels` must be the names of one level or more, got 'click'"),
        ({"levels": 3}, "`levels` must be the names of one level or more, got 3"),
        ({"levels": ("click", "click")}, "`levels` must be different from each other"),
        ({"horizon": 0}, "`horizon` must be at least 1, got 0"),
        ({"horizon": 1e5}, "`horizon` must be a whole number, got 100000.0"),
    ],
)
def test_a_broken_rule_is_named_with_its_value(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Problem(**{"n_links": 5, "n_slots": 2, **settings})


def test_numbers_become_plain_numbers() -> None:
    problem = Problem(np.int64(5), np.int32(2), Decimal("0.5"), horizon=np.int64(9))  # type: ignore[arg-type]
    assert problem == Problem(5, 2, 0.5, horizon=9)
    kinds = [type(value) for value in (problem.n_links, problem.n_slots, problem.horizon)]
    assert kinds == [int, int, int]
    assert type(problem.click_floor) is float


def test_floors_and_levels_follow_the_names() -> None:
    problem = Problem(4, 2, 0.5, levels=("click", "basket", "revenue"))
    assert problem.n_levels == 3
    assert dict(problem.floors) == {"click": 0.5}


@pytest.mark.parametrize("value", [0, -1, 2.5, np.float32(3), Decimal(2), Fraction(1, 3)])
def test_real_numbers_are_finite_numbers(value: object) -> None:
    assert is_finite_number(value)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("-inf"),
        np.float64("nan"),
        Decimal("NaN"),
        Decimal("sNaN"),
        10**400,
        1j,
        "3",
        None,
        True,
        np.ones(1),
    ],
    ids=repr,
)
def test_everything_else_is_not(value: object) -> None:
    assert not is_finite_number(value)


def test_a_whole_number_names_its_bound() -> None:
    assert whole_number("seed", np.uint8(3), at_least=0) == 3
    with pytest.raises(InvalidInput, match="`seed` must be at least 0, got -1"):
        whole_number("seed", -1, at_least=0)
