"""A file saved by an older version is still read: what is in it is pinned here, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotwise import ConUCB, Problem, QueueTS, Selector
from slotwise.errors import InvalidFeedback, UnknownDecision
from tests.selector.selectors import knowledge

FORMAT_1 = Path(__file__).parent.parent / "golden" / "selector-v1.sel"

# The file's three open pages: of the first the clicks are settled, of the second the revenue.
CLICKS_SETTLED = "0ec5e1f57ee76f13-1"
REVENUE_SETTLED = "0ec5e1f57ee76f13-2"
UNSETTLED = "0ec5e1f57ee76f13-3"


@pytest.fixture
def selector() -> Selector:
    return Selector.load(FORMAT_1)


def test_links_problem_and_policy(selector: Selector) -> None:
    assert selector.links == ("spring-sale", 7, ("shop", 3))
    assert selector.problem == Problem(n_links=3, n_slots=2, click_floor=0.4)
    assert selector.policy == ConUCB(horizon=5000, failure_probability=0.05, gamma_scale=0.125)


def test_knowledge(selector: Selector) -> None:
    known = knowledge(selector)
    assert known["views"] == [[100, 81, 60], [101, 80, 60]]
    assert known["sums"] == [[10, 25, 3], pytest.approx([6, 2.4, 2])]


def test_money_and_pages(selector: Selector) -> None:
    report = selector.report()
    assert [row.revenue for row in report.links] == pytest.approx([300, 120, 100])
    assert (report.n_pages, report.n_open_pages, report.n_forgotten_pages) == (3, 3, 0)
    assert report.n_clipped == 1
    assert selector._pages.max_pages == 100


def test_chance_goes_on(selector: Selector) -> None:
    assert selector._rng.random() == 0.991956482930152


def test_open_pages_wait_for_what_is_missing(selector: Selector) -> None:
    selector.update(CLICKS_SETTLED, clicks=[7])  # said before
    with pytest.raises(InvalidFeedback, match=r"said before for this page \(\{'outlet': 12.5\}\)"):
        selector.update(REVENUE_SETTLED, revenue={})
    selector.update(CLICKS_SETTLED, revenue={7: 5.0})
    selector.update(REVENUE_SETTLED, clicks=["outlet", "spring-sale"])
    selector.update(UNSETTLED, clicks=["outlet"], revenue={"outlet": 1.0})
    assert selector.report().n_open_pages == 0
    known = knowledge(selector)
    assert known["views"] == [[101, 82, 60], [101, 82, 60]]
    assert known["sums"] == [[11, 25, 3], pytest.approx([6, 2.5, 2])]
    with pytest.raises(UnknownDecision):
        selector.update("0ec5e1f57ee76f13-4", clicks=[])


FORMAT_2 = FORMAT_1.with_name("selector-v2.sel")


def test_a_file_of_format_2_keeps_its_levels() -> None:
    selector = Selector.load(FORMAT_2)
    assert selector.links == ("spring-sale", 7, ("shop", 3))
    assert selector.problem == Problem(
        n_links=3,
        n_slots=2,
        levels=("click", "cart", "sale"),
        floors={"click": 0.5, "cart": 0.2},
        rewards={"click": 0.01, "sale": 1.0},
    )
    assert selector.policy == QueueTS(horizon=5000)
    known = knowledge(selector)
    assert known["views"] == [[100, 81, 0], [100, 80, 0], [100, 81, 0]]
    assert known["sums"] == [[10, 26, 0], [0, 6, 0], pytest.approx([0, 2.4, 0])]
    assert (known["queue"], known["rounds"]) == ([15.5, 15.0], [111, 110, 111])
    assert selector._rng.random() == 0.12857020276919962
    with pytest.raises(InvalidFeedback, match=r"said before for this page \(\{'outlet': 12.5\}\)"):
        selector.update("33cf9e87968dc0f7-2", sale={})
    selector.update("33cf9e87968dc0f7-1", cart=[7], sale={7: 5.0})
    selector.update_batch({"outlet": 10, 7: 4}, click={7: 1, "outlet": 2})
    assert knowledge(selector)["views"] == [[100, 85, 0], [100, 81, 0], [100, 82, 0]]
    assert len(selector._pages) == 2
