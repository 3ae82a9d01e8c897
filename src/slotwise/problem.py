"""The problem a policy solves: how many links, how many slots, which floors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from slotwise.errors import InvalidInput

__all__ = ["TWO_LEVELS", "Problem"]

TWO_LEVELS = ("click", "revenue")


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
        if self.n_links < 1:
            raise InvalidInput.of("n_links", "at least 1", self.n_links)
        if self.n_slots < 1:
            raise InvalidInput.of("n_slots", "at least 1", self.n_slots)
        if self.n_slots > self.n_links:
            rule = f"at most the number of links ({self.n_links})"
            raise InvalidInput.of("n_slots", rule, self.n_slots)
        if not math.isfinite(self.click_floor) or not 0 <= self.click_floor < self.n_slots:
            rule = f"at least 0 and below n_slots ({self.n_slots})"
            raise InvalidInput.of("click_floor", rule, self.click_floor)

    @property
    def n_levels(self) -> int:
        """How many levels of feedback a shown link gives."""
        return len(self.levels)

    @property
    def floors(self) -> Mapping[str, float]:
        """The floor of each level that has one."""
        return MappingProxyType({self.levels[0]: self.click_floor})
