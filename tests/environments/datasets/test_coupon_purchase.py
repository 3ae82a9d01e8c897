from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slotwise.environments.datasets import load_dataset, source_files
from slotwise.errors import InvalidInput, MissingData

SMALL_PAGE = {"n_slots": 1, "click_floor": 0.1}
VISITS = {"a": (8, 2), "b": (4, 4), "c": (2, 0), "d": (2, 1), "gone": (5, 1), "lost": (1, 0)}
DAYS = {"a": 4, "b": 1, "c": 0, "d": 2, "never-viewed": 3}


def write(directory: Path, visit_rows: str = "", list_rows: str = "") -> Path:
    """Write both files with some of Ponpare's columns: views and purchases as in VISITS."""
    visits = "PURCHASE_FLG,I_DATE,VIEW_COUPON_ID_hash,USER_ID_hash\n"
    for coupon, (n_views, n_purchases) in VISITS.items():
        for place in range(n_views):
            visits += f"{int(place < n_purchases)},2012-03-28 14:15:00,{coupon},u{place}\n"
    coupons = "CAPSULE_TEXT,DISPFROM,DISPEND,DISPPERIOD,COUPON_ID_hash\n"
    for coupon, days in DAYS.items():
        coupons += f'"宅配, 食品",2012-01-01,2012-01-05,{days},{coupon}\n'
    (directory / "coupon_visit_train.csv").write_text(visits + visit_rows, encoding="utf-8")
    (directory / "coupon_list_train.csv").write_text(coupons + list_rows, encoding="utf-8")
    return directory


def test_the_most_viewed_listed_coupons_are_taken(tmp_path: Path) -> None:
    dataset = load_dataset("coupon-purchase", write(tmp_path), n_links=3, **SMALL_PAGE)
    assert dataset.link_names == ("a", "b", "c")
    np.testing.assert_allclose(dataset.click_rate, [1, 1 / 3, 0])
    np.testing.assert_allclose(dataset.revenue_per_click, [0.25, 1, 0])


def test_visits_to_unlisted_coupons_are_dropped_and_counted(tmp_path: Path) -> None:
    dataset = load_dataset("coupon-purchase", write(tmp_path), **SMALL_PAGE)
    assert dataset.link_names == ("a", "b", "c", "d")
    assert "dropped 6 visits to 2 coupons that are not listed" in dataset.notes


def test_views_may_be_counted_a_display_day(tmp_path: Path) -> None:
    """Views a day are 2, 4, 2 (a display of 0 days counts as one) and 1."""
    options = {"click_rate": "views-per-day", **SMALL_PAGE}
    dataset = load_dataset("coupon-purchase", write(tmp_path), **options)
    np.testing.assert_allclose(dataset.click_rate, [0.5, 1, 0.5, 0.25])


def test_short_displays_can_be_left_out(tmp_path: Path) -> None:
    dataset = load_dataset("coupon-purchase", write(tmp_path), min_display_days=2, **SMALL_PAGE)
    assert dataset.link_names == ("a", "d")


def test_blocks_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = load_dataset("coupon-purchase", write(tmp_path), **SMALL_PAGE)
    monkeypatch.setattr(source_files, "BLOCK_BYTES", 50)
    blocks = load_dataset("coupon-purchase", tmp_path, **SMALL_PAGE)
    assert np.array_equal(whole.click_rate, blocks.click_rate)
    assert np.array_equal(whole.revenue_per_click, blocks.revenue_per_click)


def test_the_papers_settings_are_the_defaults(tmp_path: Path) -> None:
    rows = "".join(f"0,2012-03-28,more{coupon:03},u\n" * (coupon + 9) for coupon in range(280))
    listed = "".join(f"x,2012-01-01,2012-01-05,4,more{coupon:03}\n" for coupon in range(280))
    dataset = load_dataset("coupon-purchase", write(tmp_path, rows, listed))
    assert (dataset.n_links, dataset.n_slots) == (271, 15)
    assert (dataset.click_floor, dataset.failure_probability) == (4.0, 0.01)
    assert dataset.link_names is not None
    assert dataset.link_names[0] == "more279"


@pytest.mark.parametrize(
    ("visit_rows", "list_rows", "message"),
    [
        ("2,d,a,u\n", "", "`PURCHASE_FLG` must be 0 or 1, got '2'; see row 23 of coupon_visit"),
        ("1,d,,u\n", "", "`VIEW_COUPON_ID_hash` must be an identifier, got None; see row 23"),
        ("", "x,f,e,NA,z\n", "`DISPPERIOD` must be a number from 0 up, got 'NA'; see row 6"),
        ("", "x,f,e,3,a\n", "`COUPON_ID_hash` must be an identifier that occurs once, got 'a'"),
    ],
)
def test_a_bad_cell_is_named_with_its_row(
    visit_rows: str, list_rows: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=message):
        load_dataset("coupon-purchase", write(tmp_path, visit_rows, list_rows))


@pytest.mark.parametrize("name", ["coupon_visit_train.csv", "coupon_list_train.csv"])
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    (write(tmp_path) / name).unlink()
    with pytest.raises(MissingData, match=f'`{name}` must be in .*"Coupon Purchase Prediction"'):
        load_dataset("coupon-purchase", tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"click_rate": "clicks"}, "`click_rate` must be views or views-per-day, got 'clicks'"),
        ({"n_links": 0}, "`n_links` must be at least 1, got 0"),
        ({"min_display_days": 9}, "`min_display_days` must be low enough .* got 9"),
    ],
)
def test_options_are_checked(options: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=message):
        load_dataset("coupon-purchase", write(tmp_path), **options)
