"""Pages of any policy: the rest of a page with pins and exclusions, and pages of rounds ahead.

Used by `player` and `service`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.compile import code_for, switching
from slotwise.errors import InvalidInput
from slotwise.policies.policy import (
    NO_SLOTS,
    Estimates,
    Floats,
    Links,
    Policy,
    check_page,
    is_own,
)
from slotwise.policies.within_rules import choosing_within
from slotwise.problem import Problem, whole_number
from slotwise.selection.mix import dense_probabilities
from slotwise.selection.page_rules import PageRules
from slotwise.selection.rounding import draw_by_groups, draw_page
from slotwise.selection.several_floors import solve_floors
from slotwise.selection.solve import solve
from slotwise.selection.uniforms import chance_of

KEPT_FLOOR = 1e-9
"""The rest of a floor that the pinned links keep: the policy still has a queue for it."""


def rest_of_page(
    policy: Policy,
    state: Any,
    problem: Problem,
    *,
    free: Links,
    n_slots: int,
    pinned: Links,
    rates: Floats,
    page_of: Callable[[Any, Problem], Floats],
) -> Floats:
    """Return the probabilities of the `free` links on the `n_slots` slots that pins leave.

    A policy that solves the floor program solves it again for these links, with its estimates of
    the pinned links subtracted from its floors. Any other policy is moved to the rest of the page,
    with floors lowered by the pinned links' `rates` (a row for each level), and `page_of` returns
    its page there. A mix that is given link by link is scaled.
    """
    estimates = policy.estimates(state)
    if estimates is not None:
        return solve_rest(estimates, problem, free, n_slots, pinned)
    try:
        rest = _problem_left(problem, len(free), n_slots, rates[:, pinned].sum(axis=1))
        return page_of(policy.move(state, rest, free), rest)
    except InvalidInput:
        return fill_slots(page_of(state, problem)[free], n_slots)


def solve_rest(
    estimates: Estimates, problem: Problem, free: Links, n_slots: int, pinned: Links
) -> Floats:
    """Return the best mix for the rest of the page under these estimates."""
    demands = estimates.demands
    if demands is not None and len(demands):
        least = np.array([floor.least for floor in problem.active_floors])
        left = (least - demands[:, pinned].sum(axis=1)).clip(min=0.0)
        return solve_floors(estimates.value[free], demands[:, free], n_slots, left).probabilities
    # weighted rewards may exceed 1; only their order matters
    value = estimates.value[free] / max(1.0, float(estimates.value[free].max()))
    floor_left = max(0.0, problem.click_floor - float(estimates.clicks[pinned].sum()))
    return solve(value, estimates.clicks[free], n_slots, floor_left).probabilities


def _problem_left(problem: Problem, n_links: int, n_slots: int, brought: Floats) -> Problem:
    """Return the problem of the rest; a floor that it cannot reach is lowered to its slots."""
    most = float(np.nextafter(n_slots, 0))
    floors = {
        level: min(max(least - brought[problem.levels.index(level)], KEPT_FLOOR * least), most)
        for level, least in problem.floors.items()
    }
    click_floor = floors.pop(problem.levels[0])
    page = replace(problem, slot_weights=())  # before it has fewer slots than weights
    return replace(page, n_links=n_links, n_slots=n_slots, click_floor=click_floor, floors=floors)


def fill_slots(weights: Floats, n_slots: int) -> Floats:
    """Return probabilities in proportion to `weights`, capped at 1, that sum to `n_slots`.

    >>> fill_slots(np.array([0.6, 0.2, 0.2]), 2).tolist()
    [1.0, 0.5, 0.5]
    >>> fill_slots(np.array([1.0, 0.0, 0.0]), 2).tolist()
    [1.0, 0.5, 0.5]
    """
    probabilities = np.zeros(len(weights))
    capped = np.zeros(len(weights), dtype=bool)
    while True:
        rest = ~capped
        left = n_slots - int(capped.sum())
        total = weights[rest].sum()
        if total > 0:
            probabilities[rest] = weights[rest] * (left / total)
        else:
            probabilities[rest] = left / max(1, int(rest.sum()))
        over = rest & (probabilities >= 1.0)
        probabilities[over] = 1.0
        if not over.any():
            return probabilities
        capped |= over


def expect_views(
    policy: Policy,
    state: Any,
    views: Floats,
    rates: Floats,
    visitors: NDArray[np.int64] | None = None,
) -> None:
    """Let a state learn the expected outcomes of open views.

    `views` and `rates` have a row for each level and a column for each link. The views are assigned
    to `visitors`, a row each, in equal parts: by default visitors like those the state has seen.
    """
    who = policy.visitors_seen(state) if visitors is None else visitors
    different, counts = np.unique(who, axis=0, return_counts=True)
    learn = switching(type(policy).learn)
    for level in range(len(views)):
        links = np.flatnonzero(views[level] > 0.0)
        certain = np.ones(len(links))
        for visitor, share in zip(different, counts / len(who), strict=True):
            if len(links):
                n_views = views[level, links] * share
                outcomes = n_views * rates[level, links]
                learn(state, visitor, level, links, NO_SLOTS, certain, n_views, outcomes)


def average_probabilities(
    policy: Policy,
    state: Any,
    rng: np.random.Generator,
    n_draws: int = 1_000,
    visitors: NDArray[np.int64] | None = None,
    rules: PageRules | None = None,
    n_slots: int | None = None,
) -> Floats:
    """Return the average page over `n_draws` choices of the policy for each of some visitors.

    `visitors` has a row each: by default like those the state has seen. With `rules` each choice is
    a page within them, and so is the average. With `n_slots` the pages of policies of other
    packages are checked.

    A sampling policy's page is deterministic given its sample, so its own probabilities are 1 for
    every link shown. Where propensities are logged, publish this average and round it: then the
    logged probability of a link is exactly the one it was shown with. One choice is enough for a
    policy that does not sample.

    >>> from slotwise.policies import QueueTS
    >>> from slotwise.problem import Problem
    >>> problem = Problem(n_links=4, n_slots=2)
    >>> state = QueueTS().start(problem)
    >>> average = average_probabilities(QueueTS(), state, np.random.default_rng(1))
    >>> average.round(1).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    n_draws = whole_number("n_draws", n_draws, at_least=1) if policy.samples else 1
    who = policy.visitors_seen(state) if visitors is None else visitors
    different, counts = np.unique(who, axis=0, return_counts=True)
    total = np.zeros(len(state.mix.sure))
    choose, chosen_by = switching(type(policy).choose), policy.rng_of_choice(rng)
    within = switching(choosing_within(type(policy)))
    is_foreign = not is_own(policy.choose)
    for visitor, share in zip(different, counts / len(who), strict=True):
        for _ in range(n_draws):
            if rules is None:
                choose(state, visitor, chosen_by)
                if n_slots is not None and is_foreign:
                    check_page(policy, state.mix, n_slots)
                total += share * dense_probabilities(state.mix)
            else:
                within(state, visitor, chosen_by, rules)
                total += share * rules.probabilities
    return (total / n_draws).clip(0.0, 1.0)


def average_ahead(
    policy: Policy,
    problem: Problem,
    state: Any,
    rates: Floats,
    rng: np.random.Generator,
    n_rounds: int = 128,
    visitors: NDArray[np.int64] | None = None,
    rules: PageRules | None = None,
) -> Floats:
    """Return the average page over the next rounds of the policy if outcomes equal the `rates`.

    A queue moves the price of clicks with every round, so a single page is one step around the best
    mix and not suitable for the thousand views until the next feedback. The average over simulated
    rounds is: each page is chosen by the policy itself, and the policy learns its outcomes at the
    estimated `rates` (a row for each level), as batches of bandits are planned with hallucinated
    feedback (Desautels, Krause and Burdick 2014). The state is not changed.

    The rounds are those of `visitors`, a row each, in turn: by default like those the state has
    seen. Within `rules` the average is that of the probabilities, so that the rules hold for it.

    >>> from slotwise.policies import PacedBayes
    >>> problem = Problem(n_links=3, n_slots=1, click_floor=0.3)
    >>> state = PacedBayes().start(problem)
    >>> views, rates = np.full((2, 3), 1e4), np.array([[0.1, 0.5, 0.3], [0.1, 0.0, 0.0]])
    >>> expect_views(PacedBayes(), state, views, rates)
    >>> rng = np.random.default_rng(1)
    >>> average_ahead(PacedBayes(), problem, state, rates, rng, n_rounds=2_000).round(1).tolist()
    [0.5, 0.5, 0.0]
    """
    n_rounds = whole_number("n_rounds", n_rounds, at_least=1)
    ahead: Any = policy.restore(problem, policy.knowledge(state))
    who = np.ascontiguousarray(policy.visitors_seen(state) if visitors is None else visitors)
    page, probabilities = np.zeros(problem.n_slots, np.int64), np.zeros(problem.n_slots)
    one_view = np.ones(problem.n_slots)
    chosen_by = policy.rng_of_choice(rng)
    chance = chance_of(rng)
    parts: tuple[Any, ...] = ()
    if rules is None:
        choose = code_for(type(policy).choose, ahead, who[0], chosen_by)
        drawn_from: tuple[Any, ...] = (ahead.mix,)
        draw = code_for(draw_page, *drawn_from, chance, page, probabilities)
    else:
        parts = (rules,)
        choose = code_for(choosing_within(type(policy)), ahead, who[0], chosen_by, rules)
        drawn_from = (rules.probabilities, rules.links, rules.ends, rules.other_page)
        page, probabilities = page[: rules.n_slots], probabilities[: rules.n_slots]
        one_view = one_view[: rules.n_slots]
        draw = code_for(draw_by_groups, *drawn_from, chance, page, probabilities)
    learn = code_for(
        type(policy).learn, ahead, who[0], 0, page, NO_SLOTS, probabilities, one_view, one_view
    )
    shown = np.zeros(problem.n_links)
    is_checked = rules is None and not is_own(policy.choose)
    for k in range(n_rounds):
        visitor = who[k % len(who)]
        choose.call(ahead, visitor, chosen_by, *parts)
        if is_checked:
            check_page(policy, ahead.mix, problem.n_slots)
        draw.call(*drawn_from, chance, page, probabilities)
        if rules is None:
            shown[page] += 1.0
        else:
            shown += rules.probabilities
        for level in range(problem.n_levels):
            brought = rates[level, page]
            learn.call(ahead, visitor, level, page, NO_SLOTS, probabilities, one_view, brought)
    return shown / n_rounds
