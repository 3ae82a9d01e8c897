"""Play a policy and its twin side by side on the same feedback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.compile import switching
from slotwise.policies import LinkFeedback, Policy
from slotwise.policies.policy import NO_SLOTS, NOBODY
from slotwise.problem import Problem
from slotwise.selection import dense_probabilities, draw_page
from tests.reference.policies import Twin

Floats = NDArray[np.float64]
Links = NDArray[np.int64]


class Page(NamedTuple):
    """The links shown, the probability of each, and what each brought."""

    shown: Links
    chances: Floats
    clicks: Floats
    revenue: Floats


class Visitors:
    """Click a link with its click rate; a click brings a random share of [0, 1]."""

    def __init__(self, click_rate: Floats, per_click: Floats, seed: int) -> None:
        self.click_rate, self.per_click = click_rate, per_click
        self.rng = np.random.default_rng(seed)

    def answer(self, shown: Links, chances: Floats) -> Page:
        clicks = (self.rng.random(len(shown)) < self.click_rate[shown]).astype(np.float64)
        share = 1.0 - self.rng.random(len(shown)) ** self.per_click[shown]
        return Page(shown, chances, clicks, clicks * share)


def draw(state: Any, n_slots: int, rng: np.random.Generator) -> tuple[Links, Floats]:
    """Return a page drawn from the state's mix and the probability of each link on it."""
    shown, chances = np.zeros(n_slots, np.int64), np.zeros(n_slots)
    switching(draw_page)(state.mix, rng, shown, chances)
    return shown, chances


def learn_page(policy: Policy, state: Any, page: Page) -> None:
    once = np.ones(len(page.shown))
    learn = switching(type(policy).learn)
    learn(state, NOBODY, 0, LinkFeedback(page.shown, NO_SLOTS, page.chances, once, page.clicks))
    learn(state, NOBODY, 1, LinkFeedback(page.shown, NO_SLOTS, page.chances, once, page.revenue))


def play_both(
    policy: Policy, twin: Twin, problem: Problem, visitors: Visitors, n_rounds: int
) -> Iterator[tuple[Any, Floats, Floats]]:
    """Yield each round's state and the two answers, then go on with the policy's page."""
    rng = np.random.default_rng(17)
    state: Any = policy.start(problem)
    for _ in range(n_rounds):
        switching(type(policy).choose)(state, NOBODY, rng)
        yield state, dense_probabilities(state.mix), twin.probabilities()
        page = visitors.answer(*draw(state, problem.n_slots, rng))
        learn_page(policy, state, page)
        twin.learn(*page)
