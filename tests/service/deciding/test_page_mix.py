"""Mixes: pages taken many at once are those made one by one, and so are their counts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from slotwise.service.deciding import page_mix
from slotwise.service.deciding.page_mix import MAX_AHEAD, PageMix
from slotwise.service.records import FloorState, ShownLink

FLOOR = FloorState(0.2, 0.3, 0.5, "met")
LINK_IDS = [f"l{k}" for k in range(12)]
N_PAGES = 7 * MAX_AHEAD + 5
"""Several batches of full size, and a part of one."""


def mix_of(probabilities: list[float], scored: bool) -> PageMix:
    scores = np.sin(np.arange(len(probabilities)) + 1.0) if scored else None
    return PageMix(LINK_IDS, np.array(probabilities), FLOOR, scores)


def pages_of(mix: PageMix) -> list[tuple[ShownLink, ...]]:
    rng = np.random.default_rng(5)
    return [mix.draw(rng)[0] for _ in range(N_PAGES)]


PROBABILITIES = [
    [0.25] * 12,
    [1.0, 0.9, 0.1, *[0.0] * 8, 1.0],
    [0.3, 0.7, 0.5, 0.5, *[0.125] * 8],
]


@pytest.mark.parametrize("scored", [False, True])
@pytest.mark.parametrize("probabilities", PROBABILITIES)
def test_pages_taken_from_the_table_are_those_made_one_by_one(
    monkeypatch: pytest.MonkeyPatch, probabilities: list[float], scored: bool
) -> None:
    taken = pages_of(mix_of(probabilities, scored))
    monkeypatch.setattr(page_mix, "MAX_TABLE", 0)
    one_by_one = mix_of(probabilities, scored)
    assert taken == pages_of(one_by_one)
    assert one_by_one.take_shown() == {}
    assert not one_by_one.count_drawn()


@pytest.mark.parametrize("probabilities", PROBABILITIES)
def test_a_mix_counts_the_pages_that_were_shown_and_no_others(probabilities: list[float]) -> None:
    mix, rng = mix_of(probabilities, scored=True), np.random.default_rng(5)
    by_hand: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    for k in range(N_PAGES):
        page, _ = mix.draw(rng)
        if k % 3 and mix.count_drawn():
            by_hand.update(link.link_id for link in page)
        if k % 200 == 0:
            counted.update(mix.take_shown())
    counted.update(mix.take_shown())
    assert counted == by_hand
    assert by_hand.total() > 3 * MAX_AHEAD
    assert mix.take_shown() == {}
