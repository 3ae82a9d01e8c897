"""The laws of a policy about visitors, a part of `PolicyContract`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.compile import switching
from slotwise.policies import NO_SLOTS, Policy
from slotwise.problem import Problem
from slotwise.selection import dense_probabilities, draw_page

PAGE = Problem(n_links=7, n_slots=3, click_floor=1.2, horizon=400, feature_sizes=(2, 3))
EVERYBODY = [np.array([one, 2 + other], np.int64) for one in range(2) for other in range(3)]
"""All visitors of that problem: a value of the first feature, a value of the second."""


class VisitorLaws:
    """Every visitor gets a page, asking for it teaches nothing, what is known can be saved."""

    def make_policy(self, problem: Problem) -> Policy:
        """Return the policy under test, for this problem."""
        raise NotImplementedError

    def started(self) -> tuple[Policy, Any]:
        """Return the policy for visitors, and a state that has met each of them."""
        policy = self.make_policy(PAGE).for_problem(PAGE)
        state = policy.start(PAGE)
        self.play_with_visitors(policy, state)
        return policy, state

    def play_with_visitors(self, policy: Policy, state: Any, n_rounds: int = 60) -> None:
        """Show pages to visitors in turn, each known to the policy, and learn from them."""
        rng = np.random.default_rng(3)
        shown, probabilities, once = np.zeros(3, np.int64), np.zeros(3), np.ones(3)
        for k in range(n_rounds):
            visitor = EVERYBODY[k % len(EVERYBODY)]
            switching(type(policy).choose)(state, visitor, rng)
            switching(draw_page)(state.mix, rng, shown, probabilities)
            outcomes = (rng.random(3) < 0.1 + 0.1 * shown).astype(np.float64)
            for level in range(PAGE.n_levels):
                switching(type(policy).learn)(
                    state, visitor, level, shown, NO_SLOTS, probabilities, once, outcomes
                )
                outcomes = 0.5 * outcomes

    def pages_for_everybody(self, policy: Policy, state: Any) -> NDArray[np.float64]:
        """Return the probabilities of every link for every visitor, a row for each."""
        pages = []
        for visitor in EVERYBODY:
            switching(type(policy).choose)(state, visitor, np.random.default_rng(2))
            pages.append(dense_probabilities(state.mix))
        return np.array(pages)

    def test_every_visitor_gets_a_page_and_asking_for_it_teaches_nothing(self) -> None:
        policy, state = self.started()
        before = policy.knowledge(state)
        pages = self.pages_for_everybody(policy, state)
        assert pages.min() >= 0.0
        assert pages.max() <= 1.0
        np.testing.assert_allclose(pages.sum(axis=1), PAGE.n_slots, rtol=0, atol=1e-9)
        for name, array in policy.knowledge(state).items():
            assert np.array_equal(array, before[name]), name

    def test_what_is_known_of_visitors_survives_saving(self) -> None:
        policy, state = self.started()
        loaded = policy.restore(PAGE, policy.knowledge(state))
        pages = self.pages_for_everybody(policy, loaded)
        if not policy.samples:
            expected = self.pages_for_everybody(policy, state)
            np.testing.assert_allclose(pages, expected, rtol=0, atol=1e-9)
        self.play_with_visitors(policy, loaded, n_rounds=12)
        pages = self.pages_for_everybody(policy, loaded)
        assert pages.sum() == pytest.approx(len(EVERYBODY) * PAGE.n_slots, abs=1e-6)
