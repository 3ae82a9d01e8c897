"""Mixes: what every page that is drawn from them has."""

from __future__ import annotations

import numpy as np
import pytest

from slotwise.service.deciding.page_mix import MAX_AHEAD, PageMix, Placing
from slotwise.service.records import FloorState

FLOOR = FloorState(0.2, 0.3, 0.5, "met")
LINK_IDS = [f"l{k}" for k in range(12)]
N_PAGES = 7 * MAX_AHEAD + 5
"""Several batches of full size, and a part of one."""


@pytest.mark.parametrize(
    "probabilities",
    [
        [0.25] * 12,
        [1.0, 0.9, 0.1, *[0.0] * 8, 1.0],
        [0.3, 0.7, 0.5, 0.5, *[0.125] * 8],
    ],
)
def test_pages_have_sure_links_and_fall_in_score(probabilities: list[float]) -> None:
    scores = np.sin(np.arange(12) + 1.0)
    mix = PageMix(LINK_IDS, np.array(probabilities), FLOOR, Placing(scores))
    rng = np.random.default_rng(5)
    of_link = dict(zip(LINK_IDS, probabilities, strict=True))
    score_of = dict(zip(LINK_IDS, scores.tolist(), strict=True))
    sure = {link_id for link_id, one in of_link.items() if one == 1.0}
    for _ in range(N_PAGES):
        page, is_random = mix.draw(rng)
        assert not is_random
        assert [link.position for link in page] == [1, 2, 3]
        assert sure <= {link.link_id for link in page}
        assert all(link.propensity == of_link[link.link_id] > 0.0 for link in page)
        shown = [score_of[link.link_id] for link in page]
        assert shown == sorted(shown, reverse=True)
