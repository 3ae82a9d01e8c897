"""Links come and go: what is known of the others stays exactly as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slotwise import Selector
from slotwise.errors import InvalidInput
from slotwise.policies import POLICIES
from slotwise.rounds import Link
from tests.policies.order_of_feedback import refitted
from tests.selector.selectors import LINKS, everything, knowledge, new_selector, play

# A fixed mix is fixed for its links; the rest of the registry follows the pool.
FOLLOWING = [name for name in POLICIES if name != "fixed-mix"]


def known_of(selector: Selector, link: Link) -> dict[str, Any]:
    """Return what the policy knows of one link."""
    place = selector.links.index(link)
    known = selector.knowledge().arrays
    names = selector.policy.per_link & known.keys()
    return {name: known[name][..., place].tolist() for name in names}


@pytest.mark.parametrize("policy", FOLLOWING)
def test_the_knowledge_of_the_others_is_untouched(policy: str) -> None:
    selector = new_selector(policy)
    play(selector, 40)
    before = {link: known_of(selector, link) for link in LINKS}
    rows = {row.link: row for row in selector.report().links}
    shared = {
        name: value
        for name, value in knowledge(selector).items()
        if name not in selector.policy.per_link | refitted(policy)
    }
    selector.add_links(["late-1", "late-2"])
    selector.retire(["new-in", "late-1"])
    selector.add_links(["late-3"])
    staying = ("spring-sale", "gift-cards", "outlet", "blog")
    assert selector.links == (*staying, "late-2", "late-3")
    assert selector.problem.n_links == 6
    for link in staying:
        assert known_of(selector, link) == before[link]
    for name, value in shared.items():
        assert knowledge(selector)[name] == value
    after = {row.link: row for row in selector.report().links}
    for link in staying:
        assert after[link].click_rate == rows[link].click_rate
        assert after[link].revenue_rate == rows[link].revenue_rate
    assert after["late-2"].views == 0


@pytest.mark.parametrize("policy", FOLLOWING)
def test_pages_come_from_the_pool_as_it_is(policy: str) -> None:
    selector = new_selector(policy)
    play(selector, 10)
    selector.retire(["blog", "outlet"])
    selector.add_links([("new", 1)])
    seen = {link for page in play(selector, 60) for link in page}
    assert seen == {"spring-sale", "new-in", "gift-cards", ("new", 1)}


@pytest.mark.parametrize("policy", FOLLOWING)
def test_late_feedback_of_a_page_with_retired_links_is_accepted(policy: str) -> None:
    selector = new_selector(policy)
    page = selector.select(pin=["blog", "outlet"])
    gone = selector.select(pin=["new-in", "blog"])
    selector.retire(["blog", "new-in"])
    selector.update(page, clicks=["blog", "outlet"], revenue={"blog": 0.9, "outlet": 0.5})
    selector.update(gone, clicks=["blog"], revenue={"blog": 0.2})
    rows = {row.link: row for row in selector.report().links}
    assert (rows["outlet"].views, rows["outlet"].clicks, rows["outlet"].revenue) == (1, 1, 0.5)
    assert sum(row.views for row in rows.values()) == 1
    assert selector.report().n_open_pages == 0


def test_a_link_that_comes_back_starts_afresh() -> None:
    selector = new_selector()
    selector.update_batch({"blog": 50}, {"blog": 20}, {"blog": 5.0})
    selector.retire(["blog"])
    selector.add_links(["blog"])
    assert selector.links[-1] == "blog"
    assert known_of(selector, "blog") == {"views": [0.0, 0.0], "sums": [0.0, 0.0]}


def test_pages_from_before_keep_their_probabilities() -> None:
    selector = new_selector()
    page = selector.select()
    before = dict(page.probabilities)
    selector.retire(["blog"])
    selector.add_links(["later"])
    assert dict(page.probabilities) == before
    with pytest.raises(KeyError, match="later"):
        page.probabilities["later"]


@pytest.mark.parametrize(
    ("change", "links", "message"),
    [
        ("retire", LINKS[:4], "`links` must be few enough to leave 2 of 5 for the page, got 4"),
        ("retire", LINKS, "`links` must be few enough to leave 2 of 5 for the page, got 5"),
        ("retire", ["stranger"], "`links` must be links of the pool, got 'stranger'"),
        ("retire", ["blog", "blog"], "`links` must be different from each other, got 'blog'"),
        ("retire", "blog", r"`links` must be a collection of links, got 'blog'; write \['blog'\]"),
        ("add_links", ["blog"], "`links` must be new to the pool, got 'blog'"),
        ("add_links", ["x", "x"], "`links` must be different from each other, got 'x'"),
        ("add_links", "later", "`links` must be a collection of links, got 'later'; write"),
        ("add_links", [["x"]], "`links` must be a collection of hashable links"),
        ("add_links", 3, "`links` must be a collection of hashable links, got 3"),
    ],
)
def test_a_change_that_cannot_be_is_refused_and_changes_nothing(
    change: str, links: Any, message: str
) -> None:
    selector = new_selector()
    play(selector, 20)
    before = everything(selector)
    with pytest.raises(InvalidInput, match=message):
        getattr(selector, change)(links)
    assert everything(selector) == before


def test_a_fixed_mix_refuses_another_pool() -> None:
    selector = new_selector("fixed-mix")
    before = everything(selector)
    with pytest.raises(InvalidInput, match="`probabilities` must be one number for each of the 6"):
        selector.add_links(["later"])
    assert everything(selector) == before


def test_changing_nothing_is_allowed() -> None:
    selector = new_selector()
    play(selector, 10)
    before = knowledge(selector)
    selector.add_links([])
    selector.retire([])
    assert knowledge(selector) == before


def test_a_changed_pool_goes_on_like_one_that_was_never_changed() -> None:
    changed, plain = new_selector(), new_selector(links=LINKS[:4])
    changed.retire(["blog"])
    assert play(changed, 30) == play(plain, 30)
    assert np.array_equal(knowledge(changed)["views"], knowledge(plain)["views"])
