"""The pool: link ids outside, dense places inside."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import InvalidFeedback, InvalidInput
from slotwise.features import Features
from slotwise.policies import Policy, default_policy, make_policy
from slotwise.problem import TWO_LEVELS, check_floor, is_finite_number, whole_number
from slotwise.rounds import Link


def listed_links(name: str, links: Iterable[Link]) -> list[Link]:
    """Return the links of a collection; `name` is the argument at fault if it is none.

    A lone string is refused: it is one link, and its letters are not meant.
    """
    if isinstance(links, str | bytes):
        raise InvalidInput.of(name, "a collection of links", links, f"write [{links!r}]")
    try:
        listed = list(links)
        for link in listed:
            hash(link)
    except TypeError as error:
        raise InvalidInput.of(name, "a collection of hashable links", links) from error
    return listed


class Pool:
    """An ordered set of links, each with a place from 0 on; never changed, only replaced.

    >>> pool = Pool(["a", "b"]).with_links(["c"]).without_links(["a"])
    >>> pool.links, pool.places("pin", ["c"]).tolist()
    (('b', 'c'), [1])
    """

    def __init__(self, links: Iterable[Link]) -> None:
        self.links = tuple(listed_links("links", links))
        self._place = {link: place for place, link in enumerate(self.links)}
        if len(self._place) < len(self.links):
            places = enumerate(self.links)
            repeated = next(link for place, link in places if self._place[link] != place)
            raise InvalidInput.of("links", "different from each other", repeated)
        if not self.links:
            raise InvalidInput.of("links", "at least one link", [])

    def __len__(self) -> int:
        return len(self.links)

    def __contains__(self, link: object) -> bool:
        return link in self._place

    def links_at(self, places: Sequence[int]) -> tuple[Link, ...]:
        """Return the links at these places."""
        links = self.links
        return tuple([links[place] for place in places])

    def places(self, name: str, links: Iterable[Link]) -> NDArray[np.int64]:
        """Return the places of different links of the pool; `name` is the argument at fault."""
        found: list[int] = []
        for link in listed_links(name, links):
            if link not in self._place:
                hint = "what is known of a visitor is given as visitor={...}"
                advice = hint if isinstance(links, Mapping) else ""
                raise InvalidInput.of(name, "links of the pool", link, advice)
            found.append(self._place[link])
        if len(set(found)) < len(found):
            repeated = next(place for i, place in enumerate(found) if place in found[:i])
            raise InvalidInput.of(name, "different from each other", self.links[repeated])
        return np.array(found, dtype=np.int64)

    def known(
        self, links: tuple[Link, ...], probabilities: tuple[float, ...]
    ) -> tuple[Sequence[int], Sequence[Link], NDArray[np.int64], NDArray[np.float64]]:
        """Return slots, ids, places and probabilities of the links that are still in the pool."""
        places = [self._place.get(link, -1) for link in links]
        if -1 not in places:
            return range(len(links)), links, np.array(places, np.int64), np.array(probabilities)
        kept = [slot for slot, place in enumerate(places) if place >= 0]
        still = np.array([places[slot] for slot in kept], np.int64)
        return kept, [links[slot] for slot in kept], still, np.array(probabilities)[kept]

    def places_in(self, other: Pool) -> NDArray[np.int64]:
        """Return for each link its place in another pool, or -1."""
        return np.array([other._place.get(link, -1) for link in self.links], dtype=np.int64)

    def with_links(self, links: Iterable[Link]) -> Pool:
        """Return the pool with more links at its end."""
        joining = listed_links("links", links)
        for link in joining:
            if link in self._place:
                raise InvalidInput.of("links", "new to the pool", link)
        return Pool((*self.links, *joining))

    def without_links(self, links: Iterable[Link], n_needed: int = 1) -> Pool:
        """Return the pool less these links; at least `n_needed` must stay."""
        leaving = set(self.places("links", links).tolist())
        if len(self) - len(leaving) < n_needed:
            rule = f"few enough to leave {n_needed} of {len(self)} for the page"
            raise InvalidInput.of("links", rule, len(leaving))
        return Pool(link for place, link in enumerate(self.links) if place not in leaving)


NOT_LEVELS = ("self", "page", "views", "click_floor")
"""Arguments of `update`, `update_batch` and `set_floor`, so no level can have their names."""


def refuse_unknown(unknown: Iterable[str], function: Callable[..., object]) -> None:
    """Raise `TypeError` for an argument that a function does not have, with the likely one.

    >>> def select(links, *, click_floor=0.0, **unknown): refuse_unknown(unknown, select)
    >>> select(["sale"], floor=0.3)
    Traceback (most recent call last):
    TypeError: `select` has no argument `floor`; did you mean `click_floor`?
    """
    for name in unknown:
        parameters = inspect.signature(function).parameters.values()
        known = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD]
        close = difflib.get_close_matches(name, known, n=1)
        advice = f"did you mean `{close[0]}`?" if close else f"known are {', '.join(known[1:])}"
        called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
        raise TypeError(f"`{called}` has no argument `{name}`; {advice}")


def checked_policy(policy: Policy | str | None) -> Policy:
    """Return the policy itself, the one of this name, or the default."""
    policy = default_policy() if policy is None else policy
    policy = make_policy(policy) if isinstance(policy, str) else policy
    if not isinstance(policy, Policy):
        rule = "a policy with its settings, such as ConUCB(horizon=50_000)"
        raise InvalidInput.of("policy", rule, policy)
    return policy


def checked_money(max_revenue: Any) -> float:
    """Return the most that a click can earn."""
    if not (is_finite_number(max_revenue) and max_revenue > 0):
        raise InvalidInput.of("max_revenue", "a positive finite number", max_revenue)
    return float(max_revenue)


def checked_share(name: str, share: Any) -> float:
    """Return a number from 0 to 1."""
    if not (is_finite_number(share) and 0 <= share <= 1):
        raise InvalidInput.of(name, "from 0 to 1", share)
    return float(share)


def checked_levels(levels: Sequence[str] | None) -> Any:
    """Return the levels of feedback, those of the paper where none are named.

    What a problem asks of levels it checks itself.
    """
    for level in levels if isinstance(levels, Sequence) else ():
        if level in NOT_LEVELS:
            raise InvalidInput.of("levels", f"other names than {', '.join(NOT_LEVELS)}", level)
    return TWO_LEVELS if levels is None else levels


def by_level(
    names: Sequence[str], clicks: Any, revenue: Any, levels: Mapping[str, Any]
) -> dict[int, Any]:
    """Return the feedback that was given, by the number of its level."""
    given = {"clicks": clicks, "revenue": revenue, **levels}
    for name, outcome in given.items():
        if outcome is not None and name not in names:
            raise InvalidFeedback(f"feedback must be on {', '.join(names)}, got `{name}`")
    return {j: given[name] for j, name in enumerate(names) if given.get(name) is not None}


def checked_floors_by(
    floors_by: Any, features: Features, n_slots: int
) -> tuple[tuple[int, float], ...]:
    """Return the floors of feature values, each as the value's place and the fewest clicks."""
    rule = "a mapping of features to mappings of values to clicks a page view"
    if floors_by is None:
        return ()
    if not isinstance(floors_by, Mapping):
        raise InvalidInput.of("floors_by", rule, floors_by)
    n_slots = whole_number("n_slots", n_slots, at_least=1)
    floors = []
    for name, of_values in floors_by.items():
        if not isinstance(of_values, Mapping):
            raise InvalidInput.of("floors_by", rule, floors_by)
        for value, least in of_values.items():
            where = f"floors_by[{name!r}][{value!r}]"
            check_floor(where, least, n_slots)
            try:
                place = features.place(name, value)
            except InvalidInput as error:
                raise InvalidInput(f"`floors_by`: {error}") from error
            if least > 0:
                floors.append((place, float(least)))
    return tuple(floors)
