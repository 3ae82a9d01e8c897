"""A service with more pools than the dashboard lists on one page, in a real browser."""

from __future__ import annotations

import csv
from pathlib import Path

import httpx
from playwright.sync_api import expect

from tests.browser.conftest import Watched
from tests.browser.simulated_day import POOL

N_POOLS = 57


def test_pools_are_listed_page_by_page(
    watched: Watched, admin: httpx.Client, tmp_path: Path
) -> None:
    names = [f"pool-{k:02}" for k in range(N_POOLS)]
    for name in names:
        admin.put(f"/v1/pools/{name}", json=POOL).raise_for_status()
    page = watched.open(names[0])
    page.locator("#pool").select_option("")
    rows, pages = page.locator("#all-pools tbody tr"), page.locator("#all-pools .pages")
    expect(rows).to_have_count(50)
    expect(pages.locator(".page-number")).to_have_text("1 to 50 of 57")
    expect(pages.get_by_role("button", name="Previous")).to_be_disabled()
    pages.get_by_role("button", name="Next").click()
    expect(rows).to_have_count(7)
    expect(pages.locator(".page-number")).to_have_text("51 to 57 of 57")
    expect(pages.get_by_role("button", name="Next")).to_be_disabled()
    with page.expect_download() as download:
        page.locator("#all-pools .csv").click()
    download.value.save_as(tmp_path / "pools.csv")
    with (tmp_path / "pools.csv").open(newline="", encoding="utf-8-sig") as file:
        assert [row["pool"] for row in csv.DictReader(file)] == names
    pages.get_by_role("button", name="Previous").click()
    expect(rows).to_have_count(50)
