"""A file that was saved before is still read: what is in it is pinned here, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotwise import ConUCB, PacedBayes, Problem, Selector
from slotwise.errors import InvalidFeedback, UnknownDecision
from tests.selector.selectors import knowledge

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.fixture
def selector() -> Selector:
    return Selector.load(GOLDEN / "selector-v2-levels.sel")


def page_id(selector: Selector, number: int) -> str:
    """Return the id of a page that was chosen before the selector was saved."""
    [token] = selector._pages.earlier
    return f"{token}-{number}"


def test_links_problem_and_policy(selector: Selector) -> None:
    assert selector.links == ("spring-sale", 7, ("shop", 3))
    assert selector.problem == Problem(
        n_links=3,
        n_slots=2,
        levels=("click", "cart", "sale"),
        floors={"click": 0.5, "cart": 0.2},
        rewards={"click": 0.01, "sale": 1.0},
    )
    assert selector.policy == ConUCB(horizon=5000, failure_probability=0.05, gamma_scale=0.125)


def test_knowledge(selector: Selector) -> None:
    known = knowledge(selector)
    assert known["views"] == [[100, 82, 0], [100, 81, 0], [100, 81, 0]]
    assert known["sums"] == [[10, 26, 0], [0, 6, 0], pytest.approx([0, 3.4, 0])]


def test_money_and_pages(selector: Selector) -> None:
    report = selector.report()
    assert [row.revenue for row in report.links] == pytest.approx([0, 170, 0])
    assert (report.n_pages, report.n_open_pages, report.n_forgotten_pages) == (3, 2, 0)
    assert report.n_clipped == 1


def test_chance_goes_on(selector: Selector) -> None:
    assert selector._rng.random() == 0.12857020276919962


def test_open_pages_wait_for_what_is_missing(selector: Selector) -> None:
    selector.update(page_id(selector, 1), click=["outlet"], sale={})
    with pytest.raises(InvalidFeedback, match=r"already recorded as \{\}"):
        selector.update(page_id(selector, 1), sale={"outlet": 2.0})
    selector.update(page_id(selector, 1), cart=[])
    selector.update(page_id(selector, 3), click=[7], cart=[7], sale={7: 5.0})
    selector.update_batch({"outlet": 10, 7: 4}, click={7: 1, "outlet": 2})
    assert selector.report().n_open_pages == 0
    known = knowledge(selector)
    assert known["views"] == [[100, 87, 0], [100, 83, 0], [100, 83, 0]]
    assert known["sums"] == [[10, 28, 0], [0, 7, 0], pytest.approx([0, 3.5, 0])]
    with pytest.raises(UnknownDecision):
        selector.update(page_id(selector, 4), click=[])


def test_visitors_and_slots() -> None:
    selector = Selector.load(GOLDEN / "selector-v2-visitors.sel")
    assert selector.links == ("spring-sale", "new-in", "gift-cards", "blog")
    assert selector.policy == PacedBayes()
    assert selector.problem.segment_floor_places == ((1, 0.3),)
    assert selector.knowledge().slot_clicks.tolist() == [11, 10]
    assert selector.knowledge().visits[0, 0, :5].tolist() == [0, 30, 30, 0, 60]
    known = knowledge(selector)
    assert known["sums"][0] == [17, 1, 6, 5]
    assert known["rounds"] == [60, 60]
    assert selector.report().n_open_pages == 2
    visitor = {"device": "phone", "country": "FR"}
    shown = [selector.select(visitor=visitor).shown for _ in range(4)]
    assert shown == [("spring-sale", "gift-cards")] * 4
    assert selector._rng.random() == 0.6559381126503325
    selector.update(page_id(selector, 61), clicks=["gift-cards"], revenue={})
    assert knowledge(selector)["sums"][0] == [17, 1, 7, 5]
