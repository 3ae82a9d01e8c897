"""The laws of a policy about slots, a part of `PolicyContract`."""

from __future__ import annotations

from typing import Any

import numpy as np

from slotwise.compile import switching
from slotwise.policies import NOBODY, Policy
from slotwise.problem import Problem
from slotwise.selection import dense_probabilities, draw_page

PAGE = Problem(n_links=7, n_slots=3, click_floor=1.2, horizon=400)
EXPOSURE = np.array([2.4, 0.5, 0.1])
"""Views as they count in slots that differ much: a click on the last is more than its view."""


class SlotLaws:
    """Links of a page can be ranked; views may count as any part of a view."""

    def make_policy(self, problem: Problem) -> Policy:
        """Return the policy under test, for this problem."""
        raise NotImplementedError

    def play_with_slots(self) -> tuple[Policy, Any]:
        """Return a policy and a state that has learned from slots that differ."""
        policy = self.make_policy(PAGE).for_problem(PAGE)
        state: Any = policy.start(PAGE)
        rng = np.random.default_rng(8)
        shown, probabilities = np.zeros(3, np.int64), np.zeros(3)
        for _ in range(60):
            switching(type(policy).choose)(state, NOBODY, rng)
            switching(draw_page)(state.mix, rng, shown, probabilities)
            outcomes = (rng.random(3) < 0.6).astype(np.float64)
            for level in range(PAGE.n_levels):
                switching(type(policy).learn)(
                    *(state, NOBODY, level, shown, np.arange(3)),
                    *(probabilities, EXPOSURE, outcomes * 0.5**level),
                )
        return policy, state

    def test_outcomes_may_exceed_views(self) -> None:
        policy, state = self.play_with_slots()
        switching(type(policy).choose)(state, NOBODY, np.random.default_rng(1))
        page = dense_probabilities(state.mix)
        assert np.isfinite(page).all()
        assert abs(page.sum() - PAGE.n_slots) < 1e-9
        for name, array in policy.knowledge(state).items():
            assert np.isfinite(array).all(), name

    def test_ranking_links_is_repeatable_and_teaches_nothing(self) -> None:
        policy, state = self.play_with_slots()
        switching(type(policy).choose)(state, NOBODY, np.random.default_rng(1))
        before = policy.knowledge(state)
        links = np.arange(PAGE.n_links)
        first, again = np.full(PAGE.n_links, np.nan), np.full(PAGE.n_links, np.nan)
        switching(type(policy).rank)(state, links, first)
        switching(type(policy).rank)(state, links[::-1].copy(), again)
        assert np.isfinite(first).all()
        assert np.array_equal(first, again[::-1])
        for name, array in policy.knowledge(state).items():
            assert np.array_equal(array, before[name]), name
