"""Queue policies: what the queue promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from queue_ts import QueueTS

from slotwise.policies import LinkFeedback
from slotwise.policies.policy import NO_SLOTS, NOBODY
from slotwise.problem import Problem
from tests.policies.playing import Visitors, draw, learn_page


@settings(max_examples=60)
@given(
    n_links=st.integers(1, 12),
    share=st.floats(0.0, 0.99),
    seed=st.integers(0, 2**32 - 1),
    horizon=st.sampled_from([None, 1, 100]),
    data=st.data(),
)
def test_the_shortfall_never_exceeds_the_queue(
    n_links: int, share: float, seed: int, horizon: int | None, data: st.DataObject
) -> None:
    n_slots = data.draw(st.integers(1, n_links))
    problem = Problem(n_links, n_slots, share * n_slots)
    policy = QueueTS(horizon=horizon)
    state: Any = policy.start(problem)
    rng = np.random.default_rng(seed)
    visitors = Visitors(rng.random(n_links), np.ones(n_links), seed)
    clicks = worst = 0.0
    for page_number in range(1, 31):
        QueueTS.choose(state, NOBODY, rng)
        page = visitors.answer(*draw(state, n_slots, rng))
        learn_page(policy, state, page)
        clicks += page.clicks.sum()
        shortfall = problem.click_floor * page_number - clicks
        worst = max(worst, shortfall)
        if share > 0.0:
            queue = policy.knowledge(state)["queue"][0]
            assert max(0.0, shortfall) <= queue + 1e-9
            assert queue <= worst + n_slots * page_number


def test_several_floors_have_a_queue_each() -> None:
    problem = Problem(
        n_links=6,
        n_slots=2,
        levels=("click", "cart", "purchase"),
        floors={"click": 0.5, "cart": 0.25},
        rate_floors={"purchase": 0.5},
    )
    policy = QueueTS()
    state: Any = policy.start(problem)
    once, shown = np.ones(2), np.array([1, 4])
    for level, outcomes in enumerate(([0.0, 0.0], [0.0, 0.0], [0.0, 0.0])):
        QueueTS.learn(
            state, NOBODY, level, LinkFeedback(shown, NO_SLOTS, once, once, np.array(outcomes))
        )
    assert policy.knowledge(state)["queue"].tolist() == [0.5, 0.25, 0.0]
    for level, outcomes in enumerate(([1.0, 1.0], [1.0, 1.0], [0.0, 0.0])):
        QueueTS.learn(
            state, NOBODY, level, LinkFeedback(shown, NO_SLOTS, once, once, np.array(outcomes))
        )
    # two carts and no purchase: half of them are owed
    assert policy.knowledge(state)["queue"].tolist() == [0.0, 0.0, 1.0]
    QueueTS.choose(state, NOBODY, np.random.default_rng(1))
    # a cart is worth the less the longer purchases are owed (V = 1 after two pages: sqrt(2))
    assert state.queues.worth.tolist() == pytest.approx([0.0, -0.5 / 2**0.5, 1 + 1 / 2**0.5])


def test_a_batch_counts_as_the_pages_it_is() -> None:
    policy = QueueTS()
    state: Any = policy.start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    views, clicks = np.array([30.0, 10.0]), np.array([6.0, 1.0])
    QueueTS.learn(
        state, NOBODY, 0, LinkFeedback(np.array([0, 3]), NO_SLOTS, np.ones(2), views, clicks)
    )
    # 40 views are 20 pages of two slots, which owe 10 clicks
    assert policy.knowledge(state)["queue"].tolist() == [3.0]
    assert policy.knowledge(state)["rounds"].tolist() == [20.0, 0.0]


def plain_length(floor: float, clicks: list[float]) -> float:
    """Return the longest run of debt that ends with the last page: Lindley's formula."""
    missing = [floor - brought for brought in clicks]
    return max(0.0, *(sum(missing[start:]) for start in range(len(missing))))


def test_out_of_order_the_queue_is_that_of_the_order_in_which_pages_settle() -> None:
    """What is counted is the same in any order; the queue is not, and never below the shortfall."""
    problem = Problem(n_links=7, n_slots=3, click_floor=1.2)
    policy: Any = QueueTS()
    rng = np.random.default_rng(8)
    pages = [(rng.permutation(7)[:3], (rng.random(3) < 0.4).astype(float)) for _ in range(80)]
    pages.sort(key=lambda page: page[1].sum())
    counted, lengths = [], []
    for order in (range(80), reversed(range(80)), rng.permutation(80)):
        state: Any = policy.start(problem)
        clicks = []
        for number in order:
            shown, outcomes = pages[number]
            ones = np.ones(3)
            type(policy).learn(
                state, NOBODY, 0, LinkFeedback(shown, NO_SLOTS, ones, ones, outcomes)
            )
            clicks.append(float(outcomes.sum()))
        known = policy.knowledge(state)
        [queue] = known.pop("queue")
        assert queue == pytest.approx(plain_length(1.2, clicks), abs=1e-9)
        assert queue >= 1.2 * 80 - sum(clicks) - 1e-9
        lengths.append(queue)
        counted.append({name: array.round(9).tolist() for name, array in known.items()})
    assert counted[0] == counted[1] == counted[2]
    assert len({round(queue, 6) for queue in lengths}) == 3
