"""The first rounds of Con-UCB worked by hand, and its settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slotwise.errors import InvalidInput
from slotwise.policies import ConUCB, LinkFeedback
from slotwise.policies.policy import NO_SLOTS, NOBODY
from slotwise.problem import Problem
from slotwise.selection import dense_probabilities
from slotwise.selection.confidence import paper_gamma
from tests.policies.playing import Visitors, draw, learn_page

GAMMA = 1 / 8
PROBLEM = Problem(n_links=3, n_slots=1, click_floor=0.5, horizon=100)
POLICY = ConUCB(gamma_scale=GAMMA / paper_gamma(3, 100, 0.01), failure_probability=0.01)


def see(state: Any, link: int, clicked: float, revenue: float) -> None:
    once = np.ones(1)
    POLICY.learn(
        state, NOBODY, 0, LinkFeedback(np.array([link]), NO_SLOTS, once, once, np.array([clicked]))
    )
    POLICY.learn(
        state, NOBODY, 1, LinkFeedback(np.array([link]), NO_SLOTS, once, once, np.array([revenue]))
    )


def choose(state: Any) -> list[float]:
    POLICY.choose(state, NOBODY, np.random.default_rng(1))
    chances: list[float] = dense_probabilities(state.mix).tolist()
    return chances


def test_nothing_known_and_the_floor_out_of_reach() -> None:
    state: Any = POLICY.start(PROBLEM)
    # mean 0, n + 1 = 1: every bound is 2 gamma = 1/4 < 1/2, so the most clicked links: all tie
    believed = POLICY.estimates(state)
    assert believed.clicks.tolist() == pytest.approx([1 / 4] * 3)
    assert choose(state) == pytest.approx([1 / 3] * 3)


def test_one_sale_makes_a_link_the_page() -> None:
    state: Any = POLICY.start(PROBLEM)
    see(state, 0, clicked=1.0, revenue=0.5)
    # clicks: 1/2 + 2 (sqrt(1/8 * 1/2 / 2) + 1/8 / 2) = 1/2 + 2 (0.1767767 + 0.0625) = 0.9785534
    # revenue: 1/4 + 2 (sqrt(1/8 * 1/4 / 2) + 1/16) = 1/4 + 2 (1/8 + 1/16) = 5/8
    believed = POLICY.estimates(state)
    assert believed.clicks.tolist() == pytest.approx([0.9785533906, 0.25, 0.25])
    assert believed.value.tolist() == pytest.approx([0.625, 0.25, 0.25])
    assert choose(state) == [1.0, 0.0, 0.0]  # slack: 0.979 >= 0.5


def test_views_without_clicks_lower_the_bounds() -> None:
    state: Any = POLICY.start(PROBLEM)
    see(state, 0, clicked=1.0, revenue=0.5)
    see(state, 0, clicked=0.0, revenue=0.0)
    # n + 1 = 3. clicks: 1/3 + 2 (sqrt(1/72) + 1/24) = 0.6523689
    # revenue: 1/6 + 2 (sqrt(1/144) + 1/24) = 1/6 + 1/6 + 1/12 = 5/12
    believed = POLICY.estimates(state)
    assert believed.clicks[0] == pytest.approx(0.6523689, abs=1e-7)
    assert believed.value[0] == pytest.approx(5 / 12)
    assert choose(state) == [1.0, 0.0, 0.0]
    see(state, 0, clicked=0.0, revenue=0.0)
    # n + 1 = 4. clicks: 1/4 + 2 (sqrt(1/128) + 1/32) = 0.4892767 < 1/2: out of reach again
    assert POLICY.estimates(state).clicks[0] == pytest.approx(0.4892767, abs=1e-7)
    assert choose(state) == [1.0, 0.0, 0.0]  # now because it is the most clicked


def test_a_floor_that_binds_mixes_clicks_with_hope() -> None:
    state: Any = POLICY.start(PROBLEM)
    for _ in range(3):
        see(state, 1, clicked=1.0, revenue=0.0)
    # n + 1 = 4. clicks: 3/4 + 2 (sqrt(3/128) + 1/32) = 1.12, so 1; revenue: 2 * 1/32 = 1/16
    believed = POLICY.estimates(state)
    assert believed.clicks.tolist() == pytest.approx([0.25, 1.0, 0.25])
    assert believed.value.tolist() == pytest.approx([0.25, 0.0625, 0.25])
    # the unknown links are worth more, but 1 x + 1/4 (1 - x) = 1/2 needs x = 1/3 of link 1;
    # the two unknown links tie and share the rest
    assert choose(state) == pytest.approx([1 / 3] * 3)
    # a lower floor, 7/16: x = 1/4
    lower: Any = POLICY.restore(
        Problem(n_links=3, n_slots=1, click_floor=7 / 16, horizon=100), POLICY.knowledge(state)
    )
    assert choose(lower) == pytest.approx([3 / 8, 1 / 4, 3 / 8])


def test_the_printed_width_keeps_every_bound_at_one() -> None:
    state: Any = ConUCB(horizon=50_000).start(Problem(n_links=271, n_slots=15))
    once = np.ones(1)
    for _ in range(3_000):  # 2 gamma = 3,328 views
        ConUCB.learn(
            state, NOBODY, 0, LinkFeedback(np.array([4]), NO_SLOTS, once, once, np.zeros(1))
        )
    assert state.program.clicks[4] == 1.0
    for _ in range(400):
        ConUCB.learn(
            state, NOBODY, 0, LinkFeedback(np.array([4]), NO_SLOTS, once, once, np.zeros(1))
        )
    assert state.program.clicks[4] < 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"failure_probability": 0.0}, r"^`failure_probability` must be in \(0, 1\), got 0.0$"),
        ({"gamma_scale": 0.0}, r"^`gamma_scale` must be a positive number, got 0.0$"),
        ({"gamma_scale": float("nan")}, r"^`gamma_scale` must be a positive number, got nan$"),
        ({"horizon": 0}, r"^`horizon` must be at least 1, got 0$"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ConUCB(**settings)


def test_a_missing_horizon_is_named() -> None:
    with pytest.raises(
        InvalidInput, match=r"^`horizon` must be a whole number of rounds, got None"
    ):
        ConUCB().start(Problem(n_links=3, n_slots=1))


def test_deficit_feedback_asks_for_what_is_missing() -> None:
    """The floor that is kept is the one that the deficit asks for."""
    plain_policy = ConUCB(gamma_scale=1 / 500)
    policy = ConUCB(gamma_scale=1 / 500, deficit_feedback=True)
    state: Any = policy.start(Problem(20, 3, 1.5, horizon=400))
    visitors = Visitors(np.linspace(0.05, 0.6, 20), 2.0 * np.ones(20), seed=5)
    rng = np.random.default_rng(6)
    pages, clicks, n_raised = 0, 0.0, 0
    for _ in range(120):
        wanted = 1.5 + min(max(0.0, (1.5 * pages - clicks) / 20.0), 1.5 / 4)
        raised = Problem(20, 3, wanted, horizon=400)
        plain: Any = plain_policy.restore(raised, policy.knowledge(state))
        ConUCB.choose(plain, NOBODY, rng)
        ConUCB.choose(state, NOBODY, rng)
        np.testing.assert_allclose(
            dense_probabilities(state.mix), dense_probabilities(plain.mix), rtol=0, atol=1e-9
        )
        page = visitors.answer(*draw(state, 3, rng))
        learn_page(policy, state, page)
        pages, clicks = pages + 1, clicks + page.clicks.sum()
        n_raised += wanted > 1.5
    assert n_raised > 30
