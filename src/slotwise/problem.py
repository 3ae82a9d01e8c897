"""The problem a policy solves: how many links, how many slots, which floors."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from types import MappingProxyType
from typing import Any

from slotwise.errors import InvalidInput

__all__ = ["TWO_LEVELS", "Problem", "is_finite_number", "whole_number"]

TWO_LEVELS = ("click", "revenue")


def whole_number(name: str, value: Any, at_least: int) -> int:
    """Return `value` as an int; `name` is the argument at fault if it is not one.

    >>> whole_number("n_slots", 2.5, at_least=1)
    Traceback (most recent call last):
    slotwise.errors.InvalidInput: `n_slots` must be a whole number, got 2.5
    """
    if isinstance(value, bool):
        raise InvalidInput.of(name, "a whole number", value)
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidInput.of(name, "a whole number", value) from None
    if number < at_least:
        raise InvalidInput.of(name, f"at least {at_least}", number)
    return number


def is_finite_number(value: Any) -> bool:
    """Say whether `value` is a real number, neither NaN nor infinite; truth values are none."""
    if type(value) is float:
        return math.isfinite(value)
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return False
    try:
        return math.isfinite(value)
    except (OverflowError, ValueError):
        return False  # an int beyond every float, a signalling NaN


@dataclass(frozen=True)
class Problem:
    """Choose `n_slots` of `n_links` links with at least `click_floor` expected clicks a page view.

    Feedback comes in levels; each level is a product with the one before it, so that what a
    page observes at level j is the compound C^j = X^1 * ... * X^j. The paper has two levels,
    the click and the revenue. `horizon` is how many rounds there will be, where that is known.
    Checked on creation, then trusted everywhere.

    >>> Problem(n_links=5, n_slots=2, click_floor=0.3)
    Problem(n_links=5, n_slots=2, click_floor=0.3)
    >>> Problem(n_links=5, n_slots=6)
    Traceback (most recent call last):
    slotwise.errors.InvalidInput: `n_slots` must be at most the number of links (5), got 6
    """

    n_links: int
    n_slots: int
    click_floor: float = 0.0
    levels: tuple[str, ...] = field(default=TWO_LEVELS, repr=False)
    horizon: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        n_links = whole_number("n_links", self.n_links, at_least=1)
        n_slots = whole_number("n_slots", self.n_slots, at_least=1)
        if n_slots > n_links:
            rule = f"at most the number of links ({n_links})"
            raise InvalidInput.of("n_slots", rule, n_slots)
        if not is_finite_number(self.click_floor) or not 0 <= self.click_floor < n_slots:
            rule = f"at least 0 and below n_slots ({n_slots})"
            raise InvalidInput.of("click_floor", rule, self.click_floor)
        if isinstance(self.levels, str) or not self.levels:
            raise InvalidInput.of("levels", "the names of one level or more", self.levels)
        if len(set(self.levels)) < len(self.levels):
            raise InvalidInput.of("levels", "different from each other", self.levels)
        if self.horizon is not None:
            object.__setattr__(self, "horizon", whole_number("horizon", self.horizon, at_least=1))
        object.__setattr__(self, "n_links", n_links)
        object.__setattr__(self, "n_slots", n_slots)
        object.__setattr__(self, "click_floor", float(self.click_floor))

    @property
    def n_levels(self) -> int:
        """How many levels of feedback a shown link gives."""
        return len(self.levels)

    @property
    def floors(self) -> Mapping[str, float]:
        """The floor of each level that has one."""
        return MappingProxyType({self.levels[0]: self.click_floor})
