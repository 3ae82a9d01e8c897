"""The expected price of a floor against the linear program of pages in the order of their slots."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from slotwise.arrays import Floats
from slotwise.compile import switching
from slotwise.policies.floor_prices import ExpectedPages, expect_price, put_best_slots_first
from slotwise.selection.page_search import new_search

MOST = 1e3


def price_by_highs(value: Floats, outcome: Floats, weights: Floats, least: float) -> float:
    """Return the shadow price of the floor where each link may be in each slot."""
    n_links, n_slots = len(value), len(weights)
    of_pairs = np.outer(value, weights).ravel()
    brought = np.outer(outcome, weights).ravel()
    in_slot = np.kron(np.ones(n_links), np.eye(n_slots))
    of_link = np.kron(np.eye(n_links), np.ones(n_slots))
    solved = linprog(
        -of_pairs,
        A_ub=np.vstack([-brought, of_link]),
        b_ub=np.concatenate([[-least], np.ones(n_links)]),
        A_eq=in_slot,
        b_eq=np.ones(n_slots),
        bounds=(0, 1),
    )
    return float(-solved.ineqlin.marginals[0]) if solved.success else MOST


@pytest.mark.parametrize("slots_differ", [True, False])
def test_the_expected_price_is_that_of_pages_in_the_order_of_their_slots(
    slots_differ: bool,
) -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n_links, n_slots = int(rng.integers(3, 12)), int(rng.integers(1, 4))
        value, outcome = rng.random((2, n_links))
        weights = rng.random(n_slots) + 0.1 if slots_differ else np.ones(n_slots)
        weights /= weights.mean()
        most = np.sort(outcome)[::-1][:n_slots] @ np.sort(weights)[::-1]
        least = float(rng.uniform(0.7, 1.05) * most)
        pages = ExpectedPages(
            value[None],
            outcome[None],
            np.zeros(n_slots if slots_differ else 0),
            np.zeros(n_slots, np.int64),
        )
        switching(put_best_slots_first)(weights, pages)
        price = switching(expect_price)(pages, 1, n_slots, least, MOST, new_search(n_links))
        expected = price_by_highs(value, outcome, weights, least)
        assert price == pytest.approx(expected, rel=1e-6, abs=1e-9)
