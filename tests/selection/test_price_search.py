from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.selection.page_search import SLACK, Entries, Search, new_search
from slotwise.selection.price_search import Price, floor_slackness, price_of_floor

Floats = NDArray[np.float64]


def search_one_slot(
    value: Floats, clicks: Floats, floor: float, guess: float, search: Search
) -> Price:
    slackness = floor_slackness(floor)
    return price_of_floor(
        Entries(value, clicks, len(value)), 1, floor, slackness, guess, 1e-9, search
    )


@pytest.mark.parametrize("guess", [1e-18, 1e-16, 1e-14])
def test_a_guess_lost_in_rounding_does_not_hide_a_slack_floor(guess: float) -> None:
    """All three links tie at such a price; at price 0 the last is best and keeps the floor."""
    value = np.array([0.5, np.nextafter(0.5, 0), np.nextafter(0.5, 1)])
    clicks = np.array([0.1, 0.9, 0.8])
    price = search_one_slot(value, clicks, 0.5, guess, new_search(3))
    assert price.status == SLACK
    assert price.click_weight == 0.0
