from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from slotwise.compile import compiled_first, switching
from slotwise.errors import InvalidInput
from slotwise.selection import (
    Mix,
    compiled,
    dense_probabilities,
    dependent_rounding,
    draw_page,
    new_mix,
)
from slotwise.selection.mix import new_places, new_sums
from slotwise.selection.rounding import round_entries
from slotwise.selection.uniforms import chance_of
from tests.reference.rounding import page_distribution, round_by_stretches, round_pair_by_pair
from tests.selection.chance import is_plausible, is_plausibly_at_most

pytestmark = pytest.mark.compiled

Floats = NDArray[np.float64]
Links = NDArray[np.int64]

N_DRAWS = 200_000


@compiled_first
@compiled
def draw_masks(mix: Mix, rng: np.random.Generator, n_slots: int, n_draws: int) -> Links:
    """Return that many pages, each as a number whose bit i says that link i is shown."""
    shown = np.empty(n_slots + 1, np.int64)
    chances = np.empty(n_slots + 1)
    masks = np.zeros(n_draws, np.int64)
    for draw in range(n_draws):
        draw_page(mix, rng, shown, chances)
        for k in range(n_slots):
            masks[draw] |= 1 << shown[k]
    return masks


def mix_of(probabilities: Floats) -> Mix:
    """Return the mix in which every link is open."""
    mix = new_mix(len(probabilities))
    mix.open[:] = np.arange(len(probabilities))
    mix.probabilities[:] = probabilities
    mix.sizes[:] = 0, len(probabilities), 0, 0
    return mix


def three_part_mix() -> Mix:
    """Return a mix with two sure links, three open ones on two slots, four tied on three."""
    mix = new_mix(10)
    mix.sure[:2] = 7, 0
    mix.open[:3] = 3, 9, 1
    mix.probabilities[:3] = 0.5, 0.9, 0.6
    mix.tied[:4] = 8, 2, 5, 4
    mix.sizes[:] = 2, 3, 4, 3
    return mix


def random_probabilities(n_links: int, n_slots: int, rng: np.random.Generator) -> Floats:
    """Return probabilities that sum to `n_slots`: the mean of some random pages, unevenly."""
    weights = rng.dirichlet(np.full(6, 0.7))
    probabilities = np.zeros(n_links)
    for weight in weights:
        probabilities[rng.permutation(n_links)[:n_slots]] += weight
    return np.minimum(1.0, probabilities)


POOLS = {
    "halves": np.full(4, 0.5),
    "thirds on one slot": np.full(3, 1 / 3),
    "uneven": np.array([0.7, 0.55, 0.15, 0.85, 0.35, 0.4]),
    "one stretch": np.array([0.1, 0.2, 0.05, 0.15, 0.3, 0.2]),
    "sure and impossible between": np.array([0.4, 1.0, 0.0, 0.3, 1.0, 0.3]),
    "stretch across a sure link": np.array([0.2, 0.2, 1.0, 0.2, 0.3, 0.6, 0.5]),
    "large first": np.array([0.95, 0.9, 0.85, 0.1, 0.1, 0.1]),
    "exact ends of stretches": np.array([0.25, 0.75, 0.5, 0.5, 0.125, 0.875]),
}


def subsets(n_links: int) -> list[tuple[int, ...]]:
    links = range(n_links)
    return list(chain.from_iterable(combinations(links, size) for size in range(1, n_links + 1)))


@pytest.mark.parametrize("probabilities", POOLS.values(), ids=POOLS)
def test_pages_have_the_distribution_of_rounding_pair_by_pair(probabilities: Floats) -> None:
    # By accident with probability below FALSE_ALARM = 1e-7 a pool.
    n_slots = round(probabilities.sum())
    rng = np.random.default_rng(5)
    drawn = Counter(draw_masks(mix_of(probabilities), rng, n_slots, N_DRAWS).tolist())
    expected = {
        sum(1 << link for link in page): chance
        for page, chance in page_distribution(probabilities).items()
    }
    assert set(drawn) <= set(expected)
    for page, chance in expected.items():
        assert is_plausible(drawn[page], N_DRAWS, chance, len(expected)), (page, chance)


@pytest.mark.parametrize("probabilities", POOLS.values(), ids=POOLS)
def test_marginals_are_exact_and_links_negatively_correlated(probabilities: Floats) -> None:
    # All links of a set are shown, or all left out, at most as often as if they were independent.
    # By accident with probability below FALSE_ALARM = 1e-7 for each of the two.
    n_slots = round(probabilities.sum())
    n_links = len(probabilities)
    masks = draw_masks(mix_of(probabilities), np.random.default_rng(6), n_slots, N_DRAWS)
    for link in range(n_links):
        n_shown = int(np.sum(masks >> link & 1))
        assert is_plausible(n_shown, N_DRAWS, probabilities[link], n_links)
    sets = subsets(n_links)
    for links in sets:
        wanted = sum(1 << link for link in links)
        together = math.prod(probabilities[list(links)])
        absent = math.prod(1.0 - probabilities[list(links)])
        n_together = int(np.sum(masks & wanted == wanted))
        n_absent = int(np.sum(~masks & wanted == wanted))
        assert is_plausibly_at_most(n_together, N_DRAWS, together, 2 * len(sets)), links
        assert is_plausibly_at_most(n_absent, N_DRAWS, absent, 2 * len(sets)), links


def test_the_twin_draws_what_it_says() -> None:
    # By accident with probability below FALSE_ALARM = 1e-7.
    probabilities = POOLS["uneven"]
    rng = np.random.default_rng(7)
    n_draws = 5_000
    drawn = Counter(round_pair_by_pair(probabilities, rng) for _ in range(n_draws))
    expected = page_distribution(probabilities)
    assert sum(expected.values()) == pytest.approx(1.0)
    for page, chance in expected.items():
        assert is_plausible(drawn[page], n_draws, chance, len(expected))
    marginals = [sum(c for page, c in expected.items() if i in page) for i in range(6)]
    assert marginals == pytest.approx(probabilities.tolist())


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1), st.integers(1, 80), st.data())
def test_never_fewer_or_more_than_the_slots(seed: int, n_links: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(seed)
    n_slots = data.draw(st.integers(0, n_links))
    probabilities = random_probabilities(n_links, n_slots, rng)
    for _ in range(5):
        shown = dependent_rounding(probabilities, rng)
        assert len(shown) == len(set(shown.tolist())) == n_slots
        assert np.all(probabilities[shown] > 0.0)
        assert set(np.flatnonzero(probabilities == 1.0)) <= set(shown.tolist())


def capped_weights(n_links: int, n_slots: int, rng: np.random.Generator) -> Floats:
    """Return probabilities in proportion to uneven weights, the largest of them sure."""
    weights = rng.gamma(0.3, size=n_links)
    probabilities = np.zeros(n_links)
    for _ in range(n_links):  # each time, what is too much for a link goes to the others
        is_open = probabilities < 1.0
        rest = n_slots - np.sum(~is_open)
        probabilities[is_open] = np.minimum(1.0, rest * weights[is_open] / weights[is_open].sum())
    return probabilities


def eighths(n_links: int, n_slots: int, rng: np.random.Generator) -> Floats:
    """Return probabilities whose running sums are often whole; some are sure or impossible."""
    return np.bincount(rng.permutation(np.repeat(np.arange(n_links), 8))[: 8 * n_slots]) / 8


def at_the_limits(n_links: int, n_slots: int, rng: np.random.Generator) -> Floats:
    """Return probabilities of which many are next to 0 or 1, on either side of the limit."""
    probabilities = random_probabilities(n_links, n_slots, rng)
    off = rng.choice([0.0, 4e-10, 1.6e-9], n_links)
    low, high = rng.random((2, n_links)) < 0.2
    low &= probabilities == 0.0
    high &= probabilities == 1.0
    return np.where(low, off, np.where(high, 1.0 - off, probabilities))


def nearly_whole(n_links: int, n_slots: int, rng: np.random.Generator) -> Floats:
    """Return probabilities that sum to the slots within 1e-9."""
    probabilities = capped_weights(n_links, n_slots, rng)
    return np.clip(probabilities * (1.0 + 1e-9 * rng.uniform(-1, 1) / max(1, n_slots)), 0.0, 1.0)


@pytest.mark.parametrize(
    "kind", [random_probabilities, capped_weights, eighths, at_the_limits, nearly_whole]
)
def test_pages_are_those_of_exact_sums(kind: Callable[..., Floats]) -> None:
    """Sums are rounded to 1e-14: a page differs by accident with probability below 1e-8."""
    rng = np.random.default_rng(17)
    for seed in range(300):
        n_links = int(rng.choice([1, 2, 3, 7, 8, 9, 16, 40, 63, 64, 65, 130, 271]))
        n_slots = int(rng.integers(1, n_links + 1))
        probabilities = kind(n_links, n_slots, rng)
        ours, theirs = np.random.default_rng(seed), np.random.default_rng(seed)
        shown = dependent_rounding(probabilities, ours)
        assert shown.tolist() == round_by_stretches(probabilities, theirs), (seed, n_links)
        assert ours.random() == theirs.random()


def test_a_stretch_of_many_entries_is_searched_to_its_end() -> None:
    """Stretches of 500 entries: a search looks at several windows of sums."""
    probabilities = np.full(2_000, 1 / 500)
    for seed in range(20):
        shown = dependent_rounding(probabilities, np.random.default_rng(seed))
        expected = round_by_stretches(probabilities, np.random.default_rng(seed))
        assert shown.tolist() == expected


def test_a_share_next_to_1_stays_inside_its_stretch() -> None:
    """The largest random number must not pass the last entry that has a chance."""

    class Largest:
        def random(self) -> float:
            return 1.0 - 2.0**-53

    rng: Any = Largest()
    for probabilities in (np.array([0.3, 0.7, 0.0, 0.0]), np.array([0.1] * 10 + [0.0] * 30)):
        n_links = len(probabilities)
        shown = np.zeros(2, np.int64)
        scratch = new_sums(n_links), new_places(n_links)
        n_shown = round_entries(probabilities, n_links, rng, shown, 0, *scratch)
        assert shown[:n_shown].tolist() == round_by_stretches(probabilities, rng)


def test_a_sum_that_is_whole_up_to_rounding_fills_the_page() -> None:
    for n_links in range(2, 60):
        for n_slots in range(1, n_links):
            probabilities = np.full(n_links, n_slots / n_links)
            shown = dependent_rounding(probabilities, np.random.default_rng(n_links))
            assert len(shown) == n_slots


@pytest.mark.parametrize("nearly", [0.0, 1e-12, 9e-10])
def test_chances_next_to_0_and_1_are_0_and_1(nearly: float) -> None:
    probabilities = np.array([nearly, 1.0 - nearly, 0.5, nearly, 0.5, 1.0 - nearly])
    rng = np.random.default_rng(3)
    pages = {tuple(sorted(dependent_rounding(probabilities, rng).tolist())) for _ in range(200)}
    assert pages == {(1, 2, 5), (1, 4, 5)}


def test_a_chance_just_above_integral_is_still_a_chance() -> None:
    # Shown with probability 1e-3 a draw: missed in all draws with probability below 1e-80.
    mix = mix_of(np.array([1e-3, 1.0 - 1e-3]))
    masks = draw_masks(mix, np.random.default_rng(1), 1, N_DRAWS)
    assert is_plausible(int(np.sum(masks == 1)), N_DRAWS, 1e-3, 1)


def test_a_drawn_page_has_its_parts_and_probabilities() -> None:
    mix = three_part_mix()
    probabilities = dense_probabilities(mix)
    shown, chances = np.zeros(7, np.int64), np.zeros(7)
    rng = np.random.default_rng(2)
    for _ in range(500):
        switching(draw_page)(mix, rng, shown, chances)
        assert len(set(shown.tolist())) == 7
        assert {0, 7} <= set(shown.tolist())
        assert len({3, 9, 1} & set(shown.tolist())) == 2
        assert len({8, 2, 5, 4} & set(shown.tolist())) == 3
        assert chances.tolist() == probabilities[shown].tolist()


def test_tied_links_share_their_slots_evenly() -> None:
    # By accident with probability below FALSE_ALARM = 1e-7.
    mix = three_part_mix()
    masks = draw_masks(mix, np.random.default_rng(8), 7, N_DRAWS)
    triples = Counter((masks & sum(1 << link for link in (8, 2, 5, 4))).tolist())
    assert len(triples) == 4
    for n_drawn in triples.values():
        assert is_plausible(n_drawn, N_DRAWS, 1 / 4, len(triples))


def test_drawing_leaves_the_mix_as_before() -> None:
    mix = three_part_mix()
    before = [part.copy() for part in mix._replace(places=np.zeros(0, np.int64), sums=np.zeros(0))]
    rng = np.random.default_rng(4)
    for _ in range(50):
        switching(draw_page)(mix, rng, np.zeros(7, np.int64), np.zeros(7))
        after = mix._replace(places=np.zeros(0, np.int64), sums=np.zeros(0))
        for one, other in zip(before, after, strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_same_seed_draws_the_same_pages() -> None:
    mix = three_part_mix()
    first = draw_masks(mix, np.random.default_rng(9), 7, 100)
    second = draw_masks(mix, np.random.default_rng(9), 7, 100)
    other = draw_masks(mix, np.random.default_rng(10), 7, 100)
    assert first.tolist() == second.tolist()
    assert first.tolist() != other.tolist()


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        ([0.5, 1.2], r"`probabilities` must be numbers in \[0, 1\], got \[0.5, 1.2\]"),
        ([0.5, math.nan], r"`probabilities` must be numbers in \[0, 1\]"),
        ([[0.5, 0.5]], r"`probabilities` must be numbers in \[0, 1\]"),
        ([0.5, 0.2], r"`probabilities` must be a sum that is a whole number, got 0.7"),
    ],
)
def test_bad_probabilities_are_named(probabilities: list[float], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        dependent_rounding(probabilities, np.random.default_rng(1))


def test_chance_of_a_generator_draw_its_pages() -> None:
    for mix in (three_part_mix(), mix_of(np.array([0.5, 0.5, 1.0]))):
        rng, twin = np.random.default_rng(5), np.random.default_rng(5)
        n_slots = round(dense_probabilities(mix).sum())
        (page, other), (chances, others) = np.zeros((2, n_slots), np.int64), np.zeros((2, n_slots))
        bits = chance_of(twin)
        for _ in range(50):
            switching(draw_page)(mix, rng, page, chances)
            switching(draw_page)(mix, bits, other, others)
            assert (page.tolist(), chances.tolist()) == (other.tolist(), others.tolist())
        assert rng.random() == twin.random()


def test_a_sure_page_takes_nothing_from_chance() -> None:
    mix, rng = new_mix(6), np.random.default_rng(1)
    mix.sure[:3] = 4, 0, 5
    mix.sizes[:] = 3, 0, 0, 0
    page, chances = np.zeros(3, np.int64), np.zeros(3)
    switching(draw_page)(mix, rng, page, chances)
    assert (page.tolist(), chances.tolist()) == ([4, 0, 5], [1.0] * 3)
    assert rng.random() == np.random.default_rng(1).random()
