"""A page for many views of a policy whose pages are meant to follow each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.policies.contract import NO_SLOTS, Floats, Policy
from slotwise.problem import Problem, whole_number
from slotwise.selection.compiled import direct
from slotwise.selection.rounding import draw_page
from slotwise.selection.vectors.uniforms import bits_of

__all__ = ["average_ahead", "expect_views"]


def expect_views(
    policy: Policy,
    state: Any,
    views: Floats,
    rates: Floats,
    visitors: NDArray[np.int64] | None = None,
) -> None:
    """Let a state learn what views that are still open are expected to bring.

    `views` and `rates` have a row for each level and a column for each link. The views are taken
    to be those of `visitors`, a row each, in equal parts: by default of such as the state has
    seen.
    """
    who = policy.visitors_seen(state) if visitors is None else visitors
    different, counts = np.unique(who, axis=0, return_counts=True)
    for level in range(len(views)):
        links = np.flatnonzero(views[level] > 0.0)
        certain = np.ones(len(links))
        for visitor, share in zip(different, counts / len(who), strict=True):
            if len(links):
                n_views = views[level, links] * share
                outcomes = n_views * rates[level, links]
                type(policy).learn(
                    state, visitor, level, links, NO_SLOTS, certain, n_views, outcomes
                )


def average_ahead(
    policy: Policy,
    problem: Problem,
    state: Any,
    rates: Floats,
    rng: np.random.Generator,
    n_rounds: int = 128,
    visitors: NDArray[np.int64] | None = None,
) -> Floats:
    """Return the average page over the next rounds of the policy if every link brought its rate.

    A queue moves the price of clicks with every round, so a page of it is one step of a walk
    around the best mix and no plan for the thousand views until the next feedback. Its rounds
    ahead are: each is chosen by the policy itself, and taught what the estimated `rates` (a row
    for each level) say it brings, as batches of bandits are planned with imagined feedback
    (Desautels, Krause and Burdick 2014). The state is left as it is.

    The rounds are those of `visitors`, a row each, in turn: by default of such as the state has
    seen.

    >>> from slotwise.policies import PacedKL
    >>> problem = Problem(n_links=3, n_slots=1, click_floor=0.3)
    >>> state = PacedKL().start(problem)
    >>> views, rates = np.full((2, 3), 1e4), np.array([[0.1, 0.5, 0.3], [0.1, 0.0, 0.0]])
    >>> expect_views(PacedKL(), state, views, rates)
    >>> rng = np.random.default_rng(1)
    >>> average_ahead(PacedKL(), problem, state, rates, rng, n_rounds=2_000).round(1).tolist()
    [0.5, 0.5, 0.0]
    """
    n_rounds = whole_number("n_rounds", n_rounds, at_least=1)
    ahead: Any = policy.restore(problem, policy.knowledge(state))
    who = np.ascontiguousarray(policy.visitors_seen(state) if visitors is None else visitors)
    page, probabilities = np.zeros(problem.n_slots, np.int64), np.zeros(problem.n_slots)
    one_view = np.ones(problem.n_slots)
    choose = direct(type(policy).choose, ahead, who[0], rng)
    bits = bits_of(rng)
    draw = direct(draw_page, ahead.mix, bits, page, probabilities)
    learn = direct(
        type(policy).learn, ahead, who[0], 0, page, NO_SLOTS, probabilities, one_view, one_view
    )
    n_shown = np.zeros(problem.n_links)
    for k in range(n_rounds):
        visitor = who[k % len(who)]
        choose(ahead, visitor, rng)
        draw(ahead.mix, bits, page, probabilities)
        n_shown[page] += 1.0
        for level in range(problem.n_levels):
            brought = rates[level, page]
            learn(ahead, visitor, level, page, NO_SLOTS, probabilities, one_view, brought)
    return n_shown / n_rounds
