"""Type checkers keep the type of links; run, this only shows that nothing breaks."""

from __future__ import annotations

from typing import assert_type

from slotwise import Decision, Selector


def takes_any(page: Decision, selector: Selector) -> int:
    return len(page.shown) + len(selector.links)


def test_links_keep_their_type() -> None:
    selector = Selector([3, 4, 5], n_slots=2)
    page = selector.select()
    assert_type(selector, Selector[int])
    assert_type(page.shown, tuple[int, ...])
    assert_type(selector.links, tuple[int, ...])
    assert takes_any(page, selector) == 5
    text: Decision[str] = Selector(["a"], n_slots=1).select()
    assert text.shown[0].upper() == "A"
