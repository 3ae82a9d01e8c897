"""The floor-program policies beyond the paper against their twins, round by round."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from slotwise.policies import AnytimeConUCB, ConUCB, KLConUCB, Policy, SafeConUCB
from slotwise.policies.contract import NOBODY
from slotwise.problem import Problem
from slotwise.selection import dense_probabilities
from tests.policies.playing import Visitors, draw, learn_page, play_both
from tests.reference.floor_policies import (
    AnytimeConUCBTwin,
    DeficitTwin,
    FloorTwin,
    KLConUCBTwin,
    SafeConUCBTwin,
)

N_ROUNDS = 250
DELTA = 0.5


def visitors_of(n_links: int) -> Visitors:
    """Return visitors who spend little on what they click most, so that the floor matters."""
    rng = np.random.default_rng(3)
    click_rate = 0.1 + 0.8 * rng.random(n_links)
    return Visitors(click_rate, 4.0 * np.exp(-4.0 * click_rate), seed=3)


def check(policy: Policy, twin: FloorTwin, problem: Problem, atol: float = 1e-9) -> Counter[str]:
    """Compare every round; return how often each status was met."""
    seen: Counter[str] = Counter()
    visitors = visitors_of(problem.n_links)
    for _, ours, theirs in play_both(policy, twin, problem, visitors, N_ROUNDS):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol)
        seen[twin.status] += 1
    return seen


def width_of(n_links: int, horizon: int) -> float:
    return math.log(8 * n_links * horizon / DELTA)


@pytest.mark.parametrize(
    ("n_links", "n_slots", "floor", "statuses"),
    [
        (5, 2, 0.0, {"slack": 250}),
        (12, 3, 2.4, {"binding": 60}),
        (12, 3, 2.9, {"infeasible": 60}),
        (30, 4, 3.4, {"binding": 60}),
        (9, 9, 2.0, {"slack": 250}),
        (1, 1, 0.95, {"infeasible": 30}),
    ],
)
def test_kl_con_ucb(n_links: int, n_slots: int, floor: float, statuses: dict[str, int]) -> None:
    twin = KLConUCBTwin(n_links, n_slots, floor, width_of(n_links, 5))
    policy = KLConUCB(horizon=5, failure_probability=DELTA)
    seen = check(policy, twin, Problem(n_links, n_slots, floor))
    for status, n_rounds in statuses.items():
        assert seen[status] >= n_rounds, seen


def test_kl_con_ucb_with_memory() -> None:
    # a memory of at most 50 rounds looks at all links in every round, like its twin
    twin = KLConUCBTwin(12, 3, 2.4, width_of(12, 5), kept=1 - 1 / 50)
    policy = KLConUCB(horizon=5, failure_probability=DELTA, memory=50)
    assert check(policy, twin, Problem(12, 3, 2.4))["binding"] >= 20


def test_deficit_feedback() -> None:
    twin = DeficitTwin(12, 3, 2.0, width_of(12, 40), T=40)
    policy = KLConUCB(horizon=40, failure_probability=DELTA, deficit_feedback=True)
    assert check(policy, twin, Problem(12, 3, 2.0))["binding"] >= 60
    assert twin.wanted() > 2.0


@pytest.mark.parametrize(("n_links", "n_slots", "floor"), [(12, 3, 2.2), (30, 4, 3.2), (4, 4, 1.0)])
def test_anytime_con_ucb(n_links: int, n_slots: int, floor: float) -> None:
    twin = AnytimeConUCBTwin(n_links, n_slots, floor, math.log(8 * n_links / DELTA))
    policy = AnytimeConUCB(failure_probability=DELTA)
    seen = check(policy, twin, Problem(n_links, n_slots, floor))
    assert n_links == 4 or seen["binding"] >= 30, seen


@pytest.mark.parametrize(("n_links", "n_slots", "floor"), [(12, 3, 1.0), (30, 4, 1.2), (4, 4, 1.0)])
def test_safe_con_ucb(n_links: int, n_slots: int, floor: float) -> None:
    twin = SafeConUCBTwin(n_links, n_slots, floor, width_of(n_links, 5))
    policy = SafeConUCB(horizon=5, failure_probability=DELTA)
    seen = check(policy, twin, Problem(n_links, n_slots, floor))
    assert sum(n for status, n in seen.items() if status.startswith("hopeful")) >= 20
    assert n_links == 4 or seen["careful, binding"] >= 20, seen


@pytest.mark.parametrize(
    "policy",
    [
        ConUCB(gamma_scale=1 / 500),
        KLConUCB(failure_probability=DELTA),
        AnytimeConUCB(failure_probability=DELTA),
        SafeConUCB(failure_probability=DELTA),
    ],
    ids=lambda policy: policy.name,
)
def test_every_policy_asks_for_what_is_missing(policy: Any) -> None:
    """With feedback the floor that is kept is the one that the deficit asks for."""
    problem = Problem(20, 3, 1.5, horizon=400)
    fed_back = type(policy)(**{**vars(policy), "deficit_feedback": True})
    state: Any = fed_back.start(problem)
    visitors = Visitors(np.linspace(0.05, 0.6, 20), 2.0 * np.ones(20), seed=5)
    rng = np.random.default_rng(6)
    pages, clicks, n_raised = 0, 0.0, 0
    for _ in range(120):
        wanted = 1.5 + min(max(0.0, (1.5 * pages - clicks) / 20.0), 1.5 / 4)
        plain: Any = policy.restore(Problem(20, 3, wanted, horizon=400), fed_back.knowledge(state))
        type(policy).choose(plain, NOBODY, rng)
        type(fed_back).choose(state, NOBODY, rng)
        np.testing.assert_allclose(
            dense_probabilities(state.mix), dense_probabilities(plain.mix), rtol=0, atol=1e-9
        )
        page = visitors.answer(*draw(state, 3, rng))
        learn_page(fed_back, state, page)
        pages, clicks = pages + 1, clicks + page.clicks.sum()
        n_raised += wanted > 1.5
    assert n_raised > 30
