"""Sales of different sizes in the default: links without a sale, and the price of a floor."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slotwise.policies import NO_SLOTS, NOBODY, LinkFeedback, PacedBayes
from slotwise.policies.floor_prices import corrected_price
from slotwise.policies.link_rates import BETWEEN, UNIT, UNSEEN, amount_of, spread_of_sales
from slotwise.policies.paced_bayes import PacedBayesState
from slotwise.problem import Problem

N_SOLD = 12


def sold_state(amounts: list[float]) -> PacedBayesState:
    """Return a state in which each link but the last has sold ten times for its amount."""
    policy, n_links = PacedBayes(), len(amounts) + 1
    state = policy.start(Problem(n_links, 2, click_floor=0.3))
    for level in range(2):
        for link, amount in enumerate(amounts):
            for _ in range(10):
                teach(state, level, link, 1.0 if level == 0 else amount)
    return state


def teach(state: PacedBayesState, level: int, link: int, outcome: float) -> None:
    """Learn a view of one link."""
    one = np.ones(1)
    feedback = LinkFeedback(np.array([link]), NO_SLOTS, one, one, np.array([outcome]))
    PacedBayes.learn(state, NOBODY, level, feedback)


@pytest.mark.parametrize("usual", [0.3, 0.02, 0.001])
def test_a_link_without_a_sale_has_the_moments_of_both_guesses(usual: float) -> None:
    """The mean sale, or with the chance 6 / (links that have sold + 6) any amount up to the limit.

    Every size of sale is equally likely on a logarithmic scale; integrated over a fine grid.
    """
    state = sold_state([usual] * N_SOLD)
    amounts = state.pool.amounts
    most, chance = 1.0 / amounts[UNIT], 6.0 / (6.0 + N_SOLD)
    middles = (np.arange(100_000) + 0.5) / 100_000
    others = np.exp(math.log(most) * middles)
    mean = 1.0 + chance * (others.mean() - 1.0)
    variance = 1.0 + chance * ((others**2).mean() - 1.0) - mean**2
    found, uncertainty = amount_of(state.pool, state.evidence, N_SOLD, 0.0)
    assert found == pytest.approx(mean, rel=1e-6)
    assert found == amounts[UNSEEN]
    assert uncertainty == pytest.approx(variance + mean**2 * amounts[BETWEEN], rel=1e-5)


def test_a_limit_that_is_the_usual_sale_leaves_no_second_guess() -> None:
    state = sold_state([1.0] * N_SOLD)
    found, uncertainty = amount_of(state.pool, state.evidence, N_SOLD, 0.0)
    assert found == pytest.approx(1.0, abs=1e-6)
    assert uncertainty == found**2 * state.pool.amounts[BETWEEN]


def test_what_is_owed_raises_the_price_more_where_the_sales_of_links_differ() -> None:
    prices, spreads = [], []
    for dear in (0.02, 0.9):
        state = sold_state([0.02] * (N_SOLD - 1) + [dear])
        state.floors.expected[0], state.floors.owed[0] = 0.0, 30.0
        spreads.append(spread_of_sales(state.pool))
        prices.append(corrected_price(state.floors, 0, 0.0, spreads[-1]))
    assert spreads[0] == pytest.approx(1.0, abs=0.02)
    assert spreads[1] > 2.0
    assert prices[1] / prices[0] == pytest.approx(spreads[1] / spreads[0])
