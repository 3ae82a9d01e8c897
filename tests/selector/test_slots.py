"""Slots that differ: pages in slot order, weights learned while serving, logged and saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

import slotwise
from slotwise.errors import InvalidInput, UnsupportedState
from slotwise.policies import POLICIES

pytestmark = pytest.mark.compiled

LINKS = [f"link {k}" for k in range(12)]
RATES = dict(zip(LINKS, np.linspace(0.02, 0.35, 12).tolist(), strict=True))
WEIGHTS = [0.6, 2.4, 0.9, 0.1]
"""The best slot is the second one, the worst almost never seen."""


def selector(slot_weights: Any, **changes: Any) -> slotwise.Selector:
    wanted: dict[str, Any] = {"click_floor": 0.3, "seed": 1, **changes}
    return slotwise.Selector(LINKS, 4, slot_weights=slot_weights, **wanted)


def play(chooser: slotwise.Selector, n_pages: int, seed: int = 7) -> list[slotwise.Decision]:
    rng, pages = np.random.default_rng(seed), []
    for _ in range(n_pages):
        page = chooser.select()
        clicked = [
            link
            for link, weight in zip(page.shown, WEIGHTS, strict=True)
            if rng.random() < weight * RATES[link]  # type: ignore[index]
        ]
        chooser.update(page, clicks=clicked, revenue=dict.fromkeys(clicked, 0.5))
        pages.append(page)
    return pages


def test_known_weights_put_the_best_links_into_the_best_slots() -> None:
    chooser = selector(WEIGHTS)
    play(chooser, 1500)
    shown = chooser.select().shown
    best_first = [shown[slot] for slot in (1, 2, 0, 3)]
    assert best_first[0] == "link 11"
    estimates = {row.link: row.revenue_rate.estimate for row in chooser.report().links}
    assert estimates[best_first[0]] > estimates[best_first[-1]]


def test_rates_are_those_of_the_average_slot() -> None:
    # more than 1,500 views counted as exposure: a rate of 0.35 is off by 0.09, 6 standard errors,
    # with probability 1e-9
    chooser = selector(WEIGHTS)
    play(chooser, 3000)
    row = next(row for row in chooser.report().links if row.link == "link 11")
    assert row.views > 1500
    assert row.click_rate.estimate == pytest.approx(RATES["link 11"], abs=0.09)


def test_weights_are_learned_and_reported() -> None:
    chooser = selector("learn")
    play(chooser, 3000)
    report = chooser.report()
    weights = [row.weight for row in report.slots]
    assert np.argsort(weights).tolist() == [3, 0, 2, 1]
    assert sum(weights) == pytest.approx(4.0)
    for row in report.slots:
        assert row.low < row.weight < row.high
    assert "slot weights: " in str(report)
    assert report.slot_columns()["slot"] == [1, 2, 3, 4]


def test_a_report_says_which_link_stands_where() -> None:
    chooser = selector(WEIGHTS, policy="cucb")  # its pages do not depend on open ones
    play(chooser, 3000)
    report = chooser.report()
    pages = [chooser.select().shown for _ in range(300)]
    for row in report.slots:
        stood = sum(page[row.slot - 1] == row.link for page in pages) / len(pages)
        # two shares, of 64 and of 300 pages: 0.35 is 5 standard errors of their difference
        assert row.share == pytest.approx(stood, abs=0.35)
    best = report.slots[int(np.argmax(WEIGHTS))]
    assert best.share > 0.6
    assert f"slot {best.slot} {best.link} ({best.share:.0%})" in str(report)
    columns = report.slot_columns()
    assert columns["link"] == [row.link for row in report.slots]
    assert chooser.report().slots == chooser.report().slots


def test_known_weights_are_reported_as_they_are() -> None:
    report = selector(WEIGHTS).report()
    assert [row.weight for row in report.slots] == pytest.approx(WEIGHTS)
    assert [(row.low, row.high) for row in report.slots] == [
        (row.weight, row.weight) for row in report.slots
    ]


def test_only_pages_in_random_order_teach_weights() -> None:
    chooser = selector("learn", explore=0.1)
    play(chooser, 400)
    counted = sum(row.clicks for row in chooser.report().slots)
    all_clicks = sum(row.clicks for row in chooser.report().links)
    assert 40 <= counted < all_clicks


@pytest.mark.parametrize("explore", [0.0, 0.3])
def test_probabilities_are_exact_where_slots_differ(explore: float) -> None:
    # Every link is drawn with the probability that its page says: over 2,500 pages the sum of
    # (is shown - probability) has a standard deviation of at most 25; 160 are 6.4 of them
    chooser = selector("learn", explore=explore)
    missing = dict.fromkeys(LINKS, 0.0)
    for page in play(chooser, 2500):
        for link in LINKS:
            missing[link] += (link in page.shown) - page.probabilities[link]
    assert max(abs(number) for number in missing.values()) < 160


def test_in_random_order_every_link_is_as_often_in_every_slot() -> None:
    # nothing is fed back, so all 3,000 pages are in random order: 1,000 pages have a link, 250
    # in each slot, standard deviation 15.1; 100 are 6.6 of them
    chooser = selector("learn", policy="uniform")
    places = {link: [0] * 4 for link in LINKS}
    for _ in range(3000):
        for slot, link in enumerate(chooser.select().shown):
            places[link][slot] += 1  # type: ignore[index]
    assert max(abs(count - 250) for counts in places.values() for count in counts) < 100


@pytest.mark.parametrize("weights", ["learn", WEIGHTS])
@pytest.mark.parametrize("features", [None, {"device": ("phone", "desktop")}])
def test_a_saved_selector_goes_on_page_for_page(
    weights: Any, features: Any, tmp_path: Path
) -> None:
    chooser = selector(weights, features=features)
    play(chooser, 200)
    still_open = [chooser.select() for _ in range(3)]
    chooser.save(tmp_path / "selector")
    loaded = slotwise.Selector.load(tmp_path / "selector")
    for one in (chooser, loaded):
        for page in still_open:
            one.update(page.id, clicks=page.shown[:1], revenue={})
    assert [row.weight for row in loaded.report().slots] == [
        row.weight for row in chooser.report().slots
    ]
    for expected, page in zip(play(chooser, 50), play(loaded, 50), strict=True):
        assert page.shown == expected.shown


def test_a_file_with_impossible_slots_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "selector"
    chooser = selector("learn")
    chooser._player.slots.order.clicks[0] = np.nan
    chooser.save(path)
    with pytest.raises(UnsupportedState, match="slot_clicks must be counts"):
        slotwise.Selector.load(path)


def test_retired_links_keep_their_slots() -> None:
    chooser = selector([3.0, 1.0, 1.0, 1.0])
    page = chooser.select()
    chooser.retire([page.shown[0]])
    chooser.update(page, clicks=[page.shown[1]], revenue={})
    counted = [
        chooser.knowledge().counts.views[0, chooser.links.index(link)] for link in page.shown[1:]
    ]
    assert counted == pytest.approx([4 / 6] * 3)


def test_the_log_has_slots_and_says_which_pages_were_in_random_order(tmp_path: Path) -> None:
    chooser = selector("learn", explore=0.05)
    play(chooser, 150)
    chooser.log_to(tmp_path / "log")
    pages = play(chooser, 300)
    chooser.close_log()
    rows = pyarrow.parquet.read_table(tmp_path / "log").to_pylist()
    assert len(rows) == 4 * 300
    for k, page in enumerate(pages):
        for slot, row in enumerate(rows[4 * k : 4 * k + 4]):
            assert (row["page_id"], row["slot"], row["link"]) == (
                page.id,
                slot + 1,
                page.shown[slot],
            )
            assert row["probability"] == page.probabilities[page.shown[slot]]
    random = sum(row["random_order"] for row in rows) / len(rows)
    assert 0.0 < random < 0.5


@pytest.mark.parametrize("weights", [None, "equal"])
def test_a_log_says_where_links_stood_and_whether_by_chance(weights: Any, tmp_path: Path) -> None:
    chooser = selector(weights, explore=0.05)
    chooser.log_to(tmp_path / "log")
    play(chooser, 5)
    chooser.close_log()
    log = pyarrow.parquet.read_table(tmp_path / "log").to_pydict()
    assert log["slot"] == [1, 2, 3, 4] * 5
    assert all(log["random_order"])


def test_a_displayed_order_is_what_is_learned_and_logged(tmp_path: Path) -> None:
    chooser = selector(WEIGHTS)
    chooser.log_to(tmp_path / "log")
    page = chooser.select()
    turned = page.shown[::-1]
    chooser.update(page, shown=turned)
    chooser.update(page, clicks=[turned[0]], shown=list(turned))
    chooser.update(page, revenue={})
    counts = dict(zip(LINKS, chooser.knowledge().counts.views[0].tolist(), strict=True))
    assert [counts[link] for link in turned] == pytest.approx(WEIGHTS)  # type: ignore[index]
    chooser.close_log()
    log = pyarrow.parquet.read_table(tmp_path / "log").to_pydict()
    assert log["link"] == list(turned)
    assert log["clicked"] == [True, False, False, False]
    assert log["probability"] == [page.probabilities[link] for link in turned]


def test_an_order_that_was_not_random_teaches_no_weights() -> None:
    """A caller who sorts pages by some rule of its own must not make slots look better."""
    chooser = selector("learn")
    for _ in range(100):
        page = chooser.select()
        order = sorted(page.shown)  # type: ignore[type-var]
        chooser.update(page, clicks=order[:1], revenue={}, shown=order)
    assert sum(row.clicks for row in chooser.report().slots) < 25


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        (LINKS[:3], "`shown` must be the links of the page"),
        (["link 0"] * 4, "`shown` must be the links of the page"),
        ("link 0", "`shown` must be a collection of links"),
        (dict.fromkeys(LINKS[:4]), "`shown` must be a list of links in the order of display"),
        ({*LINKS[:4]}, "`shown` must be a list of links in the order of display"),
        (None, "`shown` must be given with the first feedback"),
    ],
)
def test_a_displayed_order_is_one_of_the_page(shown: Any, message: str) -> None:
    chooser = selector("learn")
    page = chooser.select()
    if shown is None:
        chooser.update(page, clicks=[])
        shown = page.shown[::-1]
    with pytest.raises(ValueError, match=message):
        chooser.update(page, revenue={}, shown=shown)
    assert chooser.report().n_open_pages == 1


def test_ties_between_slots_survive_a_file(tmp_path: Path) -> None:
    """As many clicks in every slot, the last first: all weights are 1."""
    chooser = selector("learn", explore=0.0)
    for slot in (3, 2, 1, 0) * 12:
        page = chooser.select()
        chooser.update(page, clicks=[page.shown[slot]], revenue={page.shown[slot]: 0.1})
    assert {row.weight for row in chooser.report().slots} == {1.0}
    chooser.save(tmp_path / "selector")
    loaded = slotwise.Selector.load(tmp_path / "selector")
    assert [page.shown for page in play(chooser, 80)] == [page.shown for page in play(loaded, 80)]


def test_counts_have_no_slots() -> None:
    chooser = selector(WEIGHTS, policy="cucb")
    with pytest.raises(InvalidInput, match=r'must be "learn" or "equal" for feedback as counts'):
        chooser.update_batch({LINKS[0]: 3}, clicks={LINKS[0]: 1})
    chooser = selector(None, policy="cucb")
    chooser.update_batch({LINKS[0]: 3}, clicks={LINKS[0]: 1})
    assert chooser.knowledge().counts.views[0, 0] == 3.0


def test_pinned_and_excluded_links_work_where_slots_differ() -> None:
    chooser = selector("learn")
    play(chooser, 300)
    for _ in range(20):
        page = chooser.select(pin=["link 0"], exclude=["link 11"])
        assert "link 0" in page.shown
        assert "link 11" not in page.shown
        assert len(page.shown) == 4


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "fixed-mix"])
def test_every_policy_serves_slots_that_differ(name: str) -> None:
    chooser = selector("learn", policy=name, horizon=1000)
    pages = play(chooser, 150)
    assert all(len(set(page.shown)) == 4 for page in pages)
    assert abs(sum(row.weight for row in chooser.report().slots) - 4.0) < 1e-9


def test_nothing_said_of_slots_is_to_learn_them() -> None:
    asked = [page.shown for page in play(selector("learn"), 60)]
    assert [page.shown for page in play(selector(None), 60)] == asked
    unsaid = slotwise.Selector(LINKS, 4, click_floor=0.3, seed=1)
    assert [page.shown for page in play(unsaid, 60)] == asked


def test_equal_slots_are_shuffled() -> None:
    """Of 2,000 pages each of 4 links stands in a slot 500 times, give or take 20; 130 is 6.5."""
    plain = play(selector("equal"), 60)
    for weights in ([1.0] * 4, [3, 3, 3, 3]):
        assert [page.shown for page in play(selector(weights), 60)] == [p.shown for p in plain]
    chooser = slotwise.Selector(LINKS[:4], 4, slot_weights="equal", seed=1)
    pages = [chooser.select().shown for _ in range(2000)]
    for slot in range(4):
        for link in LINKS[:4]:
            assert abs(sum(page[slot] == link for page in pages) - 500) < 130
    assert chooser.report().slots == ()


def test_a_file_of_pages_without_order_goes_on_so(tmp_path: Path) -> None:
    """A selector that was saved before slots were learned by default has no slot weights."""
    chooser = selector(())
    play(chooser, 60)
    chooser.save(tmp_path / "selector")
    loaded = slotwise.Selector.load(tmp_path / "selector")
    assert loaded.problem.slot_weights == ()
    assert [page.shown for page in play(chooser, 30)] == [page.shown for page in play(loaded, 30)]


def test_one_slot_needs_no_order() -> None:
    alone = slotwise.Selector(LINKS, 1, slot_weights="learn", seed=1)
    assert alone.report().slots == ()
