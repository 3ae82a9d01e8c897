from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise import CUCB, Selector
from slotwise.errors import InvalidInput, UnsupportedState
from slotwise.policies import visitor_rates
from slotwise.selector.selector_file import read_file, write_file

FEATURES: dict[str, Any] = {
    "device": ("phone", "desktop"),
    "country": str,
    "returning": bool,
    "days_since_visit": (1, 7, 30),
}
LINKS = ("a", "b", "c", "d", "e", "f")


N_PAGES = 400


def taught(n_pages: int = N_PAGES, n_open: int = 0) -> Selector:
    """Return a selector whose phones click on a and whose desktops click on b."""
    selector = Selector(LINKS, n_slots=1, click_floor=0.1, features=FEATURES, seed=1)
    rng = np.random.default_rng(1)
    for number in range(n_pages):
        visitor = {
            "device": str(rng.choice(["phone", "desktop"])),
            "country": str(rng.choice(["DE", "FR"])),
            "returning": bool(rng.random() < 0.5),
        }
        if number % 4 == 0:  # tests ask for pages of visitors of whom only the device is known
            visitor = {"device": visitor["device"]}
        page = selector.select(visitor=visitor)
        liked = "a" if visitor["device"] == "phone" else "b"
        clicks = [link for link in page.shown if rng.random() < (0.6 if link == liked else 0.05)]
        if number < n_pages - n_open:
            selector.update(page, clicks=clicks, revenue=dict.fromkeys(clicks, 0.5))
        else:
            selector.update(page, clicks=clicks)
    return selector


@pytest.fixture(scope="module")
def file_of_taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("taught") / "shop.slotwise"
    taught().save(path)
    return path


def test_each_visitor_gets_the_page_that_is_best_for_him(file_of_taught: Path) -> None:
    selector = Selector.load(file_of_taught)
    assert selector.select(visitor={"device": "phone"}).shown == ("a",)
    assert selector.select(visitor={"device": "desktop"}).shown == ("b",)
    assert len(selector.select().shown) == 1
    assert selector.select(visitor={"device": "phone", "country": "never seen"}).shown == ("a",)
    assert selector.select(visitor={"device": "phone"}, exclude=["a"]).shown != ("a",)
    assert selector.select(visitor={"device": "phone"}, pin=["c"]).shown == ("c",)


@pytest.mark.parametrize(
    ("visitor", "message"),
    [
        ({"browser": "lynx"}, r"`visitor` must be declared features only \(device, country, ret"),
        ({"returning": "yes"}, r"`visitor\['returning'\]` must be True, False or None"),
    ],
)
def test_a_visitor_that_cannot_be_is_refused_and_nothing_changes(
    visitor: dict[str, Any], message: str
) -> None:
    selector = Selector(LINKS, n_slots=1, features=FEATURES)
    with pytest.raises(InvalidInput, match=f"^{message}"):
        selector.select(visitor=visitor)
    assert selector.report().n_pages == 0


def test_without_features_nothing_can_be_said_of_a_visitor() -> None:
    selector = Selector(LINKS, n_slots=1)
    assert selector.select(visitor={}).shown
    with pytest.raises(InvalidInput, match=r"^`visitor` must be declared features only \(none is"):
        selector.select(visitor={"device": "phone"})


@pytest.mark.filterwarnings("ignore:'fridge' is not a value of the feature 'device'")
def test_odd_values_are_not_known_and_memory_is_bounded() -> None:
    selector = Selector(LINKS, n_slots=1, features=FEATURES, seed=1)
    for k in range(200):
        page = selector.select(
            visitor={"device": "fridge", "country": f"{k}" * 200, "days_since_visit": math.nan}
        )
        selector.update(page, clicks=[], revenue={})
    rows = {(row.feature, row.value): row.page_views for row in selector.report().segments}
    assert rows[("device", "(not known)")] == 200
    assert rows[("country", "(rare)")] == 200


def test_a_policy_without_context_takes_visitors_and_ignores_them() -> None:
    pages = []
    for features in (None, FEATURES):
        selector = Selector(LINKS, n_slots=2, policy=CUCB(), features=features, seed=3)
        for _ in range(30):
            visitor = {"device": "phone"} if features else None
            page = selector.select(visitor=visitor)
            selector.update(page, clicks=page.shown[:1], revenue={page.shown[0]: 0.2})
            pages.append(page.shown)
    assert pages[:30] == pages[30:]


def test_reports_say_for_whom_in_words_and_in_columns(file_of_taught: Path) -> None:
    report = Selector.load(file_of_taught).report()
    rows = {(row.feature, row.value): row for row in report.segments}
    phone, desktop = rows[("device", "phone")], rows[("device", "desktop")]
    assert phone.top_links == ("a",)
    assert desktop.top_links == ("b",)
    assert phone.page_views + desktop.page_views == N_PAGES
    assert phone.clicks.low < phone.clicks.estimate < phone.clicks.high
    assert phone.revenue.estimate == pytest.approx(0.5 * phone.clicks.estimate)
    assert "device phone: " in str(report)
    columns = report.segment_columns()
    assert len({len(column) for column in columns.values()}) == 1
    assert {"feature", "value", "page_views", "clicks", "clicks_low", "revenue_high"} <= set(
        columns
    )
    assert Selector(LINKS, n_slots=1).report().segments == ()


def test_a_saved_selector_goes_on_with_its_visitors(tmp_path: Path) -> None:
    selector = taught(100, n_open=20)
    selector.save(tmp_path / "shop.slotwise")
    loaded = Selector.load(tmp_path / "shop.slotwise")
    assert loaded.report().segments == selector.report().segments
    for k in range(60):
        visitor = {"device": ("phone", "desktop")[k % 2], "country": f"new {k % 3}"}
        one, other = selector.select(visitor=visitor), loaded.select(visitor=visitor)
        assert one.shown == other.shown
        for chooser, page in ((selector, one), (loaded, other)):
            chooser.update(page, clicks=page.shown, revenue={page.shown[0]: 0.1})
    waiting = [(page.number, page.visitor) for page in loaded._pages]
    assert len(waiting) == 20
    assert waiting == [(page.number, page.visitor) for page in selector._pages]


def test_late_feedback_is_learned_for_the_visitor_who_saw_the_page(tmp_path: Path) -> None:
    selector = Selector(LINKS, n_slots=1, features=FEATURES, seed=1)
    page = selector.select(visitor={"device": "phone"})
    selector.save(tmp_path / "shop.slotwise")
    loaded = Selector.load(tmp_path / "shop.slotwise")
    loaded.select(visitor={"device": "desktop"})
    loaded.update(page, clicks=page.shown, revenue={})
    rows = {
        row.value: row.page_views for row in loaded.report().segments if row.feature == "device"
    }
    assert rows == {"phone": 1}


def test_a_file_with_values_that_no_feature_has_is_refused(tmp_path: Path) -> None:
    selector = Selector(LINKS, n_slots=1, features=FEATURES, seed=1)
    selector.select(visitor={"device": "phone"})
    path = tmp_path / "shop.slotwise"
    selector.save(path)
    header, arrays = read_file(path)
    arrays["page_visitor"][0] = 999
    write_file(path, header, arrays)
    with pytest.raises(UnsupportedState, match="page_visitor has values that no feature has"):
        Selector.load(path)


def test_links_come_and_go_while_visitors_stay_known(file_of_taught: Path) -> None:
    selector = Selector.load(file_of_taught)
    before = {row.value: row.page_views for row in selector.report().segments}
    of_phones = selector.knowledge().arrays["tilt"][:, 2]
    selector.retire(["b"])
    selector.add_links(["g"])
    assert {row.value: row.page_views for row in selector.report().segments} == before
    known = dict(zip(LINKS, of_phones.T.tolist(), strict=True))
    of_phones = selector.knowledge().arrays["tilt"][:, 2]
    moved = dict(zip(selector.links, of_phones.T.tolist(), strict=True))
    assert moved == {**{link: known[link] for link in "acdef"}, "g": [0.0, 0.0]}
    assert selector.problem.feature_sizes == (3, 32, 3, 5)
    shown = {selector.select(visitor={"device": "desktop"}).shown[0] for _ in range(5)}
    assert "b" not in shown


def test_counts_without_visitors_are_refused_where_visitors_matter() -> None:
    selector = Selector(LINKS, n_slots=1, features=FEATURES)
    with pytest.raises(InvalidInput, match="`policy` must be a policy that learns from counts"):
        selector.update_batch({"a": 10}, {"a": 1}, {"a": 0.5})


def test_a_selector_saved_in_the_other_layout_goes_on_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one saved by a version that counted pairs of fewer values."""
    with monkeypatch.context() as before:
        before.setattr(visitor_rates, "MAX_NUMBERS", 0)
        saved = taught(200)
    assert saved.knowledge().arrays["has_pairs"].tolist() == [0.0]
    saved.save(tmp_path / "shop.slotwise")
    loaded = Selector.load(tmp_path / "shop.slotwise")
    for selector in (saved, loaded):
        selector.add_links(["g"])
        assert selector.knowledge().arrays["has_pairs"].tolist() == [0.0]
    visitors = [{"device": device} for device in ("phone", "desktop") for _ in range(10)]
    pages = [[one.select(visitor=said).shown for said in visitors] for one in (saved, loaded)]
    assert pages[0] == pages[1]
    assert taught(5).knowledge().arrays["has_pairs"].tolist() == [1.0]
