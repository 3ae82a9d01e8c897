"""The page that a team has today: its links, the group of a visitor, and exact probabilities.

`own_page` is an order of links. The own page of a view is the first `n_slots` of them that pins,
exclusions, rules and the pool allow. Where too few are left, the links that the policy would most
probably show fill the rest. With the shares of `slotwise.selection.promise`, a link is on the page
with the probability

    chosen * (by the policy)  +  own * (on the own page)  +  random * (on a random page)

Interface: `own_probabilities` makes the own page, `in_own_order` puts it into the order of the
team, `visitor_number` and `Shares.group` find the group, `mixed` gives the probabilities. Nothing
is stored about visitors. Used by `player`, `selector`, `service` and `simulation`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from slotwise.arrays import Floats, Links
from slotwise.compile import switching
from slotwise.errors import InvalidInput
from slotwise.player.link_pool import LinkPool, listed_links
from slotwise.player.pages import Constraints
from slotwise.player.rules_in_force import RuledPage
from slotwise.problem import is_finite_number
from slotwise.rounds import Link
from slotwise.selection.page_within_rules import best_within
from slotwise.selection.promise import Group, Shares

MAX_KEY = 1_000
"""The longest key of a visitor, in characters."""


def visitor_number(secret: bytes, key: str) -> float:
    """Return a number in [0, 1) for a visitor, the same wherever the secret is the same.

    The keyed hash (HMAC-SHA256) does not reveal the key and cannot be computed without the secret.

    >>> round(visitor_number(b"secret of the pool", "visitor 7"), 3)
    0.838
    """
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY:
        got = key if not isinstance(key, str) or len(key) < MAX_KEY else f"{len(key)} characters"
        raise InvalidInput.of("visitor_key", f"a text of 1 to {MAX_KEY} characters", got)
    digest = hmac.digest(secret, key.encode("utf-8", "surrogatepass"), hashlib.sha256)
    return (int.from_bytes(digest[:8], "big") >> 11) / 2.0**53


def checked_order(own_page: Iterable[Link], pool: LinkPool) -> tuple[Link, ...]:
    """Return the order of the own page; refuse links that are not in the pool."""
    order = listed_links("own_page", own_page)
    if isinstance(own_page, set | frozenset | Mapping) or not order:
        rule = "a list of links in the order of the page"
        raise InvalidInput.of("own_page", rule, own_page)
    pool.places("own_page", order)
    return tuple(order)


def checked_keep(keep: Any) -> float | None:
    """Return the promised part of the own page's revenue, if there is one."""
    if keep is None:
        return None
    if not (is_finite_number(keep) and 0 < keep < 1):
        raise InvalidInput.of("keep", "a number between 0 and 1, such as 0.95", keep)
    return float(keep)


class OwnView(NamedTuple):
    """A view of a pool with an own page: the places of its order, the shares and the group."""

    places: Links
    shares: Shares
    group: Group


def own_places(order: Sequence[Link], pool: LinkPool) -> Links:
    """Return the places of the links of the order; links that left the pool are skipped."""
    return np.array([pool.place_of[link] for link in order if link in pool], np.int64)


def own_probabilities(
    places: Links,
    chosen: Floats,
    n_slots: int,
    constraints: Constraints | None = None,
    ruled: RuledPage | None = None,
) -> Floats:
    """Return the probability of each link to be on the own page: 0 and 1 where no rule mixes pages.

    `places` are those of the order, `chosen` the probabilities of the policy for this view. With
    rules the page is the best page within them at scores that fall along the order, so a cap
    takes the earlier links and a guarantee replaces the last ones. `ruled` are the rules for a
    view with these constraints; its buffers hold the own page afterwards.
    """
    scores = chosen.copy()
    scores[places] = 3.0 - np.arange(len(places)) / max(1, len(places))
    if ruled is not None:
        switching(best_within)(ruled.rules, scores, scores)
        return ruled.rules.probabilities.copy()
    page = np.zeros(len(chosen))
    n_left = n_slots
    if constraints is not None:
        page[constraints.pinned] = 1.0
        scores[~constraints.is_free] = -1.0
        n_left = constraints.n_left
    page[np.argsort(-scores, kind="stable")[:n_left]] = 1.0
    return page


def in_own_order(shown: Links, places: Links) -> Links:
    """Return the indexes that put a page into the order of the own page, other links last.

    >>> in_own_order(np.array([4, 0, 2]), np.array([2, 1, 4])).tolist()
    [2, 0, 1]
    """
    rank = {place: k for k, place in enumerate(places.tolist())}
    ranks = [rank.get(place, len(rank)) for place in shown.tolist()]
    return np.argsort(ranks, kind="stable")


def mixed(shares: Shares, chosen: Floats, own: Floats, random: Floats | None = None) -> Floats:
    """Return the inclusion probabilities of a view whose group is drawn with these shares.

    >>> mixed(Shares.of(0.25), np.array([0.0, 1.0, 1.0]), np.array([1.0, 1.0, 0.0])).tolist()
    [0.75, 1.0, 0.25]
    """
    probabilities: Floats = own + shares.chosen * (chosen - own)  # 1 stays 1, to the last digit
    return probabilities if random is None else probabilities + shares.random * (random - own)
