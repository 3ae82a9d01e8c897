"""Several threads, one selector: nothing is lost and nothing is counted twice."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from slotwise import Decision, Selector
from slotwise.rounds import Link
from tests.selector.selectors import new_selector

N_THREADS = 6
N_PAGES = 50


@pytest.fixture(autouse=True)
def _many_switches() -> Iterator[None]:
    """Let threads take turns as often as Python can, so that a missing lock shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[int], list[Decision]]) -> list[Decision]:
    """Run `work(thread number)` in several threads that start together."""
    ready = Barrier(N_THREADS)

    def start(number: int) -> list[Decision]:
        ready.wait()
        return work(number)

    with ThreadPoolExecutor(N_THREADS) as threads:
        return [page for pages in threads.map(start, range(N_THREADS)) for page in pages]


@pytest.mark.parametrize("policy", ["con-ucb", "uniform"])
def test_nothing_is_lost_or_counted_twice(policy: str) -> None:
    settings = {"links": range(12), "n_slots": 4, "max_revenue": 8.0, "slot_weights": "equal"}
    selector = new_selector(policy, **settings)

    def work(number: int) -> list[Decision]:
        rng = np.random.default_rng(number)
        pages = []
        for _ in range(N_PAGES):
            page = selector.select(pin=[3] if rng.random() < 0.2 else [])
            clicked = page.shown[0]
            selector.update(page, clicks=[clicked])
            selector.update(page.id, clicks=[clicked])
            selector.update(page, revenue={clicked: 2.0})
            selector.update(page, revenue={clicked: 2.0})
            pages.append(page)
        return pages

    pages = in_threads(work)
    n_pages = N_THREADS * N_PAGES
    assert len({page.id for page in pages}) == n_pages
    assert all(len(set(page.shown)) == 4 for page in pages)
    shown = Counter(link for page in pages for link in page.shown)
    clicked = Counter(page.shown[0] for page in pages)
    report = selector.report()
    assert (report.n_pages, report.n_open_pages) == (n_pages, 0)
    for row in report.links:
        assert row.views == row.revenue_views == shown[row.link]
        assert row.clicks == clicked[row.link]
        assert row.revenue == 2.0 * clicked[row.link]
    assert sum(row.views for row in report.links) == n_pages * 4


def test_every_thread_may_settle_the_same_pages() -> None:
    selector = new_selector(links=range(12), n_slots=4, slot_weights="equal")
    pages = [selector.select() for _ in range(N_PAGES)]

    def work(number: int) -> list[Decision]:
        for page in pages if number % 2 else reversed(pages):
            selector.update(page, clicks=[page.shown[0]])
            selector.update(page, revenue={page.shown[0]: 1.0})
        return []

    in_threads(work)
    report = selector.report()
    assert sum(row.views for row in report.links) == N_PAGES * 4
    assert sum(row.clicks for row in report.links) == N_PAGES
    assert sum(row.revenue for row in report.links) == N_PAGES


@pytest.mark.filterwarnings("ignore::slotwise.selector.floor_advice.FloorUnreachable")
def test_the_pool_may_change_while_pages_are_chosen() -> None:
    selector = new_selector(links=range(12), n_slots=4)

    def work(number: int) -> list[Decision]:
        mine: Link = f"link of thread {number}"
        pages = []
        for round_number in range(40):
            if round_number % 4 == 0:
                selector.add_links([mine])
            page = selector.select()
            selector.report()
            selector.update(page, clicks=[], revenue={})
            pages.append(page)
            if round_number % 4 == 3:
                selector.retire([mine])
        return pages

    pages = in_threads(work)
    assert all(len(set(page.shown)) == 4 for page in pages)
    assert all(sum(page.probabilities.values()) == pytest.approx(4) for page in pages)
    assert selector.links == tuple(range(12))
    report = selector.report()
    assert (report.n_pages, report.n_open_pages) == (N_THREADS * 40, 0)
    stayed = sum(isinstance(link, int) for page in pages for link in page.shown)
    assert sum(row.views for row in report.links) == stayed


def test_one_thread_is_unaffected_by_the_lock() -> None:
    def shown(selector: Selector) -> list[tuple[Link, ...]]:
        with ThreadPoolExecutor(1) as thread:
            return [thread.submit(selector.select).result().shown for _ in range(20)]

    selector = new_selector()
    assert shown(new_selector()) == [selector.select().shown for _ in range(20)]
