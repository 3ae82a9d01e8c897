"""Let any policy choose a page within the rules of a problem.

A policy that solves its own program has a `choose_within`; for one whose `rank` writes the scores
by which it takes its page, `by_scores` makes it: the best page within the rules at these scores.
One that samples keeps the links of its page as far as the rules allow, and fills the rest with the
links it ranks highest. All others keep the proportions of their probabilities
(`slotwise.selection.page_within_rules.project_within`). Used by `cucb`, `player` and `simulation`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slotwise.compile import hot, inner, loop_maker
from slotwise.policies.policy import Choose, ChooseWithin, Floats, Policy, Rank, State, Visitor
from slotwise.selection.mix import Mix, add_page
from slotwise.selection.page_rules import PageRules
from slotwise.selection.page_within_rules import best_within, project_within
from slotwise.selection.rounding import draw_by_groups


@inner
def _write_out(mix: Mix, probabilities: Floats) -> None:
    """Write the probability of every link."""
    probabilities[:] = 0.0
    add_page(mix, 1.0, probabilities)


@inner
def _boost(rules: PageRules, scores: Floats) -> None:
    for link in range(len(scores)):
        scores[link] *= rules.boost[link]


@loop_maker
def by_scores(choose: Choose, rank: Rank) -> ChooseWithin:
    """Return a `choose_within`: the best page within the rules at the scores of `rank`."""

    def choose_within(
        state: State, visitor: Visitor, rng: np.random.Generator, rules: PageRules
    ) -> None:
        choose(state, visitor, rng)
        rank(state, rules.every_link, rules.worth)
        _boost(rules, rules.worth)
        best_within(rules, rules.worth, rules.worth)

    return choose_within


@loop_maker
def _by_page(choose: Choose, rank: Rank) -> ChooseWithin:
    def choose_within(
        state: State, visitor: Visitor, rng: np.random.Generator, rules: PageRules
    ) -> None:
        choose(state, visitor, rng)
        rank(state, rules.every_link, rules.worth)
        _boost(rules, rules.worth)
        _write_out(state.mix, rules.probabilities)
        best_within(rules, rules.probabilities, rules.worth)

    return choose_within


@loop_maker
def _by_probabilities(choose: Choose) -> ChooseWithin:
    def choose_within(
        state: State, visitor: Visitor, rng: np.random.Generator, rules: PageRules
    ) -> None:
        choose(state, visitor, rng)
        _write_out(state.mix, rules.worth)
        _boost(rules, rules.worth)
        project_within(rules, rules.worth)

    return choose_within


def choosing_within(policy: type[Policy]) -> ChooseWithin:
    """Return `choose_within(state, visitor, rng, rules)` of a policy.

    It writes the probabilities of all links to `rules.probabilities`.
    """
    if policy.choose_within is not None:
        return policy.choose_within
    if policy.samples:
        return _by_page(policy.choose, policy.rank)
    return _by_probabilities(policy.choose)


@hot
def draw_within(rules: PageRules, rng: Any, shown: Any, drawn_with: Floats) -> None:
    """Draw a page with the probabilities in `rules`; integer rules hold on every page."""
    left = rules.other_page
    draw_by_groups(rules.probabilities, rules.links, rules.ends, left, rng, shown, drawn_with)
