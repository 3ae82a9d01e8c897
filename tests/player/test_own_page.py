"""The own page within rules, groups by visitor, and the probabilities of the mixture."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slotwise.arrays import Floats
from slotwise.errors import InvalidInput
from slotwise.player.link_pool import LinkPool
from slotwise.player.own_page import (
    checked_keep,
    checked_order,
    in_own_order,
    mixed,
    own_places,
    own_probabilities,
    visitor_number,
)
from slotwise.player.pages import Constraints
from slotwise.player.rules_in_force import RulesInForce
from slotwise.problem import Rule
from slotwise.selection.promise import Shares

N_LINKS, N_SLOTS = 7, 3
POOL = LinkPool([*"abcdefg"])


def slow_own_page(
    order: list[int], chosen: Floats, pinned: list[int], excluded: list[int]
) -> list[int]:
    """Return the own page by walking along the order."""
    page = list(pinned)
    by_policy = sorted(range(N_LINKS), key=lambda place: -chosen[place])
    for place in [*order, *by_policy]:
        if len(page) < N_SLOTS and place not in page and place not in excluded:
            page.append(place)
    return page


@given(st.permutations(range(N_LINKS)), st.permutations(range(N_LINKS)), st.data())
@settings(max_examples=100, deadline=None)
def test_own_page_is_the_first_links_that_may_be_shown(
    order: list[int], others: list[int], data: st.DataObject
) -> None:
    order = order[: data.draw(st.integers(0, N_LINKS))]
    pinned = others[: data.draw(st.integers(0, N_SLOTS))]
    excluded = others[N_LINKS - data.draw(st.integers(0, N_LINKS - N_SLOTS)) :]
    chosen = np.random.default_rng(1).random(N_LINKS)
    asked = Constraints.of(POOL, N_SLOTS, np.array(pinned, int), np.array(excluded, int))
    found = own_probabilities(np.array(order, int), chosen, N_SLOTS, asked)
    page = slow_own_page(order, chosen, pinned, excluded)
    assert sorted(np.flatnonzero(found)) == sorted(page)
    assert set(found) <= {0.0, 1.0}


def test_a_cap_skips_links_of_the_order_and_a_guarantee_replaces_the_last() -> None:
    places = own_places("abcx", POOL)  # x has left the pool
    capped = RulesInForce([Rule("one", ["a", "b"], at_most=1)], POOL, N_SLOTS).for_page(None)
    policy = np.full(N_LINKS, N_SLOTS / N_LINKS)
    policy[3] = 0.6
    page = own_probabilities(places, policy, N_SLOTS, None, capped)
    assert [POOL.links[k] for k in np.flatnonzero(page)] == ["a", "c", "d"]
    owed = RulesInForce([Rule("due", ["g"], at_least=1)], POOL, N_SLOTS).for_page(None)
    page = own_probabilities(places, policy, N_SLOTS, None, owed)
    assert [POOL.links[k] for k in np.flatnonzero(page)] == ["a", "b", "g"]


def test_own_order_has_other_links_last() -> None:
    shown = np.array([6, 2, 0])
    order = in_own_order(shown, np.array([0, 1, 2]))
    assert shown[order].tolist() == [0, 2, 6]


@given(st.floats(0, 0.9), st.floats(0, 0.1))
def test_probabilities_of_the_mixture_sum_to_the_slots(chosen: float, random: float) -> None:
    rng = np.random.default_rng(3)
    policy = rng.dirichlet(np.ones(N_LINKS)) * N_SLOTS
    own = own_probabilities(np.arange(3), policy, N_SLOTS)
    found = mixed(Shares.of(chosen, random), policy, own, np.full(N_LINKS, N_SLOTS / N_LINKS))
    assert found.sum() == pytest.approx(N_SLOTS)


def test_numbers_of_visitors_are_uniform_and_depend_on_the_secret() -> None:
    numbers = [visitor_number(b"s", f"visitor {k}") for k in range(4_000)]
    counts = np.histogram(numbers, bins=20, range=(0, 1))[0]
    # chi-square with 19 degrees of freedom: above 70 with a probability of 1e-7; fixed keys
    assert ((counts - 200.0) ** 2 / 200.0).sum() < 70.0
    assert visitor_number(b"s", "k") == visitor_number(b"s", "k") != visitor_number(b"t", "k")


@pytest.mark.parametrize("key", ["", "k" * 1_001, 7, None])
def test_a_key_that_is_no_text_is_refused(key: Any) -> None:
    with pytest.raises(InvalidInput, match="visitor_key"):
        visitor_number(b"s", key)


@pytest.mark.parametrize("order", [[], ["z"], "ab", {"a", "b"}, ["a", "a"], {"a": 1}])
def test_an_order_that_is_no_list_of_links_is_refused(order: Any) -> None:
    with pytest.raises(InvalidInput, match="own_page"):
        checked_order(order, POOL)


@pytest.mark.parametrize("keep", [0, 1, -0.5, 1.5, "0.9", float("nan"), True])
def test_a_part_that_cannot_be_promised_is_refused(keep: Any) -> None:
    with pytest.raises(InvalidInput, match="keep"):
        checked_keep(keep)
    assert checked_keep(None) is None
