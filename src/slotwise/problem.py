"""The problem a policy solves: how many links, how many slots, which floors."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from slotwise.errors import InvalidInput

#     P(click on link i in slot l) = weight_l * rate_i,   weights with mean 1
#
# so that rates and floors keep their meaning.


LEARN = "learn"
"""Asks for weights that are learned while pages are shown."""
EQUAL = "equal"
"""Says that all slots are alike: every page is in random order."""


def check_slot_weights(weights: Sequence[float] | None) -> tuple[float, ...]:
    """Return weights with mean 1; nothing where all slots are alike.

    >>> check_slot_weights([3.0, 1.0])
    (1.5, 0.5)
    """
    if weights is None:
        return ()
    rule = "positive finite numbers, one a slot"
    try:
        array = np.asarray(weights)
    except ValueError:
        raise InvalidInput.of("slot_weights", rule, weights) from None
    if array.dtype.kind not in "iuf" or array.ndim != 1 or not len(array):
        raise InvalidInput.of("slot_weights", rule, weights)
    if not (np.isfinite(array) & (array > 0)).all():
        raise InvalidInput.of("slot_weights", rule, weights)
    scaled: tuple[float, ...] = tuple((array / array.mean()).tolist())
    return scaled


def asked_slot_weights(weights: Any, n_slots: int) -> tuple[float, ...] | str:
    """Return "learn", "equal", weights with mean 1 for a page of `n_slots`, or () for no order.

    One slot needs no order, and neither do slots of equal weights.

    >>> asked_slot_weights([2, 1, 1], 3), asked_slot_weights([1, 1], 2)
    ((1.5, 0.75, 0.75), ())
    """
    if isinstance(weights, str):
        if weights not in (LEARN, EQUAL):
            rule = f"{LEARN!r}, {EQUAL!r}, None or one number a slot"
            raise InvalidInput.of("slot_weights", rule, weights)
        return weights if n_slots > 1 else ()
    if weights is None or (isinstance(weights, tuple) and not weights):
        return ()
    checked = check_slot_weights(weights)
    if len(checked) != n_slots:
        raise InvalidInput.of("slot_weights", f"one number for each of {n_slots} slots", weights)
    return checked if max(checked) > min(checked) else ()


__all__ = ["TWO_LEVELS", "Floor", "Problem", "check_floor", "is_finite_number", "whole_number"]

TWO_LEVELS = ("click", "revenue")
"""The levels of the paper, and of a problem that names none."""


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
    """Say whether `value` is a real number, neither NaN nor infinite; booleans are rejected."""
    if type(value) is float:
        return math.isfinite(value)
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return False
    try:
        return math.isfinite(value)
    except (OverflowError, ValueError):
        return False  # an int beyond every float, a signalling NaN


class Floor(NamedTuple):
    """One floor as a row of the program: (C^level - rate * C^(level - 1)) . x >= least.

    A floor on a compound has rate 0; one on a conditional rate has `least` 0. `name` is the
    level's, or "cart/click" for the part of the clicks that reach the cart.
    """

    name: str
    level: int
    least: float
    rate: float


@dataclass(frozen=True, repr=False)
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

    With more levels come more floors. `floors` asks for a least expected outcome of a level a
    page view; `click_floor` is that of the first level. `rate_floors` asks that a part of what
    reached the level before reaches this one. `rewards` weighs the levels in what is to be
    maximised; the last level alone by default. All three are complete after creation.

    >>> shop = Problem(n_links=50, n_slots=10, levels=("click", "cart", "purchase"),
    ...                floors={"click": 4.0, "cart": 1.0}, rate_floors={"purchase": 0.2})
    >>> shop.click_floor, [floor.name for floor in shop.active_floors]
    (4.0, ['click', 'cart', 'purchase/cart'])

    `feature_sizes` says how many values each feature of a visitor has; no features, no sizes.
    `slot_weights` says how often a link is clicked in each slot, relative to the average slot:
    numbers, which are scaled to mean 1, "learn" where they are to be learned, "equal" where all
    slots are alike and pages are shuffled, or nothing: then pages are in no particular order.
    `value_floors` asks for clicks of the visitors with one value of a feature:
    pairs of the value's place in the list of all values and the fewest expected clicks a page view.
    """

    n_links: int
    n_slots: int
    click_floor: float = 0.0
    levels: tuple[str, ...] = TWO_LEVELS
    horizon: int | None = None
    floors: Mapping[str, float] = field(default_factory=dict, hash=False)
    rate_floors: Mapping[str, float] = field(default_factory=dict, hash=False)
    rewards: Mapping[str, float] = field(default_factory=dict, hash=False)
    feature_sizes: tuple[int, ...] = ()
    slot_weights: tuple[float, ...] | str = ()
    value_floors: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        n_links = whole_number("n_links", self.n_links, at_least=1)
        n_slots = whole_number("n_slots", self.n_slots, at_least=1)
        if n_slots > n_links:
            rule = f"at most the number of links ({n_links})"
            raise InvalidInput.of("n_slots", rule, n_slots)
        check_floor("click_floor", self.click_floor, n_slots)
        levels = _checked_levels(self.levels)
        if self.horizon is not None:
            object.__setattr__(self, "horizon", whole_number("horizon", self.horizon, at_least=1))
        sizes = tuple(
            whole_number("feature_sizes", size, at_least=1) for size in self.feature_sizes
        )
        object.__setattr__(self, "feature_sizes", sizes)
        slot_weights = asked_slot_weights(self.slot_weights, n_slots)
        object.__setattr__(self, "slot_weights", slot_weights)
        object.__setattr__(self, "value_floors", self._checked_value_floors(sizes, n_slots))
        floors = self._checked_floors(levels, n_slots)
        object.__setattr__(self, "n_links", n_links)
        object.__setattr__(self, "n_slots", n_slots)
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "click_floor", floors[levels[0]])
        object.__setattr__(self, "floors", MappingProxyType(floors))
        object.__setattr__(self, "rate_floors", MappingProxyType(self._checked_rates(levels)))
        object.__setattr__(self, "rewards", MappingProxyType(self._checked_rewards(levels)))

    def _checked_floors(self, levels: tuple[str, ...], n_slots: int) -> dict[str, float]:
        """Return the floors in the order of the levels, the first level's among them."""
        given = _by_level("floors", self.floors, levels)
        for level, floor in given.items():
            check_floor(f"floors[{level!r}]", floor, n_slots)
        first = float(self.click_floor)
        if first != 0.0 and float(given.get(levels[0], first)) != first:
            rule = f"left out, or equal to that of `floors` ({given[levels[0]]})"
            raise InvalidInput.of("click_floor", rule, self.click_floor)
        floors = {levels[0]: first, **given}
        return {level: float(floors[level]) for level in levels if level in floors}

    def _checked_value_floors(
        self, sizes: tuple[int, ...], n_slots: int
    ) -> tuple[tuple[int, float], ...]:
        floors: list[tuple[int, float]] = []
        for place, least in self.value_floors:
            at = whole_number("value_floors", place, at_least=0)
            if at >= sum(sizes) or at in dict(floors):
                rule = f"one floor a value, of the {sum(sizes)} values of the features"
                raise InvalidInput.of("value_floors", rule, place)
            check_floor("value_floors", least, n_slots)
            floors.append((at, float(least)))
        return tuple(floors)

    def _checked_rates(self, levels: tuple[str, ...]) -> dict[str, float]:
        given = _by_level("rate_floors", self.rate_floors, levels)
        if levels[0] in given:
            rule = f"of levels that have one before them ({', '.join(levels[1:])})"
            advice = f"a floor on {levels[0]!r} belongs in `floors`"
            raise InvalidInput.of("rate_floors", rule, levels[0], advice)
        for level, rate in given.items():
            if not is_finite_number(rate) or not 0 <= rate <= 1:
                raise InvalidInput.of(f"rate_floors[{level!r}]", "from 0 to 1", rate)
        return {level: float(given[level]) for level in levels if level in given}

    def _checked_rewards(self, levels: tuple[str, ...]) -> dict[str, float]:
        given = _by_level("rewards", self.rewards, levels)
        for level, weight in given.items():
            if not is_finite_number(weight) or weight < 0:
                rule = "a finite number that is at least 0"
                raise InvalidInput.of(f"rewards[{level!r}]", rule, weight)
        if given and not any(given.values()):
            raise InvalidInput.of("rewards", "above 0 for one level or more", dict(given))
        return {level: float(given[level]) for level in levels if given.get(level)} or {
            levels[-1]: 1.0
        }

    def __repr__(self) -> str:
        """Return what was asked for, and no more: two levels read as they always did."""
        parts = [f"n_links={self.n_links}", f"n_slots={self.n_slots}"]
        parts.append(f"click_floor={self.click_floor}")
        further = {level: self.floors[level] for level in self.floors if level != self.levels[0]}
        if self.levels != TWO_LEVELS:
            parts.append(f"levels={self.levels}")
        if further:
            parts.append(f"floors={further}")
        if self.rate_floors:
            parts.append(f"rate_floors={dict(self.rate_floors)}")
        if not self.rewards_last_level_only:
            parts.append(f"rewards={dict(self.rewards)}")
        if self.feature_sizes:
            parts.append(f"feature_sizes={self.feature_sizes}")
        if self.slot_weights:
            parts.append(f"slot_weights={self.slot_weights!r}")
        if self.value_floors:
            parts.append(f"value_floors={self.value_floors}")
        return f"Problem({', '.join(parts)})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy by what was asked for; mappings that cannot change have no copies."""
        mappings = (dict(self.floors), dict(self.rate_floors), dict(self.rewards))
        plain = (self.n_links, self.n_slots, self.click_floor, self.levels, self.horizon)
        pages = (self.feature_sizes, self.slot_weights, self.value_floors)
        return (type(self), (*plain, *mappings, *pages))

    @property
    def n_levels(self) -> int:
        """How many levels of feedback a shown link gives."""
        return len(self.levels)

    @property
    def active_floors(self) -> tuple[Floor, ...]:
        """Every floor that asks for something: those of levels, then those of rates."""
        place = {level: j for j, level in enumerate(self.levels)}
        of_levels = [
            Floor(level, place[level], least, 0.0)
            for level, least in self.floors.items()
            if least > 0.0
        ]
        of_rates = [
            Floor(f"{level}/{self.levels[place[level] - 1]}", place[level], 0.0, rate)
            for level, rate in self.rate_floors.items()
            if rate > 0.0
        ]
        return (*of_levels, *of_rates)

    @property
    def has_click_floor_only(self) -> bool:
        """Whether no floor asks for anything but clicks, those of the first level."""
        return all(floor.level == 0 for floor in self.active_floors)

    @property
    def rewards_last_level_only(self) -> bool:
        """Whether the last level is all that is to be maximised."""
        return dict(self.rewards) == {self.levels[-1]: 1.0}


def check_floor(name: str, floor: Any, n_slots: int) -> None:
    """Refuse a floor that is no number of clicks that a page could have."""
    if not is_finite_number(floor) or not 0 <= floor < n_slots:
        raise InvalidInput.of(name, f"at least 0 and below n_slots ({n_slots})", floor)


def _checked_levels(levels: Any) -> tuple[str, ...]:
    """Return the names of the levels, all different, and fit for names of quantities."""
    if isinstance(levels, str) or not isinstance(levels, Iterable) or not (levels := tuple(levels)):
        raise InvalidInput.of("levels", "the names of one level or more", levels)
    for level in levels:
        if not isinstance(level, str) or not level or set(level) & set(":/"):
            rule = "names without colon or slash"
            raise InvalidInput.of("levels", rule, level)
    if len(set(levels)) < len(levels):
        raise InvalidInput.of("levels", "different from each other", levels)
    return tuple(levels)


def _by_level(name: str, given: Any, levels: tuple[str, ...]) -> Mapping[str, Any]:
    """Return a mapping whose keys are known levels."""
    if not isinstance(given, Mapping):
        raise InvalidInput.of(name, "a mapping from level to number", given)
    for level in given:
        if level not in levels:
            raise InvalidInput.of(name, f"by level ({', '.join(levels)})", level)
    return given
