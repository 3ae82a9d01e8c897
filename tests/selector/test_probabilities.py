"""The chances of a page: a mapping that is written out when somebody looks."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import numpy as np
import pytest

from slotwise.player.pages import Probabilities
from slotwise.selection.mix import N_OPEN, N_SURE, N_TIED, TIED_SLOTS, new_mix
from tests.selector.selectors import KINDS, new_selector, play

LINKS = ("a", "b", "c", "d", "e", "f", "g")


def three_part_mix() -> Probabilities:
    mix = new_mix(7)
    mix.sure[0] = 6
    mix.open[:2], mix.probabilities[:2] = (0, 2), (0.25, 0.75)
    mix.tied[:3] = 1, 3, 5
    mix.sizes[[N_SURE, N_OPEN, N_TIED, TIED_SLOTS]] = 1, 2, 3, 2
    probabilities = Probabilities.of_mix(LINKS, mix)
    # what the mix says afterwards is about another page
    mix.sure[:], mix.open[:], mix.probabilities[:], mix.tied[:], mix.sizes[:] = 0, 0, 0.5, 0, 1
    return probabilities


def test_every_part_of_a_mix_is_there() -> None:
    probabilities = three_part_mix()
    assert isinstance(probabilities, Mapping)
    expected = {"g": 1.0, "a": 0.25, "c": 0.75, "b": 2 / 3, "d": 2 / 3, "f": 2 / 3}
    assert probabilities == expected
    assert dict(probabilities) == expected
    assert repr(probabilities) == repr(expected)
    assert len(probabilities) == 6
    assert sum(probabilities.values()) == pytest.approx(4)
    assert all(type(chance) is float for chance in probabilities.values())


def test_a_link_without_a_chance_has_none_and_a_stranger_is_unknown() -> None:
    probabilities = three_part_mix()
    assert probabilities["e"] == 0.0
    assert probabilities.get("e") == 0.0
    assert "e" not in probabilities
    assert "e" not in list(probabilities)
    with pytest.raises(KeyError, match="stranger"):
        probabilities["stranger"]
    assert probabilities.get("stranger") is None


def test_an_array_is_read_in_the_order_of_the_pool() -> None:
    probabilities = Probabilities.of_array(LINKS, np.array([0, 0.5, 1, 0, 0, 0.5, 0]))
    assert probabilities == {"b": 0.5, "c": 1.0, "f": 0.5}
    assert probabilities["a"] == 0.0


def test_they_survive_being_sent_elsewhere() -> None:
    page = new_selector().select()
    assert pickle.loads(pickle.dumps(page)) == page


@pytest.mark.parametrize("policy", KINDS)
def test_a_page_keeps_its_own(policy: str) -> None:
    selector = new_selector(policy)
    pages = []
    written = []
    for round_number in range(20):
        page = selector.select()
        pages.append(page)
        # half of the pages are looked at only after the selector has moved on
        written.append(dict(page.probabilities) if round_number % 2 else None)
        play(selector, 3, seed=round_number)
    for page, chances in zip(pages, written, strict=True):
        assert sum(page.probabilities.values()) == pytest.approx(2)
        assert all(page.probabilities[link] > 0 for link in page.shown)
        assert chances is None or page.probabilities == chances
