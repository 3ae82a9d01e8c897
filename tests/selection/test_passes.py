"""Passes over arrays in machine code against the same in plain Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.compile import compiled_first, hot
from slotwise.compile.decorators import LANES, WINDOW, WORD, options_of
from slotwise.selection import passes
from slotwise.selection.mix import new_places
from slotwise.selection.passes import (
    LINE,
    aligned_zeros,
    first_above,
    list_at_least,
    list_marked,
    neighbours,
    page_sums,
    running_sums,
    score_all,
    split_page,
    total_of,
    total_of_products,
)

pytestmark = pytest.mark.compiled

Floats = NDArray[np.float64]
Links = NDArray[np.int64]


@compiled_first
@hot
def compiled_neighbours(scores: Floats, n_blocks: int, bound: float) -> tuple[float, float, int]:
    return neighbours(scores, n_blocks, bound)


@compiled_first
@hot
def compiled_sums(
    scores: Floats, value: Floats, clicks: Floats, n_links: int, bound: float, last: float
) -> tuple[int, float, float, float]:
    return page_sums(scores, value, clicks, n_links, bound, last)


@compiled_first
@hot
def compiled_score_all(
    value: Floats, clicks: Floats, n_links: int, bound: float, scores: Floats
) -> tuple[float, float, int]:
    return score_all(value, clicks, n_links, 0.75, 0.3, bound, scores)


@compiled_first
@hot
def compiled_split(
    scores: Floats, n_words: int, certain: float, least: float, places: Links, ties: Links
) -> tuple[int, int]:
    return split_page(scores, n_words, certain, least, places, ties)


@compiled_first
@hot
def compiled_list(
    value: Floats, clicks: Floats, n: int, cut: float, listed: Links, first: Floats, second: Floats
) -> int:
    return list_at_least(value, clicks, n, 1.0, 0.7, cut, listed, first, second)


@compiled_first
@hot
def compiled_above(sums: Floats, start: int, bound: float) -> int:
    return first_above(sums, start, bound)


def padded(n_links: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Return scores with ties, values and clicks in whole words."""
    rng = np.random.default_rng(seed)
    value, clicks = rng.integers(0, 40, (2, -(-n_links // WORD) * WORD)) / 40
    scores = value + 0.7 * clicks
    scores[n_links:] = -np.inf
    return scores, value, clicks


SIZES = [1, 7, LANES - 1, LANES, LANES + 13, WORD - 1, WORD, WORD + 1, 225, 290]


def test_counts_sums_and_neighbours_of_a_score() -> None:
    for n_links in SIZES:
        scores, value, clicks = padded(n_links, n_links)
        n_blocks = (n_links + LANES - 1) // LANES
        for bound in (-np.inf, -1.0, scores[0], scores.max(), 0.8, 5.0):
            expected = neighbours(scores, n_blocks, bound)
            assert compiled_neighbours(scores, n_blocks, bound) == expected
            above, below = scores[scores > bound], scores[scores <= bound]
            nearest = (below.max(initial=-np.inf), above.min(initial=np.inf))
            assert expected == (*nearest, len(above))
            last = scores[n_links // 2]
            sums = page_sums(scores, value, clicks, n_links, bound, last)
            assert compiled_sums(scores, value, clicks, n_links, bound, last) == sums
            if bound > -np.inf:
                reaching = scores >= bound
                wanted = (reaching.sum(), value[reaching].sum(), clicks[reaching].sum())
                assert sums[:3] == pytest.approx(wanted, rel=1e-12)
                assert sums[3] == clicks[scores == last].max()


def test_the_two_parts_of_a_page() -> None:
    for n_links in SIZES:
        scores, _, _ = padded(n_links, n_links)
        for certain, least in ((0.9, 0.8), (0.5, 0.5), (9.0, -1.0), (9.0, 8.0), (-1.0, -2.0)):
            rooms: Any = np.zeros((2, 2, len(scores) + 1), np.int64)
            n_words = len(scores) // WORD
            counts = compiled_split(scores, n_words, certain, least, *rooms[0])
            assert counts == split_page(scores, n_words, certain, least, *rooms[1])
            for one_room, other_room, count in zip(*rooms, counts, strict=True):
                assert np.array_equal(one_room[:count], other_room[:count])
            assert rooms[0][0][: counts[0]].tolist() == np.flatnonzero(scores >= certain).tolist()


def test_lists_reach_the_last_link_and_no_further() -> None:
    for n_links in [WORD, WORD + 1, 100, 2 * WORD, 290]:
        _, value, clicks = padded(n_links, n_links)
        value, clicks = value[:n_links].copy(), clicks[:n_links].copy()
        for cut in (-np.inf, 0.3, 1.0, 9.0):
            rooms = [(np.zeros(n_links, np.int64), *np.zeros((2, n_links))) for _ in range(2)]
            n_listed = compiled_list(value, clicks, n_links, cut, *rooms[0])
            assert n_listed == list_at_least(value, clicks, n_links, 1.0, 0.7, cut, *rooms[1])
            for one, other in zip(*rooms, strict=True):
                assert np.array_equal(one, other)
            wanted = np.flatnonzero(value + 0.7 * clicks >= cut)
            assert rooms[0][0][:n_listed].tolist() == wanted.tolist()


def test_scores_that_are_counted_at_once() -> None:
    for n_links in [LANES, LANES + 1, 2 * LANES - 1, 2 * LANES, 225, 290]:
        _, value, clicks = padded(n_links, n_links)
        value, clicks = value[:n_links].copy(), clicks[:n_links].copy()
        expected = 0.75 * value + 0.3 * clicks
        for bound in (-np.inf, 0.0, 0.5, expected[0], expected[-1], expected.max(), np.inf):
            rooms: Any = np.zeros((2, n_links + WORD))
            found = compiled_score_all(value, clicks, n_links, bound, rooms[0])
            assert found == score_all(value, clicks, n_links, 0.75, 0.3, bound, rooms[1])
            assert found == (
                float(expected[expected <= bound].max(initial=-np.inf)),
                float(expected[expected > bound].min(initial=np.inf)),
                int(np.count_nonzero(expected > bound)),
            )
            assert np.array_equal(rooms[0], rooms[1])
            assert rooms[0][:n_links].tolist() == expected.tolist()
            assert np.all(rooms[0][n_links:] == -np.inf)


def test_the_first_sum_above_a_bound() -> None:
    for n_sums in [1, 5, WINDOW, WINDOW + 1, 290]:
        sums = np.zeros(n_sums + WINDOW)
        sums[:n_sums] = np.cumsum(np.random.default_rng(n_sums).random(n_sums) < 0.5) + 1.0
        for start in range(n_sums):
            for bound in (0.0, sums[n_sums - 1] / 2, sums[n_sums - 1] - 0.5):
                expected = start + int(np.argmax(sums[start:] > bound))
                assert compiled_above(sums, start, bound) == expected
                assert first_above(sums, start, bound) == expected


def _is_vector_pass(value: Any) -> bool:
    options = options_of(value)
    return options is not None and options.is_vector_pass


def test_every_pass_is_compared() -> None:
    found = {name for name, value in vars(passes).items() if _is_vector_pass(value)}
    # sums of weights are compared with their policy, in test_exponential_weights
    compared = {"list_at_least", "neighbours", "page_sums", "score_all", "split_page", "sum_below"}
    assert found == {"first_above", *compared}


def test_aligned_zeros_start_with_a_line_of_memory() -> None:
    for n_numbers in (1, 7, 290):
        zeros = aligned_zeros(n_numbers)
        assert zeros.tolist() == [0.0] * n_numbers
        assert zeros.flags.c_contiguous
        assert zeros.ctypes.data % LINE == 0


@compiled_first
@hot
def compiled_marked(marks: NDArray[np.bool_], listed: Links) -> int:
    return list_marked(marks, listed)


def test_marked_links_are_listed_in_their_order() -> None:
    rng = np.random.default_rng(1)
    for n_links in (1, 2, 63, 64, 65, 100, 127, 128, 129, 271, 1_000):
        for share in (0.0, 0.02, 0.3, 0.97, 1.0):
            marks = rng.random(n_links) < share
            listed = np.full(n_links + 1, -1)
            count = compiled_marked(marks, listed)
            assert listed[:count].tolist() == np.flatnonzero(marks).tolist()
    listed = np.full(80, -7)
    assert compiled_marked(np.ones(70, np.bool_), listed) == 70
    assert listed[71:].tolist() == [-7] * 9


@compiled_first
@hot
def compiled_running(entries: Floats, n: int, n_slots: int, sums: Floats, places: Links) -> int:
    return running_sums(entries, n, n_slots, sums, places)


N_ENTRIES = (0, 1, 7, 8, 9, 32, 63, 64, 65, 127, 128, 225, 271, 290)


def scratch(n_entries: int) -> tuple[Floats, Links]:
    """Return arrays with a mark behind what may be written."""
    sums, places = np.zeros(n_entries + 2), np.append(new_places(n_entries), 0)
    sums[-1], places[-1] = -7.0, -7
    return sums, places


def test_running_sums_and_places_are_those_of_the_twin() -> None:
    for n_entries in N_ENTRIES:
        for n_slots in (1, 4, 15, 60, 500):
            rng = np.random.default_rng(n_entries + 1_000 * n_slots)
            shares = rng.gamma(0.5, size=n_entries + 3) * n_slots / (n_entries + 1)
            entries = np.minimum(1.0, shares)
            entries[rng.random(len(entries)) < 0.1] = 0.0
            (sums, places), (expected, listed) = scratch(n_entries), scratch(n_entries)
            n_places = compiled_running(entries, n_entries, n_slots, sums, places)
            assert n_places == running_sums(entries, n_entries, n_slots, expected, listed)
            assert places[:n_places].tolist() == listed[:n_places].tolist()
            assert sums[:-1].tolist() == expected[:-1].tolist()
            assert (sums[-1], places[-1]) == (-7.0, -7)


def test_all_entries_sure_leave_the_memory_behind_them_alone() -> None:
    for n_entries in N_ENTRIES:
        sums, places = scratch(n_entries)
        assert compiled_running(np.ones(n_entries), n_entries, n_entries, sums, places) == n_entries
        assert places[:n_entries].tolist() == list(range(n_entries))
        assert (sums[-1], places[-1]) == (-7.0, -7)


def test_running_sums_never_decrease_and_stay_where_nothing_is_added() -> None:
    rng = np.random.default_rng(3)
    for n_slots in (1, 3, 15, 60):
        entries = rng.dirichlet(np.full(271, 0.4)) * n_slots
        entries[rng.random(271) < 0.3] = 0.0
        sums, places = scratch(271)
        compiled_running(entries, 271, n_slots, sums, places)
        added = np.diff(sums[:272])
        is_open = (entries > 1e-9) & (entries < 1.0 - 1e-9)
        assert (added[is_open] > 0.0).all()
        assert (added[~is_open] == 0.0).all()
        assert np.abs(added - entries)[is_open].max() <= 2.0**-53 * max(1, n_slots)


@compiled_first
@hot
def compiled_total(numbers: Floats) -> float:
    return total_of(numbers)


@compiled_first
@hot
def compiled_products(numbers: Floats, factors: Floats) -> float:
    return total_of_products(numbers, factors)


def test_totals_are_sums_and_exact_for_whole_numbers() -> None:
    for size in (0, 1, 3, 4, 5, 15, 60):
        rng = np.random.default_rng(size)
        whole = rng.integers(0, 1000, size).astype(np.float64)
        assert compiled_total(whole) == math.fsum(whole)
        amounts = rng.random(size)
        assert compiled_total(amounts) == pytest.approx(math.fsum(amounts), rel=1e-15)
        factors = rng.random(size)
        for total in (total_of_products, compiled_products):
            assert total(amounts, factors) == total_of(amounts * factors)  # bit for bit
