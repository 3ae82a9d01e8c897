"""The best page at given weights against sorting, warm from page to page."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.compile import compiled_first, hot
from slotwise.selection.mix import N_OPEN, N_SURE, N_TIED, TIED_SLOTS, dense_probabilities, new_mix
from slotwise.selection.page_search import (
    IS_LISTED,
    N_CANDIDATES,
    N_CERTAIN,
    SURE_CLICKS,
    Entries,
    Objective,
    Search,
    new_search,
)
from slotwise.selection.share_slots import take_top_links
from slotwise.selection.top_page import TIE, top_page

pytestmark = pytest.mark.compiled

Floats = NDArray[np.float64]


@compiled_first
@hot
def page_from(search: Search, value: Floats, clicks: Floats, n_slots: int, price: float) -> float:
    return top_page(Entries(value, clicks, len(value)), n_slots, Objective(1.0, price), search)[0]


def check_page(search: Search, value: Floats, clicks: Floats, n_slots: int, price: float) -> None:
    """Compare the page in `search` with the order of all scores, ties going to more clicks."""
    score = value + price * clicks
    order = sorted(range(len(value)), key=lambda i: (-score[i], -clicks[i]))
    n_certain, n_candidates = search.sizes[N_CERTAIN], search.sizes[N_CANDIDATES]
    page = search.entry[:n_slots]
    assert len(set(search.entry[:n_candidates].tolist())) == n_candidates
    best = [(score[i], clicks[i]) for i in order[:n_slots]]
    assert sorted(((score[i], clicks[i]) for i in page), reverse=True) == best
    last = page[-1]
    assert (score[last], clicks[last]) == best[-1]
    ties = np.flatnonzero(np.abs(score - score[last]) <= TIE * score[last])
    assert set(ties.tolist()) <= set(search.entry[:n_candidates].tolist())
    certain = search.entry[:n_certain]
    assert np.all(score[certain] > score[last] + TIE * score[last])
    assert search.numbers[SURE_CLICKS] == pytest.approx(clicks[certain].sum(), abs=1e-12)


@pytest.mark.parametrize("n_levels", [3, 20, 10**9], ids=["3 values", "20 values", "all differ"])
@pytest.mark.parametrize("n_links", [5, 70, 400, 1_700])
def test_pages_are_those_of_sorting(n_links: int, n_levels: int) -> None:
    rng = np.random.default_rng(n_links)
    value = rng.integers(0, n_levels, n_links) / n_levels
    clicks = rng.integers(0, n_levels, n_links) / n_levels
    for n_slots in {1, n_links // 4 + 1, n_links - 1, n_links}:
        search = new_search(n_links)
        for _ in range(25):
            price = float(rng.choice([0.0, 0.5, rng.random()]))
            page_from(search, value, clicks, n_slots, price)
            check_page(search, value, clicks, n_slots, price)
            changed = rng.integers(0, n_links, 3)
            value[changed] = rng.integers(0, n_levels, 3) / n_levels


@compiled_first
@hot
def take(value: Floats, n_slots: int, search: Search, mix: object) -> None:
    take_top_links(value, value, 0.0, n_slots, search, mix)  # type: ignore[arg-type]


def test_many_links_that_tie_are_one_group() -> None:
    value = np.full(1000, 0.25)
    value[[7, 300]] = 0.5, 0.75
    search, mix = new_search(1000), new_mix(1000)
    take(value, 5, search, mix)
    assert (mix.sizes[N_OPEN], mix.sizes[N_TIED], mix.sizes[TIED_SLOTS]) == (0, 998, 3)
    probabilities = dense_probabilities(mix)
    assert probabilities[[7, 300]].tolist() == [1.0, 1.0]
    assert np.delete(probabilities, [7, 300]) == pytest.approx(3 / 998)


@pytest.mark.parametrize("n_links", [70, 400, 1_700])
def test_pages_that_end_in_a_group_are_those_of_a_first_search(n_links: int) -> None:
    rng = np.random.default_rng(n_links)
    search, mix, n_groups = new_search(n_links), new_mix(n_links), 0
    for round_number in range(60):
        value = rng.integers(0, 2 + round_number % 6, n_links) / 8.0
        value[rng.integers(0, n_links, 3)] *= 1.0 + rng.choice([1e-15, 1e-9])  # nearly ties
        before = bool(8 * search.sizes[N_CANDIDATES] > n_links)
        take(value, 3, search, mix)
        assert not (before and n_links > 600 and search.sizes[IS_LISTED])
        fresh = new_mix(n_links)
        take(value, 3, new_search(n_links), fresh)
        assert mix.sizes.tolist() == fresh.sizes.tolist()
        for part, size in (("sure", N_SURE), ("open", N_OPEN), ("tied", N_TIED)):
            n_used = mix.sizes[size]
            assert np.array_equal(getattr(mix, part)[:n_used], getattr(fresh, part)[:n_used])
        n_groups += before and mix.sizes[N_TIED] > 0
    assert n_groups > 10


def test_what_is_guessed_of_the_next_page_stays_in_bounds() -> None:
    # a page of all links is never jumped over, so nothing refutes ever larger jumps
    value, clicks, search = np.zeros(9), np.zeros(9), new_search(9)
    for k in range(10_000):
        value[:] = 0.5 if k % 2 else 1e-9
        page_from(search, value, clicks, 9, 0.0)
    assert np.all(np.abs(search.numbers) <= 1.0)


@pytest.mark.parametrize("infinite", [np.inf, -np.inf])
@pytest.mark.parametrize(("n_links", "n_slots"), [(5, 2), (300, 5), (300, 60), (1_700, 20)])
def test_scores_may_be_infinite(n_links: int, n_slots: int, infinite: float) -> None:
    rng = np.random.default_rng(n_links)
    search, clicks = new_search(n_links), np.zeros(n_links)
    for share in (0.0, 0.01, 0.5, 0.99, 1.0, 0.0):
        value = rng.random(n_links)
        value[rng.random(n_links) < share] = infinite
        page_from(search, value, clicks, n_slots, 0.5)
        page = search.entry[:n_slots].tolist()
        assert len(set(page)) == n_slots
        assert sorted(value[page]) == sorted(value)[-n_slots:]
        n_candidates = search.sizes[N_CANDIDATES]
        ties = np.flatnonzero(value == min(value[page]))
        assert set(ties.tolist()) <= set(search.entry[:n_candidates].tolist())
