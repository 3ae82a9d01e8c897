"""The problem a policy solves: links, slots, floors, and how visitors and slots differ.

Selector, `simulate`, experiment files and pools of the service each build one `Problem` and hold
it; policies and players read it. It depends on features and errors only. Used by most of the
package.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from slotwise.errors import InvalidInput, did_you_mean, is_finite_number, whole_number
from slotwise.features import Features

#     P(click on link i in slot l) = weight_l * rate_i,   weights with mean 1
#
# so that rates and floors keep their meaning.


LEARN = "learn"
"""Slot weights are learned while pages are shown."""
EQUAL = "equal"
"""All slots are alike: every page is in random order."""


SCALED = 1e-12
"""Weights whose mean is this close to 1 are scaled already: saved ones are read as they are."""


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
    mean = array.mean()
    if abs(mean - 1.0) > SCALED:
        array = array / mean
    scaled: tuple[float, ...] = tuple(map(float, array.tolist()))
    return scaled


def normal_slot_weights(weights: Any, n_slots: int) -> tuple[float, ...] | str:
    """Return "learn", "equal", weights with mean 1 for a page of `n_slots`, or () for no order.

    One slot needs no order, and neither do slots of equal weights.

    >>> normal_slot_weights([2, 1, 1], 3), normal_slot_weights([1, 1], 2)
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


__all__ = [
    "TWO_LEVELS",
    "Floor",
    "Problem",
    "Rule",
    "check_floor",
    "is_finite_number",
    "whole_number",
]

TWO_LEVELS = ("click", "revenue")
"""The levels of the paper, and of a problem that names none."""


class Floor(NamedTuple):
    """One floor as a row of the program: (C^level - rate * C^(level - 1)) . x >= least.

    A floor on a compound has rate 0; one on a conditional rate has `least` 0. `name` is the
    level's, or "cart/click" for the part of the clicks that reach the cart.
    """

    name: str
    level: int
    least: float
    rate: float


@dataclass(frozen=True)
class Rule:
    """Limits on the slots of a page that some links have, and a boost of their revenue.

    `at_least` and `at_most` count slots per page. A whole number holds on every page, a fraction on
    average: the number on a single page differs from it by less than one. `boost` multiplies the
    revenue of the links by 1 + boost when the page is chosen; a policy without estimates of revenue
    multiplies its scores.

    >>> Rule("partner", links=["b1", "b2"], at_least=0.5)
    Rule(name='partner', links=('b1', 'b2'), at_least=0.5, at_most=None, boost=0.0)
    >>> Rule("partner", links=["b1", "b2"], at_least=0.5, at_most=0.2)
    Traceback (most recent call last):
    slotwise.errors.InvalidInput: `at_most` of rule 'partner' must be at least 0.5, got 0.2
    """

    name: str
    links: Sequence[Any]
    at_least: float = 0.0
    at_most: float | None = None
    boost: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidInput.of("name", "the name of a rule", self.name)
        if isinstance(self.links, str | bytes) or not isinstance(self.links, Iterable):
            raise self.error("links", "a list of links", self.links)
        object.__setattr__(self, "links", tuple(self.links))
        if not self.links or len(set(self.links)) < len(self.links):
            raise self.error("links", "at least one link, each of them once", self.links)
        for field_name in ("at_least", "boost"):
            number = getattr(self, field_name)
            if not is_finite_number(number) or number < 0:
                raise self.error(field_name, "a number that is at least 0", number)
            object.__setattr__(self, field_name, float(number))
        most = self.at_most
        if most is not None:
            if not is_finite_number(most) or most < self.at_least:
                raise self.error("at_most", f"at least {self.at_least:g}", most)
            object.__setattr__(self, "at_most", float(most))
        if not self.at_least and most is None and not self.boost:
            message = (
                f"rule {self.name!r} must have `at_least`, `at_most` or `boost`, got none of them"
            )
            raise InvalidInput(message, argument="rules")

    @classmethod
    def of_text(cls, text: str) -> Rule:
        """Return the rule that a command line describes.

        >>> Rule.of_text("partner: b1, b2 >= 0.5")
        Rule(name='partner', links=('b1', 'b2'), at_least=0.5, at_most=None, boost=0.0)
        """
        name, _, bounded = text.partition(":")
        sign = ">=" if ">=" in bounded else "<="
        links, _, number = bounded.rpartition(sign)
        try:
            bound = float(number)
        except ValueError:
            rule = "NAME: LINK,LINK >= SLOTS, or <= SLOTS"
            raise InvalidInput.of("rule", rule, text) from None
        named = tuple(link.strip() for link in links.split(","))
        bounds = {"at_least": bound} if sign == ">=" else {"at_most": bound}
        return cls(name.strip(), named, **bounds)

    def error(self, field_name: str, rule: str, value: object) -> InvalidInput:
        """Return the error that a field of this rule breaks `rule`."""
        plain = str(InvalidInput.of(field_name, rule, value))
        message = plain.replace("` must", f"` of rule {self.name!r} must", 1)
        return InvalidInput(message, argument="rules")

    def check_page(self, n_slots: int) -> None:
        """Refuse more slots than a page has, or than there are links."""
        most = min(n_slots, len(self.links))
        if self.at_least > most:
            rule = f"at most {most}, of {n_slots} slots and {len(self.links)} links"
            raise self.error("at_least", rule, self.at_least)
        if self.at_most is not None and self.at_most > n_slots:
            raise self.error("at_most", f"at most n_slots ({n_slots})", self.at_most)


def _checked_rules(rules: object, n_slots: int) -> tuple[Rule, ...]:
    """Return the rules; mappings, as files have them, become rules."""
    if isinstance(rules, str | Mapping | Rule) or not isinstance(rules, Iterable):
        raise InvalidInput.of("rules", "a list of rules", rules)
    checked: list[Rule] = []
    for one in rules:
        if isinstance(one, Mapping):
            known = [one.name for one in fields(Rule)]
            for name in one:
                if name not in known:
                    advice = did_you_mean(name, known)
                    raise InvalidInput(f"`{name}` is not a field of a rule; {advice}", "rules")
            missing = [name for name in ("name", "links") if name not in one]
            if missing:
                raise InvalidInput.of("rules", "rules with `name` and `links`", dict(one))
        rule = Rule(**one) if isinstance(one, Mapping) else one
        if not isinstance(rule, Rule):
            raise InvalidInput.of("rules", "a list of rules", one)
        rule.check_page(n_slots)
        if rule.name in [other.name for other in checked]:
            raise InvalidInput.of("rules", "rules with different names", rule.name)
        checked.append(rule)
    return tuple(checked)


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

    With more levels there may be more floors. `floors` has the least expected outcome of a level
    per page view; `click_floor` is that of the first level. `rate_floors` has the least share of
    the level before that reaches a level. `rewards` has the weight of each level in the objective;
    by default only the last level counts. All three are complete after creation.

    >>> shop = Problem(n_links=50, n_slots=10, levels=("click", "cart", "purchase"),
    ...                floors={"click": 4.0, "cart": 1.0}, rate_floors={"purchase": 0.2})
    >>> shop.click_floor, [floor.name for floor in shop.active_floors]
    (4.0, ['click', 'cart', 'purchase/cart'])

    `features` declares the features of visitors (`slotwise.features.Features`), and
    `segment_floors` has click floors of segments, the visitors with one value of a feature.
    `slot_weights` says how often a link is clicked in each slot, relative to the average slot:
    numbers, which are scaled to mean 1, "learn" if they are to be learned, "equal" if all slots are
    alike and pages are shuffled, or nothing: then pages are in no particular order. `rules` limit
    the slots that some links have (`slotwise.Rule`).

    >>> page = Problem(n_links=5, n_slots=2, features={"device": ("phone", "desktop")},
    ...                segment_floors={"device": {"phone": 0.2}})
    >>> page.feature_sizes, page.segment_floor_places
    ((3,), ((1, 0.2),))
    """

    n_links: int
    n_slots: int
    click_floor: float = 0.0
    levels: tuple[str, ...] = TWO_LEVELS
    horizon: int | None = None
    floors: Mapping[str, float] = field(default_factory=dict, hash=False)
    rate_floors: Mapping[str, float] = field(default_factory=dict, hash=False)
    rewards: Mapping[str, float] = field(default_factory=dict, hash=False)
    features: Features | Mapping[str, Any] = field(default_factory=dict, hash=False)
    slot_weights: tuple[float, ...] | str = ()
    segment_floors: Mapping[str, Mapping[Any, float]] = field(default_factory=dict, hash=False)
    rules: tuple[Rule, ...] = ()

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
        features = self.features
        features = features if isinstance(features, Features) else Features(features)
        object.__setattr__(self, "features", features)
        slot_weights = normal_slot_weights(self.slot_weights, n_slots)
        object.__setattr__(self, "slot_weights", slot_weights)
        places = _segment_floor_places(self.segment_floors, features, n_slots)
        object.__setattr__(self, "_segment_floor_places", places)
        object.__setattr__(self, "rules", _checked_rules(self.rules, n_slots))
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
        """Return the arguments that differ from their defaults."""
        further = {level: self.floors[level] for level in self.floors if level != self.levels[0]}
        fields: dict[str, Any] = {
            "levels": () if self.levels == TWO_LEVELS else self.levels,
            "floors": further,
            "rate_floors": dict(self.rate_floors),
            "rewards": {} if self.rewards_last_level_only else dict(self.rewards),
        }
        names = ("features", "slot_weights", "segment_floors", "rules")
        fields |= {name: getattr(self, name) for name in names}
        plain = {name: getattr(self, name) for name in ("n_links", "n_slots", "click_floor")}
        shown = plain | {name: value for name, value in fields.items() if value}
        return f"Problem({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy by the arguments: read-only mappings cannot be pickled."""
        mappings = (dict(self.floors), dict(self.rate_floors), dict(self.rewards))
        plain = (self.n_links, self.n_slots, self.click_floor, self.levels, self.horizon)
        pages = (self.features, self.slot_weights, self.segment_floors, self.rules)
        return (type(self), (*plain, *mappings, *pages))

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any], **further: Any) -> Problem:
        """Return the problem that a TOML or JSON table describes; `further` has what it leaves out.

        Features are declared as JSON can: "text", "bool", a list of words or of rising numbers.

        >>> Problem.from_mapping({"n_slots": 2, "features": {"new": "bool"}}, n_links=5)
        Problem(n_links=5, n_slots=2, click_floor=0.0, features={'new': <class 'bool'>})
        """
        known = [one.name for one in fields(cls)]
        for name in given:
            if name not in known:
                advice = did_you_mean(name, known)
                raise InvalidInput(f"`{name}` is not a field of a problem; {advice}", "problem")
        values = {**given, **further}
        if not isinstance(features := values.get("features", {}), Features):
            values["features"] = Features.of_json(features)
        return cls(**values)

    @property
    def n_levels(self) -> int:
        """How many levels of feedback a shown link gives."""
        return len(self.levels)

    @property
    def feature_sizes(self) -> tuple[int, ...]:
        """How many values each feature of a visitor has."""
        features: Any = self.features
        return features.sizes  # type: ignore[no-any-return]

    @property
    def segment_floor_places(self) -> tuple[tuple[int, float], ...]:
        """The floor of each segment that has one, with the place of its value among all values."""
        return self._segment_floor_places  # type: ignore[attr-defined,no-any-return]

    @property
    def active_floors(self) -> tuple[Floor, ...]:
        """Every floor above 0: those of levels, then those of rates."""
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
        """Whether the only floor is that of the first level."""
        return all(floor.level == 0 for floor in self.active_floors)

    @property
    def rewards_last_level_only(self) -> bool:
        """Whether only the last level is maximised."""
        return dict(self.rewards) == {self.levels[-1]: 1.0}


def _segment_floor_places(
    floors: object, features: Features, n_slots: int
) -> tuple[tuple[int, float], ...]:
    """Return floors with the places of their values; a word of an open list gets a place."""
    rule = "a mapping of features to mappings of values to clicks per page view"
    if not isinstance(floors, Mapping):
        raise InvalidInput.of("segment_floors", rule, floors)
    found = []
    for name, of_values in floors.items():
        if not isinstance(of_values, Mapping):
            raise InvalidInput.of("segment_floors", rule, floors)
        for value, least in of_values.items():
            check_floor(f"segment_floors[{name!r}][{value!r}]", least, n_slots)
            try:
                place = features.place(name, value)
            except InvalidInput as error:
                raise InvalidInput(f"`segment_floors`: {error}", "segment_floors") from error
            if least > 0:
                found.append((place, float(least)))
    return tuple(found)


def check_floor(name: str, floor: Any, n_slots: int) -> None:
    """Refuse a floor that is not from 0 to below the number of slots."""
    if not is_finite_number(floor) or not 0 <= floor < n_slots:
        raise InvalidInput.of(name, f"at least 0 and below n_slots ({n_slots})", floor)


def _checked_levels(levels: object) -> tuple[str, ...]:
    """Return the names of the levels; refuse equal ones and names with a colon or slash."""
    if isinstance(levels, str) or not isinstance(levels, Iterable) or not (levels := tuple(levels)):
        raise InvalidInput.of("levels", "the names of one level or more", levels)
    for level in levels:
        if not isinstance(level, str) or not level or set(level) & set(":/"):
            rule = "names without colon or slash"
            raise InvalidInput.of("levels", rule, level)
    if len(set(levels)) < len(levels):
        raise InvalidInput.of("levels", "different from each other", levels)
    return tuple(levels)


def _by_level(name: str, given: object, levels: tuple[str, ...]) -> Mapping[str, Any]:
    """Return a mapping whose keys are known levels."""
    if not isinstance(given, Mapping):
        raise InvalidInput.of(name, "a mapping from level to number", given)
    for level in given:
        if level not in levels:
            raise InvalidInput.of(name, f"by level ({', '.join(levels)})", level)
    return given
